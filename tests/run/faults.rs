//! A model that misbehaves, a key that must not be seen, and input that makes no sense.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// Returns an error after which a retry needs no wait, so that no test waits for a backoff.
fn passing(status: u16) -> Answer {
    Answer::busy(status, "0")
}

#[test]
fn transient_llm_faults_are_retried() {
    for shape in SHAPES {
        let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
            ("plan", 0) => passing(429),
            ("plan", 1) => passing(500),
            ("plan", 2) => passing(503),
            ("plan", _) => planned(&[("First", &[]), ("Second", &[1])]),
            ("judge", 0) => Answer::CutBody,
            ("judge", 2) => Answer::Html,
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, shape, "");
        let _agent = scene.agent(|_| Act::success("done"));
        let ran = scene.run("run 'Do it'");
        assert_eq!(ran.code, Some(0), "{shape:?}: {ran:?}");
        let counts = ["plan", "judge", "audit", "summarise"].map(|kind| server.count(kind));
        assert_eq!(
            counts,
            [4, 4, 1, 1],
            "{shape:?}: nothing more than needed is asked"
        );
        assert_eq!(scene.status()["usage"]["llm_calls"], 10);
    }
}

#[test]
fn hanging_model_is_retried() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", 0) => Answer::Hang,
        ("plan", 1) => Answer::HangInBody,
        ("plan", _) => planned(&[("First", &[])]),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "llm.timeout = '1s'");
    let _agent = scene.agent(|_| Act::success("done"));
    scene.works("run 'Do it'");
    assert!(server.count("plan") >= 3);
}

/// A lasting fault of a model: its answers, one after the other and the last one repeatedly, what a person sees, and how often
/// the model is asked with [`FEW`].
#[derive(Clone)]
struct Lasting {
    answers: Vec<Answer>,
    /// The additional configuration.
    config: &'static str,
    told: &'static str,
    asked: usize,
    /// Whether the model may answer later: then it is asked again beside the question.
    passes: bool,
}

/// Three tries without a wait.
const FEW: &str = "llm.tries = 3\nllm.retry_delay = '1ms'\n";

/// Faults that are tested simultaneously: they mostly wait.
const AT_ONCE: usize = 12;

impl Lasting {
    fn of(answer: Answer, told: &'static str, asked: usize) -> Self {
        Self {
            answers: vec![answer],
            config: "",
            told,
            asked,
            passes: false,
        }
    }

    /// A fault that may pass, and does not within three tries.
    fn passing(answer: Answer, told: &'static str) -> Self {
        Self {
            passes: true,
            ..Self::of(answer, told, 3)
        }
    }

    /// A model that sends nothing until the client disconnects.
    fn hanging(answer: Answer) -> Self {
        Self {
            config: "llm.timeout = '300ms'",
            ..Self::passing(answer, "gave no answer, or no more of it, for 300ms")
        }
    }

    fn scene(&self, server: &LlmServer, shape: Shape) -> Scene {
        Scene::with_model(server, shape, &format!("{FEW}{}", self.config))
    }

    fn answer(&self, nth: usize) -> Answer {
        self.answers[nth.min(self.answers.len() - 1)].clone()
    }
}

/// Returns the faults that every question may meet.
fn lasting() -> Vec<Lasting> {
    let page = "<!doctype html>";
    vec![
        // A temporary fault is retried as often as the configuration says.
        Lasting::passing(passing(429), "status 429: slow down"),
        Lasting::passing(Answer::error(429, "no date"), "status 429: no date"),
        Lasting::passing(passing(500), "status 500"),
        Lasting::passing(passing(503), "status 503"),
        Lasting::hanging(Answer::Hang),
        Lasting::hanging(Answer::HangInBody),
        Lasting::hanging(Answer::Begun(Then::Repeats(SILENT[2]))),
        Lasting::passing(Answer::Begun(Then::Close), "sent only part of its answer"),
        Lasting::passing(Answer::CutBody, "sent only part of its answer"),
        Lasting::passing(Answer::Close, "cannot be reached"),
        Lasting::passing(Answer::Html, page),
        Lasting::passing(
            Answer::Raw("{\"hello\": 1}".to_owned()),
            "JSON that is no answer",
        ),
        Lasting::passing(
            Answer::Raw("{\"choices\": [], \"content\": []}".to_owned()),
            "JSON that is no answer",
        ),
        // An unusable answer is requested once more.
        Lasting::of(
            Answer::Text("Sure, gladly!".to_owned()),
            "no usable answer",
            2,
        ),
        Lasting::passing(Answer::Text(String::new()), "no text"),
        Lasting::of(Answer::Json(json!({"hello": 1})), "no usable answer", 2),
        Lasting::of(Answer::Json(json!([])), "no usable answer", 2),
        Lasting::of(Answer::Cut("{\"name\": \"hal".to_owned()), "was cut off", 2),
        // A fault that does not improve by itself is not retried.
        Lasting::of(Answer::Refused("I had rather not".to_owned()), "refused", 1),
        Lasting::of(Answer::Endless, "answered with more than", 1),
        Lasting {
            answers: vec![Answer::Text("Sure!".to_owned()), passing(500)],
            asked: 4,
            ..Lasting::passing(Answer::Html, "status 500")
        },
        Lasting {
            answers: vec![passing(500), Answer::Html, Answer::Text("Sure!".to_owned())],
            ..Lasting::of(Answer::Html, "no usable answer", 4)
        },
    ]
}

