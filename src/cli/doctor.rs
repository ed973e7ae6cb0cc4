//! `doctor`: checks everything that a run needs, and says what is there, what is missing, and the way out.

use std::path::Path;

use serde::Serialize;

use super::agent_choice::{Probe, probe};
use super::{
    AgentArgs, App, CommandStart, DoctorArgs, Exit, FILES, Failure, Output, Result, Servers,
    TeamFile, examine, on_path, start_servers,
};
use crate::agents::{Agent, CodingAgent, Login, Permissions};
use crate::config::{Config, Environment, Isolation, Planner};
use crate::exec::project_head;
use crate::llm::{PromptFiles, Prompts};
use crate::plan::{counted, word};
use crate::view::Style;
use crate::wire::{Problem, RoleKind, RoleSpec, RoleWorker, printable};

/// What was found out about one thing.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    state: FindingState,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum FindingState {
    Good,
    /// It works without.
    Missing,
    Bad,
}

/// Prints what is there and what is not. Ends with 1 if something is bad.
pub async fn doctor(args: &DoctorArgs, start: &CommandStart, output: Output) -> Result<Exit> {
    let findings = match Config::load(start.file.as_deref(), &start.environment) {
        Ok(config) => {
            let mut app = App::of(config, start.environment.clone(), start.program())?;
            let mut findings = findings(&app).await;
            let loaded = app.load_team(&args.team).await;
            // What cannot be read is found elsewhere.
            app.prompts = PromptFiles::read(&app.config.prompts_dir()).unwrap_or_default();
            app.named = start.file.is_some();
            let trusted = !app.is_unconfirmed();
            if !trusted {
                // A run would ask first, or end.
                let text = "settings that run programs or widen rights are not confirmed, so no server is started";
                let hint = format!("`{} trust` shows and confirms them", app.program);
                findings.push(missing("trust", text).hint(hint));
            }
            findings.extend(projects(&app).await);
            findings.extend(match loaded {
                Ok(()) => team(&app, trusted).await,
                Err(failure) => vec![refused("team", failure)],
            });
            findings
        }
        Err(error) => vec![refused("config", error.into())],
    };
    match args.json {
        true => output.json(&findings)?,
        false => findings.iter().try_for_each(|one| print(one, output))?,
    }
    let bad = (findings.iter()).any(|finding| finding.state == FindingState::Bad);
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

fn print(finding: &Finding, output: Output) -> Result {
    let (word, style) = match finding.state {
        FindingState::Good => ("ok", Style::Good),
        FindingState::Missing => ("--", Style::Dim),
        FindingState::Bad => ("!!", Style::Bad),
    };
    let word = output.paint.text(style, word);
    let (about, text) = (finding.about, printable(&finding.text));
    output.line(&format!("{word}  {about:<10} {text}"))?;
    match &finding.hint {
        Some(hint) => output.line(&format!("    {:<10} Hint: {}", "", printable(hint))),
        None => Ok(()),
    }
}

async fn findings(app: &App) -> Vec<Finding> {
    let (config, environment) = (&app.config, &app.environment);
    let mut findings = vec![config_file(config)];
    findings.extend(home(app));
    let workspace = config.workspace();
    findings.extend([
        folder("volumes", &config.root()),
        match app.usable(&workspace, true) {
            Ok(()) => folder("workspace", &workspace),
            Err(failure) => refused("workspace", failure),
        },
    ]);
    findings.extend(database(app).await);
    findings.extend([
        prompts(&config.prompts_dir()),
        model(app),
        program("shell", "sh", "`--agent shell` cannot work", environment),
        git(app).await,
    ]);
    findings.extend(notify(config));
    if let Err(error) = Permissions::parse(&config.worker.allow) {
        findings.push(misfit("allow", error));
    }
    if let [name, argv @ ..] = &*config.worker.agent
        && name != FILES
        && let Err(error) = Agent::new(name, argv.to_vec())
    {
        findings.push(misfit("worker", error));
    }
    let hooks = &config.hooks;
    let hooks = [
        ("on_question", &hooks.on_question),
        ("on_finish", &hooks.on_finish),
        ("on_change", &hooks.on_change),
    ];
    let hooks = hooks.into_iter();
    let hooks = hooks.filter_map(|(name, argv)| Some(("hook", name, argv.as_ref()?.first()?)));
    let checks = config.checks.values();
    let checks = checks.filter_map(|check| Some(("check", &*check.name, check.argv.first()?)));
    for (about, name, program) in checks.chain(hooks) {
        if !program.contains('/') && on_path(program, environment).is_none() {
            let text = format!("no `{program}` on the PATH: `{name}` cannot start");
            findings.push(missing(about, text));
        }
    }
    let mut absent = Vec::new();
    for agent in CodingAgent::ALL {
        match probe(agent, environment).await {
            Some(probe) => findings.push(installed(agent, probe, app)),
            None => absent.push(agent.name),
        }
    }
    if !absent.is_empty() {
        let absent = format!("not installed: {}", absent.join(", "));
        findings.push(missing("agents", absent));
    }
    findings
}

/// Returns whether an agent that is installed could work, and what is missing.
fn installed(agent: &'static CodingAgent, Probe { path, version }: Probe, app: &App) -> Finding {
    let (about, path) = (agent.name, path.display());
    let (install, least) = (agent.install, agent.least);
    match version {
        Err(said) => missing(about, format!("{path} tells no version: {said}"))
            .hint(format!("does it run by hand? `{install}` installs it anew")),
        Ok(version) if version < least => {
            let text = format!("{path} is {version}: {least} or newer is needed");
            missing(about, text).hint(format!("`{install}`"))
        }
        Ok(version) => match app.login(agent) {
            Login::Found(what) => good(about, format!("{version} at {path}; {what}")),
            Login::Unknown => good(about, format!("{version} at {path}")),
            Login::NotSeen(what) => {
                let text = format!("{version} at {path}; no login seen: {what}");
                missing(about, text).hint(format!("run `{about}` once and log in, or set its key"))
            }
        },
    }
}

fn config_file(config: &Config) -> Finding {
    match config.file() {
        Some(path) => good("config", path.display().to_string()),
        None => missing("config", "no config.toml: every key has its default")
            .hint("`plan-agent init` writes a commented one"),
    }
}

/// Says what a run would say of the folder that everything lies in, if something is wrong with it.
fn home(app: &App) -> Option<Finding> {
    let folder = app.config.home().folder().display();
    match app.config.home().is_by_hand() {
        Err(error) => Some(refused("folder", app.no_home(&error))),
        Ok(true) if !app.may_take_over() => {
            let text = format!("`{folder}` has a config.toml that plan-agent did not write");
            let hint = format!("`{} trust` confirms that it is yours", app.program);
            Some(missing("folder", text).hint(hint))
        }
        Ok(_) => None,
    }
}

/// Finds out whether files can be made in a folder; one that is not there yet counts by what it would be made in.
fn folder(about: &'static str, path: &Path) -> Finding {
    let shown = path.display();
    let there = path.ancestors().find(|folder| folder.exists());
    match there.map(tempfile::tempfile_in) {
        Some(Ok(_)) if there == Some(path) => good(about, format!("{shown} is writable")),
        Some(Ok(_)) => good(about, format!("{shown} is made when it is needed")),
        Some(Err(error)) => bad(about, format!("{shown} cannot be written to: {error}"))
            .hint("make it writable, or name another folder in config.toml"),
        None => bad(about, format!("{shown} leads nowhere")),
    }
}

/// Says what the database is, if there is one.
async fn database(app: &App) -> Vec<Finding> {
    let place = match app.confirmed_place() {
        Ok(place) => place,
        Err(failure) => return vec![refused("database", failure)],
    };
    let found = place.examine().await.into_iter().map(|found| match found {
        Ok(text) => good("database", text),
        Err(problem) => misfit("database", problem),
    });
    found.collect()
}

fn prompts(dir: &Path) -> Finding {
    match Prompts::load(Some(dir)) {
        Ok(_) if dir.is_dir() => good("prompts", format!("those of {}", dir.display())),
        Ok(_) => good("prompts", "built in"),
        Err(error) => misfit("prompts", error),
    }
}

fn model(app: &App) -> Finding {
    match app.planner(None) {
        Ok(Planner::Model { endpoint, why }) => {
            let key = match endpoint.key {
                Some(_) => "is set",
                None => "is not set and not needed on this machine",
            };
            let llm = &app.config.llm;
            let models = [llm.model.as_deref(), llm.plan_model(), llm.judge_model()];
            let usual = endpoint.api.usual_model();
            let mut models = models.map(|model| model.unwrap_or(usual)).to_vec();
            models.dedup();
            let named = match (endpoint.url_variable, &llm.base_url) {
                (Some(variable), _) => format!(", as {variable} says"),
                (None, Some(_)) => ", as llm.base_url says".to_owned(),
                (None, None) => ", the address of its vendor".to_owned(),
            };
            let (api, url, models) = (endpoint.api.as_str(), endpoint.base_url, models.join(", "));
            let key = format!("key {} {key}", endpoint.key_variable);
            let text = format!("{api} at {url}{named} ({why}), model {models}, {key}");
            good("model", text)
        }
        Ok(Planner::Agent { name, why }) => {
            good("model", format!("the coding agent {name} is asked ({why})"))
        }
        Ok(Planner::Rules { why }) => {
            let text = format!("none ({why}): plans come from plan files, rules judge");
            let way = app.config.way_to_a_model();
            missing("model", text).hint(format!("to have a goal planned, {way}"))
        }
        Err(error) => refused("model", error.into()),
    }
}

/// Says where notifications go, if they go anywhere.
fn notify(config: &Config) -> Option<Finding> {
    let (url, format) = (config.notify.url.as_ref()?, word(&config.notify.format));
    let text = format!("{format} to {} when a plan asks or ends", url.host());
    Some(good("notify", text))
}

/// Looks for git; where each task is to have a worktree, for a project that can have some.
async fn git(app: &App) -> Finding {
    let (isolation, workspace) = (app.config.run.isolation, app.config.workspace());
    let in_git = workspace.join(".git").exists();
    if isolation == Isolation::Shared || isolation == Isolation::Auto && !in_git {
        let without = "a model that plans is told nothing of the workspace's history";
        return program("git", "git", without, &app.environment);
    }
    match project_head(&workspace, None).await {
        Ok(_) => {
            let shown = workspace.display();
            good("git", format!("tasks can have worktrees of `{shown}`"))
        }
        Err(error) if isolation == Isolation::Worktree => {
            bad("git", error.to_string()).hint(error.hint())
        }
        Err(error) => good("git", format!("tasks share the project: {error}")),
    }
}

/// Says which clones of relays and of daemons on several machines are none.
async fn projects(app: &App) -> Vec<Finding> {
    let unfit = super::relay::unfit_projects(&app.config).await;
    let finding = |text| missing("projects", text).hint(super::relay::CLONE);
    unfit.into_iter().map(finding).collect()
}

/// Checks the team, if there is one: what a run would refuse, and who works for its roles. Only what is `trusted` is started.
async fn team(app: &App, trusted: bool) -> Vec<Finding> {
    let Some(file) = &app.team else {
        return Vec::new();
    };
    let shown = file.path.display().to_string();
    let (servers, mut problems) = match trusted {
        true => try_servers(file, &app.config).await,
        false => Default::default(),
    };
    let (_, found) = examine(file, &Ok(None), &AgentArgs::default(), app, &servers).await;
    problems.extend(found);
    problems.sort_by_key(|problem| problem.place);
    let (roles, workflows) = (&file.team.roles, file.team.workflow_ids());
    let mut text = format!("{} in {shown}", counted(roles.len(), "role"));
    if !workflows.is_empty() {
        let many = counted(workflows.len(), "workflow");
        text = format!("{text}, {many}: {}", workflows.join(", "));
    }
    let mut findings = Vec::new();
    findings.extend((file.problems.is_empty()).then(|| good("team", text)));
    findings.extend(problems.iter().map(|problem| Finding {
        hint: problem.hint.clone(),
        ..bad("team", problem.in_file(&shown))
    }));
    let way = file.team.assignee_hint();
    let unassigned = file.team.unassigned().into_iter();
    findings.extend(unassigned.map(|problem| missing("team", problem.in_file(&shown)).hint(&*way)));
    // What is wrong with a role itself is among the problems.
    let sound = |role: &&RoleSpec| {
        let its = |problem: &Problem| problem.place == role.place;
        file.problems.is_empty() && !problems.iter().any(its)
    };
    findings.extend(roles.iter().filter(sound).map(|role| works(role, app)));
    findings
}

/// Starts the servers whose tools the roles use, as a run does; they end with what is returned.
async fn try_servers(file: &TeamFile, config: &Config) -> (Servers, Vec<Problem>) {
    let workspace = config.workspace();
    let instead = tempfile::tempdir();
    let folder = match &instead {
        // A run makes the workspace first.
        Ok(instead) if !workspace.is_dir() => instead.path(),
        _ => &workspace,
    };
    start_servers(file, folder, None, config).await
}

/// Returns who works for a role.
fn works(role: &RoleSpec, app: &App) -> Finding {
    let id = &role.id;
    let good = |text: &str| good("role", format!("{id}: {text}"));
    let missing = |text: &str| missing("role", format!("{id}: {text}"));
    match (role.kind, &role.worker) {
        (RoleKind::Agent, _) => match app.planner(None) {
            Ok(Planner::Rules { .. }) | Err(_) => {
                let way = app.config.way_to_a_model();
                missing("inside, but there is no model that it could ask").hint(way)
            }
            Ok(_) => good("inside"),
        },
        (RoleKind::Files, None) => missing("no agent of its own")
            .hint("write `worker: claude`, or another agent, or name one for all: `run --agent`"),
        (RoleKind::Files, Some(RoleWorker::External)) => {
            let program = &app.program;
            good("the worker that takes its commands").hint(format!(
                "`{program} worker --role {id} --agent claude` does, or another agent"
            ))
        }
        (RoleKind::Files, Some(RoleWorker::Agent { name, .. })) => good(name),
    }
}

/// Looks for a program; without it something else goes on with less.
fn program(about: &'static str, name: &str, without: &str, environment: &Environment) -> Finding {
    match on_path(name, environment) {
        Some(path) => good(about, path.display().to_string()),
        None => missing(about, format!("no `{name}` on the PATH: {without}")),
    }
}

impl Finding {
    fn new(about: &'static str, state: FindingState, text: impl Into<String>) -> Self {
        Self {
            about,
            state,
            text: text.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

fn good(about: &'static str, text: impl Into<String>) -> Finding {
    Finding::new(about, FindingState::Good, text)
}

/// It works without.
fn missing(about: &'static str, text: impl Into<String>) -> Finding {
    Finding::new(about, FindingState::Missing, text)
}

/// What a run would refuse.
fn refused(about: &'static str, failure: Failure) -> Finding {
    misfit(about, failure.problem(Problem::new))
}

fn misfit(about: &'static str, Problem { message, hint, .. }: Problem) -> Finding {
    Finding {
        hint,
        ..bad(about, message)
    }
}

fn bad(about: &'static str, text: impl Into<String>) -> Finding {
    Finding::new(about, FindingState::Bad, text)
}
