//! plan-agent: a daemon that has a language model plan a goal, gives the tasks to coding agents as files, judges every report,
//! and loses nothing on the way.
//!
//! The modules below stand in reading order, and each names only those above it; a test reads the sources and enforces this.
//! [`plan`] and [`wire`] are pure: time, ids and text come in as arguments. [`store::Store::change`] is the only way to change
//! a plan, [`plan::Draft`] the only type that does, [`plan::due()`] says what should be in progress, and [`daemon::run`] brings
//! that about. `ARCHITECTURE.md` says what is on the disk at each moment.

pub mod plan;

pub mod wire;

pub mod bounded_read;

pub mod own_files;

pub mod config;

pub mod plan_time;

pub mod processes;

pub mod foreign_files;

pub mod trust;

pub mod store;

pub mod volumes;

pub mod exec;

pub mod view;

pub mod steering;

pub mod agents;

pub mod llm;

pub mod tools;

pub mod role;

pub mod worker;

pub mod relay;

pub mod daemon;

pub mod serve;

pub mod web;

pub mod cli;
