//! Where agents work when nothing is configured, and how a person takes their results over, with the real git.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use super::*;
use crate::common::env::{row, skip, times};
use crate::common::git::{Project, git};

/// What the scripted agent does before it reports.
const WORK: &str =
    "printf 'one\\nTWO\\nthree\\n' > a.txt\nmkdir -p new\necho made > new/made.txt\n";

/// A scene next to a git project without uncommitted changes, and the words that name an agent which does [`WORK`].
struct Clean {
    scene: Scene,
    project: Project,
    agent: String,
}

impl Deref for Clean {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

fn clean(config: &str) -> Option<Clean> {
    let scene = Scene::by_rules(&format!("run.workspace = 'project'\n{config}"));
    let project = Project::new(&scene.env)?;
    project.git("add .");
    project.git("commit --quiet -m all");
    let script = "id=$(basename $1 .md); printf -- '---\\nid: %s\\nstatus: SUCCESS\\n---\\n\\n## Summary\\n\\ndone\\n' ${id#report-} > $1\n";
    scene.env.write("agent.sh", &format!("{WORK}{script}"));
    let agent = scene.env.path("agent.sh");
    let agent = format!("--agent command -- sh {} {{report}}", agent.display());
    Some(Clean {
        scene,
        project,
        agent,
    })
}

impl Clean {
    /// Carries a plan out whose results are on its branch, and returns the name of the branch.
    fn results(&self) -> String {
        self.exits(0, format!("run --plan one.md {}", self.agent));
        format!("plan-agent/{}", plan_id(&self.scene))
    }
}

/// Whatever is checked out when the plan begins, it works on the branch that was when it was typed.
#[test]
fn queued_plan_begins_on_the_branch_it_was_typed_on() {
    let Some(scene) = clean("") else { return };
    scene.works(format!("run --queue --plan one.md {}", scene.agent));
    let began = scene.project.git("rev-parse main");
    scene.project.git("switch --quiet -c other");
    scene
        .project
        .git("commit --quiet --allow-empty -m elsewhere");
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_status("completed");
    let branch = format!("plan-agent/{}", plan_id(&scene.scene));
    let base = scene.project.git(["merge-base", "other", &branch]);
    assert_eq!(base, began);
    scene.refuses(2, "merge", "the plan began on `main`");
}

/// What is checked out instead is another state of the project.
#[test]
fn queued_plan_whose_branch_is_gone_waits() {
    let Some(scene) = clean("") else { return };
    scene.project.git("switch --quiet -c topic");
    scene.works(format!("run --queue --plan one.md {}", scene.agent));
    scene.project.git("switch --quiet main");
    scene.project.git("branch --quiet -m topic other");
    let _daemon = scene.start_as("daemon", "daemon");
    let waits = || scene.works("plans");
    let why = "is gone: `git branch topic COMMIT` brings it back; `abort` ends the plan";
    wait_until("it says why", || waits().contains(why));
    assert_eq!(scene.events_named("issued").len(), 0);
}

/// Once it has begun, its results have a branch of their own.
#[test]
fn begun_plan_needs_no_branch_it_was_queued_on() {
    let Some(scene) = clean("") else { return };
    scene.project.git("switch --quiet -c topic");
    scene.works(format!("run --queue --plan one.md {}", scene.agent));
    let _daemon = scene.start_as("daemon", "daemon");
    scene.await_status("completed");
    scene.project.git("switch --quiet main");
    scene.project.git("branch --quiet -D topic");
    scene.works(["add", "Another one"]);
    scene.await_events("completed", 2);
}

#[test]
fn git_project_gets_worktrees_outside_of_it() {
    let Some(scene) = clean("") else { return };
    let before = scene.project.of_the_person();
    let ran = scene.exits(0, format!("run --plan one.md {}", scene.agent));
    let plan = plan_id(&scene.scene);
    let first = ran.stdout.lines().next().unwrap();
    begins(first, "agents work in worktrees below `");
    has(
        first,
        [
            format!("`plan-agent/{plan}`"),
            format!("`plan-agent merge {plan}`"),
        ],
    );
    let folder = first.split('`').nth(1).unwrap();
    has(folder, "plan-agent/worktrees/project-");
    assert!(
        !Path::new(folder).starts_with(scene.env.path("")),
        "{folder}"
    );
    assert!(!scene.path("worktrees").exists());
    has(
        &ran.stdout,
        format!("`plan-agent merge {plan}` takes it over"),
    );
    ran.lacks_stderr("!");
    assert_eq!(scene.project.of_the_person(), before);
    has(scene.works("doctor"), "tasks can have worktrees of");
}

/// Git itself uses no repository of another user, as its configuration names programs.
#[test]
fn project_of_another_user_runs_nothing() {
    let Some(scene) = clean("") else { return };
    let ran = scene.env.path("ran");
    let clean = format!("config filter.theirs.clean 'touch {}; cat'", ran.display());
    scene.project.git(clean.as_str());
    scene
        .env
        .write("project/.gitattributes", "* filter=theirs\n");
    if chown(scene.env.path("project"), Some(12345), None).is_err() {
        return skip("only root can give a folder away");
    }
    let _agent = scene.scene.agent(|_| Act::success("done"));
    let run = format!("run --no-input --plan one.md {}", scene.agent);
    scene.run(run).has_stderr("belongs to another user");
    assert!(!ran.exists());
    has(scene.run("doctor").stdout, "safe.directory");
}

#[test]
fn reason_for_shared_workspace_is_said() {
    type Prepare = fn(&Clean);
    let rows: [(&str, Prepare, &str, &str); 10] = [
        (
            "uncommitted",
            |scene| scene.env.write("project/b.txt", "mine\n"),
            "",
            "in no commit: b.txt",
        ),
        (
            "untracked",
            |scene| scene.env.write("project/c.txt", "mine\n"),
            "",
            "in no commit: c.txt",
        ),
        (
            "submodules",
            |scene| {
                let head = scene.project.git("rev-parse HEAD");
                let head = head.trim();
                let link = format!("update-index --add --cacheinfo 160000,{head},lib");
                scene.project.git(link);
                scene.project.git("commit --quiet -m modules");
            },
            "",
            "has submodules",
        ),
        (
            "partial",
            |scene| {
                let blob = scene.project.git("rev-parse HEAD:b.txt");
                let (folder, file) = blob.trim().split_at(2);
                let object = format!("project/.git/objects/{folder}/{file}");
                fs::remove_file(scene.env.path(&object)).unwrap();
                fs::create_dir_all(scene.env.path("project/.git/objects/pack")).unwrap();
                scene
                    .env
                    .write("project/.git/objects/pack/some.promisor", "");
            },
            "",
            "clone is partial",
        ),
        (
            "a branch in the way",
            |scene| drop(scene.project.git("branch plan-agent-task")),
            "",
            "is called `plan-agent-task`",
        ),
        (
            "no commit",
            |scene| {
                fs::create_dir(scene.env.path("empty")).unwrap();
                git(&scene.env.path("empty"), "init --quiet");
            },
            "--workspace empty",
            "has no commit",
        ),
        (
            "a folder within",
            |scene| fs::create_dir(scene.env.path("project/sub")).unwrap(),
            "--workspace project/sub",
            "is a folder within the git project",
        ),
        (
            "one session",
            |scene| {
                let config = scene.env.read("config.toml");
                scene
                    .env
                    .write("config.toml", &format!("run.session = 'plan'\n{config}"));
            },
            "",
            "stays in one folder",
        ),
        (
            "shell",
            |scene| {
                let plan = scene.scene.read("one.md") + "\n```sh\ntrue\n```\n";
                scene.scene.write("one.md", &plan);
            },
            "--agent shell",
            "`--agent shell` runs what the plan says",
        ),
        ("nobody", |_| {}, "none", "no --agent is named"),
    ];
    for (name, prepare, words, said) in rows {
        row(name);
        let Some(scene) = clean("") else { return };
        prepare(&scene);
        let _agent = scene.scene.agent(|_| Act::success("done"));
        let words = match words {
            "none" => String::new(),
            "--agent shell" => words.to_owned(),
            words => format!("{words} {}", scene.agent),
        };
        let ran = scene.run(format!("run --no-input --plan one.md {words}"));
        ran.has_stderr(["! no worktrees, agents share", said]);
        begins(&ran.stdout, "agents work in `");
        // A plan stays where it began.
        if name == "uncommitted" {
            let head = scene.project.git("rev-parse --abbrev-ref HEAD");
            assert_eq!(head, "main\n");
            scene.refuses(2, "merge", "has no branch of results");
        }
    }
    let Some(scene) = clean("") else { return };
    let mut scene = scene;
    scene
        .scene
        .env
        .show_script("git", "echo git version 2.30.1");
    let ran = scene.run(format!("run --no-input --plan one.md {}", scene.agent));
    ran.has_stderr("git 2.30 is too old");
    // Nobody expects worktrees where no project is.
    let plain = Scene::by_rules("");
    let _agent = plain.agent(|_| Act::success("done"));
    let ran = plain.exits(0, "run --plan one.md");
    begins(&ran.stdout, "agents work in `volumes/workspace`\n");
    ran.lacks_stderr("worktree");
}

#[test]
fn plan_keeps_the_mode_it_began_with() {
    for (began, then) in [("worktree", "shared"), ("shared", "worktree")] {
        row(began);
        let config = |isolation: &str| {
            format!(
                "llm.provider = 'none'\nrun.workspace = 'project'\nrun.isolation = '{isolation}'\nrun.max_attempts = 1\n"
            )
        };
        let Some(scene) = clean("") else { return };
        scene.env.write("config.toml", &config(began));
        let run = scene.start("run --plan one.md");
        wait_until("a command waits", || {
            let names = scene.names("commands/pending");
            names.iter().any(|name| name.ends_with(".md"))
        });
        run.signal(Signal::TERM);
        run.end();
        scene.env.write("config.toml", &config(then));
        let agent = scene.scene.agent(|_| Act::success("done"));
        let said = scene.exits(0, "resume");
        let folder = agent.command(1, 1).field("workspace").unwrap().to_owned();
        let goes_on = said.stderr.contains("goes on there");
        assert_eq!(goes_on, began == "shared", "{said:?}");
        let expected = scene.env.path("project").display().to_string();
        assert_eq!(folder == expected, began == "shared", "{folder}");
        let worktrees = said.stdout.contains("agents work in worktrees");
        assert_eq!(worktrees, began == "worktree", "{said:?}");
    }
}

#[test]
fn terminal_asks_about_uncommitted_files() {
    for word in ["commit", "go", "shared"] {
        row(word);
        let Some(scene) = clean("") else { return };
        scene.env.write("project/b.txt", "mine\n");
        let run = format!("run --plan one.md {}", scene.agent);
        let (mut running, mut terminal) = scene.env.start_on_terminal(run);
        let prompt = "commit · go · shared · ? >";
        terminal.answer(prompt, word);
        if word == "commit" {
            wait_until("it waits", || terminal.shown().contains("press Enter"));
            scene.project.git("commit --quiet --all -m mine");
            terminal.answer("press Enter", "");
        }
        assert_eq!(running.wait().code(), Some(0));
        let shown = terminal.shown();
        has(&shown, "one file of the project is in no commit");
        has(&shown, "  b.txt");
        assert_eq!(
            shown.contains("agents work in worktrees"),
            word != "shared",
            "{shown}"
        );
        assert_eq!(shown.matches(prompt).count(), 1, "{shown}");
        let made = scene.env.path("project/new/made.txt").exists();
        assert_eq!(made, word == "shared");
        if word == "commit" {
            let branch = format!("plan-agent/{}:b.txt", plan_id(&scene.scene));
            assert_eq!(scene.project.git(["show", &branch]), "mine\n");
        }
    }
}

#[test]
fn merge_takes_results_over_beside_changes_of_the_person() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    // Staged, changed and untracked files that no result touches stay as they are.
    scene.env.write("project/b.txt", "mine\n");
    scene.env.write("project/mine.txt", "mine\n");
    scene.env.write("project/staged.txt", "mine\n");
    scene.project.git("add staged.txt");
    let mission = || scene.read("volumes/MISSION.md");
    has(mission(), " takes it over");
    let ran = scene.exits(0, "merge");
    lacks(mission(), " takes it over");
    ran.has_stdout([" are in `main`", "2 files changed"]);
    ran.has_stderr("plan-agent prune");
    let status = scene.project.git("status --porcelain");
    assert_eq!(status, " M b.txt\nM  staged.txt\n?? mine.txt\n");
    assert_eq!(scene.env.read("project/new/made.txt"), "made\n");
    assert_eq!(scene.env.read("project/a.txt"), "one\nTWO\nthree\n");
    assert_eq!(
        scene.project.git("rev-parse main"),
        scene.project.git(["rev-parse", &branch])
    );
    has(scene.works("log"), "results taken over into `main` at ");
    has(scene.works("merge"), "`main` contains the results");
    scene.project.sound();
}

