//! `logs`: what the agent of a task said and did in an attempt, readably: the events of known agents in words, all other
//! output as it is. Control characters never reach the terminal.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::sleep;

use super::agent_log::{AgentLog, from_folder};
use super::args::LogsArgs;
use super::output::shown_from_here;
use super::{App, Failure, Output};
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

/// Whether the text of the last act goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    Open,
    Closed,
}

/// The commands of one attempt: its own, and those that asked for a readable report.
struct Found {
    title: String,
    number: u32,
    /// Each with the folder that its agent worked in.
    commands: Vec<(CommandId, String)>,
}

/// Prints the output of an agent.
pub async fn logs(args: &LogsArgs, app: &App, output: &mut Output) -> Result<(), Failure> {
    let plan = app.plan(args.plan.as_deref()).await?;
    let (task, wanted) = (args.task, args.attempt);
    let found = app.read(&plan, move |plan, _| found(plan, task, wanted));
    let found = found.await?.ok_or_else(|| app.no_task(&plan, task))?;
    if found.commands.is_empty() {
        return Err(nothing(app, &plan, args));
    }
    let title = format!("{} · attempt {}", found.title, found.number);
    output.line(&output.paint().text(Style::Bold, &title))?;
    let last = found.commands.len() - 1;
    for (index, command) in found.commands.iter().enumerate() {
        let follows = args.follow && index == last;
        print(command, follows, &plan, app, output).await?;
    }
    Ok(())
}

fn nothing(app: &App, plan: &PlanId, args: &LogsArgs) -> Failure {
    let task = args.task;
    let error = match args.attempt {
        Some(attempt) => anyhow!("task `{task}` of plan `{plan}` has no attempt `{attempt}`"),
        None => anyhow!("task `{task}` of plan `{plan}` was not tried yet"),
    };
    let hint = format!(
        "`{} why {plan} {task}` says what it waits for, and its attempts",
        app.program
    );
    Failure::failed(error).hint(hint)
}

fn found(plan: &Plan, task: TaskId, wanted: Option<u32>) -> Option<Found> {
    let name = one_line(&plan.task(task)?.name, 80);
    let newest = plan.attempts_of(task).map(|attempt| attempt.number).max();
    let number = wanted.or(newest).unwrap_or_default();
    let of_number = |attempt: &&Attempt| attempt.number == number;
    let commands = plan.attempts_of(task).filter(of_number);
    Some(Found {
        title: format!("{task} · {name}"),
        number,
        commands: commands
            .map(|attempt| {
                let command = CommandFile::parse(&attempt.text).ok();
                let folder = command.map(|command| command.workspace);
                (attempt.id.clone(), folder.unwrap_or_default())
            })
            .collect(),
    })
}

/// Prints the output for one command, and if it is followed, what comes until its attempt ends.
async fn print(
    (command, folder): &(CommandId, String),
    follows: bool,
    plan: &PlanId,
    app: &App,
    output: &mut Output,
) -> Result<(), Failure> {
    let path = |kind| app.volumes.log(command, kind);
    let from = format!("from `{}`", shown_from_here(&path("out")));
    output.line(&output.paint().text(Style::Dim, &from))?;
    let (mut out, mut err) = (AgentLog::new(path("out")), AgentLog::new(path("err")));
    let (mut end, mut any) = (LineEnd::Closed, false);
    loop {
        // Asked before the files are read, so that the last lines are not missed.
        let last_round = !follows || !under_way(command, plan, app).await?;
        while let said = out.next(last_round)
            && !said.is_empty()
        {
            any = true;
            for line in said {
                output.prose(&shown(&line, folder, &mut end, output.paint()))?;
            }
        }
        while let said = err.next(last_round)
            && !said.is_empty()
        {
            any = true;
            for line in said {
                output.prose(&format!("{}! {}\n", closed(&mut end), plain(&line)))?;
            }
        }
        if last_round {
            let nothing = if any { "" } else { "(no output)\n" };
            return output.text(&format!("{}{nothing}", closed(&mut end)));
        }
        sleep(READ_EVERY).await;
    }
}

/// Returns whether an agent may still work on a command.
async fn under_way(command: &CommandId, plan: &PlanId, app: &App) -> Result<bool, Failure> {
    let command = command.clone();
    app.read(plan, move |plan, _| {
        let attempt = plan.attempt(&command);
        let open = attempt.is_some_and(|attempt| attempt.state == AttemptState::Open);
        open && !plan.status().settled()
    })
    .await
}

/// Returns a line of output as a person reads it.
fn shown(line: &str, folder: &str, end: &mut LineEnd, paint: Paint) -> String {
    let Some(acts) = acts(line) else {
        return format!("{}{}\n", closed(end), plain(line));
    };
    let mut text = String::new();
    for act in acts {
        if let AgentAct::GoesOn(more) = act {
            text += &printable(&more);
            *end = LineEnd::Open;
            continue;
        }
        text += closed(end);
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
fn closed(end: &mut LineEnd) -> &'static str {
    match std::mem::replace(end, LineEnd::Closed) {
        LineEnd::Open => "\n",
        LineEnd::Closed => "",
    }
}

/// Returns the first lines of what a tool answered.
fn result(text: &str, failed: bool, paint: Paint) -> String {
    let text = printable(&clip(text, 4 * LINE));
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let style = if failed { Style::Bad } else { Style::Plain };
    let shown = lines.iter().take(RESULT_LINES);
    let mut shown: Vec<String> = shown
        .map(|line| paint.text(style, &format!("  {}", clip(line, RESULT))))
        .collect();
    if lines.len() > RESULT_LINES {
        shown.push(format!(
            "  … {}",
            counted(lines.len() - RESULT_LINES, "more line")
        ));
    }
    shown.iter().map(|line| format!("{line}\n")).collect()
}

fn plain(line: &str) -> String {
    printable(&clip(line.trim_end_matches(['\n', '\r']), LINE))
}
