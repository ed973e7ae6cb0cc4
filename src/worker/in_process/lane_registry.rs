//! What each role in the process works on, and which role waits for which. In memory only, and it carries nothing: a
//! request is a command in the files. After a restart it is made again from the store.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::RequestWait;
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
#[derive(Clone, Debug, Default)]
struct LaneWork {
    /// `None` if it is free.
    work: Option<RequestId>,
    /// What it waits for, or is about to ask of another role.
    wait: Option<RoleWait>,
    /// What it waits for rests: a person is asked for it, or a usage limit has to end.
    rests: bool,
}

/// A wait for another role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleWait {
    on: RoleId,
    /// Once it is sent; before that only a place is kept for it.
    request: Option<RequestId>,
}

impl RoleWait {
    pub fn sent(request: RequestId, on: RoleId) -> Self {
        let request = Some(request);
        Self { on, request }
    }
}

#[derive(Debug, Default)]
struct RegistryState {
    /// What the lanes of each role are at.
    lanes: BTreeMap<RoleId, Vec<LaneWork>>,
    /// What work of a role waited for when an earlier process ended, until it waits again or does something else.
    before: BTreeMap<RequestId, (RoleId, RoleWait)>,
}

/// What all lanes of the process work on and wait for.
#[derive(Debug)]
pub(super) struct LaneRegistry {
    state: Mutex<RegistryState>,
    /// Moves with everything that a lane may wait for.
    changes: watch::Sender<u64>,
}

impl LaneRegistry {
    /// Makes the registry for roles with so many lanes each.
    pub(super) fn new(lanes: impl IntoIterator<Item = (RoleId, usize)>) -> Self {
        let idle = |(role, lanes): (RoleId, usize)| (role, vec![LaneWork::default(); lanes.max(1)]);
        Self {
            state: Mutex::new(RegistryState {
                lanes: lanes.into_iter().map(idle).collect(),
                ..RegistryState::default()
            }),
            changes: watch::Sender::new(0),
        }
    }

    /// Returns what moves when a request is sent or a lane turns to something else.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns whether a role is one of those in the process.
    pub(super) fn has(&self, role: &RoleId) -> bool {
        self.state.lock().lanes.contains_key(role)
    }

    /// Checks whether a lane may ask a role, and keeps a place in its queue for the request until the lane asks for another
    /// one or ends its work.
    pub(super) fn keep_place(&self, lane: &Lane, on: &RoleId) -> Result<(), RequestRefused> {
        let mut state = self.state.lock();
        state.turn(lane, |at| at.wait = None);
        if !state.lanes.contains_key(on) {
            return Ok(());
        }
        let waiting = state.unanswered(on).count();
        if waiting >= QUEUE {
            let role = on.clone();
            return Err(RequestRefused::Busy { role, waiting });
        }
        let (on, request) = (on.clone(), None);
        let wait = RoleWait { on, request };
        if let Some(way) = state.circle(lane, &wait) {
            return Err(RequestRefused::Circular { way });
        }
        state.turn(lane, |at| at.wait = Some(wait));
        Ok(())
    }

    /// Notes that a lane sends a request, for which it will wait: it may have been prepared by an earlier process.
    pub(super) fn sends(&self, lane: &Lane, request: &RequestId, on: &RoleId) {
        let wait = RoleWait::sent(request.clone(), on.clone());
        self.state.lock().turn(lane, |at| at.wait = Some(wait));
    }

    /// Returns the requests to a role that no lane of it is at yet.
    pub(super) fn unanswered(&self, role: &RoleId) -> BTreeSet<CommandId> {
        let state = self.state.lock();
        state.unanswered(role).flatten().collect()
    }

    /// Notes what work of a role waited for when an earlier process ended: the lane that takes it up again waits for that.
    pub(super) fn waited(&self, role: &RoleId, work: RequestId, request: RequestId, on: RoleId) {
        let before = (role.clone(), RoleWait::sent(request, on));
        self.state.lock().before.insert(work, before);
    }

    /// Notes that a lane has taken up work, or goes on with it.
    pub(super) fn works(&self, lane: &Lane, work: &RequestId) {
        let now = LaneWork {
            work: Some(work.clone()),
            ..LaneWork::default()
        };
        // What it waited for in an earlier process is known until it waits again.
        if let Some(at) = self.state.lock().noted_mut(lane) {
            *at = now;
        }
        self.wake();
    }

    /// Notes that a lane waits for another role, and whether that goes on only after something else.
    pub(super) fn waits(&self, lane: &Lane, work: &RequestId, on: RoleWait, rests: bool) {
        let now = LaneWork {
            work: Some(work.clone()),
            wait: Some(on),
            rests,
        };
        self.state.lock().turn(lane, |at| *at = now);
        self.wake();
    }

