//! `questions`: what a person is asked, over all plans of the folder.

use serde_json::json;

use super::{App, Result};
use crate::plan::{Plan, PlanHead};
use crate::view::QuestionView;
use crate::wire::text::one_line;

/// The longest name of a plan.
const NAME: usize = 100;

/// Lists the open questions of all plans, those of the newest plan first.
pub async fn questions(json: bool, app: &App) -> Result {
    let mut listed = Vec::new();
    let mut lines = Vec::new();
    let asking = match app.store_if_any().await? {
        Some(store) => store.tallied(PlanHead::may_ask).await?,
        None => Vec::new(),
    };
    for plan in asking.into_iter().filter(|plan| plan.tally.questions > 0) {
        let id = plan.plan.head.id;
        let open = |plan: &Plan, _| QuestionView::open_of(plan);
        for question in app.read(&id, open).await? {
            if json {
                let name = &plan.plan.head.name;
                listed.push(json!({ "plan": { "id": id, "name": name }, "question": question }));
            } else {
                let id = one_line(id.as_str(), NAME);
                let name = one_line(&plan.plan.head.name, NAME);
                let text = question.text(false, app.out.paint, &app.program);
                lines.push(format!("{id}  {name}\n{text}\n"));
            }
        }
    }
    match (json, lines.is_empty()) {
        (true, _) => app.out.json(&listed),
        (false, true) => app.say("no question is open"),
        (false, false) => app.out.prose(&lines.join("\n")),
    }
}
