//! Carries out, within a change, the decisions that the plan's own data settles: writes commands, asks the human,
//! ends attempts, sessions and the plan. Knows the templates, but no clock, and of files only which ids of questions
//! are used.

use std::collections::{BTreeSet, VecDeque};
use std::mem::discriminant;
use std::time::Duration;

use uuid::Uuid;

use super::{DaemonSettings, WorktreeLayout};
use crate::exec;
use crate::llm::{CommandContent, CommandContext, CommandKind, indented, questions};
use crate::plan::{
    AgentSession, Attempt, AttemptKind, CheckResult, CommandId, Decision, Draft, DueStep,
    EndCommand, Language, NewCommand, Observations, Plan, QuestionId, Refusal, Report, SessionId,
    SessionScope, Task, TaskId, due, rule_decisions, waits_for_checks,
};
use crate::role::new_request;
use crate::volumes::Volumes;
use crate::wire::command_file::sections;
use crate::wire::{CommandFile, CommandType, command_file, joined};

/// Decisions carried out in one change at most: more than any plan needs, few enough to end.
const MOST_DECISIONS: usize = 10_000;

/// Active time of at least this is recorded with other changes: each time, the head of the plan is written.
const WORTH_RECORDING: Duration = Duration::from_secs(1);

/// Characters of earlier results that a command repeats.
const REPEATED: usize = 20_000;

/// Hexadecimal digits of a question's id …
const ID_DIGITS: usize = 6;

/// … and one more after so many draws of used ids: a draw is hardly ever used, unless nearly all are.
const DRAWS: usize = 64;

/// A command that is to be published once it is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutgoingCommand {
    pub id: CommandId,
    pub text: String,
    /// The worktree to make first.
    pub layout: Option<WorktreeLayout>,
    /// The session that it ends.
    pub ends: Option<SessionId>,
    /// The task whose checks run first, where git does not keep the state before it.
    pub first: Option<TaskId>,
}

impl OutgoingCommand {
    /// Returns the command that ends a session which is over, unless it was published before.
    pub(super) fn of_end(session: &AgentSession) -> Option<Self> {
        let end = session.end.as_ref().filter(|end| !end.published)?;
        Some(Self {
            id: end.id.clone(),
            text: end.text.clone(),
            layout: None,
            ends: Some(session.id.clone()),
            first: None,
        })
    }

    /// Returns whether nothing has to be done before it is published.
    pub(super) fn is_ready(&self) -> bool {
        self.layout.is_none() && self.first.is_none()
    }

    /// Returns the command of an attempt.
    pub(super) fn of(plan: &Plan, attempt: &Attempt) -> Self {
        Self {
            id: attempt.id.clone(),
            text: attempt.text.clone(),
            layout: WorktreeLayout::of(plan, attempt.task),
            ends: None,
            first: waits_for_checks(plan, attempt).then_some(attempt.task),
        }
    }
}

/// Has a change draw the ids of its questions; one that may ask calls this first. No other question comes between a draw and
/// its question.
pub(super) fn draw_question_ids(draft: &mut Draft<'_>, volumes: &Volumes) {
    let volumes = volumes.clone();
    draft.name_questions(move |plan| new_question(plan, &volumes));
}

/// Draws an id for a question that no other question has: none of the plan, and none with a file in the folders,
/// where the questions of every plan are. It is short enough to be typed.
fn new_question(plan: &Plan, volumes: &Volumes) -> QuestionId {
    let mut draws = 0;
    loop {
        let random = Uuid::new_v4().simple().to_string();
        let digits = (ID_DIGITS + draws / DRAWS).min(random.len());
        let id = QuestionId::new(format!("q{}", &random[..digits]));
        if plan.question(&id).is_none() && !volumes.has_question(&id) {
            return id;
        }
        draws += 1;
    }
}

