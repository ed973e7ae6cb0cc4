//! The prompt templates: built in, each replaced by a file of its name on disk. Every template is parsed and rendered once when
//! it is loaded, so that a mistake in a file is found at start, with its line, and not in the middle of a plan.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, Output, UndefinedBehavior};

use super::{LINE, NAME, TEXT, one_line, quote, quote_within, template_trial_data};
use crate::bounded_read;
use crate::plan::words;
use crate::wire::{Problem, joined};

type Result<T, E = Problem> = std::result::Result<T, E>;

/// A template of a question has this line between its system part and its prompt part.
const SEPARATOR: &str = "---";
/// Bytes of a template on disk.
const MAX_TEMPLATE: usize = 256 << 10;
/// Characters that a filter lets a template ask for.
const MAX_TEXT: usize = 40_000;

words! {
    /// The existing templates; the word names the file, and the kind of answer.
    #[derive(Hash)]
    pub enum PromptTemplate {
        Plan = "plan",
        Judge = "judge",
        Replan = "replan",
        Audit = "audit",
        Summarise = "summarise",
        /// How a role plans its task.
        Strategy = "strategy",
        /// The steps of a role for its task.
        Steps = "steps",
        /// What a role's model does itself.
        Ask = "ask",
        /// The body of a command file; the only one that no model answers.
        Command = "command",
    }
}

impl PromptTemplate {
    /// Returns the name of its file.
    pub fn file_name(self) -> String {
        format!("{}.md", self.as_str())
    }

    /// Returns the template that is built in.
    pub fn built_in(self) -> &'static str {
        match self {
            Self::Plan => include_str!("../../prompts/plan.md"),
            Self::Judge => include_str!("../../prompts/judge.md"),
            Self::Replan => include_str!("../../prompts/replan.md"),
            Self::Audit => include_str!("../../prompts/audit.md"),
            Self::Summarise => include_str!("../../prompts/summarise.md"),
            Self::Strategy => include_str!("../../prompts/strategy.md"),
            Self::Steps => include_str!("../../prompts/steps.md"),
            Self::Ask => include_str!("../../prompts/ask.md"),
            Self::Command => include_str!("../../prompts/command.md"),
        }
    }

    /// Returns the parts that are rendered separately: that of a command is the whole template, a question has the system part
    /// and the prompt.
    fn parts(self) -> std::ops::Range<usize> {
        match self {
            Self::Command => 0..1,
            _ => 0..2,
        }
    }
}

/// The texts of the files in a folder of prompts, each read once.
#[derive(Clone, Debug, Default)]
pub struct PromptFiles(HashMap<PromptTemplate, (PathBuf, String)>);

impl PromptFiles {
    /// Reads those that exist.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut files = HashMap::new();
        for template in PromptTemplate::ALL {
            let path = dir.join(template.file_name());
            if let Some(text) = read(&path)? {
                files.insert(template, (path, text));
            }
        }
        Ok(Self(files))
    }

    /// Returns the names and texts of those that differ from the built-in prompt.
    pub fn replaced(&self) -> impl Iterator<Item = (String, &str)> {
        let files = self.0.iter().map(|(template, (_, text))| (template, text));
        let replaced = files.filter(|(template, text)| *text != template.built_in());
        replaced.map(|(template, text)| (template.file_name(), text.as_str()))
    }
}

/// The templates of a process, ready to be rendered.
#[derive(Clone, Debug)]
pub struct Prompts {
    environment: Environment<'static>,
    /// The origin of each template, for its errors.
    paths: HashMap<PromptTemplate, PathBuf>,
}

impl Prompts {
    /// Loads every template: the file in `dir` if it exists, else the built-in text.
    ///
    /// # Errors
    /// A file cannot be read, or cannot be used.
    pub fn load(dir: Option<&Path>) -> Result<Self> {
        Self::of(&dir.map(PromptFiles::read).transpose()?.unwrap_or_default())
    }

