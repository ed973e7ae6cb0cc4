//! Plan Tool and PlanManager beside small models that were written from their documents and the decisions on them alone: random
//! calls have the same answers and lead to the same states.

use std::collections::BTreeSet;

use plan_agent::tools::{Dialect, Toolbox};
use serde_json::{Value, json};

use crate::common::env::times;
use crate::common::random::Random;

/// Calls in a sequence.
const CALLS: usize = 18;

async fn toolbox() -> Toolbox {
    Toolbox::in_memory().await.unwrap()
}

const TASK_STATUSES: [&str; 5] = ["ready", "inprogress", "completed", "error", "skipped"];

/// A plan by `plan-tool.md`: for each task its status, its summary, its role and whether it is optional.
struct PlanToolModel(Vec<(&'static str, Option<String>, &'static str, bool)>);

impl PlanToolModel {
    fn update(&mut self, task: usize, to: &'static str, summary: Option<&str>) -> bool {
        let Some((from, kept, _, optional)) = self.0.get_mut(task) else {
            return false;
        };
        if *from == to {
            return true;
        }
        let may = match *from {
            "completed" | "skipped" => false,
            "error" => to != "completed",
            _ => true,
        };
        let explained = *optional || summary.is_some_and(|text| !text.trim().is_empty());
        if !may || (to == "skipped" && !explained) {
            return false;
        }
        *from = to;
        if let Some(summary) = summary {
            *kept = Some(summary.to_owned()).filter(|text| !text.is_empty());
        }
        true
    }

    fn status(&self) -> &'static str {
        let any = |words: &[&str]| self.0.iter().any(|task| words.contains(&task.0));
        match (any(&["ready", "inprogress"]), any(&["error"])) {
            (true, _) => "running",
            (false, true) => "error",
            (false, false) => "completed",
        }
    }

    /// Returns the ids of the tasks of a status, and of a role if one is named.
    fn tasks(&self, status: &str, role: Option<&str>) -> Vec<String> {
        let fits = |task: &(&str, Option<String>, &str, bool)| {
            task.0 == status && role.is_none_or(|role| role == task.2)
        };
        let places = (0..self.0.len()).filter(|at| fits(&self.0[*at]));
        places.map(|at| format!("t{at}")).collect()
    }
}

async fn plan_tool(toolbox: &Toolbox, name: &str, arguments: Value) -> Value {
    let mut answer = toolbox.call(Dialect::PlanTool, name, arguments).await;
    answer.value["result"].take()
}

