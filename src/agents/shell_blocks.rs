//! Runs the shell blocks of a task. Only the blocks of the task's own first command count: a model that has read an agent's
//! report writes what a retry adds, and that is never executed.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::{AgentJob, AgentProcess, Result};
use crate::plan::Origin;
use crate::wire::command_file::sections;
use crate::wire::{CommandFile, CommandType, Problem};

/// The built-in agent that runs shell blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shell {
    /// Also runs what a model wrote.
    pub(super) allow_shell: bool,
}

/// A block's shell, `sh` or `bash`, and its script.
type ShellBlock = (&'static str, String);

impl Shell {
    /// Returns the steps of a job, in order.
    ///
    /// # Errors
    /// The job has nothing that may be run.
    pub fn steps(self, job: &AgentJob<'_>) -> Result<Vec<AgentProcess>> {
        let command = job.command;
        let whole = self.allow_shell && command.kind == CommandType::New;
        let first = if begins_task(command) || whole {
            command.clone()
        } else {
            first_command(job)?
        };
        // The description may have changed since the task began.
        let of_person = [&first, command].map(|command| command.origin) == [Origin::Person; 2];
        if !of_person && !self.allow_shell {
            let reason = "a model wrote this task, and the shell runs only what a person wrote";
            let way_out =
                "start the worker with `--allow-shell`, or give the task to another agent";
            return Err(Problem::new(reason).with_hint(way_out));
        }
        let blocks = blocks(&sections(&first.body).description)?;
        let count = blocks.len();
        let step = |(index, (shell, script)): (usize, ShellBlock)| AgentProcess {
            name: format!("Block {} of {count}", index + 1),
            argv: [shell, "-e", "-c", &script].map(str::to_owned).to_vec(),
            ..AgentProcess::default()
        };
        Ok(blocks.into_iter().enumerate().map(step).collect())
    }
}

/// Returns whether the command is the first of its task, according to its own fields.
pub(super) fn begins_task(command: &CommandFile) -> bool {
    command.kind == CommandType::New && command.attempt.is_none_or(|attempt| attempt <= 1)
}

/// Finds the command with which the task of this command began, among the claimed commands.
fn first_command(job: &AgentJob<'_>) -> Result<CommandFile> {
    let unknown = |reason: &str| {
        let way_out = "start the task anew, so that its whole description is in the command";
        Problem::new(reason).with_hint(way_out)
    };
    if job.command.plan.is_none() || job.command.task.is_none() {
        let reason = "the command goes on with a task and does not name it";
        return Err(unknown(reason));
    }
    let earlier = job.commands();
    let earlier = earlier.map_err(|error| unknown(&format!("{:#}", anyhow::Error::new(error))))?;
    // A task that was begun anew has more than one beginning: the last one counts. Where a session continues over several
    // tasks, the task's first command is no `new` one.
    let mut first = None;
    for earlier in earlier {
        if earlier.attempt.is_some_and(|attempt| attempt > 1) {
            continue;
        }
        if begins_task(&earlier) {
            return Ok(earlier);
        }
        first = Some(earlier);
    }
    first.ok_or_else(|| unknown("the first command of the task is not here any more"))
}

/// Returns why a shell could do nothing for a task with a description.
pub fn script_problem(description: &str) -> Option<Problem> {
    blocks(description).err()
}

/// Finds the shell blocks of a description, in order.
fn blocks(description: &str) -> Result<Vec<ShellBlock>> {
    let mut blocks: Vec<ShellBlock> = Vec::new();
    let mut inside = false;
    for (event, range) in Parser::new(description).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                if let Some(shell) = shell(&info) {
                    // A block without its end would also run everything below it, including prose.
                    if !closed(&description[range]) {
                        let reason = format!("the shell block {} has no end", blocks.len() + 1);
                        let way_out = "close it with three backticks on a line of their own";
                        return Err(Problem::new(reason).with_hint(way_out));
                    }
                    inside = true;
                    blocks.push((shell, String::new()));
                }
            }
            Event::Text(text) if inside => {
                if let Some((_, script)) = blocks.last_mut() {
                    script.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => inside = false,
            _ => {}
        }
    }
    if blocks.is_empty() {
        return Err(Problem::new("the task's description has no shell block").with_hint(
            "write the commands into a block that begins with ```sh, or give the task to another agent",
        ));
    }
    Ok(blocks)
}

fn shell(info: &str) -> Option<&'static str> {
    match info.split([' ', ',', '{', '\t']).next()? {
        "sh" | "shell" => Some("sh"),
        "bash" => Some("bash"),
        _ => None,
    }
}

