//! Worktrees as they are found after kills, and after agents and people did as they liked.

use super::*;
use crate::exec::git::person;

struct Given {
    root: tempfile::TempDir,
    project: Project,
    head: String,
}

impl Given {
    /// Makes a project with a commit; `None` without git.
    async fn new() -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("project");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a"), "a\n").unwrap();
        fs::write(folder.join(".gitignore"), "built\n").unwrap();
        person::git(&folder, &["init", "--quiet"])?;
        person::git(&folder, &["add", "."]);
        person::git(&folder, &["commit", "--quiet", "-m", "begin"]);
        let (repository, head) = project_head(&folder, None).await.unwrap();
        let trees = root.path().join("trees/plan");
        let project = Project::open(&folder, &repository, &trees).await.unwrap();
        let project = project.one_at_a_time();
        Some(Self {
            root,
            project,
            head,
        })
    }

    /// Makes a project, and the worktree of a task.
    async fn with_worktree() -> Option<(Self, TaskWorktree)> {
        let given = Self::new().await?;
        let place = given.laid_out().await;
        Some((given, place))
    }

    fn place(&self) -> TaskWorktree {
        TaskWorktree {
            folder: self.root.path().join("trees/plan/task-1"),
            branch: "plan-agent-task/plan/1".to_owned(),
        }
    }

    async fn laid_out(&self) -> TaskWorktree {
        let place = self.place();
        self.project.lay_out(&place, &self.head).await.unwrap();
        place
    }

    /// Checks a commit out aside.
    async fn aside(&self, commit: &str) -> PathBuf {
        let aside = self.project.check_out("merge", commit).await.unwrap();
        aside.folder().to_owned()
    }

    /// Commits another change of `a` aside.
    async fn theirs(&self) -> (PathBuf, String) {
        let aside = self.aside(&self.head).await;
        fs::write(aside.join("a"), "theirs\n").unwrap();
        person::git(&aside, &["commit", "--quiet", "--all", "-m", "theirs"]);
        let theirs = person::git(&aside, &["rev-parse", "HEAD"]).unwrap();
        (aside, theirs)
    }

    async fn branch(&self) -> Option<String> {
        let name = format!("refs/heads/{}", self.place().branch);
        self.project.git.resolve(&name).await.unwrap()
    }

    /// Removes a worktree, and returns whether it and its branch are gone.
    async fn removed(&self, place: &TaskWorktree, tip: &str) -> bool {
        let places = std::slice::from_ref(place);
        self.project.remove(places, tip).await.unwrap();
        !place.folder.exists() && self.branch().await.is_none()
    }

    async fn kept(&self) -> String {
        let kept = self.project.commit_work(&self.place(), "left").await;
        kept.unwrap()
    }

    async fn unclear(&self) -> String {
        match self.project.commit_work(&self.place(), "left").await {
            Err(GitError::Unclear(reason)) => reason,
            kept => panic!("{kept:?}"),
        }
    }
}

/// Runs git in a task's worktree, as its agent does.
fn git(place: &TaskWorktree, words: &[&str]) -> String {
    person::git(&place.folder, words).unwrap()
}

