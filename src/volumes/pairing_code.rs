//! A code with which one device gets the token: short enough to be typed, good for one use and five minutes. Its hash lies beside
//! the token, so that every process that serves the page knows it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::access_token::refuse_exposed;
use super::{Cannot, Result, TokenFile, replace};
use crate::own_files::{file, is_at};
use crate::wire::sha256;

/// How long a code is good.
const LIFE: Duration = Duration::from_secs(300);

/// Wrong words after which a code is worth nothing: one word in 2⁴⁰ is right.
const TRIES: usize = 5;

/// Letters that do not look like others; each is five bits.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// What the file gets before a word is compared: so many words were tried.
const MARK: u8 = b'!';
const MOST: u64 = 4096;

/// The file with the hash of a code and the second of its end.
#[derive(Debug)]
pub struct PairingCode(PathBuf);

impl TokenFile {
    /// Returns the code that stands for the token.
    pub fn pairing_code(&self) -> PairingCode {
        PairingCode(self.beside("code"))
    }
}

impl PairingCode {
    /// Makes a code in the place of an earlier one, and returns it.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn make(&self, now: SystemTime) -> Result<String> {
        let bytes = Uuid::new_v4().into_bytes();
        let add = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        let bits = bytes[..5].iter().fold(0, add);
        let letter = |at: u32| char::from(LETTERS[(bits >> (5 * at) & 31) as usize]);
        let code: String = (0..8).map(letter).collect();
        let text = format!("{} {}\n", sha256(&code), seconds(now + LIFE));
        let extension = format!("code.{}", std::process::id());
        let temp = self.0.with_extension(extension);
        replace(&temp, &self.0, text.as_bytes(), 0o600)?;
        Ok(format!("{}-{}", &code[..4], &code[4..]))
    }

    /// Returns whether a word is the code, which is used up by this; of two that come simultaneously, one gets `true`. A wrong word
    /// counts, also over all processes.
    ///
    /// # Errors
    /// The file cannot be trusted, or the error of the file system.
    pub fn redeem(&self, word: &str, now: SystemTime) -> Result<bool> {
        match file(OpenOptions::new().read(true).append(true), &self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            opened => opened
                .and_then(|file| self.try_word(file, word, now))
                .cannot("read", &self.0),
        }
    }

    fn try_word(&self, mut file: File, word: &str, now: SystemTime) -> io::Result<bool> {
        file.lock()?;
        refuse_exposed(&file.metadata()?)?;
        // Who had the lock before may have used the code up.
        if !is_at(&file, &self.0) {
            return Ok(false);
        }
        file.write_all(&[MARK])?;
        file.rewind()?;
        let text = io::read_to_string((&file).take(MOST))?;
        let (known, tries) = text.split_once('\n').unwrap_or((&text, ""));
        let (hash, end) = known.split_once(' ').unwrap_or_default();
        let left = end.parse().unwrap_or(0_u64).saturating_sub(seconds(now));
        // More is left of none, unless the clock was set back.
        let alive = (1..=LIFE.as_secs()).contains(&left) && tries.len() <= TRIES;
        // In constant time: how long this takes says nothing of the code.
        let right = alive && bool::from(sha256(plain(word)).as_bytes().ct_eq(hash.as_bytes()));
        if right || !alive || tries.len() == TRIES {
            fs::remove_file(&self.0)?;
        }
        Ok(right)
    }
}

/// Returns a code as it was made of what a person typed.
fn plain(word: &str) -> String {
    let letters = word.chars().filter(|c| c.is_ascii_alphanumeric());
    let plain = letters.map(|c| match c.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        c => c,
    });
    plain.collect()
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn pairing() -> (tempfile::TempDir, PairingCode, impl Fn(u64) -> SystemTime) {
        let root = tempfile::tempdir().unwrap();
        let code = TokenFile::at(root.path().join("web-token")).pairing_code();
        let at = |after| SystemTime::UNIX_EPOCH + NOW + Duration::from_secs(after);
        (root, code, at)
    }

    #[test]
    fn code_is_good_once_as_it_is_typed() {
        let (_root, pairing, at) = pairing();
        assert!(!pairing.redeem("", at(0)).unwrap(), "without any");
        let code = pairing.make(at(0)).unwrap();
        let text = fs::read_to_string(&pairing.0).unwrap();
        for code in [&code, &plain(&code)] {
            assert!(!text.contains(code), "{text}");
        }
        let mode = fs::metadata(&pairing.0).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let typed = code.to_lowercase().replace('0', "o").replace('1', "l");
        let typed = format!(" {} ", typed.replace('-', " "));
        assert!(pairing.redeem(&typed, at(299)).unwrap(), "{code} {typed}");
        assert!(!pairing.redeem(&code, at(299)).unwrap(), "a second time");
        // Another one replaces it.
        let (first, second) = (pairing.make(at(0)).unwrap(), pairing.make(at(0)).unwrap());
        assert!(!pairing.redeem(&first, at(0)).unwrap());
        assert!(pairing.redeem(&second, at(0)).unwrap());
    }

    #[test]
    fn code_ends_with_time_and_wrong_words() {
        let (_root, pairing, at) = pairing();
        let code = pairing.make(at(0)).unwrap();
        assert!(!pairing.redeem(&code, at(300)).unwrap());
        let code = pairing.make(at(600)).unwrap();
        // The clock was set back.
        assert!(!pairing.redeem(&code, at(0)).unwrap());
        for (wrong, good) in [(4, true), (5, false), (6, false)] {
            let code = pairing.make(at(0)).unwrap();
            for _ in 0..wrong {
                assert!(!pairing.redeem("AAAA-AAAA", at(0)).unwrap());
            }
            assert_eq!(pairing.redeem(&code, at(0)).unwrap(), good, "{wrong}");
        }
        let code = pairing.make(at(0)).unwrap();
        fs::set_permissions(&pairing.0, fs::Permissions::from_mode(0o644)).unwrap();
        // Others may have written it.
        pairing.redeem(&code, at(0)).unwrap_err();
    }

    #[test]
    fn code_is_given_to_one_of_many() {
        let (_root, pairing, at) = pairing();
        let code = pairing.make(at(0)).unwrap();
        let ask = || pairing.redeem(&code, at(0)).unwrap();
        let given = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            let answers = asked.into_iter().map(|asked| asked.join().unwrap());
            answers.filter(|given| *given).count()
        });
        assert_eq!(given, 1);
    }
}
