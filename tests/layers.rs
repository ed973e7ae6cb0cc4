//! The direction of dependencies: a module of `src/lib.rs` names only modules that stand above it there, modules of one level
//! do not name each other, and `plan` and `wire` name nothing outside the program. The test reads the sources themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Modules of one level: a module in a row does not name the others in that row.
const APART: [&[&str]; 3] = [
    &["config", "plan_time"],
    &["store", "volumes", "exec"],
    &["worker", "daemon"],
];

/// Modules that get everything as an argument.
const PURE: [&str; 3] = ["plan", "wire", "view"];

/// What a pure module does not name: files, processes, network, clocks, tasks and logs. Chance is named by `uuid`.
const OUTSIDE: [&str; 17] = [
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "notify",
    "postgres",
    "reqwest",
    "rusqlite",
    "rustix",
    "tokio",
    "tracing",
    "uuid",
];

/// A path that the source names, from the root of its crate: `crate`, `store`, `Store`.
#[derive(Debug)]
struct Named {
    line: usize,
    path: Vec<String>,
}

#[test]
fn modules_depend_only_on_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let order = order(&read(&src.join("lib.rs")));
    let offenders: Vec<String> = files(&src)
        .iter()
        .filter(|file| **file != src.join("lib.rs"))
        .flat_map(|file| offenders(&order, file.strip_prefix(&src).unwrap(), &read(file)))
        .collect();
    assert!(offenders.is_empty(), "\n{}\n", offenders.join("\n"));
}

#[test]
fn every_module_is_in_the_layer_order() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let order = order(&read(&src.join("lib.rs")));
    for file in files(&src) {
        let module = module_of(file.strip_prefix(&src).unwrap());
        let top = module.first().map_or("", String::as_str);
        let known = ["", "main"].contains(&top) || order.iter().any(|name| name == top);
        assert!(known, "{} is in no module of lib.rs", file.display());
    }
    for name in APART.concat().into_iter().chain(PURE) {
        assert!(order.iter().any(|module| module == name), "{name}");
    }
}

