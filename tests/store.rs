//! The store from outside: one suite for every kind of store, and what only a file can show. The suite runs on PostgreSQL
//! too when `PLAN_AGENT_TEST_POSTGRES` names a server and the feature `postgres` is on.

mod keys;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plan_agent::plan::{
    CommandId, Draft, Head, Issue, Kind, NewTask, Origin, Plan, PlanId, Policy, Refusal, Report,
    ReportStatus, Row, TaskId, Time,
};
use plan_agent::store::{Change, Store, StoreError};
use tempfile::TempDir;

/// Names the server that the suite runs on as well.
const SERVER: &str = "PLAN_AGENT_TEST_POSTGRES";

/// What a process of its own writes to, and who it is.
const WRITER: [&str; 2] = ["PLAN_AGENT_TEST_WRITES_TO", "PLAN_AGENT_TEST_WRITES_AS"];

/// Changes that each of several writers makes.
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
    /// The URL, and the schema that the test has for itself.
    Postgres(String, String),
}

impl Given {
    fn new(kind: Kinds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { kind, folder }
    }

    async fn postgres() -> Option<Self> {
        let Some(server) = server() else {
            skipped("PostgreSQL", &format!("{SERVER} is not set"));
            return None;
        };
        if !cfg!(feature = "postgres") {
            skipped("PostgreSQL", "the feature `postgres` is off");
            return None;
        }
        let schema = format!("test_{}", uuid::Uuid::new_v4().simple());
        run_sql(&server, &format!("CREATE SCHEMA {schema}")).await;
        let glue = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{glue}options=-c%20search_path%3D{schema}");
        Some(Self::new(Kinds::Postgres(url, schema)))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("plan-agent.db")
    }

    /// Tells whether a second store can be opened on the same plans.
    fn shared(&self) -> bool {
        self.kind != Kinds::Memory
    }

    async fn open(&self) -> Store {
        self.try_open().await.unwrap()
    }

    async fn try_open(&self) -> Result<Store, StoreError> {
        match &self.kind {
            Kinds::Memory => Store::in_memory(now).await,
            Kinds::File | Kinds::Postgres(..) => open_at(&self.place()).await,
        }
    }

    /// The file or the URL under which another process finds the store.
    fn place(&self) -> String {
        match &self.kind {
            Kinds::Postgres(url, _) => url.clone(),
            _ => self.file().display().to_string(),
        }
    }

    /// Does something to the tables behind the store's back.
    async fn sql(&self, statements: &str) {
        match &self.kind {
            Kinds::Memory => unreachable!("nobody else reaches a store in memory"),
            Kinds::File | Kinds::Postgres(..) => run_sql(&self.place(), statements).await,
        }
    }

    /// Makes every change fail in the statement that writes to this table.
    async fn break_table(&self, table: &str, with: &str) {
        let statements = match self.kind {
            Kinds::Postgres(..) => format!(
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
            Kinds::Postgres(..) => {
                format!("DROP TRIGGER broken ON {table}; DROP FUNCTION broken()")
            }
            _ => "DROP TRIGGER broken".to_owned(),
        })
        .await;
    }

    async fn clean_up(self) {
        if let (Kinds::Postgres(_, schema), Some(server)) = (&self.kind, server()) {
            run_sql(&server, &format!("DROP SCHEMA {schema} CASCADE")).await;
        }
    }
}

async fn open_at(place: &str) -> Result<Store, StoreError> {
    #[cfg(feature = "postgres")]
    if place.starts_with("postgres") {
        return Store::open_url(place, now).await;
    }
    Store::open(Path::new(place), now).await
}

fn server() -> Option<String> {
    std::env::var(SERVER).ok().filter(|url| !url.is_empty())
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests is to know what was left out"
)]
fn skipped(what: &str, why: &str) {
    eprintln!("skipped: {what}: {why}");
}

/// Runs a test on every kind of store that is there.
async fn on_every_store(test: impl AsyncFn(&Given)) {
    let mut all = vec![Given::new(Kinds::File), Given::new(Kinds::Memory)];
    all.extend(Given::postgres().await);
    for given in all {
        test(&given).await;
        given.clean_up().await;
    }
}

/// Returns the process that [`one_of_several_writers`] is.
fn writer() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--ignored", "store::one_of_several_writers"])
        .stdout(Stdio::null());
    command
}

