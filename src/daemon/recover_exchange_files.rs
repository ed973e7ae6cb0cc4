//! Recovery of what the plan has and the folders have not: unpublished by an earlier daemon, or removed with a folder.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{BY, DaemonSettings, FolderSettings, OutgoingCommand, PlanRun, effect_work};
use crate::plan::{Attempt, CommandId, Draft, EndCommand, Plan, PlanId, QuestionId, ROLE};
use crate::store::StoreError;
use crate::volumes::{CommandPlace, Volumes, VolumesError, Withdrawal};
use crate::wire::question_file;

/// Puts the files of a plan and its internal plans right. Commands, `end` commands and questions that a power cut tore are moved
/// aside, and published again when the daemon begins. Commands that are to be taken back are, and so are those of attempts that were
/// stopped while another machine had the plan. A second or an incomplete run changes nothing. Call this before any worker of this
/// process begins: it would claim half a command, or go on with one that a dead worker had and that is not wanted any more.
///
/// # Errors
/// The store or the file system failed.
pub async fn put_files_right(settings: &DaemonSettings) -> Result<()> {
    let store = &settings.store;
    let volumes = settings.volumes.clone();
    let (waiting, out) = effect_work::blocking(move || {
        let waiting = waiting(&volumes)?;
        Ok((waiting.clone(), with_claimed(&volumes, waiting)?))
    })
    .await?;
    let internal = store.in_use(ROLE).await?;
    let internal = internal.into_iter().map(|listed| listed.head.id);
    for plan in std::iter::once(settings.plan.clone()).chain(internal) {
        let (waiting, out, program) = (waiting.clone(), out.clone(), settings.program.clone());
        let texts = store.read(&plan, move |plan, _| {
            let mut recalls = plan.recalled_commands();
            recalls.extend(out.into_iter().filter(|id| is_over(plan, id)));
            (texts(plan, &waiting, &program), recalls)
        });
        let ((commands, ends, questions), recalls) = texts.await?;
        let volumes = settings.volumes.clone();
        let put_right = move || {
            for id in recalls {
                volumes.recall(&id)?;
            }
            for (id, text) in commands {
                volumes.set_torn_command_aside(&id, &text)?;
            }
            for end in ends {
                if volumes.set_torn_command_aside(&end.id, &end.text)? {
                    // The plan counts it as published, so no later step would publish it again.
                    volumes.publish(&end.id, &end.text)?;
                }
            }
            for (id, text) in questions {
                volumes.set_torn_question_aside(&id, &text)?;
            }
            Ok(())
        };
        effect_work::blocking(put_right).await?;
    }
    Ok(())
}

/// Takes back what is still out of plans that have ended while no daemon carried them out, or whose daemon was killed in that
/// moment, and of attempts that another machine has begun anew: commands that wait, agents, offers to relays. The daemon takes care
/// itself of the plans that are `at_work`.
///
/// # Errors
/// The first failure of the store or the file system; what else there is was taken back.
pub(super) async fn take_back_of_ended(folder: &FolderSettings, at_work: &[PlanId]) -> Result<()> {
    let volumes = folder.volumes.clone();
    let out = move || with_claimed(&volumes, waiting(&volumes)?);
    let mut out = effect_work::blocking(out).await?;
    out.extend(folder.store.offered_by(&folder.volumes.home()).await?);
    let mut all = Ok(());
    for id in out {
        all = all.and(take_back_if_over(folder, &id, at_work).await);
    }
    all
}

async fn take_back_if_over(
    folder: &FolderSettings,
    id: &CommandId,
    at_work: &[PlanId],
) -> Result<()> {
    let (store, holder) = (&folder.store, folder.volumes.holder());
    let of_plan = store.plan_of(id).await?;
    let Some(plan) = of_plan.filter(|plan| !at_work.contains(plan)) else {
        return Ok(());
    };
    let command = id.clone();
    let known = move |plan: &Plan, _| {
        let is_it = |attempt: &Attempt| attempt.id == command;
        let ended = plan.status().settled() && plan.recalls().any(is_it);
        (ended, is_over(plan, &command), plan.head().clone())
    };
    let (ended, is_over, head) = store.read(&plan, known).await?;
    if is_over && store.require_home(&head).is_err() {
        // Nothing is to be recorded of it.
        let (volumes, command) = (folder.volumes.clone(), id.clone());
        effect_work::blocking(move || volumes.recall(&command)).await?;
        return Ok((folder.end_left_agent)(id.clone()).await?);
    }
    if !ended {
        return Ok(());
    }
    let leased = match store.carry_out(&plan, &holder).await {
        Err(StoreError::Elsewhere { .. } | StoreError::Held { .. }) => return Ok(()),
        leased => leased?,
    };
    let (volumes, command) = (folder.volumes.clone(), id.clone());
    let done = effect_work::blocking(move || volumes.recall(&command)).await?;
    // A dead worker asks its agent nothing any more.
    (folder.end_left_agent)(id.clone()).await?;
    leased.take_back(&holder, id).await?;
    let command = id.clone();
    let record = move |draft: &mut Draft<'_>| match done {
        // A person has reopened the plan meanwhile.
        _ if !draft.plan().recalls().any(|it| it.id == command) => Ok(()),
        Withdrawal::Withdrawn => draft.withdrawn(&command),
        Withdrawal::Taken => draft.recalled(&command),
    };
    leased
        .change(&plan, BY, "the plan has ended", record)
        .await?;
    leased.release().await;
    Ok(())
}

