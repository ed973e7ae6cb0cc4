//! Carrying out one command, from its text to its report.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::claim::{Claim, pending};
use crate::agents::{Agent, Ended, Job, Step};
use crate::clock::Allowance;
use crate::exec::{self, GRACE, Output, Spec, stop_group};
use crate::plan::{CommandId, ReportStatus, Time};
use crate::volumes::{Folder, Life, Volumes, VolumesError};
use crate::wire::command::{Command, CommandType};
use crate::wire::report::{Report, render};

/// How often the sign of life is renewed.
const BEAT: Duration = Duration::from_secs(10);
/// How often it is looked whether the command is cancelled, or an agent left behind has ended.
const LOOK: Duration = Duration::from_millis(200);
/// Between asking and ending an agent when the worker itself is to end.
const SHORT_GRACE: Duration = Duration::from_millis(500);
/// Between attempts to write a report.
const RETRY: Duration = Duration::from_secs(2);
/// The most of a step's standard output and error output that goes into the report.
const MOST_OUT: usize = 16 * 1024;
const MOST_ERR: usize = 4 * 1024;

pub(super) struct Worker {
    pub(super) volumes: Volumes,
    pub(super) agent: Agent,
    pub(super) env: Vec<String>,
    pub(super) deadline: Duration,
    pub(super) stopping: watch::Receiver<bool>,
}

/// Why a command is left before its report is there.
#[derive(Debug)]
enum Halt {
    /// The daemon does not want it any more.
    Cancelled,
    /// The worker is to end; the next one takes the command up.
    Stopping,
    /// The files cannot be used; the command is taken up again.
    Fault(VolumesError),
}

impl From<VolumesError> for Halt {
    fn from(error: VolumesError) -> Self {
        Self::Fault(error)
    }
}

/// What the sign of life of a running agent is made of.
struct Vital<'a> {
    id: &'a CommandId,
    session: Option<String>,
    started: Time,
    /// 0 until the agent's process runs.
    pid: AtomicU32,
}

impl Worker {
    /// Works on a command until its report is there. For one that was left behind, an agent that still runs is
    /// waited for first; if there is no report then, it is done again.
    ///
    /// # Errors
    /// What the file system says; the command is taken up again then.
    pub(super) async fn carry_out(&self, claim: Claim) -> Result<(), VolumesError> {
        match self.result(claim.id()).await {
            Ok(Some(report)) => self.submit(claim, &report).await,
            // No report for what is cancelled: it could be taken for that of the successor.
            Ok(None) | Err(Halt::Cancelled) => claim.finish(),
            Err(Halt::Stopping) => Ok(()),
            Err(Halt::Fault(error)) => Err(error),
        }
    }

    /// Returns the report that is to be written; `None` if there is nothing to say or the agent has said it.
    async fn result(&self, id: &CommandId) -> Result<Option<Report>, Halt> {
        let command = match self.read(Folder::CommandsProcessed, id) {
            Ok(command) => command,
            Err(reason) => return Ok(Some(unread(id, &reason))),
        };
        if command.kind == CommandType::End {
            return Ok(None);
        }
        let output = self.output(id).await?;
        if self.volumes.reported(id)? {
            return Ok(None);
        }
        if self.volumes.cancel_mark(id).exists() {
            return Err(Halt::Cancelled);
        }
        let job = Job::new(&self.volumes, &command);
        let steps = match self.agent.steps(&job) {
            Ok(steps) => steps,
            Err(refusal) => return Ok(Some(refusal.report(&job))),
        };
        let ended = self.run_all(&job, &output, steps).await?;
        let reported = self.volumes.reported(id)?;
        Ok((!reported).then(|| self.agent.report(&job, &ended)))
    }

    /// Takes the commands that only end a session: they come when a plan ends, and so perhaps the worker.
    ///
    /// # Errors
    /// What the file system says; they wait for another worker then.
    pub(super) async fn take_ends(&self) -> Result<(), VolumesError> {
        for id in pending(&self.volumes)? {
            let ends = self
                .read(Folder::CommandsPending, &id)
                .is_ok_and(|command| command.kind == CommandType::End);
            if ends && let Some(claim) = Claim::take(&self.volumes, &id, self.agent.name())? {
                self.carry_out(claim).await?;
            }
        }
        Ok(())
    }

