//! The questions that the plan asks a model: each takes the plan's data and returns a prompt, the schema of the answer, and the
//! function that reads it into core types. This module is pure. Its validation is for the model, which gets the problem and may
//! answer once more; the plan itself decides what is allowed in the end.

mod answer_fields;
mod edits_in_answer;
mod goal_audit;
mod judgement;
mod plan_problems;
pub mod role_steps;
mod tasks_in_answer;
mod workflow_in_answer;

use minijinja::value::Value;
use serde::Deserialize;

use self::answer_fields::{MAX_NAME, MAX_REASON, bounded, cut, name, pairs};
use self::edits_in_answer::{ReplanAnswer, ReplanScope, edit_schema};
pub use self::goal_audit::{Audit, audit};
pub use self::judgement::judge;
use self::tasks_in_answer::{NO_CHECK, TaskNames, at_most};
use self::workflow_in_answer::PlanOrWorkflow;
use super::answer_extraction;
pub use super::command_file_text::command_body;
use super::prompt_context;
pub use super::prompt_context::PlanContext;
use super::prompts::{PromptTemplate, Prompts};
use super::typed_questions::{Read, TypedQuestion};
use super::{Request, Schema};
use crate::plan::{Plan, PlanSpec, ReplanEdit, TaskId, TaskSpec};
use crate::wire::{Problem, Team};

/// What is read of an answer; the error says to the model what is wrong.
type Result<T, E = String> = std::result::Result<T, E>;

/// Characters at which the summary of a plan is cut.
const MAX_OUTCOME: usize = 6_000;
/// Tokens of an answer with many tasks, of a verdict, and of a summary. Reasoning models count their thoughts as well.
const LONG_ANSWER: u32 = 16_000;
const SHORT_ANSWER: u32 = 4_000;
/// Tokens of an answer for which a small context still has to have room.
const LEAST_ANSWER: u32 = 1_000;

/// Asks for a plan: tasks, or one of the team's workflows. Dependencies in the answer are numbers of its own tasks, counted
/// from 1.
pub fn plan(context: &PlanContext<'_>) -> Unrendered<PlanSpec> {
    let words = TaskNames::new(context.check_names, context.team);
    let team = context.team.filter(|team| !team.workflows.is_empty());
    let mut properties = vec![
        ("name", Schema::Text("name of the plan, a few words")),
        ("description", Schema::Text("how the goal is reached")),
    ];
    if team.is_some() {
        properties.extend(workflow_in_answer::schema());
    }
    properties.push(("tasks", Schema::list(words.task_schema())));
    let schema = Schema::Object(properties);
    let view = super::prompt_context::plan(context);
    let (template, tokens) = (PromptTemplate::Plan, LONG_ANSWER);
    match team.cloned() {
        None => {
            let read = move |answer: PlanAnswer| answer.planned(&words);
            unrendered(template, view, schema, tokens, read)
        }
        Some(team) => {
            let read = move |answer: PlanOrWorkflow| answer.planned(&team, &words);
            unrendered(template, view, schema, tokens, read)
        }
    }
}

/// Asks how the rest of the plan changes. `cause` is the task whose result led to it, if any; it may be skipped, not updated.
pub fn replan(
    plan: &Plan,
    cause: Option<TaskId>,
    why: &str,
    note: &str,
    check_names: &[String],
    team: Option<&Team>,
) -> Unrendered<Vec<ReplanEdit>> {
    let names = TaskNames::new(check_names, team);
    let schema = Schema::Object(vec![
        ("reason", Schema::Text("how these edits lead to the goal")),
        ("edits", Schema::list(edit_schema(&names, team))),
    ]);
    let view = prompt_context::replan(plan, cause, why, note, check_names, team);
    let scope = ReplanScope::new(plan, cause, names);
    let read = move |answer: ReplanAnswer| scope.edits(answer.edits);
    unrendered(PromptTemplate::Replan, view, schema, LONG_ANSWER, read)
}

/// Asks for the summary of an ended plan.
pub fn summarise(plan: &Plan) -> Unrendered<String> {
    let schema = Schema::Object(vec![("summary", Schema::Text("the summary"))]);
    let view = prompt_context::whole(plan, None);
    let read = |answer: SummaryAnswer| match cut(&answer.summary, MAX_OUTCOME) {
        summary if summary.is_empty() => Err("`summary` is empty".to_owned()),
        summary => Ok(summary),
    };
    unrendered(PromptTemplate::Summarise, view, schema, SHORT_ANSWER, read)
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
    pub fn render(self, prompts: &Prompts) -> Result<TypedQuestion<A>, Problem> {
        let prompts = prompts.clone();
        let form = move |divisor: u32| {
            let parts = divisor as usize;
            let view = prompt_context::smaller(&self.view, parts);
            let [system, prompt] = prompts.smaller(parts).question(self.template, &view)?;
            Ok(Request {
                system,
                prompt,
                schema_name: self.template.as_str().to_owned(),
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
    validate: impl Fn(W) -> Result<A> + Send + Sync + 'static,
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
    fn planned(self, words: &TaskNames) -> Result<PlanSpec> {
        let mut plan = PlanSpec {
            name: name(&self.name, "the plan")?,
            description: bounded(&self.description, "description", "the plan")?,
            ..PlanSpec::default()
        };
        if self.tasks.is_empty() {
            return Err("`tasks` is empty: a plan needs at least one task".to_owned());
        }
        plan.tasks = words.tasks(self.tasks)?;
        plan.problems = plan_problems::problems(&plan.tasks);
        match !plan.problems.is_empty() && words.may_ask_again() {
            true => Err(plan.problems.join("\n")),
            false => Ok(plan),
        }
    }
}

#[derive(Deserialize)]
struct SummaryAnswer {
    summary: String,
}

#[cfg(test)]
mod tests;
