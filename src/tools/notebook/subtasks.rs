//! Making a plan and working through it: `create_plan`, `revise_current_plan`, `update_subtask_state`, `finish_subtask`,
//! `view_subtasks`.

use super::*;

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
    ) -> Result<ToolResponse> {
        let plan = NotebookPlan::new(name.trim(), description, expected_outcome, subtasks);
        self.make(plan, false).await
    }

    /// Makes a plan the current one; a dry run only says what would be made.
    pub(super) async fn make(&self, plan: NotebookPlan, dry_run: bool) -> Result<ToolResponse> {
        check_new(&plan, self.toolbox.max_subtasks)?;
        let (head, why) = (head_of(&plan), "create_plan");
        let (prepared, begun) = (prepare(&plan.subtasks, "subtasks")?, begun(&plan.subtasks));
        let fill = move |draft: &mut Draft<'_>| {
            prepared.fill(draft)?;
            draft.record_plan(begun)?;
            Ok(follow(draft)?)
        };
        let name = shown(&plan.name);
        let count = counted(plan.subtasks.len(), "subtask");
        if dry_run {
            let toolbox = self.toolbox.dry_run(true);
            let made = toolbox.replace(Dialect::Notebook, head, false, why, fill);
            let ((), replaced) = made.await?;
            let mut text =
                format!("Nothing has changed. The plan '{name}' with {count} can be created.");
            if let Some(old) = replaced {
                let old = shown(&self.toolbox.head(&old).await?.name);
                text = format!("{text} It would replace the plan '{old}'.");
            }
            return Ok(ToolResponse::new(text, None));
        }
        let replaced = self.replace_current(head, false, why, fill).await?;
        let id = plan.id;
        let text =
            format!("Plan '{name}' created successfully with {count}; its ID is '{id}'.{replaced}");
        Ok(self.changed(&PlanId::new(id), text).await)
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
    ) -> Result<ToolResponse> {
        let named = word(&action);
        let given = subtask.filter(|_| action != Action::Delete);
        if given.is_none() && action != Action::Delete {
            let text = format!("The subtask is missing; the action '{named}' needs it.");
            return Err(MissingSubtask.error(text));
        }
        let max = self.toolbox.max_subtasks;
        self.change("revise_current_plan", move |draft| {
            let of = format!(" for action '{named}'");
            let text = match given {
                Some(given) if action == Action::Add => {
                    let at = index(subtask_idx, draft.plan().counts().total(), &of)?;
                    go_on(draft)?;
                    add(draft, at, &given, max)
                }
                given => {
                    let (_, task, called) = self::subtask(draft.plan(), subtask_idx, &of)?;
                    go_on(draft)?;
                    match given {
                        Some(given) => revise(draft, &task, &called, given),
                        None => delete(draft, &task, &called),
                    }
                }
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
    ) -> Result<ToolResponse> {
        if state == SubTaskState::Done {
            let text = "Invalid state 'done': 'finish_subtask' does that. Must be one of todo, in_progress, abandoned.";
            return Err(InvalidState.error(text));
        }
        let is_so = move |task: &Task| SubTaskState::of_task(task.status) == state;
        let plan = self.current().await?;
        let known = self.toolbox.read(&plan, move |plan| {
            subtask(plan, subtask_idx, "").is_ok_and(|(_, task, _)| is_so(&task))
        });
        let known = known.await?;
        self.change("update_subtask_state", move |draft| {
            let (at, task, called) = subtask(draft.plan(), subtask_idx, "")?;
            if is_so(&task) {
                // Of two callers who have both seen it as not begun, the second gets an error.
                if state == SubTaskState::InProgress && !known {
                    return Err(Conflict.error(format!(
                        "Another caller was first: it has just begun the subtask {called}. Leave that one to it."
                    )));
                }
                return Ok(match state {
                    SubTaskState::InProgress => format!(
                        "The subtask {called}, is in progress already: go on with it, and call 'finish_subtask' when it is done."
                    ),
                    _ => format!("The subtask {called}, is '{state}' already."),
                });
            }
            if state == SubTaskState::InProgress {
                may_begin(draft.plan(), at)?;
            }
            let before = SubTaskState::of_plan(draft.plan().head());
            let why = if state == SubTaskState::Abandoned { "abandoned" } else { "" };
            if let Some(reported) = set(draft, &task, &called, state, why)? {
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
    pub async fn finish_subtask(&self, subtask_idx: i64, outcome: &str) -> Result<ToolResponse> {
        let outcome = outcome.to_owned();
        self.change("finish_subtask", move |draft| {
            let (at, task, called) = subtask(draft.plan(), subtask_idx, "")?;
            earlier_settled(draft.plan(), at)?;
            let state = SubTaskState::of_task(task.status);
            if state != SubTaskState::InProgress {
                let way = match state {
                    SubTaskState::Todo => {
                        "call 'update_subtask_state' with state='in_progress' when you begin it"
                    }
                    _ => "set it to 'todo' if it is to be done again",
                };
                let text = format!("The subtask {called}, is '{state}', not in progress: {way}.");
                return Err(NotInProgress.error(text));
            }
            if let Some(reported) = set(draft, &task, &called, SubTaskState::Done, &outcome)? {
                return Ok(reported);
            }
            let next = begin_next(draft);
            follow(draft)?;
            let done = format!("The subtask {called}, is marked as done successfully.");
            Ok(format!("{done} {next}"))
        })
        .await
    }

    /// Shows subtasks in detail: one in full, several with long texts cut, as many as fit.
    ///
    /// # Errors
    /// There is no plan. The answer names indices that fit no subtask.
    pub async fn view_subtasks(&self, subtask_idx: &[i64]) -> Result<ToolResponse> {
        let plan = self.toolbox.current(Dialect::Notebook).await?;
        let indices = subtask_idx.to_vec();
        let view = move |plan: &Plan| view(plan, &indices);
        Ok(self.toolbox.read(&plan, view).await?)
    }

    /// Changes the current plan, and calls the hooks if it has changed.
    async fn change(
        &self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<String> + Send + 'static,
    ) -> Result<ToolResponse> {
        let plan = self.current().await?;
        let changed = self.toolbox.change(&plan, why, move |draft| {
            in_use(draft)?;
            Ok::<_, NotebookError>((change(draft)?, draft.has_changed()))
        });
        let (text, changed) = changed.await?;
        match changed {
            true => Ok(self.changed(&plan, text).await),
            false => Ok(ToolResponse::new(text, None)),
        }
    }
}

/// Refuses if the plan is no longer in use.
pub(super) fn in_use(draft: &Draft<'_>) -> Result<()> {
    let head = draft.plan().head();
    if head.archive_state == ArchiveState::Current {
        return Ok(());
    }
    let name = shown(&head.name);
    let why = match head.status.settled() {
        true => format!("it is finished as '{}'", SubTaskState::of_plan(head)),
        false => "another caller has put it away".to_owned(),
    };
    let text = format!("The plan '{name}' is no longer the current one: {why}.");
    Err(Conflict.error(text))
}

/// Makes a plan go on that ended because of the states of its subtasks.
fn go_on(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if draft.plan().head().owner != DAEMON {
        draft.go_on()?;
    }
    Ok(())
}

/// Returns the index if it is between 0 and `last`.
fn index(index: i64, last: usize, of: &str) -> Result<usize> {
    let fits = usize::try_from(index).ok().filter(|at| *at <= last);
    fits.ok_or_else(|| {
        let range = format!("Must be between 0 and {last}.");
        InvalidIndex.error(format!("Invalid subtask_idx '{index}'{of}. {range}"))
    })
}

/// Returns the subtask at an index, and the words that identify it.
fn subtask(plan: &Plan, at: i64, of: &str) -> Result<(usize, Task, String)> {
    let at = index(at, plan.counts().total().saturating_sub(1), of)?;
    match plan.tasks().nth(at) {
        Some(task) => Ok((at, task.clone(), called(at, task))),
        None => Err(NoSubtasks.error("The plan has no subtasks.")),
    }
}

/// Refuses a subtask before its turn: the error names the first subtask that is not settled.
fn earlier_settled(plan: &Plan, at: usize) -> Result<()> {
    match plan.unsettled().next() {
        Some(task) if plan.index_of(task) < at => Err(NotDoneYet.error(format!(
            "The subtask {}, is not done yet: finish or abandon it before the one at index {at}.",
            called(plan.index_of(task), task)
        ))),
        _ => Ok(()),
    }
}

/// Refuses to begin a subtask before its turn, or while another one is in progress.
fn may_begin(plan: &Plan, at: usize) -> Result<()> {
    earlier_settled(plan, at)?;
    let Some(other) = plan.in_progress().next() else {
        return Ok(());
    };
    let other = called(plan.index_of(other), other);
    Err(AlreadyInProgress.error(format!(
        "The subtask {other}, is in progress already: finish it, or set it to 'todo' or 'abandoned', before another is begun."
    )))
}

/// Sets the state of a subtask, with its result or why it is abandoned. Returns a message if the state is the report on a
/// subtask that a daemon has dispatched.
fn set(
    draft: &mut Draft<'_>,
    task: &Task,
    called: &str,
    state: SubTaskState,
    text: &str,
) -> Result<Option<String>> {
    let reported = draft.carried_out() && task.status == TaskState::InProgress;
    // What was done before stays its outcome, and where nothing was, none is made up.
    let keeps = state == SubTaskState::Abandoned && draft.plan().head().owner != DAEMON;
    go_on(draft)?;
    let text = (!keeps).then_some(text);
    status_changes::set(draft, task.number, state.task_status(), text)?;
    Ok(reported.then(|| {
        format!(
            "The subtask {called}, is reported as '{state}'. The daemon that carries the plan out decides what follows."
        )
    }))
}

/// Begins the next open subtask, and returns a sentence that names it.
fn begin_next(draft: &mut Draft<'_>) -> String {
    let Some(next) = draft.plan().unsettled().next().cloned() else {
        return "Nothing is left to do: call 'finish_plan'.".to_owned();
    };
    let called = called(draft.plan().index_of(&next), &next);
    // Only the order of a plan that belongs to another owner forbids this.
    let begun = next.status == TaskState::InProgress
        || draft.part(|draft| draft.start_task(next.number)).is_ok();
    match begun {
        true => format!("The next subtask {called}, is now in progress."),
        false => format!("The next subtask {called}, cannot be begun yet."),
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
    let reset = later.iter().map(|task| {
        draft.reset_task(task.number)?;
        let called = called(draft.plan().index_of(task), task);
        Ok(format!(
            " The subtask {called}, was in progress and is 'todo' again: it comes after that one."
        ))
    });
    reset.collect()
}

/// Returns the state of a plan that follows from the given states of its subtasks.
fn begun(subtasks: &[SubTask]) -> Past<PlanState> {
    let mut past = Past::default();
    if (subtasks.iter()).any(|it| it.state == SubTaskState::InProgress) {
        past.status = PlanState::Running;
    }
    past
}

fn add(draft: &mut Draft<'_>, at: usize, subtask: &SubTask, max: Option<usize>) -> Result<String> {
    let plan = draft.plan();
    check_count(plan.counts().total() + 1, max)?;
    let before = plan.tasks().nth(at).map(|task| task.number);
    let is_begun = subtask.state == SubTaskState::InProgress;
    if is_begun {
        may_begin(plan, at)?;
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

fn revise(draft: &mut Draft<'_>, task: &Task, called: &str, given: SubTask) -> Result<String> {
    let state = SubTaskState::of_task(task.status);
    if state.settled() {
        return Err(Settled.error(format!(
            "The subtask {called}, is '{state}': set it to 'todo' before it is revised."
        )));
    }
    // A subtask that is given without a state has the state todo.
    if ![SubTaskState::Todo, state].contains(&given.state) {
        return Err(InvalidState.error(format!(
            "Invalid state '{}': revising changes no state; 'update_subtask_state' and 'finish_subtask' do.",
            given.state
        )));
    }
    let changes = TaskChanges {
        name: Some(given.name),
        description: Some(given.description),
        criteria: Some(Criteria::plain(given.expected_outcome)),
        ..TaskChanges::default()
    };
    draft.amend_task(task.number, &changes)?;
    Ok(format!("The subtask {called}, is revised successfully."))
}

fn delete(draft: &mut Draft<'_>, task: &Task, called: &str) -> Result<String> {
    if draft.plan().counts().total() == 1 {
        let text = format!("The subtask {called}, is the only one: 'finish_plan' ends the plan.");
        return Err(NoSubtasks.error(text));
    }
    if draft.carried_out() {
        draft.removable(task.number)?;
        // A person sees what was left out of the plan, and by whom.
        draft.skip_task(task.number, "left out by an agent")?;
        return Ok(format!(
            "The subtask {called}, is abandoned: in a plan that a daemon carries out it stays listed."
        ));
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

fn view(plan: &Plan, indices: &[i64]) -> ToolResponse {
    let task = |at: &i64| {
        usize::try_from(*at)
            .ok()
            .and_then(|at| plan.tasks().nth(at))
    };
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
    let range = format!("Must be between 0 and {last}.");
    if !wrong.is_empty() {
        let more = (wrong.len() > NAMED).then(|| "…".to_owned());
        let named = wrong.iter().take(NAMED).map(ToString::to_string);
        let named = joined(named.chain(more), ", ");
        shown.push(format!("Invalid subtask_idx '[{named}]'. {range}"));
    }
    shown.extend((indices.is_empty()).then(|| format!("No subtask_idx is given. {range}")));
    let text = shown.join("\n\n");
    let failure = wrong.len() == indices.len();
    let mut response = ToolResponse::new(text, failure.then_some(InvalidIndex));
    response.metadata.left = left;
    response
}
