use super::*;
use crate::plan::CommandId;

const TAKEN: RequestWait = RequestWait::Runs { taken: true };
const UNTAKEN: RequestWait = RequestWait::Runs { taken: false };

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

fn board(roles: &[(&str, usize)]) -> LaneRegistry {
    LaneRegistry::new(roles.iter().map(|(name, lanes)| (role(name), *lanes)))
}

#[test]
fn full_queue_rejects_requests() {
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
    board.sends(&lane("b", 0), &id("r"), &role("a"));
    assert!(board.keep_place(&lane("b", 16), &role("a")).is_err());
    board.waits(&lane("b", 0), &id("w"), &id("r"), &role("a"), false);
    assert!(board.keep_place(&lane("b", 16), &role("a")).is_err());
    assert_eq!(board.unanswered(&role("a")), [CommandId::new("r")].into());
    board.rests(&lane("b", 1));
    board.keep_place(&lane("b", 16), &role("a")).unwrap();
    assert!(board.keep_place(&lane("b", 17), &role("a")).is_err());
    board.works(&lane("a", 0), &id("r"));
    assert!(board.unanswered(&role("a")).is_empty());
    board.keep_place(&lane("b", 17), &role("a")).unwrap();
}

#[test]
fn rejects_circular_request() {
    let board = board(&[("a", 1), ("b", 1), ("c", 1), ("d", 2)]);
    // c is at what a asked and waits for b; b has its own work.
    board.waits(&lane("a", 0), &id("wa"), &id("ra"), &role("c"), false);
    board.waits(&lane("c", 0), &id("ra"), &id("rc"), &role("b"), false);
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
fn free_lane_breaks_request_cycle() {
    let board = board(&[("a", 1), ("b", 2)]);
    board.waits(&lane("a", 0), &id("wa"), &id("ra"), &role("b"), false);
    board.works(&lane("b", 0), &id("wb"));
    // The second lane of b can do what a asked.
    board.keep_place(&lane("b", 0), &role("a")).unwrap();
    board.waits(&lane("b", 0), &id("wb"), &id("rb"), &role("a"), false);
    board.works(&lane("b", 1), &id("ra"));
    assert!(board.keep_place(&lane("b", 1), &role("a")).is_err());
    // It can end by itself, and does.
    board.keep_place(&lane("b", 1), &role("outside")).unwrap();
}

#[test]
fn request_to_busy_lane_is_held() {
    let board = board(&[("a", 1)]);
    let hold = || board.hold(&role("a"), &id("r"));
    assert_eq!(hold(), UNTAKEN);
    board.works(&lane("a", 0), &id("w"));
    assert_eq!(hold(), RequestWait::Rests);
    board.works(&lane("a", 0), &id("r"));
    assert_eq!(hold(), TAKEN);
}

#[test]
fn rejects_one_of_two_mutual_requests() {
    let board = board(&[("a", 1), ("b", 1), ("c", 1)]);
    board.works(&lane("a", 0), &id("wa"));
    board.works(&lane("b", 0), &id("wb"));
    board.keep_place(&lane("a", 0), &role("b")).unwrap();
    let refused = board.keep_place(&lane("b", 0), &role("a")).unwrap_err();
    let text = "the request would wait for itself: a → b → a";
    assert_eq!(refused.to_string(), text);
    board.sends(&lane("a", 0), &id("r"), &role("b"));
    assert!(board.keep_place(&lane("b", 0), &role("a")).is_err());
    // Whoever asks another one instead waits for that one.
    board.keep_place(&lane("a", 0), &role("c")).unwrap();
    board.keep_place(&lane("b", 0), &role("a")).unwrap();
    assert!(board.keep_place(&lane("a", 0), &role("b")).is_err());
}

#[test]
fn restored_request_counts_for_cycles() {
    let board = board(&[("a", 1), ("b", 1), ("c", 2)]);
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
    board.waits(&lane("c", 0), &id("another"), &id("r"), &role("a"), false);
    assert!(refused("a", "c"));
}

#[test]
fn wait_for_person_passes_through_requests() {
    let board = board(&[("a", 1), ("b", 1)]);
    // a has asked b, which has asked somebody behind files, who has a question.
    board.waits(&lane("a", 0), &id("wa"), &id("ra"), &role("b"), false);
    board.works(&lane("b", 0), &id("ra"));
    let hold = || board.hold(&role("b"), &id("ra"));
    assert_eq!(hold(), TAKEN);
    let waits = |with_person| {
        let coder = role("coder");
        board.waits(&lane("b", 0), &id("ra"), &id("rb"), &coder, with_person);
    };
    waits(true);
    assert_eq!(hold(), RequestWait::Rests);
    assert_eq!(board.hold(&role("a"), &id("wa")), RequestWait::Rests);
    waits(false);
    assert_eq!(hold(), TAKEN);
}
