//! Where the agents of a plan work, in worktrees or in the project itself: decided once, before the plan begins, and said in
//! its first line.

use std::fs::File;
use std::io::{stderr, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::confirm::answer;
use super::{
    App, Failure, FoundPlan, Result, Work, can_ask, complain, print_on_stderr, run_terminal,
    shown_from_here,
};
use crate::agents::Agent;
use crate::config::Isolation;
use crate::exec::{Project, ProjectError, project_head};
use crate::own_files;
use crate::plan::{Draft, MERGE_CHECK, PlanHead, PlanId, SessionScope};
use crate::view;
use crate::wire::{RoleWorker, joined, one_line, sha256};

/// The most uncommitted files that are named.
const NAMED: usize = 12;

/// The most characters of a folder's name, and of its path's hash, in the name of the folder for its worktrees.
const NAME: usize = 40;
const HASH: usize = 8;

/// What each answer means for files that are in no commit.
const EXPLAINED: &str = "
    commit   it waits while you commit; then agents begin with your changes
    go       agents begin at the last commit; where a result changes one of these
             files, `merge` refuses until you have committed yours
    shared   agents work on your files as they are: no branch, nothing to merge
    Words may be shortened; Ctrl-C makes no plan.
";

/// What a worktree of a project would not contain.
struct ProjectFiles {
    /// The branch that is checked out.
    branch: Option<String>,
    uncommitted: Vec<String>,
    submodules: bool,
    /// The clone has not all files of its last commit.
    partial: bool,
}

impl Work {
    /// Decides for a new plan whether its tasks have worktrees, and prints where agents work.
    ///
    /// # Errors
    /// Worktrees are configured, and impossible.
    pub async fn decide_isolation(&self, head: &mut PlanHead) -> Result {
        head.isolated = Some(self.wants_worktrees(head).await?);
        if head.is_isolated() && head.queue.is_some() {
            let branch = files_of(Path::new(&head.workspace)).await?.branch;
            head.branch = branch.map(Into::into);
        }
        self.require_for_relays(head)?;
        self.print_place(head)
    }

    /// As [`Work::decide_isolation`] for a plan that goes on: one that has begun stays where it is.
    ///
    /// # Errors
    /// As [`Work::decide_isolation`], or the decision cannot be stored.
    pub async fn resume_isolation(&self, found: &mut FoundPlan) -> Result {
        let head = &mut found.head;
        if head.status.settled() {
            return Ok(());
        }
        if head.isolated.is_none() && head.line.is_none() && !found.begun {
            self.decide_isolation(head).await?;
            let isolated = head.is_isolated();
            let decide = move |draft: &mut Draft<'_>| {
                draft.decide_isolation(isolated);
                Ok(())
            };
            let why = "decided where agents work";
            return self.app.change(&head.id, why, decide).await;
        }
        self.require_for_relays(head)?;
        if head.is_isolated() {
            return self.print_place(head);
        }
        if self.app.config.run.isolation == Isolation::Worktree {
            complain!("! the plan began in a shared workspace and goes on there");
        }
        Ok(())
    }

    /// Agents on other machines work in clones of the project, on commits that the server brings there; without git it brings the
    /// files that tasks produce.
    fn require_for_relays(&self, head: &PlanHead) -> Result {
        if !self.workers.use_relays() {
            return Ok(());
        }
        let workspace = Path::new(&head.workspace);
        let (why, hint) = if !self.app.place.is_shared() {
            let why = "relays meet a daemon on a PostgreSQL server, and none is named";
            (why, "[store] url in config.toml, or PLAN_AGENT_STORE_URL")
        } else if self.app.config.project_in(workspace).is_none() {
            let hint = "give it one in config.toml, under [projects]: `app = \"FOLDER\"`";
            let why = "relays know a project by its id, and this one has none";
            (why, hint)
        } else if !head.is_isolated() && workspace.join(".git").symlink_metadata().is_ok() {
            let why = "relays work on the commits of a git project, so its tasks need worktrees";
            (why, "isolation = \"worktree\" under [run]")
        } else {
            return Ok(());
        };
        Err(Failure::usage(anyhow!(why)).hint(hint))
    }

    async fn wants_worktrees(&self, head: &PlanHead) -> Result<bool> {
        let (workspace, wanted) = (Path::new(&head.workspace), self.app.config.run.isolation);
        let mut possible = match wanted {
            Isolation::Shared => return Ok(false),
            Isolation::Worktree => Ok(files_of(workspace).await?),
            Isolation::Auto => self.possible(workspace).await?,
        };
        loop {
            let uncommitted = match possible {
                Ok(files) => self.app.not_ours(workspace, files.uncommitted),
                Err(None) => return Ok(false),
                Err(Some(why)) => {
                    let place = shown_from_here(workspace);
                    complain!("! no worktrees, agents share `{place}`: {why}");
                    return Ok(false);
                }
            };
            if uncommitted.is_empty() {
                return Ok(true);
            }
            if !(run_terminal::may_ask(&self.how) && can_ask()) {
                let files = list(&uncommitted);
                if wanted == Isolation::Worktree {
                    complain!(
                        "! the project has changes that are in no commit, and agents begin without them: {files}"
                    );
                    return Ok(true);
                }
                complain!(
                    "! no worktrees, agents share the project: it has changes that are in no commit: {files}\nHint: commit them; isolation = \"worktree\" under [run] goes on without them"
                );
                return Ok(false);
            }
            match ask(&uncommitted, workspace).await? {
                "go" => return Ok(true),
                "shared" => return Ok(false),
                // They are to be committed by now, or the answer is unclear.
                _ => possible = Ok(files_of(workspace).await?),
            }
        }
    }

    /// Returns what worktrees of a project would not contain; or why its tasks share the workspace with these workers, which is
    /// not said where no worktrees are expected.
    ///
    /// # Errors
    /// Git fails: that does not let agents loose on the person's own files.
    async fn possible(&self, workspace: &Path) -> Result<Result<ProjectFiles, Option<String>>> {
        let app = &self.app;
        let no = |why: &str| Ok(Err(Some(why.to_owned())));
        // No worktrees are expected of a folder that is no project, nor of one of ours within a project.
        if workspace.join(".git").symlink_metadata().is_err() {
            let ours = workspace.starts_with(app.config.root());
            return Ok(Err(match project_head(workspace, None).await {
                Err(error @ ProjectError::Within { .. }) if !ours => Some(error.to_string()),
                _ => None,
            }));
        }
        let roles = || app.team.iter().flat_map(|file| &file.team.roles);
        if roles().any(|role| role.worker == Some(RoleWorker::External)) {
            return no("a role of the team is external, and may work elsewhere");
        }
        match &self.workers.general {
            Some(Agent::Shell(_)) => return no("`--agent shell` runs what the plan says"),
            None if app.team.is_none() => {
                return no("no --agent is named, and who takes the commands may work elsewhere");
            }
            _ => {}
        }
        if app.config.run.session == SessionScope::Plan {
            return no("session = \"plan\" stays in one folder");
        }
        if app.config.checks.contains_key(MERGE_CHECK) {
            return no("[checks] defines `merge`, and merging is the check of that name");
        }
        match files_of(workspace).await {
            Ok(files) if files.partial => no(
                "the clone is partial and lacks files of its last commit, which `git sparse-checkout disable` fetches",
            ),
            Ok(files) if files.submodules => {
                no("the project has submodules, which worktrees would not contain")
            }
            Ok(files) => Ok(Ok(files)),
            Err(error @ ProjectError::Git(_)) => Err(error.into()),
            Err(error) => no(&error.to_string()),
        }
    }

    /// Prints where the agents of a plan work, and how their results come back.
    fn print_place(&self, head: &PlanHead) -> Result {
        let app = &self.app;
        if self.how.json {
            return Ok(());
        }
        let folder = match &head.line {
            _ if !head.is_isolated() => PathBuf::from(&head.workspace),
            // That of a plan that was taken over is made when it begins here.
            Some(line) if !line.folder.is_empty() => PathBuf::from(&line.folder),
            _ => app.worktrees(head),
        };
        let folder = shown_from_here(&folder);
        let mut place = view::place_of_agents(head, &folder, &app.program);
        // Who is in one part of a project may mean that part.
        let (whole, here) = (Path::new(&head.workspace), std::env::current_dir());
        let within = here.is_ok_and(|here| here != whole && here.starts_with(whole));
        if within && head.is_isolated() {
            place = format!("{place}; they work on all of `{}`", shown_from_here(whole));
        }
        app.say(&place)
    }
}

