//! The store from outside: one suite for every kind of store, and the tests that only a file allows, or only a server.

mod disk;
mod faults;
mod keys;
mod lease;
mod rows;
mod tallies;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::core::{block_on, new_command, new_report, new_task};
use crate::common::env::{has, row};
use crate::common::postgres::{self, empty_store};
use plan_agent::config::{Environment, StoreConfig, StoreUrl};
use plan_agent::plan::{
    CommandId, Draft, NewCommand, Origin, Plan, PlanHead, PlanId, PlanPolicy, Refusal, Report, Row,
    TaskId, TaskSpec, Time,
};
use plan_agent::store::{Change, LeaseState, Store, StoreError, StorePlace};
use tempfile::TempDir;

/// The place to which a separate process writes, and its name.
const WRITER: [&str; 2] = ["PLAN_AGENT_TEST_WRITES_TO", "PLAN_AGENT_TEST_WRITES_AS"];

/// The number of changes that each of several writers makes.
const EACH: usize = 100;

/// One kind of store, empty.
struct Given {
    kind: Kinds,
    folder: TempDir,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kinds {
    File,
    Memory,
    /// The URL, with the test's own schema.
    Postgres(String),
}

impl Given {
    fn new(kind: Kinds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { kind, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("plan-agent.db")
    }

    /// Returns whether a second store can be opened on the same plans.
    fn shared(&self) -> bool {
        self.kind != Kinds::Memory
    }

    async fn open(&self) -> Store {
        self.try_open().await.unwrap()
    }

    async fn try_open(&self) -> Result<Store, StoreError> {
        match &self.kind {
            Kinds::Memory => Store::in_memory(now).await,
            Kinds::File | Kinds::Postgres(_) => open_at(&self.place()).await,
        }
    }

    /// Returns the file or the URL under which another process finds the store.
    fn place(&self) -> String {
        match &self.kind {
            Kinds::Postgres(url) => url.clone(),
            _ => self.file().display().to_string(),
        }
    }

    /// Changes the tables behind the store's back.
    async fn sql(&self, statements: &str) {
        match &self.kind {
            Kinds::Memory => unreachable!("nobody else reaches a store in memory"),
            Kinds::File | Kinds::Postgres(_) => run_sql(&self.place(), statements).await,
        }
    }

    /// Makes the tables those of the oldest version that is brought to this one.
    async fn make_older(&self) {
        let later = [
            "UPDATE meta SET value = 4 WHERE name = 'format'",
            "DROP TABLE spent",
            "DROP INDEX plans_queued",
            "DROP TABLE work",
            "DROP TABLE relayed",
            "DROP TABLE relayed_parts",
            "DROP TABLE relays",
            "DROP TABLE relay_rights",
            "ALTER TABLE plans DROP COLUMN holder",
            "ALTER TABLE plans DROP COLUMN epoch",
            "ALTER TABLE plans DROP COLUMN held_until",
            "ALTER TABLE plans DROP COLUMN queued",
            "ALTER TABLE plans DROP COLUMN tally",
            "ALTER TABLE plans DROP COLUMN tallied",
        ];
        let all = format!("BEGIN; {}; COMMIT", later.join("; "));
        self.sql(&all).await;
    }

    /// Makes every change fail in the statement that writes to this table.
    async fn break_table(&self, table: &str, with: &str) {
        let statements = match self.kind {
            Kinds::Postgres(_) => format!(
                "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION 'broken'; END $$; \
                 CREATE TRIGGER broken BEFORE {with} ON {table} FOR EACH ROW EXECUTE FUNCTION broken()"
            ),
            _ => format!(
                "CREATE TRIGGER broken BEFORE {with} ON {table} BEGIN SELECT RAISE(ABORT, 'broken'); END"
            ),
        };
        self.sql(&statements).await;
    }

    async fn mend_table(&self, table: &str) {
        self.sql(&match self.kind {
            Kinds::Postgres(_) => {
                format!("DROP TRIGGER broken ON {table}; DROP FUNCTION broken()")
            }
            _ => "DROP TRIGGER broken".to_owned(),
        })
        .await;
    }
}

/// Returns the place of a file or a URL.
fn place_of(place: &str) -> StorePlace {
    let url = place.starts_with("postgres").then(|| place.to_owned());
    let url = url.map(|url| StoreUrl::try_from(url).unwrap());
    StorePlace::configured(&StoreConfig { url }, place.into(), &Environment::default()).unwrap()
}

async fn open_at(place: &str) -> Result<Store, StoreError> {
    place_of(place).open(now).await
}

/// Runs a test on every available kind of store.
async fn on_every_store(test: impl AsyncFn(&Given)) {
    let mut all = vec![Given::new(Kinds::File), Given::new(Kinds::Memory)];
    let server = tokio::task::spawn_blocking(empty_store).await.unwrap();
    all.extend(server.map(|url| Given::new(Kinds::Postgres(url))));
    for given in all {
        row(&given.kind);
        test(&given).await;
    }
}

/// Runs a test on every available kind of store that can be opened twice.
async fn on_every_shared_store(test: impl AsyncFn(&Given)) {
    on_every_store(async |given| {
        if given.shared() {
            test(given).await;
        }
    })
    .await;
}

/// Makes a change that must work.
async fn changes<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + 'static,
) -> T {
    store
        .change(&plan(), "test", "changed", work)
        .await
        .unwrap()
}

/// Returns the command that runs [`writer_process`] as a process.
fn writer() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--ignored", "store::writer_process"])
        .stdout(Stdio::null());
    command
}

