//! Why a task is as it is, and what it waits for.

use super::{
    Paint, ProgramName, StateWord, Style, TaskView, WAY_OUT, WAY_TO_A_WORKER, indented, name,
    numbered_tasks, span, usage,
};
use crate::plan::{
    Attempt, AttemptState, CriterionResult, CriterionState, HeldLocks, HumanQuestion, Lanes, Plan,
    PlanState, ReviewPolicy, TaskId, TaskState, Time, word,
};
use crate::wire::{self, ONLY_ITS_OWN, clip, one_line, printable, short_commit, without_keys};

/// The most of a report that is shown on one line: where roles ask each other, the cause stands at its end.
const REPORT: usize = 600;

/// The last lines of a failing check's output that are shown, and the characters of each.
const OUTPUT_LINES: usize = 8;
const OUTPUT_WIDTH: usize = 160;

/// Files that changed and are named.
const CHANGED: usize = 10;

/// The last answers of a person that are shown.
const ANSWERS: usize = 5;

/// Commands that an agent ran and that are named.
const RAN: usize = 5;

/// Returns what led a task to where it is, and what it waits for, without keys of services; `None` if there is no such task.
/// `others` are the locks that tasks of other plans hold.
pub fn why(
    plan: &Plan,
    id: TaskId,
    now: Time,
    paint: Paint,
    program: &ProgramName,
    others: &HeldLocks,
) -> Option<String> {
    let used = usage::of_tasks(plan);
    let task = &TaskView::of(plan, plan.task(id)?, now, others, &used);
    let title = paint.text(Style::Bold, &name(&task.name));
    let state = paint.text(task.state.style(), task.state.as_str());
    let mut lines = vec![format!("{id} · {title}: {state}")];
    let reasons = reasons(plan, task, now, program);
    lines.extend(reasons.iter().map(|reason| format!("  {reason}")));
    if task.no_worker {
        let why = format!("{ONLY_ITS_OWN}; {WAY_TO_A_WORKER}");
        lines.push(format!("  it has no assignee: {why}"));
    }
    lines.extend(task.waits.iter().map(|wait| {
        let (waits, waited) = (wire::role_phrases::waits(wait), span(now.since(wait.since)));
        let (what, request) = (line(&wait.what), name(wait.request.as_str()));
        format!("  {waits} · {waited}: {what} ({request})")
    }));
    let result = task.result.iter();
    lines.extend(result.map(|result| indented(result, "  ").trim_end().to_owned()));
    let asked = plan.questions().filter(|it| it.task == Some(id));
    let answered = asked.filter_map(|question| {
        let answer = question.answer.as_ref()?;
        let (reason, note) = (line(&question.reason), line(&answer.note));
        let said = format!("{} {note}", answer.choice.as_str());
        let said = said.trim_end();
        Some(format!("  asked: {reason}\n  answered: {said}"))
    });
    let answered: Vec<String> = answered.collect();
    lines.extend_from_slice(&answered[answered.len().saturating_sub(ANSWERS)..]);
    if let Some(words) = plan.task(id).and_then(|task| task.told.as_ref()) {
        let (words, settled) = (line(words), task.status.settled());
        let with = if settled {
            "when it is tried again"
        } else {
            "with its next command"
        };
        lines.push(format!("  its agent gets this {with}: {words}"));
    }
    lines.extend(usage::task_line(&task.usage).map(|used| format!("  used: {used}")));
    let mut attempts = plan.attempts_of(id).peekable();
    lines.extend(attempts.peek().map(|_| "\nAttempts".to_owned()));
    lines.extend(attempts.flat_map(attempt_lines));
    Some(without_keys(&lines.join("\n")) + "\n")
}

fn reasons(plan: &Plan, task: &TaskView, now: Time, program: &ProgramName) -> Vec<String> {
    match task.status {
        TaskState::Pending if plan.task(task.id).is_some_and(|task| plan.is_ready(task)) => {
            vec![not_started(plan, task, now, program)]
        }
        TaskState::Pending => waits_for(plan, task),
        TaskState::InProgress => {
            let mut reasons = vec![under_way(plan, task, now, program)];
            reasons.extend(stray_file(plan, task, now));
            reasons
        }
        TaskState::Completed => accepted(task),
        TaskState::Failed => {
            let waiting: Vec<TaskId> = plan.dependants(task.id).map(|t| t.number).collect();
            let said = || format!("because of that {} cannot start", numbered_tasks(&waiting));
            Vec::from_iter((!waiting.is_empty()).then(said))
        }
        TaskState::Skipped => Vec::new(),
    }
}

