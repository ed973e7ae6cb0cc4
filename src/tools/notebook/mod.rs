//! PlanNotebook: a plan is a list of subtasks that are done one after the other, and its agent gets a hint about the progress
//! before each step. Tools answer with text and never raise; the same functions as Rust methods return [`NotebookError`]. The
//! order of the tools, their names and arguments, and the JSON of a plan are AgentScope's.

mod archive;
mod finish_and_recover;
mod model;
mod plan_hint;
mod plan_import;
mod plan_markdown;
mod responses;
mod state_dict;
mod storage;
mod subtasks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::current_plan::{finished, interrupted};
use super::paging::{DEFAULT_LIMIT, MAX_LIMIT, weight};
use super::{
    ChangeSubject, Dialect, Functions, Nothing, Page, Tool, ToolAnswer, ToolError, Toolbox,
    new_plan_id, status_changes,
};
use crate::llm::BoxFuture;
use crate::plan::{
    ArchiveState, Criteria, DAEMON, Draft, Event, Origin, Past, Plan, PlanHead, PlanId, PlanState,
    Refusal, Task, TaskChanges, TaskId, TaskOrder, TaskSpec, TaskState, Time, counted, is_default,
    word,
};
use crate::store::StoreError;
use crate::wire::text::{clip_bytes as clip, joined, one_line, printable};

use NotebookErrorCode::{
    AlreadyInProgress, Conflict, InvalidArgument, InvalidIndex, InvalidState, MissingSubtask,
    NoPlan, NoSubtasks, NotDoneYet, NotInProgress, OpenSubtasks, Settled, TooManySubtasks,
    UnknownPlan,
};
use archive::Archive;
use finish_and_recover::{abandon, entry};
use model::{parse_time, time_text};
use plan_import::{
    called, check_count, check_new, core_of, head_of, past_of, prepare, rewrite, shown,
};
use plan_markdown::{fenced, heading, line};
use responses::Result;
use storage::{taken, unknown};
use subtasks::{follow, in_use};

pub use model::{NotebookPlan, PlanEnd, SubTask, SubTaskState};
pub use plan_hint::{DefaultPlanToHint, Msg};
pub(crate) use plan_hint::{of_core as hint_of, page as page_of};
pub use responses::{Metadata, NotebookError, NotebookErrorCode, TextBlock, ToolResponse};
pub use storage::{InMemoryPlanStorage, PlanStorageBase, StorageError, Stored};
pub use subtasks::Action;

pub(super) static TOOLS: LazyLock<[Tool; 9]> = LazyLock::new(|| {
    [
        PlanNotebook::reads("view_subtasks", "Show subtasks of the plan in detail.").calls(
            async |notebook, given: ViewArguments| notebook.view_subtasks(&given.subtask_idx).await,
        ),
        PlanNotebook::changes("update_subtask_state", "Set a subtask's state. in_progress: all before it settled, none other in progress. Done is 'finish_subtask'.").calls(async |notebook, given: Update| {
            notebook.update_subtask_state(given.subtask_idx, given.state).await
        }),
        PlanNotebook::changes("finish_subtask", "Finish the subtask in progress; the next one is begun.").calls(async |notebook, given: Finish| {
            let outcome = &given.subtask_outcome;
            notebook.finish_subtask(given.subtask_idx, outcome).await
        }),
        PlanNotebook::changes("create_plan", "Make a plan of subtasks done one after the other. It replaces the current plan.").calls(async |notebook, given: Create| {
            let (name, description) = (given.name.trim(), &given.description);
            let subtasks = given.subtasks.into_iter().map(SubTask::given).collect();
            let plan = NotebookPlan::new(name, description, &given.expected_outcome, subtasks);
            notebook.make(plan, given.dry_run).await
        }),
        PlanNotebook::changes("revise_current_plan", "Add, revise or delete a subtask.").calls(
            async |notebook, given: Revise| {
                let subtask = given.subtask.map(SubTask::given);
                let (at, action) = (given.subtask_idx, given.action);
                notebook.revise_current_plan(at, action, subtask).await
            },
        ),
        PlanNotebook::changes("finish_plan", "End the current plan: done, or abandoned when the user wants it no more.").calls(async |notebook, given: FinishPlan| {
            notebook.finish_plan(given.state, &given.outcome).await
        }),
        PlanNotebook::reads("view_historical_plans", "List earlier plans.").calls(
            async |notebook, page| notebook.view_historical_plans(page).await,
        ),
        PlanNotebook::changes("recover_historical_plan", "Go on with an earlier plan in place of the current one.").calls(async |notebook, given: Recover| {
            notebook.recover_historical_plan(&given.plan_id).await
        }),
        PlanNotebook::reads("get_current_hint", "What to do next by the plan: ask before each step.").calls(async |notebook, _: Nothing| {
            let hint = notebook.get_current_hint().await?;
            let text = hint.map(|hint| hint.content).unwrap_or_default();
            Ok(ToolResponse::new(text, None))
        }),
    ]
});

