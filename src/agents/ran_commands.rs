//! The commands that an agent ran, their exit codes, and their order relative to the agent's own edits, from the events that its
//! program prints. Only whole lines that are events of one agent count: what a command printed is text within them.

use serde_json::Value;

use super::agent_acts::{AgentAct, Deed, ToolAnswer};
use super::coding_agent::{CodingAgent, events};
use crate::plan::test_commands::{changes, runs_same, test_run};
use crate::plan::{RanCommand, RunOrder, TestRun};
use crate::wire::text::clip_bytes;

/// Commands that are kept of an attempt; the longest of them and the longest end of an output, in bytes.
const MOST_RAN: usize = 20;
const COMMAND: usize = 400;
const TAIL: usize = 600;

/// The longest part of a command, and of the end of an output, that is searched, in bytes.
const SEARCHED: usize = 16 * 1024;

/// Where agents write their reports for the worker.
const INBOX: &str = ".plan-agent/";

/// How agents say that they were not allowed to run something.
const REFUSALS: [&str; 3] = ["permission", "approval", "rejected"];

/// What is known from elsewhere about an attempt.
#[derive(Clone, Debug, Default)]
pub struct RanWhere {
    /// The folder that the agent worked in.
    pub folder: String,
    /// Paths of the files that changed.
    pub changed: Vec<String>,
    /// The names and commands of the configured checks.
    pub checks: Vec<(String, String)>,
}

/// Something that an agent did, and the answer to it. Without a deed it is not known: its line is torn.
#[derive(Debug, Default)]
struct Step {
    id: String,
    deed: Option<Deed>,
    answer: Option<ToolAnswer>,
}

impl Step {
    /// Returns the command that ran, its exit code, and what it printed.
    fn ran(&self) -> Option<(&str, Option<i32>, &str)> {
        let Some(Deed::Runs(command)) = &self.deed else {
            return None;
        };
        let command = &command[..command.floor_char_boundary(SEARCHED)];
        let Some(answer) = &self.answer else {
            return Some((command, None, ""));
        };
        let refused = REFUSALS.iter().any(|words| answer.text.contains(words));
        let ran = !(answer.failed && refused && answer.exit.is_none());
        ran.then_some((command, answer.exit, answer.text.as_str()))
    }

    /// Returns whether it changed something in the workspace: `None` if that is not known.
    fn edits(&self, at: &RanWhere) -> Option<bool> {
        let Deed::Edits(path) = self.deed.as_ref()? else {
            let ran = self
                .ran()
                .map(|(command, ..)| changes(command, &at.changed));
            return ran.unwrap_or(Some(false));
        };
        let failed = self.answer.as_ref().is_some_and(|answer| answer.failed);
        let within = !path.starts_with('/') || path.starts_with(&format!("{}/", at.folder));
        let within = within || at.changed.iter().any(|file| path.ends_with(file));
        Some(within && !failed && !path.contains(INBOX))
    }
}

/// Adds what the agent that printed this did, in the order in which it began that.
fn add_steps(steps: &mut Vec<Step>, printed: &str) {
    let agents = || {
        CodingAgent::ALL
            .into_iter()
            .map(|agent| agent.program().acts)
    };
    let mut acts = events(printed).filter_map(|event| agents().find(|acts| acts(&event).is_some()));
    let Some(acts) = acts.next() else {
        return;
    };
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            steps.push(Step::default());
            continue;
        };
        for act in acts(&event).unwrap_or_default() {
            match act {
                AgentAct::Uses { id, deed, .. } if deed.is_some() => {
                    let answer = None;
                    steps.push(Step { id, deed, answer });
                }
                AgentAct::Gets(answer) => {
                    let open = |step: &&mut Step| step.id == answer.id && step.answer.is_none();
                    if let Some(step) = steps.iter_mut().rfind(open) {
                        step.answer = Some(answer);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the commands that an attempt's agents ran, by the ends of what they printed, in their order: the last ones, and the
/// last one that ran tests.
pub fn ran_commands(printed: &[String], at: &RanWhere) -> Vec<RanCommand> {
    let mut steps = Vec::new();
    printed.iter().for_each(|text| add_steps(&mut steps, text));
    let edits: Vec<Option<bool>> = steps.iter().map(|step| step.edits(at)).collect();
    let tests = |index: &usize| -> Option<TestRun> {
        let (command, exit, text) = steps[*index].ran()?;
        test_run(command, exit, last_bytes(text, SEARCHED), &at.checks)
    };
    let ran = (0..steps.len()).filter(|index| steps[*index].ran().is_some());
    let mut ran: Vec<usize> = ran.collect();
    let last_test = ran.iter().rfind(|index| tests(index).is_some()).copied();
    ran.drain(..ran.len().saturating_sub(MOST_RAN));
    if let (Some(first), Some(test)) = (ran.first_mut(), last_test) {
        *first = test.min(*first);
    }
    let fact = |index: usize| {
        let (command, exit, text) = steps[index].ran()?;
        let mut checks = at.checks.clone();
        checks.retain(|(_, check)| runs_same(command, check));
        Some(RanCommand {
            command: clip_bytes(command, COMMAND),
            exit,
            tail: last_bytes(text, TAIL).to_owned(),
            order: match &edits[index + 1..] {
                later if later.contains(&Some(true)) => RunOrder::BeforeLastEdit,
                later if later.contains(&None) => RunOrder::Unknown,
                _ => RunOrder::AfterLastEdit,
            },
            tests: tests(&index),
            checks: checks.into_iter().map(|(name, _)| name).collect(),
        })
    };
    ran.into_iter().filter_map(fact).collect()
}

fn last_bytes(text: &str, most: usize) -> &str {
    let text = text.trim_end();
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

#[cfg(test)]
mod tests;
