//! A repository that agents can write to is data: nothing that they put there is run, with any version of git.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::common::git::{Project, git};

/// The places of an attack by an agent.
struct Ground<'a> {
    /// The folder in which it works.
    folder: &'a Path,
    /// The repository of the workspace.
    repository: &'a Path,
    /// A folder that the agent made, in the workspace.
    own: &'a Path,
    /// Programs that run leave a file here.
    marks: &'a Path,
}

impl Ground<'_> {
    /// Returns a shell command that leaves a mark and passes on what it reads.
    fn command(&self, name: &str) -> String {
        format!("touch '{}/{name}'; cat", self.marks.display())
    }

    /// Appends to a file, and creates its folders.
    fn add(&self, path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let there = fs::read_to_string(path).unwrap_or_default();
        fs::write(path, there + text).unwrap();
    }

    /// Adds a program to a repository's configuration for everything that git can be told to run.
    fn configure(&self, repository: &Path) {
        let script = self.own.join("script");
        let text = format!("#!/bin/sh\n{}\n", self.command("script"));
        self.add(&script, &text);
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        for hook in [
            "pre-commit",
            "post-checkout",
            "post-index-change",
            "reference-transaction",
        ] {
            let hook = repository.join("hooks").join(hook);
            self.add(&hook, &text);
            fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let section = |name: &str, keys: &[&str]| {
            let line =
                |key: &&str| format!("\t{key} = \"{}\"\n", self.command(&format!("{name}-{key}")));
            format!("[{name}]\n{}", keys.iter().map(line).collect::<String>())
        };
        let drivers = |name: &str, keys: &[&str]| {
            let text = section(name, keys);
            text.replacen(&format!("[{name}]"), &format!("[{name} \"x\"]"), 1)
        };
        let included = self.own.join("included");
        self.add(&included, &drivers("filter", &["clean", "smudge"]));
        self.add(
            &repository.join("config.worktree"),
            &drivers("filter", &["clean"]),
        );
        let config = [
            drivers("filter", &["clean", "smudge"]),
            "[filter \"p\"]\n".to_owned()
                + section("filter", &["process"]).split_once('\n').unwrap().1,
            drivers("diff", &["command", "textconv"]),
            drivers("merge", &["driver"]),
            section("diff", &["external"]),
            section(
                "core",
                &["fsmonitor", "sshCommand", "pager", "editor", "askPass"],
            ),
            section("alias", &["add", "status"]),
            format!(
                "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {0}\n[include]\n\tpath = {1}\n[extensions]\n\tworktreeConfig = true\n",
                script.display(),
                included.display()
            ),
        ];
        self.add(&repository.join("config"), &config.concat());
        for attributes in [
            self.folder.join(".gitattributes"),
            repository.join("info/attributes"),
        ] {
            self.add(&attributes, "* filter=x diff=x merge=x\n*.p filter=p\n");
        }
    }

    /// Makes a repository out of plain files, without git.
    fn make_repository(&self, at: &Path) {
        for (name, text) in [
            ("HEAD", "ref: refs/heads/main\n"),
            ("config", "[core]\n\trepositoryformatversion = 0\n"),
            ("objects/info/packs", "\n"),
            ("refs/heads/.keep", ""),
        ] {
            self.add(&at.join(name), text);
        }
        self.configure(at);
    }
}

