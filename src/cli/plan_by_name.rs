//! The plan or the question that a person means by a few letters, or by none.

use anyhow::anyhow;

use super::{App, Failure, Result, complain};
use crate::plan::{
    AnswerChoice, ArchiveState, DAEMON, HumanQuestion, PlanHead, PlanId, QuestionId, ROLE, TaskId,
};
use crate::store::{ListedPlan, Store};
use crate::view::{ProgramName, StateWord};
use crate::volumes::DaemonInfo;
use crate::wire::one_line;

/// The longest name in a list of candidates.
const NAME: usize = 60;

/// The most candidates that are listed.
const CANDIDATES: usize = 20;

/// The longest name of a folder with its machine.
const HOME: usize = 400;

/// A question with its plan.
type Asked = (PlanId, HumanQuestion);

impl App {
    /// Returns the plan that is meant: by its key, its id or their beginning; else of those that a daemon carries out, or of
    /// those of the tools where there are no others, the newest unfinished one, else the newest. A plan of another folder is
    /// meant only by its name, or where this folder has none.
    ///
    /// # Errors
    /// None or several fit; the candidates are named.
    pub async fn plan(&self, named: Option<&str>) -> Result<PlanId> {
        Ok(self.head(named).await?.id)
    }

    async fn head(&self, named: Option<&str>) -> Result<PlanHead> {
        let store = self.store().await?;
        let mut plans = store.plans().await?;
        if plans.is_empty() {
            return Err(self.no_plans());
        }
        if named.is_none() {
            keep_own(&mut plans, store);
        }
        let head = pick_plan(&plans, named, &self.program, |head| self.carries_out(head))?;
        if named.is_none() {
            say_which(&plans, &head, store);
        }
        Ok(head)
    }

    /// Returns the plan that is meant, as [`App::plan`], if it is one that a daemon carries out.
    ///
    /// # Errors
    /// As [`App::plan`], or the plan is carried out by the callers of the tools that made it.
    pub async fn plan_to_carry_out(&self, named: Option<&str>) -> Result<PlanId> {
        let head = self.head(named).await?;
        if head.owner == DAEMON {
            return Ok(head.id);
        }
        let (program, id, by) = (&self.program, &head.id, head.carried_out_by());
        let hint = format!("`{program} show {id} > FILE` and `{program} run --plan FILE`");
        Err(
            Failure::usage(anyhow!("plan `{id}` is carried out by {by}"))
                .hint(format!("{hint} make a plan of your own of it")),
        )
    }

    /// Returns the plan that a person changes, as [`App::plan_to_carry_out`]; where daemons carry several out, none is meant by
    /// no name.
    ///
    /// # Errors
    /// As [`App::plan_to_carry_out`], or several are meant.
    pub async fn plan_to_change(&self, named: Option<&str>) -> Result<PlanId> {
        if named.is_none() {
            let open = self.unfinished_plans().await?;
            let at_work = open.iter().filter(|head| self.carries_out(head));
            let at_work: Vec<&PlanHead> = at_work.collect();
            if at_work.len() > 1 {
                return Err(self.which_of(&at_work));
            }
        }
        self.plan_to_carry_out(named).await
    }

    /// Returns the newest plan that has ended with results that nobody has taken over or discarded, else the one that is meant by
    /// no name. Says which where that is not clear.
    ///
    /// # Errors
    /// As [`App::plan_to_carry_out`].
    pub async fn plan_to_merge(&self) -> Result<PlanId> {
        let store = self.store().await?;
        let plans = store.plans().await?;
        let waits = plans.iter().map(|plan| &plan.head).find(|head| {
            let own = head.owner == DAEMON && store.require_home(head).is_ok();
            own && head.status.settled()
                && head.has_results()
                && head.archive_state != ArchiveState::Deleted
        });
        match waits {
            Some(head) => {
                say_which(&plans, head, store);
                Ok(head.id.clone())
            }
            None => self.plan_to_carry_out(None).await,
        }
    }

