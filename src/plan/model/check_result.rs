//! What came of a check.

use serde::{Deserialize, Serialize};

/// How one check ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// The exit code; `None` when it was killed or could not start.
    pub exit: Option<i32>,
    pub passed: bool,
    /// The end of its output, bounded.
    pub tail: String,
    /// What the check found, in a few words such as `missing`, where it is not a command or its time was over; else empty.
    #[serde(default)]
    pub finding: String,
    /// The number of tests that ran, as far as its output shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<u32>,
    /// How many milliseconds the command ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Why it proves nothing though it passes; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doubt: String,
    /// Test files that the result adds, by their names: with them alone the check fails on the state before the work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub new_tests: String,
}

impl CheckResult {
    /// Returns that a check has failed, and what was found.
    pub fn failed(name: &str, finding: &str) -> Self {
        Self {
            name: name.to_owned(),
            finding: finding.to_owned(),
            ..Self::default()
        }
    }

    /// Returns whether it passes without having run any test.
    pub fn says_nothing(&self) -> bool {
        self.passed && self.tests == Some(0)
    }

    /// Returns the outcome in a few words.
    pub fn outcome(&self) -> String {
        match self.exit {
            _ if !self.finding.is_empty() => self.finding.clone(),
            Some(code) => format!("exit {code}"),
            None => "did not end by itself".to_owned(),
        }
    }
}
