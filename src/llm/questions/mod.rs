//! The questions that the plan asks a model: each takes the plan's data and returns a prompt, the schema of the answer, and the
//! function that reads it into core types. This module is pure. Its validation is for the model, which gets the problem and may
//! answer once more; the plan itself decides what is allowed in the end.

mod answer_fields;
mod new_tasks;
mod replan_edits;
pub mod role_steps;
mod workflows;

use minijinja::value::Value;
use serde::Deserialize;

use self::answer_fields::{MAX_REASON, bounded, cut, name};
use self::new_tasks::TaskNames;
use self::replan_edits::{ReplanAnswer, ReplanScope, edit_schema};
use self::workflows::{PlanOrWorkflow, Workflows};
use super::answer_extraction;
pub use super::command_body::command_body;
use super::prompt_context::{self, obstacle};
pub use super::prompt_context::{JudgeFacts, PlanContext};
use super::prompts::{PromptError, PromptTemplate, Prompts};
use super::typed_questions::{Read, TypedQuestion};
use super::{Request, Schema};
use crate::plan::{
    Attempt, DecidedBy, Decision, Plan, PlanSpec, ReplanEdit, Task, TaskId, TaskSpec, Time, Verdict,
};
use crate::wire::team_file::Team;
use crate::wire::text::known_word;

/// Characters at which feedback and summaries are cut.
const MAX_FEEDBACK: usize = 8_000;
const MAX_SUMMARY: usize = 800;
const MAX_OUTCOME: usize = 6_000;
/// Tokens of an answer with many tasks, of a verdict, and of a summary. Reasoning models count their thoughts as well.
const LONG_ANSWER: u32 = 16_000;
const SHORT_ANSWER: u32 = 4_000;
/// Tokens of an answer for which a small context still has to have room.
const LEAST_ANSWER: u32 = 1_000;

/// Whether the goal is met.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Audit {
    pub met: bool,
    #[serde(default)]
    pub reason: String,
    /// What is still to be done; empty if and only if the goal is met.
    #[serde(default)]
    pub missing: Vec<TaskSpec>,
}

/// Asks for a plan: tasks, or one of the team's workflows. Dependencies in the answer are numbers of its own tasks, counted
/// from 1.
pub fn plan(context: &PlanContext<'_>) -> Unrendered<PlanSpec> {
    let words = TaskNames::new(context.check_names, context.team);
    let workflows = Workflows::of(context.team);
    let mut properties = vec![
        ("name", Schema::Text("name of the plan, a few words")),
        (
            "description",
            Schema::Text("how the goal is reached, one or two sentences"),
        ),
    ];
    if workflows.is_some() {
        properties.extend(workflows::schema());
    }
    properties.push(("tasks", Schema::list(words.task_schema())));
    let schema = Schema::Object(properties);
    let view = super::prompt_context::plan(context);
    let (template, tokens) = (PromptTemplate::Plan, LONG_ANSWER);
    match workflows {
        None => {
            let read = move |answer: PlanAnswer| answer.planned(&words);
            unrendered(template, view, schema, tokens, read)
        }
        Some(workflows) => {
            let read = move |answer: PlanOrWorkflow| workflows.planned(answer, &words);
            unrendered(template, view, schema, tokens, read)
        }
    }
}