/// Runs statements on a connection of its own.
async fn run_sql(place: &str, statements: &str) {
    let (place, statements) = (place.to_owned(), statements.to_owned());
    let run = move || {
        if place.starts_with("postgres") {
            return run_on_server(&place, &statements);
        }
        let connection = rusqlite::Connection::open(&place).unwrap();
        connection.execute_batch(&statements).unwrap();
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}

#[cfg(feature = "postgres")]
fn run_on_server(url: &str, statements: &str) {
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    client.batch_execute(statements).unwrap();
}

#[cfg(not(feature = "postgres"))]
fn run_on_server(_: &str, _: &str) {
    unreachable!("without the feature no server is tested");
}

fn now() -> Time {
    Time(1_000_000)
}

fn plan() -> PlanId {
    PlanId::new("aaaaaaaa")
}

fn head(id: &str) -> Head {
    Head::new(PlanId::new(id), "Count words", now())
}

fn task(name: &str) -> NewTask {
    NewTask {
        name: name.to_owned(),
        origin: Origin::Person,
        ..NewTask::default()
    }
}

fn add(
    name: &str,
) -> impl FnOnce(&mut Draft<'_>) -> Result<TaskId, Refusal> + Send + 'static + use<> {
    let task = task(name);
    move |draft| Ok(draft.add_tasks(vec![task], None)?[0])
}

/// Makes a plan of one task.
async fn make(store: &Store, id: &str) {
    store
        .create(head(id), "test", "made", add("first"))
        .await
        .unwrap();
}

/// Makes a change that writes rows of every kind, unlike the one before it.
async fn step(store: &Store, number: u32) {
    let command = CommandId::new(format!("task-{number}"));
    let work = move |draft: &mut Draft<'_>| {
        let id = draft.add_tasks(vec![task(&format!("task {number}"))], None)?[0];
        draft.start(Policy::default(), "/workspace")?;
        let issue = Issue {
            id: command.clone(),
            kind: Kind::New,
            session: None,
            text: format!("do it {number}\n").repeat(50),
        };
        if draft.plan().ready().next().map(|task| task.number) == Some(id) {
            draft.issue(id, issue)?;
            draft.report(&command, report(number))?;
        }
        Ok(())
    };
    store.change(&plan(), "test", "a step", work).await.unwrap();
}

/// Issues a task as `command-NUMBER`.
async fn issue(store: &Store, number: u32) {
    let issue = Issue {
        id: CommandId::new(format!("command-{number}")),
        kind: Kind::New,
        session: None,
        text: "do it".to_owned(),
    };
    let issue = move |draft: &mut Draft<'_>| draft.issue(TaskId(number), issue);
    store
        .change(&plan(), "test", "issued", issue)
        .await
        .unwrap();
}

fn report(number: u32) -> Report {
    Report {
        name: format!("report-task-{number}.md"),
        status: ReportStatus::Success,
        session: None,
        results: "done".to_owned(),
        pitfalls: String::new(),
        next_steps: String::new(),
        question: None,
        blocked_until: None,
        collaboration: None,
        input_tokens: 1,
        output_tokens: 1,
        cost_usd: 0.5,
        hash: number.to_string(),
        received: now(),
    }
}

/// Everything that a plan consists of, in an order of its own.
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
async fn what_is_changed_can_be_read_followed_and_looked_back_at() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let mut states = vec![state(&store).await];
        for number in 1..20 {
            step(&store, number).await;
            states.push(state(&store).await);
        }
        for (number, (seq, rows)) in (1..).zip(&states) {
            assert_eq!(*seq, number, "{:?}", given.kind);
            let then = store.at(&plan(), number).await.unwrap();
            assert_eq!(
                &self::rows(&then),
                rows,
                "{:?}, change {number}",
                given.kind
            );
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
async fn plans_are_listed_and_found_by_their_commands() {
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
        let short: Vec<_> = listed
            .iter()
            .map(|plan| (plan.head.id.as_str(), plan.seq))
            .collect();
        assert_eq!(short, [("bbbbbbbb", 1), ("aaaaaaaa", 2)]);
        let issue = |draft: &mut Draft<'_>| {
            draft.start(Policy::default(), "/workspace")?;
            let id = CommandId::new("task-x");
            let text = "do it".to_owned();
            draft.issue(
                TaskId(1),
                Issue {
                    id,
                    kind: Kind::New,
                    session: None,
                    text,
                },
            )
        };
        store
            .change(&plan(), "test", "issued", issue)
            .await
            .unwrap();
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
async fn a_plan_without_any_task_is_a_plan() {
    on_every_store(async |given| {
        let store = given.open().await;
        store
            .create(head("aaaaaaaa"), "test", "a goal", |_| Ok(()))
            .await
            .unwrap();
        let (seq, before) = state(&store).await;
        assert_eq!((seq, before.len()), (1, 1), "{:?}", given.kind);
        if given.shared() {
            assert_eq!(state(&given.open().await).await, (seq, before));
        }
        assert_eq!(store.plans().await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_changes_nothing_in_memory_and_on_disk() {
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
        assert_eq!(state(&store).await, before, "{:?}", given.kind);
        let unmade = store
            .create(head("bbbbbbbb"), "test", "made", |draft| {
                draft.make_tasks(vec![])
            })
            .await;
        assert!(matches!(unmade, Err(StoreError::Refused(Refusal::NoTasks))));
        let gone = store.read(&PlanId::new("bbbbbbbb"), |_, _| ()).await;
        assert!(matches!(gone, Err(StoreError::UnknownPlan(_))));
        // What has no effect is no change.
        store
            .change(&plan(), "test", "nothing", |_| Ok(()))
            .await
            .unwrap();
        assert_eq!(log(&store).await.len(), 1);
        if given.shared() {
            assert_eq!(state(&given.open().await).await, before, "{:?}", given.kind);
        }
        // The number of the refused task and the id of the refused plan are free.
        let second = store.change(&plan(), "test", "added", add("second")).await;
        assert_eq!(second.unwrap(), TaskId(2));
        make(&store, "bbbbbbbb").await;
    })
    .await;
}

#[tokio::test]
async fn one_refusal_among_many_callers_leaves_the_others_alone() {
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
        // No number is given twice, and none is lost to a refusal.
        assert_eq!(given_out, (2..42).map(TaskId).collect::<Vec<_>>());
        assert_eq!(log(&store).await.len(), 41, "{:?}", given.kind);
        if given.shared() {
            assert_eq!(state(&given.open().await).await, state(&store).await);
        }
    })
    .await;
}

#[tokio::test]
async fn whoever_watches_is_told_of_a_change() {
    on_every_store(async |given| {
        let store = given.open().await;
        let mut moved = store.moved();
        moved.mark_unchanged();
        make(&store, "aaaaaaaa").await;
        moved.changed().await.unwrap();
        let missing = |draft: &mut Draft<'_>| draft.remove_task(TaskId(9));
        let refused = store.change(&plan(), "test", "x", missing).await;
        refused.unwrap_err();
        assert!(!moved.has_changed().unwrap(), "{:?}", given.kind);
    })
    .await;
}

#[tokio::test]
async fn many_may_open_a_new_store_at_once() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
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
            assert_eq!(state(store).await.0, 1, "{:?}", given.kind);
        }
    })
    .await;
}

