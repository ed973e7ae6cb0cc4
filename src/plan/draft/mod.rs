//! The only code that changes a plan. The files in this folder group the operations by subject. Each operation checks before it
//! writes; the owner of a refused change undoes what it had already written (see [`Draft::undo`]).

mod adopt_from_other_daemon;
mod attempts;
mod budget;
mod carried_out_by_caller;
mod final_checks;
mod human_questions;
mod imported_history;
mod integration;
mod model_questions;
mod plan_control;
mod refused_commands;
mod repeatable_changes;
mod restore_earlier_state;
mod role_waits;
mod silent_checks;
mod steering;
mod task_structure;
mod verdicts;

use std::collections::BTreeSet;

use super::*;
pub use adopt_from_other_daemon::NewHome;
pub use attempts::{AppliedReport, NewCommand};
pub use imported_history::Past;
pub use repeatable_changes::RepeatableChange;
use role_waits::ended;
pub use steering::TaskEdit;
pub use task_structure::valid_key;
pub use verdicts::acceptable;

/// What an operation returns that may be refused.
pub(in crate::plan) type Result<T = (), E = Refusal> = std::result::Result<T, E>;

/// Why the core refuses an operation. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no task `{0}`")]
    UnknownTask(String),
    /// `task` names the task in words: a new task has no number yet that the caller knows.
    #[error("{task} depends on `{dependency}`, which does not exist")]
    UnknownDependency { task: String, dependency: String },
    #[error("the dependencies form a cycle: {}", way(.0))]
    Cycle(Vec<TaskId>),
    #[error("the key `{0}` is taken by another task")]
    KeyTaken(String),
    #[error("a key has 1 to 128 printable characters without `/` and `\\`, not `{0}`")]
    BadKey(String),
    #[error("a task needs a name")]
    NoName,
    #[error("`{0}` {1}")]
    BadPath(String, &'static str),
    #[error(
        "a person wrote several criteria for task {0}: state each on a line, `1. …` and `2. …`"
    )]
    FewerCriteria(TaskId),
    #[error("a task produces at most {MAX_PRODUCED} files")]
    TooManyFiles,
    #[error("the metadata of a task has at most {MAX_METADATA} bytes, not {0}")]
    TooMuchMetadata(usize),
    #[error("a plan needs at least one task")]
    NoTasks,
    #[error("another agent works on task `{0}`: only its own report ends it")]
    AnothersTask(TaskId),
    #[error("task `{task}` is {}", .status.as_str().replace('_', " "))]
    NotEditable { task: TaskId, status: TaskState },
    #[error("task `{task}` is needed by {}", list(.dependants))]
    HasDependants {
        task: TaskId,
        dependants: Vec<TaskId>,
    },
    #[error("task `{task}` waits for {}", list(.waits_for))]
    NotReady {
        task: TaskId,
        waits_for: Vec<TaskId>,
    },
    #[error("an agent works on task `{0}`")]
    Busy(TaskId),
    #[error("a human is asked about task `{0}`")]
    Asking(TaskId),
    #[error("no agent works on task `{0}` now")]
    NobodyWorks(TaskId),
    #[error("the session of the agent at work on task `{0}` is not known")]
    NoSession(TaskId),
    #[error("the plan has no tasks yet")]
    Unplanned,
    #[error("the plan is {}", .0.as_str())]
    PlanIs(PlanState),
    #[error("a person has yet to start the plan; until then only its tasks can be edited")]
    NotStarted,
    #[error("the rest of the plan is being changed")]
    Replanning,
    #[error("there is no command `{0}`")]
    UnknownCommand(CommandId),
    #[error("nothing more is expected for command `{0}`: it is reported, decided or taken back")]
    NotAwaited(CommandId),
    #[error("`next` needs a report of SUCCESS or PARTIAL_SUCCESS and no failing check")]
    NotAcceptable,
    #[error("there is no question `{0}`")]
    UnknownQuestion(QuestionId),
    #[error("there is a question `{0}` already")]
    QuestionTaken(QuestionId),
    #[error("question `{0}` is answered already: {choice}{by}", choice = .1.choice.as_str(), by = said_by(&.1.by))]
    AlreadyAnswered(QuestionId, HumanAnswer),
    /// Contains why.
    #[error("question `{0}` needs no answer any more: {1}")]
    QuestionClosed(QuestionId, String),
    /// Contains what was chosen, and what is offered.
    #[error("`{}` is not offered; choose one of: {}", .0.as_str(), words(.1))]
    NotOffered(AnswerChoice, Vec<AnswerChoice>),
    #[error("`{}` is not taken from a file, as agents can write files", .0.as_str())]
    InFile(AnswerChoice),
    #[error("the answer needs a note")]
    NoNote,
    #[error("nothing was asked of the model under that id")]
    UnknownAsk,
    #[error("agents work on the plan in a shared workspace")]
    Shared,
    #[error("a role works on this plan, and only that role changes it")]
    OfRole,
    #[error("the plan was deleted")]
    Deleted,
    #[error("the results of the plan wait for a person, who takes them over or discards them")]
    HasResults,
    #[error("the results of plan `{0}` are discarded: it does not go on")]
    Discarded(PlanId),
    #[error("the plan has changed since it was shown")]
    Outdated,
    /// Contains the plan's last change.
    #[error("the plan has changed since it was shown")]
    Moved(i64),
    #[error("this key was used for another action")]
    KeyUsed,
    /// Contains what relies on the result of a task that is to be tried again.
    #[error("{0}")]
    OpensAgain(String),
    /// Contains the reason.
    #[error("the plan is paused: {0}")]
    Stopped(String),
    #[error("the end of a plan is confirmed with its id")]
    Unconfirmed,
    #[error("there are no words")]
    NoWords,
    #[error("the plan is as it was after change {0}")]
    AsItWas(i64),
    #[error("the budget allows no more: {0} used")]
    UsedUp(String),
    #[error("the change was not to be made")]
    Dropped,
}

