//! The plan as tools for agents: four dialects over the one core and the one store. A dialect is a table of tools and the
//! rules of its document; nothing of a dialect is known in [`crate::plan`]. Tools hold no state: every call reads the store
//! and every change is one [`Store::change`], so that any number of processes may use one plan at once.
//!
//! [`Toolbox::call`] is what the command line and the MCP server use: the name of a tool and JSON in, [`Answer`] out. The
//! same tools as Rust methods, with the types of their documents, are [`PlanTool`], [`PlanManager`],
//! [`notebook::PlanNotebook`] and [`TaskTools`].

pub mod args;
pub mod notebook;
mod page;
pub mod plan_manager;
pub mod plan_tool;
mod shelf;
mod status;
pub mod tasks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::clock::Clock;
use crate::plan::{Draft, Head, Plan, PlanId, Policy, Refusal, Time};
use crate::store::{Store, StoreError};

pub use args::ArgumentError;
pub use page::{Page, Part};
pub use plan_manager::PlanManager;
pub use plan_tool::PlanTool;
pub use tasks::TaskTools;

/// A way to see a plan: one document's names, words and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Top-level plans of a team: steps, roles, free order (`plan-tool.md`).
    PlanTool,
    /// Tasks with dependencies and a JSON envelope (`plan-manager.md`).
    PlanManager,
    /// Subtasks one after the other, with hints (`plan-notebook.md`).
    Notebook,
    /// The task list that coding agents know: `TaskCreate` and its kin.
    Tasks,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [
        Self::PlanTool,
        Self::PlanManager,
        Self::Notebook,
        Self::Tasks,
    ];

    /// Returns the word for it, which is also the owner of the plans that it makes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PlanTool => "plan-tool",
            Self::PlanManager => "plan-manager",
            Self::Notebook => "notebook",
            Self::Tasks => "tasks",
        }
    }

    /// Returns its tools in their order.
    pub fn tools(self) -> &'static [Tool] {
        match self {
            Self::PlanTool => plan_tool::TOOLS,
            Self::PlanManager => plan_manager::TOOLS,
            Self::Notebook => notebook::TOOLS,
            Self::Tasks => tasks::TOOLS,
        }
    }

    /// Returns which of some dialects answers to the name of a tool: the one that has it, else the one whose tools are named
    /// most like it, which knows how to say that there is none. `None` without any dialect.
    pub fn answering(dialects: &[Self], name: &str) -> Option<Self> {
        let likeness = |tool: &Tool| match tool.name == name {
            true => 2.0,
            false => strsim::jaro_winkler(tool.name, name),
        };
        let tools = dialects
            .iter()
            .flat_map(|dialect| dialect.tools().iter().map(|tool| (*dialect, tool)));
        let nearest = tools.max_by(|(_, a), (_, b)| likeness(a).total_cmp(&likeness(b)));
        nearest.map(|(dialect, _)| dialect)
    }

    /// Returns the dialect that has a tool of this name; no two have.
    pub fn of_tool(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.tools().iter().any(|tool| tool.name == name))
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One tool of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    /// Whether a call may change something.
    pub changes: bool,
    schema: fn() -> Value,
}

impl Tool {
    /// Describes a tool that only looks; `T` is what its arguments are read as.
    const fn look<T: schemars::JsonSchema>(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            changes: false,
            schema: args::schema_of::<T>,
        }
    }

    /// Describes a tool that changes something.
    const fn change<T: schemars::JsonSchema>(
        name: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            changes: true,
            ..Self::look::<T>(name, description)
        }
    }

    /// Returns the JSON schema of its arguments, an object.
    pub fn schema(&self) -> Value {
        (self.schema)()
    }
}

/// What a call answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// `{"result": …, "reason"?, "left"?}`, or the envelope of PlanManager.
    pub value: Value,
}

impl Answer {
    /// Answers with a result.
    pub fn result(result: impl Into<Value>) -> Self {
        Self {
            success: true,
            value: json!({ "result": result.into() }),
        }
    }

    /// Answers with what the dialect has for a failure, and the reason.
    pub fn failure(result: impl Into<Value>, reason: impl fmt::Display) -> Self {
        Self {
            success: false,
            value: json!({ "result": result.into(), "reason": reason.to_string() }),
        }
    }

