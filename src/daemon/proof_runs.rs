//! Runs of checks that show what a result proves: on the state before a task's first attempt, on the result with the files that
//! judge as they were, and on the state before with the tests that the result adds. They run in folders aside.

mod final_checks;
mod rerun_silent_checks;
mod without_added_files;
mod without_git;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::Mutex;

use super::DaemonSettings;
use super::changed_files::ChangeWatch;
use super::effect_work::produced;
use super::worktrees::{Gathering, prepare};
use crate::config::BeforeWork;
use crate::exec::{
    BEFORE, CheckConfig, CheckFolder, JudgingChanges, JudgingFiles, MarkKind, TreeFile,
    check_marked, remove_folder, replaced,
};
use crate::plan::proof::{NOT_PERMITTED, check_names};
use crate::plan::{
    Attempt, AttemptState, Before, ChangeDetection, ChangedFiles, CheckBefore, CheckResult,
    CommandId, PendingMerge, Plan, Proof, Task, TaskId, Time, and_more, awaits_before,
};
use crate::volumes::Folder;
use crate::wire::text::sha256;

/// The folder, in that for worktrees, with those for the state before and for results, where tasks have no worktrees.
const ASIDE: &str = "checks";
const RESULT: &str = "result";

/// The most outcomes that are kept for tasks that begin with the same tree.
const KEPT: usize = 1_000;

/// The most files that a reason names.
const NAMED: usize = 3;

/// The outcomes of checks by tree and command. It is locked while something runs in the folder for the state before.
type EarlierRuns = Arc<Mutex<BTreeMap<String, CheckBefore>>>;

/// Returns the outcomes that the tasks of a plan have recorded, as an earlier daemon may have left them.
pub(super) fn recorded_runs(plan: &Plan) -> BTreeMap<String, CheckBefore> {
    let mut runs = BTreeMap::new();
    for task in plan.tasks() {
        let mut attempts = plan.attempts_of(task.number);
        let tree = attempts.next().and_then(|first| first.tree.as_ref());
        let before = task.before.iter().filter(|run| !run.command.is_empty());
        for (tree, run) in before.flat_map(|run| tree.map(|tree| (tree, run))) {
            runs.insert(key(tree, &run.command), run.clone());
        }
    }
    // Room is left for what runs now.
    while runs.len() > KEPT / 2 {
        runs.pop_first();
    }
    runs
}

/// Runs the checks of tasks.
#[derive(Clone)]
pub(super) struct ProofRuns {
    pub settings: Arc<DaemonSettings>,
    pub change_watch: ChangeWatch,
    pub earlier: EarlierRuns,
}

/// A task with what its checks need to know.
pub(super) struct Subject {
    runs: ProofRuns,
    pub task: Task,
    /// The names of the checks of the plan and of the task.
    pub names: Vec<String>,
    pub gathering: Option<Gathering>,
    workspace: PathBuf,
    /// The first attempt, and the state that it began with, if git knows that.
    first: CommandId,
    pub tree: Option<String>,
    /// The state that the plan began with, where it is another one.
    began: Option<String>,
    /// An agent may have begun with it.
    begun: bool,
    /// What changed in the workspace during the attempt that counts now.
    changed: ChangedFiles,
    /// The files that changed while agents worked on it; between its attempts, others may have been at work in the same folder.
    /// `None` where not all of them are known.
    own: Option<BTreeSet<String>>,
    /// How long checks ran the last time, where git does not keep the state before.
    took: BTreeMap<String, Duration>,
}

/// The trees of a result and of the state before, and what changed of the files that judge.
struct Compared {
    place: CheckFolder,
    before: String,
    delivered: String,
    changes: JudgingChanges,
}

impl ProofRuns {
    pub fn subject(&self, plan: &Plan, task: TaskId) -> Option<Subject> {
        let (head, task) = (plan.head(), plan.task(task)?.clone());
        let first = plan.attempts_of(task.number).next()?;
        let began = match &head.line {
            Some(line) => Some(line.base.clone()),
            None => {
                let first = plan.attempts().min_by_key(|attempt| attempt.issued);
                first.and_then(|attempt| attempt.tree.clone())
            }
        };
        let names: Vec<String> = check_names(plan, &task).cloned().collect();
        let mut attempts = plan.attempts_of(task.number);
        let current = plan.current_attempt(&task);
        let changed = current.and_then(|now| now.changes.clone());
        Some(Subject {
            runs: self.clone(),
            took: match first.tree {
                Some(_) => BTreeMap::new(),
                None => without_git::last_times(plan),
            },
            names,
            gathering: Gathering::of(head),
            workspace: PathBuf::from(&head.workspace),
            first: first.id.clone(),
            tree: first.tree.clone(),
            began: began.filter(|began| first.tree.as_ref() != Some(began)),
            own: own_files(plan.attempts_of(task.number)),
            begun: attempts.any(|attempt| attempt.claimed.is_some()),
            changed: changed.unwrap_or_default(),
            task,
        })
    }

