//! Making a plan and going through it: `create_plan`, `revise_current_plan`, `update_subtask_state`, `finish_subtask`,
//! `view_subtasks`.

use serde::{Deserialize, Serialize};

use super::PlanNotebook;
use super::answer::{ErrorCode, NotebookError, ToolResponse};
use super::bring::{called, check_count, check_new, head_of, prepare, shown};
use super::markdown::fenced;
use super::model::{Plan, State, SubTask};
use crate::plan::{
    DAEMON, Draft, Plan as CorePlan, PlanId, PlanPast, PlanStatus, Refusal, Shelf, Task,
    TaskChanges, TaskStatus, Time, counted,
};
use crate::tools::Dialect;
use crate::tools::page::weight;
use crate::tools::shelf::interrupted;
use crate::tools::status;
use crate::wire::text::clip_bytes as clip;

/// Bytes of the subtasks that are shown at once, as they go out, and of one text of them.
const VIEW: usize = 14_000;
const VIEW_TEXT: usize = 1500;

/// Indices that do not fit and are named.
const NAMED: usize = 20;

/// What is done to a subtask of the current plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Add,
    Revise,
    Delete,
}

impl Action {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Revise => "revise",
            Self::Delete => "delete",
        }
    }
}

impl PlanNotebook {
    /// Makes a plan the current one. The one before it is abandoned and goes into the history.
    ///
    /// # Errors
    /// No name, no subtasks or more than are allowed, two in progress or one before its turn, a time that is none.
    pub async fn create_plan(
        &self,
        name: &str,
        description: &str,
        expected_outcome: &str,
        subtasks: Vec<SubTask>,
    ) -> Result<ToolResponse, NotebookError> {
        let plan = self.new_plan(name, description, expected_outcome, subtasks)?;
        let prepared = prepare(&plan.subtasks, "subtasks")?;
        let left = self.leave_present(&interrupted(&head_of(&plan))).await?;
        let begun = begun(&plan);
        let made = self
            .toolbox
            .replace(
                Dialect::Notebook,
                head_of(&plan),
                "create_plan",
                move |draft| {
                    prepared.fill(draft)?;
                    draft.record_plan(begun)?;
                    Ok::<_, NotebookError>(follow(draft)?)
                },
            )
            .await;
        let ((), replaced) = match self.left(left, made).await {
            Ok(made) => made,
            Err(error) => return Err(self.overtaken(error).await),
        };
        let text = format!(
            "Plan '{}' created successfully with {}; its ID is '{}'.{replaced}",
            shown(&plan.name),
            counted(plan.subtasks.len(), "subtask"),
            plan.id
        );
        Ok(self.changed(&PlanId::new(plan.id), text).await)
    }

    /// Looks whether [`PlanNotebook::create_plan`] would make a plan of this, and says what; changes nothing.
    ///
    /// # Errors
    /// As [`PlanNotebook::create_plan`].
    pub async fn try_plan(
        &self,
        name: &str,
        description: &str,
        expected_outcome: &str,
        subtasks: Vec<SubTask>,
    ) -> Result<ToolResponse, NotebookError> {
        let plan = self.new_plan(name, description, expected_outcome, subtasks)?;
        let mut scratch = CorePlan::new(head_of(&plan));
        prepare(&plan.subtasks, "subtasks")?
            .fill(&mut Draft::new(&mut scratch, Time::default()))?;
        let mut text = format!(
            "Nothing has changed. The plan '{}' with {} can be created.",
            shown(&plan.name),
            counted(plan.subtasks.len(), "subtask")
        );
        if let Some(old) = self.present().await? {
            text = format!("{text} It would replace the plan '{}'.", shown(&old.name));
        }
        Ok(ToolResponse::success(text))
    }

    fn new_plan(
        &self,
        name: &str,
        description: &str,
        expected_outcome: &str,
        subtasks: Vec<SubTask>,
    ) -> Result<Plan, NotebookError> {
        if name.trim().is_empty() {
            let text = "Invalid name: a plan needs one.";
            return Err(NotebookError::new(ErrorCode::InvalidArgument, text));
        }
        check_new(&subtasks, self.max_subtasks)?;
        Ok(Plan::new(
            name.trim(),
            description,
            expected_outcome,
            subtasks,
        ))
    }

