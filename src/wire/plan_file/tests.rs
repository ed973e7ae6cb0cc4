use proptest::prelude::*;

use super::*;
use crate::plan::tests::testing::rows;
use crate::plan::{Criteria, Origin, Row, TaskId, TaskState};
use crate::wire::tests::{sample_plans, told};

fn parse(file_name: &str, text: &str) -> Checked<PlanFile> {
    match super::read(file_name, text) {
        (file, none) if none.is_empty() => Ok(file),
        (_, problems) => Err(problems),
    }
}

fn read(text: &str) -> PlanFile {
    parse("plan.md", text).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}

fn problems(name: &str, text: &str) -> String {
    told(&parse(name, text).expect_err(text))
}

fn new(targets: &[usize]) -> Vec<TaskRef> {
    targets.iter().copied().map(TaskRef::New).collect()
}

#[test]
fn reads_tasks_with_attributes() {
    let text = "\u{feff}---\r\nname: Words\r\ngoal: |\r\n  Count: words\r\n  *fast*\r\norder: Dependencies\r\nconstraints:\r\n- Python\r\n- no network\r\n---\r\n\
        # Words\r\n\r\nAbout it.\r\n\r\n## 1. Count\r\n\r\n- assignee: coder\r\n- expected: count.py\r\n  and its docs\r\n- checks: lint, test\r\n\r\n\
        Write it.\r\n\r\n```sh\r\n## not a task\r\n- after: 9\r\n```\r\n\r\n### Detail\r\n- a list\r\n\r\n\
        ## Task 2: Test\r\n- after: 1\r\n- optional: yes\r\n- constraints: small\r\n## Read me\r\nWords.\r\n\r\n* After: count, #2\r\n";
    let plan = read(text);
    let head = [&*plan.plan.name, &*plan.plan.goal];
    assert_eq!(head, ["Words", "Count: words\n*fast*"]);
    assert_eq!(plan.plan.constraints, "- Python\n- no network");
    assert_eq!(plan.plan.description, "About it.");
    assert_eq!(plan.plan.order, Some(TaskOrder::Dependencies));
    let task = |name: &str| TaskSpec {
        name: name.to_owned(),
        origin: Origin::Person,
        ..TaskSpec::default()
    };
    assert_eq!(
        plan.plan.tasks,
        [
            TaskSpec {
                assignee: Some("coder".to_owned()),
                criteria: Criteria::plain("count.py\nand its docs"),
                checks: vec!["lint".to_owned(), "test".to_owned()],
                description:
                    "Write it.\n\n```sh\n## not a task\n- after: 9\n```\n\n### Detail\n- a list"
                        .to_owned(),
                ..task("Count")
            },
            TaskSpec {
                optional: true,
                constraints: "small".to_owned(),
                dependencies: new(&[0]),
                ..task("Test")
            },
            TaskSpec {
                description: "Words.".to_owned(),
                dependencies: new(&[0, 1]),
                ..task("Read me")
            },
        ]
    );
}

#[test]
fn plan_name_defaults_to_title_or_file_name() {
    for (file, text, name, goal) in [
        ("a/my-plan.md", "", "my-plan", "my-plan"),
        ("p.md", "# Title\n", "Title", "Title"),
        ("p.md", "---\ngoal: Do it\n---\n", "Do it", "Do it"),
        ("p.md", "---\nname: N\ngoal: G\n---\n", "N", "G"),
    ] {
        let plan = parse(file, &format!("{text}## One\n")).unwrap();
        assert_eq!([plan.plan.name, plan.plan.goal], [name, goal], "{text}");
        assert_eq!(plan.plan.order, None);
    }
}

