//! What keeps the page's server shut, each by a raw socket.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Reply, Served, finished_plan, reply, serve};
use crate::common::env::{TestEnv, has, lacks, wait_until};

const PLANS: &str = "GET /api/v1/plans";
const ACTION: &str = "POST /api/v1/plans/nix/pause";

/// Asks with each of the headers, and compares the status.
fn table(served: &Served, first: &str, rows: &[(&str, &str, u16)]) {
    for (name, value, status) in rows {
        let reply = served.ask(first, &[(name, value)], "");
        assert_eq!(reply.status, *status, "{name}: {value}: {reply:?}");
    }
}

#[test]
fn listens_on_loopback_only() {
    let env = TestEnv::new();
    let served = serve(&env, &["--public-url", "https://plans.example.org"]);
    // The address is that of the proxy.
    assert_eq!(served.address, "plans.example.org");
    let inodes: Vec<String> = fs::read_dir(format!("/proc/{}/fd", served.running.child.id()))
        .unwrap()
        .filter_map(|file| fs::read_link(file.unwrap().path()).ok())
        .map(|link| {
            link.to_string_lossy()
                .replace("socket:[", "")
                .replace(']', "")
        })
        .collect();
    let listening: Vec<String> = ["tcp", "tcp6"]
        .iter()
        .flat_map(|kind| {
            let table = fs::read_to_string(format!("/proc/net/{kind}")).unwrap_or_default();
            table.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(3) == Some(&"0A")
                && inodes
                    .iter()
                    .any(|inode| words.get(9) == Some(&inode.as_str()))
        })
        .collect();
    assert_eq!(listening.len(), 1, "{listening:?}");
    has(&listening[0], "0100007F:");
}

