//! What tasks took so far, and what those of a plan may take: a range.

use super::agent_of;
use super::usage::{joined, money, of_tasks, time};
use crate::plan::{Plan, Task, TaskState, Time};

/// With fewer tasks than this, the next ones are guessed.
const FEW: usize = 5;

/// What one task takes as long as little is known: seconds from and to.
const GUESS: (f64, f64) = (60.0, 600.0);

/// What completed tasks took, of which the next ones are expected.
#[derive(Clone, Debug, Default)]
pub struct PastTasks {
    seconds: Vec<f64>,
    dollars: Vec<f64>,
}

impl PastTasks {
    /// Adds the tasks that an agent (see [`agent_of`]) completed before a time.
    pub fn add(&mut self, plan: &Plan, agent: &str, before: Time) {
        if agent_of(plan) != agent {
            return;
        }
        let used = of_tasks(plan);
        let early = |task: &&Task| task.finished_at.is_some_and(|at| at < before);
        let done = |task: &&Task| task.status == TaskState::Completed && early(task);
        let done = plan.tasks().filter(done);
        for used in done.filter_map(|task| used.get(&task.number)) {
            self.seconds.push(used.seconds);
            self.dollars.push(used.cost_usd);
        }
    }

    /// Returns what the tasks of a plan may take, in words: a range from the middle half of the past tasks. While they are few,
    /// the time alone is guessed if that is wanted. `None` if there is nothing to say.
    pub fn expected(&self, plan: &Plan, lanes: u32, guess: bool) -> Option<String> {
        let counts = plan.counts();
        let count = counts.total() - counts.skipped;
        let lanes = usize::try_from(lanes).unwrap_or(1);
        let known = self.seconds.len() >= FEW;
        let (seconds, source) = match known {
            true => {
                let source = format!("from the {} tasks done here", self.seconds.len());
                (middle_half(&self.seconds), source)
            }
            false if guess => (GUESS, "a guess: few tasks were done here yet".to_owned()),
            false => return None,
        };
        let said = range(seconds, count.div_ceil(lanes.max(1)) as f64, time);
        let cost = known.then(|| range(middle_half(&self.dollars), count as f64, money));
        let said = joined([said, cost.flatten()], ", ").filter(|_| count > 0);
        said.map(|said| format!("expected: {said} ({source})"))
    }
}

/// Returns the first and the third quartile.
fn middle_half(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted.get((sorted.len() - 1) * quarter / 4);
    let at = |quarter| at(quarter).copied().unwrap_or_default();
    (at(1), at(3))
}

/// Says a range of so many times two values, or the one value that both ends show.
fn range(
    (low, high): (f64, f64),
    times: f64,
    say: impl Fn(f64) -> Option<String>,
) -> Option<String> {
    let high = say(high * times)?;
    match say(low * times) {
        Some(low) if low != high => Some(format!("{low} to {high}")),
        Some(_) => Some(high),
        None => Some(format!("up to {high}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample_plan;
    use super::*;

    #[test]
    fn expects_the_middle_half_of_what_was_done() {
        let plan = sample_plan::plan();
        let mut past = PastTasks::default();
        assert_eq!(past.expected(&plan, 3, false), None);
        insta::assert_snapshot!(past.expected(&plan, 3, true).unwrap(), @"expected: 2 min to 20 min (a guess: few tasks were done here yet)");
        past.seconds = vec![5.0, 60.0, 60.0, 120.0, 9000.0];
        past.dollars = vec![0.0, 0.1, 0.2, 0.3, 70.0];
        insta::assert_snapshot!(past.expected(&plan, 3, true).unwrap(), @"expected: 2 min to 4 min, $0.50 to $1.50 (from the 5 tasks done here)");
        past.seconds = vec![0.01; 5];
        past.dollars = vec![0.0; 5];
        assert_eq!(past.expected(&plan, 3, true), None);
    }
}
