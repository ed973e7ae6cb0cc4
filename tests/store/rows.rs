//! The table of rows follows the log.

use super::*;

#[tokio::test]
async fn rows_follow_the_log_and_a_start_needs_only_what_came_after_them() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        make(&store, "bbbbbbbb").await;
        for number in 1..40 {
            step(&store, number).await;
        }
        issue(&store, 1).await;
        let text = "y".repeat(10_000);
        for _ in 0..60 {
            let change = add(&text);
            store.change(&plan(), "test", "x", change).await.unwrap();
        }
        issue(&store, 2).await;
        let before = state(&store).await;
        assert_eq!(state(&given.open().await).await, before, "{:?}", given.kind);
        // What nobody reads any more is damaged: the rows were written long since.
        given
            .sql("UPDATE log SET delta = 'x' WHERE plan = 'aaaaaaaa' AND seq < 80")
            .await;
        let other = given.open().await;
        assert_eq!(state(&other).await, before, "{:?}", given.kind);
        for command in ["command-1", "command-2"] {
            let found = other.plan_of(&CommandId::new(command)).await.unwrap();
            assert_eq!(found, Some(plan()), "{command}");
        }
        // Both go on, each with what the other did.
        for store in [&store, &other, &store] {
            step(store, 50 + u32::try_from(state(store).await.0).unwrap()).await;
        }
        assert_eq!(state(&store).await, state(&other).await);
        assert_eq!(state(&given.open().await).await, state(&store).await);
    })
    .await;
}

#[tokio::test]
async fn rows_that_cannot_be_written_keep_no_change_back() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        given.break_table("plans", "UPDATE OF folded").await;
        let text = "y".repeat(10_000);
        for _ in 0..40 {
            let change = add(&text);
            store.change(&plan(), "test", "x", change).await.unwrap();
        }
        let before = state(&store).await;
        assert_eq!(before.0, 41);
        let other = given.open().await;
        assert_eq!(state(&other).await, before, "{:?}", given.kind);
        given.mend_table("plans").await;
        step(&other, 1).await;
        assert_eq!(state(&store).await, state(&other).await);
        assert_eq!(state(&given.open().await).await.0, 42);
        // They are written as soon as they can be.
        for _ in 0..20 {
            let change = add(&text);
            other.change(&plan(), "test", "x", change).await.unwrap();
        }
        let before = state(&store).await;
        given.sql("UPDATE log SET delta = 'x' WHERE seq < 42").await;
        assert_eq!(state(&given.open().await).await, before, "{:?}", given.kind);
    })
    .await;
}

#[tokio::test]
async fn a_command_is_found_however_many_small_plans_there_are() {
    on_every_store(async |given| {
        let store = given.open().await;
        let id = |number: usize| format!("plan{number:04}");
        for number in 0..60 {
            make(&store, &id(number)).await;
            let issue = Issue {
                // Signs with a meaning for the search, which must not find one for another.
                id: CommandId::new(format!("do_%!{number}\\\"")),
                kind: Kind::New,
                session: None,
                text: "do it".to_owned(),
            };
            let issue = move |draft: &mut Draft<'_>| {
                draft.start(Policy::default(), "/workspace")?;
                draft.issue(TaskId(1), issue)
            };
            let plan = PlanId::new(id(number));
            store.change(&plan, "test", "issued", issue).await.unwrap();
        }
        for number in [0, 7, 59] {
            let command = CommandId::new(format!("do_%!{number}\\\""));
            let found = store.plan_of(&command).await.unwrap();
            assert_eq!(found, Some(PlanId::new(id(number))), "{:?}", given.kind);
        }
        for stranger in ["do_%!", "do_%!6", "DO_%!7\\\"", "do__!7\\\"", "%"] {
            let found = store.plan_of(&CommandId::new(stranger)).await.unwrap();
            assert_eq!(found, None, "{stranger}");
        }
    })
    .await;
}
