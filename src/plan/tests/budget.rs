//! Budgets: what a limit that is reached stops, what it lets end, and how a human allows more.

use super::*;

/// Makes policies with and without a model, with few lanes, under budgets that are soon used up or none.
pub(super) fn policy() -> impl Strategy<Value = PlanPolicy> {
    let few = || prop::option::of(1..6u64);
    let (coders, writers) = (prop::option::of(0..3u32), prop::option::of(1..3u32));
    let lanes = (1..5u32, coders, writers);
    let limits = (few(), few(), few(), few(), few());
    (any::<bool>(), lanes, limits).prop_map(|(model, lanes, limits)| {
        let (max_parallel, coders, writers) = lanes;
        let (llm_calls, llm_tokens, dollars, seconds, attempts) = limits;
        let roles = [("coder", coders), ("writer", writers)].into_iter();
        let roles = roles.filter_map(|(role, concurrency)| {
            let rules = RoleRules {
                concurrency: concurrency?,
                ..RoleRules::default()
            };
            Some((role.to_owned(), rules))
        });
        PlanPolicy {
            model,
            max_parallel,
            roles: roles.collect(),
            budget: Budget {
                attempts_per_task: 0,
                llm_calls,
                llm_tokens,
                cost_usd: dollars.map(|dollars| dollars as f64),
                wall_time: seconds.map(Duration::from_secs),
                attempts,
            },
            ..PlanPolicy::default()
        }
    })
}

/// What must hold in every plan that can be reached.
pub(super) fn check(plan: &Plan) -> Result<(), TestCaseError> {
    let lived = ActiveTime::default();
    // A call is counted when it begins, one at a time: never one more than is allowed. So is an attempt, but one whose command
    // was taken back may turn out to have been taken.
    let calls = plan.allowed(BudgetLimit::LlmCalls).unwrap_or(f64::INFINITY);
    prop_assert!(plan.used(BudgetLimit::LlmCalls, lived) <= calls);
    let made = plan.attempts().filter(|attempt| {
        attempt.kind != AttemptKind::Repair && attempt.state != AttemptState::Withdrawn
    });
    prop_assert_eq!(plan.attempts_made(), made.count() as u64);
    let due = due(plan, &Observations::default());
    for step in &due.steps {
        let stopped = match step {
            DueStep::Effect(DueEffect::Ask(_)) => plan.no_call(lived),
            DueStep::Issue(_) => plan.no_attempt(lived),
            DueStep::Repair(_) => plan.no_repair(lived),
            _ => None,
        };
        prop_assert_eq!(stopped, None, "{:?} begins", step);
    }
    Ok(())
}

fn limited(model: bool, budget: Budget) -> PlanPolicy {
    PlanPolicy {
        model,
        budget,
        ..PlanPolicy::default()
    }
}

fn restart(plan: &mut Plan, policy: PlanPolicy) {
    apply(plan, |draft| draft.start(policy, "/work"));
}

/// Returns what is due, but for sessions that are over.
fn steps(plan: &Plan, world: &Observations) -> Vec<DueStep> {
    let mut steps = due(plan, world).steps;
    steps.retain(|step| !matches!(step, DueStep::EndSession(_)));
    steps
}

fn steps_now(plan: &Plan) -> Vec<DueStep> {
    steps(plan, &Observations::default())
}

/// Carries out the one step that is due, which must be to stop.
fn stop(plan: &mut Plan, world: &Observations) -> BudgetLimit {
    let found = steps(plan, world);
    let [DueStep::StopAtBudget(limit)] = found[..] else {
        panic!("{found:?}");
    };
    apply(plan, |draft| {
        draft.count_time(world.active_time());
        asking(draft, 90).stop_at_budget(limit)
    });
    assert_eq!(steps(plan, world), [], "it is stopped for good");
    limit
}

fn stop_now(plan: &mut Plan) -> BudgetLimit {
    stop(plan, &Observations::default())
}

