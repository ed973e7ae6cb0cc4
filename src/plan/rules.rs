//! Decisions by rules, for plans without a language model.

use super::draft::acceptable;
use super::model::{Attempt, By, Decision, Time, Verdict};

/// Characters of the report that a reason repeats.
const SAID: usize = 160;

/// Judges a reported attempt: accepted if it may be (see `draft::acceptable`) and reports full success; else once more.
pub fn judge(attempt: &Attempt, now: Time) -> Verdict {
    let failing: Vec<_> = attempt
        .checks
        .iter()
        .flatten()
        .filter(|check| !check.passed)
        .collect();
    let report = attempt.report.as_ref();
    let status = report.map_or("no report", |report| report.status.as_str());
    let success = report.is_some_and(|report| report.status == super::ReportStatus::Success);
    let (decision, reason) = if success && acceptable(attempt) {
        let checked = if attempt.checks.iter().flatten().next().is_some() {
            "every check passes"
        } else {
            "no check is set"
        };
        (Decision::Next, format!("{status}, {checked}"))
    } else if let Some(check) = failing.first() {
        (
            Decision::Retry,
            format!("{status}, but check `{}` fails", check.name),
        )
    } else {
        let said = report.map(|report| first_words(&report.pitfalls, &report.results));
        let said = said
            .filter(|said| !said.is_empty())
            .map(|said| format!(": {said}"));
        (
            Decision::Retry,
            format!("the agent reports {status}{}", said.unwrap_or_default()),
        )
    };
    let feedback = match decision {
        Decision::Retry => {
            format!(
                "Your last report was not accepted: {reason}. Mend what is missing and report again."
            )
        }
        _ => String::new(),
    };
    Verdict {
        decision,
        reason,
        feedback,
        result_summary: String::new(),
        by: By::Rules,
        at: now,
    }
}

/// Returns the first line that says something, bounded.
fn first_words(pitfalls: &str, results: &str) -> String {
    let lines = pitfalls.lines().chain(results.lines());
    let words = |line: &&str| line.chars().any(char::is_alphanumeric);
    let line = lines.map(str::trim).find(words).unwrap_or_default();
    line.chars().take(SAID).collect()
}
