//! Names of the files that a task must produce in its workspace.

/// The most files that one task may name.
pub const MAX_PRODUCED: usize = 50;

/// The most characters of a path.
const MAX_PATH: usize = 300;

/// The daemon writes this file itself.
const MISSION: &str = "MISSION.md";

/// Returns a path within the workspace in its stored form: relative, without parts that lead out of the workspace. Links are
/// not resolved here; the code that opens the file checks where they lead.
///
/// # Errors
/// Why the path is invalid, as a fragment that follows the path.
pub fn within_workspace(path: &str) -> Result<String, &'static str> {
    let path = path.trim();
    let fault = match path {
        "" => "names no file",
        _ if path.chars().count() > MAX_PATH => "is longer than any path should be",
        _ if path.chars().any(char::is_control) => "has characters that cannot be seen",
        _ if path.contains(',') => "has a comma, which stands between two files",
        _ if path.contains('*') => "is a pattern, not the name of one file",
        _ if path.starts_with(['/', '~']) => "is not relative to the workspace",
        _ if path.ends_with('/') => "names a folder, not a file",
        _ => return in_folder(path),
    };
    Err(fault)
}

/// Returns a path without what leads nowhere.
fn in_folder(path: &str) -> Result<String, &'static str> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let parts: Vec<&str> = parts.collect();
    match parts.as_slice() {
        parts if parts.contains(&"..") => Err("leads out of the workspace"),
        [] => Err("names a folder, not a file"),
        [MISSION] => Err("is written by plan-agent itself"),
        parts => Ok(parts.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn produced_path_stays_within_workspace() {
        for (path, kept) in [
            ("a.txt", "a.txt"),
            (" ./src//b c.rs ", "src/b c.rs"),
            ("app/[id].tsx", "app/[id].tsx"),
            ("..a/b..", "..a/b.."),
        ] {
            assert_eq!(within_workspace(path).as_deref(), Ok(kept));
        }
        let long = "a".repeat(MAX_PATH + 1);
        let wrong = ". ./ .. ../a a/../../b /etc/passwd ~/a src/ *.rs a,b a\nb ./MISSION.md";
        for path in wrong.split(' ').chain(["", &long]) {
            assert!(within_workspace(path).is_err(), "{path}");
        }
    }
}
