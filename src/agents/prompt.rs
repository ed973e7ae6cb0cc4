//! What a coding agent reads: the command, with a way to report that also works for an agent which may not write everywhere,
//! and a reminder of what it may have forgotten.

use std::path::Path;

use super::AgentJob;
use super::files_named_in_task::file_options;
use super::shell_blocks::begins_task;
use super::substitute_report::block;
use crate::wire::{CommandFile, clip, joined, printable};

/// What an agent reads in addition to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// Nothing.
    Command,
    /// That it was interrupted at this command.
    Interrupted,
    /// That its session is lost, with the earlier commands and reports of that session.
    Lost,
}

/// The headings under which a command says how to report.
const HOW: [&str; 2] = ["\n## How to report\n", "\n## 报告方式\n"];
/// The longest part of an earlier command or report that is repeated, in characters.
const EARLIER: usize = 8 * 1024;

impl AgentJob<'_> {
    /// Returns the text of the command for an agent that reports in the workspace, at this path.
    pub fn brief(&self, report: &Path, kind: PromptKind) -> String {
        let mut command = self.command.clone();
        let task = self.task(kind);
        let report = report.display();
        command.body = format!(
            "{task}\n\n{}\n\n\
             1. When you are done, or stuck, write the report to `{report}`, with one write of your file tool. If you cannot write \
             files, make it your last message.\n\
             2. Begin it with front matter: a line `---`, a line `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`, \
             a line `---`.\n\
             3. Then three sections: `## Core results` (what exists now, which commands you ran and what they showed), \
             `## Pitfalls`, `## Next-step suggestions`. Say honestly what is not done.",
            HOW[0].trim()
        );
        command.report = report.to_string();
        command.render()
    }

    /// Returns the text of the task alone.
    pub fn task(&self, kind: PromptKind) -> String {
        let prelude = match kind {
            PromptKind::Command => String::new(),
            PromptKind::Interrupted => {
                "You were interrupted while you worked on this. Look at what is there already, and go on.\n\n".into()
            }
            PromptKind::Lost => lost(self),
        };
        prelude + work(&self.command.body)
    }

    /// Returns the options that hand the files of the task to aider: those that any of its commands names.
    pub fn file_options(&self) -> Vec<String> {
        let commands = self.commands().into_iter().flatten();
        let texts = commands.map(|earlier| work(&earlier.body).to_owned());
        file_options(&joined(texts, "\n"), &self.workspace)
    }
}

/// Returns the body of a command without how to report.
fn work(body: &str) -> &str {
    let ends = HOW.iter().filter_map(|how| body.rfind(how.trim_end()));
    body[..ends.max().unwrap_or(body.len())].trim_end()
}

/// Returns what a new session needs to know of the lost one: its commands and reports.
fn lost(job: &AgentJob<'_>) -> String {
    let earlier: Vec<CommandFile> = job.earlier().collect();
    let first = earlier.iter().find(|earlier| begins_task(earlier));
    let task = first.or(earlier.last()).map(|first| work(&first.body));
    let task = task.map(|task| format!("The task as it was given:\n\n{}\n\n", indented(task)));
    let mut reports = (earlier.iter()).filter_map(|earlier| job.volumes.read_report(&earlier.id));
    let report = reports.next();
    let report = report.map(|text| format!("The last report on it:\n\n{}\n\n", indented(&text)));
    format!(
        "This is a new session: the earlier one is lost, its files are not. Look at the workspace first, keep what is right, \
         mend what is wrong.\n\n{}{}",
        task.unwrap_or_default(),
        report.unwrap_or_default()
    )
}

/// Makes a text a block in which no heading and no fence counts.
fn indented(text: &str) -> String {
    block(clip(&printable(text), EARLIER).trim())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::volumes::{Folder, Volumes};

    fn command(id: &str, kind: &str, body: &str) -> CommandFile {
        let text = format!(
            "---\nid: {id}\nsession_id: s\ncommand_type: {kind}\nplan: p\ntask: 1\nreport: /elsewhere/r.md\n---\n\n{body}\n"
        );
        CommandFile::parse(&text).unwrap()
    }

    #[test]
    fn prompt_names_report_path_in_workspace() {
        let (_root, volumes) = Volumes::temporary();
        for how in ["How to report", "报告方式"] {
            let body =
                format!("# 1 · x\n\nDo it.\n\n## {how}\n\nto `/elsewhere/r.md`, then rename");
            let text = AgentJob::new(&volumes, &command("task-1", "new", &body))
                .brief(Path::new("/w/.plan-agent/r.md"), PromptKind::Interrupted);
            assert!(
                text.contains("You were interrupted") && text.contains("Do it."),
                "{text}"
            );
            assert!(
                !text.contains("/elsewhere") && !text.contains("rename"),
                "{text}"
            );
            assert_eq!(text.matches("/w/.plan-agent/r.md").count(), 2);
        }
    }

    #[test]
    fn new_session_prompt_contains_earlier_command() {
        let (_root, volumes) = Volumes::temporary();
        for (id, kind, body) in [
            ("task-1", "new", "# The whole task\n\nin detail"),
            ("task-2", "continue", "mend it"),
            ("task-3", "continue", "mend it again"),
        ] {
            let command = command(id, kind, body);
            let path = volumes.command(Folder::CommandsProcessed, &command.id);
            fs::write(path, command.render()).unwrap();
        }
        let report = volumes.path(Folder::ReportsProcessed).join("report-2.md");
        fs::write(
            report,
            "---\nstatus: FAILED\n---\n\n## Core results\n\nhalf of it",
        )
        .unwrap();
        let text = AgentJob::new(&volumes, &command("task-3", "continue", "mend it again"))
            .brief(Path::new("/w/r.md"), PromptKind::Lost);
        assert!(text.contains("    # The whole task"), "{text}");
        assert!(
            text.contains("    half of it") && text.contains("\nmend it again"),
            "{text}"
        );
        assert!(!text.contains("\n## Core results"), "{text}");
    }
}
