//! Who is at work on what among the roles in the process, and who waits for whom. In memory only, and it carries nothing: a
//! request is a command in the files. After a restart it is made again from the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::request_timeout::RequestWait;
use crate::plan::CommandId;
use crate::role::{RequestId, RequestRefused, RoleId};

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
enum LaneWork {
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

impl LaneWork {
    fn work(&self) -> Option<&RequestId> {
        match self {
            Self::Nothing => None,
            Self::Work(work) | Self::Wait { work, .. } => Some(work),
        }
    }
}

#[derive(Debug, Default)]
struct RegistryState {
    /// What the lanes of each role are at.
    lanes: BTreeMap<RoleId, Vec<LaneWork>>,
    /// Whom a lane is about to ask, until it waits or does something else.
    asks: BTreeMap<Lane, RoleWait>,
    /// What work waited for when an earlier process ended, until it waits again or does something else.
    before: BTreeMap<RequestId, EarlierWait>,
}

/// A role that a lane is about to wait for.
#[derive(Clone, Debug)]
struct RoleWait {
    on: RoleId,
    /// Once it is sent; before that only a place is kept for it.
    request: Option<RequestId>,
}

/// A wait of an earlier process.
#[derive(Clone, Debug)]
struct EarlierWait {
    role: RoleId,
    request: RequestId,
    on: RoleId,
}

/// The board that all roles in the process share.
#[derive(Debug)]
pub(super) struct LaneRegistry {
    state: Mutex<RegistryState>,
    /// Moves with everything that a lane may wait for.
    news: watch::Sender<u64>,
}

impl LaneRegistry {
    /// Makes a board for roles with so many lanes each.
    pub(super) fn new(lanes: impl IntoIterator<Item = (RoleId, usize)>) -> Self {
        let idle = |(role, lanes): (RoleId, usize)| (role, vec![LaneWork::Nothing; lanes.max(1)]);
        Self {
            state: Mutex::new(RegistryState {
                lanes: lanes.into_iter().map(idle).collect(),
                ..RegistryState::default()
            }),
            news: watch::Sender::new(0),
        }
    }

    /// Returns what moves when a request is sent or a lane turns to something else.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Returns whether a role is one of those in the process.
    pub(super) fn has(&self, role: &RoleId) -> bool {
        self.state().lanes.contains_key(role)
    }

    /// Looks whether a lane may ask a role, and keeps a place in its queue for the request until the lane asks for another
    /// one or ends its work.
    pub(super) fn keep_place(&self, lane: &Lane, on: &RoleId) -> Result<(), RequestRefused> {
        let mut state = self.state();
        state.asks.remove(lane);
        state.forget_before(lane);
        if !state.lanes.contains_key(on) {
            return Ok(());
        }
        let waiting = state.unanswered(on).count();
        if waiting >= QUEUE {
            return Err(RequestRefused::Busy {
                role: on.clone(),
                waiting,
            });
        }
        if let Some(way) = state.circle(lane, on) {
            return Err(RequestRefused::Circular { way });
        }
        let asks = RoleWait {
            on: on.clone(),
            request: None,
        };
        state.asks.insert(lane.clone(), asks);
        Ok(())
    }

    /// Notes that a lane sends a request, for which it will wait: it may have been prepared by an earlier process.
    pub(super) fn sends(&self, lane: &Lane, request: &RequestId, on: &RoleId) {
        let asks = RoleWait {
            on: on.clone(),
            request: Some(request.clone()),
        };
        let mut state = self.state();
        state.asks.insert(lane.clone(), asks);
        state.forget_before(lane);
    }

    /// Returns the requests to a role that no lane of it is at yet.
    pub(super) fn unanswered(&self, role: &RoleId) -> BTreeSet<CommandId> {
        let state = self.state();
        let requests = state.unanswered(role).flatten();
        requests.map(|request| request.command().clone()).collect()
    }

    /// Notes what work of a role waited for when an earlier process ended: whoever takes it up again waits for that.
    pub(super) fn waited(&self, role: &RoleId, work: RequestId, request: RequestId, on: RoleId) {
        let before = EarlierWait {
            role: role.clone(),
            request,
            on,
        };
        self.state().before.insert(work, before);
    }

    /// Notes that a lane has taken up work, or goes on with it.
    pub(super) fn works(&self, lane: &Lane, work: &RequestId) {
        self.set(lane, LaneWork::Work(work.clone()));
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
        let at = LaneWork::Wait {
            work: work.clone(),
            request: request.clone(),
            on: on.clone(),
            with_person,
        };
        self.set(lane, at);
    }

