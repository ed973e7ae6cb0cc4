//! The part of Markdown that the files need: lines that know whether they are inside a code fence, and headings with the text
//! below them, unchanged.

/// Tracks code fences from line to line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    open: Option<(char, usize)>,
}

impl Fences {
    /// Reads the next line and returns whether it is code: inside a fence, or the fence itself.
    pub(crate) fn is_code(&mut self, line: &str) -> bool {
        let Some((mark, length, rest)) = fence(line) else {
            return self.open.is_some();
        };
        match self.open {
            None if mark == '`' && rest.contains('`') => false,
            None => {
                self.open = Some((mark, length));
                true
            }
            Some((open, least)) => {
                if mark == open && length >= least && rest.trim().is_empty() {
                    self.open = None;
                }
                true
            }
        }
    }

    /// Returns the line that ends the open fence, if one is open.
    pub(crate) fn closing(&self) -> Option<String> {
        let (mark, length) = self.open?;
        Some(mark.to_string().repeat(length))
    }
}

/// A heading and the text below it up to the next heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// 1 to 6; 0 for the text before the first heading.
    pub(crate) level: usize,
    pub(crate) title: &'a str,
    /// The heading's line and the lines below it.
    pub(crate) whole: &'a str,
    /// The lines below the heading.
    pub(crate) text: &'a str,
}

/// Splits a text at its headings; headings inside code fences are text. The sections are returned one at a time: for a megabyte
/// of headings a list would be many times as large as the text.
pub(crate) fn sections(text: &str) -> impl Iterator<Item = Section<'_>> {
    let mut fences = Fences::default();
    let mut lines = text.split_inclusive('\n');
    let mut end = 0;
    // Its texts reach to the end of the whole text until the next heading is found.
    let mut open = Some(Section {
        level: 0,
        title: "",
        whole: text,
        text,
    });
    std::iter::from_fn(move || {
        let mut section = open.take()?;
        for line in lines.by_ref() {
            let start = end;
            end += line.len();
            if fences.is_code(line) {
                continue;
            }
            let Some((level, title)) = heading(line) else {
                continue;
            };
            open = Some(Section {
                level,
                title,
                whole: &text[start..],
                text: &text[end..],
            });
            let rest = text.len() - start;
            section.whole = &section.whole[..section.whole.len() - rest];
            section.text = &section.text[..section.text.len() - rest];
            return Some(section);
        }
        Some(section)
    })
}

/// Returns level and title if a line is a heading.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let text = unindented(line)?;
    let title = text.trim_start_matches('#');
    let level = text.len() - title.len();
    if !(1..=6).contains(&level) || !(title.starts_with([' ', '\t']) || title.trim().is_empty()) {
        return None;
    }
    Some((level, without_closing(title.trim())))
}

/// Removes the optional `##` at the end of a heading, which is separated by a space: `C#` keeps its `#`.
fn without_closing(title: &str) -> &str {
    let text = title.trim_end_matches('#');
    if text.is_empty() || text.ends_with([' ', '\t']) {
        text.trim_end()
    } else {
        title
    }
}

/// The most bytes of a heading that may be one of the known ones.
const LONGEST_TITLE: usize = 120;

/// Sorts a text under the headings it is expected to have, and returns the rest beside; a deeper heading stays with the part it
/// stands in, what stands under any other heading is kept as it is. A text with none of the headings is wholly the first part. Headings that
/// were escaped are text, and returned as they were.
pub(crate) fn parts<const N: usize>(text: &str, words: [&str; N]) -> ([String; N], String) {
    let words = words.map(in_letters);
    let mut known: [String; N] = std::array::from_fn(|_| String::new());
    let mut other = String::new();
    let mut current: Option<(usize, usize)> = None;
    let mut found = false;
    for section in sections(text) {
        if let Some(part) = named(section.title, &words) {
            found = true;
            current = Some((part, section.level));
            append(&mut known[part], section.text);
            continue;
        }
        current = current.filter(|(_, level)| section.level > *level);
        let place = current.map_or(&mut other, |(part, _)| &mut known[part]);
        append(place, section.whole);
    }
    if !found && N > 0 {
        known[0] = std::mem::take(&mut other);
    }
    for part in known.iter_mut().chain([&mut other]) {
        *part = unescape(part.trim(), &words);
    }
    (known, other)
}

