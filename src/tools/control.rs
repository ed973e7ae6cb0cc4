//! Control of plans that a daemon carries out: a goal comes in, its state is read, a question is answered. The caller is an agent:
//! it chooses neither agents nor rights nor checks, and gives nothing that is a person's to give.

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ArgumentError, Functions, Result, Tool, ToolAnswer, ToolError, Toolbox, new_plan_id};
use crate::plan::{
    AnswerChoice, ArchiveState, DAEMON, Draft, Plan, PlanHead, PlanId, PlanState, QuestionId,
};
use crate::steering::GoalSettings;
use crate::view::StateWord;
use crate::volumes::Volumes;
use crate::wire::{clip, one_line};

pub(super) static TOOLS: LazyLock<[Tool; 3]> = LazyLock::new(|| {
    [
        ControlTools::changes("run_goal", "Hands a goal over as a new plan, with the agents, rights and checks that are configured. Returns its id.").calls(async |control, given: GoalArguments| control.run_goal(given).await),
        ControlTools::reads("plan_status", "Returns the state of a plan and its open questions. With a progress token it reports progress, and returns once the \
             plan asks, pauses or ends.").calls(async |control, given: StatusArguments| control.status(given).await),
        ControlTools::changes("answer_question", "Answers a question of a plan. What gives a right or a budget, approves or drops a check is for a person.").calls(async |control, given: AnswerArguments| control.answer(given).await),
    ]
});

/// The largest goal and note, in bytes.
const MAX_TEXT: usize = 32 * 1024;

/// Plans that no daemon has begun; a caller that hands over goals without end gets no further.
const MOST_WAITING: usize = 20;

/// Characters of a goal, an outcome and a reason in an answer.
const SHOWN: usize = 2_000;

/// What the program that serves the tools has resolved.
#[derive(Debug)]
pub struct ControlSettings {
    /// What goals are made plans with, or why none can be carried out.
    pub goals: Result<GoalSettings, String>,
    pub volumes: Volumes,
    /// The name that a person types to call this program.
    pub program: String,
}

#[derive(Deserialize, JsonSchema)]
struct GoalArguments {
    /// What is to be reached, for a reader who knows only the workspace.
    goal: String,
    /// A short name of the plan.
    name: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct StatusArguments {
    /// The id of the plan; the latest one if left out.
    plan: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct AnswerArguments {
    /// The id of the plan; the latest one if left out.
    plan: Option<String>,
    /// The id of the question.
    question: String,
    /// One of the question's choices.
    choice: String,
    /// What the agent is to know.
    note: Option<String>,
}

pub(super) struct ControlTools(Toolbox);

impl Functions for ControlTools {
    type Error = ToolError;

    fn on(toolbox: Toolbox) -> Self {
        Self(toolbox)
    }
}

impl ControlTools {
    /// Returns the settings; where there are none, the tools do not exist.
    fn settings(&self, tool: &str) -> Result<Arc<ControlSettings>> {
        let unknown = || ToolError::UnknownTool {
            name: tool.to_owned(),
            similar: None,
            elsewhere: None,
        };
        self.0.control.clone().ok_or_else(unknown)
    }

    /// Stores a new plan with a goal.
    async fn run_goal(self, given: GoalArguments) -> Result<ToolAnswer> {
        self.0.unbound()?;
        let settings = self.settings("run_goal")?;
        let goal = given.goal.trim();
        ArgumentError::unless_short("goal", goal, MAX_TEXT)?;
        if goal.is_empty() {
            return Err(ArgumentError::new("goal", "must not be empty").into());
        }
        let refused = |why: &String| ArgumentError::new("goal", why.clone());
        let goals = settings.goals.as_ref().map_err(refused)?;
        let waits = |head: &&PlanHead| head.status == PlanState::Idle;
        if self.plans().await?.iter().filter(waits).count() >= MOST_WAITING {
            let why = format!("{MOST_WAITING} plans here have not begun yet");
            return Err(ArgumentError::new("goal", why).into());
        }
        let mut head = goals.plan(new_plan_id(), goal);
        if let Some(name) = &given.name {
            head.name = one_line(name, 80);
        }
        let plan = head.id.clone();
        let create = |draft: &mut Draft<'_>| {
            draft.created();
            Ok(())
        };
        let (store, by) = (&self.0.store, &self.0.caller);
        store.create(head, by, "run_goal", create).await?;
        let program = &settings.program;
        let next = match settings.volumes.running() {
            Some(daemon) => format!("the daemon here (pid {}) carries it out", daemon.pid),
            None => format!("no daemon works here: `{program} daemon` carries it out"),
        };
        Ok(ToolAnswer::result(json!({ "plan": plan })).with(0, &next))
    }

    /// Returns the state of a plan.
    async fn status(self, given: StatusArguments) -> Result<ToolAnswer> {
        let settings = self.settings("plan_status")?;
        let plan = self.named(given.plan.as_deref()).await?;
        let carried_out = settings.volumes.daemon_of(&plan).is_some();
        let read = move |plan: &Plan, seq| status_of(plan, seq, carried_out);
        Ok(ToolAnswer::result(self.0.store.read(&plan, read).await?))
    }

    /// Answers a question, unless the answer is for a person.
    async fn answer(self, given: AnswerArguments) -> Result<ToolAnswer> {
        let settings = self.settings("answer_question")?;
        let plan = self.named(given.plan.as_deref()).await?;
        let note = given.note.unwrap_or_default();
        ArgumentError::unless_short("note", &note, MAX_TEXT)?;
        let id = QuestionId::new(&given.question);
        let Some(choice) = AnswerChoice::parse(&given.choice) else {
            let words = AnswerChoice::ALL.map(AnswerChoice::as_str).join(", ");
            return Err(ArgumentError::new("choice", format!("must be one of {words}")).into());
        };
        let by = self.0.caller.clone();
        let change = move |draft: &mut Draft<'_>| {
            let asked = draft.plan().question(&id);
            if asked.is_some_and(|asked| asked.is_grant(choice)) {
                let (program, word) = (&settings.program, choice.as_str());
                let why = format!("`{word}` is for a person: `{program} answer {id} {word}`");
                return Err(ArgumentError::new("choice", why).into());
            }
            Ok::<_, ToolError>(draft.answer(&id, choice, &note, &by)?)
        };
        self.0.change(&plan, "answer_question", change).await?;
        Ok(ToolAnswer::result(json!({ "plan": plan })))
    }

