//! The day whose budget holds over all plans: from midnight to midnight where the machine is.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use super::{Result, Store};
use crate::plan::{BudgetDay, Draft, PlanId, Refusal, Time};

impl Store {
    /// Returns the day of a moment, and what all plans have used in it; `None` for a time that is none.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn budget_day(&self, now: Time) -> Result<Option<BudgetDay>> {
        let Some((begins, ends)) = bounds(now, TimeZone::system()) else {
            return Ok(None);
        };
        Ok(Some(BudgetDay {
            spent: self.spent_since(time(&begins)).await?,
            ends: time(&ends),
            ends_text: ends.strftime("%Y-%m-%d %H:%M").to_string(),
        }))
    }

    /// As [`Store::change`], for a change that counts a call of the model before it is made. Such changes of a process come one
    /// after the other: of two plans, one gets the last call of the day. The closure also gets how many calls of the day are
    /// left after this one.
    ///
    /// # Errors
    /// As [`Store::change`]; a refusal also if the budget of the day allows no call.
    pub async fn begin_call<T: Send + 'static>(
        &self,
        plan: &PlanId,
        [by, why]: [&str; 2],
        change: impl FnOnce(&mut Draft<'_>, u32) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        let _turn = self.calls.lock().await;
        let now = self.with(|owner| Ok(owner.now())).await?;
        let day = self.budget_day(now).await?;
        let begin = move |draft: &mut Draft<'_>| {
            let left = match &day {
                Some(day) => draft.plan().take_call_of_day(day)?,
                None => u32::MAX,
            };
            change(draft, left)
        };
        self.change(plan, by, why, begin).await
    }
}

fn bounds(now: Time, zone: TimeZone) -> Option<(Zoned, Zoned)> {
    let now = Timestamp::from_microsecond(now.0).ok()?.to_zoned(zone);
    let begins = now.start_of_day().ok()?;
    let ends = begins.checked_add(1.day()).ok()?.start_of_day().ok()?;
    Some((begins, ends))
}

fn time(moment: &Zoned) -> Time {
    Time(moment.timestamp().as_microsecond())
}