    /// Runs the checks of a task on the state before its first attempt. `held` says that its command is kept until then.
    pub async fn before(&self, task: TaskId, held: bool) -> Result<Vec<CheckBefore>> {
        let runs = self.clone();
        let read = move |plan: &Plan, _| runs.subject(plan, task);
        let subject = self.settings.read(read).await?;
        let subject = subject.context("no attempt of the task is in the plan")?;
        let mut before = match subject.tree.clone() {
            Some(tree) => subject.outcomes(&tree).await?,
            None => subject.in_workspace(held).await?,
        };
        for name in &subject.names {
            if !before.iter().any(|before| before.name == *name) {
                before.push(unknown(name, "it is configured not to run then"));
            }
        }
        Ok(before)
    }

    /// Returns whether a check needs no tests to fail.
    fn is_plain(&self, name: &str) -> bool {
        let check = self.settings.config.checks.get(name);
        check.is_none_or(|check| check.plain)
    }

    /// Begins with a result in a folder. What Cargo has built stays there from accepted results only: the tests of another may have
    /// put something else in its place.
    pub async fn begin(&self, place: &CheckFolder, command: &CommandId) -> Result<()> {
        let last = place.begin(command)?;
        let accepted = self.settings.read(move |plan, _| {
            let last = last.and_then(|last| plan.attempt(&last));
            last.is_some_and(Attempt::is_accepted)
        });
        if !accepted.await? {
            place.remove_built().await?;
        }
        Ok(())
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.settings.worktrees.join(ASIDE).join(name)
    }

    /// Adds the doubts that stand on what a result changed of what judges it.
    fn doubt_changes(&self, changes: &JudgingChanges, results: &mut [CheckResult]) {
        let is_check = |name: &str| self.settings.config.checks.contains_key(name);
        if changes.is_empty {
            doubt(results, is_check, "the result changes no file");
        }
        for why in &changes.doubts {
            doubt(results, |_| true, why);
        }
        if !changes.inline.is_empty() {
            let inline = &changes.inline;
            let why = format!("of the tests among the sources, the result {inline}");
            doubt(results, |name| !self.is_plain(name), &why);
        }
    }

    /// Waits until the checks have run on the state before, unless nothing waits for that any more.
    async fn await_before(&self, command: &CommandId, task: TaskId) -> Result<Vec<CheckBefore>> {
        let mut moved = self.settings.store.moved();
        loop {
            moved.borrow_and_update();
            let command = command.clone();
            let known = self.settings.read(move |plan, _| {
                let attempt = plan.attempt(&command);
                let waits = attempt.is_some_and(|attempt| attempt.state == AttemptState::Reported);
                let before = plan.task(task).map(|task| task.before.clone());
                (waits && awaits_before(plan, task), before)
            });
            let (waits, before) = known.await?;
            if !waits {
                return Ok(before.unwrap_or_default());
            }
            moved.changed().await?;
        }
    }
}

/// Returns the files that changed during attempts.
fn own_files<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Option<BTreeSet<String>> {
    let mut own = BTreeSet::new();
    for attempt in attempts {
        let changes = attempt.changes.as_ref()?;
        if changes.seen != ChangeDetection::Git || changes.more > 0 {
            return None;
        }
        own.extend(changes.paths().map(str::to_owned));
    }
    Some(own)
}

