//! Carrying out one command with a coding agent that is known: its session, its runs one after the other, and what is made of
//! them. What follows from how a run ended is decided in `agents::RunOutcome::next`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;
use uuid::Uuid;

use super::{
    CommandRun, Finished, HeartbeatSource, Result, RunVitals, WorkerEvent, allowed_commands,
};
use crate::agents::{
    CodingAgentSetup, MOST_PRINTED, ModelFault, NextRun, PromptKind, RunOutcome, RunOutput,
    RunReading, RunSession, used_since,
};
use crate::exec::{self, ChildExit};
use crate::plan::{ModelCost, SessionId, Time};
use crate::plan_time::wall;
use crate::volumes::{Folder, Heartbeat, Inbox, LogPosition, Volumes};
use crate::wire::{CommandFile, CommandType, one_line};

/// How long a usage limit lasts whose end is not known.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The most that is read of what a run printed: the end of it says what is needed.
const MOST_OUT: usize = 8 * 1024 * 1024;
const MOST_ERR: usize = 64 * 1024;
/// The most that is read of what a session printed before, to know what it had used.
const MOST_EARLIER: usize = 256 * 1024;

/// What is known while a coding agent works on a command.
pub(super) struct SessionRun<'a> {
    at: &'a CommandRun<'a>,
    coder: CodingAgentSetup,
    inbox: Inbox,
    session: Option<SessionId>,
    usage: ModelCost,
    /// What the session had used after its last run, where the agent counts so.
    total: Option<ModelCost>,
    notes: Vec<String>,
    left: Duration,
}

/// The next run: in which session, and with which prompt.
type RunPlan = (RunSession, PromptKind);

/// Removes what is kept for a session that is over.
pub(super) fn forget(volumes: &Volumes, command: &CommandFile) {
    if let Some(session) = &command.session {
        // Most sessions have none.
        std::fs::remove_file(history(volumes, session)).ok();
    }
}

impl<'a> SessionRun<'a> {
    /// Works on a command with a coding agent until there is something to report. `life` is the heartbeat of a worker that had
    /// the command before: what its last run printed is used, and what it began is gone on with.
    pub(super) async fn carry_out(
        at: &'a CommandRun<'a>,
        coder: &'a CodingAgentSetup,
        life: &Heartbeat,
    ) -> Result<Finished> {
        let mut run = Self {
            at,
            coder: with_allowed(coder, at).await,
            inbox: Inbox::of(&at.job.workspace, &at.job.command.id),
            session: None,
            usage: ModelCost::default(),
            total: None,
            notes: Vec::new(),
            left: at.doer.deadline,
        };
        let finished = run.go(life).await;
        if finished.is_err() {
            run.inbox.close();
        }
        finished
    }

    async fn go(&mut self, life: &Heartbeat) -> Result<Finished> {
        let since = life.started_at.filter(|_| life.run.is_some());
        let system_time = |at: Time| SystemTime::UNIX_EPOCH + at.since(Time::default());
        let since = since.map_or_else(SystemTime::now, system_time);
        if let Err(error) = self.inbox.open() {
            // The agent may report by its last message.
            tracing::debug!(%error, "no folder for reports in the workspace");
        }
        let started = life.started_at.unwrap_or_else(wall);
        let vital = RunVitals::new(&self.at.job.command.id, self.at.doer.agent.label(), started);
        let mut reading = life.run.map(|mark| self.collect(mark, life));
        let mut plan = self.begin();
        // What kept the agent from working may have been mended since.
        let undone = |reading: &mut RunReading| {
            let next = reading.outcome.next(0, 0, &self.at.worker.config.worker);
            let again = matches!(next, NextRun::Stop | NextRun::Again(_));
            again || matches!(reading.outcome, RunOutcome::Killed(_))
        };
        if let Some(collected) = reading.take_if(undone) {
            self.session = collected.session.or(self.session.take());
            plan = self.again();
        }
        let (mut faults, mut changes) = (0, 0);
        loop {
            let now = match reading.take() {
                Some(reading) => reading,
                None => self.run(plan, &vital).await?,
            };
            if now.session.is_some() {
                self.session.clone_from(&now.session);
            }
            if self.at.worker.volumes.reported(&self.at.job.command.id)? {
                self.inbox.discard();
                return Ok(Finished::default());
            }
            let config = &self.at.worker.config.worker;
            let next = now.outcome.next(faults, changes, config);
            match next {
                NextRun::Again(wait) if wait < self.left => {
                    faults += 1;
                    if let RunOutcome::Model(fault) = &now.outcome {
                        self.report_fault(fault, wait, &vital);
                    }
                    self.pause(wait, &vital).await?;
                    plan = match now.outcome {
                        // It never came to speak: there is nothing to go on with.
                        RunOutcome::NoStart(_) => self.begin(),
                        _ => self.again(),
                    };
                }
                NextRun::Resume => {
                    changes += 1;
                    plan = self.again();
                }
                NextRun::Anew => {
                    changes += 1;
                    plan = self.anew();
                }
                NextRun::Again(_) | NextRun::Report | NextRun::Stop => {
                    return Ok(self.finish(now.outcome, next, since));
                }
            }
        }
    }

