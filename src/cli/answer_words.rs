//! The words with which a person answers a question at its prompt.

use crate::plan::{AnswerChoice, HumanQuestion, HumanQuestionKind};
use crate::wire::{joined, meaning, printable};

use super::prompt::HotKey;

/// What a person may say in addition to the choices when a plan is reviewed.
const EDIT: &str = "edit";

/// The keys of a review. Only what can be undone comes at once.
const KEYS: [HotKey; 5] = [
    key('y', "approve", true),
    key('e', EDIT, true),
    key('?', "?", true),
    key('r', "replan", false),
    key('n', "abort", false),
];

/// What a person typed.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    Nothing,
    /// `?`.
    Explain,
    /// Edit the plan first.
    Edit,
    Answer(AnswerChoice, String),
    /// Why it is no answer, in one line.
    Wrong(String),
}

const fn key(key: char, word: &'static str, at_once: bool) -> HotKey {
    HotKey { key, word, at_once }
}

/// Returns the keys that stand for words at a question.
pub fn keys(question: &HumanQuestion) -> Vec<HotKey> {
    if question.about != HumanQuestionKind::Review {
        return Vec::new();
    }
    let words = words(question);
    let offered = |hot: &HotKey| hot.word == "?" || words.contains(&hot.word);
    KEYS.into_iter().filter(offered).collect()
}

/// Returns what is offered, for the prompt: words, and in a review the key before each.
pub fn offer(question: &HumanQuestion) -> String {
    let keys = keys(question);
    let shown = words(question).into_iter().map(|word| {
        let hot = keys.iter().find(|hot| hot.word == word);
        hot.map_or(word.to_owned(), |hot| format!("{} {word}", hot.key))
    });
    joined(shown.chain(["?".to_owned()]), " · ")
}

/// Returns what is asked, and every choice with its meaning, a line each. `note` says how a note is given.
pub fn explanation(question: &HumanQuestion, note: &str) -> String {
    let of = |word: &'static str| match AnswerChoice::parse(word) {
        Some(choice) => meaning(question.about, choice, question.attempts),
        None => "change the plan in your editor first".to_owned(),
    };
    let lines = words(question).into_iter();
    let lines = lines.map(|word| format!("    {word:<12} {}\n", of(word)));
    let (asked, lines) = (printable(&question.reason), lines.collect::<String>());
    format!("  {asked}\n{lines}    Words may be shortened, `abort` may not; {note}.")
}

/// Reads a line as an answer: a choice in full or by a beginning that is no other's, and a note.
pub fn read(line: &str, question: &HumanQuestion) -> Typed {
    let (mut word, mut note) = split(line.trim());
    let second = split(note);
    let joined = format!("{word}-{}", second.0);
    if ["allow", "drop"].contains(&word.to_lowercase().as_str()) && !second.0.is_empty() {
        (word, note) = (&joined, second.1);
    }
    let hot = keys(question);
    let key = word.to_lowercase();
    match key.as_str() {
        "yes" if !hot.is_empty() => word = "approve",
        "no" if !hot.is_empty() => word = "abort",
        // The keys stand before the words, so they are typed as lines, too.
        key => {
            let named = |hot: &&HotKey| key.chars().eq([hot.key]);
            word = hot.iter().find(named).map_or(word, |hot| hot.word);
        }
    }
    let all = words(question);
    let begins = |long: &&str| {
        let start = long.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let mut meant: Vec<&str> = all.iter().copied().filter(begins).collect();
    let whole = all.iter().find(|one| one.eq_ignore_ascii_case(word));
    if let Some(whole) = whole {
        meant = vec![*whole];
    }
    match (word, meant.as_slice()) {
        ("", _) => Typed::Nothing,
        ("?", _) => Typed::Explain,
        (_, [EDIT]) => Typed::Edit,
        (_, ["abort"]) if whole.is_none() => {
            Typed::Wrong("`abort` ends the plan for good: write the whole word".to_owned())
        }
        (_, [one]) => match AnswerChoice::parse(one) {
            Some(AnswerChoice::Reply) if note.is_empty() => {
                Typed::Wrong("`reply` needs your words behind it".to_owned())
            }
            Some(choice) => Typed::Answer(choice, note.to_owned()),
            None => Typed::Nothing,
        },
        (_, []) => {
            let own_words = match all.contains(&AnswerChoice::Reply.as_str()) {
                true => "; `reply` and your words answer it",
                false => "",
            };
            let all = all.join(", ");
            Typed::Wrong(format!(
                "that is no answer here: write one of {all}, or `?`{own_words}"
            ))
        }
        (_, several) => Typed::Wrong(format!("that may be {}", several.join(" or "))),
    }
}

fn words(question: &HumanQuestion) -> Vec<&'static str> {
    let choices = question.choices.iter();
    let mut words: Vec<_> = choices.map(|choice| choice.as_str()).collect();
    if question.about == HumanQuestionKind::Review {
        words.insert(1, EDIT);
    }
    words
}

fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{QuestionId, Time};

    fn question(about: HumanQuestionKind, choices: &[AnswerChoice]) -> HumanQuestion {
        HumanQuestion {
            id: QuestionId::new("q"),
            about,
            task: None,
            request: None,
            ask: None,
            reason: String::new(),
            choices: choices.to_vec(),
            refused: Vec::new(),
            attempts: 3,
            asked: Time(0),
            answer: None,
            closed: None,
        }
    }

    #[test]
    fn words_are_read_by_their_beginnings() {
        use AnswerChoice::{Abort, AllowAlways, AllowOnce, Deny, Replan, Reply, Retry, Skip};
        let all = [
            AllowOnce,
            AllowAlways,
            Deny,
            Reply,
            Retry,
            Replan,
            Skip,
            Abort,
        ];
        let asked = question(HumanQuestionKind::Agent, &all);
        for (line, choice, note) in [
            ("sk", Skip, ""),
            ("SKIP it please", Skip, "it please"),
            ("ret", Retry, ""),
            ("d  use make", Deny, "use make"),
            ("allow once", AllowOnce, ""),
            ("allow a  as I said", AllowAlways, "as I said"),
            ("allow-o", AllowOnce, ""),
            ("allow-always", AllowAlways, ""),
            ("abort now", Abort, "now"),
            ("reply port 80", Reply, "port 80"),
        ] {
            let typed = read(line, &asked);
            assert_eq!(typed, Typed::Answer(choice, note.to_owned()), "{line}");
        }
        for (line, why) in [
            ("re", "that may be reply or retry or replan"),
            ("allow", "that may be allow-once or allow-always"),
            ("ab", "`abort` ends the plan for good: write the whole word"),
            ("reply", "`reply` needs your words behind it"),
            ("yes", "that is no answer here: write one of allow-once"),
            ("é", "that is no answer here"),
        ] {
            let Typed::Wrong(said) = read(line, &asked) else {
                panic!("{line}");
            };
            assert!(said.starts_with(why), "{line}: {said}");
        }
        assert_eq!(read("  ", &asked), Typed::Nothing);
        assert_eq!(read("?", &asked), Typed::Explain);
    }

    #[test]
    fn review_offers_its_keys() {
        use AnswerChoice::{Abort, Approve};
        let asked = question(HumanQuestionKind::Review, &[Approve, Abort]);
        assert_eq!(offer(&asked), "y approve · e edit · n abort · ?");
        assert_eq!(read("e", &asked), Typed::Edit);
        let keys: Vec<char> = keys(&asked).iter().map(|hot| hot.key).collect();
        assert_eq!(keys, ['y', 'e', '?', 'n']);
        for (line, choice, note) in [
            ("y", Approve, ""),
            ("N", Abort, ""),
            ("no not now", Abort, "not now"),
            ("yes", Approve, ""),
        ] {
            let typed = read(line, &asked);
            assert_eq!(typed, Typed::Answer(choice, note.to_owned()), "{line}");
        }
    }
}
