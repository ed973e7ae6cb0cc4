//! `plan-agent tools` and `plan-agent tool`.

use serde_json::{Value, json};

use crate::common::env::{Ran, TestEnv, has, skip};

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn tools_list_needs_no_folder() {
    let env = TestEnv::new();
    let all = env.exits(0, "tools --json");
    let tools = parsed(&all);
    for tool in tools.as_array().unwrap() {
        assert_eq!(tool["schema"]["type"], "object", "{tool}");
        let dialect = tool["dialect"].as_str().unwrap();
        let own = env.run(["tools", "--dialect", dialect]);
        assert!(
            own.stdout.contains(tool["name"].as_str().unwrap()),
            "{own:?}"
        );
    }
    assert!(!env.path("volumes").exists());
}

#[test]
fn wrong_tool_usage_prints_only_error() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.run("tools --dialect x").seen(&env), @r"
    error: invalid value 'x' for '--dialect <plan-tool|plan-manager|notebook|tasks|all|control>': must be one of plan-tool, plan-manager, notebook, tasks, all, control

    For more information, try '--help'.
    exit 2
    ");
    let none = env.run("tool");
    assert_eq!((none.code, none.stdout.as_str()), (Some(2), ""), "{none:?}");
    assert!(!env.path("volumes").exists());
}

/// A script uses each of these in the same way: it reads one line of JSON and checks the exit code.
#[test]
fn invalid_tool_call_answers_in_dialect_format() {
    let env = TestEnv::new();
    let answer = |args: &[&str]| {
        let ran = env.run([&["tool"], args].concat());
        assert_eq!(
            (ran.code, ran.stdout.lines().count()),
            (Some(1), 1),
            "{ran:?}"
        );
        parsed(&ran)
    };
    let nope = answer(&["Nope"]);
    has(nope.to_string(), "here is no tool `Nope`");
    assert_eq!(
        answer(&["TaskCreat"]),
        json!({"result": null, "reason": "there is no tool `TaskCreat`; is `TaskCreate` meant?"})
    );
    assert_eq!(
        answer(&["TaskGet", "{}", "--dialect", "plan-manager"])["error"]["code"],
        "INVALID_ARGUMENT"
    );
    let other = answer(&["getPlan", "{}", "--dialect", "notebook"]);
    assert_eq!(other["metadata"]["error_code"], "UNKNOWN_TOOL");
    let expected = "There is no tool 'getPlan'. The dialect 'plan-manager' has it.";
    assert_eq!(other["result"], expected);
    assert!(!env.path("volumes").exists());
    for (tool, said) in [
        ("addTask", "/error/message"),
        ("TaskCreate", "/reason"),
        ("create_plan", "/result"),
        ("get_task", "/reason"),
    ] {
        for broken in ["{\"a\": ", "[1, 2]", "nonsense", ""] {
            let answer = answer(&[tool, broken]);
            let said = answer.pointer(said).and_then(Value::as_str);
            let said = said.unwrap_or_else(|| panic!("{tool} {broken}: {answer}"));
            has(said, "not an object");
            assert_eq!(
                said.contains("which is no JSON (EOF"),
                broken.starts_with('{'),
                "{said}"
            );
        }
    }
    let plans = env.run("plans --all --json");
    plans.lacks_stdout("\"id\"");
}

#[test]
fn readme_script_reads_every_answer() {
    let env = TestEnv::new();
    let readme = include_str!("../../docs/tools.md");
    let (_, script) = readme.split_once("```python\n").expect("the script");
    let (script, _) = script.split_once("\n```").expect("its end");
    let script = format!(
        "{script}\nprint(call(\"Nope\"))\nprint(call(\"completeTask\", task_id=7)[\"error\"][\"code\"])\n"
    );
    let bin = env.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let link = bin.join("plan-agent");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_plan-agent"), link).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut python = std::process::Command::new("python3");
    python
        .args(["-c", &script])
        .current_dir(env.path("."))
        .env("HOME", env.path("."))
        .env("PATH", format!("{}:{path}", bin.display()));
    let ran = match python.output() {
        Ok(ran) => ran,
        Err(error) => {
            return skip(&format!("there is no python3: {error}"));
        }
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(lines[0], "Started task 1: Build", "{ran:?}");
    has(lines[1], "here is no tool `Nope`");
    assert_eq!(lines[2], "INVALID_ARGUMENT", "{ran:?}");
}
