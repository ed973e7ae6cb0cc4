//! `service`: a unit of the person's systemd that starts the daemon of a folder at login. A unit that is not marked as
//! plan-agent's is left as it is.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::process::Command;
use tokio::time::timeout;

use super::isolation::folder_name;
use super::{CommandStart, Failure, Output, Result, ServiceAct, complain};
use crate::bounded_read;
use crate::config::Home;
use crate::own_files;
use crate::wire::{joined, one_line};

/// The beginning of every unit that this program wrote.
const MARK: &str = "# This unit is plan-agent's: `plan-agent service remove` removes it.\n";

/// A unit is far smaller.
const MAX_UNIT: usize = 64 * 1024;

/// Names the folder for states of programs, where it is not the usual one.
const STATES: &str = "XDG_STATE_HOME";

/// A manager that has not answered by then is not there, as in a container.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Installs, removes or shows the unit of the project of the current folder.
pub async fn service(act: ServiceAct, start: &CommandStart, output: Output) -> Result {
    let here = std::env::current_dir().context("failed to find the current folder")?;
    let folder = Home::find(&here).outer().to_owned();
    let name = &format!("plan-agent-{}.service", folder_name(&folder));
    let unit = units(start)?.join(name);
    let (path, there) = (unit.display(), read(&unit)?);
    if act != ServiceAct::Status && there.as_ref().is_some_and(|text| !text.starts_with(MARK)) {
        let error = anyhow!("`{path}` was not written by plan-agent, and stays as it is");
        return Err(Failure::failed(error).hint("move it away if you do not need it"));
    }
    match act {
        ServiceAct::Install => {
            write(&unit, &text(&folder, start)?)
                .with_context(|| format!("failed to write `{path}`"))?;
            output.line(&format!("`{path}` starts the daemon at login"))?;
            let names = start.environment.names();
            let set = names.filter(|name| name.starts_with("PLAN_AGENT_"));
            let set = joined(set.map(|name| format!("`{name}`")), ", ");
            if !set.is_empty() {
                complain!("! the daemon at login gets no {set}: config.toml is read there, too");
            }
            let commands = ["daemon-reload".to_owned(), format!("enable {name}")];
            match systemctl(&commands, output).await? {
                true => output.line(&format!("`systemctl --user start {name}` starts it now")),
                false => Ok(()),
            }
        }
        ServiceAct::Remove if there.is_none() => output.line(&format!("there is no `{path}`")),
        ServiceAct::Remove => {
            // While the file is there, systemd knows what is to be stopped.
            systemctl(&[format!("disable --now {name}")], output).await?;
            fs::remove_file(&unit).with_context(|| format!("failed to remove `{path}`"))?;
            output.line(&format!("`{path}` is removed"))?;
            let commands = ["daemon-reload".to_owned()];
            systemctl(&commands, output).await.map(drop)
        }
        ServiceAct::Status => {
            let state = match &there {
                None => "is not installed",
                Some(text) if text.starts_with(MARK) => "is installed",
                Some(_) => "was not written by plan-agent",
            };
            output.line(&format!("`{path}` {state}"))?;
            let word = ask(&format!("is-active {name}")).await;
            let word = word.unwrap_or_else(|| "systemd does not answer".to_owned());
            output.line(&format!("{name}: {word}"))
        }
    }
}

/// Returns the folder of the person's units.
fn units(start: &CommandStart) -> Result<PathBuf> {
    let configs = start.environment.base_folder("XDG_CONFIG_HOME", ".config");
    let configs = configs.ok_or_else(|| Failure::usage(anyhow!("HOME is not set")))?;
    Ok(configs.join("systemd/user"))
}

/// Returns what stands there; a link or a folder is nothing of plan-agent's.
fn read(unit: &Path) -> Result<Option<String>> {
    let text = match fs::symlink_metadata(unit) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(found) if !found.is_file() => Ok(String::new()),
        _ => bounded_read::read_file(unit, MAX_UNIT),
    };
    Ok(Some(text.with_context(|| {
        format!("failed to read `{}`", unit.display())
    })?))
}

/// Writes it beside its place and renames it: systemd never reads half a unit.
fn write(unit: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(unit.parent().unwrap_or(Path::new("/")))?;
    own_files::replace(unit, text.as_bytes())
}

/// Returns the text of the unit. It holds no key: who can read it is not decided here.
fn text(folder: &Path, start: &CommandStart) -> Result<String> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let program = word(&program)?.replace("$$", "$");
    let mut words = vec![program, "-C".into(), word(folder)?];
    if let Some(file) = &start.file {
        let file = std::path::absolute(file).context("failed to find the configuration")?;
        words.extend(["--config".to_owned(), word(&file)?]);
    }
    // What the person has confirmed is there.
    let states = match start.environment.get(STATES) {
        None => String::new(),
        Some(folder) => {
            let states = word(Path::new(&format!("{STATES}={folder}")))?;
            format!("Environment={}\n", states.replace("$$", "$"))
        }
    };
    let (command, shown) = (words.join(" "), folder.display().to_string());
    let shown = one_line(&shown, 200).replace('%', "%%");
    Ok(format!(
        "{MARK}# Keys belong into no unit. Write them into a file of mode 600, and name it by `systemctl --user edit`:\n\
         # [Service]\n# EnvironmentFile=/path/of/that/file\n\n\
         [Unit]\nDescription=plan-agent in {shown}\n\n\
         [Service]\n{states}ExecStart={command} daemon\nRestart=on-failure\nRestartSec=30\nRestartPreventExitStatus=2\n\n\
         [Install]\nWantedBy=default.target\n"
    ))
}

/// Returns a path as a word of a command in a unit.
fn word(path: &Path) -> Result<String> {
    let refused = || Failure::usage(anyhow!("`{}` is no path for a unit", path.display()));
    let text = path.to_str();
    let text = text.filter(|text| !text.contains(char::is_control));
    let mut text = text.ok_or_else(refused)?.to_owned();
    for (special, escaped) in [("\\", "\\\\"), ("\"", "\\\""), ("%", "%%"), ("$", "$$")] {
        text = text.replace(special, escaped);
    }
    Ok(format!("\"{text}\""))
}

/// Has systemd carry commands out; if it does not, says what to type. Returns whether it did.
async fn systemctl(commands: &[String], output: Output) -> Result<bool> {
    for (place, command) in commands.iter().enumerate() {
        if ask(command).await.is_none() {
            let left = commands[place..].iter();
            let left = left.map(|command| format!("systemctl --user {command}"));
            let left = joined(left, " && ");
            output.line(&format!("systemd did not take it. Type: `{left}`"))?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the first line of what systemd says; `None` if it does not answer, or refuses.
async fn ask(command: &str) -> Option<String> {
    let mut program = Command::new("systemctl");
    let program = program.arg("--user").args(command.split(' '));
    let program = program.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(ANSWERS_WITHIN, program.output()).await.ok()?.ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let word = one_line(said.lines().next().unwrap_or_default(), 100);
    // Of a unit that is not active it says so, and exits with a code of its own.
    let tells = command.starts_with("is-active") && !word.is_empty();
    (output.status.success() || tells).then_some(word)
}
