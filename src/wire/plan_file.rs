//! Plan files, which a person writes or edits: Markdown with a `## ` heading for each task, a plain `- [ ]` checklist, or
//! `structure_data` as YAML or JSON. All problems of a file are reported together.

mod edit;
mod markdown_tasks;
mod render;
mod structure_data;

use std::collections::{HashMap, HashSet};

use super::{
    Checked, Place, Problem, Problems, YamlNode, check_meant, did_you_mean, joined, nearest,
    one_line, quote, yaml_tree,
};
use crate::plan::{
    Criteria, MAX_PRODUCED, PlanSpec, TaskOrder, TaskRef, TaskSpec, cycle_among, within_workspace,
};

pub use edit::{EditedPlan, PlanToEdit};
pub use render::render;
pub(crate) use structure_data::OF_WORKFLOW;
pub use structure_data::{Structure, StructureStep, StructureTask, drop_unknown, from_structure};
use structure_data::{THE_PLAN, THE_WORKFLOW, of_node};

/// The most bytes of a plan file.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The content of a plan file. Its plan has a name and a goal: the file's name and the plan's name if the file states none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFile {
    pub plan: PlanSpec,
    /// The folder that agents are to work in, as seen from the folder of the file.
    pub workspace: Option<String>,
    /// The checks that its tasks name; the caller knows which checks exist.
    pub checks: Vec<Reference>,
    /// The files that its tasks produce; the caller checks where links lead.
    pub produced: Vec<Reference>,
}

impl PlanFile {
    /// Returns problems for the checks that the file names and that do not exist.
    pub fn unknown_checks<'a>(
        &self,
        known: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Vec<Problem> {
        let known_one = |word: &str| known.clone().any(|known| known == word);
        let unknown = self.checks.iter().filter(|check| !known_one(&check.word));
        let problem = |check: &Reference| unknown_check(check.place, &check.word, known.clone());
        unknown.map(problem).collect()
    }
}

/// Says that there is no check of a name, and the way out.
pub(super) fn unknown_check<'a>(
    place: Place,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Problem {
    let problem = place.problem(format!("there is no check {}", quote(name)));
    problem.with_hint(check_meant(name, known))
}

/// Reads a plan file; `.json`, `.yaml` and `.yml` hold `structure_data`, everything else is Markdown. Returns all problems of
/// the file, with line and column, and what can be read in spite of them.
pub fn read(file_name: &str, text: &str) -> (PlanFile, Vec<Problem>) {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_BYTES}", text.len());
        return (PlanFile::default(), vec![Problem::new(message)]);
    }
    let problems = Problems::default();
    let extension = file_name.rsplit_once('.').map_or("", |(_, end)| end);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let structured = |node: YamlNode| of_node(&node, THE_PLAN, false, &problems);
    let extension = extension.to_ascii_lowercase();
    let markdown = !["yaml", "yml", "json"].contains(&&*extension) && !start.starts_with('{');
    let read = match extension.as_str() {
        "yaml" | "yml" => yaml_tree::read(text).map(structured),
        _ if markdown => markdown_tasks::read(text, &problems).inspect(|draft| {
            check_numbers(&draft.tasks, &problems);
        }),
        _ => yaml_tree::read_json(text).map(structured),
    };
    let draft = match read {
        Ok(read) => read,
        Err(problem) => return (PlanFile::default(), vec![problem]),
    };
    if draft.tasks.is_empty() && (markdown || problems.is_empty()) {
        problems.add(Problem::at(1, 1, "the plan has no tasks").with_hint(
            "write each task under a heading `## Its name`, or as a line `- [ ] Its name` or `1. Its name`",
        ));
    }
    (finish(draft, &problems, file_name), problems.in_order())
}

/// Creates a plan from the structure of a workflow, whose values know their places.
pub(super) fn from_workflow(node: &YamlNode) -> Checked<PlanFile> {
    let problems = Problems::default();
    let draft = of_node(node, THE_WORKFLOW, false, &problems);
    if draft.tasks.is_empty() && problems.is_empty() {
        problems.add(node.problem("the workflow has no tasks"));
    }
    let file = finish(draft, &problems, "");
    problems.sound(file)
}

