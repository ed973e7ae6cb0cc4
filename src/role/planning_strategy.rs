//! How a role plans a task: which strategy, and which steps.

use serde_json::{Map, Value, json};

use crate::llm::questions::role::{
    self as questions, DoneStep, Offer, OfferKind, PlannedStep, RoleContext,
};
use crate::plan::{MAX_METADATA, ModelQuestionKind};
use crate::wire::plan_file::nearest;
use crate::wire::team_file::{StepDoes, StepSpec};
use crate::wire::text::{one_line, quote};

use super::abilities::Abilities;
use super::agent_base_role::ChosenStrategy;
use super::framework::{OtherRole, RequestRefused};
use super::internal_plan::{InternalPlan, PlanningStrategy};
use super::messages::RoleId;
use super::placeholders;
use super::role_agent::Role;
use super::role_model::{NO_MODEL, RoleModelError};
use super::role_state::RoleError;

/// The action that every role with a language model should have: the model does it.
pub const ASK: &str = "ask";

/// Characters of a task that may be simple.
const SIMPLE: usize = 400;

/// What stands before the name of a role among the things that a step may use.
const ROLE_PREFIX: &str = "role:";

/// What steps may use.
#[derive(Clone)]
struct Checker {
    own: RoleId,
    actions: Abilities,
    tools: Abilities,
    colleagues: Vec<OtherRole>,
}

impl Checker {
    /// Looks at a step; `place` counts the steps from 1.
    fn check(&self, step: &StepSpec, place: usize) -> Result<(), String> {
        match &step.does {
            StepDoes::ExecuteAction { action, params } => {
                self.actions.check("action", action, params)?;
            }
            StepDoes::UseTool { tool, params } => self.tools.check("tool", tool, params)?,
            StepDoes::RequestCollaboration {
                target,
                description,
                ..
            } => {
                if target == self.own.as_str() {
                    return Err(RequestRefused::Itself(self.own.clone()).to_string());
                }
                let known = || self.colleagues.iter().map(|other| other.id.as_str());
                if !known().any(|other| other == target) {
                    let similar = nearest(target, known()).and_then(|id| id.parse().ok());
                    let role = one_line(target, 64);
                    return Err(RequestRefused::UnknownRole { role, similar }.to_string());
                }
                if description.trim().is_empty() {
                    return Err(format!("nothing is asked of {target}"));
                }
            }
        }
        let bytes = serde_json::to_string(&step.does).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_METADATA {
            return Err(format!(
                "it holds {bytes} bytes; at most {MAX_METADATA} fit: have a step before it make long texts"
            ));
        }
        placeholders::check(&step.does, place)
    }

    /// Returns what a model planned as a step of ours.
    fn step(&self, planned: &PlannedStep) -> Result<StepSpec, String> {
        let does = match planned.uses.strip_prefix(ROLE_PREFIX) {
            Some(target) => {
                let mut given = planned.params.clone();
                let mut take = |name: &str| match given.remove(name) {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                };
                let (description, context) = (take("description"), take("context"));
                if let Some(name) = given.keys().next() {
                    return Err(format!("a request takes no {}", quote(name)));
                }
                StepDoes::RequestCollaboration {
                    target: target.to_owned(),
                    description,
                    context,
                }
            }
            None if self.actions.get(&planned.uses).is_some() => StepDoes::ExecuteAction {
                action: planned.uses.clone(),
                params: planned.params.clone(),
            },
            None => StepDoes::UseTool {
                tool: planned.uses.clone(),
                params: planned.params.clone(),
            },
        };
        let name = planned.name.clone();
        Ok(StepSpec { name, does })
    }

    fn offers(&self) -> Vec<Offer> {
        let schema = json!({
            "type": "object",
            "properties": {"description": {"type": "string"}, "context": {"type": "string"}},
            "required": ["description"],
        });
        let role = |other: &OtherRole| Offer {
            name: format!("{ROLE_PREFIX}{}", other.id),
            kind: OfferKind::Role,
            description: other.description.clone(),
            params: schema.to_string(),
        };
        let others = self.colleagues.iter().filter(|other| other.id != self.own);
        self.actions
            .offers(OfferKind::Action)
            .chain(self.tools.offers(OfferKind::Tool))
            .chain(others.map(role))
            .collect()
    }
}

/// Tells why a step of a role's template cannot be done with these actions, tools and colleagues, before there is the role;
/// `place` counts the steps from 1.
///
/// # Errors
/// What it names that is not there, or parameters that do not fit.
pub fn check_step(
    role: &RoleId,
    step: &StepSpec,
    place: usize,
    actions: &Abilities,
    tools: &Abilities,
    colleagues: &[OtherRole],
) -> Result<(), String> {
    let checker = Checker {
        own: role.clone(),
        actions: actions.clone(),
        tools: tools.clone(),
        colleagues: colleagues.to_vec(),
    };
    checker.check(step, place)
}

