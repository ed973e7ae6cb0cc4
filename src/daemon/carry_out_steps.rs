//! Carries out the decisions that the plan's own data settles, within a change: writes commands, asks the human, ends
//! attempts, sessions and the plan. Knows the templates, but no clock, and of files only which ids of questions are taken.

use std::collections::{BTreeSet, VecDeque};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::DaemonSettings;
use super::worktrees::WorktreeLayout;
use crate::llm::{CommandContext, CommandKind, indented, questions};
use crate::plan::{
    Attempt, AttemptKind, BudgetLimit, CommandId, Draft, DueStep, EndCommand, NewCommand,
    Observations, Plan, PlanState, QuestionId, Refusal, Report, SessionId, SessionScope, Task,
    TaskId, Time, due, rule_decisions,
};
use crate::volumes::Volumes;
use crate::wire::command_file::{CommandFile, CommandType, sections};

/// Decisions carried out in one change at most: more than any plan needs, few enough to end.
const MOST_DECISIONS: usize = 10_000;

/// Time that was lived through is recorded along with other things from so much on: each time, the plan's own row is written.
const WORTH_RECORDING: Duration = Duration::from_secs(1);

/// Characters that a command repeats of what came of it so far.
const TOLD: usize = 20_000;

/// Hexadecimal digits of a question's id …
const ID_DIGITS: usize = 6;

/// … and one more each time so many of them were taken: what was drawn is hardly ever taken, unless nearly all are.
const DRAWS: usize = 64;

/// Where decisions are carried out and commands written.
#[derive(Clone)]
pub(super) struct Decider {
    pub settings: Arc<DaemonSettings>,
}

/// A command that is committed and is to be put into its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutgoingCommand {
    pub id: CommandId,
    pub text: String,
    /// What has to be there first.
    pub layout: Option<WorktreeLayout>,
    /// The session that it ends.
    pub ends: Option<SessionId>,
}

