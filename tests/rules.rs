//! The rules of the documents in `ARCHITECTURE.md` name their tests: each of them is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::layers::files;

#[test]
fn every_rule_names_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, rules) = text
        .split_once("\n## 8. Rules")
        .expect("the section of rules");
    let sources: String = ["src", "tests"]
        .iter()
        .flat_map(|folder| files(&root.join(folder)))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let tests = tests(&sources);
    let rows: Vec<&str> = rules
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| |"))
        .collect();
    assert!(rows.len() > 200, "{} rules", rows.len());
    for row in rows {
        let named = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let named: Vec<&str> = named
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| word.len() > 12 && word.contains('_'))
            .collect();
        assert!(!named.is_empty(), "no test: {row}");
        for name in named {
            assert!(tests.contains(name), "there is no test `{name}`: {row}");
        }
    }
}

/// Returns the names of the functions that run as tests: those with an attribute for it, and those of `proptest!` that have
/// the same one.
fn tests(sources: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = sources.lines().map(str::trim).collect();
    let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    let mut tests = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let signature = line.strip_prefix("pub ").unwrap_or(line);
        let signature = signature.strip_prefix("async ").unwrap_or(signature);
        let Some(rest) = signature.strip_prefix("fn ") else {
            continue;
        };
        let above = lines[..at].iter().rev();
        let attributed = above
            .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
            .copied()
            .any(is_test);
        if attributed {
            tests.extend(rest.split(['(', '<']).next());
        }
    }
    tests
}

#[test]
fn a_function_without_the_attribute_is_no_test() {
    let sources =
        "#[test]\n#[cfg(unix)]\nfn one() {}\n\nfn two() {}\n#[tokio::test]\nasync fn three() {}\n";
    assert_eq!(tests(sources), BTreeSet::from(["one", "three"]));
}
