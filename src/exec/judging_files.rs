//! Which files judge a result, by their paths: tests, scripts of checks, and what configures only tests.

use std::path::Path;

use regex_lite::Regex;

use crate::config::Config;
use crate::plan::test_commands::patterns;

patterns! {
    /// Files that judge: those in folders of such names, and files of such names in any folder.
    FILES = r"(?is)(^|/)((tests?|__tests__|test[_-]?data|__snapshots__|__mocks__|\.github|\.gitlab|\.circleci|\.?ci)/.*|test(|[^/i][^/]*|i|i[^/n][^/]*|in|in[^/g][^/]*)\.py|[^/]*_test\.(py|go|rs|exs|rb|dart|c|cc|cpp|sh)|test[_-][^/]*\.(c|cc|cpp|sh|pl|rb|lua|php)|[^/]*\.bats|t/.*\.t|tests?\.(py|rs|sh)|[^/]*_tests\.rs|([^/]*[._-])?(test|spec)\.[cm]?[jt]sx?|test-[^/]*\.[cm]?[jt]s|[^/]*_spec\.(rb|lua|js|ts)|specs?/.*\.(rb|py|lua|php|[cm]?[jt]sx?)|(?-i:[^/]*Tests?\.(java|kt|cs|swift|scala|groovy)|[^/]*Spec\.(scala|groovy|kt))|[^/]*\.(snap|golden)|\.gitlab-ci\.yml|Jenkinsfile|azure-pipelines\.yml)$";
    /// Files of which it is not known by their paths whether they judge: what tests compare with, or what the product reads.
    DATA = r"(?is)(^|/)(specs?|(__)?fixtures?(__)?|goldens?|expected)/.*$";
    /// Files that are not data.
    SOURCES = r"(?is)\.([a-z]*sh|rs|py|[cm]?[jt]sx?|go|java|kts?|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|lua|pl|html|css|vue|svelte|md)$";
    /// Files that configure only tests, or that a test runner loads before all others.
    CONFIGURATION = r"(?is)(^|/)(\.gitattributes|conftest\.py|pytest\.ini|pytest\.toml|(site|user)customize(\.py|/.*)|[^/]*\.(dist|egg)-info/.*|[^/]*\.pth|\.cargo/config(\.toml)?|(jest|vitest)\.(config|workspace)\.[cm]?[jt]s(on)?|\.mocharc\.[a-z]+|phpunit\.xml(\.dist)?|\.rspec|(karma|playwright|cypress)\.(conf|config)\.[cm]?[jt]s|(unittest|pytest|_pytest)(\.py|/.*)|node_modules/.*)$";
    /// What runners make of sources and tests, and take for these where it is there.
    CACHES = r"(?is)(^|/)(__pycache__/.*|[^/]*\.py[co]|target/(debug|release)/.*)$";
    /// Files that configure formatters and linters.
    LINTERS = r"(?is)(^|/)(\.?(rustfmt|clippy|ruff|taplo)\.toml|\.(eslint|prettier|stylelint|pylint|jshint|shellcheck)(rc|ignore)([._][^/]*)?|(eslint|prettier|stylelint)\.config\.[cm]?[jt]s|\.?(flake8|pylintrc|mypy\.ini|pyrightconfig\.json|golangci\.[a-z]+|rubocop\.yml)|biome\.jsonc?|\.clang-(format|tidy))$";
    /// Programs that make the files that they are told, unless these are there.
    MAKERS = r"^(.*/)?g?make$";
    /// Files of which a part may configure tests.
    MANIFESTS = r"(?is)(^|/)(package\.json|pyproject\.toml|setup\.(cfg|py)|tox\.ini|Cargo\.toml|(GNU)?makefile|[^/]*\.mk|build\.gradle(\.kts)?|go\.(mod|work)|composer\.json|\.?justfile|[^/]*\.just|pom\.xml|\.mvn/.*|Rakefile|[^/]*\.(rake|cmake|csproj|sbt)|Taskfile\.ya?ml|CMakeLists\.txt|CMakePresets\.json|meson\.build|mix\.exs|deno\.jsonc?|gradle\.properties|settings\.gradle(\.kts)?|\.npmrc|\.yarnrc(\.yml)?|bunfig\.toml|rust-toolchain(\.toml)?|\.config/nextest\.toml|vite\.config\.[cm]?[jt]s|\.babelrc|babel\.config\.[a-z]+)$";
    /// Shells, whose scripts hardly ever are what is checked, and other programs that run a script.
    SHELLS = r"^(.*/)?(sh|bash|dash|zsh|ksh|source|\.)$";
    INTERPRETERS = r"^(.*/)?(sh|bash|dash|zsh|ksh|python[\d.]*|node|tsx|bun|deno|ruby|perl|php|lua|run)$";
    /// The ending of a script.
    SCRIPT = r"\.(sh|py|[cm]?[jt]s|rb|pl)$";
    /// Words before a command.
    BEFORE = r"^(!|if|then|else|do|while|exec|eval|time|env|timeout|nice|nohup|command|-.*|[\d.]+[smhd]?|.*=.*)$";
    /// Programs that only read the files that they name, or the output of another program.
    READERS = r"^(.*/)?(\[+|test|[ef]?grep|rg|cat|diff|cmp|wc|head|tail|ls|sed|awk|jq|echo|printf)$";
    /// The option of a shell that a line comes with.
    LINE = "^-[a-z]*c$";
}

