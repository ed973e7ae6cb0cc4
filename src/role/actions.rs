//! The actions that are built in: the language model, files of the workspace, configured checks.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::exec::inside;
use crate::exec::{Check, check, check_of_step};
use crate::llm::BoxFuture;
use crate::plan::within_workspace;
use crate::tools::args;
use crate::wire::plan_file::nearest;
use crate::wire::text::quote;

use super::ability::{Abilities, Ability};
use super::mind::Situation;
use super::strategy::ASK;

/// Bytes of a file that one step reads.
const MAX_READ: usize = 64 * 1024;

/// The names of the built-in actions.
pub const ACTIONS: [&str; 4] = [ASK, "read_file", "write_file", "run_check"];

/// Where the built-in actions work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workplace {
    /// The folder that paths start from; nothing outside of it is touched.
    pub workspace: PathBuf,
    /// Folders that are touched as little where they lie within it: those of the program itself.
    pub closed: Vec<PathBuf>,
    /// The folder in which a check is found while it runs, by whoever comes after a kill; without one it is not found.
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
pub fn built_in(workplace: &Workplace, checks: BTreeMap<String, Check>) -> Abilities {
    let workplace = workplace.clone();
    let actions: [Arc<dyn Ability>; 4] = [
        Arc::new(Ask),
        Arc::new(ReadFile(workplace.clone())),
        Arc::new(WriteFile(workplace.clone())),
        Arc::new(RunCheck { workplace, checks }),
    ];
    actions.into_iter().collect()
}

/// The language model of the role does the task, or what is wanted of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskParams {
    /// What is wanted; left out, the whole task.
    #[serde(default)]
    wanted: Option<String>,
}

impl Ability for Ask {
    fn name(&self) -> &str {
        ASK
    }

    fn description(&self) -> &str {
        "has you write a text yourself: an answer, a design, a review, the content of a file. It sees the task, and of the \
         earlier results what `wanted` quotes"
    }

    fn schema(&self) -> &Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(args::schema_of::<AskParams>);
        &SCHEMA
    }

    fn limits_itself(&self) -> bool {
        true
    }

    fn call<'a>(
        &'a self,
        params: Value,
        situation: &'a Situation<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let params: AskParams = read(params)?;
            situation.ask(&params.wanted.unwrap_or_default()).await
        })
    }
}

/// Reads a file of the workspace.
#[derive(Clone, Debug)]
pub struct ReadFile(pub Workplace);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathParams {
    /// Path of the file, from the workspace.
    path: String,
}

impl Ability for ReadFile {
    fn name(&self) -> &str {
        "read_file"
    }

    fn description(&self) -> &str {
        "reads a text file of the workspace; the result is its content, of a long file the beginning"
    }

    fn schema(&self) -> &Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(args::schema_of::<PathParams>);
        &SCHEMA
    }

    fn call<'a>(
        &'a self,
        params: Value,
        _: &'a Situation<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let params: PathParams = read(params)?;
            let path = path(&params.path)?;
            let (at, place) = (self.0.clone(), path.clone());
            let read = move || inside::read(&at.workspace, &place, MAX_READ, &at.closed);
            let (bytes, length) = blocking(read)
                .await?
                .map_err(|error| format!("cannot read {}: {error}", quote(&path)))?;
            let cut = u64::try_from(bytes.len()).is_ok_and(|read| read < length);
            let text = match String::from_utf8(bytes) {
                Ok(text) => text,
                // The end of what was read may lie within a character.
                Err(error) if cut && error.utf8_error().error_len().is_none() => {
                    let end = error.utf8_error().valid_up_to();
                    String::from_utf8_lossy(&error.as_bytes()[..end]).into_owned()
                }
                Err(_) => return Err(format!("{} is no text file", quote(&path))),
            };
            let rest = length.saturating_sub(u64::try_from(text.len()).unwrap_or(0));
            match cut {
                true => Ok(format!("{text}\n[{rest} more bytes]\n")),
                false => Ok(text),
            }
        })
    }
}

/// Writes a file of the workspace.
#[derive(Clone, Debug)]
pub struct WriteFile(pub Workplace);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteParams {
    /// Path of the file, from the workspace.
    path: String,
    /// All of the file.
    content: String,
}

impl Ability for WriteFile {
    fn name(&self) -> &str {
        "write_file"
    }

    fn description(&self) -> &str {
        "writes a whole file of the workspace, in the place of one that is there; folders are made"
    }

    fn schema(&self) -> &Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(args::schema_of::<WriteParams>);
        &SCHEMA
    }

    fn call<'a>(
        &'a self,
        params: Value,
        _: &'a Situation<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let params: WriteParams = read(params)?;
            let path = path(&params.path)?;
            let (at, place, content) = (self.0.clone(), path.clone(), params.content);
            let bytes = content.len();
            blocking(move || inside::write(&at.workspace, &place, content.as_bytes(), &at.closed))
                .await?
                .map_err(|error| format!("cannot write {}: {error}", quote(&path)))?;
            Ok(format!("wrote {path}, {bytes} bytes"))
        })
    }
}

/// Runs a configured check in the workspace.
#[derive(Clone, Debug)]
pub struct RunCheck {
    pub workplace: Workplace,
    /// By their names.
    pub checks: BTreeMap<String, Check>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckParams {
    /// Name of the check.
    name: String,
}

impl Ability for RunCheck {
    fn name(&self) -> &str {
        "run_check"
    }

    fn description(&self) -> &str {
        "runs a configured check in the workspace; the step fails if the check does, and the result is the end of its output"
    }

    fn schema(&self) -> &Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(args::schema_of::<CheckParams>);
        &SCHEMA
    }

    fn limits_itself(&self) -> bool {
        true
    }

    fn call<'a>(
        &'a self,
        params: Value,
        situation: &'a Situation<'a>,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let params: CheckParams = read(params)?;
            let Some(wanted) = self.checks.get(&params.name) else {
                let near = nearest(&params.name, self.checks.keys().map(String::as_str));
                let near = near.map(|near| format!("; is `{near}` meant?"));
                let name = quote(&params.name);
                return Err(format!(
                    "there is no check {name}{}",
                    near.unwrap_or_default()
                ));
            };
            let workspace = &self.workplace.workspace;
            let checked = match &self.workplace.marks {
                Some(marks) => {
                    let step = format!("{}-{}", situation.plan, situation.step);
                    let checked = check_of_step(wanted, workspace, marks, &step, pending()).await;
                    checked.map_err(|error| format!("the check was not begun: {error}"))?
                }
                None => check(wanted, workspace, pending()).await,
            };
            let result = checked.ok_or("the check was cancelled")?;
            let said = format!("{}: {}\n{}", result.name, result.outcome(), result.tail);
            if result.passed { Ok(said) } else { Err(said) }
        })
    }
}

fn read<T: serde::de::DeserializeOwned + JsonSchema + 'static>(params: Value) -> Result<T, String> {
    args::read(params).map_err(|error| error.to_string())
}

fn path(path: &str) -> Result<String, String> {
    let within = within_workspace(path).map_err(|why| format!("{} {why}", quote(path)))?;
    // What stands there is run by git, and may hold secrets.
    if within
        .split('/')
        .any(|part| part.eq_ignore_ascii_case(".git"))
    {
        return Err(format!("{} is git's own", quote(path)));
    }
    Ok(within)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| error.to_string())
}
