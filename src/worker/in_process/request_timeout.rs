//! How long a role waits for another one. Time counts while this process runs and the role that is asked has nothing else to do
//! and still does not take the request up, and from then on anew while a lane works on it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::SharedContext;
use crate::plan::{CommandId, Time};
use crate::plan_time::{Clock, TimeAllowance, time_of};
use crate::role::{RequestId, RoleId};
use crate::volumes::{CommandPlace, Volumes};

/// After a restart at least so long is waited on: an answer that came meanwhile has to be taken in first.
const GRACE: Duration = Duration::from_secs(10);
/// An answer that lies there when the time is over is waited for so long: the daemon takes it in.
const LATE_ANSWER: Duration = Duration::from_secs(10);

/// Whether time passes while the answer to a request is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestWait {
    /// It does: a lane works on the request, or could take it.
    Runs { taken: bool },
    /// It does not: the role does something else first, a person is asked, or a usage limit has to end.
    Rests,
}

/// What is left of the time for one request.
#[derive(Debug)]
pub(super) struct RequestTimeout {
    pub request: RequestId,
    whole: Duration,
    left: TimeAllowance,
    /// The lane that takes the request up has the whole time for it.
    taken: bool,
    /// The time is over, but an answer lies there.
    late: bool,
}

impl RequestTimeout {
    pub fn new(request: RequestId, whole: Duration) -> Self {
        Self {
            request,
            whole,
            left: TimeAllowance::new(whole),
            taken: false,
            late: false,
        }
    }

    /// Returns whether the wait is over, where an answer that lies there already is waited for a little longer.
    pub fn over(&mut self, hold: RequestWait, has_answer: impl FnOnce() -> bool) -> bool {
        let RequestWait::Runs { taken } = hold else {
            return false;
        };
        if taken && !self.taken {
            (self.taken, self.late) = (true, false);
            self.left = TimeAllowance::new(self.whole);
        }
        let over = self.left.left().is_zero();
        if !over && !self.late {
            return false;
        }
        if !has_answer() {
            return true;
        }
        if !self.late {
            self.late = true;
            self.left = TimeAllowance::new(LATE_ANSWER);
            return false;
        }
        over
    }

    /// Uses time up, as long as this is waited for, and resolves when none is left.
    pub async fn used_up(&mut self, hold: RequestWait) {
        match hold {
            RequestWait::Runs { .. } => self.left.used_up().await,
            RequestWait::Rests => std::future::pending().await,
        }
    }
}

/// Returns what is left of a time after a restart, of which an earlier process saw some pass after it had asked: what it was not
/// there for does not count, nor for how long the request rested.
pub(super) fn left_of(timeout: Duration, seen: Duration, rested: Duration) -> Duration {
    let used = seen.saturating_sub(rested);
    timeout.saturating_sub(used).max(GRACE.min(timeout))
}

/// Returns when the earlier processes gave their last heartbeats, by the commands that these were for.
pub(super) fn last_lives(volumes: &Volumes, clock: &Clock) -> BTreeMap<CommandId, Time> {
    let of = |id: CommandId| {
        let written = std::fs::metadata(volumes.life(&id)).ok()?.modified().ok()?;
        Some((id, clock.of_wall(time_of(written))))
    };
    let locked = volumes.locked().unwrap_or_default();
    locked.into_iter().filter_map(of).collect()
}

/// Returns whether time passes for a request.
pub(super) fn hold(shared: &SharedContext, on: &RoleId, request: &RequestId) -> RequestWait {
    if shared.registry.has(on) {
        return shared.registry.hold(on, request);
    }
    match shared.host.volumes.whereabouts(request) {
        Ok(CommandPlace::Pending) => match shared.is_busy(on) {
            Ok(true) => RequestWait::Rests,
            Ok(false) | Err(_) => RequestWait::Runs { taken: false },
        },
        _ => RequestWait::Runs { taken: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_keeps_remaining_request_timeout() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let left = |timeout, seen| left_of(timeout, minutes(seen), Duration::ZERO);
        assert_eq!(left(minutes(10), 4), minutes(6));
        assert_eq!(left(minutes(10), 0), minutes(10));
        assert_eq!(left(minutes(10), 45), GRACE);
        let short = Duration::from_millis(50);
        assert_eq!(left(short, 45), short);
        let asked_a_person = left_of(minutes(10), minutes(45), minutes(43));
        assert_eq!(asked_a_person, minutes(8));
    }

    #[test]
    fn request_timeout_runs_only_while_role_is_free() {
        let mut timeout = RequestTimeout::new(RequestId::new("r"), Duration::from_secs(60));
        let (taken, untaken) = (
            RequestWait::Runs { taken: true },
            RequestWait::Runs { taken: false },
        );
        assert!(!timeout.over(untaken, || false));
        timeout.left = TimeAllowance::new(Duration::ZERO);
        assert!(!timeout.over(RequestWait::Rests, || false));
        assert!(timeout.over(untaken, || false));
        // The time before a lane takes it up is not taken from that lane.
        assert!(!timeout.over(taken, || false));
        // An answer that lies there is waited for, but not for ever.
        timeout.left = TimeAllowance::new(Duration::ZERO);
        assert!(!timeout.over(taken, || true) && !timeout.over(taken, || true));
        assert!(!timeout.over(RequestWait::Rests, || true));
        assert!(timeout.over(taken, || false));
        timeout.left = TimeAllowance::new(Duration::ZERO);
        assert!(timeout.over(taken, || true));
    }
}
