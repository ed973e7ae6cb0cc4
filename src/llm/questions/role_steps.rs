//! A role's questions about its task: how to plan it, which steps it takes, and to do it.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    LONG_ANSWER, MAX_NAME, MAX_REASON, Result, SHORT_ANSWER, Unrendered, all, bounded, cut, name,
    pair, pairs, unrendered,
};
use crate::llm::prompt_context::role as view;
pub use crate::llm::prompt_context::{DoneStep, Offer, OfferKind, RoleContext};
use crate::llm::{PromptTemplate, Schema, one_line};

/// The longest answer of a model at a step, in bytes: what a step passes on.
const MAX_ANSWER: usize = 128 * 1024;
/// The longest value of a step's parameter, in characters.
const MAX_VALUE: usize = 8_000;
/// The most parameters of a step.
const MAX_PARAMS: usize = 20;

/// What stands before the name of a role among the offers.
pub const ROLE_PREFIX: &str = "role:";

/// A step from a model.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    pub name: String,
    /// The name of an offer.
    pub uses: String,
    pub params: Map<String, Value>,
}

/// Steps from a model, as the role understands them.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedSteps<S> {
    pub reason: String,
    pub steps: Vec<S>,
}

/// How a model would plan a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Classified {
    pub simple: bool,
    #[serde(default)]
    pub reason: String,
}

/// Asks whether a task is simple.
pub fn strategy(context: &RoleContext<'_>) -> Unrendered<Classified> {
    let schema = Schema::Object(vec![
        ("reason", Schema::Text("why, one sentence")),
        ("simple", Schema::Boolean),
    ]);
    let read = |answer: Classified| {
        let reason = cut(&answer.reason, MAX_REASON);
        Ok(Classified { reason, ..answer })
    };
    let (template, view) = (PromptTemplate::Strategy, view(context));
    unrendered(template, view, schema, SHORT_ANSWER, read)
}

/// Asks which steps a task takes, out of the offers. `understand` gets each step with its number and returns what the role makes
/// of it, or its problem.
pub fn steps<S: 'static>(
    context: &RoleContext<'_>,
    understand: impl Fn(PlannedStep, usize) -> Result<S> + Send + Sync + 'static,
) -> Unrendered<PlannedSteps<S>> {
    let names = context.offers.iter().map(|offer| offer.name.clone());
    let names: Vec<String> = names.collect();
    let step = Schema::Object(vec![
        ("name", Schema::Text("a few words, beginning with a verb")),
        ("uses", Schema::one_of(names.clone())),
        ("params", Schema::list(pair())),
    ]);
    let schema = Schema::Object(vec![
        ("reason", Schema::Text("why these steps do the task")),
        ("steps", Schema::list(step)),
    ]);
    let (first, most) = (context.done.len() + 1, context.max_steps);
    let read = move |answer: StepsAnswer| {
        if answer.steps.is_empty() {
            return Err("`steps` is empty: give at least one".to_owned());
        }
        if answer.steps.len() > most {
            let given = answer.steps.len();
            return Err(format!("{given} steps are too many: at most {most}"));
        }
        let planned = |(number, step): (usize, StepAnswer)| {
            let place = format!("step {number}");
            let step = step.read(&names, &place)?;
            understand(step, number).map_err(|wrong| format!("{place}: {wrong}"))
        };
        let steps = all((first..).zip(answer.steps).map(planned))?;
        let reason = cut(&answer.reason, MAX_REASON);
        Ok(PlannedSteps { reason, steps })
    };
    let view = view(context);
    unrendered(PromptTemplate::Steps, view, schema, LONG_ANSWER, read)
}

/// Asks the model to do a task, or to answer the question of a step.
pub fn ask(context: &RoleContext<'_>) -> Unrendered<String> {
    let schema = Schema::Object(vec![("answer", Schema::Text("the whole result"))]);
    let read = |answer: AskAnswer| match answer.answer.trim() {
        "" => Err("`answer` is empty".to_owned()),
        answer if answer.len() > MAX_ANSWER => {
            Err(format!("`answer` has more than {MAX_ANSWER} bytes"))
        }
        answer => Ok(answer.to_owned()),
    };
    let view = view(context);
    unrendered(PromptTemplate::Ask, view, schema, LONG_ANSWER, read)
}

#[derive(Deserialize)]
struct StepsAnswer {
    #[serde(default)]
    reason: String,
    steps: Vec<StepAnswer>,
}

#[derive(Deserialize)]
struct StepAnswer {
    name: String,
    uses: String,
    /// A missing list is an empty one; null is refused.
    #[serde(default = "no_params")]
    params: Value,
}

fn no_params() -> Value {
    Value::Array(Vec::new())
}

impl StepAnswer {
    fn read(self, offered: &[String], place: &str) -> Result<PlannedStep> {
        // `coder` means the role of this name where nothing else has it.
        let named = [self.uses.clone(), format!("{ROLE_PREFIX}{}", self.uses)].into_iter();
        let Some(uses) = named.into_iter().find(|name| offered.contains(name)) else {
            let uses = one_line(&self.uses, MAX_NAME);
            return Err(format!("{place}: `{uses}` is not offered"));
        };
        let given = pairs(self.params).ok_or_else(|| {
            format!("{place}: `params` must be a list of objects with `name` and `value`")
        })?;
        if given.len() > MAX_PARAMS {
            return Err(format!("{place}: more than {MAX_PARAMS} `params`"));
        }
        let mut params = Map::new();
        for (name, value) in given {
            let shown = one_line(&name, MAX_NAME);
            if value.to_string().chars().count() > MAX_VALUE {
                return Err(format!(
                    "{place}: `{shown}` has more than {MAX_VALUE} characters; have a step before it make long texts"
                ));
            }
            if params.insert(name, value).is_some() {
                return Err(format!("{place}: `{shown}` is given twice"));
            }
        }
        Ok(PlannedStep {
            name: name(&bounded(&self.name, "name", place)?, place)?,
            uses,
            params,
        })
    }
}

#[derive(Deserialize)]
struct AskAnswer {
    answer: String,
}
