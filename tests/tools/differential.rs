//! Random calls on the notebook and on AgentScope's own, each pair from the same state: wherever the two differ, the difference
//! is one of those that were decided. `tests/conformance/plan-notebook.md` lists them as AS-1 and so on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use plan_agent::tools::Toolbox;
use plan_agent::tools::notebook::PlanNotebook;
use serde_json::{Map, Value, json};

use super::agentscope::script;
use crate::common::env::{skip, times};
use crate::common::random::Random;

const LIST: &str = include_str!("../conformance/plan-notebook.md");

/// Calls in a sequence.
const CALLS: usize = 14;

/// AgentScope's notebook, a process that takes one call after the other.
struct Theirs {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Theirs {
    fn start() -> Result<Self, String> {
        let mut script = script()?;
        script
            .arg("steps")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = script.spawn().map_err(|error| error.to_string())?;
        let (stdin, stdout) = (
            process.stdin.take().unwrap(),
            process.stdout.take().unwrap(),
        );
        let stdout = BufReader::new(stdout);
        Ok(Self {
            process,
            stdin,
            stdout,
        })
    }

    fn call(&mut self, state: &Value, tool: &str, arguments: &Value) -> Value {
        let call = json!({"state": state, "tool": tool, "arguments": arguments});
        writeln!(self.stdin, "{call}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {call}: {line}"))
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the states of the current plan's subtasks.
fn states(state: &Value) -> Vec<&str> {
    let subtasks = state
        .pointer("/current_plan/subtasks")
        .and_then(Value::as_array);
    subtasks
        .into_iter()
        .flatten()
        .map(|it| text(it, "/state"))
        .collect()
}

/// Returns a call whose arguments mostly fit.
fn call(random: &mut Random, state: &Value) -> (&'static str, Value) {
    let count = i64::try_from(states(state).len()).unwrap();
    let index = i64::try_from(random.below(count.unsigned_abs() + 3)).unwrap() - 1;
    let index = match random.below(3) {
        0 => index,
        // Where work is going on.
        _ => {
            let open = states(state)
                .iter()
                .position(|it| ["todo", "in_progress"].contains(it));
            open.map_or(index, |at| i64::try_from(at).unwrap())
        }
    };
    let subtask = |random: &mut Random| {
        let words = [
            "todo",
            "todo",
            "todo",
            "todo",
            "in_progress",
            "done",
            "abandoned",
        ];
        let mut subtask = json!({"name": "s", "description": "d", "expected_outcome": "e"});
        if random.below(3) == 0 {
            subtask["state"] = (*random.of(&words)).into();
        }
        subtask
    };
    match random.below(if count == 0 { 8 } else { 20 }) {
        0 | 1 | 2 if count == 0 || random.below(3) == 0 => {
            let subtasks: Vec<Value> = (0..random.below(5)).map(|_| subtask(random)).collect();
            let plan = json!({"name": "P", "description": "d", "expected_outcome": "e", "subtasks": subtasks});
            ("create_plan", plan)
        }
        3 | 4 => {
            let end = *random.of(&["done", "done", "abandoned", "abandoned", "todo", "finished"]);
            ("finish_plan", json!({"state": end, "outcome": "o"}))
        }
        5 => {
            let ids = state["storage"]["plans"].as_object().unwrap().keys();
            let ids: Vec<&str> = ids.map(String::as_str).chain(["unknown"]).collect();
            (
                "recover_historical_plan",
                json!({"plan_id": random.of(&ids)}),
            )
        }
        6 => ("view_subtasks", json!({"subtask_idx": [index, 0]})),
        7 => ("view_historical_plans", json!({})),
        0 | 1 | 8..=11 => {
            let words = [
                "todo",
                "in_progress",
                "in_progress",
                "in_progress",
                "abandoned",
                "done",
                "x",
            ];
            (
                "update_subtask_state",
                json!({"subtask_idx": index, "state": random.of(&words)}),
            )
        }
        2 | 12..=15 => (
            "finish_subtask",
            json!({"subtask_idx": index, "subtask_outcome": "r"}),
        ),
        _ => {
            let action = *random.of(&["add", "revise", "delete"]);
            let mut arguments = json!({"subtask_idx": index, "action": action});
            if random.below(8) > 0 {
                arguments["subtask"] = subtask(random);
            }
            ("revise_current_plan", arguments)
        }
    }
}

/// Returns whether AgentScope's answer says that nothing was done.
fn refuses(said: &str) -> bool {
    let begins = [
        "Error:",
        "Invalid ",
        "Cannot ",
        "There is no plan",
        "raised:",
    ];
    begins.iter().any(|begin| said.starts_with(begin))
        || said.contains("is not done yet")
        || said.contains("is already 'in_progress'")
}

/// Returns the stage of a hint, AgentScope's or ours.
fn stage(hint: &str) -> &'static str {
    let stages = [
        ("none", ["If the user's query", "There is no plan."]),
        (
            "beginning",
            ["Mark the first subtask", "No subtask has been done yet."],
        ),
        ("working", ["Now the subtask at index", "is in progress:"]),
        (
            "between",
            [
                "there is no subtask 'in_progress'",
                "and none is in progress.",
            ],
        ),
        (
            "end",
            ["All the subtasks are done", "Nothing is left to do:"],
        ),
    ];
    let found = stages
        .iter()
        .find(|(_, parts)| parts.iter().any(|part| hint.contains(part)));
    found.map_or("?", |(stage, _)| stage)
}

/// Returns what is compared of a state: no moments, only whether something has ended; the plan that the call made is `new`.
fn compared(state: &Value, before: &Value) -> BTreeMap<String, Value> {
    let known = |id: &str| {
        text(before, "/current_plan/id") == id || before["storage"]["plans"].get(id).is_some()
    };
    let mut all = BTreeMap::new();
    let mut add = |place: &str, item: &Value| {
        all.insert(format!("{place}/state"), item["state"].clone());
        all.insert(
            format!("{place}/finished"),
            (!item["finished_at"].is_null()).into(),
        );
        let reason = item["outcome"]
            .as_str()
            .filter(|text| text.contains("interrupted"));
        all.insert(
            format!("{place}/outcome"),
            reason.map_or(item["outcome"].clone(), |_| "interrupted".into()),
        );
        for key in ["name", "description", "expected_outcome"] {
            all.insert(format!("{place}/{key}"), item[key].clone());
        }
    };
    let plans = state["storage"]["plans"].as_object().unwrap().values();
    let plans = plans.map(|plan| (format!("history/{}", text(plan, "/id")), plan));
    let current = Some(&state["current_plan"]).filter(|plan| !plan.is_null());
    for (place, plan) in plans.chain(current.map(|plan| ("current".to_owned(), plan))) {
        add(&place, plan);
        for (at, subtask) in plan["subtasks"].as_array().unwrap().iter().enumerate() {
            add(&format!("{place}/{at}"), subtask);
        }
    }
    if let Some(id) = current.map(|plan| text(plan, "/id")) {
        let id = if known(id) { id } else { "new" };
        all.insert("current/id".to_owned(), id.into());
    }
    all
}

/// What is known of a call before it.
struct Before<'a> {
    tool: &'a str,
    arguments: &'a Value,
    states: Vec<&'a str>,
    plan: &'a str,
}

