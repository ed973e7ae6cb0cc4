//! What a person does to a plan in another folder than its own, and what is said there.

use ::postgres::{Client, NoTls};

use super::*;

#[test]
fn plan_of_another_folder_is_aborted_and_who_does_the_rest_is_said() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    for (command, at_work) in [("abort", true), ("abort", false), ("answer", true)] {
        let _daemon = here.scene.leave("run --plan one.md");
        let plan = plan_id(&here.scene);
        let args = match command {
            "abort" => {
                here.scene.take_any();
                ["abort", &plan]
            }
            _ => {
                for number in 1..=3 {
                    let command = here.scene.await_attempt(number);
                    here.scene.claim(&command.id);
                    here.scene.fail(&command, "it does not work");
                }
                here.scene.await_questions(1);
                ["answer", "abort"]
            }
        };
        let left = match at_work {
            true => "its daemon at ".to_owned(),
            false => {
                here.scene.works("stop");
                "where the next daemon asks agents at work to stop".to_owned()
            }
        };
        has(
            there.scene.works(args),
            [format!("plan {plan} has ended for good; "), left],
        );
        here.scene.await_status("aborted");
        if !at_work {
            here.scene.exits(3, ["resume", &plan]);
        }
        here.scene.await_end();
    }
}

#[test]
fn person_takes_a_plan_over_that_was_given_back_elsewhere() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let daemon = here.scene.leave("run --plan chain.md");
    let plan = plan_id(&here.scene);
    here.does(&here.scene.take_task(1), "one.txt");
    here.scene.take_task(2);
    kill(&here.scene, daemon);
    run_sql(&url, "UPDATE plans SET held_until = 1");
    let daemon = there.scene.start_as("there", "daemon");
    there.scene.take_task(2);
    has(
        here.scene.works(["tell", &plan, "3", "be brief"]),
        "A daemon at ",
    );
    here.scene.refuses(
        5,
        ["resume", &plan, "--here"],
        ["is carried out by another daemon", "stop` there ends it"],
    );
    daemon.interrupted().has_stderr("is taken over from ");
    let over = format!("`plan-agent resume {plan} --here` takes it over");
    let status = here.scene.works("status");
    has(&status, ["No daemon works here: it belongs to ", &over]);
    // It was another one that had the plan last.
    lacks(&status, "The last one");
    for args in ["tell 3 again", "skip 3", "pause"] {
        has(here.scene.works(args), ["it belongs to ", &over]);
    }
    here.scene
        .refuses(1, "resume", ["belongs to another folder", &over]);
    let (mut running, mut terminal) = here.scene.env.start_on_terminal(["resume", &plan]);
    terminal.answer("[y/N]", "n");
    assert_eq!(running.wait().code(), Some(1));
    let (mut running, mut terminal) = here.scene.env.start_on_terminal(["resume", &plan]);
    terminal.answer("[y/N]", "y");
    let again = here.scene.take("the second task", |command| {
        command.task() == 2 && command.attempt() == 3
    });
    here.does(&again, "two.txt");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    lacks(terminal.shown(), "below ``");
    has(here.results(&plan), ["one.txt", "two.txt"]);
    history_is_whole(&here.scene);
}

#[test]
fn plan_that_cannot_be_taken_over_waits_for_its_person() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    git(&here.project, "commit --quiet --allow-empty -m later");
    let _daemon = here.scene.leave("run --plan one.md");
    let plan = plan_id(&here.scene);
    here.scene.take_task(1);
    here.scene.works("stop");
    let resume = ["resume", &plan, "--here"];
    let ran = there.scene.run(resume);
    ran.has_stderr("`git fetch` there may bring it");
    let mut server = Client::connect(&url, NoTls).unwrap();
    let held = server.query_one("SELECT held_until FROM plans", &[]);
    assert_eq!(held.unwrap().get::<_, i64>(0), 0);
    git(&there.project, "fetch --quiet");
    // A daemon that works there gets it.
    let _daemon = there.scene.start_as("there", "daemon");
    there.scene.await_said("there", "carrying out the plans");
    has(
        there.scene.works(["resume", "--detach", &plan, "--here"]),
        "is queued",
    );
    there.does(&there.scene.take_task(1), "one.txt");
    there.scene.await_status("completed");
    here.scene
        .refuses(1, ["resume", &plan], "has ended, and belongs to");
}

