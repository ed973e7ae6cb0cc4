//! `workers`: who is at work, on which machine.

use serde_json::json;

use super::{App, Result};
use crate::plan::Time;
use crate::view::span;
use crate::wire::text::{one_line, parse_time};
use crate::worker::at_work::{RelayView, WorkerView, relays, workers};

/// The most characters of a name.
const NAME: usize = 60;

/// Lists the agents that have a task, and the relays.
pub async fn list(json: bool, app: &App) -> Result {
    let (workers, relays) = match app.store_if_any().await? {
        Some(store) => (workers(store, &app.volumes).await?, relays(store).await?),
        None => (Vec::new(), Vec::new()),
    };
    if json {
        return app
            .out
            .json(&json!({ "workers": workers, "relays": relays }));
    }
    let now = app.clock.now();
    let mut lines: Vec<String> = workers
        .iter()
        .map(|worker| of_worker(worker, now))
        .collect();
    if lines.is_empty() {
        lines.push("no agent has a task".to_owned());
    }
    lines.extend(relays.iter().map(|relay| of_relay(relay, now)));
    app.out.prose(&(lines.join("\n") + "\n"))
}

fn of_worker(worker: &WorkerView, now: Time) -> String {
    let name = worker
        .task_name
        .as_deref()
        .map_or(String::new(), |name| format!(" · {}", one_line(name, NAME)));
    let role = worker
        .role
        .as_deref()
        .map_or(String::new(), |role| format!(" ({})", one_line(role, NAME)));
    let machine = worker.machine.as_deref().map_or(String::new(), |machine| {
        format!(" at {}", one_line(machine, NAME))
    });
    let waits = worker.blocked_until.as_deref();
    let waits = waits.map_or(String::new(), |until| {
        format!(", waits for its model until {until}")
    });
    let doing = match worker.doing.is_empty() {
        true => String::new(),
        false => format!("\n          {}", worker.doing),
    };
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
    let roles: Vec<&str> = relay
        .roles
        .iter()
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    let of = match roles.is_empty() {
        true => String::new(),
        false => format!(" of {}", roles.join(", ")),
    };
    let state = match relay.lost {
        true => "lost, ",
        false => "",
    };
    let holds = match relay.holds.len() {
        0 => "has no command".to_owned(),
        1 => format!("has {}", relay.holds[0]),
        many => format!("has {many} commands"),
    };
    format!(
        "relay {}: {} takes commands{of}, version {}, {state}{}, {holds}",
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
    match beat {
        Some(_) => format!("heard of {} ago", ago(beat, now)),
        None => "not heard of yet".to_owned(),
    }
}
