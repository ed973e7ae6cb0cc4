//! Plan time: the wall clock as it stood at the start, moved on by the time since the machine was started, which nobody sets.
//! It never runs backwards within a process, a jump of the wall clock does not move it, and it stays a time of day after the
//! machine was suspended. Time in which a process was stopped or its machine suspended must not use up anybody's deadline:
//! whoever waits for one counts what it lived through, here by [`Allowance`], in the daemon by what a wake-up came too late.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::plan::Time;

/// What happens that much later than it was to happen was held up by more than a busy machine.
pub const LATE: Duration = Duration::from_secs(1);

/// Between a plan time and the wall clock; less is no jump.
const JUMP: Duration = Duration::from_secs(60);

/// A deadline is waited for in pieces of this length, so that a piece in which nothing ran can be told.
const PIECE: Duration = Duration::from_secs(1);

/// The clock that goes on while the machine is suspended.
#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// Tells the plan time; a copy tells the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Time,
    started: Duration,
}

impl Clock {
    /// Starts from the wall clock as it stands now.
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

    /// Returns the plan time of a moment that somebody names by the wall clock as it stands now.
    pub fn of_wall(&self, moment: Time) -> Time {
        shifted(moment, wall(), self.now())
    }

    /// Returns what the wall clock, as it stands now, calls a plan time.
    pub fn to_wall(&self, moment: Time) -> Time {
        shifted(moment, self.now(), wall())
    }
}

/// Moves a moment by what two clocks differ, if that is more than nothing.
fn shifted(moment: Time, theirs: Time, ours: Time) -> Time {
    if ours.since(theirs).max(theirs.since(ours)) < JUMP {
        return moment;
    }
    Time(moment.0.saturating_add(ours.0.saturating_sub(theirs.0)))
}

fn wall() -> Time {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Time::default().plus(since_epoch)
}

fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(SINCE_BOOT)).unwrap_or_default()
}

/// The log has the same time as the plan.
impl FormatTime for Clock {
    fn format_time(&self, w: &mut Writer<'_>) -> std::fmt::Result {
        // As many digits on each line.
        match jiff::Timestamp::from_microsecond(self.now().0) {
            Ok(now) => write!(w, "{now:.6}"),
            Err(_) => Err(std::fmt::Error),
        }
    }
}

/// Time that may be spent, of which only what this process lives through is counted.
#[derive(Debug)]
pub struct Allowance {
    left: Duration,
}

impl Allowance {
    /// Makes an allowance.
    pub fn new(left: Duration) -> Self {
        Self { left }
    }

    /// Returns what is left of it.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Resolves when it is used up. What has passed when this is dropped is used as well.
    pub async fn used_up(&mut self) {
        while !self.left.is_zero() {
            let piece = Piece::of(self);
            tokio::time::sleep(piece.length).await;
        }
    }
}

/// A part of an allowance that is being used.
struct Piece<'a> {
    of: &'a mut Allowance,
    length: Duration,
    began: Instant,
}

impl<'a> Piece<'a> {
    fn of(allowance: &'a mut Allowance) -> Self {
        Self {
            length: allowance.left.min(PIECE),
            of: allowance,
            began: Instant::now(),
        }
    }
}

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        self.of.left = left(self.of.left, self.length, self.began.elapsed());
    }
}

/// Returns what is left when a piece took so long.
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

    #[test]
    fn a_moment_by_a_clock_that_jumped_is_moved_with_it() {
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
    fn a_piece_in_which_nothing_ran_is_not_used() {
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
    async fn an_allowance_is_used_up_piece_by_piece() {
        let mut allowance = Allowance::new(Duration::from_millis(30));
        assert_eq!(allowance.left(), Duration::from_millis(30));
        allowance.used_up().await;
        assert_eq!(allowance.left(), Duration::ZERO);
    }
}
