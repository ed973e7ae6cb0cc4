//! What the tests give to the core of the product and to its store.

use plan_agent::plan::{AttemptKind, CommandId, NewCommand, Report, ReportStatus, TaskSpec, Time};
use plan_agent::plan_time::Clock;
use plan_agent::store::Store;
use plan_agent::volumes::Volumes;

use super::env::TestEnv;

/// Returns a task that only has a name.
pub fn new_task(name: &str) -> TaskSpec {
    TaskSpec {
        name: name.to_owned(),
        ..TaskSpec::default()
    }
}

/// Returns a command for a new session.
pub fn new_command(id: &str, text: &str) -> NewCommand {
    NewCommand {
        id: CommandId::new(id),
        kind: AttemptKind::New,
        session: None,
        text: text.to_owned(),
    }
}

/// Returns a report of success that cost nothing.
pub fn new_report(name: &str, results: &str, received: Time) -> Report {
    Report {
        results: results.to_owned(),
        hash: name.to_owned(),
        ..Report::new(format!("report-{name}.md"), ReportStatus::Success, received)
    }
}

/// Opens the store of a folder, as another process would.
pub async fn open_store(env: &TestEnv) -> Store {
    let volumes = Volumes::open(&env.path("volumes")).unwrap();
    let (file, clock) = (volumes.database(), Clock::start());
    Store::open(&file, move || clock.now()).await.unwrap()
}

/// Waits for a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}
