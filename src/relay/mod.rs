//! The agents' side of plans whose daemon is on another machine. A relay claims commands from the server of the plans, lays them
//! into the exchange folder here with a worktree of its own clone, and hands back what the agents report. Agents see nothing new:
//! they work with files. Only outgoing connections are made, and what comes from the server is data of a stranger.

mod claims;
mod held_commands;
mod own_clone;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::config::Config;
use crate::plan::{CommandId, PlanId, Time};
use crate::plan_time::{since_boot, wall};
use crate::store::{AboutRelay, ClaimedCommand, HeldBeat, RelayLink, StoreError};
use crate::volumes::{
    ArrivedReport, CommandPlace, Heartbeat, MOST_REPORTS, ReportDisposition, Scanner, Volumes,
    VolumesError, Watch, WorkerSign, WorkerSigns,
};
use crate::wire::command_file::{CommandFile, CommandType, title};
use crate::wire::{clip, one_line, report_file, time_text};
use crate::worker::RelayedLife;
use claims::{CLAIM, Claims, MARGIN};
use held_commands::HeldCommand;
pub use held_commands::RelayNotes;

/// How often a relay says that it lives.
const BEAT: Duration = Duration::from_secs(10);

/// How often the server is asked where it says nothing by itself.
const LOOK: Duration = Duration::from_secs(3);

/// An agent that was not heard of for so long is silent.
const SILENT: Duration = Duration::from_secs(30);

/// While an agent is at its usage limit, a command is taken for it at least so often: the limit may have been lifted.
const LIMITED: Duration = Duration::from_secs(15 * 60);

/// A plan whose work cannot be laid out here is left to others for so long.
const TROUBLE: Duration = Duration::from_secs(60);

/// For how long a relay that ends tries to say so.
const GOODBYE: Duration = Duration::from_secs(2);

/// The most characters of why the work cannot be handed back.
const REFUSED: usize = 2_000;

/// Returns the folder for the worktrees of a plan in a clone.
pub type WorktreeFolder = dyn Fn(&PlanId, &Path) -> PathBuf + Send + Sync;

/// What a relay works with.
pub struct RelayOptions {
    pub config: Arc<Config>,
    pub link: RelayLink,
    pub notes: RelayNotes,
    /// What others see of it. Its roles are those whose commands it takes; an empty one stands for commands without a role.
    pub about: AboutRelay,
    /// The most commands that it has at once.
    pub most: usize,
    /// Moves when the server may have something new.
    pub bell: watch::Receiver<u64>,
    pub worktrees: Box<WorktreeFolder>,
    /// Tells a person what happens.
    pub notice: Box<dyn Fn(&str) + Send + Sync>,
}

/// A command that was claimed, and for which a folder is made ready: that may take longer than a claim lasts.
struct NewCommand {
    claimed: ClaimedCommand,
    made: oneshot::Receiver<Result<HeldCommand>>,
    /// The one task that does it, which ends with this.
    _making: JoinSet<()>,
}

/// A relay of a folder.
pub struct Relay {
    options: RelayOptions,
    volumes: Volumes,
    wake: Arc<Notify>,
    watch: Watch,
    scanner: Scanner,
    /// The names of the reports that are being handed back.
    handing: VecDeque<String>,
    new: Vec<NewCommand>,
    until: Claims,
    /// What was last seen of each agent, and since when, by that clock: the one of the files may be another.
    seen: BTreeMap<CommandId, (WorkerSign, Duration)>,
    beaten: Option<Duration>,
    /// Plans whose work cannot be laid out here, and until when.
    trouble: BTreeMap<PlanId, Duration>,
    /// Roles whose agent is at its usage limit, and until when they get no command.
    limited: BTreeMap<String, Duration>,
    /// What was said last about the server.
    said: String,
}

impl Relay {
    /// Opens the folder, whose lock the caller holds.
    ///
    /// # Errors
    /// The folders cannot be made or used.
    pub fn open(options: RelayOptions) -> Result<Self, VolumesError> {
        let volumes = Volumes::open(&options.config.root())?;
        let wake = Arc::new(Notify::new());
        let watch = Watch::start(&volumes, Arc::clone(&wake), Arc::new(Notify::new()));
        let scanner = Scanner::new(&volumes, watch.hints(), options.config.timing.scan);
        Ok(Self {
            options,
            volumes,
            wake,
            watch,
            scanner,
            handing: VecDeque::new(),
            new: Vec::new(),
            until: Claims::default(),
            seen: BTreeMap::new(),
            beaten: None,
            trouble: BTreeMap::new(),
            limited: BTreeMap::new(),
            said: String::new(),
        })
    }

