//! Where files go that have been dealt with: out of the folder in which they arrived, never over another one.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::commands::{file_name, there};
use super::files::{VolumesError, create, move_aside, move_new, numbered, replace};
use super::layout::{Folder, Volumes};
use super::torn::is_part;
use crate::plan::{CommandId, QuestionId};

/// Held while a report is rejected.
static REJECTING: Mutex<()> = Mutex::new(());

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filing<'a> {
    /// It counted.
    Processed,
    /// It came too late, twice, or for nothing known.
    Stale,
    /// It could not be read; the text says what is wrong, where, and how to mend it.
    Rejected(&'a str),
}

impl Volumes {
    /// Moves a report out of `reports/pending`, under its own name or a numbered one. It is never opened, whatever it
    /// is; one that is gone already is fine.
    ///
    /// # Errors
    /// What the file system says; the report is where it was then.
    pub fn file_report(&self, name: &str, filing: Filing<'_>) -> Result<(), VolumesError> {
        let path = self.path(Folder::ReportsPending).join(plain(name)?);
        let folder = match filing {
            Filing::Processed => Folder::ReportsProcessed,
            Filing::Stale => Folder::ReportsStale,
            Filing::Rejected(reason) => return self.reject(&path, reason),
        };
        gone_is_fine(move_aside(&path, &self.path(folder))).map(drop)
    }

    /// The reason is there before the report is: a crash in between leaves the report where it is found again, and never
    /// one of which nobody learns why it was rejected.
    fn reject(&self, report: &Path, reason: &str) -> Result<(), VolumesError> {
        // Reports are filed beside each other, and two names may be alike once they are cut.
        let _alone = REJECTING.lock().unwrap_or_else(PoisonError::into_inner);
        if !there(report)? {
            return Ok(());
        }
        let folder = self.path(Folder::ReportsRejected);
        let name = report.file_name().unwrap_or_default();
        for count in 1.. {
            let to = folder.join(numbered(name, count));
            let mut beside = to.file_name().unwrap_or_default().to_owned();
            beside.push(".reason.md");
            let temp = self.temp("reports", &beside.to_string_lossy());
            let beside = folder.join(beside);
            if there(&to)? || (there(&beside)? && !is_part(&beside, reason)) {
                continue;
            }
            replace(&temp, &beside, reason.as_bytes(), 0o666)?;
            let moved = move_new(report, &to);
            let failed = |error| VolumesError::new("move", report, error);
            return gone_is_fine(moved.map_err(failed)).map(drop);
        }
        unreachable!("a folder has fewer files than there are numbers")
    }

    /// Puts a report where the daemon looks for it, whole and in one step. One that is there already is left alone:
    /// the agent wrote it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn submit(&self, id: &CommandId, text: &str) -> Result<(), VolumesError> {
        let temp = self.temp("reports", &format!("report-{id}.md"));
        there_is_fine(create(&temp, &self.report(id), text.as_bytes(), 0o666))
    }

    /// Puts a question where a person finds it. One that is there already is left alone: somebody may be answering.
    ///
    /// # Errors
    /// `InvalidInput` when the id cannot be a file name, otherwise what the file system says.
    pub fn write_question(&self, id: &QuestionId, text: &str) -> Result<(), VolumesError> {
        let temp = self.temp("questions", &file_name(id.as_str())?);
        there_is_fine(create(&temp, &self.question(id), text.as_bytes(), 0o666))
    }

    /// Says what is wrong with an answer, beside the question's file and never in it.
    ///
    /// # Errors
    /// As [`Volumes::write_question`].
    pub fn complain(&self, id: &QuestionId, text: &str) -> Result<(), VolumesError> {
        file_name(id.as_str())?;
        let name = format!("question-{id}.problem.md");
        let path = self.path(Folder::QuestionsPending).join(&name);
        replace(
            &self.temp("questions", &name),
            &path,
            text.as_bytes(),
            0o666,
        )
    }

    /// Moves a question that needs no answer any more, and the complaint about it if there is one.
    ///
    /// # Errors
    /// As [`Volumes::file_report`].
    pub fn file_question(&self, id: &QuestionId) -> Result<(), VolumesError> {
        file_name(id.as_str())?;
        let answered = self.path(Folder::QuestionsAnswered);
        let question = self.question(id);
        let complaint = question.with_file_name(format!("question-{id}.problem.md"));
        for path in [question, complaint] {
            gone_is_fine(move_aside(&path, &answered))?;
        }
        Ok(())
    }
}

fn there_is_fine(created: Result<(), VolumesError>) -> Result<(), VolumesError> {
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

fn gone_is_fine<T>(moved: Result<T, VolumesError>) -> Result<Option<T>, VolumesError> {
    match moved {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        moved => moved.map(Some),
    }
}

/// Returns the name if it names something in a folder and nothing elsewhere.
fn plain(name: &str) -> Result<&Path, VolumesError> {
    let path = Path::new(name);
    if path
        .file_name()
        .is_some_and(|last| last == path.as_os_str())
    {
        return Ok(path);
    }
    let reason = io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file");
    Err(VolumesError::new("file", path, reason))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_report_is_rejected_with_its_reason_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let volumes = Volumes::open(root.path()).unwrap();
        let pending = volumes.path(Folder::ReportsPending).join("report-a.md");
        let rejected = volumes.path(Folder::ReportsRejected);
        let temp = root.path().join("reports/.tmp");
        fs::write(&pending, "garbled").unwrap();
        fs::remove_dir(&temp).unwrap();
        let filing = Filing::Rejected("why");
        assert!(volumes.file_report("report-a.md", filing).is_err());
        assert!(pending.exists());
        fs::create_dir(&temp).unwrap();
        // A crash came between the reason and the report.
        fs::write(rejected.join("report-a.md.reason.md"), "why").unwrap();
        for (name, text) in [("report-a", "garbled"), ("report-a-2", "again")] {
            fs::write(&pending, text).unwrap();
            volumes.file_report("report-a.md", filing).unwrap();
            volumes.file_report("report-a.md", filing).unwrap();
            let read = |name: String| fs::read_to_string(rejected.join(name)).unwrap();
            assert_eq!(read(format!("{name}.md")), text);
            assert_eq!(read(format!("{name}.md.reason.md")), "why");
        }
        // What lies there under the name of a reason is none, and stays.
        fs::write(rejected.join("report-b.md.reason.md"), "a report").unwrap();
        fs::write(pending.with_file_name("report-b.md"), "garbled").unwrap();
        volumes.file_report("report-b.md", filing).unwrap();
        let read = |name| fs::read_to_string(rejected.join(name)).unwrap();
        assert_eq!(read("report-b.md.reason.md"), "a report");
        assert_eq!(read("report-b-2.md.reason.md"), "why");
        assert_eq!(fs::read_dir(&rejected).unwrap().count(), 7);
    }
}
