//! Which paths are served. The endpoints that read are here, those that change in [`super::actions`].

use axum::extract::{DefaultBodyLimit, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::actions;
use super::api_error::{ApiError, ApiResult};
use super::gate::MAX_BODY;
use super::state::WebState;
use crate::plan::{ArchiveState, DAEMON, ROLE};
use crate::serve::{HttpTools, PATH};
use crate::store::ListedPlan;
use crate::view::ListedView;

/// Returns the tools alone.
pub fn tools(tools: HttpTools) -> Router {
    let missing = async || ApiError::not_found(format!("the tools are served at `{PATH}`"));
    Router::new().route_service(PATH, tools).fallback(missing)
}

/// Returns all that the page needs, and the tools beside it.
pub fn page(state: WebState, tools: HttpTools) -> Router {
    let api = Router::new()
        .route("/plans", get(plans))
        .merge(actions::routes())
        .layer(DefaultBodyLimit::max(MAX_BODY));
    let missing = async || ApiError::not_found("there is nothing at this address");
    Router::new()
        .nest("/api/v1", api)
        .with_state(state)
        .route_service(PATH, tools)
        .fallback(missing)
}

/// Lists the plans, the newest first, with who carries them out.
async fn plans(State(state): State<WebState>) -> ApiResult<Json<Value>> {
    let daemon = state.volumes.running();
    let mut rows = Vec::new();
    for plan in state.store.plans().await? {
        let ListedPlan { head, .. } = &plan;
        if head.archive_state != ArchiveState::Current || head.owner == ROLE {
            continue;
        }
        let carried_out = daemon
            .as_ref()
            .is_some_and(|daemon| daemon.carries_out(&head.id));
        let mut row = json!(ListedView::of(&plan, carried_out));
        // Only a daemon asks.
        let asks = head.owner == DAEMON && !head.status.settled();
        row["questions"] = match asks {
            true => {
                state
                    .store
                    .read(&head.id, |plan, _| plan.open_questions().count())
                    .await?
            }
            false => 0,
        }
        .into();
        rows.push(row);
    }
    let daemon = daemon.map(|daemon| {
        json!({"pid": daemon.pid, "started_at": daemon.started_at, "version": daemon.version})
    });
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": state.started(),
        "read_only": state.read_only,
        "daemon": daemon,
        "plans": rows,
    })))
}
