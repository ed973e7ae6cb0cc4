//! Computes what should be under way now, and when to compute it again. Everything is derived from the plan and from what was
//! observed outside; nothing is remembered. A restart, a lost event and an edit by another process therefore all lead to the
//! same state.
//! The cost depends on the open attempts and questions, never on the size of the plan.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::concurrency::Lanes;
use super::counted;
use super::draft::acceptable;
use super::model::{
    ActiveTime, Attempt, AttemptState, BudgetLimit, CommandId, HumanQuestion, HumanQuestionKind,
    IntegrationBranch, JudgePolicy, ModelQuestionKind, PlanState, ReportStatus, ReviewPolicy,
    SessionId, SessionScope, Task, TaskId, Time,
};
use super::plan_in_memory::Plan;
use super::rule_decisions::certain;
use super::worker_pools::{WorkerPoolState, WorkerPools};

/// How long a plan waits for its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// How long an agent may repair an unreadable report by itself before a repair is requested.
    pub repair: Duration,
    /// Within this time a worker for the tasks of a role claims a command. After that, an unclaimed command holds only the
    /// lanes of its role. Withdrawing it would make it vanish before a person's eyes; not counting it at all would start two
    /// tasks in its place. The price: a late claim may exceed `max_parallel`.
    pub untaken: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            repair: Duration::from_secs(5),
            untaken: Duration::from_secs(10),
        }
    }
}

/// Active time is recorded at least this often, so a kill loses less than this.
const RECORD: Duration = Duration::from_secs(60);

/// A recorded time that is ahead by less than this was recorded by this process.
const JUST_NOW: Duration = Duration::from_secs(60);

/// More suspensions than a machine has within the age of an attempt.
const MOST_STILL: usize = 64;

/// The state outside the plan, in memory only.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    pub waits: Timeouts,
    pub now: Time,
    /// When this daemon started; silence before that counts against no agent.
    pub started: Time,
    /// When the last complete scan of the folders began.
    pub scan_began: Option<Time>,
    /// The last heartbeat of open attempts.
    pub signs: BTreeMap<CommandId, Time>,
    /// The failures of a model that agents report while they only retry it.
    pub faults: BTreeMap<CommandId, String>,
    /// When the daemon, and perhaps its agents, were suspended: the end and the length of each suspension.
    pub still: Vec<(Time, Duration)>,
    /// How long this daemon has been active: something was under way that did not only wait for a human, and the machine was
    /// not suspended.
    pub lived: Duration,
    /// The questions that the model is being asked; each of these calls was counted when it began.
    pub asking: BTreeSet<ModelQuestionKind>,
    /// The workers that were started for dispatched commands.
    pub pools: WorkerPools,
    /// Until when a role was seen at work: its other tasks wait for the role itself, so a worker is not missing.
    pub held: BTreeMap<String, Time>,
    /// Sessions whose `end` command was published; the plan may not have recorded this yet.
    pub ends_published: BTreeSet<SessionId>,
}

impl Observations {
    /// Records that the daemon was suspended for a span that ends now.
    pub fn stood_still(&mut self, span: Duration) {
        if self.still.len() == MOST_STILL {
            // A timeout that began between the two suspensions becomes longer than necessary.
            let (_, first) = self.still.remove(0);
            self.still[0].1 += first;
        }
        self.still.push((self.now, span));
    }

    /// Returns how much of its active time this daemon has spent on the plan.
    pub fn active_time(&self) -> ActiveTime {
        ActiveTime {
            since: self.started,
            span: self.lived,
        }
    }

    /// Returns the time a span after another time; suspensions do not count.
    fn after(&self, moment: Time, span: Duration) -> Time {
        let still = self.still.iter().filter(|(end, _)| *end > moment);
        moment.plus(span).plus(still.map(|(_, span)| *span).sum())
    }
}

