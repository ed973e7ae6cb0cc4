//! The question file: a question to a human, with a place for the answer.

use AnswerChoice::*;
use HumanQuestionKind::{Branch, Model, Review};
use serde::{Deserialize, Serialize};

use super::{Checked, Problem, front_matter, joined, one_line, printable, quote};
use crate::plan::proof::NOT_PERMITTED;
use crate::plan::{AnswerChoice, HumanQuestion, HumanQuestionKind, Language, Plan};

/// Returns the text of `question-<id>.md`, with an empty answer to fill in. `program` is what a person types to call this
/// program, as in `plan-agent --config my.toml`.
pub fn render(question: &HumanQuestion, plan: &Plan, program: &str) -> String {
    let task = question.task.and_then(|id| plan.task(id));
    let choices = in_file(question).map(|choice| choice.as_str().to_owned());
    let header = QuestionHeader {
        id: Some(question.id.to_string()),
        plan: Some(one_line(plan.id().as_str(), 200)),
        task: task.map(|task| format!("{} · {}", task.number, one_line(&task.name, 200))),
        choices: choices.collect(),
        answer: Some(String::new()),
        note: Some(String::new()),
    };
    let text = front_matter::join(&header, &body(question, program, plan.head().language()));
    // Empty places are easier to fill in without quotes; each of the fields before them is on one line.
    text.replacen("\nanswer: ''\nnote: ''\n", "\nanswer:\nnote:\n", 1)
}

/// Reads a question file that a person may have filled in. Returns the choice and the note, or `None` while the file has no
/// answer. The caller checks the answer against the question itself.
///
/// # Errors
/// A file that is no longer readable, or an answer that is none; the error names the words of the file.
pub fn parse(text: &str) -> Checked<Option<(AnswerChoice, String)>> {
    let (header, answer_line) = read(text).map_err(|problem| vec![problem])?;
    let word = header.answer.as_deref().unwrap_or_default().trim();
    if word.is_empty() {
        return Ok(None);
    }
    if let Some(choice) = AnswerChoice::parse(word) {
        let note = header.note.unwrap_or_default();
        return Ok(Some((choice, note.trim().to_owned())));
    }
    let message = format!("`answer` is {}", quote(word));
    let hint = format!("write one of: {}", header.choices.join(", "));
    Err(vec![Problem::on_line(answer_line, message).with_hint(hint)])
}

