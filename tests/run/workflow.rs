//! Team files from outside: plans made from workflows, refusals before anything starts, and how a model uses a team.

use super::*;

/// Two roles for outside workers, and a workflow.
const TEAM: &str = r#"
name: Team
roles:
- {id: coder, kind: files, worker: external, description: Writes code., prompt: coder.md}
- {id: writer, kind: files, worker: external, description: Writes words.}
workflows:
- id: feature
  name: "Feature: {{feature}}"
  description: Builds {{feature}}.
  parameters:
    feature: {type: string, description: what is to be built}
    files: {type: integer, description: how many files, default: 1}
  steps:
  - step_id: build
    name: Build
    tasks:
    - {task_id: code, name: "Code {{feature}}", assignee: coder, description: "Make {{files}} file for {{feature}}.", checks: [there]}
    - {task_id: docs, name: Docs, assignee: writer, description: Describe it., optional: true, dependencies: [code]}
  - step_id: ship
    name: Ship
    tasks:
    - {task_id: ship, name: Ship, assignee: coder, description: Ship it., dependencies: [docs]}
"#;

const CHECK: &str = "[checks]\nthere.run = ['true']\n";

fn with_team(scene: &Scene) {
    scene.write("team.yaml", TEAM);
    scene.write("coder.md", "You write short code.\n");
}

#[test]
fn workflow_becomes_plan_without_model() {
    let scene = Scene::by_rules(&format!("run.team = 'team.yaml'\n{CHECK}"));
    with_team(&scene);
    let agent = scene.agent(|_| Act::success("It is there."));
    scene.works([
        "run",
        "--workflow",
        "feature",
        "--param",
        "feature=a \"flag\": {{files}}",
        "--json",
    ]);
    let status = scene.status();
    assert_eq!(status["plan"]["name"], "Feature: a \"flag\": {{files}}");
    assert_eq!(status["plan"]["goal"], "Feature: a \"flag\": {{files}}");
    let tasks = status["tasks"].as_array().unwrap();
    let all: Vec<_> = tasks
        .iter()
        .map(|task| [&task["key"], &task["assignee"], &task["dependencies"]])
        .collect();
    let expected = json!([
        ["code", "coder", []],
        ["docs", "writer", [1]],
        ["ship", "coder", [2]]
    ]);
    assert_eq!(json!(all), expected);
    let command = agent.command(1, 1);
    assert_eq!(command.field("assignee"), Some("coder"));
    has(command.body(), "Make 1 file for a \"flag\": {{files}}.");
    has(command.body(), "You write short code.");
    lacks(agent.command(2, 1).body(), "short code");
    let plan: Value = scene.json("show --format json");
    has(plan.to_string(), "team.yaml#feature");
    let structure = scene.works([
        "tool",
        "get_plan_structure",
        &json!({"plan_id": status["plan"]["id"]}).to_string(),
    ]);
    let part = "\"workflow_template_source\":\"team.yaml#feature\"";
    has(&structure, part);
}

