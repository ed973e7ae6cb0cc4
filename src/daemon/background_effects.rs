//! Effects: what runs beside the loop, each at most once at a time. An effect that fails waits before it is started
//! again, and the same trouble is reported only once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::future::{Future, pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use tokio::task::{Id, JoinError, JoinSet};

use crate::plan::Time;
use crate::store::Store;

/// The wait after the first failure; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(250);

/// The longest wait: a disk that was full or read-only is used again within five seconds of its repair.
const LONGEST: Duration = Duration::from_secs(4);

/// The most troubles of which it is known that a person was told.
const MOST_REPORTED: usize = 1_000;

/// Effects by their keys, whose texts say what they do; each returns a `D`.
pub(super) struct Effects<K, D> {
    running: JoinSet<Result<D>>,
    keys: HashMap<Id, K>,
    /// Also effects that have ended, until the caller says how: their results may have to be committed first.
    under_way: BTreeSet<K>,
    waits: BTreeMap<K, (u32, Time)>,
    reported: BTreeSet<String>,
    /// Reports trouble to a person.
    notice: Arc<dyn Fn(&str) + Send + Sync>,
    /// Whether an effect may begin: the lease of its plan is certain.
    store: Store,
}

/// Why an effect does not begin.
const NOT_CERTAIN: &str =
    "the lease of the plan was not renewed in time: it waits for the plan store";

impl<K: Clone + Ord + Display, D: Send + 'static> Effects<K, D> {
    pub fn new(notice: Arc<dyn Fn(&str) + Send + Sync>, store: Store) -> Self {
        Self {
            store,
            running: JoinSet::new(),
            keys: HashMap::new(),
            under_way: BTreeSet::new(),
            waits: BTreeMap::new(),
            reported: BTreeSet::new(),
            notice,
        }
    }

    /// Starts an effect unless it is under way or has just failed.
    pub fn start(
        &mut self,
        key: K,
        now: Time,
        effect: impl Future<Output = Result<D>> + Send + 'static,
    ) {
        if self.may_start(&key, now) {
            let store = self.store.clone();
            let mut effect = Box::pin(effect);
            // At each of its steps: this process may have been stopped since the last one.
            let effect = poll_fn(move |context| match store.holds() {
                true => effect.as_mut().poll(context),
                false => Poll::Ready(Err(anyhow!(NOT_CERTAIN))),
            });
            self.keys.insert(self.running.spawn(effect).id(), key);
        }
    }

    /// As [`Self::start`], for an effect that blocks; it begins immediately, even while the loop is busy.
    pub fn start_blocking(
        &mut self,
        key: K,
        now: Time,
        effect: impl FnOnce() -> Result<D> + Send + 'static,
    ) {
        if self.may_start(&key, now) {
            let store = self.store.clone();
            let effect = move || {
                ensure!(store.holds(), NOT_CERTAIN);
                effect()
            };
            let id = self.running.spawn_blocking(effect).id();
            self.keys.insert(id, key);
        }
    }

    fn may_start(&mut self, key: &K, now: Time) -> bool {
        self.is_ready(key, now) && self.under_way.insert(key.clone())
    }

    /// Returns whether an effect failed when it was tried last.
    pub fn fails(&self, key: &K) -> bool {
        self.waits.contains_key(key)
    }

    /// Returns whether an effect has not failed, or has waited long enough since.
    pub fn is_ready(&self, key: &K, now: Time) -> bool {
        self.waits.get(key).is_none_or(|(_, until)| *until <= now)
    }

    /// Returns when the next effect that waits may be started.
    pub fn next_ready(&self, now: Time) -> Option<Time> {
        let waits = self.waits.values().map(|(_, until)| *until);
        waits.filter(|until| *until > now).min()
    }

    pub fn under_way(&self) -> &BTreeSet<K> {
        &self.under_way
    }

    /// Waits until an effect ends, for ever if none runs. A dropped future loses no result.
    pub async fn next(&mut self) -> (K, Result<D>) {
        while let Some(done) = self.running.join_next_with_id().await {
            if let Some(ended) = self.ended(done) {
                return ended;
            }
        }
        pending().await
    }

    /// Returns an effect that has ended, if one has.
    pub fn try_next(&mut self) -> Option<(K, Result<D>)> {
        let done = self.running.try_join_next_with_id()?;
        self.ended(done)
    }

    fn ended(&mut self, done: Result<(Id, Result<D>), JoinError>) -> Option<(K, Result<D>)> {
        let (id, result) = match done {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(error.into())),
        };
        Some((self.keys.remove(&id)?, result))
    }

    /// Ends every effect that still runs.
    pub async fn shut_down(&mut self) {
        self.running.shutdown().await;
    }

    /// Lets an effect that has ended be started again; a wait after its failures stays.
    pub fn over(&mut self, key: &K) {
        self.under_way.remove(key);
    }

    /// Lets an effect be started again immediately, as if it had never failed.
    pub fn succeeded(&mut self, key: &K) {
        self.over(key);
        self.waits.remove(key);
        if self.waits.is_empty() {
            self.reported.clear();
        }
    }

    /// Lets an effect wait before it is started again.
    pub fn hold_back(&mut self, key: &K, now: Time) {
        self.over(key);
        let (times, until) = self.waits.entry(key.clone()).or_insert((0, now));
        *until = now.plus(LONGEST.min(FIRST * 2u32.saturating_pow(*times)));
        *times += 1;
    }

    /// As [`Self::hold_back`], and reports why.
    pub fn failed(&mut self, key: &K, now: Time, error: &str) {
        self.hold_back(key, now);
        self.trouble(key, error);
    }

    /// Reports a trouble, unless that was done since it began.
    pub fn trouble(&mut self, what: impl Display, error: impl Display) {
        let (what, error) = (what.to_string(), error.to_string());
        tracing::error!(what, error);
        let text = format!("{what}: {error}; trying again");
        if self.reported.len() >= MOST_REPORTED {
            self.reported.clear();
        }
        if self.reported.insert(text.clone()) {
            (self.notice)(&text);
        }
    }
}
