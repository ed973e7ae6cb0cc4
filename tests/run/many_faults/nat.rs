//! A relay in a network of its own, from which only a router with address translation leads to the server. The router forgets
//! connections, as those of homes and clouds do: what belongs to them is dropped in silence.

use std::net::TcpListener;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::process::Command as Program;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::proxy::Proxy;
use super::*;

/// The address of the server in its network.
const SERVER: &str = "10.77.1.1";

/// Three networks: of the server, of the router, and of the relay. They go when this is dropped.
struct Networks {
    names: [String; 3],
}

impl Networks {
    /// Makes them; the error says why that is not possible here.
    fn make() -> Result<Self, String> {
        let names = ["server", "router", "relay"].map(|it| format!("{it}-{}", std::process::id()));
        let networks = Self { names };
        let [server, router, relay] = &networks.names;
        for name in &networks.names {
            run("ip", &format!("netns add {name}"))?;
        }
        for (end, network) in [("outside", server), ("inside", relay)] {
            let link =
                format!("-n {router} link add {end} type veth peer name uplink netns {network}");
            run("ip", &link)?;
        }
        for (network, link, address) in [
            (server, "uplink", "10.77.1.1/24"),
            (router, "outside", "10.77.1.2/24"),
            (router, "inside", "10.77.2.1/24"),
            (relay, "uplink", "10.77.2.2/24"),
        ] {
            run(
                "ip",
                &format!("-n {network} address add {address} dev {link}"),
            )?;
            run("ip", &format!("-n {network} link set {link} up"))?;
        }
        run("ip", &format!("-n {relay} route add default via 10.77.2.1"))?;
        networks.within(router, "echo 1 > /proc/sys/net/ipv4/ip_forward")?;
        networks.within(
            router,
            "nft 'add table ip t; \
                add chain ip t nat { type nat hook postrouting priority srcnat; }; \
                add rule ip t nat oifname outside masquerade; \
                add chain ip t forgotten { type filter hook forward priority filter; }'",
        )?;
        Ok(networks)
    }

    /// Runs a line of shell in one of the networks, and returns what it prints.
    fn within(&self, network: &str, line: &str) -> Result<String, String> {
        let [ip, words @ ..] = ["ip", "netns", "exec", network, "sh", "-c", line];
        output(Program::new(ip).args(words))
    }

    /// Listens in the network of the server, and leads to a port of this machine.
    fn lead_to(&self, port: u16) -> Proxy {
        let network = File::open(format!("/run/netns/{}", self.names[0])).unwrap();
        // A thread of its own: it stays in that network.
        let listen = move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).unwrap();
            TcpListener::bind((SERVER, 0)).unwrap()
        };
        Proxy::on(thread::spawn(listen).join().unwrap(), port)
    }

    /// Lets the relay's next connections be from some ports.
    fn connect_from(&self, ports: &Range<u16>) {
        let Range { start, end } = ports;
        let line = format!(
            "echo {start} {} > /proc/sys/net/ipv4/ip_local_port_range",
            end - 1
        );
        self.within(&self.names[2], &line).unwrap();
    }

    /// Drops everything of the connections from some ports, from now on.
    fn forget(&self, ports: &Range<u16>) {
        for way in ["sport", "dport"] {
            let Range { start, end } = ports;
            let rule = format!("tcp {way} {start}-{} counter drop", end - 1);
            let line = format!("nft add rule ip t forgotten {rule}");
            self.within(&self.names[1], &line).unwrap();
        }
    }

    /// Returns how many packets of the relay were dropped for each time that something was forgotten.
    fn dropped(&self) -> Vec<u64> {
        let list = self.within(&self.names[1], "nft list chain ip t forgotten");
        let list = list.unwrap();
        let of_the_relay = list.lines().filter(|line| line.contains("sport"));
        let packets = |line: &str| {
            line.split_once("packets ")?
                .1
                .split(' ')
                .next()?
                .parse()
                .ok()
        };
        of_the_relay.map(|line| packets(line).unwrap()).collect()
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in &self.names {
            drop(run("ip", &format!("netns delete {name}")));
        }
    }
}

fn run(program: &str, words: &str) -> Result<String, String> {
    output(Program::new(program).args(words.split_whitespace()))
}

fn output(command: &mut Program) -> Result<String, String> {
    let ran = command.output().map_err(|error| error.to_string())?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned()),
    }
}

#[test]
fn relay_whose_connections_a_router_forgets_reports_once() {
    if times(true, false) {
        return skip("only in the long form");
    }
    let networks = match Networks::make() {
        Ok(networks) => networks,
        Err(why) => return skip(&format!("no networks can be made: {why}")),
    };
    let Some((here, _, url)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    let (before, behind) = url.split_once("127.0.0.1:").unwrap();
    let (port, options) = behind.split_once('/').unwrap();
    let proxy = networks.lead_to(port.parse().unwrap());
    // Within a test, unencrypted to another host.
    let from_there = format!("{before}{SERVER}:{}/{options}&sslmode=disable", proxy.port);
    let there = here.beside(&from_there);
    let mut ports = 20_000..20_100;
    networks.connect_from(&ports);
    let starter = ["ip", "netns", "exec", &*networks.names[2]];
    let _relay = there.scene.env.start_under(&starter, "relay");
    let _daemon = here.scene.leave("run --plan chain.md --agent relay");
    for (task, file) in [(1, "one.txt"), (2, "two.txt"), (3, "three.txt")] {
        let command = there.scene.take_task(task);
        let old = ports.clone();
        ports = old.end..old.end + 100;
        networks.connect_from(&ports);
        networks.forget(&old);
        there.does(&command, file);
        here.scene
            .await_events("reported", task.try_into().unwrap());
    }
    here.scene.await_status("completed");
    assert_eq!(here.scene.events_named("issued").len(), 3);
    assert!(networks.dropped().iter().all(|packets| *packets > 0));
}
