//! The coding agents whose output is known: their names, how they are started, what is read of their output. Each agent has one
//! file next to this one; `run_outcome` decides what follows from how a run ended.

use std::path::Path;

use serde_json::Value;

use super::{
    AgentAct, AgentProcess, CodingAgentSetup, Login, Permissions, ProgramVersion, Result,
    RunOutcome, RunReading, Variables, aider, claude, codex, events, gemini, number_at, opencode,
    plausible, session_named, text_at,
};
use crate::exec;
use crate::plan::{SessionId, Time};
use crate::wire::{joined, one_line, printable};

/// A coding agent: what differs from agent to agent, as facts, and functions for its command line and its output.
#[derive(Debug)]
pub struct CodingAgent {
    /// The name under which a person chooses the agent, which is that of its program on the PATH.
    pub name: &'static str,
    /// Older versions lack options that the worker uses.
    pub least: ProgramVersion,
    /// The variables that it gets although the configuration does not name them: its key, its address, its own folder;
    /// separated by blanks.
    pub env: &'static str,
    /// How it is installed.
    pub install: &'static str,
    /// What it complains of on standard error where a run has no last event, by words that it uses for nothing else: that a
    /// session is missing, or in use, or that its command line or its configuration is wrong.
    pub(super) missing: &'static [&'static str],
    pub(super) in_use: &'static [&'static str],
    pub(super) usage: &'static [&'static str],
    /// Whether a session could be one of this agent, by the form of its name. One that cannot must not be resumed: some agents
    /// do not report an unknown session but begin another one instead.
    pub knows: fn(&str) -> bool,
    /// A new session gets the name that the caller chooses, a UUID.
    pub takes_names: bool,
    /// It has no sessions and runs no tools: it remembers only what is in a file that it is given, sees only the files that it is
    /// given, and gets nothing to read but the task.
    pub needs_history: bool,
    /// What a run used is counted from the beginning of the session.
    pub counts_from_the_beginning: bool,
    /// It can answer questions without being able to change anything.
    pub answers: bool,
    /// As [`CodingAgentSetup::call`](super::CodingAgentSetup::call), with permissions that the agent takes one by one.
    pub(super) call: fn(&AgentRun<'_>) -> Result<AgentProcess>,
    /// Reads how a run ended from the agent's own words alone. `None` if there is no last event, so that only the way the
    /// process ended gives information.
    pub(super) read: fn(&RunOutput<'_>) -> Option<RunReading>,
    /// Returns why a command cannot be allowed word for word; `None` if the agent takes no single commands at all.
    pub(super) exact: Option<ExactRule>,
    /// Where its events name the session, as a path of names, if it names one that the caller does not know.
    pub(super) session_at: Option<&'static str>,
    /// Returns what a line of its output, an event, says that it does; `None` if the event is of another agent.
    pub(super) acts: fn(&Value) -> Option<Vec<AgentAct>>,
    /// Returns whether a line says that the agent asks the model again after a failure, or belongs to such a message.
    pub(super) asks_again: fn(&str) -> bool,
    /// Checks whether the agent would start with these permissions, as root or not and with these variables.
    pub fits: fn(&Permissions, bool, Variables<'_>) -> Result<()>,
    /// Finds out whether the agent can reach a model, as far as this shows without asking the model.
    pub login: fn(Variables<'_>) -> Login,
}

/// Says why a command cannot be allowed word for word.
pub(super) type ExactRule = fn(&str) -> Result<(), &'static str>;

/// The session that a run is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSession {
    /// A session that is never resumed.
    Alone,
    /// A session that begins; an agent that names its sessions itself does not get this name.
    Begin(SessionId),
    /// A session that is resumed.
    Resume(SessionId),
}

/// One run, for which an adapter makes the agent's process. The prompt comes on standard input.
#[derive(Debug)]
pub struct AgentRun<'a> {
    pub setup: &'a CodingAgentSetup,
    pub session: RunSession,
    /// The folder to work in; the process also starts there.
    pub folder: &'a Path,
    /// A file in which an agent without sessions of its own keeps what it remembers.
    pub history: &'a Path,
}

/// What a run printed, and how its process ended.
#[derive(Clone, Copy, Debug)]
pub struct RunOutput<'a> {
    pub out: &'a str,
    pub err: &'a str,
    /// `None` if it is not known, because another process had started the run.
    pub exit: Option<exec::ChildExit>,
    /// The run was the first of its session.
    pub begins: bool,
    pub now: Time,
}

impl CodingAgent {
    /// Every coding agent, in the order in which one is chosen.
    pub const ALL: [&'static Self; 5] = [
        &claude::AGENT,
        &codex::AGENT,
        &gemini::AGENT,
        &opencode::AGENT,
        &aider::AGENT,
    ];

