//! What the planner is told about the workspace: a bounded look at its files, its README and its git state.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::exec::Git;
use crate::wire::text::{clip, printable};

/// Entries of the file tree.
const ENTRIES: usize = 120;
/// Levels of the file tree.
const DEPTH: usize = 3;
/// Characters of each document that is quoted.
const DOCUMENT: usize = 2_000;
/// The planner does without what git takes longer for.
const GIT_DEADLINE: Duration = Duration::from_secs(5);
/// Folders that say nothing about a project.
const SKIPPED: [&str; 7] = [
    ".git",
    "target",
    "node_modules",
    ".venv",
    "__pycache__",
    "dist",
    "MISSION.md",
];

/// Describes a workspace. Whatever cannot be read is left out.
pub(super) async fn of_workspace(workspace: &Path) -> String {
    let mut facts = String::new();
    let tree = tree(workspace);
    if tree.is_empty() {
        facts.push_str("The workspace is empty.\n");
    } else {
        facts.push_str("Files:\n");
        facts.push_str(&tree);
    }
    for name in ["README.md", "AGENTS.md", "CLAUDE.md"] {
        if let Ok(text) = fs::read_to_string(workspace.join(name)) {
            write!(facts, "\n{name} begins:\n{}\n", clip(&text, DOCUMENT))
                .expect("writing to a string does not fail");
        }
    }
    if workspace.join(".git").exists() {
        let arguments: [&[&str]; 2] = [
            &["status", "--short", "--branch"],
            &["log", "--oneline", "-5"],
        ];
        for arguments in arguments {
            if let Some(text) = git(workspace, arguments).await {
                write!(
                    facts,
                    "\ngit {}:\n{}\n",
                    arguments.join(" "),
                    clip(&text, DOCUMENT)
                )
                .expect("writing to a string does not fail");
            }
        }
    }
    facts
}

/// Lists the files breadth first, so that a deep corner does not crowd the rest out.
fn tree(root: &Path) -> String {
    let mut text = String::new();
    let mut queue = VecDeque::from([(root.to_owned(), String::new(), 0)]);
    let mut left = ENTRIES;
    while let Some((folder, prefix, depth)) = queue.pop_front() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        let mut names: Vec<(String, bool)> = entries
            .flatten()
            .take(10 * ENTRIES)
            .map(|entry| {
                let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                (entry.file_name().to_string_lossy().into_owned(), folder)
            })
            .filter(|(name, _)| !SKIPPED.contains(&name.as_str()))
            .collect();
        names.sort();
        for (name, is_folder) in names {
            if left == 0 {
                text.push_str("  …\n");
                return text;
            }
            left -= 1;
            let path = format!("{prefix}{name}");
            let slash = if is_folder { "/" } else { "" };
            writeln!(text, "  {path}{slash}").expect("writing to a string does not fail");
            if is_folder && depth + 1 < DEPTH {
                queue.push_back((folder.join(&name), format!("{path}/"), depth + 1));
            }
        }
    }
    text
}

async fn git(workspace: &Path, arguments: &[&str]) -> Option<String> {
    let said = Git::at(workspace)
        .within(GIT_DEADLINE)
        .line(arguments)
        .await;
    Some(printable(&said.ok()?))
}
