//! Turns text and environment into a configuration: the file lies over the template, which has the default of every key. An
//! error names the place, and the nearest known key.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use jiff::SignedDuration;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{CheckConfig, Config, Environment, JudgeConfig, ServiceUrl, TEMPLATE};
use crate::bounded_read;
use crate::plan::JudgePolicy;
use crate::wire::{Place, Problem, did_you_mean, field_meant, field_path, is_identifier, quoted};

/// The largest file, in bytes; that of a person has a few KiB.
const MAX_BYTES: usize = 1024 * 1024;

/// The most errors that are said of a file.
pub(super) const MAX_ERRORS: usize = 30;

/// The values of the template.
pub(super) static DEFAULTS: LazyLock<Config> =
    LazyLock::new(|| toml::from_str(TEMPLATE).expect("a test reads the template"));

/// Everything that is wrong with the configuration, one thing or more; what stands in the file says where.
#[derive(Debug, thiserror::Error)]
#[error("{}", Problem::join(.0, "; "))]
pub struct ConfigError(pub Vec<Problem>);

impl ConfigError {
    /// Says of the problems of a file where they are, in its order.
    pub(super) fn of(mut problems: Vec<Problem>, file: Option<&Path>) -> Self {
        problems.sort_by_key(|problem| (problem.place.line == 0, problem.place));
        problems.truncate(MAX_ERRORS);
        let file = file.map_or(String::new(), |file| file.display().to_string());
        let placed = |problem: Problem| match problem.place.line {
            0 => problem,
            _ => Problem {
                hint: problem.hint.clone(),
                ..Problem::new(problem.in_file(&file))
            },
        };
        Self(problems.into_iter().map(placed).collect())
    }

    /// Refuses if there is a problem.
    pub(super) fn refuse(problems: Vec<Problem>, file: Option<&Path>) -> Result<(), Self> {
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Self::of(problems, file)),
        }
    }

    fn unreadable(path: &Path, error: &io::Error) -> Self {
        let shown = path.display();
        let problem = Problem::new(format!("cannot read the configuration `{shown}`: {error}"));
        let file = quoted(&path.to_string_lossy());
        let init = format!("`plan-agent --config {file} init` writes a commented one there");
        Self(vec![match error.kind() {
            io::ErrorKind::NotFound => problem.with_hint(init),
            _ => problem,
        }])
    }
}

/// Returns that the value of an environment variable does not fit.
pub(super) fn wrong_variable(name: &str, message: &str) -> Problem {
    let problem = Problem::new(format!("environment variable `{name}`: {message}"));
    match name.ends_with("_BASE_URL") || name.ends_with("_API_BASE") {
        true => {
            problem.with_hint("mend it, or name the address in `llm.base_url`, which goes before")
        }
        false => problem,
    }
}

/// Returns the text of a configuration file.
///
/// # Errors
/// It cannot be read.
pub fn text_of(path: &Path) -> Result<String, ConfigError> {
    bounded_read::read_file(path, MAX_BYTES).map_err(|error| ConfigError::unreadable(path, &error))
}

/// Returns the absolute folder from which relative paths start.
pub fn folder_of(file: Option<&Path>) -> Result<PathBuf, ConfigError> {
    let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
    absolute(folder).map_err(|error| ConfigError::unreadable(folder, &error))
}

/// Returns the absolute form of a path; that of an empty one is the current folder.
///
/// # Errors
/// The current folder is not known.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    // An empty path has no absolute form, but `.` has.
    let path = std::path::absolute(Path::new(".").join(path))?;
    Ok(path.components().collect())
}

/// What stands in a file.
#[derive(Default)]
pub(super) struct FileContent {
    /// The values of the file over the defaults, without those that are wrong.
    pub(super) config: Config,
    /// Where each known key stands.
    pub(super) places: BTreeMap<String, Place>,
    /// The keys that are unknown or whose values are wrong.
    pub(super) wrong: Vec<String>,
    pub(super) problems: Vec<Problem>,
}

