//! Language models: one exchange over HTTP or with a coding agent of this machine, the questions that the plan asks them, and
//! how their answers are read. A model's answer is untrusted data: it is bounded, parsed into types and validated before any
//! code acts on it. Nothing in this module changes a plan.

mod answer_extraction;
mod answer_schema;
mod api_answers;
mod coding_agent_model;
mod command_file_text;
mod error;
mod event_stream;
mod http;
mod http_apis;
mod prompt_context;
mod prompts;
pub mod questions;
mod quoting;
mod template_trial_data;
mod typed_questions;

pub use answer_schema::Schema;
pub use coding_agent_model::AgentModel;
pub use command_file_text::{CommandContent, CommandContext, CommandKind};
pub use error::{Fault, LlmError};
pub use futures_util::future::BoxFuture;
pub use http::{chain as error_chain, client_builder, install_crypto};
pub use http_apis::HttpModel;
pub use prompts::{PromptFiles, PromptTemplate, Prompts};
pub use quoting::indented;
pub use typed_questions::{Answered, Model, TypedQuestion};

use std::fmt;

use self::error::{Result, own_words};
use self::event_stream::ApiAnswer;
use self::http::Endpoint;
use self::quoting::{
    LINE, NAME, SECTION, TAIL, TEXT, WORDS, one_line, quote, quote_within, unfenced,
};
use crate::plan::ModelCost;

/// One question in the form that is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The part that is the same for every question of its kind: a provider may cache it.
    pub system: String,
    /// The question itself.
    pub prompt: String,
    /// Names the kind of answer: letters, digits, `_`.
    pub schema_name: String,
    /// The form of the answer.
    pub schema: Schema,
    /// The most tokens of the answer.
    pub max_tokens: u32,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReply {
    /// The answer as it was received.
    pub text: String,
    /// What it took, cached tokens included. The cost is 0 if the service reports none: prices are not guessed.
    pub spent: ModelCost,
}

/// A language model that answers one question at a time; it remembers nothing between them.
pub trait LanguageModel: fmt::Debug + Send + Sync {
    /// Returns the model's name as it is shown to a person.
    fn name(&self) -> &str;

    /// Sends one request and waits for the whole answer. Dropping the future ends the exchange. It fails with a [`Fault`]; this
    /// layer retries nothing.
    fn exchange<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<ModelReply>>;
}
