//! The tests of a project, offered as checks when a plan first works on it: asked once, run once, and taken only if their
//! output shows that a test ran, even one that fails now. Nothing of a project runs before a person says so.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tempfile::NamedTempFile;

use super::{App, Result, can_ask, complain, confirm, shown_from_here};
use crate::bounded_read;
use crate::config::{CheckConfig, Config, FILE_NAME};
use crate::exec;
use crate::own_files;
use crate::plan::counted;
use crate::wire::{joined, one_line};

/// How long the tests may take when they are tried.
const TRIAL: Duration = Duration::from_secs(300);

/// The most bytes of a project's file that are looked at.
const MOST: usize = 256 * 1024;

/// Said before a run, so that its results are not taken for proven.
const UNCHECKED: &str =
    "! no check is set: a result is only believed, unless the plan itself says what proves it";

impl App {
    /// Offers the tests of a project as checks, unless checks are configured or were declined. Without a person only says
    /// which there are.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub(super) async fn offer_checks(&mut self, project: &Path, may_ask: bool) -> Result {
        let path = match self.config.file() {
            Some(file) => file.to_owned(),
            None => self.config.folder().join(FILE_NAME),
        };
        // What is no plain file cannot be added to, and to read a pipe again would wait for ever.
        if path.exists() && !path.is_file() {
            return Ok(());
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let has = |starts: &[&str]| {
            let mut lines = text.lines().map(str::trim_start);
            lines.any(|line| starts.iter().any(|start| line.starts_with(start)))
        };
        let found = found(project);
        if !self.config.checks.is_empty() {
            return Ok(());
        }
        if has(&["checks", "[checks.", "run.checks"]) || found.is_empty() {
            if may_ask && can_ask() {
                complain!("{UNCHECKED}");
            }
            return Ok(());
        }
        let line = |check: &CheckConfig| format!("`{}`", check.argv.join(" "));
        let all = joined(found.iter().map(line), ", ");
        // Checks are those of the whole project, and run at its top.
        let (top, own) = (self.config.home().outer(), self.config.folder());
        let below = project != top && project.starts_with(top) && !project.starts_with(own);
        if below || !(may_ask && can_ask()) || has(&["run.", "run "]) {
            complain!("{UNCHECKED}; this project has {all}: see [checks] in config.toml");
            return Ok(());
        }
        let ask = "Run it now, and as a check of every task from now on?";
        let mut taken = BTreeMap::new();
        if confirm(&format!("This project has {all}. {ask}")).await? {
            for check in found {
                if let Some(check) = tried(check, project).await {
                    taken.insert(check.name.clone(), check);
                }
            }
        }
        let names: Vec<&String> = taken.keys().collect();
        let lines = taken.values().map(|check| {
            let (name, argv, env) = (&check.name, &check.argv, &check.env);
            format!("{name} = {{ run = {argv:?}, env = {env:?} }}\n")
        });
        let lines: String = lines.collect();
        let text = with_lines(&text, "[run]", &format!("checks = {names:?}\n"));
        let text = with_lines(&text, "[checks]", &lines);
        self.make_home()?;
        replace(&path, &text).with_context(|| format!("failed to write `{}`", path.display()))?;
        self.config = Config::load(Some(&path), &self.environment)?;
        let kept = self.confirm_as_it_is();
        kept.context("failed to keep what was confirmed")?;
        let shown = shown_from_here(&path);
        match taken.is_empty() {
            true => complain!(
                "{UNCHECKED}\n`checks = []` is kept in `{shown}`: you are not asked again"
            ),
            false => complain!("kept in `{shown}`"),
        }
        Ok(())
    }
}

/// Adds lines to a section, or the section with them. What a person wrote stays word for word.
fn with_lines(text: &str, section: &str, lines: &str) -> String {
    let mut lines = Some(lines);
    let mut all = String::new();
    for line in text.split_inclusive('\n') {
        all += line;
        if line.trim_start().starts_with(section) && line.ends_with('\n') {
            all += lines.take().unwrap_or_default();
        }
    }
    lines.map_or(all, |lines| format!("{text}\n{section}\n{lines}"))
}

/// Writes a file anew, in one step; never through a link.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let old = own_files::file(OpenOptions::new().append(true).create(true), path)?;
    let mut new = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    new.write_all(text.as_bytes())?;
    let permissions = old.metadata()?.permissions();
    new.as_file().set_permissions(permissions)?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns the check if its output shows that a test ran; else says what came of it. A test may fail: to make it pass may be
/// what the plan is for.
async fn tried(check: CheckConfig, project: &Path) -> Option<CheckConfig> {
    let line = check.argv.join(" ");
    complain!("running `{line}` once …");
    let trial = CheckConfig {
        timeout: TRIAL,
        ..check.clone()
    };
    let result = exec::check(&trial, project).await;
    let outcome = result.outcome();
    if let Some(tests) = result.tests.filter(|tests| *tests > 0) {
        let now = match (result.passed, exec::tests_failed(&result.tail)) {
            (true, _) => String::new(),
            (false, Some(1)) => ", 1 fails now".to_owned(),
            (false, Some(failed @ 2..)) => format!(", {failed} fail now"),
            (false, _) => format!(", and it fails now ({outcome})"),
        };
        let ran = counted(tests, "test");
        complain!("`{line}` is a check from now on: {ran} ran{now}");
        return Some(check);
    }
    let why = match result.passed {
        true => "its output shows no test that ran".to_owned(),
        false => {
            let last = result.tail.trim_end().lines().next_back();
            format!("{outcome}, {}", one_line(last.unwrap_or_default(), 200))
        }
    };
    complain!("`{line}` is no check: {why}");
    None
}

