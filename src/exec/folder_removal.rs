//! How folders are removed in which agents have worked: they may have made folders in them read-only.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Removes a folder with all its content, if it exists. This may take long, so it runs on a blocking thread.
///
/// # Errors
/// The error of the file system.
pub async fn remove_folder(folder: PathBuf) -> io::Result<()> {
    let remove = move || with_rights(&folder, || fs::remove_dir_all(&folder));
    match tokio::task::spawn_blocking(remove).await? {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Moves or removes a folder. Where agents have made it or folders in it read-only, as Go does with its cache, it is made writable
/// first; one that cannot be read stays.
pub(super) fn with_rights(folder: &Path, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let done = match act() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(folder).and_then(|()| act())
        }
        done => done,
    };
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", folder.display()));
    done.map_err(named)
}

fn make_writable(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    // What a link leads to is not ours.
    if !found.is_dir() {
        return Ok(());
    }
    let mut rights = found.permissions();
    rights.set_mode(rights.mode() | 0o200);
    fs::set_permissions(folder, rights)?;
    for entry in fs::read_dir(folder)? {
        make_writable(&entry?.path())?;
    }
    Ok(())
}
