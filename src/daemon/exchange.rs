//! The folder through which everything comes in and goes out: watches it, reads what arrives there, says which plan each thing is
//! for, and files what was taken in. It knows of a plan only what is awaited for it, so that one folder may serve many.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::background_acts::Acts;
use super::effect_work::blocking;
use super::report_parsing::{self, AnswerFile, ParsedReport};
use super::{DaemonSettings, role_requests};
use crate::plan::{AppliedReport, CommandId, HumanQuestion, PlanId, QuestionId, Refusal, Time};
use crate::plan_time::Clock;
use crate::store::{Store, StoreError};
use crate::volumes::{
    MOST_REPORTS, ReportDisposition, Scan, Scanner, UNSEEN, VolumesError, Watch, WorkerSign,
};
use crate::wire::question_file;

/// As long as `reports/pending` had no more files than this, a look takes less time than to wake another thread for it …
const QUICK_LOOK: usize = 64;

/// … and takes in no more reports than this: hostile ones must not hold up the loop.
const QUICK_REPORTS: usize = 8;

/// A file that is still being written is looked at again after this.
const SOON: Duration = Duration::from_millis(150);

/// What was written before the daemon began, or somebody left, is finished by then: nobody was heard to write it.
const FINISHED: Duration = UNSEEN.saturating_add(Duration::from_secs(1));

/// Names what is under way in the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExchangeKey {
    Scan,
    ShowQuestion(QuestionId),
    FileQuestion(QuestionId),
    File(String),
}

impl fmt::Display for ExchangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scan => "the exchange folder",
            Self::ShowQuestion(_) | Self::FileQuestion(_) => "a question's file",
            Self::File(_) => "filing a report",
        })
    }
}

/// What an act in the folder came back with.
pub(super) enum ExchangeDone {
    Looked(Box<Scanner>, Result<FolderScan, VolumesError>),
    QuestionShown(QuestionId),
    QuestionFiled(QuestionId),
    Filed(String),
}

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filed {
    Processed,
    Stale,
    /// With the explanation that is laid beside it.
    Rejected(String),
}

impl From<AppliedReport> for Filed {
    fn from(taken: AppliedReport) -> Self {
        match taken {
            AppliedReport::Counts | AppliedReport::Known => Self::Processed,
            AppliedReport::Stale | AppliedReport::Other => Self::Stale,
        }
    }
}

/// What is awaited for a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedCommands {
    /// Commands whose report is.
    pub commands: BTreeSet<CommandId>,
    /// Questions that a person is to answer.
    pub questions: BTreeSet<QuestionId>,
}

/// What a look at the folders found, with the rest of what it saw.
pub(super) struct FolderScan {
    found: FoundInput,
    scan: Scan,
    began: Time,
}

/// What was found for a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundInput {
    pub reports: Vec<ParsedReport>,
    pub replies: Vec<(QuestionId, AnswerFile)>,
    /// Every command that somebody works on.
    pub signs: BTreeMap<CommandId, WorkerSign>,
}

/// A report for none of the plans that are carried out here, with the plan that its command is of.
pub(super) type Stranger = (ParsedReport, Option<PlanId>);

/// What is awaited for each plan that is carried out through one folder.
#[derive(Default)]
struct Expected(BTreeMap<PlanId, AwaitedCommands>);

impl Expected {
    fn all<T: Clone, C: FromIterator<T>>(
        &self,
        which: impl Fn(&AwaitedCommands) -> &BTreeSet<T>,
    ) -> C {
        self.0.values().flat_map(which).cloned().collect()
    }