    /// Adds a subtask in front of the one at an index (or at the end), gives one other texts, or takes one out.
    ///
    /// # Errors
    /// The index fits no subtask, the subtask is missing, the state of a revised one would change, a settled one would be
    /// revised, the only one deleted, or too many added.
    pub async fn revise_current_plan(
        &self,
        subtask_idx: i64,
        action: Action,
        subtask: Option<SubTask>,
    ) -> Result<ToolResponse, NotebookError> {
        let subtask = match action {
            Action::Delete => None,
            _ => Some(subtask.ok_or_else(|| {
                let action = action.as_str();
                let text = format!("The subtask is missing; the action '{action}' needs it.");
                NotebookError::new(ErrorCode::MissingSubtask, text)
            })?),
        };
        let max = self.max_subtasks;
        self.change("revise_current_plan", move |draft| {
            let last = match action {
                Action::Add => draft.plan().counts().total(),
                _ => draft.plan().counts().total().saturating_sub(1),
            };
            let at = index(
                subtask_idx,
                last,
                &format!(" for action '{}'", action.as_str()),
            )?;
            go_on(draft)?;
            let text = match subtask {
                Some(subtask) if action == Action::Add => add(draft, at, &subtask, max),
                Some(subtask) => revise(draft, at, &subtask),
                None => delete(draft, at),
            }?;
            follow(draft)?;
            Ok(text)
        })
        .await
    }

    /// Sets the state of a subtask: in progress when its turn has come, also anew; abandoned; or to be done again, as if it
    /// had not been begun.
    ///
    /// # Errors
    /// The index fits no subtask, the state is `done`, an earlier subtask is not settled, another is in progress.
    pub async fn update_subtask_state(
        &self,
        subtask_idx: i64,
        state: State,
    ) -> Result<ToolResponse, NotebookError> {
        if state == State::Done {
            let text = "Invalid state 'done': 'finish_subtask' does that. Must be one of todo, in_progress, abandoned.";
            return Err(NotebookError::new(ErrorCode::InvalidState, text));
        }
        self.change("update_subtask_state", move |draft| {
            let (at, task) = subtask(draft.plan(), subtask_idx)?;
            let called = called(at, &task);
            let word = state.as_str();
            if State::of_task(task.status) == state {
                return Ok(match state {
                    State::InProgress => format!(
                        "The subtask {called}, is in progress already: go on with it, and call 'finish_subtask' when it is done."
                    ),
                    _ => format!("The subtask {called}, is '{word}' already."),
                });
            }
            if state == State::InProgress {
                its_turn(draft.plan(), at, &task)?;
            }
            let reported = reported(draft, &called, &task, state);
            let before = State::of_plan(draft.plan().head());
            go_on(draft)?;
            set_state(draft, &task, state, "abandoned")?;
            if let Some(reported) = reported {
                return Ok(reported);
            }
            let mut text = format!("The subtask {called}, is marked as '{word}' successfully.");
            if state == State::Todo {
                text += &put_back(draft, at)?;
            }
            follow(draft)?;
            let after = State::of_plan(draft.plan().head());
            if before != after {
                text = format!("{text} The state of the plan is now '{}'.", after.as_str());
            }
            Ok(text)
        })
        .await
    }

    /// Finishes the subtask in progress; the next one to be done is in progress then.
    ///
    /// # Errors
    /// The index fits no subtask, an earlier one is not settled, or this one is not in progress.
    pub async fn finish_subtask(
        &self,
        subtask_idx: i64,
        subtask_outcome: &str,
    ) -> Result<ToolResponse, NotebookError> {
        let outcome = subtask_outcome.to_owned();
        self.change("finish_subtask", move |draft| {
            let (at, task) = subtask(draft.plan(), subtask_idx)?;
            earlier_settled(draft.plan(), at)?;
            let called = called(at, &task);
            let state = State::of_task(task.status);
            if state != State::InProgress {
                let way = match state {
                    State::Todo => {
                        "call 'update_subtask_state' with state='in_progress' when you begin it"
                    }
                    _ => "set it to 'todo' if it is to be done again",
                };
                return Err(NotebookError::new(
                    ErrorCode::NotInProgress,
                    format!(
                        "The subtask {called}, is '{}', not in progress: {way}.",
                        state.as_str()
                    ),
                ));
            }
            let reported = reported(draft, &called, &task, State::Done);
            go_on(draft)?;
            set_state(draft, &task, State::Done, &outcome)?;
            if let Some(reported) = reported {
                return Ok(reported);
            }
            let next = begin_next(draft);
            follow(draft)?;
            Ok(format!(
                "The subtask {called}, is marked as done successfully. {next}"
            ))
        })
        .await
    }