/// A server that fails at one kind of question until it is repaired.
fn failing(kind: &'static str, fault: &Lasting, mended: &Arc<AtomicBool>) -> LlmServer {
    let (fault, mended) = (fault.clone(), Arc::clone(mended));
    LlmServer::start(move |asked| match asked.kind.as_str() {
        asked_for if asked_for == kind && !mended.load(Ordering::SeqCst) => fault.answer(asked.nth),
        "plan" => planned(&[("First", &[])]),
        _ => all_well(asked),
    })
}

/// Waits until a person knows of a fault of the model, which is asked on, and repairs the model.
fn mend(scene: &Scene, fault: &Lasting, mended: &AtomicBool) {
    wait_until("a person is asked", || {
        open_questions(scene).iter().any(|question| {
            let reason = question["reason"].as_str().unwrap();
            reason.contains(fault.told) && reason.contains("is asked again until it answers")
        })
    });
    mended.store(true, Ordering::SeqCst);
}

/// Lets a request for a plan fail, repairs the model, and resumes the goal.
fn no_plan_comes(shape: Shape, fault: &Lasting) {
    let (told, asked) = (fault.told, fault.asked);
    let mended = Arc::new(AtomicBool::new(false));
    let server = failing("plan", fault, &mended);
    let mut scene = fault.scene(&server, shape);
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    if fault.passes {
        let agent = scene.agent(|_| Act::success("done"));
        let run = scene.start("run 'Do a thing'");
        mend(&scene, fault, &mended);
        let ran = run.end();
        assert_eq!(ran.code, Some(0), "{told}: {ran:?}");
        assert!(server.count("plan") > asked, "{told}");
        assert_eq!(agent.attempts(), [(1, 1)]);
        return;
    }
    let ran = scene.run("run 'Do a thing'");
    assert_eq!(ran.code, Some(1), "{told}: {ran:?}");
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert!(all.contains(told), "{told} in {all}");
    ran.has_stderr("plan-agent resume");
    assert_eq!(server.count("plan"), asked, "{told}");
    let status = scene.status();
    assert_eq!(status["plan"]["status"], "idle", "{told}");
    assert_eq!(status["plan"]["goal"], "Do a thing");
    assert_eq!(status["usage"]["llm_calls"], asked, "{told}");

    mended.store(true, Ordering::SeqCst);
    // The usual retries, so that a busy machine is no fault.
    scene.write_config(&server, shape, "");
    let agent = scene.agent(|_| Act::success("done"));
    let ran = scene.run("resume");
    assert_eq!(ran.code, Some(0), "{told}: {ran:?}");
    assert_eq!(server.count("plan"), asked + 1, "{told}");
    assert_eq!(agent.attempts(), [(1, 1)]);
    assert_eq!(scene.status()["plan"]["goal"], "Do a thing");
}

#[test]
fn lasting_plan_fault_keeps_goal() {
    side_by_side(&lasting(), no_plan_comes);
}

