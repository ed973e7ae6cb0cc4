//! The programs of the coding agents: their names, the versions that are known to work, what they need to reach a model.

use std::fmt;
use std::path::Path;

/// Returns the value of an environment variable.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The three numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramVersion(pub u32, pub u32, pub u32);

impl ProgramVersion {
    /// Finds the first version in a text, such as `codex-cli 0.169.0`.
    pub fn find(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let word = word.trim_start_matches('v');
            let mut numbers = word.split(['-', '+']).next()?.split('.').map(str::parse);
            let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
                return None;
            };
            let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
            Some(Self(major, minor, patch))
        })
    }
}

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Whether an agent can reach a model, as far as this machine shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// This shows it.
    Found(String),
    /// None of this was found. Something that cannot be checked may take its place.
    NotSeen(String),
    /// There is nothing to check.
    Unknown,
}

impl Login {
    /// Checks some variables, then a file.
    pub(super) fn detect(variable: Variables<'_>, keys: &str, file: &str) -> Self {
        let mut keys = keys.split(' ');
        let first = keys.clone().next().unwrap_or_default();
        if let Some(key) = keys.find(|key| variable(key).is_some()) {
            Self::Found(format!("{key} is set"))
        } else if Path::new(file).is_file() {
            Self::Found(format!("{file} is there"))
        } else {
            Self::NotSeen(format!("{first} is not set, {file} is not there"))
        }
    }
}

/// Returns the folder that a variable names, or the one at this path in the home folder.
pub(super) fn folder(variable: Variables<'_>, name: &str, in_home: &str) -> String {
    let home = || variable("HOME").unwrap_or_else(|| "/nowhere".into()) + in_home;
    variable(name).unwrap_or_else(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_and_compares_agent_versions() {
        for (text, version) in [
            ("2.1.330 (Claude Code)", Some(ProgramVersion(2, 1, 330))),
            ("codex-cli 0.169.0\n", Some(ProgramVersion(0, 169, 0))),
            ("0.61.0", Some(ProgramVersion(0, 61, 0))),
            ("aider 0.86.2.dev1", Some(ProgramVersion(0, 86, 2))),
            ("v1.2", Some(ProgramVersion(1, 2, 0))),
            ("1.18.33-beta.1", Some(ProgramVersion(1, 18, 33))),
            ("Node 20: no version", None),
            ("", None),
        ] {
            assert_eq!(ProgramVersion::find(text), version, "{text}");
        }
        assert!(ProgramVersion(2, 1, 9) < ProgramVersion(2, 1, 10));
    }
}
