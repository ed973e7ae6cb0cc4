use super::*;
use crate::plan::{
    AnswerChoice, Attempt, CommandId, DecidedBy, Evidence, HumanQuestion, HumanQuestionKind,
    PlanHead, PlanState, QuestionId, ReplanRequest, RoleRequest, Row, TaskId, Verdict,
};
use crate::wire::tests::sample_plans::{NOW, english_words, head, plan, task};

fn evidence(proven: bool) -> Option<Evidence> {
    Some(Evidence {
        proven,
        by_hand: false,
        facts: Vec::new(),
        criteria: Vec::new(),
    })
}

fn attempt(task: u32, number: u32, verdict: Option<Verdict>) -> Attempt {
    Attempt {
        claimed: Some(NOW),
        waiting_since: Time(0),
        verdict,
        ..Attempt::new(
            CommandId::new(format!("task-{task}-{number}")),
            TaskId(task),
            number,
            NOW,
        )
    }
}

fn question(id: &str, reason: &str) -> HumanQuestion {
    HumanQuestion {
        id: QuestionId::new(id),
        about: HumanQuestionKind::Failures,
        task: Some(TaskId(4)),
        request: None,
        ask: None,
        reason: reason.to_owned(),
        choices: vec![AnswerChoice::Retry, AnswerChoice::Skip],
        refused: Vec::new(),
        attempts: 0,
        asked: NOW,
        answer: None,
        closed: None,
    }
}

/// A plan with tasks in many states, what a role waits for, a question, a replan and a summary.
fn busy_plan(language: Language) -> Plan {
    let mut tasks = [
        task(1, "Count", TaskState::Completed),
        task(2, "Test", TaskState::Completed),
        task(3, "Paint", TaskState::Skipped),
        task(4, "Ship", TaskState::InProgress),
        task(5, "Tell", TaskState::Pending),
        task(6, "Sing", TaskState::Pending),
        task(7, "Dance", TaskState::Failed),
    ];
    tasks[0].evidence = evidence(true);
    tasks[0].result = Some("count.py counts".to_owned());
    tasks[1].evidence = evidence(false);
    tasks[2].result = Some("not wanted".to_owned());
    tasks[3].attempts = 2;
    tasks[3].current = Some(CommandId::new("task-4-2"));
    tasks[4].dependencies = vec![TaskId(4), TaskId(7)];
    tasks[6].attempts = 1;
    tasks[6].result = Some("no floor".to_owned());
    let mut plan = plan(
        PlanHead {
            goal: "Count the words\n\n# of a file".to_owned(),
            replan: Some(Box::new(ReplanRequest {
                task: Some(TaskId(7)),
                why: "there is no floor".to_owned(),
            })),
            language: Some(language),
            outcome: Some("All well.\n```\nopen".to_owned()),
            ..head()
        },
        tasks,
    );
    let verdict = Verdict {
        decision: Decision::Retry,
        reason: "the build broke".to_owned(),
        feedback: String::new(),
        by: DecidedBy::Model,
        at: NOW,
        ..Verdict::default()
    };
    plan.put(Row::Attempt(Box::new(attempt(4, 1, Some(verdict)))));
    let mut current = attempt(4, 2, None);
    current.waits.push(RoleRequest {
        role: "reviewer".to_owned(),
        on: "coder".to_owned(),
        request: CommandId::new("task-asked"),
        what: "<b>Mend it</b>\n# now".to_owned(),
        since: NOW,
        limited_until: None,
    });
    plan.put(Row::Attempt(Box::new(current)));
    plan.put(Row::from(question(
        "q-1",
        "Ship failed three times.\nWhat now?",
    )));
    plan
}