    /// Returns the only plan of a daemon that has not ended: what cannot be undone is done to no other one unnamed.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub async fn only_unfinished_plan(&self) -> Result<PlanId> {
        match self.unfinished_plans().await?.as_slice() {
            [one] => Ok(one.id.clone()),
            [] => Err(Failure::usage(anyhow!("no plan here is unfinished"))
                .hint(format!("`{} plans` lists them", self.program))),
            several => Err(self.which_of(&several.iter().collect::<Vec<_>>())),
        }
    }

    /// Returns the plans of daemons that have not ended.
    async fn unfinished_plans(&self) -> Result<Vec<PlanHead>> {
        let store = self.store().await?;
        let mut plans = store.plans().await?;
        keep_own(&mut plans, store);
        let heads = plans.into_iter().map(|plan| plan.head);
        let heads = heads.filter(|head| {
            let left = head.archive_state != ArchiveState::Deleted;
            head.owner == DAEMON && !head.status.settled() && left
        });
        Ok(heads.collect())
    }

    /// Names the newest plan but a new one that is not over, and that no daemon carries out: its daemon may have ended unseen. This
    /// process, which has the folder, carries out none yet.
    ///
    /// # Errors
    /// The plans cannot be read.
    pub async fn warn_of_stopped_plan(&self, new: &PlanId) -> Result {
        let left = self.unfinished_plans().await?;
        let mut stopped = left.iter().filter(|head| {
            StateWord::of_plan(head, self.is_carried_out(&head.id)) == StateWord::Stopped
        });
        let stopped = stopped.find(|head| head.id != *new && head.queue.is_none());
        if let Some(PlanHead { id, name, .. }) = stopped {
            let (name, program) = (one_line(name, NAME), &self.program);
            complain!(
                "! plan {id} · {name} is stopped and not over: `{program} resume {id}` goes on"
            );
        }
        Ok(())
    }

    fn which_of(&self, plans: &[&PlanHead]) -> Failure {
        Failure::usage(anyhow!("which plan is meant?"))
            .hint(candidates(plans, |head| self.carries_out(head)))
    }

    /// Returns that a plan has no such task.
    pub fn no_task(&self, plan: &PlanId, task: TaskId) -> Failure {
        Failure::usage(anyhow!("plan `{plan}` has no task `{task}`"))
            .hint(format!("`{} status {plan}` shows the tasks", self.program))
    }

    /// Returns the question that is meant, with its plan: by the number of its task, the beginning or the end of its id, else the
    /// only open one; but by an id, of this folder if it has plans.
    ///
    /// # Errors
    /// None or several fit; the candidates are named.
    pub async fn question(&self, named: Option<&str>) -> Result<Asked> {
        let mut found = Vec::new();
        // The number of a task is no id: that of another question may end with it.
        let any = named.is_some_and(|named| task_named(named).is_none());
        let store = self.store().await?;
        let mut plans = store.plans().await?;
        if !any {
            keep_own(&mut plans, store);
        }
        for ListedPlan { head, .. } in plans {
            // Only a daemon asks.
            if head.owner == DAEMON && (any || !head.status.settled()) {
                let questions = self.read(&head.id, move |plan, _| {
                    let meant = plan.questions().filter(|question| any || question.open());
                    let meant = meant.map(|question| (plan.id().clone(), question.clone()));
                    meant.collect::<Vec<_>>()
                });
                found.extend(questions.await?);
            }
        }
        pick_question(found, named, &self.program)
    }

    /// Returns the folder that a plan belongs to, if that is another one, and whether a daemon there carries it out.
    ///
    /// # Errors
    /// The plan cannot be read.
    pub async fn elsewhere(&self, plan: &PlanId) -> Result<Option<(String, bool)>> {
        let store = self.store().await?;
        let head = self.read(plan, |plan, _| plan.head().clone()).await?;
        let Some(home) = store.elsewhere(&head) else {
            return Ok(None);
        };
        let held = store.held_elsewhere().await?.contains_key(plan);
        Ok(Some((one_line(home, HOME), held)))
    }

    /// Returns whether a daemon works on a plan now.
    pub fn carries_out(&self, head: &PlanHead) -> bool {
        self.volumes.daemon_of(&head.id).is_some()
    }

    /// Returns whether a daemon has said that it works on a plan.
    pub fn is_carried_out(&self, plan: &PlanId) -> bool {
        let daemon = self.volumes.daemon_of(plan);
        daemon.is_some_and(|daemon| daemon.plans.is_some())
    }

    /// Returns the process that carries out plans here, if one does.
    pub fn daemon(&self) -> Option<u32> {
        self.volumes.running().map(|daemon| daemon.pid)
    }

    /// Says that the daemon here does nothing, if a signal keeps it from running.
    pub fn warn_of_suspended_daemon(&self) {
        if let Some(DaemonInfo { pid, .. }) =
            self.volumes.running().filter(DaemonInfo::is_suspended)
        {
            complain!(
                "! the daemon (pid {pid}) is suspended, and its plans stand still\nHint: `bg` or `fg` in its terminal, or `kill -CONT {pid}`, lets it go on"
            );
        }
    }
}

/// Leaves out the plans of other folders, if a daemon has carried out one of this folder.
pub fn keep_own(plans: &mut Vec<ListedPlan>, store: &Store) {
    let is_own = |ListedPlan { head, .. }: &ListedPlan| store.elsewhere(head).is_none();
    let of_daemon = |ListedPlan { head, .. }: &ListedPlan| {
        head.owner == DAEMON && head.archive_state != ArchiveState::Deleted
    };
    if plans.iter().any(|plan| is_own(plan) && of_daemon(plan)) {
        plans.retain(is_own);
    }
}

