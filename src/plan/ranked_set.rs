//! The tasks of a plan or of a role in their order, each with its kind. Looking a task up, its rank, the n-th task of some
//! kinds and a change cost about the same for ten tasks and for a hundred thousand: the list consists of short sorted chunks
//! that count their tasks by kind; a search finds the chunk first, and then the place in it.

use std::collections::BTreeMap;

use super::{Task, TaskId};

/// The place of a task in the order: its position, and its number among tasks with the same position.
pub(super) type Place = (i64, TaskId);

/// Kinds of tasks, a bit each; a task is of one kind.
pub(super) type Kinds = u8;

pub(super) const FREE: Kinds = 1;
pub(super) const BOUND: Kinds = 2;
pub(super) const IN_PROGRESS: Kinds = 4;
pub(super) const COMPLETED: Kinds = 8;
pub(super) const FAILED: Kinds = 16;
pub(super) const SKIPPED: Kinds = 32;
/// Pending tasks are free of unmet dependencies, or bound by them.
pub(super) const PENDING: Kinds = FREE | BOUND;
pub(super) const UNSETTLED: Kinds = PENDING | IN_PROGRESS;
/// Tasks that are not skipped.
pub(super) const WANTED: Kinds = UNSETTLED | COMPLETED | FAILED;
pub(super) const ALL: Kinds = WANTED | SKIPPED;

const KINDS: usize = ALL.count_ones() as usize;

/// A longer chunk is halved: moving this many places costs less than finding the chunk.
const CHUNK: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct RankedSet {
    chunks: Vec<Chunk>,
    /// Those of all chunks: to count is asked for at nearly every call of a tool.
    counts: Counts,
}

/// How many places are of each kind.
#[derive(Clone, Debug, Default)]
struct Counts([usize; KINDS]);

impl Counts {
    fn of(&self, kinds: Kinds) -> usize {
        let counted = |(kind, count): (usize, &usize)| match kinds & (1 << kind) {
            0 => 0,
            _ => *count,
        };
        self.0.iter().enumerate().map(counted).sum()
    }

    fn at(&mut self, kind: Kinds) -> &mut usize {
        &mut self.0[kind.trailing_zeros() as usize]
    }
}

/// Neighbouring places, at least one, each with the kind of its task.
#[derive(Clone, Debug, Default)]
struct Chunk {
    places: Vec<(Place, Kinds)>,
    counts: Counts,
}

impl Chunk {
    fn new(places: Vec<(Place, Kinds)>) -> Self {
        let mut counts = Counts::default();
        for (_, kind) in &places {
            *counts.at(*kind) += 1;
        }
        Self { places, counts }
    }

    fn search(&self, place: &Place) -> Result<usize, usize> {
        self.places.binary_search_by_key(place, |(place, _)| *place)
    }
}

impl RankedSet {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn count(&self, kinds: Kinds) -> usize {
        self.counts.of(kinds)
    }

    pub(super) fn first(&self, kinds: Kinds) -> Option<Place> {
        let (chunk, at) = self.find(kinds, 0)?;
        Some(self.chunks[chunk].places[at].0)
    }

    /// Returns the kind of the task at a place.
    pub(super) fn kind(&self, place: &Place) -> Option<Kinds> {
        let chunk = self.chunks.get(self.chunk_of(place))?;
        Some(chunk.places[chunk.search(place).ok()?].1)
    }

    /// Returns how many places come before this one.
    pub(super) fn rank(&self, place: &Place) -> usize {
        let (before, rest) = self.chunks.split_at(self.chunk_of(place));
        let before: usize = before.iter().map(|chunk| chunk.places.len()).sum();
        let within = rest.first().map(|chunk| chunk.search(place));
        before + within.map_or(0, |at| at.unwrap_or_else(|at| at))
    }