fn accepted(task: &TaskView) -> Vec<String> {
    let how = match task.proven {
        None => "it was completed when the plan began, or by hand",
        _ if task.by_hand => "a person says that it is done: no check ran",
        Some(true) => "it is proven: what was chosen as proof failed before, and passes now",
        Some(false) => "it was accepted: what no check proves was believed",
    };
    let criterion = |(number, end): (usize, &CriterionResult)| {
        let state = match end.state {
            CriterionState::Met => "met",
            CriterionState::NotMet => "not met",
            CriterionState::NotProven => "not proven",
        };
        let (text, why) = (line(&end.text), line(&end.why));
        match text.as_str() {
            "" => format!("{state}: {why}"),
            text => format!("{number}. {text}: {state}: {why}"),
        }
    };
    let mut lines = vec![how.to_owned()];
    lines.extend((1..).zip(&task.criteria).map(criterion));
    lines.extend(task.evidence.iter().map(|fact| line(fact)));
    lines
}

/// Returns why a task, or its next attempt, has not been started though it might be.
fn not_started(plan: &Plan, task: &TaskView, now: Time, program: &ProgramName) -> String {
    let head = plan.head();
    match &head.status {
        PlanState::Idle => {
            if let Some(waits) = head.queued_for() {
                return format!("the plan is queued: it waits {}", one_line(waits, WAY_OUT));
            }
            let resume = format!("`{program} resume {}`", head.id);
            return format!("no daemon carries the plan out: {resume}");
        }
        PlanState::Paused(why) => return format!("the plan is paused: {}", line(why)),
        PlanState::Completed | PlanState::Failed | PlanState::Abandoned => {
            return format!("the plan has ended: {}", head.status.as_str());
        }
        PlanState::Running => {}
    }
    if let Some(until) = task.not_before.filter(|until| *until > now) {
        return format!("the agent's usage limit ends in {}", span(until.since(now)));
    }
    if task.asked.is_some() {
        return format!("a question about it waits for your answer: `{program} status`");
    }
    if head.review == ReviewPolicy::Wanted {
        return format!("the plan waits for your approval: `{program} answer approve`");
    }
    if let Some(replan) = &head.replan {
        let why = line(&replan.why);
        return format!("the rest of the plan is being changed: {why}");
    }
    if let Some(wait) = &task.waits_for_lock {
        return format!("it {wait}");
    }
    let lanes = Lanes::of(plan);
    let role = task.assignee.as_deref();
    if let Some((role, own)) = role.and_then(|role| lanes.roles.get_key_value(role))
        && own.busy.len() >= own.most
    {
        let role = wire::role_phrases::role(role);
        let busy = lanes_full(&own.busy, own.most);
        return format!("it waits for a free lane of `{role}`: {busy}");
    }
    if !lanes.full() {
        return "nothing stands in its way: it is next".to_owned();
    }
    let roles = lanes.roles.values().flat_map(|role| &role.busy);
    let mut busy: Vec<TaskId> = roles.chain(&lanes.others).copied().collect();
    busy.sort_unstable();
    let busy = lanes_full(&busy, lanes.most);
    format!("it comes when there is room: {busy}")
}

fn lanes_full(busy: &[TaskId], most: usize) -> String {
    format!("{} under way, at most {most} at once", numbered_tasks(busy))
}

/// Returns who does a task, as the subject of a sentence.
fn worker(task: &TaskView) -> String {
    match &task.assignee {
        Some(role) => format!("`{}`", wire::role_phrases::role(role)),
        None => "an agent".to_owned(),
    }
}

/// Says that others have asked something of the role of a task, which it does in between.
fn asked(plan: &Plan, task: &TaskView) -> Option<String> {
    let lanes = Lanes::of(plan).roles.remove(task.assignee.as_deref()?)?;
    let asked = Some(lanes.asked).filter(|asked| !asked.is_empty())?;
    let asked = numbered_tasks(&asked);
    Some(format!(", who is asked to help with {asked}"))
}

fn waits_for(plan: &Plan, task: &TaskView) -> Vec<String> {
    if task.unmet.is_empty() {
        let said = |first| format!("tasks go one after the other: task {first} is first");
        let first = plan.unsettled().next().map(|first| first.number);
        return first.map(said).into_iter().collect();
    }
    let waits = |id: &TaskId| {
        let Some(other) = plan.task(*id) else {
            return format!("it waits for task {id}, which was taken out of the plan");
        };
        let (name, state) = (name(&other.name), StateWord::of_task(plan, other).as_str());
        let settle = match other.status {
            TaskState::Failed => ", which a human has to settle",
            _ => "",
        };
        format!("it waits for task {id} · {name}: {state}{settle}")
    };
    task.unmet.iter().map(waits).collect()
}

