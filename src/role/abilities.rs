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
use crate::wire::{nearest, quote};

use super::placeholders::has_name;
use super::{StepContext, meant};

/// The parameters of an ability, by their names.
pub(super) type Params = Map<String, Value>;

/// The result of an ability as a text, or the reason for which its step fails.
pub(super) type Done<'a> = BoxFuture<'a, Result<String, String>>;

/// An action or a tool. It gets parameters that fit its schema, and may be called again with the same parameters after a crash.
pub struct Ability {
    /// The name by which steps use it.
    pub name: String,
    /// What it is good for, in a sentence that a language model understands.
    pub description: String,
    /// The JSON schema of its parameters, an object.
    pub schema: Value,
    /// Whether it has a time limit of its own; else that of the role's steps holds.
    pub limits_itself: bool,
    does: Box<Does>,
}

type Does = dyn for<'a> Fn(Value, &'a StepContext<'a>) -> Done<'a> + Send + Sync;

impl Ability {
    /// Makes one of a function that gets the parameters and what is known of the step. Its error is the reason for which the step
    /// fails.
    pub fn new(
        name: &str,
        description: &str,
        schema: Value,
        does: impl for<'a> Fn(Value, &'a StepContext<'a>) -> Done<'a> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            limits_itself: false,
            does: Box::new(does),
        }
    }

    /// Does it. The error is the reason for which the step fails.
    pub fn call<'a>(&'a self, params: Value, situation: &'a StepContext<'a>) -> Done<'a> {
        (self.does)(params, situation)
    }
}

/// Makes an ability of a function that needs to know nothing of the step.
pub fn ability<F, R>(name: &str, description: &str, schema: Value, function: F) -> Arc<Ability>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    let does = Ability::new(name, description, schema, move |params, _| {
        Box::pin(function(params))
    });
    Arc::new(does)
}

/// Abilities by their names.
#[derive(Clone, Default)]
pub struct Abilities(BTreeMap<String, Arc<Ability>>);

impl fmt::Debug for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<Arc<Ability>> for Abilities {
    fn from_iter<I: IntoIterator<Item = Arc<Ability>>>(abilities: I) -> Self {
        let named = |ability: Arc<Ability>| (ability.name.clone(), ability);
        Self(abilities.into_iter().map(named).collect())
    }
}

impl Abilities {
    /// Registers an ability; one of the same name is replaced.
    pub fn add(&mut self, ability: Arc<Ability>) {
        self.0.insert(ability.name.clone(), ability);
    }

    /// Returns those of these names.
    ///
    /// # Errors
    /// The names that are not registered, each with the one that was probably meant.
    pub fn only(&self, names: &[String]) -> Result<Self, Vec<String>> {
        let known = names.iter().filter_map(|name| self.get(name).cloned());
        let unknown = names.iter().filter(|name| self.get(name).is_none());
        let complaint =
            |name: &String| format!("{} is not registered{}", quote(name), self.meant(name));
        match unknown.map(complaint).collect::<Vec<_>>() {
            complaints if complaints.is_empty() => Ok(known.collect()),
            complaints => Err(complaints),
        }
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
    pub fn get(&self, name: &str) -> Option<&Arc<Ability>> {
        self.0.get(name)
    }

    fn meant(&self, name: &str) -> String {
        meant(nearest(name, self.names()))
    }

    /// Returns their descriptions for a model.
    pub(super) fn offers(&self, kind: OfferKind) -> impl Iterator<Item = Offer> {
        self.0.values().map(move |ability| Offer {
            name: ability.name.clone(),
            kind,
            description: ability.description.clone(),
            params: ability.schema.to_string(),
        })
    }

    /// Refuses an ability that is not there, and parameters that cannot fit it, as far as they are known before the step.
    pub(super) fn check(&self, what: &str, name: &str, params: &Params) -> Result<(), String> {
        let Some(ability) = self.get(name) else {
            let meant = self.meant(name);
            return Err(format!("there is no {what} {}{meant}", quote(name)));
        };
        let params = params.clone().into_iter();
        let (open, known): (Params, Params) = params.partition(|(_, value)| has_name(value));
        let mut schema = ability.schema.clone();
        for (name, _) in &open {
            let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
            if properties.is_some_and(|properties| properties.remove(name).is_none())
                && schema.get("additionalProperties") == Some(&Value::Bool(false))
            {
                return Err(format!("`{}` takes no {}", ability.name, quote(name)));
            }
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|word| word.as_str() != Some(name));
            }
        }
        let fitted = arguments::fitted(&schema, known).map(drop);
        fitted.map_err(|error| format!("`{}`: {error}", ability.name))
    }

    /// Carries an ability out: never longer than a limit, and a panic of it is an error.
    pub(super) async fn call(
        &self,
        name: &str,
        params: Params,
        situation: &StepContext<'_>,
        limit: Duration,
    ) -> Result<String, String> {
        let Some(ability) = self.get(name) else {
            return Err(format!("{} is not registered", quote(name)));
        };
        let params = arguments::fitted(&ability.schema, params);
        let params = params.map_err(|error| error.to_string())?;
        let mut allowance = TimeAllowance::new(match ability.limits_itself {
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
