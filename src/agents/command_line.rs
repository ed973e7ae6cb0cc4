//! A command line with placeholders: any program that reads a prompt can be an agent. One that takes its session gets only what
//! is new at a retry.

use regex_lite::Captures;

use super::{AgentJob, AgentProcess};
use crate::plan::test_commands::patterns;
use crate::volumes::Folder;
use crate::wire::nearest;

/// What stands for a value.
const PLACEHOLDERS: [&str; 4] = ["{prompt_file}", "{session}", "{workspace}", "{report}"];

patterns! {
    /// A word in braces.
    IN_BRACES = r"\{[^{}]*\}";
}

/// A command line in which `{prompt_file}`, `{session}`, `{workspace}` and `{report}` stand for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTemplate(pub(super) Vec<String>);

impl CommandTemplate {
    /// Returns whether the command line has the session, so that the program can go on in it.
    pub fn takes_session(&self) -> bool {
        self.0.iter().any(|word| word.contains("{session}"))
    }

    /// Returns a word in braces that is nearly a placeholder, and the one that was probably meant.
    pub fn misspelt(&self) -> Option<(&str, &'static str)> {
        let braces =
            (self.0.iter()).flat_map(|word| word.match_indices('{').map(|(at, _)| &word[at..]));
        let mut in_braces = braces.filter_map(|from| Some(&from[..=from.find('}')?]));
        in_braces.find_map(|word| {
            let meant = nearest(word, PLACEHOLDERS.into_iter()).filter(|meant| *meant != word)?;
            Some((word, meant))
        })
    }

    /// Fills in the command line. If it has no `{prompt_file}`, the program reads the prompt on standard input.
    pub fn step(&self, job: &AgentJob<'_>) -> AgentProcess {
        let id = &job.command.id;
        let prompt = job.volumes.command(Folder::CommandsProcessed, id);
        let values = [
            prompt.display().to_string(),
            job.session.to_string(),
            job.workspace.display().to_string(),
            job.volumes.report(id).display().to_string(),
        ];
        let values: Vec<_> = PLACEHOLDERS.into_iter().zip(values).collect();
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
    let filled = |found: &Captures<'_>| {
        let value = values.iter().find(|(name, _)| *name == &found[0]);
        value.map_or_else(|| found[0].to_owned(), |(_, value)| value.clone())
    };
    IN_BRACES.replace_all(word, filled).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_placeholder_is_found() {
        for (word, found) in [
            ("{promptfile}", Some(("{promptfile}", "{prompt_file}"))),
            ("--out={reports}", Some(("{reports}", "{report}"))),
            ("{report}", None),
            (r#"{"a": {"b": 1}} {print}"#, None),
        ] {
            let line = CommandTemplate(vec!["my-agent".to_owned(), word.to_owned()]);
            assert_eq!(line.misspelt(), found, "{word}");
        }
    }

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
