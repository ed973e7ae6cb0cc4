//! The scan for arrived files: the folder listing is the truth; events only say when to scan. A scan costs as much as there are
//! files in `reports/pending` and open commands, however many files have been archived.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, Metadata};
use std::hash::Hash;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::finished_writing::{FileAges, FileObservation, is_finished};
use super::{
    Cannot, Folder, HARD_LINK, Heartbeat, Result, Volumes, WatchHints, foreign, open_regular,
    read_text, too_large,
};
use crate::plan::{CommandId, QuestionId};
use crate::wire::report_file::{id_in_name, not_a_report};
use crate::wire::{safe_name, sha256};

/// The most bytes of a report, a command or a question.
pub(super) const REPORT_CAP: u64 = 1024 * 1024;
/// One scan returns at most this many reports and stops after this many bytes, so that a flood of files blocks neither the loop
/// nor the memory.
pub const MOST_REPORTS: usize = 256;
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Files with unknown names (`~`, `.swp`, half-written) have this long to disappear.
const STRANGER: Duration = Duration::from_secs(60);
/// A text with another name was meant as a report, unless it gets its right name within this time.
const MISNAMED: Duration = Duration::from_secs(10);

/// A person's file is read when it has not changed for this long.
const QUESTION_QUIET: Duration = Duration::from_millis(300);
/// The name of the file that keeps an empty folder in a git repository.
const KEEPER: &str = ".gitkeep";

/// The result of one scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// Reports that were not returned before, by name.
    pub reports: Vec<ArrivedReport>,
    /// The open commands with a sign that an agent works on them.
    pub signs: WorkerSigns,
    /// Open questions whose file is new or has changed, with its text.
    pub questions: Vec<(QuestionId, String)>,
    /// Questions whose file exists in its folder, open or not; scanned when the reports are listed.
    pub lying: Vec<QuestionId>,
    /// Some file is not finished yet: scan again within some hundred milliseconds.
    pub waiting: bool,
    /// More files exist than one scan returns: scan again immediately.
    pub more: bool,
    /// The folder of reports was listed; otherwise this scan continues an earlier listing.
    pub listed: bool,
}

/// A file that has arrived in `reports/pending`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedReport {
    /// The file's name, as [`Volumes::file_report`] expects it.
    pub name: String,
    /// SHA-256 of the content in hexadecimal; empty if it is not read.
    pub hash: String,
    pub content: Result<Vec<u8>, String>,
}

/// The signs that an agent works on a command. If two signs of one command differ, the agent was alive in between. The times in
/// it are by the agent's clock and are not compared with ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSign {
    /// The command was moved to `processed`.
    pub claimed: bool,
    /// When the heartbeat was last written, by the file system's clock.
    pub beat: Option<SystemTime>,
    /// The content of the heartbeat.
    pub life: Heartbeat,
}

/// The signs of several commands.
pub type WorkerSigns = BTreeMap<CommandId, WorkerSign>;

/// Distinguishes one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    written: (i64, i64),
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

#[derive(Debug)]
struct SeenFile {
    stamp: FileStamp,
    /// Since when the file has had this stamp.
    since: Instant,
    /// The file was returned in this state.
    handed: bool,
}

/// Scans the folders and remembers what it has returned.
#[derive(Debug)]
pub struct Scanner {
    volumes: Volumes,
    hints: WatchHints,
    ages: FileAges,
    reports: HashMap<String, SeenFile>,
    /// Names and inodes of the last listing that have not been processed yet.
    listed: VecDeque<(String, u64)>,
    /// How often the state of every file is read, even of a file that was returned and for which no later event arrived.
    every: Duration,
    /// When the last full scan was, and whether the last listing belongs to a full scan.
    full: (Option<Instant>, bool),
    listing: FolderListing,
    /// The last scan only read files that had been renamed into the folder.
    ahead: bool,
    /// A file of the last listing was not finished.
    unfinished: bool,
    signs: HashMap<CommandId, (FileStamp, WorkerSign)>,
    questions: HashMap<QuestionId, SeenFile>,
}

impl Scanner {
    /// Creates a scanner that has not read anything yet; `hints` are those of the [`super::Watch`], or empty ones. Every
    /// `every`, it reads the state of all files, in case an event was lost.
    pub fn new(volumes: &Volumes, hints: WatchHints, every: Duration) -> Self {
        Self {
            volumes: volumes.clone(),
            hints,
            ages: FileAges::new(),
            reports: HashMap::new(),
            listed: VecDeque::new(),
            every,
            full: (None, true),
            listing: FolderListing::default(),
            ahead: false,
            unfinished: false,
            signs: HashMap::new(),
            questions: HashMap::new(),
        }
    }

