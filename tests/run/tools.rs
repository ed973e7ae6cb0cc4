//! A plan that a daemon carries out, changed through tools by its own agents and by other callers.

use super::*;
use crate::common::git::Project;

impl Scene {
    /// Calls a tool on the plan of the daemon.
    fn tool(&self, name: &str, arguments: &Value) -> Ran {
        let plan = plan_id(self);
        self.run(["tool", name, &arguments.to_string(), "--plan", &plan])
    }

    pub(super) fn tool_works(&self, name: &str, arguments: &Value) {
        let ran = self.tool(name, arguments);
        assert_eq!(ran.code, Some(0), "{name} {arguments}: {ran:?}");
    }

    fn tool_refuses(&self, name: &str, arguments: &Value) {
        let before = self.events();
        let ran = self.tool(name, arguments);
        assert_eq!(ran.code, Some(1), "{name} {arguments}: {ran:?}");
        assert_eq!(self.events(), before, "{name} {arguments}");
    }
}

fn done(task: u32) -> Value {
    json!({"taskId": task.to_string(), "status": "completed", "result": "made by hand"})
}

#[test]
fn tool_update_counts_as_report() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    scene.tool_works("TaskUpdate", &done(1));
    let second = scene.take_task(2);
    let reported = scene.events_named("reported");
    assert_eq!(reported[0]["by"], "command line", "{reported:?}");
    // The agent continues as if nothing had happened; its later report has no effect, and it is not asked to stop.
    let file = "---\nstatus: FAILED\nusage: {input_tokens: 70, output_tokens: 5}\n---\n\n## Core results\n\nno\n";
    scene.submit(&first.id, file);
    scene.await_name("reports/stale", &format!("report-{}.md", first.id));
    assert_eq!(scene.tasks(), ["completed", "in_progress", "pending"]);
    let cancel = format!("{}.cancel", first.id);
    assert!(!scene.names("active").contains(&cancel));
    let part = "\"agent_input_tokens\": 70";
    has(scene.works("show --format json"), part);

    // A failure is judged, too: the task is dispatched again.
    let failed = json!({"task_id": 2, "error_message": "no disk", "should_retry": true});
    scene.tool_works("failTask", &failed);
    let again = scene.take("the second task again", |command| command.attempt() == 2);
    has(again.body(), "no disk");
    scene.succeed(&second, "late");
    scene.await_name("reports/stale", &format!("report-{}.md", second.id));
    assert_eq!(scene.tasks(), ["completed", "in_progress", "pending"]);
    scene.succeed(&again, "done");
    let third = scene.take_task(3);
    scene.succeed(&third, "done");
    scene.await_status("completed");
    assert_eq!(scene.events_named("completed").len(), 3);
}

#[test]
fn agent_reports_on_no_task_but_its_own() {
    let mut scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    scene.succeed(&first, "done");
    let second = scene.take_task(2);
    let others = "nother agent works on task `2`";
    let failed = json!({"task_id": 2, "error_message": "no disk"});
    for command in [&*first.id, "task-of-another-plan"] {
        scene.env.set("PLAN_AGENT_COMMAND", command);
        for (tool, words) in [("TaskUpdate", done(2)), ("failTask", failed.clone())] {
            let ran = scene.tool(tool, &words);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            ran.has_stdout(others);
        }
    }
    scene.env.set("PLAN_AGENT_COMMAND", &second.id);
    scene.tool_works("TaskUpdate", &done(2));
    scene.take_task(3);
}

/// What an agent says of an attempt that was decided counts for no later one.
#[test]
fn late_word_of_an_earlier_attempt_counts_for_none() {
    let mut scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    scene.submit(
        &first.id,
        &crate::common::agent::report("FAILED", "Tests fail."),
    );
    let second = scene.take("the task again", |command| command.attempt() == 2);
    scene.env.set("PLAN_AGENT_COMMAND", &first.id);
    scene.tool_refuses("TaskUpdate", &done(1));
    let failed = json!({"task_id": 1, "error_message": "no disk"});
    scene.tool_refuses("failTask", &failed);
    assert_eq!(scene.tasks(), ["in_progress"]);
    scene.succeed(&second, "done");
    scene.await_end();
    assert_eq!(scene.tasks(), ["completed"]);
}

/// The tools change no plan but the one to which they are bound.
#[test]
fn tools_leave_other_plans_alone() {
    let scene = Scene::by_rules("");
    let tasks = json!([{"task_id": "t", "name": "T", "assignee": "a", "description": ""}]);
    let steps = json!([{"step_id": "s", "name": "S", "tasks": tasks}]);
    let make = |id: &str| json!({"plan_id": id, "structure_data": {"name": "P", "steps": steps}});
    let made = make("other").to_string();
    (scene.env).exits(0, ["tool", "create_plan_from_structure", &made]);
    let _daemon = scene.leave("run --plan one.md");
    scene.take_any();
    let deleted = json!({"plan_id": "other"});
    scene.tool_refuses("delete_plan", &deleted);
    scene.tool_refuses("create_plan_from_structure", &make("third"));
    (scene.env).exits(0, ["tool", "delete_plan", &deleted.to_string()]);
}