#[test]
fn merge_without_a_name_takes_the_plan_that_has_ended() {
    let Some(scene) = clean("") else { return };
    let stopped = scene.start_as("first", "run --plan one.md");
    scene.take_any();
    stopped.interrupted();
    let ran = scene.exits(0, format!("run --plan one.md {}", scene.agent));
    let plans: Value = scene.json("plans --json");
    let states = plans.as_array().unwrap().iter();
    let ended = states.filter(|plan| plan["status"] == "completed");
    let [ended] = ended.collect::<Vec<_>>().try_into().unwrap();
    let id = ended["id"].as_str().unwrap();
    has(&ran.stdout, id);
    ran.has_stderr("is stopped and not over: `plan-agent resume ");
    let merged = format!("the results of plan {id} are in `main`");
    scene.exits(0, "merge").has_stdout(merged);
    // Of those that are left, the one that is meant is named.
    let name = ended["name"].as_str().unwrap();
    let named = scene.exits(0, "why 1");
    named.has_stderr(["plan ".to_owned(), format!(" · {name}")]);
    lacks(&named.stderr, id);
}

#[test]
fn plan_goes_on_after_its_branches_were_removed() {
    for removes in [["merge", "prune"], ["merge --squash", "prune"]] {
        let Some(scene) = clean("") else { return };
        let branch = scene.results();
        for command in removes {
            scene.works(command);
        }
        assert_eq!(scene.project.git("branch --list plan-agent*"), "");
        let script = scene.env.read("agent.sh").replace("new/made", "new/more");
        scene.env.write("agent.sh", &script);
        scene.works("add More --after 1");
        scene.exits(0, "resume --no-input");
        let made = format!("{branch}:new/more.txt");
        assert_eq!(scene.project.git(["show", &made]), "made\n");
        has(scene.works("merge"), " are in `main`");
        assert_eq!(scene.env.read("project/new/more.txt"), "made\n");
    }
}

