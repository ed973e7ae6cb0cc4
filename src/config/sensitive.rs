//! Which settings of a file run programs or widen rights: all but those listed here, so a key that is added later does until
//! somebody has thought about it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::read_config::leaves;
use super::{BudgetConfig, Config, ConfiguredLimit};

/// Keys that neither run a program nor widen what is allowed. What the team file and the prompts say counts by their content.
const HARMLESS: [&str; 26] = [
    "llm.provider",
    "llm.model",
    "llm.agent",
    "llm.tries",
    "llm.retry_delay",
    "llm.plan.model",
    "llm.judge.when",
    "llm.judge.model",
    "run.isolation",
    "run.team",
    "run.session",
    "run.task_timeout",
    "run.task_deadline",
    "run.max_attempts",
    "run.max_replans",
    "run.max_parallel",
    "run.audit",
    "run.language",
    "worker.retries",
    "worker.retry_delay",
    "tools.max_subtasks",
    "role.classify",
    "role.max_steps",
    "role.step_timeout",
    "role.max_depth",
    "prompts.dir",
];

/// Folders, which are harmless within the folder of the file.
const PLACES: [&str; 2] = ["volumes.root", "run.workspace"];

impl Config {
    /// Returns the settings that run programs or widen rights, by their keys, as TOML. What is at its default, or is less than that,
    /// does neither.
    pub(super) fn find_sensitive(&self, folder: &Path) -> BTreeMap<String, String> {
        let defaults = leaves(&Self::default());
        let harmless = |key: &str| {
            let timeout = key.ends_with(".timeout");
            timeout || HARMLESS.contains(&key) || self.budget.is_lowered(key)
        };
        let settings = leaves(self).into_iter();
        let sensitive = settings.filter(|(key, _)| !harmless(key));
        let widens = sensitive.filter_map(|(key, value)| {
            let value = match (value, defaults.get(&key)) {
                (Value::Null, _) => return None,
                (value, Some(default)) if value == *default => return None,
                (Value::String(place), _) if PLACES.contains(&&*key) => {
                    Value::from(outside(&place, folder)?)
                }
                (Value::Array(mut entries), Some(Value::Array(default))) => {
                    entries.retain(|entry| !default.contains(entry));
                    Value::from(entries)
                }
                (value, _) => value,
            };
            let empty = value.as_array().is_some_and(Vec::is_empty);
            let toml = toml::Value::try_from(&value).map(|value| value.to_string());
            // What TOML has no word for is shown as JSON.
            (!empty).then(|| (key, toml.unwrap_or_else(|_| value.to_string())))
        });
        widens.collect()
    }
}

impl BudgetConfig {
    /// Returns whether a key is a limit that allows no more than the default.
    fn is_lowered(&self, key: &str) -> bool {
        let usual = Self::default();
        match key {
            "budget.llm_calls" => self.llm_calls.is_within(&usual.llm_calls),
            "budget.llm_tokens" => self.llm_tokens.is_within(&usual.llm_tokens),
            "budget.cost_usd" => self.cost_usd.is_within(&usual.cost_usd),
            "budget.wall_time" => self.wall_time.is_within(&usual.wall_time),
            "budget.attempts" => self.attempts.is_within(&usual.attempts),
            _ => false,
        }
    }
}

impl<T: PartialOrd> ConfiguredLimit<T> {
    fn is_within(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(limit), Some(other)) => limit <= other,
            (None, Some(_)) => false,
            (_, None) => true,
        }
    }
}

/// Returns where a path leads, if that is out of a folder.
fn outside(path: &str, folder: &Path) -> Option<String> {
    let (named, full) = (Path::new(path), folder.join(path));
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let below = |real: &PathBuf| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| real.starts_with(folder))
    };
    // A link may lead out, too.
    let real = full.canonicalize();
    let inside = named.components().all(plain) && real.as_ref().map_or(true, below);
    (!inside).then(|| real.unwrap_or(full).display().to_string())
}
