//! The settings of a daemon, and how it ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::BY;
use crate::config::Config;
use crate::exec::JudgingFiles;
use crate::llm::{Model, Prompts};
use crate::own_files::FilePlace;
use crate::plan::{CommandId, Draft, Plan, PlanHead, PlanId, PlanPolicy, PlanState, Refusal, Time};
use crate::plan_time::Clock;
use crate::store::{Result, Store};
use crate::volumes::{DaemonInfo, Volumes, VolumesError};
use crate::wire::Team;

/// Reports trouble that is not in a plan to a person, such as a full disk.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// What all plans of a daemon share.
pub struct FolderSettings {
    pub volumes: Volumes,
    /// The lock by which this process has the folder.
    pub lock: FilePlace,
    /// The file of the plans, where they are in one: a backup that is put back is another file.
    pub database: Option<FilePlace>,
    /// What other processes may know of this one, but for its plans.
    pub info: DaemonInfo,
    pub config: Arc<Config>,
    /// What a person types to call this program.
    pub program: String,
    pub notice: Notice,
    pub ends_when: EndsWhen,
    /// Where the workers are kept at work that the daemon has at its end, of plans that have not ended: who started the daemon ends
    /// them, or leaves their agents to another one. `None`: the daemon ends them.
    pub kept_workers: Option<KeptWorkers>,
    /// Ends the agent that a dead worker left at work on a command.
    pub end_left_agent: Arc<EndLeftAgent>,
    pub store: Store,
    pub clock: Clock,
    /// Makes ready what a queued plan needs; `None` if this daemon takes none up.
    pub take_up: Option<Arc<TakeUp>>,
}

/// When a daemon ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsWhen {
    /// The plan that it began with has ended.
    FirstEnds,
    /// Every plan has ended, and none is queued.
    AllEnded,
    /// Never.
    Stopped,
}

/// Ends what a dead worker left running for a command; one at which a worker is alive is left to that.
pub type EndLeftAgent =
    dyn Fn(CommandId) -> BoxFuture<'static, Result<(), VolumesError>> + Send + Sync;

/// Ends workers, and waits until what they were at is released.
pub type EndWorkers = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>;

/// Workers that go on without a daemon, by their plans.
pub type KeptWorkers = Arc<Mutex<Vec<(PlanId, EndWorkers)>>>;

/// A plan with what carries it out.
pub struct PlanAtWork {
    pub settings: DaemonSettings,
    pub end_workers: EndWorkers,
    /// The same for the roles inside this process.
    pub end_roles: EndWorkers,
}

/// Makes ready what a queued plan needs, as the person who queued it confirmed it. Where its folder is in use, only if its tasks
/// have worktrees: a plan whose tasks share the folder after all is `None`, and waits.
pub type TakeUp =
    dyn Fn(PlanHead, bool) -> BoxFuture<'static, anyhow::Result<Option<PlanAtWork>>> + Send + Sync;

/// A plan that a daemon carries out, with its settings: all that its effects need.
pub struct DaemonSettings {
    pub volumes: Volumes,
    pub plan: PlanId,
    /// The handle under which the plan is carried out: of its lease, where daemons share the database.
    pub store: Store,
    pub clock: Clock,
    /// The folder that agents work in; absolute.
    pub workspace: PathBuf,
    /// The absolute folder for MISSION.md.
    pub mission: PathBuf,
    /// The folder for the worktrees of the plan's tasks, where they get some; absolute.
    pub worktrees: PathBuf,
    pub config: Arc<Config>,
    pub policy: PlanPolicy,
    pub prompts: Arc<Prompts>,
    /// The models that answer; `None` where rules decide.
    pub models: Option<Models>,
    /// Which files judge results.
    pub judging: Arc<JudgingFiles>,
    /// The team that does the tasks; `None` if every worker does every task.
    pub team: Option<Arc<Team>>,
    /// What the commands of roles behind files say beside the task, by the ids of the roles.
    pub role_prompts: Arc<BTreeMap<String, String>>,
    pub human_wait: HumanWait,
    pub started_workers: StartedWorkers,
    /// The agent for tasks without a role sees only the files that it is given: its changes of others are put back.
    pub gives_files: bool,
    /// What a person types to call this program, as in `plan-agent --config my.toml`.
    pub program: String,
    pub notice: Notice,
}

impl FolderSettings {
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }
}

impl DaemonSettings {
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Reads the plan as it is committed now.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Plan, i64) -> T + Send + 'static,
    ) -> Result<T> {
        self.store.read(&self.plan, read).await
    }

    /// Changes the plan, as [`Store::change`].
    pub(super) async fn change<T: Send + 'static>(
        &self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        self.store.change(&self.plan, BY, why, change).await
    }
}

/// The models for each kind of question.
#[derive(Clone, Debug)]
pub struct Models {
    /// Plans, replans and summarises.
    pub plan: Model,
    /// Judges and audits.
    pub judge: Model,
}

/// The workers that this process started: for a role, or under `None` for the tasks of all other roles.
#[derive(Clone, Debug)]
pub struct StartedWorkers {
    /// Whether their agent cannot work as it is configured: the workers end, and no further command is dispatched to
    /// them.
    pub unfit: BTreeMap<Option<String>, watch::Receiver<bool>>,
    /// When workers have ended for that reason; their last reports are in the folders.
    pub gone: watch::Receiver<BTreeMap<Option<String>, Time>>,
}

impl StartedWorkers {
    /// No worker was started; those of other processes may take commands.
    pub fn none() -> Self {
        Self {
            unfit: BTreeMap::new(),
            gone: watch::channel(BTreeMap::new()).1,
        }
    }
}

/// What the daemon does when only a human can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HumanWait {
    /// It waits for the answer.
    Wait,
    /// It ends.
    Leave,
}

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonEnd {
    /// The plan is settled.
    Settled(PlanState),
    /// Nothing can go on without a human, and the daemon does not wait, or no worker could carry out the answer.
    Waits,
    /// The budget is used up, and the daemon does not wait for a human to allow more.
    Budget,
    /// The goal has no plan and the model gave none; the goal is kept.
    NoPlan,
    /// No plan is left, and none is queued.
    Idle,
    /// It was asked to stop; the next daemon resumes the plan.
    Interrupted,
    /// The lock at this path was removed or replaced, so another daemon may have the folder; or the file of the plans was replaced.
    Displaced(PathBuf),
}
