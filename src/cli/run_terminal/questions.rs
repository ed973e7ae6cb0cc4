//! The questions on the terminal of a running plan: put one after the other, explained, answered.

use super::super::Failure;
use super::super::answer_words::{Typed, explanation, keys, offer, read};
use super::super::editor::Editor;
use super::Foreground;
use crate::plan::{Attempt, Draft, HumanQuestion, HumanQuestionKind, Plan, QuestionId, Refusal};
use crate::store::StoreError;
use crate::view::{self, Paint, Style};
use crate::wire::plan_file;
use crate::wire::text::{one_line, printable};

/// The longest name of a task in a prompt, in characters.
const NAME: usize = 30;

/// What stands above a plan that is edited again, until [`END`].
const BEGIN: &str = "<!-- What is wrong (this part is not read):";
const END: &str = "-->\n";

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
    /// The plan that is to be approved; empty if that is not asked, or is on the terminal.
    plan: String,
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
        let last = question.task.and_then(|id| plan.attempts_of(id).last());
        let failing = last.into_iter().flat_map(Attempt::failing);
        let output = failing.last();
        let output = output.map(|check| view::last_lines(&check.tail));
        let review = question.about == HumanQuestionKind::Review && asked != Some(&question.id);
        Some(Self {
            question: question.clone(),
            subject,
            short,
            output: output.unwrap_or_default(),
            waiting: plan.open_questions().count() - 1,
            plan: match review {
                true => view::review(plan, paint),
                false => String::new(),
            },
        })
    }
}

impl Foreground<'_> {
    /// Puts the oldest open question on the terminal, unless it stands there.
    pub(super) fn ask(&mut self, open: Option<OpenQuestion>) -> Result<(), Failure> {
        let Some(open) = open else {
            self.asked = None;
            return self.prompt.end(&mut self.output);
        };
        let question = &open.question;
        if self.asked.as_ref() != Some(&question.id) {
            self.prompt.end(&mut self.output)?;
            self.asked = Some(question.id.clone());
            self.output.ring(&format!("asks about {}", open.subject))?;
            let paint = self.output.paint();
            let title = paint.text(Style::Bold, &format!("? {}", open.subject));
            let reason = printable(&question.reason);
            let reason: Vec<String> = (reason.lines())
                .map(|line| format!("  {line}").trim_end().to_owned())
                .collect();
            let output = open.output.iter().map(|line| format!("  | {line}"));
            let reason: Vec<String> = reason.into_iter().chain(output).collect();
            let (reason, plan) = (reason.join("\n"), &open.plan);
            self.output.prose(&format!("\n{title}\n{reason}\n{plan}"))?;
        }
        let more = match open.waiting {
            0 => String::new(),
            1 => " (1 more question waits)".to_owned(),
            more => format!(" ({more} more questions wait)"),
        };
        let (short, offer) = (&open.short, offer(question));
        let text = format!("{short}{more}? {offer} > ");
        self.prompt.ask(&text, &keys(question), &mut self.output)
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
            Typed::Explain => self.output.line(&explanation(&question)),
            Typed::Wrong(why) => self.output.line(&format!("  {why}")),
            Typed::Edit => self.edit_plan().await,
            Typed::Answer(choice, note) => {
                let answer =
                    move |draft: &mut Draft<'_>| draft.answer(&id, choice, &note, "terminal");
                match self.change("answered", answer).await? {
                    Ok(()) => Ok(()),
                    Err(refusal) => self.output.line(&format!("  {refusal}")),
                }
            }
        }
    }

    /// Changes the plan for the person, unless the core refuses it.
    async fn change(
        &mut self,
        why: &str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<Result<(), Refusal>, Failure> {
        match (self.store.change(&self.plan, "terminal", why, change)).await {
            Ok(()) => Ok(Ok(())),
            Err(StoreError::Refused(refusal)) => Ok(Err(refusal)),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the person edit the plan that is to be approved. What cannot be read or is refused is edited again, with the
    /// reason above it; a text that comes back as it was changes nothing.
    async fn edit_plan(&mut self) -> Result<(), Failure> {
        let text = self.app.read(&self.plan, |plan, _| plan_file::render(plan));
        let mut given = text.await?;
        let mut problems = String::new();
        loop {
            self.prompt.end(&mut self.output)?;
            // Kept outside of this future, which is dropped when a signal comes or the daemon ends meanwhile.
            let edited = match Editor::open(&(problems.clone() + &given)) {
                Ok(editor) => self.editor.insert(editor).closed().await,
                Err(error) => Err(error),
            };
            self.editor = None;
            let edited = match edited {
                Ok(edited) => edited,
                Err(error) => return self.output.line(&printable(&format!("  {error:#}"))),
            };
            let edited = without_problems(&edited);
            if *edited == given {
                return self.output.line("  the plan stays as it was");
            }
            let Err(said) = self.replace_plan(edited).await? else {
                // The plan as it is now is shown.
                self.asked = None;
                return Ok(());
            };
            // What would end the comment would be read.
            let said = printable(&said).replace("--", "- -");
            problems = format!("{BEGIN}\n{said}{END}");
            edited.clone_into(&mut given);
        }
    }

    /// Replaces the plan by what a text says; else returns what is wrong with it, in lines.
    async fn replace_plan(&mut self, text: &str) -> Result<Result<(), String>, Failure> {
        let checked = plan_file::parse("plan.md", text).and_then(|file| {
            match self.app.mismatches(&file, &self.workspace) {
                problems if problems.is_empty() => Ok(file),
                problems => Err(problems),
            }
        });
        let file = match checked {
            Ok(file) => file,
            Err(problems) => {
                let problems = problems.iter().map(|problem| problem.in_file("plan.md"));
                return Ok(Err(problems
                    .map(|problem| format!("{problem}\n"))
                    .collect()));
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
        let changed = self.change("edited", replace).await?;
        Ok(changed.map_err(|refusal| format!("{refusal}\n")))
    }
}

/// Returns an edited text without the reason why it is edited again.
fn without_problems(text: &str) -> &str {
    let behind = text
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.split_once(END));
    behind.map_or(text, |(_, plan)| plan)
}
