//! Who plans and judges: looks which coding agents are there, lets the configuration choose, and makes what can be asked.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use super::agent_probe::usable;
use super::app::App;
use super::args::AgentKind;
use super::failure::Failure;
use super::output::complain;
use crate::agents::{Agent, CodingAgent, Login};
use crate::config::{
    Candidate, Candidates, Config, ConfigError, Environment, FoundAgent, ModelEndpoint,
    ModelProvider, Planner,
};
use crate::daemon::Models;
use crate::exec::OF_THE_AGENT;
use crate::llm::{AgentModel, HttpModel, LanguageModel, Model};
use crate::volumes::Folder;

impl App {
    /// Chooses who plans and judges; `at_work` is the agent that does the work, if it is known.
    ///
    /// # Errors
    /// What is chosen cannot be asked.
    pub(super) fn planner(&self, at_work: Option<&Agent>) -> Result<Planner, ConfigError> {
        let candidate = |agent: CodingAgent| Candidate {
            name: agent.name(),
            found: found(agent, &self.config, &self.environment),
        };
        let known = CodingAgent::ALL.into_iter().filter(|agent| agent.answers());
        let known: Vec<Candidate> = known.map(candidate).collect();
        let candidates = Candidates {
            known: &known,
            at_work: at_work.map(Agent::name),
        };
        self.config.planner(&self.environment, &candidates)
    }

    /// Returns whether an agent that does the work would plan and judge as well, if it were there and nobody else is chosen.
    pub(super) fn would_plan(&self, agent: AgentKind) -> bool {
        let answers = CodingAgent::named(agent.name()).is_some_and(CodingAgent::answers);
        answers && self.config.llm.provider == ModelProvider::Auto
    }

    /// Says who plans and judges where that is a coding agent, and makes sure that it can be started: its answers cost
    /// something, and the person may not have named it.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) async fn introduce(&self, planner: &Planner) -> Result<(), Failure> {
        let Planner::Agent { name, why } = planner else {
            return Ok(());
        };
        usable(coding(name), &self.environment).await?;
        complain(&format!(
            "the coding agent {name} plans and judges: {why}\n"
        ));
        Ok(())
    }
}

fn coding(name: &str) -> CodingAgent {
    CodingAgent::named(name).expect("the configuration chose one of those there are")
}

/// Looks for an agent without running it.
fn found(agent: CodingAgent, config: &Config, environment: &Environment) -> FoundAgent {
    if on_path(agent.name(), environment).is_none() {
        return FoundAgent::Missing;
    }
    match login(agent, config, environment) {
        Login::Found(_) => FoundAgent::Ready,
        Login::NotSeen(_) | Login::Unknown => FoundAgent::Installed,
    }
}

/// Finds out whether an agent can reach its model, as far as that can be seen.
pub(super) fn login(agent: CodingAgent, config: &Config, environment: &Environment) -> Login {
    agent.login(&passed(agent, config, environment))
}

/// Returns the variables that an agent gets to see: only these count.
pub(super) fn passed(
    agent: CodingAgent,
    config: &Config,
    environment: &Environment,
) -> impl Fn(&str) -> Option<String> {
    let own = agent.program().env;
    move |name| {
        let named = |name| config.worker.env.iter().any(|named| named == name);
        let of_its_own = || own.contains(&name) && named(OF_THE_AGENT);
        let passed = name == "HOME" || named(name) || of_its_own();
        let value = environment.get(name).filter(|_| passed);
        value.map(str::to_owned)
    }
}

/// Looks for a program as a shell does.
pub(super) fn on_path(program: &str, environment: &Environment) -> Option<PathBuf> {
    std::env::split_paths(environment.get("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Makes what can be asked; `None` if nobody is.
///
/// # Errors
/// The service or the agent cannot be set up.
pub(super) fn models(planner: &Planner, config: &Config) -> Result<Option<Models>, Failure> {
    let llm = &config.llm;
    let make = |model| match planner {
        Planner::Rules { .. } => Ok(None),
        Planner::Model { endpoint, .. } => of_service(endpoint, model, config).map(Some),
        Planner::Agent { name, .. } => of_agent(coding(name), model, config).map(Some),
    };
    let (plan, judge) = (make(llm.plan_model())?, make(llm.judge_model())?);
    Ok(plan.zip(judge).map(|(plan, judge)| Models {
        plan: Model::new(plan, llm),
        judge: Model::new(judge, llm),
    }))
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