/// As many of them as AgentScope lists.
const LISTED: usize = 8;

impl Functions for PlanNotebook {
    type Error = NotebookError;

    fn on(toolbox: Toolbox) -> Self {
        Self::new(toolbox)
    }

    fn refuse(tool: &str, error: NotebookError) -> ToolAnswer {
        let begin = match tool {
            "revise_current_plan" => "Error: ",
            _ => "",
        };
        ToolResponse::new(format!("{begin}{error}"), Some(error.code())).into()
    }
}

#[derive(Deserialize, JsonSchema)]
struct ViewArguments {
    /// Indices, from 0.
    #[serde(deserialize_with = "indices")]
    subtask_idx: Vec<i64>,
}

#[derive(Deserialize, JsonSchema)]
struct Update {
    /// Index, from 0.
    #[serde(deserialize_with = "index")]
    subtask_idx: i64,
    /// The states that a subtask is set to; it is done by being finished.
    #[schemars(extend("enum" = ["todo", "in_progress", "abandoned"]))]
    state: SubTaskState,
}

#[derive(Deserialize, JsonSchema)]
struct Finish {
    /// Index, from 0.
    #[serde(deserialize_with = "index")]
    subtask_idx: i64,
    /// The outcome itself: data, facts, paths of files; not what was done.
    subtask_outcome: String,
}

#[derive(Deserialize, JsonSchema)]
struct Create {
    /// At most ten words.
    name: String,
    /// What is to be reached and what binds it, specific and measurable.
    description: String,
    /// What is there when it is done.
    expected_outcome: String,
    /// In the order in which they are done.
    subtasks: Vec<SubTask>,
    /// Only check.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Revise {
    /// Index, from 0; `add` inserts before it, or at the end.
    #[serde(deserialize_with = "index")]
    subtask_idx: i64,
    action: Action,
    /// For `add` and `revise`.
    subtask: Option<SubTask>,
}

#[derive(Deserialize, JsonSchema)]
struct FinishPlan {
    state: PlanEnd,
    /// The specific outcome, or the reason for abandoning it.
    outcome: String,
}

#[derive(Deserialize, JsonSchema)]
struct Recover {
    /// From `view_historical_plans`.
    plan_id: String,
}

/// Makes the hint for a plan, or for the lack of one; `None` if there is nothing to say.
type PlanToHint = dyn Fn(Option<&NotebookPlan>) -> Option<String> + Send + Sync;

/// A function that is called after each change made through a notebook, with the plan after that change.
type Hook = dyn Fn(&PlanNotebook, &NotebookPlan) -> HookResult + Send + Sync;

/// What a hook returns.
pub type HookResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A hook with its name.
type Named = (String, Arc<Hook>);

