//! The terminal of a running plan: one line a change, and the questions to the person, asked and answered here.

mod questions;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::args::CarryOut;
use super::carry_out_plan::exit_of;
use super::editor::Editor;
use super::live_area::{self, LiveArea};
use super::made_files::made_files;
use super::output::shown_from_here;
use super::prompt::Prompt;
use super::{App, Ended, Exit, Failure, Output, complain};
use crate::daemon::{DaemonEnd, DaemonSettings, HumanWait};
use crate::plan::{
    Event, HumanQuestion, PlanId, PlanPolicy, PlanState, QuestionId, ReviewPolicy, Row, Task,
    TaskId,
};
use crate::store::{Change, Store};
use crate::view::{self, EventView, FinishedView, RepeatedFailures, Style};
use crate::volumes::Folder;
use crate::wire::text::{one_line, printable, time_text};
use questions::OpenQuestion;

/// How often changes are read that other processes make.
const READ_EVERY: Duration = Duration::from_millis(500);

/// After a signal the store gets so long to say how it ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The longest name of a task in a line of progress.
const NAME: usize = 60;

/// Changes that are read together.
const PAGE: usize = 500;

/// Returns whether a person sits at this terminal and may be asked.
pub fn may_ask(how: &CarryOut) -> bool {
    !how.no_input && !how.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Follows one plan.
pub(super) struct Foreground<'a> {
    app: &'a App,
    store: &'a Store,
    plan: PlanId,
    json: bool,
    quiet: bool,
    asks: bool,
    policy: PlanPolicy,
    /// The command line that goes on with the plan.
    resume: String,
    output: Output,
    seq: i64,
    names: BTreeMap<TaskId, String>,
    /// The question that stands on the terminal.
    asked: Option<QuestionId>,
    prompt: Prompt,
    /// In which the person edits the plan now.
    editor: Option<Editor>,
    failures: RepeatedFailures,
    /// On a terminal that can draw it.
    live: Option<LiveArea>,
}

impl<'a> Foreground<'a> {
    /// Makes the terminal of a plan. What happened before now is printed only of a plan that has just been made: a resumed one
    /// does not repeat its whole story. Says where commands wait if this process has no workers.
    ///
    /// # Errors
    /// The plan cannot be read.
    pub async fn new(
        app: &'a App,
        settings: &DaemonSettings,
        how: &CarryOut,
        with_workers: bool,
        mut output: Output,
    ) -> Result<Self, Failure> {
        let (plan, json, silent) = (&settings.plan, how.json, how.json || how.quiet);
        let store = app.store().await?;
        let seen = store.read(plan, |plan, seq| {
            let names: BTreeMap<_, _> = plan.tasks().map(named).collect();
            (seq, names)
        });
        let (seq, names) = seen.await?;
        let fresh = seq == 1;
        if !with_workers && !silent {
            let commands = shown_from_here(&app.volumes.path(Folder::CommandsPending));
            output.line(&format!("no --agent: commands wait in `{commands}`"))?;
        }
        Ok(Self {
            app,
            store,
            plan: plan.clone(),
            json,
            quiet: how.quiet,
            asks: settings.human_wait == HumanWait::Wait,
            policy: settings.policy.clone(),
            resume: format!("{} resume {plan}", app.program),
            live: LiveArea::new(app, &output).filter(|_| !silent),
            output,
            seq: if fresh { 0 } else { seq },
            names,
            asked: None,
            prompt: Prompt::new(),
            editor: None,
            failures: RepeatedFailures::default(),
        })
    }

