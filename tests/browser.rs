//! The page in a real browser, as a person uses it: chromium, steered by the WebDriver protocol. Without a browser each test is
//! skipped with the reason; with `CI_STRICT=1` that fails.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fantoccini::key::Key;
use serde_json::{Value, json};

use crate::common::browser::Browser;
use crate::common::env::{Running, TestEnv, first_line, has, row, skip, wait_until};
use crate::common::git::Project;

/// A plan whose second task fails until it is asked about.
const PLAN: &str = "\
---
name: Word counter
goal: A word counter with a page
---

## Write the counter

- produces: wc.py
- expected: wc.py counts words. (file: wc.py, contains: def)

```sh
printf 'def count(text):\\n    return len(text.split())\\n' > wc.py; echo counting
```

## Serve it

- after: 1

```sh
echo 'port 8080 is taken' >&2; exit 1
```

## Describe both

- after: 2

```sh
echo words > README.md
```
";

/// A plan that is at work until the file `go` is there.
const AT_WORK: &str = "\
---
name: Handbook in French
goal: Translate the handbook into French, with its pictures
---

## Translate the chapters

```sh
echo 'chapter 3 of 12: the garden'; until test -e go; do sleep 0.05; done
```

## Check the links

- after: 1

```sh
echo sound
```
";

/// Text that would do something where text is taken for more than text.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)> ${alert(3)} {{4}} <b>\u{202e}bold\u{200b}</b>";

/// The page's server with its address; killed when dropped.
struct Page {
    running: Running,
    address: String,
}

impl Browser {
    /// Starts a browser; `None` where there is none.
    async fn start() -> Option<Self> {
        match Self::launch().await {
            Ok(browser) => Some(browser),
            Err(why) => {
                missing(&why);
                None
            }
        }
    }

    /// Opens the page at an address below `#/`, as a person who has the token.
    async fn open(&self, page: &Page) {
        self.client.goto(&page.address).await.unwrap();
        self.awaits("h1").await;
    }

    /// Presses keys where the focus is.
    async fn press(&self, keys: &str) {
        let focused = self.client.active_element().await.unwrap();
        focused.send_keys(keys).await.unwrap();
    }

    /// Sets the width of the window, and light or dark.
    async fn size(&self, width: u32, scheme: &str) {
        self.client.set_window_size(width, 900).await.unwrap();
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}),
        )
        .await;
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", scheme).await;
    }

    async fn screenshot(&self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
        fs::create_dir_all(&folder).unwrap();
        let picture = self.client.screenshot().await.unwrap();
        fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }
}

impl Page {
    fn open(env: &TestEnv, args: &str) -> Self {
        let args = format!("web {args}");
        let mut running = env.spawn(args.as_str(), Stdio::piped(), Stdio::null());
        let line = first_line(running.child.stdout.take().unwrap());
        Self {
            running,
            address: line.trim().to_owned(),
        }
    }

    /// Returns the address without the token.
    fn bare(&self) -> &str {
        self.address.split('#').next().unwrap()
    }

    fn port(&self) -> &str {
        self.bare()
            .trim_end_matches('/')
            .rsplit(':')
            .next()
            .unwrap()
    }

    /// Ends the server without a warning.
    fn kill(mut self) {
        self.running.child.kill().unwrap();
        self.running.wait();
    }
}

/// A way to the page that can be cut, as a network can.
#[derive(Default)]
struct Wire {
    /// The connections that are open; `None` while it is cut.
    open: Mutex<Option<Vec<TcpStream>>>,
    /// How many were refused.
    refused: AtomicUsize,
}

