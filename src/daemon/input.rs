//! What comes back from outside, and the one change that each of it becomes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};
use tokio::task::{Id, JoinError};

use super::arrival::{Arrival, Reply};
use super::desk::{Outgoing, new_question};
use super::hooks::News;
use super::inspect::Inspected;
use super::isolation::BranchNews;
use super::steps::{Asked, Checked};
use super::take::{Effect, filing, take, take_answer};
use super::{BY, Daemon, Filed, Key, MISSION_PACE, SOON, STORE_PAUSE, requests, scanner};
use crate::clock::LATE;
use crate::plan::{CommandId, Crew, Crews, Draft, PlanId, QuestionId, ROLE, Refusal, Time, World};
use crate::store::StoreError;
use crate::volumes::{Scanner, Sign, Unpublished, VolumesError, Withdrawal};

/// What an act came back with.
#[derive(Debug)]
pub(super) enum Input {
    Looked(Box<Scanner>, Result<Box<Look>, VolumesError>),
    Published(CommandId),
    Withdrawn(CommandId, Withdrawal),
    Inspected(CommandId, Box<Inspected>),
    Checked(CommandId, Checked),
    Branch(BranchNews),
    Asked(Box<Asked>),
    /// The budget allowed no call after all.
    NotAsked,
    QuestionShown(QuestionId),
    QuestionFiled(QuestionId),
    Filed(String),
    MissionWritten(i64),
    /// A hook was told this.
    Told(News),
    /// Internal plans were looked after.
    Tended,
}

/// What a look at the folders found.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub reports: Vec<Arrival>,
    pub replies: Vec<(QuestionId, Reply)>,
    pub signs: BTreeMap<CommandId, Sign>,
    /// Questions whose file lies in its folder.
    pub questions: Vec<QuestionId>,
    pub waiting: bool,
    pub more: bool,
    /// The folder was listed; otherwise this goes on with an earlier listing.
    pub listed: bool,
    pub began: Time,
}

type Done = Result<(Id, anyhow::Result<Input>), JoinError>;

/// Commands that are written and not yet in their folder.
type Prepared = Mutex<BTreeMap<CommandId, Unpublished>>;

