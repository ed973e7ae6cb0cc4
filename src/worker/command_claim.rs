//! Whose a command is. A worker that takes one locks `active/<id>.lock` first and then moves the command, and keeps
//! the lock until it has reported; so a command whose lock is free but there was left behind by a worker that died.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::time::{Duration, Instant};

use super::{RUNS_ON, RoleFilter, end_left_behind};
use crate::exec;
use crate::own_files;
use crate::plan::{CommandId, PlanId, TaskId};
use crate::volumes::{Folder, Heartbeat, Result, Volumes, VolumesError};
use crate::wire::{CommandType, one_line};

/// The most of a role that is written into a lock, in characters: more than the name of any that a team has.
const MAX_ROLE: usize = 80;
/// For how long a command is passed over: the first time, and at most.
const FIRST_PASS: Duration = Duration::from_secs(2);
const LONGEST_PASS: Duration = Duration::from_secs(30);
/// The most that is read of a lock.
const LONGEST: u64 = 1024;

/// A command that this worker alone has.
#[derive(Debug)]
pub struct Claim {
    /// Those in which the command lies.
    pub(super) volumes: Volumes,
    id: CommandId,
    /// Closed, and so unlocked, with the claim; signed by the worker that has it.
    lock: File,
    /// A worker of another agent had it, and died.
    pub(super) of_another: bool,
}

/// Takes commands for a worker: for its agent, as locks name it, and of some roles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimer<'a> {
    pub(super) agent: &'a str,
    pub(super) role: &'a RoleFilter,
    /// The plan whose commands it takes; `None` for those of all.
    pub(super) plan: Option<&'a PlanId>,
}

/// Commands that a worker leaves alone for a while, longer each time: something still runs for them that it cannot end.
#[derive(Debug, Default)]
pub(super) struct PassedOver {
    /// Until when, and for how long that is.
    until: BTreeMap<CommandId, (Instant, Duration)>,
}

impl PassedOver {
    /// Passes a command over from now on.
    pub(super) fn note(&mut self, id: CommandId) {
        let longer = |(_, before): &(Instant, Duration)| (*before * 2).min(LONGEST_PASS);
        let span = self.until.get(&id).map_or(FIRST_PASS, longer);
        self.until.insert(id, (Instant::now() + span, span));
    }

    /// Returns whether a command is passed over now.
    fn has(&self, id: &CommandId) -> bool {
        let until = self.until.get(id);
        until.is_some_and(|(until, _)| Instant::now() < *until)
    }
}