    /// Returns the plans that a daemon carries out, newest first.
    async fn plans(&self) -> Result<Vec<PlanHead>> {
        let bound = |head: &PlanHead| self.0.plan.as_ref().is_none_or(|plan| *plan == head.id);
        let plans = self.0.store.plans().await?.into_iter();
        let heads = plans.map(|listed| listed.head).filter(|head| {
            head.owner == DAEMON && head.archive_state != ArchiveState::Deleted && bound(head)
        });
        Ok(heads.collect())
    }

    /// Returns the plan with an id, else the newest.
    async fn named(&self, id: Option<&str>) -> Result<PlanId> {
        let mut ids = self.plans().await?.into_iter().map(|head| head.id);
        match id {
            None => ids.next().ok_or(ToolError::NoPlan),
            Some(id) => ids.find(|plan| plan.as_str() == id).ok_or_else(|| {
                let why = format!("there is no plan `{}`", one_line(id, 60));
                ArgumentError::new("plan", why).into()
            }),
        }
    }
}

fn status_of(plan: &Plan, seq: i64, carried_out: bool) -> Value {
    let (head, counts) = (plan.head(), plan.counts());
    let questions = plan.open_questions().map(|question| {
        let choices = question.choices.iter().copied();
        let (grants, choices): (Vec<AnswerChoice>, Vec<_>) =
            choices.partition(|choice| question.is_grant(*choice));
        json!({
            "id": question.id,
            "task": question.task,
            "reason": clip(&question.reason, SHOWN),
            "choices": choices,
            "for_a_person": grants,
        })
    });
    let questions: Vec<Value> = questions.collect();
    let held = head.status.settled() || matches!(head.status, PlanState::Paused(_));
    json!({
        "plan": head.id,
        "name": head.name,
        "state": StateWord::of_plan(head, carried_out),
        "goes_on": !held && questions.is_empty(),
        "seq": seq,
        "tasks": counts.total(),
        "completed": counts.completed,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "questions": questions,
        "outcome": head.outcome.as_deref().map(|outcome| clip(outcome, SHOWN)),
    })
}
