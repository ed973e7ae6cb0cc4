//! The end of a plan, the history and the storage.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;

use super::*;
use crate::tools::notebook::archive::Archive;

/// Returns a plan of the history.
async fn kept(storage: &dyn PlanStorageBase, id: &str) -> NotebookPlan {
    storage.get_plan(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn finished_plan_moves_to_history() {
    let notebook = with_plan(&["a"]).await;
    let id = current(&notebook).await.id;
    finish(&notebook, 1).await;
    let calls = r#"
        finish_plan {"state": "done", "outcome": "all well"} => …finished successfully as 'done'…
    "#;
    run(&notebook, calls).await;
    assert_eq!(notebook.current_plan().await.unwrap(), None);
    assert!(hint(&notebook).await.contains("create_plan"));
    let kept = kept(&*notebook.storage(), &id).await;
    assert_eq!(kept.outcome.as_deref(), Some("all well"));
    assert!(kept.state == SubTaskState::Done && kept.finished_at.is_some());
    let (_, text) = call(&notebook, "view_historical_plans", json!({})).await;
    let created = kept.created_at;
    let listed = format!(
        "Plan 'Plan':\n- ID: {id}\n- Created At: {created}\n- Description: description\n- State: done"
    );
    assert_eq!(text, listed);
}

#[tokio::test]
async fn abandoned_plan_abandons_open_subtasks() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let id = current(&notebook).await.id;
    finish(&notebook, 1).await;
    let end = notebook.finish_plan(PlanEnd::Abandoned, "no longer wanted");
    assert!(end.await.unwrap().text().contains("'abandoned'"));
    let kept = kept(&*notebook.storage(), &id).await;
    assert_eq!(kept.outcome.as_deref(), Some("no longer wanted"));
    let fields = |it: &SubTask| (it.state, it.outcome.clone());
    let left: Vec<_> = kept.subtasks.iter().map(fields).collect();
    let done = (SubTaskState::Done, Some("done".to_owned()));
    let open = (SubTaskState::Abandoned, None);
    assert_eq!(left, [done, open.clone(), open]);
}

#[tokio::test]
async fn recovered_plan_keeps_its_progress() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let id = current(&notebook).await.id;
    finish(&notebook, 1).await;
    abandon_plan(&notebook).await;
    let text = format!("The historical plan 'Plan' with ID '{id}' is recovered successfully.");
    let calls = format!(r#"recover_historical_plan {{"plan_id": "{id}"}} => {text}"#);
    run(&notebook, &calls).await;
    assert_eq!(states(&notebook).await, "dtt");
    let plan = current(&notebook).await;
    let fields = (plan.state, plan.outcome, plan.finished_at);
    assert_eq!(fields, (SubTaskState::InProgress, None, None));
    set(&notebook, 1, SubTaskState::InProgress).await;
    notebook.finish_subtask(1, "x").await.unwrap();
    assert_eq!(states(&notebook).await, "ddi");
}

#[tokio::test]
async fn recovered_plan_replaces_current_plan() {
    let notebook = with_plan(&["a", "b"]).await;
    let old = current(&notebook).await.id;
    set(&notebook, 0, SubTaskState::InProgress).await;
    create(&notebook, "Other", &["c"]).await;
    let other = current(&notebook).await.id;
    let text = "…recovered successfully. The plan 'Other' is replaced…";
    let calls = format!(r#"recover_historical_plan {{"plan_id": "{old}"}} => {text}"#);
    run(&notebook, &calls).await;
    assert_eq!(states(&notebook).await, "it");
    let kept = kept(&*notebook.storage(), &other).await;
    assert_eq!(kept.state, SubTaskState::Abandoned);
    assert!(kept.outcome.unwrap().contains(&old));
}

#[tokio::test]
async fn replaced_plan_is_abandoned_unless_it_was_finished() {
    let notebook = with_plan(&["a"]).await;
    let finished = current(&notebook).await.id;
    finish(&notebook, 1).await;
    notebook.finish_plan(PlanEnd::Done, "well").await.unwrap();
    let state = async |id: &str| {
        let plan = kept(&*notebook.storage(), id).await;
        (plan.state, plan.outcome.unwrap_or_default())
    };
    // By a new plan, and by one of the history: all of their subtasks are settled, and that alone ends no plan here.
    for (by_recovery, letters) in [(false, "d"), (true, "d"), (false, "a"), (true, "a")] {
        create(&notebook, "Other", &["c"]).await;
        let other = current(&notebook).await.id;
        match letters {
            "d" => finish(&notebook, 1).await,
            _ => set(&notebook, 0, SubTaskState::Abandoned).await,
        }
        assert_eq!(states(&notebook).await, letters);
        match by_recovery {
            true => drop(notebook.recover_historical_plan(&finished).await.unwrap()),
            false => drop(create(&notebook, "Next", &["e"]).await),
        }
        let (other, outcome) = state(&other).await;
        assert_eq!(other, SubTaskState::Abandoned, "{by_recovery} {letters}");
        assert!(outcome.contains("interrupted by"), "{outcome}");
    }
    // A finished plan that was recovered and left as it was, is finished still.
    let again = current(&notebook).await;
    let done = SubTaskState::Done;
    assert_eq!((&again.id, again.state), (&finished, done));
    create(&notebook, "Next", &["e"]).await;
    assert_eq!(state(&finished).await, (done, "well".to_owned()));
    // One that went on is not.
    notebook.recover_historical_plan(&finished).await.unwrap();
    set(&notebook, 0, SubTaskState::Todo).await;
    assert_eq!(current(&notebook).await.state, SubTaskState::Todo);
    create(&notebook, "Next", &["e"]).await;
    assert_eq!(state(&finished).await.0, SubTaskState::Abandoned);
}

#[tokio::test]
async fn recover_rejects_unknown_or_current_plan() {
    let notebook = with_plan(&["a"]).await;
    let id = current(&notebook).await.id;
    let calls = format!(
        r#"
        ! recover_historical_plan {{"plan_id": "xyz"}} => UNKNOWN_PLAN: Cannot find…'xyz'…
        ! recover_historical_plan {{"plan_id": "{id}"}} => UNKNOWN_PLAN: …
        finish_plan {{"state": "abandoned", "outcome": "x"}}
        recover_historical_plan {{"plan_id": "{id}"}}
        ! recover_historical_plan {{"plan_id": "{id}"}} => CONFLICT: …the current plan already.
        "#
    );
    run(&notebook, &calls).await;
}

#[tokio::test]
async fn changes_after_recovery_keep_history_entry() {
    let notebook = with_plan(&["a", "b"]).await;
    let id = current(&notebook).await.id;
    abandon_plan(&notebook).await;
    let storage = notebook.storage();
    let before = kept(&*storage, &id).await;
    notebook.recover_historical_plan(&id).await.unwrap();
    finish(&notebook, 2).await;
    assert_eq!(kept(&*storage, &id).await, before);
    assert_eq!(storage.get_plans().await.unwrap(), [before]);
    let (_, text) = call(&notebook, "view_historical_plans", json!({})).await;
    assert!(text.contains("State: abandoned"), "{text}");
    assert_eq!(text.matches("- ID: ").count(), 1);
    notebook.finish_plan(PlanEnd::Done, "now").await.unwrap();
    let after = storage.get_plans().await.unwrap();
    assert_eq!((after.len(), after[0].state), (1, SubTaskState::Done));
}

#[tokio::test]
async fn history_is_paged_newest_first() {
    let notebook = notebook().await;
    let none = "view_historical_plans null => The history has no plans.";
    run(&notebook, none).await;
    for name in ["one", "two", "three", "four"] {
        create(&notebook, name, &["a"]).await;
    }
    let page = json!({"limit": 2, "offset": 0});
    let answer = notebook.call("view_historical_plans", page.clone()).await;
    assert_eq!(answer.value["left"], json!(1));
    let calls = format!("view_historical_plans {page} => Plan 'three'…Plan 'two'…1 more…");
    run(&notebook, &calls).await;
    assert!(!answer.value.to_string().contains("'one'"));
    let (_, text) = call(&notebook, "view_historical_plans", json!({"offset": 2})).await;
    assert!(text.contains("'one'") && !text.contains("'two'"), "{text}");
}

#[tokio::test]
async fn storage_adds_plans_once_and_deletes_by_id() {
    let own: Arc<dyn PlanStorageBase> = Arc::new(InMemoryPlanStorage::default());
    for storage in [own, notebook().await.storage()] {
        let mut plan = NotebookPlan::new("Report", "", "", subtasks(&["a", "b"]));
        plan.finish(PlanEnd::Abandoned, "enough");
        storage.add_plan(plan.clone(), false).await.unwrap();
        let again = storage.add_plan(plan.clone(), false).await.unwrap_err();
        assert!(matches!(again, StorageError::Key(_)), "{again}");
        plan.subtasks.remove(0);
        plan.outcome = Some("more".to_owned());
        storage.add_plan(plan.clone(), true).await.unwrap();
        let second = NotebookPlan::new("Second", "", "", subtasks(&["c"]));
        storage.add_plan(second.clone(), true).await.unwrap();
        assert_eq!(storage.get_plans().await.unwrap(), [plan.clone(), second]);
        assert_eq!(kept(&*storage, &plan.id).await, plan);
        assert_eq!(storage.get_plan("nobody").await.unwrap(), None);
        storage.delete_plan(&plan.id).await.unwrap();
        assert_eq!(storage.get_plan(&plan.id).await.unwrap(), None);
        let unknown = storage.delete_plan(&plan.id).await.unwrap_err();
        assert!(matches!(unknown, StorageError::Key(_)), "{unknown}");
    }
}

#[tokio::test]
async fn storage_rejects_current_plan() {
    let notebook = with_plan(&["a"]).await;
    let storage = notebook.storage();
    let plan = current(&notebook).await;
    let refused = storage.add_plan(plan.clone(), true).await.unwrap_err();
    has(&refused.to_string(), &["is the current plan"]);
    abandon_plan(&notebook).await;
    notebook.recover_historical_plan(&plan.id).await.unwrap();
    storage.delete_plan(&plan.id).await.unwrap();
    assert_eq!(storage.get_plans().await.unwrap(), []);
    assert_eq!(current(&notebook).await.id, plan.id);
}

#[tokio::test]
async fn custom_storage_holds_history() {
    let storage = Arc::new(InMemoryPlanStorage::default());
    let notebook = notebook().await.with_storage(storage.clone());
    create(&notebook, "One", &["a", "b"]).await;
    let one = current(&notebook).await.id;
    create(&notebook, "Two", &["c"]).await;
    let two = current(&notebook).await.id;
    finish(&notebook, 1).await;
    notebook.finish_plan(PlanEnd::Done, "well").await.unwrap();
    let plans = storage.get_plans().await.unwrap();
    let told = plans.iter().map(|it| format!("{} {}", it.name, it.state));
    let told: Vec<String> = told.collect();
    assert_eq!(told, ["One abandoned", "Two done"]);
    assert!(plans[0].outcome.as_ref().unwrap().contains(&two));
    // Another program has it from there.
    let elsewhere = super::notebook().await.with_storage(storage.clone());
    elsewhere.recover_historical_plan(&one).await.unwrap();
    assert_eq!(states(&elsewhere).await, "tt");
    assert_eq!(current(&elsewhere).await.id, one);
    finish(&elsewhere, 2).await;
    assert_eq!(kept(&*storage, &one).await.state, SubTaskState::Abandoned);
    elsewhere.finish_plan(PlanEnd::Done, "too").await.unwrap();
    assert_eq!(kept(&*storage, &one).await.state, SubTaskState::Done);
    storage.delete_plan(&one).await.unwrap();
    let deleted = elsewhere.recover_historical_plan(&one).await;
    fails(deleted, UnknownPlan, &one);
    let (_, text) = call(&elsewhere, "view_historical_plans", json!({})).await;
    assert!(text.contains("'Two'") && !text.contains("'One'"), "{text}");
}

/// A storage that cannot be reached when it is told so, and sees to it that the plan changes while it keeps it.
#[derive(Default)]
struct UnreliableStorage {
    kept: InMemoryPlanStorage,
    away: AtomicBool,
    meanwhile: Mutex<Option<PlanNotebook>>,
    recovered: Mutex<Option<String>>,
}

/// Returns a notebook with a plan of two subtasks, the first in progress, and its storage.
async fn with_unreliable_storage() -> (PlanNotebook, Arc<UnreliableStorage>) {
    let storage = Arc::new(UnreliableStorage::default());
    let notebook = with_plan(&["a", "b"]).await.with_storage(storage.clone());
    set(&notebook, 0, SubTaskState::InProgress).await;
    (notebook, storage)
}

impl PlanStorageBase for UnreliableStorage {
    fn add_plan(&self, plan: NotebookPlan, r#override: bool) -> Stored<'_, ()> {
        if self.away.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StorageError::Connection("no route".to_owned())) });
        }
        let other = self.meanwhile.lock().take();
        let recovered = self.recovered.lock().take();
        Box::pin(async move {
            if let Some(other) = other {
                if let Some(id) = recovered {
                    other.recover_historical_plan(&id).await.unwrap();
                    set(&other, 0, SubTaskState::InProgress).await;
                }
                other.finish_subtask(0, "meanwhile").await.unwrap();
            }
            self.kept.add_plan(plan, r#override).await
        })
    }

    fn delete_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, ()> {
        self.kept.delete_plan(plan_id)
    }

    fn get_plans(&self) -> Stored<'_, Vec<NotebookPlan>> {
        Box::pin(async { Err(StorageError::Timeout("5 s".to_owned())) })
    }

    fn get_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, Option<NotebookPlan>> {
        self.kept.get_plan(plan_id)
    }
}

