//! A worker whose agent is elsewhere: it offers each command to the relays, lives as long as the relay that has it, and brings what
//! that reports into the folders here. For the daemon it is a worker like any other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, sleep};

use super::command_claim::Claim;
use super::worker_loop::{Doer, Finished, LOOK, Result, WorkStop, Worker, chain, failed};
use super::workers_at_work::LOST;
use crate::exec::{CarriedFiles, GitError, LandingPlace, Project, TaskWorktree, worktree_of};
use crate::plan::{Plan, SessionId, Task, TaskState, Time};
use crate::plan_time::wall;
use crate::store::{OfferedCommand, RelayedReport, Store, StoreError, StorePlace};
use crate::volumes::{Heartbeat, Volumes, VolumesError};
use crate::wire::command_file::CommandFile;
use crate::wire::report_file::{self, render};
use crate::wire::text::{one_line, parse_time, safe_session};

/// How often the heartbeat is renewed.
const BEAT: Duration = Duration::from_secs(10);

/// Characters of a relay's words about work that cannot be taken.
const REFUSED: usize = 2_000;

/// What a relay says of the work on a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayedLife {
    /// The agent has not begun, or has shown itself lately.
    pub alive: bool,
    pub heartbeat: Heartbeat,
}

/// The plans and the counter of what is new there, shared by the workers of a pool.
#[derive(Clone, Debug, Default)]
pub struct RelayedPlans(Arc<OnceCell<(Store, watch::Receiver<u64>)>>);

/// Gives commands to relays.
pub(super) struct RelayDoer {
    pub(super) place: StorePlace,
    pub(super) plans: RelayedPlans,
}

/// Where the work of a command begins, and where its result belongs.
enum WorkPlace {
    Worktree {
        project: Box<Project>,
        task: TaskWorktree,
        base: String,
        tip: String,
    },
    /// The workspace itself, of which only files travel that tasks produce: those of `made`, and those of this task.
    Shared {
        folder: PathBuf,
        made: Vec<String>,
        wanted: Vec<String>,
    },
}

impl Doer for RelayDoer {
    fn name(&self) -> &str {
        "relay"
    }

    async fn run(&self, worker: &Worker, claim: &Claim, command: &CommandFile) -> Result<Finished> {
        let (volumes, id) = (&worker.volumes, claim.id());
        let holder = volumes.holder();
        let (store, mut bell) = self.plans().await.map_err(|error| fault(volumes, error))?;
        let fault = |error: StoreError| fault(volumes, error);
        let (started, mut offered) = (wall(), false);
        let (mut next_beat, mut beaten) = (Instant::now(), Heartbeat::default());
        let mut stopping = worker.stopping.clone();
        loop {
            // Also meanwhile: a person may have reported here.
            if volumes.reported(id)? {
                store.take_back(&holder, id).await.map_err(fault)?;
                return Ok(Finished::default());
            }
            if volumes.cancel_mark(id).exists() {
                store.take_back(&holder, id).await.map_err(fault)?;
                return Err(WorkStop::Cancelled);
            }
            if *stopping.borrow_and_update() {
                return Err(WorkStop::Stopping);
            }
            bell.borrow_and_update();
            let relayed = store.relayed(id).await.map_err(fault)?;
            let Some(relayed) = relayed else {
                // Its relays forgot it with the database, or it was never offered.
                if std::mem::replace(&mut offered, true) {
                    sleep(LOOK).await;
                }
                match offer(&store, volumes, command).await {
                    Ok(true) => continue,
                    Ok(false) => return Ok(Finished::default()),
                    Err(OfferError::Later(error)) => return Err(later(volumes, error)),
                    Err(OfferError::Impossible(why)) => {
                        return Ok(Finished::reported(failed(id, why)));
                    }
                }
            };
            let life: RelayedLife = serde_json::from_str(&relayed.life).unwrap_or_default();
            // What waits for a relay is not silent. A relay that was not heard of for a minute has lost the command.
            let held = relayed.held || relayed.report.is_some();
            let lives = !held || life.alive;
            let life = match held {
                true => life.heartbeat,
                false => Heartbeat {
                    refused: Some(relayed.refused).filter(|why| !why.is_empty()),
                    blocked_until: limit(&store, command).await.map_err(fault)?,
                    ..Heartbeat::default()
                },
            };
            let life = elsewhere(life, started);
            // Once for each relay, also where its agent has been silent since: else the command would wait for one.
            let taken = held && life.machine != beaten.machine;
            if taken || lives && (Instant::now() >= next_beat || life != beaten) {
                if let Err(error) = volumes.live(id, &life) {
                    tracing::debug!(command = %id, %error, "no heartbeat");
                }
                beaten = life;
                next_beat = Instant::now() + BEAT.min(worker.config.run.task_timeout / 5);
            }
            if let Some(report) = relayed.report {
                take(&store, volumes, command, report).await?;
                // Only now: a kill before this, and the report is taken again.
                store.take_back(&holder, id).await.map_err(fault)?;
                return Ok(Finished::default());
            }
            tokio::select! {
                _ = bell.changed() => {}
                () = sleep(worker.config.timing.work) => {}
                _ = stopping.changed() => {}
            }
        }
    }

