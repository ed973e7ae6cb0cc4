//! What a coding agent says and does while it works, read from the lines of its output as they come: for a person who watches.
//! How a run ended is read elsewhere. All of it is the agent's own text: a caller that prints it makes it printable first.

use serde_json::Value;

use super::coding_agent::{CodingAgent, text_at};
use super::run_outcome::RunUsage;
use crate::wire::text::one_line;

/// The longest line of what a tool is used on.
const ABOUT: usize = 400;

/// What tells most about the use of a tool, among its arguments.
const TELLING: [&str; 11] = [
    "command",
    "file_path",
    "filePath",
    "path",
    "dir_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "task",
];

/// One thing that an agent says or does.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAct {
    /// It says something.
    Says(String),
    /// It goes on with what it was saying.
    GoesOn(String),
    /// It uses a tool, named with what it is used on.
    Uses(String),
    /// What the tool, or the model, answered.
    Gets { text: String, failed: bool },
    /// What it has used for one answer of its model; the same answer may be reported again, by its name.
    Spends {
        answer: Option<String>,
        usage: RunUsage,
    },
}

/// Reads a line of output. `None` if no known agent prints such lines: then it is plain text.
pub fn acts(line: &str) -> Option<Vec<AgentAct>> {
    let line = line.trim();
    if !line.starts_with('{') {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    let mut agents = CodingAgent::ALL.into_iter();
    agents.find_map(|agent| (agent.program().acts)(&event))
}

/// Makes the use of a tool with its arguments.
pub(super) fn uses(tool: &str, arguments: Option<&Value>) -> AgentAct {
    let argument = |name: &&str| arguments.and_then(|all| all.get(*name)?.as_str());
    let about = TELLING.iter().find_map(argument).unwrap_or_default();
    AgentAct::Uses(one_line(&format!("{tool} {about}"), ABOUT))
}

/// Makes what an agent says; nothing if it is empty.
pub(super) fn says(text: &str) -> Vec<AgentAct> {
    match text.trim() {
        "" => Vec::new(),
        text => vec![AgentAct::Says(text.to_owned())],
    }
}

/// Makes the answer of a tool.
pub(super) fn gets(text: &str, failed: bool) -> AgentAct {
    let text = text.trim_end().to_owned();
    AgentAct::Gets { text, failed }
}

/// Makes the complaint at a path of an event.
pub(super) fn complains(event: &Value, pointer: &str) -> Vec<AgentAct> {
    vec![gets(text_at(event, pointer), true)]
}

/// Returns a text, or the texts of the parts of a message.
pub(super) fn joined_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| text_at(part, "/text"));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::tests::sample;

    fn told(name: &str) -> String {
        let said = |line: &str| match acts(line) {
            Some(acts) => acts.iter().map(|act| format!("{act:?}\n")).collect(),
            None => format!("plain: {line}\n"),
        };
        let sample = sample(name);
        let (_, out) = sample.split_once("\n---- stdout\n").unwrap();
        let (out, _) = out.split_once("\n---- stderr\n").unwrap();
        out.lines().map(said).collect()
    }

    #[test]
    fn reads_what_each_agent_says_and_does() {
        insta::assert_snapshot!(told("claude-done"), @r#"
        Says("I will write the file.")
        Uses("Write /w/ws/claude/hello.txt")
        Gets { text: "The file /w/ws/claude/hello.txt has been updated successfully. (file state is current in your context — no need to Read it back)", failed: false }
        Says("Done: hello.txt written. Prompts seen: 2.")
        "#);
        insta::assert_snapshot!(told("codex-done"), @r#"
        Says("Model metadata for `fake-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.")
        Says("I will write the file.")
        Uses("echo hello from the fake model > hello.txt")
        Gets { text: "", failed: false }
        Says("Done: hello.txt written. Prompts seen: 2.")
        "#);
        insta::assert_snapshot!(told("gemini-done"), @r#"
        GoesOn("I will write")
        GoesOn(" the file.")
        Uses("write_file /w/ws/hello.txt")
        Gets { text: "", failed: false }
        GoesOn("Done: hello.")
        GoesOn("txt written.")
        GoesOn(" Prompts see")
        GoesOn("n: 1.")
        "#);
        insta::assert_snapshot!(told("opencode-done"), @r#"
        Says("I will write the file.")
        Uses("write /w/ws/opencode/hello.txt")
        Gets { text: "Wrote file successfully.", failed: false }
        Spends { answer: None, usage: RunUsage { input_tokens: 8547, output_tokens: 31, cost_usd: 0.0 } }
        Says("Done: hello.txt written. Prompts seen: 1.")
        Spends { answer: None, usage: RunUsage { input_tokens: 8634, output_tokens: 10, cost_usd: 0.0 } }
        "#);
        insta::assert_snapshot!(told("opencode-refused"), @r#"
        Says("I will write the file.")
        Uses("write /w/ws/opencode/hello.txt")
        Gets { text: "The user rejected permission to use this specific tool call.", failed: true }
        Spends { answer: None, usage: RunUsage { input_tokens: 8542, output_tokens: 31, cost_usd: 0.0 } }
        "#);
    }

    #[test]
    fn answer_of_model_is_spent_once() {
        let line = r#"{"type":"assistant","message":{"id":"msg_1","usage":{"input_tokens":3,"cache_read_input_tokens":40,"output_tokens":2},"content":[{"type":"tool_use","name":"Edit","input":{"file_path":"src/a.rs"}}]}}"#;
        let spent = AgentAct::Spends {
            answer: Some("msg_1".into()),
            usage: RunUsage {
                input_tokens: 43,
                output_tokens: 2,
                cost_usd: 0.0,
            },
        };
        let all = vec![AgentAct::Uses("Edit src/a.rs".into()), spent];
        assert_eq!(acts(line), Some(all));
    }

    #[test]
    fn unknown_lines_are_plain_text() {
        for line in [
            "Tokens: 4",
            r#"{"type":"else"}"#,
            "{",
            r#"{"level":"info"}"#,
        ] {
            assert_eq!(acts(line), None, "{line}");
        }
    }
}
