//! The tools served to agents by the Model Context Protocol, over standard input and output or over HTTP on this machine. This
//! module decides nothing: a call goes to the [`crate::tools::Toolbox`] as it came, and the state of a connection ends with it.
//! Only the store holds plans, so any number of servers may serve the same ones.

mod http;
mod line_transport;
mod mcp_server;
mod next_step_text;
mod notifications;
mod progress;

pub use http::{HttpTools, PATH};
pub use mcp_server::{MAX_MESSAGE, ServedTools, Server};
