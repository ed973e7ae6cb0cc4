//! What an agent reported, and why a report was not taken.

use serde::{Deserialize, Serialize};

use super::*;

/// The name and the hash of a report that is not a file; no file has that hash.
const TOOL_CALL: &str = "tool call";

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
    #[serde(default)]
    pub author: ReportAuthor,
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

    /// Creates the report that a tool call stands for: one of the agent itself, or of a person.
    pub fn tool_call(
        author: ReportAuthor,
        status: ReportStatus,
        text: &str,
        received: Time,
    ) -> Self {
        Self {
            author,
            results: text.to_owned(),
            hash: TOOL_CALL.to_owned(),
            ..Self::new(TOOL_CALL, status, received)
        }
    }

    /// Returns whether a tool call stands for it, and no file completed that.
    pub fn is_tool_call(&self) -> bool {
        self.hash == TOOL_CALL
    }

    /// Returns how the collaboration ended that the report answers: as it says, but completed only where nothing else in it says
    /// the opposite. A part is an answer, too; a role that has a question, or may not continue for now, has not completed it.
    pub fn answer(&self) -> Collaboration {
        match (self.collaboration, self.status) {
            (Some(other @ (Collaboration::Error | Collaboration::Rejected)), _) => other,
            (_, ReportStatus::Failed) => Collaboration::Error,
            _ if self.question.is_some() || self.blocked_until.is_some() => Collaboration::Error,
            _ => Collaboration::Completed,
        }
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

words! {
    /// Who wrote a report.
    #[derive(Default)]
    pub enum ReportAuthor {
        /// The agent, or a person in its place.
        #[default]
        Agent = "agent",
        /// A person, about the work of an agent.
        Person = "person",
        /// The worker, for an agent that ended well and left no report: only words say that something is done.
        WorkerByWords = "worker",
        /// The worker, which knows only how the agent ended.
        WorkerByEnd = "worker, by its end",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two words that contradict each other, the worse one holds.
    #[test]
    fn answer_is_completed_only_where_nothing_says_the_opposite() {
        use Collaboration::{Completed, Error, Rejected};
        use ReportStatus::{Failed, PartialSuccess, Success};
        for (status, collaboration, question, expected) in [
            (Success, None, false, Completed),
            (PartialSuccess, Some(Completed), false, Completed),
            (Failed, None, false, Error),
            (Failed, Some(Completed), false, Error),
            (Success, Some(Completed), true, Error),
            (Success, Some(Rejected), false, Rejected),
            (Failed, Some(Rejected), false, Rejected),
            (Success, Some(Error), false, Error),
        ] {
            let report = Report {
                collaboration,
                question: question.then(|| "Which one?".to_owned()),
                ..Report::new("r", status, Time::default())
            };
            assert_eq!(report.answer(), expected, "{status:?} {collaboration:?}");
        }
    }
}
