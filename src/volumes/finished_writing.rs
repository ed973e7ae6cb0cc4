//! Decides when a file of another writer is finished. File events decide where they exist; where they are missing or lost, time
//! decides.

use std::collections::HashMap;
use std::fs::Metadata;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::plan::Time;
use crate::plan_time::{Clock, time_of, wall};

/// After a writer has closed the file: editors, and writers that truncate and then write, open it again within this time.
const AFTER_CLOSE: Duration = Duration::from_millis(300);
/// Without any event: long enough for a writer that pauses, short enough for a person who waits.
pub const UNSEEN: Duration = Duration::from_secs(2);
/// An empty file is hardly ever intended; `> report` creates the file long before its text.
const EMPTY: Duration = Duration::from_secs(5);
/// Opened for writing and never closed: the event of closing may have been lost.
const NEVER_CLOSED: Duration = Duration::from_secs(60);
/// As many names as the kernel's event queue holds; further files wait for [`UNSEEN`].
const MOST_NAMES: usize = 16_384;

/// The most files that are read before the folder is listed; the listing finds a flood of them.
const MOST_ARRIVED: usize = 8;

/// The kernel marks a loss once and may lose more events after the mark: for this long no event of closing is awaited.
const LOSS: Duration = Duration::from_secs(10);

/// The wall clock was set if it moved by this much more or less than the time that passed.
const CLOCK_SET: Duration = Duration::from_secs(1);

/// What an event said about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePhase {
    /// It got its name by a rename: its writer has finished.
    RenamedIn,
    /// It is being written in place.
    Writing,
    /// Its writer has closed it.
    Closed,
}

/// The events for files that have not been read yet; the watcher and the scanner share them.
#[derive(Clone, Debug, Default)]
pub struct WatchHints(Arc<Mutex<FileEvents>>);

#[derive(Debug, Default)]
struct FileEvents {
    files: HashMap<String, (WritePhase, Instant)>,
    /// The files that were renamed into the folder since the last query, up to a limit.
    arrived: Vec<String>,
    /// When events were last known to be lost.
    lost: Option<Instant>,
}

impl WatchHints {
    pub(super) fn note(&self, name: &str, phase: WritePhase, at: Instant) {
        let mut events = self.0.lock();
        if phase == WritePhase::RenamedIn && events.arrived.len() < MOST_ARRIVED {
            events.arrived.push(name.to_owned());
        }
        let loss = |lost| at.saturating_duration_since(lost) < LOSS;
        if phase == WritePhase::Writing && events.lost.is_some_and(loss) {
            events.files.remove(name);
        } else if events.files.len() < MOST_NAMES || events.files.contains_key(name) {
            events.files.insert(name.to_owned(), (phase, at));
        }
    }

    /// Returns the names of the first few files that were renamed into the folder since the last call.
    pub(super) fn drain_arrived(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().arrived)
    }

    pub(super) fn forget(&self, name: &str) {
        self.0.lock().files.remove(name);
    }

    /// Records that events were lost: no earlier event can be relied on.
    pub(super) fn lose(&self, at: Instant) {
        let mut events = self.0.lock();
        events.files.clear();
        events.lost = Some(at);
    }

    pub(super) fn get(&self, name: &str) -> Option<(WritePhase, Instant)> {
        self.0.lock().files.get(name).copied()
    }

    /// Removes the events of files that are not in a listing; events since the listing began stay.
    pub(super) fn retain_listed(&self, listed: impl Fn(&str) -> bool, begun: Instant) {
        let kept = |name: &String, (_, at): &mut (_, Instant)| *at >= begun || listed(name);
        self.0.lock().files.retain(kept);
    }
}

/// Measures how long ago files were written. File times are by the wall clock, which may be set meanwhile.
#[derive(Debug)]
pub(super) struct FileAges {
    clock: Clock,
    /// Microseconds that the wall clock is ahead of the plan time.
    ahead: i64,
    /// When this last noticed that the wall clock was set.
    set: Option<Time>,
}

