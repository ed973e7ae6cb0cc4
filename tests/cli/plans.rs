//! What a person is shown of all plans: the list, and one inbox of questions.

use super::*;

/// Adds a plan that waits for a lock of another plan and asks for its review.
fn add_second(env: &TestEnv) {
    block_on(async {
        let store = open_store(env).await;
        let serve = |task: &str| TaskSpec {
            locks: vec!["port:8080".to_owned()],
            ..new_task(task)
        };
        let id = PlanId::new("abcdefgh");
        let first = store.change(&id, "tests", "locked", move |draft| {
            let added = draft.add_tasks(vec![serve("Listen")], None)?;
            draft.issue(added[0], new_command("task-9", "listen"))
        });
        first.await.unwrap();
        let head = PlanHead::new(PlanId::new("secondon"), "Second", Clock::start().now());
        let made = store.create(head, "tests", "made", move |draft| {
            draft.created();
            draft.make_tasks(vec![serve("Serve")])?;
            draft.start(PlanPolicy::default(), "/w")?;
            draft.name_questions(|_| QuestionId::new("question-88"));
            draft.ask(HumanQuestionKind::Stuck, None, "what now?")
        });
        made.await.unwrap();
    });
}

#[test]
fn questions_of_all_plans_are_one_inbox() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.run("questions").seen(&env), @r"
    no question is open
    exit 0
    ");
    let env = with_a_plan("Count words");
    add_second(&env);
    insta::assert_snapshot!(env.run("plans").seen(&env), @r"
    secondon  stopped          0 of 1    now  Second · asks you
    abcdefgh  stopped          1 of 4    now  Word counter · asks you · ~ 1 accepted
    exit 0
    ");
    insta::assert_snapshot!(env.run("questions").seen(&env), @r"
    secondon  Second
    Question
      what now?
      Answer: plan-agent answer question-88 retry|skip|abort
        retry    try again, up to 3 attempts; the note goes along to the agent
        skip     leave the task out; what waits for it goes on without it
        abort    end the plan for good; agents at work stop, their work stays

    abcdefgh  Word counter
    Question about task 2
      it failed
      Answer: plan-agent answer question-77 retry|skip|abort
        retry    try again, up to 3 attempts; the note goes along to the agent
        skip     leave the task out; what waits for it goes on without it
        abort    end the plan for good; agents at work stop, their work stays
    exit 0
    ");
    let all: serde_json::Value = serde_json::from_str(&env.run("questions --json").stdout).unwrap();
    assert_eq!(all[0]["plan"]["id"], "secondon");
    assert_eq!(all[1]["question"]["id"], "question-77");
    assert_eq!(all[1]["question"]["choices"][0], "retry");
    let plans: serde_json::Value = serde_json::from_str(&env.run("plans --json").stdout).unwrap();
    let numbers = [
        "tasks",
        "completed",
        "accepted",
        "proven",
        "in_progress",
        "questions",
    ];
    let numbers = numbers.map(|key| plans[1][key].as_u64().unwrap());
    assert_eq!(numbers, [4, 1, 1, 0, 2, 1]);
    assert_eq!(env.run("answer question-88 abort").code, Some(0));
    assert_eq!(env.run("answer skip").code, Some(0), "only one is left");
    has(env.run("questions").stdout, "no question is open");
}

#[test]
fn task_names_plan_that_holds_its_lock() {
    let env = with_a_plan("Count words");
    add_second(&env);
    let held = "waits for port:8080, held by task 4 of plan abcdefgh";
    has(env.run("why secondon 1").stdout, held);
    has(env.run("status secondon").stdout, held);
    let show = env.run("show secondon").stdout;
    has(show, "- locks: port:8080\n");
}