#[test]
fn squashed_results_are_one_commit_and_count_as_merged() {
    let Some(scene) = clean("") else { return };
    scene.results();
    scene.env.write("project/mine.txt", "mine\n");
    scene.project.git("add mine.txt");
    scene.project.git("commit --quiet -m mine");
    let before = scene.project.git("rev-parse main");
    has(scene.works("merge --squash"), " are in `main`");
    assert_eq!(scene.project.git("rev-parse main^"), before);
    assert_eq!(
        scene
            .project
            .git("log -1 --format=%p")
            .split_whitespace()
            .count(),
        1
    );
    assert_eq!(scene.project.git("log -1 --format=%s"), "Make a file\n");
    assert_eq!(scene.env.read("project/new/made.txt"), "made\n");
    has(scene.works("log"), "results taken over into `main` at ");
    for again in ["merge --squash", "merge"] {
        has(scene.works(again), "`main` contains the results");
    }
    assert_eq!(scene.project.git("rev-parse main^"), before);
    let ran = scene.exits(0, "prune");
    lacks(&ran.stdout, "not merged");
    assert_eq!(scene.project.git("branch --list plan-agent*"), "");
    scene.project.sound();
}

#[test]
fn results_that_go_on_after_a_squash_do_not_conflict_with_it() {
    for again in ["merge", "merge --squash"] {
        let Some(scene) = clean("") else { return };
        scene.results();
        scene.works("merge --squash");
        let script = scene.env.read("agent.sh");
        let changes = script.replace("echo made", "echo changed");
        assert_ne!(changes, script);
        scene.env.write("agent.sh", &changes);
        scene.works("add More --after 1");
        scene.exits(0, "resume --no-input");
        has(scene.works(again), " are in `main`");
        assert_eq!(scene.env.read("project/new/made.txt"), "changed\n");
        has(scene.works(again), "`main` contains the results");
        lacks(&scene.exits(0, "prune").stdout, "not merged");
        scene.project.sound();
    }
}

#[test]
fn squash_that_was_taken_back_counts_as_not_taken_over() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    scene.works("merge --squash");
    scene.project.git("reset --quiet --hard HEAD^");
    has(
        scene.works("prune"),
        format!("kept: `{branch}` is not merged"),
    );
    has(scene.works("merge --squash"), " are in `main`");
    assert_eq!(scene.env.read("project/new/made.txt"), "made\n");
    scene.project.git("commit --quiet --amend -m reworded");
    has(scene.works("merge"), "`main` contains the results");
    lacks(scene.exits(0, "prune").stdout, "not merged");
}

#[test]
fn squash_that_was_taken_back_may_be_discarded() {
    let Some(scene) = clean("") else { return };
    scene.results();
    scene.works("merge --squash");
    scene.project.git("reset --quiet --hard HEAD^");
    has(scene.works("discard"), " are discarded");
}

#[test]
fn results_go_into_a_branch_behind_their_base() {
    let Some(scene) = clean("") else { return };
    scene.project.git("switch --quiet -c feature");
    scene.env.write("project/feature.txt", "x\n");
    scene.project.git("add .");
    scene.project.git("commit --quiet -m feature");
    scene.results();
    scene.project.git("switch --quiet main");
    scene.works("merge --into main");
    assert_eq!(scene.env.read("project/feature.txt"), "x\n");
    assert_eq!(scene.env.read("project/new/made.txt"), "made\n");
}