#[test]
fn workflow_problems_have_hints_and_leave_no_files() {
    let scene = Scene::by_rules("");
    with_team(&scene);
    scene.write(
        "broken.yaml",
        "roles:\n- {id: coder, kind: fils}\n- {id: coder}\nworkflow: []\n",
    );
    scene.write(
        "nobody.yaml",
        "roles:\n- {id: coder, kind: files}\n- {id: writer, kind: files, worker: codx}\n",
    );
    scene.write(
        "plan.md",
        "## One\n- assignee: coder\n\n## Two\n- assignee: codre\n",
    );
    let mut told = refusals(
        &scene,
        &[
            "run --workflow feature",
            "run --team team.yaml --workflow feature",
            "run --team none.yaml goal",
            "run --team broken.yaml goal",
            "run --team nobody.yaml goal",
        ],
    );
    scene.write(
        "config.toml",
        &format!("llm.provider = 'none'\nrun.team = 'team.yaml'\n{CHECK}"),
    );
    told += &refusals(
        &scene,
        &[
            "run --workflow featur",
            "run --workflow feature --param fature=x --param files=two",
            "run --workflow feature --param feature=x --param feature=y",
            "run --plan plan.md",
            "worker --role code --agent shell",
        ],
    );
    fs::remove_file(scene.env.path("coder.md")).unwrap();
    told += &scene.run("run goal").stderr;
    scene.write("team.yaml", "roles:\n- {id: solo, kind: files}\n");
    told += &scene.run("run goal").stderr;
    insta::assert_snapshot!(scene.env.normal(&told), @r#"
    $ run --workflow feature
    error: there is no team to find the workflow `feature` in
    Hint: name the team: --team FILE, or in config.toml: [run] team
    $ run --team team.yaml --workflow feature
    error: team.yaml:17:128: there is no check `there`
    Hint: define it in config.toml, in a project .plan-agent/config.toml: [checks] there = { run = ["…"] }
    $ run --team none.yaml goal
    error: failed to read the team file `none.yaml`: No such file or directory (os error 2)
    Hint: examples/team.yaml shows how one looks
    $ run --team broken.yaml goal
    error: broken.yaml:2:21: `kind` is `fils`
    Hint: did you mean `files`?
    error: broken.yaml:3:4: the role has no `kind`
    error: broken.yaml:3:8: the id `coder` is used twice, first on line 2
    error: broken.yaml:4:1: unknown field `workflow`
    Hint: did you mean `workflows`?
    $ run --team nobody.yaml goal
    error: nobody.yaml:2:8: the role `coder` has no agent
    Hint: write `worker: claude`, or another agent; `worker: external` if it is started elsewhere; or name one for all: --agent
    error: nobody.yaml:3:8: the role `writer` names the worker `codx`, which is not there
    Hint: did you mean `codex`?
    $ run --workflow featur
    error: there is no workflow `featur` in `[FOLDER]/team.yaml`
    Hint: did you mean `feature`?
    $ run --workflow feature --param fature=x --param files=two
    error: [FOLDER]/team.yaml: the workflow `feature` has no parameter `fature`
    Hint: did you mean `feature`?
    error: [FOLDER]/team.yaml: the parameter `feature` is missing
    Hint: `feature`: what is to be built
    error: [FOLDER]/team.yaml: the parameter `files` is `two`, not of type integer
    Hint: `files`: how many files
    Hint: `plan-agent run --workflow feature --param feature=TEXT --param files=1`
    $ run --workflow feature --param feature=x --param feature=y
    error: the parameter `feature` is given twice
    Hint: `plan-agent run --workflow feature --param feature=y`
    $ run --plan plan.md
    error: plan.md: the task `Two` is for `codre`, a role that the team does not have
    Hint: did you mean `coder`?
    $ worker --role code --agent shell
    error: there is no role `code` in `[FOLDER]/team.yaml`
    Hint: did you mean `coder`?
    error: [FOLDER]/team.yaml:4:8: the prompt `coder.md` of the role `coder` cannot be read: No such file or directory (os error 2)
    Hint: write it, relative to the folder of the team file, or take `prompt` out
    error: [FOLDER]/team.yaml:2:8: the role `solo` has no agent
    Hint: write `worker: claude`, or another agent; `worker: external` if it is started elsewhere; or name one for all: --agent
    "#);
    assert!(!scene.env.path("volumes").exists());
}

#[test]
fn resume_refuses_plan_with_removed_roles() {
    let scene = Scene::by_rules(CHECK);
    with_team(&scene);
    let daemon = scene.leave("run --team team.yaml --workflow feature --param feature=x");
    scene.await_any();
    scene.works("stop");
    drop(daemon);
    let other = TEAM.replace("coder", "coders");
    scene.write("other.yaml", &other.replace("coders.md", "coder.md"));
    let ran = scene.exits(2, "resume --team other.yaml");
    insta::assert_snapshot!(ran.stderr, @"
    error: other.yaml: task 1 is for `coder`, a role that the team does not have
    Hint: did you mean `coders`?
    error: other.yaml: task 3 is for `coder`, a role that the team does not have
    Hint: did you mean `coders`?
    ");
    let _agent = scene.agent(|_| Act::success("It is there."));
    scene.exits(0, "resume --team team.yaml");
}

#[test]
fn doctor_validates_team() {
    let mut scene = Scene::by_rules("");
    with_team(&scene);
    scene.env.show_script("claude", "echo 9.9.9");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/team.yaml");
    fs::copy(example, scene.env.path("example.yaml")).unwrap();
    scene.write("nobody.yaml", "roles:\n- {id: coder, kind: files}\n- {id: writer, kind: files, worker: codex}\n- {id: one, kind: files, worker: {agent: command, argv: [./none.sh]}}\n");
    let mut told = String::new();
    for (team, code) in [
        ("example.yaml", 1),
        ("team.yaml", 1),
        ("nobody.yaml", 1),
        ("none.yaml", 1),
    ] {
        let ran = scene.run(["doctor", "--team", team]);
        assert_eq!(ran.code, Some(code), "{team}: {ran:?}");
        let lines = ran.stdout.lines();
        let lines = lines.skip_while(|line| line.get(4..8) != Some("team"));
        told += &lines.map(|line| format!("{line}\n")).collect::<String>();
    }
    insta::assert_snapshot!(told, @r#"
    ok  team       3 roles in example.yaml, 1 workflow: feature
    !!  team       example.yaml:9:7: the role `architect` works in this process and needs a language model
                   Hint: choose another `[llm] provider` than "none", give it templates without the action `ask`, or make it `kind: files`
    !!  team       example.yaml:33:7: the role `reviewer` works in this process and needs a language model
                   Hint: choose another `[llm] provider` than "none", give it templates without the action `ask`, or make it `kind: files`
    ok  role       coder: claude
    !!  team       team.yaml:17:128: there is no check `there`
                   Hint: define it in config.toml, in a project .plan-agent/config.toml: [checks] there = { run = ["…"] }
    ok  team       3 roles in nobody.yaml
    !!  team       nobody.yaml:3:8: the role `writer`: the coding agent `codex` is not installed
                   Hint: `npm install -g @openai/codex`, or choose another one: `plan-agent doctor` shows which there are
    !!  team       nobody.yaml:4:8: the role `one`: there is no program `./none.sh`
                   Hint: give its path, or install it where the PATH leads
    --  role       coder: no agent of its own
                   Hint: write `worker: claude`, or another agent, or name one for all: `run --agent`
    !!  team       failed to read the team file `none.yaml`: No such file or directory (os error 2)
                   Hint: examples/team.yaml shows how one looks
    "#);
}

/// The same team without the check.
fn without_checks() -> String {
    TEAM.replace(", checks: [there]", "")
}

#[test]
fn model_chooses_workflow_and_corrects_parameters() {
    for shape in SHAPES {
        let server = LlmServer::start(|asked| match asked.kind.as_str() {
            "plan" if asked.prompt().contains("`feature` is missing") => Answer::Json(json!({
                "name": "", "description": "", "workflow": "feature",
                "parameters": [{"name": "feature", "value": "a flag"}], "tasks": [],
            })),
            "plan" => Answer::Json(json!({
                "name": "", "description": "", "workflow": "feature", "parameters": [], "tasks": [],
            })),
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, shape, "run.team = 'team.yaml'\n");
        scene.write("team.yaml", &without_checks());
        scene.write("coder.md", "You write short code.");
        let agent = scene.agent(|_| Act::success("It is there."));
        scene.works("run 'Build a flag' --json");
        let status = scene.status();
        assert_eq!(status["plan"]["goal"], "Build a flag");
        assert_eq!(status["plan"]["name"], "Feature: a flag");
        assert_eq!(agent.command(1, 1).field("assignee"), Some("coder"));
        let plan = scene.works("show --format json");
        has(&plan, "team.yaml#feature");
        assert_eq!(server.count("plan"), 2);
        let prompt = server.asked()[0].prompt().to_owned();
        for part in [
            "- coder: Writes code.",
            "- writer: Writes words.",
            "parameter feature (string)",
        ] {
            assert!(prompt.contains(part), "{part} in {prompt}");
        }
    }
}

#[test]
fn model_assigns_tasks_only_to_team_roles() {
    let server = LlmServer::start(|asked| {
        let task = |role: &str| {
            let mut task = a_task("Write", &[]);
            task["assignee"] = json!(role);
            task
        };
        let planned = |role: &str| {
            Answer::Json(json!({
                "name": "Own", "description": "", "workflow": null, "parameters": [], "tasks": [task(role)],
            }))
        };
        match asked.kind.as_str() {
            "plan" if asked.prompt().contains("no role `boss`") => planned("writer"),
            "plan" => planned("boss"),
            "audit" if asked.prompt().contains("2 completed") => goal_met(asked),
            "audit" => goal_open("More.", &[task("coder")]),
            _ => all_well(asked),
        }
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    scene.write("team.yaml", &without_checks());
    scene.write("coder.md", "You write short code.");
    let agent = scene.agent(|_| Act::success("It is there."));
    scene.works("run --team team.yaml 'Write something' --json");
    assert_eq!(server.count("plan"), 2);
    let assignees = [1, 2].map(|task| agent.command(task, 1).field("assignee").map(str::to_owned));
    let expected = [Some("writer".to_owned()), Some("coder".to_owned())];
    assert_eq!(assignees, expected);
}

#[test]
fn failing_optional_task_is_skipped_without_question() {
    let scene = Scene::by_rules("run.team = 'team.yaml'\n");
    scene.write("team.yaml", &without_checks());
    scene.write("coder.md", "You write short code.");
    let agent = scene.agent(|command| match command.task() {
        2 => Act::failed("There is nothing to describe."),
        _ => Act::success("It is there."),
    });
    scene.works("run --no-input --workflow feature --param 'feature=a flag' --json");
    assert_eq!(scene.tasks(), ["completed", "skipped", "completed"]);
    assert_eq!(agent.attempts(), [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1)]);
    assert_eq!(scene.names("questions/pending"), [] as [&str; 0]);
    assert_eq!(scene.names("questions/processed"), [] as [&str; 0]);
    let reason = "; optional, and it failed 3 times in a row";
    let status = scene.status();
    let result = status["tasks"][1]["result"].as_str().unwrap();
    assert!(result.ends_with(reason), "{result}");
    has(scene.works("why 2"), "optional, and it failed 3 times");
}