impl DaemonSettings {
    /// Carries out every decision that is due, one after the other, until none is left. A decision that the plan
    /// refuses is left out and logged: it must not hold up the others.
    pub(super) fn decide(
        &self,
        draft: &mut Draft<'_>,
        world: &Observations,
    ) -> Vec<OutgoingCommand> {
        let mut outgoing = Vec::new();
        let mut refused = BTreeSet::new();
        if draft.plan().head().usage.unrecorded(world.active_time()) >= WORTH_RECORDING {
            draft.count_time(world.active_time());
        }
        draft.ends_published(&world.ends_published);
        let mut together = VecDeque::new();
        // Decisions of one kind are derived together. To derive them anew after each would take the square of their
        // number, and one changes nothing for the others, unless it changes what all depend on.
        let mut above = shared_conditions(draft.plan(), world);
        for _ in 0..MOST_DECISIONS {
            let now = shared_conditions(draft.plan(), world);
            if now != above {
                together.clear();
                above = now;
            }
            if together.is_empty() {
                together = next_due(draft.plan(), world, &refused);
            }
            let Some(step) = together.pop_front() else {
                break;
            };
            match draft.part(|draft| self.carry_out(draft, &step, world)) {
                Ok(command) => outgoing.extend(command),
                Err(refusal) => {
                    tracing::error!(?step, %refusal, "a decision that is due was refused");
                    refused.insert(step);
                }
            }
        }
        outgoing
    }

    fn carry_out(
        &self,
        draft: &mut Draft<'_>,
        step: &DueStep,
        world: &Observations,
    ) -> Result<Option<OutgoingCommand>, Refusal> {
        match step {
            DueStep::Issue(task) => return self.issue(draft, *task, None).map(Some),
            DueStep::Repair(command) => {
                let attempt = draft.attempt(command)?;
                return self.issue(draft, attempt.task, Some(&attempt)).map(Some);
            }
            DueStep::EndSession(session) => return Ok(end(draft, session)),
            DueStep::TimeOut(command, reason) => draft.time_out(command, reason)?,
            DueStep::JudgeByRules(command) => {
                let attempt = draft.attempt(command)?;
                let task = draft.plan().task(attempt.task);
                let before = task.map_or(&[][..], |task| &task.before);
                let mut verdict = rule_decisions::judge(&attempt, before, draft.now());
                if draft.plan().head().policy.model && verdict.decision == Decision::Next {
                    verdict.reason += ": no doubt to ask the model about";
                }
                draft.judge(command, &verdict)?;
            }
            DueStep::Park(command) => draft.park(command)?,
            DueStep::AgentAsks(command) => draft.agent_asks(command)?,
            DueStep::AskAboutModel(ask) => draft.ask_about_model(ask)?,
            DueStep::AskHuman(about, task, reason) => draft.ask(*about, *task, reason)?,
            DueStep::StopAtBudget(limit) => {
                draft.count_time(world.active_time());
                draft.stop_at_budget(*limit)?;
            }
            DueStep::StopAtDayBudget(limit) => {
                if let Some(day) = &world.day {
                    draft.stop_at_day_budget(*limit, day)?;
                }
            }
            DueStep::GoOnAfterDay => draft.go_on_after_day()?,
            DueStep::CountTime => draft.count_time(world.active_time()),
            DueStep::Settle => {
                draft.settle(&super::summary_without_model::by_rules(draft.plan(), world))?;
            }
            DueStep::Accept(command) => draft.accept_merged(command)?,
            // Recorded along with every decision, or done outside.
            DueStep::RecordEnds | DueStep::Effect(_) => {}
        }
        Ok(None)
    }

