//! Who is at work on what among the roles in the process, who waits for whom, and what waits for a free lane. In memory
//! only: after a restart it is made again from the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::patience::Hold;
use crate::role::{Refused, RequestId, RoleId, StructuredMessage};

/// Requests that may wait for a free lane of one role; the next one is rejected.
const QUEUE: usize = 16;

/// One lane of a role: it does one thing at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub role: RoleId,
    pub index: usize,
}

/// What a lane is at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Nothing,
    Work(RequestId),
    /// It waits for what it asked of another role.
    Wait {
        work: RequestId,
        request: RequestId,
        on: RoleId,
        /// A person is asked for it.
        with_person: bool,
    },
}

impl At {
    fn work(&self) -> Option<&RequestId> {
        match self {
            Self::Nothing => None,
            Self::Work(work) | Self::Wait { work, .. } => Some(work),
        }
    }
}

#[derive(Debug, Default)]
struct Desk {
    lanes: Vec<At>,
    /// Requests of other roles, in the order in which they came.
    queue: VecDeque<StructuredMessage>,
}

#[derive(Debug, Default)]
struct State {
    desks: BTreeMap<RoleId, Desk>,
    /// Whom a lane is about to ask, until it waits or does something else.
    asks: BTreeMap<Lane, Asks>,
    /// What work waited for when an earlier process ended, until it waits again or does something else.
    before: BTreeMap<RequestId, Before>,
    /// Work whose result nobody waits for any more, as long as a lane is at it.
    cancelled: BTreeSet<RequestId>,
}

/// A role that a lane is about to wait for.
#[derive(Clone, Debug)]
struct Asks {
    on: RoleId,
    /// The request is in the queue by itself; before that a place there is kept for it.
    sent: bool,
}

/// A wait of an earlier process.
#[derive(Clone, Debug)]
struct Before {
    role: RoleId,
    request: RequestId,
    on: RoleId,
}

/// The board that all roles in the process share.
#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    /// Moves with everything that a lane may wait for.
    news: watch::Sender<u64>,
}

impl Board {
    /// Makes a board for roles with so many lanes each.
    pub(super) fn new(lanes: impl IntoIterator<Item = (RoleId, usize)>) -> Self {
        let desk = |(role, lanes): (RoleId, usize)| {
            let desk = Desk {
                lanes: vec![At::Nothing; lanes.max(1)],
                queue: VecDeque::new(),
            };
            (role, desk)
        };
        Self {
            state: Mutex::new(State {
                desks: lanes.into_iter().map(desk).collect(),
                ..State::default()
            }),
            news: watch::Sender::new(0),
        }
    }

    /// Returns what moves when a request comes, a lane gets free or work is cancelled.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Tells whether a role is one of those in the process.
    pub(super) fn has(&self, role: &RoleId) -> bool {
        self.state().desks.contains_key(role)
    }

    /// Looks whether a lane may ask a role, and keeps a place in its queue for the request until the lane asks for another
    /// one or ends its work.
    pub(super) fn keep_place(&self, lane: &Lane, on: &RoleId) -> Result<(), Refused> {
        let mut state = self.state();
        state.asks.remove(lane);
        state.forget_before(lane);
        let Some(desk) = state.desks.get(on) else {
            return Ok(());
        };
        let kept = state
            .asks
            .values()
            .filter(|asks| !asks.sent && asks.on == *on);
        let waiting = desk.queue.len() + kept.count();
        if waiting >= QUEUE {
            return Err(Refused::Busy {
                role: on.clone(),
                waiting,
            });
        }
        if let Some(way) = state.circle(lane, on) {
            return Err(Refused::Circular { way });
        }
        let asks = Asks {
            on: on.clone(),
            sent: false,
        };
        state.asks.insert(lane.clone(), asks);
        Ok(())
    }

    /// Notes that a lane sends a request, for which it will wait: it may have been prepared by an earlier process.
    pub(super) fn sends(&self, lane: &Lane, on: &RoleId) {
        let asks = Asks {
            on: on.clone(),
            sent: true,
        };
        let mut state = self.state();
        state.asks.insert(lane.clone(), asks);
        state.forget_before(lane);
    }

    /// Notes what work of a role waited for when an earlier process ended: whoever takes it up again waits for that.
    pub(super) fn waited(&self, role: &RoleId, work: RequestId, request: RequestId, on: RoleId) {
        let before = Before {
            role: role.clone(),
            request,
            on,
        };
        self.state().before.insert(work, before);
    }