#[test]
fn token_is_private_and_can_be_replaced() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    assert!(served.token.len() * 4 >= 256, "{}", served.token);
    assert_eq!(env.read("web-token").trim(), served.token);
    let mode = fs::metadata(env.path("web-token"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = served.stream("events", &[]);
    assert_eq!(stream.next().unwrap().name, "hello");
    let again = serve(&env, &[]);
    assert_eq!(again.token, served.token);
    let renewed = serve(&env, &["--new-token"]);
    assert_ne!(renewed.token, served.token);
    // The old one counts no longer, also where it was let in before.
    assert_eq!(served.status(PLANS, &[]), 401);
    let bearer = format!("Bearer {}", renewed.token);
    assert_eq!(served.status(PLANS, &[("Authorization", &bearer)]), 200);
    while stream.next().is_some() {}
    fs::set_permissions(env.path("web-token"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(renewed.status(PLANS, &[]), 401);
    env.refuses(
        1,
        ["web", "--port", "0"],
        ["others can read it", "chmod 600", "--new-token"],
    );
}

#[test]
fn token_is_accepted_in_one_header_only() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let token = served.token.clone();
    let other = "0".repeat(token.len());
    for wrong in [
        String::new(),
        "Bearer".to_owned(),
        format!("Bearer {token}x"),
        format!("Bearer {}", &token[1..]),
        format!("Bearer {other}"),
        format!("Basic {token}"),
        token.clone(),
    ] {
        let reply = served.ask(PLANS, &[("Authorization", &wrong)], "");
        assert_eq!(reply.status, 401, "{wrong}: {reply:?}");
        has(&reply.head, "\r\nwww-authenticate: bearer");
        lacks(&reply.body, &token);
    }
    for name in ["Cookie", "X-Token", "X-Authorization"] {
        let cookie = format!("token={token}");
        let headers = [("Authorization", ""), (name, cookie.as_str())];
        assert_eq!(served.status(PLANS, &headers), 401, "{name}");
    }
    let twice = format!("Bearer {token}");
    let headers = [
        ("Authorization", twice.as_str()),
        ("Authorization", twice.as_str()),
    ];
    assert_eq!(served.status(PLANS, &headers), 401);
}

/// That it is so cannot be seen from outside: the text of the program shows it.
#[test]
fn token_and_code_are_compared_in_constant_time() {
    for file in ["src/web/gate.rs", "src/volumes/pairing_code.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = fs::read_to_string(path).unwrap();
        let compares = text
            .split("mod tests {")
            .next()
            .unwrap()
            .matches("ct_eq(")
            .count();
        assert_eq!(compares, 1, "{file}");
    }
}

#[test]
fn token_in_an_address_is_replaced() {
    let env = TestEnv::new();
    let mut served = serve(&env, &[]);
    let token = served.token.clone();
    // A wrong one replaces nothing: otherwise any program here could lock the person out.
    assert_eq!(
        served.status("GET /api/v1/plans?token=x", &[("Authorization", "")]),
        400
    );
    assert_eq!(served.status(PLANS, &[]), 200);
    let reply = served.ask(&format!("GET /?key={token}"), &[("Authorization", "")], "");
    assert_eq!(reply.status, 400, "{reply:?}");
    lacks(&reply.body, &token);
    assert_eq!(served.status(PLANS, &[]), 401);
    let mut said = BufReader::new(served.running.child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    served.token = env.read("web-token").trim().to_owned();
    has(&line, [&format!("/#token={}", served.token), "replaced"]);
    assert_eq!(served.status(PLANS, &[]), 200);
}

#[test]
fn other_hosts_and_sites_are_refused() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let port = served.address.rsplit_once(':').unwrap().1;
    let at = |host: &str| format!("{host}:{port}");
    let own = format!("http://{}", served.address);
    let (named, six, padded) = (
        at("localhost"),
        at("[::1]"),
        at("127.0.0.1.attacker.example"),
    );
    for first in [PLANS, "GET /", "GET /app.js", ACTION] {
        table(
            &served,
            first,
            &[
                ("Host", "attacker.example", 421),
                ("Host", "127.0.0.1", 421),
                ("Host", "127.0.0.1:1", 421),
                ("Host", &padded, 421),
                ("Host", "", 421),
                ("Origin", "null", 403),
                ("Origin", "https://attacker.example", 403),
                ("Origin", "http://127.0.0.1:1", 403),
                ("Sec-Fetch-Site", "cross-site", 403),
                ("Sec-Fetch-Site", "same-site", 403),
                ("Forwarded", "for=1.2.3.4", 400),
                ("X-Forwarded-For", "1.2.3.4", 400),
                ("X-Forwarded-Host", "x", 400),
            ],
        );
    }
    for first in [PLANS, "GET /"] {
        table(
            &served,
            first,
            &[
                ("Host", &named, 200),
                ("Host", &six, 200),
                ("Origin", &own, 200),
                ("Sec-Fetch-Site", "same-origin", 200),
                ("Sec-Fetch-Site", "none", 200),
            ],
        );
    }
    let elsewhere = "GET http://attacker.example/api/v1/plans";
    assert_eq!(served.status(elsewhere, &[]), 421);
    // A link to the page may be followed from anywhere; nothing else of it may be loaded so.
    let visit = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    for (first, status) in [("GET /", 200), ("GET /app.js", 403), (PLANS, 403)] {
        assert_eq!(served.status(first, &visit), status, "{first}");
    }
}

#[test]
fn public_address_adds_one_host_and_origin() {
    let env = TestEnv::new();
    let public = serve(&env, &["--public-url", "https://plans.example.org"]);
    let port = listening_port(&public);
    let local = Served {
        address: format!("127.0.0.1:{port}"),
        ..public
    };
    table(
        &local,
        PLANS,
        &[
            ("Host", "plans.example.org", 200),
            ("Host", "PLANS.example.org", 200),
            ("Host", "other.example.org", 421),
            ("Host", "plans.example.org:444", 421),
            ("Origin", "https://plans.example.org", 200),
            ("Origin", "http://plans.example.org", 403),
            ("Origin", "https://example.org", 403),
            ("X-Forwarded-For", "1.2.3.4", 200),
        ],
    );
    for wrong in [
        "plans.example.org",
        "https://x/path",
        "https://u@x",
        "ftp://x",
        "https://x/#a",
    ] {
        env.refuses(2, ["web", "--public-url", wrong], "must be an address");
    }
}

/// Returns the port of a server that printed another address.
fn listening_port(served: &Served) -> u16 {
    let files = fs::read_dir(format!("/proc/{}/fd", served.running.child.id())).unwrap();
    let links = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    let links: Vec<String> = links
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let line = table.lines().find(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(3) == Some(&"0A") && links.contains(&format!("socket:[{}]", words[9]))
    });
    let place = line.unwrap().split_whitespace().nth(1).unwrap();
    u16::from_str_radix(place.split_once(':').unwrap().1, 16).unwrap()
}

#[test]
fn methods_and_bodies_are_limited() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    for first in [
        "OPTIONS /",
        "OPTIONS /api/v1/plans",
        "PUT /api/v1/plans",
        "TRACE /",
    ] {
        let reply = served.ask(first, &[], "");
        assert_eq!(reply.status, 405, "{first}: {reply:?}");
        lacks(&reply.head, "access-control");
    }
    table(
        &served,
        ACTION,
        &[
            ("Content-Type", "text/plain", 415),
            ("Content-Type", "application/x-www-form-urlencoded", 415),
            ("Content-Type", "", 415),
            ("Content-Length", "65537", 413),
            ("Content-Length", "20000000", 413),
        ],
    );
    let long = "x".repeat(20_000);
    let reply = served.ask(PLANS, &[("X-Long", &long)], "");
    assert_eq!(reply.status, 431, "{reply:?}");
    // Nothing of these keeps the server from answering others.
    assert_eq!(served.status(PLANS, &[]), 200);
}

