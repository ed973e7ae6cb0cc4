//! One lane of a role in the process: takes one command at a time, hands it to the role, and waits with it for other roles.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::lane_registry::RoleWait;
use super::request_timeout::{RequestTimeout, hold, left_of};
use super::role_link::{RoleLink, message_of};
use super::{InProcessRole, Lane, RequestWait, SharedContext};
use crate::plan::{AttemptState, CommandId, Plan, PlanId, Time};
use crate::plan_time::wall;
use crate::role::{
    AgentBaseRole, CollaborationStatus, MessageKind, RequestId, Role, RoleError, RoleId, StepDoes,
    StructuredMessage, TaskUpdate, rested, rests,
};
use crate::store::StoreError;
use crate::wire::CommandFile;
use crate::wire::command_file::sections;
use crate::worker::worker_loop::{LONGEST_PAUSE, chain};
use crate::worker::{Claim, Doer, Finished, HeartbeatSource, Result, RunVitals, WorkStop, Worker};

/// Faults after which a role has failed at something, but for those that pass by themselves.
const MOST_FAULTS: u32 = 3;
/// The pause after the first fault.
const PAUSE: Duration = Duration::from_millis(500);

/// Who gives a role the tasks of the plan.
const FROM: &str = "plan-agent";
/// Who takes commands here, as their locks say: no agent is called so.
const SIGN: &str = "inside";

/// A lane of a role, which is made anew for each command.
pub(super) struct RoleDoer {
    shared: Arc<SharedContext>,
    lane: Lane,
    resident: InProcessRole,
    /// What was asked before that was asked by an earlier process.
    started: Time,
}

/// A command that a lane is at.
struct RoleWork<'a> {
    doer: &'a RoleDoer,
    worker: &'a Worker,
    command: &'a CommandFile,
    link: Arc<RoleLink>,
}

/// Who is to answer next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AwaitedRole {
    FromRole,
    /// Nothing goes on before a person has answered, or a usage limit has ended.
    Rests,
    /// The request is closed.
    Settled,
}

/// What a role takes in next.
enum RoleInput {
    Message(Box<StructuredMessage>),
    /// What it waits for may be there.
    LookAgain,
    /// The answer that it waits for did not come in time.
    TimedOut,
}

impl Doer for RoleDoer {
    fn name(&self) -> &str {
        SIGN
    }

    /// What others wait for goes before the tasks of the plan.
    fn first(&self) -> BTreeSet<CommandId> {
        self.shared.registry.unanswered(&self.lane.role)
    }

    async fn run(&self, worker: &Worker, claim: &Claim, command: &CommandFile) -> Result<Finished> {
        let (shared, lane) = (Arc::clone(&self.shared), self.lane.clone());
        let link = Arc::new(RoleLink::new(shared, lane, &command.workspace));
        let work = RoleWork {
            doer: self,
            worker,
            command,
            link,
        };
        self.shared.registry.works(&self.lane, claim.id());
        let done = work.carry_out().await;
        self.shared.registry.rests(&self.lane);
        // The role has reported, if a report is wanted.
        done.map(|()| Finished::default())
    }
}

impl RoleDoer {
    pub(super) fn new(shared: Arc<SharedContext>, lane: Lane, resident: InProcessRole) -> Self {
        Self {
            started: shared.host.clock.now(),
            shared,
            lane,
            resident,
        }
    }
}

