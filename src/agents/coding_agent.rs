//! The coding agents whose output is known: their names, how they are started, what is read of their output. Each agent has one
//! file next to this one; `outcome` decides what follows from an outcome.

use std::path::Path;

use reqwest::StatusCode;
use serde_json::Value;

use super::{
    CodingAgent, CodingAgentSetup, ModelFault, RunOutcome, RunReading, aider, claude, codex,
    gemini, opencode, plausible,
};
use crate::exec;
use crate::plan::{ModelCost, SessionId, Time};
use crate::wire::{joined, one_line, printable, safe_session};

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

/// Returns the objects of a stream with one JSON object a line; lines that are none are left out.
pub(super) fn events(out: &str) -> impl DoubleEndedIterator<Item = Value> {
    let lines = out.lines().map(str::trim);
    let objects = lines.filter(|line| line.starts_with('{'));
    objects.filter_map(|line| serde_json::from_str(line).ok())
}

/// Returns whether an event is of a kind.
pub(super) fn is(event: &Value, kind: &str) -> bool {
    text_at(event, "/type") == kind
}

/// Returns the last event of a kind.
pub(super) fn last_event(out: &str, kind: &str) -> Option<Value> {
    events(out).rev().find(|event| is(event, kind))
}

/// Returns a text of an event by its path of names; empty if the event has none there.
pub(super) fn text_at<'a>(event: &'a Value, pointer: &str) -> &'a str {
    let text = event.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns a whole number of an event by its path of names.
pub(super) fn number_at<N: TryFrom<i64>>(event: &Value, pointer: &str) -> Option<N> {
    event.pointer(pointer)?.as_i64()?.try_into().ok()
}

/// Returns an amount of dollars of an event by its path of names.
pub(super) fn dollars_at(event: &Value, pointer: &str) -> Option<f64> {
    event.pointer(pointer).and_then(Value::as_f64)
}

/// Returns the tokens of an event, `input_tokens` and `output_tokens` below a path.
pub(super) fn tokens_at(event: &Value, pointer: &str) -> ModelCost {
    let tokens = |name| number_at(event, &format!("{pointer}/{name}_tokens")).unwrap_or(0);
    ModelCost::new(tokens("input"), tokens("output"), 0.0)
}

/// Returns a session's name if it can be passed to an agent.
pub(super) fn session_named(name: &str) -> Option<SessionId> {
    safe_session(name).then(|| SessionId::new(name))
}

/// Returns whether a name is a UUID in the one form that every agent accepts.
pub(super) fn is_uuid(name: &str) -> bool {
    uuid::Uuid::try_parse(name).is_ok_and(|uuid| uuid.to_string() == name)
}

/// Finds an HTTP status in an agent's words: a number counts if the text calls it a status or if the name of that status
/// follows.
pub(super) fn status_in(said: &str) -> Option<u16> {
    let said = said.to_lowercase();
    let said: Vec<&str> = words_in(&said).collect();
    said.iter().enumerate().find_map(|(at, word)| {
        let status = StatusCode::from_bytes(word.as_bytes()).ok()?;
        let (before, after) = (&said[..at], &said[at + 1..]);
        let called = matches!(
            before,
            [.., "status" | "statuscode" | "code" | "http"] | [.., "api", "error"]
        ) || matches!(after, ["status", ..]);
        let name = status.canonical_reason().unwrap_or("Overloaded");
        let name = name.to_lowercase();
        let named = after.starts_with(&words_in(&name).collect::<Vec<_>>());
        let fails = status.is_client_error() || status.is_server_error();
        (fails && (called || named)).then_some(status.as_u16())
    })
}

fn words_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}

/// Returns a fault of the model from words alone, where the agent gives no status.
pub(super) fn fault_by_words(said: &str) -> ModelFault {
    const WORDS_OF: [(u16, &str); 3] = [
        (429, "rate limit|ratelimit|quota|usage limit"),
        (401, "unauthorized|authentication|invalid_api_key|api key"),
        (400, "invalid_request|badrequest|not_found_error"),
    ];
    let lower = said.to_lowercase();
    let mut known = WORDS_OF.into_iter();
    let named = known.find(|(_, words)| words.split('|').any(|word| lower.contains(word)));
    ModelFault::new(status_in(said).or(named.map(|(status, _)| status)), said)
}
