//! Acts: what the daemon does outside the plan. Each act returns what came of it and never changes the plan, but for the
//! count of a model's call, which is committed before the call is made.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use super::apply_input::take_answer;
use super::worktrees::{self, Gathering, MergeOutcome};
use super::{BY, DaemonSettings, Models};
use crate::exec;
use crate::llm::questions::{self, Audit, Unrendered};
use crate::llm::{AskError, Model, PromptError, Prompts};
use crate::plan::{
    AskId, AttemptState, CheckResult, CommandId, Draft, ModelCost, ModelQuestionKind, PendingMerge,
    Plan, PlanSpec, Refusal, ReplanEdit, Task, Time, Verdict,
};
use crate::plan_time::Clock;
use crate::store::{Store, StoreError};
use crate::volumes::Folder;
use crate::wire::team_file::Team;
use crate::wire::text::clip;

/// Characters of a stale report that the judge is shown.
const STALE: usize = 1_500;

/// Files that are named at the end.
const UNREAD: usize = 5;

/// A model's answer, read and validated.
#[derive(Clone, Debug)]
pub(super) enum ModelDecision {
    Plan(PlanSpec),
    Judgement(CommandId, Verdict),
    Edits(Vec<ReplanEdit>),
    Audit(Audit),
    Summary(String),
}

/// What came of a question to the model.
#[derive(Clone, Debug)]
pub(super) struct ModelOutcome {
    pub ask: AskId,
    pub spent: ModelCost,
    /// The answer with its text, or why there is none.
    pub said: Result<(ModelDecision, String), String>,
}

/// A question in any of its kinds.
enum ModelRequest {
    Plan(Unrendered<PlanSpec>),
    Judge(CommandId, Unrendered<Verdict>),
    Replan(Unrendered<Vec<ReplanEdit>>),
    Audit(Unrendered<Audit>),
    Summary(Unrendered<String>),
}

/// Only makes a plan for a goal, without carrying it out. Whoever calls this holds the folder's lock.
///
/// # Errors
/// The model gave no usable plan; the goal is kept.
pub async fn make_plan(settings: &DaemonSettings, store: &Store) -> anyhow::Result<()> {
    let Some(models) = &settings.models else {
        anyhow::bail!("no language model is configured");
    };
    make_workspace(&settings.workspace)?;
    let asked = ask(settings, models, store, ModelQuestionKind::Plan).await?;
    let asked = asked.context("the budget allows no call")?;
    let failed = asked.said.as_ref().err().cloned();
    let volumes = settings.volumes.clone();
    let take = move |draft: &mut Draft<'_>| take_answer(draft, asked, &volumes);
    let why = "the model answered";
    store.change(&settings.plan, BY, why, take).await?;
    let tasks = store.read(&settings.plan, |plan, _| plan.counts().total());
    let tasks = tasks.await?;
    match failed {
        Some(error) => anyhow::bail!(error),
        None if tasks == 0 => anyhow::bail!("the plan that the model made was refused"),
        None => Ok(()),
    }
}

/// Asks the model: counts the call, makes the question from the plan as it is then, waits for the answer. `None` if the
/// budget allows no call.
pub(super) async fn ask(
    settings: &DaemonSettings,
    models: &Models,
    store: &Store,
    subject: ModelQuestionKind,
) -> anyhow::Result<Option<ModelOutcome>> {
    let facts = match &subject {
        ModelQuestionKind::Plan => super::workspace_facts::of_workspace(&settings.workspace).await,
        _ => String::new(),
    };
    let checks: Vec<String> = settings.checks.keys().cloned().collect();
    let (about, team) = (subject.clone(), settings.team.clone());
    let begin = move |draft: &mut Draft<'_>| {
        let ask = draft.begin_ask(&about)?;
        let plan = draft.plan();
        let asking = asking(plan, &about, &facts, &checks, team.as_deref())?;
        Ok((ask, plan.calls_left(), asking))
    };
    let why = "a model is asked";
    let begun = store.change(&settings.plan, BY, why, begin).await;
    let (ask, left, asking) = match begun {
        Ok(begun) => begun,
        Err(StoreError::Refused(Refusal::UsedUp(_))) => return Ok(None),
        Err(StoreError::Refused(refusal)) => return Err(anyhow!("{refusal}")),
        Err(error) => return Err(error.into()),
    };
    // One call is counted; those that follow because it fails must fit in as well.
    let [plan, judge] =
        [&models.plan, &models.judge].map(|model| model.at_most(left.saturating_add(1)));
    let prompts = &settings.prompts;
    let (spent, said) = match asking {
        ModelRequest::Plan(question) => put(&plan, question, prompts, ModelDecision::Plan).await,
        ModelRequest::Judge(command, question) => {
            let say = |verdict| ModelDecision::Judgement(command, verdict);
            put(&judge, question, prompts, say).await
        }
        ModelRequest::Replan(question) => put(&plan, question, prompts, ModelDecision::Edits).await,
        ModelRequest::Audit(question) => put(&judge, question, prompts, ModelDecision::Audit).await,
        ModelRequest::Summary(question) => {
            put(&plan, question, prompts, ModelDecision::Summary).await
        }
    }?;
    Ok(Some(ModelOutcome { ask, spent, said }))
}

