//! Notifies listeners when the served plan has changed, whichever process changed it. No task runs while there are no
//! listeners.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::mcp_server::SharedState;
use crate::plan::PlanId;
use crate::volumes::Watch;

/// How often the plan is read without any event: where files cannot be watched, this is the only way.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The plan and its seq; `None` without a plan.
pub(super) type Seen = Option<(PlanId, i64)>;

/// The channel in which the task that reads the plan announces its seq, while that task runs.
pub(super) type Announcer = Mutex<Option<watch::Sender<Seen>>>;

impl SharedState {
    /// Begins to listen: the receiver changes with every later change of the plan. Several changes between two reads may become
    /// one.
    pub(super) async fn listen(self: &Arc<Self>) -> watch::Receiver<Seen> {
        // The order matters: a change between these two lines is announced twice instead of never.
        let moved = self.served.toolbox.store().moved();
        let seen = self.read_seq().await;
        let mut announce = self.announce.lock();
        if let Some(running) = announce.as_ref() {
            return running.subscribe();
        }
        let (sender, receiver) = watch::channel(seen);
        *announce = Some(sender.clone());
        tokio::spawn(Arc::clone(self).run(sender, moved));
        receiver
    }

    async fn run(self: Arc<Self>, announce: watch::Sender<Seen>, mut moved: watch::Receiver<u64>) {
        let stored = Arc::new(Notify::new());
        let _watch = Watch::for_server(&self.served.volumes, Arc::clone(&stored));
        loop {
            let seen = self.read_seq().await;
            announce.send_if_modified(|last| {
                let modified = *last != seen;
                *last = seen;
                modified
            });
            tokio::select! {
                () = announce.closed() => {
                    let mut running = self.announce.lock();
                    // A new listener may have come in between.
                    if announce.receiver_count() == 0 {
                        *running = None;
                        return;
                    }
                }
                () = stored.notified() => {}
                changed = moved.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Reads the plan and its seq. A failure of the store counts as no plan; the next read may succeed.
    async fn read_seq(&self) -> Seen {
        let toolbox = &self.served.toolbox;
        let plan = toolbox.latest(&self.served.dialects).await.ok()??;
        let seq = toolbox.store().read(&plan, |_, seq| seq).await.ok()?;
        Some((plan, seq))
    }
}
