//! Finds out about a coding agent by asking its program for the version: whether it starts here, and is new enough.

use std::ffi::OsString;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;

use super::failure::Failure;
use super::model_choice::on_path;
use crate::agents::{CodingAgent, ProgramVersion};
use crate::config::Environment;
use crate::exec::{self, ChildOutput, ChildSpec, Stdin};
use crate::wire::text::one_line;

/// Some of the programs take seconds to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of the output that are looked at.
const LOOKED_AT: usize = 4096;

/// What became of asking for the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// There is no such program.
    Missing,
    /// It tells no version, but this.
    Silent { path: PathBuf, said: String },
    TooOld {
        path: PathBuf,
        version: ProgramVersion,
    },
    Works {
        path: PathBuf,
        version: ProgramVersion,
    },
}

/// Runs an agent's program with `--version`.
pub(super) async fn probe(agent: CodingAgent, environment: &Environment) -> Probe {
    let Some(path) = on_path(agent.name(), environment) else {
        return Probe::Missing;
    };
    let said = match version_text(&path).await {
        Ok(said) => said,
        Err(said) => return Probe::Silent { path, said },
    };
    match ProgramVersion::find(&said) {
        None => Probe::Silent {
            path,
            said: one_line(&said, 200),
        },
        Some(version) if version < agent.program().least => Probe::TooOld { path, version },
        Some(version) => Probe::Works { path, version },
    }
}

/// Makes sure that an agent can be started.
///
/// # Errors
/// Says what is in the way.
pub(super) async fn usable(agent: CodingAgent, environment: &Environment) -> Result<(), Failure> {
    let name = agent.name();
    let install = agent.program().install;
    let (error, hint) = match probe(agent, environment).await {
        Probe::Works { .. } => return Ok(()),
        Probe::Missing => (
            anyhow!("the coding agent `{name}` is not installed"),
            format!(
                "`{install}`, or choose another one: `plan-agent doctor` shows which there are"
            ),
        ),
        Probe::TooOld { version, .. } => (
            anyhow!(
                "the coding agent `{name}` is too old: it is {version}, and {} is needed",
                agent.program().least
            ),
            format!("`{install}`"),
        ),
        Probe::Silent { path, said } => (
            anyhow!("`{} --version` tells no version: {said}", path.display()),
            format!("does `{name}` run by hand? `{install}` installs it anew"),
        ),
    };
    Err(Failure::usage(error).hint(hint))
}

async fn version_text(path: &std::path::Path) -> Result<String, String> {
    let told = |error: &dyn std::fmt::Display| one_line(&error.to_string(), 200);
    let output = ChildOutput::nameless_apart().map_err(|error| told(&error))?;
    let spec = ChildSpec {
        argv: vec![path.to_string_lossy().into_owned(), "--version".into()],
        cwd: std::env::temp_dir(),
        env: exec::environment(&[])
            .into_iter()
            .chain(
                [
                    // Neither looks for news nor changes itself.
                    ("DISABLE_AUTOUPDATER", "1"),
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                ]
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
            )
            .collect(),
        stdin: Stdin::Nothing,
        deadline: PATIENCE,
    };
    let outcome = exec::run(&spec, &output, |_| {}, pending()).await;
    let outcome = outcome.map_err(|error| told(&format!("{:#}", anyhow::Error::new(error))))?;
    if outcome.timed_out {
        return Err(format!("it did not answer within {PATIENCE:?}"));
    }
    let said = output.out_since(0, LOOKED_AT);
    if said.trim().is_empty() {
        let err = output.err_since(0, LOOKED_AT);
        return Err(match err.trim() {
            "" => "it said nothing".into(),
            err => one_line(err, 200),
        });
    }
    Ok(said)
}
