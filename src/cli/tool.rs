//! `tools`, `tool`: the tools for agents from the command line, for scripts and for a person who wants to see what an agent sees.

use std::io::ErrorKind;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};

use super::{
    Access, App, BY, CommandStart, Ended, Exit, Failure, Output, Result, ToolArgs, ToolsArgs,
    beside, unless,
};
use crate::bounded_read;
use crate::plan::CommandId;
use crate::tools::{ControlSettings, Dialect, Tool, Toolbox};
use crate::view::Style;
use crate::volumes::{COMMAND, EXCHANGE};
use crate::wire::joined;

/// Bytes of arguments that are read from standard input at most: a plan of as many tasks as a tool takes.
const MAX_INPUT: usize = 64 * 1024 * 1024;

/// Lists the tools with their arguments.
pub fn list(args: &ToolsArgs, output: Output) -> Result {
    if args.json {
        let json = |dialect: &Dialect, tool: &Tool| {
            json!({
                "name": tool.name,
                "dialect": dialect.as_str(),
                "description": tool.description,
                "changes": tool.changes,
                "schema": tool.schema(),
            })
        };
        let tools = args.dialect.iter().flat_map(|dialect| {
            let tools = dialect.tools().iter();
            tools.map(move |tool| json(dialect, tool))
        });
        return output.json(&tools.collect::<Vec<_>>());
    }
    let paint = output.paint;
    for (place, dialect) in args.dialect.iter().enumerate() {
        let gap = if place > 0 { "\n" } else { "" };
        let name = paint.text(Style::Bold, dialect.as_str());
        output.line(&format!("{gap}{name}"))?;
        for tool in dialect.tools() {
            let name = paint.text(Style::Bold, tool.name);
            output.line(&format!("\n  {name}  {}", tool.description))?;
            for line in arguments(tool) {
                output.line(&format!("      {line}"))?;
            }
        }
    }
    Ok(())
}

/// Describes the arguments of a tool, a line each.
fn arguments(tool: &Tool) -> Vec<String> {
    let schema = tool.schema();
    let line = |(name, about): (&String, &Value)| {
        let required = words(&schema["required"]).any(|required| required == name);
        let optional = if required { "" } else { ", optional" };
        let description = about["description"].as_str().unwrap_or_default();
        let line = format!("{name} ({}{optional})  {description}", kind(about));
        line.trim_end().to_owned()
    };
    let properties = schema["properties"].as_object();
    properties.into_iter().flatten().map(line).collect()
}

/// Names the type of an argument.
fn kind(schema: &Value) -> String {
    if schema["enum"].is_array() {
        return joined(words(&schema["enum"]), "|");
    }
    let one = schema["type"].as_str();
    let named = one.or_else(|| words(&schema["type"]).find(|kind| *kind != "null"));
    match (named.unwrap_or("any"), schema.get("items")) {
        ("array", Some(items)) => format!("list of {}", kind(items)),
        (named, _) => named.to_owned(),
    }
}

/// Returns the words of a list.
fn words(list: &Value) -> impl Iterator<Item = &str> {
    let list = list.as_array();
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Calls a tool and prints its answer.
pub async fn call(args: ToolArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let opened = async {
        let mut app = App::open(start, Access::Read).await?;
        app.quiet()?;
        let dialect = Dialect::answering(&args.dialect, &args.name);
        let dialect = dialect.ok_or_else(|| Failure::usage(anyhow!("no dialect is named")))?;
        let arguments = read(args.arguments).await?;
        let toolbox = match dialect.tools().iter().any(|tool| tool.name == args.name) {
            true => open(&mut app, args.plan.as_deref(), &[dialect]).await?,
            // No folder is made for a name that was mistyped.
            false => {
                (Toolbox::in_memory().await).context("failed to answer for an unknown tool")?
            }
        };
        Ok((app.out, toolbox, dialect, arguments))
    };
    let opened = unless(&mut ended, "nothing was called", opened);
    let (out, toolbox, dialect, arguments) = opened.await?;
    let called = async { Ok(toolbox.call(dialect, &args.name, arguments).await) };
    let answer = unless(&mut ended, "the call may have taken effect", called).await?;
    out.json_line(&answer.value)?;
    match answer.success {
        true => Ok(Exit::Done),
        false => Ok(Exit::Failed),
    }
}

/// Reads the arguments. What is no JSON is passed as it is: the tool says so in its own shape.
async fn read(arguments: String) -> Result<Value> {
    let text = match arguments.as_str() {
        "-" => beside(read_input).await?,
        _ => arguments,
    };
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn read_input() -> Result<String> {
    bounded_read::read(std::io::stdin(), MAX_INPUT).map_err(|error| {
        let too_large = error.kind() == ErrorKind::FileTooLarge;
        let error = anyhow!(error).context("failed to read the arguments from standard input");
        Failure::usage(error).hint_if(too_large, "make the plan in several calls")
    })
}

/// Opens the plans here and puts the tools on them; makes what is missing of the folder.
///
/// # Errors
/// The tools of control are wanted where an agent works, or what is configured is not confirmed.
pub async fn open(app: &mut App, plan: Option<&str>, dialects: &[Dialect]) -> Result<Toolbox> {
    let control = match dialects.contains(&Dialect::Control) {
        true => Some(control(app).await?),
        false => None,
    };
    // In the log an agent is not its person.
    let by = app.environment.get(EXCHANGE).map_or(BY, |_| "an agent");
    let command = app.environment.get(COMMAND).map(CommandId::new);
    let toolbox = Toolbox::new(app.make_store().await?.clone(), &app.config, by);
    let mut toolbox = toolbox.for_command(command);
    if let Some(settings) = control {
        toolbox = toolbox.with_control(settings);
    }
    match plan {
        None => Ok(toolbox),
        named => Ok(toolbox.with_plan(app.plan(named).await?)),
    }
}

/// Resolves what plans of the tools of control are made with, as `run` does.
async fn control(app: &mut App) -> Result<ControlSettings> {
    if app.environment.get(EXCHANGE).is_some() {
        let what = "`control` hands goals over";
        let error = anyhow!("{what}, and {EXCHANGE} is set: an agent works here");
        return Err(Failure::usage(error).hint("the other dialects work here"));
    }
    app.require_trust(false).await?;
    let goals = app.goal_settings().await;
    Ok(ControlSettings {
        goals: goals.map_err(|failure| failure.text()),
        volumes: app.volumes.clone(),
        program: app.program.to_string(),
    })
}
