//! Decisions by rules: for plans without a language model, and where facts settle a result.

use super::proof::proven;
use super::words_against_facts::contradiction;
use super::*;

/// The most characters of the report that a reason repeats.
const SAID: usize = 160;

/// Returns whether a result is beyond doubt: it reports full success, checks ran, and all of them pass.
pub fn certain(attempt: &Attempt) -> bool {
    let checked = attempt.checks.iter().flatten().next().is_some();
    reports_success(attempt) && checked && acceptable(attempt)
}

/// Returns whether facts settle a result, so that no model is asked: every criterion is proven and the agent reports SUCCESS,
/// or a check fails that did not fail when checks ran on an attempt before. One that fails again may mean that the task itself
/// is wrong, which a model may see.
pub fn settled(plan: &Plan, attempt: &Attempt) -> bool {
    if contradiction(attempt).is_some() {
        return true;
    }
    let task = plan.task(attempt.task);
    if attempt.failing().next().is_none() {
        return reports_success(attempt) && task.is_some_and(|task| proven(task, attempt));
    }
    let mut earlier = plan.attempts_of(attempt.task).rev();
    let before = earlier.find(|other| other.id != attempt.id && other.checks.is_some());
    let mut before = before.into_iter().flat_map(Attempt::failing);
    !before.any(|other| attempt.failing().any(|check| check.name == other.name))
}

fn reports_success(attempt: &Attempt) -> bool {
    let report = attempt.report.as_ref();
    report.is_some_and(|report| report.status == ReportStatus::Success)
}

/// Judges a reported attempt: accepts it if that is possible (see `draft::acceptable`), it reports full success and nothing
/// contradicts that; else the task is retried. A check that failed `before` the work as well is not put down to the agent.
pub fn judge(attempt: &Attempt, before: &[CheckBefore], now: Time) -> Verdict {
    let report = attempt.report.as_ref();
    let status = report.map_or("no report", |report| report.status.as_str());
    let mut checks = attempt.checks.iter().flatten().peekable();
    let (decision, reason) = if let Some(against) = contradiction(attempt) {
        (Decision::Retry, against)
    } else if reports_success(attempt) && acceptable(attempt) {
        let checked = checks
            .peek()
            .map_or("no check is set", |_| "every check passes");
        (Decision::Next, format!("{status}, {checked}"))
    } else if let Some(check) = checks.find(|check| !check.passed) {
        let name = &check.name;
        // The finding of a check that is not a command, or ran out of time.
        let found = unless_empty(&check.finding, |finding| format!(": {finding}"));
        let reason = match name.as_str() {
            MERGE_CHECK if check.finding.starts_with(CONFLICT) => {
                "it does not go together with the results before it".to_owned()
            }
            MERGE_CHECK => "its result cannot be merged".to_owned(),
            name if failed_before(before, name) => {
                format!("check `{name}` fails (it failed before the work, too)")
            }
            name => format!("check `{name}` fails"),
        };
        let reason = format!("{reason}{found}; the agent reports {status}");
        (Decision::Retry, reason)
    } else if let Some(report) =
        report.filter(|report| report.author == ReportAuthor::WorkerByWords)
    {
        let wrote = report.results.split_once('.');
        let wrote = wrote.map_or("no report", |it| it.0);
        let changed = attempt.changes.clone().unwrap_or_default().text(1);
        (Decision::Retry, format!("{wrote}; {changed}"))
    } else {
        // This includes PARTIAL_SUCCESS: no rule knows whether the missing part matters.
        let said = report.map(|report| first_words(&report.pitfalls, &report.results));
        let reason = match said.as_deref() {
            None | Some("") => format!("the agent reports {status}"),
            Some(said) => format!("{}; the agent reports {status}", said.trim_end_matches('.')),
        };
        (Decision::Retry, reason)
    };
    let feedback = match decision {
        Decision::Retry => format!(
            "Your last report was not accepted: {}. Mend what is missing and report again.",
            reason.trim_end_matches('.')
        ),
        _ => String::new(),
    };
    Verdict {
        decision,
        reason,
        feedback,
        by: DecidedBy::Rules,
        at: now,
        ..Verdict::default()
    }
}

