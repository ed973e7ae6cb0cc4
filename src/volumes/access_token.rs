//! The secret that network clients must know: a file that only its owner can read.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{Result, Volumes, VolumesError, create_once, open_own, replace};
use crate::own_files::{is_mine, refused};

/// The fewest letters of a token; a shorter token could be guessed.
const LEAST: usize = 32;
const MOST: u64 = 4096;

/// The file with the secret.
#[derive(Clone, Debug)]
pub struct TokenFile(PathBuf);

impl Volumes {
    /// Returns the file with the secret of the tools' server.
    pub fn token_file(&self) -> TokenFile {
        TokenFile(self.root().join("mcp.token"))
    }
}

impl TokenFile {
    /// Names the file; it need not exist.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the secret, and creates it if it does not exist.
    ///
    /// # Errors
    /// The file does not belong to this user, is too short, or can be read by others.
    pub fn token(&self) -> Result<String> {
        let unusable = |error| VolumesError::new("trust the token", &self.0, error);
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map_err(unusable),
        }
        // The file of a process that was faster stays.
        create_once(&self.temp(), &self.0, random().as_bytes(), 0o600)?;
        self.read().map_err(unusable)
    }

    /// Puts another secret in the place of the present one, and returns it. A crash leaves one of the two.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn renew(&self) -> Result<String> {
        let token = random();
        replace(&self.temp(), &self.0, token.as_bytes(), 0o600)?;
        Ok(token.trim().to_owned())
    }

    /// Returns the path of a file that belongs to the token.
    pub fn beside(&self, what: &str) -> PathBuf {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        self.0.with_file_name(format!("{name}.{what}"))
    }

    fn temp(&self) -> PathBuf {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        let name = format!(".{name}.{}", std::process::id());
        self.0.with_file_name(name)
    }

    /// Returns the secret, if there is one.
    ///
    /// # Errors
    /// There is none, or it cannot be trusted.
    pub fn read(&self) -> io::Result<String> {
        let (file, metadata) = open_own(&self.0)?;
        refuse_exposed(&metadata)?;
        let text = io::read_to_string(io::Read::take(file, MOST))?;
        let token = text.trim();
        match token.len() >= LEAST && token.chars().all(|c| c.is_ascii_graphic()) {
            true => Ok(token.to_owned()),
            false => Err(refused("it is no token: 32 letters or more on one line")),
        }
    }
}

/// Returns a new secret: three random ids have 366 random bits.
fn random() -> String {
    let id = |_| Uuid::new_v4().simple().to_string();
    let ids: String = (0..3).map(id).collect();
    format!("{ids}\n")
}

/// Refuses a file whose content others may know.
pub(super) fn refuse_exposed(metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        let readable = format!("others can read it: its mode is {mode:04o}, not 0600");
        return Err(refused(&readable));
    }
    match is_mine(metadata) {
        true => Ok(()),
        false => Err(refused("it belongs to another user")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn write(volumes: &Volumes, text: &str, mode: u32) {
        fs::write(volumes.token_file().path(), text).unwrap();
        fs::set_permissions(volumes.token_file().path(), Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn token_is_created_once_and_owner_readable() {
        let (_root, volumes) = Volumes::temporary();
        let token = volumes.token_file().token().unwrap();
        assert_eq!(token.len(), 96);
        assert_eq!(volumes.token_file().token().unwrap(), token);
        let mode = fs::metadata(volumes.token_file().path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (_other, other) = Volumes::temporary();
        assert_ne!(other.token_file().token().unwrap(), token);
    }

    #[test]
    fn existing_token_is_used() {
        let (_root, volumes) = Volumes::temporary();
        write(&volumes, &format!("{}\n", "x".repeat(32)), 0o400);
        assert_eq!(volumes.token_file().token().unwrap(), "x".repeat(32));
    }

    #[test]
    fn rejects_unsafe_token_files() {
        let (_root, volumes) = Volumes::temporary();
        let refused = || {
            let error = volumes.token_file().token().unwrap_err();
            std::error::Error::source(&error).unwrap().to_string()
        };
        write(&volumes, &"x".repeat(64), 0o640);
        insta::assert_snapshot!(refused(), @"others can read it: its mode is 0640, not 0600");
        write(&volumes, "short", 0o600);
        insta::assert_snapshot!(refused(), @"it is no token: 32 letters or more on one line");
        fs::rename(
            volumes.token_file().path(),
            volumes.root().join("elsewhere"),
        )
        .unwrap();
        symlink("elsewhere", volumes.token_file().path()).unwrap();
        assert!(!refused().is_empty());
        fs::remove_file(volumes.token_file().path()).unwrap();
        fs::create_dir(volumes.token_file().path()).unwrap();
        insta::assert_snapshot!(refused(), @"it is a directory");
    }
}
