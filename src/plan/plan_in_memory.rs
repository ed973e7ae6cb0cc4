//! A plan in memory: its rows and the indexes over them. Every write goes through `put`, so the rows, the indexes and the
//! record of changes cannot diverge. The cost depends on the rows changed, never on the size of the plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::task_index::{TaskIndex, forget, kinds, place};
use super::*;

/// Defines the rows of a plan, and that each is made of what it holds.
macro_rules! rows {
    ($($kind:ident($of:ty),)*) => {
        /// One row of a plan, as it is stored.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Row {
            $($kind(Box<$of>),)*
        }

        $(impl From<$of> for Row {
            fn from(of: $of) -> Self {
                Self::$kind(Box::new(of))
            }
        })*
    };
}

rows! {
    Head(PlanHead),
    Task(Task),
    Attempt(Attempt),
    Question(HumanQuestion),
    Session(AgentSession),
    Ask(ModelQuestion),
}

/// The key of a row within its plan. It is read from the row itself, whose other fields are long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKey {
    Head {},
    Task { number: TaskId },
    Attempt { id: CommandId },
    Question { id: QuestionId },
    Session { id: SessionId },
    Ask { id: AskId },
}

impl Row {
    /// Returns the key of the row.
    pub fn key(&self) -> RowKey {
        match self {
            Self::Head(_) => RowKey::Head {},
            Self::Task(row) => RowKey::Task { number: row.number },
            Self::Attempt(row) => RowKey::Attempt { id: row.id.clone() },
            Self::Question(row) => RowKey::Question { id: row.id.clone() },
            Self::Session(row) => RowKey::Session { id: row.id.clone() },
            Self::Ask(row) => RowKey::Ask { id: row.id.clone() },
        }
    }
}

impl RowKey {
    /// Returns the kind of row and its id, which the store keeps in separate columns.
    pub fn parts(&self) -> (&'static str, String) {
        match self {
            Self::Head {} => ("head", String::new()),
            Self::Task { number } => ("task", number.to_string()),
            Self::Attempt { id } => ("attempt", id.to_string()),
            Self::Question { id } => ("question", id.to_string()),
            Self::Session { id } => ("session", id.to_string()),
            Self::Ask { id } => ("ask", id.to_string()),
        }
    }
}

/// The rows of one kind by their ids, and which of them are open: something is still to happen to them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table<K, R> {
    rows: BTreeMap<K, R>,
    open: BTreeSet<K>,
}

impl<K: Clone + Ord, R: Clone + Into<Row>> Table<K, R> {
    fn open(&self) -> impl Iterator<Item = &R> {
        self.open.iter().filter_map(|id| self.rows.get(id))
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        self.rows.values().cloned().map(R::into)
    }

    fn row(&self, id: &K) -> Option<Row> {
        self.rows.get(id).cloned().map(R::into)
    }

    fn insert(&mut self, id: K, open: bool, row: R) -> Option<R> {
        mark(&mut self.open, &id, open);
        self.rows.insert(id, row)
    }

    fn remove(&mut self, id: &K) -> Option<R> {
        self.open.remove(id);
        self.rows.remove(id)
    }
}

/// A plan: rows and indexes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    head: PlanHead,
    tasks: BTreeMap<TaskId, Task>,
    attempts: Table<CommandId, Attempt>,
    questions: Table<QuestionId, HumanQuestion>,
    sessions: Table<SessionId, AgentSession>,
    asks: Table<AskId, ModelQuestion>,
    index: TaskIndex,
    attempts_of: HashMap<TaskId, BTreeSet<CommandId>>,
    recalls: BTreeSet<CommandId>,
    attempts_made: u64,
    proven: usize,
}

