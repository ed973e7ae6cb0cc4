//! The question what follows from a result, and its answer, which is held against the facts and the words that were shown.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::{MAX_REASON, Result, SHORT_ANSWER, Unrendered, Usable, cut, unrendered};
use crate::llm::prompt_context::{facts, obstacle, shown_criteria};
use crate::llm::{PromptTemplate, Schema, prompt_context};
use crate::plan::{
    Attempt, BelievedCriterion, CriterionResult, CriterionState, DecidedBy, Decision, Plan, Task,
    Verdict, proof,
};
use crate::wire::{joined, known_word};

/// Characters at which feedback, summaries and pointers are cut.
const MAX_FEEDBACK: usize = 8_000;
const MAX_SUMMARY: usize = 800;
const MAX_POINTER: usize = 300;

/// So many letters in a row make a quotation; a pointer of fewer, but of at least three, has to be one as a whole.
const QUOTED: usize = 8;

/// A judge that gives a lower confidence, of 100, is not sure.
const SURE: f64 = 30.0;

/// Asks what follows from a result; the caller sets the time of the verdict. `next` is accepted only for SUCCESS and
/// PARTIAL_SUCCESS without a failed check. For each criterion that nothing proves the answer has to say whether it is met, and
/// point to a fact or to words of the report. Stale reports came for other commands of the task and were not applied.
pub fn judge(plan: &Plan, task: &Task, attempt: &Attempt, stale: &[String]) -> Unrendered<Verdict> {
    let shown = Shown::new(task, attempt);
    // A model that is held to the schema cannot even give an answer that would be refused.
    let decisions = match shown.obstacle {
        None => ["next", "retry", "replan", "abort"].as_slice(),
        Some(_) => &["retry", "replan", "abort"],
    };
    let criterion = Schema::Object(vec![
        ("number", Schema::Integer),
        ("pointer", Schema::Text("a label, or words copied")),
        ("met", Schema::one_of(["yes", "no", "unsure"])),
    ]);
    // What a model writes down before the decision makes it think; small models judge better with it. Where nothing can be
    // accepted, what is met would only turn them away from what went wrong.
    let mut fields = vec![
        ("criteria", Schema::list(criterion)),
        ("reason", Schema::Text("what went wrong, if anything")),
        ("can_mend", Schema::Text("yes or no, and why")),
        ("decision", Schema::one_of(decisions.iter().copied())),
        ("confidence", Schema::one_of(["low", "medium", "high"])),
        ("feedback", Schema::Text("for retry and replan")),
        ("result_summary", Schema::Text("for next")),
    ];
    if shown.obstacle.is_some() {
        fields.retain(|(name, _)| !["criteria", "result_summary"].contains(name));
    }
    let schema = Schema::Object(fields);
    let view = prompt_context::judge(plan, task, attempt, stale);
    let read = move |answer: JudgeAnswer| shown.verdict(answer);
    unrendered(PromptTemplate::Judge, view, schema, SHORT_ANSWER, read)
}

#[derive(Deserialize)]
struct JudgeAnswer {
    #[serde(default)]
    criteria: Vec<BelievedCriterion>,
    #[serde(default)]
    reason: String,
    decision: String,
    /// A word, or a number up to 100.
    #[serde(default)]
    confidence: Value,
    feedback: Option<String>,
    result_summary: Option<String>,
}

/// What a judge was shown, and what its answer may therefore say.
struct Shown {
    obstacle: Option<String>,
    criteria: Vec<CriterionResult>,
    /// The numbers of the criteria that there was room for.
    shown: BTreeSet<u32>,
    facts: Vec<String>,
    /// The letters of the facts and of the report.
    letters: String,
}

impl Shown {
    fn new(task: &Task, attempt: &Attempt) -> Self {
        let facts = facts(attempt);
        let report = attempt.report.as_ref().map(|report| report.text());
        let words = facts.join(" ") + &report.unwrap_or_default();
        Self {
            obstacle: obstacle(attempt),
            criteria: proof::criteria(task, attempt),
            shown: shown_criteria(task, attempt).keys().copied().collect(),
            facts,
            letters: letters(&words).collect(),
        }
    }