    /// Works until `shutdown` resolves.
    pub async fn work(&mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                // What is begun is noted first, so that it may be left at any moment.
                () = &mut shutdown => return,
                () = self.turn() => {}
            }
            tokio::select! {
                () = &mut shutdown => return,
                () = self.wake.notified() => {}
                _ = self.options.bell.changed() => {}
                () = sleep(LOOK) => {}
            }
        }
    }

    /// Ends, with the agents that it started itself, if it did: `ended` resolves when they have. What they did not report on is
    /// given back. Agents of others go on, and the next relay of the folder hands back what is reported.
    pub async fn end(mut self, ended: Option<impl Future<Output = ()>>) {
        let mut left = Vec::new();
        if let Some(ended) = ended {
            left.extend(self.options.notes.held.iter().cloned());
            left.retain(|held| matches!(self.volumes.is_unread(&held.id), Ok(false)));
            for held in &left {
                // Else the next worker here went on with it.
                if let Err(error) = self.volumes.recall(&held.id) {
                    tracing::warn!(command = %held.id, %error, "not stopped");
                }
            }
            ended.await;
        }
        let said = match timeout(GOODBYE, self.give_back(left)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the server of the plans does not answer".to_owned(),
        };
        let later = "what it has is offered again after a minute";
        (self.options.notice)(&format!("{said}; {later}"));
    }

    /// Gives back what was left undone, and says that the relay ends.
    async fn give_back(&mut self, left: Vec<HeldCommand>) -> Result<()> {
        let link = &self.options.link;
        for NewCommand { claimed, .. } in std::mem::take(&mut self.new) {
            let released = link.release(&claimed.id, claimed.claim, String::new());
            released.await?;
        }
        for held in left {
            // Its agent may have been faster.
            if !self.volumes.is_unread(&held.id)? {
                self.give_up(&held).await?;
            }
        }
        self.options.about.ended = true;
        self.options.link.beat(&self.options.about, &[]).await?;
        Ok(())
    }

    async fn turn(&mut self) {
        self.watch.check();
        self.stop_what_may_be_anothers();
        let claims = self.until.clone();
        let said = tokio::select! {
            exchanged = self.exchange() => match exchanged {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            },
            () = claims.soon_over() => {
                // A server may let a call wait for longer than the claims last.
                self.wake.notify_one();
                "the server of the plans does not answer".to_owned()
            }
        };
        // They are there as long as they are not filed.
        for name in self.handing.drain(..) {
            self.scanner.forget(&name);
        }
        if said != self.said {
            match said.is_empty() {
                true => (self.options.notice)("the server of the plans answers again"),
                false => (self.options.notice)(&format!("{said}; trying again")),
            }
            self.said = said;
        }
    }

    /// Asks the agents to stop whose commands another relay may take soon: the server was not reached for that long.
    fn stop_what_may_be_anothers(&mut self) {
        let soon = since_boot() + MARGIN;
        let over = |id: &CommandId| self.until.of(id) <= soon;
        self.new.retain(|new| !over(&new.claimed.id));
        for held in &mut self.options.notes.held {
            if held.given_up || !over(&held.id) {
                continue;
            }
            match self.volumes.recall(&held.id) {
                Ok(_) => held.given_up = true,
                Err(error) => {
                    tracing::warn!(command = %held.id, %error, "not stopped");
                    self.until.set(&held.id, soon + LOOK);
                }
            }
        }
        self.until.0.lock().retain(|_, until| *until > soon);
    }

    async fn exchange(&mut self) -> Result<()> {
        let held = (self.options.notes.held.iter()).map(|held| held.id.clone());
        let held: Vec<CommandId> = held.collect();
        let mut scan = self.scanner.scan(&held, &[], MOST_REPORTS)?;
        let reports = std::mem::take(&mut scan.reports);
        self.handing = reports.iter().map(|it| it.name.clone()).collect();
        let mut failed = None;
        for report in reports {
            self.beat_if_due().await?;
            let name = report.name.clone();
            match self.hand_back(report).await {
                Ok(()) => {}
                Err(error @ RelayError::Store(_)) => return Err(error),
                Err(error) => {
                    // The others do not wait for it.
                    self.scanner.forget(&name);
                    failed.get_or_insert(error);
                }
            }
            self.handing.pop_front();
        }
        if scan.waiting || scan.more {
            self.wake.notify_one();
        }
        self.see(scan.signs);
        self.beat_if_due().await?;
        self.take_what_is_ready().await?;
        self.publish_missing()?;
        while self.options.notes.held.len() + self.new.len() < self.options.most {
            let asked = since_boot();
            let Some(claimed) = self.claim().await? else {
                break;
            };
            match CommandFile::parse(&claimed.text) {
                Ok(end) if end.kind == CommandType::End => self.pass_on(end, &claimed).await?,
                _ => {
                    self.until.set(&claimed.id, asked + CLAIM);
                    self.make_ready(claimed);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn see(&mut self, signs: WorkerSigns) {
        self.seen.retain(|id, _| signs.contains_key(id));
        for (id, mut sign) in signs {
            // An agent that has ended names it no more.
            let known = self
                .seen
                .get(&id)
                .and_then(|(last, _)| last.life.session.clone());
            sign.life.session = sign.life.session.or(known);
            if self.seen.get(&id).is_none_or(|(last, _)| *last != sign) {
                self.seen.insert(id, (sign, since_boot()));
            }
        }
    }

    /// Returns after how long the relay is to say again that it lives.
    fn next_beat(&self) -> Duration {
        let due = self.beaten.map_or(Duration::ZERO, |at| at + BEAT);
        due.saturating_sub(since_boot())
    }

    async fn beat_if_due(&mut self) -> Result<()> {
        match self.next_beat().is_zero() {
            true => self.beat().await,
            false => Ok(()),
        }
    }

    /// Says that the relay lives, and gives up what is not its own any more.
    async fn beat(&mut self) -> Result<()> {
        let held = self.options.notes.held.clone();
        let new = self.new.iter().map(|new| &new.claimed);
        // The daemon counts a command as claimed once an agent can begin.
        let new = new.map(|new| HeldBeat {
            id: new.id.clone(),
            claim: new.claim,
            life: String::new(),
        });
        let beats = held.iter().map(|held| self.beat_of(&held.id, held.claim));
        let beats: Vec<HeldBeat> = beats.chain(new).collect();
        let asked = since_boot();
        let kept = self.options.link.beat(&self.options.about, &beats).await?;
        self.new.retain(|new| kept.contains(&new.claimed.id));
        let until = |id: &CommandId| (id.clone(), asked + CLAIM);
        *self.until.0.lock() = kept.iter().map(until).collect();
        for held in held {
            let (id, title) = (&held.id, title(&held.text, &held.id));
            if !kept.contains(id) {
                self.volumes.recall(id)?;
                (self.options.notice)(&format!("taken back: {title}"));
                self.let_go(id)?;
            } else if held.given_up && !self.volumes.is_unread(id)? {
                // What was reported before that is handed back.
                self.give_up(&held).await?;
            }
        }
        // Last: where something failed on the way, what is held is asked for again.
        self.beaten = Some(asked);
        Ok(())
    }

    /// Gives back a command on which no agent works any more.
    async fn give_up(&mut self, held: &HeldCommand) -> Result<()> {
        let link = &self.options.link;
        link.release(&held.id, held.claim, String::new()).await?;
        let title = title(&held.text, &held.id);
        (self.options.notice)(&format!("given back: {title}"));
        self.let_go(&held.id)
    }

    /// Forgets a command, but not the session of its agent, in which its next attempt may go on.
    fn let_go(&mut self, id: &CommandId) -> Result<()> {
        self.until.forget(id);
        let seen = self.seen.get(id);
        let session = seen.and_then(|(sign, _)| sign.life.session.clone());
        self.options.notes.remove(id, session)
    }

    /// Returns what is said of the work on a command.
    fn beat_of(&self, id: &CommandId, claim: i64) -> HeldBeat {
        let heard = |(sign, since): &(WorkerSign, Duration)| {
            let lately = since_boot() < *since + SILENT;
            !sign.claimed || sign.beat.is_some() && lately
        };
        let seen = self.seen.get(id);
        let life = RelayedLife {
            alive: seen.is_none_or(heard),
            heartbeat: Heartbeat {
                machine: Some(self.options.about.machine.clone()),
                ..seen.map(|(sign, _)| sign.life.clone()).unwrap_or_default()
            },
        };
        HeldBeat {
            id: id.clone(),
            claim,
            life: serde_json::to_string(&life).expect("texts and numbers only"),
        }
    }

    async fn claim(&mut self) -> Result<Option<ClaimedCommand>> {
        let now = since_boot();
        self.trouble.retain(|_, until| *until > now);
        self.limited.retain(|_, until| *until > now);
        if self.limited.is_empty() {
            self.options.about.limited_until = None;
        }
        let RelayOptions { about, link, .. } = &self.options;
        let roles = about
            .roles
            .iter()
            .filter(|role| !self.limited.contains_key(*role));
        let roles: Vec<&String> = roles.collect();
        if roles.is_empty() {
            return Ok(None);
        }
        let passed: Vec<&PlanId> = self.trouble.keys().collect();
        let projects: Vec<&String> = self.options.config.projects.keys().collect();
        let sessions = &self.options.notes.sessions;
        Ok(link.claim(&roles, &projects, sessions, &passed).await?)
    }

    /// Lays a command that ends a session into the folder. After a kill it comes again.
    async fn pass_on(&self, mut end: CommandFile, claimed: &ClaimedCommand) -> Result<()> {
        let id = &claimed.id;
        end.id = id.clone();
        let root = self.options.config.project(&claimed.project);
        end.workspace = root.unwrap_or_default().display().to_string();
        if self.volumes.whereabouts(id)? == CommandPlace::Nowhere {
            self.volumes.publish(id, &end.render())?;
        }
        let (link, nothing) = (&self.options.link, Ok(Default::default()));
        link.report(id, claimed.claim, &[], nothing).await?;
        Ok(())
    }

    /// Begins to make ready what a claimed command needs. Reports are handed back meanwhile.
    fn make_ready(&mut self, claimed: ClaimedCommand) {
        let config = Arc::clone(&self.options.config);
        let (volumes, link) = (self.volumes.clone(), self.options.link.clone());
        let root = config.project(&claimed.project);
        let worktrees = |root: PathBuf| ((self.options.worktrees)(&claimed.plan, &root), root);
        let (place, wake) = (root.map(worktrees), Arc::clone(&self.wake));
        let command = claimed.clone();
        let (done, made) = oneshot::channel();
        let mut making = JoinSet::new();
        making.spawn(async move {
            let ready = HeldCommand::make_ready(&config, &volumes, &link, &command, place);
            drop(done.send(ready.await));
            wake.notify_one();
        });
        self.new.push(NewCommand {
            claimed,
            made,
            _making: making,
        });
    }

    /// Lays the commands into the folder for which everything is ready.
    async fn take_what_is_ready(&mut self) -> Result<()> {
        let (mut at, mut taken) = (0, false);
        while let Some(new) = self.new.get_mut(at) {
            let made = match new.made.try_recv() {
                Err(TryRecvError::Empty) => {
                    at += 1;
                    continue;
                }
                made => made,
            };
            let claimed = self.new.remove(at).claimed;
            let why = match made {
                Ok(Ok(held)) => {
                    self.take(held)?;
                    taken = true;
                    continue;
                }
                Ok(Err(error @ RelayError::Store(_))) => {
                    self.until.forget(&claimed.id);
                    return Err(error);
                }
                Ok(Err(error)) => error.to_string(),
                // A panic has printed itself.
                Err(_) => "an error of the program".to_owned(),
            };
            self.until.forget(&claimed.id);
            let RelayOptions { about, link, .. } = &self.options;
            let refused = format!("`{}` cannot work on it: {why}", about.machine);
            let refused = one_line(&refused, REFUSED);
            if !link.release(&claimed.id, claimed.claim, refused).await? {
                // It was taken back meanwhile, and so nothing came any more.
                continue;
            }
            let ClaimedCommand { plan, project, .. } = claimed;
            let what = format!("plan `{plan}` of project `{project}` cannot be worked on here");
            (self.options.notice)(&format!("{what}: {why}"));
            self.trouble.insert(plan, since_boot() + TROUBLE);
        }
        match taken {
            true => self.beat().await,
            false => Ok(()),
        }
    }

    fn take(&mut self, held: HeldCommand) -> Result<()> {
        (self.options.notice)(&format!("took {}", title(&held.text, &held.id)));
        // It was here under an earlier claim: its agent was asked to stop, or its report came too late.
        self.volumes.set_report_aside(&held.id)?;
        if self.volumes.whereabouts(&held.id)? == CommandPlace::Processed {
            self.volumes.release(&held.id)?;
        }
        self.options.notes.add(held)
    }

    /// Publishes what is noted and not in the folder: it was claimed a moment ago, or this is the next relay after a kill.
    fn publish_missing(&self) -> Result<()> {
        for held in self.options.notes.held.iter().filter(|held| !held.given_up) {
            match self.volumes.whereabouts(&held.id)? {
                CommandPlace::Nowhere | CommandPlace::Withdrawn => {
                    self.volumes.publish(&held.id, &held.text)?;
                }
                CommandPlace::Pending | CommandPlace::Processed | CommandPlace::Reported => {}
            }
        }
        Ok(())
    }

    /// Hands a report back, with the work; a report of what is not the relay's any more stays here.
    async fn hand_back(&mut self, report: ArrivedReport) -> Result<()> {
        let Some(id) = report_file::command_of(&report.name) else {
            return Ok(());
        };
        let name = &report.name;
        let Some(held) = self.options.notes.get(&id).cloned() else {
            if self.new.iter().any(|new| new.claimed.id == id) {
                // Its agent was asked to stop, and the command has come back: the report counts as soon as it is noted here.
                self.scanner.forget(name);
            } else if self.volumes.whereabouts(&id)? != CommandPlace::Reported {
                self.volumes.file_report(name, &ReportDisposition::Stale)?;
            }
            return Ok(());
        };
        let bytes = match report.content {
            Ok(bytes) => bytes,
            Err(reason) => {
                let rejected = ReportDisposition::Rejected(reason);
                return Ok(self.volumes.file_report(name, &rejected)?);
            }
        };
        let title = title(&held.text, &id);
        let link = self.options.link.clone();
        let handing = async {
            let work = match own_clone::commit(&held.work, &title).await {
                Ok(work) => Ok(work),
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => Err(clip(&error.to_string(), REFUSED)),
            };
            Ok(link.report(&id, held.claim, &bytes, work).await?)
        };
        let mut handing = std::pin::pin!(handing);
        let counts = loop {
            // A large result takes longer than a claim lasts.
            tokio::select! {
                counts = &mut handing => break counts?,
                () = sleep(self.next_beat()) => self.beat().await?,
            }
        };
        let (filed, what) = match counts {
            true => (ReportDisposition::Processed, "reported"),
            false => (ReportDisposition::Stale, "too late"),
        };
        self.volumes.file_report(name, &filed)?;
        (self.options.notice)(&format!("{what}: {title}"));
        let said = report_file::parse(name, &bytes).ok();
        if let Some(until) = said.as_ref().and_then(|file| file.report.blocked_until) {
            self.take_none_until(until, &held);
        }
        // Where the next attempt goes on, as the daemon knows it: by the report, else by the heartbeat.
        match said.and_then(|file| file.report.session) {
            None => self.let_go(&id),
            session => {
                self.until.forget(&id);
                self.options.notes.remove(&id, session)
            }
        }
    }

    /// Takes no new command for an agent that is at its usage limit: it would end each of them at once, and be free first for the
    /// next one.
    fn take_none_until(&mut self, until: Time, held: &HeldCommand) {
        let left = until.since(wall());
        if left.is_zero() {
            return;
        }
        let role = CommandFile::parse(&held.text).ok();
        let role = role.and_then(|file| file.assignee).unwrap_or_default();
        self.limited.insert(role, since_boot() + left.min(LIMITED));
        let until = time_text(until);
        (self.options.notice)(&format!(
            "takes no new command: its usage limit ends {until}"
        ));
        self.options.about.limited_until = Some(until);
        self.beaten = None;
    }
}

/// What a relay comes to.
type Result<T, E = RelayError> = std::result::Result<T, E>;

/// Why a relay does not get on.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Volumes(#[from] VolumesError),
    #[error(transparent)]
    Git(#[from] crate::exec::GitError),
    #[error(transparent)]
    Project(#[from] crate::exec::ProjectError),
    #[error("`{}`: {}", .0.display(), .1)]
    Notes(PathBuf, std::io::Error),
    #[error("{0}")]
    Other(String),
}
