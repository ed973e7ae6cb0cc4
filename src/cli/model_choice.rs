//! Who plans and judges: finds the coding agents that are installed, lets the configuration choose, and makes what can be asked.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use super::agent_choice::usable;
use super::{App, Failure, Result, complain};
use crate::agents::{Agent, CodingAgent, Login};
use crate::config::{
    Candidates, Config, ConfigError, Environment, FoundAgent, ModelEndpoint, ModelProvider, Planner,
};
use crate::daemon::Models;
use crate::exec::OF_THE_AGENT;
use crate::llm::{AgentModel, HttpModel, LanguageModel, Model};
use crate::volumes::Folder;
use crate::wire::{has_word, one_line};

impl App {
    /// Chooses who plans and judges; `at_work` is the agent that does the work, if it is known.
    ///
    /// # Errors
    /// What is chosen cannot be asked.
    pub fn planner(&self, at_work: Option<&Agent>) -> Result<Planner, ConfigError> {
        let known = CodingAgent::ALL.into_iter().filter(|agent| agent.answers);
        let known: Vec<_> = known
            .map(|agent| (agent.name, self.installed(agent)))
            .collect();
        let candidates = Candidates {
            known: &known,
            at_work: at_work.map(Agent::name),
        };
        self.config.planner(&self.environment, &candidates)
    }

    /// Returns whether an agent that does the work would also plan and judge, if it were there and nothing else is chosen.
    pub fn would_plan(&self, agent: &str) -> bool {
        let answers = CodingAgent::named(agent).is_some_and(|agent| agent.answers);
        answers && self.config.llm.provider == ModelProvider::Auto
    }

    /// Says who plans and judges, and where this was found: the answers cost something, and the person may not have named it.
    /// Makes sure that a coding agent can be started.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn introduce(&self, planner: &Planner) -> Result {
        let line = self.model_line(planner);
        match planner {
            Planner::Rules { .. } => {}
            Planner::Model { why, .. } => complain!("{line}, as {why}"),
            Planner::Agent { name, why } => {
                usable(coding(name), &self.environment).await?;
                complain!("{line}: {why}");
            }
        }
        Ok(())
    }

    /// Returns who plans and judges; nothing where rules do.
    pub fn model_line(&self, planner: &Planner) -> String {
        match planner {
            Planner::Rules { .. } => String::new(),
            Planner::Model { endpoint, .. } => self.of_endpoint(endpoint),
            Planner::Agent { name, .. } => format!("the coding agent {name} plans and judges"),
        }
    }

    fn of_endpoint(&self, endpoint: &ModelEndpoint) -> String {
        let (llm, usual) = (&self.config.llm, endpoint.api.usual_model());
        let named = |model: Option<&str>| match model {
            Some(model) => one_line(model, 80),
            None => format!("{usual} (its default)"),
        };
        let (plans, judges) = (named(llm.plan_model()), named(llm.judge_model()));
        let models = match plans == judges {
            true => format!("{plans} plans and judges"),
            false => format!("{plans} plans, {judges} judges"),
        };
        let by = endpoint.url_variable.map(|name| format!(" ({name})"));
        let (api, url) = (endpoint.api.as_str(), &endpoint.base_url);
        let by = by.unwrap_or_default();
        format!("{models}: {api} at {url}{by}")
    }

    /// Looks for an agent without running it.
    fn installed(&self, agent: &'static CodingAgent) -> FoundAgent {
        match self.login(agent) {
            _ if on_path(agent.name, &self.environment).is_none() => FoundAgent::Missing,
            Login::Found(_) => FoundAgent::Ready,
            Login::NotSeen(_) | Login::Unknown => FoundAgent::Installed,
        }
    }

    /// Finds out whether an agent can reach its model, as far as that can be seen.
    pub fn login(&self, agent: &'static CodingAgent) -> Login {
        (agent.login)(&self.passed(agent))
    }

    /// Returns the variables that an agent gets to see: only these count.
    pub fn passed(&self, agent: &'static CodingAgent) -> impl Fn(&str) -> Option<String> {
        move |name| {
            let named = |name| self.config.worker.env.iter().any(|named| named == name);
            let of_its_own = || has_word(agent.env, name) && named(OF_THE_AGENT);
            let passed = name == "HOME" || named(name) || of_its_own();
            let value = self.environment.get(name).filter(|_| passed);
            value.map(str::to_owned)
        }
    }
}

fn coding(name: &str) -> &'static CodingAgent {
    CodingAgent::named(name).expect("the configuration chose one of those there are")
}

/// Looks for a program as a shell does.
pub fn on_path(program: &str, environment: &Environment) -> Option<PathBuf> {
    let folders = std::env::split_paths(environment.get("PATH")?);
    (folders.map(|folder| folder.join(program))).find(|path| path.is_file())
}

/// Makes what can be asked; `None` if rules decide.
///
/// # Errors
/// The service or the agent cannot be set up.
pub fn models(planner: &Planner, config: &Config, path: Option<&str>) -> Result<Option<Models>> {
    let llm = &config.llm;
    let make = |model: Option<&str>| {
        let asked: Arc<dyn LanguageModel> = match planner {
            Planner::Rules { .. } => return Ok(None),
            Planner::Model { endpoint, .. } => {
                let model = model.unwrap_or(endpoint.api.usual_model());
                Arc::new(HttpModel::new(endpoint, model, llm.timeout)?)
            }
            Planner::Agent { name, .. } => {
                let marks = config.root().join(Folder::Active.as_str());
                let asked = AgentModel::new(coding(name), model, config, path, marks);
                Arc::new(asked.context("failed to make a temporary folder to ask the agent in")?)
            }
        };
        Ok::<_, Failure>(Some(Model::new(asked, llm)))
    };
    let (plan, judge) = (make(llm.plan_model())?, make(llm.judge_model())?);
    Ok(plan.zip(judge).map(|(plan, judge)| Models { plan, judge }))
}