    /// Returns the verdict, and which pointers point to nothing and which criteria have two answers.
    fn verdict(&self, answer: JudgeAnswer) -> Result<Usable<Verdict>> {
        let low = is_low(&answer.confidence);
        let decision = known_word(&answer.decision.trim().to_ascii_lowercase())
            .ok_or("`decision` must be next, retry, replan or abort")?;
        let (criteria, complaint) = self.believed(answer.criteria)?;
        let said = |met| criteria.iter().find(|criterion| criterion.met == met);
        let missed = said(CriterionState::NotMet).map(|criterion| criterion.number);
        let open = said(CriterionState::NotProven).is_some();
        // Each of the two fields is for one side only; models that must fill every field write text into both.
        let (feedback, result_summary) = match decision {
            Decision::Next => (None, answer.result_summary),
            // Why is what the agent has to know, where the model says no more.
            Decision::Retry => {
                let said = answer.feedback.filter(|said| !said.trim().is_empty());
                (said.or(Some(answer.reason.clone())), None)
            }
            _ => (answer.feedback, None),
        };
        let verdict = Verdict {
            decision,
            reason: cut(&answer.reason, MAX_REASON),
            feedback: cut(&feedback.unwrap_or_default(), MAX_FEEDBACK),
            result_summary: cut(&result_summary.unwrap_or_default(), MAX_SUMMARY),
            by: DecidedBy::Model,
            // What the judge says is not met it points to.
            unsure: low && missed.is_none() || (decision == Decision::Next && open),
            criteria,
            ..Verdict::default()
        };
        let wrong = match (decision, &self.obstacle, missed) {
            (Decision::Next, Some(obstacle), _) => format!("`next` is not possible: {obstacle}"),
            (Decision::Next, None, Some(missed)) => {
                format!("`next` does not go with criterion {missed}, which you say is not met")
            }
            (Decision::Next, ..) if verdict.result_summary.is_empty() => {
                "`next` needs a `result_summary`".to_owned()
            }
            _ if verdict.reason.is_empty() => "`reason` is empty".to_owned(),
            _ => {
                let value = verdict;
                return Ok(Usable { value, complaint });
            }
        };
        Err(joined([Some(wrong), complaint].into_iter().flatten(), "\n"))
    }

    /// Reads what is said of the criteria that nothing proves. What was measured stays as it is.
    fn believed(
        &self,
        answers: Vec<BelievedCriterion>,
    ) -> Result<(Vec<BelievedCriterion>, Option<String>)> {
        let mut complaints = Vec::new();
        let mut believed = BTreeMap::<u32, BelievedCriterion>::new();
        for mut said in answers {
            let number = said.number;
            let known = self.numbered().find(|(at, _)| *at == number);
            let (_, known) = known.ok_or_else(|| {
                let total = self.criteria.len();
                format!("there is no criterion {number}: they are numbered from 1 to {total}")
            })?;
            let pointed = self.pointed(&said.pointer);
            if known.state != CriterionState::NotProven {
                continue;
            }
            if let Some(first) = believed.get(&number).map(|first| first.met) {
                complaints.push(format!("criterion {number} has two answers: give it one"));
                if first != said.met {
                    said.met = CriterionState::NotProven;
                }
            }
            if said.met == CriterionState::Met && pointed.is_none() {
                let way = "point to what shows that it is met, or answer `unsure`";
                complaints.push(format!(
                    "criterion {number}: `pointer` names no fact, such as F1, and no words of the report: {way}"
                ));
                said.met = CriterionState::NotProven;
            }
            if said.met == CriterionState::Met && is_part(&said.pointer) {
                said.met = CriterionState::NotProven;
            }
            said.pointer = cut(&pointed.unwrap_or(said.pointer), MAX_POINTER);
            believed.insert(number, said);
        }
        let unanswered = self.numbered().find(|(number, criterion)| {
            let stated = self.criteria.len() > 1 || !criterion.text.is_empty();
            let open = criterion.state == CriterionState::NotProven && stated;
            let open = open && self.obstacle.is_none() && self.shown.contains(number);
            open && !believed.contains_key(number)
        });
        match unanswered {
            Some((number, _)) => Err(format!("`criteria` says nothing of criterion {number}")),
            None => {
                let complaint = (!complaints.is_empty()).then(|| complaints.join("\n"));
                Ok((believed.into_values().collect(), complaint))
            }
        }
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &CriterionResult)> {
        (1..).zip(&self.criteria)
    }

    /// Returns the fact that a pointer names, or the pointer itself if it quotes a fact or the report.
    fn pointed(&self, pointer: &str) -> Option<String> {
        let words = pointer.split(|letter: char| !letter.is_alphanumeric());
        let labels = words.filter_map(|word| word.strip_prefix(['F', 'f'])?.parse::<usize>().ok());
        let mut named = labels.filter_map(|label| self.facts.get(label.checked_sub(1)?));
        if let Some(fact) = named.next() {
            return Some(fact.clone());
        }
        let quoted: Vec<char> = letters(pointer).collect();
        let size = quoted.len().min(QUOTED);
        let mut parts = quoted.windows(size.max(3));
        let found = parts.any(|part| self.letters.contains(&part.iter().collect::<String>()));
        found.then(|| pointer.to_owned())
    }
}

/// Returns whether words speak of a part, such as `20 of 42`: they do not show that the whole is there.
fn is_part(words: &str) -> bool {
    let words: Vec<&str> = words.split_whitespace().collect();
    words.windows(3).any(|three| {
        let numbers = [three[0], three[2]].map(|word| word.parse::<u32>());
        matches!(numbers, [Ok(part), Ok(whole)] if three[1] == "of" && part < whole)
    })
}

/// Returns the letters and digits of a text, small.
fn letters(text: &str) -> impl Iterator<Item = char> {
    let letters = text.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase)
}

fn is_low(confidence: &Value) -> bool {
    let word = confidence.as_str().map(str::to_lowercase);
    let word = word.unwrap_or_else(|| confidence.to_string());
    // Some models give a fraction.
    let percent = |number: f64| number * if number <= 1.0 { 100.0 } else { 1.0 };
    let number = word.trim_end_matches('%').parse::<f64>();
    word == "low" || number.is_ok_and(|number| percent(number) < SURE)
}
