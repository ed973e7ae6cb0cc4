//! The plan as tools for agents: four dialects over the one core and the one store. A dialect is a table of tools and the rules
//! of its document; [`crate::plan`] knows nothing of dialects. Tools hold no state: every call reads the store and every change
//! is one [`Store::change`], so that any number of processes may use one plan simultaneously.
//!
//! [`Toolbox::call`] is what the command line and the MCP server use: the name of a tool and JSON in, [`ToolAnswer`] out. The
//! same tools as Rust methods, with the types of their documents, are [`PlanTool`], [`PlanManager`]
//! and [`notebook::PlanNotebook`].

pub mod arguments;
pub mod control;
mod current_plan;
pub mod notebook;
mod paging;
pub mod plan_manager;
pub mod plan_tool;
mod status_changes;
mod tasks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::config::{Config, Planner};
use crate::llm::BoxFuture;
use crate::plan::{
    CommandId, Draft, MadeChange, Plan, PlanHead, PlanId, PlanPolicy, ROLE, Refusal, Time,
};
use crate::plan_time::Clock;
use crate::store::{Store, StoreError};
use crate::wire::{nearest, one_line};

use current_plan::current_since;

pub use arguments::ArgumentError;
pub use control::ControlSettings;
use notebook::PlanNotebook;
pub use paging::{Page, PagePart};
pub use plan_manager::PlanManager;
pub use plan_tool::PlanTool;
use tasks::TaskTools;

type Result<T, E = ToolError> = std::result::Result<T, E>;

/// A view of a plan: one document's names, words and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Top-level plans of a team: steps, roles, free order (`plan-tool.md`).
    PlanTool,
    /// Tasks with dependencies and a JSON envelope (`plan-manager.md`).
    PlanManager,
    /// Subtasks one after the other, with hints (`plan-notebook.md`).
    Notebook,
    /// The task list that coding agents know: `TaskCreate` and the related tools.
    Tasks,
    /// Goals for a daemon, and what becomes of them. It makes no plan of its own.
    Control,
}

impl Dialect {
    /// Every dialect of plans: [`Dialect::Control`] is served only where it is named.
    pub const ALL: [Self; 4] = [
        Self::PlanTool,
        Self::PlanManager,
        Self::Notebook,
        Self::Tasks,
    ];

    /// Returns its word, which is also the owner of the plans that it makes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlanTool => "plan-tool",
            Self::PlanManager => "plan-manager",
            Self::Notebook => "notebook",
            Self::Tasks => "tasks",
            Self::Control => "control",
        }
    }

    /// Returns its tools in their order.
    pub fn tools(self) -> &'static [Tool] {
        match self {
            Self::PlanTool => &*plan_tool::TOOLS,
            Self::PlanManager => &*plan_manager::TOOLS,
            Self::Notebook => &*notebook::TOOLS,
            Self::Tasks => &*tasks::TOOLS,
            Self::Control => &*control::TOOLS,
        }
    }

    fn tool_names(self) -> impl Iterator<Item = &'static str> {
        self.tools().iter().map(|tool| tool.name)
    }

    /// Returns the dialect that answers to the name of a tool: the one that has it, or one that is nearly so; else the first
    /// one, which can report that no such tool exists. `None` without any dialect.
    pub fn answering(dialects: &[Self], name: &str) -> Option<Self> {
        let has =
            |name| (dialects.iter()).find(|dialect| dialect.tool_names().any(|it| it == name));
        let names = dialects.iter().flat_map(|dialect| dialect.tool_names());
        let near = || has(nearest(name, names)?);
        has(name).or_else(near).or(dialects.first()).copied()
    }

    /// Answers in the dialect's shape that the dialect has no tool of this name.
    fn refuse_unknown(self, name: &str) -> ToolAnswer {
        let error = ToolError::UnknownTool {
            name: one_line(name, 80),
            similar: nearest(name, self.tool_names()),
            elsewhere: Self::of_tool(name),
        };
        match self {
            Self::PlanTool => PlanTool::refuse(name, error),
            Self::PlanManager => PlanManager::refuse(name, error.into()),
            Self::Notebook => PlanNotebook::refuse(name, error.into()),
            Self::Tasks => TaskTools::refuse(name, error),
            Self::Control => control::ControlTools::refuse(name, error),
        }
    }

    /// Returns the dialect that has a tool of this name; no two have.
    pub fn of_tool(name: &str) -> Option<Self> {
        let has = |dialect: &Self| dialect.tool_names().any(|tool| tool == name);
        Self::ALL.into_iter().find(has)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One tool of a dialect: a row of its table.
pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    /// Whether a call may change something.
    pub changes: bool,
    schema: LazyLock<Value>,
    run: Box<Run>,
}