#[test]
fn attempt_limit_stops_only_next_attempt() {
    let mut plan = running(&[("a", &[]), ("b", &[0])]);
    let two = Budget {
        attempts: Some(2),
        ..Budget::NONE
    };
    restart(&mut plan, limited(false, two));
    attempt(&mut plan, 1, ReportStatus::Failed);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(2)));
    // The last attempt is let end, though all are used.
    assert_eq!(steps_now(&plan), []);
    apply(&mut plan, |draft| {
        hear(draft, 2, report(ReportStatus::Success, Time(1)))
    });
    assert_eq!(steps_now(&plan), [DueStep::JudgeByRules(command(2))]);
    apply(&mut plan, |draft| judge_by_rules(draft, 2));
    let refused = change(&mut plan, |draft| draft.issue(TaskId(2), issue(3)));
    let told = refused.unwrap_err().to_string();
    assert_eq!(told, "the budget allows no more: 2 of 2 attempts used");
    assert_eq!(stop_now(&mut plan), BudgetLimit::Attempts);
    let why = "budget: 2 of 2 attempts used".to_owned();
    assert_eq!(plan.status(), &PlanState::Paused(why));
    let asked = plan.open_questions().next().unwrap().clone();
    assert_eq!(asked.choices, [AnswerChoice::More, AnswerChoice::Abort]);
    insta::assert_snapshot!(asked.reason, @"budget: 2 of 2 attempts used; nothing new starts. `more` allows another 2 attempts");
    apply(&mut plan, |draft| {
        draft.answer(&asked.id, AnswerChoice::More, "", "test")
    });
    assert_eq!(plan.status(), &PlanState::Running);
    assert_eq!(plan.allowed(BudgetLimit::Attempts), Some(4.0));
    assert_eq!(steps_now(&plan), [DueStep::Issue(TaskId(2))]);
}

#[test]
fn withdrawn_command_uses_no_attempt() {
    let mut plan = running(&[("a", &[])]);
    apply(&mut plan, |draft| draft.issue(TaskId(1), issue(1)));
    assert_eq!(plan.attempts_made(), 1);
    apply(&mut plan, |draft| draft.withdrawn(&command(1)));
    assert_eq!(plan.attempts_made(), 0);
    let late = report(ReportStatus::Success, Time(1));
    apply(&mut plan, |draft| draft.report(&command(1), late));
    assert_eq!(plan.attempts_made(), 1, "it was taken after all");
}

#[test]
fn judge_call_waits_for_budget() {
    let mut plan = running(&[("a", &[])]);
    let cheap = Budget {
        cost_usd: Some(1.0),
        ..Budget::NONE
    };
    restart(&mut plan, limited(true, cheap));
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        let dear = Report {
            cost_usd: 2.5,
            ..report(ReportStatus::Success, Time(1))
        };
        hear(draft, 1, dear)
    });
    assert_eq!(stop_now(&mut plan), BudgetLimit::CostUsd);
    let asked = plan.open_questions().next().unwrap().clone();
    insta::assert_snapshot!(asked.reason, @"budget: $2.50 of $1 used; nothing new starts. `more` allows another $1");
    apply(&mut plan, |draft| {
        draft.answer(&asked.id, AnswerChoice::More, "", "test")
    });
    let allowed = plan.allowed(BudgetLimit::CostUsd);
    assert_eq!(allowed, Some(3.5), "counted from what is used");
    let ask = DueEffect::Ask(ModelQuestionKind::Judge(command(1)));
    assert_eq!(steps_now(&plan), [ask.into()]);
}