impl App {
    /// Returns the folder for the worktrees of a plan's tasks, where they get some.
    pub fn worktrees(&self, head: &PlanHead) -> PathBuf {
        self.worktrees_in("worktrees", &head.id, Path::new(&head.workspace))
    }

    /// Returns the folder for worktrees of a kind: those of a plan's tasks, or those in which agents here work for a daemon of
    /// another machine, in a clone.
    pub fn worktrees_in(&self, kind: &str, plan: &PlanId, project: &Path) -> PathBuf {
        if let Some(folder) = &self.config.run.worktrees {
            let of_kind = if kind == "relay" { kind } else { "" };
            let folder = self.config.folder().join(folder).join(of_kind);
            return folder.join(plan.as_str());
        }
        let Some(states) = self.environment.state_folder() else {
            return self.volumes.worktrees(plan);
        };
        let project = states.join(kind).join(folder_name(project));
        project.join(plan.as_str())
    }

    /// Returns the uncommitted files of the person: without this program's own, and without those that it prints into.
    fn not_ours(&self, workspace: &Path, mut uncommitted: Vec<String>) -> Vec<String> {
        let mut own = vec![self.config.root(), self.config.prompts_dir()];
        own.extend(self.config.file().map(Path::to_owned));
        let printed = [
            stdout().as_fd().try_clone_to_owned(),
            stderr().as_fd().try_clone_to_owned(),
        ];
        let printed: Vec<File> = printed.into_iter().flatten().map(File::from).collect();
        let is_own = |path: &Path| {
            own.iter().any(|own| path.starts_with(own))
                || printed.iter().any(|file| own_files::is_at(file, path))
        };
        uncommitted.retain(|path| !is_own(&workspace.join(path)));
        uncommitted
    }

