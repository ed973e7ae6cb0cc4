//! Wakes waiting tasks when something happens in the folders. An event only means "scan again": no event is relied on, and
//! without events the regular scans continue alone.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, Event, EventKind, ModifyKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::finished_writing::WritePhase;
use super::{Folder, Volumes, WatchHints};

/// The folders whose events the daemon waits for.
const DAEMON: [Folder; 5] = [
    Folder::ReportsPending,
    Folder::CommandsProcessed,
    Folder::CommandsPending,
    Folder::QuestionsPending,
    Folder::Active,
];

/// How often the store is read without any wake-up: where files cannot be watched, this is the only way.
pub const READ_AGAIN: Duration = Duration::from_secs(2);

/// Watches the folders until it is dropped.
#[derive(Debug)]
pub struct Watch {
    volumes: Volumes,
    watcher: Option<RecommendedWatcher>,
    watched: Vec<Watched>,
    handler: Arc<EventHandler>,
    /// The fault has been logged; it is logged again only after the watch has worked in between.
    faulty: bool,
}

/// Watches only the store, for processes that serve plans: every commit of any process wakes them up.
#[derive(Debug)]
pub struct StoreChanges {
    moved: watch::Receiver<u64>,
    stored: Arc<Notify>,
    _watch: Watch,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// The inode at the last check, watched or not.
    inode: Option<u64>,
    /// Events of this path arrive.
    is_watched: bool,
}

impl Watch {
    /// Watches everything that a daemon waits for. A commit to the store wakes `stored`, because the folders then contain
    /// nothing new; everything else wakes `wake`. If watching is impossible, this is logged once, and only the regular scans
    /// remain.
    pub fn start(volumes: &Volumes, wake: Arc<Notify>, stored: Arc<Notify>) -> Self {
        let own = volumes.own().flat_map(|volumes| {
            [Folder::CommandsProcessed, Folder::CommandsPending].map(|folder| volumes.path(folder))
        });
        let common = DAEMON.map(|folder| volumes.path(folder));
        let paths = common.into_iter().chain(own).collect();
        Self::of(volumes, paths, wake, Some(stored))
    }

    /// Watches the folders from which a worker claims commands.
    pub fn for_worker(from: &[Volumes], wake: Arc<Notify>) -> Self {
        let pending = |volumes: &Volumes| volumes.path(Folder::CommandsPending);
        Self::of(&from[0], from.iter().map(pending).collect(), wake, None)
    }

    fn of(
        volumes: &Volumes,
        folders: Vec<PathBuf>,
        wake: Arc<Notify>,
        stored: Option<Arc<Notify>>,
    ) -> Self {
        let store = stored.is_some().then(|| volumes.database());
        let paths: Vec<_> = folders.into_iter().chain(store).collect();
        let handler = Arc::new(EventHandler {
            reports: volumes.path(Folder::ReportsPending),
            store: volumes.database(),
            folders: paths.clone(),
            hints: WatchHints::default(),
            gone: Mutex::default(),
            wake,
            stored,
        });
        let watched = |path| Watched {
            path,
            inode: None,
            is_watched: false,
        };
        let mut watch = Self {
            volumes: volumes.clone(),
            watched: paths.into_iter().map(watched).collect(),
            handler: Arc::clone(&handler),
            faulty: false,
            watcher: None,
        };
        let watcher = notify::recommended_watcher(move |event| handler.handle(event));
        match watcher {
            Ok(watcher) => watch.watcher = Some(watcher),
            Err(error) => watch.complain(&error),
        }
        watch.check();
        watch
    }

    /// Returns the events for files in `reports/pending`, for the [`super::Scanner`].
    pub fn hints(&self) -> WatchHints {
        self.handler.hints.clone()
    }

    /// Returns whether every folder is watched; otherwise only regular scans find changes.
    pub fn complete(&self) -> bool {
        self.watched.iter().all(|watched| watched.is_watched)
    }

