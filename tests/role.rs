//! AgentBaseRole as a library: a store in memory, a framework that records its calls, a model that answers by script. No file,
//! no network, no daemon.

mod abilities;
mod budget;
mod example;
mod faults;
mod mcp;
mod planning;
mod restart;
mod steps;
mod waiting;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::core::{new_command, new_task};
use crate::common::env::{begins, has, lacks, row};
use plan_agent::config::{Config, LlmConfig};
use plan_agent::llm::{BoxFuture, LanguageModel, LlmError, Model, ModelReply, Prompts, Request};
use plan_agent::plan::{
    CommandId, Event, ModelCost, Plan, PlanHead, PlanId, PlanPolicy, ROLE, RoleRequestEnd, Time,
};
use plan_agent::plan_time::Clock;
use plan_agent::role::{
    Abilities, Ability, AgentBaseRole as _, CollaborationStatus, Framework, FrameworkError,
    MessageKind, OtherRole, RequestId, RequestRefused, Role, RoleId, RoleModel, RoleSettings,
    StepDoes, StepSpec, StepTemplate, StructuredMessage, TaskUpdate, ability,
};
use plan_agent::store::Store;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// A model that gives the scripted answers one after the other, and then repeats the last one.
#[derive(Debug)]
pub struct Scripted {
    answers: Mutex<VecDeque<Value>>,
    asked: Mutex<Vec<Request>>,
    /// If set, no question is answered any more; notified of the next one.
    hangs: Mutex<Option<Arc<Notify>>>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Value>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
            hangs: Mutex::default(),
        })
    }

    /// Makes the model answer nothing any more; the returned value notifies of the next question.
    fn hangs(&self) -> Arc<Notify> {
        let asked = Arc::new(Notify::new());
        *self.hangs.lock().unwrap() = Some(Arc::clone(&asked));
        asked
    }

    fn mind(self: &Arc<Self>) -> RoleModel {
        let config = LlmConfig {
            tries: 1,
            ..Config::default().llm
        };
        RoleModel {
            model: Model::new(Arc::clone(self) as Arc<dyn LanguageModel>, &config),
            prompts: Arc::new(Prompts::load(None).unwrap()),
            away: Duration::ZERO,
        }
    }

    fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the kinds of the questions so far.
    fn kinds(&self) -> Vec<String> {
        let asked = self.asked();
        asked.into_iter().map(|asked| asked.schema_name).collect()
    }
}

impl LanguageModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<ModelReply, LlmError>> {
        Box::pin(async move {
            let hangs = self.hangs.lock().unwrap().clone();
            if let Some(asked) = hangs {
                asked.notify_one();
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            self.asked.lock().unwrap().push(request.clone());
            let mut answers = self.answers.lock().unwrap();
            let answer = match answers.len() {
                0 | 1 => answers.front().cloned().unwrap_or_default(),
                _ => answers.pop_front().unwrap(),
            };
            Ok(ModelReply {
                text: answer.to_string(),
                spent: ModelCost {
                    input_tokens: 100,
                    output_tokens: 10,
                    cost_usd: 0.5,
                    ..ModelCost::default()
                },
            })
        })
    }
}

/// A framework that records its calls.
#[derive(Default)]
pub struct Office {
    sent: Mutex<Vec<(StructuredMessage, String)>>,
    prepared: Mutex<Vec<StructuredMessage>>,
    withdrawn: Mutex<Vec<RequestId>>,
    updates: Mutex<Vec<TaskUpdate>>,
    /// Why a request is not prepared, or not sent.
    refuses: Mutex<Option<RequestRefused>>,
    refuses_to_send: Mutex<Option<RequestRefused>>,
    /// How many updates the framework ignores.
    deaf: Mutex<usize>,
}

impl Office {
    fn updates(&self) -> Vec<TaskUpdate> {
        self.updates.lock().unwrap().clone()
    }

    fn sent(&self) -> Vec<StructuredMessage> {
        let sent = self.sent.lock().unwrap();
        sent.iter().map(|(message, _)| message.clone()).collect()
    }

    fn withdrawn(&self) -> Vec<RequestId> {
        self.withdrawn.lock().unwrap().clone()
    }
}

impl Framework for Office {
    fn other_roles(&self) -> Vec<OtherRole> {
        let colleague = |(id, description): (&str, &str)| OtherRole {
            id: id.parse().unwrap(),
            description: description.to_owned(),
        };
        [("coder", "writes code"), ("tester", "runs tests")]
            .map(colleague)
            .to_vec()
    }

