//! Operations on attempts: dispatch, heartbeats, reports, checks, timeouts, withdrawals.

use super::budget::money;
use super::without_daemon::BY_HAND;
use super::{Draft, Refusal};
use crate::plan::event::Event;
use crate::plan::model::{
    AgentSession, Attempt, AttemptKind, AttemptState, ChangedFiles, CheckResult, CommandId,
    DecidedBy, HumanQuestionKind, IntegrationBranch, PlanState, QuestionId, Rejection, Report,
    ReviewPolicy, SessionId, Task, TaskId, TaskState, Time,
};

/// The most repairs of unreadable reports; after them the attempt has failed.
const MAX_REPAIRS: u32 = 2;

/// The most tasks that are noted as running alongside an attempt.
const MAX_BESIDE: usize = 20;

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
    /// It came too late to count; it is kept as evidence for the judge.
    Stale,
    /// It is the report that is recorded already, and it counts.
    Known,
    /// The attempt already has another report.
    Other,
}

impl Draft<'_> {
    /// Dispatches a task: a first attempt, a retry, or the repair of an unreadable report.
    ///
    /// # Errors
    /// The plan does not run, is being reviewed or changed, its budget allows no attempt, the task waits for others, is
    /// settled, has an attempt under way, or a human is asked about it.
    pub fn issue(&mut self, id: TaskId, issue: NewCommand) -> Result<(), Refusal> {
        let head = self.plan.head();
        if head.status != PlanState::Running {
            return Err(Refusal::PlanIs(head.status.clone()));
        }
        if head.review == ReviewPolicy::Wanted
            || (head.replan.is_some() && issue.kind != AttemptKind::Repair)
        {
            return Err(Refusal::Replanning);
        }
        let lived = head.usage.lived;
        let stopped = match issue.kind {
            AttemptKind::Repair => self.plan.no_repair(lived),
            AttemptKind::New | AttemptKind::Continue => self.plan.no_attempt(lived),
        };
        if let Some(limit) = stopped {
            return Err(self.used_up(limit));
        }
        let mut task = self.task(id)?;
        let before = self.plan.current_attempt(&task).cloned();
        let repairs = match &before {
            Some(attempt) if issue.kind == AttemptKind::Repair => {
                if attempt.state != AttemptState::Open || attempt.rejected.is_none() {
                    return Err(Refusal::NotAwaited(attempt.id.clone()));
                }
                Some(attempt.rejections)
            }
            Some(attempt) if attempt.state.open() => return Err(Refusal::Busy(id)),
            _ => None,
        };
        if task.status.settled() {
            return Err(Refusal::not_editable(&task));
        }
        if task.status == TaskState::Pending && !self.plan.is_ready(&task) {
            return Err(Refusal::NotReady {
                task: id,
                waits_for: self.plan.unmet(&task),
            });
        }
        if self.plan.asks_about(id) {
            return Err(Refusal::Asking(id));
        }
        let (mut tree, mut beside) = match &self.plan.head().line {
            // No other task works in a task's own worktree.
            Some(line) => (Some(begins_with(before.as_ref(), line)), Vec::new()),
            None => (self.plan.head().tree.clone(), self.join_others(id)),
        };
        if let (Some(mut garbled), Some(_)) = (before, repairs) {
            garbled.state = AttemptState::Garbled;
            tree.clone_from(&garbled.tree);
            beside.clone_from(&garbled.beside);
            self.insert_attempt(garbled);
        } else {
            task.attempts += 1;
        }
        let attempt = Attempt {
            kind: issue.kind,
            session: issue.session,
            text: issue.text,
            rejections: repairs.unwrap_or(0),
            tree,
            beside,
            ..Attempt::new(issue.id.clone(), id, task.attempts, self.now)
        };
        task.status = TaskState::InProgress;
        task.started_at = task.started_at.or(Some(self.now));
        task.current = Some(issue.id.clone());
        task.note = None;
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
        let others: Vec<Attempt> = self
            .plan
            .open_attempts()
            .filter(|other| other.task != task && other.state == AttemptState::Open)
            .take(MAX_BESIDE)
            .cloned()
            .collect();
        let numbers = others.iter().map(|other| other.task).collect();
        for mut other in others {
            if !other.beside.contains(&task) && other.beside.len() < MAX_BESIDE {
                other.beside.push(task);
                self.insert_attempt(other);
            }
        }
        numbers
    }

    /// Records the new git snapshot of the workspace.
    pub fn record_tree(&mut self, tree: &str) {
        if self.plan.head().tree.as_deref() != Some(tree) {
            let tree = Some(tree.to_owned());
            self.change_head(|head| head.tree = tree);
        }
    }

    /// Records what changed in the workspace during a reported attempt, and the new git snapshot of the workspace if one
    /// exists.
    ///
    /// # Errors
    /// The attempt awaits no inspection.
    pub fn inspected(
        &mut self,
        id: &CommandId,
        changes: ChangedFiles,
        tree: Option<&str>,
    ) -> Result<(), Refusal> {
        let mut attempt = self.attempt(id)?;
        if attempt.state != AttemptState::Reported || attempt.changes.is_some() {
            return Err(Refusal::NotAwaited(id.clone()));
        }
        attempt.changes = Some(changes);
        self.insert_attempt(attempt);
        if let Some(tree) = tree {
            self.record_tree(tree);
        }
        Ok(())
    }

    /// Records the first heartbeat of an attempt, with its session if that is known. This closes an open question why no worker
    /// claims the command. Returns whether anything changed.
    ///
    /// # Errors
    /// There is no such command.
    pub fn claim(&mut self, id: &CommandId, session: Option<SessionId>) -> Result<bool, Refusal> {
        let mut attempt = self.attempt(id)?;
        let first = attempt.claimed.is_none();
        let learned = attempt.session.is_none() && session.is_some();
        if attempt.state != AttemptState::Open || !(first || learned) {
            return Ok(false);
        }
        let task = attempt.task;
        if first {
            attempt.claimed = Some(self.now);
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

    /// Records until when the agent waits for its model, or that it no longer waits. Each wait is logged once, however often
    /// its end moves.
    ///
    /// # Errors
    /// There is no such command.
    pub fn waits(&mut self, id: &CommandId, until: Option<Time>) -> Result<(), Refusal> {
        let mut attempt = self.attempt(id)?;
        let until = until.filter(|until| *until > self.now);
        let told = attempt.waits_until.is_some_and(|told| told > self.now);
        if attempt.state != AttemptState::Open || until.is_some() == told {
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
    /// long as no other report decided; the successor is stopped then.
    ///
    /// # Errors
    /// There is no such command.
    pub fn report(&mut self, id: &CommandId, report: Report) -> Result<AppliedReport, Refusal> {
        let mut attempt = self.attempt(id)?;
        if let Some(known) = &mut attempt.report {
            // A report through a tool call does not contain the usage; the agent's own report adds it later, once.
            if known.hash == BY_HAND && !uses(known) && uses(&report) {
                self.count_usage(&report);
                known.input_tokens = report.input_tokens;
                known.output_tokens = report.output_tokens;
                known.cost_usd = report.cost_usd;
                self.insert_attempt(attempt);
                return Ok(AppliedReport::Other);
            }
            let counts = matches!(attempt.state, AttemptState::Reported | AttemptState::Judged);
            return Ok(match known.hash == report.hash {
                true if counts => AppliedReport::Known,
                // The process that applied the report was killed before it moved the file.
                true => AppliedReport::Stale,
                false => AppliedReport::Other,
            });
        }
        let task = self.plan.task(attempt.task).cloned();
        let counts = match &task {
            Some(task) if !self.plan.status().settled() => self.still_counts(&attempt, task),
            _ => false,
        };
        self.count_usage(&report);
        let Some(task) = task.filter(|_| counts) else {
            self.log(Event::Stale {
                task: attempt.task,
                command: id.clone(),
            });
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
        if let Some(session) = &report.session {
            attempt.session = Some(session.clone());
            if self.plan.session(session).is_none() {
                self.insert(AgentSession {
                    id: session.clone(),
                    task: number,
                    opened: self.now,
                    end: None,
                });
            }
        }
        let late = |about| {
            matches!(
                about,
                HumanQuestionKind::Unclaimed
                    | HumanQuestionKind::Failures
                    | HumanQuestionKind::Stuck
            )
        };
        self.close_questions("a report came", |q| {
            q.task == Some(number) && (late(q.about) || q.request.is_some())
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

    fn still_counts(&self, attempt: &Attempt, task: &Task) -> bool {
        if attempt.state == AttemptState::Open {
            return true;
        }
        let undecided = self.plan.current_attempt(task).is_none_or(|current| {
            current.id == attempt.id
                || current.state == AttemptState::Open
                || current.state.revivable()
        });
        attempt.state.revivable() && !task.status.settled() && undecided
    }

    /// Makes an abandoned attempt the current one again, in place of its successor.
    fn revive(&mut self, attempt: &mut Attempt, mut task: Task) {
        if attempt.state == AttemptState::TimedOut {
            task.failures = task.failures.saturating_sub(1);
            attempt.verdict = None;
        }
        attempt.recall = false;
        let successor = task
            .current
            .replace(attempt.id.clone())
            .filter(|current| *current != attempt.id);
        if let Some(mut other) = successor.and_then(|id| self.plan.attempt(&id).cloned())
            && other.state == AttemptState::Open
        {
            other.state = AttemptState::Stopped;
            other.recall = true;
            self.insert_attempt(other);
        }
        task.status = TaskState::InProgress;
        self.insert(task);
    }

    fn count_usage(&mut self, report: &Report) {
        if !uses(report) {
            return;
        }
        self.change_head(|head| {
            let usage = &mut head.usage;
            usage.agent_input_tokens = usage.agent_input_tokens.saturating_add(report.input_tokens);
            usage.agent_output_tokens = usage
                .agent_output_tokens
                .saturating_add(report.output_tokens);
            usage.agent_cost_usd = money(usage.agent_cost_usd, report.cost_usd);
        });
    }

    /// Records that a report cannot be read. It counts once, for the attempt itself or for the one that repairs it. After more
    /// rejections than the limit on repairs allows, the attempt fails. Returns whether a report was still awaited.
    ///
    /// # Errors
    /// There is no such command.
    pub fn reject(
        &mut self,
        id: &CommandId,
        reason: &str,
        hash: &str,
        question: QuestionId,
    ) -> Result<bool, Refusal> {
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
            let repair = self
                .plan
                .task(attempt.task)
                .and_then(|task| self.plan.current_attempt(task));
            match repair
                .filter(|repair| repair.kind == AttemptKind::Repair)
                .cloned()
            {
                Some(repair) => attempt = repair,
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
        let task = attempt.task;
        self.log(Event::Rejected {
            task,
            command: attempt.id.clone(),
            reason: reason.to_owned(),
        });
        self.close_unclaimed(task, "a report came");
        if attempt.rejections > MAX_REPAIRS {
            attempt.state = AttemptState::Judged;
            let reason = format!("no readable report after {MAX_REPAIRS} repairs: {reason}");
            self.fail_attempt(attempt, &reason, &reason, DecidedBy::Rules, question)?;
        } else {
            self.insert_attempt(attempt);
        }
        Ok(true)
    }

    /// Records that a file among the reports is ignored because its name contains no known command.
    pub fn reject_file(&mut self, name: &str, reason: &str) {
        self.log(Event::FileRejected {
            name: name.to_owned(),
            reason: reason.to_owned(),
        });
    }

    /// Ends an open attempt that was silent or took too long. It counts as failed; a late report may still undo that.
    ///
    /// # Errors
    /// The attempt is not open.
    pub fn time_out(
        &mut self,
        id: &CommandId,
        reason: &str,
        question: QuestionId,
    ) -> Result<(), Refusal> {
        let mut attempt = self.attempt(id)?;
        if attempt.state != AttemptState::Open {
            return Err(Refusal::NotAwaited(id.clone()));
        }
        attempt.state = AttemptState::TimedOut;
        attempt.recall = true;
        self.close_requests(attempt.task);
        self.log(Event::TimedOut {
            task: attempt.task,
            command: id.clone(),
            reason: reason.to_owned(),
        });
        self.fail_attempt(attempt, reason, reason, DecidedBy::Rules, question)
    }

    /// Records how the checks of a reported attempt ended.
    ///
    /// # Errors
    /// The attempt awaits no checks.
    pub fn checked(&mut self, id: &CommandId, results: Vec<CheckResult>) -> Result<(), Refusal> {
        let mut attempt = self.attempt(id)?;
        if attempt.state != AttemptState::Reported || attempt.checks.is_some() {
            return Err(Refusal::NotAwaited(id.clone()));
        }
        // A result that was only merged aside has not been checked.
        if !results.is_empty() {
            self.log(Event::Checked {
                task: attempt.task,
                command: id.clone(),
                passed: results.iter().all(|result| result.passed),
            });
        }
        attempt.checks = Some(results);
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Records that a command was withdrawn before a worker claimed it; the task may be dispatched again.
    ///
    /// # Errors
    /// There is no such command.
    pub fn withdrawn(&mut self, id: &CommandId) -> Result<(), Refusal> {
        let mut attempt = self.attempt(id)?;
        attempt.recall = false;
        let task = attempt.task;
        if attempt.state == AttemptState::Open {
            attempt.state = AttemptState::Withdrawn;
            self.close_unclaimed(task, "the command was taken back");
            self.log(Event::Withdrawn {
                task,
                command: id.clone(),
            });
        }
        self.insert_attempt(attempt);
        Ok(())
    }

    /// Records that the agent of an attempt that no longer counts was asked to stop.
    ///
    /// # Errors
    /// There is no such command.
    pub fn recalled(&mut self, id: &CommandId) -> Result<(), Refusal> {
        let mut attempt = self.attempt(id)?;
        attempt.recall = false;
        self.insert_attempt(attempt);
        Ok(())
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
            attempt.recall = attempt.state == AttemptState::Open;
            attempt.state = AttemptState::Stopped;
            self.insert_attempt(attempt);
        }
    }
}

fn uses(report: &Report) -> bool {
    report.input_tokens > 0 || report.output_tokens > 0 || report.cost_usd != 0.0
}

/// Returns the commit in a task's worktree when an attempt begins: the integration branch, if no attempt has worked in the
/// worktree or if the branch is merged in for the agent to resolve; else what the last attempt left.
fn begins_with(before: Option<&Attempt>, line: &IntegrationBranch) -> String {
    let left = before.and_then(|before| match &before.merge {
        Some(merge) => Some(merge.head.clone()),
        None if before.clashed() => None,
        None => before.tree.clone(),
    });
    left.unwrap_or_else(|| line.tip.clone())
}
