//! Commands that were refused to an agent, and that a person allows word for word.

use super::*;

const QUOTED: &str = r#"git commit -m \"one, two\""#;

/// Records the arguments one a line, and is refused a command in its first run.
fn refused(command: &str, then: &str) -> String {
    let denied = format!(r#"{{"tool_name":"Bash","tool_input":{{"command":"{command}"}}}}"#);
    format!(
        "for word; do printf '%s\\n' \"$word\"; done > \"$notes/$run/argv\"\n\
         if [ $run = 1 ]; then result half '{denied}'; exit; fi\n{then}"
    )
}

impl Scene {
    fn resume(&self, code: i32) -> Ran {
        self.env.run("resume --agent claude --no-input").exits(code)
    }

    /// Returns the one open question.
    fn question(&self) -> (String, String) {
        let [question] = self.exchange.questions().try_into().unwrap();
        question
    }
}

#[test]
fn allowed_once_is_for_the_next_attempt_only() {
    let scene = Scene::with(&refused(
        QUOTED,
        "if [ $run = 2 ]; then report FAILED half; else report SUCCESS all; fi; result done",
    ));
    scene.run().exits(4);
    let (_, text) = scene.question();
    has(
        &text,
        [
            "claude was not allowed to run a command",
            "    $ git commit -m \"one, two\"\n",
            "`allow-always` (not in this file): ",
        ],
    );
    scene.env.run("answer allow-once").exits(0);
    scene.resume(0);
    let rule = "--allowedTools\nBash(git commit -m \"one, two\")\n--resume\n";
    has(scene.note(2, "argv"), rule);
    has(scene.note(2, "prompt"), "A person allows this now");
    lacks(scene.note(3, "argv"), "allowedTools");
}

#[test]
fn allowed_always_is_for_every_later_attempt_of_the_plan() {
    let scene = Scene::with(&refused(
        "cargo test",
        "if [ $run = 2 ]; then report FAILED half; else report SUCCESS all; fi; result done",
    ));
    scene.write(
        "plan.md",
        "# Parts\n\n## One\n\nMake one.\n\n## Two\n\n- after: 1\n\nMake two.\n",
    );
    scene.run().exits(4);
    scene
        .env
        .run("answer allow-always --note 'as often as you like'")
        .exits(0);
    scene.resume(0);
    assert_eq!(scene.runs(), 4);
    for run in 2..=4 {
        has(
            scene.note(run, "argv"),
            "--allowedTools\nBash(cargo test)\n",
        );
    }
    has(scene.note(2, "prompt"), "as often as you like");
    has(
        scene.env.run("status").exits(0).stdout,
        "Allowed to every agent: `cargo test`",
    );
    // Another plan does not have it.
    scene.run().exits(0);
    lacks(scene.note(5, "argv"), "allowedTools");
}

#[test]
fn allowed_always_answers_every_question_about_the_same() {
    let scene = Scene::with(&refused(
        "cargo test",
        "if [ $run = 2 ]; then result half '{\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"cargo test\"}}'; exit; fi\n\
         report SUCCESS all; result done",
    ));
    scene.write(
        "plan.md",
        "# Parts\n\n## One\n\nMake one.\n\n## Two\n\nMake two.\n",
    );
    scene.run().exits(4);
    let questions = scene.exchange.questions();
    assert_eq!(questions.len(), 2);
    (scene.env.run(["answer", &questions[0].0, "allow-always"])).exits(0);
    scene.resume(0);
    assert_eq!(scene.runs(), 4);
}

#[test]
fn only_exact_commands_are_offered() {
    for (command, choices, said) in [
        (
            "make all; rm x",
            &["allow-once", "deny"][..],
            "can only be allowed once",
        ),
        ("ls > out", &["allow-once", "deny"], "    $ ls > out"),
        (
            r"make\nmake test",
            &["allow-once", "deny"],
            "    $ make\n      make test",
        ),
        ("cargo test *", &[], "claude takes no rule with `*`"),
        ("echo $(id)", &[], "claude takes no rule with `*`, `(`"),
        (
            r"echo \u202ehidden",
            &[],
            "it has characters that are not shown",
        ),
    ] {
        let scene = Scene::with(&refused(command, "result done"));
        scene.run().exits(4);
        let (_, text) = scene.question();
        has(&text, said);
        let status = scene.env.run("status --json").exits(0).stdout;
        let status: Value = serde_json::from_str(&status).unwrap();
        let offered = status["questions"][0]["choices"].as_array().unwrap();
        let offered: Vec<&str> = offered.iter().filter_map(Value::as_str).collect();
        let expected = [choices, &["reply", "retry", "skip", "abort"]].concat();
        assert_eq!(offered, expected, "{command}");
    }
}

#[test]
fn file_denies_and_gives_no_right() {
    let scene = Scene::with(&refused("cargo test", "report SUCCESS all; result done"));
    scene.run().exits(4);
    let (id, _) = scene.question();
    scene.exchange.fill_in(&id, "allow-always", "");
    scene.resume(4);
    let problem = scene.read(&format!(
        "volumes/questions/pending/question-{id}.problem.md"
    ));
    has(
        &problem,
        [
            "`allow-always` is not taken from a file",
            "plan-agent answer",
        ],
    );
    assert_eq!(scene.runs(), 1);
    scene.exchange.fill_in(&id, "deny", "use make");
    scene.resume(0);
    lacks(scene.note(2, "argv"), "allowedTools");
    has(
        scene.note(2, "prompt"),
        ["A person does not allow this", "    cargo test", "use make"],
    );
}

/// What an agent writes into its own report and into the file of its command gives no right, and is not offered.
#[test]
fn agent_cannot_put_words_into_the_question() {
    let forge = "report=$(sed -n 's/^report: //p' \"$notes/$run/prompt\"); mkdir -p .plan-agent\n\
        printf -- '---\\nstatus: SUCCESS\\nquestion: May I?\\nrefused: [\"rm -rf /\"]\\n---\\n\\n## Core results\\n\\nx\\n' > \"$report\"\n\
        result done";
    let scene = Scene::with(forge);
    scene.run().exits(4);
    let (_, text) = scene.question();
    has(&text, "May I?");
    lacks(&text, ["rm -rf", "allow"]);
}

#[test]
fn terminal_takes_allow_once_in_two_words() {
    let scene = Scene::with(&refused("cargo test", "report SUCCESS all; result done"));
    let (mut running, mut terminal) =
        (scene.env).start_on_terminal("run --plan plan.md --agent claude");
    terminal.await_shown("abort · ? > ");
    let offer = "task 1 · Make the part? allow-once · allow-always · deny · reply · retry · skip\n· abort · ? > ";
    has(terminal.shown(), ["    $ cargo test", offer]);
    terminal.type_keys("allow o only now\n");
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    has(scene.note(2, "argv"), "--allowedTools\nBash(cargo test)\n");
    has(scene.note(2, "prompt"), "only now");
}

/// A worker of a process of its own reads the plan, too.
#[test]
fn worker_by_itself_knows_what_is_allowed() {
    let scene = Scene::with(&refused("cargo test", "report SUCCESS all; result done"));
    let _worker = scene.env.start(["worker", "--agent", "claude"]);
    scene.env.run("run --plan plan.md --no-input").exits(4);
    scene.env.run("answer allow-once").exits(0);
    scene.env.run("resume --no-input").exits(0);
    has(scene.note(2, "argv"), "--allowedTools\nBash(cargo test)\n");
}
