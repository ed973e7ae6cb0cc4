//! The actions that are built in: the language model, files of the workspace, configured checks.

use std::collections::BTreeMap;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::exec::{AGENT_FOLDER, CheckConfig, MarkKind, check, check_marked, link_free_access};
use crate::plan::within_workspace;
use crate::tools::arguments;
use crate::wire::{nearest, quote};

use super::abilities::Done;
use super::plan_execution::{MAX_RESULT, too_large};
use super::{ASK, Abilities, Ability, StepContext, meant};

/// Where the built-in actions work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workplace {
    /// The folder that paths start from; nothing outside of it is touched.
    pub workspace: PathBuf,
    /// Folders that are touched as little where they lie within it: those of the program itself.
    pub closed: Vec<PathBuf>,
    /// The folder in which the next process finds a running check after a kill; without one it is not found.
    pub marks: Option<PathBuf>,
}

impl Workplace {
    /// Returns a folder in which nothing is closed.
    pub fn of(workspace: &Path) -> Self {
        Self {
            workspace: workspace.to_owned(),
            ..Self::default()
        }
    }
}

/// Returns the built-in actions, with the checks that are configured.
pub fn built_in(workplace: &Workplace, checks: BTreeMap<String, CheckConfig>) -> Abilities {
    let [reads, writes, runs] = [(); 3].map(|()| Arc::new(workplace.clone()));
    let checks = Arc::new(checks);
    let actions = [
        ask(),
        action(
            "read_file",
            "reads a text file of the workspace; the result is its whole content",
            false,
            move |params, _| Box::pin(read_file(Arc::clone(&reads), params)),
        ),
        action(
            "write_file",
            "writes a whole file of the workspace, in the place of one that is there; folders are made",
            false,
            move |params, _| Box::pin(write_file(Arc::clone(&writes), params)),
        ),
        action(
            "run_check",
            "runs a configured check in the workspace; the step fails if the check does, and the result is the end of its output",
            true,
            move |params, situation| {
                let (runs, checks) = (Arc::clone(&runs), Arc::clone(&checks));
                Box::pin(async move { run_check(&runs, &checks, params, situation).await })
            },
        ),
    ];
    actions.into_iter().collect()
}

/// Returns the action by which the language model of the role does the task, or what is wanted of it.
pub(super) fn ask() -> Arc<Ability> {
    let description = "has you write a text yourself: an answer, a design, a review, the content of a file. It sees the \
                       task, and of the earlier results what `wanted` quotes";
    action(ASK, description, true, |params: AskParams, situation| {
        Box::pin(async move { situation.ask(&params.wanted.unwrap_or_default()).await })
    })
}

pub(super) fn action<P: DeserializeOwned + JsonSchema + 'static>(
    name: &str,
    description: &str,
    limits_itself: bool,
    does: impl for<'a> Fn(P, &'a StepContext<'a>) -> Done<'a> + Send + Sync + 'static,
) -> Arc<Ability> {
    let schema = arguments::schema_of::<P>();
    let mut action =
        Ability::new(
            name,
            description,
            schema,
            move |params, situation| match arguments::read(params) {
                Ok(params) => does(params, situation),
                Err(wrong) => Box::pin(ready(Err(wrong.to_string()))),
            },
        );
    action.limits_itself = limits_itself;
    Arc::new(action)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskParams {
    /// What is wanted; left out, the whole task.
    wanted: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathParams {
    /// Path of the file, from the workspace.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteParams {
    /// Path of the file, from the workspace.
    path: String,
    /// All of the file.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckParams {
    /// Name of the check.
    name: String,
}

async fn read_file(at: Arc<Workplace>, params: PathParams) -> Result<String, String> {
    let path = path(&params.path)?;
    let place = path.clone();
    let read = move || link_free_access::read(&at.workspace, &place, MAX_RESULT, &at.closed);
    let read = blocking(read).await?;
    let (bytes, length) = read.map_err(|error| format!("cannot read {}: {error}", quote(&path)))?;
    if u64::try_from(bytes.len()).is_ok_and(|read| read < length) {
        return Err(format!("{} {}", quote(&path), too_large(length)));
    }
    String::from_utf8(bytes).map_err(|_| format!("{} is no text file in UTF-8", quote(&path)))
}

async fn write_file(at: Arc<Workplace>, params: WriteParams) -> Result<String, String> {
    let path = path(&params.path)?;
    let (place, content) = (path.clone(), params.content);
    let bytes = content.len();
    let write =
        move || link_free_access::write(&at.workspace, &place, content.as_bytes(), &at.closed);
    let written = blocking(write).await?;
    written.map_err(|error| format!("cannot write {}: {error}", quote(&path)))?;
    Ok(format!("wrote {path}, {bytes} bytes"))
}

async fn run_check(
    at: &Workplace,
    checks: &BTreeMap<String, CheckConfig>,
    params: CheckParams,
    situation: &StepContext<'_>,
) -> Result<String, String> {
    let Some(wanted) = checks.get(&params.name) else {
        let meant = meant(nearest(&params.name, checks.keys().map(String::as_str)));
        return Err(format!("there is no check {}{meant}", quote(&params.name)));
    };
    let result = match &at.marks {
        Some(marks) => {
            let step = format!("{}-{}", situation.plan, situation.step);
            let mark = (marks.as_path(), MarkKind::Step, step.as_str());
            let checked = check_marked(wanted, &at.workspace, mark).await;
            checked.map_err(|error| format!("the check was not begun: {error}"))?
        }
        None => check(wanted, &at.workspace).await,
    };
    let said = format!("{}: {}\n{}", result.name, result.outcome(), result.tail);
    if result.passed { Ok(said) } else { Err(said) }
}

fn path(path: &str) -> Result<String, String> {
    let within = within_workspace(path).map_err(|why| format!("{} {why}", quote(path)))?;
    // What stands there is run by git, or says what the program may do, and may hold secrets.
    for (own, whose) in [(".git", "git"), (AGENT_FOLDER, "plan-agent")] {
        if within.split('/').any(|part| part.eq_ignore_ascii_case(own)) {
            return Err(format!("{} is {whose}'s own", quote(path)));
        }
    }
    Ok(within)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| error.to_string())
}
