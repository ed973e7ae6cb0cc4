//! `logs`: what the agent of a task said and did in an attempt, readably: the events of known agents in words, all other
//! output as it is. Control characters never reach the terminal.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::sleep;

use super::{App, Failure, LogsArgs, Result, shown_from_here};
use crate::plan::{Attempt, AttemptState, CommandId, Plan, PlanId, TaskId};
use crate::view::Style;
use crate::wire::{CommandFile, one_line};
use crate::worker::AgentLog;
use crate::worker::readable_output::{closed, plain, readable};

/// How often the file is read while a person follows it.
const READ_EVERY: Duration = Duration::from_millis(200);

/// The output for a command.
struct Output {
    command: CommandId,
    /// The folder that its agent worked in.
    folder: String,
    /// Where its agent was, if behind a relay.
    machine: Option<String>,
}

/// Prints the output of an agent.
pub async fn logs(args: &LogsArgs, app: &App) -> Result {
    let plan = app.plan(args.on.plan.as_deref()).await?;
    let (task, wanted) = (args.on.task, args.attempt);
    let found = app.read(&plan, move |plan, _| found(plan, task, wanted));
    let (title, commands) = found.await?.ok_or_else(|| app.no_task(&plan, task))?;
    let Some((last, earlier)) = commands.split_last() else {
        return Err(nothing(app, &plan, args));
    };
    app.say(&app.out.paint.text(Style::Bold, &title))?;
    for command in earlier {
        print(command, false, &plan, app).await?;
    }
    print(last, args.follow, &plan, app).await
}

fn nothing(app: &App, plan: &PlanId, args: &LogsArgs) -> Failure {
    let (task, program) = (args.on.task, &app.program);
    let error = match args.attempt {
        Some(attempt) => anyhow!("task `{task}` of plan `{plan}` has no attempt `{attempt}`"),
        None => anyhow!("task `{task}` of plan `{plan}` has no attempt"),
    };
    let hint = format!("`{program} why {plan} {task}` says what it waits for, or what came of it");
    Failure::failed(error).hint(hint)
}

/// Finds the attempt that is wanted, else the newest. Returns its title and its commands: its own, and those that asked for a
/// readable report.
fn found(plan: &Plan, task: TaskId, wanted: Option<u32>) -> Option<(String, Vec<Output>)> {
    let name = one_line(&plan.task(task)?.name, 80);
    let newest = plan.attempts_of(task).map(|attempt| attempt.number).max();
    let number = wanted.or(newest).unwrap_or_default();
    let of_number = |attempt: &&Attempt| attempt.number == number;
    let commands = plan.attempts_of(task).filter(of_number);
    let commands = commands.map(|attempt| Output {
        command: attempt.id.clone(),
        folder: CommandFile::workspace_of(&attempt.text),
        machine: attempt.machine.clone(),
    });
    let title = format!("{task} · {name} · attempt {number}");
    Some((title, commands.collect()))
}

/// Prints the output for one command, and if it is followed, what comes until its attempt ends.
async fn print(output: &Output, follows: bool, plan: &PlanId, app: &App) -> Result {
    let (command, folder) = (&output.command, &output.folder);
    let path = |kind| app.volumes.log(command, kind);
    let home = app.elsewhere(plan).await?.map(|(home, _)| home);
    if let Some(place) = output.machine.as_ref().or(home.as_ref())
        && !path("out").exists()
    {
        return app.say(&format!("(the output is at {})", one_line(place, 400)));
    }
    let from = format!("from `{}`", shown_from_here(&path("out")));
    app.say(&app.out.paint.text(Style::Dim, &from))?;
    let mut logs = ["out", "err"].map(|kind| (kind, AgentLog::new(path(kind))));
    // Whether the text of the last act goes on.
    let (mut open, mut any) = (false, false);
    loop {
        // Asked before the files are read, so that the last lines are not missed.
        let last_round = !follows || !under_way(command, plan, app).await?;
        for (kind, log) in &mut logs {
            while let said = log.next(last_round)
                && !said.is_empty()
            {
                any = true;
                for line in said {
                    app.out.prose(&match *kind {
                        "err" => format!("{}! {}\n", closed(&mut open), plain(&line)),
                        _ => readable(&line, folder, &mut open, app.out.paint),
                    })?;
                }
            }
        }
        if last_round {
            let nothing = if any { "" } else { "(no output)\n" };
            return app.out.text(&format!("{}{nothing}", closed(&mut open)));
        }
        sleep(READ_EVERY).await;
    }
}

/// Returns whether an agent may still work on a command.
async fn under_way(command: &CommandId, plan: &PlanId, app: &App) -> Result<bool> {
    let command = command.clone();
    app.read(plan, move |plan, _| {
        let attempt = plan.attempt(&command);
        let open = attempt.is_some_and(|attempt| attempt.state == AttemptState::Open);
        open && !plan.status().settled()
    })
    .await
}