/// Renders a question, and puts it to a model. Returns what that used, and the answer with its text, or why there is none.
async fn put<A: 'static>(
    model: &Model,
    question: Unrendered<A>,
    prompts: &Prompts,
    say: impl FnOnce(A) -> ModelDecision,
) -> Result<(ModelCost, Result<(ModelDecision, String), String>), PromptError> {
    Ok(match model.ask(&question.render(prompts)?).await {
        Ok(answered) => (answered.spent, Ok((say(answered.value), answered.text))),
        Err(error) => (error.spent, Err(explain(&error))),
    })
}

fn explain(error: &AskError) -> String {
    format!("{error}. Hint: {}", error.hint())
}

fn asking(
    plan: &Plan,
    subject: &ModelQuestionKind,
    facts: &str,
    checks: &[String],
    team: Option<&Team>,
) -> Result<ModelRequest, Refusal> {
    let head = plan.head();
    Ok(match subject {
        ModelQuestionKind::Plan => {
            let context = questions::PlanContext {
                goal: &head.goal,
                constraints: &head.constraints,
                workspace_facts: facts.to_owned(),
                check_names: checks,
                team,
            };
            ModelRequest::Plan(questions::plan(&context))
        }
        ModelQuestionKind::Judge(command) => {
            let unknown = || Refusal::UnknownCommand(command.clone());
            let attempt = plan.attempt(command).ok_or_else(unknown)?;
            let task = plan.task(attempt.task).ok_or_else(unknown)?;
            let stale = plan
                .attempts_of(task.number)
                .filter(|other| {
                    !matches!(other.state, AttemptState::Reported | AttemptState::Judged)
                })
                .filter_map(|other| other.report.as_ref())
                .map(|report| clip(&report.text(), STALE))
                .collect();
            let facts = questions::JudgeFacts {
                stale_reports: stale,
            };
            let command = command.clone();
            ModelRequest::Judge(command, questions::judge(plan, task, attempt, &facts))
        }
        ModelQuestionKind::Replan => {
            let open = head.replan.as_ref().ok_or(Refusal::UnknownAsk)?;
            ModelRequest::Replan(questions::replan(plan, open.task, &open.why, "", team))
        }
        ModelQuestionKind::Audit => ModelRequest::Audit(questions::audit(plan, checks, team)),
        ModelQuestionKind::Summary => ModelRequest::Summary(questions::summarise(plan)),
        // A role asks these, in a plan of its own.
        ModelQuestionKind::Strategy | ModelQuestionKind::Step(_) => {
            return Err(Refusal::UnknownAsk);
        }
    })
}

/// What is wrong with a file that is there and goes into no commit.
const NOT_COMMITTED: &str = "not in the commit of the result: git ignores it";

/// How the checks of an attempt ended, and the merge that they ran on, if its result is merged.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckOutcome {
    pub results: Vec<CheckResult>,
    pub merge: Option<PendingMerge>,
}

