//! The work of effects: what the daemon does outside the plan. It returns a result and never changes the plan, but
//! for the count of a model's call, which is committed before the call is made.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use jiff::tz::TimeZone;

use super::apply_input::apply_model_answer;
use super::{BY, DaemonSettings, Gathering, ProofRuns, draw_question_ids, worktrees};
use crate::exec::{self, CarriedFiles, CheckFolder};
use crate::llm::questions::{self, Audit, Unrendered};
use crate::llm::{BoxFuture, LlmError};
use crate::plan::{
    AskId, Attempt, AttemptState, CheckResult, CommandId, Draft, FileProperty, ModelCost,
    ModelQuestionKind, PendingMerge, Plan, PlanSpec, Refusal, ReplanEdit, Task, Time, Verdict,
    and_more,
};
use crate::store::StoreError;
use crate::view;
use crate::volumes::Folder;
use crate::wire::{CommandFile, Team, clip};

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

/// The outcome of a question to the model.
#[derive(Clone, Debug)]
pub(super) struct ModelOutcome {
    pub ask: AskId,
    pub spent: ModelCost,
    /// The answer with its text, or why there is none.
    pub said: Result<(ModelDecision, String), LlmError>,
}

/// Only makes a plan for a goal, without carrying it out; asks a model that is away again until it answers. The caller holds
/// the folder's lock.
///
/// # Errors
/// The model gave no usable plan; the goal is kept.
pub async fn make_plan(settings: &DaemonSettings) -> Result<()> {
    anyhow::ensure!(settings.models.is_some(), "no language model is configured");
    make_workspace(&settings.workspace)?;
    let (first, mut said) = (settings.config.timing.plan.away, String::new());
    loop {
        let asked = ask(settings, ModelQuestionKind::Plan).await?;
        let asked = asked.context("the budget allows no call")?;
        let failed = asked.said.as_ref().err().map(LlmError::told);
        let (volumes, id) = (settings.volumes.clone(), asked.ask.clone());
        let apply = move |draft: &mut Draft<'_>| {
            draw_question_ids(draft, &volumes);
            apply_model_answer(draft, asked)?;
            let (plan, zone) = (draft.plan(), TimeZone::system());
            let ask = plan.ask(&id).filter(|ask| ask.answered.is_none());
            let away = ask.and_then(|ask| Some((ask.away?, view::away(ask, first, &zone)?)));
            Ok((plan.counts().total(), away))
        };
        let (tasks, away) = settings.change("the model answered", apply).await?;
        match (failed, away) {
            (Some(error), Some((away, when))) => {
                if said != error {
                    (settings.notice)(&error);
                    said = error;
                }
                (settings.notice)(&when);
                tokio::time::sleep(away.until_next(first)).await;
            }
            (Some(error), None) => anyhow::bail!(error),
            (None, _) if tasks == 0 => anyhow::bail!("the plan that the model made was refused"),
            (None, _) => return Ok(()),
        }
    }
}

/// Asks the model: counts the call, makes the question from the plan as it is then, waits for the answer. `None` if the
/// budget allows no call.
pub(super) async fn ask(
    settings: &DaemonSettings,
    subject: ModelQuestionKind,
) -> Result<Option<ModelOutcome>> {
    let models = settings.models.as_ref();
    let models = models.context("no language model is configured")?;
    let facts = match &subject {
        ModelQuestionKind::Plan => super::workspace_facts::of_workspace(&settings.workspace).await,
        _ => String::new(),
    };
    let checks: Vec<String> = settings.config.checks.keys().cloned().collect();
    let (about, team) = (subject.clone(), settings.team.clone());
    let begin = move |draft: &mut Draft<'_>, left_of_day: u32| {
        let ask = draft.begin_ask(&about)?;
        let plan = draft.plan();
        let question = question(plan, &about, &facts, &checks, team.as_deref())?;
        let was_away = plan.ask(&ask).is_some_and(|ask| ask.away.is_some());
        Ok((ask, was_away, plan.calls_left().min(left_of_day), question))
    };
    let why = [BY, "a model is asked"];
    let begun = settings.store.begin_call(&settings.plan, why, begin).await;
    let (ask, was_away, left, question) = match begun {
        Ok(begun) => begun,
        Err(StoreError::Refused(Refusal::UsedUp(_))) => return Ok(None),
        Err(StoreError::Refused(refusal)) => return Err(anyhow!("{refusal}")),
        Err(error) => return Err(error.into()),
    };
    let model = match subject {
        ModelQuestionKind::Judge(_) | ModelQuestionKind::Audit => &models.judge,
        _ => &models.plan,
    };
    // One call is counted; the retries after its failure must fit into the budget, too.
    let mut model = model.at_most(left.saturating_add(1));
    if was_away {
        model = model.without_retries();
    }
    let question = question.render(&settings.prompts)?;
    let keep = |spent| Box::pin(count(settings, ask.clone(), spent)) as BoxFuture<'_, _>;
    let (spent, said) = match model.ask(&question, &keep).await {
        Ok(answered) => (answered.spent, Ok((answered.value, answered.text))),
        Err(error) => (error.spent, Err(error)),
    };
    Ok(Some(ModelOutcome { ask, spent, said }))
}

