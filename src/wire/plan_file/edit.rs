//! A plan, or one task of it, as a person edits it while it is carried out: a plan file whose tasks keep their numbers. What a
//! person changed is found by reading the text before and after.

use std::collections::{BTreeMap, HashMap};

use super::{PlanFile, Reference, TaskDraft, check_paths, markdown_tasks, named, render};
use crate::plan::{Plan, PlanSpec, Task, TaskEdit, TaskId, TaskRef, TaskSpec, TaskState};
use crate::wire::{Checked, Problem, Problems, front_matter, quote};

/// What a person gets to edit.
#[derive(Clone, Debug)]
pub struct PlanToEdit {
    pub text: String,
    /// The plan as it was then.
    plan: Plan,
    only: Option<TaskId>,
}

/// What a person has made of it.
#[derive(Clone, Debug, Default)]
pub struct EditedPlan {
    /// The header as it was and as it is now, if anything in it is new.
    pub header: Option<[PlanSpec; 2]>,
    /// Every task of the text, in its order, then those that are left out.
    pub tasks: Vec<TaskEdit>,
    /// The new and changed tasks, for checks against the configuration.
    pub changed: PlanFile,
}

impl EditedPlan {
    /// Returns whether the person has changed nothing.
    pub fn is_empty(&self) -> bool {
        let kept = |edit: &TaskEdit| matches!(edit, TaskEdit::Keep(_));
        self.header.is_none() && self.tasks.iter().all(kept)
    }
}

impl PlanToEdit {
    /// Writes a plan, or only one of its tasks.
    pub fn new(plan: &Plan, only: Option<TaskId>) -> Self {
        let place = |task: &Task| (task.number, task.number.0 as usize);
        let numbers: HashMap<TaskId, usize> = plan.tasks().map(place).collect();
        let shown = |task: &&Task| only.is_none_or(|only| task.number == only);
        let body = render::body(plan.tasks().filter(shown), &numbers);
        Self {
            text: match only {
                Some(_) => body,
                None => front_matter::join(&render::header(plan), &body),
            },
            plan: plan.clone(),
            only,
        }
    }

    /// Reads what a person has made of the text.
    ///
    /// # Errors
    /// All problems of the text, with line and column.
    pub fn read(&self, text: &str) -> Checked<EditedPlan> {
        let (was, old) = self.parse(&self.text)?;
        let (is, drafts) = self.parse(text)?;
        let problems = Problems::default();
        if is.order != was.order {
            problems.add(Problem::new("the order of a plan stays as it is"));
        }
        let header = (is != was).then_some([was, is]);
        if header.is_some() && self.only.is_some() {
            let problem = Problem::new("only a task is edited here, and nothing stands before it");
            problems.add(problem.with_hint("`edit` without a number has the whole plan"));
        }
        let numbered = |draft: TaskDraft| Some((draft.number?, draft.task));
        let mut old: BTreeMap<usize, TaskSpec> = old.into_iter().filter_map(numbered).collect();
        if !drafts.iter().any(|draft| draft.number.is_some()) {
            let problem = Problem::new("none of the tasks that stood here is left");
            problems.add(problem.with_hint("`skip` leaves a single task out"));
        }
        let mut edited = EditedPlan {
            header,
            ..EditedPlan::default()
        };
        let mut last = None;
        for mut draft in drafts {
            let Some(number) = draft.number else {
                edited.changed.add(&mut draft);
                edited.tasks.push(TaskEdit::Add(Box::new(draft.task)));
                continue;
            };
            let known = old.remove(&number);
            let task = u32::try_from(number).ok().map(TaskId);
            let task = task.and_then(|id| self.plan.task(id));
            let (Some(known), Some(task)) = (known, task) else {
                let message = format!("there is no other task {number} here");
                let problem = draft.place.problem(message);
                problems.add(problem.with_hint("a new task has no number: `## Its name`"));
                continue;
            };
            let place = Some(self.plan.index_of(task));
            if place < last {
                let problem = draft.place.problem("the tasks of a plan keep their order");
                problems.add(problem.with_hint("`- after: N` says what a task waits for"));
            }
            last = last.max(place);
            let mut done = known.clone();
            done.done = true;
            edited.tasks.push(if draft.task == known {
                TaskEdit::Keep(task.number)
            } else if draft.task == done {
                TaskEdit::Done(task.number)
            } else {
                edited.changed.add(&mut draft);
                keep_unchanged(&mut draft.task, &known, task);
                TaskEdit::Change(Box::new(task.clone()), Box::new(draft.task))
            });
        }
        problems.sound(())?;
        let left_out = old.keys().filter_map(|number| u32::try_from(*number).ok());
        let left_out = left_out.filter_map(|number| self.plan.task(TaskId(number)));
        let left_out = left_out.filter(|task| task.status != TaskState::Skipped);
        (edited.tasks).extend(left_out.map(|task| TaskEdit::Skip(task.number)));
        Ok(edited)
    }

