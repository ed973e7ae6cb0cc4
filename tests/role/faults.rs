//! Temporary faults of the store: nothing that was paid for is lost, and no step fails because of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use plan_agent::plan::RoleRequest;
use plan_agent::role::RoleError;
use plan_agent::store::StoreError;
use rusqlite::Connection;

use super::*;

/// A scene with the store in a file, which a test can break.
async fn in_a_file(folder: &tempfile::TempDir) -> (Scene, PathBuf) {
    let place = folder.path().join("plans.db");
    let clock = Clock::start();
    let store = Store::open(&place, move || clock.now()).await.unwrap();
    let scene = Scene {
        store,
        ..Scene::new().await
    };
    (scene, place)
}

/// Makes every change of a plan fail for so long, as a full disk does.
fn breaks(place: &std::path::Path, span: Duration) {
    let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let until = (epoch.unwrap() + span).as_secs_f64();
    let sql = format!(
        "CREATE TRIGGER full BEFORE INSERT ON log \
         WHEN (julianday('now') - 2440587.5) * 86400.0 < {until} \
         BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    );
    Connection::open(place)
        .unwrap()
        .execute_batch(&sql)
        .unwrap();
}

fn mends(place: &std::path::Path) {
    let connection = Connection::open(place).unwrap();
    connection.execute_batch("DROP TRIGGER full").unwrap();
}

/// A model during whose first answer the store fails for a moment.
#[derive(Debug)]
struct Unlucky {
    inner: Arc<Scripted>,
    place: PathBuf,
}

impl LanguageModel for Unlucky {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<ModelReply, LlmError>> {
        Box::pin(async move {
            if self.inner.asked().is_empty() {
                breaks(&self.place, Duration::from_millis(400));
            }
            self.inner.exchange(request).await
        })
    }
}

#[tokio::test]
async fn unstored_answer_is_stored_later() {
    for description in ["Write a poem.", "Read it. Then write it."] {
        let folder = tempfile::tempdir().unwrap();
        let (scene, place) = in_a_file(&folder).await;
        let mut says = planned(json!([{"name": "Say", "uses": "echo", "params": {"text": "hi"}}]));
        says["answer"] = json!("hi");
        let scene = scene.with_model([says]);
        let inner = Arc::clone(scene.model.as_ref().unwrap());
        let mut mind = inner.mind();
        let unlucky = Unlucky { inner, place };
        mind.model = Model::new(Arc::new(unlucky), &Config::default().llm);
        let mut role = Role::new(
            scene.settings.clone(),
            scene.store.clone(),
            Arc::clone(&scene.office) as Arc<dyn Framework>,
            Some(mind),
            scene.actions.clone(),
            scene.tools.clone(),
        )
        .unwrap();
        gets(&mut role, task(description)).await;
        assert_eq!(scene.success(), "hi");
        assert_eq!(scene.asked().len(), 1, "paid once");
    }
}

#[tokio::test]
async fn store_fault_fails_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let (mut scene, place) = in_a_file(&folder).await;
    let schema = json!({"type": "object", "properties": {}});
    let broken = Arc::new((place.clone(), AtomicBool::new(false)));
    // The store fails before the action asks the model.
    let action_that_breaks = Ability::new("breaks", "asks", schema, move |_, situation| {
        let broken = Arc::clone(&broken);
        Box::pin(async move {
            if !broken.1.swap(true, Ordering::Relaxed) {
                breaks(&broken.0, LONG);
            }
            situation.ask("a word").await
        })
    });
    scene.actions.add(Arc::new(action_that_breaks));
    let scene = scene
        .with_model([json!({"answer": "a word"})])
        .with_steps(vec![action("breaks", json!({}))]);
    let mut role = scene.role();
    let error = role.process_message(task("Review it")).await.unwrap_err();
    assert!(
        matches!(error, RoleError::Store(StoreError::Database(_))),
        "{error}"
    );
    assert!(scene.office.updates().is_empty());
    mends(&place);
    gets(&mut role, task("Review it")).await;
    assert_eq!(scene.success(), "a word");
    assert_eq!(scene.asked().len(), 1);
}

#[tokio::test]
async fn damaged_plan_of_other_role_blocks_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let (scene, place) = in_a_file(&folder).await;
    let mut scene = scene
        .with_steps(vec![asks("coder", "mend it")])
        .with_top()
        .await;
    scene.handed_out("damaged", ROLE, "request-9").await;
    // So large that its rows are written immediately.
    let large = new_task("One more");
    let large = vec![large; 300];
    let damaged = PlanId::new("damaged");
    let change = scene.store.change(&damaged, "test", "more", |draft| {
        draft.add_tasks(large, None).map(drop)
    });
    change.await.unwrap();
    let wait = RoleRequest {
        role: "architect".to_owned(),
        on: "coder".to_owned(),
        request: CommandId::new("request-9"),
        what: String::new(),
        since: Time::default(),
        limited_until: None,
    };
    let (top, command) = (PlanId::new("topplan"), CommandId::new("task-1"));
    let waits = scene.store.change(&top, "test", "it waits", move |draft| {
        draft.begin_wait(&command, wait)
    });
    waits.await.unwrap();
    // Another process reads what this one has in memory.
    let damage = "UPDATE plan_rows SET body = 'x' WHERE plan = 'damaged' AND kind = 'task'";
    let connection = Connection::open(&place).unwrap();
    connection.execute_batch(damage).unwrap();
    let clock = Clock::start();
    scene.store = Store::open(&place, move || clock.now()).await.unwrap();
    let read = scene.store.read(&damaged, |_, _| ()).await;
    assert!(matches!(read, Err(StoreError::Damaged { .. })), "{read:?}");

    let mut role = scene.given("Review it").await;
    let request = role.state().pending_collaboration_request_id.clone();
    // A wait of a plan that cannot be read has ended.
    let expected = (1, vec![RoleRequestEnd::TakenBack]);
    assert_eq!((scene.waits().await, scene.ends().await), expected);
    let answered = answer(&request.unwrap(), COMPLETED, "mended");
    gets(&mut role, answered).await;
    assert_eq!(scene.success(), "mended");
    let expected = (
        0,
        vec![RoleRequestEnd::TakenBack, RoleRequestEnd::Completed],
    );
    assert_eq!((scene.waits().await, scene.ends().await), expected);
    let mut other = task_named("task-2", "Review it");
    other.plan_id = Some(PlanId::new("topplan"));
    gets(&mut role, other).await;
    gets(&mut role, cancel("task-2")).await;
    assert_eq!(role.state().status.as_str(), "idle");
}