#[test]
fn notebook_update_counts_as_report() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    scene.take_any();
    scene.await_events("claimed", 1);
    let finished = json!({"subtask_idx": 0, "subtask_outcome": "it is there"});
    let ran = scene.tool("finish_subtask", &finished);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.has_stdout("reported as 'done'");
    scene.take_task(2);
    assert_eq!(scene.tasks(), ["completed", "in_progress", "pending"]);
    assert_eq!(scene.events_named("reported").len(), 1);
    let given_up = json!({"subtask_idx": 1, "state": "abandoned"});
    scene.tool_works("update_subtask_state", &given_up);
    scene.take("the second task again", |command| command.attempt() == 2);
    assert_eq!(scene.tasks(), ["completed", "in_progress", "pending"]);
}

/// Adds a task to the plan of its command, from the folder in which it works.
const ADDS: &str = r#"
plan=$(sed -n 's/^plan: //p' "$2")
if [ ! -e added ]; then
  touch added
  "$3" tool TaskCreate '{"subject": "Added on the way"}' --plan "$plan" || exit 1
  "$3" status "$plan" > /dev/null || exit 1
fi
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\ndone\n' > "$1.part" && mv "$1.part" "$1"
"#;

#[test]
fn agent_finds_plan_from_its_workspace() {
    for workspace in ["volumes/workspace", "project"] {
        let scene = Scene::by_rules(&format!("run.workspace = '{workspace}'"));
        fs::create_dir_all(scene.env.path(workspace)).unwrap();
        scene.write("plan.md", "---\ngoal: One task\n---\n\n## Begin\n");
        let program = env!("CARGO_BIN_EXE_plan-agent");
        let agent = ["sh", "-c", ADDS, "sh", "{report}", "{prompt_file}", program];
        let run = ["run", "--plan", "plan.md", "--agent", "command", "--"];
        let ran = scene.run([&run[..], &agent].concat());
        assert_eq!(ran.code, Some(0), "{workspace}: {ran:?}");
        assert_eq!(scene.tasks(), ["completed", "completed"], "{workspace}");
        let within = scene.env.path(workspace).join("volumes");
        assert!(!within.exists(), "a folder of its own was made: {within:?}");
    }
}

#[test]
fn commands_inside_exchange_folder_use_its_plan() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    scene.take_any();
    let from = |folder: &str, args: &[&str]| {
        let mut command = scene.env.command(args);
        let output = command
            .current_dir(scene.env.path(folder))
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    has(from("volumes/workspace", &["status"]), "running");
    let paused = from("volumes/workspace", &["pause"]);
    scene.await_status("paused");
    // The suggested command can be typed from there.
    has(&paused, "`plan-agent resume");
    from("volumes/workspace", &["resume"]);
    scene.await_status("running");
}

#[test]
fn own_folder_plan_precedes_parent_process_plan() {
    let scene = Scene::by_rules("");
    scene.works([
        "tool",
        "TaskCreate",
        r#"{"subject": "of the outer folder"}"#,
    ]);
    let inner = Scene::by_rules("volumes.root = 'exchange'");
    inner.works([
        "tool",
        "TaskCreate",
        r#"{"subject": "of the inner folder"}"#,
    ]);
    let listed = || {
        let mut command = inner.env.command("tool TaskList {}");
        command.env("PLAN_AGENT_EXCHANGE", scene.env.path("volumes"));
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    has(listed(), "of the inner folder");
    fs::remove_dir_all(inner.env.path("exchange")).unwrap();
    has(listed(), "of the outer folder");
}

#[test]
fn shell_does_not_run_task_text_from_tool() {
    let scene = Scene::by_rules("run.max_attempts = 1");
    scene.write(
        "plan.md",
        "---\ngoal: Two files\n---\n\n\
         ## Wait\n\n```sh\nuntil [ -e go ]; do sleep 0.05; done\n```\n\n\
         ## Make\n\n- after: 1\n\n```sh\ntouch wanted\n```\n",
    );
    let _daemon = scene.leave("run --plan plan.md --agent shell");
    scene.await_events("claimed", 1);
    let words = "```sh\ntouch unwanted\n```";
    scene.tool_works("TaskUpdate", &json!({"taskId": "2", "description": words}));
    scene.write("volumes/workspace/go", "");
    scene.await_events("reported", 2);
    let reported = scene.events_named("reported");
    assert_eq!(reported[1]["status"], "FAILED", "{reported:?}");
    has(scene.works("why 2"), "a model wrote this task");
    for file in ["wanted", "unwanted"] {
        let path = scene.env.path(format!("volumes/workspace/{file}"));
        assert!(!path.exists(), "{file}");
    }
}

#[test]
fn checks_decide_on_tool_reports() {
    let scene = Scene::by_rules(
        "[run]\nchecks = [\"there\"]\n[checks]\nthere = { run = [\"test\", \"-e\", \"there\"] }",
    );
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.take_any();
    scene.tool_works("update_task_status", &{
        let plan = scene.status()["plan"]["id"].clone();
        json!({"plan_id": plan, "task_id": "1", "status": "completed"})
    });
    let again = scene.take_any();
    assert_ne!(again.id, first.id);
    assert_eq!(scene.events_named("checked")[0]["passed"], false);
    fs::write(scene.path("workspace/there"), "").unwrap();
    scene.tool_works("TaskUpdate", &done(1));
    scene.await_status("completed");
}

#[test]
fn tool_completion_withdraws_unclaimed_command() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let first = scene.await_any();
    scene.tool_works("TaskUpdate", &done(1));
    scene.await_name("commands/withdrawn", &format!("{}.md", first.id));
    scene.await_status("completed");
}