#[tokio::test]
async fn failed_storage_is_reported_and_plan_stays() {
    let (notebook, storage) = with_unreliable_storage().await;
    storage.away.store(true, Ordering::SeqCst);
    let calls = r#"
        ! finish_plan {"state": "abandoned", "outcome": "x"} => CONNECTION_ERROR: …no route…
        ! create_plan {"name": "P", "description": "", "expected_outcome": "", "subtasks": [{"name": "a", "description": "", "expected_outcome": ""}]} => CONNECTION_ERROR: …
        ! view_historical_plans => TIMEOUT_ERROR: …5 s…
    "#;
    run(&notebook, calls).await;
    let failed = notebook.finish_plan(PlanEnd::Abandoned, "x").await;
    let Err(NotebookError::Storage(StorageError::Connection(_))) = failed else {
        panic!("{failed:?}");
    };
}

/// Has another caller do something while the storage is given a plan.
fn meanwhile(storage: &UnreliableStorage, notebook: &PlanNotebook) {
    let other = PlanNotebook::new(Toolbox {
        notebook: NotebookParts::default(),
        ..notebook.toolbox.clone()
    });
    *storage.meanwhile.lock() = Some(other);
}

#[tokio::test]
async fn storage_gets_final_plan_with_concurrent_changes() {
    let (notebook, storage) = with_unreliable_storage().await;
    let id = current(&notebook).await.id;
    meanwhile(&storage, &notebook);
    abandon_plan(&notebook).await;
    let kept = kept(&*storage, &id).await;
    assert_eq!(kept.subtasks[0].outcome.as_deref(), Some("meanwhile"));
    assert_eq!(kept.subtasks[1].state, SubTaskState::Abandoned);
}

