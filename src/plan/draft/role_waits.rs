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

    /// Records that no role waits for a request any more, and how the wait ended. Changes nothing where no role waits.
    pub fn end_wait(&mut self, request: &CommandId, how: RoleRequestEnd) {
        let waits = |wait: &RoleRequest| wait.request == *request;
        let found = self.plan.open_attempts().find_map(|attempt| {
            let at = attempt.waits.iter().position(waits)?;
            Some((attempt.clone(), at))
        });
        let Some((mut attempt, at)) = found else {
            return;
        };
        let wait = attempt.waits.remove(at);
        self.log(ended(&attempt, wait, how));
        self.insert_attempt(attempt);
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