/// An attack: its name, and what the agent does.
type Attack = (&'static str, fn(&Ground));

const CONFIGURATION: Attack = ("the configuration", |ground| {
    ground.configure(ground.repository);
});

const ANOTHER: Attack = ("another repository", |ground| {
    let (there, other) = (ground.folder.join(".git"), ground.own.join("git"));
    ground.make_repository(&other);
    if there.is_dir() {
        fs::rename(&there, ground.own.join("aside")).unwrap();
    }
    fs::write(there, format!("gitdir: {}\n", other.display())).unwrap();
});

const ANOTHER_COMMON: Attack = ("another common folder", |ground| {
    let link = fs::read_to_string(ground.folder.join(".git")).unwrap_or_default();
    let own = link.strip_prefix("gitdir:").map(str::trim);
    let own = own.map_or(ground.repository, Path::new);
    let other = ground.own.join("git");
    ground.make_repository(&other);
    fs::write(own.join("commondir"), other.display().to_string()).unwrap();
});

const NEW: Attack = ("a new repository", |ground| {
    ground.make_repository(&ground.folder.join(".git"));
});

const WITHIN: Attack = ("a repository within", |ground| {
    let sub = ground.folder.join("sub");
    ground.add(&sub.join("file"), "file\n");
    if sub.join(".git").exists() {
        return;
    }
    git(&sub, "init --quiet");
    git(&sub, "add .");
    git(&sub, "commit --quiet -m begin");
    let modules = "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n";
    ground.add(&ground.folder.join(".gitmodules"), modules);
    let inner = Ground {
        folder: &sub,
        ..*ground
    };
    inner.configure(&sub.join(".git"));
});

/// Returns the gits of this machine: the first in the PATH, and the system's where that is another one.
fn gits() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/bin".into()]);
    let found = folders.map(|folder| folder.join("git"));
    let found = found.filter(|git| git.exists());
    let mut gits: Vec<PathBuf> = found.map(|git| git.canonicalize().unwrap()).collect();
    gits.dedup();
    gits.sort();
    gits.dedup();
    if gits.is_empty() {
        skip("there is no git");
    }
    gits
}

/// The kind of workspace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Repository,
    /// A worktree of another folder's repository.
    Linked,
    Submodule,
}

/// Makes a workspace, and returns it with the repository that agents write into.
fn make(env: &TestEnv, kind: Kind) -> (PathBuf, PathBuf) {
    if kind == Kind::Plain {
        env.write("project/a.txt", "one\n");
        return (env.path("project"), env.path("project/.git"));
    }
    let project = Project::new(env).unwrap();
    let (linked, repository) = (env.path("linked"), project.folder.join(".git"));
    match kind {
        Kind::Linked => {
            project.git(["worktree", "add", "--quiet", linked.to_str().unwrap()]);
            (linked, repository)
        }
        Kind::Submodule => {
            git(&env.path(""), "init --quiet super");
            let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
            let add = [&add[..], &["add", "../project", "sub"]].concat();
            git(&env.path("super"), &add);
            (env.path("super/sub"), env.path("super/.git/modules/sub"))
        }
        _ => (project.folder, repository),
    }
}

