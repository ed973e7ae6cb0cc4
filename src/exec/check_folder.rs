//! A folder aside in which checks run on trees of git, and the trees that are made for that: a result with the files that judge
//! as they were, and the state before with the tests that a result adds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::tree_changes::tree_changes;
use super::worktree::literal;
use super::{
    Git, GitError, JudgingFiles, MarkKind, Project, Result, TreeChange, check_marked, inline_tests,
    manifest_changes,
};
use crate::config::CheckConfig;
use crate::own_files::remove_if_there;
use crate::plan::{CheckResult, CommandId, unless_empty};
use crate::wire::{joined, one_line};

/// File names that are looked for at once.
const NAMES: usize = 500;

/// Makefiles by their usual names, and parts of them, as git finds them.
const MAKEFILES: [&str; 4] = [
    ":(icase,glob)**/makefile",
    ":(icase,glob)**/makefile.*",
    ":(icase,glob)**/gnumakefile",
    ":(icase,glob)**/*.mk",
];

/// The mode of a file that may be executed.
const EXECUTABLE: &str = "100755";

/// Characters of what the person's command said last.
const SAID: usize = 120;

/// A folder aside. Nothing stays there from one tree to the next.
#[derive(Clone, Debug)]
pub struct CheckFolder {
    git: Git,
    /// Exists once the person's command has made the folder ready.
    prepared: PathBuf,
    /// The project whose ignored files belong into the folder, too, where it is a worktree.
    project: Option<Box<Project>>,
}

/// A file of a tree, as git names it; `None` where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    pub path: String,
    /// The path as it is: it may be no text.
    bytes: Vec<u8>,
    content: Option<(String, String)>,
}

impl TreeFile {
    /// Returns a file as it is in the first or the second tree.
    fn of(change: &TreeChange, at: usize) -> Self {
        Self {
            path: change.path.clone(),
            bytes: change.bytes.clone(),
            content: Some((change.modes[at].clone(), change.ids[at].clone())),
        }
    }

    /// Returns that there is no such file.
    pub fn removed(&self) -> Self {
        Self {
            content: None,
            ..self.clone()
        }
    }
}

/// What a result changed of the files that judge it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgingChanges {
    /// Files as they were before; a check runs with these.
    pub restored: Vec<TreeFile>,
    /// Files as they were before, which checks see as agents left them: those that may be changed, manifests of which a part that
    /// may be of tests has changed, and data of tests. A check that passes only with these versions proves nothing.
    pub kept: Vec<TreeFile>,
    /// New files that judge.
    pub added: Vec<TreeFile>,
    /// Why nothing proves the result.
    pub doubts: Vec<String>,
    /// No file of the project changed.
    pub is_empty: bool,
    /// What becomes of tests among the sources: see `inline_tests::lost`.
    pub inline: String,
}

