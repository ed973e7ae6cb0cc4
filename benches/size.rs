//! What the database grows by: for a task that is carried out, and for a change of an attempt with a long text.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use plan_agent::plan::{
    AttemptKind, CommandId, Draft, NewCommand, PlanPolicy, TaskId, TaskOrder, Time,
};
use plan_agent::store::Store;

use crate::latency::program;
use crate::table::print;
use crate::{disk, row, sample};

const TASKS: usize = 100;

const TEXT: usize = 1024 * 1024;
const CHANGES: usize = 50;

pub fn run() {
    let (task, change) = carried_out();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (first, later) = runtime.block_on(one_attempt());
    print(
        "size: bytes that the database grows by",
        &[
            row!["a task carried out, report of 2 kB", task],
            row!["… a change of that plan", change],
            row!["an attempt with a text of 1 MiB", first],
            row!["… each of 50 changes of it", later],
        ],
    );
}

/// Carries a plan out by rules, and returns the bytes a task and a change.
fn carried_out() -> (usize, usize) {
    let folder = disk::folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("plan.md", &sample::plan_file(TASKS));
    write("report.md", &sample::report());
    write("config.toml", "llm.provider = \"none\"\n");
    let report = folder.path().join("report.md");
    let copy = format!("cp '{}' \"$1\"", report.display());
    let words = [
        "run",
        "--plan",
        "plan.md",
        "--no-input",
        "--agent",
        "command",
        "--",
    ];
    let status = program(
        folder.path(),
        &[&words[..], &["sh", "-c", &copy, "sh", "{report}"]].concat(),
    )
    .env("PATH", std::env::var_os("PATH").unwrap_or_default())
    .stdout(Stdio::null())
    .status()
    .unwrap();
    assert!(status.success(), "{status}");
    let database = folder.path().join("volumes/plan-agent.db");
    let changes = number(&database, "SELECT COUNT(*) FROM log");
    (size(&database) / TASKS, size(&database) / changes)
}

/// Returns the bytes with an attempt, and those of each later change of it.
async fn one_attempt() -> (usize, usize) {
    let folder = disk::folder();
    let database = folder.path().join("plans.db");
    let store = Store::open(&database, || Time(1)).await.unwrap();
    let issue = NewCommand {
        id: CommandId::new("command-1"),
        kind: AttemptKind::New,
        session: None,
        text: "A line of a long text.\n".repeat(TEXT / 23),
    };
    let make = |draft: &mut Draft<'_>| {
        sample::make_tasks(1)(draft)?;
        draft.start(PlanPolicy::default(), "/workspace")?;
        draft.issue(TaskId(1), issue)
    };
    let head = sample::head(TaskOrder::Dependencies);
    store.create(head, sample::BY, "made", make).await.unwrap();
    let first = size(&database);
    let plan = sample::plan(0);
    for number in 0..CHANGES {
        let until = (number % 2 == 0).then_some(Time(2));
        let waits = move |draft: &mut Draft<'_>| draft.waits(&CommandId::new("command-1"), until);
        let changed = store.change(&plan, sample::BY, "waits", waits);
        changed.await.unwrap();
    }
    (first, (size(&database) - first) / CHANGES)
}

/// Returns the bytes of a database with what is in its journal.
fn size(database: &Path) -> usize {
    number(
        database,
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    )
}

/// Returns the one number that a query finds.
pub fn number(database: &Path, query: &str) -> usize {
    let database = rusqlite::Connection::open(database).unwrap();
    let number = database.query_row(query, [], |row| row.get::<_, i64>(0));
    usize::try_from(number.unwrap()).unwrap()
}
