//! What the environment says for one run, and what a plan goes on with that began so.

use std::collections::BTreeMap;

use super::{
    Api, Config, ConfigError, Environment, FileContent, ModelProvider, Planner, read_config,
    variable_of,
};
use crate::plan::word;
use crate::wire::has_word;

/// The keys that a plan remembers: who plans and judges, what agents may do, what its results have to pass, and its limits.
const REMEMBERED: &str = "llm.provider llm.base_url llm.model llm.agent llm.api_key_env llm.plan.model llm.judge.model \
                          llm.judge.when worker.allow run.checks run.protect run.may_change run.audit run.session \
                          run.confirm_abort run.max_parallel run.max_attempts run.max_replans run.task_timeout \
                          run.task_deadline budget.llm_calls budget.llm_tokens budget.cost_usd budget.wall_time budget.attempts";

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
        let mut settings: BTreeMap<_, _> = REMEMBERED.split(' ').filter_map(said).collect();
        if settings.keys().any(|key| key.starts_with("llm.")) {
            // What was said counts as long as the file names the same one.
            let provider = || word(&self.llm.provider);
            settings.entry(PROVIDER.to_owned()).or_insert_with(provider);
        }
        if let (Planner::Model { endpoint, .. }, ModelProvider::Auto) = (planner, self.llm.provider)
        {
            settings.insert(PROVIDER.to_owned(), endpoint.api.as_str().to_owned());
            if endpoint.url_variable.is_some() {
                settings.insert(BASE_URL.to_owned(), endpoint.base_url.to_string());
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
        let same = self.llm.provider == ModelProvider::Auto
            || settings.get(PROVIDER) == Some(&word(&self.llm.provider));
        let mut elsewhere = Api::ALL.into_iter().flat_map(Api::url_variables);
        let elsewhere = elsewhere.any(|name| environment.get(name).is_some());
        let counts = |key: &str| {
            let moved = key == BASE_URL && elsewhere;
            has_word(REMEMBERED, key) && (same || !key.starts_with("llm.")) && !moved
        };
        let kept = settings
            .iter()
            .filter(|(key, _)| counts(key) && !environment.overrides(key));
        let said = kept.map(|(key, value)| (variable_of(key), value.clone()));
        // Without them the folder, and what needs a person's confirmation, would be lost.
        let (origin, timing) = (self.origin.clone(), self.timing);
        let mut found = FileContent {
            config: self,
            ..FileContent::default()
        };
        read_config::override_by(&mut found, &said.collect());
        let config = found.config.complete(origin, timing);
        // The file may have changed since.
        config.check_names(&[], &mut found.problems);
        config.check_isolation(&mut found.problems);
        ConfigError::refuse(found.problems, None)?;
        Ok(config)
    }
}
