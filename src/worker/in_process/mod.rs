//! Roles of the team that work inside this process: their lanes take the commands of their role out of the files as any worker
//! does. A command is a task of the plan or the request of another role; it is handed to the role as a message, and what comes
//! of it becomes the report. What a lane was at when the process was killed is taken up again by the command's lock.

mod lane_registry;
mod request_timeout;
mod role_doer;
mod role_link;
mod shared_context;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::llm::Prompts;
use crate::plan::{CommandId, PlanId};
use crate::plan_time::Clock;
use crate::role::{Framework, OtherRole, Role, RoleId};
use crate::store::Store;
use crate::volumes::Volumes;
use lane_registry::Lane;
use request_timeout::RequestWait;
use role_doer::RoleDoer;
use role_link::RoleLink;
use shared_context::SharedContext;

use super::worker_loop::Worker;
use super::{RoleFilter, WorkerHealth, until_stopped};

/// Makes a role for one command, in the folder where that is carried out; the error says why it cannot.
pub type Make = dyn Fn(Arc<dyn Framework>, &CommandId, &Path) -> Result<Role, String> + Send + Sync;

/// A role that works in this process.
#[derive(Clone)]
pub struct InProcessRole {
    pub id: RoleId,
    pub make: Arc<Make>,
    /// How many commands it works on simultaneously.
    pub lanes: usize,
    /// How long it waits for another role.
    pub timeout: Duration,
}

/// What the roles in the process work with.
pub struct RoleHost {
    /// The plan that they work for.
    pub plan: PlanId,
    pub config: Arc<Config>,
    pub store: Store,
    pub volumes: Volumes,
    /// The folder in which agents work, where nothing names another.
    pub workspace: PathBuf,
    pub clock: Clock,
    /// Those from which commands for roles behind files are made.
    pub prompts: Arc<Prompts>,
    /// All roles of the team.
    pub members: Vec<OtherRole>,
    /// The instructions for roles behind files, which are part of each of their commands, by the ids of the roles.
    pub role_prompts: Arc<BTreeMap<String, String>>,
    /// Those of them that work here.
    pub residents: Vec<InProcessRole>,
}

/// The roles that work in this process, ready to begin.
pub struct InProcessRoles {
    shared: Arc<SharedContext>,
}

impl InProcessRoles {
    /// Puts the roles together.
    ///
    /// # Errors
    /// Everything for which one of them cannot do its work, such as a template that names what is not there.
    pub fn new(host: RoleHost) -> Result<Self, Vec<String>> {
        let shared = Arc::new(SharedContext::new(host));
        let tried = shared.host.residents.iter().map(|resident| {
            let link = RoleLink::new(Arc::clone(&shared), Lane::of(resident, 0), "");
            let none = CommandId::new("");
            (resident.make)(Arc::new(link), &none, &shared.host.workspace)
        });
        match tried.filter_map(Result::err).collect::<Vec<_>>() {
            faults if faults.is_empty() => Ok(Self { shared }),
            faults => Err(faults),
        }
    }

    /// Works until `shutdown` resolves. What a role is at then stays where it is and is taken up by the next process. Faults on
    /// the way are logged, and the work goes on when it can.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (stop, stopping) = watch::channel(false);
        until_stopped(pin!(self.work(stopping)), stop, shutdown).await;
    }

    async fn work(self, stopping: watch::Receiver<bool>) {
        let host = &self.shared.host;
        // Before any lane takes something new.
        if let Err(error) = self.shared.recover().await {
            tracing::warn!(%error, "what roles waited for is known when they wait again");
        }
        let mut lanes = JoinSet::new();
        for resident in &host.residents {
            for index in 0..resident.lanes {
                let worker = Worker {
                    volumes: host.volumes.clone(),
                    config: Arc::clone(&host.config),
                    role: RoleFilter::Only(resident.id.to_string()),
                    plan: Some(host.plan.clone()),
                    lanes: 1,
                    health: WorkerHealth::default(),
                    events: None,
                    changes: self.shared.registry.changes(),
                    stopping: stopping.clone(),
                };
                let lane = Lane::of(resident, index);
                let doer = RoleDoer::new(Arc::clone(&self.shared), lane, resident.clone());
                lanes.spawn(worker.work(doer));
            }
        }
        while let Some(ended) = lanes.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a lane broke down");
            }
        }
    }
}

impl Lane {
    fn of(resident: &InProcessRole, index: usize) -> Self {
        let role = resident.id.clone();
        Self { role, index }
    }
}
