//! Roles of a team file, with their templates of steps.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{MAX_ENTRIES, OnTimeout, RoleFolder, RoleKind, bounded, id, placeholders};
use crate::wire::yaml_tree::YamlFields;
use crate::wire::{Place, Problems, YamlNode, has_word, parse_span, quote};

/// A role that does tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSpec {
    /// `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`; tasks name it as their assignee.
    pub id: String,
    pub kind: RoleKind,
    pub description: String,
    pub folder: RoleFolder,
    /// The worker that takes the commands of a role of kind `files`; `None` means the agent that `--agent` names.
    pub worker: Option<RoleWorker>,
    /// A file with instructions for the role, relative to the team file.
    pub prompt: Option<PathBuf>,
    /// The actions that it may carry out, in addition to `ask`, which every role inside the process has.
    pub actions: Vec<String>,
    /// The tools that it may use: `plan.<tool>`, or `<server>.<tool>`.
    pub tools: Vec<String>,
    pub templates: Vec<StepTemplate>,
    /// The most tasks that it does simultaneously; at least one.
    pub concurrency: u32,
    /// How long a task may take; `None` means the deadline of the plan.
    pub timeout: Option<Duration>,
    /// How long it waits for another role.
    pub collaboration_timeout: Duration,
    pub on_timeout: OnTimeout,
    /// Whether its kind is a known one; otherwise nothing is derived from it.
    pub(super) kind_known: bool,
    /// Where the role is defined.
    pub place: Place,
    /// The places of the steps of all its templates.
    pub(super) step_places: Vec<Place>,
}

/// The worker that takes the commands of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleWorker {
    /// An agent by its name, as `--agent` knows it, and the arguments that would follow `--`.
    Agent { name: String, argv: Vec<String> },
    /// A worker that is started elsewhere.
    External,
}

/// A prepared list of steps for tasks of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTemplate {
    pub name: String,
    /// Words that must all occur in the name or the description of the task, in upper or lower case; at least one.
    pub matches: Vec<String>,
    pub steps: Vec<StepSpec>,
}

/// A step that is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSpec {
    pub name: String,
    pub does: StepDoes,
}

/// A step of a template of a role, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct PlacedStep<'a> {
    pub template: &'a StepTemplate,
    /// Counts the steps of the template from 1.
    pub number: usize,
    pub spec: &'a StepSpec,
    /// Where the action of the step is defined.
    pub place: Place,
}

/// What a step does. Texts in `params`, `description` and `context` may name `{{task.name}}`, `{{task.description}}`,
/// `{{context}}` and the result of an earlier step, `{{steps.1.result}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepDoes {
    /// Carries out one of the role's own actions.
    ExecuteAction {
        action: String,
        #[serde(default)]
        params: Map<String, Value>,
    },
    /// Uses one of its tools.
    UseTool {
        tool: String,
        #[serde(default)]
        params: Map<String, Value>,
    },
    /// Sends another role a request, and waits for the answer.
    RequestCollaboration {
        target: String,
        description: String,
        #[serde(default)]
        context: String,
    },
}

/// How long a role waits for another one if the file does not state it.
const COLLABORATION: Duration = Duration::from_secs(600);

/// The most tasks that a role may do simultaneously.
const MAX_CONCURRENCY: u32 = 256;

/// The worker for any program; `argv` names the program.
const PROGRAM: &str = "command";

const FIELDS: &str = "id kind description folder worker prompt actions tools templates concurrency timeout \
                      collaboration_timeout on_timeout";

/// Fields that apply only to roles inside the process.
const INSIDE: &str = "actions tools templates collaboration_timeout on_timeout";

