//! Plans whose tasks have a worktree and a branch of their own, with the real git.

use std::path::Path;

use super::*;
use crate::common::disk::SmallDisk;
use crate::common::git::{Project, git};

/// A scene next to a git project.
struct Isolated {
    scene: Scene,
    project: Project,
}

fn isolated(config: &str) -> Option<Isolated> {
    let scene = Scene::by_rules(&format!(
        "run.workspace = 'project'\nrun.isolation = 'worktree'\nrun.worktrees = 'volumes/worktrees'\nrun.max_parallel = 2\n{config}"
    ));
    let project = Project::new(&scene.env)?;
    Some(Isolated { scene, project })
}

impl Deref for Isolated {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl Isolated {
    fn plan(&self) -> String {
        plan_id(&self.scene)
    }

    /// Returns a file on the branch of the results.
    fn result(&self, file: &str) -> String {
        let name = format!("plan-agent/{}:{file}", self.plan());
        self.project.git(["show", &name])
    }

    /// Returns the titles of the accepted results, the first one first.
    fn accepted(&self) -> Vec<String> {
        let span = format!("main..plan-agent/{}", self.plan());
        let words = ["log", "--first-parent", "--reverse", "--format=%s", &span];
        self.project.git(words).lines().map(str::to_owned).collect()
    }
}

fn folder(command: &Command) -> &Path {
    Path::new(command.field("workspace").unwrap())
}

/// Writes a file in the folder of a command.
fn write(command: &Command, name: &str, text: &str) {
    fs::write(folder(command).join(name), text).unwrap();
}

/// What others have made is not taken for removed where it could not be merged in.
#[test]
fn task_is_not_said_to_remove_what_it_never_had() {
    let Some(scene) = isolated("") else { return };
    let _daemon = scene.leave("run --plan two.md");
    let (left, right) = (scene.take_task(1), scene.take_task(2));
    write(&right, "right.txt", "right\n");
    scene.succeed(&right, "done");
    scene.await_events("completed", 1);
    write(&left, "left.txt", "left\n");
    let nested = folder(&left).join("nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, "init --quiet");
    fs::write(nested.join("x"), "x").unwrap();
    git(&nested, "add x");
    git(&nested, "commit --quiet -m x");
    scene.succeed(&left, "done");
    let again = scene.take("the first task again", |command| command.attempt() == 2);
    fs::remove_dir_all(nested.join(".git")).unwrap();
    scene.succeed(&again, "done");
    scene.await_status("completed");
    let why = scene.works("why 1");
    has(&why, "changed: left.txt");
    lacks(&why, "right.txt");
}

#[test]
fn parallel_results_merge_into_one_branch() {
    let Some(scene) = isolated("") else { return };
    let before = scene.project.of_the_person();
    let agent = scene.agent(|command| {
        let folder = folder(command);
        assert_eq!(fs::read_to_string(folder.join("b.txt")).unwrap(), "b\n");
        if command.task() == 1 {
            write(command, "left.txt", "left\n");
        } else {
            // An agent may commit by itself.
            write(command, "a.txt", "one\nTWO\nthree\n");
            git(folder, ["commit", "--quiet", "--all", "-m", "by the agent"]);
            write(command, "built", "ignored\n");
        }
        Act::success("done")
    });
    let ran = scene.exits(0, "run --plan two.md");
    assert_eq!(agent.attempts().len(), 2);
    assert_eq!(scene.result("left.txt"), "left\n");
    assert_eq!(scene.result("a.txt"), "one\nTWO\nthree\n");
    assert_eq!(scene.project.of_the_person(), before);
    let plan = scene.plan();
    ran.has_stdout(format!("plan-agent merge {plan}"));
    ran.has_stderr("changes that are in no commit");
    // A worktree that holds only accepted results is removed.
    assert!(!scene.path(format!("worktrees/{plan}/task-1")).exists());
    assert!(
        scene
            .path(format!("worktrees/{plan}/task-2/built"))
            .exists()
    );
    let told = agent.command(1, 1);
    let branch = format!("on the branch `plan-agent-task/{plan}/1`");
    has(told.body(), &branch);
    has(scene.works("why 2"), "merged aside as ");
    let part = format!("The work is on the branch `plan-agent/{plan}`: ");
    has(scene.works("status"), part);
    has(scene.works("doctor"), "tasks can have worktrees of");
    let diff = scene.works("diff 2");
    has(&diff, "-two\n+TWO\n");
    lacks(&diff, "left");
    scene.project.sound();
}

#[test]
fn merge_conflict_is_given_to_agent() {
    // Nobody is to blame that the other one was first.
    let Some(scene) = isolated("run.max_attempts = 1") else {
        return;
    };
    let before = scene.project.of_the_person();
    let agent = scene.agent(|command| {
        let word = ["LEFT", "RIGHT"][command.task() as usize - 1];
        if command.attempt() == 1 {
            write(command, "a.txt", &format!("one\n{word}\nthree\n"));
        } else {
            let text = fs::read_to_string(folder(command).join("a.txt")).unwrap();
            has(&text, ["<<<<<<<", "LEFT", "RIGHT"]);
            write(command, "a.txt", "one\nLEFT AND RIGHT\nthree\n");
        }
        Act::success("done")
    });
    scene.exits(0, "run --plan two.md");
    let attempts = agent.attempts();
    let &(task, attempt) = attempts.last().unwrap();
    assert_eq!((attempts.len(), attempt), (3, 2), "{attempts:?}");
    let retry = agent.command(task, 2);
    has(retry.body(), ["The check `merge` failed", "`a.txt`"]);
    has(retry.body(), ">>>>>>>");
    assert_eq!(scene.result("a.txt"), "one\nLEFT AND RIGHT\nthree\n");
    assert_eq!(scene.accepted().len(), 2);
    assert_eq!(scene.project.of_the_person(), before);
    scene.project.sound();
}

#[test]
fn unresolved_conflict_asks_human() {
    let Some(scene) = isolated("") else { return };
    let agent = scene.agent(|command| {
        if command.attempt() == 1 {
            write(
                command,
                "a.txt",
                &format!("one\n{}\nthree\n", command.task()),
            );
        }
        Act::success("done")
    });
    scene.exits(4, "run --plan two.md");
    let &(task, attempt) = agent.attempts().last().unwrap();
    assert_eq!(attempt, 4, "the conflict itself is no failure");
    let last = agent.command(task, 4);
    has(last.body(), "still have the marks of a conflict: `a.txt`");
    let question = scene.status()["questions"][0].clone();
    assert_eq!(question["task"], task);
    let part = "marks of a conflict: `a.txt`";
    has(question["reason"].as_str().unwrap(), part);
    lacks(question["choices"].to_string(), "accept");
    assert_eq!(scene.accepted().len(), 1);
    // The person skips the task: its work is still there.
    scene.works("answer skip");
    scene.exits(0, "resume");
    let plan = scene.plan();
    let branch = format!("plan-agent-task/{plan}/{task}:a.txt");
    let expected = format!("one\n{task}\nthree\n");
    assert_eq!(scene.project.git(["show", &branch]), expected);
    assert!(
        scene
            .path(format!("worktrees/{plan}/task-{task}/a.txt"))
            .exists()
    );
    scene.project.sound();
}

/// A conflict without marks, or with such that are not the usual ones.
#[test]
fn untouched_conflict_is_not_accepted_whatever_is_in_it() {
    type Change = fn(&Command);
    let differ: Change = |command| {
        let word = ["left", "right"][command.task() as usize - 1];
        write(command, "a.txt", word);
    };
    let kinds: [(&str, Change, &str); 4] = [
        ("* -merge", differ, "still in conflict: `a.txt`"),
        (
            "* conflict-marker-size=15",
            differ,
            "marks of a conflict: `a.txt`",
        ),
        (
            "# one removes it, the other changes it",
            |command| match command.task() {
                1 => fs::remove_file(folder(command).join("a.txt")).unwrap(),
                _ => write(command, "a.txt", "changed\n"),
            },
            "still in conflict: `a.txt`",
        ),
        (
            "# one makes a link of it",
            |command| {
                let path = folder(command).join("new");
                match command.task() {
                    1 => std::os::unix::fs::symlink("a.txt", path).unwrap(),
                    _ => fs::write(path, "a file\n").unwrap(),
                }
            },
            "still in conflict: ",
        ),
    ];
    for (attributes, change, said) in kinds {
        let Some(scene) = isolated("") else { return };
        let path = scene.project.folder.join(".gitattributes");
        fs::write(path, format!("{attributes}\n")).unwrap();
        scene.project.git("add .");
        scene.project.git("commit --quiet --message attributes");
        let agent = scene.agent(move |command| {
            match command.attempt() {
                1 => change(command),
                // It looks at the conflict only in its last attempt.
                3 => drop(git(folder(command), "add --all")),
                _ => {}
            }
            Act::success("done")
        });
        let ran = scene.run("run --plan two.md");
        let &(task, attempt) = agent.attempts().last().unwrap();
        has(agent.command(task, 3).body(), said);
        let marks = said.starts_with("marks");
        assert_eq!(attempt, if marks { 4 } else { 3 }, "{attributes}: {ran:?}");
        if !marks {
            assert_eq!(ran.code, Some(0), "{attributes}: {ran:?}");
            assert_eq!(scene.accepted().len(), 2);
        } else {
            assert_eq!(
                ran.code,
                Some(4),
                "marks that are added stay marks: {ran:?}"
            );
        }
        scene.project.sound();
    }
}

/// A task that is done again begins with all that was accepted meanwhile, and only what it changes then counts as changed.
#[test]
fn task_that_is_done_again_has_only_its_own_changes() {
    // What git ignores keeps a worktree as it was.
    for keeps in [false, true] {
        let Some(scene) = isolated("") else { return };
        let _agent = scene.agent(move |command| {
            match (command.task(), command.attempt()) {
                (1, 2) => {
                    let third = folder(command).join("3.txt");
                    assert_eq!(fs::read_to_string(third).unwrap(), "made\n");
                }
                (task, _) => write(command, &format!("{task}.txt"), "made\n"),
            }
            if keeps {
                write(command, "built", "ignored\n");
            }
            Act::success("done")
        });
        scene.exits(0, "run --plan chain.md");
        let tip = scene.result("3.txt");
        scene.works("retry 1 --yes");
        scene.exits(0, "resume");
        let why = scene.works("why 1");
        let (_, second) = why.split_once("\n  2  ").unwrap();
        has(second, "no file changed");
        lacks(second, [".txt"]);
        assert_eq!(scene.result("3.txt"), tip);
        scene.project.sound();
    }
}

#[test]
fn checks_run_on_merged_result() {
    let Some(scene) = isolated(
        "run.checks = ['few']\nchecks.few = { run = ['sh', '-c', 'test $(ls *.txt | wc -l) -lt 4'] }",
    ) else {
        return;
    };
    let agent = scene.agent(|command| {
        let name = format!("{}.txt", command.task());
        if command.attempt() == 1 {
            write(command, &name, "new\n");
        } else {
            fs::remove_file(folder(command).join(&name)).unwrap();
            write(command, "b.txt", "new\n");
        }
        Act::success("done")
    });
    scene.exits(0, "run --plan two.md");
    let &(task, attempt) = agent.attempts().last().unwrap();
    assert_eq!(attempt, 2);
    let retry = agent.command(task, 2);
    has(retry.body(), "The check `few` failed");
    let why = scene.works(["why", &task.to_string()]);
    let (_, second) = why.split_once("\n  2  ").unwrap();
    let theirs = format!("{}.txt", 3 - task);
    has(second, "b.txt");
    lacks(second, &theirs);
    let plan = scene.plan();
    let names = ["ls-tree", "--name-only", &format!("plan-agent/{plan}")];
    assert_eq!(
        scene
            .project
            .git(names)
            .lines()
            .filter(|name| name.ends_with(".txt"))
            .count(),
        3
    );
    assert_eq!(scene.result("b.txt"), "new\n");
    assert_eq!(scene.status()["tasks"][0]["state"], "completed");
    scene.project.sound();
}

/// Waits until `1.txt` is on the branch of the results, and returns the branch.
fn await_first_result(command: &Command, project: &Path) -> String {
    let branch = format!("plan-agent/{}", command.field("plan").unwrap());
    wait_until("the first result is on the branch", || {
        git(project, ["ls-tree", "--name-only", &branch]).contains("1.txt")
    });
    branch
}

#[test]
fn human_commits_on_branch_ask_and_are_kept() {
    for back in [false, true] {
        let Some(scene) = isolated("") else { return };
        let (folder, exchange) = (scene.project.folder.clone(), scene.clone());
        let _agent = scene.agent(move |command| {
            write(command, &format!("{}.txt", command.task()), "made\n");
            if command.task() == 2 {
                let branch = await_first_result(command, &folder);
                let tree = format!("{branch}^{{tree}}");
                let theirs = git(
                    &folder,
                    ["commit-tree", &tree, "-p", &branch, "-m", "by the person"],
                );
                git(&folder, ["branch", "--force", &branch, theirs.trim()]);
            }
            Act::success("done")
        });
        scene.refuses(4, "run --plan chain.md", "somebody else moved the branch");
        assert_eq!(exchange.questions().len(), 1);
        let branch = format!("plan-agent/{}", scene.plan());
        let theirs = scene.project.git(["log", "-1", "--format=%s", &branch]);
        assert_eq!(theirs, "by the person\n", "it is where the person put it");
        if back {
            scene
                .project
                .git(["branch", "--force", &branch, &format!("{branch}~1")]);
            scene.works("answer retry");
        } else {
            scene.works("answer accept");
        }
        scene.exits(0, "resume");
        for name in ["1.txt", "2.txt", "3.txt"] {
            assert_eq!(scene.result(name), "made\n");
        }
        let all = scene.project.git(["log", "--format=%s", &branch]);
        assert_eq!(all.contains("by the person"), !back, "{all}");
        scene.project.sound();
    }
}

#[test]
fn results_that_a_person_took_off_or_amended_stay_so() {
    for amended in [false, true] {
        let Some(scene) = isolated("") else { return };
        let folder = scene.project.folder.clone();
        let _agent = scene.agent(move |command| {
            write(command, &format!("{}.txt", command.task()), "made\n");
            if command.task() == 2 {
                let branch = await_first_result(command, &folder);
                let before = format!("{branch}~1");
                let to = match amended {
                    false => before,
                    true => {
                        git(&folder, ["switch", "--quiet", "--detach", &branch]);
                        fs::write(folder.join("1.txt"), "amended\n").unwrap();
                        git(&folder, "commit --quiet --all --amend -m amended");
                        let amended = git(&folder, "rev-parse HEAD");
                        git(&folder, "switch --quiet main");
                        amended.trim().to_owned()
                    }
                };
                git(&folder, ["branch", "--force", &branch, &to]);
            }
            Act::success("done")
        });
        scene.refuses(4, "run --plan chain.md", "somebody else moved the branch");
        scene.works("answer accept");
        scene.exits(0, "resume");
        let branch = format!("plan-agent/{}", scene.plan());
        let names = ["ls-tree", "--name-only", &branch];
        let has_first = scene.project.git(names).contains("1.txt");
        assert_eq!(has_first, amended);
        if amended {
            assert_eq!(scene.result("1.txt"), "amended\n");
        }
        for name in ["2.txt", "3.txt"] {
            assert_eq!(scene.result(name), "made\n");
        }
        scene.project.sound();
    }
}

/// What the question says is done, and the plan goes on.
#[test]
fn human_commits_that_conflict_are_merged_by_the_person() {
    let Some(scene) = isolated("") else { return };
    let folder = scene.project.folder.clone();
    let _agent = scene.agent(move |command| {
        write(command, "a.txt", &format!("by task {}\n", command.task()));
        if command.task() == 2 {
            let branch = format!("plan-agent/{}", command.field("plan").unwrap());
            wait_until("the first result is on the branch", || {
                git(&folder, ["show", &format!("{branch}:a.txt")]).contains("task 1")
            });
            git(&folder, ["switch", "--quiet", &branch]);
            fs::write(folder.join("a.txt"), "by the person\n").unwrap();
            git(&folder, "commit --quiet --all -m mine");
            git(&folder, "switch --quiet main");
        }
        Act::success("done")
    });
    scene.refuses(4, "run --plan chain.md", "somebody else moved the branch");
    scene.works("answer accept");
    scene.refuses(4, "resume", "does not go together with the results");
    let said = scene.status()["questions"][0]["reason"].to_string();
    let (_, onto) = said.split_once("Merge `").unwrap();
    let (onto, _) = onto.split_once('`').unwrap();
    let branch = format!("plan-agent/{}", scene.plan());
    scene.project.git(["switch", "--quiet", &branch]);
    let merge = ["merge", "--quiet", "-X", "ours", "-m", "both", onto];
    scene.project.git(merge);
    scene.project.git("switch --quiet main");
    scene.works("answer accept");
    // It has moved since it was looked at.
    if scene.run("resume").code == Some(4) {
        scene.works("answer accept");
        scene.exits(0, "resume");
    }
    assert_eq!(scene.result("a.txt"), "by the person\n");
    let all = scene.project.git(["log", "--format=%s", &branch]);
    has(all, ["mine\n", "both\n"]);
    scene.project.sound();
}

#[test]
fn checked_out_branch_is_not_moved_and_result_kept() {
    for answer in ["retry", "abort"] {
        let Some(scene) = isolated("") else { return };
        let aside = scene.env.path("aside");
        let (folder, place) = (scene.project.folder.clone(), aside.clone());
        let _agent = scene.agent(move |command| {
            write(command, "one.txt", "made\n");
            let branch = format!("plan-agent/{}", command.field("plan").unwrap());
            wait_until("the branch is there", || {
                git(&folder, ["branch", "--list", &branch]).contains(&branch)
            });
            let place = place.to_str().unwrap();
            git(&folder, ["worktree", "add", "--quiet", place, &branch]);
            Act::success("done")
        });
        scene.refuses(4, "run --plan one.md", "is checked out in");
        assert_eq!(git(&aside, "status --porcelain"), "");
        if answer == "retry" {
            git(&aside, "switch --quiet --detach");
            scene.works("answer retry");
            scene.exits(0, "resume");
            assert_eq!(scene.result("one.txt"), "made\n");
        } else {
            scene.works("answer abort");
            scene.run("resume");
            let branch = format!("plan-agent-task/{}/1:one.txt", scene.plan());
            assert_eq!(scene.project.git(["show", &branch]), "made\n");
        }
    }
}

#[test]
fn run_rejects_workspace_without_worktrees() {
    let Some(scene) = isolated("") else { return };
    let env = &scene.env;
    fs::create_dir(env.path("plain")).unwrap();
    fs::create_dir(env.path("empty")).unwrap();
    fs::create_dir(env.path("project/sub")).unwrap();
    fs::create_dir(env.path("bare")).unwrap();
    git(&env.path("empty"), "init --quiet");
    git(&env.path("bare"), "init --quiet --bare");
    // Folders for tests may be within another project.
    let around = env
        .path("plain")
        .ancestors()
        .any(|folder| folder.join(".git/HEAD").exists());
    let plain = match around {
        true => "is a folder within the git project",
        false => "is no git project",
    };
    for (workspace, said) in [
        ("plain", plain),
        ("nowhere", "does not exist"),
        ("empty", "has no commit"),
        ("bare", "is a git repository without files"),
        ("project/sub", "is a folder within the git project"),
    ] {
        let ran = env.run(["run", "--plan", "one.md", "--workspace", workspace]);
        assert_eq!(ran.code, Some(2), "{workspace}: {ran:?}");
        ran.has_stderr(["Hint: ", said]);
    }
    scene.project.git("branch plan-agent");
    let ran = env.exits(2, "run --plan one.md");
    ran.has_stderr("is called `plan-agent`");
    // No plan was made.
    assert!(!env.path("volumes/plan-agent.db").exists());
    env.write("bin/git", "#!/bin/sh\necho git version 2.30.1\n");
    fs::set_permissions(
        env.path("bin/git"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut old = env.command("run --plan one.md");
    old.env("PATH", env.path("bin"));
    let ran = old.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    has(&said, "git 2.30 is too old");
    old.env("PATH", env.path("plain"));
    has(
        String::from_utf8_lossy(&old.output().unwrap().stderr),
        "there is no git on this machine",
    );
    env.write(
        "config.toml",
        "run.isolation = 'worktree'\nrun.session = 'plan'\n",
    );
    env.refuses(2, "run --plan one.md", "a session stays in one folder");
}

#[test]
fn checked_out_file_is_not_produced() {
    let Some(scene) = isolated("") else { return };
    let plan = "---\nname: One\ngoal: A file\n---\n\n## Only\n\n- produces: b.txt\n\nMake it.\n";
    scene.write("produces.md", plan);
    let agent = scene.agent(|command| {
        let mode = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(folder(command).join("b.txt"), mode).unwrap();
        };
        if command.attempt() == 2 {
            // The file is right already.
            mode(0o644);
            write(command, "b.txt", "b\n");
        } else {
            // The permission to execute is not part of its content.
            mode(0o755);
        }
        Act::success("it is there")
    });
    let ran = scene.exits(0, "run --plan produces.md");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2)]);
    let retry = agent.command(1, 2);
    has(retry.body(), "was there before the plan began");
    assert_eq!(scene.accepted(), [""; 0]);
    ran.has_stdout("Nothing was accepted that changes");
    let none = scene.run("diff 1");
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    for earlier in ["diff 1 --attempt 1", "diff --attempt 1 1"] {
        has(scene.works(earlier), "attempt 1  changed: b.txt");
    }
    scene.refuses(2, "diff --attempt 1", "none is named");
    scene.project.sound();
}

