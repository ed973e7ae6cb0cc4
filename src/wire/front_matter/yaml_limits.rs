//! Refuses a header that could cost a YAML parser too much time or memory, or whose meaning a reader cannot see. This happens
//! before any parser reads it. The guard reads only lines and characters; where it cannot distinguish text from YAML, it
//! refuses.

use crate::wire::Problem;

/// The most bytes of a header.
pub(super) const MAX_HEADER: usize = 8 * 1024;
/// The most opening brackets and braces in a whole header; parsers take quadratic time for deep nesting.
const MAX_OPENERS: usize = 64;
/// The most columns of indentation; they limit the depth of block nesting.
const MAX_INDENT: usize = 64;
/// The same limit for a document, where continued text may be indented far.
const MAX_DOCUMENT_INDENT: usize = 256;
/// The most `- - -` and `? ? ?` markers in one line: each opens a level.
const MAX_MARKERS: usize = 8;

/// Refuses a header of more than `longest` bytes.
pub(super) fn check_length(bytes: usize, longest: usize, first_line: usize) -> Result<(), Problem> {
    if bytes <= longest {
        return Ok(());
    }
    let message = format!("the front matter has {bytes} bytes, more than {longest}");
    Err(Problem::on_line(first_line, message).with_hint("move long text into the body"))
}

/// Checks a header that is short enough; its first line has the number `first_line` in the file. Returns the problem of a plain `*text*` in the place
/// of a value, if there is one: YAML reads it as an undefined alias, so that the header can only be read line by line.
///
/// # Errors
/// The first reason for which the header must not be read in any way.
pub(super) fn check_header(header: &str, first_line: usize) -> Result<Option<Problem>, Problem> {
    if header.matches(['[', '{']).count() > MAX_OPENERS {
        return Err(too_deep(first_line));
    }
    let lines = || (first_line..).zip(header.lines());
    if let Some((number, line)) = lines().find(|(_, line)| significant(line))
        && (line.starts_with('[') || line.strip_prefix('-').is_some_and(ends_word))
    {
        let message = "the front matter is a list, not fields such as `key: value`";
        return Err(Problem::on_line(number, message));
    }
    for (number, line) in lines() {
        check_line(line, number)?;
    }
    find_indicator(header, first_line)
}

fn too_deep(line: usize) -> Problem {
    Problem::on_line(line, "the front matter is nested too deeply")
}

