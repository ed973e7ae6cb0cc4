//! How one run of a coding agent ended, and what follows from it: the only table of that. An exit code of 0 is never enough.

use std::time::Duration;

use crate::config::WorkerConfig;
use crate::plan::{ModelCost, SessionId, Time};
use crate::wire::text::{exceeds_context, is_unpaid};

/// How one run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Its last event was read and reports no error, and nothing was refused; its last message.
    Done(String),
    /// It was not allowed to do something; `unfinished` says how the run ended, if it did not finish.
    Refused {
        text: String,
        what: Vec<String>,
        /// The shell commands among it, word for word.
        commands: Vec<String>,
        unfinished: Option<String>,
    },
    /// The language model behind it failed.
    Model(ModelFault),
    /// It does not know the session that it was to resume.
    SessionMissing,
    /// It refuses to begin a session that exists already.
    SessionInUse,
    /// It refuses its command line or its configuration, in these words; every other task would fail the same way.
    Usage(String),
    /// It ended before its first output, with this unknown complaint: about its configuration, or about something temporary.
    NoStart(String),
    /// It was stopped before its last event; how.
    Killed(String),
    /// It ended without a last event that can be read, or says itself that it did not finish; why.
    Garbled(String),
}

/// The fault of the model behind an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFault {
    /// The HTTP status, where the agent reports it.
    pub status: Option<u16>,
    /// The fault may be temporary.
    pub retryable: bool,
    /// The moment at which a usage limit ends.
    pub until: Option<Time>,
    pub said: String,
}

impl ModelFault {
    /// Makes a fault of a status and the agent's words; without a status it is a fault of the connection, which may be
    /// temporary.
    pub(super) fn new(status: Option<u16>, said: impl Into<String>) -> Self {
        let mut fault = Self {
            status,
            retryable: status.is_none_or(|status| status == 408 || status == 429 || status >= 500),
            until: None,
            said: said.into(),
        };
        fault.retryable &= !fault.is_unpaid();
        fault
    }

    /// Returns whether the model rejects this key, login or account, so that it would reject every other task, too.
    pub fn keeps_out(&self) -> bool {
        (matches!(self.status, Some(401..=403)) || self.is_unpaid()) && self.until.is_none()
    }

    /// Returns whether a limit has been reached that ends by itself.
    pub fn is_limit(&self) -> bool {
        self.status == Some(429) && !self.is_unpaid()
    }

    /// Returns whether the account has no money left, which no wait helps; vendors report it as any status.
    pub fn is_unpaid(&self) -> bool {
        is_unpaid(&self.said)
    }

    /// Returns whether the session has become too long for the model.
    pub fn exceeds_context(&self) -> bool {
        self.status != Some(429) && exceeds_context(&self.said)
    }

    /// Returns a sentence that the model refuses, and how.
    pub fn refusal(&self) -> String {
        let (status, words) = (self.status_text(), self.words());
        if self.exceeds_context() {
            return format!("It is too long for the model{status}: {words}");
        }
        if self.is_unpaid() {
            return format!("The account of the model is used up{status}: {words}");
        }
        format!("The model refuses{status}, check key and model: {words}")
    }

    /// Returns the status in brackets, after a blank; empty if it is not known.
    pub fn status_text(&self) -> String {
        let text = |status| format!(" ({status})");
        self.status.map(text).unwrap_or_default()
    }

    /// Returns the agent's words about the fault.
    pub fn words(&self) -> &str {
        if self.said.is_empty() {
            "nothing more"
        } else {
            &self.said
        }
    }
}

/// No run uses more: a higher number is wrong, or made up.
const MOST_TOKENS: u64 = 1_000_000_000;
const MOST_COST: f64 = 100_000.0;

/// Returns the plausible numbers of what a run used, without the others.
pub(super) fn plausible(mut used: ModelCost) -> ModelCost {
    for tokens in [&mut used.input_tokens, &mut used.output_tokens] {
        if *tokens > MOST_TOKENS {
            *tokens = 0;
        }
    }
    if !(0.0..=MOST_COST).contains(&used.cost_usd) {
        used.cost_usd = 0.0;
    }
    used
}

/// Returns the difference between a total and an earlier total; if the total began anew, all of it.
pub fn used_since(total: ModelCost, earlier: ModelCost) -> ModelCost {
    let input = total.input_tokens.checked_sub(earlier.input_tokens);
    let output = total.output_tokens.checked_sub(earlier.output_tokens);
    let (Some(input_tokens), Some(output_tokens)) = (input, output) else {
        return total;
    };
    ModelCost {
        input_tokens,
        output_tokens,
        cost_usd: (total.cost_usd - earlier.cost_usd).max(0.0),
        ..total
    }
}

/// The result of reading a run's output.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReading {
    pub outcome: RunOutcome,
    /// The session that the agent names.
    pub session: Option<SessionId>,
    /// What the run used, as far as the agent reports it.
    pub usage: ModelCost,
}

impl RunReading {
    /// Makes the reading of a run that names no session.
    pub(super) fn new(outcome: RunOutcome, usage: ModelCost) -> Self {
        Self {
            outcome,
            session: None,
            usage,
        }
    }

