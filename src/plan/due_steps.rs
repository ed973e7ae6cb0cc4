//! Computes what should be under way now, and when to compute it again. Everything is derived from the plan and from what was
//! observed outside; nothing is remembered. A restart, a lost event and an edit by another process therefore all lead to the
//! same state.
//! The cost depends on the open attempts and questions and on the number of roles, never on the size of the plan.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::proof::{is_checked, is_provable};
use super::rule_decisions::{certain, settled};
use super::*;

/// How long a plan waits for its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// How long an agent may repair an unreadable report by itself before a repair is requested.
    pub repair: Duration,
    /// Within this time a worker for the tasks of a role claims a command. After that, an unclaimed command holds only the
    /// lanes of its role. Withdrawing it would make it vanish before a person's eyes; not counting it at all would start two
    /// tasks in its place. The price: a late claim may exceed `max_parallel`.
    pub untaken: Duration,
    /// A model that is away is asked again after this, and then after twice as long each time, up to 20 times it.
    pub away: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            repair: Duration::from_secs(5),
            untaken: Duration::from_secs(10),
            away: Duration::from_secs(15),
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
    /// The locks that tasks of other plans hold now. The daemon computes what is due again when it changes.
    pub held_locks: HeldLocks,
    /// The most tasks of the plan that may be under way now, because other plans use lanes, too; `None`: as its policy says.
    pub lanes: Option<usize>,
    /// The day whose budget holds over all plans, if one is configured.
    pub day: Option<BudgetDay>,
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
        let (since, span) = (self.started, self.lived);
        ActiveTime { since, span }
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
    /// Have something done outside of the plan.
    Effect(DueEffect),
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
    /// Ask the human about a question to the model that failed.
    AskAboutModel(AskId),
    /// Ask the human.
    AskHuman(HumanQuestionKind, Option<TaskId>, String),
    /// Complete the task of an attempt that was accepted and has been merged again since.
    Accept(CommandId),
    /// Stop where a limit of the budget is reached, and ask the human.
    StopAtBudget(BudgetLimit),
    /// Stop where a limit of the day's budget is reached, and ask the human.
    StopAtDayBudget(BudgetLimit),
    /// Go on, because the day's budget allows it now.
    GoOnAfterDay,
    /// Record the active time.
    CountTime,
    /// End a session that is over.
    EndSession(SessionId),
    /// Record that sessions were ended, when no other change follows that would record it.
    RecordEnds,
    /// End the plan; every task is settled.
    Settle,
}

/// What is done outside of the plan; its result comes back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DueEffect {
    /// Ask the agent to stop, or withdraw the command.
    Withdraw(CommandId),
    /// Inspect what a reported attempt changed.
    Inspect(CommandId),
    /// Run the checks of a reported attempt.
    Check(CommandId),
    /// Run the checks of a task on the state before its first attempt.
    CheckBefore(TaskId),
    /// Run the checks of completed tasks again that said nothing.
    CheckAgain,
    /// Run what proved tasks on the state that all tasks have left.
    CheckAtEnd,
    /// Ask the language model.
    Ask(ModelQuestionKind),
    /// Move the results' branch to the accepted commit.
    MoveBranch,
}

impl DueStep {
    /// Returns whether the plan's own data decides the step: it is carried out within a change and needs nothing from outside.
    pub fn is_decision(&self) -> bool {
        !matches!(self, Self::Effect(_))
    }
}

impl From<DueEffect> for DueStep {
    fn from(effect: DueEffect) -> Self {
        Self::Effect(effect)
    }
}

/// What is due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    pub steps: Vec<DueStep>,
    /// When something may become due by itself.
    pub look_again: Option<Time>,
    /// When the day ends whose budget stopped the plan.
    pub next_day: Option<Time>,
    /// A timeout is due, but only a scan of the folders that begins now may confirm it.
    pub rescan: bool,
    /// Something would be under way if the workers for it could work.
    pub held: bool,
    /// Other plans of the same daemon have lanes that this one may use later.
    pub crowded: bool,
    /// Something would be under way if no task of another plan held its lock.
    pub locked: bool,
}

impl Due {
    fn step(&mut self, step: impl Into<DueStep>) {
        self.steps.push(step.into());
    }

