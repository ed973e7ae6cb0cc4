//! `plans`, `status`, `show`, `why`: what there is and how far it is.

use std::time::Duration;

use anyhow::anyhow;
use jiff::tz::TimeZone;
use serde_json::json;

use super::args::{Format, OnPlan, Plans, Show, Status, Why};
use super::failure::{Exit, Failure};
use super::output::Output;
use super::setup::Setup;
use super::site::Site;
use super::view::{self, LastDaemon};
use crate::plan::{Plan, PlanId, ROLE, Shelf};
use crate::store::{Listed, StoreError};
use crate::wire::text::{one_line, printable, time_text};
use crate::wire::{graph, plan_file};

/// How often a plan that others change is looked at again while a person watches it: soon enough to feel immediate, and
/// cheap, since only a number is compared.
pub const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Lists the plans, the newest first; those that were put away, and what roles make of their tasks, only if all are wanted.
pub async fn plans(args: &Plans, setup: &Setup, output: &mut Output) -> Result<Exit, Failure> {
    let mut plans = match Site::find(setup).await? {
        Some(site) => site.store.plans().await?,
        None => Vec::new(),
    };
    plans.retain(|Listed { head, .. }| {
        args.all || (head.shelf == Shelf::Current && head.owner != ROLE)
    });
    if args.json {
        let lines: Vec<_> = plans
            .iter()
            .map(|listed| {
                let head = &listed.head;
                json!({
                    "id": head.id,
                    "key": head.key(),
                    "owner": head.owner,
                    "shelf": head.shelf.as_str(),
                    "name": head.name,
                    "goal": head.goal,
                    "status": head.status.as_str(),
                    "seq": listed.seq,
                    "created_at": time_text(head.created_at),
                    "finished_at": head.finished_at.map(time_text),
                })
            })
            .collect();
        output.json(&lines)?;
    } else if plans.is_empty() {
        output.line(&format!("no plans yet: `{} run` makes one", setup.program))?;
    } else {
        let zone = TimeZone::system();
        for listed in &plans {
            output.line(&view::plan_line(&listed.head, &zone, output.paint()))?;
        }
    }
    Ok(Exit::Done)
}

/// Shows how far a plan is, once or after every change until it ends.
pub async fn status(args: &Status, site: &Site, output: &mut Output) -> Result<Exit, Failure> {
    let plan = on(&args.on, site).await?;
    let mut shown = None;
    loop {
        let daemon = site.daemon();
        let seq = site.store.read(&plan, |_, seq| seq).await?;
        let now = Some((seq, daemon));
        if shown != now {
            status_once(args, &plan, site, daemon, output).await?;
            shown = now;
        }
        if !args.watch || settled(site, &plan).await? {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn status_once(
    args: &Status,
    plan: &PlanId,
    site: &Site,
    daemon: Option<u32>,
    output: &mut Output,
) -> Result<(), Failure> {
    let limit = args.limit;
    let ended = match daemon {
        Some(_) => None,
        None => last_daemon(plan, site),
    };
    let now = site.clock.now();
    if args.json {
        let daemon = daemon.ok_or(ended);
        let status = site
            .store
            .read(plan, move |plan, seq| {
                view::status_json(plan, seq, daemon, limit, now)
            })
            .await?;
        return if args.watch {
            output.json_line(&status)
        } else {
            output.json(&status)
        };
    }
    let (paint, program) = (output.paint(), site.program.clone());
    let page = site
        .store
        .read(plan, move |plan, _| {
            view::status_text(plan, daemon, limit, now, paint, &program)
        })
        .await?;
    if args.watch && output.is_terminal() {
        output.clear()?;
    }
    output.prose(&(page + &ended.map_or(String::new(), |ended| ended.text())))
}

/// Tells when and why the daemon of a plan ended, if that is known and nobody was there to see it.
fn last_daemon(plan: &PlanId, site: &Site) -> Option<LastDaemon> {
    if let Some(word) = site.volumes.last_word()
        && word.plan == plan.as_str()
    {
        return Some(LastDaemon::Ended {
            ended_at: one_line(&word.at, 40),
            why: one_line(&word.why, 400),
        });
    }
    let gone = site.volumes.vanished()?;
    (gone.plan.as_deref() == Some(plan.as_str())).then(|| LastDaemon::Gone {
        pid: gone.pid,
        started_at: one_line(&gone.started_at, 40),
    })
}

/// Shows a plan, as it is or as it was.
pub async fn show(args: &Show, site: &Site, output: &mut Output) -> Result<Exit, Failure> {
    let id = on(&args.on, site).await?;
    let now = site
        .store
        .read(&id, |plan, seq| (plan.clone(), seq))
        .await?;
    let (plan, seq) = match args.at {
        Some(at) => (as_it_was(site, &id, at).await?, at),
        None => now,
    };
    match args.format {
        Format::Dot => output.text(&graph::dot(&plan, plan.tasks()))?,
        Format::Mermaid => output.text(&graph::mermaid(&plan, plan.tasks()))?,
        Format::Json => {
            let rows: Vec<_> = plan.rows().collect();
            output.json(&json!({ "seq": seq, "rows": rows }))?;
        }
        Format::Md => output.text(&printable(&plan_file::render(&plan)))?,
    }
    Ok(Exit::Done)
}

/// Returns a plan as it was after one of its changes.
pub async fn as_it_was(site: &Site, id: &PlanId, at: i64) -> Result<Plan, Failure> {
    let last = site.store.read(id, |_, seq| seq).await?;
    site.store.at(id, at).await.map_err(|error| match error {
        StoreError::UnknownPlan(_) => Failure::usage(anyhow!("plan `{id}` has no change `{at}`"))
            .hint(format!(
                "the last one is {last}; `{} log {id}` shows all",
                site.program
            )),
        error => error.into(),
    })
}

/// Says why a task is as it is.
pub async fn why(args: &Why, site: &Site, output: &mut Output) -> Result<Exit, Failure> {
    let id = site.plan(args.plan.as_deref()).await?;
    let (task, now, paint) = (args.task, site.clock.now(), output.paint());
    let program = site.program.clone();
    let said = site
        .store
        .read(&id, move |plan, _| {
            view::why(plan, task, now, paint, &program)
        })
        .await?;
    let said = said.ok_or_else(|| {
        Failure::usage(anyhow!("plan `{id}` has no task `{task}`"))
            .hint(format!("`{} status {id}` shows the tasks", site.program))
    })?;
    output.prose(&said)?;
    Ok(Exit::Done)
}

/// Returns the plan that a command is about.
pub async fn on(on: &OnPlan, site: &Site) -> Result<PlanId, Failure> {
    site.plan(on.plan.as_deref()).await
}

/// Tells whether a plan has ended.
pub async fn settled(site: &Site, plan: &PlanId) -> Result<bool, Failure> {
    Ok(site
        .store
        .read(plan, |plan, _| plan.status().settled())
        .await?)
}
