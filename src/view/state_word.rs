//! The words for the states of plans and tasks: one each, on every page, in MISSION.md and in the JSON. The dialects of the tools
//! have the words of their documents.

use serde::Serialize;

use super::Style;
use crate::plan::{
    AttemptState, DAEMON, Language, Plan, PlanHead, PlanState, REPLACED, ReviewPolicy, Task,
    TaskState,
};

/// The state of a plan or of a task, in the order in which numbers of tasks are shown. In JSON it is written with `_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StateWord {
    /// Of a plan that no daemon has carried out yet.
    NotStarted,
    Planning,
    /// Of a plan that a person is to approve.
    Reviewing,
    Running,
    /// Of a plan that is to be carried out, and whose daemon is gone.
    Stopped,
    Paused,
    Completed,
    InProgress,
    /// Of a task whose report is checked and judged.
    Checking,
    /// Of a task that goes on only with an answer.
    AsksYou,
    Ready,
    /// Of a task whose turn has not come.
    Waiting,
    Failed,
    Skipped,
    /// Of a task that a changed plan does without.
    Replaced,
    /// Of a plan that was ended, and of its tasks that had not ended.
    Aborted,
}

impl StateWord {
    /// Returns the state of a plan. `carried_out` says whether a daemon works on it now.
    pub fn of_plan(head: &PlanHead, carried_out: bool) -> Self {
        let by_daemon = head.owner == DAEMON;
        match head.status {
            PlanState::Completed => Self::Completed,
            PlanState::Failed => Self::Failed,
            PlanState::Abandoned => Self::Aborted,
            PlanState::Paused(_) => Self::Paused,
            PlanState::Idle if !carried_out => Self::NotStarted,
            PlanState::Running if by_daemon && !carried_out => Self::Stopped,
            _ if by_daemon && (head.next_task <= 1 || head.replan.is_some()) => Self::Planning,
            _ if head.review == ReviewPolicy::Wanted => Self::Reviewing,
            _ => Self::Running,
        }
    }

    /// Returns the state of a task.
    pub fn of_task(plan: &Plan, task: &Task) -> Self {
        let replaced = |reason: &String| reason.starts_with(REPLACED);
        let attempt = || plan.current_attempt(task).map(|attempt| attempt.state);
        match task.status {
            TaskState::Completed => Self::Completed,
            TaskState::Skipped if task.result.as_ref().is_some_and(replaced) => Self::Replaced,
            TaskState::Skipped => Self::Skipped,
            _ if plan.asks_about(task.number) => Self::AsksYou,
            TaskState::Failed => Self::Failed,
            TaskState::InProgress if attempt() == Some(AttemptState::Reported) => Self::Checking,
            TaskState::InProgress => Self::InProgress,
            TaskState::Pending if *plan.status() == PlanState::Abandoned => Self::Aborted,
            TaskState::Pending if plan.is_ready(task) => Self::Ready,
            TaskState::Pending => Self::Waiting,
        }
    }

