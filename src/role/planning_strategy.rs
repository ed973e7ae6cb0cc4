//! How a role plans a task: which strategy, and which steps.

use serde_json::{Map, Value, json};

use crate::llm::TypedQuestion;
use crate::llm::questions::role_steps::{
    self as questions, DoneStep, Offer, OfferKind, PlannedStep, ROLE_PREFIX, RoleContext,
};
use crate::plan::{MAX_METADATA, ModelQuestionKind};
use crate::wire::{Problem, StepDoes, StepSpec, quote};

use super::request_collaboration::as_request;
use super::role_model::NO_MODEL;
use super::*;

/// How a role plans a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanningStrategy {
    /// One step: its language model does it.
    Simple,
    /// The steps of the template of this name.
    Template(String),
    /// Its language model breaks the task down.
    FreeForm,
}

impl PlanningStrategy {
    /// Returns the words by which the internal plan keeps it.
    pub fn text(&self) -> String {
        match self {
            Self::Simple => "simple".to_owned(),
            Self::Template(name) => format!("template {name}"),
            Self::FreeForm => "free_form".to_owned(),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "simple" => Some(Self::Simple),
            "free_form" => Some(Self::FreeForm),
            _ => Some(Self::Template(text.strip_prefix("template ")?.to_owned())),
        }
    }
}

/// The action that every role with a language model should have: the model does it.
pub const ASK: &str = "ask";

/// Characters of a task that may be simple.
const SIMPLE: usize = 400;

/// What the steps of a role may use.
#[derive(Clone, Debug)]
pub struct StepChecker {
    /// The role, which cannot ask itself.
    pub own: RoleId,
    pub actions: Abilities,
    pub tools: Abilities,
    pub other_roles: Vec<OtherRole>,
}