impl Refusal {
    /// Refuses what the state of a task does not allow.
    fn not_editable(task: &Task) -> Self {
        let (task, status) = (task.number, task.status);
        Self::NotEditable { task, status }
    }
}

/// The most tasks that a refusal names; of more, it names the first and the last ones.
const NAMED: usize = 40;

fn list(tasks: &[TaskId]) -> String {
    some_of(tasks, ", ", |task| format!("`{task}`"))
}

fn way(tasks: &[TaskId]) -> String {
    some_of(tasks, " → ", ToString::to_string)
}

fn some_of(tasks: &[TaskId], between: &str, show: impl Fn(&TaskId) -> String) -> String {
    let left_out = tasks.len().saturating_sub(NAMED);
    let (first, last) = tasks.split_at(tasks.len().min(NAMED / 2));
    let mut shown: Vec<String> = first.iter().map(&show).collect();
    shown.extend((left_out > 0).then(|| format!("… ({left_out} more)")));
    shown.extend(last[left_out..].iter().map(show));
    shown.join(between)
}

fn words(choices: &[AnswerChoice]) -> String {
    let words: Vec<&str> = choices.iter().map(|choice| choice.as_str()).collect();
    words.join(", ")
}

/// Refuses an operation where a condition holds.
pub(in crate::plan) fn refuse_if(condition: bool, refusal: Refusal) -> Result {
    if condition { Err(refusal) } else { Ok(()) }
}

/// Returns a text or, where it is empty, another one.
fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

fn said_by(by: &str) -> String {
    unless_empty(by, |by| format!(" (by {by})"))
}

/// What a change did: the changed rows, and the events to report.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct Delta {
    pub rows: Vec<Row>,
    pub events: Vec<Event>,
}

/// A change in progress. Every operation either does all of its work or returns a [`Refusal`].
pub struct Draft<'a> {
    plan: &'a mut Plan,
    now: Time,
    /// The number of the plan's last change.
    after: i64,
    new_question: Box<dyn Fn(&Plan) -> QuestionId>,
    /// The command of the agent that makes the change, if it is known.
    agent: Option<CommandId>,
    undo: Vec<(RowKey, Option<Row>)>,
    events: Vec<Event>,
}

