//! Several folders on one PostgreSQL server, as on several machines: one daemon carries a plan out, and another one goes on when
//! it is gone.

mod other_folders;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::common::env::wait_at_most;
use crate::common::git::{Project, git};
use crate::common::postgres::{empty_store, run_sql};

/// A folder of its own, with a clone of the project.
pub struct Machine {
    pub scene: Scene,
    pub project: PathBuf,
}

impl Machine {
    /// Makes two of them on one server; `None` where there is none, or no git.
    pub fn two() -> Option<(Self, Self, String)> {
        let url = empty_store()?;
        let here = Self::first(&url)?;
        let there = here.beside(&url);
        Some((here, there, url))
    }

    /// Makes one with the project; `None` where there is no git.
    pub fn first(url: &str) -> Option<Self> {
        let first = Self::on(url);
        Project::new(&first.scene.env)?;
        Some(first)
    }

    /// Makes another one with a clone of the project of this one.
    pub fn beside(&self, url: &str) -> Self {
        let other = Self::on(url);
        let clone = format!("clone --quiet '{}' .", self.project.display());
        fs::create_dir(&other.project).unwrap();
        git(&other.project, clone.as_str());
        other
    }

    pub fn on(url: &str) -> Self {
        let mut scene = Scene::by_rules(
            "run.workspace = 'project'\nrun.isolation = 'worktree'\nprojects.app = 'project'\n",
        );
        scene.env.set("PLAN_AGENT_STORE_URL", url);
        let project = scene.env.path("project");
        Self { scene, project }
    }

    /// Does a task: writes a file into its worktree, and reports.
    pub fn does(&self, command: &Command, file: &str) {
        let folder = command.field("workspace").unwrap();
        fs::write(Path::new(folder).join(file), file).unwrap();
        self.scene.succeed(command, "done");
    }

    /// Returns the files on the branch of the results.
    pub fn results(&self, plan: &str) -> String {
        let tree = format!("ls-tree --name-only plan-agent/{plan}");
        git(&self.project, tree.as_str())
    }

    /// Returns all that an effect of a daemon would change outside of the database.
    fn outside(&self) -> Vec<String> {
        let mut all: Vec<String> = self.scene.pending().into_iter().map(|it| it.id).collect();
        all.push(git(&self.project, "for-each-ref"));
        all.push(self.scene.read("volumes/MISSION.md"));
        all
    }
}

/// Checks the log: each number once, without a hole, and one verdict a command.
fn history_is_whole(scene: &Scene) {
    let events = scene.events();
    let mut judged: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "judged")
        .map(|event| &event["command"])
        .collect();
    let all = judged.len();
    judged.sort_by_key(|command| command.to_string());
    judged.dedup();
    assert_eq!(judged.len(), all);
    let seqs: BTreeSet<i64> = events
        .iter()
        .map(|it| it["seq"].as_i64().unwrap())
        .collect();
    assert!(seqs.len() > 3 && seqs.first() == Some(&1));
}

#[test]
fn another_daemon_goes_on_when_one_is_killed() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let daemon = here.scene.leave("run --plan chain.md");
    let plan = plan_id(&here.scene);
    here.does(&here.scene.take_task(1), "one.txt");
    let second = here.scene.take_task(2);
    here.scene.await_events("claimed", 2);
    // Nobody takes it while its daemon lives.
    let said = ["running", "A daemon at ", "carries it out"];
    has(there.scene.works("status"), said);
    let _other = there.scene.start("daemon");
    there
        .scene
        .refuses(1, ["resume", &plan], "belongs to another folder");
    kill(&here.scene, daemon);
    // As if its time were over.
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let again = there.scene.take_task(2);
    assert_eq!(again.attempt(), 2);
    let folder = PathBuf::from(again.field("workspace").unwrap());
    assert_ne!(again.field("workspace"), second.field("workspace"));
    assert_eq!(
        fs::read_to_string(folder.join("one.txt")).unwrap(),
        "one.txt"
    );
    there.does(&again, "two.txt");
    there.does(&there.scene.take_task(3), "three.txt");
    there.scene.await_status("completed");
    has(there.results(&plan), ["one.txt", "two.txt", "three.txt"]);
    has(there.scene.works("log"), "goes on in ");
    // What comes too late where it was is no report of it any more.
    here.scene.succeed(&second, "late");
    here.scene
        .refuses(1, ["resume", &plan], "has ended, and belongs to");
    assert_eq!(there.scene.events_named("completed").len(), 3);
    history_is_whole(&there.scene);
}

