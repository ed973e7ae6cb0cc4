//! Parses the files that a scan found, before they reach the plan: foreign text. Runs where blocking is allowed.

use super::FoundInput;
use crate::plan::{AnswerChoice, CommandId, QuestionId, Report, Time};
use crate::plan_time::Clock;
use crate::volumes::{ArrivedReport, Scan};
use crate::wire::{Problem, ReportFile, question_file, report_file};

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

/// Reads what a scan found: every report, and every question's file that was filled in.
pub(super) fn parse(scan: &mut Scan, now: Time, clock: &Clock) -> FoundInput {
    let reports = std::mem::take(&mut scan.reports).into_iter();
    let replies = std::mem::take(&mut scan.questions).into_iter();
    let reply = |(id, text): (QuestionId, String)| {
        let answer = question_file::parse(&text).map_err(|problems| Problem::join(&problems, "; "));
        Some((id, answer.transpose()?))
    };
    FoundInput {
        reports: reports.map(|arrived| read(arrived, now, clock)).collect(),
        replies: replies.filter_map(reply).collect(),
        signs: std::mem::take(&mut scan.signs),
    }
}

fn read(arrived: ArrivedReport, now: Time, clock: &Clock) -> ParsedReport {
    let (name, hash) = (arrived.name, arrived.hash);
    let command = report_file::command_of(&name);
    let content = match arrived.content {
        Err(unreadable) => Err(vec![Problem::new(unreadable)]),
        Ok(bytes) => report_file::parse(&name, &bytes),
    };
    let content = match content.map(ReportFile::into_report) {
        Ok(report) => Ok(Report {
            // The agent reads the wall clock, which may have been set since this process began.
            blocked_until: report.blocked_until.map(|moment| clock.of_wall(moment)),
            hash: hash.clone(),
            received: now,
            ..report
        }),
        Err(problems) => Err(UnreadableReport {
            reason: Problem::join(&problems, "; "),
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
