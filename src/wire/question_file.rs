//! The question file: a question to a human, with a place for the answer.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::text::{one_line, printable, quote};
use super::{Problem, front_matter};
use crate::plan::{AnswerChoice, HumanQuestion, HumanQuestionKind, Task};

/// Returns the text of `question-<id>.md`, with an empty answer to fill in. `program` is what a person types to call this
/// program, as in `plan-agent --config my.toml`.
pub fn render(question: &HumanQuestion, plan: &str, task: Option<&Task>, program: &str) -> String {
    let header = QuestionHeader {
        id: Some(question.id.to_string()),
        plan: Some(one_line(plan, 200)),
        task: task.map(|task| format!("{} · {}", task.number, one_line(&task.name, 200))),
        choices: (in_file(question))
            .map(|choice| choice.as_str().to_owned())
            .collect(),
        answer: Some(String::new()),
        note: Some(String::new()),
    };
    // Empty places are easier to fill in without quotes; each of the fields before them is on one line.
    front_matter::join(&header, &body(question, program)).replacen(
        "\nanswer: ''\nnote: ''\n",
        "\nanswer:\nnote:\n",
        1,
    )
}

/// Reads a question file that a person may have filled in. Returns the choice and the note, or `None` while the file has no
/// answer. The caller checks the answer against the question itself.
///
/// # Errors
/// A file that is no longer readable, or an answer that is none; the error names the words of the file.
pub fn parse(text: &str) -> Result<Option<(AnswerChoice, String)>, Vec<Problem>> {
    let (header, answer_line) = read(text).map_err(|problem| vec![problem])?;
    let Some(word) = header
        .answer
        .as_deref()
        .map(str::trim)
        .filter(|word| !word.is_empty())
    else {
        return Ok(None);
    };
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
    #[serde(skip_serializing_if = "Option::is_none")]
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
    text.split(['\n', ',', '[', ']'])
        .map(|word| word.trim().trim_start_matches("- ").to_owned())
        .filter(|word| !word.is_empty())
        .collect()
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

fn body(question: &HumanQuestion, program: &str) -> String {
    let mut body = format!(
        "{}\n\n## How to answer\n\n",
        printable(&question.reason).trim()
    );
    for choice in &question.choices {
        let meaning = meaning(question.about, *choice, question.attempts);
        let only = match question.is_grant(*choice) {
            true => " (not in this file)",
            false => "",
        };
        writeln!(body, "- `{}`{only}: {meaning}", choice.as_str())
            .expect("a String takes every text");
    }
    let first = question
        .choices
        .first()
        .map_or("", |choice| choice.as_str());
    let grants = question.choices.iter().any(|one| question.is_grant(*one));
    let only = match grants {
        true => " Agents can write files: what gives a right is only taken from you.",
        false => "",
    };
    write!(
        body,
        "\nWrite one of the words of `choices:` behind `answer:` above, if you like a note behind `note:`, and save the file.{only} \
         Or run:\n\n\x20   {program} answer {} {first} --note \"…\"",
        question.id
    )
    .expect("a String takes every text");
    body
}

/// Returns the meaning of a choice, for a person; `attempts` are those that `retry` gives a task.
pub fn meaning(about: HumanQuestionKind, choice: AnswerChoice, attempts: u32) -> String {
    let meaning = match (choice, about) {
        (AnswerChoice::Approve, HumanQuestionKind::Review) => "go ahead with the plan as shown",
        (AnswerChoice::Approve, _) => "take the goal as met, and end the plan as completed",
        (AnswerChoice::Accept, HumanQuestionKind::Branch) => "go on from where the branch is now",
        (AnswerChoice::Accept, _) => "take the result as it is: the task counts as completed",
        (AnswerChoice::Retry, HumanQuestionKind::Branch) => {
            "look again, after you have moved the branch back"
        }
        (AnswerChoice::Retry, HumanQuestionKind::Model) => "ask the model once more",
        (AnswerChoice::Retry, _) if attempts > 1 => {
            return format!(
                "try again, up to {attempts} attempts; the note goes along to the agent"
            );
        }
        (AnswerChoice::Retry, _) => "try once more, 1 attempt; the note goes along to the agent",
        (AnswerChoice::Skip, _) => "leave the task out; what waits for it goes on without it",
        (AnswerChoice::Replan, _) => {
            "have the model change the rest of the plan; the note says how"
        }
        (AnswerChoice::Wait, _) => "keep waiting",
        (AnswerChoice::Reply, _) => "the note, which is needed, answers the agent's question",
        (AnswerChoice::More, _) => "allow as much again as the budget did at first, and go on",
        (AnswerChoice::AllowOnce, _) => "let the next attempt at this task run it, word for word",
        (AnswerChoice::AllowAlways, _) => "let every agent of this plan run it, word for word",
        (AnswerChoice::Deny, _) => "it stays refused; the note says what to do instead",
        (AnswerChoice::Abort, _) => "end the plan for good; agents at work stop, their work stays",
    };
    meaning.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{QuestionId, Time};

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

    fn filled(answer: &str, note: &str) -> String {
        render(&question(), "My plan", None, "plan-agent").replace(
            "answer:\nnote:\n",
            &format!("answer: {answer}\nnote: {note}\n"),
        )
    }

    #[test]
    fn looks_like_this() {
        insta::assert_snapshot!(render(&question(), "My: plan", None, "plan-agent"), @r#"
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
        let text = render(&asked, "My plan", None, "plan-agent");
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
            assert_eq!(
                parse(&text),
                Ok(Some((AnswerChoice::Retry, read.to_owned()))),
                "{text}"
            );
        }
    }

    #[test]
    fn rejects_what_is_no_answer() {
        for answer in ["yes", "[retry]", "retry skip"] {
            let problems = parse(&filled(answer, "")).unwrap_err();
            assert_eq!(problems[0].line, Some(8), "{answer}");
        }
        let problems = parse(&filled("yes", "")).unwrap_err();
        assert_eq!(problems[0].to_string(), "line 8: `answer` is `yes`");
        assert_eq!(
            problems[0].hint.as_deref(),
            Some("write one of: retry, skip, abort")
        );
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
