//! What should be under way now, and when to look again. Derived from the plan and from what was seen outside; nothing is
//! remembered, so a restart, a lost event and an edit by somebody else all lead to the same place.
//! Costs the open attempts and questions, never the plan.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::counted;
use super::crew::{Crew, Crews};
use super::draft::acceptable;
use super::lanes::Lanes;
use super::model::{
    About, Attempt, AttemptState, CommandId, Judging, Limit, Line, Lived, PlanStatus, Question,
    ReportStatus, Review, SessionId, SessionScope, Subject, Task, TaskId, Time,
};
use super::rules::certain;
use super::state::Plan;

/// How long a plan waits for those who work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// How long an agent has to mend an unreadable report by itself before it is asked to.
    pub repair: Duration,
    /// A worker that is there for the tasks of a role has claimed one by then. After that, a command holds only the lanes of its
    /// role: to take it back would make it vanish under a person's eyes, and not to count it would start two tasks in its place.
    /// The price: a late claim may exceed `max_parallel`.
    pub untaken: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            repair: Duration::from_secs(5),
            untaken: Duration::from_secs(10),
        }
    }
}

/// Time that is lived through is recorded at least that often: what a kill makes forgotten is less.
const RECORD: Duration = Duration::from_secs(60);

/// What lies ahead by less was recorded by this process.
const JUST_NOW: Duration = Duration::from_secs(60);

/// More than a machine is suspended within the age of an attempt.
const MOST_STILL: usize = 64;

/// What is known from outside the plan, in memory only.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub waits: Waits,
    pub now: Time,
    /// When this daemon began; silence before that is nobody's fault.
    pub started: Time,
    /// When the last complete look at the folders began.
    pub scan_began: Option<Time>,
    /// The last sign of life of open attempts.
    pub signs: BTreeMap<CommandId, Time>,
    /// What agents say of a model that they only ask again since.
    pub faults: BTreeMap<CommandId, String>,
    /// When the daemon could do nothing, and perhaps its agents neither: up to when, and how long.
    pub still: Vec<(Time, Duration)>,
    /// For how long this daemon has had something under way: neither waiting for a human only, nor standing still.
    pub lived: Duration,
    /// What the model is being asked; each of these calls was counted when it began.
    pub asking: BTreeSet<Subject>,
    /// Who was started to do what is handed out.
    pub crews: Crews,
    /// Until when a role was seen to have something in hand: its other tasks wait for it, and not for nobody.
    pub held: BTreeMap<String, Time>,
    /// Sessions whose `end` command was published, which the plan may not know yet.
    pub ends_published: BTreeSet<SessionId>,
}

impl World {
    /// Records that nothing could happen for so long up to now.
    pub fn stood_still(&mut self, span: Duration) {
        if self.still.len() == MOST_STILL {
            // Whatever began between the two is given more time than it needs.
            let (_, first) = self.still.remove(0);
            self.still[0].1 += first;
        }
        self.still.push((self.now, span));
    }

    /// Returns how much of its life this daemon has spent on the plan.
    pub fn lived(&self) -> Lived {
        Lived {
            since: self.started,
            span: self.lived,
        }
    }

    /// Returns the moment so long after another, not counting when nothing could happen.
    fn after(&self, moment: Time, span: Duration) -> Time {
        let still = self.still.iter().filter(|(end, _)| *end > moment);
        moment.plus(span).plus(still.map(|(_, span)| *span).sum())
    }
}

