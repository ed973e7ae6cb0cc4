//! The folder through which everything comes in and goes out: watches it, scans it, and files what was applied. It
//! knows of a plan only what is awaited for it, so that one folder may serve many.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::report_parsing::parse;
use super::{
    Effects, FolderSettings, FoundInput, ParsedReport, RoutingTable, Stranger, blocking,
    role_requests,
};
use crate::plan::{HumanQuestion, PlanId, QuestionId, Refusal, Time};
use crate::store::{ListedPlan, Result, Store, StoreError};
use crate::volumes::{MOST_REPORTS, ReportDisposition, Scan, Scanner, UNSEEN, VolumesError, Watch};
use crate::wire::question_file;

/// As long as `reports/pending` had no more files than this, a scan takes less time than to wake another thread for
/// it …
const QUICK_SCAN: usize = 64;

/// … and reads no more reports than this: hostile ones must not hold up the loop.
const QUICK_REPORTS: usize = 8;

/// A file that is still being written is read again after this.
const SOON: Duration = Duration::from_millis(150);

/// A file from before the daemon began, or before a worker left, is complete after this: no event said that it was
/// written.
const FINISHED: Duration = UNSEEN.saturating_add(Duration::from_secs(1));

/// The key of an effect in the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExchangeKey {
    Scan,
    /// To look which plans are queued.
    Queue,
    ShowQuestion(QuestionId),
    FileQuestion(QuestionId),
    File(String),
}

impl fmt::Display for ExchangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scan => "the exchange folder",
            Self::Queue => "the queue of plans",
            Self::ShowQuestion(_) | Self::FileQuestion(_) => "a question's file",
            Self::File(_) => "filing a report",
        })
    }
}

/// The result of an effect in the folder.
pub(super) enum ExchangeResult {
    Scanned(Box<Scanner>, Result<FolderScan, VolumesError>),
    /// The file is where its key wants it.
    Done,
}

/// What a scan of the folders found, parsed and as it is, and when it began.
type FolderScan = (FoundInput, Scan, Time);

pub(super) struct Exchange {
    settings: Arc<FolderSettings>,
    watch: Watch,
    /// Notified when something happened in the folders.
    pub wake: Arc<Notify>,
    /// Notified when a process wrote to the store.
    pub stored: Arc<Notify>,
    pub effects: Effects<ExchangeKey, ExchangeResult>,
    scanner: Option<Scanner>,
    /// The result of a scan that has not been applied yet.
    scanned: Option<FolderScan>,
    /// When the next scan begins at the latest.
    scan_at: Time,
    /// When the watches are checked next: not before each scan, which would delay the reports that wait.
    check_at: Time,
    /// When the scan began that last listed the folder of reports; `None` if a part of that listing was left out.
    listed_at: Option<Time>,
    /// When the last complete scan began whose result was applied.
    pub scan_began: Option<Time>,
    /// The last scan found a file that may not be complete.
    waiting: bool,
    /// The last scan left reports for the next one.
    more: bool,
    /// The reports that the last scan handed over.
    handed_over: Vec<String>,
    /// Reports that are to leave `reports/pending`, and when.
    pub filings: BTreeMap<String, (Time, ReportDisposition)>,
    /// Questions whose file is in `questions/pending`.
    pub shown: BTreeSet<QuestionId>,
}

