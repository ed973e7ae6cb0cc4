//! The page in a browser, and the tools beside it: one server on this machine for what is shown of plans, what a person does
//! there, and `/mcp`. A view and nothing more: it carries nothing out, and its end changes nothing. *Every* request passes the one
//! gate of [`Gate`] before any other code sees it.

mod actions;
mod api_error;
mod assets;
mod bounded_answers;
mod connections;
mod events;
mod gate;
mod plans;
mod state;
mod work;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;

pub use connections::serve;
pub use gate::{Gate, PublicUrl};
pub use state::{Parts, WebState};

use self::api_error::{Answer, ApiError, ApiResult};
use self::bounded_answers::{MOST, clip_texts, fit, prefix, size, take_rows};
use self::gate::{MAX_BODY, Pass};
use self::plans::{TASKS_OF_A_CHANGE, Wanted, no_task, task_id};
use self::state::Web;
use crate::serve::{HttpTools, PATH};

/// Returns the tools alone.
pub fn tools(tools: HttpTools) -> Router {
    let missing = async || ApiError::not_found(format!("the tools are served at `{PATH}`"));
    Router::new().route_service(PATH, tools).fallback(missing)
}

/// Returns all that the page needs, and the tools beside it.
pub fn page(state: WebState, tools: HttpTools) -> Router {
    let api = Router::new()
        .route("/plans", get(plans::list))
        .route("/plans/{id}", get(plans::show))
        .route("/plans/{id}/plan", get(plans::plan_text))
        .route("/plans/{id}/tasks", get(plans::tasks))
        .route("/plans/{id}/tasks/{n}", get(plans::task))
        .route("/plans/{id}/tasks/{n}/diff", get(work::diff))
        .route("/plans/{id}/tasks/{n}/output", get(work::output))
        .route("/plans/{id}/log", get(plans::log))
        .route("/plans/{id}/events", get(events::of_plan))
        .route("/questions", get(plans::questions))
        .route("/workers", get(work::workers))
        .route("/events", get(events::of_all))
        .merge(actions::routes())
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(DefaultBodyLimit::max(MAX_BODY));
    Router::new()
        .nest("/api/v1", api)
        .with_state(state)
        .route_service(PATH, tools)
        .fallback(async || ApiError::not_found("there is nothing at this address"))
}