impl Subject {
    async fn outcomes(&self, tree: &str) -> Result<Vec<CheckBefore>> {
        let mut earlier = self.runs.earlier.lock().await;
        let mut checks: Vec<&CheckConfig> = self.checks().collect();
        let is_new = |check: &&CheckConfig| !earlier.contains_key(&key(tree, &hash(check)));
        let mut files = self.task.criteria.files();
        let place = match files.next().is_some() || checks.iter().any(is_new) {
            true => self.lay_out(tree).await,
            false => Err(String::new()),
        };
        let mut outcomes = Vec::new();
        for result in self.replaced().await? {
            checks.retain(|check| check.name != result.name);
            outcomes.push(unknown(&result.name, &result.finding));
        }
        for check in checks {
            let (name, command) = (check.name.clone(), hash(check));
            let key = key(tree, &command);
            outcomes.push(match (earlier.get(&key), &place) {
                (Some(known), _) => CheckBefore {
                    name,
                    ..known.clone()
                },
                (None, Err(why)) => unknown(&name, why),
                (None, Ok(place)) => {
                    let mut before = outcome(check, &self.run(check, place.folder()).await?);
                    // What fails only at times, or while a port is taken, fails for another reason.
                    if before.outcome == Before::Red
                        && self.run(check, place.folder()).await?.passed
                    {
                        before = unknown(&name, "it failed, and passed when it was tried again");
                    }
                    before.command = command;
                    if earlier.len() < KEPT {
                        earlier.insert(key, before.clone());
                    }
                    before
                }
            });
        }
        let folder = place.as_ref().map(CheckFolder::folder);
        outcomes.extend(files_before(&self.task, folder).await?);
        Ok(outcomes)
    }

    /// Runs the checks of a task on a result whose other evidence is good, after that. `merged` is the merge with the results before
    /// it and the folder that has it, where results are merged.
    pub async fn on_result(
        &self,
        command: &CommandId,
        merged: Option<(PendingMerge, CheckFolder)>,
        results: &mut Vec<CheckResult>,
    ) -> Result<()> {
        results.extend(self.replaced().await?);
        if results.iter().any(|result| !result.passed) {
            return Ok(());
        }
        let compared = match self.compare(command, merged.as_ref()).await {
            // The agent may have moved what git keeps: its result is not believed for that.
            Err(error) if merged.is_none() => {
                let why = format!("git does not tell which tests the result changes: {error:#}");
                let failed = |name: &String| CheckResult::failed(name, &why);
                results.extend(self.names.iter().map(failed));
                return Ok(());
            }
            compared => compared?,
        };
        let changed = |compared: &&Compared| !compared.changes.restored.is_empty();
        results.extend(match (compared.as_ref().filter(changed), &merged) {
            (Some(own), _) => self.restored(own, merged.is_some()).await?,
            (None, Some((merge, place))) => {
                let mut results = self.all_in(place).await?;
                self.anew(place, &merge.commit, results.iter_mut()).await?;
                results
            }
            (None, None) => self.all(&self.workspace).await?,
        });
        if results.iter().any(|result| !result.passed) {
            return Ok(());
        }
        let before = self.runs.await_before(command, self.task.number).await?;
        for result in results.iter_mut() {
            let was = before.iter().find(|before| before.name == result.name);
            let plain = self.runs.is_plain(&result.name);
            weigh(&self.task, result, was, plain);
        }
        let red = |outcomes: &[CheckBefore], name: &str| {
            let mut of_name = outcomes.iter().filter(|before| before.name == name);
            of_name.any(|before| before.outcome == Before::Red)
        };
        if let Some((merge, _)) = &merged
            && self.tree.as_ref() != Some(&merge.onto)
            && results.iter().any(|result| red(&before, &result.name))
        {
            let meanwhile = self.outcomes(&merge.onto).await?;
            let mended = |name: &str| red(&before, name) && !red(&meanwhile, name);
            let why = "what was accepted meanwhile changed it, too";
            doubt(results, mended, why);
        }
        let Some(mut compared) = compared else {
            if let Some(why) = self.may_judge_itself() {
                let is_check = |name: &str| self.names.iter().any(|check| check == name);
                doubt(results, is_check, &why);
            }
            return Ok(());
        };
        self.runs.doubt_changes(&compared.changes, results);
        let may_prove = |result: &CheckResult| {
            let tried = red(&before, &result.name) || !compared.changes.added.is_empty();
            result.passed && result.doubt.is_empty() && tried
        };
        if results.iter().any(may_prove)
            && let Err(error) = self.look_back(&mut compared).await
        {
            let why = "git does not tell what earlier tasks changed of the tests";
            doubt(results, |_| true, &format!("{why}: {error}"));
        }
        let passed = results.iter_mut();
        let passed = passed.filter(|result| result.passed && result.doubt.is_empty());
        let (proof, open) = passed.partition(|result| red(&before, &result.name));
        let was_aside = merged.is_some() || !compared.changes.restored.is_empty();
        self.once_more(&compared, was_aside, proof).await?;
        self.with_new_tests(&compared, open).await
    }