/// Calls a tool's function with arguments that fit the schema.
type Run =
    dyn Fn(Toolbox, Result<Value, ArgumentError>) -> BoxFuture<'static, ToolAnswer> + Send + Sync;

impl Tool {
    /// Returns the JSON schema of its arguments, an object.
    pub fn schema(&self) -> Value {
        self.schema.clone()
    }
}

/// The functions of a dialect; each row of its table calls one.
trait Functions: Send + Sized + 'static {
    type Error: From<ToolError> + fmt::Display;

    /// Makes the functions work through a toolbox.
    fn on(toolbox: Toolbox) -> Self;

    /// Returns the answer of a tool that did not do what it was asked, in the dialect's shape.
    fn refuse(_: &str, error: Self::Error) -> ToolAnswer {
        ToolAnswer::failure(Value::Null, error)
    }

    /// Begins the row of a tool that only reads.
    fn reads(name: &'static str, about: &'static str) -> ToolRow<Self> {
        ToolRow(name, about, false, PhantomData)
    }

    /// Begins the row of a tool that changes something.
    fn changes(name: &'static str, about: &'static str) -> ToolRow<Self> {
        ToolRow(name, about, true, PhantomData)
    }
}

/// The arguments of a tool that takes none.
#[derive(Deserialize, JsonSchema)]
#[schemars(description = "")]
struct Nothing {}

/// The beginning of a row: name, description and whether the tool changes something.
struct ToolRow<D>(&'static str, &'static str, bool, PhantomData<fn() -> D>);

impl<D: Functions> ToolRow<D> {
    /// Ends the row with the function to call, whose argument is the type that the arguments are read as.
    fn calls<A, F, R>(self, run: impl Fn(D, A) -> F + Send + Sync + 'static) -> Tool
    where
        A: DeserializeOwned + JsonSchema,
        F: Future<Output = Result<R, D::Error>> + Send + 'static,
        R: Into<ToolAnswer>,
    {
        let Self(name, description, changes, _) = self;
        let run = move |toolbox, given: Result<Value, ArgumentError>| -> BoxFuture<'static, _> {
            let given = given.and_then(arguments::read_fitted::<A>);
            let running = given.map(|given| run(D::on(toolbox), given));
            Box::pin(async move {
                let result = match running {
                    Ok(running) => running.await,
                    Err(error) => Err(ToolError::from(error).into()),
                };
                result.map_or_else(|error| D::refuse(name, error), R::into)
            })
        };
        Tool {
            name,
            description,
            changes,
            schema: LazyLock::new(arguments::schema_of::<A>),
            run: Box::new(run),
        }
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// `{"result": …, "reason"?, "left"?}`, or the envelope of PlanManager.
    pub value: Value,
}

impl ToolAnswer {
    /// Answers with a result.
    pub fn result(result: impl Serialize) -> Self {
        let (success, value) = (true, json!({ "result": result }));
        Self { success, value }
    }

    /// Answers with the dialect's value for a failure, and the reason.
    pub fn failure(result: impl Into<Value>, reason: impl fmt::Display) -> Self {
        let value = json!({ "result": result.into(), "reason": reason.to_string() });
        let success = false;
        Self { success, value }
    }

