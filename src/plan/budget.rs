//! What is left of a plan's budget, and how its amounts are written. The budget is checked before something starts; what is
//! under way is not interrupted.

use std::time::Duration;

use super::*;

impl Plan {
    /// Returns how much of a limit is used. This includes the daemon's time that is not recorded yet.
    pub fn used(&self, limit: BudgetLimit, lived: ActiveTime) -> f64 {
        let usage = &self.head().usage;
        match limit {
            BudgetLimit::LlmCalls => number(usage.llm_calls),
            BudgetLimit::LlmTokens => number(usage.llm_tokens()),
            BudgetLimit::CostUsd => usage.llm_cost_usd + usage.agent_cost_usd,
            BudgetLimit::WallTime => usage.wall_time(lived).as_secs_f64(),
            BudgetLimit::Attempts => number(self.attempts_made()),
        }
    }

    /// Returns how much of the limit may be used, including what a human allowed beyond the budget; `None` without a limit.
    pub fn allowed(&self, limit: BudgetLimit) -> Option<f64> {
        self.allowed_by(&self.head().policy.budget, limit)
    }

    fn allowed_by(&self, budget: &Budget, limit: BudgetLimit) -> Option<f64> {
        let granted = self.head().granted.get(&limit).copied().unwrap_or(0.0);
        let each = match limit {
            BudgetLimit::Attempts => number(budget.attempts_per_task),
            _ => 0.0,
        };
        let by_agents = self.head().added_by_agents;
        let tasks = self.counts().total().saturating_sub(by_agents);
        let least = each * tasks as f64;
        budget.set(limit).map(|set| set.max(least) + granted)
    }

    /// Returns which limit cannot last for the open tasks under a policy, in words: each takes an attempt, and a call of the
    /// model where that judges every result.
    pub fn too_small_budget(&self, policy: &PlanPolicy) -> Option<String> {
        let pending = self.counts().pending as f64;
        let judged = policy.model && policy.judging == JudgePolicy::Always;
        let limits = [
            Some(("attempts", BudgetLimit::Attempts)),
            judged.then_some(("calls of the model", BudgetLimit::LlmCalls)),
        ];
        limits.into_iter().flatten().find_map(|(key, limit)| {
            let allowed = self.allowed_by(&policy.budget, limit)?;
            // What is under way has its attempt already.
            let needed = pending + self.used(limit, ActiveTime::default());
            (needed > allowed).then(|| {
                format!(
                    "the plan needs {needed} {key} or more, and [budget] allows {allowed}: it will pause and ask you for more"
                )
            })
        })
    }

    /// Returns the first limit that forbids a call of the model.
    pub fn no_call(&self, lived: ActiveTime) -> Option<BudgetLimit> {
        self.used_up(&BudgetLimit::OF_CALLS, lived)
    }

    /// Returns the limit because of which the plan is paused while a human is asked for more.
    pub fn stopped_at(&self) -> Option<BudgetLimit> {
        let limit = |question: &HumanQuestion| match question.about {
            HumanQuestionKind::Budget(limit) | HumanQuestionKind::DayBudget(limit) => Some(limit),
            _ => None,
        };
        match self.status() {
            PlanState::Paused(_) => self.open_questions().find_map(limit),
            _ => None,
        }
    }

    /// Returns whether the plan is paused until a person resumes it: no limit of its budget has done that.
    pub fn stays_paused(&self) -> bool {
        matches!(self.status(), PlanState::Paused(_)) && self.stopped_at().is_none()
    }

    /// Returns how many more calls of the model the limit on their number allows.
    pub fn calls_left(&self) -> u32 {
        self.left(BudgetLimit::LlmCalls)
    }

    /// Returns how much of a limit on a number is left.
    pub(super) fn left(&self, limit: BudgetLimit) -> u32 {
        let used = self.used(limit, ActiveTime::default());
        match self.allowed(limit) {
            // Saturates at both ends.
            Some(allowed) => (allowed - used) as u32,
            None => u32::MAX,
        }
    }

    /// Returns the first limit that forbids the dispatch of an attempt. Where a model judges, a limit that forbids calls of the
    /// model also counts: the result could not be judged.
    pub fn no_attempt(&self, lived: ActiveTime) -> Option<BudgetLimit> {
        self.used_up(&[BudgetLimit::Attempts], lived)
            .or_else(|| self.no_repair(lived))
    }

