//! Long texts are stored once, and nothing of a plan's history is lost by it.

use plan_agent::plan::TaskChanges;
use proptest::prelude::*;

use super::*;

const MEGABYTE: usize = 1024 * 1024;

/// Returns the bytes of the database.
fn size(given: &Given) -> usize {
    let database = rusqlite::Connection::open(given.file()).unwrap();
    let pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let size: i64 = database.query_row(pages, [], |row| row.get(0)).unwrap();
    usize::try_from(size).unwrap()
}

#[tokio::test]
async fn an_attempt_that_changes_often_has_its_texts_once() {
    let given = Given::new(Kinds::File);
    let store = given.open().await;
    make(&store, "aaaaaaaa").await;
    let id = CommandId::new("command-1");
    let text = "a \"line\" of a command\n".repeat(MEGABYTE / 4 / 22);
    issue(&store, &plan(), 1, new_command(id.as_str(), &text)).await;
    let before = size(&given);
    for number in 0..50 {
        let id = id.clone();
        let until = (number % 2 == 0).then_some(Time(2_000_000));
        let waits = move |draft: &mut Draft<'_>| draft.waits(&id, until);
        changes(&store, waits).await;
    }
    let grown = size(&given) - before;
    assert!(grown < 150_000, "{grown} bytes for 50 changes");
    assert!((MEGABYTE / 4..MEGABYTE / 2).contains(&before), "{before}");
    for seq in [2, 20, 52] {
        let then = store.at(&plan(), seq).await.unwrap();
        assert!(then.attempt(&id).unwrap().text == text, "{seq}");
    }
}

#[tokio::test]
async fn what_looks_like_the_name_of_a_text_is_a_text() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let long = "long".repeat(100);
        issue(&store, &plan(), 1, new_command("command-1", &long)).await;
        let json = format!("\"{long}\"");
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&json);
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let strangers = [
            "sha256:",
            &format!("sha256:{name}"),
            &format!("\"sha256:{name}\""),
            &json,
        ];
        for text in strangers {
            store
                .change(&plan(), "test", text, add(text))
                .await
                .unwrap();
        }
        // Ids are looked up among packed rows.
        let ids = [
            "sha256:1".to_owned(),
            format!("sha256:{name}"),
            "id".repeat(200),
        ];
        for (task, id) in (2..).zip(&ids) {
            issue(&store, &plan(), task, new_command(id, "do it")).await;
        }
        for round in 0..2 {
            let (seq, all) = state(&store).await;
            let again = store.at(&plan(), seq).await.unwrap();
            assert_eq!(rows(&again), all);
            let mut stores = vec![store.clone()];
            if given.shared() {
                stores.push(given.open().await);
            }
            for store in stores {
                assert_eq!(state(&store).await.1, all);
                for id in &ids {
                    let found = store.plan_of(&CommandId::new(id)).await.unwrap();
                    assert_eq!(found, Some(plan()), "{id} in round {round}");
                }
            }
            // The rows are written.
            fill(&store, 40).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_text_that_is_missing_is_an_error_that_names_the_plan() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        issue(
            &store,
            &plan(),
            1,
            new_command("command-1", &"long".repeat(100)),
        )
        .await;
        given.sql("DELETE FROM texts").await;
        let store = given.open().await;
        for error in [
            store.read(&plan(), |_, _| ()).await.unwrap_err(),
            store.since(&plan(), 0, 10).await.unwrap_err(),
            store.at(&plan(), 2).await.unwrap_err(),
        ] {
            let text = error.to_string();
            has(&text, ["`aaaaaaaa`", "missing"]);
        }
    })
    .await;
}

/// A plan in every state that it was in, and its log.
#[derive(Debug, PartialEq)]
struct History(Vec<BTreeMap<String, Row>>, Vec<Change>);

async fn history(store: &Store) -> History {
    let log = log(store).await;
    let mut states = Vec::new();
    for change in &log {
        states.push(rows(&store.at(&plan(), change.seq).await.unwrap()));
    }
    History(states, log)
}