impl Wire {
    /// Leads from a port, which is returned, to another one.
    fn to(target: u16) -> (Arc<Self>, u16) {
        let wire = Arc::new(Self::default());
        wire.mend();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let of_thread = Arc::clone(&wire);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                of_thread.lead(near, target);
            }
        });
        (wire, port)
    }

    fn lead(&self, near: TcpStream, target: u16) {
        let mut open = self.open.lock().unwrap();
        let (Some(open), Ok(far)) = (open.as_mut(), TcpStream::connect(("127.0.0.1", target)))
        else {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return;
        };
        let copy = |from: &TcpStream, to: &TcpStream| {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || {
                drop(io::copy(&mut from, &mut to));
                to.shutdown(Shutdown::Write).ok();
            });
        };
        copy(&near, &far);
        copy(&far, &near);
        open.extend([near, far]);
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().take().into_iter().flatten() {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    fn mend(&self) {
        *self.open.lock().unwrap() = Some(Vec::new());
    }
}

/// Returns a port that was free just now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Says that nothing is tested here; fails where everything has to be.
#[track_caller]
fn missing(why: &str) {
    assert!(std::env::var("CI_STRICT").is_err(), "{why}");
    skip(why);
}

/// Carries a plan out as far as it goes without a person.
fn carried_out(plan: &str) -> TestEnv {
    let mut env = TestEnv::new();
    env.set("PLAN_AGENT_LLM_PROVIDER", "none");
    env.write("plan.md", plan);
    env.exits(4, "run --plan plan.md --agent shell --no-input");
    env
}

fn plan_id(env: &TestEnv) -> String {
    let plans: Value = serde_json::from_str(&env.run("plans --json").stdout).unwrap();
    plans[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn token_leaves_address_and_stays_in_tab() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.shows("Word counter").await;
    let address = browser.client.current_url().await.unwrap();
    assert_eq!(address.as_str(), format!("{}#/", page.bare()));
    browser.client.refresh().await.unwrap();
    browser.shows("Word counter").await;
    // Another tab has nothing of it: no cookie, no storage that is shared.
    let other = browser.client.new_window(true).await.unwrap();
    browser.client.switch_to_window(other.handle).await.unwrap();
    browser.client.goto(page.bare()).await.unwrap();
    browser.shows("This tab has no key yet").await;
    assert_eq!(browser.js("return document.cookie").await, json!(""));
    // What is typed there counts as the address does.
    browser.js("document.querySelector('input').focus()").await;
    browser.press(&page.address).await;
    browser.button("Open").await;
    browser.shows("Word counter").await;
    // A wrong token leads back there.
    browser
        .js("sessionStorage.setItem('plan-agent-token', 'no')")
        .await;
    browser.client.refresh().await.unwrap();
    browser.shows("does not know this tab's key").await;
}

#[tokio::test]
async fn second_tab_is_told_of_answer() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let page = Page::open(&env, "--port 0");
    let first = browser.client.window().await.unwrap();
    browser.open(&page).await;
    browser.go("questions").await;
    browser.shows("port 8080 is taken").await;
    let second = browser.client.new_window(false).await.unwrap().handle;
    browser
        .client
        .switch_to_window(second.clone())
        .await
        .unwrap();
    browser.open(&page).await;
    browser.go("questions").await;
    browser.shows("port 8080 is taken").await;
    browser
        .js("document.querySelectorAll('input[type=radio]')[1].click()")
        .await;
    browser.client.switch_to_window(first).await.unwrap();
    browser
        .js("document.querySelectorAll('input[type=radio]')[0].click()")
        .await;
    browser.button("Answer: retry").await;
    browser.shows("✓ Answered here").await;
    browser.client.switch_to_window(second).await.unwrap();
    browser.shows("✓ Answered elsewhere").await;
    browser.shows("No question is open").await;
    has(env.run("log").stdout, "retry");
}

#[tokio::test]
async fn page_is_right_after_killed_server() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let id = plan_id(&env);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.go(&format!("p/{id}")).await;
    browser.shows("1 of 3 tasks done").await;
    browser.js("window.sameDocument = true").await;
    let args = format!("--port {}", page.port());
    page.kill();
    browser.shows("○ not live").await;
    env.exits(0, "skip 2");
    let page = Page::open(&env, &args);
    browser.shows("1 ready · 1 skipped").await;
    assert_eq!(browser.js("return window.sameDocument").await, json!(true));
    // And it is live again.
    env.exits(0, "skip 3");
    browser.shows("2 skipped").await;
    drop(page);
}

