//! Operations on the budget: counting time, stopping at a limit, allowing more.

use super::*;

/// More money than any plan costs, in US dollars.
const MAX_COST: f64 = 1e12;

/// Adds up money amounts from outside; the sum stays a number that can be stored.
pub(super) fn money(sum: f64, more: f64) -> f64 {
    if more > 0.0 {
        (sum + more).min(MAX_COST)
    } else {
        sum
    }
}

impl Draft<'_> {
    /// Records how much of its active time a daemon has spent on the plan. Time that is already recorded is not counted again.
    pub fn count_time(&mut self, lived: ActiveTime) {
        let usage = self.plan.head().usage;
        if !usage.unrecorded(lived).is_zero() {
            self.change_head(|head| {
                head.usage.wall_time = usage.wall_time(lived);
                head.usage.lived = lived;
            });
        }
    }

    /// Pauses a running plan because a limit of its budget is reached, and asks a human to allow more or to end the plan. An
    /// open question about the same limit stays open; one about another limit is closed.
    ///
    /// # Errors
    /// The plan does not run.
    pub fn stop_at_budget(&mut self, limit: BudgetLimit) -> Result {
        refuse_if(*self.plan.status() != PlanState::Running, self.plan_is())?;
        let lived = self.plan.head().usage.lived;
        let reason = format!("budget: {} used", self.plan.used_of(limit, lived));
        self.close_questions(
            "another limit is reached",
            |question| matches!(question.about, HumanQuestionKind::Budget(other) if other != limit),
        );
        self.pause(&reason)?;
        let more = limit.counted(self.plan.head().policy.budget.set(limit).unwrap_or(0.0));
        let asked = format!("{reason}; nothing new starts. `more` allows another {more}");
        self.ask(HumanQuestionKind::Budget(limit), None, &asked)
    }

    /// Allows the budget's amount once more, counted from what is used now, and resumes the plan.
    pub(super) fn allow_more(&mut self, question: &HumanQuestion) -> Result {
        let lived = self.plan.head().usage.lived;
        match question.about {
            HumanQuestionKind::Budget(limit) => {
                if let Some(allowed) = self.plan.allowed(limit) {
                    // The amount of the budget itself is added to this.
                    let granted = allowed.max(self.plan.used(limit, lived));
                    self.change_head(|head| head.granted.extend([(limit, granted)]));
                }
            }
            HumanQuestionKind::DayBudget(limit) => self.allow_more_of_day(limit),
            _ => return Ok(()),
        }
        match self.plan.status() {
            PlanState::Paused(_) => self.resume(),
            _ => Ok(()),
        }
    }

    /// Closes the questions about limits that are no longer used up because the budget was raised.
    pub(super) fn close_budget_questions(&mut self) {
        let lived = self.plan.head().usage.lived;
        let used_up = BudgetLimit::ALL.map(|limit| (limit, self.plan.is_used_up(limit, lived)));
        self.close_questions("the budget allows more now", |question| {
            matches!(question.about, HumanQuestionKind::Budget(limit) if used_up.contains(&(limit, false)))
        });
    }

    /// Refuses what a limit forbids, if one does.
    pub(super) fn within_budget(&self, stopped: Option<BudgetLimit>) -> Result {
        let lived = self.plan.head().usage.lived;
        let used_up = |limit| Err(Refusal::UsedUp(self.plan.used_of(limit, lived)));
        stopped.map_or(Ok(()), used_up)
    }
}
