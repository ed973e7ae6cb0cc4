//! The history in the store: the archived plans of the notebook, and for a recovered plan its state when it was last archived.

use super::*;

const OWNER: &str = Dialect::Notebook.as_str();

/// A plan of the notebook in the store, current or not, as it was read.
pub(super) struct ArchivedPlan {
    pub(super) head: PlanHead,
    pub(super) plan: NotebookPlan,
}

impl ArchivedPlan {
    /// Refuses if another caller has changed or moved the plan since.
    pub(super) fn is_unchanged(&self, draft: &Draft<'_>) -> Result<()> {
        let plan = draft.plan();
        let moved = plan.head().archive_state != self.head.archive_state;
        if !moved && NotebookPlan::of(plan) == self.plan {
            return Ok(());
        }
        let (name, id) = (shown(&self.plan.name), &self.plan.id);
        Err(Conflict.error(format!(
            "Another caller has changed the plan '{name}' with ID '{id}' meanwhile; look at it and try again."
        )))
    }
}

/// The history in the store.
#[derive(Clone, Debug)]
pub(super) struct Archive(pub(super) Toolbox);

impl Archive {
    /// Returns the notebook's plan with an id, current or archived.
    pub(super) async fn find(&self, id: &str) -> Result<Option<ArchivedPlan>, StoreError> {
        let Some(plan) = self.0.store().find(id).await? else {
            return Ok(None);
        };
        let read = |plan: &Plan, _| (plan.head().clone(), NotebookPlan::of(plan));
        let (head, plan) = self.0.store().read(&plan, read).await?;
        let found = ArchivedPlan { head, plan };
        Ok(Some(found).filter(|found| found.head.owner == OWNER))
    }

    /// Returns archived plans as entries of the history, the newest first, and their total number.
    pub(super) async fn entries(
        &self,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<String>, usize), StorageError> {
        let (listed, total) = self.0.store().archived(OWNER, offset, limit).await?;
        let entries = listed.iter().filter_map(|listed| {
            let head = &listed.head;
            let was = head.in_history()?;
            let made = time_text(head.created_at);
            let state = SubTaskState::of_status(&was.status);
            Some(entry(head.key(), &was.name, &made, &was.description, state))
        });
        Ok((entries.collect(), total))
    }

    /// Archives a plan as given, unless it is archived in this form already. It replaces the plan that was found, even if that
    /// is current. Returns its head.
    pub(super) async fn archive_plan(
        &self,
        why: &str,
        plan: NotebookPlan,
        found: Option<ArchivedPlan>,
    ) -> Result<PlanHead> {
        if let Some(found) = &found
            && self.as_archived(&found.head).await?.as_ref() == Some(&plan)
        {
            return Ok(found.head.clone());
        }
        let may = |draft: &Draft<'_>, found: &ArchivedPlan| found.is_unchanged(draft);
        self.write(why, plan, found, may).await
    }

    /// Archives a plan as given: as a new one, or in place of the one that was found if that is allowed, which is decided
    /// within the change.
    async fn write(
        &self,
        why: &str,
        plan: NotebookPlan,
        found: Option<ArchivedPlan>,
        may: impl FnOnce(&Draft<'_>, &ArchivedPlan) -> Result<()> + Send + 'static,
    ) -> Result<PlanHead> {
        let subject = match &found {
            Some(found) => ChangeSubject::from(&found.head.id),
            None => ChangeSubject::New(Dialect::Notebook, Box::new(head_of(&plan))),
        };
        let write = move |draft: &mut Draft<'_>| {
            if let Some(found) = &found {
                may(draft, found)?;
            }
            rewrite(draft, &plan)?;
            draft.archive(ArchiveState::History)?;
            Ok(draft.plan().head().clone())
        };
        self.0.change(subject, why, write).await
    }

    /// Returns a plan in the state in which it was last archived, if it ever was.
    async fn as_archived(&self, head: &PlanHead) -> Result<Option<NotebookPlan>, StorageError> {
        let store = self.0.store();
        if head.in_history().is_none() {
            return Ok(None);
        }
        let archive_state = ArchiveState::History;
        if head.archive_state == archive_state {
            let plan = store.read(&head.id, |plan, _| NotebookPlan::of(plan));
            return Ok(Some(plan.await?));
        }
        // The plan was recovered: the log has its archived state.
        let archived = Event::PutAway { archive_state };
        let (mut last, mut seq) = (0, None);
        while let changes = store.since(&head.id, last, 1000).await?
            && let Some(change) = changes.last()
        {
            last = change.seq;
            let mut changes = changes.iter().rev();
            let newest = changes.find(|change| change.delta.events.contains(&archived));
            seq = newest.map(|change| change.seq).or(seq);
        }
        match seq {
            Some(seq) => Ok(Some(NotebookPlan::of(&store.at(&head.id, seq).await?))),
            None => Ok(None),
        }
    }
}

impl PlanStorageBase for Archive {
    fn add_plan(&self, plan: NotebookPlan, r#override: bool) -> Stored<'_, ()> {
        Box::pin(async move {
            let found = self.find(&plan.id).await?;
            let may = move |draft: &Draft<'_>, found: &ArchivedPlan| {
                if draft.plan().head().archive_state == ArchiveState::Current {
                    let text = format!("the plan with ID '{}' is the current plan", found.plan.id);
                    return Err(StorageError::Key(text).into());
                }
                match r#override {
                    true => Ok(()),
                    false => Err(taken(&found.plan.id).into()),
                }
            };
            Ok(self.write("add_plan", plan, found, may).await.map(drop)?)
        })
    }

    fn delete_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, ()> {
        Box::pin(async move {
            let found = self.find(plan_id).await?;
            let head = found.ok_or_else(|| unknown(plan_id))?.head;
            let id = plan_id.to_owned();
            let delete = move |draft: &mut Draft<'_>| {
                let head = draft.plan().head();
                if head.in_history().is_none() {
                    return Err(unknown(&id).into());
                }
                if head.archive_state == ArchiveState::Current {
                    draft.change_head(|head| head.put_away = None);
                    return Ok(());
                }
                Ok::<_, NotebookError>(draft.archive(ArchiveState::Deleted)?)
            };
            Ok(self.0.change(&head.id, "delete_plan", delete).await?)
        })
    }

    fn get_plans(&self) -> Stored<'_, Vec<NotebookPlan>> {
        Box::pin(async move {
            let mut plans = Vec::new();
            let (listed, _) = self.0.store().archived(OWNER, 0, usize::MAX).await?;
            for listed in listed.iter().rev() {
                plans.extend(self.as_archived(&listed.head).await?);
            }
            Ok(plans)
        })
    }

    fn get_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, Option<NotebookPlan>> {
        Box::pin(async move {
            match self.find(plan_id).await? {
                Some(found) => self.as_archived(&found.head).await,
                None => Ok(None),
            }
        })
    }
}

impl From<StoreError> for StorageError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::PlanTaken(id) => taken(id.as_str()),
            StoreError::UnknownPlan(id) => unknown(id.as_str()),
            StoreError::Damaged { .. } => Self::Serialization(error.to_string()),
            _ => Self::Connection(error.to_string()),
        }
    }
}

impl From<NotebookError> for StorageError {
    fn from(error: NotebookError) -> Self {
        match error {
            NotebookError::Tool(ToolError::Store(error)) => error.into(),
            NotebookError::Storage(error) => error,
            other => Self::Serialization(other.to_string()),
        }
    }
}
