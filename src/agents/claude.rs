//! Claude Code: events of JSON, one a line, the last one `result`. That event lists what was refused, even next to "success".

use serde_json::{Value, json};

use super::*;
use crate::plan::{ModelCost, Time};
use crate::wire::{Problem, joined, one_line};

/// The longest description of one refusal.
const REFUSAL: usize = 200;

pub(super) static AGENT: CodingAgent = CodingAgent {
    name: "claude",
    least: ProgramVersion(2, 0, 0),
    env: "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_MODEL \
          CLAUDE_CODE_OAUTH_TOKEN CLAUDE_CONFIG_DIR IS_SANDBOX",
    install: "npm install -g @anthropic-ai/claude-code",
    missing: &[
        "No conversation found",
        "requires a valid session ID",
        "Invalid session ID",
    ],
    in_use: &["is already in use"],
    usage: &["/login", "Invalid API key", "error: unknown option"],
    // Claude Code reads another form as the title of a session, and that session may not exist.
    knows: is_uuid,
    takes_names: true,
    needs_history: false,
    counts_from_the_beginning: false,
    answers: true,
    call,
    read,
    exact: Some(exact),
    acts,
    session_at: None,
    asks_again,
    fits,
    login,
};

fn call(run: &AgentRun<'_>) -> Result<AgentProcess> {
    let mut call = AgentProcess::of("claude -p --verbose --output-format stream-json");
    let allow = &run.setup.allow;
    call.add(match (allow.all, allow.edit) {
        (true, _) => &["--dangerously-skip-permissions"],
        (false, true) => &["--permission-mode", "acceptEdits"],
        (false, false) => &["--permission-mode", "default"],
    });
    let tool = |command: &String| format!("Bash({command})");
    let mut tools: Vec<String> = match &allow.commands {
        Commands::None => Vec::new(),
        Commands::Any => vec!["Bash".to_owned()],
        Commands::Some(patterns) => vec![joined(patterns.iter().map(tool), ",")],
    };
    // An argument each: these may have commas.
    tools.extend(allow.exact.iter().map(tool));
    if !tools.is_empty() {
        call.add(&["--allowedTools"]);
        call.argv.append(&mut tools);
    }
    match &run.session {
        // Without tools it can only answer.
        RunSession::Alone => call.add(&["--tools", ""]),
        RunSession::Begin(session) => call.add(&["--session-id", session.as_str()]),
        RunSession::Resume(session) => call.add(&["--resume", session.as_str()]),
    }
    call.option("--model", run.setup.model.as_deref());
    call.argv.extend_from_slice(&run.setup.more);
    call.set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    call.set("DISABLE_AUTOUPDATER", "1");
    // Its own retries take minutes, in which it shows no activity.
    call.set("CLAUDE_CODE_MAX_RETRIES", "2");
    Ok(call)
}

fn read(printed: &RunOutput<'_>) -> Option<RunReading> {
    let Some(result) = last_event(printed.out, "result") else {
        return refused_so_far(printed.out);
    };
    Some(RunReading {
        outcome: outcome(&result, printed),
        session: session_named(text_at(&result, "/session_id")),
        usage: usage(&result, printed.begins),
    })
}

/// A rule ends at a bracket and has patterns; Claude Code 2.1.330 changes backslashes in it, and refuses a pipe all the same.
fn exact(command: &str) -> Result<(), &'static str> {
    match command.contains(['*', '(', ')', '\\', '|']) {
        true => Err("claude takes no rule with `*`, `(`, `)`, `\\` or `|`"),
        false => Ok(()),
    }
}

