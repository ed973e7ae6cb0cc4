//! Which settings of a file run programs or widen rights: all but those listed here, so a key that is added later does until
//! a person has thought about it.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde_json::Value;

use super::{Config, NotifyUrl, StoreUrl, leaves};
use crate::plan::PlanPolicy;
use crate::wire::parse_span;

/// Keys that neither run a program nor widen what is allowed. What the team file and the prompts say counts by their content.
const HARMLESS: &str = "
    llm.provider llm.model llm.agent llm.tries llm.retry_delay llm.plan.model llm.judge.when llm.judge.model
    run.isolation run.team run.session run.task_timeout run.task_deadline run.max_attempts run.max_replans run.max_parallel run.max_plans
    run.audit run.language run.protect worker.retries worker.retry_delay tools.max_subtasks prompts.dir
    notify.format role.classify role.max_steps role.step_timeout role.max_depth";

/// Folders, which are harmless within the folder of the file.
const PLACES: [&str; 2] = ["volumes.root", "run.workspace"];

impl Config {
    /// Returns the settings that run programs or widen rights, by their keys, as TOML. What is at its default, or is less than that,
    /// does neither.
    pub(super) fn find_sensitive(&self, folder: &Path) -> BTreeMap<String, String> {
        let mut defaults = leaves(&Self::default());
        // Left out, it grows with the plan, from this one on.
        let attempts = PlanPolicy::default().budget.attempts;
        defaults.insert("budget.attempts".to_owned(), attempts.into());
        let harmless = |key: &str| {
            let of_check = key.ends_with(".timeout") || key.ends_with(".before");
            of_check || HARMLESS.split_whitespace().any(|other| other == key)
        };
        let sensitive = leaves(self).into_iter().filter(|(key, _)| !harmless(key));
        let widens = sensitive.filter_map(|(key, value)| {
            let value = match (value, defaults.get(&key)) {
                (Value::Null, _) => return None,
                (value, Some(default)) if value == *default => return None,
                (_, _) if key == "notify.url" => {
                    Value::from(self.notify.url.as_ref().map(NotifyUrl::confirmed_as))
                }
                (_, _) if key == "store.url" => {
                    Value::from(self.store.url.as_ref().map(StoreUrl::confirmed_as))
                }
                (value, Some(default)) if key.starts_with("budget.") => {
                    let (limit, default) = (amount(&value), amount(default));
                    let more = limit.is_none_or(|limit| Some(limit) > default);
                    more.then_some(value)?
                }
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

/// Returns the amount of a limit; `None` for no limit.
fn amount(limit: &Value) -> Option<f64> {
    let span = |text| parse_span(text).map(|span| span.as_secs_f64());
    limit.as_f64().or_else(|| limit.as_str().and_then(span))
}

/// Returns where a path leads, if that is out of a folder.
fn outside(path: &str, folder: &Path) -> Option<String> {
    let full = folder.join(path);
    let leads = full.canonicalize().unwrap_or(full);
    (!leads_below(folder, Path::new(path))).then(|| leads.display().to_string())
}

/// Returns whether a path that is named in a folder leads below it, also through links, as far as it is there.
pub fn leads_below(folder: &Path, named: &Path) -> bool {
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let path = folder.join(named);
    let there = path.ancestors().find(|part| part.exists());
    let real = |path: &Path| path.canonicalize().ok();
    let real = real(folder).zip(there.and_then(real));
    named.components().all(plain) && real.is_some_and(|(folder, there)| there.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::{Environment, TEMPLATE};

    fn sensitive(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        symlink("/usr", folder.path().join("link")).unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        let config = Config::load(Some(&file), &Environment::default()).unwrap();
        let settings = config.sensitive().iter();
        settings
            .map(|(key, value)| format!("{key} = {value}"))
            .collect()
    }

    #[test]
    fn harmless_settings_need_no_confirmation() {
        for text in [
            TEMPLATE,
            "[llm]\nprovider = 'none'\njudge = 'on_doubt'\ntimeout = '9s'",
            "[run]\nworkspace = 'work'\nmax_parallel = 9\nisolation = 'worktree'\nteam = 't.yaml'",
            "[volumes]\nroot = './v'\n[prompts]\ndir = '/p'",
            "[budget]\nllm_calls = 1\nllm_tokens = 2\ncost_usd = 3\nwall_time = '1m'\nattempts = 4",
            "[worker]\nallow = []\nenv = ['PATH']",
        ] {
            assert_eq!(sensitive(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn programs_and_rights_need_confirmation() {
        for (text, found) in [
            (
                "[checks]\nt = { run = ['cargo', 'test'], timeout = '1m', env = ['X'] }",
                vec![
                    r#"checks.t.env = ["X"]"#,
                    r#"checks.t.run = ["cargo", "test"]"#,
                ],
            ),
            (
                "[mcp]\nd = { command = ['d'] }",
                vec![r#"mcp.d.command = ["d"]"#],
            ),
            (
                "[hooks]\non_finish = ['./n']\nenv = ['TOKEN']",
                vec![r#"hooks.env = ["TOKEN"]"#, r#"hooks.on_finish = ["./n"]"#],
            ),
            (
                "[notify]\nurl = 'https://ntfy.example/secret'\nformat = 'text'",
                vec![r#"notify.url = "https://ntfy.example/… (4d53763a7c4b)""#],
            ),
            (
                "[store]\nurl = 'postgres://u:canary@h/d'",
                vec![r#"store.url = "postgres://u@h/d""#],
            ),
            (
                "[worker]\nallow = ['edit', 'all']\nenv = ['PATH', 'TOKEN']",
                vec![r#"worker.allow = ["all"]"#, r#"worker.env = ["TOKEN"]"#],
            ),
            (
                "[llm]\nbase_url = 'http://127.0.0.1:1/'\napi_key_env = 'TOKEN'",
                vec![
                    r#"llm.api_key_env = "TOKEN""#,
                    r#"llm.base_url = "http://127.0.0.1:1""#,
                ],
            ),
            (
                "[budget]\ncost_usd = 'none'\nwall_time = '99h'\n[run]\nconfirm_abort = 'never'",
                vec![
                    r#"budget.cost_usd = "none""#,
                    r#"budget.wall_time = "99h""#,
                    r#"run.confirm_abort = "never""#,
                ],
            ),
            // Also one that is lower than before: without a record of it nobody would see that it is gone.
            (
                "[budget.day]\nllm_calls = 9\ncost_usd = 5",
                vec!["budget.day.cost_usd = 5.0", "budget.day.llm_calls = 9"],
            ),
            (
                "[run]\nworkspace = 'link'\n[volumes]\nroot = '/none/../x'",
                vec![
                    r#"run.workspace = "/usr""#,
                    r#"volumes.root = "/none/../x""#,
                ],
            ),
        ] {
            assert_eq!(sensitive(text), found, "{text}");
        }
    }

    #[test]
    fn place_behind_link_that_leads_out_needs_confirmation() {
        let found = sensitive("[run]\nworkspace = 'link/none'");
        assert!(
            matches!(&*found, [one] if one.ends_with("/link/none\"")),
            "{found:?}"
        );
    }

    #[test]
    fn environment_is_the_persons_word() {
        let folder = tempfile::tempdir().unwrap();
        let set = ("PLAN_AGENT_WORKER_ALLOW".to_owned(), "['all']".to_owned());
        let config = Config::in_folder(folder.path(), &Environment::from_iter([set])).unwrap();
        assert_eq!(config.worker.allow, ["all"]);
        assert!(config.sensitive().is_empty());
    }
}
