//! aider: plain text, and exit code 0 whatever happens. It edits files out of one answer of the model, runs no tools, and has
//! no sessions: the worker keeps the conversation in a file outside the workspace.

use super::*;
use crate::plan::ModelCost;
use crate::wire::{Problem, one_line, printable};

pub(super) static AGENT: CodingAgent = CodingAgent {
    name: "aider",
    least: ProgramVersion(0, 80, 0),
    env: "OPENAI_API_KEY OPENAI_API_BASE ANTHROPIC_API_KEY GEMINI_API_KEY DEEPSEEK_API_KEY \
          OPENROUTER_API_KEY OLLAMA_API_BASE AIDER_MODEL AIDER_OPENAI_API_BASE",
    install: "python3 -m pip install aider-chat",
    missing: &[],
    in_use: &[],
    usage: &["aider: error:"],
    knows: |_| true,
    takes_names: true,
    needs_history: true,
    counts_from_the_beginning: false,
    answers: false,
    call,
    read,
    exact: None,
    // It prints plain text.
    acts: |_| None,
    session_at: None,
    asks_again,
    fits: |_, _, _| Ok(()),
    login: |_| Login::Unknown,
};

fn call(run: &AgentRun<'_>) -> Result<AgentProcess> {
    let allow = &run.setup.allow;
    if allow.commands != Commands::None && !allow.all {
        let way_out = r#"[worker] allow = ["edit"]"#;
        return Err(Problem::new("aider runs no commands").with_hint(way_out));
    }
    if !allow.edit && !allow.all {
        let reason = "aider cannot be kept from changing files";
        let way_out = r#"[worker] allow = ["edit"], or another agent"#;
        return Err(Problem::new(reason).with_hint(way_out));
    }
    let mut call = AgentProcess::of(
        "aider --message-file /dev/stdin --yes-always --no-pretty --no-stream --no-git --no-gitignore \
         --no-check-update --analytics-disable --no-show-model-warnings --no-show-release-notes \
         --no-suggest-shell-commands --max-chat-history-tokens 32768 --input-history-file /dev/null --chat-history-file",
    );
    call.add(&[&run.history.to_string_lossy()]);
    if let RunSession::Resume(_) = run.session {
        call.add(&["--restore-chat-history"]);
    }
    call.option("--model", run.setup.model.as_deref());
    call.argv.extend_from_slice(&run.setup.more);
    Ok(call)
}

fn read(printed: &RunOutput<'_>) -> Option<RunReading> {
    let lines: Vec<&str> = printed.out.lines().map(str::trim).collect();
    // The model may write such lines itself. But aider prints its token summary after the model's last answer, and
    // everything after that summary is aider's own.
    let account = lines.iter().rposition(|line| tokens(line).is_some());
    let after = &lines[account.map_or(0, |at| at + 1)..];
    let usage = account.and_then(|at| tokens(lines[at])).unwrap_or_default();
    let edits = |line: &&str| line.starts_with("Applied edit to ");
    let last_edit = after.iter().rposition(edits);
    let behind = last_edit.map_or(0, |at| at + 1);
    let quiet = after[behind..].iter().all(|line| line.is_empty());
    let stuck = after.iter().find(|line| {
        line.contains("failed to match") || line.contains("reflections allowed, stopping")
    });
    let outcome = if let Some(fault) = after.iter().rev().find_map(|line| fault(line)) {
        RunOutcome::Model(fault)
    } else if let Some(stuck) = stuck {
        RunOutcome::Garbled(format!("its edits did not fit: {}", one_line(stuck, 400)))
    } else if account.is_none() {
        return None;
    } else if printed.exit.is_none() && !(last_edit.is_some() && quiet) {
        RunOutcome::Killed("was ended in the midst of its edits by an earlier worker".into())
    } else if last_edit.is_some() {
        RunOutcome::Done(answer_part(printed.out))
    } else {
        RunOutcome::Garbled(format!(
            "it changed no file. It said: {}",
            one_line(&answer_part(printed.out), 1000)
        ))
    };
    Some(RunReading::new(outcome, usage))
}

fn asks_again(line: &str) -> bool {
    let line = line.trim();
    error_name(line).is_some()
        || line.starts_with("The API provider")
        || line.starts_with("Retrying in ")
}

/// Reads `Tokens: 4.1k sent, 14 received. Cost: $0.01 message, $0.05 session.`: the tokens are those of one answer, the second
/// sum is that of all answers of the run.
fn tokens(line: &str) -> Option<ModelCost> {
    let line = line.strip_prefix("Tokens: ")?;
    let before = |word: &str| {
        let (before, _) = line.split_once(word)?;
        count(before.rsplit(' ').next()?)
    };
    let cost = line.split_once(" message, $").and_then(|(_, cost)| {
        let (cost, _) = cost.split_once(" session")?;
        cost.parse().ok()
    });
    let (sent, received) = (before(" sent")?, before(" received")?);
    Some(ModelCost::new(sent, received, cost.unwrap_or(0.0)))
}

fn count(word: &str) -> Option<u64> {
    let (digits, factor) = match word.strip_suffix(['k', 'M']) {
        Some(digits) if word.ends_with('k') => (digits, 1e3),
        Some(digits) => (digits, 1e6),
        None => (word, 1.0),
    };
    let number: f64 = digits.replace(',', "").parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of tokens, and a cast of what is no count gives a bound"
    )]
    let count = (number * factor) as u64;
    Some(count)
}

/// Returns the name of the error that a line reports.
fn error_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix("litellm.")?.split(':').next()?;
    (name.ends_with("Error") || name == "Timeout").then_some(name)
}

/// The name of the error is more reliable than the words after it, which a service may have made up.
fn fault(line: &str) -> Option<ModelFault> {
    let status = match error_name(line)? {
        "AuthenticationError" => Some(401),
        "PermissionDeniedError" => Some(403),
        "NotFoundError" => Some(404),
        "RateLimitError" => Some(429),
        "ServiceUnavailableError" => Some(503),
        "InternalServerError" => Some(500),
        "APIConnectionError" | "Timeout" => None,
        "BadRequestError" | "ContextWindowExceededError" => Some(400),
        _ => fault_by_words(line).status,
    };
    Some(ModelFault::new(status, one_line(line, 400)))
}

/// Returns the text between aider's greeting and its summary of tokens.
fn answer_part(out: &str) -> String {
    let out = printable(out);
    let map = out.find("\nRepo-map: ");
    let from = map.and_then(|at| Some(at + 1 + out[at + 1..].find('\n')?));
    out[from.unwrap_or(0)..].trim().to_owned()
}