#[test]
fn daemon_that_stood_still_does_nothing_any_more() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    let daemon = here.scene.leave("run --plan chain.md");
    let plan = plan_id(&here.scene);
    let first = here.scene.take_task(1);
    here.scene.await_events("claimed", 1);
    // Nothing of what it has begun is on its way to the disk.
    wait_until("the claim is on the page", || {
        here.scene
            .read("volumes/MISSION.md")
            .contains("has an agent")
    });
    daemon.freeze();
    // Its report would be the next thing to be judged there.
    here.does(&first, "one.txt");
    let _other = there.scene.start("daemon");
    let mut again = None;
    // The lease is over by then, by every clock.
    wait_at_most(Duration::from_secs(60), "another one goes on", || {
        again = there.scene.pending().into_iter().next();
        again.is_some()
    });
    let before = here.outside();
    daemon.wake();
    let said = "another daemon carries plan";
    wait_until("it says so", || here.scene.daemon_log().contains(said));
    wait_until("it ends", || here.scene.status()["daemon"]["pid"].is_null());
    assert_eq!(here.outside(), before);
    there.does(&there.scene.take_task(1), "one.txt");
    there.does(&there.scene.take_task(2), "two.txt");
    there.does(&there.scene.take_task(3), "three.txt");
    there.scene.await_status("completed");
    let results = "a.txt\nb.txt\none.txt\nthree.txt\ntwo.txt\n";
    has(there.results(&plan), results);
    assert_eq!(there.scene.events_named("reported").len(), 3);
    history_is_whole(&there.scene);
}

/// The branch of the results stayed behind in the clone that the plan comes back to.
#[test]
fn plan_that_comes_back_goes_on_where_it_was() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    here.scene.works("store migrate");
    let over = || run_sql(&url, "UPDATE plans SET held_until = 1");
    let daemon = here.scene.leave("run --plan chain.md");
    let plan = plan_id(&here.scene);
    here.does(&here.scene.take_task(1), "one.txt");
    // Its result is on the branch there.
    here.scene.take_task(2);
    kill(&here.scene, daemon);
    over();
    let daemon = there.scene.start("daemon");
    there.does(&there.scene.take_task(2), "two.txt");
    there.scene.take_task(3);
    drop(daemon);
    over();
    let _daemon = here.scene.start("daemon");
    let last = here.scene.take("the last task", |command| {
        command.task() == 3 && command.attempt() == 2
    });
    here.does(&last, "three.txt");
    here.scene.await_status("completed");
    let results = ".gitignore\na.txt\nb.txt\none.txt\nthree.txt\ntwo.txt\n";
    assert_eq!(here.results(&plan), results);
    assert!(here.scene.events_named("asked").is_empty());
    history_is_whole(&here.scene);
}

/// The file of a question stays behind where its plan was, and a person may write into it.
#[test]
fn answer_in_a_file_where_the_plan_is_no_more_is_told() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    here.scene.configure("run.max_attempts = 1");
    let daemon = here.scene.leave("run --plan one.md");
    let first = here.scene.take_task(1);
    let failed = crate::common::agent::report("FAILED", "It breaks.");
    here.scene.submit(&first.id, &failed);
    let (question, _) = here.scene.await_questions(1).remove(0);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let _other = there.scene.start("daemon");
    there.scene.await_questions(1);
    let _daemon = here.scene.start("daemon");
    let answers = || here.scene.names("questions/answered");
    here.scene.fill_in(&question, "skip", "");
    wait_until("it is told", || answers().len() == 2);
    let told = here
        .scene
        .texts("questions/answered", ".problem.md")
        .concat();
    has(
        &told,
        "another folder has now, so `skip` in its file here is not taken: `",
    );
    assert_eq!(there.scene.status()["questions"][0]["id"], question);
    here.scene.works(["answer", &question, "skip"]);
    there.scene.await_end();
    assert_eq!(there.scene.tasks(), ["skipped"]);
}

