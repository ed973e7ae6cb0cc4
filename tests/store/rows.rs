//! The table of rows follows the log.

use std::collections::BTreeSet;

use plan_agent::plan::{ModelQuestionKind, SessionId};

use super::*;

#[tokio::test]
async fn start_reads_rows_and_later_log_only() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        make(&store, "bbbbbbbb").await;
        for number in 1..40 {
            step(&store, number).await;
        }
        issue(&store, &plan(), 1, new_command("command-1", "do it")).await;
        fill(&store, 60).await;
        issue(&store, &plan(), 2, new_command("command-2", "do it")).await;
        let before = state(&store).await;
        assert_eq!(state(&given.open().await).await, before);
        // The damaged entries are never read again: the rows were written long before.
        let sql = "UPDATE log SET delta = 'x' WHERE plan = 'aaaaaaaa' AND seq < 80";
        given.sql(sql).await;
        let other = given.open().await;
        assert_eq!(state(&other).await, before);
        for command in ["command-1", "command-2"] {
            let found = other.plan_of(&CommandId::new(command)).await.unwrap();
            assert_eq!(found, Some(plan()), "{command}");
        }
        // Both continue, each with the changes of the other.
        for store in [&store, &other, &store] {
            step(store, 50 + u32::try_from(state(store).await.0).unwrap()).await;
        }
        assert_eq!(state(&store).await, state(&other).await);
        assert_eq!(state(&given.open().await).await, state(&store).await);
    })
    .await;
}

#[tokio::test]
async fn failed_row_write_blocks_no_change() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        given.break_table("plans", "UPDATE OF folded").await;
        fill(&store, 40).await;
        let before = state(&store).await;
        assert_eq!(before.0, 41);
        let other = given.open().await;
        assert_eq!(state(&other).await, before);
        given.mend_table("plans").await;
        step(&other, 1).await;
        assert_eq!(state(&store).await, state(&other).await);
        assert_eq!(state(&given.open().await).await.0, 42);
        // They are written as soon as this is possible.
        fill(&other, 20).await;
        let before = state(&store).await;
        given.sql("UPDATE log SET delta = 'x' WHERE seq < 42").await;
        assert_eq!(state(&given.open().await).await, before);
    })
    .await;
}

#[tokio::test]
async fn command_is_found_among_many_plans() {
    on_every_store(async |given| {
        let store = given.open().await;
        let id = |number: usize| format!("plan{number:04}");
        for number in 0..60 {
            make(&store, &id(number)).await;
            // Characters with a meaning for the search, which must not confuse one command with another.
            let command = new_command(&format!("do_%!{number}\\\""), "do it");
            issue(&store, &PlanId::new(id(number)), 1, command).await;
        }
        for number in [0, 7, 59] {
            let command = CommandId::new(format!("do_%!{number}\\\""));
            let found = store.plan_of(&command).await.unwrap();
            assert_eq!(found, Some(PlanId::new(id(number))));
        }
        for stranger in ["do_%!", "do_%!6", "DO_%!7\\\"", "do__!7\\\"", "%"] {
            let found = store.plan_of(&CommandId::new(stranger)).await.unwrap();
            assert_eq!(found, None, "{stranger}");
        }
    })
    .await;
}

#[tokio::test]
async fn rows_of_every_kind_are_written() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let command = CommandId::new("command-1");
        let asks = Report {
            session: Some(SessionId::new("one")),
            question: Some("which one?".to_owned()),
            ..report(1)
        };
        let change = move |draft: &mut Draft<'_>| {
            let policy = PlanPolicy {
                model: true,
                ..PlanPolicy::default()
            };
            draft.start(policy, "/workspace")?;
            draft.issue(TaskId(1), new_command("command-1", "do it"))?;
            draft.report(&command, asks)?;
            draft.agent_asks(&command)?;
            draft.begin_ask(&ModelQuestionKind::Replan).map(drop)
        };
        changes(&store, change).await;
        let kinds: BTreeSet<&str> = state(&store)
            .await
            .1
            .values()
            .map(|row| row.key().parts().0)
            .collect();
        let all = ["ask", "attempt", "head", "question", "session", "task"];
        assert_eq!(Vec::from_iter(kinds), all);
        fill(&store, 30).await;
        let before = state(&store).await;
        given.sql("UPDATE log SET delta = 'x' WHERE seq < 10").await;
        assert_eq!(state(&given.open().await).await, before);
    })
    .await;
}
