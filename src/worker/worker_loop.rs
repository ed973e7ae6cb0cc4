//! The loop of every worker: it takes a command, has it done, and sees to its report. Who does it, an agent or a role in the
//! process, is a [`Doer`].

use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::agent_liveness::Pulse;
use super::command_claim::{Claimer, PassedOver};
use super::{Claim, RoleFilter, WorkerError, WorkerEvent, WorkerHealth, end_left_behind};
use crate::agents::{CodingAgent, MOST_PRINTED};
use crate::config::Config;
use crate::exec::ChildOutput;
use crate::plan::{CommandId, PlanId, ReportStatus, SessionId, Time};
use crate::plan_time::{time_of, wall};
use crate::volumes::{
    Folder, Heartbeat, Inbox, LogPosition, Volumes, VolumesError, Watch, machine,
};
use crate::wire::report_file::render;
use crate::wire::{CommandFile, CommandType, Problem, ReportFile};

/// How often the heartbeat is renewed while the agent does something.
const BEAT: Duration = Duration::from_secs(10);
/// The interval of the checks whether the command is cancelled, an agent left behind has ended, or one prints without end.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// An agent names its session in its first lines, if it does.
const HEAD: usize = 64 * 1024;
/// Between attempts to write a report.
const RETRY: Duration = Duration::from_secs(2);
/// The longest pause after faults in a row, such as a full disk.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The kind of the error for a command that cannot be let go of: something that was started for it still runs.
pub(super) const RUNS_ON: io::ErrorKind = io::ErrorKind::ResourceBusy;

/// Does the commands that a worker takes.
pub(super) trait Doer: Send + Sync + 'static {
    /// Who takes the commands, as their locks say.
    fn name(&self) -> &str;

    /// Returns the commands that go before those that are older.
    fn first(&self) -> BTreeSet<CommandId> {
        BTreeSet::new()
    }

    /// Does a command, or goes on with one that a worker like this left behind.
    fn run(
        &self,
        worker: &Worker,
        claim: &Claim,
        command: &CommandFile,
    ) -> impl Future<Output = Result<Finished>> + Send;

    /// Ends the session of an `end` command: what is kept for it goes.
    fn end_session(&self, _: &Worker, _: &CommandFile) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// A worker: takes the commands of a role out of the files.
pub(super) struct Worker {
    pub(super) volumes: Volumes,
    pub(super) config: Arc<Config>,
    pub(super) role: RoleFilter,
    /// The plan whose commands it takes; `None` for those of all.
    pub(super) plan: Option<PlanId>,
    /// How many commands it works on simultaneously.
    pub(super) lanes: usize,
    pub(super) health: WorkerHealth,
    pub(super) events: Option<UnboundedSender<WorkerEvent>>,
    /// Moves when there may be something to do although no file has come.
    pub(super) changes: watch::Receiver<u64>,
    pub(super) stopping: watch::Receiver<bool>,
}

/// What came of a command.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// The report that is to be written; `None` if there is nothing to say or the agent has said it.
    pub(super) report: Option<ReportFile>,
    /// Why the agent must not be given another one.
    pub(super) stop: Option<String>,
    /// What the report was taken from, and is to be removed when it is written.
    pub(super) left: Option<(Inbox, Option<PathBuf>)>,
}

/// Why a command is left before its report is there.
#[derive(Debug)]
pub(super) enum WorkStop {
    /// The daemon does not want it any more.
    Cancelled,
    /// The worker is to end; the next one takes the command up.
    Stopping,
    /// The files cannot be used; the command is taken up again.
    Fault(VolumesError),
    /// The agent prints without end. The command goes on: this one has a report.
    Flooded,
}

impl Finished {
    pub fn reported(report: ReportFile) -> Self {
        Self {
            report: Some(report),
            ..Self::default()
        }
    }
}

/// What came of work on a command, or why it was left.
pub(super) type Result<T, E = WorkStop> = std::result::Result<T, E>;

impl From<VolumesError> for WorkStop {
    fn from(error: VolumesError) -> Self {
        Self::Fault(error)
    }
}

/// The heartbeat of the agent that works on a command.
pub(super) struct RunVitals<'a> {
    id: &'a CommandId,
    pub(super) heartbeat: Mutex<Heartbeat>,
}