/// Draws an id for a question that no other one has: none of the plan, and none whose file is in the folders, where those of every
/// plan are. It is short enough to be typed. To be called within the change that asks: nothing else is asked meanwhile.
pub(super) fn new_question(plan: &Plan, volumes: &Volumes) -> QuestionId {
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

impl Decider {
    /// Carries out every decision that is due, one after the other, until none is left. One that the plan refuses is left out
    /// and logged: it must not keep the others back.
    pub fn decide(&self, draft: &mut Draft<'_>, world: &Observations) -> Vec<OutgoingCommand> {
        let mut outgoing = Vec::new();
        let mut refused = BTreeSet::new();
        if draft.plan().head().usage.unrecorded(world.active_time()) >= WORTH_RECORDING {
            draft.count_time(world.active_time());
        }
        draft.ends_published(&world.ends_published);
        let mut together = VecDeque::new();
        // Decisions of one kind that are due side by side were chosen together. To ask anew after each of them would take the
        // square of their number, and one changes nothing for the others, unless it changes what stands above them all.
        let mut above = Above::of(draft.plan(), world);
        for _ in 0..MOST_DECISIONS {
            let now = Above::of(draft.plan(), world);
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
        let question = |draft: &Draft<'_>| new_question(draft.plan(), &self.settings.volumes);
        let attempt = |draft: &Draft<'_>, command: &CommandId| {
            let attempt = draft.plan().attempt(command).cloned();
            attempt.ok_or_else(|| Refusal::UnknownCommand(command.clone()))
        };
        match step {
            DueStep::Issue(task) => return self.issue(draft, *task, None).map(Some),
            DueStep::Repair(command) => {
                let attempt = attempt(draft, command)?;
                return self.issue(draft, attempt.task, Some(&attempt)).map(Some);
            }
            DueStep::EndSession(session) => return Ok(Some(self.end(draft, session))),
            DueStep::TimeOut(command, reason) => {
                draft.time_out(command, reason, question(draft))?;
            }
            DueStep::JudgeByRules(command) => {
                let mut verdict = rule_decisions::judge(&attempt(draft, command)?, draft.now());
                if draft.plan().head().policy.model {
                    verdict.reason += ": no doubt to ask the model about";
                }
                draft.judge(command, &verdict, question(draft))?;
            }
            DueStep::Park(command) => draft.park(command)?,
            DueStep::AgentAsks(command) => draft.agent_asks(command, question(draft))?,
            DueStep::AskHuman(about, task, reason) => {
                draft.ask(question(draft), *about, *task, reason)?;
            }
            DueStep::StopAtBudget(limit) => {
                draft.count_time(world.active_time());
                draft.stop_at_budget(*limit, question(draft))?;
            }
            DueStep::CountTime => draft.count_time(world.active_time()),
            DueStep::Settle => {
                draft.settle(&super::summary_without_model::by_rules(draft.plan(), world))?;
            }
            DueStep::Accept(command) => draft.accept_merged(command, question(draft))?,
            // Recorded along with every decision, or done outside.
            DueStep::RecordEnds
            | DueStep::Withdraw(_)
            | DueStep::Inspect(_)
            | DueStep::Check(_)
            | DueStep::Ask(_)
            | DueStep::MoveBranch => {}
        }
        Ok(None)
    }

    fn issue(
        &self,
        draft: &mut Draft<'_>,
        task: TaskId,
        repairs: Option<&Attempt>,
    ) -> Result<OutgoingCommand, Refusal> {
        let plan = draft.plan();
        let task = plan
            .task(task)
            .ok_or_else(|| Refusal::UnknownTask(task.to_string()))?;
        let id = new_command();
        let story = story(plan, task, repairs);
        let context = self.context(plan, task, &id, story.told);
        let command = CommandFile {
            id: id.clone(),
            created_at: Some(draft.now()),
            session: story.session.clone(),
            kind: if story.session.is_some() {
                CommandType::Continue
            } else {
                CommandType::New
            },
            plan: Some(plan.id().clone()),
            task: Some(task.number),
            attempt: Some(if repairs.is_some() {
                task.attempts
            } else {
                task.attempts + 1
            }),
            assignee: task.assignee.clone(),
            origin: task.origin,
            workspace: plan.workspace_of(task.number),
            report: self.report_path(&id),
            request_id: None,
            body: String::new(),
        };
        let (number, layout) = (task.number, WorktreeLayout::of(plan, task.number));
        let text = self.render(command, Some(&context));
        let issue = NewCommand {
            id: id.clone(),
            kind: story.kind,
            session: story.session,
            text: text.clone(),
        };
        draft.issue(number, issue)?;
        Ok(OutgoingCommand {
            id,
            text,
            layout,
            ends: None,
        })
    }

    /// Writes the command by which somebody behind files is asked once more what a role had asked of them: to report again, or
    /// to go on with what they are told now. It is for the same request.
    ///
    /// # Errors
    /// The first command cannot be read any more.
    pub fn ask_again(
        &self,
        plan: &Plan,
        attempt: &Attempt,
        kind: AttemptKind,
        told: &str,
        now: Time,
    ) -> Result<NewCommand, Refusal> {
        let unreadable = |_| Refusal::UnknownCommand(attempt.id.clone());
        let earlier = CommandFile::parse(&attempt.text).map_err(unreadable)?;
        let (id, session) = (new_command(), attempt.session.clone());
        let repair = kind == AttemptKind::Repair;
        let (body, context) = match (&session, repair) {
            (None, false) => (once_more(&earlier, told, &self.report_path(&id)), None),
            (session, _) => {
                let first = plan.attempts_of(attempt.task);
                let first = first.rev().find(|made| made.kind == AttemptKind::New);
                let told = match repair {
                    true => CommandKind::Repair {
                        reason: told.to_owned(),
                        earlier_command: first
                            .filter(|_| session.is_none())
                            .map(|first| first.text.clone()),
                    },
                    false => CommandKind::Continue {
                        feedback: String::new(),
                        note: told.to_owned(),
                        failed_checks: Vec::new(),
                    },
                };
                let task = plan.task(attempt.task);
                let task = task.ok_or_else(|| Refusal::UnknownTask(attempt.task.to_string()))?;
                let task = named_as(task, &earlier.body);
                (String::new(), Some(self.context(plan, &task, &id, told)))
            }
        };
        let command = CommandFile {
            id: id.clone(),
            created_at: Some(now),
            session: session.clone(),
            kind: match session {
                Some(_) => CommandType::Continue,
                None => CommandType::New,
            },
            report: self.report_path(&id),
            body,
            ..earlier
        };
        let text = self.render(command, context.as_ref());
        Ok(NewCommand {
            id,
            kind,
            session,
            text,
        })
    }

    /// Returns the text of a command, with the body that the template makes of what it is told.
    fn render(&self, command: CommandFile, context: Option<&CommandContext>) -> String {
        let Some(context) = context else {
            return command.render();
        };
        let body = questions::command_body(&self.settings.prompts, context);
        let body = body.unwrap_or_else(|error| {
            // Every template was rendered once when it was loaded; a task is not lost if one fails all the same.
            tracing::error!(%error, "the command template failed; the bare task is sent");
            let (number, name) = (context.number, &context.name);
            let description = &context.description;
            format!("# {number} · {name}\n\n## Task description\n\n{description}\n")
        });
        CommandFile { body, ..command }.render()
    }

    fn context(
        &self,
        plan: &Plan,
        task: &Task,
        id: &CommandId,
        told: CommandKind,
    ) -> CommandContext {
        let role = task
            .assignee
            .as_ref()
            .and_then(|role| self.settings.role_prompts.get(role));
        CommandContext {
            role: role.cloned().unwrap_or_default(),
            ..CommandContext::new(
                plan,
                task,
                told,
                self.settings.language,
                self.report_path(id),
            )
        }
    }

    fn report_path(&self, id: &CommandId) -> String {
        self.settings.volumes.report(id).display().to_string()
    }

    fn end(&self, draft: &mut Draft<'_>, session: &SessionId) -> OutgoingCommand {
        let plan = draft.plan();
        let id = new_command();
        let command = CommandFile {
            id: id.clone(),
            created_at: Some(draft.now()),
            session: Some(session.clone()),
            kind: CommandType::End,
            plan: Some(plan.id().clone()),
            task: None,
            attempt: None,
            // Whoever had the session forgets it.
            assignee: plan
                .session(session)
                .and_then(|session| plan.task(session.task)?.assignee.clone()),
            origin: crate::plan::Origin::Model,
            workspace: plan.session(session).map_or_else(
                || plan.head().workspace.clone(),
                |session| plan.workspace_of(session.task),
            ),
            report: String::new(),
            request_id: None,
            body: "The session is over. Nothing is to be done or reported.".to_owned(),
        };
        let text = self.render(command, None);
        let end = EndCommand {
            id: id.clone(),
            text: text.clone(),
            published: false,
        };
        draft.end_session(session, end);
        OutgoingCommand {
            id,
            text,
            layout: None,
            ends: Some(session.clone()),
        }
    }
}

fn new_command() -> CommandId {
    CommandId::new(format!("task-{}", Uuid::now_v7()))
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

/// What stands above single tasks and attempts: while it stays as it is, one decision changes nothing for others of its kind.
#[derive(PartialEq)]
struct Above {
    status: PlanState,
    is_replanned: bool,
    /// Where accepted results are merged.
    tip: Option<String>,
    questions: usize,
    /// The limits of the budget that keep attempts, repairs and calls of a model from beginning.
    limits: [Option<BudgetLimit>; 3],
}

impl Above {
    fn of(plan: &Plan, world: &Observations) -> Self {
        let (head, lived) = (plan.head(), world.active_time());
        Self {
            status: head.status.clone(),
            is_replanned: head.replan.is_some(),
            tip: head.line.as_ref().map(|line| line.tip.clone()),
            questions: plan.open_questions().count(),
            limits: [
                plan.no_attempt(lived),
                plan.no_repair(lived),
                plan.no_call(lived),
            ],
        }
    }
}

/// Returns a task with the number and the name by which an earlier command spoke of it.
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

/// Returns what an earlier command said, with more in the description of the task.
fn once_more(earlier: &CommandFile, told: &str, report: &str) -> String {
    let body = match earlier.report.as_str() {
        "" => earlier.body.clone(),
        before => earlier.body.replace(before, report),
    };
    let (told, description) = (indented(told, TOLD), sections(&earlier.body).description);
    match description.trim() {
        "" => format!("{body}\n\n{told}"),
        asked => {
            let since = format!("{asked}\n\nWhat came of it so far:\n\n{told}");
            body.replacen(asked, &since, 1)
        }
    }
}

/// What a command tells its agent, and in which session.
struct CommandContent {
    kind: AttemptKind,
    session: Option<SessionId>,
    told: CommandKind,
}

/// Chooses how much of a task's story its next command tells: only what is new where the session is known.
fn story(plan: &Plan, task: &Task, repairs: Option<&Attempt>) -> CommandContent {
    let session = session(plan, task);
    if let Some(attempt) = repairs {
        let reason = attempt
            .rejected
            .as_ref()
            .map(|rejected| rejected.reason.clone())
            .unwrap_or_default();
        let forgotten = session.is_none();
        let asked = plan
            .attempts_of(task.number)
            .find(|asked| asked.number == attempt.number && asked.kind != AttemptKind::Repair);
        return CommandContent {
            kind: AttemptKind::Repair,
            session,
            told: CommandKind::Repair {
                reason,
                earlier_command: asked.filter(|_| forgotten).map(|asked| asked.text.clone()),
            },
        };
    }
    let note = task.note.clone().unwrap_or_default();
    let last = plan
        .attempts_of(task.number)
        .rev()
        .find(|attempt| attempt.report.is_some());
    let failed_checks = last.map(failed_checks).unwrap_or_default();
    let own = session.as_ref().is_some_and(|_| task.started_at.is_some());
    let told = match (own, last) {
        (true, _) => CommandKind::Continue {
            feedback: note,
            note: String::new(),
            failed_checks,
        },
        (false, Some(last)) => CommandKind::Resume {
            earlier_command: last.text.clone(),
            earlier_report: last.report.as_ref().map(Report::text).unwrap_or_default(),
            feedback: note,
            note: String::new(),
            failed_checks,
        },
        (false, None) => CommandKind::New { note },
    };
    let kind = if session.is_some() {
        AttemptKind::Continue
    } else {
        AttemptKind::New
    };
    CommandContent {
        kind,
        session,
        told,
    }
}

/// Returns the session to go on in, if one is known: the task's own, or the plan's where the plan has one for all.
fn session(plan: &Plan, task: &Task) -> Option<SessionId> {
    let own = plan
        .attempts_of(task.number)
        .rev()
        .find_map(|attempt| attempt.session.clone());
    let shared = || {
        plan.open_sessions()
            .last()
            .map(|session| session.id.clone())
    };
    match plan.head().policy.session {
        SessionScope::Task => own,
        SessionScope::Plan => own.or_else(shared),
    }
}

fn failed_checks(attempt: &Attempt) -> Vec<crate::plan::CheckResult> {
    attempt
        .checks
        .iter()
        .flatten()
        .filter(|check| !check.passed)
        .cloned()
        .collect()
}
