//! A moment, as the plans keep it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A time of the plan: microseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// Returns the time `span` later, limited to the greatest time.
    pub fn plus(self, span: Duration) -> Self {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(span))
    }

    /// Returns how long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}