fn under_way(plan: &Plan, task: &TaskView, now: Time, program: &ProgramName) -> String {
    if let Some(reason) = &task.asked {
        return format!("it waits for your answer: {}", line(reason));
    }
    let Some(attempt) = &task.attempt else {
        return "it was started by hand".to_owned();
    };
    match (attempt.state, attempt.claimed) {
        (AttemptState::Open, None) => {
            let busy = asked(plan, task).unwrap_or_default();
            match plan.relay_for(task.assignee.as_deref()) {
                Some(way) => format!("its command waits for a relay{busy}: {}", line(&way)),
                None => format!("its command waits for {} to take it{busy}", worker(task)),
            }
        }
        (AttemptState::Open, Some(since)) => {
            let worked = span(now.since(since));
            format!("{} took it {worked} ago", worker(task))
        }
        (AttemptState::Reported, _) => {
            "its report has come: when its agent has ended, checks and the verdict follow"
                .to_owned()
        }
        _ => not_started(plan, task, now, program),
    }
}

/// Returns that a file came, which may have been meant as the report that the task waits for.
fn stray_file(plan: &Plan, task: &TaskView, now: Time) -> Option<String> {
    let stray = plan.head().stray_file.as_ref()?;
    let attempt = plan.attempts_of(task.id).next_back()?;
    let meant = attempt.state == AttemptState::Open && stray.at >= attempt.issued;
    let (file, why) = (line(&stray.name), line(&stray.reason));
    let (ago, id) = (span(now.since(stray.at)), &attempt.id);
    meant.then(|| {
        format!(
            "a file that is no report came {ago} ago: `{file}`: {why}; the report is awaited as `report-{id}.md`"
        )
    })
}

fn attempt_lines(attempt: &Attempt) -> Vec<String> {
    let what = match attempt.state {
        AttemptState::Open if attempt.claimed.is_none() => "waits for an agent",
        AttemptState::Open => "is under way",
        AttemptState::Reported => "awaits its decision",
        AttemptState::Judged => "was judged",
        // Its worktree was not ready, or no agent came.
        AttemptState::TimedOut if attempt.claimed.is_none() => "ended before an agent took it",
        AttemptState::TimedOut => "timed out",
        AttemptState::Garbled => "had an unreadable report",
        AttemptState::Withdrawn => "was taken back before anybody took it",
        AttemptState::Stopped => "was stopped",
    };
    let mut lines = vec![format!("  {}  {} {what}", attempt.number, attempt.id)];
    let mut add = |detail: String| lines.push(format!("     {detail}"));
    if let Some(machine) = &attempt.machine {
        let open = attempt.state == AttemptState::Open;
        let verb = if open { "is" } else { "was" };
        add(format!("its agent {verb} at `{}`", line(machine)));
    }
    if let Some(report) = &attempt.report {
        let (status, said) = (report.status.as_str(), one_line(&report.results, REPORT));
        let verdict = attempt.verdict.as_ref();
        let late = verdict.is_some_and(|verdict| verdict.at < report.received);
        let late = if late { ", too late to count" } else { "" };
        add(format!("report{late}: {status}: {said}"));
    }
    if let Some(changes) = &attempt.changes {
        add(line(&changes.text(CHANGED)));
    }
    attempt.remarks().for_each(|said| add(line(&said)));
    let refusals = attempt.refusals.iter();
    refusals.for_each(|said| add(one_line(said, WAY_OUT)));
    for ran in &attempt.ran[attempt.ran.len().saturating_sub(RAN)..] {
        let (command, outcome) = (line(&ran.command), ran.outcome());
        add(format!("ran `{command}`, by its program's word: {outcome}"));
    }
    if let Some(used) = usage::attempt_line(attempt) {
        add(format!("used: {used}"));
    }
    if let Some(merge) = &attempt.merge {
        let short = |commit: &str| line(short_commit(commit));
        let (commit, onto) = (short(&merge.commit), short(&merge.onto));
        add(match merge.commit == merge.onto {
            true => format!("nothing to merge into {onto}"),
            false => format!("merged aside as {commit}, onto {onto}"),
        });
    }
    for check in attempt.checks.iter().flatten() {
        let (name, outcome) = (line(&check.name), line(&check.outcome()));
        add(format!("check {name}: {outcome}"));
        let shown = if check.passed { "" } else { &check.tail };
        for said in last_lines(shown) {
            add(format!("  | {said}"));
        }
    }
    if let Some(rejected) = &attempt.rejected {
        add(format!("unreadable: {}", line(&rejected.reason)));
    }
    if let Some(verdict) = &attempt.verdict {
        let (decision, by) = (word(&verdict.decision), word(&verdict.by));
        let by = by + if verdict.unsure { ", not sure" } else { "" };
        add(format!("{decision} by {by}: {}", line(&verdict.reason)));
        for said in &verdict.criteria {
            let (met, pointer) = (word(&said.met).replace('_', " "), line(&said.pointer));
            add(format!("  criterion {}: {met}: {pointer}", said.number));
        }
    }
    lines
}