/// What a person took off their branch stays off, in its files and in its history.
#[test]
fn branch_that_was_amended_meanwhile_gets_only_what_the_plan_changed() {
    for how in ["merge", "merge --squash"] {
        let Some(scene) = clean("") else { return };
        scene.env.write("project/secret.txt", "hunter2\n");
        scene.project.git("add secret.txt");
        scene.project.git("commit --quiet --amend --no-edit");
        let before = scene.project.git("rev-parse HEAD");
        scene.results();
        scene.project.git("rm --quiet secret.txt");
        scene.project.git("commit --quiet --amend --no-edit");
        let ran = scene.exits(0, how);
        let said = "does not have the commit any more that the plan began at";
        assert_eq!(ran.stderr.contains(said), how == "merge", "{ran:?}");
        assert!(!scene.env.path("project/secret.txt").exists());
        assert_eq!(scene.env.read("project/new/made.txt"), "made\n");
        lacks(scene.project.git("rev-list main"), before.trim());
        has(scene.works(how), "`main` contains the results");
        lacks(scene.exits(0, "prune").stdout, "not merged");
        assert_eq!(scene.project.git("status --porcelain"), "");
        scene.project.sound();
    }
}

#[test]
fn branch_of_a_person_may_have_the_name_of_the_program() {
    let Some(scene) = clean("") else { return };
    scene.project.git("switch --quiet -c fix/plan-agent-docs");
    scene.results();
    scene.works("merge");
    lacks(scene.exits(0, "prune").stdout, "not merged");
    assert_eq!(scene.project.git("branch --list plan-agent*"), "");
}

/// Where git gives up when it has written files, the project is as before.
#[test]
fn merge_that_fails_on_the_way_puts_all_back() {
    let Some(scene) = clean("") else { return };
    // It fails for what the agent makes of the file, where another one is missing.
    // A person changes another one meanwhile, which git has written already.
    let filter = "text=$(cat)\ncase $text in *TWO*) [ -e \"$1\" ] || { echo mine > \"$(cat \"$0.where\")\"; exit 1; };; esac\nprintf '%s\\n' \"$text\"\n";
    scene.env.write("smudge.sh", filter);
    let (filter, works) = (scene.env.path("smudge.sh"), scene.env.path("works"));
    // Not as an argument: a filter that runs what agents can change is refused.
    let mine = scene.project.folder.join("0.txt");
    scene
        .env
        .write("smudge.sh.where", &mine.display().to_string());
    let filter = format!("sh '{}' '{}'", filter.display(), works.display());
    for (name, value) in [("smudge", &*filter), ("clean", "cat"), ("required", "true")] {
        scene
            .project
            .git(["config", &format!("filter.f.{name}"), value]);
    }
    scene
        .env
        .write("project/.gitattributes", "a.txt filter=f\n");
    scene.env.write("project/0.txt", "before\n");
    scene.project.git("add .");
    scene.project.git("commit --quiet -m filtered");
    let script = scene.env.read("agent.sh");
    let more = format!("echo theirs > 0.txt\nln -s a.txt link\n{script}");
    scene.env.write("agent.sh", &more);
    fs::write(&works, "").unwrap();
    scene.results();
    fs::remove_file(&works).unwrap();
    let is_as_before = |status: &str| {
        scene.exits(1, "merge");
        assert_eq!(scene.project.git("status --porcelain"), status);
        assert_eq!(scene.env.read("project/a.txt"), "one\ntwo\nthree\n");
        assert!(!scene.env.path("project/new").exists());
    };
    is_as_before(" M 0.txt\n");
    assert_eq!(scene.env.read("project/0.txt"), "mine\n");
    scene.project.git("checkout --quiet 0.txt");
    fs::write(works, "").unwrap();
    let lock = scene.project.folder.join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    is_as_before("");
    fs::remove_file(lock).unwrap();
    scene.works("merge");
    assert_eq!(scene.env.read("project/a.txt"), "one\nTWO\nthree\n");
}

#[test]
fn merge_refuses_only_what_would_change_files_of_the_person() {
    type Prepare = fn(&Clean);
    let rows: [(&str, Prepare, &[&str]); 8] = [
        (
            "changed",
            |scene| scene.env.write("project/a.txt", "mine\n"),
            &["a.txt"],
        ),
        (
            "staged, and put back",
            |scene| {
                scene.env.write("project/a.txt", "mine\n");
                scene.project.git("add a.txt");
                scene.env.write("project/a.txt", "one\ntwo\nthree\n");
            },
            &["a.txt"],
        ),
        (
            "untracked",
            |scene| scene.env.write("project/new/made.txt", "mine\n"),
            &["new/made.txt"],
        ),
        (
            "ignored",
            |scene| {
                scene.env.write("project/.git/info/exclude", "made.txt\n");
                scene.env.write("project/new/made.txt", "mine\n");
            },
            &["new/made.txt"],
        ),
        (
            "in place of a folder",
            |scene| scene.env.write("project/new", "mine\n"),
            &["new"],
        ),
        (
            "a link in place of a folder",
            |scene| {
                fs::create_dir(scene.env.path("theirs")).unwrap();
                symlink(scene.env.path("theirs"), scene.env.path("project/new")).unwrap();
            },
            &["new"],
        ),
        (
            "committed since",
            |scene| {
                scene.env.write("project/a.txt", "one\nmine\nthree\n");
                scene.project.git("commit --quiet --all -m mine");
            },
            &["changed the same places: `a.txt`", "git merge plan-agent/"],
        ),
        (
            "another merge",
            |scene| {
                let head = scene.project.git("rev-parse HEAD");
                scene.env.write("project/.git/MERGE_HEAD", &head);
            },
            &["MERGE_HEAD exists"],
        ),
    ];
    for (name, prepare, said) in rows {
        row(name);
        let Some(scene) = clean("") else { return };
        scene.results();
        prepare(&scene);
        let before = (
            scene.project.of_the_person(),
            scene.project.git("status --porcelain"),
        );
        let ran = scene.exits(1, "merge");
        for part in said {
            ran.has_stderr(*part);
        }
        let after = (
            scene.project.of_the_person(),
            scene.project.git("status --porcelain"),
        );
        assert_eq!(after, before);
        lacks(scene.works("log"), "taken over");
    }
}