    fn parse(&self, text: &str) -> Checked<(PlanSpec, Vec<TaskDraft>)> {
        let problems = Problems::default();
        let read = markdown_tasks::read(text, &problems);
        let draft = read.map_err(|problem| vec![problem])?;
        let mut drafts = draft.tasks;
        if draft.workspace.is_some() {
            let message = "the workspace of a plan stays the same";
            problems.add(Problem::at(1, 1, message).with_hint("remove `workspace`"));
        }
        let found = |draft: &TaskDraft| {
            let found = draft.after.iter().map(|after| self.find(after, &drafts));
            let found = found.filter_map(|found| found.map_err(|no| problems.add(no)).ok());
            found.collect()
        };
        let dependencies: Vec<Vec<TaskRef>> = drafts.iter().map(found).collect();
        for (draft, dependencies) in drafts.iter_mut().zip(dependencies) {
            check_paths(draft, &problems);
            draft.task.dependencies = dependencies;
        }
        problems.sound((named(draft.plan, ""), drafts))
    }

    /// Returns the task that a reference means: by the number of any task of the plan, or by its name.
    fn find(&self, reference: &Reference, drafts: &[TaskDraft]) -> Result<TaskRef, Problem> {
        let word = &reference.word;
        if let Some(task) = word.parse().ok().and_then(|id| self.plan.task(TaskId(id))) {
            return Ok(TaskRef::Number(task.number));
        }
        let is = |name: &str| name.to_lowercase() == word.to_lowercase();
        let new = drafts.iter().filter(|draft| draft.number.is_none());
        let new = new.zip(0..).filter(|(draft, _)| is(&draft.task.name));
        let known = self.plan.tasks().filter(|task| is(&task.name));
        let known = known.map(|task| TaskRef::Number(task.number));
        let found: Vec<TaskRef> = new.map(|(_, at)| TaskRef::New(at)).chain(known).collect();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(reference.problem(format!("there is no task {}", quote(word)))),
            _ => Err(reference.ambiguous()),
        }
    }
}

impl PlanFile {
    fn add(&mut self, draft: &mut TaskDraft) {
        self.checks.append(&mut draft.checks);
        self.produced.append(&mut draft.produced);
        self.plan.tasks.push(draft.task.clone());
    }
}

/// Keeps the texts that the person has not changed as they are stored: a plan file does not show every space and blank line.
fn keep_unchanged(task: &mut TaskSpec, shown: &TaskSpec, stored: &Task) {
    if task.name == shown.name {
        task.name.clone_from(&stored.name);
    }
    if task.description == shown.description {
        task.description = stored.instructions().to_owned();
    }
    if task.constraints == shown.constraints {
        task.constraints.clone_from(&stored.constraints);
    }
    if task.criteria == shown.criteria {
        task.criteria.clone_from(&stored.criteria);
    }
}
