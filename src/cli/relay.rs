//! `relay`: takes commands of daemons on other machines, for the agents here.

use std::sync::Arc;

use anyhow::anyhow;
use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::args::RelayArgs;
use super::carry_out_plan::stopped;
use super::{Access, App, CommandStart, Ended, Exit, Failure, Result, complain, unless};
use super::{store::relay_roles, worker_pools};
use crate::agents::Agent;
use crate::config::Config;
use crate::daemon;
use crate::exec::project_head;
use crate::relay::{Relay, RelayNotes, RelayOptions};
use crate::store::AboutRelay;
use crate::view::clock_time;
use crate::volumes::machine;
use crate::worker;

/// What makes a folder of [projects] fit.
pub(super) const CLONE: &str = "name the clone of it here under [projects] in config.toml; without git only the files travel that tasks produce";

/// Returns what is wrong with the folders of [projects].
pub(super) async fn unfit_projects(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    for id in config.projects.keys() {
        let folder = config.project(id).unwrap_or_default();
        if let Err(error) = project_head(&folder, None).await {
            found.push(format!("project `{id}`: {error}"));
        }
    }
    found
}

/// Refuses another relay as the agent that does the commands of a process.
pub(super) fn refuse_relay(agent: Option<&Agent>) -> Result {
    if !matches!(agent, Some(Agent::Relay)) {
        return Ok(());
    }
    let error = anyhow!("agents here do the commands, not another relay");
    let hint = "name an agent; `relay --agent files` leaves the commands to others who work with the folder";
    Err(Failure::usage(error).hint(hint))
}

/// Takes commands until it is stopped.
pub async fn relay(args: RelayArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let opened = async {
        let mut app = App::open(start, Access::Run).await?;
        app.require_trust(true).await?;
        app.quiet()?;
        if app.config.projects.is_empty() {
            let error = anyhow!("no project is named, and a relay works in clones of projects");
            let hint = "[projects] in config.toml: `app = \"/home/me/app\"`, with the id that the daemon has for it";
            return Err(Failure::usage(error).hint(hint));
        }
        let place = app.confirmed_place()?.clone();
        let bell = place.bell()?;
        let agent = args.agent.or_configured(&app.config).choose(&app).await?;
        refuse_relay(agent.as_ref())?;
        let lock = app.lock_folder(None).await?;
        daemon::end_left_behind(&app.volumes).await;
        let notes = RelayNotes::read(&app.volumes)?;
        let link = place.relay_link(&notes.name)?;
        Ok((app, lock, notes, link, bell, agent))
    };
    let (app, lock, notes, link, bell, agent) =
        unless(&mut ended, "no command was taken", opened).await?;
    let about = AboutRelay {
        machine: machine().unwrap_or("?").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agent: agent.as_ref().map_or("files", Agent::name).to_owned(),
        roles: relay_roles(&args.role),
        ..AboutRelay::default()
    };
    // The first beat says whether the server lets this login in.
    link.beat(&about, &[]).await?;
    let of_roles = match args.role.is_empty() {
        true => String::new(),
        false => format!(" of {}", args.role.join(", ")),
    };
    let root = app.volumes.root().display();
    let who = match &agent {
        Some(agent) => format!("{} does the work", agent.name()),
        None => format!("whoever works with the files in `{root}` does the work"),
    };
    complain!(
        "commands{of_roles} come from {}; {who}; Ctrl-C ends",
        app.place
    );
    for problem in unfit_projects(&app.config).await {
        complain!("note: {problem}\nHint: {CLONE}");
    }
    let pool = agent.map(|agent| worker_pools::of_relay(agent, args.lanes, &app));
    let (config, clock) = (Arc::new(app.config.clone()), app.clock);
    let mut exit = Exit::Done;
    let options = RelayOptions {
        config,
        link,
        notes,
        about,
        most: args.lanes,
        bell,
        worktrees: Box::new(move |plan, root| app.worktrees_in("relay", plan, root)),
        notice: Box::new(move |text| {
            let time = clock_time(clock.now(), &TimeZone::system());
            complain!("{time} {text}");
        }),
    };
    let mut relay = Relay::open(options)?;
    let (stop, stopping) = watch::channel(false);
    let (mut workers, own) = (JoinSet::new(), pool.is_some());
    workers.extend(pool.map(|pool| worker::run(pool, stopped(&stopping))));
    let mut gone = None;
    let over = async {
        tokio::select! {
            ended = ended => exit = ended,
            // The agent cannot work as it is set up: others may take what comes.
            Some(worked) = workers.join_next() => gone = Some(worked),
        }
    };
    relay.work(over).await;
    let ended = async {
        stop.send_replace(true);
        while workers.join_next().await.is_some() {}
    };
    relay.end(own.then_some(ended)).await;
    drop(lock);
    if let Some(Ok(worked)) = gone {
        worked?;
    }
    Ok(exit)
}
