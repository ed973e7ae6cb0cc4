//! The dialects are four ways to do the same: one sequence of operations on a plan of tasks one after the other leads to the
//! same states in the core, of its tasks and of the plan, through each of them, and through all of them in turn on one plan.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Answer, Dialect, Toolbox};
use crate::plan::{PlanId, PlanStatus, TaskStatus};

/// What is asked for; a place that does not fit is taken for the next that does.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Start,
    Complete,
    Skip(usize),
    Add,
}

/// An operation on the task at a place, from 0.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Start(usize),
    Complete(usize),
    Skip(usize),
    Add,
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        3 => Just(Wish::Start),
        3 => Just(Wish::Complete),
        2 => (0_usize..20).prop_map(Wish::Skip),
        1 => Just(Wish::Add),
    ]
}

/// What the states should be: of the tasks, and whether one has been begun.
#[derive(Clone, Debug)]
struct Model(Vec<TaskStatus>, bool);

impl Model {
    fn open(&self) -> Option<usize> {
        self.0.iter().position(|status| !status.settled())
    }

    /// Returns what a wish comes to now, if it may be done. The plan is kept from ending: what comes after that is for each
    /// document to say.
    fn operation(&self, wish: Wish) -> Option<Operation> {
        let open = self.open()?;
        let several = self.0.iter().filter(|status| !status.settled()).count() > 1;
        match (wish, self.0[open]) {
            (Wish::Start, TaskStatus::Pending) => Some(Operation::Start(open)),
            (Wish::Complete, TaskStatus::InProgress) if several => Some(Operation::Complete(open)),
            (Wish::Skip(seed), _) if several => {
                let pending = (0..self.0.len()).filter(|at| self.0[*at] == TaskStatus::Pending);
                let pending: Vec<usize> = pending.collect();
                let at = pending.get(seed % pending.len().max(1))?;
                Some(Operation::Skip(*at))
            }
            (Wish::Add, _) => Some(Operation::Add),
            _ => None,
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Start(at) => {
                self.0[at] = TaskStatus::InProgress;
                self.1 = true;
            }
            Operation::Complete(at) => self.0[at] = TaskStatus::Completed,
            Operation::Skip(at) => self.0[at] = TaskStatus::Skipped,
            Operation::Add => self.0.push(TaskStatus::Pending),
        }
    }