/// The same answer of the model may come in several events, each with what it has used so far.
fn acts(event: &Value) -> Option<Vec<AgentAct>> {
    match text_at(event, "/type") {
        "assistant" | "user" => {}
        "result" if event.get("is_error") == Some(&Value::Bool(true)) => {
            // One that came to a limit says only which.
            let says = ["/result", "/errors/0", "/subtype"].into_iter();
            let mut says = says.filter(|at| !text_at(event, at).is_empty());
            return Some(complains(event, says.next().unwrap_or_default()));
        }
        "result" if event.get("is_error").is_some() => return Some(Vec::new()),
        "system" | "rate_limit_event" => return Some(Vec::new()),
        _ => return None,
    }
    let message = event.get("message")?;
    let part = |part: &Value| match text_at(part, "/type") {
        "text" if is(event, "assistant") => says(text_at(part, "/text")),
        "tool_use" => {
            let (tool, id) = (text_at(part, "/name"), text_at(part, "/id"));
            vec![uses(tool, part.get("input"), id)]
        }
        "tool_result" => {
            let text = part.get("content").map(joined_text).unwrap_or_default();
            let failed = part.get("is_error") == Some(&Value::Bool(true));
            let exit = exit_code(&text, failed);
            vec![gets(text_at(part, "/tool_use_id"), &text, failed, exit)]
        }
        _ => Vec::new(),
    };
    let mut acts: Vec<AgentAct> = list_at(message, "/content").flat_map(part).collect();
    let usage = with_cached(tokens_at(message, "/usage"), message);
    if usage != ModelCost::default() {
        let answer = Some(text_at(message, "/id")).filter(|id| !id.is_empty());
        let (answer, usage) = (answer.map(str::to_owned), plausible(usage));
        acts.push(AgentAct::Spends { answer, usage });
    }
    Some(acts)
}

/// It prints the code of a command only if that failed, before the command's own output. One in the background has not ended.
fn exit_code(text: &str, failed: bool) -> Option<i32> {
    let ended = !text.starts_with("Command running in background");
    let code = text.lines().next()?.split_once("Exit code ");
    match failed {
        true => code?.1.trim().parse().ok(),
        false => ended.then_some(0),
    }
}

fn asks_again(line: &str) -> bool {
    events(line).any(|event| text_at(&event, "/subtype") == "api_retry")
}