#[tokio::test]
async fn worktree_is_created_once_and_repaired() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    fs::write(place.folder.join("a"), "changed\n").unwrap();
    given.laid_out().await;
    let text = || fs::read_to_string(place.folder.join("a")).unwrap();
    assert_eq!(text(), "changed\n", "what an agent did stays");
    // As if the daemon had been killed before it knew that all is there.
    fs::write(place.folder.join("a"), "a\n").unwrap();
    let own = given.project.worktree(&place.folder).await.unwrap();
    let ready = own.unwrap().own_path(READY);
    fs::remove_file(&ready).unwrap();
    given.laid_out().await;
    assert!(ready.exists());
    // As if git had been killed among the files: only it has written there.
    fs::rename(&ready, ready.with_file_name(BEGUN)).unwrap();
    fs::write(ready.with_file_name("index.lock"), "").unwrap();
    fs::write(place.folder.join("a"), "").unwrap();
    given.laid_out().await;
    assert_eq!(text(), "a\n");
    assert!(ready.exists() && !ready.with_file_name(BEGUN).exists());
    // As if git had been killed before the files: there is nothing but its link.
    let link = fs::read(place.folder.join(".git")).unwrap();
    fs::remove_dir_all(&place.folder).unwrap();
    fs::create_dir(&place.folder).unwrap();
    fs::write(place.folder.join(".git"), link).unwrap();
    fs::remove_dir_all(ready.parent().unwrap()).unwrap();
    given.laid_out().await;
    assert_eq!(text(), "a\n");
    // As if somebody had made the folder anew: nobody knows what is in it.
    fs::remove_file(&ready).unwrap();
    fs::write(place.folder.join("a"), "whose?\n").unwrap();
    given.laid_out().await;
    assert_eq!(text(), "a\n");
    let aside = place.folder.with_file_name("task-1.aside-1");
    assert_eq!(fs::read_to_string(aside.join("a")).unwrap(), "whose?\n");
    // A folder that is no worktree, or whose repository knows it no more.
    fs::remove_dir_all(&place.folder).unwrap();
    fs::create_dir(&place.folder).unwrap();
    fs::write(place.folder.join("mine"), "").unwrap();
    given.laid_out().await;
    let aside = place.folder.with_file_name("task-1.aside-2");
    assert!(aside.join("mine").exists());
    assert_eq!(text(), "a\n");
    // Gone altogether: the branch has what was kept.
    fs::write(place.folder.join("b"), "b\n").unwrap();
    let head = given.kept().await;
    fs::remove_dir_all(&place.folder).unwrap();
    given.laid_out().await;
    assert_eq!(fs::read_to_string(place.folder.join("b")).unwrap(), "b\n");
    assert_eq!(given.kept().await, head);
}

#[tokio::test]
async fn agent_changes_are_committed_on_task_branch() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    assert_eq!(given.kept().await, given.head, "nothing was done");
    // As the daemon does it: git takes the name of what it ignores for a mistake.
    let exclude = given.root.path().join("project/.git/info/exclude");
    fs::write(exclude, format!("{AGENT_FOLDER}/\n")).unwrap();
    fs::create_dir(place.folder.join(AGENT_FOLDER)).unwrap();
    for name in [".plan-agent/report.md", "built", "new"] {
        fs::write(place.folder.join(name), "x").unwrap();
    }
    let head = given.kept().await;
    let words = ["show", "--format=%an %ae %s", "--name-only", &head];
    let shown = git(&place, &words);
    assert_eq!(shown, "plan-agent plan-agent@localhost left\n\nnew");
    // On a branch of its own the agent goes on from there, and the task's branch follows.
    git(&place, &["switch", "--quiet", "-c", "mine"]);
    fs::write(place.folder.join("more"), "x").unwrap();
    let more = given.kept().await;
    assert_eq!(given.branch().await.as_ref(), Some(&more));
    let mine = given.project.git.resolve("refs/heads/mine").await.unwrap();
    assert_eq!(mine, Some(head), "the agent's branch stays where it was");
    // Elsewhere it cannot be told what the result is, and nothing is touched.
    let words = ["switch", "--quiet", "--detach", &given.head];
    git(&place, &words);
    fs::write(place.folder.join("lost"), "x").unwrap();
    let reason = given.unclear().await;
    let switch = "git switch plan-agent-task/plan/1";
    assert!(reason.contains(switch), "{reason}");
    assert_eq!(given.branch().await, Some(more));
    git(&place, &["switch", "--quiet", &place.branch]);
    let own = given.project.worktree(&place.folder).await.unwrap();
    let lock = own.unwrap().own_path("index.lock");
    fs::write(&lock, "").unwrap();
    let reason = given.unclear().await;
    assert!(reason.contains("index.lock"), "{reason}");
    // One that a daemon left when it was ended while it committed is its own to remove.
    fs::write(place.folder.join("cut"), "x").unwrap();
    fs::write(lock.with_file_name(KEEPING), "").unwrap();
    given.project.commit_work(&place, "again").await.unwrap();
    assert!(!lock.exists() && !lock.with_file_name(KEEPING).exists());
    fs::remove_dir_all(&place.folder).unwrap();
    let reason = given.unclear().await;
    assert!(reason.contains("is no git worktree any more"), "{reason}");
}

