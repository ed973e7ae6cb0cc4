//! `log`: what happened to a plan, from its first change on.

use jiff::tz::TimeZone;

use super::app::App;
use super::args::LogArgs;
use super::failure::{Exit, Failure};
use super::output::Output;
use super::plan_display::{LOOK_AGAIN, settled};
use crate::view::{self, EventView};

/// How many changes are read at once.
const PAGE: usize = 500;

/// Prints every change, and with `--follow` those that come until the plan ends.
pub async fn log(args: &LogArgs, app: &App, output: &mut Output) -> Result<Exit, Failure> {
    let plan = app.plan(args.on.plan.as_deref()).await?;
    let zone = TimeZone::system();
    let mut seq = 0;
    loop {
        // Asked before the changes are read, so that the last ones are not missed.
        let last_round = !args.follow || settled(app, &plan).await?;
        loop {
            let page = app.store().await?.since(&plan, seq, PAGE).await?;
            let Some(last) = page.last() else { break };
            seq = last.seq;
            for change in &page {
                if args.json {
                    for event in EventView::logged(change, &plan) {
                        output.json_line(&event)?;
                    }
                } else {
                    for line in view::lines(change, &zone, output.paint()) {
                        output.line(&line)?;
                    }
                }
            }
        }
        if last_round {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