/// One thing that should be under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DueStep {
    /// Ask the agent to stop, or withdraw the command.
    Withdraw(CommandId),
    /// Inspect what a reported attempt changed.
    Inspect(CommandId),
    /// Run the checks of a reported attempt.
    Check(CommandId),
    /// Ask the language model.
    Ask(ModelQuestionKind),
    /// Make the next command of a task.
    Issue(TaskId),
    /// Ask for a readable report.
    Repair(CommandId),
    /// Time an attempt out; the text says why.
    TimeOut(CommandId, String),
    /// Decide a reported attempt by rules.
    JudgeByRules(CommandId),
    /// Let the task wait until the agent's usage limit ends.
    Park(CommandId),
    /// Put the agent's question to the human.
    AgentAsks(CommandId),
    /// Ask the human.
    AskHuman(HumanQuestionKind, Option<TaskId>, String),
    /// Complete the task of an attempt that was accepted and has been merged again since.
    Accept(CommandId),
    /// Move the results' branch to the accepted commit.
    MoveBranch,
    /// Stop where a limit of the budget is reached, and ask the human.
    StopAtBudget(BudgetLimit),
    /// Record the active time.
    CountTime,
    /// End a session that is over.
    EndSession(SessionId),
    /// Record that sessions were ended, when no other change follows that would record it.
    RecordEnds,
    /// End the plan; every task is settled.
    Settle,
}

impl DueStep {
    /// Returns whether the plan's own data decides the step: it is carried out within a change and needs nothing from outside.
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
    pub steps: Vec<DueStep>,
    /// When something may become due by itself.
    pub look_again: Option<Time>,
    /// A timeout is due, but only a scan of the folders that begins now may confirm it.
    pub rescan: bool,
    /// Something would be under way if the workers for it could work.
    pub held: bool,
}

impl Due {
    fn step(&mut self, step: DueStep) {
        self.steps.push(step);
    }

    fn look(&mut self, at: Time) {
        self.look_again = Some(self.look_again.map_or(at, |before| before.min(at)));
    }

    fn stops(&self) -> bool {
        let stops = |step: &DueStep| matches!(step, DueStep::StopAtBudget(_));
        self.steps.iter().any(stops)
    }

    /// Returns whether nothing is due, now or later.
    pub fn nothing(&self) -> bool {
        self.steps.is_empty() && self.look_again.is_none() && !self.rescan
    }
}

/// Returns what is due. For every plan that is neither settled, idle nor paused the result has a step, a time to compute it
/// again or a request to scan the folders, or the plan has an open question. A budget limit stops what would begin; what is
/// under way goes on.
pub fn due(plan: &Plan, world: &Observations) -> Due {
    let mut due = Due::default();
    let head = plan.head();
    for attempt in plan.recalls() {
        due.step(DueStep::Withdraw(attempt.id.clone()));
    }
    for session in plan.open_sessions() {
        let task_over = plan
            .task(session.task)
            .is_none_or(|task| task.status.settled());
        if head.status.settled() || (head.policy.session == SessionScope::Task && task_over) {
            due.step(DueStep::EndSession(session.id.clone()));
        }
    }
    if head.line.as_ref().is_some_and(IntegrationBranch::behind) {
        due.step(DueStep::MoveBranch);
    }
    let unrecorded = |id: &SessionId| plan.ends_unpublished(id);
    if head.status.settled() && world.ends_published.iter().any(unrecorded) {
        due.step(DueStep::RecordEnds);
    }
    if head.status.settled() || head.status == PlanState::Idle {
        return due;
    }
    for attempt in plan.open_attempts() {
        match attempt.state {
            AttemptState::Open => await_report(plan, world, attempt, &mut due),
            _ => decide(plan, world, attempt, &mut due),
        }
    }
    if head.status == PlanState::Running && !world.pools.none_left() {
        go_on(plan, world, &mut due);
    }
    if head.usage.unrecorded(world.active_time()) >= RECORD {
        due.step(DueStep::CountTime);
    }
    due
}

/// Returns whether something may begin that a budget limit can forbid. A limit pauses a running plan; in a paused plan it only
/// prevents the start.
fn may_begin(plan: &Plan, stopped: Option<BudgetLimit>, due: &mut Due) -> bool {
    if let Some(limit) = stopped
        && *plan.status() == PlanState::Running
        && !due.stops()
    {
        due.step(DueStep::StopAtBudget(limit));
    }
    stopped.is_none()
}

/// Returns the state of the workers for a task.
fn pool_of(plan: &Plan, world: &Observations, task: TaskId) -> WorkerPoolState {
    world.pools.of(plan.role_of(task))
}

