//! What holds for every dialect, and what their tests have in common.

mod parity;

use serde_json::{Value, json};

use super::{Dialect, ToolAnswer, Toolbox};
use crate::plan::tests::testing::task;
use crate::plan::{DAEMON, Draft, PlanHead, PlanId, PlanPolicy, Row, Time};

/// Bytes that the tools of a dialect may cost an agent that is shown them.
const MAX_LISTED: usize = 7000;

#[test]
fn tool_lists_are_small() {
    for dialect in Dialect::ALL {
        let listed = dialect.tools().iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "inputSchema": tool.schema()})
        });
        let size = json!(listed.collect::<Vec<_>>()).to_string().len();
        assert!(size <= MAX_LISTED, "{dialect}: {size} bytes");
    }
}

#[test]
fn tool_names_are_unique_across_dialects() {
    for dialect in Dialect::ALL {
        for tool in dialect.tools() {
            assert_eq!(Dialect::of_tool(tool.name), Some(dialect), "{}", tool.name);
        }
    }
}

/// Runs the cases of a table. Each begins with `== NAME: GIVEN`, where NAME says what it shows, as that of a test does. What is
/// given is made anew for it; then its lines are [`run`].
#[expect(
    clippy::print_stdout,
    reason = "a test that fails shows which case it was"
)]
pub(super) async fn cases(dialect: Dialect, given: impl AsyncFn(&str) -> Toolbox, cases: &str) {
    for case in cases
        .trim_start()
        .trim_start_matches("== ")
        .split("\n        == ")
    {
        let (head, lines) = case.split_once('\n').unwrap();
        let (name, wanted) = head.split_once(": ").unwrap();
        println!("{name}");
        run(&given(wanted).await, dialect, lines).await;
    }
}

/// Calls tools one after the other, a line each, and checks their answers:
///
/// - `NAME {arguments}` succeeds; `=> answer` behind it says what it returns, `=~ answer` what that has among other things;
/// - `! NAME {arguments} => reason` refuses, and changes nothing in the store;
/// - `= status` and `@ letters` say the state of the current plan and the states of its tasks in the core, by their first letters;
/// - `// text` is a comment.
///
/// `$x300` stands for a text of 300 letters.
/// Without arguments they are `{}`. A text with `…` stands for every text that has its parts in this order.
pub(super) async fn run(toolbox: &Toolbox, dialect: Dialect, lines: &str) {
    let lines = filled(lines);
    let lines = lines.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("// ")) {
        if let Some(wanted) = line.strip_prefix("= ").or(line.strip_prefix("@ ")) {
            let (plan, tasks) = states(toolbox, dialect).await;
            assert!(wanted == plan || wanted == tasks, "{line}: {plan}, {tasks}");
            continue;
        }
        let refused = line.starts_with("! ");
        let line = line.trim_start_matches("! ");
        let (call, wanted, exactly) = match (line.split_once(" => "), line.split_once(" =~ ")) {
            (Some((call, wanted)), _) => (call, Some(wanted), true),
            (None, Some((call, wanted))) => (call, Some(wanted), false),
            (None, None) => (line, None, true),
        };
        let (name, arguments) = call.split_once(' ').unwrap_or((call, "{}"));
        let arguments = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{line}: {e}"));
        let before = match refused {
            true => Some(rows(toolbox).await),
            false => None,
        };
        let answer = toolbox.call(dialect, name, arguments).await;
        assert_eq!(answer.success, !refused, "{line}: {}", answer.value);
        if let Some(before) = before {
            assert_eq!(rows(toolbox).await, before, "{line} changed something");
        }
        let Some(wanted) = wanted else { continue };
        let (wanted, said) = match said(dialect, &answer) {
            Value::String(said) if refused || dialect == Dialect::Notebook => {
                (json!(wanted), json!(said))
            }
            said => (
                serde_json::from_str(wanted).unwrap_or_else(|e| panic!("{line}: {e}")),
                said,
            ),
        };
        assert!(fits(&wanted, &said, exactly), "{line}\n{said}");
    }
}

/// Checks that a text has these parts.
#[track_caller]
pub(super) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} in: {text}");
    }
}

/// Puts long texts in place of what stands for them.
fn filled(lines: &str) -> String {
    let mut parts = lines.split("$x");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        filled += &"x".repeat(part[..digits].parse().unwrap());
        filled += &part[digits..];
    }
    filled
}

