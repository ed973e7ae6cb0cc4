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
    CommandId::new(name)
}

fn wait(request: &str, on: &str) -> RoleWait {
    RoleWait::sent(id(request), role(on))
}

fn registry(roles: &[(&str, usize)]) -> LaneRegistry {
    LaneRegistry::new(roles.iter().map(|(name, lanes)| (role(name), *lanes)))
}

#[test]
fn full_queue_rejects_requests() {
    let registry = registry(&[("a", 1), ("b", 20)]);
    for index in 0..QUEUE {
        registry.keep_place(&lane("b", index), &role("a")).unwrap();
        // The same lane keeps one place only.
        registry.keep_place(&lane("b", index), &role("a")).unwrap();
    }
    let full = registry.keep_place(&lane("b", 16), &role("a"));
    let text = full.unwrap_err().to_string();
    assert_eq!(text, "role `a` has 16 requests waiting already");
    // The place of one becomes its request; another one ends without having asked.
    registry.sends(&lane("b", 0), &id("r"), &role("a"));
    assert!(registry.keep_place(&lane("b", 16), &role("a")).is_err());
    registry.waits(&lane("b", 0), &id("w"), wait("r", "a"), false);
    assert!(registry.keep_place(&lane("b", 16), &role("a")).is_err());
    assert_eq!(
        registry.unanswered(&role("a")),
        [CommandId::new("r")].into()
    );
    registry.rests(&lane("b", 1));
    registry.keep_place(&lane("b", 16), &role("a")).unwrap();
    assert!(registry.keep_place(&lane("b", 17), &role("a")).is_err());
    registry.works(&lane("a", 0), &id("r"));
    assert!(registry.unanswered(&role("a")).is_empty());
    registry.keep_place(&lane("b", 17), &role("a")).unwrap();
}

#[test]
fn rejects_circular_request() {
    let registry = registry(&[("a", 1), ("b", 1), ("c", 1), ("d", 2)]);
    // c is at what a asked and waits for b; b has its own work.
    registry.waits(&lane("a", 0), &id("wa"), wait("ra", "c"), false);
    registry.waits(&lane("c", 0), &id("ra"), wait("rc", "b"), false);
    registry.works(&lane("b", 0), &id("wb"));
    let refused = |on: &str| {
        let refused = registry.keep_place(&lane("b", 0), &role(on));
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
    registry.rests(&lane("b", 0));
    registry.keep_place(&lane("d", 0), &role("a")).unwrap();
}

#[test]
fn free_lane_breaks_request_cycle() {
    let registry = registry(&[("a", 1), ("b", 2)]);
    registry.waits(&lane("a", 0), &id("wa"), wait("ra", "b"), false);
    registry.works(&lane("b", 0), &id("wb"));
    // The second lane of b can do what a asked.
    registry.keep_place(&lane("b", 0), &role("a")).unwrap();
    registry.waits(&lane("b", 0), &id("wb"), wait("rb", "a"), false);
    registry.works(&lane("b", 1), &id("ra"));
    assert!(registry.keep_place(&lane("b", 1), &role("a")).is_err());
    // It can end by itself, and does.
    registry
        .keep_place(&lane("b", 1), &role("outside"))
        .unwrap();
}

#[test]
fn request_to_busy_lane_is_held() {
    let registry = registry(&[("a", 1)]);
    let hold = || registry.hold(&role("a"), &id("r"));
    assert_eq!(hold(), UNTAKEN);
    registry.works(&lane("a", 0), &id("w"));
    assert_eq!(hold(), RequestWait::Rests);
    registry.works(&lane("a", 0), &id("r"));
    assert_eq!(hold(), TAKEN);
}

#[test]
fn rejects_one_of_two_mutual_requests() {
    let registry = registry(&[("a", 1), ("b", 1), ("c", 1)]);
    registry.works(&lane("a", 0), &id("wa"));
    registry.works(&lane("b", 0), &id("wb"));
    registry.keep_place(&lane("a", 0), &role("b")).unwrap();
    let refused = registry.keep_place(&lane("b", 0), &role("a")).unwrap_err();
    let text = "the request would wait for itself: a → b → a";
    assert_eq!(refused.to_string(), text);
    registry.sends(&lane("a", 0), &id("r"), &role("b"));
    assert!(registry.keep_place(&lane("b", 0), &role("a")).is_err());
    // Whoever asks another one instead waits for that one.
    registry.keep_place(&lane("a", 0), &role("c")).unwrap();
    registry.keep_place(&lane("b", 0), &role("a")).unwrap();
    assert!(registry.keep_place(&lane("a", 0), &role("b")).is_err());
}

#[test]
fn restored_request_counts_for_cycles() {
    let registry = registry(&[("a", 1), ("b", 1), ("c", 2)]);
    registry.waited(&role("a"), id("wa"), id("rb"), role("b"));
    registry.works(&lane("b", 0), &id("wb"));
    let refused = |asker: &str, on: &str| {
        let kept = registry.keep_place(&lane(asker, 0), &role(on));
        kept.is_err()
    };
    // Nobody has taken it up yet, and then its lane has not come to its wait yet.
    assert!(refused("b", "a"));
    registry.works(&lane("a", 0), &id("wa"));
    assert!(refused("b", "a"));
    // It asks somebody else: that answer was there already.
    registry.keep_place(&lane("a", 0), &role("c")).unwrap();
    assert!(!refused("b", "a"));
    // Of two lanes only one is taken by what was left, and it waits for the lane that is at what it asked.
    registry.rests(&lane("a", 0));
    registry.rests(&lane("b", 0));
    registry.waited(&role("c"), id("wc"), id("ra"), role("a"));
    registry.works(&lane("a", 0), &id("ra"));
    assert!(!refused("a", "c"));
    registry.works(&lane("c", 0), &id("another"));
    assert!(!refused("a", "c"), "the other one comes to an end");
    registry.works(&lane("c", 1), &id("wc"));
    registry.waits(&lane("c", 0), &id("another"), wait("r", "a"), false);
    assert!(refused("a", "c"));
}

#[test]
fn wait_for_person_passes_through_requests() {
    let registry = registry(&[("a", 1), ("b", 1)]);
    // a has asked b, which has asked somebody behind files, who has a question.
    registry.waits(&lane("a", 0), &id("wa"), wait("ra", "b"), false);
    registry.works(&lane("b", 0), &id("ra"));
    let hold = || registry.hold(&role("b"), &id("ra"));
    assert_eq!(hold(), TAKEN);
    let waits = |rests| {
        let coder = role("coder");
        registry.waits(
            &lane("b", 0),
            &id("ra"),
            RoleWait::sent(id("rb"), coder),
            rests,
        );
    };
    waits(true);
    assert_eq!(hold(), RequestWait::Rests);
    assert_eq!(registry.hold(&role("a"), &id("wa")), RequestWait::Rests);
    waits(false);
    assert_eq!(hold(), TAKEN);
}
