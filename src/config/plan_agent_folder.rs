//! Where everything of plan-agent's lies for the folder in which it is started: found upwards as git finds a repository, and
//! known by a marker, so that another file or folder that has the same name is never taken for one of these.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::FILE_NAME;
use crate::plan::words;
use crate::wire::known_word;
use crate::{bounded_read, own_files};

/// The folder with the marker. In a project everything of plan-agent's is in it; agents that may write nowhere else leave their
/// reports there.
const FOLDER: &str = ".plan-agent";
const MARKER: &str = "layout";
const MARKER_CAP: usize = 64;
const IGNORE: &str = ".gitignore";
/// Git takes no notice of the folder, whatever the project's own rules are.
const IGNORE_ALL: &str = "*\n";
/// How the files begin that agents leave there.
const REPORT: &str = "report";

words! {
    /// How the files lie: the word in the marker.
    #[derive(Default)]
    pub enum Layout {
        /// `config.toml`, `prompts/` and `volumes/` lie in the folder itself; agents work in `volumes/workspace`.
        #[default]
        TopLevel = "top-level",
        /// All of it lies in `.plan-agent`, and agents work in the folder around.
        Project = "project",
        /// All of it lies in `.plan-agent`, and agents work in `volumes/workspace` there.
        Apart = "apart",
    }
}

/// The folder with the configuration, the prompts and the exchange folder, if they have their usual names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    folder: PathBuf,
    layout: Layout,
    /// It is there with its marker, or needs none.
    made: bool,
}

impl Home {
    /// Returns the home that a command in `here` works with: the nearest marked one, from this folder up to the top of its git
    /// project; else the one that this project is to get, or, outside of git, the folder itself. Nothing is made.
    pub fn find(here: &Path) -> Self {
        let top = here.ancestors().find(|folder| is_git_top(folder));
        for folder in here.ancestors() {
            if let Some(home) = Self::marked_in(folder) {
                return home;
            }
            if Some(folder) == top {
                break;
            }
        }
        let layout = top.map_or(Layout::Apart, |_| Layout::Project);
        Self::new(top.unwrap_or(here), layout)
    }

    /// Returns the home of a configuration file that a person named: the folder around it. It needs no marker.
    pub fn around(folder: &Path) -> Self {
        let outer = folder.parent().filter(|_| folder.ends_with(FOLDER));
        let marked = outer.and_then(Self::marked_in);
        (marked.filter(|home| home.folder == folder)).unwrap_or_else(|| Self {
            made: true,
            ..Self::new(folder, Layout::TopLevel)
        })
    }

    /// Returns a home that is not marked yet. `folder` is the folder around it.
    pub fn new(folder: &Path, layout: Layout) -> Self {
        let folder = match layout {
            Layout::TopLevel => folder.to_owned(),
            Layout::Project | Layout::Apart => folder.join(FOLDER),
        };
        Self {
            folder,
            layout,
            made: false,
        }
    }

    /// Returns the home of a folder, if it has one that is marked.
    pub fn marked_in(folder: &Path) -> Option<Self> {
        let within = folder.join(FOLDER);
        // A link may lead to a folder of another user.
        own_files::folder(&within).ok()?;
        let marker = own_files::file(OpenOptions::new().read(true), &within.join(MARKER)).ok()?;
        // Another user, such as in a folder for temporary files, does not decide what is run here.
        if !own_files::is_mine(&marker.metadata().ok()?) {
            return None;
        }
        let text = bounded_read::read(marker, MARKER_CAP).ok()?;
        Some(Self {
            made: true,
            ..Self::new(folder, known_word(text.trim())?)
        })
    }

    /// Returns the absolute folder that relative paths of the configuration start from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns whether there is nothing left to be made.
    pub fn made(&self) -> bool {
        self.made
    }

