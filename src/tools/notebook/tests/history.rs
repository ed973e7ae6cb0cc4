//! The end of a plan, the history and the storage.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::tools::notebook::shelved::{StoreStorage, kept};

#[tokio::test]
async fn a_finished_plan_goes_into_the_history_and_there_is_none() {
    let notebook = with_plan(&["a"]).await;
    let id = current(&notebook).await.id;
    finish(&notebook, 1).await;
    let end = json!({"state": "done", "outcome": "all well"});
    let (success, text) = call(&notebook, "finish_plan", end).await;
    assert!(
        success && text.contains("finished successfully as 'done'"),
        "{text}"
    );
    assert_eq!(notebook.current_plan().await.unwrap(), None);
    assert!(hint(&notebook).await.contains("create_plan"));
    let kept = notebook.storage().get_plan(&id).await.unwrap().unwrap();
    assert_eq!(
        (kept.state, kept.outcome.as_deref()),
        (State::Done, Some("all well"))
    );
    assert!(kept.finished_at.is_some());
    let (_, text) = call(&notebook, "view_historical_plans", json!({})).await;
    assert_eq!(
        text,
        format!(
            "Plan 'Plan':\n- ID: {id}\n- Created At: {}\n- Description: description\n- State: done",
            kept.created_at
        )
    );
}

#[tokio::test]
async fn a_plan_with_open_subtasks_is_not_done() {
    let notebook = with_plan(&["a", "b"]).await;
    finish(&notebook, 1).await;
    let end = json!({"state": "done", "outcome": "x"});
    let (code, text) = refused(&notebook, "finish_plan", end).await;
    assert_eq!(code, ErrorCode::OpenSubtasks);
    assert!(text.contains("1 of 2 subtasks are open") && text.contains("index 1, named 'b'"));
}

#[tokio::test]
async fn an_abandoned_plan_abandons_its_open_subtasks() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let id = current(&notebook).await.id;
    finish(&notebook, 1).await;
    let end = notebook
        .finish_plan(End::Abandoned, "no longer wanted")
        .await;
    assert!(end.unwrap().text().contains("'abandoned'"));
    let kept = notebook.storage().get_plan(&id).await.unwrap().unwrap();
    assert_eq!(kept.outcome.as_deref(), Some("no longer wanted"));
    let states: Vec<State> = kept.subtasks.iter().map(|it| it.state).collect();
    assert_eq!(states, [State::Done, State::Abandoned, State::Abandoned]);
}

#[tokio::test]
async fn a_plan_ends_only_by_the_words_for_it() {
    let notebook = with_plan(&["a"]).await;
    for state in ["todo", "in_progress", "finished"] {
        let end = json!({"state": state, "outcome": "x"});
        let (code, text) = refused(&notebook, "finish_plan", end).await;
        assert_eq!(code, ErrorCode::InvalidState);
        assert!(text.contains("one of done, abandoned"), "{text}");
    }
}

#[tokio::test]
async fn a_recovered_plan_goes_on_where_it_was() {
    let notebook = with_plan(&["a", "b", "c"]).await;
    let id = current(&notebook).await.id;
    finish(&notebook, 1).await;
    notebook.finish_plan(End::Abandoned, "later").await.unwrap();
    let (success, text) = call(&notebook, "recover_historical_plan", json!({"plan_id": id})).await;
    assert!(
        success && text.contains("'Plan'") && text.contains(&id),
        "{text}"
    );
    assert!(text.contains("recovered successfully"), "{text}");
    assert_eq!(states(&notebook).await, "dtt");
    let plan = current(&notebook).await;
    assert_eq!(
        (plan.state, plan.outcome, plan.finished_at),
        (State::InProgress, None, None)
    );
    notebook
        .update_subtask_state(1, State::InProgress)
        .await
        .unwrap();
    notebook.finish_subtask(1, "x").await.unwrap();
    assert_eq!(states(&notebook).await, "ddi");
}