impl<'a> RunVitals<'a> {
    pub fn new(id: &'a CommandId, agent: String, started: Time) -> Self {
        let heartbeat = Mutex::new(Heartbeat {
            agent: Some(agent),
            started_at: Some(started),
            ..Heartbeat::default()
        });
        Self { id, heartbeat }
    }

    /// Goes on with the heartbeat of a worker that is gone, whose agent may still run.
    pub fn left_behind(id: &'a CommandId, life: &Heartbeat, pid: Option<u32>) -> Self {
        let heartbeat = Mutex::new(Heartbeat {
            pid,
            started_at: life.started_at.or_else(|| Some(wall())),
            blocked_until: None,
            model_fails: None,
            ..life.clone()
        });
        Self { id, heartbeat }
    }

    /// Begins a run.
    pub fn begin(&self, run: LogPosition, session: Option<&SessionId>) {
        let mut current = self.heartbeat.lock();
        *current = Heartbeat {
            session: session.cloned(),
            agent: current.agent.take(),
            started_at: current.started_at,
            run: Some(run),
            ..Heartbeat::default()
        };
    }

    pub fn session(&self) -> Option<SessionId> {
        self.heartbeat.lock().session.clone()
    }
}

/// What counts as a heartbeat while a command is worked on.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeartbeatSource<'a> {
    /// What an agent prints, and which agent it is, if that can be read: the session is found there as long as it is not known,
    /// and words that are no heartbeat.
    Agent(&'a ChildOutput, Option<&'static CodingAgent>),
    /// No agent runs, and that is wanted: the heartbeat is renewed in any case. What the last one printed still counts.
    Wanted(Option<&'a ChildOutput>),
}

impl Worker {
    /// Has commands done, as many at a time as it has lanes, until the worker is to end. Faults on the way are logged, and the work
    /// goes on when it can.
    ///
    /// # Errors
    /// The agent cannot work as it is set up.
    pub async fn work(self, doer: impl Doer) -> Result<(), WorkerError> {
        let (worker, doer) = (Arc::new(self), Arc::new(doer));
        let wake = Arc::new(Notify::new());
        let mut watch = Watch::for_worker(&worker.role.from(&worker.volumes), Arc::clone(&wake));
        let (mut changes, mut stopping) = (worker.changes.clone(), worker.stopping.clone());
        let interval = worker.config.timing.work;
        let (mut pause, mut passed) = (interval, PassedOver::default());
        let (mut lanes, mut busy) = (worker.lanes, JoinSet::new());
        let mut unfit = None;
        while !*stopping.borrow_and_update() && !worker.health.is_lost() {
            changes.borrow_and_update();
            let free = busy.len() < lanes;
            if free {
                let claimer = worker.claimer(&*doer);
                pause = match claimer.next(&worker.volumes, &passed, &doer.first()) {
                    Ok(Some(claim)) => {
                        let (worker, doer) = (Arc::clone(&worker), Arc::clone(&doer));
                        busy.spawn(async move {
                            let id = claim.id().clone();
                            (id, worker.carry_out(&*doer, claim).await)
                        });
                        continue;
                    }
                    Ok(None) => interval,
                    Err(error) => {
                        tracing::warn!(error = chain(error), "the worker tries again");
                        (pause * 2).min(LONGEST_PAUSE)
                    }
                };
            }
            tokio::select! {
                Some(ended) = busy.join_next() => match ended {
                    Ok((_, Ok(()))) => {}
                    Ok((_, Err(error @ WorkerError::Unfit { .. }))) => drop(unfit.get_or_insert(error)),
                    Ok((id, Err(error))) => {
                        tracing::warn!(command = %id, error = chain(error), "tried again later");
                        passed.note(id);
                    }
                    Err(panic) if lanes == 1 => resume_unwind(panic.into_panic()),
                    // What broke it down may do so to the next one as well.
                    Err(panic) => {
                        tracing::error!(%panic, "a lane broke down");
                        lanes -= 1;
                    }
                },
                () = wake.notified(), if free => {}
                Ok(()) = changes.changed(), if free => {}
                () = sleep(pause), if free => {}
                _ = stopping.changed() => {}
            }
            watch.check();
        }
        while let Some(ended) = busy.join_next().await {
            if let Ok((_, Err(error @ WorkerError::Unfit { .. }))) = ended {
                unfit.get_or_insert(error);
            }
        }
        unfit.map_or(Ok(()), Err)?;
        if let Err(error) = worker.take_ends(&*doer).await {
            tracing::warn!(%error, "commands that end a session wait for another worker");
        }
        Ok(())
    }

