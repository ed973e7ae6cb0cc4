//! The one place where foreign text is made safe for a prompt or a command: bounded, and unable to act as anything but text.

use crate::wire::{joined, printable};

/// Characters of a name, of a line about a task, of a task's own text, of a section of a report, and of the end of an output.
pub(super) const NAME: usize = 160;
pub(super) const LINE: usize = 400;
pub(super) const TEXT: usize = 6_000;
pub(super) const SECTION: usize = 3_000;
pub(super) const TAIL: usize = 1_500;

/// Characters of what a command says beside the task: a person's words go along whole up to that.
pub(super) const WORDS: usize = 60_000;

/// Makes foreign text safe for a prompt: at most `limit` characters (head and tail are kept), no control characters, and no
/// text that could act as the `<data>` delimiters around it.
pub(super) fn quote(text: &str, limit: usize) -> String {
    defuse(&clip(printable(text).trim(), limit))
}

/// Quotes a text whose ends stay as they are: it may be the words of a template, put together with what is quoted already.
pub(super) fn quote_within(text: &str, limit: usize) -> String {
    defuse(&clip(&printable(text), limit))
}

/// Makes a text one line of at most `limit` characters.
pub(super) fn one_line(text: &str, limit: usize) -> String {
    quote(&joined(text.split_whitespace(), " "), limit)
}

fn clip(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let head = text.chars().take(limit * 3 / 4).collect::<String>();
    let tail = text.chars().skip(length - limit / 4).collect::<String>();
    let left_out = length - limit * 3 / 4 - limit / 4;
    format!("{head} […{left_out} characters left out…] {tail}")
}

/// Breaks up text that reads as a `<data …>` or `</data>` tag, with any spacing or case.
fn defuse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let word = after.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
        let begin = word.get(..4);
        let is_tag = begin.is_some_and(|begin| begin.eq_ignore_ascii_case("data"));
        out.push(if is_tag { '‹' } else { '<' });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Makes a text an indented block of Markdown: no heading and no fence in it counts, so nothing in it is read as a section of
/// the command, or as a script to run.
pub fn indented(text: &str, limit: usize) -> String {
    let quoted = unfenced(&quote(text, limit));
    let lines = quoted.lines().map(|line| match line.trim_end() {
        "" => String::new(),
        line => format!("    {line}"),
    });
    joined(lines, "\n")
}

/// Makes a text unable to open or close a fence.
pub(super) fn unfenced(text: &str) -> String {
    text.replace("```", "'''").replace("~~~", "'''")
}