/// Reads the text of a file, and goes on after an error.
pub(super) fn parse(text: &str) -> FileContent {
    let place = |offset: usize| {
        let before = &text[..text.floor_char_boundary(offset)];
        let line = before.rsplit('\n').next().unwrap_or_default();
        Place {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    };
    let invalid = |place: Place, message: &str| {
        let message = message.trim_end().replace('\n', ", ");
        place.problem(message)
    };
    let start = |error: &toml::de::Error| place(error.span().map_or(0, |span| span.start));
    let (table, torn) = DeTable::parse_recoverable(text);
    let mut table = table.into_inner();
    let mut found = FileContent::default();
    let torn = torn.iter().rev().map(|error| (start(error).line, error));
    let torn: BTreeMap<usize, &toml::de::Error> = torn.collect();
    // An error on the next line follows, as from a string or list without an end.
    let first = (torn.iter()).filter(|(line, _)| !torn.contains_key(&(*line - 1)));
    let problems = first.map(|(_, error)| {
        let named = error.span().and_then(|span| text.get(span));
        match (error.message(), named) {
            ("duplicate key", Some(key)) => {
                invalid(start(error), &format!("`{key}` is there twice"))
            }
            (message, _) => invalid(start(error), message),
        }
    });
    found.problems.extend(problems.take(MAX_ERRORS));
    let header = |line: &usize| {
        let line = text.lines().nth(line - 1).unwrap_or_default();
        line.trim_start().starts_with('[')
    };
    if torn.keys().any(header) {
        // What follows is in no section, or in another one.
        return found;
    }
    let (allowed, mut unknown, mut offsets) = (allowed(), Vec::new(), BTreeMap::new());
    take_unknown(&mut table, "", "", &allowed, &mut unknown, &mut offsets);
    for (offset, key) in unknown.into_iter().take(MAX_ERRORS) {
        let problem = invalid(place(offset), &format!("unknown key `{key}`"));
        let hint = key_meant(&key, &allowed);
        found.problems.push(Problem { hint, ..problem });
        found.wrong.push(key);
    }
    let places = offsets.into_iter();
    found.places = places.map(|(key, at)| (key, place(at))).collect();
    // Each round takes one key out.
    for _ in 0..2 * MAX_ERRORS {
        let mut all = DeTable::parse(TEMPLATE).expect("a test reads the template");
        lay_over(all.get_mut(), &table);
        let error = match Config::deserialize(toml::Deserializer::from(all)) {
            Ok(config) => {
                found.config = config;
                break;
            }
            Err(error) => error,
        };
        let offset = error.span().map_or(0, |span| span.start);
        let message = error.message().trim_end();
        let Some(key) = take_at(&mut table, "", offset) else {
            found.problems.push(invalid(place(offset), message));
            break;
        };
        // An earlier error took the field, or left half a value.
        let within = |wrong: &String| wrong.starts_with(&format!("{key}."));
        let follows = torn.contains_key(&place(offset).line)
            || message.starts_with("missing field") && found.wrong.iter().any(within);
        if !follows {
            let message = format!("`{key}`: {message}");
            found.problems.push(invalid(place(offset), &message));
        }
        found.wrong.push(key);
    }
    found
}

/// Puts the values of a table over those of another one.
fn lay_over<'a>(below: &mut DeTable<'a>, above: &DeTable<'a>) {
    for (key, value) in above {
        match (below.get_mut(key).map(Spanned::get_mut), value.get_ref()) {
            (Some(DeValue::Table(below)), DeValue::Table(above)) => lay_over(below, above),
            _ => drop(below.insert(key.clone(), value.clone())),
        }
    }
}

