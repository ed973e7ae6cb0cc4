//! Finds out about a coding agent by asking its program for the version: whether it starts here, and is new enough.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;

use super::model_choice::on_path;
use super::{Failure, Result};
use crate::agents::{CodingAgent, ProgramVersion};
use crate::config::Environment;
use crate::exec::{self, ChildOutput, ChildSpec};
use crate::wire::text::one_line;

/// Some of the programs take seconds to start on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the output that are read.
const MAX_OUTPUT: usize = 4096;

/// The program of a coding agent that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub path: PathBuf,
    /// Its version, or what it printed instead of one.
    pub version: Result<ProgramVersion, String>,
}

/// Runs an agent's program with `--version`; `None` if it is not installed.
pub async fn probe(agent: &'static CodingAgent, environment: &Environment) -> Option<Probe> {
    let path = on_path(agent.name, environment)?;
    let version = |text: String| ProgramVersion::find(&text).ok_or_else(|| one_line(&text, 200));
    let version = version_text(&path).await.and_then(version);
    Some(Probe { path, version })
}

/// Makes sure that an agent can be started.
///
/// # Errors
/// Says what is in the way.
pub async fn usable(agent: &'static CodingAgent, environment: &Environment) -> Result {
    let (name, install, least) = (agent.name, agent.install, agent.least);
    let Some(Probe { path, version }) = probe(agent, environment).await else {
        let other = "or choose another one: `plan-agent doctor` shows which there are";
        let error = anyhow!("the coding agent `{name}` is not installed");
        return Err(Failure::usage(error).hint(format!("`{install}`, {other}")));
    };
    let (wrong, hint) = match version {
        Ok(version) if version >= least => return Ok(()),
        Ok(version) => {
            let old = format!("too old: it is {version}, and {least} is needed");
            let old = format!("the coding agent `{name}` is {old}");
            (old, format!("`{install}`"))
        }
        Err(said) => {
            let path = path.display();
            let hint = format!("does `{name}` run by hand? `{install}` installs it anew");
            (format!("`{path} --version` tells no version: {said}"), hint)
        }
    };
    Err(Failure::usage(anyhow!(wrong)).hint(hint))
}

async fn version_text(path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| one_line(&error.to_string(), 200);
    let output = ChildOutput::nameless_apart().map_err(|error| failed(&error))?;
    // Neither looks for updates nor changes itself.
    let no_updates = ["DISABLE_AUTOUPDATER", "OPENCODE_DISABLE_AUTOUPDATE"];
    let set = no_updates.map(|name| (name.to_owned(), "1".to_owned()));
    let spec = ChildSpec {
        argv: vec![path.to_string_lossy().into_owned(), "--version".into()],
        cwd: std::env::temp_dir(),
        env: exec::environment_of_agent(&[], "", set.to_vec()),
        stdin: None,
        deadline: TIMEOUT,
    };
    let outcome = exec::run(&spec, &output, |_| {}, pending()).await;
    let outcome = outcome.map_err(|error| failed(&format!("{:#}", anyhow::Error::new(error))))?;
    if outcome.timed_out {
        return Err(format!("it did not answer within {TIMEOUT:?}"));
    }
    let printed = output.out_since(0, MAX_OUTPUT);
    if !printed.trim().is_empty() {
        return Ok(printed);
    }
    match output.err_since(0, MAX_OUTPUT).trim() {
        "" => Err("it said nothing".into()),
        err => Err(one_line(err, 200)),
    }
}
