//! Many processes change one plan simultaneously, each in a dialect of its own: every change is kept.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use plan_agent::plan::{DAEMON, Event, Plan, PlanId, TaskState};
use plan_agent::store::Store;
use plan_agent::tools::{Dialect, Toolbox};
use serde_json::{Value, json};

use crate::common::core::block_on;
use crate::common::env::{TestEnv, times, wait_until};
use crate::common::mcp::Mcp;

/// Returns how many changes each process makes.
fn each() -> usize {
    times(40, 200)
}

/// The interval between two checks of a daemon's progress.
const POLL: Duration = Duration::from_millis(50);

/// The tasks of a daemon, which makes three changes for each.
const OWN: usize = 20;

/// The plan of the dialect `tasks`, to which the others are bound.
pub const PLAN: &str = "tasks";

/// Returns the call that adds a task in a dialect.
pub fn add(dialect: &str, name: &str) -> (&'static str, Value) {
    match dialect {
        "plan-manager" => (
            "addTask",
            json!({"name": name, "reasoning": "it is asked for", "dependencies": []}),
        ),
        "notebook" => (
            "revise_current_plan",
            json!({"action": "add", "subtask_idx": 1, "subtask": {
                "name": name, "description": "d", "expected_outcome": "o",
            }}),
        ),
        _ => ("TaskCreate", json!({"subject": name})),
    }
}

/// Makes the plan with its first task.
pub fn begin(env: &TestEnv) {
    env.exits(0, ["tool", "TaskCreate", "{\"subject\": \"first\"}"]);
}

/// Returns the seq of the plan, and how often each name occurs.
pub async fn look(env: &TestEnv) -> (i64, BTreeMap<String, usize>) {
    let store = Toolbox::open(&env.path("volumes/plan-agent.db"), "test")
        .await
        .unwrap()
        .store()
        .clone();
    let plan = PlanId::new(PLAN);
    let (seq, names) = store
        .read(&plan, |plan, seq| {
            let mut names = BTreeMap::new();
            for task in plan.tasks() {
                *names.entry(task.name.clone()).or_default() += 1;
            }
            (seq, names)
        })
        .await
        .unwrap();
    same_as_its_log(&store, &plan, seq).await;
    (seq, names)
}

async fn same_as_its_log(store: &Store, plan: &PlanId, seq: i64) {
    let told = store.at(plan, seq).await.unwrap();
    let kept = store.read(plan, |plan, _| plan.clone()).await.unwrap();
    let rows =
        |plan: &Plan| -> BTreeMap<_, _> { plan.rows().map(|row| (row.key(), row)).collect() };
    assert!(rows(&told) == rows(&kept), "the log tells another story");
}

fn client(env: &TestEnv, plan: &str, dialect: &str, names: &[String]) {
    let mut mcp = Mcp::start(env, ["--dialect", dialect, "--plan", plan]);
    for name in names {
        let (tool, arguments) = add(dialect, name);
        mcp.call(tool, arguments);
    }
    assert_eq!(mcp.end().0.code(), Some(0));
}

fn toggle(env: &TestEnv) {
    let mut mcp = Mcp::start(env, ["--dialect", "plan-tool", "--plan", PLAN]);
    for round in 0..each() {
        let status = ["inprogress", "ready"][round % 2];
        mcp.call(
            "update_task_status",
            json!({"task_id": "1", "status": status}),
        );
    }
}

fn command_line(env: &TestEnv, plan: &str, names: &[String]) {
    for name in names {
        let arguments = json!({"subject": name}).to_string();
        env.exits(0, ["tool", "TaskCreate", &arguments, "--plan", plan]);
    }
}

fn library(env: &TestEnv, names: &[String]) {
    block_on(async {
        let toolbox = Toolbox::open(&env.path("volumes/plan-agent.db"), "library")
            .await
            .unwrap();
        for name in names {
            let (tool, arguments) = add("tasks", name);
            let answer = toolbox.call(Dialect::Tasks, tool, arguments).await;
            assert!(answer.success, "{answer:?}");
        }
    });
}

