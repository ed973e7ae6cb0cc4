//! Which plan an input is for: one folder may serve many plans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::role_requests::ends_session;
use super::{AnswerFile, ParsedReport};
use crate::plan::{CommandId, PlanId, QuestionId};
use crate::store::{Result, Store};
use crate::volumes::{Volumes, WorkerSigns};

/// What is awaited for a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedInputs {
    /// Commands whose report is awaited.
    pub commands: BTreeSet<CommandId>,
    /// Open questions to a person.
    pub questions: BTreeSet<QuestionId>,
}

/// What was found for a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundInput {
    pub reports: Vec<ParsedReport>,
    pub replies: Vec<(QuestionId, AnswerFile)>,
    /// The heartbeats, by their commands.
    pub signs: WorkerSigns,
}

/// A report for none of the plans that are carried out here, with the plan that its command is of.
pub(super) type Stranger = (ParsedReport, Option<PlanId>);

/// What is awaited for each plan that is carried out through one folder.
pub(super) struct RoutingTable(pub BTreeMap<PlanId, Arc<AwaitedInputs>>);

impl RoutingTable {
    pub fn commands(&self) -> impl Iterator<Item = &CommandId> {
        self.0.values().flat_map(|awaited| &awaited.commands)
    }

    pub fn questions(&self) -> impl Iterator<Item = &QuestionId> {
        self.0.values().flat_map(|awaited| &awaited.questions)
    }

    /// Returns what was found by its plan: the one that awaits it, else the one that its command belongs to, else the first
    /// one, whose person reads then that it belongs to none. Reports for plans that are not in the table come second.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn route(
        &self,
        store: &Store,
        volumes: &Volumes,
        found: FoundInput,
    ) -> Result<(BTreeMap<PlanId, FoundInput>, Vec<Stranger>)> {
        let (mut plans, mut strangers) = (BTreeMap::<PlanId, FoundInput>::new(), Vec::new());
        for mut arrival in found.reports {
            let (mut owner, mut ends) = (None, false);
            if let Some(command) = &arrival.command {
                owner = self.awaiting(|awaited| awaited.commands.contains(command));
                if owner.is_none() {
                    owner = store.plan_of(command).await?;
                }
                ends = owner.is_none() && ends_session(volumes, command).await;
            }
            if owner.is_none() && !ends {
                arrival.belongs_to_none();
                owner = self.0.keys().next().cloned();
            }
            match owner {
                Some(plan) if self.0.contains_key(&plan) => {
                    plans.entry(plan).or_default().reports.push(arrival);
                }
                owner => strangers.push((arrival, owner)),
            }
        }
        for (id, reply) in found.replies {
            if let Some(plan) = self.awaiting(|awaited| awaited.questions.contains(&id)) {
                plans.entry(plan).or_default().replies.push((id, reply));
            }
        }
        for (id, sign) in found.signs {
            if let Some(plan) = self.awaiting(|awaited| awaited.commands.contains(&id)) {
                plans.entry(plan).or_default().signs.insert(id, sign);
            }
        }
        Ok((plans, strangers))
    }

    fn awaiting(&self, awaits: impl Fn(&AwaitedInputs) -> bool) -> Option<PlanId> {
        let plan = self.0.iter().find(|(_, awaited)| awaits(awaited));
        plan.map(|(plan, _)| plan.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::report_parsing::UnreadableReport;
    use crate::plan::{AttemptKind, NewCommand, PlanHead, PlanPolicy, TaskId, TaskSpec, Time};

    /// Makes a plan whose only task was dispatched with this command.
    async fn made(store: &Store, id: &str, command: &str) -> PlanId {
        let (plan, id) = (PlanId::new(id), CommandId::new(command));
        let head = PlanHead::new(plan.clone(), "", Time::default());
        let made = store.create(head, "test", "made", move |draft| {
            draft.created();
            draft.make_tasks(vec![TaskSpec {
                name: "Only".to_owned(),
                ..TaskSpec::default()
            }])?;
            draft.start(PlanPolicy::default(), "")?;
            let issue = NewCommand {
                id,
                kind: AttemptKind::New,
                session: None,
                text: String::new(),
            };
            draft.issue(TaskId(1), issue)
        });
        made.await.unwrap();
        plan
    }

    fn report(command: Option<&str>) -> ParsedReport {
        let refused = UnreadableReport {
            reason: String::new(),
            explanation: String::new(),
        };
        ParsedReport {
            name: command.unwrap_or("notes").to_owned(),
            hash: String::new(),
            command: command.map(CommandId::new),
            content: Err(refused),
        }
    }

    #[tokio::test]
    async fn each_input_reaches_its_plan() {
        let store = Store::in_memory(Time::default).await.unwrap();
        let [a, b, c] = [
            made(&store, "a", "task-a").await,
            made(&store, "b", "task-b").await,
            made(&store, "c", "task-c").await,
        ];
        let awaits = |commands: &[&str], questions: &[&str]| AwaitedInputs {
            commands: commands.iter().copied().map(CommandId::new).collect(),
            questions: questions.iter().copied().map(QuestionId::new).collect(),
        };
        let of_a = awaits(&["task-a"], &[]);
        // The store knows the plan of a command that is no longer awaited.
        let of_b = awaits(&["task-new"], &["q1"]);
        let folder = tempfile::tempdir().unwrap();
        let volumes = Volumes::open(folder.path()).unwrap();
        let table = RoutingTable(BTreeMap::from([
            (a.clone(), of_a.into()),
            (b.clone(), of_b.into()),
        ]));
        let reports = ["task-a", "task-b", "task-c", "task-new", "task-nobodys"].map(Some);
        let found = FoundInput {
            reports: reports.into_iter().chain([None]).map(report).collect(),
            replies: vec![(QuestionId::new("q1"), Err(String::new()))],
            signs: BTreeMap::from([(
                CommandId::new("task-new"),
                crate::volumes::WorkerSign::default(),
            )]),
        };
        let (plans, strangers) = table.route(&store, &volumes, found).await.unwrap();
        let names = |plan: &PlanId| {
            let found = &plans[plan];
            let reports = found.reports.iter().map(|report| report.name.as_str());
            let others = (found.replies.len(), found.signs.len());
            (reports.collect::<Vec<_>>(), others)
        };
        assert_eq!(names(&a), (vec!["task-a", "task-nobodys", "notes"], (0, 0)));
        assert_eq!(plans[&a].reports[1].command, None);
        assert_eq!(names(&b), (vec!["task-b", "task-new"], (1, 1)));
        let strangers: Vec<_> = strangers
            .into_iter()
            .map(|(report, owner)| (report.name, owner))
            .collect();
        assert_eq!(strangers, [("task-c".to_owned(), Some(c))]);
    }
}
