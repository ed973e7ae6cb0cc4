//! What a hook reads.

use serde::Serialize;
use serde_json::{Value, json};

use super::{EventView, StateWord};
use crate::plan::{HumanQuestion, Plan, PlanState, Time, word};
use crate::wire::{joined, one_line, time_text};

/// The most events in one call of a hook; the rest is counted.
pub const MOST_EVENTS: usize = 200;

/// The most characters of a name or a reason in a notification: ntfy takes 4 KiB of text.
const MOST_OF_A_WORD: usize = 500;

/// The standard input of a hook: one JSON object on one line. Fields are added, never renamed or removed.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct HookCall(Value);

/// Changes of the plan, one or more.
#[derive(Debug, Serialize)]
pub struct ChangePart {
    /// The first of these changes.
    pub from: i64,
    /// The last of these changes.
    pub to: i64,
    /// As `log --json` prints them.
    pub events: Vec<EventView>,
    /// The number of events left out because of the limit.
    pub left_out: usize,
}

impl HookCall {
    /// Reports a question; `file` is the path of the file for its answer.
    pub fn question(plan: &Plan, question: &HumanQuestion, file: &str, now: Time) -> Self {
        let task = question.task.and_then(|id| plan.task(id));
        let part = json!({
            "id": question.id,
            "about": word(&question.about),
            "task": task.map(|task| task.number),
            "task_name": task.map(|task| &task.name),
            "reason": question.reason,
            "choices": question.choices,
            "file": file,
        });
        Self::new("question", plan, now).with("question", part)
    }

    /// Reports the end of a plan.
    pub fn finish(plan: &Plan, now: Time) -> Self {
        let call = Self::new("finish", plan, now);
        match &plan.head().outcome {
            Some(outcome) => call.with("outcome", json!(outcome)),
            None => call,
        }
    }

    /// Reports changes.
    pub fn change(plan: &Plan, change: &ChangePart, now: Time) -> Self {
        Self::new("change", plan, now).with("change", json!(change))
    }

    /// Names the event, and the plan that it is about.
    fn new(event: &str, plan: &Plan, now: Time) -> Self {
        let (head, counts) = (plan.head(), plan.counts());
        let reason = match &head.status {
            PlanState::Paused(why) => Some(why),
            _ => None,
        };
        let plan = json!({
            "id": head.id,
            "name": head.name,
            "goal": head.goal,
            "status": head.status.as_str(),
            "state": StateWord::of_plan(head, true),
            "reason": reason,
            "workspace": head.workspace,
            "tasks": counts.total(),
            "completed": counts.completed,
            "failed": counts.failed,
            "skipped": counts.skipped,
        });
        Self(json!({ "event": event, "at": time_text(now), "plan": plan }))
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.0[field] = value;
        self
    }

    /// Adds the address of the plan's page.
    pub fn linked(&self, link: Option<&str>) -> Self {
        let call = Self(self.0.clone());
        match link {
            Some(link) => call.with("link", json!(link)),
            None => call,
        }
    }

    /// Returns the same for a person: a line on what happened, and what can be answered.
    pub fn text(&self) -> String {
        let (plan, question) = (&self.0["plan"], &self.0["question"]);
        let short = |value: &Value| one_line(value.as_str().unwrap_or_default(), MOST_OF_A_WORD);
        let name = short(&plan["name"]);
        let (id, state) = (short(&plan["id"]), short(&plan["state"]));
        if question.is_null() {
            let (done, tasks) = (&plan["completed"], &plan["tasks"]);
            let outcome = short(&self.0["outcome"]);
            let line = format!("{name} ({id}) is {state}: {done} of {tasks} tasks completed");
            return format!("{line}\n{outcome}").trim_end().to_owned();
        }
        let of_task = match question["task"].as_u64() {
            Some(number) => format!(", task {number} {}", short(&question["task_name"])),
            None => String::new(),
        };
        let choices = question["choices"].as_array().into_iter().flatten();
        let choices = joined(choices.map(short), " | ");
        let reason = short(&question["reason"]);
        format!("{name} ({id}) asks you{of_task}: {reason}\n{choices}")
    }

    /// Returns the line that the hook reads.
    pub fn render(&self) -> String {
        self.0.to_string() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        AnswerChoice, Delta, Event, HumanQuestionKind, QuestionId, Row, TaskId, TaskState,
    };
    use crate::store::Change;
    use crate::wire::tests::sample_plans;

    #[test]
    fn hook_call_is_one_json_line() {
        let mut plan = Plan::new(sample_plans::head());
        plan.put(Row::Task(Box::new(sample_plans::task(
            1,
            "Write\nit",
            TaskState::InProgress,
        ))));
        let question = HumanQuestion {
            id: QuestionId::new("q0af31c"),
            about: HumanQuestionKind::Failures,
            task: Some(TaskId(1)),
            request: None,
            ask: None,
            reason: "the task failed 3 times in a row".to_owned(),
            choices: vec![AnswerChoice::Retry, AnswerChoice::Abort],
            refused: Vec::new(),
            attempts: 0,
            asked: sample_plans::NOW,
            answer: None,
            closed: None,
        };
        let file = "/v/questions/pending/question-q0af31c.md";
        let line = HookCall::question(&plan, &question, file, sample_plans::NOW).render();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        insta::assert_snapshot!(line.trim_end(), @r#"{"at":"2026-11-21T10:00:00Z","event":"question","plan":{"completed":0,"failed":0,"goal":"Count the words of a file","id":"abcdefgh","name":"Word counter","reason":null,"skipped":0,"state":"running","status":"running","tasks":1,"workspace":"/w"},"question":{"about":"failures","choices":["retry","abort"],"file":"/v/questions/pending/question-q0af31c.md","id":"q0af31c","reason":"the task failed 3 times in a row","task":1,"task_name":"Write\nit"}}"#);
        let change = Change {
            seq: 2,
            at: sample_plans::NOW,
            by: "daemon".to_owned(),
            why: "w".to_owned(),
            delta: Delta {
                rows: Vec::new(),
                events: vec![Event::Planned {
                    tasks: 1,
                    problems: vec![],
                }],
            },
        };
        let change = ChangePart {
            from: 2,
            to: 3,
            events: EventView::all(&change, plan.id()),
            left_out: 0,
        };
        let value = serde_json::json!(HookCall::change(&plan, &change, sample_plans::NOW));
        insta::assert_snapshot!(value["change"], @r#"{"events":[{"at":"2026-11-21T10:00:00Z","by":"daemon","event":"planned","plan":"abcdefgh","seq":2,"tasks":1,"why":"w"}],"from":2,"left_out":0,"to":3}"#);
        assert_eq!(value["question"], Value::Null);
    }
}
