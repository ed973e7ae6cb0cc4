//! Chooses what plans and judges: the service that the configuration and the environment lead to, or rules. This module reads
//! the key from the environment, once, into a type that never shows it.

use secrecy::SecretString;

use super::{Config, ConfigError, Environment, ModelProvider, ServiceUrl, wrong_variable};
use crate::plan::words;
use crate::wire::{Problem, did_you_mean};

/// What plans and judges, and why.
#[derive(Clone, Debug)]
pub enum Planner {
    /// No model: a plan file and rules.
    Rules { why: String },
    /// A language model.
    Model {
        endpoint: ModelEndpoint,
        why: String,
    },
    /// A coding agent of this machine, with the model that it chooses.
    Agent { name: &'static str, why: String },
}

/// What is known of a coding agent before it has been run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundAgent {
    Missing,
    /// No sign that it could reach its model. `auto` does not choose it: a run that needs no model must not begin to need one.
    Installed,
    /// Its key is set, or a person has logged in.
    Ready,
}

/// The coding agents that could be asked.
#[derive(Clone, Debug, Default)]
pub struct Candidates<'a> {
    /// Their names, and how they were found on this machine, in the order of preference.
    pub known: &'a [(&'static str, FoundAgent)],
    /// The agent that does the work, if it is known already.
    pub at_work: Option<&'a str>,
}

words! {
    /// The API that a service offers: the word in the configuration.
    pub enum Api {
        /// Anthropic Messages: `base_url` + `/v1/messages`.
        Anthropic = "anthropic",
        /// Chat Completions: `base_url`, which ends in `/v1`, + `/chat/completions`.
        OpenAi = "openai",
    }
}

/// A service: where it is, and with which key.
#[derive(Clone, Debug)]
pub struct ModelEndpoint {
    pub api: Api,
    pub base_url: ServiceUrl,
    /// The variable that names the address, if the configuration does not.
    pub url_variable: Option<&'static str>,
    /// `None` for a server on this machine that needs no key.
    pub key: Option<SecretString>,
    /// The variable from which the key is read.
    pub key_variable: String,
}

impl Api {
    fn usual_key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }

    /// Returns the variables that redirect the vendor's programs, and the coding agents, to another address.
    pub(super) fn url_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_BASE_URL"],
            Self::OpenAi => &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        }
    }

    /// Returns the address that the environment names, with the variable.
    ///
    /// # Errors
    /// It is no address, or two variables name different ones: the key and the goal must not go to the wrong one.
    fn elsewhere(
        self,
        environment: &Environment,
    ) -> Result<Option<(&'static str, ServiceUrl)>, Problem> {
        let named = self.url_variables().iter().filter_map(|name| {
            let url = ServiceUrl::parse(environment.get(name)?);
            let url = url.map_err(|message| wrong_variable(name, &message));
            Some(url.map(|url| (*name, url)))
        });
        let named = named.collect::<Result<Vec<_>, _>>()?;
        match &named[..] {
            [(first, url), (name, other)] if url != other => {
                let message = format!("names another address than `{first}`");
                Err(wrong_variable(name, &message))
            }
            _ => Ok(named.into_iter().next()),
        }
    }

    fn usual_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    /// Returns the model that is asked if none is configured.
    pub fn usual_model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-4-5",
            Self::OpenAi => "gpt-5",
        }
    }
}

