//! The questions on the terminal of a running plan: put one after the other, explained, answered.

use super::super::answer_words::{Typed, explanation, keys, offer, read};
use super::super::edit_plan::PlanEdit;
use super::{Failure, Foreground, print_on_stderr};
use crate::plan::{
    Draft, HumanQuestion, HumanQuestionKind, Language, ModelQuestion, Plan, QuestionId,
};
use crate::store::StoreError;
use crate::view::{self, AtWork, Paint, Style};
use crate::wire::{PlanToEdit, joined, one_line, printable, way_to_permit};

/// Who answers and edits here, for the log.
const BY: &str = "terminal";

/// The longest name of a task in a prompt, in characters.
const NAME: usize = 30;

/// The oldest open question, and what a person has to know of it.
pub(super) struct OpenQuestion {
    question: HumanQuestion,
    /// What it is about.
    subject: String,
    /// What it is about, in few words.
    short: String,
    /// The end of what the check printed that failed last.
    output: Vec<String>,
    /// Questions that wait behind it.
    waiting: usize,
    /// The model question that failed, if it is about one.
    ask: Option<ModelQuestion>,
    /// The plan that is to be approved; empty if that is not asked, or is on the terminal.
    plan: String,
    at_work: AtWork,
}

impl OpenQuestion {
    /// Finds the question that is next; `asked` is on the terminal.
    pub fn of(plan: &Plan, asked: Option<&QuestionId>, paint: Paint) -> Option<Self> {
        let question = plan.open_questions().min_by_key(|one| one.asked)?;
        let task = question.task.and_then(|id| plan.task(id));
        let (subject, short) = match task {
            Some(task) => {
                let named = |most| format!("task {} · {}", task.number, one_line(&task.name, most));
                (named(80), named(NAME))
            }
            None => (format!("plan {}", plan.id()), "plan".to_owned()),
        };
        let review = question.about == HumanQuestionKind::Review && asked != Some(&question.id);
        Some(Self {
            question: question.clone(),
            subject,
            short,
            output: view::failing_output(plan, question),
            waiting: plan.open_questions().count() - 1,
            ask: question.ask.as_ref().and_then(|id| plan.ask(id)).cloned(),
            plan: match review {
                true => view::review(plan, paint),
                false => String::new(),
            },
            at_work: AtWork::of(plan),
        })
    }
}

impl Foreground<'_> {
    /// Puts the oldest open question on the terminal, unless it stands there.
    pub(super) fn ask(&mut self, open: Option<OpenQuestion>) -> Result<(), Failure> {
        let Some(open) = open else {
            // Only once: the terminal would show keys for a moment each time.
            return match self.asked.take() {
                Some(_) => self.prompt.end(self.app.out),
                None => Ok(()),
            };
        };
        let (question, out) = (&open.question, self.app.out);
        if self.asked.as_ref() != Some(&question.id) {
            self.prompt.end(out)?;
            self.asked = Some(question.id.clone());
            out.ring(&format!("asks about {}", open.subject))?;
            let title = (out.paint).text(Style::Bold, &format!("? {}", open.subject));
            let reason = printable(&question.reason);
            let reason = (reason.lines()).map(|line| format!("  {line}").trim_end().to_owned());
            let program = self.app.program.to_string();
            let permit = way_to_permit(&question.reason, &program, Language::En);
            let permit = permit.map(|way| format!("  {way}"));
            let output = open.output.iter().map(|line| format!("  | {line}"));
            let (reason, plan) = (joined(reason.chain(permit).chain(output), "\n"), &open.plan);
            out.prose(&format!("\n{title}\n{reason}\n{plan}"))?;
        }
        let more = match open.waiting {
            0 => String::new(),
            1 => " (1 more question waits)".to_owned(),
            more => format!(" ({more} more questions wait)"),
        };
        let (short, offer) = (&open.short, offer(question));
        let away = open.ask.as_ref().and_then(|ask| self.away(ask));
        let away = away.map_or(String::new(), |away| format!(" ({away})"));
        let text = format!("{short}{more}{away}? {offer} > ");
        // Where nothing may move, nothing stands there that would have to.
        let columns = self.live.as_ref().and(out.size());
        let beside = columns.map(|(columns, _)| open.at_work.beside_question(columns));
        let (above, keys) = (beside.unwrap_or_default(), keys(question));
        self.prompt.ask(&above, &text, &keys, out)
    }

    /// Takes a line that the person typed as the answer to the question on the terminal.
    pub(super) async fn answer(&mut self, line: &str) -> Result<(), Failure> {
        let Some(id) = self.asked.clone() else {
            return Ok(());
        };
        let asked = id.clone();
        let question = (self.app).read(&self.plan, move |plan, _| plan.question(&asked).cloned());
        let Some(question) = question.await? else {
            return Ok(());
        };
        match read(line, &question) {
            Typed::Nothing => Ok(()),
            Typed::Explain => {
                let note = "what follows the word is a note";
                self.app.out.line(&explanation(&question, note))
            }
            Typed::Wrong(why) => self.app.out.line(&format!("  {why}")),
            Typed::Edit => self.edit_plan().await,
            Typed::Answer(choice, note) => {
                let answer = move |draft: &mut Draft<'_>| draft.answer(&id, choice, &note, BY);
                let answered = self.store.change(&self.plan, BY, "answered", answer);
                match answered.await {
                    Err(StoreError::Refused(refusal)) => self.app.out.line(&format!("  {refusal}")),
                    answered => Ok(answered?),
                }
            }
        }
    }

    /// Lets the person edit the plan that is to be approved, until the text is right or comes back as it was given.
    async fn edit_plan(&mut self) -> Result<(), Failure> {
        let read = |plan: &Plan, _| PlanToEdit::new(plan, None);
        let given = self.app.read(&self.plan, read).await?;
        self.prompt.end(self.app.out)?;
        // Kept outside of this future, which is dropped when a signal comes or the daemon ends meanwhile.
        let edit = self.edit.insert(PlanEdit::new(&self.plan, given, BY));
        let made = edit.carry_out(self.app).await;
        self.edit = None;
        match made {
            // The plan as it is now is shown.
            Ok(Some(_)) => self.asked = None,
            Ok(None) => self.app.out.line("  the plan stays as it was")?,
            Err(failure) if failure.of_store => return Err(failure),
            Err(failure) => print_on_stderr(&failure.text()),
        }
        Ok(())
    }
}