    /// Says of everything that was found which plan it is for: for the one that awaits it, else for the one that its command is of.
    ///
    /// # Errors
    /// A failure of the store.
    async fn route(
        &self,
        store: &Store,
        found: FoundInput,
    ) -> Result<(BTreeMap<PlanId, FoundInput>, Vec<Stranger>), StoreError> {
        let (mut plans, mut strangers) = (BTreeMap::<PlanId, FoundInput>::new(), Vec::new());
        for arrival in found.reports {
            let of = match &arrival.command {
                None => self.0.keys().next().cloned(),
                Some(command) => {
                    match self.who_awaits(|awaited| awaited.commands.contains(command)) {
                        Some(plan) => Some(plan),
                        None => store.plan_of(command).await?,
                    }
                }
            };
            match of {
                Some(plan) if self.0.contains_key(&plan) => {
                    plans.entry(plan).or_default().reports.push(arrival);
                }
                of => strangers.push((arrival, of)),
            }
        }
        for (id, reply) in found.replies {
            if let Some(plan) = self.who_awaits(|awaited| awaited.questions.contains(&id)) {
                plans.entry(plan).or_default().replies.push((id, reply));
            }
        }
        for (id, sign) in found.signs {
            if let Some(plan) = self.who_awaits(|awaited| awaited.commands.contains(&id)) {
                plans.entry(plan).or_default().signs.insert(id, sign);
            }
        }
        Ok((plans, strangers))
    }

    fn who_awaits(&self, awaits: impl Fn(&AwaitedCommands) -> bool) -> Option<PlanId> {
        let plan = self.0.iter().find(|(_, awaited)| awaits(awaited));
        plan.map(|(plan, _)| plan.clone())
    }
}

pub(super) struct Exchange {
    settings: Arc<DaemonSettings>,
    store: Store,
    clock: Clock,
    watch: Watch,
    /// Something happened in the folders.
    pub wake: Arc<Notify>,
    /// Some process wrote to the store.
    pub stored: Arc<Notify>,
    pub acts: Acts<ExchangeKey, ExchangeDone>,
    scanner: Option<Scanner>,
    /// What a look found that ran beside the loop.
    look: Option<FolderScan>,
    expected: Expected,
    /// When the folders are looked at next at the latest.
    look_at: Time,
    /// When the watches are examined next; a report that waits is not held up by it each time.
    check_at: Time,
    /// When the look began that last listed the folder of reports; `None` if something of that listing was left out.
    listed_at: Option<Time>,
    /// When the last look began by which everything was seen.
    scan_began: Option<Time>,
    /// The last look found a file that may not be finished.
    waiting: bool,
    /// The last look did not take everything that is there.
    more: bool,
    /// The reports that the last look handed over.
    handed_over: Vec<String>,
    /// Reports that are to leave `reports/pending`, and when.
    filings: BTreeMap<String, (Time, Filed)>,
    /// Questions whose file is in `questions/pending`.
    shown: BTreeSet<QuestionId>,
}

impl Exchange {
    pub fn new(settings: Arc<DaemonSettings>, store: Store, clock: Clock) -> Self {
        let (wake, stored) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let watch = Watch::start(&settings.volumes, Arc::clone(&wake), Arc::clone(&stored));
        let now = clock.now();
        Self {
            acts: Acts::new(Arc::clone(&settings.notice)),
            scanner: Some(scanner(&settings, &watch)),
            settings,
            store,
            clock,
            watch,
            wake,
            stored,
            look: None,
            expected: Expected::default(),
            look_at: now,
            check_at: now,
            listed_at: None,
            scan_began: None,
            waiting: false,
            more: false,
            handed_over: Vec::new(),
            filings: BTreeMap::new(),
            shown: BTreeSet::new(),
        }
    }

    /// Says what is awaited for a plan from now on.
    pub fn expect(&mut self, plan: &PlanId, awaited: AwaitedCommands) {
        self.expected.0.insert(plan.clone(), awaited);
    }

    /// Has the folders looked at by then.
    pub fn look_by(&mut self, at: Time) {
        self.look_at = self.look_at.min(at);
    }

    /// Returns when the last look began by which everything was seen.
    pub fn scan_began(&self) -> Option<Time> {
        self.scan_began
    }

    /// Returns the questions whose file is in its folder.
    pub fn shown(&self) -> &BTreeSet<QuestionId> {
        &self.shown
    }

