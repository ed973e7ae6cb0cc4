//! `questions`: what a person is asked, over all plans of the folder.

use serde_json::json;

use super::args::QuestionsArgs;
use super::{App, Output, Result};
use crate::plan::{Plan, PlanHead};
use crate::view::QuestionView;
use crate::wire::text::one_line;

/// The longest name of a plan.
const NAME: usize = 100;

/// Lists the open questions of all plans, those of the newest plan first.
pub async fn questions(args: &QuestionsArgs, app: &App, output: &mut Output) -> Result {
    let mut listed = Vec::new();
    let mut lines = Vec::new();
    let asking = match app.store_if_any().await? {
        Some(store) => {
            let asked = store.tallied(PlanHead::may_ask);
            let mut plans = asked.await?;
            plans.retain(|plan| plan.tally.questions > 0);
            plans
        }
        None => Vec::new(),
    };
    for plan in asking {
        let id = plan.plan.head.id;
        let open = |plan: &Plan, _| QuestionView::open_of(plan);
        for question in app.read(&id, open).await? {
            if args.json {
                let name = &plan.plan.head.name;
                listed.push(json!({ "plan": { "id": id, "name": name }, "question": question }));
            } else {
                let (id, name) = (
                    one_line(id.as_str(), NAME),
                    one_line(&plan.plan.head.name, NAME),
                );
                let text = question.text(false, output.paint(), &app.program);
                lines.push(format!("{id}  {name}\n{text}\n"));
            }
        }
    }
    match (args.json, lines.is_empty()) {
        (true, _) => output.json(&listed),
        (false, true) => output.line("no question is open"),
        (false, false) => output.prose(&lines.join("\n")),
    }
}
