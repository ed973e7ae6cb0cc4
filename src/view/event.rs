//! What happened to a plan, for programs: a line of `log --json` and of `run --json`.

use serde::Serialize;
use serde_json::Value;

use crate::plan::{DAEMON, Event, PlanId};
use crate::store::Change;
use crate::wire::time_text;

/// An event with where it stands in the plan's history: `{"seq","at","plan","by","why","event",…}` with its own fields.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct EventView(Value);

impl EventView {
    /// Returns the view of an event of a change.
    pub fn of(change: &Change, plan: &PlanId, event: &Event) -> Self {
        Self::with(serde_json::json!(event), change, plan)
    }

    /// Returns the views of all events of a change.
    pub fn all(change: &Change, plan: &PlanId) -> Vec<Self> {
        let events = change.delta.events.iter();
        events.map(|event| Self::of(change, plan, event)).collect()
    }

    /// As [`EventView::all`]; a change without events that the daemon did not make is `changed`.
    pub fn logged(change: &Change, plan: &PlanId) -> Vec<Self> {
        let mut events = Self::all(change, plan);
        if events.is_empty() && change.by != DAEMON {
            let changed = serde_json::json!({ "event": "changed" });
            events.push(Self::with(changed, change, plan));
        }
        events
    }

    fn with(mut value: Value, change: &Change, plan: &PlanId) -> Self {
        value["seq"] = change.seq.into();
        value["at"] = time_text(change.at).into();
        value["plan"] = plan.as_str().into();
        value["why"] = change.why.as_str().into();
        // An answer names its author itself: the daemon applies what a person wrote into a file.
        if value.get("by").is_none() {
            value["by"] = change.by.as_str().into();
        }
        Self(value)
    }
}
