//! The two streams of events. What is sent is read from the log in the store, so it is exact after any pause, whichever process
//! made the changes: a wake-up only means "read again".

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::plans::change;
use super::{ApiResult, TASKS_OF_A_CHANGE, Wanted, Web, WebState, fit};
use crate::exec::read_from;
use crate::plan::{CommandId, Plan, PlanId, TaskId};
use crate::store::{ListedPlan, StoreError, TalliedPlan};
use crate::view::StateWord;
use crate::volumes::{READ_AGAIN, StoreChanges};

/// Events that wait for a slow reader.
const QUEUE: usize = 256;

/// Changes that are read together.
const PAGE: usize = 100;

/// A comment, so that both sides know that the other one is there.
const SIGN: Duration = Duration::from_secs(15);

/// How long a reader that takes nothing keeps its stream.
const STUCK: Duration = Duration::from_secs(30);

/// How often the lengths of agents' outputs are read while an agent works.
const OUTPUT: Duration = Duration::from_millis(250);

/// The reader has gone, or is too slow.
struct Ended;

/// What waits for a reader.
struct Outbox {
    queue: mpsc::Sender<Event>,
    _place: OwnedSemaphorePermit,
}

/// Streams what happens to one plan after the change that the reader saw last; without one, from now on.
pub async fn of_plan(
    State(state): Web,
    Path(id): Path<PlanId>,
    wanted: Wanted,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let seen = headers.get("last-event-id");
    let seen = seen.and_then(|id| id.to_str().ok()?.parse().ok());
    let seen = seen.or(wanted.after);
    let changes = StoreChanges::of(state.store.moved(), &state.volumes);
    let seq = state.store.read(&id, |_, seq| seq).await?;
    let (outbox, response) = open(&state)?;
    tokio::spawn(async move { follow_plan(&state, &id, (seen, seq), changes, &outbox).await });
    Ok(response)
}

/// Streams the state of every plan, at first and whenever it changes.
pub async fn of_all(State(state): Web) -> ApiResult<Response> {
    let changes = StoreChanges::of(state.store.moved(), &state.volumes);
    let (outbox, response) = open(&state)?;
    tokio::spawn(async move { follow_all(&state, changes, &outbox).await });
    Ok(response)
}

async fn follow_plan(
    state: &WebState,
    id: &PlanId,
    (seen, began): (Option<i64>, i64),
    mut changes: StoreChanges,
    outbox: &Outbox,
) -> Result<(), Ended> {
    let hello = event("hello", &state.hello(began));
    outbox.send(hello, true).await?;
    let mut seq = seen.unwrap_or(began);
    if seq > began || seq < 0 {
        // The log is another one than the reader saw: an older copy of the store was put back.
        outbox.send(resync(), true).await?;
        seq = began;
    }
    let mut lengths = HashMap::new();
    loop {
        while let page = state.store.since(id, seq, PAGE).await?
            && let Some(last) = page.last()
        {
            for one in &page {
                let row = fit(change(one));
                let many = row["tasks"].as_array().map_or(0, Vec::len) == TASKS_OF_A_CHANGE;
                let changed = event("change", &row).id(one.seq.to_string());
                outbox.send(changed, one.seq <= began).await?;
                if many {
                    outbox.send(resync(), one.seq <= began).await?;
                }
            }
            seq = last.seq;
        }
        let works = outputs(state, id, &mut lengths, outbox).await?;
        let most = if works { OUTPUT } else { READ_AGAIN };
        outbox.wait(&mut changes, most).await?;
    }
}

/// Says which outputs have grown; returns whether an agent is at work.
async fn outputs(
    state: &WebState,
    id: &PlanId,
    lengths: &mut HashMap<CommandId, u64>,
    outbox: &Outbox,
) -> Result<bool, Ended> {
    let open = |plan: &Plan, _| {
        let open = plan.awaited_attempts();
        open.filter(|attempt| attempt.claimed.is_some())
            .map(|attempt| (attempt.id.clone(), attempt.task, attempt.number))
            .collect()
    };
    let open: Vec<(CommandId, TaskId, u32)> = state.store.read(id, open).await?;
    lengths.retain(|command, _| open.iter().any(|(open, ..)| open == command));
    for (command, task, attempt) in &open {
        let (length, _) = read_from(&state.volumes.log(command, "out"), 0, 0);
        let before = lengths.insert(command.clone(), length).unwrap_or(0);
        if length > before {
            let grown = json!({"task": task, "attempt": attempt, "from": before, "len": length});
            outbox.send(event("output", &grown), false).await?;
        }
    }
    Ok(!open.is_empty())
}