impl FileAges {
    pub(super) fn new() -> Self {
        let (clock, set) = (Clock::start(), None);
        let ahead = wall().0 - clock.now().0;
        Self { clock, ahead, set }
    }

    /// Returns how long ago a file was written. `None` if its time is in the future, or if it may have been written before the
    /// wall clock was set: otherwise a file that is being written would seem older by the span the clock was moved forward.
    pub(super) fn age(&mut self, metadata: &Metadata) -> Option<Duration> {
        let written = metadata.modified().ok()?;
        self.age_at(written, SystemTime::now(), self.clock.now())
    }

    fn age_at(&mut self, written: SystemTime, wall: SystemTime, now: Time) -> Option<Duration> {
        let ahead = time_of(wall).0 - now.0;
        let moved = Duration::from_micros(ahead.abs_diff(self.ahead));
        if moved >= CLOCK_SET {
            (self.ahead, self.set) = (ahead, Some(now));
        }
        let age = wall.duration_since(written).ok()?;
        (self.set.is_none_or(|set| age < now.since(set))).then_some(age)
    }
}

/// The known state of a file at the time of a scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileObservation {
    /// The last event, and how long ago it arrived.
    pub last_event: Option<(WritePhase, Duration)>,
    /// How long the scanner has seen the same size and modification time.
    pub unchanged: Duration,
    /// How long ago the file was written by the wall clock, if that is known.
    pub age: Option<Duration>,
    pub empty: bool,
    /// The file has more than one name: perhaps only until its writer removes the temporary name.
    pub linked: bool,
}

