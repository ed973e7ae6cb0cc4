//! What is expected of a task, in numbered criteria, and how each of them ended.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::number_as_written;

/// One thing that is expected of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    pub text: String,
    /// What proves it, chosen before the work; without it, a judge can only believe the criterion.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// A criterion as a model is asked for it: a weak one that has only a text to give names a file, and nothing of it.
#[derive(Deserialize)]
struct SeenCriterion {
    /// A file, or a command.
    look_at: String,
    /// What is in it, or what it prints.
    shows: String,
    #[serde(default, flatten)]
    proof: Option<Proof>,
}

impl SeenCriterion {
    fn criterion(self) -> Criterion {
        let (place, shows) = (self.look_at.trim(), self.shows.trim());
        let place = place.trim_matches('`');
        let named = [" ", "`"].map(|before| format!("{before}{place}"));
        let text = match named
            .iter()
            .any(|named| format!(" {shows}").contains(named))
        {
            true => shows.to_owned(),
            false if shows.is_empty() => place.to_owned(),
            false => format!("`{place}`: {shows}"),
        };
        let proof = self.proof;
        Criterion { text, proof }
    }
}

/// What proves a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A configured check, by its name.
    Check(String),
    /// A file in the workspace that has this property.
    File(FileProperty),
}

/// A file that a task produces, with what must be true of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileProperty {
    /// From the workspace; see [`crate::plan::within_workspace`].
    pub path: String,
    /// A text that stands in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// The least number of lines that are not blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u32>,
}

impl FileProperty {
    /// Returns the path and the property as a person writes them: `PATH, lines: N` or `PATH, contains: TEXT`.
    pub fn stated(&self) -> String {
        match (self.lines, &self.contains) {
            (Some(lines), _) => format!("{}, lines: {lines}", self.path),
            (None, Some(text)) => format!("{}, contains: {text}", self.path),
            (None, None) => self.path.clone(),
        }
    }
}

impl fmt::Display for FileProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.stated())
    }
}

impl Proof {
    /// Returns the name of the result of the check that proves it: see [`super::CheckResult::name`].
    pub fn check_name(&self) -> String {
        match self {
            Self::Check(name) => name.clone(),
            Self::File(file) => file.to_string(),
        }
    }
}

/// All that is expected of a task. A text without a list is one criterion. In JSON it is a text, or a list of texts and
/// [`Criterion`]s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria(Vec<Criterion>);

impl Criteria {
    /// Makes criteria of a list; empty ones are left out.
    pub fn new(list: impl IntoIterator<Item = Criterion>) -> Self {
        let list = list.into_iter().map(|criterion| Criterion {
            text: criterion.text.trim().to_owned(),
            ..criterion
        });
        let stated = list.filter(|criterion| !criterion.text.is_empty());
        Self(stated.collect())
    }

