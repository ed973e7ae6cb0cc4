//! `init`: what a folder needs, without touching what is there.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use super::{App, CommandStart, Failure, Output, Result, shown_from_here};
use crate::config::{Config, FILE_NAME, Home, Layout, TEMPLATE};
use crate::llm::PromptTemplate;
use crate::view::Style;
use crate::volumes::Volumes;
use crate::wire::joined;

/// What the folders are for, and how an agent uses them.
const PROTOCOL: &str = include_str!("../../volumes/README.md");

/// Writes what is missing: the configuration, the prompts, the exchange folder. Says what was there already.
pub fn init(top_level: bool, start: &CommandStart, output: Output) -> Result {
    let program = start.program();
    let file = match &start.file {
        Some(file) => file.clone(),
        None => home(top_level, start)?.folder().join(FILE_NAME),
    };
    write_new(&file, TEMPLATE, output)?;
    let config = Config::load(Some(&file), &start.environment)?;

    let prompts = config.prompts_dir();
    fs::create_dir_all(&prompts).with_context(|| format!("cannot make `{}`", prompts.display()))?;
    for template in PromptTemplate::ALL {
        let file = prompts.join(template.file_name());
        write_new(&file, template.built_in(), output)?;
    }

    let root = config.root();
    let made = !root.exists();
    Volumes::open(&root)?;
    say(made, &root, output)?;
    write_new(&root.join("README.md"), PROTOCOL, output)?;
    let next = format!("\nNext: `{program} doctor` looks whether everything is there.");
    output.line(&next)
}

/// Makes the folder that everything lies in: in a git project `.plan-agent`, elsewhere the current one.
fn home(in_itself: bool, start: &CommandStart) -> Result<Home> {
    let here = std::env::current_dir().context("failed to find the current folder")?;
    let found = Home::find(&here);
    let mut home = match found.layout() {
        _ if found.made() => found,
        Layout::Project if !in_itself => {
            let config = Config::load(None, &start.environment)?;
            App::of(config, start.environment.clone(), start.program())?.make_home()?;
            return Ok(Home::find(&here));
        }
        _ => top_level(&here)?,
    };
    let folder = home.folder().display().to_string();
    let made = home.make(false);
    let made = made.with_context(|| format!("`{folder}` cannot be used"));
    made.map_err(Failure::usage)?;
    Ok(home)
}

/// Returns the home whose files lie in a folder itself, unless files of these names are there already.
fn top_level(here: &Path) -> Result<Home> {
    let names = [FILE_NAME, "prompts", "volumes"];
    let mut taken: Vec<PathBuf> = names.iter().map(|name| here.join(name)).collect();
    taken.retain(|path| path.symlink_metadata().is_ok());
    if taken.is_empty() {
        return Ok(Home::new(here, Layout::TopLevel));
    }
    let shown = |path: &PathBuf| format!("`{}`", shown_from_here(path));
    let taken = joined(taken.iter().map(shown), ", ");
    let error = anyhow!("{taken} exists already and is not known as plan-agent's");
    Err(Failure::usage(error).hint(
        "go to an empty folder; in a git project `plan-agent init` keeps everything in `.plan-agent`",
    ))
}

fn write_new(path: &Path, text: &str, output: Output) -> Result {
    let made = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    };
    let made = made.with_context(|| format!("cannot write `{}`", path.display()))?;
    say(made, path, output)
}

fn say(made: bool, path: &Path, output: Output) -> Result {
    let (word, style) = match made {
        true => ("made", Style::Good),
        false => ("kept", Style::Dim),
    };
    let word = output.paint.text(style, word);
    output.line(&format!("{word}  {}", shown_from_here(path)))
}