    /// Makes the reading of a run that says nothing but how it ended.
    pub fn of(outcome: RunOutcome) -> Self {
        Self::new(outcome, ModelCost::default())
    }
}

/// What follows from an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    /// The worker reports it.
    Report,
    /// The worker reports it and gives the agent no other task.
    Stop,
    /// The worker tries again in the same session, after a wait.
    Again(Duration),
    /// The worker tries again by resuming the session that exists.
    Resume,
    /// The worker begins a new session and repeats there what happened before.
    Anew,
}

/// The longest wait between retries.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// The worker begins or resumes a session at most this often: without the limit an agent that rejects both would go on for
/// ever.
const MOST_TURNS: u32 = 3;

impl RunOutcome {
    /// Returns what follows, given how many failures of the model and how many changes of the session came before. Each wait is
    /// twice as long as the one before.
    pub fn next(&self, faults: u32, changes: u32, config: &WorkerConfig) -> NextRun {
        let delay = config.retry_delay;
        match self {
            // A new session has a chance where the old one has become too long, and only once.
            Self::Model(fault) if fault.exceeds_context() => match changes {
                0 => NextRun::Anew,
                _ => NextRun::Report,
            },
            Self::Model(fault) if fault.retryable && fault.until.is_none() => {
                if faults >= config.retries {
                    return NextRun::Report;
                }
                let wait = delay.saturating_mul(1 << faults.min(16));
                NextRun::Again(wait.min(LONGEST_WAIT.max(delay)))
            }
            Self::SessionMissing if changes < MOST_TURNS => NextRun::Anew,
            Self::SessionInUse if changes < MOST_TURNS => NextRun::Resume,
            Self::NoStart(_) if faults == 0 && changes == 0 => NextRun::Again(delay),
            Self::Usage(_) | Self::NoStart(_) => NextRun::Stop,
            Self::Model(fault) if fault.keeps_out() => NextRun::Stop,
            Self::Done(_)
            | Self::Refused { .. }
            | Self::Model(_)
            | Self::SessionMissing
            | Self::SessionInUse
            | Self::Killed(_)
            | Self::Garbled(_) => NextRun::Report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_retry_within_limits_then_stop() {
        let config = WorkerConfig {
            retries: 2,
            retry_delay: Duration::from_secs(10),
            ..crate::config::Config::default().worker
        };
        let next = |outcome: &RunOutcome, faults, changes| outcome.next(faults, changes, &config);
        let overloaded = RunOutcome::Model(ModelFault::new(Some(529), ""));
        assert_eq!(
            [0, 1, 2].map(|faults| next(&overloaded, faults, 0)),
            [
                NextRun::Again(Duration::from_secs(10)),
                NextRun::Again(Duration::from_secs(20)),
                NextRun::Report
            ]
        );
        let key = RunOutcome::Model(ModelFault::new(Some(401), ""));
        assert_eq!(next(&key, 0, 0), NextRun::Stop);
        let unknown = RunOutcome::Model(ModelFault::new(Some(404), ""));
        assert_eq!(next(&unknown, 0, 0), NextRun::Report);
        let long = RunOutcome::Model(ModelFault::new(Some(400), "Prompt is too long"));
        assert_eq!(
            [0, 1].map(|changes| next(&long, 0, changes)),
            [NextRun::Anew, NextRun::Report]
        );
        for (said, next_run) in [
            (
                "Quota exceeded. Check your plan and billing details.",
                NextRun::Stop,
            ),
            (
                "Your credit balance is too low to access the API",
                NextRun::Stop,
            ),
            (
                "You exceeded your current quota",
                NextRun::Again(Duration::from_secs(10)),
            ),
        ] {
            let outcome = RunOutcome::Model(ModelFault::new(Some(429), said));
            assert_eq!(next(&outcome, 0, 0), next_run, "{said}");
        }
        let limit = RunOutcome::Model(ModelFault {
            until: Some(Time(1)),
            ..ModelFault::new(Some(429), "")
        });
        assert_eq!(next(&limit, 0, 0), NextRun::Report);
        assert_eq!(next(&RunOutcome::SessionMissing, 0, 0), NextRun::Anew);
        assert_eq!(next(&RunOutcome::SessionMissing, 0, 3), NextRun::Report);
        assert_eq!(next(&RunOutcome::SessionInUse, 0, 2), NextRun::Resume);
        let usage = RunOutcome::Usage("".into());
        assert_eq!(next(&usage, 0, 0), NextRun::Stop);
        let no_start = RunOutcome::NoStart("".into());
        assert_eq!(
            [0, 1].map(|faults| next(&no_start, faults, 0)),
            [NextRun::Again(Duration::from_secs(10)), NextRun::Stop]
        );
    }

    #[test]
    fn usage_since_subtracts_previous_total() {
        let of = |input, output| ModelCost {
            input_tokens: input,
            output_tokens: output,
            ..ModelCost::default()
        };
        assert_eq!(used_since(of(40, 6), of(20, 2)), of(20, 4));
        assert_eq!(used_since(of(10, 1), of(20, 2)), of(10, 1));
    }
}