/// Returns whether a file counts as finished.
pub(super) fn is_finished(file: FileObservation) -> bool {
    let still = |least| file.unchanged >= least;
    let old = |least| still(least) || file.age.is_some_and(|age| age >= least);
    // An earlier event says nothing about later writes, whose events may still be under way.
    let since = |ago| file.age.is_some_and(|age| age < ago);
    match file.last_event {
        Some((WritePhase::Writing, _)) => still(NEVER_CLOSED),
        _ if file.linked => old(UNSEEN),
        Some((WritePhase::RenamedIn, ago)) if !since(ago) => true,
        _ if file.empty => old(EMPTY),
        Some((WritePhase::Closed, ago)) => ago >= AFTER_CLOSE && old(AFTER_CLOSE),
        _ => old(UNSEEN),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::plan::tests::testing::rows;

    #[test]
    fn file_is_finished_after_close_or_quiet_time() {
        // The last event and how long ago it came, how long the file is unchanged, and its age, in milliseconds; whether
        // it is empty or linked.
        let table = "
            finished | RenamedIn 0 | 0 | - | - | renamed in
            unfinished | Closed 299 | 0 | - | - | just closed
            finished | Closed 300 | 0 | 301 | - | closed
            finished | Closed 300 | 300 | - | - | closed, clock behind
            unfinished | Closed 900 | 0 | 1 | - | closed, and written again since
            unfinished | RenamedIn 900 | 0 | 1 | - | renamed in, and written since
            finished | RenamedIn 900 | 0 | 901 | - | renamed in, written long before
            unfinished | Writing 9000 | 9000 | 9000 | - | being written, however slowly
            finished | Writing 60000 | 60000 | - | - | no event of closing
            unfinished | - | 0 | 1999 | - | no event, fresh
            finished | - | 0 | 2000 | - | no event, old
            unfinished | - | 1999 | - | - | clock behind
            finished | - | 2000 | - | - | clock behind, unchanged
            unfinished | Closed 4000 | 4000 | - | empty | empty and closed
            finished | Closed 5000 | 5000 | - | empty | empty for long
            unfinished | RenamedIn 0 | 0 | 0 | linked | two names for a moment";
        for [finished, event, unchanged, age, kind, what] in rows(table) {
            let ms = |text: &str| Some(Duration::from_millis(text.parse().ok()?));
            let last_event = event.split_once(' ').map(|(phase, ago)| {
                let phase = match phase {
                    "RenamedIn" => WritePhase::RenamedIn,
                    "Closed" => WritePhase::Closed,
                    _ => WritePhase::Writing,
                };
                (phase, ms(ago).unwrap())
            });
            let file = FileObservation {
                last_event,
                unchanged: ms(&unchanged).unwrap(),
                age: ms(&age),
                empty: kind == "empty",
                linked: kind == "linked",
            };
            assert_eq!(is_finished(file), finished == "finished", "{what}");
        }
    }

    #[test]
    fn file_age_is_unknown_after_clock_set() {
        const HOUR: u64 = 3600;
        let seconds = Duration::from_secs;
        // Begun at second 0 of the plan, which is `HOUR` by the wall clock.
        let begun = || FileAges {
            ahead: time_of(UNIX_EPOCH + seconds(HOUR)).0,
            clock: Clock::start(),
            set: None,
        };
        /// The second of the plan, what the wall clock says then, when a file was written by that, and its age.
        type Seconds = (u64, u64, u64, Option<u64>);
        let cases: [(&str, &[Seconds]); 4] = [
            (
                "not set",
                &[
                    (5, HOUR + 5, HOUR + 2, Some(3)),
                    (5, HOUR + 5, 0, Some(HOUR + 5)),
                    (5, HOUR + 5, HOUR + 6, None),
                ],
            ),
            (
                "put forward",
                &[
                    (5, 9 * HOUR + 5, HOUR + 4, None),
                    (8, 9 * HOUR + 8, HOUR + 4, None),
                    (8, 9 * HOUR + 8, 9 * HOUR + 5, None),
                    (8, 9 * HOUR + 8, 9 * HOUR + 6, Some(2)),
                ],
            ),
            (
                "put back",
                &[
                    (5, HOUR / 2, HOUR + 4, None),
                    (8, HOUR / 2 + 3, 0, None),
                    (8, HOUR / 2 + 3, HOUR / 2 + 1, Some(2)),
                ],
            ),
            (
                "set twice",
                &[
                    (5, 9 * HOUR, 8 * HOUR, None),
                    (20, HOUR + 20, HOUR + 10, None),
                    (40, HOUR + 40, HOUR + 30, Some(10)),
                ],
            ),
        ];
        for (what, rows) in cases {
            let mut ages = begun();
            for (now, wall, written, age) in rows {
                let wall_at = |second| UNIX_EPOCH + seconds(second);
                let now = Time::default().plus(seconds(*now));
                let found = ages.age_at(wall_at(*written), wall_at(*wall), now);
                assert_eq!(found, age.map(seconds), "{what}: {now:?}");
            }
        }
    }

    #[test]
    fn hints_are_bounded_and_expire() {
        let hints = WatchHints::default();
        let now = Instant::now();
        for number in 0..MOST_NAMES + 10 {
            hints.note(&format!("report-{number}.md"), WritePhase::Writing, now);
        }
        assert_eq!(hints.0.lock().files.len(), MOST_NAMES);
        hints.note("report-0.md", WritePhase::Closed, now);
        assert_eq!(hints.get("report-0.md"), Some((WritePhase::Closed, now)));
        hints.retain_listed(|_| false, now);
        assert_eq!(hints.0.lock().files.len(), MOST_NAMES);
        hints.retain_listed(|name| name == "report-0.md", Instant::now());
        assert_eq!(hints.0.lock().files.len(), 1);
        hints.lose(now);
        assert_eq!(hints.get("report-0.md"), None);
        hints.note("report-0.md", WritePhase::Writing, now);
        assert_eq!(hints.get("report-0.md"), None);
        hints.note("report-0.md", WritePhase::Closed, now);
        hints.note("report-1.md", WritePhase::Writing, now + LOSS);
        assert_eq!(hints.0.lock().files.len(), 2);
    }
}