/// Makes a plan `daemons` that a daemon carries out, with tasks of these names, and binds the tools to it.
pub(super) async fn of_a_daemon(toolbox: &Toolbox, names: &[&str]) -> Toolbox {
    let head = PlanHead::new(PlanId::new("daemons"), "goal", Time(0));
    let tasks = names.iter().map(|name| task(name, &[])).collect();
    let make = |draft: &mut Draft<'_>| {
        draft.make_tasks(tasks)?;
        draft.start(PlanPolicy::default(), "/w")
    };
    let made = toolbox.store().create(head, DAEMON, "made", make);
    made.await.unwrap();
    toolbox.clone().with_plan(PlanId::new("daemons"))
}

/// Returns the state of the current plan, and the first letter of the state of each task.
async fn states(toolbox: &Toolbox, dialect: Dialect) -> (String, String) {
    let plan = toolbox.current(dialect).await.unwrap();
    let read = |plan: &crate::plan::Plan, _| {
        let letters = plan
            .tasks()
            .filter_map(|task| task.status.as_str().chars().next());
        (plan.status().as_str().to_owned(), letters.collect())
    };
    toolbox.store().read(&plan, read).await.unwrap()
}

/// Returns everything in the store, to be compared: each plan with its seq and its rows.
pub(super) async fn rows(toolbox: &Toolbox) -> Vec<(i64, Vec<Row>)> {
    let mut all = Vec::new();
    for listed in toolbox.store().plans().await.unwrap() {
        let rows = |plan: &crate::plan::Plan, seq| (seq, plan.rows().collect());
        all.push(toolbox.store().read(&listed.head.id, rows).await.unwrap());
    }
    all
}

/// Returns what a dialect says: what a tool returns, else why it refuses, after the code if there are codes.
fn said(dialect: Dialect, answer: &ToolAnswer) -> Value {
    let ToolAnswer { success, value } = answer;
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    match dialect {
        Dialect::PlanManager if *success => {
            assert_eq!(value["success"], true);
            value["data"].clone()
        }
        Dialect::PlanManager => {
            let error = &value["error"];
            let (code, message) = (word(&error["code"]), word(&error["message"]));
            let details = error["details"].as_object().unwrap();
            let envelope = json!({"code": code, "message": message, "details": details});
            assert_eq!(*value, json!({"success": false, "error": envelope}));
            match details.is_empty() {
                true => json!(format!("{code}: {message}")),
                false => json!(format!("{code}: {message} {}", error["details"])),
            }
        }
        Dialect::Notebook => {
            let (text, metadata) = (word(&value["result"]), &value["metadata"]);
            assert_eq!(metadata["success"], *success);
            match metadata.get("error_code") {
                None => json!(text),
                Some(code) => json!(format!("{}: {text}", word(code))),
            }
        }
        _ if *success => value["result"].clone(),
        _ => value["reason"].clone(),
    }
}

/// Returns whether an answer is what is wanted or, if not exactly, has all of it.
fn fits(wanted: &Value, said: &Value, exactly: bool) -> bool {
    match (wanted, said) {
        (Value::String(wanted), Value::String(said)) => {
            let mut parts: Vec<&str> = wanted.split('…').collect();
            let last = parts.pop().unwrap_or_default();
            let Some((first, middle)) = parts.split_first() else {
                return said == last;
            };
            let within = said
                .strip_prefix(first)
                .and_then(|said| said.strip_suffix(last));
            let mut rest = within;
            middle.iter().all(|part| {
                rest = rest.and_then(|rest| Some(rest.split_once(part)?.1));
                rest.is_some()
            }) && within.is_some()
        }
        (Value::Object(wanted), Value::Object(said)) => {
            let fit = |(name, value): (&String, &Value)| match said.get(name) {
                Some(said) => fits(value, said, exactly),
                None => !exactly && value.is_null(),
            };
            (!exactly || wanted.len() == said.len()) && wanted.iter().all(fit)
        }
        (Value::Array(wanted), Value::Array(said)) => {
            let mut pairs = wanted.iter().zip(said);
            wanted.len() == said.len() && pairs.all(|(wanted, said)| fits(wanted, said, exactly))
        }
        _ => wanted == said,
    }
}
