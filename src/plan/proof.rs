//! Which criteria of a task a result proves. A proof is a check that was chosen before the work, failed then, and passes now.

use super::*;

/// Ends the reason why a check fails that passes only with an agent's version of what judges.
pub const NOT_PERMITTED: &str = "which no `may_change` permits";

/// The most changed files that the evidence names.
const EVIDENT: usize = 10;

/// Returns how each criterion of a task ends with the result of an attempt, in their order. A task in whose plan nothing is
/// stated has one criterion, without words.
///
/// A criterion is bound to its own proof. Where a task has only one, and no proof stands beside it, all checks that run on the
/// result are its proof.
pub fn criteria(task: &Task, attempt: &Attempt) -> Vec<CriterionResult> {
    let unstated = [Criterion::default()];
    let list = match task.criteria.list() {
        [] => &unstated,
        list => list,
    };
    let of_all = list.len() == 1;
    let end = |criterion: &Criterion| {
        let name = criterion.proof.as_ref().map(Proof::check_name);
        let is_bound =
            |result: &&CheckResult| name.as_ref().map_or(of_all, |name| result.name == *name);
        let bound: Vec<_> = (attempt.checks.iter().flatten().filter(is_bound)).collect();
        let missing = match &name {
            Some(name) => format!("`{name}` did not run"),
            None => "no check is bound to it".to_owned(),
        };
        let (state, why) = ended(task, attempt, &bound, missing);
        let text = criterion.text.clone();
        CriterionResult { text, state, why }
    };
    list.iter().map(end).collect()
}

/// Returns whether every criterion of a task is proven by the result of an attempt.
pub fn proven(task: &Task, attempt: &Attempt) -> bool {
    all_met(&criteria(task, attempt))
}

fn all_met(criteria: &[CriterionResult]) -> bool {
    let mut ends = criteria.iter();
    ends.all(|end| end.state == CriterionState::Met)
}

/// Doubts the result of a check if only a model says that it proves what is expected of a task. Those of the plan are a person's
/// choice, but not for which of several criteria they stand.
pub fn doubt_choice_of_model(plan: &Plan, task: &Task, result: &mut CheckResult) {
    let of_plan = plan.head().policy.checks.contains(&result.name);
    let by_person = of_plan && task.criteria.list().len() <= 1;
    if task.is_soft() && !task.reviewed && !by_person && result.doubt.is_empty() {
        "a model chose it as proof, and no person has reviewed that".clone_into(&mut result.doubt);
    }
}

/// Returns the names of the checks that run on the results of a task: those of the plan, then its own.
pub fn check_names<'a>(plan: &'a Plan, task: &'a Task) -> impl Iterator<Item = &'a String> {
    let of_plan = &plan.head().policy.checks;
    let own = task.checks.iter().filter(|name| !of_plan.contains(name));
    of_plan.iter().chain(own)
}

/// Returns whether a task has what can prove it: checks, or properties of files.
pub fn is_provable(plan: &Plan, task: &Task) -> bool {
    check_names(plan, task).next().is_some() || task.criteria.files().next().is_some()
}

/// Returns whether something is checked on the results of a task.
pub fn is_checked(plan: &Plan, task: &Task) -> bool {
    is_provable(plan, task) || !task.produces.is_empty()
}

/// Returns the evidence for the result of an attempt.
pub(super) fn evidence(task: &Task, attempt: &Attempt) -> Evidence {
    let checks = attempt.checks.iter().flatten();
    let checked = checks.map(|check| format!("{}: {}", check.name, check.outcome()));
    let changed = attempt.changes.iter().map(|changes| {
        let files = changes.text(EVIDENT);
        match attempt.number {
            number @ 2.. if changes.files.is_empty() => {
                format!("{files} in attempt {number}, the last")
            }
            _ => files,
        }
    });
    let criteria = criteria(task, attempt);
    Evidence {
        proven: all_met(&criteria),
        by_hand: false,
        facts: checked.chain(changed).chain(attempt.remarks()).collect(),
        criteria,
    }
}

/// Judges a criterion by the results of its checks: one that fails is enough to lose it, one that proves it to meet it.
fn ended(
    task: &Task,
    attempt: &Attempt,
    bound: &[&CheckResult],
    missing: String,
) -> (CriterionState, String) {
    if let Some(failed) = bound.iter().find(|result| !result.passed) {
        let why = format!("{}: {}", failed.name, failed.outcome());
        return (CriterionState::NotMet, why);
    }
    let mut reasons = Vec::new();
    for result in bound {
        match proves(task, attempt, result) {
            Ok(why) => return (CriterionState::Met, why),
            Err(why) => reasons.push(why),
        }
    }
    let why = match reasons.as_slice() {
        [] => missing,
        reasons => reasons.join("; "),
    };
    (CriterionState::NotProven, why)
}