    /// Returns whether everything that lay there at a moment has been seen, and what lies there is finished or has not changed
    /// for so long that nobody goes on with it.
    pub fn is_quiet(&self, since: Time, now: Time) -> bool {
        self.scan_began >= Some(since) && self.is_finished(since, now)
    }

    /// Returns whether nothing lies there of which only time shows whether it is finished.
    pub fn is_finished(&self, since: Time, now: Time) -> bool {
        !self.waiting || now >= since.plus(FINISHED)
    }

    /// Returns whether every report is filed.
    pub fn is_filed(&self) -> bool {
        self.filings.is_empty()
    }

    /// Returns whether something is under way besides a look.
    pub fn is_busy(&self) -> bool {
        self.acts
            .under_way()
            .iter()
            .any(|key| *key != ExchangeKey::Scan)
    }

    /// Finds out anew which questions lie in their folder.
    pub fn list_questions(&mut self) -> Result<(), VolumesError> {
        self.shown = self.settings.volumes.questions()?.into_iter().collect();
        Ok(())
    }

    /// Returns whether it is time to look into the folders.
    fn may_look(&self, now: Time) -> bool {
        self.scanner.is_some() && self.look_at <= now && self.acts.is_ready(&ExchangeKey::Scan, now)
    }

    /// Examines the watches before a look, if it is time to. Returns whether folders were made again, which had been removed with
    /// what was in them.
    pub fn check_watches(&mut self, now: Time) -> bool {
        if !self.may_look(now) || self.check_at > now {
            return false;
        }
        self.check_at = now.plus(self.settings.timing.scan);
        self.watch.check()
    }

    /// Looks into the folders if it is time to, and returns what is there; a look that takes long runs beside the loop, and what it
    /// found is returned later. [`Self::taken_in`] is to be called with what became of it.
    pub fn look(&mut self, now: Time) -> Option<FoundInput> {
        if self.look.is_none() && self.may_look(now) {
            self.begin_look(now);
        }
        let mut look = self.look.take()?;
        let put_off = self.put_off(&mut look);
        let names = look.found.reports.iter();
        self.handed_over = names.map(|arrival| arrival.name.clone()).collect();
        self.more = look.scan.more;
        let now = self.clock.now();
        if look.scan.more {
            self.look_by(now);
        } else if look.scan.waiting {
            self.look_by(now.plus(SOON));
        }
        self.waiting = look.scan.waiting;
        if look.scan.listed {
            self.listed_at = Some(look.began);
            // One that was saved again after its answer counted.
            self.shown.extend(look.scan.lying);
        }
        if put_off {
            self.listed_at = None;
        }
        Some(look.found)
    }

    fn begin_look(&mut self, now: Time) {
        let Some(mut scanner) = self.scanner.take() else {
            return;
        };
        self.look_at = now.plus(self.settings.timing.scan);
        let commands: Vec<CommandId> = self.expected.all(|awaited| &awaited.commands);
        let questions: Vec<QuestionId> = self.expected.all(|awaited| &awaited.questions);
        let quick = scanner.last_listed() <= QUICK_LOOK;
        let most = if quick { QUICK_REPORTS } else { MOST_REPORTS };
        let clock = self.clock;
        let look = move || {
            let scan = scanner.scan(&commands, &questions, most);
            let look = scan.map(|mut scan| FolderScan {
                found: FoundInput {
                    reports: report_parsing::reports(&mut scan, now, &clock),
                    replies: report_parsing::replies(&mut scan),
                    signs: std::mem::take(&mut scan.signs),
                },
                scan,
                began: now,
            });
            (scanner, look)
        };
        if quick {
            let (scanner, look) = look();
            self.looked(scanner, look);
        } else {
            self.acts.start_blocking(ExchangeKey::Scan, now, move || {
                let (scanner, look) = look();
                Ok(ExchangeDone::Looked(Box::new(scanner), look))
            });
        }
    }

    fn looked(&mut self, scanner: Scanner, look: Result<FolderScan, VolumesError>) {
        self.scanner = Some(scanner);
        match look {
            Ok(look) => self.look = Some(look),
            Err(error) => self.failed(&ExchangeKey::Scan, &error.to_string()),
        }
    }

