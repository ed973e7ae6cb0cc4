//! Every test from outside, in one binary.

#![expect(
    clippy::unwrap_used,
    reason = "what cannot be unwrapped fails the test that needs it"
)]

mod agents;
mod browser;
mod cli;
mod coding;
mod common;
mod crash;
mod layers;
mod llm;
mod role;
mod rules;
mod run;
mod screen;
mod store;
mod tools;
mod web;