    /// Puts a request into the queue of the role that it is for, unless it is there already or a lane is at it. The role is
    /// one of those here.
    pub(super) fn put(&self, request: StructuredMessage) {
        let mut state = self.state();
        let id = request.assignment();
        let Some(desk) = state.desks.get_mut(&request.to) else {
            return;
        };
        let known = desk.queue.iter().any(|other| other.assignment() == id)
            || desk.lanes.iter().any(|at| at.work() == Some(&id));
        if !known {
            desk.queue.push_back(request);
            drop(state);
            self.tell();
        }
    }

    /// Gives a lane the oldest request for its role that fits.
    pub(super) fn take(
        &self,
        lane: &Lane,
        fits: impl Fn(&StructuredMessage) -> bool,
    ) -> Option<StructuredMessage> {
        let mut state = self.state();
        let desk = state.desks.get_mut(&lane.role)?;
        let place = desk.queue.iter().position(fits)?;
        let request = desk.queue.remove(place)?;
        *desk.lanes.get_mut(lane.index)? = At::Work(request.assignment());
        Some(request)
    }

    /// Notes that a lane has taken up work, or goes on with it.
    pub(super) fn works(&self, lane: &Lane, work: &RequestId) {
        self.set(lane, At::Work(work.clone()));
    }

    /// Notes that a lane waits for another role, or for a person whom that role wants to be asked.
    pub(super) fn waits(
        &self,
        lane: &Lane,
        work: &RequestId,
        request: &RequestId,
        on: &RoleId,
        with_person: bool,
    ) {
        let at = At::Wait {
            work: work.clone(),
            request: request.clone(),
            on: on.clone(),
            with_person,
        };
        self.set(lane, at);
    }

    /// Notes that a lane is free again.
    pub(super) fn rests(&self, lane: &Lane) {
        self.set(lane, At::Nothing);
    }

    fn set(&self, lane: &Lane, at: At) {
        let mut state = self.state();
        // Whoever waits has used the place, whoever rests does not need it.
        if !matches!(at, At::Work(_)) {
            state.asks.remove(lane);
            state.forget_before(lane);
        }
        let desk = state.desks.get_mut(&lane.role);
        let Some(place) = desk.and_then(|desk| desk.lanes.get_mut(lane.index)) else {
            return;
        };
        let before = std::mem::replace(place, at);
        if let At::Nothing = place
            && let Some(work) = before.work()
        {
            state.cancelled.remove(work);
        }
        drop(state);
        self.tell();
    }

    /// Takes a request back: out of its queue, or by telling the lane that is at it. Tells whether it was here.
    pub(super) fn cancel(&self, request: &RequestId) -> bool {
        let mut state = self.state();
        let mut here = false;
        for desk in state.desks.values_mut() {
            let before = desk.queue.len();
            desk.queue.retain(|other| other.assignment() != *request);
            here |= desk.queue.len() < before;
        }
        state.before.remove(request);
        let at_it = |desk: &Desk| desk.lanes.iter().any(|at| at.work() == Some(request));
        if state.desks.values().any(at_it) {
            state.cancelled.insert(request.clone());
            here = true;
        }
        drop(state);
        self.tell();
        here
    }

    /// Tells what becomes of a request to a role here.
    pub(super) fn hold(&self, role: &RoleId, request: &RequestId) -> Hold {
        let state = self.state();
        if let Some(lane) = state.at(request, role) {
            return match state.is_with_person(lane) {
                true => Hold::WithPerson,
                false => Hold::Taken,
            };
        }
        let free = |lane: Lane| state.work_of(&lane).is_none();
        match state.lanes_of(role).any(free) {
            true => Hold::Untaken,
            false => Hold::Busy,
        }
    }

    /// Tells whether nobody waits any more for what a lane is at.
    pub(super) fn cancelled(&self, work: &RequestId) -> bool {
        self.state().cancelled.contains(work)
    }

