//! What a coding agent may do without asking a person: the words of `[worker] allow`, the same for every agent.

use crate::wire::Problem;

/// What an agent may do. It may always read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Change files in the workspace.
    pub edit: bool,
    pub commands: Commands,
    /// Commands that it may run word for word; each is one that [`CodingAgent::exact`](super::CodingAgent::exact) accepts.
    pub exact: Vec<String>,
    /// Everything, without asking and without a sandbox.
    pub all: bool,
}

/// Which shell commands an agent may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Commands {
    #[default]
    None,
    /// Commands that begin like one of these patterns; a `*` stands for anything.
    Some(Vec<String>),
    Any,
}

impl Commands {
    /// Returns the patterns, if there are some.
    pub(super) fn patterns(&self) -> &[String] {
        match self {
            Self::Some(patterns) => patterns,
            Self::None | Self::Any => &[],
        }
    }
}

impl Default for Permissions {
    /// Edits in the workspace.
    fn default() -> Self {
        Self {
            edit: true,
            ..Self::NOTHING
        }
    }
}

impl Permissions {
    /// Read only: for questions.
    pub const NOTHING: Self = Self {
        edit: false,
        commands: Commands::None,
        exact: Vec::new(),
        all: false,
    };

    /// Reads the words of the configuration.
    ///
    /// # Errors
    /// Names the first word that means nothing.
    pub fn parse(words: &[String]) -> Result<Self, Problem> {
        let mut allow = Self::NOTHING;
        let mut patterns = Vec::new();
        for word in words {
            match word.split_once(':') {
                None if word == "edit" => allow.edit = true,
                None if word == "shell" => allow.commands = Commands::Any,
                None if word == "all" => allow.all = true,
                Some(("shell", pattern)) if sound(pattern) => {
                    patterns.push(pattern.trim().to_owned());
                }
                _ => {
                    let problem = Problem::new(format!("`worker.allow` has `{word}`"));
                    let hint = r#"write "edit", "shell", "shell:cargo test *" or "all""#;
                    return Err(problem.with_hint(hint));
                }
            }
        }
        if allow.commands == Commands::None && !patterns.is_empty() {
            allow.commands = Commands::Some(patterns);
        }
        Ok(allow)
    }
}

/// Returns whether a pattern can be passed to an agent whose own syntax puts it into brackets or between commas.
fn sound(pattern: &str) -> bool {
    !pattern.trim().is_empty() && !pattern.contains(['(', ')', ',', '"', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_parses_known_words_only() {
        let parse = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            Permissions::parse(&words)
        };
        assert_eq!(parse(&["edit"]), Ok(Permissions::default()));
        assert_eq!(parse(&[]), Ok(Permissions::NOTHING));
        assert_eq!(
            parse(&["edit", "shell:cargo test *", "shell:ls"])
                .unwrap()
                .commands,
            Commands::Some(vec!["cargo test *".into(), "ls".into()])
        );
        assert_eq!(
            parse(&["shell:ls", "shell"]).unwrap().commands,
            Commands::Any
        );
        for word in ["edits", "shell:", "shell:a),Bash(b", "All", ""] {
            let problem = parse(&[word]).unwrap_err();
            assert_eq!(problem.message, format!("`worker.allow` has `{word}`"));
        }
    }
}
