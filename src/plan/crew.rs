//! Who is there to do tasks, as far as this process has started somebody for them.

use std::collections::BTreeMap;

use super::model::Time;

/// How it is with those who were started for some tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crew {
    /// They take commands, or others may.
    #[default]
    Works,
    /// Their agent cannot work as it is set up: they end.
    Unfit,
    /// They have ended for that reason, since then.
    Gone(Time),
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crews {
    /// Those of roles that have some for themselves.
    pub roles: BTreeMap<String, Crew>,
    /// Those who take all else, if there are any here.
    pub others: Option<Crew>,
}

impl Crews {
    /// Returns how it is with those who do the tasks of a role.
    pub fn of(&self, role: Option<&str>) -> Crew {
        let own = role.and_then(|role| self.roles.get(role));
        own.copied().or(self.others).unwrap_or_default()
    }

    /// Tells whether nobody is left, whatever is to be done.
    pub fn none_left(&self) -> bool {
        let lost = |crew: Crew| crew != Crew::Works;
        self.others.is_some_and(lost) && self.roles.values().all(|crew| lost(*crew))
    }
}
