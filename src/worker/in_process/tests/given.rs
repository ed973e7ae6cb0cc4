//! A store in memory, real folders, and lanes at work in them.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::wire::report_file as wire;

pub(super) struct Given {
    pub(super) root: TempDir,
    pub(super) store: Store,
    pub(super) volumes: Volumes,
    pub(super) clock: Clock,
}

/// Lanes at work, and a daemon that reads what they answer each other.
pub(super) struct Running {
    pub(super) stop: oneshot::Sender<()>,
    pub(super) lanes: JoinHandle<()>,
    pub(super) daemon: JoinHandle<()>,
}

impl Running {
    pub(super) async fn stop(self) {
        drop(self.stop);
        self.lanes.await.unwrap();
        self.daemon.abort();
    }
}

pub(super) fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

pub(super) fn asks(target: &str) -> StepDoes {
    StepDoes::RequestCollaboration {
        target: target.to_owned(),
        description: "Mend it.".to_owned(),
        context: "As {{task.description}}".to_owned(),
    }
}

pub(super) fn acts(action: &str, params: &[(&str, &str)]) -> StepDoes {
    let params = params
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)));
    StepDoes::ExecuteAction {
        action: action.to_owned(),
        params: params.collect::<Map<_, _>>(),
    }
}

/// A role with one template that fits everything, with these steps.
pub(super) fn resident(
    given: &Given,
    name: &str,
    timeout: Duration,
    steps: Vec<StepDoes>,
) -> InProcessRole {
    let mut settings = RoleSettings::new(role(name));
    settings.collaboration_timeout = timeout;
    let steps = steps.into_iter().map(|does| StepSpec {
        name: "Step".to_owned(),
        does,
    });
    settings.templates = vec![StepTemplate {
        name: "all".to_owned(),
        matches: vec!["it".to_owned()],
        steps: steps.collect(),
    }];
    let store = given.store.clone();
    InProcessRole {
        id: role(name),
        lanes: 1,
        timeout,
        make: Arc::new(move |framework, _, workspace| {
            let (settings, store) = (settings.clone(), store.clone());
            let files = built_in(&Workplace::of(workspace), BTreeMap::new());
            let schema = json!({"type": "object", "properties": {}});
            let breaks = ability("break", "breaks", schema.clone(), async |_| {
                panic!("broken")
            });
            let hangs = ability("hang", "hangs", schema, async |_| {
                std::future::pending().await
            });
            let actions = files.and(Abilities::from_iter([breaks, hangs]));
            let made = Role::new(
                settings,
                store,
                framework,
                None,
                actions,
                Abilities::default(),
            );
            made.map_err(|faults| faults.to_string())
        }),
    }
}

