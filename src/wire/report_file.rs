//! The report file: an agent's report on its command. It is read strictly in meaning and leniently in form: what is evident is
//! accepted; everything else is a problem with a line and the way to repair it, and never a success.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::command_file::read_session;
use super::front_matter::FrontMatter;
use super::{
    Checked, Problem, Problems, front_matter, has_word, known_word, markdown, one_line, parse_time,
    printable, quote, safe_name, time_text,
};
use crate::plan::test_commands::patterns;
use crate::plan::{CommandId, Report, ReportAuthor, ReportStatus, SessionId, Time};

pub use crate::plan::Collaboration;

/// The most bytes of a report.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The most characters of a file's name.
const LONGEST_NAME: usize = 255;

patterns! {
    /// What stands behind `task-` in the id of a command, in a name that begins nearly as that of its report.
    ID = "^(?:report-)?(?:task-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})";
}

/// The shortest report that is accepted.
pub const EXAMPLE: &str = "---\nstatus: SUCCESS\n---\n\n## Core results\n\nWhat was done.\n";

/// What the parts of a report are called.
const HEADINGS: [&str; 3] = [
    "Core results|核心成果|Results|Key results",
    "Pitfalls|填坑记录|踩坑记录",
    "Next-step suggestions|下一步建议|Next steps|Next step",
];

const STATUS_HINT: &str = "write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`";
const TIME_HINT: &str = "write it like `2026-01-31T18:00:00Z`";
/// Who wrote a report in place of the agent.
const KNOWN: &str =
    "id status session_id usage blocked_until question refused request_id collaboration written_by";

/// The question of an agent that names refused commands, and asks nothing.
const REFUSED: &str = "commands were refused to the agent. How is it to go on?";

/// A report as it stands in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportFile {
    /// The command that it answers.
    pub command: CommandId,
    /// Without a hash and a time of arrival. The results are the whole body if it has none of the known headings.
    pub report: Report,
    /// The collaboration that it answers.
    pub request_id: Option<String>,
    /// What stands under no known heading, if the body has one.
    pub other: String,
}

impl ReportFile {
    /// Creates a report that has only a status.
    pub fn new(command: CommandId, status: ReportStatus) -> Self {
        Self {
            report: Report::new(format!("report-{command}.md"), status, Time::default()),
            command,
            request_id: None,
            other: String::new(),
        }
    }

    /// Returns the report for the plan: its texts are printable, and everything else in the body stands behind the results.
    pub fn into_report(self) -> Report {
        let mut report = self.report;
        let mut results = printable(&report.results);
        if !self.other.is_empty() {
            let other = printable(&self.other);
            results = format!("{results}\n\n{other}").trim().to_owned();
        }
        report.results = results;
        report.pitfalls = printable(&report.pitfalls);
        report.next_steps = printable(&report.next_steps);
        report.question = report.question.as_deref().map(printable);
        // A person sees a command as it is, or is not asked about it.
        (report.refused).retain(|command| printable(command) == *command);
        report
    }
}

/// Returns the command that a file in the reports folder answers, from its name alone: `report-task-<id>.md`, or
/// `report-<id>.md`. `None` if the name is not that of a report.
pub fn command_of(file_name: &str) -> Option<CommandId> {
    let id = id_in_name(file_name)?;
    let own = id.strip_prefix("task-").unwrap_or(id);
    let id = with_task(id);
    (safe_name(own) && safe_name(&id)).then(|| CommandId::new(id))
}

/// Returns what stands for the id in the name of a report, if the name looks like that of a report.
pub fn id_in_name(file_name: &str) -> Option<&str> {
    let (stem, extension) = file_name.rsplit_once('.')?;
    let (prefix, id) = stem.split_at_checked("report-".len())?;
    let named = extension.eq_ignore_ascii_case("md") && prefix.eq_ignore_ascii_case("report-");
    (named && !id.is_empty()).then_some(id)
}

/// Says that a file has not the name of a report, and which name it should have, if that can be seen.
pub fn not_a_report(file_name: &str) -> String {
    let id = ID.captures(file_name).map(|found| with_task(&found[1]));
    let id = id.as_deref().unwrap_or("<command id>");
    format!("its name is not `report-{id}.md`")
}

/// Reads a report from its file's name and bytes.
///
/// # Errors
/// All problems found, with the lines of the file.
pub fn parse(name: &str, bytes: &[u8]) -> Checked<ReportFile> {
    let only = |problem| vec![problem];
    let command = command_of(name).ok_or_else(|| only(Problem::new(not_a_report(name))))?;
    let front = front_matter::split(text_of(bytes).map_err(only)?).map_err(|problem| {
        only(match problem.hint {
            Some(_) => problem,
            None => problem.with_hint(STATUS_HINT),
        })
    })?;
    let header = match front.parse::<ReportHeader>() {
        Ok(header) => header,
        Err(problem) => read_by_line(&front, problem).map_err(only)?,
    };
    let mut file = header.read(&front, command)?;
    file.report.name = name.to_owned();
    let (parts, other) = markdown::parts(&front.body, HEADINGS);
    [
        file.report.results,
        file.report.pitfalls,
        file.report.next_steps,
    ] = parts;
    file.other = other;
    if is_blank(&file) {
        let hint = "write what was done under `## Core results`, then `## Pitfalls` and `## Next-step suggestions`";
        let problem = Problem::on_line(front.body_line, "the body is empty");
        return Err(only(problem.with_hint(hint)));
    }
    Ok(file)
}

