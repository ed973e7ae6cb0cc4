//! A real browser: chromium, steered by the WebDriver protocol. The benches use it, too.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::http::Method;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use url::{ParseError, Url};

/// Longer than anything here takes on a busy machine, and shorter than the patience of a person who waits for tests.
const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// A browser; it ends when dropped, with all that it started.
pub struct Browser {
    pub client: Client,
    driver: Child,
    /// What a browser that is killed leaves behind.
    _files: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        kill_group(&self.driver);
        drop(self.driver.wait());
    }
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Errors
    /// There is none here; this says which part of it.
    pub async fn launch() -> Result<Self, String> {
        let files = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (mut driver, port) = (0..5)
            .find_map(|_| start_driver(files.path()).transpose())
            .ok_or("chromedriver does not start")??;
        let address = format!("http://127.0.0.1:{port}");
        let flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
                     --disable-component-update --disable-sync --disable-dev-shm-usage --force-color-profile=srgb";
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let wanted =
            json!({ "goog:chromeOptions": { "args": flags }, "unhandledPromptBehavior": "ignore" });
        let Value::Object(wanted) = wanted else {
            unreachable!("it is an object");
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(wanted)
            .connect(&address)
            .await;
        match client {
            Ok(client) => Ok(Self {
                client,
                driver,
                _files: files,
            }),
            Err(error) => {
                kill_group(&driver);
                drop(driver.wait());
                Err(format!("no chromium: {error}"))
            }
        }
    }

    /// Runs a script in the page, and returns what it returns.
    pub async fn js(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Goes to an address below `#/` without loading the page again.
    pub async fn go(&self, to: &str) {
        let script = "location.hash = arguments[0]";
        let to = vec![json!(format!("#/{to}"))];
        self.client.execute(script, to).await.unwrap();
    }

    /// Waits until an expression of the page is true.
    pub async fn until(&self, what: &str) {
        let began = Instant::now();
        while self.js(&format!("return !!({what})")).await != json!(true) {
            if began.elapsed() > DEADLINE {
                panic!("never: {what}: {}", self.text().await);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until an element is there.
    pub async fn awaits(&self, selector: &str) {
        self.until(&format!("document.querySelector({selector:?})"))
            .await;
    }

    /// Waits until the page shows a text.
    pub async fn shows(&self, text: &str) {
        self.until(&format!("document.body.innerText.includes({text:?})"))
            .await;
    }

    async fn text(&self) -> String {
        self.js("return document.body.innerText").await.to_string()
    }

    /// Presses the button with a text.
    pub async fn button(&self, text: &str) {
        let find = format!(
            "[...document.querySelectorAll('button')].find((each) => each.innerText.trim() === {text:?} && !each.disabled)"
        );
        self.until(&find).await;
        self.js(&format!("{find}.click()")).await;
    }

    /// Sends a command of Chrome itself, and returns its answer.
    pub async fn devtools(&self, name: &'static str, params: Value) -> Value {
        let command = Devtools { name, params };
        self.client.issue_cmd(command).await.unwrap()
    }
}

/// Starts the browser's driver, and returns its port; `None` if it has ended: it wants a free port twice, once for each version of
/// IP, and another program may have taken it in between.
fn start_driver(files: &Path) -> Result<Option<(Child, String)>, String> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .env("TMPDIR", files)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("no chromedriver: {error}"))?;
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines.map_while(Result::ok).find_map(|line| {
        let port = line.split_once("successfully on port ")?.1.to_owned();
        Some(port.trim_end_matches('.').to_owned())
    });
    match port {
        Some(port) => Ok(Some((driver, port))),
        None => {
            drop(driver.wait());
            Ok(None)
        }
    }
}

/// A command of Chrome's own protocol, by way of its driver.
#[derive(Debug)]
struct Devtools {
    name: &'static str,
    params: Value,
}

impl fantoccini::wd::WebDriverCompatibleCommand for Devtools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!(
            "session/{}/goog/cdp/execute",
            session.unwrap_or_default()
        ))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = json!({"cmd": self.name, "params": self.params});
        (Method::POST, Some(body.to_string()))
    }
}

/// Ends the driver with its browser; if they have ended, that is as well.
fn kill_group(driver: &Child) {
    kill_process_group(Pid::from_child(driver), Signal::KILL).ok();
}
