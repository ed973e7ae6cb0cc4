//! Tasks that wait for each other in a circle, in an answer that is not yet part of a plan.

use std::collections::{BTreeMap, BTreeSet};

/// Returns a circle, its first node repeated at the end, if there is one.
pub(super) fn circle<N: Copy + Ord>(graph: &BTreeMap<N, Vec<N>>) -> Option<Vec<N>> {
    let mut done = BTreeSet::new();
    for start in graph.keys() {
        // A path with, for each node on it, the place of the next edge to follow; no recursion, plans may be long chains.
        let mut path: Vec<(N, usize)> = vec![(*start, 0)];
        let mut on_path = BTreeSet::from([*start]);
        while let Some((node, edge)) = path.last_mut() {
            let next = graph.get(node).and_then(|on| on.get(*edge)).copied();
            *edge += 1;
            match next {
                Some(next) if on_path.contains(&next) => {
                    let from = path.iter().position(|(node, _)| *node == next)?;
                    return Some(
                        path[from..]
                            .iter()
                            .map(|(node, _)| *node)
                            .chain([next])
                            .collect(),
                    );
                }
                Some(next) if !done.contains(&next) => {
                    on_path.insert(next);
                    path.push((next, 0));
                }
                Some(_) => {}
                None => {
                    on_path.remove(node);
                    done.insert(*node);
                    path.pop();
                }
            }
        }
    }
    None
}

/// Writes a circle down.
pub(super) fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" → ")
}