#[tokio::test]
async fn eight_processes_lose_no_change() {
    let env = &TestEnv::new();
    begin(env);
    let before = look(env).await.0;
    let names = |who: &str| -> Vec<String> { (0..each()).map(|n| format!("{who}-{n}")).collect() };
    let clients = [
        ("a", "tasks"),
        ("b", "tasks"),
        ("c", "plan-manager"),
        ("d", "plan-manager"),
        ("e", "notebook"),
    ];
    thread::scope(|scope| {
        for (who, dialect) in clients {
            let names = names(who);
            scope.spawn(move || client(env, PLAN, dialect, &names));
        }
        scope.spawn(|| toggle(env));
        scope.spawn(|| command_line(env, PLAN, &names("f")));
        scope.spawn(|| library(env, &names("g")));
    });
    let (after, kept) = look(env).await;
    assert_eq!(after - before, 8 * i64::try_from(each()).unwrap());
    let mut expected: BTreeMap<String, usize> = BTreeMap::new();
    for who in ["a", "b", "c", "d", "e", "f", "g"] {
        expected.extend(names(who).into_iter().map(|name| (name, 1)));
    }
    expected.insert("first".to_owned(), 1);
    assert_eq!(kept, expected);
}

/// Numbers the rounds in the notes of a task, whatever its state.
fn note(env: &TestEnv, plan: &str) {
    let mut mcp = Mcp::start(env, ["--plan", plan]);
    for round in 1..=each() {
        let noted = json!({"taskId": "1", "metadata": {"round": round}});
        mcp.call("TaskUpdate", noted);
    }
    assert_eq!(mcp.end().0.code(), Some(0));
}

#[tokio::test]
async fn daemon_and_seven_callers_lose_no_change() {
    let env = &TestEnv::new();
    let own = (1..=OWN).map(|n| format!("## own-{n}\n\n```sh\ntrue\n```\n"));
    let file = format!("---\nname: own\n---\n\n{}", own.collect::<String>());
    env.write("plan.md", &file);
    env.write("config.toml", "[budget]\nattempts = 100000\n");
    let _daemon = env.start("run --plan plan.md --agent shell");
    wait_until("the daemon works", || env.run("status").code == Some(0));
    let file = env.path("volumes/plan-agent.db");
    let store = Toolbox::open(&file, "test").await.unwrap().store().clone();
    let plan = store.plans().await.unwrap().remove(0).head.id;
    let id = plan.as_str();
    let names = |who: &str| -> Vec<String> { (0..each()).map(|n| format!("{who}-{n}")).collect() };
    let clients = [
        ("a", "tasks"),
        ("b", "tasks"),
        ("c", "tasks"),
        ("d", "plan-manager"),
        ("e", "plan-manager"),
    ];
    thread::scope(|scope| {
        for (who, dialect) in clients {
            let names = names(who);
            scope.spawn(move || client(env, id, dialect, &names));
        }
        scope.spawn(|| note(env, id));
        scope.spawn(|| command_line(env, id, &names("f")));
    });
    let mut seen = Seen::default();
    while seen.own_done < OWN {
        tokio::time::sleep(POLL).await;
        seen = store.read(&plan, |plan, _| see(plan)).await.unwrap();
    }
    assert_eq!(env.run("stop").code, Some(0));
    let mut expected: BTreeMap<String, usize> = BTreeMap::new();
    for who in ["a", "b", "c", "d", "e", "f"] {
        expected.extend(names(who).into_iter().map(|name| (name, 1)));
    }
    assert_eq!(seen.added, expected);
    assert_eq!(seen.round, json!(each()));
    assert_eq!(seen.most_attempts, 1);
    let log = store.since(&plan, 0, usize::MAX).await.unwrap();
    // How many changes the daemon makes of it is a matter of the machine's pace.
    let by_daemon = log.iter().filter(|change| change.by == DAEMON);
    let issued = by_daemon.flat_map(|change| &change.delta.events);
    let issued = issued.filter(|event| matches!(event, Event::Issued { .. }));
    let issued = issued.count();
    assert!(issued >= OWN, "{issued} commands of the daemon");
    let seq = store.read(&plan, |_, seq| seq).await.unwrap();
    same_as_its_log(&store, &plan, seq).await;
}

/// The visible state of the plan that a daemon carries out.
#[derive(Default)]
struct Seen {
    /// The completed tasks of the plan file, and the most attempts that one of them took.
    own_done: usize,
    most_attempts: u32,
    /// How often each of the other names occurs.
    added: BTreeMap<String, usize>,
    round: Value,
}

fn see(plan: &Plan) -> Seen {
    let mut seen = Seen::default();
    for task in plan.tasks() {
        if task.name.starts_with("own-") {
            seen.own_done += usize::from(task.status == TaskState::Completed);
            seen.most_attempts = seen.most_attempts.max(task.attempts);
        } else {
            *seen.added.entry(task.name.clone()).or_default() += 1;
        }
        if let Some(round) = task.metadata.get("round") {
            seen.round = round.clone();
        }
    }
    seen
}
