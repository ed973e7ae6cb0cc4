//! The secret that network clients must know: a file that only its owner can read.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use uuid::Uuid;

use super::atomic_files::{Result, VolumesError, create_once, open_own};
use super::folder_layout::Volumes;
use crate::own_files::refused;

/// The fewest letters of a token; a shorter token could be guessed.
const LEAST: usize = 32;
const MOST: u64 = 4096;

impl Volumes {
    /// Returns the path of the secret.
    pub fn token_path(&self) -> PathBuf {
        self.root().join("mcp.token")
    }

    /// Returns the secret, and creates it if it does not exist.
    ///
    /// # Errors
    /// The file does not belong to this user, is too short, or can be read by others.
    pub fn token(&self) -> Result<String> {
        let path = self.token_path();
        let unusable = |error| VolumesError::new("trust the token", &path, error);
        match self.read_token() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map_err(unusable),
        }
        // Two random ids have 244 random bits.
        let token = format!("{}{}\n", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let name = format!(".mcp.token.{}", std::process::id());
        let temp = self.root().join(name);
        // The file of a process that was faster stays.
        create_once(&temp, &path, token.as_bytes(), 0o600)?;
        self.read_token().map_err(unusable)
    }

    fn read_token(&self) -> io::Result<String> {
        let (file, metadata) = open_own(&self.token_path())?;
        if let Some(why) = exposed(&metadata) {
            return Err(refused(&why));
        }
        let text = io::read_to_string(io::Read::take(file, MOST))?;
        let token = text.trim();
        match token.len() >= LEAST && token.chars().all(|c| c.is_ascii_graphic()) {
            true => Ok(token.to_owned()),
            false => Err(refused("it is no token: 32 letters or more on one line")),
        }
    }
}

/// Returns why others may know the content of a file, if they may.
fn exposed(metadata: &Metadata) -> Option<String> {
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Some(format!(
            "others can read it: its mode is {mode:04o}, not 0600"
        ));
    }
    let owned = metadata.uid() == rustix::process::geteuid().as_raw();
    (!owned).then(|| "it belongs to another user".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::volumes::folder_layout::empty_volumes;

    fn write(volumes: &Volumes, text: &str, mode: u32) {
        fs::write(volumes.token_path(), text).unwrap();
        fs::set_permissions(volumes.token_path(), Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn token_is_created_once_and_owner_readable() {
        let (_root, volumes) = empty_volumes();
        let token = volumes.token().unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(volumes.token().unwrap(), token);
        let mode = fs::metadata(volumes.token_path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (_other, other) = empty_volumes();
        assert_ne!(other.token().unwrap(), token);
    }

    #[test]
    fn existing_token_is_used() {
        let (_root, volumes) = empty_volumes();
        write(&volumes, &format!("{}\n", "x".repeat(32)), 0o400);
        assert_eq!(volumes.token().unwrap(), "x".repeat(32));
    }

    #[test]
    fn rejects_unsafe_token_files() {
        let (_root, volumes) = empty_volumes();
        let refused = || {
            let error = volumes.token().unwrap_err();
            std::error::Error::source(&error).unwrap().to_string()
        };
        write(&volumes, &"x".repeat(64), 0o640);
        insta::assert_snapshot!(refused(), @"others can read it: its mode is 0640, not 0600");
        write(&volumes, "short", 0o600);
        insta::assert_snapshot!(refused(), @"it is no token: 32 letters or more on one line");
        fs::rename(volumes.token_path(), volumes.root().join("elsewhere")).unwrap();
        symlink("elsewhere", volumes.token_path()).unwrap();
        assert!(!refused().is_empty());
        fs::remove_file(volumes.token_path()).unwrap();
        fs::create_dir(volumes.token_path()).unwrap();
        insta::assert_snapshot!(refused(), @"it is a directory");
    }
}