#[test]
fn diff_is_raw_for_programs_and_escaped_for_terminal() {
    let Some(scene) = isolated("") else { return };
    scene.write("three.md", CHAIN);
    let run = scene.start("run --plan three.md");
    let first = scene.take_any();
    write(&first, "a.txt", "one\n\u{1b}]0;title\u{7}two\nthree\n");
    write(&first, "new.txt", "new\n");
    let raw = scene.works("diff 1");
    has(&raw, ["+\u{1b}]0;title\u{7}two", "new file"]);
    let shown = scene.env.run_on_terminal("diff 1").exits(0);
    assert!(
        !shown.stdout.contains('\u{1b}') && shown.stdout.contains("+two"),
        "{shown:?}"
    );
    let figures = scene.works("diff 1 --stat");
    has(&figures, "2 files changed");
    // Git itself cannot add a repository without a commit.
    git(folder(&first), "init --quiet begun");
    let with = scene.run("diff 1");
    assert_eq!((with.code, &with.stdout), (Some(0), &raw), "{with:?}");
    with.has_stderr("`begun` is a git repository");
    let all = scene.works("diff");
    let one = "2 files changed, 2 insertions(+), 1 deletion(-)";
    assert!(all.starts_with("1 · ") && all.contains(one), "{all}");
    assert_eq!(all.lines().count(), 1, "{all}");
    has(scene.works("diff --stat"), figures.trim_end());
    for (task, code) in [("2", 1), ("9", 2)] {
        scene.exits(code, ["diff", task]);
    }
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, Some(143));
    let shared = Scene::by_rules("");
    let _agent = shared.agent(|_| Act::success("done"));
    shared.works("run --plan one.md");
    let none = shared.run("diff");
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    none.has_stderr("no task has changed a file");
    let ran = shared.exits(0, "diff 1");
    assert_eq!(ran.stdout, "attempt 1  no file changed\n");
    ran.has_stderr("isolation = \"worktree\"");
}

