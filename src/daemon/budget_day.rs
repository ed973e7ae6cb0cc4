//! The day whose budget holds over all plans: from midnight to midnight where the machine is.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use crate::plan::{BudgetDay, Time};
use crate::store::{Store, StoreError};

/// Returns the day of a moment, and what all plans have used in it; `None` for a time that is none.
///
/// # Errors
/// A failure of the database.
pub(super) async fn of(store: &Store, now: Time) -> Result<Option<BudgetDay>, StoreError> {
    let Some((begins, ends)) = bounds(now, TimeZone::system()) else {
        return Ok(None);
    };
    Ok(Some(BudgetDay {
        spent: store.spent_since(time(&begins)).await?,
        ends: time(&ends),
        ends_text: ends.strftime("%Y-%m-%d %H:%M").to_string(),
    }))
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
