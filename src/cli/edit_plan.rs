//! `edit`: a plan, or one of its tasks, in the person's editor. An edit is made as a whole or not at all.

use std::io::{IsTerminal, stdin};
use std::path::PathBuf;

use super::{
    Access, App, BY, CommandStart, Editor, Ended, Exit, Failure, OnPlanOrTask, Result, complain,
};
use crate::plan::{Draft, PlanId, Refusal};
use crate::steering;
use crate::store::StoreError;
use crate::wire::{PlanToEdit, Problem, printable};

/// Begins the lines above a text that say what is wrong with it; they are no part of it.
const COMMENT: &str = "#!";

/// Lets the person edit until the text is right, or is given back as it was.
pub async fn edit(args: &OnPlanOrTask, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let app = App::open(start, Access::Control).await?;
    app.quiet()?;
    let (named, task) = args.meant();
    let plan = app.plan_to_change(named).await?;
    let read = app.read(&plan, move |plan, _| {
        let known = task.is_none_or(|task| plan.task(task).is_some());
        let given = known.then(|| PlanToEdit::new(plan, task));
        (given, plan.status().clone(), plan.counts().total())
    });
    let (given, state, total) = read.await?;
    let Some(given) = given else {
        return Err(app.no_task(&plan, task.unwrap_or_default()));
    };
    if state.settled() || total == 0 {
        let refusal = match total {
            0 => Refusal::Unplanned,
            _ => Refusal::PlanIs(state),
        };
        return Err(app.refused(refusal, &plan));
    }
    let mut edit = PlanEdit::new(&plan, given, BY);
    let made = tokio::select! {
        made = edit.carry_out(&app) => made?,
        exit = &mut ended => {
            let stores = edit.stores;
            let said = match (edit.end().await, stores) {
                (kept, false) => unchanged(kept),
                (kept, true) => format!("the edit may have taken effect{}", where_kept(kept)),
            };
            complain!("{said}");
            return Ok(exit);
        }
    };
    match made {
        Some(said) => app.report(&plan, &said).await?,
        None => app.say("nothing was changed")?,
    }
    Ok(Exit::Done)
}

/// A plan's text that a person edits.
pub(super) struct PlanEdit {
    plan: PlanId,
    given: PlanToEdit,
    /// Who makes the change, for the log.
    by: &'static str,
    /// In which the person edits now; its file stays until the edit is stored, as the future that does it may be dropped.
    editor: Option<Editor>,
    /// The editor is closed, and the edit is being stored.
    stores: bool,
}

impl PlanEdit {
    pub(super) fn new(plan: &PlanId, given: PlanToEdit, by: &'static str) -> Self {
        Self {
            plan: plan.clone(),
            given,
            by,
            editor: None,
            stores: false,
        }
    }

    /// Lets the person edit until the text is right, or comes back as it was given. Returns what the edit did, `None` for nothing.
    /// This future may be dropped on the way: [`PlanEdit::end`] ends the editor then.
    ///
    /// # Errors
    /// The editor fails, the person leaves a text in which something is wrong, or the edit cannot be stored.
    pub(super) async fn carry_out(&mut self, app: &App) -> Result<Option<String>> {
        let mut text = self.given.text.clone();
        loop {
            let editor = Editor::open(&text, &self.given.text).map_err(|error| {
                Failure::failed(error).hint("name an editor that is there: EDITOR=nano")
            })?;
            let closed = self.editor.insert(editor).closed().await;
            let edited = match closed {
                Ok(edited) => edited,
                Err(error) => return Err(Failure::failed(error).hint(self.kept())),
            };
            let written = without_comments(&edited);
            if written == self.given.text {
                self.editor = None;
                return Ok(None);
            }
            self.stores = true;
            let applied = self.apply(app, written).await;
            self.stores = false;
            let problems = match applied {
                Ok(Ok(said)) => {
                    self.editor = None;
                    return Ok(said);
                }
                Ok(Err(problems)) => problems,
                Err(failure) => return Err(failure.hint(self.kept())),
            };
            // A program that edits would do the same again, and so would a person who has given up.
            if edited == text || !stdin().is_terminal() {
                return Err(Failure::problems("plan.md", &problems).hint(self.kept()));
            }
            text = with_comments(&problems, written);
        }
    }

    fn kept(&mut self) -> String {
        unchanged(self.editor.take().and_then(Editor::keep))
    }

    /// Ends the editor, and returns where the text is kept if the person has changed it.
    pub(super) async fn end(self) -> Option<PathBuf> {
        self.editor?.end().await
    }

    /// Makes the edit, and returns what it did, `None` for nothing; or what is wrong with it.
    async fn apply(&self, app: &App, text: &str) -> Result<Result<Option<String>, Vec<Problem>>> {
        let plan = &self.plan;
        let head = app.read(plan, |plan, _| plan.head().clone()).await?;
        let mismatches = |file: &_, workspace: &_| app.mismatches(file, workspace);
        let edited = match steering::read_edit(&self.given, text, &head, mismatches) {
            Ok(edited) if edited.is_empty() => return Ok(Ok(None)),
            Ok(edited) => edited,
            Err(problems) => return Ok(Err(problems)),
        };
        let said = format!("plan {plan}: {}", steering::summary(&edited));
        let why = steering::why_edited(&edited);
        let change = move |draft: &mut Draft<'_>| steering::edit(draft, edited);
        let refused = match app.store().await?.change(plan, self.by, &why, change).await {
            Ok(refused) => refused,
            Err(StoreError::Refused(refusal)) => vec![refusal],
            Err(error) => return Err(error.into()),
        };
        Ok(match refused.as_slice() {
            [] => Ok(Some(said)),
            refused => Err(refused.iter().map(steering::way_back).collect()),
        })
    }
}

/// Returns a text below what is wrong with it; the lines are those of the text that the person sees then.
fn with_comments(problems: &[Problem], text: &str) -> String {
    let lines = |shift: usize| {
        let shown = problems.iter().flat_map(move |problem| {
            let hint = problem.hint.as_ref().map(|hint| format!("Hint: {hint}"));
            let mut problem = problem.clone();
            if problem.place.line > 0 {
                problem.place.line += shift;
            }
            [Some(problem.to_string()), hint].into_iter().flatten()
        });
        let one = |said: String| printable(&said).replace('\n', " ");
        let shown = shown.map(|said| format!("{COMMENT} {}\n", one(said)));
        shown.collect::<Vec<_>>()
    };
    lines(lines(0).len()).concat() + text
}

fn without_comments(text: &str) -> &str {
    let mut text = text;
    while let Some(rest) = text.strip_prefix(COMMENT) {
        text = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    text
}

/// Says that nothing was changed, and where the person's text is.
fn unchanged(kept: Option<PathBuf>) -> String {
    format!("nothing was changed{}", where_kept(kept))
}

fn where_kept(kept: Option<PathBuf>) -> String {
    let kept = kept.map(|path| printable(&path.display().to_string()));
    let kept = kept.map(|path| format!("; what you had written is in `{path}`"));
    kept.unwrap_or_default()
}
