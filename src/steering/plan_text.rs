//! A person edits the text of a plan: an edit is made as a whole or not at all.

use std::path::Path;

use super::NAME;
use crate::exec;
use crate::plan::{Draft, PlanHead, PlanSpec, Refusal, TaskEdit, TaskState, counted};
use crate::wire::plan_file::Reference;
use crate::wire::{EditedPlan, ONLY_ITS_OWN, PlanFile, PlanToEdit, Problem, one_line};

/// Reads what a person has made of a plan's text; `head` is the plan's as it is now.
///
/// # Errors
/// What is wrong with the text, what of it does not fit what is there, or a role that the team does not have.
pub fn read_edit(
    given: &PlanToEdit,
    text: &str,
    head: &PlanHead,
    mismatches: impl FnOnce(&PlanFile, &Path) -> Vec<Problem>,
) -> Result<EditedPlan, Vec<Problem>> {
    let edited = given.read(text)?;
    let problems = mismatches(&edited.changed, Path::new(&head.workspace));
    if !problems.is_empty() {
        return Err(problems);
    }
    let roles = edited.changed.plan.tasks.iter();
    let mut roles = roles.filter_map(|task| task.assignee.as_ref());
    match roles.find_map(|role| unknown_role(head, Some(role))) {
        Some(problem) => Err(vec![problem]),
        None => Ok(edited),
    }
}

/// Returns what in a plan file does not fit the checks that are configured and the workspace.
pub fn mismatches<'a>(
    plan: &PlanFile,
    checks: &(impl Iterator<Item = &'a str> + Clone),
    workspace: &Path,
) -> Vec<Problem> {
    let mut problems = plan.unknown_checks(checks);
    let out = |file: &&Reference| exec::leads_out(workspace, &file.word);
    problems.extend(plan.produced.iter().filter(out).map(|file| {
        let message = format!("`{}` leads out of the workspace through a link", file.word);
        file.problem(message)
            .with_hint("name a file that is in the workspace itself")
    }));
    problems
}

/// Returns that no member of the plan's team has a role, if so; or that a task for no role has no worker there.
pub fn unknown_role(head: &PlanHead, role: Option<&str>) -> Option<Problem> {
    let roles: Vec<&str> = head.policy.roles.keys().map(String::as_str).collect();
    let problem = match role {
        None if head.policy.roles_only => format!("the task has no assignee: {ONLY_ITS_OWN}"),
        Some(role) if !roles.is_empty() && !roles.contains(&role) => {
            format!("the team has no role `{}`", one_line(role, NAME))
        }
        _ => return None,
    };
    Some(Problem::new(problem).with_hint(format!("its roles are {}", roles.join(", "))))
}

/// Makes an edit of the plan as it is now; or changes nothing, and returns what is in the way.
///
/// # Errors
/// As [`Draft::edit_tasks`].
pub fn edit(draft: &mut Draft<'_>, edited: EditedPlan) -> Result<Vec<Refusal>, Refusal> {
    let refused = draft.plan().not_to_be_edited(&edited.tasks);
    if !refused.is_empty() {
        return Ok(refused);
    }
    draft.edit_tasks(&edited.tasks)?;
    if let Some(header) = edited.header {
        draft.change_head(|head| set(head, header));
    }
    Ok(Vec::new())
}

/// Changes what the person has changed of the header.
fn set(head: &mut PlanHead, [was, is]: [PlanSpec; 2]) {
    let texts = [
        (&mut head.name, was.name, is.name),
        (&mut head.goal, was.goal, is.goal),
        (&mut head.description, was.description, is.description),
        (
            &mut head.expected_outcome,
            was.expected_outcome,
            is.expected_outcome,
        ),
        (&mut head.constraints, was.constraints, is.constraints),
    ];
    for (text, was, is) in texts {
        if was != is {
            *text = is;
        }
    }
}

/// Returns why an edit changes a plan, for its log, with the fields of the header: no event names those.
pub fn why_edited(edited: &EditedPlan) -> String {
    let Some([was, is]) = &edited.header else {
        return "edited".to_owned();
    };
    let fields = [
        ("name", was.name != is.name),
        ("goal", was.goal != is.goal),
        ("description", was.description != is.description),
        (
            "expected_outcome",
            was.expected_outcome != is.expected_outcome,
        ),
        ("constraints", was.constraints != is.constraints),
    ];
    let changed = fields.into_iter().filter(|(_, changed)| *changed);
    let changed: Vec<&str> = changed.map(|(field, _)| field).collect();
    match changed.as_slice() {
        [] => "edited".to_owned(),
        changed => format!("edited: {}", changed.join(", ")),
    }
}

/// Returns what an edit does, in one line.
pub fn summary(edited: &EditedPlan) -> String {
    let what = |edit: &TaskEdit| match edit {
        TaskEdit::Change(..) => "changed",
        TaskEdit::Add(_) => "added",
        TaskEdit::Done(_) => "done by hand",
        TaskEdit::Skip(_) => "skipped",
        TaskEdit::Keep(_) => "kept",
    };
    let mut parts = Vec::from_iter(edited.header.as_ref().map(|_| "its header changed".into()));
    for word in ["changed", "added", "done by hand", "skipped"] {
        let count = edited.tasks.iter().filter(|edit| what(edit) == word);
        match count.count() {
            0 => {}
            count => parts.push(format!("{} {word}", counted(count, "task"))),
        }
    }
    parts.join(", ")
}

/// Returns what is in the way of an edit, with the way back.
pub fn way_back(refusal: &Refusal) -> Problem {
    let problem = Problem::new(refusal.to_string());
    match refusal {
        Refusal::NotEditable { task, status } => problem.with_hint(match status {
            TaskState::InProgress => {
                let words = "gives your words to its agent, or to its next attempt";
                format!("leave it as it was; `tell {task} \"…\"` {words}")
            }
            _ => format!("leave it as it was; `retry {task}` has it tried again"),
        }),
        Refusal::Outdated => problem.with_hint("close the editor, and `edit` again"),
        _ => problem,
    }
}
