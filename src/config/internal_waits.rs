//! How long the program waits on its own account: spans that neither a person nor the protocol names. They are no keys of the
//! file, because a person who works with the program has no use for other values; tests shorten all of them with one variable.
//! A span on which other programs rely is a constant where it is used: how long a file must be left alone to count as finished,
//! how long a process may take to end, how often a heartbeat is due.

use std::time::Duration;

use super::{Environment, wrong_variable};
use crate::plan::Timeouts;
use crate::wire::Problem;

/// The variable with a factor for all of [`Timing`].
const VARIABLE: &str = "PLAN_AGENT_TIMING";

/// Factors that make sense: with less the program would only scan, with more it would seem to hang.
const FACTORS: std::ops::RangeInclusive<f64> = 0.01..=10.0;

/// How long the program waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The folders are scanned at this interval even without an event, and every file in them is checked then: events may be
    /// lost.
    pub scan: Duration,
    /// A report stays in its place for so long after it was applied, so that an agent which reads its file again finds it.
    pub filing: Duration,
    /// Without an event, workers scan for commands at this interval.
    pub work: Duration,
    /// Internal plans are checked at this interval: the roles that work on them normally do this themselves.
    pub inside: Duration,
    /// The waits of the plan.
    pub plan: Timeouts,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            scan: Duration::from_secs(3),
            filing: Duration::from_secs(3),
            work: Duration::from_secs(2),
            inside: Duration::from_secs(5),
            plan: Timeouts::default(),
        }
    }
}

impl Timing {
    /// Reads the factor from the environment, if it is set.
    ///
    /// # Errors
    /// The variable does not hold a number in the allowed range.
    pub(super) fn of(environment: &Environment) -> Result<Self, Problem> {
        let Some(text) = environment.get(VARIABLE) else {
            return Ok(Self::default());
        };
        let factor = text.trim().parse().ok();
        match factor.filter(|factor| FACTORS.contains(factor)) {
            Some(factor) => Ok(Self::default().times(factor)),
            None => {
                let (least, most) = (FACTORS.start(), FACTORS.end());
                let message = format!(
                    "`{text}` is no factor for the program's own waits, which is a number from {least} to {most}"
                );
                Err(wrong_variable(VARIABLE, &message))
            }
        }
    }

    fn times(self, factor: f64) -> Self {
        let times = |span: Duration| span.mul_f64(factor);
        Self {
            scan: times(self.scan),
            filing: times(self.filing),
            work: times(self.work),
            inside: times(self.inside),
            plan: Timeouts {
                repair: times(self.plan.repair),
                untaken: times(self.plan.untaken),
                away: times(self.plan.away),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_factor_scales_all_delays() {
        let timing = |text: &str| {
            let variable = (VARIABLE.to_owned(), text.to_owned());
            Timing::of(&Environment::from_iter([variable]))
        };
        let tenth = timing("0.1").unwrap();
        assert_eq!(tenth.filing, Duration::from_millis(300));
        assert_eq!(tenth.plan.untaken, Duration::from_secs(1));
        assert_eq!(timing("").unwrap(), Timing::default());
        assert_eq!(timing(" 1 ").unwrap(), Timing::default());
        for nonsense in ["0", "-1", "NaN", "inf", "11", "1e-9", "2s", "fast"] {
            let error = timing(nonsense).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "environment variable `PLAN_AGENT_TIMING`: `{nonsense}` is no factor for the program's own waits, which is a number from 0.01 to 10"
                )
            );
        }
    }
}