    /// The first run is what the command says.
    fn begin(&mut self) -> RunPlan {
        let job = self.at.job;
        match (&job.command.kind, &job.command.session) {
            (CommandType::Continue, Some(session)) => {
                self.session = Some(session.clone());
                (RunSession::Resume(session.clone()), PromptKind::Command)
            }
            (CommandType::Continue, None) => (self.fresh(None), PromptKind::Lost),
            _ => (self.fresh(Some(&job.session)), PromptKind::Command),
        }
    }

    /// Goes on in the session, if there is one.
    fn again(&mut self) -> RunPlan {
        match &self.session {
            Some(session) => (RunSession::Resume(session.clone()), PromptKind::Interrupted),
            None => self.begin(),
        }
    }

    /// Begins a session in place of one that is lost.
    fn anew(&mut self) -> RunPlan {
        let continues = self.at.job.command.kind == CommandType::Continue;
        if let Some(lost) = self.session.take().filter(|_| continues) {
            let told = "a new one was told the task and the last report";
            let note = format!("The session `{lost}` was lost; {told}.");
            self.notes.push(note);
        }
        let prompt = match continues {
            true => PromptKind::Lost,
            false => PromptKind::Interrupted,
        };
        (self.fresh(None), prompt)
    }

    /// Begins a session: with the name that was wished, if that is one which agents take.
    fn fresh(&mut self, wished: Option<&SessionId>) -> RunSession {
        let wished = wished.filter(|wished| (self.coder.kind.knows)(wished.as_str()));
        let random = || SessionId::new(Uuid::new_v4().to_string());
        let session = wished.cloned().unwrap_or_else(random);
        if self.coder.kind.takes_names {
            self.session = Some(session.clone());
        }
        RunSession::Begin(session)
    }

    async fn run(&mut self, plan: RunPlan, vital: &RunVitals<'_>) -> Result<RunReading> {
        let (session, prompt) = plan;
        let begins = !matches!(session, RunSession::Resume(_));
        let named = match &session {
            RunSession::Begin(session) | RunSession::Resume(session) => session.clone(),
            RunSession::Alone => self.at.job.session.clone(),
        };
        let history = history(&self.at.worker.volumes, &named);
        let kind = self.coder.kind;
        let there = (kind.knows)(named.as_str()) && (!kind.needs_history || history.exists());
        if !begins && !there {
            return Ok(RunReading::of(RunOutcome::SessionMissing));
        }
        let mut step = match self.coder.call(session, &self.at.job.workspace, &history) {
            Ok(step) => step,
            Err(unfit) => {
                let hint = unfit.hint.as_deref().unwrap_or_default();
                let said = format!("{unfit}; {hint}");
                return Ok(RunReading::of(RunOutcome::Usage(said)));
            }
        };
        self.know_total(begins, self.at.output.lengths()[0]);
        let mut brief = self.at.job.brief(&self.inbox.report(), prompt);
        if kind.needs_history {
            step.argv.extend(self.at.job.file_options());
            brief = self.at.job.task(prompt);
        }
        step.stdin = Some(brief.into_bytes());
        let [out, err] = self.at.output.lengths();
        // Before the process: the next worker after a crash finds the session, and where its output begins. Without that a
        // result would be lost and done again.
        vital.begin(LogPosition { out, err, begins }, self.session.as_ref());
        self.at.worker.live(vital, None)?;
        let caps = [MOST_OUT, MOST_ERR];
        let ended = self.at.run_step(step, self.left, vital, caps).await?;
        if ended.flooded {
            return Ok(flooded());
        }
        let exit = match ended.outcome {
            Ok(exit) => exit,
            Err(why) if self.at.job.workspace.is_dir() => {
                return Ok(RunReading::of(RunOutcome::Usage(why)));
            }
            Err(why) => return Ok(RunReading::of(RunOutcome::Garbled(why))),
        };
        self.left = self.left.saturating_sub(exit.lived);
        let mut reading = self.read([&ended.out, &ended.err], Some(exit), begins);
        reading.session = reading.session.or(vital.session());
        self.count(reading.usage, begins);
        Ok(reading)
    }

    /// Reads the run of a worker that is gone.
    fn collect(&mut self, mark: LogPosition, life: &Heartbeat) -> RunReading {
        let known = life.session.clone();
        let [out, err] = self.at.output.lengths();
        let added = [out.saturating_sub(mark.out), err.saturating_sub(mark.err)];
        if added.iter().any(|added| *added > MOST_PRINTED) {
            self.at.output.cut([mark.out, mark.err], MOST_PRINTED);
            return RunReading {
                session: known,
                ..flooded()
            };
        }
        let out = self.at.output.out_since(mark.out, MOST_OUT);
        let err = self.at.output.err_since(mark.err, MOST_ERR);
        let mut reading = self.read([&out, &err], None, mark.begins);
        reading.session = reading.session.or(known);
        self.know_total(mark.begins, mark.out);
        self.count(reading.usage, mark.begins);
        reading
    }

