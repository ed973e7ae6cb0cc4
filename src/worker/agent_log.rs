//! The output file of an agent, read while the agent writes it: by lines, a bounded piece at a time. It is only read, and all
//! that comes of it is made printable.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::agents::{AgentAct, acts};
use crate::exec;
use crate::plan::ModelCost;
use crate::wire::{clip, one_line};

/// Bytes that are read together.
const PIECE: usize = 256 * 1024;

/// A longer line is left out: the result of a tool may be a whole file.
const LONGEST_LINE: usize = 1024 * 1024;

/// Characters of what an agent does at the moment.
const DOING: usize = 200;

/// Answers of the model whose usage is counted one by one. An agent at work for a day has fewer.
const MOST_ANSWERS: usize = 10_000;

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
    fn lines(&mut self) -> Vec<String> {
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
    fn skip_to_tail(&mut self) -> bool {
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

/// What an agent does now, and what it has used so far.
pub struct AgentNow {
    out: AgentLog,
    err: AgentLog,
    doing: String,
    /// What was used, by the answers of the model; `None` if not all of it was read.
    spent: Option<HashMap<String, ModelCost>>,
}

impl AgentNow {
    /// Watches the two files of an agent's output.
    pub fn new(out: PathBuf, err: PathBuf) -> Self {
        Self {
            out: AgentLog::new(out),
            err: AgentLog::new(err),
            doing: String::new(),
            spent: Some(HashMap::new()),
        }
    }

    /// Reads what was added, at most the end of it.
    pub fn read(&mut self) {
        if self.out.skip_to_tail() {
            self.spent = None;
        }
        for line in self.out.lines() {
            match acts(&line) {
                Some(acts) => acts.into_iter().for_each(|act| self.take(act)),
                None => self.does(&line),
            }
        }
        self.err.skip_to_tail();
        let said = self.err.lines();
        if self.doing.is_empty()
            && let Some(last) = said.last()
        {
            self.does(last);
        }
    }

    /// Returns what it does, on one line; empty if nothing is known. The folder that it works in is left out of paths.
    pub fn doing(&self, workspace: &str) -> String {
        one_line(&from_folder(&self.doing, workspace), DOING)
    }

    /// Returns what it has used, as far as it reports that.
    pub fn used(&self) -> ModelCost {
        let mut used = ModelCost::default();
        let spent = self.spent.iter().flat_map(HashMap::values);
        spent.for_each(|answer| used.add(*answer));
        used
    }

    fn take(&mut self, act: AgentAct) {
        match act {
            AgentAct::Says(text) | AgentAct::Uses { shown: text, .. } => self.does(&text),
            AgentAct::GoesOn(text) => {
                let said = std::mem::take(&mut self.doing);
                self.does(&one_line(&(said + &text), 4 * DOING));
            }
            AgentAct::Gets(answer) if answer.failed => self.does(&answer.text),
            AgentAct::Gets(_) => {}
            AgentAct::Spends { answer, usage } => self.count(answer, usage),
        }
    }

    fn does(&mut self, text: &str) {
        let readable = |line: &&str| !one_line(line, DOING).is_empty();
        if let Some(last) = text.lines().rev().find(readable) {
            self.doing = clip(last, 4 * DOING);
        }
    }

    fn count(&mut self, answer: Option<String>, usage: ModelCost) {
        if let Some(spent) = &mut self.spent {
            let answer = answer.unwrap_or_else(|| spent.len().to_string());
            spent.insert(clip(&answer, 80), usage);
            if spent.len() > MOST_ANSWERS {
                self.spent = None;
            }
        }
    }
}