    /// Sets the kind of the task at a place; `None` removes it.
    pub(super) fn set(&mut self, place: Place, kind: Option<Kinds>) {
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::default());
        }
        // A place after the last chunk's last place goes into that chunk: plans grow at their end.
        let index = self.chunk_of(&place).min(self.chunks.len() - 1);
        let chunk = &mut self.chunks[index];
        let found = chunk.search(&place);
        if let Ok(at) = found {
            let before = chunk.places[at].1;
            *chunk.counts.at(before) -= 1;
            *self.counts.at(before) -= 1;
        }
        if let Some(kind) = kind {
            *chunk.counts.at(kind) += 1;
            *self.counts.at(kind) += 1;
        }
        match (found, kind) {
            (Ok(at), Some(kind)) => chunk.places[at].1 = kind,
            (Ok(at), None) => drop(chunk.places.remove(at)),
            (Err(at), Some(kind)) => chunk.places.insert(at, (place, kind)),
            (Err(_), None) => {}
        }
        if chunk.places.is_empty() {
            self.chunks.remove(index);
        } else if chunk.places.len() > CHUNK {
            let rest = Chunk::new(chunk.places.split_off(CHUNK / 2));
            *chunk = Chunk::new(std::mem::take(&mut chunk.places));
            self.chunks.insert(index + 1, rest);
        }
    }

    /// Returns the tasks of these kinds with these ranks among them.
    pub(super) fn tasks<'a>(
        &'a self,
        rows: &'a BTreeMap<TaskId, Task>,
        kinds: Kinds,
        from: usize,
        to: usize,
    ) -> Tasks<'a> {
        let to = to.min(self.count(kinds));
        Tasks {
            rows,
            set: self,
            kinds,
            from: from.min(to),
            to,
            front: None,
            back: None,
        }
    }

    /// Returns the first chunk whose last place is not before this one.
    fn chunk_of(&self, place: &Place) -> usize {
        let before = |chunk: &Chunk| chunk.places.last().is_some_and(|(last, _)| last < place);
        self.chunks.partition_point(before)
    }

    /// Returns the chunk and the index of a rank among the tasks of some kinds.
    fn find(&self, kinds: Kinds, mut rank: usize) -> Option<(usize, usize)> {
        for (index, chunk) in self.chunks.iter().enumerate() {
            let count = chunk.counts.of(kinds);
            if rank < count {
                let places = chunk.places.iter().enumerate();
                let mut counted = places.filter(|(_, (_, kind))| kind & kinds != 0);
                return Some((index, counted.nth(rank)?.0));
            }
            rank -= count;
        }
        None
    }
}

/// Two lists with the same tasks are equal: the chunks depend only on the order of the insertions.
impl PartialEq for RankedSet {
    fn eq(&self, other: &Self) -> bool {
        let [places, others] = [self, other].map(|set| set.chunks.iter());
        (places.flat_map(|chunk| &chunk.places)).eq(others.flat_map(|chunk| &chunk.places))
    }
}

/// Tasks of a plan in its order, from either end; skipping from the front costs no more than one step.
#[derive(Clone, Debug)]
pub struct Tasks<'a> {
    rows: &'a BTreeMap<TaskId, Task>,
    set: &'a RankedSet,
    kinds: Kinds,
    from: usize,
    to: usize,
    /// The chunk of the last task that was taken from this end, and where the rest of the chunk begins or ends.
    front: Option<(usize, usize)>,
    back: Option<(usize, usize)>,
}

impl<'a> Tasks<'a> {
    fn row(&self, chunk: usize, at: usize) -> Option<&'a Task> {
        let ((_, id), _) = self.set.chunks.get(chunk)?.places.get(at)?;
        self.rows.get(id)
    }
}

impl<'a> Iterator for Tasks<'a> {
    type Item = &'a Task;

    fn next(&mut self) -> Option<&'a Task> {
        if self.from >= self.to {
            return None;
        }
        let in_chunk = self.front.and_then(|(chunk, at)| {
            let mut rest = self.set.chunks[chunk].places[at..].iter();
            let next = rest.position(|(_, kind)| kind & self.kinds != 0)?;
            Some((chunk, at + next))
        });
        let (chunk, at) = in_chunk.or_else(|| self.set.find(self.kinds, self.from))?;
        self.front = Some((chunk, at + 1));
        self.from += 1;
        self.row(chunk, at)
    }

    fn nth(&mut self, skipped: usize) -> Option<&'a Task> {
        if skipped > 0 {
            self.from = self.from.saturating_add(skipped).min(self.to);
            self.front = None;
        }
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.to - self.from;
        (left, Some(left))
    }
}

