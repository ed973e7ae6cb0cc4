//! What a person does to single tasks of a plan, whether a daemon carries it out meanwhile or not.

use std::collections::BTreeSet;

use super::human_questions::{SKIPPED, renew};
use super::task_structure::produced;
use super::*;

/// The result of a task that a person calls done without a word.
const DONE: &str = "done by hand";

/// Why questions about a task are closed that a person opens again.
const AGAIN: &str = "a person has the task tried again";

/// One task of a plan, or of a part of it, as a person has left it in an editor.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEdit {
    /// It is as it was.
    Keep(TaskId),
    /// It is new, and stands here. [`TaskRef::New`] counts the new tasks of the same list.
    Add(Box<TaskSpec>),
    /// It has another text than the task that the person saw.
    Change(Box<Task>, Box<TaskSpec>),
    /// The person says that it is done.
    Done(TaskId),
    /// It is left out.
    Skip(TaskId),
}

impl Plan {
    /// Returns the tasks that have begun or are completed and rely on the result of a task, in the order of their numbers: they
    /// open again with it.
    pub fn opens_again(&self, id: TaskId) -> Vec<TaskId> {
        let Some(task) = self.task(id).filter(|task| task.status.satisfies()) else {
            return Vec::new();
        };
        let mut reached = BTreeSet::new();
        if self.head().order == TaskOrder::Sequential {
            reached.extend(self.tasks_around(task).1.map(|task| task.number));
        }
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            let new = self.dependants(id).map(|task| task.number);
            next.extend(new.filter(|id| reached.insert(*id)));
        }
        let begun = |id: &TaskId| {
            let task = self.task(*id);
            task.is_some_and(|task| !matches!(task.status, TaskState::Pending | TaskState::Skipped))
        };
        reached.into_iter().filter(begun).collect()
    }

    /// Returns how many attempts a task has before a person is asked: what the rules and the budget leave of them.
    pub fn attempts_left(&self, task: &Task) -> u32 {
        let rules = (self.head().policy.max_attempts).saturating_sub(task.failures);
        rules.min(self.left(BudgetLimit::Attempts))
    }

    /// Returns whether an attempt at a task is under way, and no person is asked about it.
    pub fn at_work(&self, task: &Task) -> bool {
        let attempt = self.current_attempt(task);
        attempt.is_some_and(|attempt| attempt.state.open()) && !self.asks_about(task.number)
    }

    /// Returns what is in the way of a person's edits, for each task of which something is.
    pub fn not_to_be_edited(&self, edits: &[TaskEdit]) -> Vec<Refusal> {
        let refused = edits.iter().filter_map(|edit| match edit {
            TaskEdit::Change(seen, _) => {
                (self.task(seen.number)).filter(|task| task.status != TaskState::Pending)
            }
            TaskEdit::Skip(id) => {
                (self.task(*id)).filter(|task| task.status == TaskState::Completed)
            }
            TaskEdit::Keep(_) | TaskEdit::Add(_) | TaskEdit::Done(_) => None,
        });
        refused.map(Refusal::not_editable).collect()
    }
}

