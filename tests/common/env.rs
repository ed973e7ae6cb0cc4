//! A separate folder for a test, in which the real program runs with only `PATH` in its environment, and with a tenth of its
//! usual internal waits.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use plan_agent::cli::trust_folder;
use plan_agent::config::Environment;
use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionread;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tempfile::TempDir;

/// Longer than any wait here takes on a busy machine; a test that reaches it has failed.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// The programs of the coding agents that the product knows.
pub const AGENTS: [&str; 5] = ["claude", "codex", "gemini", "opencode", "aider"];

/// A folder, and the environment that the program gets in it.
pub struct TestEnv {
    folder: TempDir,
    variables: Vec<(String, String)>,
    /// The replacements for folders of the PATH.
    programs: TempDir,
    /// The columns of the terminals that are made.
    columns: u16,
    /// What the program keeps for the person, outside of every project.
    _states: TempDir,
    limit: Duration,
    /// Whether the person confirms every configuration of the folder before it is used.
    confirms: bool,
}

/// The result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    /// `None` when a signal ended it.
    pub code: Option<i32>,
}

/// The program while it runs; killed when dropped.
pub struct Running {
    pub child: Child,
}

/// A terminal, with the person's side of it.
pub struct Terminal {
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Notified when the terminal has been closed.
    ended: mpsc::Receiver<()>,
}

impl TestEnv {
    /// Makes an empty folder. The coding agents of this machine are hidden, so that no test depends on which are installed.
    pub fn new() -> Self {
        let programs = tempfile::tempdir().unwrap();
        let path = std::env::var("PATH").expect("tests have a PATH");
        let shown = std::env::split_paths(&path)
            .enumerate()
            .map(|(index, folder)| without_agents(folder, &programs.path().join(index.to_string())))
            .collect::<Vec<_>>();
        let path = std::env::join_paths(shown).unwrap().into_string().unwrap();
        let states = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        // As `init` makes it: everything lies in the folder itself.
        fs::create_dir(folder.path().join(".plan-agent")).unwrap();
        fs::write(folder.path().join(".plan-agent/layout"), "top-level\n").unwrap();
        let state_folder = states.path().to_str().unwrap().to_owned();
        Self {
            folder,
            variables: vec![
                ("PATH".to_owned(), path),
                ("XDG_STATE_HOME".to_owned(), state_folder),
                ("PLAN_AGENT_TIMING".to_owned(), "0.1".to_owned()),
                ("TZ".to_owned(), "UTC".to_owned()),
            ],
            programs,
            columns: 80,
            _states: states,
            limit: DEADLINE,
            confirms: true,
        }
    }

    /// Has the person confirm nothing from now on.
    pub fn confirm_nothing(&mut self) {
        self.confirms = false;
    }

    /// Confirms what is configured in the folder as it is now.
    pub fn confirm(&self) {
        let environment: Environment = self.variables.iter().cloned().collect();
        let folders = [self.path(""), self.path(".plan-agent")];
        for folder in folders {
            if ["config.toml", "prompts"]
                .iter()
                .any(|name| folder.join(name).exists())
            {
                // What is wrong with it is shown by the program.
                trust_folder(&folder, &environment).ok();
            }
        }
    }

    /// Increases the wait for the program: some real agents take a while to start on a busy machine.
    pub fn be_patient(&mut self) {
        self.limit = 5 * DEADLINE;
    }

    /// Sets the width of the terminals that follow.
    pub fn widen(&mut self, columns: u16) {
        self.columns = columns;
    }

    /// Sets a variable for the runs that follow.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Makes a program visible under a name, before all others.
    pub fn show(&mut self, name: &str, program: &Path) {
        let folder = self.programs.path().join("shown");
        if fs::create_dir_all(&folder).is_ok() && !self.path_begins_with(&folder) {
            let path = self.variable("PATH").to_owned();
            self.set("PATH", &format!("{}:{path}", folder.display()));
        }
        symlink(program, folder.join(name)).unwrap();
    }