#[tokio::test]
async fn two_stores_on_one_plan_see_each_other_at_once() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
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
async fn four_processes_write_one_plan_and_nothing_is_lost() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
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
        assert_eq!(seqs, (1..=401).collect::<Vec<_>>(), "{:?}", given.kind);
        for writer in writers {
            let own: Vec<&str> = log
                .iter()
                .filter(|change| change.by == writer)
                .map(|change| change.why.as_str())
                .collect();
            let expected: Vec<String> = (0..EACH).map(|number| number.to_string()).collect();
            assert_eq!(own, expected, "{:?}", given.kind);
        }
        let (seq, rows) = state(&store).await;
        assert_eq!((seq, rows.len()), (401, 402));
        assert_eq!(self::rows(&store.at(&plan(), seq).await.unwrap()), rows);
    })
    .await;
}

#[tokio::test]
async fn a_second_store_of_a_process_leaves_the_first_its_locks() {
    let given = Given::new(Kinds::File);
    let first = given.open().await;
    make(&first, "aaaaaaaa").await;
    let second = given.open().await;
    assert_eq!(state(&second).await.0, 1);
    // The process that closes a file as the last one puts its write-ahead log away. It must not be the last one here.
    for round in 1..=2 {
        let (mut child, place) = (writer(), given.place());
        child.envs(WRITER.iter().zip([place.as_str(), "other"]));
        assert!(child.status().unwrap().success());
        first
            .change(&plan(), "test", "added", add("x"))
            .await
            .unwrap();
        assert_eq!(state(&given.open().await).await.0, 1 + round * 101);
    }
}

