//! The end of a plan and what comes after it: `finish_plan`, `view_historical_plans`, `recover_historical_plan`. Without a
//! storage of the program's own the history is the store's shelf; a plan that was taken up again is in the history as it was
//! when it was last put away, which the log knows.

use super::PlanNotebook;
use super::answer::{ErrorCode, NotebookError, ToolResponse};
use super::bring::{called, describe, head_of, past_of, prepare, shown};
use super::model::{End, Plan, State, time_text};
use super::storage::{PlanStorage, StorageError, Stored, taken, unknown};
use super::work::{in_hand, rest};
use crate::plan::{
    DAEMON, Draft, Event, Head, PlanId, PlanStatus, Shelf, Task, TaskId, TaskStatus, Time,
};
use crate::store::StoreError;
use crate::tools::page::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::tools::shelf::interrupted;
use crate::tools::{Dialect, Page, ToolError, Toolbox};
use crate::wire::text::one_line;

/// Why a subtask is abandoned that is open when its plan is; taking the plan up again opens it again.
const WITH_PLAN: &str = "abandoned with the plan";

/// Characters of a plan's description in the list of the history.
const DESCRIPTION: usize = 200;

/// Times that a plan is looked at anew when another caller changes it while the storage keeps it.
const TRIES: usize = 4;

/// The plan that another one takes the place of.
pub(super) struct Present {
    pub(super) id: PlanId,
    pub(super) key: String,
    pub(super) name: String,
}

impl Present {
    pub(super) fn replaced(&self) -> String {
        format!(
            " The plan '{}' is replaced; the history keeps it under ID '{}'.",
            shown(&self.name),
            self.key
        )
    }
}

