//! What a plan goes on with: the agent, the team, the model and the rights that a person began it with. The plan holds them,
//! and a mark outside of every project says that a person named them here: what only stands in the plan's database may
//! come from an agent or from elsewhere, and runs nothing.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use sha2::{Digest, Sha256};

use super::args::{AgentArgs, CarryOut, FILES, TeamArgs};
use super::worker_pools::TeamWorkers;
use super::{App, Exit, Failure, Result, complain};
use crate::agents::Agent;
use crate::config::Planner;
use crate::own_files;
use crate::plan::{PlanHead, PlanId, ReviewPolicy, RunOptions};
use crate::wire::text::{one_line, quoted};

/// The folder with the marks, in the person's own.
const STARTED: &str = "started";

/// The most bytes of a mark: a line of 65 for each choice of options.
const MOST: u64 = 64 * 1024;

impl App {
    /// Takes up what a plan was begun with, as far as the command line and the environment say nothing else. Returns it with
    /// these.
    ///
    /// # Errors
    /// No person named it here; or it does not fit any more.
    pub async fn recall(&mut self, plan: &PlanId, how: &mut CarryOut) -> Result<RunOptions> {
        let options = self
            .read(plan, |plan, _| plan.head().options.clone())
            .await?;
        let Some(options) = options.map(|options| *options) else {
            return Ok(RunOptions::default());
        };
        if !self.is_confirmed(plan, &options) {
            // What is typed now is all that counts.
            return match how.agent.agent {
                Some(_) => Ok(RunOptions::default()),
                None => Err(self.unconfirmed_options(plan, &options)),
            };
        }
        if how.agent.agent.is_none() {
            how.agent.agent.clone_from(&options.agent);
            how.agent.argv.clone_from(&options.args);
            how.agent.allow_shell |= options.allow_shell;
        }
        if how.team.file.is_none() {
            how.team.file = options.team.as_ref().map(PathBuf::from);
            how.team.recalled = true;
        }
        let config = self.config.clone();
        self.config = config.recall(&options.settings, &self.environment)?;
        Ok(options)
    }

    /// Returns what a plan is carried out with, `before` being what it began with.
    pub fn options(
        &self,
        agent: &AgentArgs,
        team: &TeamArgs,
        planner: &Planner,
        before: &RunOptions,
    ) -> Result<RunOptions> {
        let absolute = |file: &PathBuf| {
            let path = std::path::absolute(file).context("failed to find the current folder")?;
            Ok::<_, Failure>(path.to_string_lossy().into_owned())
        };
        let settings = &before.settings;
        let mut args = agent.argv.clone();
        if let (Some("command"), Some(program)) = (agent.agent.as_deref(), args.first_mut())
            && program.contains('/')
        {
            // It goes on from other folders, too.
            *program = absolute(&PathBuf::from(&*program))?;
        }
        Ok(RunOptions {
            agent: agent.agent.clone().filter(|name| name != FILES),
            args,
            allow_shell: agent.allow_shell,
            team: team.file.as_ref().map(absolute).transpose()?,
            settings: (self.config).to_remember(settings, &self.environment, planner),
        })
    }

    /// Notes that a person began a plan with these options, or went on with them. Where this is not possible, it is said, and
    /// the agent has to be named again.
    pub fn confirm_options(&self, plan: &PlanId, options: &RunOptions) {
        let path = self.mark(plan);
        let Some(path) = path.filter(|_| *options != RunOptions::default()) else {
            return;
        };
        if self.is_confirmed(plan, options) {
            return;
        }
        let note = || {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            let mut file = own_files::file(OpenOptions::new().append(true).create(true), &path)?;
            writeln!(file, "{}", self.hash(options))
        };
        if let Err(error) = note() {
            let path = path.display();
            complain(&format!(
                "! the agent is not remembered, `{path}`: {error}\n"
            ));
        }
    }