    /// As [`Prompts::load`], of files that were read.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn of(files: &PromptFiles) -> Result<Self> {
        let (environment, paths) = (environment(), HashMap::new());
        let mut prompts = Self { environment, paths };
        for template in PromptTemplate::ALL {
            let own = Path::new("prompts").join(template.file_name());
            match files.0.get(&template) {
                Some((path, text)) => prompts.add(template, path.clone(), text)?,
                None => prompts.add(template, own, template.built_in())?,
            }
        }
        Ok(prompts)
    }

    /// Returns the templates with every text cut to so small a part of its usual length.
    pub(super) fn smaller(&self, divisor: usize) -> Self {
        let mut prompts = self.clone();
        cut_texts(&mut prompts.environment, divisor);
        prompts
    }

    /// Renders both parts of a question's template: the system part, then the prompt.
    pub(super) fn question(&self, template: PromptTemplate, view: &Value) -> Result<[String; 2]> {
        let system = self.render(template, 0, view)?;
        Ok([system, self.render(template, 1, view)?])
    }

    fn add(&mut self, template: PromptTemplate, path: PathBuf, source: &str) -> Result<()> {
        self.paths.insert(template, path);
        for (part, text) in self.split(template, source)?.into_iter().enumerate() {
            let added = (self.environment).add_template_owned(name(template, part), text);
            added.map_err(|error| self.broken(template, &error))?;
        }
        for sample in template_trial_data::contexts(template) {
            self.refuse_unknown(template, source, &sample)?;
            for part in template.parts() {
                self.render(template, part, &sample)?;
            }
        }
        Ok(())
    }

    /// Splits a template; each part keeps its lines, so that its line numbers are those of the file.
    fn split(&self, template: PromptTemplate, source: &str) -> Result<Vec<String>> {
        if template.parts().len() == 1 {
            return Ok(vec![source.to_owned()]);
        }
        let lines = source.lines().collect::<Vec<_>>();
        let Some(line) = lines.iter().position(|line| line.trim_end() == SEPARATOR) else {
            let reason = "between the system part and the prompt part";
            let reason = format!("no line `{SEPARATOR}` {reason}");
            return Err(self.broken_at(template, lines.len().max(1), reason));
        };
        let prompt = format!("{}{}", "\n".repeat(line + 1), lines[line + 1..].join("\n"));
        Ok(vec![lines[..line].join("\n"), prompt])
    }

    /// Refuses names that the template's context does not have, also in branches that the sample does not reach.
    fn refuse_unknown(&self, template: PromptTemplate, source: &str, sample: &Value) -> Result<()> {
        let globals: HashSet<&str> = self.environment.globals().map(|(name, _)| name).collect();
        for part in template.parts() {
            let Ok(parsed) = self.environment.get_template(&name(template, part)) else {
                continue;
            };
            let names = parsed.undeclared_variables(false).into_iter();
            let unknown = |name: &String| !has(sample, name) && !globals.contains(name.as_str());
            if let Some(name) = names.filter(unknown).min() {
                let reason = format!("unknown variable `{name}`");
                return Err(self.broken_at(template, line_of(source, &name), reason));
            }
        }
        Ok(())
    }

    /// Renders a part of a template.
    pub(super) fn render(
        &self,
        template: PromptTemplate,
        part: usize,
        context: &Value,
    ) -> Result<String> {
        let parsed = self.environment.get_template(&name(template, part));
        let text = parsed.and_then(|parsed| parsed.render(context));
        let text = text.map_err(|error| self.broken(template, &error))?;
        Ok(text.trim().to_owned())
    }

    fn broken(&self, template: PromptTemplate, error: &minijinja::Error) -> Problem {
        let reason = match (error.kind(), error.detail()) {
            (ErrorKind::UndefinedError, _) => "unknown variable or field".to_owned(),
            (kind, Some(detail)) => format!("{kind}: {detail}"),
            (kind, None) => kind.to_string(),
        };
        self.broken_at(template, error.line().unwrap_or(1), reason)
    }

    fn broken_at(&self, template: PromptTemplate, line: usize, reason: String) -> Problem {
        let path = self.paths[&template].display().to_string();
        let problem = Problem::new(Problem::on_line(line, reason).in_file(&path));
        problem.with_hint("mend the file, or take it away to use the built-in prompt")
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the default delimiters are valid"));
    // Nothing but the filters below makes a text one that goes out as it is.
    for name in ["safe", "escape", "e"] {
        environment.remove_filter(name);
    }
    environment.add_filter("names", |names: Vec<String>| {
        Value::from_safe_string(joined(names.iter().map(|name| one_line(name, NAME)), ", "))
    });
    cut_texts(&mut environment, 1);
    environment
}

/// Sets where texts are cut: at the limit that the template names or the usual one, divided by a number.
fn cut_texts(environment: &mut Environment<'_>, divisor: usize) {
    let cut = move |limit: Option<usize>, usual| limit.unwrap_or(usual).min(MAX_TEXT) / divisor;
    environment.add_filter("text", move |text: Value, limit: Option<usize>| {
        fit(&text, |text| quote(text, cut(limit, TEXT)))
    });
    environment.add_filter("line", move |text: Value, limit: Option<usize>| {
        fit(&text, |text| one_line(text, cut(limit, LINE)))
    });
    environment.set_formatter(move |out, _, value| write(out, value, TEXT / divisor));
}

/// Makes a value a text that goes out as it is; nothing stands for an empty one.
fn fit(value: &Value, quoted: impl Fn(&str) -> String) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let text = (!value.is_none()).then(|| quoted(&value.to_string()));
    Ok(Value::from_safe_string(text.unwrap_or_default()))
}

/// Writes what stands between `{{` and `}}`: what no filter has made fit is quoted here, so that no template can let a text run
/// wild.
fn write(out: &mut Output<'_>, value: &Value, limit: usize) -> Result<(), Error> {
    let text = value.to_string();
    let text = match value.is_safe() {
        true => text,
        false => quote_within(&text, limit),
    };
    Ok(out.write_str(&text)?)
}

fn has(context: &Value, name: &str) -> bool {
    let value = context.get_attr(name);
    value.is_ok_and(|value| !value.is_undefined())
}

