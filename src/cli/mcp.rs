//! `mcp`: the tools for a client of the Model Context Protocol. Standard output has nothing else.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::TcpListener;

use super::web::token as token_of;
use super::{
    Access, App, CommandStart, Ended, Exit, Failure, McpArgs, Result, complain, tool, unless,
};
use crate::serve::{PATH, ServedTools};
use crate::volumes::{TokenFile, Volumes};
use crate::web::{self, Gate};

/// Serves the tools until the client ends or a signal comes.
pub async fn serve(args: McpArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let opened = async {
        let mut app = App::open(start, Access::Read).await?;
        app.quiet()?;
        let toolbox = tool::open(&mut app, args.plan.as_deref(), &args.dialect).await?;
        let http = match args.http {
            Some(address) => Some(open_http(address, &app.volumes).await?),
            None => None,
        };
        Ok((app, toolbox, http))
    };
    let (app, toolbox, http) = unless(&mut ended, "nothing was served", opened).await?;
    let served = ServedTools {
        toolbox,
        dialects: args.dialect,
        volumes: app.volumes,
        program: app.program.to_string(),
    };
    if let Some((listener, token)) = http {
        let port = listener.local_addr()?.port();
        let replaced = |_: &str| complain!("! the token was part of an address, and is replaced");
        let gate = Gate::new(token, port, replaced);
        let router = web::tools(served.into_http());
        return Ok(Box::pin(web::serve(listener, gate, router, ended)).await);
    }
    let (input, output) = rmcp::transport::stdio_pipes();
    let end = Box::pin(served.on_lines(input, output, ended)).await;
    Ok(end?.unwrap_or(Exit::Done))
}

/// Takes the address and the token, and says where clients find both.
async fn open_http(address: SocketAddr, volumes: &Volumes) -> Result<(TcpListener, TokenFile)> {
    let token = volumes.token_file();
    token_of(&token, false, "remove it: a new one is made")?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("failed to listen at {address}"));
    let listener =
        listener.map_err(|error| Failure::failed(error).hint("port 0 takes any that is free"))?;
    let (address, path) = (listener.local_addr()?, token.path().display());
    complain!("serving at http://{address}{PATH}\nthe token is in {path}");
    Ok((listener, token))
}
