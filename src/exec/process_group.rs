//! A child in its own process group: starting it, waiting for it, ending the whole group.

use std::ffi::OsString;
use std::fs::File;
use std::future::Future;
use std::io::{self, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep};

use super::ChildOutput;
use crate::plan_time::TimeAllowance;

/// The time between TERM and KILL for a group.
pub const GRACE: Duration = Duration::from_secs(5);
/// The same for processes that a child left behind when it ended by itself.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// The time after KILL; a zombie whose parent never waits for it stays in its group forever.
const BURIAL: Duration = Duration::from_millis(200);
/// How often to check whether a group has ended; the system sends no event for it.
const LOOK: Duration = Duration::from_millis(20);

/// Variables of this program's environment that every child gets: none of them is a secret.
const PASSED: &str =
    "PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TERM TZ TMPDIR XDG_RUNTIME_DIR";

/// The command to run.
#[derive(Debug)]
pub struct ChildSpec {
    /// Program and arguments; nothing in them is interpreted.
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    /// The whole environment: see [`environment`].
    pub env: Vec<(OsString, OsString)>,
    /// The standard input.
    pub stdin: Option<Vec<u8>>,
    /// The longest time that it may run.
    pub deadline: Duration,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildExit {
    /// The exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    /// It was ended because its deadline was over.
    pub timed_out: bool,
    /// It was ended because the caller cancelled it.
    pub cancelled: bool,
    /// How much of its deadline it used.
    pub lived: Duration,
}

impl ChildExit {
    /// Returns whether it ended by itself, with exit code 0.
    pub fn success(self) -> bool {
        self.exit == Some(0) && !self.timed_out && !self.cancelled
    }

    fn ended(&mut self, status: ExitStatus) {
        self.exit = status.code();
        self.signal = status.signal();
    }
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("the command line is empty")]
    Empty,
    #[error("the folder `{}` does not exist", .0.display())]
    NoFolder(PathBuf),
    #[error("cannot start `{program}`")]
    Start { program: String, source: io::Error },
}

impl ExecError {
    /// Returns whether the system only lacked a resource for a moment: the same command may start later.
    pub fn passes(&self) -> bool {
        let Self::Start { source, .. } = self else {
            return false;
        };
        let lacks = [
            io::ErrorKind::OutOfMemory,
            io::ErrorKind::StorageFull,
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::ExecutableFileBusy,
            io::ErrorKind::WouldBlock,
        ];
        let full = [Errno::MFILE, Errno::NFILE].map(Some);
        lacks.contains(&source.kind()) || full.contains(&Errno::from_io_error(source))
    }
}

/// Returns the environment of a child: what every program needs, and the named variables.
pub fn environment(named: &[String]) -> Vec<(OsString, OsString)> {
    let names = PASSED.split(' ').chain(named.iter().map(String::as_str));
    let set = names.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    set.collect()
}

/// In a list of variables this stands for the agent's own variables: its key, address and folder.
pub const OF_THE_AGENT: &str = "@agent";

/// As [`environment`], with the agent's own variables, separated by blanks, if [`OF_THE_AGENT`] is in the list, and with the variables that are set
/// for it.
pub fn environment_of_agent(
    named: &[String],
    own: &str,
    set: Vec<(String, String)>,
) -> Vec<(OsString, OsString)> {
    let own = own.split_whitespace().map(str::to_owned);
    let own = own.filter(|_| named.iter().any(|name| name == OF_THE_AGENT));
    let named: Vec<String> = named.iter().cloned().chain(own).collect();
    let set = set.into_iter();
    let set = set.map(|(name, value)| (name.into(), value.into()));
    environment(&named).into_iter().chain(set).collect()
}

/// Runs a child to its end, and ends every process that it leaves behind in its group. `started` gets the group. `cancel` resolves
/// to the time that the group gets between TERM and KILL. If the caller drops this future, the group is killed, unless it may be
/// left: see [`ProcessGroup::stays`].
///
/// # Errors
/// When the child cannot be started, or its exit status cannot be read.
pub async fn run(
    spec: &ChildSpec,
    output: &ChildOutput,
    started: impl FnOnce(&mut ProcessGroup),
    cancel: impl Future<Output = Duration>,
) -> Result<ChildExit, ExecError> {
    let mut group = spawn(spec, || {
        let (out, err) = (output.out.try_clone()?, output.err.try_clone()?);
        Ok([stdin(spec.stdin.as_deref())?, out.into(), err.into()])
    })?;
    started(&mut group);
    let lost = |source| cannot_start(spec, source);
    let mut outcome = ChildExit::default();
    let mut allowance = TimeAllowance::new(spec.deadline);
    let grace = tokio::select! {
        // The child comes first: if it ended before this task was polled again, it was not late.
        biased;
        status = group.child.wait() => {
            outcome.ended(status.map_err(lost)?);
            LEFTOVER_GRACE
        }
        () = allowance.used_up() => {
            outcome.timed_out = true;
            GRACE
        }
        grace = cancel => {
            outcome.cancelled = true;
            grace
        }
    };
    let ((), status) = tokio::join!(stop_group(group.id, grace), group.child.wait());
    outcome.ended(status.map_err(lost)?);
    outcome.lived = spec.deadline.saturating_sub(allowance.left());
    group.armed = false;
    Ok(outcome)
}

