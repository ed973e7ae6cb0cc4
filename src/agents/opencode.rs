//! OpenCode: events of JSON, one a line. It is done when the last step finished with `stop`; a refused tool ends the run with
//! another reason, and exit code 0.

use serde_json::{Map, Value, json};

use super::coding_agent::{
    Adapter, AgentInvocation, AgentRun, ErrorPhrases, Misconfigured, RunOutput, RunSession, events,
    number_at, session_named, text_at,
};
use super::installed_programs::{AgentProgram, Login, ProgramVersion, home};
use super::permissions::Commands;
use super::run_outcome::{ModelFault, RunOutcome, RunReading, RunUsage};
use crate::plan::{SessionId, Time};
use crate::wire::text::{one_line, printable};
use std::time::Duration;

pub(super) struct OpenCode;

/// A service that asks for a wait of at least this long has reached a usage limit; a shorter wait is a pause.
const LIMIT: u64 = 300;

impl Adapter for OpenCode {
    fn program(&self) -> AgentProgram {
        AgentProgram {
            name: "opencode",
            least: ProgramVersion(1, 0, 0),
            env: &[
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "OPENCODE_API_KEY",
                "OPENCODE_CONFIG",
                "OPENCODE_CONFIG_DIR",
                "XDG_CONFIG_HOME",
                "XDG_DATA_HOME",
            ],
            install: "npm install -g opencode-ai",
        }
    }

    fn call(&self, turn: &AgentRun<'_>) -> Result<AgentInvocation, Misconfigured> {
        let mut argv: Vec<String> = ["opencode", "run", "--format", "json"]
            .map(str::to_owned)
            .to_vec();
        if let Some(model) = turn.model {
            argv.extend(["-m".to_owned(), model.to_owned()]);
        }
        if let RunSession::Resume(session) = &turn.talk {
            argv.extend(["-s".to_owned(), session.to_string()]);
        }
        argv.extend(turn.more.iter().cloned());
        let set = [
            ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
            ("OPENCODE_CONFIG_CONTENT", config(turn)),
        ];
        Ok(AgentInvocation {
            argv,
            set: set.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        })
    }

    fn read(&self, printed: &RunOutput<'_>) -> Option<RunReading> {
        let all: Vec<Value> = events(printed.out).collect();
        let of = |kind: &'static str| {
            all.iter()
                .filter(move |event| text_at(event, "/type") == kind)
        };
        let mut usage = RunUsage::default();
        for step in of("step_finish") {
            let tokens = |name: &str| number_at(step, &format!("/part/tokens/{name}"));
            usage.add(RunUsage {
                input_tokens: tokens("input")
                    .saturating_add(tokens("cache/read"))
                    .saturating_add(tokens("cache/write")),
                output_tokens: tokens("output").saturating_add(tokens("reasoning")),
                cost_usd: step
                    .pointer("/part/cost")
                    .and_then(Value::as_f64)
                    .unwrap_or(0.0),
            });
        }
        let outcome = if let Some(error) = of("error").next_back() {
            RunOutcome::Model(fault(error, printed.now))
        } else {
            let last = of("step_finish").next_back();
            let refused = refusals(&all, printed.err);
            let text = last_text(&all);
            if !refused.is_empty() {
                RunOutcome::Refused {
                    text,
                    what: refused,
                    unfinished: last.is_none().then(|| "it came to no end".into()),
                }
            } else if text_at(last?, "/part/reason") == "stop" {
                RunOutcome::Done { text }
            } else {
                return None;
            }
        };
        Some(RunReading {
            outcome,
            session: None,
            usage,
        })
    }

    fn words(&self) -> ErrorPhrases {
        ErrorPhrases {
            missing: &["Session not found"],
            usage: &["Unknown argument"],
            ..ErrorPhrases::default()
        }
    }

    fn knows(&self, session: &str) -> bool {
        session.starts_with("ses_")
    }

    fn session(&self, out: &str) -> Option<SessionId> {
        let named = |event: &Value| session_named(text_at(event, "/sessionID"));
        events(out).find_map(|event| named(&event))
    }

    fn takes_names(&self) -> bool {
        false
    }

    fn login(&self, variable: &dyn Fn(&str) -> Option<String>) -> Login {
        let data =
            variable("XDG_DATA_HOME").unwrap_or_else(|| format!("{}/.local/share", home(variable)));
        let seen = Login::detect(
            variable,
            &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY"],
            &[format!("{data}/opencode/auth.json")],
        );
        match seen {
            found @ Login::Found(_) => found,
            // OpenCode knows models that need no key, and its configuration may name a service of the person.
            Login::NotSeen(_) | Login::Unknown => Login::Unknown,
        }
    }
}