#[tokio::test]
async fn page_is_exact_after_a_cut() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let id = plan_id(&env);
    let target = free_port();
    let (wire, port) = Wire::to(target);
    let page = Page::open(
        &env,
        &format!("--port {target} --public-url http://127.0.0.1:{port}"),
    );
    browser.open(&page).await;
    browser.go(&format!("p/{id}/log")).await;
    browser.shows("1 of 3 tasks done").await;
    browser.js("window.sameDocument = true").await;
    wire.cut();
    // The page's clock goes on by more than the silence that it bears.
    let later = "const now = Date.now.bind(Date); Date.now = () => now() + 25000";
    browser.js(later).await;
    browser.shows("Not live since").await;
    env.exits(0, "skip 2");
    let refused = wire.refused.load(Ordering::SeqCst);
    wait_until("the page has tried in vain", || {
        wire.refused.load(Ordering::SeqCst) > refused + 2
    });
    browser.shows("1 of 3 tasks done").await;
    wire.mend();
    browser.shows("1 ready · 1 skipped").await;
    browser
        .until("!document.body.innerText.includes('Not live since')")
        .await;
    // Each change stands there once, without a hole, and further ones come.
    env.exits(0, "skip 3");
    browser.shows("2 skipped").await;
    // What the daemon did that says nothing is left out.
    let log = env.run("log --json").stdout;
    let numbers = log.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["seq"].as_i64().unwrap()
    });
    let all: BTreeSet<i64> = numbers.collect();
    let last = all.last().unwrap();
    browser
        .until(&format!(
            "document.querySelector('.log tbody .num').innerText == '{last}'"
        ))
        .await;
    let shown = "return [...document.querySelectorAll('.log tbody .num')].map((each) => Number(each.innerText))";
    let all: Vec<&i64> = all.iter().rev().collect();
    assert_eq!(browser.js(shown).await, json!(all));
    assert_eq!(browser.js("return window.sameDocument").await, json!(true));
}

#[tokio::test]
async fn finished_plan_says_where_its_work_is() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let mut env = TestEnv::new();
    env.set("PLAN_AGENT_LLM_PROVIDER", "none");
    env.write(
        "plan.md",
        "---\nname: Short\ngoal: Something short\n---\n\n## Say it\n\n```sh\necho said\n```\n",
    );
    env.exits(0, "run --plan plan.md --agent shell --no-input");
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.go(&format!("p/{}", plan_id(&env))).await;
    browser.shows("The work is in").await;
    browser
        .until("[...document.querySelectorAll('h2')].some((each) => each.innerText === 'Result')")
        .await;
    browser.screenshot("finished").await;
    // What has ended is not edited.
    browser.go(&format!("p/{}/review", plan_id(&env))).await;
    browser.awaits(".plan-text[readonly]").await;
    let save = "return document.querySelectorAll('main form button').length";
    assert_eq!(browser.js(save).await, json!(0));
    // A task of it may be tried again.
    browser.go(&format!("p/{}/t/1", plan_id(&env))).await;
    browser.button("Retry").await;
    browser.awaits(".act textarea").await;
    browser
        .js("document.querySelector('.act textarea').focus()")
        .await;
    browser.press("say it louder").await;
    browser
        .js("document.querySelector('.act form .main').click()")
        .await;
    browser.shows("is tried again").await;
    browser.shows("The next attempt is told").await;
    browser.shows("say it louder").await;
    browser.shows("no daemon carries the plan out").await;
}

