//! Runs a named check: a command line whose exit code says whether a task's work is good. While the check runs, a mark shows
//! where to find its process.

use std::future::pending;
use std::io;
use std::path::Path;
use std::time::Instant;

use super::{
    ChildOutput, ChildSpec, MarkKind, ProcessGroup, ProcessMark, environment, run, test_summary,
};
use crate::config::CheckConfig;
use crate::plan::{CheckResult, counted};
use crate::wire::printable;

/// The most bytes that are kept of a check's output.
const TAIL: usize = 4 * 1024;

/// The most bytes at its end in which summaries of tests are searched.
const READ: usize = 4 * 1024 * 1024;

/// Runs a check in a folder. It passes with exit code 0 only. A check that cannot start, is killed or takes too long has
/// failed, and the result says why.
pub async fn check(check: &CheckConfig, cwd: &Path) -> CheckResult {
    match ChildOutput::nameless() {
        Ok(output) => run_into(check, cwd, &output, |_| {}).await,
        Err(error) => result(check, None, false, &format!("no file for output: {error}")),
    }
}

/// As [`check`]; while the check runs, a mark in a folder shows this, with its kind and a name.
///
/// # Errors
/// When the mark cannot be created, or an earlier check of that name still runs and its process group is not known.
pub async fn check_marked(
    check: &CheckConfig,
    cwd: &Path,
    (marks, kind, name): (&Path, MarkKind, &str),
) -> io::Result<CheckResult> {
    let busy = || {
        let why = "a check that an earlier daemon started still runs";
        io::Error::new(io::ErrorKind::ResourceBusy, why)
    };
    let (mut mark, output) = ProcessMark::new(marks, kind, name)?.ok_or_else(busy)?;
    let began = Instant::now();
    let result = run_into(check, cwd, &output, |group| mark.name_group(group.id())).await;
    let took_ms = u64::try_from(began.elapsed().as_millis()).ok();
    Ok(CheckResult { took_ms, ..result })
}

async fn run_into(
    check: &CheckConfig,
    cwd: &Path,
    output: &ChildOutput,
    started: impl FnOnce(&mut ProcessGroup),
) -> CheckResult {
    let spec = ChildSpec {
        argv: check.argv.clone(),
        cwd: cwd.to_owned(),
        env: environment(&check.env),
        stdin: None,
        deadline: check.timeout,
    };
    let [begin, _] = output.lengths();
    let outcome = match run(&spec, output, started, pending()).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let why = format!("{:#}", anyhow::Error::new(error));
            let mut result = result(check, None, false, &why);
            result.finding = printable(&why);
            return result;
        }
    };
    let end = match outcome.signal {
        _ if outcome.timed_out => format!("(stopped after {:?})\n", check.timeout),
        Some(signal) => format!("(ended by signal {signal})\n"),
        None => String::new(),
    };
    // A summary may stand far above the end.
    let said = printable(&output.out_since(begin, READ));
    let tail = output.out_since(begin, TAIL) + &end;
    let mut result = result(check, outcome.exit, outcome.success(), &tail);
    if outcome.timed_out {
        result.finding = format!("stopped after {:?}", check.timeout);
    }
    result.tests = test_summary::tests_run(&said, check.count.as_deref());
    if !result.passed {
        let why = test_summary::why_no_test_failed(outcome.exit, &said, check.plain);
        result.doubt = why.unwrap_or_default();
    } else if let Some(failed @ 1..) = test_summary::tests_failed(&said).filter(|_| !check.plain) {
        let failed = counted(failed, "test");
        result.doubt = format!("its output says that {failed} failed");
    }
    result
}

fn result(check: &CheckConfig, exit: Option<i32>, passed: bool, tail: &str) -> CheckResult {
    CheckResult {
        name: check.name.clone(),
        exit,
        passed,
        tail: printable(tail),
        ..CheckResult::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn result(argv: &[&str], timeout: Duration) -> CheckResult {
        let named = CheckConfig {
            name: "test".into(),
            argv: argv.iter().map(ToString::to_string).collect(),
            timeout,
            ..CheckConfig::default()
        };
        let marks = tempfile::tempdir().unwrap();
        let cwd = std::env::temp_dir();
        let marked = check_marked(&named, &cwd, (marks.path(), MarkKind::Check, "a")).await;
        let left = std::fs::read_dir(marks.path()).unwrap().count();
        assert_eq!(left, 0, "a mark stays behind");
        let bare = check(&named, &cwd).await;
        let mut marked = marked.unwrap();
        assert!(marked.took_ms.take().is_some());
        assert_eq!(marked, bare);
        bare
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn only_exit_code_zero_passes() {
        let passed = result(&["sh", "-c", "echo fine"], LONG).await;
        assert!(passed.passed && passed.exit == Some(0) && passed.tail == "fine\n");
        let failed = result(&["sh", "-c", "echo bad >&2; exit 7"], LONG).await;
        assert!(!failed.passed && failed.exit == Some(7) && failed.tail == "bad\n");
        let odd = result(
            &["sh", "-c", "echo '=== 1 failed, 2 passed in 0.1s ==='"],
            LONG,
        )
        .await;
        assert!(odd.passed && odd.doubt.ends_with("says that 1 test failed"));
        let missing = result(&["no-such-check"], LONG).await;
        assert!(!missing.passed && missing.exit.is_none());
        assert!(missing.tail.starts_with("cannot start `no-such-check`"));
        assert_eq!(missing.outcome(), missing.tail);
        let late = result(&["sleep", "1000"], Duration::from_millis(20)).await;
        assert!(!late.passed && late.tail.contains("stopped after"));
        assert_eq!(late.outcome(), "stopped after 20ms");
    }

    #[tokio::test]
    async fn check_output_is_bounded_and_printable() {
        let flood = "i=0; while [ $i -lt 2000 ]; do printf '\\033[31mline\\n'; i=$((i+1)); done";
        let flooded = result(&["sh", "-c", flood], LONG).await;
        assert!(flooded.tail.len() <= TAIL && flooded.tail.starts_with("line\n"));
    }

    #[tokio::test]
    async fn check_arguments_are_not_expanded() {
        let shown = result(&["echo", "$(touch x);`touch x` $HOME"], LONG).await;
        assert_eq!(shown.tail, "$(touch x);`touch x` $HOME\n");
    }
}
