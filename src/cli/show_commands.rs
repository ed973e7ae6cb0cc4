//! `plans`, `questions`, `status`, `show`, `why`, `log`: which plans exist, how far they are, what they ask, and what happened to
//! them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{
    App, Failure, LogArgs, OnTask, PlanFormat, PlansArgs, Result, ShowArgs, StatusArgs, complain,
};
use crate::plan::{Plan, PlanHead, PlanId, Task, TaskId};
use crate::store::{StoreError, TalliedPlan};
use crate::view::{self, EventView, ListedView, PlanView, QuestionView, StateWord};
use crate::wire::{graph_text, one_line, plan_file, printable};

/// How often a plan that others change is read again while a person watches it: soon enough to feel immediate, and
/// cheap, since only a number is compared.
const READ_EVERY: Duration = Duration::from_millis(200);

/// How often the ages on a page move on.
const TICK: Duration = Duration::from_secs(1);

/// Lines of a page beside those of the tasks.
const BESIDE_TASKS: usize = 12;

/// Changes that are read together.
const PAGE: usize = 500;

/// The longest name of a plan beside its questions.
const NAME: usize = 100;

/// Lists the plans, the newest first; those that were put away, and what roles make of their tasks, only if all are wanted.
pub async fn plans(args: &PlansArgs, app: &App) -> Result {
    let all = args.all;
    let wanted = move |head: &PlanHead| all || head.is_listed();
    let (plans, elsewhere) = match app.store_if_any().await? {
        Some(store) => (store.tallied(wanted).await?, store.held_elsewhere().await?),
        None => (Vec::new(), BTreeMap::new()),
    };
    let daemon = app.volumes.running();
    let carried_out = |id: &PlanId| {
        daemon.as_ref().is_some_and(|it| it.carries_out(id)) || elsewhere.contains_key(id)
    };
    let view = |plan: &TalliedPlan| carried_out(&plan.plan.head.id);
    let plans = plans.iter().map(|plan| ListedView::of(plan, view(plan)));
    let plans: Vec<ListedView> = plans.collect();
    if args.json {
        return app.out.json(&plans);
    }
    if plans.is_empty() {
        return app.say(&format!("no plans yet: `{} run` makes one", app.program));
    }
    let (now, paint) = (app.clock.now(), app.out.paint);
    let lines = plans.iter().map(|plan| plan.line(now, paint) + "\n");
    app.out.prose(&lines.collect::<String>())?;
    app.warn_of_suspended_daemon();
    Ok(())
}

/// Lists the open questions of all plans, those of the newest plan first.
pub async fn questions(json: bool, app: &App) -> Result {
    let mut listed = Vec::new();
    let mut lines = Vec::new();
    let asking = match app.store_if_any().await? {
        Some(store) => store.tallied(PlanHead::may_ask).await?,
        None => Vec::new(),
    };
    for plan in asking.into_iter().filter(|plan| plan.tally.questions > 0) {
        let id = plan.plan.head.id;
        let open = |plan: &Plan, _| QuestionView::open_of(plan);
        for question in app.read(&id, open).await? {
            if json {
                let name = &plan.plan.head.name;
                listed.push(json!({ "plan": { "id": id, "name": name }, "question": question }));
            } else {
                let id = one_line(id.as_str(), NAME);
                let name = one_line(&plan.plan.head.name, NAME);
                let text = question.text(false, app.out.paint, &app.program);
                lines.push(format!("{id}  {name}\n{text}\n"));
            }
        }
    }
    match (json, lines.is_empty()) {
        (true, _) => app.out.json(&listed),
        (false, true) => app.say("no question is open"),
        (false, false) => app.out.prose(&lines.join("\n")),
    }
}

/// Shows how far a plan is, once or after every change until it ends. On a terminal that can draw it again, its ages move on.
pub async fn status(args: &StatusArgs, app: &App) -> Result {
    let plan = app.plan(args.on.plan.as_deref()).await?;
    let (mut shown, mut view, mut drawn) = (None, None, Instant::now());
    loop {
        let daemon = app.volumes.daemon_of(&plan).map(|daemon| daemon.pid);
        let now = app.read(&plan, |plan, seq| (seq, plan.status().settled()));
        let (seq, over) = now.await?;
        let last = !args.watch || over;
        let screen = app.out.size().filter(|_| !last && !args.json);
        let changed = shown != Some((seq, daemon));
        if changed {
            shown = Some((seq, daemon));
            // On a terminal where the page must fit, not more tasks than do.
            let fit = screen.map(|(_, rows)| rows.saturating_sub(BESIDE_TASKS).max(3));
            let most = fit.map_or(args.limit, |fit| fit.min(args.limit));
            view = Some(plan_view(most, &plan, app, daemon).await?);
        }
        let ages = screen.is_some() && drawn.elapsed() >= TICK;
        if let Some(view) = view.as_ref().filter(|_| changed || ages) {
            drawn = Instant::now();
            let page = || view.page(app.clock.now(), app.out.paint, &app.program);
            match (args.json, args.watch, screen) {
                (true, true, _) => app.out.json_line(view)?,
                (true, false, _) => app.out.json(view)?,
                (false, _, Some(screen)) => app.out.redraw(&page(), screen)?,
                (false, true, None) if app.out.terminal => {
                    app.out.clear()?;
                    app.out.prose(&page())?;
                }
                (false, _, None) => app.out.prose(&page())?,
            }
        }
        if last {
            app.warn_of_suspended_daemon();
            return Ok(());
        }
        tokio::time::sleep(READ_EVERY).await;
    }
}

