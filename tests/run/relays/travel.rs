//! What travels to relays, and to the daemons that take plans over: work that goes on, files where there is no git, missing commits.

use std::process::Stdio;

use super::*;
use crate::common::postgres::empty_store;

#[test]
fn relay_goes_on_when_another_daemon_takes_the_plan_over() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let agents = here.beside(&url);
    there.scene.configure("worker.agent = ['relay']");
    here.scene.works("store migrate");
    let _relay = agents.scene.start("relay");
    let daemon = here.scene.leave("run --plan chain.md --agent relay");
    let plan = plan_id(&here.scene);
    // The next attempt goes on with what is in no result, and only in the clone of its daemon.
    let first = agents.scene.take_task(1);
    let folder = PathBuf::from(first.field("workspace").unwrap());
    fs::write(folder.join("begun.txt"), "begun\n").unwrap();
    agents.scene.fail(&first, "half of it");
    let again = agents.scene.take_task(1);
    assert_eq!(again.attempt(), 2);
    here.scene.await_events("claimed", 2);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let _other = there.scene.start("daemon");
    there.scene.await_events("adopted", 1);
    agents.does(&again, "one.txt");
    for (task, file) in [(2, "two.txt"), (3, "three.txt")] {
        agents.does(&agents.scene.take_task(task), file);
    }
    there.scene.await_status("completed");
    let results = ["begun.txt", "one.txt", "two.txt", "three.txt"];
    has(there.results(&plan), results);
    assert_eq!(there.scene.events_named("issued").len(), 4);
}

impl Machine {
    /// Makes one whose project is a folder without git.
    fn without_git(url: &str) -> Self {
        let config = "run.workspace = 'project'\nrun.max_attempts = 1\nprojects.app = 'project'\n";
        let mut scene = Scene::by_rules(config);
        scene.env.set("PLAN_AGENT_STORE_URL", url);
        let project = scene.env.path("project");
        fs::create_dir(&project).unwrap();
        Self { scene, project }
    }
}

#[test]
fn produced_files_travel_where_there_is_no_git() {
    let Some(url) = empty_store() else { return };
    let [here, there] = [(); 2].map(|()| Machine::without_git(&url));
    here.scene.works("store migrate");
    let _relay = there.scene.start("relay --agent shell");
    let plan = SHELL.replace("echo one >", "echo more > more.txt; echo one >");
    here.scene.write("shell.md", &plan);
    here.scene
        .works("run --plan shell.md --agent relay --no-input");
    assert_eq!(here.scene.read("project/two.txt"), "one\none\n");
    // Only what the task names.
    assert!(!here.project.join("more.txt").exists());
    assert_eq!(fs::read_dir(&there.project).unwrap().count(), 0);

    // What cannot travel fails the attempt, with the reason.
    let large = "truncate -s 17M one.txt";
    let link = "ln -sf /etc/passwd one.txt";
    for (makes, why) in [(large, "more than 16 MiB"), (link, "link")] {
        here.scene
            .write("shell.md", &SHELL.replace("echo one > one.txt", makes));
        here.scene
            .run("run --plan shell.md --agent relay --no-input");
        let plan = plan_id(&here.scene);
        has(here.scene.works(["why", &plan, "1"]), ["`one.txt`", why]);
    }
}

#[test]
fn plan_without_git_goes_on_elsewhere_with_the_files_of_its_tasks() {
    let Some(url) = empty_store() else { return };
    let [here, there, agents] = [(); 3].map(|()| Machine::without_git(&url));
    there.scene.configure("worker.agent = ['relay']");
    here.scene.works("store migrate");
    let _relay = agents.scene.start("relay");
    let plan_file = SHELL.replace("\n- after: 1\n- produces: two.txt\n", "\n- after: 1\n");
    here.scene.write("plan.md", &plan_file);
    let daemon = here.scene.leave("run --plan plan.md --agent relay");
    let first = agents.scene.take_task(1);
    agents.does(&first, "one.txt");
    let second = agents.scene.take_task(2);
    has(
        here.scene.works("plans"),
        "elsewhere it goes on only with the files that tasks produce",
    );
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let other = there.scene.start("daemon");
    there.scene.await_events("adopted", 1);
    assert_eq!(there.scene.read("project/one.txt"), "one.txt");
    // The relay works on.
    agents.scene.succeed(&second, "done");
    there.scene.await_status("completed");
    drop(other);
    assert_eq!(there.scene.events_named("issued").len(), 2);
}

