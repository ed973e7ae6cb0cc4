//! Which plan is meant: keys, owners and archive states.

use std::collections::HashSet;

use super::{Owner, tally_text};
use crate::plan::{
    CommandId, DAEMON, HeldLocks, LockHolder, Plan, PlanHead, PlanId, Row, Tally, Time,
};
use crate::store::database_drivers::Param;
use crate::store::sql_statements::{ALL, Lookup, Tables};
use crate::store::{ListedPlan, OnlyWhile, Result, StoreError, TalliedPlan};

impl Owner {
    /// Creates a row for a plan under its key, and returns its id: the id in its head, or another if that one is used.
    pub(super) fn make(
        &mut self,
        mut head: PlanHead,
        now: Time,
        locked: &mut HashSet<PlanId>,
    ) -> Result<PlanId> {
        let lookup = Lookup::of(&head);
        let tables = self.tables()?;
        let wanted = head.id.clone();
        while !tables.add_plan(&head.id, now.0, &lookup)? {
            require_free(tables, lookup.key.as_deref())?;
            head.id = unused(tables, &wanted)?;
        }
        if head.id != wanted && head.key.is_none() {
            head.key = Some(wanted.to_string());
        }
        let id = head.id.clone();
        self.cache(&id, Plan::new(head), 0);
        locked.insert(id.clone());
        Ok(id)
    }

    /// Refuses if the current plan of an owner is another one.
    pub(super) fn is_so(&mut self, wanted: &OnlyWhile) -> Result<()> {
        let current = self.tables()?.current(&wanted.owner, 1)?.pop();
        if current == wanted.current {
            return Ok(());
        }
        Err(StoreError::Overtaken(current))
    }

    pub(in crate::store) fn plan_of(&mut self, command: &CommandId) -> Result<Option<PlanId>> {
        for plan in self.tables()?.plans_of(command)? {
            match self.fresh(&plan) {
                Err(error @ (StoreError::Database(_) | StoreError::Closed)) => return Err(error),
                Ok(cached) if cached.plan.attempt(command).is_some() => return Ok(Some(plan)),
                // A damaged plan does not hide another one.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Returns the plans that a condition selects: see [`Tables::heads`].
    pub(in crate::store) fn listed(
        &mut self,
        which: &str,
        values: &[&dyn Param],
    ) -> Result<Vec<ListedPlan>> {
        let tables = self.tables()?;
        let heads = tables.heads(which, values)?;
        let packed: Vec<String> = heads.iter().map(|(_, _, body)| body.clone()).collect();
        let bodies = tables.unpack(&packed)?;
        let plans = heads.into_iter().zip(bodies);
        let listed = plans.map(|((id, seq, _), body)| {
            let damaged = |reason: String| StoreError::damaged(&PlanId::new(&id), reason);
            let body = body.map_err(|missing| damaged(missing.to_string()))?;
            match serde_json::from_str(&body) {
                Ok(Row::Head(head)) => Ok(ListedPlan { seq, head: *head }),
                Ok(_) => Err(damaged("its head is another row".to_owned())),
                Err(error) => Err(damaged(error.to_string())),
            }
        });
        listed.collect()
    }

    /// Returns the wanted plans with their numbers, newest plan first. Only a plan that an older version changed last is read
    /// whole, once.
    pub(in crate::store) fn tallied(
        &mut self,
        wanted: impl Fn(&PlanHead) -> bool,
    ) -> Result<Vec<TalliedPlan>> {
        let mut plans = self.listed(ALL, &[])?;
        plans.retain(|plan| wanted(&plan.head));
        let mut known = self.tables()?.tallies()?;
        let with_tally = plans.into_iter().map(|plan| {
            let known = known.remove(plan.head.id.as_str());
            let known = known.filter(|(seq, _)| *seq == plan.seq);
            let tally = known.and_then(|(_, tally)| serde_json::from_str(&tally).ok());
            let tally = match tally {
                Some(tally) => tally,
                None => self.count(&plan.head.id)?,
            };
            Ok(TalliedPlan { plan, tally })
        });
        with_tally.collect()
    }

    fn count(&mut self, id: &PlanId) -> Result<Tally> {
        let (tally, text, seq) =
            self.read(id, |plan, seq| (plan.tally(), tally_text(plan), seq))?;
        // Where nothing can be written, it is counted again the next time.
        if let Err(error) = self.tables()?.set_tally(id, seq, &text) {
            tracing::debug!(%id, %error, "the numbers of a plan are not kept");
        }
        Ok(tally)
    }

    /// Returns the locks that tasks of other plans hold. Plans that hold none are not looked at.
    pub(in crate::store) fn locks_beside(&mut self, plan: &PlanId) -> Result<HeldLocks> {
        let mut held = HeldLocks::new();
        for (id, tally) in self.tables()?.tallies_with_locks(DAEMON)? {
            let other = PlanId::new(id);
            let tally: Tally = serde_json::from_str(&tally).unwrap_or_default();
            if other != *plan {
                let plan = |task| LockHolder {
                    plan: other.clone(),
                    task,
                };
                let locks = tally.held.into_iter();
                held.extend(locks.map(|(lock, task)| (lock, plan(task))));
            }
        }
        Ok(held)
    }
}

/// Writes the new lookup fields of a plan, in the transaction: the next change in it may create a plan with that key.
pub(super) fn write_lookup(
    tables: &mut Tables,
    plan: &PlanId,
    before: &Lookup,
    lookup: &Lookup,
) -> Result<()> {
    if lookup.key != before.key {
        require_free(tables, lookup.key.as_deref())?;
    }
    Ok(tables.set_lookup(plan, lookup)?)
}

fn require_free(tables: &mut Tables, key: Option<&str>) -> Result<()> {
    match key {
        Some(key) if tables.find(key)?.is_some() => Err(StoreError::PlanTaken(PlanId::new(key))),
        _ => Ok(()),
    }
}

/// Returns an id similar to the wanted one that no plan has had. The numbers were assigned in sequence, so a binary
/// search finds the first free one, and an id that is used again and again stays cheap.
fn unused(tables: &mut Tables, wanted: &PlanId) -> Result<PlanId> {
    let id = |number: u64| PlanId::new(format!("{wanted}~{number}"));
    let (mut used, mut free) = (1, 2);
    while tables.seq(&id(free))?.is_some() {
        (used, free) = (free, free * 2);
    }
    while used + 1 < free {
        let middle = used.midpoint(free);
        if tables.seq(&id(middle))?.is_some() {
            used = middle;
        } else {
            free = middle;
        }
    }
    Ok(id(free))
}
