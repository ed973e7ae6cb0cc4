//! Reads what a look at the folders found, before the plan sees it. Runs where blocking is allowed; parses the words of
//! strangers.

use crate::plan::{CommandId, QuestionId, Report, Time};
use crate::plan_time::Clock;
use crate::volumes::{ArrivedReport, Scan, Unreadable};
use crate::wire::report_file::ReportFile;
use crate::wire::{Problem, question_file, report_file};

/// A report as it arrived: readable, or why not.
#[derive(Clone, Debug)]
pub(super) struct ParsedReport {
    pub name: String,
    pub hash: String,
    /// The command that the name speaks of, if it speaks of any.
    pub command: Option<CommandId>,
    pub content: Result<Report, UnreadableReport>,
}

/// A report that cannot be taken.
#[derive(Clone, Debug)]
pub(super) struct UnreadableReport {
    /// In one line.
    pub reason: String,
    /// What is laid beside the file.
    pub explanation: String,
}

/// What a person wrote into a question's file.
#[derive(Clone, Debug)]
pub(super) enum AnswerFile {
    Answer(crate::plan::AnswerChoice, String),
    Unusable(String),
}

/// Reads every report of a look.
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
        .filter_map(|(id, text)| match question_file::parse(&text) {
            Ok(None) => None,
            Ok(Some((choice, note))) => Some((id, AnswerFile::Answer(choice, note))),
            Err(problems) => Some((id, AnswerFile::Unusable(lines(&problems)))),
        })
        .collect()
}

fn read(arrived: ArrivedReport, now: Time, clock: &Clock) -> ParsedReport {
    let ArrivedReport {
        name,
        hash,
        content,
    } = arrived;
    let command = report_file::command_of(&name);
    let content = match content {
        Err(unreadable) => Err(refused(&name, &[Problem::new(unreadable.to_string())])),
        Ok(_) if command.is_none() => Err(refused(
            &name,
            &[Problem::new(Unreadable::NotAReport.to_string())],
        )),
        Ok(bytes) => match report_file::parse(&name, &bytes) {
            Ok(file) => Ok(core(file, &hash, now, clock)),
            Err(problems) => Err(refused(&name, &problems)),
        },
    };
    ParsedReport {
        name,
        hash,
        command,
        content,
    }
}

fn refused(name: &str, problems: &[Problem]) -> UnreadableReport {
    UnreadableReport {
        reason: lines(problems),
        explanation: report_file::rejection(name, problems),
    }
}

fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn core(file: ReportFile, hash: &str, received: Time, clock: &Clock) -> Report {
    let report = file.into_report();
    Report {
        // The agent reads the wall clock, which may have been set since this process began.
        blocked_until: report.blocked_until.map(|moment| clock.of_wall(moment)),
        hash: hash.to_owned(),
        received,
        ..report
    }
}