impl Before<'_> {
    fn at(&self) -> i64 {
        self.arguments["subtask_idx"].as_i64().unwrap_or_default()
    }

    fn state(&self) -> &str {
        let at = usize::try_from(self.at()).ok();
        at.and_then(|at| self.states.get(at))
            .copied()
            .unwrap_or_default()
    }

    fn word(&self, key: &str) -> &str {
        self.arguments[key].as_str().unwrap_or_default()
    }

    /// Returns why only one of the two refuses the call.
    fn refusal(&self, ours: bool) -> Option<&'static str> {
        let settled = ["done", "abandoned"].contains(&self.state());
        match (self.tool, ours) {
            ("create_plan", true) => Some("AS-9"),
            ("finish_subtask", true) if self.state() != "in_progress" => Some("AS-2"),
            ("update_subtask_state", false) if self.state() == "in_progress" => Some("AS-13"),
            ("revise_current_plan", true) => match self.word("action") {
                "revise" | "delete" if self.at() < 0 => Some("AS-6"),
                "revise" if settled || self.arguments["subtask"].get("state").is_some() => {
                    Some("AS-11")
                }
                "delete" if self.states.len() == 1 => Some("AS-12"),
                "add" if text(self.arguments, "/subtask/state") == "in_progress" => Some("AS-9"),
                _ => None,
            },
            ("finish_plan", true) => match self.word("state") {
                "done" if self.states.iter().all(|it| *it == "abandoned") => Some("AS-15"),
                "abandoned" => None,
                _ => Some("AS-7"),
            },
            ("recover_historical_plan", true) => Some("AS-18"),
            _ => None,
        }
    }

    /// Returns why a place of the state differs after the call.
    fn place(&self, place: &str) -> Option<&'static str> {
        let at = format!("current/{}/", self.at());
        let of_it = place.starts_with(&at);
        match self.tool {
            "create_plan" if place.starts_with("history/") => Some("AS-1"),
            "create_plan" | "revise_current_plan"
                if place.ends_with("/finished") && place != "current/finished" =>
            {
                Some("AS-16")
            }
            "finish_plan" if self.word("state") == "abandoned" => {
                let open = place
                    .rsplit('/')
                    .nth(1)?
                    .parse()
                    .ok()
                    .and_then(|at: usize| self.states.get(at))?;
                ["todo", "in_progress"].contains(open).then_some("AS-17")
            }
            "recover_historical_plan" if place.starts_with("current/") => Some("AS-19"),
            "finish_subtask" | "update_subtask_state" | "revise_current_plan"
                if ["current/state", "current/outcome", "current/finished"].contains(&place) =>
            {
                Some(if ["done", "abandoned"].contains(&self.plan) {
                    "AS-21"
                } else {
                    "AS-4"
                })
            }
            "finish_subtask" if !of_it => Some("AS-3"),
            "update_subtask_state" if of_it && self.word("state") == "abandoned" => {
                place.ends_with("/finished").then_some("AS-16")
            }
            "update_subtask_state" if of_it => Some("AS-5"),
            "update_subtask_state" if self.word("state") == "todo" => Some("AS-14"),
            "revise_current_plan" if self.word("action") == "revise" && of_it => Some("AS-11"),
            "revise_current_plan" if self.word("action") == "add" => Some("AS-14"),
            _ => None,
        }
    }
}

