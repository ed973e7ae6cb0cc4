//! Which changes of a project's manifests may be of its tests: all but those of dependencies, and of targets of a Makefile that
//! nothing names.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::JudgingFiles;
use crate::plan::test_commands::patterns;
use crate::wire::joined;

/// The most bytes of a manifest that are compared.
const MOST: usize = 1024 * 1024;

patterns! {
    /// Manifests that are searched for words around what has changed.
    SEARCHED = r"(?i)(^|/)(setup\.cfg|tox\.ini|(build|settings)\.gradle(\.kts)?|go\.mod|\.?justfile|Rakefile|Taskfile\.ya?ml|CMakeLists\.txt|meson\.build|mix\.exs|[^/]*\.(just|rake|cmake|csproj|sbt))$";
    MAKEFILE = r"(?i)(^|/)(GNU)?makefile$";
    /// The first line of a rule with one target, in which nothing is expanded.
    RULE = r"^([\w-]+):([\w./ -]*)(#[^$\\]*)?$";
    /// What may make a word of a Makefile name a target without being seen.
    HIDES = r"(^|\n)\s*(-?s?include|define)\b|\$[({]eval\b";
}

/// What a table of dependencies has in place of a version where files of the project stand in for them.
const LOCAL: [&str; 4] = ["\"path\":", "file:", "link:", "portal:"];

/// Returns whether only the words around its changes say what a manifest has of tests.
pub(super) fn is_searched(path: &str) -> bool {
    SEARCHED.is_match(path)
}

/// Returns whether two versions of a manifest differ in what may be of tests. One that cannot be read does.
pub(super) fn differ(path: &str, versions: [&[u8]; 2], files: &JudgingFiles) -> bool {
    let [Ok(old), Ok(new)] = versions.map(str::from_utf8) else {
        return true;
    };
    let read = |text: &str| -> Option<Value> {
        let text = text.trim();
        let read = match path.rsplit('.').next() {
            _ if text.is_empty() => Some(Value::Null),
            Some("json") => serde_json::from_str(text).ok(),
            Some("toml") => toml::from_str(text).ok(),
            _ => None,
        };
        read.map(without_dependencies)
    };
    if versions.iter().any(|version| version.len() > MOST) {
        true
    } else if MAKEFILE.is_match(path) {
        makefiles_differ([old, new], files)
    } else {
        let (old, new) = (read(old), read(new));
        old.is_none() || old != new
    }
}

/// Removes the tables of dependencies, except what stands in for them in the project, and what is empty.
fn without_dependencies(value: Value) -> Value {
    let Value::Object(map) = value else {
        return value;
    };
    let kept = map.into_iter().map(|(name, value)| {
        let value = match &value {
            Value::Object(_) | Value::Array(_) if has_dependencies(&name, &value) => local(value),
            _ => without_dependencies(value),
        };
        (name, value)
    });
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        value => value.is_null(),
    };
    let kept: Map<_, _> = kept.filter(|(_, value)| !is_empty(value)).collect();
    match kept.is_empty() {
        true => Value::Null,
        false => Value::Object(kept),
    }
}

fn has_dependencies(name: &str, value: &Value) -> bool {
    let name = name.to_lowercase();
    // A list of this name loads files.
    let required = value.is_object() && ["require", "require-dev"].contains(&&*name);
    name.ends_with("dependencies") || name == "dependency-groups" || required
}

fn local(value: Value) -> Value {
    let is_local = |value: &Value| {
        let text = value.to_string();
        let path = ["\".", "\"/", "\"~/"];
        path.iter().any(|begin| text.starts_with(begin))
            || LOCAL.iter().any(|word| text.contains(word))
    };
    match value {
        Value::Object(map) => map.into_iter().filter(|(_, one)| is_local(one)).collect(),
        Value::Array(list) => list.into_iter().filter(is_local).collect(),
        value => value,
    }
}

/// A rule of a Makefile, with its target where that may be left out, or any other line.
struct Block<'a> {
    target: Option<&'a str>,
    text: String,
}

/// Returns whether two versions of a Makefile differ without the targets that only a person names. One that was there before may
/// be named by a script, unless checks run make themselves.
fn makefiles_differ(versions: [&str; 2], files: &JudgingFiles) -> bool {
    let both = versions.map(blocks);
    let targets = |blocks: &[Block<'_>]| -> BTreeSet<String> {
        let targets = blocks.iter().filter_map(|block| block.target);
        targets.map(str::to_owned).collect()
    };
    let (old, new) = (targets(&both[0]), targets(&both[1]));
    let hides = versions.iter().any(|text| HIDES.is_match(text));
    let is_named = |name: &str| {
        let others = both.iter().flatten();
        let mut others = others.filter(|block| block.target != Some(name) && !block.is_phony());
        files.names(name) || others.any(|block| words(&block.text).any(|word| word == name))
    };
    let lone = |name: &str| {
        let known = old.contains(name) && !files.names("make");
        !hides && !known && !is_named(name)
    };
    let all = old.union(&new).map(String::as_str);
    let lone: BTreeSet<&str> = all.filter(|name| lone(name)).collect();
    let kept = |blocks: &[Block<'_>]| -> Vec<String> {
        let kept = blocks.iter();
        let kept = kept.filter(|block| block.target.is_none_or(|name| !lone.contains(name)));
        let text = |block: &Block<'_>| match block.is_phony() {
            true => {
                let words = block.text.split_whitespace();
                let words = words.filter(|word| !lone.contains(word) && *word != ".PHONY:");
                joined(words, " ")
            }
            false => block.text.clone(),
        };
        kept.map(text).filter(|text| !text.is_empty()).collect()
    };
    kept(&both[0]) != kept(&both[1])
}