/// Returns a text in which no line is read as one of these headings: [`parts`] returns it was.
pub(crate) fn escape<const N: usize>(text: &str, words: [&str; N]) -> String {
    let words = words.map(in_letters);
    change_lines(text, |line| {
        is_known(line.trim_start_matches('\\'), &words).then(|| format!("\\{line}"))
    })
}

fn unescape(text: &str, words: &[Vec<String>]) -> String {
    change_lines(text, |line| {
        let line = line.strip_prefix('\\')?;
        is_known(line.trim_start_matches('\\'), words).then(|| line.to_owned())
    })
}

/// Replaces lines outside of code fences.
fn change_lines(text: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let mut fences = Fences::default();
    let mut changed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let new = (!fences.is_code(line)).then(|| change(line)).flatten();
        changed.push_str(new.as_deref().unwrap_or(line));
    }
    changed
}

fn is_known(line: &str, words: &[Vec<String>]) -> bool {
    heading(line).is_some_and(|(_, title)| named(title, words).is_some())
}

/// Reads what a part may be called, with `|` between each two.
fn in_letters(words: &str) -> Vec<String> {
    words.split('|').map(letters).collect()
}

/// Returns the part that a heading names, in any of its languages or several together: `Core results / 核心成果`, `1. Core
/// results:`, `核心成果 (core results)`.
fn named(title: &str, words: &[Vec<String>]) -> Option<usize> {
    if title.is_empty() || title.len() > LONGEST_TITLE {
        return None;
    }
    let names = title
        .split(['/', '|', '(', ')', '（', '）', '·'])
        .map(letters);
    let mut names = names.filter(|name| !name.is_empty());
    names.find_map(|name| words.iter().position(|words| words.contains(&name)))
}

fn append(part: &mut String, text: &str) {
    if !part.is_empty() && !part.ends_with('\n') {
        part.push('\n');
    }
    part.push_str(text);
}

fn letters(text: &str) -> String {
    let text = text.trim_start_matches(|c: char| !c.is_alphabetic());
    let letters = text.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns a line without its indentation, unless that is so deep that it makes the line code.
fn unindented(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len() <= 3).then_some(text)
}

fn fence(line: &str) -> Option<(char, usize, &str)> {
    let text = unindented(line)?;
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let length = text.len() - rest.len();
    (length >= 3).then_some((mark, length, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_headings_outside_fences() {
        let text = "intro\n# One\na\n```sh\n# not\n```\n## Two ##\n~~~\n## no\n```\n~~~\nb\n####### no\n#no\n";
        let found = sections(text).map(|section| (section.level, section.title, section.text));
        let wanted = [
            (0, "", "intro\n"),
            (1, "One", "a\n```sh\n# not\n```\n"),
            (2, "Two", "~~~\n## no\n```\n~~~\nb\n####### no\n#no\n"),
        ];
        assert_eq!(Vec::from_iter(found), wanted);
    }

    #[test]
    fn parts_keep_all_text() {
        let words = ["One", "Two"];
        let text = "t\n# Title\n## Two\n2\n### Sub\ns\n## Odd\no\n## One\n1";
        let (known, other) = super::parts(text, words);
        assert_eq!(known, ["1", "2\n### Sub\ns"]);
        assert_eq!(other, "t\n# Title\n## Odd\no");
        let (known, other) = super::parts("# Title\ntext", words);
        assert_eq!(known, ["# Title\ntext", ""]);
        assert_eq!(other, "");
    }

    #[test]
    fn escaped_headings_are_text() {
        let words = ["One", "Two"];
        let text = "a\n## Two\n\\# One\n```\n# One\n```\n\\x\n## Three\n## One";
        let whole = format!("## One\n\n{}\n\n## Two\n\n2", escape(text, words));
        let (known, other) = super::parts(&whole, words);
        assert_eq!(known, ["a\n## Two\n\\# One\n```\n# One\n```\n\\x", "2"]);
        assert_eq!(other, "## Three\n## One");
    }

    #[test]
    fn headings_match_in_both_languages() {
        let words = [
            vec!["other".to_owned()],
            vec![letters("Core results"), letters("核心成果")],
        ];
        for title in [
            "Core results",
            "core-results:",
            "核心成果",
            "Core results / 核心成果",
            "1. 核心成果（Core results）",
            "**Core Results**",
            "✅ Core results",
        ] {
            assert_eq!(named(title, &words), Some(1), "{title}");
        }
        for title in ["", "Core", "Core results of the others", "成果"] {
            assert_eq!(named(title, &words), None, "{title}");
        }
    }
}
