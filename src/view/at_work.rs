//! What is at work in a plan now: a row a task, for the live area of a terminal. What the agents themselves say of it is not in
//! the plan.

use std::time::Duration;

use textwrap::core::display_width;

use super::event_lines::task_of;
use super::{Mark, Paint, Style, name, usage};
use crate::plan::{
    Attempt, AttemptState, BudgetLimit, CommandId, ModelQuestionKind, Plan, Task, TaskId, Time,
    counted,
};
use crate::wire::{CommandFile, joined, role_phrases};

/// Rows that are made; a terminal shows fewer.
const MOST_ROWS: usize = 50;

/// What is at work in a plan, and how far the plan is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AtWork {
    pub rows: Vec<WorkRow>,
    /// Rows that were left out.
    pub more: usize,
    /// Tasks that are over, of all.
    pub done: usize,
    pub total: usize,
    pub failed: usize,
    /// What was reported so far.
    pub tokens: u64,
    pub cost_usd: f64,
}

/// One task at work, or one question to the model that is about no task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkRow {
    pub task: Option<TaskId>,
    pub name: String,
    /// What is known without the agent's own words.
    pub doing: String,
    pub since: Option<Time>,
    /// The command that an agent works on.
    pub command: Option<CommandId>,
    /// The folder that it works in.
    pub workspace: String,
    /// Only a person can go on with it.
    pub asks: bool,
}

impl AtWork {
    /// Returns what is at work in a plan.
    pub fn of(plan: &Plan) -> Self {
        let counts = plan.counts();
        let (tokens, cost_usd) = usage::whole(&plan.head().usage);
        let asks = plan.open_asks().filter_map(|ask| match ask.subject {
            ModelQuestionKind::Judge(_) | ModelQuestionKind::Step(_) => None,
            _ if ask.error.is_some() => None,
            ref subject => Some(WorkRow {
                name: "plan".to_owned(),
                doing: format!("asks the model to {}", task_of(subject)),
                since: Some(ask.asked),
                ..WorkRow::default()
            }),
        });
        let tasks = plan.in_progress().map(|task| WorkRow::of(plan, task));
        Self {
            rows: asks.chain(tasks).take(MOST_ROWS).collect(),
            more: counts.in_progress.saturating_sub(MOST_ROWS),
            done: counts.completed + counts.failed + counts.skipped,
            total: counts.total(),
            failed: counts.failed,
            tokens,
            cost_usd,
        }
    }

    /// Returns the rows and the bar, each narrower than the screen, and fewer than its lines; nothing if nothing is at work.
    /// `says` returns what the agent of a row says.
    pub fn lines(
        &self,
        says: impl Fn(&WorkRow) -> AgentSays,
        since: Time,
        now: Time,
        screen: Screen,
    ) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let fit = screen.rows.saturating_sub(LEFT_FREE).max(1);
        let says: Vec<AgentSays> = self.rows.iter().map(says).collect();
        let rows = || self.rows.iter().zip(&says);
        let titles: Vec<String> = self.rows.iter().map(WorkRow::title).collect();
        let used = rows().map(|(row, says)| row.used(says, now, screen));
        let used: Vec<String> = used.collect();
        let widest =
            |texts: &[String]| texts.iter().take(fit).map(|text| display_width(text)).max();
        let (title, right) = (widest(&titles).unwrap_or(0), widest(&used).unwrap_or(0));
        // The first two columns are for what turns, the last one stays free: a full line would be two for some terminals.
        let free = screen.columns.saturating_sub(4);
        let title = title.min(free / 3);
        let doing = free.saturating_sub(title + right + 4);
        let shown = rows().zip(titles).zip(used).take(fit);
        let shown = shown.map(|(((row, says), name), used)| {
            let said = match says.doing.as_str() {
                "" => &row.doing,
                said => said,
            };
            let (name, said) = (padded(&name, title), padded(said, doing));
            let text = fitted(format!("{name}  {said}  {used}").trim_end(), free);
            row.marked(&text, screen)
        });
        let mut lines: Vec<String> = shown.collect();
        let more = self.more + self.rows.len().saturating_sub(fit);
        lines.extend((more > 0).then(|| format!("   … {more} more at work")));
        lines.push(self.bar(&says, since, now, screen));
        lines
    }

    /// Returns which tasks are at work beside a question, on one line that is narrower than the screen; empty if none is.
    pub fn beside_question(&self, columns: usize) -> String {
        let rows = self.rows.iter();
        let rows = rows.filter(|row| !row.asks && row.task.is_some());
        let titles: Vec<String> = rows.map(WorkRow::title).collect();
        let count = titles.len() + self.more;
        if count == 0 {
            return String::new();
        }
        let text = format!("{} at work: {}", counted(count, "task"), titles.join(", "));
        fitted(&text, columns.saturating_sub(1))
    }

    fn bar(&self, says: &[AgentSays], since: Time, now: Time, screen: Screen) -> String {
        let (mut tokens, mut cost) = (self.tokens, self.cost_usd);
        for says in says {
            tokens = tokens.saturating_add(says.tokens);
            cost += says.cost_usd;
        }
        let failed = (self.failed > 0).then(|| format!("{} failed", self.failed));
        let (time, tokens) = (clock(now.since(since)), screen.tokens(tokens));
        let used = [failed, Some(time), tokens, usage::money(cost)];
        let used = used.iter().flatten().map(|part| format!(" · {part}"));
        let used: String = used.collect();
        let cells = (screen.columns / 6).clamp(8, 30);
        let filled = (cells * self.done).checked_div(self.total).unwrap_or(0);
        let (filled, rest) = ("█".repeat(filled), "░".repeat(cells - filled));
        let text = match self.total {
            0 => "no tasks yet".to_owned(),
            total => format!("{} of {total} done", self.done),
        };
        let fit = screen.columns.saturating_sub(cells + 3);
        let text = fitted(&format!("{text}{used}"), fit);
        format!(" {}{rest} {text}", screen.paint.text(Style::Good, &filled))
    }
}

