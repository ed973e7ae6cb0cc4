//! `clean`: says what of a folder is plan-agent's, and removes it.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, anyhow};

use super::{App, Exit, Failure, Result, can_ask, confirm, results, shown_from_here};
use crate::config::Layout;
use crate::exec::remove_folder;
use crate::plan::counted;

/// What stays of the exchange folder where it is meant to be shared.
const SHARED: [&str; 2] = ["README.md", ".gitkeep"];

/// Removes what is plan-agent's, once a person has agreed.
pub async fn clean(yes: bool, app: &App) -> Result {
    let home = app.config.home();
    let (what, keeps) = match home.layout() {
        Layout::TopLevel => (app.volumes.root(), &SHARED[..]),
        Layout::Project | Layout::Apart => (home.folder(), &[][..]),
    };
    let shown = shown_from_here(what);
    if !home.made() || !what.exists() {
        return app.say("nothing here is plan-agent's");
    }
    // Held to the end: no daemon begins meanwhile.
    let _lock = match app.volumes.root().exists() {
        true => Some(app.take(None).await?),
        false => None,
    };
    let mut plans = app.plans().await?;
    if let Some(store) = app.store_if_any().await? {
        plans.retain(|plan| store.is_own(&plan.head));
    }
    let open = plans.iter().filter(|plan| !plan.head.status.settled());
    let (all, open) = (counted(plans.len(), "plan"), open.count());
    let open = match open {
        0 => String::new(),
        open => format!(", {open} of them unfinished"),
    };
    app.say(&format!("`{shown}` is plan-agent's: {all}{open}"))?;
    let mut left = Vec::new();
    for plan in &plans {
        match results::leftovers(app, &plan.head).await {
            Ok(commands) => {
                // One `git worktree prune` is for all plans.
                left.retain(|line| !commands.contains(line));
                left.extend(commands);
            }
            Err(error) => {
                let stay = format!(
                    "the branches of plan `{}` and its worktrees, if it has any, are not listed",
                    plan.head.id
                );
                error.complain(&stay);
            }
        }
    }
    let program = &app.program;
    if !left.is_empty() {
        app.say(&format!(
            "the worktrees and the branches of plans stay: to remove those that are merged, `{program} prune` first"
        ))?;
    }
    if let Layout::TopLevel = home.layout() {
        app.say("config.toml, the prompts and the empty folders stay")?;
    }
    if !yes {
        if !can_ask() {
            let error = anyhow!("nothing was removed: there is no terminal to ask");
            let hint = format!("`{program} clean --yes` removes it");
            return Err(Failure::new(error, Exit::Waiting).hint(hint));
        }
        let history = match app.place.is_shared() {
            true => "; the history of its plans stays on the server",
            false => ", with the history of its plans",
        };
        if !confirm(&format!("Remove it{history}?")).await? {
            return app.say("nothing was removed");
        }
    }
    if !matches!(home.layout(), Layout::TopLevel) {
        app.forget_confirmed().ok();
    }
    let removed = match keeps {
        [] => remove_folder(what.to_owned()).await,
        keeps => empty(what, keeps).map(drop),
    };
    removed.with_context(|| format!("failed to remove all of `{shown}`"))?;
    for plan in plans.iter().filter(|plan| plan.head.line.is_none()) {
        remove_folder(app.worktrees(&plan.head)).await.ok();
    }
    app.say("removed")?;
    match left.as_slice() {
        [] => Ok(()),
        left => app.say(&format!(
            "to remove the worktrees and the branches that stay, with all work in them:\n  {}",
            left.join("\n  ")
        )),
    }
}

/// Removes everything in a folder but files of some names and the folders that they are in. Returns whether something stays.
fn empty(folder: &Path, keeps: &[&str]) -> io::Result<bool> {
    let mut stays = false;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        // A link is removed, and what it leads to stays.
        if entry.file_type()?.is_dir() {
            match empty(&path, keeps)? {
                true => stays = true,
                false => fs::remove_dir(&path)?,
            }
        } else if name.to_str().is_some_and(|name| keeps.contains(&name)) {
            stays = true;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(stays)
}
