//! What an agent ran, by the word of its own program: it supports a result and proves nothing.

use serde::{Deserialize, Serialize};

use crate::plan::word;

/// A command that an agent ran, as its program printed it. Nothing of it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanCommand {
    /// Bounded.
    pub command: String,
    /// `None` where the agent's program does not print it.
    pub exit: Option<i32>,
    /// The end of its output, bounded.
    pub tail: String,
    pub order: RunOrder,
    /// How its tests ended; `None` if it ran none.
    pub tests: Option<TestRun>,
    /// The configured checks that run the same.
    pub checks: Vec<String>,
}

/// Whether a command ran before or after the agent last changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOrder {
    BeforeLastEdit,
    AfterLastEdit,
    /// The agent's program does not show it.
    #[default]
    #[serde(rename = "order_unknown")]
    Unknown,
}

/// How the tests of a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestRun {
    Passed,
    Failed,
    /// Neither an exit code nor a summary shows it.
    Unknown,
}

impl RanCommand {
    /// Returns how it ended and when it ran, in a few words.
    pub fn outcome(&self) -> String {
        let code = self.exit.map(|code| format!("exit {code}"));
        let code = code.unwrap_or_else(|| "exit code not known".to_owned());
        let hidden = self.tests == Some(TestRun::Failed) && self.exit.unwrap_or(0) == 0;
        let tests = if hidden { ", tests failed" } else { "" };
        format!("{code}{tests}, {}", word(&self.order).replace('_', " "))
    }
}
