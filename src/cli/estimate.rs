//! What a plan may take, said before its first task.

use super::outcomes::plans;
use super::{App, Result};
use crate::agents::CodingAgent;
use crate::plan::{Plan, PlanId};
use crate::view::{PastTasks, agent_of};

/// How many of the newest plans an estimate for the next tasks is made from.
const RECENT: usize = 20;

impl App {
    /// Says what the tasks of a plan may take, by what its agent did here before, or else by a guess if that is wanted; `None`
    /// if there is nothing to say.
    pub async fn expected(&self, plan: &PlanId, lanes: u32, guess: bool) -> Result<Option<String>> {
        let head = |plan: &Plan, _: i64| {
            let options = plan.head().options.as_ref();
            let named = options.and_then(|options| options.agent.clone());
            (plan.head().created_at, agent_of(plan), named)
        };
        let (began, agent, named) = self.read(plan, head).await?;
        let mut past = PastTasks::default();
        for other in plans(self).await?.into_iter().rev().take(RECENT) {
            let agent = agent.clone();
            let add = move |plan: &Plan, _: i64| {
                past.add(plan, &agent, began);
                past
            };
            past = self.read(&other, add).await?;
        }
        let guess = guess && named.as_deref().and_then(CodingAgent::named).is_some();
        let expected = move |plan: &Plan, _| past.expected(plan, lanes, guess);
        self.read(plan, expected).await
    }
}
