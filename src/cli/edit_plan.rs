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
    let plan = app.plan_to_carry_out(named).await?;
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
    let mut text = given.text.clone();
    loop {
        let mut editor = Editor::open(&text, &given.text).map_err(|error| {
            Failure::failed(error).hint("name an editor that is there: EDITOR=nano")
        })?;
        let closed = tokio::select! {
            exit = &mut ended => {
                complain(&format!("{}\n", unchanged(editor.end().await)));
                return Ok(exit);
            }
            closed = editor.closed() => closed,
        };
        let edited = match closed {
            Ok(edited) => edited,
            Err(error) => return Err(Failure::failed(error).hint(unchanged(editor.keep()))),
        };
        let written = without_comments(&edited);
        if written == given.text {
            app.say("nothing was changed")?;
            return Ok(Exit::Done);
        }
        let problems = match app.apply_edit(&plan, &given, written, BY).await {
            Ok(Ok(said)) => {
                match said {
                    Some(said) => app.report(&plan, &said).await?,
                    None => app.say("nothing was changed")?,
                }
                return Ok(Exit::Done);
            }
            Ok(Err(problems)) => problems,
            Err(failure) => return Err(failure.hint(unchanged(editor.keep()))),
        };
        let again = with_comments(&problems, written);
        // A program that edits would do the same again, and so would a person who has given up.
        if edited == text || !stdin().is_terminal() {
            return Err(Failure::problems("plan.md", &problems).hint(unchanged(editor.keep())));
        }
        text = again;
    }
}

impl App {
    /// Makes an edit, and returns what it did, `None` for nothing; or what is wrong with it.
    pub(super) async fn apply_edit(
        &self,
        plan: &PlanId,
        given: &PlanToEdit,
        text: &str,
        by: &'static str,
    ) -> Result<Result<Option<String>, Vec<Problem>>> {
        let head = self.read(plan, |plan, _| plan.head().clone()).await?;
        let mismatches = |file: &_, workspace: &_| self.mismatches(file, workspace);
        let edited = match steering::read_edit(given, text, &head, mismatches) {
            Ok(edited) if edited.is_empty() => return Ok(Ok(None)),
            Ok(edited) => edited,
            Err(problems) => return Ok(Err(problems)),
        };
        let said = format!("plan {plan}: {}", steering::summary(&edited));
        let why = steering::why_edited(&edited);
        let change = move |draft: &mut Draft<'_>| steering::edit(draft, edited);
        let refused = match self.store().await?.change(plan, by, &why, change).await {
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
pub(super) fn with_comments(problems: &[Problem], text: &str) -> String {
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

pub(super) fn without_comments(text: &str) -> &str {
    let mut text = text;
    while let Some(rest) = text.strip_prefix(COMMENT) {
        text = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    text
}

/// Says that nothing was changed, and where the person's text is.
pub(super) fn unchanged(kept: Option<PathBuf>) -> String {
    let kept = kept.map(|path| printable(&path.display().to_string()));
    let kept = kept.map(|path| format!("; what you had written is in `{path}`"));
    format!("nothing was changed{}", kept.unwrap_or_default())
}
