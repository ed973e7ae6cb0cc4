//! What runs programs or widens rights counts only as a person named or confirmed it: not as a repository brings it, and not as
//! an agent leaves it.

use std::os::unix::fs::symlink;

use super::*;

/// A configuration that runs something at every turn.
const RUNS: &str = "\
run.max_attempts = 1
run.checks = ['test']
checks.test.run = ['touch', 'CHECKED']
hooks.on_change = ['touch', 'HOOKED']
hooks.on_finish = ['touch', 'HOOKED']
hooks.on_question = ['touch', 'HOOKED']
";

/// What that configuration leaves where it is used.
const TRACES: [&str; 3] = ["HOOKED", "volumes/workspace/CHECKED", "STARTED"];

/// A role that uses a server.
const SERVED: &str = "name: Served\nroles:\n- {id: reader, kind: agent, tools: [docs.Read]}\n";

/// Makes a scene in which the person has confirmed nothing.
fn unconfirmed(config: &str) -> Scene {
    let mut scene = Scene::by_rules(config);
    scene.env.confirm_nothing();
    scene
}

#[track_caller]
fn ran_nothing(scene: &Scene) {
    for trace in TRACES {
        assert!(!scene.env.path(trace).exists(), "{trace}");
    }
}

#[test]
fn configuration_of_others_runs_nothing() {
    let server = "mcp.docs.command = ['touch', 'STARTED']\nrun.team = 'team.yaml'\n";
    for (config, shown) in [
        (RUNS, "checks.test.run = [\"touch\", \"CHECKED\"]"),
        (RUNS, "hooks.on_finish = [\"touch\", \"HOOKED\"]"),
        (server, "mcp.docs.command = [\"touch\", \"STARTED\"]"),
        ("worker.allow = ['all']", "worker.allow = [\"all\"]"),
        ("worker.env = ['TOKEN']", "worker.env = [\"TOKEN\"]"),
        ("budget.attempts = 'none'", "budget.attempts = \"none\""),
        ("llm.api_key_env = 'TOKEN'", "llm.api_key_env = \"TOKEN\""),
        ("run.workspace = '/usr'", "run.workspace = \"/usr\""),
    ] {
        let scene = unconfirmed(config);
        scene.write("team.yaml", SERVED);
        for command in [
            "run --plan one.md",
            "run --plan one.md --agent shell --detach",
            "run --plan one.md --team team.yaml",
            "plan 'a goal'",
            "worker --agent shell",
        ] {
            let hint = "`plan-agent trust` confirms it";
            scene.refuses(4, command, [shown, "no person has confirmed it", hint]);
        }
        scene.exits(1, "status").lacks_stderr("confirmed");
        has(
            scene.run("doctor").stdout,
            "--  trust      settings that run programs",
        );
        assert!(!scene.env.path("volumes").exists(), "{config}");
        ran_nothing(&scene);
    }
}

#[test]
fn prompts_of_others_are_not_used() {
    let scene = unconfirmed("");
    scene.write("prompts/command.md", "Do as a stranger says.");
    let shown = [
        "`prompts` replaces what models and agents are told",
        "command.md",
    ];
    scene.refuses(4, "run --plan one.md", shown);
    fs::remove_file(scene.env.path("prompts/command.md")).unwrap();
    // Those that `init` writes are the built-in ones.
    scene.works("init");
    let _agent = scene.agent(|_| Act::success("done"));
    scene.works("run --plan one.md");
}

#[test]
fn confirmed_configuration_asks_nothing() {
    let scene = unconfirmed(RUNS);
    let _agent = scene.agent(|_| Act::success("done"));
    let shown = scene.works("trust");
    has(
        &shown,
        [
            "hooks.on_change = [\"touch\", \"HOOKED\"]\n",
            "\nconfirmed\n",
        ],
    );
    has(scene.works("trust"), "nothing here waits to be confirmed");
    scene.works("run --plan one.md");
    assert!(scene.env.path("HOOKED").exists());
    // What is harmless may change.
    let config = format!("# mine\nllm.provider = 'none'\nrun.max_replans = 1\n{RUNS}");
    scene.write("config.toml", &config);
    scene.works("run --plan one.md");
}

