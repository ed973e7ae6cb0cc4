//! The question what came of a plan.

use serde::Deserialize;

use super::*;

/// Characters at which the summary of a plan is cut.
const MAX_OUTCOME: usize = 6_000;

/// Asks for the summary of an ended plan.
pub fn summarise(plan: &Plan) -> Unrendered<String> {
    let schema = Schema::Object(vec![("summary", Schema::Text("the summary"))]);
    let view = prompt_context::whole(plan, None);
    let read = |answer: SummaryAnswer| match cut(&answer.summary, MAX_OUTCOME) {
        summary if summary.is_empty() => Err("`summary` is empty".to_owned()),
        summary => Ok(summary),
    };
    unrendered(PromptTemplate::Summarise, view, schema, SHORT_ANSWER, read)
}

#[derive(Deserialize)]
struct SummaryAnswer {
    summary: String,
}
