//! Runs of checks that show what a result proves: on the state before a task's first attempt, on the result with the files that
//! judge as they were, and on the state before with the tests that the result adds. They run in folders aside.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::Mutex;

use super::DaemonSettings;
use super::changed_files::ChangeWatch;
use super::worktrees::Gathering;
use crate::config::BeforeWork;
use crate::exec::{
    BEFORE, CheckConfig, CheckFolder, JudgingChanges, MarkKind, TreeFile, check_marked,
    remove_folder, with_property,
};
use crate::plan::{
    AttemptState, Before, CheckBefore, CheckResult, CommandId, PendingMerge, Plan, Proof,
    Repository, Task, TaskId, awaits_before,
};
use crate::store::Store;
use crate::volumes::Folder;

/// The folder, in that for worktrees, with those for the state before and for results, where tasks have no worktrees.
const ASIDE: &str = "checks";
const RESULT: &str = "result";

/// The most outcomes that are kept for tasks that begin with the same tree.
const KEPT: usize = 1_000;

/// The most files that a reason names.
const NAMED: usize = 3;

/// The outcomes of checks by tree and command. It is locked while something runs in the folder for the state before.
pub(super) type EarlierRuns = Arc<Mutex<BTreeMap<String, CheckBefore>>>;

/// Runs the checks of tasks.
#[derive(Clone)]
pub(super) struct ProofRuns {
    pub settings: Arc<DaemonSettings>,
    pub store: Store,
    pub change_watch: ChangeWatch,
    pub earlier: EarlierRuns,
}

/// A task with what its checks need to know.
pub(super) struct Subject {
    pub task: Task,
    /// The names of the checks of the plan and of the task.
    pub names: Vec<String>,
    pub gathering: Option<Gathering>,
    workspace: PathBuf,
    repository: Option<Repository>,
    /// The first attempt, and the state that it began with.
    first: CommandId,
    tree: Option<String>,
}

/// The trees of a result and of the state before, and what changed of the files that judge.
struct Compared {
    place: CheckFolder,
    before: String,
    delivered: String,
    changes: JudgingChanges,
}

impl Subject {
    pub fn of(plan: &Plan, task: TaskId) -> Option<Self> {
        let (head, task) = (plan.head(), plan.task(task)?.clone());
        let first = plan.attempts_of(task.number).next()?;
        let mut names = head.policy.checks.clone();
        let is_new = |name: &&String| !head.policy.checks.contains(name);
        names.extend(task.checks.iter().filter(is_new).cloned());
        Some(Self {
            names,
            gathering: Gathering::of(head),
            workspace: PathBuf::from(&head.workspace),
            repository: head.repository.as_deref().cloned(),
            first: first.id.clone(),
            tree: first.tree.clone(),
            task,
        })
    }
}

impl ProofRuns {
    /// Runs the checks of a task on the state before its first attempt.
    pub async fn before(&self, task: TaskId) -> anyhow::Result<Vec<CheckBefore>> {
        let read = move |plan: &Plan, _| Subject::of(plan, task);
        let subject = self.store.read(&self.settings.plan, read).await?;
        let subject = subject.context("no attempt of the task is in the plan")?;
        let tree = subject.tree.clone().context("git has no state before")?;
        self.outcomes(&subject, &tree).await
    }

    async fn outcomes(&self, subject: &Subject, tree: &str) -> anyhow::Result<Vec<CheckBefore>> {
        let mut earlier = self.earlier.lock().await;
        let checks = self.checks(&subject.names);
        let runs = |check: &&CheckConfig| check.before != BeforeWork::Never;
        let is_new = |check: &&CheckConfig| !earlier.contains_key(&key(tree, check));
        let files: Vec<_> = subject.task.criteria.files().cloned().collect();
        let place = match checks
            .iter()
            .copied()
            .filter(runs)
            .any(|check| is_new(&check))
            || !files.is_empty()
        {
            true => self.lay_out(subject, tree, tree).await,
            false => Err(String::new()),
        };
        let mut outcomes = Vec::new();
        for check in checks {
            let key = key(tree, check);
            let outcome = match (earlier.get(&key), &place) {
                _ if !runs(&check) => unknown(&check.name, "it is configured not to run then"),
                (Some(known), _) => CheckBefore {
                    name: check.name.clone(),
                    ..known.clone()
                },
                (None, Err(why)) => unknown(&check.name, why),
                (None, Ok(place)) => {
                    let run = self.run(check, place.folder(), subject).await?;
                    outcome(check, &run)
                }
            };
            if place.is_ok() && earlier.len() < KEPT {
                earlier.insert(key, outcome.clone());
            }
            outcomes.push(outcome);
        }
        for file in files {
            outcomes.push(match &place {
                Ok(place) => {
                    let (folder, file) = (place.folder().to_owned(), file.clone());
                    let found = move || with_property(&folder, &file);
                    let found = tokio::task::spawn_blocking(found).await?;
                    let outcome = if found.passed {
                        Before::Green
                    } else {
                        Before::Red
                    };
                    CheckBefore {
                        name: found.name,
                        outcome,
                        tests: None,
                    }
                }
                Err(why) => unknown(&file.to_string(), why),
            });
        }
        Ok(outcomes)
    }

