//! Codex CLI: events of JSON, one a line. Only `turn.completed` is an end; lines of type `error` before it are notices. Codex
//! does not report what its sandbox refuses.

use std::path::Path;

use super::coding_agent::{
    Adapter, AgentInvocation, AgentRun, ErrorPhrases, Misconfigured, RunOutput, RunSession, events,
    fault_by_words, is_uuid, number_at, session_named, text_at,
};
use super::installed_programs::{AgentProgram, Login, ProgramVersion, home};
use super::permissions::Commands;
use super::run_outcome::{RunOutcome, RunReading, RunUsage};
use crate::bounded_read;
use crate::plan::SessionId;
use crate::wire::text::one_line;

pub(super) struct Codex;

/// Bytes of Codex's own configuration that are read.
const MAX_CONFIG: usize = 1024 * 1024;

/// Codex's message when its own configuration reads the key from a variable that is not set.
const UNSET: &str = "Missing environment variable";

impl Adapter for Codex {
    fn program(&self) -> AgentProgram {
        AgentProgram {
            name: "codex",
            // The events that this adapter reads came with this version.
            least: ProgramVersion(0, 44, 0),
            env: &[
                "OPENAI_API_KEY",
                "OPENAI_BASE_URL",
                "CODEX_API_KEY",
                "CODEX_HOME",
            ],
            install: "npm install -g @openai/codex",
        }
    }

    fn call(&self, turn: &AgentRun<'_>) -> Result<AgentInvocation, Misconfigured> {
        let allow = turn.allow;
        let sandbox = match &allow.commands {
            _ if allow.all => "danger-full-access",
            Commands::Some(_) => {
                return Err(Misconfigured::new(
                    "codex cannot be kept to some commands: its sandbox runs every command, without the network and with \
                     only the workspace to write to",
                    r#"[worker] allow = ["edit"] lets it do that, "all" takes the sandbox away"#,
                ));
            }
            Commands::None | Commands::Any if allow.edit => "workspace-write",
            Commands::None | Commands::Any => "read-only",
        };
        let folder = turn.folder.to_string_lossy();
        // `resume` has neither -s nor -C, and a session remembers neither.
        let mut argv: Vec<String> = [
            "codex",
            "exec",
            "--json",
            "--skip-git-repo-check",
            "-s",
            sandbox,
            "-C",
            &folder,
        ]
        .map(str::to_owned)
        .to_vec();
        if let Some(model) = turn.model {
            argv.extend(["-m".to_owned(), model.to_owned()]);
        }
        argv.extend(turn.more.iter().cloned());
        if let RunSession::Resume(session) = &turn.talk {
            argv.extend(["resume".to_owned(), session.to_string()]);
        }
        argv.push("-".to_owned());
        Ok(AgentInvocation {
            argv,
            set: Vec::new(),
        })
    }

    fn read(&self, printed: &RunOutput<'_>) -> Option<RunReading> {
        let end = events(printed.out)
            .rev()
            .find(|event| matches!(text_at(event, "/type"), "turn.completed" | "turn.failed"))?;
        let outcome = if text_at(&end, "/type") == "turn.completed" {
            let last = events(printed.out).rev().find(|event| {
                text_at(event, "/type") == "item.completed"
                    && text_at(event, "/item/type") == "agent_message"
            });
            let text = last.as_ref().map(|event| text_at(event, "/item/text"));
            RunOutcome::Done {
                text: text.unwrap_or_default().to_owned(),
            }
        } else {
            let said = one_line(text_at(&end, "/error/message"), 400);
            if said.contains(UNSET) {
                RunOutcome::Usage {
                    said: format!("{said} (name it in `[worker] env` of config.toml)"),
                }
            } else {
                RunOutcome::Model(fault_by_words(&said))
            }
        };
        Some(RunReading {
            outcome,
            session: None,
            usage: RunUsage {
                input_tokens: number_at(&end, "/usage/input_tokens"),
                output_tokens: number_at(&end, "/usage/output_tokens"),
                cost_usd: 0.0,
            },
        })
    }

    fn words(&self) -> ErrorPhrases {
        ErrorPhrases {
            missing: &["no rollout found"],
            usage: &[
                "error: unexpected argument",
                "error: invalid value",
                "Not logged in",
            ],
            ..ErrorPhrases::default()
        }
    }

    fn knows(&self, session: &str) -> bool {
        // With a name of another form Codex silently begins a new session.
        is_uuid(session)
    }

    fn session(&self, out: &str) -> Option<SessionId> {
        let started = events(out).find(|event| text_at(event, "/type") == "thread.started")?;
        session_named(text_at(&started, "/thread_id"))
    }

    fn asks_again(&self, line: &str) -> bool {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line.trim()) else {
            return false;
        };
        text_at(&event, "/type") == "error"
            && text_at(&event, "/message").starts_with("Reconnecting")
    }

    fn takes_names(&self) -> bool {
        false
    }

    fn counts_from_the_beginning(&self) -> bool {
        true
    }

    fn login(&self, variable: &dyn Fn(&str) -> Option<String>) -> Login {
        let folder = variable("CODEX_HOME").unwrap_or_else(|| format!("{}/.codex", home(variable)));
        // A provider that the person configured takes precedence over every login.
        if let Some(provider) = provider(&format!("{folder}/config.toml")) {
            let whose = format!("`{}` of {folder}/config.toml", provider.name);
            return match provider.key {
                None => Login::Found(format!("its provider is {whose}")),
                Some(key) if variable(&key).is_some() => {
                    Login::Found(format!("its provider is {whose}, and {key} is set"))
                }
                Some(key) => Login::NotSeen(format!(
                    "its provider {whose} has its key in {key}, which is not set or not named in [worker] env"
                )),
            };
        }
        Login::detect(
            variable,
            &["OPENAI_API_KEY", "CODEX_API_KEY"],
            &[format!("{folder}/auth.json")],
        )
    }
}

/// The service that Codex's own configuration chooses.
struct CodexProvider {
    name: String,
    /// The variable with the key; `None` if the service needs none.
    key: Option<String>,
}

/// Reads which provider a configuration chooses, if the configuration defines that provider itself.
fn provider(path: &str) -> Option<CodexProvider> {
    let config: toml::Table = bounded_read::read_file(Path::new(path), MAX_CONFIG)
        .ok()?
        .parse()
        .ok()?;
    let name = config.get("model_provider")?.as_str()?;
    let own = config.get("model_providers")?.get(name)?;
    let key = own.get("env_key").and_then(toml::Value::as_str);
    Some(CodexProvider {
        name: one_line(name, 60),
        key: key.map(|key| one_line(key, 60)),
    })
}
