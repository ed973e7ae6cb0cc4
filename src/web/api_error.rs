//! How a request fails: a status, `{"error", "hint"}`, and after a conflict the present `seq`.

use std::fmt::Display;

use axum::Json;
use axum::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::plan::Refusal;
use crate::store::StoreError;
use crate::wire::{clip, in_plain_words};

/// Characters of a message: what it names may come from the request.
const MESSAGE: usize = 2_000;

/// What an endpoint answers.
pub type ApiResult<T> = Result<T, ApiError>;

/// What most addresses answer.
pub type Answer = ApiResult<Json<Value>>;

/// Why a request was not done.
#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    error: String,
    hint: Option<String>,
    seq: Option<i64>,
}

impl ApiError {
    pub fn new(status: StatusCode, error: impl Display) -> Self {
        Self {
            status,
            error: clip(&error.to_string(), MESSAGE),
            hint: None,
            seq: None,
        }
    }

    /// What the request names is not there.
    pub fn not_found(error: impl Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// The request makes no sense.
    pub fn bad_request(error: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, in_plain_words(&error.to_string()))
    }

    /// The plan, or what carries it out, does not allow it now.
    pub fn conflict(error: impl Display) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }

    /// The method is not one of this address.
    pub fn wrong_method() -> Self {
        let error = "this method is not served here";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, error)
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the number of the plan's last change.
    #[must_use]
    pub fn seq(mut self, seq: i64) -> Self {
        self.seq = Some(seq);
        self
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        use Refusal::{Deleted, KeyUsed, Moved, UnknownQuestion, UnknownTask};
        let status = match &error {
            StoreError::UnknownPlan(_)
            | StoreError::Refused(Deleted | UnknownQuestion(_) | UnknownTask(_)) => {
                StatusCode::NOT_FOUND
            }
            StoreError::Refused(KeyUsed) => StatusCode::UNPROCESSABLE_ENTITY,
            StoreError::Refused(_) | StoreError::PlanTaken(_) | StoreError::Overtaken(_) => {
                StatusCode::CONFLICT
            }
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let seq = match error {
            StoreError::Refused(Moved(seq)) => Some(seq),
            _ => None,
        };
        Self {
            seq,
            ..Self::new(status, error)
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": self.error });
        if let Some(hint) = self.hint {
            body["hint"] = hint.into();
        }
        if let Some(seq) = self.seq {
            body["seq"] = seq.into();
        }
        let mut response = (self.status, Json(body)).into_response();
        let header = match self.status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, POST")),
            StatusCode::TOO_MANY_REQUESTS => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = header {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }
}
