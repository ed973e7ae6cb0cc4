//! An agent does a command: its process, from the output that one before it may have left to the report that is made of it.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use super::coding_agent_session::SessionRun;
use super::{
    Claim, Doer, Finished, HeartbeatSource, LOOK, RUNS_ON, Result, RunVitals, WorkStop, Worker,
    WorkerEvent, chain,
};
use crate::agents::{Agent, AgentJob, AgentProcess, MOST_PRINTED, ProcessEnd};
use crate::exec::{self, ChildOutput, ChildSpec, GRACE, ProcessGroup, stop_group};
use crate::plan::CommandId;
use crate::plan_time::{TimeAllowance, wall};
use crate::store::StorePlace;
use crate::volumes::{COMMAND, EXCHANGE, Folder, Heartbeat, Volumes, VolumesError};
use crate::wire::CommandFile;
use crate::wire::command_file::title;

/// The most process groups of an agent that are ended.
const MOST_GROUPS: usize = 16;
/// Between asking and ending an agent when the worker itself is to end.
const SHORT_GRACE: Duration = Duration::from_millis(500);
/// The most of a step's standard output and error output that goes into the report.
const MOST_OUT: usize = 16 * 1024;
const MOST_ERR: usize = 4 * 1024;

/// The agent of a worker.
pub(super) struct AgentDoer {
    pub(super) agent: Agent,
    /// It may work that long on a command.
    pub(super) deadline: Duration,
    pub(super) path: Option<String>,
    /// Where it is written what a person has allowed.
    pub(super) store: StorePlace,
}

impl Doer for AgentDoer {
    fn name(&self) -> &str {
        self.agent.name()
    }

    /// For a command that was left behind, an agent that still runs is waited for first; if there is no report then and its
    /// output is none either, it is done again.
    async fn run(&self, worker: &Worker, claim: &Claim, command: &CommandFile) -> Result<Finished> {
        match self.finish(worker, claim, command).await {
            Err(WorkStop::Cancelled) => {
                let err = worker.volumes.log(claim.id(), "err");
                if exec::alive(&err) {
                    // What is let go of now could be done twice at once.
                    return Err(still_runs(&err).into());
                }
                Err(WorkStop::Cancelled)
            }
            finished => finished,
        }
    }

    async fn end_session(&self, worker: &Worker, command: &CommandFile) -> Result<()> {
        super::coding_agent_session::forget(&worker.volumes, command);
        Ok(())
    }
}

impl AgentDoer {
    async fn finish(
        &self,
        worker: &Worker,
        claim: &Claim,
        command: &CommandFile,
    ) -> Result<Finished> {
        let (id, volumes) = (claim.id(), &worker.volumes);
        let life = volumes.read_life(id);
        let output = self.output(worker, id, &life).await?;
        if volumes.reported(id)? {
            return Ok(Finished::default());
        }
        if volumes.cancel_mark(id).exists() {
            return Err(WorkStop::Cancelled);
        }
        worker.notify(WorkerEvent::Begun(title(&command.body, &command.id)));
        let mut job = AgentJob::new(&claim.volumes, command);
        if let Agent::Command(template) = &self.agent {
            job.kept_session = job.kept_session.filter(|_| template.takes_session());
        }
        let run = CommandRun {
            worker,
            doer: self,
            job: &job,
            output: &output,
        };
        let report = match &self.agent {
            Agent::Coding(coder) => return SessionRun::carry_out(&run, coder, &life).await,
            Agent::Shell(shell) => match shell.steps(&job) {
                Ok(steps) => shell.report(&job, &run.run_all(steps).await?),
                Err(problem) => job.refusal(problem),
            },
            Agent::Relay => return Ok(Finished::default()),
            Agent::Command(template) => {
                template.report(&job, &run.run_all(vec![template.step(&job)]).await?)
            }
        };
        Ok(match volumes.reported(id).unwrap_or(false) {
            true => Finished::default(),
            false => Finished::reported(report),
        })
    }

    /// Opens the files for the agent's output. As long as an agent runs that a dead worker left behind with them,
    /// it is attended like one of our own.
    async fn output(
        &self,
        worker: &Worker,
        id: &CommandId,
        life: &Heartbeat,
    ) -> Result<ChildOutput> {
        let path = |kind| worker.volumes.log(id, kind);
        let (out, err) = (path("out"), path("err"));
        let logs = worker.volumes.path(Folder::Logs);
        let fault = |error| VolumesError::new("keep output in", &logs, error);
        let open = || ChildOutput::open(&out, &err).map_err(fault);
        if let Some(output) = open()? {
            return Ok(output);
        }
        tracing::info!(command = %id, "waits for an agent that was left behind");
        let group = exec::left_behind(&err, life.pid);
        let pid = group.map(|group| group.as_raw_pid().cast_unsigned());
        let vital = RunVitals::left_behind(id, life, pid);
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
        let watched = ChildOutput::watch(&out, &err).map_err(fault)?;
        let source = HeartbeatSource::Agent(&watched, self.agent.kind());
        // Only the wall clock says how long it has run, and that may have been set; the daemon ends what is too old.
        let mut left = TimeAllowance::new(self.deadline);
        tokio::select! {
            biased;
            () = gone => {}
            () = left.used_up() => stop(GRACE).await,
            halt = worker.attend(&vital, source) => {
                stop(grace(&halt)).await;
                if !matches!(halt, WorkStop::Flooded) {
                    return Err(halt);
                }
            }
        }
        // A process that left its group may still hold the file; it is checked again later.
        open()?.ok_or_else(|| still_runs(&err).into())
    }
}

