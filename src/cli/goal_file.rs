//! A goal that is the name of a file: a person who types it most likely means a plan file.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::confirm::{can_ask, confirm};
use super::{App, Failure, Result};
use crate::wire::text::quoted;

impl App {
    /// Returns the plan file that a goal names, if the person says that it is one; unless a person may be asked, it is refused.
    ///
    /// # Errors
    /// The goal names a file, and no person can be asked what is meant.
    pub async fn goal_file(&self, goal: Option<&str>, may_ask: bool) -> Result<Option<PathBuf>> {
        let Some(path) = goal.map(Path::new).filter(|path| path.is_file()) else {
            return Ok(None);
        };
        let name = quoted(&path.to_string_lossy());
        if may_ask && can_ask() {
            let question = format!("`{name}` is a file. Carry it out as a plan file?");
            return Ok(confirm(&question).await?.then(|| path.to_owned()));
        }
        let error = anyhow!("the goal `{name}` is the name of a file");
        Err(Failure::usage(error).hint(format!(
            "`{} run --plan {name}` carries a plan file out; a goal is a sentence",
            self.program
        )))
    }
}