#[test]
fn merge_asks_if_another_branch_is_checked_out() {
    let Some(scene) = clean("") else { return };
    scene.results();
    scene.project.git("switch --quiet -c other");
    let ran = scene.exits(2, "merge");
    ran.has_stderr([
        "began on `main`, and `other` is checked out",
        "--into other",
    ]);
    scene.refuses(2, "merge --into main", "`other` is checked out, not `main`");
    let (mut running, mut terminal) = scene.env.start_on_terminal("merge");
    terminal.answer("[y/N]", "n");
    assert_eq!(running.wait().code(), Some(2));
    scene.project.git("switch --quiet --detach");
    scene.refuses(2, "merge", "no branch is checked out");
    scene.project.git("switch --quiet other");
    // Commits of the person since then are merged.
    scene.env.write("project/b.txt", "mine\n");
    scene.project.git("commit --quiet --all -m mine");
    let (mut running, mut terminal) = scene.env.start_on_terminal("merge");
    terminal.answer("[y/N]", "y");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    has(scene.project.git("log -1 --format=%s"), "Merge plan-agent/");
    assert_eq!(scene.env.read("project/b.txt"), "mine\n");
    assert_eq!(scene.env.read("project/new/made.txt"), "made\n");
    assert_eq!(scene.project.git("status --porcelain"), "");
    scene.project.sound();
}

#[test]
fn merge_names_only_a_branch_that_can_be_switched_to() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    scene.project.git("switch --quiet -c other");
    let refused = |words: &str, said: [&str; 2]| {
        let ran = scene.exits(2, words);
        ran.has_stderr(said);
        ran.has_stderr(format!("merge {} --into other`", plan_id(&scene.scene)));
        ran.lacks_stderr("git switch");
    };
    let none = "there is no branch `nosuch`";
    refused("merge --into nosuch", [none, "`other` is checked out"]);
    scene.project.git("worktree add --quiet ../theirs main");
    let theirs = format!("`git merge {branch}` in `");
    refused("merge", [&theirs, "theirs`, where `main` is checked out"]);
    scene.project.git("worktree remove ../theirs");
    scene.project.git("branch -m main trunk");
    let none = "there is no branch `main` any more";
    refused("merge", ["the plan began on `main`", none]);
}

#[test]
fn merge_says_that_no_file_differs() {
    let Some(scene) = clean("") else { return };
    let script = scene.env.read("agent.sh").replace(WORK, "");
    let commit = "git -c core.hooksPath=/dev/null -c user.name=a -c user.email=a commit -q --allow-empty -m x\n";
    scene.env.write("agent.sh", &format!("{commit}{script}"));
    scene.results();
    let ran = scene.exits(0, "merge");
    ran.has_stdout([" are in `main`, at ", ": no file is changed\n"]);
}

#[test]
fn killed_merge_leaves_before_or_after() {
    for kill in 0..times(6, 60) {
        let Some(scene) = clean("run.worktrees = 'volumes/worktrees'\n") else {
            return;
        };
        let many = "i=0; while [ $i -lt 400 ]; do echo made > file$i; i=$((i+1)); done\n";
        let script = scene.env.read("agent.sh");
        scene.env.write("agent.sh", &format!("{many}{script}"));
        let branch = scene.results();
        let before = scene.project.git("rev-parse HEAD");
        let after = scene.project.git(["rev-parse", &branch]);
        let mut merge = scene.env.start("merge");
        let lock = scene.path("worktrees/.git-runs");
        // Later and later after git has begun to write, at most until the end.
        wait_until("git works or the end", || {
            scene.env.path("project/.git/index.lock").exists()
                || scene.project.git("rev-parse HEAD") == after
        });
        std::thread::sleep(std::time::Duration::from_millis(kill % 6));
        drop(merge.child.kill());
        merge.wait();
        wait_until("git has ended", || !plan_agent::exec::alive(&lock));
        let head = scene.project.git("rev-parse HEAD");
        assert!([&before, &after].contains(&&head), "{head}");
        assert_eq!(scene.project.git("status --porcelain"), "", "{head}");
        scene.exits(0, "merge");
        assert_eq!(scene.project.git("rev-parse HEAD"), after);
        scene.project.sound();
    }
}

#[test]
fn prune_removes_only_what_is_merged_or_named() {
    let Some(scene) = clean("") else { return };
    let script = scene.env.read("agent.sh");
    scene.env.write(
        "agent.sh",
        &format!("mkdir built; echo x > built/out\n{script}"),
    );
    let branch = scene.results();
    let task = format!("plan-agent-task/{}/1", plan_id(&scene.scene));
    let branches = || {
        scene
            .project
            .git("branch --list plan-agent* --format=%(refname:short)")
    };
    assert_eq!(
        branches().lines().count(),
        2,
        "what git ignores keeps the worktree at first"
    );
    let ran = scene.exits(0, "prune");
    // The worktree is gone, its branch is in the results, and these are in no branch of the person.
    ran.has_stdout([
        format!("removed the worktree of `{task}`"),
        format!("kept: `{branch}` is not merged"),
    ]);
    assert_eq!(branches(), format!("{branch}\n"));
    scene.refuses(
        2,
        "prune --unmerged other",
        "no plan that has ended has a branch `other`",
    );
    let at = scene.project.git(["rev-parse", &branch]);
    let ran = scene.exits(0, ["prune", "--unmerged", &branch]);
    ran.has_stdout(format!("removed `{branch}` (was {}", &at[..10]));
    assert_eq!(branches(), "");
    has(scene.works("log"), "removed `plan-agent/");
    has(scene.works("prune"), "nothing to remove");
    // The commit is still there, and nothing else.
    lacks(scene.exits(0, "merge").stderr, "prune");
    assert_eq!(scene.env.read("project/new/made.txt"), "made\n");
    assert_eq!(scene.project.git("worktree list").lines().count(), 1);
    scene.project.sound();
}