    /// Answers with a part of a list.
    pub fn part<T: Serialize>(part: Part<T>) -> Self {
        let items = part.items.into_iter().map(|item| json!(item));
        let mut answer = Self::result(items.collect::<Vec<_>>());
        if part.left > 0 {
            answer.value["left"] = part.left.into();
        }
        answer
    }
}

/// Why a tool did not do what it was asked; each dialect has its own words for it.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("there is no tool `{name}`{}", meant(.similar.as_ref(), *.elsewhere))]
    UnknownTool {
        name: String,
        similar: Option<String>,
        /// Another dialect, which has it.
        elsewhere: Option<Dialect>,
    },
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("there is no plan yet")]
    NoPlan,
    #[error("the tools are bound to plan `{0}`; another plan needs tools that are not")]
    Bound(PlanId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self::Store(refusal.into())
    }
}

fn meant(similar: Option<&String>, elsewhere: Option<Dialect>) -> String {
    match (elsewhere, similar) {
        (Some(dialect), _) => format!(" here; the dialect `{dialect}` has it"),
        (None, Some(name)) => format!("; is `{name}` meant?"),
        (None, None) => String::new(),
    }
}

impl ToolError {
    /// Returns what the core refused, if it was the core.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Store(StoreError::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

/// What holds for every plan that tools make.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The rules a new plan gets.
    pub policy: Policy,
    /// Subtasks that a plan of the notebook may have; any number if `None`.
    pub max_subtasks: Option<usize>,
}

/// The tools, with what they need to know of their caller.
#[derive(Clone, Debug)]
pub struct Toolbox {
    store: Store,
    settings: Settings,
    /// The plan that is meant when a call names none; else the dialect's own latest.
    plan: Option<PlanId>,
    caller: String,
}

impl Toolbox {
    /// Puts the tools on a store. `caller` is named in the history of every plan that a call changes.
    pub fn new(store: Store, settings: Settings, caller: &str) -> Self {
        Self {
            store,
            settings,
            plan: None,
            caller: caller.to_owned(),
        }
    }

