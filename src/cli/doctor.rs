//! `doctor`: looks at everything that a run needs, and says what is there, what is missing, and the way out.

use std::path::Path;

use serde::Serialize;

use super::agent_probe::{Probe, probe};
use super::app::PUT_BACK;
use super::app::{App, CommandStart};
use super::args::{AgentArgs, DoctorArgs};
use super::failure::{Exit, Failure};
use super::in_process_roles::{Servers, start_servers};
use super::model_choice::{login, on_path};
use super::output::Output;
use super::team_file::TeamFile;
use super::worker_pools::examine;
use crate::agents::{CodingAgent, Login, Permissions};
use crate::config::{Config, Environment, Isolation, Planner};
use crate::exec::project_head;
use crate::llm::Prompts;
use crate::store::Store;
use crate::view::ProgramName;
use crate::view::Style;
use crate::volumes::Volumes;
use crate::wire::Problem;
use crate::wire::team_file::{RoleKind, RoleSpec, RoleWorker};
use crate::wire::text::printable;

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

/// Prints what is there and what is not. Ends with 1 if something has to be mended.
pub(super) async fn doctor(
    args: &DoctorArgs,
    start: &CommandStart,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let findings = match Config::load(start.file.as_deref(), &start.environment) {
        Ok(config) => {
            let program = ProgramName::with(start.file.as_deref());
            let app = App::of(config, start.environment.clone(), program)?;
            let mut findings = findings(&app).await;
            findings.extend(team(args.team.file.as_deref(), &app).await);
            findings
        }
        Err(error) => vec![bad("config", error.to_string()).hint(error.hint())],
    };
    if args.json {
        output.json(&findings)?;
    } else {
        for finding in &findings {
            print(finding, output)?;
        }
    }
    let bad = findings
        .iter()
        .any(|finding| finding.state == FindingState::Bad);
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

fn print(finding: &Finding, output: &mut Output) -> Result<(), Failure> {
    let (word, style) = match finding.state {
        FindingState::Good => ("ok", Style::Good),
        FindingState::Missing => ("--", Style::Dim),
        FindingState::Bad => ("!!", Style::Bad),
    };
    let word = output.paint().text(style, word);
    output.line(&format!(
        "{word}  {:<10} {}",
        finding.about,
        printable(&finding.text)
    ))?;
    match &finding.hint {
        Some(hint) => output.line(&format!("    {:<10} Hint: {}", "", printable(hint))),
        None => Ok(()),
    }
}

async fn findings(app: &App) -> Vec<Finding> {
    let (config, environment) = (&app.config, &app.environment);
    let mut findings = vec![
        config_file(config),
        folder("volumes", &config.root()),
        folder("workspace", &config.workspace()),
        prompts(&config.prompts_dir()),
        model(app),
        program("shell", "sh", "`--agent shell` cannot work", environment),
        git(config, environment).await,
    ];
    findings.splice(3..3, database(&config.root()));
    if let Err(error) = Permissions::parse(&config.worker.allow) {
        findings.push(bad("allow", error.to_string()).hint(error.hint().to_owned()));
    }
    findings.extend(agents(config, environment).await);
    findings
}

/// Looks at each coding agent; those that are not there share a line.
async fn agents(config: &Config, environment: &Environment) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut absent = Vec::new();
    for agent in CodingAgent::ALL {
        match probe(agent, environment).await {
            Probe::Missing => absent.push(agent.name()),
            found => findings.push(installed(agent, found, config, environment)),
        }
    }
    if !absent.is_empty() {
        let absent = format!("not installed: {}", absent.join(", "));
        findings.push(missing("agents", absent));
    }
    findings
}

/// Returns whether an agent that is there could work, and what is missing.
fn installed(
    agent: CodingAgent,
    found: Probe,
    config: &Config,
    environment: &Environment,
) -> Finding {
    let about = agent.name();
    let lacks = |text: String, hint: String| missing(about, text).hint(hint);
    let install = agent.program().install;
    match found {
        Probe::Missing => lacks("not installed".into(), format!("`{install}`")),
        Probe::Silent { path, said } => lacks(
            format!("{} tells no version: {said}", path.display()),
            format!("does it run by hand? `{install}` installs it anew"),
        ),
        Probe::TooOld { path, version } => lacks(
            format!(
                "{} is {version}: {} or newer is needed",
                path.display(),
                agent.program().least
            ),
            format!("`{install}`"),
        ),
        Probe::Works { path, version } => {
            let text = format!("{version} at {}", path.display());
            match login(agent, config, environment) {
                Login::Found(what) => good(about, format!("{text}; {what}")),
                Login::Unknown => good(about, text),
                Login::NotSeen(what) => lacks(
                    format!("{text}; no login seen: {what}"),
                    format!("run `{about}` once and log in, or set its key"),
                ),
            }
        }
    }
}

fn config_file(config: &Config) -> Finding {
    match config.file() {
        Some(path) => good("config", path.display().to_string()),
        None => missing("config", "no config.toml here: every key has its default")
            .hint("`plan-agent init` writes a commented one".to_owned()),
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
            .hint("make it writable, or name another folder in config.toml".to_owned()),
        None => bad(about, format!("{shown} leads nowhere")),
    }
}

/// Says how large the database is, if there is one.
fn database(root: &Path) -> Option<Finding> {
    let path = Volumes::at(root).ok()?.database();
    match Store::size(&path) {
        Ok(0) => None,
        Ok(size) => {
            let (path, mebibytes) = (path.display(), size as f64 / (1024.0 * 1024.0));
            Some(good("database", format!("{path} has {mebibytes:.1} MiB")))
        }
        Err(error) => Some(Finding {
            about: "database",
            state: FindingState::Bad,
            text: error.to_string(),
            hint: Some(PUT_BACK.to_owned()),
        }),
    }
}

