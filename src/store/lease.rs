//! The lease of a plan. Of the daemons that share a database the one that holds it carries the plan out. A lease has an epoch, and
//! each change of its holder is made only in that epoch: what an earlier holder still writes is refused within the transaction.
//! This fence covers rows; before an effect outside of the database its holder asks [`Store::holds`], which compares the clock
//! that counts since the machine was booted, because no person can set it and it goes on while a process is stopped.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::sql_statements::Tables;
use super::{Result, Store, StoreError};
use crate::plan::{DAEMON, Draft, PlanHead, PlanId};
use crate::plan_time::since_boot;

/// How long a lease is good for after it was taken or renewed, by the clock of the database.
pub const SPAN: Duration = Duration::from_secs(15);

/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(5);

/// How often it is looked whether a lease is certain.
const LOOK: Duration = Duration::from_secs(1);

/// The lease of a plan that this process took.
#[derive(Debug)]
pub(super) struct Lease {
    pub plan: PlanId,
    term: Mutex<Term>,
}

/// What became of a lease that may have been lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// It was not lost.
    Held,
    TakenAgain,
    /// Another daemon has it, and has not begun to carry the plan out.
    Elsewhere,
}

/// The time for which a lease was taken.
#[derive(Clone, Copy, Debug)]
struct Term {
    epoch: i64,
    /// Until when effects may begin, since the machine was booted; `None` if another daemon has taken the lease.
    until: Option<Duration>,
}

impl Term {
    /// `asked` is when it was asked for: the database granted it later.
    fn new(epoch: i64, asked: Duration) -> Self {
        let until = Some(asked + SPAN);
        Self { epoch, until }
    }
}

impl Lease {
    pub fn epoch(&self) -> i64 {
        self.term.lock().epoch
    }

    /// Notes that another daemon has taken the lease of an epoch, unless it was taken again since.
    pub fn lose(&self, epoch: i64) {
        let mut term = self.term.lock();
        if term.epoch == epoch {
            term.until = None;
        }
    }

    fn is_lost(&self) -> bool {
        self.term.lock().until.is_none()
    }
}

