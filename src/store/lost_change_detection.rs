//! How far each plan was committed, noted beside the database. A database whose journal was damaged opens at an earlier
//! state without an error; the notes show the loss. They are written after the flush of a commit and never flushed
//! themselves: a power cut leaves them older, torn or empty, which is normal, but never ahead of what was flushed.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::database_drivers::beside;
use crate::foreign_files;
use crate::own_files;
use crate::plan::{PlanId, counted};

/// Bytes of notes from which on they are written anew. Twice as many are read: one batch may come on top.
const LARGE: u64 = 64 * 1024;

/// Changes of a plan that were committed and are not in the database any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub plan: PlanId,
    /// The last change in the database, 0 if it does not have the plan.
    pub last: i64,
    /// The last change that was committed.
    pub committed: i64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, last, committed) = (&self.plan, self.last, self.committed);
        let changes = counted(committed - last, "change");
        match last {
            0 => write!(
                f,
                "the database lost plan `{plan}`: {changes} of it had been committed"
            ),
            _ => write!(
                f,
                "the database lost {changes} of plan `{plan}`: it goes up to {last}, {committed} were committed"
            ),
        }
    }
}

/// The notes of a database in a file: a line of JSON for each plan that a commit changed. The last line of a plan
/// counts.
pub(super) struct Notes(PathBuf);

impl Notes {
    /// Names the notes of a database without touching them.
    pub(super) fn of(database: &Path) -> Self {
        Self(beside(database, "-committed"))
    }

    /// Returns the last change noted of each plan, the plan noted last at the end.
    pub(super) fn read(&self) -> Vec<(PlanId, i64)> {
        let read = foreign_files::read_beginning(&self.0, 2 * LARGE);
        let bytes = read.unwrap_or_default();
        let mut seen = HashSet::new();
        // A line that a power cut tore is no JSON, also where the next line was added to it.
        let notes = bytes.split(|byte| *byte == b'\n').rev();
        let notes = notes.filter_map(|line| serde_json::from_slice::<(PlanId, i64)>(line).ok());
        let mut notes: Vec<_> = notes
            .filter(|(plan, _)| seen.insert(plan.clone()))
            .collect();
        notes.reverse();
        notes
    }

    /// Notes what is flushed. No caller needs a failure: the notes are older then.
    pub(super) fn add<'a>(&self, changed: impl Iterator<Item = (&'a PlanId, i64)>) {
        if let Err(error) = self.try_add(&lines(changed)) {
            tracing::debug!(%error, "what was committed is not noted");
        }
    }

    fn try_add(&self, lines: &str) -> io::Result<()> {
        // Opened each time: another process may have written the file anew.
        let mut file = own_files::to_append(&self.0)?;
        file.write_all(lines.as_bytes())?;
        match file.metadata()?.len() > LARGE {
            true => self.compact(),
            false => Ok(()),
        }
    }

    /// Drops what later notes replace, and those of the plans noted longest ago if that is not enough.
    fn compact(&self) -> io::Result<()> {
        let mut room = LARGE / 2;
        let notes = self.read();
        let full = |(plan, seq): &(PlanId, i64)| {
            let line = lines(std::iter::once((plan, *seq))).len() as u64;
            let fits = line <= room;
            room = room.saturating_sub(line);
            !fits
        };
        let dropped = notes.iter().rposition(full).map_or(0, |last| last + 1);
        let text = lines(notes[dropped..].iter().map(|(plan, seq)| (plan, *seq)));
        foreign_files::keep_as(&self.0, text.as_bytes())
    }
}

/// Returns notes as they stand in the file. The line before them may be torn, so they begin with a line break.
fn lines<'a>(notes: impl Iterator<Item = (&'a PlanId, i64)>) -> String {
    let lines = notes.map(|(plan, seq)| format!("{}\n", serde_json::json!([plan, seq])));
    std::iter::once("\n".to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_stay_small_and_those_of_the_newest_plans_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::of(&folder.path().join("plans.db"));
        let plans: Vec<_> = (0..5_000)
            .map(|number| PlanId::new(format!("plan {number}\n\"")))
            .collect();
        for seq in 1..4 {
            for plan in &plans {
                notes.add(std::iter::once((plan, seq)));
            }
        }
        let read = notes.read();
        assert!((500..5_000).contains(&read.len()), "{}", read.len());
        let newest = plans.iter().rev().take(500).map(|plan| (plan.clone(), 3));
        assert!(read.into_iter().rev().take(500).eq(newest));
        assert!(notes.0.metadata().unwrap().len() <= LARGE);
        let many = plans[4_900..].iter().map(|plan| (plan, 4));
        notes.add(many);
        assert_eq!(notes.read().last(), Some(&(plans[4_999].clone(), 4)));
    }
}