#[tokio::test]
async fn nothing_is_merged_into_a_branch_that_is_not_the_task_s() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let (_, theirs) = given.theirs().await;
    git(&place, &["switch", "--quiet", "-c", "other"]);
    given.project.begin_merge(&place, &theirs).await.unwrap();
    given.project.bring_forward(&place, &theirs).await.unwrap();
    assert_eq!(git(&place, &["rev-parse", "HEAD"]), given.head);
    assert_eq!(git(&place, &["status", "--porcelain"]), "");
    git(&place, &["switch", "--quiet", &place.branch]);
    given.project.begin_merge(&place, &theirs).await.unwrap();
    assert_ne!(git(&place, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn conflict_is_resolved_in_worktree() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    fs::write(place.folder.join("a"), "ours\n").unwrap();
    let ours = given.kept().await;
    let (aside, theirs) = given.theirs().await;
    let merged = given.project.merge(&theirs, &ours, "both").await.unwrap();
    let Merged::Conflict { text, .. } = merged else {
        panic!("{merged:?}");
    };
    for part in ["`a`", "ours", "theirs"] {
        assert!(text.contains(part), "{text}");
    }
    for _ in 0..2 {
        // Twice, as after a kill.
        given.project.begin_merge(&place, &theirs).await.unwrap();
        let reason = given.unclear().await;
        assert!(reason.contains("marks of a conflict: `a`"), "{reason}");
    }
    fs::write(place.folder.join("a"), "both\n").unwrap();
    let both = given.kept().await;
    let merged = given.project.merge(&theirs, &both, "both").await.unwrap();
    let Merged::Commit(commit) = merged else {
        panic!("{merged:?}");
    };
    let parents = ["show", "--no-patch", "--format=%P", &commit];
    let parents = git(&place, &parents);
    assert_eq!(parents, format!("{theirs} {both}"));
    given.project.begin_merge(&place, &theirs).await.unwrap();
    assert_eq!(given.kept().await, both, "it is merged in already");
    // Whatever a check does there, the next result is laid out whole.
    fs::write(aside.join("a"), "dirty").unwrap();
    fs::write(aside.join("left"), "").unwrap();
    fs::write(aside.join("built"), "").unwrap();
    let aside = given.aside(&commit).await;
    assert_eq!(fs::read_to_string(aside.join("a")).unwrap(), "both\n");
    assert!(!aside.join("left").exists() && !aside.join("built").exists());
    fs::remove_file(aside.join(".git")).unwrap();
    let aside = given.aside(&commit).await;
    assert!(aside.join(".git").exists());
}

#[tokio::test]
async fn only_merged_clean_worktree_is_removed() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let put_away = async |tip: &str| given.removed(&place, tip).await;
    fs::write(place.folder.join("b"), "b\n").unwrap();
    assert!(!put_away(&given.head).await, "it is in no commit");
    let head = given.kept().await;
    assert!(!put_away(&given.head).await, "it is not accepted");
    fs::write(place.folder.join("built"), "").unwrap();
    assert!(!put_away(&head).await, "nobody else has what git ignores");
    fs::remove_file(place.folder.join("built")).unwrap();
    git(&place, &["switch", "--quiet", "--detach", &given.head]);
    assert!(!put_away(&head).await, "somebody works elsewhere in it");
    git(&place, &["switch", "--quiet", &place.branch]);
    let lock = ["worktree", "lock", place.folder.to_str().unwrap()];
    git(&place, &lock);
    assert!(!put_away(&head).await, "the person has locked it");
    git(&place, &["worktree", "unlock", lock[2]]);
    let elsewhere = place.folder.with_file_name("elsewhere");
    let [here, there] = [&place.folder, &elsewhere].map(|path| path.to_str().unwrap());
    git(&place, &["worktree", "move", here, there]);
    put_away(&head).await;
    assert!(given.branch().await.is_some(), "it is checked out there");
    person::git(&elsewhere, &["worktree", "move", there, here]).unwrap();
    assert!(put_away(&head).await);
    assert!(put_away(&head).await, "again, as after a kill");
    let known = given.project.worktrees.read_dir().unwrap().count();
    assert_eq!(known, 0, "git knows it no more");
}

