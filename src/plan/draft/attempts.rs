//! Operations on attempts: dispatch, heartbeats, reports, checks, timeouts, withdrawals.

use super::*;
use crate::plan::proof::doubt_choice_of_model;

/// The most repairs of unreadable reports; after them the attempt has failed.
const MAX_REPAIRS: u32 = 2;

/// The most tasks that are noted as running alongside an attempt.
const MAX_BESIDE: usize = 20;

/// The most reasons that are noted why relays cannot work on a command.
const MAX_REFUSALS: usize = 5;

/// A command to be dispatched.
#[derive(Clone, Debug)]
pub struct NewCommand {
    pub id: CommandId,
    pub kind: AttemptKind,
    /// The session that the command names; `None` is `auto`.
    pub session: Option<SessionId>,
    /// The whole command file.
    pub text: String,
}

/// How a report counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliedReport {
    /// It counts: the judge decides on it.
    Counts,
    /// It came too late to count and is kept as evidence for the judge, or the attempt already has another report.
    Stale,
    /// It is the report that is recorded already, and it counts.
    Known,
}

impl Draft<'_> {
    /// Dispatches a task: a first attempt, a retry, or the repair of an unreadable report.
    ///
    /// # Errors
    /// The plan does not run, is being reviewed or changed, its budget allows no attempt, the task waits for others, is
    /// settled, has an attempt under way, or a human is asked about it.
    pub fn issue(&mut self, id: TaskId, issue: NewCommand) -> Result {
        let head = self.plan.head();
        let lived = head.usage.lived;
        let repair = issue.kind == AttemptKind::Repair;
        refuse_if(head.status != PlanState::Running, self.plan_is())?;
        let changes = head.review == ReviewPolicy::Wanted || (head.replan.is_some() && !repair);
        refuse_if(changes, Refusal::Replanning)?;
        let stopped = match repair {
            true => self.plan.no_repair(lived),
            false => self.plan.no_attempt(lived),
        };
        self.within_budget(stopped)?;
        let mut task = self.task(id)?;
        let before = self.plan.current_attempt(&task).cloned();
        if let Some(before) = &before {
            let unreadable = before.state == AttemptState::Open && before.rejected.is_some();
            let awaited = !repair || unreadable;
            refuse_if(!awaited, Refusal::NotAwaited(before.id.clone()))?;
            refuse_if(!repair && before.state.open(), Refusal::Busy(id))?;
        }
        refuse_if(task.status.settled(), Refusal::not_editable(&task))?;
        if task.status == TaskState::Pending {
            self.check_ready(&task)?;
        }
        refuse_if(self.plan.asks_about(id), Refusal::Asking(id))?;
        let mut attempt = Attempt {
            kind: issue.kind,
            session: issue.session,
            text: issue.text,
            ..Attempt::new(issue.id.clone(), id, task.attempts, self.now)
        };
        if let Some(mut garbled) = before.clone().filter(|_| repair) {
            garbled.state = AttemptState::Garbled;
            // The bad report may have come for the command before it, and this one still waits for an agent.
            garbled.recall |= garbled.kind == AttemptKind::Repair;
            attempt.rejections = garbled.rejections;
            attempt.tree.clone_from(&garbled.tree);
            attempt.beside.clone_from(&garbled.beside);
            self.insert_attempt(garbled);
        } else {
            task.attempts += 1;
            task.note = None;
            attempt.told = task.told.take();
            if let Some(line) = &self.plan.head().line {
                // No other task works in a task's own worktree.
                attempt.tree = Some(begins_with(before.as_ref(), line));
            } else {
                attempt.tree.clone_from(&self.plan.head().tree);
                attempt.beside = self.join_others(id);
            }
        }
        if !repair {
            attempt.allowed = std::mem::take(&mut task.allowed_next);
        }
        attempt.number = task.attempts;
        task.status = TaskState::InProgress;
        task.started_at = task.started_at.or(Some(self.now));
        task.current = Some(issue.id.clone());
        task.not_before = None;
        self.log(Event::Issued {
            task: id,
            attempt: attempt.number,
            command: issue.id,
            kind: issue.kind,
            role: task.assignee.clone(),
        });
        self.insert_attempt(attempt);
        self.insert(task);
        Ok(())
    }

    /// Notes a task on the attempts that are under way in the same folder, and returns their tasks.
    fn join_others(&mut self, task: TaskId) -> Vec<TaskId> {
        let others = self.plan.awaited_attempts();
        let others = others.filter(|other| other.task != task);
        let others: Vec<Attempt> = others.take(MAX_BESIDE).cloned().collect();
        let numbers = others.iter().map(|other| other.task).collect();
        for mut other in others {
            if !other.beside.contains(&task) && other.beside.len() < MAX_BESIDE {
                other.beside.push(task);
                self.insert_attempt(other);
            }
        }
        numbers
    }

    /// Notes that a person has merged the results of another plan into the folder of this one: what failed there before proves
    /// nothing any more.
    pub fn merged_beside(&mut self, results: &PlanId) {
        let begun = |task: &&Task| self.plan.attempts_of(task.number).next().is_some();
        let open = self.plan.tasks().filter(|task| !task.status.settled());
        for mut task in open.filter(begun).cloned().collect::<Vec<_>>() {
            task.merged_beside = Some(results.clone());
            self.insert(task);
        }
    }

    /// Records the new git snapshot of the workspace.
    pub fn record_tree(&mut self, tree: &str) {
        if self.plan.head().tree.as_deref() != Some(tree) {
            let tree = Some(tree.to_owned());
            self.change_head(|head| head.tree = tree);
        }
    }

    /// Records what changed in the workspace during a reported attempt, and the new git snapshot of the workspace if one
    /// exists. Words alone are no success: there has to be a change beside them.
    ///
    /// # Errors
    /// The attempt awaits no inspection.
    pub fn inspected(
        &mut self,
        id: &CommandId,
        changes: ChangedFiles,
        tree: Option<&str>,
    ) -> Result {
        let mut attempt = self.attempt_if(id, |attempt| {
            attempt.state == AttemptState::Reported && attempt.changes.is_none()
        })?;
        if let Some(report) = &mut attempt.report
            && report.author == ReportAuthor::WorkerByWords
            && report.status == ReportStatus::Success
            && changes.files.is_empty()
        {
            report.status = ReportStatus::PartialSuccess;
        }
        attempt.changes = Some(changes);
        self.insert_attempt(attempt);
        if let Some(tree) = tree {
            self.record_tree(tree);
        }
        Ok(())
    }

    /// Records what the agent of a reported attempt ran, by the word of the agent's program.
    ///
    /// # Errors
    /// There is no such command.
    pub fn ran(&mut self, id: &CommandId, ran: Vec<RanCommand>) -> Result {
        self.change_attempt(id, |attempt| attempt.ran = ran)
    }

    /// Records the first heartbeat of an attempt, with its session if that is known. This closes an open question why no worker
    /// claims the command. Returns whether anything changed.
    ///
    /// # Errors
    /// There is no such command.
    pub fn claim(&mut self, id: &CommandId, session: Option<SessionId>) -> Result<bool> {
        let mut attempt = self.attempt(id)?;
        let first = attempt.claimed.is_none();
        let learned = attempt.session.is_none() && session.is_some();
        if attempt.state != AttemptState::Open || !(first || learned) {
            return Ok(false);
        }
        let task = attempt.task;
        if first {
            attempt.claimed = Some(self.now);
            attempt.refusals.clear();
            let role = self.plan.role_of(task).map(str::to_owned);
            self.log(Event::Claimed {
                task,
                command: id.clone(),
                role,
            });
            self.close_unclaimed(task, "the command was taken");
        }
        if learned {
            attempt.session = session;
        }
        self.insert_attempt(attempt);
        Ok(true)
    }

    /// Records why a relay could not work on a command that still waits.
    ///
    /// # Errors
    /// There is no such command.
    pub fn refused_by_relay(&mut self, id: &CommandId, reason: &str) -> Result {
        let mut attempt = self.attempt(id)?;
        let known = attempt.refusals.iter().any(|known| known == reason);
        let waits = attempt.state == AttemptState::Open && attempt.claimed.is_none();
        if !waits || known || attempt.refusals.len() == MAX_REFUSALS {
            return Ok(());
        }
        attempt.refusals.push(reason.to_owned());
        self.log(Event::RelayRefused(trouble(&attempt, reason)));
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Records which agent works on an attempt, as far as that is known, and on which other machine; `None` if on none any more.
    ///
    /// # Errors
    /// There is no such command.
    pub fn works_at(
        &mut self,
        id: &CommandId,
        agent: Option<&str>,
        machine: Option<String>,
    ) -> Result {
        let mut attempt = self.attempt(id)?;
        let agent = agent.or(attempt.agent.as_deref()).map(str::to_owned);
        let known = (&attempt.agent, &attempt.machine) == (&agent, &machine);
        if attempt.state != AttemptState::Open || known {
            return Ok(());
        }
        attempt.agent = agent;
        if attempt.machine != machine {
            self.log(Event::Machine {
                task: attempt.task,
                command: id.clone(),
                machine: machine.clone(),
                was: std::mem::replace(&mut attempt.machine, machine),
            });
        }
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Records until when the agent waits for its model, or that it no longer waits. Each wait is logged once, however often
    /// its end moves.
    ///
    /// # Errors
    /// There is no such command.
    pub fn waits(&mut self, id: &CommandId, until: Option<Time>) -> Result {
        let mut attempt = self.attempt(id)?;
        let until = until.filter(|until| *until > self.now);
        let waits = attempt.waits_until.is_some_and(|until| until > self.now);
        if attempt.state != AttemptState::Open || until.is_some() == waits {
            return Ok(());
        }
        if let Some(until) = until {
            self.log(Event::Waits {
                task: attempt.task,
                command: id.clone(),
                until: until.0,
            });
        }
        attempt.waits_until = until;
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Applies a report. A report that comes after its attempt timed out, was withdrawn or was asked for again still counts, as
    /// long as no other report decided; the successor is stopped then. A failure after a time-out does not count: a worker whose time
    /// is over reports it as well.
    ///
    /// # Errors
    /// There is no such command.
    pub fn report(&mut self, id: &CommandId, report: Report) -> Result<AppliedReport> {
        let mut attempt = self.attempt(id)?;
        if attempt.report.is_some() {
            return Ok(self.report_again(attempt, report));
        }
        let task = self.plan.task(attempt.task).cloned();
        let wants = report.question.is_some() || report.blocked_until.is_some();
        let late = attempt.state == AttemptState::TimedOut;
        let says_no_more = late && report.status == ReportStatus::Failed && !wants;
        let task = task.filter(|task| !says_no_more && self.still_counts(&attempt, task));
        if uses(&report) {
            self.count_agents(report.cost());
        }
        if task.is_some() || says_no_more {
            self.learn_session(&mut attempt, &report);
        }
        let Some(task) = task else {
            let (task, command) = (attempt.task, id.clone());
            self.log(Event::Stale { task, command });
            attempt.report = Some(report);
            self.insert_attempt(attempt);
            return Ok(AppliedReport::Stale);
        };
        let number = task.number;
        if attempt.state == AttemptState::Open {
            attempt.claimed = attempt.claimed.or(Some(self.now));
        } else {
            self.revive(&mut attempt, task);
        }
        self.close_questions("a report came", |q| {
            use HumanQuestionKind::{Failures, Stuck, Unclaimed};
            let late = matches!(q.about, Unclaimed | Failures | Stuck);
            q.task == Some(number) && (late || q.request.is_some())
        });
        self.log(Event::Reported {
            task: number,
            command: id.clone(),
            status: report.status,
        });
        attempt.rejected = None;
        attempt.report = Some(report);
        attempt.state = AttemptState::Reported;
        self.insert_attempt(attempt);
        Ok(AppliedReport::Counts)
    }

    /// Compares a report with the one that the attempt already has. What a tool call said is completed by the file that the agent
    /// leaves, or its worker for it, as long as nothing is decided.
    fn report_again(&mut self, mut attempt: Attempt, report: Report) -> AppliedReport {
        let Some(known) = attempt.report.as_mut() else {
            return AppliedReport::Stale;
        };
        let (spoken, undecided) = (known.is_tool_call(), attempt.verdict.is_none());
        if spoken && undecided && attempt.state == AttemptState::Reported {
            if uses(&report) {
                self.count_agents(report.cost());
            }
            self.learn_session(&mut attempt, &report);
            let said = attempt.report.take().unwrap_or_default();
            let before = said.status;
            let completed = completed(said, report);
            if completed.status != before {
                self.log(Event::Reported {
                    task: attempt.task,
                    command: attempt.id.clone(),
                    status: completed.status,
                });
            }
            attempt.report = Some(completed);
            self.insert_attempt(attempt);
            return AppliedReport::Known;
        }
        // It comes late, but what was used was used.
        if spoken && !uses(known) && uses(&report) {
            known.input_tokens = report.input_tokens;
            known.output_tokens = report.output_tokens;
            known.cost_usd = report.cost_usd;
            self.count_agents(report.cost());
            self.insert_attempt(attempt);
            return AppliedReport::Stale;
        }
        let counts = matches!(attempt.state, AttemptState::Reported | AttemptState::Judged);
        match counts && known.hash == report.hash {
            true => AppliedReport::Known,
            // It is another one, or the process that applied the report was killed before it moved the file.
            false => AppliedReport::Stale,
        }
    }

    /// Records the session in which the next attempt goes on, if a report names one.
    fn learn_session(&mut self, attempt: &mut Attempt, report: &Report) {
        if let Some(session) = &report.session {
            attempt.session = Some(session.clone());
            if self.plan.session(session).is_none() {
                self.insert(AgentSession {
                    id: session.clone(),
                    task: attempt.task,
                    opened: self.now,
                    end: None,
                });
            }
        }
    }

    pub(super) fn still_counts(&self, attempt: &Attempt, task: &Task) -> bool {
        if self.plan.status().settled() {
            return false;
        }
        if attempt.state == AttemptState::Open {
            return true;
        }
        let undecided = self.plan.current_attempt(task).is_none_or(|current| {
            current.id == attempt.id
                || current.state == AttemptState::Open
                || current.state.revivable()
        });
        // What was asked for again was reported, and decided.
        let repaired = |other: &Attempt| {
            other.number == attempt.number
                && other.state == AttemptState::Judged
                && other.verdict.is_some()
        };
        let repaired = self.plan.attempts_of(task.number).any(repaired);
        attempt.state.revivable() && !task.status.settled() && undecided && !repaired
    }

    /// Makes an abandoned attempt the current one again, in place of its successor.
    fn revive(&mut self, attempt: &mut Attempt, mut task: Task) {
        if attempt.state == AttemptState::TimedOut {
            task.failures = task.failures.saturating_sub(1);
            attempt.verdict = None;
        }
        attempt.recall = false;
        let successor = task.current.replace(attempt.id.clone());
        if let Some(mut other) = successor.and_then(|id| self.plan.attempt(&id).cloned())
            && other.id != attempt.id
            && other.state == AttemptState::Open
        {
            other.state = AttemptState::Stopped;
            other.recall = true;
            self.insert_attempt(other);
        }
        task.status = TaskState::InProgress;
        self.insert(task);
    }

    /// Records that a report cannot be read. It counts once, for the attempt itself or for the one that repairs it. After more
    /// rejections than the limit on repairs allows, the attempt fails. Returns whether a report was still awaited.
    ///
    /// # Errors
    /// There is no such command.
    pub fn reject(&mut self, id: &CommandId, reason: &str, hash: &str) -> Result<bool> {
        let mut attempt = self.attempt(id)?;
        let is_known = |attempt: &Attempt| {
            let rejected = attempt.rejected.as_ref();
            rejected.is_some_and(|rejected| rejected.hash == hash)
        };
        // A daemon that was killed before it moved the report leaves the file to the next daemon. That one may already have
        // asked for the report again.
        if is_known(&attempt) {
            return Ok(false);
        }
        if attempt.state == AttemptState::Garbled {
            let task = self.plan.task(attempt.task);
            let repair = task.and_then(|task| self.plan.current_attempt(task));
            match repair.filter(|repair| repair.kind == AttemptKind::Repair) {
                Some(repair) => attempt = repair.clone(),
                None => return Ok(false),
            }
        }
        if attempt.state != AttemptState::Open || is_known(&attempt) {
            return Ok(false);
        }
        attempt.claimed = attempt.claimed.or(Some(self.now));
        attempt.rejections += 1;
        attempt.rejected = Some(Rejection {
            reason: reason.to_owned(),
            hash: hash.to_owned(),
            at: self.now,
        });
        self.log(Event::Rejected(trouble(&attempt, reason)));
        self.close_unclaimed(attempt.task, "a report came");
        if attempt.rejections > MAX_REPAIRS {
            attempt.state = AttemptState::Judged;
            let reason = format!(
                "none of {} reports could be read: {reason}",
                attempt.rejections
            );
            self.fail_attempt(attempt, &reason, &reason, DecidedBy::Rules)?;
        } else {
            self.insert_attempt(attempt);
        }
        Ok(true)
    }

    /// Records that a file among the reports is ignored because it belongs to no command. No task changes by that.
    pub fn reject_file(&mut self, name: &str, reason: &str) {
        let (name, reason, at) = (name.to_owned(), reason.to_owned(), self.now);
        self.log(Event::FileRejected {
            name: name.clone(),
            reason: reason.clone(),
        });
        let stray = StrayFile { name, reason, at };
        self.change_head(|head| head.stray_file = Some(Box::new(stray)));
    }

    /// Ends an open attempt that was silent or took too long. It counts as failed; a late report that is no failure may undo that.
    ///
    /// # Errors
    /// The attempt is not open.
    pub fn time_out(&mut self, id: &CommandId, reason: &str) -> Result {
        let mut attempt = self.attempt_if(id, |attempt| attempt.state == AttemptState::Open)?;
        attempt.state = AttemptState::TimedOut;
        attempt.recall = true;
        self.close_requests(attempt.task);
        self.log(Event::TimedOut(trouble(&attempt, reason)));
        self.fail_attempt(attempt, reason, reason, DecidedBy::Rules)
    }

    /// Ends an open attempt whose worktree could not be made ready, so that no worker gets its command. It counts as failed.
    ///
    /// # Errors
    /// The attempt is not open.
    pub fn unprepared(&mut self, id: &CommandId, reason: &str) -> Result {
        let mut attempt = self.attempt_if(id, |attempt| attempt.state == AttemptState::Open)?;
        attempt.state = AttemptState::TimedOut;
        self.log(Event::Unprepared(trouble(&attempt, reason)));
        self.fail_attempt(attempt, reason, reason, DecidedBy::Rules)
    }

    /// Records what the checks of a task say about the state before its first attempt. Only the first record counts. A command
    /// that waited for it is dispatched now.
    ///
    /// # Errors
    /// There is no such task.
    pub fn checked_before(&mut self, task: TaskId, before: Vec<CheckBefore>) -> Result {
        let mut task = self.task(task)?;
        let attempt = self.plan.current_attempt(&task).cloned();
        let waits = |attempt: &Attempt| waits_for_checks(self.plan, attempt);
        if let Some(mut attempt) = attempt.filter(waits) {
            // What the checks wrote is no work of its agent, and no worker could claim it before.
            (attempt.issued, attempt.waiting_since) = (self.now, self.now);
            self.insert_attempt(attempt);
        }
        if task.before.is_empty() {
            task.before = before;
            self.insert(task);
        }
        Ok(())
    }

    /// Records the programs of a task's checks, as they are before its first attempt.
    ///
    /// # Errors
    /// There is no such task.
    pub fn found_programs(&mut self, id: TaskId, now: Vec<CheckProgram>) -> Result {
        self.change_task(id, |task| task.programs = Some(now))
    }

    /// Records how the checks of a reported attempt ended.
    ///
    /// # Errors
    /// The attempt awaits no checks.
    pub fn checked(&mut self, id: &CommandId, mut results: Vec<CheckResult>) -> Result {
        let mut attempt = self.attempt_if(id, |attempt| {
            attempt.state == AttemptState::Reported && attempt.checks.is_none()
        })?;
        // A result that was only merged aside has not been checked.
        if !results.is_empty() {
            self.log(Event::checked(attempt.task, id, &results));
        }
        let task = self.task(attempt.task)?;
        (results.iter_mut()).for_each(|result| doubt_choice_of_model(self.plan, &task, result));
        attempt.checks = Some(results);
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Records that a command was withdrawn before a worker claimed it; the task may be dispatched again.
    ///
    /// # Errors
    /// There is no such command.
    pub fn withdrawn(&mut self, id: &CommandId) -> Result {
        let mut attempt = self.attempt(id)?;
        attempt.recall = false;
        let task = attempt.task;
        if attempt.state == AttemptState::Open {
            attempt.state = AttemptState::Withdrawn;
            self.close_unclaimed(task, "the command was taken back");
            let command = id.clone();
            self.log(Event::Withdrawn { task, command });
        }
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Records that a claimed command waits again: its worker died, or no relay has it any more, and no other one goes on with it.
    ///
    /// # Errors
    /// There is no such command.
    pub fn given_back(&mut self, id: &CommandId) -> Result {
        let mut attempt = self.attempt(id)?;
        if attempt.state == AttemptState::Open && attempt.claimed.take().is_some() {
            (attempt.waits_until, attempt.waiting_since) = (None, self.now);
            attempt.agent = None;
            let (task, command) = (attempt.task, id.clone());
            self.log(Event::Withdrawn { task, command });
            self.insert_attempt(attempt);
        }
        Ok(())
    }

    /// Records that the agent of an attempt that no longer counts was asked to stop.
    ///
    /// # Errors
    /// There is no such command.
    pub fn recalled(&mut self, id: &CommandId) -> Result {
        self.change_attempt(id, |attempt| attempt.recall = false)
    }

    /// Closes the questions of roles that worked on an attempt which is over.
    fn close_requests(&mut self, task: TaskId) {
        self.close_questions("the attempt is over", |q| {
            q.task == Some(task) && q.request.is_some()
        });
    }

    /// Stops the open attempt of a task that ends without it.
    pub(super) fn stop_attempt(&mut self, task: &Task) {
        let current = self.plan.current_attempt(task).cloned();
        if let Some(mut attempt) = current.filter(|attempt| attempt.state.open()) {
            self.close_requests(task.number);
            // The agent of one that is reported may be at work until its changes are known.
            attempt.recall = attempt.state == AttemptState::Open || attempt.changes.is_none();
            attempt.state = AttemptState::Stopped;
            self.insert_attempt(attempt);
        }
    }
}

fn trouble(attempt: &Attempt, reason: &str) -> AttemptTrouble {
    AttemptTrouble {
        task: attempt.task,
        command: attempt.id.clone(),
        reason: reason.to_owned(),
    }
}

/// Completes what an agent said by a tool call with its report, or with that which its worker wrote: of two statuses that the agent
/// itself gave, the worse one holds. A limit that it met after it was done holds nothing up, nor does what its worker asks then.
/// What a person said stays as it is.
fn completed(said: Report, mut report: Report) -> Report {
    if said.author == ReportAuthor::Person {
        return Report {
            session: report.session,
            input_tokens: report.input_tokens,
            output_tokens: report.output_tokens,
            cost_usd: report.cost_usd,
            hash: report.hash,
            ..said
        };
    }
    let (own, done) = (
        report.author == ReportAuthor::Agent,
        said.status == ReportStatus::Success,
    );
    let worse = match report.status {
        ReportStatus::Failed => true,
        ReportStatus::PartialSuccess => done,
        ReportStatus::Success => false,
    };
    if !(worse && own && report.blocked_until.is_none()) {
        report.status = said.status;
    }
    report.blocked_until.take_if(|_| done);
    let asks_about_set_up = done && !own && report.refused.is_empty();
    report.question.take_if(|_| asks_about_set_up);
    let words = [said.results, report.results];
    let words = words.into_iter().filter(|text| !text.trim().is_empty());
    let words: Vec<String> = words.take(if own { 2 } else { 1 }).collect();
    report.results = words.join("\n\n");
    report.author = ReportAuthor::Agent;
    report.received = said.received;
    report
}

fn uses(report: &Report) -> bool {
    report.cost() != ModelCost::default()
}

/// Returns the commit in a task's worktree when an attempt begins: the integration branch, if no attempt has worked in the
/// worktree, if it has the last result or if it is merged in for the agent to resolve; else what the last attempt left.
fn begins_with(before: Option<&Attempt>, line: &IntegrationBranch) -> String {
    let before = before.filter(|before| !before.is_accepted());
    let left = before.and_then(|before| match &before.merge {
        Some(merge) => Some(merge.head.clone()),
        None if before.clashed() => None,
        None => before.tree.clone(),
    });
    left.unwrap_or_else(|| line.tip.clone())
}
