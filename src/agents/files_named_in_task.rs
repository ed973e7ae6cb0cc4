//! The files of the workspace that a task names, for an agent that sees only those it is given.

use std::path::Path;

use crate::exec;
use crate::plan::test_commands::patterns;
use crate::plan::within_workspace;

/// The most files that are handed over of each kind, and the most bytes of one.
const MOST: usize = 20;
const LARGEST: u64 = 256 * 1024;

patterns! {
    SENTENCE_END = r"[.;!?]\s|[。；\n]";
    /// What may be the path of a file.
    WORD = r"\w[\w./-]*\w";
    /// Behind this a sentence names what is to change.
    CHANGES = r"(?ix)\b(?:fix|mend|chang|edit|updat|writ|add|creat|implement|modif|refactor|renam|remov|extend|complet|produc
        |replac|repair|correct|improv|delet)\w*";
    /// Behind this it does not.
    KEEPS = r"(?i)n't|\b(?:so that|as in|see|read|using|from|like|against|until|not|never|without|keep|leave)\b";
}

/// Returns the options with which aider gets the files that a task names: those to change, and those to read. Only regular
/// files within the folder count.
pub(super) fn file_options(task: &str, folder: &Path) -> Vec<String> {
    let (mut change, mut read) = (Vec::new(), Vec::new());
    for sentence in SENTENCE_END.split(task) {
        let (begin, end) = (CHANGES.find(sentence), KEEPS.find(sentence));
        // The list of what the task produces.
        let listed = sentence.starts_with("- `");
        for found in WORD.find_iter(sentence) {
            let behind = begin.is_some_and(|begin| begin.end() <= found.start());
            let named = listed || (behind && end.is_none_or(|end| found.end() <= end.start()));
            let files = if named { &mut change } else { &mut read };
            let path = found.as_str().to_owned();
            if !files.contains(&path) && files.len() < MOST && is_handed(folder, &path) {
                files.push(path);
            }
        }
    }
    if change.is_empty() {
        (read, change) = read.into_iter().partition(|path| path.contains("test"));
    }
    read.retain(|path| !change.contains(path));
    let mut options = Vec::new();
    for (name, files) in [("--file", change), ("--read", read)] {
        options.extend(files.into_iter().flat_map(|path| [name.to_owned(), path]));
    }
    options
}

/// Returns which of the changed files a task does not name, so that an agent that sees only the named ones cannot have meant
/// to change them. A task that names no file at all names all.
pub fn not_named(
    task: &str,
    produces: &[String],
    folder: &Path,
    changed: Vec<String>,
) -> Vec<String> {
    if produces.is_empty() && file_options(task, folder).is_empty() {
        return Vec::new();
    }
    let is_named = |path: &String| {
        let ends = |word: &str| path == word || path.ends_with(&format!("/{word}"));
        let is_word = WORD.find(path).is_some_and(|word| word.as_str() == path);
        produces.contains(path)
            || WORD.find_iter(task).any(|word| ends(word.as_str()))
            || !is_word && task.contains(path)
    };
    changed.into_iter().filter(|path| !is_named(path)).collect()
}

fn is_handed(folder: &Path, path: &str) -> bool {
    let found = folder.join(path).symlink_metadata();
    let fits = found.is_ok_and(|found| found.is_file() && found.len() <= LARGEST);
    fits && within_workspace(path).is_ok() && !exec::leads_out(folder, path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_that_task_does_not_name_are_found() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("calc.py"), "x").unwrap();
        let changed = ["calc.py", "src/sum.py", "test_calc.py", ".env", "out.txt"];
        for (task, produces, rest) in [
            (
                "Fix calc.py",
                &[][..],
                "src/sum.py test_calc.py .env out.txt",
            ),
            (
                "Fix calc.py and sum.py, see `.env`",
                &[],
                "test_calc.py out.txt",
            ),
            (
                "Do it",
                &["out.txt"],
                "calc.py src/sum.py test_calc.py .env",
            ),
            ("Do it in none.py", &[], ""),
        ] {
            let produces: Vec<String> = produces.iter().map(ToString::to_string).collect();
            let changed = changed.map(str::to_owned).to_vec();
            let found = not_named(task, &produces, root.path(), changed);
            assert_eq!(found.join(" "), rest, "{task}");
        }
    }

    #[test]
    fn task_names_files_to_change_and_to_read() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("src")).unwrap();
        for name in [
            "calc.py",
            "test_calc.py",
            "notes.md",
            "src/a.rs",
            "Makefile",
        ] {
            fs::write(root.path().join(name), "x").unwrap();
        }
        symlink("/etc/passwd", root.path().join("out.txt")).unwrap();
        symlink("/etc", root.path().join("etc")).unwrap();
        fs::write(root.path().join("big.txt"), vec![b'x'; 300_000]).unwrap();
        for (task, options) in [
            (
                "Fix `calc.py` so that test_calc.py passes.",
                "--file calc.py --read test_calc.py",
            ),
            (
                "Make test_calc.py pass by fixing calc.py",
                "--file calc.py --read test_calc.py",
            ),
            (
                "Write src/a.rs as in notes.md. Do not change calc.py.",
                "--file src/a.rs --read notes.md --read calc.py",
            ),
            ("Add a test to test_calc.py", "--file test_calc.py"),
            // Without a word for a change, what is no test may change.
            (
                "The sum in calc.py is wrong: see test_calc.py",
                "--file calc.py --read test_calc.py",
            ),
            (
                "修改 calc.py，使 test_calc.py 通过",
                "--file calc.py --read test_calc.py",
            ),
            ("Do it.\n\n- `notes.md`\n- `new.md`", "--file notes.md"),
            ("Change the Makefile", "--file Makefile"),
            (
                "Fix out.txt, etc/passwd, /etc/passwd, ../x, big.txt, src and none.py",
                "",
            ),
            ("", ""),
        ] {
            let found = file_options(task, root.path()).join(" ");
            assert_eq!(found, options, "{task}");
        }
        let many: Vec<String> = (0..50).map(|n| format!("f{n}.py")).collect();
        for name in &many {
            fs::write(root.path().join(name), "x").unwrap();
        }
        let found = file_options(&format!("Edit {}", many.join(" ")), root.path());
        assert_eq!(found.len(), 2 * MOST);
    }
}