#[test]
fn header_takes_numbers_lists_and_empty_fields() {
    let header =
        "Name: 1.10\ngoal: true\ndescription:\nconstraints:\n- one\n- 2\n-\nexpected_outcome: [a]";
    let plan = read(&format!("\n---\n{header}\nworkspace: ~\n---\n## One\n"));
    assert_eq!(plan.workspace, None);
    let plan = plan.plan;
    assert_eq!(
        [plan.name, plan.goal, plan.description, plan.constraints],
        ["1.10", "true", "", "- one\n- 2"]
    );
    assert_eq!(plan.expected_outcome, "- a");
}

#[test]
fn description_lists_are_no_attributes() {
    for description in [
        "- Note: this\n- that",
        "* first: do it\n* then: rest",
        "Text\n- Files: a, b",
        "1. after: all",
        "-after: x",
        "  - after: indented",
    ] {
        let plan = read(&format!("## One\n\n{description}\n"));
        assert_eq!(plan.plan.tasks[0].description, description);
    }
}

#[test]
fn dependency_against_the_order_of_the_file_is_refused() {
    let file = "---\nname: N\norder: sequential\n---\n## A\n- after: 2\n\n## B\n- after: 1\n";
    insta::assert_snapshot!(problems("p.md", file), @"line 6, column 10: `order: sequential` puts task `2` after this one / take the dependency out, or put the tasks into their order");
}

#[test]
fn checklist_is_read_as_sequential_tasks() {
    let plan = read(
        "# Trip\n\nBefore.\n\n- [x] Pack\n- [ ] Drive\n  carefully\n  - [ ] refuel\n* [X] Eat\n1. [ ] Sleep\n",
    );
    let tasks = plan.plan.tasks.iter();
    let tasks = tasks.map(|task| (&*task.name, &*task.description, task.done));
    let wanted = [
        ("Pack", "", true),
        ("Drive", "carefully\n- [ ] refuel", false),
        ("Eat", "", true),
        ("Sleep", "", false),
    ];
    assert_eq!(Vec::from_iter(tasks), wanted);
    let head = [&*plan.plan.name, &*plan.plan.description];
    assert_eq!(head, ["Trip", "Before."]);
    assert_eq!(plan.plan.order, Some(TaskOrder::Sequential));
    let plan = read("---\norder: free\n---\n- [ ] a\n");
    assert_eq!(plan.plan.order, Some(TaskOrder::Free));
}

/// A check that is written below a task of a list is no text of its description.
#[test]
fn attributes_below_tasks_of_a_list_are_read() {
    let text = "1. Pack\n\n   - checks: weight\n   - expected:\n     - Shoes are in\n\n   Light.\n2. Drive\n    - done\n    - locks: car\n3. Eat\n- checks: taste\n";
    let tasks = &read(text).plan.tasks;
    let [pack, drive, eat] = &tasks[..] else {
        panic!("{tasks:?}")
    };
    let packed = [&*pack.description, &pack.checks.join(" ")];
    assert_eq!(packed, ["Light.", "weight"]);
    assert_eq!(pack.criteria, Criteria::plain("Shoes are in"));
    assert!(drive.done);
    assert_eq!(drive.locks, ["car"]);
    assert_eq!(eat.description, "- checks: taste");
    let deep = "1. [ ] Pack\n       - checks: weight\n2. [ ] Drive\n\t- expected:\n\t\t- At home\n";
    let tasks = &read(deep).plan.tasks;
    assert_eq!(tasks[0].checks, ["weight"]);
    assert_eq!(tasks[1].criteria, Criteria::plain("At home"));
    let slip = problems("plan.md", "- [ ] Pack\n    - chekcs: weight\n");
    insta::assert_snapshot!(slip, @r"line 2, column 7: unknown attribute `chekcs` / did you mean `checks`? For text, write `\` before the line");
}

