//! A new user's experience with a team: `run` and `doctor` report all problems together, in the same words; and what to type.

use super::*;
use crate::common::env::lives;

/// Everything in it is wrong in a way that shows only in comparison with what exists.
const WRONG: &str = r#"
name: Wrong
roles:
- {id: coder, kind: files, worker: codex}
- {id: tester, kind: files, worker: {agent: command, argv: []}}
- {id: packer, kind: files, worker: {agent: command, argv: [./none.sh]}}
- {id: guard, kind: files, worker: nobody}
- id: reader
  kind: agent
  actions: [read_file, run_check, fly]
  tools: [plan.get_plan_status, docs.search]
  templates:
  - name: read
    matches: [read]
    steps:
    - {name: Read, action: read_file, params: {pth: README.md}}
    - {name: Check, action: run_check, params: {name: tset}}
    - {name: Look, tool: plan.get_plan_status, params: {plan: x}}
    - {name: Pack, ask: packer, description: Pack it.}
- {id: thinker, kind: agent}
"#;

/// Two workflows, and a role for an outside worker.
const TEAM: &str = r#"
name: Two
roles:
- {id: coder, kind: files, worker: external}
- {id: tester, kind: files, worker: external, folder: own}
workflows:
- id: feature
  name: "Feature {{feature}}"
  parameters:
    feature: {type: string}
    note: {type: string, default: ""}
  steps:
  - step_id: all
    tasks:
    - {task_id: code, name: "Code {{feature}}", assignee: coder, description: "Code it. {{note}}"}
- id: chore
  name: Chore
  steps:
  - step_id: all
    tasks:
    - {task_id: chore, name: Chore, description: Do it.}
"#;

/// Returns the problems of a text, without their introduction.
fn problems(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let told = line.strip_prefix("error: ");
        told.or_else(|| line.strip_prefix("!!  team       "))
    });
    lines.map(str::to_owned).collect()
}