    /// Scans everything once and returns at most `most` reports. A missing folder counts as empty: the watch creates it again.
    ///
    /// # Errors
    /// When the folder of reports cannot be listed.
    pub fn scan(
        &mut self,
        open: &[CommandId],
        questions: &[QuestionId],
        most: usize,
    ) -> Result<Scan> {
        let mut scan = Scan::default();
        self.scan_reports(&mut scan, most)?;
        self.signs.retain(|id, _| open.contains(id));
        let listed = (!open.is_empty()).then(|| self.volumes.everywhere());
        let everywhere = listed.unwrap_or_default();
        for id in open {
            if let Some(sign) = self.sign(id, &everywhere) {
                scan.signs.insert(id.clone(), sign);
            }
        }
        if scan.listed {
            scan.lying = self.volumes.questions().unwrap_or_default();
        }
        self.questions.retain(|id, _| questions.contains(id));
        for id in questions {
            self.examine_question(id, &mut scan);
        }
        Ok(scan)
    }

    /// Returns how many files the last scan found in `reports/pending`: the next scan costs about as much.
    pub fn last_listed(&self) -> usize {
        self.reports.len()
    }

    /// Makes the next scan return a report again because its effect could not be persisted.
    pub fn forget(&mut self, name: &str) {
        self.reports.remove(name);
    }

    fn scan_reports(&mut self, scan: &mut Scan, most: usize) -> Result<()> {
        if self.listed.is_empty() {
            let arrived = self.hints.drain_arrived();
            // Never twice before a listing, because the listing is the truth.
            if !std::mem::take(&mut self.ahead) {
                for name in arrived {
                    self.read_report(&name, scan);
                }
                if !scan.reports.is_empty() {
                    // The folder itself is scanned next, while the effects of these reports are under way.
                    (self.ahead, scan.more) = (true, true);
                    return Ok(());
                }
            }
            self.list()?;
            (scan.listed, self.unfinished) = (true, false);
        }
        let mut bytes = 0;
        while scan.reports.len() < most && bytes < MOST_BYTES {
            let Some((name, inode)) = self.listed.pop_front() else {
                break;
            };
            if self.untouched(&name, inode) {
                continue;
            }
            bytes += self.read_report(&name, scan);
        }
        scan.more = !self.listed.is_empty();
        self.unfinished |= scan.waiting;
        scan.waiting = self.unfinished;
        Ok(())
    }

    /// Reads one file and adds it to the scan if it is a finished report. Returns how many bytes were read.
    fn read_report(&mut self, name: &str, scan: &mut Scan) -> usize {
        let found = self.examine_report(name);
        scan.waiting |= matches!(found, FoundFile::Unfinished);
        let FoundFile::Content(content) = found else {
            return 0;
        };
        if let Some(seen) = self.reports.get_mut(name) {
            seen.handed = true;
        }
        let bytes = content.as_ref().map_or(0, Vec::len);
        scan.reports.push(ArrivedReport {
            name: name.to_owned(),
            hash: content.as_deref().map(sha256).unwrap_or_default(),
            content,
        });
        bytes
    }

    fn list(&mut self) -> Result<()> {
        let begun = Instant::now();
        let path = self.volumes.path(Folder::ReportsPending);
        let mut names = self.listing.names(&path).cannot("list", &path)?;
        names.sort_unstable();
        let find = |name: &str| names.binary_search_by(|(other, _)| other.as_str().cmp(name));
        let listed = |name: &str| find(name).is_ok();
        let (last, _) = self.full;
        let full = last.is_none_or(|last| begun.duration_since(last) >= self.every);
        self.full = (if full { Some(begun) } else { last }, full);
        self.reports.retain(|name, _| listed(name));
        self.hints.retain_listed(listed, begun);
        self.listed = names.into();
        Ok(())
    }

    /// Returns whether a file was returned before and no event for it arrived since. Then not even its state is read, except in
    /// a full scan, because events may be lost.
    fn untouched(&self, name: &str, inode: u64) -> bool {
        let (_, full) = self.full;
        let seen = self.reports.get(name).filter(|seen| seen.handed && !full);
        seen.is_some_and(|seen| {
            let event = self.hints.get(name);
            seen.stamp.inode == inode && event.is_some_and(|(_, at)| at <= seen.since)
        })
    }