#[test]
fn layer_check_finds_exactly_the_offenders() {
    let order = ["plan", "wire", "store", "volumes", "cli"].map(str::to_owned);
    let plan = r#"
        //! Nothing in a comment counts: crate::cli, tokio::spawn.
        use std::{collections::BTreeMap, fs, time::{Duration, Instant as Now}};
        use crate::{plan::Task, wire::{self, text}};
        fn local() { let text = "tracing::info!()"; Vec::<u8>::new(); text.store(1); }
        mod deep {
            use super::super::{super::store::Store, graph};
            fn now() -> i64 { jiff::Timestamp::now().as_second() + draft.now() }
            macro_rules! late { () => { $crate::cli::main() } }
        }
    "#;
    insta::assert_snapshot!(offenders(&order, Path::new("plan/due.rs"), plan).join("\n"), @r"
    src/plan/due.rs:3: `plan` is pure and names `std::fs`
    src/plan/due.rs:3: `plan` is pure and names `std::time::Instant`
    src/plan/due.rs:4: `plan` names `wire::self`, which stands below it in lib.rs
    src/plan/due.rs:4: `plan` names `wire::text`, which stands below it in lib.rs
    src/plan/due.rs:7: `plan` names `store::Store`, which stands below it in lib.rs
    src/plan/due.rs:8: `plan` is pure and names `jiff::Timestamp::now`
    src/plan/due.rs:9: `plan` names `cli::main`, which stands below it in lib.rs
    ");
    let store = "use crate::{volumes::Volumes, plan::Plan};\nuse super::wire::text;\nuse crate::*;\nuse std::fs;";
    insta::assert_snapshot!(offenders(&order, Path::new("store/mod.rs"), store).join("\n"), @r"
    src/store/mod.rs:1: `store` names `volumes::Volumes`, which is of the same level
    src/store/mod.rs:3: `store` names the whole crate
    ");
    let main = "fn main() { plan_agent::cli::main(); plan_agent::plan::due() }";
    insta::assert_snapshot!(offenders(&order, Path::new("main.rs"), main).join("\n"), @"src/main.rs:1: `main` names `plan::due`; it may name only the last module of lib.rs");
}

/// Returns the modules that `lib.rs` declares, in their order.
fn order(lib: &str) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens(lib);
    tokens
        .windows(2)
        .filter(|pair| pair[0].to_string() == "mod")
        .map(|pair| pair[1].to_string())
        .collect()
}

/// Returns the names in a file that are not allowed there, one a line.
fn offenders(order: &[String], file: &Path, text: &str) -> Vec<String> {
    let module = module_of(file);
    let top = module.first().map_or("", String::as_str);
    let mut named = Vec::new();
    walk(&tokens(text), &module, &mut named);
    let complaint = |named: &Named| {
        let wrong = match named.path.split_first()? {
            (first, rest) if first == "crate" || first == "plan_agent" => {
                wrong_module(order, top, rest)?
            }
            _ if PURE.contains(&top) => outside(&named.path)
                .then(|| format!("is pure and names `{}`", named.path.join("::")))?,
            _ => return None,
        };
        let line = named.line;
        Some(format!("src/{}:{line}: `{top}` {wrong}", file.display()))
    };
    named.iter().filter_map(complaint).collect()
}

fn wrong_module(order: &[String], from: &str, path: &[String]) -> Option<String> {
    let place = |name: &str| order.iter().position(|module| module == name);
    let shown = path.join("::");
    let Some(to) = path.first().and_then(|name| place(name)) else {
        return (shown == "*").then(|| "names the whole crate".to_owned());
    };
    let Some(from) = place(from) else {
        return (to + 1 != order.len())
            .then(|| format!("names `{shown}`; it may name only the last module of lib.rs"));
    };
    let together = |names: &&[&str]| {
        [from, to]
            .iter()
            .all(|place| names.contains(&&*order[*place]))
    };
    if to != from && APART.iter().any(together) {
        Some(format!("names `{shown}`, which is of the same level"))
    } else {
        (to > from).then(|| format!("names `{shown}`, which stands below it in lib.rs"))
    }
}

/// Returns whether a path leads out of a pure module; `…::now` asks a clock, whichever type it belongs to.
fn outside(path: &[String]) -> bool {
    let shown = path.join("::");
    let leads_to = |outside: &&str| {
        shown
            .strip_prefix(outside)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    path.len() > 1 && (OUTSIDE.iter().any(leads_to) || shown.ends_with("::now"))
}

/// Returns the module of a file of `src`, from the root of the crate.
fn module_of(file: &Path) -> Vec<String> {
    file.with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .filter(|part| !["mod", "lib"].contains(&&**part))
        .collect()
}

/// Collects every path that the tokens name, also in inline modules and in macros.
fn walk(tokens: &[TokenTree], module: &[String], named: &mut Vec<Named>) {
    let mut rest = tokens;
    while let Some((first, after)) = rest.split_first() {
        rest = match (first, after) {
            (
                TokenTree::Ident(word),
                [TokenTree::Ident(name), TokenTree::Group(body), after @ ..],
            ) if word == "mod" => {
                let inner = [module, &[name.to_string()]].concat();
                walk(&inside(body.stream()), &inner, named);
                after
            }
            (TokenTree::Ident(_), _) => path(rest, module, &[], named),
            (TokenTree::Group(group), _) => {
                walk(&inside(group.stream()), module, named);
                after
            }
            _ => after,
        };
    }
}

/// Reads the path at the beginning of the tokens, or every path of a tree in braces; returns the tokens after it.
fn path<'a>(
    tokens: &'a [TokenTree],
    module: &[String],
    prefix: &[String],
    named: &mut Vec<Named>,
) -> &'a [TokenTree] {
    let mut path = prefix.to_vec();
    let mut rest = tokens;
    let mut line = 0;
    while let Some((part, after)) = rest.split_first() {
        match part {
            TokenTree::Ident(word) => path.push(word.to_string()),
            TokenTree::Punct(star) if star.as_char() == '*' && !path.is_empty() => {
                path.push("*".to_owned());
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                for branch in inside(group.stream()).split(is_comma) {
                    self::path(branch, module, &path, named);
                }
                return after;
            }
            _ => break,
        }
        line = part.span().start().line;
        rest = after;
        match rest {
            [TokenTree::Punct(one), TokenTree::Punct(two), after @ ..]
                if one.as_char() == ':' && two.as_char() == ':' =>
            {
                rest = after;
            }
            _ => break,
        }
    }
    let path = absolute(module, path);
    named.push(Named { line, path });
    rest
}

/// Resolves `self` and `super` at the beginning of a path.
fn absolute(module: &[String], path: Vec<String>) -> Vec<String> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    let own = path.first().is_some_and(|part| part == "self");
    if ups == 0 && !own {
        return path;
    }
    let root = "crate".to_owned();
    let kept = &module[..module.len().saturating_sub(ups)];
    let rest = &path[if own { 1 } else { ups }..];
    [std::slice::from_ref(&root), kept, rest].concat()
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',')
}

fn inside(stream: TokenStream) -> Vec<TokenTree> {
    stream.into_iter().collect()
}

fn tokens(text: &str) -> Vec<TokenTree> {
    inside(TokenStream::from_str(text).unwrap())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the sources below a folder, in order.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    found.sort();
    found
}
