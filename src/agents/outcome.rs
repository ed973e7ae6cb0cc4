//! How one run of a coding agent ended, and what that leads to: the only table of it. An exit code of 0 is never enough.

use std::time::Duration;

use crate::plan::{SessionId, Time};

/// How one run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its last event was read, carries no error, and nothing was refused.
    Done { text: String },
    /// It was not allowed to do something; `unfinished` says how it went on, if that was not to its end.
    Refused {
        text: String,
        what: Vec<String>,
        unfinished: Option<String>,
    },
    /// The language model behind it failed.
    Model(ModelFault),
    /// It does not know the session that it was to go on in.
    SessionMissing,
    /// It refuses to begin a session that is there already.
    SessionInUse,
    /// It refuses its command line or its set-up; every other task would fail the same way.
    Usage { said: String },
    /// It ended before it came to speak, with a complaint that is not known: of its set-up, or of something that has passed.
    NoStart { said: String },
    /// It was ended before its last event.
    Killed { how: String },
    /// It ended without a last event that can be read, or says itself that it did not finish.
    Garbled { why: String },
}

/// What went wrong with the model behind an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFault {
    /// The status of HTTP, where the agent tells it.
    pub status: Option<u16>,
    /// It may pass by itself.
    pub retryable: bool,
    /// A usage limit ends then.
    pub until: Option<Time>,
    pub said: String,
}

impl ModelFault {
    /// Makes a fault of a status and what the agent says; without a status it is one of the connection, which may pass.
    pub(super) fn new(status: Option<u16>, said: impl Into<String>) -> Self {
        Self {
            status,
            retryable: status.is_none_or(|status| status == 408 || status == 429 || status >= 500),
            until: None,
            said: said.into(),
        }
    }

    /// Tells whether the model lets nobody in with this key or login: it would not for any other task either.
    pub fn keeps_out(&self) -> bool {
        matches!(self.status, Some(401 | 403)) && self.until.is_none()
    }

    /// Says that the model refuses, and how.
    pub fn refusal(&self) -> String {
        let status = self.status.map(|status| format!(" ({status})"));
        let status = status.unwrap_or_default();
        format!(
            "The model refuses{status}, check key and model: {}",
            self.words()
        )
    }

    /// Returns what the agent says of it.
    pub fn words(&self) -> &str {
        if self.said.is_empty() {
            "nothing more"
        } else {
            &self.said
        }
    }
}

/// What a run used, as far as the agent tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
}

/// No run uses more: what says so is wrong, or made up.
const MOST_TOKENS: u64 = 1_000_000_000;
const MOST_COST: f64 = 100_000.0;

impl Usage {
    /// Returns the numbers that can be true, and nothing in place of the others.
    #[must_use]
    pub(super) fn plausible(self) -> Self {
        let tokens = |count| if count <= MOST_TOKENS { count } else { 0 };
        let cost = Some(self.cost_usd).filter(|cost| (0.0..=MOST_COST).contains(cost));
        Self {
            input_tokens: tokens(self.input_tokens),
            output_tokens: tokens(self.output_tokens),
            cost_usd: cost.unwrap_or(0.0),
        }
    }

    /// Adds what another run used.
    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost_usd += other.cost_usd;
    }

    /// Returns what is left of a total when an earlier total is taken away; of a total that began anew, all of it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        if self.input_tokens < earlier.input_tokens || self.output_tokens < earlier.output_tokens {
            return self;
        }
        Self {
            input_tokens: self.input_tokens - earlier.input_tokens,
            output_tokens: self.output_tokens - earlier.output_tokens,
            cost_usd: (self.cost_usd - earlier.cost_usd).max(0.0),
        }
    }
}

/// What was read of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    pub outcome: Outcome,
    /// The session that the agent names.
    pub session: Option<SessionId>,
    pub usage: Usage,
}

/// What follows from an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is reported.
    Report,
    /// It is reported, and the agent is given no other task.
    Stop,
    /// It is tried again in the same session, after a wait.
    Again(Duration),
    /// It is tried again by going on in the session that is there.
    Resume,
    /// It is begun anew, with what happened before told.
    Anew,
}

/// How often and with which waits a model that fails is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Runs after the first.
    pub most: u32,
    /// The wait before the first of them; each further one is twice as long.
    pub delay: Duration,
}

/// A wait between tries is never longer.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// A session is begun or resumed that often before it is given up: an agent that says neither would go on for ever.
const MOST_TURNS: u32 = 3;

impl Outcome {
    /// Tells what follows when it came after so many failures of the model and so many changes of the session.
    pub fn next(&self, faults: u32, changes: u32, again: Retries) -> Next {
        match self {
            Self::Model(fault) if fault.retryable && fault.until.is_none() => {
                if faults < again.most {
                    let wait = again.delay.saturating_mul(1 << faults.min(16));
                    Next::Again(wait.min(LONGEST_WAIT.max(again.delay)))
                } else {
                    Next::Report
                }
            }
            Self::SessionMissing if changes < MOST_TURNS => Next::Anew,
            Self::SessionInUse if changes < MOST_TURNS => Next::Resume,
            Self::NoStart { .. } if faults == 0 && changes == 0 => Next::Again(again.delay),
            Self::Usage { .. } | Self::NoStart { .. } => Next::Stop,
            Self::Model(fault) if fault.keeps_out() => Next::Stop,
            Self::Done { .. }
            | Self::Refused { .. }
            | Self::Model(_)
            | Self::SessionMissing
            | Self::SessionInUse
            | Self::Killed { .. }
            | Self::Garbled { .. } => Next::Report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_leads_somewhere_and_no_way_goes_on_for_ever() {
        let again = Retries {
            most: 2,
            delay: Duration::from_secs(10),
        };
        let next = |outcome: &Outcome, faults, changes| outcome.next(faults, changes, again);
        let overloaded = Outcome::Model(ModelFault::new(Some(529), ""));
        assert_eq!(
            [0, 1, 2].map(|faults| next(&overloaded, faults, 0)),
            [
                Next::Again(Duration::from_secs(10)),
                Next::Again(Duration::from_secs(20)),
                Next::Report
            ]
        );
        let key = Outcome::Model(ModelFault::new(Some(401), ""));
        assert_eq!(next(&key, 0, 0), Next::Stop);
        let unknown = Outcome::Model(ModelFault::new(Some(404), ""));
        assert_eq!(next(&unknown, 0, 0), Next::Report);
        let limit = Outcome::Model(ModelFault {
            until: Some(Time(1)),
            ..ModelFault::new(Some(429), "")
        });
        assert_eq!(next(&limit, 0, 0), Next::Report);
        assert_eq!(next(&Outcome::SessionMissing, 0, 0), Next::Anew);
        assert_eq!(next(&Outcome::SessionMissing, 0, 3), Next::Report);
        assert_eq!(next(&Outcome::SessionInUse, 0, 2), Next::Resume);
        let usage = Outcome::Usage { said: "".into() };
        assert_eq!(next(&usage, 0, 0), Next::Stop);
        let no_start = Outcome::NoStart { said: "".into() };
        assert_eq!(
            [0, 1].map(|faults| next(&no_start, faults, 0)),
            [Next::Again(Duration::from_secs(10)), Next::Stop]
        );
    }

    #[test]
    fn a_total_gives_what_was_used_since_the_last() {
        let of = |input, output| Usage {
            input_tokens: input,
            output_tokens: output,
            cost_usd: 0.0,
        };
        assert_eq!(of(40, 6).since(of(20, 2)), of(20, 4));
        assert_eq!(of(10, 1).since(of(20, 2)), of(10, 1));
    }
}