/// Who may do everything, as in a container, meets no such rights.
#[tokio::test]
async fn read_only_folders_are_removed_and_unreadable_ones_stay() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let rights = |folder: &Path, mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(folder, mode).unwrap();
    };
    let read_only = |folder: &Path| {
        let cache = folder.join("built/cache");
        fs::create_dir_all(&cache).unwrap();
        fs::write(cache.join("file"), "x").unwrap();
        for folder in [&*cache, &folder.join("built"), folder] {
            rights(folder, 0o555);
        }
    };
    let unread = place.folder.join("unread");
    fs::create_dir(&unread).unwrap();
    fs::write(unread.join("work"), "x").unwrap();
    rights(&unread, 0);
    let removed = async || given.project.remove_worktree(&place, true).await.unwrap();
    assert!(!removed().await, "git cannot see what is in it");
    rights(&unread, 0o700);
    fs::remove_dir_all(unread).unwrap();
    read_only(&place.folder);
    assert!(removed().await && !place.folder.exists());
    // What an earlier try has left.
    let left = given.project.folder.join(REMOVED);
    read_only(&left.join("task-2"));
    given.project.remove_checks().await.unwrap();
    assert!(!left.exists());
    fs::write(&left, "").unwrap();
    let error = remove_folder(left.clone()).await.unwrap_err().to_string();
    assert!(error.contains(left.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn removal_survives_kill_at_any_point() {
    for killed_behind_data in [false, true] {
        let Some((given, place)) = Given::with_worktree().await else {
            return;
        };
        let head = given.kept().await;
        let own = given.project.worktree(&place.folder).await.unwrap();
        let own = own.unwrap().own_path("");
        // One of the person, whose disk is away.
        let theirs = given.project.worktrees.join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("gitdir"), "/away/theirs/.git\n").unwrap();
        let aside = given.project.folder.join(REMOVED);
        fs::create_dir(&aside).unwrap();
        fs::rename(&place.folder, aside.join("task-1")).unwrap();
        if killed_behind_data {
            fs::remove_dir_all(&own).unwrap();
        }
        given.project.remove_checks().await.unwrap();
        assert!(!aside.join("task-1").exists() && !own.exists() && theirs.exists());
        assert!(given.removed(&place, &head).await);
        // What was left of an earlier one costs nothing that is made anew.
        let place = given.laid_out().await;
        fs::create_dir_all(aside.join("task-1")).unwrap();
        given.project.remove_checks().await.unwrap();
        assert!(
            given
                .project
                .worktree(&place.folder)
                .await
                .unwrap()
                .is_some()
        );
    }
}

#[tokio::test]
async fn branch_moves_only_from_expected_commit() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    fs::write(place.folder.join("b"), "b\n").unwrap();
    let (first, second) = (given.head.clone(), given.kept().await);
    let moved = async |to: &str, expected: Option<&str>| {
        let moved = given.project.move_branch("plan-agent/x", to, expected);
        moved.await.unwrap()
    };
    for _ in 0..2 {
        // Twice, as after a kill.
        assert_eq!(moved(&first, None).await, BranchMove::There);
    }
    let elsewhere = BranchMove::Elsewhere(Some(first.clone()));
    assert_eq!(moved(&second, None).await, elsewhere);
    assert_eq!(moved(&second, Some(&first)).await, BranchMove::There);
    let ahead = BranchMove::Ahead(second.clone());
    assert_eq!(moved(&first, Some(&second)).await, ahead);
    let delete = "branch --quiet -D plan-agent/x";
    given.project.git.bytes(delete, &[]).await.unwrap();
    let nowhere = BranchMove::Elsewhere(None);
    assert_eq!(moved(&first, Some(&second)).await, nowhere);
}