fn ids(tasks: &Value) -> Vec<String> {
    let tasks = tasks.as_array().unwrap().iter();
    tasks
        .map(|task| task["task_id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn plan_tool_behaves_as_its_model() {
    for seed in 0..times(60, 3000) {
        let (mut random, toolbox) = (Random::new(seed), toolbox().await);
        let count = 1 + usize::try_from(random.below(4)).unwrap();
        let tasks =
            (0..count).map(|_| ("ready", None, *random.of(&["a", "b"]), random.below(2) == 0));
        let mut model = PlanToolModel(tasks.collect());
        let task = |(at, task): (usize, &(&str, Option<String>, &str, bool))| json!({"task_id": format!("t{at}"), "name": "T", "assignee": task.2, "description": "", "optional": task.3});
        let tasks: Vec<Value> = model.0.iter().enumerate().map(task).collect();
        let structure =
            json!({"name": "P", "steps": [{"step_id": "s", "name": "S", "tasks": tasks}]});
        let make = json!({"plan_id": "p", "structure_data": structure});
        for made in [true, false] {
            let result = plan_tool(&toolbox, "create_plan_from_structure", make.clone()).await;
            assert_eq!(result, made);
        }
        for _ in 0..CALLS {
            let at = usize::try_from(random.below(count as u64 + 1)).unwrap();
            let (to, summary) = (
                *random.of(&TASK_STATUSES),
                *random.of(&[None, Some("r"), Some(" "), Some("other")]),
            );
            let update = json!({"plan_id": "p", "task_id": format!("t{at}"), "status": to, "result_summary": summary});
            let told = format!("seed {seed}: {update}, {:?}", model.0);
            assert_eq!(
                plan_tool(&toolbox, "update_task_status", update).await,
                model.update(at, to, summary),
                "{told}"
            );
            for (at, (status, summary, ..)) in model.0.iter().enumerate() {
                let task =
                    plan_tool(&toolbox, "get_task", json!({"task_id": format!("t{at}")})).await;
                assert_eq!(
                    (&task["status"], &task["result_summary"]),
                    (&json!(status), &json!(summary)),
                    "{told}"
                );
            }
            assert_eq!(
                plan_tool(&toolbox, "get_plan_status", json!({})).await,
                model.status(),
                "{told}"
            );
            let ready = plan_tool(&toolbox, "get_ready_tasks", json!({})).await;
            assert_eq!(ids(&ready), model.tasks("ready", None), "{told}");
            let (role, status) = (*random.of(&["a", "b", "c"]), *random.of(&TASK_STATUSES));
            let mine = plan_tool(
                &toolbox,
                "get_tasks_for_role",
                json!({"role_id": role, "status": status}),
            )
            .await;
            assert_eq!(ids(&mine), model.tasks(status, Some(role)), "{told}");
        }
        assert_eq!(
            plan_tool(&toolbox, "delete_plan", json!({"plan_id": "p"})).await,
            true
        );
        let of_p = json!({"plan_id": "p"});
        assert_eq!(
            plan_tool(&toolbox, "get_plan_status", of_p.clone()).await,
            Value::Null
        );
        assert_eq!(
            plan_tool(&toolbox, "get_ready_tasks", of_p).await,
            json!([])
        );
    }
}

#[derive(Clone, Debug)]
struct ManagedTask {
    id: i64,
    status: &'static str,
    dependencies: Vec<i64>,
    result: Option<String>,
    failures: u32,
}

/// A plan by `plan-manager.md`, its tasks in their order.
#[derive(Clone, Debug)]
struct PlanManagerModel {
    tasks: Vec<ManagedTask>,
    status: &'static str,
    next: i64,
}

/// What a call returns: nothing that is compared, or the code of an error.
type Answer = Result<(), &'static str>;

impl PlanManagerModel {
    fn place(&self, id: i64) -> Result<usize, &'static str> {
        self.tasks
            .iter()
            .position(|task| task.id == id)
            .ok_or("TASK_NOT_FOUND")
    }

    fn met(&self, task: &ManagedTask) -> bool {
        let done = |id: &i64| {
            self.place(*id)
                .is_ok_and(|at| ["completed", "skipped"].contains(&self.tasks[at].status))
        };
        task.dependencies.iter().all(done)
    }

    /// Returns the word for a task: `blocked` is shown, not stored.
    fn word(&self, task: &ManagedTask) -> &'static str {
        match task.status {
            "pending" if !self.met(task) => "blocked",
            word => word,
        }
    }

    fn count(&self, words: &[&str]) -> usize {
        self.tasks
            .iter()
            .filter(|task| words.contains(&self.word(task)))
            .count()
    }

    fn ended(&self) -> bool {
        ["completed", "failed"].contains(&self.status)
    }

    /// Sets the status of the plan after a change: all are settled, or the rest waits for what has failed for good.
    fn follow(&mut self) {
        if self.ended() {
            self.status = "running";
        }
        let open = self.count(&["pending", "in_progress"]);
        let failed = self.count(&["failed"]) > 0;
        if !self.tasks.is_empty() && open == 0 && (failed || self.count(&["blocked"]) == 0) {
            self.status = if failed { "failed" } else { "completed" };
        }
    }

    fn start(&mut self) -> Answer {
        let stuck = self.status == "failed" && self.count(&["blocked"]) > 0;
        if self.status == "paused" || (self.ended() && !stuck) {
            return Err("PLAN_NOT_ACTIVE");
        }
        let words: Vec<&str> = self.tasks.iter().map(|task| self.word(task)).collect();
        let next = words.iter().position(|word| *word == "pending");
        match next {
            Some(next) if !words.contains(&"in_progress") => {
                self.tasks[next].status = "in_progress";
                self.status = "running";
                Ok(())
            }
            _ => Err("INVALID_STATUS"),
        }
    }

    fn end(&mut self, id: i64, status: &'static str, text: &str, retry: bool) -> Answer {
        let at = self.place(id)?;
        let task = &mut self.tasks[at];
        if task.status != "in_progress" {
            return Err("INVALID_STATUS");
        }
        task.result = Some(text.to_owned());
        task.failures = if status == "failed" {
            task.failures + 1
        } else {
            0
        };
        task.status = if retry && task.failures < 3 {
            "pending"
        } else {
            status
        };
        self.follow();
        Ok(())
    }

    fn known(&self, dependencies: &[i64]) -> Answer {
        let all = dependencies.iter().all(|id| self.place(*id).is_ok());
        if all {
            Ok(())
        } else {
            Err("INVALID_DEPENDENCY")
        }
    }

    fn add(&mut self, dependencies: &[i64], after: Option<i64>) -> Answer {
        let at = after.map(|id| self.place(id)).transpose()?;
        self.known(dependencies)?;
        let task = ManagedTask {
            id: self.next,
            status: "pending",
            dependencies: dependencies.to_vec(),
            result: None,
            failures: 0,
        };
        self.next += 1;
        self.tasks
            .insert(at.map_or(self.tasks.len(), |at| at + 1), task);
        self.follow();
        Ok(())
    }

    fn waiting(&self, id: i64) -> Result<usize, &'static str> {
        let at = self.place(id)?;
        if self.tasks[at].status == "pending" {
            Ok(at)
        } else {
            Err("TASK_NOT_EDITABLE")
        }
    }

    fn update(&mut self, id: i64, dependencies: &[i64]) -> Answer {
        let at = self.waiting(id)?;
        self.known(dependencies)?;
        let (mut seen, mut next) = (BTreeSet::new(), dependencies.to_vec());
        while let Some(other) = next.pop() {
            if other == id {
                return Err("CIRCULAR_DEPENDENCY");
            }
            if seen.insert(other) {
                next.extend(&self.tasks[self.place(other)?].dependencies);
            }
        }
        self.tasks[at].dependencies = dependencies.to_vec();
        self.follow();
        Ok(())
    }

    fn skip(&mut self, id: i64, reason: &str) -> Answer {
        let at = self.place(id)?;
        let task = &mut self.tasks[at];
        if ["completed", "skipped"].contains(&task.status) {
            return Err("TASK_NOT_EDITABLE");
        }
        (task.status, task.result) = ("skipped", Some(reason.to_owned()));
        self.follow();
        Ok(())
    }

    fn remove(&mut self, id: i64) -> Answer {
        let at = self.waiting(id)?;
        if self
            .tasks
            .iter()
            .any(|task| task.dependencies.contains(&id))
        {
            return Err("INVALID_DEPENDENCY");
        }
        self.tasks.remove(at);
        self.follow();
        Ok(())
    }

    fn pause(&mut self) -> Answer {
        match self.status {
            "paused" => Err("INVALID_STATUS"),
            _ if self.ended() => Err("PLAN_NOT_ACTIVE"),
            _ => {
                self.status = "paused";
                Ok(())
            }
        }
    }

    fn resume(&mut self) -> Answer {
        match self.status {
            "paused" => {
                self.status = "running";
                Ok(())
            }
            "running" => Err("INVALID_STATUS"),
            _ => Err("PLAN_NOT_ACTIVE"),
        }
    }

    fn reset(&mut self) -> Answer {
        for task in &mut self.tasks {
            (task.status, task.result, task.failures) = ("pending", None, 0);
        }
        self.status = "idle";
        Ok(())
    }

    /// Makes a random call, and returns it with the answer of the model.
    fn call(&mut self, random: &mut Random) -> (&'static str, Value, Answer) {
        let ids: Vec<i64> = (0..=self.next).collect();
        let under_way = self.tasks.iter().find(|task| task.status == "in_progress");
        let id = match under_way {
            Some(task) if random.below(3) > 0 => task.id,
            _ => *random.of(&ids),
        };
        let some = (0..random.below(3)).map(|_| *random.of(&ids));
        let mut some: Vec<i64> = some.collect();
        some.dedup();
        match random.below(16) {
            0..=3 => ("startNextTask", json!({}), self.start()),
            4..=6 => {
                let given = json!({"task_id": id, "result": "r"});
                ("completeTask", given, self.end(id, "completed", "r", false))
            }
            7..=8 => {
                let retry = random.below(2) == 0;
                let given = json!({"task_id": id, "error_message": "e", "should_retry": retry});
                ("failTask", given, self.end(id, "failed", "e", retry))
            }
            9 | 10 => {
                let after = Some(*random.of(&ids))
                    .filter(|_| self.known(&some).is_ok() && random.below(2) == 0);
                let given = json!({"name": "N", "dependencies": some, "reasoning": "w", "after_task_id": after});
                ("addTask", given, self.add(&some, after))
            }
            11 => {
                let given = json!({"task_id": id, "updates": {"dependencies": some}});
                ("updateTask", given, self.update(id, &some))
            }
            12 => (
                "skipTask",
                json!({"task_id": id, "reason": "s"}),
                self.skip(id, "s"),
            ),
            13 => ("removeTask", json!({"task_id": id}), self.remove(id)),
            14 => match random.below(4) {
                0 => ("resetPlan", json!({}), self.reset()),
                _ => ("pausePlan", json!({}), self.pause()),
            },
            _ => ("resumePlan", json!({}), self.resume()),
        }
    }
}