fn prompts(dir: &Path) -> Finding {
    match Prompts::load(Some(dir)) {
        Ok(_) if dir.is_dir() => good("prompts", format!("those of {}", dir.display())),
        Ok(_) => good("prompts", "built in"),
        Err(error) => bad("prompts", error.to_string()).hint(error.hint().to_owned()),
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
            let mut models = models
                .map(|model| model.unwrap_or(endpoint.api.usual_model()))
                .to_vec();
            models.dedup();
            let named = endpoint.url_variable;
            let named = named.map_or(String::new(), |variable| format!(", as {variable} says"));
            let text = format!(
                "{} at {}{named} ({why}), model {}, key {} {key}",
                endpoint.api.as_str(),
                endpoint.base_url,
                models.join(", "),
                endpoint.key_variable
            );
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
        Err(error) => bad("model", error.to_string()).hint(error.hint()),
    }
}

/// Looks for git; where each task is to have a worktree, for a project that can have some.
async fn git(config: &Config, environment: &Environment) -> Finding {
    if config.run.isolation == Isolation::Shared {
        let without = "a model that plans is told nothing of the workspace's history";
        return program("git", "git", without, environment);
    }
    let workspace = config.workspace();
    match project_head(&workspace, None).await {
        Ok(_) => {
            let shown = workspace.display();
            good("git", format!("tasks can have worktrees of `{shown}`"))
        }
        Err(error) => bad("git", error.to_string()).hint(error.hint()),
    }
}

/// Looks at the team, if there is one: whatever a run would refuse, and who works for its roles.
async fn team(named: Option<&Path>, app: &App) -> Vec<Finding> {
    let Some(path) = TeamFile::find(named, &app.config) else {
        return Vec::new();
    };
    let file = match TeamFile::load(path, &app.config) {
        Ok(file) => file,
        Err(failure) => {
            let problem = failure.problem(Problem::new);
            return vec![bad("team", problem.message).hint(problem.hint)];
        }
    };
    let shown = file.path.display().to_string();
    let (servers, mut problems) = try_servers(&file, &app.config).await;
    let examined = examine(&file, &Ok(None), &AgentArgs::default(), app, &servers).await;
    problems.extend(examined.problems);
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let (roles, workflows) = (&file.team.roles, file.team.workflow_ids());
    let mut text = format!("{} in {shown}", count(roles.len(), "role"));
    if !workflows.is_empty() {
        let many = count(workflows.len(), "workflow");
        text = format!("{text}, {many}: {}", workflows.join(", "));
    }
    let mut findings = Vec::new();
    if file.problems.is_empty() {
        findings.push(good("team", text));
    }
    let told = problems
        .iter()
        .map(|problem| bad("team", problem.in_file(&shown)).hint(problem.hint.clone()));
    findings.extend(told);
    let nobodys = file.team.unassigned().into_iter();
    findings.extend(
        nobodys.map(|problem| {
            missing("team", problem.in_file(&shown)).hint(file.team.assignee_hint())
        }),
    );
    // What is wrong with a role itself was said.
    let sound = |role: &&RoleSpec| {
        let place = role.problem("");
        let its = |problem: &Problem| (problem.line, problem.column) == (place.line, place.column);
        file.problems.is_empty() && !problems.iter().any(its)
    };
    findings.extend(roles.iter().filter(sound).map(|role| works(role, app)));
    findings
}

/// Starts the servers whose tools the roles use, as a run does; they end with what is returned.
async fn try_servers(file: &TeamFile, config: &Config) -> (Servers, Vec<Problem>) {
    let workspace = config.workspace();
    match tempfile::tempdir() {
        // A run makes the workspace first.
        Ok(instead) if !workspace.is_dir() => {
            start_servers(file, instead.path(), None, config).await
        }
        _ => start_servers(file, &workspace, None, config).await,
    }
}

/// Tells who works for a role.
fn works(role: &RoleSpec, app: &App) -> Finding {
    let id = &role.id;
    let finding = |state, text: &str| Finding::new("role", state, format!("{id}: {text}"));
    match (role.kind, &role.worker) {
        (RoleKind::Agent, _) => match app.planner(None) {
            Ok(Planner::Rules { .. }) | Err(_) => {
                let text = "inside, but there is no model that it could ask";
                finding(FindingState::Missing, text).hint(app.config.way_to_a_model().to_owned())
            }
            Ok(_) => finding(FindingState::Good, "inside"),
        },
        (RoleKind::Files, None) => {
            let hint =
                "write `worker: claude`, or another agent, or name one for all: `run --agent`";
            finding(FindingState::Missing, "no agent of its own").hint(hint.to_owned())
        }
        (RoleKind::Files, Some(RoleWorker::External)) => {
            let hint = format!(
                "`{} worker --role {id} --agent claude` does, or another agent",
                app.program
            );
            finding(FindingState::Good, "the worker that takes its commands").hint(hint)
        }
        (RoleKind::Files, Some(RoleWorker::Agent { name, .. })) => {
            finding(FindingState::Good, name)
        }
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

    fn hint(self, hint: impl Into<Option<String>>) -> Self {
        Self {
            hint: hint.into(),
            ..self
        }
    }
}

fn good(about: &'static str, text: impl Into<String>) -> Finding {
    Finding::new(about, FindingState::Good, text)
}

/// It works without.
fn missing(about: &'static str, text: impl Into<String>) -> Finding {
    Finding::new(about, FindingState::Missing, text)
}

fn bad(about: &'static str, text: impl Into<String>) -> Finding {
    Finding::new(about, FindingState::Bad, text)
}