impl StepChecker {
    /// Checks a step; `place` counts the steps from 1.
    ///
    /// # Errors
    /// What it names that does not exist, or parameters that do not fit.
    pub fn check(&self, step: &StepSpec, place: usize) -> Result<(), String> {
        let step = as_request(step)?;
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
                let known = || self.other_roles.iter().map(|other| other.id.as_str());
                if !known().any(|other| other == target) {
                    return Err(RequestRefused::unknown(target, known()).to_string());
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

    /// Returns the step that a model planned.
    fn step(&self, planned: PlannedStep) -> Result<StepSpec, String> {
        let (name, action, mut params) = (planned.name, planned.uses, planned.params);
        let does = match action.strip_prefix(ROLE_PREFIX) {
            Some(target) => {
                let mut take = |name: &str| match params.remove(name) {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                };
                let (description, context) = (take("description"), take("context"));
                if let Some(name) = params.keys().next() {
                    return Err(format!("a request takes no {}", quote(name)));
                }
                StepDoes::RequestCollaboration {
                    target: target.to_owned(),
                    description,
                    context,
                }
            }
            None if self.actions.get(&action).is_some() => {
                StepDoes::ExecuteAction { action, params }
            }
            None => StepDoes::UseTool {
                tool: action,
                params,
            },
        };
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
        let others = self.other_roles.iter().filter(|other| other.id != self.own);
        // Roles are offered by their names.
        let by_name = |offer: &Offer| offer.name != REQUEST_COLLABORATION;
        let actions = self.actions.offers(OfferKind::Action).filter(by_name);
        let tools = self.tools.offers(OfferKind::Tool);
        actions.chain(tools).chain(others.map(role)).collect()
    }
}

impl Role {
    fn checker(&self) -> StepChecker {
        StepChecker {
            own: self.settings.id.clone(),
            actions: self.actions.clone(),
            tools: self.tools.clone(),
            other_roles: self.framework.other_roles(),
        }
    }

    /// Returns what a question to the model contains of the role and its task.
    pub(super) fn question_context(&self) -> RoleContext<'_> {
        let (description, context) = self.given();
        RoleContext {
            role: self.settings.id.as_str(),
            prompt: &self.settings.prompt,
            description,
            context,
            ..RoleContext::default()
        }
    }

    /// Returns what the templates name and that is not there.
    pub(super) fn faults(&self) -> Vec<String> {
        let checker = self.checker();
        let mut faults = Vec::new();
        for template in &self.settings.templates {
            let (id, name) = (&self.settings.id, quote(&template.name));
            let of = format!("role `{id}`, template {name}");
            faults.extend((template.steps.is_empty()).then(|| format!("{of}: it has no steps")));
            for (place, step) in (1..).zip(&template.steps) {
                if let Err(wrong) = checker.check(step, place) {
                    faults.push(format!("{of}, step {place}: {wrong}"));
                }
            }
        }
        faults
    }

    /// Refuses steps that name what is not there; `from` is the place of the first of them.
    pub(super) fn sound(&self, steps: Result<Vec<StepSpec>>, from: usize) -> Result<Vec<StepSpec>> {
        let steps = steps?;
        if steps.is_empty() {
            return Err(RoleError::cannot_plan("there is no step to be done"));
        }
        let checker = self.checker();
        let sound = (from..).zip(&steps).map(|(place, step)| {
            let checked = checker.check(step, place).and_then(|()| as_request(step));
            checked.map_err(|wrong| RoleError::CannotPlan(format!("step {place}: {wrong}")))
        });
        sound.collect()
    }

    /// Chooses how to plan a task.
    pub(super) async fn choose_strategy(&self, description: &str) -> Result<ChosenStrategy> {
        if description.trim().is_empty() {
            let reason = "the task does not say what is to be done";
            return Err(RoleError::cannot_plan(reason));
        }
        let words = description.to_lowercase();
        let fits = |matches: &[String]| {
            let mut matches = matches.iter().map(|word| word.to_lowercase()).peekable();
            matches.peek().is_some() && matches.all(|word| words.contains(&word))
        };
        let mut templates = self.settings.templates.iter();
        if let Some(template) = templates.find(|template| fits(&template.matches)) {
            let strategy = PlanningStrategy::Template(template.name.clone());
            let reason = format!("the task has the words {}", template.matches.join(", "));
            return Ok(ChosenStrategy { strategy, reason });
        }
        let Some(model) = &self.model else {
            let reason = format!("no template fits the task, and {NO_MODEL}");
            return Err(RoleError::CannotPlan(reason));
        };
        let (simple, reason) = if self.settings.config.classify {
            let mut context = self.question_context();
            context.description = description;
            let question = questions::strategy(&context).render(&model.prompts)?;
            let said = self.put(ModelQuestionKind::Strategy, &question).await?;
            (said.simple, format!("the model says: {}", said.reason))
        } else {
            let why = why_complex(description);
            let reason = why.unwrap_or("one sentence without a list");
            (why.is_none(), reason.to_owned())
        };
        let strategy = match simple {
            true => PlanningStrategy::Simple,
            false => PlanningStrategy::FreeForm,
        };
        Ok(ChosenStrategy { strategy, reason })
    }

    fn model(&self) -> Result<&RoleModel> {
        let none = || RoleError::cannot_plan(NO_MODEL);
        self.model.as_ref().ok_or_else(none)
    }

    /// Puts a question about the task to the model.
    async fn put<A>(&self, subject: ModelQuestionKind, question: &TypedQuestion<A>) -> Result<A> {
        let plan = self.plan_id()?;
        let asking = self.asking(self.model()?, &plan);
        asking.put(subject, 0, question).await
    }

    /// Returns the one step of a simple task.
    pub(super) fn simple_steps(&self) -> Result<Vec<StepSpec>> {
        self.model()?;
        let (action, params) = (ASK.to_owned(), Map::new());
        let does = StepDoes::ExecuteAction { action, params };
        let name = "Do the task".to_owned();
        Ok(vec![StepSpec { name, does }])
    }

    /// Returns the steps of a template, or those that the language model makes.
    pub(super) async fn make_steps(&self, description: &str) -> Result<Vec<StepSpec>> {
        let plan = self.state.internal_plan.as_ref();
        let why = plan.and_then(|plan| plan.replan.clone());
        if let (None, Some(PlanningStrategy::Template(name))) = (&why, self.strategy()) {
            let mut templates = self.settings.templates.iter();
            let template = templates.find(|template| template.name == name);
            let gone = || format!("there is no template {} any more", quote(&name));
            let template = template.ok_or_else(|| RoleError::CannotPlan(gone()))?;
            return Ok(template.steps.clone());
        }
        let model = self.model()?;
        let checker = self.checker();
        let offers = checker.offers();
        let asked = RoleContext {
            description,
            offers: &offers,
            done: &plan.map(done_steps).unwrap_or_default(),
            why: why.as_deref().unwrap_or_default(),
            max_steps: usize::try_from(self.settings.config.max_steps).unwrap_or(usize::MAX),
            ..self.question_context()
        };
        let understand = move |planned: PlannedStep, place| {
            let step = checker.step(planned)?;
            checker.check(&step, place).map(|()| step)
        };
        let question = questions::steps(&asked, understand).render(&model.prompts)?;
        let subject = why.map_or(ModelQuestionKind::Plan, |_| ModelQuestionKind::Replan);
        let planned = self.put(subject, &question).await?;
        tracing::info!(role = %self.settings.id, steps = planned.steps.len(), reason = %planned.reason, "the steps are planned");
        Ok(planned.steps)
    }
}

impl RoleError {
    pub(super) fn cannot_plan(reason: &str) -> Self {
        Self::CannotPlan(reason.to_owned())
    }
}

impl From<Problem> for RoleError {
    fn from(problem: Problem) -> Self {
        Self::CannotPlan(problem.to_string())
    }
}

/// Returns the steps that are settled, which are the first ones: the place of the next one follows from their number.
fn done_steps(plan: &InternalPlan) -> Vec<DoneStep> {
    let settled = plan.steps.iter().take_while(|step| step.status.settled());
    let done = |step: &InternalStep| DoneStep {
        name: step.name.clone(),
        status: step.status.as_str(),
        result: step.result.clone().unwrap_or_default(),
    };
    settled.map(done).collect()
}

/// Returns why a task is not simple, if it is not. A heading is no sentence.
fn why_complex(description: &str) -> Option<&'static str> {
    let mut lines: Vec<&str> = description.lines().map(str::trim).collect();
    lines.retain(|line| !line.is_empty() && !line.starts_with('#'));
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
    let text = behind.strip_prefix(['.', ')', '、']);
    let numbered = text.is_some_and(|text| !text.starts_with(|c: char| c.is_ascii_digit()));
    let mut marks = ["- ", "* ", "+ ", "• "].into_iter();
    behind.len() < line.len() && numbered || marks.any(|mark| line.starts_with(mark))
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