#[test]
fn body_without_a_length_is_limited() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let chunked = [("Content-Length", ""), ("Transfer-Encoding", "chunked")];
    for (bytes, status) in [(1_000, 400), (65_537, 413), (2_000_000, 413)] {
        let text = format!("[\"{}\"]", "x".repeat(bytes));
        let body = format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
        let reply = served.ask(ACTION, &chunked, &body);
        assert_eq!(reply.status, status, "{bytes}: {reply:?}");
    }
}

#[test]
fn more_connections_than_sixty_four_wait() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let open = [("Connection", "keep-alive")];
    let mut first = [0];
    let mut kept: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = served.send(PLANS, &open, "");
            stream.read_exact(&mut first).unwrap();
            stream
        })
        .collect();
    let mut waits = served.send(PLANS, &open, "");
    // A visitor without the token has a place of another kind.
    for _ in 0..20 {
        assert_eq!(served.status("GET /", &[("Authorization", "")]), 200);
    }
    waits.set_nonblocking(true).unwrap();
    let none = waits.read(&mut first).unwrap_err();
    assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock);
    waits.set_nonblocking(false).unwrap();
    kept.pop();
    waits.read_exact(&mut first).unwrap();
}

#[test]
fn actions_are_limited_in_a_second() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    wait_until("one of many actions is refused", || {
        served.status(ACTION, &[]) == 429
    });
    wait_until("the next second comes", || {
        served.status(ACTION, &[]) != 429
    });
}

/// The one test here that waits: for a client that never ends its request.
#[test]
fn silent_client_is_closed() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let mut slow = served.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let mut known = served.connect();
    let head = format!(
        "POST /api/v1/plans HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
        served.address, served.token
    );
    known.write_all(head.as_bytes()).unwrap();
    for mut stream in [slow, known] {
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
    }
    assert_eq!(served.status(PLANS, &[]), 200);
}

#[test]
fn crowd_blocks_no_client() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let idle: Vec<_> = (0..300).map(|_| served.connect()).collect();
    assert_eq!(served.status(PLANS, &[]), 200);
    assert_eq!(served.status("GET /", &[("Authorization", "")]), 200);
    drop(idle);
}

/// Returns a reply's header.
fn header<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    let lines = reply.head.lines();
    lines
        .filter_map(|line| line.split_once(": "))
        .find(|(other, _)| *other == name)
        .map(|(_, value)| value)
}

