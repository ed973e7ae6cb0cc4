//! What is left of internal plans, which are what roles in the process make of their tasks: where nobody waits any more for
//! what comes of one, it ends, and what it had asked of others is taken back.

use crate::plan::{Attempt, AttemptState, CommandId, Draft, Head, PlanId, ROLE, Shelf};
use crate::store::{Store, StoreError};
use crate::volumes::{Volumes, Whereabouts, Withdrawal};

use super::BY;

/// Ends the internal plans that nobody waits for, takes back what those that have ended still asked for, and puts them away.
/// Each step is committed before the next, and may be done again after a crash. What cannot be done now holds nothing up: the
/// next call finds it.
pub(super) async fn tidy(store: &Store, volumes: &Volumes) {
    if let Err(error) = tidy_all(store, volumes).await {
        tracing::warn!(error = format!("{error:#}"), "internal plans stay behind");
    }
}

async fn tidy_all(store: &Store, volumes: &Volumes) -> anyhow::Result<()> {
    // With whoever asks, those end who were asked.
    while tidy_once(store, volumes).await? {}
    Ok(())
}

/// Returns whether there was anything to do.
async fn tidy_once(store: &Store, volumes: &Volumes) -> anyhow::Result<bool> {
    let mut any = false;
    for listed in store.in_use(ROLE).await? {
        let head = listed.head;
        if wanted(store, &head).await? {
            continue;
        }
        if !head.status.settled() {
            abandon(store, &head.id).await?;
        }
        take_back(store, volumes, &head.id).await?;
        let away = |draft: &mut Draft<'_>| draft.put_away(Shelf::History);
        store.change(&head.id, BY, "put away", away).await?;
        any = true;
    }
    Ok(any)
}

/// Tells whether somebody waits for what comes of an internal plan: its key ends with the command or the request that it
/// is made for.
async fn wanted(store: &Store, head: &Head) -> Result<bool, StoreError> {
    let (Some(parent), Some((_, assignment))) = (&head.parent, head.key().rsplit_once(':')) else {
        return Ok(false);
    };
    let command = CommandId::new(assignment);
    let waits = store.read(parent, move |plan, _| {
        let open = |attempt: &Attempt| attempt.state == AttemptState::Open;
        !plan.status().settled() && plan.attempt(&command).is_some_and(open)
    });
    match waits.await {
        Err(StoreError::UnknownPlan(_)) => Ok(false),
        waits => waits,
    }
}

async fn abandon(store: &Store, plan: &PlanId) -> Result<(), StoreError> {
    let why = "nobody waits for it any more";
    let abandon = move |draft: &mut Draft<'_>| draft.abandon(why);
    match store.change(plan, BY, why, abandon).await {
        // Its role was faster.
        Err(StoreError::Refused(_)) => Ok(()),
        abandoned => abandoned,
    }
}

async fn take_back(store: &Store, volumes: &Volumes, plan: &PlanId) -> anyhow::Result<()> {
    let asked = store.read(plan, |plan, _| {
        let recalls = plan.recalls().map(|attempt| attempt.id.clone());
        recalls.collect::<Vec<_>>()
    });
    for command in asked.await? {
        let (files, id) = (volumes.clone(), command.clone());
        let done = super::steps::blocking(move || {
            let done = files.withdraw(&id)?;
            // A request to a role in the process was never a file.
            let works = done == Withdrawal::Taken
                && files.whereabouts(&id)? == Whereabouts::Processed
                && !files.reported(&id)?;
            if works {
                files.cancel(&id)?;
            }
            Ok(done)
        });
        let done = done.await?;
        let note = move |draft: &mut Draft<'_>| match done {
            Withdrawal::Withdrawn => draft.withdrawn(&command),
            Withdrawal::Taken => draft.recalled(&command),
        };
        store
            .change(plan, BY, "a request was taken back", note)
            .await?;
    }
    Ok(())
}