    /// Returns the word.
    pub fn text(self, language: Language) -> &'static str {
        let (en, zh) = match self {
            Self::NotStarted => ("not started", "未开始"),
            Self::Planning => ("planning", "规划中"),
            Self::Reviewing => ("reviewing", "审阅中"),
            Self::Running => ("running", "运行中"),
            Self::Stopped => ("stopped", "已停止"),
            Self::Paused => ("paused", "已暂停"),
            Self::Ready => ("ready", "就绪"),
            Self::Waiting => ("waiting", "等待中"),
            Self::InProgress => ("in progress", "进行中"),
            Self::Checking => ("checking", "检查中"),
            Self::AsksYou => ("asks you", "等你答复"),
            Self::Completed => ("completed", "已完成"),
            Self::Failed => ("failed", "已失败"),
            Self::Skipped => ("skipped", "已跳过"),
            Self::Replaced => ("replaced", "已被取代"),
            Self::Aborted => ("aborted", "已中止"),
        };
        language.pick(en, zh)
    }

    /// Returns the word on a screen.
    pub fn as_str(self) -> &'static str {
        self.text(Language::En)
    }

    /// Returns how to show it on a screen.
    pub(super) fn style(self) -> Style {
        match self {
            Self::Waiting | Self::Skipped | Self::Replaced => Style::Dim,
            Self::Planning | Self::Reviewing | Self::Running | Self::Stopped => Style::Busy,
            Self::NotStarted | Self::Paused | Self::InProgress | Self::Checking => Style::Busy,
            Self::Completed => Style::Good,
            Self::Failed | Self::Aborted => Style::Bad,
            Self::AsksYou => Style::Bold,
            Self::Ready => Style::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ListedView, Paint, PlanView, ProgramName, mission, why};
    use super::*;
    use crate::plan::{
        AnswerChoice, Attempt, CommandId, HeldLocks, HumanQuestion, HumanQuestionKind, QuestionId,
        ReplanRequest, Row, TaskId, Time,
    };
    use crate::store::{ListedPlan, TalliedPlan};
    use crate::wire::graph_text;
    use crate::wire::tests::sample_plans::{NOW, head, plan, task};

    fn assert_chinese(word: StateWord) {
        let text = word.text(Language::Zh);
        assert!(text.chars().all(|c| !c.is_ascii()), "{text}");
    }

    fn question(task: u32) -> Row {
        Row::from(HumanQuestion {
            attempts: 3,
            refused: Vec::new(),
            id: QuestionId::new("q-1"),
            about: HumanQuestionKind::Failures,
            task: Some(TaskId(task)),
            request: None,
            ask: None,
            reason: "what now".to_owned(),
            choices: vec![AnswerChoice::Retry],
            asked: Time(0),
            answer: None,
            closed: None,
        })
    }

    /// Asserts that every page and the JSON say this word of a plan.
    fn assert_plan(plan: &Plan, carried_out: bool, word: StateWord) {
        let (head, text) = (plan.head(), word.as_str());
        assert_chinese(word);
        let listed = TalliedPlan {
            plan: ListedPlan {
                seq: 1,
                head: head.clone(),
            },
            tally: plan.tally(),
        };
        let listed = ListedView::of(&listed, carried_out);
        let line = listed.line(NOW, Paint::none());
        assert!(
            line.starts_with(&format!("abcdefgh  {text:<11}  ")),
            "{line}"
        );
        let mut view = PlanView::of(plan, 1, 50, NOW, &HeldLocks::new());
        view.carried_out_by(carried_out.then_some(1), None);
        let page = view.page(NOW, Paint::none(), &ProgramName::with(None, None));
        let first = page.lines().next().unwrap();
        assert!(
            first.contains(&format!("  Word counter  {text}")),
            "{first}"
        );
        let mission = mission::render(plan, carried_out, NOW, "plan-agent");
        assert!(mission.contains(&format!("\n\n{text}")), "{mission}");
        let json = serde_json::json!(text.replace(' ', "_"));
        assert_eq!(serde_json::json!(view)["plan"]["state"], json);
        assert_eq!(serde_json::json!(listed)["state"], json);
    }

    #[test]
    fn every_page_says_same_word_of_plan() {
        let paused = PlanState::Paused("a budget".to_owned());
        let states = [
            (PlanState::Idle, StateWord::NotStarted, StateWord::Running),
            (PlanState::Running, StateWord::Stopped, StateWord::Running),
            (paused, StateWord::Paused, StateWord::Paused),
            (
                PlanState::Completed,
                StateWord::Completed,
                StateWord::Completed,
            ),
            (PlanState::Failed, StateWord::Failed, StateWord::Failed),
            (PlanState::Abandoned, StateWord::Aborted, StateWord::Aborted),
        ];
        for (status, alone, carried_out) in states {
            let one = [task(1, "One", TaskState::Completed)];
            let plan = plan(PlanHead { status, ..head() }, one);
            assert_plan(&plan, false, alone);
            assert_plan(&plan, true, carried_out);
        }
        let replan = ReplanRequest {
            task: None,
            why: "no".to_owned(),
        };
        let replanned = PlanHead {
            replan: Some(Box::new(replan)),
            ..head()
        };
        let reviewed = PlanHead {
            review: ReviewPolicy::Wanted,
            ..head()
        };
        let only_goal = PlanHead {
            next_task: 1,
            ..head()
        };
        let of_tool = PlanHead {
            owner: "tasks".to_owned(),
            ..head()
        };
        for (head, carried_out, word) in [
            (replanned.clone(), true, StateWord::Planning),
            (replanned, false, StateWord::Stopped),
            (reviewed.clone(), true, StateWord::Reviewing),
            (reviewed, false, StateWord::Stopped),
            (only_goal, true, StateWord::Planning),
            (of_tool, false, StateWord::Running),
        ] {
            assert_plan(&plan(head, []), carried_out, word);
        }
    }

    #[test]
    fn every_page_says_same_word_of_task() {
        let attempt = |task: u32, state| Attempt {
            state,
            ..Attempt::new(CommandId::new(format!("task-{task}")), TaskId(task), 1, NOW)
        };
        let mut tasks = vec![
            task(1, "One", TaskState::Pending),
            task(2, "Two", TaskState::Pending),
            task(3, "Three", TaskState::InProgress),
            task(4, "Four", TaskState::InProgress),
            task(5, "Five", TaskState::InProgress),
            task(6, "Six", TaskState::Completed),
            task(7, "Seven", TaskState::Failed),
            task(8, "Eight", TaskState::Skipped),
            task(9, "Nine", TaskState::Skipped),
        ];
        tasks[1].dependencies = vec![TaskId(1)];
        tasks[8].result = Some(format!("{REPLACED}: a better way"));
        for number in [3, 4, 5] {
            tasks[number - 1].current = Some(CommandId::new(format!("task-{number}")));
        }
        let mut running = plan(head(), tasks);
        for (number, state) in [
            (3, AttemptState::Open),
            (4, AttemptState::Reported),
            (5, AttemptState::Judged),
        ] {
            running.put(Row::Attempt(Box::new(attempt(number, state))));
        }
        running.put(question(5));
        let ended = PlanHead {
            status: PlanState::Abandoned,
            ..head()
        };
        let aborted = plan(ended, [task(1, "One", TaskState::Pending)]);
        for (plan, number, word) in [
            (&running, 1, StateWord::Ready),
            (&running, 2, StateWord::Waiting),
            (&running, 3, StateWord::InProgress),
            (&running, 4, StateWord::Checking),
            (&running, 5, StateWord::AsksYou),
            (&running, 6, StateWord::Completed),
            (&running, 7, StateWord::Failed),
            (&running, 8, StateWord::Skipped),
            (&running, 9, StateWord::Replaced),
            (&aborted, 1, StateWord::Aborted),
        ] {
            let (text, id) = (word.as_str(), TaskId(number));
            assert_chinese(word);
            let (program, task) = (ProgramName::with(None, None), plan.task(id).unwrap());
            let view = PlanView::of(plan, 1, 50, NOW, &HeldLocks::new());
            let page = view.page(NOW, Paint::none(), &program);
            let name = &task.name;
            assert!(
                page.contains(&format!("\n{number:>4}  {text:<11}  {name}")),
                "{page}"
            );
            let mission = mission::render(plan, true, NOW, "plan-agent");
            assert!(
                mission.contains(&format!("] {number} · {name} — {text}")),
                "{mission}"
            );
            let why = why(plan, id, NOW, Paint::none(), &program, &HeldLocks::new()).unwrap();
            assert!(
                why.starts_with(&format!("{number} · {name}: {text}\n")),
                "{why}"
            );
            let state = |task: &Task| StateWord::of_task(plan, task).as_str();
            let graph = graph_text::mermaid(&[task], state);
            assert!(graph.contains(&format!("{name}<br/>{text}\"")), "{graph}");
            let at = plan.index_of(task);
            let json = serde_json::json!(view)["tasks"][at]["state"].clone();
            assert_eq!(json, text.replace(' ', "_"));
        }
    }

    #[test]
    fn numbers_of_page_follow_words() {
        let mut asked = plan(
            head(),
            [
                task(1, "One", TaskState::Pending),
                task(2, "Two", TaskState::InProgress),
            ],
        );
        asked.put(question(1));
        let page = PlanView::of(&asked, 1, 50, NOW, &HeldLocks::new());
        let page = page.page(NOW, Paint::none(), &ProgramName::with(None, None));
        assert!(
            page.contains("0 of 2 tasks done · 1 in progress · 1 asks you\n"),
            "{page}"
        );
    }
}