#[tokio::test]
async fn refused_restore_takes_its_preview_away() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.go(&format!("p/{}/log", plan_id(&env))).await;
    browser.button("One back").await;
    browser.shows("as it was after change").await;
    let facts = "document.querySelector('.facts').innerText";
    browser
        .until(&format!("!{facts}.includes('goes on')"))
        .await;
    browser.js("[...document.querySelectorAll('button')].find((each) => each.innerText.startsWith('What would')).click()").await;
    browser.shows("The plan comes back paused").await;
    env.exits(0, "skip 3");
    browser.js("[...document.querySelectorAll('button')].find((each) => each.innerText.startsWith('Restore change')).click()").await;
    browser.awaits(".problem").await;
    browser
        .until("!document.body.innerText.includes('The plan comes back paused')")
        .await;
}

#[tokio::test]
async fn what_is_written_is_kept_and_shown() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let id = plan_id(&env);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.go(&format!("p/{id}/t/3")).await;
    browser.shows("Nothing has been printed").await;
    browser.button("Note").await;
    browser.awaits(".act textarea").await;
    browser
        .js("document.querySelector('.act textarea').focus()")
        .await;
    browser.press("in French").await;
    browser
        .until("document.querySelector('.act textarea').value === 'in French'")
        .await;
    // What is to happen 20 seconds later happens when the test says so.
    browser
        .js("const real = setTimeout; window.later = []; \
             window.setTimeout = (call, ms) => ms === 20000 ? later.push(call) : real(call, ms)")
        .await;
    browser
        .js("document.querySelector('.act form .main').click()")
        .await;
    browser
        .shows("our words go along with its next command")
        .await;
    browser.js("later.forEach((call) => call())").await;
    browser.until("!document.querySelector('.act .done')").await;
    browser.shows("The next attempt is told:").await;
    // An edit that is not saved is there again.
    browser.go(&format!("p/{id}/review")).await;
    browser.awaits(".plan-text").await;
    browser
        .js("document.querySelector('.plan-text').focus()")
        .await;
    browser.press("zzz").await;
    browser.shows("Not saved yet").await;
    browser.go("workers").await;
    browser.shows("No worker").await;
    browser.go(&format!("p/{id}/review")).await;
    browser
        .until("document.querySelector('.plan-text')?.value.includes('zzz')")
        .await;
    browser.button("Read it again").await;
    browser.client.accept_alert().await.unwrap();
    browser
        .until("!document.querySelector('.plan-text').value.includes('zzz')")
        .await;
}

#[tokio::test]
async fn comment_on_a_finished_diff_reaches_the_next_attempt() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let mut env = TestEnv::new();
    env.set("PLAN_AGENT_LLM_PROVIDER", "none");
    let Some(_project) = Project::new(&env) else {
        return;
    };
    env.write(
        "config.toml",
        "run.workspace = 'project'\nrun.isolation = 'worktree'\n",
    );
    env.write(
        "plan.md",
        "---\nname: Short\ngoal: A greeting\n---\n\n## Say it\n\n```sh\necho hello >> greeting.txt\n```\n",
    );
    env.exits(0, "run --plan plan.md --agent shell --no-input");
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.go(&format!("p/{}/t/1", plan_id(&env))).await;
    let line = "[aria-label=\"Comment on greeting.txt line 1\"]";
    browser.awaits(line).await;
    browser
        .js(&format!("document.querySelector('{line}').click()"))
        .await;
    browser.awaits(".comment textarea:focus").await;
    browser.press("louder").await;
    browser
        .until("document.querySelector('.comment textarea').value === 'louder'")
        .await;
    browser
        .js("document.querySelector('.comment form .main').click()")
        .await;
    browser.shows("gives your words to its agent").await;
    // Of two forms the second one takes the place of the first.
    browser.button("Note").await;
    browser.awaits(".act.open").await;
    browser.button("Retry").await;
    browser
        .until("document.querySelectorAll('.act.open').length === 1")
        .await;
    // A form that is left gives the focus back to its button.
    browser.awaits(".act textarea:focus").await;
    browser.press(&Key::Escape.to_string()).await;
    browser
        .until(
            "document.activeElement.innerText === 'Retry' && !document.querySelector('.act.open')",
        )
        .await;
    browser.button("Retry").await;
    browser.awaits(".act.open").await;
    browser
        .js("document.querySelector('.act form .main').click()")
        .await;
    browser.shows("is tried again").await;
    env.exits(0, "resume --no-input");
    // Both attempts can be seen.
    browser.awaits("select option:nth-child(3)").await;
    browser.shows("greeting.txt:1: louder").await;
    let added = "document.querySelector('.diff .new td.num')?.innerText";
    browser.until(&format!("{added} === '2'")).await;
    browser
        .js("const choice = document.querySelector('select'); choice.value = '1'; choice.dispatchEvent(new Event('change', { bubbles: true }))")
        .await;
    browser.until(&format!("{added} === '1'")).await;
    browser.screenshot("earlier-attempt").await;
}

