//! Operations around the human: asking, answering, carrying out the answer.

use AnswerChoice::*;
use HumanQuestionKind as About;

use super::{acceptable, *};

/// Why a task is left out by a person who says no more.
pub(super) const SKIPPED: &str = "skipped by a person";

/// The most characters of an agent's question that are repeated beside the answer.
const ASKED: usize = 200;

impl Draft<'_> {
    /// Asks a human. A matter about which a question is still open is not asked again.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn ask(&mut self, about: HumanQuestionKind, task: Option<TaskId>, reason: &str) -> Result {
        self.insert_question(self.question(about, task, reason))
    }

    /// Asks a human on behalf of a role that works on another role's request for a task. The attempt goes on meanwhile, and
    /// none of its timeouts counts this time. `asked` is the question in the plan of that work.
    ///
    /// # Errors
    /// The plan has ended, or no attempt at the task is under way.
    pub fn ask_for_request(
        &mut self,
        task: TaskId,
        request: &CommandId,
        reason: &str,
        asked: HumanQuestion,
    ) -> Result {
        self.not_settled()?;
        let current = self.task(task)?.current;
        let attempt = current.as_ref().and_then(|id| self.plan.attempt(id));
        let over = attempt.is_none_or(|attempt| attempt.state != AttemptState::Open);
        refuse_if(over, Refusal::NotAwaited(request.clone()))?;
        let mut question = self.question(HumanQuestionKind::Agent, Some(task), reason);
        question.request = Some(request.clone());
        (question.choices, question.refused) = (asked.choices, asked.refused);
        question.choices.retain(|choice| *choice != Retry);
        self.insert_question(question)
    }

    /// Returns a question with the choices that a human has in the plan's present state. It gets its id when it is asked.
    pub(super) fn question(
        &self,
        about: HumanQuestionKind,
        task: Option<TaskId>,
        reason: &str,
    ) -> HumanQuestion {
        HumanQuestion {
            choices: self.choices(about, task, None),
            about,
            task,
            reason: reason.to_owned(),
            asked: self.now,
            ..HumanQuestion::default()
        }
    }

    /// Asks a human, unless a question about the same matter is still open. Each question of a request is asked.
    pub(super) fn insert_question(&mut self, mut question: HumanQuestion) -> Result {
        self.not_settled()?;
        let matter = |q: &HumanQuestion| (q.about, q.task, q.ask.clone());
        let same = |open: &HumanQuestion| matter(open) == matter(&question);
        if question.request.is_none() && self.plan.open_questions().any(same) {
            return Ok(());
        }
        question.id = (self.new_question)(self.plan);
        if self.plan.question(&question.id).is_some() {
            return Err(Refusal::QuestionTaken(question.id));
        }
        use HumanQuestionKind::{Branch, Model};
        let no_task = question.about == Model && question.task.is_none();
        let other = question.about == Branch || no_task;
        if question.choices.contains(&AnswerChoice::Retry) && !other {
            question.attempts = self.plan.head().policy.max_attempts;
        }
        self.log(Event::Asked {
            question: question.id.clone(),
            task: question.task,
            reason: question.reason.clone(),
            choices: question.choices.clone(),
        });
        self.insert(question);
        Ok(())
    }

    /// Adds to an attempt how long a person needed for a request's question that is now over.
    pub(super) fn person_took(&mut self, question: &HumanQuestion) {
        let task = question.task.filter(|_| question.request.is_some());
        let task = task.and_then(|task| self.plan.task(task));
        let attempt = task.and_then(|task| self.plan.current_attempt(task));
        if let Some(mut attempt) = attempt.cloned() {
            let took = self.now.since(question.asked);
            attempt.with_person = attempt.with_person.saturating_add(took);
            self.insert_attempt(attempt);
        }
    }

    /// Returns the choices that a human has, in the plan's present state.
    pub(super) fn choices(
        &self,
        about: HumanQuestionKind,
        task: Option<TaskId>,
        ask: Option<&AskId>,
    ) -> Vec<AnswerChoice> {
        let offered: &[AnswerChoice] = match about {
            About::Review => &[Approve, Replan, Abort],
            About::Replans if task.is_none() => &[Approve, Replan, Abort],
            About::Failures | About::Replans | About::Abort | About::Unsure => {
                &[Accept, Retry, DropCheck, Skip, Replan, Abort]
            }
            About::Unclaimed => &[Wait, Skip, Abort],
            About::Agent => &[Reply, Retry, Skip, Abort],
            About::Model => match ask.and_then(|id| self.plan.ask(id)).map(|ask| &ask.subject) {
                Some(ModelQuestionKind::Judge(_)) => &[Accept, Retry, Skip, Abort],
                Some(ModelQuestionKind::Audit) => &[Approve, Retry, Abort],
                Some(ModelQuestionKind::Replan) => &[Retry, Skip, Abort],
                _ => &[Retry, Abort],
            },
            About::Budget(_) | About::DayBudget(_) => &[More, Abort],
            About::Branch => &[Retry, Accept, Abort],
            About::Stuck => &[Retry, Skip, Replan, Abort],
        };
        let task = task.and_then(|id| self.plan.task(id));
        let attempt = task.and_then(|task| self.plan.current_attempt(task));
        let acceptable = about == About::Branch || attempt.is_some_and(acceptable);
        let possible = |choice: &AnswerChoice| match choice {
            Accept => acceptable,
            DropCheck => task.is_some_and(|task| !self.droppable(task).is_empty()),
            Replan => self.plan.head().policy.model,
            _ => true,
        };
        offered.iter().copied().filter(possible).collect()
    }

    /// Accepts the answer to a question and carries it out. The first answer counts.
    ///
    /// # Errors
    /// No such question, answered or closed before, a choice that is not offered or not taken from a file, a note that is
    /// missing.
    pub fn answer(
        &mut self,
        id: &QuestionId,
        choice: AnswerChoice,
        note: &str,
        by: &str,
    ) -> Result {
        let question = self.plan.question(id).cloned();
        let mut question = question.ok_or_else(|| Refusal::UnknownQuestion(id.clone()))?;
        if let Some(answer) = &question.answer {
            return Err(Refusal::AlreadyAnswered(id.clone(), answer.clone()));
        }
        if let Some(reason) = &question.closed {
            return Err(Refusal::QuestionClosed(id.clone(), reason.clone()));
        }
        // It was asked when a model could still do that.
        let no_model = choice == Replan && !self.plan.head().policy.model;
        if no_model || !question.choices.contains(&choice) {
            return Err(Refusal::NotOffered(choice, question.choices));
        }
        let in_file = by == IN_FILE && question.is_grant(choice);
        refuse_if(in_file, Refusal::InFile(choice))?;
        let note = note.trim();
        refuse_if(choice == Reply && note.is_empty(), Refusal::NoNote)?;
        question.answer = Some(HumanAnswer {
            choice,
            note: note.to_owned(),
            by: by.to_owned(),
            at: self.now,
        });
        self.log(Event::Answered {
            question: id.clone(),
            choice,
            note: note.to_owned(),
            by: by.to_owned(),
        });
        self.insert(question.clone());
        self.person_took(&question);
        self.carry_out(&question, choice, note)
    }

    fn carry_out(&mut self, question: &HumanQuestion, choice: AnswerChoice, note: &str) -> Result {
        match (choice, question.about, question.task) {
            (Retry | Accept, About::Branch, _) => return self.release_branch(choice == Accept),
            // The note is for the agent, which tries again with it.
            (Retry, About::Model, Some(task)) if !note.is_empty() => {
                self.close_ask(question);
                return self.open_again(task, note, "a person has the agent try again");
            }
            (Retry, About::Model, _) => self.ask_again(question, note),
            (Approve, About::Review, _) => {
                self.change_head(|head| head.review = ReviewPolicy::Approved);
                let soft = self.plan.tasks().filter(|task| task.is_soft());
                for task in soft.cloned().collect::<Vec<_>>() {
                    let reviewed = true;
                    self.insert(Task { reviewed, ..task });
                }
            }
            (Approve, ..) => {
                self.close_ask(question);
                let audited = or(note, "taken as met by a person").to_owned();
                self.change_head(|head| head.audited = Some(audited));
            }
            (Abort, ..) => return self.abandon(or(note, "ended by a person")),
            (More, ..) => return self.allow_more(question),
            (Replan, _, task) => {
                let why = match note {
                    "" => question.reason.clone(),
                    note => format!("{}\nThe person says: {note}", question.reason),
                };
                if let Some(task) = task {
                    self.set_pending(task, note)?;
                }
                self.change_head(|head| head.extra_replans += 1);
                self.open_replan(ReplanRequest { task, why });
            }
            (Retry, _, Some(task)) => return self.set_pending(task, note),
            (Retry, _, None) => {
                for task in self.failed_tasks() {
                    self.reopen_task(task, note)?;
                }
            }
            (Skip, About::Model, None) => self.drop_replan(),
            (Skip, _, task) => {
                self.close_ask(question);
                let tasks = task.map_or_else(|| self.failed_tasks(), |task| vec![task]);
                for task in tasks {
                    self.skip_task(task, or(note, SKIPPED))?;
                }
            }
            (Accept, _, Some(task)) => {
                self.close_ask(question);
                return self.accept_as_is(task, note);
            }
            (DropCheck, _, Some(task)) => return self.drop_checks(task),
            (Wait, _, Some(task)) => {
                let now = self.now;
                if let Some(id) = self.task(task)?.current {
                    return self.change_attempt(&id, |attempt| attempt.waiting_since = now);
                }
            }
            // The answer is delivered to the role that asked.
            (Reply | AllowOnce | Deny, ..) if question.request.is_some() => {}
            (AllowOnce | AllowAlways | Deny, _, Some(task)) => {
                return self.decide_refused(question, task, choice, note);
            }
            (Reply, _, Some(task)) => {
                let asked = question.reason.lines().next().unwrap_or_default();
                let asked: String = asked.chars().take(ASKED).collect();
                return self.change_task(task, |task| task.tell(&format!("{note} (to: {asked})")));
            }
            (Accept | DropCheck | Wait | Reply | AllowOnce | AllowAlways | Deny, _, None) => {
                return Err(Refusal::NotOffered(choice, question.choices.clone()));
            }
        }
        Ok(())
    }

    /// Returns the failing checks and files that a model chose for a task, and that no policy asks for.
    fn droppable(&self, task: &Task) -> Vec<String> {
        let files = task.produces.iter().map(|path| format!("file {path}"));
        let own: Vec<String> = files.chain(task.checks.iter().cloned()).collect();
        let of_all = &self.plan.head().policy.checks;
        let attempt = self.plan.current_attempt(task).filter(|_| task.is_soft());
        let failing = attempt.into_iter().flat_map(Attempt::failing);
        let names = failing.map(|check| check.name.clone());
        (names.filter(|name| own.contains(name) && !of_all.contains(name))).collect()
    }

    /// Takes the failing checks and files that a model chose from a task, and lets its last result be judged again without them.
    fn drop_checks(&mut self, id: TaskId) -> Result {
        let mut task = self.task(id)?;
        let dropped = self.droppable(&task);
        let kept = |name: &String| !dropped.contains(name);
        if let Some(mut attempt) = self.plan.current_attempt(&task).cloned() {
            let checks = attempt.checks.iter_mut();
            checks.for_each(|checks| checks.retain(|check| kept(&check.name)));
            attempt.verdict = None;
            attempt.state = AttemptState::Reported;
            self.insert_attempt(attempt);
        }
        task.checks.retain(kept);
        task.produces.retain(|path| kept(&format!("file {path}")));
        task.criteria.unbind(&dropped);
        task.failures = 0;
        self.insert(task);
        self.log(Event::Updated { task: id });
        Ok(())
    }

    fn failed_tasks(&self) -> Vec<TaskId> {
        let failed = self.plan.tasks_in(TaskState::Failed);
        failed.map(|task| task.number).collect()
    }

    /// Makes a task pending again and counts its failures anew; a person's note is added to the next command.
    pub(super) fn set_pending(&mut self, id: TaskId, note: &str) -> Result {
        let mut task = self.task(id)?;
        refuse_if(task.status.settled(), Refusal::not_editable(&task))?;
        renew(&mut task, note);
        self.insert(task);
        Ok(())
    }

    /// Makes a failed task pending again.
    ///
    /// # Errors
    /// The task has not failed, or the plan has ended.
    pub fn reopen_task(&mut self, id: TaskId, note: &str) -> Result {
        self.not_settled()?;
        let mut task = self.task_in(id, TaskState::Failed)?;
        renew(&mut task, note);
        task.finished_at = None;
        self.log(Event::Reopened { task: id });
        self.insert(task);
        Ok(())
    }
}

pub(super) fn renew(task: &mut Task, note: &str) {
    task.status = TaskState::Pending;
    task.failures = 0;
    // The person has seen which program was another one, and goes on with it.
    task.programs = None;
    if !note.is_empty() {
        task.tell(note);
    }
}
