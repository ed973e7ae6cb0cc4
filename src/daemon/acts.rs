//! Starts what is done outside the plan: each act runs beside the loop and comes back as an `Input`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::desk::Outgoing;
use super::input::Input;
use super::{Daemon, Filed, Key, View, isolation, steps};
use crate::plan::{CommandId, Question, QuestionId, Refusal, Subject};
use crate::view::mission;
use crate::volumes::{Filing, Unpublished, Withdrawal, write_mission};
use crate::wire::question;

impl Daemon {
    /// Puts new commands into their folder at once: to write one takes less time than to wake another thread for it. One
    /// that cannot be written now is published with what is missing.
    pub(super) fn send(&mut self, outgoing: Vec<Outgoing>) {
        self.send_prepared(outgoing, BTreeMap::new());
    }

    /// As [`Self::send`], where some have been written already.
    pub(super) fn send_prepared(
        &mut self,
        outgoing: Vec<Outgoing>,
        mut prepared: BTreeMap<CommandId, Unpublished>,
    ) {
        let volumes = &self.settings.volumes.clone();
        for command in outgoing {
            if command.layout.is_some() {
                self.outgoing.insert(command.id.clone(), command);
                continue;
            }
            let published = match prepared.remove(&command.id) {
                Some(file) => volumes.publish_prepared(file, &command.text),
                None => volumes.publish(&command.id, &command.text),
            };
            match published {
                Ok(()) => self.world.ends_published.extend(command.ends),
                Err(error) => {
                    let key = Key::Publish(command.id.clone());
                    self.fail(&key, &format!("{:#}", anyhow::Error::from(error)));
                    self.outgoing.insert(command.id.clone(), command);
                }
            }
        }
    }

    pub(super) fn publish(&mut self) {
        let commands: Vec<Outgoing> = self.outgoing.values().cloned().collect();
        for Outgoing {
            id, text, layout, ..
        } in commands
        {
            let volumes = self.settings.volumes.clone();
            let publish = move |id: CommandId| {
                volumes.publish(&id, &text)?;
                Ok(Input::Published(id))
            };
            let key = Key::Publish(id.clone());
            match layout {
                None => self.spawn_blocking(key, move || publish(id)),
                Some(layout) => self.spawn(key, async move {
                    layout.prepare().await?;
                    tokio::task::spawn_blocking(move || publish(id)).await?
                }),
            }
        }
    }

    pub(super) fn withdraw(&mut self, id: &CommandId, recall: bool) {
        if self.under_way.contains(&Key::Publish(id.clone())) {
            return;
        }
        let unpublished = self.outgoing.remove(id).is_some();
        let (volumes, id) = (self.settings.volumes.clone(), id.clone());
        self.spawn(Key::Withdraw(id.clone()), async move {
            if unpublished {
                return Ok(Input::Withdrawn(id, Withdrawal::Withdrawn));
            }
            steps::blocking(move || {
                let done = volumes.withdraw(&id)?;
                if recall && done == Withdrawal::Taken {
                    volumes.cancel(&id)?;
                }
                Ok(Input::Withdrawn(id, done))
            })
            .await
        });
    }

    /// Runs the checks of a reported attempt; where results are merged, one after the other, as they have one folder for it.
    pub(super) fn check(&mut self, id: &CommandId, merged: bool) {
        let is_check = |key: &Key| matches!(key, Key::Check(_));
        if merged && self.under_way.iter().any(is_check) {
            return;
        }
        let (settings, store, id) = (Arc::clone(&self.settings), self.store.clone(), id.clone());
        let clock = self.clock;
        self.spawn(Key::Check(id.clone()), async move {
            let checked = steps::check(&settings, &store, clock, &id).await?;
            Ok(Input::Checked(id, checked))
        });
    }

    pub(super) fn move_branch(&mut self, view: &View) {
        let (settings, gathering) = (Arc::clone(&self.settings), view.gathering.clone());
        let settled = view.status.settled();
        let Some(gathering) = gathering else {
            return;
        };
        self.spawn(Key::Branch, async move {
            isolation::move_branch(&settings, &gathering, settled)
                .await
                .map(Input::Branch)
        });
    }

    pub(super) fn ask(&mut self, subject: &Subject) {
        let (settings, store, subject) = (
            Arc::clone(&self.settings),
            self.store.clone(),
            subject.clone(),
        );
        self.spawn(Key::Ask(subject.clone()), async move {
            let Some(models) = &settings.models else {
                anyhow::bail!("no language model is configured");
            };
            Ok(
                match steps::ask(&settings, models, &store, subject).await? {
                    Some(asked) => Input::Asked(Box::new(asked)),
                    None => Input::NotAsked,
                },
            )
        });
    }

