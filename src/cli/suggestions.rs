//! What a person means who types a word that is no command: clap finds slips, this table finds other words for the same thing.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::plan::AnswerChoice;
use crate::wire::has_word;

/// The commands, and what people type instead of them.
const MEANT: [(&str, &str); 14] = [
    ("plans", "list jobs"),
    ("status", "ps info state progress tasks todo"),
    ("status --watch", "watch top monitor"),
    ("run", "start begin go exec execute do new create"),
    ("resume", "continue unpause restart attach"),
    ("stop", "quit exit halt shutdown down"),
    ("abort", "kill end terminate delete remove rm"),
    ("answer approve", "yes ok confirm"),
    ("answer abort", "reject deny no"),
    ("answer", "respond ask question questions"),
    ("log", "history events journal"),
    ("restore", "undo revert rollback reset"),
    ("show --format mermaid", "graph tree dot"),
    ("doctor", "check test config verify agents"),
];

/// Adds to an error of the command line what may have been meant, where this is known.
pub fn suggest(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(meant) = meant(typed)
    {
        let tip = format!("`plan-agent {meant}` may be what you mean");
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

fn meant(typed: &str) -> Option<String> {
    // A goal, without the command before it.
    if typed.contains(char::is_whitespace) {
        return Some("run \"…\"".to_owned());
    }
    let word = typed.to_lowercase();
    if let Some(choice) = AnswerChoice::parse(&word) {
        return Some(format!("answer {}", choice.as_str()));
    }
    let typed = |(_, words): &&(&str, &str)| has_word(words, &word);
    let found = MEANT.iter().find(typed);
    found.map(|(meant, _)| (*meant).to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};

    use super::super::args::CommandLine;
    use super::*;

    #[test]
    fn suggested_commands_exist_and_suggesting_words_do_not() {
        let mut seen = BTreeSet::new();
        for (meant, words) in MEANT {
            let command = meant.split(' ').next().unwrap();
            assert!(
                CommandLine::command().find_subcommand(command).is_some(),
                "{meant}"
            );
            assert!(words.split(' ').all(|word| seen.insert(word)), "{words}");
        }
    }

    #[test]
    fn other_words_and_slips_find_their_command() {
        let said = |words: &[&str]| {
            let words = ["plan-agent"].iter().chain(words);
            suggest(CommandLine::try_parse_from(words).unwrap_err()).to_string()
        };
        for (typed, meant) in [
            ("stauts", "'status'"),
            ("reusme", "'resume'"),
            ("list", "`plan-agent plans`"),
            ("KILL", "`plan-agent abort`"),
            ("continue", "`plan-agent resume`"),
            ("start", "`plan-agent run`"),
            ("approve", "`plan-agent answer approve`"),
            ("reject", "`plan-agent answer abort`"),
            ("Add a health endpoint", "`plan-agent run \"…\"`"),
        ] {
            let said = said(&[typed]);
            let tips: Vec<&str> = said.lines().filter(|line| line.contains("tip: ")).collect();
            assert!(
                matches!(tips.as_slice(), [tip] if tip.contains(meant)),
                "{typed}: {said}"
            );
        }
    }
}
