//! The questions that the plan asks a model: each takes the plan's data and returns a prompt, the schema of the answer, and the
//! function that reads it into core types. This module is pure. Its validation is for the model, which gets the problem and may
//! answer once more; the plan itself decides what is allowed in the end.

mod answer_fields;
mod edits_in_answer;
mod goal_audit;
mod judgement;
mod plan_problems;
mod planning;
pub mod role_steps;
mod summary;
mod tasks_in_answer;
mod workflow_in_answer;

use minijinja::value::Value;

use self::answer_fields::{MAX_NAME, MAX_REASON, Wrongs, all, bounded, cut, name, pair, pairs};
use self::edits_in_answer::{ReplanAnswer, ReplanScope, edit_schema};
pub use self::goal_audit::{Audit, audit};
pub use self::judgement::judge;
use self::planning::PlanAnswer;
pub use self::planning::{plan, replan};
pub use self::summary::summarise;
use self::tasks_in_answer::{TaskNames, at_most};
use self::workflow_in_answer::PlanOrWorkflow;
use super::answer_extraction;
pub use super::command_file_text::command_body;
use super::prompt_context;
pub use super::prompt_context::PlanContext;
use super::prompts::{PromptTemplate, Prompts};
use super::typed_questions::{Read, TypedQuestion, Usable};
use super::{Request, Schema};
use crate::plan::{Plan, PlanSpec, ReplanEdit, TaskId, TaskSpec};
use crate::wire::{Problem, Team};

/// What is read of an answer; the error says to the model what is wrong.
type Result<T, E = String> = std::result::Result<T, E>;

/// Tokens of an answer with many tasks, of a verdict, and of a summary. Reasoning models count their thoughts as well.
const LONG_ANSWER: u32 = 16_000;
const SHORT_ANSWER: u32 = 4_000;
/// Tokens of an answer for which a small context still has to have room.
const LEAST_ANSWER: u32 = 1_000;

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
            read: Box::new(move |text| {
                let Usable { value, complaint } = read(text)?;
                let value = map(value);
                Ok(Usable { value, complaint })
            }),
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

fn unrendered<W: serde::de::DeserializeOwned, A, R: Into<Usable<A>>>(
    template: PromptTemplate,
    view: Value,
    schema: Schema,
    max_tokens: u32,
    validate: impl Fn(W) -> Result<R> + Send + Sync + 'static,
) -> Unrendered<A> {
    let read = move |text: &str| validate(answer_extraction::parse::<W>(text)?).map(R::into);
    Unrendered {
        template,
        view,
        schema,
        max_tokens,
        read: Box::new(read),
    }
}

#[cfg(test)]
mod tests;
