//! What a role in the process uses inside a real daemon: the tools of the plan for which it works, those of a server, and the
//! worktree of its task.

use super::*;
use crate::common::git::Project;

/// Returns a team of a clerk in the process with these steps, and a coder behind files.
fn clerk(tools: &str, steps: &str) -> String {
    format!(
        "name: Two
roles:
- id: clerk
  kind: agent
  description: Keeps the books.
  actions: [write_file, read_file]
  tools: [{tools}]
  concurrency: 2
  templates:
  - name: pass on
    matches: [pass]
    steps:
{steps}
- {{id: coder, kind: files, worker: external, description: Codes.}}
"
    )
}

const RUN: &str = "run --team team.yaml --plan pass.md --no-input";

#[test]
fn role_adds_task_to_parent_plan() {
    let scene = Scene::by_rules("run.max_parallel = 2\n");
    let steps = "    - {name: Note, tool: plan.TaskCreate, params: {subject: Mend the flag, description: It is broken., owner: coder}}
    - {name: Look, tool: plan.TaskList, params: {}}";
    let team = clerk("plan.TaskCreate, plan.TaskList", steps);
    scene.write("team.yaml", &team);
    scene.write("pass.md", &one_for("clerk"));
    let coder = scene.agent(|command| match command.field("assignee") {
        Some("coder") => Act::success("Mended."),
        _ => Act::Leave,
    });
    scene.exits(0, RUN);
    let status = scene.status();
    let tasks = status["tasks"].as_array().unwrap();
    let seen: Vec<_> = tasks
        .iter()
        .map(|task| ["name", "assignee", "status", "result"].map(|field| task[field].clone()))
        .collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[1], ["Mend the flag", "coder", "completed", "Mended."]);
    // The clerk's result shows what it saw: its own task in progress, and the new one.
    let said = seen[0][3].as_str().unwrap();
    has(said, ["in_progress", "Mend the flag"]);
    assert_eq!(coder.attempts().last(), Some(&(2, 1)));
    let log = scene.works("log");
    has(&log, ["task 2: added: Mend the flag", "role clerk"]);
    // The only plans are this one and the clerk's internal plan for its task.
    let plans = scene.works("plans --all");
    assert_eq!(plans.lines().count(), 2, "{plans}");
}

#[test]
fn role_reports_on_no_task_of_another() {
    let scene = Scene::by_rules("run.max_parallel = 2\nrun.max_attempts = 1\n");
    let steps =
        "    - {name: Close, tool: plan.TaskUpdate, params: {taskId: \"1\", status: completed}}";
    scene.write("team.yaml", &clerk("plan.TaskUpdate", steps));
    let task =
        |role: &str| format!("## Task of {role}\n\n- assignee: {role}\n\nPlease pass it.\n\n");
    let (coder, clerk) = (task("coder"), task("clerk"));
    let plan = format!("---\nname: Two\ngoal: Two\n---\n\n{coder}{clerk}");
    scene.write("pass.md", &plan);
    let _daemon = scene.leave(RUN.trim_end_matches(" --no-input"));
    let coder = scene.take_task(1);
    let (_, question) = scene.await_questions(1).remove(0);
    has(&question, "another agent works on task `1`");
    assert_eq!(scene.tasks()[0], "in_progress");
    scene.succeed(&coder, "done");
}

