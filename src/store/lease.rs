//! The lease of a plan. Of the daemons that share a database the one that holds it carries the plan out. A lease has an epoch, and
//! each change of its holder is made only in that epoch: what an earlier holder still writes is refused within the transaction.
//! This fence covers rows; before an effect outside of the database its holder asks [`Store::holds`], which compares the clock
//! that counts since the machine was booted, because no person can set it and it goes on while a process is stopped.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

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

/// Of a lease that another daemon has taken.
const LOST: u64 = 0;

/// The lease of a plan that this process took.
#[derive(Debug)]
pub(super) struct Lease {
    pub plan: PlanId,
    pub epoch: i64,
    /// Until when effects may begin, in milliseconds since the machine was booted.
    until: AtomicU64,
}

impl Lease {
    /// `asked` is when it was asked for: the database granted it later.
    fn extend(&self, asked: Duration) {
        let until = u64::try_from((asked + SPAN).as_millis()).unwrap_or(u64::MAX);
        self.until.store(until, Ordering::SeqCst);
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
        let (asked, id, name) = (since_boot(), plan.clone(), holder.to_owned());
        let taken = self.ask(move |tables| tables.take_lease(&id, &name));
        let epoch = match taken.await? {
            Ok(epoch) => epoch,
            Err(None) => return Err(StoreError::UnknownPlan(plan.clone())),
            Err(Some(holder)) => {
                let plan = plan.clone();
                return Err(StoreError::Held { plan, holder });
            }
        };
        let lease = Arc::new(Lease {
            plan: plan.clone(),
            epoch,
            until: AtomicU64::default(),
        });
        lease.extend(asked);
        let store = Self {
            lease: Some(Arc::clone(&lease)),
            ..self.clone()
        };
        tokio::spawn(renew(self.clone(), Arc::downgrade(&lease)));
        Ok(store)
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
        let until = |lease: &Arc<Lease>| lease.until.load(Ordering::SeqCst);
        let now = since_boot().as_millis();
        let lease = self.lease.as_ref();
        lease.is_none_or(|lease| now < until(lease).into())
    }

    /// Fails if another daemon has taken the lease.
    ///
    /// # Errors
    /// [`StoreError::NotHeld`].
    pub fn still_held(&self) -> Result<()> {
        let lost = |lease: &&Arc<Lease>| lease.until.load(Ordering::SeqCst) == LOST;
        let not_held = |lease: &Arc<Lease>| Err(StoreError::NotHeld(lease.plan.clone()));
        self.lease.as_ref().filter(lost).map_or(Ok(()), not_held)
    }

    /// Works on something only while the lease is certain. It stands still while that is not so, and ends where it is if another
    /// daemon has taken the lease.
    pub async fn while_held(&self, work: impl Future<Output = ()>) {
        if self.lease.is_none() {
            return work.await;
        }
        let (mut work, mut look) = (pin!(work), tokio::time::interval(LOOK));
        poll_fn(|context| {
            while look.poll_tick(context).is_ready() {}
            if self.holds() {
                return work.as_mut().poll(context);
            }
            match self.still_held() {
                Ok(()) => Poll::Pending,
                Err(_) => Poll::Ready(()),
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
        let (id, epoch) = (lease.plan.clone(), lease.epoch);
        let ended = self.ask(move |tables| tables.end_lease(&id, epoch, gone));
        if let Err(error) = ended.await {
            tracing::debug!(%error, plan = %lease.plan, "a lease ends by itself");
        }
        lease.until.store(LOST, Ordering::SeqCst);
    }
}

/// Renews a lease until nothing uses it any more, or another daemon has it.
async fn renew(store: Store, lease: std::sync::Weak<Lease>) {
    loop {
        tokio::time::sleep(RENEW).await;
        let Some(lease) = lease.upgrade() else {
            return;
        };
        let (asked, id, epoch) = (since_boot(), lease.plan.clone(), lease.epoch);
        let renewed = store.ask(move |tables| tables.renew_lease(&id, epoch));
        match renewed.await {
            Ok(true) if lease.until.load(Ordering::SeqCst) != LOST => lease.extend(asked),
            Ok(_) => {
                lease.until.store(LOST, Ordering::SeqCst);
                return;
            }
            // The server does not answer: effects wait as soon as the lease is over.
            Err(error) => tracing::warn!(%error, plan = %lease.plan, "a lease is not renewed"),
        }
    }
}
