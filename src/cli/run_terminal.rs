//! The terminal of a running plan: one line a change, and the questions to the person, asked and answered here.

mod questions;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::tz::TimeZone;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::super::{
    App, CarryOut, Ended, Exit, Failure, Result, Work, complain, displaced, exit_of, in_foreground,
    live_area, print_on_stderr, shown_from_here,
};
use super::edit_plan::PlanEdit;
use super::live_area::LiveArea;
use super::prompt::Prompt;
use crate::daemon::DaemonEnd;
use crate::plan::{
    Event, HumanQuestion, IntegrationBranch, ModelQuestion, Plan, PlanId, PlanPolicy, PlanState,
    QuestionId, ReviewPolicy, Row, Task, TaskId, TaskState, and_more, unless_empty,
};
use crate::store::{Change, Store};
use crate::view::{self, EventView, RepeatedFailures, Style};
use crate::volumes::DaemonInfo;
use crate::wire::{joined, one_line, printable, time_text};
use questions::OpenQuestion;

/// How often changes are read that other processes make.
const READ_EVERY: Duration = Duration::from_millis(500);

/// After a signal the store gets so long to say how it ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The longest name of a task in a line of progress.
const NAME: usize = 60;

/// Changes that are read together.
const PAGE: usize = 500;

/// The most files that are named at the end.
const MOST: usize = 6;

/// Returns whether a person sits at this terminal and may be asked.
pub fn may_ask(how: &CarryOut) -> bool {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    !how.no_input && !how.json && terminal
}

/// Follows one plan.
pub struct Foreground<'a> {
    app: &'a App,
    store: &'a Store,
    how: &'a CarryOut,
    plan: PlanId,
    asks: bool,
    policy: PlanPolicy,
    /// The command line that goes on with the plan.
    resume: String,
    /// The last change that was shown.
    pub seq: i64,
    names: BTreeMap<TaskId, String>,
    /// The question that stands on the terminal.
    asked: Option<QuestionId>,
    prompt: Prompt,
    /// In which the person edits the plan now.
    edit: Option<PlanEdit>,
    failures: RepeatedFailures,
    /// On a terminal that can draw it.
    live: Option<LiveArea>,
}

impl<'a> Foreground<'a> {
    /// Makes the terminal of a plan. What happened before now is printed only of a plan that has just been made: a resumed one
    /// does not repeat its whole story.
    ///
    /// # Errors
    /// The plan cannot be read.
    pub async fn new(work: &'a Work, plan: &PlanId, policy: PlanPolicy) -> Result<Self> {
        let (app, how) = (&work.app, &work.how);
        let silent = how.json || how.quiet;
        let store = app.store().await?;
        let seen = store.read(plan, |plan, seq| (seq, plan.tasks().map(named).collect()));
        let (seq, names) = seen.await?;
        Ok(Self {
            app,
            store,
            how,
            plan: plan.clone(),
            asks: may_ask(how),
            policy,
            resume: format!("{} resume {plan}", app.program),
            live: LiveArea::new(app).filter(|_| !silent),
            seq: if seq == 1 { 0 } else { seq },
            names,
            asked: None,
            prompt: Prompt::default(),
            edit: None,
            failures: RepeatedFailures::default(),
        })
    }