async fn manager(toolbox: &Toolbox, name: &str, arguments: &Value) -> Value {
    toolbox
        .call(Dialect::PlanManager, name, arguments.clone())
        .await
        .value
}

#[tokio::test]
async fn plan_manager_behaves_as_its_model() {
    for seed in 0..times(60, 3000) {
        let (mut random, toolbox) = (Random::new(seed), toolbox().await);
        let mut model = PlanManagerModel {
            tasks: Vec::new(),
            status: "idle",
            next: 1,
        };
        for at in 0..random.below(5) {
            let before = (0..at.min(2)).map(|_| 1 + i64::try_from(random.below(at)).unwrap());
            let before: BTreeSet<i64> = before.collect();
            model
                .add(&before.into_iter().collect::<Vec<_>>(), None)
                .unwrap();
        }
        let task = |task: &ManagedTask| json!({"name": "T", "dependencies": task.dependencies, "reasoning": ""});
        let tasks: Vec<Value> = model.tasks.iter().map(task).collect();
        manager(
            &toolbox,
            "createPlan",
            &json!({"goal": "G", "tasks": tasks}),
        )
        .await;
        for _ in 0..CALLS {
            let before = model.clone();
            let (tool, arguments, expected) = model.call(&mut random);
            let answer = manager(&toolbox, tool, &arguments).await;
            let told =
                format!("seed {seed}: {tool} {arguments} → {answer}\non {before:?}\n{model:?}");
            assert_eq!(
                answer["error"]["code"],
                expected.err().map_or(Value::Null, Value::from),
                "{told}"
            );
            let list = manager(&toolbox, "getTaskList", &json!({})).await;
            let list = list["data"]["tasks"].as_array().unwrap();
            let listed = list.iter().map(|task| {
                (
                    task["id"].as_i64().unwrap(),
                    task["status"].as_str().unwrap(),
                )
            });
            let wanted = model.tasks.iter().map(|task| (task.id, model.word(task)));
            assert!(listed.eq(wanted), "{list:?}: {told}");
            for (task, shown) in model.tasks.iter().zip(list) {
                let settled = !["pending", "in_progress"].contains(&task.status);
                assert!(
                    !settled || shown["result"] == json!(task.result),
                    "{shown}: {told}"
                );
            }
            let executable = manager(&toolbox, "getExecutableTaskList", &json!({})).await;
            assert_eq!(
                executable["data"]["count"],
                model.count(&["pending"]),
                "{told}"
            );
            let total = model.tasks.len();
            let gone = model.count(&["completed", "skipped"]);
            let current = model.tasks.iter().find(|task| task.status == "in_progress");
            let status = json!({
                "status": model.status, "total_tasks": total,
                "completed_tasks": model.count(&["completed"]), "failed_tasks": model.count(&["failed"]),
                "pending_tasks": model.count(&["pending", "blocked", "in_progress"]),
                "current_task_id": current.map(|task| task.id),
            });
            let shown = manager(&toolbox, "getPlanStatus", &json!({})).await["data"].take();
            for (key, value) in status.as_object().unwrap() {
                assert_eq!(shown[key], *value, "{key}: {told}");
            }
            let progress = if total == 0 {
                0.0
            } else {
                gone as f64 / total as f64
            };
            assert!(
                (shown["progress"].as_f64().unwrap() - progress).abs() < 1e-3,
                "{shown}: {told}"
            );
        }
    }
}
