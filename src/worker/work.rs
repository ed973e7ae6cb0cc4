//! Carrying out one command, from its text to its report.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::claim::Claim;
use super::pulse::Pulse;
use super::{Fitness, RoleFilter, Told, WorkerError};
use crate::agents::{Agent, Coding, Ended, Job, MOST_PRINTED, Retries, Step};
use crate::clock::Allowance;
use crate::exec::{self, GRACE, Output, Spec, stop_group};
use crate::plan::{CommandId, ReportStatus, SessionId, Time};
use crate::volumes::{EXCHANGE, Folder, Inbox, Life, Mark, Volumes, VolumesError};
use crate::wire::command::{Command, CommandType};
use crate::wire::report::{Report, render};
use crate::wire::text::one_line;

/// How often the sign of life is renewed while the agent does something.
const BEAT: Duration = Duration::from_secs(10);
/// How often it is looked whether the command is cancelled, an agent left behind has ended, or one prints without end.
const LOOK: Duration = Duration::from_millis(50);
/// Between asking and ending an agent when the worker itself is to end.
const SHORT_GRACE: Duration = Duration::from_millis(500);
/// An agent names its session in its first lines, if it does.
const HEAD: usize = 64 * 1024;
/// Between attempts to write a report.
const RETRY: Duration = Duration::from_secs(2);
/// The most of a command's heading that is told, in characters.
const MAX_TITLE: usize = 100;
/// The most of a step's standard output and error output that goes into the report.
const MOST_OUT: usize = 16 * 1024;
const MOST_ERR: usize = 4 * 1024;

/// The kind of the error for a command that cannot be let go of: something that was started for it still runs.
pub(super) const RUNS_ON: io::ErrorKind = io::ErrorKind::ResourceBusy;

pub(super) struct Worker {
    pub(super) volumes: Volumes,
    pub(super) agent: Agent,
    pub(super) role: RoleFilter,
    pub(super) env: Vec<String>,
    pub(super) deadline: Duration,
    /// The daemon ends an agent that is silent for so long.
    pub(super) silence: Duration,
    pub(super) again: Retries,
    pub(super) fitness: Fitness,
    pub(super) told: Option<UnboundedSender<Told>>,
    pub(super) stopping: watch::Receiver<bool>,
}

/// What came of a command.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// The report that is to be written; `None` if there is nothing to say or the agent has said it.
    pub(super) report: Option<Report>,
    /// Why the agent must not be given another one.
    pub(super) stop: Option<String>,
    /// What the report was taken from, and is to be removed when it is written.
    pub(super) left: Option<(Inbox, Option<PathBuf>)>,
}

impl From<Option<Report>> for Finished {
    fn from(report: Option<Report>) -> Self {
        Self {
            report,
            ..Self::default()
        }
    }
}

/// Why a command is left before its report is there.
#[derive(Debug)]
pub(super) enum Halt {
    /// The daemon does not want it any more.
    Cancelled,
    /// The worker is to end; the next one takes the command up.
    Stopping,
    /// The files cannot be used; the command is taken up again.
    Fault(VolumesError),
    /// The agent prints without end. The command goes on: this one has a report.
    Flooded,
}

impl From<VolumesError> for Halt {
    fn from(error: VolumesError) -> Self {
        Self::Fault(error)
    }
}

/// What the sign of life of a running agent is made of.
pub(super) struct Vital<'a> {
    id: &'a CommandId,
    started: Time,
    /// When it had printed something last when it was last noted.
    heard: Option<Time>,
    /// 0 until the agent's process runs.
    pid: AtomicU32,
    now: Mutex<Current>,
}

/// What changes from run to run.
#[derive(Clone, Default)]
struct Current {
    session: Option<SessionId>,
    run: Option<Mark>,
    /// It goes on then, after a fault of its model.
    waits: Option<Time>,
    /// What it says of its model, which it only asks again.
    fault: Option<String>,
}

impl<'a> Vital<'a> {
    pub(super) fn new(id: &'a CommandId, started: Time) -> Self {
        Self {
            id,
            started,
            heard: None,
            pid: AtomicU32::new(0),
            now: Mutex::default(),
        }
    }

    /// Begins a run.
    pub(super) fn begin(&self, run: Mark, session: Option<&SessionId>) {
        self.pid.store(0, Ordering::Relaxed);
        *self.current() = Current {
            session: session.cloned(),
            run: Some(run),
            ..Current::default()
        };
    }

