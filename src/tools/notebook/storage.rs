//! The storage of plans that are no longer current. By default the notebook uses the store, where an archived plan stays with
//! its log; a program may choose another place. The current plan is in the store in either case.

use super::*;

/// The future answer of a storage.
pub type Stored<'a, T> = BoxFuture<'a, Result<T, StorageError>>;

/// Why a storage did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The storage cannot be reached.
    #[error("the storage cannot be reached: {0}")]
    Connection(String),
    /// The storage did not answer in time.
    #[error("the storage did not answer in time: {0}")]
    Timeout(String),
    /// A plan could not be written as JSON, or read.
    #[error("the plan cannot be written or read: {0}")]
    Serialization(String),
    /// The storage has no plan with that id, or has one already.
    #[error("{0}")]
    Key(String),
}

/// A place for plans that are finished or were replaced.
///
/// A notebook adds a plan *before* the plan leaves the store's current plans: if the program ends between the two, the plan is
/// in both places, and finishing it again overwrites the one in the storage.
pub trait PlanStorageBase: Send + Sync {
    /// Stores a plan. One with the same id is replaced if `override` says so.
    ///
    /// # Errors
    /// The id is in use and may not be overwritten ([`StorageError::Key`]), or the storage fails.
    fn add_plan(&self, plan: NotebookPlan, r#override: bool) -> Stored<'_, ()>;

    /// Removes a plan.
    ///
    /// # Errors
    /// No plan has that id ([`StorageError::Key`]), or the storage fails.
    fn delete_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, ()>;

    /// Returns every plan.
    ///
    /// # Errors
    /// The storage fails.
    fn get_plans(&self) -> Stored<'_, Vec<NotebookPlan>>;

    /// Returns the plan with an id, if there is one.
    ///
    /// # Errors
    /// The storage fails.
    fn get_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, Option<NotebookPlan>>;
}

pub(super) fn taken(id: &str) -> StorageError {
    StorageError::Key(format!("a plan with ID '{id}' is there already"))
}

pub(super) fn unknown(id: &str) -> StorageError {
    StorageError::Key(format!("there is no plan with ID '{id}'"))
}

/// Plans in memory in the order in which they were added; they end with this value.
#[derive(Debug, Default)]
pub struct InMemoryPlanStorage {
    plans: Mutex<Vec<NotebookPlan>>,
}

impl InMemoryPlanStorage {
    fn with<T>(&self, use_plans: impl FnOnce(&mut Vec<NotebookPlan>) -> T) -> T {
        use_plans(&mut self.plans.lock())
    }
}

impl PlanStorageBase for InMemoryPlanStorage {
    fn add_plan(&self, plan: NotebookPlan, r#override: bool) -> Stored<'_, ()> {
        let added = self.with(|plans| {
            match plans.iter_mut().find(|kept| kept.id == plan.id) {
                None => plans.push(plan),
                Some(kept) if r#override => *kept = plan,
                Some(kept) => return Err(taken(&kept.id)),
            }
            Ok(())
        });
        Box::pin(async { added })
    }

    fn delete_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, ()> {
        let deleted = self.with(|plans| {
            let place = plans.iter().position(|plan| plan.id == plan_id);
            plans.remove(place.ok_or_else(|| unknown(plan_id))?);
            Ok(())
        });
        Box::pin(async { deleted })
    }

    fn get_plans(&self) -> Stored<'_, Vec<NotebookPlan>> {
        Box::pin(async { Ok(self.with(|plans| plans.clone())) })
    }

    fn get_plan<'a>(&'a self, plan_id: &'a str) -> Stored<'a, Option<NotebookPlan>> {
        let plan = self.with(|plans| plans.iter().find(|plan| plan.id == plan_id).cloned());
        Box::pin(async { Ok(plan) })
    }
}
