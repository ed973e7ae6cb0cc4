//! The signals that end a process from outside.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use super::failure::Exit;

/// Takes Ctrl-C and requests to terminate from now on; the future resolves at the first, with the exit code that the process
/// ends with then. Call it before others can see that the process works: what comes earlier ends it without a word.
pub fn ended() -> impl Future<Output = Exit> {
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    async {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = signals else {
            // Without handlers the signals end the process by themselves, and nothing is lost by that either.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
            _ = hangup.recv() => Exit::Terminated,
        }
    }
}
