//! A plan whose daemon is gone goes on in another folder, perhaps on another machine.

use std::collections::BTreeSet;

use super::*;

/// Where a plan goes on.
#[derive(Clone, Debug)]
pub struct NewHome {
    /// The name of the folder.
    pub home: String,
    /// The folder that agents work in; absolute.
    pub workspace: String,
    /// What a daemon there carries it out with; `None` if its person does.
    pub queue: Option<QueueEntry>,
    /// Commands that agents behind relays go on with.
    pub goes_on: BTreeSet<CommandId>,
    /// Where the branch of the results is there, if the plan was there before.
    pub shown: Option<String>,
    /// The project was moved, and the exchange folder with it: what was under way is taken back, and the plan goes on as it was
    /// begun.
    pub moved: bool,
}

impl Draft<'_> {
    /// Lets a plan go on in another folder. What was accepted stays, and what relays have goes on. What was under way in the former
    /// folder is begun anew, in new sessions and without counting as a failure: its worktrees and commands are out of reach.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn adopt(&mut self, to: NewHome) -> Result {
        self.not_settled()?;
        let goes_on = |task: &Task| {
            let current = self.plan.current_attempt(task);
            current.is_some_and(|attempt| {
                attempt.state == AttemptState::Open
                    && !attempt.recall
                    && to.goes_on.contains(&attempt.id)
            })
        };
        let begun = self.plan.in_progress().filter(|task| !goes_on(task));
        for task in begun.cloned().collect::<Vec<_>>() {
            self.stop_attempt(&task);
            self.insert(Task {
                status: TaskState::Pending,
                current: None,
                not_before: None,
                ..task
            });
        }
        let open = self.plan.tasks().filter(|task| !task.status.settled());
        for task in open.cloned().collect::<Vec<_>>() {
            // The programs of checks lie elsewhere.
            self.insert(Task {
                programs: None,
                ..task.clone()
            });
            let gone = self.plan.attempts_of(task.number);
            let gone = gone.filter(|attempt| !to.goes_on.contains(&attempt.id));
            for attempt in gone.cloned().collect::<Vec<_>>() {
                self.insert_attempt(Attempt {
                    session: None,
                    recall: attempt.recall && to.moved,
                    ..attempt
                });
            }
        }
        let open = self.plan.open_attempts();
        let known: BTreeSet<SessionId> =
            open.filter_map(|attempt| attempt.session.clone()).collect();
        let sessions = self.plan.open_sessions();
        let gone = sessions.filter(|session| !known.contains(&session.id));
        for id in gone.map(|session| session.id.clone()).collect::<Vec<_>>() {
            let end = EndCommand {
                id: CommandId::new(format!("end-{id}")),
                text: String::new(),
                published: true,
            };
            self.end_session(&id, end);
        }
        let head = self.plan.head();
        let from = head.home.as_ref().unwrap_or(&head.workspace).clone();
        let by = to.home.clone();
        self.log(Event::Adopted { from, by });
        self.change_head(|head| {
            head.made_in = to.home.split_once(':').map(|(_, folder)| folder.to_owned());
            head.home = Some(to.home);
            head.workspace = to.workspace;
            head.queue = to.queue.map(Box::new);
            (head.repository, head.tree) = (None, None);
            // Where it was moved, its person is shown what to confirm anew.
            head.options.take_if(|_| !to.moved);
            if let Some(line) = &mut head.line {
                // What a person did with the branch counts only where it is still so.
                line.moved_from.take_if(|_| line.shown != to.shown);
                line.began_on.take_if(|_| !to.moved);
                (line.shown, line.elsewhere) = (to.shown, None);
                line.folder = String::new();
            }
        });
        Ok(())
    }

    /// Records why a daemon of another folder cannot go on with the plan.
    pub fn not_adopted(&mut self, by: String, reason: String) {
        self.log(Event::NotAdopted { by, reason });
    }
}
