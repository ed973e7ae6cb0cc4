//! `worker`: agents for the commands of a folder, in a process of their own.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use tokio::sync::mpsc;

use super::{
    Access, App, CommandStart, Ended, Exit, Result, WorkerArgs, complain, unless, worker_pools,
};
use crate::plan::Plan;
use crate::plan_time::Clock;
use crate::store::ListedPlan;
use crate::view::clock_time;
use crate::wire::one_line;
use crate::worker::{self, RoleFilter, WorkerEvent};

/// Takes commands and runs an agent for each.
pub async fn worker(args: WorkerArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let opened = async {
        let mut app = App::open(start, Access::Run).await?;
        app.load_sound_team(&args.team).await?;
        app.require_trust(true).await?;
        app.quiet()?;
        let options = worker_pools::alone(&args, &app).await?;
        Ok((app, options))
    };
    let (app, mut options) = unless(&mut ended, "no command was taken", opened).await?;
    if let RoleFilter::Only(role) = &options.role {
        warn_of_unknown_role(role, &app).await?;
    }
    let (events, received) = mpsc::unbounded_channel();
    options.events = Some(events);
    let of_role = match &options.role {
        RoleFilter::Only(role) => format!(" of `{role}`"),
        _ => String::new(),
    };
    let root = app.config.root().display().to_string();
    let taking = format!("taking commands{of_role} in `{root}`");
    complain!("{taking}; Ctrl-C ends");
    let shown = tokio::spawn(show_work(received));
    let mut exit = Exit::Done;
    let worked = worker::run(options, async { exit = ended.await }).await;
    // It ends with the worker, which held the other end.
    drop(shown.await);
    worked?;
    Ok(exit)
}

/// Says that no open plan knows a role, where they know others: the name may be a slip.
async fn warn_of_unknown_role(role: &str, app: &App) -> Result {
    let mut known = BTreeSet::new();
    for ListedPlan { head, .. } in app.plans().await? {
        if head.may_ask() {
            known.extend(head.policy.roles.keys().cloned());
            let assignees = |plan: &Plan, _| -> Vec<String> {
                let assignees = plan.tasks().filter_map(|task| task.assignee.clone());
                assignees.collect()
            };
            // One that was removed meanwhile has none.
            known.extend(app.read(&head.id, assignees).await.unwrap_or_default());
        }
    }
    if !known.is_empty() && !known.contains(role) {
        let known: Vec<String> = known.iter().map(|role| format!("`{role}`")).collect();
        let known = one_line(&known.join(", "), 400);
        complain!("! no open plan has a role `{role}`; there are {known}");
    }
    Ok(())
}

/// Prints what a worker does, a line for each beginning and each end.
async fn show_work(mut events: mpsc::UnboundedReceiver<WorkerEvent>) {
    let (clock, zone) = (Clock::start(), TimeZone::system());
    let mut title = String::new();
    while let Some(event) = events.recv().await {
        let ends = matches!(event, WorkerEvent::Reported(_));
        let what = match event {
            WorkerEvent::Begun(begun) => {
                title = begun;
                "begun".to_owned()
            }
            WorkerEvent::Waits { said, until } => {
                format!("{said}; it is asked again at {}", clock_time(until, &zone))
            }
            WorkerEvent::Reported(Some(status)) => format!("reported {}", status.as_str()),
            WorkerEvent::Reported(None) => "reported by the agent".to_owned(),
        };
        // A command that only ends a session was not begun.
        if !title.is_empty() {
            let time = clock_time(clock.now(), &zone);
            complain!("{time} {title}: {what}");
        }
        if ends {
            title.clear();
        }
    }
}
