//! The end of a plan and its recovery: `finish_plan`, `view_historical_plans`, `recover_historical_plan`. The store is the
//! truth: it archives every plan of the notebook, and a recovered plan is in the history in the state in which it was last
//! archived. A program's own storage gets every archived plan, and is read in place of the store's history.

use super::*;

/// Why a subtask that is open is abandoned together with its plan: recovering the plan opens it again.
const WITH_PLAN: &str = "abandoned with the plan";

/// Characters of a plan's description in the list of the history.
const DESCRIPTION: usize = 200;

/// A plan as the program's own storage got it before the plan left its place, and what the storage had of it before.
struct Exported {
    plan: PlanId,
    given: NotebookPlan,
    before: Option<NotebookPlan>,
}

impl PlanNotebook {
    /// Ends the current plan and archives it. Abandoning it abandons its open subtasks.
    ///
    /// # Errors
    /// There is no plan, it is to be done but has open subtasks, or the storage fails (then the plan goes on).
    pub async fn finish_plan(&self, state: PlanEnd, outcome: &str) -> Result<ToolResponse> {
        let plan = self.current().await.map_err(|error| match error {
            NotebookError::Tool(ToolError::NoPlan) => NoPlan.error("There is no plan to finish."),
            error => error,
        })?;
        let outcome = outcome.to_owned();
        let end = move |draft: &mut Draft<'_>| {
            in_use(draft)?;
            finish(draft, state, &outcome)
        };
        let head = self.toolbox.head(&plan).await?;
        let stale = self.end("finish_plan", &plan, end).await?;
        let history = match self.toolbox.notebook.storage {
            // The plan belongs to another dialect, which shows it there.
            None if head.owner != Dialect::Notebook.as_str() => {
                &format!("the history of '{}'", head.owner)
            }
            _ => "the history",
        };
        let text = format!(
            "The current plan '{}' is finished successfully as '{}'; {history} keeps it under ID '{}'.{stale}",
            shown(&head.name),
            state.state(),
            head.key()
        );
        Ok(self.changed(&plan, text).await)
    }

    /// Ends a plan by a change that puts no other plan in its place. Returns a message if the storage did not keep up.
    pub(super) async fn end(
        &self,
        why: &str,
        plan: &PlanId,
        end: impl FnOnce(&mut Draft<'_>) -> Result<()> + Clone + Send + 'static,
    ) -> Result<String> {
        let exported = self.export(Some(plan), end.clone()).await?;
        let ended = self.toolbox.change(plan, why, end).await;
        let settled = self.settle(exported).await;
        if let Err(error) = ended {
            return Err(also_stale(error, settled));
        }
        let stale = |failure| format!(" What the history has of it is not true: {failure}");
        Ok(settled.map_or_else(stale, |()| String::new()))
    }

    /// Has the program's own storage, if there is one, keep a plan as a change would leave it. This comes before the change: if
    /// the storage fails, the plan goes on; if the program ends between the two, the plan is in both places, and ending it
    /// again overwrites the one in the storage.
    async fn export(
        &self,
        plan: Option<&PlanId>,
        leave: impl FnOnce(&mut Draft<'_>) -> Result<()> + Send + 'static,
    ) -> Result<Option<Exported>> {
        let (Some(storage), Some(plan)) = (&self.toolbox.notebook.storage, plan) else {
            return Ok(None);
        };
        let leave =
            move |draft: &mut Draft<'_>| leave(draft).map(|()| NotebookPlan::of(draft.plan()));
        let given = self.toolbox.dry_run(true).change(plan, "", leave).await?;
        let before = storage.get_plan(&given.id).await?;
        storage.add_plan(given.clone(), true).await?;
        Ok(Some(Exported {
            plan: plan.clone(),
            given,
            before,
        }))
    }

    /// Exports the current plan, if there is one, in the state that it will have once another has replaced it.
    async fn export_current(&self, by: &PlanHead) -> Result<Option<Exported>> {
        self.toolbox.unbound()?;
        let current = self.toolbox.in_use(Dialect::Notebook).await?;
        let reason = interrupted(by);
        let leave = move |draft: &mut Draft<'_>| Ok(abandon(draft, &reason)?);
        self.export(current.first(), leave).await
    }

    /// Has the storage keep the final state of an exported plan: as it was archived, with the changes of other callers until
    /// then; or, if it goes on, what the storage had of it before.
    async fn settle(&self, exported: Option<Exported>) -> Result<()> {
        let (Some(storage), Some(exported)) = (&self.toolbox.notebook.storage, exported) else {
            return Ok(());
        };
        let (mut given, before) = (exported.given, exported.before);
        let read = self.toolbox.read(&exported.plan, |plan| {
            let goes_on = plan.head().archive_state == ArchiveState::Current;
            (goes_on, NotebookPlan::of(plan))
        });
        let (goes_on, plan) = read.await?;
        // The moment of its end differs in any case.
        given.finished_at.clone_from(&plan.finished_at);
        match before {
            _ if !goes_on && plan == given => {}
            _ if !goes_on => storage.add_plan(plan, true).await?,
            Some(before) => storage.add_plan(before, true).await?,
            None => storage.delete_plan(&given.id).await?,
        }
        Ok(())
    }

    /// Makes a plan the current one, see [`Toolbox::replace`](crate::tools::Toolbox::replace); the storage gets the plan before
    /// it. Returns a message about that one.
    pub(super) async fn replace_current(
        &self,
        head: PlanHead,
        exists: bool,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<()> + Send + 'static,
    ) -> Result<String> {
        let exported = self.export_current(&head).await?;
        let before = exported.as_ref().map(|exported| exported.plan.clone());
        let (toolbox, dialect) = (&self.toolbox, Dialect::Notebook);
        let made = toolbox.replace(dialect, head, exists, why, change).await;
        let settled = self.settle(exported).await;
        let replaced = match made {
            Ok(((), Some(replaced))) => replaced,
            Ok(((), None)) => return Ok(String::new()),
            Err(error) => return Err(self.overtaken(also_stale(error, settled)).await),
        };
        let message = async {
            settled?;
            let plan = self.read_plan(&replaced).await?;
            let (name, id) = (shown(&plan.name), plan.id.clone());
            // Another caller's plan may have become current in between.
            if let Some(storage) = &self.toolbox.notebook.storage
                && before != Some(replaced)
            {
                storage.add_plan(plan, true).await?;
            }
            let text =
                format!(" The plan '{name}' is replaced; the history keeps it under ID '{id}'.");
            Ok::<_, NotebookError>(text)
        };
        Ok(message.await.unwrap_or_else(|failure| {
            format!(" The plan before it is replaced, but not in the history: {failure}")
        }))
    }

    /// Adds to the error of a caller that another was faster which plan is current now.
    pub(super) async fn overtaken(&self, error: NotebookError) -> NotebookError {
        let NotebookError::Tool(ToolError::Store(StoreError::Overtaken(_))) = &error else {
            return error;
        };
        let now = match self.current_head().await {
            Ok(Some(now)) => {
                let (name, id) = (shown(&now.name), now.key());
                format!("the current plan is '{name}' with ID '{id}' now")
            }
            Ok(None) => "there is no current plan any more".to_owned(),
            Err(error) => return error,
        };
        let text = format!("Another caller was faster: {now}. Nothing has been replaced.");
        Conflict.error(text)
    }

    /// Returns the head of the current plan, if there is one.
    pub(super) async fn current_head(&self) -> Result<Option<PlanHead>> {
        self.read_current(|plan| plan.head().clone()).await
    }

    /// Lists the plans of the history, the one that was made last first.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn view_historical_plans(&self, page: Page) -> Result<ToolResponse> {
        let offset = page.offset.unwrap_or(0);
        let limit = page.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let (entries, total) = match &self.toolbox.notebook.storage {
            Some(storage) => {
                let plans = storage.get_plans().await?;
                let listed = plans.iter().rev().skip(offset).take(limit);
                let entries = listed.map(|plan| {
                    let (made, about) = (&plan.created_at, &plan.description);
                    entry(&plan.id, &plan.name, made, about, plan.state)
                });
                (entries.collect(), plans.len())
            }
            None => self.archive().entries(offset, limit).await?,
        };
        let rest = total.saturating_sub(offset);
        let part = Page::new(page.limit, None).shown(rest, entries.into_iter(), |entry| entry);
        let mut texts = part.items;
        if total == 0 {
            texts.push("The history has no plans.".to_owned());
        } else if rest == 0 {
            let plans = counted(total, "plan");
            texts.push(format!("The history has {plans}: none at offset {offset}."));
        }
        if part.left > 0 {
            texts.push(format!("{} more: go on with a larger offset.", part.left));
        }
        let mut response = ToolResponse::new(texts.join("\n\n"), None);
        response.metadata.left = part.left;
        Ok(response)
    }

    /// Makes a plan of the history the current one again, so that work on it can continue. A present plan that is not done is
    /// abandoned and archived. If the program has its own storage, the storage's version of the plan is archived first.
    ///
    /// # Errors
    /// The history has no such plan ([`UnknownPlan`]), or the storage fails.
    pub async fn recover_historical_plan(&self, plan_id: &str) -> Result<ToolResponse> {
        let why = "recover_historical_plan";
        self.toolbox.unbound()?;
        let archive = self.archive();
        let found = archive.find(plan_id).await?;
        let head = match &self.toolbox.notebook.storage {
            Some(storage) => {
                let plan = storage.get_plan(plan_id).await?;
                let plan = plan.ok_or_else(|| not_in_history(plan_id))?;
                match found {
                    Some(found) if found.head.archive_state == ArchiveState::Current => found.head,
                    found => Box::pin(archive.archive_plan(why, plan, found)).await?,
                }
            }
            None => {
                let archived = found.filter(|found| found.head.in_history().is_some());
                archived.ok_or_else(|| not_in_history(plan_id))?.head
            }
        };
        if head.archive_state == ArchiveState::Current {
            return Err(current_already(&head));
        }
        let go_on = |draft: &mut Draft<'_>| match draft.plan().head() {
            head if head.archive_state == ArchiveState::Current => Err(current_already(head)),
            head if head.archive_state == ArchiveState::Deleted => Err(not_in_history(head.key())),
            _ => go_on(draft),
        };
        let (id, name, key) = (head.id.clone(), shown(&head.name), head.key().to_owned());
        let replaced = Box::pin(self.replace_current(head, true, why, go_on)).await?;
        let text = format!(
            "The historical plan '{name}' with ID '{key}' is recovered successfully.{replaced}"
        );
        Ok(self.changed(&id, text).await)
    }
}

