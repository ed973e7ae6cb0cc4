//! Tasks by whose they are: which may start next is found without a look at those of a role that can take no more.

use std::collections::{BTreeMap, HashMap};

use super::places::{Place, Places, Span};

/// Tasks by whose they are, each role's and those of nobody in the plan's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ByRole {
    of: HashMap<Option<String>, Places>,
    /// The first of each, so that they are gone through in the plan's order.
    firsts: BTreeMap<Place, Option<String>>,
}

impl ByRole {
    pub(super) fn insert(&mut self, role: &Option<String>, place: Place) {
        if !self.of.contains_key(role) {
            self.of.insert(role.clone(), Places::default());
        }
        self.change(role, |places| places.insert(place));
    }

    pub(super) fn remove(&mut self, role: &Option<String>, place: &Place) {
        self.change(role, |places| places.remove(place));
    }

    fn change(&mut self, role: &Option<String>, change: impl FnOnce(&mut Places)) {
        let Some(places) = self.of.get_mut(role) else {
            return;
        };
        let before = places.first();
        change(places);
        let now = places.first();
        if before != now {
            if let Some(before) = before {
                self.firsts.remove(&before);
            }
            match now {
                Some(now) => drop(self.firsts.insert(now, role.clone())),
                None => drop(self.of.remove(role)),
            }
        }
    }

    /// Returns the roles in the order of the first task of each.
    fn roles(&self) -> impl Iterator<Item = (Place, Option<&str>, Span<'_>)> {
        let span = |role: &Option<String>| Some(self.of.get(role)?.span(1, usize::MAX));
        self.firsts
            .iter()
            .filter_map(move |(place, role)| Some((*place, role.as_deref(), span(role)?)))
    }
}

/// Goes through tasks in the plan's order and leaves out whole roles on the way: each costs one look, however many tasks it has.
pub(super) struct Walk<'a> {
    /// The next task of each role that was met, and what follows it there.
    met: BTreeMap<Place, (Option<&'a str>, Span<'a>)>,
    /// Roles whose first task was not reached yet, in the order of those.
    ahead: Vec<Ahead<'a>>,
}

type Ahead<'a> =
    std::iter::Peekable<Box<dyn Iterator<Item = (Place, Option<&'a str>, Span<'a>)> + 'a>>;

impl<'a> Walk<'a> {
    pub(super) fn over(all: impl IntoIterator<Item = &'a ByRole>) -> Self {
        let ahead = |tasks: &'a ByRole| -> Ahead<'a> {
            let roles: Box<dyn Iterator<Item = _>> = Box::new(tasks.roles());
            roles.peekable()
        };
        Self {
            met: BTreeMap::new(),
            ahead: all.into_iter().map(ahead).collect(),
        }
    }

    /// Goes through one task.
    pub(super) fn of(task: Option<(Place, Option<&'a str>)>, nothing: &Span<'a>) -> Self {
        let alone = |(place, role)| (place, (role, nothing.clone()));
        Self {
            met: task.map(alone).into_iter().collect(),
            ahead: Vec::new(),
        }
    }

    /// Returns the next task of a role that is not left out now; one that is left out once is not come back to.
    pub(super) fn next(&mut self, left_out: impl Fn(Option<&str>) -> bool) -> Option<Place> {
        loop {
            for ahead in &mut self.ahead {
                let next = self.met.first_key_value().map(|(place, _)| *place);
                let before = |(place, ..): &(Place, _, _)| next.is_none_or(|next| *place < next);
                if let Some((place, role, rest)) = ahead.next_if(before) {
                    self.met.insert(place, (role, rest));
                }
            }
            let (place, (role, mut rest)) = self.met.pop_first()?;
            if left_out(role) {
                continue;
            }
            if let Some(next) = rest.next() {
                self.met.insert(next, (role, rest));
            }
            return Some(place);
        }
    }
}