/// The program's additions to its notebook.
#[derive(Clone, Default)]
pub(super) struct NotebookParts {
    plan_to_hint: Option<Arc<PlanToHint>>,
    /// The storage of the history; if `None`, the store.
    storage: Option<Arc<dyn PlanStorageBase>>,
    hooks: Arc<Mutex<Vec<Named>>>,
}

impl fmt::Debug for NotebookParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotebookParts").finish_non_exhaustive()
    }
}

/// The notebook of an agent. Clones share the store, the storage and the hooks.
///
/// ```
/// use plan_agent::tools::Toolbox;
/// use plan_agent::tools::notebook::{PlanEnd, PlanNotebook, SubTaskState, SubTask};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let notebook = PlanNotebook::new(Toolbox::in_memory().await.unwrap());
/// let subtasks = vec![
///     SubTask::new("Read", "Read the report", "A list of its claims"),
///     SubTask::new("Check", "Check each claim", "True or false for each"),
/// ];
/// notebook.create_plan("Report", "Check the report", "A verdict", subtasks).await.unwrap();
/// notebook.update_subtask_state(0, SubTaskState::InProgress).await.unwrap();
/// let answer = notebook.finish_subtask(0, "three claims").await.unwrap();
/// assert!(answer.text().contains("next subtask at index 1, named 'Check'"));
/// let hint = notebook.get_current_hint().await.unwrap().unwrap();
/// assert!(hint.content.contains("finish_subtask"));
/// assert!(notebook.finish_plan(PlanEnd::Done, "all true").await.is_err());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct PlanNotebook {
    toolbox: Toolbox,
}

impl PlanNotebook {
    /// Makes a notebook with the default hints and storage, and as many subtasks as the configuration allows.
    pub fn new(toolbox: Toolbox) -> Self {
        Self { toolbox }
    }

    /// Sets how many subtasks a plan may have; any number if `None`.
    #[must_use]
    pub fn with_max_subtasks(mut self, max_subtasks: Option<usize>) -> Self {
        self.toolbox.max_subtasks = max_subtasks;
        self
    }

    /// Sets the function that makes the hints. At most 4 kB of each are shown.
    #[must_use]
    pub fn with_plan_to_hint(
        mut self,
        plan_to_hint: impl Fn(Option<&NotebookPlan>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.toolbox.notebook.plan_to_hint = Some(Arc::new(plan_to_hint));
        self
    }

    /// Sets the storage of the history; the current plan stays in the store.
    #[must_use]
    pub fn with_storage(mut self, storage: Arc<dyn PlanStorageBase>) -> Self {
        self.toolbox.notebook.storage = Some(storage);
        self
    }

    /// Returns the storage of the history.
    pub fn storage(&self) -> Arc<dyn PlanStorageBase> {
        match &self.toolbox.notebook.storage {
            Some(storage) => Arc::clone(storage),
            None => Arc::new(self.archive()),
        }
    }

    fn archive(&self) -> Archive {
        Archive(self.toolbox.clone())
    }

    /// Returns AgentScope's tools in their order. [`Dialect::tools`] has `get_current_hint`, too: AgentScope puts the hint before
    /// each step itself.
    pub fn list_tools(&self) -> &'static [Tool] {
        &TOOLS[..LISTED]
    }

    /// Calls a tool by its name; every failure is an answer in text.
    pub async fn call(&self, name: &str, arguments: Value) -> ToolAnswer {
        self.toolbox.call(Dialect::Notebook, name, arguments).await
    }

    /// Returns the current plan, if there is one.
    ///
    /// # Errors
    /// The store fails.
    pub async fn current_plan(&self) -> Result<Option<NotebookPlan>> {
        self.read_current(NotebookPlan::of).await
    }

