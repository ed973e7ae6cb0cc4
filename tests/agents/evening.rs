//! An evening with real agents in a git project: run, a question, `resume` without flags, `merge`.

use super::real::PLAN;
use super::*;
use crate::common::git::Project;

const CONFIG: &str = "llm.provider = 'none'\n[run]\nworkspace = 'project'\nmax_attempts = 1\nchecks = ['twice']\n\
                      [checks]\ntwice = { run = ['test', '-s', 'again.txt'] }\n";

/// Makes a file in the worktree that the command names; another one once the check is known to fail.
fn work(heard: &Heard) -> Say {
    let workspace = heard.turns.iter().rev().find_map(|turn| match turn {
        Turn::Person(text) => text
            .lines()
            .find_map(|line| line.strip_prefix("workspace: ")),
        _ => None,
    });
    let name = match heard.was_told("`twice`") {
        true => "again.txt",
        false => "hello.txt",
    };
    match workspace {
        Some(folder) => heard.make_once(&Path::new(folder.trim_matches('"')).join(name), "hello"),
        None => Say::Text("A greeting".to_owned()),
    }
}

fn ends_with_merged_results(agent: &str) {
    let mut scene = Scene::new(CONFIG);
    let Some(project) = Project::new(&scene.env) else {
        return;
    };
    project.git("add .");
    project.git("commit --quiet -m all");
    scene.write("plan.md", PLAN);
    let vendor = Vendor::start(work);
    if !scene.install(agent, &vendor) {
        return;
    }
    let run = ["run", "--plan", "plan.md", "--agent", agent, "--no-input"];
    let ran = scene.exits(4, run);
    ran.has_stdout("agents work in worktrees below");
    scene.exits(0, "answer retry");
    let ran = scene.exits(0, "resume --no-input");
    ran.has_stdout(format!("goes on with {agent}"));
    let ran = scene.exits(0, "merge");
    ran.has_stdout(" are in `main`");
    for name in ["hello.txt", "again.txt"] {
        assert_eq!(scene.read(&format!("project/{name}")).trim(), "hello");
    }
    let reports = scene.reports();
    let session = |report: &Filed| report.field("session_id").map(str::to_owned);
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert_eq!(session(&reports[0]), session(&reports[1]), "{reports:?}");
    scene.exits(0, "prune").lacks_stdout("not merged");
    project.sound();
}

#[test]
fn evening_with_installed_agents_ends_with_merged_results() {
    for agent in ["claude", "codex"] {
        row(agent);
        ends_with_merged_results(agent);
    }
}
