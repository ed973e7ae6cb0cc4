//! One lane or ten: the result of a plan is the same.

use super::*;
use crate::common::agent::report;
use crate::common::env::lives;

const TASKS: u32 = 40;

/// Every task but the first few depends on one or two others; some need two attempts, one a repair.
fn plan() -> String {
    let task = |number: u32| {
        let after: Vec<String> = [number / 2, number.saturating_sub(7)]
            .iter()
            .filter(|other| **other > 0 && number > 4)
            .map(u32::to_string)
            .collect();
        let after = match &after[..] {
            [] => String::new(),
            after => format!("- after: {}\n", after.join(", ")),
        };
        let role = ["coder", "tester"][number as usize % 2];
        format!("## Part {number}\n\n- assignee: {role}\n{after}\nMake it.\n\n")
    };
    let tasks: String = (1..=TASKS).map(task).collect();
    format!("# Parts\n\n{tasks}")
}

fn act(command: &Command) -> Act {
    let (task, attempt) = (command.task(), command.attempt());
    let results = format!("Part {task} at attempt {attempt}.");
    match (task % 5, attempt) {
        (0, 1) => Act::failed(&results),
        (1, 1) => Act::Report(report("PARTIAL_SUCCESS", &results)),
        // The daemon asks for it again, which takes a while.
        (2, 1) if task == 7 && !command.text.contains("could not be read") => {
            Act::Report("Done, I think.\n".to_owned())
        }
        _ => Act::success(&results),
    }
}

/// Returns the result of each task.
fn outcome(lanes: u32) -> Vec<Value> {
    let scene = Scene::by_rules(&format!("run.max_parallel = {lanes}\n"));
    scene.write("plan.md", &plan());
    let role =
        |id: &str| format!("- {{id: {id}, kind: files, worker: external, concurrency: {lanes}}}\n");
    let roles = role("coder") + &role("tester");
    scene.write("team.yaml", &format!("name: Team\nroles:\n{roles}"));
    let agent = scene.agent(act);
    let run = "run --plan plan.md --team team.yaml --no-input";
    scene.exits(0, run);
    let mut seen = agent.attempts();
    seen.sort_unstable();
    let mut status = scene.status();
    assert_eq!(status["plan"]["status"], "completed");
    for task in status["tasks"].as_array_mut().unwrap() {
        // The snapshot of the folder, the other agents at work, and the durations may differ.
        task["evidence"].take();
        task["usage"].take();
    }
    let tasks = status["tasks"].take();
    vec![tasks, status["progress"].take(), json!(seen)]
}

#[test]
fn one_and_ten_lanes_give_same_result() {
    let (one, ten) = (outcome(1), outcome(10));
    for (one, ten) in one.iter().zip(&ten) {
        assert_eq!(format!("{one:#}"), format!("{ten:#}"));
    }
    let attempts: u64 = one[0]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["attempts"].as_u64().unwrap())
        .sum();
    // Two of five need two.
    assert_eq!(attempts, u64::from(TASKS + 2 * TASKS / 5));
}

/// Agents that each wait until all of them are at work. However many there may be, one watch of the folders serves them.
#[test]
fn agents_side_by_side_need_one_watch() {
    let scene = Scene::by_rules("run.max_parallel = 200\n");
    scene.write("many.md", &many(12));
    let all = scene.env.path("at-work");
    fs::create_dir_all(&all).unwrap();
    let agent = format!(
        "cd '{}'; touch \"$$\"; while [ $(ls | wc -l) -lt 12 ]; do sleep 0.02; done
printf -- '---\nstatus: SUCCESS\n---\n\n## Core results\n\nAll met.\n' > \"$1\"",
        all.display()
    );
    scene.write("agent.sh", &agent);
    let agent = scene.env.path("agent.sh").display().to_string();
    scene.exits(
        0,
        format!("run --plan many.md --agent command -- sh {agent} {{report}}"),
    );
    lacks(scene.daemon_log(), "watched");
}

/// An agent that notes when it begins and ends. In the first attempt it ends a while after its report, or after it was told to.
const SLOW: &str = r#"way=$1 notes=$2 report=$3 program=$5
plan=$(sed -n 's/^plan: //p' "$4")
report() { printf -- "---\nstatus: $1\n---\n\n## Core results\n\nSaid.\n" > "$report.part"; mv "$report.part" "$report"; }
if ! grep -q '^task: 1$' "$4"; then
  while ! [ -e "$notes.ended" ]; do sleep 0.02; done
  report SUCCESS