/// Runs statements on a separate connection.
async fn run_sql(place: &str, statements: &str) {
    let (place, statements) = (place.to_owned(), statements.to_owned());
    let run = move || {
        if place.starts_with("postgres") {
            return postgres::run_sql(&place, &statements);
        }
        let connection = rusqlite::Connection::open(&place).unwrap();
        connection.execute_batch(&statements).unwrap();
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}

fn now() -> Time {
    Time(1_000_000)
}

fn plan() -> PlanId {
    PlanId::new("aaaaaaaa")
}

fn head(id: &str) -> PlanHead {
    PlanHead::new(PlanId::new(id), "Count words", now())
}

fn task(name: &str) -> TaskSpec {
    TaskSpec {
        origin: Origin::Person,
        ..new_task(name)
    }
}

fn add(
    name: &str,
) -> impl FnMut(&mut Draft<'_>) -> Result<TaskId, Refusal> + Send + 'static + use<> {
    let task = task(name);
    move |draft| Ok(draft.add_tasks(vec![task.clone()], None)?[0])
}

/// Makes a plan with one task.
async fn make(store: &Store, id: &str) {
    let made = store.create(head(id), "test", "made", add("first"));
    made.await.unwrap();
}

/// Makes a change that writes rows of every kind, unlike the one before it.
async fn step(store: &Store, number: u32) {
    let command = CommandId::new(format!("task-{number}"));
    let work = move |draft: &mut Draft<'_>| {
        let id = draft.add_tasks(vec![task(&format!("task {number}"))], None)?[0];
        draft.start(PlanPolicy::default(), "/workspace")?;
        let issue = new_command(command.as_str(), &format!("do it {number}\n").repeat(50));
        if draft.plan().ready().next().map(|task| task.number) == Some(id) {
            draft.issue(id, issue)?;
            draft.report(&command, report(number))?;
        }
        Ok(())
    };
    changes(store, work).await;
}

/// Starts a plan, if it is not started, and issues one of its tasks.
async fn issue(store: &Store, plan: &PlanId, task: u32, command: NewCommand) {
    let issue = move |draft: &mut Draft<'_>| {
        draft.start(PlanPolicy::default(), "/workspace")?;
        draft.issue(TaskId(task), command)
    };
    store.change(plan, "test", "issued", issue).await.unwrap();
}

/// Adds this many tasks of ten kilobytes, one in each change.
async fn fill(store: &Store, tasks: usize) {
    for number in 0..tasks {
        let change = add(&format!(
            "{} {number} {}",
            uuid::Uuid::new_v4(),
            "y".repeat(10_000)
        ));
        changes(store, change).await;
    }
}

fn report(number: u32) -> Report {
    Report {
        input_tokens: 1,
        output_tokens: 1,
        cost_usd: 0.5,
        ..new_report(&format!("task-{number}"), "done", now())
    }
}

