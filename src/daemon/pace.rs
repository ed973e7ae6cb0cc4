//! Keeps acts that fail from being repeated at once, and one and the same trouble from being told again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Key;
use crate::plan::Time;

/// The wait after the first failure; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(250);

/// The longest wait: what was full or read-only goes on within five seconds of being mended.
const LONGEST: Duration = Duration::from_secs(4);

#[derive(Debug, Default)]
pub(super) struct Pace {
    waits: BTreeMap<Key, (u32, Time)>,
    told: BTreeMap<String, String>,
}

impl Pace {
    /// Tells whether an act may be started.
    pub fn ready(&self, key: &Key, now: Time) -> bool {
        self.waits.get(key).is_none_or(|(_, until)| *until <= now)
    }

    /// Returns when the next act that waits may be started.
    pub fn next(&self, now: Time) -> Option<Time> {
        self.waits
            .values()
            .map(|(_, until)| *until)
            .filter(|until| *until > now)
            .min()
    }

    /// Lets an act that failed wait.
    pub fn failed(&mut self, key: &Key, now: Time) {
        let (times, until) = self.waits.entry(key.clone()).or_insert((0, now));
        *until = now.plus(LONGEST.min(FIRST * 2u32.saturating_pow(*times)));
        *times += 1;
    }

    /// Forgets that an act ever failed.
    pub fn succeeded(&mut self, key: &Key) {
        self.waits.remove(key);
        if self.waits.is_empty() {
            self.told.clear();
        }
    }

    /// Tells whether a trouble has not been told since it began.
    pub fn new_trouble(&mut self, what: &str, error: &str) -> bool {
        self.told
            .insert(what.to_owned(), error.to_owned())
            .as_deref()
            != Some(error)
    }
}
