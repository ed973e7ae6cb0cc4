//! Decisions by rules, for plans without a language model.

use super::draft::acceptable;
use super::model::{Attempt, By, Decision, Time, Verdict};

/// Judges a reported attempt: accepted if it may be ([`acceptable`]) and reports full success; else once more.
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
        (Decision::Retry, format!("the agent reports {status}"))
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