/// The endings of files that are loaded by a name without them.
const MODULES: [&str; 7] = [".py", ".js", ".cjs", ".mjs", ".ts", ".tsx", ".rb"];

/// What ends a command in a line for a shell.
const ENDS: [char; 8] = [';', '&', '|', '(', ')', '{', '`', '\n'];

/// Tells which files of a project judge.
#[derive(Clone, Debug)]
pub struct JudgingFiles {
    protect: Vec<Regex>,
    may_change: Vec<Regex>,
    named: NamedFiles,
}

/// What the commands of checks name, by paths from the workspace.
#[derive(Clone, Debug, Default)]
struct NamedFiles {
    /// What they run, as it is written.
    programs: Vec<String>,
    /// The programs and scripts that they run.
    scripts: Vec<String>,
    /// Those that they name with the path of the workspace, so that none but the one there runs.
    absolute: Vec<String>,
    /// What they have made, where it is not there.
    targets: Vec<String>,
    /// All other words, but for programs that only read: those that name an executable file may run it.
    words: Vec<String>,
}

impl JudgingFiles {
    /// Takes the workspace, and of the configuration the patterns of the person and the command lines of the checks.
    pub fn new(workspace: &Path, config: &Config) -> Self {
        let patterns = |list: &[String]| list.iter().filter_map(|text| glob(text)).collect();
        let mut named = NamedFiles::default();
        for check in config.checks.values().chain(&config.run.prepare) {
            named.read(workspace, &check.argv);
        }
        Self {
            protect: patterns(&config.run.protect),
            may_change: patterns(&config.run.may_change),
            named,
        }
    }

    /// Returns whether a file judges results.
    pub fn judges(&self, path: &str) -> bool {
        let is_judge = FILES.is_match(path)
            || self.named.scripts.iter().any(|script| script == path)
            || self.protect.iter().any(|pattern| pattern.is_match(path));
        is_judge && !self.may_change(path)
    }

    /// Returns whether a file has an ending of sources.
    pub fn is_source(path: &str) -> bool {
        SOURCES.is_match(path)
    }

    /// Returns whether a file is data with which tests compare, by where it is.
    pub fn is_data_of_tests(path: &str) -> bool {
        DATA.is_match(path) && !Self::is_source(path)
    }

    /// Returns whether a check may run a file, if it is executable.
    pub fn runs(&self, path: &str) -> bool {
        self.named.words.iter().any(|word| word == path) && !self.may_change(path)
    }

    /// Returns whether a check runs a file by its path in the workspace, so that what was there before cannot run.
    pub fn runs_in_place(&self, path: &str) -> bool {
        self.named.absolute.iter().any(|script| script == path) && !self.may_change(path)
    }

