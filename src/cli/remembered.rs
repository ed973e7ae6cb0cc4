//! What a plan goes on with: the agent, the team, the model and the rights that a person began it with. The plan holds them,
//! and a record outside of every project says that a person named them here: what only stands in the plan's database may
//! come from an agent or from elsewhere, and runs nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, anyhow};

use super::{AgentArgs, App, CarryOut, Exit, FILES, Failure, Result, TeamArgs, Work, complain};
use crate::agents::Agent;
use crate::config::Planner;
use crate::plan::{PlanHead, PlanId, QueueEntry, ReviewPolicy, RunOptions};
use crate::trust::content_hash;
use crate::wire::{joined, one_line, quoted};
use crate::worker;

/// A short mark of each key that agent and model get, by the name of its variable.
pub type Marks = BTreeMap<String, String>;

impl App {
    /// Takes up what a plan was begun with, as far as the command line and the environment say nothing else. Returns it with
    /// these.
    ///
    /// # Errors
    /// No person named it here; or it does not fit any more.
    pub async fn recall(&mut self, plan: &PlanId, how: &mut CarryOut) -> Result<RunOptions> {
        let options = self.read(plan, |plan, _| plan.head().options.clone());
        let Some(options) = options.await?.map(|options| *options) else {
            return Ok(RunOptions::default());
        };
        let recorded = self.confirmed(&self.place_of(plan)).ok().flatten();
        if !recorded.is_some_and(|parts| parts.contains_key(&hash(&options))) {
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
        how: &CarryOut,
        planner: &Planner,
        before: &RunOptions,
    ) -> Result<RunOptions> {
        let absolute = |file: &PathBuf| {
            let path = std::path::absolute(file).context("failed to find the current folder")?;
            Ok::<_, Failure>(path.to_string_lossy().into_owned())
        };
        let (agent, team) = (how.agent.or_configured(&self.config), &how.team.file);
        // Where one is configured, to want none is a choice, too.
        let counts = |name: &String| name != FILES || !self.config.worker.agent.is_empty();
        let mut args = agent.argv.clone();
        if let (Some("command"), Some(program)) = (agent.agent.as_deref(), args.first_mut())
            && program.contains('/')
        {
            // It goes on from other folders, too.
            *program = absolute(&PathBuf::from(&*program))?;
        }
        Ok(RunOptions {
            agent: agent.agent.filter(counts),
            args,
            allow_shell: agent.allow_shell,
            team: team.as_ref().map(absolute).transpose()?,
            settings: (self.config).to_remember(&before.settings, &self.environment, planner),
        })
    }

    /// Records that a person began a plan with these options, or went on with them. Where this is not possible, it is said, and
    /// the agent has to be named again.
    pub fn confirm_options(&self, plan: &PlanId, options: &RunOptions) {
        if *options != RunOptions::default()
            && let Err(error) = self
                .records()
                .and_then(|records| records.add(&self.place_of(plan), hash(options), ""))
        {
            complain!("! the agent is not remembered: {error}");
        }
    }

    /// Records that the person confirms what a queued plan is carried out with, and the marks of the person's keys: they are kept
    /// where agents do not read. Both are the same for all plans that are queued so.
    ///
    /// # Errors
    /// It cannot be kept.
    pub fn confirm_queued(&self, entry: &QueueEntry, marks: &Marks) -> io::Result<()> {
        let marks = serde_json::to_string(marks)?;
        let records = self.records()?;
        records.add(&self.place_of_queue(), queue_hash(entry), &marks)
    }

    /// Makes sure that the person confirmed what a queued plan is carried out with, and returns the marks of the person's keys.
    ///
    /// # Errors
    /// It only stands in the plan's database, which agents can write.
    pub fn require_queued(&self, plan: &PlanId, entry: &QueueEntry) -> Result<Marks> {
        let mut recorded = self.confirmed(&self.place_of_queue())?.unwrap_or_default();
        if let Some(marks) = recorded.remove(&queue_hash(entry)) {
            return Ok(serde_json::from_str(&marks).unwrap_or_default());
        }
        let error =
            anyhow!("it was not queued by you in this folder, or with another XDG_STATE_HOME");
        let hint = format!("`{} resume {plan}` goes on with it", self.program);
        Err(Failure::new(error, Exit::Waiting).hint(hint))
    }

    /// Stores what a plan is carried out with from now on, if that has changed.
    ///
    /// # Errors
    /// It cannot be stored.
    pub async fn remember(&self, plan: &PlanId, options: RunOptions, old: &RunOptions) -> Result {
        self.confirm_options(plan, &options);
        if options == *old {
            return Ok(());
        }
        let another = options.agent != old.agent;
        self.change(plan, "carried out with other options", move |draft| {
            draft.change_head(|head| head.options = some(options));
            match another {
                true => draft.end_waits_of_agent(),
                false => Ok(()),
            }
        })
        .await
    }

    /// Gives the commands back that workers of an agent had when they died, as this process starts none that would go on with
    /// them. The caller holds the folder's lock.
    ///
    /// # Errors
    /// It cannot be stored, or what the file system says.
    pub async fn give_back(&self, plan: &PlanId, agent: &str) -> Result {
        let open = self.read(plan, |plan, _| {
            let open = plan.open_attempts().map(|attempt| attempt.id.clone());
            open.collect::<Vec<_>>()
        });
        let claims = worker::left_behind(&self.volumes, agent, &open.await?).await?;
        let ids: Vec<_> = claims.iter().map(|claim| claim.id().clone()).collect();
        if !ids.is_empty() {
            // First: a command that waits while the plan counts it as claimed would be waited for in vain.
            self.change(plan, "its worker died", move |draft| {
                ids.iter().try_for_each(|id| draft.given_back(id))
            })
            .await?;
        }
        Ok(claims.into_iter().try_for_each(worker::Claim::give_back)?)
    }

    /// Returns what the record of a plan's options is of; paths in them may start from there.
    fn place_of(&self, plan: &PlanId) -> PathBuf {
        self.volumes.root().join(plan.as_str())
    }

    fn place_of_queue(&self) -> PathBuf {
        self.volumes.root().join("queue")
    }

    fn unconfirmed_options(&self, plan: &PlanId, options: &RunOptions) -> Failure {
        let error = anyhow!(
            "plan `{plan}` was not begun by you in this folder, or its agent or settings were changed since: \
             nothing is run that only stands in its database"
        );
        let settings = options.settings.iter().map(|(key, value)| {
            let name = key.to_uppercase().replace('.', "_");
            format!("PLAN_AGENT_{name}={} ", quoted(value))
        });
        let (program, settings) = (&self.program, settings.collect::<String>());
        let agent = AgentArgs {
            agent: options.agent.clone().or_else(|| Some(FILES.to_owned())),
            allow_shell: options.allow_shell,
            argv: options.args.clone(),
        };
        let team = TeamArgs {
            file: options.team.as_ref().map(PathBuf::from),
            recalled: false,
        };
        let (team, agent) = (team.again(), agent.again());
        let line = format!("{settings}{program} resume {plan}{team}{agent}");
        let hint = format!("if you know what it runs: `{}`", one_line(&line, 2000));
        Failure::new(error, Exit::Waiting).hint(hint)
    }
}

impl Work {
    /// Returns what a plan goes on with, in one line.
    pub fn goes_on_with(&self, head: &PlanHead, options: &RunOptions) -> String {
        let (app, workers) = (&self.app, &self.workers);
        let args = options.args.iter().map(|word| format!(" {}", quoted(word)));
        let agent = match &options.agent {
            Some(name) if name != FILES => format!("{name}{}", args.collect::<String>()),
            _ => "no agent".to_owned(),
        };
        let team = (app.team.as_ref()).map(|file| format!("team {}", file.path.display()));
        let model = match &workers.planner {
            Planner::Model { endpoint, .. } => {
                let usual = endpoint.api.usual_model();
                format!("model {}", app.config.llm.plan_model().unwrap_or(usual))
            }
            Planner::Agent { name, .. } => format!("model {name}"),
            Planner::Rules { .. } => "no model".to_owned(),
        };
        let coding = matches!(workers.general, Some(Agent::Coding(_)));
        let rights = coding.then(|| format!("allow {}", app.config.worker.allow.join(" + ")));
        let review = (head.review == ReviewPolicy::Wanted).then(|| "review".to_owned());
        // Model and rights are said above.
        let said = |key: &str| key.starts_with("llm.") || key.starts_with("worker.");
        let settings = options.settings.iter().filter(|(key, _)| !said(key));
        let settings = settings.map(|(key, value)| format!("{key} = {value}"));
        let parts = [Some(agent), team, Some(model), rights, review];
        let parts = joined(parts.into_iter().flatten().chain(settings), ", ");
        one_line(&format!("plan {} goes on with {parts}", head.id), 1000)
    }
}

fn queue_hash(entry: &QueueEntry) -> String {
    let decides = (&entry.config, &entry.confirmed, &entry.path);
    content_hash(serde_json::to_string(&decides).expect("it has only texts"))
}

fn hash(options: &RunOptions) -> String {
    content_hash(serde_json::to_string(options).expect("it has only texts"))
}

/// Returns options as a plan stores them.
pub fn some(options: RunOptions) -> Option<Box<RunOptions>> {
    (options != RunOptions::default()).then(|| Box::new(options))
}
