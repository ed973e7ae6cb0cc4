//! Roles in words: on a line with other things, and who waits for whom.

use super::text::one_line;
use crate::plan::Wait;

/// The longest name of a role.
const NAME: usize = 40;

/// Returns the name of a role on a line with other things.
pub fn role(name: &str) -> String {
    one_line(name, NAME)
}

/// Says who waits for whom.
pub fn waits(wait: &Wait) -> String {
    format!("{} waits for {}", role(&wait.role), role(&wait.on))
}
