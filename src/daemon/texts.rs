//! The texts of commands, which are rendered outside the transaction that commits them. A change that writes commands is made
//! without their texts first and dropped: then it is known what each of them is made from. They are rendered, and the change is
//! made again. If what a text was made from has moved in between, the change is dropped once more, and that text rendered anew.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::isolation::Layout;
use crate::llm::{CommandContext, Prompts, questions};
use crate::plan::{CommandId, Draft, Refusal, Time};
use crate::store::StoreError;
use crate::wire::command::Command;

/// A command with everything that its text is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unrendered {
    /// Without its body, if a template says that.
    pub command: Command,
    /// What the template is told.
    pub context: Option<CommandContext>,
    /// What has to be there before it is published.
    pub layout: Option<Layout>,
}

impl Unrendered {
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

/// The texts that one try of a change may use, in the order in which it writes commands.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: VecDeque<(Unrendered, String)>,
    written: Vec<(Unrendered, Option<String>)>,
}

impl Texts {
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
    pub fn write(&mut self, made: Unrendered) -> String {
        let known = self.known.pop_front().filter(|(known, _)| *known == made);
        let text = known.map(|(_, text)| text);
        self.written.push((made, text.clone()));
        text.unwrap_or_default()
    }
}

/// A change that writes commands, while it is tried.
pub(super) struct Tries<F> {
    change: Arc<F>,
    known: Vec<(Unrendered, String)>,
    written: Option<oneshot::Receiver<Vec<(Unrendered, Option<String>)>>>,
}

impl<F> Tries<F> {
    pub fn new(change: F) -> Self {
        Self {
            change: Arc::new(change),
            known: Vec::new(),
            written: None,
        }
    }

    /// Returns the commands whose text is known.
    pub fn known(&self) -> &[(Unrendered, String)] {
        &self.known
    }

    /// Returns the change, to be made once.
    pub fn next<T>(
        &mut self,
    ) -> impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + use<T, F>
    where
        F: Fn(&mut Draft<'_>, &mut Texts) -> Result<T, Refusal> + Send + Sync,
    {
        let (said, written) = oneshot::channel();
        self.written = Some(written);
        let change = Arc::clone(&self.change);
        let mut texts = Texts {
            known: self.known.iter().cloned().collect(),
            written: Vec::new(),
        };
        move |draft: &mut Draft<'_>| {
            let made = change(draft, &mut texts)?;
            if texts.written.iter().all(|(_, text)| text.is_some()) {
                return Ok(made);
            }
            drop(said.send(texts.written));
            Err(Refusal::Dropped)
        }
    }

    /// Returns whether the change is to be made again, now that the texts are rendered for want of which it was dropped.
    pub fn again<T>(&mut self, made: &Result<T, StoreError>, prompts: &Prompts) -> bool {
        let dropped = matches!(made, Err(StoreError::Refused(Refusal::Dropped)));
        let written = self.written.take().filter(|_| dropped);
        let Some(written) = written.and_then(|mut written| written.try_recv().ok()) else {
            return false;
        };
        let render = |(made, text): (Unrendered, Option<String>)| {
            let text = text.unwrap_or_else(|| made.render(prompts));
            (made, text)
        };
        self.known = written.into_iter().map(render).collect();
        true
    }
}