    /// Makes a shell script visible as a program, before all others.
    pub fn show_script(&mut self, name: &str, script: &str) {
        let file = self.programs.path().join(format!("{name}.sh"));
        fs::write(&file, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        self.show(name, &file);
    }

    /// Preloads a shared library, compiled from a C source, in the runs that follow. The error says why that is not possible
    /// here.
    pub fn preload(&mut self, name: &str, source: &str) -> Result<(), String> {
        let (file, library) = (format!("{name}.c"), self.path(format!("{name}.so")));
        self.write(&file, source);
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &self.path(file)])
            .output()
            .map_err(|error| format!("no `cc`: {error}"))?;
        if !built.status.success() {
            return Err(String::from_utf8_lossy(&built.stderr).into_owned());
        }
        self.set("LD_PRELOAD", library.to_str().unwrap());
        Ok(())
    }

    fn path_begins_with(&self, folder: &Path) -> bool {
        self.variable("PATH")
            .starts_with(&*folder.to_string_lossy())
    }

    pub fn variable(&self, name: &str) -> &str {
        let mut variables = self.variables.iter();
        variables
            .find(|(other, _)| other == name)
            .map_or("", |(_, value)| value)
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and creates its folders.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns the program with its arguments, to be run in the folder.
    pub fn command(&self, args: impl Args) -> Command {
        if self.confirms {
            self.confirm();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_plan-agent"));
        command
            .args(args.words())
            .current_dir(self.folder.path())
            .env_clear()
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Returns the program as started by another one, whose own arguments come first.
    pub fn command_under(&self, starter: &[&str], args: impl Args) -> Command {
        if self.confirms {
            self.confirm();
        }
        let mut command = Command::new(starter[0]);
        command
            .args(&starter[1..])
            .arg(env!("CARGO_BIN_EXE_plan-agent"))
            .args(args.words())
            .current_dir(self.folder.path())
            .env_clear()
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: impl Args) -> Ran {
        self.run_command(self.command(args))
    }

    /// Runs the program to its end, which must have this exit code.
    #[track_caller]
    pub fn exits(&self, code: i32, args: impl Args) -> Ran {
        self.run(args).exits(code)
    }

    /// Runs the program to its end, which must have this exit code, and these parts on the standard error output.
    #[track_caller]
    pub fn refuses(&self, code: i32, args: impl Args, parts: impl Parts) {
        self.exits(code, args).has_stderr(parts);
    }

    /// Runs the program to its end, as started by another one.
    pub fn run_under(&self, starter: &[&str], args: impl Args) -> Ran {
        self.run_command(self.command_under(starter, args))
    }

    /// Starts the program without output, as started by another one; it is killed when dropped.
    pub fn start_under(&self, starter: &[&str], args: impl Args) -> Running {
        let mut command = self.command_under(starter, args);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Running {
            child: child.unwrap(),
        }
    }

    fn run_command(&self, mut command: Command) -> Ran {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = read_all(child.stdout.take().unwrap());
        let stderr = read_all(child.stderr.take().unwrap());
        let mut running = Running { child };
        let code = running.wait_for(self.limit).code();
        Ran {
            stdout: stdout.recv_timeout(DEADLINE).unwrap(),
            stderr: stderr.recv_timeout(DEADLINE).unwrap(),
            code,
        }
    }

    /// Runs the program to its end with its output on a terminal of 80 columns, without colours.
    pub fn run_on_terminal(&self, args: impl Args) -> Ran {
        let (mut running, terminal) = self.on_terminal(self.command(args), |_| Stdio::null());
        let code = running.wait().code();
        let shown = terminal.ended.recv_timeout(DEADLINE);
        shown.unwrap();
        Ran {
            stdout: terminal.shown(),
            stderr: String::new(),
            code,
        }
    }

    /// Starts the program for a person at a terminal.
    pub fn start_on_terminal(&self, args: impl Args) -> (Running, Terminal) {
        self.on_terminal(self.command(args), |terminal| terminal.into())
    }

    /// Starts an interactive shell on a terminal of its own, where `$1` is the program.
    pub fn start_shell_on_terminal(&self) -> (Running, Terminal) {
        let shell = self.command_under(&["setsid", "--ctty", "sh", "-i", "-s"], "");
        self.on_terminal(shell, |terminal| terminal.into())
    }

    fn on_terminal(
        &self,
        mut command: Command,
        stdin: impl FnOnce(File) -> Stdio,
    ) -> (Running, Terminal) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = Path::new(name.to_str().unwrap());
        let terminal = File::options().read(true).write(true).open(path).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: self.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let child = command
            .env("NO_COLOR", "1")
            .stdin(stdin(terminal.try_clone().unwrap()))
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal)
            .spawn()
            .unwrap();
        (Running { child }, Terminal::of(master.into()))
    }

    /// Starts the program and lets it run; its output is dropped.
    pub fn start(&self, args: impl Args) -> Running {
        self.spawn(args, Stdio::null(), Stdio::null())
    }

    /// Starts the program with this output.
    pub fn spawn(&self, args: impl Args, out: impl Into<Stdio>, err: impl Into<Stdio>) -> Running {
        let mut command = self.command(args);
        let child = command.stdout(out).stderr(err).spawn().unwrap();
        Running { child }
    }

    /// Returns a text in which everything that differs from run to run is replaced: the folder, ids, moments.
    pub fn normal(&self, text: &str) -> String {
        let folder = self.folder.path();
        let real = folder.canonicalize().unwrap();
        let mut text = text
            .replace(&real.display().to_string(), "[FOLDER]")
            .replace(&folder.display().to_string(), "[FOLDER]");
        // Zeros at the end of a fraction are not written.
        for digits in 1..=6 {
            let shape = format!("dddd-dd-ddTdd:dd:dd.{}Z", "d".repeat(digits));
            text = replace_shape(&text, &shape, "[TIME]");
        }
        for (shape, stand_in) in [
            ("hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh", "[UUID]"),
            ("dddd-dd-ddTdd:dd:ddZ", "[TIME]"),
            ("dddd-dd-dd dd:dd:dd UTC", "[TIME]"),
            ("dddd-dd-dd dd:dd:dd", "[TIME]"),
        ] {
            text = replace_shape(&text, shape, stand_in);
        }
        text
    }
}