    fn prepare<'a>(
        &'a self,
        request: &'a StructuredMessage,
    ) -> BoxFuture<'a, Result<String, RequestRefused>> {
        Box::pin(async move {
            self.prepared.lock().unwrap().push(request.clone());
            match self.refuses.lock().unwrap().clone() {
                Some(refused) => Err(refused),
                None => Ok(format!(
                    "please: {}",
                    request.description.as_deref().unwrap()
                )),
            }
        })
    }

    fn send<'a>(
        &'a self,
        request: &'a StructuredMessage,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), RequestRefused>> {
        Box::pin(async move {
            if let Some(refused) = self.refuses_to_send.lock().unwrap().clone() {
                return Err(refused);
            }
            let sent = (request.clone(), text.to_owned());
            self.sent.lock().unwrap().push(sent);
            tokio::task::yield_now().await;
            Ok(())
        })
    }

    fn withdraw<'a>(&'a self, request: &'a RequestId) -> BoxFuture<'a, Result<(), FrameworkError>> {
        Box::pin(async move {
            self.withdrawn.lock().unwrap().push(request.clone());
            tokio::task::yield_now().await;
            Ok(())
        })
    }

    fn update_task_status(&self, update: TaskUpdate) -> BoxFuture<'_, Result<(), FrameworkError>> {
        Box::pin(async move {
            {
                let mut deaf = self.deaf.lock().unwrap();
                if *deaf > 0 {
                    *deaf -= 1;
                    return Err(FrameworkError("nobody listens".to_owned()));
                }
            }
            self.updates.lock().unwrap().push(update);
            tokio::task::yield_now().await;
            Ok(())
        })
    }
}

/// Everything with which a role works; a test may make several roles on it, one after the other.
pub struct Scene {
    store: Store,
    office: Arc<Office>,
    settings: RoleSettings,
    model: Option<Arc<Scripted>>,
    actions: Abilities,
    tools: Abilities,
}

impl Scene {
    async fn new() -> Self {
        let clock = Clock::start();
        Self {
            store: Store::in_memory(move || clock.now()).await.unwrap(),
            office: Arc::default(),
            settings: RoleSettings::new(id("reviewer")),
            model: None,
            actions: [echo()].into_iter().collect(),
            tools: Abilities::default(),
        }
    }

    fn with_model(mut self, answers: impl IntoIterator<Item = Value>) -> Self {
        self.model = Some(Scripted::new(answers));
        self
    }

    /// Gives the role a template that fits every task with the word `review`.
    fn with_steps(mut self, steps: Vec<StepSpec>) -> Self {
        self.settings.templates.push(StepTemplate {
            name: "standard".to_owned(),
            matches: vec!["Review".to_owned()],
            steps,
        });
        self
    }

    /// Makes the plan that contains the task of every test, with that task dispatched.
    async fn with_top(self) -> Self {
        self.handed_out("topplan", "daemon", "task-1").await;
        self
    }

    /// Makes a plan with one task that is dispatched by a command.
    async fn handed_out(&self, plan: &str, owner: &str, command: &str) {
        let mut head = PlanHead::new(PlanId::new(plan), "", Time::default());
        owner.clone_into(&mut head.owner);
        let issue = new_command(command, "");
        let made = self.store.create(head, "test", "made", |draft| {
            let made = draft.add_tasks(vec![new_task("One")], None)?;
            draft.start(PlanPolicy::default(), "")?;
            draft.issue(made[0], issue)
        });
        made.await.unwrap();
    }

    /// Returns the ends of the requests in the log of the task's plan.
    async fn ends(&self) -> Vec<RoleRequestEnd> {
        let changes = self.store.since(&PlanId::new("topplan"), 0, 1000).await;
        let changes = changes.unwrap().into_iter();
        let events = changes.flat_map(|change| change.delta.events);
        let end = |event| match event {
            Event::RequestEnded { how, .. } => Some(how),
            _ => None,
        };
        events.filter_map(end).collect()
    }

    /// Returns how many waits for other roles the task's plan has.
    async fn waits(&self) -> usize {
        let waits = |plan: &Plan, _| plan.waits().count();
        let top = PlanId::new("topplan");
        self.store.read(&top, waits).await.unwrap()
    }

    fn role(&self) -> Role {
        self.try_role().unwrap()
    }

    fn try_role(&self) -> Result<Role, plan_agent::role::RoleFaults> {
        Role::new(
            self.settings.clone(),
            self.store.clone(),
            Arc::clone(&self.office) as Arc<dyn Framework>,
            self.model.as_ref().map(Scripted::mind),
            self.actions.clone(),
            self.tools.clone(),
        )
    }

    /// Gives a new role a task, and returns it in its state afterwards.
    async fn given(&self, description: &str) -> Role {
        let mut role = self.role();
        gets(&mut role, task(description)).await;
        role
    }

