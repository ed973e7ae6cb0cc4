//! Team files: what is read of them, what is refused, and plans made from workflows.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::plan::{TaskOrder, TaskRef};
use crate::wire::tests::told;

const EXAMPLE: &str = include_str!("../../../examples/team.yaml");

const TEAM: &str = r#"
name: Team
roles:
- id: architect
  kind: agent
  description: Designs.
  prompt: prompts/architect.md
  actions: [write_file]
  tools: [docs.search]
  templates:
  - name: design
    matches: [design, API]
    steps:
    - {name: Look, tool: docs.search, params: {words: "{{task.name}}", most: 3}}
    - {name: Think, action: ask, params: {prompt: "{{steps.1.result}}"}}
    - {name: Check, ask: coder, description: "Does it fit?", context: "{{context}} {{steps.2.result}}"}
  concurrency: 3
  timeout: 1h 30m
  collaboration_timeout: 90s
  on_timeout: replan
- {id: coder, kind: files, folder: own, worker: {agent: command, argv: [./agent.sh, "{prompt_file}"]}}
- {id: tester, kind: files, worker: claude}
- {id: person, kind: files, worker: external}
- {id: anybody, kind: files}
workflows:
- id: feature
  name: Feature {{feature}}
  description: Makes {{feature}}.
  parameters:
    feature: {type: string, description: what is made}
    count: {type: integer, default: 2}
    share: {type: number, choices: [0.5, 1.50]}
    loud: {type: boolean, default: false}
    version: {default: 1.10}
    free:
  steps:
  - step_id: one
    name: Step {{feature}}
    tasks:
    - task_id: a
      name: Make {{feature}}
      assignee: coder
      description: "{{count}} times, {{share}}, {{loud}}, {{version}}, {{free}}, \\{{free}}"
      produces: ["out/{{feature}}.md"]
      checks: [test]
    - {task_id: b, name: Test, assignee: person, optional: true, dependencies: [a]}
"#;

fn problems(text: &str) -> String {
    told(&parse(text).unwrap_err())
}

fn given(value: Value) -> Map<String, Value> {
    let Value::Object(given) = value else {
        panic!("{value}");
    };
    given
}

#[test]
fn reads_full_team() {
    let team = parse(TEAM).unwrap();
    assert_eq!(team.name, "Team");
    let architect = &team.roles[0];
    assert_eq!(architect.kind, RoleKind::Agent);
    assert_eq!(architect.prompt, Some("prompts/architect.md".into()));
    assert_eq!(architect.concurrency, 3);
    assert_eq!(architect.timeout, Some(Duration::from_secs(5400)));
    assert_eq!(architect.collaboration_timeout, Duration::from_secs(90));
    assert_eq!(architect.on_timeout, OnTimeout::Replan);
    let template = &architect.templates[0];
    assert_eq!(template.matches, ["design", "API"]);
    let does: Vec<&StepDoes> = template.steps.iter().map(|step| &step.does).collect();
    assert_eq!(
        does,
        [
            &StepDoes::UseTool {
                tool: "docs.search".to_owned(),
                params: given(json!({"words": "{{task.name}}", "most": 3})),
            },
            &StepDoes::ExecuteAction {
                action: "ask".to_owned(),
                params: given(json!({"prompt": "{{steps.1.result}}"})),
            },
            &StepDoes::RequestCollaboration {
                target: "coder".to_owned(),
                description: "Does it fit?".to_owned(),
                context: "{{context}} {{steps.2.result}}".to_owned(),
            },
        ]
    );
    let coder = team.role("coder").unwrap();
    assert_eq!(coder.kind, RoleKind::Files);
    assert_eq!(coder.folder, RoleFolder::Own);
    assert_eq!((coder.concurrency, coder.timeout), (1, None));
    assert_eq!(coder.collaboration_timeout, Duration::from_secs(600));
    let agent = |name: &str, argv: &[&str]| {
        Some(RoleWorker::Agent {
            name: name.to_owned(),
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
        })
    };
    let command = agent("command", &["./agent.sh", "{prompt_file}"]);
    assert_eq!(coder.worker, command);
    let workers = ["tester", "person", "anybody"].map(|id| team.role(id).unwrap().worker.clone());
    let wanted = [agent("claude", &[]), Some(RoleWorker::External), None];
    assert_eq!(workers, wanted);
    insta::assert_snapshot!(told(&team.without_worker()), @"line 24, column 8: the role `anybody` has no agent / write `worker: claude`, or another agent; `worker: external` if it is started elsewhere; or name one for all: --agent");
}

