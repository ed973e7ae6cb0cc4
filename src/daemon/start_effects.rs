//! Starts the effects of a plan: each runs beside the loop and comes back with an [`EffectResult`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{
    DaemonSettings, EffectKey, EffectResult, LoopView, OutgoingCommand, PlanRun, effect_work,
    worktrees,
};
use crate::plan::{CommandId, DueStep, ModelQuestionKind, Plan, TaskId, Time};
use crate::view::mission;
use crate::volumes::{Withdrawal, write_mission};

/// A daemon that ends waits so long for its last MISSION.md.
const LAST_MISSION: Duration = Duration::from_millis(300);

/// Writes MISSION.md, and returns the number of the last change in it.
async fn write_plan(
    settings: &DaemonSettings,
    carried_out: bool,
    now: Time,
) -> anyhow::Result<i64> {
    let program = settings.program.clone();
    let read = move |plan: &Plan, seq| (mission::render(plan, carried_out, now, &program), seq);
    let (text, seq) = settings.read(read).await?;
    let (folder, store) = (settings.mission.clone(), settings.store.clone());
    let write = move || match store.holds() {
        true => write_mission(&folder, &text),
        // It stood still meanwhile, and another daemon has the plan.
        false => Ok(()),
    };
    effect_work::blocking(write).await?;
    Ok(seq)
}

impl PlanRun {
    /// Publishes new commands immediately: to write one takes less time than to wake another thread for it. A command
    /// that cannot be written now is kept for [`Self::publish`].
    pub(super) fn send(&mut self, outgoing: Vec<OutgoingCommand>) {
        if !outgoing.is_empty() {
            self.began_task_at = self.settings.now();
        }
        for command in outgoing {
            if command.is_ready() && self.settings.store.holds() {
                let volumes = &self.settings.volumes;
                let Err(error) = volumes.publish(&command.id, &command.text) else {
                    self.world.ends_published.extend(command.ends);
                    continue;
                };
                let key = EffectKey::Publish(command.id.clone());
                let error = format!("{:#}", anyhow::Error::from(error));
                self.effects.failed(&key, self.settings.now(), &error);
            }
            self.outgoing.insert(command.id.clone(), command);
        }
    }

    /// Publishes the commands that are not published yet, unless checks are due first.
    pub(super) fn publish(&mut self, view: &LoopView) {
        let waits = |task| view.due.steps.contains(&DueStep::CheckBefore(task));
        for command in self.outgoing.values().cloned() {
            if command.first.is_some_and(waits) {
                continue;
            }
            let volumes = self.settings.volumes.clone();
            let (key, now) = (EffectKey::Publish(command.id.clone()), self.world.now);
            let (settings, id) = (Arc::clone(&self.settings), command.id.clone());
            let publish = move || {
                volumes.publish(&command.id, &command.text)?;
                Ok(EffectResult::Published(command.id))
            };
            match command.layout {
                None => self.effects.start_blocking(key, now, publish),
                Some(layout) => self.effects.start(key, now, async move {
                    if let Some(why) = layout.prepare(&settings, &id).await? {
                        return Ok(EffectResult::Unprepared(id, why));
                    }
                    tokio::task::spawn_blocking(publish).await?
                }),
            }
        }
    }

    pub(super) fn withdraw(&mut self, id: &CommandId, recall: bool) {
        let publish = EffectKey::Publish(id.clone());
        if self.effects.under_way().contains(&publish) {
            return;
        }
        let unpublished = self.outgoing.remove(id).is_some();
        let (volumes, id) = (self.settings.volumes.clone(), id.clone());
        self.spawn(EffectKey::Withdraw(id.clone()), async move {
            if unpublished {
                return Ok(EffectResult::Withdrawn(id, Withdrawal::Withdrawn));
            }
            effect_work::blocking(move || {
                let done = volumes.withdraw(&id)?;
                if recall && done == Withdrawal::Taken {
                    volumes.cancel(&id)?;
                }
                Ok(EffectResult::Withdrawn(id, done))
            })
            .await
        });
    }

    /// Runs the checks of a reported attempt; where results are merged, of one attempt at a time, as all merges use
    /// one folder.
    pub(super) fn check(&mut self, id: &CommandId, merged: bool) {
        let is_check = |key: &EffectKey| matches!(key, EffectKey::Check(_));
        if merged && self.effects.under_way().iter().any(is_check) {
            return;
        }
        let (runs, id) = (self.proofs.clone(), id.clone());
        self.spawn(EffectKey::Check(id.clone()), async move {
            let checked = effect_work::check(&runs, &id).await?;
            Ok(EffectResult::Checked(id, checked))
        });
    }

    /// Runs the checks of a task on the state before its first attempt: beside its agent where git has that state, else before
    /// its command goes out.
    pub(super) fn check_before(&mut self, task: TaskId) {
        let mut outgoing = self.outgoing.values();
        let held = outgoing.any(|command| command.first == Some(task));
        let runs = self.proofs.clone();
        self.spawn(EffectKey::CheckBefore(task), async move {
            let before = runs.before(task, held).await?;
            Ok(EffectResult::CheckedBefore(task, before))
        });
    }

    /// Runs the checks of completed tasks again that said nothing.
    pub(super) fn check_again(&mut self) {
        let runs = self.proofs.clone();
        self.spawn(EffectKey::CheckAgain, async move {
            let (later, results) = runs.again().await?;
            Ok(EffectResult::CheckedAgain(later, results))
        });
    }

    pub(super) fn move_branch(&mut self, view: &LoopView) {
        let Some(gathering) = view.gathering.clone() else {
            return;
        };
        let (settings, settled) = (Arc::clone(&self.settings), view.status.settled());
        self.spawn(EffectKey::Branch, async move {
            let moved = worktrees::move_branch(&settings, &gathering, settled).await;
            moved.map(EffectResult::Branch)
        });
    }

    pub(super) fn ask(&mut self, subject: &ModelQuestionKind) {
        let (settings, subject) = (Arc::clone(&self.settings), subject.clone());
        self.spawn(EffectKey::Ask(subject.clone()), async move {
            let asked = effect_work::ask(&settings, subject).await?;
            Ok(EffectResult::Asked(asked.map(Box::new)))
        });
    }

    pub(super) fn write_mission(&mut self, view: &LoopView) {
        let (shown, at) = self.mission;
        if shown == view.demand.seq {
            return;
        }
        if at > self.world.now && !view.status.settled() {
            return self.wake_by(at);
        }
        let (settings, now) = (Arc::clone(&self.settings), self.world.now);
        self.spawn(EffectKey::Mission, async move {
            let seq = write_plan(&settings, true, now).await?;
            Ok(EffectResult::MissionWritten(seq))
        });
    }

    /// Says in MISSION.md that no daemon works on the plan any more. A shutdown does not wait for it long: a busy store may
    /// answer late.
    pub(super) async fn leave_mission(&self) {
        let written = write_plan(&self.settings, false, self.settings.now());
        match timeout(LAST_MISSION, written).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "MISSION.md is not up to date"),
            Err(_) => tracing::warn!("MISSION.md is not up to date: the store is busy"),
        }
    }
}
