//! The terminal of a running plan: one line a change, and the questions to the human, asked and answered here.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::app::App;
use super::args::CarryOut;
use super::editor::Editor;
use super::failure::{Exit, Failure};
use super::output::{Output, complain};
use super::plan_process::exit_of;
use super::signals::Ended;
use crate::daemon::{DaemonEnd, DaemonSettings};
use crate::plan::{
    AnswerChoice, Event, HumanQuestion, HumanQuestionKind, IntegrationBranch, Plan, PlanId,
    PlanState, QuestionId, TaskId,
};
use crate::store::{Change, Store, StoreError};
use crate::view::{self, EventView, FinishedView, Style};
use crate::volumes::Folder;
use crate::wire::plan_file;
use crate::wire::question_file::meaning;
use crate::wire::team_file::Team;
use crate::wire::text::{one_line, printable, time_text};

/// Changes that other processes make are looked for that often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// After a signal the store gets so long to say how it ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The longest name of a task in a line of progress.
const NAME: usize = 60;

/// What a person may say besides the choices when a plan is reviewed.
const EDIT: &str = "edit";

/// Bytes of a line that is read at once; a terminal that gathers lines takes 4 KiB.
const LONGEST_LINE: u64 = 64 * 1024;

/// Changes read at once.
const PAGE: usize = 500;

/// Returns whether a person sits at this terminal and may be asked.
pub fn may_ask(how: &CarryOut) -> bool {
    !how.no_input && !how.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Follows one plan.
pub(super) struct Foreground<'a> {
    app: &'a App,
    store: Store,
    plan: PlanId,
    json: bool,
    asks: bool,
    /// Where an edited plan is carried out, and by whom.
    workspace: PathBuf,
    team: Option<Arc<Team>>,
    /// The command line that goes on with the plan.
    resume: String,
    output: Output,
    seq: i64,
    names: BTreeMap<TaskId, String>,
    /// The question that stands on the terminal.
    asked: Option<QuestionId>,
    /// Its prompt was wiped away.
    asked_again: bool,
    keyboard: Keyboard,
    /// In which the person edits the plan now.
    editor: Option<Editor>,
}

