//! The command file: the instructions for a CodingAgent. The daemon writes it and workers read it; people may write one by
//! hand.

use serde::{Deserialize, Serialize};

use super::{
    Checked, Problem, Problems, front_matter, known_word, markdown, one_line, parse_time,
    printable, quote, safe_name, safe_session, time_text,
};
use crate::plan::{CommandId, Language, Origin, PlanId, SessionId, TaskId, Time, word};

/// The most of a command's heading that is shown, in characters.
const MAX_TITLE: usize = 100;

/// What a command asks of the agent's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandType {
    /// Begin a session.
    #[default]
    New,
    /// Continue the session that is named.
    Continue,
    /// The session is over; nothing is to be done or reported.
    End,
}

/// A command file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFile {
    /// The stem of the file's name.
    pub id: CommandId,
    /// `None` only in a command that was written by hand without it.
    pub created_at: Option<Time>,
    /// `None` is `auto`: the agent chooses.
    pub session: Option<SessionId>,
    pub kind: CommandType,
    pub plan: Option<PlanId>,
    pub task: Option<TaskId>,
    /// Counts the task's attempts from 1.
    pub attempt: Option<u32>,
    /// The role that takes it; any worker if `None`. Only printable text is written.
    pub assignee: Option<String>,
    /// Who wrote the task: this decides whether code in it may be executed unchanged.
    pub origin: Origin,
    /// The folder for the work; absolute, or empty in a command that was written by hand.
    pub workspace: String,
    /// The report file; absolute, or empty in a command that was written by hand.
    pub report: String,
    /// The collaboration that waits for the answer.
    pub request_id: Option<String>,
    /// Markdown, without blank lines before and after it.
    pub body: String,
}

/// The parts of a command's body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    pub description: String,
    pub constraints: String,
    pub expected_output: String,
}

impl CommandFile {
    /// Returns the file's text.
    pub fn render(&self) -> String {
        let session = self.session.as_ref().map_or("auto", SessionId::as_str);
        let header = CommandHeader {
            id: Some(self.id.to_string()),
            created_at: self.created_at.map(time_text),
            session_id: Some(session.to_owned()),
            command_type: Some(word(&self.kind)),
            plan: self.plan.as_ref().map(ToString::to_string),
            task: self.task.map(|task| task.0),
            attempt: self.attempt,
            assignee: self.assignee.as_deref().map(printable),
            origin: Some(self.origin.as_str().to_owned()),
            workspace: some(&self.workspace),
            report: some(&self.report),
            request_id: self.request_id.as_deref().map(printable),
        };
        front_matter::join(&header, &self.body)
    }

    /// Returns the folder that the text of a command names; empty if it names none.
    pub fn workspace_of(text: &str) -> String {
        Self::parse(text).map_or(String::new(), |command| command.workspace)
    }

    /// Reads a command file. Only `id`, `session_id` and `command_type` are required. Unknown fields are ignored, and a task
    /// that does not state its origin counts as a model's.
    ///
    /// # Errors
    /// All problems of the file, with its lines.
    pub fn parse(text: &str) -> Checked<Self> {
        let front = front_matter::split(text).map_err(|problem| vec![problem])?;
        let header: CommandHeader = front.parse().map_err(|problem| vec![problem])?;
        let problems = Problems::default();
        let line = |key| front.line_of(key);
        let id = problems.take(line("id"), header.id());
        let session = problems.take(line("session_id"), header.session());
        let kind = problems.take(line("command_type"), header.kind());
        let created_at = problems.take(line("created_at"), header.created_at());
        let origin = problems.take(line("origin"), header.origin());
        let file = move || {
            Some(Self {
                id: id?,
                created_at: created_at?,
                session: session?,
                kind: kind?,
                plan: header.plan.map(PlanId::new),
                task: header.task.map(TaskId),
                attempt: header.attempt,
                assignee: header.assignee,
                origin: origin?,
                workspace: header.workspace.unwrap_or_default(),
                report: header.report.unwrap_or_default(),
                request_id: header.request_id,
                body: front.body.trim().to_owned(),
            })
        };
        file().ok_or_else(|| problems.in_order())
    }
}