/// Counts what a question has taken while it goes on.
async fn count(settings: &DaemonSettings, ask: AskId, spent: ModelCost) {
    // One call is left out, as it is counted when the question begins: here it is the next one's.
    let calls = spent.calls + 1;
    let count = move |draft: &mut Draft<'_>| draft.count_ask(&ask, ModelCost { calls, ..spent });
    if let Err(error) = settings.change("a model is asked again", count).await {
        tracing::warn!(%error, "what a question has taken is not counted");
    }
}

fn question(
    plan: &Plan,
    subject: &ModelQuestionKind,
    facts: &str,
    checks: &[String],
    team: Option<&Team>,
) -> Result<Unrendered<ModelDecision>, Refusal> {
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
            questions::plan(&context).map(ModelDecision::Plan)
        }
        ModelQuestionKind::Judge(command) => {
            let unknown = || Refusal::UnknownCommand(command.clone());
            let attempt = plan.attempt(command).ok_or_else(unknown)?;
            let task = plan.task(attempt.task).ok_or_else(unknown)?;
            let stale = |other: &Attempt| match other.state {
                AttemptState::Reported | AttemptState::Judged => None,
                _ => Some(clip(&other.report.as_ref()?.text(), STALE)),
            };
            let stale: Vec<String> = plan.attempts_of(task.number).filter_map(stale).collect();
            let command = command.clone();
            let decide = move |verdict| ModelDecision::Judgement(command.clone(), verdict);
            questions::judge(plan, task, attempt, &stale).map(decide)
        }
        ModelQuestionKind::Replan => {
            let open = head.replan.as_ref().ok_or(Refusal::UnknownAsk)?;
            questions::replan(plan, open.task, &open.why, "", checks, team)
                .map(ModelDecision::Edits)
        }
        ModelQuestionKind::Audit => questions::audit(plan, checks, team).map(ModelDecision::Audit),
        ModelQuestionKind::Summary => questions::summarise(plan).map(ModelDecision::Summary),
        // Only roles ask these, in their internal plans.
        ModelQuestionKind::Strategy | ModelQuestionKind::Step(_) => {
            return Err(Refusal::UnknownAsk);
        }
    })
}

/// The finding of a file that exists and goes into no commit.
const NOT_COMMITTED: &str = "not in the commit of the result: git ignores it";

/// How the checks of an attempt ended, and the merge that they ran on, if its result is merged.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckOutcome {
    pub results: Vec<CheckResult>,
    pub merge: Option<PendingMerge>,
}

/// Runs the checks of a reported attempt, one after the other: the files that its task is to produce, then the
/// commands, where results are merged on what comes of merging this one.
pub(super) async fn check(runs: &ProofRuns, command: &CommandId) -> Result<CheckOutcome> {
    let (settings, id, of) = (&runs.settings, command.clone(), runs.clone());
    let known = settings.read(move |plan, _| {
        let attempt = plan.attempt(&id)?;
        let subject = of.subject(plan, attempt.task)?;
        let folder = plan.workspace_of(attempt.task);
        let bodies = plan.attempts_of(attempt.task).map(|one| {
            let command = CommandFile::parse(&one.text);
            command.map_or_else(|_| String::new(), |command| command.body)
        });
        let texts = bodies.collect::<Vec<_>>().join("\n");
        let began = plan.head().created_at;
        Some((subject, attempt.number, (folder, texts), began))
    });
    let mut checked = CheckOutcome::default();
    let Some((subject, attempt, (own, texts), began)) = known.await? else {
        return Ok(checked);
    };
    let began = settings.clock.to_wall(began);
    checked.results = produced(&subject.task, Path::new(&own), began).await?;
    let mut merged = None;
    if let Some(gathering) = &subject.gathering {
        let task = &subject.task;
        let given = settings.gives_files && task.assignee.is_none();
        let named = Some(texts.as_str()).filter(|_| given);
        let aside = merge(settings, gathering, (task, attempt), named, &mut checked);
        let Some(aside) = aside.await? else {
            return Ok(checked);
        };
        runs.begin(&aside, command).await?;
        if !subject.names.is_empty()
            && let Some(failed) = worktrees::prepare(settings, &aside, command).await?
        {
            checked.results.push(failed);
            return Ok(checked);
        }
        merged = checked.merge.clone().map(|merge| (merge, aside));
    }
    let results = &mut checked.results;
    let without_git = merged.is_none() && subject.tree.is_none();
    subject.on_result(command, merged, results).await?;
    if without_git && results.iter().all(|result| result.passed) {
        keep_files(settings, command, &subject.task, Path::new(&own)).await?;
    }
    Ok(checked)
}