#[tokio::test]
async fn concurrent_recover_has_one_winner() {
    for _ in 0..5 {
        let notebook = with_plan(&["a", "b"]).await;
        let id = current(&notebook).await.id;
        abandon_plan(&notebook).await;
        let other = PlanNotebook::new(notebook.toolbox.clone());
        let (won, lost) = won_and_lost(tokio::join!(
            notebook.recover_historical_plan(&id),
            other.recover_historical_plan(&id)
        ));
        has(&won, &["recovered successfully"]);
        assert_eq!(lost.code(), Conflict, "{lost}");
        finish(&notebook, 1).await;
        let late = other.recover_historical_plan(&id).await.unwrap_err();
        has(&late.to_string(), &["the current plan already"]);
        assert_eq!(states(&notebook).await, "di");
    }
}

#[tokio::test]
async fn stale_write_does_not_overwrite_plan() {
    let notebook = with_plan(&["a"]).await;
    let plan = current(&notebook).await;
    abandon_plan(&notebook).await;
    let archive = Archive(notebook.toolbox.clone());
    let seen = archive.find(&plan.id).await.unwrap();
    notebook.recover_historical_plan(&plan.id).await.unwrap();
    finish(&notebook, 1).await;
    let kept = Box::pin(archive.archive_plan("test", plan, seen)).await;
    fails(kept, Conflict, "Another caller has changed");
    assert_eq!(states(&notebook).await, "d");
}