#[test]
fn mission_shows_states_reasons_and_questions() {
    let plan = busy_plan(Language::En);
    insta::assert_snapshot!(render(&plan, true, NOW, "plan-agent"), @r"
    # Word counter

    > Count the words
    >
    > # of a file

    ## State

    planning · 4 of 7 tasks settled · 2026-11-21T10:00:00Z

    2 completed, 1 failed, 1 skipped, 0 in progress, 1 ready, 1 waiting, 1 asks you

    The rest of the plan is being changed after task 7: there is no floor

    ## Open questions

    - q-1 (task 4): Ship failed three times. What now?
      - `plan-agent answer q-1 retry`
      - `plan-agent answer q-1 skip`

    ## Tasks

    - [x] 1 · Count — completed, proven
      Result: count.py counts
    - [x] 2 · Test — completed, accepted
    - [x] 3 · Paint — skipped
      Reason: not wanted
    - [ ] 4 · Ship — asks you
      reviewer waits for coder since 2026-11-21T10:00:00Z: \<b>Mend it\</b> # now
      Last result to be tried again: the build broke
    - [ ] 5 · Tell — waiting for 4, 7
    - [ ] 6 · Sing — ready
    - [ ] 7 · Dance — failed after 1 attempt
      Reason: no floor

    ## Summary

    > All well.
    > ```
    > open
    ");
}

#[test]
fn mission_does_not_say_accepted_before_it_is() {
    for (language, said) in [
        (
            Language::En,
            "Last result seems good, but is not accepted: fine",
        ),
        (Language::Zh, "上次结果看来可以，但尚未被接受：“fine”"),
    ] {
        let mut plan = busy_plan(language);
        let verdict = Verdict {
            decision: Decision::Next,
            reason: "fine".to_owned(),
            unsure: true,
            ..Verdict::default()
        };
        plan.put(Row::Attempt(Box::new(attempt(4, 3, Some(verdict)))));
        let text = render(&plan, true, NOW, "plan-agent");
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn mission_is_whole_in_chinese() {
    let plan = busy_plan(Language::Zh);
    let text = render(&plan, false, NOW, "plan-agent");
    insta::assert_snapshot!(text, @r#"
    # Word counter

    > Count the words
    >
    > # of a file

    ## 状态

    已停止 · 7 个任务中 4 个已结束 · 2026-11-21T10:00:00Z

    已完成 2，已失败 1，已跳过 1，进行中 0，就绪 1，等待中 1，等你答复 1

    任务 7 之后，其余计划正在调整：“there is no floor”

    ## 待答问题

    - q-1（任务 4）：“Ship failed three times. What now?”
      - `plan-agent answer q-1 retry`
      - `plan-agent answer q-1 skip`

    ## 任务

    - [x] 1 · Count — 已完成，已证实
      结果：“count.py counts”
    - [x] 2 · Test — 已完成，已接受
    - [x] 3 · Paint — 已跳过
      原因：“not wanted”
    - [ ] 4 · Ship — 等你答复
      reviewer 自 2026-11-21T10:00:00Z 起等待 coder：“\<b>Mend it\</b> # now”
      上次结果需要重试：“the build broke”
    - [ ] 5 · Tell — 等待中（任务 4, 7 之后）
    - [ ] 6 · Sing — 就绪
    - [ ] 7 · Dance — 已失败（共尝试 1 次）
      原因：“no floor”

    ## 总结

    > All well.
    > ```
    > open
    "#);
    let names = [
        "Word counter",
        "Count",
        "Test",
        "Paint",
        "Ship",
        "Tell",
        "Sing",
        "Dance",
        "reviewer",
        "coder",
    ];
    let own = names.iter().fold(text, |text, name| text.replace(name, ""));
    assert_eq!(english_words(&own), [""; 0]);
}

#[test]
fn mission_escapes_foreign_text() {
    let mut odd = task(
        1,
        "# Title\n## Tasks\n- [x] 9 · done `code ``` <script>alert(1)</script> \u{1b}[31m\u{202e}",
        TaskState::Completed,
    );
    odd.result = Some("a `b` ![x](http://example.org)\n\n## Summary\n\nAll done".to_owned());
    let plan = plan(
        PlanHead {
            name: "</h1>\n# Other".to_owned(),
            goal: "# Goal\n```\n<b>\n---\n- [ ] x".to_owned(),
            status: PlanState::Paused("<i>\n## Summary".to_owned()),
            ..head()
        },
        [odd],
    );
    insta::assert_snapshot!(render(&plan, true, NOW, "plan-agent"), @r"
    # \</h1> # Other

    > # Goal
    > ```
    > \<b>
    > ---
    > - [ ] x

    ## State

    paused: \<i> ## Summary · 1 of 1 task settled · 2026-11-21T10:00:00Z

    1 completed, 0 failed, 0 skipped, 0 in progress, 0 ready, 0 waiting

    ## Tasks

    - [x] 1 · # Title ## Tasks - [x] 9 · done \`code \`\`\` \<script>alert(1)\</script> — completed, accepted
      Result: a `b` !\[x](http://example.org) ## Summary All done
    ");
}

#[test]
fn mission_of_large_plan_shows_active_tasks() {
    let tasks = (1..=10_000).map(|number| {
        let status = match number {
            ..=5000 => TaskState::Completed,
            5001 => TaskState::InProgress,
            _ => TaskState::Pending,
        };
        task(number, &format!("Task {number}"), status)
    });
    let text = render(&plan(head(), tasks), true, NOW, "plan-agent");
    assert!(text.contains("5000 of 10000 tasks settled"));
    for shown in [
        "4986 ·",
        "5000 ·",
        "5001 ·",
        "5045 ·",
        "and 9940 more tasks",
    ] {
        assert!(text.contains(shown), "{shown}\n{text}");
    }
    assert!(!text.contains("5046 ·"));
}

#[test]
fn mission_size_is_bounded() {
    for filler in ["🎉", "<", "`", "核\n", "!["] {
        let long = filler.repeat(100_000);
        let tasks = (1..=500).map(|number| {
            let mut task = task(number, &long, TaskState::Completed);
            task.result = Some(long.clone());
            task
        });
        let mut plan = plan(
            PlanHead {
                name: long.clone(),
                goal: long.clone(),
                status: PlanState::Paused(long.clone()),
                outcome: Some(long.clone()),
                replan: Some(Box::new(ReplanRequest {
                    task: None,
                    why: long.clone(),
                })),
                ..head()
            },
            tasks,
        );
        for number in 0..100 {
            plan.put(Row::from(question(&format!("q-{number}"), &long)));
        }
        let text = render(&plan, true, NOW, "plan-agent");
        assert!(text.len() <= MAX_BYTES, "{filler}: {}", text.len());
        let summary = ["## Summary", "## 总结"];
        assert!(summary.iter().any(|title| text.contains(title)));
    }
}
