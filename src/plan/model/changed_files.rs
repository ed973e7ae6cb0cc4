//! Which files changed during an attempt.

use serde::{Deserialize, Serialize};

use crate::plan::and_more;

/// The most changed files that are named; the rest is counted.
const MAX_CHANGED: usize = 50;

/// What stands behind the path of a removed file.
const REMOVED: &str = " (removed)";

/// What changed in the workspace during an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedFiles {
    pub seen: ChangeDetection,
    /// Paths relative to the workspace, up to the limit.
    pub files: Vec<String>,
    /// The number of further files.
    pub more: usize,
}

/// How the changes were detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeDetection {
    /// Not at all: the workspace cannot be read.
    #[default]
    Nothing,
    /// With git; files that it ignores are left out.
    Git,
    /// With scans before and after.
    Listing,
    /// By the times of the files, which do not show removed files.
    Times,
    /// By the times of some of the files only, because the folder has too many files.
    Part,
}

impl ChangedFiles {
    /// Keeps the first paths of all that changed, up to the limit.
    pub fn new(seen: ChangeDetection, mut files: Vec<String>) -> Self {
        let more = files.len().saturating_sub(MAX_CHANGED);
        files.truncate(MAX_CHANGED);
        Self { seen, files, more }
    }

    /// Returns the text for the path of a removed file.
    pub fn removed(path: &str) -> String {
        format!("{path}{REMOVED}")
    }

    /// Returns the paths, also those of removed files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter();
        files.map(|path| path.strip_suffix(REMOVED).unwrap_or(path))
    }

    /// Returns the changes on one line, with at most `most` names.
    pub fn text(&self, most: usize) -> String {
        if self.files.is_empty() {
            let none = match self.seen {
                ChangeDetection::Nothing => "which files changed is not known",
                ChangeDetection::Git | ChangeDetection::Listing => "no file changed",
                ChangeDetection::Times => "no file was written; removed ones are not seen",
                ChangeDetection::Part => "no file was written among those that were looked at",
            };
            return none.to_owned();
        }
        let (named, others) = self.files.split_at(self.files.len().min(most));
        let more = and_more(others.len() + self.more);
        format!("changed: {}{more}", named.join(", "))
    }
}