impl<'a> Draft<'a> {
    /// Begins a change of the plan at a given time.
    pub fn new(plan: &'a mut Plan, now: Time) -> Self {
        Self {
            plan,
            now,
            after: 0,
            new_question: Box::new(|plan| {
                let (number, plan) = (plan.questions().count() + 1, plan.id());
                QuestionId::new(format!("q{number}-{plan}"))
            }),
            agent: None,
            undo: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Makes it the change after the one of this number; without it, the draft is the first.
    #[must_use]
    pub fn after(self, seq: i64) -> Self {
        Self { after: seq, ..self }
    }

    /// Says how a question to a human is named, such that no other question has the id. Without it, the questions of the plan
    /// are counted.
    pub fn name_questions(&mut self, new: impl Fn(&Plan) -> QuestionId + 'static) -> &mut Self {
        self.new_question = Box::new(new);
        self
    }

    /// Says which agent makes the change, by the command that it works on.
    pub fn made_by_agent(&mut self, command: Option<CommandId>) -> &mut Self {
        self.agent = command;
        self
    }

    /// Returns the plan with the changes made so far.
    pub fn plan(&self) -> &Plan {
        self.plan
    }

    /// Returns the time of the change.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns whether a row has been written so far.
    pub fn has_changed(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Ends the change and returns what it did; the result is empty if no row was written and no event recorded.
    pub fn finish(self) -> Delta {
        let keys: BTreeSet<&RowKey> = self.undo.iter().map(|(key, _)| key).collect();
        let rows = keys.into_iter().filter_map(|key| self.plan.row(key));
        let (rows, events) = (rows.collect(), self.events);
        Delta { rows, events }
    }

    /// Restores every row.
    pub fn undo(mut self) {
        self.back_to(0, 0);
    }

    /// Carries out a part of the change that may be refused without the rest: either all of the part or nothing of it.
    ///
    /// # Errors
    /// The refusal of the part.
    pub fn part<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (rows, events) = (self.undo.len(), self.events.len());
        part(self).inspect_err(|_| self.back_to(rows, events))
    }

    fn back_to(&mut self, rows: usize, events: usize) {
        for (key, old) in self.undo.drain(rows..).rev() {
            match old {
                Some(row) => drop(self.plan.put(row)),
                None => self.plan.take(&key),
            }
        }
        self.events.truncate(events);
    }

    fn insert(&mut self, row: impl Into<Row>) {
        let row = row.into();
        self.undo.push((row.key(), self.plan.put(row)));
    }

    fn insert_attempt(&mut self, mut attempt: Attempt) {
        if attempt.state != AttemptState::Open {
            for wait in std::mem::take(&mut attempt.waits) {
                self.log(ended(&attempt, wait, RoleRequestEnd::TakenBack));
            }
        }
        self.insert(attempt);
    }

    /// Changes the plan's own row; callers that do more than describe the plan have operations for that.
    pub fn change_head(&mut self, change: impl FnOnce(&mut PlanHead)) {
        let mut head = self.plan.head().clone();
        change(&mut head);
        self.insert(head);
    }

    fn log(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Returns a copy of a task.
    ///
    /// # Errors
    /// There is no such task.
    pub fn task(&self, id: TaskId) -> Result<Task> {
        let task = self.plan.task(id).cloned();
        task.ok_or_else(|| Refusal::UnknownTask(id.to_string()))
    }

    /// Returns a copy of an attempt.
    ///
    /// # Errors
    /// There is no such command.
    pub fn attempt(&self, id: &CommandId) -> Result<Attempt> {
        let attempt = self.plan.attempt(id).cloned();
        attempt.ok_or_else(|| Refusal::UnknownCommand(id.clone()))
    }

    /// Returns an attempt that awaits what is to be recorded.
    fn attempt_if(&self, id: &CommandId, awaits: impl FnOnce(&Attempt) -> bool) -> Result<Attempt> {
        let attempt = self.attempt(id)?;
        refuse_if(!awaits(&attempt), Refusal::NotAwaited(id.clone()))?;
        Ok(attempt)
    }

    /// Returns a task that is in a state.
    fn task_in(&self, id: TaskId, status: TaskState) -> Result<Task> {
        let task = self.task(id)?;
        refuse_if(task.status != status, Refusal::not_editable(&task))?;
        Ok(task)
    }

    fn change_task(&mut self, id: TaskId, change: impl FnOnce(&mut Task)) -> Result {
        let mut task = self.task(id)?;
        change(&mut task);
        self.insert(task);
        Ok(())
    }

    fn change_attempt(&mut self, id: &CommandId, change: impl FnOnce(&mut Attempt)) -> Result {
        let mut attempt = self.attempt(id)?;
        change(&mut attempt);
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Refuses a task that may not start yet.
    fn check_ready(&self, task: &Task) -> Result {
        if self.plan.is_ready(task) {
            return Ok(());
        }
        let (task, waits_for) = (task.number, self.plan.unmet(task));
        Err(Refusal::NotReady { task, waits_for })
    }

    /// Refuses what the plan's present state does not allow.
    pub(in crate::plan) fn plan_is(&self) -> Refusal {
        Refusal::PlanIs(self.plan.status().clone())
    }

    fn not_settled(&self) -> Result {
        if !self.plan.status().settled() {
            return Ok(());
        }
        self.refuse_discarded()?;
        Err(self.plan_is())
    }

    fn not_abandoned(&self) -> Result {
        refuse_if(*self.plan.status() == PlanState::Abandoned, self.plan_is())
    }

    /// Closes the question why no worker claims the command of a task.
    fn close_unclaimed(&mut self, task: TaskId, reason: &str) {
        self.close_questions(reason, |question| {
            question.task == Some(task) && question.about == HumanQuestionKind::Unclaimed
        });
    }

    fn close_question(&mut self, mut question: HumanQuestion, reason: &str) {
        question.closed = Some(reason.to_owned());
        self.log(Event::QuestionClosed {
            question: question.id.clone(),
            reason: reason.to_owned(),
        });
        self.person_took(&question);
        self.insert(question);
    }

    /// Closes the open questions that `which` picks.
    pub(in crate::plan) fn close_questions(
        &mut self,
        reason: &str,
        which: impl Fn(&HumanQuestion) -> bool,
    ) {
        let open = self.plan.open_questions();
        let closed: Vec<HumanQuestion> = open.filter(|open| which(open)).cloned().collect();
        for question in closed {
            self.close_question(question, reason);
        }
    }
}