/// Takes out the value that stands at an offset, and returns its key.
fn take_at(table: &mut DeTable<'_>, path: &str, offset: usize) -> Option<String> {
    let mut here = None;
    for (name, value) in table.iter_mut() {
        let key = field_path(path, name.get_ref());
        if let DeValue::Table(inner) = value.get_mut()
            && let Some(taken) = take_at(inner, &key, offset)
        {
            return Some(taken);
        }
        if value.span().contains(&offset) || value.span().start == offset {
            here = Some((name.clone(), key));
            break;
        }
    }
    let (name, key) = here?;
    table.remove(&name);
    Some(key)
}

/// Replaces what the environment names: `PLAN_AGENT_RUN_TASK_TIMEOUT` is `run.task_timeout`. Adds what is wrong there to the
/// problems.
pub(super) fn override_by(found: &mut FileContent, environment: &Environment) {
    let mut known = Vec::new();
    for key in known_keys() {
        let name = variable_of(&key);
        known.push(name.clone());
        let Some(text) = environment.get(&name) else {
            continue;
        };
        found.places.remove(&key);
        match with_value(&found.config, &key, text) {
            Ok(config) => found.config = config,
            Err(message) => {
                found.problems.push(wrong_variable(&name, &message));
                found.wrong.push(key);
            }
        }
    }
    // Others begin as those of a section do, or are nearly as a known one: one that is misspelt would go unseen.
    let sections: BTreeSet<&str> = known.iter().filter_map(|name| section_of(name)).collect();
    let set = |name: &&str| environment.get(name).is_some();
    let set = environment.names().filter(set);
    let is_slip = |name: &str| {
        let end = name.strip_prefix("PLAN_AGENT").unwrap_or(name);
        known
            .iter()
            .any(|it| strsim::damerau_levenshtein(it, name) <= 2 || it.ends_with(end))
    };
    let for_key = set.filter(|name| {
        section_of(name).is_some_and(|section| sections.contains(section) || is_slip(name))
    });
    // The configuration may name others: those that agents and checks get, or that hold a key.
    let named = |name: &str| {
        let all = serde_json::to_string(&found.config).unwrap_or_default();
        all.contains(&format!("\"{name}\""))
    };
    let unknown = for_key.filter(|name| !known.iter().any(|it| it == name) && !named(name));
    let unknown: Vec<&str> = unknown.collect();
    for name in unknown {
        let problem = wrong_variable(name, "there is no key of that name");
        let hint = did_you_mean(name, known.iter().map(String::as_str));
        found.problems.push(Problem { hint, ..problem });
    }
}

/// Returns the first word of the name of a variable: the section that its key is in.
fn section_of(name: &str) -> Option<&str> {
    let (section, _) = name.strip_prefix("PLAN_AGENT_")?.split_once('_')?;
    Some(section)
}

/// Returns the environment variable that overrides a key.
pub fn variable_of(key: &str) -> String {
    format!("PLAN_AGENT_{}", key.to_uppercase().replace('.', "_"))
}

/// Sets one key. The text itself is the value if the key takes a text; otherwise it is read as a value of TOML (`3`, `true`,
/// `["a"]`).
fn with_value(config: &Config, key: &str, text: &str) -> Result<Config, String> {
    let set = |value: toml::Value| -> Result<Config, toml::de::Error> {
        let mut table = toml::Table::try_from(config).map_err(toml::de::Error::custom)?;
        let (sections, last) = key.rsplit_once('.').unwrap_or(("", key));
        let mut names = sections.split('.').filter(|name| !name.is_empty());
        let section = names.try_fold(&mut table, |table, name| {
            let empty = || toml::Value::Table(toml::Table::new());
            table.entry(name).or_insert_with(empty).as_table_mut()
        });
        let section = section.ok_or_else(|| toml::de::Error::custom("not a section"))?;
        section.insert(last.to_owned(), value);
        table.try_into()
    };
    set(toml::Value::String(text.to_owned()))
        .or_else(|as_text| match text.parse::<toml::Value>() {
            // A key that takes a text knows better what is wrong with it.
            Ok(value) => {
                set(value).map_err(
                    |error| match as_text.message().starts_with("invalid type") {
                        true => error,
                        false => as_text,
                    },
                )
            }
            Err(_) => Err(as_text),
        })
        .map_err(|error| error.message().to_owned())
}