#[test]
fn unusable_plan_keeps_goal() {
    let plan = |text: &str| Answer::Json(json!({"name": "P", "description": "", "tasks": text}));
    let faults = [
        Lasting::of(Answer::error(401, "who are you"), "401", 1),
        Lasting::of(Answer::error(404, "no such model"), "no such model", 1),
        Lasting::of(
            Answer::Redirect("http://127.0.0.1:1/".to_owned()),
            "redirects to another place",
            1,
        ),
        Lasting::of(planned(&[]), "`tasks` is empty", 2),
        Lasting::of(plan("many"), "no usable answer", 2),
        Lasting::of(planned(&[("A", &[2]), ("B", &[1])]), "circle", 2),
        Lasting::of(planned(&[("A", &[1])]), "depends on itself", 2),
        Lasting::of(planned(&[("A", &[7])]), "numbered from 1 to 1", 2),
        Lasting {
            answers: vec![planned(&[]), planned(&[("A", &[9])]), planned(&[])],
            ..Lasting::of(planned(&[]), "numbered from 1 to 1", 2)
        },
    ];
    side_by_side(&faults, no_plan_comes);
}

/// Tests each fault, a few simultaneously.
fn side_by_side(faults: &[Lasting], look: fn(Shape, &Lasting)) {
    for some in faults.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for (fault, shape) in some.iter().zip(SHAPES.into_iter().cycle()) {
                scope.spawn(move || look(shape, fault));
            }
        });
    }
}

/// Lets a judge fail, answers the resulting question when the model is repaired, and continues.
fn no_judgement_comes(shape: Shape, fault: &Lasting) {
    let (told, asked) = (fault.told, fault.asked);
    let mended = Arc::new(AtomicBool::new(false));
    let server = failing("judge", fault, &mended);
    let mut scene = fault.scene(&server, shape);
    scene.env.set("PLAN_AGENT_TIMING", "0.01");
    let agent = scene.agent(|_| Act::success("done"));
    if fault.passes {
        let run = scene.start("run --plan one.md");
        mend(&scene, fault, &mended);
        assert!(server.count("judge") >= asked, "{told}");
        let ran = run.end();
        assert_eq!(ran.code, Some(0), "{told}: {ran:?}");
        assert_eq!(agent.attempts(), [(1, 1)], "the work is not done again");
        return;
    }
    // The plan is a file, so that the first call of the model is the judge's.
    let ran = scene.run("run --plan one.md");
    assert_eq!(ran.code, Some(4), "{told}: {ran:?}");
    assert_eq!(server.count("judge"), asked, "{told}");
    let status = scene.status();
    let question = &status["questions"][0];
    let reason = question["reason"].as_str().unwrap();
    assert!(reason.contains(told), "{told} in {reason}");
    let expected = json!(["accept", "retry", "skip", "abort"]);
    assert_eq!(question["choices"], expected);
    assert_eq!(status["tasks"][0]["status"], "in_progress", "{told}");

    mended.store(true, Ordering::SeqCst);
    scene.write_config(&server, shape, "");
    scene.works("answer retry");
    let ran = scene.run("resume");
    assert_eq!(ran.code, Some(0), "{told}: {ran:?}");
    assert_eq!(agent.attempts(), [(1, 1)], "the work is not done again");
    assert_eq!(server.count("judge"), asked + 1, "{told}");
    assert_eq!(scene.tasks(), ["completed"]);
}

#[test]
fn lasting_judge_fault_asks_human() {
    let verdict = |decision: &str| verdict(decision, "words");
    let own = [
        Lasting::of(verdict("maybe"), "no usable answer", 2),
        Lasting::of(verdict(""), "no usable answer", 2),
        Lasting::of(Answer::error(401, "who are you"), "who are you", 1),
    ];
    side_by_side(&lasting(), no_judgement_comes);
    side_by_side(&own, no_judgement_comes);
}

/// The default of the configuration: five tries.
#[test]
fn default_llm_tries_are_five() {
    let mended = Arc::new(AtomicBool::new(false));
    let server = failing("plan", &Lasting::of(passing(500), "500", 5), &mended);
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let run = scene.start("run 'Do a thing'");
    wait_until("a person is asked", || !open_questions(&scene).is_empty());
    assert_eq!(server.count("plan"), 5);
    assert_eq!(run.interrupted().code, Some(130));
}

#[test]
fn resume_plans_goal_without_plan() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", 0) => Answer::error(400, "no such model"),
        ("plan", _) => planned(&[("First", &[])]),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let ran = scene.exits(1, "plan 'Do it'");
    ran.has_stderr(["no such model", "plan-agent resume"]);
    let _agent = scene.agent(|_| Act::success("done"));
    scene.works("resume");
}

/// Returns the values of the headers of a request.
fn headers(asked: &Asked) -> String {
    let values: Vec<&str> = asked
        .headers
        .iter()
        .map(|(_, value)| value.as_str())
        .collect();
    values.join(" ")
}