elif mkdir "$notes.begun" 2> /dev/null; then
  echo 'first begins' >> "$notes"
  trap '' TERM
  case $way in
    file) report FAILED ;;
    tool) "$program" tool failTask '{"task_id": 1, "error_message": "not yet", "should_retry": true}' --plan "$plan" ;;
    person)
      touch "$notes.ready"
      while ! [ -e "$notes.steered" ]; do sleep 0.02; done ;;
  esac
  sleep 1
  echo 'first ends' >> "$notes"
  touch "$notes.ended"
else
  echo second >> "$notes"
  report SUCCESS
fi
"#;

/// Two of them would write into one folder, and the result would be a mix.
#[test]
fn no_two_agents_work_on_one_task() {
    let program = env!("CARGO_BIN_EXE_plan-agent");
    for way in ["file", "tool", "person"] {
        let scene = Scene::by_rules("run.max_parallel = 3");
        scene.write("slow.sh", SLOW);
        let [agent, notes] =
            ["slow.sh", "notes"].map(|it| scene.env.path(it).display().to_string());
        let agent = format!("sh {agent} {way} {notes} {{report}} {{prompt_file}} {program}");
        let _daemon = scene.leave(format!("run --plan two.md --agent command -- {agent}"));
        if way == "person" {
            let ready = scene.env.path("notes.ready");
            wait_until("the agent is at work", || ready.exists());
            scene.works("skip 1");
            scene.works("retry 1 --yes");
            scene.write("notes.steered", "");
        }
        scene.await_status("completed");
        let notes = fs::read_to_string(notes).unwrap();
        has(notes, "first begins\nfirst ends\nsecond\n");
    }
}

/// Calls its task done, and works on.
const LINGERS: &str = r#""$2" tool TaskUpdate '{"taskId": "1", "status": "completed"}' --plan "$(sed -n 's/^plan: //p' "$1")"
echo $$ > part && mv part pid && exec sleep 300
"#;

/// Returns a scene and the words that run a plan whose agent [`LINGERS`].
fn lingering(config: &str) -> (Scene, String) {
    let scene = Scene::by_rules(config);
    scene.write("agent.sh", LINGERS);
    let (agent, program) = (scene.env.path("agent.sh"), env!("CARGO_BIN_EXE_plan-agent"));
    let agent = format!("sh {} {{prompt_file}} {program}", agent.display());
    let run = format!("run --plan one.md --no-input --agent command -- {agent}");
    (scene, run)
}

#[test]
fn agent_that_works_on_after_its_report_ends_with_its_task() {
    for (change, state) in [("abort", "aborted"), ("skip 1", "completed")] {
        let (scene, run) = lingering("");
        let daemon = scene.start(run);
        let pid = scene.path("workspace/pid");
        wait_until("its report is there", || pid.exists());
        scene.await_events("reported", 1);
        let said = match change {
            "abort" => scene.works(["abort", &plan_id(&scene)]),
            change => scene.works(change),
        };
        has(said, "asked to stop");
        daemon.end();
        assert!(!lives(fs::read_to_string(pid).unwrap().trim()), "{change}");
        assert_eq!(scene.status()["plan"]["status"], state);
    }
}

#[test]
fn agent_that_never_ends_holds_its_result_up_for_a_while_only() {
    let (scene, run) = lingering("run.task_timeout = '1s'");
    scene.exits(0, run);
    let pid = scene.read("volumes/workspace/pid");
    assert!(!lives(pid.trim()));
    assert_eq!(scene.tasks(), ["completed"]);
}

/// What an agent still writes after it has called its task done belongs to the result.
#[test]
fn result_is_looked_at_when_its_agent_has_ended() {
    let scene = Scene::by_rules("run.max_parallel = 2\n");
    let agent = r#"echo half > made.txt
"$2" tool TaskUpdate '{"taskId": "1", "status": "completed"}' --plan "$(sed -n 's/^plan: //p' "$1")"
sleep 1
echo whole > made.txt
"#;
    scene.write("agent.sh", agent);
    let task = "# Made\n\n## One\n\n- expected:\n  - It is whole (file: made.txt, contains: whole)\n\nMake it.\n";
    scene.write("made.md", task);
    let (agent, program) = (scene.env.path("agent.sh"), env!("CARGO_BIN_EXE_plan-agent"));
    let agent = format!("sh {} {{prompt_file}} {program}", agent.display());
    let run = format!("run --plan made.md --no-input --agent command -- {agent}");
    scene.exits(0, run);
    assert_eq!(scene.events_named("judged").len(), 1);
}
