//! Plan time: the wall clock as it stood at the start, moved on by the monotonic clock. A jump of the wall clock
//! or a suspended machine cannot make a time-out come early, and time never runs backwards within a process.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::plan::Time;

/// Tells the plan time; a copy tells the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Time,
    started: Instant,
}

impl Clock {
    /// Starts from the wall clock as it stands now.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self {
            wall: Time::default().plus(since_epoch),
            started: Instant::now(),
        }
    }

    /// Returns the plan time.
    pub fn now(&self) -> Time {
        self.wall.plus(self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_on_and_never_back() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(first >= clock.wall);
        assert!(second >= first);
    }

    #[test]
    fn plan_time_is_close_to_the_wall_clock() {
        let now = Clock::start().now();
        let wall = jiff::Timestamp::now().as_microsecond();
        assert!((wall - now.0).abs() < 60_000_000, "{now:?} against {wall}");
    }
}
