//! Until when commands are a relay's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::LOOK;
use crate::plan::CommandId;
use crate::plan_time::since_boot;

/// How long a command is a relay's after it has said that it lives; `relay_functions.sql` has the same number.
pub(super) const CLAIM: Duration = Duration::from_secs(60);

/// So long before the end of that its agent is asked to stop: another relay may take the command then.
pub(super) const MARGIN: Duration = Duration::from_secs(10);

/// Until when commands are the relay's, by the clock since boot. Clones share it: claims end while the server is asked, too.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(pub(super) Arc<Mutex<BTreeMap<CommandId, Duration>>>);

impl Claims {
    pub fn set(&self, id: &CommandId, until: Duration) {
        self.0.lock().insert(id.clone(), until);
    }

    /// Returns until when a command is the relay's; one that an earlier process had counts from now on.
    pub fn of(&self, id: &CommandId) -> Duration {
        let mut claims = self.0.lock();
        *claims.entry(id.clone()).or_insert(since_boot() + CLAIM)
    }

    pub fn forget(&self, id: &CommandId) {
        self.0.lock().remove(id);
    }

    /// Resolves when an agent is to be stopped.
    pub async fn soon_over(&self) {
        loop {
            let first = self.0.lock().values().min().copied();
            let left = first.map(|until| until.saturating_sub(since_boot() + MARGIN));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            sleep(left.unwrap_or(LOOK).min(LOOK)).await;
        }
    }
}
