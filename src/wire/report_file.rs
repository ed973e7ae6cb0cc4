//! The report file: an agent's report on its command. It is read strictly in meaning and leniently in form: what is evident is
//! accepted; everything else is a problem with a line and the way to repair it, and never a success.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::command_file::read_session;
use super::front_matter::HeaderField;
use super::problem::Problems;
use super::text::{one_line, parse_time, printable, quote, safe_name, time_text};
use super::{Problem, front_matter, markdown};
use crate::plan::{CommandId, ReportStatus, SessionId, Time};

pub use crate::plan::Collaboration;

/// The most bytes of a report.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The shortest report that is accepted.
pub const EXAMPLE: &str = "---\nstatus: SUCCESS\n---\n\n## Core results\n\nWhat was done.\n";

/// What the parts of a report are called.
const HEADINGS: [&[&str]; 3] = [
    &["Core results", "核心成果", "Results", "Key results"],
    &["Pitfalls", "填坑记录", "踩坑记录"],
    &[
        "Next-step suggestions",
        "下一步建议",
        "Next steps",
        "Next step",
    ],
];

const STATUS_HINT: &str = "write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`";
const TIME_HINT: &str = "write it like `2026-01-31T18:00:00Z`";
const KNOWN: [&str; 8] = [
    "id",
    "status",
    "session_id",
    "usage",
    "blocked_until",
    "question",
    "request_id",
    "collaboration",
];

/// A parsed report.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportFile {
    /// The command that it answers.
    pub command: CommandId,
    pub status: ReportStatus,
    /// `None` if the agent did not name one.
    pub session: Option<SessionId>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// The agent's usage limit ends at this time.
    pub blocked_until: Option<Time>,
    /// The agent's question to the human.
    pub question: Option<String>,
    /// The collaboration that it answers.
    pub request_id: Option<String>,
    pub collaboration: Option<Collaboration>,
    /// The results; the whole body if it has none of the known headings.
    pub results: String,
    pub pitfalls: String,
    pub next_steps: String,
    /// Everything else in the body.
    pub other: String,
    /// Fields that the plan does not use, and known fields that could not be read, as text.
    pub extra: Vec<(String, String)>,
}

impl ReportFile {
    /// Creates a report that has only a status.
    pub fn new(command: CommandId, status: ReportStatus) -> Self {
        Self {
            command,
            status,
            session: None,
            input_tokens: 0,
            output_tokens: 0,
            cost_usd: 0.0,
            blocked_until: None,
            question: None,
            request_id: None,
            collaboration: None,
            results: String::new(),
            pitfalls: String::new(),
            next_steps: String::new(),
            other: String::new(),
            extra: Vec::new(),
        }
    }
}

/// Returns the command that a file in the reports folder answers, from its name alone: `report-task-<id>.md`, or
/// `report-<id>.md`. `None` if the name is not that of a report.
pub fn command_of(file_name: &str) -> Option<CommandId> {
    let (stem, extension) = file_name.rsplit_once('.')?;
    let (prefix, id) = stem.split_at_checked("report-".len())?;
    if !extension.eq_ignore_ascii_case("md") || !prefix.eq_ignore_ascii_case("report-") {
        return None;
    }
    let own = id.strip_prefix("task-").unwrap_or(id);
    let id = with_task(id);
    (safe_name(own) && safe_name(&id)).then(|| CommandId::new(id))
}

/// Reads a report from its file's name and bytes.
///
/// # Errors
/// All problems found, with the lines of the file.
pub fn parse(name: &str, bytes: &[u8]) -> Result<ReportFile, Vec<Problem>> {
    let only = |problem| vec![problem];
    let command = command_of(name).ok_or_else(|| {
        only(Problem::new(format!(
            "the name is {}, not `report-<command id>.md`",
            quote(name)
        )))
    })?;
    let text = text_of(bytes).map_err(only)?;
    let front = front_matter::split(text).map_err(|problem| {
        only(match problem.hint {
            Some(_) => problem,
            None => problem.with_hint(STATUS_HINT),
        })
    })?;
    let header = match front.parse::<ReportHeader>() {
        Ok(header) => header,
        Err(problem) => read_by_line(&front, problem).map_err(only)?,
    };
    let mut report = read_header(&front, &header, command)?;
    report.extra = extra(&front, &header);
    read_body(&front.body, &mut report);
    if is_blank(&report) {
        return Err(only(
            Problem::on_line(front.body_line, "the body is empty").with_hint(
                "write what was done under `## Core results`, then `## Pitfalls` and `## Next-step suggestions`",
            ),
        ));
    }
    Ok(report)
}

