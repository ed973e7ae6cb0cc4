//! Lanes of roles that do everything by templates, in a store in memory and real folders; the daemon is played by the test.

mod given;

use std::time::Instant;

use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::role_link::{RoleLink, message_of};
use super::*;
use crate::exec::{CheckConfig, MarkKind, check_marked, end_left_behind};
use crate::plan::{
    AnswerChoice, Attempt, AttemptKind, CommandId, DAEMON, HumanQuestionKind, NewCommand, PlanHead,
    PlanId, PlanPolicy, PlanState, QuestionId, Report, ReportStatus, TaskId, TaskSpec, Time,
};
use crate::role::{
    Abilities, CollaborationStatus, MessageKind, RequestId, RequestRefused, RoleSettings, StepDoes,
    StepSpec, StepTemplate, StructuredMessage, TaskUpdate, Workplace, ability, built_in,
    new_request, rested,
};
use crate::volumes::Folder;
use crate::wire::command_file::{CommandFile, CommandType};

use given::{Given, acts, asks, resident, role, top};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn role_command_becomes_task_and_report() {
    let given = Given::new().await;
    let write = acts(
        "write_file",
        &[("path", "made.txt"), ("content", "{{task.name}}")],
    );
    let others = CommandId::new("task-another");
    let text = "---\nid: task-another\nsession_id: auto\ncommand_type: new\nassignee: b\n---\nx";
    given.volumes.publish(&others, text).unwrap();
    let running = given.start_a(LONG, write);
    let id = given.task("a").await;
    let report = given.report(&id).await;
    assert!(report.contains("status: SUCCESS"), "{report}");
    let made = std::fs::read_to_string(given.root.path().join("made.txt")).unwrap();
    assert_eq!(made.trim(), "Do it");
    let lock = given.volumes.claim_lock(&id);
    given.until("it is done", || !lock.exists()).await;
    running.stop().await;
    assert_eq!(given.volumes.waiting().unwrap(), [others]);
}

#[tokio::test]
async fn external_role_answers_request_by_report() {
    let given = Given::new().await;
    let running = given.start_a(LONG, asks("coder"));
    let id = given.task("a").await;
    let request = given.request().await;
    let text = given
        .volumes
        .read_command(Folder::CommandsPending, &request)
        .unwrap();
    let command = CommandFile::parse(&text).unwrap();
    assert_eq!(command.assignee.as_deref(), Some("coder"));
    assert_eq!(command.request_id.as_deref(), Some(request.as_str()));
    assert_eq!(command.workspace, given.root.path().display().to_string());
    assert!(
        command.body.contains("Mend it.") && command.body.contains("    As Do it well."),
        "{text}"
    );
    assert!(command.body.starts_with("# 1 · a asks: Mend it."), "{text}");
    given.volumes.claim(&request).unwrap();
    given.answer(&request, "Mended.").await;
    let report = given.report(&id).await;
    assert!(
        report.contains("Mended.") && report.contains("input_tokens: 3"),
        "{report}"
    );
    running.stop().await;
}

#[tokio::test]
async fn asking_role_knows_time_spent_on_human_answer() {
    let given = Given::new().await;
    let running = given.start_chain();
    let id = given.task("a").await;
    let request = given.request().await;
    let first = given.attempts(&given.internal("a", &id).await).await;
    let first: RequestId = first[0].id.clone();
    let hour = Duration::from_secs(3600);
    let asked_by_now = async |plus: Duration| {
        let now = given.clock.now().plus(plus);
        rested(&given.store, &role("b"), &first, now).await.unwrap()
    };
    assert_eq!(asked_by_now(hour).await, Duration::ZERO);
    let plan = given.store.plan_of(&request).await.unwrap().unwrap();
    let ask = |draft: &mut crate::plan::Draft<'_>| {
        draft.name_questions(|_| QuestionId::new("q"));
        draft.ask(HumanQuestionKind::Agent, Some(TaskId(1)), "which?")
    };
    let asked = given.store.change(&plan, "daemon", "it asks", ask);
    asked.await.unwrap();
    assert!(asked_by_now(hour).await >= hour);
    let answer = |draft: &mut crate::plan::Draft<'_>| {
        draft.answer(&QuestionId::new("q"), AnswerChoice::Reply, "that", "file")
    };
    let answered = given.store.change(&plan, "daemon", "answered", answer);
    answered.await.unwrap();
    assert!(asked_by_now(hour).await < hour, "that is over");
    running.stop().await;
}

