//! The page of a daemon that was left behind.

use std::io::Write;
use std::net::TcpStream;

use super::reply;
use crate::common::env::{TestEnv, has, wait_until};

#[test]
fn daemon_left_behind_serves_the_page() {
    let env = TestEnv::new();
    let block = "until test -e go; do sleep 0.05; done";
    env.write(
        "plan.md",
        &format!("# Wait\n\n## 1. Wait\n\n```sh\n{block}\n```\n"),
    );
    let run = "run --plan plan.md --agent shell --detach";
    let said = env.exits(0, format!("{run} --web").as_str()).stdout;
    let (_, address) = said.split_once("the page is at http://").unwrap();
    let (host, token) = address.trim().split_once("/#token=").unwrap();
    let ask = |token: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!(
            "GET /api/v1/plans HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        reply(stream)
    };
    has(ask(token).body, "\"daemon\":{");
    assert_eq!(ask("x").status, 401);
    // A further plan goes to the same daemon.
    let queued = env.exits(0, format!("{run} --web").as_str()).stdout;
    has(queued, format!("the page is at http://{}", address.trim()));
    env.write("go", "");
    env.exits(0, "stop");
    wait_until("the page ends with the daemon", || {
        TcpStream::connect(host).is_err()
    });
}