#[tokio::test]
#[ignore = "a process of its own, started by the test of four processes"]
async fn one_of_several_writers() {
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

#[tokio::test]
async fn a_failing_statement_leaves_memory_and_disk_as_they_were() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        step(&store, 1).await;
        let before = state(&store).await;
        for (table, with) in [
            ("plans", "UPDATE"),
            ("plan_rows", "INSERT"),
            ("log", "INSERT"),
        ] {
            given.break_table(table, with).await;
            let failed = store.change(&plan(), "test", "x", add("x")).await;
            assert!(matches!(failed, Err(StoreError::Database(_))), "{table}");
            assert_eq!(state(&store).await, before, "{:?}, {table}", given.kind);
            assert_eq!(state(&given.open().await).await, before);
            given.mend_table(table).await;
        }
        let made = store
            .create(head("bbbbbbbb"), "test", "made", add("x"))
            .await;
        made.unwrap();
        given.break_table("log", "INSERT").await;
        let failed = store
            .create(head("cccccccc"), "test", "made", add("x"))
            .await;
        assert!(matches!(failed, Err(StoreError::Database(_))));
        given.mend_table("log").await;
        make(&store, "cccccccc").await;
        step(&store, 2).await;
        assert_eq!(log(&store).await.len(), 3, "{:?}", given.kind);
        assert_eq!(state(&given.open().await).await, state(&store).await);
    })
    .await;
}

#[tokio::test]
async fn a_damaged_row_is_an_error_that_names_the_plan() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        make(&store, "bbbbbbbb").await;
        // So large that the rows are written at once.
        let large = add(&"x".repeat(100_000));
        store.change(&plan(), "test", "x", large).await.unwrap();
        drop(store);
        let names = |error: StoreError| {
            let text = error.to_string();
            let named = matches!(&error, StoreError::Damaged { plan: id, .. } if *id == plan());
            assert!(named && text.contains("`aaaaaaaa`"), "{text}");
        };
        let damage =
            "UPDATE plan_rows SET body = '{\"Task\"' WHERE plan = 'aaaaaaaa' AND kind = 'task'";
        given.sql(damage).await;
        let store = given.open().await;
        names(store.read(&plan(), |_, _| ()).await.unwrap_err());
        names(
            store
                .change(&plan(), "test", "x", add("x"))
                .await
                .unwrap_err(),
        );
        given
            .sql("UPDATE log SET delta = 'x' WHERE plan = 'aaaaaaaa'")
            .await;
        names(store.since(&plan(), 0, 10).await.unwrap_err());
        names(store.at(&plan(), 1).await.unwrap_err());
        // The other plan is none the worse for it.
        let other = PlanId::new("bbbbbbbb");
        store
            .change(&other, "test", "added", add("x"))
            .await
            .unwrap();
        assert_eq!(store.plans().await.unwrap().len(), 2);
        given
            .sql("UPDATE plan_rows SET body = '1' WHERE plan = 'aaaaaaaa' AND kind = 'head'")
            .await;
        names(store.plans().await.unwrap_err());
        given
            .sql("DELETE FROM plan_rows WHERE plan = 'aaaaaaaa'")
            .await;
        names(
            given
                .open()
                .await
                .read(&plan(), |_, _| ())
                .await
                .unwrap_err(),
        );
    })
    .await;
}

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
    })
    .await;
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_refused_and_not_touched() {
    on_every_store(async |given| {
        if !given.shared() {
            return;
        }
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        drop(store);
        given
            .sql("UPDATE meta SET value = 99 WHERE name = 'format'")
            .await;
        let refusal = given.try_open().await.unwrap_err().to_string();
        assert!(refusal.contains("newer version (format 99"), "{refusal}");
    })
    .await;
    for journal in ["WAL", "DELETE"] {
        let given = Given::new(Kinds::File);
        let newer = format!(
            "PRAGMA journal_mode={journal}; CREATE TABLE meta (name TEXT PRIMARY KEY, value BIGINT); \
             INSERT INTO meta VALUES ('format', 99)"
        );
        run_sql(&given.place(), &newer).await;
        let before = fs::read(given.file()).unwrap();
        for _ in 0..2 {
            let refusal = given.try_open().await.unwrap_err().to_string();
            assert!(refusal.contains("plan-agent.db"), "{refusal}");
            assert!(fs::read(given.file()).unwrap() == before, "{journal}");
        }
    }
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_not_touched() {
    let given = Given::new(Kinds::File);
    fs::write(given.file(), "a letter to a friend\n".repeat(100)).unwrap();
    let before = fs::read(given.file()).unwrap();
    let refusal = given.try_open().await.unwrap_err().to_string();
    assert!(refusal.contains("plan-agent.db"), "{refusal}");
    assert!(fs::read(given.file()).unwrap() == before);
    let nowhere = given.folder.path().join("no/such/folder/plans.db");
    let refusal = Store::open(&nowhere, now).await.unwrap_err().to_string();
    assert!(refusal.contains("no/such/folder"), "{refusal}");
}

#[tokio::test]
async fn nothing_is_acknowledged_once_the_file_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = Store::open(&path, now).await.unwrap();
    make(&store, "aaaaaaaa").await;
    let plan = PlanId::new("aaaaaaaa");
    let name = |name: &'static str| {
        let change = move |draft: &mut Draft<'_>| {
            draft.describe(|head| head.name = name.to_owned());
            Ok::<_, Refusal>(())
        };
        store.change(&plan, "test", "named", change)
    };
    name("before").await.unwrap();
    let aside = folder.path().join("aside.db");
    fs::rename(&path, &aside).unwrap();
    let refusal = name("removed").await.unwrap_err().to_string();
    assert!(refusal.contains("plans.db` was removed"), "{refusal}");
    fs::write(&path, "").unwrap();
    let refusal = name("replaced").await.unwrap_err().to_string();
    assert!(refusal.contains("replaced while"), "{refusal}");
    let seen = store.read(&plan, |plan, _| plan.head().name.clone()).await;
    assert_eq!(seen.unwrap(), "before");

    fs::rename(&aside, &path).unwrap();
    name("after").await.unwrap();
    let seen = store.read(&plan, |plan, _| plan.head().name.clone()).await;
    assert_eq!(seen.unwrap(), "after");
}

