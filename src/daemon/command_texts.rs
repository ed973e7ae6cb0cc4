//! The texts of commands, which are rendered outside the transaction that commits them. A change that writes commands is made
//! without their texts first and dropped: then it is known what each of them is made from. They are rendered, and the change is
//! made again: as it was decided before, if the plan is as it was; else what is due is decided anew. If what a text was made from
//! has moved in between, the change is dropped once more, and that text rendered anew.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::decisions::OutgoingCommand;
use super::worktrees::WorktreeLayout;
use crate::llm::{CommandContext, Prompts, questions};
use crate::plan::{CommandId, Draft, DueStep, Refusal, Time};
use crate::store::StoreError;
use crate::volumes::{Unpublished, Volumes};
use crate::wire::command_file::{CommandFile, CommandType};

/// A command with everything that its text is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnrenderedCommand {
    /// Without its body, if a template says that.
    pub command: CommandFile,
    /// What the template is told.
    pub context: Option<CommandContext>,
    /// What has to be there before it is published.
    pub layout: Option<WorktreeLayout>,
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
        CommandFile { body, ..command }.render()
    }
}

/// What one try of a change knows of the one before, and what the next one is to know of it.
#[derive(Debug, Default)]
pub(super) struct CommandTexts {
    /// The change of the plan that the try before was made after, and what it decided, in its order.
    decided: (i64, Vec<DueStep>),
    /// The commands that it wrote.
    known: VecDeque<(UnrenderedCommand, String)>,
    steps: Vec<DueStep>,
    written: Vec<(UnrenderedCommand, Option<String>)>,
}

impl CommandTexts {
    /// Returns what the try before decided, if the plan is as it was: then the same is due.
    pub fn decided_before(&mut self, draft: &Draft<'_>) -> Option<VecDeque<DueStep>> {
        let (seq, steps) = std::mem::take(&mut self.decided);
        (seq == draft.seq() && !self.known.is_empty()).then(|| steps.into())
    }

