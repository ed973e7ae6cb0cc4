//! Who is at work: the agents that have a task of any plan, and the relays that bring tasks to other machines.

use std::time::Duration;

use serde::Serialize;

use super::AgentNow;
use crate::plan::{Attempt, CommandId, Plan, PlanId, TaskId, Time};
use crate::plan_time::{time_of, wall};
use crate::store::{KnownRelay, ListedPlan, Result, Store};
use crate::view::works_on;
use crate::volumes::Volumes;
use crate::wire::{CommandFile, one_line, time_text};

/// A relay that was not heard of for so long has lost its commands.
pub(super) const LOST: Duration = Duration::from_secs(60);

/// The most characters of what a relay says of itself.
const SAID: usize = 100;

/// An agent with a task.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkerView {
    pub command: CommandId,
    pub plan: PlanId,
    pub task: TaskId,
    pub task_name: Option<String>,
    pub role: Option<String>,
    pub agent: String,
    /// When it took the task, RFC 3339, as all times here.
    pub since: Option<String>,
    pub last_heartbeat: Option<String>,
    pub machine: Option<String>,
    /// It waits for its model until then.
    pub blocked_until: Option<String>,
    /// Empty if nothing is known.
    pub doing: String,
}

/// A relay.
#[derive(Clone, Debug, Serialize)]
pub struct RelayView {
    pub name: String,
    pub machine: String,
    pub agent: String,
    pub version: String,
    /// An empty one stands for tasks without a role.
    pub roles: Vec<String>,
    /// It takes no new command until a usage limit of its agent has ended.
    pub limited_until: Option<String>,
    pub last_heartbeat: String,
    /// It has said nothing for a minute.
    pub lost: bool,
    pub holds: Vec<CommandId>,
}

/// Returns the agents that have a task, and the relays that were heard of lately or are lost.
///
/// # Errors
/// A failure of the database, or a plan that cannot be read.
pub async fn all_at_work(
    store: &Store,
    volumes: &Volumes,
) -> Result<(Vec<WorkerView>, Vec<RelayView>)> {
    let (mut workers, relays) = (workers(store, volumes).await?, relays(store).await?);
    for worker in &mut workers {
        // What lies in the folder is the heartbeat of the daemon's own worker.
        if let Some(relay) = (relays.iter()).find(|relay| relay.holds.contains(&worker.command)) {
            worker.last_heartbeat = Some(relay.last_heartbeat.clone());
            worker.machine = Some(relay.machine.clone());
        }
    }
    Ok((workers, relays))
}

async fn workers(store: &Store, volumes: &Volumes) -> Result<Vec<WorkerView>> {
    let mut found = Vec::new();
    for ListedPlan { head, .. } in store.plans().await? {
        if head.is_listed() && head.may_ask() {
            let read = |plan: &Plan, _| -> Vec<_> {
                let open = plan.awaited_attempts();
                let claimed = open.filter(|attempt| attempt.claimed.is_some());
                claimed.map(|attempt| at_work(plan, attempt)).collect()
            };
            found.extend(store.read(&head.id, read).await?);
        }
    }
    let volumes = volumes.clone();
    let complete = move || {
        let complete = |(view, folder): (_, String)| with_signs(view, &folder, &volumes);
        found.into_iter().map(complete).collect()
    };
    let completed = tokio::task::spawn_blocking(complete).await;
    completed.map_err(|error| crate::store::StoreError::Panicked(error.to_string()))
}

async fn relays(store: &Store) -> Result<Vec<RelayView>> {
    let now = wall();
    let view = |relay: KnownRelay| {
        let said = |text: &str| one_line(text, SAID);
        let at = Time(now.0 - i64::try_from(relay.silent.as_micros()).unwrap_or(i64::MAX));
        RelayView {
            name: said(&relay.name),
            machine: said(&relay.about.machine),
            agent: said(&relay.about.agent),
            version: said(&relay.about.version),
            roles: relay.about.roles.iter().map(|role| said(role)).collect(),
            limited_until: relay.about.limited_until.as_deref().map(said),
            last_heartbeat: time_text(at),
            lost: relay.silent > LOST,
            holds: relay.holds,
        }
    };
    Ok(store.relays().await?.into_iter().map(view).collect())
}

/// Returns what the plan knows of an attempt at work, with the folder of its agent.
fn at_work(plan: &Plan, attempt: &Attempt) -> (WorkerView, String) {
    let task = plan.task(attempt.task);
    let view = WorkerView {
        command: attempt.id.clone(),
        plan: plan.id().clone(),
        task: attempt.task,
        task_name: task.map(|task| task.name.clone()),
        role: task.and_then(|task| task.assignee.clone()),
        agent: works_on(plan, attempt),
        since: attempt.claimed.map(time_text),
        ..WorkerView::default()
    };
    (view, CommandFile::workspace_of(&attempt.text))
}

/// Adds the signs of life that the agent itself gives.
fn with_signs(view: WorkerView, folder: &str, volumes: &Volumes) -> WorkerView {
    let command = &view.command;
    let places = volumes.everywhere();
    let place = places.iter().find(|place| place.life(command).exists());
    let place = place.unwrap_or(volumes);
    let beat = place.life(command).metadata();
    let beat = beat.and_then(|file| file.modified()).ok();
    let mut now = AgentNow::new(volumes.log(command, "out"), volumes.log(command, "err"));
    now.read();
    let life = place.read_life(command);
    WorkerView {
        last_heartbeat: beat.map(|beat| time_text(time_of(beat))),
        machine: life.machine,
        blocked_until: life.blocked_until.map(time_text),
        doing: now.doing(folder),
        ..view
    }
}
