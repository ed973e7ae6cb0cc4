//! The signals that end a process from outside.

use tokio::signal::unix::{SignalKind, signal};

use super::failure::Exit;

/// Waits for Ctrl-C or a request to terminate, and returns with which exit code the process ends then.
pub async fn ended() -> Exit {
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        // Without handlers the signals end the process by themselves, and nothing is lost by that either.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => Exit::Interrupted,
        _ = terminate.recv() => Exit::Terminated,
        _ = hangup.recv() => Exit::Terminated,
    }
}
