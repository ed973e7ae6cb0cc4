//! Claude Code: events of JSON, one a line, the last one `result`. That event lists what was refused, even next to "success".

use serde_json::{Value, json};

use super::coding_agent::{
    Adapter, AgentInvocation, AgentRun, ErrorPhrases, Misconfigured, RunOutput, RunSession, events,
    is_uuid, number_at, session_named, text_at,
};
use super::installed_programs::{AgentProgram, Login, ProgramVersion, home};
use super::permissions::{Commands, Permissions};
use super::run_outcome::{ModelFault, RunOutcome, RunReading, RunUsage};
use crate::plan::Time;
use crate::wire::text::one_line;

pub(super) struct Claude;

/// The longest description of one refusal.
const REFUSAL: usize = 200;

const WORDS: ErrorPhrases = ErrorPhrases {
    missing: &[
        "No conversation found",
        "requires a valid session ID",
        "Invalid session ID",
    ],
    in_use: &["is already in use"],
    usage: &["/login", "Invalid API key", "error: unknown option"],
};

impl Adapter for Claude {
    fn program(&self) -> AgentProgram {
        AgentProgram {
            name: "claude",
            least: ProgramVersion(2, 0, 0),
            env: &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "ANTHROPIC_BASE_URL",
                "ANTHROPIC_MODEL",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CONFIG_DIR",
                "IS_SANDBOX",
            ],
            install: "npm install -g @anthropic-ai/claude-code",
        }
    }

    fn call(&self, turn: &AgentRun<'_>) -> Result<AgentInvocation, Misconfigured> {
        let mut argv: Vec<String> = [
            "claude",
            "-p",
            "--verbose",
            "--output-format",
            "stream-json",
        ]
        .map(str::to_owned)
        .to_vec();
        let mut add = |words: &[&str]| argv.extend(words.iter().map(ToString::to_string));
        let allow = turn.allow;
        if allow.all {
            add(&["--dangerously-skip-permissions"]);
        } else if allow.edit {
            add(&["--permission-mode", "acceptEdits"]);
        } else {
            add(&["--permission-mode", "default"]);
        }
        match &allow.commands {
            Commands::None => {}
            Commands::Any => add(&["--allowedTools", "Bash"]),
            Commands::Some(patterns) => {
                let tools: Vec<_> = patterns.iter().map(|p| format!("Bash({p})")).collect();
                add(&["--allowedTools", &tools.join(",")]);
            }
        }
        match &turn.talk {
            // Without tools it can only answer.
            RunSession::Alone => add(&["--tools", ""]),
            RunSession::Begin(session) => add(&["--session-id", session.as_str()]),
            RunSession::Resume(session) => add(&["--resume", session.as_str()]),
        }
        if let Some(model) = turn.model {
            add(&["--model", model]);
        }
        argv.extend(turn.more.iter().cloned());
        let set = [
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            // Its own retries take minutes, in which it shows no activity.
            ("CLAUDE_CODE_MAX_RETRIES", "2"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(AgentInvocation {
            argv,
            set: set.to_vec(),
        })
    }

    fn read(&self, printed: &RunOutput<'_>) -> Option<RunReading> {
        let result = events(printed.out)
            .rev()
            .find(|event| text_at(event, "/type") == "result");
        let Some(result) = result else {
            return refused_so_far(printed.out);
        };
        let refused: Vec<String> = result
            .pointer("/permission_denials")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(refusal)
            .collect();
        let text = text_at(&result, "/result").to_owned();
        let error = result.pointer("/is_error").and_then(Value::as_bool);
        let status = result
            .pointer("/api_error_status")
            .and_then(Value::as_u64)
            .and_then(|status| status.try_into().ok());
        let complaint = || {
            let errors = result.pointer("/errors").and_then(Value::as_array);
            let errors = errors.into_iter().flatten().filter_map(Value::as_str);
            let said: Vec<&str> = errors.chain([printed.err]).collect();
            // What it says after the first turn is not about how it was started.
            let about_start = number_at(&result, "/num_turns") == 0;
            about_start.then(|| WORDS.read(&said.join("\n")))?
        };
        let outcome = if error != Some(false) && text.contains("run /login") {
            // It reports this as a fault of the model without a status, but no retry helps.
            RunOutcome::Usage {
                said: one_line(&text, 400),
            }
        } else if status.is_some() || text_at(&result, "/terminal_reason") == "api_error" {
            let mut fault = ModelFault::new(status, one_line(&text, 400));
            fault.until = limit(printed.out, &text).filter(|_| status.is_none_or(|s| s == 429));
            RunOutcome::Model(fault)
        } else if error == Some(false) && refused.is_empty() {
            RunOutcome::Done { text }
        } else if error == Some(false) {
            RunOutcome::Refused {
                text,
                what: refused,
                unfinished: None,
            }
        } else if let Some(complaint) = complaint() {
            complaint
        } else if text.contains("limit reached") {
            // Older versions report a usage limit in words alone.
            let mut fault = ModelFault::new(Some(429), one_line(&text, 400));
            fault.until = limit(printed.out, &text);
            RunOutcome::Model(fault)
        } else {
            let why = result.pointer("/errors").map(Value::to_string);
            let why = one_line(why.as_deref().unwrap_or(&text), 400);
            if refused.is_empty() {
                RunOutcome::Garbled { why }
            } else {
                RunOutcome::Refused {
                    text,
                    what: refused,
                    unfinished: Some(why),
                }
            }
        };
        Some(RunReading {
            outcome,
            session: session_named(text_at(&result, "/session_id")),
            usage: usage(&result, printed.begins),
        })
    }

    fn words(&self) -> ErrorPhrases {
        WORDS
    }

    fn asks_again(&self, line: &str) -> bool {
        let Ok(event) = serde_json::from_str::<Value>(line.trim()) else {
            return false;
        };
        text_at(&event, "/subtype") == "api_retry"
    }

    fn knows(&self, session: &str) -> bool {
        // Claude Code reads another form as the title of a session, and that session may not exist.
        is_uuid(session)
    }

    fn fits(
        &self,
        allow: &Permissions,
        root: bool,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), Misconfigured> {
        if allow.all && root && variable("IS_SANDBOX").is_none() {
            return Err(Misconfigured::new(
                r#"claude does not run as root with `allow = ["all"]`"#,
                r#"run it as another user, allow ["edit", "shell"], or set IS_SANDBOX=1 where nothing can be harmed"#,
            ));
        }
        Ok(())
    }

    fn login(&self, variable: &dyn Fn(&str) -> Option<String>) -> Login {
        let folder =
            variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| format!("{}/.claude", home(variable)));
        let seen = Login::detect(
            variable,
            &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "CLAUDE_CODE_OAUTH_TOKEN",
            ],
            &[format!("{folder}/.credentials.json")],
        );
        match (seen, variable("ANTHROPIC_BASE_URL")) {
            (Login::Found(what), Some(_)) => {
                Login::Found(format!("{what}, for the service at ANTHROPIC_BASE_URL"))
            }
            (seen, _) => seen,
        }
    }
}

