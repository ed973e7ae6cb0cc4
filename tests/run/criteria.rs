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