#[test]
fn api_key_reaches_only_model() {
    const CANARY: &str = "sk-canary-0123456789";
    for shape in SHAPES {
        let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
            ("plan", 0) => {
                // A server that repeats its whole request.
                let body = json!({"error": {"message": headers(asked)}}).to_string();
                Answer::Status(429, Some("0".to_owned()), body)
            }
            ("plan", _) => planned(&[("First", &[])]),
            ("judge", 0) => {
                let key = asked
                    .header("x-api-key")
                    .or(asked.header("authorization"))
                    .unwrap();
                verdict("retry", &format!("Use {key}."))
            }
            ("judge", _) => Answer::Status(401, None, headers(asked)),
            _ => all_well(asked),
        });
        let mut scene = Scene::with_model(&server, shape, "");
        scene.env.set("ANTHROPIC_API_KEY", CANARY);
        scene.env.set("OPENAI_API_KEY", CANARY);
        scene.env.set("PLAN_AGENT_LOG", "trace");
        let script =
            "env > environment.txt; tr '\\0' ' ' < /proc/$PPID/cmdline > parent.txt; echo done";
        let ran = scene.run([
            "run", "Do it", "--agent", "command", "--", "sh", "-c", script,
        ]);
        assert_eq!(ran.code, Some(4), "{shape:?}: {ran:?}");
        let with_key = |asked: &Asked| headers(asked).contains(CANARY);
        assert!(server.asked().iter().all(with_key));
        assert!(
            !ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY),
            "{shape:?}: {ran:?}"
        );
        has(scene.read("volumes/workspace/environment.txt"), "PATH=");
        let mut read = 0;
        each_file(&scene.env.path(""), &mut |path, bytes| {
            read += 1;
            let mut seen = bytes.windows(CANARY.len());
            let seen = seen.any(|window| window == CANARY.as_bytes());
            assert!(!seen, "{shape:?}: the key is in {}", path.display());
        });
        assert!(read > 10, "{read} files were looked at");
    }
}

/// A person's own server gets any text as the key; the words of its model are not changed.
#[test]
fn short_api_key_is_not_masked_in_answers() {
    let server = planning(&[("Run pytest", &[])]);
    let mut scene = Scene::with_model(&server, Shape::Chat, "");
    scene.env.set("OPENAI_API_KEY", "test");
    let agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "run 'Do it'");
    drop(agent);
    let part = "Run pytest";
    has(scene.texts("commands/processed", ".md").concat(), part);
}

fn each_file(folder: &Path, look: &mut impl FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_file(&path, look);
        } else {
            look(&path, &fs::read(&path).unwrap());
        }
    }
}

#[test]
fn run_rejects_remote_plain_http() {
    let mut scene =
        Scene::new("llm.provider = 'openai'\nllm.base_url = 'http://models.example/v1'\n");
    scene.env.set("OPENAI_API_KEY", "sk-canary");
    scene.refuses(2, "run 'Do it'", ["config.toml:2", "would send the key"]);
    assert!(!scene.env.path("volumes").exists(), "nothing half-made");
}

