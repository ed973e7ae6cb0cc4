//! The dialects are four ways to do the same: one sequence of operations on a plan of tasks one after the other leads to the
//! same states in the core, of its tasks and of the plan, through each of them, and through all of them in turn on one plan.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Dialect, Toolbox};
use super::run;
use crate::plan::{PlanId, PlanState, TaskState};

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
struct Model(Vec<TaskState>, bool);

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
            (Wish::Start, TaskState::Pending) => Some(Operation::Start(open)),
            (Wish::Complete, TaskState::InProgress) if several => Some(Operation::Complete(open)),
            (Wish::Skip(seed), _) if several => {
                let pending = (0..self.0.len()).filter(|at| self.0[*at] == TaskState::Pending);
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
                self.0[at] = TaskState::InProgress;
                self.1 = true;
            }
            Operation::Complete(at) => self.0[at] = TaskState::Completed,
            Operation::Skip(at) => self.0[at] = TaskState::Skipped,
            Operation::Add => self.0.push(TaskState::Pending),
        }
    }

    /// Returns the state of the plan in the words of the core, of Plan Tool, of PlanManager and of the notebook. That one's
    /// own plan is open until it is finished.
    fn plan(&self, made_by: Dialect) -> (PlanState, [&'static str; 3]) {
        let open = made_by == Dialect::Notebook;
        match self.open() {
            Some(_) if self.1 => (PlanState::Running, ["running", "running", "in_progress"]),
            Some(_) => (PlanState::Idle, ["running", "idle", "todo"]),
            None if open => (
                PlanState::Completed,
                ["completed", "completed", "in_progress"],
            ),
            None => (PlanState::Completed, ["completed", "completed", "done"]),
        }
    }
}

/// Makes a plan of tasks one after the other, and returns the tools bound to it.
async fn create(dialect: Dialect, count: usize) -> Toolbox {
    let toolbox = Toolbox::in_memory().await.unwrap();
    let before = |at: usize| if at == 0 { vec![] } else { vec![at] };
    let tasks = |task: &dyn Fn(usize) -> Value| json!((0..count).map(task).collect::<Vec<_>>());
    let (name, arguments) = match dialect {
        Dialect::PlanTool => {
            let tasks = tasks(&|at| {
                let before: Vec<String> = before(at).iter().map(ToString::to_string).collect();
                json!({"task_id": (at + 1).to_string(), "name": "T", "assignee": "", "description": "", "dependencies": before})
            });
            let steps = json!([{"step_id": "s", "name": "S", "tasks": tasks}]);
            let structure = json!({"structure_data": {"name": "P", "steps": steps}});
            ("create_plan_from_structure", structure)
        }
        Dialect::PlanManager => {
            let tasks = tasks(&|at| json!({"name": "T", "dependencies": before(at)}));
            ("createPlan", json!({"goal": "G", "tasks": tasks}))
        }
        Dialect::Notebook => {
            let plan = json!({"name": "P", "description": "d", "expected_outcome": "e", "subtasks": tasks(&subtask)});
            ("create_plan", plan)
        }
        Dialect::Tasks => {
            let tasks = tasks(&|at| json!({"subject": "T", "blockedBy": before(at)}));
            ("TaskCreate", json!({ "tasks": tasks }))
        }
        Dialect::Control => unreachable!("it makes no plan of its own"),
    };
    run(&toolbox, dialect, &format!("{name} {arguments}")).await;
    let plan = toolbox.current(dialect).await.unwrap();
    toolbox.with_plan(plan)
}

fn subtask(at: usize) -> Value {
    json!({"name": format!("T{at}"), "description": "d", "expected_outcome": "e"})
}

