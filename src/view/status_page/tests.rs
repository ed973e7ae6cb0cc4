use super::super::tests::sample_plan::{self, NOW};
use std::time::Duration;

use super::*;
use crate::plan::{HeldLocks, Plan};

fn view(plan: &Plan, daemon: Option<u32>, limit: usize) -> PlanView {
    let mut view = PlanView::of(plan, 11, limit, NOW, &HeldLocks::new());
    view.carried_out_by(daemon, None);
    view
}

fn text(plan: &Plan, daemon: Option<u32>, limit: usize) -> String {
    view(plan, daemon, limit).page(NOW, Paint::none(), &ProgramName::with(None, None))
}

#[test]
fn status_shows_tasks_and_questions() {
    insta::assert_snapshot!(text(&sample_plan::plan(), Some(7), 50), @r#"
    kqzjwmha  Word counter  running
    Goal: Count the words of a file
    1 of 5 tasks done · 1 in progress · 1 asks you · 1 ready · 1 waiting
    Used: agents 3 of 200 attempts

       1  completed    Write the counter · ~ accepted
       2  asks you     Serve "it" <over> HTTP; #1
       3  waiting      Describe both · after 2
       4  in progress  Test · attempt 1 for 5 min
       5  ready        Publish

    Question about task 2
      failed three times: the port is taken
      Answer: plan-agent answer retry|skip|abort
        retry    try again, up to 3 attempts; the note goes along to the agent
        skip     leave the task out; what waits for it goes on without it
        abort    end the plan for good; agents at work stop, their work stays
    "#);
}

#[test]
fn attempt_of_a_stopped_plan_is_not_said_to_go_on() {
    let page = text(&sample_plan::plan(), None, 50);
    assert!(page.contains("Test · attempt 1, begun 5 min ago"), "{page}");
}

#[test]
fn status_shows_busy_lanes() {
    let page = text(&sample_plan::with_roles(), Some(7), 50);
    insta::assert_snapshot!(page, @r#"
    kqzjwmha  Word counter  running
    Goal: Count the words of a file
    1 of 5 tasks done · 1 in progress · 1 asks you · 1 ready · 1 waiting
    At work: coder 1 of 1 (task 4) · tester 0 of 2
    Used: agents 3 of 200 attempts

       1  completed    Write the counter · ~ accepted
       2  asks you     Serve "it" <over> HTTP; #1
       3  waiting      Describe both · tester · after 2
       4  in progress  Test · coder · attempt 1 for 5 min
       5  ready        Publish · coder

    Question about task 2
      failed three times: the port is taken
      Answer: plan-agent answer retry|skip|abort
        retry    try again, up to 3 attempts; the note goes along to the agent
        skip     leave the task out; what waits for it goes on without it
        abort    end the plan for good; agents at work stop, their work stays
    "#);
    let status = view(&sample_plan::with_roles(), Some(7), 1);
    insta::assert_snapshot!(serde_json::to_string(&status.lanes).unwrap(), @r#"{"most":3,"busy":1,"roles":[{"role":"coder","most":1,"tasks":[4]},{"role":"tester","most":2,"tasks":[]}],"others":[]}"#);
}

#[test]
fn status_shows_open_requests() {
    let plan = sample_plan::with_a_wait();
    let page = text(&plan, Some(7), 50);
    let about = |line: &&str| line.contains("coder");
    let lines: Vec<&str> = page.lines().filter(about).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    At work: coder 1 of 1 (task 4) · tester 0 of 2, asked to help with task 4
       4  in progress  Test · coder · attempt 1 for 5 min
                       coder waits for tester · 60 s
       5  ready        Publish · coder
    ");
    let status = view(&plan, Some(7), 1);
    insta::assert_snapshot!(serde_json::to_string(&status.waits).unwrap(), @r#"[{"on":"tester","request":"task-4b","role":"coder","since":"2027-01-15T08:04:00Z","task":4,"what":"Does it\u001b[2J count?"}]"#);
    insta::assert_snapshot!(serde_json::to_string(&status.lanes).unwrap(), @r#"{"most":3,"busy":1,"roles":[{"role":"coder","most":1,"tasks":[4]},{"role":"tester","most":2,"tasks":[],"asked":[4]}],"others":[]}"#);
}

#[test]
fn short_status_shows_current_tasks() {
    insta::assert_snapshot!(text(&sample_plan::plan(), None, 2), @r#"
    kqzjwmha  Word counter  stopped
    Goal: Count the words of a file
    1 of 5 tasks done · 1 in progress · 1 asks you · 1 ready · 1 waiting
    Used: agents 3 of 200 attempts

          … 1 earlier
       2  asks you     Serve "it" <over> HTTP; #1
       3  waiting      Describe both · after 2
          … 2 more

    Question about task 2
      failed three times: the port is taken
      Answer: plan-agent answer retry|skip|abort
        retry    try again, up to 3 attempts; the note goes along to the agent
        skip     leave the task out; what waits for it goes on without it
        abort    end the plan for good; agents at work stop, their work stays

    No daemon works here: `plan-agent resume kqzjwmha` goes on where it was.
    "#);
}

#[test]
fn status_json_has_documented_fields() {
    let status = view(&sample_plan::plan(), Some(7), 50);
    insta::assert_snapshot!(serde_json::to_string_pretty(&status).unwrap(), @r#"
    {
      "plan": {
        "id": "kqzjwmha",
        "name": "Word counter",
        "goal": "Count the words of a file",
        "status": "running",
        "state": "running",
        "seq": 11
      },
      "progress": {
        "total": 5,
        "pending": 2,
        "ready": 1,
        "blocked": 1,
        "in_progress": 2,
        "completed": 1,
        "failed": 0,
        "skipped": 0,
        "by_state": {
          "completed": 1,
          "in_progress": 1,
          "asks_you": 1,
          "ready": 1,
          "waiting": 1
        }
      },
      "tasks": [
        {
          "id": 1,
          "key": "1",
          "name": "Write the counter",
          "status": "completed",
          "state": "completed",
          "proven": false,
          "criteria": [
            {
              "text": "",
              "state": "not_proven",
              "why": "no check is bound to it"
            }
          ],
          "assignee": null,
          "dependencies": [],
          "attempts": 1,
          "result": "counts words",
          "usage": {
            "llm_calls": 0,
            "llm_tokens": 0,
            "agent_tokens": 0,
            "cost_usd": 0.0,
            "seconds": 0.0
          }
        },
        {
          "id": 2,
          "key": "2",
          "name": "Serve \"it\" <over> HTTP; \u001b]0;title\u0007#1",
          "status": "in_progress",
          "state": "asks_you",
          "proven": null,
          "assignee": null,
          "dependencies": [
            1
          ],
          "attempts": 1,
          "result": null,
          "usage": {
            "llm_calls": 0,
            "llm_tokens": 0,
            "agent_tokens": 0,
            "cost_usd": 0.0,
            "seconds": 0.0
          }
        },
        {
          "id": 3,
          "key": "3",
          "name": "Describe both",
          "status": "pending",
          "state": "waiting",
          "proven": null,
          "assignee": null,
          "dependencies": [
            1,
            2
          ],
          "attempts": 0,
          "result": null,
          "usage": {
            "llm_calls": 0,
            "llm_tokens": 0,
            "agent_tokens": 0,
            "cost_usd": 0.0,
            "seconds": 0.0
          }
        },
        {
          "id": 4,
          "key": "4",
          "name": "Test",
          "status": "in_progress",
          "state": "in_progress",
          "proven": null,
          "assignee": null,
          "dependencies": [
            1
          ],
          "attempts": 1,
          "result": null,
          "usage": {
            "llm_calls": 0,
            "llm_tokens": 0,
            "agent_tokens": 0,
            "cost_usd": 0.0,
            "seconds": 0.0
          }
        },
        {
          "id": 5,
          "key": "5",
          "name": "Publish",
          "status": "pending",
          "state": "ready",
          "proven": null,
          "assignee": null,
          "dependencies": [],
          "attempts": 0,
          "result": null,
          "usage": {
            "llm_calls": 0,
            "llm_tokens": 0,
            "agent_tokens": 0,
            "cost_usd": 0.0,
            "seconds": 0.0
          }
        }
      ],
      "questions": [
        {
          "id": "question-7",
          "task": 2,
          "reason": "failed three times\u001b[2J: the port is taken",
          "choices": [
            "retry",
            "skip",
            "abort"
          ]
        }
      ],
      "usage": {
        "agent_cost_usd": 0.0,
        "agent_input_tokens": 0,
        "agent_output_tokens": 0,
        "attempts": 3,
        "budget": {
          "attempts": 200,
          "cost_usd": 20.0,
          "llm_calls": 500,
          "llm_tokens": 5000000,
          "wall_seconds": 43200.0
        },
        "llm_calls": 0,
        "llm_cost_usd": 0.0,
        "llm_input_tokens": 0,
        "llm_output_tokens": 0,
        "wall_seconds": 0.0
      },
      "daemon": {
        "pid": 7
      }
    }
    "#);
    let status = serde_json::to_value(view(&sample_plan::plan(), None, 2)).unwrap();
    assert_eq!(status["truncated"], true);
    assert_eq!(status["tasks"].as_array().unwrap().len(), 2);
    assert!(status["daemon"].is_null());
}

#[test]
fn window_stays_within_plan() {
    let plan = sample_plan::plan();
    for limit in [0, 1, 4, 5, 6, usize::MAX] {
        let view = view(&plan, None, limit);
        let (before, after) = view.hidden;
        assert_eq!(before + view.tasks.len() + after, 5);
        assert_eq!(view.tasks.len(), limit.min(5));
    }
}

#[test]
fn durations_have_one_unit() {
    let said = [0, 119, 120, 7199, 7200].map(|seconds| span(Duration::from_secs(seconds)));
    assert_eq!(said, ["0 s", "119 s", "2 min", "119 min", "2 h"]);
}