    pub(super) fn show_questions(&mut self, view: &View) {
        let new: Vec<QuestionId> = view
            .questions
            .iter()
            .filter(|id| !self.shown.contains(id))
            .cloned()
            .collect();
        for id in new {
            let (settings, store) = (Arc::clone(&self.settings), self.store.clone());
            self.spawn(Key::ShowQuestion(id.clone()), async move {
                let wanted = id.clone();
                let program = settings.program.clone();
                let text = store
                    .read(&settings.plan, move |plan, _| {
                        let asked = plan.question(&wanted)?;
                        let task = asked.task.and_then(|id| plan.task(id));
                        Some(question::render(asked, plan.id().as_str(), task, &program))
                    })
                    .await?;
                steps::blocking(move || {
                    if let Some(text) = text {
                        settings.volumes.write_question(&id, &text)?;
                    }
                    Ok(Input::QuestionShown(id))
                })
                .await
            });
        }
        let old: Vec<QuestionId> = self
            .shown
            .iter()
            .filter(|id| !view.questions.contains(id))
            .cloned()
            .collect();
        for id in old {
            let (settings, store) = (Arc::clone(&self.settings), self.store.clone());
            self.spawn(Key::FileQuestion(id.clone()), async move {
                let wanted = id.clone();
                let asked = store
                    .read(&settings.plan, move |plan, _| {
                        plan.question(&wanted).cloned()
                    })
                    .await?;
                steps::blocking(move || {
                    let volumes = &settings.volumes;
                    let said = volumes.read_question(&id);
                    if let Some(late) = asked
                        .zip(said)
                        .and_then(|(asked, said)| late(&asked, &said))
                    {
                        volumes.complain(&id, &format!("{late}.\n"))?;
                        (settings.notice)(&late);
                    }
                    volumes
                        .file_question(&id)
                        .map(|()| Input::QuestionFiled(id))
                })
                .await
            });
        }
    }

    /// Moves reports to where they belong; at the end of the plan without the usual grace.
    pub(super) fn file_reports(&mut self, at_once: bool) {
        let due: Vec<(String, Filed)> = self
            .filings
            .iter()
            .filter(|(_, (at, _))| at_once || *at <= self.world.now)
            .map(|(name, (_, filed))| (name.clone(), filed.clone()))
            .collect();
        for (name, filed) in due {
            let volumes = self.settings.volumes.clone();
            self.spawn(Key::File(name.clone()), async move {
                steps::blocking(move || {
                    let filing = match &filed {
                        Filed::Processed => Filing::Processed,
                        Filed::Stale => Filing::Stale,
                        Filed::Rejected(explanation) => Filing::Rejected(explanation),
                    };
                    volumes
                        .file_report(&name, filing)
                        .map(|()| Input::Filed(name))
                })
                .await
            });
        }
        let next = self.filings.values().map(|(at, _)| *at).min();
        if let Some(at) = next {
            self.wake_by(at);
        }
    }

    pub(super) fn write_mission(&mut self, view: &View) {
        let (shown, at) = self.mission;
        if shown == view.seq {
            return;
        }
        if at > self.world.now && !view.status.settled() {
            return self.wake_by(at);
        }
        let (settings, store, now) = (
            Arc::clone(&self.settings),
            self.store.clone(),
            self.world.now,
        );
        // The person's own folder is left alone where agents work in others.
        let folder = match &view.gathering {
            Some(gathering) => PathBuf::from(&gathering.line.folder),
            None => settings.workspace.clone(),
        };
        self.spawn(Key::Mission, async move {
            let program = settings.program.clone();
            let (text, seq) = store
                .read(&settings.plan, move |plan, seq| {
                    (mission::render(plan, now, &program), seq)
                })
                .await?;
            steps::blocking(move || {
                write_mission(&folder, &text).map(|()| Input::MissionWritten(seq))
            })
            .await
        });
    }
}

/// Returns what a person is told whose answer in the file of a question came after another one.
fn late(asked: &Question, said: &str) -> Option<String> {
    let (choice, _) = question::parse(said).ok()??;
    let counted = asked.answer.as_ref()?;
    let told = Refusal::AlreadyAnswered {
        question: asked.id.clone(),
        choice: counted.choice,
        by: counted.by.clone(),
    };
    (choice != counted.choice).then(|| {
        let word = choice.as_str();
        format!("{told}; `{word}` in its file came too late")
    })
}
