//! How a device without the token gets it: for a code that a person typed there.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api_error::{ApiError, ApiResult};
use super::state::WebState;
use super::work::blocking;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    code: String,
}

/// Returns the token for the code. What is wrong with a code is not said: it would help who guesses.
pub async fn pair(
    State(state): State<WebState>,
    shown: Result<Json<Shown>, JsonRejection>,
) -> ApiResult<Json<Value>> {
    let shown = shown.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
    let (file, now) = (state.token.clone(), std::time::SystemTime::now());
    let redeem = move || match file.pairing_code().redeem(&shown.code, now)? {
        true => file.token().map(Some),
        false => Ok(None),
    };
    let token = blocking(redeem).await?.unwrap_or_else(|error| {
        tracing::warn!(%error, "a code was not looked at");
        None
    });
    let token = token.ok_or_else(|| {
        let message = "this code is not good: wrong, used, or older than five minutes";
        let hint = format!("`{} web --pair` makes another", state.program);
        ApiError::new(StatusCode::FORBIDDEN, message).hint(hint)
    })?;
    tracing::info!("a device got the token for a code");
    Ok(Json(json!({ "token": token })))
}
