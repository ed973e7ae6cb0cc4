//! `--detach`: starts this program again as a daemon without a terminal, gives it the folder's lock, and waits until it
//! announces that it works.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

use super::{App, Ended, Exit, Failure, Result, Work, complain, logging, unless, web};
use crate::exec::tail_of;
use crate::plan::PlanId;
use crate::volumes::DaemonLock;

/// How often a starting daemon is checked.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Checks before the daemon counts as not started. They are counted because a busy machine delays it as well as them.
const CHECKS: u128 = 1_000;

/// How long the queue may take to be read as this process ends.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Bytes of its log that are shown when it does not start.
const TAIL: usize = 2_000;

/// Leaves the terminal that this process was started in: its signals no longer reach it.
pub fn leave_terminal() {
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "already the leader of a session");
    }
}

/// Returns the file that the process which started this daemon handed over as its standard input, which is empty from then on.
pub fn handed_over() -> Result<Option<File>> {
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let file = File::from(input.context("failed to read what was handed over")?);
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    File::open("/dev/null")
        .and_then(|nothing| Ok(rustix::stdio::dup2_stdin(nothing)?))
        .context("failed to close the standard input")?;
    Ok(Some(file))
}

impl Work {
    /// Starts the daemon for a plan. It gets the folder's lock with its standard input: if the folder were free in between, another
    /// start could take it, and this one would have made its plan for nothing.
    ///
    /// # Errors
    /// It cannot be started, or ends at once; the error shows the end of its log.
    pub async fn detach(&self, plan: &PlanId, lock: DaemonLock, mut ended: Ended) -> Result<Exit> {
        let (app, how) = (&self.app, &self.how);
        let fingerprint = app.fingerprint();
        let mut arguments = vec!["daemon", plan.as_str(), "--confirmed", &fingerprint];
        arguments.extend(how.web.then_some("--web"));
        let mut child = start(&arguments, app, lock)?;
        let (program, pid) = (&app.program, child.id());
        let goes_on = program.goes_on(plan.as_str(), None);
        let kept = format!("the plan is kept: {goes_on}");
        let started = await_start(&mut child, app, &kept);
        let said = match unless(&mut ended, &goes_on, started).await {
            Ok(None) => {
                let page = how.web.then(|| format!("\n{}", web::where_served(app)));
                format!(
                    "plan {plan} is carried out in the background (pid {pid})\n\
                     `{program} status` shows how far it is, `answer` answers it, `stop` ends it{}",
                    page.unwrap_or_default()
                )
            }
            // A plan of a few quick tasks may be over before it is seen at work.
            Ok(Some(status)) if status.success() => {
                format!("plan {plan} is done; `{program} status {plan}` shows it")
            }
            Ok(Some(status)) => {
                let log = tail_of(&app.log_file(), TAIL);
                let error = anyhow!("the daemon ended at once ({status})\n{}", log.trim_end());
                return Err(Failure::failed(error).hint(kept));
            }
            Err(failure) => {
                end(&mut child).await;
                return Err(failure);
            }
        };
        app.say(&said)?;
        Ok(Exit::Done)
    }
}

/// Leaves the queued plans of a folder to a daemon in the background, as this process ends, and says so. Nothing if there are
/// none. Returns those with which it goes on.
///
/// # Errors
/// It cannot be started.
pub async fn leave_to_daemon(app: &App, lock: DaemonLock, own: &PlanId) -> Result<Vec<String>> {
    let store = app.store().await?;
    // A store that is busy keeps no process from ending; the plans stay queued.
    let Ok(queued) = timeout(READ_WITHIN, store.queued()).await else {
        return Ok(Vec::new());
    };
    let mut queued = queued?;
    queued.retain(|listed| listed.head.id != *own);
    if queued.is_empty() {
        return Ok(Vec::new());
    }
    let names = queued.iter().map(|listed| listed.head.id.to_string());
    let names = names.collect::<Vec<_>>().join(", ");
    let kept = format!("`{} daemon` carries them out", app.program);
    let mut child = start(&["daemon", "--rest"], app, lock)?;
    let ended = await_start(&mut child, app, &kept).await?;
    match ended.filter(|status| !status.success()) {
        None => complain!(
            "other plans go on in the background (pid {}): {names}",
            child.id()
        ),
        Some(status) => {
            let error = anyhow!("the daemon for other plans ({names}) ended at once ({status})");
            return Err(Failure::failed(error).hint(kept));
        }
    }
    let daemon = app.volumes.running();
    Ok(daemon.and_then(|daemon| daemon.plans).unwrap_or_default())
}

/// Starts this program again as a daemon, which gets the lock.
fn start(arguments: &[&str], app: &App, lock: DaemonLock) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("failed to find this program")?);
    if let Some(file) = app.config.file() {
        command.arg("--config").arg(file);
    }
    command.args(arguments);
    let out = logging::open(&app.log_file())?;
    let err = out.try_clone();
    let err = err.context("failed to open the log a second time")?;
    command.stdin(lock.into_file()?).stdout(out).stderr(err);
    // With the command, the last file goes by which this process has the lock.
    Ok(command.spawn().context("failed to start the daemon")?)
}

/// Waits until a daemon works, or has ended: with this status.
///
/// # Errors
/// It does neither; what is `kept` is the hint.
async fn await_start(child: &mut Child, app: &App, kept: &str) -> Result<Option<ExitStatus>> {
    // It starts the servers of the team's tools before it says so.
    let more: Duration = app.config.mcp.values().map(|server| server.timeout).sum();
    for _ in 0..CHECKS.saturating_add(more.as_millis() / CHECK_EVERY.as_millis()) {
        let running = app.volumes.running();
        // It holds the folder from the beginning; it says its plans when it works.
        if running.is_some_and(|running| running.pid == child.id() && running.plans.is_some()) {
            return Ok(None);
        }
        let status = child.try_wait();
        if let Some(status) = status.context("failed to look after the daemon")? {
            return Ok(Some(status));
        }
        tokio::time::sleep(CHECK_EVERY).await;
    }
    let pid = child.id();
    let error = anyhow!("the daemon (pid {pid}) did not take the folder, and was ended");
    Err(Failure::failed(error).hint(kept))
}

/// Ends a daemon that has not announced itself yet: no other process knows of it.
async fn end(child: &mut Child) {
    // An error only says that it has ended already.
    kill_process(Pid::from_child(child), Signal::TERM).ok();
    while let Ok(None) = child.try_wait() {
        tokio::time::sleep(CHECK_EVERY).await;
    }
}