    fn claimer<'a>(&'a self, doer: &'a impl Doer) -> Claimer<'a> {
        Claimer {
            agent: doer.name(),
            role: &self.role,
            plan: self.plan.as_ref(),
        }
    }

    /// Has a command done until its report is there. One that was left behind is gone on with; where a worker of another agent had
    /// it, what still runs for it is ended first.
    ///
    /// # Errors
    /// What the file system says, or that something of another agent still runs, and the command is taken up again then; or that
    /// the agent is not to be used any more.
    async fn carry_out(&self, doer: &impl Doer, mut claim: Claim) -> Result<(), WorkerError> {
        if claim.of_another {
            let id = claim.id();
            end_left_behind(&self.volumes, id).await?;
            tracing::info!(command = %id, "taken over from a worker of another agent");
            claim.take_over(doer.name())?;
        }
        match self.result(doer, &claim).await {
            Ok(Finished { report, stop, left }) => {
                let began = left.as_ref().is_some_and(|(_, report)| report.is_some());
                if stop.is_some() && !self.health.lose() && !began {
                    if let Some((inbox, _)) = left {
                        inbox.close();
                    }
                    return Ok(claim.give_back()?);
                }
                match &report {
                    Some(report) => self.submit(claim, report, left).await?,
                    None => claim.finish()?,
                }
                self.notify(WorkerEvent::Reported(report.map(|file| file.report.status)));
                let agent = doer.name().to_owned();
                stop.map_or(Ok(()), |said| Err(WorkerError::Unfit { agent, said }))
            }
            // No report for what is cancelled: it could be taken for that of the successor.
            Err(WorkStop::Cancelled) => Ok(claim.finish()?),
            // No other worker of this process comes to take it up, and the agent could not have done it.
            Err(WorkStop::Stopping)
                if self.health.is_lost() && !self.volumes.reported(claim.id())? =>
            {
                Ok(claim.give_back()?)
            }
            Err(WorkStop::Stopping | WorkStop::Flooded) => Ok(()),
            Err(WorkStop::Fault(error)) => Err(error.into()),
        }
    }

    async fn result(&self, doer: &impl Doer, claim: &Claim) -> Result<Finished> {
        let id = claim.id();
        match read(&claim.volumes, Folder::CommandsProcessed, id) {
            // It may be that of a person.
            Err(_) if self.volumes.reported(id)? => Ok(Finished::default()),
            Err(reason) => {
                let why = format!("Nothing was done: the command cannot be read: {reason}.");
                Ok(Finished::reported(failed(id, why)))
            }
            Ok(command) if command.kind == CommandType::End => {
                doer.end_session(self, &command).await?;
                Ok(Finished::default())
            }
            Ok(command) => doer.run(self, claim, &command).await,
        }
    }

    /// Takes the commands that only end a session: they come when a plan ends, and so perhaps the worker.
    ///
    /// # Errors
    /// What the file system says; they wait for another worker then.
    async fn take_ends(&self, doer: &impl Doer) -> Result<(), WorkerError> {
        for volumes in self.role.from(&self.volumes) {
            for id in volumes.waiting()? {
                let command = read(&volumes, Folder::CommandsPending, &id);
                let ends = command.is_ok_and(|command| command.kind == CommandType::End);
                if ends && let Some(claim) = self.claimer(doer).take(&volumes, &id, &[])? {
                    self.carry_out(doer, claim).await?;
                }
            }
        }
        Ok(())
    }

    /// Reports what the worker does to the person who watches, if one does.
    pub fn notify(&self, event: WorkerEvent) {
        if let Some(events) = &self.events {
            drop(events.send(event));
        }
    }

