//! Views of a plan as a whole, all of them bounded: as a graph, as a prompt, and as groups of parallel tasks.

use std::collections::HashMap;

use super::*;
use crate::plan::{Task, Tasks, and_more};
use crate::tools::paging::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::view::mission;
use crate::wire::graph_text;

/// Bytes of the prompt.
const PROMPT: usize = 4000;
/// Tasks in the prompt, and those of them before the work.
const WINDOW: usize = 30;
const BEFORE: usize = 5;
/// Characters in the prompt: of the goal, of a name, of a remark about a task.
const GOAL: usize = 250;
const NAME: usize = 60;
const REMARK: usize = 120;
/// The most tasks that a line of the prompt lists.
const NAMED: usize = 20;

/// Tasks in all groups together.
const GROUPED: usize = 500;

/// A language for graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphFormat {
    #[default]
    Mermaid,
    Dot,
}

/// What `getDependencyGraph` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DependencyGraph {
    pub format: GraphFormat,
    pub graph: String,
    /// Tasks that are not shown.
    #[serde(skip_serializing_if = "is_default")]
    pub left: usize,
}

/// What `getPlanPrompt` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanPrompt {
    pub prompt: String,
}

/// What `getParallelTasks` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParallelTasks {
    /// Tasks in progress and executable ones: none of them waits for another.
    pub parallel_tasks: Vec<i64>,
    /// The remaining tasks in groups: the tasks of a group can be done in parallel once the groups before it are done.
    pub groups: Vec<Vec<i64>>,
    /// Tasks in no group: there are too many, or they wait for one that failed.
    #[serde(skip_serializing_if = "is_default")]
    pub left: usize,
}

/// Draws the tasks of a page, or those around the work if the caller names no page; fewer if they need too much room.
pub(super) fn dependency_graph(plan: &Plan, given: &GetDependencyGraph) -> DependencyGraph {
    let (format, page) = (given.format, given.page);
    let limit = page.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let tasks = || plan.tasks().skip(page.offset.unwrap_or(0));
    let mut tasks: Vec<&Task> = match page == Page::default() {
        true => mission::window(plan, limit, limit / 4),
        false => tasks().take(limit).collect(),
    };
    let state = |task: &Task| graph_text::state(plan, task);
    loop {
        let graph = match format {
            GraphFormat::Mermaid => graph_text::mermaid(&tasks, state),
            GraphFormat::Dot => graph_text::dot(plan, &tasks, state),
        };
        if weight(&graph) <= page.room() || tasks.len() <= 1 {
            return DependencyGraph {
                format,
                graph,
                left: plan.counts().total() - tasks.len(),
            };
        }
        tasks.truncate(tasks.len() / 2);
    }
}

/// Writes the plan for a model: its purpose, its progress, the tasks around the work.
pub(super) fn prompt(plan: &Plan) -> String {
    let state = ManagerPlanState::of(plan);
    let counts = plan.counts();
    let mut lines = vec![
        format!("Goal: {}", one_line(&plan.head().goal, GOAL)),
        format!(
            "Plan: {}, {} of {} tasks settled ({} completed, {} skipped, {} failed)",
            state.status,
            counts.settled(),
            counts.total(),
            counts.completed,
            counts.skipped,
            counts.failed,
        ),
    ];
    let named = |tasks: Tasks<'_>| match tasks.len() {
        0 => "none".to_owned(),
        _ => numbers(tasks.map(|task| task.number), NAMED),
    };
    lines.push(format!("In progress: {}", named(plan.in_progress())));
    lines.push(format!("Executable now: {}", named(plan.ready())));
    lines.push("Tasks:".to_owned());
    let tasks = mission::window(plan, WINDOW, BEFORE);
    let earlier = tasks.first().map_or(0, |first| plan.index_of(first));
    lines.extend((earlier > 0).then(|| format!("… {earlier} before these")));
    let used: usize = lines.iter().map(|line| line.len() + 1).sum();
    // The part below the list needs some room, too.
    let mut room = PROMPT.saturating_sub(used + 60);
    let before = lines.len();
    lines.extend(tasks.into_iter().map_while(|task| {
        let line = line(plan, task);
        room = room.checked_sub(line.len() + 1)?;
        Some(line)
    }));
    let later = counts.total() - earlier - (lines.len() - before);
    lines.extend((later > 0).then(|| format!("… {later} after these")));
    lines.join("\n") + "\n"
}

fn line(plan: &Plan, task: &Task) -> String {
    let mark = match ManagerTaskStatus::of(plan, task) {
        ManagerTaskStatus::Pending => "executable".to_owned(),
        status => word(&status),
    };
    let remark = match (&task.result, task.status) {
        (Some(result), status) if status.settled() => result,
        _ => &task.reasoning,
    };
    let waits = match plan.unmet(task) {
        unmet if unmet.is_empty() || task.status != TaskState::Pending => String::new(),
        unmet => format!(" (waits for {})", numbers(unmet.into_iter(), 8)),
    };
    let remark = unless_empty(&one_line(remark, REMARK), |remark| format!(": {remark}"));
    let name = one_line(&task.name, NAME);
    format!("{}. [{mark}] {name}{waits}{remark}", task.number)
}

/// Lists the first tasks, and says how many more there are.
fn numbers(tasks: impl ExactSizeIterator<Item = TaskId>, most: usize) -> String {
    let more = and_more(tasks.len().saturating_sub(most));
    joined(tasks.take(most).map(|task| task.to_string()), ", ") + &more
}

/// Finds out which tasks can be done in parallel, now and in later groups. It reads no more tasks than it names, and those that
/// wait for them.
pub(super) fn parallel_tasks(plan: &Plan) -> ParallelTasks {
    let now = plan.in_progress().chain(plan.ready());
    let mut group: Vec<&Task> = now.take(GROUPED).collect();
    let parallel_tasks = ids(group.iter().copied(), GROUPED);
    let mut groups = Vec::new();
    let mut room = GROUPED;
    let mut waits: HashMap<TaskId, usize> = HashMap::new();
    while !group.is_empty() {
        group.truncate(room);
        room -= group.len();
        groups.push(ids(group.iter().copied(), GROUPED));
        let mut next = Vec::new();
        for task in group {
            // If half the plan waits for a task, not all of its dependants are read.
            for dependant in plan.dependants(task.number).take(4 * GROUPED) {
                let unmet = waits.entry(dependant.number);
                let unmet = unmet.or_insert_with(|| plan.unmet(dependant).len());
                *unmet = unmet.saturating_sub(1);
                if *unmet == 0 && dependant.status == TaskState::Pending {
                    next.push(dependant);
                }
            }
        }
        next.sort_by_key(|task| (task.position, task.number));
        group = if room == 0 { Vec::new() } else { next };
    }
    let counts = plan.counts();
    ParallelTasks {
        parallel_tasks,
        left: counts.total() - counts.settled() - (GROUPED - room),
        groups,
    }
}