impl Given {
    pub(super) async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock = Clock::start();
        Self {
            store: Store::in_memory(move || clock.now()).await.unwrap(),
            volumes: Volumes::open(root.path()).unwrap(),
            root,
            clock,
        }
    }

    pub(super) fn options(&self, residents: Vec<InProcessRole>, files: &[&str]) -> RoleHost {
        let inside = residents.iter().map(|resident| resident.id.clone());
        let members = inside.chain(files.iter().map(|name| role(name)));
        let member = |id| OtherRole {
            id,
            description: String::new(),
        };
        let mut config = Config::default();
        config.role.max_depth = 3;
        config.run.task_timeout = LONG;
        RoleHost {
            plan: top(),
            config: Arc::new(config),
            store: self.store.clone(),
            volumes: self.volumes.clone(),
            workspace: self.root.path().to_owned(),
            clock: self.clock,
            prompts: Arc::new(Prompts::load(None).unwrap()),
            members: members.map(member).collect(),
            role_prompts: Arc::default(),
            residents,
        }
    }

    /// Starts the role `a` with one step, beside the role `coder` that is behind files.
    pub(super) fn start_a(&self, timeout: Duration, step: StepDoes) -> Running {
        self.start(vec![resident(self, "a", timeout, vec![step])], &["coder"])
    }

    /// Starts the roles `a`, which asks `b`, and `b`, which asks `coder`.
    pub(super) fn start_chain(&self) -> Running {
        let member = |name, target| resident(self, name, LONG, vec![asks(target)]);
        self.start(vec![member("a", "b"), member("b", "coder")], &["coder"])
    }

    pub(super) fn start(&self, residents: Vec<InProcessRole>, files: &[&str]) -> Running {
        let (stop, stopped) = oneshot::channel();
        let inside = InProcessRoles::new(self.options(residents, files)).unwrap();
        let lanes = inside.run(async {
            drop(stopped.await);
        });
        Running {
            stop,
            lanes: tokio::spawn(lanes),
            daemon: tokio::spawn(read_answers(
                self.store.clone(),
                self.volumes.clone(),
                self.clock,
            )),
        }
    }

    /// Makes a plan of one task for a role and hands that out.
    pub(super) async fn task(&self, assignee: &str) -> CommandId {
        let id = CommandId::new("task-top");
        let command = CommandFile {
            id: id.clone(),
            created_at: None,
            session: None,
            kind: CommandType::New,
            plan: Some(top()),
            task: Some(TaskId(1)),
            attempt: Some(1),
            assignee: Some(assignee.to_owned()),
            origin: crate::plan::Origin::Model,
            workspace: self.root.path().display().to_string(),
            report: String::new(),
            request_id: None,
            body: "# 1 · Do it\n\n## Task description\n\nDo it well.".to_owned(),
        };
        let (text, assignee) = (command.render(), assignee.to_owned());
        let issue = NewCommand {
            id: id.clone(),
            kind: AttemptKind::New,
            session: None,
            text: text.clone(),
        };
        let mut head = PlanHead::new(top(), "Goal", Time::default());
        DAEMON.clone_into(&mut head.owner);
        let made = self.store.create(head, "test", "made", move |draft| {
            draft.make_tasks(vec![TaskSpec {
                name: "Do it".to_owned(),
                description: "Do it well.".to_owned(),
                assignee: Some(assignee),
                ..TaskSpec::default()
            }])?;
            draft.start(PlanPolicy::default(), "")?;
            draft.issue(TaskId(1), issue)
        });
        made.await.unwrap();
        self.volumes.publish(&id, &text).unwrap();
        id
    }

    pub(super) async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + LONG;
        while !holds() {
            assert!(Instant::now() < end, "waited in vain until {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn report(&self, id: &CommandId) -> String {
        let path = self.volumes.report(id);
        self.until("the report is there", || path.exists()).await;
        std::fs::read_to_string(path).unwrap()
    }

    /// Waits for a command for the role `coder`, which is behind files.
    pub(super) async fn request(&self) -> CommandId {
        let coders = |id: &CommandId| {
            let text = self.volumes.read_command(Folder::CommandsPending, id);
            // A lane here may have taken another one since it was listed.
            text.is_ok_and(|text| {
                let command = CommandFile::parse(&text).unwrap();
                command.assignee.as_deref() == Some("coder")
            })
        };
        let mut found = None;
        self.until("a request is there", || {
            found = self.volumes.waiting().unwrap().into_iter().find(coders);
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// Answers a request as the daemon does that read a report.
    pub(super) async fn answer(&self, request: &CommandId, text: &str) {
        let mut report = wire::ReportFile::new(request.clone(), ReportStatus::Success);
        report.report.results = text.to_owned();
        (report.report.input_tokens, report.report.output_tokens) = (3, 2);
        record(&self.store, &self.clock, report).await;
    }

    pub(super) async fn internal(&self, name: &str, assignment: &CommandId) -> PlanId {
        let key = format!("role:{name}:{assignment}");
        self.store
            .find(&key)
            .await
            .unwrap()
            .expect("an internal plan")
    }

    pub(super) async fn attempts(&self, plan: &PlanId) -> Vec<Attempt> {
        let read = self
            .store
            .read(plan, |plan, _| plan.attempts().cloned().collect());
        read.await.unwrap()
    }
}

/// Records the reports on requests, as the daemon does.
async fn read_answers(store: Store, volumes: Volumes, clock: Clock) {
    let mut read = BTreeSet::new();
    loop {
        for entry in std::fs::read_dir(volumes.path(Folder::ReportsPending)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = volumes.path(Folder::ReportsPending).join(&name);
            if read.insert(name.clone()) {
                let report = wire::parse(&name, &std::fs::read(path).unwrap()).unwrap();
                if report.request_id.is_some() {
                    record(&store, &clock, report).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn record(store: &Store, clock: &Clock, report: wire::ReportFile) {
    let id = report.command;
    let plan = store.plan_of(&id).await.unwrap().unwrap();
    let report = Report {
        hash: format!("hash of {id}"),
        received: clock.now(),
        ..report.report
    };
    let change = move |draft: &mut crate::plan::Draft<'_>| draft.report(&id, report);
    let why = "a report came for it";
    let recorded = store.change(&plan, "daemon", why, change);
    recorded.await.unwrap();
}

pub(super) fn top() -> PlanId {
    PlanId::new("top")
}
