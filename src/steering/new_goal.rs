//! Goals that come without a terminal: from the page, and from an agent by a tool. Where they are carried out, and with what, was
//! resolved when the server started; the caller chooses nothing of it.

use crate::config::LanguageChoice;
use crate::plan::{Origin, PlanHead, PlanId, QueueEntry, Time};

/// What a plan is made with.
#[derive(Clone, Debug)]
pub struct GoalSettings {
    /// The folder that agents work in; absolute.
    pub workspace: String,
    /// The id of the project there.
    pub project: Option<String>,
    pub language: LanguageChoice,
    /// How a daemon finds its plans, with what a person had confirmed.
    pub queue: QueueEntry,
}

impl GoalSettings {
    /// Returns a plan with a goal, for the next daemon or the one that works here. The change that creates it must be reported by
    /// [`created`](crate::plan::Draft::created).
    pub fn plan(&self, id: PlanId, goal: &str) -> PlanHead {
        PlanHead {
            origin: Origin::Model,
            language: Some(self.language.of(goal)),
            workspace: self.workspace.clone(),
            project: self.project.clone(),
            queue: Some(Box::new(self.queue.clone())),
            ..PlanHead::new(id, goal, Time::default())
        }
    }
}