/// Returns the text of a report file.
pub fn render(file: &ReportFile) -> String {
    let report = &file.report;
    let text = |value: &Option<String>| value.as_deref().map(printable);
    let usage = ReportedUsage {
        input_tokens: Some(report.input_tokens).filter(|tokens| *tokens > 0),
        output_tokens: Some(report.output_tokens).filter(|tokens| *tokens > 0),
        cost_usd: Some(report.cost_usd).filter(|cost| *cost > 0.0),
    };
    let header = ReportHeader {
        id: Some(file.command.to_string()),
        status: Some(report.status.as_str().to_owned()),
        session_id: report.session.as_ref().map(ToString::to_string),
        usage: Some(usage).filter(|usage| *usage != ReportedUsage::default()),
        blocked_until: report.blocked_until.map(time_text),
        question: text(&report.question),
        refused: (!report.refused.is_empty())
            .then(|| Value::from(report.refused.clone()).to_string().into()),
        request_id: text(&file.request_id),
        collaboration: report.collaboration.map(|word| word.as_str().to_owned()),
        written_by: (report.author != ReportAuthor::Agent)
            .then(|| report.author.as_str().to_owned()),
    };
    let mut body = file.other.trim().to_owned();
    for (heading, text) in [
        ("Core results", &report.results),
        ("Pitfalls", &report.pitfalls),
        ("Next-step suggestions", &report.next_steps),
    ] {
        if !text.trim().is_empty() {
            let text = markdown::escape(text.trim(), HEADINGS);
            write!(body, "\n\n## {heading}\n\n{text}").expect("a String takes every text");
        }
    }
    front_matter::join(&header, &body)
}

/// Returns the text of `NAME.reason.md`: the problems of a report, their lines, and how to repair them.
pub fn rejection(name: &str, problems: &[Problem]) -> String {
    let item = |problem: &Problem| {
        let line = one_line(&problem.to_string(), 300);
        let hint = problem.hint.as_deref().map(|hint| one_line(hint, 300));
        let hint = hint.map(|hint| format!("  Hint: {hint}\n"));
        format!("- {line}\n{}", hint.unwrap_or_default())
    };
    let name = one_line(name, LONGEST_NAME);
    let items: String = problems.iter().map(item).collect();
    format!(
        "# `{name}` was not accepted\n\n{items}\nThe shortest report that is accepted:\n\n```markdown\n{EXAMPLE}```\n"
    )
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ReportHeader {
    id: Option<String>,
    status: Option<String>,
    session_id: Option<String>,
    usage: Option<ReportedUsage>,
    blocked_until: Option<String>,
    question: Option<String>,
    /// A list; it is written as a text in JSON, so that each command comes through as it is.
    refused: Option<Value>,
    request_id: Option<String>,
    collaboration: Option<String>,
    written_by: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct ReportedUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_BYTES}", bytes.len());
        return Err(Problem::new(message).with_hint("report in short; long output goes into files"));
    }
    let line_at = |at: usize| 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Problem::on_line(line_at(error.valid_up_to()), "the text is not UTF-8")
            .with_hint("save the file as UTF-8")
    })?;
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => Err(Problem::on_line(line_at(at), "the text has a NUL byte")),
        None => Ok(text),
    }
}

/// Reads the known fields of a header in which some other field is not valid YAML; each known field is read from its own single
/// line. Returns `spoiled`, the error of the YAML parser, where that does not work.
fn read_by_line(front: &FrontMatter, spoiled: Problem) -> Result<ReportHeader, Problem> {
    let mut values = Map::new();
    for field in front.fields().map_err(|_| spoiled.clone())? {
        let value = match (field.key.as_str(), field.scalar()) {
            (key, _) if !has_word(KNOWN, key) => continue,
            ("usage", _) | (_, Some("" | "~" | "null")) => Value::Null,
            (_, Some(text)) => Value::from(text),
            (_, None) => return Err(spoiled),
        };
        if values.insert(field.key, value).is_some() {
            return Err(spoiled);
        }
    }
    match serde_json::from_value::<ReportHeader>(Value::Object(values)) {
        Ok(header) if header.status.as_deref().and_then(status).is_some() => Ok(header),
        _ => Err(spoiled.with_hint(STATUS_HINT)),
    }
}