#[test]
fn ignored_file_is_in_no_result() {
    let Some(scene) = isolated("run.max_attempts = 1") else {
        return;
    };
    let plan =
        "---\nname: One\ngoal: A file\n---\n\n## Only\n\n- produces: dist/out.txt\n\nMake it.\n";
    scene.write("produces.md", plan);
    let _agent = scene.agent(|command| {
        write(command, ".gitignore", "dist/\n");
        fs::create_dir_all(folder(command).join("dist")).unwrap();
        write(command, "dist/out.txt", "made\n");
        Act::success("it is there")
    });
    scene.exits(4, "run --plan produces.md");
    let question = scene.status()["questions"][0].clone();
    let reason = question["reason"].as_str().unwrap();
    has(reason, "git ignores it");
    assert_eq!(scene.accepted(), [""; 0]);
}

#[test]
fn git_problems_are_reported_to_agent() {
    let Some(scene) = isolated("") else { return };
    let agent = scene.agent(|command| {
        let folder = folder(command);
        match command.attempt() {
            1 => {
                fs::create_dir(folder.join("sub")).unwrap();
                git(&folder.join("sub"), "init --quiet");
                write(command, "sub/one.txt", "made\n");
            }
            2 => {
                fs::remove_dir_all(folder.join("sub")).unwrap();
                git(folder, "switch --quiet --orphan mine");
                write(command, "one.txt", "made\n");
                git(folder, "add one.txt");
                git(folder, ["commit", "--quiet", "-m", "by the agent"]);
                let branch = format!(
                    "refs/heads/plan-agent-task/{}/1",
                    command.field("plan").unwrap()
                );
                git(folder, ["update-ref", &branch, "HEAD"]);
            }
            _ => {
                git(folder, "reset --quiet --hard main");
                write(command, "one.txt", "made\n");
                fs::create_dir_all(folder.join(".plan-agent")).unwrap();
                write(command, ".plan-agent/notes", "left behind\n");
            }
        }
        Act::success("done")
    });
    scene.exits(0, "run --plan one.md");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2), (1, 3)]);
    for (attempt, said) in [(2, "repository of its own"), (3, "unrelated histories")] {
        let retry = agent.command(1, attempt);
        has(retry.body(), said);
    }
    assert_eq!(scene.result("one.txt"), "made\n");
    scene.project.sound();
}