#[tokio::test]
async fn page_of_another_version_loads_anew() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.shows("● live").await;
    // As if the server that it came from had been older.
    let older = "window.sameDocument = true; const done = arguments[0];
        import('/live.js').then((live) => { live.link.version = '0.0.1'; done() })";
    browser
        .client
        .execute_async(older, Vec::new())
        .await
        .unwrap();
    let args = format!("--port {}", page.port());
    page.kill();
    let page = Page::open(&env, &args);
    browser.until("window.sameDocument === undefined").await;
    browser.shows("Word counter").await;
    browser.shows("● live").await;
    drop(page);
}

#[tokio::test]
async fn deleted_plan_is_said_to_be_gone() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = TestEnv::new();
    let call = |name: &str, arguments: Value| {
        env.exits(0, ["tool", name, &arguments.to_string()]);
    };
    let task = json!({"task_id": "sow", "name": "Sow", "assignee": "a", "description": "Sow"});
    let steps = json!([{"step_id": "s", "name": "S", "tasks": [task]}]);
    let structure = json!({"name": "A garden", "steps": steps});
    call(
        "create_plan_from_structure",
        json!({"plan_id": "garden", "structure_data": structure}),
    );
    let id = plan_id(&env);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.shows("A garden").await;
    browser.go(&format!("p/{id}")).await;
    browser.shows("0 of 1 task done").await;
    call("delete_plan", json!({"plan_id": "garden"}));
    browser.shows("was deleted").await;
    browser.go("").await;
    browser.shows("No plan yet").await;
}

#[tokio::test]
async fn code_lets_a_phone_in() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let page = Page::open(&env, "--port 0");
    let code = env.exits(0, "web --pair").stdout;
    let code = code.split_whitespace().nth(1).unwrap();
    browser.size(360, "light").await;
    browser.client.goto(page.bare()).await.unwrap();
    browser.awaits(".login input").await;
    browser.screenshot("login-phone").await;
    for (typed, shown) in [
        ("AAAA-AAAA", "this code is not good"),
        (code, "Word counter"),
    ] {
        let field =
            "const field = document.querySelector('input'); field.value = ''; field.focus()";
        browser.js(field).await;
        browser.press(typed).await;
        browser.button("Open").await;
        browser.shows(shown).await;
    }
    let address = browser.client.current_url().await.unwrap();
    assert_eq!(address.as_str().trim_end_matches("#/"), page.bare());
    // A new tab of the phone, as a notification opens it, has the key; it goes with Log out.
    let other = browser.client.new_window(true).await.unwrap();
    browser.client.switch_to_window(other.handle).await.unwrap();
    browser.client.goto(page.bare()).await.unwrap();
    browser.shows("Word counter").await;
    browser.button("Log out").await;
    browser.client.refresh().await.unwrap();
    browser.shows("This tab has no key yet").await;
}