/// Asks what follows from a result; the caller sets the time of the verdict. `next` is accepted only for SUCCESS and
/// PARTIAL_SUCCESS without a failed check.
pub fn judge(
    plan: &Plan,
    task: &Task,
    attempt: &Attempt,
    facts: &JudgeFacts,
) -> Unrendered<Verdict> {
    let obstacle = obstacle(attempt);
    // A model that is held to the schema cannot even give an answer that would be refused.
    let decisions = match obstacle {
        None => ["next", "retry", "replan", "abort"].as_slice(),
        Some(_) => &["retry", "replan", "abort"],
    };
    let schema = Schema::Object(vec![
        // This field only makes the model think of it before the decision; small models judge better with it.
        ("shown", Schema::Text("what was made and run")),
        ("missing", Schema::Text("what is missing; empty if nothing")),
        ("reason", Schema::Text("what follows from that, and why")),
        ("decision", Schema::one_of(decisions.iter().copied())),
        (
            "feedback",
            Schema::Text("for retry and replan: what exactly to do differently; else empty"),
        ),
        (
            "result_summary",
            Schema::Text("for next: what now exists, one or two sentences; else empty"),
        ),
    ]);
    let view = prompt_context::judge(plan, task, attempt, facts);
    unrendered(
        PromptTemplate::Judge,
        view,
        schema,
        SHORT_ANSWER,
        move |answer: JudgeAnswer| answer.verdict(obstacle.as_deref()),
    )
}

/// Asks how the rest of the plan changes. `cause` is the task whose result led to it, if any; it may be skipped, not updated.
pub fn replan(
    plan: &Plan,
    cause: Option<TaskId>,
    why: &str,
    note: &str,
    team: Option<&Team>,
) -> Unrendered<Vec<ReplanEdit>> {
    let schema = Schema::Object(vec![
        (
            "reason",
            Schema::Text("why these edits lead to the goal, one or two sentences"),
        ),
        ("edits", Schema::list(edit_schema(team))),
    ]);
    let view = prompt_context::replan(plan, cause, why, note, team);
    let scope = ReplanScope::new(plan, cause, team);
    unrendered(
        PromptTemplate::Replan,
        view,
        schema,
        LONG_ANSWER,
        move |answer: ReplanAnswer| scope.edits(answer.edits),
    )
}

/// Asks whether the goal is met, and what is missing. New tasks may use the checks and the roles of the team.
pub fn audit(plan: &Plan, check_names: &[String], team: Option<&Team>) -> Unrendered<Audit> {
    let words = TaskNames::new(check_names, team);
    let schema = Schema::Object(vec![
        (
            "reason",
            Schema::Text("each part of the goal with its evidence, or with what is missing"),
        ),
        (
            "unmet",
            Schema::Text("parts of the goal that no result meets"),
        ),
        ("met", Schema::Boolean),
        ("missing", Schema::list(words.task_schema())),
    ]);
    let view = prompt_context::whole(plan, team);
    unrendered(
        PromptTemplate::Audit,
        view,
        schema,
        LONG_ANSWER,
        move |answer: Audit| {
            let missing = words.tasks(answer.missing)?;
            match (answer.met, missing.is_empty()) {
                (true, false) => Err(
                    "`met` is true, but `missing` holds tasks: it must be empty then".to_owned(),
                ),
                (false, true) => Err(
                    "`met` is false, but `missing` is empty: give the tasks that are missing"
                        .to_owned(),
                ),
                _ => Ok(Audit {
                    met: answer.met,
                    reason: cut(&answer.reason, MAX_REASON),
                    missing,
                }),
            }
        },
    )
}

/// Asks for the summary of an ended plan.
pub fn summarise(plan: &Plan) -> Unrendered<String> {
    let schema = Schema::Object(vec![("summary", Schema::Text("the summary"))]);
    let view = prompt_context::whole(plan, None);
    unrendered(
        PromptTemplate::Summarise,
        view,
        schema,
        SHORT_ANSWER,
        |answer: SummaryAnswer| match cut(&answer.summary, MAX_OUTCOME) {
            summary if summary.is_empty() => Err("`summary` is empty".to_owned()),
            summary => Ok(summary),
        },
    )
}

/// A question with everything that it is made from, so that it can be rendered where the plan is not at hand.
pub struct Unrendered<A> {
    template: PromptTemplate,
    /// The values that the template may use.
    view: Value,
    schema: Schema,
    max_tokens: u32,
    read: Box<Read<A>>,
}