    fn read(&self, [out, err]: [&str; 2], exit: Option<ChildExit>, begins: bool) -> RunReading {
        self.coder.kind.read(&RunOutput {
            out,
            err,
            exit,
            begins,
            now: wall(),
        })
    }

    fn count(&mut self, usage: ModelCost, begins: bool) {
        if !self.coder.kind.counts_from_the_beginning {
            self.usage.add(usage);
        } else if usage != ModelCost::default() {
            let before = self.total.filter(|_| !begins).unwrap_or_default();
            self.usage.add(used_since(usage, before));
            self.total = Some(usage);
        }
    }

    /// Finds out what the session had used before a run that goes on with it, where the agent counts so; what the run
    /// printed begins there.
    fn know_total(&mut self, begins: bool, from: u64) {
        if self.coder.kind.counts_from_the_beginning && self.total.is_none() && !begins {
            self.total = Some(self.used_before(from));
        }
    }

    /// Finds what the session had used, in what it printed before its output had this length.
    fn used_before(&self, from: u64) -> ModelCost {
        let used = |out: String| {
            let reading = self.read([&out, ""], None, false);
            Some(reading.usage).filter(|usage| *usage != ModelCost::default())
        };
        let earlier = || {
            let earlier = self.at.job.earlier().next()?;
            let path = self.at.worker.volumes.log(&earlier.id, "out");
            used(exec::tail_of(&path, MOST_EARLIER))
        };
        let start = from.saturating_sub(MOST_EARLIER as u64);
        let length = usize::try_from(from - start).unwrap_or(MOST_EARLIER);
        used(self.at.output.head_since(start, length))
            .or_else(earlier)
            .unwrap_or_default()
    }

    /// Reports that the model is asked again, and when: to the person who watches, and by the heartbeat.
    fn report_fault(&self, fault: &ModelFault, wait: Duration, vital: &RunVitals<'_>) {
        let until = wall().plus(wait);
        let status = fault.status_text();
        tracing::info!(command = %self.at.job.command.id, said = fault.said, status, "the model behind the agent failed, it is tried again");
        vital.heartbeat.lock().blocked_until = Some(until);
        let said = format!("the model fails{status}: {}", one_line(fault.words(), 160));
        self.at.worker.notify(WorkerEvent::Waits { said, until });
    }

    /// Waits, and shows meanwhile that this is wanted.
    async fn pause(&mut self, wait: Duration, vital: &RunVitals<'_>) -> Result<()> {
        let source = HeartbeatSource::Wanted(Some(self.at.output));
        tokio::select! {
            biased;
            halt = self.at.worker.attend(vital, source) => return Err(halt),
            () = sleep(wait) => {}
        }
        self.left = self.left.saturating_sub(wait);
        Ok(())
    }

    fn finish(&mut self, mut outcome: RunOutcome, next: NextRun, since: SystemTime) -> Finished {
        let left = self.inbox.read(since);
        if let (RunOutcome::Model(fault), NextRun::Report) = (&mut outcome, next)
            && fault.is_limit()
            && left.is_none()
        {
            // A limit of which only words tell when it ends.
            fault
                .until
                .get_or_insert_with(|| wall().plus(UNKNOWN_LIMIT));
        }
        let stop = match (&outcome, next) {
            (RunOutcome::Usage(said) | RunOutcome::NoStart(said), NextRun::Stop) => {
                Some(said.clone())
            }
            (RunOutcome::Model(fault), NextRun::Stop) => Some(fault.refusal()),
            _ => None,
        };
        let course = RunReading {
            outcome,
            session: self.session.clone(),
            usage: self.usage,
        };
        let bytes = left.as_ref().map(|(_, bytes)| bytes.as_slice());
        let notes = std::mem::take(&mut self.notes);
        let report = Some(self.coder.report(self.at.job, &course, notes, bytes));
        let left = Some((self.inbox.clone(), left.map(|(path, _)| path)));
        Finished { report, stop, left }
    }
}

/// Returns the agent with what a person has allowed it for its command; what it cannot be given stays refused.
async fn with_allowed(coder: &CodingAgentSetup, at: &CommandRun<'_>) -> CodingAgentSetup {
    let mut coder = coder.clone();
    if coder.kind.reports_refusals() {
        let (place, id) = (&at.doer.store, &at.job.command.id);
        let allowed = allowed_commands::allowed(place, id).await;
        let (kind, allowed) = (coder.kind, allowed.into_iter());
        let exact = allowed.filter(|command| kind.exact(command).is_ok());
        coder.allow.exact = exact.collect();
    }
    coder
}

fn flooded() -> RunReading {
    let most = MOST_PRINTED >> 20;
    let printed = format!("it printed more than {most} MiB");
    RunReading::of(RunOutcome::Garbled(printed))
}

/// Where an agent that has no sessions keeps what was said in one.
fn history(volumes: &Volumes, session: &SessionId) -> PathBuf {
    volumes.path(Folder::Logs).join(format!("{session}.chat"))
}