#[test]
fn full_disk_of_worktrees_is_waited_out() {
    for prepare in [
        "",
        "run.prepare = { run = ['sh', '-c', 'cat large large > copy'] }\n",
    ] {
        let Some(disk) = SmallDisk::mount("size=32m") else {
            return;
        };
        let worktrees = disk.path().display();
        let Some(scene) = isolated("") else { return };
        let config = scene.env.read("config.toml");
        let config = config.replace("volumes/worktrees", &worktrees.to_string());
        scene
            .env
            .write("config.toml", &format!("{prepare}{config}"));
        // A file of which a part fits: git says only that it cannot write it, into a file on the same disk.
        scene.env.write("project/large", &"x".repeat(2_000_000));
        scene.project.git("add large");
        scene.project.git("commit --quiet -m large");
        let taken = if prepare.is_empty() { 31 } else { 27 };
        fs::write(disk.path().join("filler"), vec![0; taken << 20]).unwrap();
        let agent = scene.agent(|_| Act::success("done"));
        // One after the other: where one gives room back, another one finds no full disk.
        let run = scene.start_as("run", "run --plan chain.md");
        let full = "no space left on the disk of `";
        wait_until("it is said", || scene.env.read("run.err").contains(full));
        assert!(agent.attempts().is_empty());
        disk.make_room();
        run.end().exits(0);
        let mut attempts = agent.attempts();
        attempts.sort_unstable();
        assert_eq!(attempts, [(1, 1), (2, 1), (3, 1)], "{prepare}");
    }
}

