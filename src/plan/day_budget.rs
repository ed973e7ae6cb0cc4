//! The budget of a day over all plans: what they used since midnight stops each plan, until the day ends or a person allows
//! more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::draft::{Result, refuse_if};
use super::*;

/// How the reason of a pause by the day's budget begins.
const REASON: &str = "budget of the day:";

/// What all plans may use in a day before a human is asked; `None` sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DayBudget {
    pub llm_calls: Option<u64>,
    pub llm_tokens: Option<u64>,
    pub cost_usd: Option<f64>,
}

impl DayBudget {
    /// Returns whether there is no limit.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn set(&self, limit: BudgetLimit) -> Option<f64> {
        match limit {
            BudgetLimit::LlmCalls => self.llm_calls.map(number),
            BudgetLimit::LlmTokens => self.llm_tokens.map(number),
            BudgetLimit::CostUsd => self.cost_usd,
            BudgetLimit::WallTime | BudgetLimit::Attempts => None,
        }
    }
}

/// The day that a daemon observes.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetDay {
    /// What all plans have used in it.
    pub spent: Spent,
    pub ends: Time,
    /// Its end as a person reads it.
    pub ends_text: String,
}

impl BudgetDay {
    fn used(&self, limit: BudgetLimit) -> f64 {
        match limit {
            BudgetLimit::LlmCalls => number(self.spent.llm_calls),
            BudgetLimit::LlmTokens => number(self.spent.llm_tokens),
            BudgetLimit::CostUsd => number(self.spent.micro_usd) / 1e6,
            BudgetLimit::WallTime | BudgetLimit::Attempts => 0.0,
        }
    }
}

/// The amounts of a day up to which a plan goes on beyond the configured ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DayGrant {
    /// The end of the day.
    pub ends: Time,
    pub amounts: Granted,
    /// What was used at the last stop: an answer adds to this.
    #[serde(default)]
    pub used: Granted,
    /// What the plan had used, and how often it had begun something, when a person allowed more.
    #[serde(default)]
    pub at_more: BTreeMap<BudgetLimit, (f64, usize)>,
}

impl Plan {
    fn day_allowed(&self, limit: BudgetLimit, ends: Time) -> Option<f64> {
        let set = self.head().policy.day.set(limit)?;
        let granted = self.granted_of_day(ends);
        let granted = granted.and_then(|grant| grant.amounts.get(&limit).copied());
        Some(granted.map_or(set, |granted| granted.max(set)))
    }

    fn granted_of_day(&self, ends: Time) -> Option<&DayGrant> {
        let grant = self.head().day_grant.as_deref();
        grant.filter(|grant| grant.ends == ends)
    }

    /// Returns the limit of the day that keeps the plan from beginning anything. Without a model only money counts.
    pub fn day_reached(&self, day: &BudgetDay) -> Option<BudgetLimit> {
        let model = self.head().policy.model;
        let mut limits = BudgetLimit::ALL.into_iter();
        limits.find(|limit| {
            let counts = model || *limit == BudgetLimit::CostUsd;
            let allowed = self.day_allowed(*limit, day.ends).filter(|_| counts);
            allowed.is_some_and(|allowed| day.used(*limit) >= allowed)
        })
    }

    /// Returns how many calls of the model the day allows after the next one.
    ///
    /// # Errors
    /// It allows none.
    pub fn take_call_of_day(&self, day: &BudgetDay) -> Result<u32> {
        if let Some(limit) = self.day_reached(day) {
            let allowed = self.day_allowed(limit, day.ends).unwrap_or(0.0);
            let (used, allowed) = (limit.amount(day.used(limit)), limit.counted(allowed));
            return Err(Refusal::UsedUp(format!("{used} of {allowed} of the day")));
        }
        let limit = BudgetLimit::LlmCalls;
        let left = self.day_allowed(limit, day.ends);
        // Saturates at both ends.
        let left = left.map(|allowed| (allowed - day.used(limit)) as u32);
        Ok(left.map_or(u32::MAX, |left| left.saturating_sub(1)))
    }