    async fn plan_id(&self) -> PlanId {
        let found = self.store.find("role:reviewer:task-1").await.unwrap();
        found.expect("there is an internal plan")
    }

    async fn plan(&self) -> Plan {
        let read = |plan: &Plan, _| Plan::from_rows(plan.rows()).unwrap();
        self.store.read(&self.plan_id().await, read).await.unwrap()
    }

    async fn events(&self) -> Vec<Event> {
        let changes = self.store.since(&self.plan_id().await, 0, 1000).await;
        let changes = changes.unwrap().into_iter();
        changes.flat_map(|change| change.delta.events).collect()
    }

    fn update(&self) -> TaskUpdate {
        let updates = self.office.updates();
        assert_eq!(updates.len(), 1, "{updates:?}");
        updates.into_iter().next().unwrap()
    }

    /// Returns the questions that the model was asked.
    fn asked(&self) -> Vec<Request> {
        self.model.as_ref().unwrap().asked()
    }

    /// Returns why the task failed.
    fn failure(&self) -> String {
        let (status, result) = self.result();
        assert_eq!(status, ERROR, "{result}");
        result
    }

    /// Returns the result of the completed task.
    fn success(&self) -> String {
        let (status, result) = self.result();
        assert_eq!(status, COMPLETED, "{result}");
        result
    }

    fn result(&self) -> (CollaborationStatus, String) {
        let update = self.update();
        (update.status, update.result)
    }
}

fn uses(tool: &str, params: Value) -> StepSpec {
    let (tool, params) = (tool.to_owned(), object(params));
    StepSpec {
        name: format!("Use {tool}"),
        does: StepDoes::UseTool { tool, params },
    }
}

/// Makes a scene whose role has a template with these steps for every task with the word `review`.
async fn acting(steps: Vec<StepSpec>) -> Scene {
    Scene::new().await.with_steps(steps)
}

/// Makes a scene whose role has a model with these answers.
async fn thinking(answers: impl IntoIterator<Item = Value>) -> Scene {
    Scene::new().await.with_model(answers)
}

/// Gives a role a message.
async fn gets(role: &mut Role, message: StructuredMessage) {
    role.process_message(message).await.unwrap();
}

/// Returns the request for whose answer a role waits.
fn awaited(role: &Role) -> RequestId {
    let state = role.state();
    assert_eq!(state.status.as_str(), "waiting_for_collaboration");
    state.pending_collaboration_request_id.clone().unwrap()
}

fn id(name: &str) -> RoleId {
    name.parse().unwrap()
}

/// Returns an action that reports its parameters.
fn echo() -> Arc<Ability> {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
        "required": ["text"],
        "additionalProperties": false,
    });
    ability("echo", "says the text", schema, async |params| {
        let times = params["times"].as_u64().unwrap_or(1);
        let text = params["text"].as_str().unwrap();
        Ok(text.repeat(usize::try_from(times).unwrap()))
    })
}

fn action(name: &str, params: Value) -> StepSpec {
    let (action, params) = (name.to_owned(), object(params));
    StepSpec {
        name: format!("Do {name}"),
        does: StepDoes::ExecuteAction { action, params },
    }
}

fn says(text: &str) -> StepSpec {
    action("echo", json!({ "text": text }))
}

