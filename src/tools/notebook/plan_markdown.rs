//! Plans and subtasks as Markdown.

use super::*;

impl SubTask {
    /// Returns the subtask as one line, with AgentScope's own marks for it: they differ from those of [`Self::to_markdown`].
    pub fn to_oneline_markdown(&self) -> String {
        let mark = match self.state {
            SubTaskState::Todo => "[]",
            SubTaskState::InProgress => "[][WIP]",
            SubTaskState::Done => "[x]",
            SubTaskState::Abandoned => "[][Abandoned]",
        };
        format!("- {mark} {}", unbroken(&self.name))
    }

    /// Returns the subtask as an item of a list of tasks; if `detailed`, with its details on lines below.
    pub fn to_markdown(&self, detailed: bool) -> String {
        let mut text = line(self.state, &self.name);
        if !detailed {
            return text;
        }
        let mut add = |label: &str, value: &str| text.extend(["\n\t- ", label, ": ", value]);
        add("Created At", &self.created_at);
        add("Description", &self.description);
        add("Expected Outcome", &self.expected_outcome);
        add("State", &self.state.to_string());
        if self.state == SubTaskState::Done {
            let finished_at = self.finished_at.as_deref();
            add("Finished At", finished_at.unwrap_or("unknown"));
            add("Actual Outcome", self.outcome.as_deref().unwrap_or("none"));
        }
        text
    }
}

impl NotebookPlan {
    /// Returns the plan with all of its subtasks.
    pub fn to_markdown(&self, detailed: bool) -> String {
        let mut text = heading(self, [usize::MAX; 3]);
        for subtask in &self.subtasks {
            text.extend(["\n", &subtask.to_markdown(detailed)]);
        }
        text
    }
}

/// Returns the part above the subtasks, with at most so many bytes of name, description and expected outcome.
pub(super) fn heading(plan: &NotebookPlan, most: [usize; 3]) -> String {
    let [name, description, outcome] = most;
    let name = unbroken(&clip(&plan.name, name));
    let description = clip(&plan.description, description);
    let outcome = clip(&plan.expected_outcome, outcome);
    let (state, created_at) = (plan.state, &plan.created_at);
    format!(
        "# {name}\n**Description**: {description}\n**Expected Outcome**: {outcome}\n**State**: {state}\n**Created At**: {created_at}\n## Subtasks"
    )
}

/// Returns a subtask as one line.
pub(super) fn line(state: SubTaskState, name: &str) -> String {
    let mark = match state {
        SubTaskState::Todo => "[ ] ",
        SubTaskState::InProgress => "[ ] [WIP]",
        SubTaskState::Done => "[x] ",
        SubTaskState::Abandoned => "[ ] [Abandoned]",
    };
    format!("- {mark}{}", unbroken(name))
}

/// Puts a text into a code fence that the text cannot close.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// Keeps a name on its line.
fn unbroken(name: &str) -> String {
    name.replace(['\n', '\r'], " ")
}