    /// Adds how many items of a list follow after the answer, and a remark.
    fn with(mut self, left: usize, reason: &str) -> Self {
        if left > 0 {
            self.value["left"] = left.into();
        }
        if !reason.is_empty() {
            self.value["reason"] = reason.into();
        }
        self
    }
}

impl<T: Serialize> From<PagePart<T>> for ToolAnswer {
    fn from(part: PagePart<T>) -> Self {
        Self::result(part.items).with(part.left, "")
    }
}

/// Why a tool did not do what it was asked; each dialect reports it in its own words.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("there is no tool `{name}`{}", meant(*.similar, *.elsewhere))]
    UnknownTool {
        name: String,
        similar: Option<&'static str>,
        /// Another dialect that has a tool of this name.
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

fn meant(similar: Option<&str>, elsewhere: Option<Dialect>) -> String {
    match (elsewhere, similar) {
        (Some(dialect), _) => format!(" here; the dialect `{dialect}` has it"),
        (None, Some(name)) => format!("; is `{name}` meant?"),
        (None, None) => String::new(),
    }
}

/// The tools, with what they need to know about their caller.
#[derive(Clone, Debug)]
pub struct Toolbox {
    store: Store,
    /// The rules a new plan gets.
    policy: PlanPolicy,
    /// Subtasks that a plan of the notebook may have; any number if `None`.
    max_subtasks: Option<usize>,
    /// The plan for calls that name none; else the dialect's latest.
    plan: Option<PlanId>,
    caller: String,
    /// The command that the calling agent works on.
    command: Option<CommandId>,
    /// The key of the step of a role that calls: what it does is done once.
    step: Option<String>,
    /// Each change is rolled back.
    dry_run: bool,
    /// Set where the tools of control may be called.
    control: Option<Arc<ControlSettings>>,
    /// The program's additions to its notebook.
    notebook: notebook::NotebookParts,
}

impl Toolbox {
    /// Puts the tools on a store. The log of every plan that a call changes names `caller`.
    pub fn new(store: Store, config: &Config, caller: &str) -> Self {
        let max_subtasks = config.tools.max_subtasks.0;
        // The caller is the model: no model of this program judges its tasks.
        let why = "tools carry it out".to_owned();
        Self {
            store,
            policy: config.policy(&Planner::Rules { why }),
            max_subtasks: max_subtasks.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            plan: None,
            caller: caller.to_owned(),
            command: None,
            step: None,
            dry_run: false,
            control: None,
            notebook: notebook::NotebookParts::default(),
        }
    }

    /// Puts the tools on the store in a file, which is created if it does not exist.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open(file: &Path, caller: &str) -> Result<Self, StoreError> {
        let store = Store::open(file, Clock::start().teller()).await?;
        Ok(Self::new(store, &Config::default(), caller))
    }

    /// Puts the tools on a store in memory, which ends with the last clone.
    ///
    /// # Errors
    /// As [`Store::in_memory`].
    pub async fn in_memory() -> Result<Self, StoreError> {
        let store = Store::in_memory(Clock::start().teller()).await?;
        Ok(Self::new(store, &Config::default(), "library"))
    }

    /// Says which command the calling agent works on: it reports on no other task.
    #[must_use]
    pub fn for_command(self, command: Option<CommandId>) -> Self {
        Self { command, ..self }
    }

    /// Says which step of a role calls, by a key of its own.
    pub(crate) fn for_step(&self, key: String) -> Self {
        let (step, toolbox) = (Some(key), self.clone());
        Self { step, ..toolbox }
    }

    /// Returns which change of the plan to which calls are bound the calling step has made, before this process was begun.
    pub(crate) async fn made_by_step(&self) -> Result<Option<i64>> {
        let (Some(plan), Some(step)) = (&self.plan, self.step.clone()) else {
            return Ok(None);
        };
        self.read(plan, move |plan| {
            let mut made = plan.head().made_changes.iter();
            made.find(|made| made.key == step).map(|made| made.seq)
        })
        .await
    }

    /// Binds calls to a plan: they change no other one.
    pub fn with_plan(mut self, plan: PlanId) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Lets the tools of control be called.
    pub fn with_control(mut self, settings: ControlSettings) -> Self {
        self.control = Some(Arc::new(settings));
        self
    }

    /// Sets the caller that the log names.
    pub fn with_caller(mut self, caller: &str) -> Self {
        caller.clone_into(&mut self.caller);
        self
    }

    /// Returns the tools for a change that is only checked if `dry_run` is set: the answer says what the change would do, and
    /// the store rolls it back.
    #[must_use]
    fn dry_run(&self, dry_run: bool) -> Self {
        let toolbox = self.clone();
        Self { dry_run, ..toolbox }
    }

    /// Refuses an operation that makes another plan current if calls are bound to a plan: they would never find the new one.
    fn unbound(&self) -> Result<()> {
        match &self.plan {
            Some(plan) => Err(ToolError::Bound(plan.clone())),
            None => Ok(()),
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Calls a tool. It never fails: a refusal is an answer in the dialect's own shape, and nothing has changed.
    pub async fn call(&self, dialect: Dialect, name: &str, arguments: Value) -> ToolAnswer {
        match dialect.tools().iter().find(|tool| tool.name == name) {
            Some(tool) => {
                let given = arguments::fitted(&tool.schema, arguments);
                (tool.run)(self.clone(), given.map(arguments::printable_texts)).await
            }
            None => dialect.refuse_unknown(name),
        }
    }

    /// Returns the plan for a call that names none: the one to which calls are bound, else the dialect's plan that became
    /// current last; never one of a daemon.
    async fn current(&self, dialect: Dialect) -> Result<PlanId> {
        let current = self.current_if_any(dialect).await?;
        current.ok_or(ToolError::NoPlan)
    }

    async fn current_if_any(&self, dialect: Dialect) -> Result<Option<PlanId>> {
        match &self.plan {
            Some(plan) => Ok(Some(plan.clone())),
            None => Ok(self.store.current(dialect.as_str(), 1).await?.pop()),
        }
    }

    /// Returns the plan to which calls are bound, else the one that became current last in any of the dialects; `None` if there
    /// is none.
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
                let since = self.store.read(&plan, |plan, _| current_since(plan.head()));
                latest = latest.max(Some((since.await?, plan)));
            }
        }
        Ok(latest.map(|(_, plan)| plan))
    }

