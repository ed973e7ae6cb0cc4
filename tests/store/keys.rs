//! Plans are found by the keys of their callers, by their owners and by their archive states.

use plan_agent::plan::{ArchiveState, DAEMON, ROLE};

use super::*;

/// The place in which a separate process creates plans.
const CREATOR: &str = "PLAN_AGENT_TEST_CREATES_IN";

/// Keys for which several processes compete.
const CONTENDED: usize = 50;

fn owned(id: &str, owner: &str, made: i64) -> PlanHead {
    let mut head = PlanHead::new(PlanId::new(id), "Count words", Time(made));
    owner.clone_into(&mut head.owner);
    head
}

/// Makes a plan of a tool and returns its id.
async fn create(store: &Store, key: &str) -> Result<PlanId, StoreError> {
    let made = |draft: &mut Draft<'_>| Ok(draft.plan().id().clone());
    store
        .create(owned(key, "tasks", 1), "test", "made", made)
        .await
}

async fn put_away(store: &Store, id: &PlanId, archive_state: ArchiveState) {
    let away = move |draft: &mut Draft<'_>| draft.archive(archive_state);
    store.change(id, "test", "put away", away).await.unwrap();
}

async fn take_up(store: &Store, id: &PlanId) -> Result<(), StoreError> {
    let take_up = |draft: &mut Draft<'_>| draft.reactivate();
    store.change(id, "test", "taken up", take_up).await
}

async fn found(store: &Store, key: &str) -> Option<String> {
    let id = store.find(key).await.unwrap();
    id.map(|id| id.to_string())
}

#[tokio::test]
async fn deleted_plan_frees_its_key() {
    on_every_store(async |given| {
        let store = given.open().await;
        assert_eq!(found(&store, "release").await, None);
        let mut ids = Vec::new();
        for _ in 0..20 {
            let id = create(&store, "release").await.unwrap();
            assert_eq!(found(&store, "release").await, Some(id.to_string()));
            let key = store.read(&id, |plan, _| plan.head().key().to_owned());
            assert_eq!(key.await.unwrap(), "release");
            let error = create(&store, "release").await.unwrap_err();
            assert!(matches!(&error, StoreError::PlanTaken(key) if key.as_str() == "release"));
            assert_eq!(error.to_string(), "the plan id `release` is taken");
            put_away(&store, &id, ArchiveState::Deleted).await;
            assert_eq!(found(&store, "release").await, None);
            ids.push(id.to_string());
        }
        assert_eq!(ids[..3], ["release", "release~2", "release~3"]);
        assert_eq!(ids[19], "release~20");
        // A deleted plan, and its log, can still be read by its id.
        let first = PlanId::new("release");
        assert_eq!(store.since(&first, 0, 10).await.unwrap().len(), 2);
        let error = take_up(&store, &first).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn taken_id_does_not_block_key() {
    on_every_store(async |given| {
        let store = given.open().await;
        let first = create(&store, "x").await.unwrap();
        create(&store, "x~2").await.unwrap();
        put_away(&store, &first, ArchiveState::Deleted).await;
        assert_eq!(create(&store, "x").await.unwrap().as_str(), "x~3");
        assert_eq!(found(&store, "x~2").await.as_deref(), Some("x~2"));
        let third = create(&store, "x~3").await.unwrap();
        assert_eq!(found(&store, "x~3").await, Some(third.to_string()));
        assert_eq!(found(&store, "x").await.as_deref(), Some("x~3"));
    })
    .await;
}

#[tokio::test]
async fn refused_plan_leaves_key_free() {
    on_every_store(async |given| {
        let store = given.open().await;
        for _ in 0..2 {
            let refused = |draft: &mut Draft<'_>| draft.make_tasks(Vec::new());
            let head = owned("x", "tasks", 1);
            let error = store.create(head, "test", "made", refused).await;
            assert!(matches!(error.unwrap_err(), StoreError::Refused(_)));
            assert_eq!(found(&store, "x").await, None);
        }
        assert_eq!(create(&store, "x").await.unwrap().as_str(), "x");
    })
    .await;
}

#[tokio::test]
async fn concurrent_callers_make_one_plan_per_key() {
    on_every_store(async |given| {
        let store = given.open().await;
        let tries: Vec<_> = (0..40)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { create(&store, "x").await })
            })
            .collect();
        let mut made = 0;
        for one in tries {
            match one.await.unwrap() {
                Ok(_) => made += 1,
                Err(error) => assert!(matches!(error, StoreError::PlanTaken(_)), "{error}"),
            }
        }
        assert_eq!(made, 1);
        assert_eq!(store.plans().await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn two_processes_make_one_plan_per_key() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        let start = |_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "--ignored", "store::keys::creator_process"])
                .env(CREATOR, given.place())
                .stdout(Stdio::null());
            command.spawn().unwrap()
        };
        let mut children: Vec<_> = (0..2).map(start).collect();
        for child in &mut children {
            assert!(child.wait().unwrap().success());
        }
        let plans = store.plans().await.unwrap();
        assert_eq!(plans.len(), CONTENDED);
        assert!(plans.iter().all(|listed| listed.head.key.is_none()));
    })
    .await;
}