/// Adds to an error that the storage did not keep up, if that is so.
fn also_stale(error: NotebookError, settled: Result<()>) -> NotebookError {
    match settled {
        Ok(()) => error,
        Err(failure) => error.code().error(format!(
            "{error} What the history has of the current plan is not true now: {failure}"
        )),
    }
}

/// Ends a plan at its caller's request and archives it.
fn finish(draft: &mut Draft<'_>, state: PlanEnd, outcome: &str) -> Result<()> {
    let plan = draft.plan();
    let (counts, total) = (plan.counts(), plan.counts().total());
    if state == PlanEnd::Done
        && let Some(open) = plan.unsettled().next()
    {
        let left = total - counts.settled();
        let open = called(plan.index_of(open), open);
        return Err(OpenSubtasks.error(format!(
            "The plan cannot be finished as 'done': {left} of {total} subtasks are open, and the one {open} is not done yet. Finish or abandon them, or finish the plan as 'abandoned'."
        )));
    }
    if state == PlanEnd::Done && counts.completed == 0 && total > 0 {
        let text = "The plan cannot be finished as 'done': none of its subtasks is done. Finish it as 'abandoned'.";
        return Err(InvalidState.error(text));
    }
    if draft.plan().head().owner != DAEMON {
        let open: Vec<TaskId> = draft.plan().unsettled().map(|task| task.number).collect();
        for task in open {
            draft.skip_task(task, WITH_PLAN)?;
            draft.set_result(task, None)?;
        }
    }
    draft.finish_plan(state.state().plan_status(), outcome)?;
    Ok(draft.archive(ArchiveState::History)?)
}