    fn examine_report(&mut self, name: &str) -> FoundFile {
        let path = self.volumes.path(Folder::ReportsPending).join(name);
        if name == KEEPER {
            return FoundFile::Nothing;
        }
        // It was removed after the listing, so it counts as missing.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            return FoundFile::Nothing;
        };
        let now = Instant::now();
        let seen = refresh(&mut self.reports, name.to_owned(), &metadata, now);
        if seen.handed {
            return FoundFile::Nothing;
        }
        let unchanged = now.duration_since(seen.since);
        if id_in_name(name).is_none() {
            let least = match is_misnamed(name) {
                true => MISNAMED,
                false => STRANGER,
            };
            let reason = match metadata.is_dir() {
                true => "it is a folder, and reports lie beside it, not in it".to_owned(),
                false => not_a_report(name),
            };
            return match unchanged < least {
                true => FoundFile::Nothing,
                false => FoundFile::Content(Err(reason)),
            };
        }
        if let Some(reason) = foreign(&metadata).filter(|reason| *reason != HARD_LINK) {
            return FoundFile::Content(Err(reason.to_owned()));
        }
        let event = self.hints.get(name);
        let observed = FileObservation {
            last_event: event.map(|(phase, at)| (phase, now.saturating_duration_since(at))),
            unchanged,
            age: self.ages.age(&metadata),
            empty: metadata.size() == 0,
            linked: metadata.nlink() > 1,
        };
        match is_finished(observed) {
            true => read(&path, seen.stamp),
            false => FoundFile::Unfinished,
        }
    }

    fn sign(&mut self, id: &CommandId, everywhere: &[Volumes]) -> Option<WorkerSign> {
        let taken = |volumes: &Volumes| {
            fs::symlink_metadata(volumes.command(Folder::CommandsProcessed, id)).is_ok()
        };
        let claimed = everywhere.iter().any(taken);
        let path = self.volumes.life(id);
        let Some(metadata) = fs::symlink_metadata(&path).ok().filter(Metadata::is_file) else {
            return claimed.then(|| WorkerSign {
                claimed,
                ..WorkerSign::default()
            });
        };
        let stamp = FileStamp::of(&metadata);
        let life = match self.signs.get(id).filter(|(known, _)| *known == stamp) {
            Some((_, sign)) => sign.life.clone(),
            None => self.volumes.read_life(id),
        };
        let sign = WorkerSign {
            claimed,
            beat: metadata.modified().ok(),
            life,
        };
        self.signs.insert(id.clone(), (stamp, sign.clone()));
        Some(sign)
    }

    fn examine_question(&mut self, id: &QuestionId, scan: &mut Scan) {
        let path = self.volumes.question(id);
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            return;
        };
        let now = Instant::now();
        let seen = refresh(&mut self.questions, id.clone(), &metadata, now);
        if seen.handed {
            return;
        }
        // An editor may save in place, and half an answer must not be read.
        let age = self.ages.age(&metadata);
        if now.duration_since(seen.since).max(age.unwrap_or_default()) < QUESTION_QUIET {
            scan.waiting = true;
            return;
        }
        let found = read(&path, seen.stamp);
        seen.handed = matches!(found, FoundFile::Content(_));
        match found {
            FoundFile::Nothing => {}
            FoundFile::Unfinished => scan.waiting = true,
            FoundFile::Content(Ok(bytes)) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                scan.questions.push((id.clone(), text));
            }
            FoundFile::Content(Err(reason)) => {
                tracing::warn!(path = %path.display(), %reason, "the question's file is not read");
            }
        }
    }
}

enum FoundFile {
    /// There is nothing to read, or it was removed since its state was read.
    Nothing,
    /// Its writer has not finished it, or it was written since its state was read.
    Unfinished,
    /// What it contains, or why it is not read.
    Content(Result<Vec<u8>, String>),
}

/// Reads a file whose state was checked. The file is opened once, so the checked file is the one that is read.
fn read(path: &Path, expected: FileStamp) -> FoundFile {
    match try_read(path, expected) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => FoundFile::Nothing,
        // A temporary shortage in this process says nothing about the file.
        Err(error) if is_shortage(&error) => FoundFile::Unfinished,
        Err(error) => FoundFile::Content(Err(format!("it cannot be read: {error}"))),
    }
}

