//! The side of the CodingAgent: takes commands from the volumes, runs an agent for each, and writes the report. It
//! speaks through the files alone, inside the daemon's process as well as in one of its own.

mod agent_doer;
mod agent_liveness;
mod agent_log;
mod agent_now;
mod allowed_commands;
mod coding_agent_session;
mod command_claim;
pub mod in_process;
pub mod readable_output;
mod relay_doer;
mod role_filter;
mod worker_loop;
pub mod workers_at_work;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use self::agent_doer::{AgentDoer, CommandRun, end_left_behind};
use self::worker_loop::{
    Doer, Finished, HeartbeatSource, LOOK, RUNS_ON, Result, RunVitals, WorkStop, Worker, chain,
};
use crate::agents::Agent;
use crate::config::Config;
use crate::plan::{PlanId, ReportStatus, Time};
use crate::store::StorePlace;
use crate::volumes::{Volumes, VolumesError};
pub use agent_log::AgentLog;
pub use agent_now::AgentNow;
pub use command_claim::{Claim, end_left_agents, left_behind, take_back};
use relay_doer::RelayDoer;
pub use relay_doer::{RelayedLife, RelayedPlans};
pub use role_filter::RoleFilter;

/// What a worker works with.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub config: Arc<Config>,
    pub agent: Agent,
    /// Whose commands it takes.
    pub role: RoleFilter,
    /// The plan whose commands it takes; `None` for those of all.
    pub plan: Option<PlanId>,
    /// How many commands it works on simultaneously.
    pub lanes: usize,
    /// An agent may work that long on a command.
    pub deadline: Duration,
    /// The `PATH` by which the agent is found and works; `None` for that of this process.
    pub path: Option<String>,
    /// Where the plans are.
    pub store: StorePlace,
    /// Shared by workers side by side whose agents are elsewhere.
    pub relayed: RelayedPlans,
    pub health: WorkerHealth,
    /// Gets what the worker does, for a person who watches.
    pub events: Option<UnboundedSender<WorkerEvent>>,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// It works on the command with this title.
    Begun(String),
    /// The model behind the agent failed, and is asked again then.
    Waits { said: String, until: Time },
    /// It has reported; `None` if the agent did so itself.
    Reported(Option<ReportStatus>),
}

/// Shared by workers that run the same agent side by side: as soon as one finds that it cannot work as it is set up, all of
/// them end. Only the first reports it; what the others had begun goes back.
#[derive(Clone, Debug, Default)]
pub struct WorkerHealth {
    lost: watch::Sender<bool>,
}

impl WorkerHealth {
    /// Resolves when a worker has found that the agent cannot work.
    pub async fn lost(&self) {
        // The sender is here: it cannot go away first.
        drop(self.watch().wait_for(|lost| *lost).await);
    }

    /// Becomes true when a worker has found so, before the report of it is there.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Notes that the agent cannot work; false if another worker was first.
    fn lose(&self) -> bool {
        self.lost
            .send_if_modified(|lost| !std::mem::replace(lost, true))
    }
}

/// Why a worker ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error(transparent)]
    Volumes(#[from] VolumesError),
    /// Every further command would fail the same way.
    #[error("the agent `{agent}` cannot work as it is set up: {said}")]
    Unfit { agent: String, said: String },
}

/// Works until `shutdown` resolves. An agent that runs then is stopped within half a second; its command is taken up
/// by the next worker. Faults on the way are logged, and the work goes on when it can.
///
/// # Errors
/// When the folders cannot be made or written to at the start, or the agent cannot work as it is set up.
pub async fn run(
    options: WorkerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WorkerError> {
    let volumes = Volumes::open(&options.config.root())?;
    let (stop, stopping) = watch::channel(false);
    let health = options.health.clone();
    let ended = async {
        tokio::select! {
            () = shutdown => {}
            () = health.lost() => {}
        }
    };
    let worker = Worker {
        volumes,
        config: options.config,
        role: options.role,
        plan: options.plan,
        lanes: options.lanes,
        health: options.health,
        events: options.events,
        changes: watch::channel(0).1,
        stopping,
    };
    match options.agent {
        Agent::Relay => {
            let (place, plans) = (options.store, options.relayed);
            until_stopped(pin!(worker.work(RelayDoer { place, plans })), stop, ended).await
        }
        agent => {
            let doer = AgentDoer {
                agent,
                deadline: options.deadline,
                path: options.path,
                store: options.store,
            };
            until_stopped(pin!(worker.work(doer)), stop, ended).await
        }
    }
}

/// Lets work go on until it ends, or is told to at `end`.
async fn until_stopped<T>(
    mut work: Pin<&mut impl Future<Output = T>>,
    stop: watch::Sender<bool>,
    end: impl Future<Output = ()>,
) -> T {
    tokio::select! {
        ended = &mut work => return ended,
        () = end => {}
    }
    stop.send_replace(true);
    work.await
}

#[cfg(test)]
mod tests;
