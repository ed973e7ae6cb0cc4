//! The internal plan: what a role makes of one task, as a plan of the core. Its tasks are the steps, done one after the other;
//! a step that waits for another role has an attempt, whose command is the request. So it survives whatever becomes of the
//! process, and goes on where it stopped; the plan that the task is in does not contain it.

use serde_json::{Map, Value};

use crate::plan::{
    Attempt, AttemptState, Budget, Draft, ModelCost, Origin, Plan, PlanHead, PlanId, PlanPolicy,
    PlanState, ROLE, Refusal, ReplanEdit, ReportStatus, Task, TaskId, TaskOrder, TaskSpec,
    TaskState, Time, unless_empty,
};
use crate::store::{Result, Store, StoreError};
use crate::tools::new_plan_id;
use crate::wire::{StepDoes, StepSpec, one_line, time_text};

use super::{
    CollaborationStatus, MessageKind, PlanningStrategy, RequestId, RoleId, StructuredMessage,
};

/// A request is made once, and again after so many time-outs.
const MAX_REQUESTS: u32 = 3;

/// Changes of the rest of the plan after a time-out.
const MAX_REPLANS: u32 = 1;

/// Characters of a step's result in the list of what was done.
const LINE: usize = 200;

/// One step of an internal plan.
#[derive(Clone, Debug, PartialEq)]
pub struct InternalStep {
    pub number: TaskId,
    pub name: String,
    pub does: StepDoes,
    pub status: TaskState,
    /// What came of it, or why it failed or was left out.
    pub result: Option<String>,
    /// The request that it waits for, if it does.
    pub request: Option<PendingAnswer>,
}

/// A request whose answer a step waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingAnswer {
    pub id: RequestId,
    /// The text that is sent.
    pub text: String,
    pub since: Time,
    /// The role that is asked goes on later: a person is asked something first, or its usage limit has to end.
    pub rests: bool,
    /// How it ended and what came of it, once that is known.
    pub answer: Option<(CollaborationStatus, String)>,
}

/// What a role makes of one task, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct InternalPlan {
    pub id: PlanId,
    /// `None` until it is chosen.
    pub strategy: Option<PlanningStrategy>,
    pub status: PlanState,
    /// In their order, those included that were left out.
    pub steps: Vec<InternalStep>,
    /// What came of the task, once the plan has ended.
    pub outcome: String,
    /// Whether another role has done only a part of what it was asked for.
    pub partial: bool,
    /// Why the rest of the steps is to change, if it is.
    pub replan: Option<String>,
    /// What was asked for and is to be taken back.
    pub recalls: Vec<RequestId>,
    /// What its language model and those that it asked took.
    pub spent: ModelCost,
    /// What those took that it asked.
    pub spent_by_others: ModelCost,
}

impl InternalPlan {
    /// Returns the key by which the plan for an assignment of a role is found.
    pub fn key(role: &RoleId, assignment: &RequestId) -> String {
        format!("{}{assignment}", Self::keys(role))
    }

    /// Returns the role and the assignment that an internal plan is for, by its key.
    pub fn parse_key(key: &str) -> Option<(RoleId, RequestId)> {
        let (role, assignment) = key.strip_prefix("role:")?.split_once(':')?;
        Some((role.parse().ok()?, RequestId::new(assignment)))
    }

    /// Returns what the keys of all internal plans of a role begin with, and of no other's.
    pub(super) fn keys(role: &RoleId) -> String {
        format!("role:{role}:")
    }

    /// Reads an internal plan from the plan that holds it. A step that this version does not know asks no role and fails.
    pub fn of(plan: &Plan) -> Self {
        let head = plan.head();
        let usage = &head.usage;
        let (input, output) = (usage.agent_input_tokens, usage.agent_output_tokens);
        let others = ModelCost::new(input, output, usage.agent_cost_usd);
        let recalls = plan.recalls().map(|recalled| recalled.id.clone());
        let step = |task: &Task| InternalStep {
            number: task.number,
            name: task.name.clone(),
            does: does(task),
            status: task.status,
            result: task.result.clone(),
            request: pending(plan, task),
        };
        Self {
            id: head.id.clone(),
            strategy: head.source.as_deref().and_then(PlanningStrategy::parse),
            status: head.status.clone(),
            steps: plan.tasks().map(step).collect(),
            outcome: head.outcome.clone().unwrap_or_default(),
            partial: plan.tasks().any(|task| answered_in_part(plan, task)),
            replan: head.replan.as_ref().map(|replan| replan.why.clone()),
            recalls: recalls.collect(),
            spent: ModelCost {
                calls: u32::try_from(usage.llm_calls).unwrap_or(u32::MAX),
                input_tokens: others.input_tokens.saturating_add(usage.llm_input_tokens),
                output_tokens: others.output_tokens.saturating_add(usage.llm_output_tokens),
                cost_usd: others.cost_usd + usage.llm_cost_usd,
            },
            spent_by_others: others,
        }
    }