    /// Returns the state of the plan in the words of the core, of Plan Tool, of PlanManager and of the notebook. That one's
    /// own plan is open until it is finished.
    fn plan(&self, made_by: Dialect) -> (PlanStatus, [&'static str; 3]) {
        let open = made_by == Dialect::Notebook;
        match self.open() {
            Some(_) if self.1 => (PlanStatus::Running, ["running", "running", "in_progress"]),
            Some(_) => (PlanStatus::Idle, ["running", "idle", "todo"]),
            None if open => (
                PlanStatus::Completed,
                ["completed", "completed", "in_progress"],
            ),
            None => (PlanStatus::Completed, ["completed", "completed", "done"]),
        }
    }
}

async fn done(toolbox: &Toolbox, dialect: Dialect, name: &str, arguments: Value) -> Answer {
    let answer = toolbox.call(dialect, name, arguments).await;
    assert!(answer.success, "{name}: {}", answer.value);
    answer
}

/// Makes a plan of tasks one after the other, and returns the tools bound to it.
async fn create(dialect: Dialect, count: usize) -> Toolbox {
    let toolbox = Toolbox::in_memory().await.unwrap();
    let before = |at: usize| if at == 0 { vec![] } else { vec![at] };
    let (name, arguments) = match dialect {
        Dialect::PlanTool => {
            let task = |at: usize| {
                let before: Vec<String> = before(at).iter().map(ToString::to_string).collect();
                json!({"task_id": (at + 1).to_string(), "name": "T", "dependencies": before})
            };
            let tasks: Vec<Value> = (0..count).map(task).collect();
            let steps = json!([{"step_id": "s", "name": "S", "tasks": tasks}]);
            (
                "create_plan_from_structure",
                json!({"structure_data": {"name": "P", "steps": steps}}),
            )
        }
        Dialect::PlanManager => {
            let task = |at| json!({"name": "T", "dependencies": before(at), "reasoning": "r"});
            let tasks: Vec<Value> = (0..count).map(task).collect();
            ("createPlan", json!({"goal": "G", "tasks": tasks}))
        }
        Dialect::Notebook => {
            let tasks: Vec<Value> = (0..count).map(subtask).collect();
            let arguments = json!({
                "name": "P", "description": "d", "expected_outcome": "e", "subtasks": tasks,
            });
            ("create_plan", arguments)
        }
        Dialect::Tasks => {
            let task = |at| json!({"subject": "T", "blockedBy": before(at)});
            let tasks: Vec<Value> = (0..count).map(task).collect();
            ("TaskCreate", json!({ "tasks": tasks }))
        }
    };
    done(&toolbox, dialect, name, arguments).await;
    let plan = toolbox.current(dialect).await.unwrap();
    toolbox.with_plan(plan)
}

fn subtask(at: usize) -> Value {
    json!({"name": format!("T{at}"), "description": "d", "expected_outcome": "e"})
}

async fn apply(toolbox: &Toolbox, dialect: Dialect, operation: Operation, count: usize) {
    let (name, arguments) = match (dialect, operation) {
        // It has no tool for this; whoever wants a task added does it in another dialect.
        (Dialect::Tasks | Dialect::PlanTool, Operation::Add) => {
            let arguments = json!({"subject": "T", "addBlockedBy": [count]});
            done(toolbox, Dialect::Tasks, "TaskCreate", arguments).await;
            return;
        }
        (Dialect::PlanTool, operation) => {
            let (at, status) = match operation {
                Operation::Start(at) => (at, "inprogress"),
                Operation::Complete(at) => (at, "completed"),
                Operation::Skip(at) => (at, "skipped"),
                Operation::Add => unreachable!("added above"),
            };
            let id = (at + 1).to_string();
            let arguments = json!({"task_id": id, "status": status, "result_summary": "r"});
            ("update_task_status", arguments)
        }
        (Dialect::Tasks, operation) => {
            let (at, status) = match operation {
                Operation::Start(at) => (at, "in_progress"),
                Operation::Complete(at) => (at, "completed"),
                Operation::Skip(at) => (at, "deleted"),
                Operation::Add => unreachable!("added above"),
            };
            ("TaskUpdate", json!({"taskId": at + 1, "status": status}))
        }
        (Dialect::PlanManager, operation) => match operation {
            Operation::Start(_) => ("startNextTask", json!({})),
            Operation::Complete(at) => ("completeTask", json!({"task_id": at + 1, "result": "r"})),
            Operation::Skip(at) => ("skipTask", json!({"task_id": at + 1, "reason": "r"})),
            Operation::Add => (
                "addTask",
                json!({"name": "T", "dependencies": [count], "reasoning": "r"}),
            ),
        },
        (Dialect::Notebook, operation) => match operation {
            Operation::Start(at) => (
                "update_subtask_state",
                json!({"subtask_idx": at, "state": "in_progress"}),
            ),
            Operation::Complete(at) => (
                "finish_subtask",
                json!({"subtask_idx": at, "subtask_outcome": "r"}),
            ),
            Operation::Skip(at) => (
                "update_subtask_state",
                json!({"subtask_idx": at, "state": "abandoned"}),
            ),
            Operation::Add => (
                "revise_current_plan",
                json!({"subtask_idx": count, "action": "add", "subtask": subtask(count)}),
            ),
        },
    };
    done(toolbox, dialect, name, arguments).await;
    // The notebook begins the next subtask by itself; here that is an operation of its own.
    if let (Dialect::Notebook, Operation::Complete(_)) = (dialect, operation) {
        let states = states(toolbox).await;
        let begun = states
            .iter()
            .position(|status| *status == TaskStatus::InProgress);
        if let Some(at) = begun {
            let arguments = json!({"subtask_idx": at, "state": "todo"});
            done(toolbox, dialect, "update_subtask_state", arguments).await;
        }
    }
}

fn plan_of(toolbox: &Toolbox) -> &PlanId {
    toolbox.plan.as_ref().unwrap()
}

async fn states(toolbox: &Toolbox) -> Vec<TaskStatus> {
    let read = |plan: &crate::plan::Plan, _| plan.tasks().map(|task| task.status).collect();
    toolbox.store().read(plan_of(toolbox), read).await.unwrap()
}

/// Looks whether the tasks and the plan are what the model says, in the words of each dialect that shows a plan's state.
async fn check(toolbox: &Toolbox, made_by: Dialect, model: &Model, after: &str) {
    assert_eq!(states(toolbox).await, model.0, "{after}");
    let read = |plan: &crate::plan::Plan, _| plan.status().clone();
    let status = toolbox.store().read(plan_of(toolbox), read).await.unwrap();
    let (wanted, [tool, manager, notebook]) = model.plan(made_by);
    assert_eq!(status, wanted, "{after}");
    let none = json!({});
    let said = done(toolbox, Dialect::PlanTool, "get_plan_status", none.clone()).await;
    assert_eq!(said.value["result"], tool, "{after}");
    let said = done(toolbox, Dialect::PlanManager, "getPlanStatus", none).await;
    assert_eq!(said.value["data"]["status"], manager, "{after}");
    let own = super::super::notebook::PlanNotebook::new(toolbox.clone());
    let plan = own.current_plan().await.unwrap().unwrap();
    assert_eq!(plan.state.as_str(), notebook, "{after}");
    assert_eq!(plan.finished_at.is_some(), notebook == "done", "{after}");
}

/// Carries the wishes out, each through the dialect that is next in turn; the last task is left out if it may be and that is
/// wanted.
async fn same_states(
    made_by: Dialect,
    turns: &[Dialect],
    count: usize,
    wishes: &[Wish],
    leave_out: bool,
) {
    let toolbox = create(made_by, count).await;
    let mut model = Model(vec![TaskStatus::Pending; count], false);
    let mut turns = turns.iter().copied().cycle();
    check(&toolbox, made_by, &model, "made").await;
    for wish in wishes {
        let Some(operation) = model.operation(*wish) else {
            continue;
        };
        let dialect = turns.next().unwrap_or(made_by);
        apply(&toolbox, dialect, operation, model.0.len()).await;
        model.apply(operation);
        check(
            &toolbox,
            made_by,
            &model,
            &format!("{dialect}: {operation:?}"),
        )
        .await;
    }
    while let Some(at) = model.open() {
        let operation = match model.0[at] {
            TaskStatus::Pending if leave_out => Operation::Skip(at),
            TaskStatus::Pending => Operation::Start(at),
            _ => Operation::Complete(at),
        };
        let dialect = turns.next().unwrap_or(made_by);
        apply(&toolbox, dialect, operation, model.0.len()).await;
        model.apply(operation);
        check(
            &toolbox,
            made_by,
            &model,
            &format!("{dialect}: {operation:?}"),
        )
        .await;
    }
}

fn wait(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_dialect_leads_to_the_same_states(
        count in 1..6_usize,
        wishes in prop::collection::vec(wish(), 1..25),
        leave_out: bool,
    ) {
        for dialect in Dialect::ALL {
            wait(same_states(dialect, &[dialect], count, &wishes, leave_out));
        }
    }

    #[test]
    fn dialects_in_turn_on_one_plan_lead_there_too(
        turns in prop::collection::vec(prop::sample::select(&Dialect::ALL[..]), 1..12),
        made_by in prop::sample::select(&Dialect::ALL[..]),
        count in 1..6_usize,
        wishes in prop::collection::vec(wish(), 1..25),
        leave_out: bool,
    ) {
        wait(same_states(made_by, &turns, count, &wishes, leave_out));
    }
}