/// An agent at work on a command.
pub(super) struct CommandRun<'a> {
    pub(super) worker: &'a Worker,
    pub(super) doer: &'a AgentDoer,
    pub(super) job: &'a AgentJob<'a>,
    pub(super) output: &'a ChildOutput,
}

impl CommandRun<'_> {
    /// Runs the steps one after the other up to the first that fails.
    async fn run_all(&self, steps: Vec<AgentProcess>) -> Result<Vec<ProcessEnd>> {
        let vital = RunVitals::new(&self.job.command.id, self.doer.agent.label(), wall());
        (vital.heartbeat.lock().session).clone_from(&self.job.kept_session);
        let mut left = self.doer.deadline;
        let mut all = Vec::new();
        for step in steps {
            let caps = [MOST_OUT, MOST_ERR];
            let ended = self.run_step(step, left, &vital, caps).await?;
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

    /// Runs one process to its end, and returns the end of its output and of its standard error, as far as they fit.
    ///
    /// # Errors
    /// The command is left before the process has ended, or nothing can be started now.
    pub(super) async fn run_step(
        &self,
        step: AgentProcess,
        deadline: Duration,
        vital: &RunVitals<'_>,
        [most_out, most_err]: [usize; 2],
    ) -> Result<ProcessEnd> {
        let (worker, doer, output) = (self.worker, self.doer, self.output);
        let source = HeartbeatSource::Agent(output, doer.agent.kind());
        let [out, err] = output.lengths();
        let exchange = worker.volumes.root().display().to_string();
        let path = doer.path.clone().map(|path| ("PATH".to_owned(), path));
        let command = self.job.command.id.to_string();
        let set = [(EXCHANGE, exchange), (COMMAND, command)].into_iter();
        let set = set.map(|(name, value)| (name.to_owned(), value));
        let set = set.chain(path).chain(step.set).collect();
        let spec = ChildSpec {
            argv: step.argv,
            cwd: self.job.workspace.clone(),
            env: exec::environment_of_agent(&worker.config.worker.env, doer.agent.env(), set),
            stdin: step.stdin,
            deadline,
        };
        let started = |group: &mut ProcessGroup| {
            group.stays = true;
            vital.heartbeat.lock().pid = Some(group.id());
            worker.beat(vital, None);
        };
        let mut halted = None;
        let cancel = async {
            let halt = worker.attend(vital, source).await;
            let grace = grace(&halt);
            halted = Some(halt);
            grace
        };
        let outcome = exec::run(&spec, output, started, cancel).await;
        let flooded = matches!(halted, Some(WorkStop::Flooded));
        match halted {
            Some(WorkStop::Flooded) => output.cut([out, err], MOST_PRINTED),
            Some(halt) => return Err(halt),
            None => {}
        }
        let outcome = match outcome {
            Err(error) if error.passes() => {
                let (error, folder) = (io::Error::other(chain(error)), &self.job.workspace);
                return Err(VolumesError::new("start an agent in", folder, error).into());
            }
            outcome => outcome.map_err(chain),
        };
        Ok(ProcessEnd {
            name: step.name,
            outcome,
            out: output.out_since(out, most_out),
            err: output.err_since(err, most_err),
            flooded,
        })
    }
}

/// Ends the agent that a dead worker left behind for a command, if it still runs. The noted process is only a hint: every
/// program can write the heartbeat, and the worker may have gone before it could note the process.
///
/// # Errors
/// It cannot be ended now.
pub(super) async fn end_left_behind(volumes: &Volumes, id: &CommandId) -> Result<(), VolumesError> {
    let err = volumes.log(id, "err");
    // An agent may have begun others in groups of their own.
    for _ in 0..MOST_GROUPS {
        let Some(group) = exec::left_behind(&err, volumes.read_life(id).pid) else {
            break;
        };
        stop_group(group, GRACE).await;
    }
    match exec::alive(&err) {
        true => Err(still_runs(&err)),
        false => Ok(()),
    }
}

fn grace(halt: &WorkStop) -> Duration {
    match halt {
        WorkStop::Stopping | WorkStop::Flooded => SHORT_GRACE,
        WorkStop::Cancelled | WorkStop::Fault(_) => GRACE,
    }
}

fn still_runs(err: &Path) -> VolumesError {
    VolumesError::new("open", err, io::Error::new(RUNS_ON, "its agent still runs"))
}
