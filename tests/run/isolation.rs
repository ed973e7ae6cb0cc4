//! Plans whose tasks have a worktree and a branch of their own, with the real git.

use std::path::Path;
use std::process::Command as Process;

use super::*;

/// A scene beside a git project.
struct Isolated {
    scene: Scene,
    project: PathBuf,
}

impl Isolated {
    /// Makes a project with one commit and a change of the person's that is in none; `None` without git.
    fn new(config: &str) -> Option<Self> {
        if Process::new("git").arg("--version").output().is_err() {
            skip("there is no git");
            return None;
        }
        let scene = Scene::by_rules(&format!(
            "run.workspace = 'project'\nrun.isolation = 'worktree'\nrun.max_parallel = 2\n{config}"
        ));
        let project = scene.env.path("project");
        fs::create_dir(&project).unwrap();
        let isolated = Self { scene, project };
        isolated.git(&["init", "--quiet", "--initial-branch", "main"]);
        for (name, text) in [
            ("a.txt", "one\ntwo\nthree\n"),
            ("b.txt", "b\n"),
            (".gitignore", "built\n"),
        ] {
            fs::write(isolated.project.join(name), text).unwrap();
        }
        // A hook of the person's would tell on whoever runs it.
        for hook in [
            "pre-commit",
            "post-checkout",
            "post-commit",
            "reference-transaction",
            "post-merge",
        ] {
            let hook = isolated.project.join(".git/hooks").join(hook);
            let script = format!(
                "#!/bin/sh\necho ran >> {}\nexit 1\n",
                isolated.scene.env.path("hooked").display()
            );
            fs::write(&hook, script).unwrap();
            fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        isolated.git(&["add", "."]);
        isolated.git(&["commit", "--quiet", "-m", "begin"]);
        fs::write(isolated.project.join("b.txt"), "b, and not committed\n").unwrap();
        fs::write(isolated.project.join("staged.txt"), "staged\n").unwrap();
        isolated.git(&["add", "staged.txt"]);
        fs::write(isolated.project.join("untracked.txt"), "untracked\n").unwrap();
        Some(isolated)
    }

    fn git(&self, words: &[&str]) -> String {
        git(&self.project, words)
    }

    /// Returns everything that is the person's: the files, the index, where the branches are that are not ours.
    fn of_the_person(&self) -> String {
        let mut text = String::new();
        let mut names: Vec<_> = fs::read_dir(&self.project)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        for path in names.iter().filter(|path| path.is_file()) {
            text += &format!(
                "{}: {}\n",
                path.display(),
                fs::read_to_string(path).unwrap()
            );
        }
        assert_eq!(
            names.iter().filter(|path| path.is_dir()).count(),
            1,
            "{names:?}"
        );
        let index = fs::read(self.project.join(".git/index")).unwrap();
        text += &format!("{index:?}\n");
        text += &fs::read_to_string(self.project.join(".git/HEAD")).unwrap();
        text += &self.git(&["for-each-ref", "refs/heads/main", "refs/tags", "refs/stash"]);
        text
    }

    fn plan(&self) -> String {
        self.scene.status()["plan"]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Returns a file on the branch of the results.
    fn result(&self, file: &str) -> String {
        self.git(&["show", &format!("plan-agent/{}:{file}", self.plan())])
    }

    /// Checks what holds in the end: nothing is broken, no hook ran.
    fn sound(&self) {
        self.git(&["fsck", "--strict", "--no-dangling"]);
        assert!(
            !self.scene.env.path("hooked").exists(),
            "a hook of the person's ran"
        );
    }
}

fn git(folder: &Path, words: &[&str]) -> String {
    let ran = Process::new("git")
        .args([
            "-c",
            "user.name=person",
            "-c",
            "user.email=person@localhost",
            "-c",
            "core.hooksPath=/dev/null",
        ])
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {words:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Writes a file in the folder that a command names.
fn write(command: &Command, name: &str, text: &str) {
    let folder = Path::new(command.field("workspace").unwrap());
    fs::write(folder.join(name), text).unwrap();
}

#[test]
fn what_agents_do_side_by_side_comes_together_on_one_branch() {
    let Some(isolated) = Isolated::new("") else {
        return;
    };
    let before = isolated.of_the_person();
    let agent = isolated.scene.agent(|command| {
        let folder = Path::new(command.field("workspace").unwrap());
        assert_eq!(fs::read_to_string(folder.join("b.txt")).unwrap(), "b\n");
        if command.task() == 1 {
            write(command, "left.txt", "left\n");
        } else {
            // An agent may commit by itself.
            write(command, "a.txt", "one\nTWO\nthree\n");
            git(
                folder,
                &["commit", "--quiet", "--all", "-m", "by the agent"],
            );
            write(command, "built", "ignored\n");
        }
        Act::success("done")
    });
    let ran = isolated.scene.run(&["run", "--plan", "two.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(agent.attempts().len(), 2);
    assert_eq!(isolated.result("left.txt"), "left\n");
    assert_eq!(isolated.result("a.txt"), "one\nTWO\nthree\n");
    assert_eq!(isolated.of_the_person(), before);
    let plan = isolated.plan();
    assert!(
        ran.stdout.contains(&format!("git merge plan-agent/{plan}")),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr.contains("changes that are in no commit"),
        "{}",
        ran.stderr
    );
    // What holds nothing but what was accepted is put away.
    assert!(
        !isolated
            .scene
            .env
            .path(format!("volumes/worktrees/{plan}/task-1"))
            .exists()
    );
    assert!(
        isolated
            .scene
            .env
            .path(format!("volumes/worktrees/{plan}/task-2/built"))
            .exists()
    );
    let diff = isolated.scene.works(&["diff", "2"]);
    assert!(
        diff.contains("-two\n+TWO\n") && !diff.contains("left"),
        "{diff}"
    );
    isolated.sound();
}
