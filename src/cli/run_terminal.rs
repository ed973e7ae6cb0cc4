//! The terminal of a running plan: one line a change, and the questions to the person, asked and answered here.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::args::CarryOut;
use super::carry_out_plan::exit_of;
use super::editor::Editor;
use super::live_area::{self, LiveArea};
use super::output::shown_from_here;
use super::{App, Ended, Exit, Failure, Output, complain};
use crate::daemon::{DaemonEnd, DaemonSettings, HumanWait};
use crate::plan::{
    AnswerChoice, Draft, Event, HumanQuestion, HumanQuestionKind, IntegrationBranch, Plan,
    PlanHead, PlanId, PlanState, QuestionId, Refusal, Row, Task, TaskId,
};
use crate::store::{Change, Store, StoreError};
use crate::view::{self, EventView, FinishedView, RepeatedFailures, Style};
use crate::volumes::Folder;
use crate::wire::plan_file;
use crate::wire::question_file::meaning;
use crate::wire::text::{one_line, printable, time_text};

/// How often changes are read that other processes make.
const READ_EVERY: Duration = Duration::from_millis(500);

/// After a signal the store gets so long to say how it ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The longest name of a task in a line of progress.
const NAME: usize = 60;

/// What a person may say in addition to the choices when a plan is reviewed.
const EDIT: &str = "edit";

