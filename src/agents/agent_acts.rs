//! What a coding agent says and does while it works, read from the lines of its output as they come: for a person who watches.
//! How a run ended is read elsewhere. All of it is the agent's own text: a caller that prints it makes it printable first.

use serde_json::Value;

use super::{CodingAgent, text_at};
use crate::plan::ModelCost;
use crate::wire::{joined, one_line};

/// The longest line of what a tool is used on.
const ABOUT: usize = 400;

/// What tells most about the use of a tool, among its arguments.
const TELLING: &str = "command file_path notebook_path filePath path dir_path pattern query url description prompt task";

/// One thing that an agent says or does.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAct {
    /// It says something.
    Says(String),
    /// It goes on with what it was saying.
    GoesOn(String),
    /// It uses a tool.
    Uses {
        /// The tool, with what it is used on.
        shown: String,
        /// The agent's name of this use; empty if it gives none.
        id: String,
        deed: Option<Deed>,
    },
    /// What the tool, or the model, answered.
    Gets(ToolAnswer),
    /// What it has used for one answer of its model; the same answer may be reported again, by its name.
    Spends {
        answer: Option<String>,
        usage: ModelCost,
    },
}

/// What the use of a tool does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It runs a command of the shell.
    Runs(String),
    /// It writes the file at a path.
    Edits(String),
}

/// The answer to the use of a tool, or of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAnswer {
    /// As of the use.
    pub id: String,
    pub text: String,
    pub failed: bool,
    /// The exit code of a command, where the agent prints it.
    pub exit: Option<i32>,
}

/// Reads a line of output. `None` if no known agent prints such lines: then it is plain text.
pub fn acts(line: &str) -> Option<Vec<AgentAct>> {
    let line = line.trim();
    if !line.starts_with('{') {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    let mut agents = CodingAgent::ALL.into_iter();
    agents.find_map(|agent| (agent.acts)(&event))
}

/// Makes the use of a tool with its arguments, under the agent's name of this use.
pub(super) fn uses(tool: &str, arguments: Option<&Value>, id: &str) -> AgentAct {
    let argument = |name: &str| arguments.and_then(|all| all.get(name)?.as_str());
    let about = TELLING.split(' ').find_map(argument).unwrap_or_default();
    let deed = match tool {
        "Bash" | "bash" | "run_shell_command" => Some(Deed::Runs(about.to_owned())),
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" | "edit" | "write" | "multiedit"
        | "patch" | "write_file" | "replace" => Some(Deed::Edits(about.to_owned())),
        _ => None,
    };
    does(&format!("{tool} {about}"), id, deed)
}

/// Makes the use of a tool that does this.
pub(super) fn does(shown: &str, id: &str, deed: Option<Deed>) -> AgentAct {
    let (shown, id) = (one_line(shown, ABOUT), id.to_owned());
    AgentAct::Uses { shown, id, deed }
}

/// Makes what an agent says; nothing if it is empty.
pub(super) fn says(text: &str) -> Vec<AgentAct> {
    match text.trim() {
        "" => Vec::new(),
        text => vec![AgentAct::Says(text.to_owned())],
    }
}

/// Makes the answer to the use of a tool, with the exit code of a command.
pub(super) fn gets(id: &str, text: &str, failed: bool, exit: Option<i32>) -> AgentAct {
    let (id, text) = (id.to_owned(), text.trim_end().to_owned());
    AgentAct::Gets(ToolAnswer {
        id,
        text,
        failed,
        exit,
    })
}

/// Makes the complaint at a path of an event.
pub(super) fn complains(event: &Value, pointer: &str) -> Vec<AgentAct> {
    vec![gets("", text_at(event, pointer), true, None)]
}

/// Returns a text, or the texts of the parts of a message.
pub(super) fn joined_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => joined(parts.iter().map(|part| text_at(part, "/text")), "\n"),
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
        Uses { shown: "Write /w/ws/claude/hello.txt", id: "toolu_fake_7_0", deed: Some(Edits("/w/ws/claude/hello.txt")) }
        Gets(ToolAnswer { id: "toolu_fake_7_0", text: "The file /w/ws/claude/hello.txt has been updated successfully. (file state is current in your context — no need to Read it back)", failed: false, exit: Some(0) })
        Says("Done: hello.txt written. Prompts seen: 2.")
        "#);
        insta::assert_snapshot!(told("codex-done"), @r#"
        Says("Model metadata for `fake-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.")
        Says("I will write the file.")
        Uses { shown: "echo hello from the fake model > hello.txt", id: "item_2", deed: Some(Runs("echo hello from the fake model > hello.txt")) }
        Gets(ToolAnswer { id: "item_2", text: "", failed: false, exit: Some(0) })
        Says("Done: hello.txt written. Prompts seen: 2.")
        "#);
        insta::assert_snapshot!(told("gemini-done"), @r#"
        GoesOn("I will write")
        GoesOn(" the file.")
        Uses { shown: "write_file /w/ws/hello.txt", id: "", deed: Some(Edits("/w/ws/hello.txt")) }
        Gets(ToolAnswer { id: "", text: "", failed: false, exit: None })
        GoesOn("Done: hello.")
        GoesOn("txt written.")
        GoesOn(" Prompts see")
        GoesOn("n: 1.")
        "#);
        insta::assert_snapshot!(told("opencode-done"), @r#"
        Says("I will write the file.")
        Uses { shown: "write /w/ws/opencode/hello.txt", id: "", deed: Some(Edits("/w/ws/opencode/hello.txt")) }
        Gets(ToolAnswer { id: "", text: "Wrote file successfully.", failed: false, exit: None })
        Spends { answer: None, usage: ModelCost { calls: 0, input_tokens: 8547, output_tokens: 31, cost_usd: 0.0 } }
        Says("Done: hello.txt written. Prompts seen: 1.")
        Spends { answer: None, usage: ModelCost { calls: 0, input_tokens: 8634, output_tokens: 10, cost_usd: 0.0 } }
        "#);
        insta::assert_snapshot!(told("opencode-refused"), @r#"
        Says("I will write the file.")
        Uses { shown: "write /w/ws/opencode/hello.txt", id: "", deed: Some(Edits("/w/ws/opencode/hello.txt")) }
        Gets(ToolAnswer { id: "", text: "The user rejected permission to use this specific tool call.", failed: true, exit: None })
        Spends { answer: None, usage: ModelCost { calls: 0, input_tokens: 8542, output_tokens: 31, cost_usd: 0.0 } }
        "#);
    }

    #[test]
    fn answer_of_model_is_spent_once() {
        let line = r#"{"type":"assistant","message":{"id":"msg_1","usage":{"input_tokens":3,"cache_read_input_tokens":40,"output_tokens":2},"content":[{"type":"tool_use","name":"Edit","input":{"file_path":"src/a.rs"}}]}}"#;
        let spent = AgentAct::Spends {
            answer: Some("msg_1".into()),
            usage: ModelCost {
                input_tokens: 43,
                output_tokens: 2,
                ..ModelCost::default()
            },
        };
        let all = vec![
            does("Edit src/a.rs", "", Some(Deed::Edits("src/a.rs".into()))),
            spent,
        ];
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
