//! A model that is away.

use std::time::Duration;

use super::testing::{command, running};
use super::{apply, apply_at, asking, question, report_to_model, seen_at};
use crate::plan::{AnswerChoice, AskId, DueEffect, DueStep, ModelQuestionKind, Plan, Time, due};

fn judging() -> ModelQuestionKind {
    ModelQuestionKind::Judge(command(1))
}

/// A plan whose judge is asked about the one task.
fn reported() -> Plan {
    let mut plan = running(&[("a", &[])]);
    apply(&mut plan, report_to_model);
    plan
}

/// Lets the model be asked in vain, with so long a wait that it asks for.
fn fail(plan: &mut Plan, now: Time, n: u32, wait: Duration) -> AskId {
    apply_at(plan, now, |draft| {
        let ask = draft.begin_ask(&judging())?;
        asking(draft, n).failed_ask(&ask, "unreachable", Some(wait))?;
        Ok(ask)
    })
}

/// Returns whether the model is to be asked, and when to look again.
fn at(plan: &Plan, now: Time) -> (bool, Option<Time>) {
    let due = due(plan, &seen_at(now));
    let ask = DueStep::Effect(DueEffect::Ask(judging()));
    (due.steps.contains(&ask), due.look_again)
}

#[test]
fn model_away_is_asked_after_growing_waits() {
    let mut plan = reported();
    let mut now = Time(1000);
    for (n, seconds) in (1..).zip([15, 30, 60, 120, 240, 300, 300]) {
        fail(&mut plan, now, n, Duration::ZERO);
        assert_eq!(plan.open_questions().count(), 1, "the first one stays");
        let again = now.plus(Duration::from_secs(seconds));
        assert_eq!(at(&plan, now), (false, Some(again)), "{n}");
        // A restart knows no more than the plan.
        let rows: Vec<_> = plan.rows().collect();
        let reread = Plan::from_rows(rows).unwrap();
        assert_eq!(at(&reread, now), (false, Some(again)));
        now = again;
        assert_eq!(at(&plan, now), (true, None), "{n}");
    }
    let hour = Duration::from_secs(3600);
    for wait in [hour, 24 * hour] {
        fail(&mut plan, now, 9, wait);
        assert_eq!(at(&plan, now).1, Some(now.plus(hour)), "it asks to wait");
    }
    // A person's word counts at once, and the waits begin anew.
    apply_at(&mut plan, now, |draft| {
        draft.answer(&question(1), AnswerChoice::Retry, "", "test")
    });
    assert_eq!(at(&plan, now), (true, None));
    fail(&mut plan, now, 10, Duration::ZERO);
    let again = now.plus(Duration::from_secs(15));
    assert_eq!(at(&plan, now), (false, Some(again)));
}

#[test]
fn answer_of_model_closes_question() {
    let mut plan = reported();
    let first = fail(&mut plan, Time(1000), 1, Duration::ZERO);
    let second = fail(&mut plan, Time(20_000), 2, Duration::ZERO);
    assert_eq!(first, second, "it is the same question to the model");
    apply_at(&mut plan, Time(60_000), |draft| {
        draft.answered_ask(&first, "next")
    });
    let closed = plan.question(&question(1)).unwrap().closed.clone();
    assert_eq!(closed.as_deref(), Some("the model answers again"));
    assert_eq!(plan.open_questions().count(), 0);
}

#[test]
fn other_failure_is_asked_about_anew() {
    let mut plan = reported();
    let ask = fail(&mut plan, Time(1000), 1, Duration::ZERO);
    apply_at(&mut plan, Time(20_000), |draft| {
        asking(draft, 2).failed_ask(&ask, "no key", None)
    });
    let open: Vec<_> = plan.open_questions().map(|open| open.id.clone()).collect();
    assert_eq!(open, [question(2)]);
    assert_eq!(at(&plan, Time(i64::MAX / 2)), (false, None));
}
