//! One lane of a role in the process: takes one command at a time, hands it to the role, and waits with it for other roles.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

use super::Resident;
use super::board::Lane;
use super::house::House;
use super::link::{Hand, Link, message_of};
use super::patience::{Hold, Patience, hold, left_of};
use crate::plan::{AttemptState, PlanId, Spent, Time};
use crate::role::{
    AgentBaseRole, CollaborationStatus, MessageKind, RequestId, Role, RoleError, RoleId, StepDoes,
    StructuredMessage, TaskUpdate, asks_person, with_person,
};
use crate::store::StoreError;
use crate::volumes::{Folder, Life, VolumesError, Watch};
use crate::wire::command::{Command, CommandType, sections};
use crate::wire::report::{command_of, render};
use crate::worker::RoleFilter;
use crate::worker::claim::{Claim, PassedOver};
use crate::worker::work::{now, read, unread};

/// The longest pause after faults in a row, such as a full disk.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often it is looked whether the work is cancelled.
const GLANCE: Duration = Duration::from_millis(100);
/// How often the sign of life is renewed, if the daemon is that patient.
const BEAT: Duration = Duration::from_secs(10);
/// Faults after which a role has failed at something, but for those that pass by themselves.
const MOST_FAULTS: u32 = 3;
/// The pause after the first fault.
const PAUSE: Duration = Duration::from_millis(500);

/// Who gives a role the tasks of the plan.
const FROM: &str = "plan-agent";
/// Who takes commands here, as their locks say: no agent is called so.
const SIGN: &str = "inside";

pub(super) struct Worker {
    house: Arc<House>,
    lane: Lane,
    link: Arc<Link>,
    resident: Resident,
    silence: Duration,
    stopping: watch::Receiver<bool>,
    /// What was asked before that was asked by an earlier process.
    started: Time,
}

/// What a lane is at: a command, or why it cannot be read.
struct Work {
    claim: Claim,
    command: Result<Command, String>,
}

/// Why work is left before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// Nobody wants it any more.
    Cancelled,
    /// The lane is to end; the next process takes it up.
    Stopping,
}

/// How work is let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing of it is left to do.
    Done,
    /// The next process goes on with it.
    Undone,
}

/// Who is to answer next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    FromRole,
    /// The role that is asked has to know something first.
    FromPerson,
    /// Nobody any more.
    Settled,
}

/// What a role takes in next.
enum Input {
    Message(Box<StructuredMessage>),
    /// What it waits for may be there.
    LookAgain,
    /// The answer that it waits for did not come in time.
    TimedOut,
}

/// The role with what came of an input, or that it broke down.
type Driven = Result<(Role, Result<(), RoleError>), JoinError>;

impl Work {
    fn assignment(&self) -> RequestId {
        self.claim.id().clone().into()
    }
}

