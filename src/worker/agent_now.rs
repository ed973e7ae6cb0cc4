//! What an agent does at the moment, and what it has used, by the files of its output.

use std::collections::HashMap;
use std::path::PathBuf;

use super::agent_log::{AgentLog, from_folder};
use crate::agents::{AgentAct, acts};
use crate::plan::ModelCost;
use crate::wire::{clip, one_line};

/// Characters of what an agent does at the moment.
const DOING: usize = 200;

/// Answers of the model whose usage is counted one by one. An agent at work for a day has fewer.
const MOST_ANSWERS: usize = 10_000;

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
