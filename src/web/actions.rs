//! What a person does in the page: each action is one change of a plan, by `web`.

use axum::Router;

use super::state::WebState;

/// Returns the routes that change something.
pub fn routes() -> Router<WebState> {
    Router::new()
}