    /// Notes that a lane is free again.
    pub(super) fn rests(&self, lane: &Lane) {
        self.state.lock().turn(lane, |at| *at = LaneWork::default());
        self.wake();
    }

    /// Returns whether time passes for a request to a role here.
    pub(super) fn hold(&self, role: &RoleId, request: &RequestId) -> RequestWait {
        let state = self.state.lock();
        let free = |lane: Lane| state.work_of(&lane).is_none();
        match state.at(request, role) {
            Some(lane) if state.rests_for(lane.clone()) => RequestWait::Rests,
            None if !state.lanes_of(role).any(free) => RequestWait::Rests,
            at => RequestWait::Runs {
                taken: at.is_some(),
            },
        }
    }

    /// Wakes every lane.
    pub(super) fn wake(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl RegistryState {
    /// Returns the roles that would wait for each other for ever if a lane began this wait now: none of them has a lane left
    /// that can come to an end by itself.
    fn circle(&self, asker: &Lane, next: &RoleWait) -> Option<Vec<RoleId>> {
        let mut live: BTreeSet<Lane> = BTreeSet::new();
        loop {
            let moves = |lane: &Lane| {
                let wait = match lane == asker {
                    true => Some(next),
                    false => self.wait_of(lane),
                };
                let Some(wait) = wait.filter(|wait| self.lanes.contains_key(&wait.on)) else {
                    return true;
                };
                match self.taken(wait) {
                    Some(other) => live.contains(&other),
                    None => self.lanes_of(&wait.on).any(|other| live.contains(&other)),
                }
            };
            let is_new = |lane: &Lane| !live.contains(lane) && moves(lane);
            let more: Vec<Lane> = self.all_lanes().filter(is_new).collect();
            if more.is_empty() {
                break;
            }
            live.extend(more);
        }
        (!live.contains(asker)).then(|| self.way(asker, &next.on))
    }

    /// Returns what a lane waits for, or is about to.
    fn wait_of(&self, lane: &Lane) -> Option<&RoleWait> {
        self.noted(lane)?.wait.as_ref().or_else(|| {
            let (_, before) = self.before.get(self.work_of(lane)?)?;
            Some(before)
        })
    }

    /// Returns the lane that is at what another one waits for.
    fn taken(&self, wait: &RoleWait) -> Option<Lane> {
        self.at(wait.request.as_ref()?, &wait.on)
    }

    fn noted(&self, lane: &Lane) -> Option<&LaneWork> {
        self.lanes.get(&lane.role)?.get(lane.index)
    }

    fn noted_mut(&mut self, lane: &Lane) -> Option<&mut LaneWork> {
        self.lanes.get_mut(&lane.role)?.get_mut(lane.index)
    }

    /// Returns whether what a lane waits for rests, or what that waits for.
    fn rests_for(&self, mut lane: Lane) -> bool {
        for _ in 0..self.all_lanes().count() {
            let Some(at) = self.noted(&lane) else {
                return false;
            };
            if at.rests {
                return true;
            }
            match at.wait.as_ref().and_then(|wait| self.taken(wait)) {
                Some(next) => lane = next,
                None => return false,
            }
        }
        false
    }

    /// Returns what a lane is at. A free one counts as at what it takes up first: the work of an earlier process.
    fn work_of(&self, lane: &Lane) -> Option<&RequestId> {
        let lanes = self.lanes.get(&lane.role)?;
        if let Some(work) = &lanes.get(lane.index)?.work {
            return Some(work);
        }
        let free = lanes[..lane.index].iter().filter(|at| at.work.is_none());
        let taken = |work: &RequestId| lanes.iter().any(|at| at.work.as_ref() == Some(work));
        let left = self.before.iter();
        let left = left.filter(|(work, (role, _))| *role == lane.role && !taken(work));
        left.map(|(work, _)| work).nth(free.count())
    }

    /// Turns a lane to something else, so that what its work waited for in an earlier process counts no more.
    fn turn(&mut self, lane: &Lane, to: impl FnOnce(&mut LaneWork)) {
        let Some(at) = self.noted_mut(lane) else {
            return;
        };
        let work = at.work.clone();
        to(at);
        if let Some(work) = work {
            self.before.remove(&work);
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
            let wait = self.wait_of(&lane)?;
            (wait.on == *role && self.taken(wait).is_none()).then(|| wait.request.clone())
        })
    }

    /// Returns the way from the role that is asked to one that waits for the asker, as a person follows it.
    fn way(&self, asker: &Lane, on: &RoleId) -> Vec<RoleId> {
        let mut way = vec![on.clone()];
        let mut role = on.clone();
        while role != asker.role {
            let mut lanes = self.lanes_of(&role);
            match lanes.find_map(|lane| self.wait_of(&lane)) {
                Some(wait) if !way[1..].contains(&wait.on) => role = wait.on.clone(),
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
