//! Starts the effects of a plan: each runs beside the loop and comes back with an [`EffectResult`].

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{
    DaemonSettings, EffectKey, EffectResult, LoopView, OutgoingCommand, PlanRun, changed_files,
    effect_work, worktrees,
};
use crate::plan::{DueEffect, Plan, Time};
use crate::view::mission;
use crate::volumes::{Withdrawal, write_mission};

/// A daemon that ends waits so long for its last MISSION.md.
const LAST_MISSION: Duration = Duration::from_millis(300);

/// Writes MISSION.md, and returns the number of the last change in it.
async fn write_plan(settings: &DaemonSettings, carried_out: bool, now: Time) -> Result<i64> {
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
        let due = &view.due.steps;
        let waits = |task| due.contains(&DueEffect::CheckBefore(task).into());
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

    /// Starts an effect that is due, unless it is under way or has to wait for another one.
    pub(super) fn start_due(&mut self, effect: &DueEffect, view: &LoopView) {
        let under_way = self.effects.under_way();
        let is_check = |key: &EffectKey| matches!(key, EffectKey::Due(DueEffect::Check(_)));
        let waits = match effect {
            DueEffect::Withdraw(id) => under_way.contains(&EffectKey::Publish(id.clone())),
            // All merges use one folder.
            DueEffect::Check(_) => view.gathering.is_some() && under_way.iter().any(is_check),
            _ => false,
        };
        let key = EffectKey::Due(effect.clone());
        if waits || under_way.contains(&key) {
            return;
        }
        let (settings, runs) = (Arc::clone(&self.settings), self.proofs.clone());
        let work: BoxFuture<'static, Result<EffectResult>> = match effect.clone() {
            DueEffect::Withdraw(id) => {
                let unpublished = self.outgoing.remove(&id).is_some();
                let recall = view.recalls.contains(&id);
                let withdraw = move || {
                    let volumes = &settings.volumes;
                    let done = match unpublished {
                        true => Withdrawal::Withdrawn,
                        false => volumes.withdraw(&id)?,
                    };
                    // The agent that has claimed it is asked to stop.
                    if recall && done == Withdrawal::Taken {
                        volumes.cancel(&id)?;
                    }
                    Ok(EffectResult::Withdrawn(id, done))
                };
                Box::pin(effect_work::blocking(withdraw))
            }
            DueEffect::Inspect(id) => Box::pin(async move {
                let inspected = changed_files::inspect(runs.change_watch, id.clone()).await?;
                Ok(EffectResult::Inspected(id, Box::new(inspected)))
            }),
            DueEffect::Check(id) => Box::pin(async move {
                let checked = effect_work::check(&runs, &id).await?;
                Ok(EffectResult::Checked(id, checked))
            }),
            DueEffect::CheckBefore(task) => {
                let mut outgoing = self.outgoing.values();
                let held = outgoing.any(|command| command.first == Some(task));
                Box::pin(async move {
                    let before = runs.before(task, held).await?;
                    Ok(EffectResult::CheckedBefore(task, before))
                })
            }
            DueEffect::CheckAgain => Box::pin(async move {
                let (later, results) = runs.again().await?;
                Ok(EffectResult::CheckedAgain(later, results))
            }),
            DueEffect::CheckAtEnd => Box::pin(async move {
                let (after, results) = runs.at_end().await?;
                Ok(EffectResult::CheckedAtEnd(after, results))
            }),
            DueEffect::MoveBranch => {
                let (gathering, settled) = (view.gathering.clone(), view.status.settled());
                let Some(gathering) = gathering else { return };
                Box::pin(async move {
                    let moved = worktrees::move_branch(&settings, &gathering, settled).await;
                    moved.map(EffectResult::Branch)
                })
            }
            DueEffect::Ask(subject) => Box::pin(async move {
                let asked = effect_work::ask(&settings, subject).await?;
                Ok(EffectResult::Asked(asked.map(Box::new)))
            }),
        };
        self.spawn(key, work);
    }

    pub(super) fn write_mission(&mut self, view: &LoopView) {
        let (shown, at) = self.mission;
        if shown == view.seq {
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
