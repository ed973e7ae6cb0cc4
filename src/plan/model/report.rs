//! What an agent reported, and why a report was not taken.

use serde::{Deserialize, Serialize};

use super::*;

/// A report that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    pub reason: String,
    /// SHA-256 of the file: the same file is not counted twice.
    pub hash: String,
    pub at: Time,
}

/// What an agent says about an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the file, or of the tool call that stands for one.
    pub name: String,
    pub status: ReportStatus,
    pub session: Option<SessionId>,
    /// What was achieved.
    pub results: String,
    pub pitfalls: String,
    pub next_steps: String,
    /// A question to the human; the attempt is then no failure.
    pub question: Option<String>,
    /// The agent's usage limit ends at this time; the attempt is then no failure.
    pub blocked_until: Option<Time>,
    /// The commands that were refused to the agent, word for word, and that a person may allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Whether the worker wrote it for an agent that ended well and left no report: only words say that something is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub words_only: bool,
    /// How the collaboration ended that the report answers; if left out, the status decides (see [`Self::answer`]).
    pub collaboration: Option<Collaboration>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// SHA-256 of the bytes, in hexadecimal.
    pub hash: String,
    pub received: Time,
}

impl Report {
    /// Creates a report that has only a status.
    pub fn new(name: impl Into<String>, status: ReportStatus, received: Time) -> Self {
        Self {
            name: name.into(),
            status,
            received,
            ..Self::default()
        }
    }

    /// Returns how the collaboration ended that the report answers. A part is an answer, too; a role that has a question, or may
    /// not continue for now, has not completed it.
    pub fn answer(&self) -> Collaboration {
        self.collaboration.unwrap_or(match self.status {
            _ if self.question.is_some() || self.blocked_until.is_some() => Collaboration::Error,
            ReportStatus::Success | ReportStatus::PartialSuccess => Collaboration::Completed,
            ReportStatus::Failed => Collaboration::Error,
        })
    }

    /// Returns what its agent used.
    pub fn cost(&self) -> ModelCost {
        ModelCost::new(self.input_tokens, self.output_tokens, self.cost_usd)
    }

    /// Returns the report as one text: the status, then each section that is not empty, and what the agent asked.
    pub fn text(&self) -> String {
        let none = String::new();
        let asked = self.question.as_ref().unwrap_or(&none);
        let sections = [
            ("Core results", &self.results),
            ("Pitfalls", &self.pitfalls),
            ("Next-step suggestions", &self.next_steps),
            ("Question to the person", asked),
        ];
        let said = sections.iter().filter(|(_, section)| !section.is_empty());
        let said = said.map(|(heading, section)| format!("\n## {heading}\n\n{section}\n"));
        let status = format!("status: {}\n", self.status.as_str());
        std::iter::once(status).chain(said).collect()
    }
}

words! {
    /// The three statuses of a report.
    #[derive(Default)]
    pub enum ReportStatus {
        Success = "SUCCESS",
        #[default]
        Failed = "FAILED",
        PartialSuccess = "PARTIAL_SUCCESS",
    }
}
