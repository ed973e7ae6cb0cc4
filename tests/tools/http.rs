//! `plan-agent mcp --http`, by real HTTP on loopback.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::common::env::{DEADLINE, Running, TestEnv, begins, has, lacks, peak_memory};
use crate::common::mcp::said;

/// The program while it serves.
struct Served {
    address: String,
    token: String,
    running: Running,
}

/// The answer to a request.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Starts the program at an address and reads the address that it serves.
fn serve(env: &TestEnv, address: &str) -> Served {
    let mut running = env.spawn(["mcp", "--http", address], Stdio::null(), Stdio::piped());
    let mut said = BufReader::new(running.child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("serving at http://")
        .and_then(|rest| rest.strip_suffix("/mcp"))
        .unwrap_or_else(|| panic!("{line}"));
    Served {
        address: address.to_owned(),
        token: env.read("volumes/mcp.token").trim().to_owned(),
        running,
    }
}

impl Served {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Returns a request; the given headers replace the usual ones.
    fn request(&self, first: &str, headers: &[(&str, &str)], body: &str) -> String {
        let bearer = format!("Bearer {}", self.token);
        let length = body.len().to_string();
        let usual = [
            ("Host", self.address.as_str()),
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Length", length.as_str()),
            ("User-Agent", "baker/1.0"),
            ("Connection", "close"),
        ];
        let given = |name: &str| headers.iter().any(|(other, _)| *other == name);
        let usual = usual.iter().filter(|(name, _)| !given(name));
        let lines = usual
            .chain(headers.iter().filter(|(_, value)| !value.is_empty()))
            .fold(format!("{first} HTTP/1.1\r\n"), |lines, (name, value)| {
                format!("{lines}{name}: {value}\r\n")
            });
        format!("{lines}\r\n{body}")
    }

    fn send(&self, first: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = self.connect();
        // The program may answer before it has read everything, and close.
        drop(stream.write_all(self.request(first, headers, body).as_bytes()));
        stream
    }

    fn ask(&self, first: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut reply = Vec::new();
        // Bytes of a body that the program does not read reset the connection after the answer.
        drop(self.send(first, headers, body).read_to_end(&mut reply));
        let reply = String::from_utf8_lossy(&reply).into_owned();
        let (head, body) = reply
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{reply:?}"));
        Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn post(&self, headers: &[(&str, &str)], body: &Value) -> Reply {
        self.ask("POST /mcp", headers, &body.to_string())
    }

    /// Sends a request as a client does that begins with `initialize` and names the version from then on.
    fn rpc(&self, method: &str, params: Value) -> Value {
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        body["params"] = params;
        let reply = self.post(&[("MCP-Protocol-Version", "2025-06-18")], &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut params = json!({"name": tool});
        params["arguments"] = arguments;
        said(&mut self.rpc("tools/call", params)["result"])
    }
}

/// Reads one answer of a connection that stays open, and returns its status.
fn answered(stream: &mut impl BufRead) -> u16 {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut length = 0;
    while line.trim() != "" {
        line.clear();
        stream.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).unwrap();
    status
}

fn list() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
}

#[test]
fn request_without_token_is_refused() {
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let right = format!("Bearer {}", served.token);
    let longer = format!("{right}x");
    let shorter = &right[..right.len() - 1];
    let basic = format!("Basic {}", served.token);
    for wrong in [
        "",
        "Bearer",
        "Bearer x",
        &longer,
        shorter,
        &basic,
        &served.token,
    ] {
        let reply = served.post(&[("Authorization", wrong)], &list());
        assert_eq!(reply.status, 401, "{wrong}: {reply:?}");
        has(&reply.head, "\r\nwww-authenticate: Bearer");
        lacks(&reply.body, &served.token);
    }
    let twice = [
        ("Authorization", "Bearer x"),
        ("Authorization", right.as_str()),
    ];
    assert_eq!(served.post(&twice, &list()).status, 401);
    assert_eq!(
        served.post(&[("Authorization", &right)], &list()).status,
        200
    );
}

/// A client that shows no token has a place among others without one: however many they are, they keep no client out.
#[test]
fn unauthorized_connections_block_no_client() {
    // As many as would outlast this test, if the server waited for each batch of them.
    const IDLE: usize = 448;
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let body = list().to_string();
    let keep = [("Connection", "keep-alive")];
    let mut known = BufReader::new(served.send("POST /mcp", &keep, &body));
    assert_eq!(answered(&mut known), 200);
    let idle: Vec<TcpStream> = (0..IDLE).map(|_| served.connect()).collect();
    known
        .get_mut()
        .write_all(served.request("POST /mcp", &keep, &body).as_bytes())
        .unwrap();
    assert_eq!(answered(&mut known), 200, "who is known stays");
    for (token, status) in [(None, 200), (Some(("Authorization", "Bearer x")), 401)] {
        let headers: Vec<_> = token.into_iter().collect();
        let newcomer = served.send("POST /mcp", &headers, &body);
        newcomer.set_read_timeout(Some(DEADLINE / 2)).unwrap();
        assert_eq!(answered(&mut BufReader::new(newcomer)), status);
    }
    drop(idle);
}

/// Unfinished bodies hold a bounded number of bytes, however many clients send them.
#[test]
fn large_bodies_use_bounded_memory() {
    const CLIENTS: usize = 32;
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let mut body = list();
    body["params"] = json!({"_meta": {"pad": "x".repeat(8 << 20)}});
    let request = served.request("POST /mcp", &[], &body.to_string());
    // All but the last byte, so that no request is answered.
    let (rest, last) = request.as_bytes().split_at(request.len() - 1);
    let mut clients: Vec<(TcpStream, usize)> = (0..CLIENTS)
        .map(|_| {
            let stream = served.connect();
            stream.set_nonblocking(true).unwrap();
            (stream, 0)
        })
        .collect();
    let end = Instant::now() + DEADLINE;
    let mut answers = 0;
    while answers < CLIENTS {
        assert!(Instant::now() < end, "{answers} were answered");
        thread::yield_now();
        // Each client writes as much as the server takes, in turn.
        for (stream, sent) in &mut clients {
            match stream.write(&rest[*sent..(*sent + (1 << 16)).min(rest.len())]) {
                Ok(bytes) => *sent += bytes,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        // Half of the possible number: a client sends its rest when no other client makes progress without it.
        let whole = clients.iter().filter(|(_, sent)| *sent == rest.len());
        let whole = whole.count();
        if whole < (CLIENTS - answers).min(4) {
            continue;
        }
        let at = clients.iter().position(|(_, sent)| *sent == rest.len());
        let (mut stream, _) = clients.swap_remove(at.unwrap());
        stream.set_nonblocking(false).unwrap();
        stream.write_all(last).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        begins(&reply, "HTTP/1.1 200 ");
        answers += 1;
    }
    let memory = peak_memory(served.running.child.id());
    assert!(memory < 200_000, "{memory} kB");
}

#[test]
fn stalled_body_blocks_no_client() {
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let all = (64 << 20).to_string();
    let stopped = served.send("POST /mcp", &[("Content-Length", &all)], "{");
    let mut body = list();
    body["params"] = json!({"_meta": {"pad": "x".repeat(1 << 20)}});
    assert_eq!(served.post(&[], &body).status, 200);
    drop(stopped);
}

#[test]
fn browser_origin_is_refused_despite_token() {
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let own = format!("http://{}", served.address);
    for (header, value, status) in [
        ("Host", "attacker.example", 421),
        ("Host", "127.0.0.1.attacker.example:80", 421),
        ("Origin", "https://attacker.example", 403),
        ("Origin", "null", 403),
        ("Origin", own.as_str(), 403),
        ("Origin", "nonsense", 403),
    ] {
        let reply = served.post(&[(header, value)], &list());
        assert_eq!(reply.status, status, "{header}: {value}: {reply:?}");
    }
    let port = served.address.rsplit_once(':').unwrap().1;
    let named = format!("localhost:{port}");
    assert_eq!(served.post(&[("Host", &named)], &list()).status, 200);
}

#[test]
fn invalid_http_requests_get_errors() {
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let body = list().to_string();
    assert_eq!(served.ask("POST /", &[], &body).status, 404);
    assert_eq!(served.ask("GET /mcp", &[], "").status, 405);
    assert_eq!(served.ask("DELETE /mcp", &[], "").status, 405);
    assert_eq!(
        served
            .post(&[("Content-Type", "text/plain")], &list())
            .status,
        415
    );
    assert_eq!(served.post(&[("Accept", "text/html")], &list()).status, 406);
    assert_eq!(served.ask("POST /mcp", &[], "oops").status, 415);
    let long = "x".repeat(65 * 1024 * 1024);
    assert_eq!(served.ask("POST /mcp", &[], &long).status, 413);
    let reply = served.rpc("nix", json!({}));
    assert_eq!(reply["error"]["code"], -32601, "{reply}");
    let reply = served.rpc("resources/subscribe", json!({"uri": "plan://current"}));
    let said = reply["error"]["message"].as_str().unwrap();
    has(said, "subscriptions/listen");
}

#[test]
fn restart_is_invisible_to_http_clients() {
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let begun = served.rpc(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}),
    );
    assert_eq!(
        begun["result"]["serverInfo"]["name"], "plan-agent",
        "{begun}"
    );
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
    // A method that is refused over HTTP is not announced.
    let resources = &begun["result"]["capabilities"]["resources"];
    assert!(
        resources.is_object() && resources["subscribe"] != true,
        "{begun}"
    );
    served.call("TaskCreate", json!({"subject": "Knead"}));
    let address = served.address.clone();
    let token = served.token.clone();
    drop(served);
    let served = serve(&env, &address);
    assert_eq!(served.token, token);
    let list = served.call("TaskList", json!({}));
    assert_eq!(list["result"][0]["subject"], "Knead", "{list}");
    has(env.run("log tasks --json").stdout, "\"by\":\"baker\"");
}

#[test]
fn http_listener_receives_changes_of_other_process() {
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let version = "2026-07-28";
    let method = "subscriptions/listen";
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "l", "version": "1"},
        },
        "notifications": {"resourceSubscriptions": ["plan://current", "plan://nix"]},
    }});
    let headers = [("MCP-Protocol-Version", version), ("Mcp-Method", method)];
    let stream = served.send("POST /mcp", &headers, &body.to_string());
    // Keep-alive messages arrive in between for ever.
    let end = Instant::now() + DEADLINE;
    let mut events = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .take_while(|_| Instant::now() < end)
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
    let accepted = events.next().unwrap();
    assert_eq!(
        accepted["method"], "notifications/subscriptions/acknowledged",
        "{accepted}"
    );
    let mut told = || {
        let told = events.next().unwrap();
        assert_eq!(told["method"], "notifications/resources/updated", "{told}");
        assert_eq!(told["params"]["uri"], "plan://current");
    };
    // Any change between the two.
    told();
    env.exits(0, ["tool", "TaskCreate", "{\"subject\": \"Knead\"}"]);
    told();
}

