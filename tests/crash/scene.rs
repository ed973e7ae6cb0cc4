//! A scene: a plan, the agent's result of each attempt, and the model's answers. No part depends on ids, moments or order, so
//! that a disturbed run and a calm one can be compared.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::common::llm::{Answer, Asked};

/// The goal of the plan with a number; the model's questions have it.
const GOAL: &str = "Everything is done, way ";

/// A plan and its actors, or several plans of the same shape that are carried out together.
#[derive(Clone)]
pub struct Scene {
    plan: String,
    /// The folder of each plan; the usual one if empty.
    pub folders: Vec<&'static str>,
    /// Reports of each plan.
    pub reports: usize,
    /// Those of them that are finished only while no daemon runs.
    pub while_dead: usize,
    /// Tasks that have a lock which is the same in all plans.
    pub locked: fn(u32) -> bool,
    pub act: fn(u32, u32) -> Act,
    pub verdict: fn(u32, u32) -> Value,
    pub edits: Value,
}

/// The agent's result in an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    pub way: Way,
    /// The status of the report; without one the report cannot be read.
    pub status: Option<&'static str>,
}

/// How a command is claimed and its report is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Claimed by a rename; the report was finished a while ago and arrives by a rename.
    Usual,
    /// The report has just been written.
    Fresh,
    /// The report is written in its place, a byte at a time.
    InPlace,
    /// The command stays where it is until the report exists.
    Unclaimed,
    /// The same report arrives under both names that the protocol knows.
    Twice,
    /// The report is finished while no daemon runs.
    WhileDead,
}

fn locked(task: u32) -> bool {
    matches!(task, 2 | 4 | 8 | 19)
}

/// Returns twenty tasks on two lanes, with three retries, an unreadable report and a change of the plan.
pub fn long() -> Scene {
    let after: [&[u32]; 20] = [
        &[],
        &[],
        &[1],
        &[2],
        &[3],
        &[3, 4],
        &[4],
        &[5],
        &[6],
        &[6, 7],
        &[8, 9, 10],
        &[11],
        &[11],
        &[12],
        &[13],
        &[12],
        &[14],
        &[15, 16],
        &[17],
        &[18, 19],
    ];
    Scene {
        plan: plan(&after, locked),
        folders: vec![""],
        reports: 25,
        while_dead: 5,
        locked,
        act: |task, attempt| Act {
            way: match task {
                2 | 4 | 7 | 15 | 18 => Way::WhileDead,
                5 | 17 => Way::Fresh,
                9 => Way::InPlace,
                10 => Way::Unclaimed,
                12 => Way::Twice,
                _ => Way::Usual,
            },
            status: match (task, attempt) {
                (6, 1) => Some("FAILED"),
                (6, 2) | (13, _) => Some("PARTIAL_SUCCESS"),
                (8, 1) => None,
                _ => Some("SUCCESS"),
            },
        },
        verdict: |task, attempt| match (task, attempt) {
            (3, 1) | (6, 1 | 2) => retry(),
            (11, 1) => replan(),
            _ => next(task, attempt),
        },
        edits: json!({"reason": "The library is gone.", "edits": [
            {"action": "add", "task": null, "reason": "It is needed.", "name": "Find another library",
             "description": "Look for it.", "constraints": null, "expected_output": "A name.", "depends_on": ["10"]},
            {"action": "update", "task": 14, "reason": "It is another one now.", "name": null,
             "description": "Use the other library.", "constraints": null, "expected_output": null,
             "depends_on": ["12", "n1"]},
            {"action": "skip", "task": 16, "reason": "Not needed any more.", "name": null, "description": null,
             "constraints": null, "expected_output": null, "depends_on": null},
        ]}),
    }
}

/// Returns three tasks, one of which is retried and one of which changes the plan.
pub fn short() -> Scene {
    Scene {
        plan: plan(&[&[], &[1], &[2]], locked),
        folders: vec![""],
        reports: 5,
        while_dead: 0,
        // The fourth task is the model's own, which gives no locks.
        locked: |task| task == 2,
        act: |_, _| Act {
            way: Way::Usual,
            status: Some("SUCCESS"),
        },
        verdict: |task, attempt| match (task, attempt) {
            (1, 1) => retry(),
            (2, 1) => replan(),
            _ => next(task, attempt),
        },
        edits: json!({"reason": "The library is gone.", "edits": [
            {"action": "add", "task": null, "reason": "It is needed.", "name": "Find another library",
             "description": "Look for it.", "constraints": null, "expected_output": "A name.", "depends_on": ["1"]},
            {"action": "update", "task": 3, "reason": "It is another one now.", "name": null,
             "description": "Use the other library.", "constraints": null, "expected_output": null,
             "depends_on": ["2", "n1"]},
        ]}),
    }
}

