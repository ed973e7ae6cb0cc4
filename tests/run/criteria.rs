//! What is expected of a task: written as a list, shown again, carried through to its end, and counted.

use super::*;

const PLAN: &str = "\
---
name: P
goal: G
---

## Count

- expected:
  - The tests pass (check: test)
  - A line for each prime (file: primes.txt, lines: 3)
  - It is quick

Write it.
";

#[test]
fn criteria_are_written_as_they_are_shown_and_their_ends_are_told() {
    let scene = Scene::by_rules("[checks]\ntest = { run = ['true'] }\n");
    scene.write("plan.md", PLAN);
    let primes = scene.path("workspace/primes.txt");
    let _agent = scene.agent(move |command| {
        let expected = "- The tests pass (check: test)\n- A line for each prime";
        has(&command.text, expected);
        fs::write(&primes, "2\n3\n5\n").unwrap();
        Act::success("Counted.")
    });
    scene.works("run --plan plan.md --no-input");
    let shown = scene.works("show");
    let list = PLAN.split_once("- expected:\n").unwrap().1;
    has(&shown, list.split_once("\n\n").unwrap().0);
    let ends = scene.status()["tasks"][0]["criteria"].clone();
    let ends = ends.as_array().unwrap();
    assert_eq!(ends.len(), 3);
    assert_eq!(ends[2]["state"], "not_proven");
    let why = scene.works("why 1");
    has(&why, "3. It is quick: not proven: no check is bound to it");
    has(
        scene.works("outcomes --since 1d"),
        "1 task of 1 plan: ✓ 0 proven · ~ 1 accepted",
    );
    let counted: Value = scene.json("outcomes --json");
    assert_eq!(
        picked(&counted, "plans proven accepted asked"),
        json!([1, 0, 1, 0])
    );
    scene.refuses(
        2,
        "outcomes --since yesterdayish",
        ["`yesterdayish` is no day", "7d"],
    );
}

/// What only a model chose proves nothing, unless a person has reviewed it; the checks of the configuration are a person's choice.
#[test]
fn proof_that_a_model_chose_counts_after_review() {
    let check = "[checks.test]\nrun = ['test', '-e', 'made']\nplain = true\nbefore = 'always'\n";
    let of_config = format!("run.checks = ['test']\n{check}");
    for (config, review, proven) in [
        (check, false, false),
        (check, true, true),
        (&of_config, false, true),
    ] {
        let server = LlmServer::start(|asked| match asked.kind.as_str() {
            "plan" => {
                let mut task = a_task("First", &[]);
                task["expected_output"] = json!([{"text": "It works everywhere", "check": "test"}]);
                Answer::Json(json!({"name": "Scripted", "description": "A plan.", "tasks": [task]}))
            }
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, Shape::Chat, config);
        let made = scene.path("workspace/made");
        let _agent = scene.agent(move |_| {
            fs::write(&made, "").unwrap();
            Act::success("done")
        });
        match review {
            true => {
                scene.exits(4, "run 'Do it' --no-input --review");
                scene.works("answer approve");
                scene.works("resume --no-input");
            }
            false => drop(scene.works("run 'Do it' --no-input")),
        }
        assert_eq!(
            scene.status()["tasks"][0]["proven"],
            proven,
            "{config} {review}"
        );
        let why = "a model chose it as proof, and no person has reviewed that";
        assert_eq!(scene.works("why 1").contains(why), !proven);
        // Facts alone do not accept what a model says is proof.
        assert_eq!(server.count("judge"), usize::from(!proven));
    }
}

#[test]
fn criterion_whose_proof_proves_nothing_is_refused() {
    let scene = Scene::by_rules("");
    for (proof, said) in [
        ("check: tset", "plan.md:5:13: there is no check `tset`"),
        (
            "file: a.txt",
            "plan.md:5:13: a file proves a criterion by a property: `(file: a.txt, contains: TEXT)`",
        ),
        (
            "file: ../a, lines: 1",
            "plan.md:5:13: `../a` leads out of the workspace",
        ),
    ] {
        scene.write(
            "plan.md",
            &format!("# P\n\n## A\n\n- expected: done ({proof})\n"),
        );
        scene.refuses(2, "run --plan plan.md", [said]);
    }
}

/// A task, and two that wait for it.
const BOUND: &str = "\
# P

## First

Begin.

## Bound

- after: 1
- expected:
  - The tests pass (check: test)
  - It is quick
- may_change: tests/**, *.golden

Write it.

## Told

- after: 1
- expected:
  - It is quick
  - It is small

Write it.
";

#[test]
fn tool_does_not_take_proofs_from_criteria() {
    let scene = Scene::by_rules("[checks]\ntest = { run = ['true'] }\n");
    scene.write("plan.md", BOUND);
    let _daemon = scene.leave("run --plan plan.md");
    scene.take_any();
    let plan = plan_id(&scene);
    let revise = |at: usize, expected: &str| {
        let subtask =
            json!({"name": "Other", "description": "Write it.", "expected_outcome": expected});
        let arguments = json!({"subtask_idx": at, "action": "revise", "subtask": subtask});
        let arguments = arguments.to_string();
        scene.run(["tool", "revise_current_plan", &arguments, "--plan", &plan])
    };
    // The tool's text, and what is expected then.
    let both = "1. The tests pass\n2. It is neat";
    for (said, rest) in [
        (both, "  - It is neat\n"),
        (both, "  - It is neat\n"),
        ("It is fine", "  - It is fine\n"),
        ("", ""),
    ] {
        let ran = revise(1, said);
        assert_eq!(ran.code, Some(0), "{said}: {ran:?}");
        let proof = "The tests pass (check: test)\n";
        let shown = scene.works("show");
        match rest {
            "" => has(&shown, format!("- expected: {proof}- may_change")),
            rest => has(
                &shown,
                format!("- expected: \n  - {proof}{rest}- may_change"),
            ),
        }
    }
    let ran = revise(2, "It is quick and small");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    has(ran.stdout, "a person wrote several criteria for task 3");
    let ran = revise(2, "1. It is quick\n2. It is light");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    has(scene.works("show"), "  - It is quick\n  - It is light\n");
}

#[test]
fn only_a_person_says_which_files_that_judge_may_change() {
    let mut scene = Scene::by_rules("[checks]\ntest = { run = ['true'] }\n");
    scene.write("plan.md", BOUND);
    let _daemon = scene.leave("run --plan plan.md");
    scene.take_any();
    has(scene.works("show"), "- may_change: tests/**, *.golden\n");
    let script = "sed -i 's/^- may_change: .*/- may_change: data/' \"$1\"";
    scene.env.show_script("my-editor", script);
    scene.env.set("EDITOR", "my-editor");
    has(scene.works("edit 2"), "1 task changed");
    has(scene.works("show"), "- may_change: data\n");
    let plan = json!({"plan_id": "p", "structure_data": {"name": "P", "goal": "G", "steps": [
        {"step_id": "s", "name": "S", "tasks": [
            {"task_id": "t", "name": "T", "description": "d", "may_change": ["tests/**"]}]}]}});
    let ran = scene.run(["tool", "create_plan_from_structure", &plan.to_string()]);
    let told: Value = scene.json(["show", "--format", "json"]);
    lacks(told.to_string(), "tests/**");
    lacks(ran.stdout, "tests/**");
}
