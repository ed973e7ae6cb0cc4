//! Puts back what went with a folder that somebody removed while the daemon works.

use super::Daemon;
use super::desk::Outgoing;
use crate::plan::AttemptState;
use crate::volumes::Whereabouts;

impl Daemon {
    /// Finds the commands that nobody has taken and that lie nowhere, and the questions whose file is gone. A command that
    /// was taken stays as it is: its agent works on it.
    pub(super) async fn mend(&mut self) {
        if let Err(error) = self.find_lost().await {
            self.trouble("the exchange folder", &format!("{error:#}"));
        }
    }

    async fn find_lost(&mut self) -> anyhow::Result<()> {
        let waiting: Vec<Outgoing> = self
            .store
            .read(&self.settings.plan, |plan, _| {
                plan.open_attempts()
                    .filter(|attempt| attempt.state == AttemptState::Open)
                    .filter(|attempt| attempt.claimed.is_none())
                    .map(|attempt| Outgoing {
                        id: attempt.id.clone(),
                        text: attempt.text.clone(),
                    })
                    .collect()
            })
            .await?;
        let volumes = &self.settings.volumes;
        for command in waiting {
            if volumes.whereabouts(&command.id)? == Whereabouts::Nowhere {
                self.outgoing.insert(command.id, command.text);
            }
        }
        self.shown = volumes.questions()?.into_iter().collect();
        Ok(())
    }
}
