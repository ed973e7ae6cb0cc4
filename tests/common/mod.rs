//! What the tests from outside share.

pub mod env;
pub mod llm;
