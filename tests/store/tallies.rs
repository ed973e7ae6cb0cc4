//! The numbers of each plan stand beside it: a list of plans reads no tasks. What plans use is summed by the day.

use plan_agent::plan::{HeldLocks, LockHolder, ModelCost, Spent, Tally};

use super::*;

const QUARTER: i64 = 15 * 60 * 1_000_000;

async fn listed(store: &Store) -> Vec<(PlanId, Tally)> {
    let plans = store.tallied(|_| true).await.unwrap().into_iter();
    plans.map(|one| (one.plan.head.id, one.tally)).collect()
}

/// Returns the same from the plans themselves.
async fn counted(store: &Store) -> Vec<(PlanId, Tally)> {
    let mut counted = Vec::new();
    for plan in store.plans().await.unwrap() {
        let id = plan.head.id;
        let tally = store.read(&id, |plan, _| plan.tally()).await.unwrap();
        counted.push((id, tally));
    }
    counted
}

#[tokio::test]
async fn numbers_follow_every_change() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        make(&store, "bbbbbbbb").await;
        for number in 1..5 {
            step(&store, number).await;
            assert_eq!(listed(&store).await, counted(&store).await);
        }
        let id = plan();
        let refused = store.change(&id, "test", "refused", |draft| {
            draft.add_tasks(vec![task("never")], None)?;
            draft.skip_task(TaskId(99), "no such task")
        });
        refused.await.unwrap_err();
        assert_eq!(listed(&store).await, counted(&store).await);
    })
    .await;
}

#[tokio::test]
async fn numbers_that_an_older_version_left_are_counted_once() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let wanted = counted(&store).await;
        for stale in [
            "UPDATE plans SET tallied = 0, tally = ''",
            "UPDATE plans SET tallied = seq - 1, tally = '{\"tasks\":9}'",
            "UPDATE plans SET tally = 'no numbers'",
        ] {
            given.sql(stale).await;
            assert_eq!(listed(&given.open().await).await, wanted, "{stale}");
        }
        given
            .sql("UPDATE plans SET tallied = seq, tally = '{\"tasks\":7}'")
            .await;
        assert_eq!(listed(&store).await[0].1.tasks, 7, "no task is read");
    })
    .await;
}

#[tokio::test]
async fn locks_are_held_while_an_attempt_is_open() {
    on_every_store(async |given| {
        let store = given.open().await;
        for id in ["aaaaaaaa", "bbbbbbbb"] {
            let locked = TaskSpec {
                locks: vec!["port:8080".to_owned()],
                ..task("serve")
            };
            let add = move |draft: &mut Draft<'_>| draft.add_tasks(vec![locked.clone()], None);
            store.create(head(id), "test", "made", add).await.unwrap();
        }
        let (one, other) = (PlanId::new("aaaaaaaa"), PlanId::new("bbbbbbbb"));
        issue(&store, &one, 1, new_command("command-1", "serve")).await;
        assert_eq!(store.locks_beside(&one).await.unwrap(), HeldLocks::new());
        let holder = LockHolder {
            plan: one.clone(),
            task: TaskId(1),
        };
        let held = store.locks_beside(&other).await.unwrap();
        assert_eq!(held, HeldLocks::from([("port:8080".to_owned(), holder)]));
        let end = |draft: &mut Draft<'_>| draft.abandon("enough");
        store.change(&one, "test", "ended", end).await.unwrap();
        let withdrawn = |draft: &mut Draft<'_>| draft.withdrawn(&CommandId::new("command-1"));
        store.change(&one, "test", "gone", withdrawn).await.unwrap();
        assert_eq!(store.locks_beside(&other).await.unwrap(), HeldLocks::new());
    })
    .await;
}

#[tokio::test]
async fn use_of_all_plans_is_summed_by_quarters_of_an_hour() {
    on_every_store(async |given| {
        let store = given.open().await;
        let at = |quarters: i64| Time(now().0 - now().0.rem_euclid(QUARTER) + quarters * QUARTER);
        assert_eq!(store.spent_since(at(-100)).await.unwrap(), Spent::default());
        for (id, owner) in [
            ("aaaaaaaa", "daemon"),
            ("bbbbbbbb", "daemon"),
            ("cccccccc", "role"),
        ] {
            let mut head = head(id);
            owner.clone_into(&mut head.owner);
            store
                .create(head, "test", "made", add("first"))
                .await
                .unwrap();
            for _ in 0..2 {
                let used = |draft: &mut Draft<'_>| {
                    draft.begin_call_of_role()?;
                    draft.count_call_of_role(ModelCost {
                        calls: 1,
                        input_tokens: 20,
                        output_tokens: 3,
                        cost_usd: 0.25,
                    });
                    Ok(())
                };
                let id = PlanId::new(id);
                store.change(&id, "test", "used", used).await.unwrap();
            }
        }
        let all = Spent {
            llm_calls: 4,
            llm_tokens: 92,
            micro_usd: 1_000_000,
        };
        assert_eq!(store.spent_since(at(0)).await.unwrap(), all);
        assert_eq!(store.spent_since(at(1)).await.unwrap(), Spent::default());
    })
    .await;
}

#[tokio::test]
#[ignore = "prints figures: 100 plans of 1,000 tasks"]
#[expect(clippy::print_stdout, reason = "figures are for a person")]
async fn figures_of_list_of_many_plans() {
    let given = Given::new(Kinds::File);
    let store = given.open().await;
    for number in 0..100 {
        let tasks = move |draft: &mut Draft<'_>| {
            let tasks = (0..1000).map(|task_number| task(&format!("task {task_number}")));
            draft.add_tasks(tasks.collect(), None)
        };
        let head = head(&format!("plan{number:04}"));
        store.create(head, "test", "made", tasks).await.unwrap();
    }
    drop(store);
    let store = given.open().await;
    for what in ["cold", "warm", "warm"] {
        let begun = std::time::Instant::now();
        let listed = store.tallied(|_| true).await.unwrap();
        assert!(listed.len() == 100 && listed.iter().all(|one| one.tally.tasks == 1000));
        println!("{what}: {:?}", begun.elapsed());
    }
    let begun = std::time::Instant::now();
    assert_eq!(counted(&store).await.len(), 100);
    println!("with all tasks: {:?}", begun.elapsed());
}