/// Returns how an operation is asked for in a dialect, and in which one where it has no tool for it.
fn call(dialect: Dialect, operation: Operation, count: usize) -> (Dialect, String) {
    use Operation::{Add, Complete, Skip, Start};
    let tool = |at: usize, status| {
        format!(
            r#"update_task_status {{"task_id": "{}", "status": "{status}", "result_summary": "r"}}"#,
            at + 1
        )
    };
    let manager =
        |tool: &str, at: usize, word| format!(r#"{tool} {{"task_id": {}, "{word}": "r"}}"#, at + 1);
    let state = |at: usize, state| {
        format!(r#"update_subtask_state {{"subtask_idx": {at}, "state": "{state}"}}"#)
    };
    let update = |at: usize, status| {
        format!(
            r#"TaskUpdate {{"taskId": {}, "status": "{status}"}}"#,
            at + 1
        )
    };
    let call = match (dialect, operation) {
        (Dialect::PlanTool, Start(at)) => tool(at, "inprogress"),
        (Dialect::PlanTool, Complete(at)) => tool(at, "completed"),
        (Dialect::PlanTool, Skip(at)) => tool(at, "skipped"),
        (Dialect::PlanManager, Start(_)) => "startNextTask".to_owned(),
        (Dialect::PlanManager, Complete(at)) => manager("completeTask", at, "result"),
        (Dialect::PlanManager, Skip(at)) => manager("skipTask", at, "reason"),
        (Dialect::PlanManager, Add) => {
            format!(r#"addTask {{"name": "T", "dependencies": [{count}], "reasoning": "r"}}"#)
        }
        (Dialect::Notebook, Start(at)) => state(at, "in_progress"),
        (Dialect::Notebook, Complete(at)) => {
            format!(r#"finish_subtask {{"subtask_idx": {at}, "subtask_outcome": "r"}}"#)
        }
        (Dialect::Notebook, Skip(at)) => state(at, "abandoned"),
        (Dialect::Notebook, Add) => format!(
            r#"revise_current_plan {{"subtask_idx": {count}, "action": "add", "subtask": {}}}"#,
            subtask(count)
        ),
        (Dialect::Tasks, Start(at)) => update(at, "in_progress"),
        (Dialect::Tasks, Complete(at)) => update(at, "completed"),
        (Dialect::Tasks, Skip(at)) => update(at, "deleted"),
        (Dialect::Tasks | Dialect::PlanTool, Add) => {
            return (
                Dialect::Tasks,
                format!(r#"TaskCreate {{"subject": "T", "addBlockedBy": [{count}]}}"#),
            );
        }
        (Dialect::Control, _) => unreachable!("it makes no plan of its own"),
    };
    (dialect, call)
}

async fn apply(toolbox: &Toolbox, dialect: Dialect, operation: Operation, count: usize) {
    let (dialect, line) = call(dialect, operation, count);
    run(toolbox, dialect, &line).await;
    // The notebook begins the next subtask by itself; here that is an operation of its own.
    if let (Dialect::Notebook, Operation::Complete(_)) = (dialect, operation) {
        let states = states(toolbox).await;
        let begun = |status: &TaskState| *status == TaskState::InProgress;
        if let Some(at) = states.iter().position(begun) {
            let line = format!(r#"update_subtask_state {{"subtask_idx": {at}, "state": "todo"}}"#);
            run(toolbox, dialect, &line).await;
        }
    }
}

fn plan_of(toolbox: &Toolbox) -> &PlanId {
    toolbox.plan.as_ref().unwrap()
}

async fn states(toolbox: &Toolbox) -> Vec<TaskState> {
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
    let line = format!("get_plan_status => {}", json!(tool));
    run(toolbox, Dialect::PlanTool, &line).await;
    let line = format!("getPlanStatus =~ {}", json!({"status": manager}));
    run(toolbox, Dialect::PlanManager, &line).await;
    let own = super::super::notebook::PlanNotebook::new(toolbox.clone());
    let plan = own.current_plan().await.unwrap().unwrap();
    assert_eq!(plan.state.to_string(), notebook, "{after}");
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
    let mut model = Model(vec![TaskState::Pending; count], false);
    let mut turns = turns.iter().copied().cycle();
    let mut wishes = wishes.iter();
    check(&toolbox, made_by, &model, "made").await;
    while let Some(at) = model.open() {
        let operation = match (wishes.next(), model.0[at]) {
            (Some(wish), _) => match model.operation(*wish) {
                Some(operation) => operation,
                None => continue,
            },
            (None, TaskState::Pending) if leave_out => Operation::Skip(at),
            (None, TaskState::Pending) => Operation::Start(at),
            (None, _) => Operation::Complete(at),
        };
        let dialect = turns.next().unwrap_or(made_by);
        apply(&toolbox, dialect, operation, model.0.len()).await;
        model.apply(operation);
        let after = format!("{dialect}: {operation:?}");
        check(&toolbox, made_by, &model, &after).await;
    }
}

fn wait(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_dialects_reach_same_states(
        count in 1..6_usize,
        wishes in prop::collection::vec(wish(), 1..25),
        leave_out: bool,
    ) {
        for dialect in Dialect::ALL {
            wait(same_states(dialect, &[dialect], count, &wishes, leave_out));
        }
    }

    #[test]
    fn mixed_dialects_reach_same_states(
        turns in prop::collection::vec(prop::sample::select(&Dialect::ALL[..]), 1..12),
        made_by in prop::sample::select(&Dialect::ALL[..]),
        count in 1..6_usize,
        wishes in prop::collection::vec(wish(), 1..25),
        leave_out: bool,
    ) {
        wait(same_states(made_by, &turns, count, &wishes, leave_out));
    }
}