    /// Puts the tools on the store in a file, which is made if it does not exist.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open(file: &Path, caller: &str) -> Result<Self, StoreError> {
        let store = Store::open(file, wall_clock()).await?;
        Ok(Self::new(store, Settings::default(), caller))
    }

    /// Puts the tools on a store in memory, gone with the last clone.
    ///
    /// # Errors
    /// As [`Store::in_memory`].
    pub async fn in_memory() -> Result<Self, StoreError> {
        let store = Store::in_memory(wall_clock()).await?;
        Ok(Self::new(store, Settings::default(), "library"))
    }

    /// Binds calls that name no plan to one.
    pub fn with_plan(mut self, plan: PlanId) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets who is named in the history.
    pub fn with_caller(mut self, caller: &str) -> Self {
        caller.clone_into(&mut self.caller);
        self
    }

    /// Returns the plan that calls which name none are bound to.
    fn bound(&self) -> Option<&PlanId> {
        self.plan.as_ref()
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Calls a tool. Never fails: what cannot be done is an answer in the dialect's own shape, with nothing changed.
    pub async fn call(&self, dialect: Dialect, name: &str, arguments: Value) -> Answer {
        match dialect {
            Dialect::PlanTool => Box::pin(plan_tool::call(self, name, arguments)).await,
            Dialect::PlanManager => Box::pin(plan_manager::call(self, name, arguments)).await,
            Dialect::Notebook => Box::pin(notebook::call(self, name, arguments)).await,
            Dialect::Tasks => Box::pin(tasks::call(self, name, arguments)).await,
        }
    }

    fn unknown(&self, dialect: Dialect, name: &str) -> ToolError {
        let likeness = |tool: &&Tool| strsim::jaro_winkler(name, tool.name);
        let similar = dialect
            .tools()
            .iter()
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
            .filter(|tool| likeness(tool) > 0.8);
        ToolError::UnknownTool {
            name: crate::wire::text::one_line(name, 80),
            similar: similar.map(|tool| tool.name.to_owned()),
            elsewhere: Dialect::of_tool(name),
        }
    }

    /// Returns the plan that is meant when a call names none: the one the calls are bound to, else the one that the dialect
    /// took up last; never one of a daemon.
    async fn current(&self, dialect: Dialect) -> Result<PlanId, ToolError> {
        if let Some(plan) = &self.plan {
            return Ok(plan.clone());
        }
        let mut latest = self.store.current(dialect.as_str(), 1).await?;
        latest.pop().ok_or(ToolError::NoPlan)
    }

    /// Returns the plan that the calls are bound to, else the one that any of the dialects took up last; `None` without one.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn latest(&self, dialects: &[Dialect]) -> Result<Option<PlanId>, StoreError> {
        if let Some(plan) = &self.plan {
            return Ok(Some(plan.clone()));
        }
        let mut latest: Option<(Time, PlanId)> = None;
        for dialect in dialects {
            for plan in self.store.current(dialect.as_str(), 1).await? {
                let taken_up = |plan: &Plan| plan.head().taken_up.unwrap_or(plan.head().created_at);
                let at = self
                    .store
                    .read(&plan, move |plan, _| taken_up(plan))
                    .await?;
                latest = latest.max(Some((at, plan)));
            }
        }
        Ok(latest.map(|(_, plan)| plan))
    }

    /// Changes a plan under the caller's name; `why` begins with the tool's name.
    async fn change<T: Send + 'static>(
        &self,
        plan: &PlanId,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, ToolError> {
        Ok(self.store.change(plan, &self.caller, why, change).await?)
    }

    /// Changes a plan as [`Toolbox::change`] does, unless the closure ends in an error of the dialect's own: nothing has
    /// changed then, whatever the closure did before.
    async fn change_or<T, E>(
        &self,
        plan: &PlanId,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ToolError> + Send + 'static,
    {
        let (change, dropped) = droppable(change);
        let changed = self.change(plan, why, change).await;
        changed.map_err(|error| dropped_or(&dropped, error))
    }

    /// Makes a plan as [`Toolbox::create`] does, unless the closure ends in an error of the dialect's own: there is no
    /// plan then.
    async fn create_or<T, E>(
        &self,
        dialect: Dialect,
        head: Head,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ToolError> + Send + 'static,
    {
        let (change, dropped) = droppable(change);
        let created = self.create(dialect, head, why, change).await;
        created.map_err(|error| dropped_or(&dropped, error))
    }

    /// Makes a plan under the caller's name, carried out by whoever uses the dialect.
    async fn create<T: Send + 'static>(
        &self,
        dialect: Dialect,
        mut head: Head,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, ToolError> {
        dialect.as_str().clone_into(&mut head.owner);
        head.policy = self.settings.policy.clone();
        let change = |draft: &mut Draft<'_>| {
            draft.created();
            change(draft)
        };
        Ok(self.store.create(head, &self.caller, why, change).await?)
    }
}

/// The error that ended a closure.
type Slot<E> = Arc<Mutex<Option<E>>>;

/// Makes a change out of one that ends in an error the core does not know.
fn droppable<T, E>(
    change: impl FnOnce(&mut Draft<'_>) -> Result<T, E> + Send + 'static,
) -> (
    impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    Slot<E>,
)
where
    E: Send + 'static,
{
    let slot = Slot::default();
    let filled = Arc::clone(&slot);
    let change = move |draft: &mut Draft<'_>| {
        change(draft).map_err(|error| {
            if let Ok(mut slot) = filled.lock() {
                *slot = Some(error);
            }
            Refusal::Dropped
        })
    };
    (change, slot)
}

fn dropped_or<E: From<ToolError>>(slot: &Slot<E>, error: ToolError) -> E {
    let dropped = slot.lock().ok().and_then(|mut slot| slot.take());
    dropped.unwrap_or_else(|| error.into())
}

/// Returns a new plan id: eight letters.
pub fn new_plan_id() -> PlanId {
    let letters = Uuid::new_v4()
        .into_bytes()
        .map(|byte| char::from(b'a' + byte % 26));
    PlanId::new(letters.into_iter().take(8).collect::<String>())
}

fn wall_clock() -> impl Fn() -> Time + Send + 'static {
    let clock = Clock::start();
    move || clock.now()
}
