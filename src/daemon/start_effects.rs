//! Starts what is done outside the plan: each act runs beside the loop and comes back as an `Input`.

use std::path::PathBuf;
use std::sync::Arc;

use super::carry_out_steps::OutgoingCommand;
use super::plan_run::{EffectKey, EffectResult, PlanRun};
use super::{LoopView, effect_work, worktrees};
use crate::plan::{CommandId, ModelQuestionKind};
use crate::view::mission;
use crate::volumes::{Withdrawal, write_mission};

impl PlanRun {
    /// Puts new commands into their folder at once: to write one takes less time than to wake another thread for it. One
    /// that cannot be written now is published with what is missing.
    pub(super) fn send(&mut self, outgoing: Vec<OutgoingCommand>) {
        for command in outgoing {
            if command.layout.is_some() {
                self.outgoing.insert(command.id.clone(), command);
                continue;
            }
            let published = self.settings.volumes.publish(&command.id, &command.text);
            match published {
                Ok(()) => self.world.ends_published.extend(command.ends),
                Err(error) => {
                    let key = EffectKey::Publish(command.id.clone());
                    let error = format!("{:#}", anyhow::Error::from(error));
                    self.effects.failed(&key, self.clock.now(), &error);
                    self.outgoing.insert(command.id.clone(), command);
                }
            }
        }
    }

    pub(super) fn publish(&mut self) {
        let commands: Vec<OutgoingCommand> = self.outgoing.values().cloned().collect();
        for OutgoingCommand {
            id, text, layout, ..
        } in commands
        {
            let volumes = self.settings.volumes.clone();
            let publish = move |id: CommandId| {
                volumes.publish(&id, &text)?;
                Ok(EffectResult::Published(id))
            };
            let key = EffectKey::Publish(id.clone());
            match layout {
                None => self
                    .effects
                    .start_blocking(key, self.world.now, move || publish(id)),
                Some(layout) => self.spawn(key, async move {
                    layout.prepare().await?;
                    tokio::task::spawn_blocking(move || publish(id)).await?
                }),
            }
        }
    }

    pub(super) fn withdraw(&mut self, id: &CommandId, recall: bool) {
        if self
            .effects
            .under_way()
            .contains(&EffectKey::Publish(id.clone()))
        {
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

    /// Runs the checks of a reported attempt; where results are merged, one after the other, as they have one folder for it.
    pub(super) fn check(&mut self, id: &CommandId, merged: bool) {
        let is_check = |key: &EffectKey| matches!(key, EffectKey::Check(_));
        if merged && self.effects.under_way().iter().any(is_check) {
            return;
        }
        let ((settings, store), id, clock) = (self.handles(), id.clone(), self.clock);
        self.spawn(EffectKey::Check(id.clone()), async move {
            let checked = effect_work::check(&settings, &store, clock, &id).await?;
            Ok(EffectResult::Checked(id, checked))
        });
    }

    pub(super) fn move_branch(&mut self, view: &LoopView) {
        let (settings, gathering) = (Arc::clone(&self.settings), view.gathering.clone());
        let settled = view.status.settled();
        let Some(gathering) = gathering else {
            return;
        };
        self.spawn(EffectKey::Branch, async move {
            worktrees::move_branch(&settings, &gathering, settled)
                .await
                .map(EffectResult::Branch)
        });
    }

    pub(super) fn ask(&mut self, subject: &ModelQuestionKind) {
        let ((settings, store), subject) = (self.handles(), subject.clone());
        self.spawn(EffectKey::Ask(subject.clone()), async move {
            let Some(models) = &settings.models else {
                anyhow::bail!("no language model is configured");
            };
            let asked = effect_work::ask(&settings, models, &store, subject).await?;
            Ok(asked.map_or(EffectResult::NotAsked, |asked| {
                EffectResult::Asked(Box::new(asked))
            }))
        });
    }

    pub(super) fn write_mission(&mut self, view: &LoopView) {
        let (shown, at) = self.mission;
        if shown == view.seq {
            return;
        }
        if at > self.world.now && !view.status.settled() {
            return self.wake_by(at);
        }
        let ((settings, store), now) = (self.handles(), self.world.now);
        // The person's own folder is left alone where agents work in others.
        let folder = match &view.gathering {
            Some(gathering) => PathBuf::from(&gathering.line.folder),
            None => settings.workspace.clone(),
        };
        self.spawn(EffectKey::Mission, async move {
            let program = settings.program.clone();
            let (text, seq) = store
                .read(&settings.plan, move |plan, seq| {
                    (mission::render(plan, now, &program), seq)
                })
                .await?;
            effect_work::blocking(move || {
                write_mission(&folder, &text).map(|()| EffectResult::MissionWritten(seq))
            })
            .await
        });
    }
}