    /// Returns whether a command of a check has a word.
    pub fn names(&self, word: &str) -> bool {
        self.named.words.iter().any(|named| named == word)
    }

    /// Returns whether a file only configures tests, or would stand in for what a check makes.
    pub fn configures(&self, path: &str) -> bool {
        let made = || self.named.targets.iter().any(|target| target == path);
        let is_one = CONFIGURATION.is_match(path) || Self::is_cache(path) || made();
        is_one && !self.may_change(path)
    }

    /// Returns whether a file was made of sources or tests, and is made anew where they run.
    pub fn is_cache(path: &str) -> bool {
        CACHES.is_match(path)
    }

    /// Returns whether a file configures formatters or linters, which only checks of these read.
    pub fn configures_linters(path: &str) -> bool {
        LINTERS.is_match(path)
    }

    /// Returns the files that programs find where a new file is: a module of Python or a script that they would load, had it not
    /// the same name.
    pub fn hidden_by(path: &str) -> Vec<String> {
        let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let stem = if stem.ends_with('/') { path } else { stem };
        let stems = folders.chain([stem]);
        let files = stems.flat_map(|stem| MODULES.map(|end| format!("{stem}{end}")));
        files.filter(|file| file != path).collect()
    }

    /// Returns whether a part of a file may configure tests.
    pub fn is_manifest(&self, path: &str) -> bool {
        MANIFESTS.is_match(path) && !self.may_change(path)
    }

    /// Returns the same with further patterns of files that agents may change.
    #[must_use]
    pub fn permitting(&self, may_change: &[String]) -> Self {
        let mut files = self.clone();
        (files.may_change).extend(may_change.iter().filter_map(|text| glob(text)));
        files
    }

    /// Returns the same without any file that agents may change.
    #[must_use]
    pub fn without_permits(&self) -> Self {
        let may_change = Vec::new();
        Self {
            may_change,
            ..self.clone()
        }
    }

    /// Returns whether agents may change a file, even one that judges.
    pub(super) fn may_change(&self, path: &str) -> bool {
        self.may_change.iter().any(|pattern| pattern.is_match(path))
    }
}

/// Returns what a command runs, as it is written: its program, and the script that it gives to an interpreter; in a line for a
/// shell those of each command.
pub(super) fn scripts(argv: &[String]) -> Vec<String> {
    let mut named = NamedFiles::default();
    named.read(Path::new(""), argv);
    named.programs
}