impl<A: 'static> Unrendered<A> {
    /// Makes each usable answer into another value.
    pub fn map<B>(self, map: impl Fn(A) -> B + Send + Sync + 'static) -> Unrendered<B> {
        let read = self.read;
        Unrendered {
            template: self.template,
            view: self.view,
            schema: self.schema,
            max_tokens: self.max_tokens,
            read: Box::new(move |text| read(text).map(&map)),
        }
    }

    /// Renders the question.
    ///
    /// # Errors
    /// The template fails.
    pub fn render(self, prompts: &Prompts) -> Result<TypedQuestion<A>, PromptError> {
        let prompts = prompts.clone();
        let form = move |divisor: u32| {
            let parts = divisor as usize;
            let view = prompt_context::smaller(&self.view, parts);
            let (system, prompt) = prompts.smaller(parts).question(self.template, &view)?;
            Ok(Request {
                system,
                prompt,
                schema_name: self.template.file_name().trim_end_matches(".md").to_owned(),
                schema: self.schema.clone(),
                max_tokens: (self.max_tokens / divisor).max(LEAST_ANSWER),
            })
        };
        Ok(TypedQuestion {
            request: form(1)?,
            smaller: Box::new(move |divisor| form(divisor).ok()),
            read: self.read,
        })
    }
}

fn unrendered<W, A>(
    template: PromptTemplate,
    view: Value,
    schema: Schema,
    max_tokens: u32,
    validate: impl Fn(W) -> Result<A, String> + Send + Sync + 'static,
) -> Unrendered<A>
where
    W: serde::de::DeserializeOwned,
{
    Unrendered {
        template,
        view,
        schema,
        max_tokens,
        read: Box::new(move |text| answer_extraction::parse::<W>(text).and_then(&validate)),
    }
}

#[derive(Deserialize)]
struct PlanAnswer {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    tasks: Vec<TaskSpec>,
}

impl PlanAnswer {
    fn planned(self, words: &TaskNames) -> Result<PlanSpec, String> {
        let plan = PlanSpec {
            name: name(&self.name, "the plan")?,
            description: bounded(&self.description, "description", "the plan")?,
            ..PlanSpec::default()
        };
        if self.tasks.is_empty() {
            return Err("`tasks` is empty: a plan needs at least one task".to_owned());
        }
        let tasks = words.tasks(self.tasks)?;
        Ok(PlanSpec { tasks, ..plan })
    }
}

#[derive(Deserialize)]
struct JudgeAnswer {
    #[serde(default)]
    reason: String,
    decision: String,
    feedback: Option<String>,
    result_summary: Option<String>,
}

#[derive(Deserialize)]
struct SummaryAnswer {
    summary: String,
}

impl JudgeAnswer {
    fn verdict(self, obstacle: Option<&str>) -> Result<Verdict, String> {
        let decision = known_word(&self.decision.trim().to_ascii_lowercase())
            .ok_or("`decision` must be next, retry, replan or abort")?;
        let verdict = Verdict {
            decision,
            reason: cut(&self.reason, MAX_REASON),
            // Each of the two fields is for one side only; models that must fill every field write text into both.
            feedback: match decision {
                Decision::Next => String::new(),
                _ => cut(&self.feedback.unwrap_or_default(), MAX_FEEDBACK),
            },
            result_summary: match decision {
                Decision::Next => cut(&self.result_summary.unwrap_or_default(), MAX_SUMMARY),
                _ => String::new(),
            },
            by: DecidedBy::Model,
            at: Time::default(),
        };
        match (decision, obstacle) {
            (Decision::Next, Some(obstacle)) => {
                return Err(format!("`next` is not possible: {obstacle}"));
            }
            (Decision::Next, None) if verdict.result_summary.is_empty() => {
                return Err("`next` needs a `result_summary`".to_owned());
            }
            (Decision::Retry, _) if verdict.feedback.is_empty() => {
                return Err("`retry` needs `feedback` that says what to do differently".to_owned());
            }
            _ => {}
        }
        if verdict.reason.is_empty() {
            return Err("`reason` is empty".to_owned());
        }
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests;
