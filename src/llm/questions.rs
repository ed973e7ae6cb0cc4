//! The questions that the plan puts to a model: each takes the plan's data and gives a prompt, the schema of the answer,
//! and the function that reads it into core types. Pure. A validation here is for the model, which is told what is wrong
//! and may answer once more; what the plan allows in the end is decided by the plan.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
pub use super::context::{CommandContext, JudgeFacts, PlanContext};
use super::context::{CommandView, JudgeView, PlanView, ReplanView, WholeView, editable, one_line};
use super::extract;
use super::model::Question;
use super::prompts::{PromptError, Prompts, Template};
use crate::plan::{
    Attempt, Decision, Edit, NewTask, Origin, Plan, ReportStatus, Task, TaskChanges, TaskId,
    TaskRef,
};

/// Tasks that one answer may bring.
const MAX_TASKS: usize = 50;
/// Characters: a name is cut there, longer texts of a task are refused as runaway answers.
const MAX_NAME: usize = 120;
const MAX_TEXT: usize = 8_000;
/// Characters at which a reason and a summary are cut.
const MAX_REASON: usize = 2_000;
const MAX_SUMMARY: usize = 800;
const MAX_OUTCOME: usize = 6_000;
/// Tokens of an answer with many tasks, of a verdict, and of a summary. Reasoning models count their thoughts in.
const LONG_ANSWER: u32 = 16_000;
const SHORT_ANSWER: u32 = 4_000;

/// A plan as a model made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPlan {
    pub name: String,
    pub description: String,
    /// In the plan's order; dependencies are [`TaskRef::New`].
    pub tasks: Vec<NewTask>,
}

/// What a model made of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub decision: Decision,
    pub reason: String,
    /// What the next attempt is told.
    pub feedback: String,
    /// What later tasks are told of this one.
    pub result_summary: String,
}

/// Whether the goal is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub met: bool,
    pub reason: String,
    /// What is still to be done; empty if and only if the goal is met.
    pub missing: Vec<NewTask>,
}

/// Asks for a plan. Dependencies in the answer are numbers of its own tasks, counted from 1.
pub fn plan(
    prompts: &Prompts,
    context: &PlanContext<'_>,
) -> Result<Question<PlannedPlan>, PromptError> {
    let words = Words::new(context.check_names, context.roles);
    let schema = object(&[
        ("name", text("name of the plan, a few words")),
        (
            "description",
            text("how the goal is reached, one or two sentences"),
        ),
        ("tasks", list(words.task_schema())),
    ]);
    let view = PlanView::new(context);
    question(
        prompts,
        Template::Plan,
        &view,
        schema,
        LONG_ANSWER,
        move |answer: PlanAnswer| {
            Ok(PlannedPlan {
                name: name(&answer.name, "the plan")?,
                description: bounded(&answer.description, "description", "the plan")?,
                tasks: words.tasks(answer.tasks, Least::One)?,
            })
        },
    )
}

/// Asks what follows from a result. `next` is accepted only for SUCCESS and PARTIAL_SUCCESS without a failed check.
pub fn judge(
    prompts: &Prompts,
    plan: &Plan,
    task: &Task,
    attempt: &Attempt,
    facts: &JudgeFacts,
) -> Result<Question<Judgement>, PromptError> {
    let schema = object(&[
        (
            "reason",
            text("what the facts and the report show, one to three sentences"),
        ),
        ("decision", one_of(["next", "retry", "replan", "abort"])),
        (
            "feedback",
            text("for retry and replan: what exactly to do differently; else empty"),
        ),
        (
            "result_summary",
            text("for next: what now exists, one or two sentences; else empty"),
        ),
    ]);
    let view = JudgeView::new(plan, task, attempt, facts);
    let obstacle = obstacle(attempt);
    question(
        prompts,
        Template::Judge,
        &view,
        schema,
        SHORT_ANSWER,
        move |answer: JudgeAnswer| answer.judgement(obstacle.as_deref()),
    )
}

/// Asks how the rest of the plan changes. `cause` is the task whose result led to it, if any; it may be skipped, not updated.
pub fn replan(
    prompts: &Prompts,
    plan: &Plan,
    cause: Option<TaskId>,
    why: &str,
    note: &str,
) -> Result<Question<Vec<Edit>>, PromptError> {
    let schema = object(&[
        (
            "reason",
            text("why these edits lead to the goal, one or two sentences"),
        ),
        ("edits", list(edit_schema())),
    ]);
    let view = ReplanView::new(plan, cause, why, note);
    let scope = Scope::new(plan, cause);
    question(
        prompts,
        Template::Replan,
        &view,
        schema,
        LONG_ANSWER,
        move |answer: ReplanAnswer| scope.edits(answer.edits),
    )
}

