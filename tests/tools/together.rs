//! Several callers of PlanManager on one plan, each with a store of its own on the same file, as processes have.

use std::path::Path;

use plan_agent::tools::plan_manager::{
    AddTask, CompleteTask, CreatePlan, GetTaskList, ManagerErrorCode, PlanManager, PlannedTask,
};
use plan_agent::tools::{Page, Toolbox};
use tokio::task::JoinSet;

const CALLERS: usize = 4;

async fn manager(file: &Path, caller: usize) -> PlanManager {
    let toolbox = Toolbox::open(file, &format!("caller {caller}")).await;
    PlanManager::new(toolbox.unwrap())
}

fn plan(count: usize) -> CreatePlan {
    let task = |number| PlannedTask {
        name: format!("Task {number}"),
        ..PlannedTask::default()
    };
    CreatePlan {
        goal: "goal".to_owned(),
        tasks: (1..=count).map(task).collect(),
        dry_run: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_adds_lose_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.db");
    let first = manager(&file, 0).await;
    first.create_plan(plan(0)).await.unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let manager = manager(&file, caller).await;
        callers.spawn(async move {
            let mut added = Vec::new();
            for number in 0..25 {
                let name = format!("{caller}.{number}");
                let task = AddTask {
                    name: name.clone(),
                    dependencies: Vec::new(),
                    reasoning: String::new(),
                    after_task_id: added.last().copied(),
                };
                let task = manager.add_task(task).await.unwrap();
                assert_eq!(task.new_task.name, name);
                added.push(task.new_task.id);
            }
            added
        });
    }
    let mut ids: Vec<i64> = callers.join_all().await.concat();
    ids.sort_unstable();
    assert_eq!(ids, (1..=100).collect::<Vec<i64>>());
    let wanted = GetTaskList {
        status_filter: None,
        page: Page::new(Some(100), None),
    };
    let list = first.get_task_list(wanted).await.unwrap();
    assert_eq!((list.total, list.tasks.len()), (100, 100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_starts_start_each_task_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.db");
    let first = manager(&file, 0).await;
    first.create_plan(plan(20)).await.unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let manager = manager(&file, caller).await;
        callers.spawn(async move {
            let mut own = Vec::new();
            loop {
                match manager.start_next_task().await {
                    Ok(started) => {
                        let (task_id, result) = (started.task.id, "done".to_owned());
                        let done = manager.complete_task(CompleteTask { task_id, result });
                        done.await.unwrap();
                        own.push(task_id);
                    }
                    Err(error) if error.code == ManagerErrorCode::InvalidStatus => {}
                    Err(error) => {
                        assert_eq!(error.details["plan_status"], "completed", "{error}");
                        return own;
                    }
                }
            }
        });
    }
    let mut started: Vec<i64> = callers.join_all().await.concat();
    started.sort_unstable();
    assert_eq!(started, (1..=20).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_new_plans_leave_one_current() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.db");
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let manager = manager(&file, caller).await;
        callers.spawn(async move {
            for count in 1..=5 {
                // A caller that gets the error that another was faster has made nothing, and tries again.
                while let Err(error) = manager.create_plan(plan(count)).await {
                    assert_eq!(error.code, ManagerErrorCode::PlanNotActive, "{error}");
                }
            }
        });
    }
    callers.join_all().await;
    let toolbox = Toolbox::open(&file, "last").await.unwrap();
    let current = PlanManager::new(toolbox.clone()).get_plan_status().await;
    assert_eq!(current.unwrap().total_tasks, 5);
    let store = toolbox.store();
    assert_eq!(store.current("plan-manager", 10).await.unwrap().len(), 1);
    let (_, kept) = store.archived("plan-manager", 0, 100).await.unwrap();
    assert_eq!(kept, 5 * CALLERS - 1);
}