impl Role {
    fn checker(&self) -> Checker {
        Checker {
            own: self.settings.id.clone(),
            actions: self.actions.clone(),
            tools: self.tools.clone(),
            colleagues: self.framework.colleagues(),
        }
    }

    /// Returns what the templates name and that is not there.
    pub(super) fn faults(&self) -> Vec<String> {
        let checker = self.checker();
        let mut faults = Vec::new();
        for template in &self.settings.templates {
            let of = format!(
                "role `{}`, template {}",
                self.settings.id,
                quote(&template.name)
            );
            if template.steps.is_empty() {
                faults.push(format!("{of}: it has no steps"));
            }
            for (place, step) in (1..).zip(&template.steps) {
                if let Err(wrong) = checker.check(step, place) {
                    faults.push(format!("{of}, step {place}: {wrong}"));
                }
            }
        }
        faults
    }

    /// Refuses steps that name what is not there; `first` is the place of the first of them.
    pub(super) fn sound(
        &self,
        steps: Result<Vec<StepSpec>, RoleError>,
        first: usize,
    ) -> Result<Vec<StepSpec>, RoleError> {
        let steps = steps?;
        if steps.is_empty() {
            return Err(RoleError::CannotPlan(
                "there is no step to be done".to_owned(),
            ));
        }
        let checker = self.checker();
        for (place, step) in (first..).zip(&steps) {
            let wrong = checker.check(step, place);
            wrong.map_err(|wrong| RoleError::CannotPlan(format!("step {place}: {wrong}")))?;
        }
        Ok(steps)
    }

    /// Chooses how to plan a task.
    pub(super) async fn choose_strategy(
        &self,
        description: &str,
    ) -> Result<ChosenStrategy, RoleError> {
        if description.trim().is_empty() {
            return Err(RoleError::CannotPlan(
                "the task does not say what is to be done".to_owned(),
            ));
        }
        let words = description.to_lowercase();
        let fits = |matches: &[String]| {
            !matches.is_empty()
                && matches
                    .iter()
                    .all(|word| words.contains(&word.to_lowercase()))
        };
        let mut templates = self.settings.templates.iter();
        if let Some(template) = templates.find(|template| fits(&template.matches)) {
            return Ok(ChosenStrategy {
                strategy: PlanningStrategy::Template(template.name.clone()),
                reason: format!("the task has the words {}", template.matches.join(", ")),
            });
        }
        let Some(mind) = &self.mind else {
            return Err(RoleError::CannotPlan(format!(
                "no template fits the task, and {NO_MODEL}"
            )));
        };
        if self.settings.classify {
            let (_, context) = self.given();
            let context = RoleContext {
                role: self.settings.id.as_str(),
                prompt: &self.settings.prompt,
                description,
                context,
                ..RoleContext::default()
            };
            let question = questions::strategy(&mind.prompts, &context);
            let question = question.map_err(RoleModelError::from)?;
            let plan = self.plan_id()?;
            let asking = self.asking(mind, &plan);
            let said = asking
                .put(ModelQuestionKind::Strategy, 0, &question)
                .await?;
            return Ok(ChosenStrategy {
                strategy: match said.simple {
                    true => PlanningStrategy::Simple,
                    false => PlanningStrategy::FreeForm,
                },
                reason: format!("the model says: {}", said.reason),
            });
        }
        Ok(match why_complex(description) {
            None => ChosenStrategy {
                strategy: PlanningStrategy::Simple,
                reason: "one sentence without a list".to_owned(),
            },
            Some(why) => ChosenStrategy {
                strategy: PlanningStrategy::FreeForm,
                reason: why.to_owned(),
            },
        })
    }

    /// Returns the one step of a simple task.
    pub(super) fn simple_steps(&self) -> Result<Vec<StepSpec>, RoleError> {
        if self.mind.is_none() {
            return Err(RoleError::CannotPlan(NO_MODEL.to_owned()));
        }
        Ok(vec![StepSpec {
            name: "Do the task".to_owned(),
            does: StepDoes::ExecuteAction {
                action: ASK.to_owned(),
                params: Map::new(),
            },
        }])
    }

