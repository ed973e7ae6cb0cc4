//! What the plan says and the folders do not have: left by an earlier daemon, or gone with a folder that somebody removed.

use std::collections::BTreeSet;

use super::carry_out_steps::OutgoingCommand;
use super::plan_run::PlanRun;
use super::worktrees::WorktreeLayout;
use super::{DaemonSettings, effect_work};
use crate::plan::{
    AgentSession, Attempt, AttemptState, CommandId, EndCommand, Plan, QuestionId, ROLE,
};
use crate::store::Store;
use crate::volumes::{CommandPlace, Volumes, VolumesError};
use crate::wire::question_file;

/// Moves aside what a power cut tore of the files that a plan and its internal plans need: commands, `end` commands and questions.
/// They are published again when the daemon begins; that it was done twice, or not to the end, changes nothing. To be called
/// before any worker of this process begins: it would take half a command.
///
/// # Errors
/// The store or the file system failed.
pub async fn set_torn_aside(settings: &DaemonSettings, store: &Store) -> anyhow::Result<()> {
    let waiting = {
        let volumes = settings.volumes.clone();
        effect_work::blocking(move || waiting(&volumes)).await?
    };
    let program = settings.program.clone();
    let internal = store.in_use(ROLE).await?;
    let internal = internal.into_iter().map(|listed| listed.head.id);
    for plan in std::iter::once(settings.plan.clone()).chain(internal) {
        let (waiting, program) = (waiting.clone(), program.clone());
        let texts = store.read(&plan, move |plan, _| {
            FileTexts::of(plan, &waiting, &program)
        });
        let (texts, volumes) = (texts.await?, settings.volumes.clone());
        effect_work::blocking(move || texts.set_torn_aside(&volumes)).await?;
    }
    Ok(())
}

/// Returns the commands that nobody has taken.
fn waiting(volumes: &Volumes) -> Result<BTreeSet<CommandId>, VolumesError> {
    let mut waiting = BTreeSet::new();
    for volumes in volumes.everywhere() {
        waiting.extend(volumes.waiting()?);
    }
    Ok(waiting)
}

/// What the files of a plan have in them that are still needed.
struct FileTexts {
    commands: Vec<(CommandId, String)>,
    ends: Vec<EndCommand>,
    questions: Vec<(QuestionId, String)>,
}

impl FileTexts {
    fn of(plan: &Plan, waiting: &BTreeSet<CommandId>, program: &str) -> Self {
        let open = open(plan).filter(|attempt| !attempt.recall);
        let open = open.map(|attempt| (attempt.id.clone(), attempt.text.clone()));
        // Of those that were taken nothing is awaited.
        let ends = plan.sessions().filter_map(|session| session.end.clone());
        let questions = plan.open_questions().map(|question| {
            let task = question.task.and_then(|id| plan.task(id));
            let text = question_file::render(question, plan.id().as_str(), task, program);
            (question.id.clone(), text)
        });
        Self {
            commands: open.collect(),
            ends: ends.filter(|end| waiting.contains(&end.id)).collect(),
            questions: questions.collect(),
        }
    }

    fn set_torn_aside(&self, volumes: &Volumes) -> Result<(), VolumesError> {
        for (id, text) in &self.commands {
            volumes.set_torn_command_aside(id, text)?;
        }
        for end in &self.ends {
            if volumes.set_torn_command_aside(&end.id, &end.text)? {
                // It counts as published: nobody else would put it back.
                volumes.publish(&end.id, &end.text)?;
            }
        }
        for (id, text) in &self.questions {
            volumes.set_torn_question_aside(id, text)?;
        }
        Ok(())
    }
}

impl PlanRun {
    /// Takes up what an earlier daemon left: commands that were committed and never published, and commands that were taken
    /// back without the plan knowing.
    pub(super) async fn take_up(&mut self) -> anyhow::Result<()> {
        let lost = self.read(|plan, _| {
            let open = open(plan).map(|open| OutgoingCommand::of(plan, open));
            let ends = plan.sessions().filter_map(OutgoingCommand::of_end);
            open.chain(ends).collect()
        });
        for id in self.put_back(lost.await?)? {
            let why = "the command had been taken back";
            self.record(why, move |draft| draft.withdrawn(&id)).await?;
        }
        Ok(())
    }

    /// Finds the commands that nobody has taken and that lie nowhere. A command that was taken stays as it is: its agent works on
    /// it.
    pub(super) async fn find_lost(&mut self) -> anyhow::Result<()> {
        let waiting = self.read(|plan, _| {
            let untaken = open(plan).filter(|attempt| attempt.claimed.is_none());
            untaken
                .map(|open| OutgoingCommand::of(plan, open))
                .collect()
        });
        self.put_back(waiting.await?)?;
        Ok(())
    }

    /// Has the commands published that lie nowhere, and returns those that had been withdrawn.
    fn put_back(&mut self, commands: Vec<OutgoingCommand>) -> Result<Vec<CommandId>, VolumesError> {
        let mut withdrawn = Vec::new();
        for command in commands {
            match self.settings.volumes.whereabouts(&command.id)? {
                CommandPlace::Nowhere => drop(self.outgoing.insert(command.id.clone(), command)),
                // Nobody waits for an `end` command.
                CommandPlace::Withdrawn if command.ends.is_some() => {}
                CommandPlace::Withdrawn => withdrawn.push(command.id),
                CommandPlace::Pending | CommandPlace::Processed | CommandPlace::Reported => {
                    self.world.ends_published.extend(command.ends);
                }
            }
        }
        Ok(withdrawn)
    }
}

impl OutgoingCommand {
    /// Returns the command that ends a session which is over, unless it was published before.
    fn of_end(session: &AgentSession) -> Option<Self> {
        let end = session.end.as_ref().filter(|end| !end.published)?;
        Some(Self {
            id: end.id.clone(),
            text: end.text.clone(),
            layout: None,
            ends: Some(session.id.clone()),
        })
    }

    fn of(plan: &Plan, attempt: &Attempt) -> Self {
        Self {
            id: attempt.id.clone(),
            text: attempt.text.clone(),
            layout: WorktreeLayout::of(plan, attempt.task),
            ends: None,
        }
    }
}

fn open(plan: &Plan) -> impl Iterator<Item = &Attempt> {
    plan.open_attempts()
        .filter(|attempt| attempt.state == AttemptState::Open)
}
