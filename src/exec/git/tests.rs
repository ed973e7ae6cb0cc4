use super::*;
use std::os::unix::fs::symlink;

async fn repository() -> Option<(tempfile::TempDir, Git)> {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("project");
    fs::create_dir(&folder).unwrap();
    person::git(&folder, &["init", "--quiet"])?;
    let git = person::opened(&folder).await;
    Some((root, git))
}

#[tokio::test]
async fn git_output_and_errors_are_separate() {
    let Some((_root, git)) = repository().await else {
        return;
    };
    assert_eq!(git.resolve("HEAD").await.unwrap(), None);
    let said = git.run("rev-parse no-such-name", &[]).await.unwrap();
    assert_eq!(said.exit, 128);
    assert_eq!(said.out, b"no-such-name\n");
    assert!(said.err.starts_with("fatal: "), "{said:?}");
    let error = git.line("rev-parse no-such-name", &[]).await.unwrap_err();
    let text = error.to_string();
    let command = "`git rev-parse no-such-name` ";
    assert!(text.starts_with(command), "{text}");
    assert!(text.contains("failed (exit 128): fatal: "), "{text}");
}

#[tokio::test]
async fn snapshot_has_all_files_and_keeps_index() {
    let Some((_root, git)) = repository().await else {
        return;
    };
    let folder = git.folder();
    let commit = ["commit", "--quiet", "--allow-empty", "-m", "begin"];
    for (name, text) in [
        (".gitignore", "ignored\nleft out\n"),
        ("kept", "1"),
        ("ignored", "2"),
        ("MISSION.md", "3"),
        ("was a file", "4"),
        ("was a folder/file", "5"),
        ("gone", "6"),
    ] {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }
    // A name that is no text.
    let odd = OsStr::from_bytes(b"odd \xff\n");
    fs::write(folder.join(odd), "7").unwrap();
    person::git(folder, &["add", "."]);
    fs::write(folder.join("kept"), "changed").unwrap();
    fs::remove_file(folder.join("gone")).unwrap();
    fs::remove_file(folder.join("was a file")).unwrap();
    fs::remove_dir_all(folder.join("was a folder")).unwrap();
    fs::write(folder.join("was a folder"), "8").unwrap();
    for name in ["was a file", "within", "begun", "sub/begun too"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::write(folder.join("was a file/file"), "9").unwrap();
    let index = fs::read(folder.join(".git/index")).unwrap();
    person::git(&folder.join("within"), &["init", "--quiet"]);
    person::git(&folder.join("within"), &commit);
    // One that has no commit cannot be taken, wherever it lies.
    for begun in ["begun", "sub/begun too"] {
        person::git(&folder.join(begun), &["init", "--quiet"]);
        fs::write(folder.join(begun).join("file"), "4").unwrap();
    }
    let left_out = ["MISSION.md", "left out"];
    for _ in 0..2 {
        let (tree, empty) = git.snapshot(&left_out).await.unwrap();
        assert_eq!(empty, ["begun", "sub/begun too"]);
        let names = git.bytes("ls-tree -r --name-only -z", &[&tree]).await;
        let names = names.unwrap();
        let found =
            ".gitignore\0MISSION.md\0kept\0odd \u{fffd}\n\0was a file/file\0was a folder\0within\0";
        assert_eq!(String::from_utf8_lossy(&names), found);
        let kept = git.line("show", &[&format!("{tree}:kept")]).await.unwrap();
        assert_eq!(kept, "changed");
    }
    assert_eq!(fs::read(folder.join(".git/index")).unwrap(), index);
}

#[tokio::test]
async fn snapshot_takes_link_in_place_of_folder() {
    let Some((_root, git)) = repository().await else {
        return;
    };
    let folder = git.folder();
    for name in ["a/deep/file", "b/file", "c"] {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), "1").unwrap();
    }
    person::git(folder, &["add", "."]);
    fs::remove_dir_all(folder.join("a")).unwrap();
    symlink("b", folder.join("a")).unwrap();
    fs::write(folder.join("b/new"), "2").unwrap();
    let (tree, _) = git.snapshot(&[]).await.unwrap();
    let names = git.line("ls-tree -r --name-only", &[&tree]).await;
    assert_eq!(names.unwrap(), "a\nb/file\nb/new\nc");
}