/// What a file says, before the words that refer to something are understood.
#[derive(Debug, Default)]
struct PlanDraft {
    /// The plan without its tasks.
    plan: PlanSpec,
    workspace: Option<String>,
    tasks: Vec<TaskDraft>,
}

/// Creates the plan of a file from the parts that were read.
fn finish(mut draft: PlanDraft, problems: &Problems, file_name: &str) -> PlanFile {
    let (mut checks, mut produced) = (Vec::new(), Vec::new());
    for task in &mut draft.tasks {
        check_paths(task, problems);
        checks.append(&mut task.checks);
        produced.append(&mut task.produced);
    }
    let in_line = draft.plan.order == Some(TaskOrder::Sequential);
    draft.plan.tasks = resolve(&draft.tasks, in_line, problems);
    PlanFile {
        plan: named(draft.plan, file_name),
        workspace: draft.workspace,
        checks,
        produced,
    }
}

/// A task whose references to other tasks are still words.
#[derive(Debug, Default)]
struct TaskDraft {
    task: TaskSpec,
    /// The number in its heading.
    number: Option<usize>,
    place: Place,
    after: Vec<Reference>,
    checks: Vec<Reference>,
    produced: Vec<Reference>,
}

impl TaskDraft {
    /// Takes what is expected of the task, at this place, with the checks that prove it.
    fn expect(&mut self, criteria: Criteria, place: Place) {
        let names = criteria.checks().map(str::to_owned);
        self.check(names.map(|word| Reference { word, place }).collect());
        self.task.criteria = criteria;
    }

    /// Adds checks that are not among its checks yet.
    fn check(&mut self, checks: Vec<Reference>) {
        for check in checks {
            if !self.checks.iter().any(|known| known.word == check.word) {
                self.checks.push(check);
            }
        }
    }
}

/// A word that refers to something else, such as another task, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub word: String,
    pub(super) place: Place,
}

impl Reference {
    /// Returns a problem of this place.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        self.place.problem(message)
    }

    fn ambiguous(&self) -> Problem {
        let problem = self.problem(format!("several tasks are named {}", quote(&self.word)));
        problem.with_hint("use the number of the task")
    }
}

/// The names that references in a file can use: the tasks' own ids where they have some, else numbers and names.
struct Names<'a> {
    drafts: &'a [TaskDraft],
    by_word: HashMap<String, Vec<usize>>,
    keyed: bool,
}

impl<'a> Names<'a> {
    fn of(drafts: &'a [TaskDraft]) -> Self {
        let mut by_word: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, TaskDraft { task, .. }) in drafts.iter().enumerate() {
            let word = task.key.clone().unwrap_or_else(|| task.name.to_lowercase());
            by_word.entry(word).or_default().push(at);
        }
        Self {
            drafts,
            by_word,
            keyed: drafts.iter().any(|draft| draft.task.key.is_some()),
        }
    }

    /// Returns the index of the task that a reference means.
    fn find(&self, reference: &Reference) -> Result<usize, Problem> {
        let word = &reference.word;
        let found = if self.keyed {
            self.by_word.get(word).map(|places| places[0])
        } else if let Ok(number) = word.parse::<usize>() {
            number.checked_sub(1).filter(|at| *at < self.drafts.len())
        } else {
            match self.by_word.get(&word.to_lowercase()).map(Vec::as_slice) {
                Some([_, _, ..]) => return Err(reference.ambiguous()),
                places => places.map(|places| places[0]),
            }
        };
        found.ok_or_else(|| self.unknown(reference))
    }

    fn unknown(&self, reference: &Reference) -> Problem {
        let problem = reference.problem(format!("there is no task {}", quote(&reference.word)));
        let tasks = self.drafts.iter().map(|draft| &draft.task);
        let words = tasks.map(|task| task.key.as_deref().unwrap_or(&task.name));
        let count = self.drafts.len();
        match nearest(&reference.word, words) {
            Some(word) => problem.with_hint(format!("did you mean {}?", quote(word))),
            None if self.keyed => problem.with_hint("name the `task_id` of another task"),
            None if count == 1 => problem.with_hint("there is no other task in the plan"),
            None => problem.with_hint(format!("tasks are numbered from 1 to {count}")),
        }
    }
}

