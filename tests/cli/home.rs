//! Where everything of plan-agent's lies, and where agents work: in a git project, outside of one, and where a plan file says so.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::env::{TestEnv, has, skip, wait_until};
use crate::common::git::{Project, git};

/// A plan of one task for the agent `shell`.
const PLAN: &str = "## Make the file\n\n```sh\necho made > made.txt\n```\n";

/// Returns the names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Makes the folder of the test one of a person who has never used the program; `None` where tests run within a git project.
fn elsewhere(env: &TestEnv) -> Option<()> {
    fs::remove_dir_all(env.path(".plan-agent")).unwrap();
    let here = env.path("");
    let mut around = here.ancestors().map(|folder| folder.join(".git"));
    if around.any(|git| git.is_file() || git.join("HEAD").exists()) {
        skip("the folder for temporary files is within a git project");
        return None;
    }
    Some(())
}

/// Returns a project without uncommitted changes.
fn committed(env: &TestEnv) -> Option<Project> {
    let project = Project::new(env)?;
    project.git("add .");
    project.git("commit --quiet -m all");
    Some(project)
}

#[test]
fn project_is_worked_on_from_any_folder_and_keeps_its_files() {
    let env = TestEnv::new();
    let Some(project) = Project::new(&env) else {
        return;
    };
    // Names that a project may well use itself.
    let own = [
        "config.toml",
        "prompts/plan.md",
        "volumes/data",
        "MISSION.md",
    ];
    for name in own {
        env.write(&format!("project/{name}"), "theirs = [\n");
    }
    env.write("project/src/deep/code", "");
    env.write("plan.md", PLAN);
    project.git("add .");
    project.git("commit --quiet -m theirs");

    let ran = env.exits(
        0,
        "-C project/src/deep run --plan ../../../plan.md --agent shell",
    );
    has(&ran.stdout, "completed");
    assert_eq!(project.git("status --porcelain").trim(), "?? made.txt");
    for name in own {
        assert_eq!(env.read(&format!("project/{name}")), "theirs = [\n");
    }
    let within = project.folder.join(".plan-agent");
    assert_eq!(
        names(&within),
        [".gitignore", "MISSION.md", "layout", "volumes"]
    );
    let exclude = fs::read_to_string(project.folder.join(".git/info/exclude"));
    assert!(!exclude.unwrap_or_default().contains("MISSION"));

    // Views find it from any folder, and say what to type from there.
    for folder in ["project", "project/src", "project/.plan-agent/volumes"] {
        let ran = env.exits(0, ["-C", folder, "plans"]);
        has(&ran.stdout, "completed");
    }
    let listed = env.exits(2, "-C project/src why 9");
    has(&listed.stderr, "plan-agent -C project/src status");
}

#[test]
fn nothing_foreign_is_taken_for_ours() {
    let env = TestEnv::new();
    let Some(project) = Project::new(&env) else {
        return;
    };
    env.write("plan.md", PLAN);
    env.write("project/.plan-agent/notes", "theirs");
    let run = "-C project run --plan ../plan.md --agent shell";
    env.refuses(2, run, ["it has `notes` in it", "Hint: "]);
    assert_eq!(names(&project.folder.join(".plan-agent")), ["notes"]);

    fs::remove_dir_all(project.folder.join(".plan-agent")).unwrap();
    symlink(env.path(""), project.folder.join(".plan-agent")).unwrap();
    env.refuses(2, run, ["it is no folder", "Hint: "]);

    // A marker behind a link names no home, either.
    fs::remove_file(project.folder.join(".plan-agent")).unwrap();
    fs::create_dir(project.folder.join(".plan-agent")).unwrap();
    symlink(
        env.path(".plan-agent/layout"),
        project.folder.join(".plan-agent/layout"),
    )
    .unwrap();
    env.refuses(2, run, ["it is a symbolic link", "Hint: "]);
    assert!(!env.path("project/volumes").exists());
}