/// One thing that should be under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Tell the agent to stop, or take the command back.
    Withdraw(CommandId),
    /// Look what a reported attempt changed.
    Inspect(CommandId),
    /// Run the checks of a reported attempt.
    Check(CommandId),
    /// Ask the language model.
    Ask(Subject),
    /// Make the next command of a task.
    Issue(TaskId),
    /// Ask for a readable report.
    Repair(CommandId),
    /// Give an attempt up; the text says why.
    TimeOut(CommandId, String),
    /// Decide a reported attempt by rules.
    JudgeByRules(CommandId),
    /// Let the task wait until the agent's usage limit ends.
    Park(CommandId),
    /// Put the agent's question to the human.
    AgentAsks(CommandId),
    /// Ask the human.
    AskHuman(About, Option<TaskId>, String),
    /// Complete the task of an attempt that was accepted and has been merged again since.
    Accept(CommandId),
    /// Move the branch of the results to where they are.
    MoveBranch,
    /// Stop where a limit of the budget is reached, and ask the human.
    StopAtBudget(Limit),
    /// Record the time that was lived through.
    CountTime,
    /// End a session that is over.
    EndSession(SessionId),
    /// Record that sessions were ended, where no other change comes any more with which it is recorded.
    RecordEnds,
    /// End the plan, every task of which is settled.
    Settle,
}

impl Step {
    /// Tells whether the step is a decision that the plan's own data settles: it is carried out within a change and needs
    /// nothing from outside.
    pub fn is_decision(&self) -> bool {
        !matches!(
            self,
            Self::Withdraw(_) | Self::Inspect(_) | Self::Check(_) | Self::Ask(_) | Self::MoveBranch
        )
    }
}

/// What is due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    pub steps: Vec<Step>,
    /// When something may become due by itself.
    pub look_again: Option<Time>,
    /// A time-out is due but only a look at the folders that begins now may confirm it.
    pub rescan: bool,
    /// Something would be under way if those who were started for it could work.
    pub held: bool,
}

impl Due {
    fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    fn look(&mut self, at: Time) {
        self.look_again = Some(self.look_again.map_or(at, |before| before.min(at)));
    }

    fn stops(&self) -> bool {
        let stops = |step: &Step| matches!(step, Step::StopAtBudget(_));
        self.steps.iter().any(stops)
    }

    /// Tells whether nothing is due, now or later.
    pub fn nothing(&self) -> bool {
        self.steps.is_empty() && self.look_again.is_none() && !self.rescan
    }
}

/// Returns what is due. Every plan that is neither settled, idle nor paused has a step, a time to look again, a wish to look
/// at the folders, or an open question. A limit of the budget stops what would begin; what is under way goes on.
pub fn due(plan: &Plan, world: &World) -> Due {
    let mut due = Due::default();
    let head = plan.head();
    for attempt in plan.recalls() {
        due.step(Step::Withdraw(attempt.id.clone()));
    }
    for session in plan.open_sessions() {
        let task_over = plan
            .task(session.task)
            .is_none_or(|task| task.status.settled());
        if head.status.settled() || (head.policy.session == SessionScope::Task && task_over) {
            due.step(Step::EndSession(session.id.clone()));
        }
    }
    if head.line.as_ref().is_some_and(Line::behind) {
        due.step(Step::MoveBranch);
    }
    let unrecorded = |id: &SessionId| plan.ends_unpublished(id);
    if head.status.settled() && world.ends_published.iter().any(unrecorded) {
        due.step(Step::RecordEnds);
    }
    if head.status.settled() || head.status == PlanStatus::Idle {
        return due;
    }
    for attempt in plan.open_attempts() {
        match attempt.state {
            AttemptState::Open => await_report(plan, world, attempt, &mut due),
            _ => decide(plan, world, attempt, &mut due),
        }
    }
    if head.status == PlanStatus::Running && !world.crews.none_left() {
        go_on(plan, world, &mut due);
    }
    if head.usage.unrecorded(world.lived()) >= RECORD {
        due.step(Step::CountTime);
    }
    due
}

/// Tells whether something may begin that a limit may keep from it; stops a running plan if one does. Of a paused plan it only
/// does not begin.
fn may_begin(plan: &Plan, stopped: Option<Limit>, due: &mut Due) -> bool {
    if let Some(limit) = stopped
        && *plan.status() == PlanStatus::Running
        && !due.stops()
    {
        due.step(Step::StopAtBudget(limit));
    }
    stopped.is_none()
}

/// Returns how it is with those who do a task.
fn crew_of(plan: &Plan, world: &World, task: TaskId) -> Crew {
    world.crews.of(plan.role_of(task))
}