#[tokio::test]
async fn a_recovered_plan_replaces_the_present_one_which_is_abandoned() {
    let notebook = with_plan(&["a", "b"]).await;
    let old = current(&notebook).await.id;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    create(&notebook, "Other", &["c"]).await;
    let other = current(&notebook).await.id;
    let (_, text) = call(
        &notebook,
        "recover_historical_plan",
        json!({"plan_id": old}),
    )
    .await;
    assert!(
        text.contains("recovered successfully") && text.contains("'Other' is replaced"),
        "{text}"
    );
    assert_eq!(states(&notebook).await, "it");
    let kept = notebook.storage().get_plan(&other).await.unwrap().unwrap();
    assert_eq!(kept.state, State::Abandoned);
    assert!(kept.outcome.unwrap().contains(&old));
}

#[tokio::test]
async fn a_present_plan_that_is_done_stays_done_when_another_is_recovered() {
    let notebook = with_plan(&["a"]).await;
    let old = current(&notebook).await.id;
    create(&notebook, "Other", &["c"]).await;
    let other = current(&notebook).await.id;
    finish(&notebook, 1).await;
    let plan = notebook.current().await.unwrap();
    let by_other_hands = notebook.toolbox.change(&plan, "another dialect", |draft| {
        draft.follow_tasks();
        Ok(())
    });
    by_other_hands.await.unwrap();
    assert_eq!(current(&notebook).await.state, State::InProgress);
    notebook.recover_historical_plan(&old).await.unwrap();
    let kept = notebook.storage().get_plan(&other).await.unwrap().unwrap();
    assert_eq!(kept.state, State::Done);
}

#[tokio::test]
async fn a_plan_that_is_unknown_or_current_is_not_recovered() {
    let notebook = with_plan(&["a"]).await;
    let given = json!({"plan_id": "xyz"});
    let (code, text) = refused(&notebook, "recover_historical_plan", given).await;
    assert_eq!(code, ErrorCode::UnknownPlan);
    assert!(
        text.to_lowercase().contains("cannot find") && text.contains("'xyz'"),
        "{text}"
    );
    let id = current(&notebook).await.id;
    let given = json!({"plan_id": id});
    let (code, _) = refused(&notebook, "recover_historical_plan", given).await;
    assert_eq!(code, ErrorCode::UnknownPlan);
    notebook.finish_plan(End::Abandoned, "x").await.unwrap();
    notebook.recover_historical_plan(&id).await.unwrap();
    let given = json!({"plan_id": id});
    let (code, text) = refused(&notebook, "recover_historical_plan", given).await;
    assert_eq!(code, ErrorCode::Conflict);
    assert!(text.contains("the current plan already"), "{text}");
}

#[tokio::test]
async fn what_a_recovered_plan_becomes_leaves_the_history_as_it_was() {
    let notebook = with_plan(&["a", "b"]).await;
    let id = current(&notebook).await.id;
    notebook.finish_plan(End::Abandoned, "later").await.unwrap();
    let before = notebook.storage().get_plan(&id).await.unwrap().unwrap();
    notebook.recover_historical_plan(&id).await.unwrap();
    finish(&notebook, 2).await;
    assert_eq!(
        notebook.storage().get_plan(&id).await.unwrap().unwrap(),
        before
    );
    assert_eq!(notebook.storage().get_plans().await.unwrap(), [before]);
    let (_, text) = call(&notebook, "view_historical_plans", json!({})).await;
    assert!(
        text.contains("State: abandoned") && text.matches("- ID: ").count() == 1,
        "{text}"
    );
    notebook.finish_plan(End::Done, "now").await.unwrap();
    let after = notebook.storage().get_plans().await.unwrap();
    assert_eq!((after.len(), after[0].state), (1, State::Done));
}

