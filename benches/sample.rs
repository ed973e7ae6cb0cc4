//! Plans of any size.

use std::path::Path;

use plan_agent::plan::{
    Criteria, Draft, Origin, PlanHead, PlanId, Refusal, TaskOrder, TaskRef, TaskSpec, Time,
};
use plan_agent::store::Store;

pub const BY: &str = "bench";

/// A paragraph, as people write them.
const TEXT: &str = "Read the words of a file line by line, split them at white space and punctuation, and count each \
                    word once for every time it occurs. Keep the counts in a map. Print the most frequent words first.";

pub fn plan(number: usize) -> PlanId {
    PlanId::new(format!("plan{number:04}"))
}

pub fn head(order: TaskOrder) -> PlanHead {
    let mut head = PlanHead::new(plan(0), "Count the words of a file", Time(1));
    head.order = order;
    head
}

/// Makes a store with plans.
pub async fn store(path: &Path, plans: usize, tasks: usize) -> Store {
    let store = Store::open(path, || Time(1)).await.unwrap();
    fill(&store, plans, tasks).await;
    store
}

/// Makes plans in a store.
pub async fn fill(store: &Store, plans: usize, tasks: usize) {
    for number in 0..plans {
        let mut head = head(TaskOrder::Dependencies);
        head.id = plan(number);
        let made = store.create(head, BY, "made", make_tasks(tasks));
        made.await.unwrap();
    }
}

/// Makes tasks, each of which waits for the one before it.
pub fn make_tasks(
    count: usize,
) -> impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static {
    let task = |number: usize| TaskSpec {
        name: format!("Task number {number}"),
        description: TEXT.to_owned(),
        criteria: Criteria::plain("The program prints the words with their counts."),
        dependencies: number
            .checked_sub(1)
            .map(TaskRef::New)
            .into_iter()
            .collect(),
        origin: Origin::Person,
        ..TaskSpec::default()
    };
    let tasks = (0..count).map(task).collect();
    move |draft| draft.make_tasks(tasks).map(drop)
}

/// The text of a plan file.
pub fn plan_file(count: usize) -> String {
    let head = "---\nname: Bench\ngoal: Count the words of a file\norder: sequential\n---\n";
    (1..=count).fold(head.to_owned(), |text, number| {
        text + &format!("\n## Task number {number}\n\n{TEXT}\n")
    })
}

/// A report of two kilobytes.
pub fn report() -> String {
    format!(
        "---\nstatus: SUCCESS\nsession_id: bench\n---\n\n## Core results\n\n{}\n\n## Pitfalls\n\nNone.\n",
        [TEXT; 8].join("\n")
    )
}