#[test]
fn configuration_by_hand_is_taken_over_once_confirmed() {
    let mut env = TestEnv::new();
    env.confirm_nothing();
    let Some(project) = Project::new(&env) else {
        return;
    };
    env.write("plan.md", PLAN);
    let run = "-C project run --plan ../plan.md --agent shell";
    for (config, command) in [
        (
            "[run]\nchecks = ['there']\n[checks]\nthere = { run = ['test', '-e', 'a.txt'] }\n",
            run,
        ),
        ("# nothing that has to be confirmed\n", "-C project init"),
    ] {
        env.write("project/.plan-agent/config.toml", config);
        let doctor = env.run("-C project doctor").stdout;
        has(
            &doctor,
            ["has a config.toml that plan-agent did not write", "trust`"],
        );
        let code = if command == run { 4 } else { 2 };
        env.refuses(code, command, "trust`");
        assert_eq!(names(&project.folder.join(".plan-agent")), ["config.toml"]);
        let (mut running, mut terminal) = env.start_on_terminal("-C project trust");
        terminal.answer("Confirm it? [y/N]", "y");
        assert!(running.wait().success());
        terminal.await_shown("becomes the folder of plan-agent");
        env.exits(0, command);
        assert_eq!(env.read("project/.plan-agent/config.toml"), config);
        assert!(env.path("project/.plan-agent/layout").exists());
        // Nothing is asked again, and nothing stays confirmed of what is removed.
        env.exits(0, run);
        env.exits(0, "-C project clean --yes");
    }
}

#[test]
fn folder_outside_git_is_worked_in_only_if_a_person_agrees() {
    for (answer, made) in [
        (None, ".plan-agent/volumes/workspace/made.txt"),
        (Some("n"), ".plan-agent/volumes/workspace/made.txt"),
        (Some("y"), "made.txt"),
    ] {
        let env = TestEnv::new();
        if elsewhere(&env).is_none() {
            return;
        }
        env.write("plan.md", PLAN);
        let run = "run --plan plan.md --agent shell";
        match answer {
            None => drop(env.exits(0, run)),
            Some(answer) => {
                let (mut running, mut terminal) = env.start_on_terminal(run);
                terminal.answer("Let them work in it? [y/N]", answer);
                assert!(running.wait().success(), "{}", terminal.shown());
            }
        }
        assert!(env.path(made).exists(), "{answer:?}");
        // It is not asked again: the layout stays.
        fs::remove_file(env.path(made)).unwrap();
        env.exits(0, run);
        assert!(env.path(made).exists(), "{answer:?}");
    }
}

#[test]
fn plan_file_names_workspace_below_itself() {
    let env = TestEnv::new();
    env.write("stranger/config.toml", "[volumes]\nroot = 'other'\n");
    symlink("..", env.path("stranger/out")).unwrap();
    fs::create_dir(env.path("near")).unwrap();
    let plan = |workspace: &str| {
        let text = format!("---\nworkspace: {workspace}\n---\n\n{PLAN}");
        env.write("stranger/plan.md", &text);
    };
    let run = "run --plan stranger/plan.md --agent shell";
    plan("deep/work");
    env.exits(0, run);
    assert!(env.path("stranger/deep/work/made.txt").exists());
    for leads_out in ["../near", "deep/../../near", "out/near", "/tmp"] {
        plan(leads_out);
        env.refuses(4, run, ["which is not below it", "--workspace DIR"]);
    }
    assert_eq!(names(&env.path("near")), [""; 0]);
    plan("../near");
    let (mut running, mut terminal) = env.start_on_terminal(run);
    terminal.answer("Let them? [y/N]", "yes");
    assert!(running.wait().success(), "{}", terminal.shown());
    assert!(env.path("near/made.txt").exists());
    // What is named on the command line is confirmed by that.
    fs::remove_file(env.path("near/made.txt")).unwrap();
    plan("/tmp");
    env.exits(0, [run, " --workspace near"].concat().as_str());
    assert!(env.path("near/made.txt").exists());
}