/// Ends a process group: TERM, then KILL if a process is left after `grace`. Returns immediately if the group does not exist.
pub async fn stop_group(group: Pid, grace: Duration) {
    if kill_process_group(group, Signal::TERM).is_err() || gone(group, grace).await {
        return;
    }
    kill(group);
    if !gone(group, BURIAL).await {
        tracing::debug!(
            ?group,
            "processes that no parent waits for stay in the group"
        );
    }
}

async fn gone(group: Pid, within: Duration) -> bool {
    let end = Instant::now() + within;
    while test_kill_process_group(group).is_ok() {
        if Instant::now() >= end {
            return false;
        }
        sleep(LOOK).await;
    }
    true
}

fn kill(group: Pid) {
    // Fails when no process is left to kill.
    kill_process_group(group, Signal::KILL).ok();
}

/// What may stay at work does so when it is dropped.
static LEFT_AT_WORK: AtomicBool = AtomicBool::new(false);

/// Leaves what may stay at work there when this process ends, as a kill would: another process goes on with it.
pub fn leave_at_work() {
    LEFT_AT_WORK.store(true, Ordering::Relaxed);
}

/// A process group with its first child. It is killed on drop, unless it has ended and is not armed; then the exit status of the
/// child is collected in the background.
pub struct ProcessGroup {
    child: Child,
    id: Pid,
    armed: bool,
    /// It may be left at work: see [`leave_at_work`].
    pub stays: bool,
}

impl ProcessGroup {
    /// Returns the number of the process group.
    pub fn id(&self) -> u32 {
        self.id.as_raw_pid().cast_unsigned()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.armed && !(self.stays && LEFT_AT_WORK.load(Ordering::Relaxed)) {
            kill(self.id);
        }
    }
}

/// Starts a child with pipes for its input and output; its standard error goes to that of `output`. The caller ends the child
/// at its deadline and reads its output.
///
/// # Errors
/// When the child cannot be started.
pub fn piped(
    spec: &ChildSpec,
    output: &ChildOutput,
) -> Result<(ChildStdin, ChildStdout, ProcessGroup), ExecError> {
    let streams = || {
        let err = output.err.try_clone()?;
        Ok([Stdio::piped(), Stdio::piped(), err.into()])
    };
    let mut group = spawn(spec, streams)?;
    let (stdin, stdout) = (group.child.stdin.take(), group.child.stdout.take());
    match stdin.zip(stdout) {
        Some((stdin, stdout)) => Ok((stdin, stdout, group)),
        None => Err(cannot_start(spec, io::Error::other("it has no pipes"))),
    }
}

fn spawn(
    spec: &ChildSpec,
    streams: impl FnOnce() -> io::Result<[Stdio; 3]>,
) -> Result<ProcessGroup, ExecError> {
    let [program, arguments @ ..] = spec.argv.as_slice() else {
        return Err(ExecError::Empty);
    };
    // Without this check the error would say that the program is missing.
    if !spec.cwd.is_dir() {
        return Err(ExecError::NoFolder(spec.cwd.clone()));
    }
    let start = || {
        let [stdin, stdout, stderr] = streams()?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&spec.cwd)
            .env_clear()
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.ok_or_else(|| io::Error::other("it has no pid"))?;
        Ok(ProcessGroup {
            child,
            id,
            armed: true,
            stays: false,
        })
    };
    start().map_err(|source| cannot_start(spec, source))
}

fn cannot_start(spec: &ChildSpec, source: io::Error) -> ExecError {
    let program = spec.argv.first().cloned().unwrap_or_default();
    ExecError::Start { program, source }
}