    /// Compares a result with the state before it. `None` where git does not know that state.
    async fn compare(
        &self,
        command: &CommandId,
        merged: Option<&(PendingMerge, CheckFolder)>,
    ) -> Result<Option<Compared>> {
        if self.names.is_empty() {
            return Ok(None);
        }
        let (place, before, delivered) = match merged {
            Some((merge, place)) => (place.clone(), merge.onto.clone(), merge.commit.clone()),
            None => {
                let trees = self.runs.change_watch.trees().await?;
                let (Some(before), Some(trees)) = (self.tree.clone(), trees) else {
                    return Ok(None);
                };
                let place = trees.check_folder(&self.runs.aside(RESULT))?;
                self.runs.begin(&place, command).await?;
                (place, before, trees.record().await?)
            }
        };
        let trees = [&*before, &delivered];
        let mut changes = place.judging_changes(trees, &self.judging()).await?;
        if let Some(own) = self.own.as_ref().filter(|_| merged.is_none()) {
            let is_own = |file: &TreeFile| own.contains(&file.path);
            changes.restored.retain(is_own);
            changes.kept.retain(is_own);
            changes.added.retain(is_own);
        }
        Ok(Some(Compared {
            place,
            before,
            delivered,
            changes,
        }))
    }

    /// Runs checks on a result with the files that judge as they were, and as it was delivered: both have to pass.
    async fn restored(&self, own: &Compared, merged: bool) -> Result<Vec<CheckResult>> {
        let (place, files) = (&own.place, &own.changes.restored);
        let tree = place.with_files(&own.delivered, files).await?;
        place.lay_out(&tree).await?;
        // Where it fails, the checks say so.
        self.prepare(place).await?;
        let mut results = self.all_in(place).await?;
        place.lay_out(&own.delivered).await?;
        self.prepare(place).await?;
        for result in &mut results {
            let Some(check) = self.runs.settings.config.checks.get(&result.name) else {
                continue;
            };
            let mut delivered = self.run(check, place.folder()).await?;
            if result.passed && !delivered.passed {
                // What fails only at times says nothing against the result.
                delivered = self.run(check, place.folder()).await?;
            }
            let files = named(files);
            match (result.passed, delivered.passed) {
                (true, true) if result.doubt.is_empty() => result.doubt = delivered.doubt,
                (true, true) => {}
                (true, false) => {
                    let finding = format!("fails with {files} as the agent left it");
                    *result = CheckResult {
                        finding,
                        ..delivered
                    };
                }
                (false, true) => {
                    result.finding = format!(
                        "passes only with the agent's own version of {files}, {NOT_PERMITTED}"
                    );
                }
                (false, false) if merged => *result = delivered,
                // What it needs may be in the workspace only, as git ignores it.
                (false, false) => {
                    *result = self.run(check, &self.workspace).await?;
                    result.doubt = format!("with {files} as before, it could not run aside");
                }
            }
        }
        self.anew(place, &own.delivered, results.iter_mut()).await?;
        Ok(results)
    }

    /// Runs checks on the state before with the tests that a result adds: one that fails there proves the result.
    async fn with_new_tests(
        &self,
        compared: &Compared,
        results: Vec<&mut CheckResult>,
    ) -> Result<()> {
        let added = &compared.changes.added;
        if added.is_empty() || results.is_empty() {
            return Ok(());
        }
        // In the folder of the result: nothing that it brings runs where states before are tried.
        let place = &compared.place;
        let tree = place.with_files(&compared.before, added).await?;
        place.lay_out(&tree).await?;
        if self.prepare(place).await?.is_some() {
            return Ok(());
        }
        let mut proof = Vec::new();
        for result in results {
            let check = self.checks().find(|check| check.name == result.name);
            let Some(check) = check else { continue };
            let run = self.run(check, place.folder()).await?;
            if outcome(check, &run).outcome == Before::Red {
                result.new_tests = named(added);
                proof.push(result);
            }
        }
        if compared.changes.kept.is_empty() {
            return Ok(());
        }
        self.doubt_by(compared, &[], "", proof).await
    }

