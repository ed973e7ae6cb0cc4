//! Hooks: commands of the person that are called when something happens. They run beside the loop, one of a kind at a
//! time, and their outcome changes nothing. Only the process knows what was reported: an open question, and the end
//! of a plan, may be reported again after a restart.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{DaemonSettings, EffectKey, EffectResult, LoopView, PlanRun};
use crate::config::HooksConfig;
use crate::exec::{self, ChildExit, ChildSpec, MarkKind, ProcessMark, environment};
use crate::own_files;
use crate::plan::{Plan, QuestionId, Time};
use crate::view::EventView;
use crate::view::hook_input::{ChangePart, HookCall, MOST_EVENTS};
use crate::volumes::Folder;
use crate::wire::{printable, time_text};

/// Changes that one call reports; the next call reports the rest.
const MOST_CHANGES: usize = 200;

/// What is kept of the output of one call.
const TAIL: usize = 4 * 1024;

/// A hook that prints more is ended.
const FLOOD: u64 = 1024 * 1024;

/// The log of the hooks begins anew at this size; the one before it is kept.
const LOG_SIZE: u64 = 256 * 1024;

/// What was reported to the hooks.
#[derive(Debug, Default)]
pub(super) struct HookState {
    pub questions: BTreeSet<QuestionId>,
    /// The last change.
    pub change: i64,
    pub finish: bool,
}

/// What one call reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HookNews {
    Question(QuestionId),
    Change(i64),
    Finish,
}

impl HookNews {
    /// Returns the key of the configuration, and the command that it has, if it has one.
    fn configured<'a>(&self, hooks: &'a HooksConfig) -> (&'static str, Option<&'a Vec<String>>) {
        let (key, command) = match self {
            Self::Question(_) => ("on_question", &hooks.on_question),
            Self::Finish => ("on_finish", &hooks.on_finish),
            Self::Change(_) => ("on_change", &hooks.on_change),
        };
        (key, command.as_ref())
    }
}

impl HookState {
    /// Records what a call reported.
    pub fn note(&mut self, news: HookNews) {
        match news {
            HookNews::Question(id) => drop(self.questions.insert(id)),
            HookNews::Change(to) => self.change = to,
            HookNews::Finish => self.finish = true,
        }
    }
}

impl PlanRun {
    /// Reports to the hooks what is new: one question with a file, and all changes.
    pub(super) fn call_hooks(&mut self, view: &LoopView, shown: &BTreeSet<QuestionId>) {
        let news = |reported: &HookState| {
            let is_new = |id: &&QuestionId| shown.contains(id) && !reported.questions.contains(id);
            view.awaited.questions.iter().find(is_new).cloned()
        };
        let question = news(&self.hook_state);
        self.notify_of_question(news(&self.notify_state.sent));
        if let Some(id) = question {
            self.call_hook(HookNews::Question(id));
        }
        if view.seq > self.hook_state.change {
            self.call_hook(HookNews::Change(view.seq));
        }
    }

    /// Reports the end of the plan to the hook and the person. Returns whether the daemon waits for one of them.
    pub(super) fn report_finish(&mut self) -> bool {
        // Both begin.
        let notifies = self.notify_of_finish();
        let calls = !self.hook_state.finish && self.call_hook(HookNews::Finish);
        notifies || calls
    }

    /// Returns whether there is such a hook.
    fn call_hook(&mut self, what: HookNews) -> bool {
        let (hook, command) = what.configured(&self.settings.config.hooks);
        let Some(argv) = command.cloned() else {
            return false;
        };
        let settings = Arc::clone(&self.settings);
        let (now, since) = (self.world.now, self.hook_state.change);
        self.spawn(EffectKey::Hook(hook), async move {
            let (hook_state, call) = call(&settings, what, since, now).await?;
            if let Some(call) = call {
                run(&settings, hook, argv, call.render(), now).await;
            }
            Ok(EffectResult::HookCalled(hook_state))
        });
        true
    }
}