/// Returns the tests that a project has, by the files of its tools.
fn found(project: &Path) -> Vec<CheckConfig> {
    let read = |name: &str| bounded_read::read_file(&project.join(name), MOST).unwrap_or_default();
    let there = |name: &str| project.join(name).is_file();
    let package: serde_json::Value =
        serde_json::from_str(&read("package.json")).unwrap_or_default();
    let script = package["scripts"]["test"].as_str().unwrap_or_default();
    let pytest = there("pytest.ini")
        || there("conftest.py")
        || there("tests/conftest.py")
        || read("pyproject.toml").contains("[tool.pytest")
        || read("setup.cfg").contains("[tool:pytest]");
    let mut makefiles = ["Makefile", "makefile", "GNUmakefile"].into_iter();
    let make = makefiles.any(|name| read(name).lines().any(|line| line.starts_with("test:")));
    let tests = fs::read_dir(project.join("tests"));
    let tests = tests.into_iter().flatten().flatten();
    let mut tests = tests.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let unittest = tests.any(|name| name.starts_with("test") && name.ends_with(".py"));
    let npm = !script.is_empty() && !script.contains("no test specified");
    let (cargo, unittest) = (there("Cargo.toml"), unittest && !pytest);
    // What they would write beside the sources, the person has not asked for: it would be in no commit.
    let discover = "python3 -B -m unittest discover tests";
    let run_pytest = "python3 -B -m pytest -p no:cacheprovider";
    let known = [
        (cargo, "cargo", "cargo test", "CARGO_HOME RUSTUP_HOME"),
        (npm, "npm", "npm test", ""),
        (pytest, "pytest", run_pytest, "VIRTUAL_ENV"),
        (unittest, "unittest", discover, "VIRTUAL_ENV"),
        (there("go.mod"), "go", "go test ./...", "GOPATH GOCACHE"),
    ];
    let words = |text: &str| Vec::from_iter(text.split_whitespace().map(str::to_owned));
    let check = |(_, name, argv, env): (bool, &str, &str, &str)| CheckConfig {
        name: name.to_owned(),
        argv: words(argv),
        timeout: TRIAL,
        env: words(env),
        ..CheckConfig::default()
    };
    let present = known.into_iter().filter(|(there, ..)| *there);
    let mut found: Vec<CheckConfig> = present.map(check).collect();
    // Where a tool is known, `make test` most likely calls it.
    if found.is_empty() && make {
        found.push(check((true, "make", "make test", "")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_to_a_section() {
        for (text, expected) in [
            ("", "\n[run]\nx = 1\n"),
            (
                "[run]\nsession = 'plan'\n",
                "[run]\nx = 1\nsession = 'plan'\n",
            ),
            ("a = 1\n  [run] # mine\n", "a = 1\n  [run] # mine\nx = 1\n"),
            (
                "[worker]\nretries = 1",
                "[worker]\nretries = 1\n[run]\nx = 1\n",
            ),
        ] {
            assert_eq!(with_lines(text, "[run]", "x = 1\n"), expected);
        }
    }

    #[test]
    fn tests_of_a_project_are_found_by_its_files() {
        for (files, names) in [
            (
                &[("Cargo.toml", ""), ("Makefile", "test:\n")][..],
                &["cargo"][..],
            ),
            (
                &[
                    ("package.json", r#"{"scripts":{"test":"node --test"}}"#),
                    ("go.mod", ""),
                ],
                &["npm", "go"],
            ),
            (
                &[(
                    "package.json",
                    r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#,
                )],
                &[],
            ),
            (
                &[("pyproject.toml", "[tool.pytest.ini_options]\n")],
                &["pytest"],
            ),
            (&[("pyproject.toml", "[project]\n")], &[]),
            (&[("tests/test_wc.py", "")], &["unittest"]),
            (&[("tests/test_wc.py", ""), ("pytest.ini", "")], &["pytest"]),
            (&[("Makefile", "all:\n\ntest: all\n")], &["make"]),
            (&[("Makefile", "all:\n")], &[]),
        ] {
            let project = tempfile::tempdir().unwrap();
            fs::create_dir(project.path().join("tests")).unwrap();
            for (name, text) in files {
                fs::write(project.path().join(name), text).unwrap();
            }
            let found = found(project.path());
            let found: Vec<&str> = found.iter().map(|check| check.name.as_str()).collect();
            assert_eq!(found, names, "{files:?}");
        }
    }

    #[tokio::test]
    async fn trial_leaves_nothing_in_the_project() {
        let project = tempfile::tempdir().unwrap();
        let tests = project.path().join("tests");
        fs::create_dir(&tests).unwrap();
        let test = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n";
        fs::write(tests.join("test_it.py"), test).unwrap();
        let check = found(project.path()).remove(0);
        assert!(tried(check, project.path()).await.is_some());
        assert_eq!(fs::read_dir(&tests).unwrap().count(), 1);
    }
}