    fn issue(
        &self,
        draft: &mut Draft<'_>,
        task: TaskId,
        repairs: Option<&Attempt>,
    ) -> Result<OutgoingCommand, Refusal> {
        let (plan, task) = (draft.plan(), draft.task(task)?);
        let id = new_request();
        let (kind, session, content) = next_command(plan, &task, repairs);
        let body = self.body(plan, &task, &id, content, plan.head().language());
        let command = CommandFile {
            id: id.clone(),
            created_at: Some(draft.now()),
            session: session.clone(),
            kind: command_type(session.as_ref()),
            plan: Some(plan.id().clone()),
            task: Some(task.number),
            attempt: Some(task.attempts + u32::from(repairs.is_none())),
            assignee: task.assignee.clone(),
            origin: task.origin,
            workspace: plan.workspace_of(task.number),
            report: self.report_path(&id),
            body,
            ..CommandFile::default()
        };
        let issue = new_command(kind, command);
        if task.programs.is_none() {
            let names = plan.head().policy.checks.iter().chain(&task.checks);
            let checks = names.filter_map(|name| self.config.checks.get(name));
            draft.found_programs(task.number, exec::programs(checks))?;
        }
        draft.issue(task.number, issue)?;
        Ok(OutgoingCommand::of(draft.plan(), &draft.attempt(&id)?))
    }

    /// Issues the next command for the request of a role to a role behind files: to report again, or to go on with a
    /// message.
    ///
    /// # Errors
    /// The earlier command cannot be read, or its task does not exist.
    pub(super) fn issue_again(
        &self,
        draft: &mut Draft<'_>,
        attempt: &Attempt,
        kind: AttemptKind,
        message: &str,
    ) -> Result<(), Refusal> {
        let plan = draft.plan();
        let unreadable = |_| Refusal::UnknownCommand(attempt.id.clone());
        let earlier = CommandFile::parse(&attempt.text).map_err(unreadable)?;
        let (id, session) = (new_request(), attempt.session.clone());
        let repair = kind == AttemptKind::Repair;
        let language = command_file::language(&earlier.body);
        let body = if session.is_none() && !repair {
            once_more(&earlier, message, &self.report_path(&id), language)
        } else {
            let mut attempts = plan.attempts_of(attempt.task).rev();
            let first = attempts.find(|made| made.kind == AttemptKind::New);
            let first = first.filter(|_| session.is_none());
            let content = match repair {
                true => repair_content(message, first),
                false => CommandContent {
                    kind: CommandKind::Continue,
                    note: message.to_owned(),
                    ..CommandContent::default()
                },
            };
            let task = plan.task(attempt.task);
            let task = task.ok_or_else(|| Refusal::UnknownTask(attempt.task.to_string()))?;
            self.body(plan, &named_as(task, &earlier.body), &id, content, language)
        };
        let command = CommandFile {
            id: id.clone(),
            created_at: Some(draft.now()),
            session: session.clone(),
            kind: command_type(session.as_ref()),
            report: self.report_path(&id),
            body,
            ..earlier
        };
        draft.issue(attempt.task, new_command(kind, command))
    }

    /// Renders the body of a command.
    fn body(
        &self,
        plan: &Plan,
        task: &Task,
        id: &CommandId,
        content: CommandContent,
        language: Language,
    ) -> String {
        let role = task.assignee.as_ref();
        let role = role.and_then(|role| self.role_prompts.get(role));
        let context = CommandContext {
            role: role.cloned().unwrap_or_default(),
            language,
            ..CommandContext::new(plan, task, content, &self.report_path(id))
        };
        questions::command_body(&self.prompts, &context).unwrap_or_else(|error| {
            // Every template was rendered once when it was loaded; if one fails now, the task is not lost.
            tracing::error!(%error, "the command template failed; the bare task is sent");
            let (number, name) = (context.number, &context.name);
            let description = &context.description;
            format!("# {number} · {name}\n\n## Task description\n\n{description}\n")
        })
    }

    fn report_path(&self, id: &CommandId) -> String {
        self.volumes.report(id).display().to_string()
    }
}

/// Makes a command of its file.
fn new_command(kind: AttemptKind, file: CommandFile) -> NewCommand {
    NewCommand {
        text: file.render(),
        id: file.id,
        kind,
        session: file.session,
    }
}

