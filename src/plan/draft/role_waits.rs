//! Operations on the waits of an attempt: which role waits for which while they work on it. The requests themselves are
//! attempts of internal plans; a wait says that a request is not answered yet.

use super::*;

impl Draft<'_> {
    /// Records that a role which works on an attempt waits for another role. Repeating the same call changes nothing. The wait
    /// ends with the attempt, or by [`Self::end_wait`].
    ///
    /// # Errors
    /// There is no such command, or no agent works on it any more.
    pub fn begin_wait(&mut self, id: &CommandId, wait: RoleRequest) -> Result {
        let mut attempt = self.attempt_if(id, |attempt| attempt.state == AttemptState::Open)?;
        let mut known = attempt.waits.iter();
        if known.any(|known| known.request == wait.request) {
            return Ok(());
        }
        self.log(Event::Requested {
            task: attempt.task,
            command: id.clone(),
            role: wait.role.clone(),
            on: wait.on.clone(),
            request: wait.request.clone(),
            what: wait.what.clone(),
        });
        attempt.waits.push(wait);
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Records until when the usage limit of the role that is asked holds a request up: no timeout counts this time. Changes nothing
    /// where no role waits for it, or that is known.
    pub fn limit_wait(&mut self, request: &CommandId, until: Time) {
        let Some((mut attempt, at)) = self.waiting(request) else {
            return;
        };
        let wait = &mut attempt.waits[at];
        if wait.limited_until.replace(until) != Some(until) {
            let (task, until) = (attempt.task, until.0);
            self.log(Event::Parked { task, until });
            self.insert_attempt(attempt);
        }
    }

    /// Records that no role waits for a request any more, and how the wait ended. Changes nothing where no role waits.
    pub fn end_wait(&mut self, request: &CommandId, how: RoleRequestEnd) {
        let Some((mut attempt, at)) = self.waiting(request) else {
            return;
        };
        let wait = attempt.waits.remove(at);
        if wait.limited_until.is_some() {
            let took = self.now.since(wait.since);
            attempt.with_person = attempt.with_person.saturating_add(took);
        }
        self.log(ended(&attempt, wait, how));
        self.insert_attempt(attempt);
    }

    /// Returns the attempt that waits for a request, and which of its waits that is.
    fn waiting(&self, request: &CommandId) -> Option<(Attempt, usize)> {
        let waits = |wait: &RoleRequest| wait.request == *request;
        self.plan.open_attempts().find_map(|attempt| {
            let at = attempt.waits.iter().position(waits)?;
            Some((attempt.clone(), at))
        })
    }
}

/// Returns the event for a wait that ends.
pub(super) fn ended(attempt: &Attempt, wait: RoleRequest, how: RoleRequestEnd) -> Event {
    Event::RequestEnded {
        task: attempt.task,
        command: attempt.id.clone(),
        role: wait.role,
        on: wait.on,
        request: wait.request,
        how,
    }
}