impl JudgingChanges {
    /// Takes what changed earlier of the files that judge; those that changed again are put back to what they were then.
    pub fn keep(&mut self, earlier: Self) {
        let was_there = |file: &TreeFile| file.content.is_some();
        let earlier = earlier.restored.into_iter().chain(earlier.kept);
        let earlier: Vec<TreeFile> = earlier.filter(was_there).collect();
        let again = |file: &TreeFile| earlier.iter().any(|was| was.path == file.path);
        self.kept.retain(|file| !again(file));
        self.kept.extend(earlier);
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns why a folder is not ready: what the person's command said last.
pub fn why_not_ready(failed: &CheckResult) -> String {
    let end = failed.exit.map(|exit| format!(" (exit {exit})"));
    let said = failed.tail.lines().rfind(|line| !line.trim().is_empty());
    let said = one_line(said.unwrap_or_default(), SAID);
    let said = unless_empty(&said, |said| format!(": {said}"));
    format!("`prepare` failed{}{said}", end.unwrap_or_default())
}

impl CheckFolder {
    pub(super) fn new(git: Git, prepared: PathBuf, project: Option<Project>) -> Self {
        let project = project.map(Box::new);
        Self {
            git,
            prepared,
            project,
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.git.folder()
    }

    /// Runs the person's command that makes the folder ready, unless it has done so; `mark` is as in [`check_marked`]. Returns
    /// what came of it.
    ///
    /// # Errors
    /// As [`check_marked`], or it cannot be noted that the folder is ready.
    pub async fn make_ready(
        &self,
        prepare: Option<&CheckConfig>,
        (marks, name): (&Path, &str),
    ) -> io::Result<Option<CheckResult>> {
        let Some(prepare) = prepare.filter(|_| !self.prepared.exists()) else {
            return Ok(None);
        };
        let result = check_marked(prepare, self.folder(), (marks, MarkKind::Check, name)).await?;
        if result.passed {
            fs::write(&self.prepared, "")?;
        }
        Ok(Some(result))
    }

    /// Begins with the result of a command, and returns that of which the result came into the folder before it.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn begin(&self, command: &CommandId) -> io::Result<Option<CommandId>> {
        let note = self.prepared.with_extension("result");
        let last = fs::read_to_string(&note).ok();
        fs::write(&note, command.as_str())?;
        Ok(last.map(CommandId::new))
    }

    /// Removes what Cargo has built; what the project names for its worktrees stays.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn remove_built(&self) -> Result<()> {
        self.git.bytes("clean -ffdxq -- target", &[]).await?;
        self.include().await
    }

    /// Writes the files of a tree, and removes all others. The person's command has to make the folder ready again.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn lay_out(&self, tree: &str) -> Result<()> {
        // Git writes no file again that is the same in both trees, even where attributes have it look otherwise.
        let attributes = [tree, "--", ":(glob)**/.gitattributes"];
        let changed = "diff-index --cached --name-only";
        if !self.git.bytes(changed, &attributes).await?.is_empty() {
            self.git.bytes("read-tree --empty", &[]).await?;
            self.clean().await?;
        }
        self.git.bytes("read-tree --reset -u", &[tree]).await?;
        self.clean().await
    }