async fn plan_view(most: usize, plan: &PlanId, app: &App, daemon: Option<u32>) -> Result<PlanView> {
    let now = app.clock.now();
    let others = app.store().await?.locks_beside(plan).await?;
    let view = move |plan: &Plan, seq| PlanView::of(plan, seq, most, now, &others);
    let mut view = app.read(plan, view).await?;
    let store = app.store().await?;
    let elsewhere = store.held_elsewhere().await?;
    let elsewhere = elsewhere.get(plan).map(String::as_str);
    view.carried_out_by(daemon, elsewhere);
    let home = store.elsewhere(&view.head).map(str::to_owned);
    view.left_by(home, app.volumes.last_word(), app.volumes.vanished());
    if view.asks() {
        let mut asking = (store.tallied(PlanHead::may_ask).await?).into_iter();
        view.others_ask = asking.any(|it| it.plan.head.id != *plan && it.tally.questions > 0);
    }
    view.daemon_elsewhere = app.daemon().is_some();
    Ok(view)
}

/// Shows a plan, as it is or as it was.
pub async fn show(args: &ShowArgs, app: &App) -> Result {
    let id = app.plan(args.on.plan.as_deref()).await?;
    let (plan, seq) = match args.at {
        Some(at) => (as_it_was(app, &id, at).await?, at),
        None => app.read(&id, |plan, seq| (plan.clone(), seq)).await?,
    };
    let state = |task: &Task| StateWord::of_task(&plan, task).as_str();
    let tasks: Vec<&Task> = plan.tasks().collect();
    match args.format {
        PlanFormat::Dot => app.out.text(&graph_text::dot(&plan, &tasks, state)),
        PlanFormat::Mermaid => app.out.text(&graph_text::mermaid(&tasks, state)),
        PlanFormat::Json => {
            let rows: Vec<_> = plan.rows().collect();
            app.out.json(&json!({ "seq": seq, "rows": rows }))
        }
        PlanFormat::Md => {
            app.out.text(&printable(&plan_file::render(&plan)))?;
            let mut placed = (1..).zip(plan.tasks());
            if placed.any(|(place, task)| task.number != TaskId(place)) {
                let said = "the numbers here are places in the file; commands take those that";
                complain!("Hint: {said} `{} status` shows", app.program);
            }
            Ok(())
        }
    }
}

/// Returns a plan as it was after one of its changes.
pub async fn as_it_was(app: &App, id: &PlanId, at: i64) -> Result<Plan> {
    let last = app.read(id, |_, seq| seq).await?;
    match app.store().await?.at(id, at).await {
        Err(StoreError::UnknownPlan(_)) => {
            let (error, program) = (anyhow!("plan `{id}` has no change `{at}`"), &app.program);
            let hint = format!("the last one is {last}; `{program} log {id}` shows all");
            Err(Failure::usage(error).hint(hint))
        }
        plan => Ok(plan?),
    }
}

/// Says why a task is as it is.
pub async fn why(args: &OnTask, app: &App) -> Result {
    let id = app.plan(args.plan.as_deref()).await?;
    let (task, now, paint) = (args.task, app.clock.now(), app.out.paint);
    let program = app.program.clone();
    let others = app.store().await?.locks_beside(&id).await?;
    let why = move |plan: &Plan, _| view::why(plan, task, now, paint, &program, &others);
    let why = app.read(&id, why).await?;
    app.out.prose(&why.ok_or_else(|| app.no_task(&id, task))?)
}

/// Prints every change, and with `--follow` those that come until the plan ends.
pub async fn log(args: &LogArgs, app: &App) -> Result {
    let plan = app.plan(args.on.plan.as_deref()).await?;
    let zone = TimeZone::system();
    let mut seq = 0;
    loop {
        // Asked before the changes are read, so that the last ones are not missed.
        let last_round = !args.follow || app.read(&plan, |plan, _| plan.status().settled()).await?;
        while let page = app.store().await?.since(&plan, seq, PAGE).await?
            && let Some(last) = page.last()
        {
            seq = last.seq;
            for change in &page {
                if args.json {
                    let mut events = EventView::logged(change, &plan).into_iter();
                    events.try_for_each(|event| app.out.json_line(&event))?;
                } else {
                    let mut lines = view::lines(change, &zone, app.out.paint).into_iter();
                    lines.try_for_each(|line| app.say(&line))?;
                }
            }
        }
        if last_round {
            return Ok(());
        }
        tokio::time::sleep(READ_EVERY).await;
    }
}
