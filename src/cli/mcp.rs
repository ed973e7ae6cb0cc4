//! `mcp`: the tools for a client of the Model Context Protocol. On standard output there is nothing else.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::TcpListener;

use super::app::{Access, App, CommandStart};
use super::args::{Dialects, McpArgs};
use super::failure::{Exit, Failure};
use super::output::complain;
use super::signals::{Ended, unless};
use super::tool;
use crate::serve::{PATH, ServedTools};
use crate::volumes::Volumes;
use crate::wire::text::quoted;

/// Serves the tools until the client ends or a signal comes.
pub(super) async fn serve(
    args: McpArgs,
    start: &CommandStart,
    mut ended: Ended,
) -> Result<Exit, Failure> {
    let nothing = "nothing was served";
    let opened = async {
        let app = App::open(start, Access::Look).await?;
        app.quiet()?;
        let toolbox = tool::open(&app, args.plan.as_deref()).await?;
        Ok((app, toolbox))
    };
    let (app, toolbox) = unless(&mut ended, nothing, opened).await?;
    let Dialects(dialects) = args.dialect;
    let served = ServedTools {
        toolbox,
        dialects,
        volumes: app.volumes,
        program: app.program.to_string(),
    };
    if let Some(address) = args.http {
        let (listener, token) =
            unless(&mut ended, nothing, open_http(address, &served.volumes)).await?;
        return Ok(Box::pin(served.on_http(listener, &token, ended)).await);
    }
    let (input, output) = rmcp::transport::stdio_pipes();
    let end = Box::pin(served.on_lines(input, output, ended)).await;
    Ok(end.map_err(Failure::failed)?.unwrap_or(Exit::Done))
}

/// Takes the address and the token, and says where clients find both.
async fn open_http(
    address: SocketAddr,
    volumes: &Volumes,
) -> Result<(TcpListener, String), Failure> {
    let path = volumes.token_path();
    let token = volumes.token().map_err(|error| {
        let hint = format!(
            "`chmod 600 {0}`, or remove it: a new one is made",
            quoted(&path.to_string_lossy())
        );
        Failure::failed(error).hint(hint)
    })?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("failed to listen at {address}"))
        .map_err(|error| Failure::failed(error).hint("port 0 takes any that is free"))?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    let path = path.display();
    complain(&format!(
        "serving at http://{address}{PATH}\nthe token is in {path}\n"
    ));
    Ok((listener, token))
}