    /// What the relay says of it is not awaited.
    async fn end_session(&self, worker: &Worker, command: &CommandFile) -> Result<()> {
        let volumes = &worker.volumes;
        let offered = async {
            let (store, _) = self.plans().await?;
            let plan = command.plan.clone().unwrap_or_default();
            let project = store.read(&plan, |plan, _| plan.head().project.clone());
            let Some(project) = project.await? else {
                return Ok(());
            };
            let end = OfferedCommand {
                ends: true,
                ..plain_offer(command, project)
            };
            store.offer(&volumes.holder(), end).await
        };
        offered.await.map_err(|error| fault(volumes, error))
    }
}

/// Returns the offer of a command as its file says it, without any work.
fn plain_offer(command: &CommandFile, project: String) -> OfferedCommand {
    let session = command.session.as_ref().map(SessionId::to_string);
    OfferedCommand {
        id: command.id.clone(),
        plan: command.plan.clone().unwrap_or_default(),
        project,
        role: command.assignee.clone().unwrap_or_default(),
        session: session.unwrap_or_default(),
        text: command.render(),
        ..OfferedCommand::default()
    }
}

impl RelayDoer {
    async fn plans(&self) -> Result<(Store, watch::Receiver<u64>), StoreError> {
        let open = async || {
            let store = self.place.open(wall).await?;
            Ok((store, self.place.bell()?))
        };
        self.plans.0.get_or_try_init(open).await.cloned()
    }
}

/// Returns what the heartbeat of an agent elsewhere means here, where its process is none.
fn elsewhere(life: Heartbeat, started: Time) -> Heartbeat {
    Heartbeat {
        pid: None,
        run: None,
        session: life.session.filter(|id| safe_session(id.as_str())),
        started_at: Some(started),
        ..life
    }
}

/// Returns when the first usage limit ends of the relays that could take a command, if all of them are at theirs.
async fn limit(store: &Store, command: &CommandFile) -> Result<Option<Time>, StoreError> {
    let role = command.assignee.clone().unwrap_or_default();
    let relays = store.relays().await?.into_iter();
    let able = relays.filter(|it| it.silent <= LOST && it.about.roles.contains(&role));
    let limits = able.map(|it| it.about.limited_until.as_deref().and_then(parse_time));
    let limits: Option<Vec<Time>> = limits.collect();
    Ok(limits.unwrap_or_default().into_iter().min())
}

/// Why a command is not offered.
enum OfferError {
    /// Git, the disk or the store fails now.
    Later(String),
    /// And never will be.
    Impossible(String),
}

impl From<StoreError> for OfferError {
    fn from(error: StoreError) -> Self {
        Self::Later(chain(error))
    }
}

impl From<io::Error> for OfferError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::Other => Self::Impossible(error.to_string()),
            _ => Self::Later(error.to_string()),
        }
    }
}

impl From<GitError> for OfferError {
    fn from(error: GitError) -> Self {
        match error.is_passing() {
            true => Self::Later(chain(error)),
            false => Self::Impossible(error.to_string()),
        }
    }
}

/// Offers a command, unless its report came already: in the folder of another daemon, which had the plan meanwhile. Returns
/// whether it is offered.
async fn offer(
    store: &Store,
    volumes: &Volumes,
    command: &CommandFile,
) -> Result<bool, OfferError> {
    let plan = command.plan.clone().unwrap_or_default();
    let own = command.id.clone();
    let awaited = move |plan: &Plan, _| plan.awaited_attempts().any(|attempt| attempt.id == own);
    if command.task.is_some() && !store.read(&plan, awaited).await? {
        return Ok(false);
    }
    let (id, place) = work_place(store, command).await?;
    let plain = plain_offer(command, id);
    let offered = match place {
        WorkPlace::Worktree {
            project,
            task,
            base,
            tip,
        } => {
            let git = project.worktree(&task.folder).await?.ok_or_else(|| {
                let folder = task.folder.display();
                GitError::Unclear(format!("`{folder}` is no worktree any more"))
            })?;
            let head = git.line("rev-parse HEAD", &[]).await?;
            let pack = match git.has(&head, &tip).await? {
                true => Vec::new(),
                false => project.pack(&tip, &head).await?,
            };
            OfferedCommand {
                base,
                head,
                merge: git.resolve("MERGE_HEAD").await?.unwrap_or_default(),
                pack,
                ..plain
            }
        }
        WorkPlace::Shared {
            folder,
            mut made,
            wanted,
        } => {
            made.retain(|path| !wanted.contains(path));
            made.extend(wanted.iter().cloned());
            let pack = CarriedFiles::read(&folder, made, wanted).await?;
            OfferedCommand { pack, ..plain }
        }
    };
    store.offer(&volumes.holder(), offered).await?;
    tracing::info!(command = %command.id, "offered to the relays");
    Ok(true)
}

