//! Whether the file of the embedded database is still the one that was opened, and whole. What is written after the
//! file was replaced is gone with this process, and what is read from a file that was cut short is not what was
//! written.

use std::path::PathBuf;

use crate::own_files::FileId;
use crate::store::database_drivers::{DatabasePlace, beside};
use crate::store::sql_statements::Tables;
use crate::store::{Result, StoreError};

/// The file of a database as it was last seen.
pub(super) struct DatabaseFile {
    path: PathBuf,
    id: FileId,
    /// The id of its journal, once it has one.
    journal: Option<FileId>,
    length: u64,
    cut: bool,
}

impl DatabaseFile {
    /// Notes the file of a database that was opened; `None` where it is in no file.
    pub(super) fn of(place: &DatabasePlace) -> Option<Self> {
        let DatabasePlace::File(path) = place else {
            return None;
        };
        let found = path.metadata().ok()?;
        Some(Self {
            path: path.clone(),
            id: (&found).into(),
            journal: None,
            length: found.len(),
            cut: false,
        })
    }

    /// Fails if the file was replaced or cut short. One that was removed is still read as it was.
    pub(super) fn check_length(&mut self, tables: &mut Tables) -> Result<()> {
        if !self.cut {
            let Ok(found) = self.path.metadata() else {
                return Ok(());
            };
            if FileId::from(&found) != self.id {
                return Err(StoreError::Database(format!(
                    "`{}` was replaced while it was in use: start again to read what is there",
                    self.path.display()
                )));
            }
            // A file that another program has packed is shorter, too, but no page of it is missing.
            let whole = found.len() >= self.length
                || (found.len() > 0 && found.len() >= tables.database.length().unwrap_or(u64::MAX));
            if whole {
                self.length = found.len();
                return Ok(());
            }
            // For good: whatever is put back does not go with what this connection knows.
            self.cut = true;
            tables.database.keep_journal();
        }
        Err(StoreError::Database(format!(
            "`{}` was emptied or cut short while it was in use: put a copy back and start again",
            self.path.display()
        )))
    }

    /// Fails if the file, or its journal, is not the one that changes are written to.
    pub(super) fn check_place(&mut self) -> Result<()> {
        let journal = beside(&self.path, "-wal");
        let id = |path: &PathBuf| path.metadata().ok().as_ref().map(FileId::from);
        let gone = if id(&self.path) != Some(self.id) {
            &self.path
        } else if self.journal.is_some() && id(&journal) != self.journal {
            &journal
        } else {
            self.journal = id(&journal);
            return Ok(());
        };
        Err(StoreError::Database(format!(
            "`{}` was removed or replaced while it was in use",
            gone.display()
        )))
    }
}