    /// Returns how it ended, if it has.
    pub fn ended(&self) -> Option<CollaborationStatus> {
        match self.status {
            PlanState::Completed => Some(CollaborationStatus::Completed),
            PlanState::Failed | PlanState::Abandoned => Some(CollaborationStatus::Error),
            PlanState::Idle | PlanState::Running | PlanState::Paused(_) => None,
        }
    }

    /// Returns the index of the step that is to be done now: the first that is not settled.
    pub fn current(&self) -> Option<usize> {
        self.steps.iter().position(|step| !step.status.settled())
    }
}

fn does(task: &Task) -> StepDoes {
    serde_json::from_value(task.metadata.clone().into()).unwrap_or_else(|_| {
        let (action, params) = ("(unknown)".to_owned(), Map::new());
        StepDoes::ExecuteAction { action, params }
    })
}

/// Returns whether the answer that a step took was only a part.
fn answered_in_part(plan: &Plan, task: &Task) -> bool {
    let attempt = plan.current_attempt(task);
    let report = attempt.and_then(|attempt| attempt.report.as_ref());
    task.status == TaskState::Completed
        && report.is_some_and(|report| report.status == ReportStatus::PartialSuccess)
}

fn pending(plan: &Plan, task: &Task) -> Option<PendingAnswer> {
    let attempt = plan.current_attempt(task)?;
    let rests = rests(plan, attempt);
    let report = attempt.report.as_ref();
    let report = report.filter(|_| attempt.state == AttemptState::Reported);
    (attempt.state.open() || rests).then(|| PendingAnswer {
        id: attempt.id.clone(),
        text: attempt.text.clone(),
        since: attempt.issued,
        rests,
        answer: report.map(|report| (report.answer(), said(report))),
    })
}

/// Returns whether an attempt has ended, and its request is still open: a person is asked something first, or a usage limit has to
/// end.
pub fn rests(plan: &Plan, attempt: &Attempt) -> bool {
    let limited = |task: &Task| task.not_before.is_some();
    attempt.state == AttemptState::Judged
        && (plan.asks_about(attempt.task) || plan.task(attempt.task).is_some_and(limited))
}

/// Returns what an answer says: its results, and where there are none, or it is no success, the rest.
fn said(report: &crate::plan::Report) -> String {
    let results = report.results.trim();
    let partial = report.status == ReportStatus::PartialSuccess;
    let completed = report.answer() == CollaborationStatus::Completed;
    let mut said = Vec::new();
    if partial && completed {
        said.push("PARTIAL_SUCCESS: only a part is done.".to_owned());
    }
    said.push(results.to_owned());
    if results.is_empty() || partial || !completed {
        said.extend([&report.pitfalls, &report.next_steps].map(|part| part.trim().to_owned()));
    }
    if let Some(question) = &report.question {
        said.push(format!("There is a question: {}", question.trim()));
    }
    if let Some(until) = report.blocked_until {
        said.push(format!("It cannot go on before {}.", time_text(until)));
    }
    said.retain(|part| !part.is_empty());
    said.join("\n\n")
}

/// Makes the task of the core that stands for a step.
fn task_of(step: StepSpec) -> TaskSpec {
    let (description, assignee) = match &step.does {
        StepDoes::ExecuteAction { action: name, .. } | StepDoes::UseTool { tool: name, .. } => {
            (name, None)
        }
        StepDoes::RequestCollaboration {
            target,
            description,
            ..
        } => (description, Some(target.clone())),
    };
    TaskSpec {
        name: step.name,
        description: description.clone(),
        assignee,
        metadata: match serde_json::to_value(&step.does) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        },
        origin: Origin::Model,
        ..TaskSpec::default()
    }
}

/// Ends the plan if a step has failed or all are settled.
pub(super) fn conclude(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let tasks: Vec<Task> = draft.plan().tasks().cloned().collect();
    let failed = tasks.iter().find(|task| task.status == TaskState::Failed);
    if let Some(failed) = failed {
        let place = 1 + draft.plan().index_of(failed);
        let reason = format!("step {place} failed");
        for task in tasks.iter().filter(|task| !task.status.settled()) {
            draft.skip_task(task.number, &reason)?;
        }
        let why = failed.result.as_deref().unwrap_or("no reason is known");
        return draft.settle(&format!("Step {place}, {}, failed: {why}", failed.name));
    }
    if tasks.is_empty() || tasks.iter().any(|task| !task.status.settled()) {
        return Ok(());
    }
    draft.settle(&outcome(&tasks))
}

/// Returns what came of the task: the result of the last step, and in a line each what was done before.
fn outcome(tasks: &[Task]) -> String {
    let done = |task: &&Task| task.status == TaskState::Completed;
    let done: Vec<&Task> = tasks.iter().filter(done).collect();
    let Some((last, before)) = done.split_last() else {
        return "Nothing was left to do.".to_owned();
    };
    let result = |task: &Task| task.result.clone().unwrap_or_default();
    let lines = (1..).zip(before).map(|(number, task)| {
        let result = unless_empty(&one_line(&result(task), LINE), |text| format!(": {text}"));
        format!("{number}. {}{result}\n", task.name)
    });
    let lines: String = lines.collect();
    result(last) + &unless_empty(&lines, |lines| format!("\n\nDone before that:\n{lines}"))
}

