//! What a plan and its tasks have used, against the budget: one line for a person, and the numbers for programs.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::plan::{Attempt, BudgetLimit, ModelQuestionKind, Plan, TaskId, Usage, counted};

/// What a task has used: its agents, and the model that judged them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TaskUsage {
    llm_calls: u64,
    llm_tokens: u64,
    agent_tokens: u64,
    pub(super) cost_usd: f64,
    /// From the first heartbeat of each attempt to its report.
    pub(super) seconds: f64,
}

/// What every task that used something has used.
pub type TasksUsage = HashMap<TaskId, TaskUsage>;

/// Returns what a plan has used, for programs. The budget is what may be used, with what was allowed beyond the configuration;
/// `null` is no limit.
pub fn of_plan(plan: &Plan) -> Value {
    let usage = &plan.head().usage;
    let allowed = |limit| plan.allowed(limit);
    let count = |limit| allowed(limit).map(|count| count as u64);
    json!({
        "llm_calls": usage.llm_calls,
        "llm_input_tokens": usage.llm_input_tokens,
        "llm_output_tokens": usage.llm_output_tokens,
        "llm_cost_usd": usage.llm_cost_usd,
        "agent_input_tokens": usage.agent_input_tokens,
        "agent_output_tokens": usage.agent_output_tokens,
        "agent_cost_usd": usage.agent_cost_usd,
        "attempts": plan.attempts_made(),
        "wall_seconds": usage.wall_time.as_secs_f64(),
        "budget": {
            "llm_calls": count(BudgetLimit::LlmCalls),
            "llm_tokens": count(BudgetLimit::LlmTokens),
            "cost_usd": allowed(BudgetLimit::CostUsd),
            "attempts": count(BudgetLimit::Attempts),
            "wall_seconds": allowed(BudgetLimit::WallTime),
        },
    })
}

/// Returns what every task that used something has used.
pub fn of_tasks(plan: &Plan) -> TasksUsage {
    let mut tasks = TasksUsage::new();
    for attempt in plan.attempts() {
        let used = tasks.entry(attempt.task).or_default();
        if let Some(report) = &attempt.report {
            let tokens = report.input_tokens.saturating_add(report.output_tokens);
            used.agent_tokens = used.agent_tokens.saturating_add(tokens);
            used.cost_usd += report.cost_usd;
            used.seconds += took(attempt).unwrap_or_default().as_secs_f64();
        }
    }
    for ask in plan.asks() {
        let ModelQuestionKind::Judge(command) = &ask.subject else {
            continue;
        };
        if let Some(attempt) = plan.attempt(command) {
            let used = tasks.entry(attempt.task).or_default();
            let tokens = ask.input_tokens.saturating_add(ask.output_tokens);
            used.llm_calls += u64::from(ask.calls);
            used.llm_tokens = used.llm_tokens.saturating_add(tokens);
            used.cost_usd += ask.cost_usd;
        }
    }
    tasks
}

/// Returns what a plan has used of what it may use; `None` if it has used nothing. What was not reported is left out.
pub fn line(plan: &Plan) -> Option<String> {
    let usage = &plan.head().usage;
    let lived = usage.lived;
    let of =
        |limit: BudgetLimit| (plan.used(limit, lived) > 0.0).then(|| plan.used_of(limit, lived));
    let agent_tokens = tokens(usage.agent_input_tokens, usage.agent_output_tokens);
    let model = [of(BudgetLimit::LlmCalls), of(BudgetLimit::LlmTokens)];
    let model = joined(model, ", ");
    let agents = joined([of(BudgetLimit::Attempts), agent_tokens], ", ");
    let parts = [
        model.map(|used| format!("model {used}")),
        agents.map(|used| format!("agents {used}")),
        of(BudgetLimit::CostUsd),
        of(BudgetLimit::WallTime),
    ];
    joined(parts, " · ").map(|used| format!("Used: {used}"))
}

/// Returns what a task has used, as far as that was reported; `None` if nothing was.
pub fn task_line(used: &TaskUsage) -> Option<String> {
    let judge = (used.llm_calls > 0).then(|| {
        let calls = counted(used.llm_calls, "call");
        match tokens(used.llm_tokens, 0) {
            Some(tokens) => format!("judge {calls}, {tokens}"),
            None => format!("judge {calls}"),
        }
    });
    let agent = tokens(used.agent_tokens, 0).map(|tokens| format!("agent {tokens}"));
    let parts = [agent, judge, money(used.cost_usd), time(used.seconds)];
    joined(parts, " · ")
}

