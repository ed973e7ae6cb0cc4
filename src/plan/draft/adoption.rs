//! A plan whose daemon is gone goes on in another folder, perhaps on another machine.

use super::*;
use crate::plan::QueueEntry;

/// Where a plan goes on.
#[derive(Clone, Debug)]
pub struct NewHome {
    /// The name of the folder.
    pub home: String,
    /// The folder that agents work in; absolute.
    pub workspace: String,
    /// What it is carried out with there.
    pub queue: QueueEntry,
    /// Where the branch of the results is there, if the plan was there before.
    pub shown: Option<String>,
}

impl Draft<'_> {
    /// Lets a plan go on in another folder. What was accepted stays. What was under way is begun anew from there, in new sessions
    /// and without counting as a failure: worktrees, sessions and commands of the former folder are out of reach.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn adopt(&mut self, to: NewHome) -> Result {
        self.not_settled()?;
        let begun: Vec<Task> = self.plan.in_progress().cloned().collect();
        for task in begun {
            self.stop_attempt(&task);
            let task = self.task(task.number)?;
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
            let attempts: Vec<Attempt> = self.plan.attempts_of(task.number).cloned().collect();
            for attempt in attempts {
                self.insert_attempt(Attempt {
                    session: None,
                    recall: false,
                    ..attempt
                });
            }
        }
        let sessions: Vec<AgentSession> = self.plan.open_sessions().cloned().collect();
        for session in sessions {
            let end = EndCommand {
                id: CommandId::new(format!("end-{}", session.id)),
                text: String::new(),
                published: true,
            };
            let end = Some(end);
            self.insert(AgentSession { end, ..session });
        }
        let from = self.plan.head().home.clone().unwrap_or_default();
        self.log(Event::Adopted {
            from,
            by: to.home.clone(),
        });
        self.change_head(|head| {
            head.home = Some(to.home);
            head.workspace = to.workspace;
            head.queue = Some(Box::new(to.queue));
            (head.options, head.repository, head.tree) = (None, None, None);
            if let Some(line) = &mut head.line {
                (line.began_on, line.shown, line.elsewhere) = (None, to.shown, None);
                line.folder = String::new();
            }
        });
        Ok(())
    }
}
