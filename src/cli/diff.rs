//! `diff`: what a task changed, line by line where each task has a worktree of its own, else by the names of the files.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::args::Diff;
use super::failure::{Exit, Failure};
use super::output::{Output, Style, complain};
use super::site::Site;
use crate::exec::{Git, GitError, difference, span_of};
use crate::plan::{Attempt, Line, Plan, TaskId, TaskStatus};
use crate::wire::text::printable;

/// Where the change of a task is found.
enum Found {
    /// Between two commits of the project.
    Accepted(String, String),
    /// In the task's worktree, or on its branch when that is gone.
    Open {
        folder: PathBuf,
        branch: String,
        tip: String,
    },
    /// Only the names of the files, an attempt a line: agents share the workspace.
    Shared(Vec<String>),
}

/// Shows what a task changed: of a completed one what was accepted, of any other what is there so far.
pub async fn diff(args: &Diff, site: &Site, output: &mut Output) -> Result<Exit, Failure> {
    let plan = site.plan(args.plan.as_deref()).await?;
    let task = args.task;
    let found = site
        .store
        .read(&plan, move |plan, _| {
            let found = plan.task(task).map(|_| find(plan, task));
            (plan.head().workspace.clone(), found)
        })
        .await?;
    let (project, found) = match found {
        (project, Some(found)) => (PathBuf::from(project), found),
        (_, None) => {
            return Err(
                Failure::usage(anyhow!("plan `{plan}` has no task `{task}`"))
                    .hint(format!("`{} status {plan}` shows the tasks", site.program)),
            );
        }
    };
    let span = match found {
        Found::Accepted(from, to) => Some((from, to)),
        Found::Open {
            folder,
            branch,
            tip,
        } => open_span(&project, &folder, &branch, &tip)
            .await
            .map_err(Failure::failed)?,
        Found::Shared(lines) if lines.is_empty() => None,
        Found::Shared(lines) => {
            for line in lines {
                output.line(&printable(&line))?;
            }
            complain(
                "Hint: agents share the workspace, so only names are known; [run] isolation = \"worktree\" keeps what each task changes\n",
            );
            return Ok(Exit::Done);
        }
    };
    let Some((from, to)) = span else {
        return Err(Failure::failed(anyhow!(
            "nobody has worked on task `{task}` yet"
        )));
    };
    let change = difference(&project, &from, &to, args.stat).await;
    show(&change.map_err(Failure::failed)?, output)?;
    Ok(Exit::Done)
}

fn find(plan: &Plan, task: TaskId) -> Found {
    let Some(line) = &plan.head().line else {
        return Found::Shared(plan.attempts_of(task).filter_map(named).collect());
    };
    let completed = (plan.task(task)).is_some_and(|task| task.status == TaskStatus::Completed);
    let current = plan.task(task).and_then(|task| plan.current_attempt(task));
    match current.and_then(|attempt| attempt.merge.as_ref()) {
        Some(merge) if completed => Found::Accepted(merge.onto.clone(), merge.commit.clone()),
        _ => Found::Open {
            folder: line.worktree(task).into(),
            branch: Line::task_branch(plan.id(), task),
            tip: line.tip.clone(),
        },
    }
}

/// Tells which files changed during an attempt, if somebody looked.
fn named(attempt: &Attempt) -> Option<String> {
    let changes = attempt.changes.as_ref()?.text(usize::MAX);
    let company = attempt.company().map(|company| format!(" ({company})"));
    Some(format!(
        "attempt {}  {changes}{}",
        attempt.number,
        company.unwrap_or_default()
    ))
}

async fn open_span(
    project: &Path,
    folder: &Path,
    branch: &str,
    tip: &str,
) -> Result<Option<(String, String)>, GitError> {
    if folder.join(".git").exists() {
        return span_of(folder, tip).await.map(Some);
    }
    let git = Git::at(project);
    let Some(head) = git.resolve(&format!("refs/heads/{branch}")).await? else {
        return Ok(None);
    };
    let from = git.line(&["merge-base", tip, &head]).await?;
    Ok(Some((from, head)))
}

/// Prints a difference: as it is for a program, without what a terminal would obey and with colours for a person.
fn show(change: &[u8], output: &mut Output) -> Result<(), Failure> {
    if change.is_empty() {
        complain("no file is changed\n");
        return Ok(());
    }
    if !output.is_terminal() {
        return output.bytes(change);
    }
    let paint = output.paint();
    let text = printable(&String::from_utf8_lossy(change));
    let coloured = text.lines().map(|line| {
        let style = match line.as_bytes() {
            [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => Style::Bold,
            [b'd', b'i', b'f', b'f', b' ', ..] => Style::Bold,
            [b'+', ..] => Style::Good,
            [b'-', ..] => Style::Bad,
            [b'@', b'@', ..] => Style::Busy,
            _ => Style::Plain,
        };
        paint.text(style, line) + "\n"
    });
    output.text(&coloured.collect::<String>())
}