#[test]
fn run_and_doctor_report_all_team_problems() {
    let scene = Scene::by_rules("checks.test.run = ['true']\nmcp.docs.command = ['false']\n");
    scene.write("team.yaml", WRONG);
    let ran = scene.exits(2, "run goal --team team.yaml");
    insta::assert_snapshot!(scene.env.normal(&ran.stderr), @r#"
    error: team.yaml:4:8: the role `coder`: the coding agent `codex` is not installed
    Hint: `npm install -g @openai/codex`, or choose another one: `plan-agent doctor` shows which there are
    error: team.yaml:5:38: the worker `command` has no program
    Hint: write `worker: {agent: command, argv: [my-agent, "{prompt_file}"]}`
    error: team.yaml:6:8: the role `packer`: there is no program `./none.sh`
    Hint: give its path, or install it where the PATH leads
    error: team.yaml:7:8: the role `guard` names the worker `nobody`, which is not there
    Hint: known are claude, codex, gemini, opencode, aider, command, relay, shell, external
    error: team.yaml:8:7: the role `reader` names the action `fly`, which is not there
    Hint: known are ask, read_file, write_file, run_check
    error: team.yaml:16:28: the role `reader`, template `read`, step 1: `read_file`: `pth` is no field; known are path
    error: team.yaml:17:29: there is no check `tset`
    Hint: did you mean `test`?
    error: team.yaml:18:26: the role `reader`, template `read`, step 3: `plan.get_plan_status`: `plan` is no field; known are plan_id
    error: team.yaml:20:8: the role `thinker` works in this process and needs a language model
    Hint: choose another `[llm] provider` than "none", give it templates without the action `ask`, or make it `kind: files`
    "#);
    assert!(!scene.env.path("volumes").exists());
    let doctor = scene.exits(1, "doctor --team team.yaml");
    let (told, found) = (problems(&ran.stderr), problems(&doctor.stdout));
    let missing: Vec<_> = told.iter().filter(|told| !found.contains(told)).collect();
    assert_eq!(missing, [] as [&String; 0], "{doctor:?}");
    // A server is started only if everything else is right; doctor tests it in any case.
    let more: Vec<_> = found.iter().filter(|found| !told.contains(found)).collect();
    let [server] = more[..] else {
        panic!("{more:?}");
    };
    has(server, "the MCP server `docs`");
    assert!(!scene.env.path("volumes").exists(), "doctor makes nothing");
}

#[test]
fn missing_agent_is_not_reported_as_missing_model() {
    let scene = Scene::new("");
    let team = "\
name: Two
roles:
- {id: architect, kind: agent}
- {id: coder, kind: files, worker: codex}
";
    scene.write("team.yaml", team);
    scene.write("alone.yaml", &team.replace(", worker: codex", ""));
    let run = |team: &str, agent: &str| {
        let ran = scene.exits(2, ["run", "goal", "--team", team, "--agent", agent]);
        ran.stderr
    };
    // `claude` would also have served as the model.
    insta::assert_snapshot!(run("alone.yaml", "claude"), @r"
    error: the coding agent `claude` is not installed
    Hint: `npm install -g @anthropic-ai/claude-code`, or choose another one: `plan-agent doctor` shows which there are
    ");
    insta::assert_snapshot!(run("team.yaml", "claude"), @r"
    error: the coding agent `claude` is not installed
    Hint: `npm install -g @anthropic-ai/claude-code`, or choose another one: `plan-agent doctor` shows which there are
    error: team.yaml:4:8: the role `coder`: the coding agent `codex` is not installed
    Hint: `npm install -g @openai/codex`, or choose another one: `plan-agent doctor` shows which there are
    ");
    // `aider` would not.
    insta::assert_snapshot!(run("alone.yaml", "aider"), @r"
    error: the coding agent `aider` is not installed
    Hint: `python3 -m pip install aider-chat`, or choose another one: `plan-agent doctor` shows which there are
    error: alone.yaml:3:8: the role `architect` works in this process and needs a language model
    Hint: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or log in with a coding agent, give it templates without the action `ask`, or make it `kind: files`
    ");
}

#[test]
fn run_and_doctor_validate_mcp_tools() {
    let ours = env!("CARGO_BIN_EXE_plan-agent");
    let config = format!("mcp.docs.command = ['{ours}', 'mcp', '--dialect', 'tasks']\n");
    let scene = Scene::by_rules(&config);
    scene.write("team.yaml", WITH_SERVER);
    scene.write("plan.md", "## Note\n\n- assignee: reader\n\nnote it\n");
    scene.exits(0, "doctor --team team.yaml");
    let wrong = WITH_SERVER.replace("{subject:", "{subjct:");
    let wrong = wrong.replace("[docs.TaskCreate]", "[docs.TaskCreate, docs.Nothing]");
    scene.write("team.yaml", &wrong);
    let doctor = scene.exits(1, "doctor --team team.yaml");
    let ran = scene.exits(2, "run --plan plan.md --team team.yaml");
    assert_eq!(problems(&ran.stderr), problems(&doctor.stdout));
    assert_eq!(problems(&ran.stderr).len(), 2, "{ran:?}");
}

#[test]
fn next_daemon_ends_leftover_mcp_server() {
    let ours = env!("CARGO_BIN_EXE_plan-agent");
    // The end of its input does not end it.
    let script = format!("echo $$ >> ../pids; {ours} mcp --dialect tasks; sleep 1000");
    let config = format!("mcp.docs.command = ['sh', '-c', '{script}']\n");
    let scene = Scene::by_rules(&config);
    scene.write("team.yaml", WITH_SERVER);
    scene.write("plan.md", "## Code\n\n- assignee: coder\n\nCode it.\n");
    let daemon = scene.leave("run --plan plan.md --team team.yaml");
    let pids = || -> Vec<String> {
        let pids = scene.read("volumes/pids");
        pids.lines().map(str::to_owned).collect()
    };
    let first = pids().remove(0);
    drop(daemon);
    scene.await_end();
    assert!(lives(&first), "nobody has ended it");
    let daemon = scene.leave("resume --team team.yaml");
    wait_until("it has been ended", || !lives(&first));
    let second = pids().pop().unwrap();
    assert!(first != second && lives(&second));
    let marks = |pid: &str| {
        let name = format!("docs.server.{pid}");
        scene.names("active").contains(&name)
    };
    assert!(marks(&second) && !marks(&first));
    scene.works("stop");
    wait_until("the server ends with its daemon", || !lives(&second));
    assert!(!marks(&second));
    drop(daemon);
}

#[test]
fn required_parameter_cannot_be_empty() {
    let scene = Scene::by_rules("run.team = 'team.yaml'\n");
    scene.write("team.yaml", TEAM);
    let plan = ["plan", "--workflow", "feature", "--param"];
    for empty in ["feature=", "feature=  "] {
        let ran = scene.exits(2, [&plan[..], &[empty]].concat());
        insta::allow_duplicates! {
            insta::assert_snapshot!(scene.env.normal(&ran.stderr), @r#"
    error: [FOLDER]/team.yaml: the parameter `feature` is empty
    Hint: `plan-agent plan --workflow feature --param feature=TEXT`
    "#);
        }
    }
    // A parameter with an empty default may be set to an empty text.
    scene.works([&plan[..], &["feature=x", "--param", "note="]].concat());
}

#[test]
fn plan_makes_workflow_plan_and_resume_runs_it() {
    let scene = Scene::by_rules("");
    scene.write("team.yaml", TEAM);
    let ran = scene.exits(
        0,
        "plan --team team.yaml --workflow feature --param 'feature=a flag'",
    );
    ran.has_stdout(["Code a flag", "assignee: coder"]);
    let plan = plan_id(&scene);
    let resume = format!("`plan-agent resume {plan}` carries it out.");
    ran.has_stderr(&resume);
    let _agent = scene.agent(|_| Act::success("It is there."));
    scene.exits(0, ["resume", &plan]);
}

#[test]
fn run_without_goal_lists_workflows() {
    let scene = Scene::by_rules("");
    scene.write("team.yaml", TEAM);
    let ran = scene.exits(2, "run --team team.yaml");
    insta::assert_snapshot!(ran.stderr, @r#"
    error: there is neither a goal nor a workflow nor a plan file
    Hint: `plan-agent run --team team.yaml --workflow feature` (or chore), `plan-agent run --team team.yaml "what is to be reached"`, or `plan-agent run --team team.yaml --plan FILE`
    "#);
}

#[test]
fn task_without_matching_role_is_refused_and_shown() {
    let scene = Scene::by_rules("");
    scene.write("team.yaml", TEAM);
    scene.write(
        "plan.md",
        "## One\n\n- assignee: coder\n\nDo it.\n\n## Two\n\nDo it.\n",
    );
    let told = refusals(
        &scene,
        &[
            "run --team team.yaml --plan plan.md",
            "run --team team.yaml --workflow chore",
        ],
    );
    let doctor = scene.works("doctor --team team.yaml");
    let found = "--  team       team.yaml:21:8: the task `chore` of the workflow `chore` has no assignee: only an agent for all takes it";
    has(&doctor, found);
    insta::assert_snapshot!(told, @r#"
    $ run --team team.yaml --plan plan.md
    error: plan.md: the task `Two` has no assignee, and every role of the team takes only its own tasks
    Hint: name a role as its `assignee` (coder, tester), or an agent for all: --agent
    $ run --team team.yaml --workflow chore
    error: team.yaml#chore: the task `Chore` has no assignee, and every role of the team takes only its own tasks
    Hint: name a role as its `assignee` (coder, tester), or an agent for all: --agent
    "#);
    assert!(!scene.env.path("volumes").exists());
    // A worker for every role takes it.
    let agent = scene.agent(|command| match command.task() {
        1 => Act::success("It is there."),
        _ => Act::Leave,
    });
    let run = ["run", "--team", "team.yaml", "--plan", "plan.md"];
    let all = ["--no-input", "--agent", "command", "--", "true"];
    let ran = scene.run([&run[..], &all].concat());
    assert!(agent.attempts().contains(&(1, 1)), "{ran:?}");
    let two = |scene: &Scene| scene.status()["tasks"][1]["attempts"].as_u64();
    assert!(two(&scene) > Some(0), "{ran:?}");

    // No worker takes a task that is added while the plan is carried out, and the program says so.
    let scene = Scene::by_rules("");
    scene.write("team.yaml", TEAM);
    scene.write("plan.md", "## One\n\n- assignee: coder\n\nDo it.\n");
    let daemon = scene.leave(run);
    let plan = plan_id(&scene);
    let task = r#"{"subject": "Two", "description": "Do it."}"#;
    scene.works(["tool", "TaskCreate", task, "--plan", &plan]);
    let status = scene.works("status");
    has(&status, "Two · for no role");
    has(&status, "every role of the team takes only its own tasks");
    let why = scene.works("why 2");
    let part = "it has no assignee: every role of the team takes only its own";
    has(&why, part);
    scene.works("stop");
    drop(daemon);
    let ran = scene.exits(0, "resume --detach --team team.yaml");
    ran.has_stderr("! task 2 without an assignee: every role");
    scene.works("stop");
}

#[test]
fn run_shows_command_for_external_worker() {
    let scene = Scene::by_rules("");
    scene.write("team.yaml", TEAM);
    scene.write("plan.md", "## One\n\n- assignee: tester\n\nDo it.\n");
    let run = "run --detach --team team.yaml --plan plan.md";
    let ran = scene.exits(0, run);
    insta::assert_snapshot!(scene.env.normal(&ran.stderr), @r#"
    the role `coder` is external, its commands are in `[FOLDER]/volumes/commands/pending`: `plan-agent worker --role coder --team team.yaml --agent claude`, or another agent, takes them
    the role `tester` is external, its commands are in `[FOLDER]/volumes/roles/tester/commands/pending`: `plan-agent worker --role tester --team team.yaml --agent claude`, or another agent, takes them
    "#);
    scene.await_events("issued", 1);
    for words in [vec!["pause"], vec!["stop"]] {
        has(scene.works(&words), "` goes on where it was");
    }
    scene.await_end();
}

#[test]
fn model_cannot_choose_workflow_with_unassigned_task() {
    let chosen = |workflow: &str, parameters: Value| {
        Answer::Json(json!({
            "name": "", "description": "", "workflow": workflow, "parameters": parameters, "tasks": [],
        }))
    };
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "plan" if asked.prompt().contains("`Chore` has no assignee") => {
            chosen("feature", json!([{"name": "feature", "value": "a flag"}]))
        }
        "plan" => chosen("chore", json!([])),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "run.team = 'team.yaml'\n");
    scene.write("team.yaml", TEAM);
    let _agent = scene.agent(|_| Act::success("It is there."));
    scene.works("run 'Do the chores' --json");
    assert_eq!(scene.status()["plan"]["name"], "Feature a flag");
    assert_eq!(server.count("plan"), 2);
}