#[test]
fn tools_edit_waiting_tasks_while_daemon_runs() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan chain.md");
    let first = scene.take_any();
    scene.await_events("claimed", 1);
    scene.tool_works(
        "TaskCreate",
        &json!({"subject": "Found meanwhile", "description": "Tidy up."}),
    );
    scene.tool_works(
        "TaskUpdate",
        &json!({"taskId": "3", "description": "Make another."}),
    );
    scene.tool_works("skipTask", &json!({"task_id": 2, "reason": "not needed"}));
    for (name, arguments) in [
        ("resetPlan", json!({})),
        ("startNextTask", json!({})),
        (
            "TaskUpdate",
            json!({"taskId": "3", "status": "in_progress"}),
        ),
        ("TaskUpdate", json!({"taskId": "1", "status": "pending"})),
        ("TaskUpdate", json!({"taskId": "1", "subject": "Another"})),
        (
            "delete_plan",
            json!({"plan_id": scene.status()["plan"]["id"]}),
        ),
    ] {
        scene.tool_refuses(name, &arguments);
    }
    scene.succeed(&first, "done");
    let third = scene.take_task(3);
    has(third.body(), "Make another.");
    scene.succeed(&third, "done");
    let added = scene.take_task(4);
    has(added.body(), "Tidy up.");
    scene.succeed(&added, "done");
    scene.await_status("completed");
    let expected = ["completed", "skipped", "completed", "completed"];
    assert_eq!(scene.tasks(), expected);
    // What a person's plan has come to stays.
    scene.tool_refuses("resetPlan", &json!({}));
    assert_eq!(scene.tasks(), expected);
}

#[test]
fn tools_take_no_results_away() {
    let scene = Scene::by_rules("run.workspace = 'project'\nrun.isolation = 'worktree'\n");
    if Project::new(&scene.env).is_none() {
        return;
    }
    let _agent = scene.agent(|command| {
        let folder = command.field("workspace").unwrap().to_owned();
        fs::write(PathBuf::from(folder).join("one.txt"), "one").unwrap();
        Act::success("done")
    });
    scene.works("run --plan one.md");
    let plan = json!({"plan_id": plan_id(&scene)});
    scene.tool_refuses("delete_plan", &plan);
    scene.works("merge");
    scene.tool_works("delete_plan", &plan);
}

/// Reports through the tool that its task is done, and ends only when the test lets it.
const AGENT: &str = "n=$(ls told-* 2>/dev/null | wc -l); n=$((n + 1)); \
    \"$PROGRAM\" --config \"$CONFIG\" tool TaskUpdate \"{\\\"taskId\\\": \\\"$n\\\", \\\"status\\\": \\\"completed\\\"}\" --plan \"$PLAN\" >&2 || exit 1; \
    touch told-$n; until [ -e go-$n ]; do sleep 0.02; done; \
    printf -- '---\\nstatus: SUCCESS\\n---\\n\\n## Core results\\n\\nlate\\n' > \"$1\"";

/// Reports through a tool, and then by a file.
const SPEAKS_TWICE: &str = "plan=$(sed -n 's/^plan: *//p' \"$2\"); \
    env $WHO \"$PROGRAM\" tool \"$TOOL\" \"$WORDS\" --plan \"$plan\" >&2 || exit 1; \
    printf -- \"---\\n$HEADER\\n---\\n\\n## Core results\\n\\nby the file\\n\" > \"$1\"";

