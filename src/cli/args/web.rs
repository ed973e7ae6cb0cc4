//! The arguments of `web`.

use clap::Args;

use crate::web::PublicUrl;

#[derive(Debug, Default, Args)]
#[command(after_help = "\
It prints the address of the page, with the token behind `#`: who has it may do there what you may do here. The server can \
only be reached from this machine; with `ssh -L PORT:127.0.0.1:PORT` or a proxy also from elsewhere.")]
pub struct WebArgs {
    /// Open it in the browser, on a terminal
    #[arg(long)]
    pub open: bool,

    /// Only show; the token is another one
    #[arg(long)]
    pub read_only: bool,

    /// The port; 0 takes any that is free [default: 7420, or the next that is free]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,

    /// The address under which a proxy or a tunnel shows the page
    #[arg(long, value_name = "https://HOST", value_parser = PublicUrl::parse)]
    pub public_url: Option<PublicUrl>,

    /// Print a code, good once and for five minutes, that lets another device in
    #[arg(long)]
    pub pair: bool,

    /// Make another token: the present one counts no longer
    #[arg(long)]
    pub new_token: bool,
}

impl WebArgs {
    /// Returns whether a page that another process serves is as good as one of this process.
    pub fn joins(&self) -> bool {
        let own = self.open || self.new_token || self.port.is_some() || self.public_url.is_some();
        self.pair && !own
    }
}