impl Config {
    /// Returns what a person can do to get a model.
    pub fn way_to_a_model(&self) -> &'static str {
        match self.llm.provider {
            ModelProvider::None => "choose another `[llm] provider` than \"none\"",
            _ => "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or log in with a coding agent",
        }
    }

    /// Chooses what plans and judges.
    ///
    /// # Errors
    ///
    /// The chosen provider's key is not in the environment, the configuration names an address without a provider, or the
    /// configured coding agent is not installed.
    pub fn planner(
        &self,
        environment: &Environment,
        candidates: &Candidates<'_>,
    ) -> Result<Planner, ConfigError> {
        let chosen = match self.llm.provider {
            ModelProvider::None => Ok(Planner::Rules {
                why: "provider = \"none\"".into(),
            }),
            ModelProvider::Anthropic => self.chosen(Api::Anthropic, environment),
            ModelProvider::OpenAi => self.chosen(Api::OpenAi, environment),
            ModelProvider::Agent => self.chosen_agent(candidates),
            ModelProvider::Auto => self.first_configured(environment, candidates),
        };
        chosen.map_err(|problem| ConfigError::of(vec![problem], self.file()))
    }

    fn chosen_agent(&self, candidates: &Candidates<'_>) -> Result<Planner, Problem> {
        if let Some(name) = self.agent(candidates, FoundAgent::Installed)? {
            let why = "provider = \"agent\"".into();
            return Ok(Planner::Agent { name, why });
        }
        let names = candidates.names().join(", ");
        let problem = Problem::new("`llm.provider` is \"agent\", but no coding agent is installed");
        Err(self.placed("llm.provider", problem.with_hint(format!(
            "install one ({names}), or set ANTHROPIC_API_KEY or OPENAI_API_KEY and leave `provider` out"
        ))))
    }

    /// Finds the coding agent to ask: the configured one, else the one that does the work, else the first that is ready, else
    /// the first that is installed.
    fn agent(
        &self,
        candidates: &Candidates<'_>,
        least: FoundAgent,
    ) -> Result<Option<&'static str>, Problem> {
        if let Some(name) = &self.llm.agent {
            let named = candidates.named(name).map(Some);
            return named.map_err(|problem| self.placed("llm.agent", problem));
        }
        let at_work = candidates.at_work;
        let at_work = at_work.and_then(|name| candidates.named(name).ok());
        let first = |found| {
            let mut known = candidates.known.iter();
            Some(known.find(|(_, state)| *state == found)?.0)
        };
        // The least that is asked for is looked for last.
        let found = at_work.or_else(|| first(FoundAgent::Ready));
        Ok(found.or_else(|| first(least)))
    }

    fn chosen(&self, api: Api, environment: &Environment) -> Result<Planner, Problem> {
        let endpoint = self.endpoint(api, environment)?;
        // A server on this machine usually needs no key; but if the configuration names the variable, a key is required.
        if endpoint.key.is_none()
            && (self.llm.api_key_env.is_some() || !endpoint.base_url.is_local())
        {
            let (provider, variable) = (api.as_str(), endpoint.key_variable);
            let problem = Problem::new(format!(
                "`llm.provider` is \"{provider}\", but the environment variable `{variable}` is not set"
            ));
            return Err(self.placed("llm.provider", problem.with_hint(format!(
                "set `{variable}`, name another variable in `llm.api_key_env`, or do without a model: provider = \"none\""
            ))));
        }
        Ok(Planner::Model {
            endpoint,
            why: format!("provider = \"{}\"", api.as_str()),
        })
    }

    fn first_configured(
        &self,
        environment: &Environment,
        candidates: &Candidates<'_>,
    ) -> Result<Planner, Problem> {
        let llm = &self.llm;
        let set = [
            ("base_url", &llm.base_url),
            ("api_key_env", &llm.api_key_env),
        ];
        if let Some((key, _)) = set.into_iter().find(|(_, value)| value.is_some()) {
            let message = format!("`llm.{key}` is set, but `llm.provider` is \"auto\"");
            let hint = "say which API it speaks: provider = \"anthropic\" or \"openai\"";
            return Err(self.placed(&format!("llm.{key}"), Problem::new(message).with_hint(hint)));
        }
        let has_key = |api: &Api| environment.get(api.usual_key_variable()).is_some();
        if let Some(api) = Api::ALL.into_iter().find(has_key) {
            let endpoint = self.endpoint(api, environment)?;
            return Ok(Planner::Model {
                why: format!("{} is set", endpoint.key_variable),
                endpoint,
            });
        }
        let keys = Api::ALL.map(Api::usual_key_variable).join(" nor ");
        Ok(match self.agent(candidates, FoundAgent::Ready)? {
            Some(name) => Planner::Agent {
                name,
                why: format!("neither {keys} is set"),
            },
            None => Planner::Rules {
                why: format!("neither {keys} is set, no coding agent is ready"),
            },
        })
    }

    fn endpoint(&self, api: Api, environment: &Environment) -> Result<ModelEndpoint, Problem> {
        let llm = &self.llm;
        let key_variable = llm.api_key_env.as_deref();
        let key_variable = key_variable.unwrap_or(api.usual_key_variable());
        let known = |text: &str| ServiceUrl::parse(text).expect("it was read as an address");
        let (url_variable, base_url) = match &llm.base_url {
            Some(configured) => (None, known(configured)),
            None => match api.elsewhere(environment)? {
                Some((variable, url)) => (Some(variable), url),
                None => (None, known(api.usual_base_url())),
            },
        };
        Ok(ModelEndpoint {
            api,
            base_url,
            url_variable,
            key: environment.get(key_variable).map(SecretString::from),
            key_variable: key_variable.to_owned(),
        })
    }
}