impl PlanNotebook {
    /// Ends the current plan and puts it into the history. Abandoning it abandons its open subtasks.
    ///
    /// # Errors
    /// There is no plan, it is to be done with open subtasks, or the storage fails (the plan goes on then).
    pub async fn finish_plan(
        &self,
        state: End,
        outcome: &str,
    ) -> Result<ToolResponse, NotebookError> {
        let plan = match self.current().await {
            Err(NotebookError::Tool(ToolError::NoPlan)) => {
                let text = "There is no plan to finish.";
                return Err(NotebookError::new(ErrorCode::NoPlan, text));
            }
            other => other?,
        };
        let outcome = outcome.to_owned();
        let end = move |draft: &mut Draft<'_>| {
            in_hand(draft)?;
            finish(draft, state, &outcome)
        };
        let (name, key) = self.end("finish_plan", &plan, end).await?;
        let text = format!(
            "The current plan '{name}' is finished successfully as '{}'; the history keeps it under ID '{key}'.",
            state.state().as_str()
        );
        Ok(self.changed(&plan, text).await)
    }

    /// Ends a plan by a change, which is tried first when a storage is to keep the plan as it will be.
    async fn end<T: Send + 'static>(
        &self,
        why: &str,
        plan: &PlanId,
        end: impl FnOnce(&mut Draft<'_>) -> Result<T, NotebookError> + Clone + Send + 'static,
    ) -> Result<T, NotebookError> {
        let Some(storage) = &self.storage else {
            return self.toolbox.change_or(plan, why, end).await;
        };
        for _ in 0..TRIES {
            let (seen, ended) = self.tried(plan, end.clone()).await?;
            storage.add_plan(ended, true).await?;
            let end = end.clone();
            let ended = self.toolbox.change_or(plan, why, move |draft| {
                if Plan::of(draft.plan()) != seen {
                    return Ok(None);
                }
                end(draft).map(Some)
            });
            if let Some(value) = ended.await? {
                return Ok(value);
            }
        }
        let text = "Other callers keep changing the plan; try again.";
        Err(NotebookError::new(ErrorCode::Conflict, text))
    }

    /// Returns a plan as it is and as a change would leave it.
    async fn tried<T>(
        &self,
        plan: &PlanId,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, NotebookError> + Send + 'static,
    ) -> Result<(Plan, Plan), NotebookError> {
        let tried = self.toolbox.store().read(plan, move |plan, _| {
            let mut scratch = plan.clone();
            let mut draft = Draft::new(&mut scratch, now());
            change(&mut draft)?;
            Ok((Plan::of(plan), Plan::of(&scratch)))
        });
        tried.await?
    }

    /// Returns the current plan if there is one.
    pub(super) async fn present(&self) -> Result<Option<Present>, NotebookError> {
        let id = match self.current().await {
            Ok(id) => id,
            Err(NotebookError::Tool(ToolError::NoPlan)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = self.toolbox.store().read(&id, |plan, _| Present {
            id: plan.id().clone(),
            key: plan.head().key().to_owned(),
            name: plan.head().name.clone(),
        });
        Ok(Some(read.await?))
    }

    /// Has the storage keep the current plan, if there is one, as it will be once another has taken its place.
    pub(super) async fn leave_present(
        &self,
        reason: &str,
    ) -> Result<Option<Present>, NotebookError> {
        if let Some(bound) = &self.toolbox.plan {
            return Err(ToolError::Bound(bound.clone()).into());
        }
        let present = self.present().await?;
        if let (Some(present), Some(storage)) = (&present, &self.storage) {
            let reason = reason.to_owned();
            let leave = move |draft: &mut Draft<'_>| {
                if !draft.plan().status().settled() {
                    draft.finish_plan(false, &reason)?;
                }
                Ok(())
            };
            let (_, left) = self.tried(&present.id, leave).await?;
            storage.add_plan(left, true).await?;
        }
        Ok(present)
    }

    /// Lists the plans of the history, the one that was made last first.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn view_historical_plans(&self, page: Page) -> Result<ToolResponse, NotebookError> {
        let offset = page.offset.unwrap_or(0);
        let (entries, total) = match &self.storage {
            Some(storage) => {
                let plans = storage.get_plans().await?;
                let entries = plans.iter().rev().skip(offset).map(Entry::of);
                (entries.collect(), plans.len())
            }
            None => {
                let limit = page.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
                let storage = StoreStorage(self.toolbox.clone());
                storage.entries(offset, limit).await?
            }
        };
        let rest = total.saturating_sub(offset);
        let shown = Page {
            offset: None,
            ..page
        };
        let part = shown.shown(rest, entries.iter(), Entry::text);
        let mut text = part.items.join("\n\n");
        if total == 0 {
            text = "The history has no plans.".to_owned();
        }
        if part.left > 0 {
            text = format!("{text}\n\n{} more: go on with a larger offset.", part.left);
        }
        let mut response = ToolResponse::success(text);
        response.metadata.left = part.left;
        Ok(response)
    }

    /// Makes a plan of the history the current one again, to be gone on with. A present plan that is not done is abandoned and
    /// goes into the history.
    ///
    /// # Errors
    /// The history has no such plan ([`ErrorCode::UnknownPlan`]), or the storage fails.
    pub async fn recover_historical_plan(
        &self,
        plan_id: &str,
    ) -> Result<ToolResponse, NotebookError> {
        let Some(plan) = self.storage().get_plan(plan_id).await? else {
            let id = shown(plan_id);
            return Err(NotebookError::new(
                ErrorCode::UnknownPlan,
                format!(
                    "Cannot find a plan with ID '{id}' in the history; 'view_historical_plans' lists what is there."
                ),
            ));
        };
        let (name, key) = (shown(&plan.name), plan.id.clone());
        if self
            .present()
            .await?
            .is_some_and(|present| present.key == key)
        {
            return Err(NotebookError::new(
                ErrorCode::Conflict,
                format!("The plan '{name}' with ID '{key}' is the current plan already."),
            ));
        }
        let present = self.leave_present(&interrupted(&head_of(&plan))).await?;
        let id = self.take("recover_historical_plan", plan).await?;
        let mut text =
            format!("The historical plan '{name}' with ID '{key}' is recovered successfully.");
        if let Some(present) = present {
            text += &present.replaced();
        }
        Ok(self.changed(&id, text).await)
    }

    /// Makes a plan the current one, to be gone on with.
    async fn take(&self, why: &str, plan: Plan) -> Result<PlanId, NotebookError> {
        let (toolbox, new) = (&self.toolbox, head_of(&plan));
        let take = move |draft: &mut Draft<'_>| {
            rewrite(draft, &plan)?;
            go_on(draft)?;
            Ok::<_, NotebookError>(draft.plan().id().clone())
        };
        let taken = match kept(toolbox, new.key()).await? {
            Some(head) => toolbox.take_up(Dialect::Notebook, &head, why, take).await?,
            None => toolbox.replace(Dialect::Notebook, new, why, take).await?,
        };
        Ok(taken.0)
    }

    /// Makes a plan the current one exactly as it is given.
    pub(super) async fn load_current(&self, plan: Plan) -> Result<(), NotebookError> {
        let why = "load_state_dict";
        let (toolbox, new) = (&self.toolbox, head_of(&plan));
        let load = move |draft: &mut Draft<'_>| rewrite(draft, &plan);
        match kept(toolbox, new.key()).await? {
            Some(head) => toolbox.take_up(Dialect::Notebook, &head, why, load).await?,
            None => toolbox.replace(Dialect::Notebook, new, why, load).await?,
        };
        Ok(())
    }

    /// Puts the current plan away without another one in its place.
    pub(super) async fn load_none(&self) -> Result<(), NotebookError> {
        let Some(present) = self.present().await? else {
            return Ok(());
        };
        let reason = "interrupted by a state without a plan";
        let leave = move |draft: &mut Draft<'_>| {
            if !draft.plan().status().settled() {
                draft.finish_plan(false, reason)?;
            }
            Ok(draft.put_away(Shelf::History)?)
        };
        self.end("load_state_dict", &present.id, leave).await
    }
}

