//! The one place that splits a file with front matter. It repairs what is evidently meant (BOM, CRLF, a fence around the whole
//! file), guards the header, and only then lets gray_matter split the text and serde_yaml read it.

mod yaml_limits;

use std::borrow::Cow;
use std::collections::HashMap;

use gray_matter::engine::Engine;
use gray_matter::{Matter, ParsedEntity, Pod};
use serde::de::DeserializeOwned;
use serde_yaml::Value;

use self::yaml_limits::MAX_HEADER;
use super::Problem;

/// A file split into header and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontMatter {
    /// The YAML between the `---` lines, with its top-level keys in lower case; empty without front matter.
    header: String,
    /// Line of the file on which the header begins.
    header_line: usize,
    /// The text after the front matter, with `\n` line ends and without leading blank lines.
    pub body: String,
    /// Line of the file on which the body begins.
    pub body_line: usize,
}

/// One field of a header, read as text without YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderField {
    /// In lower case, without quotes.
    pub key: String,
    /// The text after the colon, with the lines that belong to it.
    pub text: String,
}

impl HeaderField {
    /// Returns the value if it is on one line: without its quotes and without a comment.
    pub fn scalar(&self) -> Option<&str> {
        let text = self.text.trim();
        if text.contains('\n') {
            return None;
        }
        let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return Some(without_comment(text));
        };
        let (inner, rest) = text[1..].split_once(quote)?;
        let rest = rest.trim_start();
        (rest.is_empty() || rest.starts_with('#')).then_some(inner)
    }
}

/// Splits a file that must have front matter.
///
/// # Errors
/// No front matter, no closing `---`, or a header that is empty or longer than the limit.
pub fn split(text: &str) -> Result<FrontMatter, Problem> {
    let front = split_at_most(text, MAX_HEADER)?;
    if front.header.is_empty() {
        let line = front.header_line;
        return Err(Problem::on_line(line, "no front matter").with_hint(
            "begin the file with a line `---`, then fields such as `key: value`, then another line `---`",
        ));
    }
    Ok(front)
}

/// Splits a file that may have front matter; without front matter the whole file is body.
///
/// # Errors
/// An opening `---` without a closing one.
pub fn split_any(text: &str) -> Result<FrontMatter, Problem> {
    split_at_most(text, usize::MAX)
}

/// Reads a YAML document that a person wrote for this program.
///
/// # Errors
/// Anchors, deep nesting, or YAML that does not fit the type.
pub fn document<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let text = text.trim_start_matches('\u{feff}');
    yaml_limits::check_document(text)?;
    parse_yaml(text, 1)
}

/// As [`document`], for text that is known to be JSON: in its texts may stand what the guards of YAML refuse.
///
/// # Errors
/// It does not fit the type.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    parse_yaml(text, 1)
}

/// Reads fields in YAML of at most `longest` bytes that anybody may have written, such as a model.
///
/// # Errors
/// What the guards refuse in a header, too, or YAML that does not fit the type.
pub fn foreign<T: DeserializeOwned>(text: &str, longest: usize) -> Result<T, Problem> {
    yaml_limits::check_length(text.len(), longest, 1)?;
    guard(text, 1)?;
    parse_yaml(text, 1)
}

/// Refuses what may cost the parser too much, or is an alias for it.
fn guard(text: &str, first_line: usize) -> Result<(), Problem> {
    yaml_limits::check_header(text, first_line)?.map_or(Ok(()), Err)
}

fn parse_yaml<T: DeserializeOwned>(text: &str, first_line: usize) -> Result<T, Problem> {
    serde_yaml::from_str(text).map_err(|error| yaml_problem(&error, first_line))
}