#[test]
fn agents_do_not_work_in_the_folder_of_plan_agent() {
    let env = TestEnv::new();
    if Project::new(&env).is_none() {
        return;
    }
    env.write("plan.md", PLAN);
    env.exits(0, "-C project init");
    env.write("project/.plan-agent/config.toml", "run.workspace = '.'\n");
    env.refuses(
        2,
        "-C project run --plan ../plan.md --agent shell",
        ["is plan-agent's own folder", "Hint: "],
    );
}

#[test]
fn init_keeps_out_of_the_way_of_foreign_files() {
    let env = TestEnv::new();
    let Some(project) = Project::new(&env) else {
        return;
    };
    env.write("project/config.toml", "theirs");
    let taken = "`config.toml` exists already";
    env.refuses(2, "-C project init --top-level", [taken, "Hint: "]);
    let made = env.exits(0, "-C project init");
    has(&made.stdout, "made  .plan-agent/config.toml");
    assert_eq!(env.read("project/config.toml"), "theirs");
    assert_eq!(
        git(&project.folder, "status --porcelain config.toml").trim(),
        "?? config.toml"
    );
    env.exits(0, "-C project doctor");
    // Once it is there it is found, whatever is asked for.
    let kept = env.exits(0, "-C project init --top-level");
    has(&kept.stdout, "kept  .plan-agent/config.toml");
}

#[test]
fn clean_removes_what_is_ours_once_agreed() {
    let env = TestEnv::new();
    env.write("plan.md", PLAN);
    env.write("volumes/README.md", "shared");
    env.write("volumes/commands/pending/.gitkeep", "");
    env.exits(0, "run --plan plan.md --agent shell");
    env.refuses(4, "clean", "`plan-agent clean --yes` removes it");
    assert!(env.path("volumes/plan-agent.db").exists());
    let cleaned = env.exits(0, "clean --yes");
    has(&cleaned.stdout, "`volumes` is plan-agent's: 1 plan\n");
    assert_eq!(names(&env.path("volumes")), ["README.md", "commands"]);
    assert_eq!(names(&env.path("")), [".plan-agent", "plan.md", "volumes"]);

    let Some(project) = Project::new(&env) else {
        return;
    };
    env.exits(0, "-C project run --plan ../plan.md --agent shell");
    let (mut running, mut terminal) = env.start_on_terminal("-C project clean");
    terminal.answer("with the history of its plans? [y/N]", "");
    assert!(running.wait().success());
    terminal.await_shown("nothing was removed");
    env.exits(0, "-C project clean --yes");
    assert!(!project.folder.join(".plan-agent").exists());
    assert!(project.folder.join("made.txt").exists());
    let again = env.exits(0, "-C project clean");
    has(&again.stdout, "nothing here is plan-agent's");
}

#[test]
fn checks_of_a_new_project_are_kept_and_confirmed() {
    let env = TestEnv::new();
    let Some(project) = Project::new(&env) else {
        return;
    };
    env.write("plan.md", PLAN);
    env.write("project/Makefile", "test:\n\t@echo 3 passed\n");
    project.git("add .");
    project.git("commit --quiet -m more");
    let run = "-C project run --plan ../plan.md --agent shell";
    let (mut running, mut terminal) = env.start_on_terminal(run);
    terminal.answer("[y/N]", "y");
    assert!(running.wait().success(), "{}", terminal.shown());
    let config = env.read("project/.plan-agent/config.toml");
    has(&config, "make = { run = [\"make\", \"test\"]");
    assert!(env.path("project/.plan-agent/layout").exists());
    // Without a terminal nothing has to be confirmed, also for a daemon.
    let ran = env.exits(0, run);
    has(&ran.stdout, "checks pass: make");
    env.exits(0, [run, " --detach"].concat().as_str());
    wait_until("the daemon has ended", || {
        let status = env.run("-C project status --json").stdout;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["plan"]["status"] == "completed" && status["daemon"].is_null()
    });
}

