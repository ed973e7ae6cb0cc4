//! The editor of a person's choice, which has the terminal for itself as long as it runs.

use std::io::{self, IsTerminal, stdin};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{LentTerminal, lend_terminal};
use crate::bounded_read;
use crate::wire::plan_file;

/// Between asking the editor to end and ending it: it has to put the terminal in order.
const GRACE: Duration = Duration::from_secs(2);

/// An editor that runs; killed when this is dropped.
pub struct Editor {
    child: Child,
    file: NamedTempFile,
    /// The text that it was given.
    given: String,
    command: String,
    _terminal: LentTerminal,
}

impl Editor {
    /// Starts the editor of a person's choice with a text, which the person may have changed since it was `given`.
    ///
    /// # Errors
    /// No file can be made for it, or it cannot be started.
    pub fn open(text: &str, given: &str) -> anyhow::Result<Self> {
        let mut file = tempfile::Builder::new();
        let file = file.prefix("plan-").suffix(".md").tempfile()?;
        std::fs::write(file.path(), text)?;
        let named = ["VISUAL", "EDITOR"].iter().find_map(|name| {
            let value = std::env::var(name).ok();
            value.filter(|value| !value.trim().is_empty())
        });
        let command = match named {
            None if !stdin().is_terminal() => {
                anyhow::bail!("there is no terminal to edit on, and `EDITOR` names no program");
            }
            named => named.unwrap_or_else(|| "vi".to_owned()),
        };
        let mut words = command.split_whitespace();
        let terminal = lend_terminal();
        let child = Command::new(words.next().unwrap_or("vi"))
            .args(words)
            .arg(file.path())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start the editor `{command}`"))?;
        Ok(Self {
            child,
            file,
            given: given.to_owned(),
            command,
            _terminal: terminal,
        })
    }

    /// Waits until it is closed, and returns what the text has become.
    ///
    /// # Errors
    /// It failed, or the text cannot be read.
    pub async fn closed(&mut self) -> anyhow::Result<String> {
        let (status, command) = (self.child.wait().await?, &self.command);
        if !status.success() {
            anyhow::bail!("the editor `{command}` ended with {status}");
        }
        let path = self.file.path().display();
        self.text()
            .with_context(|| format!("the text that was edited, `{path}`"))
    }

    fn text(&self) -> io::Result<String> {
        bounded_read::read_file(self.file.path(), plan_file::MAX_BYTES)
    }

    /// Keeps the file with the text, and returns where it is, unless the editor removed it.
    pub fn keep(self) -> Option<PathBuf> {
        let kept = self.file.keep().ok().map(|(_, path)| path);
        kept.filter(|path| path.exists())
    }

    /// Ends it, and returns where the text is kept if the person has changed it.
    pub async fn end(mut self) -> Option<PathBuf> {
        let pid = self.child.id();
        if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            // An error only says that it has ended already.
            kill_process(pid, Signal::TERM).ok();
        }
        if timeout(GRACE, self.child.wait()).await.is_err()
            && let Err(error) = self.child.kill().await
        {
            tracing::debug!(%error, "the editor goes on");
        }
        // What cannot be read again, such as a text that became too long, is the person's work as well.
        match self.text() {
            Ok(text) if text == self.given => None,
            _ => self.keep(),
        }
    }
}