#[test]
fn numbered_list_is_a_checklist_where_no_box_is() {
    let table = r"
        Pack (the bag\n1. shoes), Drive (carefully), Sleep () | # Trip\n\nIn 2026. Before.\n\n1. Pack\n   the bag\n   1. shoes\n2) Drive\n\n   carefully\n1. Sleep\n
        Pack (1. shoes\n1. no task) | - [ ] Pack\n  1. shoes\n1. no task\n
        Pack (1. shoes\n2. socks) | ## Pack\n\n1. shoes\n2. socks\n
        Pack (```\n1. code\n```\n2026. is a year) | 1. Pack\n\n```\n1. code\n```\n2026. is a year\n";
    for [tasks, text] in rows(table) {
        let plan = read(&text).plan;
        let read = plan.tasks.iter();
        let read = read.map(|task| format!("{} ({})", task.name, task.description));
        assert_eq!(Vec::from_iter(read).join(", "), tasks, "{text}");
        let in_order = !text.starts_with("##");
        assert_eq!(plan.order == Some(TaskOrder::Sequential), in_order);
    }
}

#[test]
fn reads_plans_in_yaml_and_json() {
    let yaml = "name: Ship\ndescription: d\nworkflow_template_source: SOP\nsteps:\n- step_id: s1\n  name: Build\n  tasks:\n  \
        - {task_id: a, name: Code, assignee: dev, description: \"d: 1\"}\n- step_id: s2\n  name: ''\n  tasks:\n  \
        - task_id: 7\n    name: Test\n    assignee: qa\n    description: |\n      &x *y\n    optional: true\n    dependencies: [a]\n";
    let json = r#"{"name":"Ship","description":"d","workflow_template_source":"SOP","steps":[{"step_id":"s1","name":"Build","tasks":[{"task_id":"a","name":"Code",
        "assignee":"dev","description":"d: 1"}]},{"step_id":"s2","name":"","tasks":[{"task_id":"7","name":"Test","assignee":"qa",
        "description":"&x *y\n","optional":true,"dependencies":["a"]}]}]}"#;
    let plan = parse("ship.yaml", yaml).unwrap();
    assert_eq!(parse("ship.json", json), Ok(plan.clone()));
    assert_eq!(parse("ship", json), Ok(plan.clone()));
    let task = &plan.plan.tasks[1];
    assert_eq!(task.key.as_deref(), Some("7"));
    assert_eq!(task.step.as_deref(), Some("s2"));
    assert_eq!(plan.plan.tasks[0].step_id.as_deref(), Some("s1"));
    assert_eq!(plan.plan.source.as_deref(), Some("SOP"));
    assert_eq!((task.optional, task.origin), (true, Origin::Person));
    assert_eq!(task.dependencies, new(&[0]));
    assert_eq!(plan.plan.order, None);
    let plan = parse("ship.yml", &yaml.replace("    dependencies: [a]\n", "")).unwrap();
    assert_eq!(plan.plan.order, Some(TaskOrder::Sequential));
}