    /// Creates missing folders again and watches new ones. Returns whether a folder was missing; its files may then be lost.
    /// The caller calls this every few seconds: a folder that was removed or moved away sends no further event.
    pub fn check(&mut self) -> bool {
        let made = self.volumes.make_missing().unwrap_or_else(|error| {
            self.complain(&error);
            Vec::new()
        });
        for folder in &made {
            tracing::warn!(folder = %folder.display(), "made again: it was gone");
        }
        let mut replaced = !made.is_empty();
        let mut watched = std::mem::take(&mut self.watched);
        for one in &mut watched {
            replaced |= self.check_one(one);
        }
        self.watched = watched;
        if self.watcher.is_some() && self.complete() {
            self.faulty = false;
        }
        replaced
    }

    /// Checks one path, and returns whether it now leads to another file or folder than at the last check.
    fn check_one(&mut self, one: &mut Watched) -> bool {
        let now = fs::metadata(&one.path).ok().map(|metadata| metadata.ino());
        let removed = self.handler.gone.lock().remove(&one.path);
        let replaced = one.inode.is_some() && (now != one.inode || removed);
        if one.is_watched && now.is_some() && !replaced {
            return false;
        }
        one.inode = now;
        one.is_watched = self.watch_path(&one.path, one.is_watched);
        if replaced && one.is_watched {
            tracing::warn!(path = %one.path.display(), "watched again: it is not the one that was there");
        }
        replaced
    }

    /// Starts to watch a path; returns whether that is possible.
    fn watch_path(&mut self, path: &Path, again: bool) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        if again {
            // Fails when the kernel has dropped the watch with the folder, which is the desired state.
            watcher.unwatch(path).ok();
            self.handler.hints.lose(Instant::now());
        }
        match watcher.watch(path, RecursiveMode::NonRecursive) {
            Ok(()) => {
                // Files that arrived before the watch sent no event.
                self.handler.wake.notify_one();
                true
            }
            // Plans on a server have no file here; it may come, and each check looks for it.
            Err(_) if path == self.handler.store && !path.exists() => false,
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    fn complain(&mut self, error: &dyn std::error::Error) {
        if !self.faulty {
            self.faulty = true;
            tracing::warn!(
                %error,
                "not every folder can be watched: changes are found by looking every few seconds"
            );
        }
    }
}

/// Handles events in the watcher's thread. It never waits: the kernel's queue would overflow meanwhile.
#[derive(Debug)]
struct EventHandler {
    reports: PathBuf,
    store: PathBuf,
    folders: Vec<PathBuf>,
    hints: WatchHints,
    /// Watched folders that were removed. The inode alone does not show this: a new folder often gets the inode of the old one.
    gone: Mutex<HashSet<PathBuf>>,
    wake: Arc<Notify>,
    stored: Option<Arc<Notify>>,
}

impl StoreChanges {
    /// Begins to listen: what is read after this is not missed. `moved` is the store's counter of this process's changes.
    pub fn of(moved: watch::Receiver<u64>, volumes: &Volumes) -> Self {
        let stored = Arc::new(Notify::new());
        let wake = Arc::clone(&stored);
        Self {
            moved,
            _watch: Watch::of(volumes, Vec::new(), wake, Some(Arc::clone(&stored))),
            stored,
        }
    }

    /// Waits for a change, at most so long. Its end only means "read again".
    pub async fn wait(&mut self, most: Duration) {
        tokio::select! {
            () = self.stored.notified() => {}
            Ok(()) = self.moved.changed() => {}
            () = sleep(most) => {}
        }
    }
}

impl EventHandler {
    fn handle(&self, event: notify::Result<Event>) {
        let event = match event {
            Ok(event) => event,
            Err(error) => return self.lose(&error.to_string()),
        };
        // This event has no path, so it is checked before everything that reads paths.
        if event.need_rescan() {
            return self.lose("more came than the kernel keeps");
        }
        if only_read(event.kind) {
            return;
        }
        self.note(&event);
        if let EventKind::Remove(_) = event.kind {
            let mut gone = event.paths.clone();
            gone.retain(|path| self.folders.contains(path));
            self.gone.lock().extend(gone);
        }
        for path in &event.paths {
            match &self.stored {
                Some(stored) if *path == self.store => stored.notify_one(),
                _ => self.wake.notify_one(),
            }
        }
    }