/// The arguments of a program: its words with spaces between them, those with spaces of their own in `'…'`; or a list.
pub trait Args {
    fn words(&self) -> Vec<&str>;
}

impl Args for str {
    fn words(&self) -> Vec<&str> {
        let parts = self.split('\'').enumerate();
        let words = parts.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        words.collect()
    }
}

impl Args for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Args for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Args for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Args for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

impl<T: Args + ?Sized> Args for &T {
    fn words(&self) -> Vec<&str> {
        (**self).words()
    }
}

impl Ran {
    /// Checks the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Checks that the standard output has these parts.
    #[track_caller]
    pub fn has_stdout(&self, parts: impl Parts) {
        has(&self.stdout, parts);
    }

    /// Checks that the standard error output has these parts.
    #[track_caller]
    pub fn has_stderr(&self, parts: impl Parts) {
        has(&self.stderr, parts);
    }

    /// Checks that the standard output has none of these parts.
    #[track_caller]
    pub fn lacks_stdout(&self, parts: impl Parts) {
        lacks(&self.stdout, parts);
    }

    /// Checks that the standard error output has none of these parts.
    #[track_caller]
    pub fn lacks_stderr(&self, parts: impl Parts) {
        lacks(&self.stderr, parts);
    }

    /// Returns all output that a person sees, for a snapshot.
    pub fn seen(&self, env: &TestEnv) -> String {
        let code = self
            .code
            .map_or("a signal".to_owned(), |code| code.to_string());
        let text = format!("{}{}exit {code}", self.stdout, self.stderr);
        env.normal(&text)
    }
}