#[tokio::test]
async fn overtaken_caller_learns_current_plan() {
    let notebook = with_plan(&["a"]).await;
    let plan = current(&notebook).await;
    let error = notebook.overtaken(StoreError::Overtaken(None).into()).await;
    assert_eq!(error.code(), Conflict);
    has(&error.to_string(), &["'Plan'", &plan.id]);
    let new = |name: &'static str| notebook.create_plan(name, "", "", subtasks(&["x"]));
    let (one, two) = tokio::join!(new("one"), new("two"));
    let now = current(&notebook).await.id;
    for made in [one, two] {
        match made {
            Ok(made) => has(&made.text(), &["its ID is"]),
            lost => fails(lost, Conflict, &now),
        }
    }
}

#[tokio::test]
async fn storage_gets_replaced_plan_with_concurrent_changes() {
    let (notebook, storage) = with_unreliable_storage().await;
    let id = current(&notebook).await.id;
    meanwhile(&storage, &notebook);
    create(&notebook, "Other", &["c"]).await;
    let kept = kept(&*storage, &id).await;
    assert_eq!(kept.state, SubTaskState::Abandoned);
    assert_eq!(kept.subtasks[0].outcome.as_deref(), Some("meanwhile"));
}

#[tokio::test]
async fn failed_replace_leaves_no_export() {
    let (notebook, storage) = with_unreliable_storage().await;
    set(&notebook, 0, SubTaskState::Todo).await;
    let old = current(&notebook).await.id;
    create(&notebook, "Other", &["c"]).await;
    let other = current(&notebook).await.id;
    meanwhile(&storage, &notebook);
    *storage.recovered.lock() = Some(old.clone());
    let slow = notebook.recover_historical_plan(&old).await;
    fails(slow, Conflict, "the current plan already");
    assert_eq!(current(&notebook).await.id, old);
    assert_eq!(states(&notebook).await, "di");
    // That one was replaced all the same, by the other caller.
    let replaced = kept(&*storage, &other).await;
    assert!(replaced.outcome.unwrap().contains(&old));
    let by = PlanHead::new(PlanId::new("by"), "why", Time(0));
    let (runtime, seen, id) = (Handle::current(), storage.clone(), old.clone());
    let refused = move |_: &mut Draft<'_>| {
        let exported = runtime.block_on(kept(&*seen, &id)).outcome;
        Err(Conflict.error(exported.unwrap_or_default()))
    };
    let left = notebook.replace_current(by, false, "", refused).await;
    assert!(left.unwrap_err().to_string().contains("'why'"));
    let outcome = kept(&*storage, &old).await.outcome.unwrap_or_default();
    assert!(!outcome.contains("'why'"));
}

