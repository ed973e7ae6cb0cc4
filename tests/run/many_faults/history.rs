//! What must be true of a plan whatever failed: who made each change under which lease is noted by the database itself.

use std::collections::{BTreeMap, BTreeSet};

use postgres::types::ToSql;
use postgres::{Client, NoTls, Row};
use serde_json::Value;

use crate::common::postgres::run_sql;

/// Notes each change within its transaction: the plan is locked then. Programs name themselves in their addresses.
const NOTES: &str = "
    CREATE TABLE history (place BIGSERIAL, plan TEXT, seq BIGINT, author TEXT, program TEXT, holder TEXT, epoch BIGINT);
    CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO history (plan, seq, author, program, holder, epoch)
            SELECT NEW.plan, NEW.seq, NEW.author, current_setting('application_name'), p.holder, p.epoch
            FROM plans AS p WHERE p.id = NEW.plan;
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_change AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION note_change();";

/// Has each change noted from now on, in a database with tables.
pub fn keep(url: &str) {
    run_sql(url, NOTES);
}

/// Returns the rows of a query.
pub fn rows(url: &str, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
    let mut client = Client::connect(url, NoTls).unwrap();
    client.query(query, values).unwrap()
}

/// Checks the changes of a plan, and returns the programs that held it, one after the other.
pub fn check(url: &str, plan: &str) -> Vec<String> {
    let logged = rows(
        url,
        "SELECT seq FROM log WHERE plan = $1 ORDER BY seq",
        &[&plan],
    );
    let logged: Vec<i64> = logged.iter().map(|row| row.get(0)).collect();
    let last = rows(url, "SELECT seq FROM plans WHERE id = $1", &[&plan])[0].get(0);
    assert_eq!(logged, (1..=last).collect::<Vec<i64>>(), "no hole");
    let noted =
        "SELECT seq, author, program, holder, epoch FROM history WHERE plan = $1 ORDER BY place";
    let (mut seqs, mut epochs) = (Vec::new(), vec![(0, String::new())]);
    let (mut programs, mut held) = (BTreeMap::new(), Vec::new());
    for row in rows(url, noted, &[&plan]) {
        let [author, program, holder]: [String; 3] = [1, 2, 3].map(|at| row.get(at));
        let (seq, epoch): (i64, i64) = (row.get(0), row.get(4));
        seqs.push(seq);
        let (before, of) = epochs.last().unwrap().clone();
        assert!(epoch >= before, "change {seq} is of an epoch that was over");
        match epoch == before {
            true => assert_eq!(holder, of, "change {seq}: two holders of one epoch"),
            false => epochs.push((epoch, holder.clone())),
        }
        if author == "daemon" {
            // One program each: nobody else writes what only the holder may.
            let known = programs.entry(holder).or_insert_with(|| program.clone());
            assert_eq!(*known, program, "change {seq} is of no holder");
            if held.last() != Some(&program) {
                held.push(program);
            }
        }
    }
    assert_eq!(seqs, logged, "each change was made after the one before");
    let distinct: BTreeSet<&String> = programs.values().collect();
    assert_eq!(distinct.len(), programs.len(), "{programs:?}");
    held
}

/// Checks the events of a plan: a command is judged once, its report counts once, a task is completed once.
pub fn check_events(events: &[Value]) {
    for (name, of) in [
        ("reported", "command"),
        ("judged", "command"),
        ("completed", "task"),
    ] {
        let mut seen = BTreeSet::new();
        for event in events.iter().filter(|event| event["event"] == name) {
            let what = event[of].to_string();
            assert_ne!(what, "null", "{event}");
            assert!(seen.insert(what), "twice {name}: {event}");
        }
        assert!(!seen.is_empty(), "nothing is {name}");
    }
}
