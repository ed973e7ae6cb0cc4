//! Two roles do a task of a plan together: the pseudocode of AgentBaseRole as a program. No language model, no network, no
//! file; everything is in memory.
//!
//!     cargo run --example role
//!
//! The architect has a way of its own to plan: it overrides two methods. The coder is a [`Role`] as it comes, with a template.
//! The [`Office`] stands for the framework: it carries messages and keeps the plan that the task is in.

#![expect(clippy::print_stdout, reason = "it is a program that shows something")]

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::{Arc, Mutex};

use plan_agent::llm::BoxFuture;
use plan_agent::plan::PlanId;
use plan_agent::role::{
    Abilities, AgentBaseRole, ChosenStrategy, CollaborationStatus, Framework, FrameworkError,
    MessageKind, OtherRole, PlanningStrategy, RequestId, RequestRefused, Role, RoleError, RoleId,
    RoleSettings, StepDoes, StepSpec, StepTemplate, StructuredMessage, TaskUpdate, ability,
    plan_tools,
};
use plan_agent::tools::plan_tool::{Structure, TaskStatus};
use plan_agent::tools::{PlanTool, Toolbox};
use serde_json::{Value, json};

const PLAN: &str = "release";

/// The framework: messages that wait to be delivered, and the plan.
struct Office {
    messages: Mutex<VecDeque<StructuredMessage>>,
    plans: PlanTool,
    log: Mutex<Vec<String>>,
}

impl Office {
    fn say(&self, line: impl Into<String>) {
        if let Ok(mut log) = self.log.lock() {
            log.push(line.into());
        }
    }

    fn post(&self, message: StructuredMessage) {
        if let Ok(mut messages) = self.messages.lock() {
            messages.push_back(message);
        }
    }

    fn next(&self) -> Option<StructuredMessage> {
        self.messages.lock().ok()?.pop_front()
    }
}

impl Framework for Office {
    fn other_roles(&self) -> Vec<OtherRole> {
        let colleague = |(id, description): (&str, &str)| {
            let description = description.to_owned();
            id.parse().ok().map(|id| OtherRole { id, description })
        };
        [("architect", "designs"), ("coder", "writes code")]
            .into_iter()
            .filter_map(colleague)
            .collect()
    }

    fn prepare<'a>(
        &'a self,
        request: &'a StructuredMessage,
    ) -> BoxFuture<'a, Result<String, RequestRefused>> {
        // Here it would be looked whether the request would wait for itself.
        let text = request.description.clone().unwrap_or_default();
        Box::pin(async move { Ok(text) })
    }

    fn send<'a>(
        &'a self,
        request: &'a StructuredMessage,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), RequestRefused>> {
        Box::pin(async move {
            self.say(format!("{} asks {}: {text}", request.from, request.to));
            self.post(request.clone());
            Ok(())
        })
    }

    fn withdraw<'a>(&'a self, _: &'a RequestId) -> BoxFuture<'a, Result<(), FrameworkError>> {
        Box::pin(async { Ok(()) })
    }

    fn update_task_status(&self, update: TaskUpdate) -> BoxFuture<'_, Result<(), FrameworkError>> {
        Box::pin(async move {
            let (task, word) = (&update.task, update.status.as_str());
            if task.kind == MessageKind::CollaborationRequest {
                self.say(format!("{} answers `{word}`: {}", task.to, update.result));
                let asked: Result<RoleId, _> = task.from.parse();
                let asker = asked.map_err(|error| FrameworkError(error.to_string()))?;
                let kind = MessageKind::CollaborationResponse;
                let mut answer = StructuredMessage::new(task.to.as_str(), asker, kind);
                answer.request_id = Some(task.assignment());
                answer.status = Some(update.status);
                answer.result_data = Some(Value::String(update.result));
                self.post(answer);
                return Ok(());
            }
            let status = match update.status {
                CollaborationStatus::Completed => TaskStatus::Completed,
                CollaborationStatus::Error | CollaborationStatus::Rejected => TaskStatus::Error,
            };
            let role = &task.to;
            let task = task.task_id.clone().unwrap_or_default();
            self.say(format!("{role} reports `{word}` for task {task}"));
            let told =
                self.plans
                    .update_task_status(Some(PLAN), &task, status, Some(&update.result));
            match told.await {
                Ok(true) => Ok(()),
                Ok(false) => Err(FrameworkError(format!("task {task} takes no status"))),
                Err(error) => Err(FrameworkError(error.to_string())),
            }
        })
    }
}

/// A role with a plan for everything.
struct Architect(Role);

impl AgentBaseRole for Architect {
    fn role(&self) -> &Role {
        &self.0
    }

    fn role_mut(&mut self) -> &mut Role {
        &mut self.0
    }

