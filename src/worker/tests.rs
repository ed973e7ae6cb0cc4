mod roles;

use std::collections::BTreeSet;
use std::fs;
use std::future::pending;
use std::path::Path;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::command_claim::{Claim, Claimer, PassedOver};
use super::*;
use crate::config::Environment;
use crate::exec::{ChildOutput, ProcessGroup, alive};
use crate::plan::{CommandId, Report, ReportStatus, SessionId};
use crate::store::StorePlace;
use crate::volumes::{CommandPlace, Folder, Heartbeat};
use crate::wire::report_file::parse;

const LONG: Duration = Duration::from_secs(30);

struct Given {
    root: tempfile::TempDir,
    volumes: Volumes,
}

/// A worker that runs until it is told to end.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl Running {
    fn start(options: WorkerOptions) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(options, async move {
            if stopped.await.is_err() {
                pending::<()>().await;
            }
        }));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(LONG, self.task).await.unwrap().unwrap().unwrap();
    }

    /// Ends the worker as a kill would: nothing of it runs any more, nothing is tidied up.
    async fn vanish(self) {
        self.task.abort();
        self.task.await.unwrap_err();
    }
}

fn shell() -> Agent {
    Agent::new("shell", vec![]).unwrap()
}

fn command(argv: &[&str]) -> Agent {
    let argv = argv.iter().map(ToString::to_string).collect();
    Agent::new("command", argv).unwrap()
}

