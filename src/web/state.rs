//! What the endpoints work with.

use std::ops::Deref;
use std::sync::Arc;

use crate::config::Config;
use crate::plan_time::Clock;
use crate::store::Store;
use crate::view::ProgramName;
use crate::volumes::Volumes;
use crate::wire::text::time_text;

/// The parts of the program that the page stands on.
#[derive(Debug)]
pub struct Parts {
    pub store: Store,
    pub volumes: Volumes,
    pub config: Config,
    pub clock: Clock,
    /// What a person types to call this program here.
    pub program: ProgramName,
    /// The folder in which agents work for a new goal; or why no plan can be made of one, and the way out.
    pub goals: Result<String, [String; 2]>,
    /// Nothing may be changed from the page.
    pub read_only: bool,
}

/// The state of the server; copies share it.
#[derive(Clone, Debug)]
pub struct WebState(Arc<Shared>);

/// What all requests share.
#[derive(Debug)]
pub struct Shared {
    pub parts: Parts,
    /// When the server began: it tells one run of it from the next.
    pub started: String,
}

impl WebState {
    pub fn new(parts: Parts) -> Self {
        let started = time_text(parts.clock.now());
        Self(Arc::new(Shared { parts, started }))
    }

    /// Returns when the server began.
    pub fn started(&self) -> &str {
        &self.0.started
    }
}

impl Deref for WebState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}
