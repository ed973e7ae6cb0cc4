//! One daemon for each folder: the kernel releases the lock when its holder dies, and a note names the holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Cannot, Result, Volumes, VolumesError, machine, read_capped, replace};
use crate::own_files::{self, FilePlace, remove_if_there};
use crate::plan::PlanId;
use crate::processes::{self, has_ended};
use crate::wire::sha256;

/// A process that only checks whether a daemon runs holds the lock for an instant; a start in that instant tries again.
const TRIES: u32 = 4;
/// The first holder of a new lock has not signed it yet.
const TRIES_FOR_A_NAME: u32 = 40;
/// A daemon that was killed while it started a program leaves the lock with the child until the program has begun: two seconds.
const TRIES_AFTER_A_DEATH: u32 = 134;
/// Commands that change a plan which has ended wait for each other.
const BESIDE_COMMANDS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(15);
/// The names of the note about a running daemon, and of the record of its end.
const NOTE: &str = "daemon.json";
const FAREWELL: &str = "daemon.ended.json";
/// Far more than either of them ever contains.
const NOTE_CAP: u64 = 16 * 1024;

/// What other commands can read about a running daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonInfo {
    pub pid: u32,
    /// RFC 3339.
    #[serde(default)]
    pub started_at: String,
    #[serde(default)]
    pub version: String,
    /// The plans that it carries out; `None` before it has said so.
    #[serde(default)]
    pub plans: Option<Vec<String>>,
    #[serde(default)]
    pub root: PathBuf,
}

impl DaemonInfo {
    /// Returns whether it carries out a plan. A daemon that has not said yet which plan is its own counts.
    pub fn carries_out(&self, plan: &PlanId) -> bool {
        let own = self.plans.as_ref();
        own.is_none_or(|own| own.iter().any(|own| own == plan.as_str()))
    }

    /// Returns whether a signal keeps its process from running; false where the system does not say.
    pub fn is_suspended(&self) -> bool {
        processes::of(self.pid).is_some_and(|process| process.suspended)
    }
}

/// A daemon's record of its end, for later commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFarewell {
    /// The plan that it was carrying out.
    pub plan: String,
    /// RFC 3339.
    pub at: String,
    pub why: String,
}

/// Why the lock could not be acquired, or a plan cannot be kept from daemons.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon holds it; the pid is unknown in the instant in which that daemon starts.
    #[error("another daemon holds the folder{}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Held { pid: Option<u32> },
    #[error("a daemon (pid {pid}) carries out plan `{plan}`")]
    CarriedOut { pid: u32, plan: PlanId },
    #[error(transparent)]
    Volumes(#[from] VolumesError),
}

/// Held until the daemon ends.
#[derive(Debug)]
pub struct DaemonLock {
    volumes: Volumes,
    file: File,
    /// A process that finds another file there, or none, can also acquire a lock.
    pub place: FilePlace,
}

impl Volumes {
    /// Returns the name of the folder among those of several machines.
    pub fn home(&self) -> String {
        let root = self.root().canonicalize();
        let root = root.unwrap_or_else(|_| self.root().to_owned());
        format!("{}:{}", machine().unwrap_or("?"), root.display())
    }

    /// Returns the name of every daemon of the folder, one after the other, until the machine is booted again. Two machines with
    /// the same name are told apart.
    pub fn holder(&self) -> String {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let file = self.root().metadata().map(|root| (root.dev(), root.ino()));
        let mark = sha256(format!("{:?} {:?}", boot.ok(), file.ok()));
        format!("{} #{}", self.home(), &mark[..8])
    }

