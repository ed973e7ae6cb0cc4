//! What the output of a check says about its tests: how many ran, and why a failure is none of a test.

use regex_lite::Regex;

/// What says that a program, a module or a file is missing.
const MISSING: [&str; 15] = [
    "command not found",
    "no such command",
    "Missing script",
    "missing script",
    "Cannot find module",
    "Cannot find package",
    "No module named",
    "ModuleNotFoundError",
    "ImportError",
    "cannot find package",
    "no required module provides",
    "not a git repository",
    "cannot open",
    "can't open file",
    "Could not resolve host",
];

/// What says that the sources are not in order.
const BROKEN: [&str; 7] = [
    "could not compile",
    "[build failed]",
    "[setup failed]",
    "SyntaxError",
    "error during collection",
    "errors during collection",
    "Test suite failed to run",
];

/// Returns how many tests ran, without those that were skipped; `None` if no summary is found. Summaries are added: some
/// runners print one for each program. Where Go says no numbers, its packages count.
///
/// `own` is a regular expression that finds a number in the output of another runner, in its first group if it has one.
pub fn tests_run(output: &str, own: Option<&str>) -> Option<u32> {
    if let Some(own) = own.and_then(|own| Regex::new(own).ok()) {
        let found = own.captures_iter(output);
        let numbers = found.filter_map(|found| {
            let number = found.get(1).or_else(|| found.get(0))?;
            number.as_str().trim().parse::<u32>().ok()
        });
        return numbers.reduce(u32::saturating_add);
    }
    let mut ran: Option<u32> = None;
    for line in output.lines().map(str::trim) {
        if let (Some(so_far), Some(skipped)) = (ran, skipped_by_unittest(line)) {
            ran = Some(so_far.saturating_sub(skipped));
        } else if let Some(more) = of_line(line) {
            ran = Some(ran.unwrap_or(0).saturating_add(more));
        }
    }
    ran
}

/// Returns why the failure of a check is no failure of a test; `None` if it may be one. A plain check needs no tests, so
/// sources that are not in order make it fail as they should.
pub fn why_no_test_failed(exit: Option<i32>, output: &str, plain: bool) -> Option<String> {
    match exit {
        None => return Some("it did not end by itself".to_owned()),
        Some(126 | 127) => return Some("a program that it needs is missing".to_owned()),
        Some(_) => {}
    }
    let says = |said: &&&str| output.contains(**said);
    let missing = MISSING.iter().find(says);
    if let Some(said) = missing {
        return Some(format!("what it needs is missing there: `{said}`"));
    }
    let absent = "No such file or directory";
    // Where tests ran, it may be one of them that misses a file.
    if output.contains(absent) && tests_run(output, None).unwrap_or(0) == 0 {
        return Some(format!("what it needs is missing there: `{absent}`"));
    }
    let broken = BROKEN.iter().find(|said| !plain && says(said));
    broken.map(|said| format!("the sources are not in order there: `{said}`"))
}

/// Returns how many tests ran by the summary that a line is.
fn of_line(line: &str) -> Option<u32> {
    if let Some(cargo) = line.strip_prefix("test result: ") {
        return Some(number(cargo, "passed")? + number(cargo, "failed")?);
    }
    if line.starts_with("Summary [") {
        return number(line, "test").or_else(|| number(line, "tests"));
    }
    if let Some(unittest) = line.strip_prefix("Ran ") {
        let (count, rest) = unittest.split_once(" test")?;
        return rest.contains(" in ").then(|| count.parse().ok())?;
    }
    // jest and vitest.
    if let Some(sums) = line.strip_prefix("Tests") {
        let is_summary = sums.starts_with(':') && sums.contains(" total")
            || sums.starts_with("  ") && sums.ends_with(')');
        let ran = number(sums, "passed").unwrap_or(0) + number(sums, "failed").unwrap_or(0);
        return is_summary.then_some(ran);
    }
    if line.starts_with("No tests found") || line.starts_with("No test files found") {
        return Some(0);
    }
    of_package(line)
        .or_else(|| of_gradle(line))
        .or_else(|| of_pytest(line))
}

fn of_package(line: &str) -> Option<u32> {
    let mut words = line.split('\t').map(str::trim);
    let (word, package) = (words.next()?, words.next()?);
    match word {
        _ if package.is_empty() || package.contains(' ') => None,
        "ok" => Some(u32::from(!line.contains("[no test"))),
        "?" => Some(0),
        "FAIL" => Some(u32::from(!line.contains("failed]"))),
        _ => None,
    }
}

/// A task that Gradle has not run, as nothing has changed, says nothing about tests.
fn of_gradle(line: &str) -> Option<u32> {
    let task = line.strip_prefix("> Task ")?;
    let (name, end) = task.split_once(' ').unwrap_or((task, ""));
    let tests = name == ":test" || name.ends_with(":test");
    match end {
        "" | "FAILED" => tests.then_some(1),
        "NO-SOURCE" => tests.then_some(0),
        _ => None,
    }
}

