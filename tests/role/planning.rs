//! The choice of the strategy, and of the steps.

use super::*;

async fn chosen(scene: &Scene) -> (String, String) {
    let events = scene.events().await;
    let chosen = events.into_iter().find_map(|event| match event {
        Event::StrategyChosen { strategy, reason } => Some((strategy, reason)),
        _ => None,
    });
    chosen.expect("a strategy was chosen")
}

#[tokio::test]
async fn strategy_prefers_template_then_simple_then_free_form() {
    let steps = planned(
        json!([{"name": "Say", "uses": "echo", "params": [{"name": "text", "value": "hi"}]}]),
    );
    for (description, strategy, reason) in [
        (
            "Please REVIEW the code.",
            "template standard",
            "the task has the words Review",
        ),
        ("Write a poem.", "simple", "one sentence without a list"),
        (
            "Read it. Then write it.",
            "free_form",
            "the task is more than one sentence",
        ),
        ("Do:\n- this\n- that", "free_form", "the task has a list"),
    ] {
        let mut answer = steps.clone();
        answer["answer"] = json!("a poem");
        let scene = acting(vec![says("one")]).await.with_model([answer]);
        scene.given(description).await;
        let expected = (strategy.to_owned(), reason.to_owned());
        assert_eq!(chosen(&scene).await, expected);
        assert_eq!(scene.result().0, COMPLETED, "{description}");
        assert_eq!(scene.plan().await.head().source.as_deref(), Some(strategy));
    }
}

#[tokio::test]
async fn simple_task_takes_one_model_call() {
    let mut scene = thinking([json!({"answer": "Roses are red."})]).await;
    scene.settings.prompt = "You are a poet.".to_owned();
    scene.given("Write a poem.").await;
    let update = scene.update();
    assert_eq!(update.result, "Roses are red.");
    assert_eq!(
        (
            update.spent.calls,
            update.spent.input_tokens,
            update.spent.output_tokens
        ),
        (1, 100, 10)
    );
    assert!((update.spent.cost_usd - 0.5).abs() < 1e-9);
    let asked = scene.asked();
    has(&asked[0].system, "You are a poet.");
    has(&asked[0].prompt, ["Write a poem.", "in a hurry"]);
}

#[tokio::test]
async fn model_classifies_task_when_configured() {
    for (simple, strategy) in [(true, "simple"), (false, "free_form")] {
        let steps = json!([{"name": "Say", "uses": "echo", "params": {"text": "hi"}}]);
        let mut scene = thinking([
            json!({"reason": "because", "simple": simple}),
            json!({"reason": "it fits", "steps": steps, "answer": "hi"}),
        ])
        .await;
        scene.settings.config.classify = true;
        scene.given("Write a poem.").await;
        let expected = (strategy.to_owned(), "the model says: because".to_owned());
        assert_eq!(chosen(&scene).await, expected);
        assert_eq!(scene.success(), "hi");
        assert_eq!(scene.model.as_ref().unwrap().kinds()[0], "strategy");
        assert_eq!(scene.update().spent.calls, 2);
    }
}

#[tokio::test]
async fn model_plans_own_steps_and_requests() {
    let scene = thinking([planned(json!([
        {"name": "Greet", "uses": "echo", "params": [{"name": "text", "value": "hello "}, {"name": "times", "value": "2"}]},
        {"name": "Ask the coder", "uses": "role:coder", "params": [{"name": "description", "value": "mend {{steps.1.result}}"}]},
    ]))]).await;
    let role = scene.given("Read it. Then have it mended.").await;
    let plan = role.state().internal_plan.as_ref().unwrap();
    let kinds: Vec<_> = plan
        .steps
        .iter()
        .map(|step| (step.name.as_str(), &step.does))
        .collect();
    assert!(
        matches!(kinds[0], ("Greet", StepDoes::ExecuteAction { action, .. }) if action == "echo")
    );
    assert!(
        matches!(kinds[1].1, StepDoes::RequestCollaboration { target, .. } if target == "coder")
    );
    let expected = Some("mend hello hello ");
    assert_eq!(scene.office.sent()[0].description.as_deref(), expected);
    // The prompt offers the registered abilities, and the roles that the role may ask.
    let asked = &scene.asked()[0];
    let offered = [
        "\"echo\" (action)",
        "\"ask\" (action)",
        "\"role:coder\" (role): writes code",
        "\"role:tester\"",
    ];
    has(&asked.system, offered);
    let schema = serde_json::to_value(&asked.schema).unwrap();
    let names = &schema["properties"]["steps"]["items"]["properties"]["uses"]["enum"];
    assert_eq!(names, &json!(["ask", "echo", "role:coder", "role:tester"]));
}

