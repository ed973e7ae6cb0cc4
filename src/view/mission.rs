//! MISSION.md: a plan as a person follows it in the workspace. Its size is bounded however large the plan is. A name or a
//! result always stays text: it cannot become a heading, a fence, markup or a terminal's command.

use std::fmt::Write as _;

use super::usage::TasksUsage;
use super::{CurrentAttempt, PlanView, QuestionView, StateWord, TaskView, first_numbers};
use crate::plan::{
    Decision, HeldLocks, IntegrationBranch, Language, Plan, PlanHead, RoleRequest, Task, TaskState,
    Time, counted,
};
use crate::wire::{clip, one_line, printable_start, role_phrases, time_text};

/// The most bytes of the whole text; the sum of its parts is smaller.
pub const MAX_BYTES: usize = 64 * 1024;

const MAX_GOAL: usize = 1500;
const MAX_SUMMARY: usize = 5000;
const MAX_NAME: usize = 120;
const MAX_TEXT: usize = 400;
/// The most bytes of the list of questions, and of the list of tasks.
const MAX_QUESTIONS: usize = 8 * 1024;
const MAX_TASKS: usize = 22 * 1024;
/// The most tasks that are shown, and how many of them come before the first unsettled one.
const WINDOW: usize = 60;
const BEFORE: usize = 15;

/// Returns the text of MISSION.md at a given time. `carried_out` says whether a daemon works on the plan, `program` is what a
/// person types to call this program.
pub fn render(plan: &Plan, carried_out: bool, now: Time, program: &str) -> String {
    let tasks = window(plan, WINDOW, BEFORE);
    let before = tasks.first().map_or(0, |first| plan.index_of(first));
    let (locks, used) = (HeldLocks::new(), TasksUsage::new());
    let view = PlanView::with(plan, 0, (before, &tasks), now, &locks, &used);
    let head = &view.head;
    let language = head.language();
    let state = StateWord::of_plan(head, carried_out);
    let mut text = format!("# {}\n\n", inline(&head.name, MAX_NAME));
    text.push_str(&block(&head.goal, MAX_GOAL));
    text.push_str(&progress(&view, state, now));
    if let Some(place) = results(head, program) {
        add(&mut text, format_args!("{place}\n\n"));
    }
    if !view.questions.is_empty() {
        let questions = view.questions.iter();
        let questions = questions.map(|asked| question(asked, program, language));
        let more =
            |hidden| language.pick(format!("and {hidden} more"), format!("另有 {hidden} 个"));
        let title = language.pick("Open questions", "待答问题");
        text.push_str(&list(title, questions, MAX_QUESTIONS, 0, more));
    }
    let (earlier, later) = view.hidden;
    let tasks = view.tasks.iter().map(|one| task(one, language));
    let more = |hidden| {
        let en = format!("and {}", counted(hidden, "more task"));
        language.pick(en, format!("另有 {hidden} 个任务"))
    };
    let title = language.pick("Tasks", "任务");
    text.push_str(&list(title, tasks, MAX_TASKS, earlier + later, more));
    if let Some(outcome) = &head.outcome {
        let title = language.pick("Summary", "总结");
        add(&mut text, format_args!("## {title}\n\n"));
        text.push_str(&block(outcome, MAX_SUMMARY));
    }
    text
}

fn progress(view: &PlanView, state: StateWord, now: Time) -> String {
    use StateWord::{
        Aborted, AsksYou, Checking, Completed, Failed, InProgress, Ready, Skipped, Waiting,
    };
    let (progress, language) = (&view.progress, view.head.language());
    let title = language.pick("State", "状态");
    let colon = language.pick(": ", "：");
    let why = view.head.status.why().map_or(String::new(), |why| {
        format!("{colon}{}", quoted(why, language))
    });
    let (settled, total) = (progress.settled(), progress.total);
    let en = format!("{settled} of {} settled", counted(total, "task"));
    let settled = language.pick(en, format!("{total} 个任务中 {settled} 个已结束"));
    let (state, now) = (state.text(language), time_text(now));
    let mut text = format!("## {title}\n\n{state}{why} · {settled} · {now}\n\n");
    let always = [Completed, Failed, Skipped, InProgress, Ready, Waiting];
    let if_any = [Checking, AsksYou, Aborted].into_iter();
    let if_any = if_any.filter(|state| progress.count(*state) > 0);
    let counts = always.into_iter().chain(if_any).map(|state| {
        let (count, word) = (progress.count(state), state.text(language));
        language.pick(format!("{count} {word}"), format!("{word} {count}"))
    });
    let counts: Vec<String> = counts.collect();
    text += &counts.join(language.pick(", ", "，"));
    text += "\n\n";
    if let Some(lanes) = view.at_work(language) {
        let at_work = language.pick("At work", "正在工作");
        let lanes = inline(&lanes, MAX_TEXT);
        add(&mut text, format_args!("{at_work}{colon}{lanes}\n\n"));
    }
    if let Some(replan) = &view.head.replan {
        let why = quoted(&replan.why, language);
        let (en, zh) = match replan.task {
            Some(task) => (format!(" after task {task}"), format!("任务 {task} 之后，")),
            None => Default::default(),
        };
        let en = format!("The rest of the plan is being changed{en}");
        let changed = language.pick(en, format!("{zh}其余计划正在调整"));
        add(&mut text, format_args!("{changed}{colon}{why}\n\n"));
    }
    text
}

