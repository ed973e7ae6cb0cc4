//! Changes that a caller may ask for again, because the answer was lost.

use serde::{Deserialize, Serialize};

/// A change that was made under its caller's key, with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeChange {
    /// The caller's key, or its hash.
    pub key: String,
    /// The hash of what was asked.
    pub content: String,
    pub seq: i64,
    /// What was said of it.
    pub said: String,
}
