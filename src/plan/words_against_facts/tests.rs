use super::*;
use crate::plan::model::{CheckResult, CommandId, Report, TaskId, Time};

/// The last run of `cargo test`, as an agent's program prints it.
fn ran(exit: i32, order: RunOrder) -> RanCommand {
    RanCommand {
        command: "cargo test".to_owned(),
        exit: Some(exit),
        tail: "test result".to_owned(),
        order,
        tests: Some(if exit == 0 {
            TestRun::Passed
        } else {
            TestRun::Failed
        }),
        checks: vec!["test".to_owned()],
    }
}

fn reported(status: ReportStatus, words: &str, ran: Vec<RanCommand>) -> Attempt {
    let report = Report {
        results: words.to_owned(),
        ..Report::new("report-1.md", status, Time(0))
    };
    Attempt {
        report: Some(report),
        ran,
        ..Attempt::new(CommandId::new("task-1"), TaskId(1), 1, Time(0))
    }
}

#[test]
fn words_count_against_what_ran() {
    use ReportStatus::{Failed, PartialSuccess, Success};
    use RunOrder::{AfterLastEdit as After, BeforeLastEdit as Before, Unknown};
    for (status, words, ran, against) in [
        // The agent's own last run failed.
        (
            Success,
            "Done.",
            vec![ran(101, After)],
            Some("SUCCESS, but its own last test run failed: `cargo test` (exit 101"),
        ),
        (
            Success,
            "Done.",
            vec![ran(101, Before)],
            Some("last test run failed"),
        ),
        (
            PartialSuccess,
            "All tests pass.",
            vec![ran(1, After)],
            Some("the report says that tests pass, but its own"),
        ),
        (
            Success,
            "Done.",
            vec![ran(0, After), ran(1, After)],
            Some("failed"),
        ),
        // Red, then green; and what claims nothing.
        (
            Success,
            "All tests pass.",
            vec![ran(1, Before), ran(0, After)],
            None,
        ),
        (PartialSuccess, "Half of it.", vec![ran(1, After)], None),
        (Failed, "All tests pass.", vec![ran(1, After)], None),
        // Before the last edit.
        (
            Success,
            "All tests pass.",
            vec![ran(0, Before)],
            Some("`cargo test` last ran before the last edit"),
        ),
        (
            Success,
            "5 passed",
            vec![ran(0, Before)],
            Some("before the last edit"),
        ),
        (
            Success,
            "所有测试均通过。",
            vec![ran(0, Before)],
            Some("before the last edit"),
        ),
        (Success, "Done.", vec![ran(0, Before)], None),
        (Success, "All tests pass.", vec![ran(0, Unknown)], None),
        (
            Success,
            "The tests do not pass yet.",
            vec![ran(0, Before)],
            None,
        ),
        // Words against words.
        (
            Success,
            "It works: 2 failed, 3 passed.",
            vec![],
            Some("and also `it works: 2 failed, 3 passed.`"),
        ),
        (
            Success,
            "Result: 3 passed; 2 failed",
            vec![],
            Some("3 passed; 2 failed"),
        ),
        (
            Success,
            "1 of 9 tests failed",
            vec![],
            Some("1 of 9 tests failed"),
        ),
        (Success, "2 failed, 3 passed\n5 passed", vec![], None),
        (
            Success,
            "Before: 2 failed, 3 passed. Now it is right.",
            vec![],
            None,
        ),
        (Success, "At first 2 failed, 3 passed.", vec![], None),
        (Success, "Fixed the 2 failing tests.", vec![], None),
        (Success, "0 failed, 3 passed", vec![], None),
        (Success, "2 failed, 3 passed", vec![ran(0, After)], None),
        (PartialSuccess, "2 failed, 3 passed", vec![], None),
        (
            Success,
            "Read 3 files; 2 downloads failed and were repeated.",
            vec![],
            None,
        ),
    ] {
        let found = contradiction(&reported(status, words, ran));
        let reason = found;
        match (&reason, against) {
            (Some(reason), Some(part)) => assert!(reason.contains(part), "{words}: {reason}"),
            (reason, part) => assert_eq!(reason.as_deref(), part, "{words}"),
        }
    }
}

#[test]
fn passed_check_counts_more_than_earlier_run() {
    let check = |name: &str, passed: bool| CheckResult {
        name: name.to_owned(),
        exit: Some(i32::from(!passed)),
        passed,
        tail: "3 passed".to_owned(),
        ..CheckResult::default()
    };
    for (checks, against) in [
        (vec![], true),
        (vec![check("test", true)], false),
        (vec![check("lint", true)], true),
        // A failed check speaks for itself.
        (vec![check("test", false)], false),
    ] {
        let attempt = Attempt {
            checks: Some(checks.clone()),
            ..reported(
                ReportStatus::Success,
                "Done.",
                vec![ran(1, RunOrder::AfterLastEdit)],
            )
        };
        assert_eq!(contradiction(&attempt).is_some(), against, "{checks:?}");
    }
    // The tail of unittest names no passed tests; a check without tests says nothing of them.
    let unittest = |tests| CheckResult {
        tail: "Ran 3 tests in 0.1s OK".to_owned(),
        tests,
        ..check("test", true)
    };
    for (check, against) in [
        (check("test", true), false),
        (unittest(Some(3)), false),
        (unittest(Some(0)), true),
        (unittest(None), true),
    ] {
        let attempt = Attempt {
            checks: Some(vec![check]),
            ..reported(
                ReportStatus::Success,
                "It went from 2 failed, 1 passed to green.",
                vec![],
            )
        };
        assert_eq!(contradiction(&attempt).is_some(), against, "{attempt:?}");
    }
}