    /// Lays a state out in the folder for the state before, and makes it ready. Returns why nothing can run there otherwise.
    async fn lay_out(&self, tree: &str) -> Result<CheckFolder, String> {
        let place = async {
            let place = match &self.gathering {
                Some(gathering) => gathering.project().await?.check_out(BEFORE, tree).await?,
                None => {
                    let trees = self.runs.change_watch.trees().await?;
                    let trees = trees.context("the workspace is no repository")?;
                    trees.check_folder(&self.runs.aside(BEFORE))?
                }
            };
            place.lay_out(tree).await?;
            anyhow::Ok((self.prepare(&place).await?, place))
        };
        match place.await {
            Ok((None, place)) => Ok(place),
            Ok((Some(failed), _)) => Err(format!("`prepare` failed there ({})", failed.outcome())),
            Err(error) => Err(format!("that state cannot be laid out: {error:#}")),
        }
    }

    /// Tells which files judge the results of the task.
    fn judging(&self) -> JudgingFiles {
        let files = &self.runs.settings.judging;
        files.permitting(&self.task.may_change)
    }

    fn configured(&self) -> impl Iterator<Item = &CheckConfig> {
        let checks = &self.runs.settings.config.checks;
        self.names.iter().filter_map(|name| checks.get(name))
    }

    /// Returns the checks that may run on the state before.
    fn checks(&self) -> impl Iterator<Item = &CheckConfig> {
        let checks = self.configured();
        checks.filter(|check| check.before != BeforeWork::Never)
    }

    async fn all(&self, folder: &Path) -> Result<Vec<CheckResult>> {
        let mut results = Vec::new();
        for name in &self.names {
            results.push(match self.runs.settings.config.checks.get(name) {
                Some(check) => self.run(check, folder).await?,
                None => CheckResult::failed(name, "not in the configuration any more"),
            });
        }
        Ok(results)
    }

    /// As [`Subject::all`], and no check may rewrite what judges.
    async fn all_in(&self, place: &CheckFolder) -> Result<Vec<CheckResult>> {
        let mut results = self.all(place.folder()).await?;
        if let Some(why) = self.rewrites(place).await? {
            doubt(&mut results, |_| true, &why);
        }
        Ok(results)
    }

    /// Returns a doubt if files that judge were rewritten in a folder since it was laid out: by a check, by `prepare`, or by the
    /// sources that these run.
    async fn rewrites(&self, place: &CheckFolder) -> Result<Option<String>> {
        let judging = self.judging();
        let is_judge = |path: &str| {
            (judging.judges(path) || judging.configures(path)) && !JudgingFiles::is_cache(path)
        };
        let files = place.rewritten(is_judge).await?;
        Ok((!files.is_empty()).then(|| format!("what runs there rewrites {files}")))
    }

    /// Runs a check in a folder, in which no other check of this task runs now.
    async fn run(&self, check: &CheckConfig, folder: &Path) -> Result<CheckResult> {
        let (marks, name) = check_mark(&self.runs.settings, folder, &self.first);
        let run = check_marked(check, folder, (&marks, MarkKind::Check, &name)).await;
        run.with_context(|| format!("check `{}`", check.name))
    }

    async fn prepare(&self, place: &CheckFolder) -> Result<Option<CheckResult>> {
        prepare(&self.runs.settings, place, &self.first).await
    }

    /// Returns failed results of the checks whose programs are not those from before the work.
    async fn replaced(&self) -> Result<Vec<CheckResult>> {
        let before = self.task.programs.clone().unwrap_or_default();
        let checks: Vec<CheckConfig> = self.configured().cloned().collect();
        Ok(tokio::task::spawn_blocking(move || replaced(&checks, &before)).await?)
    }
}

/// Removes the folders for checks on trees of the workspace; git removes those of its worktrees.
pub(super) async fn clear(settings: &DaemonSettings) {
    let folder = settings.worktrees.join(ASIDE);
    if let Err(error) = remove_folder(folder.clone()).await {
        tracing::warn!(%error, path = %folder.display(), "what checks used stays behind");
    }
    // It is empty, unless tasks have worktrees.
    drop(std::fs::remove_dir(&settings.worktrees));
}

fn key(tree: &str, command: &str) -> String {
    format!("{tree} {command}")
}

/// Returns the hash of what runs, and of how its outcome is read.
fn hash(check: &CheckConfig) -> String {
    let (argv, env, plain, count) = (&check.argv, &check.env, check.plain, &check.count);
    sha256(format!("{argv:?} {env:?} {plain} {count:?}"))
}