    /// Shows subtasks in detail: one in full, several with long texts cut, as many as fit.
    ///
    /// # Errors
    /// There is no plan. Indices that fit no subtask are told in the answer.
    pub async fn view_subtasks(&self, subtask_idx: &[i64]) -> Result<ToolResponse, NotebookError> {
        let plan = self.seen().await?;
        let indices = subtask_idx.to_vec();
        let store = self.toolbox.store();
        Ok(store
            .read(&plan, move |plan, _| view(plan, &indices))
            .await?)
    }

    /// Changes the current plan, and tells the hooks of it.
    async fn change(
        &self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<String, NotebookError> + Send + 'static,
    ) -> Result<ToolResponse, NotebookError> {
        let plan = self.current().await?;
        let changed = self.toolbox.change_or(&plan, why, move |draft| {
            in_hand(draft)?;
            let text = change(draft)?;
            Ok::<_, NotebookError>((text, draft.has_changed()))
        });
        let (text, changed) = changed.await?;
        if !changed {
            return Ok(ToolResponse::success(text));
        }
        Ok(self.changed(&plan, text).await)
    }
}

/// Looks whether the plan is still the one in use.
pub(super) fn in_hand(draft: &Draft<'_>) -> Result<(), NotebookError> {
    let head = draft.plan().head();
    if head.shelf != Shelf::Current {
        let name = shown(&head.name);
        let why = if head.status.settled() {
            let state = State::of_plan(head).as_str();
            format!("it is finished as '{state}'")
        } else {
            "another caller has put it away".to_owned()
        };
        return Err(NotebookError::new(
            ErrorCode::Conflict,
            format!("The plan '{name}' is no longer the current one: {why}."),
        ));
    }
    Ok(())
}

/// Lets a plan go on that has ended by the states of its subtasks.
fn go_on(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if draft.plan().head().owner != DAEMON {
        draft.go_on()?;
    }
    Ok(())
}

/// Returns the index if it is one of 0 to `last`.
fn index(index: i64, last: usize, of: &str) -> Result<usize, NotebookError> {
    let fits = usize::try_from(index).ok().filter(|at| *at <= last);
    fits.ok_or_else(|| {
        let text = format!("Invalid subtask_idx '{index}'{of}. Must be between 0 and {last}.");
        NotebookError::new(ErrorCode::InvalidIndex, text)
    })
}

fn subtask(plan: &CorePlan, at: i64) -> Result<(usize, Task), NotebookError> {
    let last = plan.counts().total().saturating_sub(1);
    let at = index(at, last, "")?;
    let task = plan.nth(at).cloned();
    let gone = || NotebookError::new(ErrorCode::NoSubtasks, "The plan has no subtasks.");
    Ok((at, task.ok_or_else(gone)?))
}