impl FrontMatter {
    /// Reads the header into a type. The type decides whether it refuses or ignores unknown keys.
    ///
    /// # Errors
    /// A header that the guards refuse, a key written twice, or YAML that does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        guard(&self.header, self.header_line)?;
        self.refuse_duplicates()?;
        parse_yaml(&self.header, self.header_line)
    }

    /// Returns the header of a file that a person wrote for this program as a [`document`] in which every line has its number in
    /// the file; `None` if it has no fields.
    pub(crate) fn as_document(&self) -> Option<String> {
        self.keys().next()?;
        Some("\n".repeat(self.header_line - 1) + &self.header)
    }

    /// Returns the top-level keys of the header with their lines.
    pub fn keys(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = (self.header_line..).zip(self.header.lines());
        lines.filter_map(|(line, text)| Some((line, key_and_value(text)?.0)))
    }

    /// Reads the top level of the header line by line, without YAML. This serves headers in which one field spoils the YAML of
    /// all.
    ///
    /// # Errors
    /// A header that the guards refuse, or a line that belongs to no field.
    pub fn fields(&self) -> Result<Vec<HeaderField>, Problem> {
        yaml_limits::check_header(&self.header, self.header_line)?;
        let mut fields: Vec<HeaderField> = Vec::new();
        for (line, text) in (self.header_line..).zip(self.header.lines()) {
            if let Some((key, value)) = key_and_value(text) {
                let (key, text) = (key.to_owned(), value.trim().to_owned());
                fields.push(HeaderField { key, text });
                continue;
            }
            match fields.last_mut() {
                _ if text.trim().is_empty() || text.starts_with('#') => {}
                Some(field) if text.starts_with([' ', '\t', '-']) => {
                    field.text += "\n";
                    field.text += text.trim_end();
                }
                _ => return Err(Problem::on_line(line, "a line that is no `key: value`")),
            }
        }
        Ok(fields)
    }

    /// Returns the line of a key, or the first line of the header.
    pub fn line_of(&self, key: &str) -> usize {
        self.keys()
            .find(|(_, found)| *found == key)
            .map_or(self.header_line, |(line, _)| line)
    }

    fn refuse_duplicates(&self) -> Result<(), Problem> {
        let mut seen = HashMap::new();
        for (line, key) in self.keys() {
            if let Some(first) = seen.insert(key, line) {
                let message = format!("`{key}` is written twice, first on line {first}");
                return Err(Problem::on_line(line, message).with_hint("keep one of them"));
            }
        }
        Ok(())
    }
}

/// Joins a header and a body into a file. Fields without a value are left out.
pub(crate) fn join<T: serde::Serialize>(header: &T, body: &str) -> String {
    let header = serde_yaml::to_value(header).and_then(|mut header| {
        if let Value::Mapping(fields) = &mut header {
            fields.retain(|_, value| !value.is_null());
        }
        serde_yaml::to_string(&header)
    });
    let header = header.expect("a struct of texts, numbers and lists can be written as YAML");
    format!("---\n{header}---\n\n{}\n", body.trim())
}

/// Splits a file whose header has at most `longest` bytes. It keeps no list of the file's lines, and does not read what follows
/// the header line by line: a megabyte of line ends is read as fast as a megabyte of words.
fn split_at_most(text: &str, longest: usize) -> Result<FrontMatter, Problem> {
    let (text, skipped) = normalize(text);
    if !text.starts_with("---\n") && text != "---" {
        return Ok(FrontMatter {
            header: String::new(),
            header_line: skipped + 1,
            body: text.into_owned(),
            body_line: skipped + 1,
        });
    }
    let Some((closing, end)) = closing(&text) else {
        return Err(no_closing(&text, skipped));
    };
    let (front, rest) = text.split_at(end);
    let bytes = front.len().saturating_sub("---\n---\n".len());
    yaml_limits::check_length(bytes, longest, skipped + 2)?;
    let blank = front.lines().skip(1).take(closing - 1);
    let blank = blank.take_while(|line| line.trim().is_empty()).count();
    // The splitter removes the indentation of the first line: the line would wrongly become a field of the top level.
    let first = front.lines().nth(1 + blank).unwrap_or_default();
    if first.starts_with([' ', '\t']) && !first.trim_start().starts_with('#') {
        let message = "the front matter begins with an indented line, and not every line is";
        return Err(Problem::on_line(skipped + 2 + blank, message)
            .with_hint("begin each field at the left edge"));
    }
    let parsed = Matter::<Splitter>::new().parse(front);
    let parsed: ParsedEntity = parsed.map_err(|error| Problem::new(error.to_string()))?;
    let body = rest.trim_start_matches('\n');
    let mut behind = rest.len() - body.len();
    if body.is_empty() {
        // The last line has no line end.
        behind = behind.saturating_sub(1);
    }
    Ok(FrontMatter {
        header: lower_case_keys(&parsed.matter),
        header_line: skipped + 2 + blank,
        body: body.strip_suffix('\n').unwrap_or(body).to_owned(),
        body_line: skipped + closing + 2 + behind,
    })
}