#[test]
fn running_llm_call_ends_before_budget_stop() {
    let mut plan = running(&[("a", &[])]);
    let one = Budget {
        llm_calls: Some(1),
        ..Budget::NONE
    };
    restart(&mut plan, limited(true, one));
    let subject = ModelQuestionKind::Judge(command(1));
    apply(&mut plan, |draft| {
        draft.issue(TaskId(1), issue(1))?;
        hear(draft, 1, report(ReportStatus::Success, Time(1)))?;
        draft.begin_ask(&subject)
    });
    let asking = Observations {
        asking: [subject.clone()].into(),
        ..Observations::default()
    };
    let ask = DueEffect::Ask(subject.clone());
    assert_eq!(steps(&plan, &asking), [ask.into()]);
    let second = change(&mut plan, |draft| {
        draft.begin_ask(&ModelQuestionKind::Audit)
    });
    second.expect_err("a second call at the same time is one too many");
    // After a kill the call is gone, and counts all the same.
    assert_eq!(stop_now(&mut plan), BudgetLimit::LlmCalls);
}

#[test]
fn used_budget_skips_summary_but_stops_before_audit() {
    let mut plan = running(&[("a", &[])]);
    attempt(&mut plan, 1, ReportStatus::Success);
    let used = Budget {
        llm_tokens: Some(3),
        ..Budget::NONE
    };
    restart(&mut plan, limited(true, used));
    apply(&mut plan, |draft| {
        let ask = draft.begin_ask(&ModelQuestionKind::Audit)?;
        let spent = ModelCost {
            calls: 1,
            input_tokens: 2,
            output_tokens: 1,
            cost_usd: f64::NAN,
        };
        draft.count_ask(&ask, spent)
    });
    let mut audited = plan.clone();
    assert_eq!(stop_now(&mut plan), BudgetLimit::LlmTokens);
    apply(&mut audited, |draft| asking(draft, 1).audited("met", None));
    assert_eq!(steps_now(&audited), [DueStep::Settle]);
}

#[test]
fn wall_time_counts_concurrent_work_once() {
    let mut plan = running(&[("a", &[]), ("b", &[])]);
    let short = Budget {
        wall_time: Some(Duration::from_secs(90)),
        ..Budget::NONE
    };
    restart(&mut plan, limited(false, short));
    let world = |started, seconds| Observations {
        started: Time(started),
        lived: Duration::from_secs(seconds),
        ..Observations::default()
    };
    assert_eq!(steps(&plan, &world(1, 59)), [DueStep::Issue(TaskId(1))]);
    // A kill makes less than a minute forgotten.
    let counted = [DueStep::Issue(TaskId(1)), DueStep::CountTime];
    assert_eq!(steps(&plan, &world(1, 60)), counted);
    apply(&mut plan, |draft| {
        draft.count_time(world(1, 60).active_time());
        Ok(())
    });
    // Another daemon goes on with its own time.
    assert_eq!(steps(&plan, &world(2, 29)), [DueStep::Issue(TaskId(1))]);
    assert_eq!(stop(&mut plan, &world(2, 30)), BudgetLimit::WallTime);
    insta::assert_snapshot!(plan.open_questions().next().unwrap().reason, @"budget: 90 s of 90 s used; nothing new starts. `more` allows another 90 s");
}

#[test]
fn raised_budget_closes_its_question() {
    let mut plan = running(&[("a", &[])]);
    let calls = |calls| Budget {
        llm_calls: Some(calls),
        ..Budget::NONE
    };
    restart(&mut plan, limited(true, calls(1)));
    apply(&mut plan, |draft| draft.begin_ask(&ModelQuestionKind::Plan));
    stop_now(&mut plan);
    let asked = plan.open_questions().next().unwrap().id.clone();
    restart(&mut plan, limited(true, calls(1)));
    stop_now(&mut plan);
    let open: Vec<_> = plan.open_questions().map(|open| open.id.clone()).collect();
    assert_eq!(open, [asked], "the question is the same one");
    restart(&mut plan, limited(true, calls(2)));
    assert_eq!(plan.open_questions().count(), 0);
    assert_eq!(steps_now(&plan), [DueStep::Issue(TaskId(1))]);
}