    /// Shows what happens until the daemon ends, and returns how, with the exit code of the signal that ended it, if one did:
    /// what `ended` resolves with.
    pub async fn follow(
        &mut self,
        mut daemon: JoinHandle<anyhow::Result<DaemonEnd>>,
        stop: &watch::Sender<bool>,
        mut ended: Ended,
    ) -> Result<(DaemonEnd, Option<Exit>)> {
        let mut moved = self.store.moved();
        let mut signal = None;
        let end = loop {
            tokio::select! {
                end = &mut daemon => break end.context("the daemon broke down").flatten(),
                exit = &mut ended, if signal.is_none() => {
                    signal = Some(exit);
                    stop.send_replace(true);
                }
                // Takes as long as the store does, and must keep neither of the others waiting.
                attended = self.attend(&mut moved) => match attended {
                    // The daemon says so, and goes on when the store answers again.
                    Err(failure) if failure.of_store => sleep(READ_EVERY).await,
                    attended => attended?,
                },
            }
        };
        // Nothing is asked any more; what is asked nevertheless is printed.
        self.asks = false;
        self.prompt.end(self.app.out)?;
        if let Some(edit) = self.edit.take()
            && let Some(kept) = edit.end().await
        {
            let kept = printable(&kept.display().to_string());
            let said = format!("\nthe editor was ended; what you had written is in `{kept}`\n");
            self.app.out.prose(&said)?;
        }
        let end = end?;
        let exit = exit_of(&end, signal);
        let impatient = async {
            if signal.is_none() {
                ended.await;
            }
            sleep(LAST_WORDS).await;
        };
        let closed = tokio::select! {
            closed = self.close(&end, exit) => Some(closed),
            () = impatient => None,
        };
        match closed {
            Some(closed) => closed?,
            // The store does not say in time how it ended.
            None if self.how.json => self.finished(None, exit)?,
            None => self.close_stopped()?,
        }
        Ok((end, signal))
    }

    /// Shows what happened, and waits until something happens or a person says something.
    async fn attend(&mut self, moved: &mut watch::Receiver<u64>) -> Result {
        self.show().await?;
        // A line that a person types is not torn.
        let mut live = self.live.as_mut().filter(|_| self.asked.is_none());
        if let Some(live) = &mut live {
            self.prompt.hush();
            live.read(self.app, &self.plan).await?;
        }
        tokio::select! {
            gone = live_area::draw(live, self.app) => return gone,
            Ok(()) = moved.changed() => {}
            line = self.prompt.line(self.app.out) => {
                let answered = self.answer(&line?).await;
                if let Err(failure) = &answered
                    && failure.of_store
                {
                    failure.complain("your answer was not taken, give it again");
                }
                answered?;
            }
            () = sleep(READ_EVERY) => {}
        }
        Ok(())
    }

    /// Returns whether questions are put to the person on this terminal now.
    fn asks_here(&self) -> bool {
        self.asks && in_foreground()
    }

    /// Shows every change, and then what is asked: a question never stands above the change that led to it.
    async fn show(&mut self) -> Result {
        loop {
            while let page = self.store.since(&self.plan, self.seq, PAGE).await?
                && !page.is_empty()
            {
                self.prompt.hide(self.app.out)?;
                for change in &page {
                    // This future may be dropped wherever it waits, and nothing is printed twice then.
                    let lines = self.lines_of(change).await?;
                    for line in &lines {
                        self.app.out.line(line)?;
                    }
                    for event in change.delta.events.iter().filter(|_| self.how.json) {
                        let event = EventView::of(change, &self.plan, event);
                        self.app.out.json_line(&event)?;
                    }
                    self.seq = change.seq;
                    // What a model has planned was not known before.
                    let silent = self.how.json || self.how.quiet;
                    let plans = |event: &Event| matches!(event, Event::Planned { .. });
                    if change.seq > 1 && !silent && change.delta.events.iter().any(plans) {
                        self.app.warn_of_budget(&self.plan, &self.policy).await?;
                    }
                }
            }
            if !self.asks_here() {
                return self.ask(None);
            }
            let (asked, paint) = (self.asked.clone(), self.app.out.paint);
            let read = self.app.read(&self.plan, move |plan, seq| {
                (OpenQuestion::of(plan, asked.as_ref(), paint), seq)
            });
            let (open, seq) = read.await?;
            if seq <= self.seq {
                return self.ask(open);
            }
        }
    }