/// Ends a plan by its caller's word and puts it away; returns its name and id.
fn finish(
    draft: &mut Draft<'_>,
    state: End,
    outcome: &str,
) -> Result<(String, String), NotebookError> {
    if state == End::Done
        && let Some(open) = draft.plan().unsettled().next()
    {
        let counts = draft.plan().counts();
        let open = called(draft.plan().index_of(open), open);
        return Err(NotebookError::new(
            ErrorCode::OpenSubtasks,
            format!(
                "The plan cannot be finished as 'done': {} of {} subtasks are open, and the one {open} is not done yet. Finish or abandon them, or finish the plan as 'abandoned'.",
                counts.total() - counts.settled(),
                counts.total()
            ),
        ));
    }
    if draft.plan().head().owner != DAEMON {
        let open: Vec<TaskId> = draft.plan().unsettled().map(|task| task.number).collect();
        for task in open {
            draft.skip_task(task, WITH_PLAN)?;
        }
    }
    draft.finish_plan(state == End::Done, outcome)?;
    draft.put_away(Shelf::History)?;
    let head = draft.plan().head();
    Ok((shown(&head.name), head.key().to_owned()))
}

/// Lets a plan that was put away go on.
fn go_on(draft: &mut Draft<'_>) -> Result<(), NotebookError> {
    draft.go_on()?;
    let with_plan = |task: &&Task| {
        task.status == TaskStatus::Skipped && task.result.as_deref() == Some(WITH_PLAN)
    };
    let tasks = draft.plan().tasks().filter(with_plan);
    let tasks: Vec<TaskId> = tasks.map(|task| task.number).collect();
    for task in tasks {
        draft.reset_task(task)?;
    }
    Ok(rest(draft)?)
}

/// Makes a plan what another one is; nothing changes if it is that already.
fn rewrite(draft: &mut Draft<'_>, plan: &Plan) -> Result<(), NotebookError> {
    if Plan::of(draft.plan()) == *plan {
        return Ok(());
    }
    let prepared = prepare(&plan.subtasks, "subtasks")?;
    let past = past_of(plan)?;
    if draft.plan().counts().total() > 0 || draft.plan().status() != &PlanStatus::Idle {
        draft.reset()?;
    }
    draft.describe(|head| describe(head, plan));
    prepared.fill(draft)?;
    Ok(draft.record_plan(past)?)
}

/// Returns the plan of the notebook that has an id, wherever it is kept.
async fn kept(toolbox: &Toolbox, id: &str) -> Result<Option<Head>, StoreError> {
    let Some(plan) = toolbox.store().find(id).await? else {
        return Ok(None);
    };
    let head = toolbox.store().read(&plan, |plan, _| plan.head().clone());
    Ok(Some(head.await?).filter(|head| head.owner == Dialect::Notebook.as_str()))
}

/// A plan in the list of the history.
pub(super) struct Entry {
    id: String,
    name: String,
    created_at: String,
    description: String,
    state: State,
}

impl Entry {
    fn of(plan: &Plan) -> Self {
        Self {
            id: plan.id.clone(),
            name: shown(&plan.name),
            created_at: plan.created_at.clone(),
            description: one_line(&plan.description, DESCRIPTION),
            state: plan.state,
        }
    }

    fn of_head(head: &Head) -> Self {
        Self {
            id: head.key().to_owned(),
            name: shown(&head.name),
            created_at: time_text(head.created_at),
            description: one_line(&head.description, DESCRIPTION),
            state: State::of_plan(&head.status),
        }
    }

    fn text(&self) -> String {
        format!(
            "Plan '{}':\n- ID: {}\n- Created At: {}\n- Description: {}\n- State: {}",
            self.name,
            self.id,
            self.created_at,
            self.description,
            self.state.as_str()
        )
    }
}

fn now() -> Time {
    Time(jiff::Timestamp::now().as_microsecond())
}

/// The history in the store.
#[derive(Clone, Debug)]
pub(super) struct StoreStorage(pub(super) Toolbox);

impl StoreStorage {
    /// Returns the heads of plans in the history, the newest first, and how many there are.
    async fn heads(&self, offset: usize, limit: usize) -> Result<(Vec<Head>, usize), StorageError> {
        let owner = Dialect::Notebook.as_str();
        let shelved = self.0.store().shelved(owner, offset, limit).await;
        let (listed, total) = shelved.map_err(failed)?;
        let heads = listed.into_iter().map(|listed| listed.head);
        Ok((heads.collect(), total))
    }