    /// Returns the folder around everything of plan-agent's.
    pub fn outer(&self) -> &Path {
        match self.layout {
            Layout::TopLevel => &self.folder,
            Layout::Project | Layout::Apart => self.folder.parent().unwrap_or(&self.folder),
        }
    }

    /// Returns whether the folder is there without a marker, with a configuration that a person may have written into it.
    ///
    /// # Errors
    /// It has other files in it, or is no folder of this user.
    pub fn is_by_hand(&self) -> io::Result<bool> {
        if self.made || self.folder.symlink_metadata().is_err() {
            return Ok(false);
        }
        let unused = check_unused(&self.folder, true);
        match self.is_marked() {
            true => Ok(false),
            false => unused.map(|()| self.folder.join(FILE_NAME).exists()),
        }
    }

    /// Returns whether it has its marker now: another process may have made it since it was looked up, and have put files there.
    fn is_marked(&self) -> bool {
        Self::marked_in(self.outer()).is_some_and(|home| home.folder == self.folder)
    }

    /// Makes what is missing: the folder, the rule that keeps git out of it, and then the marker. A crash in between leaves a
    /// folder that the next call goes on with. A folder with a configuration in it is taken over if it is `confirmed`.
    ///
    /// # Errors
    /// The folder has other files in it, or the file system refuses.
    pub fn make(&mut self, confirmed: bool) -> io::Result<()> {
        if self.made {
            return Ok(());
        }
        let folder = self.outer().join(FOLDER);
        let unused = match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                check_unused(&folder, confirmed && self.layout != Layout::TopLevel)
            }
            made => made,
        };
        if !self.is_marked() {
            unused?;
            // The top level is meant to be shared: there the marker goes into the history with everything else.
            if self.layout != Layout::TopLevel {
                write(&folder.join(IGNORE), IGNORE_ALL)?;
            }
            write(&folder.join(MARKER), &format!("{}\n", self.layout.as_str()))?;
        }
        self.made = true;
        Ok(())
    }
}

/// Returns whether a folder is the top of a git work tree: `.git` is a repository, or the link of a linked work tree.
fn is_git_top(folder: &Path) -> bool {
    let git = folder.join(".git");
    git.is_file() || git.join("HEAD").exists()
}