    /// Leaves reports for a later look whose namesake is just being filed: where they go would be taken for done with it.
    /// Returns whether there was any.
    fn put_off(&mut self, look: &mut FolderScan) -> bool {
        let mut put_off = Vec::new();
        look.found.reports.retain(|arrival| {
            let moves = self
                .acts
                .under_way()
                .contains(&ExchangeKey::File(arrival.name.clone()));
            put_off.extend(moves.then(|| arrival.name.clone()));
            !moves
        });
        look.scan.waiting |= !put_off.is_empty();
        self.forget(&put_off);
        !put_off.is_empty()
    }

    /// Makes a later look find reports again that were not taken in.
    fn forget(&mut self, names: &[String]) {
        if let Some(scanner) = &mut self.scanner {
            names.iter().for_each(|name| scanner.forget(name));
        }
    }

    /// Says of everything that was found which plan it is for.
    ///
    /// # Errors
    /// A failure of the store.
    pub async fn route(
        &self,
        found: FoundInput,
    ) -> Result<(BTreeMap<PlanId, FoundInput>, Vec<Stranger>), StoreError> {
        self.expected.route(&self.store, found).await
    }

    /// Files reports that were taken in. What counts stays a while where its agent left it.
    pub fn file(&mut self, filings: Vec<(String, Filed)>) {
        let now = self.clock.now();
        for (name, filed) in filings {
            let wait = match filed {
                Filed::Processed => self.settings.timing.filing,
                Filed::Stale | Filed::Rejected(_) => {
                    tracing::warn!(name, ?filed, "a report that does not count");
                    Duration::ZERO
                }
            };
            self.filings.insert(name, (now.plus(wait), filed));
        }
    }

    /// Lays what is wrong with answers beside the files of their questions.
    pub fn complain(&mut self, complaints: Vec<(QuestionId, String)>) {
        for (id, text) in complaints {
            if let Err(error) = self.settings.volumes.complain(&id, &text) {
                self.acts.trouble("a question's file", &error.to_string());
            }
        }
    }

    /// Notes whether everything was taken in that the last look found; if not, it is found again.
    pub fn taken_in(&mut self, taken: Result<(), StoreError>) {
        let handed_over = std::mem::take(&mut self.handed_over);
        if let Err(error) = taken {
            self.forget(&handed_over);
            self.listed_at = None;
            self.failed(&ExchangeKey::Scan, &error.to_string());
            return;
        }
        self.acts.succeeded(&ExchangeKey::Scan);
        if !self.more
            && let Some(at) = self.listed_at
        {
            self.scan_began = Some(at);
        }
    }

    /// Gives reports to the plans that their commands belong to and that are not carried out here: another plan in the same folder
    /// may have been left unfinished, or a role waits for what it asked of another one. Returns whether a role did.
    ///
    /// # Errors
    /// A failure of the store. That a plan cannot be changed holds up no other.
    pub async fn pass_on(&mut self, strangers: Vec<Stranger>) -> Result<bool, StoreError> {
        let mut asked = false;
        for (arrival, owner) in strangers {
            let name = arrival.name.clone();
            let of_plan = owner.is_some() && arrival.content.is_ok();
            let filed =
                match role_requests::pass_on(&self.store, &self.settings.volumes, arrival, owner)
                    .await
                {
                    Err(error @ (StoreError::Database(_) | StoreError::Closed)) => {
                        return Err(error);
                    }
                    Err(error) => {
                        self.acts
                            .trouble("a report for another plan", &error.to_string());
                        Filed::Stale
                    }
                    Ok(filed) => {
                        asked |= of_plan;
                        filed
                    }
                };
            self.filings.insert(name, (self.clock.now(), filed));
        }
        Ok(asked)
    }

    /// Starts what is missing in the folders: questions are shown and filed, and reports filed; all of these at once when the last
    /// plan has ended.
    pub fn start(&mut self, now: Time, at_once: bool) {
        self.show_questions(now);
        self.file_questions(now);
        self.file_reports(now, at_once);
    }