impl Plan {
    /// Creates a plan without tasks.
    pub fn new(head: PlanHead) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// Creates a plan from its stored rows, in any order; `None` without a head.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Option<Self> {
        let (mut plan, mut has_head) = (Self::default(), false);
        for row in rows {
            has_head |= matches!(row, Row::Head(_));
            plan.put(row);
        }
        has_head.then_some(plan)
    }

    /// Returns the plan's own row.
    pub fn head(&self) -> &PlanHead {
        &self.head
    }

    /// Returns the plan's id.
    pub fn id(&self) -> &PlanId {
        &self.head.id
    }

    /// Returns the plan's state.
    pub fn status(&self) -> &PlanState {
        &self.head.status
    }

    /// Returns the folder in which agents work on a task: its worktree, or the shared workspace.
    pub fn workspace_of(&self, task: TaskId) -> String {
        match &self.head.line {
            Some(line) => line.worktree(task),
            None => self.head.workspace.clone(),
        }
    }

    /// Returns the deadline for a claimed attempt at a task: that of its role, else that of the plan.
    pub fn deadline_of(&self, task: TaskId) -> Duration {
        let policy = &self.head.policy;
        let role = self.role_of(task).and_then(|role| policy.roles.get(role));
        let own = role.and_then(|role| role.task_deadline);
        own.unwrap_or(policy.task_deadline)
    }

    /// Returns a task that is part of the plan.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(&id).filter(|task| !task.removed)
    }

    /// Returns the role to which a task is assigned, if any.
    pub fn role_of(&self, id: TaskId) -> Option<&str> {
        self.task(id)?.assignee.as_deref()
    }

    /// Returns the task with the caller's own id.
    pub fn task_by_key(&self, key: &str) -> Option<&Task> {
        self.task(*self.index.by_key.get(key)?)
    }

    /// Returns every task of the plan in the plan's order.
    pub fn tasks(&self) -> Tasks<'_> {
        self.of_kinds(ALL)
    }

    /// Returns the tasks that are not skipped, in the plan's order.
    pub fn tasks_wanted(&self) -> Tasks<'_> {
        self.of_kinds(WANTED)
    }

    /// Returns the place of a task in the plan's order, counted from 0.
    pub fn index_of(&self, task: &Task) -> usize {
        self.index.all.rank(&place(task))
    }

    /// Returns the tasks before a task in the plan's order and those after it, the nearest first.
    pub fn tasks_around(
        &self,
        task: &Task,
    ) -> (impl Iterator<Item = &Task>, impl Iterator<Item = &Task>) {
        let at = self.index_of(task);
        let before = self.span(ALL, 0, at).rev();
        (before, self.span(ALL, at + 1, usize::MAX))
    }

    /// Returns how many tasks are in which state.
    pub fn counts(&self) -> Counts {
        self.index.counts()
    }

    /// Returns how a plan ends that cannot go on: its tasks are settled, or the others wait for those that have failed.
    pub(super) fn outcome(&self) -> Option<PlanState> {
        let counts = self.counts();
        // Dependencies have no cycle: if none of the others may start, each waits for a failed one in the end.
        let waits = self.head.order == TaskOrder::Dependencies
            && (counts.failed > 0 && counts.pending > 0 && counts.in_progress == 0);
        match waits && self.ready().len() == 0 {
            true => Some(PlanState::Failed),
            false => counts.outcome(),
        }
    }

    /// Returns the tasks of a state in the plan's order. Counting them or taking a part of them does not visit the others.
    pub fn tasks_in(&self, status: TaskState) -> Tasks<'_> {
        self.of_kinds(kinds(status))
    }

    /// Returns the tasks of a role that are in a state, in the plan's order.
    pub fn tasks_of(&self, assignee: &str, status: TaskState) -> Tasks<'_> {
        match self.index.of_role.get(&Some(assignee.to_owned())) {
            Some(tasks) => tasks.tasks(&self.tasks, kinds(status), 0, usize::MAX),
            None => self.span(ALL, 0, 0),
        }
    }

    /// Returns the tasks that may start now, in the plan's order.
    pub fn ready(&self) -> Tasks<'_> {
        match self.head.order {
            TaskOrder::Dependencies => self.of_kinds(FREE),
            TaskOrder::Sequential => self.span(PENDING, 0, self.index.next_in_line()),
            TaskOrder::Free => self.of_kinds(PENDING),
        }
    }

    /// Returns the pending tasks that may not start yet, in the plan's order.
    pub fn blocked(&self) -> Tasks<'_> {
        match self.head.order {
            TaskOrder::Dependencies => self.of_kinds(BOUND),
            _ => self.span(PENDING, self.ready().len(), usize::MAX),
        }
    }

    /// Walks over the tasks that may start now, in the plan's order, and can leave out whole roles.
    pub fn startable(&self) -> Startable<'_> {
        let kinds = match self.head.order {
            TaskOrder::Dependencies => FREE,
            TaskOrder::Free => PENDING,
            TaskOrder::Sequential => return Startable::of(std::iter::once(self.ready())),
        };
        let roles = self.index.of_role.values();
        Startable::of(roles.map(|role| role.tasks(&self.tasks, kinds, 0, usize::MAX)))
    }

    /// Returns whether a task may start now.
    pub fn is_ready(&self, task: &Task) -> bool {
        self.index.may_start(task, self.head.order)
    }

    /// Returns the unsettled tasks in the plan's order.
    pub fn unsettled(&self) -> Tasks<'_> {
        self.of_kinds(UNSETTLED)
    }

    /// Returns the tasks in progress, in the plan's order.
    pub fn in_progress(&self) -> Tasks<'_> {
        self.tasks_in(TaskState::InProgress)
    }

    fn of_kinds(&self, kinds: Kinds) -> Tasks<'_> {
        self.span(kinds, 0, usize::MAX)
    }

    fn span(&self, kinds: Kinds, from: usize, to: usize) -> Tasks<'_> {
        self.index.all.tasks(&self.tasks, kinds, from, to)
    }

    /// Returns the tasks that name this one as a dependency.
    pub fn dependants(&self, id: TaskId) -> impl Iterator<Item = &Task> {
        let dependants = self.index.dependants.get(&id).into_iter().flatten();
        dependants.filter_map(|id| self.tasks.get(id))
    }

    /// Returns the dependencies of a task that are not completed or skipped.
    pub fn unmet(&self, task: &Task) -> Vec<TaskId> {
        let met = |task: &Task| task.status.satisfies();
        let dependencies = task.dependencies.iter().copied();
        let unmet = dependencies.filter(|id| !self.tasks.get(id).is_some_and(met));
        unmet.collect()
    }

    /// Returns an attempt by its command.
    pub fn attempt(&self, id: &CommandId) -> Option<&Attempt> {
        self.attempts.rows.get(id)
    }

    /// Returns when the work on a reported attempt began: with its own command, or with the command whose report it repairs.
    pub fn began(&self, attempt: &Attempt) -> Time {
        let attempts = self.attempts_of(attempt.task);
        let same = attempts.filter(|other| other.number == attempt.number);
        let issued = same.map(|other| other.issued).min();
        issued.unwrap_or(attempt.issued)
    }

    /// Returns the attempts of a task in the order in which they were issued.
    pub fn attempts_of(&self, task: TaskId) -> impl DoubleEndedIterator<Item = &Attempt> {
        let attempts = self.attempts_of.get(&task).into_iter().flatten();
        attempts.filter_map(|id| self.attempt(id))
    }

    /// Returns the attempts that wait for something, oldest first.
    pub fn open_attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.open()
    }

    /// Returns the attempts whose report is awaited, oldest first.
    pub fn awaited_attempts(&self) -> impl Iterator<Item = &Attempt> {
        let open = self.open_attempts();
        open.filter(|attempt| attempt.state == AttemptState::Open)
    }

    /// Returns the attempts whose commands must be withdrawn or whose agents must be asked to stop.
    pub fn recalls(&self) -> impl Iterator<Item = &Attempt> {
        self.recalls.iter().filter_map(|id| self.attempt(id))
    }

    /// Returns the commands of [`Self::recalls`].
    pub fn recalled_commands(&self) -> Vec<CommandId> {
        self.recalls().map(|attempt| attempt.id.clone()).collect()
    }

    /// Returns the tasks whose attempt is over and that are in progress all the same: they wait for the next one.
    pub fn to_be_retried(&self) -> impl Iterator<Item = &Task> {
        self.in_progress().filter(|task| {
            let current = self.current_attempt(task);
            current.is_none_or(|current| !current.state.open())
        })
    }

    /// Returns the attempt of a task that counts now.
    pub fn current_attempt(&self, task: &Task) -> Option<&Attempt> {
        self.attempt(task.current.as_ref()?)
    }

    /// Returns the merge of the result that completed a task; `None` if a person completed it, whatever was merged aside.
    pub fn accepted_merge(&self, task: &Task) -> Option<&PendingMerge> {
        let by_hand = |evidence: &Evidence| evidence.by_hand;
        if task.status != TaskState::Completed || task.evidence.as_ref().is_some_and(by_hand) {
            return None;
        }
        self.current_attempt(task)?.merge.as_ref()
    }

    /// Returns the tasks whose accepted result stays merged although they do not count as done: the plan was restored to a state
    /// before it, or they are done again.
    pub fn merged_but_not_done(&self) -> BTreeSet<TaskId> {
        let merged = self.attempts().filter(|attempt| {
            let merge = attempt.merge.as_ref();
            attempt.is_accepted() && merge.is_some_and(|merge| merge.commit != merge.onto)
        });
        let done = |task: &Task| task.status == TaskState::Completed;
        let tasks = merged.map(|attempt| attempt.task);
        tasks
            .filter(|task| !self.task(*task).is_some_and(done))
            .collect()
    }

    /// Returns every attempt, in the order of their ids.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.rows.values()
    }

    /// Returns how many attempts have been made at tasks. A command that was withdrawn before a worker claimed it does not
    /// count, and a repair belongs to the attempt that it repairs.
    pub fn attempts_made(&self) -> u64 {
        self.attempts_made
    }

    /// Returns how many completed tasks are proven.
    pub fn proven_count(&self) -> usize {
        self.proven
    }

    /// Returns a question by its id.
    pub fn question(&self, id: &QuestionId) -> Option<&HumanQuestion> {
        self.questions.rows.get(id)
    }

    /// Returns every question, oldest id first.
    pub fn questions(&self) -> impl DoubleEndedIterator<Item = &HumanQuestion> {
        self.questions.rows.values()
    }

    /// Returns the questions that await an answer.
    pub fn open_questions(&self) -> impl Iterator<Item = &HumanQuestion> {
        self.questions.open()
    }

    /// Returns whether an answer about a task is awaited: one about it, or one about a model that fails at its result as well.
    pub fn asks_about(&self, task: TaskId) -> bool {
        let reported =
            |attempt: &Attempt| attempt.task == task && attempt.state == AttemptState::Reported;
        let fails =
            |ask: &ModelQuestion| ask.error.is_some() && self.judged(ask).is_some_and(reported);
        let asked = self.open_questions().any(|open| open.task == Some(task));
        asked || self.open_asks().any(fails)
    }

    /// Returns the attempt whose result a question to the model is to judge, if it is one of that kind.
    pub fn judged(&self, ask: &ModelQuestion) -> Option<&Attempt> {
        match &ask.subject {
            ModelQuestionKind::Judge(command) => self.attempt(command),
            _ => None,
        }
    }

    /// Returns whether a person has to say how to go on after a question to the model that failed: not where facts settle the result
    /// that it was to judge, nor beside an open question about the same failure.
    pub fn needs_person(&self, ask: &ModelQuestion) -> bool {
        let judged = self.judged(ask);
        let settled = ask.away.is_none() && judged.is_some_and(|attempt| !acceptable(attempt));
        let asked = |question: &HumanQuestion| {
            let other = question.ask.as_ref().and_then(|id| self.ask(id));
            other.is_some_and(|other| other.error == ask.error)
        };
        !settled && !self.open_questions().any(asked)
    }

    /// Returns a session by its id.
    pub fn session(&self, id: &SessionId) -> Option<&AgentSession> {
        self.sessions.rows.get(id)
    }

    /// Returns every session.
    pub fn sessions(&self) -> impl Iterator<Item = &AgentSession> {
        self.sessions.rows.values()
    }

    /// Returns the sessions without an `end` command.
    pub fn open_sessions(&self) -> impl Iterator<Item = &AgentSession> {
        self.sessions.open()
    }

    /// Returns whether a session was ended by a command that is not recorded as published.
    pub fn ends_unpublished(&self, id: &SessionId) -> bool {
        let end = self.session(id).and_then(|session| session.end.as_ref());
        end.is_some_and(|end| !end.published)
    }

    /// Returns a question to the model by its id.
    pub fn ask(&self, id: &AskId) -> Option<&ModelQuestion> {
        self.asks.rows.get(id)
    }

    /// Returns every question to the model.
    pub fn asks(&self) -> impl Iterator<Item = &ModelQuestion> {
        self.asks.rows.values()
    }

    /// Returns the questions to the model without an answer in effect.
    pub fn open_asks(&self) -> impl Iterator<Item = &ModelQuestion> {
        self.asks.open()
    }

    /// Returns whether the model failed at the summary; rules then make it.
    pub fn summary_failed(&self) -> bool {
        let mut asks = self.asks.rows.values();
        asks.any(|ask| ask.subject == ModelQuestionKind::Summary && ask.error.is_some())
    }

    /// Returns the number of all questions to the model.
    pub fn ask_count(&self) -> usize {
        self.asks.rows.len()
    }

    /// Returns every row, the head first.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let tasks = self.tasks.values().cloned().map(Row::from);
        std::iter::once(self.head.clone().into())
            .chain(tasks)
            .chain(self.attempts.rows())
            .chain(self.questions.rows())
            .chain(self.sessions.rows())
            .chain(self.asks.rows())
    }

    /// Returns the present state of a row.
    pub fn row(&self, key: &RowKey) -> Option<Row> {
        match key {
            RowKey::Head {} => Some(self.head.clone().into()),
            RowKey::Task { number } => self.tasks.get(number).cloned().map(Row::from),
            RowKey::Attempt { id } => self.attempts.row(id),
            RowKey::Question { id } => self.questions.row(id),
            RowKey::Session { id } => self.sessions.row(id),
            RowKey::Ask { id } => self.asks.row(id),
        }
    }

    /// Replaces the row with the same key and returns the old one. Nothing is checked here: [`super::Draft`] refuses invalid
    /// changes, and the store loads rows.
    pub fn put(&mut self, row: Row) -> Option<Row> {
        match row {
            Row::Head(head) => Some(std::mem::replace(&mut self.head, *head).into()),
            Row::Task(task) => {
                let id = task.number;
                let unmet = self.unmet(&task).len();
                self.proven += usize::from(is_proven(&task));
                let old = self.tasks.insert(id, *task);
                self.proven -= usize::from(old.as_ref().is_some_and(is_proven));
                if let Some(task) = self.tasks.get(&id) {
                    self.index.update(old.as_ref(), task, unmet);
                }
                self.refresh_dependants(id, old.as_ref());
                old.map(Row::from)
            }
            Row::Attempt(attempt) => {
                let of_task = self.attempts_of.entry(attempt.task).or_default();
                of_task.insert(attempt.id.clone());
                mark(&mut self.recalls, &attempt.id, attempt.recall);
                self.attempts_made += u64::from(was_made(&attempt));
                let (id, open) = (attempt.id.clone(), attempt.state.open());
                let old = self.attempts.insert(id, open, *attempt);
                self.attempts_made -= u64::from(old.as_ref().is_some_and(was_made));
                old.map(Row::from)
            }
            Row::Question(row) => {
                let (id, open) = (row.id.clone(), row.open());
                self.questions.insert(id, open, *row).map(Row::from)
            }
            Row::Session(row) => {
                let (id, open) = (row.id.clone(), row.end.is_none());
                self.sessions.insert(id, open, *row).map(Row::from)
            }
            Row::Ask(row) => {
                let (id, open) = (row.id.clone(), row.answered.is_none());
                self.asks.insert(id, open, *row).map(Row::from)
            }
        }
    }

    /// Removes a row that `put` added; only an undo does this.
    pub(super) fn take(&mut self, key: &RowKey) {
        match key {
            RowKey::Head {} => {}
            RowKey::Task { number } => {
                if let Some(old) = self.tasks.remove(number) {
                    self.index.leave(&old);
                    self.proven -= usize::from(is_proven(&old));
                    self.refresh_dependants(*number, Some(&old));
                }
            }
            RowKey::Attempt { id } => {
                if let Some(old) = self.attempts.remove(id) {
                    forget(&mut self.attempts_of, old.task, id);
                    self.attempts_made -= u64::from(was_made(&old));
                }
                self.recalls.remove(id);
            }
            RowKey::Question { id } => drop(self.questions.remove(id)),
            RowKey::Session { id } => drop(self.sessions.remove(id)),
            RowKey::Ask { id } => drop(self.asks.remove(id)),
        }
    }

    /// Updates the unmet counts of a task's dependants after the task was added, removed or changed its state.
    fn refresh_dependants(&mut self, id: TaskId, old: Option<&Task>) {
        let satisfied = |task: Option<&Task>| task.is_some_and(|task| task.status.satisfies());
        let now = satisfied(self.tasks.get(&id));
        if now == satisfied(old) {
            return;
        }
        let dependants = self.index.dependants.get(&id).cloned();
        for dependant in dependants.into_iter().flatten() {
            if let Some(task) = self.tasks.get(&dependant) {
                self.index.wait(task, now);
            }
        }
    }
}

fn is_proven(task: &Task) -> bool {
    let proven = |evidence: &Evidence| evidence.proven;
    let completed = !task.removed && task.status == TaskState::Completed;
    completed && task.evidence.as_ref().is_some_and(proven)
}

fn was_made(attempt: &Attempt) -> bool {
    attempt.kind != AttemptKind::Repair
        && attempt.state != AttemptState::Withdrawn
        && !attempt.is_parked()
}

fn mark<T: Ord + Clone>(set: &mut BTreeSet<T>, item: &T, present: bool) {
    match present {
        true => set.insert(item.clone()),
        false => set.remove(item),
    };
}