    /// Notes that nothing runs before then.
    pub(super) fn wait_until(&self, until: Time) {
        self.current().waits = Some(until);
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.current().session.clone()
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // What is in there is whole at every moment.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is looked for while an agent runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// Whose output it is, if that can be read: the session is found there as long as it is not known, and words that are no
    /// sign of life.
    pub(super) of: Option<Coding>,
    /// Nothing runs, and that is wanted: the sign of life is renewed all the same.
    pub(super) always: bool,
}

/// Returns the heading of a command, else its id.
fn title(command: &Command) -> String {
    let heading = command
        .body
        .lines()
        .find_map(|line| line.strip_prefix("# "));
    one_line(heading.unwrap_or(command.id.as_str()), MAX_TITLE)
}

impl Worker {
    /// Works on a command until its report is there. For one that was left behind, an agent that still runs is
    /// waited for first; if there is no report then and its output is none either, it is done again.
    ///
    /// # Errors
    /// What the file system says, and the command is taken up again then; or that the agent is not to be used any more.
    pub(super) async fn carry_out(&self, claim: Claim) -> Result<(), WorkerError> {
        match self.result(&claim).await {
            Ok(Finished { report, stop, left }) => {
                let began = left.as_ref().is_some_and(|(_, report)| report.is_some());
                if stop.is_some() && !self.fitness.lose() && !began {
                    if let Some((inbox, _)) = left {
                        inbox.close();
                    }
                    return Ok(claim.give_back()?);
                }
                match report {
                    Some(report) => {
                        self.submit(claim, &report, left).await?;
                        self.tell(Told::Reported(Some(report.status)));
                    }
                    None => {
                        claim.finish()?;
                        self.tell(Told::Reported(None));
                    }
                }
                match stop {
                    Some(said) => Err(WorkerError::Unfit {
                        agent: self.agent.name(),
                        said,
                    }),
                    None => Ok(()),
                }
            }
            // No report for what is cancelled: it could be taken for that of the successor.
            Err(Halt::Cancelled) => {
                let err = self.volumes.log(claim.id(), "err");
                if exec::alive(&err) {
                    // What is let go of now could be done twice at once.
                    return Err(still_runs(&err).into());
                }
                Ok(claim.finish()?)
            }
            Err(Halt::Stopping | Halt::Flooded) => Ok(()),
            Err(Halt::Fault(error)) => Err(error.into()),
        }
    }

    /// Tells whoever looks on; nobody has to.
    pub(super) fn tell(&self, told: Told) {
        if let Some(teller) = &self.told {
            drop(teller.send(told));
        }
    }

    async fn result(&self, claim: &Claim) -> Result<Finished, Halt> {
        let (id, volumes) = (claim.id(), claim.volumes());
        let command = match read(volumes, Folder::CommandsProcessed, id) {
            Ok(command) => command,
            Err(reason) => return Ok(Some(unread(id, &reason)).into()),
        };
        if command.kind == CommandType::End {
            self.forget(&command);
            return Ok(Finished::default());
        }
        let life = self.volumes.read_life(id);
        let output = self.output(id, &life).await?;
        if self.volumes.reported(id)? {
            return Ok(Finished::default());
        }
        if self.volumes.cancel_mark(id).exists() {
            return Err(Halt::Cancelled);
        }
        self.tell(Told::Begun(title(&command)));
        let job = Job::new(volumes, &command);
        let report = match &self.agent {
            Agent::Coding(coder) => return self.talk(&job, coder, &output, &life).await,
            Agent::Shell(shell) => match shell.steps(&job) {
                Ok(steps) => shell.report(&job, &self.run_all(&job, &output, steps).await?),
                Err(refusal) => refusal.report(&job),
            },
            Agent::Command(template) => {
                let steps = vec![template.step(&job)];
                template.report(&job, &self.run_all(&job, &output, steps).await?)
            }
        };
        Ok(Some(report)
            .filter(|_| !self.volumes.reported(id).unwrap_or(false))
            .into())
    }

    /// Takes the commands that only end a session: they come when a plan ends, and so perhaps the worker.
    ///
    /// # Errors
    /// What the file system says; they wait for another worker then.
    pub(super) async fn take_ends(&self) -> Result<(), WorkerError> {
        for volumes in self.role.from(&self.volumes) {
            for id in volumes.waiting()? {
                let ends = read(&volumes, Folder::CommandsPending, &id)
                    .is_ok_and(|command| command.kind == CommandType::End);
                let take = || Claim::take(&volumes, &id, self.agent.name(), &self.role);
                if ends && let Some(claim) = take()? {
                    self.carry_out(claim).await?;
                }
            }
        }
        Ok(())
    }

