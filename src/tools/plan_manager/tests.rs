use serde_json::{Value, json};

use super::*;
use crate::tools::Answer;

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
        manager
            .ok("createPlan", json!({"goal": "goal", "tasks": tasks}))
            .await;
        manager
    }

    async fn call(&self, name: &str, arguments: Value) -> Answer {
        self.0.call(Dialect::PlanManager, name, arguments).await
    }

    /// Returns the data of a call that succeeds.
    async fn ok(&self, name: &str, arguments: Value) -> Value {
        let answer = self.call(name, arguments).await;
        assert!(answer.success, "{name}: {}", answer.value);
        assert_eq!(answer.value["success"], true);
        answer.value["data"].clone()
    }

    /// Returns code, message and details of a call that fails and changes nothing.
    async fn refused(&self, name: &str, arguments: Value) -> (String, String, Value) {
        let before = self.rows().await;
        let answer = self.call(name, arguments).await;
        assert!(!answer.success, "{name}: {}", answer.value);
        assert_eq!(self.rows().await, before, "{name} changed something");
        let error = &answer.value["error"];
        assert_eq!(
            answer.value,
            json!({"success": false, "error": {"code": error["code"], "message": error["message"], "details": error["details"]}})
        );
        let word = |word: &Value| word.as_str().unwrap().to_owned();
        (
            word(&error["code"]),
            word(&error["message"]),
            error["details"].clone(),
        )
    }

    async fn code(&self, name: &str, arguments: Value) -> String {
        self.refused(name, arguments).await.0
    }

    /// Returns everything stored, with the seq of each plan.
    async fn rows(&self) -> Vec<(i64, Vec<plan::Row>)> {
        let mut all = Vec::new();
        for listed in self.0.store().plans().await.unwrap() {
            let rows = self
                .0
                .store()
                .read(&listed.head.id, |plan, seq| (seq, plan.rows().collect()));
            all.push(rows.await.unwrap());
        }
        all
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

    /// Returns the ids of the tasks in their order.
    async fn ids(&self, filter: Value) -> Vec<i64> {
        let list = self
            .ok("getTaskList", json!({"status_filter": filter}))
            .await;
        let ids = list["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["id"].as_i64().unwrap());
        ids.collect()
    }
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

#[tokio::test]
async fn the_example_of_section_5_runs_as_it_stands() {
    let manager = Manager::with_keyboards().await;
    manager.start().await;
    let current = manager.ok("getCurrentTask", json!({})).await;
    assert_eq!(
        current,
        json!({"id": 1, "name": "Navigate to JD homepage", "status": "in_progress", "dependencies": [],
               "reasoning": "Need to open the target website first"})
    );
    let given = json!({"task_id": current["id"], "result": "Successfully navigated to homepage"});
    let completed = manager.ok("completeTask", given).await;
    assert_eq!(
        completed,
        json!({"task_id": 1, "message": "Task completed successfully"})
    );
    assert_eq!(
        manager.start().await,
        json!({
            "task": {"id": 2, "name": "Search for mechanical keyboard", "status": "in_progress", "dependencies": [1],
                     "reasoning": "Can only search after homepage is loaded", "result": null},
            "message": "Started task 2: Search for mechanical keyboard",
        })
    );
    let given = json!({"name": "Close popup dialog", "dependencies": [1],
                       "reasoning": "Unexpected popup appeared blocking the search", "after_task_id": 1});
    let added = manager.ok("addTask", given).await;
    assert_eq!(
        added,
        json!({
            "new_task": {"id": 5, "name": "Close popup dialog", "status": "pending", "dependencies": [1],
                         "reasoning": "Unexpected popup appeared blocking the search", "result": null},
            "message": "Task added successfully",
        })
    );
    let given =
        json!({"name": "Add item to cart", "dependencies": [2, 3], "reasoning": "Final step"});
    let added = manager.ok("addTask", given).await;
    assert_eq!(added["new_task"]["status"], "blocked");
    assert_eq!(manager.ids(Value::Null).await, [1, 5, 2, 3, 4, 6]);
    let status = manager.status().await;
    assert_eq!(
        (&status["status"], &status["current_task_id"]),
        (&json!("running"), &json!(2))
    );
    let executable = manager.ok("getExecutableTaskList", json!({})).await;
    assert_eq!(
        (
            &executable["count"],
            &executable["executable_tasks"][0]["id"]
        ),
        (&json!(1), &json!(5))
    );
}