/// Returns the number of the line that closes the front matter, counted from 0, and the byte where the next line begins.
fn closing(text: &str) -> Option<(usize, usize)> {
    let mut end = 0;
    let mut lines = text.split_inclusive('\n').enumerate();
    let (number, _) = lines.find(|(number, line)| {
        end += line.len();
        *number > 0 && line.trim_end() == "---"
    })?;
    Some((number, end))
}

/// Returns an error of the YAML parser with the line of the file; the parser counts lines from the start of the header.
fn yaml_problem(error: &serde_yaml::Error, first_line: usize) -> Problem {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    let mut problem = Problem::on_line(first_line, message);
    if let Some(place) = error.location() {
        let line = first_line + place.line().saturating_sub(1);
        problem = Problem::at(line, place.column(), message);
    }
    let mut misfit = "invalid type|invalid value|missing field|unknown variant".split('|');
    if misfit.any(|words| message.contains(words)) {
        return problem;
    }
    problem.with_hint("put text with `: `, quotes or brackets in it in double quotes")
}

/// Prevents gray_matter from parsing YAML: its own parser has no limits.
struct Splitter;

impl Engine for Splitter {
    fn parse(_: &str) -> gray_matter::Result<Pod> {
        Ok(Pod::Null)
    }
}

/// Returns the text as it was evidently meant, with `\n` between its lines and without one at its end. Also returns how many
/// lines of the file before it were left out.
fn normalize(text: &str) -> (Cow<'_, str>, usize) {
    let (mut text, mut skipped) = without_blank_lines(text.trim_start_matches('\u{feff}'));
    if let Some(fence) = text.lines().next().and_then(opening_fence) {
        let (inside, blank) = without_blank_lines(after_line(text));
        if opens_header(inside) {
            skipped += 1 + blank;
            text = without_last_line(inside, fence);
        }
    }
    text = (text.strip_suffix("\r\n").or(text.strip_suffix('\n'))).unwrap_or(text);
    let mut mended = Cow::Borrowed(text);
    if text.contains("\r\n") {
        mended = Cow::Owned(text.replace("\r\n", "\n"));
    }
    if opens_header(&mended) {
        let (indent, until) = indentation(&mended);
        if indent > 0 || !mended.starts_with("---\n") {
            mended = Cow::Owned(without_indentation(&mended, indent, until));
        }
    }
    (mended, skipped)
}

/// Returns the text from its first line that is not blank, and the number of lines before it.
fn without_blank_lines(text: &str) -> (&str, usize) {
    let rest = text.trim_start();
    if rest.is_empty() {
        return ("", text.lines().count());
    }
    let blank = &text[..text.len() - rest.len()];
    let start = blank.rfind('\n').map_or(0, |at| at + 1);
    let count = blank.bytes().filter(|byte| *byte == b'\n').count();
    (&text[start..], count)
}

fn after_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, rest)| rest)
}

/// Returns the text without its last line, if that is the closing fence of the whole file.
fn without_last_line<'a>(text: &'a str, fence: &str) -> &'a str {
    let whole = text.trim_end();
    let last = whole.rfind('\n').map_or(0, |at| at + 1);
    match last > 0 && whole[last..].trim() == fence {
        true => &text[..last],
        false => text,
    }
}

fn opens_header(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.trim() == "---")
}