/// Says where the accepted work of a plan waits to be taken over, if it does.
fn results(head: &PlanHead, program: &str) -> Option<String> {
    let line = head.line.as_ref().filter(|line| line.tip != line.base)?;
    // The branch of an ended plan is gone: it was merged by hand, and removed.
    let gone = head.status.settled() && line.shown.is_none();
    if head.results.is_some() || line.elsewhere.is_some() || gone {
        return None;
    }
    let (id, branch) = (&head.id, IntegrationBranch::branch(&head.id));
    let en =
        format!("Accepted work is on the branch `{branch}`; `{program} merge {id}` takes it over");
    let zh = format!("已接受的成果在分支 `{branch}` 上；`{program} merge {id}` 将其并入");
    Some(head.language().pick(en, zh))
}

fn question(question: &QuestionView, program: &str, language: Language) -> String {
    let about = question.task.map_or(String::new(), |task| {
        language.pick(format!(" (task {task})"), format!("（任务 {task}）"))
    });
    let colon = language.pick(": ", "：");
    let reason = quoted(&question.reason, language);
    let mut text = format!("- {}{about}{colon}{reason}\n", question.id);
    for choice in &question.choices {
        let command = format!("{program} answer {} {}", question.id, choice.as_str());
        add(&mut text, format_args!("  - `{command}`\n"));
    }
    text
}

/// Returns the tasks to show where at most `size` fit, in the plan's order. These are all tasks of a small plan. Else they are
/// the tasks around the first one in progress or, without one, the first unsettled one, with `before` tasks before it. If all
/// are settled, they are the last tasks.
pub fn window(plan: &Plan, size: usize, before: usize) -> Vec<&Task> {
    let total = plan.counts().total();
    let middle = plan.in_progress().next();
    let first = match middle.or_else(|| plan.unsettled().next()) {
        _ if total <= size => 0,
        Some(middle) => plan.index_of(middle).saturating_sub(before),
        None => total - size,
    };
    plan.tasks().skip(first).take(size).collect()
}

fn task(task: &TaskView, language: Language) -> String {
    let mark = if task.status.satisfies() { 'x' } else { ' ' };
    let name = inline(&task.name, MAX_NAME);
    let role = task.assignee.as_deref().map(role_phrases::role);
    let role = role.map(|role| format!(" ({})", inline(&role, MAX_NAME)));
    let role = role.unwrap_or_default();
    let (id, standing) = (task.id, standing(task, language));
    let mut text = format!("- [{mark}] {id} · {name}{role} — {standing}\n");
    let colon = language.pick(": ", "：");
    for wait in &task.waits {
        let (waits, what) = (waits_since(wait, language), quoted(&wait.what, language));
        add(&mut text, format_args!("  {waits}{colon}{what}\n"));
    }
    if let Some(result) = &task.result {
        let word = match task.status {
            TaskState::Skipped | TaskState::Failed => language.pick("Reason", "原因"),
            _ => language.pick("Result", "结果"),
        };
        let result = quoted(result, language);
        add(&mut text, format_args!("  {word}{colon}{result}\n"));
    }
    if let Some(verdict) = &task.verdict {
        let reason = quoted(&verdict.reason, language);
        let last = language.pick("Last result ", "上次结果");
        let word = decision(verdict.decision, language);
        add(&mut text, format_args!("  {last}{word}{colon}{reason}\n"));
    }
    text
}

fn waits_since(wait: &RoleRequest, language: Language) -> String {
    let since = time_text(wait.since);
    match language {
        Language::En => format!(
            "{} since {since}",
            inline(&role_phrases::waits(wait), MAX_NAME)
        ),
        Language::Zh => {
            let [role, on] =
                [&wait.role, &wait.on].map(|role| inline(&role_phrases::role(role), MAX_NAME));
            format!("{role} 自 {since} 起等待 {on}")
        }
    }
}

