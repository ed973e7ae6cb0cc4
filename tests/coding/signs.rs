//! Whether an agent is alive, what happens to one that does not begin or does not end, and what the person sees in the
//! meantime.

use super::*;

#[test]
fn silent_attempt_times_out_and_active_one_does_not() {
    // On a machine that stands still, even an agent that tries to speak is silent: it records when it spoke.
    let silent = "[ $run = 1 ] && sleep 1000
        for i in 1 2 3 4 5 6 7 8 9 10; do say; date +%s >> $notes/$run/spoke; sleep 0.5; done; result 'made'";
    let scene = Scene::configured(silent, "[run]\ntask_timeout = \"3s\"\nmax_attempts = 20\n");
    scene.run().exits(0);
    let log = scene.env.run("log").stdout;
    let ended = log.matches("no heartbeat").count();
    assert_eq!(ended + 1, scene.runs(), "{log}");
    for run in 2..=u32::try_from(ended).unwrap() {
        let spoke = scene.note(run, "spoke");
        let times: Vec<u64> = spoke.lines().map(|line| line.parse().unwrap()).collect();
        let next = scene.note(run + 1, "spoke");
        let next = next.lines().next().unwrap().parse().unwrap();
        let ends = times.iter().skip(1).chain([&next]);
        let gaps = times.iter().zip(ends).map(|(from, to)| to - from);
        assert!(gaps.max() >= Some(2), "run {run} was not silent: {spoke}");
    }
    assert!(ended >= 1, "{log}");
}

#[test]
fn agent_that_only_retries_its_model_times_out() {
    let again = r#"{"type":"system","subtype":"api_retry","attempt":1,"error_status":500}"#;
    let script = format!(
        "say; if [ $run = 1 ]; then while :; do echo '{again}'; sleep 0.1; done; fi; result 'made'"
    );
    let scene = Scene::configured(&script, "[run]\ntask_timeout = \"6s\"\n");
    scene.run().exits(0);
    let told = "no heartbeat for 6 s: its agent only asked a model again that fails: 500";
    has(scene.env.run("log").stdout, told);
    has(scene.env.run("why 1").stdout, told);
}

#[test]
fn worker_reports_model_retry_with_time() {
    let scene = Scene::with("[ -e @NOTES@/mended ] || fault 529; result 'made'");
    let config = scene.read("config.toml");
    let patient = config.replace("\"10ms\"", "\"1h\"");
    scene.write("config.toml", &patient);
    let mut daemon = scene.start("run --plan plan.md");
    let told = File::create(scene.path("worker.log")).unwrap();
    let mut worker = scene.spawn("worker --agent claude", Stdio::null(), told);
    wait_until("the log tells it", || {
        scene.env.run("log").stdout.contains("is asked again in")
    });
    let log = scene.env.run("log").stdout;
    assert_eq!(log.matches("is asked again in").count(), 1, "{log}");
    let status = scene.env.run("status").stdout;
    has(&status, "its model fails and is asked again in");
    let status: Value = serde_json::from_str(&scene.env.run("status --json").stdout).unwrap();
    let until = status["tasks"][0]["waits_until"].as_str().unwrap();
    let log = scene.env.run("log").stdout;
    assert!(until.starts_with("20"), "{until}: {log}");
    let told = scene.read("worker.log");
    let line = "1 · Make the part: the model fails (529): API Error; it is asked again at ";
    assert_eq!(told.matches(line).count(), 1, "{told}");
    // The next worker does not wait for what this one waited for.
    scene.write("notes/mended", "");
    worker.child.kill().unwrap();
    worker.wait();
    let _next = scene.start("worker --agent claude");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn unknown_start_error_is_retried_once() {
    let scene = Scene::with(
        "[ $run = 1 ] && { echo 'cannot allocate memory' >&2; exit 1; }; result 'made'",
    );
    scene.run().exits(0);
    assert_eq!(scene.runs(), 2);
    // It begins, as the first did.
    assert_eq!(scene.session(1).0, scene.session(2).0);
    assert_eq!(scene.reports().len(), 1);
    let always = Scene::with("echo 'cannot allocate memory' >&2; exit 1");
    let ran = always.run().exits(4);
    assert_eq!(always.runs(), 2);
    ran.has_stderr("cannot allocate memory");
}

#[test]
fn orphaned_agent_with_endless_output_is_stopped() {
    let scene = Scene::configured(
        "say; until [ -e @NOTES@/go ]; do sleep 0.05; done; yes '{\"type\":\"assistant\"}'",
        "[run]\nmax_attempts = 1\n",
    );
    scene.orphaned("claude", 4, || scene.runs() == 1, || scene.go());
    assert_eq!(scene.runs(), 1);
    let [report] = scene.reports().try_into().unwrap();
    has(&report, "it printed more than 64 MiB");
}

#[test]
fn agent_starts_only_after_first_heartbeat() {
    let scene = Scene::with("say; result 'made'");
    let mut daemon = scene.start("run --plan plan.md");
    wait_until("the command waits", || {
        scene.exchange.names("commands/pending").len() == 1
    });
    let [command] = scene.exchange.names("commands/pending").try_into().unwrap();
    let id = command.trim_end_matches(".md").to_owned();
    // A folder in its place cannot be replaced by a file.
    let in_the_way = scene.exchange.path("active").join(format!("{id}.json"));
    fs::create_dir_all(in_the_way.join("full")).unwrap();
    let _worker = scene.start("worker --agent claude");
    wait_until("the worker has tried", || {
        scene.exchange.names("commands/processed").len() == 1
            && scene
                .exchange
                .path("logs")
                .join(format!("{id}.err"))
                .exists()
    });
    assert_eq!(scene.runs(), 0);
    fs::remove_dir_all(in_the_way).unwrap();
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(scene.runs(), 1);
}

#[test]
fn agent_with_endless_output_is_stopped() {
    let scene = Scene::configured(
        "yes '{\"type\":\"assistant\"}'",
        "[run]\nmax_attempts = 1\n",
    );
    scene.run().exits(4);
    let [report] = scene.reports().try_into().unwrap();
    has(&report, "it printed more than 64 MiB");
    for name in scene.exchange.names("logs") {
        let length = fs::metadata(scene.exchange.path("logs").join(&name))
            .unwrap()
            .len();
        assert!(length <= 64 << 20, "{name} has {length} bytes");
    }
}