    /// Finds an agent by its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|agent| agent.name == name)
    }

    /// Returns whether the agent reports the commands that were refused to it, so that a person can allow them.
    pub fn reports_refusals(&self) -> bool {
        self.exact.is_some()
    }

    /// Checks whether the agent can be allowed to run this command and nothing else.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn exact(&self, command: &str) -> Result<(), &'static str> {
        match self.exact {
            Some(exact) => exact(command),
            None => Err("this agent cannot be allowed a single command"),
        }
    }

    /// Reads how a run ended.
    pub fn read(&self, printed: &RunOutput<'_>) -> RunReading {
        let unspoken = || RunReading::of(self.unspoken(printed));
        let mut reading = (self.read)(printed).unwrap_or_else(unspoken);
        reading.session = reading.session.or_else(|| self.session(printed.out));
        reading.usage = plausible(reading.usage);
        if reading.outcome == RunOutcome::SessionMissing {
            // The session named here was never begun.
            reading.session = None;
        }
        let by_others =
            |exit: &exec::ChildExit| exit.timed_out || exit.cancelled || exit.signal.is_some();
        let stopped = printed.exit.filter(by_others);
        // A run that was stopped from outside did not finish, whatever it printed before.
        if let Some(exit) = stopped {
            let fault = self.fails_at_last(printed);
            let fault = fault.map(|said| format!(", and its model only failed in the end: {said}"));
            let how = ended(exit) + &fault.unwrap_or_default();
            match &mut reading.outcome {
                // The permission would be missing in the next run, too.
                RunOutcome::Refused { unfinished, .. } => *unfinished = Some(how),
                outcome => *outcome = RunOutcome::Killed(how),
            }
        } else if let Some(code) = printed.exit.and_then(|exit| exit.exit).filter(|c| *c != 0) {
            let why = format!("it says that it is done, but ended with exit code {code}");
            match &mut reading.outcome {
                RunOutcome::Done(_) => reading.outcome = RunOutcome::Garbled(why),
                RunOutcome::Refused { unfinished, .. } => {
                    unfinished.get_or_insert(why);
                }
                _ => {}
            }
        }
        reading
    }

    /// Finds the session that the agent itself names in the first lines of its output.
    pub fn session(&self, out: &str) -> Option<SessionId> {
        let at = self.session_at?;
        events(out).find_map(|event| session_named(text_at(&event, at)))
    }

    /// Returns the words in which the agent says that its model failed and that it asks again, if it said nothing else: an
    /// agent may say so for ever without any result.
    pub fn only_asks_again(&self, said: &str) -> Option<String> {
        let lines = said.lines().filter(|line| !line.trim().is_empty());
        if !lines.clone().all(self.asks_again) {
            return None;
        }
        // Of several lines that belong together the longest says most.
        lines.map(words_of).max_by_key(String::len)
    }

    /// Returns the agent's words about its model, if its output ends with a message that the model failed and is asked again.
    fn fails_at_last(&self, printed: &RunOutput<'_>) -> Option<String> {
        let asks_again = self.asks_again;
        let last = |text: &str| {
            let lines = text.lines().rev().filter(|line| !line.trim().is_empty());
            let lines = lines.take_while(|line| asks_again(line));
            self.only_asks_again(&joined(lines.take(WORDS), "\n"))
        };
        last(printed.out).or_else(|| last(printed.err))
    }

    /// Returns what a complaint means; `None` if it is not a known one.
    pub(super) fn complaint(&self, said: &str) -> Option<RunOutcome> {
        let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
        if has(self.missing) {
            Some(RunOutcome::SessionMissing)
        } else if has(self.in_use) {
            Some(RunOutcome::SessionInUse)
        } else {
            let said = has(self.usage).then(|| last_words(said))?;
            Some(RunOutcome::Usage(said))
        }
    }

    /// Returns the outcome of a run whose last event is missing.
    fn unspoken(&self, printed: &RunOutput<'_>) -> RunOutcome {
        if let Some(outcome) = self.complaint(printed.err) {
            return outcome;
        }
        let said = last_words(printed.err);
        match printed.exit {
            None => RunOutcome::Killed("was ended while no worker watched it".into()),
            Some(exit) if exit.success() => {
                RunOutcome::Garbled("it ended with exit code 0 and without a last word".into())
            }
            // The agent printed nothing on standard output: its words on standard error are about the start.
            Some(exit)
                if exit.exit.is_some() && printed.out.trim().is_empty() && !said.is_empty() =>
            {
                RunOutcome::NoStart(said)
            }
            Some(exit) => {
                RunOutcome::Garbled(format!("it {} and without a last word", ended(exit)))
            }
        }
    }
}

pub(super) fn ended(exit: exec::ChildExit) -> String {
    if exit.timed_out {
        "was stopped because its time was over".into()
    } else if exit.cancelled {
        "was asked to stop".into()
    } else if let Some(signal) = exit.signal {
        format!("was ended by signal {signal}")
    } else {
        format!("ended with exit code {}", exit.exit.unwrap_or_default())
    }
}

/// Lines of standard error that are kept from a complaint.
const WORDS: usize = 12;

/// Returns what a line says of a failed model, for a person.
fn words_of(line: &str) -> String {
    let said = |event: Value| match text_at(&event, "/message") {
        "" => {
            let status = number_at::<u16>(&event, "/error_status");
            let status = status.filter(|status| *status > 0);
            let status = status.map_or(String::new(), |status| format!("{status} "));
            status + text_at(&event, "/error")
        }
        message => message.to_owned(),
    };
    let said = events(line).next().map(said);
    one_line(said.as_deref().unwrap_or(line), 200)
}

/// Returns the end of the agent's standard error.
pub(super) fn last_words(err: &str) -> String {
    let lines: Vec<&str> = err.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(WORDS);
    printable(&lines[from..].join("\n"))
}