    /// Acquires the daemon's lock. Does not wait for a daemon that runs; blocks for at most two seconds while the process that
    /// signed the lock is dead.
    ///
    /// # Errors
    /// `Held` with the pid when another daemon holds it; otherwise the error of the lock file.
    pub fn lock(&self) -> Result<DaemonLock, LockError> {
        let path = self.lock_path();
        let failed = |error| VolumesError::new("lock", &path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = own_files::file(options.mode(0o600), &path).map_err(failed)?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(failed(error).into()),
                Err(TryLockError::WouldBlock) => {
                    let pid = pid(&file);
                    let tries = match pid {
                        None => TRIES_FOR_A_NAME,
                        Some(pid) if has_ended(pid) => TRIES_AFTER_A_DEATH,
                        Some(_) => TRIES,
                    };
                    if attempt >= tries {
                        return Err(LockError::Held { pid });
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
        write_owner(&mut file).map_err(failed)?;
        self.sweep().map_err(failed)?;
        Ok(self.held(file).map_err(failed)?)
    }

    /// Takes over the lock that another process passed to this one; `None` if the file is not that lock.
    ///
    /// # Errors
    /// The error of the lock file.
    pub fn adopt(&self, mut file: File) -> Result<Option<DaemonLock>> {
        let path = self.lock_path();
        // The lock is already held through this file: then this call changes nothing.
        if !own_files::is_at(&file, &path) || file.try_lock().is_err() {
            return Ok(None);
        }
        let lock = write_owner(&mut file).and_then(|()| self.held(file));
        lock.map(Some).cannot("lock", &path)
    }

    fn held(&self, file: File) -> std::io::Result<DaemonLock> {
        Ok(DaemonLock {
            volumes: self.clone(),
            place: FilePlace::new(self.lock_path(), &file.metadata()?),
            file,
        })
    }

    /// Returns the daemon that carries out plans here, if one runs: the lock decides, never the note alone.
    pub fn running(&self) -> Option<DaemonInfo> {
        let file = own_files::file(OpenOptions::new().read(true), &self.lock_path()).ok()?;
        let Err(TryLockError::WouldBlock) = file.try_lock_shared() else {
            return None;
        };
        let pid = pid(&file)?;
        let note: Option<DaemonInfo> = self.read_json(NOTE);
        let own = note.filter(|note| note.pid == pid);
        Some(own.unwrap_or_else(|| DaemonInfo {
            pid,
            root: self.root().to_owned(),
            ..DaemonInfo::default()
        }))
    }

    /// Keeps every daemon from a plan that none carries out, as long as the lock is held; `None` if one has another plan: it does
    /// not come to this one. Blocks for about three seconds while another command, or a daemon that starts, has the lock, or while
    /// one has not let go yet of a plan that `has_ended`.
    ///
    /// # Errors
    /// A daemon carries the plan out, or the lock cannot be acquired.
    pub fn free_of_daemons(
        &self,
        plan: &PlanId,
        has_ended: bool,
    ) -> Result<Option<DaemonLock>, LockError> {
        let busy = |DaemonInfo { pid, .. }| {
            let plan = plan.clone();
            LockError::CarriedOut { pid, plan }
        };
        let until = Instant::now() + BESIDE_COMMANDS;
        loop {
            let waits = Instant::now() < until;
            match self.running() {
                // Another command that keeps daemons away says nothing of itself, and is soon done; nor has a daemon that starts.
                Some(DaemonInfo { plans: None, .. }) if waits => std::thread::sleep(PAUSE),
                Some(daemon) if has_ended && waits && daemon.carries_out(plan) => {
                    std::thread::sleep(PAUSE);
                }
                Some(daemon) if daemon.carries_out(plan) => return Err(busy(daemon)),
                Some(_) => return Ok(None),
                None => match self.lock() {
                    Err(LockError::Held { .. }) if waits => {}
                    locked => return locked.map(Some),
                },
            }
        }
    }

    /// Returns the daemon that carries out a plan here, if one does.
    pub fn daemon_of(&self, plan: &PlanId) -> Option<DaemonInfo> {
        self.running().filter(|daemon| daemon.carries_out(plan))
    }

    /// Returns how the last daemon ended, if it could record that and no daemon has started since.
    pub fn last_word(&self) -> Option<DaemonFarewell> {
        self.read_json(FAREWELL)
    }

    /// Writes the note about this process, which holds the lock, for other commands; is repeated when the content changes.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub fn announce(&self, info: &DaemonInfo) -> Result<()> {
        self.write_json(NOTE, info)?;
        let earlier = self.root().join(FAREWELL);
        remove_if_there(&earlier).cannot("remove", &earlier)
    }

    /// Returns a daemon that has ended without removing its note.
    pub fn vanished(&self) -> Option<DaemonInfo> {
        // The lock is checked last: a daemon may have started just now.
        self.read_json(NOTE).filter(|_| self.running().is_none())
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&read_capped(&self.root().join(name), NOTE_CAP).ok()?).ok()
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(value).expect("texts and numbers only");
        let temp = self.root().join(format!(".{name}"));
        replace(&temp, &self.root().join(name), &text, 0o600)
    }

    fn lock_path(&self) -> PathBuf {
        self.root().join("daemon.lock")
    }
}

impl DaemonLock {
    /// Returns the file through which the lock is held, for a process that takes the lock over: the folder is never free in
    /// between. The lock is released when the last process has closed the file.
    ///
    /// # Errors
    /// When the system cannot open a further file.
    pub fn into_file(self) -> Result<File> {
        let file = self.file.try_clone();
        file.cannot("hand over", &self.volumes.lock_path())
    }

