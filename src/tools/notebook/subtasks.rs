//! Making a plan and working through it: `create_plan`, `revise_current_plan`, `update_subtask_state`, `finish_subtask`,
//! `view_subtasks`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PlanNotebook;
use super::model::{NotebookPlan, SubTask, SubTaskState};
use super::plan_import::{called, check_count, check_new, head_of, prepare, shown};
use super::plan_markdown::fenced;
use super::responses::{NotebookError, NotebookErrorCode, ToolResponse};
use crate::plan::{
    ArchiveState, DAEMON, Draft, Plan as CorePlan, PlanId, PlanPast, PlanState, Refusal, Task,
    TaskChanges, TaskState, counted,
};
use crate::tools::paging::weight;
use crate::tools::{Dialect, Toolbox, set_status};
use crate::wire::text::clip_bytes as clip;

/// Bytes of the subtasks shown in one answer, in the form in which they are sent, and of one text of them.
const VIEW: usize = 14_000;
const VIEW_TEXT: usize = 1500;

/// The most wrong indices that an answer names.
const NAMED: usize = 20;

/// What is done to a subtask of the current plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Add,
    Revise,
    Delete,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "add",
            Self::Revise => "revise",
            Self::Delete => "delete",
        })
    }
}

impl PlanNotebook {
    /// Makes a plan the current one. The one before it is abandoned and archived.
    ///
    /// # Errors
    /// No name, no subtasks or more than are allowed, two in progress or one before its turn, a text that is not a time.
    pub async fn create_plan(
        &self,
        name: &str,
        description: &str,
        expected_outcome: &str,
        subtasks: Vec<SubTask>,
    ) -> Result<ToolResponse, NotebookError> {
        let plan = self.new_plan(name, description, expected_outcome, subtasks)?;
        let exported = self.export_current(&head_of(&plan)).await?;
        let made = make(&self.toolbox, &plan).await;
        let ((), replaced) = self.replaced(exported, made).await?;
        let text = format!(
            "Plan '{}' created successfully with {}; its ID is '{}'.{replaced}",
            shown(&plan.name),
            counted(plan.subtasks.len(), "subtask"),
            plan.id
        );
        Ok(self.changed(&PlanId::new(plan.id), text).await)
    }