    async fn entries(
        &self,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Entry>, usize), StorageError> {
        let (heads, total) = self.heads(offset, limit).await?;
        let mut entries = Vec::new();
        for head in heads {
            if head.shelf == Shelf::History {
                entries.push(Entry::of_head(&head));
            } else {
                entries.extend(self.as_kept(&head).await?.as_ref().map(Entry::of));
            }
        }
        Ok((entries, total))
    }

    /// Puts a plan into the history as it is given, also one that is current.
    pub(super) async fn keep(&self, why: &str, plan: Plan) -> Result<(), NotebookError> {
        let head = kept(&self.0, &plan.id).await?;
        if let Some(head) = &head
            && self.as_kept(head).await?.as_ref() == Some(&plan)
        {
            return Ok(());
        }
        let new = head_of(&plan);
        let keep = move |draft: &mut Draft<'_>| {
            rewrite(draft, &plan)?;
            Ok::<_, NotebookError>(draft.put_away(Shelf::History)?)
        };
        match head {
            Some(head) => self.0.change_or(&head.id, why, keep).await,
            None => self.0.create_or(Dialect::Notebook, new, why, keep).await,
        }
    }

    /// Returns a plan as it was when it was last put away.
    pub(super) async fn as_kept(&self, head: &Head) -> Result<Option<Plan>, StorageError> {
        let store = self.0.store();
        if head.shelf == Shelf::Current && !head.kept {
            return Ok(None);
        }
        if head.shelf == Shelf::History {
            let plan = store.read(&head.id, |plan, _| Plan::of(plan)).await;
            return plan.map(Some).map_err(failed);
        }
        let (mut last, mut kept) = (0, None);
        loop {
            let changes = store.since(&head.id, last, 1000).await.map_err(failed)?;
            let Some(change) = changes.last() else {
                break;
            };
            last = change.seq;
            let put_away = Event::PutAway {
                shelf: Shelf::History,
            };
            let put_away = changes
                .iter()
                .rev()
                .find(|change| change.delta.events.contains(&put_away));
            kept = put_away.map(|change| change.seq).or(kept);
        }
        match kept {
            Some(seq) => {
                let plan = store.at(&head.id, seq).await.map_err(failed)?;
                Ok(Some(Plan::of(&plan)))
            }
            None => Ok(None),
        }
    }
}

impl PlanStorage for StoreStorage {
    fn add_plan(&self, plan: Plan, r#override: bool) -> Stored<'_, ()> {
        Box::pin(async move {
            match kept(&self.0, &plan.id).await.map_err(failed)? {
                Some(head) if head.shelf == Shelf::Current => Err(StorageError::Key(format!(
                    "the plan with ID '{}' is the current plan",
                    plan.id
                ))),
                Some(_) if !r#override => Err(taken(&plan.id)),
                _ => self.keep("add_plan", plan).await.map_err(unkept),
            }
        })
    }

    fn delete_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, ()> {
        Box::pin(async move {
            let head = kept(&self.0, plan_id).await.map_err(failed)?;
            let in_history = |head: &Head| head.shelf == Shelf::History || head.kept;
            let head = head.filter(in_history).ok_or_else(|| unknown(plan_id))?;
            let delete = |draft: &mut Draft<'_>| {
                if draft.plan().head().shelf == Shelf::Current {
                    draft.describe(|head| head.kept = false);
                    return Ok(());
                }
                Ok::<_, NotebookError>(draft.put_away(Shelf::Deleted)?)
            };
            let deleted = self.0.change_or(&head.id, "delete_plan", delete).await;
            deleted.map_err(unkept)
        })
    }

    fn get_plans(&self) -> Stored<'_, Vec<Plan>> {
        Box::pin(async move {
            let mut plans = Vec::new();
            for head in self.heads(0, usize::MAX).await?.0.into_iter().rev() {
                plans.extend(self.as_kept(&head).await?);
            }
            Ok(plans)
        })
    }

    fn get_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, Option<Plan>> {
        Box::pin(async move {
            match kept(&self.0, plan_id).await.map_err(failed)? {
                Some(head) => self.as_kept(&head).await,
                None => Ok(None),
            }
        })
    }
}

fn failed(error: StoreError) -> StorageError {
    match error {
        StoreError::PlanTaken(id) => taken(id.as_str()),
        StoreError::UnknownPlan(id) => unknown(id.as_str()),
        StoreError::Damaged { .. } => StorageError::Serialization(error.to_string()),
        other => StorageError::Connection(other.to_string()),
    }
}

fn unkept(error: NotebookError) -> StorageError {
    match error {
        NotebookError::Tool(ToolError::Store(error)) => failed(error),
        NotebookError::Storage(error) => error,
        other => StorageError::Serialization(other.to_string()),
    }
}