    /// Returns whether a person allowed more of a limit of the day, and the plan has begun nothing since: what other plans used
    /// meanwhile does not count against that.
    fn used_nothing_of_more(&self, limit: BudgetLimit, ends: Time) -> bool {
        let grant = self.granted_of_day(ends);
        grant.and_then(|grant| grant.at_more.get(&limit)) == Some(&self.used_and_begun(limit))
    }

    fn used_and_begun(&self, limit: BudgetLimit) -> (f64, usize) {
        let begun = self.attempts().count() + self.asks().count();
        (self.used(limit, ActiveTime::default()), begun)
    }

    /// Returns whether a limit of the day has paused the plan, and no person since.
    pub fn is_stopped_by_day(&self) -> bool {
        matches!(self.status(), PlanState::Paused(reason) if reason.starts_with(REASON))
    }

    /// Returns whether a human is asked for more of the day's budget.
    pub fn asks_for_day(&self) -> bool {
        self.open_questions().any(is_of_day)
    }
}

fn is_of_day(question: &HumanQuestion) -> bool {
    matches!(question.about, HumanQuestionKind::DayBudget(_))
}

impl Draft<'_> {
    /// Pauses a running plan because a limit of the day is reached, and asks a human to allow more or to end the plan.
    ///
    /// # Errors
    /// The plan does not run.
    pub fn stop_at_day_budget(&mut self, limit: BudgetLimit, day: &BudgetDay) -> Result {
        refuse_if(*self.plan().status() != PlanState::Running, self.plan_is())?;
        let (used, ends) = (day.used(limit), day.ends);
        let allowed = self.plan().day_allowed(limit, ends).unwrap_or(0.0);
        let portion = self.plan().head().policy.day.set(limit).unwrap_or(0.0);
        if self.plan().used_nothing_of_more(limit, ends) {
            self.change_day_grant(|grant| {
                grant.amounts.insert(limit, used + portion);
            });
            return Ok(());
        }
        let (amount, counted) = (limit.amount(used), limit.counted(allowed));
        let reason = format!(
            "{REASON} {amount} of {counted} used by all plans; it goes on at {}",
            day.ends_text
        );
        self.close_questions("another limit is reached", |question| {
            is_of_day(question) && question.about != HumanQuestionKind::DayBudget(limit)
        });
        self.change_head(|head| {
            let same = head.day_grant.take().filter(|grant| grant.ends == ends);
            let mut grant = same.unwrap_or_default();
            grant.ends = ends;
            grant.used.insert(limit, used);
            head.day_grant = Some(grant);
        });
        self.pause(&reason)?;
        let more = limit.counted(portion);
        let asked = format!("{reason}. `more` allows this plan another {more}");
        self.ask(HumanQuestionKind::DayBudget(limit), None, &asked)
    }

    /// Allows the day's amount once more, counted from what was used at the stop.
    pub(super) fn allow_more_of_day(&mut self, limit: BudgetLimit) {
        let portion = self.plan().head().policy.day.set(limit).unwrap_or(0.0);
        let now = self.plan().used_and_begun(limit);
        self.change_day_grant(|grant| {
            if let Some(used) = grant.used.get(&limit) {
                grant.amounts.insert(limit, used + portion);
                grant.at_more.insert(limit, now);
            }
        });
    }

    fn change_day_grant(&mut self, change: impl FnOnce(&mut DayGrant)) {
        self.change_head(|head| {
            if let Some(grant) = &mut head.day_grant {
                change(grant);
            }
        });
    }

    /// Pauses a plan that the day's budget stopped beyond the end of the day.
    ///
    /// # Errors
    /// As [`Draft::pause`].
    pub fn pause_beyond_day(&mut self, reason: &str) -> Result {
        self.close_questions("the plan is paused", is_of_day);
        self.pause(reason)
    }

    /// Lets a plan go on that the day's budget stopped; one that a person paused meanwhile stays so.
    ///
    /// # Errors
    /// As [`Draft::resume`].
    pub fn go_on_after_day(&mut self) -> Result {
        self.close_questions("the budget of the day allows more now", is_of_day);
        if self.plan().is_stopped_by_day() {
            self.resume()?;
        }
        Ok(())
    }
}
