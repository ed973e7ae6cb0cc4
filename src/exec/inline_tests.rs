//! Tests that stand among the sources, found line by line: which of them a result removes, skips or changes. What stands around
//! them is compared, too, as it decides what they say: modules and classes of tests, and the examples in documentation.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex_lite::Regex;

use crate::plan::test_commands::patterns;
use crate::plan::unless_empty;
use crate::wire::one_line;

/// The most tests of the files before, and of those after.
const MOST: usize = 5_000;

/// The most characters of the names of each kind.
const NAMES: usize = 100;

/// The name of the examples in the documentation of a file.
const EXAMPLES: &str = "examples";

patterns! {
    /// What compares or fails in a test.
    ASSERTION = r"assert|expect\(|fail\(|panic!|\.should";
    /// A statement without blanks that only adds to what a test compares.
    ADDITION = r"^(self\.)?((debug_)?assert\w*([!(]|[^\w=!(])|expect\()";
    /// What ends a test, a mark for one, and whatever is skipped in front of it.
    DEFINITION = r"\b(fn|def|class|mod|impl|struct|describe|xdescribe|suite)\b";
    /// What begins or ends a comment or a text of several lines.
    LONG = r#"/\*|\*/|"""|'''"#;
    /// A line of documentation in Rust.
    DOCUMENTATION = r"^\s*//[/!](.*)$";
}

/// How the tests of languages look: their files, what makes a function a test (nothing if its name does), the line that begins a
/// test, with its name, what skips it, above it, around it or among its lines, and what a module or a class of tests begins
/// with; and what makes tests say something else without a change of their text: assertions of one's own, a macro of which nothing
/// becomes, and what a runner does not load, or what it loads instead. Go has its tests in files of their own.
static LANGUAGES: LazyLock<[[Regex; 6]; 3]> = LazyLock::new(|| {
    let languages = [
        [
            r"\.rs$",
            r"#\[\s*(\w+::)*(test|rstest|test_case|quickcheck)\b",
            r"\bfn\s+(\w+)",
            r"#\[\s*(ignore\b|cfg\((any\(\)|FALSE|false)\)|cfg_attr\(.*\bignore\b)",
            r"#\[\s*cfg\((all\()?test\b",
            r"macro_rules!\s*((debug_)?assert(_eq|_ne)?|panic|matches|unreachable)\b|:tt\s*\)\s*[*+]?\s*\)?\s*=>\s*[\{\(]\s*[\}\)]",
        ],
        [
            r"\.py$",
            "",
            r"^\s*(?:async\s+)?def\s+(test\w*)",
            r"@(\w+\.)*(skip|skipif|skipIf|skipUnless|xfail|expectedFailure)\b|\b(pytest\.skip|skipTest|SkipTest)\b",
            r"^\s*class\b.*Test",
            r"(?m)^\s*def load_tests\b|\bload_tests\s*=|^del ",
        ],
        [
            r"\.[cm]?[jt]sx?$",
            "",
            r#"^\s*(?:[xf]?it|x?test)(?:\.\w+)*\(\s*['"`](.*?)['"`]"#,
            r"^\s*(xit|xtest|xdescribe|(it|test|describe|suite)(\.\w+)*\.(skip|todo))\b|\b(this|t)\.skip\(",
            r"^\s*(describe|suite)\b",
            r"(?m)^\s*(globalThis|global)\.(test|it|describe|expect|suite)\s*=[^=>]",
        ],
    ];
    languages.map(|texts| texts.map(|text| Regex::new(text).expect("a pattern")))
});

/// The path of a file, and its text.
type Source = (String, String);

/// A test among the sources, or what stands around tests.
#[derive(Default)]
struct InlineTest<'a> {
    path: &'a str,
    /// What it stands in, by its place among the tests of the file.
    within: Option<usize>,
    name: String,
    /// It is no test, but stands around tests.
    is_around: bool,
    is_skipped: bool,
    /// Its lines, without blanks.
    text: String,
}