#[tokio::test]
async fn the_history_is_paged_newest_first_and_says_what_is_left() {
    let notebook = notebook().await;
    assert_eq!(
        call(&notebook, "view_historical_plans", Value::Null).await,
        (true, "The history has no plans.".to_owned())
    );
    for name in ["one", "two", "three", "four"] {
        create(&notebook, name, &["a"]).await;
    }
    let page = json!({"limit": 2, "offset": 0});
    let answer = notebook
        .toolbox
        .call(Dialect::Notebook, "view_historical_plans", page)
        .await;
    let text = answer.value["result"].as_str().unwrap();
    assert_eq!(answer.value["left"], json!(1));
    assert!(
        text.find("'three'").unwrap() < text.find("'two'").unwrap(),
        "{text}"
    );
    assert!(!text.contains("'one'") && text.contains("1 more"), "{text}");
    let (_, text) = call(&notebook, "view_historical_plans", json!({"offset": 2})).await;
    assert!(text.contains("'one'") && !text.contains("'two'"), "{text}");
}

#[tokio::test]
async fn plans_are_added_once_unless_overridden_and_deleted_by_id() {
    let own: Arc<dyn PlanStorage> = Arc::new(InMemoryPlanStorage::default());
    for storage in [own, notebook().await.storage()] {
        let mut plan = Plan::new("Report", "", "", subtasks(&["a", "b"]));
        plan.finish(End::Abandoned, "enough");
        storage.add_plan(plan.clone(), false).await.unwrap();
        let again = storage.add_plan(plan.clone(), false).await.unwrap_err();
        assert!(matches!(again, StorageError::Key(_)), "{again}");
        plan.subtasks.remove(0);
        plan.outcome = Some("more".to_owned());
        storage.add_plan(plan.clone(), true).await.unwrap();
        let second = Plan::new("Second", "", "", subtasks(&["c"]));
        storage.add_plan(second.clone(), true).await.unwrap();
        assert_eq!(storage.get_plans().await.unwrap(), [plan.clone(), second]);
        assert_eq!(
            storage.get_plan(&plan.id).await.unwrap(),
            Some(plan.clone())
        );
        assert_eq!(storage.get_plan("nobody").await.unwrap(), None);
        storage.delete_plan(&plan.id).await.unwrap();
        assert_eq!(storage.get_plan(&plan.id).await.unwrap(), None);
        let unknown = storage.delete_plan(&plan.id).await.unwrap_err();
        assert!(matches!(unknown, StorageError::Key(_)), "{unknown}");
    }
}

#[tokio::test]
async fn the_store_keeps_no_current_plan_in_the_history() {
    let notebook = with_plan(&["a"]).await;
    let storage = notebook.storage();
    let plan = current(&notebook).await;
    let refused = storage.add_plan(plan.clone(), true).await.unwrap_err();
    assert!(
        refused.to_string().contains("is the current plan"),
        "{refused}"
    );
    notebook.finish_plan(End::Abandoned, "x").await.unwrap();
    notebook.recover_historical_plan(&plan.id).await.unwrap();
    storage.delete_plan(&plan.id).await.unwrap();
    assert_eq!(storage.get_plans().await.unwrap(), []);
    assert_eq!(current(&notebook).await.id, plan.id);
}

#[tokio::test]
async fn a_programs_own_storage_has_the_history() {
    let storage = Arc::new(InMemoryPlanStorage::default());
    let notebook = notebook().await.with_storage(storage.clone());
    create(&notebook, "One", &["a", "b"]).await;
    let one = current(&notebook).await.id;
    create(&notebook, "Two", &["c"]).await;
    let two = current(&notebook).await.id;
    finish(&notebook, 1).await;
    notebook.finish_plan(End::Done, "well").await.unwrap();
    let kept = storage.get_plans().await.unwrap();
    let told: Vec<(&str, State)> = kept.iter().map(|it| (it.name.as_str(), it.state)).collect();
    assert_eq!(told, [("One", State::Abandoned), ("Two", State::Done)]);
    assert!(kept[0].outcome.as_ref().unwrap().contains(&two));
    // Another program has it from there.
    let elsewhere = super::notebook().await.with_storage(storage.clone());
    elsewhere.recover_historical_plan(&one).await.unwrap();
    assert_eq!(states(&elsewhere).await, "tt");
    assert_eq!(current(&elsewhere).await.id, one);
    finish(&elsewhere, 2).await;
    assert_eq!(
        storage.get_plan(&one).await.unwrap().unwrap().state,
        State::Abandoned
    );
    elsewhere.finish_plan(End::Done, "too").await.unwrap();
    assert_eq!(
        storage.get_plan(&one).await.unwrap().unwrap().state,
        State::Done
    );
    storage.delete_plan(&one).await.unwrap();
    let gone = elsewhere.recover_historical_plan(&one).await.unwrap_err();
    assert_eq!(gone.code(), ErrorCode::UnknownPlan);
    let (_, text) = call(&elsewhere, "view_historical_plans", json!({})).await;
    assert!(text.contains("'Two'") && !text.contains("'One'"), "{text}");
}

