//! Which plan is meant: keys, owners and archive states.

use std::collections::HashSet;

use super::{CachedPlan, Owner};
use crate::plan::{CommandId, Plan, PlanHead, PlanId, Row, Time};
use crate::store::sql_statements::{HeadRecord, Lookup, Tables};
use crate::store::text_store::NoText;
use crate::store::{ListedPlan, OnlyWhile, StoreError};

impl Owner {
    /// Creates a row for a plan under its key, and returns its id: the id in its head, or another if that one is used.
    pub(super) fn make(
        &mut self,
        mut head: PlanHead,
        now: Time,
        locked: &mut HashSet<PlanId>,
    ) -> Result<PlanId, StoreError> {
        let lookup = Lookup::of(&head);
        let tables = self.tables()?;
        let wanted = head.id.clone();
        while !tables.add_plan(&head.id, now.0, &lookup)? {
            if let Some(key) = &lookup.key
                && tables.find(key)?.is_some()
            {
                return Err(StoreError::PlanTaken(PlanId::new(key)));
            }
            head.id = unused(tables, &wanted)?;
        }
        if head.id != wanted && head.key.is_none() {
            head.key = Some(wanted.to_string());
        }
        let id = head.id.clone();
        self.plans.insert(
            id.clone(),
            CachedPlan {
                plan: Plan::new(head),
                seq: 0,
                ahead: false,
            },
        );
        locked.insert(id.clone());
        Ok(id)
    }

    /// Refuses if the current plan of an owner is another one.
    pub(super) fn is_so(&mut self, wanted: &OnlyWhile) -> Result<(), StoreError> {
        let current = self.current(&wanted.owner, 1)?.pop();
        if current == wanted.current {
            return Ok(());
        }
        Err(StoreError::Overtaken(current))
    }

    pub(in crate::store) fn changed_at(
        &mut self,
        plan: &PlanId,
        seq: i64,
    ) -> Result<Option<Time>, StoreError> {
        Ok(self.tables()?.changed_at(plan, seq)?.map(Time))
    }

    pub(in crate::store) fn plan_of(
        &mut self,
        command: &CommandId,
    ) -> Result<Option<PlanId>, StoreError> {
        for plan in self.tables()?.plans_of(command)? {
            match self.fresh(&plan) {
                Err(error @ (StoreError::Database(_) | StoreError::Closed)) => return Err(error),
                // A damaged plan does not hide another one.
                Err(_) => continue,
                Ok(()) => {}
            }
            if self.cached(&plan)?.plan.attempt(command).is_some() {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }

    pub(in crate::store) fn find(&mut self, key: &str) -> Result<Option<PlanId>, StoreError> {
        Ok(self.tables()?.find(key)?)
    }

    pub(in crate::store) fn current(
        &mut self,
        owner: &str,
        limit: i64,
    ) -> Result<Vec<PlanId>, StoreError> {
        Ok(self.tables()?.current(owner, limit)?)
    }

    pub(in crate::store) fn in_use(&mut self, owner: &str) -> Result<Vec<ListedPlan>, StoreError> {
        let tables = self.tables()?;
        let heads = tables.heads_in_use(owner)?;
        listed(tables, heads)
    }

    pub(in crate::store) fn archived(
        &mut self,
        owner: &str,
        offset: i64,
        limit: i64,
    ) -> Result<(Vec<ListedPlan>, usize), StoreError> {
        let tables = self.tables()?;
        let (heads, total) = tables.archived_heads(owner, offset, limit)?;
        Ok((listed(tables, heads)?, usize::try_from(total).unwrap_or(0)))
    }

    pub(in crate::store) fn list(&mut self) -> Result<Vec<ListedPlan>, StoreError> {
        let tables = self.tables()?;
        let heads = tables.heads()?;
        listed(tables, heads)
    }
}

/// Writes the new lookup fields of a plan, in the transaction: the next change in it may create a plan with that key.
pub(super) fn write_lookup(
    tables: &mut Tables,
    plan: &PlanId,
    before: &Lookup,
    lookup: &Lookup,
) -> Result<(), StoreError> {
    if let Some(key) = &lookup.key
        && lookup.key != before.key
        && tables.find(key)?.is_some()
    {
        return Err(StoreError::PlanTaken(PlanId::new(key)));
    }
    Ok(tables.set_lookup(plan, lookup)?)
}

/// Returns an id similar to the wanted one that no plan has had. The numbers were assigned in sequence, so a binary search
/// finds the first free one, and an id that is used again and again stays cheap.
fn unused(tables: &mut Tables, wanted: &PlanId) -> Result<PlanId, StoreError> {
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

fn listed(tables: &mut Tables, heads: Vec<HeadRecord>) -> Result<Vec<ListedPlan>, StoreError> {
    let split = |(id, seq, body)| ((id, seq), body);
    let (plans, packed): (Vec<(String, i64)>, Vec<String>) = heads.into_iter().map(split).unzip();
    let bodies = tables.unpack(&packed)?.into_iter();
    let read = |((id, seq), body): ((String, i64), Result<String, NoText>)| {
        let damaged = |reason: String| StoreError::Damaged {
            plan: PlanId::new(id),
            reason,
        };
        let body = match body {
            Ok(body) => serde_json::from_str(&body).map_err(|error| error.to_string()),
            Err(missing) => Err(missing.to_string()),
        };
        match body {
            Ok(Row::Head(head)) => Ok(ListedPlan { seq, head: *head }),
            Ok(_) => Err(damaged("its head is another row".to_owned())),
            Err(reason) => Err(damaged(reason)),
        }
    };
    plans.into_iter().zip(bodies).map(read).collect()
}
