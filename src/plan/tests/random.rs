//! The core under random operations: what holds of every plan that can be reached.

mod invariants;

use std::collections::BTreeSet;

use super::*;
use invariants::{check_invariants, check_line, check_restored};

/// One random thing that somebody does to a plan.
#[derive(Clone, Debug)]
enum Op {
    Add(Vec<Vec<u32>>, u32),
    Depend(u32, Vec<u32>),
    Remove(u32),
    Skip(u32),
    /// What a person does to a task.
    Tell(u32, bool),
    Retry(u32),
    SkipByHand(u32),
    Done(u32),
    AddByHand(u32, Option<u32>),
    /// Changes one task, and adds one before it or leaves one out.
    Edit(u32, u32, bool),
    Issue(u32),
    Repair(u32),
    Claim(u32),
    /// A role waits for another one.
    Wait(u32),
    /// A wait that is open ends.
    EndWait(usize),
    Report(u32, ReportStatus),
    Reject(u32),
    Decide(u32, Decision),
    /// An attempt from the command until its result is accepted.
    Complete(u32),
    TimeOut(u32),
    Withdrawn(u32),
    Answer(u32, usize),
    Replan(u32),
    FailAsk,
    /// Asks the model what is due, and what it uses and takes.
    Ask(u64, u64),
    Merge(u32),
    Elsewhere,
    Pause,
    Resume,
    Abandon,
    Reset,
    /// Goes back to one of the states so far, and on from there or not.
    Restore(prop::sample::Index, bool),
    Decisions,
}

fn op() -> impl Strategy<Value = Op> {
    let id = || 1..8u32;
    let status = prop_oneof![
        Just(ReportStatus::Success),
        Just(ReportStatus::Failed),
        Just(ReportStatus::PartialSuccess)
    ];
    let decision = prop_oneof![
        Just(Decision::Next),
        Just(Decision::Retry),
        Just(Decision::Replan),
        Just(Decision::Abort)
    ];
    prop_oneof![
        2 => (prop::collection::vec(prop::collection::vec(id(), 0..3), 1..4), id()).prop_map(|(deps, after)| Op::Add(deps, after)),
        2 => (id(), prop::collection::vec(id(), 0..3)).prop_map(|(task, deps)| Op::Depend(task, deps)),
        1 => id().prop_map(Op::Remove),
        1 => id().prop_map(Op::Skip),
        2 => (id(), any::<bool>()).prop_map(|(task, now)| Op::Tell(task, now)),
        2 => id().prop_map(Op::Retry),
        1 => id().prop_map(Op::SkipByHand),
        1 => id().prop_map(Op::Done),
        1 => (id(), prop::option::of(id())).prop_map(|(after, before)| Op::AddByHand(after, before)),
        1 => (id(), id(), any::<bool>()).prop_map(|(task, other, add)| Op::Edit(task, other, add)),
        8 => id().prop_map(Op::Issue),
        2 => id().prop_map(Op::Repair),
        4 => id().prop_map(Op::Claim),
        3 => id().prop_map(Op::Wait),
        2 => (0..3usize).prop_map(Op::EndWait),
        8 => (id(), status).prop_map(|(task, status)| Op::Report(task, status)),
        3 => id().prop_map(Op::Reject),
        8 => (id(), decision).prop_map(|(task, decision)| Op::Decide(task, decision)),
        4 => id().prop_map(Op::Complete),
        2 => id().prop_map(Op::TimeOut),
        2 => id().prop_map(Op::Withdrawn),
        6 => (0..4u32, 0..9usize).prop_map(|(question, choice)| Op::Answer(question, choice)),
        2 => id().prop_map(Op::Replan),
        1 => Just(Op::FailAsk),
        4 => (0..3u64, 0..3u64).prop_map(|(tokens, seconds)| Op::Ask(tokens, seconds)),
        4 => id().prop_map(Op::Merge),
        1 => Just(Op::Elsewhere),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
        1 => prop::bool::weighted(0.1).prop_map(|end| if end { Op::Abandon } else { Op::Resume }),
        1 => prop::bool::weighted(0.2).prop_map(|reset| if reset { Op::Reset } else { Op::Decisions }),
        2 => any::<(prop::sample::Index, bool)>().prop_map(|(state, resume)| Op::Restore(state, resume)),
        6 => Just(Op::Decisions),
    ]
}

