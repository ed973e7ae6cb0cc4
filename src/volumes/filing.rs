//! Where files go that have been dealt with: out of the folder in which they arrived, never over another one.

use std::io;
use std::path::Path;

use super::commands::file_name;
use super::files::{VolumesError, create, move_aside, replace};
use super::layout::{Folder, Volumes};
use crate::plan::{CommandId, QuestionId};

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
            Filing::Rejected(_) => Folder::ReportsRejected,
        };
        let Some(filed) = gone_is_fine(move_aside(&path, &self.path(folder)))? else {
            return Ok(());
        };
        if let Filing::Rejected(reason) = filing {
            let name = filed.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{name}.reason.md");
            let path = self.path(Folder::ReportsRejected).join(&name);
            replace(
                &self.temp("reports", &name),
                &path,
                reason.as_bytes(),
                0o666,
            )?;
        }
        Ok(())
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