/// Checks whether the tasks of a file are numbered in its order, where they have numbers.
fn check_numbers(drafts: &[TaskDraft], problems: &Problems) {
    for (at, draft) in (1..).zip(drafts) {
        if draft.number.is_some_and(|number| number != at) {
            let message =
                format!("this is task {at} of the file, but its heading has another number");
            let hint = format!("number the tasks from 1 in the order of the file: `## {at}. …`");
            problems.add(draft.place.problem(message).with_hint(hint));
        }
    }
}

/// Converts the paths of a task's produced files to their stored form.
fn check_paths(draft: &mut TaskDraft, problems: &Problems) {
    if let Some(word) = draft.produced.get(MAX_PRODUCED) {
        problems.add(word.problem(format!("a task produces at most {MAX_PRODUCED} files")));
    }
    for word in &mut draft.produced {
        match within_workspace(&word.word) {
            Ok(path) => word.word = path,
            Err(reason) => problems.add(word.problem(format!("{} {reason}", quote(&word.word)))),
        }
    }
    let words = |words: &[Reference]| words.iter().map(|word| word.word.clone()).collect();
    draft.task.checks = words(&draft.checks);
    draft.task.produces = words(&draft.produced);
}

/// Converts the words that refer to other tasks into references. Of tasks that are done `in_line` none waits for a later one.
fn resolve(drafts: &[TaskDraft], in_line: bool, problems: &Problems) -> Vec<TaskSpec> {
    let names = Names::of(drafts);
    let is_over = |task: &TaskSpec| task.done || task.skipped.is_some();
    let mut tasks: Vec<TaskSpec> = drafts.iter().map(|draft| draft.task.clone()).collect();
    for ((at, draft), task) in drafts.iter().enumerate().zip(&mut tasks) {
        for reference in &draft.after {
            match names.find(reference).map(TaskRef::New) {
                Ok(target) if target == TaskRef::New(at) => problems
                    .add(reference.problem(format!("task `{}` waits for itself", reference.word))),
                Ok(TaskRef::New(to)) if in_line && to > at && !is_over(&drafts[to].task) => {
                    let word = quote(&reference.word);
                    let message = format!("`order: sequential` puts task {word} after this one");
                    let hint = "take the dependency out, or put the tasks into their order";
                    problems.add(reference.problem(message).with_hint(hint));
                }
                Ok(target) if task.dependencies.contains(&target) => {}
                Ok(target) => task.dependencies.push(target),
                Err(problem) => problems.add(problem),
            }
        }
    }
    if let Some(cycle) = cycle_among(&tasks) {
        let words = cycle.iter().map(|at| match &tasks[*at].key {
            Some(key) => one_line(key, 60),
            None => (at + 1).to_string(),
        });
        let way = joined(words, " → ");
        let message = format!("tasks wait for each other: {way}");
        let problem = match drafts[cycle[0]].after.first() {
            Some(reference) => reference.problem(message),
            None => Problem::new(message),
        };
        problems.add(problem.with_hint("take one of these dependencies out"));
    }
    tasks
}

/// Gives a plan the name and the goal that its file does not state.
fn named(mut plan: PlanSpec, file_name: &str) -> PlanSpec {
    if plan.name.is_empty() {
        let first = plan.goal.lines().next().unwrap_or_default();
        let file = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let name = if first.is_empty() { stem } else { first };
        plan.name = one_line(name, 120);
    }
    if plan.goal.is_empty() {
        plan.goal.clone_from(&plan.name);
    }
    plan
}

/// Returns which of the known words was probably meant, or which exist.
pub(super) fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(meant) = did_you_mean(word, known.clone()) {
        return meant;
    }
    // Lists a name that a file contains twice only once.
    let mut seen = HashSet::new();
    let names = known.filter(|name| !name.is_empty() && seen.insert(*name));
    let names: Vec<&str> = names.collect();
    match names[..] {
        [] => "there are none".to_owned(),
        [only] => format!("there is only `{only}`"),
        _ => format!("known are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests;
