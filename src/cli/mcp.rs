//! `mcp`: the tools for a client of the Model Context Protocol. On standard output there is nothing else.

use super::args::{Dialects, Mcp};
use super::failure::{Exit, Failure};
use super::setup::Setup;
use super::signals::{Ended, unless};
use super::tool;
use crate::serve::Served;

/// Serves the tools until the client ends or a signal comes.
pub async fn serve(
    args: Mcp,
    setup: impl Future<Output = Result<Setup, Failure>>,
    mut ended: Ended,
) -> Result<Exit, Failure> {
    let nothing = "nothing was served";
    let setup = unless(&mut ended, nothing, setup).await?.quiet()?;
    let open = tool::open(&setup, args.plan.as_deref());
    let (site, toolbox) = unless(&mut ended, nothing, open).await?;
    let Dialects(dialects) = args.dialect;
    let served = Served {
        toolbox,
        dialects,
        volumes: site.volumes,
        program: site.program.to_string(),
    };
    let (input, output) = rmcp::transport::stdio_pipes();
    let end = Box::pin(served.on_lines(input, output, ended)).await;
    Ok(end.map_err(Failure::failed)?.unwrap_or(Exit::Done))
}