/// Returns the header of the command `task-N` of the task N.
fn of_its_own_task(id: &str) -> String {
    let task: u32 = id.strip_prefix("task-").unwrap().parse().unwrap();
    format!("origin: person\nplan: p\ntask: {task}\nattempt: 1")
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

impl Given {
    fn new() -> Self {
        let (root, volumes) = Volumes::temporary();
        Self { root, volumes }
    }

    fn config(&self) -> Arc<Config> {
        let mut config = Config::default();
        config.volumes.root = self.root.path().to_owned();
        config.run.task_timeout = LONG;
        config.worker.env = vec![];
        config.worker.retries = 1;
        config.worker.retry_delay = Duration::ZERO;
        Arc::new(config)
    }

    fn store_place(&self) -> StorePlace {
        let (config, file) = (self.config(), self.volumes.database());
        StorePlace::configured(&config.store, file, &Environment::default()).unwrap()
    }

    fn start(&self, agent: Agent) -> Running {
        self.start_with(agent, LONG)
    }

    fn start_with(&self, agent: Agent, deadline: Duration) -> Running {
        self.start_as(RoleFilter::All, agent, deadline)
    }

    fn start_for(&self, role: RoleFilter, agent: Agent) -> Running {
        self.start_as(role, agent, LONG)
    }

    fn start_as(&self, role: RoleFilter, agent: Agent, deadline: Duration) -> Running {
        Running::start(self.options(role, agent, deadline))
    }

    fn options(&self, role: RoleFilter, agent: Agent, deadline: Duration) -> WorkerOptions {
        WorkerOptions {
            config: self.config(),
            agent,
            role,
            plan: None,
            lanes: 1,
            deadline,
            path: None,
            store: self.store_place(),
            relayed: RelayedPlans::default(),
            health: WorkerHealth::default(),
            events: None,
        }
    }

    fn publish(&self, id: &str, front: &str, script: &str) -> CommandId {
        let id = CommandId::new(id);
        let text = format!(
            "---\nid: {id}\nsession_id: auto\ncommand_type: new\n{front}\n---\n\n## Task description\n\n```sh\n{script}\n```\n"
        );
        self.volumes.publish(&id, &text).unwrap();
        id
    }

    fn of_person(&self, id: &str, script: &str) -> CommandId {
        self.publish(id, &of_its_own_task(id), script)
    }

    async fn report(&self, id: &CommandId) -> Report {
        let path = self.volumes.report(id);
        let claim = self.volumes.claim_lock(id);
        // An agent may write its report in place: it is whole when the worker lets go of the command.
        until("no report", || path.exists() && !claim.exists()).await;
        let name = path.file_name().unwrap().to_str().unwrap();
        parse(name, &fs::read(&path).unwrap()).unwrap().report
    }

    fn end_of_session(&self, id: &str) -> CommandId {
        let id = CommandId::new(id);
        let text = format!("---\nid: {id}\nsession_id: s\ncommand_type: end\n---\n");
        self.volumes.publish(&id, &text).unwrap();
        id
    }

    fn whereabouts(&self, id: &CommandId) -> CommandPlace {
        self.volumes.whereabouts(id).unwrap()
    }

    fn work_file(&self, name: &str) -> String {
        let path = self.volumes.path(Folder::Workspace).join(name);
        fs::read_to_string(path).unwrap_or_default()
    }

    async fn at_rest(&self) {
        let active = self.volumes.path(Folder::Active);
        until("something is left in `active`", || {
            // The folder for temporary files remains.
            fs::read_dir(&active).unwrap().count() == 1
        })
        .await;
    }
}

#[tokio::test]
async fn commands_run_in_issue_order() {
    let given = Given::new();
    let first = given.of_person("task-1", "echo one >> made\necho said");
    let second = given.of_person("task-2", "echo two >> made\nexit 3");
    let running = given.start(shell());
    let third = given.of_person("task-3", "echo three >> made");
    let report = given.report(&first).await;
    assert_eq!(report.status, ReportStatus::Success);
    assert!(report.results.contains("said"));
    let report = given.report(&second).await;
    assert_eq!(report.status, ReportStatus::Failed);
    assert!(report.results.contains("exit code 3"));
    given.report(&third).await;
    assert_eq!(given.work_file("made"), "one\ntwo\nthree\n");
    given.at_rest().await;
    running.stop().await;
}

#[test]
fn what_others_wait_for_goes_before_what_is_older() {
    let given = Given::new();
    let [older, waited, later] = ["task-1", "task-2", "task-3"].map(|id| given.of_person(id, ""));
    let first = BTreeSet::from([waited.clone(), CommandId::new("task-0")]);
    let passed = PassedOver::default();
    let claimer = Claimer {
        agent: "shell",
        role: &RoleFilter::All,
        plan: None,
    };
    let next = || claimer.next(&given.volumes, &passed, &first).unwrap();
    let claims: Vec<Claim> = std::iter::from_fn(next).collect();
    let ids: Vec<&CommandId> = claims.iter().map(Claim::id).collect();
    assert_eq!(ids, [&waited, &older, &later]);
}

#[tokio::test]
async fn refuses_model_scripts_and_unreadable_commands() {
    let given = Given::new();
    let of_model = given.publish("task-1", "origin: model", "touch made");
    let garbled = CommandId::new("task-2");
    given.volumes.publish(&garbled, "no front matter").unwrap();
    let other = CommandId::new("task-3");
    let text = "---\nid: task-9\nsession_id: auto\ncommand_type: new\n---\nx";
    given.volumes.publish(&other, text).unwrap();
    let running = given.start(shell());
    for id in [of_model, garbled, other] {
        let report = given.report(&id).await;
        assert_eq!(report.status, ReportStatus::Failed, "{id}");
        assert!(report.results.starts_with("Nothing was done"), "{id}");
    }
    assert!(!given.volumes.path(Folder::Workspace).join("made").exists());
    running.stop().await;
}

#[tokio::test]
async fn worker_keeps_report_of_agent() {
    let given = Given::new();
    let id = given.of_person("task-1", "true");
    let script = "printf -- '---\nstatus: SUCCESS\n---\nby the agent\n' > \"$1\"; echo words";
    let running = given.start(command(&["sh", "-c", script, "sh", "{report}"]));
    let report = given.report(&id).await;
    given.at_rest().await;
    assert_eq!(report.status, ReportStatus::Success);
    assert_eq!(report.results, "by the agent");
    running.stop().await;
}

#[tokio::test]
async fn program_receives_prompt_and_placeholders() {
    let given = Given::new();
    let id = given.of_person("task-1", "true");
    let running = given.start(command(&[
        "sh",
        "-c",
        "pwd; echo $1; cat",
        "sh",
        "{session}",
    ]));
    let report = given.report(&id).await;
    assert_eq!(report.status, ReportStatus::PartialSuccess);
    let workspace = given.volumes.path(Folder::Workspace);
    assert!(
        report
            .results
            .contains(&format!("{}\n    1\n    ---\n", workspace.display()))
    );
    assert!(report.results.contains("id: task-1"));
    assert_eq!(report.session.unwrap().as_str(), "1");
    running.stop().await;
}

#[tokio::test]
async fn end_command_is_claimed_without_report() {
    let given = Given::new();
    let id = given.end_of_session("task-1");
    let running = given.start(shell());
    let taken = given.volumes.command(Folder::CommandsProcessed, &id);
    until("not taken", || taken.exists()).await;
    given.at_rest().await;
    assert!(!given.volumes.reported(&id).unwrap());
    running.stop().await;
}

#[tokio::test]
async fn stopping_worker_claims_only_end_commands() {
    let given = Given::new();
    let work_left = given.of_person("task-1", "echo begun > made");
    let end = given.end_of_session("task-2");
    let worker = Worker {
        role: RoleFilter::All,
        plan: None,
        lanes: 1,
        volumes: given.volumes.clone(),
        config: given.config(),
        health: WorkerHealth::default(),
        events: None,
        changes: watch::channel(0).1,
        stopping: watch::channel(true).1,
    };
    let doer = AgentDoer {
        agent: shell(),
        deadline: LONG,
        path: None,
        store: given.store_place(),
    };
    worker.work(doer).await.unwrap();
    assert_eq!(given.whereabouts(&work_left), CommandPlace::Pending);
    assert_eq!(given.whereabouts(&end), CommandPlace::Processed);
    given.at_rest().await;
}

#[tokio::test]
async fn cancelled_agent_ends_without_report() {
    let given = Given::new();
    let id = given.of_person("task-1", "echo begun > made; sleep 1000");
    let running = given.start(shell());
    until("not begun", || given.work_file("made") == "begun\n").await;
    until("no heartbeat", || {
        given.volumes.read_life(&id).pid.is_some()
    })
    .await;
    given.volumes.cancel(&id).unwrap();
    given.at_rest().await;
    assert!(!given.volumes.reported(&id).unwrap());
    assert!(!alive(&given.volumes.log(&id, "err")));
    running.stop().await;
}

#[tokio::test]
async fn deadline_is_reported_as_failure() {
    let given = Given::new();
    let id = given.of_person("task-1", "sleep 1000");
    let running = given.start_with(shell(), Duration::from_millis(50));
    let report = given.report(&id).await;
    assert_eq!(report.status, ReportStatus::Failed);
    assert!(report.results.contains("its time was over"));
    running.stop().await;
}

#[tokio::test]
async fn next_worker_repeats_interrupted_command() {
    for stopped in [true, false] {
        let given = Given::new();
        let script = "echo run >> made; test -e go || sleep 1000";
        let id = given.of_person("task-1", script);
        let running = given.start(shell());
        until("not begun", || given.work_file("made") == "run\n").await;
        if stopped {
            running.stop().await;
        } else {
            running.vanish().await;
        }
        assert!(!given.volumes.reported(&id).unwrap());
        fs::write(given.volumes.path(Folder::Workspace).join("go"), "").unwrap();
        let running = given.start(shell());
        let report = given.report(&id).await;
        assert_eq!(report.status, ReportStatus::Success);
        assert_eq!(given.work_file("made"), "run\nrun\n");
        given.at_rest().await;
        running.stop().await;
    }
}

/// Leaves behind what a killed worker leaves: a claim, a heartbeat, and an agent that still runs.
async fn orphan(given: &Given, id: &CommandId, script: &str, signed: bool) -> JoinHandle<()> {
    let volumes = &given.volumes;
    volumes.claim(id).unwrap();
    fs::write(volumes.claim_lock(id), "shell").unwrap();
    let (out, err) = (volumes.log(id, "out"), volumes.log(id, "err"));
    let spec = crate::exec::ChildSpec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: volumes.path(Folder::Workspace),
        env: crate::exec::environment(&[]),
        stdin: None,
        deadline: LONG,
    };
    let (pid, started) = oneshot::channel();
    let agent = tokio::spawn(async move {
        let output = ChildOutput::open(&out, &err).unwrap().unwrap();
        let tell = move |group: &mut ProcessGroup| pid.send(group.id()).unwrap();
        crate::exec::run(&spec, &output, tell, pending())
            .await
            .unwrap();
    });
    let life = Heartbeat {
        pid: Some(started.await.unwrap()).filter(|_| signed),
        session: Some(SessionId::new("s")),
        ..Heartbeat::default()
    };
    volumes.live(id, &life).unwrap();
    agent
}