/// Ends a session, and returns the command for it.
fn end(draft: &mut Draft<'_>, id: &SessionId) -> Option<OutgoingCommand> {
    let plan = draft.plan();
    let command = new_request();
    let task = plan.session(id).map(|session| session.task);
    let workspace = task.map(|task| plan.workspace_of(task));
    let file = CommandFile {
        id: command.clone(),
        created_at: Some(draft.now()),
        session: Some(id.clone()),
        kind: CommandType::End,
        plan: Some(plan.id().clone()),
        // The worker that had the session forgets it.
        assignee: task.and_then(|task| plan.task(task)?.assignee.clone()),
        workspace: workspace.unwrap_or_else(|| plan.head().workspace.clone()),
        body: "The session is over. Nothing is to be done or reported.".to_owned(),
        ..CommandFile::default()
    };
    let end = EndCommand {
        id: command,
        text: file.render(),
        published: false,
    };
    draft.end_session(id, end);
    draft.plan().session(id).and_then(OutgoingCommand::of_end)
}

fn command_type(session: Option<&SessionId>) -> CommandType {
    session.map_or(CommandType::New, |_| CommandType::Continue)
}

/// Returns the first decision that is due, and those of its kind.
fn next_due(plan: &Plan, world: &Observations, refused: &BTreeSet<DueStep>) -> VecDeque<DueStep> {
    let mut steps: VecDeque<DueStep> = due(plan, world).steps.into();
    steps.retain(|step| step.is_decision() && !refused.contains(step));
    if let Some(first) = steps.front().map(discriminant) {
        steps.retain(|step| discriminant(step) == first);
    }
    steps
}

/// Returns what all tasks and attempts depend on: while it stays as it is, one decision changes nothing for others of its kind.
fn shared_conditions(plan: &Plan, world: &Observations) -> impl PartialEq + use<> {
    let (head, lived) = (plan.head(), world.active_time());
    let (status, is_replanned) = (head.status.clone(), head.replan.is_some());
    // Where accepted results are merged.
    let tip = head.line.as_ref().map(|line| line.tip.clone());
    let questions = plan.open_questions().count();
    // The limits of the budget that keep attempts, repairs and calls of a model from beginning.
    let limits = [
        plan.no_attempt(lived),
        plan.no_repair(lived),
        plan.no_call(lived),
    ];
    (status, is_replanned, tip, questions, limits)
}

/// Returns a task with the number and the name that an earlier command gave it.
fn named_as(task: &Task, body: &str) -> Task {
    let heading = body.lines().next().and_then(|line| line.strip_prefix("# "));
    let said = heading.and_then(|heading| heading.split_once(" · "));
    let said = said.and_then(|(number, name)| Some((number.parse().ok()?, name)));
    let (number, name) = said.unwrap_or((task.number.0, &task.name));
    Task {
        number: TaskId(number),
        name: name.to_owned(),
        ..task.clone()
    }
}

/// Returns the body of an earlier command, with more in the description of the task.
fn once_more(earlier: &CommandFile, message: &str, report: &str, language: Language) -> String {
    let body = match earlier.report.as_str() {
        "" => earlier.body.clone(),
        before => earlier.body.replace(before, report),
    };
    let message = indented(message, REPEATED);
    match sections(&earlier.body).description.trim() {
        "" => format!("{body}\n\n{message}"),
        asked => {
            let so_far = language.pick("What came of it so far:", "目前的进展：");
            body.replacen(asked, &format!("{asked}\n\n{so_far}\n\n{message}"), 1)
        }
    }
}

/// Returns what a command says to an agent whose report cannot be read. In another session it gets its `first` command again.
fn repair_content(reason: &str, first: Option<&Attempt>) -> CommandContent {
    CommandContent {
        kind: CommandKind::Repair,
        repair: reason.to_owned(),
        earlier_command: first.map_or(String::new(), |first| first.text.clone()),
        ..CommandContent::default()
    }
}

