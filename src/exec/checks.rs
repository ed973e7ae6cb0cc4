//! Runs a named check: a command line whose exit code says whether a task's work is good. While it runs, its output is in a
//! file that is locked as long as any of its processes lives, and whose name ends with its process group; so whoever comes
//! after a kill finds it and ends it.

use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, getpgid};

use super::group::{Spec, Stdin, environment, run, stop_group};
use super::output::{Output, alive};
use crate::plan::CheckResult;
use crate::wire::text::printable;

/// The most that is kept of a check's output.
const TAIL: usize = 4 * 1024;

/// Between asking a check that was left behind to end and ending it: nobody waits for its result, and a start waits for it.
const LEFT_GRACE: Duration = Duration::from_millis(500);

/// What stands between the name of what is checked and the process group.
const MARK: &str = ".check";

/// A check as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    /// Program and arguments; nothing in them is interpreted.
    pub argv: Vec<String>,
    pub timeout: Duration,
    /// Names of variables it gets besides those that every child gets.
    pub env: Vec<String>,
}

/// Where a check is found while it runs; gone with this.
struct Mark(PathBuf);

impl Mark {
    /// Names the process group in the file's name: a content would be the child's, and a second file could be missing.
    fn sign(&mut self, group: u32) {
        let mut name = self.0.clone().into_os_string();
        name.push(format!(".{group}"));
        let signed = PathBuf::from(name);
        match std::fs::rename(&self.0, &signed) {
            Ok(()) => self.0 = signed,
            Err(error) => tracing::warn!(%error, "a check is not found after a kill"),
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, path = %self.0.display(), "the mark of a check stays behind");
        }
    }
}

/// Runs a check in a folder. It passes with exit code 0 only: one that cannot start, is killed or takes too long has
/// failed, and the result says why. `None` if it was cancelled.
pub async fn check(
    check: &Check,
    cwd: &Path,
    cancel: impl Future<Output = Duration>,
) -> Option<CheckResult> {
    match Output::nameless() {
        Ok(output) => run_into(check, cwd, &output, |_| {}, cancel).await,
        Err(error) => {
            let reason = format!("no file for output: {error}");
            Some(result(check, None, false, &reason))
        }
    }
}

/// As [`check`]; while it runs, a file in `marks` says so under the name of what is checked.
///
/// # Errors
/// When that file cannot be made, or an earlier check of that name still runs whose process group is not known.
pub async fn check_marked(
    check: &Check,
    cwd: &Path,
    marks: &Path,
    checked: &str,
    cancel: impl Future<Output = Duration>,
) -> io::Result<Option<CheckResult>> {
    let path = marks.join(format!("{checked}{MARK}"));
    let output = Output::at(&path)?.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::ResourceBusy,
            "a check that an earlier daemon started still runs",
        )
    })?;
    let mut mark = Mark(path);
    Ok(run_into(check, cwd, &output, |group| mark.sign(group), cancel).await)
}

async fn run_into(
    check: &Check,
    cwd: &Path,
    output: &Output,
    started: impl FnOnce(u32),
    cancel: impl Future<Output = Duration>,
) -> Option<CheckResult> {
    let spec = Spec {
        argv: check.argv.clone(),
        cwd: cwd.to_owned(),
        env: environment(&check.env),
        stdin: Stdin::Nothing,
        deadline: check.timeout,
    };
    let [begin, _] = output.lengths();
    let outcome = match run(&spec, output, started, cancel).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let error = anyhow::Error::new(error);
            return Some(result(check, None, false, &format!("{error:#}")));
        }
    };
    if outcome.cancelled {
        return None;
    }
    let end = match outcome.signal {
        _ if outcome.timed_out => format!("(stopped after {:?})\n", check.timeout),
        Some(signal) => format!("(ended by signal {signal})\n"),
        None => String::new(),
    };
    let tail = output.out_since(begin, TAIL) + &end;
    Some(result(check, outcome.exit, outcome.success(), &tail))
}

fn result(check: &Check, exit: Option<i32>, passed: bool, tail: &str) -> CheckResult {
    CheckResult {
        name: check.name.clone(),
        exit,
        passed,
        tail: printable(tail),
        finding: String::new(),
    }
}

/// Ends every check that is still running of those whose files are in `marks`, for whoever has become the only one to start
/// any. What a check put into a group of its own is left alone, as it is at the end of every check.
pub async fn end_left_behind(marks: &Path) {
    // A folder that is not there holds nothing.
    let entries = std::fs::read_dir(marks).into_iter().flatten().flatten();
    let left: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    for path in left {
        let Some(signed) = signature(&path) else {
            continue;
        };
        if alive(&path) {
            let Some(group) = signed.or_else(|| leader(&path)) else {
                tracing::warn!(path = %path.display(), "a check that was left behind is not found");
                continue;
            };
            tracing::info!(?group, path = %path.display(), "ends a check that was left behind");
            stop_group(group, LEFT_GRACE).await;
        }
        drop(Mark(path));
    }
}

