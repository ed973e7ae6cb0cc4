//! plan-agent: a daemon that has a language model plan a goal, hands the tasks to coding agents as files, judges every
//! report, and loses nothing on the way. Modules in reading order; each depends only on those above it.

pub mod plan;

pub mod wire;

pub mod config;

pub mod clock;

pub mod store;

pub mod volumes;

pub mod exec;

pub mod agents;

pub mod llm;

pub mod worker;

pub mod daemon;

pub mod cli;
