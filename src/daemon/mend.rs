//! What the plan says and the folders do not have: left by an earlier daemon, or gone with a folder that somebody removed.

use super::desk::Outgoing;
use super::isolation::Layout;
use super::{BY, Daemon};
use crate::plan::{Attempt, AttemptState, CommandId, Plan};
use crate::volumes::{VolumesError, Whereabouts};

impl Daemon {
    /// Takes up what an earlier daemon left: commands that were committed and never published, and commands that were taken
    /// back without the plan knowing.
    pub(super) async fn take_up(&mut self) -> anyhow::Result<()> {
        let (open, ends) = self
            .store
            .read(&self.settings.plan, |plan, _| {
                let open = open(plan).map(|open| Outgoing::of(plan, open)).collect();
                let ends = plan.sessions().filter_map(|session| session.end.clone());
                let ends = ends.map(|end| Outgoing {
                    id: end.id,
                    text: end.text,
                    layout: None,
                });
                (open, ends.collect())
            })
            .await?;
        let withdrawn = self.put_back(open)?;
        self.put_back(ends)?;
        self.shown = self.settings.volumes.questions()?.into_iter().collect();
        for id in withdrawn {
            self.store
                .change(
                    &self.settings.plan,
                    BY,
                    "the command had been taken back",
                    move |draft| draft.withdrawn(&id),
                )
                .await?;
        }
        Ok(())
    }

    /// Finds the commands that nobody has taken and that lie nowhere, and the questions whose file is gone. A command that
    /// was taken stays as it is: its agent works on it.
    pub(super) async fn mend(&mut self) {
        if let Err(error) = self.find_lost().await {
            self.trouble("the exchange folder", &format!("{error:#}"));
        }
    }

    async fn find_lost(&mut self) -> anyhow::Result<()> {
        let waiting = self
            .store
            .read(&self.settings.plan, |plan, _| {
                open(plan)
                    .filter(|attempt| attempt.claimed.is_none())
                    .map(|attempt| Outgoing::of(plan, attempt))
                    .collect()
            })
            .await?;
        self.put_back(waiting)?;
        self.shown = self.settings.volumes.questions()?.into_iter().collect();
        Ok(())
    }

    /// Has the commands published that lie nowhere, and returns those that had been withdrawn.
    fn put_back(&mut self, commands: Vec<Outgoing>) -> Result<Vec<CommandId>, VolumesError> {
        let mut withdrawn = Vec::new();
        for command in commands {
            match self.settings.volumes.whereabouts(&command.id)? {
                Whereabouts::Nowhere => drop(self.outgoing.insert(command.id.clone(), command)),
                Whereabouts::Withdrawn => withdrawn.push(command.id),
                Whereabouts::Pending | Whereabouts::Processed | Whereabouts::Reported => {}
            }
        }
        Ok(withdrawn)
    }
}

impl Outgoing {
    fn of(plan: &Plan, attempt: &Attempt) -> Self {
        Self {
            id: attempt.id.clone(),
            text: attempt.text.clone(),
            layout: Layout::of(plan, attempt.task),
        }
    }
}

fn open(plan: &Plan) -> impl Iterator<Item = &Attempt> {
    plan.open_attempts()
        .filter(|attempt| attempt.state == AttemptState::Open)
}