    fn stops(&self) -> bool {
        use DueStep::{StopAtBudget, StopAtDayBudget};
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, StopAtBudget(_) | StopAtDayBudget(_)))
    }

    /// Returns whether nothing is due, now or later this day.
    pub fn nothing(&self) -> bool {
        self.steps.is_empty() && self.look_again.is_none() && !self.rescan
    }
}

/// Returns what is due. For every plan that is neither settled, idle nor paused the result has a step, a time to compute it
/// again or a request to scan the folders, or the plan has an open question. A budget limit stops what would begin; what is
/// under way goes on.
pub fn due(plan: &Plan, world: &Observations) -> Due {
    let due = Due::default();
    let mut search = DueSearch { plan, world, due };
    search.all();
    search.due
}

/// A computation of what is due.
struct DueSearch<'a> {
    plan: &'a Plan,
    world: &'a Observations,
    due: Due,
}

impl DueSearch<'_> {
    fn all(&mut self) {
        let (plan, world) = (self.plan, self.world);
        let head = plan.head();
        let settled = head.status.settled();
        for attempt in plan.recalls() {
            self.due.step(DueEffect::Withdraw(attempt.id.clone()));
        }
        for session in plan.open_sessions() {
            let task = plan.task(session.task);
            let task_over = task.is_none_or(|task| task.status.settled());
            if settled || (head.policy.session == SessionScope::Task && task_over) {
                self.due.step(DueStep::EndSession(session.id.clone()));
            }
        }
        if self.branch_behind() {
            self.due.step(DueEffect::MoveBranch);
        }
        let unrecorded = |id: &SessionId| plan.ends_unpublished(id);
        if settled && world.ends_published.iter().any(unrecorded) {
            self.due.step(DueStep::RecordEnds);
        }
        if settled || head.status == PlanState::Idle {
            return;
        }
        self.await_day();
        for attempt in plan.open_attempts() {
            match attempt.state {
                AttemptState::Open => self.await_report(attempt),
                _ => self.decide(attempt),
            }
            // A command that waits for its checks may be taken back meanwhile.
            let taken_back = DueEffect::Withdraw(attempt.id.clone()).into();
            if awaits_before(plan, attempt.task) && self.due.steps.last() != Some(&taken_back) {
                self.due.step(DueEffect::CheckBefore(attempt.task));
            }
        }
        if head.status == PlanState::Running {
            self.check_again();
        }
        if head.status == PlanState::Running && !world.pools.none_left() {
            self.go_on();
        }
        if head.usage.unrecorded(world.active_time()) >= RECORD {
            self.due.step(DueStep::CountTime);
        }
    }

    /// Has silent checks run again: where git has the state, when later tasks are done; else when no task is left that may work in
    /// the folder.
    fn check_again(&mut self) {
        let (plan, head) = (self.plan, self.plan.head());
        let counts = plan.counts();
        let aside = head.line.is_some() || head.tree.is_some();
        let is_completed = |id: &TaskId| {
            let task = plan.task(*id);
            task.is_some_and(|task| task.status == TaskState::Completed)
        };
        if head.silent.later > 0
            && (aside || counts.settled() == counts.total())
            && head.silent.tasks.iter().any(is_completed)
        {
            self.due.step(DueEffect::CheckAgain);
        }
    }

    fn branch_behind(&self) -> bool {
        let head = self.plan.head();
        // A person has removed it after the end: it is made again when the plan goes on.
        let removed = |line: &&IntegrationBranch| {
            head.status.settled() && line.shown.is_none() && head.results.is_some()
        };
        let line = head.line.as_ref().filter(|line| !removed(line));
        line.is_some_and(IntegrationBranch::behind)
    }

    /// Returns whether something may begin that a budget limit can forbid. A limit pauses a running plan; in a paused plan it
    /// only prevents the start.
    fn may_begin(&mut self, stopped: Option<BudgetLimit>) -> bool {
        let stop = stopped.map(DueStep::StopAtBudget);
        let stop = stop.or_else(|| self.day_reached().map(DueStep::StopAtDayBudget));
        let begins = stop.is_none();
        if let Some(stop) = stop
            && *self.plan.status() == PlanState::Running
            && !self.due.stops()
        {
            self.due.step(stop);
        }
        begins
    }

    fn day_reached(&self) -> Option<BudgetLimit> {
        self.plan.day_reached(self.world.day.as_ref()?)
    }

    /// Lets a plan go on that was stopped by the day's budget, or has this computed again when the day ends.
    fn await_day(&mut self) {
        if !self.plan.asks_for_day() {
            return;
        }
        match &self.world.day {
            Some(day) if self.day_reached().is_some() => self.due.next_day = Some(day.ends),
            // Not observed yet.
            None if !self.plan.head().policy.day.is_none() => {}
            _ => self.due.step(DueStep::GoOnAfterDay),
        }
    }

    /// Returns whether it is this time already; else it is to be computed again then.
    fn reached(&mut self, at: Time) -> bool {
        if self.world.now < at {
            let again = &mut self.due.look_again;
            *again = Some(again.map_or(at, |before| before.min(at)));
        }
        self.world.now >= at
    }

    /// Returns whether the folders were scanned since a given time; else requests a scan.
    fn scanned_since(&mut self, at: Time) -> bool {
        let scanned = self.world.scan_began.is_some_and(|began| began >= at);
        self.due.rescan |= !scanned;
        scanned
    }

    fn await_report(&mut self, attempt: &Attempt) {
        let pools = &self.world.pools;
        let pool = pools.of(self.plan.role_of(attempt.task));
        if let WorkerPoolState::Gone(since) = pool
            && !self.world.signs.contains_key(&attempt.id)
            && !pools.none_left()
        {
            // These workers returned the commands they had not begun. Withdrawing the command frees its lane for other
            // tasks.
            self.due.held = true;
            if self.scanned_since(since) {
                self.due.step(DueEffect::Withdraw(attempt.id.clone()));
            }
        } else if let Some(rejected) = &attempt.rejected {
            self.repair(attempt, known(rejected.at, self.world), pool);
        } else if let Some(claimed) = attempt.claimed {
            self.await_sign(attempt, known(claimed, self.world));
        } else {
            self.await_claim(attempt);
        }
    }

    /// Asks for a readable report, unless the agent repairs it by itself.
    fn repair(&mut self, attempt: &Attempt, rejected: Time, pool: WorkerPoolState) {
        if !self.reached(rejected.plus(self.world.waits.repair)) {
            return;
        }
        let works = pool == WorkerPoolState::Works;
        if works
            && *self.plan.status() == PlanState::Running
            && self.may_begin(self.plan.no_repair(self.world.active_time()))
        {
            self.due.step(DueStep::Repair(attempt.id.clone()));
        }
        self.due.held |= !works;
    }

    fn await_claim(&mut self, attempt: &Attempt) {
        let (plan, policy) = (self.plan, &self.plan.head().policy);
        // A pause for the limit of attempts does not withdraw commands: the last attempts of a budget are claimed like any
        // other.
        if *plan.status() != PlanState::Running && plan.stopped_at() != Some(BudgetLimit::Attempts)
        {
            return self.due.step(DueEffect::Withdraw(attempt.id.clone()));
        }
        if waits_for_checks(plan, attempt) {
            return;
        }
        let task = Some(attempt.task);
        let asked = |q: &HumanQuestion| q.task == task && q.about == HumanQuestionKind::Unclaimed;
        if plan.open_questions().any(asked) {
            return;
        }
        let at = (self.world).after(self.untaken_since(attempt), policy.task_timeout);
        if self.reached(at) && self.scanned_since(at) {
            let role = plan.role_of(attempt.task);
            let known = role.filter(|role| policy.roles.contains_key(*role));
            let here = plan.task(attempt.task);
            let unassigned = here.is_some_and(|task| plan.has_no_worker(task));
            let of_whom = match known {
                Some(role) => format!(" of the role `{role}`"),
                None if unassigned => " of tasks without an assignee".to_owned(),
                None => String::new(),
            };
            let way = plan.relay_for(role).unwrap_or_else(|| match known {
                Some(role) => format!("`plan-agent worker --role {role} --agent NAME` starts one"),
                None => {
                    "`plan-agent resume --agent NAME` or `plan-agent worker` starts one".to_owned()
                }
            });
            let (id, waited) = (&attempt.id, minutes(policy.task_timeout));
            let mut reason =
                format!("no worker takes commands{of_whom}: `{id}` has waited for {waited}; ");
            for refusal in &attempt.refusals {
                reason = reason + refusal + "; ";
            }
            reason += &way;
            self.ask_human(HumanQuestionKind::Unclaimed, task, reason);
        }
    }

    fn ask_human(&mut self, about: HumanQuestionKind, task: Option<TaskId>, reason: String) {
        self.due.step(DueStep::AskHuman(about, task, reason));
    }

    fn await_sign(&mut self, attempt: &Attempt, claimed: Time) {
        let (plan, world) = (self.plan, self.world);
        let of_request = |q: &HumanQuestion| q.task == Some(attempt.task) && q.request.is_some();
        if plan.open_questions().any(of_request) {
            // The attempt cannot continue before a person has answered.
            return;
        }
        // Nor before the limit of a role that is asked has ended.
        let limits = attempt.waits.iter().filter_map(|it| it.limited_until);
        let limited = limits.max().unwrap_or_default();
        if !self.reached(limited) {
            return;
        }
        let claimed = claimed.max(limited);
        let timeout = plan.head().policy.task_timeout;
        let sign = world.signs.get(&attempt.id).copied().unwrap_or(claimed);
        let silent = world.after(sign.max(claimed).max(world.started), timeout);
        let deadline = plan.deadline_of(attempt.task);
        let allowed = deadline.saturating_add(attempt.with_person);
        let too_long = world.after(claimed.max(world.started), allowed);
        let at = silent.min(too_long);
        if self.reached(at) && self.scanned_since(at) {
            let reason = match silent <= too_long {
                true => no_sign(world, attempt, timeout),
                false => format!("not finished within {}", minutes(deadline)),
            };
            self.due.step(DueStep::TimeOut(attempt.id.clone(), reason));
        }
    }

    /// Returns since when an unclaimed command has waited while a worker could have claimed it.
    fn untaken_since(&self, attempt: &Attempt) -> Time {
        let role = self.plan.role_of(attempt.task);
        let held = role.and_then(|role| self.world.held.get(role)).copied();
        let since = known(attempt.waiting_since, self.world).max(self.world.started);
        // Nor does it while all relays that could take it are at a usage limit.
        let limited = attempt.waits_until.unwrap_or_default();
        since.max(held.unwrap_or_default()).max(limited)
    }

    /// Counts the unclaimed commands of roles that seem to have no worker, or of none where every role takes only its own. No agent
    /// works on these commands, so other tasks of the plan may use their lanes. A command that is claimed later runs alongside what
    /// began meanwhile.
    fn untaken(&mut self) -> usize {
        let policy = &self.plan.head().policy;
        // One conversation cannot be about two tasks simultaneously.
        if policy.session == SessionScope::Plan {
            return 0;
        }
        let span = self.world.waits.untaken.min(policy.task_timeout);
        let waits = self.plan.open_attempts().filter(|attempt| {
            let role = self.plan.role_of(attempt.task);
            let of_role = role.is_some_and(|role| policy.roles.contains_key(role));
            (of_role || policy.roles_only)
                && attempt.state == AttemptState::Open
                && attempt.claimed.is_none()
                && self.reached(self.world.after(self.untaken_since(attempt), span))
        });
        waits.count()
    }

    fn decide(&mut self, attempt: &Attempt) {
        let Some(report) = &attempt.report else {
            return;
        };
        let id = attempt.id.clone();
        let policy = &self.plan.head().policy;
        let task = self.plan.task(attempt.task);
        let checked = task.is_some_and(|task| is_checked(self.plan, task));
        // Where each task has a worktree, merging is a check of every result.
        let merge = self.plan.head().line.is_some();
        let check = report.status != ReportStatus::Failed && (merge || checked);
        let failed = |ask: &ModelQuestion| {
            let judge = matches!(&ask.subject, ModelQuestionKind::Judge(of) if *of == id);
            judge && ask.error.is_some() && ask.away.is_none()
        };
        // No answer of the model could accept it.
        let no_answer = !acceptable(attempt) && self.plan.open_asks().any(failed);
        let by_rules = !policy.model
            || no_answer
            || settled(self.plan, attempt)
            || (policy.judging == JudgePolicy::OnDoubt && certain(attempt));
        self.due.step(if report.question.is_some() {
            DueStep::AgentAsks(id)
        } else if report.blocked_until.is_some() {
            DueStep::Park(id)
        } else if attempt.changes.is_none() {
            DueEffect::Inspect(id).into()
        } else if check && attempt.checks.is_none() {
            if merge && !is_next(self.plan, attempt) {
                return;
            }
            DueEffect::Check(id).into()
        } else if attempt.verdict.is_some() {
            DueStep::Accept(id)
        } else if by_rules {
            DueStep::JudgeByRules(id)
        } else {
            return self.ask(ModelQuestionKind::Judge(id));
        });
    }

    /// Adds a step to ask the model, unless the model has failed at this question: then a human must say how to continue, or it
    /// is away and asked again later.
    fn ask(&mut self, subject: ModelQuestionKind) {
        let mut asks = self.plan.open_asks();
        if let Some(ask) = asks.find(|ask| ask.subject == subject && ask.error.is_some())
            && !ask.away.is_some_and(|away| self.asks_again(away))
        {
            if self.plan.needs_person(ask) {
                self.due.step(DueStep::AskAboutModel(ask.id.clone()));
            }
            return;
        }
        if self.world.asking.contains(&subject)
            || self.may_begin(self.plan.no_call(self.world.active_time()))
        {
            self.due.step(DueEffect::Ask(subject));
        }
    }

    fn asks_again(&mut self, away: ModelAway) -> bool {
        let wait = away.until_next(self.world.waits.away);
        self.reached(known(away.at, self.world).plus(wait))
    }

    fn go_on(&mut self) {
        let (plan, head) = (self.plan, self.plan.head());
        let counts = plan.counts();
        if counts.total() == 0 && !head.policy.model {
            self.stuck("there is no plan, and no language model to make one");
        } else if counts.total() == 0 {
            self.ask(ModelQuestionKind::Plan);
        } else if head.replan.is_some() {
            self.ask(ModelQuestionKind::Replan);
        } else if head.review == ReviewPolicy::Wanted {
            let review = |q: &HumanQuestion| q.about == HumanQuestionKind::Review;
            if !plan.open_questions().any(review) {
                let tasks = counted(counts.total() - counts.skipped, "task");
                let reason = format!("the plan has {tasks}; may it start?");
                self.ask_human(HumanQuestionKind::Review, None, reason);
            }
        } else if counts.settled() == counts.total() {
            use HumanQuestionKind::{Budget, DayBudget, Model};
            // A model that is away is asked again beside its question.
            let beside = |q: &HumanQuestion| matches!(q.about, Budget(_) | DayBudget(_) | Model);
            let again = self.due.steps.contains(&DueEffect::CheckAgain.into());
            if plan.open_questions().all(beside) && !self.branch_behind() && !again {
                let confirmed = counts.failed > 0 || !self.world.asking.is_empty();
                match !confirmed && !plan.unconfirmed().1.is_empty() {
                    true => self.due.step(DueEffect::CheckAtEnd),
                    false => self.finish(),
                }
            }
        } else {
            self.dispatch();
            let waits = self.due.held || self.due.locked || self.due.crowded;
            if self.due.nothing() && !waits && plan.open_attempts().next().is_none() {
                self.stuck("nothing can start any more");
            }
        }
    }

    fn finish(&mut self) {
        let (plan, head) = (self.plan, self.plan.head());
        let failed = plan.counts().failed > 0;
        if head.policy.model && head.policy.audit && head.audited.is_none() && !failed {
            return self.ask(ModelQuestionKind::Audit);
        }
        let under_way = self.world.asking.contains(&ModelQuestionKind::Summary);
        let may_ask = under_way
            || (plan.no_call(self.world.active_time()).is_none() && self.day_reached().is_none());
        if head.policy.model && !plan.summary_failed() && may_ask {
            return self.ask(ModelQuestionKind::Summary);
        }
        self.due.step(DueStep::Settle);
    }

    /// Dispatches what may start, retries before new tasks, as far as lanes are free. Tasks of a role without free lanes or
    /// without workers do not block other tasks.
    fn dispatch(&mut self) {
        let (plan, world) = (self.plan, self.world);
        let mut lanes = Lanes::of(plan);
        let own = lanes.most;
        if lanes.full() {
            lanes.most += self.untaken();
        }
        lanes.most = lanes.most.min(world.lanes.unwrap_or(usize::MAX));
        self.due.crowded = lanes.most < own;
        let mut locks = plan.held_locks();
        let mut retries = plan.to_be_retried();
        let mut fresh = match lanes.full() {
            true => Startable::default(),
            false => plan.startable(),
        };
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
            let here = |lock: &String| locks.get(lock).is_some_and(|by| *by != task.number);
            let elsewhere = |lock: &String| world.held_locks.contains_key(lock);
            if task.locks.iter().any(|lock| here(lock) || elsewhere(lock)) {
                self.due.locked |= task.locks.iter().any(elsewhere);
                continue;
            }
            // A recalled attempt must be withdrawn before its successor begins. It ends soon: its lane stays reserved, so that
            // no other task starts before the retry.
            if !plan.recalls().any(|attempt| attempt.task == task.number) {
                if !task.not_before.is_none_or(|at| self.reached(at)) {
                    continue;
                }
                if !self.may_begin(plan.no_attempt(world.active_time())) {
                    break;
                }
                self.due.step(DueStep::Issue(task.number));
            }
            locks.extend(task.locks.iter().map(|lock| (lock.clone(), task.number)));
            lanes.occupy(task.assignee.as_deref(), task.number);
        }
        self.due.held |= held.get();
    }

    fn stuck(&mut self, reason: &str) {
        if self.plan.open_questions().next().is_none() {
            let counts = self.plan.counts();
            let (failed, waiting) = (counts.failed, counts.pending);
            let reason = format!("{reason}: {failed} failed, {waiting} waiting");
            self.ask_human(HumanQuestionKind::Stuck, None, reason);
        }
    }
}

