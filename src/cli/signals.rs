//! The signals that end a process from outside.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, Failure, Result};

/// Another program has the terminal.
static LENT: AtomicBool = AtomicBool::new(false);

/// As long as this lives, Ctrl-C is meant for another program on the terminal.
pub struct LentTerminal(());

/// Lends the terminal to another program: the terminal sends Ctrl-C to both, and editors have a meaning of their own for it.
pub fn lend_terminal() -> LentTerminal {
    LENT.store(true, Ordering::Relaxed);
    LentTerminal(())
}

impl Drop for LentTerminal {
    fn drop(&mut self) {
        LENT.store(false, Ordering::Relaxed);
    }
}

/// Resolves once, at the first signal, with the exit code that the process ends with then.
pub type Ended = Pin<Box<dyn Future<Output = Exit>>>;

/// Takes Ctrl-C and requests to terminate from now on. Call it before anything else: what comes earlier ends the process without
/// a word.
pub fn ended() -> Ended {
    use SignalKind as Kind;
    let signals = [Kind::interrupt(), Kind::terminate(), Kind::hangup()].map(signal);
    Box::pin(async {
        let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else {
            // Without handlers the signals end the process by themselves, and nothing is lost by that either.
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => {
                    if !LENT.load(Ordering::Relaxed) {
                        return Exit::Interrupted;
                    }
                }
                _ = terminate.recv() => return Exit::Terminated,
                _ = hangup.recv() => return Exit::Terminated,
            }
        }
    })
}

/// Does what comes before there is anything to stop, unless a signal ends it; `hint` is printed then.
///
/// # Errors
/// Those of the work, or the signal as the end of the command.
pub async fn unless<T>(
    ended: &mut Ended,
    hint: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        exit = ended => Err(Failure::stopped(exit, hint)),
        done = work => done,
    }
}

/// Does work that blocks in a thread of its own, so that signals are received meanwhile.
///
/// # Errors
/// Those of the work.
pub async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}