#[test]
fn plan_that_a_relay_cannot_lay_out_keeps_no_other_from_it() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    let _daemon = here.scene.leave("run --plan chain.md --agent relay");
    here.scene.await_events("issued", 1);
    let chain = plan_id(&here.scene);
    // The other plan begins at a commit that the relay has not.
    fs::write(here.project.join("late.txt"), "late\n").unwrap();
    git(&here.project, "add late.txt");
    git(&here.project, "commit -q -m late");
    here.scene
        .works("run --plan one.md --agent relay --detach --no-input");
    let relay = there.scene.start_as("relay", "relay --agent files");
    there.does(&there.scene.take_task(1), "one.txt");
    let other = plan_id(&here.scene);
    let refused = format!("plan `{other}` of project `app` cannot be worked on here");
    there.scene.await_said("relay", &refused);
    for (task, file) in [(2, "two.txt"), (3, "three.txt")] {
        there.does(&there.scene.take_task(task), file);
    }
    wait_until("the plan is completed", || {
        let status: Value = here.scene.json(["status", &chain, "--json"]);
        status["plan"]["status"] == "completed"
    });
    relay.interrupted();
    // Its person ended it.
    lacks(here.scene.works("workers"), "takes commands");
}

#[test]
fn missing_commits_are_fetched_from_a_named_remote() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let agents = here.beside(&url);
    fs::write(here.project.join("late.txt"), "late\n").unwrap();
    git(&here.project, "add late.txt");
    git(&here.project, "commit -q -m late");
    // Not by a command that the address names.
    let (mark, remote) = (here.scene.env.path("ran"), here.project.display());
    let ran = format!("remotes.app = 'ext::sh -c touch% {}'", mark.display());
    let good = format!("remotes.app = '{remote}'\nworker.agent = ['relay']");
    let plain = agents.scene.read("config.toml");
    here.scene.works("store migrate");
    let daemon = here.scene.leave("run --plan chain.md --agent relay");
    let plan = plan_id(&here.scene);
    for (number, remotes) in [&*ran, ""].into_iter().enumerate() {
        let config = format!("{plain}\n{remotes}\n");
        agents.scene.write("config.toml", &config);
        let said = agents.scene.env.path(format!("said{number}"));
        let output = File::create(&said).unwrap();
        let relay = agents.scene.env.spawn("relay", Stdio::null(), output);
        wait_until("the project cannot be used", || {
            let said = fs::read_to_string(&said).unwrap();
            said.contains("of project `app` cannot be worked on here")
        });
        drop(relay);
        // It may have been killed before it gave the command back.
        run_sql(&url, "UPDATE relayed SET held_until = 0");
    }
    assert!(!mark.exists());
    for machine in [&agents, &there] {
        machine
            .scene
            .write("config.toml", &format!("{plain}\n{good}\n"));
    }
    let _relay = agents.scene.start("relay --agent files");
    let first = agents.scene.take_task(1);
    let folder = PathBuf::from(first.field("workspace").unwrap());
    assert_eq!(
        fs::read_to_string(folder.join("late.txt")).unwrap(),
        "late\n"
    );
    agents.does(&first, "one.txt");
    let second = agents.scene.take_task(2);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let _other = there.scene.start("daemon");
    there.scene.await_events("adopted", 1);
    agents.does(&second, "two.txt");
    agents.does(&agents.scene.take_task(3), "three.txt");
    there.scene.await_status("completed");
    has(there.results(&plan), ["late.txt", "one.txt", "two.txt"]);
}

#[test]
fn command_that_no_relay_takes_is_asked_about() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    here.scene.configure("run.task_timeout = '2s'");
    let _daemon = here.scene.leave("run --plan one.md --agent relay");
    let why = "no worker takes commands";
    wait_until("it asks", || here.scene.works("questions").contains(why));
    assert!(here.scene.events_named("claimed").is_empty());
    let relay = there.scene.start("relay");
    let first = there.scene.take_task(1);
    here.scene.await_events("claimed", 1);
    drop(relay);
    // As if a minute were over.
    run_sql(&url, "UPDATE relayed SET held_until = 1");
    here.scene.await_events("asked", 2);
    has(here.scene.works("why 1"), "waits for an agent");
    // Before the relay is there again: two seconds of silence would end the attempt.
    there.does(&first, "one.txt");
    let _relay = there.scene.start("relay");
    here.scene.await_status("completed");
}
