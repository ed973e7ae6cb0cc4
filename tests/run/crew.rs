//! The roles of a team behind files: each with lanes and an agent of its own; a role that cannot work holds up no other role.

use super::*;

/// Reports its role, and how many of its role are at work at the same time. Acts as `NAME.does` says, if that file exists.
const WORKER: &str = r#"
who=$1
: > "$who.$$.at-work"
ls | grep -c "^$who\..*\.at-work" >> "$who.together"
[ -e "$who.does" ] && . ./"$who.does"
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nDone by %s.\n' "$who" > "$who.$$.part"
rm "$who.$$.at-work"
mv "$who.$$.part" "$2"
"#;

fn worker(who: &str) -> String {
    format!("{{agent: command, argv: [sh, worker.sh, {who}, \"{{report}}\"]}}")
}

fn scene(max_parallel: u32, roles: &str, plan: &[(&str, &str)]) -> Scene {
    scene_with(&format!("run.max_parallel = {max_parallel}\n"), roles, plan)
}

fn scene_with(config: &str, roles: &str, plan: &[(&str, &str)]) -> Scene {
    let scene = Scene::by_rules(config);
    scene.write("volumes/workspace/worker.sh", WORKER);
    scene.write("team.yaml", &format!("name: Team\nroles:\n{roles}"));
    let task = |(name, role): &(&str, &str)| match *role {
        "" => format!("## {name}\n\nMake it.\n\n"),
        role => format!("## {name}\n\n- assignee: {role}\n\nMake it.\n\n"),
    };
    let tasks: String = plan.iter().map(task).collect();
    scene.write("plan.md", &format!("# Parts\n\n{tasks}"));
    scene
}

fn role(id: &str, concurrency: u32) -> String {
    let worker = worker(id);
    format!("- id: {id}\n  kind: files\n  worker: {worker}\n  concurrency: {concurrency}\n")
}

fn results(scene: &Scene) -> Vec<String> {
    let status = scene.status();
    let tasks = status["tasks"].as_array().unwrap();
    let result = |task: &Value| task["result"].as_str().unwrap_or_default().to_owned();
    tasks.iter().map(result).collect()
}

const RUN: &str = "run --plan plan.md --team team.yaml";

#[test]
fn roles_use_own_or_command_line_agent() {
    let own = format!(
        "- {{id: tester, kind: files, folder: own, worker: {}}}\n- {{id: writer, kind: files}}\n- {{id: editor, kind: files, folder: own}}\n",
        worker("tester")
    );
    let roles = role("coder", 2) + &own;
    let plan = [
        ("One", "coder"),
        ("Two", "tester"),
        ("Three", "writer"),
        ("Four", ""),
        ("Five", "editor"),
        ("Six", "coder"),
    ];
    let scene = scene(4, &roles, &plan);
    let general = "--no-input --agent command -- sh worker.sh general {report}";
    scene.exits(0, format!("{RUN} {general}"));
    let who = ["coder", "tester", "general", "general", "general", "coder"];
    assert_eq!(results(&scene), who.map(|who| format!("Done by {who}.")));
    let count = |folder: &str| {
        let names = scene.names(folder);
        names.iter().filter(|name| name.ends_with(".md")).count()
    };
    for own in ["tester", "editor"] {
        assert_eq!(
            count(&format!("roles/{own}/commands/processed")),
            1,
            "{own}"
        );
    }
}

#[test]
fn role_concurrency_is_bounded_by_lanes() {
    let plan: Vec<(&str, &str)> = (0..12)
        .map(|n| ("Part", if n % 2 == 0 { "coder" } else { "tester" }))
        .collect();
    let scene = scene(6, &(role("coder", 3) + &role("tester", 1)), &plan);
    for who in ["coder", "tester"] {
        let file = format!("volumes/workspace/{who}.does");
        scene.write(&file, "sleep 0.1\n");
    }
    scene.exits(0, format!("{RUN} --no-input"));
    let most = |who: &str| {
        let together = scene.read(&format!("volumes/workspace/{who}.together"));
        let counts = together.lines().map(|line| line.parse::<u32>().unwrap());
        counts.max().unwrap()
    };
    assert!((2..=3).contains(&most("coder")), "{}", most("coder"));
    assert_eq!(most("tester"), 1);
}

