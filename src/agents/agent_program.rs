//! The programs of the coding agents: their names, the versions that are known to work, what they need to reach a model.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::{AgentAct, AgentProcess, AgentRun, Permissions, RunOutput, RunReading};
use crate::wire::Problem;

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
    pub(super) call: fn(&AgentRun<'_>) -> Result<AgentProcess, Problem>,
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
    pub fits: fn(&Permissions, bool, Variables<'_>) -> Result<(), Problem>,
    /// Finds out whether the agent can reach a model, as far as this shows without asking the model.
    pub login: fn(Variables<'_>) -> Login,
}

impl CodingAgent {
    /// Returns whether the agent reports the commands that were refused to it, so that a person can allow them.
    pub fn reports_refusals(&self) -> bool {
        self.exact.is_some()
    }
}

/// Says why a command cannot be allowed word for word.
pub(super) type ExactRule = fn(&str) -> Result<(), &'static str>;

/// Returns the value of an environment variable.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The three numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramVersion(pub u32, pub u32, pub u32);

impl ProgramVersion {
    /// Finds the first version in a text, such as `codex-cli 0.169.0`.
    pub fn find(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let word = word.trim_start_matches('v');
            let mut numbers = word.split(['-', '+']).next()?.split('.').map(str::parse);
            let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
                return None;
            };
            let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
            Some(Self(major, minor, patch))
        })
    }
}

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Whether an agent can reach a model, as far as this machine shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// This shows it.
    Found(String),
    /// None of this was found. Something that cannot be checked may take its place.
    NotSeen(String),
    /// There is nothing to check.
    Unknown,
}

impl Login {
    /// Checks some variables, then a file.
    pub(super) fn detect(variable: Variables<'_>, keys: &str, file: &str) -> Self {
        let mut keys = keys.split(' ');
        let first = keys.clone().next().unwrap_or_default();
        if let Some(key) = keys.find(|key| variable(key).is_some()) {
            Self::Found(format!("{key} is set"))
        } else if Path::new(file).is_file() {
            Self::Found(format!("{file} is there"))
        } else {
            Self::NotSeen(format!("{first} is not set, {file} is not there"))
        }
    }
}

/// Returns the folder that a variable names, or the one at this path in the home folder.
pub(super) fn folder(variable: Variables<'_>, name: &str, in_home: &str) -> String {
    let home = || variable("HOME").unwrap_or_else(|| "/nowhere".into()) + in_home;
    variable(name).unwrap_or_else(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_and_compares_agent_versions() {
        for (text, version) in [
            ("2.1.330 (Claude Code)", Some(ProgramVersion(2, 1, 330))),
            ("codex-cli 0.169.0\n", Some(ProgramVersion(0, 169, 0))),
            ("0.61.0", Some(ProgramVersion(0, 61, 0))),
            ("aider 0.86.2.dev1", Some(ProgramVersion(0, 86, 2))),
            ("v1.2", Some(ProgramVersion(1, 2, 0))),
            ("1.18.33-beta.1", Some(ProgramVersion(1, 18, 33))),
            ("Node 20: no version", None),
            ("", None),
        ] {
            assert_eq!(ProgramVersion::find(text), version, "{text}");
        }
        assert!(ProgramVersion(2, 1, 9) < ProgramVersion(2, 1, 10));
    }
}
