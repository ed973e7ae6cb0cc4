//! Language models: one exchange over HTTP or with a coding agent of this machine, the questions that the plan puts to
//! them, and how their answers are read. What a model says is data from a stranger: it is bounded, parsed into types and
//! validated before anybody acts on it. Nothing in here changes a plan.

mod agent;
mod api;
mod command;
mod context;
mod error;
mod extract;
mod http;
mod model;
mod prompts;
pub mod questions;
mod quote;
mod sample;
mod schema;

use std::future::Future;
use std::pin::Pin;

pub use agent::{AgentModel, AgentSettings};
pub use api::HttpModel;
pub use command::{CommandContext, CommandKind, DependencyResult};
pub use error::{EndpointError, Fault, LlmError};
pub use http::{Settings, install_crypto};
pub use model::{Answered, AskError, AskFault, Model, Question, RetryPolicy};
pub use prompts::{PromptError, Prompts, Template};
pub use quote::indented;
pub use schema::Schema;

/// One question as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What holds for every question of its kind: the part that a provider may cache.
    pub system: String,
    /// What is asked now.
    pub prompt: String,
    /// Names the kind of answer: letters, digits, `_`.
    pub schema_name: String,
    /// The form of the answer.
    pub schema: Schema,
    /// Tokens that the answer may have.
    pub max_tokens: u32,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The answer as the model gave it.
    pub text: String,
    /// Tokens the model read, cached ones included.
    pub input_tokens: u64,
    /// Tokens the model wrote.
    pub output_tokens: u64,
    /// What the service says that the answer cost, in US dollars; 0 where it does not say: prices are not guessed.
    pub cost_usd: f64,
}

/// A future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A language model that can be asked one question at a time; nothing is remembered between them.
pub trait Llm: Send + Sync {
    /// Returns the model's name as it is shown to a person.
    fn name(&self) -> &str;

    /// Sends one request and waits for the whole answer. Dropping the future ends the exchange. Fails as [`Fault`]
    /// says; nothing is retried here.
    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply, LlmError>>;
}