impl<'a> Foreground<'a> {
    /// Makes the terminal of a plan; `manned` tells that somebody here takes commands. What happened before now is told only of
    /// a plan that has just been made: a resumed one does not tell its whole story again.
    ///
    /// # Errors
    /// The plan cannot be read.
    pub async fn new(
        app: &'a App,
        settings: &DaemonSettings,
        how: &CarryOut,
        asks: bool,
        with_workers: bool,
        mut output: Output,
    ) -> Result<Self, Failure> {
        let (plan, json) = (&settings.plan, how.json);
        let store = app.store().await?.clone();
        let seen = store.read(plan, |plan, seq| {
            (seq, names(plan), plan.status().settled())
        });
        let (seq, names, settled) = seen.await?;
        let fresh = seq == 1;
        if !fresh && !json && !settled {
            output.line(&format!("plan {plan} goes on"))?;
        }
        if !with_workers && !json {
            let commands = app.volumes.path(Folder::CommandsPending);
            output.line(&format!(
                "no --agent: commands wait in `{}`",
                shown(&commands)
            ))?;
        }
        Ok(Self {
            app,
            store,
            plan: plan.clone(),
            json,
            asks,
            workspace: settings.workspace.clone(),
            team: settings.team.clone(),
            resume: format!("{} resume {plan}{}", app.program, how.again()),
            output,
            seq: if fresh { 0 } else { seq },
            names,
            asked: None,
            asked_again: false,
            keyboard: Keyboard::new(),
            editor: None,
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
        let told = tokio::select! {
            told = self.finish(&end, signal) => Some(told),
            () = impatient => None,
        };
        match told {
            Some(told) => told?,
            None => self.close_unread(&end, signal)?,
        }
        Ok((end, signal))
    }

    /// Shows what there is, and waits until something happens or a person says something.
    async fn attend(&mut self, moved: &mut watch::Receiver<u64>) -> Result<(), Failure> {
        self.show().await?;
        tokio::select! {
            Ok(()) = moved.changed() => {}
            line = self.keyboard.line() => self.hear(&line).await?,
            () = sleep(LOOK_AGAIN) => {}
        }
        Ok(())
    }

    async fn finish(&mut self, end: &DaemonEnd, signal: Option<Exit>) -> Result<(), Failure> {
        self.show().await?;
        self.close(end, signal).await
    }

    /// Says how it goes on where the store does not tell in time how it ended.
    fn close_unread(&mut self, end: &DaemonEnd, signal: Option<Exit>) -> Result<(), Failure> {
        if self.json {
            return self.finished(None, end, signal);
        }
        self.close_stopped()
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

    /// Shows every change that there is, and then what is asked: a question never stands above the change that led to it.
    async fn show(&mut self) -> Result<(), Failure> {
        loop {
            while let page = self.store.since(&self.plan, self.seq, PAGE).await?
                && !page.is_empty()
            {
                self.wipe_prompt()?;
                for change in &page {
                    self.show_change(change).await?;
                    // One after the other: this may be dropped on the way.
                    self.seq = change.seq;
                }
            }
            if !self.asks {
                return Ok(());
            }
            let (open, seq) = self
                .store
                .read(&self.plan, |plan, seq| (first_question(plan), seq))
                .await?;
            if seq <= self.seq {
                return self.ask(open);
            }
        }
    }

    async fn show_change(&mut self, change: &Change) -> Result<(), Failure> {
        for row in &change.delta.rows {
            if let crate::plan::Row::Task(task) = row {
                self.names.insert(task.number, one_line(&task.name, NAME));
            }
        }
        for event in &change.delta.events {
            if self.json {
                self.output
                    .json_line(&EventView::of(change, &self.plan, event))?;
            } else if self.asks && matches!(event, Event::Asked { .. }) {
                // It is put to the person in full.
            } else if is_followed(event, &change.delta.events) {
                // The verdict says what was reported, the question why it is paused.
            } else if let Some((text, style)) = view::progress(change, event, &self.names) {
                let time = view::clock_time(change.at, &TimeZone::system());
                let paint = self.output.paint();
                self.output.line(&format!(
                    "{} {}",
                    paint.text(Style::Dim, &time),
                    paint.text(style, &text)
                ))?;
                if let Event::Planned { .. } = event {
                    self.show_plan().await?;
                }
            }
        }
        Ok(())
    }

    /// Lists the tasks of a new plan.
    async fn show_plan(&mut self) -> Result<(), Failure> {
        let lines = self
            .store
            .read(&self.plan, |plan, _| view::tasks(plan))
            .await?;
        for line in lines {
            self.output.line(&line)?;
        }
        Ok(())
    }

    /// Takes the line away on which a person is asked; it is put there again below what is printed now.
    fn wipe_prompt(&mut self) -> Result<(), Failure> {
        if self.asked.is_some() && self.output.is_terminal() {
            self.output.text("\r\u{1b}[2K")?;
            self.asked_again = true;
        }
        Ok(())
    }

    /// Puts the oldest open question on the terminal, unless it stands there.
    fn ask(&mut self, open: Option<(HumanQuestion, String)>) -> Result<(), Failure> {
        let Some((question, subject)) = open else {
            self.asked = None;
            return Ok(());
        };
        let wiped = std::mem::take(&mut self.asked_again);
        if self.asked.as_ref() == Some(&question.id) {
            return if wiped {
                self.prompt(&question)
            } else {
                Ok(())
            };
        }
        self.asked = Some(question.id.clone());
        let paint = self.output.paint();
        let title = paint.text(Style::Bold, &format!("? {subject}"));
        self.output.prose(&format!(
            "\n{title}\n{}\n",
            indent(&printable(&question.reason))
        ))?;
        for choice in &question.choices {
            let meaning = meaning(question.about, *choice);
            let line = format!("    {:<8} {meaning}", choice.as_str());
            let line = self.output.paint().text(Style::Dim, &line);
            self.output.line(&line)?;
        }
        if question.about == HumanQuestionKind::Review {
            let line = format!("    {EDIT:<8} change the plan in your editor first");
            let line = self.output.paint().text(Style::Dim, &line);
            self.output.line(&line)?;
        }
        self.prompt(&question)
    }

    fn prompt(&mut self, question: &HumanQuestion) -> Result<(), Failure> {
        let mut words: Vec<&str> = question
            .choices
            .iter()
            .map(|choice| choice.as_str())
            .collect();
        if question.about == HumanQuestionKind::Review {
            words.insert(1, EDIT);
        }
        self.keyboard.want();
        self.output
            .text(&format!("  {} (a note may follow) > ", words.join(" · ")))
    }

    /// Takes a line that the person typed as the answer to the question on the terminal.
    async fn hear(&mut self, line: &str) -> Result<(), Failure> {
        let Some(id) = self.asked.clone() else {
            return Ok(());
        };
        let (word, note) = line
            .trim()
            .split_once(char::is_whitespace)
            .unwrap_or((line.trim(), ""));
        let wanted = id.clone();
        let question = self
            .store
            .read(&self.plan, move |plan, _| plan.question(&wanted).cloned())
            .await?;
        let Some(question) = question else {
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
        let answered = self
            .store
            .change(&self.plan, "terminal", "answered", move |draft| {
                draft.answer(&id, choice, &note, "terminal")
            })
            .await;
        match answered {
            Ok(()) => {}
            Err(StoreError::Refused(refusal)) => {
                self.output.line(&format!("  {refusal}"))?;
                if question.open() {
                    self.prompt(&question)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Lets the person edit the plan that is to be approved.
    async fn edit_plan(&mut self) -> Result<(), Failure> {
        let text = self
            .store
            .read(&self.plan, |plan, _| plan_file::render(plan))
            .await?;
        // Kept outside of this, which is dropped when a signal comes or the daemon ends meanwhile.
        let edited = match Editor::open(&text) {
            Ok(editor) => self.editor.insert(editor).closed().await,
            Err(error) => Err(error),
        };
        self.editor = None;
        let edited = match edited {
            Ok(edited) => edited,
            Err(error) => return self.output.line(&printable(&format!("  {error:#}"))),
        };
        let parsed = plan_file::parse("plan.md", &edited);
        let mismatches =
            |file: &_| (self.app).mismatches(file, &self.workspace, self.team.as_deref());
        let fitting = parsed.and_then(|file| match mismatches(&file) {
            problems if problems.is_empty() => Ok(file),
            problems => Err(problems),
        });
        let file = match fitting {
            Ok(file) => file,
            Err(problems) => {
                let lines: Vec<String> = problems
                    .iter()
                    .map(|problem| format!("  {}", problem.in_file("plan.md")))
                    .collect();
                return self
                    .output
                    .line(&format!("{}\n  the plan stays as it was", lines.join("\n")));
            }
        };
        let changed = self
            .store
            .change(&self.plan, "terminal", "edited", move |draft| {
                draft.describe(|head| {
                    head.name = file.plan.name;
                    head.goal = file.plan.goal;
                    head.description = file.plan.description;
                    head.constraints = file.plan.constraints;
                });
                draft.replace_tasks(file.plan.tasks).map(drop)
            })
            .await;
        match changed {
            Ok(()) => Ok(()),
            Err(StoreError::Refused(refusal)) => self.output.line(&format!("  {refusal}")),
            Err(error) => Err(error.into()),
        }
    }

    /// Says how it ended and how it goes on.
    async fn close(&mut self, end: &DaemonEnd, signal: Option<Exit>) -> Result<(), Failure> {
        let (status, workspace, line, summary, open) = self
            .store
            .read(&self.plan, |plan, _| {
                let open: Vec<HumanQuestion> = plan.open_questions().cloned().collect();
                (
                    plan.status().clone(),
                    plan.head().workspace.clone(),
                    plan.head().line.clone(),
                    plan.head().outcome.clone().unwrap_or_default(),
                    open,
                )
            })
            .await?;
        if self.json {
            return self.finished(Some(&status), end, signal);
        }
        let (plan, resume) = (self.plan.clone(), self.resume.clone());
        match end {
            DaemonEnd::Settled(status) => {
                let style = if *status == PlanState::Completed {
                    Style::Good
                } else {
                    Style::Bad
                };
                let head = self.output.paint().text(style, status.as_str());
                let place = place_of_work(&plan, &workspace, line.as_ref());
                self.output.prose(&format!(
                    "\nplan {plan}: {head}\n{}\n{place}\n",
                    printable(&summary)
                ))?;
            }
            DaemonEnd::Waits if open.is_empty() => {
                complain(&format!(
                    "\nplan {plan} is paused\nHint: `{resume}` goes on\n"
                ));
            }
            DaemonEnd::Waits | DaemonEnd::Budget => {
                let state = match status {
                    PlanState::Paused(why) => format!("is paused: {}", one_line(&why, 200)),
                    _ => "waits for you:".to_owned(),
                };
                self.output.prose(&format!("\nplan {plan} {state}\n"))?;
                for question in &open {
                    let words: Vec<&str> = question
                        .choices
                        .iter()
                        .map(|choice| choice.as_str())
                        .collect();
                    let reason = one_line(&question.reason, 200);
                    self.output.prose(&format!(
                        "  {}  {reason}\n    {} answer {} {}\n",
                        question.id,
                        self.app.program,
                        question.id,
                        words.join("|")
                    ))?;
                }
                complain(&format!("Hint: answer, then `{resume}`\n"));
            }
            DaemonEnd::NoPlan => complain(&format!(
                "error: there is no plan yet\nHint: the goal is kept; `{resume}` asks the model again\n"
            )),
            DaemonEnd::Displaced(lock) => complain(&format!(
                "error: `{}` was removed or replaced: another daemon may have the folder\nHint: `{resume}` goes on where it was, once none has\n",
                shown(lock)
            )),
            DaemonEnd::Interrupted => self.close_stopped()?,
        }
        Ok(())
    }
}

fn first_question(plan: &Plan) -> Option<(HumanQuestion, String)> {
    let question = plan
        .open_questions()
        .min_by_key(|question| question.asked)?
        .clone();
    let subject = match question.task.and_then(|id| plan.task(id)) {
        Some(task) => format!("task {} · {}", task.number, one_line(&task.name, 80)),
        None => format!("plan {}", plan.id()),
    };
    Some((question, subject))
}

fn names(plan: &Plan) -> BTreeMap<TaskId, String> {
    plan.tasks()
        .map(|task| (task.number, one_line(&task.name, NAME)))
        .collect()
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

/// Returns a path as seen from the folder that the person is in.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(here).unwrap_or(path);
    printable(&path.display().to_string())
}

/// Says where the result of a plan is, and how a person gets it.
fn place_of_work(plan: &PlanId, workspace: &str, line: Option<&IntegrationBranch>) -> String {
    let workspace = shown(Path::new(workspace));
    let Some(line) = line else {
        return format!("The work is in `{workspace}`, and MISSION.md there tells about it.");
    };
    let mission = shown(&Path::new(&line.folder).join("MISSION.md"));
    let branch = IntegrationBranch::branch(plan);
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

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
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
                let read = std::io::stdin()
                    .lock()
                    .take(LONGEST_LINE)
                    .read_line(&mut line);
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