    /// Returns where the results of a plan are, and what to type next to get them.
    pub fn place_of_work(&self, head: &PlanHead) -> String {
        let (folder, mission_folder) = (Path::new(&head.workspace), self.mission_folder(head));
        let mission = shown_from_here(&mission_folder.join("MISSION.md"));
        let place = view::place_of_results(head, &shown_from_here(folder), &self.program);
        if head.line.is_none() && folder == mission_folder {
            return format!("{place}, and MISSION.md there tells about it.");
        }
        let what = if head.results.is_some() { "them" } else { "it" };
        format!("{place}. `{mission}` tells about {what}.")
    }

    /// Returns the folder with the MISSION.md of a plan: beside other plans it has a place of its own.
    pub fn mission_folder(&self, head: &PlanHead) -> PathBuf {
        let aside = self.volumes.mission_aside(&head.id);
        match aside.join("MISSION.md").exists() {
            true => aside,
            false => self.config.mission_folder(Path::new(&head.workspace)),
        }
    }

    /// Returns what a person types to take the results of a plan over.
    pub fn merge_command(&self, head: &PlanHead) -> String {
        format!("{} merge {}", self.program, head.id)
    }
}

/// Returns what worktrees of a project would not contain.
///
/// # Errors
/// It can have none.
async fn files_of(workspace: &Path) -> Result<ProjectFiles, ProjectError> {
    let (repository, _) = project_head(workspace, None).await?;
    let aside = tempfile::tempdir().map_err(crate::exec::GitError::from)?;
    let project = Project::open(workspace, &repository, aside.path()).await?;
    let partial = project.lacks_files().await?;
    Ok(ProjectFiles {
        branch: project.branch().await?,
        uncommitted: project.uncommitted().await?,
        submodules: !partial && project.has_submodules().await?,
        partial,
    })
}

/// Asks the person what to do with uncommitted files: `commit`, `go` or `shared`; anything else is unclear.
async fn ask(files: &[String], workspace: &Path) -> Result<&'static str> {
    let many = match files.len() {
        1 => "one file of the project is".to_owned(),
        many => format!("{many} files of the project are"),
    };
    let (files, place) = (list(files), shown_from_here(workspace));
    let question = format!(
        "\n? {many} in no commit, and worktrees begin at a commit:\n  {files}\n    commit   commit them first, in another terminal\n    go       go on without them\n    shared   no worktrees: agents work in `{place}` itself\n  commit · go · shared · ? > "
    );
    let word = answer(&question).await?;
    if word == "?" {
        print_on_stderr(EXPLAINED);
    }
    let mut words = ["commit", "go", "shared"].into_iter();
    let meant = words.find(|known| !word.is_empty() && known.starts_with(&word));
    if meant == Some("commit") {
        answer("  press Enter when they are committed > ").await?;
    }
    Ok(meant.unwrap_or_default())
}

fn list(files: &[String]) -> String {
    let named = files.iter().take(NAMED).map(|file| one_line(file, 80));
    let more = files.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("{more} more"));
    joined(named.chain(rest), ", ")
}

/// Returns a name for the folder with the worktrees of a project: no two projects share one.
pub fn folder_name(project: &Path) -> String {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let kept = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name: String = name.chars().filter(|c| kept(*c)).take(NAME).collect();
    let hash = sha256(project.as_os_str().as_encoded_bytes());
    format!("{name}-{}", &hash[..HASH])
}