/// Returns every key that the defaults have, with its section, such as `llm.plan.model`.
fn known_keys() -> Vec<String> {
    leaves(&Config::default()).into_keys().collect()
}

/// Returns every key with its section, and its value; what is left out is null.
pub(super) fn leaves(config: &Config) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let value = serde_json::to_value(config).unwrap_or_default();
    collect_leaves(value, String::new(), &mut found);
    found
}

fn collect_leaves(value: Value, path: String, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                collect_leaves(value, field_path(&path, &name), found);
            }
        }
        value => drop(found.insert(path, value)),
    }
}

/// Returns the keys and sections that may stand in a file; `*` is a name that the file chooses.
fn allowed() -> Vec<String> {
    let mut allowed = known_keys();
    let of_check = ["run", "timeout", "env", "count", "plain", "before"];
    allowed.extend(of_check.map(|key| format!("checks.*.{key}")));
    allowed.extend(["run", "timeout", "env"].map(|key| format!("run.prepare.{key}")));
    let of_server = ["mcp.*.command", "mcp.*.timeout", "mcp.*.env"];
    let named = of_server.into_iter().chain(["projects.*", "remotes.*"]);
    allowed.extend(named.map(str::to_owned));
    let sections: BTreeSet<String> = allowed
        .iter()
        .flat_map(|key| key.match_indices('.').map(|(dot, _)| key[..dot].to_owned()))
        .collect();
    allowed.extend(sections);
    allowed
}

/// Takes out the keys that are not allowed, and collects where they stand, and where the values of the others begin. `pattern` is
/// the path with `*` for free names.
fn take_unknown(
    table: &mut DeTable<'_>,
    path: &str,
    pattern: &str,
    allowed: &[String],
    unknown: &mut Vec<(usize, String)>,
    offsets: &mut BTreeMap<String, usize>,
) {
    let free = matches!(pattern, "checks" | "mcp" | "projects" | "remotes");
    let all = std::mem::take(table).into_iter();
    *table = all
        .filter_map(|(name, mut value)| {
            let key = field_path(path, name.get_ref());
            let pattern = field_path(pattern, if free { "*" } else { name.get_ref() });
            if !allowed.contains(&pattern) {
                unknown.push((name.span().start, key));
                return None;
            }
            if let DeValue::Table(inner) = value.get_mut() {
                take_unknown(inner, &key, &pattern, allowed, unknown, offsets);
            }
            offsets.insert(key, value.span().start);
            Some((name, value))
        })
        .collect();
}

/// Asks whether the key or section that was probably meant was meant: one whose last word is similar, preferably in the same
/// section.
fn key_meant(key: &str, allowed: &[String]) -> Option<String> {
    let parts = |key| str::rsplit_once(key, '.').unwrap_or(("", key));
    let (section, word) = parts(key);
    let named = allowed.iter().filter(|other| !other.contains('*'));
    let mut keys: Vec<&String> = named.collect();
    keys.sort_by_key(|other| (parts(other).0 != section, other.len()));
    let meant = field_meant(word, keys.iter().map(|other| parts(other).1))?;
    let key = keys.into_iter().find(|other| parts(other).1 == meant)?;
    Some(format!("did you mean `{key}`?"))
}

/// Returns a duration as a person writes it.
pub(super) fn duration_text(span: Duration) -> String {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    format!("{span:#}")
}

