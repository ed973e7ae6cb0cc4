//! Long lines on a terminal: broken between words, and what follows stands below the text and not below what comes before it,
//! such as a time.

use std::os::fd::AsFd;

use textwrap::core::{Word, display_width};
use textwrap::{Options, WordSeparator, WordSplitter};

use crate::wire::{joined, printable};

/// In less than that, words would stand one below the other.
const NARROWEST: usize = 40;

/// What stands before the text is no wider than that: number and moment of a change in the log.
const WIDEST_HANG: usize = 34;

/// A command in backticks is kept on one line up to that length, so that it can be taken from there.
const LONGEST_COMMAND: usize = 60;

/// Marks that begin no line, and those that end none.
const CLOSING: &str = "，。、；：？！）」』》”’…,.;:?!)";
const OPENING: &str = "（「『《“‘";

/// Returns how many columns a stream has; `None` if it is no terminal, or too narrow to wrap for.
pub fn columns(stream: &impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= NARROWEST)
}

/// Returns the text with every line that is longer than `columns` broken between words.
pub fn wrap(text: &str, columns: usize) -> String {
    let lines = text.split('\n').map(|line| wrap_line(line, columns));
    joined(lines, "\n")
}

fn wrap_line(line: &str, columns: usize) -> String {
    if display_width(line) <= columns {
        return line.to_owned();
    }
    let hang = " ".repeat(hang(line));
    let options = Options::new(columns)
        .subsequent_indent(&hang)
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::wrap(line, options).join("\n")
}

/// Returns the words of a line; a command in backticks is one. Between the characters of Chinese and its like a line may be broken.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let mut words = Vec::new();
    let (mut start, mut end, mut inside) = (0, 0, false);
    for word in WordSeparator::AsciiSpace.find_words(line) {
        if inside && end + word.len() - start > LONGEST_COMMAND {
            words.extend(WordSeparator::AsciiSpace.find_words(&line[start..end]));
            (start, inside) = (end, false);
        }
        end += word.len() + word.whitespace.len();
        inside ^= word.matches('`').count() % 2 == 1;
        if !inside {
            let mut word = &line[start..end];
            let command = word.contains('`');
            while let Some(at) = after_wide(word).filter(|_| !command) {
                words.push(Word::from(&word[..at]));
                word = &word[at..];
            }
            words.push(Word::from(word));
            start = end;
        }
    }
    words.extend(WordSeparator::AsciiSpace.find_words(&line[start..end]));
    Box::new(words.into_iter())
}

/// Returns where a word may be broken first: after a character as wide as two others, but before no mark that closes something or
/// belongs to it, and after none that opens something.
fn after_wide(word: &str) -> Option<usize> {
    let mut chars = word.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let (_, next) = *chars.peek()?;
        let end = at + c.len_utf8();
        let width = |from: usize, c: char| display_width(&word[from..from + c.len_utf8()]);
        let stays = next.is_whitespace() || CLOSING.contains(next) || width(end, next) == 0;
        if width(at, c) == 2 && !OPENING.contains(c) && !stays {
            return Some(end);
        }
    }
    None
}

/// Returns the column in which the text of a line begins.
fn hang(line: &str) -> usize {
    let shown = printable(line);
    let marks = ["error: ", "Hint: ", "Goal: ", "! ", "? ", "- "];
    if let Some(mark) = marks.iter().find(|mark| shown.starts_with(**mark)) {
        return mark.len();
    }
    let time = shown.char_indices().take(9).all(|(at, c)| match at {
        2 | 5 => c == ':',
        8 => c == ' ',
        _ => c.is_ascii_digit(),
    });
    if time {
        return 9;
    }
    // Columns are set apart by two spaces; within a text there is one.
    let begins = shown.match_indices("  ").filter_map(|(at, _)| {
        let text = shown[at..].trim_start_matches(' ');
        (!text.is_empty()).then(|| display_width(&shown[..shown.len() - text.len()]))
    });
    let begins = begins.take_while(|column| *column <= WIDEST_HANG);
    begins.last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_words_with_hanging_indent() {
        let text = "\
short, and not touched   at all
23:04:25 1 · Make the greeting: retry: the agent reports FAILED: there was no output
    7  2026-01-01 12:00:00  task 2: retry: \u{1b}[31mthe agent reports FAILED\u{1b}[0m: see
   2  in progress  Serve it to everybody who asks for it · waits for your answer
  the task failed 3 times in a row; the last time the agent reported a failure
Hint: answer, then `plan-agent resume kqzjwmha --agent shell` goes on where it was
error: https://example.org/a/very/long/address/that/is/not/broken/for/any/reason/at/all is gone
";
        insta::assert_snapshot!(wrap(text, 60).replace('\u{1b}', "^"), @r"
        short, and not touched   at all
        23:04:25 1 · Make the greeting: retry: the agent reports
                 FAILED: there was no output
            7  2026-01-01 12:00:00  task 2: retry: ^[31mthe agent reports
                                    FAILED^[0m: see
           2  in progress  Serve it to everybody who asks for it ·
                           waits for your answer
          the task failed 3 times in a row; the last time the agent
          reported a failure
        Hint: answer, then
              `plan-agent resume kqzjwmha --agent shell` goes on
              where it was
        error:
               https://example.org/a/very/long/address/that/is/not/broken/for/any/reason/at/all
               is gone
        ");
        assert_eq!(wrap(text, 200), text);
    }

    #[test]
    fn chinese_is_broken_between_its_characters() {
        let text = "目标: 修正函数里的加法，使测试全部通过，并写一份说明，告诉大家应该怎样使用它。";
        insta::assert_snapshot!(wrap(text, 40), @r"
        目标: 修正函数里的加法，使测试全部通过，
        并写一份说明，告诉大家应该怎样使用它。
        ");
    }

    #[test]
    fn unbalanced_backticks_lose_no_text() {
        for line in [
            "a `b c` d",
            "`a b c d",
            "a` b `c` d`",
            "` `",
            "a `b `c` d` e",
            "  x ",
            "a 修正加法，使测试通过 b",
        ] {
            let found: String = words(line)
                .map(|word| format!("{}{}", word.word, word.whitespace))
                .collect();
            assert_eq!(found, line);
        }
        let long = format!("`{}`", "word ".repeat(40));
        assert!(words(&long).count() > 30);
    }
}
