//! Plan files in Markdown: front matter, then a `## ` heading for each task with attribute lines, or a list: with boxes to
//! check, else with numbers.

use super::{PlanDraft, Reference, TaskDraft, nearest, suggestion};
use crate::plan::{Origin, PlanSpec, TaskOrder, TaskSpec, lock_problem};
use crate::wire::markdown::{Fences, heading};
use crate::wire::{
    Place, Problem, Problems, YamlFields, criterion_text, front_matter, quote, yaml_tree,
};

/// The fields in the front matter of a plan file.
const FIELDS: &str = "name goal description expected_outcome constraints order workspace";

/// The attributes of a task, as written in a list below its heading.
pub(super) const ATTRIBUTES: &str = "after assignee expected constraints checks produces may_change locks optional step \
                                     done skipped";

/// What other tools and formats call `after`.
const AFTER: &str = "blocked_by dependencies dependency depends depends_on needs prerequisite prerequisites requires waits_for";

/// Reads a plan file. Tasks with problems are still returned, and their problems are collected.
pub(super) fn read(text: &str, problems: &Problems) -> Result<PlanDraft, Problem> {
    let front = front_matter::split_any(text)?;
    if let Some(line) = header_without_beginning(&front.body, front.body_line) {
        let problem = Problem::at(
            line,
            1,
            "this is a header, and no line `---` stands above it",
        );
        return Err(problem.with_hint("write `---` on the line above"));
    }
    let header = front.as_document().map(|text| yaml_tree::read(&text));
    let header = header.transpose()?;
    let fields = header.as_ref();
    let fields = fields.and_then(|node| YamlFields::of(node, "the header", FIELDS, problems));
    let mut plan = PlanSpec::default();
    let mut workspace = None;
    if let Some(fields) = fields {
        let text = |key| fields.text_or_lines(key).trim().to_owned();
        plan.name = fields.string("name").trim().to_owned();
        plan.goal = fields.string("goal").trim().to_owned();
        plan.description = text("description");
        plan.expected_outcome = text("expected_outcome");
        plan.constraints = text("constraints");
        plan.order = fields.order();
        workspace = fields
            .text("workspace")
            .map(|folder| folder.trim().to_owned());
    }
    let reader = Reader {
        plan: &mut plan,
        problems,
        drafts: Vec::new(),
        written: Vec::new(),
        description: Vec::new(),
        place: ReaderPosition::Head,
        checklist: !outside_code(&front.body, is_task),
        numbers: !outside_code(&front.body, |line| item(line).is_some()),
        below: None,
        indent: 0,
    };
    let tasks = reader.read(&front.body, front.body_line);
    Ok(PlanDraft {
        plan,
        workspace: workspace.filter(|folder| !folder.is_empty()),
        tasks,
    })
}

/// Splits a line such as `- after: 1, 2`, which is an attribute if it stands in the right place. Returns the key, the value and
/// the byte at which the value begins. Where that is `meant`, the colon may be that of Chinese and the space may be missing behind a
/// key that is known, or nearly so.
pub(super) fn attribute(line: &str, meant: bool) -> Option<(&str, &str, usize)> {
    let text = entry(line)?;
    let (key, value) = text.split_once([':', '：'])?;
    let word = key.chars().all(|c| c.is_alphabetic() || "_- ".contains(c));
    let plain = text[key.len()..].starts_with(':') && (value.is_empty() || value.starts_with(' '));
    let near = || is_after(key.trim()) || nearest(key.trim(), ATTRIBUTES.split(' ')).is_some();
    if !word || key.is_empty() || key.len() > 24 || !(plain || meant && near()) {
        return None;
    }
    let at = line.len() - value.trim_start().len();
    Some((key.trim(), value.trim(), at))
}

/// Returns what an entry of a list says, whose mark may be indented by one space: with more, it belongs to the line above.
fn entry(line: &str) -> Option<&str> {
    let line = line.strip_prefix(' ').unwrap_or(line);
    line.strip_prefix(['-', '*', '+'])?
        .strip_prefix([' ', '\t'])
}

/// Splits a line such as `- done`, as [`attribute`] does. In a description it is text.
fn bare_flag(line: &str) -> Option<(&str, &str, usize)> {
    let key = entry(line)?.trim();
    match known(key)? {
        "done" | "optional" => Some((key, "true", line.len())),
        "skipped" => Some((key, "", line.len())),
        _ => None,
    }
}

/// Returns whether a line of a description would be read as something else without a backslash before it.
pub(super) fn needs_escape(line: &str) -> bool {
    let text = line.trim_start_matches('\\');
    is_task(text)
        || attribute(text, true).is_some_and(|(key, ..)| known(key).is_some() || is_after(key))
}

