//! Changes that a caller may ask for again.

use super::*;
use crate::plan::{ChangeEnd, RepeatableChange};

/// Asks for a pause as the caller of a key, the plan being as it was after a change.
fn ask(plan: &mut Plan, after: i64, key: &str, content: &str, seen: i64) -> ChangeEnd {
    let mut draft = Draft::new(plan, Time(1)).after(after);
    let asked = RepeatableChange {
        key: Some(key.to_owned()),
        content: content.to_owned(),
        if_seq: Some(seen),
    };
    let pause = |draft: &mut Draft<'_>| draft.pause(content).map(|()| format!("said {content}"));
    let end = draft.once(asked, pause).unwrap();
    draft.finish();
    end
}

fn done(seq: i64, said: &str) -> ChangeEnd {
    let said = said.to_owned();
    ChangeEnd::Done { seq, said }
}

#[test]
fn change_is_made_once_for_its_key() {
    let mut plan = running(&[("a", &[])]);
    assert_eq!(ask(&mut plan, 4, "k", "x", 4), done(5, "said x"));
    let made = plan.clone();
    // The caller that asks again has seen the plan as it was before.
    assert_eq!(ask(&mut plan, 9, "k", "x", 4), done(5, "said x"));
    assert_eq!(ask(&mut plan, 9, "k", "y", 9), ChangeEnd::KeyTaken);
    assert_eq!(ask(&mut plan, 9, "other", "x", 4), ChangeEnd::Moved(9));
    assert_eq!(plan, made);

    // An earlier state does not forget it.
    let earlier = running(&[("a", &[]), ("b", &[])]);
    apply(&mut plan, |draft| draft.restore(&earlier, 3));
    assert_eq!(ask(&mut plan, 10, "k", "x", 4), done(5, "said x"));

    for n in 0..32 {
        ask(&mut plan, 11 + n, &n.to_string(), "x", 11 + n);
    }
    assert_eq!(plan.head().made_changes.len(), 32);
    assert_eq!(ask(&mut plan, 50, "0", "x", 50), done(12, "said x"));
    assert_eq!(ask(&mut plan, 50, "k", "x", 4), ChangeEnd::Moved(50));
}

#[test]
fn what_changes_nothing_is_not_kept() {
    let mut plan = running(&[("a", &[])]);
    let mut draft = Draft::new(&mut plan, Time(1)).after(4);
    let key = Some("k".to_owned());
    let asked = RepeatableChange {
        key,
        ..RepeatableChange::default()
    };
    let end = draft.once(asked, |_| Ok("already".to_owned()));
    assert_eq!(end, Ok(done(4, "already")));
    assert_eq!(draft.finish(), Delta::default());
}
