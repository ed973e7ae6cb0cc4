//! Checks whether a file that a task must produce exists. The content of the workspace is untrusted: only a regular file inside
//! the workspace is opened.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::link_free_access;
use crate::foreign_files::open_unblocked;
use crate::plan::{CheckResult, FileProperty, Time, counted};

/// The most bytes that are read of a file to find a property.
const MOST_READ: u64 = 16 * 1024 * 1024;

/// A larger file is not read to check whether it contains only blanks.
const MOST_BLANKS: u64 = 4 * 1024;

/// The time of a file may be behind the clock by as much as one tick of a slow timer …
const TICK: Duration = Duration::from_millis(10);

/// … or, where the file system keeps whole seconds, by as much as two of them.
const COARSE: Duration = Duration::from_secs(2);

/// The finding for a file that has not been written.
pub const UNTOUCHED: &str = "was there before the plan began and has not been written since; if it is right as it is, or was only moved there, write it anew";

/// Checks a file. The check passes if it is a regular file within the workspace, is not empty, and was written since a time of
/// the wall clock.
pub fn produced(workspace: &Path, path: &str, since: Time) -> CheckResult {
    let found = inspect(workspace, path, since).map(|bytes| format!("{bytes} bytes"));
    result(format!("file {path}"), found)
}

/// Checks that a file within the workspace has a property. Only a regular file is read, through no link, and only its
/// beginning if it is large.
pub fn with_property(workspace: &Path, file: &FileProperty) -> CheckResult {
    result(file.to_string(), property(workspace, file))
}

fn result(name: String, found: Result<String, String>) -> CheckResult {
    CheckResult {
        name,
        passed: found.is_ok(),
        finding: found.unwrap_or_else(|wrong| wrong),
        ..CheckResult::default()
    }
}

fn property(workspace: &Path, file: &FileProperty) -> Result<String, String> {
    let most = usize::try_from(MOST_READ).unwrap_or(usize::MAX);
    let read = link_free_access::read(workspace, &file.path, most, &[]);
    let (bytes, length) = read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "missing".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    let part = match length > MOST_READ {
        true => " in the part that was read",
        false => "",
    };
    if let Some(text) = &file.contains {
        return match String::from_utf8_lossy(&bytes).contains(text.as_str()) {
            true => Ok("the text is in it".to_owned()),
            false => Err(format!("the text is not in it{part}")),
        };
    }
    let blank = |line: &&[u8]| line.iter().all(u8::is_ascii_whitespace);
    let lines = bytes.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !blank(line)).count();
    let found = counted(lines, "line") + part;
    match u32::try_from(lines).unwrap_or(u32::MAX) >= file.lines.unwrap_or(1) {
        true => Ok(found),
        false => Err(found),
    }
}

/// Returns whether a path, as far as it exists, leads out of the workspace through a link.
pub fn leads_out(workspace: &Path, path: &str) -> bool {
    let Ok(workspace) = workspace.canonicalize() else {
        return false;
    };
    let mut place = workspace.clone();
    for part in Path::new(path) {
        place.push(part);
        match place.canonicalize() {
            Ok(real) if !real.starts_with(&workspace) => return true,
            Ok(_) => {}
            // A writer would follow a link whose target does not exist.
            Err(_) => return place.is_symlink(),
        }
    }
    false
}

/// Returns the latest time, by the wall clock, at which a file may have been changed in any way, including its name and its
/// rights.
pub fn changed_at(metadata: &Metadata) -> Time {
    at_most(metadata.ctime(), metadata.ctime_nsec())
}

/// Returns the latest time, by the wall clock, at which a file's content may have been written. A file that was created with an
/// older time, as from an archive, counts as written when it was created, where the file system records that.
pub fn written_at(metadata: &Metadata) -> Time {
    let written = at_most(metadata.mtime(), metadata.mtime_nsec());
    let made = metadata.created().ok();
    let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.and_then(|made| {
        let seconds = i64::try_from(made.as_secs()).ok()?;
        Some(at_most(seconds, made.subsec_nanos().into()))
    });
    made.map_or(written, |made| written.max(made))
}

fn at_most(seconds: i64, nanoseconds: i64) -> Time {
    let slack = if nanoseconds == 0 { COARSE } else { TICK };
    let within = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    let whole = Time(seconds.saturating_mul(1_000_000));
    whole.plus(within).plus(slack)
}

fn inspect(workspace: &Path, path: &str, since: Time) -> Result<u64, String> {
    let real = real_path(workspace, path)?;
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let regular = |metadata: &Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err("not a regular file".to_owned()),
    };
    let metadata = real.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err("a folder, not a file".to_owned());
    }
    regular(&metadata)?;
    // It may have been exchanged for something that blocks the process which opens it.
    let (mut file, metadata) = open_unblocked(&real).map_err(unreadable)?;
    regular(&metadata)?;
    if blank(&mut file, metadata.len()).map_err(unreadable)? {
        return Err("empty".to_owned());
    }
    if written_at(&metadata) < since {
        return Err(UNTOUCHED.to_owned());
    }
    Ok(metadata.len())
}

