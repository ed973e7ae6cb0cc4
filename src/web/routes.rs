//! Which paths are served. The endpoints that read are here, those that change in [`super::actions`].

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;

use super::{ApiError, MAX_BODY, WebState, actions, events, plans, work};
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
    let missing = async || ApiError::not_found("there is nothing at this address");
    Router::new()
        .nest("/api/v1", api)
        .with_state(state)
        .route_service(PATH, tools)
        .fallback(missing)
}
