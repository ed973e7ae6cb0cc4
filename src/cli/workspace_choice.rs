//! Where the agents of a new plan work: the folder that a flag, the plan file or the configuration names, else the project, else
//! what a person says of the folder they are in, else a folder of plan-agent's own.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use rustix::fs::Access;
use rustix::io::Errno;

use super::{App, Exit, Failure, Result, can_ask, confirm, shown_from_here};
use crate::config::{self, Layout, leads_below};

impl App {
    /// Returns the absolute folder that agents are to work in: that of the flag, else the one that a plan file, named first,
    /// names. It is made later if it is one of plan-agent's own, or below the plan file that names it.
    ///
    /// # Errors
    /// Agents cannot work there, or it needs a person's word and there is no terminal.
    pub async fn choose_workspace(
        &mut self,
        flag: Option<&Path>,
        plan_file: Option<(&Path, &str)>,
    ) -> Result<String> {
        let path = match (flag, plan_file) {
            (Some(flag), _) => flag.to_owned(),
            (None, Some((file, named))) => return self.of_plan_file(file, named).await,
            (None, None) => {
                self.offer_folder().await?;
                self.config.workspace()
            }
        };
        let path = absolute(&path)?;
        self.usable(&path, true)?;
        Ok(real(path))
    }

    /// Asks whether agents may work in the folder that the person is in, where that is not clear: it is in no git project, and
    /// nothing of plan-agent's is there yet.
    async fn offer_folder(&mut self) -> Result {
        let home = self.config.home();
        let unclear =
            !home.made() && home.layout() == Layout::Apart && self.config.run.workspace.is_none();
        let here = home.outer();
        let files = || std::fs::read_dir(here).is_ok_and(|mut entries| entries.next().is_some());
        if !unclear || !can_ask() || !files() {
            return Ok(());
        }
        let question = format!(
            "`{}` is in no git project: what agents change there cannot be taken back.\nLet them work in it?",
            here.display()
        );
        if confirm(&question).await? {
            self.config.set_layout(Layout::Project);
        }
        Ok(())
    }

    /// Checks whether agents can work in a folder; one of plan-agent's own is made later.
    ///
    /// # Errors
    /// It does not exist, is no folder, or cannot be written to. Where the person `may_name` another one, that is said.
    pub fn usable(&self, workspace: &Path, may_name: bool) -> Result {
        let home = self.config.home();
        let in_own = home.layout() != Layout::TopLevel && workspace.starts_with(home.folder());
        if in_own && !workspace.starts_with(self.config.root()) {
            let error = anyhow!(
                "the workspace `{}` is plan-agent's own folder",
                workspace.display()
            );
            let hint = "leave `workspace` under [run] out: agents work in the project around it";
            return Err(Failure::usage(error).hint(hint));
        }
        // Looked up once: a worker that starts at the same moment may make it in between.
        let allowed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        let allowed = rustix::fs::access(workspace, allowed);
        let denied;
        let (why, hint) = match allowed {
            Err(Errno::NOENT | Errno::NOTDIR) if workspace.starts_with(self.config.root()) => {
                return Ok(());
            }
            Err(Errno::NOENT | Errno::NOTDIR) => ("does not exist", "make the folder"),
            _ if workspace.metadata().is_ok_and(|it| !it.is_dir()) => {
                ("is no folder", "put a folder there")
            }
            Ok(()) => return Ok(()),
            Err(error) => {
                denied = format!("cannot be written to: {}", std::io::Error::from(error));
                (denied.as_str(), "make it writable")
            }
        };
        let error = anyhow!("the workspace `{}` {why}", workspace.display());
        let other = match may_name {
            true => ", or name another one: --workspace DIR",
            false => "",
        };
        Err(Failure::usage(error).hint(format!("{hint}{other}")))
    }

    /// Returns the folder that a plan file means, if it lies below that file or a person confirms it: a plan file may be a
    /// stranger's.
    async fn of_plan_file(&self, file: &Path, named: &str) -> Result<String> {
        let around = absolute(file.parent().unwrap_or(Path::new("")))?;
        let named = Path::new(named);
        let path = around.join(named);
        let below = leads_below(&around, named);
        let shown = shown_from_here(&path);
        if below && !path.exists() {
            std::fs::create_dir_all(&path)
                .with_context(|| format!("failed to make the workspace `{shown}`"))
                .map_err(Failure::usage)?;
        }
        if !below {
            let file = file.display();
            let question =
                format!("`{file}` wants agents to work in `{shown}`, which is not below it.");
            if !can_ask() {
                let hint = "confirm it by naming it: --workspace DIR";
                return Err(Failure::new(anyhow!(question), Exit::Waiting).hint(hint));
            }
            if !confirm(&format!("{question}\nLet them?")).await? {
                let error = anyhow!("the workspace of `{file}` was not confirmed");
                return Err(Failure::usage(error).hint("name another one: --workspace DIR"));
            }
        }
        self.usable(&path, true)?;
        Ok(real(path.components().collect()))
    }
}

/// Returns a folder without links on the way there: plans that share it are to find the same name.
fn real(folder: PathBuf) -> String {
    let real = folder.canonicalize().unwrap_or(folder);
    real.display().to_string()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let absolute = config::absolute(path);
    Ok(absolute.with_context(|| format!("failed to find the folder `{}`", path.display()))?)
}
