//! The current plan of a dialect that has one at a time. A new one takes its place first and the old one is put away then, so
//! that a caller which is ended between the two leaves a current plan; whoever sees two puts the older one away.

use super::{Dialect, ToolError, Toolbox};
use crate::plan::{Draft, Head, PlanId, Refusal, Shelf, Time};
use crate::store::StoreError;
use crate::wire::text::one_line;

/// Plans in use that are looked at: one, unless callers were ended at the wrong moment.
const SEEN: usize = 8;

impl Toolbox {
    /// Returns the plan that is meant when a call names none: the one the calls are bound to, else the dialect's current one.
    pub(super) async fn only_current(&self, dialect: Dialect) -> Result<PlanId, ToolError> {
        if let Some(plan) = &self.plan {
            return Ok(plan.clone());
        }
        let mut own = self.in_use(dialect).await?;
        let older = own.split_off(own.len().min(1));
        let newest = own.pop().ok_or(ToolError::NoPlan)?;
        if !older.is_empty() {
            let by = self.head(&newest).await?;
            let (since, reason) = (taken_up(&by), interrupted(&by));
            self.put_away(dialect, older, since, "replaced", &reason)
                .await?;
        }
        Ok(newest)
    }

    /// Makes a plan that takes the place of the dialect's current one, which goes into the history. Returns with what the
    /// closure returned the plan that was replaced, if there was one. Of two callers at once one is told that the other was
    /// faster.
    pub(super) async fn replace<T, E>(
        &self,
        dialect: Dialect,
        head: Head,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<(T, Option<PlanId>), E>
    where
        T: Send + 'static,
        E: From<ToolError> + Send + 'static,
    {
        if let Some(plan) = &self.plan {
            return Err(ToolError::Bound(plan.clone()).into());
        }
        let own = self.in_use(dialect).await?;
        let newest = self.newest(&own).await?;
        let reason = interrupted(&head);
        let still = self.only_while(dialect, &own);
        let made = still.create_or(dialect, head, why, move |draft| {
            let at = newer_than(draft, newest);
            Ok::<_, E>((change(draft)?, at))
        });
        let (value, since) = made.await?;
        let replaced = self.put_away(dialect, own, since, why, &reason).await?;
        Ok((value, replaced))
    }

    /// Makes a plan that was put away the current one, as [`Toolbox::replace`] does with a new one. The closure sees the plan
    /// on the shelf where it still is.
    pub(super) async fn take_up<T, E>(
        &self,
        dialect: Dialect,
        plan: &Head,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<(T, Option<PlanId>), E>
    where
        T: Send + 'static,
        E: From<ToolError> + Send + 'static,
    {
        if let Some(bound) = &self.plan {
            return Err(ToolError::Bound(bound.clone()).into());
        }
        let mut own = self.in_use(dialect).await?;
        let still = self.only_while(dialect, &own);
        own.retain(|id| *id != plan.id);
        let newest = self.newest(&own).await?;
        let taken = still.change_or(&plan.id, why, move |draft| {
            let value = change(draft)?;
            let refused = |refusal: Refusal| E::from(StoreError::from(refusal).into());
            draft.take_up().map_err(refused)?;
            Ok::<_, E>((value, newer_than(draft, newest)))
        });
        let (value, since) = taken.await?;
        let reason = interrupted(plan);
        let replaced = self.put_away(dialect, own, since, why, &reason).await?;
        Ok((value, replaced))
    }

    /// Returns the tools for a change that counts only while the first of the plans, or none, is the dialect's current one.
    fn only_while(&self, dialect: Dialect, plans: &[PlanId]) -> Self {
        let current = plans.first().cloned();
        Self {
            store: self.store.only_while(dialect.as_str(), current),
            ..self.clone()
        }
    }

    /// Returns the dialect's plans that are in use, the one taken up last first.
    async fn in_use(&self, dialect: Dialect) -> Result<Vec<PlanId>, ToolError> {
        Ok(self.store().current(dialect.as_str(), SEEN).await?)
    }

    async fn head(&self, plan: &PlanId) -> Result<Head, ToolError> {
        let read = self.store().read(plan, |plan, _| plan.head().clone());
        Ok(read.await?)
    }

    /// Returns when the first of the plans was taken up.
    async fn newest(&self, plans: &[PlanId]) -> Result<Option<Time>, ToolError> {
        Ok(match plans.first() {
            Some(newest) => Some(taken_up(&self.head(newest).await?)),
            None => None,
        })
    }

    /// Puts plans away that another one replaced at a moment, but those that somebody has put away or taken up again since.
    /// Returns the first. A plan of the notebook is abandoned with that.
    async fn put_away(
        &self,
        dialect: Dialect,
        plans: Vec<PlanId>,
        replaced: Time,
        why: &str,
        reason: &str,
    ) -> Result<Option<PlanId>, ToolError> {
        for plan in &plans {
            let reason = reason.to_owned();
            let put_away = move |draft: &mut Draft<'_>| {
                let head = draft.plan().head();
                if head.shelf == Shelf::Current && taken_up(head) <= replaced {
                    if dialect == Dialect::Notebook && !head.status.settled() {
                        draft.finish_plan(false, &reason)?;
                    }
                    draft.put_away(Shelf::History)?;
                }
                Ok(())
            };
            match self.change(plan, why, put_away).await {
                Err(ToolError::Store(StoreError::Refused(Refusal::Deleted))) => {}
                changed => changed?,
            }
        }
        Ok(plans.into_iter().next())
    }
}

/// Makes the plan the one taken up last, and returns when. The clocks of two processes may differ: it is the newer one all the
/// same.
fn newer_than(draft: &mut Draft<'_>, newest: Option<Time>) -> Time {
    let at = newest.map_or(draft.now(), |newest| draft.now().max(Time(newest.0 + 1)));
    draft.describe(|head| head.taken_up = Some(at));
    at
}

/// Says why a plan ends that another one replaces.
pub(super) fn interrupted(by: &Head) -> String {
    let name = one_line(&by.name, 120);
    format!("interrupted by the plan '{name}' with ID '{}'", by.key())
}

fn taken_up(head: &Head) -> Time {
    head.taken_up.unwrap_or(head.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::new_plan_id;

    const DIALECT: Dialect = Dialect::Notebook;

    async fn new_plan(toolbox: &Toolbox) -> (PlanId, Option<PlanId>) {
        let head = Head::new(new_plan_id(), "goal", Time(0));
        let id = |draft: &mut Draft<'_>| Ok::<_, ToolError>(draft.plan().id().clone());
        toolbox.replace(DIALECT, head, "made", id).await.unwrap()
    }

    async fn shelf_of(toolbox: &Toolbox, plan: &PlanId) -> Shelf {
        let shelf = toolbox.store().read(plan, |plan, _| plan.head().shelf);
        shelf.await.unwrap()
    }

    #[tokio::test]
    async fn a_new_plan_takes_the_place_of_the_one_before_it() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let nothing = toolbox.only_current(DIALECT).await;
        assert!(matches!(nothing, Err(ToolError::NoPlan)));
        let (first, replaced) = new_plan(&toolbox).await;
        assert_eq!(replaced, None);
        let (second, replaced) = new_plan(&toolbox).await;
        assert_eq!(replaced.as_ref(), Some(&first));
        assert_eq!(shelf_of(&toolbox, &first).await, Shelf::History);
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), second);
        let other = toolbox.only_current(Dialect::PlanManager).await;
        assert!(matches!(other, Err(ToolError::NoPlan)));
    }

    #[tokio::test]
    async fn the_one_that_an_ended_caller_left_beside_it_is_put_away() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let (old, _) = new_plan(&toolbox).await;
        let (new, _) = new_plan(&toolbox).await;
        let as_if_ended = |draft: &mut Draft<'_>| {
            draft.describe(|head| head.shelf = Shelf::Current);
            Ok(())
        };
        toolbox.change(&old, "", as_if_ended).await.unwrap();
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), new);
        assert_eq!(shelf_of(&toolbox, &old).await, Shelf::History);
        toolbox
            .change(&old, "", |draft| draft.take_up())
            .await
            .unwrap();
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), old);
        assert_eq!(shelf_of(&toolbox, &new).await, Shelf::History);
    }

    #[tokio::test]
    async fn of_two_at_once_one_is_told_that_the_other_was_faster() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let (first, _) = new_plan(&toolbox).await;
        let seen = toolbox.in_use(DIALECT).await.unwrap();
        let slow = toolbox.only_while(DIALECT, &seen);
        let (second, replaced) = new_plan(&toolbox).await;
        assert_eq!(replaced, Some(first));
        let head = Head::new(new_plan_id(), "goal", Time(0));
        let made = slow.create(DIALECT, head, "made", |_| Ok(())).await;
        let Err(ToolError::Store(StoreError::Overtaken(current))) = made else {
            panic!("{made:?}");
        };
        assert_eq!(current, Some(second.clone()));
        assert_eq!(toolbox.store().plans().await.unwrap().len(), 2);
        let kept = slow.change(&second, "changed", |draft| draft.take_up());
        assert!(matches!(
            kept.await,
            Err(ToolError::Store(StoreError::Overtaken(_)))
        ));
    }

    #[tokio::test]
    async fn a_plan_that_is_refused_replaces_nothing() {
        let toolbox = Toolbox::in_memory().await.unwrap();
        let (old, _) = new_plan(&toolbox).await;
        let head = Head::new(new_plan_id(), "goal", Time(0));
        let refused = |_: &mut Draft<'_>| Err::<(), _>(ToolError::NoPlan);
        let made = toolbox.replace(DIALECT, head, "made", refused).await;
        assert!(matches!(made, Err(ToolError::NoPlan)));
        assert_eq!(toolbox.store().plans().await.unwrap().len(), 1);
        assert_eq!(toolbox.only_current(DIALECT).await.unwrap(), old);
        let bound = toolbox.clone().with_plan(old.clone());
        let head = Head::new(new_plan_id(), "goal", Time(0));
        let kept = |_: &mut Draft<'_>| Ok::<_, ToolError>(());
        let made = bound.replace(DIALECT, head, "made", kept).await;
        assert!(matches!(made, Err(ToolError::Bound(plan)) if plan == old));
    }
}