/// The plans of a copied project name the original: what is typed in the copy must not happen there.
#[test]
fn copy_of_a_project_does_nothing_to_the_original() {
    let env = TestEnv::new();
    let Some(project) = committed(&env) else {
        return;
    };
    env.write("plan.md", PLAN);
    let report = "---\\nstatus: SUCCESS\\n---\\n\\n## Core results\\n\\ndone\\n";
    let script = format!("echo made > made.txt\nprintf -- '{report}' > \"$1\"\n");
    env.write("agent.sh", &script);
    let agent = env.path("agent.sh");
    let agent = format!("--agent command -- sh {} {{report}}", agent.display());
    let run = format!("-C project run --no-input --plan ../plan.md {agent}");
    env.exits(0, &*run);
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(&project.folder).arg(env.path("copy"));
    assert!(copy.status().unwrap().success());
    let before = project.git("for-each-ref");
    for command in ["merge", "discard", "prune"] {
        let ran = env.run(format!("-C copy {command}"));
        has(&ran.stderr, ["this folder is a copy", "Hint: type it in"]);
    }
    assert_eq!(project.git("for-each-ref"), before);
    has(env.exits(0, "-C project merge").stdout, "are in `main`");
}

#[test]
fn workspace_elsewhere_that_is_gone_is_no_moved_project() {
    let env = TestEnv::new();
    if committed(&env).is_none() {
        return;
    }
    env.write("plan.md", PLAN);
    fs::create_dir(env.path("elsewhere")).unwrap();
    let run = "-C project run --queue --plan ../plan.md --workspace ../elsewhere --agent shell";
    env.exits(0, run);
    fs::remove_dir(env.path("elsewhere")).unwrap();
    for flags in ["", " --here"] {
        env.refuses(
            2,
            format!("-C project resume --no-input{flags}"),
            ["elsewhere` does not exist", "Hint: make the folder"],
        );
    }
}

#[test]
fn plan_goes_on_where_its_project_was_moved_to() {
    let env = TestEnv::new();
    let Some(project) = committed(&env) else {
        return;
    };
    env.write(
        "plan.md",
        "# Both\n\n## First\n\nMake it.\n\n## Second\n\n- after: 1\n\nMake it.\n",
    );
    // The second run ends once there is a file `go`.
    let at = env.path("").display().to_string();
    let script = r#"
if [ -e first.txt ]; then
  echo begun >> @AT@/begun
  until [ -e @AT@/go ]; do sleep 0.02; done
  echo made > second.txt
else
  echo made > first.txt
fi
printf -- '---\nstatus: SUCCESS\n---\n\ndone\n' > "$1.tmp"; mv "$1.tmp" "$1""#;
    env.write("agent.sh", &script.replace("@AT@", &at));
    let agent = format!("--agent command -- sh {at}/agent.sh {{report}}");
    env.exits(
        0,
        format!("-C project run --detach --plan ../plan.md {agent}"),
    );
    wait_until("the second task is in progress", || {
        env.path("begun").exists()
    });
    env.exits(0, "-C project stop");
    fs::rename(&project.folder, env.path("moved")).unwrap();
    // As a daemon leaves them that still ran.
    fs::create_dir_all(project.folder.join(".plan-agent/volumes/active")).unwrap();
    env.write("go", "");
    let refused = env.exits(4, "-C moved resume");
    has(&refused.stderr, ["was moved: `", "--here` goes on there"]);
    // What lies there may be a copy of somebody else: what is run is named anew.
    let named = env.exits(4, "-C moved resume --here --no-input");
    has(&named.stderr, ["if you know what it runs: `", &agent]);
    env.exits(0, format!("-C moved resume --no-input --quiet {agent}"));
    has(env.exits(0, "-C moved log").stdout, "goes on in ");
    env.exits(0, "-C moved merge");
    for made in ["first.txt", "second.txt"] {
        assert!(env.path("moved").join(made).exists(), "{made}");
    }
    assert_eq!(env.read("begun"), "begun\nbegun\n");
}

#[test]
fn folder_that_is_gone_is_named() {
    let env = TestEnv::new();
    let line = "mkdir gone; cd gone; rmdir ../gone; exec \"$0\" status";
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", line, env!("CARGO_BIN_EXE_plan-agent")]);
    let ended = shell.current_dir(env.path("")).output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    has(
        said,
        ["the current folder is not there any more", "Hint: change"],
    );
}