/// Returns the commands that no worker has claimed.
fn waiting(volumes: &Volumes) -> Result<BTreeSet<CommandId>, VolumesError> {
    let mut waiting = BTreeSet::new();
    for volumes in volumes.everywhere() {
        waiting.extend(volumes.waiting()?);
    }
    Ok(waiting)
}

/// Returns these and the commands that a worker has, or had.
fn with_claimed(
    volumes: &Volumes,
    mut waiting: BTreeSet<CommandId>,
) -> Result<BTreeSet<CommandId>, VolumesError> {
    waiting.extend(volumes.locked()?);
    Ok(waiting)
}

/// Returns whether nothing is expected any more for a command of a plan.
fn is_over(plan: &Plan, command: &CommandId) -> bool {
    let state = plan.attempt(command).map(|attempt| attempt.state);
    state.is_some_and(|state| !state.open() && !state.revivable())
}

/// A plan's files that are still needed: of commands, `end` commands and questions.
type FileTexts = (
    Vec<(CommandId, String)>,
    Vec<EndCommand>,
    Vec<(QuestionId, String)>,
);

fn texts(plan: &Plan, waiting: &BTreeSet<CommandId>, program: &str) -> FileTexts {
    let open = plan.awaited_attempts().filter(|attempt| !attempt.recall);
    let open = open.map(|attempt| (attempt.id.clone(), attempt.text.clone()));
    // Of an `end` command that was claimed nothing is awaited.
    let ends = plan.sessions().filter_map(|session| session.end.clone());
    let ends = ends.filter(|end| waiting.contains(&end.id));
    let questions = plan.open_questions().map(|question| {
        let text = question_file::render(question, plan, program);
        (question.id.clone(), text)
    });
    (open.collect(), ends.collect(), questions.collect())
}

impl PlanRun {
    /// Resumes what an earlier daemon left: commands that were committed and not published, and commands that were
    /// withdrawn but not recorded as such.
    pub(super) async fn recover(&mut self) -> Result<()> {
        let lost = self.settings.read(|plan, _| {
            let open = plan.awaited_attempts();
            let open = open.map(|open| OutgoingCommand::of(plan, open));
            let ends = plan.sessions().filter_map(OutgoingCommand::of_end);
            open.chain(ends).collect()
        });
        for id in self.put_back(lost.await?)? {
            let why = "the command had been taken back";
            // A database that was put back offers it again.
            let holder = self.settings.volumes.holder();
            self.settings.store.take_back(&holder, &id).await?;
            let record = move |draft: &mut Draft<'_>| draft.withdrawn(&id);
            self.settings.change(why, record).await?;
        }
        Ok(())
    }

    /// Publishes the commands again that no worker has claimed and that are in no folder. An agent works on those
    /// that were claimed.
    pub(super) async fn find_lost(&mut self) -> Result<()> {
        let waiting = self.settings.read(|plan, _| {
            let awaited = plan.awaited_attempts();
            let unclaimed = awaited.filter(|attempt| attempt.claimed.is_none());
            let commands = unclaimed.map(|attempt| OutgoingCommand::of(plan, attempt));
            commands.collect()
        });
        self.put_back(waiting.await?)?;
        Ok(())
    }

    /// Queues the commands that are in no folder for publishing, and returns those that were withdrawn. A command of which the plan
    /// awaits the report that is filed counts as withdrawn, too: the database was put back to an earlier state, and no agent works.
    fn put_back(&mut self, commands: Vec<OutgoingCommand>) -> Result<Vec<CommandId>, VolumesError> {
        let mut withdrawn = Vec::new();
        let volumes = &self.settings.volumes;
        for command in commands {
            match volumes.whereabouts(&command.id)? {
                CommandPlace::Nowhere => drop(self.outgoing.insert(command.id.clone(), command)),
                // The plan waits for no `end` command.
                CommandPlace::Withdrawn if command.ends.is_some() => {}
                CommandPlace::Withdrawn => withdrawn.push(command.id),
                CommandPlace::Processed if command.ends.is_none() => {
                    if volumes.is_filed(&command.id)? {
                        withdrawn.push(command.id);
                    }
                }
                CommandPlace::Pending | CommandPlace::Processed | CommandPlace::Reported => {
                    self.world.ends_published.extend(command.ends);
                }
            }
        }
        Ok(withdrawn)
    }
}