impl Claimer<'_> {
    /// Takes a command for a worker: first one that a dead worker like it left behind, then the oldest that no worker has,
    /// of those that are named first if there is one, and at last one that a dead worker of another agent left behind, which
    /// that one would go on with better.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn next(
        self,
        volumes: &Volumes,
        passed: &PassedOver,
        first: &BTreeSet<CommandId>,
    ) -> Result<Option<Claim>> {
        let mut of_another = None;
        for id in volumes.locked()? {
            if passed.has(&id) {
                continue;
            }
            match self.take_up(volumes, &id)? {
                Some(claim) if claim.of_another => drop(of_another.get_or_insert(claim)),
                Some(claim) => return Ok(Some(claim)),
                None => {}
            }
        }
        let mut waiting = Vec::new();
        for volumes in self.role.from(volumes) {
            let ids = volumes.waiting()?.into_iter();
            waiting.extend(ids.map(|id| (id, volumes.clone())));
        }
        waiting.sort_by_cached_key(|(id, _)| (!first.contains(id), id.clone()));
        let at_work = match waiting.is_empty() {
            true => Vec::new(),
            false => tasks_at_work(volumes)?,
        };
        for (id, volumes) in waiting {
            if let Some(claim) = self.take(&volumes, &id, &at_work)? {
                return Ok(Some(claim));
            }
        }
        Ok(of_another)
    }

    /// Takes a command that a dead worker left behind.
    pub(super) fn take_up(self, volumes: &Volumes, id: &CommandId) -> Result<Option<Claim>> {
        let Some((mut claim, signed)) = Claim::lock(volumes, id, false)? else {
            return Ok(None);
        };
        let everywhere = volumes.everywhere();
        let there = |folder| {
            let mut everywhere = everywhere.iter();
            everywhere.find(|there| there.command(folder, id).exists())
        };
        let Some(taken) = there(Folder::CommandsProcessed) else {
            if there(Folder::CommandsPending).is_none() {
                // Withdrawn in the instant before it was taken, or removed by another program.
                claim.finish()?;
            }
            return Ok(None);
        };
        let mut signed = signed.lines();
        let agent = signed.next();
        let mut addressee = Addressee::default();
        if agent.is_none() || self.plan.is_some() {
            addressee = Addressee::of(taken, Folder::CommandsProcessed, id);
        }
        if agent.is_some() {
            addressee.role = signed.next().map(str::to_owned);
        }
        let mine = self.takes(taken, &addressee);
        claim.of_another = agent.is_some_and(|agent| agent != self.agent);
        claim.volumes = taken.clone();
        Ok(Some(claim).filter(|_| mine))
    }

    /// Takes a command that no worker has; `None` if it is for others, another worker was faster, or an agent is still `at_work` on
    /// its task by another command: two of them would write into one folder.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn take(
        self,
        volumes: &Volumes,
        id: &CommandId,
        at_work: &[TaskOfPlan],
    ) -> Result<Option<Claim>> {
        let addressee = Addressee::of(volumes, Folder::CommandsPending, id);
        let busy = |task| at_work.contains(&task);
        if !self.takes(volumes, &addressee) || addressee.task().is_some_and(busy) {
            return Ok(None);
        }
        let Some((mut claim, _)) = Claim::lock(volumes, id, true)? else {
            return Ok(None);
        };
        claim.sign(self.agent, addressee.role.as_deref())?;
        match volumes.claim(id) {
            Ok(()) => {
                tracing::info!(command = %id, "taken");
                Ok(Some(claim))
            }
            Err(error) => {
                claim.finish()?;
                match error.kind() {
                    // Another worker was faster, or the same command was taken once before.
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => Ok(None),
                    _ => Err(error),
                }
            }
        }
    }

    fn takes(self, volumes: &Volumes, addressee: &Addressee) -> bool {
        let plan = addressee.plan.as_ref();
        let of_plan = plan.is_none() || self.plan.is_none() || plan == self.plan;
        of_plan && self.role.takes_from(volumes, addressee.role.as_deref())
    }
}

impl Claim {
    /// Locks a command's claim and returns with it the signature that was there. `None` if another worker has it, or if there
    /// is none and none is to be made.
    fn lock(volumes: &Volumes, id: &CommandId, make: bool) -> Result<Option<(Self, String)>> {
        let path = volumes.claim_lock(id);
        let locked = || -> io::Result<Option<(File, String)>> {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(make).truncate(false);
            let mut file = match own_files::file(&mut options, &path) {
                // Finished by its worker since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
                // Whatever else lies there must not keep the other commands from being taken.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::debug!(path = %path.display(), %error, "a command that no worker can take");
                    return Ok(None);
                }
                opened => opened?,
            };
            // The worker that had it may have finished and removed it since it was opened.
            if !own_files::lock(&file)? || !own_files::is_at(&file, &path) {
                return Ok(None);
            }
            let before = io::read_to_string((&mut file).take(LONGEST))?;
            Ok(Some((file, before)))
        };
        let locked = locked().map_err(|error| VolumesError::new("lock", &path, error))?;
        Ok(locked.map(|(file, before)| {
            let claim = Self {
                volumes: volumes.clone(),
                id: id.clone(),
                lock: file,
                of_another: false,
            };
            (claim, before)
        }))
    }

    /// Writes into the lock who has the command: the agent, and on a second line the role that the command is assigned to.
    fn sign(&mut self, agent: &str, assignee: Option<&str>) -> Result<()> {
        let text: Vec<&str> = [agent].into_iter().chain(assignee).collect();
        self.lock
            .set_len(0)
            .and_then(|()| self.lock.rewind())
            .and_then(|()| self.lock.write_all(text.join("\n").as_bytes()))
            .map_err(|error| VolumesError::new("write", &self.volumes.claim_lock(&self.id), error))
    }

    /// Makes a command of a worker that died this agent's, which cannot go on with what the other had begun.
    ///
    /// # Errors
    /// What the file system says; it is still the other's then.
    pub(super) fn take_over(&mut self, agent: &str) -> Result<()> {
        let addressee = Addressee::of(&self.volumes, Folder::CommandsProcessed, &self.id);
        // First: what the other printed must never be read as this one's.
        self.volumes.live(&self.id, &Heartbeat::default())?;
        self.of_another = false;
        self.sign(agent, addressee.role.as_deref())
    }

    /// Returns the id of the command.
    pub fn id(&self) -> &CommandId {
        &self.id
    }

    /// Lets go of a command on which no agent works, so that the next worker takes it.
    ///
    /// # Errors
    /// What the file system says; the command is taken up again then.
    pub fn give_back(self) -> Result<()> {
        self.volumes.release(&self.id)?;
        self.finish()
    }

    /// Lets go of a command that needs nothing more, and removes what it had in `active/`.
    pub(super) fn finish(self) -> Result<()> {
        // First: without it the command does not count as left behind, whatever else remains.
        let path = self.volumes.claim_lock(&self.id);
        fs::remove_file(&path).map_err(|error| VolumesError::new("remove", &path, error))?;
        self.volumes.rest(&self.id)
    }
}