#[test]
fn every_answer_has_the_guards() {
    let env = TestEnv::new();
    let plan = finished_plan(&env);
    let served = serve(&env, &[]);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
    let show = format!("GET /api/v1/plans/{plan}");
    let refused = [("Authorization", "")];
    for (first, headers) in [
        ("GET /", &[][..]),
        ("GET /app.js", &[]),
        (PLANS, &[]),
        (&show, &[]),
        (PLANS, &refused),
        ("GET /nix", &[]),
        (ACTION, &[("Content-Type", "text/plain")]),
        ("POST /mcp", &[]),
        (PLANS, &[("Host", "x")]),
    ] {
        let reply = served.ask(first, headers, "");
        for (name, value) in [
            ("content-security-policy", policy),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(header(&reply, name), Some(value), "{first} {reply:?}");
        }
        has(&reply.head, "\r\npermissions-policy:");
        lacks(&reply.head, ["set-cookie", "access-control", &served.token]);
        let asset = ["GET /", "GET /app.js"].contains(&first);
        let kept = if asset { "no-cache" } else { "no-store" };
        assert_eq!(header(&reply, "cache-control"), Some(kept), "{first}");
    }
    let page = served.ask("GET /", &refused, "");
    let tag = header(&page, "etag").unwrap();
    assert_eq!(
        served.status("GET /", &[("Authorization", ""), ("If-None-Match", tag)]),
        304
    );
    lacks(&page.body, [&served.token, &plan]);
}

#[test]
fn no_path_reaches_the_file_system() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    env.write("secret.txt", "secret");
    for path in [
        "/../../../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/api/v1/plans/..%2f..%2fsecret.txt",
        "/api/v1/plans/../../secret.txt",
        "/api/v1/plans/%2e%2e%2fsecret.txt/tasks/1/output",
        "/secret.txt",
        "/web-token",
        "/assets/app.js",
        "/app.js/../web-token",
    ] {
        let reply = served.ask(&format!("GET {path}"), &[], "");
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
        lacks(&reply.body, ["root:", "secret\n", &served.token]);
    }
}

#[test]
fn read_only_page_has_a_token_of_its_own() {
    let env = TestEnv::new();
    let full = serve(&env, &[]);
    let shows = serve(&env, &["--read-only"]);
    assert_ne!(shows.token, full.token);
    let mode = fs::metadata(env.path("web-token-read-only"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(shows.get("plans")["read_only"], true);
    for action in [ACTION, "POST /api/v1/plans", "POST /mcp"] {
        let reply = shows.ask(action, &[], "{}");
        assert_eq!(reply.status, 403, "{action}: {reply:?}");
    }
    let bearer = format!("Bearer {}", shows.token);
    assert_eq!(full.status(PLANS, &[("Authorization", &bearer)]), 401);
}

#[test]
fn tools_are_served_under_the_same_gate() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let accept = ("Accept", "application/json, text/event-stream");
    let reply = served.ask("POST /mcp", &[accept], body);
    assert_eq!(reply.status, 200, "{reply:?}");
    has(&reply.body, "TaskCreate");
    let own = format!("http://{}", served.address);
    for (name, value, status) in [
        ("Authorization", "Bearer x", 401),
        ("Host", "attacker.example", 421),
        ("Origin", "null", 403),
        // A page may not call tools, not even the own one.
        ("Origin", own.as_str(), 403),
    ] {
        let reply = served.ask("POST /mcp", &[accept, (name, value)], body);
        assert_eq!(reply.status, status, "{name}: {value}: {reply:?}");
    }
}

#[test]
fn page_makes_no_code_of_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web/assets");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // What is not ours is kept from it by the policy of trusted types.
        if name.starts_with("preact") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap().to_lowercase();
        for word in [
            "innerhtml",
            "outerhtml",
            "insertadjacenthtml",
            "document.write",
            "eval(",
            "new function",
            "function(",
        ] {
            let code = word != "function(" || name.ends_with(".html");
            assert!(!code || !text.contains(word), "{name} has `{word}`");
        }
    }
}

#[test]
fn agents_may_not_serve_the_page() {
    let mut env = TestEnv::new();
    env.set(
        "PLAN_AGENT_EXCHANGE",
        env.path("volumes").to_str().unwrap().to_owned().as_str(),
    );
    env.refuses(2, ["web"], "is for a person");
    env.refuses(2, ["web", "--pair"], "is for a person");
}

#[test]
fn answer_to_a_broken_request_is_an_error() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let mut stream = served.connect();
    stream
        .write_all(b"\x16\x03\x01\x00\x05hello\r\n\r\n")
        .unwrap();
    assert_eq!(reply(stream).status, 400);
}
