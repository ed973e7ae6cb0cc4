//! Tells whoever listens that the plan which is served has moved, whichever process changed it. Nothing runs while nobody
//! listens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::plan::PlanId;
use crate::tools::{Dialect, Toolbox};
use crate::volumes::{Volumes, Watch};

/// How often the plan is looked at without any event: where files cannot be watched, that is all there is.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The plan and its seq; `None` without a plan.
type Seen = Option<(PlanId, i64)>;

/// The plan that is served, for those who want to know when it moves.
#[derive(Debug)]
pub(super) struct News {
    toolbox: Toolbox,
    dialects: Arc<[Dialect]>,
    volumes: Volumes,
    /// Where the task that looks announces what it sees, while it runs.
    announce: Mutex<Option<watch::Sender<Seen>>>,
}

impl News {
    pub(super) fn new(toolbox: Toolbox, dialects: Arc<[Dialect]>, volumes: Volumes) -> Self {
        Self {
            toolbox,
            dialects,
            volumes,
            announce: Mutex::default(),
        }
    }

    /// Begins to listen: the receiver changes with every move after this. Between two looks several may become one.
    pub(super) async fn listen(self: &Arc<Self>) -> watch::Receiver<Seen> {
        // Before the look: what comes between the two is announced once too often rather than never.
        let moved = self.toolbox.store().moved();
        let seen = self.look().await;
        let mut announce = self.announce.lock().unwrap_or_else(PoisonError::into_inner);
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
        let _watch = Watch::for_server(&self.volumes, Arc::clone(&stored));
        loop {
            let seen = self.look().await;
            announce.send_if_modified(|last| {
                let modified = *last != seen;
                *last = seen;
                modified
            });
            tokio::select! {
                () = announce.closed() => {
                    let mut running = self.announce.lock().unwrap_or_else(PoisonError::into_inner);
                    // Somebody may have come in between.
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

    /// A failure of the store counts as no plan; the next look may do better.
    async fn look(&self) -> Seen {
        let plan = self.toolbox.latest(&self.dialects).await.ok()??;
        let seq = self.toolbox.store().read(&plan, |_, seq| seq).await.ok()?;
        Some((plan, seq))
    }
}
