//! Whose a command is. A worker that takes one locks `active/<id>.lock` first and then moves the command, and keeps
//! the lock until it has reported; so a command whose lock is free but there was left behind by a worker that died.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::plan::CommandId;
use crate::volumes::{Folder, Volumes, VolumesError};

/// A command that is this worker's and nobody else's.
#[derive(Debug)]
pub(super) struct Claim {
    volumes: Volumes,
    id: CommandId,
    /// Closed, and so unlocked, with the claim; its text is the name of the agent.
    lock: File,
}

impl Claim {
    /// Takes a command: first one that a dead worker with the same agent left behind, then the oldest that nobody has.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn next(volumes: &Volumes, agent: &str) -> Result<Option<Self>, VolumesError> {
        for id in volumes.locked()? {
            if let Some(claim) = Self::take_up(volumes, &id, agent)? {
                return Ok(Some(claim));
            }
        }
        for id in volumes.waiting()? {
            if let Some(claim) = Self::take(volumes, &id, agent)? {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    fn take_up(
        volumes: &Volumes,
        id: &CommandId,
        agent: &str,
    ) -> Result<Option<Self>, VolumesError> {
        let Some((claim, before)) = Self::lock(volumes, id, false)? else {
            return Ok(None);
        };
        let taken = volumes.command(Folder::CommandsProcessed, id).exists();
        let pending = volumes.command(Folder::CommandsPending, id).exists();
        if !taken && !pending {
            // Withdrawn in the instant before it was taken, or removed by somebody.
            claim.finish()?;
            return Ok(None);
        }
        let mine = before.is_empty() || before == agent;
        Ok(Some(claim).filter(|_| taken && mine))
    }

    /// Takes a command that nobody has; `None` if somebody was faster.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn take(
        volumes: &Volumes,
        id: &CommandId,
        agent: &str,
    ) -> Result<Option<Self>, VolumesError> {
        let Some((mut claim, _)) = Self::lock(volumes, id, true)? else {
            return Ok(None);
        };
        claim.sign(agent)?;
        match volumes.claim(id) {
            Ok(()) => {
                tracing::info!(command = %id, "taken");
                Ok(Some(claim))
            }
            Err(error) => {
                let left = matches!(
                    error.kind(),
                    // Somebody was faster, or the same command was taken once before.
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
                );
                claim.finish()?;
                if left { Ok(None) } else { Err(error) }
            }
        }
    }

    /// Locks a command's claim and returns with it who signed it before. `None` if somebody else has it, or if there
    /// is none and none is to be made.
    fn lock(
        volumes: &Volumes,
        id: &CommandId,
        make: bool,
    ) -> Result<Option<(Self, String)>, VolumesError> {
        let path = lock_path(volumes, id);
        let locked = || -> io::Result<Option<(File, String)>> {
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(make)
                .truncate(false)
                .open(&path);
            let mut file = match opened {
                // Finished by its worker since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
                opened => opened?,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Whoever had it may have finished and removed it since it was opened.
            if !same_file(&file, &path) {
                return Ok(None);
            }
            let mut before = String::new();
            (&mut file).take(64).read_to_string(&mut before)?;
            Ok(Some((file, before)))
        };
        let locked = locked().map_err(|error| VolumesError::new("lock", &path, error))?;
        Ok(locked.map(|(file, before)| {
            let claim = Self {
                volumes: volumes.clone(),
                id: id.clone(),
                lock: file,
            };
            (claim, before)
        }))
    }

    fn sign(&mut self, agent: &str) -> Result<(), VolumesError> {
        self.lock
            .set_len(0)
            .and_then(|()| self.lock.write_all(agent.as_bytes()))
            .map_err(|error| VolumesError::new("write", &lock_path(&self.volumes, &self.id), error))
    }

    pub(super) fn id(&self) -> &CommandId {
        &self.id
    }

    /// Lets go of a command with which nothing was begun, so that whoever looks next takes it.
    ///
    /// # Errors
    /// What the file system says; the command is taken up again then.
    pub(super) fn give_back(self) -> Result<(), VolumesError> {
        self.volumes.give_back(&self.id)?;
        self.finish()
    }

    /// Lets go of a command that needs nothing more, and removes what it had in `active/`.
    pub(super) fn finish(self) -> Result<(), VolumesError> {
        // First: without it the command does not count as left behind, whatever else remains.
        let path = lock_path(&self.volumes, &self.id);
        fs::remove_file(&path).map_err(|error| VolumesError::new("remove", &path, error))?;
        self.volumes.rest(&self.id)
    }
}

fn lock_path(volumes: &Volumes, id: &CommandId) -> PathBuf {
    volumes.path(Folder::Active).join(format!("{id}.lock"))
}

fn same_file(file: &File, path: &Path) -> bool {
    let (Ok(opened), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (opened.dev(), opened.ino()) == (there.dev(), there.ino())
}