#[tokio::test]
async fn the_file_is_its_owners_only_whatever_it_is_called() {
    for name in [
        "plans.db",
        "with space.db",
        "100%.db",
        "what?mode=memory.db",
        "a#b.db",
        "ä€.db",
        "%41.db",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let store = Store::open(&path, now).await.unwrap();
        make(&store, "aaaaaaaa").await;
        let names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        for found in names {
            assert!(found.starts_with(name), "{found}");
            let mode = fs::metadata(folder.path().join(&found))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{found}");
        }
    }
}

/// The write-ahead log of an SQLite file: a header, then one frame a page.
struct Wal(Vec<u8>);

impl Wal {
    const HEADER: usize = 32;

    fn of(given: &Given) -> Self {
        Self(fs::read(given.folder.path().join("plan-agent.db-wal")).unwrap())
    }

    fn frame(&self) -> usize {
        let page = u32::from_be_bytes(self.0[8..12].try_into().unwrap());
        24 + page as usize
    }

    /// Where each commit ends: its last frame holds the size of the database after it. Frames of an earlier round, which
    /// begin with another salt, do not count.
    fn commits(&self) -> Vec<usize> {
        let salt = &self.0[16..24];
        (Self::HEADER..self.0.len())
            .step_by(self.frame())
            .filter(|at| self.0.len() >= at + self.frame())
            .filter(|at| self.0[at + 8..at + 16] == *salt && self.0[at + 4..at + 8] != [0; 4])
            .map(|at| at + self.frame())
            .collect()
    }
}

#[tokio::test]
async fn what_many_callers_want_at_once_is_flushed_at_once() {
    let given = Given::new(Kinds::File);
    let store = given.open().await;
    make(&store, "aaaaaaaa").await;
    let before = Wal::of(&given).commits().len();
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.change(&plan(), "test", "added", add("x")).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(log(&store).await.len(), 65);
    let commits = Wal::of(&given).commits().len() - before;
    assert!(
        (1..=4).contains(&commits),
        "{commits} commits for 64 changes"
    );
}

