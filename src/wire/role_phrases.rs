//! Roles in words: on a line with other things, and who waits for whom.

use super::{one_line, time_text};
use crate::plan::RoleRequest;

/// The most characters of a role's name.
const NAME: usize = 40;

/// Returns the name of a role for a line with other text.
pub fn role(name: &str) -> String {
    one_line(name, NAME)
}

/// Returns which role waits for which, and for what that waits itself.
pub fn waits(wait: &RoleRequest) -> String {
    let limit = wait.limited_until.map(time_text);
    let limit = limit.map(|until| format!(", whose usage limit lasts until {until}"));
    let (waits, on) = (role(&wait.role), role(&wait.on));
    format!("{waits} waits for {on}{}", limit.unwrap_or_default())
}
