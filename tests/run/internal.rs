//! The internal plan of a role: it is in the store alongside the plan that a daemon carries out, gets the reports for which it
//! waits, and ends with the task for which it was made.

use plan_agent::plan::{
    ArchiveState, AttemptState, CommandId, PlanHead, PlanId, PlanPolicy, PlanState, ROLE, TaskId,
    Time,
};
use plan_agent::store::Store;

use super::*;
use crate::common::core::{new_command, new_task};
use crate::common::env::lives;

/// The role's request to another one.
const REQUEST: &str = "task-0190a0b0-0000-7000-8000-000000000001";

/// The store of a scene, as a role uses it.
pub(super) struct Internal {
    runtime: tokio::runtime::Runtime,
    store: Store,
}

impl Internal {
    pub(super) fn of(scene: &Scene) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let path = scene.env.path("volumes/plan-agent.db");
        let store = runtime.block_on(Store::open(&path, || Time(1_795_255_200_000_000)));
        Self {
            runtime,
            store: store.unwrap(),
        }
    }

    /// Makes the internal plan of a role that waits for its request.
    fn waits(&self, scene: &Scene, key: &str, parent: &str, request: &str) -> PlanId {
        let mut head = PlanHead::new(PlanId::new(key), "Review", Time::default());
        ROLE.clone_into(&mut head.owner);
        head.parent = Some(PlanId::new(parent));
        let text = format!(
            "---\nid: {request}\nsession_id: auto\ncommand_type: new\nassignee: coder\nrequest_id: {request}\n---\n\nMend it.\n"
        );
        let issue = new_command(request, &text);
        let text = issue.text.clone();
        let made = self.store.create(head, "reviewer", "made", move |draft| {
            draft.make_tasks(vec![new_task("Ask the coder")])?;
            draft.start(PlanPolicy::default(), "")?;
            draft.issue(TaskId(1), issue)?;
            Ok(draft.plan().id().clone())
        });
        let made = self.runtime.block_on(made).unwrap();
        // A worker never sees half of it.
        let (aside, name) = (scene.env.path("request"), format!("{request}.md"));
        fs::write(&aside, text).unwrap();
        let pending = scene.env.path("volumes/commands/pending");
        fs::rename(aside, pending.join(name)).unwrap();
        made
    }

    /// Returns the commands that a person has allowed the agent of a request: once, and every agent of the plan.
    pub(super) fn allowed(&self, scene: &Scene, request: &str) -> [Vec<String>; 2] {
        let request = CommandId::new(request);
        let asked = self.runtime.block_on(self.store.plan_of(&request));
        let once = self.read(&asked.unwrap().unwrap(), move |plan| {
            plan.attempt(&request).unwrap().allowed.clone()
        });
        let top = PlanId::new(plan_id(scene));
        [once, self.read(&top, |plan| plan.head().allowed.clone())]
    }

    fn read<T: Send + 'static>(
        &self,
        plan: &PlanId,
        read: impl FnOnce(&plan_agent::plan::Plan) -> T + Send + 'static,
    ) -> T {
        let read = self.store.read(plan, |plan, _| read(plan));
        self.runtime.block_on(read).unwrap()
    }

    fn state(&self, plan: &PlanId, request: &str) -> AttemptState {
        let request = CommandId::new(request);
        self.read(plan, move |plan| plan.attempt(&request).unwrap().state)
    }

    fn status(&self, plan: &PlanId) -> (PlanState, ArchiveState) {
        self.read(plan, |plan| {
            (plan.status().clone(), plan.head().archive_state)
        })
    }
}

fn plan_of(scene: &Scene) -> String {
    plan_id(scene)
}

#[test]
fn request_report_is_recorded_in_internal_plan() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let command = scene.take_any();
    let internal = Internal::of(&scene);
    let key = format!("role:reviewer:{}", command.id);
    let plan = internal.waits(&scene, &key, &plan_of(&scene), REQUEST);
    assert!(scene.claim(REQUEST));
    let answer = "---\nstatus: FAILED\nrequest_id: r\ncollaboration: rejected\n---\n\nNot today.\n";
    scene.submit(REQUEST, answer);
    let name = format!("report-{REQUEST}.md");
    scene.await_name("reports/processed", &name);
    assert_eq!(internal.state(&plan, REQUEST), AttemptState::Reported);
    let request = CommandId::new(REQUEST);
    let said = internal.read(&plan, move |plan| {
        let report = plan.attempt(&request).unwrap().report.clone().unwrap();
        (report.answer().as_str(), report.results)
    });
    assert_eq!(said, ("rejected", "Not today.".to_owned()));

    // It is shown only on request, and the plan that is carried out does not know of it.
    assert_eq!(scene.tasks(), ["in_progress"]);
    lacks(scene.works("plans"), "reviewer");
    lacks(scene.works("plans --json"), "reviewer");
    has(scene.works("plans --all --json"), &key);
    assert_eq!(scene.run("status role").code, Some(2));
    has(scene.works(["status", &key]), "Ask the coder");
    // Only its role changes it.
    let skip = [
        "tool",
        "skipTask",
        r#"{"task_id": 1, "reason": "x"}"#,
        "--plan",
        &key,
    ];
    scene.exits(1, skip).has_stdout("A role works on this plan");
    scene.submit(&command.id, &crate::common::agent::report("SUCCESS", "ok"));
    scene.await_status("completed");
}