/// Returns whether a check is known to have failed on the state before the work.
pub fn failed_before(before: &[CheckBefore], name: &str) -> bool {
    let mut before = before.iter();
    before.any(|it| it.name == name && it.outcome == Before::Red)
}

/// Returns the first line that is not empty, bounded. One that ends with a colon only leads to the next one, which is the cause:
/// it stands behind that, without a title of what comes. A program says at the end of its output why it failed.
fn first_words(pitfalls: &str, results: &str) -> String {
    let lines = pitfalls.lines().chain(results.lines()).map(str::trim);
    let mut lines = lines.filter(|line| line.chars().any(char::is_alphanumeric));
    let first = lines.next().unwrap_or_default();
    let context = first.strip_suffix(':');
    let cause = match context {
        Some(context) if context.to_lowercase().ends_with("output") => lines.next_back(),
        _ => lines.next(),
    };
    match (context, cause) {
        (Some(context), Some(cause)) => {
            let context = context.rsplit_once(". ").map_or(context, |(it, _)| it);
            format!("{} ({})", bounded(cause), bounded(context))
        }
        _ => bounded(first),
    }
}

/// Returns the beginning of a text.
pub(super) fn bounded(text: &str) -> String {
    match text.char_indices().nth(SAID) {
        Some((end, _)) => text[..end].to_owned() + "…",
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::model::{ChangeDetection, ChangedFiles, CommandId, TaskId};

    #[test]
    fn words_without_a_report_are_put_beside_what_changed() {
        let mut attempt = Attempt::new(CommandId::new("task-1"), TaskId(1), 1, Time(0));
        attempt.report = Some(Report {
            status: ReportStatus::PartialSuccess,
            results: "claude wrote no report. It said: done".to_owned(),
            author: ReportAuthor::WorkerByWords,
            ..Report::default()
        });
        let files = vec!["a.txt".to_owned(), "b.txt".to_owned()];
        attempt.changes = Some(ChangedFiles::new(ChangeDetection::Git, files));
        let reason = judge(&attempt, &[], Time(0)).reason;
        assert_eq!(reason, "claude wrote no report; changed: a.txt and 1 more");
    }

    #[test]
    fn failure_from_before_is_not_put_down_to_the_agent() {
        let mut attempt = Attempt::new(CommandId::new("task-1"), TaskId(1), 1, Time(0));
        attempt.checks = Some(vec![CheckResult {
            name: "test".to_owned(),
            exit: Some(1),
            ..CheckResult::default()
        }]);
        let said = |outcome| {
            let before = CheckBefore {
                name: "test".to_owned(),
                outcome,
                tests: None,
                command: String::new(),
            };
            judge(&attempt, &[before], Time(0)).reason
        };
        let red =
            "check `test` fails (it failed before the work, too); the agent reports no report";
        assert_eq!(said(Before::Red), red);
        let green = "check `test` fails; the agent reports no report";
        assert_eq!(said(Before::Green), green);
    }

    #[test]
    fn first_words_skip_rules_and_continue_after_colon() {
        assert_eq!(first_words("", "---\n\n Done.\nMore."), "Done.");
        assert_eq!(first_words("No disk.", "Done."), "No disk.");
        let report =
            "Block 1 of 1 ended with exit code 1. Error output:\n\n    Reading …\n    no such file";
        let words = "no such file (Block 1 of 1 ended with exit code 1)";
        assert_eq!(first_words("", report), words);
        assert_eq!(first_words("", "What:"), "What:");
        let cut = first_words("", &"é".repeat(SAID + 9));
        assert_eq!(cut.chars().count(), SAID + 1);
    }
}
