//! Tool servers that are killed while clients change one plan through them: acknowledged changes are kept, and no change is
//! made twice.

use std::collections::BTreeSet;
use std::thread;

use crate::common::env::{TestEnv, times};
use crate::common::mcp::Mcp;
use crate::crash::stage::Chance;
use crate::tools::crowd::{PLAN, add, begin, look};

/// The most changes that are in progress when a server is killed.
const ASKED: u64 = 12;

/// The requests of a client, and which of them were acknowledged.
#[derive(Default)]
struct Told {
    asked: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
}

/// Kills a server again and again, after some of the answers.
fn disturb(env: &TestEnv, dialect: &str, chances: &[(u64, u64)]) -> Told {
    let mut told = Told::default();
    for (life, (answers, pause)) in chances.iter().enumerate() {
        let mut mcp = Mcp::start(env, ["--dialect", dialect, "--plan", PLAN]);
        let mut under_way = Vec::new();
        for number in 0..ASKED {
            let name = format!("{dialect}-{life}-{number}");
            let (tool, arguments) = add(dialect, &name);
            told.asked.insert(name.clone());
            let call = serde_json::json!({"name": tool, "arguments": arguments});
            under_way.push((mcp.request("tools/call", call).expect("it reads"), name));
        }
        for _ in 0..*answers {
            let answer = mcp.message().expect("it answers");
            acknowledge(&answer, &under_way, &mut told);
        }
        thread::sleep(std::time::Duration::from_micros(*pause));
        mcp.running.child.kill().unwrap();
        // Answers that it had written by then count.
        while let Some(answer) = mcp.message() {
            acknowledge(&answer, &under_way, &mut told);
        }
    }
    told
}

fn acknowledge(answer: &serde_json::Value, under_way: &[(u64, String)], told: &mut Told) {
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    let (_, name) = under_way
        .iter()
        .find(|(id, _)| answer["id"] == *id)
        .expect("it was asked");
    told.acknowledged.insert(name.clone());
}

#[tokio::test]
async fn acknowledged_calls_of_killed_server_persist_once() {
    let env = &TestEnv::new();
    begin(env);
    let mut chance = Chance::new("PLAN_AGENT_CRASH_SEED");
    let servers = ["tasks", "plan-manager", "notebook"].map(|dialect| {
        let chances: Vec<_> = (0..times(6, 60))
            .map(|_| (chance.below(ASKED), chance.below(3_000)))
            .collect();
        (dialect, chances)
    });
    let told: Vec<Told> = thread::scope(|scope| {
        let running = servers
            .each_ref()
            .map(|(dialect, chances)| scope.spawn(move || disturb(env, dialect, chances)));
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (_, kept) = look(env).await;
    for told in &told {
        // Some kill came in time.
        assert!(told.acknowledged.len() < told.asked.len());
        let lost: Vec<_> = told
            .acknowledged
            .iter()
            .filter(|name| !kept.contains_key(*name))
            .collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    }
    let known =
        |name: &String| name == "first" || told.iter().any(|told| told.asked.contains(name));
    assert!(
        kept.iter().all(|(name, times)| *times == 1 && known(name)),
        "{kept:?}"
    );
}
