//! OpenCode: events of JSON, one a line. It is done when the last step finished with `stop`; a refused tool ends the run with
//! another reason, and exit code 0.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::*;
use crate::plan::{ModelCost, Time};
use crate::wire::{joined, one_line, printable};

/// A service that asks for a wait of at least this long has reached a usage limit; a shorter wait is a pause.
const LIMIT: u64 = 300;

pub(super) static AGENT: CodingAgent = CodingAgent {
    name: "opencode",
    least: ProgramVersion(1, 0, 0),
    env: "ANTHROPIC_API_KEY OPENAI_API_KEY OPENCODE_API_KEY OPENCODE_CONFIG OPENCODE_CONFIG_DIR \
          XDG_CONFIG_HOME XDG_DATA_HOME",
    install: "npm install -g opencode-ai",
    missing: &["Session not found"],
    in_use: &[],
    usage: &["Unknown argument"],
    knows: |session| session.starts_with("ses_"),
    takes_names: false,
    needs_history: false,
    counts_from_the_beginning: false,
    answers: true,
    call,
    read,
    exact: Some(exact),
    acts,
    session_at: Some("/sessionID"),
    asks_again: |_| false,
    fits: |_, _, _| Ok(()),
    login,
};

fn call(run: &AgentRun<'_>) -> Result<AgentProcess> {
    let mut call = AgentProcess::of("opencode run --format json");
    call.option("-m", run.setup.model.as_deref());
    if let RunSession::Resume(session) = &run.session {
        call.add(&["-s", session.as_str()]);
    }
    call.argv.extend_from_slice(&run.setup.more);
    call.set("OPENCODE_DISABLE_AUTOUPDATE", "1");
    call.set("OPENCODE_DISABLE_MODELS_FETCH", "1");
    call.set("OPENCODE_DISABLE_LSP_DOWNLOAD", "1");
    call.set("OPENCODE_CONFIG_CONTENT", &config(run));
    Ok(call)
}

fn read(printed: &RunOutput<'_>) -> Option<RunReading> {
    let all: Vec<Value> = events(printed.out).collect();
    let of = |kind: &'static str| all.iter().filter(move |event| is(event, kind));
    let mut usage = ModelCost::default();
    for step in of("step_finish") {
        usage.add(step_usage(step));
    }
    let outcome = if let Some(error) = of("error").next_back() {
        RunOutcome::Model(fault(error, printed.now))
    } else {
        let last = of("step_finish").next_back();
        let (text, what) = (last_text(&all), refusals(&all, printed.err));
        if !what.is_empty() {
            RunOutcome::Refused {
                text,
                what,
                commands: refused(&all).filter_map(command).collect(),
                unfinished: last.is_none().then(|| "it came to no end".into()),
            }
        } else if text_at(last?, "/part/reason") == "stop" {
            RunOutcome::Done(text)
        } else {
            return None;
        }
    };
    Some(RunReading::new(outcome, usage))
}

fn acts(event: &Value) -> Option<Vec<AgentAct>> {
    event.get("sessionID")?;
    let state = |name: &str| text_at(event, &format!("/part/state/{name}"));
    Some(match text_at(event, "/type") {
        "text" => says(text_at(event, "/part/text")),
        "tool_use" => {
            let failed = state("status") == "error";
            let answer = state(if failed { "error" } else { "output" });
            let input = event.pointer("/part/state/input");
            let id = text_at(event, "/part/callID");
            let exit = number_at(event, "/part/state/metadata/exit");
            vec![
                uses(text_at(event, "/part/tool"), input, id),
                gets(id, answer, failed, exit),
            ]
        }
        "step_finish" => vec![AgentAct::Spends {
            answer: None,
            usage: plausible(step_usage(event)),
        }],
        "error" => complains(event, "/error/data/message"),
        _ => Vec::new(),
    })
}

/// Returns what a step has used.
fn step_usage(step: &Value) -> ModelCost {
    let tokens = |name| number_at(step, &format!("/part/tokens/{name}")).unwrap_or(0_u64);
    let cached = tokens("cache/read").saturating_add(tokens("cache/write"));
    let input = tokens("input").saturating_add(cached);
    let output = tokens("output").saturating_add(tokens("reasoning"));
    let cost = dollars_at(step, "/part/cost");
    ModelCost::new(input, output, cost.unwrap_or(0.0))
}

fn login(variable: Variables<'_>) -> Login {
    let keys = "ANTHROPIC_API_KEY OPENAI_API_KEY OPENCODE_API_KEY";
    let data = folder(variable, "XDG_DATA_HOME", "/.local/share");
    match Login::detect(variable, keys, &format!("{data}/opencode/auth.json")) {
        found @ Login::Found(_) => found,
        // OpenCode knows models that need no key, and its configuration may name a service of the person.
        Login::NotSeen(_) | Login::Unknown => Login::Unknown,
    }
}