/// Returns everything that a plan consists of, in a fixed order.
fn rows(plan: &Plan) -> BTreeMap<String, Row> {
    plan.rows()
        .map(|row| (format!("{:?}", row.key()), row))
        .collect()
}

type State = (i64, BTreeMap<String, Row>);

async fn state(store: &Store) -> State {
    store
        .read(&plan(), |plan, seq| (seq, rows(plan)))
        .await
        .unwrap()
}

async fn log(store: &Store) -> Vec<Change> {
    store.since(&plan(), 0, usize::MAX).await.unwrap()
}

#[tokio::test]
async fn changes_can_be_read_followed_and_revisited() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let mut states = vec![state(&store).await];
        for number in 1..20 {
            step(&store, number).await;
            states.push(state(&store).await);
        }
        for (number, (seq, rows)) in (1..).zip(&states) {
            assert_eq!(*seq, number);
            let then = store.at(&plan(), number).await.unwrap();
            assert_eq!(&self::rows(&then), rows, "change {number}");
        }
        let log = log(&store).await;
        let seqs: Vec<i64> = log.iter().map(|change| change.seq).collect();
        assert_eq!(seqs, (1..=20).collect::<Vec<_>>());
        assert_eq!((log[0].by.as_str(), log[0].why.as_str()), ("test", "made"));
        assert_eq!(log[0].at, now());
        assert!(log.iter().all(|change| !change.delta.events.is_empty()));
        assert_eq!(store.since(&plan(), 17, 2).await.unwrap(), log[17..19]);
        assert_eq!(store.since(&plan(), 20, 2).await.unwrap(), []);
        for missing in [0, -1, 21] {
            assert!(store.at(&plan(), missing).await.is_err());
        }
    })
    .await;
}

#[tokio::test]
async fn plans_are_listed_and_found_by_command() {
    on_every_store(async |given| {
        let store = given.open().await;
        assert_eq!(store.plans().await.unwrap(), []);
        make(&store, "aaaaaaaa").await;
        make(&store, "bbbbbbbb").await;
        step(&store, 1).await;
        let taken = store
            .create(head("bbbbbbbb"), "test", "made", add("again"))
            .await;
        assert!(matches!(taken, Err(StoreError::PlanTaken(id)) if id.as_str() == "bbbbbbbb"));
        let listed = store.plans().await.unwrap();
        let short = listed.iter().map(|plan| (plan.head.id.as_str(), plan.seq));
        let short: Vec<_> = short.collect();
        assert_eq!(short, [("bbbbbbbb", 1), ("aaaaaaaa", 2)]);
        issue(&store, &plan(), 1, new_command("task-x", "do it")).await;
        let of = async |id: &str| store.plan_of(&CommandId::new(id)).await.unwrap();
        assert_eq!(of("task-x").await, Some(plan()));
        assert_eq!(of("task-y").await, None);
        let unknown = PlanId::new("cccccccc");
        let refused = store.change(&unknown, "test", "x", add("x")).await;
        assert!(matches!(refused, Err(StoreError::UnknownPlan(id)) if id == unknown));
        assert!(store.read(&unknown, |_, seq| seq).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn store_accepts_plan_without_tasks() {
    on_every_store(async |given| {
        let store = given.open().await;
        store
            .create(head("aaaaaaaa"), "test", "a goal", |_| Ok(()))
            .await
            .unwrap();
        let (seq, before) = state(&store).await;
        assert_eq!((seq, before.len()), (1, 1));
        if given.shared() {
            assert_eq!(state(&given.open().await).await, (seq, before));
        }
        assert_eq!(store.plans().await.unwrap().len(), 1);
    })
    .await;
}

/// Returns the plan's seq as another connection reads it, from a thread without a runtime.
fn seq_elsewhere(place: &str) -> i64 {
    block_on(async {
        let store = open_at(place).await.unwrap();
        store.read(&plan(), |_, seq| seq).await.unwrap()
    })
}

#[tokio::test]
async fn followup_runs_only_after_durable_change() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let place = given.shared().then(|| given.place());
        let change = |draft: &mut Draft<'_>| {
            draft.add_tasks(vec![task("second")], None)?;
            Ok(0)
        };
        let look = move |seen: &mut i64| *seen = place.as_deref().map_or(2, seq_elsewhere);
        let seen = store.change_ahead(&plan(), "test", "x", change, look).await;
        assert_eq!(seen.unwrap(), 2);

        let refused = store
            .change_ahead(
                &plan(),
                "test",
                "refused",
                |draft| draft.remove_task(TaskId(9)),
                |_| panic!("it was refused"),
            )
            .await;
        assert!(matches!(refused, Err(StoreError::Refused(_))));
        if given.shared() {
            given.break_table("log", "INSERT").await;
            let failed = store
                .change_ahead(&plan(), "test", "broken", change, |_| {
                    panic!("it was not written")
                })
                .await;
            assert!(matches!(failed, Err(StoreError::Database(_))));
            given.mend_table("log").await;
        }
        // The thread still serves: the closure that would have panicked did not run.
        assert_eq!(state(&store).await.0, 2);
    })
    .await;
}