impl RoleWork<'_> {
    /// Has the role do the command.
    ///
    /// # Errors
    /// The process is to end: the next one goes on with it.
    async fn carry_out(&self) -> Result<()> {
        let (id, mut running) = (&self.command.id, JoinSet::new());
        let vital = RunVitals::new(id, "plan-agent".to_owned(), wall());
        let source = HeartbeatSource::Wanted(None);
        let halt = tokio::select! {
            biased;
            halt = self.worker.attend(&vital, source) => halt,
            () = self.to_the_end(&mut running) => return Ok(()),
        };
        // What comes next must not happen beside what was under way.
        running.shutdown().await;
        tracing::info!(role = %self.doer.lane.role, command = %id, ?halt, "left");
        match halt {
            WorkStop::Cancelled => self.abandon().await,
            halt => Err(halt),
        }
    }

    /// Hands the work to the role and waits with it until it is done, whatever comes of it.
    async fn to_the_end(&self, running: &mut JoinSet<(Role, Result<(), RoleError>)>) {
        let Some(message) = self.begin().await else {
            return;
        };
        let mut input = RoleInput::Message(Box::new(message.clone()));
        let mut resting: Option<Role> = None;
        let mut timeout = None;
        let (mut faults, mut pause) = (0, PAUSE);
        loop {
            let mut role = match resting.take().map_or_else(|| self.role(), Ok) {
                Ok(role) => role,
                Err(reason) => return self.fail(&message, &reason).await,
            };
            let now = self.doer.shared.host.clock.now();
            running.spawn(async move {
                let done = match input {
                    RoleInput::Message(message) => role.process_message(*message).await,
                    RoleInput::LookAgain => role.look_again().await,
                    RoleInput::TimedOut => {
                        // It knows only the clock, by which no less time has passed.
                        let over = role.state().waits_until.map_or(now, |until| until.max(now));
                        role.timed_out(over).await
                    }
                };
                (role, done)
            });
            let Some(driven) = running.join_next().await else {
                return;
            };
            let error = match driven {
                Ok((role, Ok(()))) => match self.wait(&role, &mut timeout).await {
                    None => return,
                    Some(next) => {
                        (faults, pause) = (0, PAUSE);
                        (input, resting) = (next, Some(role));
                        continue;
                    }
                },
                Ok((_, Err(error))) => error,
                Err(broken) => {
                    tracing::error!(role = %self.doer.lane.role, %broken, "the role broke down");
                    let reason = "the role broke down; the log has the place";
                    return self.fail(&message, reason).await;
                }
            };
            faults += u32::from(!passes(&error));
            let shown = chain(error);
            tracing::warn!(role = %self.doer.lane.role, error = shown, "the role begins again where it was");
            if faults >= MOST_FAULTS {
                return self.fail(&message, &shown).await;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            input = RoleInput::Message(Box::new(message.clone()));
        }
    }

    /// Returns the message by which the role is given the work; `None` if nothing is to be done.
    async fn begin(&self) -> Option<StructuredMessage> {
        let (shared, id) = (&self.doer.shared, &self.command.id);
        // By this role before a crash, or by a person.
        if shared.host.volumes.reported(id).unwrap_or(false) {
            return None;
        }
        let asked = message_of(self.command).filter(|message| message.to == self.doer.lane.role);
        if shared.recalled(id).await {
            // The mark that says so may come later than the lane; a report would count as a late one.
            self.abandon().await.ok();
            return None;
        }
        match asked {
            Some(message) => Some(message),
            None => Some(self.message().await),
        }
    }

    /// Turns a command into the message that says the same: the task in the words of the plan, and as context whatever else the
    /// command says on it.
    async fn message(&self) -> StructuredMessage {
        let command = self.command;
        let (role, kind) = (self.doer.lane.role.clone(), MessageKind::TaskAssignment);
        let mut message = StructuredMessage::new(FROM, role, kind);
        command.id.as_str().clone_into(&mut message.id);
        message.request_id = Some(command.id.clone());
        message.plan_id.clone_from(&command.plan);
        let said = sections(&command.body);
        let known = match (&command.plan, command.task) {
            (Some(plan), Some(task)) => {
                let task = move |plan: &Plan, _| plan.task(task).cloned();
                let read = self.doer.shared.host.store.read(plan, task);
                // A command by hand may name a plan that is not here.
                read.await.ok().flatten()
            }
            _ => None,
        };
        let mut context = Vec::new();
        match known {
            Some(task) => {
                message.task_id = Some(task.key);
                let (name, description) = (task.name, task.description.trim());
                // It may have headings of its own; what follows it in the command has none.
                let behind = command.body.split_once(description);
                let more = match behind.filter(|_| !description.is_empty()) {
                    Some((_, behind)) => behind.split("\n## ").next().unwrap_or_default(),
                    None => &said.description,
                };
                message.said = Some(more.trim().to_owned()).filter(|more| !more.is_empty());
                context.extend(message.said.clone());
                // A heading is no part of what is to be done.
                message.description = Some(format!("# {name}\n\n{description}").trim().to_owned());
            }
            None => message.description = Some(said.description),
        }
        for (heading, text) in [
            ("Constraints", said.constraints),
            ("Expected output", said.expected_output),
        ] {
            context.extend((!text.trim().is_empty()).then(|| format!("{heading}:\n\n{text}")));
        }
        message.context = Some(context.join("\n\n")).filter(|text| !text.is_empty());
        message
    }

    fn role(&self) -> Result<Role, String> {
        let (link, command) = (Arc::clone(&self.link), &self.command.id);
        (self.doer.resident.make)(link as _, command, &self.link.workspace)
    }

    /// Waits with the role for another one, if it does, and returns how it goes on then; `None` if the work is done.
    async fn wait(&self, role: &Role, timeout: &mut Option<RequestTimeout>) -> Option<RoleInput> {
        let (shared, work, state) = (&self.doer.shared, &self.command.id, role.state());
        let plan = state.internal_plan.as_ref()?;
        let request = state.pending_collaboration_request_id.as_ref()?;
        let step = plan.steps.get(state.current_step_index?)?;
        let on: RoleId = match &step.does {
            StepDoes::RequestCollaboration { target, .. } => target.parse().ok()?,
            _ => return None,
        };
        let asked = step.request.as_ref().map(|pending| pending.since);
        let timeout = match timeout.take().filter(|other| other.request == *request) {
            Some(same) => timeout.insert(same),
            None => {
                let asked = asked.unwrap_or_default();
                let command = state.command.as_ref();
                timeout.insert(self.timeout(&on, request.clone(), asked, command).await)
            }
        };
        let mut moved = shared.host.store.moved();
        let mut changes = shared.registry.changes();
        let (registry, lane) = (&shared.registry, &self.doer.lane);
        let wait = RoleWait::sent(request.clone(), on.clone());
        let note = |rests: bool| registry.waits(lane, work, wait.clone(), rests);
        note(false);
        let mut rests = false;
        let next = loop {
            moved.borrow_and_update();
            changes.borrow_and_update();
            let before = rests;
            match self.awaited(&plan.id, request).await {
                Ok(AwaitedRole::Settled) => break RoleInput::LookAgain,
                Ok(awaited) => rests = awaited == AwaitedRole::Rests,
                Err(error) => tracing::warn!(role = %self.doer.lane.role, %error, "looks again"),
            }
            if rests != before {
                note(rests);
            }
            let hold = match rests {
                true => RequestWait::Rests,
                false => hold(shared, &on, request),
            };
            let has_answer = || shared.host.volumes.is_unread(request).unwrap_or(false);
            if timeout.over(hold, has_answer) {
                break RoleInput::TimedOut;
            }
            let used_up = timeout.used_up(hold);
            tokio::select! {
                () = used_up => {}
                Ok(()) = moved.changed() => {}
                Ok(()) = changes.changed() => {}
                () = sleep(shared.host.config.timing.work) => {}
            }
        };
        shared.registry.works(&self.doer.lane, work);
        Some(next)
    }

    /// Returns how long the answer to a request is waited for from now on.
    async fn timeout(
        &self,
        on: &RoleId,
        request: RequestId,
        asked: Time,
        command: Option<&CommandId>,
    ) -> RequestTimeout {
        let whole = self.doer.resident.timeout;
        if asked >= self.doer.started {
            return RequestTimeout::new(request, whole);
        }
        let shared = &self.doer.shared;
        let lived = command.and_then(|command| shared.lived(command));
        let seen = lived.map_or(Duration::ZERO, |lived| lived.since(asked));
        let rested = rested(&shared.host.store, on, &request, shared.host.clock.now()).await;
        let rested = rested.unwrap_or_else(|error| {
            tracing::warn!(role = %self.doer.lane.role, %error, "how long a request rested");
            Duration::ZERO
        });
        RequestTimeout::new(request, left_of(whole, seen, rested))
    }

    /// Returns who is to answer a request.
    async fn awaited(&self, plan: &PlanId, request: &RequestId) -> Result<AwaitedRole, StoreError> {
        let id = request.clone();
        let awaited = move |plan: &Plan, _| match plan.attempt(&id) {
            _ if plan.status().settled() => AwaitedRole::Settled,
            Some(attempt) if attempt.state == AttemptState::Open => AwaitedRole::FromRole,
            Some(attempt) if rests(plan, attempt) => AwaitedRole::Rests,
            _ => AwaitedRole::Settled,
        };
        self.doer.shared.host.store.read(plan, awaited).await
    }

    /// Ends work that is not wanted any more, and takes back what was asked for it: tried until it is done, or the lane is to end.
    ///
    /// # Errors
    /// The process is to end: the next one takes back what is left.
    async fn abandon(&self) -> Result<()> {
        let mut stopping = self.worker.stopping.clone();
        let (mut faults, mut pause) = (0, PAUSE);
        loop {
            let (role, kind) = (self.doer.lane.role.clone(), MessageKind::Cancel);
            let mut message = StructuredMessage::new(FROM, role, kind);
            message.request_id = Some(self.command.id.clone());
            let done = match self.role() {
                Ok(mut role) => role.process_message(message).await,
                Err(reason) => Err(RoleError::CannotPlan(reason)),
            };
            let Err(error) = done else {
                return Ok(());
            };
            faults += u32::from(!passes(&error));
            tracing::warn!(role = %self.doer.lane.role, %error, "what was asked for is not taken back yet");
            if faults >= MOST_FAULTS {
                // The daemon ends what is left.
                return Ok(());
            }
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return Err(WorkStop::Stopping),
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Says that the role could not do what it was given. What it had begun ends after that: killed in between, the role that
    /// takes the work up again finds what it had begun, and not an end without a reason.
    async fn fail(&self, message: &StructuredMessage, reason: &str) {
        let (role, status) = (&self.doer.lane.role, CollaborationStatus::Error);
        let result = format!("The role `{role}` could not do it: {reason}.");
        let update = TaskUpdate::new(message, status, result);
        let pauses = ExponentialBuilder::new().with_min_delay(PAUSE);
        let pauses = pauses.with_max_delay(LONGEST_PAUSE).without_max_times();
        let told = (|| self.link.conclude(&update)).retry(pauses);
        let told = told.notify(|error, _| tracing::warn!(%role, %error, "told again later"));
        told.await.ok();
        // Where it does not come about, the daemon does it.
        self.abandon().await.ok();
    }
}

/// Returns whether a fault may pass by itself, as a full disk does.
fn passes(error: &RoleError) -> bool {
    match error {
        RoleError::Store(StoreError::Database(_)) | RoleError::Framework(_) => true,
        RoleError::Store(_) | RoleError::CannotPlan(_) => false,
    }
}
