//! Notifies listeners when the served plan has changed, whichever process changed it. No task runs while there are no
//! listeners.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::mcp_server::SharedState;
use crate::plan::PlanId;
use crate::volumes::{READ_AGAIN, StoreChanges};

/// The plan and its seq; `None` without a plan.
pub(super) type Seen = Option<(PlanId, i64)>;

/// The channel in which the task that reads the plan announces its seq, while that task runs.
pub(super) type Announcer = Mutex<Option<watch::Sender<Seen>>>;

impl SharedState {
    /// Begins to listen: the receiver changes with every later change of the plan. Several changes between two reads may become
    /// one.
    pub(super) async fn listen(self: &Arc<Self>) -> watch::Receiver<Seen> {
        let seen = self.read_seq().await;
        let mut announce = self.announce.lock();
        if let Some(running) = announce.as_ref() {
            return running.subscribe();
        }
        let (sender, receiver) = watch::channel(seen);
        *announce = Some(sender.clone());
        tokio::spawn(Arc::clone(self).run(sender));
        receiver
    }

    async fn run(self: Arc<Self>, announce: watch::Sender<Seen>) {
        let moved = self.served.toolbox.store().moved();
        let mut changes = StoreChanges::of(moved, &self.served.volumes);
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
                () = changes.wait(READ_AGAIN) => {}
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
