//! How another device gets the token by a code, and who does not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::json;

use super::{Reply, Served, serve};
use crate::common::env::{TestEnv, has, lacks, wait_until};

const PAIR: &str = "POST /api/v1/pair";

/// Makes a code in another process while the page is served, and returns it.
fn code(env: &TestEnv, args: &str) -> String {
    let said = env.exits(0, format!("web --pair {args}").as_str()).stdout;
    said.split_whitespace().nth(1).unwrap().to_owned()
}

/// Shows a code as a device without the token.
fn show(served: &Served, code: &str) -> Reply {
    let body = json!({ "code": code }).to_string();
    let mut answer = None;
    wait_until("so many codes in a second are not too many", || {
        let reply = served.ask(PAIR, &[("Authorization", "")], &body);
        (reply.status != 429)
            .then(|| answer = Some(reply))
            .is_some()
    });
    answer.unwrap()
}

#[test]
fn code_gives_the_token_once() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    assert_eq!(show(&served, "AAAA-AAAA").status, 403, "without any");
    let said = env.exits(0, "web --pair").stdout;
    has(
        &said,
        [&format!("http://{}/", served.address), "five minutes"],
    );
    let code = said.split_whitespace().nth(1).unwrap();
    lacks(env.read("web-token.code"), [code, &code.replace('-', "")]);
    let reply = show(&served, &code.to_lowercase());
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json(), json!({ "token": served.token }));
    has(&reply.head, "cache-control: no-store");
    let again = show(&served, code);
    assert_eq!(again.status, 403, "{again:?}");
    lacks(&again.body, &served.token);
}

#[test]
fn code_of_a_new_page_is_printed_behind_its_address() {
    let env = TestEnv::new();
    let args = "web --pair --port 0 --public-url https://plans.example.org";
    let mut running = env.spawn(args, Stdio::piped(), Stdio::null());
    let said = BufReader::new(running.child.stdout.take().unwrap());
    let lines: Vec<String> = said.lines().take(2).map(Result::unwrap).collect();
    has(&lines[0], "https://plans.example.org/#token=");
    has(
        &lines[1],
        "at https://plans.example.org/ within five minutes",
    );
    // The token is in no way part of what a person types.
    lacks(&lines[1], "#");
    let second = env.exits(0, "web --pair").stdout;
    // Of a page that another process serves, only the port is believed.
    has(&second, "or where your tunnel or proxy shows this page");
}

#[test]
fn two_devices_at_once_get_one_token() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let code = code(&env, "");
    let given = std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| show(&served, &code).status));
        both.map(|asked| asked.join().unwrap())
    });
    assert_eq!(
        given.iter().filter(|status| **status == 200).count(),
        1,
        "{given:?}"
    );
}

#[test]
fn code_ends_after_five_wrong_ones_and_with_its_time() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    for (wrong, status) in [(4, 200), (5, 403)] {
        let code = code(&env, "");
        for _ in 0..wrong {
            assert_eq!(show(&served, "AAAA-AAAA").status, 403);
        }
        assert_eq!(show(&served, &code).status, status, "{wrong}");
    }
    let code = code(&env, "");
    let text = env.read("web-token.code");
    let (hash, end) = text.trim().split_once(' ').unwrap();
    let end = end.parse::<u64>().unwrap() - 300;
    fs::write(env.path("web-token.code"), format!("{hash} {end}\n")).unwrap();
    assert_eq!(show(&served, &code).status, 403, "it is old");
}

#[test]
fn code_passes_the_gate_alone() {
    let env = TestEnv::new();
    let served = serve(&env, &[]);
    let code = code(&env, "");
    let body = json!({ "code": code }).to_string();
    for (name, value, status) in [
        ("Host", "attacker.example", 421),
        ("Origin", "https://attacker.example", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("X-Forwarded-For", "1.2.3.4", 400),
        ("Content-Type", "text/plain", 415),
        ("Content-Length", "65537", 413),
    ] {
        let reply = served.ask(PAIR, &[("Authorization", ""), (name, value)], &body);
        assert_eq!(reply.status, status, "{name}: {value}: {reply:?}");
        lacks(&reply.head, "access-control");
    }
    let bare = [("Authorization", "")];
    for (first, body, status) in [
        ("GET /api/v1/pair", "", 401),
        ("OPTIONS /api/v1/pair", "", 405),
        ("POST /api/v1/pair/", body.as_str(), 401),
        ("POST /api/v1/plans", body.as_str(), 401),
    ] {
        assert_eq!(served.ask(first, &bare, body).status, status, "{first}");
    }
    wait_until("codes are limited in a second", || {
        served.ask(PAIR, &bare, "{}").status == 429
    });
    wait_until("what is no code is refused", || {
        served.ask(PAIR, &bare, r#"{"code":"x","more":1}"#).status == 400
    });
    // None of these was a try.
    assert_eq!(show(&served, &code).status, 200);
}

#[test]
fn code_of_a_page_that_only_shows_gives_its_token() {
    let env = TestEnv::new();
    let (full, shows) = (serve(&env, &[]), serve(&env, &["--read-only"]));
    let code = code(&env, "--read-only");
    assert_eq!(show(&full, &code).status, 403);
    let reply = show(&shows, &code);
    assert_eq!(reply.json(), json!({ "token": shows.token }), "{reply:?}");
}