/// A storage that cannot be reached when it is told so, and sees to it that the plan changes while it keeps it.
struct Moody {
    kept: InMemoryPlanStorage,
    away: AtomicBool,
    meanwhile: Mutex<Option<PlanNotebook>>,
    recovered: Mutex<Option<String>>,
}

impl Moody {
    fn new() -> Self {
        Self {
            kept: InMemoryPlanStorage::default(),
            away: AtomicBool::new(false),
            meanwhile: Mutex::default(),
            recovered: Mutex::default(),
        }
    }
}

impl PlanStorage for Moody {
    fn add_plan(&self, plan: Plan, r#override: bool) -> Stored<'_, ()> {
        if self.away.load(Ordering::SeqCst) {
            let error = StorageError::Connection("no route".to_owned());
            return Box::pin(std::future::ready(Err(error)));
        }
        let other = self.meanwhile.lock().unwrap().take();
        let recovered = self.recovered.lock().unwrap().take();
        Box::pin(async move {
            if let Some(other) = other {
                if let Some(id) = recovered {
                    other.recover_historical_plan(&id).await.unwrap();
                    other
                        .update_subtask_state(0, State::InProgress)
                        .await
                        .unwrap();
                }
                other.finish_subtask(0, "meanwhile").await.unwrap();
            }
            self.kept.add_plan(plan, r#override).await
        })
    }

    fn delete_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, ()> {
        self.kept.delete_plan(plan_id)
    }

    fn get_plans(&self) -> Stored<'_, Vec<Plan>> {
        Box::pin(std::future::ready(Err(StorageError::Timeout(
            "5 s".to_owned(),
        ))))
    }

    fn get_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, Option<Plan>> {
        self.kept.get_plan(plan_id)
    }
}

#[tokio::test]
async fn a_storage_that_fails_is_told_and_the_plan_goes_on() {
    let storage = Arc::new(Moody::new());
    let notebook = with_plan(&["a"]).await.with_storage(storage.clone());
    storage.away.store(true, Ordering::SeqCst);
    let end = json!({"state": "abandoned", "outcome": "x"});
    let (code, text) = refused(&notebook, "finish_plan", end).await;
    assert_eq!(code, ErrorCode::ConnectionError);
    assert!(text.contains("no route"), "{text}");
    let other = json!({"name": "P", "description": "", "expected_outcome": "",
        "subtasks": [{"name": "a", "description": "", "expected_outcome": ""}]});
    let (code, _) = refused(&notebook, "create_plan", other).await;
    assert_eq!(code, ErrorCode::ConnectionError);
    let (code, text) = refused(&notebook, "view_historical_plans", json!({})).await;
    assert_eq!(code, ErrorCode::TimeoutError);
    assert!(text.contains("5 s"), "{text}");
    let error = notebook.finish_plan(End::Abandoned, "x").await.unwrap_err();
    assert!(
        matches!(error, NotebookError::Storage(StorageError::Connection(_))),
        "{error}"
    );
}