    /// Returns the first limit that forbids asking an agent for a readable report.
    pub fn no_repair(&self, lived: ActiveTime) -> Option<BudgetLimit> {
        match self.head().policy.model {
            true => self.no_call(lived),
            false => self.used_up(&[BudgetLimit::CostUsd, BudgetLimit::WallTime], lived),
        }
    }

    fn used_up(&self, limits: &[BudgetLimit], lived: ActiveTime) -> Option<BudgetLimit> {
        let mut limits = limits.iter().copied();
        limits.find(|limit| self.is_used_up(*limit, lived))
    }

    /// Returns whether a limit is used up.
    pub fn is_used_up(&self, limit: BudgetLimit, lived: ActiveTime) -> bool {
        let allowed = self.allowed(limit);
        allowed.is_some_and(|allowed| self.used(limit, lived) >= allowed)
    }

    /// Returns how much of a limit is used: `200 of 200 attempts`.
    pub fn used_of(&self, limit: BudgetLimit, lived: ActiveTime) -> String {
        let used = self.used(limit, lived);
        match self.allowed(limit) {
            Some(allowed) => format!("{} of {}", limit.amount(used), limit.counted(allowed)),
            None => limit.counted(used),
        }
    }
}

impl BudgetLimit {
    /// Returns an amount as text, without the noun: `200`, `34k`, `$0.42`, `14 min`.
    pub fn amount(self, amount: f64) -> String {
        match self {
            Self::LlmCalls | Self::Attempts => format!("{amount:.0}"),
            Self::LlmTokens => short(amount),
            Self::CostUsd if amount.fract() == 0.0 => format!("${amount:.0}"),
            Self::CostUsd => format!("${amount:.2}"),
            Self::WallTime => span(amount),
        }
    }

    /// Returns the noun for an amount; empty where the amount already contains its unit.
    pub fn noun(self, amount: f64) -> &'static str {
        match (self, amount == 1.0) {
            (Self::LlmCalls, true) => " call",
            (Self::LlmCalls, false) => " calls",
            (Self::LlmTokens, _) => " tokens",
            (Self::Attempts, true) => " attempt",
            (Self::Attempts, false) => " attempts",
            (Self::CostUsd | Self::WallTime, _) => "",
        }
    }

    /// Returns an amount with its noun.
    pub fn counted(self, amount: f64) -> String {
        self.amount(amount) + self.noun(amount)
    }
}

/// Writes a count in at most four characters: `950`, `34k`, `1.2M`, `5M`.
fn short(count: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let Some((unit, letter)) = units.into_iter().find(|(unit, _)| count >= *unit) else {
        return format!("{count:.0}");
    };
    // Rounds down: a rounded up `1M of 1M` would claim that the limit is used up.
    let tenths = (count / unit * 10.0).floor() / 10.0;
    match tenths < 10.0 && tenths.fract() > 0.0 {
        true => format!("{tenths:.1}{letter}"),
        false => format!("{:.0}{letter}", tenths.floor()),
    }
}

/// Writes a span of seconds in one unit, or in two where one is too coarse.
fn span(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    match whole.as_secs() {
        0 if whole.is_zero() => "0 s".to_owned(),
        0 => format!("{} ms", whole.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_amounts_briefly() {
        let said = |limit: BudgetLimit, amounts: &[f64]| -> String {
            let said = amounts.iter().map(|amount| limit.counted(*amount));
            said.collect::<Vec<_>>().join(", ")
        };
        insta::assert_snapshot!(said(BudgetLimit::Attempts, &[0.0, 1.0, 200.0]), @"0 attempts, 1 attempt, 200 attempts");
        insta::assert_snapshot!(
            said(BudgetLimit::LlmTokens, &[0.0, 999.0, 1000.0, 1290.0, 34_999.0, 999_999.0, 5e6, 18e18]),
            @"0 tokens, 999 tokens, 1k tokens, 1.2k tokens, 34k tokens, 999k tokens, 5M tokens, 18000000T tokens"
        );
        insta::assert_snapshot!(said(BudgetLimit::CostUsd, &[0.0, 0.004, 0.42, 20.0, 1e12]), @"$0, $0.00, $0.42, $20, $1000000000000");
        insta::assert_snapshot!(
            said(BudgetLimit::WallTime, &[0.0, 0.02, 59.9, 840.0, 43_200.0, 45_240.0, f64::INFINITY]),
            @"0 s, 20 ms, 59 s, 14 min, 12 h, 12 h 34 min, 5124095576030431 h"
        );
    }
}