#[test]
fn workflow_instantiates_plan() {
    let team = parse(TEAM).unwrap();
    let workflow = team.workflow("feature").unwrap();
    let said =
        json!({"feature": "a {{count}}: \"x\"", "share": "1.50", "free": "y\u{1b}[31m\n# z"});
    let plan = workflow.instantiate(&given(said)).unwrap();
    assert_eq!(plan.plan.name, "Feature a {{count}}: \"x\"");
    assert_eq!(plan.plan.goal, plan.plan.name);
    assert_eq!(plan.plan.order, None);
    let [first, second] = plan.plan.tasks.as_slice() else {
        panic!("{:?}", plan.plan.tasks);
    };
    assert_eq!(first.step.as_deref(), Some("Step a {{count}}: \"x\""));
    let description = "2 times, 1.50, false, 1.10, y\n# z, {{free}}";
    assert_eq!(first.description, description);
    assert_eq!(first.produces, ["out/a {{count}}: \"x\".md"]);
    assert!(second.optional);
    assert_eq!(second.assignee.as_deref(), Some("person"));
    assert_eq!(second.dependencies, [TaskRef::New(0)]);
}

#[test]
fn team_example_is_valid() {
    let team = parse(EXAMPLE).map_err(|found| told(&found)).unwrap();
    let known = KnownNames {
        agents: &["claude"],
        actions: &["ask", "read_file", "write_file"],
        ..KnownNames::default()
    };
    assert_eq!(told(&team.problems(&known)), "");
    let feature = team.workflow("feature").unwrap();
    let plan = feature.instantiate(&given(json!({"feature": "a flag"})));
    let plan = plan.unwrap();
    assert_eq!(plan.plan.name, "Feature: a flag");
    assert_eq!(plan.plan.tasks.len(), 4);
    assert_eq!(plan.plan.order, None::<TaskOrder>);
    assert_eq!(told(&team.assignee_problems(&plan.plan)), "");
}

