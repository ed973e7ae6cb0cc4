//! Every test from outside, in one binary.

mod common;
mod llm;