/// Asks whether the goal is met, and what is missing. `check_names` and `roles` are those that new tasks may use.
pub fn audit(
    prompts: &Prompts,
    plan: &Plan,
    check_names: &[String],
    roles: &[String],
) -> Result<Question<Audit>, PromptError> {
    let words = Words::new(check_names, roles);
    let schema = object(&[
        (
            "reason",
            text("each part of the goal with its evidence, or with what is missing"),
        ),
        ("met", json!({"type": "boolean"})),
        ("missing", list(words.task_schema())),
    ]);
    let view = WholeView::new(plan);
    question(
        prompts,
        Template::Audit,
        &view,
        schema,
        LONG_ANSWER,
        move |answer: AuditAnswer| {
            let missing = words.tasks(answer.missing, Least::None)?;
            match (answer.met, missing.is_empty()) {
                (true, false) => Err(
                    "`met` is true, but `missing` holds tasks: it must be empty then".to_owned(),
                ),
                (false, true) => Err(
                    "`met` is false, but `missing` is empty: give the tasks that are missing"
                        .to_owned(),
                ),
                _ => Ok(Audit {
                    met: answer.met,
                    reason: cut(&answer.reason, MAX_REASON),
                    missing,
                }),
            }
        },
    )
}

/// Asks for the summary of a plan that has ended.
pub fn summarise(prompts: &Prompts, plan: &Plan) -> Result<Question<String>, PromptError> {
    let schema = object(&[("summary", text("the summary"))]);
    let view = WholeView::new(plan);
    question(
        prompts,
        Template::Summarise,
        &view,
        schema,
        SHORT_ANSWER,
        |answer: SummaryAnswer| match cut(&answer.summary, MAX_OUTCOME) {
            summary if summary.is_empty() => Err("`summary` is empty".to_owned()),
            summary => Ok(summary),
        },
    )
}

/// Renders what stands below the front matter of a command file.
pub fn command_body(prompts: &Prompts, context: &CommandContext) -> Result<String, PromptError> {
    let body = prompts.command(&CommandView::new(context))?;
    Ok(format!("{body}\n"))
}

fn question<W, A>(
    prompts: &Prompts,
    template: Template,
    view: &impl serde::Serialize,
    schema: Value,
    max_tokens: u32,
    validate: impl Fn(W) -> Result<A, String> + Send + Sync + 'static,
) -> Result<Question<A>, PromptError>
where
    W: serde::de::DeserializeOwned,
{
    let (system, prompt) = prompts.question(template, view)?;
    let request = Request {
        system,
        prompt,
        schema_name: template.file_name().trim_end_matches(".md").to_owned(),
        schema,
        max_tokens,
    };
    Ok(Question::new(request, move |text| {
        extract::parse::<W>(text).and_then(&validate)
    }))
}

// Schemas stay within what every provider enforces: all properties required, nothing else allowed, no lengths.