#[test]
fn default_for_attempts_grows_with_plan() {
    let numbered = |tasks: usize| {
        let tasks = (1..=tasks).map(|n| task(&n.to_string(), &[]));
        let budget = Budget {
            attempts_per_task: 5,
            ..Budget::default()
        };
        started(tasks, limited(false, budget))
    };
    for (tasks, allowed) in [(1, 200.0), (40, 200.0), (41, 205.0), (1000, 5000.0)] {
        let plan = numbered(tasks);
        assert_eq!(plan.allowed(BudgetLimit::Attempts), Some(allowed));
        assert_eq!(plan.too_small_budget(&plan.head().policy), None);
    }
    // An agent lifts no limit by adding tasks.
    let mut plan = numbered(100);
    apply(&mut plan, |draft| {
        draft.made_by_agent(Some(command(1)));
        draft.add_tasks(vec![task("more", &[]); 50], None).map(drop)
    });
    assert_eq!(plan.allowed(BudgetLimit::Attempts), Some(500.0));
    let plan = numbered(300);
    let written = PlanPolicy::default();
    let said = plan.too_small_budget(&written).unwrap();
    assert!(said.contains("needs 300 attempts"), "{said}");
    assert!(said.contains("allows 200:"), "{said}");
    // Each result is judged by a call.
    let calls = Budget {
        llm_calls: Some(299),
        attempts: None,
        ..Budget::default()
    };
    let said = plan.too_small_budget(&limited(true, calls)).unwrap();
    let needed = "needs 300 calls of the model or more";
    assert!(said.contains(needed), "{said}");
}

#[test]
fn day_allows_what_is_set_until_a_person_allows_more() {
    let mut plan = running(&[("a", &[]), ("b", &[])]);
    apply(&mut plan, |draft| {
        draft.change_head(|head| head.policy.day.cost_usd = Some(10.0));
        Ok(())
    });
    let day = |micro_usd| BudgetDay {
        spent: Spent {
            micro_usd,
            ..Spent::default()
        },
        ends: Time(1_000),
        ends_text: "midnight".to_owned(),
    };
    let stop = |plan: &mut Plan, micro_usd| {
        let day = day(micro_usd);
        apply(plan, |draft| {
            draft.stop_at_day_budget(BudgetLimit::CostUsd, &day)
        });
        plan.status().why().unwrap_or_default().to_owned()
    };
    // As after a restart, which stops it once more.
    for _ in 0..2 {
        let why = stop(&mut plan, 13_500_000);
        assert!(why.contains("$13.50 of $10 used"), "{why}");
        assert!(plan.day_reached(&day(13_500_000)).is_some());
        apply(&mut plan, |draft| draft.go_on_after_day());
    }
    stop(&mut plan, 13_500_000);
    let asked = plan.open_questions().next().unwrap().id.clone();
    apply(&mut plan, |draft| {
        draft.answer(&asked, AnswerChoice::More, "", "")
    });
    assert!(plan.day_reached(&day(23_400_000)).is_none());
    assert!(plan.day_reached(&day(23_500_000)).is_some());
    // Other plans used that up before this one began anything: it has its own amount all the same, once.
    let why = stop(&mut plan, 30_000_000);
    assert_eq!(why, "");
    assert!(plan.day_reached(&day(39_900_000)).is_none());
    apply_at(&mut plan, Time(2), |draft| draft.issue(TaskId(1), issue(1)));
    let why = stop(&mut plan, 40_000_000);
    assert!(why.contains("$40 of $40 used"), "{why}");
    // What a person pauses meanwhile stays so when the day is over.
    assert!(plan.is_stopped_by_day());
    apply(&mut plan, |draft| draft.pause_beyond_day("by me"));
    assert!(plan.stays_paused());
    apply(&mut plan, |draft| draft.go_on_after_day());
    assert_eq!(plan.status().why(), Some("by me"));
    assert!(plan.stays_paused());
}
