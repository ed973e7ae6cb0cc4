//! `--detach`: starts this program again as a daemon without a terminal, and waits until it holds the folder.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::args::{AgentKind, CarryOut};
use super::failure::{Exit, Failure};
use super::output::Output;
use crate::config::Config;
use crate::plan::PlanId;
use crate::volumes::{Folder, Volumes};

/// How often the daemon is looked for while it starts.
const LOOK: Duration = Duration::from_millis(20);

/// Looks before the daemon counts as not started.
const LOOKS: u32 = 1_000;

/// What of its log is shown when it does not start.
const TAIL: usize = 2_000;

/// Leaves the terminal of whoever started this process: its signals no longer reach it.
pub fn leave_terminal() {
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "already the leader of a session");
    }
}

/// Starts the daemon for a plan.
///
/// # Errors
/// It cannot be started, or ends at once; the end of its log is told.
pub async fn detach(
    plan: &PlanId,
    volumes: &Volumes,
    how: &CarryOut,
    config: &Config,
    mut output: Output,
) -> Result<Exit, Failure> {
    let log = volumes.path(Folder::Logs).join("daemon.log");
    let program = std::env::current_exe().context("failed to find this program")?;
    let mut command = Command::new(program);
    if let Some(file) = config.file() {
        command.arg("--config").arg(file);
    }
    command.arg("daemon").arg(plan.as_str());
    if let Some(agent) = how.agent.agent {
        let name = match agent {
            AgentKind::Shell => "shell",
            AgentKind::Command => "command",
        };
        command.args(["--agent", name]);
    }
    if how.agent.allow_shell {
        command.arg("--allow-shell");
    }
    if !how.agent.argv.is_empty() {
        command.arg("--").args(&how.agent.argv);
    }
    let out = open(&log)?;
    let err = out
        .try_clone()
        .context("failed to open the log a second time")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .context("failed to start the daemon")?;
    for _ in 0..LOOKS {
        if volumes
            .running()
            .is_some_and(|running| running.pid == child.id())
        {
            output.line(&format!(
                "plan {plan} is carried out in the background (pid {})",
                child.id()
            ))?;
            output.line(
                "`plan-agent status` shows how far it is, `answer` answers it, `stop` ends it",
            )?;
            return Ok(Exit::Done);
        }
        if let Some(status) = child
            .try_wait()
            .context("failed to look after the daemon")?
        {
            // A plan of a few quick tasks may be over before anybody looks.
            if status.success() {
                output.line(&format!(
                    "plan {plan} is done; `plan-agent status {plan}` shows it"
                ))?;
                return Ok(Exit::Done);
            }
            if status.code() == Some(Exit::Busy.code().into()) {
                // Another start took the folder in between.
                return Err(
                    Failure::new(anyhow!("another daemon holds the folder"), Exit::Busy).hint(
                        format!(
                            "the plan is kept: `plan-agent resume {plan}` carries it out later"
                        ),
                    ),
                );
            }
            return Err(Failure::failed(anyhow!(
                "the daemon ended at once ({status})\n{}",
                tail(&log)
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(Failure::failed(anyhow!(
        "the daemon (pid {}) did not take the folder",
        child.id()
    )))
}

fn open(log: &Path) -> Result<std::fs::File, Failure> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(log);
    Ok(file.with_context(|| format!("failed to open the log `{}`", log.display()))?)
}

fn tail(log: &Path) -> String {
    let text = std::fs::read(log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let skip = text.chars().count().saturating_sub(TAIL);
    text.chars().skip(skip).collect()
}