#[test]
fn default_lanes_are_sum_of_roles() {
    let scene = scene_with("", &role("coder", 2), &[("One", "coder"), ("Two", "coder")]);
    // Neither ends before the other has begun.
    let meet = ": > \"met.$$\"; until [ \"$(ls | grep -c '^met\\.')\" = 2 ]; do sleep 0.02; done\n";
    scene.write("volumes/workspace/coder.does", meet);
    scene.exits(0, format!("{RUN} --no-input"));
}

#[test]
fn outcomes_name_the_agent_of_each_role() {
    let scene = scene_with("", &role("coder", 1), &[]);
    scene.write(
        "plan.md",
        "# Parts\n\n## One\n\n- assignee: coder\n\nMake it.\n\n## Two\n\nRun it.\n\n```sh\ntrue\n```\n",
    );
    let waits = "until [ -e go ]; do sleep 0.02; done\n";
    scene.write("volumes/workspace/coder.does", waits);
    let run = scene.start(format!("{RUN} --no-input --agent shell"));
    wait_until("the agent of the role is seen", || {
        let workers: Value = scene.json("workers --json");
        workers["workers"][0]["agent"] == "command"
    });
    scene.write("volumes/workspace/go", "");
    run.end().exits(0);
    let counted: Value = scene.json("outcomes --json");
    let agents = &counted["agents"];
    assert_eq!(
        [&agents["command"]["tasks"], &agents["shell"]["tasks"]],
        [&json!(1), &json!(1)]
    );
}