/// Reads a role. A role with problems is returned as far as it could be read, so that names which refer to it are no further
/// problems.
pub(super) fn read(node: &YamlNode, problems: &Problems) -> Option<RoleSpec> {
    let fields = YamlFields::of(node, "the role", FIELDS, problems)?;
    let id = id(&fields);
    let kind = fields.choice("kind", &RoleKind::ALL, RoleKind::as_str);
    let folder = fields.choice("folder", &RoleFolder::ALL, RoleFolder::as_str);
    let on_timeout = fields.choice("on_timeout", &OnTimeout::ALL, OnTimeout::as_str);
    fields.need("kind");
    let (misplaced, own, other) = match kind {
        Some(RoleKind::Agent) => ("worker folder", "agent", "files"),
        Some(RoleKind::Files) => (INSIDE, "files", "agent"),
        None => ("", "", ""),
    };
    let problem = |key: &YamlNode, word: &str| {
        let problem = key.problem(format!("a role of kind `{own}` has no `{word}`"));
        problem.with_hint(format!("take it out, or write `kind: {other}`"))
    };
    fields.refuse(|word| has_word(misplaced, word), problem);
    let prompt = fields.get("prompt").and_then(|_| fields.word("prompt"));
    let timeout = span(&fields, "timeout");
    let collaboration_timeout = span(&fields, "collaboration_timeout");
    let mut step_places = Vec::new();
    let templates = bounded(&fields, "templates").iter();
    Some(RoleSpec {
        id,
        kind: kind.unwrap_or_default(),
        kind_known: kind.is_some(),
        description: fields.string("description"),
        folder: folder.unwrap_or_default(),
        worker: fields.get("worker").and_then(|node| worker(node, problems)),
        prompt: prompt.map(PathBuf::from),
        actions: names(&fields, "actions"),
        tools: names(&fields, "tools"),
        templates: templates
            .filter_map(|node| template(node, &mut step_places, problems))
            .collect(),
        concurrency: concurrency(&fields),
        timeout,
        collaboration_timeout: collaboration_timeout.unwrap_or(COLLABORATION),
        on_timeout: on_timeout.unwrap_or_default(),
        place: fields.place("id"),
        step_places,
    })
}

fn span(fields: &YamlFields<'_>, key: &str) -> Option<Duration> {
    let text = fields.text(key)?;
    let span = parse_span(text);
    if span.is_none() {
        let message = format!("`{key}` is {}, no duration", quote(text));
        fields.refuse_value(key, message, "durations are written 90s, 10m or 1h 30m");
    }
    span
}

fn concurrency(fields: &YamlFields<'_>) -> u32 {
    let Some(node) = fields.get("concurrency") else {
        return 1;
    };
    let number = node.value().as_u64();
    let number = number.and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| (1..=MAX_CONCURRENCY).contains(number));
    if number.is_none() {
        let message = format!("`concurrency` is no number from 1 to {MAX_CONCURRENCY}");
        fields.problems.add(node.problem(message));
    }
    number.unwrap_or(1)
}

/// Reads a list of names; each may occur only once.
fn names(fields: &YamlFields<'_>, key: &str) -> Vec<String> {
    let (mut names, problems) = (Vec::new(), fields.problems);
    let texts = fields.texts(key);
    if let Some(name) = texts.get(MAX_ENTRIES) {
        problems.add(name.problem(format!("`{key}` has more than {MAX_ENTRIES} entries")));
    }
    for name in texts {
        if names.contains(&name.word) {
            problems.add(name.problem(format!("{} is listed twice", quote(&name.word))));
        } else {
            names.push(name.word);
        }
    }
    names
}

/// Reads `claude`, `external`, or `{agent: claude, argv: [-m, opus]}`.
fn worker(node: &YamlNode, problems: &Problems) -> Option<RoleWorker> {
    let worker = worker_of(node, problems)?;
    if let RoleWorker::Agent { name, argv } = &worker
        && name == PROGRAM
        && argv.iter().all(|word| word.trim().is_empty())
    {
        let problem = node.problem(format!("the worker `{PROGRAM}` has no program"));
        let hint =
            format!("write `worker: {{agent: {PROGRAM}, argv: [my-agent, \"{{prompt_file}}\"]}}`");
        problems.add(problem.with_hint(hint));
    }
    Some(worker)
}

