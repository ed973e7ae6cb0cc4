//! What a person reads and types: one word for each state, what came among the reports, the language of a plan, completions.

use super::*;
use crate::common::agent::report;

#[test]
fn stopped_plan_is_called_stopped_everywhere() {
    for by_signal in [false, true] {
        let scene = Scene::by_rules("");
        let daemon = scene.leave("run --plan chain.md");
        scene.await_any();
        let says = |word: &str| {
            has(scene.works("plans"), format!("  {word}  "));
            let page = scene.works("status");
            begins(
                page.lines().next().unwrap().rsplit("  ").next().unwrap(),
                word,
            );
            assert_eq!(scene.status()["plan"]["state"], word);
            assert_eq!(scene.json::<Value>("plans --json")[0]["state"], word);
        };
        says("running");
        // Nobody has taken the command yet.
        has(
            scene.works("status"),
            "in progress  First · attempt 1 waits for an agent",
        );
        has(
            scene.works("why 1"),
            "its command waits for an agent to take it",
        );
        let path = scene.env.path("volumes/workspace/MISSION.md");
        let mission = || fs::read_to_string(&path).unwrap_or_default();
        wait_until("MISSION.md shows the dispatched task", || {
            mission().contains("in progress, attempt 1 waits for an agent")
        });
        scene.take_any();
        scene.await_events("claimed", 1);
        has(scene.works("why 1"), "an agent took it ");
        if by_signal {
            kill_process(daemon.pid, Signal::KILL).unwrap();
        } else {
            scene.works("stop");
            has(mission(), "\n\nstopped · ");
        }
        scene.await_end();
        says("stopped");
    }
}

#[test]
fn file_for_no_command_is_told_without_effect() {
    let scene = Scene::by_rules("");
    let run = scene.start("run --plan one.md");
    let command = scene.take_any();
    let dropped = [
        (
            "report-task-nobodys.md",
            "no command `task-nobodys` was ever issued here",
        ),
        (
            "report-task-nobodys.txt",
            "its name is not `report-<command id>.md`",
        ),
    ];
    for (name, _) in dropped {
        scene.drop_report(name, report("SUCCESS", "done").as_bytes());
        scene.await_name("reports/rejected", name);
    }
    let (log, why) = (scene.works("log"), scene.works("why 1"));
    assert_eq!(scene.tasks(), ["in_progress"]);
    scene.succeed(&command, "done");
    let ran = run.end().exits(0);
    for (name, reason) in dropped {
        let told = format!("`{name}` is not read: {reason}");
        has(&log, told.as_str());
        ran.has_stdout(told.as_str());
    }
    let (name, reason) = dropped[1];
    has(
        &why,
        format!(
            "`{name}`: {reason}; the report is awaited as `report-{}.md`",
            command.id
        ),
    );
    has(
        scene.read("volumes/reports/rejected/report-task-nobodys.md.reason.md"),
        "Hint: name the report",
    );
}

#[test]
fn unreadable_report_is_told() {
    let scene = Scene::by_rules("");
    let repairs = |command: &Command| command.body().contains("only write the report once more");
    let _agent = scene.agent(move |command| match repairs(command) {
        false => Act::Report("It is all done, believe me.\n".to_owned()),
        true => Act::success("done"),
    });
    let screen = scene.works("run --plan one.md");
    has(screen, "1 · Only: report unreadable: ");
    has(scene.works("log"), "task 1: report unreadable: ");
    has(scene.works("why 1"), "unreadable: ");
}

#[test]
fn plan_keeps_language_of_its_goal() {
    let scene = Scene::by_rules("");
    let plan = "---\nname: 三个文件\ngoal: 写三个文件\n---\n\n## 第一\n\n写 one.txt。\n\n## 第二\n\n- after: 1\n\n写 two.txt。\n";
    scene.write("zh.md", plan);
    let daemon = scene.leave("run --plan zh.md");
    let first = scene.take_any();
    has(
        first.body(),
        ["## 任务描述", "只在工作区内工作", "## 报告方式"],
    );
    let path = scene.env.path("volumes/workspace/MISSION.md");
    let mission = || fs::read_to_string(&path).unwrap_or_default();
    wait_until("MISSION.md is Chinese", || {
        mission().contains("## 状态\n\n运行中 · ")
    });
    // The screen stays English.
    has(scene.works("status"), "0 of 2 tasks done");
    scene.works("stop");
    drop(daemon);
    let config = scene.read("config.toml");
    scene.write(
        "config.toml",
        &config.replacen("[run]", "[run]\nlanguage = \"en\"", 1),
    );
    scene.succeed(&first, "done");
    let _daemon = scene.leave("resume");
    let second = scene.take_task(2);
    has(second.body(), "## 任务描述");
    scene.fail(&second, "no");
    has(scene.await_attempt(2).body(), "你可能不记得之前的尝试");
    wait_until("MISSION.md is Chinese", || {
        mission().contains("上次结果需要重试")
    });
}

#[test]
fn completions_offer_plans_and_tasks() {
    let scene = Scene::by_rules("");
    let offered = |words: &[&str]| {
        let index = (words.len() - 1).to_string();
        let mut command = scene.env.command([&["--"], words].concat());
        command
            .env("_PLAN_AGENT_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", index);
        let ran = command.env("_CLAP_IFS", "\n").output().unwrap();
        assert!(
            ran.status.success() && ran.stderr.is_empty(),
            "{words:?}: {ran:?}"
        );
        let offered = String::from_utf8(ran.stdout).unwrap();
        let words = offered.lines().filter(|word| !word.starts_with('-'));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    // Nothing is made where nothing is.
    assert_eq!(offered(&["plan-agent", "abort", ""]), [""; 0]);
    assert!(!scene.env.path("volumes/plan-agent.db").exists());
    assert_eq!(offered(&["plan-agent", "statu"]), ["status"]);
    let agent = scene.agent(|_| Act::success("done"));
    scene.works("run --plan one.md");
    drop(agent);
    let daemon = scene.leave("run --plan chain.md");
    scene.await_any();
    let plans: Vec<Value> = scene.json("plans --json");
    let ids: Vec<&str> = plans
        .iter()
        .map(|plan| plan["id"].as_str().unwrap())
        .collect();
    assert_eq!(offered(&["plan-agent", "abort", ""]), ids);
    assert_eq!(
        offered(&["plan-agent", "tool", "--plan", &ids[1][..6]]),
        [ids[1]]
    );
    let both = [&["1", "2", "3"], &ids[..]].concat();
    assert_eq!(offered(&["plan-agent", "why", ""]), both);
    assert_eq!(offered(&["plan-agent", "diff", ids[1], ""]), ["1"]);
    drop(daemon);
    scene.write("config.toml", "no configuration");
    assert_eq!(offered(&["plan-agent", "abort", ""]), [""; 0]);
}

#[test]
fn help_and_other_names_work() {
    let scene = Scene::by_rules("");
    for (typed, same) in [
        ("help", "--help"),
        ("help run", "run --help"),
        ("ls", "plans"),
    ] {
        assert_eq!(scene.works(typed), scene.works(same), "{typed}");
    }
    let daemon = scene.leave("run --plan one.md");
    scene.await_any();
    scene.works(["cancel", scene.status()["plan"]["id"].as_str().unwrap()]);
    assert_eq!(scene.status()["plan"]["state"], "aborted");
    drop(daemon);
    scene.refuses(
        2,
        "continue",
        ["unrecognized subcommand", "`plan-agent resume`"],
    );
}