fn await_report(plan: &Plan, world: &Observations, attempt: &Attempt, due: &mut Due) {
    let policy = &plan.head().policy;
    let paused = plan.head().status != PlanState::Running;
    let pool = pool_of(plan, world, attempt.task);
    let begins = !paused && pool == WorkerPoolState::Works;
    if let WorkerPoolState::Gone(since) = pool
        && !world.signs.contains_key(&attempt.id)
        && !world.pools.none_left()
    {
        // These workers returned the commands they had not begun. Withdrawing the command frees its lane for other tasks.
        due.held = true;
        if scanned_since(world, since, due) {
            due.step(DueStep::Withdraw(attempt.id.clone()));
        }
        return;
    }
    if let Some(rejected) = &attempt.rejected {
        let at = rejected.at.plus(world.waits.repair);
        match (world.now >= at, begins) {
            (false, _) => due.look(at),
            (true, true) if may_begin(plan, plan.no_repair(world.active_time()), due) => {
                due.step(DueStep::Repair(attempt.id.clone()));
            }
            (true, _) => due.held |= pool != WorkerPoolState::Works,
        }
        return;
    }
    let Some(claimed) = attempt.claimed.map(|time| known(time, world)) else {
        // A pause for the limit of attempts does not withdraw commands: the last attempts of a budget are claimed like any
        // other.
        if paused && plan.stopped_at() != Some(BudgetLimit::Attempts) {
            due.step(DueStep::Withdraw(attempt.id.clone()));
            return;
        }
        let asked = plan
            .open_questions()
            .any(|q| q.task == Some(attempt.task) && q.about == HumanQuestionKind::Unclaimed);
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
                "no worker takes commands{of_whom}: `{}` has waited for {}",
                attempt.id,
                minutes(policy.task_timeout)
            );
            due.step(DueStep::AskHuman(
                HumanQuestionKind::Unclaimed,
                Some(attempt.task),
                reason,
            ));
        }
        return;
    };
    let of_request = |q: &HumanQuestion| q.task == Some(attempt.task) && q.request.is_some();
    if plan.open_questions().any(of_request) {
        // The attempt cannot continue before a person has answered.
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
        due.step(DueStep::TimeOut(attempt.id.clone(), reason));
    }
}

fn no_sign(world: &Observations, attempt: &Attempt, span: Duration) -> String {
    let fault = world
        .faults
        .get(&attempt.id)
        .map(|said| format!(": its agent only asked a model again that fails: {said}"));
    format!(
        "no heartbeat for {}{}",
        minutes(span),
        fault.unwrap_or_default()
    )
}

/// Returns since when an unclaimed command has waited while a worker could have claimed it.
fn untaken_since(plan: &Plan, world: &Observations, attempt: &Attempt) -> Time {
    let role = plan.role_of(attempt.task);
    let held = role.and_then(|role| world.held.get(role)).copied();
    known(attempt.waiting_since, world)
        .max(world.started)
        .max(held.unwrap_or_default())
}

/// Counts the unclaimed commands of roles that seem to have no worker. No agent works on these commands, so other tasks of the
/// plan may use their lanes. A command that is claimed later runs alongside what began meanwhile.
fn untaken(plan: &Plan, world: &Observations, due: &mut Due) -> usize {
    let policy = &plan.head().policy;
    // One conversation cannot be about two tasks simultaneously.
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

/// Returns a recorded time. A time that is ahead because the clock of an earlier process was wrong is replaced by the start of
/// this daemon. A time that was recorded just now may also be ahead, within the change that records it.
fn known(recorded: Time, world: &Observations) -> Time {
    if recorded.since(world.now) > JUST_NOW {
        world.started
    } else {
        recorded
    }
}

/// Returns whether the folders were scanned since a given time; else requests a scan.
fn scanned_since(world: &Observations, at: Time, due: &mut Due) -> bool {
    let scanned = world.scan_began.is_some_and(|began| began >= at);
    due.rescan |= !scanned;
    scanned
}

fn decide(plan: &Plan, world: &Observations, attempt: &Attempt, due: &mut Due) {
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
        due.step(DueStep::AgentAsks(id));
    } else if report.blocked_until.is_some() {
        due.step(DueStep::Park(id));
    } else if attempt.changes.is_none() {
        due.step(DueStep::Inspect(id));
    } else if check && attempt.checks.is_none() {
        if !merge || is_next(plan, attempt) {
            due.step(DueStep::Check(id));
        }
    } else if attempt.verdict.is_some() {
        due.step(DueStep::Accept(id));
    } else if !policy.model || (policy.judging == JudgePolicy::OnDoubt && certain(attempt)) {
        due.step(DueStep::JudgeByRules(id));
    } else {
        ask(plan, world, ModelQuestionKind::Judge(id), due);
    }
}

