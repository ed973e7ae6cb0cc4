//! `init`: what a folder needs, without touching what is there.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context;

use super::output::shown_from_here;
use super::{CommandStart, Failure, Output};
use crate::config::{Config, FILE_NAME, TEMPLATE};
use crate::llm::PromptTemplate;
use crate::view::{ProgramName, Style};
use crate::volumes::Volumes;

/// What the folders are for, and how an agent uses them.
const PROTOCOL: &str = include_str!("../../volumes/README.md");

/// Writes what is missing: the configuration, the prompts, the exchange folder. Says what was there already.
pub(super) fn init(start: &CommandStart, output: &mut Output) -> Result<(), Failure> {
    let program = ProgramName::with(start.file.as_deref());
    let file = start.file.as_deref().unwrap_or(Path::new(FILE_NAME));
    write_new(file, TEMPLATE, output)?;
    let config = Config::load(Some(file), &start.environment)?;

    let prompts = config.prompts_dir();
    fs::create_dir_all(&prompts).with_context(|| format!("cannot make `{}`", prompts.display()))?;
    for template in PromptTemplate::ALL {
        let path = prompts.join(template.file_name());
        write_new(&path, template.built_in(), output)?;
    }

    let root = config.root();
    let made = !root.exists();
    Volumes::open(&root)?;
    say(made, &root, output)?;
    write_new(&root.join("README.md"), PROTOCOL, output)?;
    output.line(&format!(
        "\nNext: `{program} doctor` looks whether everything is there."
    ))
}

fn write_new(path: &Path, text: &str, output: &mut Output) -> Result<(), Failure> {
    let made = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    };
    let made = made.with_context(|| format!("cannot write `{}`", path.display()))?;
    say(made, path, output)
}

fn say(made: bool, path: &Path, output: &mut Output) -> Result<(), Failure> {
    let (word, style) = match made {
        true => ("made", Style::Good),
        false => ("kept", Style::Dim),
    };
    let word = output.paint().text(style, word);
    output.line(&format!("{word}  {}", shown_from_here(path)))
}
