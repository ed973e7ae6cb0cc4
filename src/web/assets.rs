//! The files of the page: part of the program, without data, for every visitor. Nothing of a request names a file.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::wire::sha256;

const PAGE: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The path, the type and the content of each file.
const ASSETS: [(&str, &str, &str); 9] = [
    ("/", PAGE, include_str!("assets/index.html")),
    ("/app.js", SCRIPT, include_str!("assets/app.js")),
    ("/app.css", STYLE, include_str!("assets/app.css")),
    ("/live.js", SCRIPT, include_str!("assets/live.js")),
    ("/parts.js", SCRIPT, include_str!("assets/parts.js")),
    ("/plan.js", SCRIPT, include_str!("assets/plan.js")),
    ("/task.js", SCRIPT, include_str!("assets/task.js")),
    ("/graph.js", SCRIPT, include_str!("assets/graph.js")),
    ("/preact.js", SCRIPT, include_str!("assets/preact.js")),
];

/// Returns whether a path is that of a file of the page.
pub fn has(path: &str) -> bool {
    ASSETS.iter().any(|(known, ..)| *known == path)
}

/// Returns the file of a path; 304 if the browser has it.
pub fn answer<B>(request: &Request<B>) -> Response {
    let path = request.uri().path();
    let Some((_, kind, text)) = ASSETS.into_iter().find(|(known, ..)| *known == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = format!("\"{}\"", sha256(text));
    let theirs = request.headers().get(IF_NONE_MATCH);
    // The browser asks each time: a page of an older version must not stay.
    let headers = [(ETAG, tag.as_str()), (CACHE_CONTROL, "no-cache")];
    match theirs.is_some_and(|theirs| theirs.as_bytes() == tag.as_bytes()) {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, [(CONTENT_TYPE, kind)], Body::from(text)).into_response(),
    }
}
