//! The tables below `tests/conformance` name a test for each rule of the documents: this checks that each of them exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::layers::files;

#[test]
fn every_rule_names_an_existing_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = sources(root);
    let tests = tests(&sources);
    let mut rules = 0;
    for (file, row) in rows(&root.join("tests/conformance")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [.., test] = cells[..] else {
            panic!("{file}: a row without cells: {row}");
        };
        let named: Vec<&str> = words(test)
            .filter(|word| word.len() > 12 && word.contains('_'))
            .collect();
        assert!(!named.is_empty(), "{file}: no test: {row}");
        for name in named {
            assert!(tests.contains(name), "{file}: no test `{name}`: {row}");
        }
        let quoted = row.split('`').skip(1).step_by(2);
        for path in quoted.filter(|quoted| quoted.contains("::")) {
            assert!(is_defined(&sources, path), "{file}: no `{path}`: {row}");
        }
        rules += 1;
    }
    assert!(rules > 200, "{rules} rules");
}

/// Returns each row of the tables below a folder, with the name of its file.
fn rows(folder: &Path) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let heads = lines.iter().position(|line| line.starts_with("|---"));
        let head = heads.unwrap_or_else(|| panic!("{name}: no table"));
        let table = lines[head + 1..].iter();
        rows.extend(table.map(|row| (name.clone(), (*row).to_owned())));
    }
    rows
}

/// Returns the text of every source file of the crate and of its tests.
fn sources(root: &Path) -> String {
    ["src", "tests"]
        .iter()
        .flat_map(|folder| files(&root.join(folder)))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

/// Returns whether the sources define the last name of a path: a function, a type, a module or a public field.
fn is_defined(sources: &str, path: &str) -> bool {
    let name = path.rsplit("::").next().unwrap_or_default();
    let heads =
        ["fn ", "struct ", "enum ", "trait ", "mod ", "pub "].map(|kind| format!("{kind}{name}"));
    heads.iter().any(|head| {
        sources.match_indices(head).any(|(at, _)| {
            let next = sources[at + head.len()..].chars().next();
            next.is_some_and(|c| "(<: {;".contains(c))
        })
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Returns the names of the functions that run as tests: those with an attribute for it, and those of `proptest!` that have
/// the same one; and the names of the cases of tables, which stand as `== NAME: GIVEN`.
fn tests(sources: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = sources.lines().map(str::trim).collect();
    let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    let mut tests = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some((case, _)) = line
            .strip_prefix("== ")
            .and_then(|case| case.split_once(": "))
        {
            tests.insert(case);
        }
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
fn function_without_attribute_is_no_test() {
    let sources = "#[test]\n#[cfg(unix)]\nfn one() {}\n\nfn two() {}\n#[tokio::test]\nasync fn three() {}\n== four: x\n";
    assert_eq!(tests(sources), BTreeSet::from(["four", "one", "three"]));
}
