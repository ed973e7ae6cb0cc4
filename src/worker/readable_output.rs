//! What an agent said and did, for a person: the events of known agents in words, all other output as it is. Control characters
//! never reach the terminal.

use super::agent_log::from_folder;
use crate::agents::{AgentAct, acts};
use crate::plan::counted;
use crate::view::{Paint, Style};
use crate::wire::{clip, one_line, printable};

/// Lines of the result of a tool that are shown, and characters of each line.
const RESULT_LINES: usize = 5;
const RESULT: usize = 200;

/// Characters of a line that is shown as it is.
const LINE: usize = 4_000;

/// Returns a line of output as a person reads it.
pub fn readable(line: &str, folder: &str, open: &mut bool, paint: Paint) -> String {
    let Some(acts) = acts(line) else {
        return format!("{}{}\n", closed(open), plain(line));
    };
    let mut text = String::new();
    for act in acts {
        if let AgentAct::GoesOn(more) = act {
            text += &printable(&more);
            *open = true;
            continue;
        }
        text += closed(open);
        text += &match act {
            AgentAct::Says(said) | AgentAct::GoesOn(said) => printable(&said) + "\n",
            AgentAct::Uses { shown: tool, .. } => {
                let tool = from_folder(&tool, folder);
                paint.text(Style::Busy, &format!("→ {}", one_line(&tool, LINE))) + "\n"
            }
            AgentAct::Gets(answer) => result(&answer.text, answer.failed, paint),
            AgentAct::Spends { .. } => continue,
        };
    }
    text
}

/// Ends a line that was going on.
pub fn closed(open: &mut bool) -> &'static str {
    if std::mem::take(open) { "\n" } else { "" }
}

/// Returns the first lines of what a tool answered.
fn result(text: &str, failed: bool, paint: Paint) -> String {
    let text = printable(&clip(text, 4 * LINE));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.retain(|line| !line.trim().is_empty());
    let style = if failed { Style::Bad } else { Style::Plain };
    let line = |line: &&str| paint.text(style, &format!("  {}", clip(line, RESULT))) + "\n";
    let shown: String = lines.iter().take(RESULT_LINES).map(line).collect();
    match lines.len().saturating_sub(RESULT_LINES) {
        0 => shown,
        more => format!("{shown}  … {}\n", counted(more, "more line")),
    }
}

/// Returns a line that no known agent writes.
pub fn plain(line: &str) -> String {
    printable(&clip(line.trim_end_matches(['\n', '\r']), LINE))
}
