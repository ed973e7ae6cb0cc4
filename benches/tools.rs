//! Tool calls a second in a process that stays, for plans of different sizes, on a disk and in memory. The aim: a call costs
//! in a plan of 100,000 tasks what it costs in a plan of ten.

use std::time::{Duration, Instant};

use plan_agent::tools::{Dialect, Toolbox};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::table::{Times, against, print, ratio};
use crate::{disk, row};

const SIZES: [usize; 4] = [10, 1_000, 10_000, 100_000];

/// Turns in which each plan gets each call once: the load of the machine falls on all alike.
const TURNS: usize = 60;

/// What a call may cost in the largest plan against the smallest.
const FLAT: f64 = 1.3;

pub fn run() {
    let before = sched_getaffinity(None).unwrap();
    // On which processors the threads of the stores happen to be counts for more than the size of a plan: all share one.
    sched_setaffinity(None, &one_of(&before)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for durable in [false, true] {
        runtime.block_on(measure(durable));
    }
    sched_setaffinity(None, &before).unwrap();
}

fn one_of(all: &CpuSet) -> CpuSet {
    let mut one = CpuSet::new();
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| all.is_set(*cpu));
    one.set(last.unwrap());
    one
}

/// The plans of one size, one of each dialect, and what the calls took.
struct Plans {
    _folder: TempDir,
    toolbox: Toolbox,
    tasks: usize,
    /// The name of each call in the order of the first turn, and what it took.
    calls: Vec<(&'static str, Vec<Duration>)>,
}

async fn measure(durable: bool) {
    let mut sizes = Vec::new();
    for tasks in SIZES {
        sizes.push(Plans::new(tasks, durable).await);
    }
    for turn in 0..TURNS {
        // Each size is the first of a turn as often as the others.
        for place in 0..sizes.len() {
            let next = (turn + place) % sizes.len();
            sizes[next].turn(turn).await;
        }
    }
    let medians: Vec<Vec<(&str, Duration)>> = sizes.into_iter().map(Plans::medians).collect();
    let mut rows = vec![row!["", "10", "1,000", "10,000", "100,000", "100,000 / 10"]];
    for (place, (name, smallest)) in medians[0].iter().enumerate() {
        let mut row = row![name];
        let shown = |time: Duration| format!("{:.0} µs", time.as_secs_f64() * 1e6);
        row.extend(medians.iter().map(|calls| shown(calls[place].1)));
        let largest = medians[SIZES.len() - 1][place].1;
        row.push(format!("{:.2}", ratio(largest, *smallest)));
        rows.push(row);
    }
    let sums: Vec<Duration> = medians
        .iter()
        .map(|calls| calls.iter().map(|(_, time)| *time).sum())
        .collect();
    let mut row = row!["all: calls a second"];
    let calls = medians[0].len() as f64;
    row.extend(
        sums.iter()
            .map(|sum| format!("{:.0}/s", calls / sum.as_secs_f64())),
    );
    row.push(against(ratio(sums[SIZES.len() - 1], sums[0]), FLAT));
    rows.push(row);
    let place = if durable { "durable" } else { ":memory:" };
    print(
        &format!("tools: calls in plans of N tasks, by the median, {place}"),
        &rows,
    );
}

impl Plans {
    async fn new(tasks: usize, durable: bool) -> Self {
        let folder = disk::folder();
        let toolbox = if durable {
            let file = folder.path().join("plans.db");
            Toolbox::open(&file, "bench").await.unwrap()
        } else {
            Toolbox::in_memory().await.unwrap()
        };
        let plans = Self {
            _folder: folder,
            toolbox,
            tasks,
            calls: Vec::new(),
        };
        plans.make().await;
        plans
    }

