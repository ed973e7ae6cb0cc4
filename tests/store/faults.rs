//! Statements that fail, rows that are damaged, files that are gone or belong to another user.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[tokio::test]
async fn failed_statement_changes_neither_memory_nor_disk() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        step(&store, 1).await;
        let before = state(&store).await;
        for (table, with) in [
            ("plans", "UPDATE"),
            ("plan_rows", "INSERT"),
            ("log", "INSERT"),
        ] {
            given.break_table(table, with).await;
            let failed = store.change(&plan(), "test", "x", add("x")).await;
            assert!(matches!(failed, Err(StoreError::Database(_))), "{table}");
            assert_eq!(state(&store).await, before, "{table}");
            assert_eq!(state(&given.open().await).await, before);
            given.mend_table(table).await;
        }
        let made = store
            .create(head("bbbbbbbb"), "test", "made", add("x"))
            .await;
        made.unwrap();
        given.break_table("log", "INSERT").await;
        let failed = store
            .create(head("cccccccc"), "test", "made", add("x"))
            .await;
        assert!(matches!(failed, Err(StoreError::Database(_))));
        given.mend_table("log").await;
        make(&store, "cccccccc").await;
        step(&store, 2).await;
        assert_eq!(log(&store).await.len(), 3);
        assert_eq!(state(&given.open().await).await, state(&store).await);
    })
    .await;
}

#[tokio::test]
async fn panic_fails_only_its_caller() {
    on_every_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        let before = state(&store).await;
        let said = |error: StoreError| {
            let text = error.to_string();
            has(&text, ["fault of the program", "boom"]);
        };
        let half = |draft: &mut Draft<'_>| -> Result<TaskId, Refusal> {
            draft.add_tasks(vec![task("half of it")], None)?;
            panic!("boom {}", draft.plan().counts().total())
        };
        said(store.change(&plan(), "test", "x", half).await.unwrap_err());
        said(
            store
                .create(head("bbbbbbbb"), "test", "made", half)
                .await
                .unwrap_err(),
        );
        said(
            store
                .read(&plan(), |_, _| panic!("boom"))
                .await
                .unwrap_err(),
        );
        assert_eq!(state(&store).await, before);
        assert_eq!(found_plans(&store).await, ["aaaaaaaa"]);
        if given.shared() {
            assert_eq!(state(&given.open().await).await, before);
        }
        // The id of the plan that was not made is free.
        make(&store, "bbbbbbbb").await;

        // Simultaneous callers get their results, before it and after it.
        let callers: Vec<_> = (0..60)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    match number % 5 {
                        0 => store.change(&plan(), "test", "x", half).await,
                        _ => {
                            store
                                .change(&plan(), "test", "added", add("one more"))
                                .await
                        }
                    }
                })
            })
            .collect();
        let mut added = Vec::new();
        for caller in callers {
            match caller.await.unwrap() {
                Ok(task) => added.push(task),
                Err(error) => said(error),
            }
        }
        added.sort_unstable();
        assert_eq!(added, (2..50).map(TaskId).collect::<Vec<_>>());
        assert_eq!(log(&store).await.len(), 49);

        // A failure after a change does not undo the change.
        let then = |_: &mut TaskId| panic!("boom");
        let last = store
            .change_ahead(&plan(), "test", "added", add("last"), then)
            .await;
        assert_eq!(last.unwrap(), TaskId(50));
        let (seq, rows) = state(&store).await;
        assert_eq!(self::rows(&store.at(&plan(), seq).await.unwrap()), rows);
        if given.shared() {
            assert_eq!(state(&given.open().await).await, (seq, rows));
        }
    })
    .await;
}

async fn found_plans(store: &Store) -> Vec<String> {
    let listed = store.plans().await.unwrap();
    listed.iter().map(|plan| plan.head.id.to_string()).collect()
}

#[tokio::test]
async fn damaged_row_error_names_plan() {
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        make(&store, "bbbbbbbb").await;
        // So large that the rows are written immediately.
        let large = |draft: &mut Draft<'_>| draft.add_tasks(vec![task("one more"); 300], None);
        changes(&store, large).await;
        drop(store);
        let names = |error: StoreError| {
            let text = error.to_string();
            let named = matches!(&error, StoreError::Damaged { plan: id, .. } if *id == plan());
            assert!(named && text.contains("`aaaaaaaa`"), "{text}");
        };
        let damage =
            "UPDATE plan_rows SET body = '{\"Task\"' WHERE plan = 'aaaaaaaa' AND kind = 'task'";
        given.sql(damage).await;
        let store = given.open().await;
        names(store.read(&plan(), |_, _| ()).await.unwrap_err());
        names(
            store
                .change(&plan(), "test", "x", add("x"))
                .await
                .unwrap_err(),
        );
        let sql = "UPDATE log SET delta = 'x' WHERE plan = 'aaaaaaaa'";
        given.sql(sql).await;
        names(store.since(&plan(), 0, 10).await.unwrap_err());
        names(store.at(&plan(), 1).await.unwrap_err());
        // The other plan is not affected.
        let other = PlanId::new("bbbbbbbb");
        store
            .change(&other, "test", "added", add("x"))
            .await
            .unwrap();
        assert_eq!(store.plans().await.unwrap().len(), 2);
        let sql = "UPDATE plan_rows SET body = '1' WHERE plan = 'aaaaaaaa' AND kind = 'head'";
        given.sql(sql).await;
        names(store.plans().await.unwrap_err());
        let sql = "DELETE FROM plan_rows WHERE plan = 'aaaaaaaa'";
        given.sql(sql).await;
        names(
            given
                .open()
                .await
                .read(&plan(), |_, _| ())
                .await
                .unwrap_err(),
        );
    })
    .await;
}