#[tokio::test]
async fn request_survives_restart_and_is_sent_once() {
    let given = Given::new().await;
    let start = || given.start_a(LONG, asks("coder"));
    let running = start();
    let id = given.task("a").await;
    let request = given.request().await;
    running.stop().await;
    given.volumes.claim(&request).unwrap();
    let running = start();
    let plan = given.internal("a", &id).await;
    // It says that it lives before it waits again.
    let life = given.volumes.life(&id);
    std::fs::remove_file(&life).ok();
    given.until("it is taken up", || life.exists()).await;
    running.stop().await;
    given.answer(&request, "While nobody was there.").await;
    let running = start();
    let report = given.report(&id).await;
    assert!(report.contains("While nobody was there."), "{report}");
    running.stop().await;
    assert!(given.volumes.waiting().unwrap().is_empty());
    assert_eq!(given.attempts(&plan).await.len(), 1);
}

#[tokio::test]
async fn chained_requests_survive_restart() {
    let given = Given::new().await;
    let running = given.start_chain();
    let id = given.task("a").await;
    let request = given.request().await;
    running.stop().await;
    let running = given.start_chain();
    given.volumes.claim(&request).unwrap();
    given.answer(&request, "By the third.").await;
    let report = given.report(&id).await;
    assert!(report.contains("By the third."), "{report}");
    // What was used far away is counted here.
    assert!(report.contains("input_tokens: 3"), "{report}");
    running.stop().await;
    let plan = given.internal("a", &id).await;
    assert_eq!(given.attempts(&plan).await.len(), 1);
}

#[tokio::test]
async fn cancelled_task_withdraws_its_requests() {
    let given = Given::new().await;
    let running = given.start_chain();
    let id = given.task("a").await;
    let request = given.request().await;
    given.volumes.cancel(&id).unwrap();
    let withdrawn = given.volumes.command(Folder::CommandsWithdrawn, &request);
    given
        .until("the request is taken back", || withdrawn.exists())
        .await;
    let lock = given.volumes.claim_lock(&id);
    given
        .until("the command is let go of", || !lock.exists())
        .await;
    let plan = given.internal("a", &id).await;
    let status = given
        .store
        .read(&plan, |plan, _| plan.status().clone())
        .await;
    assert_eq!(status.unwrap(), PlanState::Abandoned);
    assert!(!given.volumes.report(&id).exists());
    running.stop().await;
}