#[test]
fn silent_agent_blocks_no_other_role() {
    let mut plan: Vec<(&str, &str)> = vec![("Silent", "stuck")];
    plan.extend([("Part", "coder"); 9]);
    let scene = scene(10, &(role("stuck", 1) + &role("coder", 9)), &plan);
    scene.write("volumes/workspace/stuck.does", "sleep 1000\n");
    let _daemon = scene.leave(RUN);
    wait_until("nine are done", || {
        scene.status()["progress"]["completed"] == 9
    });
    assert_eq!(scene.tasks()[0], "in_progress");
    let status = scene.status();
    let tasks = status["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["attempts"] == 1), "{status}");
    scene.works("stop");
}

#[test]
fn misconfigured_role_blocks_no_other_role() {
    let mut plan: Vec<(&str, &str)> = vec![("Review", "reviewer"); 4];
    plan.extend([("Part", "coder"); 4]);
    let roles = "- {id: reviewer, kind: files, worker: claude, concurrency: 3}\n".to_owned()
        + &role("coder", 1);
    // The reviewers take all lanes at first.
    let mut scene = scene(3, &roles, &plan);
    let notes = scene.env.path("notes");
    fs::create_dir_all(&notes).unwrap();
    let script = format!(
        r#"[ "$1" = --version ] && {{ echo "2.1.330 (Claude Code)"; exit; }}
[ -e {notes}/mended ] || {{ echo run >> {notes}/runs; echo "error: unknown option '--verbose'" >&2; exit 1; }}
echo '{{"type":"system","subtype":"init","session_id":"s"}}'
printf '%s\n' '{{"type":"result","is_error":false,"permission_denials":[],"session_id":"s","result":"---\nstatus: SUCCESS\n---\n\n## Core results\n\nReviewed."}}'
"#,
        notes = notes.display()
    );
    scene.env.show_script("claude", &script);
    let ran = scene.exits(4, format!("{RUN} --no-input"));
    let told = "! no more tasks of `reviewer` are taken: the agent `claude` cannot work";
    assert_eq!(ran.stderr.matches(told).count(), 1, "{ran:?}");
    assert_eq!(&results(&scene)[4..], ["Done by coder."; 4]);
    assert!(scene.read("notes/runs").lines().count() <= 3);
    let [(question, text)] = &scene.questions()[..] else {
        panic!("one question: {ran:?}");
    };
    has(text, "unknown option");
    assert_eq!(scene.pending().len(), 0, "what was not begun went back");

    scene.write("notes/mended", "");
    scene.works(["answer", question, "reply", "--note", "mended"]);
    scene.exits(0, "resume --team team.yaml --no-input");
    assert_eq!(&results(&scene)[..4], ["Reviewed."; 4]);
}

#[test]
fn run_checks_role_agents_before_start() {
    let scene = scene(
        2,
        "- {id: coder, kind: files, worker: codex}\n",
        &[("One", "coder")],
    );
    let ran = scene.exits(2, format!("{RUN} --no-input"));
    ran.has_stderr(["the role `coder`", "Hint: "]);
    assert!(!scene.env.path("volumes/plan-agent.db").exists());
}

#[test]
fn separate_worker_reads_role_from_team() {
    let roles = role("coder", 2)
        + "- {id: reviewer, kind: files, worker: external}\n- {id: architect, kind: agent}\n";
    let scene = scene(2, &roles, &[("One", "coder"), ("Two", "reviewer")]);
    for (words, says) in [
        (vec!["--role", "coders"], "did you mean `coder`"),
        (vec!["--role", "reviewer"], "which agent is to work?"),
        (vec!["--role", "architect"], "works inside the daemon"),
    ] {
        scene.refuses(
            2,
            [&["worker", "--team", "team.yaml"], &words[..]].concat(),
            says,
        );
    }
    // Without the team, roles are only labels, and the worker of a role takes its assigned tasks.
    let _daemon = scene.leave("run --plan plan.md");
    let slip = "worker --role coders --agent command -- true {report}";
    let _slip = scene.start_as("slip", slip);
    scene.await_said(
        "slip",
        "! no open plan has a role `coders`; there are `coder`, `reviewer`",
    );
    let _worker = scene.env.start("worker --role coder --team team.yaml");
    let two = scene.take("the one for the reviewer", |command| {
        command.field("assignee") == Some("reviewer")
    });
    scene.succeed(&two, "by hand");
    scene.await_status("completed");
    assert_eq!(results(&scene), ["Done by coder.", "by hand"]);
}

#[test]
fn role_without_worker_takes_no_lane() {
    let roles = "- {id: ghost, kind: files, worker: external, concurrency: 2}\n".to_owned()
        + &role("coder", 1);
    let plan = [
        ("Haunt", "ghost"),
        ("Haunt", "ghost"),
        ("Haunt", "ghost"),
        ("One", "coder"),
        ("Two", "coder"),
    ];
    let scene = scene_with(
        "run.max_parallel = 1\nrun.task_timeout = '3s'\n",
        &roles,
        &plan,
    );
    let _daemon = scene.leave(RUN);
    wait_until("the coder has done its tasks", || {
        scene.status()["progress"]["completed"] == 2
    });
    // As many commands wait as may be in progress simultaneously.
    assert!((1..=2).contains(&scene.pending().len()));
    let way = "`plan-agent worker --role ghost --agent NAME` starts one";
    wait_until("a person is asked", || {
        let questions = scene.status()["questions"].clone();
        questions[0]["reason"].to_string().contains(way)
    });
    // A late worker finds them; a claimed command is in progress like any other.
    let first = scene.take_any();
    scene.succeed(&first, "Boo.");
    wait_until("it counts", || results(&scene)[0] == "Boo.");
    scene.works("stop");
}

/// A tool that adds a task need not have a word for its assignee.
#[test]
fn task_for_no_role_holds_up_no_role() {
    let roles = "- {id: asker, kind: files, worker: external}\n".to_owned() + &role("coder", 1);
    let config = "run.max_parallel = 1\nrun.task_timeout = '3s'\n";
    let mut scene = scene_with(config, &roles, &[("Ask", "asker")]);
    let _daemon = scene.leave(RUN);
    let asked = scene.take_any();
    let add =
        |name: &str, owner: &str| json!({"subject": name, "description": "do it", "owner": owner});
    scene.tool_works("TaskCreate", &add("For nobody", ""));
    scene.tool_works("TaskCreate", &add("For the coder", "coder"));
    let said = ["the task has no assignee", "its roles are asker, coder"];
    scene.refuses(2, ["add", "Another one"], said);
    // What an agent adds for no role is for its own.
    scene.env.set("PLAN_AGENT_COMMAND", &asked.id);
    scene.tool_works("TaskCreate", &add("For the asker", ""));
    let status = scene.status();
    let tasks = status["tasks"].as_array().unwrap().iter();
    let assignees: Vec<_> = tasks.map(|task| task["assignee"].clone()).collect();
    assert_eq!(json!(assignees), json!(["asker", null, "coder", "asker"]));
    scene.succeed(&asked, "done");
    wait_until("the coder has done its task", || {
        scene.status()["progress"]["completed"] == 2
    });
    scene.works("stop");
}
