//! The files that a plan was to make, named at its end.

use std::collections::BTreeSet;
use std::path::Path;

use super::output::shown_from_here;
use crate::plan::{Plan, TaskState};
use crate::wire::text::one_line;

/// The most files that are named.
const MOST: usize = 6;

/// Names the files that completed tasks had to produce; `None` if there are none. With worktrees they are not in the workspace
/// before the results are taken over, so only their names in it are shown.
pub fn made_files(plan: &Plan) -> Option<String> {
    let head = plan.head();
    let completed = plan
        .tasks()
        .filter(|task| task.status == TaskState::Completed);
    let mut seen = BTreeSet::new();
    let files = completed.flat_map(|task| &task.produces);
    let files: Vec<&String> = files.filter(|file| seen.insert(*file)).collect();
    let shown = files.iter().take(MOST).map(|file| match head.line {
        Some(_) => one_line(file, 300),
        None => shown_from_here(&Path::new(&head.workspace).join(file)),
    });
    let shown: Vec<String> = shown.map(|file| format!("`{file}`")).collect();
    let more = match files.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!files.is_empty()).then(|| format!("It made {}{more}.", shown.join(", ")))
}