#[test]
fn worktree_that_is_none_any_more_is_pruned_as_the_hint_says() {
    let Some(scene) = clean("") else { return };
    let script = scene.env.read("agent.sh");
    let leaves = format!("mkdir built; echo x > built/out\n{script}");
    scene.env.write("agent.sh", &leaves);
    scene.results();
    has(scene.exits(0, "merge").stderr, " prune` removes what");
    let task = format!("plan-agent-task/{}/1", plan_id(&scene.scene));
    let listed = scene.project.git("worktree list --porcelain");
    let mut folders = listed
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "));
    let folder = folders.next_back().unwrap();
    fs::remove_file(format!("{folder}/.git")).unwrap();
    let ran = scene.exits(0, ["prune", "--unmerged", &task]);
    ran.has_stdout("kept: ");
    let (_, hint) = ran.stderr.split_once("Hint: `rm -rf ").unwrap();
    let (shown, _) = hint.split_once('`').unwrap();
    let shown = scene.env.path(shown);
    assert_eq!(
        shown.canonicalize().unwrap(),
        Path::new(folder).canonicalize().unwrap()
    );
    lacks(&ran.stderr, "--unmerged NAME");
    fs::remove_dir_all(shown).unwrap();
    let removed = format!("removed `{task}`");
    scene.exits(0, "prune").has_stdout(removed);
}

#[test]
fn what_a_branch_has_beyond_the_plan_is_said_when_it_is_merged() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    scene.project.git("worktree prune");
    let own = format!("commit-tree -m own -p {branch} {branch}^{{tree}}");
    let own = scene.project.git(&own);
    let moved = format!("update-ref refs/heads/{branch} {}", own.trim());
    scene.project.git(&moved);
    let ran = scene.exits(0, "merge");
    ran.has_stderr(
        "was ahead of the plan: what it has beyond the plan's results is taken over, too",
    );
    has(scene.project.git("log --format=%s"), "own\n");
}

#[test]
fn results_that_a_restored_plan_does_not_know_are_said_when_it_is_merged() {
    let Some(scene) = clean("") else { return };
    scene.results();
    scene.works("restore --at 1");
    let ran = scene.exits(0, "merge");
    ran.has_stderr([
        "also has what was accepted of tasks that do not count as done now: 1",
        "the plan has not ended",
    ]);
}

#[test]
fn plan_that_has_not_begun_has_no_results() {
    let Some(scene) = clean("") else { return };
    scene.works("run --queue --plan one.md");
    for command in ["merge", "discard"] {
        scene.refuses(2, command, ["none of its tasks has been begun", "Hint: "]);
    }
}

/// The shell makes the file before the program begins.
#[test]
fn file_that_is_printed_into_is_no_change_of_the_person() {
    let Some(scene) = clean("run.isolation = 'auto'\n") else {
        return;
    };
    let printed = ["out", "err"].map(|name| scene.env.path("project").join(name));
    let [out, err] = printed.each_ref().map(|path| File::create(path).unwrap());
    let run = format!("run --no-input --plan one.md {}", scene.agent);
    let ended = scene.env.spawn(&*run, out, err).wait();
    let [out, err] = printed.map(|path| fs::read_to_string(path).unwrap());
    assert!(ended.success(), "{out}{err}");
    has(out, "agents work in worktrees");
}

#[test]
fn clean_prints_what_removes_worktrees_and_branches() {
    let Some(scene) = clean("run.max_attempts = 1\n") else {
        return;
    };
    scene
        .env
        .write("agent.sh", "echo half > half.txt\nexit 1\n");
    scene.exits(4, format!("run --no-input --plan one.md {}", scene.agent));
    let ran = scene.exits(0, "clean --yes");
    ran.has_stdout("the worktrees and the branches of plans stay");
    let title = "to remove the worktrees and the branches that stay, with all work in them:\n";
    let (_, commands) = ran.stdout.split_once(title).unwrap();
    assert_eq!(scene.project.git("worktree list").lines().count(), 2);
    let mut shell = std::process::Command::new("sh");
    // The hooks of the project refuse everything.
    shell.envs([
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "core.hooksPath"),
        ("GIT_CONFIG_VALUE_0", "/dev/null"),
    ]);
    let ended = shell.args(["-ec", commands]).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(scene.project.git("branch --list plan-agent*"), "");
    assert_eq!(scene.project.git("worktree list").lines().count(), 1);
    scene.project.sound();
}

#[test]
fn results_that_are_taken_over_are_not_discarded() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    scene.exits(0, "merge");
    scene.refuses(2, "discard", ["are taken over already", "prune` removes"]);
    assert_eq!(
        scene.project.git(["branch", "--list", &branch]).trim(),
        branch
    );
}

#[test]
fn results_that_a_person_merged_are_not_discarded() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    scene.project.git(["merge", "--quiet", &branch]);
    scene.refuses(2, "discard", "are taken over already");
    scene.exits(0, "prune");
    lacks(scene.read("volumes/MISSION.md"), " takes it over");
}

/// To go on would begin on top of what was discarded.
#[test]
fn discarded_plan_does_not_go_on() {
    let Some(scene) = clean("") else { return };
    scene.results();
    scene.exits(0, "discard");
    let plan = plan_id(&scene.scene);
    let show = format!("plan-agent show {plan} > plan.md");
    let said = ["does not go on", &show, "plan-agent run --plan plan.md"];
    scene.refuses(1, "retry 1 --yes", said);
    scene.refuses(1, ["add", "Another one"], said);
    scene.refuses(1, "restore --at 3", said);
    // Begun anew, everything is still to be done.
    let shown = scene.works(["show", &plan]);
    lacks(&shown, "- done");
    scene.scene.write("plan.md", &shown);
    scene.exits(0, format!("run --plan plan.md {}", scene.agent));
    assert_eq!(scene.events_named("claimed").len(), 1);
}