/// Shows a git that notes its words, and may wait before it removes the branches of tasks.
fn noting_git(scene: &mut Isolated, waits: &str) {
    let found = std::process::Command::new("sh")
        .args(["-c", "command -v git"])
        .output();
    let git = String::from_utf8(found.unwrap().stdout).unwrap();
    let (git, at) = (git.trim(), scene.env.path("").display().to_string());
    let script = format!(
        "echo \"$*\" >> {at}/words\ncase \"$*\" in *'update-ref --no-deref --stdin') {waits} ;; esac\nexec {git} \"$@\"\n"
    );
    scene.scene.env.show_script("git", &script);
}

#[test]
fn worktrees_are_removed_with_few_processes_for_all() {
    let Some(mut scene) = isolated("") else {
        return;
    };
    noting_git(&mut scene, "");
    let _agent = scene.agent(|command| {
        write(command, &format!("{}.txt", command.task()), "made\n");
        Act::success("done")
    });
    scene.exits(0, "run --plan chain.md");
    let words = scene.env.read("words");
    let times = |what: &str| words.matches(what).count();
    assert_eq!(times("update-ref --no-deref --stdin"), 1);
    assert_eq!(times("update-ref --no-deref -d"), 0, "{words}");
    // For the folder for checks on merged results.
    assert_eq!(times("worktree remove"), 1, "{words}");
    assert_eq!(scene.project.git("worktree list").lines().count(), 1);
    assert_eq!(scene.project.git("branch --list plan-agent-task/*"), "");
    scene.project.sound();
}

