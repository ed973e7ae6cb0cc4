//! Brings given plans into the core: from an agent that makes one, or from elsewhere with their past.

use super::*;

/// Subtasks that can be added.
pub(super) struct PreparedSubTasks {
    tasks: Vec<TaskSpec>,
    pasts: Vec<Past<TaskState>>,
}

/// Checks whether an agent may make this plan.
pub(super) fn check_new(plan: &NotebookPlan, max: Option<usize>) -> Result<()> {
    if plan.name.trim().is_empty() {
        return Err(InvalidArgument.error("Invalid name: a plan needs one."));
    }
    let subtasks = &plan.subtasks;
    if subtasks.is_empty() {
        return Err(NoSubtasks.error("Invalid subtasks: a plan needs at least one."));
    }
    check_count(subtasks.len(), max)?;
    let begun = |(_, it): &(usize, &SubTask)| it.state == SubTaskState::InProgress;
    let mut begun = (0..).zip(subtasks).filter(begun);
    let Some((at, _)) = begun.next() else {
        return Ok(());
    };
    if let Some(open) = subtasks[..at].iter().position(|it| !it.state.settled()) {
        let name = shown(&subtasks[open].name);
        return Err(NotDoneYet.error(format!(
            "Invalid subtasks: the one at index {at} is in progress, but the one before it at index {open}, named '{name}', is not done yet."
        )));
    }
    if let Some((second, _)) = begun.next() {
        return Err(AlreadyInProgress.error(format!(
            "Invalid subtasks: those at index {at} and {second} are both in progress; at most one may be."
        )));
    }
    Ok(())
}

/// Checks whether a plan may have this many subtasks.
pub(super) fn check_count(count: usize, max: Option<usize>) -> Result<()> {
    match max {
        Some(max) if count > max => Err(TooManySubtasks.error(format!(
            "Invalid subtasks: a plan may have at most {max}, and these would be {count}."
        ))),
        _ => Ok(()),
    }
}

/// Reads the subtasks of a list with the name `list`.
pub(super) fn prepare(subtasks: &[SubTask], list: &str) -> Result<PreparedSubTasks> {
    let prepared = subtasks.iter().enumerate().map(|(at, subtask)| {
        let path = format!("{list}[{at}]");
        if subtask.name.trim().is_empty() {
            let text = format!("Invalid {path}.name: a subtask needs a name.");
            return Err(InvalidArgument.error(text));
        }
        let created_at = moment(&subtask.created_at, &format!("{path}.created_at"))?;
        let finished_at = subtask.finished_at.as_deref();
        let finished_at = finished_at.map(|text| moment(text, &format!("{path}.finished_at")));
        let task = TaskSpec {
            name: subtask.name.clone(),
            description: subtask.description.clone(),
            criteria: Criteria::plain(&subtask.expected_outcome),
            origin: Origin::Model,
            ..TaskSpec::default()
        };
        let past = Past {
            status: subtask.state.task_status(),
            result: subtask.outcome.clone(),
            created_at: Some(created_at),
            finished_at: finished_at.transpose()?,
        };
        Ok((task, past))
    });
    let (tasks, pasts) = prepared.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok(PreparedSubTasks { tasks, pasts })
}

impl PreparedSubTasks {
    /// Adds them at the end of a plan, or before a task.
    pub(super) fn add(self, draft: &mut Draft<'_>, before: Option<TaskId>) -> Result<()> {
        let added = match before {
            Some(before) => draft.add_tasks_before(self.tasks, before)?,
            None => draft.add_tasks(self.tasks, None)?,
        };
        record(draft, added, self.pasts)
    }

    /// Makes them the tasks of a plan that has none, or replaces the tasks of a plan.
    pub(super) fn fill(self, draft: &mut Draft<'_>) -> Result<()> {
        // A plan from elsewhere may have no subtasks.
        let made = if self.tasks.is_empty() {
            let old: Vec<TaskId> = draft.plan().tasks().map(|task| task.number).collect();
            for task in old {
                draft.remove_task(task)?;
            }
            Vec::new()
        } else {
            draft.replace_tasks(self.tasks)?
        };
        record(draft, made, self.pasts)
    }
}

fn record(draft: &mut Draft<'_>, tasks: Vec<TaskId>, pasts: Vec<Past<TaskState>>) -> Result<()> {
    // New tasks in a daemon's plan have no past.
    let begins = draft.plan().head().owner == DAEMON;
    for (task, past) in tasks.into_iter().zip(pasts) {
        if begins && past.status == TaskState::Pending {
            continue;
        }
        draft.record_task(task, past)?;
    }
    Ok(())
}

/// Makes a plan equal to another one; nothing changes if it is equal already.
pub(super) fn rewrite(draft: &mut Draft<'_>, plan: &NotebookPlan) -> Result<()> {
    if NotebookPlan::of(draft.plan()) == *plan {
        return Ok(());
    }
    let prepared = prepare(&plan.subtasks, "subtasks")?;
    let past = past_of(plan)?;
    if draft.plan().counts().total() > 0 || draft.plan().status() != &PlanState::Idle {
        draft.reset()?;
    }
    draft.change_head(|head| describe(head, plan));
    prepared.fill(draft)?;
    Ok(draft.record_plan(past)?)
}

/// Makes a plan one of the core, which no store has.
pub(super) fn core_of(plan: &NotebookPlan) -> Result<Plan> {
    let mut head = head_of(plan);
    // It belongs to nobody: a plan of the notebook is open until it is finished, and a daemon's waits for a person.
    head.owner.clear();
    let mut core = Plan::new(head);
    let mut draft = Draft::new(&mut core, Time::default());
    rewrite(&mut draft, plan)?;
    draft.finish();
    Ok(core)
}

/// Reads the past of a plan as a whole.
pub(super) fn past_of(plan: &NotebookPlan) -> Result<Past<PlanState>> {
    let finished_at = plan.finished_at.as_deref();
    let finished_at = finished_at.map(|text| moment(text, "finished_at"));
    Ok(Past {
        status: plan.state.plan_status(),
        result: plan.outcome.clone(),
        created_at: Some(moment(&plan.created_at, "created_at")?),
        finished_at: finished_at.transpose()?,
    })
}

/// Returns the head of a new plan.
pub(super) fn head_of(plan: &NotebookPlan) -> PlanHead {
    let mut head = PlanHead::new(PlanId::new(plan.id.clone()), &plan.name, Time::default());
    head.origin = Origin::Model;
    head.order = TaskOrder::Sequential;
    describe(&mut head, plan);
    head
}

/// Sets the texts of a plan.
fn describe(head: &mut PlanHead, plan: &NotebookPlan) {
    plan.name.clone_into(&mut head.name);
    plan.description.clone_into(&mut head.description);
    plan.expected_outcome.clone_into(&mut head.expected_outcome);
}

fn moment(text: &str, path: &str) -> Result<Time> {
    parse_time(text).ok_or_else(|| {
        InvalidArgument.error(format!(
            "Invalid {path} '{}'. It is a local time such as 2026-01-31 09:30:00.000.",
            one_line(text, 60)
        ))
    })
}

/// Returns a name short enough for an answer.
pub(super) fn shown(name: &str) -> String {
    one_line(name, 120)
}

/// Returns the words that identify a subtask.
pub(super) fn called(at: usize, task: &Task) -> String {
    format!("at index {at}, named '{}'", shown(&task.name))
}
