//! The open questions in their folder.

use std::fs;

use super::atomic_files::{Result, read_text};
use super::folder_layout::{Folder, Volumes};
use super::scan::REPORT_CAP;
use crate::plan::QuestionId;
use crate::wire::text::safe_name;

impl Volumes {
    /// Returns the ids of the questions in `questions/pending`.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn questions(&self) -> Result<Vec<QuestionId>> {
        let names = self.names(Folder::QuestionsPending)?;
        let id = |name: &String| {
            let id = name.strip_prefix("question-")?.strip_suffix(".md")?;
            safe_name(id).then(|| QuestionId::new(id))
        };
        Ok(names.iter().filter_map(id).collect())
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