#[test]
fn bad_input_gives_one_error_and_no_files() {
    let given = |config: &str, plan: &str, args: &[&str]| {
        let scene = Scene::by_rules(config);
        scene.write("plan.md", plan);
        let ran = scene.run(args);
        assert!(
            !scene.env.path("volumes").exists(),
            "nothing half-made: {ran:?}"
        );
        ran.seen(&scene.env)
    };
    let file = ["run", "--plan", "plan.md"];
    insta::assert_snapshot!(given("run.max_atempts = 2", ONE, &file), @r#"
    error: config.toml:2:5: unknown key `run.max_atempts`
    Hint: did you mean `run.max_attempts`?
    exit 2
    "#);
    insta::assert_snapshot!(given("run.max_attempts = 'three'", ONE, &file), @r#"
    error: config.toml:2:20: `run.max_attempts`: invalid type: string "three", expected a whole number from 0 to 4294967295
    exit 2
    "#);
    insta::assert_snapshot!(given("run.max_atempts = 2\nrun.checks = ['a', 'b']\nllm.tries = 0", ONE, &file), @r#"
    error: config.toml:2:5: unknown key `run.max_atempts`
    Hint: did you mean `run.max_attempts`?
    error: config.toml:3:14: `run.checks` names `a`, which [checks] does not define
    Hint: define it: [checks] a = { run = ["…"] }
    error: config.toml:3:14: `run.checks` names `b`, which [checks] does not define
    Hint: define it: [checks] b = { run = ["…"] }
    error: config.toml:4:13: `llm.tries`: must be 1 or more
    exit 2
    "#);
    insta::assert_snapshot!(given("", "---\nname: X\n---\n\n## A\n\n- after: 2\n\nDo.\n\n## B\n\n- after: 1\n\nDo.\n", &file), @r#"
    error: plan.md:7:10: tasks wait for each other: 1 → 2 → 1
    Hint: take one of these dependencies out
    exit 2
    "#);
    insta::assert_snapshot!(given("", "---\nname: X\n---\n\n## A\n\n- after: 7\n- checks: nope\n\nDo.\n", &file), @r#"
    error: plan.md:7:10: there is no task `7`
    Hint: there is no other task in the plan
    error: plan.md:8:11: there is no check `nope`
    Hint: define it in config.toml, in a project .plan-agent/config.toml: [checks] nope = { run = ["…"] }
    exit 2
    "#);
    insta::assert_snapshot!(given("", "nothing here\n", &file), @r#"
    error: plan.md:1:1: the plan has no tasks
    Hint: write each task under a heading `## Its name`, or as a line `- [ ] Its name` or `1. Its name`
    exit 2
    "#);
    insta::assert_snapshot!(given("", "", &["run", "--plan", "no.md"]), @r#"
    error: failed to read the plan file `no.md`: No such file or directory (os error 2)
    exit 2
    "#);
    insta::assert_snapshot!(given("", "", &["run", "Do it"]), @r#"
    error: no language model can plan the goal: provider = "none"
    Hint: choose another `[llm] provider` than "none", or give a plan file: `run --plan FILE`
    exit 2
    "#);
    insta::assert_snapshot!(given("", "---\nname: X\n---\n\n## A\n\n- checks: nope\n\nDo.\n", &file), @r#"
    error: plan.md:7:11: there is no check `nope`
    Hint: define it in config.toml, in a project .plan-agent/config.toml: [checks] nope = { run = ["…"] }
    exit 2
    "#);
    insta::assert_snapshot!(given("volumes.root = 'plan.md/volumes'", ONE, &file), @r#"
    error: cannot make the folder `[FOLDER]/plan.md/volumes/commands/pending`: Not a directory (os error 20)
    Hint: make it writable, or name another folder in config.toml: [volumes] root
    exit 1
    "#);
}

#[test]
fn broken_prompt_fails_at_start() {
    let scene = Scene::by_rules("");
    scene.write("prompts/command.md", "fine\n{{ nowhere");
    let ran = scene.exits(2, "run --plan one.md");
    ran.has_stderr(["prompts/command.md", "command.md:2: "]);
    assert!(!scene.env.path("volumes").exists(), "nothing half-made");
}

/// With what a person can say of a change of the plan that the model does not bring about, the plan goes on as it is.
#[test]
fn plan_goes_on_without_replan_that_failed() {
    for no_model in [false, true] {
        let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
            ("plan", _) => planned(&[("First", &[]), ("Second", &[1])]),
            ("judge", 0) => verdict("replan", "Another way."),
            ("replan", _) => Answer::Json(json!({"reason": "", "edits": []})),
            _ => all_well(asked),
        });
        let scene = Scene::with_model(&server, Shape::Chat, "");
        let agent = scene.agent(|_| Act::success("done"));
        scene.exits(4, "run 'Do it'");
        if no_model {
            scene.works("answer retry");
            let none = scene.read("config.toml").replace("'openai'", "'none'");
            scene.write("config.toml", &none);
        } else {
            let meaning = "skip     leave the plan as it is, and go on";
            has(scene.works("status"), meaning);
            scene.works("answer skip");
        }
        scene.exits(0, "resume --no-input");
        assert_eq!(agent.attempts(), [(1, 1), (1, 2), (2, 1)]);
        assert_eq!(server.count("replan"), 2);
    }
}

/// A key that has expired fails at every result: one question is enough, and one answer.
#[test]
fn model_that_fails_in_one_way_is_asked_about_once() {
    let failing = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&failing);
    let server = LlmServer::start(move |asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[]), ("Second", &[]), ("Third", &[])]),
        "judge" if fails.load(Ordering::SeqCst) => Answer::error(401, "the key has expired"),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "run.max_parallel = 3\n");
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(4, "run 'Do it' --no-input");
    assert_eq!(scene.questions().len(), 1);
    let asked = scene.status()["questions"][0]["task"].clone();
    // Another answer than to ask again is for that task alone: of the next one is asked then.
    scene.works("answer skip");
    scene.exits(4, "resume --no-input");
    assert_ne!(scene.status()["questions"][0]["task"], asked);
    failing.store(false, Ordering::SeqCst);
    scene.works("answer retry");
    scene.exits(0, "resume --no-input");
    let mut states = scene.tasks();
    states.sort();
    assert_eq!(states, ["completed", "completed", "skipped"]);
}

/// A task whose result waits for the answer to another one's question leaves its lane to others.
#[test]
fn results_that_wait_for_one_answer_hold_no_lane() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[]), ("Second", &[]), ("Third", &[])]),
        _ => Answer::error(401, "the key has expired"),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "run.max_parallel = 1\n");
    let agent = scene.agent(|_| Act::success("done"));
    scene.exits(4, "run 'Do it' --no-input");
    assert_eq!(agent.attempts(), [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(scene.questions().len(), 1);
    has(scene.works("status"), "3 asks you");
}

/// `next` is not possible where a check fails, whatever the model says: the facts are enough to try again.
#[test]
fn facts_decide_where_model_insists_on_next() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[])]),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let agent = scene.agent(|command| match command.attempt() {
        1 => Act::Report(crate::common::agent::report("FAILED", "not yet")),
        _ => Act::success("done"),
    });
    scene.exits(0, "run 'Do it' --no-input");
    assert_eq!(agent.attempts(), [(1, 1), (1, 2)]);
    assert_eq!(scene.events_named("asked").len(), 0);
}

