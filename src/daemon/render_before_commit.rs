//! The texts of commands, which are rendered outside the transaction that commits them. A change that writes commands is made
//! without their texts first, in a draft that is dropped: then it is known what each of them is made from. They are rendered, and
//! the change is made in a transaction: as it was decided before, if the plan is as it was; else what is due is decided anew. If
//! what a text was made from has moved in between, the change is refused, and all of it is done again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::carry_out_steps::OutgoingCommand;
use super::worktrees::WorktreeLayout;
use crate::llm::{CommandContext, Prompts, questions};
use crate::plan::{CommandId, Draft, DueStep, Refusal, Time};
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

/// The commands that a change is going to write, once it is known.
pub(super) type Rendered = oneshot::Receiver<Vec<(UnrenderedCommand, String)>>;

/// Returns a change in two parts, for [`Store::change_prepared`](crate::store::Store::change_prepared), and the commands that the
/// first part renders. The second part is refused if one of its texts was made from something else.
pub(super) fn in_two_parts<T, F>(
    change: &Arc<F>,
    prompts: &Arc<Prompts>,
) -> (
    impl FnOnce(&mut Draft<'_>) + Send + use<T, F>,
    impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal> + Send + use<T, F>,
    Rendered,
)
where
    F: Fn(&mut Draft<'_>, &mut CommandTexts) -> Result<T, Refusal> + Send + Sync,
{
    let known = Arc::new(Mutex::new(CommandTexts::default()));
    let (tell, rendered) = oneshot::channel();
    let (first, prompts, slot) = (Arc::clone(change), Arc::clone(prompts), Arc::clone(&known));
    let prepare = move |draft: &mut Draft<'_>| {
        let (mut texts, seq) = (CommandTexts::default(), draft.seq());
        if first(draft, &mut texts).is_err() {
            // It is refused again.
            return;
        }
        let written = texts.written.into_iter();
        let render = |(made, _): (UnrenderedCommand, _)| {
            let text = made.render(&prompts);
            (made, text)
        };
        let written: Vec<_> = written.map(render).collect();
        drop(tell.send(written.clone()));
        *locked(&slot) = CommandTexts {
            decided: (seq, texts.steps),
            known: written.into(),
            ..CommandTexts::default()
        };
    };
    let second = Arc::clone(change);
    let change = move |draft: &mut Draft<'_>| {
        let mut texts = std::mem::take(&mut *locked(&known));
        let made = second(draft, &mut texts)?;
        match texts.written.iter().all(|(_, text)| text.is_some()) {
            true => Ok(made),
            false => Err(Refusal::Dropped),
        }
    };
    (prepare, change, rendered)
}

/// Writes commands beside their folder, as far as they can be published at once.
pub(super) fn prepare_files(
    rendered: &[(UnrenderedCommand, String)],
    volumes: &Volumes,
) -> impl Iterator<Item = (CommandId, Unpublished)> {
    let at_once = rendered.iter().filter(|(made, _)| made.layout.is_none());
    at_once.filter_map(|(made, text)| {
        let id = &made.command.id;
        Some((id.clone(), volumes.prepare(id, text).ok()?))
    })
}

/// What a part that panicked left there is not used: its change is not made.
fn locked(texts: &Mutex<CommandTexts>) -> MutexGuard<'_, CommandTexts> {
    texts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Origin, PlanHead, PlanId};
    use crate::store::{Store, StoreError};

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

    /// Prepares a change of the plan, moves the plan, and makes the change.
    async fn change_around(
        store: &Store,
        plan: &PlanId,
        moved: impl FnOnce(&mut Draft<'_>) + Send + 'static,
    ) -> Result<Written, StoreError> {
        let prompts = Arc::new(Prompts::load(None).unwrap());
        let (prepare, commit, rendered) = in_two_parts(&Arc::new(write), &prompts);
        let dropped = store.change(plan, "test", "prepared", |draft| {
            prepare(draft);
            Err::<(), _>(Refusal::Dropped)
        });
        dropped.await.unwrap_err();
        assert_eq!(rendered.await.unwrap().len(), 1);
        let moved = store.change(plan, "test", "moved", |draft| {
            moved(draft);
            Ok(())
        });
        moved.await.unwrap();
        store.change(plan, "test", "made", commit).await
    }

    #[tokio::test]
    async fn what_is_prepared_changes_nothing_and_the_same_is_decided() {
        let plan = PlanId::new("p");
        let store = store(&plan).await;
        named(&store, &plan, "first").await;
        let (outgoing, decided) = change_around(&store, &plan, |draft| {
            assert_eq!(draft.plan().head().description, "");
        })
        .await
        .unwrap();
        assert!(outgoing.text.ends_with("first\n"), "{}", outgoing.text);
        assert_eq!(decided.unwrap(), [DueStep::Settle]);
    }

    #[tokio::test]
    async fn a_text_is_refused_if_what_it_is_made_from_has_moved() {
        let plan = PlanId::new("p");
        let store = store(&plan).await;
        named(&store, &plan, "first").await;
        let renamed =
            |draft: &mut Draft<'_>| draft.describe(|head| head.name = "second".to_owned());
        let made = change_around(&store, &plan, renamed).await;
        let dropped = matches!(made, Err(StoreError::Refused(Refusal::Dropped)));
        assert!(dropped, "{made:?}");
        let made = change_around(&store, &plan, |_| {}).await;
        let (outgoing, _) = made.unwrap();
        assert!(outgoing.text.ends_with("second\n"), "{}", outgoing.text);
    }

    #[tokio::test]
    async fn what_moves_elsewhere_is_decided_anew_with_the_same_text() {
        let plan = PlanId::new("p");
        let store = store(&plan).await;
        named(&store, &plan, "first").await;
        let elsewhere =
            |draft: &mut Draft<'_>| draft.describe(|head| head.description = "moved".to_owned());
        let made = change_around(&store, &plan, elsewhere).await;
        let (outgoing, decided) = made.unwrap();
        assert!(outgoing.text.ends_with("first\n"), "{}", outgoing.text);
        assert_eq!(decided, None);
    }
}