    /// Returns when something is to be done in the folders next.
    pub fn wakes_at(&self, now: Time) -> Option<Time> {
        let look = match self.look_at <= now {
            true => (self.may_look(now) || self.look.is_some()).then_some(now),
            false => Some(self.look_at),
        };
        let filings = self.filings.values().map(|(at, _)| *at);
        let filing = filings.filter(|at| *at > now).min();
        let ready = self.acts.next_ready(now);
        [look, filing, ready].into_iter().flatten().min()
    }

    fn show_questions(&mut self, now: Time) {
        for (plan, awaited) in &self.expected.0 {
            for id in awaited.questions.difference(&self.shown).cloned() {
                let (settings, store) = (Arc::clone(&self.settings), self.store.clone());
                let plan = plan.clone();
                self.acts
                    .start(ExchangeKey::ShowQuestion(id.clone()), now, async move {
                        let (wanted, program) = (id.clone(), settings.program.clone());
                        let text = store.read(&plan, move |plan, _| {
                            let asked = plan.question(&wanted)?;
                            let task = asked.task.and_then(|id| plan.task(id));
                            Some(question_file::render(
                                asked,
                                plan.id().as_str(),
                                task,
                                &program,
                            ))
                        });
                        let text = text.await?;
                        let show = move || {
                            if let Some(text) = text {
                                settings.volumes.write_question(&id, &text)?;
                            }
                            Ok(ExchangeDone::QuestionShown(id))
                        };
                        blocking(show).await
                    });
            }
        }
    }

    fn file_questions(&mut self, now: Time) {
        let asked: BTreeSet<QuestionId> = self.expected.all(|awaited| &awaited.questions);
        let old: Vec<QuestionId> = self.shown.difference(&asked).cloned().collect();
        for id in old {
            let (settings, store) = (Arc::clone(&self.settings), self.store.clone());
            let plans: Vec<PlanId> = self.expected.0.keys().cloned().collect();
            self.acts
                .start(ExchangeKey::FileQuestion(id.clone()), now, async move {
                    let asked = find_question(&store, &plans, &id).await?;
                    let file = move || {
                        let volumes = &settings.volumes;
                        let reply = volumes.read_question(&id);
                        let late = asked
                            .zip(reply)
                            .and_then(|(asked, reply)| late(&asked, &reply));
                        if let Some(late) = late {
                            volumes.complain(&id, &format!("{late}.\n"))?;
                            (settings.notice)(&late);
                        }
                        volumes
                            .file_question(&id)
                            .map(|()| ExchangeDone::QuestionFiled(id))
                    };
                    blocking(file).await
                });
        }
    }

    fn file_reports(&mut self, now: Time, at_once: bool) {
        for (name, (at, filed)) in &self.filings {
            if !at_once && *at > now {
                continue;
            }
            let (volumes, name, filed) =
                (self.settings.volumes.clone(), name.clone(), filed.clone());
            self.acts
                .start(ExchangeKey::File(name.clone()), now, async move {
                    let file = move || {
                        let filing = match &filed {
                            Filed::Processed => ReportDisposition::Processed,
                            Filed::Stale => ReportDisposition::Stale,
                            Filed::Rejected(explanation) => {
                                ReportDisposition::Rejected(explanation)
                            }
                        };
                        volumes
                            .file_report(&name, filing)
                            .map(|()| ExchangeDone::Filed(name))
                    };
                    blocking(file).await
                });
        }
    }