/// Returns the line of a field of a header above a line `---`, if a text begins with that.
fn header_without_beginning(body: &str, first_line: usize) -> Option<usize> {
    let mut lines = (first_line..)
        .zip(body.lines())
        .skip_while(|(_, line)| line.trim().is_empty());
    let (first, line) = lines.next()?;
    let (key, _) = line.split_once(':')?;
    let is_field = FIELDS.split(' ').any(|field| field == key);
    let mut rest = lines.take_while(|(_, line)| heading(line).is_none());
    (is_field && rest.any(|(_, line)| line.trim_end() == "---")).then_some(first)
}

/// Returns whether a word stands for `after` elsewhere.
fn is_after(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace([' ', '-'], "_");
    AFTER.split(' ').any(|word| word == key)
}

fn known(key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    ATTRIBUTES.split(' ').find(|known| *known == key)
}

/// The reader's position below a heading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderPosition {
    /// After the heading; only blank lines so far.
    Head,
    /// In the list of attributes; indented lines belong to the last attribute.
    Attributes,
    Description,
}

/// An attribute as it is written.
struct Attribute {
    key: &'static str,
    /// Includes the further lines that belong to it.
    value: String,
    /// Where the value begins.
    place: Place,
    /// How far its line is indented.
    indent: usize,
}

impl Attribute {
    /// Returns where a line of the value begins. Two more characters of indentation were removed from further lines.
    fn place_of_line(&self, at: usize) -> Place {
        match at {
            0 => self.place,
            _ => Place {
                line: self.place.line + at,
                column: self.indent + 3,
            },
        }
    }
}

/// Reads the body line by line.
struct Reader<'a> {
    plan: &'a mut PlanSpec,
    problems: &'a Problems,
    drafts: Vec<TaskDraft>,
    /// The attributes of the open task.
    written: Vec<Attribute>,
    description: Vec<String>,
    place: ReaderPosition,
    checklist: bool,
    /// A checklist without boxes: its numbered lines are the tasks.
    numbers: bool,
    /// How far the first line below the open task of a checklist is indented: what stands there is read as below a heading.
    below: Option<usize>,
    /// How much of that was removed from the line that is read.
    indent: usize,
}

