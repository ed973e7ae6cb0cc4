//! `web`: the plans here as a page in a browser of this machine. It works beside a daemon of another process and with none; its
//! end changes nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write, read_to_string};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::Context;
use axum::Router;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{
    Access, App, CommandStart, Ended, Exit, Failure, Output, Result, WebArgs, complain, unless,
};
use crate::own_files;
use crate::serve::ServedTools;
use crate::tools::{Dialect, Toolbox};
use crate::volumes::TokenFile;
use crate::web::{self, Gate, Parts, WebState};
use crate::wire::{Problem, quoted};

/// The port, if it is free.
const PORT: u16 = 7420;

/// Ports that are tried when the usual one is taken: one for each folder that a person has open.
const TRIED: u16 = 100;

/// The most bytes of a port that another process wrote.
const LONGEST_PORT: u64 = 8;

/// How the address of a page of this machine begins.
const LOCAL: &str = "http://127.0.0.1:";

/// The name under which what clients of the tools do is recorded if they give none.
const BY: &str = "mcp";

/// The page, ready to be served.
struct ReadyPage {
    listener: TcpListener,
    gate: Gate,
    router: Router,
    /// Where a browser finds it, with the token.
    address: String,
    token: TokenFile,
    /// Says as long as it is open that the page is served.
    place: Option<File>,
    /// For the file that leads a browser there.
    folder: PathBuf,
}

/// Serves the page until a signal comes.
pub async fn web(args: WebArgs, start: &CommandStart, mut ended: Ended) -> Result<Exit> {
    let out = Output::stdout(&start.environment);
    let opened = async {
        let app = App::open(start, Access::Control).await?;
        app.quiet()?;
        let token = token_file(&app, args.read_only);
        if let (true, Some(place)) = (args.joins(), served_place(&token)) {
            out.line(&code_for(&token, &place)?)?;
            return Ok(None);
        }
        app.make_store().await?;
        ReadyPage::new(app, &args, Said::ToPerson).await.map(Some)
    };
    let Some(page) = Box::pin(unless(&mut ended, "nothing was served", opened)).await? else {
        return Ok(Exit::Done);
    };
    out.line(&page.address)?;
    if args.pair {
        out.line(&code_for(&page.token, Said::ToLog.of(&page.address))?)?;
    }
    let _opened = match args.open && out.terminal {
        true => open_browser(&page.address, &page.folder),
        false => None,
    };
    Ok(Box::pin(page.serve(ended)).await)
}

/// To whom the address of a page is said.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    ToPerson,
    /// The log of a daemon in the background lies where agents see it: it has no token.
    ToLog,
}

impl Said {
    fn of(self, address: &str) -> &str {
        match self {
            Self::ToPerson => address,
            Self::ToLog => address.split('#').next().unwrap_or_default(),
        }
    }
}

/// Serves the page beside a daemon of this process, if that is wanted, as long as what is returned lives, and says where. If it is
/// impossible, the daemon works without it.
///
/// # Errors
/// The store cannot be opened.
pub async fn beside(
    wanted: bool,
    said: Said,
    start: &CommandStart,
    beside: &App,
) -> Result<JoinSet<()>> {
    let mut served = JoinSet::new();
    if !wanted {
        return Ok(served);
    }
    let store = beside.store().await?.clone();
    let page = async {
        let mut app = App::open(start, Access::Control).await?;
        app.use_store(store);
        ReadyPage::new(app, &WebArgs::default(), said).await
    };
    match Box::pin(page).await {
        Ok(page) => {
            complain!("the page is at {}", said.of(&page.address));
            served.spawn(page.serve(std::future::pending()));
        }
        Err(failure) => failure.complain("the page is not served"),
    }
    Ok(served)
}

impl ReadyPage {
    /// Takes a port and the token.
    ///
    /// # Errors
    /// The port is in use, or the token cannot be kept.
    async fn new(mut app: App, args: &WebArgs, told: Said) -> Result<Self> {
        let store = app.store().await?.clone();
        let token_file = token_file(&app, args.read_only);
        let or = "`--new-token`: another one is made";
        let token = token(&token_file, args.new_token, or)?;
        let goals = app.goal_settings().await;
        let listener = listen(args.port).await?;
        let port = listener.local_addr()?.port();
        let place = match &args.public_url {
            Some(public) => public.origin().to_owned(),
            None => format!("{LOCAL}{port}"),
        };
        let (address, shown) = (format!("{place}/#token={token}"), place);
        let replaced = move |token: &str| {
            let said = "! the token was part of an address and is replaced; the page is now at";
            let address = format!("{shown}/#token={token}");
            complain!("{said} {}", told.of(&address));
        };
        let gate = Gate::new(token_file.clone(), port, replaced);
        let tools = ServedTools {
            toolbox: Toolbox::new(store.clone(), &app.config, BY),
            dialects: vec![Dialect::Tasks],
            volumes: app.volumes.clone(),
            program: app.program.to_string(),
        };
        let folder = app.config.home().folder().to_owned();
        let state = WebState::new(Parts {
            store,
            goals: goals.map_err(|failure| failure.problem(Problem::new)),
            volumes: app.volumes,
            config: app.config,
            clock: app.clock,
            program: app.program,
            token: token_file.clone(),
            read_only: args.read_only,
        });
        Ok(Self {
            listener,
            gate: gate.with_page(args.read_only, args.public_url.clone()),
            router: web::page(state, tools.into_http()),
            address,
            place: keep_place(&token_file, port),
            token: token_file,
            folder,
        })
    }