/// Returns whether files had the properties that prove criteria of a task; `Err` says why no folder has the state before.
async fn files_before(task: &Task, folder: Result<&Path, &String>) -> Result<Vec<CheckBefore>> {
    let found = match folder {
        Ok(folder) => produced(task, folder, Time::default()).await?,
        Err(_) => Vec::new(),
    };
    let before = |name: String| match (folder, found.iter().find(|found| found.name == name)) {
        (Err(why), _) => unknown(&name, why),
        (Ok(_), Some(found)) if found.passed => of(&name, Before::Green),
        (Ok(_), _) => of(&name, Before::Red),
    };
    let files = task.criteria.files().map(ToString::to_string);
    Ok(files.map(before).collect())
}

fn unknown(name: &str, why: &str) -> CheckBefore {
    of(name, Before::Unknown(why.to_owned()))
}

fn of(name: &str, outcome: Before) -> CheckBefore {
    CheckBefore {
        name: name.to_owned(),
        outcome,
        tests: None,
        command: String::new(),
    }
}

/// Returns what a run says about the state before: red counts only if tests ran there, or the check needs none.
fn outcome(check: &CheckConfig, run: &CheckResult) -> CheckBefore {
    let name = &check.name;
    let outcome = match run.tests {
        _ if run.passed => of(name, Before::Green),
        _ if !run.doubt.is_empty() => unknown(name, &run.doubt),
        _ if check.plain => of(name, Before::Red),
        Some(1..) => of(name, Before::Red),
        Some(0) => unknown(name, "no test ran"),
        None => unknown(name, "its output shows no test that ran"),
    };
    let tests = run.tests;
    CheckBefore { tests, ..outcome }
}

/// Compares the number of tests that ran with that before the work: a check that ran none says nothing, one that has lost them
/// fails. One that was red, or a plain one, may show them only when they fail.
fn weigh(task: &Task, result: &mut CheckResult, before: Option<&CheckBefore>, plain: bool) {
    let was_green = before.is_some_and(|before| before.outcome == Before::Green);
    let asked = || asks_for_tests(task, &result.name);
    let (lost, why) = match (result.tests, before.and_then(|before| before.tests)) {
        (Some(0), Some(was @ 1..)) => (true, format!("no test ran; {was} ran before the work")),
        (Some(0), _) => (asked(), "no test ran".to_owned()),
        (None, Some(was @ 1..)) if !plain => {
            // Gradle says so of tests that have not changed.
            let mut skips = ["UP-TO-DATE", "FROM-CACHE"].into_iter();
            let excused = skips.any(|word| result.tail.contains(word));
            let hint = match excused || was_green {
                true => "",
                false => "; `plain = true` is for checks that show tests only when they fail",
            };
            let why = "its output shows no test any more";
            let why = format!("{why}; {was} ran before the work{hint}");
            (was_green && !excused, why)
        }
        (Some(now), Some(before)) if now < before => (
            false,
            format!("{now} tests ran, and {before} before the work"),
        ),
        _ => return,
    };
    if lost || result.doubt.is_empty() {
        result.passed = !lost;
        result.finding.clone_from(&why);
        result.doubt = why;
    }
}

/// Returns whether a criterion that a check proves is about tests, by its words.
fn asks_for_tests(task: &Task, check: &str) -> bool {
    let list = task.criteria.list();
    list.iter().any(|criterion| {
        let bound = match &criterion.proof {
            Some(Proof::Check(name)) => name == check,
            Some(Proof::File(_)) => false,
            None => list.len() == 1,
        };
        let mut words = criterion.text.split(|c: char| !c.is_alphanumeric());
        bound && words.any(|word| word.to_lowercase().starts_with("test"))
    })
}

/// Adds a doubt to results that have none.
fn doubt(results: &mut [CheckResult], of: impl Fn(&str) -> bool, why: &str) {
    let results = results.iter_mut();
    for result in results.filter(|result| result.doubt.is_empty() && of(&result.name)) {
        why.clone_into(&mut result.doubt);
    }
}

/// Returns where a mark shows that something runs for a command in a folder, and its name.
pub(super) fn check_mark(
    settings: &DaemonSettings,
    folder: &Path,
    command: &CommandId,
) -> (PathBuf, String) {
    let place = folder.file_name().unwrap_or_default().display();
    let name = format!("{command}-{place}");
    (settings.volumes.path(Folder::Active), name)
}

fn named(files: &[TreeFile]) -> String {
    let names = files.iter().take(NAMED).map(|file| file.path.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    names + &and_more(files.len().saturating_sub(NAMED))
}
