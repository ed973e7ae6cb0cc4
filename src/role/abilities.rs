//! What a role can do by itself: actions and tools, registered by name, each with a JSON schema of its parameters.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};

use crate::llm::BoxFuture;
use crate::llm::questions::role_steps::{Offer, OfferKind};
use crate::plan_time::TimeAllowance;
use crate::tools::arguments;
use crate::wire::plan_file::nearest;
use crate::wire::text::quote;

use super::framework::meant;
use super::placeholders::has_name;
use super::role_model::StepContext;

/// The result of an ability as a text, or the reason for which its step fails.
pub(super) type Done<'a> = BoxFuture<'a, Result<String, String>>;

/// An action or a tool. It gets parameters that fit its schema, and may be called again with the same parameters after a crash.
pub trait Ability: Send + Sync {
    /// Returns the name by which steps use it.
    fn name(&self) -> &str;

    /// Returns what it is good for, in a sentence that a language model understands.
    fn description(&self) -> &str;

    /// Returns the JSON schema of its parameters, an object.
    fn schema(&self) -> &Value;

    /// Returns whether it has a time limit of its own; else that of the role's steps holds.
    fn limits_itself(&self) -> bool {
        false
    }

    /// Does it. The error is the reason for which the step fails.
    fn call<'a>(&'a self, params: Value, situation: &'a StepContext<'a>) -> Done<'a>;
}

/// Makes an ability of a function.
pub fn ability<F, R>(name: &str, description: &str, schema: Value, function: F) -> Arc<dyn Ability>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    Function::ability(name, description, schema, false, move |params, _| {
        Box::pin(function(params))
    })
}

/// A function with its description: what all abilities of this program are.
pub(super) struct Function {
    name: String,
    description: String,
    schema: Value,
    limits_itself: bool,
    does: Box<Does>,
}

type Does = dyn for<'a> Fn(Value, &'a StepContext<'a>) -> Done<'a> + Send + Sync;

impl Function {
    pub(super) fn ability(
        name: &str,
        description: &str,
        schema: Value,
        limits_itself: bool,
        does: impl for<'a> Fn(Value, &'a StepContext<'a>) -> Done<'a> + Send + Sync + 'static,
    ) -> Arc<dyn Ability> {
        Arc::new(Self {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            limits_itself,
            does: Box::new(does),
        })
    }
}

impl Ability for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn limits_itself(&self) -> bool {
        self.limits_itself
    }

    fn call<'a>(&'a self, params: Value, situation: &'a StepContext<'a>) -> Done<'a> {
        (self.does)(params, situation)
    }
}

/// Abilities by their names.
#[derive(Clone, Default)]
pub struct Abilities(BTreeMap<String, Arc<dyn Ability>>);

impl fmt::Debug for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<Arc<dyn Ability>> for Abilities {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Ability>>>(abilities: I) -> Self {
        let named = |ability: Arc<dyn Ability>| (ability.name().to_owned(), ability);
        Self(abilities.into_iter().map(named).collect())
    }
}

impl Abilities {
    /// Registers an ability; one of the same name is replaced.
    pub fn add(&mut self, ability: Arc<dyn Ability>) {
        self.0.insert(ability.name().to_owned(), ability);
    }

    /// Returns those of these names.
    ///
    /// # Errors
    /// The names that are not registered, each with the one that was probably meant.
    pub fn only(&self, names: &[String]) -> Result<Self, Vec<String>> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| self.0.contains_key(*name));
        if unknown.is_empty() {
            let known = known.into_iter().filter_map(|name| self.0.get(name));
            return Ok(known.cloned().collect());
        }
        let complaint = |name: &String| {
            let meant = meant(nearest(name, self.names()));
            format!("{} is not registered{meant}", quote(name))
        };
        Err(unknown.into_iter().map(complaint).collect())
    }

    /// Returns these and the others; of one name, the other.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Returns their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns one by its name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Ability>> {
        self.0.get(name)
    }

    /// Returns their descriptions for a model.
    pub(super) fn offers(&self, kind: OfferKind) -> impl Iterator<Item = Offer> {
        self.0.values().map(move |ability| Offer {
            name: ability.name().to_owned(),
            kind,
            description: ability.description().to_owned(),
            params: ability.schema().to_string(),
        })
    }

    /// Refuses an ability that is not there, and parameters that cannot fit it, as far as they are known before the step.
    pub(super) fn check(
        &self,
        what: &str,
        name: &str,
        params: &Map<String, Value>,
    ) -> Result<(), String> {
        let Some(ability) = self.get(name) else {
            let meant = meant(nearest(name, self.names()));
            return Err(format!("there is no {what} {}{meant}", quote(name)));
        };
        let (open, known): (Map<_, _>, Map<_, _>) = params
            .clone()
            .into_iter()
            .partition(|(_, value)| has_name(value));
        let mut schema = ability.schema().clone();
        for (name, _) in &open {
            let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
            if properties.is_some_and(|properties| properties.remove(name).is_none())
                && schema.get("additionalProperties") == Some(&Value::Bool(false))
            {
                return Err(format!("`{}` takes no {}", ability.name(), quote(name)));
            }
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|word| word.as_str() != Some(name));
            }
        }
        let fitted = arguments::fitted(&schema, known).map(drop);
        fitted.map_err(|error| format!("`{}`: {error}", ability.name()))
    }

    /// Carries an ability out: never longer than a limit, and a panic of it is an error.
    pub(super) async fn call(
        &self,
        name: &str,
        params: Map<String, Value>,
        situation: &StepContext<'_>,
        limit: Duration,
    ) -> Result<String, String> {
        let Some(ability) = self.get(name) else {
            return Err(format!("{} is not registered", quote(name)));
        };
        let params =
            arguments::fitted(ability.schema(), params).map_err(|error| error.to_string())?;
        let mut allowance = TimeAllowance::new(match ability.limits_itself() {
            true => Duration::MAX,
            false => limit,
        });
        let call = AssertUnwindSafe(async { ability.call(params, situation).await });
        tokio::select! {
            biased;
            done = call.catch_unwind() => done.unwrap_or_else(|_| Err("it panicked".to_owned())),
            () = allowance.used_up() => Err(format!("no result after {limit:?}")),
        }
    }
}
