//! Who plans and judges: finds the coding agents that are installed, lets the configuration choose, and makes what can be asked.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use super::agent_probe::usable;
use super::{App, Failure, complain};
use crate::agents::{Agent, CodingAgent, Login};
use crate::config::{
    Candidate, Candidates, Config, ConfigError, Environment, FoundAgent, ModelEndpoint,
    ModelProvider, Planner,
};
use crate::daemon::Models;
use crate::exec::OF_THE_AGENT;
use crate::llm::{AgentModel, HttpModel, LanguageModel, Model};
use crate::volumes::Folder;
use crate::wire::text::one_line;

impl App {
    /// Chooses who plans and judges; `at_work` is the agent that does the work, if it is known.
    ///
    /// # Errors
    /// What is chosen cannot be asked.
    pub(super) fn planner(&self, at_work: Option<&Agent>) -> Result<Planner, ConfigError> {
        let known = CodingAgent::ALL
            .into_iter()
            .filter(|agent| agent.program().answers);
        let known: Vec<Candidate> = known
            .map(|agent| Candidate {
                name: agent.name(),
                found: self.installed(agent),
            })
            .collect();
        let candidates = Candidates {
            known: &known,
            at_work: at_work.map(Agent::name),
        };
        self.config.planner(&self.environment, &candidates)
    }

    /// Returns whether an agent that does the work would also plan and judge, if it were there and nothing else is chosen.
    pub(super) fn would_plan(&self, agent: &str) -> bool {
        let answers = CodingAgent::named(agent).is_some_and(|agent| agent.program().answers);
        answers && self.config.llm.provider == ModelProvider::Auto
    }

    /// Says who plans and judges, and where this was found: the answers cost something, and the person may not have named it.
    /// Makes sure that a coding agent can be started.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) async fn introduce(&self, planner: &Planner) -> Result<(), Failure> {
        match planner {
            Planner::Rules { .. } => {}
            Planner::Model { endpoint, why } => complain(&self.of_endpoint(endpoint, why)),
            Planner::Agent { name, why } => {
                usable(coding(name), &self.environment).await?;
                complain(&format!(
                    "the coding agent {name} plans and judges: {why}\n"
                ));
            }
        }
        Ok(())
    }

    fn of_endpoint(&self, endpoint: &ModelEndpoint, why: &str) -> String {
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
        format!("{models}: {api} at {url}{by}, as {why}\n")
    }

    /// Looks for an agent without running it.
    fn installed(&self, agent: CodingAgent) -> FoundAgent {
        match self.login(agent) {
            _ if on_path(agent.name(), &self.environment).is_none() => FoundAgent::Missing,
            Login::Found(_) => FoundAgent::Ready,
            Login::NotSeen(_) | Login::Unknown => FoundAgent::Installed,
        }
    }

    /// Finds out whether an agent can reach its model, as far as that can be seen.
    pub(super) fn login(&self, agent: CodingAgent) -> Login {
        agent.login(&self.passed(agent))
    }

    /// Returns the variables that an agent gets to see: only these count.
    pub(super) fn passed(&self, agent: CodingAgent) -> impl Fn(&str) -> Option<String> {
        let own = agent.program().env;
        move |name| {
            let named = |name| self.config.worker.env.iter().any(|named| named == name);
            let of_its_own = || own.split(' ').any(|own| own == name) && named(OF_THE_AGENT);
            let passed = name == "HOME" || named(name) || of_its_own();
            let value = self.environment.get(name).filter(|_| passed);
            value.map(str::to_owned)
        }
    }
}

fn coding(name: &str) -> CodingAgent {
    CodingAgent::named(name).expect("the configuration chose one of those there are")
}

/// Looks for a program as a shell does.
pub(super) fn on_path(program: &str, environment: &Environment) -> Option<PathBuf> {
    std::env::split_paths(environment.get("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Makes what can be asked; `None` if rules decide.
///
/// # Errors
/// The service or the agent cannot be set up.
pub(super) fn models(planner: &Planner, config: &Config) -> Result<Option<Models>, Failure> {
    let llm = &config.llm;
    let make = |model| {
        let asked = match planner {
            Planner::Rules { .. } => return Ok(None),
            Planner::Model { endpoint, .. } => of_service(endpoint, model, config)?,
            Planner::Agent { name, .. } => of_agent(coding(name), model, config)?,
        };
        Ok::<_, Failure>(Some(Model::new(asked, llm)))
    };
    let (plan, judge) = (make(llm.plan_model())?, make(llm.judge_model())?);
    Ok(plan.zip(judge).map(|(plan, judge)| Models { plan, judge }))
}

fn of_service(
    endpoint: &ModelEndpoint,
    model: Option<&str>,
    config: &Config,
) -> Result<Arc<dyn LanguageModel>, Failure> {
    let model = model.unwrap_or(endpoint.api.usual_model());
    let llm = HttpModel::new(endpoint, model, config.llm.timeout);
    let llm = llm.map_err(|error| Failure::hinted(error, |error| error.hint()))?;
    Ok(Arc::new(llm))
}

fn of_agent(
    agent: CodingAgent,
    model: Option<&str>,
    config: &Config,
) -> Result<Arc<dyn LanguageModel>, Failure> {
    let marks = config.root().join(Folder::Active.as_str());
    let llm = AgentModel::new(agent, model, config, marks)
        .context("failed to make a temporary folder to ask the agent in")?;
    Ok(Arc::new(llm))
}
