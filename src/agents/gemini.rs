//! Gemini CLI: events of JSON, one a line, the last one `result`. It reports a model that fails on standard error, as a last
//! block of JSON after other text, and by the exit code: the HTTP status, of which only the low byte is left.

use serde_json::Value;

use super::*;
use crate::wire::{Problem, one_line};

pub(super) static AGENT: CodingAgent = CodingAgent {
    name: "gemini",
    least: ProgramVersion(0, 20, 0),
    env: "GEMINI_API_KEY GOOGLE_API_KEY GOOGLE_GEMINI_BASE_URL GEMINI_MODEL GEMINI_CLI_HOME",
    install: "npm install -g @google/gemini-cli",
    missing: &["Invalid session identifier", "No previous sessions found"],
    in_use: &[],
    usage: &[
        "not running in a trusted directory",
        "set an Auth method",
        "Unknown argument",
    ],
    // Gemini CLI reads numbers as places in its list of sessions.
    knows: is_uuid,
    takes_names: true,
    needs_history: false,
    counts_from_the_beginning: false,
    answers: true,
    call,
    read,
    exact: None,
    acts,
    session_at: Some("/session_id"),
    asks_again,
    fits: |_, _, _| Ok(()),
    login,
};

fn call(run: &AgentRun<'_>) -> Result<AgentProcess> {
    let allow = &run.setup.allow;
    let mode = match (allow.all, allow.edit) {
        (true, _) => "yolo",
        (false, true) => "auto_edit",
        (false, false) => "default",
    };
    let mut call = AgentProcess::of("gemini -o stream-json --approval-mode");
    call.add(&[mode, "--skip-trust"]);
    if allow.commands == Commands::Any {
        call.add(&["--allowed-tools", "run_shell_command"]);
    }
    for pattern in allow.commands.patterns() {
        // Gemini CLI compares prefixes and does not know `*`.
        let beginning = pattern.trim_end_matches(['*', ' ']);
        if beginning.is_empty() || beginning.contains('*') {
            let problem = Problem::new(format!(
                "gemini cannot be kept to the commands `{pattern}`: it compares how they begin"
            ));
            return Err(problem.with_hint(r#"put the star at the end: "shell:cargo test *""#));
        }
        let tool = format!("run_shell_command({beginning})");
        call.add(&["--allowed-tools", &tool]);
    }
    call.option("-m", run.setup.model.as_deref());
    match &run.session {
        RunSession::Alone => {}
        // Using a name again begins a new session and deletes the earlier one: the name is given only once.
        RunSession::Begin(session) => call.add(&["--session-id", session.as_str()]),
        RunSession::Resume(session) => call.add(&["--resume", session.as_str()]),
    }
    call.argv.extend_from_slice(&run.setup.more);
    Ok(call)
}

fn read(printed: &RunOutput<'_>) -> Option<RunReading> {
    let all: Vec<Value> = events(printed.out).collect();
    let in_err = || fault(&last_object(printed.err)?);
    let Some(result) = all.iter().rev().find(|event| is(event, "result")) else {
        return Some(RunReading::of(RunOutcome::Model(in_err()?)));
    };
    let outcome = if text_at(result, "/status") == "success" {
        RunOutcome::Done(last_message(&all))
    } else if let Some(fault) = fault(result).or_else(in_err) {
        RunOutcome::Model(fault)
    } else {
        RunOutcome::Garbled(one_line(&result.to_string(), 400))
    };
    Some(RunReading::new(outcome, tokens_at(result, "/stats")))
}

fn acts(event: &Value) -> Option<Vec<AgentAct>> {
    let content = || text_at(event, "/content").to_owned();
    let id = text_at(event, "/tool_id");
    let of_assistant = text_at(event, "/role") == "assistant";
    Some(match text_at(event, "/type") {
        "message" if text_at(event, "/role") == "user" => Vec::new(),
        "message" if of_assistant && event.get("delta").is_some() => {
            vec![AgentAct::GoesOn(content())]
        }
        "message" if of_assistant => vec![AgentAct::Says(content())],
        "tool_use" if event.get("tool_name").is_some() => {
            let tool = text_at(event, "/tool_name");
            vec![uses(tool, event.get("parameters"), id)]
        }
        "tool_result" => match text_at(event, "/status") {
            "error" => vec![gets(id, text_at(event, "/error/message"), true, None)],
            _ => {
                let text = text_at(event, "/output");
                // It prints the code only of a command that printed nothing.
                let code = text.strip_prefix("Command exited with code: ");
                let code = code.and_then(|code| code.parse().ok());
                vec![gets(id, text, false, code)]
            }
        },
        "result" if event.get("error").is_some() => complains(event, "/error/message"),
        "result" | "init" => Vec::new(),
        _ => return None,
    })
}

fn asks_again(line: &str) -> bool {
    let begins = line.starts_with("Attempt ") && line.contains("Retrying with backoff");
    // The error after that line is printed as an object on indented lines, whatever it contains. The agent reports its own
    // work as events, which are never indented.
    let within = line.starts_with([' ', '\t']);
    let closes = line.trim_end().chars().all(|c| "{}[](),;".contains(c));
    begins || within || closes
}

fn login(variable: Variables<'_>) -> Login {
    let folder = folder(variable, "GEMINI_CLI_HOME", "");
    let file = format!("{folder}/.gemini/oauth_creds.json");
    Login::detect(variable, "GEMINI_API_KEY GOOGLE_API_KEY", &file)
}

/// Joins what the agent said after the last tool that it used.
fn last_message(all: &[Value]) -> String {
    let uses = |event: &Value| is(event, "tool_use") || is(event, "tool_result");
    let says = |event: &&Value| is(event, "message") && text_at(event, "/role") == "assistant";
    let from = all.iter().rposition(uses).map_or(0, |at| at + 1);
    let said = all[from..].iter().filter(says);
    said.map(|event| text_at(event, "/content")).collect()
}

/// Reads `{error: {type, message, code}}`. A message may hold the service's own words as JSON.
fn fault(object: &Value) -> Option<ModelFault> {
    let error = object.pointer("/error")?;
    let message = text_at(error, "/message");
    let status = number_at(error, "/code")
        .filter(|code| (400..600).contains(code))
        .or_else(|| status_in(message));
    Some(ModelFault::new(status, one_line(message, 400)))
}

/// Finds the last block of JSON in a text, which begins and ends on lines of its own.
fn last_object(err: &str) -> Option<Value> {
    let end = err.rfind("\n}").map_or(err.len(), |at| at + 2);
    let mut at = end;
    while let Some(start) = err[..at].rfind('{') {
        if start == 0 || err[..start].ends_with('\n') {
            let found = serde_json::from_str::<Value>(&err[start..end]);
            return found.ok().filter(|object| object.get("error").is_some());
        }
        at = start;
    }
    None
}