    /// Notes that a lane is free again.
    pub(super) fn rests(&self, lane: &Lane) {
        self.set(lane, LaneWork::Nothing);
    }

    fn set(&self, lane: &Lane, at: LaneWork) {
        let mut state = self.state();
        // Whoever waits has used the place, whoever rests does not need it.
        if !matches!(at, LaneWork::Work(_)) {
            state.asks.remove(lane);
            state.forget_before(lane);
        }
        let lanes = state.lanes.get_mut(&lane.role);
        if let Some(place) = lanes.and_then(|lanes| lanes.get_mut(lane.index)) {
            *place = at;
        }
        drop(state);
        self.wake();
    }

    /// Tells what becomes of a request to a role here.
    pub(super) fn hold(&self, role: &RoleId, request: &RequestId) -> RequestWait {
        let state = self.state();
        let free = |lane: Lane| state.work_of(&lane).is_none();
        match state.at(request, role) {
            Some(lane) if state.is_with_person(lane.clone()) => RequestWait::Rests,
            None if !state.lanes_of(role).any(free) => RequestWait::Rests,
            at => RequestWait::Runs {
                taken: at.is_some(),
            },
        }
    }

    /// Has every lane look again.
    pub(super) fn wake(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        // What is in there is whole at every moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegistryState {
    /// Returns the roles that would wait for each other for ever if a lane waited for a role now: none of them has a lane left
    /// that can come to an end by itself.
    fn circle(&self, asker: &Lane, on: &RoleId) -> Option<Vec<RoleId>> {
        let all = |role: &RoleId| self.lanes_of(role);
        let mut live: BTreeSet<Lane> = BTreeSet::new();
        loop {
            let moves = |lane: &Lane| match self.waits_on(lane, asker, on) {
                None => true,
                Some((_, role)) if !self.lanes.contains_key(&role) => true,
                Some((Some(request), role)) => match self.at(&request, &role) {
                    Some(other) => live.contains(&other),
                    None => all(&role).any(|other| live.contains(&other)),
                },
                Some((None, role)) => all(&role).any(|other| live.contains(&other)),
            };
            let more: Vec<Lane> = self
                .all_lanes()
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
        let at = self.lanes.get(&lane.role)?.get(lane.index)?;
        if let LaneWork::Wait { request, on, .. } = at {
            return Some((Some(request.clone()), on.clone()));
        }
        if let Some(asks) = self.asks.get(lane) {
            return Some((asks.request.clone(), asks.on.clone()));
        }
        let before = self.before.get(self.work_of(lane)?)?;
        Some((Some(before.request.clone()), before.on.clone()))
    }

    /// Returns whether a person is asked for what a lane waits for, or for what that waits for.
    fn is_with_person(&self, mut lane: Lane) -> bool {
        for _ in 0..self.all_lanes().count() {
            let lanes = self.lanes.get(&lane.role);
            let next = match lanes.and_then(|lanes| lanes.get(lane.index)) {
                Some(LaneWork::Wait { with_person, .. }) if *with_person => return true,
                Some(LaneWork::Wait { request, on, .. }) => self.at(request, on),
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
        let lanes = self.lanes.get(&lane.role)?;
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
        let lanes = self.lanes.get(&lane.role);
        let at = lanes.and_then(|lanes| lanes.get(lane.index));
        if let Some(work) = at.and_then(LaneWork::work) {
            self.before.remove(work);
        }
    }

    /// Returns the lane that is at a request.
    fn at(&self, request: &RequestId, role: &RoleId) -> Option<Lane> {
        self.lanes_of(role)
            .find(|lane| self.work_of(lane) == Some(request))
    }

    fn lanes_of(&self, role: &RoleId) -> impl Iterator<Item = Lane> + use<> {
        let lanes = self.lanes.get(role).map_or(0, Vec::len);
        let role = role.clone();
        (0..lanes).map(move |index| Lane {
            role: role.clone(),
            index,
        })
    }

    fn all_lanes(&self) -> impl Iterator<Item = Lane> {
        self.lanes.keys().flat_map(|role| self.lanes_of(role))
    }

    /// Returns what is asked of a role and no lane of it is at yet: `None` for what is still to be sent.
    fn unanswered(&self, role: &RoleId) -> impl Iterator<Item = Option<RequestId>> {
        self.all_lanes().filter_map(move |lane| {
            let (request, on) = self.waits_already(&lane)?;
            let taken = request
                .as_ref()
                .is_some_and(|id| self.at(id, role).is_some());
            (on == *role && !taken).then_some(request)
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