    async fn serve<T>(self, ended: impl Future<Output = T>) -> T {
        let _place = self.place;
        web::serve(self.listener, self.gate, self.router, ended).await
    }
}

/// Opens the page in the browser, by a file that leads there: all users of this machine can read the arguments of a program. The
/// file is removed when it is dropped.
fn open_browser(address: &str, folder: &Path) -> Option<NamedTempFile> {
    let opener = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    let opened = || {
        let mut file = tempfile::Builder::new();
        let mut file = file.prefix(".web-").suffix(".html").tempfile_in(folder)?;
        write!(
            file,
            "<!doctype html><title>plan-agent</title><meta http-equiv=\"refresh\" content=\"0;url={address}\">"
        )?;
        let mut program = Command::new(opener);
        let program = program.arg(file.path()).stdin(Stdio::null());
        let program = program.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = program.spawn()?;
        std::thread::spawn(move || child.wait());
        Ok::<_, std::io::Error>(file)
    };
    let opened = opened();
    if let Err(error) = &opened {
        complain!("! no browser was opened: `{opener}`: {error}");
    }
    opened.ok()
}

/// Returns the file of the token, beside the folder that agents see. A page that only shows has a token of its own.
fn token_file(app: &App, read_only: bool) -> TokenFile {
    let name = match read_only {
        true => "web-token-read-only",
        false => "web-token",
    };
    TokenFile::at(app.config.home().folder().join(name))
}

/// Returns the token; `or` is the other way out where that cannot be read or kept.
///
/// # Errors
/// It cannot be.
pub fn token(file: &TokenFile, new: bool, or: &str) -> Result<String> {
    let token = if new { file.renew() } else { file.token() };
    token.map_err(|error| {
        let path = quoted(&file.path().to_string_lossy());
        Failure::failed(error).hint(format!("`chmod 600 {path}`, or {or}"))
    })
}

/// Makes a code, and says where it is typed.
fn code_for(token: &TokenFile, place: &str) -> Result<String> {
    let code = token.pairing_code().make(SystemTime::now());
    let code = code.map_err(Failure::failed)?;
    let or_there = match place.starts_with(LOCAL) {
        true => ", or where your tunnel or proxy shows this page,",
        false => "",
    };
    let within = "within five minutes; it is good once";
    Ok(format!("type {code} at {place}{or_there} {within}"))
}

/// Writes at which port the page is, and locks that as long as the file is open; `None` if another process serves it, too.
fn keep_place(token: &TokenFile, port: u16) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.truncate(false).mode(0o600);
    let mut file = own_files::file(&mut options, &token.beside("page")).ok()?;
    let kept = own_files::lock(&file).ok()?;
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.write_all(port.to_string().as_bytes())
    };
    (kept && write(&mut file).is_ok()).then_some(file)
}

/// Says where another process serves the page.
pub fn where_served(app: &App) -> String {
    let file = token_file(app, false);
    match served_place(&file).map(|place| (place, file.token())) {
        Some((place, Ok(token))) => format!("the page is at {place}#token={token}"),
        _ => format!("the page is not served: `{} web` does it", app.program),
    }
}

/// Returns where another process serves the page. An agent can write the file, so nothing but a port of this machine counts.
fn served_place(token: &TokenFile) -> Option<String> {
    let file = own_files::file(OpenOptions::new().read(true), &token.beside("page")).ok()?;
    let Err(TryLockError::WouldBlock) = file.try_lock_shared() else {
        return None;
    };
    let port = read_to_string(file.take(LONGEST_PORT)).ok()?.parse::<u16>();
    Some(format!("{LOCAL}{}/", port.ok()?))
}

/// Listens on this machine: at the port that is named, else at the usual one or the next that is free.
async fn listen(named: Option<u16>) -> Result<TcpListener> {
    let ports = named.map_or(PORT..=PORT + TRIED, |port| port..=port);
    let last = *ports.end();
    let places = ports.map(|port| (Ipv4Addr::LOCALHOST, port).into());
    let places: Vec<SocketAddr> = places.collect();
    let bound = TcpListener::bind(&*places).await;
    let bound = bound.with_context(|| format!("failed to listen at port {last}"));
    bound.map_err(|error| Failure::failed(error).hint("`--port 0` takes any that is free"))
}
