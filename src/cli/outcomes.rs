//! `outcomes`: what came of the tasks of all plans of the folder; and what is expected of the next ones.

use anyhow::anyhow;
use jiff::civil::Date;
use jiff::{Span, Timestamp, Zoned};

use super::{App, Failure, OutcomesArgs, Result};
use crate::agents::CodingAgent;
use crate::plan::{Plan, PlanId, ROLE, Time};
use crate::view::{Outcomes, PastTasks, agent_of};
use crate::wire::one_line;

/// Changes that are read together.
const PAGE: usize = 1000;

/// How many of the newest plans an estimate for the next tasks is made from.
const RECENT: usize = 20;

/// Prints what came of the tasks.
pub async fn outcomes(args: &OutcomesArgs, app: &App) -> Result {
    let since = args.since.as_deref().map(begin).transpose()?;
    let since = since.unwrap_or_default();
    let mut outcomes = Outcomes::default();
    for plan in plans(app).await? {
        let (mut seq, mut changes) = (0, Vec::new());
        while let page = app.store().await?.since(&plan, seq, PAGE).await?
            && let Some(last) = page.last()
        {
            seq = last.seq;
            changes.extend(page);
        }
        let add = move |plan: &Plan, _: i64| {
            outcomes.add(plan, &changes, since);
            outcomes
        };
        outcomes = app.read(&plan, add).await?;
    }
    match args.json {
        true => app.out.json(&outcomes),
        false => app.out.prose(&outcomes.text(app.out.paint)),
    }
}

impl App {
    /// Says what the tasks of a plan may take, by what its agent did here before, or else by a guess if that is wanted; `None`
    /// if there is nothing to say.
    pub async fn expected(&self, plan: &PlanId, lanes: u32, guess: bool) -> Result<Option<String>> {
        let head = |plan: &Plan, _: i64| {
            let options = plan.head().options.as_ref();
            let named = options.and_then(|options| options.agent.clone());
            (plan.head().created_at, agent_of(plan), named)
        };
        let (began, agent, named) = self.read(plan, head).await?;
        let mut past = PastTasks::default();
        for other in plans(self).await?.into_iter().rev().take(RECENT) {
            let agent = agent.clone();
            let add = move |plan: &Plan, _: i64| {
                past.add(plan, &agent, began);
                past
            };
            past = self.read(&other, add).await?;
        }
        let guess = guess && named.as_deref().and_then(CodingAgent::named).is_some();
        let expected = move |plan: &Plan, _| past.expected(plan, lanes, guess);
        self.read(plan, expected).await
    }
}

/// Returns the plans of the folder that are no role's own, oldest first.
async fn plans(app: &App) -> Result<Vec<PlanId>> {
    let mut plans = app.plans().await?;
    plans.retain(|plan| plan.head.owner != ROLE);
    plans.sort_by_key(|plan| plan.head.created_at);
    Ok(plans.into_iter().map(|plan| plan.head.id).collect())
}

/// Reads a day, or how long ago.
fn begin(text: &str) -> Result<Time> {
    let now = Zoned::now();
    let day = text.parse::<Date>();
    let day = day.and_then(|day| day.to_zoned(now.time_zone().clone()));
    let ago = |span: Span| now.checked_sub(span.abs());
    let begin = day.or_else(|_| text.parse().and_then(ago)).map_err(|_| {
        let error = anyhow!("`{}` is no day and no span of time", one_line(text, 40));
        Failure::usage(error).hint("write a day such as 2026-11-01, or 7d, 12h")
    })?;
    Ok(Time(Timestamp::from(begin).as_microsecond()))
}