/// Returns what is reported then, and the call; none where nothing is left to report.
pub(super) async fn call(
    settings: &DaemonSettings,
    what: HookNews,
    since: i64,
    now: Time,
) -> Result<(HookNews, Option<HookCall>)> {
    let plan = &settings.plan;
    Ok(match what {
        HookNews::Question(id) => {
            let file = settings.volumes.question(&id).display().to_string();
            let wanted = id.clone();
            let call = settings.read(move |plan, _| {
                let question = plan.question(&wanted).filter(|question| question.open())?;
                Some(HookCall::question(plan, question, &file, now))
            });
            (HookNews::Question(id), call.await?)
        }
        HookNews::Finish => {
            let call = settings.read(move |plan, _| HookCall::finish(plan, now));
            (HookNews::Finish, Some(call.await?))
        }
        HookNews::Change(to) => {
            let changes = settings.store.since(plan, since, MOST_CHANGES).await?;
            let to = changes.last().map_or(to, |last| last.seq);
            let views = |change| EventView::all(change, plan);
            let mut events: Vec<EventView> = changes.iter().flat_map(views).collect();
            if events.is_empty() {
                return Ok((HookNews::Change(to), None));
            }
            let left_out = events.len().saturating_sub(MOST_EVENTS);
            events.truncate(MOST_EVENTS);
            let change = ChangePart {
                from: since + 1,
                to,
                events,
                left_out,
            };
            let call = settings.read(move |plan: &Plan, _| HookCall::change(plan, &change, now));
            (HookNews::Change(to), Some(call.await?))
        }
    })
}

/// Runs a hook to its end, and logs the outcome; a failure is reported to the person.
async fn run(settings: &DaemonSettings, hook: &str, argv: Vec<String>, call: String, now: Time) {
    let hooks = &settings.config.hooks;
    let spec = ChildSpec {
        argv,
        cwd: settings.config.folder().to_owned(),
        env: environment(&hooks.env),
        stdin: Some(call.into_bytes()),
        deadline: hooks.timeout,
    };
    let marks = settings.volumes.path(Folder::Active);
    // Each plan in the folder has its own.
    let mark = format!("{}-{hook}", settings.plan);
    let (ended, said) = match run_capped(&spec, &marks, &mark).await {
        Ok((outcome, said)) => (ended(outcome, hooks.timeout), said),
        Err(error) => (Err(format!("{error:#}")), String::new()),
    };
    if let Err(failed) = &ended {
        tracing::warn!(hook, failed, "a hook failed");
        (settings.notice)(&format!("the hook `{hook}` failed: {failed}"));
    }
    let how = ended.unwrap_or_else(|failed| failed);
    log(settings, now, &format!("{hook}: {how}"), &said);
}

/// Adds a line to the log of the hooks, and the words of others below it.
pub(super) fn log(settings: &DaemonSettings, now: Time, line: &str, said: &str) {
    let log = settings.volumes.path(Folder::Logs).join("hooks.log");
    let said = printable(said);
    let said: String = said.lines().map(|line| format!("  {line}\n")).collect();
    if let Err(error) = append(&log, &format!("{} {line}\n{said}", time_text(now))) {
        tracing::warn!(%error, path = %log.display(), "the log of the hooks cannot be written");
    }
}

/// Runs a hook, with a mark while it runs: after a kill of the daemon, the next one ends the hook.
async fn run_capped(spec: &ChildSpec, marks: &Path, mark: &str) -> Result<(ChildExit, String)> {
    let (mut mark, output) = ProcessMark::new(marks, MarkKind::Hook, mark)?
        .context("an earlier call of it still runs")?;
    let flood = output.flooded(FLOOD);
    let outcome = exec::run(spec, &output, |group| mark.name_group(group.id()), flood).await?;
    Ok((outcome, output.out_since(0, TAIL)))
}

/// Returns how a hook ended, as an error if it failed.
fn ended(outcome: ChildExit, timeout: Duration) -> Result<String, String> {
    match (outcome.exit, outcome.signal) {
        _ if outcome.timed_out => Err(format!("ended after {timeout:?}")),
        _ if outcome.cancelled => Err("ended because it printed without end".to_owned()),
        (Some(0), _) => Ok("exit 0".to_owned()),
        (Some(code), _) => Err(format!("exit {code}")),
        (None, signal) => Err(format!("ended by signal {}", signal.unwrap_or_default())),
    }
}

fn append(log: &Path, text: &str) -> std::io::Result<()> {
    if fs::symlink_metadata(log).is_ok_and(|metadata| metadata.len() > LOG_SIZE) {
        fs::rename(log, log.with_extension("log.old"))?;
    }
    own_files::to_append(log)?.write_all(text.as_bytes())
}
