//! The line on which a person answers: what is typed stays whole while other lines are printed above it. The terminal gives
//! every key at once only as long as a question stands on it.

use std::io::{self, ErrorKind, Write, stdin, stdout};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr, ttyname};
use textwrap::core::display_width;
use tokio::net::unix::pipe::Receiver;

use super::{Output, Result, columns, in_foreground, wrap};
use crate::plan::unless_empty;

/// The longest line that is taken, in bytes.
const LONGEST_LINE: usize = 64 * 1024;

/// A key that stands for a word.
#[derive(Clone, Copy, Debug)]
pub struct HotKey {
    pub key: char,
    pub word: &'static str,
    /// The word is the answer at once; else it is put into the line, and Enter sends it.
    pub at_once: bool,
}

/// A person's line on the terminal; asks nothing by default.
#[derive(Default)]
pub struct Prompt {
    /// `None` until something is asked, or if the terminal is gone.
    keys: Option<Receiver>,
    opened: bool,
    /// How the terminal was before.
    before: Option<Termios>,
    /// One line above it that is not part of the question; may be empty.
    above: String,
    /// What stands before the typed text; empty while nothing is asked.
    text: String,
    typed: TypedLine,
}

/// The line that stands on the screen; empty if none does.
static ON_SCREEN: Mutex<String> = Mutex::new(String::new());

/// Prints a text that has nothing to do with the question above its line, if one stands on the screen.
///
/// # Errors
/// Those of the stream.
pub fn print_above(text: &str, stream: &mut impl Write) -> io::Result<()> {
    let line = ON_SCREEN.lock();
    match line.is_empty() || !in_foreground() {
        true => stream.write_all(text.as_bytes()),
        false => stream.write_all(format!("{}{text}{line}", wiped(&line)).as_bytes()),
    }
}

/// Opens the terminal once more: only so a read can be called off without a change for the other programs on it.
fn open_terminal() -> io::Result<Receiver> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = ttyname(stdin(), Vec::new())?;
    Receiver::from_owned_fd_unchecked(rustix::fs::open(terminal, flags, Mode::empty())?)
}

/// Returns what takes a line off the terminal, as many rows as it has.
fn wiped(line: &str) -> String {
    let rows = |line: &str| {
        let width = display_width(line).saturating_sub(1);
        1 + columns(&stdout()).map_or(0, |columns| width / columns)
    };
    match line.split('\n').map(rows).sum::<usize>() - 1 {
        0 => "\r\u{1b}[0J".to_owned(),
        above => format!("\r\u{1b}[{above}A\u{1b}[0J"),
    }
}

/// What was typed so far.
#[derive(Default)]
struct TypedLine {
    text: String,
    /// The beginning of a character.
    rest: Vec<u8>,
    /// How far an escape sequence of the terminal, such as an arrow key, has come.
    escape: usize,
    hot: Vec<HotKey>,
}

