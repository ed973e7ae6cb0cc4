//! The log: on standard error if `PLAN_AGENT_LOG` asks for it, and in `logs/daemon.log` for the daemon. What a person is to
//! know is printed by the commands, not logged.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::Context;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::{Failure, Result, way_out};
use crate::config::Environment;
use crate::own_files;
use crate::plan_time::Clock;

/// What the log holds, such as `debug` or `plan_agent=trace`.
pub const VARIABLE: &str = "PLAN_AGENT_LOG";

/// Starts the log of this process: into the file, if there is one, and on standard error, if the environment asks for it.
///
/// # Errors
///
/// The file cannot be opened, or the environment asks for what there is not.
pub fn start(file: Option<&Path>, environment: &Environment) -> Result {
    let wanted = environment.get(VARIABLE);
    let clock = Clock::start();
    let filter = || {
        let parsed = wanted.unwrap_or("info").parse::<Targets>();
        let parsed = parsed.with_context(|| format!("environment variable `{VARIABLE}`"));
        parsed.map_err(Failure::usage)
    };
    let layer = |writer| {
        let layer = fmt::layer().with_ansi(false).with_timer(clock);
        Ok::<_, Failure>(layer.with_writer(writer).with_filter(filter()?))
    };
    let mut layers = Vec::new();
    if let Some(path) = file {
        layers.push(layer(BoxMakeWriter::new(open(path)?))?);
    }
    if wanted.is_some() {
        layers.push(layer(BoxMakeWriter::new(io::stderr))?);
    }
    tracing_subscriber::registry().with(layers).init();
    Ok(())
}

/// Opens the file for adding to it; no other user can read it, whatever the umask.
///
/// # Errors
/// It is no plain file of our own, or what the system says.
pub fn open(path: &Path) -> Result<File> {
    own_files::to_append(path).map_err(|error| {
        let hint = way_out(error.kind());
        let error = anyhow::Error::new(error);
        Failure::failed(error.context(format!("cannot open the log `{}`", path.display())))
            .hint(hint)
    })
}
