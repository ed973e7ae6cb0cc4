use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::super::ReportDisposition;
use super::super::finished_writing::WritePhase;
use super::*;
use crate::config::Timing;
use crate::plan::SessionId;

struct Given {
    _root: tempfile::TempDir,
    volumes: Volumes,
    hints: WatchHints,
    scanner: Scanner,
}

impl Given {
    fn new() -> Self {
        let (root, volumes) = Volumes::temporary();
        let hints = WatchHints::default();
        Self {
            scanner: Scanner::new(&volumes, hints.clone(), Timing::default().scan),
            volumes,
            hints,
            _root: root,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.volumes.path(Folder::ReportsPending).join(name)
    }

    /// Puts a report there that was written long ago.
    fn arrive(&self, name: &str, text: &str) {
        self.write(name, text);
        self.heard(name);
    }

    fn heard(&self, name: &str) {
        self.hints.note(name, WritePhase::RenamedIn, Instant::now());
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn age(&self, name: &str, ago: Duration) {
        written(&self.path(name), SystemTime::now() - ago);
    }

    fn scan(&mut self) -> Scan {
        self.scan_with(&[], &[])
    }

    fn scan_with(&mut self, commands: &[CommandId], questions: &[QuestionId]) -> Scan {
        let scan = self.scanner.scan(commands, questions, MOST_REPORTS);
        scan.unwrap()
    }

    fn texts(&mut self) -> Vec<(String, String)> {
        let text = |report: ArrivedReport| {
            let content = match report.content {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(reason) => reason,
            };
            (report.name, content)
        };
        self.scan().reports.into_iter().map(text).collect()
    }
}

/// Makes a file look as if it had been written at a time.
fn written(path: &Path, at: SystemTime) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(at).unwrap();
}

fn pair(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

#[test]
fn renamed_report_is_scanned_first_and_once() {
    let mut given = Given::new();
    for name in ["report-task-a.md", "report-task-b.md", "report-task-c.md"] {
        given.write(name, name);
        given.age(name, Duration::from_secs(9));
    }
    given.heard("report-task-b.md");
    let scan = given.scan();
    assert!(scan.more);
    assert_eq!(scan.reports[0].name, "report-task-b.md");
    assert_eq!(scan.reports.len(), 1);
    // However much is heard, the folder is listed next.
    given.heard("report-task-a.md");
    let scan = given.scan();
    let names: Vec<_> = scan.reports.iter().map(|report| &report.name).collect();
    assert_eq!(names, ["report-task-a.md", "report-task-c.md"]);
    assert!(!scan.more);
    assert!(given.scan().reports.is_empty());
}

#[test]
fn scan_returns_report_once_per_content() {
    let mut given = Given::new();
    given.arrive("report-task-a.md", "one");
    assert_eq!(given.texts(), [pair("report-task-a.md", "one")]);
    assert_eq!(given.texts(), []);
    given.arrive("report-task-a.md", "other");
    assert_eq!(given.texts(), [pair("report-task-a.md", "other")]);
    given.scanner.forget("report-task-a.md");
    assert_eq!(given.texts(), [pair("report-task-a.md", "other")]);
}

#[test]
fn report_hash_covers_bytes() {
    let mut given = Given::new();
    given.arrive("report-task-a.md", "abc");
    let scan = given.scan();
    insta::assert_snapshot!(scan.reports[0].hash, @"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn scan_waits_for_report_being_written() {
    let mut given = Given::new();
    let name = "report-task-a.md";
    given.write(name, "ha");
    given.hints.note(name, WritePhase::Writing, Instant::now());
    let scan = given.scan();
    assert!(scan.reports.is_empty() && scan.waiting);
    given.write(name, "whole");
    let earlier = Instant::now() - Duration::from_secs(1);
    given.hints.note(name, WritePhase::Closed, earlier);
    let scan = given.scan();
    assert!(scan.reports.is_empty() && scan.waiting, "just written");
    given.age(name, Duration::from_secs(2));
    assert_eq!(given.texts(), [pair(name, "whole")]);
    assert!(!given.scan().waiting);
}

#[test]
fn without_events_only_old_file_is_finished() {
    let mut given = Given::new();
    given.write("report-task-new.md", "new");
    given.write("report-task-old.md", "old");
    given.age("report-task-old.md", Duration::from_secs(10));
    let scan = given.scan();
    assert_eq!(scan.reports.len(), 1);
    assert_eq!(scan.reports[0].name, "report-task-old.md");
    assert!(scan.waiting);
}

#[test]
fn special_files_are_rejected_unopened() {
    let mut given = Given::new();
    let secret = given.volumes.root().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::create_dir(given.path("report-directory.md")).unwrap();
    symlink(&secret, given.path("report-link.md")).unwrap();
    symlink("/nowhere", given.path("report-dangling.md")).unwrap();
    let _socket = UnixListener::bind(given.path("report-socket.md")).unwrap();
    let (pipe, mode) = (given.path("report-pipe.md"), Mode::RUSR | Mode::WUSR);
    mknodat(CWD, pipe, FileType::Fifo, mode, 0).unwrap();
    let mut found = given.texts();
    found.sort();
    let link = "it is a symbolic link, and links are not followed";
    let reasons = [
        pair("report-dangling.md", link),
        pair("report-directory.md", "it is a directory"),
        pair("report-link.md", link),
        pair("report-pipe.md", "it is a named pipe"),
        pair("report-socket.md", "it is a socket"),
    ];
    assert_eq!(found, reasons);
    assert_eq!(given.texts(), []);
    for (name, _) in found {
        let rejected = ReportDisposition::Rejected("reason".to_owned());
        given.volumes.file_report(&name, &rejected).unwrap();
        let filed = given.volumes.path(Folder::ReportsRejected).join(&name);
        assert!(fs::symlink_metadata(&filed).is_ok(), "{name}");
        let reason = filed.with_file_name(format!("{name}.reason.md"));
        assert_eq!(fs::read_to_string(reason).unwrap(), "reason");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn rejects_hard_links_and_huge_files() {
    let mut given = Given::new();
    let old = SystemTime::now() - Duration::from_secs(10);
    let secret = given.volumes.root().join("secret");
    fs::write(&secret, "secret").unwrap();
    written(&secret, old);
    fs::hard_link(&secret, given.path("report-hard.md")).unwrap();
    let huge = fs::File::create(given.path("report-huge.md")).unwrap();
    huge.set_len(1 << 30).unwrap();
    huge.set_modified(old).unwrap();
    let size = "it has 1073741824 bytes; at most 1 MiB is read";
    let linked = pair("report-hard.md", "it has other hard links");
    assert_eq!(given.texts(), [linked, pair("report-huge.md", size)]);
}

#[test]
fn scan_ignores_foreign_files() {
    let mut given = Given::new();
    let foreign =
        ".report-task-a.md.swp report-task-a.md~ report-task-a.tmp notes.md 4913 report-.md";
    for name in foreign.split(' ').chain([KEEPER]) {
        given.arrive(name, "text");
    }
    let scan = given.scan();
    assert!(scan.reports.is_empty() && !scan.waiting, "{scan:?}");
    assert_eq!(given.scanner.reports.len(), 6);
}

#[test]
fn many_reports_come_in_bounded_batches() {
    let mut given = Given::new();
    for number in 0..1_000 {
        given.arrive(&format!("report-task-{number:04}.md"), "text");
    }
    let mut names = Vec::new();
    loop {
        let scan = given.scan();
        assert!(scan.reports.len() <= MOST_REPORTS);
        names.extend(scan.reports.into_iter().map(|report| report.name));
        if !scan.more {
            break;
        }
    }
    assert_eq!(names.len(), 1_000);
    assert!(names.is_sorted());
    assert_eq!(given.texts(), []);
}

#[test]
fn large_reports_come_in_bounded_batches() {
    let mut given = Given::new();
    let text = "x".repeat(1 << 20);
    for number in 0..20 {
        given.arrive(&format!("report-task-{number:02}.md"), &text);
    }
    let scan = given.scan();
    assert_eq!((scan.reports.len(), scan.more), (8, true));
}

#[test]
fn scan_reads_heartbeats_of_open_commands() {
    let mut given = Given::new();
    let [taken, live, idle] = ["task-a", "task-b", "task-c"].map(CommandId::new);
    fs::write(given.volumes.command(Folder::CommandsProcessed, &taken), "").unwrap();
    let life = Heartbeat {
        session: Some(SessionId::new("s")),
        ..Heartbeat::default()
    };
    given.volumes.live(&live, &life).unwrap();
    let open = [taken.clone(), live.clone(), idle];
    let signs = given.scan_with(&open, &[]).signs;
    assert_eq!(signs.keys().collect::<Vec<_>>(), [&taken, &live]);
    assert!(signs[&taken].claimed && signs[&taken].beat.is_none());
    assert!(!signs[&live].claimed && signs[&live].life == life);
    let same = given.scan_with(&open, &[]).signs;
    assert_eq!(same, signs);
    let soon = SystemTime::now() + Duration::from_secs(1);
    written(&given.volumes.life(&live), soon);
    let later = given.scan_with(&open, &[]).signs;
    assert_ne!(later[&live], signs[&live]);
}

#[test]
fn scan_returns_answer_when_file_changes() {
    let mut given = Given::new();
    let id = QuestionId::new("q1");
    let open = [id.clone()];
    let old = SystemTime::now() - Duration::from_secs(10);
    let age = |given: &Given, seconds| {
        let at = old + Duration::from_secs(seconds);
        written(&given.volumes.question(&id), at);
    };
    given.volumes.write_question(&id, "answer:").unwrap();
    given.volumes.write_question(&id, "never over it").unwrap();
    age(&given, 0);
    let scan = given.scan_with(&[], &open);
    assert_eq!(scan.questions, [(id.clone(), "answer:".to_owned())]);
    assert!(given.scan_with(&[], &open).questions.is_empty());
    fs::write(given.volumes.question(&id), "answer: retry").unwrap();
    // However long this thread is held up before the scan.
    age(&given, 3600);
    assert!(given.scan_with(&[], &open).waiting);
    age(&given, 1);
    let scan = given.scan_with(&[], &open);
    assert_eq!(scan.questions, [(id.clone(), "answer: retry".to_owned())]);
    given.volumes.complain(&id, "which one?").unwrap();
    given.volumes.file_question(&id).unwrap();
    given.volumes.file_question(&id).unwrap();
    let filed = given.volumes.path(Folder::QuestionsAnswered);
    assert_eq!(fs::read_dir(filed).unwrap().count(), 2);
}

#[test]
fn missing_folder_scans_as_empty() {
    let mut given = Given::new();
    fs::remove_dir(given.volumes.path(Folder::ReportsPending)).unwrap();
    assert_eq!(given.texts(), []);
}