impl Worker {
    pub(super) fn new(
        house: Arc<House>,
        lane: Lane,
        resident: Resident,
        silence: Duration,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            link: Arc::new(Link::new(Arc::clone(&house), lane.clone())),
            started: house.clock.now(),
            house,
            lane,
            resident,
            silence,
            stopping,
        }
    }

    pub(super) async fn run(self) {
        let volumes = &self.house.volumes;
        let wake = Arc::new(Notify::new());
        let filter = RoleFilter::Only(self.lane.role.to_string());
        let mut watch = Watch::for_worker(&filter.from(volumes), Arc::clone(&wake));
        let mut news = self.house.board.news();
        let mut stopping = self.stopping.clone();
        let mut pause = self.house.timing.work;
        while !*stopping.borrow_and_update() {
            news.borrow_and_update();
            let worked = match self.next(&filter) {
                Ok(Some(work)) => self.carry_out(work).await.map(|()| true),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            pause = match worked {
                Ok(true) => continue,
                Ok(false) => self.house.timing.work,
                Err(error) => {
                    let error = format!("{:#}", anyhow::Error::new(error));
                    tracing::warn!(role = %self.lane.role, error, "the role tries again");
                    (pause * 2).min(LONGEST_PAUSE)
                }
            };
            tokio::select! {
                () = wake.notified() => {}
                _ = news.changed() => {}
                () = sleep(pause) => {}
                _ = stopping.changed() => {}
            }
            watch.check();
        }
    }

    /// Finds something to do: first what was begun before, then what others wait for, then something new.
    fn next(&self, filter: &RoleFilter) -> Result<Option<Work>, VolumesError> {
        let (board, volumes) = (&self.house.board, &self.house.volumes);
        let first = board.unanswered(&self.lane.role);
        let claim = Claim::next(volumes, SIGN, filter, &PassedOver::default(), &first)?;
        Ok(claim.map(|claim| {
            let command = read(claim.volumes(), Folder::CommandsProcessed, claim.id());
            let work = Work { claim, command };
            board.works(&self.lane, &work.assignment());
            work
        }))
    }

    /// Does what the lane is at, and lets go of it.
    ///
    /// # Errors
    /// What the file system says; a command is taken up again then.
    async fn carry_out(&self, work: Work) -> Result<(), VolumesError> {
        let left = self.work_on(&work).await;
        self.house.board.rests(&self.lane);
        match left {
            // Whoever works here next takes it up.
            Left::Undone => Ok(()),
            Left::Done => work.claim.finish(),
        }
    }

    async fn work_on(&self, work: &Work) -> Left {
        let mut running = JoinSet::new();
        let halt = tokio::select! {
            biased;
            halt = self.attend(work) => halt,
            () = self.to_the_end(work, &mut running) => return Left::Done,
        };
        // What comes next must not happen beside what was under way.
        running.shutdown().await;
        tracing::info!(role = %self.lane.role, work = %work.assignment(), ?halt, "left");
        match halt {
            Halt::Cancelled => self.give_up(work).await,
            Halt::Stopping => Left::Undone,
        }
    }

    /// Keeps the sign of life as long as the lane is at something, and says why it may not go on any longer.
    async fn attend(&self, work: &Work) -> Halt {
        let (house, id) = (&self.house, work.claim.id());
        let mut stopping = self.stopping.clone();
        let life = Life {
            started_at: Some(now()),
            ..Life::default()
        };
        let every = BEAT.min(self.silence / 5).max(GLANCE);
        let mut next_beat = Instant::now();
        loop {
            if house.volumes.cancel_mark(id).exists() {
                return Halt::Cancelled;
            }
            if *stopping.borrow_and_update() {
                return Halt::Stopping;
            }
            if Instant::now() >= next_beat {
                next_beat = Instant::now() + every;
                // The role works all the same; the next one may succeed.
                if let Err(error) = house.volumes.live(id, &life) {
                    tracing::debug!(command = %id, %error, "no sign of life");
                }
            }
            tokio::select! {
                () = sleep(GLANCE) => {}
                _ = stopping.changed() => {}
            }
        }
    }

    /// Hands the work to the role and waits with it until it is done, whatever comes of it.
    async fn to_the_end(&self, work: &Work, running: &mut JoinSet<(Role, Result<(), RoleError>)>) {
        let Some(message) = self.begin(work).await else {
            return;
        };
        let mut input = Input::Message(Box::new(message.clone()));
        let mut resting: Option<Role> = None;
        let mut patience = None;
        let (mut faults, mut pause) = (0, PAUSE);
        loop {
            let mut role = match resting.take().map_or_else(|| self.role(), Ok) {
                Ok(role) => role,
                Err(reason) => return self.fail(work, &message, &reason).await,
            };
            let now = self.house.clock.now();
            running.spawn(async move {
                let done = match input {
                    Input::Message(message) => role.process_message(*message).await,
                    Input::LookAgain => role.look_again().await,
                    Input::TimedOut => {
                        // It knows only the clock, by which no less time has passed.
                        let over = role.waits_until().map_or(now, |until| until.max(now));
                        role.timed_out(over).await
                    }
                };
                (role, done)
            });
            let driven: Driven = match running.join_next().await {
                Some(driven) => driven,
                None => return,
            };
            let error = match driven {
                Ok((role, Ok(()))) => match self.wait(work, &role, &mut patience).await {
                    None => return,
                    Some(next) => {
                        (faults, pause) = (0, PAUSE);
                        (input, resting) = (next, Some(role));
                        continue;
                    }
                },
                Ok((_, Err(error))) => error,
                Err(broken) => {
                    tracing::error!(role = %self.lane.role, %broken, "the role broke down");
                    let reason = "the role broke down; the log has the place";
                    return self.fail(work, &message, reason).await;
                }
            };
            faults += u32::from(!passes(&error));
            let shown = format!("{:#}", anyhow::Error::new(error));
            tracing::warn!(role = %self.lane.role, error = shown, "the role begins again where it was");
            if faults >= MOST_FAULTS {
                return self.fail(work, &message, &shown).await;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            input = Input::Message(Box::new(message.clone()));
        }
    }

    /// Returns the message by which the role is given the work; `None` if nothing is to be done.
    async fn begin(&self, work: &Work) -> Option<StructuredMessage> {
        let (house, id) = (&self.house, work.claim.id());
        // By this role before a crash, or by a person.
        if house.volumes.reported(id).unwrap_or(false) {
            return None;
        }
        let command = match &work.command {
            Ok(command) if command.kind == CommandType::End => return None,
            Ok(command) => command,
            Err(reason) => {
                if let Err(error) = self.link.submit(id, &render(&unread(id, reason))) {
                    tracing::warn!(command = %id, %error, "nobody is told that it cannot be read");
                }
                return None;
            }
        };
        let asked = message_of(command).filter(|message| message.to == self.lane.role);
        self.link.take_in_hand(match &asked {
            Some(message) => {
                let hand = house.hand_of(message.plan_id.as_ref()).await;
                hand.unwrap_or_else(|error| {
                    tracing::warn!(role = %self.lane.role, %error, "where a request belongs");
                    Hand::default()
                })
            }
            None => Hand {
                workspace: command.workspace.clone(),
                task: command.task.map_or(0, |task| task.0),
                command: Some(command.id.clone()),
            },
        });
        if house.recalled(&command.id).await {
            // The mark that says so may come later than the lane; a report would count as a late one.
            self.give_up(work).await;
            return None;
        }
        match asked {
            Some(message) => Some(message),
            None => Some(self.message(command).await),
        }
    }

    /// Turns a command into the message that says the same: the task in the words of the plan, and as context whatever else the
    /// command says on it.
    async fn message(&self, command: &Command) -> StructuredMessage {
        let (role, kind) = (self.lane.role.clone(), MessageKind::TaskAssignment);
        let mut message = StructuredMessage::new(FROM, role, kind);
        command.id.as_str().clone_into(&mut message.id);
        message.request_id = Some(command.id.clone().into());
        message.plan_id.clone_from(&command.plan);
        let said = sections(&command.body);
        let known = match (&command.plan, command.task) {
            (Some(plan), Some(task)) => {
                let read = self.house.store.read(plan, move |plan, _| {
                    let task = plan.task(task)?;
                    let texts = (task.name.clone(), task.description.clone());
                    Some((task.key.clone(), texts.0, texts.1))
                });
                // A command by hand may name a plan that is not here.
                read.await.ok().flatten()
            }
            _ => None,
        };
        let mut context = Vec::new();
        match known {
            Some((key, name, description)) => {
                message.task_id = Some(key);
                if said.description.trim() != description.trim() {
                    context.push(said.description);
                }
                // A heading is no part of what is to be done.
                let text = format!("# {name}\n\n{}", description.trim());
                message.description = Some(text.trim().to_owned());
            }
            None => message.description = Some(said.description),
        }
        for (heading, text) in [
            ("Constraints", said.constraints),
            ("Expected output", said.expected_output),
        ] {
            if !text.trim().is_empty() {
                context.push(format!("{heading}:\n\n{text}"));
            }
        }
        message.context = Some(context.join("\n\n")).filter(|text| !text.is_empty());
        message
    }

    fn role(&self) -> Result<Role, String> {
        let workspace = self.link.workspace();
        (self.resident.make)(Arc::clone(&self.link) as _, &workspace)
    }

    /// Waits with the role for another one, if it does, and returns how it goes on then; `None` if the work is done.
    async fn wait(
        &self,
        work: &Work,
        role: &Role,
        patience: &mut Option<Patience>,
    ) -> Option<Input> {
        let (house, state) = (&self.house, role.state());
        let plan = state.internal_plan.as_ref()?;
        let request = state.pending_collaboration_request_id.as_ref()?;
        let step = plan.steps.get(state.current_step_index?)?;
        let on: RoleId = match &step.does {
            StepDoes::RequestCollaboration { target, .. } => target.parse().ok()?,
            _ => return None,
        };
        let asked = step.request.as_ref().map(|pending| pending.since);
        let patience = match patience.take().filter(|other| other.request == *request) {
            Some(same) => patience.insert(same),
            None => {
                let asked = asked.unwrap_or_default();
                patience.insert(self.patience(&on, request.clone(), asked).await)
            }
        };
        let mut moved = house.store.moved();
        let mut news = house.board.news();
        let note = |with_person: bool| {
            let (board, work) = (&house.board, work.assignment());
            board.waits(&self.lane, &work, request, &on, with_person);
        };
        note(false);
        let mut with_person = false;
        let next = loop {
            moved.borrow_and_update();
            news.borrow_and_update();
            let before = with_person;
            match self.awaited(&plan.id, request).await {
                Ok(Awaited::Settled) => break Input::LookAgain,
                Ok(awaited) => with_person = awaited == Awaited::FromPerson,
                Err(error) => tracing::warn!(role = %self.lane.role, %error, "looks again"),
            }
            if with_person != before {
                note(with_person);
            }
            let hold = match with_person {
                true => Hold::WithPerson,
                false => hold(house, &on, request),
            };
            if patience.over(hold, || self.lies_there(request)) {
                break Input::TimedOut;
            }
            let used_up = patience.used_up(hold);
            tokio::select! {
                () = used_up => {}
                Ok(()) = moved.changed() => {}
                Ok(()) = news.changed() => {}
                () = sleep(self.house.timing.work) => {}
            }
        };
        house.board.works(&self.lane, &work.assignment());
        Some(next)
    }

    /// Returns how long the answer to a request is waited for from now on.
    async fn patience(&self, on: &RoleId, request: RequestId, asked: Time) -> Patience {
        let whole = self.resident.patience;
        if asked >= self.started {
            return Patience::new(request, whole);
        }
        let house = &self.house;
        let command = self.link.top_command();
        let lived = command.and_then(|command| house.lived_last(&command));
        let person = with_person(&house.store, on, &request, house.clock.now()).await;
        let person = person.unwrap_or_else(|error| {
            tracing::warn!(role = %self.lane.role, %error, "how long a person was asked");
            Duration::ZERO
        });
        Patience::new(request, left_of(whole, asked, lived, person))
    }

    /// Looks who is to answer a request.
    async fn awaited(&self, plan: &PlanId, request: &RequestId) -> Result<Awaited, StoreError> {
        let id = request.command().clone();
        let read = self
            .house
            .store
            .read(plan, move |plan, _| match plan.attempt(&id) {
                _ if plan.status().settled() => Awaited::Settled,
                Some(attempt) if attempt.state == AttemptState::Open => Awaited::FromRole,
                Some(attempt) if asks_person(plan, attempt) => Awaited::FromPerson,
                _ => Awaited::Settled,
            });
        read.await
    }

    /// Tells whether an answer lies among the reports that the daemon has not read yet.
    fn lies_there(&self, request: &RequestId) -> bool {
        let folder = self.house.volumes.path(Folder::ReportsPending);
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        names
            .filter_map(|entry| command_of(entry.file_name().to_str()?))
            .any(|command| command == *request.command())
    }

    /// Ends what nobody wants any more, and takes back what was asked for it: tried until it is done, or the lane is to end.
    async fn give_up(&self, work: &Work) -> Left {
        let mut stopping = self.stopping.clone();
        let (mut faults, mut pause) = (0, PAUSE);
        loop {
            let (role, kind) = (self.lane.role.clone(), MessageKind::Cancel);
            let mut message = StructuredMessage::new(FROM, role, kind);
            message.request_id = Some(work.assignment());
            let done = match self.role() {
                Ok(mut role) => role.process_message(message).await,
                Err(reason) => Err(RoleError::CannotPlan(reason)),
            };
            let Err(error) = done else {
                return Left::Done;
            };
            faults += u32::from(!passes(&error));
            tracing::warn!(role = %self.lane.role, %error, "what was asked for is not taken back yet");
            if faults >= MOST_FAULTS {
                // The daemon looks after what is left.
                return Left::Done;
            }
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return Left::Undone,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Says that the role could not do what it was given. What it had begun ends after that: killed in between, the role that
    /// takes the work up again finds what it had begun, and not an end without a reason.
    async fn fail(&self, work: &Work, message: &StructuredMessage, reason: &str) {
        let mut pause = PAUSE;
        loop {
            let update = TaskUpdate {
                role: self.lane.role.clone(),
                assignment: work.assignment(),
                kind: message.kind,
                from: message.from.clone(),
                plan_id: message.plan_id.clone(),
                task_id: message.task_id.clone(),
                status: CollaborationStatus::Error,
                result: format!("The role `{}` could not do it: {reason}.", self.lane.role),
                spent: Spent::default(),
            };
            let Err(error) = self.link.conclude(&update).await else {
                break;
            };
            tracing::warn!(role = %self.lane.role, %error, "told again later");
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        // Where it does not come about, the daemon does it.
        self.give_up(work).await;
    }
}

/// Tells whether a fault may pass by itself, as a full disk does.
fn passes(error: &RoleError) -> bool {
    match error {
        RoleError::Store(StoreError::Database(_)) | RoleError::Framework(_) => true,
        RoleError::Store(_) | RoleError::CannotPlan(_) => false,
    }
}
