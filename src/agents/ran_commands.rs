//! The commands that an agent ran, their exit codes, and their order relative to the agent's own edits, from the events that its
//! program prints. Only whole lines that are events of a known agent count: what a command printed is text within them.

use serde::de::IgnoredAny;

use super::{AgentAct, Deed, ToolAnswer, acts};
use crate::plan::test_commands::{changes, runs_same, test_run};
use crate::plan::{RanCommand, RunOrder, TestRun};
use crate::wire::clip_bytes;

/// Commands that are kept of an attempt, and the longest of each and of the end of its output, in bytes.
const MOST_RAN: usize = 20;
const LONGEST: usize = 600;

/// The longest part of a command, and of the end of an output, that is searched, in bytes.
const SEARCHED: usize = 16 * 1024;

/// Where agents write their reports for the worker.
const INBOX: &str = ".plan-agent/";

/// How agents say that they were not allowed to run something.
const REFUSALS: [&str; 3] = ["permission", "approval", "rejected"];

/// Something that an agent did, and the answer to it. Without a deed it is not known: its line is torn.
#[derive(Debug, Default)]
struct Step {
    id: String,
    deed: Option<Deed>,
    answer: ToolAnswer,
}

impl Step {
    /// Returns the command that ran, its exit code, and what it printed.
    fn ran(&self) -> Option<(&str, Option<i32>, &str)> {
        let Some(Deed::Runs(command)) = &self.deed else {
            return None;
        };
        let command = &command[..command.floor_char_boundary(SEARCHED)];
        let (text, exit) = (self.answer.text.as_str(), self.answer.exit);
        let refused = self.answer.failed && REFUSALS.iter().any(|words| text.contains(words));
        (!refused || exit.is_some()).then_some((command, exit, text))
    }

    /// Returns whether it changed something in the folder, where these files changed: `None` if that is not known.
    fn edits(&self, folder: &str, changed: &[String]) -> Option<bool> {
        let Deed::Edits(path) = self.deed.as_ref()? else {
            let ran = self.ran().map(|(command, ..)| changes(command, changed));
            return ran.unwrap_or(Some(false));
        };
        let within = !path.starts_with('/') || path.starts_with(&format!("{folder}/"));
        let within = within || changed.iter().any(|file| path.ends_with(file));
        Some(within && !self.answer.failed && !path.contains(INBOX))
    }
}

/// Adds what the agent that printed this did, in the order in which it began that.
fn add_steps(steps: &mut Vec<Step>, printed: &str) {
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let acts = acts(line);
        if acts.is_none() && serde_json::from_str::<IgnoredAny>(line).is_err() {
            steps.push(Step::default());
        }
        for act in acts.into_iter().flatten() {
            match act {
                AgentAct::Uses { id, deed, .. } if deed.is_some() => {
                    let answer = ToolAnswer::default();
                    steps.push(Step { id, deed, answer });
                }
                AgentAct::Gets(answer) => {
                    let asks = |step: &&mut Step| step.id == answer.id && step.answer.id.is_empty();
                    if let Some(step) = steps.iter_mut().rfind(asks) {
                        step.answer = answer;
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the commands that an attempt's agents ran, by the ends of what they printed, in their order: the last ones, and the
/// last one that ran tests. `folder` is where they worked, `changed` are the files that changed there, `checks` the names and
/// commands of the configured checks.
pub fn ran_commands(
    printed: &[String],
    folder: &str,
    changed: &[String],
    checks: &[(String, String)],
) -> Vec<RanCommand> {
    let mut steps = Vec::new();
    printed.iter().for_each(|text| add_steps(&mut steps, text));
    let edits = steps.iter().map(|step| step.edits(folder, changed));
    let edits: Vec<Option<bool>> = edits.collect();
    let tests = |index: &usize| -> Option<TestRun> {
        let (command, exit, text) = steps[*index].ran()?;
        test_run(command, exit, last_bytes(text, SEARCHED), checks)
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
        let mut checks = checks.to_vec();
        checks.retain(|(_, check)| runs_same(command, check));
        Some(RanCommand {
            command: clip_bytes(command, LONGEST),
            exit,
            tail: last_bytes(text, LONGEST).to_owned(),
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