impl WorkRow {
    fn of(plan: &Plan, task: &Task) -> Self {
        let attempt = plan.current_attempt(task);
        let mut questions = plan.open_questions();
        let asks = questions.any(|open| open.task == Some(task.number));
        let (doing, since) = match attempt {
            _ if asks => (Mark::ASKS.word.to_owned(), None),
            Some(attempt) => doing(attempt),
            None => ("is started".to_owned(), None),
        };
        let open = attempt.filter(|attempt| !asks && attempt.state == AttemptState::Open);
        let claimed = open.filter(|attempt| attempt.claimed.is_some());
        let folder = claimed.map(|attempt| CommandFile::workspace_of(&attempt.text));
        // What a role waits for is said by the plan alone.
        let works = claimed.filter(|attempt| attempt.waits.is_empty());
        Self {
            task: Some(task.number),
            name: name(&task.name),
            doing,
            since,
            command: works.map(|attempt| attempt.id.clone()),
            workspace: folder.unwrap_or_default(),
            asks,
        }
    }

    fn title(&self) -> String {
        match self.task {
            Some(task) => format!("{task} · {}", self.name),
            None => self.name.clone(),
        }
    }

    fn used(&self, says: &AgentSays, now: Time, screen: Screen) -> String {
        let tokens = screen.tokens(says.tokens);
        let since = self.since.map(|since| clock(now.since(since)));
        let parts = [since, tokens, usage::money(says.cost_usd)];
        joined(parts.into_iter().flatten(), " · ")
    }

    /// Returns the text behind what turns, or behind the mark of a question.
    fn marked(&self, text: &str, screen: Screen) -> String {
        let (paint, mark) = (screen.paint, Mark::ASKS);
        if self.asks {
            return paint.text(mark.style, &format!(" {} {text}", mark.glyph));
        }
        let spinner = SPINNER[screen.step % SPINNER.len()];
        format!(" {} {text}", paint.text(Style::Busy, spinner))
    }
}

/// Returns what is done in an attempt, and since when.
fn doing(attempt: &Attempt) -> (String, Option<Time>) {
    let words = match (attempt.state, attempt.claimed, attempt.waits.last()) {
        (AttemptState::Open, None, _) => {
            return ("waits for a worker".to_owned(), Some(attempt.issued));
        }
        (AttemptState::Open, since, Some(wait)) => return (role_phrases::waits(wait), since),
        (AttemptState::Open, since, None) => return ("an agent works on it".to_owned(), since),
        (AttemptState::Reported, ..) => "is checked and judged",
        _ => "the next attempt comes",
    };
    let reported = attempt.report.as_ref().map(|report| report.received);
    (words.to_owned(), reported)
}

/// What an agent itself says of its work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentSays {
    /// What it does now, on one line; empty if it does not say.
    pub doing: String,
    pub tokens: u64,
    pub cost_usd: f64,
}

/// Where the rows are shown: a terminal, and the step of what moves there.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub columns: usize,
    pub rows: usize,
    pub step: usize,
    pub paint: Paint,
}

impl Screen {
    /// Returns a count of tokens, if there is one.
    fn tokens(self, count: u64) -> Option<String> {
        let limit = BudgetLimit::LlmTokens;
        (count > 0).then(|| match self.columns < WIDE {
            true => limit.amount(count as f64),
            false => limit.counted(count as f64),
        })
    }
}

/// What turns beside a task at work.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Below that, units are left out.
const WIDE: usize = 80;