/// Returns whether a fenced block ends with a fence of its own.
fn closed(block: &str) -> bool {
    let fence = |line: &str| {
        let line = line.trim_start_matches([' ', '\t', '>']);
        let mark = line.chars().next().filter(|mark| "`~".contains(*mark))?;
        let length = line.len() - line.trim_start_matches(mark).len();
        Some((mark, length, line[length..].trim().is_empty()))
    };
    let mut lines = block.trim_end().lines();
    let opening = lines.next().and_then(fence);
    let both = opening.zip(lines.next_back().and_then(fence));
    both.is_some_and(|((open, least, _), (close, length, bare))| {
        open == close && length >= least && bare
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::volumes::{Folder, Volumes};

    fn command(front: &str, body: &str) -> CommandFile {
        let text = format!("---\nsession_id: auto\n{front}\n---\n\n{body}\n");
        CommandFile::parse(&text).unwrap()
    }

    const BEGIN: &str =
        "id: task-1\ncommand_type: new\norigin: person\nplan: p\ntask: 1\nattempt: 1";
    const AGAIN: &str =
        "id: task-2\ncommand_type: continue\norigin: person\nplan: p\ntask: 1\nattempt: 2";

    fn body(script: &str) -> String {
        format!("# 1 · Name\n\n## Task description\n\nWords.\n\n```sh\n{script}\n```\n")
    }

    struct Given {
        _root: tempfile::TempDir,
        volumes: Volumes,
    }

    impl Given {
        fn with(commands: &[&CommandFile]) -> Self {
            let (root, volumes) = Volumes::temporary();
            for command in commands {
                let path = volumes.command(Folder::CommandsProcessed, &command.id);
                fs::write(path, command.render()).unwrap();
            }
            Self {
                volumes,
                _root: root,
            }
        }

        fn scripts(&self, command: &CommandFile, allow_shell: bool) -> Result<Vec<String>, String> {
            Shell { allow_shell }
                .steps(&AgentJob::new(&self.volumes, command))
                .map(|steps| {
                    let script = |mut step: AgentProcess| step.argv.pop().unwrap();
                    steps.into_iter().map(script).collect()
                })
                .map_err(|problem| problem.message)
        }
    }

    #[test]
    fn reads_only_closed_shell_blocks() {
        let of = |text: &str| {
            blocks(text)
                .map(|blocks| {
                    let parts =
                        |(shell, script): ShellBlock| format!("{shell}: {}", script.trim_end());
                    blocks
                        .into_iter()
                        .map(parts)
                        .collect::<Vec<_>>()
                        .join(" | ")
                })
                .map_err(|problem| problem.message)
        };
        for (text, expected) in [
            ("```sh\na\nb\n```", Ok("sh: a\nb")),
            (
                "```sh\na\n```\nwords\n~~~bash\nb\n~~~",
                Ok("sh: a | bash: b"),
            ),
            ("```shell title=x\na\n```", Ok("sh: a")),
            ("- item\n  ```sh\n  a\n  ```\n", Ok("sh: a")),
            ("````sh\n```\na\n````", Ok("sh: ```\na")),
            ("```python\na\n```\n```sh\nb\n```", Ok("sh: b")),
            ("```sh\na", Err("the shell block 1 has no end")),
            ("```sh", Err("the shell block 1 has no end")),
            ("````sh\na\n```", Err("the shell block 1 has no end")),
            (
                "```\na\n```\n\n    indented\n`sh`",
                Err("the task's description has no shell block"),
            ),
            ("", Err("the task's description has no shell block")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn retry_text_is_never_run() {
        let first = command(BEGIN, &body("true first"));
        let again = command(AGAIN, &body("true retry"));
        let given = Given::with(&[&first, &again]);
        assert_eq!(given.scripts(&again, false).unwrap(), ["true first\n"]);
        let anew = command(
            &AGAIN.replace("continue", "new"),
            &body("true retry in a new session"),
        );
        assert_eq!(given.scripts(&anew, false).unwrap(), ["true first\n"]);
        let nowhere = Given::with(&[&again]);
        assert!(nowhere.scripts(&again, true).is_err());
    }

    #[test]
    fn ignores_first_command_of_other_task_or_plan() {
        let others = [
            command(
                &BEGIN.replace("task: 1", "task: 2"),
                &body("true other task"),
            ),
            command(
                &BEGIN
                    .replace("id: task-1", "id: task-11")
                    .replace("plan: p", "plan: q"),
                &body("true other plan"),
            ),
        ];
        let again = command(AGAIN, &body("true retry"));
        let given = Given::with(&[&others[0], &others[1], &again]);
        assert!(given.scripts(&again, true).is_err());
    }

    #[test]
    fn first_command_may_continue_session() {
        let first = command(&BEGIN.replace("new", "continue"), &body("true first"));
        let repair = command(
            &AGAIN.replace("attempt: 2", "attempt: 1"),
            &body("true repair"),
        );
        let given = Given::with(&[&first, &repair]);
        assert_eq!(given.scripts(&first, false).unwrap(), ["true first\n"]);
        assert_eq!(given.scripts(&repair, false).unwrap(), ["true first\n"]);
    }

    #[test]
    fn model_scripts_need_permission() {
        let of_model = command(&BEGIN.replace("person", "model"), &body("true"));
        let given = Given::with(&[&of_model]);
        assert!(given.scripts(&of_model, false).is_err());
        assert_eq!(given.scripts(&of_model, true).unwrap(), ["true\n"]);
        let silent = command(&BEGIN.replace("origin: person\n", ""), &body("true"));
        assert!(given.scripts(&silent, false).is_err());

        let first = command(BEGIN, &body("true"));
        let changed = AGAIN.replace("continue", "new").replace("person", "model");
        let changed = command(&changed, &body("true changed"));
        let given = Given::with(&[&first, &changed]);
        assert!(given.scripts(&changed, false).is_err());
        assert_eq!(given.scripts(&changed, true).unwrap(), ["true changed\n"]);
    }

    #[test]
    fn runs_only_blocks_in_description() {
        let text =
            "## Task description\n\n```sh\ntrue\n```\n\n## Constraints\n\n```sh\nfalse\n```\n";
        let given = Given::with(&[]);
        assert_eq!(
            given.scripts(&command(BEGIN, text), false).unwrap(),
            ["true\n"]
        );
    }
}
