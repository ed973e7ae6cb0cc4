//! Every test from outside, in one binary.

mod cli;
mod common;
mod llm;