fn await_report(plan: &Plan, world: &World, attempt: &Attempt, due: &mut Due) {
    let policy = &plan.head().policy;
    let paused = plan.head().status != PlanStatus::Running;
    let crew = crew_of(plan, world, attempt.task);
    let begins = !paused && crew == Crew::Works;
    if let Crew::Gone(since) = crew
        && !world.signs.contains_key(&attempt.id)
        && !world.crews.none_left()
    {
        // What they had not begun went back; it is taken back, so that it takes no lane from the others.
        due.held = true;
        if scanned_since(world, since, due) {
            due.step(Step::Withdraw(attempt.id.clone()));
        }
        return;
    }
    if let Some(rejected) = &attempt.rejected {
        let at = rejected.at.plus(world.waits.repair);
        match (world.now >= at, begins) {
            (false, _) => due.look(at),
            (true, true) if may_begin(plan, plan.no_repair(world.lived()), due) => {
                due.step(Step::Repair(attempt.id.clone()));
            }
            (true, _) => due.held |= crew != Crew::Works,
        }
        return;
    }
    let Some(claimed) = attempt.claimed.map(|time| known(time, world)) else {
        // The last attempts that a budget allows are handed out like any other.
        if paused && plan.stopped_at() != Some(Limit::Attempts) {
            due.step(Step::Withdraw(attempt.id.clone()));
            return;
        }
        let asked = plan
            .open_questions()
            .any(|q| q.task == Some(attempt.task) && q.about == About::Unclaimed);
        let at = world.after(untaken_since(plan, world, attempt), policy.task_timeout);
        if asked {
        } else if world.now < at {
            due.look(at);
        } else if scanned_since(world, at, due) {
            let nobodys = |task| plan.is_nobodys(task);
            let role = plan.role_of(attempt.task);
            let of_whom = match role.filter(|role| policy.roles.contains_key(*role)) {
                Some(role) => format!(" of the role `{role}`"),
                None if plan.task(attempt.task).is_some_and(nobodys) => {
                    " of tasks without an assignee".to_owned()
                }
                None => String::new(),
            };
            let reason = format!(
                "nobody takes commands{of_whom}: `{}` has waited for {}",
                attempt.id,
                minutes(policy.task_timeout)
            );
            due.step(Step::AskHuman(About::Unclaimed, Some(attempt.task), reason));
        }
        return;
    };
    let of_request = |q: &Question| q.task == Some(attempt.task) && q.request.is_some();
    if plan.open_questions().any(of_request) {
        // Nothing can happen before a person has answered.
        return;
    }
    let sign = world.signs.get(&attempt.id).copied().unwrap_or(claimed);
    let heard = sign.max(claimed).max(world.started);
    let silent = world.after(heard, policy.task_timeout);
    let deadline = plan.deadline_of(attempt.task);
    let too_long = world.after(claimed, deadline.saturating_add(attempt.with_person));
    let (at, reason) = if silent <= too_long {
        (silent, no_sign(world, attempt, policy.task_timeout))
    } else {
        (
            too_long,
            format!("not finished within {}", minutes(deadline)),
        )
    };
    if world.now < at {
        due.look(at);
    } else if scanned_since(world, at, due) {
        due.step(Step::TimeOut(attempt.id.clone(), reason));
    }
}

fn no_sign(world: &World, attempt: &Attempt, span: Duration) -> String {
    let fault = world
        .faults
        .get(&attempt.id)
        .map(|said| format!(": its agent only asked a model again that fails: {said}"));
    format!(
        "no sign of life for {}{}",
        minutes(span),
        fault.unwrap_or_default()
    )
}

/// Returns since when a command lies there that nobody has taken, as far as somebody could have.
fn untaken_since(plan: &Plan, world: &World, attempt: &Attempt) -> Time {
    let role = plan.role_of(attempt.task);
    let held = role.and_then(|role| world.held.get(role)).copied();
    known(attempt.waiting_since, world)
        .max(world.started)
        .max(held.unwrap_or_default())
}

