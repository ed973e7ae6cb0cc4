//! The earlier claimed commands of the same task, request or session.

use crate::plan::CommandId;
use crate::volumes::{Folder, Volumes, VolumesError};
use crate::wire::command_file::{CommandFile, CommandType};

/// Returns the earlier claimed commands of the same task or request, the newest first; for a command without either, those of
/// the same session.
///
/// # Errors
/// The folder cannot be listed. Files that cannot be read are left out.
pub(super) fn commands<'a>(
    volumes: &'a Volumes,
    command: &'a CommandFile,
) -> Result<impl Iterator<Item = CommandFile> + 'a, VolumesError> {
    let mut ids: Vec<CommandId> = volumes.taken()?;
    ids.retain(|id| *id <= command.id);
    Ok(ids.into_iter().rev().filter_map(move |id| {
        let text = volumes.read_command(Folder::CommandsProcessed, &id).ok()?;
        let earlier = CommandFile::parse(&text).ok()?;
        let same = if command.task.is_some() {
            earlier.plan == command.plan && earlier.task == command.task
        } else if command.request_id.is_some() {
            earlier.plan == command.plan && earlier.request_id == command.request_id
        } else {
            command.session.is_some() && earlier.session == command.session
        };
        (same && earlier.kind != CommandType::End).then_some(earlier)
    }))
}