#[tokio::test]
async fn role_is_meant_where_no_ability_has_its_name() {
    let ask = |uses: &str| {
        let params = json!([{"name": "description", "value": "mend it"}]);
        planned(json!([{"name": "Ask", "uses": uses, "params": params}]))
    };
    let scene = thinking([ask("coder")]).await;
    scene.given("Read it. Then have it mended.").await;
    assert_eq!(scene.office.sent()[0].to, id("coder"));
    assert_eq!(scene.asked().len(), 1, "nothing is asked again");
    // An ability of the name comes first.
    let mut scene = thinking([ask("coder")]).await;
    let schema = json!({"type": "object", "properties": {"description": {"type": "string"}}});
    let own = ability("coder", "codes", schema, async |params| {
        Ok(params["description"].to_string())
    });
    scene.actions.add(own);
    scene.given("Read it. Then have it mended.").await;
    assert!(scene.office.sent().is_empty());
    assert_eq!(scene.success(), "\"mend it\"");
}

#[tokio::test]
async fn invalid_steps_are_retried_with_problem() {
    let good = json!({"name": "Say", "uses": "echo", "params": {"text": "hi"}});
    let one = |uses: &str, params: Value| json!([{"name": "x", "uses": uses, "params": params}]);
    for (wrong, told) in [
        (one("shell", json!([])), "step 1: `shell` is not offered"),
        (json!([]), "`steps` is empty"),
        (one("echo", json!([])), "step 1: `echo`: `text` is missing"),
        (
            one("echo", json!({"text": "a", "loud": "b"})),
            "step 1: `echo`: `loud` is no field",
        ),
        (
            one("echo", json!({"text": "a", "times": "many"})),
            "`times` is",
        ),
        (
            one("echo", json!({"text": "{{steps.1.result}}"})),
            "step 1: there is no `{{steps.1.result}}`",
        ),
        (
            json!([good, {"name": "x", "uses": "echo", "params": {"text": "{{task.mood}}"}}]),
            "step 2: there is no `{{task.mood}}`",
        ),
        (
            one("role:coder", json!([])),
            "step 1: nothing is asked of coder",
        ),
        (
            one("role:coder", json!({"description": "a", "when": "now"})),
            "a request takes no `when`",
        ),
        (
            Value::Array(vec![good.clone(); 4]),
            "4 steps are too many: at most 3",
        ),
    ] {
        let mut scene = thinking([planned(wrong), planned(json!([good]))]).await;
        scene.settings.config.max_steps = 3;
        scene.given("Read it. Then write it.").await;
        assert_eq!(scene.success(), "hi");
        let asked = scene.asked();
        assert_eq!(asked.len(), 2);
        has(&asked[1].prompt, told);
    }
}

#[tokio::test]
async fn unplannable_task_fails_with_reason() {
    let scene = Scene::new().await;
    scene.given("Write a poem.").await;
    let reason = scene.failure();
    let part = "no template fits the task, and the role has no language model";
    has(&reason, part);
    let scene = thinking([json!({"nonsense": true})]).await;
    scene.given("Read it. Then write it.").await;
    let reason = scene.failure();
    has(&reason, "gave no usable answer to `steps`");
    assert_eq!(scene.update().spent.calls, 2);
    let scene = thinking([json!({})]).await;
    scene.given("  ").await;
    has(&scene.result().1, "does not say what is to be done");
}

#[tokio::test]
async fn templates_with_unknown_names_are_rejected() {
    let scene = acting(vec![
        action("ecko", json!({"text": "a"})),
        action("echo", json!({"words": "a"})),
        says("{{steps.3.result}}"),
        asks("codr", "x"),
        asks("reviewer", "x"),
        StepSpec {
            name: "Use".to_owned(),
            does: StepDoes::UseTool {
                tool: "docs.search".to_owned(),
                params: Map::new(),
            },
        },
    ])
    .await;
    let faults = scene.try_role().unwrap_err();
    insta::assert_snapshot!(faults, @r"
    role `reviewer`, template `standard`, step 1: there is no action `ecko`; is `echo` meant?
    role `reviewer`, template `standard`, step 2: `echo`: `words` is no field; known are text, times
    role `reviewer`, template `standard`, step 3: there is no `{{steps.3.result}}`: this is step 3: it sees the results of steps 1 to 2
    role `reviewer`, template `standard`, step 4: there is no role `codr`; is `coder` meant?
    role `reviewer`, template `standard`, step 5: role `reviewer` asks itself
    role `reviewer`, template `standard`, step 6: there is no tool `docs.search`
    ");
}