impl Candidates<'_> {
    /// Finds an installed agent by its name.
    fn named(&self, name: &str) -> Result<&'static str, Problem> {
        match self.known.iter().find(|(known, _)| *known == name) {
            Some((_, FoundAgent::Missing)) => {
                let message =
                    format!("`llm.agent` is \"{name}\", but no program `{name}` is installed");
                Err(Problem::new(message).with_hint(format!(
                    "install `{name}` where the PATH leads; `plan-agent doctor` shows which agents there are"
                )))
            }
            Some((known, _)) => Ok(known),
            None => {
                let names = self.names();
                let all = || format!("the agents that can be asked are {}", names.join(", "));
                let message =
                    format!("`llm.agent` is \"{name}\", which is no agent that can be asked");
                let hint = did_you_mean(name, names.iter().copied()).unwrap_or_else(all);
                Err(Problem::new(message).with_hint(hint))
            }
        }
    }

    fn names(&self) -> Vec<&'static str> {
        self.known.iter().map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::super::read_config;
    use super::*;

    const CANARY: &str = "canary-key";

    /// Chooses under `[llm]` keys and set variables, and says what came out.
    fn chosen(llm: &str, variables: &[&str]) -> String {
        let config = read_config::parse(&format!("[llm]\n{llm}")).config;
        chosen_of(&config, variables, &Candidates::default())
    }

    /// Chooses among coding agents, too: `claude` is missing, `codex` installed, `gemini` ready.
    fn chosen_beside(llm: &str, variables: &[&str], at_work: Option<&str>) -> String {
        let config = read_config::parse(&format!("[llm]\n{llm}")).config;
        let known = [
            ("claude", FoundAgent::Missing),
            ("codex", FoundAgent::Installed),
            ("gemini", FoundAgent::Ready),
        ];
        let known = &known;
        chosen_of(&config, variables, &Candidates { known, at_work })
    }

    fn chosen_of(config: &Config, variables: &[&str], candidates: &Candidates<'_>) -> String {
        let environment = variables
            .iter()
            .map(|name| name.split_once('=').unwrap_or((name, CANARY)))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        match config.planner(&environment, candidates) {
            Ok(Planner::Rules { why }) => format!("rules: {why}"),
            Ok(Planner::Agent { name, why }) => format!("agent {name}: {why}"),
            Ok(Planner::Model { endpoint, why }) => {
                let shown = format!("{endpoint:?}");
                assert!(!shown.contains(CANARY), "{shown}");
                let model =
                    |named: Option<&str>| named.unwrap_or(endpoint.api.usual_model()).to_owned();
                let key = endpoint
                    .key
                    .as_ref()
                    .map(|key| key.expose_secret() == CANARY);
                format!(
                    "{} at {}, plan {}, judge {}, key {key:?}: {why}",
                    endpoint.api.as_str(),
                    endpoint.base_url,
                    model(config.llm.plan_model()),
                    model(config.llm.judge_model())
                )
            }
            Err(ConfigError(problems)) => {
                let Problem { message, hint, .. } = &problems[0];
                format!("{message}\nHint: {}", hint.as_deref().unwrap_or_default())
            }
        }
    }

    #[test]
    fn auto_uses_first_key_in_environment() {
        insta::assert_snapshot!(chosen("", &[]), @"rules: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set, no coding agent is ready");
        insta::assert_snapshot!(chosen("", &["OPENAI_API_KEY"]), @"openai at https://api.openai.com/v1, plan gpt-5, judge gpt-5, key Some(true): OPENAI_API_KEY is set");
        insta::assert_snapshot!(chosen("", &["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]), @"anthropic at https://api.anthropic.com, plan claude-sonnet-4-5, judge claude-sonnet-4-5, key Some(true): ANTHROPIC_API_KEY is set");
    }

    #[test]
    fn configured_base_url_overrides_environment() {
        let here = "ANTHROPIC_BASE_URL=http://127.0.0.1:8080/";
        insta::assert_snapshot!(chosen("", &["ANTHROPIC_API_KEY", here]), @"anthropic at http://127.0.0.1:8080, plan claude-sonnet-4-5, judge claude-sonnet-4-5, key Some(true): ANTHROPIC_API_KEY is set");
        insta::assert_snapshot!(chosen("", &["OPENAI_API_KEY", here]), @"openai at https://api.openai.com/v1, plan gpt-5, judge gpt-5, key Some(true): OPENAI_API_KEY is set");
        insta::assert_snapshot!(chosen("provider = 'openai'", &["OPENAI_BASE_URL=http://localhost/v1"]), @r#"openai at http://localhost/v1, plan gpt-5, judge gpt-5, key None: provider = "openai""#);
        insta::assert_snapshot!(chosen("provider = 'anthropic'\nbase_url = 'https://models.example'", &["ANTHROPIC_API_KEY", here]), @r#"anthropic at https://models.example, plan claude-sonnet-4-5, judge claude-sonnet-4-5, key Some(true): provider = "anthropic""#);
        insta::assert_snapshot!(chosen("", &["OPENAI_API_KEY", "OPENAI_BASE_URL=http://models.example/v1"]), @r"
        environment variable `OPENAI_BASE_URL`: http would send the key unencrypted and is for this machine only; use https
        Hint: mend it, or name the address in `llm.base_url`, which goes before
        ");
        let of_aider = "OPENAI_API_BASE=http://localhost/v1";
        insta::assert_snapshot!(chosen("provider = 'openai'", &[of_aider]), @r#"openai at http://localhost/v1, plan gpt-5, judge gpt-5, key None: provider = "openai""#);
        insta::assert_snapshot!(chosen("", &["OPENAI_API_KEY", of_aider, "OPENAI_BASE_URL=http://localhost/v1/"]), @"openai at http://localhost/v1, plan gpt-5, judge gpt-5, key Some(true): OPENAI_API_KEY is set");
        insta::assert_snapshot!(chosen("", &["OPENAI_API_KEY", of_aider, "OPENAI_BASE_URL=https://models.example/v1"]), @"
        environment variable `OPENAI_API_BASE`: names another address than `OPENAI_BASE_URL`
        Hint: mend it, or name the address in `llm.base_url`, which goes before
        ");
        // An address alone chooses no model.
        insta::assert_snapshot!(chosen("", &[here]), @"rules: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set, no coding agent is ready");
    }

    #[test]
    fn auto_rejects_base_url_or_key_without_provider() {
        insta::assert_snapshot!(chosen("base_url = 'https://models.example/v1'", &["OPENAI_API_KEY"]), @r#"
        `llm.base_url` is set, but `llm.provider` is "auto"
        Hint: say which API it speaks: provider = "anthropic" or "openai"
        "#);
        insta::assert_snapshot!(chosen("api_key_env = 'K'", &["K"]), @r#"
        `llm.api_key_env` is set, but `llm.provider` is "auto"
        Hint: say which API it speaks: provider = "anthropic" or "openai"
        "#);
    }

    #[test]
    fn explicit_provider_requires_key() {
        insta::assert_snapshot!(chosen("provider = 'anthropic'", &["OPENAI_API_KEY"]), @r#"
        `llm.provider` is "anthropic", but the environment variable `ANTHROPIC_API_KEY` is not set
        Hint: set `ANTHROPIC_API_KEY`, name another variable in `llm.api_key_env`, or do without a model: provider = "none"
        "#);
        insta::assert_snapshot!(chosen("provider = 'openai'\napi_key_env = 'MY_KEY'", &["OPENAI_API_KEY"]), @r#"
        `llm.provider` is "openai", but the environment variable `MY_KEY` is not set
        Hint: set `MY_KEY`, name another variable in `llm.api_key_env`, or do without a model: provider = "none"
        "#);
        insta::assert_snapshot!(chosen("provider = 'openai'\napi_key_env = 'MY_KEY'\nmodel = 'm'\nplan.model = 'p'", &["MY_KEY"]), @r#"openai at https://api.openai.com/v1, plan p, judge m, key Some(true): provider = "openai""#);
        insta::assert_snapshot!(chosen("provider = 'none'", &["OPENAI_API_KEY"]), @r#"rules: provider = "none""#);
    }

    #[test]
    fn local_server_needs_no_key_unless_configured() {
        let local = "provider = 'openai'\nbase_url = 'http://127.0.0.1:8080/v1'";
        insta::assert_snapshot!(chosen(local, &[]), @r#"openai at http://127.0.0.1:8080/v1, plan gpt-5, judge gpt-5, key None: provider = "openai""#);
        insta::assert_snapshot!(chosen(&format!("{local}\napi_key_env = 'MY_KEY'"), &[]), @r#"
        `llm.provider` is "openai", but the environment variable `MY_KEY` is not set
        Hint: set `MY_KEY`, name another variable in `llm.api_key_env`, or do without a model: provider = "none"
        "#);
    }

    #[test]
    fn auto_uses_agent_only_without_key() {
        insta::assert_snapshot!(chosen_beside("", &["OPENAI_API_KEY"], Some("codex")), @"openai at https://api.openai.com/v1, plan gpt-5, judge gpt-5, key Some(true): OPENAI_API_KEY is set");
        insta::assert_snapshot!(chosen_beside("", &[], None), @"agent gemini: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set");
        insta::assert_snapshot!(chosen_beside("", &[], Some("codex")), @"agent codex: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set");
        insta::assert_snapshot!(chosen_beside("", &[], Some("shell")), @"agent gemini: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set");
        insta::assert_snapshot!(chosen_beside("agent = 'codex'", &[], None), @"agent codex: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set");
    }

    #[test]
    fn agent_provider_prefers_configured_then_working_agent() {
        let provider = "provider = 'agent'";
        insta::assert_snapshot!(chosen_beside(provider, &["OPENAI_API_KEY"], None), @r#"agent gemini: provider = "agent""#);
        insta::assert_snapshot!(chosen_beside(provider, &[], Some("codex")), @r#"agent codex: provider = "agent""#);
        insta::assert_snapshot!(chosen_beside(&format!("{provider}\nagent = 'codex'"), &[], Some("gemini")), @r#"agent codex: provider = "agent""#);
        insta::assert_snapshot!(chosen_beside(&format!("{provider}\nagent = 'claude'"), &[], None), @r#"
        `llm.agent` is "claude", but no program `claude` is installed
        Hint: install `claude` where the PATH leads; `plan-agent doctor` shows which agents there are
        "#);
        insta::assert_snapshot!(chosen_beside(&format!("{provider}\nagent = 'gemni'"), &[], None), @r#"
        `llm.agent` is "gemni", which is no agent that can be asked
        Hint: did you mean `gemini`?
        "#);
        let known = &[("claude", FoundAgent::Missing)];
        let config = read_config::parse(&format!("[llm]\n{provider}")).config;
        let alone = Candidates {
            known,
            at_work: Some("shell"),
        };
        insta::assert_snapshot!(chosen_of(&config, &[], &alone), @r#"
        `llm.provider` is "agent", but no coding agent is installed
        Hint: install one (claude), or set ANTHROPIC_API_KEY or OPENAI_API_KEY and leave `provider` out
        "#);
    }
}