fn worker_of(node: &YamlNode, problems: &Problems) -> Option<RoleWorker> {
    if let Some(word) = node.text() {
        let (name, argv) = (word.to_owned(), Vec::new());
        return Some(match word {
            "external" => RoleWorker::External,
            _ => RoleWorker::Agent { name, argv },
        });
    }
    let fields = YamlFields::of(node, "`worker`", "agent argv", problems)?;
    let name = fields.word("agent")?.to_owned();
    let argv = fields.texts("argv").into_iter();
    let argv = argv.map(|argument| argument.word).collect();
    Some(RoleWorker::Agent { name, argv })
}

fn template(node: &YamlNode, places: &mut Vec<Place>, problems: &Problems) -> Option<StepTemplate> {
    let fields = YamlFields::of(node, "the template", "name matches steps", problems)?;
    let name = fields.word("name");
    let matches = fields.texts("matches");
    if fields.need("matches").is_some() && matches.is_empty() {
        let hint = "list words that are all in the task's name or description";
        problems.add(node.problem("`matches` is empty").with_hint(hint));
    }
    for blank in matches.iter().filter(|text| text.word.trim().is_empty()) {
        problems.add(blank.problem("a word of `matches` is empty"));
    }
    fields.need("steps");
    let nodes = bounded(&fields, "steps");
    if nodes.is_empty() {
        problems.add(node.problem("the template has no steps"));
    }
    let steps = (1..).zip(nodes);
    let steps = steps.filter_map(|(number, node)| step(node, number, problems));
    let (steps, mut found): (_, Vec<Place>) = steps.unzip();
    places.append(&mut found);
    Some(StepTemplate {
        name: name.unwrap_or_default().to_owned(),
        matches: matches.into_iter().map(|text| text.word).collect(),
        steps,
    })
}

fn step(node: &YamlNode, number: usize, problems: &Problems) -> Option<(StepSpec, Place)> {
    let known = "name action tool ask params description context";
    let fields = YamlFields::of(node, "the step", known, problems)?;
    let name = fields.word("name");
    let mut kinds = vec!["action", "tool", "ask"];
    kinds.retain(|key| fields.get(key).is_some());
    let [kind] = kinds[..] else {
        let message = match kinds[..] {
            [] => "the step has none of `action`, `tool` and `ask`".to_owned(),
            _ => format!("the step has both `{}` and `{}`", kinds[0], kinds[1]),
        };
        let hint = "a step carries out one action, or uses one tool, or asks one role";
        problems.add(node.problem(message).with_hint(hint));
        return None;
    };
    let misplaced: &[&str] = match kind {
        "ask" => &["params"],
        _ => &["description", "context"],
    };
    let problem =
        |key: &YamlNode, word: &str| key.problem(format!("a step with `{kind}` has no `{word}`"));
    fields.refuse(|word| misplaced.contains(&word), problem);
    node.each_text(&mut |node, text| placeholders::check_step(node, text, number, problems));
    let target = fields.word(kind)?.to_owned();
    let does = match kind {
        "action" => StepDoes::ExecuteAction {
            action: target,
            params: params(&fields),
        },
        "tool" => StepDoes::UseTool {
            tool: target,
            params: params(&fields),
        },
        _ => StepDoes::RequestCollaboration {
            target,
            description: fields.word("description").unwrap_or_default().to_owned(),
            context: fields.string("context"),
        },
    };
    let name = name?.to_owned();
    Some((StepSpec { name, does }, fields.place(kind)))
}

fn params(fields: &YamlFields<'_>) -> Map<String, Value> {
    let open = |node| YamlFields::open(node, "`params`", fields.problems);
    let open = fields.get("params").and_then(open);
    match open.map(|open| open.node.value()) {
        Some(Value::Object(params)) => params,
        _ => Map::new(),
    }
}
