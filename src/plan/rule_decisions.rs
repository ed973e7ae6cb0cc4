//! Decisions by rules, for plans without a language model.

use super::draft::acceptable;
use super::model::{Attempt, CheckResult, DecidedBy, Decision, MERGE_CHECK, Time, Verdict};

/// The most characters of the report that a reason repeats.
const SAID: usize = 160;

/// Returns whether a result is beyond doubt: it reports full success, checks ran, and all of them pass.
pub fn certain(attempt: &Attempt) -> bool {
    let report = attempt.report.as_ref();
    let success = report.is_some_and(|report| report.status == super::ReportStatus::Success);
    let checked = attempt
        .checks
        .as_ref()
        .is_some_and(|checks| !checks.is_empty());
    success && checked && acceptable(attempt)
}

/// Judges a reported attempt: accepts it if that is possible (see `draft::acceptable`) and it reports full success; else the
/// task is retried.
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
        let reason = match check.name.as_str() {
            MERGE_CHECK => format!(
                "{status}, but it does not go together with the results before it{}",
                found(check)
            ),
            name => format!("{status}, but check `{name}` fails{}", found(check)),
        };
        (Decision::Retry, reason)
    } else {
        // This includes PARTIAL_SUCCESS: no rule knows whether the missing part matters.
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
            let reason = reason.trim_end_matches('.');
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
        by: DecidedBy::Rules,
        at: now,
    }
}

/// Returns the finding of a check that is not a command.
fn found(check: &CheckResult) -> String {
    match check.finding.as_str() {
        "" => String::new(),
        finding => format!(": {finding}"),
    }
}

/// Returns the first line that is not empty, bounded; a line that ends with a colon is joined with the next one.
fn first_words(pitfalls: &str, results: &str) -> String {
    let lines = pitfalls.lines().chain(results.lines()).map(str::trim);
    let mut words = String::new();
    for line in lines.filter(|line| line.chars().any(char::is_alphanumeric)) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(line.chars().take(SAID + 1));
        if !words.ends_with(':') || words.len() > SAID {
            break;
        }
    }
    match words.char_indices().nth(SAID) {
        Some((end, _)) => words[..end].to_owned() + "…",
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_skip_rules_and_continue_after_colon() {
        assert_eq!(first_words("", "---\n\n Done.\nMore."), "Done.");
        assert_eq!(first_words("No disk.", "Done."), "No disk.");
        let report =
            "Block 1 of 1 ended with exit code 1. Error output:\n\n    no such file\n    at all";
        assert_eq!(
            first_words("", report),
            "Block 1 of 1 ended with exit code 1. Error output: no such file"
        );
        assert_eq!(first_words("", "What:"), "What:");
        assert_eq!(
            first_words("", &"é".repeat(SAID + 9)).chars().count(),
            SAID + 1
        );
    }
}
