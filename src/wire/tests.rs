//! What the tests of several modules share.

pub(crate) mod sample_plans;

use super::problem::Problem;

/// Returns problems and their mends, one a line.
pub(crate) fn told(problems: &[Problem]) -> String {
    let lines = problems.iter().map(|problem| match &problem.hint {
        Some(hint) => format!("{problem} / {hint}"),
        None => problem.to_string(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