impl InlineTest<'_> {
    /// Returns its statements, however they are spread over lines, with how often each is there.
    fn statements(&self) -> BTreeMap<String, usize> {
        let text = self.text.replace(",)", ")");
        let mut counts = BTreeMap::new();
        let statements = text.split([';', '{', '}', '\n']);
        for statement in statements.filter(|statement| !["", "()"].contains(statement)) {
            *counts.entry(statement.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Returns whether it is the same but for further comparisons. Examples may also be added to.
    fn is_in(&self, new: &Self) -> bool {
        let (old, now) = (self.statements(), new.statements());
        let count = |statement: &String| old.get(statement).copied().unwrap_or_default();
        // Without an import, it says the same if it compiles.
        let mut needed = old
            .iter()
            .filter(|(statement, _)| !statement.starts_with("use"));
        let kept = needed.all(|(statement, n)| now.get(statement).is_some_and(|now| now >= n));
        let mut more = now.iter().filter(|(statement, n)| **n > count(statement));
        kept && (self.name == EXAMPLES || more.all(|(statement, _)| ADDITION.is_match(statement)))
    }
}

/// Returns whether files of this name may have tests among their sources.
pub fn may_have_tests(path: &str) -> bool {
    LANGUAGES.iter().any(|[files, ..]| files.is_match(path))
}

/// Returns which tests are lost in files, which are given with their paths, such as `removes adds; skips waits`. A test that has
/// moved to another file is still there.
pub fn lost<'a>(old: &'a [Source], new: &'a [Source]) -> String {
    let asserts = |test: &InlineTest<'a>| ASSERTION.find_iter(&test.text).count();
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
        let found = nearest.map(|at| known.swap_remove(at));
        // In Python the last one of a name counts.
        let hides = |is: &InlineTest<'_>| {
            let beside =
                |other: &InlineTest<'_>| (other.path, other.within) == (is.path, is.within);
            is.path.ends_with(".py") && known.iter().any(beside)
        };
        let kind = match &found {
            None if test.is_around => continue,
            None => "removes",
            Some(is) if is.is_skipped && !test.is_skipped => "skips",
            Some(is) if asserts(is) < asserts(&test) => "weakens",
            Some(is) if !test.is_in(is) => "changes",
            Some(is) if hides(is) => "hides",
            Some(_) => continue,
        };
        lost.entry(kind).or_default().push(test.name);
    }
    let list = |names: &[String]| one_line(&names.join(", "), NAMES);
    let said = lost.iter();
    let said = said.map(|(kind, names)| format!("{kind} {}", list(names)));
    said.collect::<Vec<_>>().join("; ")
}

/// Returns what in sources that do not judge turns tests off, and was not there before, such as `turns tests off with "del"`.
pub fn turns_off(old: &[Source], new: &[Source]) -> String {
    let before = turning_off(old);
    let mut now = turning_off(new);
    for was in before {
        if let Some(at) = now.iter().position(|is| *is == was) {
            now.remove(at);
        }
    }
    let now: Vec<String> = now.iter().map(|found| format!("`{found}`")).collect();
    unless_empty(&now.join(", "), |now| {
        format!("turns tests off with {}", one_line(now, NAMES))
    })
}

fn turning_off(sources: &[Source]) -> Vec<&str> {
    let mut all = Vec::new();
    for (path, text) in sources {
        for [files, .., pattern] in &*LANGUAGES {
            if files.is_match(path) {
                all.extend(pattern.find_iter(text).map(|found| found.as_str().trim()));
            }
        }
    }
    all
}