    /// Takes in what an act in the folder came back with.
    pub fn take_in(&mut self, key: &ExchangeKey, result: anyhow::Result<ExchangeDone>) {
        match result {
            Err(error) => {
                if *key == ExchangeKey::Scan {
                    // It went with the look that failed.
                    self.scanner = Some(scanner(&self.settings, &self.watch));
                }
                self.failed(key, &format!("{error:#}"));
            }
            Ok(ExchangeDone::Looked(scanner, look)) => {
                self.acts.over(key);
                self.looked(*scanner, look);
            }
            Ok(done) => {
                self.acts.succeeded(key);
                match done {
                    ExchangeDone::QuestionShown(id) => {
                        tracing::warn!(question = %id, "a person is asked; `status` shows what");
                        self.shown.insert(id);
                    }
                    ExchangeDone::QuestionFiled(id) => drop(self.shown.remove(&id)),
                    ExchangeDone::Filed(name) => drop(self.filings.remove(&name)),
                    ExchangeDone::Looked(..) => {}
                }
            }
        }
    }

    fn failed(&mut self, key: &ExchangeKey, error: &str) {
        self.acts.failed(key, self.clock.now(), error);
    }
}

/// Makes a scanner that has seen nothing yet.
fn scanner(settings: &DaemonSettings, watch: &Watch) -> Scanner {
    Scanner::new(&settings.volumes, watch.hints(), settings.timing.scan)
}

async fn find_question(
    store: &Store,
    plans: &[PlanId],
    id: &QuestionId,
) -> Result<Option<HumanQuestion>, StoreError> {
    for plan in plans {
        let wanted = id.clone();
        let asked = store.read(plan, move |plan, _| plan.question(&wanted).cloned());
        if let Some(asked) = asked.await? {
            return Ok(Some(asked));
        }
    }
    Ok(None)
}

/// Returns what a person is told whose answer in the file of a question came after another one.
fn late(asked: &HumanQuestion, said: &str) -> Option<String> {
    let (choice, _) = question_file::parse(said).ok()??;
    let counted = asked.answer.as_ref()?;
    let told = Refusal::AlreadyAnswered {
        question: asked.id.clone(),
        choice: counted.choice,
        by: counted.by.clone(),
    };
    (choice != counted.choice).then(|| {
        let word = choice.as_str();
        format!("{told}; `{word}` in its file came too late")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::report_parsing::UnreadableReport;
    use crate::plan::{AttemptKind, NewCommand, PlanHead, PlanPolicy, TaskId, TaskSpec};

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
    async fn everything_reaches_the_plan_that_it_is_for() {
        let store = Store::in_memory(Time::default).await.unwrap();
        let [a, b, c] = [
            made(&store, "a", "task-a").await,
            made(&store, "b", "task-b").await,
            made(&store, "c", "task-c").await,
        ];
        let awaits = |commands: &[&str], questions: &[&str]| AwaitedCommands {
            commands: commands.iter().copied().map(CommandId::new).collect(),
            questions: questions.iter().copied().map(QuestionId::new).collect(),
        };
        let of_a = awaits(&["task-a"], &[]);
        // What is awaited no more is still known.
        let of_b = awaits(&["task-new"], &["q1"]);
        let expected = Expected(BTreeMap::from([(a.clone(), of_a), (b.clone(), of_b)]));
        let reports = ["task-a", "task-b", "task-c", "task-new", "task-nobodys"].map(Some);
        let found = FoundInput {
            reports: reports.into_iter().chain([None]).map(report).collect(),
            replies: vec![(QuestionId::new("q1"), AnswerFile::Unusable(String::new()))],
            signs: BTreeMap::from([(CommandId::new("task-new"), WorkerSign::default())]),
        };
        let (plans, strangers) = expected.route(&store, found).await.unwrap();
        let names = |plan: &PlanId| {
            let found = &plans[plan];
            let reports = found.reports.iter().map(|report| report.name.as_str());
            let others = (found.replies.len(), found.signs.len());
            (reports.collect::<Vec<_>>(), others)
        };
        assert_eq!(names(&a), (vec!["task-a", "notes"], (0, 0)));
        assert_eq!(names(&b), (vec!["task-b", "task-new"], (1, 1)));
        let strangers: Vec<_> = strangers
            .into_iter()
            .map(|(report, owner)| (report.name, owner))
            .collect();
        assert_eq!(
            strangers,
            [
                ("task-c".to_owned(), Some(c)),
                ("task-nobodys".to_owned(), None)
            ]
        );
    }
}