#[tokio::test]
async fn conflict_search_skips_pipes() {
    let Some((_given, TaskWorktree { folder, .. })) = Given::with_worktree().await else {
        return;
    };
    for (name, text) in [
        ("marked", "a\n<<<<<<< x\n=======\n>>>>>>> y\n"),
        ("plain", "=======\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("/dev/zero", folder.join("endless")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), kind, mode, 0).unwrap();
    let names = ["pipe", "endless", "gone", "plain"].map(str::to_owned);
    has_no_marks(&folder, names.to_vec()).await.unwrap();
    let names = vec!["pipe".to_owned(), "marked".to_owned()];
    let found = has_no_marks(&folder, names).await.unwrap_err().to_string();
    assert!(found.contains("conflict: `marked`."), "{found}");
}

#[tokio::test]
async fn nested_repository_is_not_committed_or_deleted() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let sub = place.folder.join("sub");
    fs::create_dir(&sub).unwrap();
    person::git(&sub, &["init", "--quiet"]);
    fs::write(sub.join("work"), "x").unwrap();
    // It has no commit yet, so that git itself could not take it.
    let reason = given.unclear().await;
    assert!(reason.contains("`sub`"), "{reason}");
    person::git(&sub, &["add", "work"]);
    let commit = ["commit", "--quiet", "-m", "x"];
    person::git(&sub, &commit);
    let reason = given.unclear().await;
    assert!(reason.contains("repository of its own"), "{reason}");
    assert!(reason.contains("`sub`"), "{reason}");
    assert_eq!(given.branch().await, Some(given.head.clone()));
    // Now the agent commits the link itself.
    git(&place, &["add", "sub"]);
    git(&place, &commit);
    let linked = given.branch().await.unwrap();
    assert!(!given.removed(&place, &linked).await);
    let reason = given.unclear().await;
    assert!(reason.contains("`sub`"), "{reason}");
    fs::remove_dir_all(sub.join(".git")).unwrap();
    let head = given.kept().await;
    let words = ["show", &format!("{head}:sub/work")];
    assert_eq!(git(&place, &words), "x");
    assert!(given.removed(&place, &head).await);
}

#[tokio::test]
async fn files_of_a_submodule_that_is_not_there_are_not_lost() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let link = format!("160000,{},sub", given.head);
    git(&place, &["update-index", "--add", "--cacheinfo", &link]);
    git(&place, &["commit", "--quiet", "-m", "x"]);
    let sub = place.folder.join("sub");
    fs::create_dir(&sub).unwrap();
    let head = given.kept().await;
    fs::write(sub.join("work"), "x").unwrap();
    assert!(!given.removed(&place, &head).await);
    let reason = given.unclear().await;
    assert!(reason.contains("is not here: `sub`"), "{reason}");
    git(&place, &["rm", "--quiet", "--cached", "sub"]);
    let head = given.kept().await;
    let words = ["show", &format!("{head}:sub/work")];
    assert_eq!(git(&place, &words), "x");
}

#[tokio::test]
async fn files_that_git_was_told_to_overlook_are_not_lost() {
    for mark in ["--assume-unchanged", "--skip-worktree"] {
        let Some((given, place)) = Given::with_worktree().await else {
            return;
        };
        let change = |text: &str| {
            git(&place, &["update-index", mark, "a"]);
            fs::write(place.folder.join("a"), text).unwrap();
        };
        change("work");
        let head = given.kept().await;
        assert_eq!(git(&place, &["show", &format!("{head}:a")]), "work");
        change("more work");
        assert!(!given.removed(&place, &head).await, "{mark}");
    }
}