impl Terminal {
    fn of(master: File) -> Self {
        let (shown, mut screen) = (
            Arc::<Mutex<Vec<u8>>>::default(),
            master.try_clone().unwrap(),
        );
        let (done, ended) = mpsc::channel();
        let all = Arc::clone(&shown);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal without writers ends with an error.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                all.lock().unwrap().extend(&bytes[..count]);
            }
            // The receiver is gone when the test has failed.
            let (Ok(()) | Err(_)) = done.send(());
        });
        Self {
            keys: master,
            shown,
            ended,
        }
    }

    /// Returns all output so far.
    pub fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap();
        String::from_utf8_lossy(&shown).replace("\r\n", "\n")
    }

    /// Waits until a text is shown, and then types a line.
    pub fn answer(&mut self, shown: &str, line: &str) {
        wait_until(&format!("`{shown}` is shown"), || {
            self.shown().contains(shown)
        });
        writeln!(self.keys, "{line}").unwrap();
    }

    /// Waits until a text is shown.
    pub fn await_shown(&self, shown: &str) {
        wait_until(&format!("`{shown}` is shown"), || {
            self.shown().contains(shown)
        });
    }

    /// Waits until a text is shown below another one: what is typed is lost before there is a question.
    pub fn await_below(&self, above: &str, text: &str) {
        wait_until(&format!("`{text}` is shown below `{above}`"), || {
            let shown = self.shown();
            let below = shown.split_once(above);
            below.is_some_and(|(_, below)| below.contains(text))
        });
    }

    /// Returns whether the terminal shows keys that are typed.
    pub fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.keys).unwrap().local_modes;
        modes.contains(LocalModes::ECHO)
    }

    /// Types a line, and waits until the terminal has taken it in: it decides then whether to show it.
    pub fn type_unread(&mut self, line: &str) {
        writeln!(self.keys, "{line}").unwrap();
        let name = ptsname(&self.keys, Vec::new()).unwrap();
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
        let other = rustix::fs::open(&*name, flags, Mode::empty()).unwrap();
        wait_until("the keys have arrived", || {
            ioctl_fionread(&other).unwrap() > line.len() as u64
        });
    }

    /// Types keys at once, as they are.
    pub fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

/// A failed test shows what stood on its terminals last.
impl Drop for Terminal {
    fn drop(&mut self) {
        if thread::panicking() {
            let shown = self.shown();
            let last = shown.len().saturating_sub(8000);
            row(shown.get(last..).unwrap_or(&shown));
        }
    }
}

impl Running {
    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        self.wait_for(DEADLINE)
    }

    fn wait_for(&mut self, most: Duration) -> ExitStatus {
        let mut status = None;
        wait_at_most(most, "the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error only means that it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits until a condition holds, and fails the test after the deadline.
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_at_most(DEADLINE, what, condition);
}

/// Waits until a condition holds; for the few tests in which [`DEADLINE`] would be too short or too long.
#[track_caller]
pub fn wait_at_most(most: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + most;
    loop {
        let looked = Instant::now();
        if condition() {
            return;
        }
        assert!(Instant::now() < end, "waited in vain until {what}");
        // A check may start a program, and must not take the machine away from what the test waits for.
        thread::sleep(Duration::from_millis(5).max(2 * looked.elapsed()));
    }
}

/// Returns how often a test repeats something: `few` times in `cargo test`, `many` times in `.ci/long`.
pub fn times<T>(few: T, many: T) -> T {
    match std::env::var_os("PLAN_AGENT_TEST_LONG") {
        Some(_) => many,
        None => few,
    }
}

/// Returns whether a process is alive and no zombie.
pub fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    state.is_some_and(|state| state != b'Z')
}