/// Returns whether the checks of a task are to run on the state before its first attempt.
pub fn awaits_before(plan: &Plan, task: TaskId) -> bool {
    let status = plan.status();
    let Some(task) = plan.task(task).filter(|task| task.before.is_empty()) else {
        return false;
    };
    let current = plan.current_attempt(task);
    let open = current.is_some_and(|attempt| attempt.state.open());
    open && is_provable(plan, task) && !status.settled() && *status != PlanState::Idle
}

/// Returns whether the command of an attempt goes out only once the checks have run on the state before, which git does not keep.
pub fn waits_for_checks(plan: &Plan, attempt: &Attempt) -> bool {
    attempt.tree.is_none() && attempt.claimed.is_none() && awaits_before(plan, attempt.task)
}

/// Returns a recorded time. A time that is ahead because the clock of an earlier process was wrong is replaced by the start of
/// this daemon. A time that was recorded just now may also be ahead, within the change that records it.
fn known(recorded: Time, world: &Observations) -> Time {
    match recorded.since(world.now) > JUST_NOW {
        true => world.started,
        false => recorded,
    }
}

fn no_sign(world: &Observations, attempt: &Attempt, span: Duration) -> String {
    let span = minutes(span);
    match world.faults.get(&attempt.id) {
        Some(said) => format!(
            "no heartbeat for {span}: its agent only asked a model again that fails: {said}"
        ),
        None => format!("no heartbeat for {span}"),
    }
}

/// Returns whether an attempt is the next to be merged. Attempts are merged one at a time, in the order of their reports. A
/// merged attempt that awaits its verdict comes first: its acceptance would invalidate the merges of the others. An attempt
/// that waits for a human does not block the others.
fn is_next(plan: &Plan, attempt: &Attempt) -> bool {
    let tip = plan.head().line.as_ref().map(|line| &line.tip);
    let place = |attempt: &Attempt| {
        let report = attempt.report.as_ref()?;
        let answers = report.question.is_none() && report.blocked_until.is_none();
        let merges = report.status != ReportStatus::Failed && answers;
        let merged = attempt.merge.as_ref().map(|merge| &merge.onto);
        let first = attempt.checks.is_some();
        let ready = !first || (merged == tip && acceptable(attempt));
        let counts = merges && ready && !plan.asks_about(attempt.task);
        counts.then(|| (!first, report.received, attempt.id.clone()))
    };
    let before = plan.open_attempts().filter_map(place).min();
    before.is_none_or(|(_, _, first)| first == attempt.id)
}

fn minutes(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        seconds if seconds >= 120 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