    /// Opens the files for the agent's output. As long as an agent runs that a dead worker left behind with them,
    /// it is attended like one of our own.
    async fn output(&self, id: &CommandId, life: &Life) -> Result<Output, Halt> {
        let path = |kind| self.volumes.log(id, kind);
        let (out, err) = (path("out"), path("err"));
        let logs = self.volumes.path(Folder::Logs);
        let fault = |error| VolumesError::new("keep output in", &logs, error);
        let open = || Output::open(&out, &err).map_err(fault);
        if let Some(output) = open()? {
            return Ok(output);
        }
        tracing::info!(command = %id, "waits for an agent that was left behind");
        // Only a hint: anybody can write the sign of life, and the worker may have gone before it could note whom it started.
        let signed = life.pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let group = exec::left_behind(&err, signed);
        let vital = Vital {
            heard: life.last_output_at,
            ..Vital::new(id, life.started_at.unwrap_or_else(now))
        };
        let pid = group.map_or(0, |group| group.as_raw_pid().cast_unsigned());
        vital.pid.store(pid, Ordering::Relaxed);
        *vital.current() = Current {
            session: life.session.clone().map(SessionId::new),
            run: life.run,
            ..Current::default()
        };
        let stop = async |grace| {
            if let Some(group) = group {
                stop_group(group, grace).await;
            }
        };
        let gone = async {
            while exec::alive(&err) {
                sleep(LOOK).await;
            }
        };
        let watched = Output::watch(&out, &err).map_err(fault)?;
        let signs = Signs {
            of: match &self.agent {
                Agent::Coding(coder) => Some(coder.kind),
                Agent::Shell(_) | Agent::Command(_) => None,
            },
            always: false,
        };
        // How long it has run is told by the wall clock only, which may have been set; the daemon ends what is too old.
        let mut left = Allowance::new(self.deadline);
        tokio::select! {
            biased;
            () = gone => {}
            () = left.used_up() => stop(GRACE).await,
            halt = self.attend(&vital, &watched, &signs) => {
                stop(grace(&halt)).await;
                if !matches!(halt, Halt::Flooded) {
                    return Err(halt);
                }
            }
        }
        // A process that left its group may still hold the file; it is looked for again later.
        open()?.ok_or_else(|| still_runs(&err).into())
    }

    /// Runs the steps one after the other up to the first that fails.
    async fn run_all(
        &self,
        job: &Job<'_>,
        output: &Output,
        steps: Vec<Step>,
    ) -> Result<Vec<Ended>, Halt> {
        let vital = Vital::new(&job.command.id, now());
        vital.current().session = Some(job.session.clone());
        let signs = Signs::default();
        let mut left = self.deadline;
        let mut all = Vec::new();
        for step in steps {
            let caps = [MOST_OUT, MOST_ERR];
            let ended = self
                .run(job, output, step, left, &vital, &signs, caps)
                .await?;
            let lived = ended.outcome.as_ref().map(|outcome| outcome.lived);
            left = left.saturating_sub(lived.unwrap_or_default());
            let success = ended.success();
            all.push(ended);
            if !success {
                break;
            }
        }
        Ok(all)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one run, from its command line to its end"
    )]
    pub(super) async fn run(
        &self,
        job: &Job<'_>,
        output: &Output,
        step: Step,
        deadline: Duration,
        vital: &Vital<'_>,
        signs: &Signs,
        [most_out, most_err]: [usize; 2],
    ) -> Result<Ended, Halt> {
        let [out, err] = output.lengths();
        let exchange = self.volumes.root().display().to_string();
        let set = [(EXCHANGE.to_owned(), exchange)].into_iter();
        let set = set.chain(step.set).collect();
        let spec = Spec {
            argv: step.argv,
            cwd: job.workspace.clone(),
            env: exec::environment_of_agent(&self.env, self.agent.env(), set),
            stdin: step.stdin,
            deadline,
        };
        let started = |pid| {
            vital.pid.store(pid, Ordering::Relaxed);
            self.beat(vital, None);
        };
        let mut halted = None;
        let cancel = async {
            let halt = self.attend(vital, output, signs).await;
            let grace = grace(&halt);
            halted = Some(halt);
            grace
        };
        let outcome = exec::run(&spec, output, started, cancel).await;
        let flooded = matches!(halted, Some(Halt::Flooded));
        match halted {
            Some(Halt::Flooded) => output.cut([out, err], MOST_PRINTED),
            Some(halt) => return Err(halt),
            None => {}
        }
        let outcome = match outcome {
            Err(error) if error.passes() => {
                let error = io::Error::other(chain(error));
                return Err(VolumesError::new("start an agent in", &job.workspace, error).into());
            }
            outcome => outcome.map_err(chain),
        };
        Ok(Ended {
            name: step.name,
            outcome,
            out: output.out_since(out, most_out),
            err: output.err_since(err, most_err),
            flooded,
        })
    }