impl Exchange {
    pub fn new(settings: Arc<FolderSettings>) -> Self {
        let (wake, stored) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let watch = Watch::start(&settings.volumes, Arc::clone(&wake), Arc::clone(&stored));
        let now = settings.now();
        Self {
            effects: Effects::new(Arc::clone(&settings.notice), settings.store.clone()),
            scanner: Some(scanner(&settings, &watch)),
            settings,
            watch,
            wake,
            stored,
            scanned: None,
            scan_at: now,
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

    /// Has the next scan begin by then.
    pub fn scan_by(&mut self, at: Time) {
        self.scan_at = self.scan_at.min(at);
    }

    /// Returns whether all files that existed at a moment were read, and are complete or have not changed for so long
    /// that their writer has given up.
    pub fn is_quiet(&self, since: Time, now: Time) -> bool {
        self.scan_began >= Some(since) && self.is_finished(since, now)
    }

    /// Returns whether no file waits for time to show whether it is complete.
    pub fn is_finished(&self, since: Time, now: Time) -> bool {
        !self.waiting || now >= since.plus(FINISHED)
    }

    /// Returns whether an effect other than a scan is under way.
    pub fn is_busy(&self) -> bool {
        let mut under_way = self.effects.under_way().iter();
        under_way.any(|key| *key != ExchangeKey::Scan)
    }

    /// Lists anew which questions have a file.
    pub fn list_questions(&mut self) -> Result<(), VolumesError> {
        self.shown = self.settings.volumes.questions()?.into_iter().collect();
        Ok(())
    }

    /// Returns whether it is time for a scan.
    fn may_scan(&self, now: Time) -> bool {
        self.scanner.is_some()
            && self.scan_at <= now
            && self.effects.is_ready(&ExchangeKey::Scan, now)
    }

    /// Checks the watches before a scan, if it is time to. Returns whether folders were made again that had been
    /// removed with their files.
    pub fn check_watches(&mut self, now: Time) -> bool {
        if !self.may_scan(now) || self.check_at > now {
            return false;
        }
        self.check_at = now.plus(self.settings.config.timing.scan);
        self.watch.check()
    }

    /// Scans the folders if it is time to, and returns what is new; a scan that takes long runs beside the loop, and
    /// a later call returns its result. The caller reports to [`Self::applied`] what became of it.
    pub fn scan(&mut self, now: Time, routes: &RoutingTable) -> Option<FoundInput> {
        if self.scanned.is_none() && self.may_scan(now) {
            self.begin_scan(now, routes);
        }
        let (mut found, scan, began) = self.scanned.take()?;
        let postponed = self.postpone(&mut found);
        let names = found.reports.iter();
        self.handed_over = names.map(|arrival| arrival.name.clone()).collect();
        self.more = scan.more;
        self.waiting = scan.waiting || postponed;
        let now = self.settings.now();
        if self.more {
            self.scan_by(now);
        } else if self.waiting {
            self.scan_by(now.plus(SOON));
        }
        if scan.listed {
            self.listed_at = Some(began);
            // Also a question's file that was saved again after its answer counted.
            self.shown.extend(scan.lying);
        }
        if postponed {
            self.listed_at = None;
        }
        Some(found)
    }

    fn begin_scan(&mut self, now: Time, routes: &RoutingTable) {
        let Some(mut scanner) = self.scanner.take() else {
            return;
        };
        self.scan_at = now.plus(self.settings.config.timing.scan);
        let commands: Vec<_> = routes.commands().cloned().collect();
        let questions: Vec<_> = routes.questions().cloned().collect();
        let quick = scanner.last_listed() <= QUICK_SCAN;
        let most = if quick { QUICK_REPORTS } else { MOST_REPORTS };
        let clock = self.settings.clock;
        let scan = move || {
            let scan = scanner.scan(&commands, &questions, most);
            let scanned = scan.map(|mut scan| (parse(&mut scan, now, &clock), scan, now));
            Ok(ExchangeResult::Scanned(Box::new(scanner), scanned))
        };
        match quick {
            true => self.apply(&ExchangeKey::Scan, scan()),
            false => self.effects.start_blocking(ExchangeKey::Scan, now, scan),
        }
    }

    /// Leaves reports for a later scan while a report of the same name is being filed: the name would count as filed.
    /// Returns whether there was one.
    fn postpone(&mut self, found: &mut FoundInput) -> bool {
        let under_way = self.effects.under_way();
        let moves =
            |report: &mut ParsedReport| under_way.contains(&ExchangeKey::File(report.name.clone()));
        let postponed = found.reports.extract_if(.., moves);
        let postponed: Vec<_> = postponed.map(|report| report.name).collect();
        self.forget(&postponed);
        !postponed.is_empty()
    }

    /// Makes a later scan find reports again that were not applied.
    fn forget(&mut self, names: &[String]) {
        if let Some(scanner) = &mut self.scanner {
            names.iter().for_each(|name| scanner.forget(name));
        }
    }

    /// Files reports that were applied. One that counts stays for a while where its agent left it.
    pub fn file(&mut self, filings: Vec<(String, ReportDisposition)>) {
        let now = self.settings.now();
        for (name, filed) in filings {
            let wait = match filed {
                ReportDisposition::Processed => self.settings.config.timing.filing,
                ReportDisposition::Stale | ReportDisposition::Rejected(_) => {
                    tracing::warn!(name, ?filed, "a report that does not count");
                    Duration::ZERO
                }
            };
            self.filings.insert(name, (now.plus(wait), filed));
        }
    }

    /// Writes what is wrong with answers beside the files of their questions.
    pub fn complain(&mut self, complaints: Vec<(QuestionId, String)>) {
        for (id, text) in complaints {
            if let Err(error) = self.settings.volumes.complain(&id, &text) {
                self.effects.trouble("a question's file", error);
            }
        }
    }

    /// Lets a later scan find again what the last one found.
    pub fn find_again(&mut self) {
        let handed_over = std::mem::take(&mut self.handed_over);
        self.forget(&handed_over);
        self.listed_at = None;
    }

    /// Notes whether all that the last scan found was applied; if not, a later scan finds it again.
    pub fn applied(&mut self, applied: Result<()>) {
        if let Err(error) = applied {
            self.find_again();
            self.failed(&ExchangeKey::Scan, &error.to_string());
            return;
        }
        self.handed_over.clear();
        self.effects.succeeded(&ExchangeKey::Scan);
        if !self.more {
            self.scan_began = self.listed_at.or(self.scan_began);
        }
    }

    /// Applies reports to the plans that their commands belong to and that are not carried out here: another plan in
    /// the same folder may be unfinished, or a role waits for what it requested of another one. Returns whether a
    /// report was for a plan.
    ///
    /// # Errors
    /// A failure of the store. A plan that cannot be changed holds up no other.
    pub async fn pass_on(&mut self, strangers: Vec<Stranger>) -> Result<bool> {
        let mut asked = false;
        for (arrival, owner) in strangers {
            let name = arrival.name.clone();
            let of_plan = owner.is_some() && arrival.content.is_ok();
            let filed = match role_requests::pass_on(&self.settings, arrival, owner).await {
                Ok(filed) => {
                    asked |= of_plan;
                    filed
                }
                Err(error @ (StoreError::Database(_) | StoreError::Closed)) => return Err(error),
                Err(error) => {
                    self.effects.trouble("a report for another plan", error);
                    ReportDisposition::Stale
                }
            };
            self.filings.insert(name, (self.settings.now(), filed));
        }
        Ok(asked)
    }

    /// Starts what is missing in the folders: shows and files questions, and files reports; all reports immediately
    /// when the last plan has ended.
    pub fn start(&mut self, now: Time, routes: &RoutingTable, at_once: bool) {
        self.show_questions(now, routes);
        self.file_questions(now, routes);
        self.file_reports(now, at_once);
    }

    /// Returns when an effect in the folders is due next.
    pub fn wakes_at(&self, now: Time) -> Option<Time> {
        let scan = match self.scan_at <= now {
            true => (self.may_scan(now) || self.scanned.is_some()).then_some(now),
            false => Some(self.scan_at),
        };
        let filings = self.filings.values().map(|(at, _)| *at);
        let filings = filings.filter(|at| *at > now);
        let ready = self.effects.next_ready(now);
        filings.chain(scan).chain(ready).min()
    }

    fn show_questions(&mut self, now: Time, routes: &RoutingTable) {
        for (plan, awaited) in &routes.0 {
            for id in awaited.questions.difference(&self.shown) {
                let settings = Arc::clone(&self.settings);
                let (key, plan) = (ExchangeKey::ShowQuestion(id.clone()), plan.clone());
                let (id, wanted, program) = (id.clone(), id.clone(), settings.program.clone());
                self.effects.start(key, now, async move {
                    let text = settings.store.read(&plan, move |plan, _| {
                        let asked = plan.question(&wanted)?;
                        Some(question_file::render(asked, plan, &program))
                    });
                    let text = text.await?;
                    let show = move || {
                        if let Some(text) = text {
                            settings.volumes.write_question(&id, &text)?;
                        }
                        Ok(ExchangeResult::Done)
                    };
                    blocking(show).await
                });
            }
        }
    }

    fn file_questions(&mut self, now: Time, routes: &RoutingTable) {
        let open: BTreeSet<_> = routes.questions().cloned().collect();
        for id in self.shown.difference(&open) {
            let settings = Arc::clone(&self.settings);
            let plans: Vec<PlanId> = routes.0.keys().cloned().collect();
            let (key, id) = (ExchangeKey::FileQuestion(id.clone()), id.clone());
            self.effects.start(key, now, async move {
                let (store, mut elsewhere) = (&settings.store, false);
                let mut asked = find_question(store, &plans, &id).await?;
                if asked.is_none() {
                    asked = asked_by_others(store, &id, true).await?;
                }
                if asked.as_ref().is_some_and(HumanQuestion::open) {
                    return Ok(ExchangeResult::Done);
                }
                if asked.is_none() {
                    asked = asked_by_others(store, &id, false).await?;
                    elsewhere = asked.is_some();
                }
                let file = move || {
                    let volumes = &settings.volumes;
                    let reply = volumes.read_question(&id).unwrap_or_default();
                    let not_taken = asked
                        .as_ref()
                        .and_then(|asked| not_taken(asked, &reply, &settings.program));
                    if let Some(why) = &not_taken {
                        volumes.complain(&id, &format!("{why}.\n"))?;
                        (settings.notice)(why);
                    } else if elsewhere {
                        // The plan may come back.
                        return Ok(ExchangeResult::Done);
                    }
                    volumes.file_question(&id)?;
                    Ok(ExchangeResult::Done)
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
            let volumes = self.settings.volumes.clone();
            let (name, filed) = (name.clone(), filed.clone());
            let key = ExchangeKey::File(name.clone());
            self.effects.start(key, now, async move {
                blocking(move || volumes.file_report(&name, &filed)).await?;
                Ok(ExchangeResult::Done)
            });
        }
    }

    /// Applies the result of an effect in the folder.
    pub fn apply(&mut self, key: &ExchangeKey, result: anyhow::Result<ExchangeResult>) {
        match result {
            Err(error) => {
                if *key == ExchangeKey::Scan {
                    // The scanner went with the scan that panicked.
                    self.scanner = Some(scanner(&self.settings, &self.watch));
                }
                self.failed(key, &format!("{error:#}"));
                return;
            }
            Ok(ExchangeResult::Scanned(scanner, scanned)) => {
                self.effects.over(key);
                self.scanner = Some(*scanner);
                match scanned {
                    Ok(scanned) => self.scanned = Some(scanned),
                    Err(error) => self.failed(key, &error.to_string()),
                }
                return;
            }
            Ok(ExchangeResult::Done) => {}
        }
        match key {
            ExchangeKey::Scan | ExchangeKey::Queue => {}
            ExchangeKey::ShowQuestion(id) => {
                tracing::warn!(question = %id, "a person is asked; `status` shows what");
                self.shown.insert(id.clone());
            }
            ExchangeKey::FileQuestion(id) => drop(self.shown.remove(id)),
            ExchangeKey::File(name) => drop(self.filings.remove(name)),
        }
        self.effects.succeeded(key);
    }

    fn failed(&mut self, key: &ExchangeKey, error: &str) {
        self.effects.failed(key, self.settings.now(), error);
    }
}

/// Makes a scanner that has read no file yet.
fn scanner(settings: &FolderSettings, watch: &Watch) -> Scanner {
    Scanner::new(
        &settings.volumes,
        watch.hints(),
        settings.config.timing.scan,
    )
}

async fn find_question(
    store: &Store,
    plans: &[PlanId],
    id: &QuestionId,
) -> Result<Option<HumanQuestion>> {
    for plan in plans {
        let wanted = id.clone();
        let asked = store.read(plan, move |plan, _| plan.question(&wanted).cloned());
        match asked.await {
            Ok(Some(asked)) => return Ok(Some(asked)),
            // Removed since it was listed.
            Ok(None) | Err(StoreError::UnknownPlan(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns an open question of a plan that this daemon does not carry out: one of this folder reads what a person has written into
/// the file when it goes on, one that another folder has now does not.
async fn asked_by_others(
    store: &Store,
    id: &QuestionId,
    own: bool,
) -> Result<Option<HumanQuestion>> {
    let mut plans = store.plans().await?;
    plans.retain(|ListedPlan { head, .. }| head.may_ask() && store.is_own(head) == own);
    let plans: Vec<PlanId> = plans.into_iter().map(|listed| listed.head.id).collect();
    let asked = find_question(store, &plans, id).await?;
    Ok(asked.filter(HumanQuestion::open))
}

/// Returns the message to a person whose answer in the file of a question is not taken: it came after another one, or another folder
/// has the plan now.
fn not_taken(asked: &HumanQuestion, said: &str, program: &str) -> Option<String> {
    let (choice, _) = question_file::parse(said).ok()??;
    let (id, word) = (&asked.id, choice.as_str());
    let Some(counted) = &asked.answer else {
        return asked.open().then(|| format!(
            "question `{id}` is of a plan that another folder has now, so `{word}` in its file here is not taken: `{program} answer {id} {word}` gives it"
        ));
    };
    let refusal = Refusal::AlreadyAnswered(id.clone(), counted.clone());
    (choice != counted.choice).then(|| format!("{refusal}; `{word}` in its file came too late"))
}
