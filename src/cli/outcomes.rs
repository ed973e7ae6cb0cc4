//! `outcomes`: what came of the tasks of all plans of the folder; and what is expected of the next ones.

use anyhow::anyhow;
use jiff::civil::Date;
use jiff::{Span, Timestamp, Zoned};

use super::args::OutcomesArgs;
use super::{App, Failure, Output};
use crate::agents::CodingAgent;
use crate::plan::{Plan, PlanId, ROLE, Time};
use crate::view::{Outcomes, PastTasks, agent_of};

/// Changes that are read together.
const PAGE: usize = 1000;

/// How many of the newest plans an estimate for the next tasks is made from.
const RECENT: usize = 20;

/// Prints what came of the tasks.
pub async fn outcomes(args: &OutcomesArgs, app: &App, output: &mut Output) -> Result<(), Failure> {
    let since = args
        .since
        .as_deref()
        .map(begin)
        .transpose()?
        .unwrap_or_default();
    let mut outcomes = Outcomes::default();
    for plan in plans(app).await? {
        let mut changes = Vec::new();
        while let page = app
            .store()
            .await?
            .since(&plan, last_of(&changes), PAGE)
            .await?
            && !page.is_empty()
        {
            changes.extend(page);
        }
        let add = move |plan: &Plan, _: i64| {
            outcomes.add(plan, &changes, since);
            outcomes
        };
        outcomes = app.read(&plan, add).await?;
    }
    match args.json {
        true => output.json(&outcomes),
        false => output.prose(&outcomes.text(output.paint())),
    }
}

impl App {
    /// Says what the tasks of a plan may take, by what its agent did here before, or else by a guess if that is wanted; `None`
    /// if there is nothing to say.
    pub(super) async fn expected(
        &self,
        plan: &PlanId,
        lanes: u32,
        guess: bool,
    ) -> Result<Option<String>, Failure> {
        let head = |plan: &Plan, _: i64| {
            let named = plan
                .head()
                .options
                .as_ref()
                .and_then(|options| options.agent.clone());
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
        self.read(plan, move |plan, _| past.expected(plan, lanes, guess))
            .await
    }
}

/// Returns the plans of the folder that are no role's own, oldest first.
async fn plans(app: &App) -> Result<Vec<PlanId>, Failure> {
    let Some(store) = app.store_if_any().await? else {
        return Ok(Vec::new());
    };
    let mut plans = store.plans().await?;
    plans.retain(|plan| plan.head.owner != ROLE);
    plans.sort_by_key(|plan| plan.head.created_at);
    Ok(plans.into_iter().map(|plan| plan.head.id).collect())
}

fn last_of(changes: &[crate::store::Change]) -> i64 {
    changes.last().map_or(0, |change| change.seq)
}

/// Reads a day, or how long ago.
fn begin(text: &str) -> Result<Time, Failure> {
    let now = Zoned::now();
    let day = text
        .parse::<Date>()
        .and_then(|day| day.to_zoned(now.time_zone().clone()));
    let ago = || {
        text.parse::<Span>()
            .and_then(|span| now.checked_sub(span.abs()))
    };
    let begin = day.or_else(|_| ago()).map_err(|_| {
        let error = anyhow!(
            "`{}` is no day and no span of time",
            crate::wire::text::one_line(text, 40)
        );
        Failure::usage(error).hint("write a day such as 2026-11-01, or 7d, 12h".to_owned())
    })?;
    Ok(Time(Timestamp::from(begin).as_microsecond()))
}