    fn lose(&self, why: &str) {
        tracing::warn!(why, "events were lost: the folders are scanned instead");
        self.hints.lose(Instant::now());
        self.wake.notify_one();
    }

    fn note(&self, event: &Event) {
        let now = Instant::now();
        let phase = match event.kind {
            EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(WritePhase::RenamedIn),
            EventKind::Modify(ModifyKind::Data(_)) => Some(WritePhase::Writing),
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(WritePhase::Closed),
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => None,
            // A hard link is created and never closed, so creation alone says nothing.
            _ => return,
        };
        for path in &event.paths {
            if path.parent() != Some(&self.reports) {
                continue;
            }
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            match phase {
                Some(phase) => self.hints.note(name, phase, now),
                None => self.hints.forget(name),
            }
        }
    }
}

/// This program's own reads must not wake it.
fn only_read(kind: EventKind) -> bool {
    use AccessKind::{Close, Open, Read};
    matches!(
        kind,
        EventKind::Access(Open(_) | Read | Close(AccessMode::Read))
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{MOST_REPORTS, Scanner};
    use super::*;
    use crate::config::Timing;

    const LONG: Duration = Duration::from_secs(30);

    struct Given {
        _root: tempfile::TempDir,
        volumes: Volumes,
        wake: Arc<Notify>,
        stored: Arc<Notify>,
        watch: Watch,
    }

    impl Given {
        fn new() -> Self {
            let (root, volumes) = Volumes::temporary();
            let wake = Arc::new(Notify::new());
            let stored = Arc::new(Notify::new());
            fs::write(volumes.database(), "").unwrap();
            let watch = Watch::start(&volumes, Arc::clone(&wake), Arc::clone(&stored));
            Self {
                _root: root,
                volumes,
                wake,
                stored,
                watch,
            }
        }

        async fn woken(&self) {
            let woken = tokio::time::timeout(LONG, self.wake.notified()).await;
            woken.expect("nothing woke the waiting one");
        }

        /// Waits, woken by events only, until the condition holds.
        async fn until(&self, mut holds: impl FnMut() -> bool) {
            while !holds() {
                self.woken().await;
            }
        }

        fn report(&self) -> PathBuf {
            let folder = self.volumes.path(Folder::ReportsPending);
            folder.join("report-task-a.md")
        }

        /// Renames a report into place, as an agent should.
        fn rename_in(&self) {
            let temp = self.volumes.temp("reports", "x");
            fs::write(&temp, "text").unwrap();
            fs::rename(&temp, self.report()).unwrap();
        }
    }

    #[tokio::test]
    async fn renamed_report_is_read_immediately() {
        let given = Given::new();
        assert!(given.watch.complete());
        let mut scanner = Scanner::new(&given.volumes, given.watch.hints(), Timing::default().scan);
        given.rename_in();
        let mut read = || scanner.scan(&[], &[], MOST_REPORTS).unwrap().reports.len();
        given.until(|| read() == 1).await;
    }

    #[tokio::test]
    async fn watch_observes_writing_and_close() {
        use std::io::Write;

        let given = Given::new();
        let hints = given.watch.hints();
        let phase = || hints.get("report-task-a.md").map(|(phase, _)| phase);
        let mut file = fs::File::create(given.report()).unwrap();
        file.write_all(b"half").unwrap();
        given.until(|| phase() == Some(WritePhase::Writing)).await;
        drop(file);
        given.until(|| phase() == Some(WritePhase::Closed)).await;
        fs::remove_file(given.report()).unwrap();
        given.until(|| phase().is_none()).await;
    }

    #[tokio::test]
    async fn recreated_folder_is_watched_again() {
        let mut given = Given::new();
        let folder = given.volumes.path(Folder::ReportsPending);
        for round in 0..3 {
            fs::remove_dir_all(&folder).unwrap();
            // One round by the check itself, the others by another process.
            if round > 0 {
                fs::create_dir(&folder).unwrap();
            }
            given.watch.check();
            assert!(given.watch.complete() && folder.is_dir());
            let hints = given.watch.hints();
            while hints.get("report-task-a.md").is_none() {
                given.rename_in();
                given.woken().await;
                given.watch.check();
            }
        }
    }

    #[tokio::test]
    async fn slowly_written_report_is_read_once_and_whole() {
        use std::io::Write;

        let given = Given::new();
        let mut scanner = Scanner::new(&given.volumes, given.watch.hints(), Timing::default().scan);
        let mut reports = || scanner.scan(&[], &[], MOST_REPORTS).unwrap().reports;
        let mut file = fs::File::create(given.report()).unwrap();
        for _ in 0..200 {
            file.write_all(b"x").unwrap();
            assert!(reports().is_empty());
        }
        drop(file);
        let mut found = Vec::new();
        let end = Instant::now() + LONG;
        while found.is_empty() && Instant::now() < end {
            found = reports();
            tokio::task::yield_now().await;
        }
        assert_eq!(found[0].content.as_ref().unwrap().len(), 200);
        assert!(reports().is_empty());
    }

    #[tokio::test]
    async fn event_overflow_loses_no_report() {
        let given = Given::new();
        let mut scanner = Scanner::new(&given.volumes, given.watch.hints(), Timing::default().scan);
        let folder = given.volumes.path(Folder::ReportsPending);
        for number in 0..6_000 {
            fs::write(folder.join(format!("report-task-{number:04}.md")), "x").unwrap();
        }
        let mut found = 0;
        let end = Instant::now() + LONG;
        while found < 6_000 && Instant::now() < end {
            let scan = scanner.scan(&[], &[], MOST_REPORTS).unwrap();
            found += scan.reports.len();
            if !scan.more {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        assert_eq!(found, 6_000);
    }

    #[tokio::test]
    async fn store_and_folder_changes_wake_daemon() {
        let given = Given::new();
        given.wake.notified().await;
        let store = fs::File::open(given.volumes.database()).unwrap();
        store.set_modified(std::time::SystemTime::now()).unwrap();
        let woken = tokio::time::timeout(LONG, given.stored.notified()).await;
        woken.expect("the store woke no watcher");
        for (folder, name) in [
            (Folder::CommandsProcessed, "task-a.md"),
            (Folder::QuestionsPending, "question-a.md"),
            (Folder::Active, "task-a.json"),
        ] {
            fs::write(given.volumes.path(folder).join(name), "text").unwrap();
            given.woken().await;
        }
    }

    #[test]
    fn reads_do_not_wake_daemon() {
        for kind in [
            AccessKind::Open(AccessMode::Any),
            AccessKind::Close(AccessMode::Read),
            AccessKind::Read,
        ] {
            assert!(only_read(EventKind::Access(kind)));
        }
        let written = AccessKind::Close(AccessMode::Write);
        assert!(!only_read(EventKind::Access(written)));
    }

    #[tokio::test]
    async fn lost_events_wake_daemon_and_clear_hints() {
        use notify::event::Flag;

        let wake = Arc::new(Notify::new());
        let hints = WatchHints::default();
        let handler = EventHandler {
            reports: "/v/reports/pending".into(),
            store: "/v/plan-agent.db".into(),
            folders: vec![],
            hints: hints.clone(),
            gone: Mutex::default(),
            wake: Arc::clone(&wake),
            stored: None,
        };
        for event in [
            Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)),
            Err(notify::Error::generic("broken")),
        ] {
            hints.note("report-task-a.md", WritePhase::Writing, Instant::now());
            handler.handle(event);
            wake.notified().await;
            assert_eq!(hints.get("report-task-a.md"), None);
        }
    }
}
