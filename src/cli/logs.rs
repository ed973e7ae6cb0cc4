//! `logs`: what the agent of a task said and did in an attempt, readably: the events of known agents in words, all other
//! output as it is. Control characters never reach the terminal.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::sleep;

use super::agent_log::{AgentLog, from_folder};
use super::args::LogsArgs;
use super::{App, Failure, Output, Result, shown_from_here};
use crate::agents::{AgentAct, acts};
use crate::plan::{Attempt, AttemptState, CommandId, Plan, PlanId, TaskId, counted};
use crate::view::{Paint, Style};
use crate::wire::command_file::CommandFile;
use crate::wire::text::{clip, one_line, printable};

/// How often the file is read while a person follows it.
const READ_EVERY: Duration = Duration::from_millis(200);

/// Lines of the result of a tool that are shown, and characters of each line.
const RESULT_LINES: usize = 5;
const RESULT: usize = 200;

/// Characters of a line that is shown as it is.
const LINE: usize = 4_000;

/// The commands of one attempt, its own, and those that asked for a readable report: each with the folder that its agent
/// worked in.
type Commands = Vec<(CommandId, String)>;

/// Prints the output of an agent.
pub async fn logs(args: &LogsArgs, app: &App, output: &mut Output) -> Result {
    let plan = app.plan(args.on.plan.as_deref()).await?;
    let (task, wanted) = (args.on.task, args.attempt);
    let found = app.read(&plan, move |plan, _| found(plan, task, wanted));
    let (title, commands) = found.await?.ok_or_else(|| app.no_task(&plan, task))?;
    let Some((last, earlier)) = commands.split_last() else {
        return Err(nothing(app, &plan, args));
    };
    output.line(&output.paint().text(Style::Bold, &title))?;
    for command in earlier {
        print(command, false, &plan, app, output).await?;
    }
    print(last, args.follow, &plan, app, output).await
}

fn nothing(app: &App, plan: &PlanId, args: &LogsArgs) -> Failure {
    let (task, program) = (args.on.task, &app.program);
    let error = match args.attempt {
        Some(attempt) => anyhow!("task `{task}` of plan `{plan}` has no attempt `{attempt}`"),
        None => anyhow!("task `{task}` of plan `{plan}` was not tried yet"),
    };
    let hint = format!("`{program} why {plan} {task}` says what it waits for, and its attempts");
    Failure::failed(error).hint(hint)
}

/// Finds the attempt that is wanted, else the newest; returns its title, too.
fn found(plan: &Plan, task: TaskId, wanted: Option<u32>) -> Option<(String, Commands)> {
    let name = one_line(&plan.task(task)?.name, 80);
    let newest = plan.attempts_of(task).map(|attempt| attempt.number).max();
    let number = wanted.or(newest).unwrap_or_default();
    let of_number = |attempt: &&Attempt| attempt.number == number;
    let commands = plan.attempts_of(task).filter(of_number);
    let commands = commands.map(|attempt| {
        let command = CommandFile::parse(&attempt.text).ok();
        let folder = command.map(|command| command.workspace);
        (attempt.id.clone(), folder.unwrap_or_default())
    });
    let title = format!("{task} · {name} · attempt {number}");
    Some((title, commands.collect()))
}

/// Prints the output for one command, and if it is followed, what comes until its attempt ends.
async fn print(
    (command, folder): &(CommandId, String),
    follows: bool,
    plan: &PlanId,
    app: &App,
    output: &mut Output,
) -> Result {
    let path = |kind| app.volumes.log(command, kind);
    let from = format!("from `{}`", shown_from_here(&path("out")));
    output.line(&output.paint().text(Style::Dim, &from))?;
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
                    output.prose(&match *kind {
                        "err" => format!("{}! {}\n", closed(&mut open), plain(&line)),
                        _ => shown(&line, folder, &mut open, output.paint()),
                    })?;
                }
            }
        }
        if last_round {
            let nothing = if any { "" } else { "(no output)\n" };
            return output.text(&format!("{}{nothing}", closed(&mut open)));
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

/// Returns a line of output as a person reads it.
fn shown(line: &str, folder: &str, open: &mut bool, paint: Paint) -> String {
    let Some(acts) = acts(line) else {
        return format!("{}{}\n", closed(open), plain(line));
    };
    let mut text = String::new();
    for act in acts {
        if let AgentAct::GoesOn(more) = act {
            text += &printable(&more);
            *open = true;
            continue;
        }
        text += closed(open);
        text += &match act {
            AgentAct::Says(said) | AgentAct::GoesOn(said) => printable(&said) + "\n",
            AgentAct::Uses { shown: tool, .. } => {
                let tool = from_folder(&tool, folder);
                paint.text(Style::Busy, &format!("→ {}", one_line(&tool, LINE))) + "\n"
            }
            AgentAct::Gets(answer) => result(&answer.text, answer.failed, paint),
            AgentAct::Spends { .. } => continue,
        };
    }
    text
}

/// Ends a line that was going on.
fn closed(open: &mut bool) -> &'static str {
    if std::mem::take(open) { "\n" } else { "" }
}

/// Returns the first lines of what a tool answered.
fn result(text: &str, failed: bool, paint: Paint) -> String {
    let text = printable(&clip(text, 4 * LINE));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.retain(|line| !line.trim().is_empty());
    let style = if failed { Style::Bad } else { Style::Plain };
    let line = |line: &&str| paint.text(style, &format!("  {}", clip(line, RESULT))) + "\n";
    let shown: String = lines.iter().take(RESULT_LINES).map(line).collect();
    match lines.len().saturating_sub(RESULT_LINES) {
        0 => shown,
        more => format!("{shown}  … {}\n", counted(more, "more line")),
    }
}

fn plain(line: &str) -> String {
    printable(&clip(line.trim_end_matches(['\n', '\r']), LINE))
}
