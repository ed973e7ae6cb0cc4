//! Failures that repeat: what was said in full once is not said again.

use std::collections::BTreeMap;

use super::Style;
use super::run_progress_lines::called;
use crate::plan::{Decision, Event, TaskId};

/// The last failure of each task, how often it came in a row, and how often the task failed in all.
#[derive(Debug, Default)]
pub struct RepeatedFailures(BTreeMap<TaskId, (String, u32, u32)>);

impl RepeatedFailures {
    /// Returns the line of an event: the one that is given, unless it only repeats how the task failed before.
    pub fn told(
        &mut self,
        event: &Event,
        names: &BTreeMap<TaskId, String>,
        line: (String, Style),
    ) -> (String, Style) {
        match (self.fold(event), event.task()) {
            (Some(again), Some(task)) => (format!("{}: {again}", called(task, names)), Style::Bad),
            _ => line,
        }
    }

    /// Records an event. Returns what to say instead if it only repeats how the task failed before.
    fn fold(&mut self, event: &Event) -> Option<String> {
        let task = event.task()?;
        let Some(reason) = failure(event) else {
            if matches!(event, Event::Completed { .. } | Event::Reopened { .. }) {
                self.0.remove(&task);
            }
            return None;
        };
        // Times and ports differ where the cause is the same.
        let cause = reason.replace(|c: char| c.is_ascii_digit(), "0");
        let (last, times, all) = self.0.entry(task).or_default();
        *all += 1;
        if *last != cause {
            (*last, *times) = (cause, 1);
            return None;
        }
        *times += 1;
        Some(match all == times {
            true => format!("failed again in the same way ({times} times)"),
            false => format!("failed again in the same way ({times} times; {all} failures in all)"),
        })
    }
}

/// Returns why an attempt failed.
fn failure(event: &Event) -> Option<&str> {
    match event {
        Event::Judged {
            decision: Decision::Retry,
            reason,
            ..
        }
        | Event::TimedOut { reason, .. }
        | Event::Stumbled { reason, .. } => Some(reason),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::CommandId;

    #[test]
    fn repeated_failure_is_folded() {
        let mut failures = RepeatedFailures::default();
        let mut fold = |task: u32, reason: &str| {
            failures.fold(&Event::Judged {
                task: TaskId(task),
                command: CommandId::new("task-1a"),
                decision: Decision::Retry,
                reason: reason.into(),
            })
        };
        assert_eq!(fold(1, "no port 8081"), None);
        assert_eq!(fold(2, "no port 8081"), None);
        let again = |times: u32| Some(format!("failed again in the same way ({times} times)"));
        assert_eq!(fold(1, "no port 8082"), again(2));
        assert_eq!(fold(1, "no port 8083"), again(3));
        assert_eq!(fold(1, "no disk"), None);
        assert_eq!(fold(1, "no port 8081"), None);
        let third = "failed again in the same way (2 times; 6 failures in all)".to_owned();
        assert_eq!(fold(1, "no port 8082"), Some(third));
    }
}