#[tokio::test]
async fn files_that_a_sparse_checkout_leaves_out_are_not_removed() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    git(&place, &["update-index", "--skip-worktree", "a"]);
    fs::remove_file(place.folder.join("a")).unwrap();
    fs::write(place.folder.join("new"), "work").unwrap();
    let head = given.kept().await;
    let before = git(&place, &["show", &format!("{}:a", given.head)]);
    assert_eq!(git(&place, &["show", &format!("{head}:a")]), before);
    assert!(given.removed(&place, &head).await);
}

#[tokio::test]
async fn finds_committed_conflict_marks() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    fs::write(place.folder.join("a"), "ours\n").unwrap();
    let marks = "<<<<<<< x\n=======\n>>>>>>> y\n";
    fs::write(place.folder.join("sample"), marks).unwrap();
    let ours = given.kept().await;
    let left = async |tip: &str, head: &str| {
        let left = given.project.left_no_marks(&place, tip, head).await;
        left.map_err(|error| error.to_string())
    };
    assert_eq!(left(&given.head, &ours).await, Ok(()), "nobody merged");
    fs::remove_file(place.folder.join("sample")).unwrap();
    let (_, theirs) = given.theirs().await;
    given.project.begin_merge(&place, &theirs).await.unwrap();
    git(&place, &["add", "--all"]);
    let head = given.kept().await;
    let reason = left(&theirs, &head).await.unwrap_err();
    assert!(reason.contains("marks of a conflict: `a`."), "{reason}");
    fs::write(place.folder.join("a"), "both\n").unwrap();
    let head = given.kept().await;
    assert_eq!(left(&theirs, &head).await, Ok(()));
}

#[tokio::test]
async fn locked_worktree_of_killed_git_is_recreated() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let folder = place.folder.to_str().unwrap();
    let lock = "worktree lock --reason initializing";
    given.project.git.bytes(lock, &[folder]).await.unwrap();
    fs::remove_dir_all(&place.folder).unwrap();
    given.laid_out().await;
    assert!(place.folder.join("a").exists());
}

#[tokio::test]
async fn symbolic_branch_moves_without_its_target() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    fs::write(place.folder.join("b"), "b\n").unwrap();
    let head = given.kept().await;
    let repository = &given.project.git;
    let theirs = "refs/heads/theirs";
    let words = [theirs, &given.head];
    repository.bytes("update-ref", &words).await.unwrap();
    let words = ["refs/heads/plan-agent/x", theirs];
    repository.bytes("symbolic-ref", &words).await.unwrap();
    let (project, begin) = (&given.project, Some(&*given.head));
    let moved = project.move_branch("plan-agent/x", &head, begin);
    assert_eq!(moved.await.unwrap(), BranchMove::There);
    let stayed = repository.resolve(theirs).await.unwrap();
    assert_eq!(stayed, Some(given.head.clone()));
}

#[tokio::test]
async fn worktree_link_must_match_repository() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let own = given.project.worktree(&place.folder).await.unwrap();
    let own = own.unwrap().own_path("");
    let (link, root) = (place.folder.join(".git"), given.root.path());
    let found = git(&place, &["rev-parse", "--git-dir"]);
    assert_eq!(found, own.to_str().unwrap().trim_end_matches('/'));
    let text = fs::read_to_string(&link).unwrap();
    // Another one of the same name, that of the project, and one that a link leads to.
    let other = root.join("other/worktrees/task-1");
    fs::create_dir_all(&other).unwrap();
    for name in ["HEAD", "gitdir"] {
        fs::copy(own.join(name), other.join(name)).unwrap();
    }
    let aside = own.with_file_name("aside");
    std::os::unix::fs::symlink(&other, &aside).unwrap();
    let (project, none) = (root.join("project/.git"), root.join("none"));
    for named in [&other, &project, &aside, &none] {
        fs::write(&link, format!("gitdir: {}\n", named.display())).unwrap();
        let reason = given.unclear().await;
        assert!(reason.contains("is no git worktree any more"), "{reason}");
        assert_eq!(given.branch().await.as_ref(), Some(&given.head));
    }
    fs::write(&link, text).unwrap();
    assert_eq!(given.kept().await, given.head);
    let marks = fs::read_dir(&other).unwrap().count();
    assert_eq!(marks, 2, "nothing is written where an agent's link leads");
}