impl Store {
    /// As [`Store::lease`] for a plan of the folder, where the database is shared; elsewhere the folder's lock is the lease, and the
    /// handle is as this one.
    ///
    /// # Errors
    /// The plan belongs to another folder; else as [`Store::lease`].
    pub async fn carry_out(&self, plan: &PlanId, holder: &str) -> Result<Self> {
        if !self.shared {
            return Ok(self.clone());
        }
        let head = self.read(plan, |plan, _| plan.head().clone()).await?;
        self.require_home(&head)?;
        match head.home {
            Some(_) => self.lease(plan, holder).await,
            // It was made elsewhere and copied into this database.
            None => {
                let (leased, home) = (self.lease(plan, holder).await?, self.home.clone());
                let settle = move |draft: &mut Draft<'_>| {
                    draft.change_head(|head| head.home = home.map(|home| home.to_string()));
                    Ok(())
                };
                let why = "it is carried out in this folder";
                leased.change(plan, DAEMON, why, settle).await?;
                Ok(leased)
            }
        }
    }

    /// Fails if a plan belongs to another folder.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn require_home(&self, head: &PlanHead) -> Result<()> {
        match self.elsewhere(head) {
            None => Ok(()),
            Some(home) => Err(StoreError::Elsewhere {
                plan: head.id.clone(),
                home: home.to_owned(),
            }),
        }
    }

    /// Returns the folder that a plan belongs to, if it is another one.
    pub fn elsewhere<'a>(&self, head: &'a PlanHead) -> Option<&'a str> {
        let home = head.home.as_deref().filter(|_| self.shared);
        home.filter(|home| self.home.as_deref() != Some(home))
    }

    /// Takes the lease of a plan for a daemon, and returns a handle whose changes are made only while it holds the lease. It is
    /// renewed as long as the handle or a clone of it exists. A daemon that bears the name of the last holder takes it at once:
    /// the earlier daemon of that name is dead.
    ///
    /// # Errors
    /// There is no such plan, or another daemon holds it; else as [`Store::change`].
    pub async fn lease(&self, plan: &PlanId, holder: &str) -> Result<Self> {
        let asked = since_boot();
        let epoch = self.take_lease(plan, holder, holder).await?;
        let lease = Arc::new(Lease {
            plan: plan.clone(),
            term: Term::new(epoch, asked).into(),
        });
        let store = Self {
            lease: Some(Arc::clone(&lease)),
            ..self.clone()
        };
        tokio::spawn(renew(self.clone(), Arc::downgrade(&lease)));
        Ok(store)
    }

    async fn take_lease(&self, plan: &PlanId, holder: &str, from: &str) -> Result<i64> {
        let (id, name, from) = (plan.clone(), holder.to_owned(), from.to_owned());
        let taken = self.ask(move |tables| tables.take_lease(&id, &name, &from));
        let plan = plan.clone();
        match taken.await? {
            Ok(epoch) => Ok(epoch),
            Err(None) => Err(StoreError::UnknownPlan(plan)),
            Err(Some(holder)) => Err(StoreError::Held { plan, holder }),
        }
    }

    /// Takes the lease again that another daemon took while this one was cut off, if that one did not go on with the plan: it may lack
    /// the project's commits. A lease that is held stays as it is.
    ///
    /// # Errors
    /// [`StoreError::NotHeld`]: another daemon carries the plan out; or a failure of the database.
    pub async fn hold_again(&self, holder: &str) -> Result<LeaseState> {
        let Some(lease) = self.lease.as_ref().filter(|lease| lease.is_lost()) else {
            return Ok(LeaseState::Held);
        };
        let head = self
            .read(&lease.plan, |plan, _| plan.head().clone())
            .await?;
        if self.elsewhere(&head).is_some() {
            return Err(StoreError::NotHeld(lease.plan.clone()));
        }
        let asked = since_boot();
        // One of the same name that has it is a later daemon of this folder.
        match self.take_lease(&lease.plan, holder, "").await {
            Ok(epoch) => {
                *lease.term.lock() = Term::new(epoch, asked);
                Ok(LeaseState::TakenAgain)
            }
            Err(StoreError::Held { .. }) => Ok(LeaseState::Elsewhere),
            Err(error) => Err(error),
        }
    }

    /// Returns the plans that daemons of other folders carry out now, with the names of these.
    ///
    /// # Errors
    /// A failure of the database.
    pub async fn held_elsewhere(&self) -> Result<BTreeMap<PlanId, String>> {
        if !self.shared {
            return Ok(BTreeMap::new());
        }
        let held = self.ask(Tables::held_plans).await?;
        let own = self.home.as_deref().map(|home| format!("{home} #"));
        let held = held.into_iter().filter_map(|(plan, holder)| {
            let home = holder.rsplit_once(" #").map_or(&*holder, |(home, _)| home);
            let elsewhere = own.as_ref().is_none_or(|own| !holder.starts_with(own));
            elsewhere.then(|| (PlanId::new(plan), home.to_owned()))
        });
        Ok(held.collect())
    }

    /// Returns whether effects outside of the database may begin: the lease is certain. A handle without one holds what it works
    /// with by the lock of its folder.
    pub fn holds(&self) -> bool {
        let until = |lease: &Arc<Lease>| lease.term.lock().until;
        let lease = self.lease.as_ref();
        lease.is_none_or(|lease| until(lease).is_some_and(|until| since_boot() < until))
    }

    /// Works on something only while the lease is certain. It stands still while that is not so, and ends where it is if it is to
    /// `stop` then.
    pub async fn while_held(&self, work: impl Future<Output = ()>, stop: impl Future<Output = ()>) {
        if self.lease.is_none() {
            return work.await;
        }
        let (mut work, mut stop) = (pin!(work), pin!(stop));
        let mut look = tokio::time::interval(LOOK);
        poll_fn(|context| {
            while look.poll_tick(context).is_ready() {}
            match self.holds() {
                true => work.as_mut().poll(context),
                false => stop.as_mut().poll(context),
            }
        })
        .await;
    }

    /// Gives the lease back, so that nobody has to wait for its end: the plan rests until its person goes on with it. A lease that
    /// cannot be given back ends by itself.
    pub async fn release(&self) {
        self.end_lease(false).await;
    }

    /// Gives the lease back of a plan that could not be taken over, so that others may try.
    pub async fn release_to_others(&self) {
        self.end_lease(true).await;
    }

    async fn end_lease(&self, gone: bool) {
        let Some(lease) = self.lease.clone() else {
            return;
        };
        let (id, epoch) = (lease.plan.clone(), lease.epoch());
        let ended = self.ask(move |tables| tables.end_lease(&id, epoch, gone));
        if let Err(error) = ended.await {
            tracing::debug!(%error, plan = %lease.plan, "a lease ends by itself");
        }
        lease.lose(epoch);
    }
}

/// Renews a lease until nothing uses it any more. One that is lost may be taken again.
async fn renew(store: Store, lease: std::sync::Weak<Lease>) {
    loop {
        tokio::time::sleep(RENEW).await;
        let Some(lease) = lease.upgrade() else {
            return;
        };
        if lease.is_lost() {
            continue;
        }
        let (asked, id, epoch) = (since_boot(), lease.plan.clone(), lease.epoch());
        let renewed = store.ask(move |tables| tables.renew_lease(&id, epoch));
        match renewed.await {
            Ok(true) => {
                let mut term = lease.term.lock();
                if term.epoch == epoch && term.until.is_some() {
                    *term = Term::new(epoch, asked);
                }
            }
            Ok(false) => lease.lose(epoch),
            // The server does not answer: effects wait as soon as the lease is over.
            Err(error) => tracing::warn!(%error, plan = %lease.plan, "a lease is not renewed"),
        }
    }
}