pub fn pick_plan(
    plans: &[ListedPlan],
    named: Option<&str>,
    program: &ProgramName,
    carries_out: impl Fn(&PlanHead) -> bool,
) -> Result<PlanHead> {
    let mut heads = plans.iter().map(|plan| &plan.head);
    let mut kept = (heads.clone()).filter(|head| head.archive_state != ArchiveState::Deleted);
    // What a role makes of a task is meant only by its whole name.
    let offered = kept.clone().filter(|head| head.owner != ROLE);
    let Some(named) = named else {
        // The store lists the newest first, and the first of several minima is taken.
        let meant = offered.min_by_key(|head| {
            let waits = head.queued_for().is_some();
            (head.owner != DAEMON, head.status.settled(), waits)
        });
        return meant.cloned().ok_or_else(|| {
            Failure::usage(anyhow!("no plan here is left: which one is meant?"))
                .hint(format!("`{program} plans --all` lists them"))
        });
    };
    if named.is_empty() {
        let failure = Failure::usage(anyhow!("the plan that is named has no name"));
        return Err(failure.hint("is a variable of your script not set?"));
    }
    let exact = kept.find(|head| head.key() == named);
    if let Some(exact) = exact.or_else(|| heads.find(|head| head.id.as_str() == named)) {
        return Ok(exact.clone());
    }
    let begins =
        |head: &&PlanHead| head.key().starts_with(named) || head.id.as_str().starts_with(named);
    let fits: Vec<&PlanHead> = offered.clone().filter(begins).collect();
    let (found, heads) = match fits.as_slice() {
        [one] => return Ok((*one).clone()),
        [] => ("no plan", offered.collect()),
        _ => ("more than one plan", fits),
    };
    let error = anyhow!("{found} has an id that begins with `{named}`");
    Err(Failure::usage(error).hint(candidates(&heads, carries_out)))
}

/// Says which plan is meant where a person who names none may mean another one: there is a newer one, or several are not over, or
/// it is of another folder.
fn say_which(plans: &[ListedPlan], picked: &PlanHead, store: &Store) {
    let heads = plans.iter().map(|plan| &plan.head);
    let heads = heads.filter(|head| head.archive_state != ArchiveState::Deleted);
    let mut of_daemons = heads.filter(|head| head.owner == DAEMON).peekable();
    let newer = of_daemons.peek().is_some_and(|first| first.id != picked.id);
    let several = of_daemons.filter(|head| !head.status.settled()).count() > 1;
    let home = store.elsewhere(picked);
    if newer || several || home.is_some() {
        let (id, name) = (&picked.id, one_line(&picked.name, NAME));
        let of = home.map_or(String::new(), |home| {
            format!(" · of {}", one_line(home, HOME))
        });
        complain!("plan {id} · {name}{of}");
    }
}

fn candidates(heads: &[&PlanHead], carries_out: impl Fn(&PlanHead) -> bool) -> String {
    let lines = heads.iter().map(|head| {
        let (key, name) = (one_line(head.key(), NAME), one_line(&head.name, NAME));
        let state = StateWord::of_plan(head, carries_out(head)).as_str();
        format!("{key}  {state:<11}  {name}")
    });
    list("the plans here:", lines)
}

fn pick_question(
    mut fits: Vec<Asked>,
    named: Option<&str>,
    program: &ProgramName,
) -> Result<Asked> {
    let about = |task: TaskId| {
        let mut open = fits.iter().filter(|(_, question)| question.open());
        open.any(|(_, question)| question.task == Some(task))
    };
    let task = named.and_then(task_named);
    // An id may end in digits only.
    let is_task = |task: &TaskId| about(*task) || named.is_none_or(|named| named.len() < LEAST);
    let task = task.filter(is_task);
    fits.retain(|(_, question)| match (task, named) {
        (Some(task), _) => question.task == Some(task),
        (None, Some(named)) => is_named(&question.id, named),
        (None, None) => true,
    });
    if fits.iter().any(|(_, question)| question.open()) {
        fits.retain(|(_, question)| question.open());
    }
    match (fits.len(), named) {
        (1, _) => Ok(fits.remove(0)),
        (0, None) => Err(Failure::failed(anyhow!("no question is open"))),
        (0, Some(named)) => {
            let hint = match AnswerChoice::parse(named) {
                Some(_) => format!("a note is given so: `{program} answer {named} --note TEXT`"),
                None => format!("`{program} status` shows the open ones"),
            };
            let error = match task {
                Some(task) => anyhow!("no question about task {task} is open"),
                None => anyhow!("there is no question `{named}`"),
            };
            Err(Failure::usage(error).hint(hint))
        }
        (_, _) => {
            let lines = fits.iter().map(|(plan, question)| {
                let reason = one_line(&question.reason, NAME);
                let task = question.task.map(|task| format!("task {task}: "));
                format!(
                    "{}  plan {plan}  {}{reason}",
                    question.id,
                    task.unwrap_or_default()
                )
            });
            let error = match named {
                Some(named) => anyhow!("more than one question is named `{named}`"),
                None => anyhow!("more than one question is open"),
            };
            Err(Failure::usage(error).hint(list("name one of these before the choice:", lines)))
        }
    }
}

