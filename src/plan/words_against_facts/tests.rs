use super::*;
use crate::plan::model::{CheckResult, CommandId, Report, TaskId, Time};
use crate::plan::tests::testing::rows;

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
    // What is said against a report, its status, the exit codes of the runs with their order, and its words.
    let table = "
        // The agent's own last run failed.
        SUCCESS, but its own last test run failed: `cargo test` (exit 101 | SUCCESS | 101 after | Done.
        last test run failed | SUCCESS | 101 before | Done.
        the report says that tests pass, but its own | PARTIAL_SUCCESS | 1 after | All tests pass.
        failed | SUCCESS | 0 after, 1 after | Done.
        // Red, then green; and what claims nothing.
        - | SUCCESS | 1 before, 0 after | All tests pass.
        - | PARTIAL_SUCCESS | 1 after | Half of it.
        - | FAILED | 1 after | All tests pass.
        // Before the last edit.
        `cargo test` last ran before the last edit | SUCCESS | 0 before | All tests pass.
        before the last edit | SUCCESS | 0 before | 5 passed
        before the last edit | SUCCESS | 0 before | 所有测试均通过。
        - | SUCCESS | 0 before | Done.
        - | SUCCESS | 0 unknown | All tests pass.
        - | SUCCESS | 0 before | The tests do not pass yet.
        // Words against words.
        and also `it works: 2 failed, 3 passed.` | SUCCESS | - | It works: 2 failed, 3 passed.
        3 passed; 2 failed | SUCCESS | - | Result: 3 passed; 2 failed
        1 of 9 tests failed | SUCCESS | - | 1 of 9 tests failed
        - | SUCCESS | - | 2 failed, 3 passed\\n5 passed
        - | SUCCESS | - | Before: 2 failed, 3 passed. Now it is right.
        - | SUCCESS | - | At first 2 failed, 3 passed.
        - | SUCCESS | - | Fixed the 2 failing tests.
        - | SUCCESS | - | 0 failed, 3 passed
        - | SUCCESS | 0 after | 2 failed, 3 passed
        - | PARTIAL_SUCCESS | - | 2 failed, 3 passed
        - | SUCCESS | - | Read 3 files; 2 downloads failed and were repeated.";
    for [against, status, runs, words] in rows(table) {
        let run = |run: &str| {
            let (exit, order) = run.split_once(' ')?;
            let order = match order {
                "before" => RunOrder::BeforeLastEdit,
                "after" => RunOrder::AfterLastEdit,
                _ => RunOrder::Unknown,
            };
            Some(ran(exit.parse().unwrap(), order))
        };
        let status = serde_json::from_value(status.into()).unwrap();
        let runs = runs.split(", ").filter_map(run).collect();
        let found = contradiction(&reported(status, &words, runs)).unwrap_or_default();
        assert_eq!(found.is_empty(), against.is_empty(), "{words}: {found}");
        assert!(found.contains(&against), "{words}: {found}");
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