impl Block<'_> {
    fn is_phony(&self) -> bool {
        self.text.starts_with(".PHONY:") && !self.text.contains(['\n', '$', '\\'])
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut goes_on, mut is_first) = (Vec::<Block<'_>>::new(), false, true);
    for line in text.lines() {
        let comment = line.trim().is_empty() || line.starts_with('#');
        let was_open = goes_on;
        goes_on = line.ends_with('\\');
        match blocks.last_mut() {
            Some(last) if was_open || line.starts_with('\t') => {
                last.text = format!("{}\n{line}", last.text);
            }
            _ if comment && !goes_on => {}
            _ => {
                let target = RULE.captures(line);
                let target = target.and_then(|found| Some(found.get(1)?.as_str()));
                // Make runs the first target unasked, and makes the Makefile itself.
                let may_go = !is_first && !line.to_lowercase().contains("makefile");
                is_first &= target.is_none();
                let (target, text) = (target.filter(|_| may_go), line.to_owned());
                blocks.push(Block { target, text });
            }
        }
    }
    blocks
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || ['_', '-', '.'].contains(&c)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{CheckConfig, Config};
    use crate::plan::tests::testing::rows;

    #[test]
    fn changes_of_manifests_are_of_tests_unless_of_dependencies_and_lone_targets() {
        let check = ["make".to_owned(), "test".to_owned()];
        let script = ["sh".to_owned(), "check.sh".to_owned()];
        let files = |argv: [String; 2]| {
            let mut config = Config::default();
            let check = CheckConfig {
                argv: argv.to_vec(),
                ..CheckConfig::default()
            };
            config.checks.insert("check".to_owned(), check);
            JudgingFiles::new(Path::new("/w"), &config)
        };
        let (made, scripted) = (files(check), files(script));
        let package = r#"{"scripts": {"test": "jest"}}"#;
        let make = "PY = python3\ntest: all\n\t$(PY) -m unittest\nall:\n\techo\n";
        let table = r#"
            differs | package.json | <package> | {"scripts": {"test": "true"}}
            same | package.json | <package> | {"scripts": {"test": "jest"},\n"dependencies": {"a": "^1"}, "devDependencies": {"b": "~2"}}
            differs | package.json | <package> | {"scripts": {"test": "jest"}, "devDependencies": {"jest": "file:./fake"}}
            differs | package.json | <package> | {"scripts": {"test": "jest"}, "mocha": {"require": ["./x"]}}
            differs | package.json | <package> | {
            differs | package.json | - | <package>
            same | composer.json | {"require": {"a/b": "1"}} | {"require": {"a/b": "2"}, "require-dev": {"c/d": "1"}}
            same | Cargo.toml | [package]\nname = 'a'\n | [package]\nname = 'a'\n[dependencies]\nb = '1'\n[target.x.dev-dependencies]\nc = { version = '1' }\n
            differs | Cargo.toml | [package]\nname = 'a'\n | [package]\nname = 'a'\n[lib]\ntest = false\n
            differs | Cargo.toml | [dependencies]\nb = '1'\n | [dependencies]\nb = { path = 'b' }\n
            same | pyproject.toml | [project]\nname = 'a'\ndependencies = ['b']\n | [project]\nname = 'a'\ndependencies = ['b', 'c>=1']\n[dependency-groups]\ndev = ['d']\n[project.optional-dependencies]\nx = ['e']\n
            differs | pyproject.toml | - | [tool.pytest.ini_options]\naddopts = '-p evil'\n
            same | Makefile | <make> | <make>\n# Tidies.\nclean: ## all\n\trm -f x\n.PHONY: clean\n
            differs | Makefile | <make> | clean:\n\trm -f x\n<make>
            differs | Makefile | <make> | <make>clean: $(shell ./run)\n
            differs | Makefile | <make> | <make>Makefile:\n\t./run\n
            differs | Makefile | <make> | PY = ./run\ntest: all\n\t$(PY) -m unittest\nall:\n\techo\n
            differs | Makefile | <make> | PY = python3\ntest: all\n\t$(PY) -m unittest\nall:\n\t./run\n
            differs | Makefile | <make> | <make>include rules\n
            differs | GNUmakefile | - | <make>
            differs | .npmrc | - | script-shell=./run\n"#;
        for [differs, path, old, new] in rows(table) {
            let filled = |text: &str| text.replace("<package>", package).replace("<make>", make);
            let (old, new) = (filled(&old), filled(&new));
            let versions = [old.as_bytes(), new.as_bytes()];
            let found = differ(&path, versions, &made);
            assert_eq!(found, differs == "differs", "{path}: {new}");
        }
        let versions = |recipe: &str| format!("{make}verify:\n\t{recipe}\n");
        let (old, new) = (versions("a"), versions("b"));
        let versions = [old.as_bytes(), new.as_bytes()];
        assert!(!differ("Makefile", versions, &made));
        assert!(differ("Makefile", versions, &scripted));
        assert!(differ("Makefile", [b"\0", b"\xff"], &made));
        assert!(is_searched("sub/setup.cfg") && !is_searched("package.json"));
    }
}