/// The least characters of the end of an id.
const LEAST: usize = 3;

fn task_named(named: &str) -> Option<TaskId> {
    named.parse().ok().map(TaskId)
}

fn is_named(id: &QuestionId, named: &str) -> bool {
    let id = id.as_str();
    let short = id.strip_prefix("question-").unwrap_or(id);
    let ends = named.len() >= LEAST && id.ends_with(named);
    !named.is_empty() && (id.starts_with(named) || short.starts_with(named) || ends)
}

fn list(title: &str, lines: impl ExactSizeIterator<Item = String>) -> String {
    let more = lines.len().saturating_sub(CANDIDATES);
    let rest = (more > 0).then(|| format!("… {more} more"));
    let lines = lines.take(CANDIDATES).chain(rest);
    lines.fold(title.to_owned(), |list, line| format!("{list}\n  {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanState;
    use crate::view::tests::sample_plan;

    fn listed(id: &str, status: PlanState) -> ListedPlan {
        let mut head = sample_plan::plan().head().clone();
        head.id = PlanId::new(id);
        head.status = status;
        ListedPlan { seq: 1, head }
    }

    fn picked(plans: &[ListedPlan], named: Option<&str>) -> String {
        match pick_plan(plans, named, &ProgramName::with(None, None), |_| false) {
            Ok(head) => head.id.to_string(),
            Err(failure) => failure.text(),
        }
    }

    #[test]
    fn picks_unfinished_or_newest_plan() {
        let plans = [
            listed("newest", PlanState::Completed),
            listed("middle", PlanState::Running),
            listed("oldest", PlanState::Failed),
        ];
        assert_eq!(picked(&plans, None), "middle");
        assert_eq!(picked(&plans[..1], None), "newest");
        assert_eq!(picked(&plans, Some("ol")), "oldest");
    }

    #[test]
    fn picks_tool_plan_by_name_and_deleted_by_id() {
        let mut plans = [
            listed("release~2", PlanState::Running),
            listed("release", PlanState::Running),
            listed("done", PlanState::Completed),
        ];
        plans[0].head.key = Some("release".to_owned());
        for plan in &mut plans[..2] {
            plan.head.owner = "tasks".to_owned();
        }
        assert_eq!(picked(&plans, Some("release~2")), "release~2");
        // Where no daemon has a plan, that of a tool is meant.
        assert_eq!(picked(&plans[..2], None), "release~2");
        plans[1].head.archive_state = ArchiveState::Deleted;
        assert_eq!(picked(&plans, None), "done");
        assert_eq!(picked(&plans, Some("release")), "release~2");
        assert_eq!(picked(&plans, Some("rel")), "release~2");
        plans[0].head.archive_state = ArchiveState::Deleted;
        assert_eq!(picked(&plans, Some("release")), "release");
        insta::assert_snapshot!(picked(&plans[..2], None), @r"
        error: no plan here is left: which one is meant?
        Hint: `plan-agent plans --all` lists them
        ");
        insta::assert_snapshot!(picked(&plans, Some("rel")), @r"
        error: no plan has an id that begins with `rel`
        Hint: the plans here:
          done  completed    Word counter
        ");
    }

    #[test]
    fn unknown_or_ambiguous_name_lists_plans() {
        let plans = [
            listed("abca", PlanState::Running),
            listed("abcd", PlanState::Idle),
            listed("ab", PlanState::Idle),
        ];
        assert_eq!(picked(&plans, Some("ab")), "ab");
        insta::assert_snapshot!(picked(&plans, Some("abc")), @r"
        error: more than one plan has an id that begins with `abc`
        Hint: the plans here:
          abca  stopped      Word counter
          abcd  not started  Word counter
        ");
        insta::assert_snapshot!(picked(&plans, Some("x")), @r"
        error: no plan has an id that begins with `x`
        Hint: the plans here:
          abca  stopped      Word counter
          abcd  not started  Word counter
          ab  not started  Word counter
        ");
    }

    #[test]
    fn question_matches_either_end_of_id() {
        let id = QuestionId::new("question-0192ab-77f");
        for named in ["question-0192ab-77f", "0192", "question-0", "77f"] {
            assert!(is_named(&id, named), "{named}");
        }
        for named in ["", "92ab", "uestion"] {
            assert!(!is_named(&id, named), "{named}");
        }
    }
}
