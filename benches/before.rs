//! Tasks whose checks also run on the state before them, beside the agent, against the same tasks without that: a core is free while
//! the agent waits.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plan_agent::cli::trust_folder;

use crate::latency::program;
use crate::table::{Times, against, print, ratio};
use crate::{disk, row};

const TASKS: usize = 6;

/// Plans of each kind, in turns: the load of the machine falls on both alike.
const ROUNDS: usize = 3;

/// A task of a second, after which the project is another one: no outcome is known from an earlier task.
const WORK: &str = "sleep 1\ndate +%N > made.txt";

/// About a third of a second on one core.
const CHECK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo 1 passed in 0.1s";

pub fn run() {
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (times, before) in times.iter_mut().zip(["never", "auto"]) {
            times.push(carry_out(before));
        }
    }
    let [without, with] = times.map(|times| Times::new(times).p50());
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    let rows = [
        row!["", "took", "with / without"],
        row!["without checks on the state before", seconds(without), ""],
        row![
            "with them, beside the agent",
            seconds(with),
            against(ratio(with, without), 1.05)
        ],
    ];
    print(
        "before: 6 tasks of 1 s in a git project, from the start of the program to its end",
        &rows,
    );
}

fn carry_out(before: &str) -> Duration {
    let folder = disk::folder();
    let folder = folder.path();
    let task = |number: usize| format!("## Part {number}\n\n```sh\n{WORK}\n```\n\n");
    let tasks: String = (0..TASKS).map(task).collect();
    let config = format!(
        "[llm]\nprovider = \"none\"\n[run]\nworkspace = \"project\"\nisolation = \"shared\"\nchecks = [\"c\"]\n\
         [checks.c]\nrun = [\"sh\", \"-c\", \"{CHECK}\"]\nbefore = \"{before}\"\n"
    );
    fs::create_dir(folder.join("project")).unwrap();
    for (name, text) in [
        ("plan.md", format!("# Parts\n\n{tasks}")),
        ("config.toml", config),
        ("project/a.txt", "a\n".to_owned()),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    for words in [
        "init --quiet",
        "add .",
        "-c user.name=a -c user.email=a@b commit --quiet -m begin",
    ] {
        let mut git = Command::new("git");
        let words = git
            .args(words.split(' '))
            .current_dir(folder.join("project"));
        assert!(words.status().unwrap().success());
    }
    // What a person confirms is recorded where no agent writes.
    let state = tempfile::tempdir().unwrap();
    let states = state.path().display().to_string();
    let environment = [("XDG_STATE_HOME".to_owned(), states.clone())];
    trust_folder(folder, &environment.into_iter().collect()).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut program = program(
        folder,
        &["run", "--plan", "plan.md", "--no-input", "--agent", "shell"],
    );
    program
        .env("PATH", path)
        .env("XDG_STATE_HOME", states)
        .stderr(Stdio::inherit());
    let begun = Instant::now();
    let status = program.status().unwrap();
    let took = begun.elapsed();
    assert!(status.success(), "{status}");
    took
}