fn try_read(path: &Path, expected: FileStamp) -> io::Result<FoundFile> {
    let (mut file, metadata) = open_regular(path)?;
    if let Some(reason) = foreign(&metadata) {
        return Ok(FoundFile::Content(Err(reason.to_owned())));
    }
    if metadata.size() > REPORT_CAP {
        return Ok(FoundFile::Content(Err(too_large(metadata.size()))));
    }
    // One byte more than expected: the end is found without another buffer.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.size()).unwrap_or(0) + 1);
    (&mut file).take(REPORT_CAP + 1).read_to_end(&mut bytes)?;
    let unchanged = file
        .metadata()
        .is_ok_and(|after| FileStamp::of(&after) == expected && after.size() == bytes.len() as u64);
    Ok(match unchanged {
        true => FoundFile::Content(Ok(bytes)),
        false => FoundFile::Unfinished,
    })
}

fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}

/// Returns the remembered state of a file; it is reset if the file has changed.
fn refresh<'a, K: Hash + Eq>(
    seen: &'a mut HashMap<K, SeenFile>,
    name: K,
    metadata: &Metadata,
    since: Instant,
) -> &'a mut SeenFile {
    let (stamp, handed) = (FileStamp::of(metadata), false);
    let fresh = || SeenFile {
        stamp,
        since,
        handed,
    };
    let seen = seen.entry(name).or_insert_with(fresh);
    if seen.stamp != stamp {
        *seen = fresh();
    }
    seen
}

/// Returns whether a file that is no report by its name was meant as one: a text under a name of its own.
fn is_misnamed(name: &str) -> bool {
    let texts = ["md", "markdown", "txt", "json", "yaml", "yml"];
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_text = texts.contains(&&*extension.to_ascii_lowercase());
    !name.starts_with('.') && (is_text || !name.contains('.') && name.starts_with("report-"))
}

impl Volumes {
    /// Returns the names in `reports/pending`, in order; a folder that cannot be listed counts as empty.
    pub fn unread(&self) -> Vec<String> {
        let mut names = self.names(Folder::ReportsPending).unwrap_or_default();
        names.retain(|name| name != KEEPER);
        names.sort_unstable();
        names
    }

    /// Returns the ids of the questions in `questions/pending`.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn questions(&self) -> Result<Vec<QuestionId>> {
        let names = self.names(Folder::QuestionsPending)?;
        let id = |name: &String| {
            let id = name.strip_prefix("question-")?.strip_suffix(".md")?;
            safe_name(id).then(|| QuestionId::new(id))
        };
        Ok(names.iter().filter_map(id).collect())
    }

    /// Returns whether a question with that id has a file, open or answered. If that cannot be checked, the answer is no.
    pub fn has_question(&self, id: &QuestionId) -> bool {
        let filed = self.path(Folder::QuestionsAnswered);
        let places = [self.question(id), filed.join(format!("question-{id}.md"))];
        places.iter().any(|path| fs::symlink_metadata(path).is_ok())
    }

    /// Reads an open question's file; `None` if no readable file exists.
    pub fn read_question(&self, id: &QuestionId) -> Option<String> {
        read_text(&self.question(id), REPORT_CAP).ok()
    }

    /// Returns the path of a question that awaits its answer.
    pub fn question(&self, id: &QuestionId) -> PathBuf {
        self.path(Folder::QuestionsPending)
            .join(format!("question-{id}.md"))
    }
}

/// A folder that is listed repeatedly. It stays open: opening it is an event that wakes the processes that watch it.
#[derive(Debug, Default)]
struct FolderListing(Option<Dir>);

impl FolderListing {
    /// Returns the names that are text, with their inodes; empty if the folder does not exist.
    fn names(&mut self, path: &Path) -> io::Result<Vec<(String, u64)>> {
        let Some(folder) = self.open(path)? else {
            return Ok(Vec::new());
        };
        folder.rewind();
        let mut names = Vec::new();
        for entry in folder {
            let entry = entry?;
            // A name that is not text cannot be that of a report.
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push((name.to_owned(), entry.ino()));
            }
        }
        Ok(names)
    }

    /// Returns the folder that exists now, which may be another one than before.
    fn open(&mut self, path: &Path) -> io::Result<Option<&mut Dir>> {
        let now = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.0 = None;
                return Ok(None);
            }
            now => now?,
        };
        let place = (now.dev(), now.ino());
        let same = |folder: &Dir| {
            let then = folder.stat();
            then.is_ok_and(|then| (then.st_dev, then.st_ino) == place)
        };
        if !self.0.as_ref().is_some_and(same) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.0 = Some(Dir::new(rustix::fs::open(path, flags, Mode::empty())?)?);
        }
        Ok(self.0.as_mut())
    }
}

#[cfg(test)]
mod tests;