    /// Renews the heartbeat as long as the agent that works on a command does something, and returns why that must end.
    pub async fn attend(&self, vital: &RunVitals<'_>, source: HeartbeatSource<'_>) -> WorkStop {
        let mark = self.volumes.cancel_mark(vital.id);
        let (output, of) = match source {
            HeartbeatSource::Agent(output, of) => (Some(output), of),
            HeartbeatSource::Wanted(output) => (output, None),
        };
        let mut stopping = self.stopping.clone();
        let begun = vital.heartbeat.lock().run.map(|run| [run.out, run.err]);
        let lengths = || output.map_or([0, 0], ChildOutput::lengths);
        let begun = begun.unwrap_or_else(lengths);
        let mut searched = begun[0];
        let mut pulse = Pulse::new(vital.heartbeat.lock().last_output_at, begun);
        // Several heartbeats fit into the silence after which the daemon ends an agent.
        let every = BEAT.min(self.config.run.task_timeout / 5).max(LOOK);
        let mut next_beat = Instant::now();
        loop {
            if mark.exists() {
                return WorkStop::Cancelled;
            }
            if *stopping.borrow_and_update() {
                return WorkStop::Stopping;
            }
            let lengths = lengths();
            let printed = |at: usize| lengths[at].saturating_sub(begun[at]);
            if printed(0).max(printed(1)) > MOST_PRINTED {
                return WorkStop::Flooded;
            }
            if let (Some(kind), Some(output)) = (of, output)
                && lengths[0] > searched
                && vital.session().is_none()
            {
                searched = lengths[0];
                let found = kind.session(&output.head_since(begun[0], HEAD));
                if found.is_some() {
                    vital.heartbeat.lock().session = found;
                    // At once: without it a crash would lose the session.
                    next_beat = Instant::now();
                    pulse.quicken();
                }
            }
            if Instant::now() >= next_beat {
                let pid = vital.heartbeat.lock().pid.unwrap_or(0);
                let beats = match source {
                    HeartbeatSource::Agent(output, of) => pulse.beats(output, pid, of),
                    HeartbeatSource::Wanted(_) => true,
                };
                let fault = pulse.fault().filter(|_| !beats).map(str::to_owned);
                let begins = fault.is_some() && vital.heartbeat.lock().model_fails.is_none();
                if beats || begins {
                    vital.heartbeat.lock().model_fails = fault;
                    self.beat(vital, output.and_then(ChildOutput::last_written));
                }
                next_beat = Instant::now() + every;
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                _ = stopping.changed() => {}
            }
        }
    }

    pub fn beat(&self, vital: &RunVitals<'_>, last_written: Option<SystemTime>) {
        // The work goes on all the same; the next one may succeed.
        if let Err(error) = self.live(vital, last_written) {
            tracing::debug!(command = %vital.id, error = chain(error), "no heartbeat");
        }
    }

    /// Notes the heartbeat.
    ///
    /// # Errors
    /// What the file system says.
    pub fn live(
        &self,
        vital: &RunVitals<'_>,
        last_written: Option<SystemTime>,
    ) -> Result<(), VolumesError> {
        let mut life = vital.heartbeat.lock();
        life.last_output_at = last_written.map(time_of);
        life.machine = machine().map(str::to_owned);
        self.volumes.live(vital.id, &life)
    }

    /// Writes the report and lets go of the command. Work that is done is not thrown away because a disk is full.
    async fn submit(
        &self,
        claim: Claim,
        report: &ReportFile,
        left: Option<(Inbox, Option<PathBuf>)>,
    ) -> Result<(), VolumesError> {
        let text = render(report);
        let mut stopping = self.stopping.clone();
        while let Err(error) = self.volumes.submit(claim.id(), &text) {
            tracing::warn!(error = chain(error), "the report is written again later");
            tokio::select! {
                () = sleep(RETRY) => {}
                _ = stopping.wait_for(|stop| *stop) => return Ok(()),
            }
        }
        tracing::info!(command = %claim.id(), status = report.report.status.as_str(), "reported");
        match left {
            Some((inbox, Some(report))) => inbox.remove(&report),
            Some((inbox, None)) => inbox.close(),
            None => {}
        }
        claim.finish()
    }
}

fn read(volumes: &Volumes, folder: Folder, id: &CommandId) -> Result<CommandFile, String> {
    let command = CommandFile::parse(&volumes.read_command(folder, id).map_err(chain)?);
    let command = command.map_err(|problems| Problem::join(&problems, "; "))?;
    match command.id == *id {
        true => Ok(command),
        false => Err("the id in the command is not that of its file".into()),
    }
}

/// Returns the report that says why nothing came of a command.
pub(super) fn failed(id: &CommandId, why: String) -> ReportFile {
    let mut report = ReportFile::new(id.clone(), ReportStatus::Failed);
    report.report.results = why;
    report
}

pub(super) fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}
