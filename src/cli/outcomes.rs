//! `outcomes`: what came of the tasks of all plans of the folder; and what is expected of the next ones.

use anyhow::anyhow;
use jiff::civil::Date;
use jiff::{Span, Timestamp, Zoned};

use super::{App, Failure, OutcomesArgs, Result};
use crate::plan::{Plan, PlanId, ROLE, Time};
use crate::view::Outcomes;
use crate::wire::one_line;

/// Changes that are read together.
const PAGE: usize = 1000;

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

/// Returns the plans of the folder that are no role's own, oldest first.
pub async fn plans(app: &App) -> Result<Vec<PlanId>> {
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