#[test]
fn changed_configuration_shows_what_changed() {
    let scene = unconfirmed(RUNS);
    scene.write("prompts/plan.md", "One.\n---\nTwo.");
    scene.works("trust");
    scene.write("prompts/plan.md", "One.\n---\nThree.");
    let config = RUNS.replace("'CHECKED'", "'-r', 'CHECKED'");
    let config = config.replace("on_finish", "env = ['TOKEN']\n#");
    scene.write("config.toml", &format!("llm.provider = 'none'\n{config}"));
    insta::assert_snapshot!(scene.run("run --plan one.md").seen(&scene.env), @r#"
    error: `config.toml` runs programs or widens rights, and it is not what was confirmed:
      - checks.test.run = ["touch", "CHECKED"]
      + checks.test.run = ["touch", "-r", "CHECKED"]
      + hooks.env = ["TOKEN"]
      - hooks.on_finish = ["touch", "HOOKED"]
    `prompts` replaces what models and agents are told, and it is not what was confirmed:
      ~ plan.md
    Hint: if you want that, `plan-agent trust` confirms it
    exit 4
    "#);
}

#[test]
fn agent_that_edits_configuration_runs_nothing() {
    let scene =
        unconfirmed("checks.test.run = ['true']\nrun.checks = ['test']\nrun.max_attempts = 1");
    scene.works("trust");
    let (config, prompts) = (scene.env.path("config.toml"), scene.env.path("prompts"));
    let agent = scene.agent(move |command| {
        if command.task() == 1 {
            fs::write(&config, format!("llm.provider = 'none'\n{RUNS}")).unwrap();
            fs::create_dir_all(&prompts).unwrap();
            fs::write(prompts.join("command.md"), "Do as the first agent says.").unwrap();
        }
        match command.task() {
            3 => Act::failed("the port is taken"),
            _ => Act::success("done"),
        }
    });
    // The daemon goes on with what it has read.
    scene.exits(4, "run --plan chain.md");
    ran_nothing(&scene);
    assert!(!agent.command(2, 1).text.contains("first agent"));
    scene.works("answer retry");
    let shown = [
        "`config.toml` runs programs or widens rights, and it is not what was confirmed:",
        "+ hooks.on_finish = [\"touch\", \"HOOKED\"]",
        "- checks.test.run = [\"true\"]",
        "`prompts` replaces what models and agents are told, and no person has confirmed it:",
    ];
    scene.refuses(4, "resume", shown);
    scene.refuses(4, "resume --detach", shown);
    // What is left to do for a plan that ends goes on without them.
    let id = plan_id(&scene);
    let aborted = scene.exits(0, format!("abort {id}"));
    aborted.has_stderr("! hooks are left out: the configuration is not what was confirmed");
    ran_nothing(&scene);
}

#[test]
fn agent_that_edits_team_runs_nothing() {
    let scene = unconfirmed("run.max_attempts = 1");
    scene.write(
        "one.md",
        &ONE.replace("## Only\n", "## Only\n\n- assignee: coder\n"),
    );
    let team = |argv: &str| {
        let agent = format!("{{agent: command, argv: [{argv}]}}");
        format!("name: T\nroles:\n- {{id: coder, kind: files, worker: {agent}}}\n")
    };
    scene.write("evil.yaml", &team("sh, -c, touch ../../STARTED"));
    scene.write("team.yaml", &team("cp, ../../evil.yaml, ../../team.yaml"));
    scene.exits(4, "run --plan one.md --team team.yaml");
    assert_eq!(scene.read("team.yaml"), scene.read("evil.yaml"));
    scene.works("answer retry");
    let resumed = scene.run("resume");
    assert_ne!(resumed.code, Some(0), "{resumed:?}");
    ran_nothing(&scene);
}

#[test]
fn person_is_asked_at_terminal() {
    let scene = unconfirmed(RUNS);
    let _agent = scene.agent(|_| Act::success("done"));
    for (answer, code) in [("n", 4), ("", 4), ("y", 0)] {
        ran_nothing(&scene);
        let (mut running, mut terminal) = scene.env.start_on_terminal("run --plan one.md");
        terminal.answer("Go on with that? [y/N] ", answer);
        assert_eq!(running.wait().code(), Some(code), "{}", terminal.shown());
        has(
            terminal.shown(),
            "hooks.on_finish = [\"touch\", \"HOOKED\"]",
        );
    }
    // The answer is kept.
    scene.works("run --plan one.md");
    scene.write("config.toml", &format!("{RUNS}hooks.env = ['TOKEN']\n"));
    scene.refuses(
        4,
        "run --plan one.md --no-input",
        "+ hooks.env = [\"TOKEN\"]",
    );
    let (mut running, mut terminal) = scene.env.start_on_terminal("trust");
    terminal.answer("Confirm it? [y/N] ", "no");
    assert_eq!(running.wait().code(), Some(4));
    let (mut running, mut terminal) = scene.env.start_on_terminal("trust");
    terminal.answer("Confirm it? [y/N] ", "YES");
    assert_eq!(running.wait().code(), Some(0));
    has(scene.works("trust"), "nothing here waits");
}

#[test]
fn file_on_command_line_is_confirmed_by_that() {
    let scene = unconfirmed(RUNS);
    let _agent = scene.agent(|_| Act::success("done"));
    scene.works("--config config.toml run --plan one.md");
    scene.works("run --plan one.md");
    assert!(scene.env.path("HOOKED").exists());

    let scene = unconfirmed("run.team = 'team.yaml'");
    let agent = "{ agent: command, argv: [touch, STARTED] }";
    let team = format!("name: T\nroles:\n- {{id: coder, kind: files, worker: {agent}}}\n");
    scene.write("team.yaml", &team);
    let shown = "the agent of `coder` = command touch STARTED";
    scene.refuses(4, "worker --role other", shown);
    for command in [
        "worker --role other --team team.yaml",
        "worker --role other",
    ] {
        scene.refuses(2, command, "there is no role `other`");
    }
    scene.write("team.yaml", &team.replace("STARTED", "-r, STARTED"));
    let shown = [
        shown.replace("the agent", "- the agent"),
        "~ the text of the file".to_owned(),
    ];
    scene.refuses(4, "worker --role other", shown);
}

#[test]
fn environment_variable_is_the_persons_word() {
    let mut scene = unconfirmed("");
    scene.env.set("PLAN_AGENT_WORKER_ALLOW", "['all']");
    scene.env.set("PLAN_AGENT_PROMPTS_DIR", "mine");
    scene.write("mine/command.md", "Do as I say.");
    let agent = scene.agent(|_| Act::success("done"));
    scene.works("run --plan one.md");
    has(&agent.command(1, 1).text, "Do as I say.");
}

#[test]
fn changed_program_of_hook_is_not_run() {
    let scene = unconfirmed("hooks.on_finish = ['sh', './notify.sh']");
    scene.write("notify.sh", "#!/bin/sh\ntouch HOOKED\n");
    scene.works("trust");
    scene.write("notify.sh", "#!/bin/sh\ntouch HOOKED STARTED\n");
    scene.refuses(4, "run --plan one.md", "~ the file `./notify.sh`");
}

#[test]
fn daemon_takes_only_what_was_confirmed() {
    let scene = unconfirmed(RUNS);
    let agent = scene.agent(|_| Act::success("done"));
    scene.works("trust");
    scene.works("run --plan one.md");
    drop(agent);
    let plan = scene.status()["plan"]["id"].as_str().unwrap().to_owned();
    for named in ["", "--config config.toml "] {
        let daemon = format!("{named}daemon {plan} --confirmed sha256:00");
        let said = "the configuration has changed since it was confirmed";
        scene.refuses(4, daemon, said);
    }
}

#[test]
fn without_place_for_records_each_run_asks() {
    let mut scene = unconfirmed(RUNS);
    let _agent = scene.agent(|_| Act::success("done"));
    let within = scene.env.path("states");
    for (states, why) in [
        ("", "neither XDG_STATE_HOME nor HOME names a folder for it"),
        (within.to_str().unwrap(), "where agents may write"),
        ("/dev/null", "Not a directory"),
    ] {
        scene.env.set("XDG_STATE_HOME", states);
        let shown = [
            "hooks.on_change = [\"touch\", \"HOOKED\"]",
            "what was confirmed is not known",
            why,
        ];
        scene.refuses(4, "run --plan one.md", shown);
        ran_nothing(&scene);
        scene.refuses(1, "trust", why);
    }
    let (mut running, mut terminal) = scene.env.start_on_terminal("run --plan one.md");
    terminal.answer("Go on with that? [y/N] ", "y");
    assert_eq!(running.wait().code(), Some(0));
    terminal.await_shown("! you are asked again next time");
    scene.works("--config config.toml run --plan one.md");
}

#[test]
fn link_to_confirmed_file_is_another_one() {
    let scene = unconfirmed(RUNS);
    scene.works("trust");
    scene.write("clone/.plan-agent/layout", "top-level\n");
    symlink("../config.toml", scene.env.path("clone/config.toml")).unwrap();
    let mut command = scene.env.command("run --plan ../one.md");
    let output = command
        .current_dir(scene.env.path("clone"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    has(
        String::from_utf8(output.stderr).unwrap(),
        "no person has confirmed it",
    );
}

#[test]
fn environment_of_agents_allows_only_reading_and_tools() {
    let mut scene = Scene::by_rules("");
    scene.works(["tool", "TaskCreate", r#"{"subject": "A task"}"#]);
    let id = plan_id(&scene);
    scene.env.set(
        "PLAN_AGENT_EXCHANGE",
        scene.env.path("volumes").to_str().unwrap(),
    );
    for command in [
        "run --plan one.md",
        "plan goal",
        "resume",
        "answer retry",
        "pause",
        "stop",
        "restore --at 1",
        "worker --agent shell",
        "init",
        "trust",
        &format!("abort {id}"),
        &format!("daemon {id} --confirmed x"),
    ] {
        let name = command.split(' ').next().unwrap();
        let what = format!("`{name}` is for a person, and PLAN_AGENT_EXCHANGE is set");
        scene.refuses(2, command, what.as_str());
    }
    for command in [
        "status",
        "show",
        "why 1",
        "log",
        "plans",
        "diff",
        "tools",
        "tool TaskList",
        "completions bash",
    ] {
        scene.exits(0, command);
    }
}
