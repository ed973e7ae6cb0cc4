//! The budget of a plan, and its usage.

use std::collections::BTreeMap;
use std::time::Duration;

use BudgetLimit::{Attempts, CostUsd, LlmCalls, LlmTokens, WallTime};
use serde::{Deserialize, Serialize};

use super::Time;
use crate::plan::is_default;

/// What a plan may use before a human is asked; `None` sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Calls of the planner's model.
    pub llm_calls: Option<u64>,
    /// Tokens that the planner's model reads and writes.
    pub llm_tokens: Option<u64>,
    /// Money in US dollars, as far as agents and the planner's model report their costs.
    pub cost_usd: Option<f64>,
    /// Time in which something was under way.
    pub wall_time: Option<Duration>,
    /// Attempts at tasks.
    pub attempts: Option<u64>,
    /// So many attempts for each task are allowed at least, so that a limit that was left out fits a large plan.
    #[serde(skip_serializing_if = "is_default")]
    pub attempts_per_task: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            llm_calls: Some(500),
            llm_tokens: Some(5_000_000),
            cost_usd: Some(20.0),
            wall_time: Some(Duration::from_secs(12 * 3600)),
            attempts: Some(200),
            attempts_per_task: 0,
        }
    }
}

impl Budget {
    /// No limit at all.
    pub const NONE: Self = Self {
        llm_calls: None,
        llm_tokens: None,
        cost_usd: None,
        wall_time: None,
        attempts: None,
        attempts_per_task: 0,
    };

    /// Returns the value of one limit in its own unit; time in seconds.
    pub fn set(&self, limit: BudgetLimit) -> Option<f64> {
        match limit {
            LlmCalls => self.llm_calls.map(number),
            LlmTokens => self.llm_tokens.map(number),
            CostUsd => self.cost_usd,
            WallTime => self.wall_time.map(|span| span.as_secs_f64()),
            Attempts => self.attempts.map(number),
        }
    }
}

/// One of the limits of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLimit {
    LlmCalls,
    LlmTokens,
    CostUsd,
    WallTime,
    Attempts,
}

impl BudgetLimit {
    /// Every limit, in the order in which they are shown.
    pub const ALL: [Self; 5] = [LlmCalls, LlmTokens, CostUsd, Attempts, WallTime];

    /// The limits that must not be used up for a call of the model.
    pub const OF_CALLS: [Self; 4] = [LlmCalls, LlmTokens, CostUsd, WallTime];
}

/// The usage of language models and agents. The number of attempts is derived from the plan's rows: see `Plan::used`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Calls of the planner's model, counted before they are made.
    pub llm_calls: u64,
    /// Tokens the planner's model read.
    pub llm_input_tokens: u64,
    /// Tokens the planner's model wrote.
    pub llm_output_tokens: u64,
    /// Costs of the planner's model in US dollars, where it reports them.
    pub llm_cost_usd: f64,
    /// Tokens that agents reported as read.
    pub agent_input_tokens: u64,
    /// Tokens that agents reported as written.
    pub agent_output_tokens: u64,
    /// Money in US dollars that agents reported.
    pub agent_cost_usd: f64,
    /// Recorded time in which a daemon carried the plan out and something was under way.
    pub wall_time: Duration,
    /// The daemon whose time was recorded last, and how much of that time was recorded.
    pub lived: ActiveTime,
}

/// What a question to a model, or a run of an agent, used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelCost {
    /// Exchanges begun, failed ones included; 0 for an agent.
    pub calls: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// In US dollars, where the model reports its costs.
    pub cost_usd: f64,
}

impl ModelCost {
    /// Makes the cost of one answer, or of a run of an agent.
    pub fn new(input_tokens: u64, output_tokens: u64, cost_usd: f64) -> Self {
        Self {
            calls: 0,
            input_tokens,
            output_tokens,
            cost_usd,
        }
    }

    /// Adds what another question or run used.
    pub fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost_usd += other.cost_usd;
    }
}

/// What plans used of the limits that also hold for a day: the cost is in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub llm_calls: u64,
    pub llm_tokens: u64,
    pub micro_usd: u64,
}

/// How much of its active time a daemon has spent on a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveTime {
    /// When the daemon started; this identifies it.
    pub since: Time,
    /// Time in which something was under way.
    pub span: Duration,
}

impl Usage {
    /// Returns the tokens that the planner's model read and wrote.
    pub fn llm_tokens(&self) -> u64 {
        (self.llm_input_tokens).saturating_add(self.llm_output_tokens)
    }

    /// Returns what was used since an earlier state.
    pub fn since(&self, before: &Self) -> Spent {
        // The sums are bounded and positive; a cast saturates.
        let cost =
            |usage: &Self| ((usage.llm_cost_usd + usage.agent_cost_usd) * 1e6).round() as u64;
        Spent {
            llm_calls: self.llm_calls.saturating_sub(before.llm_calls),
            llm_tokens: self.llm_tokens().saturating_sub(before.llm_tokens()),
            micro_usd: cost(self).saturating_sub(cost(before)),
        }
    }

    /// Returns the time used, including the active time of a daemon that is not recorded yet. The result stays the same after
    /// that time is recorded.
    pub fn wall_time(&self, lived: ActiveTime) -> Duration {
        self.wall_time + self.unrecorded(lived)
    }

    /// Returns how much of a daemon's active time is not recorded yet.
    pub fn unrecorded(&self, lived: ActiveTime) -> Duration {
        if self.lived.since == lived.since {
            lived.span.saturating_sub(self.lived.span)
        } else {
            lived.span
        }
    }
}

/// What a human allowed beyond the budget, by limit.
pub type Granted = BTreeMap<BudgetLimit, f64>;

/// Returns a count as an amount: one beyond 2^53 is no longer exact, and need not be.
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_active_time_is_counted_once() {
        let lived = |since, seconds| ActiveTime {
            since: Time(since),
            span: Duration::from_secs(seconds),
        };
        let mut usage = Usage::default();
        for (now, total) in [
            (lived(1, 5), 5),
            (lived(1, 5), 5),
            (lived(1, 8), 8),
            (lived(2, 3), 11),
        ] {
            let used = usage.wall_time(now);
            assert_eq!(used, Duration::from_secs(total));
            usage.wall_time = used;
            usage.lived = now;
            assert_eq!(usage.wall_time(now), used, "recorded or not");
        }
    }
}
