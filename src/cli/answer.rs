//! `answer`: what a person answers to a question.

use anyhow::anyhow;

use super::answer_words::Typed;
use super::{AnswerArgs, App, BY, Ended, Failure, Result, answer_words, plan_control};
use crate::plan::{AnswerChoice, Draft, PlanState};
use crate::steering;

/// Answers a question. An answer that ends the plan does, where no daemon works, what `abort` does.
pub async fn answer(args: &AnswerArgs, mut app: App, ended: Ended) -> Result {
    let (plan, question) = app.question(args.question.as_deref()).await?;
    let note = args.note.clone().unwrap_or_default();
    let typed = match AnswerChoice::parse(&args.choice) {
        Some(choice) => Typed::Answer(choice, note),
        None => answer_words::read(&format!("{} {note}", args.choice), &question),
    };
    let no_answer = |why: String| {
        let hint = format!("`{} answer {} '?'` explains each", app.program, question.id);
        Failure::usage(anyhow!(why)).hint(hint)
    };
    let (choice, note) = match typed {
        Typed::Answer(choice, note) => (choice, note),
        Typed::Explain => {
            let note = "`--note TEXT` adds a note";
            return app.say(&answer_words::explanation(&question, note));
        }
        Typed::Edit => {
            let hint = format!("`{} edit {plan}` opens the plan", app.program);
            return Err(Failure::usage(anyhow!("`edit` is no answer")).hint(hint));
        }
        Typed::Wrong(why) => return Err(no_answer(why)),
        Typed::Nothing => return Err(no_answer("that is no answer".to_owned())),
    };
    let id = question.id;
    let answer = move |draft: &mut Draft<'_>| steering::answer(draft, &id, choice, &note, BY);
    let said = app.change(&plan, "answered", answer).await?;
    let over = app.read(&plan, |plan, _| plan.status() == &PlanState::Abandoned);
    if choice != AnswerChoice::Abort || !over.await? {
        return app.report(&plan, &said).await;
    }
    app.say(&said)?;
    app.hooks_if_trusted().await;
    match plan_control::end_here(&app, &plan, ended).await? {
        Some(left) => app.say(&format!("plan {plan} has ended for good; {left}")),
        None => Ok(()),
    }
}