/// Carries out two tasks whose agent attacks before every report, uses all views, and returns which programs were run.
fn run_attack(program: &Path, kind: Kind, isolation: &str, (name, attack): Attack) -> Vec<String> {
    let mut scene = Scene::by_rules("");
    scene.env.show("git", program);
    let (root, repository) = make(&scene.env, kind);
    scene.write(
        "config.toml",
        &format!(
            "llm.provider = 'none'\nrun.workspace = '{}'\nrun.isolation = '{isolation}'\nrun.max_parallel = 2",
            root.display()
        ),
    );
    let marks = scene.env.path("marks");
    fs::create_dir(&marks).unwrap();
    let found = marks.clone();
    let agent = scene.agent(move |command| {
        let folder = Path::new(command.field("workspace").unwrap());
        for name in ["a.txt", "a.p"] {
            let text = format!("{}\n{}\n", command.task(), command.attempt());
            fs::write(folder.join(name), text).unwrap();
        }
        attack(&Ground {
            folder,
            repository: &repository,
            own: &root.join("own"),
            marks: &found,
        });
        match command.attempt() {
            1 => Act::failed("not yet"),
            _ => Act::success("done"),
        }
    });
    let ran = scene.run("run --plan two.md --no-input");
    assert!(agent.attempts().len() > 2, "{ran:?}");
    if name == CONFIGURATION.0 {
        // The program does not avoid git because of the attack.
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let shown: Value = scene.json("show --format json");
        let rows = shown["rows"].as_array().unwrap();
        let mut attempts = rows.iter().filter_map(|row| row.get("attempt"));
        assert!(
            attempts.all(|attempt| attempt["changes"]["seen"] == "git"),
            "{shown}"
        );
    }
    for args in [
        "diff",
        "diff 1",
        "diff 2 --stat",
        "doctor",
        "resume --no-input",
    ] {
        assert!(scene.run(args).code.is_some());
    }
    let names = fs::read_dir(&marks).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn nothing_runs(kind: Kind, isolation: &str, attacks: &[Attack]) {
    let mut ran = Vec::new();
    for program in gits() {
        for attack in attacks {
            let found = run_attack(&program, kind, isolation, *attack);
            let (name, program) = (attack.0, program.display());
            ran.extend(
                found
                    .iter()
                    .map(|found| format!("{name}: {found}, by {program}")),
            );
        }
    }
    assert_eq!(ran, [""; 0]);
}

#[test]
fn code_in_shared_repository_is_never_run() {
    let attacks = [CONFIGURATION, ANOTHER, ANOTHER_COMMON, WITHIN];
    nothing_runs(Kind::Repository, "shared", &attacks);
}

#[test]
fn code_in_agent_created_repository_is_never_run() {
    nothing_runs(Kind::Plain, "shared", &[NEW, ANOTHER, WITHIN]);
}

#[test]
fn code_in_worktree_project_is_never_run() {
    let attacks = [CONFIGURATION, ANOTHER, ANOTHER_COMMON, WITHIN];
    nothing_runs(Kind::Repository, "worktree", &attacks);
}

#[test]
fn code_in_linked_workspace_is_never_run() {
    for isolation in ["shared", "worktree"] {
        for kind in [Kind::Linked, Kind::Submodule] {
            nothing_runs(kind, isolation, &[CONFIGURATION]);
        }
    }
}

/// A plan with two tasks, of which the second adds to the result of the first.
const UPPER: &str = "---\nname: Upper\ngoal: Files in upper case\n---\n\n## One\n\nMake `one.up`.\n\n## Two\n\n- after: 1\n\nAdd to `one.up`.\n";

/// A scene whose person has filters: of the machine and of the project. Files lie in the repository in upper case.
fn with_filters(program: &Path) -> (Scene, Project) {
    let mut scene = Scene::by_rules("run.workspace = 'project'\nrun.isolation = 'worktree'");
    scene.env.show("git", program);
    scene
        .env
        .set("HOME", scene.env.path("home").to_str().unwrap());
    scene.write("upper.md", UPPER);
    scene.write(
        "home/.gitconfig",
        "[filter \"up\"]\n\tclean = tr a-z A-Z\n\tsmudge = tr A-Z a-z\n\trequired\n",
    );
    let project = Project::new(&scene.env).unwrap();
    scene.write(
        "project/.gitattributes",
        "*.up filter=up\n*.own filter=own\n*.txt filter=no-such\n",
    );
    scene.write("project/old.up", "OLD\n");
    project.git(["config", "filter.own.clean", "sed 's/^/clean %f: /'"]);
    project.git("add .gitattributes old.up");
    project.git("commit --quiet -m filters");
    (scene, project)
}

#[test]
fn git_filters_run_only_if_configured_by_person() {
    for program in gits() {
        let (scene, project) = with_filters(&program);
        let marks = scene.env.path("marks");
        fs::create_dir(&marks).unwrap();
        let (root, found) = (project.folder.clone(), marks.clone());
        let seen = scene.env.path("seen");
        let _agent = scene.agent(move |command| {
            let folder = Path::new(command.field("workspace").unwrap());
            let old = fs::read_to_string(folder.join("old.up")).unwrap();
            fs::write(&seen, old).unwrap();
            let ground = Ground {
                folder,
                repository: &root.join(".git"),
                own: &root.join("own"),
                marks: &found,
            };
            for name in ["up", "own"] {
                let filter = ground.command(name);
                let filter = format!(
                    "[filter \"{name}\"]\n\tclean = \"{filter}\"\n\tsmudge = \"{filter}\"\n"
                );
                ground.add(&root.join(".git/config"), &filter);
            }
            ground.add(&folder.join("one.up"), "one\n");
            fs::write(folder.join("one.own"), "one\n").unwrap();
            Act::success("done")
        });
        let mut run = scene.start("run --plan upper.md");
        wait_until("the agent works", || scene.env.path("seen").exists());
        scene.await_events("completed", 1);
        // The recorded state outlives the daemon.
        run.running.child.kill().unwrap();
        run.running.wait();
        let told = fs::read_to_string(&run.err).unwrap();
        has(&told, "`filter.own.clean`");
        lacks(&told, "filter.up");
        scene.exits(0, "resume");
        let plan = plan_id(&scene);
        let result = |file: &str| {
            let words = ["cat-file", "blob", &format!("plan-agent/{plan}:{file}")];
            git(&project.folder, words)
        };
        assert_eq!(result("one.up"), "ONE\nONE\n", "{}", program.display());
        assert_eq!(result("one.own"), "clean one.own: one\n");
        assert_eq!(scene.read("seen"), "old\n", "it was laid out by the filter");
        assert_eq!(
            fs::read_dir(&marks).unwrap().count(),
            0,
            "{}",
            program.display()
        );
    }
}

#[test]
fn run_rejects_filter_that_agents_can_change() {
    for program in gits() {
        let (scene, project) = with_filters(&program);
        scene.write("project/clean.sh", "#!/bin/sh\ncat\n");
        project.git(["config", "filter.own.clean", "sh clean.sh"]);
        let by_agent = "run --no-input --plan one.md --agent command -- touch made";
        for (isolation, args) in [
            ("worktree", "run --plan one.md"),
            ("worktree", "doctor"),
            ("auto", by_agent),
        ] {
            let config = scene.read("config.toml").replace("worktree", isolation);
            scene.write("config.toml", &config);
            let ran = scene.run(args);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            has(&said, "`filter.own.clean` of git runs `");
            has(&said, "isolation = \"shared\"");
            assert_ne!(ran.code, Some(0));
        }
        // An error of git does not let agents loose on the person's own files.
        assert!(!scene.env.path("project/made").exists());
    }
}

#[test]
fn replaced_repository_is_not_used() {
    for program in gits() {
        let mut scene = Scene::by_rules("run.workspace = 'project'\nrun.isolation = 'worktree'");
        scene.env.show("git", &program);
        let project = Project::new(&scene.env).unwrap();
        let run = scene.start("run --plan one.md");
        let command = scene.take_any();
        let folder = Path::new(command.field("workspace").unwrap());
        fs::write(folder.join("one.txt"), "made\n").unwrap();
        let (there, aside) = (project.folder.join(".git"), scene.env.path("aside"));
        fs::rename(&there, &aside).unwrap();
        git(&scene.env.path(""), "init --quiet other");
        let other = scene.env.path("other/.git");
        fs::write(&there, format!("gitdir: {}\n", other.display())).unwrap();
        let report = crate::common::agent::report("SUCCESS", "done");
        scene.submit(&command.id, &report);
        wait_until("it is told", || {
            fs::read_to_string(&run.err)
                .unwrap()
                .contains("is not what it was when the plan began")
        });
        fs::remove_file(&there).unwrap();
        fs::rename(&aside, &there).unwrap();
        run.end().exits(0);
        let plan = plan_id(&scene);
        assert_eq!(
            project.git(["show", &format!("plan-agent/{plan}:one.txt")]),
            "made\n"
        );
    }
}

#[test]
fn git_is_never_run_from_workspace() {
    for isolation in ["shared", "worktree"] {
        let mut scene = Scene::by_rules(&format!(
            "run.workspace = 'project'\nrun.isolation = '{isolation}'"
        ));
        let Some(project) = Project::new(&scene.env) else {
            return;
        };
        scene.write("project/bin/other", "");
        let (bin, mark) = (project.folder.join("bin"), scene.env.path("mark"));
        let path = std::env::var("PATH").unwrap();
        scene
            .env
            .set("PATH", &format!("{}:bin::{path}", bin.display()));
        let script = format!("#!/bin/sh\ntouch '{}'\n", mark.display());
        let _agent = scene.agent(move |command| {
            let folder = Path::new(command.field("workspace").unwrap());
            fs::create_dir_all(folder.join("bin")).unwrap();
            for folder in [folder.to_owned(), folder.join("bin"), bin.clone()] {
                let program = folder.join("git");
                fs::write(&program, &script).unwrap();
                fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            }
            Act::success("done")
        });
        scene.exits(0, "run --plan one.md");
        scene.run("diff");
        assert!(!mark.exists(), "{isolation}");
    }
}