/// Returns whether an attempt is the next to be merged. Attempts are merged one at a time, in the order of their reports. A
/// merged attempt that awaits its verdict comes first: its acceptance would invalidate the merges of the others. An attempt
/// that waits for a human does not block the others.
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

/// Adds a step to ask the model, unless the model has failed at this question and a human must say how to continue.
fn ask(plan: &Plan, world: &Observations, subject: ModelQuestionKind, due: &mut Due) {
    let failed = plan
        .open_asks()
        .any(|ask| ask.subject == subject && ask.error.is_some());
    if failed {
        return;
    }
    if world.asking.contains(&subject) || may_begin(plan, plan.no_call(world.active_time()), due) {
        due.step(DueStep::Ask(subject));
    }
}

fn go_on(plan: &Plan, world: &Observations, due: &mut Due) {
    let head = plan.head();
    let counts = plan.counts();
    if counts.total() == 0 {
        if head.policy.model {
            ask(plan, world, ModelQuestionKind::Plan, due);
        } else {
            let reason = "there is no plan, and no language model to make one";
            stuck(plan, due, reason);
        }
        return;
    }
    if head.replan.is_some() {
        return ask(plan, world, ModelQuestionKind::Replan, due);
    }
    if head.review == ReviewPolicy::Wanted {
        let mut open = plan.open_questions();
        if !open.any(|question| question.about == HumanQuestionKind::Review) {
            let tasks = counted(counts.total(), "task");
            let reason = format!("the plan has {tasks}; may it start?");
            due.step(DueStep::AskHuman(HumanQuestionKind::Review, None, reason));
        }
        return;
    }
    if counts.settled() == counts.total() {
        let behind = head.line.as_ref().is_some_and(IntegrationBranch::behind);
        let about_budget = |about: HumanQuestionKind| matches!(about, HumanQuestionKind::Budget(_));
        if plan.open_questions().all(|open| about_budget(open.about)) && !behind {
            finish(plan, world, due);
        }
        return;
    }
    dispatch(plan, world, due);
    if due.nothing() && !due.held && plan.open_attempts().next().is_none() {
        stuck(plan, due, "nothing can start any more");
    }
}

fn finish(plan: &Plan, world: &Observations, due: &mut Due) {
    let head = plan.head();
    let failed = plan.counts().failed > 0;
    if head.policy.model && head.policy.audit && head.audited.is_none() && !failed {
        return ask(plan, world, ModelQuestionKind::Audit, due);
    }
    let under_way = world.asking.contains(&ModelQuestionKind::Summary);
    let may_ask = under_way || plan.no_call(world.active_time()).is_none();
    if head.policy.model && !plan.summary_failed() && may_ask {
        return ask(plan, world, ModelQuestionKind::Summary, due);
    }
    due.step(DueStep::Settle);
}

/// Dispatches what may start, retries before new tasks, as far as lanes are free. Tasks of a role without free lanes or without
/// workers do not block other tasks.
fn dispatch(plan: &Plan, world: &Observations, due: &mut Due) {
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
        let lost = world.pools.of(role) != WorkerPoolState::Works;
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
                None if may_begin(plan, plan.no_attempt(world.active_time()), due) => {
                    due.step(DueStep::Issue(task.number));
                }
                None => break,
            }
        }
        // A recalled attempt ends soon: its lane stays reserved, so that no other task starts before the retry.
        lanes.occupy(task.assignee.as_deref(), task.number);
    }
    due.held |= held.get();
}

/// Returns whether an earlier command of the task must still be withdrawn; its successor waits for that.
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
        due.step(DueStep::AskHuman(HumanQuestionKind::Stuck, None, reason));
    }
}

fn minutes(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        seconds if seconds >= 120 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