/// Refuses a folder in which there is more than a crash or an agent can have left, and a configuration where there may be one.
fn check_unused(folder: &Path, configured: bool) -> io::Result<()> {
    let opened = own_files::folder(folder).map_err(|_| own_files::refused("it is no folder"))?;
    if !own_files::is_mine(&opened.metadata()?) {
        return Err(own_files::refused("it belongs to another user"));
    }
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let known = match &*name {
            IGNORE => bounded_read::read_file(&folder.join(IGNORE), MARKER_CAP)
                .is_ok_and(|text| text.is_empty() || text == IGNORE_ALL),
            // Half-written, or made by another process meanwhile.
            MARKER => true,
            FILE_NAME => configured && folder.join(FILE_NAME).symlink_metadata()?.is_file(),
            name => name.starts_with(REPORT),
        };
        if !known {
            let message = format!("it has `{name}` in it, which is not plan-agent's");
            return Err(own_files::refused(&message));
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = own_files::file(options.write(true).create(true), path)?;
    // Another process may write the same, and a third one read it: it is never empty in between.
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn made(folder: &Path, layout: Layout) -> Home {
        fs::create_dir_all(folder).unwrap();
        let mut home = Home::new(folder, layout);
        home.make(false).unwrap();
        home
    }

    #[test]
    fn home_is_found_upwards_within_the_project() {
        let root = tempfile::tempdir().unwrap();
        let [outside, project] = ["", "project"].map(|name| root.path().join(name));
        let below = project.join("src/deep");
        fs::create_dir_all(&below).unwrap();
        let around = made(&outside, Layout::TopLevel);
        assert_eq!(Home::find(&below), around);
        fs::create_dir(project.join(".git")).unwrap();
        assert_eq!(Home::find(&below), around);
        fs::write(project.join(".git/HEAD"), "").unwrap();
        let expected = Home::new(&project, Layout::Project);
        assert_eq!(Home::find(&below), expected);
        assert_eq!(expected.folder(), project.join(".plan-agent"));
        let home = made(&project, Layout::Project);
        assert_eq!(Home::find(&below), home);
        assert_eq!(Home::find(home.folder()), home);
        assert_eq!(Home::around(home.folder()), home);
        assert_eq!(home.outer(), project);
        assert_eq!(
            fs::read_to_string(home.folder().join(".gitignore")).unwrap(),
            "*\n"
        );
        let nearest = made(&below, Layout::Apart);
        assert_eq!(Home::find(&below), nearest);
    }

    #[test]
    fn home_that_another_process_made_is_used() {
        let root = tempfile::tempdir().unwrap();
        let [mut first, mut second] = [(); 2].map(|()| Home::new(root.path(), Layout::Project));
        first.make(false).unwrap();
        fs::create_dir(first.folder().join("volumes")).unwrap();
        assert!(!second.is_by_hand().unwrap());
        second.make(true).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn configuration_by_hand_is_taken_over_once_confirmed() {
        let root = tempfile::tempdir().unwrap();
        let mut home = Home::new(root.path(), Layout::Project);
        assert!(!home.is_by_hand().unwrap());
        fs::create_dir(home.folder()).unwrap();
        fs::write(home.folder().join("config.toml"), "").unwrap();
        assert!(home.is_by_hand().unwrap());
        fs::write(home.folder().join("notes"), "").unwrap();
        home.is_by_hand().unwrap_err();
        home.make(true).unwrap_err();
        fs::remove_file(home.folder().join("notes")).unwrap();
        home.make(false).unwrap_err();
        home.make(true).unwrap();
        assert!(!home.is_by_hand().unwrap());
        assert!(Home::find(home.folder()).made());
        let mut other = Home::new(root.path(), Layout::TopLevel);
        fs::remove_file(home.folder().join("layout")).unwrap();
        other.make(true).unwrap_err();
    }

    #[test]
    fn foreign_files_are_no_home() {
        let root = tempfile::tempdir().unwrap();
        let here = root.path();
        fs::write(here.join("config.toml"), "[package]\n").unwrap();
        // Whatever is around the folder for temporary files.
        fs::write(here.join(".git"), "gitdir: elsewhere\n").unwrap();
        let expected = Home::new(here, Layout::Project);
        assert_eq!(Home::find(here), expected);
        let within = here.join(".plan-agent");
        type Foreign = fn(&Path);
        let foreign: [Foreign; 5] = [
            |path| fs::write(path, "theirs").unwrap(),
            |path| symlink("elsewhere", path).unwrap(),
            |path| {
                fs::create_dir(path).unwrap();
                fs::write(path.join("config.toml"), "").unwrap();
            },
            |path| {
                fs::create_dir(path).unwrap();
                fs::write(path.join(".gitignore"), "*.o\n").unwrap();
            },
            |path| {
                fs::create_dir(path).unwrap();
                symlink("../config.toml", path.join("layout")).unwrap();
            },
        ];
        for (at, make) in foreign.iter().enumerate() {
            make(&within);
            assert_eq!(Home::find(here), expected, "{at}");
            let refused = expected.clone().make(false).unwrap_err();
            assert_eq!(
                refused.kind(),
                io::ErrorKind::InvalidData,
                "{at}: {refused}"
            );
            let removed = fs::remove_file(&within).or_else(|_| fs::remove_dir_all(&within));
            removed.unwrap();
        }
        // What a crash, or an agent before this program, has left.
        fs::create_dir(&within).unwrap();
        for name in ["layout", ".gitignore", "report-task-1.md"] {
            fs::write(within.join(name), "").unwrap();
        }
        { expected }.make(false).unwrap();
        assert!(Home::find(here).made());
        assert!(within.join("report-task-1.md").exists());
    }
}
