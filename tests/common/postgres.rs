//! A PostgreSQL server of the tests' own: one for each test process, made when a test first needs it, in a folder for temporary
//! files. It ends with the process, also where that is killed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use postgres::{Client, NoTls};

use super::env::{skip, wait_until};

/// The user of the database.
pub const USER: &str = "planner";

/// Starts and ends the server as it is told; ends it, and removes everything, with whoever tells.
const KEEPER: &str = r#"
trap '' INT TERM HUP
while read -r word; do
  case $word in
    start) "$@" > log 2>&1 < /dev/null & pid=$! ;;
    stop) kill -QUIT "$pid"; wait "$pid"; echo stopped ;;
  esac
done
kill -QUIT "$pid"
wait "$pid"
cd / && rm -rf "$OLDPWD"
"#;

/// A server in a folder.
pub struct Cluster {
    port: u16,
    tell: ChildStdin,
    told: BufReader<ChildStdout>,
    _keeper: Child,
}

impl Cluster {
    /// Makes and starts a server with more settings, and files that its folder gets first. The error says why that is not
    /// possible here.
    pub fn make(settings: &[&str], encoding: &str, files: &[PathBuf]) -> Result<Self, String> {
        let owner = owner()?;
        let folder = tempfile::tempdir().unwrap().keep();
        let as_owner = |program: PathBuf| {
            let mut command = as_owner(Command::new(program))?;
            command.current_dir(&folder).env("LC_ALL", "C");
            Ok::<_, String>(command)
        };
        let own = |path: &Path| {
            if let Some((user, group)) = owner {
                chown(path, Some(user), Some(group)).unwrap();
            }
        };
        own(&folder);
        for file in files {
            let copy = folder.join(file.file_name().unwrap());
            std::fs::copy(file, &copy).unwrap();
            own(&copy);
        }
        let initdb = program("initdb").ok_or("there is no `initdb`")?;
        let mut made = as_owner(initdb)?;
        made.args([
            "-D",
            "data",
            "-U",
            USER,
            "-A",
            "trust",
            "--no-sync",
            "-E",
            encoding,
        ]);
        let made = made.output().map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        let port = free_port();
        let mut keeper = as_owner("sh".into())?;
        let server = program("postgres").ok_or("there is no `postgres`")?;
        keeper.args(["-c", KEEPER, "keeper"]).arg(server);
        let [port_text, sockets] = [port.to_string(), folder.display().to_string()];
        keeper.args([
            "-D",
            "data",
            "-h",
            "127.0.0.1",
            "-p",
            &port_text,
            "-k",
            &sockets,
        ]);
        for setting in ["fsync=off", "max_connections=200"].iter().chain(settings) {
            keeper.args(["-c", setting]);
        }
        // Not in the group that a terminal interrupts.
        keeper.process_group(0);
        let mut keeper = { keeper.stdin(Stdio::piped()).stdout(Stdio::piped()) }
            .spawn()
            .unwrap();
        let mut cluster = Self {
            port,
            tell: keeper.stdin.take().unwrap(),
            told: BufReader::new(keeper.stdout.take().unwrap()),
            _keeper: keeper,
        };
        cluster.start();
        Ok(cluster)
    }

    /// Starts the server, and waits until it answers.
    pub fn start(&mut self) {
        self.tell.write_all(b"start\n").unwrap();
        let url = self.url("postgres", "");
        wait_until("the server answers", || {
            Client::connect(&url, NoTls).is_ok()
        });
    }

    /// Ends the server as a loss of power would.
    pub fn stop(&mut self) {
        self.tell.write_all(b"stop\n").unwrap();
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        assert_eq!(line, "stopped\n");
    }

    /// Returns the address of a database, with options.
    pub fn url(&self, database: &str, options: &str) -> String {
        let port = self.port;
        format!("postgres://{USER}@127.0.0.1:{port}/{database}{options}")
    }

    /// Returns the address of a new schema.
    pub fn schema(&self) -> String {
        let schema = format!("test_{}", uuid::Uuid::new_v4().simple());
        let whole = self.url("postgres", "");
        run_sql(&whole, &format!("CREATE SCHEMA {schema}"));
        format!("{whole}?options=-c%20search_path%3D{schema}")
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Returns the address of an empty store; `None` where no server can be had.
pub fn empty_store() -> Option<String> {
    static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Cluster::make(&[], "UTF8", &[]));
    available(shared.as_ref()).map(Cluster::schema)
}

/// Returns a server of the test's own; `None` where none can be had.
pub fn own_cluster(settings: &[&str], encoding: &str, files: &[PathBuf]) -> Option<Cluster> {
    available(Cluster::make(settings, encoding, files))
}

fn available<T, E: std::fmt::Display>(made: Result<T, E>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(why) => {
            assert!(std::env::var("CI_STRICT").is_err(), "PostgreSQL: {why}");
            skip(&format!("PostgreSQL: {why}"));
            None
        }
    }
}

/// Returns a port of this machine that nobody listens on.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

/// Returns a program that runs as the owner of the server's folder.
pub fn as_owner(mut command: Command) -> Result<Command, String> {
    if let Some((user, group)) = owner()? {
        command.uid(user).gid(group);
    }
    Ok(command)
}

/// Runs statements on a separate connection.
pub fn run_sql(url: &str, statements: &str) {
    let mut client = Client::connect(url, NoTls).unwrap();
    client.batch_execute(statements).unwrap();
}

/// Returns a program of the server: of the `PATH`, else of the newest version in the folder of Debian.
fn program(name: &str) -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut installed: Vec<_> = installed.flatten().map(|entry| entry.path()).collect();
    installed.sort_by_key(version);
    let installed = installed.into_iter().rev().map(|folder| folder.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = std::env::split_paths(&path).collect();
    let mut folders = path.into_iter().chain(installed);
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.exists()))
}

/// Returns the user and the group that the server runs as, where it must not be this one: it refuses root.
pub fn owner() -> Result<Option<(u32, u32)>, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(name))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    let found = ids("postgres:").or_else(|| ids("nobody:"));
    found
        .map(Some)
        .ok_or_else(|| "there is no user `nobody`".to_owned())
}
