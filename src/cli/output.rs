//! Standard output and standard error. A reader that has gone ends the command quietly; foreign text loses what a terminal
//! would obey; colours and breaks between words only for a terminal, and no colours under `NO_COLOR`.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use serde::Serialize;

use super::live_area::put_aside;
use super::prompt::print_above;
use super::{Exit, Failure, Result, columns, logging, wrap};
use crate::config::Environment;
use crate::view::Paint;
use crate::wire::{one_line, printable};

/// Characters of a notice of the terminal.
const NOTICE: usize = 100;

/// Standard output, where a command prints its results.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// How to colour what is printed.
    pub paint: Paint,
    /// A person reads it.
    pub terminal: bool,
    /// The terminal can draw again what it shows, and nothing but this program writes there.
    redraws: bool,
}

/// Returns the columns and rows of the terminal that standard output is, if it is one.
pub fn terminal_size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// Returns whether the terminal, if there is one, is this program's now. In the background of a shell (`&`, Ctrl-Z and `bg`) the
/// shell writes there, and to read or set it would stop this process.
pub fn in_foreground() -> bool {
    let group = tcgetpgrp(io::stdin()).or_else(|_| tcgetpgrp(io::stdout()));
    group.map_or(true, |group| group == getpgrp())
}

impl Output {
    /// Finds out what standard output is.
    pub fn stdout(environment: &Environment) -> Self {
        let terminal = io::stdout().is_terminal();
        let escapes = terminal && environment.get("TERM").is_some_and(|term| term != "dumb");
        Self {
            paint: Paint::new(escapes && environment.get("NO_COLOR").is_none()),
            terminal,
            redraws: escapes && environment.get(logging::VARIABLE).is_none(),
        }
    }

    /// Returns the columns and rows of a terminal that can draw again what it shows; `None` without one.
    pub fn size(self) -> Option<(usize, usize)> {
        self.redraws.then(terminal_size).flatten()
    }

    /// Prints a text as it is, which is to be printable but for the colours of [`Paint`].
    ///
    /// # Errors
    ///
    /// A quiet success if the reader has gone; else the stream's error.
    pub fn text(self, text: &str) -> Result {
        self.bytes(text.as_bytes())
    }

    /// Prints bytes as they are, for programs.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn bytes(self, bytes: &[u8]) -> Result {
        let (_aside, mut stream) = (put_aside(), io::stdout());
        let written = stream.write_all(bytes).and_then(|()| stream.flush());
        written.map_err(Self::failure)
    }

    /// Returns how a command ends that cannot write its output.
    pub fn failure(error: io::Error) -> Failure {
        match error.kind() {
            // The output has no reader any more (`… | head`).
            ErrorKind::BrokenPipe => Failure::stopped(Exit::Done, ""),
            _ => Failure::failed(anyhow::Error::new(error).context("cannot write the output")),
        }
    }

    /// Prints a text for people: on a terminal no word is broken at its edge.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn prose(self, text: &str) -> Result {
        match self.terminal.then(|| columns(&io::stdout())).flatten() {
            Some(columns) => self.text(&wrap(text, columns)),
            None => self.text(text),
        }
    }

    /// Prints a line for people.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn line(self, line: &str) -> Result {
        self.prose(&format!("{line}\n"))
    }

    /// Prints a value as JSON over several lines.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn json(self, value: &impl Serialize) -> Result {
        self.text(&(escaped(&serde_json::to_string_pretty(value)?) + "\n"))
    }

    /// Prints a value as JSON on one line.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn json_line(self, value: &impl Serialize) -> Result {
        self.text(&(escaped(&serde_json::to_string(value)?) + "\n"))
    }

    /// Calls a person who does something else: a bell, and a notice of the terminal where it knows them. Nothing elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn ring(self, notice: &str) -> Result {
        if !self.redraws {
            return Ok(());
        }
        let notice = one_line(notice, NOTICE);
        // Ended by a string terminator: a bell there would ring twice.
        self.text(&format!("\u{1b}]9;plan-agent: {notice}\u{1b}\\\u{7}"))
    }

    /// Shows a page in place of the one that was shown before, as much of it as fits on the terminal.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn redraw(self, page: &str, (columns, rows): (usize, usize)) -> Result {
        let page = wrap(page, columns);
        let mut lines: Vec<&str> = page.lines().collect();
        let fit = rows.saturating_sub(1).max(1);
        if lines.len() > fit {
            lines.truncate(fit - 1);
            lines.push("… more than fits here");
        }
        // Erased line by line: a terminal that is cleared first flickers.
        let erased = |line: &&str| format!("{line}\u{1b}[K\n");
        let shown: String = lines.iter().map(erased).collect();
        self.text(&format!("\u{1b}[H{shown}\u{1b}[J"))
    }

    /// Clears the terminal, so that what follows replaces what was shown.
    ///
    /// # Errors
    ///
    /// As [`Self::text`].
    pub fn clear(self) -> Result {
        self.text("\u{1b}[H\u{1b}[2J")
    }
}

/// Prints a line on standard error, formatted as [`format!`] does.
macro_rules! complain {
    ($($line:tt)*) => {
        $crate::cli::output::print_on_stderr(&(format!($($line)*) + "\n"))
    };
}
pub(super) use complain;

/// Prints on standard error. An error of that has no reader either.
pub fn print_on_stderr(text: &str) {
    let mut text = printable(text);
    let _aside = put_aside();
    if let Some(columns) = columns(&io::stderr()) {
        text = wrap(&text, columns);
    }
    drop(print_above(&text, &mut io::stderr()));
}

/// Returns a path as seen from the folder that the person is in, else from their home.
pub fn shown_from_here(path: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let within_home = |home| Some(Path::new("~").join(path.strip_prefix(home).ok()?));
    let path = match path.strip_prefix(std::env::current_dir().unwrap_or_default()) {
        Ok(within) if within.as_os_str().is_empty() => Path::new(".").to_owned(),
        Ok(within) => within.to_owned(),
        Err(_) => home.and_then(within_home).unwrap_or(path.to_owned()),
    };
    printable(&path.display().to_string())
}

/// Writes what a terminal would obey as escapes of JSON. In JSON text such characters stand only within strings, so the
/// value stays the same.
fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~' | '\n') || !printable(&c.to_string()).is_empty() {
            safe.push(c);
        } else {
            let units = c.encode_utf16(&mut [0; 2]).to_vec();
            safe.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_output_escapes_control_characters() {
        let value = serde_json::json!({"name": "a\u{1b}]52;\u{9b}31m\u{202e}b\u{e0041}中\n"});
        let text = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(printable(&text), text);
        assert!(text.contains('中'));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn closed_pipe_is_success() {
        let failure = Output::failure(ErrorKind::BrokenPipe.into());
        assert_eq!((failure.exit, failure.text()), (Exit::Done, String::new()));
    }
}