#[tokio::test]
async fn a_storage_keeps_the_plan_as_it_ends_whatever_others_do_meanwhile() {
    let storage = Arc::new(Moody::new());
    let notebook = with_plan(&["a", "b"]).await.with_storage(storage.clone());
    let id = current(&notebook).await.id;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    *storage.meanwhile.lock().unwrap() = Some(PlanNotebook::new(notebook.toolbox.clone()));
    notebook.finish_plan(End::Abandoned, "x").await.unwrap();
    let kept = storage.get_plan(&id).await.unwrap().unwrap();
    assert_eq!(kept.subtasks[0].outcome.as_deref(), Some("meanwhile"));
    assert_eq!(kept.subtasks[1].state, State::Abandoned);
}

#[tokio::test]
async fn of_two_that_recover_a_plan_one_goes_on_with_it_and_the_other_reads_why() {
    let notebook = with_plan(&["a", "b"]).await;
    let id = current(&notebook).await.id;
    notebook.finish_plan(End::Abandoned, "x").await.unwrap();
    let seen = kept(&notebook.toolbox, &id).await.unwrap();
    let plan = notebook.storage().get_plan(&id).await.unwrap().unwrap();
    notebook.recover_historical_plan(&id).await.unwrap();
    finish(&notebook, 1).await;
    for copy in [false, true] {
        let seen = kept(&notebook.toolbox, &id).await.unwrap();
        let slow = Box::pin(notebook.take(plan.clone(), seen, copy))
            .await
            .unwrap_err();
        assert_eq!(slow.code(), ErrorCode::Conflict);
    }
    let slow = Box::pin(notebook.take(plan.clone(), seen, false))
        .await
        .unwrap_err();
    assert!(
        slow.to_string().contains("the current plan already"),
        "{slow}"
    );
    assert_eq!(states(&notebook).await, "di");
}

#[tokio::test]
async fn a_plan_that_has_changed_since_it_was_seen_is_not_written_over() {
    let notebook = with_plan(&["a"]).await;
    let plan = current(&notebook).await;
    notebook.finish_plan(End::Abandoned, "x").await.unwrap();
    let seen = kept(&notebook.toolbox, &plan.id).await.unwrap().unwrap();
    notebook.recover_historical_plan(&plan.id).await.unwrap();
    finish(&notebook, 1).await;
    let storage = StoreStorage(notebook.toolbox.clone());
    let id = notebook.current().await.unwrap();
    let put = storage.put("test", plan, Some((id, seen)), |draft, seen| {
        seen.still(draft)
    });
    assert_eq!(put.await.unwrap_err().code(), ErrorCode::Conflict);
    assert_eq!(states(&notebook).await, "d");
}