impl<'a> DoubleEndedIterator for Tasks<'a> {
    fn next_back(&mut self) -> Option<&'a Task> {
        if self.from >= self.to {
            return None;
        }
        let in_chunk = self.back.and_then(|(chunk, end)| {
            let mut rest = self.set.chunks[chunk].places[..end].iter();
            Some((chunk, rest.rposition(|(_, kind)| kind & self.kinds != 0)?))
        });
        let (chunk, at) = in_chunk.or_else(|| self.set.find(self.kinds, self.to - 1))?;
        self.back = Some((chunk, at));
        self.to -= 1;
        self.row(chunk, at)
    }
}

impl ExactSizeIterator for Tasks<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{ALL, FAILED, FREE, Kinds, PENDING, Place, RankedSet, UNSETTLED};
    use crate::plan::model::{Task, TaskId, TaskSpec, Time};

    fn task(n: u16) -> Task {
        Task {
            position: i64::from(n / 2),
            ..Task::new(TaskId(u32::from(n)), TaskSpec::default(), Time(0))
        }
    }

    fn place(task: &Task) -> Place {
        (task.position, task.number)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        /// Mostly insertions, so that chunks are halved many times.
        #[test]
        fn places_behave_like_sorted_set(
            changes in prop::collection::vec((0u16..4000, prop::sample::select(vec![None, Some(FREE), Some(FREE), Some(FAILED)])), 1..4000),
            kinds in prop::sample::select(vec![FREE, FAILED, PENDING, UNSETTLED, FAILED | FREE, ALL]),
            from: prop::sample::Index,
            skip in 0usize..2000,
        ) {
            let rows: BTreeMap<TaskId, Task> = (0..4000).map(|n| (TaskId(u32::from(n)), task(n))).collect();
            let (mut places, mut map) = (RankedSet::default(), BTreeMap::<Place, Kinds>::new());
            for (n, kind) in changes {
                let place = place(&task(n));
                places.set(place, kind);
                match kind {
                    Some(kind) => map.insert(place, kind),
                    None => map.remove(&place),
                };
                prop_assert_eq!(places.kind(&place), map.get(&place).copied());
            }
            for (rank, place) in map.keys().enumerate() {
                prop_assert_eq!(places.rank(place), rank);
            }
            let all: Vec<&Task> = map.iter().filter(|(_, kind)| *kind & kinds != 0).map(|((_, id), _)| &rows[id]).collect();
            let tasks = |from, to| places.tasks(&rows, kinds, from, to);
            prop_assert_eq!(places.count(kinds), all.len());
            prop_assert_eq!(places.first(kinds), all.first().map(|task| place(task)));
            prop_assert_eq!(tasks(all.len(), usize::MAX).next(), None);
            for (rank, task) in all.iter().enumerate() {
                prop_assert_eq!(tasks(rank, rank + 1).next(), Some(*task));
            }
            prop_assert!(tasks(0, usize::MAX).eq(all.iter().copied()));
            prop_assert!(tasks(0, usize::MAX).rev().eq(all.iter().rev().copied()));
            let from = from.index(all.len() + 1);
            let part = || tasks(from, all.len());
            prop_assert_eq!(part().len(), all.len() - from);
            prop_assert!(part().skip(skip).eq(all[from..].iter().skip(skip).copied()));
            prop_assert!(part().rev().skip(skip).eq(all[from..].iter().rev().skip(skip).copied()));
            let (mut both, mut rest) = (part(), all[from..].iter());
            prop_assert_eq!(both.next(), rest.next().copied());
            prop_assert_eq!(both.next_back(), rest.next_back().copied());
            prop_assert_eq!(both.nth(skip), rest.nth(skip).copied());
            prop_assert_eq!(both.nth_back(3), rest.nth_back(3).copied());
            prop_assert!(both.eq(rest.copied()));

            let mut again = RankedSet::default();
            for (place, kind) in &map {
                again.set(*place, Some(*kind));
            }
            prop_assert_eq!(&places, &again);
            again.set((i64::MAX, TaskId(0)), Some(FREE));
            prop_assert_ne!(&places, &again);
        }
    }
}