    /// Returns the files of a tree that is laid out, new or changed since a state, which `make` may make of others; none where
    /// there is no Makefile. Git writes them at the same time as their sources, so `make` would take them for up to date.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn possible_products(&self, since: &str, tree: &str) -> Result<BTreeSet<String>> {
        let words = [&["--"], &MAKEFILES[..]].concat();
        if self.git.names("ls-files -z", &words).await?.is_empty() {
            return Ok(BTreeSet::new());
        }
        let changes = tree_changes(&self.git, [since, tree]).await?.into_iter();
        let there = changes.filter(|change| change.status != "D");
        Ok(there.map(|change| change.path).collect())
    }

    /// Removes what is not in the tree, and copies again what the project names for its worktrees.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub(super) async fn clean(&self) -> Result<()> {
        remove_if_there(&self.prepared)?;
        // What another tree has left, such as what it was built into, could stand in for what this one lacks.
        // Cargo compares each source with what it was built into, and a whole build for each result would take long.
        let but = match self.folder().join("Cargo.toml").is_file() {
            true => &["-e", "/target/"][..],
            false => &[],
        };
        self.git.bytes("clean -ffdxq", but).await?;
        self.include().await
    }

    /// Copies what the project names for its worktrees.
    async fn include(&self) -> Result<()> {
        match &self.project {
            Some(project) => project.include(self.folder()).await,
            None => Ok(()),
        }
    }

    /// Returns what changed of the files that judge between two trees, and of tests among the sources.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn judging_changes(
        &self,
        trees: [&str; 2],
        files: &JudgingFiles,
    ) -> Result<JudgingChanges> {
        let (mut changes, [before, after]) = self.judges_changed(trees, files).await?;
        if !before.is_empty() {
            changes.inline = match (self.texts(&before).await, self.texts(&after).await) {
                (Ok(before), Ok(mut after)) => {
                    let lost = inline_tests::lost(&before, &after);
                    // Those that judge are put back.
                    after.retain(|(path, _)| !files.judges(path));
                    let turns_off = inline_tests::turns_off(&before, &after);
                    let mut said = vec![lost, turns_off];
                    said.retain(|said| !said.is_empty());
                    said.join("; ")
                }
                _ => "is too large to be read".to_owned(),
            };
        }
        Ok(changes)
    }

    /// Returns what changed of the files that judge, and the sources, by path and id, that may have tests before and after.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn judges_changed(
        &self,
        trees: [&str; 2],
        files: &JudgingFiles,
    ) -> Result<(JudgingChanges, [Vec<(String, String)>; 2])> {
        let mut changes = JudgingChanges::default();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let all = files.without_permits();
        let all_changes = tree_changes(&self.git, trees).await?;
        changes.is_empty = all_changes.is_empty();
        let named = self.named_in_tests(trees[0], &all_changes, &all).await?;
        let included = self.included(trees[0]).await?;
        let hiding = self.hiding(trees[0], &all_changes, &all).await?;
        let (mut links, mut in_place) = (Vec::new(), Vec::new());
        for change in &all_changes {
            let (path, is_new) = (&change.path, change.status == "A");
            let stands_in = all.configures(path) || hiding.contains(path);
            let is_judge =
                all.judges(path) || stands_in || change.modes[0] == EXECUTABLE && all.runs(path);
            if inline_tests::may_have_tests(path) {
                // The checks run with judging files as they were.
                if !is_new && !is_judge {
                    before.push((path.clone(), change.ids[0].clone()));
                }
                after.push((path.clone(), change.ids[1].clone()));
            }
            if change.leads_out(&self.git).await? {
                links.push(path.as_str());
            }
            if all.runs_in_place(path) {
                in_place.push(path.as_str());
            }
            if is_judge && is_new && !stands_in {
                changes.added.push(TreeFile::of(change, 1));
                continue;
            }
            let of_tests = is_judge
                || JudgingFiles::configures_linters(path)
                || all.is_manifest(path) && self.of_tests(trees, change, &all).await?
                || included.contains(file_name(path))
                || !is_new
                    && (JudgingFiles::is_data_of_tests(path) || named.contains(file_name(path)));
            let was = || {
                let was = TreeFile::of(change, 0);
                if is_new { was.removed() } else { was }
            };
            match (of_tests, files.may_change(path)) {
                (false, _) => {}
                (true, false) if is_judge => changes.restored.push(was()),
                (true, _) => changes.kept.push(was()),
            }
        }
        let doubts = [
            ("a link leads out of the project: ", links),
            ("the result changes what checks run where it is: ", in_place),
        ];
        let doubts = doubts.into_iter().filter(|(_, files)| !files.is_empty());
        let doubts = doubts.map(|(why, files)| why.to_owned() + &files.join(", "));
        changes.doubts.extend(doubts);
        Ok((changes, [before, after]))
    }

    /// Returns those of some files, in a text, that are not any more as they were laid out.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn rewritten(&self, is_one: impl Fn(&str) -> bool) -> Result<String> {
        let said = self.git.bytes("ls-files --modified -z", &[]).await?;
        let said = String::from_utf8_lossy(&said);
        let files: BTreeSet<&str> = said.split('\0').filter(|path| is_one(path)).collect();
        Ok(joined(files, ", "))
    }

    /// Returns the texts of files, with their paths.
    async fn texts(&self, files: &[(String, String)]) -> Result<Vec<(String, String)>> {
        let ids: String = files.iter().map(|(_, id)| format!("{id}\n")).collect();
        let git = self.git.clone().with_input(ids.into_bytes());
        let said = git.bytes("cat-file --batch", &[]).await?;
        let (mut rest, mut texts) = (said.as_slice(), Vec::new());
        for (path, _) in files {
            // A line with the size, the content, and a line break; only a line for what is not there.
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            rest = rest.get(line.len() + 1..).unwrap_or_default();
            let size = str::from_utf8(line).unwrap_or_default().rsplit(' ').next();
            let size = size.and_then(|size| size.parse::<usize>().ok());
            if let Some(content) = size.and_then(|size| rest.get(..size)) {
                texts.push((path.clone(), String::from_utf8_lossy(content).into_owned()));
                rest = rest.get(content.len() + 1..).unwrap_or_default();
            }
        }
        Ok(texts)
    }

    /// Returns whether the change of a manifest may be of tests. One that is too large to be read may.
    async fn of_tests(
        &self,
        trees: [&str; 2],
        change: &TreeChange,
        files: &JudgingFiles,
    ) -> Result<bool> {
        let is_file = |mode: &str| mode.starts_with("100");
        if change.status == "D" || !is_file(&change.modes[1]) || change.status == "T" {
            return Ok(true);
        }
        let found = match change.status == "M" && manifest_changes::is_searched(&change.path) {
            true => self.names_tests(trees, &change.path).await,
            false => self.differs(change, files).await,
        };
        match found {
            Err(GitError::TooMuch { .. }) => Ok(true),
            found => found,
        }
    }

    /// Returns the new files that are loaded instead of a judging file of the state before, by their names.
    async fn hiding(
        &self,
        tree: &str,
        changes: &[TreeChange],
        files: &JudgingFiles,
    ) -> Result<BTreeSet<String>> {
        let mut hidden = BTreeMap::<String, Vec<&String>>::new();
        for change in changes.iter().filter(|change| change.status == "A") {
            for file in JudgingFiles::hidden_by(&change.path) {
                if files.judges(&file) {
                    hidden.entry(file).or_default().push(&change.path);
                }
            }
        }
        let all: Vec<String> = hidden.keys().map(|path| literal(path)).collect();
        let mut found = BTreeSet::new();
        for names in all.chunks(NAMES) {
            let mut words = vec![tree, "--"];
            words.extend(names.iter().map(String::as_str));
            let list = "ls-tree -r -z --name-only --full-tree";
            let there = self.git.names(list, &words).await?;
            let by = there.iter().filter_map(|path| hidden.get(path)).flatten();
            found.extend(by.map(|path| (*path).clone()));
        }
        Ok(found)
    }

    /// Returns the names of changed files of data that judging files of the state before name.
    async fn named_in_tests(
        &self,
        tree: &str,
        changes: &[TreeChange],
        files: &JudgingFiles,
    ) -> Result<BTreeSet<String>> {
        let was_data = |change: &&TreeChange| {
            let path = &change.path;
            change.status != "A" && !JudgingFiles::is_source(path) && !files.is_manifest(path)
        };
        let names = changes.iter().filter(was_data);
        let names: BTreeSet<&str> = names.map(|change| file_name(&change.path)).collect();
        // A short name is a word, too.
        let names: Vec<&str> = names.into_iter().filter(|name| name.len() > 3).collect();
        let mut found = BTreeSet::new();
        for names in names.chunks(NAMES) {
            let mut words: Vec<&str> = names.iter().flat_map(|name| ["-e", name]).collect();
            words.extend([tree, "--", ":(icase)*test*", ":(icase)*spec*"]);
            let grep = "grep --null --only-matching --fixed-strings -I";
            let said = self.git.run(grep, &words).await?;
            for line in String::from_utf8_lossy(&said.out).lines() {
                let place = line.split_once('\0');
                let place = place.and_then(|(file, name)| Some((file.split_once(':')?.1, name)));
                let named = place.filter(|(file, _)| files.judges(file));
                found.extend(named.map(|(_, name)| name.to_owned()));
            }
        }
        Ok(found)
    }

    /// Returns the names of the files that Makefiles of a tree include.
    async fn included(&self, tree: &str) -> Result<BTreeSet<String>> {
        let words = ["-e", "^[[:space:]]*[-s]?include[[:space:]]", tree, "--"];
        // A command may name a Makefile that is called otherwise.
        let words = [&words[..], &[":(icase)*makefile*", ":(icase)*.mk"]].concat();
        let said = self.git.run("grep -h -I -E", &words).await?;
        let said = String::from_utf8_lossy(&said.out);
        Ok(said
            .split_whitespace()
            .map(|word| file_name(word).to_owned())
            .collect())
    }

    /// Returns whether a manifest differs otherwise than in its dependencies and the like.
    async fn differs(&self, change: &TreeChange, files: &JudgingFiles) -> Result<bool> {
        let [old, new] = &change.ids;
        let old = match &*change.status {
            "A" => Vec::new(),
            _ => self.git.bytes("cat-file blob", &[old]).await?,
        };
        let new = self.git.bytes("cat-file blob", &[new]).await?;
        Ok(manifest_changes::differ(&change.path, [&old, &new], files))
    }

    /// Returns whether a section that a file changes names tests.
    async fn names_tests(&self, [old, new]: [&str; 2], path: &str) -> Result<bool> {
        let diff = "diff --no-ext-diff --no-textconv --text -U100000";
        let words = [old, new, "--", &literal(path)];
        let said = self.git.bytes(diff, &words).await?;
        let said = String::from_utf8_lossy(&said).to_lowercase();
        let places = said.lines().skip_while(|line| !line.starts_with("@@"));
        Ok(changes_section_of_tests(places.skip(1)))
    }

    /// Returns a tree with some files as they are given.
    ///
    /// # Errors
    /// As [`Git::bytes`].
    pub async fn with_files(&self, tree: &str, files: &[TreeFile]) -> Result<String> {
        let aside = tempfile::tempdir()?;
        let git = self.git.clone().with_index(&aside.path().join("index"));
        git.bytes("read-tree", &[tree]).await?;
        let line = |file: &TreeFile| {
            let of = match &file.content {
                Some((mode, id)) => format!("{mode} {id}\t"),
                None => format!("0 {}\t", "0".repeat(40)),
            };
            [of.as_bytes(), &file.bytes, b"\0"].concat()
        };
        let lines: Vec<u8> = files.iter().flat_map(line).collect();
        let update = "update-index --replace -z --index-info";
        git.clone().with_input(lines).bytes(update, &[]).await?;
        git.line("write-tree", &[]).await
    }
}

