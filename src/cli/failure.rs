//! How a command ends: the exit codes, and the one type for everything that goes wrong on the way there.

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::anyhow;

use super::print_on_stderr;
use crate::config::ConfigError;
use crate::exec::ProjectError;
use crate::own_files;
use crate::plan::Refusal;
use crate::store::StoreError;
use crate::volumes::VolumesError;
use crate::wire::{Problem, joined};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Aborted = 3,
    /// Nothing can go on before a person answers.
    Waiting = 4,
    /// Another daemon holds the folder.
    Busy = 5,
    /// Paused by a budget.
    Budget = 6,
    Interrupted = 130,
    Terminated = 143,
}

impl Exit {
    /// Returns the number that the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command did not do its work: what is wrong, the way out, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// What is wrong, with its causes.
    message: String,
    hint: Option<String>,
    pub exit: Exit,
    /// The store could not be read or changed: it may answer again.
    pub of_store: bool,
}

/// What comes of a part of a command.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// The command failed.
    pub fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::new(error, Exit::Failed)
    }

    /// What the person asked for makes no sense.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(error, Exit::Usage)
    }

    /// The command ends with this exit code.
    pub fn new(error: impl Into<anyhow::Error>, exit: Exit) -> Self {
        let message = error.into().chain().fold(String::new(), |effect, cause| {
            let cause = cause.to_string();
            match effect.as_str() {
                "" => cause,
                // The effect names it already.
                _ if effect.ends_with(&cause) => effect,
                _ => format!("{effect}: {cause}"),
            }
        });
        Self::stopped(exit, message)
    }

    /// The command ends without an error: a signal came before there was anything to stop, or nobody reads its output.
    pub fn stopped(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            message: what.into(),
            hint: None,
            exit,
            of_store: false,
        }
    }

    /// The exchange folder cannot be used.
    pub fn folder(error: VolumesError) -> Self {
        let hint = way_out(error.kind());
        Self::failed(error).hint(hint)
    }

    /// Shows every problem of a file, each with its own hint, as a compiler does.
    pub fn problems(file: &str, problems: &[Problem]) -> Self {
        let one = |one: &Problem| one.in_file(file) + &hint_line(one.hint.as_deref());
        Self::usage(anyhow!(joined(problems.iter().map(one), "\nerror: ")))
    }

    /// What the person wrote makes no sense.
    pub fn of(problem: Problem) -> Self {
        Self {
            hint: problem.hint,
            ..Self::stopped(Exit::Usage, problem.message)
        }
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the way out where it applies.
    #[must_use]
    pub fn hint_if(self, applies: bool, hint: impl Into<String>) -> Self {
        if applies { self.hint(hint) } else { self }
    }

    /// Says first what it is about.
    #[must_use]
    pub fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Says after it what else is wrong.
    #[must_use]
    pub fn and(self, mut other: Self) -> Self {
        let hint = hint_line(self.hint.as_deref());
        other.message = format!("{}{hint}\nerror: {}", self.message, other.message);
        other
    }

    /// Returns it as a problem of the file that led to it; `place` makes one of a text.
    pub fn problem(self, place: impl FnOnce(String) -> Problem) -> Problem {
        let mut problem = place(self.message);
        problem.hint = self.hint;
        problem
    }

    /// Returns what to print on standard error; may be empty.
    pub fn text(&self) -> String {
        let begin = match self.exit {
            Exit::Done => return String::new(),
            // A signal is no error.
            Exit::Interrupted | Exit::Terminated => "stopped; ",
            _ => "error: ",
        };
        let hint = hint_line(self.hint.as_deref());
        format!("{begin}{}{hint}\n", self.message)
    }

    /// Says on standard error what it led to, where the command goes on.
    pub fn complain(&self, led_to: &str) {
        let why = self.text();
        print_on_stderr(&format!(
            "! {led_to}: {}",
            why.trim_start_matches("error: ")
        ));
    }
}

fn hint_line(hint: Option<&str>) -> String {
    hint.map_or(String::new(), |hint| format!("\nHint: {hint}"))
}

/// Returns what to do where something in the exchange folder cannot be used for a fault of this kind.
pub fn way_out(fault: ErrorKind) -> &'static str {
    match fault {
        ErrorKind::InvalidData => own_files::WAY_OUT,
        _ => "make it writable, or name another folder in config.toml: [volumes] root",
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    /// Fails with the exit code and the way out that belong to an error.
    fn from(error: E) -> Self {
        let error = match error.into().downcast() {
            Ok(ConfigError(all)) => {
                let all = all.into_iter().map(Self::of);
                return all.reduce(Self::and).expect("there is one or more");
            }
            Err(other) => other,
        };
        let (exit, hint) = known(&error);
        Self {
            hint,
            of_store: matches!(error.downcast_ref(), Some(StoreError::Database(_))),
            ..Self::new(error, exit)
        }
    }
}

fn known(error: &anyhow::Error) -> (Exit, Option<String>) {
    let failed = |hint: &str| (Exit::Failed, Some(hint.to_owned()));
    match error.downcast_ref() {
        Some(StoreError::Refused(refusal)) => return of_refusal(refusal),
        Some(StoreError::Open {
            way_out: Some(way_out),
            ..
        }) => return failed(way_out),
        Some(StoreError::Elsewhere { plan, .. }) => {
            let over = format!("`plan-agent resume {plan} --here` takes it over");
            let hint =
                format!("go on with it there; {over} if it has not ended and no daemon has it");
            return (Exit::Failed, Some(hint));
        }
        Some(StoreError::Held { .. }) => {
            let hint = "`plan-agent stop` there ends it; one that was killed loses the plan after 15 seconds";
            return (Exit::Busy, Some(hint.to_owned()));
        }
        _ => {}
    }
    if let Some(refusal) = error.downcast_ref() {
        return of_refusal(refusal);
    }
    let project = error.downcast_ref().map(ProjectError::hint);
    let problem = error.downcast_ref::<Problem>();
    let hint = (problem.and_then(|problem| problem.hint.as_deref())).or(project.as_deref());
    hint.map_or((Exit::Failed, None), |hint| {
        (Exit::Usage, Some(hint.to_owned()))
    })
}

fn of_refusal(refusal: &Refusal) -> (Exit, Option<String>) {
    match refusal {
        Refusal::NoNote => (Exit::Usage, Some("add --note \"…\"".to_owned())),
        Refusal::Discarded(plan) => {
            let file = format!("`plan-agent show {plan} > plan.md`");
            let anew = format!("{file}, then `plan-agent run --plan plan.md` begins it anew");
            (Exit::Failed, Some(anew))
        }
        Refusal::NotOffered { .. } | Refusal::UnknownTask(_) => (Exit::Usage, None),
        _ => (Exit::Failed, None),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn failure_shows_error_and_hint() {
        let failure =
            Failure::usage(anyhow!("no disk").context("cannot write `x`")).hint("buy one");
        insta::assert_snapshot!(failure.text(), @r"
        error: cannot write `x`: no disk
        Hint: buy one
        ");
        assert_eq!(failure.exit.code(), 2);
    }

    #[test]
    fn failure_shows_cause_once() {
        let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
        let effect = format!("cannot read `/no/such`: {cause}");
        let failure = Failure::failed(anyhow!(cause).context(effect));
        insta::assert_snapshot!(failure.text(), @"error: cannot read `/no/such`: entity not found");
    }
}
