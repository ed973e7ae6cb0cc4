//! Plan time: the wall clock at the start of the process, advanced by the time since the machine was booted, which no person
//! can set. It never runs backwards within a process, a jump of the wall clock does not move it, and it is still a time of day
//! after the machine was suspended. Time in which a process was stopped or its machine suspended must not use up a deadline:
//! code that waits for one counts active time, here by [`TimeAllowance`], in the daemon by the delay of its wake-up.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::plan::Time;

/// A wake-up that is later than this was delayed by more than a busy machine.
pub const LATE: Duration = Duration::from_secs(1);

/// The difference between plan time and wall clock that counts as a jump.
const JUMP: Duration = Duration::from_secs(60);

/// The longest piece in which a deadline is waited for: pieces show in which of them nothing ran.
const PIECE: Duration = Duration::from_secs(1);

/// The clock that continues while the machine is suspended.
#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// Returns the plan time; a copy returns the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Time,
    started: Duration,
}

impl Clock {
    /// Starts from the current wall clock.
    pub fn start() -> Self {
        Self {
            wall: wall(),
            started: since_boot(),
        }
    }

    /// Returns the plan time.
    pub fn now(&self) -> Time {
        self.wall.plus(since_boot().saturating_sub(self.started))
    }

    /// Returns the clock as a function that tells the plan time, as a store takes it.
    pub fn teller(self) -> impl Fn() -> Time + Send + 'static {
        move || self.now()
    }

    /// Returns the plan time of a moment that is given by the current wall clock.
    pub fn of_wall(&self, moment: Time) -> Time {
        shifted(moment, wall(), self.now())
    }

    /// Returns a plan time in terms of the current wall clock.
    pub fn to_wall(&self, moment: Time) -> Time {
        shifted(moment, self.now(), wall())
    }
}

/// Moves a moment by the difference of two clocks, if that difference is a jump.
fn shifted(moment: Time, theirs: Time, ours: Time) -> Time {
    if ours.since(theirs).max(theirs.since(ours)) < JUMP {
        return moment;
    }
    Time(moment.0.saturating_add(ours.0.saturating_sub(theirs.0)))
}

/// Returns the wall clock.
pub fn wall() -> Time {
    time_of(SystemTime::now())
}

/// Returns a time of the system, such as that of a file, as a time of plans.
pub fn time_of(time: SystemTime) -> Time {
    Time::default().plus(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns the time since the machine was booted, which continues while this process is stopped or the machine suspended.
pub fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(SINCE_BOOT)).unwrap_or_default()
}

/// The log uses the same time as the plan.
impl FormatTime for Clock {
    fn format_time(&self, w: &mut Writer<'_>) -> std::fmt::Result {
        // Each line has the same number of digits.
        match jiff::Timestamp::from_microsecond(self.now().0) {
            Ok(now) => write!(w, "{now:.6}"),
            Err(_) => Err(std::fmt::Error),
        }
    }
}

/// Time that may be spent; only the active time of this process counts.
#[derive(Debug)]
pub struct TimeAllowance {
    left: Duration,
}

impl TimeAllowance {
    /// Makes an allowance.
    pub fn new(left: Duration) -> Self {
        Self { left }
    }

    /// Returns what is left of it.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Resolves when the allowance is used up. Time that has passed when this future is dropped counts as used, too.
    pub async fn used_up(&mut self) {
        while !self.left.is_zero() {
            let piece = AllowancePiece {
                length: self.left.min(PIECE),
                of: self,
                began: Instant::now(),
            };
            tokio::time::sleep(piece.length).await;
        }
    }
}

/// A part of an allowance that is being used.
struct AllowancePiece<'a> {
    of: &'a mut TimeAllowance,
    length: Duration,
    began: Instant,
}

impl Drop for AllowancePiece<'_> {
    fn drop(&mut self) {
        self.of.left = left(self.of.left, self.length, self.began.elapsed());
    }
}

/// Returns what is left after a piece that took so long.
fn left(left: Duration, piece: Duration, took: Duration) -> Duration {
    if took > piece + LATE {
        left
    } else {
        left.saturating_sub(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
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

    #[test]
    fn shifts_times_between_clocks() {
        let minute = 60_000_000;
        for (theirs, ours, moment, planned) in [
            (100, 100, 100 + minute, 100 + minute),
            (100, 200, 7, 7),
            (100 * minute, 3 * minute, 107 * minute, 10 * minute),
            (3 * minute, 100 * minute, 10 * minute, 107 * minute),
            (0, 2 * minute, i64::MAX, i64::MAX),
        ] {
            assert_eq!(
                shifted(Time(moment), Time(theirs), Time(ours)),
                Time(planned)
            );
        }
    }

    #[test]
    fn suspended_time_uses_no_allowance() {
        let seconds = Duration::from_secs_f64;
        for (took, still) in [
            (0.0, 5.0),
            (1.0, 4.0),
            (1.9, 3.1),
            (2.1, 5.0),
            (3600.0, 5.0),
        ] {
            let still_left = left(seconds(5.0), seconds(1.0), seconds(took));
            assert_eq!(still_left, seconds(still), "{took}");
        }
    }

    #[tokio::test]
    async fn allowance_runs_down() {
        let mut allowance = TimeAllowance::new(Duration::from_millis(30));
        assert_eq!(allowance.left(), Duration::from_millis(30));
        allowance.used_up().await;
        assert_eq!(allowance.left(), Duration::ZERO);
    }
}
