//! The texts of commands, which are rendered outside the transaction that commits them. A change that writes commands is made
//! without their texts first and dropped: then it is known what each of them is made from. They are rendered, and the change is
//! made again: as it was decided before, if the plan is as it was; else what is due is decided anew. If what a text was made from
//! has moved in between, the change is dropped once more, and that text rendered anew.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::isolation::Layout;
use crate::llm::{CommandContext, Prompts, questions};
use crate::plan::{CommandId, Draft, Refusal, Step, Time};
use crate::store::StoreError;
use crate::volumes::{Unpublished, Volumes};
use crate::wire::command::Command;

/// A command with everything that its text is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnrenderedCommand {
    /// Without its body, if a template says that.
    pub command: Command,
    /// What the template is told.
    pub context: Option<CommandContext>,
    /// What has to be there before it is published.
    pub layout: Option<Layout>,
}

impl UnrenderedCommand {
    fn render(&self, prompts: &Prompts) -> String {
        let Some(context) = &self.context else {
            return self.command.render();
        };
        let body = questions::command_body(prompts, context).unwrap_or_else(|error| {
            // Every template was rendered once when it was loaded; a task is not lost if one fails all the same.
            tracing::error!(%error, "the command template failed; the bare task is sent");
            let (number, name) = (context.number, &context.name);
            let description = &context.description;
            format!("# {number} · {name}\n\n## Task description\n\n{description}\n")
        });
        let command = self.command.clone();
        Command { body, ..command }.render()
    }
}

/// What one try of a change knows of the one before, and what the next one is to know of it.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// The change of the plan that the try before was made after, and what it decided, in its order.
    decided: (i64, Vec<Step>),
    /// The commands that it wrote.
    known: VecDeque<(UnrenderedCommand, String)>,
    steps: Vec<Step>,
    written: Vec<(UnrenderedCommand, Option<String>)>,
}

impl Texts {
    /// Returns what the try before decided, if the plan is as it was: then the same is due.
    pub fn decided_before(&mut self, draft: &Draft<'_>) -> Option<VecDeque<Step>> {
        let (seq, steps) = std::mem::take(&mut self.decided);
        (seq == draft.seq() && !self.known.is_empty()).then(|| steps.into())
    }

    /// Keeps a step that was decided.
    pub fn decide(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Returns the id of the next command, and when it was made: those of the try before.
    pub fn next(&self, now: Time) -> (CommandId, Time) {
        match self.known.front() {
            Some((known, _)) => {
                let command = &known.command;
                (command.id.clone(), command.created_at.unwrap_or(now))
            }
            None => (CommandId::new(format!("task-{}", Uuid::now_v7())), now),
        }
    }

    /// Returns the text of a command; an empty one if it is yet to be rendered.
    pub fn write(&mut self, made: UnrenderedCommand) -> String {
        let known = self.known.pop_front().filter(|(known, _)| *known == made);
        let text = known.map(|(_, text)| text);
        self.written.push((made, text.clone()));
        text.unwrap_or_default()
    }
}

/// A change that writes commands, while it is tried.
pub(super) struct Tries<F> {
    change: Arc<F>,
    decided: (i64, Vec<Step>),
    known: Vec<(UnrenderedCommand, String)>,
    /// Gets what a try knows that was dropped.
    dropped: Option<oneshot::Receiver<(i64, Texts)>>,
}

impl<F> Tries<F> {
    pub fn new(change: F) -> Self {
        Self {
            change: Arc::new(change),
            decided: (0, Vec::new()),
            known: Vec::new(),
            dropped: None,
        }
    }

    /// Writes the commands whose text is known beside their folder, as far as they can be published at once.
    pub fn prepare(&self, volumes: &Volumes) -> impl Iterator<Item = (CommandId, Unpublished)> {
        let at_once = self.known.iter().filter(|(made, _)| made.layout.is_none());
        at_once.filter_map(|(made, text)| {
            let id = &made.command.id;
            Some((id.clone(), volumes.prepare(id, text).ok()?))
        })
    }

    /// Returns the change, to be made once.
    pub fn next<T>(
        &mut self,
    ) -> impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + use<T, F>
    where
        F: Fn(&mut Draft<'_>, &mut Texts) -> Result<T, Refusal> + Send + Sync,
    {
        let (drop_it, dropped) = oneshot::channel();
        self.dropped = Some(dropped);
        let change = Arc::clone(&self.change);
        let mut texts = Texts {
            decided: std::mem::take(&mut self.decided),
            known: self.known.iter().cloned().collect(),
            ..Texts::default()
        };
        move |draft: &mut Draft<'_>| {
            let seq = draft.seq();
            let made = change(draft, &mut texts)?;
            if texts.written.iter().all(|(_, text)| text.is_some()) {
                return Ok(made);
            }
            drop(drop_it.send((seq, texts)));
            Err(Refusal::Dropped)
        }
    }

    /// Returns whether the change is to be made again, now that the texts are rendered for want of which it was dropped.
    pub fn again<T>(&mut self, made: &Result<T, StoreError>, prompts: &Prompts) -> bool {
        let for_want = matches!(made, Err(StoreError::Refused(Refusal::Dropped)));
        let dropped = self.dropped.take().filter(|_| for_want);
        let Some((seq, texts)) = dropped.and_then(|mut dropped| dropped.try_recv().ok()) else {
            return false;
        };
        let render = |(made, text): (UnrenderedCommand, Option<String>)| {
            let text = text.unwrap_or_else(|| made.render(prompts));
            (made, text)
        };
        self.known = texts.written.into_iter().map(render).collect();
        self.decided = (seq, texts.steps);
        true
    }
}