    /// Checks whether [`PlanNotebook::create_plan`] would make this plan, and returns its answer; changes nothing.
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
        let ((), replaced) = make(&self.toolbox.dry_run(true), &plan).await?;
        let mut text = format!(
            "Nothing has changed. The plan '{}' with {} can be created.",
            shown(&plan.name),
            counted(plan.subtasks.len(), "subtask")
        );
        if let Some(old) = replaced {
            let old = shown(&self.toolbox.head(&old).await?.name);
            text = format!("{text} It would replace the plan '{old}'.");
        }
        Ok(ToolResponse::success(text))
    }

    fn new_plan(
        &self,
        name: &str,
        description: &str,
        expected_outcome: &str,
        subtasks: Vec<SubTask>,
    ) -> Result<NotebookPlan, NotebookError> {
        if name.trim().is_empty() {
            let text = "Invalid name: a plan needs one.";
            return Err(NotebookError::new(NotebookErrorCode::InvalidArgument, text));
        }
        check_new(&subtasks, self.toolbox.max_subtasks)?;
        Ok(NotebookPlan::new(
            name.trim(),
            description,
            expected_outcome,
            subtasks,
        ))
    }

    /// Adds a subtask before the one at an index (or at the end), replaces the texts of one, or deletes one.
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
        let subtask = subtask.filter(|_| action != Action::Delete);
        if subtask.is_none() && action != Action::Delete {
            let text = format!("The subtask is missing; the action '{action}' needs it.");
            return Err(NotebookError::new(NotebookErrorCode::MissingSubtask, text));
        }
        let max = self.toolbox.max_subtasks;
        self.change("revise_current_plan", move |draft| {
            let total = draft.plan().counts().total();
            let last = match action {
                Action::Add => total,
                _ => total.saturating_sub(1),
            };
            let at = index(subtask_idx, last, &format!(" for action '{action}'"))?;
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

    /// Sets the state of a subtask: in progress when its turn has come, also repeatedly; abandoned; or todo, as if it had not
    /// been begun.
    ///
    /// # Errors
    /// The index fits no subtask, the state is `done`, an earlier subtask is not settled, another is in progress.
    pub async fn update_subtask_state(
        &self,
        subtask_idx: i64,
        state: SubTaskState,
    ) -> Result<ToolResponse, NotebookError> {
        if state == SubTaskState::Done {
            let text = "Invalid state 'done': 'finish_subtask' does that. Must be one of todo, in_progress, abandoned.";
            return Err(NotebookError::new(NotebookErrorCode::InvalidState, text));
        }
        self.change("update_subtask_state", move |draft| {
            let (at, task) = subtask(draft.plan(), subtask_idx)?;
            let called = called(at, &task);
            match state {
                _ if SubTaskState::of_task(task.status) != state => {}
                SubTaskState::InProgress => {
                    return Ok(format!(
                        "The subtask {called}, is in progress already: go on with it, and call 'finish_subtask' when it is done."
                    ));
                }
                _ => return Ok(format!("The subtask {called}, is '{state}' already.")),
            }
            if state == SubTaskState::InProgress {
                earlier_settled(draft.plan(), at)?;
                alone(draft.plan(), Some(&task))?;
            }
            let before = SubTaskState::of_plan(draft.plan().head());
            let why = if state == SubTaskState::Abandoned { "abandoned" } else { "" };
            if let Some(reported) = set(draft, at, &task, state, why)? {
                return Ok(reported);
            }
            let mut text = format!("The subtask {called}, is marked as '{state}' successfully.");
            if state == SubTaskState::Todo {
                text += &reset_later(draft, at)?;
            }
            follow(draft)?;
            let after = SubTaskState::of_plan(draft.plan().head());
            if before != after {
                text = format!("{text} The state of the plan is now '{after}'.");
            }
            Ok(text)
        })
        .await
    }

    /// Finishes the subtask in progress; the next open one is in progress then.
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
            let state = SubTaskState::of_task(task.status);
            if state != SubTaskState::InProgress {
                let way = match state {
                    SubTaskState::Todo => {
                        "call 'update_subtask_state' with state='in_progress' when you begin it"
                    }
                    _ => "set it to 'todo' if it is to be done again",
                };
                let text = format!("The subtask {called}, is '{state}', not in progress: {way}.");
                return Err(NotebookError::new(NotebookErrorCode::NotInProgress, text));
            }
            if let Some(reported) = set(draft, at, &task, SubTaskState::Done, &outcome)? {
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
    /// There is no plan. The answer names indices that fit no subtask.
    pub async fn view_subtasks(&self, subtask_idx: &[i64]) -> Result<ToolResponse, NotebookError> {
        let plan = self.seen().await?;
        let indices = subtask_idx.to_vec();
        let view = move |plan: &CorePlan, _| view(plan, &indices);
        Ok(self.toolbox.store().read(&plan, view).await?)
    }

    /// Changes the current plan, and calls the hooks if it has changed.
    async fn change(
        &self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<String, NotebookError> + Send + 'static,
    ) -> Result<ToolResponse, NotebookError> {
        let plan = self.current().await?;
        let changed = self.toolbox.change(&plan, why, move |draft| {
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

/// Makes a plan the current one; returns the one before it.
async fn make(
    toolbox: &Toolbox,
    plan: &NotebookPlan,
) -> Result<((), Option<PlanId>), NotebookError> {
    let (prepared, begun) = (prepare(&plan.subtasks, "subtasks")?, begun(&plan.subtasks));
    let make = move |draft: &mut Draft<'_>| {
        prepared.fill(draft)?;
        draft.record_plan(begun)?;
        Ok(follow(draft)?)
    };
    let head = head_of(plan);
    toolbox
        .replace(Dialect::Notebook, head, false, "create_plan", make)
        .await
}

/// Refuses if the plan is no longer in use.
pub(super) fn in_hand(draft: &Draft<'_>) -> Result<(), NotebookError> {
    let head = draft.plan().head();
    if head.archive_state != ArchiveState::Current {
        let name = shown(&head.name);
        let why = if head.status.settled() {
            format!("it is finished as '{}'", SubTaskState::of_plan(head))
        } else {
            "another caller has put it away".to_owned()
        };
        let text = format!("The plan '{name}' is no longer the current one: {why}.");
        return Err(NotebookError::new(NotebookErrorCode::Conflict, text));
    }
    Ok(())
}

/// Makes a plan go on that ended because of the states of its subtasks.
fn go_on(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if draft.plan().head().owner != DAEMON {
        draft.go_on()?;
    }
    Ok(())
}

/// Returns the index if it is between 0 and `last`.
fn index(index: i64, last: usize, of: &str) -> Result<usize, NotebookError> {
    let fits = usize::try_from(index).ok().filter(|at| *at <= last);
    fits.ok_or_else(|| {
        let text = format!("Invalid subtask_idx '{index}'{of}. Must be between 0 and {last}.");
        NotebookError::new(NotebookErrorCode::InvalidIndex, text)
    })
}

fn subtask(plan: &CorePlan, at: i64) -> Result<(usize, Task), NotebookError> {
    let last = plan.counts().total().saturating_sub(1);
    let at = index(at, last, "")?;
    let task = plan.nth(at).cloned();
    let gone = || NotebookError::new(NotebookErrorCode::NoSubtasks, "The plan has no subtasks.");
    Ok((at, task.ok_or_else(gone)?))
}

/// Refuses a subtask before its turn: the error names the first subtask that is not settled.
fn earlier_settled(plan: &CorePlan, at: usize) -> Result<(), NotebookError> {
    let first = plan.unsettled().next();
    let first = first.map(|task| (plan.index_of(task), task));
    let Some((first, task)) = first.filter(|(first, _)| *first < at) else {
        return Ok(());
    };
    let open = called(first, task);
    let text = format!(
        "The subtask {open}, is not done yet: finish or abandon it before the one at index {at}."
    );
    Err(NotebookError::new(NotebookErrorCode::NotDoneYet, text))
}

/// Refuses to begin a subtask while another one is in progress.
fn alone(plan: &CorePlan, task: Option<&Task>) -> Result<(), NotebookError> {
    let number = task.map(|task| task.number);
    let Some(other) = plan
        .in_progress()
        .find(|other| Some(other.number) != number)
    else {
        return Ok(());
    };
    let text = format!(
        "The subtask {}, is in progress already: finish it, or set it to 'todo' or 'abandoned', before another is begun.",
        called(plan.index_of(other), other)
    );
    Err(NotebookError::new(
        NotebookErrorCode::AlreadyInProgress,
        text,
    ))
}

/// Sets the state of a subtask, with its result or why it is abandoned. Returns a message if the state is the report on a
/// subtask that a daemon has dispatched.
fn set(
    draft: &mut Draft<'_>,
    at: usize,
    task: &Task,
    state: SubTaskState,
    text: &str,
) -> Result<Option<String>, NotebookError> {
    let reported = draft.carried_out() && task.status == TaskState::InProgress;
    go_on(draft)?;
    set_status::set(draft, task.number, state.task_status(), Some(text))?;
    let called = called(at, task);
    Ok(reported.then(|| {
        format!(
            "The subtask {called}, is reported as '{state}'. The daemon that carries the plan out decides what follows."
        )
    }))
}

/// Begins the next open subtask, and returns a sentence that names it.
fn begin_next(draft: &mut Draft<'_>) -> String {
    let next = draft.plan().unsettled().next().cloned();
    let Some(next) = next else {
        return "Nothing is left to do: call 'finish_plan'.".to_owned();
    };
    let called = called(draft.plan().index_of(&next), &next);
    // Only the order of a plan that belongs to another owner forbids this.
    let begun = next.status == TaskState::InProgress
        || draft.part(|draft| draft.start_task(next.number)).is_ok();
    if begun {
        format!("The next subtask {called}, is now in progress.")
    } else {
        format!("The next subtask {called}, cannot be begun yet.")
    }
}

/// Resets the subtask in progress to todo if an earlier one, at this place, is open: the earlier one comes first, and otherwise
/// no caller could continue. Returns a sentence about that.
fn reset_later(draft: &mut Draft<'_>, at: usize) -> Result<String, Refusal> {
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

/// Returns the state of a plan that follows from the given states of its subtasks.
fn begun(subtasks: &[SubTask]) -> PlanPast {
    let begun = subtasks
        .iter()
        .any(|it| it.state == SubTaskState::InProgress);
    let status = match begun {
        true => PlanState::Running,
        false => PlanState::Idle,
    };
    PlanPast {
        status,
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
    let is_begun = subtask.state == SubTaskState::InProgress;
    if is_begun {
        earlier_settled(plan, at)?;
        alone(plan, None)?;
    }
    let subtasks = std::slice::from_ref(subtask);
    prepare(subtasks, "subtask")?.add(draft, before)?;
    if is_begun && draft.plan().status() == &PlanState::Idle {
        draft.record_plan(begun(subtasks))?;
    }
    let name = shown(&subtask.name);
    let mut text = format!("A new subtask, named '{name}', is added successfully at index {at}.");
    if subtask.state == SubTaskState::Todo {
        text += &reset_later(draft, at)?;
    }
    Ok(text)
}

fn revise(draft: &mut Draft<'_>, at: usize, subtask: &SubTask) -> Result<String, NotebookError> {
    let (_, task) = self::subtask(draft.plan(), i64::try_from(at).unwrap_or(i64::MAX))?;
    let called = called(at, &task);
    let state = SubTaskState::of_task(task.status);
    if state.settled() {
        let text =
            format!("The subtask {called}, is '{state}': set it to 'todo' before it is revised.");
        return Err(NotebookError::new(NotebookErrorCode::Settled, text));
    }
    // A subtask that is given without a state has the state todo.
    if ![SubTaskState::Todo, state].contains(&subtask.state) {
        let text = format!(
            "Invalid state '{}': revising changes no state; 'update_subtask_state' and 'finish_subtask' do.",
            subtask.state
        );
        return Err(NotebookError::new(NotebookErrorCode::InvalidState, text));
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
        return Err(NotebookError::new(NotebookErrorCode::NoSubtasks, text));
    }
    if task.status != TaskState::Pending {
        draft.reset_task(task.number)?;
    }
    draft.remove_task(task.number)?;
    Ok(format!("The subtask {called}, is deleted successfully."))
}

/// Makes the plan follow its subtasks: idle while none has been begun, and ended in other views once all are settled. In the
/// notebook it stays open until it is finished.
pub(super) fn follow(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if draft.plan().head().owner != DAEMON && !draft.plan().status().settled() {
        draft.rest()?;
        draft.follow_tasks();
    }
    Ok(())
}

fn view(plan: &CorePlan, indices: &[i64]) -> ToolResponse {
    let task = |at: &i64| usize::try_from(*at).ok().and_then(|at| plan.nth(at));
    let fitting = indices.iter().filter_map(|at| Some((at, task(at)?)));
    let wrong: Vec<&i64> = indices.iter().filter(|at| task(at).is_none()).collect();
    let mut shown = Vec::new();
    let mut size = 0;
    for (at, task) in fitting {
        let mut subtask = SubTask::of(task);
        if indices.len() > 1 {
            for text in subtask.texts() {
                *text = clip(text, VIEW_TEXT);
            }
        }
        let text = fenced(&subtask.to_markdown(true));
        let text = format!("Subtask at index {at}:\n{text}");
        size += weight(&text);
        if size > VIEW && !shown.is_empty() {
            break;
        }
        shown.push(text);
    }
    let left = indices.len() - wrong.len() - shown.len();
    if left > 0 {
        let left = counted(left, "subtask");
        shown.push(format!("{left} more did not fit: ask for fewer at once."));
    }
    let last = plan.counts().total().saturating_sub(1);
    if !wrong.is_empty() {
        let more = (wrong.len() > NAMED).then(|| "…".to_owned());
        let named = wrong.iter().take(NAMED).map(ToString::to_string);
        let named: Vec<String> = named.chain(more).collect();
        let named = named.join(", ");
        shown.push(format!(
            "Invalid subtask_idx '[{named}]'. Must be between 0 and {last}."
        ));
    }
    if indices.is_empty() {
        shown.push(format!(
            "No subtask_idx is given. Must be between 0 and {last}."
        ));
    }
    let text = shown.join("\n\n");
    let mut response = match wrong.len() == indices.len() {
        true => ToolResponse::failure(text, NotebookErrorCode::InvalidIndex),
        false => ToolResponse::success(text),
    };
    response.metadata.left = left;
    response
}