    /// Shows what happens until the daemon ends, and returns how, with the exit code of the signal that ended it, if one did:
    /// what `ended` resolves with.
    pub async fn follow(
        mut self,
        mut daemon: JoinHandle<anyhow::Result<DaemonEnd>>,
        stop: &watch::Sender<bool>,
        mut ended: Ended,
    ) -> Result<(DaemonEnd, Option<Exit>), Failure> {
        let mut moved = self.store.moved();
        let mut signal = None;
        let end = loop {
            tokio::select! {
                end = &mut daemon => break end.context("the daemon broke down")??,
                exit = &mut ended, if signal.is_none() => {
                    signal = Some(exit);
                    stop.send_replace(true);
                }
                // Takes as long as the store does, and must keep neither of the others waiting.
                attended = self.attend(&mut moved) => attended?,
            }
        };
        // Nothing is asked any more; what is asked nevertheless is printed.
        self.asks = false;
        self.prompt.end(&mut self.output)?;
        if let Some(editor) = self.editor.take()
            && let Some(kept) = editor.end().await
        {
            let kept = printable(&kept.display().to_string());
            self.output.prose(&format!(
                "\nthe editor was ended; what you had written is in `{kept}`\n"
            ))?;
        }
        let impatient = async {
            if signal.is_none() {
                ended.await;
            }
            sleep(LAST_WORDS).await;
        };
        let closed = tokio::select! {
            closed = self.close(&end, signal) => Some(closed),
            () = impatient => None,
        };
        match closed {
            Some(closed) => closed?,
            // The store does not say in time how it ended.
            None if self.json => self.finished(None, &end, signal)?,
            None => self.close_stopped()?,
        }
        Ok((end, signal))
    }

