//! The question for a plan, or for another one where that failed.

use serde::Deserialize;

use super::*;

/// Asks for a plan: tasks, or one of the team's workflows. Dependencies in the answer are numbers of its own tasks, counted
/// from 1.
pub fn plan(context: &PlanContext<'_>) -> Unrendered<PlanSpec> {
    let words = TaskNames::new(context.check_names, context.team);
    let team = context.team.filter(|team| !team.workflows.is_empty());
    let mut properties = vec![
        ("name", Schema::Text("name of the plan, a few words")),
        ("description", Schema::Text("how the goal is reached")),
    ];
    if team.is_some() {
        properties.extend(workflow_in_answer::schema());
    }
    properties.push(("tasks", Schema::list(words.task_schema())));
    let schema = Schema::Object(properties);
    let view = super::prompt_context::plan(context);
    let (template, tokens) = (PromptTemplate::Plan, LONG_ANSWER);
    match team.cloned() {
        None => {
            let read = move |answer: PlanAnswer| answer.planned(&words).map(with_complaints);
            unrendered(template, view, schema, tokens, read)
        }
        Some(team) => {
            let read =
                move |answer: PlanOrWorkflow| answer.planned(&team, &words).map(with_complaints);
            unrendered(template, view, schema, tokens, read)
        }
    }
}

/// Asks how the rest of the plan changes. `cause` is the task whose result led to it, if any; it may be skipped, not updated.
pub fn replan(
    plan: &Plan,
    cause: Option<TaskId>,
    why: &str,
    note: &str,
    check_names: &[String],
    team: Option<&Team>,
) -> Unrendered<Vec<ReplanEdit>> {
    let names = TaskNames::new(check_names, team);
    let schema = Schema::Object(vec![
        ("reason", Schema::Text("how these edits lead to the goal")),
        ("edits", Schema::list(edit_schema(&names, team))),
    ]);
    let view = prompt_context::replan(plan, cause, why, note, check_names, team);
    let scope = ReplanScope::new(plan, cause, names);
    let read = move |answer: ReplanAnswer| scope.edits(answer.edits);
    unrendered(PromptTemplate::Replan, view, schema, LONG_ANSWER, read)
}

fn with_complaints(plan: PlanSpec) -> Usable<PlanSpec> {
    Usable {
        complaint: (!plan.problems.is_empty()).then(|| plan.problems.join("\n")),
        value: plan,
    }
}

#[derive(Deserialize)]
pub(super) struct PlanAnswer {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) tasks: Vec<TaskSpec>,
}

impl PlanAnswer {
    pub(super) fn planned(self, words: &TaskNames) -> Result<PlanSpec> {
        let mut wrongs = Wrongs::default();
        let description = bounded(&self.description, "description", "the plan");
        let tasks = match &self.tasks[..] {
            [] => Err("`tasks` is empty: a plan needs at least one task".to_owned()),
            _ => words.tasks(self.tasks),
        };
        let plan = PlanSpec {
            name: (wrongs.take(name(&self.name, "the plan"))).unwrap_or_default(),
            description: wrongs.take(description).unwrap_or_default(),
            tasks: wrongs.take(tasks).unwrap_or_default(),
            ..PlanSpec::default()
        };
        let mut plan = wrongs.sound(plan)?;
        plan.problems = plan_problems::problems(&plan.tasks);
        Ok(plan)
    }
}
