mod bounds;
mod control;
mod errors;
mod flow;
mod queries;
mod tasks;

use serde_json::{Value, json};

use super::*;
use crate::tools::ToolAnswer;
use crate::tools::tests::rows;

/// PlanManager's functions on a store in memory, called by name as its callers do.
struct Manager(Toolbox);

impl Manager {
    async fn empty() -> Self {
        Self(Toolbox::in_memory().await.unwrap())
    }

    /// With the plan of the document's section 2.1.
    async fn with_keyboards() -> Self {
        let manager = Self::empty().await;
        manager.ok("createPlan", keyboards()).await;
        manager
    }

    /// With tasks that wait for those of the lists.
    async fn with_tasks(dependencies: &[&[i64]]) -> Self {
        let manager = Self::empty().await;
        let task = |(place, dependencies): (usize, &&[i64])| json!({"name": format!("Task {}", place + 1), "dependencies": dependencies});
        let tasks: Vec<Value> = dependencies.iter().enumerate().map(task).collect();
        let plan = json!({"goal": "goal", "tasks": tasks});
        manager.ok("createPlan", plan).await;
        manager
    }

    async fn call(&self, name: &str, arguments: Value) -> ToolAnswer {
        self.0.call(Dialect::PlanManager, name, arguments).await
    }

    /// Returns the data of a call that succeeds.
    async fn ok(&self, name: &str, arguments: Value) -> Value {
        let answer = self.call(name, arguments).await;
        assert!(answer.success, "{name}: {}", answer.value);
        assert_eq!(answer.value["success"], true);
        answer.value["data"].clone()
    }

    /// Calls functions in turn and checks what they answer.
    async fn run(&self, calls: &str) {
        crate::tools::tests::run(&self.0, Dialect::PlanManager, calls).await;
    }

    /// Returns the plan that was made last.
    async fn plan(&self) -> plan::PlanId {
        self.0.store().plans().await.unwrap()[0].head.id.clone()
    }

    async fn start(&self) -> Value {
        self.ok("startNextTask", json!({})).await
    }

    async fn complete(&self, task: i64) -> Value {
        self.ok("completeTask", json!({"task_id": task, "result": "done"}))
            .await
    }

    async fn task(&self, task: i64) -> Value {
        self.ok("getTaskById", json!({"task_id": task})).await["task"].clone()
    }

    async fn status(&self) -> Value {
        self.ok("getPlanStatus", json!({})).await
    }
}

/// Runs cases. Given are tasks that wait for those of the lists, or a plan that has a name.
async fn cases(cases: &str) {
    let given = async |given: &str| {
        let manager = match given {
            "nothing" => Manager::empty().await,
            "keyboards" => Manager::with_keyboards().await,
            "every state" => queries::of_every_state().await,
            "a daemon's" => control::of_a_daemon().await,
            lists => {
                let lists: Vec<Vec<i64>> = serde_json::from_str(lists).unwrap();
                let lists: Vec<&[i64]> = lists.iter().map(Vec::as_slice).collect();
                Manager::with_tasks(&lists).await
            }
        };
        manager.0
    };
    crate::tools::tests::cases(Dialect::PlanManager, given, cases).await;
}

fn keyboards() -> Value {
    json!({
        "goal": "在京东网站上搜索'机械键盘'，并将价格低于500元的第一款产品加入购物车",
        "tasks": [
            {"name": "Navigate to JD homepage", "dependencies": [], "reasoning": "Need to open the target website first"},
            {"name": "Search for mechanical keyboard", "dependencies": [1], "reasoning": "Can only search after homepage is loaded"},
            {"name": "Filter results by price under 500", "dependencies": [2], "reasoning": "Need search results before applying filters"},
            {"name": "Add first item to cart", "dependencies": [3], "reasoning": "Need filtered results to select the first item"},
        ],
    })
}