    fn read(&self, folder: Folder, id: &CommandId) -> Result<Command, String> {
        let text = self.volumes.read_command(folder, id).map_err(chain)?;
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

    /// Opens the files for the agent's output. As long as an agent runs that a dead worker left behind with them,
    /// it is attended like one of our own.
    async fn output(&self, id: &CommandId) -> Result<Output, Halt> {
        let path = |kind| self.volumes.log(id, kind);
        let (out, err) = (path("out"), path("err"));
        let open =
            || Output::open(&out, &err).map_err(|error| VolumesError::new("open", &out, error));
        if let Some(output) = open()? {
            return Ok(output);
        }
        tracing::info!(command = %id, "waits for an agent that was left behind");
        let life = self.volumes.read_life(id);
        let group = life.pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let vital = Vital {
            id,
            session: life.session,
            started: life.started_at.unwrap_or_else(now),
            pid: AtomicU32::new(life.pid.unwrap_or(0)),
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
        // How long it has run is told by the wall clock only, which may have been set; the daemon ends what is too old.
        let mut left = Allowance::new(self.deadline);
        tokio::select! {
            biased;
            () = gone => {}
            () = left.used_up() => stop(GRACE).await,
            halt = self.attend(&vital, || written(&[&out, &err])) => {
                stop(grace(&halt)).await;
                return Err(halt);
            }
        }
        // A process that left its group may still hold the file; it is looked for again later.
        open()?.ok_or_else(|| {
            let busy = io::Error::new(io::ErrorKind::ResourceBusy, "its agent still runs");
            VolumesError::new("open", &out, busy).into()
        })
    }

    /// Runs the steps one after the other up to the first that fails.
    async fn run_all(
        &self,
        job: &Job<'_>,
        output: &Output,
        steps: Vec<Step>,
    ) -> Result<Vec<Ended>, Halt> {
        let vital = Vital {
            id: &job.command.id,
            session: Some(job.session.to_string()),
            started: now(),
            pid: AtomicU32::new(0),
        };
        let mut left = self.deadline;
        let mut all = Vec::new();
        for step in steps {
            let ended = self.run(job, output, step, left, &vital).await?;
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

    async fn run(
        &self,
        job: &Job<'_>,
        output: &Output,
        step: Step,
        deadline: Duration,
        vital: &Vital<'_>,
    ) -> Result<Ended, Halt> {
        let [out, err] = output.lengths();
        let spec = Spec {
            argv: step.argv,
            cwd: job.workspace.clone(),
            env: exec::environment(&self.env),
            stdin: step.stdin,
            deadline,
        };
        let started = |pid| {
            vital.pid.store(pid, Ordering::Relaxed);
            self.beat(vital, None);
        };
        let mut halted = None;
        let cancel = async {
            let halt = self.attend(vital, || output.last_written()).await;
            let grace = grace(&halt);
            halted = Some(halt);
            grace
        };
        let outcome = exec::run(&spec, output, started, cancel).await;
        if let Some(halt) = halted {
            return Err(halt);
        }
        Ok(Ended {
            name: step.name,
            outcome: outcome.map_err(chain),
            out: output.out_since(out, MOST_OUT),
            err: output.err_since(err, MOST_ERR),
        })
    }

    /// Keeps the sign of life as long as the agent may go on, and says why it may not any longer.
    async fn attend(
        &self,
        vital: &Vital<'_>,
        last_written: impl Fn() -> Option<SystemTime>,
    ) -> Halt {
        let mark = self.volumes.cancel_mark(vital.id);
        let mut stopping = self.stopping.clone();
        let mut next_beat = Instant::now();
        loop {
            if mark.exists() {
                return Halt::Cancelled;
            }
            if *stopping.borrow_and_update() {
                return Halt::Stopping;
            }
            if Instant::now() >= next_beat {
                self.beat(vital, last_written());
                next_beat = Instant::now() + BEAT;
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                _ = stopping.changed() => {}
            }
        }
    }

    fn beat(&self, vital: &Vital<'_>, last_written: Option<SystemTime>) {
        let life = Life {
            pid: Some(vital.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0),
            session: vital.session.clone(),
            started_at: Some(vital.started),
            last_output_at: last_written.and_then(time_of),
            blocked_until: None,
        };
        // The agent works all the same; the next one may succeed.
        if let Err(error) = self.volumes.live(vital.id, &life) {
            tracing::debug!(command = %vital.id, error = chain(error), "no sign of life");
        }
    }

    /// Writes the report and lets go of the command. Work that is done is not thrown away because a disk is full.
    async fn submit(&self, claim: Claim, report: &Report) -> Result<(), VolumesError> {
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
        claim.finish()
    }
}

fn grace(halt: &Halt) -> Duration {
    match halt {
        Halt::Stopping => SHORT_GRACE,
        Halt::Cancelled | Halt::Fault(_) => GRACE,
    }
}

fn unread(id: &CommandId, reason: &str) -> Report {
    let mut report = Report::new(id.clone(), ReportStatus::Failed);
    report.results = format!("Nothing was done: the command cannot be read: {reason}.");
    report
}

fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

fn now() -> Time {
    time_of(SystemTime::now()).unwrap_or_default()
}

fn time_of(time: SystemTime) -> Option<Time> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Time::default().plus(since))
}

fn written(paths: &[&Path]) -> Option<SystemTime> {
    let written = |path: &&Path| path.metadata().and_then(|data| data.modified()).ok();
    paths.iter().filter_map(written).max()
}