/// Returns what the agent of an attempt used, as far as it was reported.
pub fn attempt_line(attempt: &Attempt) -> Option<String> {
    let report = attempt.report.as_ref()?;
    let used = tokens(report.input_tokens, report.output_tokens);
    let took = took(attempt).and_then(|took| time(took.as_secs_f64()));
    joined([used, money(report.cost_usd), took], " · ")
}

/// Returns the tokens and the dollars that agents and models have used.
pub(super) fn whole(usage: &Usage) -> (u64, f64) {
    let tokens = [
        usage.llm_input_tokens,
        usage.llm_output_tokens,
        usage.agent_input_tokens,
        usage.agent_output_tokens,
    ];
    let tokens = tokens.into_iter().fold(0, u64::saturating_add);
    (tokens, usage.llm_cost_usd + usage.agent_cost_usd)
}

/// Joins what there is to say.
pub(super) fn joined<const N: usize>(parts: [Option<String>; N], between: &str) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(between))
}

fn took(attempt: &Attempt) -> Option<Duration> {
    let received = attempt.report.as_ref()?.received;
    // One that came too late says nothing of how long the agent was needed.
    let judged = attempt.verdict.as_ref().map(|verdict| verdict.at);
    let done = judged.map_or(received, |judged| judged.min(received));
    Some(done.since(attempt.claimed?))
}

pub(super) fn tokens(input: u64, output: u64) -> Option<String> {
    let count = input.saturating_add(output) as f64;
    (count > 0.0).then(|| BudgetLimit::LlmTokens.counted(count))
}

pub(super) fn money(dollars: f64) -> Option<String> {
    (dollars > 0.0).then(|| BudgetLimit::CostUsd.counted(dollars))
}

/// Says a span of time that is worth saying.
pub(super) fn time(seconds: f64) -> Option<String> {
    (seconds >= 1.0).then(|| BudgetLimit::WallTime.counted(seconds))
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample_plan;
    use super::*;
    use crate::plan::{
        ActiveTime, AttemptKind, AttemptState, CommandId, Draft, ModelCost, NewCommand, Report,
        ReportStatus, Time,
    };

    /// Lets task 5 of the sample be done and judged, at a price.
    fn plan() -> Plan {
        let mut plan = sample_plan::plan();
        let began = Time(1_800_000_000_000_000);
        let mut draft = Draft::new(&mut plan, began);
        let id = CommandId::new("task-5a");
        let issue = NewCommand {
            id: id.clone(),
            kind: AttemptKind::New,
            session: None,
            text: String::new(),
        };
        draft.issue(TaskId(5), issue).unwrap();
        draft.claim(&id, None).unwrap();
        let received = began.plus(Duration::from_secs(190));
        let report = Report {
            results: "done".into(),
            input_tokens: 120_000,
            output_tokens: 3_400,
            cost_usd: 0.4,
            hash: "5a".into(),
            ..Report::new("report-task-5a.md", ReportStatus::Success, received)
        };
        draft.report(&id, report).unwrap();
        let ask = draft
            .begin_ask(&ModelQuestionKind::Judge(id.clone()))
            .unwrap();
        let spent = ModelCost {
            calls: 2,
            input_tokens: 5_000,
            output_tokens: 200,
            cost_usd: 0.02,
        };
        draft.count_ask(&ask, spent).unwrap();
        draft.failed_ask(&ask, "unreachable", None).unwrap();
        draft.count_time(ActiveTime {
            since: began,
            span: Duration::from_secs(900),
        });
        draft.finish();
        assert_eq!(plan.attempt(&id).unwrap().state, AttemptState::Reported);
        plan
    }

    #[test]
    fn shows_usage_against_budget() {
        insta::assert_snapshot!(line(&plan()).unwrap(), @"Used: model 2 of 500 calls, 5.2k of 5M tokens · agents 4 of 200 attempts, 123k tokens · $0.42 of $20 · 15 min of 12 h");
        insta::assert_snapshot!(line(&sample_plan::plan()).unwrap(), @"Used: agents 3 of 200 attempts");
        let tasks = of_tasks(&plan());
        insta::assert_snapshot!(task_line(&tasks[&TaskId(5)]).unwrap(), @"agent 123k tokens · judge 2 calls, 5.2k tokens · $0.42 · 3 min");
        assert_eq!(task_line(&tasks[&TaskId(1)]), None);
        assert_eq!(tasks.get(&TaskId(3)), None);
        let attempt = plan().attempt(&CommandId::new("task-5a")).cloned().unwrap();
        insta::assert_snapshot!(attempt_line(&attempt).unwrap(), @"123k tokens · $0.40 · 3 min");
    }
}
