//! The terminal of a running plan: one line a change, and the questions to the human, asked and answered here.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::args::CarryOut;
use super::failure::{Exit, Failure};
use super::output::{Output, Style, complain};
use super::site::Site;
use super::view;
use crate::clock::Clock;
use crate::daemon::End;
use crate::plan::{Choice, Event, Plan, PlanId, PlanStatus, Question, QuestionId, TaskId};
use crate::store::{Change, Store};
use crate::wire::text::{one_line, printable, time_text};

/// Changes that other processes make are looked for that often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Changes read at once.
const PAGE: usize = 500;

/// Tells whether a person sits at this terminal and may be asked.
pub fn may_ask(how: &CarryOut) -> bool {
    !how.no_input && !how.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Follows one plan.
pub struct Foreground {
    store: Store,
    clock: Clock,
    plan: PlanId,
    json: bool,
    asks: bool,
    output: Output,
    seq: i64,
    names: BTreeMap<TaskId, String>,
    /// The question that stands on the terminal.
    asked: Option<QuestionId>,
    lines: Option<mpsc::Receiver<String>>,
}

impl Foreground {
    /// Makes the terminal of a plan.
    pub fn new(site: &Site, plan: &PlanId, json: bool, asks: bool, output: Output) -> Self {
        Self {
            store: site.store.clone(),
            clock: site.clock,
            plan: plan.clone(),
            json,
            asks,
            output,
            seq: 0,
            names: BTreeMap::new(),
            asked: None,
            lines: None,
        }
    }

    /// Shows what happens until the daemon ends, and returns how, with the exit code of the signal that ended it, if one did:
    /// what `ended` resolves with.
    pub async fn follow(
        mut self,
        mut daemon: JoinHandle<anyhow::Result<End>>,
        stop: &watch::Sender<bool>,
        ended: impl Future<Output = Exit>,
    ) -> Result<(End, Option<Exit>), Failure> {
        let mut moved = self.store.moved();
        let mut signal = None;
        tokio::pin!(ended);
        self.seq = self.first_seq().await?;
        let end = loop {
            self.show().await?;
            tokio::select! {
                end = &mut daemon => break end.context("the daemon broke down")??,
                exit = &mut ended, if signal.is_none() => {
                    signal = Some(exit);
                    stop.send_replace(true);
                }
                Ok(()) = moved.changed() => {}
                Some(line) = read(&mut self.lines) => self.hear(&line).await?,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        };
        self.show().await?;
        self.close(&end, signal).await?;
        Ok((end, signal))
    }

    /// Where to begin: a resumed plan does not tell its whole story again.
    async fn first_seq(&mut self) -> Result<i64, Failure> {
        let (seq, begun, settled) = self
            .store
            .read(&self.plan, |plan, seq| {
                (seq, plan.head().created_at, plan.status().settled())
            })
            .await?;
        if settled {
            return Ok(seq);
        }
        let fresh = self.clock.now().since(begun) < Duration::from_secs(5);
        if !fresh && !self.json {
            let line = format!("plan {} goes on", self.plan);
            self.output.line(&line)?;
        }
        Ok(if fresh { 0 } else { seq - 1 })
    }

    async fn show(&mut self) -> Result<(), Failure> {
        loop {
            let page = self.store.since(&self.plan, self.seq, PAGE).await?;
            let Some(last) = page.last() else {
                break;
            };
            self.seq = last.seq;
            for change in &page {
                self.show_change(change).await?;
            }
        }
        if self.asks {
            self.ask().await?;
        }
        Ok(())
    }

    async fn show_change(&mut self, change: &Change) -> Result<(), Failure> {
        for row in &change.delta.rows {
            if let crate::plan::Row::Task(task) = row {
                self.names.insert(task.number, one_line(&task.name, 60));
            }
        }
        for event in &change.delta.events {
            if self.json {
                self.output
                    .json_line(&view::event_json(change, &self.plan, event))?;
            } else if let Some((text, style)) = view::progress(event, &self.names) {
                let time = view::clock_time(change.at);
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

    /// Puts the oldest open question on the terminal, unless it stands there.
    async fn ask(&mut self) -> Result<(), Failure> {
        let open = self
            .store
            .read(&self.plan, |plan, _| first_question(plan))
            .await?;
        let Some((question, subject)) = open else {
            self.asked = None;
            return Ok(());
        };
        if self.asked.as_ref() == Some(&question.id) {
            return Ok(());
        }
        self.asked = Some(question.id.clone());
        let paint = self.output.paint();
        let title = paint.text(Style::Bold, &format!("? {subject}"));
        self.output.text(&format!(
            "\n{title}\n{}\n",
            indent(&printable(&question.reason))
        ))?;
        self.prompt(&question)?;
        if self.lines.is_none() {
            self.lines = Some(listen());
        }
        Ok(())
    }

    fn prompt(&mut self, question: &Question) -> Result<(), Failure> {
        let words: Vec<&str> = question
            .choices
            .iter()
            .map(|choice| choice.as_str())
            .collect();
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
        let Some(choice) = Choice::parse(word) else {
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
            Err(crate::store::StoreError::Refused(refusal)) => {
                self.output.line(&format!("  {refusal}"))?;
                if question.open() {
                    self.prompt(&question)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Says how it ended and how it goes on.
    async fn close(&mut self, end: &End, signal: Option<Exit>) -> Result<(), Failure> {
        let (status, summary, open) = self
            .store
            .read(&self.plan, |plan, _| {
                let open: Vec<Question> = plan.open_questions().cloned().collect();
                (
                    plan.status().clone(),
                    plan.head().outcome.clone().unwrap_or_default(),
                    open,
                )
            })
            .await?;
        if self.json {
            let exit = super::run::exit_of(end, signal).code();
            let at = time_text(self.clock.now());
            return self.output.json_line(&serde_json::json!({
                "seq": self.seq, "at": at, "plan": self.plan.as_str(),
                "event": "finished", "status": status.as_str(), "exit": exit,
            }));
        }
        let plan = self.plan.clone();
        match end {
            End::Settled(status) => {
                let style = if *status == PlanStatus::Completed {
                    Style::Good
                } else {
                    Style::Bad
                };
                let head = self.output.paint().text(style, status.as_str());
                self.output
                    .text(&format!("\nplan {plan}: {head}\n{}\n", printable(&summary)))?;
            }
            End::Waits => {
                self.output
                    .text(&format!("\nplan {plan} waits for you:\n"))?;
                for question in &open {
                    let words: Vec<&str> = question
                        .choices
                        .iter()
                        .map(|choice| choice.as_str())
                        .collect();
                    let reason = one_line(&question.reason, 200);
                    self.output.text(&format!(
                        "  {}  {reason}\n    plan-agent answer {} {}\n",
                        question.id,
                        question.id,
                        words.join("|")
                    ))?;
                }
                complain(&format!("Hint: answer, then `plan-agent resume {plan}`\n"));
            }
            End::NoPlan => complain(&format!(
                "error: there is no plan yet\nHint: the goal is kept; `plan-agent resume {plan}` asks the model again\n"
            )),
            End::Interrupted => {
                self.output.text(&format!(
                    "\nstopped; `plan-agent resume {plan}` goes on where it was\n"
                ))?;
            }
        }
        Ok(())
    }
}

fn first_question(plan: &Plan) -> Option<(Question, String)> {
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

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

async fn read(lines: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads lines on a thread of its own: a read of a terminal cannot be called off, and must not hold up the end.
fn listen() -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else {
                break;
            };
            if send.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receive
}