/// Returns the end of what the check printed that failed last, for the question about its task.
pub fn failing_output(plan: &Plan, question: &HumanQuestion) -> Vec<String> {
    let last = question.task.and_then(|id| plan.attempts_of(id).last());
    let failing = last.into_iter().flat_map(Attempt::failing).last();
    failing.map_or(Vec::new(), |check| last_lines(&check.tail))
}

/// Returns the last lines of a failing check's output, as a person reads them.
fn last_lines(output: &str) -> Vec<String> {
    let text = printable(output);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.collect();
    let shown = lines[lines.len().saturating_sub(OUTPUT_LINES)..].iter();
    let shown = shown.map(|line| clip(&without_keys(line.trim_end()), OUTPUT_WIDTH));
    shown.collect()
}

fn line(text: &str) -> String {
    one_line(text, WAY_OUT)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample_plan::{self, NOW};
    use super::*;

    fn said(task: u32) -> String {
        why(
            &sample_plan::plan(),
            TaskId(task),
            NOW,
            Paint::none(),
            &ProgramName::with(None, None),
            &HeldLocks::new(),
        )
        .unwrap()
    }

    #[test]
    fn why_explains_every_state() {
        insta::assert_snapshot!(said(1), @r"
        1 · Write the counter: completed
          it was accepted: what no check proves was believed
          not proven: no check is bound to it
          counts words

        Attempts
          1  task-1a was judged
             report: SUCCESS: wc.py is there
             next by rules: the agent reports SUCCESS
        ");
        insta::assert_snapshot!(said(2), @r#"
        2 · Serve "it" <over> HTTP; #1: asks you
          it waits for your answer: failed three times: the port is taken

        Attempts
          1  task-2a was judged
             report: FAILED: wc.py is there
             retry by rules: the agent reports FAILED
        "#);
        insta::assert_snapshot!(said(3), @r#"
        3 · Describe both: waiting
          it waits for task 2 · Serve "it" <over> HTTP; #1: asks you
        "#);
        insta::assert_snapshot!(said(4), @r"
        4 · Test: in progress
          an agent took it 5 min ago

        Attempts
          1  task-4a is under way
        ");
        insta::assert_snapshot!(said(5), @r"
        5 · Publish: ready
          nothing stands in its way: it is next
        ");
    }

    #[test]
    fn why_explains_wait_for_role_lane() {
        let said = |task| {
            let program = ProgramName::with(None, None);
            why(
                &sample_plan::with_roles(),
                TaskId(task),
                NOW,
                Paint::none(),
                &program,
                &HeldLocks::new(),
            )
            .unwrap()
        };
        insta::assert_snapshot!(said(5), @r"
        5 · Publish: ready
          it waits for a free lane of `coder`: task 4 under way, at most 1 at once
        ");
        insta::assert_snapshot!(said(4), @r"
        4 · Test: in progress
          `coder` took it 5 min ago

        Attempts
          1  task-4a is under way
        ");
    }

    #[test]
    fn why_shows_open_request() {
        let said = why(
            &sample_plan::with_a_wait(),
            TaskId(4),
            NOW,
            Paint::none(),
            &ProgramName::with(None, None),
            &HeldLocks::new(),
        );
        insta::assert_snapshot!(said.unwrap(), @r"
        4 · Test: in progress
          `coder` took it 5 min ago
          coder waits for tester · 60 s: Does it count? (task-4b)

        Attempts
          1  task-4a is under way
        ");
    }

    #[test]
    fn why_of_unknown_task_is_none() {
        assert_eq!(
            why(
                &sample_plan::plan(),
                TaskId(9),
                NOW,
                Paint::none(),
                &ProgramName::with(None, None),
                &HeldLocks::new()
            ),
            None
        );
    }
}