/// Runs the checks of a reported attempt, one after the other: the files that its task is to produce, then the commands, where
/// results are merged on what comes of merging this one.
pub(super) async fn check(
    settings: &DaemonSettings,
    store: &Store,
    clock: Clock,
    command: &CommandId,
) -> anyhow::Result<CheckOutcome> {
    let id = command.clone();
    let known = store.read(&settings.plan, move |plan, _| {
        let (head, attempt) = (plan.head(), plan.attempt(&id)?);
        let task = plan.task(attempt.task)?.clone();
        let mut names = head.policy.checks.clone();
        let is_new = |name: &&String| !head.policy.checks.contains(name);
        names.extend(task.checks.iter().filter(is_new).cloned());
        let (gathering, folder) = (Gathering::of(head), plan.workspace_of(task.number));
        Some((
            task,
            attempt.number,
            names,
            gathering,
            folder,
            head.created_at,
        ))
    });
    let mut checked = CheckOutcome::default();
    let Some((task, attempt, names, gathering, own, began)) = known.await? else {
        return Ok(checked);
    };
    checked.results = produced(&task.produces, Path::new(&own), clock.to_wall(began)).await?;
    let mut folder = settings.workspace.clone();
    if let Some(gathering) = gathering {
        match merge(settings, &gathering, &task, attempt, &mut checked).await? {
            Some(aside) => folder = aside,
            None => return Ok(checked),
        }
    }
    let marks = marks(settings);
    for name in names {
        checked.results.push(match settings.checks.get(&name) {
            Some(check) => {
                let (id, never) = (command.as_str(), std::future::pending());
                let run = exec::check_marked(check, &folder, &marks, id, never);
                let result = run.await.with_context(|| format!("check `{name}`"))?;
                result.context("a check was cancelled")?
            }
            None => CheckResult {
                name: name.clone(),
                exit: None,
                passed: false,
                tail: String::new(),
                finding: "not in the configuration any more".to_owned(),
            },
        });
    }
    Ok(checked)
}

/// Merges a result aside, if the files are there that its task is to produce. Returns the folder of the merge; `None` if something
/// failed, which is among the results then.
async fn merge(
    settings: &DaemonSettings,
    gathering: &Gathering,
    task: &Task,
    attempt: u32,
    checked: &mut CheckOutcome,
) -> anyhow::Result<Option<PathBuf>> {
    let (plan, results) = (&settings.plan, &mut checked.results);
    worktrees::fail_untouched(plan, gathering, task, results).await?;
    if results.iter().any(|result| !result.passed) {
        return Ok(None);
    }
    let (merge, aside) = match worktrees::merge(plan, gathering, task, attempt).await? {
        MergeOutcome::Merged(merge, aside) => (merge, aside),
        MergeOutcome::Failed(result) => {
            results.push(result);
            return Ok(None);
        }
    };
    // What git ignores is in the task's folder and in no result.
    let mut missing = produced(&task.produces, &aside, Time::default()).await?;
    missing.retain(|result| !result.passed);
    if missing.is_empty() {
        checked.merge = Some(merge);
        return Ok(Some(aside));
    }
    for result in &mut missing {
        NOT_COMMITTED.clone_into(&mut result.finding);
    }
    *results = missing;
    Ok(None)
}

/// Looks for the files that a task is to produce in a folder.
async fn produced(
    files: &[String],
    folder: &Path,
    since: Time,
) -> anyhow::Result<Vec<CheckResult>> {
    let (files, folder) = (files.to_vec(), folder.to_owned());
    let look = move || {
        let look = |path: &String| exec::produced(&folder, path, since);
        files.iter().map(look).collect()
    };
    Ok(tokio::task::spawn_blocking(look).await?)
}

/// Ends the checks of a daemon that was killed: beside the next run of theirs they would work in the same files.
pub(super) async fn end_checks_left_behind(settings: &DaemonSettings) {
    exec::end_left_behind(&marks(settings)).await;
}

/// Returns the folder in which checks are found while they run.
fn marks(settings: &DaemonSettings) -> PathBuf {
    settings.volumes.path(Folder::Active)
}

/// Tells the person what lies among the reports at the end and was not read, such as a file with another name.
pub(super) fn tell_unread(settings: &DaemonSettings) {
    let names = settings.volumes.unread();
    let (shown, hidden) = names.split_at(names.len().min(UNREAD));
    if shown.is_empty() {
        return;
    }
    let more = match hidden.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let folder = settings.volumes.path(Folder::ReportsPending);
    (settings.notice)(&format!(
        "unread files are left in `{}`: {}{more}",
        folder.display(),
        shown.join(", ")
    ));
}

/// Runs what blocks where blocking is allowed.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crate::volumes::VolumesError> + Send + 'static,
) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await??)
}

/// Makes the folder that agents work in.
pub(super) fn make_workspace(workspace: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(workspace)
        .with_context(|| format!("failed to make the workspace `{}`", workspace.display()))
}
