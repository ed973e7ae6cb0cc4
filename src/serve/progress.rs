//! Follows a plan for a client that asked for progress: each change is reported until the plan needs its caller.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::time::Instant;

use super::ServedTools;
use crate::tools::{Dialect, ToolAnswer};
use crate::volumes::{READ_AGAIN, StoreChanges};

/// The tool that can be followed.
pub(super) const FOLLOWED: &str = "plan_status";

/// A client that wants to know more calls again.
const LONGEST: Duration = Duration::from_secs(600);

/// Calls the tool until the plan no longer goes on by itself, the client cancels or hears nothing any more, or ten minutes are
/// over; returns the last answer.
pub(super) async fn follow(
    served: &ServedTools,
    context: &RequestContext<RoleServer>,
    token: ProgressToken,
    arguments: Value,
) -> ToolAnswer {
    let mut changes = StoreChanges::of(served.toolbox.store().moved(), &served.volumes);
    let (until, mut reported) = (Instant::now() + LONGEST, None);
    loop {
        let (toolbox, given) = (&served.toolbox, arguments.clone());
        let answer = toolbox.call(Dialect::Control, FOLLOWED, given).await;
        let status = &answer.value["result"];
        if status["goes_on"] != true || Instant::now() >= until {
            return answer;
        }
        let seq = status["seq"].as_i64();
        if seq != reported {
            reported = seq;
            let progress = notification(token.clone(), status);
            if context.peer.notify_progress(progress).await.is_err() {
                return answer;
            }
        }
        tokio::select! {
            () = context.ct.cancelled() => return answer,
            () = changes.wait(READ_AGAIN) => {}
        }
    }
}

/// The number of the change is what always grows; the tasks are in the words.
fn notification(token: ProgressToken, status: &Value) -> ProgressNotificationParam {
    let number = |field: &str| status[field].as_u64().unwrap_or_default();
    let state = status["state"].as_str().unwrap_or_default();
    let (completed, tasks) = (number("completed"), number("tasks"));
    ProgressNotificationParam::new(token, number("seq") as f64)
        .with_message(format!("{state}: {completed} of {tasks} tasks completed"))
}