/// Adds a task over another connection, from a thread without a runtime.
fn add_elsewhere(place: &str, name: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let store = open_at(place).await.unwrap();
        let (id, added) = (plan(), add(name));
        let added = store.change(&id, "other", "added", added);
        added.await.unwrap();
    });
}

fn names(plan: &Plan) -> Vec<String> {
    plan.tasks().map(|task| task.name.clone()).collect()
}

/// A change that is made before the transaction begins.
#[tokio::test]
async fn change_runs_again_on_plan_that_moved_meanwhile() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let id = plan();
        let (place, mut runs) = (given.place(), 0);
        let change = move |draft: &mut Draft<'_>| {
            runs += 1;
            let seen = names(draft.plan());
            draft.add_tasks(vec![task(&format!("run {runs}"))], None)?;
            if runs == 1 {
                add_elsewhere(&place, "meanwhile");
            }
            Ok(seen)
        };
        let seen = store.change_ahead(&id, "test", "added", change, |_| {});
        assert_eq!(seen.await.unwrap(), ["first", "meanwhile"]);
        let expected = ["first", "meanwhile", "run 2"];
        for store in [store, given.open().await] {
            let now = store.read(&id, |plan, seq| (seq, names(plan))).await;
            assert_eq!(now.unwrap(), (3, expected.map(str::to_owned).to_vec()));
        }
    })
    .await;
}

/// Whatever becomes of a change that is made before the transaction begins, memory is as the database.
#[tokio::test]
async fn failed_change_ahead_leaves_memory_as_committed() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let id = plan();
        let before = state(&store).await;
        let half = |draft: &mut Draft<'_>| {
            draft.add_tasks(vec![task("second")], None)?;
            draft.remove_task(TaskId(9))
        };
        let refused = store.change_ahead(&id, "test", "half", half, |()| {});
        assert!(matches!(refused.await, Err(StoreError::Refused(_))));
        assert_eq!(state(&store).await, before, "{:?}", given.kind);
        let panics = |draft: &mut Draft<'_>| -> Result<(), Refusal> {
            draft.add_tasks(vec![task("second")], None)?;
            panic!("halfway")
        };
        let panicked = store.change_ahead(&id, "test", "panic", panics, |()| {});
        assert!(matches!(panicked.await, Err(StoreError::Panicked(_))));
        assert_eq!(state(&store).await, before, "{:?}", given.kind);
        // The condition is checked when the change has run.
        let other = store.only_while("daemon", Some(PlanId::new("other")));
        let overtaken = other.change_ahead(&id, "test", "late", add("late"), |_| {});
        assert!(matches!(overtaken.await, Err(StoreError::Overtaken(_))));
        assert_eq!(state(&store).await, before, "{:?}", given.kind);
        // Changes that arrive together are made one after the other.
        let ahead = store.change_ahead(&id, "test", "a", add("a"), |_| {});
        let other = store.change(&id, "test", "b", add("b"));
        let again = store.change_ahead(&id, "test", "c", add("c"), |_| {});
        let (a, b, c) = tokio::join!(ahead, other, again);
        let numbers = [a, b, c].map(|added| added.unwrap().0);
        assert_eq!(numbers, [2, 3, 4], "{:?}", given.kind);
        let (seq, rows) = state(&store).await;
        assert_eq!(self::rows(&store.at(&id, seq).await.unwrap()), rows);
    })
    .await;
}