/// Notes which command it has, and works on without an end at its first one.
const STAYS: &str = "echo $PLAN_AGENT_COMMAND >> ../begun; [ -e ../pid ] || { echo $$ > ../pid; exec sleep 600; }; \
    echo done > done.txt; printf -- '---\\nstatus: SUCCESS\\n---\\n\\ndone\\n' > $1";

/// What a machine had of a plan that went on elsewhere is done there no more: not while the plan is away, and not when it is back.
#[test]
fn agents_of_a_plan_that_went_on_elsewhere_are_stopped() {
    for comes_back_at_once in [false, true] {
        let Some((here, there, url)) = Machine::two() else {
            return;
        };
        let script = here.scene.env.path("agent.sh");
        let line = STAYS.replace("../", &format!("{}/", here.scene.env.path("").display()));
        here.scene.write("agent.sh", &line);
        let agent = format!("['command', 'sh', '{}', '{{report}}']", script.display());
        here.scene.configure(&format!("worker.agent = {agent}"));
        let over = || run_sql(&url, "UPDATE plans SET held_until = 1");
        let daemon = here.scene.leave("run --plan two.md");
        wait_until("its agent works", || here.scene.env.path("pid").exists());
        here.scene.await_events("claimed", 1);
        let pid = here.scene.read("pid").trim().to_owned();
        kill(&here.scene, daemon);
        over();
        let other = there.scene.start("daemon");
        let first = there.scene.take("its first task anew", |command| {
            (command.task(), command.attempt()) == (1, 2)
        });
        there.does(&first, "one.txt");
        there.scene.take_task(2);
        let away = (!comes_back_at_once).then(|| {
            let daemon = here.scene.start("daemon");
            wait_until("the agent is stopped", || !lives(&pid));
            daemon
        });
        drop(other);
        over();
        let _daemon = away.unwrap_or_else(|| here.scene.start("daemon"));
        here.scene.await_status("completed");
        assert!(!lives(&pid));
        let begun = here.scene.read("begun");
        assert_eq!(begun.lines().count(), 2, "{begun}");
        history_is_whole(&here.scene);
    }
}

#[test]
fn daemon_without_a_model_leaves_a_plan_that_needs_one() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let server = planning(&[("Only", &[])]);
    let place = "run.workspace = 'project'\nrun.isolation = 'worktree'\nprojects.app = 'project'\n";
    here.scene.write_config(&server, Shape::Chat, place);
    let daemon = here.scene.leave("run 'Do it'");
    here.scene.take_task(1);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let _other = there.scene.start("daemon");
    there.scene.await_events("not_adopted", 1);
    has(here.scene.works("log"), "a model plans and judges it");
}

/// Another daemon takes the lease of one that is cut off, and cannot have the project's commits.
#[test]
fn daemon_goes_on_if_nobody_could_take_its_plan_over() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    git(&here.project, "commit --quiet --allow-empty -m later");
    let daemon = here.scene.leave("run --plan one.md");
    let command = here.scene.take_task(1);
    here.scene.await_events("claimed", 1);
    daemon.freeze();
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let other = there.scene.start("daemon");
    there.scene.await_events("not_adopted", 1);
    other.interrupted();
    daemon.wake();
    here.does(&command, "one.txt");
    here.scene.await_status("completed");
    history_is_whole(&here.scene);
}

#[test]
fn plan_that_could_not_be_taken_over_is_tried_again() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    // The clone there has not got it.
    git(&here.project, "commit --quiet --allow-empty -m later");
    let daemon = here.scene.leave("run --plan one.md");
    here.scene.take_task(1);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let _daemon = there.scene.start("daemon");
    there.scene.await_events("not_adopted", 1);
    let log = here.scene.works("log");
    has(
        &log,
        ["cannot take it over", "`git fetch` there may bring it"],
    );
    lacks(&log, "error:");
    // While it is tried, the lease is taken.
    wait_until("no daemon has it", || {
        !here.scene.works("plans").contains("running")
    });
    git(&there.project, "fetch --quiet");
    there.does(&there.scene.take_task(1), "one.txt");
    there.scene.await_status("completed");
    // Each try failed for the same reason, which is said once.
    assert_eq!(there.scene.events_named("not_adopted").len(), 1);
    history_is_whole(&there.scene);
}