    /// Runs the checks of a task on a result whose other evidence is good, after that. `merged` is the merge with the results before
    /// it and the folder that has it, where results are merged.
    pub async fn on_result(
        &self,
        subject: &Subject,
        command: &CommandId,
        merged: Option<(PendingMerge, CheckFolder)>,
        results: &mut Vec<CheckResult>,
    ) -> anyhow::Result<()> {
        let compared = match self.compare(subject, merged.as_ref()).await {
            Err(error) if merged.is_none() => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the tests of a result cannot be compared"
                );
                None
            }
            compared => compared?,
        };
        let own = compared
            .as_ref()
            .filter(|own| !own.changes.restored.is_empty());
        let runs = match own {
            Some(own) => self.restored(subject, own, merged.is_some()).await?,
            None => {
                let folder = merged
                    .as_ref()
                    .map_or(&*subject.workspace, |(_, place)| place.folder());
                self.all(subject, folder).await?
            }
        };
        results.extend(runs);
        if results.iter().any(|result| !result.passed) {
            return Ok(());
        }
        let before = self.await_before(command, subject.task.number).await?;
        if let Some((merge, _)) = &merged
            && subject.tree.as_ref() != Some(&merge.onto)
            && before.iter().any(|before| before.outcome == Before::Red)
        {
            let meanwhile = self.outcomes(subject, &merge.onto).await?;
            doubt_of(
                results,
                &meanwhile,
                |outcome| *outcome == Before::Green,
                "it would pass without this task, by what was accepted meanwhile",
            );
        }
        for result in results.iter_mut() {
            let was = before.iter().find(|before| before.name == result.name);
            weigh(&subject.task, result, was.and_then(|was| was.tests));
        }
        let Some(compared) = compared else {
            return Ok(());
        };
        if !compared.changes.manifests.is_empty() {
            let why = format!(
                "the result changes what is said of tests in {}",
                compared.changes.manifests.join(", ")
            );
            doubt_of(results, &before, |_| true, &why);
        }
        let is_red = |name: &str| {
            before
                .iter()
                .any(|before| before.name == name && before.outcome == Before::Red)
        };
        let unproven = |result: &&mut CheckResult| {
            result.passed && result.doubt.is_empty() && !is_red(&result.name)
        };
        let unproven: Vec<&mut CheckResult> = results.iter_mut().filter(unproven).collect();
        self.with_new_tests(subject, &compared, unproven).await
    }

    /// Compares a result with the state before it. `None` where git does not know that state.
    async fn compare(
        &self,
        subject: &Subject,
        merged: Option<&(PendingMerge, CheckFolder)>,
    ) -> anyhow::Result<Option<Compared>> {
        let (place, before, delivered) = match merged {
            Some((merge, place)) => (place.clone(), merge.onto.clone(), merge.commit.clone()),
            None => {
                let trees = self
                    .change_watch
                    .trees_of(subject.repository.clone())
                    .await?;
                let (Some(before), Some(trees)) = (subject.tree.clone(), trees) else {
                    return Ok(None);
                };
                let place = trees.check_folder(&self.aside(RESULT))?;
                (place, before, trees.record().await?)
            }
        };
        let changes = place.judging_changes([&before, &delivered], &self.settings.judging);
        let changes = changes.await?;
        Ok(Some(Compared {
            place,
            before,
            delivered,
            changes,
        }))
    }

    /// Runs checks on a result with the files that judge as they were; those that fail so, as it was delivered.
    async fn restored(
        &self,
        subject: &Subject,
        own: &Compared,
        merged: bool,
    ) -> anyhow::Result<Vec<CheckResult>> {
        let (place, files) = (&own.place, &own.changes.restored);
        let tree = place.with_files(&own.delivered, files).await?;
        place.lay_out(&tree).await?;
        if !merged && let Some(why) = self.prepare(place, subject).await? {
            tracing::warn!(why, "the folder for checks is not ready");
        }
        let mut results = self.all(subject, place.folder()).await?;
        if results.iter().all(|result| result.passed) {
            return Ok(results);
        }
        place.lay_out(&own.delivered).await?;
        for result in results.iter_mut().filter(|result| !result.passed) {
            let Some(check) = self.settings.checks.get(&result.name) else {
                continue;
            };
            let delivered = self.run(check, place.folder(), subject).await?;
            if delivered.passed {
                result.finding = format!(
                    "passes only with the agent's own version of {}",
                    named(files)
                );
            } else if merged {
                *result = delivered;
            } else {
                // What it needs may be in the workspace only, as git ignores it.
                *result = self.run(check, &subject.workspace, subject).await?;
                result.doubt = format!("with {} as before, it could not run aside", named(files));
            }
        }
        Ok(results)
    }

    /// Runs checks on the state before with the tests that a result adds: one that fails there proves the result.
    async fn with_new_tests(
        &self,
        subject: &Subject,
        compared: &Compared,
        results: Vec<&mut CheckResult>,
    ) -> anyhow::Result<()> {
        let added = &compared.changes.added;
        let runs = |result: &&mut CheckResult| {
            let check = self.settings.checks.get(&result.name);
            check.is_some_and(|check| check.before != BeforeWork::Never)
        };
        let results: Vec<_> = results.into_iter().filter(runs).collect();
        if added.is_empty() || results.is_empty() {
            return Ok(());
        }
        let _alone = self.earlier.lock().await;
        let tree = compared.place.with_files(&compared.before, added).await?;
        let place = match self.lay_out(subject, &compared.before, &tree).await {
            Ok(place) => place,
            Err(why) => {
                tracing::warn!(why, "new tests do not run on the state before");
                return Ok(());
            }
        };
        for result in results {
            let check = &self.settings.checks[&result.name];
            let run = self.run(check, place.folder(), subject).await?;
            if outcome(check, &run).outcome == Before::Red {
                result.new_tests = added
                    .iter()
                    .take(NAMED)
                    .map(|file| file.path.clone())
                    .collect();
            }
        }
        Ok(())
    }

    /// Lays a tree out in the folder for the state before, and makes it ready. `commit` is one to begin with, where results are
    /// merged. Returns why nothing can run there otherwise.
    async fn lay_out(
        &self,
        subject: &Subject,
        commit: &str,
        tree: &str,
    ) -> Result<CheckFolder, String> {
        let place = async {
            let place = match &subject.gathering {
                Some(gathering) => gathering.project().await?.check_out(BEFORE, commit).await?,
                None => {
                    let trees = self
                        .change_watch
                        .trees_of(subject.repository.clone())
                        .await?;
                    let trees = trees.context("the workspace is no repository")?;
                    trees.check_folder(&self.aside(BEFORE))?
                }
            };
            place.lay_out(tree).await?;
            anyhow::Ok((self.prepare(&place, subject).await?, place))
        };
        match place.await {
            Ok((None, place)) => Ok(place),
            Ok((Some(why), _)) => Err(why),
            Err(error) => Err(format!("that state cannot be laid out: {error:#}")),
        }
    }

    /// Runs the person's command in a folder, unless it has made that one ready. Returns how it failed.
    async fn prepare(
        &self,
        place: &CheckFolder,
        subject: &Subject,
    ) -> anyhow::Result<Option<String>> {
        let Some(prepare) = &self.settings.prepare else {
            return Ok(None);
        };
        if place.prepared().exists() {
            return Ok(None);
        }
        let result = self.run(prepare, place.folder(), subject).await?;
        if result.passed {
            std::fs::write(place.prepared(), "")?;
        }
        Ok((!result.passed).then(|| format!("`prepare` failed there ({})", result.outcome())))
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.settings.worktrees.join(ASIDE).join(name)
    }

    fn checks(&self, names: &[String]) -> Vec<&CheckConfig> {
        names
            .iter()
            .filter_map(|name| self.settings.checks.get(name))
            .collect()
    }

    async fn all(&self, subject: &Subject, folder: &Path) -> anyhow::Result<Vec<CheckResult>> {
        let mut results = Vec::new();
        for name in &subject.names {
            results.push(match self.settings.checks.get(name) {
                Some(check) => self.run(check, folder, subject).await?,
                None => CheckResult {
                    name: name.clone(),
                    finding: "not in the configuration any more".to_owned(),
                    ..CheckResult::default()
                },
            });
        }
        Ok(results)
    }

    async fn run(
        &self,
        check: &CheckConfig,
        folder: &Path,
        subject: &Subject,
    ) -> anyhow::Result<CheckResult> {
        let marks = self.settings.volumes.path(Folder::Active);
        // Checks of a task run beside each other in different folders only.
        let place = folder.file_name().unwrap_or_default().display();
        let name = format!("{}-{place}", subject.first);
        let mark = (marks.as_path(), MarkKind::Check, &*name);
        let run = check_marked(check, folder, mark, pending()).await;
        let result = run.with_context(|| format!("check `{}`", check.name))?;
        result.context("a check was cancelled")
    }

    /// Waits until the checks have run on the state before, unless nothing waits for that any more.
    async fn await_before(
        &self,
        command: &CommandId,
        task: TaskId,
    ) -> anyhow::Result<Vec<CheckBefore>> {
        let mut moved = self.store.moved();
        loop {
            moved.borrow_and_update();
            let command = command.clone();
            let known = self.store.read(&self.settings.plan, move |plan, _| {
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

/// Removes the folders for checks on trees of the workspace; git removes those of its worktrees.
pub(super) async fn clear(settings: &DaemonSettings) {
    let folder = settings.worktrees.join(ASIDE);
    if let Err(error) = remove_folder(folder.clone()).await {
        tracing::warn!(%error, path = %folder.display(), "what checks used stays behind");
    }
    // It is empty, unless tasks have worktrees.
    drop(std::fs::remove_dir(&settings.worktrees));
}

fn key(tree: &str, check: &CheckConfig) -> String {
    let CheckConfig {
        argv,
        env,
        plain,
        count,
        ..
    } = check;
    format!("{tree} {argv:?} {env:?} {plain} {count:?}")
}

fn unknown(name: &str, why: &str) -> CheckBefore {
    CheckBefore {
        name: name.to_owned(),
        outcome: Before::Unknown(why.to_owned()),
        tests: None,
    }
}

/// Returns what a run says about the state before: red counts only if tests ran there, or the check needs none.
fn outcome(check: &CheckConfig, run: &CheckResult) -> CheckBefore {
    let unknown = |why: &str| Before::Unknown(why.to_owned());
    let outcome = match run.tests {
        _ if run.passed => Before::Green,
        _ if !run.doubt.is_empty() => unknown(&run.doubt),
        _ if check.plain => Before::Red,
        Some(0) => unknown("no test ran"),
        Some(_) => Before::Red,
        None => unknown("its output shows no test that ran"),
    };
    CheckBefore {
        name: check.name.clone(),
        outcome,
        tests: run.tests,
    }
}

/// Compares the number of tests that ran with that before the work: a check that ran none says nothing, one that has lost them
/// fails.
fn weigh(task: &Task, result: &mut CheckResult, before: Option<u32>) {
    let lost = match (result.tests, before) {
        (Some(0), Some(before @ 1..)) => Some(format!("no test ran; {before} ran before the work")),
        (Some(0), _) if asks_for_tests(task, &result.name) => Some("no test ran".to_owned()),
        _ => None,
    };
    if let Some(lost) = lost {
        result.passed = false;
        result.finding = lost;
        return;
    }
    let doubt = match (result.tests, before) {
        (Some(0), _) => "no test ran".to_owned(),
        (None, Some(1..)) => "its output shows no test that ran".to_owned(),
        (Some(now), Some(before)) if now < before => {
            format!("only {now} of the {before} tests that ran before the work are left")
        }
        _ => return,
    };
    result.doubt = doubt;
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

/// Adds a doubt to the results whose checks had such an outcome.
fn doubt_of(
    results: &mut [CheckResult],
    outcomes: &[CheckBefore],
    fits: impl Fn(&Before) -> bool,
    why: &str,
) {
    for result in results.iter_mut().filter(|result| result.doubt.is_empty()) {
        let found = outcomes.iter().find(|before| before.name == result.name);
        if found.is_some_and(|found| fits(&found.outcome)) {
            why.clone_into(&mut result.doubt);
        }
    }
}

fn named(files: &[TreeFile]) -> String {
    let names: Vec<&str> = files
        .iter()
        .take(NAMED)
        .map(|file| file.path.as_str())
        .collect();
    match files.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
