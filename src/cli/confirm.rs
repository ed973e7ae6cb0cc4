//! Questions of the program itself that are answered with yes or no, before a plan begins.

use std::io::BufRead as _;
use std::io::IsTerminal as _;

use super::{Failure, Result, beside, complain};

/// The most bytes of an answer that are read.
const MOST: u64 = 4096;

/// Returns whether a person can be asked: both sides of the conversation are a terminal.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on the terminal; anything but yes is no.
///
/// # Errors
/// The terminal cannot be read.
pub async fn confirm(question: &str) -> Result<bool> {
    let answer = answer(&format!("{question} [y/N] ")).await?;
    Ok(["y", "yes"].contains(&answer.as_str()))
}

/// Asks on the terminal, and returns the line that is typed, in small letters.
///
/// # Errors
/// The terminal cannot be read, or is gone.
pub async fn answer(question: &str) -> Result<String> {
    complain(question);
    let mut open = OpenLine(true);
    let answer = beside(|| {
        let mut line = String::new();
        let mut input = std::io::stdin().lock();
        let read = std::io::Read::take(&mut input, MOST).read_line(&mut line);
        match read.map_err(Failure::failed)? {
            0 => Err(Failure::failed(anyhow::anyhow!("the terminal is gone"))),
            _ => Ok(line),
        }
    });
    let answer = answer.await?;
    open.0 = false;
    Ok(answer.trim().to_lowercase())
}

/// A line on which a person has not answered yet: what is printed when a signal comes stands below it.
struct OpenLine(bool);

impl Drop for OpenLine {
    fn drop(&mut self) {
        if self.0 {
            complain("\n");
        }
    }
}