#[test]
fn reports_all_team_problems() {
    let text = r#"
nam: Team
roles:
- id: coder
  kind: fils
- id: coder
  kind: files
  tools: [plan.get_task]
  concurrency: 0
- kind: agent
  worker: claude
  timeout: soon
  on_timeout: giveup
- id: ../x
- id: inside
  kind: agent
  prompt: ""
  actions: [ask, ask, 7, [x]]
  tools: docs.search
  templates:
  - name: t
    matches: []
    steps:
    - {name: both, action: ask, tool: docs.search}
    - {name: none}
    - {name: other, action: write, params: {a: ["{{steps.3.result}}", "{{task.descripton}}"]}}
    - {name: strange, tool: docs.serch, description: x}
    - {name: self, ask: inside, description: d}
    - {name: far, ask: codr, params: {}}
    - {name: first, action: ask, params: [1]}
  - steps: []
- word
- id: inside
  id: again
  kind: agent
"#;
    insta::assert_snapshot!(problems(text), @"
    line 2, column 1: unknown field `nam` / did you mean `name`?
    line 5, column 9: `kind` is `fils` / did you mean `files`?
    line 6, column 7: the id `coder` is used twice, first on line 4
    line 8, column 3: a role of kind `files` has no `tools` / take it out, or write `kind: agent`
    line 9, column 16: `concurrency` is no number from 1 to 256
    line 10, column 3: the role has no `id`
    line 11, column 3: a role of kind `agent` has no `worker` / take it out, or write `kind: files`
    line 12, column 12: `timeout` is `soon`, no duration / durations are written 90s, 10m or 1h 30m
    line 13, column 15: `on_timeout` is `giveup` / known are fail, retry, replan
    line 14, column 3: the role has no `kind`
    line 14, column 7: `../x` cannot be an id / an id begins with a letter or a digit, and has only letters, digits, `_` and `-` in it, at most 64
    line 17, column 11: `prompt` is empty
    line 18, column 18: `ask` is listed twice
    line 18, column 27: `actions` has a list in it, not only texts
    line 19, column 10: `tools` is a text, not a list
    line 21, column 5: `matches` is empty / list words that are all in the task's name or description
    line 24, column 8: the step has both `action` and `tool` / a step carries out one action, or uses one tool, or asks one role
    line 25, column 8: the step has none of `action`, `tool` and `ask` / a step carries out one action, or uses one tool, or asks one role
    line 26, column 29: the role `inside` has no action `write` / the built-in actions are ask, read_file, write_file, run_check
    line 26, column 49: there is no `{{steps.3.result}}` / this is step 3: it sees the results of steps 1 to 2
    line 26, column 71: there is no `{{task.descripton}}` / did you mean `task.description`?
    line 27, column 29: the role `inside` has no tool `docs.serch` / list it under `tools` of the role
    line 27, column 41: a step with `tool` has no `description`
    line 28, column 25: the role `inside` asks itself
    line 29, column 8: the step has no `description`
    line 29, column 24: there is no role `codr` / did you mean `coder`?
    line 29, column 30: a step with `ask` has no `params`
    line 30, column 43: `params` is a list, not a map of fields
    line 31, column 5: the template has no `name`
    line 31, column 5: the template has no `matches`
    line 31, column 5: the template has no steps
    line 32, column 3: the role is a text, not a map of fields
    line 33, column 7: the id `inside` is used twice, first on line 15
    line 34, column 3: `id` is written twice, first on line 33
    ");
}

#[test]
fn reports_all_workflow_problems() {
    let text = r#"
roles:
- {id: coder, kind: files}
workflows:
- id: w
  parameters:
    feature: {type: text}
    count: {type: integer, default: many, choices: [1, x]}
    size: {type: string, choices: [small, large], default: medium, defualt: x}
    2nd: {}
    odd: word
    flag: {type: boolean, default: yes}
  name: "{{featur}} {{steps.1.result}}"
  order: "{{size}}"
  steps:
  - step_id: "{{size}}"
    tasks:
    - {task_id: "a{{size}}", name: A, assignee: codr, dependancies: [b]}
    - {task_id: b, name: "", assignee: "{{feature}}", dependencies: [c, x]}
    - {task_id: c, name: C, dependencies: [b], optional: maybe, produces: ["../{{size}}"]}
    - {task_id: c, name: [C]}
  - name: no id
- id: w
  name: Empty
  steps: []
- {id: v}
- {}
"#;
    insta::assert_snapshot!(problems(text), @r#"
    line 5, column 3: the workflow has no `id`
    line 5, column 3: the workflow has no `name`
    line 5, column 3: the workflow has no `steps`
    line 7, column 21: `type` is `text` / known are string, integer, number, boolean
    line 8, column 37: the default is `many`, not of type integer
    line 8, column 56: a choice is `x`, not of type integer
    line 9, column 60: the default is `medium`, not one of `small`, `large`
    line 9, column 68: unknown field `defualt` / did you mean `default`?
    line 10, column 5: `2nd` cannot be the name of a parameter / a name begins with a letter or `_`, and has only letters, digits and `_` in it
    line 11, column 10: the parameter `odd` is a text, not a map of fields / write `odd: {type: string, description: "…"}`
    line 12, column 36: the default is `yes`, not true or false
    line 13, column 9: there is no parameter `featur` / did you mean `feature`?
    line 13, column 9: there is no parameter `steps.1.result` / define it under `parameters` of the workflow, or write `\{{` for the braces themselves
    line 14, column 10: `order` cannot have a parameter in it
    line 14, column 10: `order` is `small`, not dependencies, sequential or free
    line 16, column 14: `step_id` cannot have a parameter in it
    line 18, column 17: `task_id` cannot have a parameter in it
    line 18, column 49: there is no role `codr` / did you mean `coder`?
    line 18, column 55: unknown field `dependancies` / did you mean `dependencies`?
    line 19, column 26: `name` is empty
    line 19, column 70: tasks wait for each other: b → c → b / take one of these dependencies out
    line 19, column 73: there is no task `x` / name the `task_id` of another task
    line 20, column 58: `optional` is `maybe`, not true or false
    line 20, column 76: `../small` leads out of the workspace
    line 21, column 17: `task_id` `c` is used twice
    line 21, column 27: `name` is a list, not a text
    line 22, column 5: the step has no `step_id`
    line 22, column 5: the step has no `tasks`
    line 23, column 7: the workflow has no tasks
    line 23, column 7: the id `w` is used twice, first on line 5
    line 26, column 8: the workflow has no `name`
    line 26, column 8: the workflow has no `steps`
    "#);
}

#[test]
fn rejects_files_that_are_no_team() {
    for text in ["", "[]", "word", "name: x", "roles: {}", "roles: []"] {
        assert!(parse(text).is_err(), "{text}");
    }
    for text in ["roles: &a [*a]", "{", "roles:\n- !x y\n"] {
        assert!(parse(text).is_err(), "{text}");
    }
    let many = (0..101).map(|n| format!("- {{id: r{n}, kind: files}}\n"));
    let many: String = many.collect();
    insta::assert_snapshot!(problems(&format!("roles:\n{many}")), @"line 102, column 4: `roles` has more than 100 entries");
    insta::assert_snapshot!(problems(&"x".repeat(MAX_BYTES + 1)), @"the file has 262145 bytes, more than 262144");
    let deep = format!("roles:\n{}", "- ".repeat(5_000));
    assert!(parse(&deep).is_err());
}

#[test]
fn reports_all_invalid_parameters() {
    let team = parse(TEAM).unwrap();
    let workflow = team.workflow("feature").unwrap();
    let refused = |value: Value| told(&workflow.instantiate(&given(value)).unwrap_err());
    insta::assert_snapshot!(refused(json!({})), @"
    the parameter `feature` is missing / `feature`: what is made
    the parameter `share` is missing
    the parameter `free` is missing
    ");
    insta::assert_snapshot!(
        refused(json!({"featur": "x", "feature": null, "count": "1.5", "share": 2, "loud": "yes", "version": [1], "free": ""})),
        @"
        the workflow `feature` has no parameter `featur` / did you mean `feature`?
        the parameter `feature` has no value / `feature`: what is made
        the parameter `count` is `1.5`, not of type integer
        the parameter `share` is `2`, not one of `0.5`, `1.50`
        the parameter `loud` is `yes`, not true or false
        the parameter `version` is a list or an object, not one value
        the parameter `free` is empty
        "
    );
    insta::assert_snapshot!(
        refused(json!({"feature": "x".repeat(10_000), "share": "nan", "free": "x"})),
        @"
        the parameter `feature` has more than 8000 characters / `feature`: what is made
        the parameter `share` is `nan`, not of type number
        "
    );
    // What comes of them is looked at as the plan of a file is.
    insta::assert_snapshot!(refused(json!({"feature": "../../x", "share": 0.5, "free": "x"})), @"line 44, column 18: `out/../../x.md` leads out of the workspace");
}

#[test]
fn validates_names_outside_team_file() {
    let team = parse(TEAM).unwrap();
    let known = |tools| KnownNames {
        checks: &["tests"],
        agents: &["claude", "comand"],
        actions: &["ask", "writefile"],
        tools,
    };
    insta::assert_snapshot!(told(&team.problems(&known(&["plan.get_task"]))), @"
    line 4, column 7: the role `architect` names the action `write_file`, which is not there / did you mean `writefile`?
    line 4, column 7: the role `architect` names the tool `docs.search`, which is not there / there is only `plan.get_task`
    line 21, column 8: the role `coder` names the worker `command`, which is not there / did you mean `comand`?
    line 45, column 16: there is no check `test` / did you mean `tests`?
    ");
    insta::assert_snapshot!(told(&team.problems(&known(&["docs.*"]))), @"
    line 4, column 7: the role `architect` names the action `write_file`, which is not there / did you mean `writefile`?
    line 21, column 8: the role `coder` names the worker `command`, which is not there / did you mean `comand`?
    line 45, column 16: there is no check `test` / did you mean `tests`?
    ");
    assert_eq!(team.workflow_meant("featur"), "did you mean `feature`?");
    assert_eq!(team.workflow_meant("x"), "the only workflow is feature");
    assert_eq!(team.role_meant("code"), "did you mean `coder`?");
}