/// Lines of a terminal that are left for what stays.
const LEFT_FREE: usize = 6;

/// Returns a span as a clock shows it: `0:07`, `12:30`, `1:02:03`.
fn clock(span: Duration) -> String {
    let (minutes, seconds) = (span.as_secs() / 60, span.as_secs() % 60);
    match minutes {
        0..60 => format!("{minutes}:{seconds:02}"),
        _ => format!("{}:{:02}:{seconds:02}", minutes / 60, minutes % 60),
    }
}

/// Returns a text on so many columns.
fn padded(text: &str, columns: usize) -> String {
    let text = fitted(text, columns);
    let blanks = columns.saturating_sub(display_width(&text));
    text + &" ".repeat(blanks)
}

/// Returns at most so many columns of a text; the last character is `…` if something was cut.
fn fitted(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += display_width(c.encode_utf8(&mut [0; 4]));
        used <= columns
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept + if columns > 0 { "…" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample_plan;
    use super::*;

    fn row(task: u32, name: &str, since: i64) -> WorkRow {
        WorkRow {
            task: Some(TaskId(task)),
            name: name.into(),
            doing: "an agent works on it".into(),
            since: Some(Time(since * 1_000_000)),
            command: None,
            workspace: String::new(),
            asks: false,
        }
    }

    fn at_work() -> AtWork {
        AtWork {
            rows: vec![
                row(2, "Read every format that the old program could read", 10),
                row(11, "书写测试和文档的说明", 3_000),
                WorkRow {
                    doing: "asks you".into(),
                    since: None,
                    asks: true,
                    ..row(12, "Ship", 0)
                },
            ],
            more: 0,
            done: 3,
            total: 12,
            failed: 1,
            tokens: 46_000,
            cost_usd: 0.32,
        }
    }

    fn drawn(columns: usize, rows: usize) -> String {
        let says = |row: &WorkRow| match row.task {
            Some(TaskId(2)) => AgentSays {
                doing: "Bash cargo test --workspace --all-features -- --nocapture".into(),
                tokens: 12_300,
                cost_usd: 0.04,
            },
            _ => AgentSays::default(),
        };
        let screen = Screen {
            columns,
            rows,
            step: 0,
            paint: Paint::none(),
        };
        let now = Time(3_725_000_000);
        at_work().lines(says, Time(0), now, screen).join("\n")
    }

    #[test]
    fn rows_fit_the_screen() {
        insta::assert_snapshot!(drawn(160, 24), @r"
        ⠋ 2 · Read every format that the old program could re…  Bash cargo test --workspace --all-features -- --nocapture                 1:01:55 · 12k tokens · $0.04
        ⠋ 11 · 书写测试和文档的说明                             an agent works on it                                                      12:05
        ? 12 · Ship                                             asks you
        ██████░░░░░░░░░░░░░░░░░░░░ 3 of 12 done · 1 failed · 1:02:05 · 58k tokens · $0.36
        ");
        insta::assert_snapshot!(drawn(100, 24), @r"
        ⠋ 2 · Read every format that the …  Bash cargo test --workspace --a…  1:01:55 · 12k tokens · $0.04
        ⠋ 11 · 书写测试和文档的说明         an agent works on it              12:05
        ? 12 · Ship                         asks you
        ████░░░░░░░░░░░░ 3 of 12 done · 1 failed · 1:02:05 · 58k tokens · $0.36
        ");
        insta::assert_snapshot!(drawn(60, 24), @r"
        ⠋ 2 · Read every fo…  Bash cargo t…  1:01:55 · 12k · $0.04
        ⠋ 11 · 书写测试和文…  an agent wor…  12:05
        ? 12 · Ship           asks you
        ██░░░░░░░░ 3 of 12 done · 1 failed · 1:02:05 · 58k · $0.36
        ");
        insta::assert_snapshot!(drawn(60, 8), @r"
        ⠋ 2 · Read every fo…  Bash cargo t…  1:01:55 · 12k · $0.04
        ⠋ 11 · 书写测试和文…  an agent wor…  12:05
          … 1 more at work
        ██░░░░░░░░ 3 of 12 done · 1 failed · 1:02:05 · 58k · $0.36
        ");
        for columns in 30..200 {
            let widest = drawn(columns, 24).lines().map(display_width).max();
            assert!(widest.unwrap() < columns, "{columns}");
        }
    }

    #[test]
    fn shows_tasks_in_progress() {
        let at_work = AtWork::of(&sample_plan::plan());
        let rows = at_work
            .rows
            .iter()
            .map(|row| format!("{}: {}\n", row.title(), row.doing));
        insta::assert_snapshot!(rows.collect::<String>(), @r#"
        2 · Serve "it" <over> HTTP; #1: asks you
        4 · Test: an agent works on it
        "#);
    }
}