fn locked(prepared: &Prepared) -> MutexGuard<'_, BTreeMap<CommandId, Unpublished>> {
    prepared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    /// Takes in what an act came back with.
    pub(super) async fn take_in(&mut self, done: Done) {
        let (id, result) = match done {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(error.into())),
        };
        let Some(key) = self.keys.remove(&id) else {
            return;
        };
        match result {
            Ok(input) => self.absorb(key, input).await,
            Err(error) => {
                self.under_way.remove(&key);
                if key == Key::Scan {
                    // It went with the look that failed.
                    self.scanner = Some(scanner(&self.settings, &self.watch));
                }
                self.fail(&key, &format!("{error:#}"));
            }
        }
    }

    pub(super) fn fail(&mut self, key: &Key, error: &str) {
        self.pace.failed(key, self.clock.now());
        self.trouble(what(key), error);
    }

    /// Tries again to commit what could not be committed.
    pub(super) async fn retry_kept(&mut self) {
        if self.kept_until <= self.world.now {
            for (key, input) in std::mem::take(&mut self.kept) {
                self.absorb(key, input).await;
            }
        } else if !self.kept.is_empty() {
            self.wake_by(self.kept_until);
        }
    }

    async fn absorb(&mut self, key: Key, input: Input) {
        let failed = match &input {
            Input::Withdrawn(id, done) => self.withdrawn(id, *done).await.err(),
            Input::Inspected(id, found) => self.inspected(id, found).await.err(),
            Input::Checked(id, checked) => self.checked(id, checked.clone()).await.err(),
            Input::Branch(news) => self.branch(news.clone()).await.err(),
            Input::Asked(asked) => self.asked(asked).await.err(),
            _ => None,
        };
        if let Some(error) = failed {
            // What came back may have cost money: it is kept, and stays under way, until it is committed.
            self.kept_until = self.clock.now().plus(STORE_PAUSE);
            self.trouble("the store", &error.to_string());
            self.kept.push((key, input));
            return;
        }
        self.under_way.remove(&key);
        match input {
            Input::Looked(..) => {}
            // Wanted back from those who have ended, and somebody else has it: the folders say who.
            Input::Withdrawn(_, Withdrawal::Taken) if !self.gone_at.is_empty() => {
                self.look_at = self.clock.now();
                self.pace.failed(&key, self.look_at);
            }
            _ => self.pace.succeeded(&key),
        }
        match input {
            Input::Looked(scanner, look) => self.looked(*scanner, look).await,
            Input::Published(id) => {
                let command = self.outgoing.remove(&id);
                let ends = command.and_then(|command| command.ends);
                self.world.ends_published.extend(ends);
            }
            Input::QuestionShown(id) => {
                tracing::warn!(question = %id, "a person is asked; `status` shows what");
                self.shown.insert(id);
            }
            Input::Told(news) => self.told.note(news),
            Input::QuestionFiled(id) => drop(self.shown.remove(&id)),
            Input::Filed(name) => drop(self.filings.remove(&name)),
            Input::MissionWritten(seq) => self.mission = (seq, self.clock.now().plus(MISSION_PACE)),
            Input::Withdrawn(..)
            | Input::Inspected(..)
            | Input::Checked(..)
            | Input::Branch(_)
            | Input::Asked(..)
            | Input::NotAsked
            | Input::Tended => {}
        }
    }

    /// Commits a change together with everything that follows from it by itself. A refusal is no failure: what came back is out
    /// of date then, and the plan says what is due instead.
    pub(super) async fn commit(
        &mut self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<(), StoreError> {
        let (desk, world) = (self.desk.clone(), self.now_world());
        let why_refused = why.to_owned();
        let outgoing = self
            .store
            .change(&self.settings.plan, BY, why, move |draft| {
                if let Err(refusal) = draft.part(change) {
                    tracing::warn!(%refusal, why = why_refused, "what came back is out of date");
                }
                Ok(desk.decide(draft, &world))
            })
            .await?;
        self.send(outgoing);
        Ok(())
    }

    /// Looks at the clock. If that comes far later than it was to come, the process was stopped or the machine suspended, and
    /// perhaps its agents with it: the time since the last look at the clock is nobody's silence, and the folders are looked at
    /// before anything is decided by the time.
    pub(super) fn tell_time(&mut self) {
        let (before, now) = (self.world.now, self.clock.now());
        self.world.now = now;
        if now.since(before.max(self.wake_at)) > LATE {
            let span = now.since(before);
            tracing::warn!(?span, "stood still: this time counts for no time-out");
            self.world.stood_still(span);
            self.look_at = now;
        } else if self.works {
            self.world.lived += now.since(before);
        }
    }

    fn now_world(&mut self) -> World {
        self.tell_time();
        self.world()
    }

    /// Returns what is known from outside the plan.
    pub(super) fn world(&self) -> World {
        let asking = self.under_way.iter().filter_map(|key| match key {
            Key::Ask(subject) => Some(subject.clone()),
            _ => None,
        });
        World {
            asking: asking.collect(),
            crews: self.crews(),
            ..self.world.clone()
        }
    }

    /// Returns how it is with those who were started to take commands.
    fn crews(&self) -> Crews {
        let crew = |(role, unfit): (&Option<String>, &watch::Receiver<bool>)| {
            let crew = match self.gone_at.get(role) {
                Some(gone) => Crew::Gone(*gone),
                None if *unfit.borrow() => Crew::Unfit,
                None => Crew::Works,
            };
            (role.clone(), crew)
        };
        let mut crews = Crews::default();
        for (role, crew) in self.hands.unfit.iter().map(crew) {
            match role {
                Some(role) => drop(crews.roles.insert(role, crew)),
                None => crews.others = Some(crew),
            }
        }
        crews
    }

    async fn withdrawn(&mut self, id: &CommandId, done: Withdrawal) -> Result<(), StoreError> {
        let command = id.clone();
        self.commit("a command was taken back", move |draft| {
            let recall = draft
                .plan()
                .attempt(&command)
                .is_some_and(|attempt| attempt.recall);
            match done {
                Withdrawal::Withdrawn => draft.withdrawn(&command),
                Withdrawal::Taken if recall => draft.recalled(&command),
                // A file that is gone was taken.
                Withdrawal::Taken => draft.claim(&command, None).map(drop),
            }
        })
        .await
    }

    async fn checked(&mut self, id: &CommandId, checked: Checked) -> Result<(), StoreError> {
        let command = id.clone();
        self.commit("checks ran", move |draft| {
            if let Some(merge) = checked.merge {
                draft.merged(&command, merge)?;
            }
            draft.checked(&command, checked.results)
        })
        .await
    }

    async fn branch(&mut self, news: BranchNews) -> Result<(), StoreError> {
        if let BranchNews::Elsewhere { reason, .. } = &news {
            (self.settings.notice)(reason);
        }
        let volumes = self.settings.volumes.clone();
        self.commit(
            "looked at the branch of the results",
            move |draft| match news {
                BranchNews::There(commit) => draft.branch_moved(&commit),
                BranchNews::Joined(merge) => draft.branch_joined(&merge),
                BranchNews::Elsewhere { found, reason } => {
                    let question = new_question(draft.plan(), &volumes);
                    draft.branch_elsewhere(&found, &reason, question)
                }
            },
        )
        .await
    }

    async fn asked(&mut self, asked: &Asked) -> Result<(), StoreError> {
        let asked = asked.clone();
        let volumes = self.settings.volumes.clone();
        self.commit("the model answered", move |draft| {
            take_answer(draft, asked, &volumes)
        })
        .await
    }

    pub(super) async fn looked(&mut self, scanner: Scanner, look: Result<Box<Look>, VolumesError>) {
        let mut scanner = scanner;
        match look {
            Err(error) => self.fail(&Key::Scan, &error.to_string()),
            Ok(mut look) => {
                let put_off = self.put_off(&mut scanner, &mut look);
                let now = self.clock.now();
                if look.more {
                    self.look_at = now;
                } else if look.waiting {
                    self.look_at = self.look_at.min(now.plus(SOON));
                }
                self.waiting = look.waiting;
                if look.listed {
                    self.listed_at = Some(look.began);
                    // One that was saved again after its answer counted.
                    self.shown.extend(look.questions.drain(..));
                }
                if put_off {
                    self.listed_at = None;
                }
                let more = look.more;
                let names: Vec<String> = look
                    .reports
                    .iter()
                    .map(|arrival| arrival.name.clone())
                    .collect();
                if let Err(error) = self.see(*look).await {
                    for name in names {
                        scanner.forget(&name);
                    }
                    self.listed_at = None;
                    self.fail(&Key::Scan, &error.to_string());
                } else {
                    self.pace.succeeded(&Key::Scan);
                    if !more && let Some(at) = self.listed_at {
                        self.world.scan_began = Some(at);
                    }
                }
            }
        }
        self.scanner = Some(scanner);
    }

    /// Leaves reports for a later look whose namesake is just being filed: where they go would be taken for done with it.
    /// Tells whether there was any.
    fn put_off(&self, scanner: &mut Scanner, look: &mut Look) -> bool {
        let before = look.reports.len();
        look.reports.retain(|arrival| {
            let moving = self.under_way.contains(&Key::File(arrival.name.clone()));
            if moving {
                scanner.forget(&arrival.name);
            }
            !moving
        });
        let put_off = look.reports.len() < before;
        look.waiting |= put_off;
        put_off
    }

    /// Takes in what a look found as one change, if there is anything new.
    async fn see(&mut self, look: Look) -> Result<(), StoreError> {
        let now = self.clock.now();
        let news: Vec<(CommandId, Sign)> = look
            .signs
            .iter()
            .filter(|(id, sign)| self.signs.get(*id) != Some(sign))
            .map(|(id, sign)| {
                let mut sign = sign.clone();
                // The agent reads the wall clock.
                sign.life.blocked_until = sign.life.blocked_until.map(|at| self.clock.of_wall(at));
                (id.clone(), sign)
            })
            .collect();
        for (id, sign) in &news {
            match &sign.life.model_fails {
                Some(said) => drop(self.world.faults.insert(id.clone(), said.clone())),
                None => {
                    self.world.signs.insert(id.clone(), now);
                    self.world.faults.remove(id);
                }
            }
        }
        self.world.signs.retain(|id, _| look.signs.contains_key(id));
        self.world
            .faults
            .retain(|id, _| look.signs.contains_key(id));
        if look.reports.is_empty() && look.replies.is_empty() && news.is_empty() {
            return Ok(());
        }
        let (desk, world) = (self.desk.clone(), self.now_world());
        let (reports, replies) = (look.reports, look.replies);
        let readable = reports.iter().any(|arrival| arrival.content.is_ok());
        let quick = readable.then(|| self.lookout.quick(now)).flatten();
        let seen = quick.clone();
        let (decided, early) = oneshot::channel();
        let change = move |draft: &mut Draft<'_>| {
            let effect = take(draft, reports, replies, &news, seen.as_ref(), &desk, &world);
            drop(decided.send(effect.outgoing.clone()));
            Ok(effect)
        };
        // The commands are written while the change is flushed: then each is only a rename away, for which no other thread has
        // to wake.
        let (prepared, volumes) = (Arc::<Prepared>::default(), &self.settings.volumes);
        let publish = {
            let (prepared, volumes) = (Arc::clone(&prepared), volumes.clone());
            move |effect: &mut Effect| {
                let published = |Outgoing { id, text, .. }: &Outgoing| {
                    let file = locked(&prepared).remove(id);
                    file.is_some_and(|file| volumes.publish_prepared(file, text).is_ok())
                };
                let (published, left) = std::mem::take(&mut effect.outgoing)
                    .into_iter()
                    .partition::<Vec<_>, _>(published);
                effect.outgoing = left;
                let ends = published.into_iter().filter_map(|command| command.ends);
                effect.ends_published.extend(ends);
            }
        };
        let plan = &self.settings.plan;
        let change = self
            .store
            .change_then(plan, BY, "something came in", change, publish);
        let prepare = async {
            for command in early.await.unwrap_or_default() {
                if command.layout.is_none()
                    && let Ok(file) = volumes.prepare(&command.id, &command.text)
                {
                    locked(&prepared).insert(command.id, file);
                }
            }
        };
        let (effect, ()) = tokio::join!(change, prepare);
        let effect = effect?;
        self.world.ends_published.extend(effect.ends_published);
        self.signs = look.signs;
        if let Some(quick) = quick {
            self.lookout.remember(&quick);
        }
        let prepared = std::mem::take(&mut *locked(&prepared));
        self.send_prepared(effect.outgoing, prepared);
        for (name, filed) in effect.filings {
            let at = if filed == Filed::Processed {
                now.plus(self.settings.timing.filing)
            } else {
                now
            };
            self.filings.insert(name, (at, filed));
        }
        for (id, text) in effect.complaints {
            if let Err(error) = self.settings.volumes.complain(&id, &text) {
                self.trouble("a question's file", &error.to_string());
            }
        }
        for stranger in effect.strangers {
            let name = stranger.name.clone();
            match self.pass_on(stranger).await {
                Err(error @ (StoreError::Database(_) | StoreError::Closed)) => return Err(error),
                // A plan that nobody can change must not hold up this one.
                Err(error) => {
                    self.trouble("a report for another plan", &error.to_string());
                    self.filings.insert(name, (now, Filed::Stale));
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Gives a report to the plan that its command belongs to: another plan in the same folder may have been left unfinished, or
    /// a role waits for what it asked of another one.
    async fn pass_on(&mut self, arrival: Arrival) -> Result<(), StoreError> {
        let Some(command) = arrival.command.clone() else {
            return Ok(());
        };
        let owner = self.store.plan_of(&command).await?;
        let filed = match (owner, arrival.content) {
            (Some(plan), Ok(report)) => {
                let volumes = self.settings.volumes.clone();
                let taken = requests::take_report(&self.store, volumes, &plan, command, report);
                let taken = taken.await?;
                // Whatever it asks is put to a person at once.
                self.inside_at = self.clock.now();
                filing(taken)
            }
            (Some(plan), Err(refused)) if self.is_internal(&plan).await? => {
                let (explanation, hash) = (refused.explanation.clone(), arrival.hash.clone());
                let why = "a report for it cannot be read";
                let volumes = self.settings.volumes.clone();
                let change = move |draft: &mut Draft<'_>| {
                    requests::unreadable(draft, &volumes, &command, &refused, &hash)
                };
                self.store.change(&plan, BY, why, change).await?;
                Filed::Rejected(explanation)
            }
            (_, Err(refused)) => Filed::Rejected(refused.explanation),
            (None, Ok(_)) => {
                tracing::warn!(
                    name = arrival.name,
                    "a report for a command that nobody issued"
                );
                let reason = format!(
                    "No command `{command}` was ever issued here.\n\nHint: name the report after the command's id.\n"
                );
                Filed::Rejected(reason)
            }
        };
        self.filings.insert(arrival.name, (self.clock.now(), filed));
        Ok(())
    }

    /// Tells whether a plan is that of a role.
    async fn is_internal(&self, plan: &PlanId) -> Result<bool, StoreError> {
        let owner = self.store.read(plan, |plan, _| plan.head().owner == ROLE);
        owner.await
    }
}

fn what(key: &Key) -> &'static str {
    match key {
        Key::Scan => "the exchange folder",
        Key::Publish(_) => "publishing a command",
        Key::Withdraw(_) => "taking a command back",
        Key::Inspect(_) => "looking what changed",
        Key::Check(_) => "running checks",
        Key::Branch => "the branch of the results",
        Key::Ask(_) => "asking the model",
        Key::ShowQuestion(_) | Key::FileQuestion(_) => "a question's file",
        Key::File(_) => "filing a report",
        Key::Mission => "MISSION.md",
        Key::Hook(hook) => hook.as_str(),
        Key::Inside => "looking after what roles do",
    }
}