#[tokio::test]
async fn unknown_format_is_refused_and_untouched() {
    let formats = [
        (99, "a newer version (format 99"),
        (3, "before any release (format 3)"),
    ];
    on_every_shared_store(async |given| {
        let store = given.open().await;
        make(&store, "aaaaaaaa").await;
        drop(store);
        for (format, part) in formats {
            let sql = format!("UPDATE meta SET value = {format} WHERE name = 'format'");
            given.sql(&sql).await;
            has(given.try_open().await.unwrap_err().to_string(), part);
        }
    })
    .await;
    for (journal, (format, _)) in [
        ("WAL", formats[0]),
        ("DELETE", formats[0]),
        ("WAL", formats[1]),
    ] {
        let given = Given::new(Kinds::File);
        let newer = format!(
            "PRAGMA journal_mode={journal}; CREATE TABLE meta (name TEXT PRIMARY KEY, value BIGINT); \
             INSERT INTO meta VALUES ('format', {format})"
        );
        run_sql(&given.place(), &newer).await;
        let before = fs::read(given.file()).unwrap();
        for _ in 0..2 {
            let part = "plan-agent.db";
            has(given.try_open().await.unwrap_err().to_string(), part);
            assert!(fs::read(given.file()).unwrap() == before, "{journal}");
        }
    }
}

#[tokio::test]
async fn non_database_file_is_refused_and_untouched() {
    let given = Given::new(Kinds::File);
    for text in ["x".to_owned(), "a letter to a friend\n".repeat(100)] {
        fs::write(given.file(), text).unwrap();
        let before = fs::read(given.file()).unwrap();
        let refusal = given.try_open().await.unwrap_err();
        assert!(is_unknown(&refusal), "{refusal}");
        has(refusal.to_string(), ["plan-agent.db", "not a database"]);
        assert!(fs::read(given.file()).unwrap() == before);
    }
    let nowhere = given.folder.path().join("no/such/folder/plans.db");
    has(
        Store::open(&nowhere, now).await.unwrap_err().to_string(),
        "no/such/folder",
    );
}

#[tokio::test]
async fn database_of_another_program_is_refused_and_untouched() {
    for sql in [
        "CREATE TABLE letters (id INTEGER, text TEXT); INSERT INTO letters VALUES (1, 'Dear')",
        "CREATE TABLE meta (key TEXT, text TEXT)",
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value BIGINT); INSERT INTO meta VALUES ('pages', 3)",
    ] {
        let given = Given::new(Kinds::File);
        run_sql(&given.place(), sql).await;
        let before = fs::read(given.file()).unwrap();
        let refusal = given.try_open().await.unwrap_err();
        assert!(is_unknown(&refusal), "{refusal}");
        has(refusal.to_string(), "of another program");
        assert!(fs::read(given.file()).unwrap() == before, "{sql}");
    }
}

#[tokio::test]
async fn removed_file_fails_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = Store::open(&path, now).await.unwrap();
    make(&store, "aaaaaaaa").await;
    let plan = PlanId::new("aaaaaaaa");
    let name = |name: &'static str| {
        let change = move |draft: &mut Draft<'_>| {
            draft.change_head(|head| head.name = name.to_owned());
            Ok::<_, Refusal>(())
        };
        store.change(&plan, "test", "named", change)
    };
    name("before").await.unwrap();
    let aside = folder.path().join("aside.db");
    fs::rename(&path, &aside).unwrap();
    let refusal = name("removed").await.unwrap_err().to_string();
    has(&refusal, "plans.db` was removed");
    let read = || store.read(&plan, |plan, _| plan.head().name.clone());
    assert_eq!(read().await.unwrap(), "before");
    fs::write(&path, "").unwrap();
    let part = "replaced while";
    has(name("replaced").await.unwrap_err().to_string(), part);
    has(read().await.unwrap_err().to_string(), part);

    fs::rename(&aside, &path).unwrap();
    name("after").await.unwrap();
    assert_eq!(read().await.unwrap(), "after");
}

#[tokio::test]
async fn database_file_mode_is_owner_only() {
    for name in [
        "plans.db",
        "with space.db",
        "100%.db",
        "what?mode=memory.db",
        "a#b.db",
        "ä€.db",
        "%41.db",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let store = Store::open(&path, now).await.unwrap();
        make(&store, "aaaaaaaa").await;
        let names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names.len(), 4, "{names:?}");
        for found in names {
            assert!(found.starts_with(name), "{found}");
            let mode = fs::metadata(folder.path().join(&found))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{found}");
        }
    }
}

/// Returns whether a file could not be opened and a way out is known.
fn is_unknown(refusal: &StoreError) -> bool {
    matches!(
        refusal,
        StoreError::Open {
            way_out: Some(_),
            ..
        }
    )
}
