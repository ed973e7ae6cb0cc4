//! The programs that checks run: found before the work, by the PATH that a check gets, and compared when it runs on a result.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use super::judging_files::scripts;
use crate::config::CheckConfig;
use crate::plan::{CheckProgram, CheckResult};
use crate::wire::sha256;
use parking_lot::Mutex;

/// The most programs of checks that are looked at.
const MOST: usize = 50;

/// Seconds in which a file may be written once more without another time of its change.
const JUST_NOW: u64 = 2;

/// Device, inode, size and time of the last change, which nothing sets back.
type FileState = (u64, u64, u64, (i64, i64));

/// The hashes of files: a program is read once.
static KNOWN: Mutex<BTreeMap<FileState, String>> = Mutex::new(BTreeMap::new());

/// Returns the programs that checks run, as they are now. What a check names by a path in its folder is left out, as it is a
/// file of the project, and so is a word that names no program.
pub fn programs<'a>(checks: impl Iterator<Item = &'a CheckConfig>) -> Vec<CheckProgram> {
    let mut words: Vec<String> = checks.flat_map(|check| scripts(&check.argv)).collect();
    words.sort();
    words.dedup();
    words.truncate(MOST);
    words.iter().filter_map(|word| program(word)).collect()
}

/// Returns failed results of the checks of which a program is not the one from before.
pub fn replaced(checks: &[CheckConfig], before: &[CheckProgram]) -> Vec<CheckResult> {
    let result = |check: &CheckConfig| {
        let words = scripts(&check.argv);
        let mut known = before.iter().filter(|known| words.contains(&known.word));
        let path = known.find_map(|was| match program(&was.word) {
            Some(is) if is == *was => None,
            is => Some(is.unwrap_or_else(|| was.clone()).path),
        })?;
        let finding = format!("its program is not the one from before the work: {path}");
        Some(CheckResult::failed(&check.name, &finding))
    };
    checks.iter().filter_map(result).collect()
}

fn program(word: &str) -> Option<CheckProgram> {
    let is_path = word.contains('/');
    let folders = std::env::var_os("PATH").filter(|_| !is_path || word.starts_with('/'))?;
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(word));
    let (path, file) = places.find_map(|path| {
        let file = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        (path.is_absolute() && (is_path || file.mode() & 0o111 != 0)).then_some((path, file))
    })?;
    let changed = (file.ctime(), file.ctime_nsec());
    let state = (file.dev(), file.ino(), file.size(), changed);
    // Who waits here waits for the same program, mostly.
    let mut known = KNOWN.lock();
    // One that may be run but not read has no hash.
    let read = || fs::read(&path).map(sha256).unwrap_or_default();
    let hash = known.get(&state).cloned().unwrap_or_else(read);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    if now.as_secs() > file.ctime().unsigned_abs() + JUST_NOW {
        known.insert(state, hash.clone());
    }
    let (word, path) = (word.to_owned(), path.to_string_lossy().into_owned());
    Some(CheckProgram { word, path, hash })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn replaced_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        };
        let checks = [CheckConfig {
            argv: vec![
                "sh".into(),
                "-c".into(),
                format!("{} a && ./own", path.display()),
            ],
            ..CheckConfig::default()
        }];
        let found = |before: &[CheckProgram]| Some(replaced(&checks, before).pop()?.finding);
        let said = format!(
            "its program is not the one from before the work: {}",
            path.display()
        );
        write("one");
        let before = programs(checks.iter());
        let words: Vec<&str> = before.iter().map(|program| program.word.as_str()).collect();
        assert_eq!(words, [path.to_str().unwrap(), "sh"]);
        assert_eq!(found(&before), None);
        fs::remove_file(&path).unwrap();
        write("one");
        assert_eq!(found(&before), None, "it has the same content");
        write("two");
        assert_eq!(found(&before), Some(said.clone()));
        fs::remove_file(&path).unwrap();
        assert_eq!(found(&before), Some(said));
    }
}
