//! `tools`, `tool`: the tools for agents from the command line, for scripts and for whoever wants to see what an agent sees.

use std::io::ErrorKind;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};

use super::app::{Access, App, BY, CommandStart};
use super::args::{self, Dialects};
use super::failure::{Exit, Failure};
use super::output::Output;
use super::signals::{Ended, beside, unless};
use crate::bounded_read;
use crate::tools::{Dialect, Tool, Toolbox};
use crate::view::Style;

/// Bytes of arguments that are read from standard input at most: a plan of as many tasks as a tool takes.
const MAX_INPUT: usize = 64 * 1024 * 1024;

/// Lists the tools with their arguments.
pub fn list(args: &args::ToolsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let Dialects(dialects) = &args.dialect;
    let tools = || {
        dialects
            .iter()
            .flat_map(|dialect| dialect.tools().iter().map(|tool| (*dialect, tool)))
    };
    if args.json {
        let tools: Vec<Value> = tools()
            .map(|(dialect, tool)| {
                json!({
                    "name": tool.name,
                    "dialect": dialect.as_str(),
                    "description": tool.description,
                    "changes": tool.changes,
                    "schema": tool.schema(),
                })
            })
            .collect();
        output.json(&tools)?;
        return Ok(Exit::Done);
    }
    let paint = output.paint();
    let mut before = None;
    for (dialect, tool) in tools() {
        if before != Some(dialect) {
            let gap = if before.is_some() { "\n" } else { "" };
            let name = paint.text(Style::Bold, dialect.as_str());
            output.line(&format!("{gap}{name}"))?;
            before = Some(dialect);
        }
        output.line(&format!(
            "\n  {}  {}",
            paint.text(Style::Bold, tool.name),
            tool.description
        ))?;
        for line in arguments(tool) {
            output.line(&format!("      {line}"))?;
        }
    }
    Ok(Exit::Done)
}

/// Describes the arguments of a tool, a line each.
fn arguments(tool: &Tool) -> Vec<String> {
    let schema = tool.schema();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema["properties"].as_object();
    properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            let optional = if required.contains(&name.as_str()) {
                ""
            } else {
                ", optional"
            };
            let about = schema["description"].as_str().unwrap_or_default();
            let line = format!("{name} ({}{optional})  {about}", kind(schema));
            line.trim_end().to_owned()
        })
        .collect()
}

/// Names the type of an argument.
fn kind(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str);
        return words.collect::<Vec<_>>().join("|");
    }
    let named = match &schema["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null").unwrap_or("any")
        }
        _ => "any",
    };
    match (named, schema.get("items")) {
        ("array", Some(items)) => format!("list of {}", kind(items)),
        _ => named.to_owned(),
    }
}

/// Calls a tool and prints its answer.
pub(super) async fn call(
    args: args::ToolArgs,
    start: &CommandStart,
    mut ended: Ended,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let nothing = "nothing was called";
    let app = unless(&mut ended, nothing, App::open(start, Access::Look)).await?;
    app.quiet()?;
    let Dialects(dialects) = &args.dialect;
    let dialect = Dialect::answering(dialects, &args.name);
    let dialect = dialect.ok_or_else(|| Failure::usage(anyhow!("no dialect is named")))?;
    let arguments = unless(&mut ended, nothing, read(args.arguments)).await?;
    let known = dialect.tools().iter().any(|tool| tool.name == args.name);
    let toolbox = if known {
        let open = open(&app, args.plan.as_deref());
        unless(&mut ended, nothing, open).await?
    } else {
        // No folder is made for a name that was mistyped.
        let nowhere = Toolbox::in_memory().await;
        nowhere.context("failed to answer for an unknown tool")?
    };
    let called = toolbox.call(dialect, &args.name, arguments);
    let answer = unless(&mut ended, "the call may have taken effect", async {
        Ok(called.await)
    })
    .await?;
    output.json_line(&answer.value)?;
    Ok(if answer.success {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// Reads the arguments. What is no JSON is handed on as it is: the tool says so in its own shape.
async fn read(arguments: String) -> Result<Value, Failure> {
    let text = match arguments.as_str() {
        "-" => beside(read_input).await?,
        _ => arguments,
    };
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn read_input() -> Result<String, Failure> {
    bounded_read::read(std::io::stdin(), MAX_INPUT).map_err(|error| {
        let too_large = error.kind() == ErrorKind::FileTooLarge;
        let error = anyhow!(error).context("failed to read the arguments from standard input");
        let failure = Failure::usage(error);
        match too_large {
            true => failure.hint("make the plan in several calls"),
            false => failure,
        }
    })
}

/// Opens the plans here and puts the tools on them; the folder is made if it is not there.
pub(super) async fn open(app: &App, plan: Option<&str>) -> Result<Toolbox, Failure> {
    let store = app.make_store().await?.clone();
    let toolbox = Toolbox::new(store, &app.config, BY);
    Ok(match plan {
        Some(named) => toolbox.with_plan(app.plan(Some(named)).await?),
        None => toolbox,
    })
}