/// Returns the most memory that a process has had, in kilobytes.
pub fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kilobytes.unwrap_or_default()
}

/// Waits until a process reads no more of its input. What it reads of other files meanwhile is little.
pub fn await_standstill(pid: u32) {
    const LITTLE: u64 = 4096;
    let read = || {
        let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let end = Instant::now() + DEADLINE;
    let (mut last, mut looks) = (read(), 0);
    while looks < 20 {
        assert!(Instant::now() < end, "process {pid} reads on");
        thread::sleep(Duration::from_millis(50));
        let now = read();
        looks = if now > last + LITTLE { 0 } else { looks + 1 };
        last = now;
    }
}

/// Checks that a text has a part, or each of several.
#[track_caller]
pub fn has(text: impl AsRef<str>, parts: impl Parts) {
    let text = text.as_ref();
    for part in parts.each() {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}

/// Checks how a text begins.
#[track_caller]
pub fn begins(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(
        text.starts_with(part),
        "it does not begin with `{part}`: {text}"
    );
}

/// Checks that a text does not have a part, or none of several.
#[track_caller]
pub fn lacks(text: impl AsRef<str>, parts: impl Parts) {
    let text = text.as_ref();
    for part in parts.each() {
        assert!(!text.contains(part), "`{part}` is in it: {text}");
    }
}

/// A part of a text, or several.
pub trait Parts {
    fn each(&self) -> Vec<&str>;
}

impl Parts for str {
    fn each(&self) -> Vec<&str> {
        vec![self]
    }
}

impl Parts for String {
    fn each(&self) -> Vec<&str> {
        vec![self]
    }
}

impl<S: AsRef<str>, const N: usize> Parts for [S; N] {
    fn each(&self) -> Vec<&str> {
        self.iter().map(AsRef::as_ref).collect()
    }
}

impl<T: Parts + ?Sized> Parts for &T {
    fn each(&self) -> Vec<&str> {
        (**self).each()
    }
}

/// Prints that a test checks nothing here, and why.
#[expect(clippy::print_stdout, reason = "it is shown with the test")]
pub fn skip(why: &str) {
    println!("skipped: {why}");
}

/// Prints the row of a table that a test is about to check, so that a failure shows it.
#[expect(clippy::print_stdout, reason = "it is shown if the test fails")]
pub fn row(row: impl std::fmt::Debug) {
    println!("row: {row:?}");
}

/// Reads the first line of a stream and closes it, as `head -n 1` does.
pub fn first_line(stream: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// Returns a folder of programs, or one next to it with the same programs except the coding agents.
fn without_agents(folder: PathBuf, beside: &Path) -> PathBuf {
    if !AGENTS.iter().any(|agent| folder.join(agent).exists()) {
        return folder;
    }
    fs::create_dir_all(beside).unwrap();
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let name = entry.file_name();
        if !AGENTS.iter().any(|agent| *name == **agent) {
            symlink(entry.path(), beside.join(name)).unwrap();
        }
    }
    beside.to_owned()
}

fn read_all(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (done, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A terminal without writers ends with an error.
        drop(stream.read_to_end(&mut bytes));
        // Nobody waits for it any more when the test has failed.
        drop(done.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    text
}

/// Replaces text of the form `shape`, in which `d` is a digit and `h` a hexadecimal one.
fn replace_shape(text: &str, shape: &str, stand_in: &str) -> String {
    let fits = |window: &[u8]| {
        window
            .iter()
            .zip(shape.bytes())
            .all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                b'h' => byte.is_ascii_hexdigit(),
                exact => *byte == exact,
            })
    };
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.as_bytes().windows(shape.len()).position(fits) {
        replaced.push_str(&rest[..at]);
        replaced.push_str(stand_in);
        rest = &rest[at + shape.len()..];
    }
    replaced + rest
}
