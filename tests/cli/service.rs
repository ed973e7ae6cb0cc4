//! `service`: a unit of systemd for the daemon of a folder. The systemd of these tests writes down what it is asked.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use crate::common::env::{TestEnv, has, lacks};

/// A person with a folder of configurations, and a `systemctl` of this text; without one there is none.
fn person(systemctl: Option<&str>) -> TestEnv {
    let mut env = TestEnv::new();
    let (configs, programs) = (env.path("configs"), env.path("programs"));
    env.set("XDG_CONFIG_HOME", configs.to_str().unwrap());
    env.set("PATH", programs.to_str().unwrap());
    if let Some(text) = systemctl {
        let log = env.path("asked.txt");
        let text = format!("#!/bin/sh\necho \"$*\" >> '{}'\n{text}\n", log.display());
        env.write("programs/systemctl", &text);
        let program = programs.join("systemctl");
        fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    }
    env
}

/// Returns the units that there are.
fn units(env: &TestEnv) -> Vec<PathBuf> {
    let units = fs::read_dir(env.path("configs/systemd/user"));
    let units = units.into_iter().flatten();
    units.map(|unit| unit.unwrap().path()).collect()
}

fn asked(env: &TestEnv) -> String {
    fs::read_to_string(env.path("asked.txt")).unwrap_or_default()
}

/// Wherever in the project it is typed, as other commands are.
#[test]
fn unit_is_that_of_the_project_with_its_records() {
    let mut env = person(Some(""));
    let states = env.path("states of mine");
    env.set("XDG_STATE_HOME", states.to_str().unwrap());
    env.exits(0, "init");
    env.exits(0, "service install");
    fs::create_dir(env.path("sub")).unwrap();
    env.exits(0, "-C sub service install");
    let [unit] = &units(&env)[..] else {
        panic!("one unit");
    };
    let text = fs::read_to_string(unit).unwrap();
    let line = format!("\nEnvironment=\"XDG_STATE_HOME={}\"\n", states.display());
    has(&text, line);
}

#[test]
fn unit_is_installed_shown_and_removed() {
    let env = person(Some(
        "test \"$2\" != is-active || { echo inactive; exit 3; }",
    ));
    has(env.exits(0, "service status").stdout, "is not installed");
    let said = env.exits(0, "service install").stdout;
    let [unit] = &units(&env)[..] else {
        panic!("one unit: {said}");
    };
    let name = unit.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("plan-agent-") && name.ends_with(".service"),
        "{name}"
    );
    has(
        &said,
        format!("`systemctl --user start {name}` starts it now"),
    );
    let text = fs::read_to_string(unit).unwrap();
    let folder = env.path("").canonicalize().unwrap();
    let command = format!("plan-agent\" -C \"{}\" daemon\n", folder.display());
    has(&text, command);
    has(&text, "\nWantedBy=default.target\n");
    lacks(&text, "KEY");
    // Once more is no error.
    env.exits(0, "service install");
    let status = env.exits(0, "service status").stdout;
    has(&status, "is installed");
    has(&status, format!("{name}: inactive"));
    env.exits(0, "service remove");
    assert_eq!(units(&env), [] as [PathBuf; 0]);
    has(env.exits(0, "service remove").stdout, "there is no `");
    let calls = ["daemon-reload", "enable NAME"];
    let calls = [
        &["is-active NAME"],
        &calls[..],
        &calls,
        &["is-active NAME", "disable --now NAME", "daemon-reload"],
    ];
    let calls: String = calls
        .concat()
        .iter()
        .map(|call| format!("--user {call}\n"))
        .collect();
    assert_eq!(asked(&env), calls.replace("NAME", name));
}

#[test]
fn foreign_unit_stays_as_it_is() {
    let env = person(Some(""));
    env.exits(0, "service install");
    let unit = units(&env).remove(0);
    let before = asked(&env);
    for link in [false, true] {
        fs::remove_file(&unit).unwrap();
        match link {
            true => symlink("/dev/null", &unit).unwrap(),
            false => fs::write(&unit, "[Service]\nExecStart=/bin/mine\n").unwrap(),
        }
        for act in ["install", "remove"] {
            env.refuses(
                1,
                format!("service {act}"),
                ["was not written by plan-agent"],
            );
        }
        assert_eq!(unit.is_symlink(), link);
    }
    assert_eq!(asked(&env), before);
}

#[test]
fn person_is_told_what_to_type_where_no_systemd_answers() {
    for systemctl in [None, Some("echo no bus >&2; exit 1")] {
        let env = person(systemctl);
        let said = env.exits(0, "service install").stdout;
        has(
            &said,
            "Type: `systemctl --user daemon-reload && systemctl --user enable plan-agent-",
        );
        has(
            env.exits(0, "service status").stdout,
            "systemd does not answer",
        );
        has(
            env.exits(0, "service remove").stdout,
            "Type: `systemctl --user disable --now plan-agent-",
        );
        assert_eq!(units(&env), [] as [PathBuf; 0]);
    }
}

#[test]
fn special_characters_of_folder_are_escaped() {
    let env = person(None);
    let name = "my \"100%\" $HOME\\x";
    env.write(&format!("{name}/.git/HEAD"), "");
    env.exits(0, ["-C", name, "service", "install"]);
    let text = fs::read_to_string(&units(&env)[0]).unwrap();
    has(&text, r#"/my \"100%%\" $$HOME\\x" daemon"#);
    has(&text, r#"/my "100%%" $HOME\x"#);
    let broken = "a\nb";
    env.write(&format!("{broken}/.git/HEAD"), "");
    env.refuses(
        2,
        ["-C", broken, "service", "install"],
        ["is no path for a unit"],
    );
}