fn plan(after: &[&[u32]], locked: fn(u32) -> bool) -> String {
    let mut text = format!("---\nname: The long way\ngoal: {GOAL}[NUMBER]\n---\n");
    for (index, after) in after.iter().enumerate() {
        let number = index + 1;
        write!(text, "\n## Part {number}\n\n").unwrap();
        if !after.is_empty() {
            let after: Vec<String> = after.iter().map(ToString::to_string).collect();
            writeln!(text, "- after: {}", after.join(", ")).unwrap();
        }
        if locked(index as u32 + 1) {
            text += "- locks: port:8080\n";
        }
        write!(
            text,
            "- expected: Part {number} is there.\n\nDo part {number}.\n"
        )
        .unwrap();
    }
    text
}

fn next(task: u32, attempt: u32) -> Value {
    json!({"criteria": [{"number": 1, "pointer": "F1", "met": "yes"}], "reason": "It is there.", "decision": "next", "feedback": "",
           "result_summary": format!("Part {task} came with attempt {attempt}.")})
}

fn retry() -> Value {
    json!({"criteria": [{"number": 1, "met": "no"}], "reason": "A file is missing.", "decision": "retry", "feedback": "Add the file.", "result_summary": ""})
}

fn replan() -> Value {
    json!({"criteria": [{"number": 1, "met": "no"}], "reason": "The library is gone.", "decision": "replan", "feedback": "Use another one.", "result_summary": ""})
}

/// Returns the number of the plan with a goal, or that a text with the goal is about.
pub fn number(text: &str) -> usize {
    let (_, rest) = text.split_once(GOAL).unwrap_or_default();
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.unwrap_or_default().parse().unwrap_or_default()
}

impl Scene {
    /// Returns as many plans as there are folders.
    pub fn within(self, folders: &[&'static str]) -> Self {
        Self {
            folders: folders.to_vec(),
            ..self
        }
    }

    /// Returns the plan file of the plan with a number, from 1.
    pub fn plan(&self, number: usize) -> String {
        self.plan.replace("[NUMBER]", &number.to_string())
    }

    /// Returns what begins the plan with a number, or queues it.
    pub fn words(&self, number: usize) -> String {
        let queue = if number == 1 { "" } else { "--queue" };
        let folder = match self.folders[number - 1] {
            "" => String::new(),
            folder => format!("--workspace {folder}"),
        };
        format!("run --plan plan-{number}.md {queue} {folder}")
    }

    /// Answers a question to the model, and says in a few words what it was about.
    pub fn answer(&self, asked: &Asked) -> (String, Answer) {
        let (about, answer) = self.answer_one(asked);
        (
            format!("{} of plan {}", about, number(asked.prompt())),
            answer,
        )
    }

    fn answer_one(&self, asked: &Asked) -> (String, Answer) {
        match asked.kind.as_str() {
            "judge" => {
                let (task, attempt) = judged(asked.prompt());
                (
                    format!("judge {task}.{attempt}"),
                    Answer::Json((self.verdict)(task, attempt)),
                )
            }
            "replan" => ("replan".to_owned(), Answer::Json(self.edits.clone())),
            "audit" => (
                "audit".to_owned(),
                Answer::Json(
                    json!({"parts": [{"part": "everything", "by": ["1.1"]}], "reason": "All parts are there.",
                                    "met": true, "missing": []}),
                ),
            ),
            "summarise" => (
                "summary".to_owned(),
                Answer::Json(json!({"summary": "Everything is done."})),
            ),
            other => (
                format!("unexpected: {other}"),
                Answer::error(400, "not in the script"),
            ),
        }
    }
}

/// Reads from the prompt which attempt of which task is judged.
fn judged(prompt: &str) -> (u32, u32) {
    let (_, rest) = prompt.rsplit_once("judge attempt ").unwrap();
    let numbers: Vec<u32> = rest
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .take(2)
        .collect();
    let [attempt, task] = numbers[..] else {
        panic!("which attempt is meant: {rest}");
    };
    (task, attempt)
}
