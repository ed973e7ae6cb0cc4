//! `diff`: what a task changed, line by line where each task has a worktree of its own, else by the names of the files.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::args::DiffArgs;
use super::results::worktree_of;
use super::{App, Failure, Output, Result, complain};
use crate::exec::{
    CommitRange, DiffDetail, Filters, Project, TaskWorktree, difference, examine, span_of,
};
use crate::plan::{Attempt, Plan, PlanHead, PlanId, Task, TaskId};
use crate::view::Style;
use crate::wire::text::{one_line, printable};

/// Printed where only the names of files are known.
const ONLY_NAMES: &str = "Hint: agents share the workspace, so only names are known; [run] isolation = \"worktree\" keeps what each task changes\n";

/// Characters of a task's name.
const TITLE: usize = 60;

/// Where the change of a task is found.
enum DiffSource {
    /// Between two commits of the project.
    Accepted(String, String),
    /// In the task's worktree, or on its branch when that is gone.
    Open { place: TaskWorktree, tip: String },
    /// Only the names of the files, a line for each attempt: agents share the workspace.
    Shared(Vec<String>),
}

/// Shows what a task changed: of a completed one what was accepted, of any other what is there so far. Without a task, which
/// tasks changed something.
pub async fn diff(args: &DiffArgs, app: &App, output: &mut Output) -> Result {
    let (plan, task) = args.on.meant();
    let plan = app.plan(plan).await?;
    match task {
        Some(task) => of_task(&plan, task, args.stat, app, output).await,
        None => of_all(&plan, args.stat, app, output).await,
    }
}

async fn of_task(plan: &PlanId, id: TaskId, stat: bool, app: &App, output: &mut Output) -> Result {
    let read = app.read(plan, move |plan, _| {
        let source = plan.task(id).map(|task| find(plan, task, |_| true));
        (plan.head().clone(), source)
    });
    let (head, Some(source)) = read.await? else {
        return Err(app.no_task(plan, id));
    };
    if let DiffSource::Shared(attempts) = &source
        && !attempts.is_empty()
    {
        for attempt in attempts {
            output.line(&printable(attempt))?;
        }
        complain(ONLY_NAMES);
        return Ok(());
    }
    let detail = match stat {
        true => DiffDetail::Files,
        false => DiffDetail::Lines,
    };
    let project = project(head).await?;
    let Some((change, left_out)) = change(project.as_ref(), source, detail).await? else {
        let error = anyhow!("no agent has worked on task `{id}` yet");
        return Err(Failure::failed(error));
    };
    show(&change, output)?;
    for left in &left_out {
        complain(&format!(
            "! `{left}` is a git repository of its own without a commit: its files are not shown\n"
        ));
    }
    Ok(())
}