impl NamedFiles {
    /// Reads what a check names: in its own words, and in a line for a shell in those of each command.
    fn read(&mut self, workspace: &Path, argv: &[String]) {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        self.command(workspace, "", &words, &INTERPRETERS);
        let line = words.iter().position(|word| LINE.is_match(word));
        let line = line.and_then(|at| words.get(at + 1)).unwrap_or(&"");
        let line = line.replace("||", ";");
        let mut commands = line.split_inclusive(ENDS).peekable();
        let mut folder = String::new();
        while let Some(command) = commands.next() {
            let words = |command: &'_ str| -> Vec<String> {
                let words = command.trim_end_matches(ENDS).split_whitespace();
                let words = words.map(|word| word.trim_matches(['"', '\'']).to_owned());
                words.filter(|word| !word.is_empty()).collect()
            };
            let next = commands.peek();
            let next = next.and_then(|next| words(next).first().cloned());
            // A script whose output another program judges is what is checked.
            let is_judged =
                command.ends_with('|') && next.is_some_and(|next| READERS.is_match(&next));
            let own = words(command);
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            if let ["cd", into, ..] = own[..] {
                folder = joined(&folder, into);
            }
            let runs: &Regex = if is_judged { &SHELLS } else { &INTERPRETERS };
            self.command(workspace, &folder, &own, runs);
        }
    }

    fn command(&mut self, workspace: &Path, folder: &str, words: &[&str], interpreters: &Regex) {
        let begin = words.iter().position(|word| !BEFORE.is_match(word));
        let words = &words[begin.unwrap_or(words.len())..];
        let Some(program) = words.first().copied() else {
            return;
        };
        let mut runs = vec![program.to_owned()];
        // What runs a script may stand behind another program.
        let places = words.iter().enumerate();
        for (at, _) in places.filter(|(_, word)| interpreters.is_match(word)) {
            let rest = &words[at + 1..];
            let is_option = |word: &&&str| word.starts_with('-');
            let options = rest.first().is_some_and(|word| is_option(&word));
            let module = rest.iter().position(|word| options && *word == "-m");
            if let Some(module) = module.and_then(|at| rest.get(at + 1)) {
                let module = module.replace('.', "/");
                let files = [".py", "/__main__.py", "/__init__.py"];
                runs.extend(files.map(|end| format!("{module}{end}")));
                continue;
            }
            let mut plain = rest.iter().filter(|word| !is_option(word));
            let first = plain.next();
            // The value of an option is no script.
            let second = plain.find(|word| options && SCRIPT.is_match(word));
            runs.extend(first.into_iter().chain(second).map(ToString::to_string));
        }
        self.programs.extend(runs.iter().cloned());
        for word in &runs {
            for path in [word.clone(), joined(folder, word)] {
                match inside(workspace, &path) {
                    Some(inside) if path.starts_with('/') => self.absolute.push(inside),
                    path => self.scripts.extend(path),
                }
            }
        }
        if MAKERS.is_match(program) {
            let with_value =
                |word: &&str| ["-f", "-C", "-I", "-j", "-l", "-o", "-W"].contains(word);
            let is_value = |at: usize| words.get(at).is_some_and(with_value);
            let words = words[1..].iter().enumerate().filter(|(at, word)| {
                !is_value(*at) && !word.starts_with('-') && !word.contains('=')
            });
            let words = words.map(|(_, word)| word);
            let targets = words.flat_map(|word| [(*word).to_owned(), joined(folder, word)]);
            self.targets.extend(targets);
        }
        if !READERS.is_match(program) {
            let named = words.iter();
            let named = named.flat_map(|word| [(*word).to_owned(), joined(folder, word)]);
            let inside = named.filter_map(|word| inside(workspace, &word));
            self.words.extend(inside);
        }
    }
}

/// Returns the path of a word in a folder.
fn joined(folder: &str, word: &str) -> String {
    match word.starts_with('/') || folder.is_empty() {
        true => word.to_owned(),
        false => format!("{folder}/{word}"),
    }
}

