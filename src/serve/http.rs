//! The tools as a service for streamable HTTP without sessions: a client does not notice a restart of the server. Who may call
//! is decided before, by the gate of [`crate::serve`]'s callers.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::mcp_server::SharedState;
use super::{MAX_MESSAGE, ServedTools, Server};

/// The one path that is served.
pub const PATH: &str = "/mcp";

/// Answers requests at [`PATH`].
pub type HttpTools = StreamableHttpService<Server, NeverSessionManager>;

impl ServedTools {
    /// Returns the service. It ends with its last copy. A page in a browser may not call, whatever its origin is.
    pub fn into_http(self) -> HttpTools {
        let shared = Arc::new(SharedState::new(self));
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_MESSAGE)
            .disable_allowed_hosts()
            .enforce_origin_validation();
        StreamableHttpService::new(
            move || Ok(Server::new(Arc::clone(&shared), None)),
            Arc::new(NeverSessionManager::default()),
            config,
        )
    }
}