/// Returns what is known of a run that did not finish, if something was refused to it.
fn refused_so_far(out: &str) -> Option<RunReading> {
    let all: Vec<Value> = events(out).collect();
    let asked = |id: &str| {
        let contents = all.iter().filter_map(|event| {
            let content = event.pointer("/message/content")?;
            content.as_array()
        });
        let mut parts = contents.flatten();
        parts.find(|part| text_at(part, "/type") == "tool_use" && text_at(part, "/id") == id)
    };
    let what: Vec<String> = all
        .iter()
        .filter(|event| text_at(event, "/subtype") == "permission_denied")
        .map(|event| {
            let input = asked(text_at(event, "/tool_use_id")).and_then(|part| part.get("input"));
            refusal(&json!({"tool_name": text_at(event, "/tool_name"), "tool_input": input}))
        })
        .collect();
    let named = |event: &Value| session_named(text_at(event, "/session_id"));
    (!what.is_empty()).then(|| RunReading {
        outcome: RunOutcome::Refused {
            text: String::new(),
            what,
            unfinished: Some("it came to no end".into()),
        },
        session: all.iter().find_map(named),
        usage: RunUsage::default(),
    })
}

/// Describes what was refused: the tool, and what the agent wanted it for.
fn refusal(denial: &Value) -> String {
    let tool = text_at(denial, "/tool_name");
    let about = [
        "/tool_input/command",
        "/tool_input/file_path",
        "/tool_input/url",
    ]
    .into_iter()
    .map(|at| text_at(denial, at))
    .find(|text| !text.is_empty());
    let told = match about {
        Some(about) => format!("{tool}: {about}"),
        None => tool.to_owned(),
    };
    one_line(&told, REFUSAL)
}

/// Finds when a usage limit ends: in an event about it, or after a `|` at the end of the message of older versions.
fn limit(out: &str, said: &str) -> Option<Time> {
    let event = events(out)
        .rev()
        .find(|event| text_at(event, "/type") == "rate_limit_event")
        .filter(|event| text_at(event, "/rate_limit_info/status") == "rejected")
        .map(|event| number_at(&event, "/rate_limit_info/resetsAt"));
    let behind = || {
        said.rsplit_once('|')
            .and_then(|(_, moment)| moment.trim().parse().ok())
    };
    let seconds = event.filter(|seconds| *seconds > 0).or_else(behind)?;
    let seconds = i64::try_from(seconds).ok()?;
    Some(Time(seconds.checked_mul(1_000_000)?))
}

/// Tokens are those of this run in every version. Since some version of 2.1 the sum in dollars is that of the whole session, so
/// it counts only where the session began with this run; newer versions report this run's part alongside it.
fn usage(result: &Value, begins: bool) -> RunUsage {
    let tokens = |name: &str| number_at(result, &format!("/usage/{name}"));
    let part = result
        .pointer("/model_usage_since_last_result")
        .and_then(Value::as_object)
        .map(|models| {
            let costs = models
                .values()
                .filter_map(|model| model.pointer("/costUSD")?.as_f64());
            costs.sum()
        });
    let whole = || result.pointer("/total_cost_usd").and_then(Value::as_f64);
    RunUsage {
        input_tokens: tokens("input_tokens")
            .saturating_add(tokens("cache_creation_input_tokens"))
            .saturating_add(tokens("cache_read_input_tokens")),
        output_tokens: tokens("output_tokens"),
        cost_usd: part.or_else(|| whole().filter(|_| begins)).unwrap_or(0.0),
    }
}