/// Abandons a plan unless its caller has finished it.
pub(super) fn abandon(draft: &mut Draft<'_>, reason: &str) -> Result<(), Refusal> {
    match finished(draft.plan().head()) {
        true => Ok(()),
        false => draft.finish_plan(PlanState::Abandoned, reason),
    }
}

/// Makes an archived plan go on. One that was finished as done has nothing to go on with, and stays so until it is changed.
fn go_on(draft: &mut Draft<'_>) -> Result<()> {
    let head = draft.plan().head();
    if head.status == PlanState::Completed && finished(head) {
        return Ok(());
    }
    // They were abandoned in the change that ended the plan, and have no outcome; in older databases, the reason.
    let end = head.finished_at;
    let with_plan = |task: &&Task| {
        let reason = task.result.as_deref().unwrap_or(WITH_PLAN);
        end.is_some() && task.finished_at == end && reason == WITH_PLAN
    };
    let skipped = draft.plan().tasks_in(TaskState::Skipped);
    let tasks: Vec<TaskId> = skipped.filter(with_plan).map(|task| task.number).collect();
    draft.go_on()?;
    for task in tasks {
        draft.reset_task(task)?;
    }
    Ok(follow(draft)?)
}

fn not_in_history(id: &str) -> NotebookError {
    let id = shown(id);
    UnknownPlan.error(format!(
        "Cannot find a plan with ID '{id}' in the history; 'view_historical_plans' lists what is there."
    ))
}

fn current_already(plan: &PlanHead) -> NotebookError {
    let (name, id) = (shown(&plan.name), plan.key());
    let text = format!("The plan '{name}' with ID '{id}' is the current plan already.");
    Conflict.error(text)
}

/// Returns a plan's entry in the list of the history.
pub(super) fn entry(id: &str, name: &str, made: &str, about: &str, state: SubTaskState) -> String {
    format!(
        "Plan '{}':\n- ID: {id}\n- Created At: {made}\n- Description: {}\n- State: {state}",
        shown(name),
        one_line(about, DESCRIPTION)
    )
}