    /// Returns the steps of a template, or those that the language model makes.
    pub(super) async fn make_steps(&self, description: &str) -> Result<Vec<StepSpec>, RoleError> {
        let plan = self.state.internal_plan.as_ref();
        let why = plan.and_then(|plan| plan.replan.clone());
        if let (None, Some(PlanningStrategy::Template(name))) = (&why, self.strategy()) {
            let mut templates = self.settings.templates.iter();
            let template = templates.find(|template| template.name == name);
            let gone =
                || RoleError::CannotPlan(format!("there is no template {} any more", quote(&name)));
            return Ok(template.ok_or_else(gone)?.steps.clone());
        }
        let Some(mind) = &self.mind else {
            return Err(RoleError::CannotPlan(NO_MODEL.to_owned()));
        };
        let checker = self.checker();
        let offers = checker.offers();
        let done = plan.map(done_steps).unwrap_or_default();
        let (_, context) = self.given();
        let asked = RoleContext {
            role: self.settings.id.as_str(),
            prompt: &self.settings.prompt,
            description,
            context,
            offers: &offers,
            done: &done,
            why: why.as_deref().unwrap_or_default(),
            question: "",
            max_steps: self.settings.max_steps,
        };
        let looks = checker.clone();
        let question = questions::steps(&mind.prompts, &asked, move |planned, place| {
            looks.check(&looks.step(planned)?, place)
        });
        let question = question.map_err(RoleModelError::from)?;
        let plan = self.plan_id()?;
        let asking = self.asking(mind, &plan);
        let subject = match why {
            None => ModelQuestionKind::Plan,
            Some(_) => ModelQuestionKind::Replan,
        };
        let planned = asking.put(subject, 0, &question).await?;
        tracing::info!(role = %self.settings.id, steps = planned.steps.len(), reason = %planned.reason, "the steps are planned");
        let steps = planned.steps.iter().map(|step| checker.step(step));
        steps
            .collect::<Result<_, _>>()
            .map_err(RoleError::CannotPlan)
    }
}

impl From<RoleModelError> for RoleError {
    fn from(error: RoleModelError) -> Self {
        match error {
            RoleModelError::Store(error) => Self::Store(error),
            other => Self::CannotPlan(other.to_string()),
        }
    }
}

/// Returns the steps that are settled, which are the first ones: the place of the next one follows from their number.
fn done_steps(plan: &InternalPlan) -> Vec<DoneStep> {
    let settled = plan.steps.iter().take_while(|step| step.status.settled());
    let done = |step: &super::internal_plan::InternalStep| DoneStep {
        name: step.name.clone(),
        status: step.status.as_str(),
        result: step.result.clone().unwrap_or_default(),
    };
    settled.map(done).collect()
}

/// Returns why a task is not simple, if it is not. A heading is no sentence.
fn why_complex(description: &str) -> Option<&'static str> {
    let lines = description.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    if lines.iter().any(|line| is_item(line)) {
        return Some("the task has a list");
    }
    let text = lines.join(" ");
    if text.chars().count() > SIMPLE {
        return Some("the task is long");
    }
    (sentences(&text) > 1).then_some("the task is more than one sentence")
}

fn is_item(line: &str) -> bool {
    let behind = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = behind.len() < line.len()
        && behind
            .strip_prefix(['.', ')', '、'])
            .is_some_and(|text| !text.starts_with(|c: char| c.is_ascii_digit()));
    numbered
        || ["- ", "* ", "+ ", "• "]
            .iter()
            .any(|mark| line.starts_with(mark))
}

/// Counts sentences: what ends one is followed by nothing, or by a blank and what begins another one.
fn sentences(text: &str) -> usize {
    let mut count = 0;
    let mut open = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let ends = match c {
            '。' | '！' | '？' | ';' | '；' => true,
            '.' | '!' | '?' => match rest.peek() {
                None => true,
                Some(next) if next.is_whitespace() => {
                    let mut behind = rest.clone();
                    let next = behind.find(|c| !c.is_whitespace());
                    next.is_none_or(|c| !c.is_lowercase() && !c.is_ascii_digit())
                }
                Some(_) => false,
            },
            _ => false,
        };
        if ends && open {
            count += 1;
            open = false;
        } else if c.is_alphanumeric() {
            open = true;
        }
    }
    count + usize::from(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_sentence_task_is_simple() {
        for simple in [
            "Write a poem about rust",
            "Review src/main.rs.",
            "# 3 · Review\n\nReview version 1.2 of src/main.rs, e.g. its errors.",
            "审查代码。",
            "1.5、",
            "3",
        ] {
            assert_eq!(why_complex(simple), None, "{simple}");
        }
        for complex in [
            "Read it. Then write it.",
            "Do:\n- this\n- that",
            "1. Read",
            "1、读代码",
            "12) Read",
            "读代码。写报告。",
            &"word ".repeat(100),
        ] {
            assert!(why_complex(complex).is_some(), "{complex}");
        }
    }
}