#[test]
fn role_uses_mcp_tools_and_reports_their_errors() {
    let program = env!("CARGO_BIN_EXE_plan-agent");
    let server = format!(
        "mcp.docs.command = ['{program}', 'mcp', '--dialect', 'tasks']\nrun.max_attempts = 1\n"
    );
    let scene = Scene::by_rules(&server);
    let steps = "    - {name: Note, tool: docs.TaskCreate, params: {subject: \"{{task.name}}\"}}
    - {name: Keep, action: write_file, params: {path: noted.json, content: \"{{steps.1.result}}\"}}
    - {name: Close, tool: docs.TaskUpdate, params: {taskId: \"9\", status: completed}}";
    let team = clerk("docs.TaskCreate, docs.TaskUpdate", steps);
    scene.write("team.yaml", &team);
    scene.write("pass.md", &one_for("clerk"));
    let ran = scene.run(RUN);
    // The server knows of no ninth task.
    assert_eq!(ran.code, Some(4), "{ran:?}");
    has(scene.read("volumes/workspace/noted.json"), "Pass it on");
    let reports = scene.texts("reports/processed", ".md").concat();
    has(&reports, ["status: FAILED", "Step 3, Close, failed: "]);
    // The server was started in the workspace and uses the store of the daemon, where its tasks are a plan of their own.
    assert_eq!(scene.tasks(), ["in_progress"]);
    has(scene.works("plans --all"), "(tasks)");
    assert!(!scene.env.path("volumes/workspace/volumes").exists());
    // It ended with the daemon.
    let there = scene.env.path("volumes/workspace");
    let ours = |cwd: &PathBuf| *cwd == there.canonicalize().unwrap();
    let of_server = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok())
            .filter(ours)
            .count()
    };
    wait_until("the server ends", || of_server() == 0);
}

#[test]
fn role_output_in_worktree_is_merged() {
    let config = "run.workspace = 'project'\nrun.isolation = 'worktree'\nrun.worktrees = 'volumes/worktrees'\nrun.max_parallel = 3\n";
    let scene = Scene::by_rules(config);
    let Some(project) = Project::new(&scene.env) else {
        return;
    };
    let steps = "    - {name: Read, action: read_file, params: {path: b.txt}}
    - {name: Write, action: write_file, params: {path: \"{{task.name}}.txt\", content: \"{{task.name}}, after {{steps.1.result}}\"}}";
    scene.write("team.yaml", &clerk("", steps));
    let task = |(name, more): (&str, &str)| format!("## {name}\n\n{more}\nPass it on.\n\n");
    let tasks = [
        ("left", "- assignee: clerk\n"),
        ("right", "- assignee: clerk\n"),
        ("both", "- assignee: coder\n- after: 1, 2\n"),
    ];
    let tasks: String = tasks.map(task).concat();
    let plan = format!("---\nname: Three\ngoal: Files\n---\n\n{tasks}");
    scene.write("pass.md", &plan);
    let before = project.of_the_person();
    // The coder's worktree contains what both have written in theirs.
    let coder = scene.agent(|command| {
        let folder = PathBuf::from(command.field("workspace").unwrap());
        match command.field("assignee") {
            Some("coder") => {
                let read = |name| fs::read_to_string(folder.join(name)).unwrap();
                fs::write(
                    folder.join("both.txt"),
                    read("left.txt") + &read("right.txt"),
                )
                .unwrap();
                Act::success("Both.")
            }
            _ => Act::Leave,
        }
    });
    scene.exits(0, RUN);
    assert_eq!(coder.attempts().last(), Some(&(3, 1)));
    let plan = plan_id(&scene);
    let result = |file: &str| project.git(["show", &format!("plan-agent/{plan}:{file}")]);
    // It is read from the commit, not from the person's changes.
    assert_eq!(result("left.txt").trim(), "left, after b");
    assert_eq!(result("right.txt").trim(), "right, after b");
    has(result("both.txt"), "right, after b");
    let span = format!("main..plan-agent/{plan}");
    let accepted = project.git(["log", "--first-parent", "--format=%s", &span]);
    assert_eq!(accepted.lines().count(), 3, "{accepted}");
    assert_eq!(project.of_the_person(), before);
    for number in ["1", "2"] {
        has(scene.works(["why", number]), "merged aside as ");
        let diff = scene.works(["diff", number]);
        let (own, other) = match number {
            "1" => ("left.txt", "right.txt"),
            _ => ("right.txt", "left.txt"),
        };
        has(&diff, own);
        lacks(&diff, other);
    }
    project.sound();
}