async fn follow_all(
    state: &WebState,
    mut changes: StoreChanges,
    outbox: &Outbox,
) -> Result<(), Ended> {
    outbox.send(event("hello", &state.hello(0)), true).await?;
    let mut known: HashMap<PlanId, Value> = HashMap::new();
    let mut first = true;
    loop {
        let daemon = state.volumes.running();
        for TalliedPlan { plan, tally } in state.store.tallied(|_| true).await? {
            let ListedPlan { head, seq } = &plan;
            let carried_out = (daemon.as_ref()).is_some_and(|daemon| daemon.carries_out(&head.id));
            let listed = head.is_listed();
            if !listed && !known.contains_key(&head.id) {
                continue;
            }
            let row = json!({
                "plan": head.id,
                "seq": seq,
                "state": StateWord::of_plan(head, carried_out),
                "listed": listed,
                "tasks": tally.tasks,
                "completed": tally.completed,
                "skipped": tally.skipped,
                "questions": tally.questions,
            });
            if known.get(&head.id) != Some(&row) {
                outbox.send(event("head", &row), first).await?;
                known.insert(head.id.clone(), row);
            }
        }
        first = false;
        outbox.wait(&mut changes, READ_AGAIN).await?;
    }
}

/// Makes a queue and the answer that reads it.
fn open(state: &WebState) -> ApiResult<(Outbox, Response)> {
    let (queue, mut reader) = mpsc::channel(QUEUE);
    let outbox = Outbox {
        queue,
        _place: state.stream()?,
    };
    let events = stream::poll_fn(move |context| {
        let next = reader.poll_recv(context);
        next.map(|event| event.map(Ok::<_, Infallible>))
    });
    let response = Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN));
    Ok((outbox, response.into_response()))
}

fn resync() -> Event {
    event("resync", &json!({}))
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

impl Outbox {
    /// Puts an event into the queue. Where it is full, an event of the past waits; one of now ends the stream, after the word that
    /// the reader must fetch everything anew.
    async fn send(&self, event: Event, past: bool) -> Result<(), Ended> {
        let (waiting, end) = match self.queue.try_send(event) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(Ended),
            Err(TrySendError::Full(event)) if past => (event, false),
            Err(TrySendError::Full(_)) => (resync(), true),
        };
        match timeout(STUCK, self.queue.send(waiting)).await {
            Ok(Ok(())) if !end => Ok(()),
            _ => Err(Ended),
        }
    }

    /// Waits for a change of the store, at most so long.
    async fn wait(&self, changes: &mut StoreChanges, most: Duration) -> Result<(), Ended> {
        tokio::select! {
            () = self.queue.closed() => Err(Ended),
            () = changes.wait(most) => Ok(()),
        }
    }
}

/// The reader connects again, and gets what it missed.
impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        tracing::debug!(%error, "a stream of events ends");
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_reader_is_asked_to_fetch_anew() {
        let (queue, mut reader) = mpsc::channel(QUEUE);
        let places = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
        let outbox = Outbox {
            queue,
            _place: places.try_acquire_owned().unwrap(),
        };
        for _ in 0..QUEUE {
            assert!(
                outbox
                    .send(event("change", &json!({})), false)
                    .await
                    .is_ok()
            );
        }
        let sending = async move {
            let late = outbox.send(event("change", &json!({})), false);
            late.await.is_err()
        };
        let reading = async {
            let mut seen = Vec::new();
            while let Some(event) = reader.recv().await {
                seen.push(format!("{event:?}"));
            }
            seen
        };
        // In this order: the queue is still full when the last event comes.
        let (ended, seen) = tokio::join!(biased; sending, reading);
        assert!(ended, "the stream ends");
        assert_eq!(seen.len(), QUEUE + 1);
        assert!(seen.last().unwrap().contains("resync"), "{seen:?}");
    }
}