/// Where a role keeps its internal plans.
#[derive(Clone, Debug)]
pub(super) struct PlanKeeper {
    pub(super) store: Store,
    pub(super) role: RoleId,
    /// The role's name in the history.
    pub(super) by: String,
}

impl PlanKeeper {
    pub(super) fn new(store: Store, role: RoleId) -> Self {
        let by = format!("role {role}");
        Self { store, role, by }
    }

    /// Returns the internal plan for an assignment, if there is one.
    pub(super) async fn find(&self, assignment: &RequestId) -> Result<Option<InternalPlan>> {
        let key = InternalPlan::key(&self.role, assignment);
        match self.store.find(&key).await? {
            Some(id) => Ok(Some(self.read(&id).await?)),
            None => Ok(None),
        }
    }

    /// Returns why a role failed at what it was asked for, where that is the answer of another one that it had asked in turn;
    /// `None` if it failed by itself, or its internal plan is not here.
    ///
    /// # Errors
    /// A failure of the store itself: a plan that is damaged has no reason.
    pub(super) async fn passed_on(&self, role: &str, asked: &RequestId) -> Result<Option<String>> {
        let Ok(role) = role.parse() else {
            return Ok(None);
        };
        let Some(id) = self.store.find(&InternalPlan::key(&role, asked)).await? else {
            return Ok(None);
        };
        let cause = self.store.read(&id, |plan, _| {
            let mut tasks = plan.tasks();
            let failed = tasks.find(|task| task.status == TaskState::Failed)?;
            let asked = plan.attempts_of(failed.number).last();
            let answered = asked.is_some_and(|asked| asked.report.is_some());
            failed.result.clone().filter(|_| answered)
        });
        match cause.await {
            Err(StoreError::UnknownPlan(_) | StoreError::Damaged { .. }) => Ok(None),
            cause => cause,
        }
    }

    /// Makes an internal plan without steps for an assignment, or returns the one that there is.
    pub(super) async fn open(&self, message: &StructuredMessage) -> Result<InternalPlan> {
        let assignment = message.assignment();
        if let Some(plan) = self.find(&assignment).await? {
            return Ok(plan);
        }
        let goal = message.description.as_deref().unwrap_or_default();
        let mut head = PlanHead::new(new_plan_id(), goal, Time::default());
        head.key = Some(InternalPlan::key(&self.role, &assignment));
        head.description = message.context.clone().unwrap_or_default();
        head.parent.clone_from(&message.plan_id);
        ROLE.clone_into(&mut head.owner);
        head.order = TaskOrder::Sequential;
        head.origin = Origin::Model;
        let policy = PlanPolicy {
            max_attempts: MAX_REQUESTS,
            max_replans: MAX_REPLANS,
            model: false,
            audit: false,
            budget: Budget::NONE,
            ..PlanPolicy::default()
        };
        let why = match message.kind {
            MessageKind::CollaborationRequest => "another role asks for something",
            _ => "a task was assigned",
        };
        let made = self.store.create(head, &self.by, why, move |draft| {
            draft.created();
            draft.start(policy, "")?;
            Ok(InternalPlan::of(draft.plan()))
        });
        match made.await {
            // An earlier process, or another one now, has made it.
            Err(StoreError::PlanTaken(key)) => {
                let found = self.find(&assignment).await?;
                found.ok_or(StoreError::UnknownPlan(key))
            }
            made => made,
        }
    }

    pub(super) async fn read(&self, plan: &PlanId) -> Result<InternalPlan> {
        (self.store.read(plan, |plan, _| InternalPlan::of(plan))).await
    }

    /// Changes an internal plan, ends it if nothing is left to do, and returns it is then.
    pub(super) async fn change(
        &self,
        plan: &PlanId,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<InternalPlan> {
        let change = move |draft: &mut Draft<'_>| {
            change(draft)?;
            if draft.plan().head().replan.is_none() && !draft.plan().status().settled() {
                conclude(draft)?;
            }
            Ok(InternalPlan::of(draft.plan()))
        };
        self.store.change(plan, &self.by, why, change).await
    }
}

/// Adds the steps of a plan that has none yet, or puts them in the place of those that are not begun, for a reason.
pub(super) fn put_steps(
    draft: &mut Draft<'_>,
    steps: Vec<StepSpec>,
    replan: Option<String>,
) -> Result<(), Refusal> {
    let new = steps.into_iter().map(task_of);
    if let Some(reason) = replan {
        let pending = draft.plan().unsettled();
        let skip = pending.map(|task| ReplanEdit::Skip(task.number, String::new()));
        let add = new.map(|task| ReplanEdit::Add(Box::new(task)));
        return draft.replan(&skip.chain(add).collect::<Vec<_>>(), &reason);
    }
    match draft.plan().counts().total() {
        0 => draft.add_tasks(new.collect(), None).map(drop),
        _ => Ok(()),
    }
}