/// Returns the choices that the file of a question gives.
pub fn in_file(question: &HumanQuestion) -> impl Iterator<Item = AnswerChoice> {
    let choices = question.choices.iter().copied();
    choices.filter(|choice| !question.is_grant(*choice))
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct QuestionHeader {
    id: Option<String>,
    plan: Option<String>,
    task: Option<String>,
    choices: Vec<String>,
    answer: Option<String>,
    note: Option<String>,
}

/// Reads the header and finds the line of the answer. A note such as `see: the log` is not YAML: then the answer and the note
/// are read as plain text, and the choices from their list.
fn read(text: &str) -> Result<(QuestionHeader, usize), Problem> {
    let front = front_matter::split(text)?;
    let line = front.line_of("answer");
    let spoiled = match front.parse() {
        Ok(header) => return Ok((header, line)),
        Err(problem) => problem,
    };
    let fields = front.fields().map_err(|_| spoiled.clone())?;
    let mut header = QuestionHeader::default();
    for field in &fields {
        let twice = fields.iter().filter(|other| other.key == field.key).count() > 1;
        match field.key.as_str() {
            _ if twice => return Err(spoiled),
            "choices" => header.choices = list(&field.text),
            "answer" => header.answer = Some(field.scalar().ok_or(spoiled.clone())?.to_owned()),
            "note" => header.note = Some(note(&field.text)),
            _ => {}
        }
    }
    Ok((header, line))
}

fn list(text: &str) -> Vec<String> {
    let words = text.split(['\n', ',', '[', ']']);
    let words = words.map(|word| word.trim().trim_start_matches("- ").to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// Returns a note as it was meant: a block's lines without its `|`; quotes stay.
fn note(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    match lines.split_first() {
        Some((first, rest)) if matches!(*first, "|" | "|-" | "|+" | ">" | ">-" | ">+") => {
            rest.join("\n")
        }
        _ => lines.join("\n"),
    }
}

fn body(question: &HumanQuestion, program: &str, language: Language) -> String {
    let reason = printable(&question.reason);
    let reason = reason.trim();
    let quoted = |line: &str| format!("> {line}").trim_end().to_owned();
    let reason = language.pick(reason.to_owned(), joined(reason.lines().map(quoted), "\n"));
    let permit = way_to_permit(&question.reason, program, language);
    let permit = permit.map_or(String::new(), |way| format!("\n\n{way}"));
    let title = language.pick("How to answer", "如何回答");
    let choices = question.choices.iter().map(|choice| {
        let about = question.about;
        let zh = meaning_zh(about, *choice).to_owned();
        let meaning = language.pick(meaning(about, *choice, question.attempts), zh);
        let only = match question.is_grant(*choice) {
            true => language.pick(" (not in this file)", "（不能在本文件中回答）"),
            false => "",
        };
        let colon = language.pick(": ", "：");
        format!("- `{}`{only}{colon}{meaning}\n", choice.as_str())
    });
    let choices: String = choices.collect();
    let first = question.choices.first();
    let first = first.map_or("", |choice| choice.as_str());
    let how = language.pick(
        "Write one of the words of `choices:` behind `answer:` above, if you like a note behind `note:`, and save the file.",
        "请把 `choices:` 中的一个词写在上面的 `answer:` 之后，需要附言时写在 `note:` 之后，然后保存文件。",
    );
    let only = match question.choices.iter().any(|one| question.is_grant(*one)) {
        true => language.pick(
            " Agents can write files: what gives a right is only taken from you.",
            "智能体也能写文件，所以授权只能由你亲自给出。",
        ),
        false => "",
    };
    let or = language.pick(" Or run:", "或者运行：");
    let id = &question.id;
    format!(
        "{reason}{permit}\n\n## {title}\n\n{choices}\n{how}{only}{or}\n\n\x20   {program} answer {id} {first} --note \"…\""
    )
}

/// Returns how a person permits agents to change a file that judges; `None` where the reason of a question is another one.
pub fn way_to_permit(reason: &str, program: &str, language: Language) -> Option<String> {
    let way = language.pick(
        format!(
            "To permit it: `may_change = [\"FILE\"]` under [run] in config.toml, then `{program} trust` and `{program} stop`, as a daemon reads it only when it begins; then answer `retry`, and `{program} resume`"
        ),
        format!(
            "如需允许：在 config.toml 的 [run] 下写 `may_change = [\"FILE\"]`，先运行 `{program} trust` 和 `{program} stop`（守护进程只在启动时读取配置），再回答 `retry`，然后运行 `{program} resume`"
        ),
    );
    reason.contains(NOT_PERMITTED).then_some(way)
}

/// Returns the meaning of a choice, for a person; `attempts` are those that `retry` gives a task, 0 if it gives none.
pub fn meaning(about: HumanQuestionKind, choice: AnswerChoice, attempts: u32) -> String {
    let meaning = match (choice, about) {
        (Approve, Review) => "go ahead with the plan as shown",
        (Approve, _) => "take the goal as met, and end the plan as completed",
        (Accept, Branch) => "go on from where the branch is now",
        (Accept, _) => "take the result as it is: the task counts as completed",
        (Retry, Branch) => "look again, after you have moved the branch back",
        (Retry, Model) if attempts > 0 => {
            "ask the model once more; with a note, the agent tries again with that"
        }
        (Retry, Model) => "ask the model once more",
        (Skip, Model) if attempts == 0 => "leave the plan as it is, and go on",
        (Retry, _) if attempts > 1 => {
            return format!(
                "try again, up to {attempts} attempts; the note goes along to the agent"
            );
        }
        (Retry, _) => "try once more, 1 attempt; the note goes along to the agent",
        (DropCheck, _) => "the failing checks do not count; judge it again",
        (Skip, _) => "leave the task out; what waits for it goes on without it",
        (Replan, _) => "have the model change the rest of the plan; the note says how",
        (Wait, _) => "keep waiting",
        (Reply, _) => "the note, which is needed, answers the agent's question",
        (More, _) => "allow as much again as the budget did at first, and go on",
        (AllowOnce, _) => "let the next attempt at this task run it, word for word",
        (AllowAlways, _) => "let every agent of this plan run it, word for word",
        (Deny, _) => "it stays refused; the note says what to do instead",
        (Abort, _) => "end the plan for good; agents at work stop, their work stays",
    };
    meaning.to_owned()
}

/// As [`meaning`], in Chinese.
fn meaning_zh(about: HumanQuestionKind, choice: AnswerChoice) -> &'static str {
    match (choice, about) {
        (Approve, Review) => "按所示计划开始执行",
        (Approve, _) => "视为目标已达成，计划以“已完成”结束",
        (Accept, Branch) => "从分支现在的位置继续",
        (Accept, _) => "按现状接受结果，任务视为已完成",
        (Retry, Branch) => "在你把分支移回原处后，再检查一次",
        (Retry, Model) => "再问一次模型；若问题关于某个任务并写了附言，则由智能体带着附言重试",
        (Skip, Model) => {
            "放弃该任务，等待它的任务不再等它；若问题关于计划的调整，则保持原计划并继续"
        }
        (Retry, _) => "再尝试一次该任务，附言会一并交给智能体",
        (DropCheck, _) => "未通过的检查对该任务不再算数，其结果重新评判",
        (Skip, _) => "放弃该任务，等待它的任务不再等它，继续执行",
        (Replan, _) => "让模型调整其余计划，在附言中说明如何调整",
        (Wait, _) => "继续等待",
        (Reply, _) => "用附言回答智能体的问题，附言必填",
        (More, _) => "按最初的预算再追加一份，继续执行",
        (AllowOnce, _) => "允许该任务的下一次尝试运行它，一字不差",
        (AllowAlways, _) => "允许本计划的所有智能体运行它，一字不差",
        (Deny, _) => "仍然拒绝，在附言中说明改为怎么做",
        (Abort, _) => "彻底结束计划，正在工作的智能体停止，已有的成果保留",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanHead, PlanId, QuestionId, Time};
    use crate::wire::tests::sample_plans;

    fn question() -> HumanQuestion {
        HumanQuestion {
            id: QuestionId::new("q-2"),
            about: HumanQuestionKind::Failures,
            task: None,
            request: None,
            ask: None,
            reason: "Task 3 failed three times in a row.\n\nLast: exit\u{1b}[31m 1".to_owned(),
            choices: vec![AnswerChoice::Retry, AnswerChoice::Skip, AnswerChoice::Abort],
            refused: Vec::new(),
            attempts: 3,
            asked: Time(0),
            answer: None,
            closed: None,
        }
    }

    fn plan(id: &str, language: Language) -> Plan {
        Plan::new(PlanHead {
            language: Some(language),
            ..PlanHead::new(PlanId::new(id), "", Time(0))
        })
    }

    fn filled(answer: &str, note: &str) -> String {
        render(&question(), &plan("My plan", Language::En), "plan-agent").replace(
            "answer:\nnote:\n",
            &format!("answer: {answer}\nnote: {note}\n"),
        )
    }

    #[test]
    fn looks_like_this() {
        insta::assert_snapshot!(render(&question(), &plan("My: plan", Language::En), "plan-agent"), @r#"
        ---
        id: q-2
        plan: 'My: plan'
        choices:
        - retry
        - skip
        - abort
        answer:
        note:
        ---

        Task 3 failed three times in a row.

        Last: exit 1

        ## How to answer

        - `retry`: try again, up to 3 attempts; the note goes along to the agent
        - `skip`: leave the task out; what waits for it goes on without it
        - `abort`: end the plan for good; agents at work stop, their work stays

        Write one of the words of `choices:` behind `answer:` above, if you like a note behind `note:`, and save the file. Or run:

            plan-agent answer q-2 retry --note "…"
        "#);
    }

    #[test]
    fn question_is_whole_in_chinese() {
        let text = render(&question(), &plan("p", Language::Zh), "plan-agent");
        let body = text.split_once("\n---\n\n").unwrap().1;
        assert_eq!(sample_plans::english_words(body), [""; 0]);
        insta::assert_snapshot!(body, @r#"
        > Task 3 failed three times in a row.
        >
        > Last: exit 1

        ## 如何回答

        - `retry`：再尝试一次该任务，附言会一并交给智能体
        - `skip`：放弃该任务，等待它的任务不再等它，继续执行
        - `abort`：彻底结束计划，正在工作的智能体停止，已有的成果保留

        请把 `choices:` 中的一个词写在上面的 `answer:` 之后，需要附言时写在 `note:` 之后，然后保存文件。或者运行：

            plan-agent answer q-2 retry --note "…"
        "#);
        for choice in AnswerChoice::ALL {
            for about in [HumanQuestionKind::Review, HumanQuestionKind::Failures] {
                let words = sample_plans::english_words(meaning_zh(about, choice));
                assert_eq!(words, [""; 0], "{choice:?}");
            }
        }
    }

    #[test]
    fn file_does_not_offer_what_gives_a_right() {
        let choices = vec![
            AnswerChoice::AllowOnce,
            AnswerChoice::AllowAlways,
            AnswerChoice::Deny,
        ];
        let asked = HumanQuestion {
            choices,
            about: HumanQuestionKind::Agent,
            ..question()
        };
        let text = render(&asked, &plan("p", Language::En), "plan-agent");
        assert!(text.contains("choices:\n- deny\nanswer:"), "{text}");
        for said in [
            "- `allow-once` (not in this file): ",
            "what gives a right is only taken from you",
            "plan-agent answer q-2 allow-once",
        ] {
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn empty_answer_is_no_answer() {
        for answer in ["", "''", "~", "# which?"] {
            assert_eq!(parse(&filled(answer, "some words")), Ok(None), "{answer}");
        }
    }

    #[test]
    fn reads_choice_and_note() {
        for (answer, note, read) in [
            ("retry", "", ""),
            ("Retry # please", "use port 81", "use port 81"),
            (
                "\"retry\"",
                "|\n  line 1\n\n  - &a line: 2",
                "line 1\n\n- &a line: 2",
            ),
            ("retry", "see: the log", "see: the log"),
            ("retry", "*now*", "*now*"),
            ("retry", "first\n  second: line", "first\nsecond: line"),
            ("retry", "\n  a: b\n  c", "a: b\nc"),
        ] {
            let text = filled(answer, note);
            let wanted = Some((AnswerChoice::Retry, read.to_owned()));
            assert_eq!(parse(&text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn rejects_what_is_no_answer() {
        for answer in ["yes", "[retry]", "retry skip"] {
            let problems = parse(&filled(answer, "")).unwrap_err();
            assert_eq!(problems[0].place.line, 8, "{answer}");
        }
        let problems = parse(&filled("yes", "")).unwrap_err();
        assert_eq!(problems[0].to_string(), "line 8: `answer` is `yes`");
        let hint = problems[0].hint.as_deref();
        assert_eq!(hint, Some("write one of: retry, skip, abort"));
        for text in [
            "",
            "retry",
            "---\nanswer: retry\n",
            "---\nanswer: retry\nanswer: skip\n---\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