    async fn make(&self) {
        let list = |task: &dyn Fn(usize) -> Value| (0..self.tasks).map(task).collect::<Vec<_>>();
        let name = |number: usize| format!("Task number {number}");
        // Every second task waits for the one before it.
        let tasks = list(&|number| {
            let before: Vec<usize> = (number % 2 == 1).then_some(number).into_iter().collect();
            json!({"name": name(number), "dependencies": before, "reasoning": "It is needed."})
        });
        let given = json!({"goal": "Count the words", "tasks": tasks});
        self.call(Dialect::PlanManager, "createPlan", given).await;
        let tasks =
            list(&|number| json!({"subject": name(number), "description": "It is needed."}));
        self.call(Dialect::Tasks, "TaskCreate", json!({"tasks": tasks}))
            .await;
        // A list with a gap in it.
        let given = json!({"taskId": "2", "status": "deleted"});
        self.call(Dialect::Tasks, "TaskUpdate", given).await;
        let tasks = list(&|number| {
            let id = format!("t{number}");
            json!({"task_id": id, "name": name(number), "assignee": "builder", "description": "d"})
        });
        let steps = json!([{"step_id": "s", "name": "Build", "tasks": tasks}]);
        let given = json!({"structure_data": {"name": "Count", "steps": steps}});
        self.call(Dialect::PlanTool, "create_plan_from_structure", given)
            .await;
        let subtasks = list(
            &|number| json!({"name": name(number), "description": "d", "expected_outcome": "o"}),
        );
        let given = json!({"name": "Count", "description": "d", "expected_outcome": "o", "subtasks": subtasks});
        self.call(Dialect::Notebook, "create_plan", given).await;
        let given = json!({"subtask_idx": 0, "state": "in_progress"});
        self.call(Dialect::Notebook, "update_subtask_state", given)
            .await;
    }

    async fn call(&self, dialect: Dialect, name: &str, given: Value) -> Value {
        let answer = self.toolbox.call(dialect, name, given).await;
        assert!(answer.success, "{name}: {}", answer.value);
        answer.value
    }

    async fn timed(&mut self, dialect: Dialect, name: &'static str, given: Value) -> Value {
        let begun = Instant::now();
        let answer = self.call(dialect, name, given).await;
        let took = begun.elapsed();
        match self.calls.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(took),
            None => self.calls.push((name, vec![took])),
        }
        answer
    }

    /// Calls each tool once. As many tasks are added as are completed, and as many shown of a large plan as of a small one.
    async fn turn(&mut self, turn: usize) {
        let manager = Dialect::PlanManager;
        let given = json!({"name": "One more", "dependencies": [], "reasoning": "It came up."});
        self.timed(manager, "addTask", given).await;
        let started = self.timed(manager, "startNextTask", json!({})).await;
        let id = &started["data"]["task"]["id"];
        let given = json!({"task_id": id, "result": "It is done."});
        self.timed(manager, "completeTask", given).await;
        self.timed(manager, "getPlanStatus", json!({})).await;
        let page = json!({"limit": 5});
        self.timed(manager, "getExecutableTaskList", page.clone())
            .await;
        self.timed(manager, "getTaskList", page.clone()).await;
        self.timed(manager, "getPlan", page.clone()).await;

        let status = ["in_progress", "pending"][turn % 2];
        let given = json!({"taskId": "1", "status": status});
        self.timed(Dialect::Tasks, "TaskUpdate", given).await;
        let given = json!({"limit": 5, "offset": self.tasks / 2});
        self.timed(Dialect::Tasks, "TaskList", given).await;

        let status = ["inprogress", "ready"][turn % 2];
        let given = json!({"task_id": "t1", "status": status});
        self.timed(Dialect::PlanTool, "update_task_status", given)
            .await;
        self.timed(Dialect::PlanTool, "get_ready_tasks", page).await;
        let given = json!({"role_id": "builder", "limit": 5});
        self.timed(Dialect::PlanTool, "get_tasks_for_role", given)
            .await;

        let subtask = json!({"name": "One more", "description": "d", "expected_outcome": "o"});
        let given = json!({"subtask_idx": self.tasks + turn, "action": "add", "subtask": subtask});
        self.timed(Dialect::Notebook, "revise_current_plan", given)
            .await;
        let given = json!({"subtask_idx": turn, "subtask_outcome": "It is done."});
        self.timed(Dialect::Notebook, "finish_subtask", given).await;
        let given = json!({"subtask_idx": [turn]});
        self.timed(Dialect::Notebook, "view_subtasks", given).await;
    }

    fn medians(self) -> Vec<(&'static str, Duration)> {
        let median = |(name, times)| (name, Times::new(times).p50());
        self.calls.into_iter().map(median).collect()
    }
}
