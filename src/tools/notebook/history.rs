//! The end of a plan and what comes after it: `finish_plan`, `view_historical_plans`, `recover_historical_plan`. Without a
//! storage of the program's own the history is the store's shelf; a plan that was taken up again is in the history as it was
//! when it was last put away, which the log knows.

use super::PlanNotebook;
use super::answer::{ErrorCode, NotebookError, ToolResponse};
use super::bring::{called, describe, head_of, past_of, prepare, shown};
use super::model::{End, Plan, State, time_text};
use super::shelved::{Kept, StoreStorage, kept};
use super::work::{follow, in_hand};
use crate::plan::{
    DAEMON, Draft, Head, PlanId, PlanStatus, Shelf, Task, TaskId, TaskStatus, Time, counted,
};
use crate::store::StoreError;
use crate::tools::page::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::tools::shelf::interrupted;
use crate::tools::{Dialect, Page, ToolError};
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

/// A plan whose place another is about to take.
pub(super) struct Leaving {
    present: Option<Present>,
    /// What the program's own storage had of it, and what it has now.
    kept: Option<(Option<Plan>, Plan)>,
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
        let head = self.end("finish_plan", &plan, end).await?;
        let history = if self.storage.is_some() || head.owner == Dialect::Notebook.as_str() {
            "the history"
        } else {
            // It is another dialect's, which shows it there.
            &format!("the history of '{}'", head.owner)
        };
        let text = format!(
            "The current plan '{}' is finished successfully as '{}'; {history} keeps it under ID '{}'.",
            shown(&head.name),
            state.state().as_str(),
            head.key()
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
        let id = match self.seen().await {
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

    /// Has the storage keep the current plan, if there is one, as it will be once another has taken its place. So a plan that
    /// an ended caller left beside the one that replaced it is in the storage already.
    pub(super) async fn leave_present(&self, reason: &str) -> Result<Leaving, NotebookError> {
        if let Some(bound) = &self.toolbox.plan {
            return Err(ToolError::Bound(bound.clone()).into());
        }
        let present = self.present().await?;
        let mut kept = None;
        if let (Some(present), Some(storage)) = (&present, &self.storage) {
            let reason = reason.to_owned();
            let leave = move |draft: &mut Draft<'_>| {
                if !draft.plan().status().settled() {
                    draft.finish_plan(false, &reason)?;
                }
                Ok(())
            };
            let (_, left) = self.tried(&present.id, leave).await?;
            let before = storage.get_plan(&left.id).await?;
            storage.add_plan(left.clone(), true).await?;
            kept = Some((before, left));
        }
        Ok(Leaving { present, kept })
    }

    /// Sees to it that the storage has the plan that another was to take the place of as that ended: as it was put away, with
    /// what others did to it until then; or, if it goes on, as the storage had it before. Returns what is to be said of it.
    pub(super) async fn left<T>(
        &self,
        leaving: Leaving,
        taken: Result<(T, Option<PlanId>), NotebookError>,
    ) -> Result<(T, String), NotebookError> {
        match taken {
            Err(error) => match self.put_back(leaving).await {
                Ok(()) => Err(error),
                Err(failure) => {
                    let text = format!(
                        "{error} What the history has of the current plan is not true now: {failure}"
                    );
                    Err(NotebookError::new(error.code(), text))
                }
            },
            Ok((value, None)) => Ok((value, String::new())),
            Ok((value, Some(replaced))) => {
                let told = self.keep_replaced(leaving, &replaced).await;
                let text = told.unwrap_or_else(|failure| {
                    format!(" The plan before it is replaced, but not in the history: {failure}")
                });
                Ok((value, text))
            }
        }
    }

    async fn keep_replaced(
        &self,
        leaving: Leaving,
        replaced: &PlanId,
    ) -> Result<String, NotebookError> {
        let plan = self.read_plan(replaced).await?;
        let (name, key) = (plan.name.clone(), plan.id.clone());
        if let Some(storage) = &self.storage {
            let kept = leaving.kept.map(|(_, left)| left);
            let mut ended = vec![plan];
            // Another one may have taken its place just before.
            if let Some(present) = leaving.present.filter(|present| present.id != *replaced) {
                ended.push(self.read_plan(&present.id).await?);
            }
            for plan in ended {
                // The moment at which it ended is another one in any case.
                let as_kept = kept.as_ref().is_some_and(|kept| {
                    let finished_at = kept.finished_at.clone();
                    Plan {
                        finished_at,
                        ..plan.clone()
                    } == *kept
                });
                if !as_kept {
                    storage.add_plan(plan, true).await?;
                }
            }
        }
        let name = shown(&name);
        Ok(format!(
            " The plan '{name}' is replaced; the history keeps it under ID '{key}'."
        ))
    }

    async fn put_back(&self, leaving: Leaving) -> Result<(), NotebookError> {
        let (Some(present), Some((before, left)), Some(storage)) =
            (leaving.present, leaving.kept, &self.storage)
        else {
            return Ok(());
        };
        let read = self.toolbox.store().read(&present.id, |plan, _| {
            (plan.head().shelf == Shelf::Current, Plan::of(plan))
        });
        let (goes_on, plan) = read.await?;
        match before {
            _ if !goes_on => storage.add_plan(plan, true).await?,
            Some(before) => storage.add_plan(before, true).await?,
            None => storage.delete_plan(&left.id).await?,
        }
        Ok(())
    }

    /// Says of a caller that was not fast enough who was.
    pub(super) async fn overtaken(&self, error: NotebookError) -> NotebookError {
        let NotebookError::Tool(ToolError::Store(StoreError::Overtaken(_))) = &error else {
            return error;
        };
        let now = match self.present().await {
            Ok(Some(now)) => {
                format!(
                    "the current plan is '{}' with ID '{}' now",
                    shown(&now.name),
                    now.key
                )
            }
            Ok(None) => "there is no current plan any more".to_owned(),
            Err(error) => return error,
        };
        let text = format!("Another caller was faster: {now}. Nothing has been replaced.");
        NotebookError::new(ErrorCode::Conflict, text)
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
        let mut response = ToolResponse::success(texts.join("\n\n"));
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
        if let Some(bound) = &self.toolbox.plan {
            return Err(ToolError::Bound(bound.clone()).into());
        }
        let here = kept(&self.toolbox, plan_id).await?;
        // The store's own history needs no copy: what is on its shelf is the plan as it was put away.
        let plan = match (&self.storage, &here) {
            (None, None) => None,
            (None, Some(here)) => here
                .head
                .in_history()
                .is_some()
                .then(|| (here.plan.clone(), false)),
            (Some(storage), _) => storage.get_plan(plan_id).await?.map(|plan| (plan, true)),
        };
        let (plan, copy) = plan.ok_or_else(|| not_in_history(plan_id))?;
        let present = self.present().await?;
        if present.is_some_and(|present| present.key == plan.id) {
            return Err(current_already(&plan));
        }
        let taken = Box::pin(self.take(plan.clone(), here, copy)).await;
        let (id, left) = match taken {
            Ok(taken) => taken,
            Err(error) => return Err(self.overtaken(error).await),
        };
        let mut text = format!(
            "The historical plan '{}' with ID '{}' is recovered successfully.",
            shown(&plan.name),
            plan.id
        );
        text += &left;
        Ok(self.changed(&id, text).await)
    }

    /// Makes a plan of the history the current one, to be gone on with; returns its id and what is to be said of the one whose
    /// place it takes. A copy is written over what the store has of the plan, if that is still what was seen `here`.
    pub(super) async fn take(
        &self,
        plan: Plan,
        here: Option<Kept>,
        copy: bool,
    ) -> Result<(PlanId, String), NotebookError> {
        let why = "recover_historical_plan";
        let new = head_of(&plan);
        let left = self.leave_present(&interrupted(&new)).await?;
        let head = here.as_ref().map(|here| here.head.clone());
        let take = move |draft: &mut Draft<'_>| {
            match draft.plan().head().shelf {
                Shelf::Current if here.is_some() => return Err(current_already(&plan)),
                Shelf::Deleted => return Err(not_in_history(&plan.id)),
                _ => {}
            }
            if copy {
                if let Some(here) = &here {
                    here.still(draft)?;
                }
                rewrite(draft, &plan)?;
            }
            go_on(draft)?;
            Ok::<_, NotebookError>(draft.plan().id().clone())
        };
        let toolbox = &self.toolbox;
        let taken = match head {
            Some(head) => toolbox.take_up(Dialect::Notebook, &head, why, take).await,
            None => toolbox.replace(Dialect::Notebook, new, why, take).await,
        };
        self.left(left, taken).await
    }