/// A tool call says only how a task ended: what the agent's file says beside that is not lost.
#[test]
fn file_completes_what_a_tool_call_said() {
    let done = r#"TaskUpdate {"taskId":"1","status":"completed"}"#;
    let failed = r#"failTask {"task_id":1,"error_message":"no"}"#;
    let by_person = format!("a person: {done}");
    let limit = "status: FAILED\nblocked_until: 2999-01-01T00:00:00Z";
    let asks = "status: SUCCESS\nquestion: Which port?";
    let failed_and_asks = "status: FAILED\nquestion: Which port?";
    for (tool, header, why) in [
        (done, "status: SUCCESS", ": completed\n"),
        // It reached its limit when it was done.
        (done, limit, ": completed\n"),
        (done, "status: FAILED", "the agent reports FAILED"),
        (&by_person, "status: FAILED", ": completed\n"),
        (&by_person, asks, ": completed\n"),
        (done, "status: PARTIAL_SUCCESS", "reports PARTIAL_SUCCESS"),
        (failed, "status: SUCCESS", "the agent reports FAILED"),
        (done, asks, "Which port?"),
        (failed, failed_and_asks, "Which port?"),
        (
            done,
            "status: SUCCESS\nrefused: [make deploy]",
            "make deploy",
        ),
        (failed, limit, "usage limit"),
    ] {
        let names = r#"["PROGRAM", "WHO", "TOOL", "WORDS", "HEADER"]"#;
        let mut scene = Scene::by_rules(&format!("run.max_attempts = 1\nworker.env = {names}\n"));
        // Without its command a client speaks for its person.
        let (who, tool) = match tool.strip_prefix("a person: ") {
            Some(tool) => ("-u PLAN_AGENT_COMMAND", tool),
            None => ("", tool),
        };
        let (tool, words) = tool.split_once(' ').unwrap();
        for (name, value) in [
            ("PROGRAM", env!("CARGO_BIN_EXE_plan-agent")),
            ("WHO", who),
            ("TOOL", tool),
            ("WORDS", words),
            ("HEADER", header),
        ] {
            scene.env.set(name, value);
        }
        let start = "run --plan one.md --no-input --agent command -- sh -c".split(' ');
        let start = start.chain([SPEAKS_TWICE, "sh", "{report}", "{prompt_file}"]);
        let _daemon = scene.leave(start.collect::<Vec<_>>());
        scene.await_events("reported", 1);
        wait_until(&format!("{header}: {why}"), || {
            scene.works("why 1").contains(why)
        });
        let why = scene.works("why 1");
        assert_eq!(why.contains("by the file"), who.is_empty(), "{why}");
    }
}

#[test]
fn next_task_waits_for_agent_that_reported_by_tool() {
    let scene = Scene::by_rules("worker.env = [\"PROGRAM\", \"CONFIG\", \"PLAN\"]");
    scene.works("plans");
    let _daemon = scene.leave("run --plan two.md");
    let plan = plan_id(&scene);
    let mut worker = scene.env.command([
        "worker", "--agent", "command", "--", "sh", "-c", AGENT, "sh", "{report}",
    ]);
    worker
        .env("PROGRAM", env!("CARGO_BIN_EXE_plan-agent"))
        .env("CONFIG", scene.env.path("config.toml"))
        .env("PLAN", plan);
    let _worker = Running {
        child: worker.spawn().unwrap(),
    };
    let told = |n: u32| scene.await_name("workspace", &format!("told-{n}"));
    let go = |n: u32| fs::write(scene.path(format!("workspace/go-{n}")), "").unwrap();
    told(1);
    scene.await_events("reported", 1);
    // What it still does belongs to its result, which is judged when it has ended.
    assert_eq!(scene.tasks(), ["in_progress", "pending"]);
    go(1);
    told(2);
    assert_eq!(scene.tasks(), ["completed", "in_progress"]);
    go(2);
    scene.await_status("completed");
    assert_eq!(scene.events_named("issued").len(), 2);
    assert_eq!(scene.events_named("reported").len(), 2);
}

#[test]
fn shown_plan_does_not_count_skipped_tasks_as_done() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let _first = scene.take_any();
    let skip = json!({"task_id": 3, "reason": "not needed\n- done: true"});
    scene.tool_works("skipTask", &skip);
    let shown = scene.works("show");
    has(&shown, "- skipped: not needed");
    lacks(&shown, "\n- done: true");
    scene.works(["abort", &plan_id(&scene)]);
    scene.await_end();
    drop(daemon);
    scene.write("again.md", &shown);
    let agent = scene.agent(|_| Act::success("done"));
    scene.works("run --plan again.md");
    assert_eq!(agent.attempts(), [(1, 1), (2, 1)]);
    assert_eq!(scene.tasks(), ["completed", "completed", "skipped"]);
    has(scene.works("show"), "- skipped: not needed");
}
