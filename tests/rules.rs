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
    let tests: BTreeSet<&str> = sources
        .split("fn ")
        .skip(1)
        .filter_map(|rest| rest.split(['(', '<']).next())
        .collect();
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