/// Returns what a passed check proves, or why it proves nothing.
pub(super) fn proves(
    task: &Task,
    attempt: &Attempt,
    result: &CheckResult,
) -> Result<String, String> {
    let name = &result.name;
    if let Some(others) = attempt.company() {
        return Err(format!("{name} passes, but {others}"));
    }
    if !result.doubt.is_empty() {
        return Err(format!("{name} passes, but {}", result.doubt));
    }
    if let Some(results) = &task.merged_beside {
        return Err(format!(
            "{name} passes, but the results of plan {results} came into the same folder"
        ));
    }
    let before = task.before.iter().find(|before| before.name == *name);
    match before.map(|before| &before.outcome) {
        Some(Before::Red) => Ok(format!("{name}: failed before, {} now", result.outcome())),
        _ if !result.new_tests.is_empty() => Ok(format!(
            "{name}: failed before with tests that the agent wrote ({}), {} now",
            result.new_tests,
            result.outcome()
        )),
        Some(Before::Green) => Err(format!("{name} passed before the work, too")),
        Some(Before::Unknown(why)) => Err(format!("{name} passes; before the work: {why}")),
        None if name.starts_with("file ") => Err(format!(
            "{name} passes; it was not looked at before the work"
        )),
        None => Err(format!("{name} passes; it did not run before the work")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::model::{
        Before, ChangeDetection, ChangedFiles, CheckBefore, CommandId, Criteria, Proof, TaskId,
        TaskSpec, Time,
    };
    use crate::plan::tests::testing::rows;

    /// Returns the states of criteria, where there are: a word for each criterion, which is the check that proves it or `none`;
    /// how the check `test` ended before the work; the checks that ran, with `!` before those that failed; and the tasks beside.
    fn judged([criteria, before, results, beside]: [&str; 4]) -> String {
        let criterion = |check: &str| Criterion {
            text: "It works".to_owned(),
            proof: (check != "none").then(|| Proof::Check(check.to_owned())),
        };
        let spec = TaskSpec {
            criteria: Criteria::new(criteria.split_whitespace().map(criterion)),
            ..TaskSpec::default()
        };
        let outcome = |before: &str| match before {
            "red" => Before::Red,
            "green" => Before::Green,
            _ => Before::Unknown("no test ran".to_owned()),
        };
        let check = |before: &str| CheckBefore {
            name: "test".to_owned(),
            outcome: outcome(before),
            tests: None,
            command: String::new(),
        };
        let result = |name: &str| CheckResult {
            name: name.trim_start_matches('!').to_owned(),
            exit: Some(i32::from(name.starts_with('!'))),
            passed: !name.starts_with('!'),
            ..CheckResult::default()
        };
        let mut task = Task::new(TaskId(1), spec, Time(0));
        task.before = before.split_whitespace().map(check).collect();
        let mut attempt = Attempt::new(CommandId::new("task-1"), TaskId(1), 1, Time(0));
        attempt.checks = Some(results.split_whitespace().map(result).collect());
        let beside = beside.split_whitespace().map(|id| id.parse().unwrap());
        attempt.beside = beside.map(TaskId).collect();
        let states = super::criteria(&task, &attempt).into_iter();
        let states: Vec<String> = states.map(|end| format!("{:?}", end.state)).collect();
        states.join(" ")
    }

    #[test]
    fn evidence_says_which_attempt_changed_nothing() {
        let task = Task::new(TaskId(1), TaskSpec::default(), Time(0));
        let facts = |number| {
            let mut attempt = Attempt::new(CommandId::new("task-1"), TaskId(1), number, Time(0));
            attempt.changes = Some(ChangedFiles::new(ChangeDetection::Git, Vec::new()));
            evidence(&task, &attempt).facts
        };
        assert_eq!(facts(1), ["no file changed"]);
        assert_eq!(facts(4), ["no file changed in attempt 4, the last"]);
    }

    #[test]
    fn only_red_before_and_green_now_proves() {
        let table = "
            Met | test | red | test | -
            NotProven | test | green | test | -
            NotProven | test | unknown | test | -
            NotProven | test | - | test | -
            NotMet | test | red | !test | -
            NotProven | test | red | - | -
            NotProven | test | red | test | 2
            // Nothing stands beside the only criterion: every check is its proof.
            Met | none | red | test lint | -
            Met | - | red | test | -
            NotMet | none | red | test !lint | -
            NotProven | none | - | - | -
            Met NotProven | test none | red | test lint | -";
        for [states, given @ ..] in rows::<5>(table) {
            let found = judged(given.each_ref().map(String::as_str));
            assert_eq!(found, states, "{given:?}");
        }
    }

    #[test]
    fn criteria_are_read_as_text_and_as_list() {
        let read = |json: &str| serde_json::from_str::<Criteria>(json).unwrap();
        assert_eq!(read("\"a\""), Criteria::plain("a"));
        assert_eq!(read("null"), Criteria::default());
        let list = read(r#"["a", {"text": "b", "check": "test"}, {"text": "c", "check": null}]"#);
        assert_eq!(list.text(), "1. a\n2. b\n3. c");
        assert_eq!(list.checks().collect::<Vec<_>>(), ["test"]);
        let stored = serde_json::to_string(&list).unwrap();
        assert_eq!(read(&stored), list);
        let asked = r#"[{"look_at": "a.py", "shows": "It has two lines.", "check": "test"},
            {"look_at": "./a", "shows": "`./a` prints 3"}, {"look_at": "b.md", "shows": ""}]"#;
        let list = read(asked);
        assert_eq!(
            list.text(),
            "1. `a.py`: It has two lines.\n2. `./a` prints 3\n3. b.md"
        );
        assert_eq!(list.checks().collect::<Vec<_>>(), ["test"]);
    }
}
