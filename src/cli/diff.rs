//! `diff`: what a task changed, line by line where each task has a worktree of its own, else by the names of the files.

use anyhow::anyhow;

use super::{App, DiffArgs, Failure, Output, Result, complain};
use crate::exec::{DiffDetail, DiffSource, diff_of, diff_project, find_diff, find_diff_after};
use crate::plan::{Attempt, PlanId, TaskId};
use crate::view::Style;
use crate::wire::{one_line, printable};

/// Printed where only the names of files are known.
const ONLY_NAMES: &str = "Hint: agents share the workspace, so only names are known; in a git project [run] isolation = \"worktree\" keeps what each task changes";

/// Characters of a task's name.
const TITLE: usize = 60;

/// Shows what a task changed: of a completed one what was accepted, of any other what is there so far. Without a task, which
/// tasks changed something.
pub async fn diff(args: &DiffArgs, app: &App) -> Result {
    let (plan, task) = args.on.meant();
    let plan = app.plan(plan).await?;
    match task {
        Some(task) => of_task(&plan, task, args, app).await,
        None if args.attempt.is_some() => {
            let error = anyhow!("--attempt is of one task, and none is named");
            let hint = format!("`{} diff {plan}` lists the tasks", app.program);
            Err(Failure::usage(error).hint(hint))
        }
        None => of_all(&plan, args.stat, app).await,
    }
}

async fn of_task(plan: &PlanId, id: TaskId, args: &DiffArgs, app: &App) -> Result {
    let after = args.attempt;
    let read = app.read(plan, move |plan, _| {
        let task = plan.task(id);
        let source = task.map(|task| find_diff_after(plan, task, after));
        (plan.head().clone(), source)
    });
    let (head, Some(source)) = read.await? else {
        return Err(app.no_task(plan, id));
    };
    let hint = format!("`{} why {plan} {id}` lists its attempts", app.program);
    let Some(source) = source else {
        let error = anyhow!("task `{id}` has no such attempt");
        return Err(Failure::failed(error).hint(hint));
    };
    if let DiffSource::Shared(attempts) = &source
        && !attempts.is_empty()
    {
        for attempt in attempts {
            app.say(&printable(attempt))?;
        }
        match head.line {
            None => complain!("{ONLY_NAMES}"),
            Some(_) => complain!("only the names of its files are kept of that attempt"),
        }
        return Ok(());
    }
    let detail = match args.stat {
        true => DiffDetail::Files,
        false => DiffDetail::Lines,
    };
    let project = diff_project(head).await?;
    let Some((change, left_out)) = diff_of(project.as_ref(), source, detail).await? else {
        let error = anyhow!("nothing is kept of what an agent did at task `{id}`, if one did");
        return Err(Failure::failed(error).hint(hint));
    };
    show(&change, app.out)?;
    for left in &left_out {
        complain!(
            "! `{left}` is a git repository of its own without a commit: its files are not shown"
        );
    }
    Ok(())
}

/// Lists the tasks that changed something, with the files of each or only how many they are.
async fn of_all(plan: &PlanId, stat: bool, app: &App) -> Result {
    let read = app.read(plan, |plan, _| {
        let files = |attempt: &Attempt| attempt.changes.as_ref().map(|it| it.files.len());
        let changed = |attempt: &Attempt| files(attempt).is_some_and(|files| files > 0);
        let begun = plan.tasks().filter(|task| task.current.is_some());
        let found = begun.map(|task| {
            let title = format!("{} · {}", task.number, one_line(&task.name, TITLE));
            (task.number, title, find_diff(plan, task, changed))
        });
        (plan.head().clone(), found.collect::<Vec<_>>())
    });
    let (head, tasks) = read.await?;
    let (shared, project) = (head.line.is_none(), diff_project(head).await?);
    let detail = match stat {
        true => DiffDetail::Files,
        false => DiffDetail::Figures,
    };
    let (mut first, mut gone, mut unknown) = (None, false, false);
    for (task, title, source) in tasks {
        let change = match source {
            DiffSource::Shared(attempts) if stat => attempts.join("\n"),
            DiffSource::Shared(mut attempts) => attempts.pop().unwrap_or_default(),
            source => match diff_of(project.as_ref(), source, detail).await {
                Ok(found) => {
                    gone |= found.is_none();
                    String::from_utf8_lossy(&found.unwrap_or_default().0).into_owned()
                }
                Err(error) => {
                    unknown = true;
                    Failure::from(error).complain(&title);
                    continue;
                }
            },
        };
        if change.is_empty() {
            continue;
        }
        first.get_or_insert(task);
        let change = printable(&change);
        let title = app.out.paint.text(Style::Bold, &title);
        match stat {
            true => app.say(&format!("{title}\n{}\n", change.trim_end()))?,
            false => app.say(&format!("{title}: {}", change.trim()))?,
        }
    }
    match first {
        None if unknown => {}
        None if gone => complain!("nothing is kept of what agents did, if they did anything"),
        None => complain!("no task has changed a file"),
        Some(_) if shared => complain!("{ONLY_NAMES}"),
        Some(task) => complain!(
            "Hint: `{} diff {plan} {task}` shows one of them",
            app.program
        ),
    }
    Ok(())
}

/// Prints a difference: as it is for a program, without what a terminal would obey and with colours for a person.
fn show(change: &[u8], output: Output) -> Result {
    if change.is_empty() {
        complain!("no file is changed");
        return Ok(());
    }
    if !output.terminal {
        return output.bytes(change);
    }
    let paint = output.paint;
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