#[tokio::test]
async fn reading_archives_nothing() {
    let notebook = with_plan(&["a"]).await;
    let old = notebook.current().await.unwrap();
    create(&notebook, "Other", &["b"]).await;
    let as_if_ended = |draft: &mut Draft<'_>| {
        draft.change_head(|head| head.archive_state = ArchiveState::Current);
        Ok(())
    };
    amend(&notebook, &old, as_if_ended).await;
    let before = trace(&notebook).await;
    let calls = r#"
        view_subtasks {"subtask_idx": [0]} => …do b…
        view_historical_plans
    "#;
    run(&notebook, calls).await;
    hint(&notebook).await;
    assert_eq!(current(&notebook).await.name, "Other");
    assert_eq!(trace(&notebook).await, before);
}

#[tokio::test]
async fn finished_bound_plan_refuses_changes() {
    let notebook = with_plan(&["a"]).await;
    let plan = notebook.current().await.unwrap();
    abandon_plan(&notebook).await;
    let bound = PlanNotebook::new(notebook.toolbox.clone().with_plan(plan.clone()));
    let calls = format!(
        r#"
        ! recover_historical_plan {{"plan_id": "{plan}"}} => BOUND: …
        ! create_plan {{"name": "P", "description": "", "expected_outcome": "", "subtasks": [{{"name": "a", "description": "", "expected_outcome": ""}}], "dry_run": true}} => BOUND: …
        ! update_subtask_state {{"subtask_idx": 0, "state": "todo"}} => CONFLICT: …is finished as 'abandoned'.
        "#
    );
    run(&bound, &calls).await;
}