/// Does a random thing to a plan; what the plan refuses is not done.
async fn apply(store: &Store, number: usize, op: &(u8, u32, String)) {
    let (what, task, text) = op.clone();
    let id = CommandId::new(format!("command-{task}"));
    let until = number.is_multiple_of(2).then_some(Time(2_000_000));
    let change = move |draft: &mut Draft<'_>| {
        let done = match what {
            0 => draft.add_tasks(vec![self::task(&text)], None).map(drop),
            1 => draft.issue(TaskId(task), new_command(id.as_str(), &text)),
            2 => draft.claim(&id, None).map(drop),
            3 => draft.waits(&id, until),
            4 => {
                let report = Report {
                    results: text,
                    ..report(task)
                };
                draft.report(&id, report).map(drop)
            }
            5 => draft.update_task(
                TaskId(task),
                &TaskChanges {
                    description: Some(text),
                    ..TaskChanges::default()
                },
            ),
            6 => draft.skip_task(TaskId(task), &text),
            _ => {
                draft.change_head(|head| head.goal = text);
                Ok(())
            }
        };
        // Refused or not, the next one may work.
        done.or(Ok(()))
    };
    changes(store, change).await;
}

fn ops() -> impl Strategy<Value = Vec<(u8, u32, String)>> {
    let text = prop_oneof![
        "[a-zäö'\"\\\\\n]{0,30}",
        (0..4usize).prop_map(|number| format!("text {number} of some length\n").repeat(30)),
        (1..3usize).prop_map(|number| format!("sha256:{}", "ab".repeat(32 * number))),
    ];
    prop::collection::vec((0..8u8, 1..4u32, text), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_state_of_a_random_plan_is_kept_also_by_what_an_older_version_wrote(
        ops in ops(), cut in 0..40usize
    ) {
        block_on(async {
            let given = Given::new(Kinds::File);
            let mut store = given.open().await;
            make(&store, "aaaaaaaa").await;
            let started = |draft: &mut Draft<'_>| draft.start(PlanPolicy::default(), "/workspace");
            changes(&store, started).await;
            // What the plan in memory was is not read from the disk.
            let mut states = BTreeMap::from([state(&store).await]);
            for (number, op) in ops.iter().enumerate() {
                if number == cut {
                    store = given.open().await;
                }
                apply(&store, number, op).await;
                states.extend([state(&store).await]);
            }
            let before = history(&store).await;
            for (seq, rows) in &states {
                assert_eq!(before.0[usize::try_from(*seq).unwrap() - 1], *rows);
            }
            drop(store);
            given.make_older().await;
            let store = given.open().await;
            assert_eq!(history(&store).await, before);
            assert_eq!(states.last_key_value().map(|(seq, rows)| (*seq, rows.clone())).unwrap(), state(&store).await);
        });
    }
}

#[tokio::test]
async fn a_database_of_an_older_version_is_brought_up_to_date_or_left_as_it_was() {
    let given = Given::new(Kinds::File);
    let store = given.open().await;
    make(&store, "aaaaaaaa").await;
    let text = "a line of a command\n".repeat(250);
    issue(&store, &plan(), 1, new_command("command-1", &text)).await;
    for number in 1..30 {
        apply(&store, number, &(3, 1, String::new())).await;
        apply(&store, number, &(7, 1, format!("goal {number}"))).await;
    }
    let (before, last) = (history(&store).await, state(&store).await);
    drop(store);
    given.make_older().await;
    let database = fs::read(given.file()).unwrap();
    let place = place_of(given.file().to_str().unwrap());
    let refused = place.open_to_read(now).await.unwrap_err();
    has(refused.to_string(), "older version");
    assert!(fs::read(given.file()).unwrap() == database);
    let store = given.open().await;
    assert_eq!(history(&store).await, before);
    assert_eq!(state(&store).await, last);
    // The kill comes at any point of what was written.
    let wal = fs::read(given.folder.path().join("plan-agent.db-wal")).unwrap();
    drop(store);
    let cuts = (0..20).map(|part| wal.len() * part / 20 + part);
    for cut in cuts.chain([wal.len()]) {
        let killed = Given::new(Kinds::File);
        fs::write(killed.file(), &database).unwrap();
        let journal = killed.folder.path().join("plan-agent.db-wal");
        fs::write(journal, &wal[..cut.min(wal.len())]).unwrap();
        let store = killed.open().await;
        assert_eq!(history(&store).await, before, "cut at {cut}");
        step(&store, 90).await;
    }
}