    /// Keeps a step that was decided.
    pub fn decide(&mut self, step: DueStep) {
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

    /// Returns a command as it is published; without its text if that is yet to be rendered.
    pub fn write(&mut self, made: UnrenderedCommand) -> OutgoingCommand {
        let known = self.known.pop_front().filter(|(known, _)| *known == made);
        let text = known.map(|(_, text)| text);
        let (command, layout) = (&made.command, made.layout.clone());
        let ends = (command.kind == CommandType::End).then(|| command.session.clone());
        let outgoing = OutgoingCommand {
            id: command.id.clone(),
            text: text.clone().unwrap_or_default(),
            layout,
            ends: ends.flatten(),
        };
        self.written.push((made, text));
        outgoing
    }
}

/// A change that writes commands, while it is tried.
pub(super) struct Tries<F> {
    change: Arc<F>,
    decided: (i64, Vec<DueStep>),
    known: Vec<(UnrenderedCommand, String)>,
    /// Gets what a try knows that was dropped.
    dropped: Option<oneshot::Receiver<(i64, CommandTexts)>>,
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
        F: Fn(&mut Draft<'_>, &mut CommandTexts) -> Result<T, Refusal> + Send + Sync,
    {
        let (drop_it, dropped) = oneshot::channel();
        self.dropped = Some(dropped);
        let change = Arc::clone(&self.change);
        let mut texts = CommandTexts {
            decided: std::mem::take(&mut self.decided),
            known: self.known.iter().cloned().collect(),
            ..CommandTexts::default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Origin, PlanHead, PlanId};
    use crate::store::Store;

    /// A command that says what the plan is called.
    fn command(draft: &Draft<'_>, texts: &CommandTexts) -> UnrenderedCommand {
        let (id, created_at) = texts.next(draft.now());
        let command = CommandFile {
            id,
            created_at: Some(created_at),
            session: None,
            kind: CommandType::New,
            plan: None,
            task: None,
            attempt: None,
            assignee: None,
            origin: Origin::Model,
            workspace: String::new(),
            report: String::new(),
            request_id: None,
            body: draft.plan().head().name.clone(),
        };
        UnrenderedCommand {
            command,
            context: None,
            layout: None,
        }
    }

    type Written = (OutgoingCommand, Option<VecDeque<DueStep>>);

    fn write(draft: &mut Draft<'_>, texts: &mut CommandTexts) -> Result<Written, Refusal> {
        let decided = texts.decided_before(draft);
        texts.decide(DueStep::Settle);
        draft.describe(|head| head.description = "written".to_owned());
        let made = command(draft, texts);
        Ok((texts.write(made), decided))
    }

    async fn named(store: &Store, plan: &PlanId, name: &'static str) {
        let name = move |draft: &mut Draft<'_>| {
            draft.describe(|head| head.name = name.to_owned());
            Ok(())
        };
        store.change(plan, "test", "named", name).await.unwrap();
    }

    async fn store(plan: &PlanId) -> Store {
        let store = Store::in_memory(Time::default).await.unwrap();
        let head = PlanHead::new(plan.clone(), "", Time::default());
        let created = store.create(head, "test", "made", |draft| {
            draft.created();
            Ok(())
        });
        created.await.unwrap();
        store
    }

    #[tokio::test]
    async fn a_dropped_try_changes_nothing_and_the_next_one_decides_the_same() {
        let plan = PlanId::new("p");
        let (store, prompts) = (store(&plan).await, Prompts::load(None).unwrap());
        named(&store, &plan, "first").await;
        let mut tries = Tries::new(write);
        let made = store.change(&plan, "test", "try", tries.next()).await;
        assert!(tries.again(&made, &prompts));
        let description = store.read(&plan, |plan, _| plan.head().description.clone());
        assert_eq!(description.await.unwrap(), "");
        let made = store.change(&plan, "test", "try", tries.next()).await;
        assert!(!tries.again(&made, &prompts));
        let (outgoing, decided) = made.unwrap();
        assert!(outgoing.text.ends_with("first\n"), "{}", outgoing.text);
        assert_eq!(decided.unwrap(), [DueStep::Settle]);
    }

    #[tokio::test]
    async fn a_text_is_rendered_anew_if_what_it_is_made_from_has_moved() {
        let plan = PlanId::new("p");
        let (store, prompts) = (store(&plan).await, Prompts::load(None).unwrap());
        named(&store, &plan, "first").await;
        let mut tries = Tries::new(write);
        for name in ["second", "third"] {
            let made = store.change(&plan, "test", "try", tries.next()).await;
            assert!(tries.again(&made, &prompts));
            named(&store, &plan, name).await;
        }
        let made = store.change(&plan, "test", "try", tries.next()).await;
        assert!(tries.again(&made, &prompts));
        let made = store.change(&plan, "test", "try", tries.next()).await;
        assert!(!tries.again(&made, &prompts));
        let (outgoing, _) = made.unwrap();
        assert!(outgoing.text.ends_with("third\n"), "{}", outgoing.text);
    }

    #[tokio::test]
    async fn what_moves_elsewhere_is_decided_anew_with_the_same_text() {
        let plan = PlanId::new("p");
        let (store, prompts) = (store(&plan).await, Prompts::load(None).unwrap());
        named(&store, &plan, "first").await;
        let mut tries = Tries::new(write);
        let made = store.change(&plan, "test", "try", tries.next()).await;
        assert!(tries.again(&made, &prompts));
        let elsewhere = |draft: &mut Draft<'_>| {
            draft.describe(|head| head.description = "moved".to_owned());
            Ok(())
        };
        let moved = store.change(&plan, "test", "moved", elsewhere).await;
        moved.unwrap();
        let made = store.change(&plan, "test", "try", tries.next()).await;
        assert!(!tries.again(&made, &prompts));
        let (outgoing, decided) = made.unwrap();
        assert!(outgoing.text.ends_with("first\n"), "{}", outgoing.text);
        assert_eq!(decided, None);
    }
}