/// Returns the permissions as a configuration that overrides the person's own. A permission that OpenCode asks for would end
/// the run, because no person can answer, so everything is either allowed or denied.
fn config(turn: &AgentRun<'_>) -> String {
    let allow = turn.allow;
    let word = |allowed: bool| if allowed { "allow" } else { "deny" };
    let bash = match &allow.commands {
        _ if allow.all => json!("allow"),
        Commands::None => json!("deny"),
        Commands::Any => json!("allow"),
        Commands::Some(patterns) => {
            // The last rule that matches decides; `*` sorts before every letter.
            let mut rules = Map::new();
            rules.insert("*".into(), json!("deny"));
            rules.extend(patterns.iter().map(|p| (p.clone(), json!("allow"))));
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
    let data = |name: &str| event.pointer(&format!("/error/data/{name}"));
    let status = data("statusCode")
        .and_then(Value::as_u64)
        .and_then(|status| status.try_into().ok());
    let message = text_at(event, "/error/data/message");
    let said = if message.is_empty() {
        text_at(event, "/error/name")
    } else {
        message
    };
    let mut fault = ModelFault::new(status, one_line(said, 400));
    if let Some(retryable) = data("isRetryable").and_then(Value::as_bool) {
        fault.retryable = retryable;
    }
    let wait = text_at(event, "/error/data/responseHeaders/retry-after");
    fault.until = wait
        .parse()
        .ok()
        .filter(|seconds| *seconds >= LIMIT && status == Some(429))
        .map(|seconds| now.plus(Duration::from_secs(seconds)));
    fault
}

/// Lists what was refused: by the tools' own errors, and by messages on standard error.
fn refusals(all: &[Value], err: &str) -> Vec<String> {
    let asked = |line: &str| {
        let (_, what) = line.split_once("permission requested: ")?;
        let (what, _) = what.split_once("; auto-rejecting").unwrap_or((what, ""));
        Some(one_line(&printable(what), 200))
    };
    let told: Vec<String> = err.lines().filter_map(asked).collect();
    if !told.is_empty() {
        return told;
    }
    all.iter()
        .filter(|event| text_at(event, "/type") == "tool_use")
        .filter(|event| text_at(event, "/part/state/status") == "error")
        .filter(|event| {
            let error = text_at(event, "/part/state/error");
            error.contains("rejected permission") || error.contains("which prevents you from using")
        })
        .map(|event| {
            let input = |name: &str| text_at(event, &format!("/part/state/input/{name}"));
            let about = [input("command"), input("filePath")].concat();
            one_line(&format!("{}: {about}", text_at(event, "/part/tool")), 200)
        })
        .collect()
}

/// Joins the texts of the last step.
fn last_text(all: &[Value]) -> String {
    let from = all
        .iter()
        .rposition(|event| text_at(event, "/type") == "step_start");
    let texts: Vec<&str> = all
        .iter()
        .skip(from.unwrap_or(0))
        .filter(|event| text_at(event, "/type") == "text")
        .map(|event| text_at(event, "/part/text"))
        .collect();
    texts.join("\n")
}