#[tokio::test]
async fn next_worker_awaits_running_agent() {
    let given = Given::new();
    let id = given.of_person("task-1", "echo second >> made");
    let report = given.volumes.report(&id);
    let script = format!(
        "while ! test -e go; do sleep 0.02; done; printf -- '---\nstatus: SUCCESS\n---\nlate\n' > '{}'",
        report.display()
    );
    let agent = orphan(&given, &id, &script, true).await;
    let running = given.start(shell());
    until("not attended", || {
        given.volumes.read_life(&id).started_at.is_some()
    })
    .await;
    assert!(!report.exists());
    fs::write(given.volumes.path(Folder::Workspace).join("go"), "").unwrap();
    agent.await.unwrap();
    given.at_rest().await;
    assert_eq!(given.report(&id).await.results, "late");
    assert_eq!(given.work_file("made"), "");
    running.stop().await;
}

#[tokio::test]
async fn next_worker_cancels_running_agent() {
    // The worker may have been killed before it noted which process the agent is.
    for signed in [true, false] {
        let given = Given::new();
        let id = given.of_person("task-1", "true");
        let agent = orphan(&given, &id, "sleep 1000 & wait", signed).await;
        let running = given.start(shell());
        given.volumes.cancel(&id).unwrap();
        given.at_rest().await;
        assert!(!alive(&given.volumes.log(&id, "err")), "signed: {signed}");
        timeout(LONG, agent).await.unwrap().unwrap();
        assert!(!given.volumes.reported(&id).unwrap());
        running.stop().await;
    }
}