/// Reads the tests of a file, and what stands around them. A test has the lines that are indented deeper than its first one.
fn tests<'a>(path: &'a str, text: &str) -> Vec<InlineTest<'a>> {
    let mut tests: Vec<InlineTest<'a>> = Vec::new();
    let mut languages = LANGUAGES.iter();
    let language = languages.find(|[files, ..]| files.is_match(path));
    let Some([_, mark, begin, skip, around, _]) = language else {
        return tests;
    };
    let is_rust = path.ends_with(".rs");
    let words_of = |line: &str| {
        let end = if is_rust { "" } else { "\n" };
        line.split_whitespace().collect::<String>() + end
    };
    let (mut open, mut skipped) = (None, Vec::new());
    let (mut is_marked, mut is_skipped, mut is_around) = (false, false, false);
    // The places of what stands around tests, with its indent; and the attributes above the next line.
    let (mut within, mut above) = (Vec::<(usize, usize)>::new(), String::new());
    for line in code(text) {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if !words.starts_with([')', '}', ']']) {
            skipped.retain(|scope| *scope < indent);
            within.retain(|(scope, _)| *scope < indent);
            open = open.filter(|at| indent > *at);
        }
        if let Some(test) = tests.last_mut().filter(|_| open.is_some()) {
            test.is_skipped |= skip.is_match(line);
            test.text += &words_of(line);
            continue;
        }
        is_marked |= mark.is_match(line);
        is_skipped |= skip.is_match(line);
        is_around |= around.is_match(line);
        let inner = within.last().map(|(_, at)| *at);
        let name = begin.captures(line).and_then(|found| found.get(1));
        let new = |name: &str, is_around, text: String| InlineTest {
            path,
            within: inner,
            name: name.to_owned(),
            is_around,
            is_skipped: is_skipped || !skipped.is_empty(),
            text,
        };
        if let Some(name) = name.filter(|_| is_marked) {
            let rest = Some(&line[name.end()..]).filter(|rest| ASSERTION.is_match(rest));
            let text = std::mem::take(&mut above) + &rest.map(words_of).unwrap_or_default();
            tests.push(new(name.as_str(), false, text));
            open = Some(indent);
        } else if words.starts_with(['@', '#']) {
            above += &(words_of(line).trim_end().to_owned() + "\n");
            continue;
        } else if is_around && DEFINITION.is_match(line) {
            // Where a module of Rust begins, and where its file is, says nothing.
            let (name, text) = match is_rust {
                true => (words.trim_end_matches([' ', '{', ';']), String::new()),
                false => (
                    words.split(['(', ':']).next().unwrap_or_default(),
                    words_of(line),
                ),
            };
            within.push((indent, tests.len()));
            tests.push(new(name, true, std::mem::take(&mut above) + &text));
        } else {
            if let Some(at) = inner {
                tests[at].text += &(std::mem::take(&mut above) + &words_of(line));
            }
            if !DEFINITION.is_match(line) {
                continue;
            }
            above.clear();
        }
        if is_skipped && open != Some(indent) {
            skipped.push(indent);
        }
        (is_marked, is_skipped, is_around) = (false, false, false);
    }
    let text = Some(examples(text)).filter(|text| is_rust && !text.is_empty());
    tests.extend(text.map(|text| InlineTest {
        path,
        name: EXAMPLES.to_owned(),
        text,
        ..InlineTest::default()
    }));
    tests
}

