//! A command line with placeholders: any program that reads a prompt can be an agent. One that takes its session gets only what
//! is new at a retry.

use super::{AgentJob, AgentProcess};
use crate::volumes::Folder;

/// A command line in which `{prompt_file}`, `{session}`, `{workspace}` and `{report}` stand for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTemplate(pub(super) Vec<String>);

impl CommandTemplate {
    /// Returns whether the command line has the session, so that the program can go on in it.
    pub fn takes_session(&self) -> bool {
        self.0.iter().any(|word| word.contains("{session}"))
    }

    /// Fills in the command line. If it has no `{prompt_file}`, the program reads the prompt on standard input.
    pub fn step(&self, job: &AgentJob<'_>) -> AgentProcess {
        let id = &job.command.id;
        let prompt = job.volumes.command(Folder::CommandsProcessed, id);
        let values = [
            ("{prompt_file}", prompt.display().to_string()),
            ("{session}", job.session.to_string()),
            ("{workspace}", job.workspace.display().to_string()),
            ("{report}", job.volumes.report(id).display().to_string()),
        ];
        let named = self.0.iter().any(|word| word.contains("{prompt_file}"));
        AgentProcess {
            name: "The command".into(),
            argv: self.0.iter().map(|word| fill(word, &values)).collect(),
            stdin: (!named).then(|| job.command.render().into_bytes()),
            ..AgentProcess::default()
        }
    }
}

/// Replaces placeholders by their values. The contents of a value are never searched for placeholders.
fn fill(word: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let mut values = values.iter();
        let value = values.find_map(|(name, value)| Some((value, from.strip_prefix(name)?)));
        rest = if let Some((value, after)) = value {
            filled.push_str(value);
            after
        } else {
            filled.push('{');
            &from[1..]
        };
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_once() {
        let values = [
            ("{session}", "{report}".to_owned()),
            ("{report}", "r".to_owned()),
        ];
        for (word, filled) in [
            ("{session}", "{report}"),
            ("--out={report}.md", "--out=r.md"),
            ("{report}{report}", "rr"),
            (r#"{"a": {"b": 1}}"#, r#"{"a": {"b": 1}}"#),
            ("{unknown} {", "{unknown} {"),
            ("{{report}}", "{r}"),
            ("", ""),
        ] {
            assert_eq!(fill(word, &values), filled, "{word}");
        }
    }
}