/// Changes of two plans that arrive together, all made before the transaction begins.
#[tokio::test]
async fn failed_batch_leaves_memory_of_each_plan_as_committed() {
    on_every_store(async |given| {
        let store = given.open().await;
        let ids = ["aaaaaaaa", "bbbbbbbb"].map(PlanId::new);
        let [first, second] = &ids;
        make(&store, first.as_str()).await;
        make(&store, second.as_str()).await;
        if given.shared() {
            given.break_table("log", "INSERT").await;
            let (a, b, c) = tokio::join!(
                store.change_ahead(first, "test", "a", add("a"), |_| {}),
                store.change_ahead(second, "test", "b", add("b"), |_| {}),
                store.change_ahead(first, "test", "c", add("c"), |_| {}),
            );
            for failed in [a, b, c] {
                assert!(matches!(failed, Err(StoreError::Database(_))));
            }
            given.mend_table("log").await;
        }
        // A panic divides the batch: its plan is read anew after the changes before it are committed.
        let panics = |_: &mut Draft<'_>| -> Result<TaskId, Refusal> { panic!("between") };
        let (a, b, panicked, c) = tokio::join!(
            store.change_ahead(first, "test", "a", add("a"), |_| {}),
            store.change_ahead(second, "test", "b", add("b"), |_| {}),
            store.change(first, "test", "panic", panics),
            store.change_ahead(first, "test", "c", add("c"), |_| {}),
        );
        assert!(matches!(panicked, Err(StoreError::Panicked(_))));
        let numbers = [a, b, c].map(|added| added.unwrap().0);
        assert_eq!(numbers, [2, 2, 3], "{:?}", given.kind);
        for id in &ids {
            let read = store.read(id, |plan, seq| (seq, rows(plan)));
            let (seq, rows) = read.await.unwrap();
            assert_eq!(self::rows(&store.at(id, seq).await.unwrap()), rows);
        }
    })
    .await;
}

#[tokio::test]
async fn refusal_changes_neither_memory_nor_disk() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let before = state(&store).await;
        let refused = store
            .change(&plan(), "test", "half of it", |draft| {
                draft.add_tasks(vec![task("second")], None)?;
                draft.remove_task(TaskId(9))
            })
            .await;
        assert!(matches!(
            refused,
            Err(StoreError::Refused(Refusal::UnknownTask(_)))
        ));
        assert_eq!(state(&store).await, before);
        let unmade = store
            .create(head("bbbbbbbb"), "test", "made", |draft| {
                draft.make_tasks(vec![])
            })
            .await;
        assert!(matches!(unmade, Err(StoreError::Refused(Refusal::NoTasks))));
        let gone = store.read(&PlanId::new("bbbbbbbb"), |_, _| ()).await;
        assert!(matches!(gone, Err(StoreError::UnknownPlan(_))));
        // A change without effect is no change.
        store
            .change(&plan(), "test", "nothing", |_| Ok(()))
            .await
            .unwrap();
        assert_eq!(log(&store).await.len(), 1);
        if given.shared() {
            assert_eq!(state(&given.open().await).await, before);
        }
        // The number of the refused task and the id of the refused plan are free.
        let second = store.change(&plan(), "test", "added", add("second")).await;
        assert_eq!(second.unwrap(), TaskId(2));
        make(&store, "bbbbbbbb").await;
    })
    .await;
}

#[tokio::test]
async fn refusal_does_not_affect_other_callers() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let callers: Vec<_> = (0..60)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let bad = number % 3 == 0;
                    let change = move |draft: &mut Draft<'_>| {
                        let id = draft.add_tasks(vec![task("one more")], None)?[0];
                        if bad {
                            draft.remove_task(TaskId(9_999))?;
                        }
                        Ok(id)
                    };
                    store.change(&plan(), "test", "added", change).await.ok()
                })
            })
            .collect();
        let mut given_out = Vec::new();
        for caller in callers {
            given_out.extend(caller.await.unwrap());
        }
        given_out.sort_unstable();
        // No number is assigned twice, and none is lost to a refusal.
        assert_eq!(given_out, (2..42).map(TaskId).collect::<Vec<_>>());
        assert_eq!(log(&store).await.len(), 41);
        if given.shared() {
            assert_eq!(state(&given.open().await).await, state(&store).await);
        }
    })
    .await;
}

