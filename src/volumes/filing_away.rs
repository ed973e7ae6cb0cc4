//! Archiving of processed files: each leaves the folder in which it arrived, and never replaces another file.

use std::io::ErrorKind;
use std::path::Path;

use super::torn_files::is_part;
use super::{
    Cannot, Folder, Result, Volumes, VolumesError, create_once, exists, file_name, move_aside,
    move_new, numbered, replace, unless,
};
use crate::plan::{AppliedReport, CommandId, QuestionId};
use crate::wire::report_file::command_of;
use parking_lot::Mutex;

/// This lock is held while a report is rejected.
static REJECTING: Mutex<()> = Mutex::new(());

/// What happened to a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportDisposition {
    /// It counted.
    Processed,
    /// It came too late, twice, or for no known command.
    Stale,
    /// It could not be read; the text names the problems, their lines, and how to repair them.
    Rejected(String),
}

impl From<AppliedReport> for ReportDisposition {
    fn from(applied: AppliedReport) -> Self {
        match applied {
            AppliedReport::Counts | AppliedReport::Known => Self::Processed,
            AppliedReport::Stale => Self::Stale,
        }
    }
}

impl Volumes {
    /// Moves a report out of `reports/pending`, under its own name or a numbered one, and takes its command from those that no agent
    /// has claimed: its agent may have left it there, and another one would do the work again. The report is never opened; a report
    /// that no longer exists is fine.
    ///
    /// # Errors
    /// The error of the file system; the report has then not moved.
    pub fn file_report(&self, name: &str, filing: &ReportDisposition) -> Result<()> {
        let path = self.path(Folder::ReportsPending).join(plain(name)?);
        if let Some(id) = command_of(name) {
            // An agent may have copied it; then it is claimed, and lies there, too.
            if let Err(error) = self.answered(&id) {
                tracing::warn!(%id, %error, "a command that was answered stays where agents find it");
            }
        }
        let folder = match filing {
            ReportDisposition::Processed => Folder::ReportsProcessed,
            ReportDisposition::Stale => Folder::ReportsStale,
            ReportDisposition::Rejected(reason) => return self.reject(&path, reason),
        };
        unless(ErrorKind::NotFound, move_aside(&path, &self.path(folder))).map(drop)
    }

    /// The reason is written before the report moves. After a crash in between, the report is found again in its old place. A
    /// rejected report without its reason cannot occur.
    fn reject(&self, report: &Path, reason: &str) -> Result<()> {
        // Rejected reports share one folder, and two long names may become equal when they are cut.
        let _alone = REJECTING.lock();
        if !exists(report)? {
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
            if exists(&to)? || (exists(&beside)? && !is_part(&beside, reason)) {
                continue;
            }
            replace(&temp, &beside, reason.as_bytes(), 0o666)?;
            let moved = move_new(report, &to).cannot("move", report);
            return unless(ErrorKind::NotFound, moved).map(drop);
        }
        unreachable!("a folder has fewer files than there are numbers")
    }

    /// Writes a report where the daemon reads it, as a whole and in one step. An existing report does not change: the agent
    /// wrote it.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn submit(&self, id: &CommandId, text: &str) -> Result<()> {
        let temp = self.temp("reports", &format!("report-{id}.md"));
        create_once(&temp, &self.report(id), text.as_bytes(), 0o666)
    }

    /// Writes a question where a person finds it. An existing question does not change: a person may be answering it.
    ///
    /// # Errors
    /// `InvalidInput` when the id cannot be a file name, otherwise the error of the file system.
    pub fn write_question(&self, id: &QuestionId, text: &str) -> Result<()> {
        let temp = self.temp("questions", &file_name(id.as_str())?);
        create_once(&temp, &self.question(id), text.as_bytes(), 0o666)
    }

    /// Writes what is wrong with an answer into a file beside the question's file, never into that file.
    ///
    /// # Errors
    /// As [`Volumes::write_question`].
    pub fn complain(&self, id: &QuestionId, text: &str) -> Result<()> {
        file_name(id.as_str())?;
        let name = format!("question-{id}.problem.md");
        let path = self.path(Folder::QuestionsPending).join(&name);
        let temp = self.temp("questions", &name);
        replace(&temp, &path, text.as_bytes(), 0o666)
    }

    /// Archives a question that no longer needs an answer, and the complaint about its answer if one exists.
    ///
    /// # Errors
    /// As [`Volumes::file_report`].
    pub fn file_question(&self, id: &QuestionId) -> Result<()> {
        file_name(id.as_str())?;
        let answered = self.path(Folder::QuestionsAnswered);
        let question = self.question(id);
        let complaint = question.with_file_name(format!("question-{id}.problem.md"));
        for path in [question, complaint] {
            unless(ErrorKind::NotFound, move_aside(&path, &answered))?;
        }
        Ok(())
    }
}

/// Returns the name if it names an entry of a folder and cannot lead to another place.
fn plain(name: &str) -> Result<&Path> {
    let path = Path::new(name);
    if path.file_name() == Some(path.as_os_str()) {
        return Ok(path);
    }
    let reason = "not the name of a file";
    Err(VolumesError::misnamed("file", name, reason))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn report_is_rejected_only_with_reason() {
        let (root, volumes) = Volumes::temporary();
        let pending = volumes.path(Folder::ReportsPending).join("report-a.md");
        let rejected = volumes.path(Folder::ReportsRejected);
        let temp = root.path().join("reports/.tmp");
        fs::write(&pending, "garbled").unwrap();
        fs::remove_dir(&temp).unwrap();
        let filing = &ReportDisposition::Rejected("why".to_owned());
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