#[tokio::test]
#[ignore = "a process of its own, started by the test of two processes"]
async fn creator_process() {
    let store = open_at(&std::env::var(CREATOR).unwrap()).await.unwrap();
    for number in 0..CONTENDED {
        match create(&store, &format!("key {number}")).await {
            Ok(_) | Err(StoreError::PlanTaken(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn owner_finds_current_and_archived_plans() {
    on_every_store(async |given| {
        let store = given.open().await;
        for (id, owner, made) in [
            ("a", "tasks", 10),
            ("b", "tasks", 20),
            ("c", "notebook", 30),
            ("d", DAEMON, 40),
        ] {
            let made = owned(id, owner, made);
            let made = store.create(made, "test", "made", add("first"));
            made.await.unwrap();
        }
        let current = async |owner: &str, limit| -> Vec<String> {
            let ids = store.current(owner, limit).await.unwrap();
            ids.iter().map(ToString::to_string).collect()
        };
        let shelved = async |offset, limit| -> (Vec<String>, usize) {
            let (plans, total) = store.archived("tasks", offset, limit).await.unwrap();
            let ids = plans.iter().map(|listed| listed.head.id.to_string());
            (ids.collect(), total)
        };
        assert_eq!(current("tasks", 5).await, ["b", "a"]);
        assert_eq!(current("tasks", 1).await, ["b"]);
        assert_eq!(current("notebook", 5).await, ["c"]);
        assert_eq!(current("nobody", 5).await, [""; 0]);
        assert_eq!(shelved(0, 5).await, (vec![], 0));

        take_up(&store, &PlanId::new("a")).await.unwrap();
        assert_eq!(current("tasks", 5).await, ["a", "b"]);
        for id in ["a", "b"] {
            put_away(&store, &PlanId::new(id), ArchiveState::History).await;
        }
        assert_eq!(current("tasks", 5).await, [""; 0]);
        let (both, total) = shelved(0, 5).await;
        assert_eq!((both.len(), total), (2, 2));
        assert_eq!(shelved(1, 5).await, (both[1..].to_vec(), 2));
        assert_eq!(shelved(0, 1).await, (both[..1].to_vec(), 2));
        assert_eq!(shelved(2, 5).await, (vec![], 2));
        // Put away is not deleted.
        assert_eq!(found(&store, "a").await.as_deref(), Some("a"));

        take_up(&store, &PlanId::new("b")).await.unwrap();
        assert_eq!(current("tasks", 5).await, ["b"]);
        assert_eq!(shelved(0, 5).await.1, 2, "what was kept stays kept");
        put_away(&store, &PlanId::new("a"), ArchiveState::Deleted).await;
        assert_eq!(shelved(0, 5).await, (vec!["b".to_owned()], 1));
    })
    .await;
}

#[tokio::test]
async fn older_format_is_migrated() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        for (id, made) in [("aaaaaaaa", 10), ("bbbbbbbb", 20)] {
            let first = |draft: &mut Draft<'_>| draft.add_tasks(vec![task("first")], None);
            let made = store.create(owned(id, DAEMON, made), "test", "made", first);
            made.await.unwrap();
        }
        drop(store);
        given.make_older().await;
        // Several processes of the new version may find it simultaneously.
        let place = given.place();
        let opening: Vec<_> = (0..4)
            .map(|_| {
                let place = place.clone();
                tokio::spawn(async move {
                    let place = place_of(&place);
                    // Other machines may still have the older version.
                    if place.is_shared() {
                        place.migrate().await?;
                    }
                    place.open(now).await
                })
            })
            .collect();
        for store in opening {
            store.await.unwrap().unwrap();
        }
        let store = given.open().await;
        assert_eq!(state(&store).await.0, 1);
        assert_eq!(log(&store).await.len(), 1);
        let ids: Vec<PlanId> = ["bbbbbbbb", "aaaaaaaa"].map(PlanId::new).into();
        assert_eq!(store.current(DAEMON, 9).await.unwrap(), ids);
        assert_eq!(found(&store, "aaaaaaaa").await.as_deref(), Some("aaaaaaaa"));
        let error = create(&store, "aaaaaaaa").await.unwrap_err();
        assert!(matches!(error, StoreError::PlanTaken(_)), "{error}");
        let second = store.change(&plan(), "test", "added", add("second")).await;
        assert_eq!(second.unwrap(), TaskId(2));
        let end = |draft: &mut Draft<'_>| draft.abandon("over");
        changes(&store, end).await;
        put_away(&store, &plan(), ArchiveState::Deleted).await;
        let expected = "aaaaaaaa~2";
        assert_eq!(create(&store, "aaaaaaaa").await.unwrap().as_str(), expected);
    })
    .await;
}

#[tokio::test]
async fn current_plans_are_listed_oldest_first() {
    on_every_store(async |given| {
        let store = given.open().await;
        let make = async |id: &str, at: i64| {
            let mut head = owned(id, ROLE, at);
            head.key = Some(format!("role:architect:{id}"));
            head.parent = Some(PlanId::new("top"));
            let made = |draft: &mut Draft<'_>| Ok(draft.plan().id().clone());
            store.create(head, "test", "made", made).await.unwrap()
        };
        make("1-older", 3).await;
        make("2-newer", 7).await;
        let done = make("done", 5).await;
        create(&store, "tool").await.unwrap();
        put_away(&store, &done, ArchiveState::History).await;
        let listed = store.in_use(ROLE).await.unwrap();
        let keys: Vec<&str> = listed.iter().map(|listed| listed.head.key()).collect();
        assert_eq!(keys, ["role:architect:1-older", "role:architect:2-newer"]);
        let parents = listed.iter().map(|listed| listed.head.parent.clone());
        assert!(parents.eq([Some(PlanId::new("top")), Some(PlanId::new("top"))]));
        // An archived plan is still found by its key.
        let id = store.find("role:architect:done").await.unwrap();
        assert_eq!(id, Some(done));
    })
    .await;
}