#[tokio::test]
async fn watchers_are_notified_of_changes() {
    on_every_store(async |given| {
        let store = given.open().await;
        let mut moved = store.moved();
        moved.mark_unchanged();
        make(&store, "aaaaaaaa").await;
        moved.changed().await.unwrap();
        let missing = |draft: &mut Draft<'_>| draft.remove_task(TaskId(9));
        let refused = store.change(&plan(), "test", "x", missing).await;
        refused.unwrap_err();
        assert!(!moved.has_changed().unwrap());
    })
    .await;
}

#[tokio::test]
async fn new_store_opens_concurrently() {
    on_every_shared_store(async |given| {
        let place = given.place();
        let open = |_| {
            let place = place.clone();
            tokio::spawn(async move { open_at(&place).await })
        };
        let opening: Vec<_> = (0..8).map(open).collect();
        let mut stores = Vec::new();
        for store in opening {
            stores.push(store.await.unwrap().unwrap());
        }
        make(&stores[0], "aaaaaaaa").await;
        for store in &stores {
            assert_eq!(state(store).await.0, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn two_stores_see_each_others_changes() {
    on_every_shared_store(async |given| {
        let (one, two) = (given.open().await, given.open().await);
        make(&one, "aaaaaaaa").await;
        for round in 1..=10 {
            let first = one.change(&plan(), "one", "added", add("x")).await.unwrap();
            let second = two.change(&plan(), "two", "added", add("y")).await.unwrap();
            assert_eq!((first, second), (TaskId(2 * round), TaskId(2 * round + 1)));
        }
        assert_eq!(state(&one).await, state(&two).await);
        assert_eq!(log(&one).await, log(&two).await);
        assert_eq!(state(&given.open().await).await, state(&one).await);
    })
    .await;
}

#[tokio::test]
async fn four_processes_lose_no_change() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let place = given.place();
        let start = |name: &&str| {
            let mut writer = writer();
            writer.envs(WRITER.iter().zip([place.as_str(), name]));
            writer.spawn().unwrap()
        };
        let writers = ["a", "b", "c", "d"];
        let mut children: Vec<_> = writers.iter().map(start).collect();
        for child in &mut children {
            assert!(child.wait().unwrap().success());
        }
        let log = log(&store).await;
        let seqs: Vec<i64> = log.iter().map(|change| change.seq).collect();
        assert_eq!(seqs, (1..=401).collect::<Vec<_>>());
        for writer in writers {
            let own = log.iter().filter(|change| change.by == writer);
            let own: Vec<&str> = own.map(|change| change.why.as_str()).collect();
            let expected: Vec<String> = (0..EACH).map(|number| number.to_string()).collect();
            assert_eq!(own, expected);
        }
        let (seq, rows) = state(&store).await;
        assert_eq!((seq, rows.len()), (401, 402));
        assert_eq!(self::rows(&store.at(&plan(), seq).await.unwrap()), rows);
    })
    .await;
}

#[tokio::test]
async fn second_store_keeps_locks_of_first() {
    let given = Given::new(Kinds::File);
    let first = given.open().await;
    make(&first, "aaaaaaaa").await;
    let second = given.open().await;
    assert_eq!(state(&second).await.0, 1);
    // The process that closes a file as the last one removes its write-ahead log. It must not be the last one here.
    for round in 1..=2 {
        let (mut child, place) = (writer(), given.place());
        child.envs(WRITER.iter().zip([place.as_str(), "other"]));
        assert!(child.status().unwrap().success());
        changes(&first, add("x")).await;
        assert_eq!(state(&given.open().await).await.0, 1 + round * 101);
    }
}

#[tokio::test]
#[ignore = "a process of its own, started by the test of four processes"]
async fn writer_process() {
    let [place, name] = WRITER.map(|name| std::env::var(name).unwrap());
    let store = open_at(&place).await.unwrap();
    for number in 0..EACH {
        let before = store
            .read(&plan(), |plan, _| plan.counts().total())
            .await
            .unwrap();
        let change = add(&format!("{name} {number}"));
        let id = store
            .change(&plan(), &name, &number.to_string(), change)
            .await
            .unwrap();
        assert!(id.0 as usize > before);
    }
}
