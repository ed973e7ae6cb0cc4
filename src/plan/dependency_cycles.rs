//! Dependencies: finds a cycle without recursion, because a long chain would exhaust the stack.

use std::collections::HashMap;
use std::hash::Hash;

use super::{TaskRef, TaskSpec};

/// Returns a cycle that can be reached from `starts`, as a list of its nodes with the first one repeated at the end (`[1, 2,
/// 1]`). The cost is the number of nodes and edges that can be reached.
pub fn find_cycle<N: Copy + Eq + Hash>(
    starts: impl IntoIterator<Item = N>,
    next: impl Fn(N) -> Vec<N>,
) -> Option<Vec<N>> {
    // Each node that was reached, with whether it is done; any other one is on the path.
    let mut reached = HashMap::new();
    for start in starts {
        if reached.contains_key(&start) {
            continue;
        }
        reached.insert(start, false);
        let mut path = vec![(start, next(start).into_iter())];
        while let Some((node, children)) = path.last_mut() {
            let Some(child) = children.next() else {
                reached.insert(*node, true);
                path.pop();
                continue;
            };
            match reached.get(&child) {
                Some(true) => {}
                Some(false) => {
                    let nodes = path.iter().map(|(node, _)| *node);
                    let cycle = nodes.skip_while(|node| *node != child);
                    return Some(cycle.chain([child]).collect());
                }
                None => {
                    reached.insert(child, false);
                    path.push((child, next(child).into_iter()));
                }
            }
        }
    }
    None
}

/// Returns a cycle among new tasks that depend on each other, as their places in the list; see [`find_cycle`].
pub fn cycle_among(tasks: &[TaskSpec]) -> Option<Vec<usize>> {
    let place = |on: &TaskRef| match on {
        TaskRef::New(at) => Some(*at),
        TaskRef::Number(_) | TaskRef::Key(_) => None,
    };
    find_cycle(0..tasks.len(), |at| {
        tasks[at].dependencies.iter().filter_map(place).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    fn cycle(edges: &[(u32, u32)], starts: &[u32]) -> Option<Vec<u32>> {
        find_cycle(starts.iter().copied(), |node| {
            let edges = edges.iter().filter(|(from, _)| *from == node);
            edges.map(|(_, to)| *to).collect()
        })
    }

    #[test]
    fn cycle_lists_its_nodes_in_order() {
        assert_eq!(cycle(&[(1, 2), (2, 3), (3, 2)], &[1]), Some(vec![2, 3, 2]));
        assert_eq!(cycle(&[(1, 1)], &[1]), Some(vec![1, 1]));
    }

    #[test]
    fn diamond_is_no_cycle() {
        let edges = [(1, 2), (1, 3), (2, 4), (3, 4)];
        assert_eq!(cycle(&edges, &[1, 2, 3, 4]), None);
    }

    #[test]
    fn long_chain_does_not_overflow_stack() {
        let next = |node: u32| Vec::from_iter((node < 1_000_000).then_some(node + 1));
        assert_eq!(find_cycle([0], next), None);
    }
}