fn asks(target: &str, description: &str) -> StepSpec {
    let does = StepDoes::RequestCollaboration {
        target: target.to_owned(),
        description: description.to_owned(),
        context: "{{context}}".to_owned(),
    };
    StepSpec {
        name: format!("Ask {target}"),
        does,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// Returns the task that every test gives.
fn task(description: &str) -> StructuredMessage {
    task_named("task-1", description)
}

fn task_named(request: &str, description: &str) -> StructuredMessage {
    let mut message = StructuredMessage::new("daemon", id("reviewer"), MessageKind::TaskAssignment);
    message.plan_id = Some(PlanId::new("topplan"));
    message.task_id = Some("7".to_owned());
    message.description = Some(description.to_owned());
    message.context = Some("in a hurry".to_owned());
    message.request_id = Some(CommandId::new(request));
    message
}

fn answer(
    request: &RequestId,
    status: CollaborationStatus,
    data: impl Into<Value>,
) -> StructuredMessage {
    let kind = MessageKind::CollaborationResponse;
    let mut message = StructuredMessage::new("coder", id("reviewer"), kind);
    message.request_id = Some(request.clone());
    message.status = Some(status);
    message.result_data = Some(data.into());
    message
}

fn cancel(request: &str) -> StructuredMessage {
    let mut message = StructuredMessage::new("daemon", id("reviewer"), MessageKind::Cancel);
    message.request_id = Some(CommandId::new(request));
    message
}

/// Returns steps as a model gives them.
fn planned(steps: impl Into<Value>) -> Value {
    json!({"reason": "it fits", "steps": steps.into()})
}

const COMPLETED: CollaborationStatus = CollaborationStatus::Completed;
const ERROR: CollaborationStatus = CollaborationStatus::Error;
const REJECTED: CollaborationStatus = CollaborationStatus::Rejected;
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn role_accepts_task_and_reports_result() {
    let scene = acting(vec![says("{{task.description}}, {{context}}")]).await;
    let role = scene.given("Review it").await;
    let update = scene.update();
    let given = &update.task;
    assert_eq!(given.to, id("reviewer"));
    assert_eq!(given.assignment().as_str(), "task-1");
    let expected = (MessageKind::TaskAssignment, "daemon");
    assert_eq!((given.kind, &*given.from), expected);
    assert_eq!(given.plan_id, Some(PlanId::new("topplan")));
    assert_eq!(given.task_id.as_deref(), Some("7"));
    let expected = (COMPLETED, "Review it, in a hurry");
    assert_eq!((update.status, &*update.result), expected);
    assert_eq!(role.state().status.as_str(), "idle");
    assert!(role.state().current_task.is_none() && role.state().internal_plan.is_none());
}

#[tokio::test]
async fn internal_plan_is_child_of_task_plan() {
    let scene = acting(vec![says("one"), says("two")]).await;
    scene.given("Review it").await;
    let plan = scene.plan().await;
    let head = plan.head();
    let expected = (ROLE, Some(PlanId::new("topplan")));
    assert_eq!((head.owner.as_str(), head.parent.clone()), expected);
    let expected = ("Review it", "in a hurry");
    assert_eq!((head.goal.as_str(), head.description.as_str()), expected);
    assert_eq!(head.source.as_deref(), Some("template standard"));
    let results = plan.tasks().map(|task| task.result.as_deref().unwrap());
    let results: Vec<_> = results.collect();
    assert_eq!(results, ["one", "two"]);
    let expected = "two\n\nDone before that:\n1. Do echo: one\n";
    assert_eq!(scene.result().1, expected);
    // Only a plan with work left is in use.
    assert!(scene.store.current(ROLE, 9).await.unwrap().is_empty());
    let by = scene.store.since(&head.id, 0, 9).await.unwrap();
    assert!(by.iter().all(|change| change.by == "role reviewer"));
}

#[tokio::test]
async fn misdirected_messages_change_nothing() {
    let scene = acting(vec![says("one")]).await;
    let mut role = scene.role();
    let mut stranger = task("Review it");
    stranger.to = id("coder");
    let mut nothing = cancel("task-1");
    nothing.request_id = None;
    let unknown = answer(&CommandId::new("task-9"), COMPLETED, "hello");
    for message in [stranger, nothing, unknown, cancel("task-9")] {
        gets(&mut role, message).await;
        assert_eq!(role.state().status.as_str(), "idle");
    }
    assert!(scene.office.updates().is_empty());
    assert!(scene.store.plans().await.unwrap().is_empty());
}

#[tokio::test]
async fn repeated_task_resends_lost_update() {
    let scene = acting(vec![says("one")]).await;
    *scene.office.deaf.lock().unwrap() = 1;
    let mut role = scene.role();
    let failed = role.process_message(task("Review it")).await.unwrap_err();
    assert_eq!(failed.to_string(), "nobody listens");
    assert_eq!(role.state().status.as_str(), "idle");
    gets(&mut role, task("Review it")).await;
    assert_eq!(scene.success(), "one");
    let begun = |event: &&Event| matches!(event, Event::TaskStarted { .. });
    assert_eq!(scene.events().await.iter().filter(begun).count(), 1);
}

#[tokio::test]
async fn message_json_has_documented_fields() {
    let message = answer(&CommandId::new("task-2"), REJECTED, json!({"why": "no"}));
    let text = serde_json::to_value(&message).unwrap();
    assert_eq!(text["kind"], "collaboration_response");
    assert_eq!(text["status"], "rejected");
    assert_eq!(text["request_id"], "task-2");
    assert_eq!(text["result_data"]["why"], "no");
    assert_eq!(
        serde_json::from_value::<StructuredMessage>(text).unwrap(),
        message
    );
    let bad = json!({"id": "1", "from": "a", "to": "../x", "kind": "cancel"});
    let error = serde_json::from_value::<StructuredMessage>(bad).unwrap_err();
    has(error.to_string(), "`../x` names no role");
}