#[tokio::test]
async fn snapshot_sees_edit_of_same_size_and_second() {
    let Some((_root, git)) = repository().await else {
        return;
    };
    let file = git.folder().join("file");
    let index = git.folder().join(".git/index");
    // All within one tick of the clock, as after a checkout.
    let time = std::time::SystemTime::now() - Duration::from_secs(60);
    let stamp = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    };
    fs::write(&file, "1").unwrap();
    stamp(&file);
    person::git(git.folder(), &["-c", "core.trustctime=false", "add", "."]);
    stamp(&index);
    fs::write(&file, "2").unwrap();
    stamp(&file);
    let words = ["config", "core.trustctime", "false"];
    person::git(git.folder(), &words);
    let git = person::opened(git.folder()).await;
    let (tree, _) = git.snapshot(&[]).await.unwrap();
    let kept = git.line("show", &[&format!("{tree}:file")]).await;
    assert_eq!(kept.unwrap(), "2");
}

#[tokio::test]
async fn objects_are_not_replaced() {
    let Some((_root, git)) = repository().await else {
        return;
    };
    let folder = git.folder();
    fs::write(folder.join("hard"), "hard").unwrap();
    fs::write(folder.join("weak"), "weak").unwrap();
    let id = |name: &str| person::git(folder, &["hash-object", "-w", name]).unwrap();
    let (hard, weak) = (id("hard"), id("weak"));
    person::git(folder, &["replace", &hard, &weak]);
    let read = git.line("cat-file blob", &[&hard]).await;
    assert_eq!(read.unwrap(), "hard");
}

#[tokio::test]
async fn lock_serializes_git_commands() {
    let Some((root, git)) = repository().await else {
        return;
    };
    let lock = root.path().join("lock");
    let git = git.one_at_a_time(&lock);
    let held = ChildOutput::locked_by(&lock).unwrap().unwrap();
    let impatient = git.clone().within(Duration::ZERO);
    let busy = impatient.run("--version", &[]).await.unwrap_err();
    assert!(matches!(busy, GitError::Busy(_)), "{busy}");
    drop(held);
    assert_eq!(git.run("--version", &[]).await.unwrap().exit, 0);
}

#[tokio::test]
async fn git_uses_recorded_settings() {
    let Some((_root, git)) = repository().await else {
        return;
    };
    let odd = "a \"b\" \\ #;\n\tc";
    let settings = [
        ("core.eol", "lf"),
        ("core.excludesfile", odd),
        ("filter.A \"b\" \\.c.required", "true"),
        ("filter.x.clean", odd),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let GitPlace::Guarded { git_dir, common } = &git.place else {
        unreachable!()
    };
    let repository = Repository {
        git_dir: git_dir.display().to_string(),
        common_dir: git_dir.display().to_string(),
        settings: settings.to_vec(),
        attributes: "* !filter\n".to_owned(),
    };
    person::git(git.folder(), &["config", "core.eol", "crlf"]);
    person::git(git.folder(), &["config", "filter.y.clean", "false"]);
    let git = Git::open(git.folder(), &repository, common).await.unwrap();
    for (name, value) in settings {
        let value = match name.ends_with("clean") {
            true => format!("cd / && {value}"),
            false => value,
        };
        assert_eq!(git.line("config --get", &[&name]).await.unwrap(), value);
    }
    assert!(!git.holds("config --get filter.y.clean", &[]).await.unwrap());
    fs::write(git.folder().join(".gitattributes"), "* filter=x\n").unwrap();
    let filter = git.line("check-attr filter file", &[]).await.unwrap();
    assert_eq!(filter, "file: filter: unspecified");
}

#[test]
fn reads_git_versions() {
    assert_eq!(version("git version 2.47.3"), Some((2, 47)));
    assert_eq!(version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
    assert_eq!(version("git version 2.51.GIT"), Some((2, 51)));
    assert_eq!(version("hub version 2"), None);
}
