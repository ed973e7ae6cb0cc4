//! `diff`: what a task changed, line by line where each task has a worktree of its own, else by the names of the files.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::App;
use super::args::DiffArgs;
use super::failure::{Exit, Failure};
use super::output::{Output, complain};
use crate::exec::{
    CommitRange, DiffDetail, Filters, GitError, Project, difference, examine, span_of,
};
use crate::plan::{Attempt, IntegrationBranch, Plan, PlanHead, PlanId, Task, TaskId, TaskState};
use crate::view::Style;
use crate::wire::text::{one_line, printable};

/// Said where only the names of files are known.
const ONLY_NAMES: &str = "Hint: agents share the workspace, so only names are known; [run] isolation = \"worktree\" keeps what each task changes\n";

/// Characters of a task's name.
const TITLE: usize = 60;

/// Where the change of a task is found.
enum DiffSource {
    /// Between two commits of the project.
    Accepted(String, String),
    /// In the task's worktree, or on its branch when that is gone.
    Open {
        folder: PathBuf,
        branch: String,
        tip: String,
    },
    /// Only the names of the files: agents share the workspace.
    Shared(Vec<NamedChanges>),
}

/// What is known of the files that changed during an attempt.
struct NamedChanges {
    changed: bool,
    text: String,
}

/// Shows what a task changed: of a completed one what was accepted, of any other what is there so far. Without a task, which
/// tasks changed something.
pub async fn diff(args: &DiffArgs, app: &App, output: &mut Output) -> Result<Exit, Failure> {
    let (plan, task) = args.meant();
    let plan = app.plan(plan).await?;
    match task {
        Some(task) => of_task(&plan, task, args.stat, app, output).await,
        None => of_all(&plan, args.stat, app, output).await,
    }
}

async fn of_task(
    plan: &PlanId,
    task: TaskId,
    stat: bool,
    app: &App,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let found = app
        .read(plan, move |plan, _| {
            let found = plan.task(task).map(|_| find(plan, task));
            (plan.head().clone(), found)
        })
        .await?;
    let (head, Some(found)) = found else {
        return Err(app.no_task(plan, task));
    };
    let project = project(head).await.map_err(Failure::failed)?;
    let span = match found {
        DiffSource::Shared(attempts) if !attempts.is_empty() => {
            for named in attempts {
                output.line(&printable(&named.text))?;
            }
            complain(ONLY_NAMES);
            return Ok(Exit::Done);
        }
        found => match &project {
            Some(project) => span(project, found).await.map_err(Failure::failed)?,
            None => None,
        },
    };
    let Some((project, span)) = project.zip(span) else {
        return Err(Failure::failed(anyhow!(
            "no agent has worked on task `{task}` yet"
        )));
    };
    let extent = if stat {
        DiffDetail::Files
    } else {
        DiffDetail::Lines
    };
    let change = difference(project.git(), &span.from, &span.to, extent).await;
    show(&change.map_err(Failure::failed)?, output)?;
    for left in &span.left_out {
        complain(&format!(
            "! `{}` is a git repository of its own without a commit: its files are not shown\n",
            printable(left)
        ));
    }
    Ok(Exit::Done)
}

/// Lists the tasks that changed something, with the files of each or only how many there are.
async fn of_all(
    plan: &PlanId,
    stat: bool,
    app: &App,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (head, tasks) = app
        .read(plan, |plan, _| {
            let begun = plan.tasks().filter(|task| task.current.is_some());
            let found = |task: &Task| {
                let title = one_line(&task.name, TITLE);
                (task.number, title, find(plan, task.number))
            };
            let tasks: Vec<_> = begun.map(found).collect();
            (plan.head().clone(), tasks)
        })
        .await?;
    let project = project(head).await.map_err(Failure::failed)?;
    let shared = tasks
        .iter()
        .any(|(_, _, found)| matches!(found, DiffSource::Shared(_)));
    let mut first = None;
    for (task, title, found) in tasks {
        let change = match found {
            DiffSource::Shared(attempts) => {
                let changed = attempts.iter().filter(|named| named.changed);
                let lines: Vec<String> = changed.map(|named| named.text.clone()).collect();
                match lines.last() {
                    Some(last) if !stat => last.clone(),
                    _ => lines.join("\n"),
                }
            }
            found => match &project {
                Some(project) => change(project, found, stat)
                    .await
                    .map_err(Failure::failed)?,
                None => String::new(),
            },
        };
        if change.is_empty() {
            continue;
        }
        first.get_or_insert(task);
        let (change, title) = (printable(&change), printable(&title));
        let title = output
            .paint()
            .text(Style::Bold, &format!("{task} · {title}"));
        if stat {
            output.line(&format!("{title}\n{}\n", change.trim_end()))?;
        } else {
            output.line(&format!("{title}: {}", change.trim()))?;
        }
    }
    match first {
        None => complain("no task has changed a file\n"),
        Some(_) if shared => complain(ONLY_NAMES),
        Some(task) => complain(&format!(
            "Hint: `{} diff {plan} {task}` shows one of them\n",
            app.program
        )),
    }
    Ok(Exit::Done)
}

