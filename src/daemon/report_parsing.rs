//! Parses the files that a scan found, before they reach the plan: foreign text. Runs where blocking is allowed.

use crate::plan::{AnswerChoice, CommandId, QuestionId, Report, Time};
use crate::plan_time::Clock;
use crate::volumes::{ArrivedReport, NOT_A_REPORT, Scan};
use crate::wire::report_file::ReportFile;
use crate::wire::{Problem, question_file, report_file};

/// A report as it arrived: readable, or why not.
#[derive(Clone, Debug)]
pub(super) struct ParsedReport {
    pub name: String,
    pub hash: String,
    /// The command in the name, if the name has one.
    pub command: Option<CommandId>,
    pub content: Result<Report, UnreadableReport>,
}

impl ParsedReport {
    /// Makes it a file that is no report: no plan knows the command in its name.
    pub fn belongs_to_none(&mut self) {
        if let (Some(command), Ok(_)) = (self.command.take(), &self.content) {
            let problem = Problem::new(format!("no command `{command}` was ever issued here"))
                .with_hint("name the report after the command's id");
            self.content = Err(UnreadableReport {
                reason: problem.to_string(),
                explanation: report_file::rejection(&self.name, &[problem]),
            });
        }
    }
}

/// Why a report cannot be read.
#[derive(Clone, Debug)]
pub(super) struct UnreadableReport {
    /// In one line.
    pub reason: String,
    /// The text of the file beside the report.
    pub explanation: String,
}

/// What a person wrote into a question's file: the answer and its note, or why it is unusable.
pub(super) type AnswerFile = Result<(AnswerChoice, String), String>;

/// Reads every report of a scan.
pub(super) fn reports(scan: &mut Scan, now: Time, clock: &Clock) -> Vec<ParsedReport> {
    std::mem::take(&mut scan.reports)
        .into_iter()
        .map(|arrived| read(arrived, now, clock))
        .collect()
}

/// Reads every question's file that was filled in.
pub(super) fn replies(scan: &mut Scan) -> Vec<(QuestionId, AnswerFile)> {
    std::mem::take(&mut scan.questions)
        .into_iter()
        .filter_map(|(id, text)| {
            let answer = question_file::parse(&text).map_err(|problems| lines(&problems));
            Some((id, answer.transpose()?))
        })
        .collect()
}

fn read(arrived: ArrivedReport, now: Time, clock: &Clock) -> ParsedReport {
    let (name, hash) = (arrived.name, arrived.hash);
    let command = report_file::command_of(&name);
    let content = match arrived.content {
        Err(unreadable) => Err(vec![Problem::new(unreadable)]),
        Ok(_) if command.is_none() => Err(vec![Problem::new(NOT_A_REPORT)]),
        Ok(bytes) => report_file::parse(&name, &bytes),
    };
    let content = match content {
        Ok(file) => Ok(core(file, &hash, now, clock)),
        Err(problems) => Err(UnreadableReport {
            reason: lines(&problems),
            explanation: report_file::rejection(&name, &problems),
        }),
    };
    ParsedReport {
        name,
        hash,
        command,
        content,
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

fn core(file: ReportFile, hash: &str, now: Time, clock: &Clock) -> Report {
    let report = file.into_report();
    Report {
        // The agent reads the wall clock, which may have been set since this process began.
        blocked_until: report.blocked_until.map(|moment| clock.of_wall(moment)),
        hash: hash.to_owned(),
        received: now,
        ..report
    }
}
