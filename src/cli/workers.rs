//! `workers`: who is at work, on which machine.

use serde_json::json;

use super::{App, Result};
use crate::plan::{Time, unless_empty};
use crate::view::span;
use crate::wire::{joined, one_line, parse_time};
use crate::worker::workers_at_work::{RelayView, WorkerView, all_at_work};

/// The most characters of a name.
const NAME: usize = 60;

/// Lists the agents that have a task, and the relays.
pub async fn list(json: bool, app: &App) -> Result {
    let (workers, relays) = match app.store_if_any().await? {
        Some(store) => all_at_work(store, &app.volumes).await?,
        None => (Vec::new(), Vec::new()),
    };
    if json {
        let all = json!({ "workers": workers, "relays": relays });
        return app.out.json(&all);
    }
    let now = app.clock.now();
    let lines = workers.iter().map(|worker| of_worker(worker, now));
    let mut lines: Vec<String> = lines.collect();
    lines.extend(workers.is_empty().then(|| "no agent has a task".to_owned()));
    lines.extend(relays.iter().map(|relay| of_relay(relay, now)));
    app.out.prose(&(lines.join("\n") + "\n"))
}

fn of_worker(worker: &WorkerView, now: Time) -> String {
    let part = |text: &Option<String>, before, after| match text {
        Some(text) => format!("{before}{}{after}", one_line(text, NAME)),
        None => String::new(),
    };
    let name = part(&worker.task_name, " · ", "");
    let role = part(&worker.role, " (", ")");
    let machine = part(&worker.machine, " at ", "");
    let waits = part(&worker.blocked_until, ", waits for its model until ", "");
    let doing = unless_empty(&worker.doing, |doing| format!("\n          {doing}"));
    format!(
        "{}  {}{name}{role}: {}{machine}, for {}, {}{waits}{doing}",
        worker.plan,
        worker.task,
        worker.agent,
        ago(worker.since.as_deref(), now),
        heard(worker.last_heartbeat.as_deref(), now),
    )
}

fn of_relay(relay: &RelayView, now: Time) -> String {
    let roles = relay.roles.iter().map(String::as_str);
    let roles = joined(roles.filter(|it| !it.is_empty()), ", ");
    let of = unless_empty(&roles, |roles| format!(" of {roles}"));
    let state = if relay.lost { "lost, " } else { "" };
    let limit = unless_empty(
        relay.limited_until.as_deref().unwrap_or_default(),
        |until| format!("at its usage limit until {until}, "),
    );
    let holds = match relay.holds.len() {
        0 => "has no command".to_owned(),
        1 => format!("has {}", relay.holds[0]),
        many => format!("has {many} commands"),
    };
    format!(
        "relay {}: {} takes commands{of}, version {}, {state}{limit}{}, {holds}",
        relay.name,
        relay.agent,
        relay.version,
        heard(Some(&relay.last_heartbeat), now),
    )
}

fn ago(time: Option<&str>, now: Time) -> String {
    let since = time.and_then(parse_time);
    since.map_or("?".to_owned(), |since| span(now.since(since)))
}

fn heard(beat: Option<&str>, now: Time) -> String {
    beat.map_or("not heard of yet".to_owned(), |_| {
        format!("heard of {} ago", ago(beat, now))
    })
}
