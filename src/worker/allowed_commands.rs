//! The commands that a person has allowed an agent. They stand in the plan alone: what an agent can write, as the file of its
//! command, gives it no right.

use crate::plan::CommandId;
use crate::plan_time::wall;
use crate::store::{StoreError, StorePlace};

/// Internal plans whose commands are for a task of a plan above them; more are not made.
const DEEPEST: usize = 16;

/// Returns the commands, word for word, that a person has allowed the agent of a command: none if that cannot be read.
pub(super) async fn allowed(place: &StorePlace, command: &CommandId) -> Vec<String> {
    read(place, command).await.unwrap_or_else(|error| {
        tracing::warn!(%error, %command, "what a person has allowed cannot be read");
        Vec::new()
    })
}

async fn read(place: &StorePlace, command: &CommandId) -> Result<Vec<String>, StoreError> {
    if !place.exists()? {
        return Ok(Vec::new());
    }
    let store = place.open_to_read(wall).await?;
    let mut allowed = Vec::new();
    let mut plan = store.plan_of(command).await?;
    for _ in 0..DEEPEST {
        let Some(id) = plan else { break };
        let command = command.clone();
        let read = store.read(&id, move |plan, _| {
            let attempt = plan.attempt(&command);
            let once = attempt.map(|attempt| attempt.allowed.clone());
            let head = plan.head();
            let all = head.allowed.iter().cloned();
            let all: Vec<String> = all.chain(once.unwrap_or_default()).collect();
            (all, head.parent.clone())
        });
        let (here, parent) = read.await?;
        allowed.extend(here);
        plan = parent;
    }
    Ok(allowed)
}