/// Bytes of a line that are read together; a terminal that gathers lines takes 4 KiB.
const LONGEST_LINE: u64 = 64 * 1024;

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
    /// Where an edited plan is carried out.
    workspace: PathBuf,
    /// The command line that goes on with the plan.
    resume: String,
    output: Output,
    seq: i64,
    names: BTreeMap<TaskId, String>,
    /// The question that stands on the terminal.
    asked: Option<QuestionId>,
    /// Its prompt was wiped away.
    wiped: bool,
    keyboard: Keyboard,
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
            (seq, names, plan.status().settled())
        });
        let (seq, names, settled) = seen.await?;
        let fresh = seq == 1;
        if !fresh && !silent && !settled {
            output.line(&format!("plan {plan} goes on"))?;
        }
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
            workspace: settings.workspace.clone(),
            resume: format!("{} resume {plan}{}", app.program, how.again()),
            live: LiveArea::new(app, &output).filter(|_| !silent),
            output,
            seq: if fresh { 0 } else { seq },
            names,
            asked: None,
            wiped: false,
            keyboard: Keyboard::new(),
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
            live.read(self.app, &self.plan).await?;
        }
        tokio::select! {
            gone = live_area::draw(live, self.app, &self.output) => return gone,
            Ok(()) = moved.changed() => {}
            line = self.keyboard.line() => self.answer(&line).await?,
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
                self.wipe_prompt()?;
                for change in &page {
                    self.show_change(change).await?;
                    // One after the other: this future may be dropped on the way.
                    self.seq = change.seq;
                }
            }
            if !self.asks {
                return Ok(());
            }
            let read = self
                .app
                .read(&self.plan, |plan, seq| (first_question(plan), seq));
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
                let tasks = self.app.read(&self.plan, |plan, _| view::tasks(plan));
                for line in tasks.await? {
                    self.output.line(&line)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the line away on which a person is asked; it is put there again below what is printed now.
    fn wipe_prompt(&mut self) -> Result<(), Failure> {
        if self.asked.is_some() && self.output.is_terminal() {
            self.output.text("\r\u{1b}[2K")?;
            self.wiped = true;
        }
        Ok(())
    }

    /// Puts the oldest open question on the terminal, unless it stands there.
    fn ask(&mut self, open: Option<(HumanQuestion, String)>) -> Result<(), Failure> {
        let Some((question, subject)) = open else {
            self.asked = None;
            return Ok(());
        };
        let wiped = std::mem::take(&mut self.wiped);
        if self.asked.as_ref() == Some(&question.id) {
            return match wiped {
                true => self.prompt(&question),
                false => Ok(()),
            };
        }
        self.asked = Some(question.id.clone());
        self.output.ring(&format!("asks about {subject}"))?;
        let paint = self.output.paint();
        let title = paint.text(Style::Bold, &format!("? {subject}"));
        let reason = printable(&question.reason);
        let reason: Vec<String> = reason.lines().map(|line| format!("  {line}")).collect();
        self.output
            .prose(&format!("\n{title}\n{}\n", reason.join("\n")))?;
        let choices = question.choices.iter();
        let mut offers: Vec<(&str, &str)> = choices
            .map(|choice| (choice.as_str(), meaning(question.about, *choice)))
            .collect();
        if question.about == HumanQuestionKind::Review {
            offers.push((EDIT, "change the plan in your editor first"));
        }
        for (word, meaning) in offers {
            self.output.line(&format!("    {word:<8} {meaning}"))?;
        }
        self.prompt(&question)
    }

    fn prompt(&mut self, question: &HumanQuestion) -> Result<(), Failure> {
        let mut words = choices(question);
        if question.about == HumanQuestionKind::Review {
            words.insert(1, EDIT);
        }
        self.keyboard.want();
        self.output
            .text(&format!("  {} (a note may follow) > ", words.join(" · ")))
    }

    /// Takes a line that the person typed as the answer to the question on the terminal.
    async fn answer(&mut self, line: &str) -> Result<(), Failure> {
        let Some(id) = self.asked.clone() else {
            return Ok(());
        };
        let line = line.trim();
        let (word, note) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let asked = id.clone();
        let question = (self.app).read(&self.plan, move |plan, _| plan.question(&asked).cloned());
        let Some(question) = question.await? else {
            return Ok(());
        };
        if word.eq_ignore_ascii_case(EDIT) && question.about == HumanQuestionKind::Review {
            self.edit_plan().await?;
            return self.prompt(&question);
        }
        let Some(choice) = AnswerChoice::parse(word) else {
            return self.prompt(&question);
        };
        let note = note.trim().to_owned();
        let answer = move |draft: &mut Draft<'_>| draft.answer(&id, choice, &note, "terminal");
        if !self.change("answered", answer).await? && question.open() {
            self.prompt(&question)?;
        }
        Ok(())
    }

    /// Changes the plan for the person; `false` if this is refused, which is printed.
    async fn change(
        &mut self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<bool, Failure> {
        match (self.store.change(&self.plan, "terminal", why, change)).await {
            Ok(()) => Ok(true),
            Err(StoreError::Refused(refusal)) => {
                self.output.line(&format!("  {refusal}"))?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the person edit the plan that is to be approved.
    async fn edit_plan(&mut self) -> Result<(), Failure> {
        let text = self.app.read(&self.plan, |plan, _| plan_file::render(plan));
        // Kept outside of this future, which is dropped when a signal comes or the daemon ends meanwhile.
        let edited = match Editor::open(&text.await?) {
            Ok(editor) => self.editor.insert(editor).closed().await,
            Err(error) => Err(error),
        };
        self.editor = None;
        let edited = match edited {
            Ok(edited) => edited,
            Err(error) => return self.output.line(&printable(&format!("  {error:#}"))),
        };
        let checked = plan_file::parse("plan.md", &edited).and_then(|file| {
            match self.app.mismatches(&file, &self.workspace) {
                problems if problems.is_empty() => Ok(file),
                problems => Err(problems),
            }
        });
        let file = match checked {
            Ok(file) => file,
            Err(problems) => {
                let problems = problems.iter().map(|problem| problem.in_file("plan.md"));
                let lines: String = problems.map(|problem| format!("  {problem}\n")).collect();
                return self
                    .output
                    .line(&format!("{lines}  the plan stays as it was"));
            }
        };
        let replace = move |draft: &mut Draft<'_>| {
            draft.describe(|head| {
                head.name = file.plan.name;
                head.goal = file.plan.goal;
                head.description = file.plan.description;
                head.constraints = file.plan.constraints;
            });
            draft.replace_tasks(file.plan.tasks).map(drop)
        };
        self.change("edited", replace).await.map(drop)
    }

    /// Shows the last changes, and says how it ended and how it goes on.
    async fn close(&mut self, end: &DaemonEnd, signal: Option<Exit>) -> Result<(), Failure> {
        self.show().await?;
        self.live = None;
        let paint = self.output.paint();
        let read = self.app.read(&self.plan, move |plan, _| {
            let open: Vec<HumanQuestion> = plan.open_questions().cloned().collect();
            (plan.head().clone(), open, view::results(plan, paint))
        });
        let (head, open, results) = read.await?;
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
                let place = place_of_work(&head);
                self.output.prose(&format!(
                    "\nplan {plan}: {status}\n{summary}\n{results}{place}\n"
                ))?;
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

fn first_question(plan: &Plan) -> Option<(HumanQuestion, String)> {
    let question = plan
        .open_questions()
        .min_by_key(|question| question.asked)?;
    let subject = match question.task.and_then(|id| plan.task(id)) {
        Some(task) => format!("task {} · {}", task.number, one_line(&task.name, 80)),
        None => format!("plan {}", plan.id()),
    };
    Some((question.clone(), subject))
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

/// Says where the result of a plan is, and how a person gets it.
fn place_of_work(head: &PlanHead) -> String {
    let workspace = shown_from_here(Path::new(&head.workspace));
    let Some(line) = &head.line else {
        return format!("The work is in `{workspace}`, and MISSION.md there tells about it.");
    };
    let mission = shown_from_here(&Path::new(&line.folder).join("MISSION.md"));
    let branch = IntegrationBranch::branch(&head.id);
    let place = if line.elsewhere.is_some() {
        let tip = &line.tip;
        format!("The work is at the commit `{tip}`, as somebody else moved `{branch}`")
    } else if line.tip == line.base {
        format!("Nothing was accepted that changes `{workspace}`")
    } else {
        format!(
            "The work is on the branch `{branch}`: `git merge {branch}` in `{workspace}` takes it over"
        )
    };
    format!("{place}. `{mission}` tells about it.")
}

/// The person's keyboard: a thread of its own reads a line whenever one is asked for. A read of a terminal cannot be called
/// off, and must not hold up the end; one that is pending serves the next question.
struct Keyboard {
    wanted: mpsc::Sender<()>,
    lines: mpsc::Receiver<String>,
    /// A line was asked for and has not come.
    pending: bool,
}

impl Keyboard {
    fn new() -> Self {
        let (wanted, mut asked) = mpsc::channel(1);
        let (send, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            while asked.blocking_recv().is_some() {
                let mut line = String::new();
                let mut input = std::io::stdin().lock().take(LONGEST_LINE);
                let read = input.read_line(&mut line);
                if !matches!(read, Ok(1..)) || send.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            wanted,
            lines,
            pending: false,
        }
    }

    /// Waits for the line that was asked for; for ever if none was, or the terminal is gone.
    async fn line(&mut self) -> String {
        if self.pending
            && let Some(line) = self.lines.recv().await
        {
            self.pending = false;
            return line;
        }
        std::future::pending().await
    }

    fn want(&mut self) {
        if !self.pending {
            self.pending = self.wanted.try_send(()).is_ok();
        }
    }
}