impl ReportHeader {
    fn read(&self, front: &FrontMatter, command: CommandId) -> Checked<ReportFile> {
        let problems = Problems::default();
        let line = |key| front.line_of(key);
        let status = problems.take(line("status"), self.status());
        let id = problems.take(line("id"), self.check_id(&command));
        let session = problems.take(line("session_id"), self.session());
        let blocked_until = problems.take(line("blocked_until"), self.blocked_until());
        let collaboration = problems.take(line("collaboration"), self.collaboration());
        let refused = problems.take(line("refused"), self.refused());
        let (
            Some(status),
            Some(()),
            Some(session),
            Some(blocked_until),
            Some(refused),
            Some(collaboration),
        ) = (status, id, session, blocked_until, refused, collaboration)
        else {
            return Err(problems.in_order());
        };
        let usage = self.usage.unwrap_or_default();
        let cost = usage.cost_usd.filter(|cost| cost.is_finite());
        // What was refused is a question, even if the agent asks none.
        let asks = (!refused.is_empty()).then(|| REFUSED.to_owned());
        let mut file = ReportFile::new(command, status);
        file.request_id = stated(&self.request_id).map(str::to_owned);
        file.report = Report {
            session,
            input_tokens: usage.input_tokens.unwrap_or(0),
            output_tokens: usage.output_tokens.unwrap_or(0),
            cost_usd: cost.unwrap_or(0.0).max(0.0),
            blocked_until,
            question: stated(&self.question).map(str::to_owned).or(asks),
            refused,
            collaboration,
            author: stated(&self.written_by)
                .and_then(known_word)
                .unwrap_or_default(),
            ..file.report
        };
        Ok(file)
    }

    fn status(&self) -> Result<ReportStatus, Problem> {
        let missing = || Problem::new("`status` is missing").with_hint(STATUS_HINT);
        let word = stated(&self.status).ok_or_else(missing)?;
        status(word).ok_or_else(|| wrong("status", word, STATUS_HINT))
    }

    fn check_id(&self, command: &CommandId) -> Result<(), Problem> {
        let Some(id) = stated(&self.id).filter(|id| with_task(id) != command.as_str()) else {
            return Ok(());
        };
        let message = format!(
            "`id` is {}, but the file's name says `{command}`",
            quote(id)
        );
        let hint = "write the report of each command into a file of its own, or leave `id` out";
        Err(Problem::new(message).with_hint(hint))
    }

    fn session(&self) -> Result<Option<SessionId>, Problem> {
        let hint = "copy it as your session names itself, or leave it empty";
        let session = read_session(stated(&self.session_id).unwrap_or_default());
        session.map_err(|problem| problem.with_hint(hint))
    }

    fn blocked_until(&self) -> Result<Option<Time>, Problem> {
        let read = |text| parse_time(text).ok_or_else(|| wrong("blocked_until", text, TIME_HINT));
        stated(&self.blocked_until).map(read).transpose()
    }

    fn refused(&self) -> Result<Vec<String>, Problem> {
        let read = match &self.refused {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(Vec::new()),
            Some(Value::String(text)) => serde_json::from_str(text),
            Some(other) => serde_json::from_value(other.clone()),
        };
        read.map_err(|_| {
            let problem = Problem::new("`refused` is no list of commands");
            problem.with_hint("write it like `refused: [\"make deploy\"]`")
        })
    }

    fn collaboration(&self) -> Result<Option<Collaboration>, Problem> {
        let hint = "write completed, error or rejected";
        let known = |word: &str| known_word(&word.to_ascii_lowercase());
        let read = |word| known(word).ok_or_else(|| wrong("collaboration", word, hint));
        stated(&self.collaboration).map(read).transpose()
    }
}

fn wrong(key: &str, word: &str, hint: &str) -> Problem {
    Problem::new(format!("`{key}` is {}", quote(word))).with_hint(hint)
}

/// Returns a field's text unless it is missing or empty.
fn stated(field: &Option<String>) -> Option<&str> {
    let text = field.as_deref().map(str::trim);
    text.filter(|text| !text.is_empty())
}

/// Returns the status for a word: one of the three, in upper or lower case.
fn status(word: &str) -> Option<ReportStatus> {
    known_word(&word.trim().to_ascii_uppercase().replace(['-', ' '], "_"))
}

/// Returns whether a report is blank. A report that only asks or only waits states that in its header, and is not blank.
fn is_blank(ReportFile { report, other, .. }: &ReportFile) -> bool {
    let texts = [&report.results, &report.pitfalls, &report.next_steps, other];
    let asks = report.question.is_some() || report.blocked_until.is_some();
    texts.iter().all(|text| printable(text).trim().is_empty())
        && (!asks || report.status == ReportStatus::Success)
}

fn with_task(id: &str) -> String {
    format!("task-{}", id.strip_prefix("task-").unwrap_or(id))
}

#[cfg(test)]
mod tests;