/// Returns the heading of a command's text, on one line; else its id.
pub fn title(text: &str, id: &CommandId) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    one_line(heading.unwrap_or(id.as_str()), MAX_TITLE)
}

/// Returns the language in which a command's body was written.
pub fn language(body: &str) -> Language {
    match body.lines().any(|line| line == "## 任务描述") {
        true => Language::Zh,
        false => Language::En,
    }
}

/// Finds the parts of a command's body by their headings: English, Chinese or both. Text without such a heading is the
/// description.
pub fn sections(body: &str) -> Sections {
    let headings = [
        "Task description|任务描述|Task|Description",
        "Constraints|约束条件|约束",
        "Expected output|预期输出|Expected outcome|预期结果",
    ];
    let ([description, constraints, expected_output], _) = markdown::parts(body, headings);
    Sections {
        description,
        constraints,
        expected_output,
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CommandHeader {
    id: Option<String>,
    created_at: Option<String>,
    session_id: Option<String>,
    command_type: Option<String>,
    plan: Option<String>,
    task: Option<u32>,
    attempt: Option<u32>,
    assignee: Option<String>,
    origin: Option<String>,
    workspace: Option<String>,
    report: Option<String>,
    request_id: Option<String>,
}

impl CommandHeader {
    fn id(&self) -> Result<CommandId, Problem> {
        let id = given(&self.id, "`id` is missing")?.trim();
        match safe_name(id) {
            true => Ok(CommandId::new(id)),
            false => Err(misfit("id", id, "1 to 64 letters, digits, `-` and `_`")),
        }
    }

    fn session(&self) -> Result<Option<SessionId>, Problem> {
        let missing = "`session_id` is missing (`auto` for a new one)";
        read_session(given(&self.session_id, missing)?)
    }

    fn kind(&self) -> Result<CommandType, Problem> {
        let missing = "`command_type` is missing (new, continue or end)";
        let word = given(&self.command_type, missing)?;
        let kind = known_word(&word.trim().to_ascii_lowercase());
        kind.ok_or_else(|| misfit("command_type", word, "new, continue or end"))
    }

    fn created_at(&self) -> Result<Option<Time>, Problem> {
        let wrong = |text: &str| misfit("created_at", text, "RFC 3339");
        let read = |text| parse_time(text).ok_or_else(|| wrong(text));
        self.created_at.as_deref().map(read).transpose()
    }

    fn origin(&self) -> Result<Origin, Problem> {
        let word = self.origin.as_deref().unwrap_or("model");
        known_word(word).ok_or_else(|| misfit("origin", word, "person or model"))
    }
}

fn given<'a>(field: &'a Option<String>, missing: &str) -> Result<&'a str, Problem> {
    field.as_deref().ok_or_else(|| Problem::new(missing))
}

/// Reads a session from a file: `None` for `auto` or an empty text.
pub(super) fn read_session(text: &str) -> Result<Option<SessionId>, Problem> {
    match text.trim() {
        "" | "auto" => Ok(None),
        id if safe_session(id) => Ok(Some(SessionId::new(id))),
        id => {
            let wanted = "1 to 128 letters, digits, `.`, `_`, `:` and `-`";
            Err(misfit("session_id", id, wanted))
        }
    }
}