#[test]
fn slips_that_would_change_the_plan_are_problems() {
    let text = "## One\n\n- after: 2\n\nWrite three lines:\n\n- passed: so many\n- skipped: so many\n\n## Two\n\n- Depends on: One\n\nDo it.\n";
    insta::assert_snapshot!(problems("plan.md", text), @r"
    line 8, column 3: the attribute `skipped` stands behind the description / move it up, below the name of the task; for text, write `\` before the line
    line 12, column 3: unknown attribute `Depends on` / did you mean `after`? For text, write `\` before the line
    ");
    let escaped = "## One\n\nWrite:\n\n\\- skipped: so many\n";
    let description = &read(escaped).plan.tasks[0].description;
    assert_eq!(description, "Write:\n\n- skipped: so many");
    let header = "name: A\nworkspace: sub\n---\n\n## One\n\nDo it.\n";
    insta::assert_snapshot!(problems("plan.md", header), @"line 1, column 1: this is a header, and no line `---` stands above it / write `---` on the line above");
}

#[test]
fn plan_file_reports_all_problems() {
    let text = "---\ngoal: g\nordr: free\norder: backwards\n---\n\n## 1. One\n- after: 2, 9, 1\n- asignee: me\n- expected: a\n- expected: b\n\n\
        ## 3. Two\n- after: One, Thre\n- optional: perhaps\n\n## Same\n## Same\n##\n- after: same\n";
    insta::assert_snapshot!(problems("plan.md", text), @r"
    line 3, column 1: unknown field `ordr` / did you mean `order`?
    line 4, column 8: `order` is `backwards`, not dependencies, sequential or free
    line 8, column 10: tasks wait for each other: 1 → 2 → 1 / take one of these dependencies out
    line 8, column 13: there is no task `9` / tasks are numbered from 1 to 5
    line 8, column 16: task `1` waits for itself
    line 9, column 3: unknown attribute `asignee` / did you mean `assignee`? For text, write `\` before the line
    line 11, column 3: `expected` is written twice, first on line 10
    line 13, column 4: this is task 2 of the file, but its heading has another number / number the tasks from 1 in the order of the file: `## 2. …`
    line 14, column 15: there is no task `Thre` / tasks are numbered from 1 to 5
    line 15, column 13: `optional` is `perhaps`, not true or false / for text, write `\` before the line
    line 19, column 1: a task without a name
    line 20, column 10: several tasks are named `same` / use the number of the task
    ");
}

#[test]
fn validates_produced_files_and_checks() {
    let markdown = "## One\n- produces: ./a.txt, src//b.rs\n  c.md\n- checks: test, lnt\n";
    let yaml = "name: x\nsteps:\n- step_id: a\n  tasks:\n  - task_id: t\n    name: T\n    checks: [test, lnt]\n    \
        produces: [./a.txt, src//b.rs, c.md]\n";
    let json = r#"{"name": "x", "steps": [{"step_id": "a", "tasks": [{"task_id": "t", "name": "T",
        "checks": ["test", "lnt"], "produces": ["./a.txt", "src//b.rs", "c.md"]}]}]}"#;
    let mismatches = |name: &str, text: &str| {
        let file = parse(name, text).unwrap();
        assert_eq!(file.plan.tasks[0].produces, ["a.txt", "src/b.rs", "c.md"]);
        assert_eq!(file.plan.tasks[0].checks, ["test", "lnt"]);
        told(&file.unknown_checks(&["test", "lint"].into_iter()))
    };
    insta::assert_snapshot!(mismatches("p.md", markdown), @"line 4, column 17: there is no check `lnt` / did you mean `lint`?");
    insta::assert_snapshot!(mismatches("p.yaml", yaml), @"line 7, column 20: there is no check `lnt` / did you mean `lint`?");
    insta::assert_snapshot!(mismatches("p.json", json), @"line 2, column 28: there is no check `lnt` / did you mean `lint`?");
    insta::assert_snapshot!(problems("p.md", "## One\n- produces: ../a, /b\n  src/, *.rs\n"), @"
    line 2, column 13: `../a` leads out of the workspace
    line 2, column 19: `/b` is not relative to the workspace
    line 3, column 3: `src/` names a folder, not a file
    line 3, column 9: `*.rs` is a pattern, not the name of one file
    ");
    let many: Vec<String> = (0..=MAX_PRODUCED).map(|n| n.to_string()).collect();
    insta::assert_snapshot!(problems("p.md", &format!("## One\n- produces: {}\n", many.join(","))), @"line 2, column 153: a task produces at most 50 files");
}

#[test]
fn unknown_field_is_a_problem() {
    let yaml = "name: x\ngaol: g\nsteps:\n- step_id: a\n  owner: me\n  tasks:\n  - task_id: t\n    name: T\n    \
                done: true\n  - {task_id: u, name: U, optoinal: true}\n";
    insta::assert_snapshot!(problems("p.yaml", yaml), @r"
    line 2, column 1: unknown field `gaol` / did you mean `goal`?
    line 5, column 3: unknown field `owner` / known are step_id, name, tasks
    line 9, column 5: unknown field `done` / known are task_id, name, assignee, description, expected_outcome, constraints, checks, produces, locks, optional, dependencies
    line 10, column 27: unknown field `optoinal` / did you mean `optional`?
    ");
    let json = "{\"name\": \"x\", \"steps\": [{\"step_id\": \"a\", \"tasks\": [\n\
                {\"task_id\": \"t\", \"name\": \"T\", \"depends_on\": []}]}]}";
    insta::assert_snapshot!(problems("p.json", json), @"line 2, column 31: unknown field `depends_on` / did you mean `dependencies`?");
}

#[test]
fn every_mark_of_a_list_begins_an_attribute() {
    for mark in ["- ", "* ", "+ ", "-\t", " - "] {
        let text = format!("## A\n\n## B\n\n{mark}after: 1\n{mark}optional\n\nWords\n");
        let task = &read(&text).plan.tasks[1];
        let read = (task.dependencies.len(), task.optional, &*task.description);
        assert_eq!(read, (1, true, "Words"), "{mark:?}");
    }
}

#[test]
fn attributes_may_have_the_marks_of_chinese() {
    for line in ["- after：1，2", "- after:1", "- after:\t1、2"] {
        let text = format!("## A\n\n## B\n\n## C\n\n{line}\n\n- 登录：要有测试\n- http://a.b\n");
        let task = &read(&text).plan.tasks[2];
        let read = (task.dependencies.is_empty(), &*task.description);
        assert_eq!(read, (false, "- 登录：要有测试\n- http://a.b"), "{line}");
    }
    insta::assert_snapshot!(problems("plan.md", "## A\n\n- chekcs：x\n"), @r"line 3, column 3: unknown attribute `chekcs` / did you mean `checks`? For text, write `\` before the line");
}

#[test]
fn flag_needs_no_value() {
    let tasks = read("## A\n- done\n## B\n- skipped\n- optional\n\n- done\n## C\nWords\n- done\n");
    let tasks = tasks.plan.tasks.iter().map(|task| {
        let flags = [task.done, task.optional];
        (flags, task.skipped.as_deref(), &*task.description)
    });
    let wanted = [
        ([true, false], None, ""),
        ([false, true], Some(""), "- done"),
        ([false, false], None, "Words\n- done"),
    ];
    assert_eq!(Vec::from_iter(tasks), wanted);
}

#[test]
fn every_wrong_criterion_is_reported_in_its_place() {
    let markdown = "## A\n- expected:\n  - a (chek: x)\n  - b\n  - c (lines: 1)\n";
    insta::assert_snapshot!(problems("p.md", markdown), @r"
    line 3, column 3: `(chek: …)` is no proof: did you mean `(check: …)`?
    line 5, column 3: `(lines: …)` names no file: a proof is `(file: PATH, lines: …)`
    ");
    let yaml = "name: x\nsteps:\n- step_id: a\n  tasks:\n  - task_id: t\n    name: T\n    \
                expected_outcome:\n    - 'a (chek: x)'\n    - 'c (lines: 1)'\n";
    insta::assert_snapshot!(problems("p.yaml", yaml), @r"
    line 8, column 7: `(chek: …)` is no proof: did you mean `(check: …)`?
    line 9, column 7: `(lines: …)` names no file: a proof is `(file: PATH, lines: …)`
    ");
}

#[test]
fn json_is_read_as_yaml_and_every_place_is_known() {
    let file = |more: &str, task: &str| {
        format!(
            "{{\"name\": \"ü\", {more}\n\t\"steps\":[{{\"step_id\":\"s\", \"tasks\": [\n  {{\"task_id\": \"é\", {task}}}]}}]}}"
        )
    };
    let named = "\"name\": \"\\ud83d\\ude00\u{2028}\\/\\\\ud83d\", \"assignee\": null";
    let plan = parse("p.json", &file("", named)).unwrap();
    assert_eq!(plan.plan.tasks[0].name, "\u{1f600}\u{2028}/\\ud83d");
    let hostile = "\"name\": \"N\", \"description\": \"fn f(s: &str) -> usize [[[ \u{85}\u{7f}\u{2029} {{{\",\n \"optional\": true";
    let plan = parse("p.json", &file("", hostile)).unwrap().plan;
    let text = "fn f(s: &str) -> usize [[[ \u{85}\u{7f}\u{2029} {{{";
    assert_eq!(plan.tasks[0].description, text);
    let problem = |more: &str, task: &str| problems("p.json", &file(more, task));
    insta::assert_snapshot!(problem("\"order\": \"up\",", "\"name\": \"T\", \"dependencies\": [\"é\",\n \"è\"]"), @r"
    line 1, column 24: `order` is `up`, not dependencies, sequential or free
    line 3, column 50: task `é` waits for itself
    line 4, column 2: there is no task `è` / name the `task_id` of another task
    ");
    insta::assert_snapshot!(problem("\"order\": [1], \"goal\": {},", "\"name\": \"T\", \"name\": \"U\""), @r"
    line 1, column 25: `order` is a list, not a text
    line 1, column 29: `goal` is a map, not a text
    line 3, column 33: `name` is written twice, first on line 3
    ");
}

#[test]
fn reports_problems_of_broken_plan_files() {
    let table = r#"
        md | -
        md | ---\ngoal: g\n---\nSome words.\n
        md | ---\ngoal: g\n## One\n
        md | ---\ngoal: a: b\n---\n## One\n
        md | ## One\n- after: 2\n## Two\n- after: three\n## Three\n- after: 1\n
        yaml | name: x\nsteps:\n- step_id: a\n  tasks:\n  - task_id: t\n    name: [T]\n
        yaml | name: x\nsteps:\n- step_id: a\n  tasks:\n  - {task_id: t1, name: T, dependencies: [t2, t9]}\n  - task_id: t2\n    name: U\n    dependencies: [t1]\n  - {task_id: t2, name: V}\n
        yaml | name: x\nsteps: []\n
        yaml | name: &n x\nsteps: []\n
        json | {"name": "x",\n "steps": [}
        json | {"name": "x"}"#;
    let told = rows(table).map(|[kind, text]| problems(&format!("plan.{kind}"), &text));
    insta::assert_snapshot!(Vec::from_iter(told).join("\n--\n"), @r"
    line 1, column 1: the plan has no tasks / write each task under a heading `## Its name`, or as a line `- [ ] Its name` or `1. Its name`
    --
    line 1, column 1: the plan has no tasks / write each task under a heading `## Its name`, or as a line `- [ ] Its name` or `1. Its name`
    --
    line 2: the front matter has no closing `---` / put a line `---` after line 2
    --
    line 2, column 8: mapping values are not allowed in this context / put text with `: `, quotes or brackets in it in double quotes
    --
    line 2, column 10: tasks wait for each other: 1 → 2 → 3 → 1 / take one of these dependencies out
    --
    line 6, column 12: `name` is a list, not a text
    --
    line 5, column 43: tasks wait for each other: t1 → t2 → t1 / take one of these dependencies out
    line 5, column 47: there is no task `t9` / did you mean `t1`?
    line 9, column 15: `task_id` `t2` is used twice
    --
    line 1, column 1: the plan has no tasks / write each task under a heading `## Its name`, or as a line `- [ ] Its name` or `1. Its name`
    --
    line 1, column 7: a YAML anchor / put the text in double quotes
    --
    line 2, column 12: expected value
    --
    line 1, column 2: the plan has no `steps`
    ");
}

#[test]
fn parses_large_and_hostile_plan_files() {
    let chain: String = (1..=10_000)
        .map(|n| format!("## {n}. T\n- after: {}\n", n - 1))
        .collect();
    let chain = chain.replacen("- after: 0\n", "", 1);
    assert_eq!(read(&chain).plan.tasks.len(), 10_000);
    let circle = chain.replacen("## 1. T\n", "## 1. T\n- after: 10000\n", 1);
    assert!(parse("p.md", &circle).is_err());
    let indented = (0..3000).map(|n| " ".repeat(n % 300) + "a:\n");
    for (name, text) in [
        ("p.md", "x".repeat(2 << 20)),
        ("p.yaml", "[".repeat(100_000)),
        ("p.json", "[".repeat(100_000)),
        ("p.yaml", "- ".repeat(100_000)),
        ("p.yaml", indented.collect()),
        ("p.yaml", "a: &a [x]\nb: [*a, *a]".to_owned()),
        ("p.md", format!("---\ngoal: {}\n---\n", "{".repeat(5000))),
    ] {
        assert!(parse(name, &text).is_err(), "{name}");
    }
}

#[test]
fn renders_plan_file() {
    let mut first = sample_plans::task(1, "Count", TaskState::Completed);
    first.description =
        "Write it.\n\n```sh\n## no task\n```\n## Heading\n- after: all\n\\- after: x".to_owned();
    first.assignee = Some("coder".to_owned());
    first.criteria = Criteria::plain("count.py\n\nand its docs");
    let mut second = sample_plans::task(4, "# Learn C #", TaskState::Pending);
    second.dependencies = vec![TaskId(1)];
    second.checks = vec!["lint".to_owned(), "test".to_owned()];
    second.produces = vec!["c sharp.md".to_owned(), "src/b.rs".to_owned()];
    second.may_change = vec!["tests/**".to_owned(), "*.golden".to_owned()];
    second.locks = vec!["port:8080".to_owned(), "the database".to_owned()];
    second.optional = true;
    let mut third = sample_plans::task(5, "List", TaskState::Pending);
    third.description = "- expect: this\n```\nopen".to_owned();
    let plan = sample_plans::plan(sample_plans::head(), [first.clone(), second, third]);
    let mut left_out = sample_plans::task(2, "Old", TaskState::Skipped);
    left_out.result = Some("replaced by replan\nof\n\n- done: true".to_owned());
    let mut unknown = sample_plans::task(3, "Odd", TaskState::Skipped);
    unknown.result = None;
    let skips = sample_plans::plan(sample_plans::head(), [first, left_out, unknown]);
    let text = render(&skips);
    let states = [
        ("done: true", 2),
        ("skipped: replaced by replan\n  of\n  - done: true", 1),
        ("skipped: no reason", 1),
    ];
    for (state, count) in states {
        let found = text.matches(&format!("- {state}\n")).count();
        assert_eq!(found, count, "{text}");
    }
    let again = parse("plan.md", &text).unwrap().plan.tasks;
    let read = again.iter();
    let read = read.map(|task| (task.done, task.skipped.as_deref()));
    let replaced = Some("replaced by replan\nof\n- done: true");
    let wanted = [(true, None), (false, replaced), (false, Some("no reason"))];
    assert_eq!(Vec::from_iter(read), wanted);
    insta::assert_snapshot!(render(&plan), @r"
    ---
    name: Word counter
    goal: Count the words of a file
    order: dependencies
    ---

    ## 1. Count

    - assignee: coder
    - expected: count.py
      and its docs
    - done: true

    Write it.

    ```sh
    ## no task
    ```
    \## Heading
    \- after: all
    \\- after: x

    ## 2. # Learn C # ##

    - after: 1
    - checks: lint, test
    - produces: c sharp.md, src/b.rs
    - may_change: tests/**, *.golden
    - locks: port:8080, the database
    - optional: true

    ## 3. List

    - optional: false

    - expect: this
    ```
    open
    ```
    ");
}

fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "[a-zA-Z0-9 .,:#*&!`~\\\\-]{0,16}",
        1 => "\\PC{0,8}",
        1 => Just("## Task".to_owned()),
        1 => Just("- after: 1".to_owned()),
        1 => Just("- done".to_owned()),
        1 => Just("\\- after: 1".to_owned()),
        1 => Just("- [ ] item".to_owned()),
        1 => Just("---".to_owned()),
        1 => Just("```sh".to_owned()),
    ];
    proptest::collection::vec(line, 0..5).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn plan_file_round_trips(
        goal in text(),
        tasks in proptest::collection::vec(
            ("\\PC{0,12}", text(), text(), any::<bool>(), proptest::collection::vec(any::<usize>(), 0..3)),
            1..8,
        ),
    ) {
        let mut plan = sample_plans::plan(sample_plans::head(), []);
        plan.put(Row::Head(Box::new(crate::plan::PlanHead { goal, ..sample_plans::head() })));
        for (at, (name, description, constraints, optional, after)) in tasks.iter().enumerate() {
            let number = u32::try_from(at).unwrap() * 2 + 1;
            let mut task = sample_plans::task(number, &format!("N{name}"), TaskState::Pending);
            task.description.clone_from(description);
            task.constraints.clone_from(constraints);
            task.optional = *optional;
            let mut targets: Vec<usize> = after.iter().filter(|_| at > 0).map(|after| after % at).collect();
            targets.sort_unstable();
            targets.dedup();
            task.dependencies = targets.into_iter().map(|at| TaskId(u32::try_from(at).unwrap() * 2 + 1)).collect();
            plan.put(Row::Task(Box::new(task)));
        }
        let text = render(&plan);
        let read = parse("plan.md", &text);
        prop_assert!(read.is_ok(), "{text}\n{read:?}");
        let read = read.unwrap();
        prop_assert_eq!(read.plan.tasks.len(), tasks.len(), "{}", text);
        for (task, written) in read.plan.tasks.iter().zip(plan.tasks()) {
            let name = crate::wire::text::one_line(&written.name, usize::MAX);
            prop_assert_eq!(&task.name, &name, "{}", text);
            let numbers: Vec<_> = task.dependencies.iter().map(|reference| match reference {
                TaskRef::New(at) => TaskId(u32::try_from(*at).unwrap() * 2 + 1),
                other => panic!("{other:?}"),
            }).collect();
            prop_assert_eq!(&numbers, &written.dependencies, "{}", text);
            prop_assert_eq!(task.optional, written.optional, "{}", text);
        }
        for only in plan.tasks().map(|task| Some(task.number)).chain([None]) {
            let given = PlanToEdit::new(&plan, only);
            let edited = given.read(&given.text);
            prop_assert!(edited.as_ref().is_ok_and(EditedPlan::is_empty), "{}\n{:?}", given.text, edited);
        }
    }

    #[test]
    fn plan_parser_survives_any_text(text in "((#|-|\\*|`|~| |\\[x?\\]|after: |[0-9]|[a-z]|,|---|\n){0,40})") {
        if let Ok(plan) = parse("p.md", &text) {
            prop_assert!(!plan.plan.tasks.is_empty());
        }
    }
}

#[test]
fn locks_are_read_from_every_form() {
    let front = "---\ngoal: g\n---\n";
    let markdown = |locks: &str| format!("{front}\n## 1. Serve\n\n- locks: {locks}\n");
    let yaml = |locks: &str| {
        format!(
            "name: p\ngoal: g\nsteps:\n- step_id: s\n  tasks:\n  - {{task_id: a, name: A, locks: [{locks}]}}\n"
        )
    };
    let long = "x".repeat(101);
    for (name, form) in [
        ("p.md", &markdown as &dyn Fn(&str) -> String),
        ("p.yaml", &yaml),
    ] {
        let read = parse(name, &form("'port:8080', b")).unwrap();
        let locks = &read.plan.tasks[0].locks;
        assert_eq!(locks.len(), 2, "{name}");
        assert!(locks[0].contains("port:8080"), "{name}: {locks:?}");
        assert_eq!(locks[1], "b", "{name}: {locks:?}");
        assert!(parse(name, &form(&long)).is_err(), "{name}");
        let many: Vec<String> = (0..17).map(|number| format!("l{number}")).collect();
        assert!(parse(name, &form(&many.join(", "))).is_err(), "{name}");
    }
}
