//! The signals that end a process from outside.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use super::failure::Exit;

/// Listens from now on for Ctrl-C and for a request to terminate; resolves with the exit code that the process ends with
/// then.
pub fn ended() -> impl Future<Output = Exit> {
    let listening = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    async {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = listening else {
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