    /// Keeps the sign of life as long as the agent does something, and says why it may not go on any longer.
    pub(super) async fn attend(&self, vital: &Vital<'_>, output: &Output, signs: &Signs) -> Halt {
        let mark = self.volumes.cancel_mark(vital.id);
        let mut stopping = self.stopping.clone();
        let begun = vital.current().run.map(|run| [run.out, run.err]);
        let begun = begun.unwrap_or_else(|| output.lengths());
        let mut searched = begun[0];
        let mut pulse = Pulse::new(vital.heard, begun);
        let every = BEAT.min(self.silence / 5).max(LOOK);
        let mut next_beat = Instant::now();
        loop {
            if mark.exists() {
                return Halt::Cancelled;
            }
            if *stopping.borrow_and_update() {
                return Halt::Stopping;
            }
            let lengths = output.lengths();
            let printed = |at: usize| lengths[at].saturating_sub(begun[at]);
            if printed(0).max(printed(1)) > MOST_PRINTED {
                return Halt::Flooded;
            }
            if let Some(kind) = signs.of
                && lengths[0] > searched
                && vital.session().is_none()
            {
                searched = lengths[0];
                let found = kind.session(&output.head_since(begun[0], HEAD));
                if found.is_some() {
                    vital.current().session = found;
                    // At once: without it a crash would lose the session.
                    next_beat = Instant::now();
                    pulse.quicken();
                }
            }
            if Instant::now() >= next_beat {
                let pid = vital.pid.load(Ordering::Relaxed);
                let beats = signs.always || pulse.beats(output, pid, signs.of);
                let fault = pulse.fault().filter(|_| !beats).map(str::to_owned);
                let begins = fault.is_some() && vital.current().fault.is_none();
                if beats || begins {
                    vital.current().fault = fault;
                    self.beat(vital, output.last_written());
                }
                next_beat = Instant::now() + every;
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                _ = stopping.changed() => {}
            }
        }
    }

    fn beat(&self, vital: &Vital<'_>, last_written: Option<SystemTime>) {
        // The agent works all the same; the next one may succeed.
        if let Err(error) = self.live(vital, last_written) {
            tracing::debug!(command = %vital.id, error = chain(error), "no sign of life");
        }
    }

    /// Notes the sign of life.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn live(
        &self,
        vital: &Vital<'_>,
        last_written: Option<SystemTime>,
    ) -> Result<(), VolumesError> {
        let Current {
            session,
            run,
            waits,
            fault,
        } = vital.current().clone();
        let life = Life {
            pid: Some(vital.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0),
            session: session.map(|session| session.to_string()),
            started_at: Some(vital.started),
            last_output_at: last_written.and_then(time_of),
            blocked_until: waits,
            model_fails: fault,
            run,
        };
        self.volumes.live(vital.id, &life)
    }

    /// Writes the report and lets go of the command. Work that is done is not thrown away because a disk is full.
    async fn submit(
        &self,
        claim: Claim,
        report: &Report,
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
        tracing::info!(command = %claim.id(), status = report.status.as_str(), "reported");
        match left {
            Some((inbox, Some(report))) => inbox.remove(&report),
            Some((inbox, None)) => inbox.close(),
            None => {}
        }
        claim.finish()
    }
}

pub(super) fn read(volumes: &Volumes, folder: Folder, id: &CommandId) -> Result<Command, String> {
    let text = volumes.read_command(folder, id).map_err(chain)?;
    let command = Command::parse(&text).map_err(|problems| {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        problems.join("; ")
    })?;
    if command.id == *id {
        Ok(command)
    } else {
        Err("the id in the command is not that of its file".into())
    }
}

fn grace(halt: &Halt) -> Duration {
    match halt {
        Halt::Stopping | Halt::Flooded => SHORT_GRACE,
        Halt::Cancelled | Halt::Fault(_) => GRACE,
    }
}

fn still_runs(err: &Path) -> VolumesError {
    let busy = io::Error::new(RUNS_ON, "its agent still runs");
    VolumesError::new("open", err, busy)
}

pub(super) fn unread(id: &CommandId, reason: &str) -> Report {
    let mut report = Report::new(id.clone(), ReportStatus::Failed);
    report.results = format!("Nothing was done: the command cannot be read: {reason}.");
    report
}

fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

pub(super) fn now() -> Time {
    time_of(SystemTime::now()).unwrap_or_default()
}

pub(super) fn time_of(time: SystemTime) -> Option<Time> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Time::default().plus(since))
}

pub(super) fn system_time(time: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + time.since(Time::default())
}