impl Prompt {
    /// Asks on the last line of the terminal, behind this text, which may change while it stands there, and so may the line
    /// `above` it.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn ask(&mut self, above: &str, text: &str, hot: &[HotKey], output: Output) -> Result {
        if (self.above.as_str(), self.text.as_str()) != (above, text) {
            self.hide(output)?;
            above.clone_into(&mut self.above);
            text.clone_into(&mut self.text);
        }
        self.typed.hot = hot.to_vec();
        self.show(output)
    }

    /// Shows the line below what was printed, if something is asked and it is not on the screen.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn show(&mut self, output: Output) -> Result {
        if self.text.is_empty() {
            return Ok(());
        }
        if !std::mem::replace(&mut self.opened, true) {
            self.keys = open_terminal().ok();
        }
        self.take_keys();
        let mut shown = ON_SCREEN.lock();
        if shown.is_empty() {
            let text = match columns(&stdout()) {
                Some(columns) => wrap(self.text.trim_end(), columns) + " ",
                None => self.text.clone(),
            };
            let above = unless_empty(&self.above, |above| format!("{above}\n"));
            *shown = above + &text + &self.typed.text;
            output.text(&shown)?;
        }
        Ok(())
    }

    /// Takes the line off the screen, so that something can be printed; the typed text stays.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn hide(&self, output: Output) -> Result {
        let mut shown = ON_SCREEN.lock();
        let line = std::mem::take(&mut *shown);
        match line.is_empty() || !in_foreground() {
            true => Ok(()),
            false => output.text(&wiped(&line)),
        }
    }

    /// Asks nothing any more, and gives the terminal back as it was.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn end(&mut self, output: Output) -> Result {
        let hidden = self.hide(output);
        self.text.clear();
        self.typed = TypedLine::default();
        self.give_back();
        hidden
    }

    /// Waits for the next line; for ever if nothing is asked, or the terminal is gone. The line stays on the screen. May be
    /// dropped on the way.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub async fn line(&mut self, output: Output) -> Result<String> {
        loop {
            // A shell that had stopped this process leaves the terminal as it likes it.
            self.take_keys();
            let Some(keys) = self.keys.as_ref().filter(|_| !self.text.is_empty()) else {
                return std::future::pending().await;
            };
            let mut bytes = [0; 4096];
            let readable = keys.readable().await;
            if !in_foreground() {
                // What is typed is the shell's.
                return std::future::pending().await;
            }
            let count = match readable.and_then(|()| keys.try_read(&mut bytes)) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Ok(_) | Err(_) => {
                    self.keys = None;
                    continue;
                }
            };
            if let Some(line) = self.typed.take(&bytes[..count]) {
                self.hide(output)?;
                output.prose(&format!("{}{line}\n", self.text))?;
                return Ok(line);
            }
            self.hide(output)?;
            self.show(output)?;
        }
    }

    /// Has the terminal give every key at once, and show none. What was typed before there was a question answers none.
    fn take_keys(&mut self) {
        if !self.text.is_empty() {
            self.turn_off(LocalModes::ICANON | LocalModes::ECHO);
        }
    }

    /// Has the terminal show no key that is typed while rows are drawn below the lines, until [`Prompt::end`].
    pub fn hush(&mut self) {
        self.turn_off(LocalModes::ECHO);
    }

    fn turn_off(&mut self, modes: LocalModes) {
        let terminal = stdin();
        let Ok(now) = tcgetattr(&terminal) else {
            return;
        };
        if !now.local_modes.intersects(modes) || !in_foreground() {
            return;
        }
        let mut keys = now.clone();
        keys.local_modes.remove(modes);
        if tcsetattr(&terminal, OptionalActions::Flush, &keys).is_ok() {
            self.before.get_or_insert(now);
        }
    }

    fn give_back(&mut self) {
        if in_foreground()
            && let Some(before) = self.before.take()
        {
            // A terminal that is gone needs nothing.
            tcsetattr(stdin(), OptionalActions::Now, &before).ok();
        }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl TypedLine {
    /// Takes what was typed, and returns the line once it is ended. What was typed behind its end is dropped: the next question
    /// was not read when it was typed.
    fn take(&mut self, bytes: &[u8]) -> Option<String> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.rest.len(),
        };
        let rest = self.rest.split_off(whole);
        let typed = std::mem::replace(&mut self.rest, rest);
        let typed = String::from_utf8_lossy(&typed).into_owned();
        // A key comes alone; a word that is pasted, or typed by a program, does not.
        let mut alone = typed.chars();
        if let (Some(key), None, true) = (alone.next(), alone.next(), self.text.is_empty())
            && let Some(hot) = self.hot.iter().find(|hot| hot.key == key)
        {
            if hot.at_once {
                return Some(hot.word.to_owned());
            }
            self.text = format!("{} ", hot.word);
            return None;
        }
        for c in typed.chars() {
            if self.key(c) {
                self.rest.clear();
                return Some(std::mem::take(&mut self.text));
            }
        }
        None
    }

    /// Takes one character; returns whether it ends the line.
    fn key(&mut self, c: char) -> bool {
        match (self.escape, c) {
            (0, '\n' | '\r') => return true,
            (0, '\u{1b}') => self.escape = 1,
            (1, '[' | 'O') => self.escape = 2,
            (1, _) | (2, '@'..='~') => self.escape = 0,
            (2, _) => {}
            (_, '\u{7f}' | '\u{8}') => drop(self.text.pop()),
            // Ctrl-U.
            (_, '\u{15}') => self.text.clear(),
            // Ctrl-W.
            (_, '\u{17}') => {
                let kept = self.text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.text.truncate(kept);
            }
            (_, c) if !c.is_control() && self.text.len() < LONGEST_LINE => self.text.push(c),
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_edited_until_it_ends() {
        for (typed, line) in [
            ("skip\n", Some("skip")),
            ("skap\u{7f}\u{7f}ip it\r", Some("skip it")),
            ("one two\u{17}three\n", Some("one three")),
            ("wrong\u{15}right\n", Some("right")),
            ("a\u{1b}[Ab\u{1b}OCc\u{1b}[1;5Dd\n", Some("abcd")),
            ("中文\u{7f}\n", Some("中")),
            ("\n", Some("")),
            ("retry\nskip\n", Some("retry")),
            ("\u{4}\u{0}x", None),
        ] {
            let taken = TypedLine::default().take(typed.as_bytes());
            assert_eq!(taken.as_deref(), line, "{typed:?}");
        }
    }

    #[test]
    fn character_may_come_in_parts() {
        let mut line = TypedLine::default();
        for byte in "é中".bytes() {
            assert_eq!(line.take(&[byte]), None);
        }
        assert_eq!(line.take(b"\n").as_deref(), Some("é中"));
    }

    #[test]
    fn key_stands_for_its_word_only_alone() {
        let hot = |key, at_once| HotKey {
            key,
            word: "word",
            at_once,
        };
        let line = || TypedLine {
            hot: vec![hot('y', true), hot('n', false)],
            ..TypedLine::default()
        };
        assert_eq!(line().take(b"y").as_deref(), Some("word"));
        assert_eq!(line().take(b"yes\n").as_deref(), Some("yes"));
        let mut fills = line();
        assert_eq!(fills.take(b"n"), None);
        assert_eq!(fills.take(b"y"), None);
        assert_eq!(fills.take(b"\n").as_deref(), Some("word y"));
    }
}
