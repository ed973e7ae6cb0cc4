//! How a command ends: the exit codes, and the one type for everything that goes wrong on the way there.

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::anyhow;

use super::app::PUT_BACK;
use crate::config::ConfigError;
use crate::plan::Refusal;
use crate::store::StoreError;
use crate::volumes::VolumesError;
use crate::wire::Problem;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Aborted = 3,
    /// Nothing can go on before a human answers.
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
    said: FailureText,
    hint: Option<String>,
    exit: Exit,
}

#[derive(Debug)]
enum FailureText {
    Error(anyhow::Error),
    /// A signal ended it, which is no error.
    Stopped(String),
    /// The reader of the output has gone.
    Nothing,
}

impl Failure {
    /// The command failed.
    pub fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::new(error, Exit::Failed)
    }

    /// What the person asked for makes no sense.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(error, Exit::Usage)
    }

    /// What the person asked for or configured makes no sense, and the error knows the way out.
    pub fn hinted<E, H: Into<String>>(error: E, hint: impl FnOnce(&E) -> H) -> Self
    where
        E: Into<anyhow::Error>,
    {
        let hint = hint(&error);
        Self::usage(error).hint(hint)
    }

    /// The command ends with this exit code.
    pub fn new(error: impl Into<anyhow::Error>, exit: Exit) -> Self {
        Self {
            said: FailureText::Error(error.into()),
            hint: None,
            exit,
        }
    }

    /// A signal ended the command before there was anything to stop.
    pub fn stopped(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            said: FailureText::Stopped(what.into()),
            hint: None,
            exit,
        }
    }

    /// Nobody reads the output any more (`… | head`): a quiet success.
    pub fn closed_pipe() -> Self {
        Self {
            said: FailureText::Nothing,
            hint: None,
            exit: Exit::Done,
        }
    }

    /// The exchange folder cannot be used.
    pub fn folder(error: VolumesError) -> Self {
        let hint = way_out(error.kind());
        Self::failed(error).hint(hint)
    }

    /// Tells every problem of a file, each with its own hint, as a compiler does.
    pub fn problems(file: &str, problems: &[Problem]) -> Self {
        let told = problems.iter().map(|problem| {
            let hint = problem.hint.iter().map(|hint| format!("\nHint: {hint}"));
            problem.in_file(file) + &hint.collect::<String>()
        });
        Self::usage(anyhow!(told.collect::<Vec<_>>().join("\nerror: ")))
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says first what it is about.
    #[must_use]
    pub fn about(mut self, what: &str) -> Self {
        if let FailureText::Error(error) = self.said {
            self.said = FailureText::Error(error.context(what.to_owned()));
        }
        self
    }

    /// Says after it what else is wrong.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (FailureText::Error(error), FailureText::Error(more)) = (&self.said, &other.said)
        else {
            return self;
        };
        let hint = self.hint.iter().map(|hint| format!("\nHint: {hint}"));
        let (hint, error, more) = (hint.collect::<String>(), whole(error), whole(more));
        Self {
            said: FailureText::Error(anyhow!("{error}{hint}\nerror: {more}")),
            ..other
        }
    }

    /// Returns it as a problem of the file that led to it; `place` makes one of a text.
    pub fn problem(self, place: impl FnOnce(String) -> Problem) -> Problem {
        let said = match &self.said {
            FailureText::Error(error) => whole(error),
            FailureText::Stopped(what) => what.clone(),
            FailureText::Nothing => String::new(),
        };
        Problem {
            hint: self.hint,
            ..place(said)
        }
    }

    /// Returns what to print on standard error, if anything.
    pub fn text(&self) -> Option<String> {
        let said = match &self.said {
            FailureText::Error(error) => format!("error: {}", whole(error)),
            FailureText::Stopped(what) => format!("stopped; {what}"),
            FailureText::Nothing => return None,
        };
        let hint = self
            .hint
            .iter()
            .map(|hint| format!("\nHint: {hint}"))
            .collect::<String>();
        Some(format!("{said}{hint}\n"))
    }

    /// Returns the exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

/// Returns an error with its causes; a cause that its effect tells of already is left out.
fn whole(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        if told.is_empty() {
            cause
        } else if told.ends_with(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

/// Returns what to do where something in the exchange folder cannot be used for a fault of this kind.
pub(super) fn way_out(fault: ErrorKind) -> &'static str {
    match fault {
        // A link, or something else that does not belong there.
        ErrorKind::InvalidData => {
            "remove it, or name another folder in config.toml: [volumes] root"
        }
        _ => "make it writable, or name another folder in config.toml: [volumes] root",
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            error @ StoreError::Foreign { .. } => {
                Self::failed(error).hint(way_out(ErrorKind::InvalidData))
            }
            error @ StoreError::Emptied { .. } => Self::failed(error).hint(PUT_BACK),
            error => Self::failed(error),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoNote => Self::usage(refusal).hint("add --note \"…\""),
            Refusal::NotOffered { .. } => Self::usage(refusal),
            refusal => Self::failed(refusal),
        }
    }
}

impl From<VolumesError> for Failure {
    fn from(error: VolumesError) -> Self {
        Self::failed(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let hint = error.hint();
        Self {
            hint,
            ..Self::usage(error)
        }
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
        insta::assert_snapshot!(failure.text().unwrap(), @r"
        error: cannot write `x`: no disk
        Hint: buy one
        ");
        assert_eq!(failure.exit().code(), 2);
        assert_eq!(Failure::closed_pipe().text(), None);
    }

    #[test]
    fn failure_shows_cause_once() {
        let path = "/no/such".into();
        let source = std::io::ErrorKind::NotFound.into();
        let failure = Failure::failed(ConfigError::Unreadable { path, source });
        insta::assert_snapshot!(failure.text().unwrap(), @"error: cannot read the configuration `/no/such`: entity not found");
    }
}
