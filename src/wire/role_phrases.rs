//! Roles in words: on a line with other things, and who waits for whom.

use super::one_line;
use crate::plan::RoleRequest;

/// The most characters of a role's name.
const NAME: usize = 40;

/// Returns the name of a role for a line with other text.
pub fn role(name: &str) -> String {
    one_line(name, NAME)
}

/// Returns which role waits for which.
pub fn waits(wait: &RoleRequest) -> String {
    format!("{} waits for {}", role(&wait.role), role(&wait.on))
}
