//! Tests that stand among the sources, found line by line: which of them a result removes, skips or changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex_lite::Regex;

use crate::plan::test_commands::patterns;
use crate::wire::one_line;

/// The most tests of the files before, and of those after.
const MOST: usize = 5_000;

/// The most characters of the names of each kind.
const NAMES: usize = 100;

patterns! {
    /// What compares or fails in a test.
    ASSERTION = r"assert|expect\(|fail\(|panic!|\.should";
    /// What ends a test, a mark for one, and whatever is skipped in front of it.
    DEFINITION = r"\b(fn|def|class|mod|impl|struct|describe|xdescribe|suite)\b";
    /// What begins or ends a comment or a text of several lines.
    LONG = r#"/\*|\*/|"""|'''"#;
}

/// How the tests of languages look: their files, what makes a function a test (nothing if its name does), the line that begins a
/// test, with its name, and what skips it: above it, around it or among its lines. Go has its tests in files of their own.
static LANGUAGES: LazyLock<[[Regex; 4]; 3]> = LazyLock::new(|| {
    let languages = [
        [
            r"\.rs$",
            r"#\[\s*(\w+::)*(test|rstest|test_case|quickcheck)\b",
            r"\bfn\s+(\w+)",
            r"#\[\s*(ignore\b|cfg\((any\(\)|FALSE|false)\)|cfg_attr\(.*\bignore\b)",
        ],
        [
            r"\.py$",
            "",
            r"^\s*(?:async\s+)?def\s+(test\w*)",
            r"@(\w+\.)*(skip|skipif|skipIf|skipUnless|xfail|expectedFailure)\b|\b(pytest\.skip|skipTest|SkipTest)\b",
        ],
        [
            r"\.[cm]?[jt]sx?$",
            "",
            r#"^\s*(?:[xf]?it|x?test)(?:\.\w+)*\(\s*['"`](.*?)['"`]"#,
            r"^\s*(xit|xtest|xdescribe|(it|test|describe|suite)(\.\w+)*\.(skip|todo))\b|\b(this|t)\.skip\(",
        ],
    ];
    languages.map(|texts| texts.map(|text| Regex::new(text).expect("a pattern")))
});

/// The path of a file, and its text.
type Source = (String, String);

/// A test among the sources.
struct InlineTest<'a> {
    path: &'a str,
    name: String,
    is_skipped: bool,
    /// Its lines, without blanks.
    text: String,
}

/// Returns whether files of this name may have tests among their sources.
pub fn may_have_tests(path: &str) -> bool {
    LANGUAGES.iter().any(|[files, ..]| files.is_match(path))
}

/// Returns which tests are lost in files, which are given with their paths, such as `removes adds; skips waits`. A test that has
/// moved to another file is still there.
pub fn lost<'a>(old: &'a [Source], new: &'a [Source]) -> String {
    let asserts = |test: &InlineTest<'a>| ASSERTION.find_iter(&test.text).count();
    // However they are spread over lines.
    let statements = |test: &InlineTest<'a>| -> BTreeSet<String> {
        let text = test.text.replace(",)", ")");
        let statements = text.split([';', '{', '}', '\n']);
        statements.map(str::to_owned).collect()
    };
    let all = |files: &'a [Source]| files.iter().flat_map(|(path, text)| tests(path, text));
    let mut now: BTreeMap<String, Vec<InlineTest<'_>>> = BTreeMap::new();
    for test in all(new).take(MOST) {
        now.entry(test.name.clone()).or_default().push(test);
    }
    let mut lost: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in all(old).take(MOST) {
        let known = now.entry(test.name.clone()).or_default();
        let differs = |is: &InlineTest<'_>| (is.path != test.path, is.text != test.text);
        let nearest = (0..known.len()).min_by_key(|at| differs(&known[*at]));
        let kind = match nearest.map(|at| known.swap_remove(at)) {
            None => "removes",
            Some(is) if is.is_skipped && !test.is_skipped => "skips",
            Some(is) if asserts(&is) < asserts(&test) => "weakens",
            Some(is) if !statements(&test).is_subset(&statements(&is)) => "changes",
            Some(_) => continue,
        };
        lost.entry(kind).or_default().push(test.name);
    }
    let list = |names: &[String]| one_line(&names.join(", "), NAMES);
    let said = lost.iter();
    let said = said.map(|(kind, names)| format!("{kind} {}", list(names)));
    said.collect::<Vec<_>>().join("; ")
}

