//! The ids of all things in a plan.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a text that the caller has validated.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text_ids! {
    /// Names a plan: eight letters, or whatever a caller of the plan tools chose.
    PlanId,
    /// Names one command and so one attempt: `task-<uuid v7>`, the stem of its file.
    CommandId,
    /// Names one question to a human: the stem of `question-<id>.md`.
    QuestionId,
    /// Names an agent's own conversation; opaque to the plan.
    SessionId,
    /// Names one question to a language model within its plan, such as `judge-task-…` or `replan-2`.
    AskId,
}

/// The number of a task within its plan: counted from 1, never used again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TaskId(pub u32);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