/// Returns the permissions as a configuration that overrides the person's own. A permission that OpenCode asks for would end
/// the run, because no person can answer, so everything is either allowed or denied.
fn config(run: &AgentRun<'_>) -> String {
    let allow = &run.setup.allow;
    let word = |allowed: bool| if allowed { "allow" } else { "deny" };
    let bash = match &allow.commands {
        _ if allow.all => json!("allow"),
        Commands::Any => json!("allow"),
        // It may change nothing: it has no use for a shell.
        Commands::None if !allow.edit && allow.exact.is_empty() => json!("deny"),
        _ => {
            // The last rule that matches decides; `*` sorts before every letter. Without a rule behind it there would be no
            // shell, and nothing that is refused and that a person may allow.
            let mut rules = Map::new();
            rules.insert("*".into(), json!("deny"));
            let allowed = allow.commands.patterns().iter().chain(&allow.exact);
            rules.extend(allowed.map(|one| (one.clone(), json!("allow"))));
            if rules.len() == 1 {
                rules.insert("nothing else".into(), json!("deny"));
            }
            Value::Object(rules)
        }
    };
    json!({
        "autoupdate": false,
        "share": "disabled",
        "permission": {
            "edit": word(allow.edit || allow.all),
            "bash": bash,
            "webfetch": word(allow.all),
            "external_directory": word(allow.all),
        },
    })
    .to_string()
}

fn fault(event: &Value, now: Time) -> ModelFault {
    let said = ["/error/data/message", "/error/name"].map(|at| text_at(event, at));
    let said = said.into_iter().find(|said| !said.is_empty());
    let status = number_at(event, "/error/data/statusCode");
    let mut fault = ModelFault::new(status, one_line(said.unwrap_or_default(), 400));
    let retryable = event.pointer("/error/data/isRetryable");
    if let Some(retryable) = retryable.and_then(Value::as_bool) {
        fault.retryable = retryable && !fault.is_unpaid();
    }
    let wait = text_at(event, "/error/data/responseHeaders/retry-after");
    let wait = wait.parse().ok();
    let wait = wait.filter(|seconds| *seconds >= LIMIT && status == Some(429));
    fault.until = wait.map(|seconds| now.plus(Duration::from_secs(seconds)));
    fault
}

/// Lists what was refused: by the tools' own errors, and by messages on standard error.
fn refusals(all: &[Value], err: &str) -> Vec<String> {
    let asked = |line: &str| {
        let (_, what) = line.split_once("permission requested: ")?;
        let (what, _) = what.split_once("; auto-rejecting").unwrap_or((what, ""));
        Some(one_line(&printable(what), 200))
    };
    let in_err: Vec<String> = err.lines().filter_map(asked).collect();
    if !in_err.is_empty() {
        return in_err;
    }
    let about = |event: &Value| {
        let input = |name: &str| text_at(event, &format!("/part/state/input/{name}"));
        let about = [input("command"), input("filePath")].concat();
        one_line(&format!("{}: {about}", text_at(event, "/part/tool")), 200)
    };
    refused(all).map(about).collect()
}

/// Returns the uses of tools that were refused.
fn refused(all: &[Value]) -> impl Iterator<Item = &Value> {
    all.iter().filter(|event| {
        let error = text_at(event, "/part/state/error");
        is(event, "tool_use")
            && text_at(event, "/part/state/status") == "error"
            && (error.contains("rejected permission")
                || error.contains("which prevents you from using"))
    })
}

/// Returns the shell command that was refused, word for word.
fn command(event: &Value) -> Option<String> {
    let command = text_at(event, "/part/state/input/command");
    (text_at(event, "/part/tool") == "bash").then(|| command.to_owned())
}

/// A rule has patterns, and is compared with each command of a line; in `config` it has to stand behind `*`.
fn exact(command: &str) -> Result<(), &'static str> {
    let compound = [';', '&', '|', '(', ')', '{', '}', '$', '`', '\n'];
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/' || c == '_';
    if command.contains(['*', '?', '\\', '~']) {
        Err("opencode takes no rule with `*`, `?`, `\\` or `~`")
    } else if command.contains(compound) {
        Err("opencode compares each command of a line by itself")
    } else if !command.starts_with(plain) {
        Err("opencode takes only rules that begin with a letter, a digit, `.`, `/` or `_`")
    } else {
        Ok(())
    }
}

/// Joins the texts of the last step.
fn last_text(all: &[Value]) -> String {
    let from = all.iter().rposition(|event| is(event, "step_start"));
    let said = all[from.unwrap_or(0)..].iter();
    let said = said.filter(|event| is(event, "text"));
    joined(said.map(|event| text_at(event, "/part/text")), "\n")
}