/// Counts the commands of roles for whom nobody seems to be there: they wait, and nobody works on them, so that the others of the
/// plan may use the lanes that they would take. One that is taken later is under way besides what began meanwhile.
fn untaken(plan: &Plan, world: &World, due: &mut Due) -> usize {
    let policy = &plan.head().policy;
    // One conversation cannot be about two tasks at once.
    if policy.session == SessionScope::Plan {
        return 0;
    }
    let waits = plan.open_attempts().filter(|attempt| {
        let role = plan.role_of(attempt.task);
        let of_role = role.is_some_and(|role| policy.roles.contains_key(role));
        of_role && attempt.state == AttemptState::Open && attempt.claimed.is_none()
    });
    let mut count = 0;
    for attempt in waits {
        let since = untaken_since(plan, world, attempt);
        let at = world.after(since, world.waits.untaken.min(policy.task_timeout));
        match world.now < at {
            true => due.look(at),
            false => count += 1,
        }
    }
    count
}

/// Returns a moment that was recorded; one that lies ahead because the clock of an earlier process was wrong counts as the
/// start. What was recorded a moment ago may lie ahead too, within the change that records it.
fn known(recorded: Time, world: &World) -> Time {
    if recorded.since(world.now) > JUST_NOW {
        world.started
    } else {
        recorded
    }
}

/// Tells whether the folders were looked at since a moment; else asks for it.
fn scanned_since(world: &World, at: Time, due: &mut Due) -> bool {
    let scanned = world.scan_began.is_some_and(|began| began >= at);
    due.rescan |= !scanned;
    scanned
}

fn decide(plan: &Plan, world: &World, attempt: &Attempt, due: &mut Due) {
    let Some(report) = &attempt.report else {
        return;
    };
    let id = attempt.id.clone();
    let policy = &plan.head().policy;
    let own = plan
        .task(attempt.task)
        .is_some_and(|task| !task.checks.is_empty() || !task.produces.is_empty());
    // Where each task has a worktree, merging is a check of every result.
    let merge = plan.head().line.is_some();
    let check =
        report.status != ReportStatus::Failed && (merge || own || !policy.checks.is_empty());
    if report.question.is_some() {
        due.step(Step::AgentAsks(id));
    } else if report.blocked_until.is_some() {
        due.step(Step::Park(id));
    } else if attempt.changes.is_none() {
        due.step(Step::Inspect(id));
    } else if check && attempt.checks.is_none() {
        if !merge || is_next(plan, attempt) {
            due.step(Step::Check(id));
        }
    } else if attempt.verdict.is_some() {
        due.step(Step::Accept(id));
    } else if !policy.model || (policy.judging == Judging::OnDoubt && certain(attempt)) {
        due.step(Step::JudgeByRules(id));
    } else {
        ask(plan, world, Subject::Judge(id), due);
    }
}

/// Tells whether an attempt is the next to be merged: one at a time, in the order of their reports. One that is merged and
/// awaits its verdict comes first, or what is made of the others would be void when it is accepted; one that waits for a
/// human holds nobody up.
fn is_next(plan: &Plan, attempt: &Attempt) -> bool {
    let tip = plan.head().line.as_ref().map(|line| &line.tip);
    let place = |attempt: &Attempt| {
        let report = attempt.report.as_ref()?;
        let merges = report.status != ReportStatus::Failed
            && report.question.is_none()
            && report.blocked_until.is_none();
        let merged = attempt.merge.as_ref().map(|merge| &merge.onto);
        let first = attempt.checks.is_some();
        let ready = !first || (merged == tip && acceptable(attempt));
        let counts = merges && ready && !plan.asks_about(attempt.task);
        counts.then(|| (!first, report.received, attempt.id.clone()))
    };
    let before = plan.open_attempts().filter_map(place).min();
    before.is_none_or(|(_, _, first)| first == attempt.id)
}

/// Wants the model asked, unless it has failed at this question and a human is to say how to go on.
fn ask(plan: &Plan, world: &World, subject: Subject, due: &mut Due) {
    let failed = plan
        .open_asks()
        .any(|ask| ask.subject == subject && ask.error.is_some());
    if failed {
        return;
    }
    if world.asking.contains(&subject) || may_begin(plan, plan.no_call(world.lived()), due) {
        due.step(Step::Ask(subject));
    }
}