/// A task of a plan.
pub(super) type TaskOfPlan = (PlanId, TaskId);

/// Returns the tasks on which agents of workers are at work, also of workers that are dead.
fn tasks_at_work(volumes: &Volumes) -> Result<Vec<TaskOfPlan>> {
    let (mut locked, everywhere) = (volumes.locked()?, volumes.everywhere());
    locked.retain(|id| exec::alive(&volumes.log(id, "err")));
    let tasks = locked.iter().filter_map(|id| {
        let mut all = everywhere.iter();
        all.find_map(|there| Addressee::of(there, Folder::CommandsProcessed, id).task())
    });
    Ok(tasks.collect())
}

/// Whom a command is for.
#[derive(Debug, Default)]
struct Addressee {
    /// The role that it is assigned to, on one line; `None` if it is for all.
    role: Option<String>,
    plan: Option<PlanId>,
    /// The task that the command gives to an agent; `None` for what a role asks another one, and for the end of a session.
    task: Option<TaskId>,
}

impl Addressee {
    /// Reads it from a command's file; one that cannot be read is for all.
    fn of(volumes: &Volumes, folder: Folder, id: &CommandId) -> Self {
        let Some(command) = volumes.find_command(folder, id) else {
            return Self::default();
        };
        let assignee = command.assignee.as_deref();
        let is_task = command.request_id.is_none() && command.kind != CommandType::End;
        Self {
            role: assignee.map(|role| one_line(role, MAX_ROLE)),
            plan: command.plan,
            task: command.task.filter(|_| is_task),
        }
    }

    fn task(&self) -> Option<TaskOfPlan> {
        Some((self.plan.clone()?, self.task?))
    }
}

/// Returns those of the commands that dead workers of an agent had, after it has ended what still runs for them. What has a
/// report, or cannot be ended, is not among them.
///
/// # Errors
/// What the file system says.
pub async fn left_behind(
    volumes: &Volumes,
    agent: &str,
    commands: &[CommandId],
) -> Result<Vec<Claim>> {
    let claimer = Claimer {
        agent,
        role: &RoleFilter::All,
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
        match end_left_behind(volumes, id).await {
            Err(error) if error.kind() == RUNS_ON => continue,
            ended => ended?,
        }
        if !claim.volumes.reported(id)? {
            found.push(claim);
        }
    }
    Ok(found)
}

/// Takes commands back that are not wanted any more, where no daemon does it: asks the agents of living workers to stop, and ends
/// what dead ones left running. The next daemon records it.
///
/// # Errors
/// What the file system says, and what cannot be ended now.
pub async fn take_back(volumes: &Volumes, commands: &[CommandId]) -> Result<()> {
    let failed = commands.iter().filter_map(|id| volumes.recall(id).err());
    let mut failed: Vec<_> = failed.collect();
    failed.extend(end_left_agents(volumes, commands).await.1);
    failed.into_iter().next().map_or(Ok(()), Err)
}

/// Ends what dead workers of any agent left running for commands that need nothing more. Returns for how many it ended something,
/// and what could not be ended.
pub async fn end_left_agents(
    volumes: &Volumes,
    commands: &[CommandId],
) -> (usize, Vec<VolumesError>) {
    let (mut ended, mut failed) = (0, Vec::new());
    for id in commands {
        let result = match Claim::lock(volumes, id, false) {
            Ok(Some((claim, _))) => end_left_behind(volumes, id)
                .await
                .and_then(|()| claim.finish()),
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => ended += 1,
            Err(error) => failed.push(error),
        }
    }
    (ended, failed)
}
