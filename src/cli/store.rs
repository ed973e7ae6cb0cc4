//! `store`: looks after the database that keeps the plans, and says who may use it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::anyhow;

use super::args::StoreAct;
use super::{App, Exit, Failure, Result};
use crate::config::{StoreConfig, StoreUrl};
use crate::plan::counted;
use crate::store::{StoreError, StorePlace};
use crate::volumes::Volumes;
use crate::wire::{joined, one_line};

/// Why no daemon may work on what is copied.
const LEFT_OUT: &str = "what is changed meanwhile would be left out";

/// Migrates the store that is configured, or copies one to another.
pub async fn store(act: &StoreAct, app: &App) -> Result {
    match act {
        StoreAct::Migrate => migrate(app).await,
        StoreAct::Allow { login, role } => allow(login, role, app).await,
        StoreAct::Copy { from, to } => copy(&named(from, app)?, &named(to, app)?, app).await,
    }
}

async fn migrate(app: &App) -> Result {
    let place = app.confirmed_place()?;
    if !place.exists()? {
        return Err(app.no_plans());
    }
    let said = match place.migrate().await? {
        (0, now) => format!("the tables are made, in format {now}"),
        (before, now) if before == now => format!("nothing to do: the tables have format {now}"),
        (before, now) => format!("the tables are brought from format {before} to {now}"),
    };
    app.say(&format!("{place}: {said}"))
}

async fn allow(login: &str, roles: &[String], app: &App) -> Result {
    let roles = relay_roles(roles);
    let allowed = app.confirmed_place()?.allow(login, &roles).await;
    allowed.map_err(|error| match error {
        StoreError::Open { reason, .. } if reason.contains("has no login") => {
            let hint = format!("make it there: `CREATE ROLE {login} LOGIN PASSWORD '…'`");
            Failure::failed(anyhow!(reason)).hint(hint)
        }
        error => error.into(),
    })?;
    let what = match &*roles {
        [role] if role.is_empty() => "commands without a role".to_owned(),
        roles => format!("commands of {}", roles.join(", ")),
    };
    app.say(&format!("`{login}` may take {what}; DROP ROLE ends that"))
}

/// Returns the roles that are named; an empty one, for commands without a role, if none is.
pub fn relay_roles(named: &[String]) -> Vec<String> {
    match named.is_empty() {
        true => vec![String::new()],
        false => named.to_vec(),
    }
}

async fn copy(from: &StorePlace, to: &StorePlace, app: &App) -> Result {
    if !from.exists()? {
        return Err(Failure::usage(anyhow!("there are no plans in {from}")));
    }
    let beside = from.file().and_then(Path::parent);
    let beside = beside.and_then(|folder| Volumes::at(folder).ok());
    for volumes in std::iter::once(&app.volumes).chain(&beside) {
        if volumes.running().is_some() {
            let folder = volumes.root().display();
            let error = anyhow!("a daemon works on the plans of `{folder}`, and {LEFT_OUT}");
            let hint = format!("`{} stop` there ends it", app.program);
            return Err(Failure::new(error, Exit::Busy).hint(hint));
        }
    }
    if from.is_shared() {
        let store = from.open_to_read(app.clock.teller()).await?;
        let homes: BTreeSet<String> = store.held_elsewhere().await?.into_values().collect();
        if !homes.is_empty() {
            let homes = joined(homes.iter().map(|home| one_line(home, 400)), ", ");
            let error = anyhow!("daemons work on plans there, and {LEFT_OUT}: {homes}");
            let hint = "`plan-agent stop` there ends each";
            return Err(Failure::new(error, Exit::Busy).hint(hint));
        }
    }
    let copied = from.copy_to(to, app.clock.now()).await?;
    let rows = |name| copied.iter().find(|(table, _)| *table == name);
    let said = |name, what| counted(rows(name).map_or(0, |(_, rows)| *rows), what);
    let (plans, changes) = (said("plans", "plan"), said("log", "change"));
    let texts = said("texts", "long text");
    app.say(&format!("copied and compared: {plans}, {changes}, {texts}"))?;
    app.say(&format!("from {from}"))?;
    app.say(&format!("to   {to}"))
}

/// Returns a place that is typed.
fn named(place: &str, app: &App) -> Result<StorePlace> {
    let url = (place.contains("://")).then(|| StoreUrl::try_from(place.to_owned()));
    let wrong = |wrong| Failure::usage(anyhow!("a place {wrong}, or is a file"));
    let url = url.transpose().map_err(wrong)?;
    if url.as_ref().is_some_and(StoreUrl::has_password) {
        let error = anyhow!(
            "the address has a password in it, which every process of this machine can read here"
        );
        return Err(
            Failure::usage(error).hint("put it into ~/.pgpass: `host:port:database:user:password`")
        );
    }
    Ok(StorePlace::configured(
        &StoreConfig { url },
        std::path::absolute(place)?,
        &app.environment,
    )?)
}