/// Checks a document that a person wrote for this program, such as a plan file. Long text and brackets are allowed; only input
/// that makes a parser explode is refused.
pub(super) fn check_document(text: &str) -> Result<(), Problem> {
    let mut depth = 0_usize;
    let mut literal_indent = None;
    for (number, line) in (1..).zip(text.lines()) {
        for byte in line.bytes() {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        let too_deep = || Err(Problem::on_line(number, "nested too deeply"));
        if depth > MAX_OPENERS {
            return too_deep();
        }
        if in_literal(&mut literal_indent, line) {
            continue;
        }
        if levels(line) > MAX_OPENERS || line.len() - line.trim_start().len() > MAX_DOCUMENT_INDENT
        {
            return too_deep();
        }
        let anchor = value_starts(line, true).into_iter().find(|at| {
            let value = line[*at..].strip_prefix('&');
            value.is_some_and(|name| name.starts_with(|c: char| !c.is_whitespace()))
        });
        if let Some(at) = anchor {
            let problem = Problem::at(number, column(line, at), "a YAML anchor");
            return Err(problem.with_hint("put the text in double quotes"));
        }
    }
    Ok(())
}

/// Returns whether the line is text of a block that began with `|` or `>` above it; also remembers such a beginning.
fn in_literal(outer: &mut Option<usize>, line: &str) -> bool {
    let indent = line.len() - line.trim_start_matches(' ').len();
    if let Some(outer) = *outer
        && (line.trim().is_empty() || indent > outer)
    {
        return true;
    }
    *outer = opens_literal(line).then_some(indent);
    false
}

fn significant(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !text.starts_with('#')
}

fn check_line(line: &str, number: usize) -> Result<(), Problem> {
    let at = |column, message| Problem::at(number, column, message);
    if let Some(place) = line.chars().position(forbidden) {
        let problem = at(place + 1, "a control character in the front matter");
        return Err(problem.with_hint("write plain text"));
    }
    if line.len() - line.trim_start().len() > MAX_INDENT || levels(line) > MAX_MARKERS {
        return Err(too_deep(number));
    }
    if line.starts_with('%') {
        return Err(at(1, "a YAML directive in the front matter"));
    }
    if let Some(byte) = surrogate_escape(line) {
        let problem = at(column(line, byte), "a surrogate in an escape");
        return Err(problem.with_hint("write the character itself"));
    }
    Ok(())
}

/// Counts the markers of a line that may each open a level.
fn levels(line: &str) -> usize {
    let words = line.split([' ', '\t']);
    words.filter(|word| matches!(*word, "-" | "?")).count()
}

fn forbidden(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// Finds `\uD800` to `\uDFFF`.
fn surrogate_escape(line: &str) -> Option<usize> {
    line.match_indices("\\u").map(|(at, _)| at).find(|at| {
        let digits = &line.as_bytes()[at + 2..];
        matches!(
            digits,
            [b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..]
        )
    })
}

/// Returns whether the text begins with the key `<<`. Where each line can be understood alone, the colon after a key ends a
/// word.
fn merge_key(text: &str, plain: bool) -> bool {
    let quote = |c| matches!(c, '"' | '\'');
    let Some(rest) = text.strip_prefix(quote).unwrap_or(text).strip_prefix("<<") else {
        return false;
    };
    let rest = rest.strip_prefix(quote).unwrap_or(rest).trim_start();
    rest.strip_prefix(':')
        .is_some_and(|rest| !plain || ends_word(rest))
}

/// Finds merge keys, anchors, aliases and tags wherever a YAML value may begin; see [`check_header`].
fn find_indicator(header: &str, first_line: usize) -> Result<Option<Problem>, Problem> {
    let plain = plain_lines_only(header);
    let mut emphasis = None;
    let mut literal_indent = None;
    for (number, line) in (first_line..).zip(header.lines()) {
        let indent = line.len() - line.trim_start_matches(' ').len();
        if plain && in_literal(&mut literal_indent, line) {
            continue;
        }
        for at in value_starts(line, plain) {
            let place = column(line, at);
            if merge_key(&line[at..], plain) {
                return Err(Problem::at(number, place, "a YAML merge key `<<`"));
            }
            let what = match (line.as_bytes().get(at), line.as_bytes().get(at + 1)) {
                (Some(b'&'), Some(next)) if !next.is_ascii_whitespace() => "anchor",
                (Some(b'*'), Some(next)) if !next.is_ascii_whitespace() => "alias",
                (Some(b'!'), _) => "tag",
                _ => continue,
            };
            let problem = Problem::at(number, place, format!("a YAML {what} in the front matter"));
            let problem = problem.with_hint("put the text in double quotes");
            if what == "alias" && plain && indent == 0 && !line.starts_with(['-', '?', '*']) {
                emphasis.get_or_insert(problem);
            } else {
                return Err(problem);
            }
        }
    }
    Ok(emphasis)
}

/// Returns whether each line can be understood alone: no brackets, no quoted key, no quote that stays open.
fn plain_lines_only(header: &str) -> bool {
    header.lines().filter(|line| significant(line)).all(|line| {
        let text = after_markers(line);
        let value = first_value(line);
        let plain = |text: &str| !text.starts_with(['[', '{', '"', '\'']) || quoted(text);
        plain(text) && plain(value)
    })
}

/// Returns the text after the markers and the key of a line.
fn first_value(line: &str) -> &str {
    let text = after_markers(line);
    let mut colons = text.match_indices(':').map(|(at, _)| at);
    let colon = colons.find(|at| ends_word(&text[at + 1..]));
    colon.map_or(text, |at| &text[at + 1..]).trim()
}

fn after_markers(line: &str) -> &str {
    let mut text = line.trim_start();
    while let Some(rest) = text.strip_prefix(['-', '?'])
        && ends_word(rest)
    {
        text = rest.trim_start();
    }
    text
}

/// Returns whether a marker before this text is a word of its own.
fn ends_word(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t'])
}

/// Returns whether the value is one quoted text, followed by nothing but a comment.
fn quoted(value: &str) -> bool {
    behind_quotes(value).is_some_and(|rest| {
        let rest = rest.trim_start();
        rest.is_empty() || rest.starts_with('#')
    })
}

/// Returns the text after the closing quote of a value that begins with a quote.
fn behind_quotes(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut chars = value[1..].chars();
    while let Some(c) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote {
            let rest = chars.as_str();
            match rest.strip_prefix('\'') {
                Some(behind) if quote == '\'' => chars = behind.chars(),
                _ => return Some(rest),
            }
        }
    }
    None
}

/// Returns whether the line ends in `|` or `>` (with modifiers): indented lines after it are text.
fn opens_literal(line: &str) -> bool {
    let mut chars = first_value(line).chars();
    matches!(chars.next(), Some('|' | '>')) && chars.all(|c| "+-0123456789".contains(c))
}

/// Returns the byte positions at which a YAML value may begin in the line.
fn value_starts(line: &str, plain: bool) -> Vec<usize> {
    if !significant(line) {
        return Vec::new();
    }
    let mut starts = vec![line.len() - after_markers(line).len()];
    if plain && quoted(first_value(line)) {
        return starts;
    }
    let comment = if plain { line.find(" #") } else { None };
    let bytes = &line.as_bytes()[..comment.unwrap_or(line.len())];
    for (at, byte) in bytes.iter().enumerate() {
        let opens = match byte {
            b':' => !plain || bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace),
            b'[' | b'{' | b',' => !plain,
            b'-' | b'?' => !plain && bytes.get(at + 1).is_some_and(u8::is_ascii_whitespace),
            _ => false,
        };
        if opens {
            let rest = &line[at + 1..];
            starts.push(line.len() - rest.trim_start().len());
        }
    }
    starts
}

fn column(line: &str, byte: usize) -> usize {
    line[..byte].chars().count() + 1
}
