//! Codex CLI: events of JSON, one a line. Only `turn.completed` is an end; lines of type `error` before it are notices. Codex
//! does not report what its sandbox refuses.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::bounded_read;
use crate::wire::{Problem, one_line};

/// Bytes of Codex's own configuration that are read.
const MAX_CONFIG: usize = 1024 * 1024;

/// Codex's message when its own configuration reads the key from a variable that is not set.
const UNSET: &str = "Missing environment variable";

pub(super) static AGENT: CodingAgent = CodingAgent {
    name: "codex",
    // The events that this adapter reads came with this version.
    least: ProgramVersion(0, 44, 0),
    env: "OPENAI_API_KEY OPENAI_BASE_URL CODEX_API_KEY CODEX_HOME",
    install: "npm install -g @openai/codex",
    missing: &["no rollout found"],
    in_use: &[],
    usage: &[
        "error: unexpected argument",
        "error: invalid value",
        "Not logged in",
    ],
    // With a name of another form Codex silently begins a new session.
    knows: is_uuid,
    takes_names: false,
    needs_history: false,
    counts_from_the_beginning: true,
    answers: true,
    call,
    read,
    exact: None,
    acts,
    session_at: Some("/thread_id"),
    asks_again,
    fits: |_, _, _| Ok(()),
    login,
};

fn call(run: &AgentRun<'_>) -> Result<AgentProcess> {
    let allow = &run.setup.allow;
    let sandbox = match &allow.commands {
        _ if allow.all => "danger-full-access",
        Commands::Some(_) => {
            let problem = Problem::new(
                "codex cannot be kept to some commands: its sandbox runs every command, without the network and with \
                 only the workspace to write to",
            );
            return Err(problem.with_hint(
                r#"[worker] allow = ["edit"] lets it do that, "all" takes the sandbox away"#,
            ));
        }
        Commands::None | Commands::Any if allow.edit => "workspace-write",
        Commands::None | Commands::Any => "read-only",
    };
    let mut call = AgentProcess::of("codex exec --json --skip-git-repo-check");
    // `resume` has neither -s nor -C, and a session remembers neither.
    call.add(&["-s", sandbox, "-C", &run.folder.to_string_lossy()]);
    call.option("-m", run.setup.model.as_deref());
    call.argv.extend_from_slice(&run.setup.more);
    if let RunSession::Resume(session) = &run.session {
        call.add(&["resume", session.as_str()]);
    }
    call.add(&["-"]);
    Ok(call)
}

fn read(printed: &RunOutput<'_>) -> Option<RunReading> {
    let ends = |event: &Value| is(event, "turn.completed") || is(event, "turn.failed");
    let end = events(printed.out).rev().find(ends)?;
    let said = one_line(text_at(&end, "/error/message"), 400);
    let outcome = if is(&end, "turn.completed") {
        let last = events(printed.out).rev().find(|event| {
            is(event, "item.completed") && text_at(event, "/item/type") == "agent_message"
        });
        let text = last.as_ref().map(|event| text_at(event, "/item/text"));
        RunOutcome::Done(text.unwrap_or_default().to_owned())
    } else if said.contains(UNSET) {
        RunOutcome::Usage(format!("{said} (name it in `[worker] env` of config.toml)"))
    } else {
        RunOutcome::Model(fault_by_words(&said))
    };
    Some(RunReading::new(outcome, tokens_at(&end, "/usage")))
}

fn acts(event: &Value) -> Option<Vec<AgentAct>> {
    let groups = ["thread.", "turn.", "item."];
    let of_codex = |kind: &str| groups.iter().any(|group| kind.starts_with(group));
    let begins = match text_at(event, "/type") {
        "item.started" => true,
        "item.completed" => false,
        "error" if event.get("message").is_some() => return Some(complains(event, "/message")),
        "turn.failed" => return Some(complains(event, "/error/message")),
        kind if of_codex(kind) => return Some(Vec::new()),
        _ => return None,
    };
    let item = event.get("item")?;
    let id = text_at(item, "/id");
    Some(match text_at(item, "/type") {
        "command_execution" if begins => {
            let command = text_at(item, "/command");
            let quoted = command.split_once("sh -lc ").map(|(_, quoted)| quoted);
            let inner = |quote| quoted?.strip_prefix(quote)?.strip_suffix(quote);
            let inner = inner('\'').or_else(|| inner('"')).or(quoted);
            let command = inner.unwrap_or(command).replace(r"'\''", "'");
            vec![does(&command, id, Some(Deed::Runs(command.clone())))]
        }
        "command_execution" => {
            let exit = number_at(item, "/exit_code");
            let failed = exit.is_some_and(|exit: i32| exit > 0);
            vec![gets(id, text_at(item, "/aggregated_output"), failed, exit)]
        }
        "mcp_tool_call" if begins => {
            vec![uses(text_at(item, "/tool"), item.get("arguments"), id)]
        }
        "agent_message" | "reasoning" => says(text_at(item, "/text")),
        "file_change" if !begins => {
            let changes = item.get("changes").and_then(Value::as_array);
            let done = text_at(item, "/status") != "failed";
            let changed = |change: &Value| {
                let (kind, path) = (text_at(change, "/kind"), text_at(change, "/path"));
                let deed = done.then(|| Deed::Edits(path.to_owned()));
                does(&format!("{kind} {path}"), id, deed)
            };
            changes.into_iter().flatten().map(changed).collect()
        }
        "web_search" if !begins => vec![uses("web_search", Some(item), id)],
        "error" => says(text_at(item, "/message")),
        _ => Vec::new(),
    })
}

fn asks_again(line: &str) -> bool {
    let again = |message: &str| message.starts_with("Reconnecting");
    events(line).any(|event| is(&event, "error") && again(text_at(&event, "/message")))
}

fn login(variable: Variables<'_>) -> Login {
    let folder = folder(variable, "CODEX_HOME", "/.codex");
    // A provider that the person configured takes precedence over every login.
    if let Some((name, key)) = provider(&format!("{folder}/config.toml")) {
        let whose = format!("`{name}` of {folder}/config.toml");
        return match key {
            None => Login::Found(format!("its provider is {whose}")),
            Some(key) if variable(&key).is_some() => {
                Login::Found(format!("its provider is {whose}, and {key} is set"))
            }
            Some(key) => Login::NotSeen(format!(
                "its provider {whose} has its key in {key}, which is not set or not named in [worker] env"
            )),
        };
    }
    let file = format!("{folder}/auth.json");
    Login::detect(variable, "OPENAI_API_KEY CODEX_API_KEY", &file)
}

/// Reads which provider a configuration of Codex's chooses, if the configuration defines that provider itself: its name, and
/// the variable with the key, if the service needs one.
fn provider(path: &str) -> Option<(String, Option<String>)> {
    let text = bounded_read::read_file(Path::new(path), MAX_CONFIG).ok()?;
    let config: toml::Table = text.parse().ok()?;
    let name = config.get("model_provider")?.as_str()?;
    let own = config.get("model_providers")?.get(name)?;
    let key = own.get("env_key").and_then(toml::Value::as_str);
    Some((one_line(name, 60), key.map(|key| one_line(key, 60))))
}