#[tokio::test]
async fn late_answer_fails_step() {
    let given = Given::new().await;
    let short = Duration::from_millis(50);
    let running = given.start_a(short, asks("coder"));
    let id = given.task("a").await;
    let report = given.report(&id).await;
    assert!(
        report.contains("status: FAILED") && report.contains("no answer within"),
        "{report}"
    );
    assert!(given.volumes.waiting().unwrap().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn panicking_role_reports_failure() {
    let given = Given::new().await;
    let running = given.start_a(LONG, acts("break", &[]));
    let id = given.task("a").await;
    let report = given.report(&id).await;
    assert!(report.contains("status: FAILED"), "{report}");
    running.stop().await;
}

#[tokio::test]
async fn hanging_role_ends_on_stop() {
    let given = Given::new().await;
    let running = given.start_a(LONG, acts("hang", &[]));
    let id = given.task("a").await;
    let lock = given.volumes.claim_lock(&id);
    given.until("it is taken", || lock.exists()).await;
    running.stop().await;
    assert!(lock.exists(), "the next one takes it up");
}

/// The only lane of a role.
fn lane(name: &str) -> Lane {
    Lane {
        role: role(name),
        index: 0,
    }
}

/// A request as a role makes it in its internal plan.
fn request(from: &str, to: &str, plan: &str) -> StructuredMessage {
    let mut message = StructuredMessage::new(from, role(to), MessageKind::CollaborationRequest);
    message.request_id = Some(new_request());
    message.plan_id = Some(PlanId::new(plan));
    message.description = Some("Mend it.".to_owned());
    message
}

#[tokio::test]
async fn invalid_requests_are_refused_before_sending() {
    let given = Given::new().await;
    let names = ["a", "b", "c", "d", "e"];
    let residents = names.map(|name| resident(&given, name, LONG, Vec::new()));
    let shared = Arc::new(SharedContext::new(
        given.options(residents.to_vec(), &["coder"]),
    ));
    // a has the task, asks b, which asks c, which asks d.
    let mut parent = top();
    for (name, next) in names.iter().zip(["1", "2", "3", "4", "5"]) {
        let mut head = PlanHead::new(PlanId::new(*name), "", Time::default());
        crate::plan::ROLE.clone_into(&mut head.owner);
        head.key = Some(format!("role:{name}:task-{next}"));
        head.parent = Some(parent);
        parent = head.id.clone();
        given
            .store
            .create(head, "test", "made", |_| Ok(()))
            .await
            .unwrap();
    }
    let refused = async |from: &str, to: &str| {
        let link = RoleLink::new(Arc::clone(&shared), lane(from), "");
        let prepared = link.prepare(&request(from, to, from)).await;
        prepared.map_err(|refused: RequestRefused| refused.to_string())
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(
        refused("a", "code").await,
        error("there is no role `code`; is `coder` meant?")
    );
    assert_eq!(refused("b", "b").await, error("role `b` asks itself"));
    assert_eq!(
        refused("b", "a").await,
        error("the request would wait for itself: a → b → a")
    );
    assert_eq!(
        refused("c", "a").await,
        error("the request would wait for itself: a → b → c → a")
    );
    assert_eq!(
        refused("d", "e").await,
        error("requests within requests go 3 deep at most, and this one would be 4 deep")
    );
    for (to, here) in [("d", true), ("coder", false)] {
        let command = CommandFile::parse(&refused("c", to).await.unwrap()).unwrap();
        assert_eq!(command.assignee.as_deref(), Some(to));
        let message = message_of(&command);
        assert_eq!(message.is_some(), here, "{command:?}");
        assert!(message.is_none_or(|message| message.from == "c"));
    }
}

#[tokio::test]
async fn repeated_send_publishes_request_once() {
    let given = Given::new().await;
    let residents = vec![resident(&given, "a", LONG, Vec::new())];
    let shared = Arc::new(SharedContext::new(given.options(residents, &["coder"])));
    let link = RoleLink::new(shared, lane("a"), "");
    let request = request("a", "coder", "nowhere");
    let text = link.prepare(&request).await.unwrap();
    link.send(&request, &text).await.unwrap();
    link.send(&request, &text).await.unwrap();
    let id = request.assignment();
    assert_eq!(
        given.volumes.waiting().unwrap(),
        [id.as_str()].map(CommandId::new)
    );
    given.volumes.claim(&id).unwrap();
    link.send(&request, &text).await.unwrap();
    assert!(given.volumes.waiting().unwrap().is_empty());
    link.withdraw(&request.assignment()).await.unwrap();
    assert!(given.volumes.cancel_mark(&id).exists());
}

#[tokio::test]
async fn what_the_plan_does_not_want_any_more_is_not_reported() {
    let given = Given::new().await;
    let residents = vec![resident(&given, "a", LONG, Vec::new())];
    let shared = Arc::new(SharedContext::new(given.options(residents, &[])));
    let id = given.task("a").await;
    let (link, plan) = (RoleLink::new(shared, lane("a"), ""), top());
    let mut task = StructuredMessage::new("", role("a"), MessageKind::TaskAssignment);
    (task.request_id, task.plan_id) = (Some(id.clone()), Some(plan.clone()));
    let update = TaskUpdate::new(&task, CollaborationStatus::Error, "Ended early.".to_owned());
    let command = id.clone();
    let late = move |draft: &mut crate::plan::Draft<'_>| draft.time_out(&command, "not finished");
    let late = given.store.change(&plan, "test", "it is late", late);
    late.await.unwrap();
    link.update_task_status(update.clone()).await.unwrap();
    assert!(!given.volumes.reported(&id).unwrap());
    // The daemon has asked the role to stop, and the role has not seen that yet.
    let command = id.clone();
    let asked = move |draft: &mut crate::plan::Draft<'_>| draft.recalled(&command);
    let asked = given.store.change(&plan, "test", "asked to stop", asked);
    asked.await.unwrap();
    link.update_task_status(update).await.unwrap();
    assert!(!given.volumes.reported(&id).unwrap());
}

#[tokio::test]
async fn start_ends_leftover_check_of_killed_process() {
    let given = Given::new().await;
    let marks = given.volumes.path(Folder::Active);
    let (place, folder) = (marks.clone(), given.root.path().to_owned());
    let left = tokio::spawn(async move {
        let check = CheckConfig {
            name: "long".to_owned(),
            argv: ["sleep", "1000"].map(str::to_owned).to_vec(),
            timeout: Duration::from_secs(1000),
            ..CheckConfig::default()
        };
        let mark = (place.as_path(), MarkKind::Step, "plan-2");
        check_marked(&check, &folder, mark).await
    });
    // Its starter is killed no sooner than the mark names the process: a living one would rename what is looked at.
    let named =
        |name: &str| (name.rsplit('.').next()).is_some_and(|end| end.parse::<u32>().is_ok());
    let names = || std::fs::read_dir(&marks).unwrap().flatten();
    let marked = || names().any(|file| named(&file.file_name().to_string_lossy()));
    given.until("the check runs", marked).await;
    // As the daemon does before the roles of its process start.
    end_left_behind(&marks).await;
    let ended = left.await.unwrap().unwrap();
    assert!(!ended.passed && ended.tail.contains("signal"), "{ended:?}");
}

#[tokio::test]
async fn answer_timeout_pauses_while_role_is_busy() {
    let given = Given::new().await;
    let short = Duration::from_millis(20);
    let busy = CommandId::new("task-busy");
    let text = "---\nid: task-busy\nsession_id: auto\ncommand_type: new\nassignee: coder\n---\nx";
    given.volumes.publish(&busy, text).unwrap();
    given.volumes.claim(&busy).unwrap();
    let lock = given.volumes.claim_lock(&busy);
    std::fs::write(&lock, "").unwrap();
    let running = given.start_a(short, asks("coder"));
    let id = given.task("a").await;
    given.request().await;
    let asked = Instant::now();
    given
        .until("more than that time is over", || {
            asked.elapsed() > 10 * short
        })
        .await;
    assert!(!given.volumes.report(&id).exists());
    std::fs::remove_file(&lock).unwrap();
    let report = given.report(&id).await;
    assert!(report.contains("no answer within"), "{report}");
    running.stop().await;
}

#[tokio::test]
async fn failed_recall_is_retried_later() {
    let given = Given::new().await;
    let running = given.start_a(LONG, asks("coder"));
    let id = given.task("a").await;
    let request = given.request().await;
    given.volumes.claim(&request).unwrap();
    // Nothing can be written where the mark belongs.
    let mark = given.volumes.cancel_mark(&request);
    std::fs::create_dir(&mark).unwrap();
    given.volumes.cancel(&id).unwrap();
    let plan = given.internal("a", &id).await;
    let recalls = async || {
        let read = given.store.read(&plan, |plan, _| {
            (plan.status().clone(), plan.recalls().count())
        });
        read.await.unwrap()
    };
    while recalls().await != (PlanState::Abandoned, 1) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lock = given.volumes.claim_lock(&id);
    assert!(lock.exists(), "it is not done with it");
    std::fs::remove_dir(&mark).unwrap();
    given
        .until("the command is let go of", || !lock.exists())
        .await;
    assert!(mark.is_file());
    assert_eq!(recalls().await, (PlanState::Abandoned, 0));
    running.stop().await;
}

#[tokio::test]
async fn restored_request_blocks_cycle_before_resume() {
    let given = Given::new().await;
    let residents = || {
        vec![
            resident(&given, "a", LONG, vec![asks("b")]),
            resident(&given, "b", LONG, vec![acts("hang", &[])]),
        ]
    };
    let running = given.start(residents(), &[]);
    let id = given.task("a").await;
    let key = format!("role:a:{id}");
    loop {
        if let Some(plan) = given.store.find(&key).await.unwrap()
            && !given.attempts(&plan).await.is_empty()
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.stop().await;
    let shared = SharedContext::new(given.options(residents(), &[]));
    shared.recover().await.unwrap();
    let kept = shared.registry.keep_place(&lane("b"), &role("a"));
    let refused = kept.unwrap_err();
    assert!(
        matches!(refused, RequestRefused::Circular { .. }),
        "{refused}"
    );
}