fn fits(allow: &Permissions, root: bool, variable: Variables<'_>) -> Result<()> {
    if allow.all && root && variable("IS_SANDBOX").is_none() {
        let problem = Problem::new(r#"claude does not run as root with `allow = ["all"]`"#);
        return Err(problem.with_hint(
            r#"run it as another user, allow ["edit", "shell"], or set IS_SANDBOX=1 where nothing can be harmed"#,
        ));
    }
    Ok(())
}

fn login(variable: Variables<'_>) -> Login {
    let keys = "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN";
    let folder = folder(variable, "CLAUDE_CONFIG_DIR", "/.claude");
    let seen = Login::detect(variable, keys, &format!("{folder}/.credentials.json"));
    match (seen, variable("ANTHROPIC_BASE_URL")) {
        (Login::Found(what), Some(_)) => {
            Login::Found(format!("{what}, for the service at ANTHROPIC_BASE_URL"))
        }
        (seen, _) => seen,
    }
}

/// Returns how a run ended, by its last event.
fn outcome(result: &Value, printed: &RunOutput<'_>) -> RunOutcome {
    let denials = || list_at(result, "/permission_denials");
    let what: Vec<String> = denials().map(refusal).collect();
    let commands: Vec<String> = denials().filter_map(command).collect();
    let text = text_at(result, "/result").to_owned();
    let said = one_line(&text, 400);
    let error = result.pointer("/is_error").and_then(Value::as_bool);
    let status = number_at(result, "/api_error_status");
    let fault = |status: Option<u16>| {
        let mut fault = ModelFault::new(status, said.clone());
        fault.until = limit(printed.out, &text).filter(|_| status.is_none_or(|s| s == 429));
        RunOutcome::Model(fault)
    };
    let nothing_refused = what.is_empty();
    let refused = |text, unfinished| RunOutcome::Refused {
        text,
        what,
        commands,
        unfinished,
    };
    let complaint = || {
        let errors = list_at(result, "/errors").filter_map(Value::as_str);
        let said = joined(errors.chain([printed.err]), "\n");
        // What it says after the first turn is not about how it was started.
        let about_start = number_at(result, "/num_turns").unwrap_or(0_u64) == 0;
        about_start.then(|| AGENT.complaint(&said))?
    };
    if error != Some(false) && text.contains("run /login") {
        // It reports this as a fault of the model without a status, but no retry helps.
        RunOutcome::Usage(said)
    } else if status.is_some() || text_at(result, "/terminal_reason") == "api_error" {
        fault(status)
    } else if error == Some(false) && nothing_refused {
        RunOutcome::Done(text)
    } else if error == Some(false) {
        refused(text, None)
    } else if let Some(complaint) = complaint() {
        complaint
    } else if text.contains("limit reached") {
        // Older versions report a usage limit in words alone.
        fault(Some(429))
    } else {
        let why = result.pointer("/errors").map(Value::to_string);
        let why = why.map_or(said, |why| one_line(&why, 400));
        match nothing_refused {
            true => RunOutcome::Garbled(why),
            false => refused(text, Some(why)),
        }
    }
}

fn list_at<'a>(event: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = event.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// Returns what is known of a run that did not finish, if something was refused to it.
fn refused_so_far(out: &str) -> Option<RunReading> {
    let all: Vec<Value> = events(out).collect();
    let asked = |id: &str| {
        let parts = all.iter();
        let mut parts = parts.flat_map(|event| list_at(event, "/message/content"));
        parts.find(|part| is(part, "tool_use") && text_at(part, "/id") == id)
    };
    let denied = |event: &&Value| text_at(event, "/subtype") == "permission_denied";
    let denials = all.iter().filter(denied).map(|event| {
        let input = asked(text_at(event, "/tool_use_id")).and_then(|part| part.get("input"));
        json!({"tool_name": text_at(event, "/tool_name"), "tool_input": input})
    });
    let denials: Vec<Value> = denials.collect();
    let what: Vec<String> = denials.iter().map(refusal).collect();
    let named = |event: &Value| session_named(text_at(event, "/session_id"));
    (!what.is_empty()).then(|| RunReading {
        outcome: RunOutcome::Refused {
            text: String::new(),
            what,
            commands: denials.iter().filter_map(command).collect(),
            unfinished: Some("it came to no end".into()),
        },
        session: all.iter().find_map(named),
        usage: ModelCost::default(),
    })
}

/// Describes what was refused: the tool, and what the agent wanted it for.
fn refusal(denial: &Value) -> String {
    let tool = text_at(denial, "/tool_name");
    let about = ["command", "file_path", "url"];
    let about = about.map(|name| text_at(denial, &format!("/tool_input/{name}")));
    match about.into_iter().find(|text| !text.is_empty()) {
        Some(about) => one_line(&format!("{tool}: {about}"), REFUSAL),
        None => one_line(tool, REFUSAL),
    }
}

/// Returns the shell command that was refused, word for word.
fn command(denial: &Value) -> Option<String> {
    let command = text_at(denial, "/tool_input/command");
    (text_at(denial, "/tool_name") == "Bash").then(|| command.to_owned())
}

/// Finds when a usage limit ends: in an event about it, or after a `|` at the end of the message of older versions.
fn limit(out: &str, said: &str) -> Option<Time> {
    let event = last_event(out, "rate_limit_event")
        .filter(|event| text_at(event, "/rate_limit_info/status") == "rejected")
        .and_then(|event| number_at(&event, "/rate_limit_info/resetsAt"));
    let behind = || said.rsplit_once('|')?.1.trim().parse::<u64>().ok();
    let seconds = event.filter(|seconds| *seconds > 0).or_else(behind)?;
    Some(Time(i64::try_from(seconds).ok()?.checked_mul(1_000_000)?))
}

/// Adds the tokens that the model's service had cached.
fn with_cached(mut usage: ModelCost, counted: &Value) -> ModelCost {
    for cached in ["cache_creation", "cache_read"] {
        let tokens = number_at(counted, &format!("/usage/{cached}_input_tokens"));
        usage.input_tokens = usage.input_tokens.saturating_add(tokens.unwrap_or(0));
    }
    usage
}

/// Tokens are those of this run in every version. Since some version of 2.1 the sum in dollars is that of the whole session, so
/// it counts only where the session began with this run; newer versions report this run's part alongside it.
fn usage(result: &Value, begins: bool) -> ModelCost {
    let mut usage = with_cached(tokens_at(result, "/usage"), result);
    let part = result.pointer("/model_usage_since_last_result");
    let models = part.and_then(Value::as_object);
    let cost = |model: &Value| dollars_at(model, "/costUSD");
    let part = models.map(|models| models.values().filter_map(cost).sum());
    let whole = || dollars_at(result, "/total_cost_usd").filter(|_| begins);
    usage.cost_usd = part.or_else(whole).unwrap_or(0.0);
    usage
}