/// The loop has one thread, and so has what blocks here: as long as that is taken nothing is removed.
#[test]
fn worktree_removal_does_not_block_event_loop() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build();
    runtime.unwrap().block_on(async {
        let Some(given) = Given::new().await else {
            return;
        };
        let aside = given.aside(&given.head).await;
        fs::remove_file(aside.join(".git")).unwrap();
        let check_out = given.project.check_out("merge", &given.head);
        tokio::pin!(check_out);
        let hold = || {
            let (release, released) = std::sync::mpsc::channel::<()>();
            let (begin, begun) = tokio::sync::oneshot::channel();
            let held = tokio::task::spawn_blocking(move || {
                begin.send(()).unwrap();
                released.recv()
            });
            (release, begun, held)
        };
        let mut go_on = async || {
            tokio::select! {
                biased;
                done = &mut check_out => panic!("{done:?}"),
                () = tokio::task::yield_now() => {}
            }
        };
        // The thread is taken before the folder is examined and again behind that, so that its removal comes after both.
        let (first, _, _) = hold();
        go_on().await;
        let (release, begun, held) = hold();
        drop(first);
        begun.await.unwrap();
        for _ in 0..10 {
            go_on().await;
        }
        let left = aside.join("a").exists();
        assert!(left, "it was removed by the loop's thread");
        drop(release);
        held.await.unwrap().unwrap_err();
        check_out.await.unwrap();
        assert!(aside.join(".git").exists());
    });
}

#[tokio::test]
async fn put_back_survives_kill_at_any_point() {
    let Some((given, place)) = Given::with_worktree().await else {
        return;
    };
    let write = |name: &str, text: &str| fs::write(place.folder.join(name), text).unwrap();
    let read = |name: &str| fs::read_to_string(place.folder.join(name)).unwrap();
    let git = given.project.worktree(&place.folder).await.unwrap();
    let git = git.unwrap();
    let files = ["a".to_owned()];
    let back = async |whole: &str| {
        let title = format!("put back: a; the whole result is commit {whole}");
        let put = given.project.put_back(&place, &given.head, &files, &title);
        put.await.unwrap()
    };
    let text_at = async |commit: &str| {
        let file = format!("{commit}:a");
        git.line("cat-file blob", &[&file]).await.unwrap()
    };
    let changed = async |whole: &str| {
        let changed = given.project.changed_existing(&given.head, whole);
        changed.await.unwrap()
    };
    write("a", "mine\n");
    write("new", "new\n");
    let whole = given.kept().await;
    assert_eq!(changed(&whole).await, files);

    // Killed before the second commit: only the index had it.
    mark(&git, KEEPING).await.unwrap();
    let words = [&given.head, "--", "a"];
    git.bytes("reset --quiet", &words).await.unwrap();
    assert_eq!(given.kept().await, whole);

    let put = back(&whole).await;
    assert_eq!((read("a").as_str(), read("new").as_str()), ("a\n", "new\n"));
    let texts = [text_at(&put).await, text_at(&whole).await];
    assert_eq!(texts, ["a", "mine"]);
    assert_eq!(given.branch().await.unwrap(), put);
    assert_eq!(given.kept().await, put, "nothing else is left");
    assert!(changed(&put).await.is_empty());

    // Killed behind it, before the files were written.
    mark(&git, KEEPING).await.unwrap();
    write("a", "mine\n");
    let again = given.kept().await;
    assert_eq!(text_at(&again).await, "mine");
    let put = back(&again).await;
    assert_eq!([read("a"), text_at(&put).await], ["a\n", "a"]);

    // A file that was removed comes back.
    fs::remove_file(place.folder.join("a")).unwrap();
    let whole = given.kept().await;
    assert_eq!(changed(&whole).await, files);
    back(&whole).await;
    assert_eq!(read("a"), "a\n");
    assert!(!git.own_path(KEEPING).exists());
}