/// Returns the lines of the examples in documentation, with what they begin and end with.
fn examples(text: &str) -> String {
    let mut within = false;
    let lines = text.lines().filter_map(|line| {
        let words = DOCUMENTATION.captures(line)?.get(1)?.as_str().trim();
        let is_fence = words.starts_with("```");
        within ^= is_fence;
        (within || is_fence).then(|| words.split_whitespace().collect::<String>() + "\n")
    });
    lines.collect()
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

    const RUST: &str = "/// ```\n/// assert!(add());\n/// ```\nfn add() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n        assert!(true);\n    }\n\n    #[tokio::test]\n    async fn waits() {\n        let x = 1;\n        assert_eq!(x, add(\n            0,\n            1,\n        ));\n    }\n}\n";
    const PYTHON: &str = "def add(): pass\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(), 3)\n";
    const SCRIPT: &str = "if (import.meta.vitest) {\n  it('adds, well', () => {\n    expect(add()).toBe(3)\n  })\n}\n";

    #[test]
    fn lost_tests_are_named() {
        let table = r#"
            - | a.rs | - | -
            changes mod tests; removes adds | a.rs |     #[test]\n | -
            weakens adds | a.rs | assert!(true); | -
            weakens adds | a.rs | assert!(true); | // assert!(true);
            changes adds | a.rs | 2), 3 | 2), 4
            changes waits | a.rs | x = 1 | x = 2
            skips waits | a.rs |     #[tokio |     #[ignore]\n    #[tokio
            skips mod tests, adds, waits | a.rs | mod tests | #[cfg(any())]\nmod tests
            - | a.rs | add(\n            0,\n            1,\n        ) | add(0, 1)
            - | a.rs | x = 1; | x = 1;\n        assert!(x > 0);
            - | a.rs | fn add() {} | fn add() {}\nfn mul() {}
            changes adds | a.rs | assert_eq!(add(1 | return;\n        assert_eq!(add(1
            changes waits | a.rs |     #[tokio |     #[should_panic]\n    #[tokio
            changes mod tests | a.rs | mod tests { | mod tests {\n    fn add() {}
            changes mod tests | a.rs | mod tests { | mod tests {\n    const X: u8 = 1;
            - | a.rs |     #[tokio |     #[test]\n    fn more() {\n        let y = 1;\n        assert!(y > 0);\n    }\n\n    #[tokio
            changes examples | a.rs | assert!(add()) | assert!(!add())
            changes examples | a.rs | /// ```\n | /// ```no_run\n
            - | a.rs | fn add | /// ```\n/// b();\n/// ```\nfn b() {}\nfn add
            changes class T; removes test_add | a.py | test_add | _test_add
            skips test_add | a.py |     def |     @unittest.skip('x')\n    def
            skips class T, test_add | a.py | class | @unittest.skip(\n    'x'\n)\nclass
            skips test_add | a.py | self.assert | self.skipTest('x')\n        self.assert
            changes test_add | a.py | self.assert | return\n        self.assert
            changes test_add | a.py | self.assert | self.assertEqual = print\n        self.assert
            changes class T | a.py |     def test_add |     def setUp(self):\n        self.x = 1\n\n    def test_add
            changes class T | a.py | (unittest.TestCase) | (OtherTests)
            hides test_add | a.py | 3)\n | 3)\n\n    def test_add(self):\n        self.assertEqual(add(), 3)\n
            - | a.py | 3)\n | 3)\n\nclass OtherTest(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(), 3)\n
            weakens test_add | a.py | self.assertEqual(add(), 3) | pass
            removes test_add | a.py | class | """\nclass
            skips adds, well | a.ts | it( | it.skip(
            skips adds, well | a.ts | it( | xit(
            changes adds, well | a.ts | toBe(3) | toBe(4)
            turns tests off with `macro_rules! assert_eq` | a.rs | fn add() {} | fn add() {}\nmacro_rules! assert_eq { ($a:expr, $b:expr) => {} }
            turns tests off with `:tt)*) => {}` | a.rs | fn add() {} | fn add() {}\nmacro_rules! keep { ($($t:tt)*) => {} }
            turns tests off with `def load_tests` | a.py | def add | def load_tests(a, b, c): pass\ndef add
            turns tests off with `del` | a.py | 3)\n | 3)\n\ndel T\n
            turns tests off with `global.it =` | a.ts | if (import | global.it = () => {}\nif (import
            - | a.ts | if (import | test = false\nif (import
            - | a.txt | toBe(3) | -"#;
        for [said, path, from, to] in rows(table) {
            let text = match path.as_str() {
                "a.rs" => RUST,
                "a.py" => PYTHON,
                _ => SCRIPT,
            };
            let file = |text: String| [(path.clone(), text)];
            let new = file(text.replacen(&from, &to, usize::from(!from.is_empty())));
            let old = file(text.to_owned());
            let found = lost(&old, &new) + &turns_off(&old, &new);
            assert_eq!(found, said, "{path}: {from} → {to}");
        }
    }

    #[test]
    fn moved_tests_are_still_there() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let old = [file("a.rs", RUST)];
        let moved = RUST.replace("\n    ", "\n        ");
        let new = [
            file(
                "a.rs",
                "/// ```\n/// assert!(add());\n/// ```\nfn add() {}\n",
            ),
            file("b.rs", &moved),
        ];
        assert_eq!(lost(&old, &new), "");
        assert_eq!(lost(&old, &new[..1]), "removes adds, waits");
    }
}
