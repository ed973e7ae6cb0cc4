//! The output file of an agent, read while the agent writes it: by lines, a bounded piece at a time. It is only read, and all
//! that comes of it is made printable.

use std::path::PathBuf;

use crate::exec;

/// Bytes that are read together.
const PIECE: usize = 256 * 1024;

/// A longer line is left out: the result of a tool may be a whole file.
const LONGEST_LINE: usize = 1024 * 1024;

/// A file to which lines are added.
#[derive(Default)]
pub struct AgentLog {
    path: PathBuf,
    read: u64,
    /// The beginning of a line whose end is not written yet.
    rest: Vec<u8>,
    /// The rest of the line at hand is left out.
    skips: bool,
}

impl AgentLog {
    /// Begins at the beginning of a file, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// Returns the next whole lines; none if there are no more yet.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let (_, piece) = exec::read_from(&self.path, self.read, PIECE);
            self.read += piece.len() as u64;
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                lines.extend(self.add(part));
            }
            if piece.is_empty() || !lines.is_empty() {
                return lines;
            }
        }
    }

    /// Leaves out what is further from the end of the file than one piece. Returns whether something was left out.
    pub(super) fn skip_to_tail(&mut self) -> bool {
        let (length, _) = exec::read_from(&self.path, 0, 0);
        let tail = length.saturating_sub(PIECE as u64);
        let far = tail > self.read;
        if far {
            self.read = tail;
            self.rest.clear();
            self.skips = true;
        }
        far
    }

    /// Returns the next lines; where no more will come, with what stands behind the last whole one.
    pub fn next(&mut self, last: bool) -> Vec<String> {
        let mut lines = self.lines();
        if lines.is_empty() && last {
            lines.extend(self.last_line());
        }
        lines
    }

    /// Returns what stands behind the last whole line.
    fn last_line(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }

    fn add(&mut self, part: &[u8]) -> Option<String> {
        let ends = part.ends_with(b"\n");
        if self.skips {
            self.skips = !ends;
            return None;
        }
        self.rest.extend_from_slice(part);
        if self.rest.len() > LONGEST_LINE {
            self.rest.clear();
            self.skips = !ends;
            return Some("… a long line is left out".to_owned());
        }
        if ends { self.last_line() } else { None }
    }
}

/// Returns a text with the paths below a folder as they are seen from there.
pub fn from_folder(text: &str, folder: &str) -> String {
    match folder {
        "" => text.to_owned(),
        folder => text.replace(&format!("{folder}/"), ""),
    }
}
