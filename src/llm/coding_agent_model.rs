//! A coding agent of this machine as a language model: each question is a run of its program in a fresh session, in an empty
//! folder and without permission to change anything. The prompt describes the form of the answer in words.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::http::chain;
use super::{BoxFuture, Fault, LanguageModel, LlmError, ModelReply, Request, Result, own_words};
use crate::agents::{
    AgentProcess, CodingAgent, CodingAgentSetup, ModelFault, Permissions, RunOutcome, RunOutput,
    RunReading,
};
use crate::config::Config;
use crate::exec::{
    self, ChildOutput, ChildSpec, MarkKind, ProcessGroup, ProcessMark, environment_of_agent,
};
use crate::plan::ModelCost;
use crate::plan_time::Clock;
use crate::wire::text::exceeds_context;

/// The most output, in bytes; an agent that prints more is stopped. Its events repeat an answer of 64 KiB a few times.
const MAX_OUTPUT: usize = 8 << 20;

/// A coding agent that answers questions.
#[derive(Debug)]
pub struct AgentModel {
    agent: CodingAgentSetup,
    /// Names the variables that it gets alongside those that it cannot do without, and how long one question may take.
    config: Config,
    /// The `PATH` by which it is found, with its name; that of this process if `None`.
    path: Option<(String, String)>,
    /// The folder in which the next daemon finds an agent that is still answering, if this daemon is killed.
    marks: PathBuf,
    clock: Clock,
    /// An empty folder to work in, which contains nothing else.
    place: TempDir,
    questions: AtomicU64,
}

impl AgentModel {
    /// Creates the folder in which the agent runs; the folder `marks` is that of all running processes. Nothing is started.
    ///
    /// # Errors
    /// No temporary folder can be created.
    pub fn new(
        agent: &'static CodingAgent,
        model: Option<&str>,
        config: &Config,
        path: Option<&str>,
        marks: PathBuf,
    ) -> io::Result<Self> {
        let place = TempDir::with_prefix("plan-agent-question-")?;
        Ok(Self {
            agent: CodingAgentSetup {
                kind: agent,
                allow: Permissions::NOTHING,
                model: model.map(str::to_owned),
                more: Vec::new(),
            },
            config: config.clone(),
            path: path.map(|path| ("PATH".to_owned(), path.to_owned())),
            marks,
            clock: Clock::start(),
            place,
            questions: AtomicU64::new(0),
        })
    }

    async fn ask(&self, request: &Request) -> Result<ModelReply> {
        let read = self.run(request).await.map_err(|fault| self.error(fault))?;
        let fault = match read.outcome {
            // The agent was refused a tool that the question did not need; the answer counts.
            RunOutcome::Done(text)
            | RunOutcome::Refused {
                text,
                unfinished: None,
                ..
            } if !text.trim().is_empty() => {
                let spent = read.usage;
                return Ok(ModelReply { text, spent });
            }
            other => self.fault(other),
        };
        let error = self.error(fault);
        Err(LlmError {
            spent: read.usage,
            ..error
        })
    }

    async fn run(&self, request: &Request) -> Result<RunReading, Fault> {
        let (agent, timeout) = (self.agent.kind, self.config.llm.timeout);
        let asked = self.agent.question(self.place.path());
        let AgentProcess { argv, mut set, .. } = asked.map_err(|error| unfit(&error))?;
        set.extend(self.path.clone());
        let spec = ChildSpec {
            argv,
            cwd: self.place.path().to_owned(),
            env: environment_of_agent(&self.config.worker.env, agent.env, set),
            stdin: Some(prompt(request).into_bytes()),
            deadline: timeout,
        };
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        let name = self.place.path().file_name().unwrap_or_default();
        let name = format!("{}-{number}", name.to_string_lossy());
        let (mut mark, output) = match ProcessMark::new(&self.marks, MarkKind::Question, &name) {
            Ok(Some((mark, output))) => (Some(mark), output),
            unmarked => {
                tracing::debug!(
                    ?unmarked,
                    "an agent is asked that is not found after a kill"
                );
                let output = ChildOutput::nameless_apart();
                (None, output.map_err(|error| unfit(&error))?)
            }
        };
        let sign = |group: &mut ProcessGroup| {
            mark.iter_mut().for_each(|mark| mark.name_group(group.id()));
        };
        let exit = exec::run(&spec, &output, sign, output.flooded(MAX_OUTPUT as u64)).await;
        let exit = exit.map_err(|error| unfit(&chain(&error)))?;
        if exit.cancelled {
            return Err(Fault::TooLarge(MAX_OUTPUT));
        }
        if exit.timed_out {
            return Err(Fault::TimedOut(timeout));
        }
        Ok(agent.read(&RunOutput {
            out: &output.out_since(0, MAX_OUTPUT),
            err: &output.err_since(0, MAX_OUTPUT),
            exit: Some(exit),
            begins: true,
            now: self.clock.now(),
        }))
    }

    fn fault(&self, outcome: RunOutcome) -> Fault {
        match outcome {
            // Some agents say so in words alone.
            RunOutcome::Garbled(why) if exceeds_context(&why) => Fault::Overflow {
                status: None,
                message: own_words(&why),
            },
            RunOutcome::Garbled(why)
            | RunOutcome::Refused {
                unfinished: Some(why),
                ..
            } => Fault::Broken(own_words(&why)),
            RunOutcome::Done(_) | RunOutcome::Refused { .. } => {
                Fault::Unexpected("it holds no text".into())
            }
            RunOutcome::Model(fault) => self.model_fault(&fault),
            RunOutcome::Usage(said) | RunOutcome::NoStart(said) => unfit(&said),
            RunOutcome::Killed(how) => Fault::Broken(own_words(&format!("it {how}"))),
            RunOutcome::SessionMissing | RunOutcome::SessionInUse => {
                Fault::Broken("it took a fresh session for another one".into())
            }
        }
    }

    fn model_fault(&self, fault: &ModelFault) -> Fault {
        let message = own_words(&fault.said);
        match fault.status {
            Some(status @ (401 | 403)) => Fault::Unfit(format!(
                "its model refuses the key (status {status}): {message}"
            )),
            // Agents pass on the words of the service, or have their own for it.
            status if exceeds_context(&fault.said) => Fault::Overflow { status, message },
            // Without money it is away, too: a person who pays has it go on.
            Some(status) if fault.retryable || fault.is_unpaid() => Fault::Unavailable {
                status,
                message,
                retry_after: fault.until.map(|until| until.since(self.clock.now())),
            },
            Some(status) => Fault::Rejected { status, message },
            None => Fault::Broken(message),
        }
    }

    fn error(&self, fault: Fault) -> LlmError {
        LlmError {
            asked: format!("the coding agent `{}`", self.name()),
            fault,
            spent: ModelCost::default(),
        }
    }
}

impl LanguageModel for AgentModel {
    fn name(&self) -> &str {
        self.agent.kind.name
    }

    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<ModelReply>> {
        Box::pin(self.ask(request))
    }
}

fn unfit(why: &impl ToString) -> Fault {
    Fault::Unfit(own_words(&why.to_string()))
}

/// Puts the whole request into one text: an agent has a system part of its own.
fn prompt(request: &Request) -> String {
    let schema = serde_json::to_string(&request.schema).expect("a schema has text keys");
    format!(
        "{}\n\n---\n\n{}\n\n---\n\nAnswer this question yourself and now. Use no tools, read and change no files: all that is \
         known is above. Your whole answer is one JSON object that fits the following schema, without a word or a code fence \
         around it.\n\n{schema}\n",
        request.system, request.prompt
    )
}