fn role(n: u32) -> Option<String> {
    let role = ["coder", "writer"].get(n as usize % 3);
    role.map(|&role| role.to_owned())
}

fn apply(draft: &mut Draft<'_>, op: &Op, n: u32) -> Result<(), Refusal> {
    let current = |draft: &Draft<'_>, task: u32| {
        let current = draft.task(TaskId(task))?.current;
        current.ok_or_else(|| Refusal::UnknownTask(task.to_string()))
    };
    match op {
        Op::Add(deps, after) => {
            let reference = |dep: &u32| match dep % 2 {
                0 => TaskRef::Number(TaskId(*dep)),
                _ => TaskRef::New((*dep / 2) as usize),
            };
            let tasks = deps.iter().enumerate().map(|(index, deps)| TaskSpec {
                name: format!("task {n}.{index}"),
                dependencies: deps.iter().map(reference).collect(),
                assignee: role(n + index as u32),
                ..TaskSpec::default()
            });
            let after = Some(TaskId(*after)).filter(|id| draft.plan().task(*id).is_some());
            draft.add_tasks(tasks.collect(), after).map(drop)
        }
        Op::Depend(task, deps) => {
            let dependencies = deps.iter().map(|dep| TaskRef::Number(TaskId(*dep)));
            let changes = TaskChanges {
                dependencies: Some(dependencies.collect()),
                assignee: Some(role(n)),
                ..TaskChanges::default()
            };
            draft.update_task(TaskId(*task), &changes)
        }
        Op::Remove(task) => draft.remove_task(TaskId(*task)),
        Op::Skip(task) => draft.skip_task(TaskId(*task), "left out"),
        Op::Issue(task) => draft.issue(TaskId(*task), issue(n)),
        Op::Repair(task) => draft.issue(TaskId(*task), repair(n)),
        Op::Claim(task) => draft.claim(&current(draft, *task)?, None).map(drop),
        Op::Wait(task) => draft.begin_wait(&current(draft, *task)?, waits::wait(n)),
        Op::EndWait(index) => {
            let open = draft.plan().waits().nth(*index);
            if let Some(request) = open.map(|(_, wait)| wait.request.clone()) {
                draft.end_wait(&request, RoleRequestEnd::Error);
            }
            Ok(())
        }
        Op::Tell(task, now) => draft
            .tell(TaskId(*task), &format!("words {n}"), *now)
            .map(drop),
        Op::Retry(task) => draft.retry_task(TaskId(*task), "once more"),
        Op::SkipByHand(task) => draft.skip_by_hand(TaskId(*task), "").map(drop),
        Op::Done(task) => draft.complete_by_hand(TaskId(*task), "").map(drop),
        Op::AddByHand(after, before) => {
            let spec = TaskSpec {
                dependencies: vec![TaskRef::Number(TaskId(*after))],
                ..super::tests::task("by hand", &[])
            };
            draft.add_by_hand(spec, before.map(TaskId)).map(drop)
        }
        Op::Edit(task, other, add) => {
            let seen = draft.task(TaskId(*task))?;
            let edit = match add {
                true => TaskEdit::Add(Box::new(super::tests::task("edited in", &[]))),
                false => TaskEdit::Skip(TaskId(*other)),
            };
            let spec = TaskSpec {
                name: format!("edited {n}"),
                dependencies: vec![TaskRef::Number(TaskId(*other))],
                ..TaskSpec::default()
            };
            draft.edit_tasks(&[edit, TaskEdit::Change(Box::new(seen), Box::new(spec))])
        }
        Op::Report(task, status) => draft
            .report(&current(draft, *task)?, report(*status, draft.now()))
            .map(drop),
        Op::Reject(task) => {
            let (id, hash) = (current(draft, *task)?, n.to_string());
            asking(draft, n).reject(&id, "no status", &hash).map(drop)
        }
        Op::Decide(task, decision) => {
            let id = current(draft, *task)?;
            let (decision, rules) = (*decision, ruled(draft, &id)?);
            asking(draft, n).judge(&id, &Verdict { decision, ..rules })
        }
        Op::Complete(task) => {
            draft.issue(TaskId(*task), issue(n))?;
            hear(draft, n, report(ReportStatus::Success, draft.now()))?;
            merge(draft, &command(n), n)?;
            if draft.plan().head().line.is_some() {
                draft.checked(&command(n), vec![])?;
            }
            apply(draft, &Op::Decide(*task, Decision::Next), n)
        }
        Op::TimeOut(task) => {
            let id = current(draft, *task)?;
            asking(draft, n).time_out(&id, "silent")
        }
        Op::Withdrawn(task) => draft.withdrawn(&current(draft, *task)?),
        Op::Answer(index, choice) => {
            let open = draft.plan().open_questions().nth(*index as usize).cloned();
            let open = open.ok_or(Refusal::NoNote)?;
            draft.answer(&open.id, AnswerChoice::ALL[*choice], "a note", "test")
        }
        Op::Replan(task) => {
            let edits = [
                ReplanEdit::Skip(TaskId(*task), "other way".to_owned()),
                ReplanEdit::Add(Box::new(super::tests::task("new", &[]))),
            ];
            draft.replan(&edits, "another way")
        }
        Op::FailAsk => {
            let subject = ModelQuestionKind::Replan;
            let id = draft.begin_ask(&subject)?;
            asking(draft, n).failed_ask(&id, "unreachable", None)
        }
        Op::Ask(tokens, seconds) => {
            let asked = due(draft.plan(), &seen_at(draft.now())).steps;
            let subject = asked.iter().find_map(|step| match step {
                DueStep::Effect(DueEffect::Ask(subject)) => Some(subject),
                _ => None,
            });
            let subject = subject.ok_or(Refusal::UnknownAsk)?;
            let id = draft.begin_ask(subject)?;
            draft.count_time(ActiveTime {
                since: draft.now(),
                span: Duration::from_secs(*seconds),
            });
            let spent = ModelCost {
                calls: 1,
                input_tokens: *tokens,
                ..ModelCost::default()
            };
            draft.count_ask(&id, spent)?;
            match subject {
                ModelQuestionKind::Audit => {
                    draft.answered_ask(&id, "met")?;
                    asking(draft, n).audited("met", None)
                }
                ModelQuestionKind::Summary => {
                    draft.answered_ask(&id, "over")?;
                    draft.settle("over")
                }
                _ => {
                    let away = (tokens % 2 == 0).then_some(Duration::ZERO);
                    asking(draft, n).failed_ask(&id, "unreachable", away)
                }
            }
        }
        Op::Merge(task) => {
            let id = current(draft, *task)?;
            merge(draft, &id, n)?;
            draft.checked(&id, vec![])
        }
        Op::Elsewhere => asking(draft, n).branch_elsewhere(&n.to_string(), "it is elsewhere"),
        Op::Pause => draft.pause("a break"),
        Op::Resume => draft.resume(),
        Op::Abandon => draft.abandon("enough"),
        Op::Reset => {
            let policy = draft.plan().head().policy.clone();
            draft.reset()?;
            draft.start(policy, "/work").map(drop)
        }
        // Needs more than the plan as it is.
        Op::Restore(..) => Ok(()),
        Op::Decisions => {
            for step in due(draft.plan(), &seen_at(draft.now())).steps {
                match step {
                    // What was due a moment ago may be the last that the budget allowed.
                    DueStep::Issue(task)
                        if draft.plan().no_attempt(ActiveTime::default()).is_none() =>
                    {
                        draft.issue(task, issue(n * 100 + task.0))?;
                    }
                    DueStep::AskHuman(about, task, reason) => {
                        asking(draft, n * 100).ask(about, task, &reason)?;
                    }
                    DueStep::JudgeByRules(id) => {
                        let verdict = ruled(draft, &id)?;
                        asking(draft, n * 100 + 1).judge(&id, &verdict)?;
                    }
                    DueStep::Effect(DueEffect::Inspect(id)) => {
                        draft.inspected(&id, ChangedFiles::default(), None)?;
                    }
                    DueStep::Effect(DueEffect::Withdraw(id)) => draft.recalled(&id)?,
                    DueStep::Effect(DueEffect::Check(id)) => {
                        merge(draft, &id, n)?;
                        draft.checked(&id, vec![])?;
                    }
                    DueStep::Accept(id) => asking(draft, n * 100 + 2).accept_merged(&id)?,
                    DueStep::Effect(DueEffect::MoveBranch) => {
                        let tip = draft.plan().head().line.clone().unwrap().tip;
                        draft.branch_moved(&tip)?;
                    }
                    DueStep::Settle => draft.settle("over")?,
                    DueStep::StopAtBudget(limit) => {
                        asking(draft, n * 100 + 3).stop_at_budget(limit)?;
                    }
                    _ => {}
                }
            }
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reachable_plans_keep_invariants(policy in budget::policy(), ops in prop::collection::vec(op(), 1..60), isolated: bool) {
        let mut plan = running(&[("a", &[]), ("b", &[0]), ("c", &[])]);
        change(&mut plan, |draft| draft.start(policy, "/work")).unwrap();
        if isolated {
            change(&mut plan, |draft| draft.isolate("base", None, "/trees")).unwrap();
        }
        let mut states = vec![plan.clone()];
        let mut on_line = BTreeSet::new();
        for (n, op) in (1..).zip(&ops) {
            let before = plan.clone();
            let done = change_at(&mut plan, Time(i64::from(n)), |draft| match op {
                Op::Restore(state, resume) => go_back(draft, state.get(&states), *resume),
                op => apply(draft, op, n),
            });
            if let (Op::Restore(state, _), Ok(())) = (op, &done) {
                check_restored(&before, state.get(&states), &plan)?;
            }
            states.push(plan.clone());
            if done.is_err() {
                prop_assert_eq!(&plan, &before, "a refused operation changes nothing");
            }
            if plan.attempts_made() > before.attempts_made() && matches!(op, Op::Issue(_) | Op::Complete(_) | Op::Decisions) {
                prop_assert_eq!(before.no_repair(ActiveTime::default()), None, "{:?} begins", op);
            }
            let opens = matches!(op, Op::Reset | Op::Restore(..) | Op::Retry(_));
            if !opens {
                for task in before.tasks().filter(|task| task.status.satisfies()) {
                    let now = plan.task(task.number).map(|task| task.status);
                    let by_hand = matches!(op, Op::Done(_)) && now == Some(TaskState::Completed);
                    prop_assert!(now == Some(task.status) || by_hand);
                }
            }
            if !opens && !matches!(op, Op::AddByHand(..)) && before.status().settled() {
                prop_assert_eq!(plan.status(), before.status());
            }
            check_invariants(&plan)?;
            check_line(&before, &plan, &mut on_line)?;
        }
    }
}

fn go_back(draft: &mut Draft<'_>, earlier: &Plan, resume: bool) -> Result<(), Refusal> {
    draft.restore(earlier, 1)?;
    match draft.plan().status() {
        PlanState::Paused(_) if resume => draft.resume(),
        _ => Ok(()),
    }
}