/// Returns the project of a plan whose tasks have worktrees.
async fn project(head: PlanHead) -> Result<Option<Project>, GitError> {
    let (root, Some(line)) = (PathBuf::from(head.workspace), head.line) else {
        return Ok(None);
    };
    let repository = match head.repository {
        Some(repository) => Some(*repository),
        None => examine(&root, Filters::Off).await?,
    };
    match repository {
        Some(repository) => {
            let folder = Path::new(&line.folder);
            Project::open(&root, &repository, folder).await.map(Some)
        }
        None => Ok(None),
    }
}

async fn change(project: &Project, found: DiffSource, stat: bool) -> Result<String, GitError> {
    let extent = if stat {
        DiffDetail::Files
    } else {
        DiffDetail::Figures
    };
    let Some(span) = span(project, found).await? else {
        return Ok(String::new());
    };
    let change = difference(project.git(), &span.from, &span.to, extent).await?;
    Ok(String::from_utf8_lossy(&change).into_owned())
}

fn find(plan: &Plan, task: TaskId) -> DiffSource {
    let Some(line) = &plan.head().line else {
        return DiffSource::Shared(plan.attempts_of(task).filter_map(named).collect());
    };
    let completed = (plan.task(task)).is_some_and(|task| task.status == TaskState::Completed);
    let current = plan.task(task).and_then(|task| plan.current_attempt(task));
    match current.and_then(|attempt| attempt.merge.as_ref()) {
        Some(merge) if completed => DiffSource::Accepted(merge.onto.clone(), merge.commit.clone()),
        _ => DiffSource::Open {
            folder: line.worktree(task).into(),
            branch: IntegrationBranch::task_branch(plan.id(), task),
            tip: line.tip.clone(),
        },
    }
}

/// Tells which files changed during an attempt, if somebody looked.
fn named(attempt: &Attempt) -> Option<NamedChanges> {
    let changes = attempt.changes.as_ref()?;
    let company = attempt.company().map(|company| format!(" ({company})"));
    Some(NamedChanges {
        changed: !changes.files.is_empty(),
        text: format!(
            "attempt {}  {}{}",
            attempt.number,
            changes.text(usize::MAX),
            company.unwrap_or_default()
        ),
    })
}

/// Returns between what a change lies; `None` if nobody has begun it, or only names are known.
async fn span(project: &Project, found: DiffSource) -> Result<Option<CommitRange>, GitError> {
    let (folder, branch, tip) = match found {
        DiffSource::Accepted(from, to) => return Ok(Some(committed(from, to))),
        DiffSource::Shared(_) => return Ok(None),
        DiffSource::Open {
            folder,
            branch,
            tip,
        } => (folder, branch, tip),
    };
    if let Some(git) = project.worktree(&folder).await? {
        return span_of(&git, &tip).await.map(Some);
    }
    let git = project.git();
    let Some(head) = git.resolve(&format!("refs/heads/{branch}")).await? else {
        return Ok(None);
    };
    let from = git.line(&["merge-base", &tip, &head]).await?;
    Ok(Some(committed(from, head)))
}

fn committed(from: String, to: String) -> CommitRange {
    CommitRange {
        from,
        to,
        left_out: Vec::new(),
    }
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