/// Lists the tasks that changed something, with the files of each or only how many they are.
async fn of_all(plan: &PlanId, stat: bool, app: &App, output: &mut Output) -> Result {
    let read = app.read(plan, |plan, _| {
        let files = |attempt: &Attempt| attempt.changes.as_ref().map(|it| it.files.len());
        let changed = |attempt: &Attempt| files(attempt).is_some_and(|files| files > 0);
        let begun = plan.tasks().filter(|task| task.current.is_some());
        let found = begun.map(|task| {
            let title = format!("{} · {}", task.number, one_line(&task.name, TITLE));
            (task.number, title, find(plan, task, changed))
        });
        (plan.head().clone(), found.collect::<Vec<_>>())
    });
    let (head, tasks) = read.await?;
    let (shared, project) = (head.line.is_none(), project(head).await?);
    let detail = match stat {
        true => DiffDetail::Files,
        false => DiffDetail::Figures,
    };
    let mut first = None;
    for (task, title, source) in tasks {
        let change = match source {
            DiffSource::Shared(attempts) if stat => attempts.join("\n"),
            DiffSource::Shared(mut attempts) => attempts.pop().unwrap_or_default(),
            source => {
                let change = change(project.as_ref(), source, detail).await?;
                let change = change.unwrap_or_default().0;
                String::from_utf8_lossy(&change).into_owned()
            }
        };
        if change.is_empty() {
            continue;
        }
        first.get_or_insert(task);
        let change = printable(&change);
        let title = output.paint().text(Style::Bold, &title);
        match stat {
            true => output.line(&format!("{title}\n{}\n", change.trim_end()))?,
            false => output.line(&format!("{title}: {}", change.trim()))?,
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
    Ok(())
}

/// Returns the project of a plan whose tasks have worktrees.
async fn project(head: PlanHead) -> anyhow::Result<Option<Project>> {
    let (root, Some(line)) = (PathBuf::from(head.workspace), head.line) else {
        return Ok(None);
    };
    let repository = match head.repository {
        Some(repository) => *repository,
        None => match examine(&root, Filters::Off).await? {
            Some(repository) => repository,
            None => return Ok(None),
        },
    };
    let project = Project::open(&root, &repository, Path::new(&line.folder));
    Ok(Some(project.await?))
}

/// Returns a change, and the repositories within it that are left out; `None` if no agent has begun it, or only names are known.
async fn change(
    project: Option<&Project>,
    source: DiffSource,
    detail: DiffDetail,
) -> anyhow::Result<Option<(Vec<u8>, Vec<String>)>> {
    let Some(project) = project else {
        return Ok(None);
    };
    let git = project.git();
    let span = match source {
        DiffSource::Shared(_) => return Ok(None),
        DiffSource::Accepted(from, to) => committed(from, to),
        DiffSource::Open { place, tip } => match project.worktree(&place.folder).await? {
            Some(worktree) => span_of(&worktree, &tip).await?,
            None => {
                let branch = format!("refs/heads/{}", place.branch);
                let Some(head) = git.resolve(&branch).await? else {
                    return Ok(None);
                };
                let from = git.line(&["merge-base", &tip, &head]).await?;
                committed(from, head)
            }
        },
    };
    let change = difference(git, &span.from, &span.to, detail).await?;
    Ok(Some((change, span.left_out)))
}

/// Finds the change of a task; where only names are known, those of the attempts that are `shown`.
fn find(plan: &Plan, task: &Task, shown: impl Fn(&Attempt) -> bool) -> DiffSource {
    let Some(line) = &plan.head().line else {
        let attempts = plan.attempts_of(task.number);
        let attempts = attempts.filter(|attempt| shown(attempt));
        return DiffSource::Shared(attempts.filter_map(names).collect());
    };
    match plan.accepted_merge(task) {
        Some(merge) => DiffSource::Accepted(merge.onto.clone(), merge.commit.clone()),
        None => DiffSource::Open {
            place: worktree_of(plan.head(), line, task.number),
            tip: line.tip.clone(),
        },
    }
}

/// Returns which files changed during an attempt, if this was measured.
fn names(attempt: &Attempt) -> Option<String> {
    let changes = attempt.changes.as_ref()?.text(usize::MAX);
    let company = attempt.company().map(|company| format!(" ({company})"));
    let (number, company) = (attempt.number, company.unwrap_or_default());
    Some(format!("attempt {number}  {changes}{company}"))
}

fn committed(from: String, to: String) -> CommitRange {
    CommitRange {
        from,
        to,
        left_out: Vec::new(),
    }
}

/// Prints a difference: as it is for a program, without what a terminal would obey and with colours for a person.
fn show(change: &[u8], output: &mut Output) -> Result {
    if change.is_empty() {
        complain("no file is changed\n");
        return Ok(());
    }
    if !output.is_terminal() {
        return output.bytes(change);
    }
    let paint = output.paint();
    let text = printable(&String::from_utf8_lossy(change));
    let styles = [
        ("+++ ", Style::Bold),
        ("--- ", Style::Bold),
        ("diff ", Style::Bold),
        ("+", Style::Good),
        ("-", Style::Bad),
        ("@@", Style::Busy),
    ];
    let coloured = text.lines().map(|line| {
        let style = styles.iter().find(|(start, _)| line.starts_with(start));
        paint.text(style.map_or(Style::Plain, |(_, style)| *style), line) + "\n"
    });
    output.text(&coloured.collect::<String>())
}
