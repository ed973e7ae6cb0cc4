//! What the output of a check says about its tests: how many ran, and why a failure is none of a test.

use regex_lite::Regex;

use crate::plan::test_commands::patterns;

patterns! {
    /// Lines that sum up tests by their outcome, of cargo, pytest, jest, vitest, mocha and node, and what of them ran.
    SUMS = r"^(test result: |=* ?(no tests ran|\d+ [a-z]+(, \d+ [a-z]+)*) in [\d.]+s|Tests: .* total|Tests  .*\)$|No test(s| files) found|\d+ (passed|passing|failing)|[#ℹ] (pass|fail) )";
    RAN = r"(\d+) (?:passed|failed|xfailed|xpassed|passing|failing)|(?:pass|fail) (\d+)";
    /// What of them failed, and the line in which unittest says it.
    FAILED = r"(\d+) fail(?:ed|ing)|fail (\d+)|(?:failures|errors)=(\d+)";
    FAILURES = r"^FAILED \(";
    /// Lines with the number of tests that ran, of unittest and nextest; unittest counts skipped ones among them.
    COUNTED = r"^(Ran|Summary \[.*\]) +(\d+) tests? (in|run)";
    SKIPPED = r"^(OK|FAILED|NO TESTS RAN) \(.*skipped=(\d+)";
    /// Lines for one package of Go, one task of Gradle or one test of TAP, and for none. Gradle may leave out what has not changed,
    /// which says nothing.
    ONE = r"^((ok +|FAIL)\t\S+\t|> Task \S*:test( FAILED)?$|(not )?ok \d+( [^#]*)?$)";
    NONE = r"^(\? +\t|FAIL\t\S+ \[|ok .*\[no test|> Task \S*:test NO-SOURCE)";
    /// What says that a program, a module or a file is missing.
    MISSING = r"command not found|[Nn]o such command|[Mm]issing script|Cannot find (module|package)|cannot find package|No module named|ModuleNotFoundError|ImportError|no required module provides|not a git repository|(cannot|can't) open( file)?|Could not resolve host|Error\b.*([Aa]ddress already in use|EADDRINUSE|[Cc]onnection refused|ECONNREFUSED)|\(os error (98|111)\)";
    ABSENT = "No such file or directory";
    /// What says that the sources are not in order.
    BROKEN = r"could not compile|\[(build|setup) failed\]|SyntaxError|errors? during collection|Test suite failed to run";
}

/// Returns how many tests ran, without those that were skipped; `None` if no summary is found. Summaries are added: some
/// runners print one for each program. Where Go and Gradle say no numbers, packages and tasks count.
///
/// `own` is a regular expression that finds a number in the output of another runner, in its first group if it has one.
pub fn tests_run(output: &str, own: Option<&str>) -> Option<u32> {
    if let Some(own) = own.and_then(|own| Regex::new(own).ok()) {
        return sum(&own, output);
    }
    // Node prints each test as TAP, and then the sums.
    let summed = output.lines().any(|line| line.starts_with("# pass "));
    let mut ran: Option<u32> = None;
    for line in output.lines().map(str::trim) {
        let more = if SUMS.is_match(line) {
            sum(&RAN, line).unwrap_or(0)
        } else if let Some(counted) = COUNTED.captures(line) {
            counted[2].parse().unwrap_or(0)
        } else if let (Some(so_far), Some(skipped)) = (ran, SKIPPED.captures(line)) {
            ran = Some(so_far.saturating_sub(skipped[2].parse().unwrap_or(0)));
            continue;
        } else if NONE.is_match(line) {
            0
        } else if summed && (line.starts_with("ok ") || line.starts_with("not ok ")) {
            continue;
        } else if ONE.is_match(line) {
            1
        } else {
            continue;
        };
        ran = Some(ran.unwrap_or(0).saturating_add(more));
    }
    ran
}

/// Returns how many tests failed, where summaries say it.
pub fn tests_failed(output: &str) -> Option<u32> {
    let sums = output.lines().map(str::trim).filter(|line| {
        let mut patterns = [&SUMS, &COUNTED, &FAILURES].into_iter();
        patterns.any(|pattern| pattern.is_match(line))
    });
    sums.filter_map(|line| sum(&FAILED, line))
        .reduce(u32::saturating_add)
}

/// Adds the numbers that a pattern finds.
fn sum(pattern: &Regex, text: &str) -> Option<u32> {
    let found = pattern.captures_iter(text);
    let numbers = found.filter_map(|found| {
        let number = found.iter().skip(1).flatten().chain(found.get(0)).next()?;
        number.as_str().trim().parse::<u32>().ok()
    });
    numbers.reduce(u32::saturating_add)
}