/// Refuses what comes before its turn: the first subtask that is not settled is told.
fn earlier_settled(plan: &CorePlan, at: usize) -> Result<(), NotebookError> {
    let first = plan.unsettled().next();
    let first = first.map(|task| (plan.index_of(task), task));
    match first.filter(|(first, _)| *first < at) {
        Some((first, task)) => Err(NotebookError::new(
            ErrorCode::NotDoneYet,
            format!(
                "The subtask {}, is not done yet: finish or abandon it before the one at index {at}.",
                called(first, task)
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses to begin a subtask before its turn, or beside another one.
fn its_turn(plan: &CorePlan, at: usize, task: &Task) -> Result<(), NotebookError> {
    earlier_settled(plan, at)?;
    match plan.in_progress().find(|other| other.number != task.number) {
        Some(other) => Err(beside(plan, other)),
        None => Ok(()),
    }
}

fn beside(plan: &CorePlan, other: &Task) -> NotebookError {
    NotebookError::new(
        ErrorCode::AlreadyInProgress,
        format!(
            "The subtask {}, is in progress already: finish it, or set it to 'todo' or 'abandoned', before another is begun.",
            called(plan.index_of(other), other)
        ),
    )
}

/// Gives a subtask a state, with what came of it or why it is left out.
fn set_state(draft: &mut Draft<'_>, task: &Task, state: State, text: &str) -> Result<(), Refusal> {
    let settled = task.status.settled();
    if draft.carried_out() && task.status == TaskStatus::InProgress {
        return status::report(draft, task.number, state.task_status(), text);
    }
    match state {
        State::Todo => draft.reset_task(task.number),
        State::InProgress => {
            if settled {
                draft.reset_task(task.number)?;
            }
            draft.start_task(task.number)
        }
        State::Done => draft.complete_task(task.number, text),
        State::Abandoned => {
            if task.status == TaskStatus::Completed {
                draft.reset_task(task.number)?;
            }
            status::skip(draft, task.number, text)
        }
    }
}

/// Returns what is to be said if the state is the report on a subtask that a daemon has handed out.
fn reported(draft: &Draft<'_>, called: &str, task: &Task, state: State) -> Option<String> {
    let reported = draft.carried_out() && task.status == TaskStatus::InProgress;
    reported.then(|| {
        format!(
            "The subtask {called}, is reported as '{}'. The daemon that carries the plan out decides what follows.",
            state.as_str()
        )
    })
}

/// Begins the next subtask that is to be done, and says which it is.
fn begin_next(draft: &mut Draft<'_>) -> String {
    let next = draft.plan().unsettled().next().cloned();
    let Some(next) = next else {
        return "Nothing is left to do: call 'finish_plan'.".to_owned();
    };
    let called = called(draft.plan().index_of(&next), &next);
    // Only the order of a plan that is not the notebook's own forbids it.
    let begun = next.status == TaskStatus::InProgress
        || draft.part(|draft| draft.start_task(next.number)).is_ok();
    if begun {
        format!("The next subtask {called}, is now in progress.")
    } else {
        format!("The next subtask {called}, cannot be begun yet.")
    }
}

/// Sets the subtask in progress to be done again if one before this place is: its turn is not before that one's. Nobody could
/// go on otherwise. Says so.
fn put_back(draft: &mut Draft<'_>, at: usize) -> Result<String, Refusal> {
    if draft.carried_out() {
        return Ok(String::new());
    }
    let plan = draft.plan();
    let later = plan.in_progress().filter(|task| plan.index_of(task) > at);
    let later: Vec<Task> = later.cloned().collect();
    let mut said = Vec::new();
    for task in later {
        draft.reset_task(task.number)?;
        let called = called(draft.plan().index_of(&task), &task);
        said.push(format!(
            " The subtask {called}, was in progress and is 'todo' again: it comes after that one."
        ));
    }
    Ok(said.concat())
}

/// Returns what becomes of a plan by the states its subtasks were given.
fn begun(plan: &Plan) -> PlanPast {
    let begun = plan.subtasks.iter().any(|it| it.state == State::InProgress);
    PlanPast {
        status: if begun {
            PlanStatus::Running
        } else {
            PlanStatus::Idle
        },
        ..PlanPast::default()
    }
}

fn add(
    draft: &mut Draft<'_>,
    at: usize,
    subtask: &SubTask,
    max: Option<usize>,
) -> Result<String, NotebookError> {
    let plan = draft.plan();
    check_count(plan.counts().total() + 1, max)?;
    let before = plan.nth(at).map(|task| task.number);
    let begun = subtask.state == State::InProgress;
    if begun {
        earlier_settled(plan, at)?;
        if let Some(other) = plan.in_progress().next() {
            return Err(beside(plan, other));
        }
    }
    prepare(std::slice::from_ref(subtask), "subtask")?.add(draft, before)?;
    if begun && draft.plan().status() == &PlanStatus::Idle {
        draft.record_plan(PlanPast {
            status: PlanStatus::Running,
            ..PlanPast::default()
        })?;
    }
    let name = shown(&subtask.name);
    let mut text = format!("A new subtask, named '{name}', is added successfully at index {at}.");
    if subtask.state == State::Todo {
        text += &put_back(draft, at)?;
    }
    Ok(text)
}

fn revise(draft: &mut Draft<'_>, at: usize, subtask: &SubTask) -> Result<String, NotebookError> {
    let (_, task) = self::subtask(draft.plan(), i64::try_from(at).unwrap_or(i64::MAX))?;
    let called = called(at, &task);
    let state = State::of_task(task.status);
    if state.settled() {
        let state = state.as_str();
        let text =
            format!("The subtask {called}, is '{state}': set it to 'todo' before it is revised.");
        return Err(NotebookError::new(ErrorCode::Settled, text));
    }
    // The state of one that is given without a state is todo.
    if ![State::Todo, state].contains(&subtask.state) {
        let text = format!(
            "Invalid state '{}': revising changes no state; 'update_subtask_state' and 'finish_subtask' do.",
            subtask.state.as_str()
        );
        return Err(NotebookError::new(ErrorCode::InvalidState, text));
    }
    let changes = TaskChanges {
        name: Some(subtask.name.clone()),
        description: Some(subtask.description.clone()),
        expected_outcome: Some(subtask.expected_outcome.clone()),
        ..TaskChanges::default()
    };
    draft.amend_task(task.number, &changes)?;
    Ok(format!("The subtask {called}, is revised successfully."))
}

fn delete(draft: &mut Draft<'_>, at: usize) -> Result<String, NotebookError> {
    let (_, task) = subtask(draft.plan(), i64::try_from(at).unwrap_or(i64::MAX))?;
    let called = called(at, &task);
    if draft.plan().counts().total() == 1 {
        let text = format!("The subtask {called}, is the only one: 'finish_plan' ends the plan.");
        return Err(NotebookError::new(ErrorCode::NoSubtasks, text));
    }
    if task.status != TaskStatus::Pending {
        draft.reset_task(task.number)?;
    }
    draft.remove_task(task.number)?;
    Ok(format!("The subtask {called}, is deleted successfully."))
}

/// Has the plan follow its subtasks: to be done while none has been begun, ended for whoever else looks at it once all are
/// settled. In the notebook it stays open until it is finished.
pub(super) fn follow(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if draft.plan().head().owner != DAEMON && !draft.plan().status().settled() {
        draft.rest()?;
        draft.follow_tasks();
    }
    Ok(())
}

fn view(plan: &CorePlan, indices: &[i64]) -> ToolResponse {
    let total = plan.counts().total();
    let mut shown = Vec::new();
    let mut wrong = Vec::new();
    let (mut size, mut left, mut wrongs) = (0, 0, 0);
    for given in indices {
        let task = usize::try_from(*given).ok().and_then(|at| plan.nth(at));
        let Some(task) = task else {
            wrongs += 1;
            if wrong.len() < NAMED {
                wrong.push(given.to_string());
            }
            continue;
        };
        if left > 0 {
            left += 1;
            continue;
        }
        let mut subtask = SubTask::of(task);
        if indices.len() > 1 {
            let texts = [
                &mut subtask.name,
                &mut subtask.description,
                &mut subtask.expected_outcome,
            ];
            for text in texts.into_iter().chain(subtask.outcome.as_mut()) {
                *text = clip(text, VIEW_TEXT);
            }
        }
        let text = format!(
            "Subtask at index {given}:\n{}",
            fenced(&subtask.to_markdown(true))
        );
        let bytes = weight(&text);
        if size + bytes > VIEW && !shown.is_empty() {
            left += 1;
            continue;
        }
        size += bytes;
        shown.push(text);
    }
    if left > 0 {
        shown.push(format!(
            "{} more did not fit: ask for fewer at once.",
            counted(left, "subtask")
        ));
    }
    if wrongs > 0 {
        if wrongs > wrong.len() {
            wrong.push("…".to_owned());
        }
        shown.push(format!(
            "Invalid subtask_idx '[{}]'. Must be between 0 and {}.",
            wrong.join(", "),
            total.saturating_sub(1)
        ));
    }
    if indices.is_empty() {
        shown.push(format!(
            "No subtask_idx is given. Must be between 0 and {}.",
            total.saturating_sub(1)
        ));
    }
    let text = shown.join("\n\n");
    let all_wrong = wrongs > 0 && wrongs == indices.len();
    let mut response = if all_wrong || indices.is_empty() {
        ToolResponse::failure(text, ErrorCode::InvalidIndex)
    } else {
        ToolResponse::success(text)
    };
    response.metadata.left = left;
    response
}