/// A duration as a person writes it: `"90s"`, `"10m"`, `"1h 30m"`; more than nothing.
pub(super) mod duration {
    use super::*;
    use crate::wire::text::parse_span;
    use serde::Serializer;

    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&duration_text(*span))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        parse_span(&text).ok_or_else(|| match text.parse::<SignedDuration>() {
            Ok(_) => D::Error::custom("must be longer than 0s"),
            Err(_) => D::Error::custom(format!(
                "`{text}` is no duration, which is written \"90s\", \"10m\" or \"1h 30m\""
            )),
        })
    }
}

/// Returns a value if it fits, else what is wrong with it.
fn fitting<T, E: serde::de::Error>(value: T, fits: bool, wrong: &str) -> Result<T, E> {
    match fits {
        true => Ok(value),
        false => Err(E::custom(wrong)),
    }
}

/// A count of at least one.
pub(super) fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let count = u32::deserialize(from)?;
    fitting(count, count > 0, "must be 1 or more")
}

/// A count of at least one that may be left out.
pub(super) fn positive_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    positive(from).map(Some)
}

/// When and by which model results are judged: a word, or a section.
pub(super) fn judge<'de, D: Deserializer<'de>>(from: D) -> Result<JudgeConfig, D::Error> {
    struct WordOrSection;

    impl<'de> Visitor<'de> for WordOrSection {
        type Value = JudgeConfig;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("\"always\", \"on_doubt\" or a section")
        }

        fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<JudgeConfig, E> {
            let when = JudgePolicy::deserialize(StrDeserializer::new(word))?;
            Ok(JudgeConfig { when, model: None })
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<JudgeConfig, M::Error> {
            JudgeConfig::deserialize(MapAccessDeserializer::new(map))
        }
    }

    from.deserialize_any(WordOrSection)
}

/// Reads the address of a service: https, or http on this machine. The result has no slash at its end.
pub(super) fn base_url<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let url = text.map(|text| ServiceUrl::parse(&text).map(|url| url.to_string()));
    url.transpose().map_err(D::Error::custom)
}

/// The name of an environment variable. An error does not repeat a text that looks like a key.
pub(super) fn variable_name<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    let wrong = "must be the name of an environment variable, not the key itself";
    let fits = name.as_deref().is_none_or(is_identifier);
    fitting(name, fits, wrong)
}

/// A regular expression.
pub(super) fn pattern<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    let wrong = |error| D::Error::custom(format!("must be a regular expression: {error}"));
    let read = regex_lite::Regex::new(&text).map_err(wrong);
    read.map(|_| Some(text))
}

/// Names of environment variables.
pub(super) fn variable_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    let wrong = "must be names of environment variables, without their values";
    let fits = names.iter().all(|name| is_identifier(name));
    fitting(names, fits, wrong)
}

/// Returns whether an address is on this machine.
pub fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The checks by their names: a list would be read as the fields of a check in their order.
pub(super) fn checks<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, CheckConfig>, D::Error> {
    struct Section(CheckConfig);

    impl<'de> Deserialize<'de> for Section {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_map(Self(CheckConfig::default()))
        }
    }

    impl<'de> Visitor<'de> for Section {
        type Value = Self;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a table such as { run = [\"cargo\", \"test\"] }")
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self, M::Error> {
            CheckConfig::deserialize(MapAccessDeserializer::new(map)).map(Self)
        }
    }

    let checks = BTreeMap::<String, Section>::deserialize(from)?;
    Ok(checks.into_iter().map(|(name, it)| (name, it.0)).collect())
}

/// As [`argv`], where it may be left out.
pub(super) fn some_argv<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<String>>, D::Error> {
    argv(from).map(Some)
}

/// A program with its arguments.
pub(super) fn argv<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Words;

    impl<'de> Visitor<'de> for Words {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of words such as [\"cargo\", \"test\"]")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, words: S) -> Result<Self::Value, S::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(words))
        }
    }

    let argv = from.deserialize_seq(Words)?;
    if argv.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(D::Error::custom("must name a program"));
    }
    Ok(argv)
}

#[cfg(test)]
mod tests;
