//! The folder of this program that git gets in place of a repository's own: the recorded configuration and attributes, and links
//! to what is only data.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::exec::repository_config::is_program;
use crate::foreign_files::keep_as;
use crate::own_files::remove_if_there;
use crate::plan::Repository;

/// What this program's folder shares with the repository: nothing in it names a program.
const SHARED: &str = "HEAD info/exclude logs objects packed-refs refs reftable shallow worktrees";

/// Creates this program's folder: the recorded configuration and attributes, and links to what is only data.
pub(super) fn lay_out(repository: &Repository, ours: &Path) -> io::Result<()> {
    let common = Path::new(&repository.common_dir);
    fs::create_dir_all(ours.join("info"))?;
    keep_as(&ours.join("config"), configuration(repository).as_bytes())?;
    let attributes = ours.join("info/attributes");
    keep_as(&attributes, repository.attributes.as_bytes())?;
    for name in SHARED.split(' ') {
        let (link, target) = (ours.join(name), common.join(name));
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            continue;
        }
        remove_if_there(&link)?;
        match symlink(&target, &link) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(())
}

/// Returns a configuration file with the recorded settings.
fn configuration(repository: &Repository) -> String {
    let quoted = |text: &str| {
        let escaped = text.replace('\\', r"\\").replace('"', "\\\"");
        format!("\"{}\"", escaped.replace('\n', r"\n"))
    };
    let line = |(name, value): &(String, String)| {
        let (section, key) = name.rsplit_once('.').unwrap_or(("core", name));
        // Git starts filters in the folder with the agent's files: a program that is found from there would be the agent's.
        let value = match is_program(name) {
            true => &format!("cd / && {value}"),
            false => value,
        };
        let section = match section.split_once('.') {
            Some((section, within)) => format!("{section} {}", quoted(within)),
            None => section.to_owned(),
        };
        format!("[{section}]\n\t{key} = {}\n", quoted(value))
    };
    repository.settings.iter().map(line).collect()
}
