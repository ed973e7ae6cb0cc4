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

    /// Notes that a lane waits for another role.
    pub(super) fn waits(&self, lane: &Lane, work: &RequestId, request: &RequestId, on: &RoleId) {
        let at = At::Wait {
            work: work.clone(),
            request: request.clone(),
            on: on.clone(),
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
        if state.at(request, role).is_some() {
            return Hold::Taken;
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
mod tests {
    use super::*;
    use crate::plan::CommandId;
    use crate::role::MessageKind;

    fn role(name: &str) -> RoleId {
        name.parse().unwrap()
    }

    fn lane(name: &str, index: usize) -> Lane {
        Lane {
            role: role(name),
            index,
        }
    }

    fn id(name: &str) -> RequestId {
        CommandId::new(name).into()
    }

    fn board(roles: &[(&str, usize)]) -> Board {
        Board::new(roles.iter().map(|(name, lanes)| (role(name), *lanes)))
    }

    fn request(name: &str, to: &str) -> StructuredMessage {
        let mut message =
            StructuredMessage::new("asker", role(to), MessageKind::CollaborationRequest);
        message.request_id = Some(id(name));
        message
    }

    fn taken(board: &Board, lane: &Lane) -> Option<String> {
        let taken = board.take(lane, |_| true);
        taken.map(|request| request.assignment().to_string())
    }

    #[test]
    fn requests_come_in_their_order_and_each_once() {
        let board = board(&[("a", 2)]);
        for name in ["r1", "r2", "r1"] {
            board.put(request(name, "a"));
        }
        assert_eq!(taken(&board, &lane("a", 0)).as_deref(), Some("r1"));
        board.put(request("r1", "a"));
        assert_eq!(taken(&board, &lane("a", 1)).as_deref(), Some("r2"));
        board.rests(&lane("a", 0));
        assert_eq!(taken(&board, &lane("a", 0)), None);
    }

    #[test]
    fn a_queue_that_is_full_rejects_until_there_is_room() {
        let board = board(&[("a", 1), ("b", 20)]);
        for index in 0..QUEUE {
            board.keep_place(&lane("b", index), &role("a")).unwrap();
            // The same lane keeps one place only.
            board.keep_place(&lane("b", index), &role("a")).unwrap();
        }
        let full = board.keep_place(&lane("b", 16), &role("a"));
        let text = full.unwrap_err().to_string();
        assert_eq!(text, "role `a` has 16 requests waiting already");
        // The place of one becomes its request; another one ends without having asked.
        board.put(request("r", "a"));
        board.waits(&lane("b", 0), &id("w"), &id("r"), &role("a"));
        assert!(board.keep_place(&lane("b", 16), &role("a")).is_err());
        board.rests(&lane("b", 1));
        board.keep_place(&lane("b", 16), &role("a")).unwrap();
        assert!(board.keep_place(&lane("b", 17), &role("a")).is_err());
        assert!(taken(&board, &lane("a", 0)).is_some());
        board.keep_place(&lane("b", 17), &role("a")).unwrap();
    }

    #[test]
    fn whoever_would_wait_for_a_role_that_waits_for_it_is_refused() {
        let board = board(&[("a", 1), ("b", 1), ("c", 1), ("d", 2)]);
        // c is at what a asked and waits for b; b has its own work.
        board.waits(&lane("a", 0), &id("wa"), &id("ra"), &role("c"));
        board.waits(&lane("c", 0), &id("ra"), &id("rc"), &role("b"));
        board.works(&lane("b", 0), &id("wb"));
        let refused = |on: &str| {
            let refused = board.keep_place(&lane("b", 0), &role(on));
            refused.map_err(|refused| refused.to_string())
        };
        assert_eq!(
            refused("a"),
            Err("the request would wait for itself: a → c → b → a".to_owned())
        );
        assert_eq!(
            refused("c"),
            Err("the request would wait for itself: c → b → c".to_owned())
        );
        // d has free lanes, and one behind files is nobody's business.
        assert_eq!(refused("d"), Ok(()));
        assert_eq!(refused("outside"), Ok(()));
        // As long as b has something else to do it gets to what c asked.
        board.rests(&lane("b", 0));
        board.keep_place(&lane("d", 0), &role("a")).unwrap();
    }

    #[test]
    fn a_free_lane_makes_it_no_circle_and_a_request_that_is_in_hand_waits_for_its_own_lane() {
        let board = board(&[("a", 1), ("b", 2)]);
        board.waits(&lane("a", 0), &id("wa"), &id("ra"), &role("b"));
        board.works(&lane("b", 0), &id("wb"));
        // The second lane of b can do what a asked.
        board.keep_place(&lane("b", 0), &role("a")).unwrap();
        board.waits(&lane("b", 0), &id("wb"), &id("rb"), &role("a"));
        board.works(&lane("b", 1), &id("ra"));
        assert!(board.keep_place(&lane("b", 1), &role("a")).is_err());
        // It can end by itself, and does.
        board.keep_place(&lane("b", 1), &role("outside")).unwrap();
    }

    #[test]
    fn a_request_waits_for_a_lane_that_does_something_else() {
        let board = board(&[("a", 1)]);
        board.put(request("r", "a"));
        let hold = || board.hold(&role("a"), &id("r"));
        assert_eq!(hold(), Hold::Untaken);
        board.works(&lane("a", 0), &id("w"));
        assert_eq!(hold(), Hold::Busy);
        board.rests(&lane("a", 0));
        assert!(taken(&board, &lane("a", 0)).is_some());
        assert_eq!(hold(), Hold::Taken);
    }

    #[test]
    fn two_roles_that_ask_each_other_at_once_are_not_both_let_through() {
        let board = board(&[("a", 1), ("b", 1), ("c", 1)]);
        board.works(&lane("a", 0), &id("wa"));
        board.works(&lane("b", 0), &id("wb"));
        board.keep_place(&lane("a", 0), &role("b")).unwrap();
        let refused = board.keep_place(&lane("b", 0), &role("a")).unwrap_err();
        let text = "the request would wait for itself: a → b → a";
        assert_eq!(refused.to_string(), text);
        board.sends(&lane("a", 0), &role("b"));
        assert!(board.keep_place(&lane("b", 0), &role("a")).is_err());
        // Whoever asks another one instead waits for that one.
        board.keep_place(&lane("a", 0), &role("c")).unwrap();
        board.keep_place(&lane("b", 0), &role("a")).unwrap();
        assert!(board.keep_place(&lane("a", 0), &role("b")).is_err());
    }

    #[test]
    fn what_was_waited_for_before_a_crash_is_waited_for_by_whoever_takes_it_up() {
        let board = board(&[("a", 1), ("b", 1), ("c", 2)]);
        board.put(request("rb", "b"));
        board.waited(&role("a"), id("wa"), id("rb"), role("b"));
        board.works(&lane("b", 0), &id("wb"));
        let refused = |asker: &str, on: &str| {
            let kept = board.keep_place(&lane(asker, 0), &role(on));
            kept.is_err()
        };
        // Nobody has taken it up yet, and then its lane has not come to its wait yet.
        assert!(refused("b", "a"));
        board.works(&lane("a", 0), &id("wa"));
        assert!(refused("b", "a"));
        // It asks somebody else: that answer was there already.
        board.keep_place(&lane("a", 0), &role("c")).unwrap();
        assert!(!refused("b", "a"));
        // Of two lanes only one is taken by what was left, and it waits for the lane that is at what it asked.
        board.rests(&lane("a", 0));
        board.rests(&lane("b", 0));
        board.waited(&role("c"), id("wc"), id("ra"), role("a"));
        board.works(&lane("a", 0), &id("ra"));
        assert!(!refused("a", "c"));
        board.works(&lane("c", 0), &id("another"));
        assert!(!refused("a", "c"), "the other one comes to an end");
        board.works(&lane("c", 1), &id("wc"));
        board.waits(&lane("c", 0), &id("another"), &id("r"), &role("a"));
        assert!(refused("a", "c"));
    }

    #[test]
    fn what_nobody_waits_for_leaves_the_queue_or_tells_its_lane() {
        let board = board(&[("a", 1)]);
        board.put(request("r1", "a"));
        board.put(request("r2", "a"));
        assert_eq!(taken(&board, &lane("a", 0)).as_deref(), Some("r1"));
        assert!(board.cancel(&id("r1")) && board.cancel(&id("r2")));
        assert!(!board.cancel(&id("r3")));
        assert!(board.cancelled(&id("r1")) && !board.cancelled(&id("r2")));
        board.rests(&lane("a", 0));
        assert!(!board.cancelled(&id("r1")));
        assert_eq!(taken(&board, &lane("a", 0)), None);
    }
}