    /// Returns what is printed of a change for a person.
    async fn lines_of(&mut self, change: &Change) -> Result<Vec<String>> {
        let time = view::clock_time(change.at, &TimeZone::system());
        let asks_here = self.asks_here();
        let silent = self.how.json || self.how.quiet || asks_here;
        let mut lines = Vec::new();
        for row in &change.delta.rows {
            match row {
                Row::Task(task) => self.names.extend([named(task)]),
                // A question on the terminal says it beside itself.
                Row::Ask(ask) if !silent && ask.away.is_some_and(|away| away.at == change.at) => {
                    lines.extend(self.away(ask).map(|said| format!("{time} {said}")));
                }
                _ => {}
            }
        }
        for event in change.delta.events.iter().filter(|_| !self.how.json) {
            // A question is put to the person in full.
            let asked = asks_here && matches!(event, Event::Asked { .. });
            if asked || is_followed(event, &change.delta.events) {
                continue;
            }
            let Some((text, style)) = self.failures.progress(change, event, &self.names) else {
                continue;
            };
            let asks = matches!(event, Event::Asked { .. });
            if self.how.quiet && !asks && style != Style::Bad {
                continue;
            }
            let paint = self.app.out.paint;
            let (time, text) = (paint.text(Style::Dim, &time), paint.text(style, &text));
            lines.push(format!("{time} {text}"));
            if let Event::Planned { .. } = event {
                let tasks = self.app.read(&self.plan, move |plan, _| {
                    // A review shows them in full.
                    match asks_here && plan.head().review == ReviewPolicy::Wanted {
                        true => Vec::new(),
                        false => view::tasks(plan),
                    }
                });
                lines.extend(tasks.await?);
                let expected = self.expected(true).await?;
                lines.extend(expected.map(|expected| format!("           {expected}")));
            }
        }
        Ok(lines)
    }

    /// Says what the tasks may take, or have taken.
    async fn expected(&self, guess: bool) -> Result<Option<String>> {
        let lanes = self.policy.max_parallel;
        self.app.expected(&self.plan, lanes, guess).await
    }

    /// Returns since when a model is away, and when it is asked again.
    fn away(&self, ask: &ModelQuestion) -> Option<String> {
        view::away(ask, self.app.config.timing.plan.away, &TimeZone::system())
    }

    /// Shows the last changes, and says how it ended and how it goes on.
    async fn close(&mut self, end: &DaemonEnd, exit: Exit) -> Result {
        self.show().await?;
        self.live = None;
        let paint = self.app.out.paint;
        let read = self.app.read(&self.plan, move |plan, _| {
            let open: Vec<HumanQuestion> = plan.open_questions().cloned().collect();
            let made = made_files(plan) + &unheard_words(plan);
            (plan.head().clone(), open, made, view::results(plan, paint))
        });
        let (head, open, made, results) = read.await?;
        if self.how.json {
            return self.finished(Some(&head.status), exit);
        }
        if *end != DaemonEnd::Interrupted {
            let notice = format!("plan {}: {}", self.plan, head.status.as_str());
            self.app.out.ring(&notice)?;
        }
        let results = results.map_or(String::new(), |results| format!("{results}\n"));
        let (plan, resume) = (&self.plan, &self.resume);
        match end {
            DaemonEnd::Settled(status) => {
                let good = *status == PlanState::Completed;
                let style = if good { Style::Good } else { Style::Bad };
                let status = self.app.out.paint.text(style, status.as_str());
                let expected = self.expected(false).await?;
                let expected = expected.map_or(String::new(), |expected| format!("{expected}\n"));
                let summary = printable(head.outcome.as_deref().unwrap_or_default());
                let place = self.app.place_of_work(&head);
                let text = format!(
                    "\nplan {plan}: {status}\n{summary}\n{results}{expected}{place}\n{made}"
                );
                self.app.out.prose(&text)?;
            }
            DaemonEnd::Waits if open.is_empty() => {
                self.app.out.text(&results)?;
                complain!("\nplan {plan} is paused\nHint: `{resume}` goes on");
            }
            DaemonEnd::Waits | DaemonEnd::Budget => {
                let state = match &head.status {
                    PlanState::Paused(why) => format!("is paused: {}", one_line(why, 200)),
                    _ => "waits for you:".to_owned(),
                };
                let questions = open.iter().map(|question| {
                    let (id, program) = (&question.id, &self.app.program);
                    let reason = one_line(&question.reason, 600);
                    let choices = question.choices.iter().map(|choice| choice.as_str());
                    let choices = joined(choices, "|");
                    let task = question.task.map(|task| format!("task {task}: "));
                    let task = task.unwrap_or_default();
                    format!("  {id}  {task}{reason}\n    {program} answer {id} {choices}\n")
                });
                let questions: String = questions.collect();
                let text = format!("\n{results}plan {plan} {state}\n{questions}");
                self.app.out.prose(&text)?;
                match self.other_daemon() {
                    Some(_) => complain!("Hint: answer, and it goes on by itself"),
                    None => complain!("Hint: answer, then `{resume}`"),
                }
            }
            DaemonEnd::NoPlan => complain!(
                "error: there is no plan yet\nHint: the goal is kept; `{resume}` asks the model again"
            ),
            DaemonEnd::Displaced(file) => complain!(
                "error: {}\nHint: `{resume}` goes on with what is there, once no other daemon has the folder; if the plan is gone, `git merge {}` takes over what was accepted in worktrees",
                displaced(file),
                IntegrationBranch::branch(&self.plan)
            ),
            DaemonEnd::Interrupted | DaemonEnd::Idle => {
                self.app.out.text(&format!("\n{}", results.trim_end()))?;
                self.close_stopped()?;
            }
        }
        Ok(())
    }