fn object(properties: &[(&str, Value)]) -> Value {
    json!({
        "type": "object",
        "properties": properties.iter().cloned().map(|(name, schema)| (name.to_owned(), schema)).collect::<serde_json::Map<_, _>>(),
        "required": properties.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn one_of<T: serde::Serialize>(words: impl IntoIterator<Item = T>) -> Value {
    json!({"type": "string", "enum": words.into_iter().collect::<Vec<_>>()})
}

#[derive(Deserialize)]
struct PlanAnswer {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    tasks: Vec<TaskAnswer>,
}

#[derive(Deserialize)]
struct TaskAnswer {
    name: String,
    description: String,
    expected_output: String,
    #[serde(default)]
    constraints: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    assignee: Option<String>,
    #[serde(default)]
    depends_on: Vec<u32>,
    #[serde(default)]
    checks: Vec<String>,
}

#[derive(Deserialize)]
struct JudgeAnswer {
    #[serde(default)]
    reason: String,
    decision: String,
    #[serde(default)]
    feedback: Option<String>,
    #[serde(default)]
    result_summary: Option<String>,
}

#[derive(Deserialize)]
struct ReplanAnswer {
    edits: Vec<EditAnswer>,
}

/// One edit; which fields count depends on the action, empty ones change nothing.
#[derive(Deserialize)]
struct EditAnswer {
    action: String,
    #[serde(default)]
    task: Option<u32>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    expected_output: Option<String>,
    #[serde(default)]
    constraints: Option<String>,
    #[serde(default)]
    depends_on: Option<Vec<Value>>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct AuditAnswer {
    met: bool,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    missing: Vec<TaskAnswer>,
}

#[derive(Deserialize)]
struct SummaryAnswer {
    summary: String,
}

/// How many tasks an answer must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Least {
    None,
    One,
}

/// The names that a task may use.
struct Words {
    checks: Vec<String>,
    roles: Vec<String>,
}

impl Words {
    fn new(checks: &[String], roles: &[String]) -> Self {
        Self {
            checks: checks.to_vec(),
            roles: roles.to_vec(),
        }
    }

    fn task_schema(&self) -> Value {
        let mut properties = vec![
            ("reasoning", text("why the task is needed, one sentence")),
            ("name", text("a few words, beginning with a verb")),
            (
                "description",
                text("all that the agent needs to know to do it"),
            ),
            (
                "constraints",
                text("what it must not do or change; may be empty"),
            ),
            (
                "expected_output",
                text("what exists or works afterwards, and how to verify it"),
            ),
            ("depends_on", list(json!({"type": "integer"}))),
        ];
        if !self.checks.is_empty() {
            properties.push(("checks", list(one_of(&self.checks))));
        }
        if !self.roles.is_empty() {
            properties.push(("assignee", one_of(&self.roles)));
        }
        object(&properties)
    }

    fn tasks(&self, answers: Vec<TaskAnswer>, least: Least) -> Result<Vec<NewTask>, String> {
        if answers.is_empty() && least == Least::One {
            return Err("`tasks` is empty: a plan needs at least one task".to_owned());
        }
        if answers.len() > MAX_TASKS {
            return Err(format!(
                "{} tasks are too many: at most {MAX_TASKS}",
                answers.len()
            ));
        }
        let total = answers.len();
        let mut graph = BTreeMap::new();
        let mut tasks = Vec::with_capacity(total);
        for (index, answer) in answers.into_iter().enumerate() {
            let place = format!("task {}", index + 1);
            let wanted = dependencies(&answer.depends_on, index, total)?;
            graph.insert(index, wanted.iter().copied().collect::<Vec<_>>());
            let mut task = self.task(answer, &place)?;
            task.dependencies = wanted.into_iter().map(TaskRef::New).collect();
            tasks.push(task);
        }
        match cycle(&graph) {
            None => Ok(tasks),
            Some(cycle) => Err(format!(
                "the tasks depend on each other in a circle: {}",
                joined(cycle.iter().map(|index| (index + 1).to_string()))
            )),
        }
    }

    fn task(&self, answer: TaskAnswer, place: &str) -> Result<NewTask, String> {
        let description = bounded(&answer.description, "description", place)?;
        if description.is_empty() {
            return Err(format!("{place}: `description` is empty"));
        }
        for check in &answer.checks {
            if !self.checks.contains(check) {
                return Err(format!(
                    "{place}: there is no check `{}`",
                    one_line(check, MAX_NAME)
                ));
            }
        }
        let assignee = answer.assignee.filter(|role| !role.trim().is_empty());
        if let Some(role) = assignee.as_ref().filter(|role| !self.roles.contains(role)) {
            return Err(format!(
                "{place}: there is no role `{}`",
                one_line(role, MAX_NAME)
            ));
        }
        Ok(NewTask {
            name: name(&answer.name, place)?,
            description,
            constraints: optional(answer.constraints, "constraints", place)?,
            expected_outcome: bounded(&answer.expected_output, "expected_output", place)?,
            reasoning: cut(&answer.reasoning.unwrap_or_default(), MAX_REASON),
            assignee,
            checks: answer.checks,
            origin: Origin::Model,
            ..NewTask::default()
        })
    }
}

/// Turns numbers counted from 1 into indexes.
fn dependencies(numbers: &[u32], own: usize, total: usize) -> Result<BTreeSet<usize>, String> {
    let place = own + 1;
    numbers
        .iter()
        .map(|number| match usize::try_from(*number) {
            Ok(number) if number == place => {
                Err(format!("task {place} depends on itself: leave {number} out of its `depends_on`"))
            }
            Ok(number) if (1..=total).contains(&number) => Ok(number - 1),
            _ => Err(format!(
                "task {place} depends on task {number}, but the tasks are numbered from 1 to {total}"
            )),
        })
        .collect()
}

/// Returns why `next` is out of the question, if it is.
fn obstacle(attempt: &Attempt) -> Option<String> {
    let failed = attempt.checks.iter().flatten().find(|check| !check.passed);
    match (&attempt.report, failed) {
        (None, _) => Some("there is no report".to_owned()),
        (Some(report), _) if report.status == ReportStatus::Failed => {
            Some("the report says FAILED".to_owned())
        }
        (Some(_), Some(check)) => Some(format!(
            "the check `{}` failed",
            one_line(&check.name, MAX_NAME)
        )),
        (Some(_), None) => None,
    }
}

impl JudgeAnswer {
    fn judgement(self, obstacle: Option<&str>) -> Result<Judgement, String> {
        let decision = match self.decision.trim().to_ascii_lowercase().as_str() {
            "next" => Decision::Next,
            "retry" => Decision::Retry,
            "replan" => Decision::Replan,
            "abort" => Decision::Abort,
            _ => return Err("`decision` must be next, retry, replan or abort".to_owned()),
        };
        let judgement = Judgement {
            decision,
            reason: cut(&self.reason, MAX_REASON),
            feedback: cut(&self.feedback.unwrap_or_default(), MAX_TEXT),
            result_summary: cut(&self.result_summary.unwrap_or_default(), MAX_SUMMARY),
        };
        match (decision, obstacle) {
            (Decision::Next, Some(obstacle)) => {
                return Err(format!("`next` is not possible: {obstacle}"));
            }
            (Decision::Next, None) if judgement.result_summary.is_empty() => {
                return Err("`next` needs a `result_summary`".to_owned());
            }
            (Decision::Retry, _) if judgement.feedback.is_empty() => {
                return Err("`retry` needs `feedback` that says what to do differently".to_owned());
            }
            _ => {}
        }
        if judgement.reason.is_empty() {
            return Err("`reason` is empty".to_owned());
        }
        Ok(judgement)
    }
}

fn edit_schema() -> Value {
    let or_null =
        |kind: &str, description: &str| json!({"type": [kind, "null"], "description": description});
    object(&[
        ("action", one_of(["add", "update", "skip"])),
        (
            "task",
            or_null("integer", "for update and skip: the task's number"),
        ),
        ("reason", text("why, one sentence")),
        (
            "name",
            or_null("string", "for add; for update only if it changes"),
        ),
        (
            "description",
            or_null("string", "for add; for update only if it changes"),
        ),
        (
            "constraints",
            or_null("string", "what it must not do or change; null if nothing"),
        ),
        (
            "expected_output",
            or_null("string", "for add; for update only if it changes"),
        ),
        (
            "depends_on",
            json!({"type": ["array", "null"], "items": {"type": "string"},
                   "description": "numbers of tasks such as \"3\", or \"n1\" for the first task added here"}),
        ),
    ])
}

/// What a replan may touch and name.
struct Scope {
    editable: BTreeSet<u32>,
    cause: Option<u32>,
    /// Every task with its dependencies.
    graph: BTreeMap<u32, Vec<u32>>,
}

impl Scope {
    fn new(plan: &Plan, cause: Option<TaskId>) -> Self {
        Self {
            editable: editable(plan).map(|task| task.number.0).collect(),
            cause: cause.map(|id| id.0),
            graph: plan
                .tasks()
                .map(|task| {
                    (
                        task.number.0,
                        task.dependencies.iter().map(|id| id.0).collect(),
                    )
                })
                .collect(),
        }
    }

    fn edits(&self, answers: Vec<EditAnswer>) -> Result<Vec<Edit>, String> {
        if answers.is_empty() {
            return Err("`edits` is empty: give at least one".to_owned());
        }
        if answers.len() > MAX_TASKS {
            return Err(format!(
                "{} edits are too many: at most {MAX_TASKS}",
                answers.len()
            ));
        }
        let added = answers
            .iter()
            .filter(|answer| is(&answer.action, "add"))
            .count();
        let mut seen = BTreeSet::new();
        let mut adds = 0;
        let mut edits = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            let place = format!("edit {}", index + 1);
            edits.push(if is(&answer.action, "add") {
                adds += 1;
                add(answer, &place, self.references(added, Some(adds - 1)))?
            } else {
                let number = self.target(&answer, &place)?;
                if !seen.insert(number) {
                    return Err(format!("{place}: task {number} has an edit already"));
                }
                if is(&answer.action, "skip") {
                    skip(answer, number)?
                } else {
                    update(answer, number, &place, self.references(added, None))?
                }
            });
        }
        self.refuse_cycle(&edits)?;
        Ok(edits)
    }

    fn target(&self, answer: &EditAnswer, place: &str) -> Result<u32, String> {
        let skips = is(&answer.action, "skip");
        if !skips && !is(&answer.action, "update") {
            return Err(format!("{place}: `action` must be add, update or skip"));
        }
        let number = answer
            .task
            .ok_or_else(|| format!("{place}: `task` is missing"))?;
        if self.editable.contains(&number) || (skips && self.cause == Some(number)) {
            Ok(number)
        } else if self.graph.contains_key(&number) {
            Err(format!(
                "{place}: task {number} is finished or running and cannot be changed; add a task instead"
            ))
        } else {
            Err(format!("{place}: there is no task {number}"))
        }
    }

    /// Returns the function that reads one dependency: `"3"`, `3` or `"n1"`.
    fn references(
        &self,
        added: usize,
        own: Option<usize>,
    ) -> impl Fn(&Value) -> Result<TaskRef, String> {
        move |value| {
            let word = match value {
                Value::String(word) => word.trim().trim_start_matches('#').to_ascii_lowercase(),
                other => other.to_string(),
            };
            let unknown = || format!("there is no task `{}`", one_line(&word, MAX_NAME));
            if let Some(number) = word.strip_prefix('n') {
                let index = number.parse::<usize>().map_err(|_| unknown())?;
                return match index.checked_sub(1).filter(|index| *index < added) {
                    Some(index) if Some(index) == own => {
                        Err(format!("`{word}` is the task itself"))
                    }
                    Some(index) => Ok(TaskRef::New(index)),
                    None => Err(unknown()),
                };
            }
            match word.parse::<u32>() {
                Ok(number) if self.graph.contains_key(&number) => {
                    Ok(TaskRef::Number(TaskId(number)))
                }
                _ => Err(unknown()),
            }
        }
    }

    fn refuse_cycle(&self, edits: &[Edit]) -> Result<(), String> {
        let mut graph = self
            .graph
            .iter()
            .map(|(number, on)| {
                (
                    Node::Task(*number),
                    on.iter().copied().map(Node::Task).collect(),
                )
            })
            .collect::<BTreeMap<_, Vec<_>>>();
        let mut adds = 0;
        for edit in edits {
            let (node, on) = match edit {
                Edit::Add(task) => {
                    adds += 1;
                    (Node::Added(adds), Some(&task.dependencies))
                }
                Edit::Update(id, changes) => (Node::Task(id.0), changes.dependencies.as_ref()),
                Edit::Skip(..) => continue,
            };
            if let Some(on) = on {
                graph.insert(node, on.iter().filter_map(Node::of).collect());
            }
        }
        match cycle(&graph) {
            None => Ok(()),
            Some(cycle) => Err(format!(
                "the tasks would depend on each other in a circle: {}",
                joined(cycle.iter().map(Node::word))
            )),
        }
    }
}

/// A task in the graph of a replan; an added one is counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Task(u32),
    Added(usize),
}

impl Node {
    fn of(reference: &TaskRef) -> Option<Self> {
        match reference {
            TaskRef::Number(id) => Some(Self::Task(id.0)),
            TaskRef::New(index) => Some(Self::Added(index + 1)),
            TaskRef::Key(_) => None,
        }
    }

    fn word(&self) -> String {
        match self {
            Self::Task(number) => number.to_string(),
            Self::Added(number) => format!("n{number}"),
        }
    }
}

fn is(action: &str, word: &str) -> bool {
    action.trim().eq_ignore_ascii_case(word)
}

fn add(
    answer: EditAnswer,
    place: &str,
    reference: impl Fn(&Value) -> Result<TaskRef, String>,
) -> Result<Edit, String> {
    let description = optional(answer.description, "description", place)?;
    if description.is_empty() {
        return Err(format!("{place}: a task to be added needs a `description`"));
    }
    Ok(Edit::Add(Box::new(NewTask {
        name: name(&answer.name.unwrap_or_default(), place)?,
        description,
        constraints: optional(answer.constraints, "constraints", place)?,
        expected_outcome: optional(answer.expected_output, "expected_output", place)?,
        reasoning: cut(&answer.reason.unwrap_or_default(), MAX_REASON),
        dependencies: all(&answer.depends_on.unwrap_or_default(), place, reference)?,
        origin: Origin::Model,
        ..NewTask::default()
    })))
}

fn update(
    answer: EditAnswer,
    number: u32,
    place: &str,
    reference: impl Fn(&Value) -> Result<TaskRef, String>,
) -> Result<Edit, String> {
    let own = TaskRef::Number(TaskId(number));
    let changes = TaskChanges {
        name: changed(answer.name.map(|text| one_line(&text, MAX_NAME))),
        description: changed(Some(optional(answer.description, "description", place)?)),
        constraints: changed(Some(optional(answer.constraints, "constraints", place)?)),
        expected_outcome: changed(Some(optional(
            answer.expected_output,
            "expected_output",
            place,
        )?)),
        dependencies: match answer.depends_on {
            Some(values) => Some(all(&values, place, reference)?),
            None => None,
        },
        ..TaskChanges::default()
    };
    if changes
        .dependencies
        .iter()
        .flatten()
        .any(|other| *other == own)
    {
        return Err(format!("{place}: task {number} would depend on itself"));
    }
    if changes == TaskChanges::default() {
        return Err(format!("{place}: it changes nothing in task {number}"));
    }
    Ok(Edit::Update(TaskId(number), Box::new(changes)))
}

fn skip(answer: EditAnswer, number: u32) -> Result<Edit, String> {
    match cut(&answer.reason.unwrap_or_default(), MAX_REASON) {
        reason if reason.is_empty() => Err(format!("skipping task {number} needs a `reason`")),
        reason => Ok(Edit::Skip(TaskId(number), reason)),
    }
}

fn all(
    values: &[Value],
    place: &str,
    reference: impl Fn(&Value) -> Result<TaskRef, String>,
) -> Result<Vec<TaskRef>, String> {
    let mut found = Vec::new();
    for value in values {
        let task = reference(value).map_err(|error| format!("{place}: {error}"))?;
        if !found.contains(&task) {
            found.push(task);
        }
    }
    Ok(found)
}

/// An empty text stands for "as it is": models that must fill every field write it so.
fn changed(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn name(text: &str, place: &str) -> Result<String, String> {
    match one_line(text, MAX_NAME) {
        name if name.is_empty() => Err(format!("{place}: `name` is empty")),
        name => Ok(name),
    }
}

fn optional(text: Option<String>, field: &str, place: &str) -> Result<String, String> {
    bounded(&text.unwrap_or_default(), field, place)
}

fn bounded(text: &str, field: &str, place: &str) -> Result<String, String> {
    let text = text.trim();
    if text.chars().count() > MAX_TEXT {
        return Err(format!(
            "{place}: `{field}` has more than {MAX_TEXT} characters"
        ));
    }
    Ok(text.to_owned())
}

fn cut(text: &str, limit: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" → ")
}

/// Returns a circle, its first node repeated at the end, if there is one.
fn cycle<N: Copy + Ord>(graph: &BTreeMap<N, Vec<N>>) -> Option<Vec<N>> {
    let mut done = BTreeSet::new();
    for start in graph.keys() {
        // A path with, for each node on it, the place of the next edge to follow; no recursion, plans may be long chains.
        let mut path: Vec<(N, usize)> = vec![(*start, 0)];
        let mut on_path = BTreeSet::from([*start]);
        while let Some((node, edge)) = path.last_mut() {
            let next = graph.get(node).and_then(|on| on.get(*edge)).copied();
            *edge += 1;
            match next {
                Some(next) if on_path.contains(&next) => {
                    let from = path.iter().position(|(node, _)| *node == next)?;
                    return Some(
                        path[from..]
                            .iter()
                            .map(|(node, _)| *node)
                            .chain([next])
                            .collect(),
                    );
                }
                Some(next) if !done.contains(&next) => {
                    on_path.insert(next);
                    path.push((next, 0));
                }
                Some(_) => {}
                None => {
                    on_path.remove(node);
                    done.insert(*node);
                    path.pop();
                }
            }
        }
    }
    None
}