fn misfit(key: &str, text: &str, wanted: &str) -> Problem {
    Problem::new(format!("`{key}` is {}, not {wanted}", quote(text)))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command() -> CommandFile {
        CommandFile {
            id: CommandId::new("task-01"),
            created_at: Some(Time(1_795_255_200_000_000)),
            session: Some(SessionId::new("s-1")),
            kind: CommandType::Continue,
            plan: Some(PlanId::new("abcdefgh")),
            task: Some(TaskId(3)),
            attempt: Some(2),
            assignee: Some("tester".to_owned()),
            origin: Origin::Person,
            workspace: "/w".to_owned(),
            report: "/v/reports/pending/report-task-01.md".to_owned(),
            request_id: None,
            body: "# 3 · Write tests\n\n## Task description\n\nDo it.".to_owned(),
        }
    }

    #[test]
    fn looks_like_this() {
        insta::assert_snapshot!(command().render(), @r"
        ---
        id: task-01
        created_at: 2026-11-21T10:00:00Z
        session_id: s-1
        command_type: continue
        plan: abcdefgh
        task: 3
        attempt: 2
        assignee: tester
        origin: person
        workspace: /w
        report: /v/reports/pending/report-task-01.md
        ---

        # 3 · Write tests

        ## Task description

        Do it.
        ");
    }

    #[test]
    fn handwritten_command_needs_three_fields() {
        let text =
            "---\nid: by-hand\nsession_id: auto\ncommand_type: NEW\nmood: good\n---\nDo it.\n";
        let command = CommandFile::parse(text).unwrap();
        assert_eq!(command.id.as_str(), "by-hand");
        assert_eq!((command.kind, command.session), (CommandType::New, None));
        assert_eq!(command.origin, Origin::Model);
        assert_eq!(command.body, "Do it.");
    }

    #[test]
    fn command_problems_have_line_numbers() {
        let text = "---\norigin: dog\nid: ../x\ncommand_type: go\ncreated_at: now\n---\n";
        let problems = CommandFile::parse(text).unwrap_err();
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        line 2: `session_id` is missing (`auto` for a new one)
        line 2: `origin` is `dog`, not person or model
        line 3: `id` is `../x`, not 1 to 64 letters, digits, `-` and `_`
        line 4: `command_type` is `go`, not new, continue or end
        line 5: `created_at` is `now`, not RFC 3339
        ");
    }

    #[test]
    fn command_sections_parse_in_both_languages() {
        for body in [
            "# 1 · T\n\n## Task description\nd\n\n## Constraints\nc\n## Expected output\ne\n## How to report\nr",
            "# 1 · T\n## 任务描述\nd\n## 约束条件\nc\n## 预期输出\ne\n",
            "## Task description / 任务描述\nd\n## Constraints / 约束条件\nc\n## 预期输出 (Expected output)\ne\n",
        ] {
            let parts = sections(body);
            let texts = [parts.description, parts.constraints, parts.expected_output];
            assert_eq!(texts, ["d", "c", "e"], "{body}");
        }
        assert_eq!(sections("only text\n").description, "only text");
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ -~]{1,20}",
            "\\PC{1,12}",
            Just("&a *b".to_owned()),
            Just("!x".to_owned()),
            Just("---".to_owned()),
            Just("a: b # c".to_owned()),
            Just("no".to_owned()),
            Just("0123".to_owned()),
            Just("<<:".to_owned()),
            Just("0<<:a \"<<\":b, <<: c".to_owned()),
            Just("{<<: a".to_owned()),
            Just("null".to_owned()),
        ]
        .prop_map(|text| printable(&text))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            number in 0_u32..1000,
            session in proptest::option::of("[A-Za-z0-9][A-Za-z0-9._:-]{0,12}"),
            assignee in proptest::option::of(text()),
            workspace in text(),
            body in "([ -~]|\\n|\\PC|---\\n|```\\n){0,80}",
        ) {
            let given = CommandFile {
                id: CommandId::new(format!("task-{number}")),
                task: Some(TaskId(number)),
                session: session.filter(|id| id != "auto").map(SessionId::new),
                assignee,
                workspace,
                body: body.trim().to_owned(),
                ..command()
            };
            prop_assert_eq!(CommandFile::parse(&given.render()), Ok(given));
        }
    }
}
