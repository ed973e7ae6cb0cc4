//! Which files judge a result, by their paths: tests, scripts of checks, and what configures only tests.

use regex_lite::Regex;

/// Folders of files that judge.
const FOLDERS: [&str; 10] = [
    "test",
    "tests",
    "__tests__",
    "spec",
    "specs",
    ".github",
    ".gitlab",
    ".circleci",
    ".ci",
    "ci",
];

/// Files that judge, in any folder.
const FILES: &str = r"^(test_.*\.py|.*_test\.(py|go|rs|exs|rb|dart|c|cc|cpp)|tests?\.(py|rs|sh)|.*_tests\.rs|.*\.(test|spec)\.[cm]?[jt]sx?|.*_spec\.(rb|lua|js|ts)|.*Tests?\.(java|kt|cs|swift|scala|groovy)|.*Spec\.(scala|groovy|kt)|\.gitlab-ci\.yml|Jenkinsfile|azure-pipelines\.yml)$";

/// Files that configure only tests, or that a test runner loads before all others.
const CONFIGURATION: &str = r"(^|/)(conftest\.py|pytest\.ini|pytest\.toml|(site|user)customize\.py|\.cargo/config(\.toml)?|(jest|vitest)\.(config|workspace)\.[cm]?[jt]s(on)?|\.mocharc\.[a-z]+|(unittest|pytest|_pytest)(\.py|/.*))$";

/// Files of which a part may configure tests.
const MANIFESTS: &str = r"^(package\.json|pyproject\.toml|setup\.cfg|tox\.ini|Cargo\.toml|GNUmakefile|[Mm]akefile|build\.gradle(\.kts)?|go\.mod|composer\.json)$";

/// Tells which files of a project judge.
#[derive(Debug)]
pub struct JudgingFiles {
    files: Regex,
    configuration: Regex,
    manifests: Regex,
    protect: Vec<Regex>,
    may_change: Vec<Regex>,
    /// The words of the commands of checks.
    words: Vec<String>,
}

impl JudgingFiles {
    /// Takes the patterns of the person, and the command lines of the checks.
    pub fn new<'a>(
        protect: &[String],
        may_change: &[String],
        checks: impl Iterator<Item = &'a [String]>,
    ) -> Self {
        let known = |text: &str| Regex::new(text).expect("it is written above");
        let patterns = |list: &[String]| list.iter().filter_map(|text| glob(text)).collect();
        let words = checks.flatten().flat_map(|part| {
            let split = part.split(|c: char| c.is_whitespace() || ";&|()'\"=".contains(c));
            split.map(|word| word.trim_start_matches("./").to_owned())
        });
        Self {
            files: known(FILES),
            configuration: known(CONFIGURATION),
            manifests: known(MANIFESTS),
            protect: patterns(protect),
            may_change: patterns(may_change),
            words: words.filter(|word| !word.is_empty()).collect(),
        }
    }

    /// Returns whether a file judges results.
    pub fn judges(&self, path: &str) -> bool {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_judge = folders.split('/').any(|folder| FOLDERS.contains(&folder))
            || self.files.is_match(name)
            || self.words.iter().any(|word| word == path)
            || self.protect.iter().any(|pattern| pattern.is_match(path));
        is_judge && !self.may_change(path)
    }

    /// Returns whether a file only configures tests.
    pub fn configures(&self, path: &str) -> bool {
        self.configuration.is_match(path) && !self.may_change(path)
    }

    /// Returns whether a part of a file may configure tests.
    pub fn is_manifest(&self, path: &str) -> bool {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        self.manifests.is_match(name) && !self.may_change(path)
    }

    fn may_change(&self, path: &str) -> bool {
        self.may_change.iter().any(|pattern| pattern.is_match(path))
    }
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
        let argv = ["sh", "-c", "./bin/check && make all"].map(str::to_owned);
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