#[tokio::test]
async fn hostile_text_is_text_everywhere() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let hostile = HOSTILE.replace(['\u{202e}', '\u{200b}'], "");
    let plan = PLAN
        .replace("Word counter", &hostile)
        .replace("A word counter with a page", &hostile)
        .replace("Write the counter", &hostile)
        .replace("Serve it", &format!("Serve it {hostile}"))
        .replace("echo counting", &format!("echo '{HOSTILE}'"))
        .replace("port 8080 is taken", HOSTILE)
        .replace("name: ", "name: >-\n  ")
        .replace("goal: ", "goal: >-\n  ");
    let env = carried_out(&plan);
    let id = plan_id(&env);
    let page = Page::open(&env, "--port 0");
    browser.client.goto(page.bare()).await.unwrap();
    browser.awaits("input").await;
    let watch = "window.violations = [];
        document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective + event.blockedURI));
        window.alert = () => violations.push('alert');
        addEventListener('error', (event) => violations.push(String(event.message)));
        addEventListener('unhandledrejection', (event) => violations.push(String(event.reason)));";
    browser.js(watch).await;
    // The token comes without loading anew, so that every violation is seen.
    let token = page.address.split("token=").nth(1).unwrap().to_owned();
    let store = "sessionStorage.setItem('plan-agent-token', arguments[0])";
    browser
        .client
        .execute(store, vec![json!(token)])
        .await
        .unwrap();
    for part in ["", "/graph", "/timeline", "/review", "/log", "/t/1", "/t/2"] {
        row(part);
        browser.go(&format!("p/{id}{part}")).await;
        browser.until("!document.querySelector('.login')").await;
        browser.shows("onerror=alert(2)").await;
    }
    for part in ["workers", "", "questions"] {
        browser.go(part).await;
        browser.awaits("h1").await;
    }
    let mark = "const done = arguments[0]; import('/live.js').then((live) => done(live.marked('a\\u202e\\u200b\\u001b\\n')))";
    let marked = browser.client.execute_async(mark, Vec::new()).await;
    assert_eq!(marked.unwrap(), json!("a⟨U+202E⟩⟨U+200B⟩␛\n"));
    assert_eq!(browser.js("return violations").await, json!([]));
    let made = "return document.querySelectorAll('main script, main img, main b b').length";
    assert_eq!(browser.js(made).await, json!(0));
    // The policy itself holds: what is not ours does not run.
    browser.js("const s = document.createElement('img'); s.src = 'http://127.0.0.1:1/x'; document.body.append(s)").await;
    browser.until("violations.length === 1").await;
}

#[tokio::test]
async fn keyboard_alone_answers_question() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let env = carried_out(PLAN);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.until("document.querySelector('.top .badge')").await;
    // From the heading back to the pages, and on to the questions.
    let mut steps = 0;
    while browser
        .js("return document.activeElement.getAttribute('href')")
        .await
        != json!("#/questions")
    {
        steps += 1;
        assert!(steps < 30, "the questions are not reached");
        browser.press(&Key::Tab.to_string()).await;
    }
    browser.press(&Key::Enter.to_string()).await;
    browser
        .until("document.activeElement.classList.contains('question')")
        .await;
    // What ends the plan needs a second consent.
    let abort = "[...document.querySelectorAll('.choice b')].findIndex((each) => each.innerText === 'abort') + 1";
    let abort = browser.js(&format!("return {abort}")).await;
    browser.press(&abort.to_string()).await;
    browser.shows("End the plan for good").await;
    let answer = format!("{}{}", Key::Control, Key::Enter);
    browser.press(&answer).await;
    let disabled = "return document.querySelector('.question .main').disabled";
    assert_eq!(browser.js(disabled).await, json!(true));
    browser.press(&Key::Tab.to_string()).await;
    browser.press(" ").await;
    browser
        .until("!document.querySelector('.question .main').disabled")
        .await;
    browser
        .js("document.querySelector('.question').focus()")
        .await;
    browser.press("2").await;
    browser
        .until("document.activeElement.tagName === 'TEXTAREA'")
        .await;
    browser.press("not needed").await;
    browser.press(&answer).await;
    browser.shows("✓ Answered here: skip").await;
    browser.shows("No question is open").await;
    has(env.run("why 2").stdout, "answered: skip not needed");
}