    /// Stores what a plan is carried out with from now on, if that has changed.
    ///
    /// # Errors
    /// It cannot be stored.
    pub async fn remember(
        &self,
        plan: &PlanId,
        options: RunOptions,
        before: &RunOptions,
    ) -> Result {
        self.confirm_options(plan, &options);
        if options == *before {
            return Ok(());
        }
        self.change(plan, "carried out with other options", |draft| {
            draft.describe(|head| head.options = some(options));
            Ok(())
        })
        .await
    }

    fn is_confirmed(&self, plan: &PlanId, options: &RunOptions) -> bool {
        let mut text = String::new();
        let read = self.mark(plan).and_then(|path| {
            let file = own_files::file(OpenOptions::new().read(true), &path).ok()?;
            file.take(MOST).read_to_string(&mut text).ok()
        });
        read.is_some() && text.lines().any(|line| line == self.hash(options))
    }

    /// Returns where the mark of a plan is; `None` for a person without a home.
    fn mark(&self, plan: &PlanId) -> Option<PathBuf> {
        let folder = self.environment.state_folder()?;
        Some(folder.join(STARTED).join(plan.as_str()))
    }

    /// Returns what stands for options in a mark; the folder is part of it, as paths in them may start from there.
    fn hash(&self, options: &RunOptions) -> String {
        let root = self.volumes.root();
        let text = serde_json::to_string(&(root, options)).expect("it has only texts");
        let hash = Sha256::digest(text);
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn unconfirmed_options(&self, plan: &PlanId, options: &RunOptions) -> Failure {
        let error = anyhow!(
            "plan `{plan}` was not begun by you in this folder, or its agent was changed since: \
             nothing is run that only stands in its database"
        );
        let settings = options
            .settings
            .iter()
            .fold(String::new(), |line, (key, value)| {
                let name = key.to_uppercase().replace('.', "_");
                line + &format!("PLAN_AGENT_{name}={} ", quoted(value))
            });
        let named = AgentArgs {
            agent: options.agent.clone().or_else(|| Some(FILES.to_owned())),
            allow_shell: options.allow_shell,
            argv: options.args.clone(),
        };
        let file = options.team.as_ref().map(PathBuf::from);
        let flags = TeamArgs {
            file,
            recalled: false,
        }
        .again()
            + &named.again();
        let line = one_line(
            &format!("{settings}{} resume {plan}{flags}", self.program),
            2000,
        );
        Failure::new(error, Exit::Waiting).hint(format!("if you know what it runs: `{line}`"))
    }

    /// Returns what a plan goes on with, in one line.
    pub fn goes_on_with(
        &self,
        head: &PlanHead,
        options: &RunOptions,
        workers: &TeamWorkers,
        planner: &Planner,
    ) -> String {
        let llm = &self.config.llm;
        let args: String = options
            .args
            .iter()
            .map(|word| format!(" {}", quoted(word)))
            .collect();
        let agent = options.agent.as_ref().map(|name| format!("{name}{args}"));
        let team = self
            .team
            .as_ref()
            .map(|file| format!("team {}", file.path.display()));
        let model = match planner {
            Planner::Model { endpoint, .. } => {
                let usual = endpoint.api.usual_model();
                format!("model {}", llm.plan_model().unwrap_or(usual))
            }
            Planner::Agent { name, .. } => format!("model {name}"),
            Planner::Rules { .. } => "no model".to_owned(),
        };
        let coding = matches!(workers.general, Some(Agent::Coding(_)));
        let allow = &self.config.worker.allow;
        let rights = coding.then(|| format!("allow {}", allow.join(" + ")));
        let review = (head.review == ReviewPolicy::Wanted).then(|| "review".to_owned());
        let parts = [
            agent.or(Some("no agent".to_owned())),
            team,
            Some(model),
            rights,
            review,
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        one_line(
            &format!("plan {} goes on with {}", head.id, parts.join(", ")),
            1000,
        )
    }
}

/// Returns options as a plan stores them.
pub fn some(options: RunOptions) -> Option<Box<RunOptions>> {
    (options != RunOptions::default()).then(|| Box::new(options))
}
