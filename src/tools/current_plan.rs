//! The one current plan of a dialect. A new plan becomes current first and the old one is archived afterwards, so that a caller
//! which ends between the two leaves a current plan; the next caller that changes something and finds two archives the older
//! one.

use super::{ChangeSubject, Dialect, Result, ToolError, Toolbox};
use crate::plan::{ArchiveState, Draft, PlanHead, PlanId, PlanState, Refusal, Time};
use crate::store::StoreError;
use crate::wire::one_line;

/// The most plans in use that are read: there is one, unless callers ended between the two steps.
const SEEN: usize = 8;

impl Toolbox {
    /// Returns the plan for a call that names none: the one to which calls are bound, else the dialect's current one.
    pub(super) async fn only_current(&self, dialect: Dialect) -> Result<PlanId> {
        if let Some(plan) = &self.plan {
            return Ok(plan.clone());
        }
        let mut own = self.in_use(dialect).await?;
        let older = own.split_off(own.len().min(1));
        let newest = own.pop().ok_or(ToolError::NoPlan)?;
        if !older.is_empty() {
            let by = self.head(&newest).await?;
            let (since, reason) = (current_since(&by), interrupted(&by));
            let archived = self.archive(dialect, older, since, "replaced", &reason);
            archived.await?;
        }
        Ok(newest)
    }

    /// Makes a plan the dialect's current one: a new one with this head, or the one in the store that has it. The closure's
    /// work belongs to the same change; the closure gets the plan before it becomes current. The plan that was current is
    /// archived, and its id is returned with the closure's result. If two callers do this simultaneously, one gets the error
    /// that the other was faster.
    pub(super) async fn replace<T, E>(
        &self,
        dialect: Dialect,
        head: PlanHead,
        exists: bool,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<(T, Option<PlanId>), E>
    where
        T: Send + 'static,
        E: From<ToolError> + Send + 'static,
    {
        self.unbound()?;
        let mut own = self.in_use(dialect).await?;
        let mut still = self.clone();
        still.store = (self.store).only_while(dialect.as_str(), own.first().cloned());
        own.retain(|id| *id != head.id);
        let newest = match own.first() {
            Some(newest) => Some(current_since(&self.head(newest).await?)),
            None => None,
        };
        let reason = interrupted(&head);
        let change = move |draft: &mut Draft<'_>| {
            let value = change(draft)?;
            if exists {
                draft.reactivate().map_err(ToolError::from)?;
            }
            // The clocks of two processes may differ: the plan is the one that became current last nevertheless.
            let now = draft.now();
            let at = newest.map_or(now, |newest| now.max(Time(newest.0 + 1)));
            draft.change_head(|head| head.taken_up = Some(at));
            Ok::<_, E>((value, at))
        };
        let subject = match exists {
            true => ChangeSubject::from(&head.id),
            false => ChangeSubject::New(dialect, Box::new(head)),
        };
        let (value, since) = still.change(subject, why, change).await?;
        let replaced = own.first().cloned();
        self.archive(dialect, own, since, why, &reason).await?;
        Ok((value, replaced))
    }

    /// Returns the dialect's plans that are in use, the one that became current last first.
    pub(super) async fn in_use(&self, dialect: Dialect) -> Result<Vec<PlanId>> {
        Ok(self.store().current(dialect.as_str(), SEEN).await?)
    }

    pub(super) async fn head(&self, plan: &PlanId) -> Result<PlanHead> {
        self.read(plan, |plan| plan.head().clone()).await
    }

    /// Archives plans that another one replaced at a moment, except those that a caller has archived or recovered since then. A
    /// plan of the notebook is also abandoned.
    async fn archive(
        &self,
        dialect: Dialect,
        plans: Vec<PlanId>,
        replaced: Time,
        why: &str,
        reason: &str,
    ) -> Result<()> {
        for plan in &plans {
            let reason = reason.to_owned();
            let archive = move |draft: &mut Draft<'_>| {
                let head = draft.plan().head();
                if head.archive_state == ArchiveState::Current && current_since(head) <= replaced {
                    if dialect == Dialect::Notebook && !finished(head) {
                        draft.finish_plan(PlanState::Abandoned, &reason)?;
                    }
                    draft.archive(ArchiveState::History)?;
                }
                Ok(())
            };
            match self.change(plan, why, archive).await {
                Err(ToolError::Store(StoreError::Refused(Refusal::Deleted))) => {}
                changed => changed?,
            }
        }
        Ok(())
    }
}

/// Returns why a plan ends when another one replaces it.
pub(super) fn interrupted(by: &PlanHead) -> String {
    let name = one_line(&by.name, 120);
    format!("interrupted by the plan '{name}' with ID '{}'", by.key())
}

