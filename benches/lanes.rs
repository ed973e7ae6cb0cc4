//! A hundred tasks of a second each over ten lanes, from the start of the program to its end, beside the ten seconds that they take
//! at best.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::latency::program;
use crate::table::{against, print, ratio};
use crate::{disk, row};

const TASKS: usize = 100;
const LANES: usize = 10;
const BEST: Duration = Duration::from_secs((TASKS / LANES) as u64);

/// Who does the tasks.
#[derive(Clone, Copy)]
enum Hands {
    /// Ten lanes for everybody's tasks.
    Together,
    /// Five roles with two lanes each.
    Roles,
}

pub fn run() {
    let mut rows = vec![row!["", "ideal", "took", "took / ideal"]];
    for (name, hands) in [
        ("100 tasks of 1 s, one agent with 10 lanes", Hands::Together),
        ("100 tasks of 1 s, 5 roles with 2 lanes each", Hands::Roles),
    ] {
        let took = carry_out(hands);
        rows.push(row![
            name,
            format!("{:.1} s", BEST.as_secs_f64()),
            format!("{:.2} s", took.as_secs_f64()),
            against(ratio(took, BEST), 1.1),
        ]);
    }
    print(
        "lanes: a plan from the start of the program to its end",
        &rows,
    );
}

fn carry_out(hands: Hands) -> Duration {
    let folder = disk::folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let task = |number: usize| {
        let assignee = match hands {
            Hands::Together => String::new(),
            Hands::Roles => format!("- assignee: role-{}\n\n", number % 5),
        };
        format!("## Part {number}\n\n{assignee}```sh\nsleep 1\n```\n\n")
    };
    let tasks: String = (0..TASKS).map(task).collect();
    write("plan.md", &format!("# Parts\n\n{tasks}"));
    write(
        "config.toml",
        &format!("[llm]\nprovider = \"none\"\n[run]\nmax_parallel = {LANES}\n"),
    );
    let role = |number: usize| {
        format!("- {{id: role-{number}, kind: files, worker: shell, concurrency: 2}}\n")
    };
    let roles: String = (0..5).map(role).collect();
    write("team.yaml", &format!("name: Team\nroles:\n{roles}"));
    let mut words = vec!["run", "--plan", "plan.md", "--no-input"];
    words.extend(match hands {
        Hands::Together => ["--agent", "shell"],
        Hands::Roles => ["--team", "team.yaml"],
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let begun = Instant::now();
    let status = program(folder.path(), &words)
        .env("PATH", path)
        .stderr(Stdio::inherit())
        .status()
        .unwrap();
    let took = begun.elapsed();
    assert!(status.success(), "{status}");
    took
}
