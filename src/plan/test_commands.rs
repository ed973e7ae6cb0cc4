//! Shell commands as an agent's program prints them: which of them run tests, how the tests ended, and which change files. Only
//! their text is read; what it does not show stays unknown.

use super::TestRun;

/// Defines patterns that are compiled once.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {$(
        $(#[$doc])*
        static $name: std::sync::LazyLock<regex_lite::Regex> =
            std::sync::LazyLock::new(|| regex_lite::Regex::new($text).expect("a pattern"));
    )*};
}
pub(crate) use patterns;

patterns! {
    /// A command of a line. What stands in quotes separates none; `2>&1` and `&>` only lead output elsewhere.
    COMMAND = r#"(?:'[^']*'|"(?:\\.|[^"\\])*"|\\(?s:.)|>&\d?|&>|[^;|&\n])+"#;
    /// A test program, behind what only starts it.
    TESTS = r#"(?x)^[\s('"]*(?:(?:\w+=\S*|timeout\s+\S+|sudo|time|env|nice|exec|command|npx|bunx|uv|poetry|pipenv|hatch|run
        |(?:\S*/)?(?:ba)?sh|-\S+)\s+)* ['"]?(?:\S*/)? (?:cargo\s+(?:\+\S+\s+)?(?:t|test|nextest) | pytest | py\.test
        | python[\d.]*\s+(?:-\w+\s+)*?-m\s+(?:pytest|unittest)
        | (?:npm|pnpm|yarn|bun)\s+(?:(?:run|exec)\s+)?(?:jest|vitest|(?:t|test)(?::\S+)?) | jest | vitest | go\s+test
        | (?:gradle|make|just|mvn)w?\s(?:.*[\s:])?(?:test|check|verify)) (?:[\s'")]|$)"#;
    /// Options with which a test program runs no tests.
    ONLY_LISTS = r"\s--(?:no-run|collect-only|co|list|version|help)\b";
    /// What changes no source.
    READS = r"(?x)^\s*(?:(?:cd|ls|cat|head|tail|e?grep|rg|wc|echo|printf|pwd|which|sort|uniq|diff|cmp|true|test|stat|file
        |date|sleep|jq|sed\s+-n|git\s+(?:status|diff|log|show|add|commit|blame)|cargo\s+(?:check|build|clippy|doc))\b
        [^>]*)?$";
    /// Output that is led to no source.
    ASIDE = r"\d?(?:>>?\s*/(?:dev|tmp)/\S*|>&\d)";
    /// Where a command writes: the name of the file is a group.
    WRITES = r#"(?x)(?:>\s*|\b(?:tee|rm|truncate|patch)\s(?:.*\s)?|\b(?:sed|perl)\s+-\S*i.*\s|\b(?:cp|mv)\s.*\s)
        ['"]?(?:[^\s'"&>]*/)?([^\s'"&>/]+)"#;
    /// What programs print that ran no tests.
    NO_TESTS = "no tests? ran|ran 0 tests|no tests? found|no test files|no test specified|missing script";
    FAILED = r"(?m)\b[1-9]\d* (?:tests? )?fail(?:ed|ing|ures?)?\b|\b(?:failures|errors)=[1-9]|[1-9]\d* errors? in\b|^--- fail|^fail\t";
    PASSED = r"(?m)\b[1-9]\d* pass(?:ed|ing)\b|^ok\s";
}

/// The names of the test programs.
const PROGRAMS: [&str; 14] = [
    "cargo", "unittest", "vitest", "jest", "pytest", "py.test", "go", "gradle", "make", "just",
    "mvn", "npm", "yarn", "bun",
];

/// Returns the commands of a line. A document in the line ends what is read; behind what does not decide the exit code stands
/// an empty command.
fn commands(line: &str) -> Vec<&str> {
    let line = line.trim();
    let found = COMMAND.find_iter(line.split("<<").next().unwrap_or_default());
    let mut commands: Vec<&str> = found.map(|found| found.as_str()).collect();
    let whole = commands.last().is_some_and(|last| line.ends_with(last));
    commands.extend((!whole).then_some(""));
    commands
}

/// Returns the name of the test program that a single command runs.
fn test_program(command: &str) -> Option<&'static str> {
    let found = TESTS.find(command)?.as_str();
    let mut programs = PROGRAMS.into_iter();
    programs.find(|name| found.contains(name) && !ONLY_LISTS.is_match(command))
}

/// Returns whether a line runs what a configured check runs: the same command, or the same test program.
pub fn runs_same(line: &str, check: &str) -> bool {
    let program = test_program(check);
    commands(line).iter().any(|command| {
        command.split_whitespace().eq(check.split_whitespace())
            || (program.is_some() && test_program(command) == program)
    })
}

/// Returns how the tests of a line ended, if it ran some; `checks` are the names and commands of the configured checks. The
/// exit code counts where it is that of the tests; elsewhere the summary in the output does.
pub fn test_run(
    line: &str,
    exit: Option<i32>,
    output: &str,
    checks: &[(String, String)],
) -> Option<TestRun> {
    let is_test = |command: &&str| {
        test_program(command).is_some() || checks.iter().any(|(_, check)| runs_same(command, check))
    };
    let commands = commands(line);
    commands.iter().find(|command| is_test(command))?;
    let exit = exit.filter(|_| commands.last().is_some_and(is_test));
    let output = output.to_lowercase();
    match (exit, failed(&output)) {
        (Some(126 | 127), _) => None,
        (Some(0), _) => Some(TestRun::Passed),
        (_, None | Some(false)) if NO_TESTS.is_match(&output) => None,
        (None, None) => Some(TestRun::Unknown),
        (None, Some(false)) => Some(TestRun::Passed),
        _ => Some(TestRun::Failed),
    }
}

/// Returns whether tests failed by a text in lower case that sums them up; `None` if it does not.
pub fn failed(text: &str) -> Option<bool> {
    let failed = FAILED.is_match(text);
    (failed || PASSED.is_match(text)).then_some(failed)
}

/// Returns whether a line changed one of the files that changed: `None` if its text does not show it.
pub fn changes(line: &str, changed: &[String]) -> Option<bool> {
    let line = ASIDE.replace_all(line, "");
    let is = |file: &str, name: &str| format!("/{file} ").contains(&format!("/{name} "));
    let mut written = WRITES.captures_iter(&line);
    if written.any(|found| changed.iter().any(|file| is(file, &found[1]))) {
        return Some(true);
    }
    let reads = |command: &&str| READS.is_match(command) || test_program(command).is_some();
    commands(&line).iter().all(reads).then_some(false)
}

#[cfg(test)]
mod tests;