/// The pages, with what is shown when each is ready.
fn pages(id: &str) -> [(&'static str, String, &'static str); 9] {
    [
        ("plans", String::new(), ".plan"),
        ("questions", "questions".to_owned(), ".question"),
        ("workers", "workers".to_owned(), "tbody tr"),
        ("plan", format!("p/{id}"), ".tasks tbody tr"),
        ("graph", format!("p/{id}/graph"), ".node"),
        ("timeline", format!("p/{id}/timeline"), ".timeline"),
        ("whole-plan", format!("p/{id}/review"), ".plan-text"),
        ("log", format!("p/{id}/log"), ".log tbody tr"),
        ("task", format!("p/{id}/t/2"), ".why"),
    ]
}

#[tokio::test]
async fn pages_are_accessible_and_fit_a_phone() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/web-tools");
    let axe: PathBuf = tools.join("node_modules/axe-core/axe.min.js");
    let axe = fs::read_to_string(axe);
    if axe.is_err() {
        missing("no axe-core: `npm install --prefix target/web-tools axe-core`");
    }
    let env = carried_out(PLAN);
    let id = plan_id(&env);
    env.write("translate.md", AT_WORK);
    let mut run = env.start("run --plan translate.md --agent shell");
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    if let Ok(axe) = &axe {
        browser.js(axe).await;
    }
    for (width, scheme) in [
        (1280, "light"),
        (1280, "dark"),
        (320, "light"),
        (320, "dark"),
    ] {
        browser.size(width, scheme).await;
        for (name, to, ready) in pages(&id) {
            row((name, width, scheme));
            browser.go(&to).await;
            browser.awaits(ready).await;
            browser
                .screenshot(&format!("{name}-{width}-{scheme}"))
                .await;
            let wide = "return document.documentElement.scrollWidth > innerWidth";
            assert_eq!(browser.js(wide).await, json!(false));
            if axe.is_ok() {
                let run = "const done = arguments[0]; axe.run().then((found) => done(found.violations.map((each) =>
                    each.id + ' ' + each.nodes.map((node) => node.html.slice(0, 200)).join(' | '))))";
                let found = browser.client.execute_async(run, Vec::new()).await.unwrap();
                assert_eq!(found, json!([]));
            }
        }
    }
    env.write("volumes/workspace/go", "");
    run.wait();
}

#[tokio::test]
async fn ten_thousand_tasks_stay_smooth() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let tasks: String = (1..=10_000)
        .map(|number| {
            // The first one fails, and all others wait for it.
            let after = if number == 1 { "" } else { "- after: 1\n\n" };
            format!("\n## Task {number}\n\n{after}```sh\nexit 1\n```\n")
        })
        .collect();
    let env = carried_out(&format!("---\nname: Many\ngoal: Many tasks\n---\n{tasks}"));
    let id = plan_id(&env);
    let page = Page::open(&env, "--port 0");
    browser.open(&page).await;
    browser.go(&format!("p/{id}")).await;
    browser.shows("0 of 10,000 tasks done").await;
    browser
        .until("document.querySelectorAll('.tasks tbody tr').length === 100")
        .await;
    browser.button("Show 100 more").await;
    browser
        .until("document.querySelectorAll('.tasks tbody tr').length === 200")
        .await;
    browser.js("const field = document.querySelector('.jump input'); field.value = 9990; field.form.requestSubmit()").await;
    // It is below the window, where nothing is drawn.
    browser
        .until("document.querySelector('.tasks').textContent.includes('Task 10000')")
        .await;
    browser
        .until("document.querySelectorAll('.tasks tbody tr').length < 20")
        .await;
    browser.go(&format!("p/{id}/graph")).await;
    browser.shows("are drawn; the list has all of them").await;
}
