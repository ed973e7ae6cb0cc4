//! Which files judge a result, by their paths: tests, scripts of checks, and what configures only tests.

use regex_lite::Regex;

/// Files that judge: those in folders of such names, and files of such names in any folder.
const FILES: &str = r"(^|/)((tests?|__tests__|specs?|\.github|\.gitlab|\.circleci|\.?ci)/.*|test_[^/]*\.py|[^/]*_test\.(py|go|rs|exs|rb|dart|c|cc|cpp)|tests?\.(py|rs|sh)|[^/]*_tests\.rs|[^/]*\.(test|spec)\.[cm]?[jt]sx?|[^/]*_spec\.(rb|lua|js|ts)|[^/]*Tests?\.(java|kt|cs|swift|scala|groovy)|[^/]*Spec\.(scala|groovy|kt)|\.gitlab-ci\.yml|Jenkinsfile|azure-pipelines\.yml)$";

/// Files that configure only tests, or that a test runner loads before all others.
const CONFIGURATION: &str = r"(^|/)(conftest\.py|pytest\.ini|pytest\.toml|(site|user)customize\.py|\.cargo/config(\.toml)?|(jest|vitest)\.(config|workspace)\.[cm]?[jt]s(on)?|\.mocharc\.[a-z]+|(unittest|pytest|_pytest)(\.py|/.*))$";

/// Files of which a part may configure tests.
const MANIFESTS: &str = r"(^|/)(package\.json|pyproject\.toml|setup\.cfg|tox\.ini|Cargo\.toml|GNUmakefile|[Mm]akefile|build\.gradle(\.kts)?|go\.mod|composer\.json)$";

/// Shells, whose scripts hardly ever are what is checked, and other programs that run a script.
const SHELLS: &str = r"^(.*/)?(sh|bash|dash|zsh|source|\.)$";
const INTERPRETERS: &str = r"^(.*/)?(sh|bash|dash|zsh|python[\d.]*|node|ruby|perl)$";

/// Words of a shell before a command.
const BEFORE: &str = "^(!|if|then|else|do|while|exec|eval|time|env|.*=.*)$";

/// Tells which files of a project judge.
#[derive(Clone, Debug)]
pub struct JudgingFiles {
    files: Regex,
    configuration: Regex,
    manifests: Regex,
    protect: Vec<Regex>,
    may_change: Vec<Regex>,
    /// The programs and scripts that the commands of checks name.
    scripts: Vec<String>,
}

impl JudgingFiles {
    /// Takes the patterns of the person, and the command lines of the checks.
    pub fn new<'a>(
        protect: &[String],
        may_change: &[String],
        checks: impl Iterator<Item = &'a [String]>,
    ) -> Self {
        let patterns = |list: &[String]| list.iter().filter_map(|text| glob(text)).collect();
        Self {
            files: known(FILES),
            configuration: known(CONFIGURATION),
            manifests: known(MANIFESTS),
            protect: patterns(protect),
            may_change: patterns(may_change),
            scripts: checks.flat_map(scripts).collect(),
        }
    }

    /// Returns whether a file judges results.
    pub fn judges(&self, path: &str) -> bool {
        let is_judge = self.files.is_match(path)
            || self.scripts.iter().any(|script| script == path)
            || self.protect.iter().any(|pattern| pattern.is_match(path));
        is_judge && !self.may_change(path)
    }

    /// Returns whether a file only configures tests.
    pub fn configures(&self, path: &str) -> bool {
        self.configuration.is_match(path) && !self.may_change(path)
    }

    /// Returns whether a part of a file may configure tests.
    pub fn is_manifest(&self, path: &str) -> bool {
        self.manifests.is_match(path) && !self.may_change(path)
    }

    /// Returns the same with further patterns of files that agents may change.
    #[must_use]
    pub fn permitting(&self, may_change: &[String]) -> Self {
        let mut files = self.clone();
        (files.may_change).extend(may_change.iter().filter_map(|text| glob(text)));
        files
    }

    /// Returns whether agents may change a file, even one that judges.
    pub(super) fn may_change(&self, path: &str) -> bool {
        self.may_change.iter().any(|pattern| pattern.is_match(path))
    }
}

/// Returns what a command runs: its program, and the script that it gives to an interpreter; in a line for a shell those of each
/// command. Other words may name what is checked.
pub(super) fn scripts(argv: &[String]) -> Vec<String> {
    let [shells, interpreters, before] = [SHELLS, INTERPRETERS, BEFORE].map(known);
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let mut found = script(&words, &interpreters);
    let line = words.iter().position(|word| *word == "-c");
    let line = line.and_then(|at| words.get(at + 1)).unwrap_or(&"");
    for command in line.split([';', '&', '|', '(', ')', '{', '\n']) {
        let words = command.split_whitespace();
        let words = words.skip_while(|word| before.is_match(word));
        found.extend(script(&words.collect::<Vec<_>>(), &shells));
    }
    found
}

fn script(words: &[&str], interpreters: &Regex) -> Vec<String> {
    let Some((program, arguments)) = words.split_first() else {
        return Vec::new();
    };
    let mut arguments = arguments.iter().filter(|word| !word.starts_with('-'));
    let script = interpreters.is_match(program).then(|| arguments.next());
    let found = std::iter::once(program).chain(script.flatten());
    found
        .map(|word| word.trim_start_matches("./").to_owned())
        .collect()
}

pub(super) fn known(text: &str) -> Regex {
    Regex::new(text).expect("it is written above")
}

/// Reads a pattern: `*` and `?` stand for no `/`, `**` for anything; one without `/` is of names in any folder.
fn glob(pattern: &str) -> Option<Regex> {
    let mut text = match pattern.contains('/') {
        true => "^".to_owned(),
        false => "(^|/)".to_owned(),
    };
    let pattern = pattern.replace("**/", "\u{1}").replace("**", "\u{2}");
    for c in pattern.trim_start_matches('/').chars() {
        match c {
            '\u{1}' => text += "(.*/)?",
            '\u{2}' => text += ".*",
            '*' => text += "[^/]*",
            '?' => text += "[^/]",
            c => text += &regex_lite::escape(&c.to_string()),
        }
    }
    Regex::new(&(text + "$")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_judge_are_known_by_their_paths() {
        let argv = [
            "sh",
            "-c",
            "X=1 ./bin/check a.txt && ! bash -e sub/run; python3 app.py",
        ]
        .map(str::to_owned);
        let patterns = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (protect, may) = (
            patterns(&["*.golden", "data/**"]),
            patterns(&["tests/free/*"]),
        );
        let files = JudgingFiles::new(&protect, &may, std::iter::once(&argv[..]));
        for path in [
            "tests/a.rs",
            "src/deep/test_a.py",
            "a_test.go",
            "x.test.tsx",
            "AppTest.java",
            ".github/workflows/ci.yml",
            "bin/check",
            "sub/run",
            "x/y.golden",
            "data/a/b",
        ] {
            assert!(files.judges(path) && !files.configures(path), "{path}");
        }
        for path in [
            "src/a.rs",
            "contest.py",
            "latest.js",
            "tests/free/a.rs",
            "bin/other",
        ] {
            assert!(!files.judges(path) && !files.configures(path), "{path}");
        }
        for path in [
            "conftest.py",
            "a/conftest.py",
            ".cargo/config.toml",
            "jest.config.mjs",
            "vitest.config.ts",
            "unittest/__init__.py",
        ] {
            assert!(files.configures(path), "{path}");
        }
        assert!(files.is_manifest("web/package.json") && !files.is_manifest("a.json"));
    }
}