/// Chooses the kind and the session of the next command of a task, and what it says of the task and its attempts: only what is
/// new where the session is known. Of relays another one may take it, which does not know the session.
fn next_command(
    plan: &Plan,
    task: &Task,
    repairs: Option<&Attempt>,
) -> (AttemptKind, Option<SessionId>, CommandContent) {
    let session = session(plan, task);
    let relayed = plan.behind_relays(plan.role_of(task.number));
    if let Some(attempt) = repairs {
        let rejected = attempt.rejected.as_ref();
        let is_first =
            |other: &&Attempt| other.number == attempt.number && other.kind != AttemptKind::Repair;
        let first = plan.attempts_of(task.number).find(is_first);
        let first = first.filter(|_| session.is_none() || relayed);
        let reason = rejected.map_or("", |rejected| &rejected.reason);
        let content = repair_content(reason, first);
        return (AttemptKind::Repair, session, content);
    }
    let mut attempts = plan.attempts_of(task.number).rev();
    let last = attempts.find(|attempt| attempt.report.is_some());
    let failed_checks = last.map(|last| failed_checks(task, last));
    let failed_checks = failed_checks.unwrap_or_default();
    let own = session.is_some() && task.started_at.is_some() && !relayed;
    // A new session knows nothing of what was said before.
    let known = |attempt: &Attempt| own && attempt.claimed.is_some();
    let words = [task.note.clone(), words(plan, task, known)];
    let feedback = joined(words.into_iter().flatten(), "\n\n");
    let content = match (own, last) {
        (true, _) => CommandContent {
            kind: CommandKind::Continue,
            feedback,
            failed_checks,
            ..CommandContent::default()
        },
        (false, Some(last)) => CommandContent {
            kind: CommandKind::Resume,
            earlier_report: last.report.as_ref().map(Report::text).unwrap_or_default(),
            feedback,
            failed_checks,
            ..CommandContent::default()
        },
        (false, None) => CommandContent {
            note: feedback,
            ..CommandContent::default()
        },
    };
    let kind = session
        .as_ref()
        .map_or(AttemptKind::New, |_| AttemptKind::Continue);
    (kind, session, content)
}

/// Returns what a person has said since the last attempt whose command the next agent knows; no agent has
/// read commands that were withdrawn or lost, and one without a session knows none.
fn words(plan: &Plan, task: &Task, known: impl Fn(&Attempt) -> bool) -> Option<String> {
    let attempts = plan.attempts_of(task.number).rev();
    let unknown = attempts.take_while(|attempt| !known(attempt));
    let told = std::iter::once(&task.told).chain(unknown.map(|attempt| &attempt.told));
    let mut told: Vec<&str> = told.flatten().map(String::as_str).collect();
    told.reverse();
    (!told.is_empty()).then(|| told.join("\n\n"))
}

/// Returns the session to go on in, if one is known: the task's own, or the plan's where the plan has one for all. An agent has
/// forgotten one that was ended.
fn session(plan: &Plan, task: &Task) -> Option<SessionId> {
    let ended = |id: &SessionId| plan.session(id).is_some_and(|it| it.end.is_some());
    let mut attempts = plan.attempts_of(task.number).rev();
    let own = attempts.find_map(|attempt| attempt.session.clone().filter(|id| !ended(id)));
    let shared = || Some(plan.open_sessions().last()?.id.clone());
    match plan.head().policy.session {
        SessionScope::Task => own,
        SessionScope::Plan => own.or_else(shared),
    }
}

/// Returns the checks that fail on a result; of each that failed before the work, too, its outcome says so.
fn failed_checks(task: &Task, attempt: &Attempt) -> Vec<CheckResult> {
    let mut failing: Vec<CheckResult> = attempt.failing().cloned().collect();
    for check in &mut failing {
        if rule_decisions::failed_before(&task.before, &check.name) {
            check.finding = format!("{}; it failed before your work, too", check.outcome());
        }
    }
    failing
}
