//! Questions of the program itself that are answered with yes or no, before a plan begins.

use std::io::{BufRead as _, IsTerminal as _, Read as _, stderr, stdin};

use anyhow::anyhow;

use super::{Failure, Result, beside, complain, in_foreground, print_on_stderr};

/// The most bytes of an answer that are read.
const MOST: u64 = 4096;

/// Returns whether a person can be asked: both sides of the conversation are a terminal, in whose foreground this program is.
pub fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal() && in_foreground()
}

/// Asks on the terminal, until the answer is yes or no; an empty one is no.
///
/// # Errors
/// The terminal cannot be read.
pub async fn confirm(question: &str) -> Result<bool> {
    let question = format!("{question} [y/N] ");
    loop {
        match answer(&question).await?.as_str() {
            "y" | "yes" => return Ok(true),
            "" | "n" | "no" => return Ok(false),
            _ => complain!("type `y` for yes, or `n` for no"),
        }
    }
}

/// Asks on the terminal, and returns the line that is typed, in small letters.
///
/// # Errors
/// The terminal cannot be read, or is gone.
pub async fn answer(question: &str) -> Result<String> {
    print_on_stderr(question);
    let mut open = OpenLine(true);
    let line = beside(|| {
        let mut line = String::new();
        match stdin().lock().take(MOST).read_line(&mut line)? {
            0 => Err(Failure::failed(anyhow!("the terminal is gone"))),
            _ => Ok(line),
        }
    });
    let line = line.await?;
    open.0 = false;
    Ok(line.trim().to_lowercase())
}

/// A line on which a person has not answered yet: what is printed when a signal comes stands below it.
struct OpenLine(bool);

impl Drop for OpenLine {
    fn drop(&mut self) {
        if self.0 {
            print_on_stderr("\n");
        }
    }
}