    /// Makes one criterion of a text without any proof, as tools and models give it; none of an empty text.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        match text.trim() {
            "" => Self::default(),
            _ => Self(vec![Criterion { text, proof: None }]),
        }
    }

    /// Returns the same words without proofs: who gives them may not choose what proves them.
    #[must_use]
    pub fn unbound(self) -> Self {
        let texts = self.0.into_iter().map(|criterion| criterion.text);
        Self(texts.map(|text| Criterion { text, proof: None }).collect())
    }

    /// Returns these criteria in other words, which come without proofs: those that a proof stands beside stay as they are, and the
    /// words replace the others. A numbered list, as [`Self::text`] writes it, is read as one. `None` if one criterion would be
    /// left of several: all checks would be its proof.
    #[must_use]
    pub fn reworded(&self, words: &Self) -> Option<Self> {
        if words.text() == self.text() {
            return Some(self.clone());
        }
        let mut list = self.0.clone();
        list.retain(|one| one.proof.is_some());
        let is_bound = !list.is_empty();
        for text in words.0.iter().flat_map(|one| in_list(&one.text)) {
            if !list.iter().any(|one| one.text == text) {
                let text = text.to_owned();
                list.push(Criterion { text, proof: None });
            }
        }
        (is_bound || list.len() > 1 || self.0.len() < 2).then_some(Self(list))
    }

    /// Takes these proofs away, by the names of their results.
    pub fn unbind(&mut self, names: &[String]) {
        for criterion in &mut self.0 {
            let proof = criterion.proof.take();
            criterion.proof = proof.filter(|proof| !names.contains(&proof.check_name()));
        }
    }

    /// Returns the criteria in their order.
    pub fn list(&self) -> &[Criterion] {
        &self.0
    }

    /// Returns whether nothing is expected in words.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the configured checks that prove criteria.
    pub fn checks(&self) -> impl Iterator<Item = &str> {
        self.proofs().filter_map(|proof| match proof {
            Proof::Check(name) => Some(name.as_str()),
            Proof::File(_) => None,
        })
    }

    /// Returns the files that prove criteria.
    pub fn files(&self) -> impl Iterator<Item = &FileProperty> {
        self.proofs().filter_map(|proof| match proof {
            Proof::File(file) => Some(file),
            Proof::Check(_) => None,
        })
    }

    fn proofs(&self) -> impl Iterator<Item = &Proof> {
        self.0.iter().filter_map(|one| one.proof.as_ref())
    }

    /// Returns the words: the text of the only criterion, or a numbered list.
    pub fn text(&self) -> String {
        match self.0.as_slice() {
            [only] => only.text.clone(),
            several => {
                let lines = several.iter().zip(1..);
                let lines = lines.map(|(one, number)| format!("{number}. {}", one.text));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// Returns the items of a list whose lines are numbered from 1; else the whole text.
fn in_list(text: &str) -> Vec<&str> {
    let lines = (1..).zip(text.lines());
    let items = lines.map(|(at, line)| line.strip_prefix(&format!("{at}. ")).map(str::trim));
    items.collect::<Option<_>>().unwrap_or_else(|| vec![text])
}

impl Serialize for Criteria {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [] => serializer.serialize_str(""),
            [Criterion { text, proof: None }] => serializer.serialize_str(text),
            list => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Criteria {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum One {
            Text(String),
            Whole(Criterion),
            Seen(SeenCriterion),
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            List(Vec<One>),
        }
        Ok(match Option::deserialize(deserializer)? {
            None => Self::default(),
            Some(Written::Text(text)) => Self::plain(text),
            Some(Written::List(list)) => Self::new(list.into_iter().map(|one| match one {
                One::Text(text) => Criterion { text, proof: None },
                One::Whole(criterion) => criterion,
                One::Seen(seen) => seen.criterion(),
            })),
        })
    }
}

/// How a criterion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionState {
    /// What was chosen as its proof before the work failed then, and passes now.
    #[serde(alias = "yes")]
    Met,
    /// Its check fails, or its file has not the property.
    #[serde(alias = "no")]
    NotMet,
    /// Nothing was measured that shows it.
    #[serde(alias = "unsure")]
    NotProven,
}

/// The end of a criterion, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionResult {
    pub text: String,
    pub state: CriterionState,
    /// What was measured, such as `test: red before, exit 0 now`, or why nothing proves it.
    pub why: String,
}

/// What a judge says of a criterion that nothing proves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BelievedCriterion {
    /// Its place among the criteria of the task, from 1.
    #[serde(deserialize_with = "as_written")]
    pub number: u32,
    /// A judge says `yes`, `no`, or `unsure`.
    pub met: CriterionState,
    /// The fact, or the words of the report, that it points to.
    #[serde(default)]
    pub pointer: String,
}

fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = number_as_written(deserializer)?;
    number.ok_or_else(|| D::Error::custom("the number of the criterion is missing"))
}

/// What a check said about the state before the first attempt of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckBefore {
    /// The name of the check: see [`super::CheckResult::name`].
    pub name: String,
    pub outcome: Before,
    /// The number of tests that ran, as far as its output shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<u32>,
    /// The hash of the command that ran on a tree of git: the outcome is the same for other tasks that begin with this tree.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
}

/// The outcome of a check before the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// It failed as it fails when the work is missing: its tests ran, or it needs none.
    Red,
    /// It passed: it keeps things from breaking, and proves nothing new.
    Green,
    /// It did not run as it does on the result, for this reason: neither red nor green.
    Unknown(String),
}

/// A program that a check runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckProgram {
    /// How the check names it.
    pub word: String,
    /// Where the PATH has it.
    pub path: String,
    /// The hash of its content; empty if it cannot be read.
    pub hash: String,
}