#[test]
fn clean_counts_and_touches_only_plans_of_its_folder() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    let plans = [&here, &there].map(|machine| {
        let _daemon = machine.scene.leave("run --plan one.md");
        let plan = plan_id(&machine.scene);
        machine.scene.take_any();
        machine.scene.works("stop");
        plan
    });
    let ran = there.scene.exits(0, "clean --yes");
    ran.has_stdout([
        "is plan-agent's: 1 plan, 1 of them unfinished",
        &format!("plan-agent/{}", plans[1]),
    ]);
    lacks(ran.stdout + &ran.stderr, &plans[0]);
    has(here.scene.works(["status", &plans[0]]), "stopped");
}

/// Who names no plan means one of the folder, even if only another one has a plan that is not over.
#[test]
fn plan_of_another_folder_is_not_meant_where_none_is_named() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    let _there = there.scene.leave("run --plan chain.md");
    let theirs = plan_id(&there.scene);
    there.scene.take_task(1);
    // Without a plan of its own the folder has only that one to look at; which it is, is said.
    let seen = here.scene.exits(0, "status");
    seen.has_stderr([&*format!("plan {theirs} · "), " · of "]);
    let _here = here.scene.leave("run --plan chain.md");
    let (first, own) = (here.scene.take_task(1), plan_id(&here.scene));
    assert_ne!(own, theirs);
    for args in ["tell 2 'be brief'", "skip 3", "pause"] {
        here.scene.works(args);
    }
    let before = there.scene.events();
    here.does(&first, "one.txt");
    here.scene.works("resume");
    here.does(&here.scene.take_task(2), "two.txt");
    here.scene.await_end();
    assert_eq!(plan_id(&here.scene), own);
    for args in ["skip 2", "pause", "abort", "answer retry"] {
        assert_ne!(here.scene.run(args).code, Some(0), "{args}");
    }
    assert_eq!(there.scene.events(), before);
}

/// Also one of a file in another folder, in which a daemon works.
#[test]
fn file_of_a_daemon_elsewhere_is_not_copied() {
    let (here, there) = (Scene::by_rules(""), Scene::by_rules(""));
    let _daemon = there.leave("run --plan one.md");
    there.take_any();
    let database = there.path("plan-agent.db").display().to_string();
    let copy = ["store", "copy", "--from", &database, "--to", "copy.db"];
    here.refuses(
        5,
        copy,
        ["a daemon works on the plans of", "stop` there ends it"],
    );
    there.works("stop");
    has(here.works(copy), "copied and compared: 1 plan");
}

#[test]
fn copy_is_refused_while_daemons_work_anywhere() {
    let Some((here, there, url)) = Machine::two() else {
        return;
    };
    let _daemon = here.scene.leave("run --plan one.md");
    here.scene.take_any();
    let home = here.scene.path("").display().to_string();
    let copy = ["store", "copy", "--from", &url, "--to", "copy.db"];
    there.scene.refuses(
        5,
        copy,
        ["daemons work on plans there", home.trim_end_matches('/')],
    );
    here.scene.works("stop");
    has(there.scene.works(copy), "copied and compared: 1 plan");
}

#[test]
fn output_of_agents_elsewhere_is_not_called_missing() {
    let Some((here, there, _)) = Machine::two() else {
        return;
    };
    let _daemon = here.scene.leave("run --plan one.md");
    here.scene.take_any();
    has(there.scene.works("logs 1"), "(the output is at ");
    has(here.scene.works("logs 1"), "(no output)");
}