fn go_on(plan: &Plan, world: &World, due: &mut Due) {
    let head = plan.head();
    let counts = plan.counts();
    if counts.total() == 0 {
        if head.policy.model {
            ask(plan, world, Subject::Plan, due);
        } else {
            let reason = "there is no plan, and no language model to make one";
            stuck(plan, due, reason);
        }
        return;
    }
    if head.replan.is_some() {
        return ask(plan, world, Subject::Replan, due);
    }
    if head.review == Review::Wanted {
        let mut open = plan.open_questions();
        if !open.any(|question| question.about == About::Review) {
            let tasks = counted(counts.total(), "task");
            let reason = format!("the plan has {tasks}; may it start?");
            due.step(Step::AskHuman(About::Review, None, reason));
        }
        return;
    }
    if counts.settled() == counts.total() {
        let behind = head.line.as_ref().is_some_and(Line::behind);
        let about_budget = |about: About| matches!(about, About::Budget(_));
        if plan.open_questions().all(|open| about_budget(open.about)) && !behind {
            finish(plan, world, due);
        }
        return;
    }
    hand_out(plan, world, due);
    if due.nothing() && !due.held && plan.open_attempts().next().is_none() {
        stuck(plan, due, "nothing can start any more");
    }
}

fn finish(plan: &Plan, world: &World, due: &mut Due) {
    let head = plan.head();
    let failed = plan.counts().failed > 0;
    if head.policy.model && head.policy.audit && head.audited.is_none() && !failed {
        return ask(plan, world, Subject::Audit, due);
    }
    let under_way = world.asking.contains(&Subject::Summary);
    let may_ask = under_way || plan.no_call(world.lived()).is_none();
    if head.policy.model && !plan.summary_failed() && may_ask {
        return ask(plan, world, Subject::Summary, due);
    }
    due.step(Step::Settle);
}

/// Hands out what may start, retries before new tasks, as far as there are lanes. Tasks of a role whose lanes are taken, or for
/// whom nobody is left, hold up nobody else.
fn hand_out(plan: &Plan, world: &World, due: &mut Due) {
    let mut lanes = Lanes::of(plan);
    if lanes.full() {
        lanes.most += untaken(plan, world, due);
    }
    let mut retries = plan.in_progress().filter(|task| {
        plan.current_attempt(task)
            .is_none_or(|current| !current.state.open())
    });
    let mut fresh = plan.startable();
    let held = Cell::new(false);
    let left_out = |lanes: &Lanes, role: Option<&str>| {
        let lost = world.crews.of(role) != Crew::Works;
        held.set(held.get() | lost);
        lost || lanes.full_for(role)
    };
    while !lanes.full() {
        let next = retries
            .find(|task| !left_out(&lanes, task.assignee.as_deref()))
            .or_else(|| fresh.next(|role| left_out(&lanes, role)));
        let Some(task) = next else {
            break;
        };
        if plan.asks_about(task.number) {
            continue;
        }
        if !recalled(plan, task) {
            match task.not_before.filter(|at| *at > world.now) {
                Some(at) => {
                    due.look(at);
                    continue;
                }
                None if may_begin(plan, plan.no_attempt(world.lived()), due) => {
                    due.step(Step::Issue(task.number));
                }
                None => break,
            }
        }
        // One that is recalled is over in a moment: its lane is kept, so that no other task slips in before a retry.
        lanes.take(task.assignee.as_deref(), task.number);
    }
    due.held |= held.get();
}

/// Tells whether an earlier command of the task is still to be taken back; its successor waits for that.
fn recalled(plan: &Plan, task: &Task) -> bool {
    plan.recalls().any(|attempt| attempt.task == task.number)
}

fn stuck(plan: &Plan, due: &mut Due, reason: &str) {
    if plan.open_questions().next().is_none() {
        let counts = plan.counts();
        let reason = format!(
            "{reason}: {} failed, {} waiting",
            counts.failed, counts.pending
        );
        due.step(Step::AskHuman(About::Stuck, None, reason));
    }
}

fn minutes(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        seconds if seconds >= 120 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