/// Returns the text of a report file.
pub fn render(report: &ReportFile) -> String {
    let text = |value: &Option<String>| value.as_deref().map(printable);
    let usage = ReportedUsage {
        input_tokens: Some(report.input_tokens).filter(|tokens| *tokens > 0),
        output_tokens: Some(report.output_tokens).filter(|tokens| *tokens > 0),
        cost_usd: Some(report.cost_usd).filter(|cost| *cost > 0.0),
    };
    let header = ReportHeader {
        id: Some(report.command.to_string()),
        status: Some(report.status.as_str().to_owned()),
        session_id: report.session.as_ref().map(ToString::to_string),
        usage: Some(usage).filter(|usage| *usage != ReportedUsage::default()),
        blocked_until: report.blocked_until.map(time_text),
        question: text(&report.question),
        request_id: text(&report.request_id),
        collaboration: report.collaboration.map(|word| word.as_str().to_owned()),
    };
    let mut body = report.other.trim().to_owned();
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
    let mut text = format!("# {} was not accepted\n\n", quote(name));
    for problem in problems {
        let line = one_line(&problem.to_string(), 300);
        writeln!(text, "- {line}").expect("a String takes every text");
        if let Some(hint) = &problem.hint {
            let hint = one_line(hint, 300);
            writeln!(text, "  Hint: {hint}").expect("a String takes every text");
        }
    }
    text.push_str("\nThe shortest report that is accepted:\n\n```markdown\n");
    text.push_str(EXAMPLE);
    text.push_str("```\n");
    text
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ReportHeader {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<ReportedUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collaboration: Option<String>,
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
fn read_by_line(
    front: &front_matter::FrontMatter,
    spoiled: Problem,
) -> Result<ReportHeader, Problem> {
    let Ok(fields) = front.fields() else {
        return Err(spoiled);
    };
    let mut header = ReportHeader::default();
    let mut seen: Vec<&HeaderField> = Vec::new();
    for field in fields
        .iter()
        .filter(|field| KNOWN.contains(&field.key.as_str()))
    {
        if seen.iter().any(|other| other.key == field.key) {
            return Err(spoiled);
        }
        seen.push(field);
        let place = match field.key.as_str() {
            "id" => &mut header.id,
            "status" => &mut header.status,
            "session_id" => &mut header.session_id,
            "blocked_until" => &mut header.blocked_until,
            "question" => &mut header.question,
            "request_id" => &mut header.request_id,
            "collaboration" => &mut header.collaboration,
            _ => continue,
        };
        let value = field.scalar().ok_or_else(|| spoiled.clone())?;
        *place =
            Some(value.to_owned()).filter(|value| !matches!(value.as_str(), "" | "~" | "null"));
    }
    if header.status.as_deref().and_then(status).is_none() {
        return Err(spoiled.with_hint(STATUS_HINT));
    }
    Ok(header)
}

fn read_header(
    front: &front_matter::FrontMatter,
    header: &ReportHeader,
    command: CommandId,
) -> Result<ReportFile, Vec<Problem>> {
    let mut problems = Problems::default();
    let mut note = |key: &str, (message, hint): Fault| {
        problems.add(Problem::on_line(front.line_of(key), message).with_hint(hint));
    };
    let status = header.status().map_err(|fault| note("status", fault));
    let id = header.check_id(&command).map_err(|fault| note("id", fault));
    let session = header.session().map_err(|fault| note("session_id", fault));
    let blocked_until = header
        .blocked_until()
        .map_err(|fault| note("blocked_until", fault));
    let collaboration = header
        .collaboration()
        .map_err(|fault| note("collaboration", fault));
    let (Ok(status), Ok(()), Ok(session), Ok(blocked_until), Ok(collaboration)) =
        (status, id, session, blocked_until, collaboration)
    else {
        return Err(problems.in_order());
    };
    let usage = header.usage.unwrap_or_default();
    let cost = usage.cost_usd.unwrap_or(0.0);
    Ok(ReportFile {
        session,
        input_tokens: usage.input_tokens.unwrap_or(0),
        output_tokens: usage.output_tokens.unwrap_or(0),
        cost_usd: if cost.is_finite() { cost.max(0.0) } else { 0.0 },
        blocked_until,
        question: stated(&header.question).map(str::to_owned),
        request_id: stated(&header.request_id).map(str::to_owned),
        collaboration,
        ..ReportFile::new(command, status)
    })
}

/// The problem of a field, and how to repair it.
type Fault = (String, &'static str);

impl ReportHeader {
    fn status(&self) -> Result<ReportStatus, Fault> {
        let Some(word) = stated(&self.status) else {
            return Err(("`status` is missing".to_owned(), STATUS_HINT));
        };
        status(word).ok_or_else(|| (format!("`status` is {}", quote(word)), STATUS_HINT))
    }

    fn check_id(&self, command: &CommandId) -> Result<(), Fault> {
        match stated(&self.id) {
            Some(id) if with_task(id) != command.as_str() => Err((
                format!(
                    "`id` is {}, but the file's name says `{command}`",
                    quote(id)
                ),
                "write the report of each command into a file of its own, or leave `id` out",
            )),
            _ => Ok(()),
        }
    }

    fn session(&self) -> Result<Option<SessionId>, Fault> {
        read_session(stated(&self.session_id).unwrap_or_default()).map_err(|message| {
            (
                message,
                "copy it as your session names itself, or leave it empty",
            )
        })
    }

    fn blocked_until(&self) -> Result<Option<Time>, Fault> {
        let Some(text) = stated(&self.blocked_until) else {
            return Ok(None);
        };
        let fault = || (format!("`blocked_until` is {}", quote(text)), TIME_HINT);
        parse_time(text).map(Some).ok_or_else(fault)
    }

    fn collaboration(&self) -> Result<Option<Collaboration>, Fault> {
        let Some(word) = stated(&self.collaboration) else {
            return Ok(None);
        };
        let hint = "write completed, error or rejected";
        let fault = || (format!("`collaboration` is {}", quote(word)), hint);
        collaboration(word).map(Some).ok_or_else(fault)
    }
}

/// Returns a field's text unless it is missing or empty.
fn stated(field: &Option<String>) -> Option<&str> {
    field
        .as_deref()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// Returns the status for a word: one of the three, in upper or lower case.
fn status(word: &str) -> Option<ReportStatus> {
    let word = word.trim().to_ascii_uppercase().replace(['-', ' '], "_");
    [
        ReportStatus::Success,
        ReportStatus::Failed,
        ReportStatus::PartialSuccess,
    ]
    .into_iter()
    .find(|status| status.as_str() == word)
}

fn collaboration(word: &str) -> Option<Collaboration> {
    [
        Collaboration::Completed,
        Collaboration::Error,
        Collaboration::Rejected,
    ]
    .into_iter()
    .find(|known| known.as_str().eq_ignore_ascii_case(word.trim()))
}

fn extra(front: &front_matter::FrontMatter, header: &ReportHeader) -> Vec<(String, String)> {
    let fields = front.fields().unwrap_or_default();
    fields
        .into_iter()
        .filter(|field| match field.key.as_str() {
            "usage" => header.usage.is_none() && !field.text.is_empty(),
            key => !KNOWN.contains(&key),
        })
        .map(|field| (field.key, field.text))
        .collect()
}

fn read_body(body: &str, report: &mut ReportFile) {
    let markdown::Parts { known, other } = markdown::parts(body, HEADINGS);
    [report.results, report.pitfalls, report.next_steps] = known;
    report.other = other;
}

/// Returns whether a report is blank. A report that only asks or only waits states that in its header, and is not blank.
fn is_blank(report: &ReportFile) -> bool {
    let texts = [
        &report.results,
        &report.pitfalls,
        &report.next_steps,
        &report.other,
    ];
    let asks = report.question.is_some() || report.blocked_until.is_some();
    texts.iter().all(|text| printable(text).trim().is_empty())
        && (!asks || report.status == ReportStatus::Success)
}

fn with_task(id: &str) -> String {
    if id.starts_with("task-") {
        return id.to_owned();
    }
    format!("task-{id}")
}

#[cfg(test)]
mod tests;