/// A file instead of a pipe: a child that does not read blocks nothing, and a child that reads reaches the end.
fn stdin(stdin: Option<&[u8]>) -> io::Result<Stdio> {
    let Some(bytes) = stdin else {
        return Ok(Stdio::null());
    };
    let mut file: File = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> ChildSpec {
        ChildSpec {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cwd: std::env::temp_dir(),
            env: environment(&[]),
            stdin: None,
            deadline: LONG,
        }
    }

    #[tokio::test]
    async fn busy_program_is_transient_and_missing_is_not() {
        use std::os::unix::fs::OpenOptionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let mut options = std::fs::OpenOptions::new();
        // As long as a process writes it, it cannot be run.
        let _writes = options.write(true).create(true).mode(0o700).open(&program);
        for (program, passes) in [(program, true), (folder.path().join("none"), false)] {
            let spec = ChildSpec {
                argv: vec![program.display().to_string()],
                ..sh("")
            };
            let output = ChildOutput::nameless().unwrap();
            let error = run(&spec, &output, |_| {}, pending()).await.unwrap_err();
            assert_eq!(error.passes(), passes, "{error:?}");
        }
    }

    async fn outcome(spec: &ChildSpec) -> (ChildExit, String) {
        let output = ChildOutput::nameless().unwrap();
        let outcome = run(spec, &output, |_| {}, pending()).await.unwrap();
        (outcome, output.out_since(0, 4096))
    }

    #[tokio::test]
    async fn returns_exit_code_signal_and_output() {
        let (ended, text) = outcome(&sh("echo out; echo err >&2; exit 3")).await;
        assert_eq!((ended.exit, ended.success()), (Some(3), false));
        assert_eq!(text, "out\nerr\n");
        let (ended, _) = outcome(&sh("kill -9 $$")).await;
        assert_eq!((ended.exit, ended.signal), (None, Some(9)));
    }

    #[tokio::test]
    async fn child_may_read_or_ignore_stdin() {
        let text = "line\n".repeat(100_000);
        let mut spec = sh("wc -l");
        spec.stdin = Some(text.into_bytes());
        assert_eq!(outcome(&spec).await.1.trim(), "100000");
        spec.argv[2] = "true".into();
        assert!(outcome(&spec).await.0.success());
        assert_eq!(outcome(&sh("cat")).await.1, "");
    }

    #[tokio::test]
    async fn passes_only_listed_variables() {
        let mut spec = sh("env");
        spec.env.push(("GIVEN".into(), "1".into()));
        let (_, text) = outcome(&spec).await;
        let names = text.lines().filter_map(|line| line.split_once('='));
        let names: Vec<&str> = names.map(|(name, _)| name).collect();
        assert!(names.contains(&"GIVEN") && names.contains(&"PATH"));
        let shell = ["PWD", "OLDPWD", "SHLVL", "_", "GIVEN"];
        for name in names {
            let passed = PASSED.split(' ').any(|known| known == name);
            assert!(passed || shell.contains(&name), "{name}");
        }
    }

    #[tokio::test]
    async fn start_error_names_program_or_folder() {
        let output = ChildOutput::nameless().unwrap();
        let nowhere = "/no/such/folder";
        for (argv, cwd, text) in [
            (
                &["no-such-program"][..],
                "/",
                "cannot start `no-such-program`",
            ),
            (&[], "/", "the command line is empty"),
            (
                &["sh"],
                nowhere,
                "the folder `/no/such/folder` does not exist",
            ),
        ] {
            let spec = ChildSpec {
                argv: argv.iter().map(|&word| word.to_owned()).collect(),
                cwd: cwd.into(),
                ..sh("")
            };
            let error = run(&spec, &output, |_| {}, pending()).await.unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }

    /// Runs a child and returns how it ended and whether something of its group still runs.
    async fn ended(
        spec: &ChildSpec,
        cancel: impl AsyncFnOnce(&ChildOutput) -> Duration,
    ) -> (ChildExit, bool) {
        let output = ChildOutput::nameless().unwrap();
        let mut group = 0;
        let outcome = run(
            spec,
            &output,
            |started| group = started.id(),
            cancel(&output),
        )
        .await;
        (outcome.unwrap(), lives(group))
    }

    /// Returns whether a group has a process that is no zombie; some machines bury those late or never.
    fn lives(group: u32) -> bool {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let stat =
            |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("stat")).ok();
        processes.filter_map(stat).any(|stat| {
            let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
            let fields: Vec<_> = fields.split(' ').collect();
            fields.len() > 2 && fields[0] != "Z" && fields[2] == group.to_string()
        })
    }

    #[tokio::test]
    async fn deadline_kills_whole_group() {
        let mut spec = sh("sleep 1000 & sleep 1000");
        spec.deadline = Duration::from_millis(50);
        let (outcome, lives) = ended(&spec, async |_| pending().await).await;
        assert!(outcome.timed_out && !outcome.success(), "{outcome:?}");
        assert!(!lives);
    }

    #[tokio::test]
    async fn process_ignoring_term_is_killed() {
        let spec =
            sh("trap '' TERM; (trap '' TERM; echo; sleep 1000; sleep 1000) & wait; sleep 1000");
        let (outcome, lives) = ended(&spec, async |output| {
            while output.out_since(0, 64).is_empty() {
                sleep(LOOK).await;
            }
            Duration::from_millis(50)
        })
        .await;
        assert_eq!((outcome.cancelled, outcome.signal), (true, Some(9)));
        assert!(!lives);
    }

    #[tokio::test]
    async fn leftover_children_are_killed() {
        let (outcome, lives) = ended(&sh("sleep 1000 &"), async |_| pending().await).await;
        assert!(outcome.success() && !lives);
    }

    #[tokio::test]
    async fn drop_kills_process_tree_and_frees_lock() {
        let root = tempfile::tempdir().unwrap();
        let (out, err) = (root.path().join("out"), root.path().join("err"));
        let spec = sh("sleep 1000 & sleep 1000");
        let running = async {
            let output = ChildOutput::open(&out, &err).unwrap().unwrap();
            run(&spec, &output, |_| {}, pending()).await
        };
        tokio::select! {
            ended = running => panic!("{ended:?}"),
            () = async { while !super::super::alive(&err) { sleep(LOOK).await; } } => {}
        }
        let end = Instant::now() + LONG;
        while super::super::alive(&err) {
            assert!(Instant::now() < end);
            sleep(LOOK).await;
        }
    }
}
