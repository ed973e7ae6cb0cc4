//! The history in the store: the plans of the notebook that were put away, and of one that was taken up again what it was when
//! it was last put away.

use super::answer::{ErrorCode, NotebookError};
use super::bring::{head_of, shown};
use super::history::{Entry, rewrite};
use super::model::Plan;
use super::storage::{PlanStorage, StorageError, Stored, taken, unknown};
use crate::plan::{Draft, Event, Head, PlanId, Shelf};
use crate::store::StoreError;
use crate::tools::{Dialect, ToolError, Toolbox};

/// A plan in the store, current or not, as it was seen.
pub(super) struct Kept {
    pub(super) head: Head,
    pub(super) plan: Plan,
}

impl Kept {
    /// Refuses if another caller has changed or moved the plan since.
    pub(super) fn still(&self, draft: &Draft<'_>) -> Result<(), NotebookError> {
        let plan = draft.plan();
        if plan.head().shelf == self.head.shelf && Plan::of(plan) == self.plan {
            return Ok(());
        }
        Err(NotebookError::new(
            ErrorCode::Conflict,
            format!(
                "Another caller has changed the plan '{}' with ID '{}' meanwhile; look at it and try again.",
                shown(&self.plan.name),
                self.plan.id
            ),
        ))
    }
}

/// Returns the plan of the notebook that has an id, wherever it is kept.
pub(super) async fn kept(toolbox: &Toolbox, id: &str) -> Result<Option<Kept>, StoreError> {
    let Some(plan) = toolbox.store().find(id).await? else {
        return Ok(None);
    };
    let read = toolbox.store().read(&plan, |plan, _| Kept {
        head: plan.head().clone(),
        plan: Plan::of(plan),
    });
    let kept = read.await?;
    Ok(Some(kept).filter(|kept| kept.head.owner == Dialect::Notebook.as_str()))
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

    pub(super) async fn entries(
        &self,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Entry>, usize), StorageError> {
        let (heads, total) = self.heads(offset, limit).await?;
        Ok((heads.iter().filter_map(Entry::kept).collect(), total))
    }

    /// Puts a plan into the history as it is given, also one that is current.
    pub(super) async fn keep(&self, why: &str, plan: Plan) -> Result<(), NotebookError> {
        let here = kept(&self.0, &plan.id).await?;
        if let Some(here) = &here
            && self.as_kept(&here.head).await?.as_ref() == Some(&plan)
        {
            return Ok(());
        }
        self.put(
            why,
            plan,
            here.map(|here| (here.head.id.clone(), here)),
            |draft, here| here.still(draft),
        )
        .await
    }

    /// Writes a plan into the history: a new one, or over the one that is there if that may be, which is looked at within the
    /// change.
    pub(super) async fn put(
        &self,
        why: &str,
        plan: Plan,
        here: Option<(PlanId, Kept)>,
        may: impl FnOnce(&Draft<'_>, &Kept) -> Result<(), NotebookError> + Send + 'static,
    ) -> Result<(), NotebookError> {
        let new = head_of(&plan);
        let put = move |draft: &mut Draft<'_>, here: Option<&Kept>| {
            if let Some(here) = here {
                may(draft, here)?;
            }
            rewrite(draft, &plan)?;
            Ok::<_, NotebookError>(draft.put_away(Shelf::History)?)
        };
        match here {
            Some((id, here)) => {
                let put = move |draft: &mut Draft<'_>| put(draft, Some(&here));
                self.0.change_or(&id, why, put).await
            }
            None => {
                let put = move |draft: &mut Draft<'_>| put(draft, None);
                self.0.create_or(Dialect::Notebook, new, why, put).await
            }
        }
    }

    /// Returns a plan as it was when it was last put away.
    pub(super) async fn as_kept(&self, head: &Head) -> Result<Option<Plan>, StorageError> {
        let store = self.0.store();
        if head.in_history().is_none() {
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
            let here = kept(&self.0, &plan.id).await.map_err(failed)?;
            let here = here.map(|here| (here.head.id.clone(), here));
            let added = self.put("add_plan", plan, here, move |draft, here| {
                if draft.plan().head().shelf == Shelf::Current {
                    let text = format!("the plan with ID '{}' is the current plan", here.plan.id);
                    return Err(StorageError::Key(text).into());
                }
                if !r#override {
                    return Err(taken(&here.plan.id).into());
                }
                Ok(())
            });
            added.await.map_err(unkept)
        })
    }

    fn delete_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, ()> {
        Box::pin(async move {
            let here = kept(&self.0, plan_id).await.map_err(failed)?;
            let head = here.ok_or_else(|| unknown(plan_id))?.head;
            let id = plan_id.to_owned();
            let delete = move |draft: &mut Draft<'_>| {
                let head = draft.plan().head();
                if head.in_history().is_none() {
                    return Err(unknown(&id).into());
                }
                if head.shelf == Shelf::Current {
                    draft.describe(|head| head.put_away = None);
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
                Some(here) => self.as_kept(&here.head).await,
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