/// Reads the tests of a file. A test has the lines that are indented deeper than its first one.
fn tests<'a>(path: &'a str, text: &str) -> Vec<InlineTest<'a>> {
    let mut tests: Vec<InlineTest<'a>> = Vec::new();
    let mut languages = LANGUAGES.iter();
    let language = languages.find(|[files, ..]| files.is_match(path));
    let Some([_, mark, begin, skip]) = language else {
        return tests;
    };
    let end = if path.ends_with(".rs") { "" } else { "\n" };
    let words_of = |line: &str| line.split_whitespace().collect::<String>() + end;
    let (mut open, mut skipped) = (None, Vec::new());
    let (mut is_marked, mut is_skipped) = (false, false);
    for line in code(text) {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if !words.starts_with([')', '}', ']']) {
            skipped.retain(|scope| *scope < indent);
            open = open.filter(|at| indent > *at);
        }
        if let Some(test) = tests.last_mut().filter(|_| open.is_some()) {
            test.is_skipped |= skip.is_match(line);
            test.text += &words_of(line);
            continue;
        }
        is_marked |= mark.is_match(line);
        is_skipped |= skip.is_match(line);
        let name = begin.captures(line).and_then(|found| found.get(1));
        if let Some(name) = name.filter(|_| is_marked) {
            let rest = Some(&line[name.end()..]).filter(|rest| ASSERTION.is_match(rest));
            tests.push(InlineTest {
                path,
                name: name.as_str().to_owned(),
                is_skipped: is_skipped || !skipped.is_empty(),
                text: rest.map(words_of).unwrap_or_default(),
            });
            open = Some(indent);
        } else if !DEFINITION.is_match(line) {
            continue;
        } else if is_skipped {
            skipped.push(indent);
        }
        (is_marked, is_skipped) = (false, false);
    }
    tests
}

/// Returns the lines of a source that are not empty and no comment.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = None;
    text.lines().filter(move |line| {
        let (words, was) = (line.trim(), inside);
        if LONG.find_iter(words).count() % 2 == 1 {
            // What begins in the middle of a line is no comment.
            let first = LONG.find(words).is_some_and(|at| at.start() == 0);
            inside = Some(first && !words.starts_with("*/")).filter(|_| was.is_none());
        }
        let ended = was.or(inside) != Some(true);
        let remark =
            words.starts_with("//") || (words.starts_with('#') && !words.starts_with("#["));
        ended && !remark && !words.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::testing::rows;

    const RUST: &str = "fn add() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n        assert!(true);\n    }\n\n    #[tokio::test]\n    async fn waits() {\n        let x = 1;\n        assert_eq!(x, add(\n            0,\n            1,\n        ));\n    }\n}\n";
    const PYTHON: &str = "def add(): pass\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(), 3)\n";
    const SCRIPT: &str = "if (import.meta.vitest) {\n  it('adds, well', () => {\n    expect(add()).toBe(3)\n  })\n}\n";

    #[test]
    fn lost_tests_are_named() {
        let table = r#"
            - | a.rs | - | -
            removes adds | a.rs |     #[test]\n | -
            weakens adds | a.rs | assert!(true); | -
            weakens adds | a.rs | assert!(true); | // assert!(true);
            changes adds | a.rs | 2), 3 | 2), 4
            changes waits | a.rs | x = 1 | x = 2
            skips waits | a.rs |     #[tokio |     #[ignore]\n    #[tokio
            skips adds, waits | a.rs | mod tests | #[cfg(any())]\nmod tests
            - | a.rs | add(\n            0,\n            1,\n        ) | add(0, 1)
            - | a.rs | x = 1; | x = 1;\n        assert!(x > 0);
            - | a.rs | fn add() {} | fn add() {}\nfn mul() {}
            removes test_add | a.py | test_add | _test_add
            skips test_add | a.py |     def |     @unittest.skip('x')\n    def
            skips test_add | a.py | class | @unittest.skip(\n    'x'\n)\nclass
            skips test_add | a.py | self.assert | self.skipTest('x')\n        self.assert
            weakens test_add | a.py | self.assertEqual(add(), 3) | pass
            removes test_add | a.py | class | """\nclass
            skips adds, well | a.ts | it( | it.skip(
            skips adds, well | a.ts | it( | xit(
            changes adds, well | a.ts | toBe(3) | toBe(4)
            - | a.txt | toBe(3) | -"#;
        for [said, path, from, to] in rows(table) {
            let text = match path.as_str() {
                "a.rs" => RUST,
                "a.py" => PYTHON,
                _ => SCRIPT,
            };
            let file = |text: String| [(path.clone(), text)];
            let new = file(text.replacen(&from, &to, usize::from(!from.is_empty())));
            let found = lost(&file(text.to_owned()), &new);
            assert_eq!(found, said, "{path}: {from} → {to}");
        }
    }

    #[test]
    fn moved_tests_are_still_there() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let old = [file("a.rs", RUST)];
        let moved = RUST.replace("\n    ", "\n        ");
        let new = [file("a.rs", "fn add() {}\n"), file("b.rs", &moved)];
        assert_eq!(lost(&old, &new), "");
        assert_eq!(lost(&old, &new[..1]), "removes adds, waits");
    }
}