/// Returns why the failure of a check is no failure of a test; `None` if it may be one. A plain check needs no tests, so
/// sources that are not in order make it fail as they should.
pub fn why_no_test_failed(exit: Option<i32>, output: &str, plain: bool) -> Option<String> {
    match exit {
        None => return Some("it did not end by itself".to_owned()),
        Some(126 | 127) => return Some("a program that it needs is missing".to_owned()),
        Some(_) => {}
    }
    let found = |pattern: &Regex| Some(pattern.find(output)?.as_str().to_owned());
    // Where tests ran, it may be one of them that misses a file.
    let no_test = tests_run(output, None).unwrap_or(0) == 0;
    if let Some(said) = found(&MISSING).or_else(|| found(&ABSENT).filter(|_| no_test)) {
        return Some(format!("what it needs is missing there: `{said}`"));
    }
    let broken = found(&BROKEN).filter(|_| !plain)?;
    Some(format!("the sources are not in order there: `{broken}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::testing::rows;

    #[test]
    fn tests_are_counted_in_summaries_of_runners() {
        let table = r"
            0 | test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out
            5 |      Summary [   0.005s] 5 tests run: 4 passed, 1 failed, 2 skipped
            1 |      Summary [   0.005s] 1 test run: 1 passed, 0 skipped
            4 | ===== 3 passed, 1 failed, 2 skipped, 1 warning in 0.12s =====
            0 | 2 skipped in 0.01s
            0 | 1 error in 0.20s
            0 | ===== no tests ran in 0.01s =====
            1 | 1 passed in 61.02s (0:01:01)
            3 | Ran 3 tests in 0.001s\n\nOK
            1 | Ran 3 tests in 0.001s\n\nFAILED (failures=1, skipped=2)
            0 | Ran 0 tests in 0.000s\n\nNO TESTS RAN
            4 | Tests:       1 failed, 2 skipped, 3 passed, 6 total
            0 | No tests found, exiting with code 1
            4 |       Tests  1 failed | 3 passed | 1 skipped (5)
            2 | ok  \texample.org/x\t0.01s\n?   \texample.org/y\t[no test files]\nFAIL\texample.org/z\t0.02s\nFAIL
            0 | ok  \texample.org/x\t0.01s [no tests to run]
            0 | FAIL\texample.org/x [build failed]
            1 | > Task :app:test FAILED\n3 tests completed, 1 failed
            1 | > Task :test\nBUILD SUCCESSFUL in 3s
            - | > Task :test UP-TO-DATE
            0 | > Task :test NO-SOURCE
            3 |   3 passing (4ms)
            2 | ℹ pass 2
            3 | ℹ tests 3\nℹ pass 0\nℹ fail 3\nℹ skipped 0
            2 |   0 passing (4ms)\n  2 failing\n  1 pending
            0 | # pass 0
            1 | ℹ tests 1\nℹ pass 0\nℹ fail 1
            2 | ok 1 - adds\nnot ok 2 - more\n# tests 2\n# pass 1\n# fail 1
            3 | 3 passed
            2 | ok 1 - adds\nnot ok 2 - more\nok 3 # SKIP
            - | all 3 tests passed
            - | Built 3 of 4 in 5s
            - | -";
        for [ran, output] in rows(table) {
            assert_eq!(tests_run(&output, None), ran.parse().ok(), "{output}");
        }
        let cargo = "running 2 tests\ntest result: FAILED. 1 passed; 1 failed; 7 ignored; 0 measured; 3 filtered out\n";
        assert_eq!(tests_run(cargo, None), Some(2));
        assert_eq!(tests_run(&cargo.repeat(3), None), Some(6));
        let own = Some(r"(\d+) checks");
        assert_eq!(tests_run("4 checks\n3 checks", own), Some(7));
        assert_eq!(tests_run("99999999999 checks", own), None);
        assert_eq!(tests_run("Ran 3 tests in 1s", own), None);
    }

    #[test]
    fn failed_tests_are_counted() {
        let table = r"
            2 | test result: FAILED. 1 passed; 2 failed; 7 ignored
            1 | not ok 1 - a\n# pass 2\n# fail 1\n# todo 0
            3 | Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=3)
            1 | Tests:       1 failed, 3 passed, 4 total
            - | 2 passed
            - | it failed";
        for [failed, output] in rows(table) {
            assert_eq!(tests_failed(&output), failed.parse().ok(), "{output}");
        }
    }

    #[test]
    fn failure_of_tests_is_told_from_others() {
        let table = r"
            fails | 1 | - | Ran 3 tests in 0.1s
            fails | 1 | - | Ran 3 tests in 0.1s\nNo such file or directory: 'out.csv'
            - | 2 | plain | grep: a.txt: No such file or directory
            fails | 1 | plain | -
            - | 101 | - | error: could not compile `x`
            fails | 101 | plain | error: could not compile `x`
            - | 1 | - | Ran 1 test in 0.1s\nModuleNotFoundError: No module named 'x'
            - | 2 | - | 1 error in 0.1s\nInterrupted: 1 error during collection
            - | 127 | plain | -
            - | - | - | Ran 3 tests in 0.1s";
        for [fails, exit, plain, output] in rows(table) {
            let why = why_no_test_failed(exit.parse().ok(), &output, plain == "plain");
            assert_eq!(why.is_none(), fails == "fails", "{output}: {why:?}");
        }
    }
}
