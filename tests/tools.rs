//! The tools from outside: by the command line, by the Model Context Protocol over standard input and output and over HTTP.

mod cli;
mod http;
mod mcp;
pub mod together;
