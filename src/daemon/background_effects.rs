//! What runs beside a loop, each thing at most once at a time. One that fails waits before it is started again, and one and the
//! same trouble is not reported again and again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};

use crate::plan::Time;

/// The wait after the first failure; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(250);

/// The longest wait: what was full or read-only goes on within five seconds of being mended.
const LONGEST: Duration = Duration::from_secs(4);

/// Acts by their keys, which say in words what they do; each comes back with a `D`.
pub(super) struct Effects<K, D> {
    running: JoinSet<anyhow::Result<D>>,
    keys: HashMap<Id, K>,
    /// Also those that have ended, until it is said how: what they came back with may have to be committed first.
    under_way: BTreeSet<K>,
    waits: BTreeMap<K, (u32, Time)>,
    reported: BTreeMap<String, String>,
    /// Reports trouble to a person.
    notice: Arc<dyn Fn(&str) + Send + Sync>,
}

impl<K: Clone + Ord + Display, D: Send + 'static> Effects<K, D> {
    pub fn new(notice: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        Self {
            running: JoinSet::new(),
            keys: HashMap::new(),
            under_way: BTreeSet::new(),
            waits: BTreeMap::new(),
            reported: BTreeMap::new(),
            notice,
        }
    }

    /// Starts an act unless it is under way or has just failed.
    pub fn start(
        &mut self,
        key: K,
        now: Time,
        act: impl Future<Output = anyhow::Result<D>> + Send + 'static,
    ) {
        if self.may_start(&key, now) {
            let id = self.running.spawn(act).id();
            self.keys.insert(id, key);
        }
    }

    /// As [`Self::start`], for an act that blocks; it begins at once, even while the loop is busy.
    pub fn start_blocking(
        &mut self,
        key: K,
        now: Time,
        act: impl FnOnce() -> anyhow::Result<D> + Send + 'static,
    ) {
        if self.may_start(&key, now) {
            let id = self.running.spawn_blocking(act).id();
            self.keys.insert(id, key);
        }
    }

    fn may_start(&mut self, key: &K, now: Time) -> bool {
        self.is_ready(key, now) && self.under_way.insert(key.clone())
    }

    /// Returns whether an act that failed has waited long enough.
    pub fn is_ready(&self, key: &K, now: Time) -> bool {
        self.waits.get(key).is_none_or(|(_, until)| *until <= now)
    }

    /// Returns when the next act that waits may be started.
    pub fn next_ready(&self, now: Time) -> Option<Time> {
        let waits = self.waits.values().map(|(_, until)| *until);
        waits.filter(|until| *until > now).min()
    }

    pub fn under_way(&self) -> &BTreeSet<K> {
        &self.under_way
    }

    /// Waits until an act ends, for ever if none runs. Whoever drops this loses nothing.
    pub async fn next(&mut self) -> (K, anyhow::Result<D>) {
        loop {
            let Some(done) = self.running.join_next_with_id().await else {
                return pending().await;
            };
            if let Some(ended) = self.ended(done) {
                return ended;
            }
        }
    }

    /// Returns an act that has ended, if there is one.
    pub fn try_next(&mut self) -> Option<(K, anyhow::Result<D>)> {
        let done = self.running.try_join_next_with_id()?;
        self.ended(done)
    }

    fn ended(
        &mut self,
        done: Result<(Id, anyhow::Result<D>), JoinError>,
    ) -> Option<(K, anyhow::Result<D>)> {
        let (id, result) = match done {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(error.into())),
        };
        Some((self.keys.remove(&id)?, result))
    }

    /// Ends every act that still runs.
    pub async fn shut_down(&mut self) {
        self.running.shutdown().await;
    }

    /// Lets an act be started again that has ended, whatever came of it.
    pub fn over(&mut self, key: &K) {
        self.under_way.remove(key);
    }

    /// Lets an act be started again at once, as if it had never failed.
    pub fn succeeded(&mut self, key: &K) {
        self.over(key);
        self.waits.remove(key);
        if self.waits.is_empty() {
            self.reported.clear();
        }
    }

    /// Lets an act wait before it is started again.
    pub fn hold_back(&mut self, key: &K, now: Time) {
        self.over(key);
        let (times, until) = self.waits.entry(key.clone()).or_insert((0, now));
        *until = now.plus(LONGEST.min(FIRST * 2u32.saturating_pow(*times)));
        *times += 1;
    }

    /// As [`Self::hold_back`], and reports why.
    pub fn failed(&mut self, key: &K, now: Time, error: &str) {
        self.hold_back(key, now);
        self.trouble(&key.to_string(), error);
    }

    /// Reports a trouble, unless that was done since it began.
    pub fn trouble(&mut self, what: &str, error: &str) {
        tracing::error!(what, error);
        let before = self.reported.insert(what.to_owned(), error.to_owned());
        if before.as_deref() != Some(error) {
            (self.notice)(&format!("{what}: {error}; trying again"));
        }
    }
}