    /// Records how this daemon ends, unless the folder belongs to another daemon by now.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn leave_word(&self, word: &DaemonFarewell) -> Result<()> {
        match self.place.is_lost() {
            true => Ok(()),
            false => self.volumes.write_json(FAREWELL, word),
        }
    }
}

impl Drop for DaemonLock {
    fn drop(&mut self) {
        let note: Option<DaemonInfo> = self.volumes.read_json(NOTE);
        let is_own = note.is_some_and(|note| note.pid == std::process::id());
        // The note belongs to the daemon that holds the folder now, or is what one that was killed has left.
        if self.place.is_lost() || !is_own {
            return;
        }
        if let Err(error) = remove_if_there(&self.volumes.root().join(NOTE)) {
            tracing::debug!(%error, "the note of the daemon stays behind");
        }
    }
}

/// Writes the pid of the lock's holder. A process that reads at this moment finds the old pid or the new one.
fn write_owner(file: &mut File) -> std::io::Result<()> {
    let name = format!("{}\n", std::process::id());
    file.rewind()?;
    file.write_all(name.as_bytes())?;
    file.set_len(name.len() as u64)
}

fn pid(mut file: &File) -> Option<u32> {
    file.rewind().ok()?;
    let text = std::io::read_to_string(file.take(32)).ok()?;
    text.lines().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn info(volumes: &Volumes) -> DaemonInfo {
        DaemonInfo {
            pid: std::process::id(),
            started_at: "2026-01-01T00:00:00Z".into(),
            version: "1.2.3".into(),
            plans: Some(vec!["abcdefgh".into()]),
            root: volumes.root().to_owned(),
        }
    }

    #[test]
    fn second_daemon_learns_pid_of_first() {
        let (root, volumes) = Volumes::temporary();
        assert_eq!(volumes.running(), None);
        let lock = volumes.lock().unwrap();
        volumes.announce(&info(&volumes)).unwrap();
        let LockError::Held { pid } = volumes.lock().unwrap_err() else {
            panic!("the lock is held");
        };
        assert_eq!(pid, Some(std::process::id()));
        assert_eq!(volumes.running(), Some(info(&volumes)));
        for name in ["daemon.lock", "daemon.json"] {
            let file = fs::metadata(root.path().join(name)).unwrap();
            let mode = file.permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let word = DaemonFarewell {
            plan: "abcdefgh".into(),
            at: "2026-01-01T00:00:00Z".into(),
            why: "asked to stop".into(),
        };
        lock.leave_word(&word).unwrap();
        drop(lock);
        // A program that another test is about to start has the lock, too, until it runs.
        let end = Instant::now() + Duration::from_secs(20);
        while volumes.running().is_some() && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(volumes.running(), None);
        assert_eq!(volumes.last_word(), Some(word));
        assert_eq!(volumes.vanished(), None);
        let _lock = volumes.lock().unwrap();
        volumes.announce(&info(&volumes)).unwrap();
        assert_eq!(volumes.last_word(), None);
    }

    #[test]
    fn handed_over_lock_is_never_free() {
        let (root, volumes) = Volumes::temporary();
        let handed = volumes.lock().unwrap().into_file().unwrap();
        assert!(volumes.lock().is_err());
        let stranger = File::open(root.path()).unwrap();
        assert!(volumes.adopt(stranger).unwrap().is_none());
        let lock = volumes.adopt(handed).unwrap().unwrap();
        assert!(volumes.lock().is_err());
        drop(lock);
        assert!(volumes.lock().is_ok());
    }

    #[test]
    fn dead_daemon_is_not_running() {
        let (root, volumes) = Volumes::temporary();
        let note = serde_json::to_string(&DaemonInfo {
            pid: 1,
            ..info(&volumes)
        })
        .unwrap();
        fs::write(root.path().join("daemon.json"), note).unwrap();
        assert_eq!(volumes.running(), None);
        assert_eq!(volumes.vanished().map(|daemon| daemon.pid), Some(1));
        let _lock = volumes.lock().unwrap();
        assert_eq!(volumes.vanished(), None);
        let found = volumes.running().unwrap();
        assert_eq!((found.pid, found.plans), (std::process::id(), None));
    }

    #[test]
    fn lock_removes_temp_files_of_killed_daemon() {
        let (_root, volumes) = Volumes::temporary();
        let half = volumes.temp("commands", "task-a.md");
        fs::write(&half, "half").unwrap();
        let _lock = volumes.lock().unwrap();
        assert!(!half.exists());
    }
}