impl Draft<'_> {
    /// Adds a person's words to the next command of a task; one that has ended keeps them until it is tried again. `now` stops the
    /// attempt at the task, and its agent goes on with the words in its session. Returns whether the words are new.
    ///
    /// # Errors
    /// The plan was abandoned. With `now`: no agent works on the task, or its session is not known.
    pub fn tell(&mut self, id: TaskId, words: &str, now: bool) -> Result<bool> {
        self.not_abandoned()?;
        let mut task = self.task(id)?;
        let said = |told: &Option<String>| told.as_ref().is_some_and(|told| told.ends_with(words));
        let attempt = self.plan.current_attempt(&task).cloned();
        let attempt = attempt.filter(|attempt| attempt.state == AttemptState::Open);
        if attempt.as_ref().is_some_and(|attempt| said(&attempt.told)) {
            return Ok(false);
        }
        let new = !said(&task.told);
        if new {
            task.tell(words);
            let words = words.to_owned();
            self.log(Event::Told { task: id, words });
            self.insert(task.clone());
        }
        if now {
            let attempt = attempt.ok_or(Refusal::NobodyWorks(id))?;
            let unknown = attempt.claimed.is_some() && attempt.session.is_none();
            refuse_if(unknown, Refusal::NoSession(id))?;
            self.take_over(&task, "the agent goes on with a person's words");
        }
        Ok(new)
    }

    /// Has a task tried again, and with it all that relies on its result. A plan that is completed or failed goes on. A task that
    /// an agent works on only gets the words.
    ///
    /// # Errors
    /// The plan was abandoned, or its rest is being changed.
    pub fn retry_task(&mut self, id: TaskId, words: &str) -> Result {
        let task = self.task(id)?;
        self.not_abandoned()?;
        refuse_if(self.plan.head().replan.is_some(), Refusal::Replanning)?;
        let fresh = task.failures == 0 && task.not_before.is_none();
        let waits = task.status == TaskState::Pending && fresh && !self.plan.asks_about(id);
        if waits || self.plan.at_work(&task) {
            return match words {
                "" => Ok(()),
                words => self.tell(id, words, false).map(drop),
            };
        }
        self.go_on_by_hand()?;
        for again in self.plan.opens_again(id) {
            self.open_again(again, "", AGAIN)?;
        }
        self.open_again(id, words, AGAIN)
    }

    /// Makes a task pending again, with a person's words if there are any.
    pub(super) fn open_again(&mut self, id: TaskId, words: &str, why: &str) -> Result {
        self.take_over(&self.task(id)?, why);
        let mut task = self.task(id)?;
        renew(&mut task, words);
        task.result = None;
        task.evidence = None;
        task.not_before = None;
        task.finished_at = None;
        self.log(Event::Reopened { task: id });
        self.insert(task);
        Ok(())
    }

    /// Skips a task for a person. Returns whether it was not skipped before.
    ///
    /// # Errors
    /// The task is completed, or the plan has ended.
    pub fn skip_by_hand(&mut self, id: TaskId, words: &str) -> Result<bool> {
        let task = self.task(id)?;
        if task.status == TaskState::Skipped {
            return Ok(false);
        }
        self.not_settled()?;
        self.take_over(&task, "the task was skipped");
        self.skip_task(id, or(words, SKIPPED))?;
        Ok(true)
    }

    /// Completes a task because a person says that it is done. What agents did for it is not accepted with that. Returns whether
    /// it was not completed before.
    ///
    /// # Errors
    /// The plan has ended.
    pub fn complete_by_hand(&mut self, id: TaskId, words: &str) -> Result<bool> {
        let task = self.task(id)?;
        if task.status == TaskState::Completed {
            return Ok(false);
        }
        self.not_settled()?;
        self.take_over(&task, "a person says that the task is done");
        let evidence = Evidence {
            by_hand: true,
            ..Evidence::default()
        };
        self.complete(self.task(id)?, or(words, DONE).to_owned(), Some(evidence));
        Ok(true)
    }

    /// Adds a person's task: before a task, which waits for it then; else behind the last task on which it depends; else at the
    /// end. A plan that is completed or failed goes on.
    ///
    /// # Errors
    /// The plan was abandoned or has no tasks yet, `before` has begun, or as [`Draft::add_tasks`].
    pub fn add_by_hand(&mut self, task: TaskSpec, before: Option<TaskId>) -> Result<TaskId> {
        refuse_if(self.plan.counts().total() == 0, Refusal::Unplanned)?;
        self.go_on_by_hand()?;
        self.plan_has_changed();
        let Some(before) = before else {
            let after = task.dependencies.iter().filter_map(|after| match after {
                TaskRef::Number(id) => self.plan.task(*id),
                _ => None,
            });
            let after = after.max_by_key(|after| (after.position, after.number));
            return Ok(self.add_tasks(vec![task], after.map(|after| after.number))?[0]);
        };
        let waits = self.editable(before)?;
        let added = self.add_tasks_before(vec![task], before)?[0];
        let dependencies = waits.dependencies.iter().copied().chain([added]);
        let dependencies = Some(dependencies.map(TaskRef::Number).collect());
        let changes = TaskChanges {
            dependencies,
            ..TaskChanges::default()
        };
        self.update_task(before, &changes)?;
        Ok(added)
    }

    /// Carries out what a person has edited, in the order of the plan: all of it or nothing.
    ///
    /// # Errors
    /// A task that has begun or ended, or that is no longer as the person saw it; else as [`Draft::add_tasks`].
    pub fn edit_tasks(&mut self, edits: &[TaskEdit]) -> Result {
        self.not_settled()?;
        self.go_on_by_hand()?;
        self.plan_has_changed();
        let mut numbers = Vec::with_capacity(edits.len());
        for (place, edit) in edits.iter().enumerate() {
            let number = match edit {
                TaskEdit::Keep(id) => *id,
                TaskEdit::Add(spec) => {
                    let spec = TaskSpec {
                        dependencies: Vec::new(),
                        ..TaskSpec::clone(spec)
                    };
                    let next = edits[place..].iter().find_map(TaskEdit::number);
                    match (numbers.last(), next) {
                        (None, Some(next)) => self.add_tasks_before(vec![spec], next)?[0],
                        (last, _) => self.add_tasks(vec![spec], last.copied())?[0],
                    }
                }
                TaskEdit::Change(seen, spec) => self.begin_edit(seen, spec)?,
                TaskEdit::Done(id) => {
                    self.complete_by_hand(*id, "")?;
                    *id
                }
                TaskEdit::Skip(id) => {
                    self.skip_by_hand(*id, "left out by a person who edited the plan")?;
                    *id
                }
            };
            numbers.push(number);
        }
        let both = || edits.iter().zip(&numbers);
        let new = both().filter(|(edit, _)| matches!(edit, TaskEdit::Add(_)));
        let new: Vec<TaskId> = new.map(|(_, number)| *number).collect();
        for (edit, number) in both() {
            if let TaskEdit::Change(_, spec) | TaskEdit::Add(spec) = edit {
                self.end_edit(*number, spec, &new)?;
            }
        }
        Ok(())
    }

    /// Takes the dependencies of an edited task away: while others change, they could form a cycle that the whole does not have.
    fn begin_edit(&mut self, seen: &Task, spec: &TaskSpec) -> Result<TaskId> {
        let mut task = self.editable(seen.number)?;
        refuse_if(!same_text(seen, &task), Refusal::Outdated)?;
        task.dependencies = Vec::new();
        task.step.clone_from(&spec.step);
        let checks = crate::plan::model::all_checks(&spec.checks, &spec.criteria);
        let produces = produced(&spec.produces)?;
        task.checked_by_person |=
            (&checks, &produces, &spec.criteria) != (&task.checks, &task.produces, &task.criteria);
        task.checks = checks;
        task.criteria.clone_from(&spec.criteria);
        task.produces = produces;
        task.may_change.clone_from(&spec.may_change);
        task.locks.clone_from(&spec.locks);
        task.optional = spec.optional;
        self.insert(task);
        Ok(seen.number)
    }

    fn end_edit(&mut self, id: TaskId, spec: &TaskSpec, new: &[TaskId]) -> Result {
        let task = self.task(id)?;
        let done = spec.done && !task.status.satisfies();
        // What a model wrote stays a model's until the person has put a hand to that text.
        let edited = spec.description != task.instructions();
        let origin = match edited {
            true => Origin::Person,
            false => task.origin,
        };
        // What stood in the editor was the reason, and the person has replaced it.
        let replaced = edited && task.description.trim().is_empty();
        let changes = TaskChanges {
            name: Some(spec.name.clone()),
            description: edited.then(|| spec.description.clone()),
            reasoning: replaced.then(String::new),
            constraints: Some(spec.constraints.clone()),
            assignee: Some(spec.assignee.clone()),
            dependencies: Some(spec.dependencies.clone()),
            ..TaskChanges::default()
        };
        self.apply_changes(task, &changes, new)?;
        self.change_task(id, |task| task.origin = origin)?;
        match done {
            true => self.complete_by_hand(id, "").map(drop),
            false => Ok(()),
        }
    }

    /// Stops the attempt at a task that a person decides about, and closes what is asked about it or because of it.
    fn take_over(&mut self, task: &Task, reason: &str) {
        let id = task.number;
        self.close_with_asks(reason, |question| {
            question.task == Some(id) || question.about == HumanQuestionKind::Stuck
        });
        self.stop_attempt(task);
    }

    /// Closes what is asked about a plan whose tasks were others.
    fn plan_has_changed(&mut self) {
        use HumanQuestionKind::{Replans, Review, Stuck};
        self.close_with_asks("a person changed the plan", |question| {
            matches!(question.about, Stuck | Review | Replans) && question.task.is_none()
        });
    }

    /// Closes questions to the person, with those to the model that they are about.
    fn close_with_asks(&mut self, reason: &str, which: impl Fn(&HumanQuestion) -> bool) {
        let open = self.plan.open_questions().filter(|open| which(open));
        for question in open.cloned().collect::<Vec<_>>() {
            self.close_ask(&question);
            self.close_question(question, reason);
        }
    }

    /// Lets a plan go on that has ended by itself, and has its goal audited again.
    fn go_on_by_hand(&mut self) -> Result {
        self.not_abandoned()?;
        self.refuse_discarded()?;
        if self.plan.status().settled() {
            self.run_again();
        }
        if self.plan.head().audited.is_some() {
            self.change_head(|head| head.audited = None);
        }
        Ok(())
    }

    /// Refuses a plan whose results a person has discarded: it would go on from these.
    pub(super) fn refuse_discarded(&self) -> Result {
        let head = self.plan.head();
        let discarded = head.results == Some(ResultsMove::Discarded);
        refuse_if(discarded, Refusal::Discarded(head.id.clone()))
    }
}

impl TaskEdit {
    fn number(&self) -> Option<TaskId> {
        match self {
            Self::Keep(id) | Self::Done(id) | Self::Skip(id) => Some(*id),
            Self::Change(seen, _) => Some(seen.number),
            Self::Add(_) => None,
        }
    }
}

/// Returns whether two states of a task say the same in an editor.
fn same_text(one: &Task, other: &Task) -> bool {
    fn text(task: &Task) -> impl PartialEq {
        let texts = (&task.name, task.instructions(), &task.constraints);
        let proofs = (&task.criteria, &task.checks, &task.produces);
        let place = (&task.step, &task.dependencies, &task.assignee);
        (
            texts,
            proofs,
            place,
            task.optional,
            &task.may_change,
            &task.locks,
        )
    }
    text(one) == text(other)
}
