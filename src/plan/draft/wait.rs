//! Operations on what is said of an attempt while roles are at work on it: who of them waits for whom. The requests
//! themselves are attempts of internal plans; a wait says of one that it is not answered yet.

use super::{Draft, Refusal};
use crate::plan::event::Event;
use crate::plan::model::{Attempt, AttemptState, CommandId, Wait, WaitEnd};

impl Draft<'_> {
    /// Notes that a role waits for another one, so that an attempt gets on. The same again changes nothing. It ends with the
    /// attempt, or by [`Self::end_wait`].
    ///
    /// # Errors
    /// There is no such command, or nobody is at work on it any more.
    pub fn begin_wait(&mut self, id: &CommandId, wait: Wait) -> Result<(), Refusal> {
        let mut attempt = self.attempt(id)?;
        if attempt.state != AttemptState::Open {
            return Err(Refusal::NotAwaited(id.clone()));
        }
        if attempt
            .waits
            .iter()
            .any(|known| known.request == wait.request)
        {
            return Ok(());
        }
        self.tell(Event::Requested {
            task: attempt.task,
            command: id.clone(),
            role: wait.role.clone(),
            on: wait.on.clone(),
            request: wait.request.clone(),
            what: wait.what.clone(),
        });
        attempt.waits.push(wait);
        self.put_attempt(attempt);
        Ok(())
    }

    /// Notes that nobody waits for what a request asked for any more, and how that ended. Where nobody does, nothing changes.
    pub fn end_wait(&mut self, request: &CommandId, how: WaitEnd) {
        let waits = |wait: &Wait| wait.request == *request;
        let found = self.plan.open_attempts().find_map(|attempt| {
            let at = attempt.waits.iter().position(waits)?;
            Some((attempt.clone(), at))
        });
        let Some((mut attempt, at)) = found else {
            return;
        };
        let wait = attempt.waits.remove(at);
        self.tell(ended(&attempt, wait, how));
        self.put_attempt(attempt);
    }
}

/// Returns what is told of a wait that ends.
pub(super) fn ended(attempt: &Attempt, wait: Wait, how: WaitEnd) -> Event {
    Event::RequestEnded {
        task: attempt.task,
        command: attempt.id.clone(),
        role: wait.role,
        on: wait.on,
        request: wait.request,
        how,
    }
}
