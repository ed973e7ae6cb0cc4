//! The tools from outside: by the command line, by the Model Context Protocol over standard input and output and over HTTP.

mod agentscope;
mod bounds;
mod cli;
pub mod crowd;
mod differential;
mod http;
mod mcp;
mod reference;
mod together;
