//! Runs the example.

#[expect(dead_code, reason = "a test has no use for `main`")]
#[path = "../../examples/role.rs"]
mod role;

#[tokio::test]
async fn two_roles_complete_a_task_together() {
    let log = role::run().await.unwrap();
    insta::assert_snapshot!(log.join("\n"), @r#"
    architect asks coder: write the code of "A health endpoint"
    architect is waiting_for_collaboration
    coder answers `completed`: done: write the code of "A health endpoint"
    coder is idle
    architect reports `completed` for task t1
    architect is idle
    the plan has: done: write the code of "A health endpoint", for A health endpoint
    "#);
}
