//! The list of many plans, as the page asks for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use plan_agent::plan::{Draft, PlanId, TaskChanges, TaskId};
use plan_agent::store::Store;

use crate::page::Served;
use crate::table::{Times, against, ms, print, ratio};
use crate::{disk, row, sample};

const PLANS: usize = 100;
const TASKS: usize = 1_000;

const ASKED: usize = 300;

pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = disk::folder();
    std::fs::create_dir(folder.path().join("volumes")).unwrap();
    let database = folder.path().join("volumes/plan-agent.db");
    let store = runtime.block_on(sample::store(&database, PLANS, TASKS));
    let served = Served::start(folder.path());
    let mut client = Client::of(&served);
    let (mut floor, mut still, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..ASKED {
        floor.push(client.get("nothing", 404));
        still.push(client.get("plans", 200));
        // By this process, which is another one than the server's.
        let plan = sample::plan(number % PLANS);
        runtime.block_on(change(&store, plan, number));
        moved.push(client.get("plans", 200));
    }
    let floor = Times::new(floor);
    let mut rows = vec![row!["", "p50", "p99", "p50 / floor"]];
    rows.push(row![
        "floor: a request for nothing, with the token",
        ms(floor.p50()),
        ms(floor.p99()),
        "1.0"
    ]);
    for (name, times) in [
        ("the list", still),
        ("… after a change by another process", moved),
    ] {
        let times = Times::new(times);
        let aim = |time: Duration| format!("{} ms", against(time.as_secs_f64() * 1e3, 20.0));
        let beside = format!("{:.1}", ratio(times.p50(), floor.p50()));
        rows.push(row![name, aim(times.p50()), aim(times.p99()), beside]);
    }
    print("plans: GET /api/v1/plans, 100 plans of 1,000 tasks", &rows);
}

async fn change(store: &Store, plan: PlanId, number: usize) {
    let changes = TaskChanges {
        description: Some(format!(
            "Count the words of a file, for the {number}th time."
        )),
        ..TaskChanges::default()
    };
    let change = move |draft: &mut Draft<'_>| draft.update_task(TaskId(1), &changes);
    store
        .change(&plan, sample::BY, "updated", change)
        .await
        .unwrap();
}

/// A connection to the server that is kept.
struct Client {
    stream: BufReader<TcpStream>,
    /// What each request says beside its path.
    head: String,
}

impl Client {
    fn of(served: &Served) -> Self {
        let (address, token) = served.address.trim().split_once("/#token=").unwrap();
        let address = address.trim_start_matches("http://");
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
            head: format!("HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"),
        }
    }

    /// Asks once, and returns how long the whole answer took to come.
    fn get(&mut self, path: &str, status: u16) -> Duration {
        let begun = Instant::now();
        let request = format!("GET /api/v1/{path} {}", self.head);
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begins = head.len();
            self.stream.read_line(&mut head).unwrap();
            let line = head[begins..].to_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        self.stream.read_exact(&mut vec![0; length]).unwrap();
        let took = begun.elapsed();
        assert!(head.contains(&format!(" {status} ")), "{head}");
        took
    }
}
