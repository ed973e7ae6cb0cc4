//! Where the agents of a plan work, and where their results are: sentences of the terminal and the page, without a full stop.

use super::ProgramName;
use crate::plan::{IntegrationBranch, PlanHead, ResultsMove};

/// Says where agents work, and how their results come back. `folder` is the workspace of the plan or, where its tasks have
/// worktrees, the folder for those, as it is shown there.
pub fn place_of_agents(head: &PlanHead, folder: &str, program: &ProgramName) -> String {
    if !head.is_isolated() {
        return format!("agents work in `{folder}`");
    }
    let (id, branch) = (&head.id, IntegrationBranch::branch(&head.id));
    format!(
        "agents work in worktrees below `{folder}`; what is accepted comes onto the branch `{branch}`, and `{program} merge {id}` takes it over"
    )
}

/// Says where the results of a plan are whose workspace is shown as `folder`, and what to type next to get them.
pub fn place_of_results(head: &PlanHead, folder: &str, program: &ProgramName) -> String {
    let branch = IntegrationBranch::branch(&head.id);
    match (&head.line, head.results) {
        (None, _) => format!("The work is in `{folder}`"),
        (_, Some(ResultsMove::Discarded)) => "The results are discarded".to_owned(),
        (_, Some(ResultsMove::TakenOver | ResultsMove::Pruned)) => {
            "The results are taken over".to_owned()
        }
        (Some(line), _) if line.elsewhere.is_some() => format!(
            "The work is at the commit `{}`, as somebody else moved `{branch}`",
            line.tip
        ),
        (Some(line), _) if line.tip == line.base => {
            format!("Nothing was accepted that changes `{folder}`")
        }
        _ => format!(
            "The work is on the branch `{branch}`: `{program} merge {}` takes it over",
            head.id
        ),
    }
}
