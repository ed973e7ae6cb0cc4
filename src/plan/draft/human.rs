//! Operations around the human: asking, answering, carrying out the answer.

use super::verdict::acceptable;
use super::{Draft, Refusal, or};
use crate::plan::event::Event;
use crate::plan::model::{
    About, Answer, AskId, AttemptState, Choice, CommandId, Question, QuestionId, Replan, Review,
    Subject, Task, TaskId, TaskStatus,
};

/// Why a task is left out by a person who says no more.
const SKIPPED: &str = "skipped by a person";

impl Draft<'_> {
    /// Asks a human. A matter about which a question is still open is not asked again.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn ask(
        &mut self,
        id: QuestionId,
        about: About,
        task: Option<TaskId>,
        reason: &str,
    ) -> Result<(), Refusal> {
        self.ask_about(id, about, task, None, reason)
    }

    /// Asks a human on behalf of a role that works on another role's request for a task. The attempt goes on meanwhile, and
    /// none of its timeouts counts this time.
    ///
    /// # Errors
    /// The plan has ended, or no attempt at the task is under way.
    pub fn ask_for_request(
        &mut self,
        id: QuestionId,
        task: TaskId,
        request: &CommandId,
        reason: &str,
    ) -> Result<(), Refusal> {
        self.not_settled()?;
        let current = self.task(task)?.current;
        let attempt = current.as_ref().and_then(|id| self.plan.attempt(id));
        if attempt.is_none_or(|attempt| attempt.state != AttemptState::Open) {
            return Err(Refusal::NotAwaited(request.clone()));
        }
        let choices = vec![Choice::Reply, Choice::Skip, Choice::Abort];
        let question = self.question(id, About::Agent, Some(task), reason, choices);
        self.put_question(Question {
            request: Some(request.clone()),
            ..question
        })
    }

    fn question(
        &self,
        id: QuestionId,
        about: About,
        task: Option<TaskId>,
        reason: &str,
        choices: Vec<Choice>,
    ) -> Question {
        Question {
            id,
            about,
            task,
            request: None,
            ask: None,
            reason: reason.to_owned(),
            choices,
            asked: self.now,
            answer: None,
            closed: None,
        }
    }

    fn put_question(&mut self, question: Question) -> Result<(), Refusal> {
        if self.plan.question(&question.id).is_some() {
            return Err(Refusal::QuestionTaken(question.id));
        }
        self.tell(Event::Asked {
            question: question.id.clone(),
            task: question.task,
            reason: question.reason.clone(),
            choices: question.choices.clone(),
        });
        self.put(question);
        Ok(())
    }

    /// Adds to an attempt how long a person needed for a request's question that is now over.
    pub(super) fn person_took(&mut self, question: &Question) {
        let task = question.task.filter(|_| question.request.is_some());
        let task = task.and_then(|task| self.plan.task(task));
        let attempt = task.and_then(|task| self.plan.current_attempt(task));
        if let Some(mut attempt) = attempt.cloned() {
            let took = self.now.since(question.asked);
            attempt.with_person = attempt.with_person.saturating_add(took);
            self.put_attempt(attempt);
        }
    }

    pub(super) fn ask_about(
        &mut self,
        id: QuestionId,
        about: About,
        task: Option<TaskId>,
        subject: Option<(AskId, Subject)>,
        reason: &str,
    ) -> Result<(), Refusal> {
        self.not_settled()?;
        let ask = subject.as_ref().map(|(ask, _)| ask.clone());
        if self
            .plan
            .open_questions()
            .any(|open| open.about == about && open.task == task && open.ask == ask)
        {
            return Ok(());
        }
        let choices = self.choices(about, task, subject.map(|(_, subject)| subject).as_ref());
        let question = self.question(id, about, task, reason, choices);
        self.put_question(Question { ask, ..question })
    }

    /// Returns the choices that a human has, in the plan's present state.
    fn choices(
        &self,
        about: About,
        task: Option<TaskId>,
        subject: Option<&Subject>,
    ) -> Vec<Choice> {
        let task_row = task.and_then(|id| self.plan.task(id));
        let current = task_row.and_then(|task| self.plan.current_attempt(task));
        let accept = current.is_some_and(acceptable);
        let model = self.plan.head().policy.model;
        let offered: &[Choice] = match about {
            About::Review => &[Choice::Approve, Choice::Replan, Choice::Abort],
            About::Replans if task.is_none() => &[Choice::Approve, Choice::Replan, Choice::Abort],
            About::Failures | About::Replans | About::Abort => &[
                Choice::Accept,
                Choice::Retry,
                Choice::Skip,
                Choice::Replan,
                Choice::Abort,
            ],
            About::Unclaimed => &[Choice::Wait, Choice::Skip, Choice::Abort],
            About::Agent => &[Choice::Reply, Choice::Retry, Choice::Skip, Choice::Abort],
            About::Model => match subject {
                Some(Subject::Judge(_)) => {
                    &[Choice::Accept, Choice::Retry, Choice::Skip, Choice::Abort]
                }
                Some(Subject::Audit) => &[Choice::Approve, Choice::Retry, Choice::Abort],
                _ => &[Choice::Retry, Choice::Abort],
            },
            About::Budget(_) => &[Choice::More, Choice::Abort],
            About::Branch => &[Choice::Retry, Choice::Accept, Choice::Abort],
            About::Stuck => &[Choice::Retry, Choice::Skip, Choice::Replan, Choice::Abort],
        };
        let possible = |choice: &Choice| match choice {
            Choice::Accept => accept || about == About::Branch,
            Choice::Replan => model,
            _ => true,
        };
        offered.iter().copied().filter(possible).collect()
    }

    /// Accepts the answer to a question and carries it out. The first answer counts.
    ///
    /// # Errors
    /// No such question, answered or closed before, a choice that is not offered, a note that is missing.
    pub fn answer(
        &mut self,
        id: &QuestionId,
        choice: Choice,
        note: &str,
        by: &str,
    ) -> Result<(), Refusal> {
        let mut question = self
            .plan
            .question(id)
            .cloned()
            .ok_or_else(|| Refusal::UnknownQuestion(id.clone()))?;
        if let Some(answer) = &question.answer {
            return Err(Refusal::AlreadyAnswered {
                question: id.clone(),
                choice: answer.choice,
                by: answer.by.clone(),
            });
        }
        if let Some(reason) = &question.closed {
            return Err(Refusal::QuestionClosed {
                question: id.clone(),
                reason: reason.clone(),
            });
        }
        if !question.choices.contains(&choice) {
            return Err(Refusal::NotOffered {
                choice,
                offered: question.choices,
            });
        }
        let note = note.trim();
        if choice == Choice::Reply && note.is_empty() {
            return Err(Refusal::NoNote);
        }
        question.answer = Some(Answer {
            choice,
            note: note.to_owned(),
            by: by.to_owned(),
            at: self.now,
        });
        self.tell(Event::Answered {
            question: id.clone(),
            choice,
            note: note.to_owned(),
            by: by.to_owned(),
        });
        self.put(question.clone());
        self.person_took(&question);
        self.carry_out(&question, choice, note)
    }

    fn carry_out(
        &mut self,
        question: &Question,
        choice: Choice,
        note: &str,
    ) -> Result<(), Refusal> {
        match (choice, question.task) {
            (Choice::Retry | Choice::Accept, _) if question.about == About::Branch => {
                self.release_branch(choice == Choice::Accept)
            }
            (Choice::Approve, _) if question.about == About::Review => {
                self.change_head(|head| head.review = Review::Approved);
                Ok(())
            }
            (Choice::Approve, _) => {
                self.drop_ask(question);
                let audited = or(note, "taken as met by a person").to_owned();
                self.change_head(|head| head.audited = Some(audited));
                Ok(())
            }
            (Choice::Abort, _) => self.abandon(or(note, "ended by a person")),
            (Choice::Replan, task) => {
                let why = if note.is_empty() {
                    question.reason.clone()
                } else {
                    format!("{}\nThe person says: {note}", question.reason)
                };
                if let Some(task) = task {
                    self.set_pending(task, note)?;
                }
                self.change_head(|head| head.extra_replans += 1);
                self.open_replan(Replan { task, why });
                Ok(())
            }
            (Choice::Retry, _) if question.about == About::Model => {
                self.revive_ask(question);
                Ok(())
            }
            (Choice::Retry, Some(task)) => self.set_pending(task, note),
            (Choice::Retry, None) => {
                for task in self.failed_tasks() {
                    self.reopen_task(task, note)?;
                }
                Ok(())
            }
            (Choice::Skip, Some(task)) => {
                self.drop_ask(question);
                self.skip_task(task, or(note, SKIPPED))
            }
            (Choice::Skip, None) => {
                for task in self.failed_tasks() {
                    self.skip_task(task, or(note, SKIPPED))?;
                }
                Ok(())
            }
            (Choice::Accept, Some(task)) => {
                self.drop_ask(question);
                self.accept_as_is(task, note)
            }
            (Choice::Wait, Some(task)) => {
                let current = self.task(task)?.current;
                if let Some(mut attempt) = current.and_then(|id| self.attempt(&id).ok()) {
                    attempt.waiting_since = self.now;
                    self.put_attempt(attempt);
                }
                Ok(())
            }
            // The reply is delivered to the role that asked.
            (Choice::Reply, _) if question.request.is_some() => Ok(()),
            (Choice::Reply, Some(task)) => {
                let mut task = self.task(task)?;
                task.note = Some(note.to_owned());
                self.put(task);
                Ok(())
            }
            (Choice::More, _) => self.allow_more(question),
            (Choice::Accept | Choice::Wait | Choice::Reply, None) => Err(Refusal::NotOffered {
                choice,
                offered: question.choices.clone(),
            }),
        }
    }

    fn failed_tasks(&self) -> Vec<TaskId> {
        self.plan
            .tasks()
            .filter(|task| task.status == TaskStatus::Failed)
            .map(|task| task.number)
            .collect()
    }

    /// Makes a task pending again and counts its failures anew; a person's note is added to the next command.
    pub(super) fn set_pending(&mut self, id: TaskId, note: &str) -> Result<(), Refusal> {
        let mut task = self.task(id)?;
        if task.status.settled() {
            return Err(Refusal::not_editable(&task));
        }
        renew(&mut task, note);
        self.put(task);
        Ok(())
    }

    /// Makes a failed task pending again.
    ///
    /// # Errors
    /// The task has not failed, or the plan has ended.
    pub fn reopen_task(&mut self, id: TaskId, note: &str) -> Result<(), Refusal> {
        self.not_settled()?;
        let mut task = self.task(id)?;
        if task.status != TaskStatus::Failed {
            return Err(Refusal::not_editable(&task));
        }
        renew(&mut task, note);
        task.finished_at = None;
        self.tell(Event::Reopened { task: id });
        self.put(task);
        Ok(())
    }
}

fn renew(task: &mut Task, note: &str) {
    task.status = TaskStatus::Pending;
    task.failures = 0;
    if !note.is_empty() {
        let person = format!("A person says: {note}");
        task.note = Some(match task.note.take() {
            Some(before) => format!("{before}\n\n{person}"),
            None => person,
        });
    }
}