#[test]
fn internal_plans_and_requests_end_with_parent_plan() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let command = scene.take_any();
    let internal = Internal::of(&scene);
    let key = format!("role:reviewer:{}", command.id);
    let plan = internal.waits(&scene, &key, &plan_of(&scene), REQUEST);
    // A role in the process was asked, and its own request went to a worker that has begun.
    let (second, third) = (
        REQUEST.replace("0001", "0002"),
        REQUEST.replace("0001", "0003"),
    );
    let key = format!("role:architect:{REQUEST}");
    let deeper = internal.waits(&scene, &key, plan.as_str(), &second);
    assert!(scene.claim(&second));
    // It belongs to a plan that no daemon carries out: another caller has to end it.
    let key = format!("role:architect:{third}");
    let strange = internal.waits(&scene, &key, "nobody", &third);

    scene.works(["abort", &plan_of(&scene)]);
    scene.await_end();
    let ended = (PlanState::Abandoned, ArchiveState::History);
    for plan in [&plan, &deeper] {
        assert_eq!(internal.status(plan), ended, "{plan}");
    }
    let goes_on = (PlanState::Running, ArchiveState::Current);
    assert_eq!(internal.status(&strange), goes_on);
    let withdrawn = scene.names("commands/withdrawn");
    assert_eq!(withdrawn, [format!("{REQUEST}.md")]);
    let active = scene.names("active");
    assert!(active.contains(&format!("{second}.cancel")), "{active:?}");
}

/// An agent that works for a role's request counts for the plan that the request is for.
#[test]
fn agent_of_a_request_that_a_killed_daemon_left_is_the_plans() {
    let mut scene = Scene::by_rules("run.max_parallel = 2\n");
    let at = scene.env.path("").display().to_string();
    let script = "echo $$ > @AT@/$(basename $1).pid; until [ -e @AT@/go ]; do sleep 0.02; done";
    let script = script.replace("@AT@", &at);
    scene.env.show_script("my-agent", &script);
    let run = "run --no-input --plan one.md --agent command -- my-agent {prompt_file}";
    let daemon = scene.leave(run);
    scene.await_events("claimed", 1);
    let command = scene.events_named("claimed")[0]["command"].clone();
    let internal = Internal::of(&scene);
    let key = format!("role:reviewer:{}", command.as_str().unwrap());
    let plan = plan_id(&scene);
    internal.waits(&scene, &key, &plan, REQUEST);
    let pid = |id: &str| {
        let file = scene.env.path(format!("{id}.md.pid"));
        wait_until("its agent works", || {
            fs::read_to_string(&file).is_ok_and(|pid| pid.ends_with('\n'))
        });
        fs::read_to_string(&file).unwrap().trim().to_owned()
    };
    let (own, of_request) = (pid(command.as_str().unwrap()), pid(REQUEST));
    kill(&scene, daemon);
    let agent = rustix::process::Pid::from_raw(own.parse().unwrap()).unwrap();
    rustix::process::kill_process(agent, Signal::KILL).unwrap();
    wait_until("the agent of the task has ended", || !lives(&own));
    scene.refuses(
        5,
        "run --no-input --plan two.md",
        format!("on plan {plan},"),
    );
    assert!(lives(&of_request));
    scene.works(["abort", &plan]);
    wait_until("the agent of the request has ended", || !lives(&of_request));
}

#[test]
fn next_daemon_ends_leftover_internal_plans() {
    let scene = Scene::by_rules("");
    let daemon = scene.leave("run --plan chain.md");
    let command = scene.take_any();
    let internal = Internal::of(&scene);
    let top = plan_of(&scene);
    let waits = internal.waits(
        &scene,
        &format!("role:reviewer:{}", command.id),
        &top,
        REQUEST,
    );
    // One ended without its request having been withdrawn, and one belongs to an attempt that is over.
    let (second, third) = (
        REQUEST.replace("0001", "0002"),
        REQUEST.replace("0001", "0003"),
    );
    let ended = internal.waits(&scene, "role:reviewer:task-over", &top, &second);
    let abandon = internal
        .store
        .change(&ended, "reviewer", "over", |draft| draft.abandon("over"));
    internal.runtime.block_on(abandon).unwrap();
    let over = internal.waits(&scene, "role:reviewer:task-other", &top, &third);
    let pid = daemon.pid.as_raw_pid().to_string();
    drop(daemon);
    wait_until("it has gone", || !crate::common::env::lives(&pid));

    let _daemon = scene.leave(["resume", &top]);
    let withdrawn = [&second, &third].map(|id| format!("{id}.md"));
    wait_until("what nobody waits for is taken back", || {
        let done = (PlanState::Abandoned, ArchiveState::History);
        internal.status(&over) == done && internal.status(&ended) == done
    });
    assert_eq!(scene.names("commands/withdrawn"), withdrawn);
    // Requests that are still waiting stay.
    let expected = (PlanState::Running, ArchiveState::Current);
    assert_eq!(internal.status(&waits), expected);
    assert_eq!(internal.state(&waits, REQUEST), AttemptState::Open);
}