impl Reader<'_> {
    fn read(mut self, body: &str, first_line: usize) -> Vec<TaskDraft> {
        let mut fences = Fences::default();
        for (number, line) in (first_line..).zip(body.lines()) {
            let line = self.without_indent(line);
            if self.place == ReaderPosition::Attributes && self.continues_attribute(line) {
                continue;
            }
            if fences.is_code(line) {
                self.describe(line);
            } else if self.checklist {
                self.checklist_line(line, number);
            } else {
                self.task_line(line, number);
            }
        }
        self.close_task();
        if self.checklist && self.plan.order.is_none() && !self.drafts.is_empty() {
            self.plan.order = Some(TaskOrder::Sequential);
        }
        self.drafts
    }

    /// Removes the indentation of what belongs to a task of a list.
    fn without_indent<'l>(&mut self, line: &'l str) -> &'l str {
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        let indented = self.checklist && blank > 0 && blank < line.len();
        // Text that stands deeper is a block of code.
        let most = match entry(line.trim_start()) {
            Some(_) => blank,
            None => blank.min(4),
        };
        self.indent = match indented {
            true => blank.min(*self.below.get_or_insert(most)),
            false => 0,
        };
        &line[self.indent..]
    }

    fn task_line(&mut self, line: &str, number: usize) {
        match heading(line) {
            Some((1, title)) if self.drafts.is_empty() => self.title(line, title),
            Some((2, title)) => self.open_task(title, number),
            _ if self.drafts.is_empty() => self.describe(line),
            _ => self.line_of_task(line, number),
        }
    }

    fn line_of_task(&mut self, line: &str, number: usize) {
        let leading = self.place != ReaderPosition::Description;
        let bare = || bare_flag(line).filter(|_| leading);
        match attribute(line, leading).or_else(bare) {
            Some((key, value, at)) => match known(key) {
                Some(key @ ("done" | "optional" | "skipped")) if !leading => {
                    let message = format!("the attribute `{key}` stands behind the description");
                    let hint = "move it up, below the name of the task; for text, write `\\` before the line";
                    let problem = Problem::at(number, self.indent + 3, message);
                    self.problems.add(problem.with_hint(hint));
                }
                Some(key) => {
                    let column = self.indent + line[..at].chars().count() + 1;
                    self.write_attribute(key, value, number, column);
                }
                None if leading && self.looks_meant(key) => {
                    let message = format!("unknown attribute {}", quote(key));
                    let problem = Problem::at(number, self.indent + 3, message);
                    let meant = match is_after(key) {
                        true => "did you mean `after`?".to_owned(),
                        false => suggestion(key, ATTRIBUTES.split(' ')),
                    };
                    let dot = if meant.ends_with('?') { "" } else { "." };
                    let hint = format!("{meant}{dot} For text, write `\\` before the line");
                    self.problems.add(problem.with_hint(hint));
                    self.place = ReaderPosition::Attributes;
                }
                None => self.describe(line),
            },
            None if line.trim().is_empty() && leading => {
                if self.place == ReaderPosition::Attributes {
                    self.place = ReaderPosition::Description;
                }
            }
            None if line.starts_with('\\') && needs_escape(line) => self.describe(&line[1..]),
            None => self.describe(line),
        }
    }

    /// Returns whether an unknown key was meant as an attribute: it stands in a list with known ones, or is close to a known
    /// one.
    fn looks_meant(&self, key: &str) -> bool {
        self.place == ReaderPosition::Attributes
            || is_after(key)
            || nearest(key, ATTRIBUTES.split(' ')).is_some()
    }

    fn write_attribute(&mut self, key: &'static str, value: &str, line: usize, column: usize) {
        if let Some(first) = self.written.iter().find(|other| other.key == key) {
            let first = first.place.line;
            let message = format!("`{key}` is written twice, first on line {first}");
            self.problems
                .add(Problem::at(line, self.indent + 3, message));
        } else {
            self.written.push(Attribute {
                key,
                value: value.to_owned(),
                place: Place { line, column },
                indent: self.indent,
            });
        }
        if self.place == ReaderPosition::Head {
            self.place = ReaderPosition::Attributes;
        }
    }

    fn continues_attribute(&mut self, line: &str) -> bool {
        let text = line.strip_prefix("  ").or_else(|| line.strip_prefix('\t'));
        let text = text.map(str::trim_end);
        match (self.written.last_mut(), text) {
            (Some(attribute), Some(text)) if !text.is_empty() => {
                attribute.value.push('\n');
                attribute.value.push_str(text);
                true
            }
            _ => false,
        }
    }

    fn checklist_line(&mut self, line: &str, number: usize) {
        let numbered = || numbered_item(line).filter(|_| self.numbers);
        let item = item(line).or_else(|| Some((false, numbered()?)));
        match (heading(line), item.filter(|_| self.indent == 0)) {
            (Some((1, title)), _) if self.drafts.is_empty() => self.title(line, title),
            (_, Some((done, name))) => {
                self.open_task(name, number);
                if let Some(draft) = self.drafts.last_mut() {
                    draft.task.done = done;
                }
            }
            _ if self.drafts.is_empty() || self.indent == 0 && !line.trim().is_empty() => {
                self.describe(line);
            }
            _ => self.line_of_task(line, number),
        }
    }

    fn title(&mut self, line: &str, title: &str) {
        if self.plan.name.is_empty() {
            self.plan.name = title.to_owned();
        } else if self.plan.name != title {
            self.describe(line);
        }
    }

    fn describe(&mut self, line: &str) {
        self.place = ReaderPosition::Description;
        self.description.push(line.to_owned());
    }

    fn open_task(&mut self, title: &str, line: usize) {
        self.close_task();
        let (number, name) = numbered(title);
        if name.is_empty() {
            self.problems
                .add(Problem::at(line, 1, "a task without a name"));
        }
        self.drafts.push(TaskDraft {
            task: TaskSpec {
                name: name.to_owned(),
                origin: Origin::Person,
                ..TaskSpec::default()
            },
            number: number.filter(|_| !self.checklist),
            place: Place { line, column: 4 },
            ..TaskDraft::default()
        });
    }

    /// Assigns the collected text to the open task, or to the plan before the first task.
    fn close_task(&mut self) {
        let lines = std::mem::take(&mut self.description).join("\n");
        let description = lines.trim_matches('\n').trim_end();
        self.place = ReaderPosition::Head;
        self.below = None;
        let Some(draft) = self.drafts.last_mut() else {
            let of_plan = &mut self.plan.description;
            let text = format!("{of_plan}\n\n{}", description.trim());
            text.trim().clone_into(of_plan);
            return;
        };
        draft.task.description = description.to_owned();
        for attribute in std::mem::take(&mut self.written) {
            set(draft, &attribute, self.problems);
        }
    }
}

