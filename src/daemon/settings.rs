//! What a daemon is given, and how it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::config::{HooksConfig, Timing};
use crate::exec::CheckConfig;
use crate::llm::{Model, Prompts};
use crate::plan::{PlanId, PlanPolicy, PlanState};
use crate::volumes::{LockPlace, Volumes};
use crate::wire::command_file::Language;
use crate::wire::team_file::Team;

/// What a daemon needs to know.
pub struct DaemonSettings {
    pub volumes: Volumes,
    /// The lock by which this process has the folder.
    pub lock: LockPlace,
    pub plan: PlanId,
    /// The folder that agents work in; absolute.
    pub workspace: PathBuf,
    /// Whether each task of a plan that begins gets a worktree of its own; the workspace is a git project then.
    pub isolate: bool,
    pub policy: PlanPolicy,
    pub prompts: Arc<Prompts>,
    pub language: Language,
    /// The models that answer; `None` where rules decide.
    pub models: Option<Models>,
    /// The checks that are configured, by name.
    pub checks: BTreeMap<String, CheckConfig>,
    /// Who does the tasks; `None` if anybody does everything.
    pub team: Option<Arc<Team>>,
    /// Words for roles behind files that are told with each of their tasks, by the ids of the roles.
    pub role_prompts: Arc<BTreeMap<String, String>>,
    pub timing: Timing,
    pub human_wait: HumanWait,
    pub started_workers: StartedWorkers,
    /// Commands of the person that are told what happens.
    pub hooks: HooksConfig,
    /// The folder that they run in.
    pub folder: PathBuf,
    /// What a person types to call this program, as in `plan-agent --config my.toml`.
    pub program: String,
    /// Tells a person of trouble that the plan does not know, such as a full disk.
    pub notice: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The models for each kind of question.
#[derive(Clone, Debug)]
pub struct Models {
    /// Plans, replans and summarises.
    pub plan: Model,
    /// Judges and audits.
    pub judge: Model,
}

/// Those whom this process started to take commands: for a role, or `None` for whatever no role has somebody for.
#[derive(Clone, Debug)]
pub struct StartedWorkers {
    /// Tells of each whether their agent cannot work as it is set up: they end, and nothing further is dispatched to them.
    pub unfit: BTreeMap<Option<String>, watch::Receiver<bool>>,
    /// Those who have ended for that reason; what they had to say lies in the folders.
    pub gone: watch::Receiver<BTreeSet<Option<String>>>,
}

impl StartedWorkers {
    /// Nobody was started; others may take commands.
    pub fn none() -> Self {
        Self {
            unfit: BTreeMap::new(),
            gone: watch::channel(BTreeSet::new()).1,
        }
    }
}

/// What the daemon does when only a human can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HumanWait {
    /// It waits for the answer.
    Wait,
    /// It leaves.
    Leave,
}

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonEnd {
    /// The plan is settled.
    Settled(PlanState),
    /// Nothing can go on without a human, and the daemon does not wait, or nobody could carry out the answer.
    Waits,
    /// The budget is used up, and the daemon does not wait for a human to allow more.
    Budget,
    /// The goal has no plan and the model gave none; the goal is kept.
    NoPlan,
    /// It was asked to stop; the plan goes on with the next daemon.
    Interrupted,
    /// The lock at this path was removed or replaced, so another daemon may have the folder.
    Displaced(PathBuf),
}