/// What a merge brings into the folder in which another plan's agent works is not that agent's work, also where its check runs on
/// the state before only after that.
#[test]
fn results_merged_beside_an_agent_prove_nothing_for_it() {
    for late in [false, true] {
        let Some(scene) = clean("") else { return };
        let checked = scene.env.path("checked");
        let run = match late {
            true => format!("until [ -e {} ]; do sleep 0.02; done; ", checked.display()),
            false => String::new(),
        };
        let run = format!("{run}grep -q fix fix.txt");
        let check = format!(
            "\nrun.checks = ['fixed']\nchecks.fixed = {{run = ['sh', '-c', '{run}'], plain = true}}\n"
        );
        let config = scene.read("config.toml") + &check;
        scene.scene.write("config.toml", &config);
        scene.scene.write("project/fix.txt", "no\n");
        scene.project.git("add .");
        scene.project.git("commit --quiet -m broken");
        let agent = "case $PWD in *task-*) echo fix > fix.txt;; *) touch ../at-work; until [ -e ../go ]; do sleep 0.02; done; echo y > y.txt;; esac\n";
        let report = "printf -- '---\nstatus: SUCCESS\n---\n\ndone\n' > $1\n";
        scene.env.write("agent.sh", &format!("{agent}{report}"));
        scene.env.write("checked", "");
        scene.exits(0, format!("run --plan one.md {}", scene.agent));
        let first = plan_id(&scene.scene);
        if late {
            fs::remove_file(&checked).unwrap();
        }
        scene
            .scene
            .write("config.toml", &(config + "run.isolation = 'shared'\n"));
        let _daemon = scene.leave(format!("run --plan one.md {}", scene.agent));
        wait_until("it works", || scene.env.path("at-work").exists());
        let merged = scene.exits(0, ["merge", &first]);
        merged.has_stderr("what failed there before proves nothing any more");
        scene.env.write("checked", "");
        scene.env.write("go", "");
        scene.await_end();
        let why = scene.works(format!("why {} 1", plan_id(&scene.scene)));
        has(&why, "came into the same folder");
        lacks(&why, "it is proven");
    }
}

#[test]
fn merge_without_a_name_says_which_plan_it_takes() {
    let Some(scene) = clean("") else { return };
    let older = scene.results().replace("plan-agent/", "plan ");
    scene.results();
    scene.exits(0, "discard");
    scene.exits(0, "merge").has_stderr(&older);
}

/// A branch that is pushed, as for a request to merge it, is not merged by that.
#[test]
fn pushed_results_are_not_pruned() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    scene
        .project
        .git(["clone", "--quiet", "--bare", ".", "../server.git"]);
    scene
        .project
        .git(["remote", "add", "server", "../server.git"]);
    scene.project.git(["push", "--quiet", "server", &branch]);
    scene
        .exits(0, "prune")
        .has_stdout(format!("kept: `{branch}` is not merged"));
    scene.exits(0, "merge");
    scene
        .exits(0, "prune")
        .has_stdout(format!("removed `{branch}`"));
}

/// Once git has collected the commits, nothing can be merged, and nothing goes on from there.
#[test]
fn results_that_are_gone_are_said_once() {
    let Some(scene) = clean("") else { return };
    let branch = scene.results();
    scene.works("prune --unmerged ".to_owned() + &branch);
    scene.project.git("reflog expire --expire=now --all");
    scene.project.git("gc --quiet --prune=now");
    scene.refuses(1, "merge", ["are gone", "git fetch"]);
    scene.works("retry 1 --yes");
    scene.refuses(1, "resume --no-input", ["are gone", "git fetch"]);
}

#[test]
fn discard_keeps_results_aside() {
    let Some(scene) = clean("run.max_attempts = 1\n") else {
        return;
    };
    // Not accepted: the work is only in the worktree.
    scene
        .env
        .write("agent.sh", "echo half > half.txt\nexit 1\n");
    scene.exits(4, format!("run --no-input --plan one.md {}", scene.agent));
    let plan = plan_id(&scene.scene);
    scene.refuses(2, "discard", "has not ended");
    scene.works(["abort", &plan]);
    // Nothing was accepted.
    has(scene.works("status"), "Nothing was accepted that changes");
    let ran = scene.exits(0, "discard");
    let aside = format!("refs/plan-agent/discarded/{plan}");
    ran.has_stdout(&aside);
    ran.has_stderr(format!("`git branch NAME {aside}/1`"));
    let half = format!("{aside}/1:half.txt");
    assert_eq!(scene.project.git(["show", &half]), "half\n");
    assert_eq!(scene.project.git("branch --list plan-agent*"), "");
    assert_eq!(scene.project.git("worktree list").lines().count(), 1);
    has(
        scene.works("log"),
        format!("results discarded, kept as {aside}"),
    );
    // Nothing brings them back by accident, and nothing says that they are on the branch.
    let hint = format!("`git for-each-ref {aside}`");
    scene.refuses(2, "merge", ["are discarded", &hint]);
    has(scene.works("status"), "The results are discarded.");
    scene.refuses(1, "skip 1", "are discarded");
    has(scene.works("diff 1"), "+half");
    has(scene.works("diff"), "1 file changed");
    scene
        .project
        .git(["update-ref", "-d", &format!("{aside}/1")]);
    scene.exits(0, "diff").has_stderr("nothing is kept of what");
    scene.project.sound();
}

#[test]
fn discard_says_what_it_does_not_keep() {
    let rows = [
        ("rm .git", "is no git worktree any more"),
        (
            "git add . && git -c core.hooksPath=/dev/null checkout -q --orphan o && git -c core.hooksPath=/dev/null -c user.name=a -c user.email=a commit -q -m o",
            "shares no commit with the plan",
        ),
        ("git init --quiet sub; echo x > sub/x", ""),
    ];
    for (leaves, no_diff) in rows {
        row(leaves);
        let Some(scene) = clean("run.max_attempts = 1\n") else {
            return;
        };
        let script = format!("echo half > half.txt\n{leaves}\nexit 1\n");
        scene.env.write("agent.sh", &script);
        scene.exits(4, format!("run --no-input --plan one.md {}", scene.agent));
        if !no_diff.is_empty() {
            scene.refuses(1, "diff 1", no_diff);
            let all = scene.exits(0, "diff");
            all.has_stderr(["! 1 · ", no_diff]);
            all.lacks_stderr("no task has changed");
        }
        let plan = plan_id(&scene.scene);
        scene.works(["abort", &plan]);
        let ran = scene.exits(0, "discard");
        ran.has_stdout("only in the worktrees that stay");
        ran.has_stderr("stays as it is: ");
        ran.lacks_stderr("git branch NAME");
        let kept = scene.project.git("for-each-ref refs/plan-agent");
        assert_eq!(kept, "");
    }
}