/// Returns where the work of a command belongs, and the id of its project.
async fn work_place(
    store: &Store,
    command: &CommandFile,
) -> Result<(String, WorkPlace), OfferError> {
    let none = || {
        let why = "no relay can do it: it is for no task of a project among [projects]";
        OfferError::Impossible(why.to_owned())
    };
    let (Some(plan), Some(number)) = (&command.plan, command.task) else {
        return Err(none());
    };
    let read = move |plan: &Plan, _| {
        let done = plan.tasks_in(TaskState::Completed);
        let made = done.flat_map(Task::made_files).collect();
        let wanted = plan.task(number).map(|task| task.made_files().collect());
        (plan.head().clone(), made, wanted)
    };
    let (head, made, wanted): (_, Vec<String>, Option<Vec<String>>) =
        store.read(plan, read).await?;
    let (Some(id), Some(wanted)) = (head.project, wanted) else {
        return Err(none());
    };
    let workspace = PathBuf::from(&head.workspace);
    let Some(line) = head.line else {
        let place = WorkPlace::Shared {
            folder: workspace,
            made,
            wanted,
        };
        return Ok((id, place));
    };
    // The plan was taken over, and its project is not opened there yet.
    let repository = head.repository.ok_or_else(|| {
        OfferError::Later("the plan has just been taken over by another daemon".to_owned())
    })?;
    let project = Project::open(&workspace, &repository, Path::new(&line.folder)).await?;
    let place = WorkPlace::Worktree {
        project: Box::new(project.one_at_a_time()),
        task: worktree_of(plan, &line, number),
        base: line.base,
        tip: line.tip,
    };
    Ok((id, place))
}

/// Brings what a relay reported here: first the work, then the report. After a kill it is done again.
async fn take(
    store: &Store,
    volumes: &Volumes,
    command: &CommandFile,
    report: RelayedReport,
) -> Result<()> {
    let id = &command.id;
    let bytes = report.bytes;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut trouble = report.refused;
    if trouble.is_empty() {
        let (from, to) = (&report.head, &report.commit);
        let taken = take_work(store, volumes, command, (from, to), report.pack).await;
        match taken {
            Ok(()) => {}
            Err(OfferError::Later(error)) => return Err(later(volumes, error)),
            Err(OfferError::Impossible(why)) => trouble = why,
        }
    }
    if trouble.is_empty() {
        return Ok(volumes.submit(id, &text)?);
    }
    let trouble = one_line(&trouble, REFUSED);
    tracing::warn!(command = %id, trouble, "what a relay reported cannot be taken");
    let why = format!(
        "The work of the agent could not be brought here: {trouble}\n\nIts report:\n\n{text}"
    );
    let mut report = failed(id, why);
    // The next attempt goes on in its session.
    let said = report_file::parse(&report.report.name, &bytes).ok();
    report.report.session = said.and_then(|file| file.report.session);
    Ok(volumes.submit(id, &render(&report))?)
}

async fn take_work(
    store: &Store,
    volumes: &Volumes,
    command: &CommandFile,
    (from, to): (&str, &str),
    pack: Vec<u8>,
) -> Result<(), OfferError> {
    if to.is_empty() && pack.is_empty() {
        return Ok(());
    }
    match work_place(store, command).await?.1 {
        WorkPlace::Worktree { project, task, .. } => {
            // Another daemon offered it, from a clone of its own.
            if !project.git().has_commit(from).await? {
                let before = store.offered_pack(&command.id).await?;
                project.unpack(before).await?;
            }
            if !pack.is_empty() {
                project.unpack(pack).await?;
            }
            Ok(project.take_work(&task, (from, to)).await?)
        }
        WorkPlace::Shared { folder, wanted, .. } => {
            let place = LandingPlace {
                folder,
                closed: vec![volumes.root().to_owned()],
                replace: true,
            };
            let accepted = move |path: &str| wanted.iter().any(|file| file == path);
            let files = CarriedFiles::parse(&pack)?;
            Ok(files.lay_down(place, accepted).await?)
        }
    }
}

/// What cannot be done now; the command is taken up again.
fn later(volumes: &Volumes, error: String) -> WorkStop {
    let error = io::Error::other(error);
    VolumesError::new("reach the relays from", volumes.root(), error).into()
}

fn fault(volumes: &Volumes, error: StoreError) -> WorkStop {
    later(volumes, chain(error))
}
