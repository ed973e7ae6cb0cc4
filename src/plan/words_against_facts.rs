//! Reports whose words contradict what the agent itself ran, or each other: by rule, before any model is asked.

use super::rule_decisions::bounded;
use super::test_commands::{failed, patterns};
use super::{Attempt, CheckResult, RanCommand, ReportStatus, RunOrder, TestRun, acceptable};

/// The bytes of each part of a report that are searched.
const WORDS: usize = 16 * 1024;

patterns! {
    /// A sentence, in lower case, that says that tests pass.
    PASS = r"tests?\b.*(pass|green)|测试.*通过";
    /// One that sums tests up.
    SUM = r"\d (passed|passing)|tests? fail|failures=";
    /// One that denies something.
    DENIES = r"\bnot\b|n't|\bno tests?\b|fail|未|不|没";
    /// One about how it was or is to be: it says nothing of the result.
    NOT_NOW = r"(?x)\b(before|at\ first|initially|previously|earlier|originally|was|were|had|fixed|should|will|would|once|if
        |until)\b";
}

/// Returns what speaks against a report that might be accepted otherwise. Of what the agent ran only the last test run counts,
/// and not if a check that passed ran the same.
pub fn contradiction(attempt: &Attempt) -> Option<String> {
    let report = attempt.report.as_ref().filter(|_| acceptable(attempt))?;
    let words = [&report.results, &report.pitfalls, &report.next_steps];
    let words = words.map(|part| part[..part.floor_char_boundary(WORDS)].to_lowercase());
    let words = words.join("\n");
    let sentences = words.split(['\n', '。']).flat_map(|line| line.split(". "));
    let sentences = sentences.filter(|said| !NOT_NOW.is_match(said));
    let is_sum = |said: &&str| SUM.is_match(said) && failed(said).is_some();
    let sum = sentences.clone().filter(is_sum).last().unwrap_or_default();
    let mut passes = sentences.filter(|said| PASS.is_match(said) && !DENIES.is_match(said));
    let pass = failed(sum) == Some(false) || passes.next().is_some();
    let says = match (pass, report.status) {
        (true, _) => "the report says that tests pass",
        (false, ReportStatus::Success) => "the agent reports SUCCESS",
        _ => return None,
    };
    let checks = || attempt.checks.iter().flatten();
    let measured = |ran: &&RanCommand| checks().any(|check| ran.checks.contains(&check.name));
    let tested = |check: &CheckResult| {
        failed(&check.tail).is_some() || check.passed && check.tests > Some(0)
    };
    let last = attempt.ran.iter().rfind(|ran| ran.tests.is_some());
    let seen = |ran: &RanCommand| ran.tests == Some(TestRun::Passed);
    match last.filter(|ran| !measured(ran)) {
        Some(ran) if ran.tests == Some(TestRun::Failed) => {
            let end: Vec<&str> = ran.tail.split_whitespace().collect();
            let (command, outcome, end) = (&ran.command, ran.outcome(), end.join(" "));
            let failed = "but its own last test run failed";
            Some(format!("{says}, {failed}: `{command}` ({outcome}): {end}"))
        }
        Some(ran) if pass && ran.order == RunOrder::BeforeLastEdit => {
            let late = "last ran before the last edit; run it again";
            Some(format!("{says}, but `{}` {late}", ran.command))
        }
        _ if report.status != ReportStatus::Success || failed(sum) != Some(true) => None,
        // What was measured, or seen to run, says more than how a report puts it.
        _ if last.is_some_and(seen) || checks().any(tested) => None,
        _ => Some(format!("{says}, and also `{}`", bounded(sum.trim()))),
    }
}

#[cfg(test)]
mod tests;