#[tokio::test]
async fn a_caller_that_was_overtaken_reads_which_plan_is_current() {
    let notebook = with_plan(&["a"]).await;
    let plan = current(&notebook).await;
    let error = crate::store::StoreError::Overtaken(None);
    let error = notebook.overtaken(error.into()).await;
    assert_eq!(error.code(), ErrorCode::Conflict);
    let text = error.to_string();
    assert!(text.contains("'Plan'") && text.contains(&plan.id), "{text}");
    let new = |name: &'static str| notebook.create_plan(name, "", "", subtasks(&["x"]));
    let (one, two) = tokio::join!(new("one"), new("two"));
    let now = current(&notebook).await.id;
    for made in [one, two] {
        match made {
            Ok(made) => assert!(made.text().contains("its ID is"), "{}", made.text()),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Conflict);
                assert!(error.to_string().contains(&now), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_storage_has_a_replaced_plan_with_what_others_did_meanwhile() {
    let storage = Arc::new(Moody::new());
    let notebook = with_plan(&["a", "b"]).await.with_storage(storage.clone());
    let id = current(&notebook).await.id;
    notebook
        .update_subtask_state(0, State::InProgress)
        .await
        .unwrap();
    *storage.meanwhile.lock().unwrap() = Some(PlanNotebook::new(notebook.toolbox.clone()));
    create(&notebook, "Other", &["c"]).await;
    let kept = storage.get_plan(&id).await.unwrap().unwrap();
    assert_eq!(kept.state, State::Abandoned);
    assert_eq!(kept.subtasks[0].outcome.as_deref(), Some("meanwhile"));
}

#[tokio::test]
async fn a_storage_has_nothing_of_a_plan_that_goes_on_after_all() {
    let storage = Arc::new(Moody::new());
    let notebook = with_plan(&["a", "b"]).await.with_storage(storage.clone());
    let old = current(&notebook).await.id;
    create(&notebook, "Other", &["c"]).await;
    let other = current(&notebook).await.id;
    *storage.meanwhile.lock().unwrap() = Some(PlanNotebook::new(notebook.toolbox.clone()));
    *storage.recovered.lock().unwrap() = Some(old.clone());
    let slow = notebook.recover_historical_plan(&old).await.unwrap_err();
    assert_eq!(slow.code(), ErrorCode::Conflict);
    assert_eq!(
        (current(&notebook).await.id, states(&notebook).await),
        (old.clone(), "di".to_owned())
    );
    // That one was replaced all the same, by the other caller.
    let kept = storage.get_plan(&other).await.unwrap().unwrap();
    assert!(kept.outcome.unwrap().contains(&old));
    let present = notebook.leave_present("why").await.unwrap();
    let refused = NotebookError::new(ErrorCode::Conflict, "no");
    let before = storage.get_plan(&old).await.unwrap();
    assert_eq!(before.as_ref().unwrap().outcome.as_deref(), Some("why"));
    notebook
        .left::<()>(present, Err(refused))
        .await
        .unwrap_err();
    let before = storage.get_plan(&old).await.unwrap();
    assert_ne!(before.unwrap().outcome.as_deref(), Some("why"));
}

#[tokio::test]
async fn a_look_puts_nothing_away() {
    let notebook = with_plan(&["a"]).await;
    let old = notebook.current().await.unwrap();
    create(&notebook, "Other", &["b"]).await;
    let as_if_ended = |draft: &mut crate::plan::Draft<'_>| {
        draft.describe(|head| head.shelf = Shelf::Current);
        Ok(())
    };
    notebook
        .toolbox
        .change(&old, "", as_if_ended)
        .await
        .unwrap();
    let before = trace(&notebook).await;
    let seen = notebook.view_subtasks(&[0]).await.unwrap();
    assert!(seen.text().contains("do b"), "{}", seen.text());
    hint(&notebook).await;
    notebook
        .view_historical_plans(Page::default())
        .await
        .unwrap();
    assert_eq!(current(&notebook).await.name, "Other");
    assert_eq!(trace(&notebook).await, before);
}

#[tokio::test]
async fn a_bound_plan_that_is_finished_is_said_to_be() {
    let notebook = with_plan(&["a"]).await;
    let plan = notebook.current().await.unwrap();
    notebook.finish_plan(End::Abandoned, "x").await.unwrap();
    let bound = PlanNotebook::new(notebook.toolbox.clone().with_plan(plan.clone()));
    let given = json!({"plan_id": plan.as_str()});
    let (code, _) = refused(&bound, "recover_historical_plan", given).await;
    assert_eq!(code, ErrorCode::Bound);
    let given = json!({"subtask_idx": 0, "state": "todo"});
    let (_, text) = refused(&bound, "update_subtask_state", given).await;
    assert!(text.contains("is finished as 'abandoned'"), "{text}");
}

#[tokio::test]
async fn pages_beside_the_history_say_what_is_there() {
    let notebook = with_plan(&["a"]).await;
    create(&notebook, "Other", &["b"]).await;
    let (_, text) = call(&notebook, "view_historical_plans", json!({"offset": 5})).await;
    assert_eq!(text, "The history has 1 plan: none at offset 5.");
    let (_, text) = call(&notebook, "view_historical_plans", json!({"limit": 0})).await;
    assert_eq!(text, "1 more: go on with a larger offset.");
}
