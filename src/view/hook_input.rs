//! What a hook reads.

use serde::Serialize;

use super::EventView;
use crate::plan::{
    AnswerChoice, Counts, HumanQuestion, Plan, PlanHead, PlanId, PlanState, TaskId, Time,
};
use crate::wire::text::time_text;

/// The most events in one call of a hook; the rest is counted.
pub const MOST_EVENTS: usize = 200;

/// The standard input of a hook: one JSON object on one line. Fields are added, never renamed or removed.
#[derive(Debug, Serialize)]
pub struct HookCall {
    /// `question`, `finish` or `change`.
    pub event: &'static str,
    pub at: String,
    pub plan: PlanPart,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangePart>,
}

/// The plan of the event.
#[derive(Debug, Serialize)]
pub struct PlanPart {
    id: PlanId,
    name: String,
    goal: String,
    status: &'static str,
    /// Why it is paused.
    reason: Option<String>,
    workspace: String,
    tasks: usize,
    completed: usize,
    failed: usize,
    skipped: usize,
}

/// The question to a person.
#[derive(Debug, Serialize)]
pub struct QuestionPart {
    id: String,
    /// `failures`, `agent`, `budget` …
    about: &'static str,
    task: Option<TaskId>,
    task_name: Option<String>,
    reason: String,
    choices: Vec<AnswerChoice>,
    /// The file for the answer.
    file: String,
}

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
    /// Reports a question; `file` is the path of its file.
    pub fn question(plan: &Plan, question: &HumanQuestion, file: String, now: Time) -> Self {
        let task = question.task.and_then(|id| plan.task(id));
        let part = QuestionPart {
            id: question.id.to_string(),
            about: question.about.as_str(),
            task: task.map(|task| task.number),
            task_name: task.map(|task| task.name.clone()),
            reason: question.reason.clone(),
            choices: question.choices.clone(),
            file,
        };
        Self {
            question: Some(part),
            ..Self::new("question", plan, now)
        }
    }

    /// Reports the end of a plan.
    pub fn finish(plan: &Plan, now: Time) -> Self {
        Self {
            outcome: plan.head().outcome.clone(),
            ..Self::new("finish", plan, now)
        }
    }

    /// Reports changes.
    pub fn change(plan: &Plan, change: ChangePart, now: Time) -> Self {
        Self {
            change: Some(change),
            ..Self::new("change", plan, now)
        }
    }

    fn new(event: &'static str, plan: &Plan, now: Time) -> Self {
        Self {
            event,
            at: time_text(now),
            plan: PlanPart::of(plan.head(), plan.counts()),
            question: None,
            outcome: None,
            change: None,
        }
    }

    /// Returns the line that the hook reads.
    pub fn render(&self) -> String {
        serde_json::json!(self).to_string() + "\n"
    }
}

impl PlanPart {
    fn of(head: &PlanHead, counts: Counts) -> Self {
        Self {
            id: head.id.clone(),
            name: head.name.clone(),
            goal: head.goal.clone(),
            status: head.status.as_str(),
            reason: match &head.status {
                PlanState::Paused(why) => Some(why.clone()),
                _ => None,
            },
            workspace: head.workspace.clone(),
            tasks: counts.total(),
            completed: counts.completed,
            failed: counts.failed,
            skipped: counts.skipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::plan::{Delta, Event, HumanQuestionKind, QuestionId, Row, TaskState};
    use crate::store::Change;
    use crate::wire::sample_plans;

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
            asked: sample_plans::NOW,
            answer: None,
            closed: None,
        };
        let file = "/v/questions/pending/question-q0af31c.md".to_owned();
        let line = HookCall::question(&plan, &question, file, sample_plans::NOW).render();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        insta::assert_snapshot!(line.trim_end(), @r#"{"at":"2026-11-21T10:00:00Z","event":"question","plan":{"completed":0,"failed":0,"goal":"Count the words of a file","id":"abcdefgh","name":"Word counter","reason":null,"skipped":0,"status":"running","tasks":1,"workspace":"/w"},"question":{"about":"failures","choices":["retry","abort"],"file":"/v/questions/pending/question-q0af31c.md","id":"q0af31c","reason":"the task failed 3 times in a row","task":1,"task_name":"Write\nit"}}"#);
        let change = Change {
            seq: 2,
            at: sample_plans::NOW,
            by: "daemon".to_owned(),
            why: "w".to_owned(),
            delta: Delta {
                rows: Vec::new(),
                events: vec![Event::Planned { tasks: 1 }],
            },
        };
        let change = ChangePart {
            from: 2,
            to: 3,
            events: EventView::all(&change, plan.id()),
            left_out: 0,
        };
        let value = serde_json::json!(HookCall::change(&plan, change, sample_plans::NOW));
        insta::assert_snapshot!(value["change"], @r#"{"events":[{"at":"2026-11-21T10:00:00Z","by":"daemon","event":"planned","plan":"abcdefgh","seq":2,"tasks":1,"why":"w"}],"from":2,"left_out":0,"to":3}"#);
        assert_eq!(value["question"], Value::Null);
    }
}
