//! A sorted set of tasks that knows the rank of each task. Membership, rank, n-th task and change cost about the same for ten
//! tasks and for a hundred thousand. The set consists of short sorted chunks; a search finds the chunk first, and then the
//! place in it.

use super::model::TaskId;

/// The place of a task in the order: its position, and its number among tasks with the same position.
pub(super) type Place = (i64, TaskId);

/// A longer chunk is halved: moving this many places costs less than finding the chunk.
const CHUNK: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct RankedSet {
    chunks: Vec<Chunk>,
    len: usize,
}

/// Neighbouring places; at least one.
#[derive(Clone, Debug)]
struct Chunk {
    /// A copy of the last place: a search for the chunk then does not read the memory of each chunk.
    last: Place,
    places: Vec<Place>,
}

impl RankedSet {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<Place> {
        self.chunks.first()?.places.first().copied()
    }

    pub(super) fn contains(&self, place: &Place) -> bool {
        let chunk = self.chunk_of(place);
        self.chunks
            .get(chunk)
            .is_some_and(|chunk| chunk.places.binary_search(place).is_ok())
    }

    /// Returns how many places come before this one.
    pub(super) fn rank(&self, place: &Place) -> usize {
        let chunk = self.chunk_of(place);
        let before: usize = self.chunks[..chunk]
            .iter()
            .map(|chunk| chunk.places.len())
            .sum();
        let within = self.chunks.get(chunk).map_or(0, |chunk| {
            chunk.places.binary_search(place).unwrap_or_else(|at| at)
        });
        before + within
    }

    /// Returns the chunk that contains the place of a rank, and the rank within the chunk.
    fn find(&self, mut rank: usize) -> Option<(usize, usize)> {
        for (index, chunk) in self.chunks.iter().enumerate() {
            if rank < chunk.places.len() {
                return Some((index, rank));
            }
            rank -= chunk.places.len();
        }
        None
    }

    pub(super) fn get(&self, rank: usize) -> Option<Place> {
        let (chunk, at) = self.find(rank)?;
        self.chunks.get(chunk)?.places.get(at).copied()
    }

    pub(super) fn insert(&mut self, place: Place) {
        // A place after the last chunk's last place goes into that chunk: plans grow at their end.
        let index = self
            .chunk_of(&place)
            .min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(index) else {
            self.chunks.push(Chunk {
                last: place,
                places: vec![place],
            });
            self.len = 1;
            return;
        };
        let Err(at) = chunk.places.binary_search(&place) else {
            return;
        };
        chunk.places.insert(at, place);
        chunk.last = chunk.last.max(place);
        self.len += 1;
        if chunk.places.len() > CHUNK {
            let rest = Chunk {
                last: chunk.last,
                places: chunk.places.split_off(CHUNK / 2),
            };
            chunk.last = chunk.places[CHUNK / 2 - 1];
            self.chunks.insert(index + 1, rest);
        }
    }

    pub(super) fn remove(&mut self, place: &Place) {
        let index = self.chunk_of(place);
        let Some(chunk) = self.chunks.get_mut(index) else {
            return;
        };
        let Ok(at) = chunk.places.binary_search(place) else {
            return;
        };
        chunk.places.remove(at);
        self.len -= 1;
        match chunk.places.last() {
            Some(last) => chunk.last = *last,
            None => drop(self.chunks.remove(index)),
        }
    }

    /// Returns the places of these ranks.
    pub(super) fn span(&self, from: usize, to: usize) -> RankRange<'_> {
        let to = to.min(self.len);
        RankRange {
            places: self,
            from: from.min(to),
            to,
            front: None,
            back: None,
        }
    }

    /// Returns the first chunk whose last place is not before this one.
    fn chunk_of(&self, place: &Place) -> usize {
        self.chunks.partition_point(|chunk| chunk.last < *place)
    }
}

/// Two sets with the same places are equal: the chunks depend only on the order of the insertions.
impl PartialEq for RankedSet {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.span(0, self.len).eq(other.span(0, other.len))
    }
}

/// The places of some ranks, from either end. Skipping costs no more than one step.
#[derive(Clone, Debug)]
pub(super) struct RankRange<'a> {
    places: &'a RankedSet,
    from: usize,
    to: usize,
    /// The chunks of the ranks `from` and `to - 1`, once they have been found.
    front: Option<(usize, usize)>,
    back: Option<(usize, usize)>,
}

impl Iterator for RankRange<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        if self.from >= self.to {
            return None;
        }
        let (chunk, at) = self.front.or_else(|| self.places.find(self.from))?;
        let places = &self.places.chunks.get(chunk)?.places;
        self.from += 1;
        self.front = Some(if at + 1 < places.len() {
            (chunk, at + 1)
        } else {
            (chunk + 1, 0)
        });
        places.get(at).copied()
    }

    fn nth(&mut self, skipped: usize) -> Option<Place> {
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

impl DoubleEndedIterator for RankRange<'_> {
    fn next_back(&mut self) -> Option<Place> {
        if self.from >= self.to {
            return None;
        }
        let (chunk, at) = self.back.or_else(|| self.places.find(self.to - 1))?;
        self.to -= 1;
        self.back = match at.checked_sub(1) {
            Some(at) => Some((chunk, at)),
            None => chunk
                .checked_sub(1)
                .and_then(|chunk| Some((chunk, self.places.chunks.get(chunk)?.places.len() - 1))),
        };
        self.places.chunks.get(chunk)?.places.get(at).copied()
    }

    fn nth_back(&mut self, skipped: usize) -> Option<Place> {
        if skipped > 0 {
            self.to = self.to.saturating_sub(skipped).max(self.from);
            self.back = None;
        }
        self.next_back()
    }
}

impl ExactSizeIterator for RankRange<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Place, RankedSet};
    use crate::plan::model::TaskId;

    fn place(n: u16) -> Place {
        (i64::from(n / 2), TaskId(u32::from(n)))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        /// Mostly insertions, so that chunks are halved many times.
        #[test]
        fn places_behave_like_sorted_set(changes in prop::collection::vec((0u16..4000, 0u8..4), 1..4000), from: prop::sample::Index, skip in 0usize..2000) {
            let (mut places, mut set) = (RankedSet::default(), BTreeSet::new());
            for (n, what) in changes {
                let place = place(n);
                if what == 0 {
                    places.remove(&place);
                    set.remove(&place);
                } else {
                    places.insert(place);
                    set.insert(place);
                }
                prop_assert_eq!(places.contains(&place), set.contains(&place));
            }
            let all: Vec<Place> = set.iter().copied().collect();
            prop_assert_eq!(places.len(), all.len());
            prop_assert_eq!(places.first(), all.first().copied());
            prop_assert_eq!(places.get(all.len()), None);
            for (rank, place) in all.iter().enumerate() {
                prop_assert_eq!(places.rank(place), rank);
                prop_assert_eq!(places.get(rank), Some(*place));
            }
            prop_assert!(places.span(0, usize::MAX).eq(all.iter().copied()));
            prop_assert!(places.span(0, usize::MAX).rev().eq(all.iter().rev().copied()));
            let from = from.index(all.len() + 1);
            let part = || places.span(from, all.len());
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
            for place in &all {
                again.insert(*place);
            }
            prop_assert_eq!(&places, &again);
            again.insert((i64::MAX, TaskId(0)));
            prop_assert_ne!(&places, &again);
        }
    }
}