/// Keeps the files of a result that may be accepted where a daemon on another machine finds them.
async fn keep_files(
    settings: &DaemonSettings,
    command: &CommandId,
    task: &Task,
    folder: &Path,
) -> Result<()> {
    let files: Vec<String> = task.made_files().collect();
    let store = &settings.store;
    if !store.is_shared() || files.is_empty() {
        return Ok(());
    }
    match CarriedFiles::read(folder, files, Vec::new()).await {
        Ok(pack) => {
            let kept = store.keep_work(&settings.plan, command.as_str(), &pack);
            Ok(kept.await?)
        }
        // The result counts all the same; a daemon on another machine finds that it is missing.
        Err(error) => {
            tracing::warn!(%error, "a result is not kept for other machines");
            Ok(())
        }
    }
}

/// Merges a result aside, if the files that its task is to produce exist. Returns the folder of the merge; `None` if
/// something failed, which is among the results then.
async fn merge(
    settings: &DaemonSettings,
    gathering: &Gathering,
    (task, attempt): (&Task, u32),
    named: Option<&str>,
    checked: &mut CheckOutcome,
) -> Result<Option<CheckFolder>> {
    let (plan, results) = (&settings.plan, &mut checked.results);
    worktrees::fail_untouched(plan, gathering, task, results).await?;
    if results.iter().any(|result| !result.passed) {
        return Ok(None);
    }
    let (merge, aside) = match worktrees::merge(plan, gathering, task, attempt, named).await? {
        Ok(merged) => merged,
        Err(failed) => {
            results.push(failed);
            return Ok(None);
        }
    };
    worktrees::keep(settings, gathering, &merge).await?;
    // A file that git ignores is in the task's folder, but not in the merge.
    let mut missing = produced(task, aside.folder(), Time::default()).await?;
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

/// Checks that a folder has the files that a task is to produce, then those that prove its criteria.
pub(super) async fn produced(task: &Task, folder: &Path, since: Time) -> Result<Vec<CheckResult>> {
    let (produces, folder) = (task.produces.clone(), folder.to_owned());
    let properties: Vec<FileProperty> = task.criteria.files().cloned().collect();
    let check = move || {
        let produced = produces.iter();
        let produced = produced.map(|path| exec::produced(&folder, path, since));
        let properties = properties.iter();
        let found = properties.map(|file| exec::with_property(&folder, file));
        produced.chain(found).collect()
    };
    Ok(tokio::task::spawn_blocking(check).await?)
}

/// Reports to the person which files are among the reports at the end and were not read, such as a file with another
/// name. While the daemon has other plans, some may be about to be read.
pub(super) fn warn_of_unread_files(settings: &DaemonSettings) {
    let daemon = settings.volumes.running();
    let plans = daemon.and_then(|daemon| daemon.plans);
    if plans.is_some_and(|plans| plans.len() > 1) {
        return;
    }
    let names = settings.volumes.unread();
    let (shown, hidden) = names.split_at(names.len().min(UNREAD));
    if shown.is_empty() {
        return;
    }
    let more = and_more(hidden.len());
    let folder = settings.volumes.path(Folder::ReportsPending);
    let (folder, shown) = (folder.display(), shown.join(", "));
    let text = format!("unread files are left in `{folder}`: {shown}{more}");
    (settings.notice)(&text);
}

/// Runs blocking work where blocking is allowed.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crate::volumes::VolumesError> + Send + 'static,
) -> Result<T> {
    Ok(tokio::task::spawn_blocking(work).await??)
}

/// Makes the folder that agents work in.
pub(super) fn make_workspace(workspace: &Path) -> Result<()> {
    std::fs::create_dir_all(workspace)
        .with_context(|| format!("failed to make the workspace `{}`", workspace.display()))
}
