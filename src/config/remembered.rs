//! What the environment says for one run, and what a plan goes on with that began so.

use std::collections::BTreeMap;

use super::read_config::{self, variable_of};
use super::{Config, ConfigError, Environment, ModelProvider, Planner};

/// The keys that a plan remembers: who plans and judges, and what agents may do.
const REMEMBERED: &str = "llm.provider llm.base_url llm.model llm.agent llm.api_key_env llm.plan.model llm.judge.model \
                          worker.allow";

const PROVIDER: &str = "llm.provider";
const BASE_URL: &str = "llm.base_url";

impl Config {
    /// Returns what a plan is to remember: what the environment says, else what it said `before`, and which service was chosen.
    pub fn to_remember(
        &self,
        before: &BTreeMap<String, String>,
        environment: &Environment,
        planner: &Planner,
    ) -> BTreeMap<String, String> {
        let said = |key: &str| {
            let now = environment.get(&variable_of(key)).map(str::to_owned);
            Some((key.to_owned(), now.or_else(|| before.get(key).cloned())?))
        };
        let remembered = REMEMBERED.split_whitespace();
        let mut settings: BTreeMap<_, _> = remembered.filter_map(said).collect();
        if let (Planner::Model { endpoint, .. }, ModelProvider::Auto) = (planner, self.llm.provider)
        {
            settings.insert(PROVIDER.to_owned(), endpoint.api.as_str().to_owned());
            if endpoint.url_variable.is_some() {
                settings.insert(BASE_URL.to_owned(), endpoint.base_url.clone());
            }
        }
        settings
    }

    /// Goes on with what a plan remembers, unless the environment says something else now. Once the file names another
    /// provider, nothing that was said of the former one counts.
    ///
    /// # Errors
    /// A value does not fit.
    pub fn recall(
        self,
        settings: &BTreeMap<String, String>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let provider = toml::Value::try_from(self.llm.provider).ok();
        let named = provider.as_ref().and_then(toml::Value::as_str);
        let same = self.llm.provider == ModelProvider::Auto
            || settings.get(PROVIDER).map(String::as_str) == named;
        let elsewhere = ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"];
        let elsewhere = elsewhere.iter().any(|name| environment.get(name).is_some());
        let counts = |key: &str| {
            let moved = key == BASE_URL && elsewhere;
            let mut remembered = REMEMBERED.split_whitespace();
            remembered.any(|known| known == key) && (same || !key.starts_with("llm.")) && !moved
        };
        let mut kept = settings.clone();
        kept.retain(|key, _| counts(key) && !environment.overrides(key));
        let said = kept
            .iter()
            .map(|(key, value)| (variable_of(key), value.clone()));
        read_config::override_by(self, &said.collect())
    }
}
