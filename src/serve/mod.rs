//! The tools served to agents by the Model Context Protocol, over standard input and output or over HTTP on this machine.
//! Nothing is decided here: a call goes to the [`crate::tools::Toolbox`] as it came, and what is known of a connection is
//! gone with it. Plans live in the store alone, so that any number of servers may serve the same ones.

mod hint;
mod http;
mod lines;
mod mcp;
mod news;

pub use http::PATH;
pub use mcp::{Served, Server};