fn of_pytest(line: &str) -> Option<u32> {
    let (counts, time) = line.trim_matches('=').trim().rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    if counts == "no tests ran" {
        return Some(0);
    }
    let mut ran = 0;
    for part in counts.split(", ") {
        let (count, word) = part.split_once(' ')?;
        let count: u32 = count.parse().ok()?;
        match word {
            "passed" | "failed" | "xfailed" | "xpassed" => ran += count,
            "error" | "errors" | "skipped" | "deselected" | "warning" | "warnings" => {}
            _ => return None,
        }
    }
    Some(ran)
}

/// Returns the skipped tests on the line of unittest that follows its count.
fn skipped_by_unittest(line: &str) -> Option<u32> {
    let ends = ["OK (", "FAILED (", "NO TESTS RAN ("];
    let rest = ends.iter().find_map(|end| line.strip_prefix(end))?;
    let (_, skipped) = rest.split_once("skipped=")?;
    let digits = skipped.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Returns the number before a word.
fn number(text: &str, word: &str) -> Option<u32> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let pair = words.windows(2).find(|pair| pair[1] == word)?;
    pair[0].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_in_summaries_of_runners() {
        let cargo = "running 2 tests\ntest result: FAILED. 1 passed; 1 failed; 7 ignored; 0 measured; 3 filtered out\n";
        for (output, ran) in [
            (cargo, Some(2)),
            (&*cargo.repeat(3), Some(6)),
            (
                "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out",
                Some(0),
            ),
            (
                "     Summary [   0.005s] 5 tests run: 4 passed, 1 failed, 2 skipped",
                Some(5),
            ),
            (
                "     Summary [   0.005s] 1 test run: 1 passed, 0 skipped",
                Some(1),
            ),
            (
                "===== 3 passed, 1 failed, 2 skipped, 1 warning in 0.12s =====",
                Some(4),
            ),
            ("2 skipped in 0.01s", Some(0)),
            ("1 error in 0.20s", Some(0)),
            ("===== no tests ran in 0.01s =====", Some(0)),
            ("1 passed in 61.02s (0:01:01)", Some(1)),
            ("Ran 3 tests in 0.001s\n\nOK", Some(3)),
            (
                "Ran 3 tests in 0.001s\n\nFAILED (failures=1, skipped=2)",
                Some(1),
            ),
            ("Ran 0 tests in 0.000s\n\nNO TESTS RAN", Some(0)),
            (
                "Tests:       1 failed, 2 skipped, 3 passed, 6 total",
                Some(4),
            ),
            ("No tests found, exiting with code 1", Some(0)),
            ("      Tests  1 failed | 3 passed | 1 skipped (5)", Some(4)),
            (
                "ok  \texample.org/x\t0.01s\n?   \texample.org/y\t[no test files]\nFAIL\texample.org/z\t0.02s\nFAIL",
                Some(2),
            ),
            ("ok  \texample.org/x\t0.01s [no tests to run]", Some(0)),
            ("FAIL\texample.org/x [build failed]", Some(0)),
            (
                "> Task :app:test FAILED\n3 tests completed, 1 failed",
                Some(1),
            ),
            ("> Task :test\nBUILD SUCCESSFUL in 3s", Some(1)),
            ("> Task :test UP-TO-DATE", None),
            ("> Task :test NO-SOURCE", Some(0)),
            ("all 3 tests passed", None),
            ("Built 3 of 4 in 5s", None),
            ("", None),
        ] {
            assert_eq!(tests_run(output, None), ran, "{output}");
        }
        let own = Some(r"(\d+) checks");
        assert_eq!(tests_run("4 checks\n3 checks", own), Some(7));
        assert_eq!(tests_run("99999999999 checks", own), None);
        assert_eq!(tests_run("Ran 3 tests in 1s", own), None);
    }

    #[test]
    fn failure_of_tests_is_told_from_others() {
        for (exit, output, plain, fails) in [
            (Some(1), "Ran 3 tests in 0.1s", false, true),
            (
                Some(1),
                "Ran 3 tests in 0.1s\nNo such file or directory: 'out.csv'",
                false,
                true,
            ),
            (
                Some(2),
                "grep: a.txt: No such file or directory",
                true,
                false,
            ),
            (Some(1), "", true, true),
            (Some(101), "error: could not compile `x`", false, false),
            (Some(101), "error: could not compile `x`", true, true),
            (
                Some(1),
                "Ran 1 test in 0.1s\nModuleNotFoundError: No module named 'x'",
                false,
                false,
            ),
            (
                Some(2),
                "1 error in 0.1s\nInterrupted: 1 error during collection",
                false,
                false,
            ),
            (Some(127), "", true, false),
            (None, "Ran 3 tests in 0.1s", false, false),
        ] {
            let why = why_no_test_failed(exit, output, plain);
            assert_eq!(why.is_none(), fails, "{output}: {why:?}");
        }
    }
}