fn set(draft: &mut TaskDraft, attribute: &Attribute, problems: &Problems) {
    let value = attribute.value.trim();
    let stated = || Some(value.to_owned()).filter(|text| !text.is_empty());
    let list = || words(attribute).into_iter().map(|one| one.word).collect();
    let refuse = |message| problems.add(attribute.place.problem(message));
    let task = &mut draft.task;
    match attribute.key {
        "after" => draft.after = references(attribute),
        "assignee" => task.assignee = stated(),
        "step" => task.step = stated(),
        "expected" => match criterion_text::read(&attribute.value) {
            Ok(criteria) => draft.expect(criteria, attribute.place),
            Err(wrong) => {
                for one in wrong {
                    problems.add(attribute.place_of_line(one.at).problem(one.message));
                }
            }
        },
        "constraints" => value.clone_into(&mut task.constraints),
        "checks" => draft.check(words(attribute)),
        "produces" => draft.produced = words(attribute),
        "may_change" => task.may_change = list(),
        "locks" => {
            task.locks = list();
            lock_problem(&task.locks).into_iter().for_each(refuse);
        }
        "skipped" => task.skipped = Some(value.to_owned()),
        key => match flag(value) {
            Some(flag) if key == "done" => task.done = flag,
            Some(flag) => task.optional = flag,
            None => {
                let message = format!("`{key}` is {}, not true or false", quote(value));
                let problem = attribute.place.problem(message);
                problems.add(problem.with_hint("for text, write `\\` before the line"));
            }
        },
    }
}

/// Reads the tasks on which another task depends.
fn references(attribute: &Attribute) -> Vec<Reference> {
    let mut references = Vec::new();
    for one in words(attribute) {
        // In a name these may be what they are.
        let parts = one.word.split(['，', '、']).map(str::trim);
        let number = |part: &str| part.trim_start_matches('#').parse::<usize>().is_ok();
        match parts.clone().all(number) {
            true => references.extend(parts.map(|word| Reference {
                word: word.to_owned(),
                place: one.place,
            })),
            false => references.push(one),
        }
    }
    references.retain(|reference| !reference.word.eq_ignore_ascii_case("none"));
    for Reference { word, .. } in &mut references {
        *word = word.trim_start_matches('#').to_owned();
    }
    references
}

/// Reads a list separated by commas, on one or more lines.
fn words(attribute: &Attribute) -> Vec<Reference> {
    let mut words = Vec::new();
    for (at, text) in attribute.value.split('\n').enumerate() {
        let Place { line, mut column } = attribute.place_of_line(at);
        for part in text.split(',') {
            let word = part.trim();
            let indent = part.chars().take_while(|c| c.is_whitespace()).count();
            if !word.is_empty() {
                let (word, column) = (word.to_owned(), column + indent);
                let place = Place { line, column };
                words.push(Reference { word, place });
            }
            column += part.chars().count() + 1;
        }
    }
    words
}

fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// Returns whether a line is the heading of a task.
fn is_task(line: &str) -> bool {
    heading(line).is_some_and(|(level, _)| level == 2)
}

fn outside_code(body: &str, is: impl Fn(&str) -> bool) -> bool {
    let mut fences = Fences::default();
    body.lines().filter(|line| !fences.is_code(line)).any(is)
}

/// Reads `1. text` or `1) text` at the start of a line. More digits are a year, or another number of a sentence.
fn numbered_item(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = rest.strip_prefix(['.', ')'])?.strip_prefix(' ')?.trim();
    ((1..=3).contains(&(line.len() - rest.len())) && !text.is_empty()).then_some(text)
}

/// Reads `- [ ] text`, `* [x] text` or `1. [ ] text` at the start of a line.
fn item(line: &str) -> Option<(bool, &str)> {
    let behind = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = || behind.strip_prefix(['.', ')']);
    let text = line.strip_prefix(['-', '*', '+']).or_else(numbered)?;
    let text = text.strip_prefix(' ')?.trim_start();
    let done = match text.get(..3)? {
        "[ ]" => false,
        "[x]" | "[X]" => true,
        _ => return None,
    };
    Some((done, text[3..].trim()))
}

/// Removes `1. `, `1) `, `Task 1: ` or `任务 1：` from the start of a heading.
fn numbered(title: &str) -> (Option<usize>, &str) {
    let mut words = ["Task ", "task ", "TASK ", "任务"].into_iter();
    let word = words.find_map(|word| title.strip_prefix(word));
    let text = word.unwrap_or(title).trim_start();
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let Some(rest) = rest.strip_prefix(['.', ')', ':', '：', '、']) else {
        return (None, title);
    };
    let apart = rest.is_empty() || rest.starts_with(' ') || word.is_some();
    match digits.parse() {
        Ok(number) if apart => (Some(number), rest.trim()),
        _ => (None, title),
    }
}