    /// Reads a plan.
    async fn read<T: Send + 'static>(
        &self,
        plan: &PlanId,
        read: impl FnOnce(&Plan) -> T + Send + 'static,
    ) -> Result<T> {
        Ok(self.store.read(plan, |plan, _| read(plan)).await?)
    }

    /// Changes a plan under the caller's name, or makes one, which the users of the dialect carry out; `why` begins with the
    /// tool's name. An error of the closure may be a dialect's own: nothing has changed then, whatever the closure did before.
    /// Another plan than the one to which calls are bound is refused, and one on which a role works.
    async fn change<T, E>(
        &self,
        plan: impl Into<ChangeSubject>,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ToolError> + Send + 'static,
    {
        let subject = plan.into();
        let is_bound =
            |bound: &&PlanId| !matches!(&subject, ChangeSubject::Plan(plan) if plan == *bound);
        if let Some(bound) = self.plan.as_ref().filter(is_bound) {
            return Err(ToolError::Bound(bound.clone()).into());
        }
        // Carries the result of a change that the store rolls back: the store knows neither a dialect's errors nor dry runs.
        let (sender, mut rolled_back) = oneshot::channel();
        let dry_run = self.dry_run;
        let (command, step) = (self.command.clone(), self.step.clone());
        let change = move |draft: &mut Draft<'_>| {
            if draft.plan().head().owner == ROLE {
                return Err(Refusal::OfRole);
            }
            match change(draft.made_by_agent(command)) {
                Ok(value) if !dry_run => {
                    if let Some(key) = step {
                        let made = MadeChange::default();
                        draft.know(MadeChange { key, ..made });
                    }
                    Ok(value)
                }
                result => {
                    drop(sender.send(result));
                    Err(Refusal::Dropped)
                }
            }
        };
        let (store, by) = (&self.store, &self.caller);
        let stored = match subject {
            ChangeSubject::Plan(plan) => store.change(&plan, by, why, change).await,
            ChangeSubject::New(dialect, mut head) => {
                dialect.as_str().clone_into(&mut head.owner);
                head.policy = self.policy.clone();
                let create = |draft: &mut Draft<'_>| {
                    draft.created();
                    change(draft)
                };
                store.create(*head, by, why, create).await
            }
        };
        let rolled_back = rolled_back.try_recv();
        rolled_back.unwrap_or_else(|_| stored.map_err(|error| ToolError::from(error).into()))
    }
}

/// The plan of a change.
enum ChangeSubject {
    Plan(PlanId),
    New(Dialect, Box<PlanHead>),
}

impl From<&PlanId> for ChangeSubject {
    fn from(plan: &PlanId) -> Self {
        Self::Plan(plan.clone())
    }
}

/// Returns a new plan id: eight letters.
pub fn new_plan_id() -> PlanId {
    let letters = Uuid::new_v4().into_bytes().into_iter().take(8);
    let letters = letters.map(|byte| char::from(b'a' + byte % 26));
    PlanId::new(letters.collect::<String>())
}