    fn determine_planning_strategy<'a>(
        &'a mut self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<ChosenStrategy, RoleError>> {
        Box::pin(async {
            Ok(ChosenStrategy {
                strategy: PlanningStrategy::FreeForm,
                reason: "an architect always designs first".to_owned(),
            })
        })
    }

    fn generate_internal_plan<'a>(
        &'a mut self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<StepSpec>, RoleError>> {
        Box::pin(async {
            let coder = StepDoes::RequestCollaboration {
                target: "coder".to_owned(),
                description: "write {{steps.1.result}}".to_owned(),
                context: "{{context}}".to_owned(),
            };
            let status = StepDoes::UseTool {
                tool: "plan.get_plan_status".to_owned(),
                params: object(json!({"plan_id": PLAN})),
            };
            Ok(vec![
                step(
                    "Design",
                    action("sketch", json!({"of": "{{task.description}}"})),
                ),
                step("Have it written", coder),
                step("Look at the plan", status),
                step(
                    "Sum up",
                    action(
                        "say",
                        json!({"text": "{{steps.2.result}}, for {{task.name}}"}),
                    ),
                ),
            ])
        })
    }
}

fn step(name: &str, does: StepDoes) -> StepSpec {
    let name = name.to_owned();
    StepSpec { name, does }
}

fn action(name: &str, params: Value) -> StepDoes {
    StepDoes::ExecuteAction {
        action: name.to_owned(),
        params: object(params),
    }
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    }
}

/// The actions of both: what they can do without anybody else.
fn actions() -> Abilities {
    let schema = |name: &str| {
        let text = json!({"type": "string"});
        json!({"type": "object", "properties": {name: text}, "required": [name], "additionalProperties": false})
    };
    let sketch = ability(
        "sketch",
        "designs something",
        schema("of"),
        async |params| {
            Ok(format!(
                "the code of \"{}\"",
                params["of"].as_str().unwrap_or_default()
            ))
        },
    );
    let say = ability("say", "says a text", schema("text"), async |params| {
        Ok(params["text"].as_str().unwrap_or_default().to_owned())
    });
    [sketch, say].into_iter().collect()
}

/// Carries one task out with both roles, and returns what happened, a line each.
///
/// # Errors
/// The store failed, or a message was not taken in.
pub async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let toolbox = Toolbox::in_memory().await?;
    let store = toolbox.store().clone();
    let office = Arc::new(Office {
        messages: Mutex::default(),
        plans: PlanTool::new(toolbox.clone()),
        log: Mutex::default(),
    });
    let structure: Structure = serde_json::from_value(json!({
        "name": "Release",
        "steps": [{"step_id": "s1", "name": "Build", "tasks": [
            {"task_id": "t1", "name": "Build it", "assignee": "architect", "description": "A health endpoint"},
        ]}],
    }))?;
    let made = office.plans.create_plan_from_structure(PLAN, structure);
    assert!(made.await?, "the plan is made");

    let framework = || Arc::clone(&office) as Arc<dyn Framework>;
    let tools = plan_tools(&toolbox.with_caller("architect"));
    let settings = RoleSettings::new("architect".parse()?);
    let architect = Role::new(settings, store.clone(), framework(), None, actions(), tools)?;
    let mut settings = RoleSettings::new("coder".parse()?);
    settings.templates.push(StepTemplate {
        name: "write".to_owned(),
        matches: vec!["write".to_owned()],
        steps: vec![step(
            "Write",
            action("say", json!({"text": "done: {{task.description}}"})),
        )],
    });
    let nothing = Abilities::default();
    let coder = Role::new(settings, store, framework(), None, actions(), nothing)?;
    let mut roles: BTreeMap<RoleId, Box<dyn AgentBaseRole>> = BTreeMap::new();
    roles.insert(architect.id().clone(), Box::new(Architect(architect)));
    roles.insert(coder.id().clone(), Box::new(coder));

    // What a strategist does: tasks that are ready go to those they are for.
    for task in office.plans.get_ready_tasks(Some(PLAN)).await? {
        let kind = MessageKind::TaskAssignment;
        let mut message = StructuredMessage::new("strategist", task.assignee.parse()?, kind);
        message.plan_id = Some(PlanId::new(PLAN));
        message.task_id = Some(task.task_id);
        message.description = Some(task.description);
        message.context = Some("in Rust".to_owned());
        office.post(message);
    }
    while let Some(message) = office.next() {
        let Some(role) = roles.get_mut(&message.to) else {
            continue;
        };
        let to = message.to.clone();
        role.process_message(message).await?;
        let state = role.role().state().status.as_str();
        office.say(format!("{to} is {state}"));
    }
    let task = office.plans.get_task(Some(PLAN), "t1").await?;
    let result = task
        .and_then(|task| task.result_summary)
        .unwrap_or_default();
    office.say(format!(
        "the plan has: {}",
        result.lines().next().unwrap_or_default()
    ));
    let log = office.log.lock().map_err(|error| error.to_string())?;
    Ok(log.clone())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