/// Makes a call on both, and returns the decided differences between them with our state after it.
async fn differences(
    theirs: &mut Theirs,
    random: &mut Random,
    ours: &PlanNotebook,
) -> BTreeSet<&'static str> {
    let state = ours.state_dict().await.unwrap();
    let (tool, arguments) = call(random, &state);
    let said = theirs.call(&state, tool, &arguments);
    let answer = ours.call(tool, arguments.clone()).await;
    let after = ours.state_dict().await.unwrap();
    let before = Before {
        tool,
        arguments: &arguments,
        states: states(&state),
        plan: text(&state, "/current_plan/state"),
    };
    let told = || {
        format!(
            "{tool} {arguments}\non {state}\nours: {}\n{after}\ntheirs: {said}",
            answer.value
        )
    };
    let mut found = BTreeSet::new();
    let theirs_refuses = refuses(text(&said, "/said"));
    if answer.success == theirs_refuses {
        let why = before.refusal(!answer.success);
        found.insert(why.unwrap_or_else(|| panic!("only one refuses: {}", told())));
        return found;
    }
    let (mine, other) = (compared(&after, &state), compared(&said["state"], &state));
    let places: BTreeSet<&String> = mine.keys().chain(other.keys()).collect();
    for place in places
        .into_iter()
        .filter(|place| mine.get(*place) != other.get(*place))
    {
        let why = before.place(place);
        found.insert(why.unwrap_or_else(|| panic!("{place} differs: {}", told())));
    }
    if states(&after) == states(&said["state"]) {
        let hint = ours.get_current_hint().await.unwrap().unwrap().content;
        let stages = (stage(&hint), stage(text(&said, "/hint")));
        if stages.0 != stages.1 {
            let all_abandoned = states(&after).iter().all(|it| *it == "abandoned");
            assert!(
                all_abandoned && stages == ("end", "beginning"),
                "{stages:?}: {}",
                told()
            );
            found.insert("AS-8");
        }
    }
    found
}

#[tokio::test]
async fn random_calls_differ_from_agentscope_only_as_decided() {
    let mut theirs = match Theirs::start() {
        Ok(theirs) => theirs,
        Err(why) => return skip(&why),
    };
    let sequences = times(60, 3000);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..sequences {
        let mut random = Random::new(seed);
        let notebook = PlanNotebook::new(Toolbox::in_memory().await.unwrap());
        for _ in 0..CALLS {
            for id in differences(&mut theirs, &mut random, &notebook).await {
                *seen.entry(id).or_default() += 1;
            }
        }
    }
    crate::common::env::row(&seen);
    let listed = |id: &str| LIST.contains(&format!("\n| {id} |"));
    assert!(seen.keys().all(|id| listed(id)), "{seen:?}");
    // A difference that no run shows any more is to be taken off the list, unless another test shows it.
    let shown = LIST
        .lines()
        .filter(|line| line.starts_with("| AS-") && line.contains("random_calls_differ"));
    let shown: Map<String, Value> = shown
        .map(|line| (line.split(' ').nth(1).unwrap().to_owned(), json!(0)))
        .collect();
    assert!(
        sequences < 3000 || shown.keys().all(|id| seen.contains_key(&**id)),
        "{seen:?}, {shown:?}"
    );
}
