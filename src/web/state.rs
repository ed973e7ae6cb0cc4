//! What the endpoints work with.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::{ApiError, ApiResult};
use crate::config::Config;
use crate::plan::{Plan, PlanId};
use crate::plan_time::Clock;
use crate::steering::GoalSettings;
use crate::store::Store;
use crate::view::ProgramName;
use crate::volumes::{TokenFile, Volumes};
use crate::wire::{Problem, time_text};

/// Simultaneous streams of events: two for each open page.
const STREAMS: usize = 8;

/// Diffs and earlier plans that are made simultaneously; more wait. Each may take a processor and much memory.
const LARGE: usize = 2;

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
    pub goals: Result<GoalSettings, Problem>,
    /// What a device gets that shows a code.
    pub token: TokenFile,
    /// Nothing may be changed from the page.
    pub read_only: bool,
}

/// The state of the server, as endpoints take it.
pub type Web = State<WebState>;

/// The state of the server; copies share it.
#[derive(Clone, Debug)]
pub struct WebState {
    parts: Arc<Parts>,
    /// When the server began: it tells one run of it from the next.
    pub started: Arc<str>,
    streams: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl WebState {
    pub fn new(parts: Parts) -> Self {
        Self {
            started: time_text(parts.clock.now()).into(),
            parts: Arc::new(parts),
            streams: Arc::new(Semaphore::new(STREAMS)),
            large: Arc::new(Semaphore::new(LARGE)),
        }
    }

    /// Returns the first event of a stream.
    pub fn hello(&self, seq: i64) -> Value {
        json!({"version": env!("CARGO_PKG_VERSION"), "started": *self.started, "seq": seq})
    }

    /// Returns the place of a stream of events.
    ///
    /// # Errors
    /// All are in use.
    pub fn stream(&self) -> ApiResult<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let message = format!("{STREAMS} streams of events are open already");
            let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message);
            error.hint("close another tab with the page")
        })
    }

    /// Waits for a place among those whose answers are much work.
    pub async fn large(&self) -> SemaphorePermit<'_> {
        let place = self.large.acquire().await;
        place.expect("the places are never closed")
    }

    /// Returns a plan as it was after a change.
    ///
    /// # Errors
    /// There is no such plan or change, or it cannot be read.
    pub async fn plan_at(&self, id: &PlanId, at: i64) -> ApiResult<Plan> {
        let last = self.store.read(id, |_, seq| seq).await?;
        if !(1..=last).contains(&at) {
            let error = ApiError::not_found(format!("plan `{id}` has no change `{at}`"));
            return Err(error.hint(format!("the last one is {last}")).seq(last));
        }
        let _place = self.large().await;
        Ok(self.store.at(id, at).await?)
    }
}

impl Deref for WebState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}
