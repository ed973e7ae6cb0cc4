//! The tools for agents, on the command line and over the Model Context Protocol.

use std::net::SocketAddr;

use clap::Args;

use super::value_parsers::local_address;
use crate::tools::Dialect;

/// The dialects of the tools, the word for all of plans, and the one that controls a daemon.
const DIALECTS: &str = "plan-tool|plan-manager|notebook|tasks|all|control";
const ALL_DIALECTS: &str = "all";

/// Dialects of the tools: one, or all. They are one word, and clap takes several words for an argument that is called a `Vec`.
pub type Dialects = Vec<Dialect>;

#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Only the tools of this dialect
    #[arg(long, value_parser = dialects, value_name = DIALECTS, default_value = "all", hide_default_value = true)]
    pub dialect: Dialects,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plan-agent tool TaskCreate '{\"subject\": \"Write the parser\"}'
  plan-agent tool create_plan_from_structure - < plan.json

Prints the answer as one line of JSON. Exits with 0 if the tool did it, with 1 if not.")]
pub struct ToolArgs {
    /// The tool; `tools` lists them
    pub name: String,

    /// Its arguments as a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    pub arguments: String,

    /// The dialect that the tool is of
    #[arg(long, value_parser = dialects, value_name = DIALECTS, default_value = "all", hide_default_value = true)]
    pub dialect: Dialects,

    /// The plan, by its key or the beginning of its id [default: the dialect's latest]
    #[arg(long)]
    pub plan: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  claude mcp add plan -- plan-agent mcp
  plan-agent mcp --dialect notebook --plan abcdefgh
  plan-agent mcp --http 127.0.0.1:8765

Over HTTP a client sends the token that is in volumes/mcp.token: `Authorization: Bearer TOKEN`.")]
pub struct McpArgs {
    /// The tools that are served
    #[arg(long, value_parser = dialects, value_name = DIALECTS, default_value = "tasks")]
    pub dialect: Dialects,

    /// The plan, by its key or the beginning of its id [default: the dialect's latest]
    #[arg(long)]
    pub plan: Option<String>,

    /// Serve over HTTP at this address of this machine instead of standard input and output; port 0 takes any
    #[arg(long, value_name = "127.0.0.1:PORT", value_parser = local_address)]
    pub http: Option<SocketAddr>,
}

fn dialects(word: &str) -> Result<Dialects, String> {
    if word == ALL_DIALECTS {
        return Ok(Dialect::ALL.to_vec());
    }
    let mut all = Dialect::ALL.into_iter().chain([Dialect::Control]);
    match all.find(|one| one.as_str() == word) {
        Some(one) => Ok(vec![one]),
        None => Err(format!("must be one of {}", DIALECTS.replace('|', ", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_every_dialect_name() {
        let all = Dialect::ALL.map(Dialect::as_str).join("|");
        assert_eq!(DIALECTS, format!("{all}|{ALL_DIALECTS}|control"));
        assert_eq!(dialects("control"), Ok(vec![Dialect::Control]));
        assert_eq!(dialects("all"), Ok(Dialect::ALL.to_vec()));
        assert_eq!(dialects("tasks"), Ok(vec![Dialect::Tasks]));
        assert!(dialects("task").is_err());
    }
}