    /// Makes a plan the current one exactly as it is given.
    pub(super) async fn load_current(&self, plan: Plan) -> Result<(), NotebookError> {
        let why = "load_state_dict";
        let (toolbox, new) = (&self.toolbox, head_of(&plan));
        let here = kept(toolbox, new.key()).await?;
        let head = here.as_ref().map(|here| here.head.clone());
        let load = move |draft: &mut Draft<'_>| {
            if let Some(here) = &here {
                here.still(draft)?;
            }
            rewrite(draft, &plan)?;
            // One that has not been begun stays so, whatever its subtasks are: it is as it was given.
            if draft.plan().status() == &PlanStatus::Running {
                draft.follow_tasks();
            }
            Ok::<_, NotebookError>(())
        };
        let loaded = match head {
            Some(head) => toolbox.take_up(Dialect::Notebook, &head, why, load).await,
            None => toolbox.replace(Dialect::Notebook, new, why, load).await,
        };
        match loaded {
            Ok(_) => Ok(()),
            Err(error) => Err(self.overtaken(error).await),
        }
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

/// Ends a plan by its caller's word and puts it away; returns its head.
fn finish(draft: &mut Draft<'_>, state: End, outcome: &str) -> Result<Head, NotebookError> {
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
    Ok(draft.plan().head().clone())
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
    Ok(follow(draft)?)
}

/// Makes a plan what another one is; nothing changes if it is that already.
pub(super) fn rewrite(draft: &mut Draft<'_>, plan: &Plan) -> Result<(), NotebookError> {
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

fn not_in_history(id: &str) -> NotebookError {
    let id = shown(id);
    NotebookError::new(
        ErrorCode::UnknownPlan,
        format!(
            "Cannot find a plan with ID '{id}' in the history; 'view_historical_plans' lists what is there."
        ),
    )
}

fn current_already(plan: &Plan) -> NotebookError {
    NotebookError::new(
        ErrorCode::Conflict,
        format!(
            "The plan '{}' with ID '{}' is the current plan already.",
            shown(&plan.name),
            plan.id
        ),
    )
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
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            id: plan.id.clone(),
            name: shown(&plan.name),
            created_at: plan.created_at.clone(),
            description: one_line(&plan.description, DESCRIPTION),
            state: plan.state,
        }
    }

    /// Returns a plan of the store as it was when it was last put away, if ever.
    pub(super) fn kept(head: &Head) -> Option<Self> {
        let kept = head.in_history()?;
        Some(Self {
            id: head.key().to_owned(),
            name: shown(&kept.name),
            created_at: time_text(head.created_at),
            description: one_line(&kept.description, DESCRIPTION),
            state: State::of_status(&kept.status),
        })
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
