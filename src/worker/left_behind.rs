//! Commands of workers that died, where no worker like them comes again.

use super::RoleFilter;
use super::agent_doer::end_left_behind;
use super::command_claim::{Claim, Claimer};
use super::worker_loop::RUNS_ON;
use crate::plan::CommandId;
use crate::volumes::{Volumes, VolumesError};

/// Returns those of the commands that dead workers of an agent had, after it has ended what still runs for them. What has a
/// report, or cannot be ended, is not among them.
///
/// # Errors
/// What the file system says.
pub async fn left_behind(
    volumes: &Volumes,
    agent: &str,
    commands: &[CommandId],
) -> Result<Vec<Claim>, VolumesError> {
    let role = &RoleFilter::All;
    let claimer = Claimer {
        agent,
        role,
        plan: None,
    };
    let mut found = Vec::new();
    for id in commands {
        let Some(claim) = claimer.take_up(volumes, id)? else {
            continue;
        };
        if claim.of_another {
            continue;
        }
        let pid = volumes.read_life(id).pid;
        match end_left_behind(&volumes.log(id, "err"), pid).await {
            Err(error) if error.kind() == RUNS_ON => continue,
            ended => ended?,
        }
        if !claim.volumes.reported(id)? {
            found.push(claim);
        }
    }
    Ok(found)
}