#[tokio::test]
async fn a_crash_at_any_point_leaves_a_state_that_was_committed() {
    let given = Given::new(Kinds::File);
    let store = given.open().await;
    // Before the first change there is no plan.
    let mut states: Vec<(usize, Option<State>)> = vec![(Wal::of(&given).0.len(), None)];
    make(&store, "aaaaaaaa").await;
    states.push((Wal::of(&given).0.len(), Some(state(&store).await)));
    for number in 1..6 {
        step(&store, number).await;
        states.push((Wal::of(&given).0.len(), Some(state(&store).await)));
    }
    let wal = Wal::of(&given);
    let database = fs::read(given.file()).unwrap();
    let frames = (Wal::HEADER..=wal.0.len()).step_by(wal.frame());
    // Between any two pages, in the middle of a page, and in its header.
    let cuts = frames.flat_map(|at| [at, at + 11, at + wal.frame() / 2]);
    let mut seen = BTreeMap::new();
    for cut in cuts.chain([0, 7]).filter(|cut| *cut <= wal.0.len()) {
        let crashed = Given::new(Kinds::File);
        fs::write(crashed.file(), &database).unwrap();
        fs::write(
            crashed.folder.path().join("plan-agent.db-wal"),
            &wal.0[..cut],
        )
        .unwrap();
        let store = crashed.open().await;
        let expected = states.iter().rev().find(|(end, _)| *end <= cut);
        let expected = expected.and_then(|(_, state)| state.clone());
        let found = store
            .read(&plan(), |plan, seq| (seq, rows(plan)))
            .await
            .ok();
        assert_eq!(found, expected, "cut at {cut} of {}", wal.0.len());
        let seq = expected.as_ref().map_or(0, |(seq, _)| *seq);
        assert_eq!(i64::try_from(log(&store).await.len()).unwrap(), seq);
        *seen.entry(seq).or_insert(0) += 1;
        // It goes on from there.
        match expected {
            None => make(&store, "aaaaaaaa").await,
            Some(_) => step(&store, 90).await,
        }
        assert_eq!(state(&store).await.0, seq + 1);
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}

#[tokio::test]
async fn a_full_disk_is_said_and_nothing_is_lost_by_it() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let path = disk.0.path().join("plans.db");
    let store = Store::open(&path, now).await.unwrap();
    make(&store, "aaaaaaaa").await;
    let filler = disk.0.path().join("filler");
    for round in 0..3 {
        let mut file = fs::File::create(&filler).unwrap();
        // Ends when nothing more fits.
        std::io::copy(&mut std::io::repeat(b'x'), &mut file).unwrap_err();
        drop(file);
        let mut committed = state(&store).await;
        let failure = loop {
            match store
                .change(&plan(), "test", "added", add(&"x".repeat(4_000)))
                .await
            {
                Ok(_) => committed = state(&store).await,
                Err(error) => break error,
            }
        };
        assert!(matches!(failure, StoreError::Database(_)), "{failure}");
        assert_eq!(state(&store).await, committed, "round {round}");
        fs::remove_file(&filler).unwrap();
        assert_eq!(
            state(&Store::open(&path, now).await.unwrap()).await,
            committed
        );
        store
            .change(&plan(), "test", "added", add("room again"))
            .await
            .unwrap();
        assert_eq!(state(&store).await.0, committed.0 + 1);
    }
    let (seq, rows) = state(&store).await;
    assert_eq!(self::rows(&store.at(&plan(), seq).await.unwrap()), rows);
}

/// A file system of half a mebibyte.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "plan-agent-test"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        skipped("a full disk", "only root can mount a small one");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What is left then is an empty folder that the next start of the machine clears.
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

#[tokio::test]
async fn a_change_writes_as_little_in_a_large_plan_as_in_a_small_one() {
    let mut costs = Vec::new();
    for tasks in [10, 1_000, 10_000] {
        let given = Given::new(Kinds::File);
        let store = given.open().await;
        let many = (0..tasks)
            .map(|number| task(&format!("task {number}")))
            .collect();
        let make = move |draft: &mut Draft<'_>| draft.make_tasks(many).map(drop);
        store
            .create(head("aaaaaaaa"), "test", "made", make)
            .await
            .unwrap();
        // Empties the write-ahead log, so that it begins again with the change that is measured.
        given.sql("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let issue = |draft: &mut Draft<'_>| {
            draft.start(Policy::default(), "/workspace")?;
            let id = CommandId::new("task-x");
            let text = "do it".repeat(200);
            draft.issue(
                TaskId(1),
                Issue {
                    id,
                    kind: Kind::New,
                    session: None,
                    text,
                },
            )
        };
        store
            .change(&plan(), "test", "issued", issue)
            .await
            .unwrap();
        let wal = Wal::of(&given);
        let pages = wal.commits()[0] / wal.frame();
        let rows = log(&store).await[1].delta.rows.len();
        costs.push((rows, pages));
    }
    assert!(costs.iter().all(|(rows, _)| *rows == 3), "{costs:?}");
    // A larger tree is at most two levels higher, in each of three tables and two indexes.
    assert!(costs[2].1 <= costs[0].1 + 5, "{costs:?}");
}