/// A note is for the agent, also where the question is about the model.
#[test]
fn note_beside_failed_judgement_reaches_agent() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", _) => planned(&[("First", &[])]),
        ("judge", 0) => Answer::error(400, "no"),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let agent = scene.agent(|_| Act::success("done"));
    scene.exits(4, "run 'Do it' --no-input");
    scene.works(["answer", "retry", "--note", "Write it in blue."]);
    scene.exits(0, "resume --no-input");
    has(&agent.command(1, 2).text, "Write it in blue.");
    assert_eq!(server.count("judge"), 2);
}

#[test]
fn failed_replan_asks_human() {
    let server = LlmServer::start(|asked| match (asked.kind.as_str(), asked.nth) {
        ("plan", _) => planned(&[("First", &[])]),
        ("judge", 0) => verdict("replan", "Another way."),
        // Twice: the answer, and its repair.
        ("replan", 0 | 1) => Answer::Json(json!({"reason": "", "edits": []})),
        ("replan", _) => Answer::Json(json!({"reason": "Say it again.", "edits": [
            {"action": "add", "task": null, "reason": "", "name": "Another way", "description": "Do it otherwise.",
             "constraints": null, "expected_output": "It is done.", "depends_on": []},
            {"action": "skip", "task": 1, "reason": "replaced", "name": null, "description": null,
             "constraints": null, "expected_output": null, "depends_on": null},
        ]})),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Messages, "");
    let agent = scene.agent(|_| Act::success("done"));
    scene.exits(4, "run 'Do it'");
    let expected = json!(["retry", "skip", "abort"]);
    assert_eq!(scene.status()["questions"][0]["choices"], expected);
    scene.works(["answer", "retry", "--note", "Look at the other folder."]);
    scene.exits(0, "resume");
    assert_eq!(agent.attempts(), [(1, 1), (2, 1)]);
    assert_eq!(server.count("replan"), 3);
    let mut asked = server.asked().into_iter();
    let last = asked.rfind(|asked| asked.kind == "replan").unwrap();
    has(last.prompt(), "Look at the other folder.");
}

#[test]
fn failed_audit_can_be_approved_by_human() {
    let server = LlmServer::start(|asked| match asked.kind.as_str() {
        "plan" => planned(&[("First", &[])]),
        "audit" => Answer::error(400, "no"),
        _ => all_well(asked),
    });
    let scene = Scene::with_model(&server, Shape::Chat, "");
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(4, "run 'Do it'");
    let expected = json!(["approve", "retry", "abort"]);
    assert_eq!(scene.status()["questions"][0]["choices"], expected);
    scene.works("answer approve --note 'I looked at it'");
    scene.exits(0, "resume");
    assert_eq!(server.count("audit"), 1);
}