#[test]
fn file_that_git_cannot_take_is_said_at_its_task() {
    let Some(scene) = clean("run.max_attempts = 1\n") else {
        return;
    };
    let script = scene.env.read("agent.sh");
    // Git takes no pipe, as it takes no file that cannot be read.
    let pipe = "case $PWD in *task-1) rm a.txt; mkfifo a.txt; exit 1;; esac\n";
    scene.env.write("agent.sh", &format!("{pipe}{script}"));
    let two =
        "---\nname: Two\ngoal: Two files\n---\n\n## One\n\nMake it.\n\n## Other\n\nMake it.\n";
    scene.write("two.md", two);
    scene.exits(4, format!("run --no-input --plan two.md {}", scene.agent));
    let ran = scene.exits(0, "diff");
    ran.has_stdout("2 · Other: 2 files changed");
    ran.has_stderr(["! 1 · One: ", "a.txt"]);
    let plan = plan_id(&scene.scene);
    scene.works(["abort", &plan]);
    let ran = scene.exits(0, "discard");
    ran.has_stdout("except what is only in the worktrees that stay");
    let results = format!("`git branch NAME refs/plan-agent/discarded/{plan}/results`");
    ran.has_stderr(["stays as it is: ", "a.txt", &results]);
    scene.project.sound();
}

/// Files of a worktree keep their permissions.
#[test]
fn programs_of_results_stay_programs() {
    let Some(scene) = clean("") else { return };
    let script = scene.env.read("agent.sh");
    scene.env.write(
        "agent.sh",
        &format!("echo x > tool; chmod +x tool\n{script}"),
    );
    scene.results();
    scene.exits(0, "merge");
    let mode = fs::metadata(scene.env.path("project/tool"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o111, 0o111);
}

#[test]
fn ignored_files_that_project_names_are_in_worktrees() {
    let Some(scene) = clean("") else { return };
    let project = |name: &str, text: &str| scene.env.write(&format!("project/{name}"), text);
    project(".gitignore", "built\n*.local\n.env*\nsecret/\n");
    project(".worktreeinclude", "*\n!other.local\n/sub/.env\n");
    scene.project.git("add .");
    scene.project.git("commit --quiet -m ignored");
    for name in [
        "a.local",
        "secret/key",
        "sub/.env",
        ".env",
        ".env.local",
        "other.local",
    ] {
        project(name, "theirs\n");
    }
    project("large.local", &"x".repeat(5 * 1024 * 1024));
    scene.env.write("outside", "outside\n");
    symlink(
        scene.env.path("outside"),
        scene.env.path("project/link.local"),
    )
    .unwrap();
    let script = scene.env.read("agent.sh");
    let list = "find . -name '*.local' -o -name '.env*' -o -name key | sort > listed\n";
    scene.env.write("agent.sh", &format!("{list}{script}"));
    let branch = scene.results();
    let listed = scene.project.git(["show", &format!("{branch}:listed")]);
    assert_eq!(listed, "./a.local\n./secret/key\n./sub/.env\n");
    // They are no results.
    let files = scene.project.git(["ls-tree", "-r", "--name-only", &branch]);
    lacks(files, ["local", "key"]);
}

#[test]
fn new_worktree_is_prepared_once() {
    let Some(scene) = clean(
        "run.prepare = { run = ['sh', '-c', 'echo ready >> built'] }\nrun.checks = ['ready']\nchecks.ready = { run = ['grep', 'ready', 'built'] }\n",
    ) else {
        return;
    };
    let script = scene.env.read("agent.sh");
    // The first attempt fails.
    let twice = "cp built seen.txt; test -e again || { touch again; exit 1; }\n";
    scene.env.write("agent.sh", &format!("{twice}{script}"));
    let branch = scene.results();
    let seen = scene.project.git(["show", &format!("{branch}:seen.txt")]);
    assert_eq!(seen, "ready\n");
    has(scene.env.run("why 1").stdout, "check ready: exit 0");
}

#[test]
fn failed_preparation_fails_the_attempt() {
    let Some(scene) = clean(
        "run.max_attempts = 2\nrun.prepare = { run = ['sh', '-c', 'echo no network; exit 3'] }\n",
    ) else {
        return;
    };
    let ran = scene.run(format!("run --no-input --plan one.md {}", scene.agent));
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let said = "`prepare` failed (exit 3): no network";
    ran.has_stdout(["its worktree is not ready: ", said]);
    assert_eq!(scene.events_named("unprepared").len(), 2);
    assert_eq!(scene.events_named("claimed").len(), 0);
    let question = scene.status()["questions"][0].clone();
    has(question["reason"].as_str().unwrap(), said);
    let why = scene.env.run("why 1").stdout;
    has(&why, ["ended before an agent took it", said]);
    lacks(&why, "timed out");
    let logs = scene.names("logs");
    assert_eq!(
        logs.iter()
            .filter(|name| name.ends_with(".prepare"))
            .count(),
        2
    );
    // Mended, it goes on.
    let config = scene.env.read("config.toml").replace("exit 3", "exit 0");
    scene.env.write("config.toml", &config);
    scene.works("answer retry");
    scene.exits(0, format!("resume {}", scene.agent));
}

#[test]
fn lock_of_a_killed_git_is_named_with_the_way_out() {
    let Some(scene) = clean("") else { return };
    scene.results();
    let lock = scene.project.folder.join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let named = format!("has left `{}`", lock.display());
    scene.refuses(1, "merge", [named.as_str(), "remove that file", " merge "]);
    fs::remove_file(&lock).unwrap();
    scene.works("merge");
}

#[test]
fn choices_for_uncommitted_files_are_explained() {
    let Some(scene) = clean("") else { return };
    scene.env.write("project/b.txt", "mine\n");
    let run = format!("run --plan one.md {}", scene.agent);
    let (mut running, mut terminal) = scene.env.start_on_terminal(run);
    terminal.answer("commit · go · shared · ? > ", "?");
    terminal.await_below("Words may be shortened", "commit · go · shared · ? > ");
    terminal.type_keys("go\n");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
}

#[test]
fn folder_named_git_makes_no_project() {
    let scene = Scene::by_rules("");
    fs::create_dir(scene.env.path(".git")).unwrap();
    fs::create_dir(scene.env.path("work")).unwrap();
    let _agent = scene.agent(|_| Act::success("done"));
    let ran = scene.exits(0, "run --plan one.md --workspace work");
    ran.lacks_stderr("git project");
}