#[test]
fn interrupted_clean_up_says_what_is_left() {
    let Some(mut scene) = isolated("") else {
        return;
    };
    let at = scene.env.path("").display().to_string();
    noting_git(
        &mut scene,
        &format!("touch {at}/begun; until [ -e {at}/go ]; do sleep 0.02; done"),
    );
    let _agent = scene.agent(|command| {
        write(command, "one.txt", "made\n");
        Act::success("done")
    });
    let run = scene.start_as("run", "run --plan one.md");
    wait_until("the clean-up", || scene.env.path("begun").exists());
    run.interrupted().has_stderr("prune` removes them");
    scene.env.write("go", "");
    has(scene.works("prune"), "removed `plan-agent-task/");
    scene.project.sound();
}

#[test]
fn project_with_a_line_break_in_its_path_is_shared() {
    let Some(scene) = isolated("") else { return };
    let env = &scene.env;
    let broken = "two\nlines";
    fs::rename(&scene.project.folder, env.path(broken)).unwrap();
    git(&env.path(broken), "stash --quiet --include-untracked");
    let run = ["run", "--plan", "one.md", "--workspace", broken];
    let refused = env.run(run);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    refused.has_stderr(["has a line break", "Hint: "]);
    let config = env.read("config.toml").replace("'worktree'", "'auto'");
    env.write("config.toml", &config);
    env.write(
        "agent.sh",
        "#!/bin/sh\nprintf -- '---\\nstatus: SUCCESS\\n---\\n\\ndone\\n' > \"$1\"\n",
    );
    let agent = [
        "--agent",
        "command",
        "--",
        "sh",
        env.path("agent.sh").to_str().unwrap(),
        "{report}",
    ]
    .map(str::to_owned);
    let words: Vec<String> = run
        .iter()
        .map(|word| (*word).to_owned())
        .chain(agent)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    env.exits(0, words).has_stderr("no worktrees, agents share");
}
