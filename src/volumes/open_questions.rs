//! The open questions in their folder.

use std::fs;

use super::atomic_files::{Cannot, VolumesError, read_text};
use super::folder_layout::{Folder, Volumes};
use super::scan::REPORT_CAP;
use crate::plan::QuestionId;
use crate::wire::text::safe_name;

impl Volumes {
    /// Returns the ids of the questions in `questions/pending`.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn questions(&self) -> Result<Vec<QuestionId>, VolumesError> {
        let folder = self.path(Folder::QuestionsPending);
        let mut ids = Vec::new();
        for entry in fs::read_dir(&folder).cannot("list", &folder)? {
            let name = entry.cannot("list", &folder)?.file_name();
            let id = name
                .to_str()
                .and_then(|name| name.strip_prefix("question-")?.strip_suffix(".md"));
            ids.extend(id.filter(|id| safe_name(id)).map(QuestionId::new));
        }
        Ok(ids)
    }

    /// Returns whether a question with that id has a file, open or answered. If that cannot be checked, the answer is no.
    pub fn has_question(&self, id: &QuestionId) -> bool {
        let filed = self.path(Folder::QuestionsAnswered);
        let name = format!("question-{id}.md");
        let places = [self.question(id), filed.join(name)];
        places.iter().any(|path| fs::symlink_metadata(path).is_ok())
    }

    /// Reads an open question's file; `None` if no readable file exists.
    pub fn read_question(&self, id: &QuestionId) -> Option<String> {
        read_text(&self.question(id), REPORT_CAP).ok()
    }
}
