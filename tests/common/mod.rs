//! Shared helpers of the tests from outside.

pub mod agent;
pub mod browser;
pub mod core;
pub mod disk;
pub mod env;
pub mod git;
pub mod hostile;
pub mod http;
pub mod llm;
pub mod llm_events;
pub mod mcp;
pub mod postgres;
pub mod random;
pub mod vendor;