    /// Returns the hint for the agent now, if there is one.
    ///
    /// # Errors
    /// The store fails.
    pub async fn get_current_hint(&self) -> Result<Option<Msg>> {
        if let Some(plan_to_hint) = &self.toolbox.notebook.plan_to_hint {
            let plan = self.current_plan().await?;
            return Ok(plan_to_hint(plan.as_ref()).map(|hint| Msg::user(&hint)));
        }
        let hint = self.read_current(|plan| hint_of(Some(plan))).await?;
        Ok(Some(Msg::user(&hint.unwrap_or_else(|| hint_of(None)))))
    }

    /// Registers a hook that is called after each change made through this notebook or a clone of it; it replaces another one
    /// of the same name. When a plan is finished, the hook gets that plan. A failing hook undoes nothing: the failure is
    /// logged, and reported in the answer's metadata.
    pub fn register_plan_change_hook(
        &self,
        hook_name: &str,
        hook: impl Fn(&Self, &NotebookPlan) -> HookResult + Send + Sync + 'static,
    ) {
        let hook: Arc<Hook> = Arc::new(hook);
        let mut hooks = self.toolbox.notebook.hooks.lock();
        match hooks.iter_mut().find(|(name, _)| name == hook_name) {
            Some(registered) => registered.1 = hook,
            None => hooks.push((hook_name.to_owned(), hook)),
        }
    }

    /// Removes a hook.
    ///
    /// # Errors
    /// No hook has that name ([`NotebookErrorCode::UnknownHook`]).
    pub fn remove_plan_change_hook(&self, hook_name: &str) -> Result<()> {
        let mut hooks = self.toolbox.notebook.hooks.lock();
        let before = hooks.len();
        hooks.retain(|(name, _)| name != hook_name);
        if hooks.len() < before {
            return Ok(());
        }
        let text = format!("There is no plan change hook '{hook_name}'.");
        Err(NotebookErrorCode::UnknownHook.error(text))
    }

    /// Reads the current plan, if there is one; changes nothing.
    async fn read_current<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Plan) -> T + Send + 'static,
    ) -> Result<Option<T>> {
        match self.toolbox.current_if_any(Dialect::Notebook).await? {
            Some(plan) => Ok(Some(self.toolbox.read(&plan, read).await?)),
            None => Ok(None),
        }
    }

    /// Returns the current plan for a change; archives a plan that an interrupted caller has left in use.
    async fn current(&self) -> Result<PlanId> {
        Ok(self.toolbox.only_current(Dialect::Notebook).await?)
    }

    async fn read_plan(&self, plan: &PlanId) -> Result<NotebookPlan> {
        Ok(self.toolbox.read(plan, NotebookPlan::of).await?)
    }

    /// Answers after a change of a plan, once every hook has run.
    async fn changed(&self, plan: &PlanId, text: String) -> ToolResponse {
        let mut response = ToolResponse::new(text, None);
        let hooks = self.toolbox.notebook.hooks.lock().clone();
        if hooks.is_empty() {
            return response;
        }
        let failures = &mut response.metadata.hook_errors;
        let plan = match self.read_plan(plan).await {
            Ok(plan) => plan,
            Err(error) => {
                failures.push(format!("the plan cannot be read for the hooks: {error}"));
                return response;
            }
        };
        for (name, hook) in hooks {
            let failure = match catch_unwind(AssertUnwindSafe(|| hook(self, &plan))) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it panicked".to_owned(),
            };
            tracing::warn!(hook = %name, error = %failure, "a plan change hook failed");
            failures.push(format!("{name}: {failure}"));
        }
        response
    }
}

/// Reads an index; one that is too large for any list becomes the largest, and is refused with the range that fits.
fn index<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(nearest(&serde_json::Number::deserialize(from)?))
}

fn indices<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<i64>, D::Error> {
    let numbers = Vec::<serde_json::Number>::deserialize(from)?;
    Ok(numbers.iter().map(nearest).collect())
}

fn nearest(number: &serde_json::Number) -> i64 {
    number.as_i64().unwrap_or(i64::MAX)
}
