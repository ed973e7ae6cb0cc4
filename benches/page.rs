//! From a report that is renamed into place to the page that shows it, in a real browser, beside a daemon of another process; and
//! what the browser itself computes for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::latency::{Daemon, Running, WORK, program};
use crate::size::number;
use crate::table::{Times, against, ms, print, ratio};
use crate::{row, sample};

/// Reports for each plan.
const REPORTS: u32 = 120;

/// Defines in the page what says when a task is shown as done, in its row and in the count above; and a floor: when the answer to
/// a request for nothing is shown.
const NOTES: &str = "
    const now = () => performance.timeOrigin + performance.now();
    const shown = (seen, done) => {
        const look = () => seen(now()) && (observer.disconnect(), done());
        const observer = new MutationObserver(look);
        observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
        look();
    };
    window.taskDone = (number, done) => {
        let [row, head] = [null, null];
        const state = () => document.querySelector(`.tasks a[href$=\"/t/${number}\"]`).closest('tr').querySelector('.state');
        const counts = () => [...document.querySelectorAll('.facts span')];
        shown((at) => {
            if (state().matches('.good, .unsure')) row ??= at;
            if (counts().some((each) => each.textContent.startsWith(`${number} of `))) head ??= at;
            return row && head;
        }, () => done([row, head]));
    };
    window.nothing = async (done) => {
        const place = document.body.appendChild(document.createElement('p'));
        const began = now();
        shown((at) => place.textContent && (place.remove(), done(at - began)), () => {});
        const headers = { authorization: `Bearer ${sessionStorage.getItem('plan-agent-token')}` };
        place.textContent = await (await fetch('/api/v1/nothing', { headers })).text();
    };";

pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match Browser::launch().await {
            Ok(browser) => measure(&browser).await,
            Err(why) => print("page", &[row![format!("skipped: {why}")]]),
        }
    });
}

async fn measure(browser: &Browser) {
    let mut rows = vec![row!["", "p50", "p99", "p50 / floor"]];
    for tasks in [REPORTS as usize + 1, 1_000] {
        let [floor, row, count, computed] = watch(browser, tasks).await.map(Times::new);
        let beside = |times: &Times| format!("{:.1}", ratio(times.p50(), floor.p50()));
        let aims = |times: &Times, p50: f64, p99: f64| {
            [(times.p50(), p50), (times.p99(), p99)]
                .map(|(time, most)| format!("{} ms", against(time.as_secs_f64() * 1e3, most)))
        };
        rows.push(row![format!("{tasks} tasks, all in the list")]);
        rows.push(row![
            "  floor: the page asks for nothing and shows the answer",
            ms(floor.p50()),
            ms(floor.p99()),
            "1.0"
        ]);
        for (name, times) in [("in its row", row), ("in the count of all", count)] {
            let [p50, p99] = aims(&times, 50.0, 150.0);
            rows.push(row![
                format!("  report renamed into place → done {name}"),
                p50,
                p99,
                beside(&times)
            ]);
        }
        let [p50, p99] = aims(&computed, 16.0, 32.0);
        rows.push(row![
            "  the page's thread, a change",
            p50,
            p99,
            beside(&computed)
        ]);
    }
    print(
        "page: in chromium, beside a daemon of another process",
        &rows,
    );
}

/// Watches a plan being carried out. Returns what the floor took, what the row and the count of all took to show each report, and
/// what the browser computed meanwhile.
async fn watch(browser: &Browser, tasks: usize) -> [Vec<Duration>; 4] {
    let mut daemon = Daemon::start(tasks);
    let served = Served::start(daemon.folder.path());
    let report = sample::report();
    browser.client.goto(&served.address).await.unwrap();
    browser.awaits(".plan a").await;
    browser
        .js("document.querySelector('.plan a').click()")
        .await;
    for shown in (100..tasks).step_by(100) {
        browser
            .until(&format!(
                "document.querySelectorAll('.tasks tbody tr').length >= {shown}"
            ))
            .await;
        browser.button("Show 100 more").await;
    }
    browser
        .until(&format!(
            "document.querySelectorAll('.tasks tbody tr').length === {tasks}"
        ))
        .await;
    browser.js(NOTES).await;
    browser.devtools("Performance.enable", json!({})).await;
    let mut times = [const { Vec::new() }; 4];
    let database = daemon.folder.path().join("volumes/plan-agent.db");
    let changes = || number(&database, "SELECT COUNT(*) FROM log");
    let before = changes();
    let mut computed = computing(browser).await;
    for number in 1..=REPORTS {
        let [made, place] = daemon.take(&report, "");
        let shown = browser
            .client
            .execute_async("taskDone(...arguments)", vec![json!(number)]);
        let reported = async {
            tokio::time::sleep(WORK).await;
            let begun = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap();
            fs::rename(made, place).unwrap();
            begun
        };
        let (shown, begun) = tokio::join!(shown, reported);
        let shown = shown.unwrap();
        daemon.next_command();
        let floor = nothing(browser).await;
        let took = |time: &Value| milliseconds(time).saturating_sub(begun);
        times[0].push(milliseconds(&floor));
        times[1].push(took(&shown[0]));
        times[2].push(took(&shown[1]));
        // What follows what was shown, as layout and paint, has been done by the end of the floor. What that costs itself is seen
        // when it is asked for again.
        let now = computing(browser).await;
        nothing(browser).await;
        let after = computing(browser).await;
        times[3].push((now - computed).saturating_sub(after - now));
        computed = after;
    }
    // Each report goes with several changes.
    let changes = u32::try_from(changes() - before).unwrap();
    let a_change = |time: &Duration| *time * REPORTS / changes;
    times[3] = times[3].iter().map(a_change).collect();
    times
}

/// Has the page ask for nothing and show the answer, and returns what that takes.
async fn nothing(browser: &Browser) -> Value {
    let script = "nothing(...arguments)";
    browser
        .client
        .execute_async(script, Vec::new())
        .await
        .unwrap()
}

/// Returns what the thread of the page has used of the processor so far, as the browser itself counts it: scripts, styles, layout
/// and all else.
async fn computing(browser: &Browser) -> Duration {
    let found = browser.devtools("Performance.getMetrics", json!({})).await;
    let mut metrics = found["metrics"].as_array().unwrap().iter();
    let thread = metrics
        .find(|metric| metric["name"] == "ThreadTime")
        .unwrap();
    Duration::from_secs_f64(thread["value"].as_f64().unwrap())
}

fn milliseconds(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap() / 1e3)
}

/// The program while it serves the page.
pub struct Served {
    _running: Running,
    /// With the token.
    pub address: String,
}

impl Served {
    pub fn start(folder: &Path) -> Self {
        let mut child = program(folder, &["web", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        Self {
            _running: Running(child),
            address,
        }
    }
}