fn real_path(workspace: &Path, path: &str) -> Result<PathBuf, String> {
    let place = workspace.join(path);
    let real = place.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if place.is_symlink() => {
            "a link that leads nowhere".to_owned()
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "missing".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    match workspace.canonicalize() {
        Ok(workspace) if real.starts_with(&workspace) => Ok(real),
        _ => Err("a link that leads out of the workspace".to_owned()),
    }
}

fn blank(file: &mut File, length: u64) -> io::Result<bool> {
    if length > MOST_BLANKS {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    file.take(MOST_BLANKS).read_to_end(&mut bytes)?;
    Ok(bytes.iter().all(u8::is_ascii_whitespace))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const LONG_AGO: Time = Time(0);
    const NEVER: Time = Time(i64::MAX);

    #[test]
    fn produced_file_must_be_regular_and_not_blank() {
        let root = tempfile::tempdir().unwrap();
        let (workspace, outside) = (root.path().join("w"), root.path().join("outside"));
        fs::create_dir_all(workspace.join("folder")).unwrap();
        fs::write(&outside, "secret").unwrap();
        fs::write(workspace.join("full"), "x").unwrap();
        fs::write(workspace.join("empty"), "").unwrap();
        fs::write(workspace.join("blank"), " \n\t\n").unwrap();
        symlink("full", workspace.join("inner")).unwrap();
        symlink(&outside, workspace.join("outer")).unwrap();
        symlink("..", workspace.join("up")).unwrap();
        symlink("nowhere", workspace.join("dangling")).unwrap();
        let pipe = workspace.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for (path, found) in [
            ("full", "1 bytes"),
            ("inner", "1 bytes"),
            ("none", "missing"),
            ("full/under", "missing"),
            ("empty", "empty"),
            ("blank", "empty"),
            ("folder", "a folder, not a file"),
            ("pipe", "not a regular file"),
            ("dangling", "a link that leads nowhere"),
            ("outer", "a link that leads out of the workspace"),
            ("up/outside", "a link that leads out of the workspace"),
        ] {
            let result = produced(&workspace, path, LONG_AGO);
            assert_eq!(result.finding, found, "{path}");
            assert_eq!(result.passed, found.ends_with("bytes"), "{path}");
            assert_eq!(result.name, format!("file {path}"));
        }
        assert!(!produced(&workspace, "full", NEVER).passed);
        for (path, out) in [
            ("full", false),
            ("new/file", false),
            ("inner", false),
            ("outer", true),
            ("up/new", true),
            ("dangling", true),
        ] {
            assert_eq!(leads_out(&workspace, path), out, "{path}");
        }
    }

    #[test]
    fn property_is_found_in_plain_file_only() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        fs::write(place("a.csv"), "a,1\n \nb,2").unwrap();
        fs::create_dir(place("folder")).unwrap();
        symlink("a.csv", place("link")).unwrap();
        let property = |path: &str, contains: Option<&str>, lines| FileProperty {
            path: path.to_owned(),
            contains: contains.map(str::to_owned),
            lines,
        };
        for (path, contains, lines, passed, finding) in [
            ("a.csv", None, Some(2), true, "2 lines"),
            ("a.csv", None, Some(3), false, "2 lines"),
            ("a.csv", Some("b,2"), None, true, "the text is in it"),
            ("a.csv", Some("c,"), None, false, "the text is not in it"),
            ("none", None, Some(1), false, "missing"),
        ] {
            let file = property(path, contains, lines);
            let result = with_property(root.path(), &file);
            assert_eq!((result.passed, &*result.finding), (passed, finding));
            assert_eq!(result.name, file.to_string());
        }
        for path in ["folder", "link"] {
            let result = with_property(root.path(), &property(path, Some("a"), None));
            assert!(!result.passed && result.finding.starts_with("cannot be read"));
        }
    }

    #[test]
    fn produced_file_must_be_newer_than_attempt() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::write(place("file"), "1").unwrap();
        let written = written_at(&place("file").metadata().unwrap());
        let since = written.plus(Duration::from_millis(1));
        // Its name and its rights change, which is nothing that was written.
        while changed_at(&place("file").metadata().unwrap()) < since {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(place("file"), mode).unwrap();
        }
        fs::rename(place("file"), place("moved")).unwrap();
        let found = produced(root.path(), "moved", since);
        assert_eq!((found.passed, found.finding.as_str()), (false, UNTOUCHED));
        // The same content, written.
        fs::write(place("moved"), "1").unwrap();
        assert!(produced(root.path(), "moved", since).passed);
        // As from an archive: made now, with an old time.
        fs::write(place("unpacked"), "1").unwrap();
        let unpacked = fs::File::options().write(true).open(place("unpacked"));
        let unpacked = unpacked.unwrap();
        unpacked.set_modified(old).unwrap();
        let knows = unpacked.metadata().unwrap().created().is_ok();
        assert_eq!(produced(root.path(), "unpacked", since).passed, knows);
    }
}
