//! The dialects are four ways to do the same: one sequence of operations on a plan of tasks one after the other leads to the
//! same states in the core, of its tasks and of the plan, through each of them, and through all of them in turn on one plan.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Dialect, Toolbox};
use super::run;
use crate::plan::{PlanId, PlanState, TaskState};

/// What is done to a task.
#[derive(Clone, Copy, Debug)]
enum Action {
    Start,
    Complete,
    Skip,
    Add,
}

/// What is asked for, and a number from which the place of the task to skip is made.
fn wish() -> impl Strategy<Value = (Action, usize)> {
    let action = prop_oneof![
        3 => Just(Action::Start),
        3 => Just(Action::Complete),
        2 => Just(Action::Skip),
        1 => Just(Action::Add),
    ];
    (action, 0..20_usize)
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
    fn operation(&self, (action, seed): (Action, usize)) -> Option<(Action, usize)> {
        let open = self.open()?;
        let several = self.0.iter().filter(|status| !status.settled()).count() > 1;
        let at = match (action, self.0[open]) {
            (Action::Start, TaskState::Pending) => open,
            (Action::Complete, TaskState::InProgress) if several => open,
            (Action::Skip, _) if several => {
                let pending = (0..self.0.len()).filter(|at| self.0[*at] == TaskState::Pending);
                let pending: Vec<usize> = pending.collect();
                *pending.get(seed % pending.len().max(1))?
            }
            (Action::Add, _) => self.0.len(),
            _ => return None,
        };
        Some((action, at))
    }

    fn apply(&mut self, (action, at): (Action, usize)) {
        match action {
            Action::Start => {
                self.0[at] = TaskState::InProgress;
                self.1 = true;
            }
            Action::Complete => self.0[at] = TaskState::Completed,
            Action::Skip => self.0[at] = TaskState::Skipped,
            Action::Add => self.0.push(TaskState::Pending),
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

/// Returns how something is asked for in a dialect of the task at a place, from 0, and in which one where it has no tool for it.
fn call(dialect: Dialect, action: Action, at: usize) -> (Dialect, String) {
    use Action::{Add, Complete, Skip, Start};
    let id = at + 1;
    let tool = |status| {
        format!(
            r#"update_task_status {{"task_id": "{id}", "status": "{status}", "result_summary": "r"}}"#
        )
    };
    let manager = |tool, word| format!(r#"{tool} {{"task_id": {id}, "{word}": "r"}}"#);
    let state = |state| subtask_state(at, state);
    let update = |status| format!(r#"TaskUpdate {{"taskId": {id}, "status": "{status}"}}"#);
    let call = match (dialect, action) {
        (Dialect::PlanTool, Start) => tool("inprogress"),
        (Dialect::PlanTool, Complete) => tool("completed"),
        (Dialect::PlanTool, Skip) => tool("skipped"),
        (Dialect::PlanManager, Start) => "startNextTask".to_owned(),
        (Dialect::PlanManager, Complete) => manager("completeTask", "result"),
        (Dialect::PlanManager, Skip) => manager("skipTask", "reason"),
        (Dialect::PlanManager, Add) => {
            format!(r#"addTask {{"name": "T", "dependencies": [{at}], "reasoning": "r"}}"#)
        }
        (Dialect::Notebook, Start) => state("in_progress"),
        (Dialect::Notebook, Complete) => {
            format!(r#"finish_subtask {{"subtask_idx": {at}, "subtask_outcome": "r"}}"#)
        }
        (Dialect::Notebook, Skip) => state("abandoned"),
        (Dialect::Notebook, Add) => format!(
            r#"revise_current_plan {{"subtask_idx": {at}, "action": "add", "subtask": {}}}"#,
            subtask(at)
        ),
        (Dialect::Tasks, Start) => update("in_progress"),
        (Dialect::Tasks, Complete) => update("completed"),
        (Dialect::Tasks, Skip) => update("deleted"),
        (Dialect::Tasks | Dialect::PlanTool, Add) => {
            let create = format!(r#"TaskCreate {{"subject": "T", "addBlockedBy": [{at}]}}"#);
            return (Dialect::Tasks, create);
        }
        (Dialect::Control, _) => unreachable!("it makes no plan of its own"),
    };
    (dialect, call)
}

fn subtask_state(at: usize, state: &str) -> String {
    format!(r#"update_subtask_state {{"subtask_idx": {at}, "state": "{state}"}}"#)
}

async fn apply(toolbox: &Toolbox, dialect: Dialect, action: Action, at: usize) {
    let (dialect, line) = call(dialect, action, at);
    run(toolbox, dialect, &line).await;
    // The notebook begins the next subtask by itself; here that is an operation of its own.
    if let (Dialect::Notebook, Action::Complete) = (dialect, action) {
        let states = states(toolbox).await;
        let begun = |status: &TaskState| *status == TaskState::InProgress;
        if let Some(at) = states.iter().position(begun) {
            run(toolbox, dialect, &subtask_state(at, "todo")).await;
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
    wishes: &[(Action, usize)],
    leave_out: bool,
) {
    let toolbox = create(made_by, count).await;
    let mut model = Model(vec![TaskState::Pending; count], false);
    let mut turns = turns.iter().copied().cycle();
    let mut wishes = wishes.iter();
    check(&toolbox, made_by, &model, "made").await;
    while let Some(at) = model.open() {
        let (action, at) = match (wishes.next(), model.0[at]) {
            (Some(wish), _) => match model.operation(*wish) {
                Some(operation) => operation,
                None => continue,
            },
            (None, TaskState::Pending) if leave_out => (Action::Skip, at),
            (None, TaskState::Pending) => (Action::Start, at),
            (None, _) => (Action::Complete, at),
        };
        let dialect = turns.next().unwrap_or(made_by);
        apply(&toolbox, dialect, action, at).await;
        model.apply((action, at));
        let after = format!("{dialect}: {action:?} {at}");
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
