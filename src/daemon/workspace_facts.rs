//! What the prompt of the planner says about the workspace: a bounded list of its files, its README and its git state.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::exec::{Filters, Git, GitError, NOT_OF_THE_WORK, examine, link_free_access};
use crate::wire::{clip, has_word, printable};

/// Entries of the file tree.
const ENTRIES: usize = 120;
/// Levels of the file tree.
const DEPTH: usize = 3;
/// Characters of each document that is quoted.
const DOCUMENT: usize = 2_000;
/// The planner does without what git takes longer for.
const GIT_DEADLINE: Duration = Duration::from_secs(5);
/// Further names that say nothing about a project.
const SKIPPED: [&str; 3] = ["target", "dist", "MISSION.md"];

/// Describes a workspace. What cannot be read is left out.
pub(super) async fn of_workspace(workspace: &Path) -> String {
    let folder = workspace.to_owned();
    let files = tokio::task::spawn_blocking(move || of_files(&folder)).await;
    let mut facts = files.unwrap_or_default();
    match of_git(workspace).await {
        Ok(said) => facts.push_str(&said),
        Err(error) => tracing::debug!(%error, "the planner is told nothing of git"),
    }
    facts
}

fn of_files(workspace: &Path) -> String {
    let mut facts = vec![match tree(workspace).as_str() {
        "" => "The workspace is empty.\n".to_owned(),
        tree => format!("Files:\n{tree}"),
    }];
    for name in ["README.md", "AGENTS.md", "CLAUDE.md"] {
        // A character has at most four bytes.
        if let Ok((bytes, _)) = link_free_access::read(workspace, name, 4 * (DOCUMENT + 1), &[]) {
            let text = String::from_utf8_lossy(&bytes);
            facts.push(format!("\n{name} begins:\n{}\n", clip(&text, DOCUMENT)));
        }
    }
    facts.concat()
}

async fn of_git(workspace: &Path) -> Result<String, GitError> {
    let mut facts = String::new();
    let Some(repository) = examine(workspace, Filters::Off).await? else {
        return Ok(facts);
    };
    let aside = tempfile::tempdir()?;
    let git = Git::open(workspace, &repository, aside.path()).await?;
    let git = git.within(GIT_DEADLINE);
    for command in ["status --short --branch", "log --oneline -5"] {
        if let Ok(text) = git.line(command, &[]).await {
            let text = clip(&printable(&text), DOCUMENT);
            facts = format!("{facts}\ngit {command}:\n{text}\n");
        }
    }
    Ok(facts)
}

/// Lists the files breadth first, so that a deep corner does not crowd the rest out.
fn tree(root: &Path) -> String {
    let is_skipped = |name: &str| has_word(NOT_OF_THE_WORK, name) || SKIPPED.contains(&name);
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
            .filter(|(name, _)| !is_skipped(name))
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
            text.extend(["  ", &path, slash, "\n"]);
            if is_folder && depth + 1 < DEPTH {
                queue.push_back((folder.join(&name), format!("{path}/"), depth + 1));
            }
        }
    }
    text
}