/// Returns how many bytes of indentation all lines of a header share, and the number of the line up to which this indentation
/// is removed: that of the closing `---`. An indentation of only some lines may show to which key a field belongs, and stays.
fn indentation(text: &str) -> (usize, usize) {
    let lines = || text.lines().skip(1);
    let closing = lines().position(|line| line.trim() == "---").unwrap_or(0);
    let mut filled = lines().take(closing).filter(|line| !line.trim().is_empty());
    let common = filled.next().map(|first| {
        let first = &first[..width(first)];
        filled.fold(first, |common, line| shared(common, line))
    });
    (common.map_or(0, str::len), closing + 1)
}

/// Returns the common beginning of two lines.
fn shared<'a>(one: &'a str, other: &str) -> &'a str {
    let alike = one.bytes().zip(other.bytes());
    &one[..alike.take_while(|(one, other)| one == other).count()]
}

/// Removes the indentation from the lines of the header, and the spaces around the `---` in the first line.
fn without_indentation(text: &str, indent: usize, until: usize) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut end = 0;
    for (number, line) in text.split_inclusive('\n').take(until + 1).enumerate() {
        end += line.len();
        mended.push_str(match number {
            0 if line.ends_with('\n') => "---\n",
            0 => "---",
            _ => &line[width(line).min(indent)..],
        });
    }
    mended + &text[end..]
}

/// Returns the indentation of a line in bytes.
fn width(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Returns the opening fence of a line such as ```` ```markdown ````.
fn opening_fence(line: &str) -> Option<&str> {
    let line = line.trim();
    let info = line.trim_start_matches('`');
    let fence = &line[..line.len() - info.len()];
    let known = ["", "markdown", "md", "yaml", "text"];
    (fence.len() >= 3 && known.contains(&info.trim().to_ascii_lowercase().as_str()))
        .then_some(fence)
}

/// Returns the problem of a missing closing `---`, with its place: after the last line that looks like a field.
fn no_closing(text: &str, skipped: usize) -> Problem {
    // A header that passes the size limit has no more lines.
    let lines = text.lines().skip(1).take(MAX_HEADER);
    let is_field = |line: &&str| {
        key_and_value(line).is_some() || (line.starts_with(' ') && !line.trim().is_empty())
    };
    let line = skipped + 1 + lines.take_while(is_field).count();
    Problem::on_line(line, "the front matter has no closing `---`")
        .with_hint(format!("put a line `---` after line {line}"))
}

/// Splits a top-level line of the header into key and value.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    if line.starts_with([' ', '\t', '#']) || line.starts_with("- ") {
        return None;
    }
    let ends_key =
        |(at, _): &(usize, &str)| line[at + 1..].starts_with([' ', '\t']) || line.len() == at + 1;
    let (end, _) = line.match_indices(':').find(ends_key)?;
    let key = line[..end].trim();
    let unquoted = |quote| key.strip_prefix(quote)?.strip_suffix(quote);
    let key = unquoted('"').or_else(|| unquoted('\'')).unwrap_or(key);
    (!key.is_empty()).then_some((key, &line[end + 1..]))
}

/// Converts keys to lower case, and what stands behind them for a colon and a space; else the columns stay the same.
fn lower_case_keys(header: &str) -> String {
    let mut text = String::with_capacity(header.len());
    for (number, line) in header.lines().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let start = text.len();
        let line = with_plain_colon(line).map_or(Cow::Borrowed(line), Cow::Owned);
        text.push_str(&line);
        if let Some((_, value)) = key_and_value(&line) {
            let end = text.len() - value.len();
            text[start..end].make_ascii_lowercase();
        }
    }
    text
}

/// Returns a line of the top level that has the colon or the space of another keyboard, as YAML wants it.
fn with_plain_colon(line: &str) -> Option<String> {
    if key_and_value(line).is_some() {
        return None;
    }
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (key, rest) = line.split_at(end);
    let plain = rest.strip_prefix(':');
    let odd = plain.filter(|value| value.starts_with(['\u{a0}', '\u{3000}']));
    let value = rest.strip_prefix('：').or(odd)?;
    (!key.is_empty()).then(|| format!("{key}: {}", value.trim_start()))
}

fn without_comment(text: &str) -> &str {
    if text.starts_with('#') {
        return "";
    }
    text.find(" #").map_or(text, |at| &text[..at]).trim_end()
}

#[cfg(test)]
mod tests;
