//! A server that answers, and cannot do what it is asked: it is read-only, its disk is full, or it is another one.

use super::*;
use crate::common::disk::SmallDisk;
use crate::common::postgres::owner;

/// Waits until each of some processes has said something.
fn say<'a>(posts: impl IntoIterator<Item = &'a mut Post>, what: &str) {
    for post in posts {
        wait_until(&format!("somebody says `{what}`"), || {
            post.keep();
            post.said().contains(what)
        });
    }
}

/// As after a fail-over to a server that is a standby still.
#[test]
fn server_that_takes_no_changes_makes_everybody_wait() {
    let Some(cluster) = own_cluster(&[], "UTF8", &[]) else {
        return;
    };
    let Some(mut field) = Field::on(cluster.schema(), 1, 2) else {
        return;
    };
    let whole = cluster.url("postgres", "");
    let mut work = Work::begin(&mut field, 6);
    for round in 0..times(1, 10) {
        work.goes_on(&mut field);
        run_sql(
            &whole,
            "ALTER SYSTEM SET default_transaction_read_only = on",
        );
        run_sql(&whole, "SELECT pg_reload_conf()");
        if round == 0 {
            say(field.posts(), "read-only");
        }
        run_sql(&whole, "ALTER SYSTEM RESET default_transaction_read_only");
        run_sql(&whole, "SELECT pg_reload_conf()");
    }
    work.end(&mut field);
}

/// Its own log of changes, which it needs itself, is on another disk.
#[test]
fn server_whose_disk_is_full_makes_everybody_wait() {
    let Some(cluster) = own_cluster(&[], "UTF8", &[]) else {
        return;
    };
    let owner = owner().unwrap().unwrap_or_default();
    let options = format!("size=4m,uid={},gid={},mode=700", owner.0, owner.1);
    let Some(disk) = SmallDisk::mount(&options) else {
        return;
    };
    let Some(mut field) = Field::on(cluster.schema(), 1, 2) else {
        return;
    };
    let place = disk.path().display();
    let make = format!("CREATE TABLESPACE small LOCATION '{place}'");
    run_sql(&field.url, &make);
    for table in ["log", "plan_rows", "texts"] {
        run_sql(
            &field.url,
            &format!("ALTER TABLE {table} SET TABLESPACE small"),
        );
    }
    let mut work = Work::begin(&mut field, times(12, 24));
    for _ in 0..times(1, 5) {
        work.goes_on(&mut field);
        disk.fill();
        let said = field.daemons[0].said().len();
        wait_until("the daemon says so", || {
            field.keep();
            field.daemons[0].said()[said..].contains("could not extend file")
        });
        disk.make_room();
    }
    work.end(&mut field);
}

#[test]
fn idle_daemon_says_each_trouble_with_its_server_once() {
    let Some(mut cluster) = own_cluster(&[], "UTF8", &[]) else {
        return;
    };
    let Some(mut field) = Field::on(cluster.schema(), 1, 0) else {
        return;
    };
    field.keep();
    let daemon = &field.daemons[0];
    let log = daemon.machine.scene.path("logs/daemon.log");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    let failed = || read().matches("queue of plans").count();
    wait_until("it waits for plans", || {
        daemon.said().contains("carrying out")
    });
    for _ in 0..2 {
        let (said, before) = (daemon.said().len(), failed());
        cluster.stop();
        wait_until("it tries again and again", || failed() > before + 10);
        let said = daemon.said()[said..].to_owned();
        let mut troubles: Vec<&str> = said.lines().filter(|it| it.contains("queue")).collect();
        assert!(!troubles.is_empty(), "{said}");
        troubles.sort_unstable();
        assert!(troubles.windows(2).all(|two| two[0] != two[1]), "{said}");
        cluster.start();
        let plan = field.queue(1);
        wait_until("it is there again", || field.is_seen(&plan));
    }
}

/// Returns how often a process found another database: a daemon tells a person once, and its log each time.
fn refusals(post: &Post) -> usize {
    let log = post.machine.scene.path("logs/daemon.log");
    let log = fs::read_to_string(log).unwrap_or_default();
    (post.said() + &log)
        .matches("another database answers")
        .count()
}

/// Returns whether a relay has its database again: the same trouble is told once more only after that.
fn is_back(relay: &Post) -> bool {
    let said = relay.said();
    let last = said.lines().rfind(|line| line.ends_with("again"));
    last.is_none_or(|line| line.ends_with("answers again"))
}

/// As where a name leads to another server for a while, which has tables and no such plan: nobody takes it for the own one, so
/// no report and no plan counts as unknown.
#[test]
fn another_server_at_the_same_address_gets_nothing() {
    let clusters = [(); 2].map(|()| own_cluster(&[], "UTF8", &[]));
    let [Some(cluster), Some(other)] = clusters else {
        return;
    };
    let Some(mut field) = Field::on(cluster.schema(), 1, 2) else {
        return;
    };
    let port = |cluster: &crate::common::postgres::Cluster| cluster.port();
    let [own, foreign] = [&cluster, &other].map(port);
    let url = (field.url).replace(&format!(":{own}/"), &format!(":{foreign}/"));
    let schema = url.rsplit_once("%3D").unwrap().1;
    run_sql(
        &other.url("postgres", ""),
        &format!("CREATE SCHEMA {schema}"),
    );
    field.person.env.set("PLAN_AGENT_STORE_URL", &url);
    field.person.works("store migrate");
    field.person.env.set("PLAN_AGENT_STORE_URL", &field.url);
    let mut work = Work::begin(&mut field, 6);
    for post in field.posts() {
        let note = post.machine.scene.path("plan-agent.server");
        wait_until("it knows its database", || note.exists());
    }
    for _ in 0..times(1, 10) {
        work.goes_on(&mut field);
        let before: Vec<usize> = field.posts().map(|post| refusals(post)).collect();
        field.posts().for_each(|post| post.proxy.lead_to(foreign));
        for (post, before) in field.posts().zip(before) {
            wait_until("it finds another database", || {
                post.keep();
                refusals(post) > before
            });
        }
        field.posts().for_each(|post| post.proxy.lead_to(own));
        work.until(&mut field, "the relays are back", |field| {
            field.relays.iter().all(is_back)
        });
    }
    work.end(&mut field);
    let all = ["plans", "log", "relayed", "relays"];
    let all = all.map(|table| format!("(SELECT count(*) FROM {table})"));
    let all = format!("SELECT {}", all.join(" + "));
    assert_eq!(history::rows(&url, &all, &[])[0].get::<_, i64>(0), 0);
}