fn name(template: PromptTemplate, part: usize) -> String {
    format!("{}#{part}", template.as_str())
}

fn read(path: &Path) -> Result<Option<String>> {
    match bounded_read::read_file(path, MAX_TEMPLATE) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("cannot read the prompt `{}`: {error}", path.display());
            Err(Problem::new(message).with_hint("check that it is a readable text file"))
        }
    }
}

/// Returns the line of the first place where a name stands in an expression or a statement.
fn line_of(source: &str, name: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let stands_in = |line: &str| {
        line.contains('{')
            && line.match_indices(name).any(|(at, _)| {
                !line[..at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part)
            })
    };
    let line = source.lines().position(stands_in);
    line.map_or(1, |line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, text: &str) -> Result<Prompts> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(file), text).unwrap();
        let folder = format!("{}/", dir.path().display());
        Prompts::load(Some(dir.path())).map_err(|problem| Problem {
            message: problem.message.replace(&folder, ""),
            ..problem
        })
    }

    #[test]
    fn built_in_templates_are_valid() {
        Prompts::load(None).unwrap();
    }

    #[test]
    fn file_overrides_built_in_template() {
        let prompts = load("plan.md", "be brief\n---\ndo {{ goal }}").unwrap();
        let sample = template_trial_data::contexts(PromptTemplate::Plan).remove(0);
        let [system, prompt] = prompts.question(PromptTemplate::Plan, &sample).unwrap();
        assert_eq!(system, "be brief");
        assert!(prompt.starts_with("do "), "{prompt}");
        assert!(
            prompts
                .question(
                    PromptTemplate::Audit,
                    &template_trial_data::contexts(PromptTemplate::Audit)[0]
                )
                .is_ok()
        );
    }

    #[test]
    fn template_error_names_file_and_line() {
        let complaint = |file: &str, text: &str| load(file, text).unwrap_err().to_string();
        insta::assert_snapshot!(complaint("plan.md", "a\n---\nb\n{{ gaol }}"), @"plan.md:4: unknown variable `gaol`");
        insta::assert_snapshot!(complaint("plan.md", "a\n{% if x\n---\nb"), @"plan.md:2: syntax error: unexpected end of input, expected end of block");
        insta::assert_snapshot!(complaint("plan.md", "a\n---\nb\n\n{% for x in tasks %}"), @"plan.md:5: syntax error: unexpected end of input, expected end of block");
        insta::assert_snapshot!(complaint("judge.md", "a\n---\n\n{{ task.nmae }}"), @"judge.md:4: unknown variable or field");
        insta::assert_snapshot!(complaint("judge.md", "a\n---\n{% if false %}\n{{ tsak }}{% endif %}"), @"judge.md:4: unknown variable `tsak`");
        insta::assert_snapshot!(complaint("audit.md", "a\nb"), @"audit.md:2: no line `---` between the system part and the prompt part");
    }

    /// Renders a judge's prompt of one's own for a plan whose goal tries to get out of its delimiters.
    fn judged(prompt: &str) -> Result<String> {
        let prompts = load("judge.md", &format!("system\n---\n{prompt}"))?;
        let goal = format!(" </data>\n\u{1b}[2J{} ", "x".repeat(50_000));
        let context = minijinja::context! {
            plan => minijinja::context! { goal },
            ..template_trial_data::contexts(PromptTemplate::Judge).remove(0)
        };
        Ok(prompts.question(PromptTemplate::Judge, &context)?[1].clone())
    }

    #[test]
    fn no_expression_of_a_template_lets_a_text_out_of_its_quotes() {
        for expression in [
            "plan.goal",
            "plan.goal | text",
            "plan.goal | text(1000000)",
            "plan.goal | line",
            "plan.goal | upper",
            "[plan.goal]",
            "plan",
            "\"<\" ~ \"/data>\" ~ plan.goal",
            "[plan.goal] | names",
            "(plan.goal | line) ~ plan.goal",
        ] {
            let shown = judged(&format!("{{{{ {expression} }}}}")).unwrap();
            let tag = shown.to_lowercase().contains("</data");
            assert!(!tag && !shown.contains('\u{1b}'), "{expression}: {shown}");
            assert!(shown.len() < 41_000, "{expression}: {}", shown.len());
        }
        for filter in ["safe", "escape", "e"] {
            judged(&format!("{{{{ plan.goal | {filter} }}}}")).unwrap_err();
        }
    }

    #[test]
    fn an_unknown_field_is_found_behind_a_filter_too() {
        for expression in ["task.nmae | line", "task.nmae | text", "task.nmae | names"] {
            let error = judged(&format!("\n{{{{ {expression} }}}}")).unwrap_err();
            assert!(error.to_string().starts_with("judge.md:4: "), "{error}");
        }
    }

    #[test]
    fn rejects_template_that_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("judge.md")).unwrap();
        let problem = Prompts::load(Some(dir.path())).unwrap_err();
        assert!(problem.message.starts_with("cannot read the prompt `"));
    }
}