/// Returns whether the notebook's caller has finished the plan. A plan that has ended only because its tasks are settled has no
/// outcome.
pub(super) fn finished(head: &PlanHead) -> bool {
    head.status.settled() && head.outcome.as_deref().is_some_and(|text| !text.is_empty())
}

/// Returns when the plan became the current one.
pub(super) fn current_since(head: &PlanHead) -> Time {
    head.taken_up.unwrap_or(head.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::new_plan_id;

    const DIALECT: Dialect = Dialect::Notebook;

    async fn new_plan(toolbox: &Toolbox) -> (PlanId, Option<PlanId>) {
        let head = PlanHead::new(new_plan_id(), "goal", Time(0));
        let id = |draft: &mut Draft<'_>| Ok::<_, ToolError>(draft.plan().id().clone());
        toolbox
            .replace(DIALECT, head, false, "made", id)
            .await
            .unwrap()
    }

    async fn archive_state_of(toolbox: &Toolbox, plan: &PlanId) -> ArchiveState {
        let archive_state = toolbox
            .store()
            .read(plan, |plan, _| plan.head().archive_state);
        archive_state.await.unwrap()
    }

    #[tokio::test]
    async fn new_plan_replaces_current_plan() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let nothing = toolbox.only_current(DIALECT).await;
        assert!(matches!(nothing, Err(ToolError::NoPlan)));
        let (first, replaced) = new_plan(&toolbox).await;
        assert_eq!(replaced, None);
        let (second, replaced) = new_plan(&toolbox).await;
        assert_eq!(replaced.as_ref(), Some(&first));
        let wanted = ArchiveState::History;
        assert_eq!(archive_state_of(&toolbox, &first).await, wanted);
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), second);
        let other = toolbox.only_current(Dialect::PlanManager).await;
        assert!(matches!(other, Err(ToolError::NoPlan)));
    }

    #[tokio::test]
    async fn second_current_plan_is_archived() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let (old, _) = new_plan(&toolbox).await;
        let (new, _) = new_plan(&toolbox).await;
        let as_if_ended = |draft: &mut Draft<'_>| {
            draft.change_head(|head| head.archive_state = ArchiveState::Current);
            Ok::<_, ToolError>(())
        };
        toolbox.change(&old, "", as_if_ended).await.unwrap();
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), new);
        let wanted = ArchiveState::History;
        assert_eq!(archive_state_of(&toolbox, &old).await, wanted);
        let take_up = |draft: &mut Draft<'_>| Ok::<_, ToolError>(draft.reactivate()?);
        toolbox.change(&old, "", take_up).await.unwrap();
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), old);
        let wanted = ArchiveState::History;
        assert_eq!(archive_state_of(&toolbox, &new).await, wanted);
    }

    #[tokio::test]
    async fn overtaken_caller_gets_error() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let (first, _) = new_plan(&toolbox).await;
        let seen = toolbox.in_use(DIALECT).await.unwrap();
        let slow = Toolbox {
            store: (toolbox.store).only_while(DIALECT.as_str(), seen.first().cloned()),
            ..toolbox.clone()
        };
        let (second, replaced) = new_plan(&toolbox).await;
        assert_eq!(replaced, Some(first));
        let head = PlanHead::new(new_plan_id(), "goal", Time(0));
        let made = slow.change(ChangeSubject::New(DIALECT, Box::new(head)), "made", |_| {
            Ok::<_, ToolError>(())
        });
        let Err(ToolError::Store(StoreError::Overtaken(current))) = made.await else {
            panic!("it was made");
        };
        assert_eq!(current, Some(second.clone()));
        assert_eq!(toolbox.store().plans().await.unwrap().len(), 2);
        let take_up = |draft: &mut Draft<'_>| Ok::<_, ToolError>(draft.reactivate()?);
        let kept = slow.change(&second, "changed", take_up).await;
        assert!(matches!(
            kept,
            Err(ToolError::Store(StoreError::Overtaken(_)))
        ));
    }

    #[tokio::test]
    async fn refused_plan_replaces_nothing() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let (old, _) = new_plan(&toolbox).await;
        let head = PlanHead::new(new_plan_id(), "goal", Time(0));
        let refused = |_: &mut Draft<'_>| Err::<(), _>(ToolError::NoPlan);
        let made = toolbox.replace(DIALECT, head, false, "made", refused).await;
        assert!(matches!(made, Err(ToolError::NoPlan)));
        assert_eq!(toolbox.store().plans().await.unwrap().len(), 1);
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), old);
        let bound = toolbox.clone().with_plan(old.clone());
        let head = PlanHead::new(new_plan_id(), "goal", Time(0));
        let kept = |_: &mut Draft<'_>| Ok::<_, ToolError>(());
        let made = bound.replace(DIALECT, head, false, "made", kept).await;
        assert!(matches!(made, Err(ToolError::Bound(plan)) if plan == old));
    }
}
