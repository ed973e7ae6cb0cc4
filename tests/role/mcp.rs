//! Tools: those of the plan dialects, and those of servers.

use std::path::Path;

use plan_agent::config::{Config, McpConfig};
use plan_agent::role::{McpError, McpServer, plan_tools};
use plan_agent::tools::Toolbox;
use rustix::process::{Pid, Signal, kill_process};

use super::*;

async fn started(argv: &[&str], folder: &Path, timeout: Duration) -> Result<Abilities, McpError> {
    let config = McpConfig {
        command: argv.iter().map(ToString::to_string).collect(),
        env: Vec::new(),
        timeout,
    };
    McpServer::start("docs", &config, folder, None).await
}

/// Starts our own server, which writes its pid before it begins.
async fn ours(folder: &Path, timeout: Duration) -> Abilities {
    let script = format!(
        "echo $$ > pid; exec {} mcp --dialect tasks",
        env!("CARGO_BIN_EXE_plan-agent")
    );
    let argv = ["sh", "-c", &script];
    started(&argv, folder, timeout).await.unwrap()
}

#[tokio::test]
async fn role_uses_plan_tools() {
    let mut scene = Scene::new().await;
    let toolbox = Toolbox::new(scene.store.clone(), &Config::default(), "reviewer");
    scene.tools = plan_tools(&toolbox);
    let scene = scene.with_steps(vec![
        uses("plan.TaskCreate", json!({"subject": "Mend it"})),
        uses(
            "plan.TaskUpdate",
            json!({"taskId": "9", "status": "completed"}),
        ),
    ]);
    scene.given("Review it").await;
    let result = scene.failure();
    begins(&result, "Step 2, Use plan.TaskUpdate, failed: {");
    let plan = scene.plan().await;
    has(
        plan.tasks().next().unwrap().result.as_deref().unwrap(),
        "Mend it",
    );
    // The plan of the tools is not the internal plan.
    let current = scene.store.current("tasks", 9).await.unwrap();
    assert_eq!(current.len(), 1);
}

#[tokio::test]
async fn role_restarts_ended_mcp_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut scene = Scene::new().await;
    scene.tools = ours(folder.path(), LONG).await;
    let names: Vec<&str> = scene.tools.names().collect();
    assert_eq!(
        names,
        [
            "docs.TaskCreate",
            "docs.TaskGet",
            "docs.TaskList",
            "docs.TaskUpdate"
        ]
    );
    let only = scene.tools.only(&["docs.TaskCreate".to_owned()]).unwrap();
    assert_eq!(only.names().collect::<Vec<_>>(), ["docs.TaskCreate"]);
    let missing = scene
        .tools
        .only(&["docs.TaskCreat".to_owned(), "plan.x".to_owned()]);
    assert_eq!(
        missing.unwrap_err(),
        [
            "`docs.TaskCreat` is not registered; is `docs.TaskCreate` meant?",
            "`plan.x` is not registered"
        ]
    );
    let scene = scene.with_steps(vec![uses(
        "docs.TaskCreate",
        json!({"subject": "{{context}}"}),
    )]);
    let mut role = scene.given("Review it").await;
    let (status, result) = scene.result();
    assert!(
        status == COMPLETED && result.contains("in a hurry"),
        "{result}"
    );
    // After a kill it is started again for the next call.
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let mut again = None;
    for number in 2..60 {
        gets(
            &mut role,
            task_named(&format!("task-{number}"), "Review it"),
        )
        .await;
        // The first call may meet the end of the previous one.
        again = scene.office.updates().pop();
        if again
            .as_ref()
            .is_some_and(|update| update.status == COMPLETED)
        {
            break;
        }
    }
    let again = again.unwrap();
    assert_eq!(again.status, COMPLETED, "{}", again.result);
}

#[tokio::test]
async fn hanging_mcp_server_costs_one_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let mut scene = Scene::new().await;
    scene.tools = ours(folder.path(), Duration::from_secs(5)).await;
    let scene = scene.with_steps(vec![uses(
        "docs.TaskCreate",
        json!({"subject": "{{context}}"}),
    )]);
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut role = scene.given("Review it").await;
    let result = scene.failure();
    has(&result, "did not answer within 5s");
    // The role does not wait for it again: another one is started.
    gets(&mut role, task_named("task-2", "Review it")).await;
    let again = scene.office.updates().pop().unwrap();
    assert_eq!(again.status, COMPLETED, "{}", again.result);
}

#[tokio::test]
async fn too_large_mcp_answer_fails_step_with_limit() {
    // It has one tool, whose answer is a line of five megabytes.
    let script = r#"
reply() { id=$(printf %s "$asked" | sed 's/.*"id":\([0-9]*\).*/\1/'); echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
while read -r asked; do case "$asked" in
*'"initialize"'*) reply '{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}';;
*'"tools/list"'*) reply '{"tools":[{"name":"all","inputSchema":{"type":"object"}}]}';;
*'"tools/call"'*) head -c 5000000 /dev/zero | tr '\0' x; echo;;
esac; done"#;
    let folder = tempfile::tempdir().unwrap();
    let mut scene = Scene::new().await;
    let argv = ["sh", "-c", script];
    scene.tools = started(&argv, folder.path(), LONG).await.unwrap();
    let scene = scene.with_steps(vec![uses("docs.all", json!({}))]);
    scene.given("Review it").await;
    let large = "the MCP server `docs` gave an answer that is too large: more than 4194304 bytes";
    has(scene.failure(), large);
}

#[tokio::test]
async fn faulty_mcp_server_start_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let short = Duration::from_millis(300);
    for (script, timeout, said) in [
        ("echo 'no token' >&2; exit 3", LONG, "no token"),
        ("exec sleep 1000", short, "did not answer within 300ms"),
        (
            "echo hello; exec sleep 1000",
            short,
            "did not answer within 300ms",
        ),
        (
            "exec cat /dev/zero",
            LONG,
            "gave an answer that is too large: more than 4194304 bytes",
        ),
    ] {
        row(script);
        let argv = ["sh", "-c", script];
        let error = started(&argv, folder.path(), timeout).await.unwrap_err();
        has(error.to_string(), said);
    }
    let missing = started(&["no-such-server"], folder.path(), LONG).await;
    let error = missing.unwrap_err().to_string();
    has(&error, "cannot be started: cannot start `no-such-server`");
    let nowhere = Path::new("/no/such/folder");
    let error = started(&["true"], nowhere, LONG).await.unwrap_err();
    assert!(matches!(error, McpError::Start { .. }), "{error}");
}

#[tokio::test]
async fn mcp_server_gets_only_listed_variables() {
    let folder = tempfile::tempdir().unwrap();
    let script = "env > seen";
    let argv = ["sh", "-c", script];
    started(&argv, folder.path(), LONG).await.unwrap_err();
    let seen = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    has(&seen, "PATH=");
    lacks(&seen, "CARGO");
}