    fn tell(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is in there is whole at every moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the roles that would wait for each other for ever if a lane waited for a role now: none of them has a lane left
    /// that can come to an end by itself.
    fn circle(&self, asker: &Lane, on: &RoleId) -> Option<Vec<RoleId>> {
        let all = |role: &RoleId| self.lanes_of(role);
        let mut live: BTreeSet<Lane> = BTreeSet::new();
        loop {
            let moves = |lane: &Lane| match self.waits_on(lane, asker, on) {
                None => true,
                Some((_, role)) if !self.desks.contains_key(&role) => true,
                Some((Some(request), role)) => match self.at(&request, &role) {
                    Some(other) => live.contains(&other),
                    None => all(&role).any(|other| live.contains(&other)),
                },
                Some((None, role)) => all(&role).any(|other| live.contains(&other)),
            };
            let more: Vec<Lane> = self
                .desks
                .keys()
                .flat_map(all)
                .filter(|lane| !live.contains(lane) && moves(lane))
                .collect();
            if more.is_empty() {
                break;
            }
            live.extend(more);
        }
        (!live.contains(asker)).then(|| self.way(asker, on))
    }

    /// Returns for what a lane waits, and for whom: a request that is about to be made has no id yet.
    fn waits_on(
        &self,
        lane: &Lane,
        asker: &Lane,
        on: &RoleId,
    ) -> Option<(Option<RequestId>, RoleId)> {
        if lane == asker {
            return Some((None, on.clone()));
        }
        self.waits_already(lane)
    }

    fn waits_already(&self, lane: &Lane) -> Option<(Option<RequestId>, RoleId)> {
        let at = self.desks.get(&lane.role)?.lanes.get(lane.index)?;
        if let At::Wait { request, on, .. } = at {
            return Some((Some(request.clone()), on.clone()));
        }
        if let Some(asks) = self.asks.get(lane) {
            return Some((None, asks.on.clone()));
        }
        let before = self.before.get(self.work_of(lane)?)?;
        Some((Some(before.request.clone()), before.on.clone()))
    }

    /// Tells whether a person is asked for what a lane waits for, or for what that waits for.
    fn is_with_person(&self, mut lane: Lane) -> bool {
        let most: usize = self.desks.values().map(|desk| desk.lanes.len()).sum();
        for _ in 0..most {
            let lanes = self.desks.get(&lane.role).map(|desk| &desk.lanes);
            let next = match lanes.and_then(|lanes| lanes.get(lane.index)) {
                Some(At::Wait { with_person, .. }) if *with_person => return true,
                Some(At::Wait { request, on, .. }) => self.at(request, on),
                _ => None,
            };
            match next {
                Some(next) => lane = next,
                None => return false,
            }
        }
        false
    }

    /// Returns what a lane is at. A free one counts as at what it takes up first: the work of an earlier process.
    fn work_of(&self, lane: &Lane) -> Option<&RequestId> {
        let lanes = &self.desks.get(&lane.role)?.lanes;
        if let Some(work) = lanes.get(lane.index)?.work() {
            return Some(work);
        }
        let free = lanes[..lane.index].iter().filter(|at| at.work().is_none());
        let taken = |work: &RequestId| lanes.iter().any(|at| at.work() == Some(work));
        let left = self
            .before
            .iter()
            .filter(|(work, before)| before.role == lane.role && !taken(work));
        left.map(|(work, _)| work).nth(free.count())
    }

    /// Forgets what the work of a lane waited for when an earlier process ended.
    fn forget_before(&mut self, lane: &Lane) {
        let lanes = self.desks.get(&lane.role).map(|desk| &desk.lanes);
        let at = lanes.and_then(|lanes| lanes.get(lane.index));
        if let Some(work) = at.and_then(At::work) {
            self.before.remove(work);
        }
    }

    /// Returns the lane that is at a request.
    fn at(&self, request: &RequestId, role: &RoleId) -> Option<Lane> {
        self.lanes_of(role)
            .find(|lane| self.work_of(lane) == Some(request))
    }

    fn lanes_of(&self, role: &RoleId) -> impl Iterator<Item = Lane> + use<> {
        let lanes = self.desks.get(role).map_or(0, |desk| desk.lanes.len());
        let role = role.clone();
        (0..lanes).map(move |index| Lane {
            role: role.clone(),
            index,
        })
    }

    /// Returns the way from the role that is asked to one that waits for the asker, as a person follows it.
    fn way(&self, asker: &Lane, on: &RoleId) -> Vec<RoleId> {
        let mut way = vec![on.clone()];
        let mut role = on.clone();
        while role != asker.role {
            let mut lanes = self.lanes_of(&role);
            match lanes.find_map(|lane| self.waits_already(&lane)) {
                Some((_, next)) if !way[1..].contains(&next) => role = next,
                _ => break,
            }
            way.push(role.clone());
        }
        if way.last() != Some(on) || way.len() == 1 {
            way.push(on.clone());
        }
        way
    }
}

#[cfg(test)]
mod tests;