/// Returns the process group that a mark names, or that it names none yet; `None` if the file is no mark.
fn signature(mark: &Path) -> Option<Option<Pid>> {
    let (_, group) = mark.file_name()?.to_str()?.rsplit_once(MARK)?;
    if group.is_empty() {
        return Some(None);
    }
    let group = group.strip_prefix('.')?.parse().ok();
    let group = group.filter(|group| *group > 1).and_then(Pid::from_raw)?;
    Some(Some(group))
}

/// Looks for the process that leads a check's group, where the daemon was killed before it could sign the mark: the one that
/// writes into the file and leads a group.
fn leader(mark: &Path) -> Option<Pid> {
    let mark = mark.metadata().ok()?;
    let writes = |process: &Path| {
        let output = process.join("fd/2").metadata();
        output.is_ok_and(|output| (output.dev(), output.ino()) == (mark.dev(), mark.ino()))
    };
    std::fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter(|entry| writes(&entry.path()))
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .find(|pid| getpgid(Some(*pid)).is_ok_and(|group| group == *pid))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    async fn result(argv: &[&str], timeout: Duration) -> CheckResult {
        let named = Check {
            name: "test".into(),
            argv: argv.iter().map(ToString::to_string).collect(),
            timeout,
            env: vec![],
        };
        let marks = tempfile::tempdir().unwrap();
        let cwd = std::env::temp_dir();
        let marked = check_marked(&named, &cwd, marks.path(), "a", pending()).await;
        let left = std::fs::read_dir(marks.path()).unwrap().count();
        assert_eq!(left, 0, "a mark stays behind");
        let bare = check(&named, &cwd, pending()).await;
        assert_eq!(marked.unwrap(), bare);
        bare.unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn only_exit_code_zero_passes() {
        let passed = result(&["sh", "-c", "echo fine"], LONG).await;
        assert!(passed.passed && passed.exit == Some(0) && passed.tail == "fine\n");
        let failed = result(&["sh", "-c", "echo bad >&2; exit 7"], LONG).await;
        assert!(!failed.passed && failed.exit == Some(7) && failed.tail == "bad\n");
        let missing = result(&["no-such-check"], LONG).await;
        assert!(!missing.passed && missing.exit.is_none());
        assert!(missing.tail.starts_with("cannot start `no-such-check`"));
        let late = result(&["sleep", "1000"], Duration::from_millis(20)).await;
        assert!(!late.passed && late.tail.contains("stopped after"));
    }

    #[tokio::test]
    async fn the_output_is_bounded_and_harmless() {
        let flood = "i=0; while [ $i -lt 2000 ]; do printf '\\033[31mline\\n'; i=$((i+1)); done";
        let flooded = result(&["sh", "-c", flood], LONG).await;
        assert!(flooded.tail.len() <= TAIL && flooded.tail.starts_with("line\n"));
    }

    #[tokio::test]
    async fn nothing_in_the_arguments_is_interpreted() {
        let shown = result(&["echo", "$(touch x);`touch x` $HOME"], LONG).await;
        assert_eq!(shown.tail, "$(touch x);`touch x` $HOME\n");
    }

    #[tokio::test]
    async fn a_cancelled_check_has_no_result() {
        let named = Check {
            name: "test".into(),
            argv: vec!["sleep".into(), "1000".into()],
            timeout: LONG,
            env: vec![],
        };
        let cancel = ready(Duration::ZERO);
        assert_eq!(check(&named, &std::env::temp_dir(), cancel).await, None);
    }

    #[test]
    fn a_mark_names_a_group_and_nothing_else_does() {
        let group = |name| {
            let signed = signature(Path::new(name))?;
            Some(signed.map_or(0, Pid::as_raw_pid))
        };
        assert_eq!(group("active/task-1.check.4711"), Some(4711));
        assert_eq!(group("active/task-1.check"), Some(0));
        for name in [
            "task-1.check.",
            "task-1.check.x",
            "task-1.check.1",
            "task-1.check.-5",
            "task-1.checks",
            "task-1.json",
            "4711",
        ] {
            assert_eq!(group(name), None, "{name}");
        }
    }

    #[tokio::test]
    async fn a_check_is_found_by_its_mark_with_and_without_a_signature() {
        for signed in [true, false] {
            let marks = tempfile::tempdir().unwrap();
            let path = marks.path().join(format!("a{MARK}"));
            let output = Output::at(&path).unwrap().unwrap();
            let spec = Spec {
                argv: ["sleep", "1000"].map(str::to_owned).to_vec(),
                cwd: std::env::temp_dir(),
                env: environment(&[]),
                stdin: Stdin::Nothing,
                deadline: LONG,
            };
            let (started, group) = tokio::sync::oneshot::channel();
            let sign = path.clone();
            let child = tokio::spawn(async move {
                let begun = |group| {
                    if signed {
                        let mut mark = Mark(sign);
                        mark.sign(group);
                        // As if the daemon had been killed.
                        std::mem::forget(mark);
                    }
                    started.send(()).unwrap();
                };
                run(&spec, &output, begun, pending()).await
            });
            group.await.unwrap();
            end_left_behind(marks.path()).await;
            let outcome = child.await.unwrap().unwrap();
            assert!(outcome.signal.is_some(), "signed: {signed}");
            assert_eq!(std::fs::read_dir(marks.path()).unwrap().count(), 0);
        }
    }
}
