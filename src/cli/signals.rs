//! The signals that end a process from outside.

use std::future::Future;
use std::pin::Pin;

use tokio::signal::unix::{SignalKind, signal};

use super::failure::{Exit, Failure};

/// Resolves once, at the first signal, with the exit code that the process ends with then.
pub type Ended = Pin<Box<dyn Future<Output = Exit>>>;

/// Takes Ctrl-C and requests to terminate from now on. Call it before anything else: what comes earlier ends the process without
/// a word.
pub fn ended() -> Ended {
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    Box::pin(async {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = signals else {
            // Without handlers the signals end the process by themselves, and nothing is lost by that either.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
            _ = hangup.recv() => Exit::Terminated,
        }
    })
}

/// Does what comes before there is anything to stop, unless a signal ends it; `hint` says what is to be known then.
///
/// # Errors
/// Those of the work, or the signal as the end of the command.
pub async fn unless<T>(
    ended: &mut Ended,
    hint: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        exit = ended => Err(Failure::stopped(exit, hint)),
        done = work => done,
    }
}

/// Does work that blocks in a thread of its own, so that signals are heard meanwhile.
///
/// # Errors
/// Those of the work.
pub async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(Failure::failed)?
}
