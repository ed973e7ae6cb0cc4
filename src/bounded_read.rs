//! Texts that a person gives, in files and on standard input: reading stops at a limit, whatever kind of file the name stands
//! for.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a text file. If it is a pipe, this waits for its end.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if it has more than `most` bytes (at most one byte more is read); the file cannot be read,
/// or is not UTF-8.
pub fn read_file(path: &Path, most: usize) -> io::Result<String> {
    read(File::open(path)?, most)
}

/// Reads a text to its end.
///
/// # Errors
/// As [`read_file`].
pub fn read(source: impl Read, most: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let message = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8");
    String::from_utf8(bytes).map_err(no_text)
}