/// Returns the state of a task, and why it is not further.
fn standing(task: &TaskView, language: Language) -> String {
    let word = task.state.text(language);
    let comma = language.pick(", ", "，");
    match task.state {
        StateWord::Completed if task.proven == Some(true) => {
            format!("{word}{comma}{}", language.pick("proven", "已证实"))
        }
        StateWord::Completed => {
            let by_hand = match task.by_hand {
                true => language.pick(" by hand", "（由人标记）"),
                false => "",
            };
            let accepted = language.pick("accepted", "已接受");
            format!("{word}{by_hand}{comma}{accepted}")
        }
        StateWord::Failed => language.pick(
            format!("{word} after {}", counted(task.attempts, "attempt")),
            format!("{word}（共尝试 {} 次）", task.attempts),
        ),
        StateWord::InProgress => {
            let stage = stage(task.attempt.as_ref(), task.attempts, language);
            format!("{word}{comma}{stage}")
        }
        StateWord::Ready | StateWord::Waiting => match task.not_before.map(time_text) {
            Some(until) => language.pick(
                format!("waiting until {until}"),
                format!("{}，直到 {until}", StateWord::Waiting.text(language)),
            ),
            None if task.state == StateWord::Ready => word.to_owned(),
            None if task.unmet.is_empty() => {
                word.to_owned() + language.pick(" for the tasks before it", "（在前面的任务之后）")
            }
            None => {
                let unmet = first_numbers(&task.unmet);
                let en = format!("{word} for {unmet}");
                language.pick(en, format!("{word}（任务 {unmet} 之后）"))
            }
        },
        _ => word.to_owned(),
    }
}

fn stage(current: Option<&CurrentAttempt>, attempts: u32, language: Language) -> String {
    let (en, zh) = match current {
        None => ("", ""),
        Some(attempt) if attempt.reported => (" is reported", "已报告"),
        Some(attempt) if attempt.claimed.is_some() => (" has an agent", "已有智能体"),
        Some(_) => (" waits for an agent", "等待智能体领取"),
    };
    let number = current.map_or(attempts, |attempt| attempt.number);
    let en = format!("attempt {number}{en}");
    language.pick(en, format!("第 {number} 次尝试{zh}"))
}

fn decision(decision: Decision, language: Language) -> &'static str {
    let (en, zh) = match decision {
        // Only tasks that are not settled show it.
        Decision::Next => ("seems good, but is not accepted", "看来可以，但尚未被接受"),
        Decision::Retry => ("to be tried again", "需要重试"),
        Decision::Replan => ("calls for another plan", "需要调整计划"),
        Decision::Abort => ("speaks for an end", "建议终止"),
    };
    language.pick(en, zh)
}

/// Returns a section with the entries that fit, and with the number of the others; `left_out` were not to be shown anyway.
fn list(
    title: &str,
    entries: impl Iterator<Item = String>,
    max: usize,
    left_out: usize,
    more: impl Fn(usize) -> String,
) -> String {
    let (mut list, mut hidden) = (String::new(), left_out);
    for entry in entries {
        if hidden == left_out && list.len() + entry.len() <= max {
            list.push_str(&entry);
        } else {
            hidden += 1;
        }
    }
    if hidden > 0 {
        add(&mut list, format_args!("- … {}\n", more(hidden)));
    }
    format!("## {title}\n\n{list}\n")
}

/// Returns an untrusted text on one line, without any markup.
fn inline(text: &str, max: usize) -> String {
    let line = escape(&one_line(text, max)).replace("![", "!\\[");
    if line.matches('`').count() % 2 == 1 || line.contains("```") {
        return line.replace('`', "\\`");
    }
    line
}

/// Returns a text that came as it is on one line: among Chinese texts in quotation marks.
fn quoted(text: &str, language: Language) -> String {
    let text = inline(text, MAX_TEXT);
    language.pick(text.clone(), format!("“{text}”"))
}

/// Returns an untrusted text as a quotation; no heading, fence or markup can break out of it.
fn block(text: &str, max: usize) -> String {
    let text = escape(&clip(printable_start(text, max).trim(), max));
    let quoted = (text.lines()).map(|line| format!("> {line}").trim_end().to_owned() + "\n");
    quoted.collect::<String>() + "\n"
}

fn escape(text: &str) -> String {
    text.replace('<', "\\<")
}

fn add(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("a String takes every text");
}

#[cfg(test)]
mod tests;