    /// Returns the daemon that carries the plan out, if it is another process.
    fn other_daemon(&self) -> Option<DaemonInfo> {
        let daemon = self.app.volumes.daemon_of(&self.plan);
        daemon.filter(|daemon| daemon.pid != std::process::id())
    }

    fn close_stopped(&mut self) -> Result {
        let (plan, program, resume) = (&self.plan, &self.app.program, &self.resume);
        self.app.out.prose(&match self.other_daemon() {
            Some(DaemonInfo { pid, .. }) => format!(
                "\nplan {plan} goes on in the background (pid {pid}): `{program} status` shows it, `pause` holds it, `abort` ends it\n"
            ),
            None => format!("\nstopped; `{resume}` goes on where it was\n"),
        })
    }

    /// Prints the last line for a program that reads along.
    fn finished(&self, status: Option<&PlanState>, exit: Exit) -> Result {
        self.app.out.json_line(&json!({
            "at": time_text(self.app.clock.now()),
            "event": "finished",
            "exit": exit.code(),
            "plan": self.plan,
            "seq": self.seq,
            "status": status.map(PlanState::as_str),
        }))
    }
}

/// Names the files that completed tasks had to produce, in a line if there are any. With worktrees they are not in the
/// workspace before the results are taken over, so only their names in it are shown.
fn made_files(plan: &Plan) -> String {
    let head = plan.head();
    let mut tasks: Vec<&Task> = plan.tasks().collect();
    tasks.retain(|task| task.status == TaskState::Completed);
    let mut seen = BTreeSet::new();
    let files = tasks.into_iter().flat_map(|task| &task.produces);
    let files: Vec<&String> = files.filter(|file| seen.insert(*file)).collect();
    let shown = files.iter().take(MOST).map(|file| match head.line {
        Some(_) => one_line(file, 300),
        None => shown_from_here(&Path::new(&head.workspace).join(file)),
    });
    let shown = joined(shown.map(|file| format!("`{file}`")), ", ");
    let more = and_more(files.len().saturating_sub(MOST));
    unless_empty(&shown, |shown| format!("It was to write: {shown}{more}.\n"))
}

/// Says which tasks ended before a command took a person's words along, a line each.
fn unheard_words(plan: &Plan) -> String {
    let ended = plan.tasks().filter(|task| task.status.settled());
    let lines = ended.filter_map(|task| {
        let (number, words) = (task.number, one_line(task.told.as_ref()?, 200));
        let what = "ended before its agent got this";
        Some(format!("! task {number} {what}: {words}\n"))
    });
    lines.collect()
}

fn named(task: &Task) -> (TaskId, String) {
    (task.number, one_line(&task.name, NAME))
}

/// Returns whether something else in the same change says it better.
fn is_followed(event: &Event, events: &[Event]) -> bool {
    let follows = |other: &Event| match (event, other) {
        (Event::Reported { command: of, .. }, Event::Judged { command, .. }) => of == command,
        (Event::Paused { reason }, Event::Asked { reason: asked, .. }) => asked.starts_with(reason),
        _ => false,
    };
    events.iter().any(follows)
}
