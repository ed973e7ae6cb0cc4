//! Gemini CLI: events of JSON, one a line, the last one `result`. It reports a model that fails on standard error, as a last
//! block of JSON after other text, and by the exit code: the HTTP status, of which only the low byte is left.

use serde_json::Value;

use super::coding_agent::{
    Adapter, AgentInvocation, AgentRun, ErrorPhrases, Misconfigured, RunOutput, RunSession, events,
    is_uuid, number_at, session_named, status_in, text_at,
};
use super::installed_programs::{AgentProgram, Login, ProgramVersion, home};
use super::permissions::Commands;
use super::run_outcome::{ModelFault, RunOutcome, RunReading, RunUsage};
use crate::plan::SessionId;
use crate::wire::text::one_line;

pub(super) struct Gemini;

impl Adapter for Gemini {
    fn program(&self) -> AgentProgram {
        AgentProgram {
            name: "gemini",
            least: ProgramVersion(0, 20, 0),
            env: &[
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "GOOGLE_GEMINI_BASE_URL",
                "GEMINI_MODEL",
                "GEMINI_CLI_HOME",
            ],
            install: "npm install -g @google/gemini-cli",
        }
    }

    fn call(&self, turn: &AgentRun<'_>) -> Result<AgentInvocation, Misconfigured> {
        let allow = turn.allow;
        let mode = if allow.all {
            "yolo"
        } else if allow.edit {
            "auto_edit"
        } else {
            "default"
        };
        let mut argv: Vec<String> = [
            "gemini",
            "-o",
            "stream-json",
            "--approval-mode",
            mode,
            "--skip-trust",
        ]
        .map(str::to_owned)
        .to_vec();
        let mut add = |words: &[&str]| argv.extend(words.iter().map(ToString::to_string));
        match &allow.commands {
            Commands::None => {}
            Commands::Any => add(&["--allowed-tools", "run_shell_command"]),
            Commands::Some(patterns) => {
                for pattern in patterns {
                    // Gemini CLI compares prefixes and does not know `*`.
                    let beginning = pattern.trim_end_matches(['*', ' ']);
                    if beginning.is_empty() || beginning.contains('*') {
                        return Err(Misconfigured::new(
                            format!(
                                "gemini cannot be kept to the commands `{pattern}`: it compares how they begin"
                            ),
                            r#"put the star at the end: "shell:cargo test *""#,
                        ));
                    }
                    add(&[
                        "--allowed-tools",
                        &format!("run_shell_command({beginning})"),
                    ]);
                }
            }
        }
        if let Some(model) = turn.model {
            add(&["-m", model]);
        }
        match &turn.talk {
            RunSession::Alone => {}
            // Using a name again begins a new session and deletes the earlier one: the name is given only once.
            RunSession::Begin(session) => add(&["--session-id", session.as_str()]),
            RunSession::Resume(session) => add(&["--resume", session.as_str()]),
        }
        argv.extend(turn.more.iter().cloned());
        Ok(AgentInvocation {
            argv,
            set: Vec::new(),
        })
    }

    fn read(&self, printed: &RunOutput<'_>) -> Option<RunReading> {
        let all: Vec<Value> = events(printed.out).collect();
        let session = all
            .iter()
            .find(|event| text_at(event, "/type") == "init")
            .and_then(|event| session_named(text_at(event, "/session_id")));
        let result = all
            .iter()
            .rev()
            .find(|event| text_at(event, "/type") == "result");
        let Some(result) = result else {
            let fault = last_object(printed.err).and_then(|object| fault(&object))?;
            return Some(RunReading {
                outcome: RunOutcome::Model(fault),
                session,
                usage: RunUsage::default(),
            });
        };
        let outcome = if text_at(result, "/status") == "success" {
            RunOutcome::Done {
                text: last_message(&all),
            }
        } else {
            let told = fault(result).or_else(|| fault(&last_object(printed.err)?));
            told.map_or_else(
                || RunOutcome::Garbled {
                    why: one_line(&result.to_string(), 400),
                },
                RunOutcome::Model,
            )
        };
        Some(RunReading {
            outcome,
            session,
            usage: RunUsage {
                input_tokens: number_at(result, "/stats/input_tokens"),
                output_tokens: number_at(result, "/stats/output_tokens"),
                cost_usd: 0.0,
            },
        })
    }

    fn words(&self) -> ErrorPhrases {
        ErrorPhrases {
            missing: &["Invalid session identifier", "No previous sessions found"],
            usage: &[
                "not running in a trusted directory",
                "set an Auth method",
                "Unknown argument",
            ],
            ..ErrorPhrases::default()
        }
    }

    fn knows(&self, session: &str) -> bool {
        // Gemini CLI reads numbers as places in its list of sessions.
        is_uuid(session)
    }

    fn session(&self, out: &str) -> Option<SessionId> {
        let init = events(out).find(|event| text_at(event, "/type") == "init")?;
        session_named(text_at(&init, "/session_id"))
    }

    fn asks_again(&self, line: &str) -> bool {
        let begins = line.starts_with("Attempt ") && line.contains("Retrying with backoff");
        // The error after that line is printed as an object on indented lines, whatever it contains. The agent reports its own
        // work as events, which are never indented.
        let within = line.starts_with([' ', '\t']);
        let closes = line.trim_end().chars().all(|c| "{}[](),;".contains(c));
        begins || within || closes
    }

    fn login(&self, variable: &dyn Fn(&str) -> Option<String>) -> Login {
        let folder = variable("GEMINI_CLI_HOME").unwrap_or_else(|| home(variable));
        Login::detect(
            variable,
            &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            &[format!("{folder}/.gemini/oauth_creds.json")],
        )
    }
}

/// Joins what the agent said after the last tool that it used.
fn last_message(all: &[Value]) -> String {
    let from = all
        .iter()
        .rposition(|event| matches!(text_at(event, "/type"), "tool_use" | "tool_result"));
    all.iter()
        .skip(from.map_or(0, |at| at + 1))
        .filter(|event| {
            text_at(event, "/type") == "message" && text_at(event, "/role") == "assistant"
        })
        .map(|event| text_at(event, "/content"))
        .collect()
}

/// Reads `{error: {type, message, code}}`. A message may hold the service's own words as JSON.
fn fault(object: &Value) -> Option<ModelFault> {
    let error = object.pointer("/error")?;
    let message = text_at(error, "/message");
    let status = error
        .pointer("/code")
        .and_then(Value::as_u64)
        .and_then(|code| u16::try_from(code).ok())
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