/// Returns whether a line of a whole diff that names tests is changed, or stands above a changed line as its heading.
fn changes_section_of_tests<'a>(lines: impl Iterator<Item = &'a str>) -> bool {
    let of_tests = |text: &str| ["test", "jest"].map(|word| text.contains(word)) != [false; 2];
    let mut above: Vec<(usize, &str)> = Vec::new();
    for line in lines {
        let (mark, text) = line.split_at_checked(1).unwrap_or_default();
        if text.trim().is_empty() {
            continue;
        }
        let indent = text.len() - text.trim_start().len();
        let depth = if text.starts_with('[') { 0 } else { indent + 1 };
        above.retain(|(other, _)| *other < depth);
        above.push((depth, text));
        let mut headings = above.iter().map(|(_, heading)| *heading);
        if mark != " " && headings.any(of_tests) {
            return true;
        }
    }
    false
}

impl super::GitSnapshots {
    /// Returns a folder for checks on its trees, which is created. It is in no repository.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn check_folder(&self, folder: &Path) -> Result<CheckFolder> {
        fs::create_dir_all(folder)?;
        let index = folder.with_extension("index");
        drop(fs::remove_file(folder.with_extension("index.lock")));
        let git = self.git.in_folder(folder).with_index(&index);
        let prepared = folder.with_extension("prepared");
        Ok(CheckFolder::new(git, prepared, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_ends_where_nothing_was_said() {
        let mut failed = CheckResult {
            exit: Some(1),
            ..CheckResult::default()
        };
        assert_eq!(why_not_ready(&failed), "`prepare` failed (exit 1)");
        failed.tail = "no network\n".to_owned();
        let why = why_not_ready(&failed);
        assert_eq!(why, "`prepare` failed (exit 1): no network");
    }
}
