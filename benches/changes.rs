//! Durable changes a second: one caller, and sixteen, in plans of different sizes, and among many plans, beside a bare append and
//! flush.

use std::time::{Duration, Instant};

use plan_agent::plan::{Draft, PlanId, TaskChanges, TaskId};
use plan_agent::store::Store;
use tempfile::TempDir;

use crate::disk::{self, Journal};
use crate::table::{Times, against, print, ratio};
use crate::{row, sample};

const SIZES: [usize; 3] = [10, 1_000, 10_000];

/// Changes of one turn, and turns: the load of the machine falls on all alike.
const CHANGES: usize = 25;
const TURNS: usize = 20;

const CALLERS: usize = 16;

/// Plans in one store, each of so many tasks.
const PLANS: usize = 100;
const TASKS: usize = 100;

pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
    runtime.block_on(measure_among());
}

/// A plan, and what its changes took.
struct Plan {
    _folder: TempDir,
    store: Store,
    tasks: usize,
    one: Vec<Duration>,
    many: Vec<Duration>,
}

async fn measure() {
    let folder = disk::folder();
    let mut journal = Journal::open(&folder.path().join("journal"));
    let mut floor = Vec::new();
    let mut plans = Vec::new();
    for tasks in SIZES {
        plans.push(Plan::new(tasks).await);
    }
    // As many bytes as a change appends to the log and the rows.
    let record = vec![b'x'; 2_000];
    for _ in 0..TURNS {
        for number in 0..CHANGES {
            // What was flushed before counts: let it be the same for all.
            journal.append(&record);
            let begun = Instant::now();
            journal.append(&record);
            floor.push(begun.elapsed());
            for plan in &mut plans {
                journal.append(&record);
                plan.one_caller(number).await;
            }
        }
        for plan in &mut plans {
            journal.append(&record);
            plan.many_callers().await;
        }
    }
    let floor = Times::new(floor).p50();
    let a_second = |time: Duration| format!("{:.0}/s", 1.0 / time.as_secs_f64());
    let mut rows = vec![row![
        "",
        "one caller",
        "floor / it",
        "16 callers",
        "16 / one"
    ]];
    rows.push(row![
        "floor: append + fdatasync",
        a_second(floor),
        "1.00",
        "",
        ""
    ]);
    let mut medians = Vec::new();
    for plan in plans {
        let (one, many) = (Times::new(plan.one).p50(), Times::new(plan.many).p50());
        rows.push(row![
            format!("a plan of {} tasks", plan.tasks),
            a_second(one),
            format!("{:.2}", ratio(floor, one)),
            a_second(many),
            format!("{:.1}", ratio(one, many)),
        ]);
        medians.push((one, many));
    }
    print("changes: durable changes of a plan, by the median", &rows);
    let flat = |of: fn(&(Duration, Duration)) -> Duration| {
        against(ratio(of(&medians[2]), of(&medians[0])), 1.3)
    };
    print(
        "changes: cost in a plan of 10,000 tasks / cost in a plan of 10",
        &[
            row!["one caller", flat(|pair| pair.0)],
            row!["16 callers", flat(|pair| pair.1)],
        ],
    );
}

/// Compares a change among many plans, each in its turn, with one of the only plan in a store.
async fn measure_among() {
    let (folder, many_folder) = (disk::folder(), disk::folder());
    let alone = sample::store(&folder.path().join("plans.db"), 1, TASKS).await;
    let among = sample::store(&many_folder.path().join("plans.db"), PLANS, TASKS).await;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for number in 0..TURNS * CHANGES {
        for (at, (store, plan)) in [(&alone, 0), (&among, 0), (&among, number % PLANS)]
            .into_iter()
            .enumerate()
        {
            let begun = Instant::now();
            change(store.clone(), sample::plan(plan), TASKS, number).await;
            times[at].push(begun.elapsed());
        }
    }
    let [alone, same, each] = times.map(|times| Times::new(times).p50());
    let rows = [("always the same", same), ("each in its turn", each)];
    let rows = rows.map(|(name, time)| row![name, against(ratio(time, alone), 1.3)]);
    print(
        "changes: cost among 100 plans / cost in a store of one, by the median",
        &rows,
    );
}

impl Plan {
    async fn new(tasks: usize) -> Self {
        let folder = disk::folder();
        let store = sample::store(&folder.path().join("plans.db"), 1, tasks).await;
        Self {
            _folder: folder,
            store,
            tasks,
            one: Vec::new(),
            many: Vec::new(),
        }
    }

    async fn one_caller(&mut self, number: usize) {
        let begun = Instant::now();
        change(self.store.clone(), sample::plan(0), self.tasks, number).await;
        self.one.push(begun.elapsed());
    }

    async fn many_callers(&mut self) {
        let begun = Instant::now();
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (store, tasks) = (self.store.clone(), self.tasks);
                tokio::spawn(async move {
                    for number in 0..CHANGES {
                        change(store.clone(), sample::plan(0), tasks, caller * 100 + number).await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        let each = u32::try_from(CALLERS * CHANGES).unwrap();
        self.many.push(begun.elapsed() / each);
    }
}

/// Changes one of ten tasks that are spread over the plan: its row, the head, an entry in the log. As many tasks in every
/// plan, so that as many rows are written when several changes of one task are committed together.
pub async fn change(store: Store, plan: PlanId, tasks: usize, number: usize) {
    let task = TaskId(u32::try_from(number % 10 * tasks / 10 + 1).unwrap());
    let changes = TaskChanges {
        description: Some(format!(
            "Count the words of a file, for the {number}th time."
        )),
        ..TaskChanges::default()
    };
    let change = move |draft: &mut Draft<'_>| draft.update_task(task, &changes);
    store
        .change(&plan, sample::BY, "updated", change)
        .await
        .unwrap();
}
