//! `plan-agent tools` and `plan-agent tool`.

use serde_json::Value;

use crate::common::env::{Ran, TestEnv};

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_list_of_tools_needs_no_folder_and_makes_none() {
    let env = TestEnv::new();
    let all = env.run(&["tools", "--json"]);
    assert_eq!(all.code, Some(0), "{all:?}");
    let tools = json(&all);
    for tool in tools.as_array().unwrap() {
        assert_eq!(tool["schema"]["type"], "object", "{tool}");
        let dialect = tool["dialect"].as_str().unwrap();
        let own = env.run(&["tools", "--dialect", dialect]);
        assert!(
            own.stdout.contains(tool["name"].as_str().unwrap()),
            "{own:?}"
        );
    }
    assert!(!env.path("volumes").exists());
}

#[test]
fn wrong_usage_is_told_and_prints_nothing() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.run(&["tool", "nix"]).seen(&env), @r"
    error: there is no tool `nix`
    Hint: `plan-agent tools` lists them
    exit 2
    ");
    insta::assert_snapshot!(env.run(&["tools", "--dialect", "x"]).seen(&env), @r"
    error: invalid value 'x' for '--dialect <plan-tool|plan-manager|notebook|tasks|all>': must be one of plan-tool, plan-manager, notebook, tasks, all

    For more information, try '--help'.
    exit 2
    ");
    assert!(!env.path("volumes").exists());
}