/// Returns the path from the workspace, without `.` and `..`; `None` outside.
fn inside(workspace: &Path, path: &str) -> Option<String> {
    let path = match Path::new(path).strip_prefix(workspace) {
        Ok(inside) => inside.to_str()?,
        Err(_) if path.starts_with('/') => return None,
        Err(_) => path,
    };
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Reads a pattern: `*` and `?` stand for no `/`, `**` for anything, every other character for itself. One without `/` within
/// is of names in any folder; one that does not end with `*` is also of all files in a folder of that name.
fn glob(pattern: &str) -> Option<Regex> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let name = pattern.strip_suffix('/').unwrap_or(pattern);
    let mut text = match name.contains('/') {
        true => "(?s)^".to_owned(),
        false => "(?s)(^|/)".to_owned(),
    };
    let end = match pattern.ends_with('*') {
        true => "$",
        false => "(/.*)?$",
    };
    let pattern = name.replace("**/", "\u{1}").replace("**", "\u{2}");
    for c in pattern.trim_start_matches('/').chars() {
        match c {
            '\u{1}' => text += "(.*/)?",
            '\u{2}' => text += ".*",
            '*' => text += "[^/]*",
            '?' => text += "[^/]",
            c => text += &regex_lite::escape(&c.to_string()),
        }
    }
    Regex::new(&(text + end)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CheckConfig;

    fn of(argv: &[&str]) -> JudgingFiles {
        let mut config = Config::default();
        config.run.protect = ["*.dat", "data/**", "cases/", "./lib/gold", "[id]"]
            .map(str::to_owned)
            .to_vec();
        config.run.may_change = vec!["tests/free/*".to_owned()];
        let check = CheckConfig {
            argv: argv.iter().map(ToString::to_string).collect(),
            ..CheckConfig::default()
        };
        config.checks.insert("check".to_owned(), check);
        JudgingFiles::new(Path::new("/w/p"), &config)
    }

    #[test]
    fn files_that_judge_are_known_by_their_paths() {
        let line = "X=1 ./bin/check a.txt && ! bash -e sub/run; python3 app.py | grep yes";
        let files = of(&["sh", "-c", line]);
        let judging = "tests/a.rs Tests/a.txt tests/a\u{fffd}\n.chk src/deep/test_a.py testcalc.py a_test.go \
            x.test.tsx calc-test.mjs AppTest.java a/testdata/b.txt a.golden __snapshots__/a \
            .github/workflows/ci.yml bin/check sub/run x/y.dat data/a/b a/cases/b/c lib/gold/a [id]/a spec/a_test.rb spec/help.rb";
        for path in judging.split(' ') {
            assert!(files.judges(path) && !files.configures(path), "{path}");
        }
        let others = "src/a.rs contest.py testing.py contest.java latest.js tests/free/a.rs a/lib/gold lib/golden \
             i/a bin/other app.py spec/api.json";
        for path in others.split(' ') {
            assert!(!files.judges(path) && !files.configures(path), "{path}");
        }
        let configuring = "conftest.py a/conftest.py sitecustomize/__init__.py x-1.dist-info/entry_points.txt \
            .cargo/config.toml jest.config.mjs vitest.config.ts unittest/__init__.py node_modules/.bin/jest";
        for path in configuring.split(' ') {
            assert!(files.configures(path), "{path}");
        }
        let manifests = "web/package.json GNUmakefile rules.mk .npmrc rust-toolchain.toml vite.config.ts justfile pom.xml .mvn/maven.config";
        for path in manifests.split(' ') {
            assert!(files.is_manifest(path), "{path}");
        }
        assert!(!files.is_manifest("a.json"));
    }

    #[test]
    fn scripts_are_known_by_the_commands_that_run_them() {
        for (argv, path) in [
            (&["./check"][..], "check"),
            (&["env", "X=1", "sh", "check.sh"], "check.sh"),
            (&["timeout", "-k", "5", "60", "sh", "check.sh"], "check.sh"),
            (&["timeout", "60", "./check"], "check"),
            (&["nice", "-n", "5", "./sub/../check"], "check"),
            (&["bash", "-lc", "sh check.sh"], "check.sh"),
            (&["python3", "-m", "a.verify"], "a/verify.py"),
            (&["python3", "-m", "verify"], "verify/__main__.py"),
            (&["python3", "-W", "ignore", "verify.py"], "verify.py"),
            (&["uv", "run", "verify.py"], "verify.py"),
            (&["sh", "-c", "python3 verify.py"], "verify.py"),
            (&["sh", "-c", "cd sub && sh ./check"], "sub/check"),
            (&["sh", "-c", "cd sub; bash -c \"sh ../check\""], "check"),
            (&["sh", "-c", "python3 verify.py || exit 1"], "verify.py"),
        ] {
            assert!(of(argv).judges(path), "{argv:?}");
        }
        for (argv, path) in [
            (&["grep", "-q", "x", "app.py"][..], "app.py"),
            (&["sh", "-c", "python3 app.py | diff a -"], "app.py"),
            (&["sh", "-c", "! grep -q TODO ./app"], "app"),
            (&["python3", "-m", "flake8", "app.py"], "app.py"),
            (&["ruff", "check", "app.py"], "app.py"),
        ] {
            let files = of(argv);
            assert!(!files.judges(path) && !files.is_manifest(path), "{argv:?}");
        }
        assert!(of(&["runner", "--with", "bin/it"]).runs("bin/it"));
        assert!(!of(&["grep", "-q", "x", "bin/it"]).runs("bin/it"));
        let absolute = of(&["sh", "/w/p/check.sh"]);
        assert!(absolute.runs_in_place("check.sh") && !absolute.runs_in_place("other.sh"));
    }
}