#[tokio::test]
async fn empty_history_page_shows_remaining_count() {
    let notebook = with_plan(&["a"]).await;
    create(&notebook, "Other", &["b"]).await;
    let calls = r#"
        view_historical_plans {"offset": 5} => The history has 1 plan: none at offset 5.
        view_historical_plans {"limit": 0} => 1 more: go on with a larger offset.
    "#;
    run(&notebook, calls).await;
}

#[tokio::test]
async fn plans_end_and_come_back() {
    let table = r#"
        == plan_with_open_subtasks_cannot_be_done: a b
        update_subtask_state {"subtask_idx": 0, "state": "in_progress"}
        finish_subtask {"subtask_idx": 0, "subtask_outcome": "done"}
        ! finish_plan {"state": "done", "outcome": "x"} => OPEN_SUBTASKS: …1 of 2 subtasks are open…index 1, named 'b'…

        == all_abandoned_plan_cannot_be_done: a b
        update_subtask_state {"subtask_idx": 0, "state": "abandoned"}
        update_subtask_state {"subtask_idx": 1, "state": "abandoned"}
        get_current_hint => …finish_plan' with state='abandoned' and the reason, and…
        ! finish_plan {"state": "done", "outcome": "x"} => INVALID_STATE: …none of its subtasks is done…
        finish_plan {"state": "abandoned", "outcome": "x"} => …'abandoned'…

        == finish_plan_rejects_other_states: a
        ! finish_plan {"state": "todo", "outcome": "x"} => INVALID_STATE: …one of done, abandoned…
        ! finish_plan {"state": "in_progress", "outcome": "x"} => INVALID_STATE: …one of done, abandoned…
        ! finish_plan {"state": "finished", "outcome": "x"} => INVALID_STATE: …one of done, abandoned…
        "#;
    cases(table).await;
}