    /// Shows what happened, and waits until something happens or a person says something.
    async fn attend(&mut self, moved: &mut watch::Receiver<u64>) -> Result<(), Failure> {
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
            line = self.prompt.line(&mut self.output) => {
                let line = line?;
                self.answer(&line).await?;
            }
            () = sleep(READ_EVERY) => {}
        }
        Ok(())
    }

    /// Shows every change, and then what is asked: a question never stands above the change that led to it.
    async fn show(&mut self) -> Result<(), Failure> {
        loop {
            while let page = self.store.since(&self.plan, self.seq, PAGE).await?
                && !page.is_empty()
            {
                self.prompt.hide(&mut self.output)?;
                for change in &page {
                    self.show_change(change).await?;
                    // One after the other: this future may be dropped on the way.
                    self.seq = change.seq;
                }
            }
            if !self.asks {
                return Ok(());
            }
            let (asked, paint) = (self.asked.clone(), self.output.paint());
            let read = self.app.read(&self.plan, move |plan, seq| {
                (OpenQuestion::of(plan, asked.as_ref(), paint), seq)
            });
            let (open, seq) = read.await?;
            if seq <= self.seq {
                return self.ask(open);
            }
        }
    }

    async fn show_change(&mut self, change: &Change) -> Result<(), Failure> {
        for row in &change.delta.rows {
            if let Row::Task(task) = row {
                self.names.extend([named(task)]);
            }
        }
        for event in &change.delta.events {
            if self.json {
                let event = EventView::of(change, &self.plan, event);
                self.output.json_line(&event)?;
                continue;
            }
            // A question is put to the person in full.
            let asked = self.asks && matches!(event, Event::Asked { .. });
            if asked || is_followed(event, &change.delta.events) {
                continue;
            }
            let Some((text, style)) = view::progress(change, event, &self.names) else {
                continue;
            };
            let (text, style) = self.failures.told(event, &self.names, (text, style));
            let asks = matches!(event, Event::Asked { .. });
            if self.quiet && !asks && style != Style::Bad {
                continue;
            }
            let paint = self.output.paint();
            let time = view::clock_time(change.at, &TimeZone::system());
            let (time, text) = (paint.text(Style::Dim, &time), paint.text(style, &text));
            self.output.line(&format!("{time} {text}"))?;
            if let Event::Planned { .. } = event {
                let asks = self.asks;
                let tasks = self.app.read(&self.plan, move |plan, _| {
                    // A review shows them in full.
                    match asks && plan.head().review == ReviewPolicy::Wanted {
                        true => Vec::new(),
                        false => view::tasks(plan),
                    }
                });
                for line in tasks.await? {
                    self.output.line(&line)?;
                }
                // What a model has planned was not known before.
                if change.seq > 1 {
                    self.app.warn_of_budget(&self.plan, &self.policy).await?;
                }
            }
        }
        Ok(())
    }

    /// Shows the last changes, and says how it ended and how it goes on.
    async fn close(&mut self, end: &DaemonEnd, signal: Option<Exit>) -> Result<(), Failure> {
        self.show().await?;
        self.live = None;
        let paint = self.output.paint();
        let read = self.app.read(&self.plan, move |plan, _| {
            let open: Vec<HumanQuestion> = plan.open_questions().cloned().collect();
            let results = view::results(plan, paint);
            (plan.head().clone(), open, made_files(plan), results)
        });
        let (head, open, made, results) = read.await?;
        if self.json {
            return self.finished(Some(&head.status), end, signal);
        }
        if *end != DaemonEnd::Interrupted {
            self.output
                .ring(&format!("plan {}: {}", self.plan, head.status.as_str()))?;
        }
        let results = results.map_or(String::new(), |results| format!("{results}\n"));
        let (plan, resume) = (&self.plan, &self.resume);
        match end {
            DaemonEnd::Settled(status) => {
                let style = match status {
                    PlanState::Completed => Style::Good,
                    _ => Style::Bad,
                };
                let status = self.output.paint().text(style, status.as_str());
                let summary = printable(head.outcome.as_deref().unwrap_or_default());
                let place = self.app.place_of_work(&head);
                self.output.prose(&format!(
                    "\nplan {plan}: {status}\n{summary}\n{results}{place}\n"
                ))?;
                if let Some(made) = made {
                    self.output.prose(&format!("{made}\n"))?;
                }
            }
            DaemonEnd::Waits if open.is_empty() => {
                self.output.text(&results)?;
                complain(&format!(
                    "\nplan {plan} is paused\nHint: `{resume}` goes on\n"
                ));
            }
            DaemonEnd::Waits | DaemonEnd::Budget => {
                let state = match &head.status {
                    PlanState::Paused(why) => format!("is paused: {}", one_line(why, 200)),
                    _ => "waits for you:".to_owned(),
                };
                self.output
                    .prose(&format!("\n{results}plan {plan} {state}\n"))?;
                for question in &open {
                    let (id, program) = (&question.id, &self.app.program);
                    let reason = one_line(&question.reason, 200);
                    let choices = choices(question).join("|");
                    self.output.prose(&format!(
                        "  {id}  {reason}\n    {program} answer {id} {choices}\n"
                    ))?;
                }
                complain(&format!("Hint: answer, then `{resume}`\n"));
            }
            DaemonEnd::NoPlan => complain(&format!(
                "error: there is no plan yet\nHint: the goal is kept; `{resume}` asks the model again\n"
            )),
            DaemonEnd::Displaced(lock) => complain(&format!(
                "error: `{}` was removed or replaced: another daemon may have the folder\nHint: `{resume}` goes on where it was, once none has\n",
                shown_from_here(lock)
            )),
            DaemonEnd::Interrupted => {
                self.output.text(&format!("\n{}", results.trim_end()))?;
                self.close_stopped()?;
            }
        }
        Ok(())
    }

    fn close_stopped(&mut self) -> Result<(), Failure> {
        let resume = &self.resume;
        self.output
            .prose(&format!("\nstopped; `{resume}` goes on where it was\n"))
    }

    /// Prints the last line for a program that reads along.
    fn finished(
        &mut self,
        status: Option<&PlanState>,
        end: &DaemonEnd,
        signal: Option<Exit>,
    ) -> Result<(), Failure> {
        self.output.json_line(&FinishedView {
            at: time_text(self.app.clock.now()),
            event: "finished",
            exit: exit_of(end, signal).code(),
            plan: &self.plan,
            seq: self.seq,
            status: status.map(PlanState::as_str),
        })
    }
}

fn choices(question: &HumanQuestion) -> Vec<&'static str> {
    let choices = question.choices.iter();
    choices.map(|choice| choice.as_str()).collect()
}

fn named(task: &Task) -> (TaskId, String) {
    (task.number, one_line(&task.name, NAME))
}

/// Returns whether something else in the same change says it better.
fn is_followed(event: &Event, events: &[Event]) -> bool {
    let follows = |other: &Event| match (event, other) {
        (
            Event::Reported { command, .. },
            Event::Judged {
                command: judged, ..
            },
        ) => judged == command,
        (Event::Paused { reason }, Event::Asked { reason: asked, .. }) => asked.starts_with(reason),
        _ => false,
    };
    events.iter().any(follows)
}