#[tokio::test]
async fn unkillable_agent_does_not_block_other_commands() {
    let given = Given::new();
    // It has left its group, and holds what tells that the agent runs.
    let script = "setsid sh -c 'echo $$ > pid; while ! test -e go; do sleep 0.02; done' & while :; do sleep 1; done";
    let id = given.of_person("task-1", script);
    let running = given.start(shell());
    until("not begun", || given.work_file("pid").ends_with('\n')).await;
    let others: Vec<_> = (2..5)
        .map(|number| given.of_person(&format!("task-{number}"), "true"))
        .collect();
    given.volumes.cancel(&id).unwrap();
    for other in &others {
        given.report(other).await;
    }
    let err = given.volumes.log(&id, "err");
    assert!(alive(&err), "it goes on");
    let lock = given.volumes.claim_lock(&id);
    assert!(lock.exists(), "nobody else may begin it");
    fs::write(given.volumes.path(Folder::Workspace).join("go"), "").unwrap();
    given.at_rest().await;
    assert!(!alive(&err) && !given.volumes.reported(&id).unwrap());
    running.stop().await;
}

#[tokio::test]
async fn two_workers_share_commands() {
    let given = Given::new();
    let ids: Vec<_> = (0..20)
        .map(|number| given.of_person(&format!("task-{number:02}"), "echo x >> made"))
        .collect();
    let workers = [given.start(shell()), given.start(shell())];
    for id in &ids {
        given.report(id).await;
    }
    assert_eq!(given.work_file("made"), "x\n".repeat(20));
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
async fn worker_has_as_many_agents_as_lanes() {
    let given = Given::new();
    let script = "echo begun >> made; until test -e go; do sleep 0.01; done";
    let ids = ["task-1", "task-2", "task-3"].map(|id| given.of_person(id, script));
    let running = Running::start(WorkerOptions {
        lanes: 2,
        ..given.options(RoleFilter::All, shell(), LONG)
    });
    until("not two begun", || {
        given.work_file("made") == "begun\n".repeat(2)
    })
    .await;
    assert_eq!(given.whereabouts(&ids[2]), CommandPlace::Pending);
    fs::write(given.volumes.path(Folder::Workspace).join("go"), "").unwrap();
    for id in &ids {
        given.report(id).await;
    }
    assert_eq!(given.work_file("made"), "begun\n".repeat(3));
    running.stop().await;
}

#[tokio::test]
async fn withdrawn_command_is_not_run() {
    let given = Given::new();
    let id = given.of_person("task-1", "touch made");
    given.volumes.withdraw(&id).unwrap();
    let running = given.start(shell());
    let next = given.of_person("task-2", "true");
    given.report(&next).await;
    assert_eq!(given.whereabouts(&id), CommandPlace::Withdrawn);
    assert!(!given.volumes.path(Folder::Workspace).join("made").exists());
    running.stop().await;
}

#[tokio::test]
async fn protocol_example_script_works() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("volumes/README.md"))
        .unwrap();
    let (_, rest) = text.split_once("```sh\n").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    let given = Given::new();
    let id = given.of_person("task-1", "true");
    let path = given.root.path().join("agent.sh");
    fs::write(&path, script).unwrap();
    let mut agent = tokio::process::Command::new("sh")
        .arg(&path)
        .arg(given.root.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let report = given.report(&id).await;
    assert_eq!(report.status, ReportStatus::PartialSuccess);
    assert_eq!(given.whereabouts(&id), CommandPlace::Processed);
    agent.kill().await.unwrap();
}

#[tokio::test]
async fn quickstart_plan_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart.md");
    let text = fs::read_to_string(path).unwrap();
    let (plan, problems) = crate::wire::plan_file::read("quickstart.md", &text);
    assert_eq!(problems, []);
    assert_eq!(plan.plan.tasks.len(), 5);
    let given = Given::new();
    let running = given.start(shell());
    for (index, task) in plan.plan.tasks.iter().enumerate() {
        assert_eq!(task.dependencies.is_empty(), index == 0);
        let id = CommandId::new(format!("task-{index}"));
        let text = format!(
            "---\nid: {id}\nsession_id: auto\ncommand_type: new\norigin: person\n---\n\n## Task description\n\n{}\n",
            task.description
        );
        given.volumes.publish(&id, &text).unwrap();
        let report = given.report(&id).await;
        assert_eq!(report.status, ReportStatus::Success, "{}", report.results);
    }
    assert!(given.work_file("page/index.html").ends_with("</html>\n"));
    running.stop().await;
}