#[test]
fn log_names_client_of_current_protocol() {
    let env = TestEnv::new();
    let served = serve(&env, "127.0.0.1:0");
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "miller", "version": "1"},
    });
    let ask = |method: &str, name: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let headers = [
            ("MCP-Protocol-Version", version),
            ("Mcp-Method", method),
            ("Mcp-Name", name),
        ];
        let reply = served.post(&headers[..if name.is_empty() { 2 } else { 3 }], &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let found = ask("server/discover", "", json!({}));
    // `subscriptions/listen` reports changes.
    assert_eq!(
        found["result"]["capabilities"]["resources"]["subscribe"], true,
        "{found}"
    );
    let made = json!({"name": "TaskCreate", "arguments": {"subject": "Grind"}});
    let made = ask("tools/call", "TaskCreate", made);
    assert!(made["result"]["isError"] != true, "{made}");
    // Arguments that are no object reach the tools in another way.
    let again = json!({"name": "TaskCreate", "arguments": "{\"subject\": \"Bake\"}"});
    ask("tools/call", "TaskCreate", again);
    let log = env.run("log tasks --json").stdout;
    has(&log, ["Grind", "Bake"]);
    let by_client = |line: &str| line.contains("\"by\":\"miller\"");
    assert!(log.lines().all(by_client), "{log}");
}

#[test]
fn token_readable_by_others_is_refused() {
    let env = TestEnv::new();
    drop(serve(&env, "127.0.0.1:0"));
    let token = env.path("volumes/mcp.token");
    assert_eq!(
        fs::metadata(&token).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
    insta::assert_snapshot!(env.run("mcp --http 127.0.0.1:0").seen(&env), @r"
    error: cannot trust the token `[FOLDER]/volumes/mcp.token`: others can read it: its mode is 0644, not 0600
    Hint: `chmod 600 [FOLDER]/volumes/mcp.token`, or remove it: a new one is made
    exit 1
    ");
}

#[test]
fn serves_only_local_addresses() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.run("mcp --http 0.0.0.0:0").seen(&env), @r"
    error: invalid value '0.0.0.0:0' for '--http <127.0.0.1:PORT>': must be an address of this machine, such as 127.0.0.1:8765

    For more information, try '--help'.
    exit 2
    ");
    assert!(!env.path("volumes").exists());
}
