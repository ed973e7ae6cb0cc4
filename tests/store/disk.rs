//! What a commit writes to the disk, and what is there after an interruption.

use super::*;
use crate::common::disk::SmallDisk;
use crate::common::env::wait_until;

/// The write-ahead log of an SQLite file: a header, then one frame for each page.
struct Wal(Vec<u8>);

impl Wal {
    const HEADER: usize = 32;

    fn of(given: &Given) -> Self {
        Self(fs::read(given.folder.path().join("plan-agent.db-wal")).unwrap())
    }

    fn frame(&self) -> usize {
        let page = u32::from_be_bytes(self.0[8..12].try_into().unwrap());
        24 + page as usize
    }

    /// Returns where each commit ends: its last frame holds the size of the database after it. Frames of an earlier round,
    /// which begin with another salt, do not count.
    fn commits(&self) -> Vec<usize> {
        let salt = &self.0[16..24];
        (Self::HEADER..self.0.len())
            .step_by(self.frame())
            .filter(|at| self.0.len() >= at + self.frame())
            .filter(|at| self.0[at + 8..at + 16] == *salt && self.0[at + 4..at + 8] != [0; 4])
            .map(|at| at + self.frame())
            .collect()
    }
}

#[tokio::test]
async fn concurrent_changes_share_commits() {
    let given = Given::new(Kinds::File);
    let store = given.open().await;
    make(&store, "aaaaaaaa").await;
    let before = Wal::of(&given).commits().len();
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.change(&plan(), "test", "added", add("x")).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(log(&store).await.len(), 65);
    let commits = Wal::of(&given).commits().len() - before;
    assert!(
        (1..=4).contains(&commits),
        "{commits} commits for 64 changes"
    );
}

#[tokio::test]
async fn crash_at_any_point_leaves_committed_state() {
    let given = Given::new(Kinds::File);
    let store = given.open().await;
    // Before the first change there is no plan.
    let mut states: Vec<(usize, Option<State>)> = vec![(Wal::of(&given).0.len(), None)];
    make(&store, "aaaaaaaa").await;
    states.push((Wal::of(&given).0.len(), Some(state(&store).await)));
    for number in 1..6 {
        step(&store, number).await;
        states.push((Wal::of(&given).0.len(), Some(state(&store).await)));
    }
    let wal = Wal::of(&given);
    let database = fs::read(given.file()).unwrap();
    let frames = (Wal::HEADER..=wal.0.len()).step_by(wal.frame());
    // Between any two pages, in the middle of a page, and in its header.
    let cuts = frames.flat_map(|at| [at, at + 11, at + wal.frame() / 2]);
    let mut seen = BTreeMap::new();
    for cut in cuts.chain([0, 7]).filter(|cut| *cut <= wal.0.len()) {
        let crashed = Given::new(Kinds::File);
        fs::write(crashed.file(), &database).unwrap();
        fs::write(
            crashed.folder.path().join("plan-agent.db-wal"),
            &wal.0[..cut],
        )
        .unwrap();
        let store = crashed.open().await;
        let expected = states.iter().rev().find(|(end, _)| *end <= cut);
        let expected = expected.and_then(|(_, state)| state.clone());
        let found = store
            .read(&plan(), |plan, seq| (seq, rows(plan)))
            .await
            .ok();
        assert_eq!(found, expected, "cut at {cut} of {}", wal.0.len());
        let seq = expected.as_ref().map_or(0, |(seq, _)| *seq);
        assert_eq!(i64::try_from(log(&store).await.len()).unwrap(), seq);
        *seen.entry(seq).or_insert(0) += 1;
        // It continues from there.
        match expected {
            None => make(&store, "aaaaaaaa").await,
            Some(_) => step(&store, 90).await,
        }
        assert_eq!(state(&store).await.0, seq + 1);
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}

#[tokio::test]
async fn full_disk_is_reported_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount("size=512k") else {
        return;
    };
    let path = disk.path().join("plans.db");
    let store = Store::open(&path, now).await.unwrap();
    make(&store, "aaaaaaaa").await;
    for round in 0..3 {
        disk.fill();
        let mut committed = state(&store).await;
        let failure = loop {
            match store
                .change(&plan(), "test", "added", add(&"x".repeat(4_000)))
                .await
            {
                Ok(_) => committed = state(&store).await,
                Err(error) => break error,
            }
        };
        assert!(matches!(failure, StoreError::Database(_)), "{failure}");
        assert_eq!(state(&store).await, committed, "round {round}");
        disk.make_room();
        assert_eq!(
            state(&Store::open(&path, now).await.unwrap()).await,
            committed
        );
        changes(&store, add("room again")).await;
        assert_eq!(state(&store).await.0, committed.0 + 1);
    }
    let (seq, rows) = state(&store).await;
    assert_eq!(self::rows(&store.at(&plan(), seq).await.unwrap()), rows);
}

#[tokio::test]
async fn store_that_does_not_open_says_that_its_disk_is_full() {
    let Some(disk) = SmallDisk::mount("size=512k") else {
        return;
    };
    let path = disk.path().join("plans.db");
    make(&Store::open(&path, now).await.unwrap(), "aaaaaaaa").await;
    // The files beside it are gone with the last handle, which closes a moment later.
    let journal = disk.path().join("plans.db-wal");
    wait_until("it is closed", || !journal.exists());
    disk.fill();
    let error = Store::open(&path, now).await.unwrap_err();
    let StoreError::Open {
        reason, way_out, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(reason.contains("no space left on its disk"), "{reason}");
    assert_eq!(*way_out, Some("free some space there"));
    disk.make_room();
    Store::open(&path, now).await.unwrap();
}

#[tokio::test]
async fn change_cost_is_independent_of_plan_size() {
    let mut costs = Vec::new();
    for tasks in [10, 1_000, 10_000] {
        let given = Given::new(Kinds::File);
        let store = given.open().await;
        let many = (0..tasks).map(|number| task(&format!("task {number}")));
        let many = many.collect();
        let make = move |draft: &mut Draft<'_>| draft.make_tasks(many).map(drop);
        let made = store.create(head("aaaaaaaa"), "test", "made", make);
        made.await.unwrap();
        // Empties the write-ahead log, so that it begins again with the measured change.
        given.sql("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let command = new_command("task-x", &"do it".repeat(200));
        issue(&store, &plan(), 1, command).await;
        let wal = Wal::of(&given);
        let pages = wal.commits()[0] / wal.frame();
        let rows = log(&store).await[1].delta.rows.len();
        costs.push((rows, pages));
    }
    assert!(costs.iter().all(|(rows, _)| *rows == 3), "{costs:?}");
    // A larger tree is at most two levels higher, in each of three tables and two indexes.
    assert!(costs[2].1 <= costs[0].1 + 5, "{costs:?}");
}
