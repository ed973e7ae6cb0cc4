//! Criteria as a person writes them: a text, or a list of lines that begin with `- `. What proves a criterion stands behind it in
//! brackets: `(check: NAME)`, `(file: PATH, lines: N)` or `(file: PATH, contains: TEXT)`. Brackets, colons and commas may be those of
//! Chinese.

use super::{joined, nearest, one_line, quote};
use crate::plan::test_commands::patterns;
use crate::plan::{Criteria, Criterion, FileProperty, Proof, within_workspace};

patterns! {
    /// A text that ends with a proof: the text of a property may have brackets of its own.
    PROVEN = r"(?s)^(.*)[(（](check|file)\s*[:：](.*)[)）]$";
    /// A path and its property: the path may have commas of its own.
    PROPERTY = r"(?s)^(.*?)[,，]\s*(contains|lines)\s*[:：]\s*(.*)$";
    /// What stands in brackets.
    BRACKETS = r"[(（]([^()（）]*)[)）]";
}

/// Why the brackets of a criterion prove nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriterionProblem {
    /// How many lines of the text, or entries of the list, stand before it.
    pub at: usize,
    pub message: String,
}

/// The most criteria of a task: a judge answers each that nothing proves.
const MOST: usize = 50;

/// Reads what is expected of a task.
///
/// # Errors
/// For each criterion, why its brackets name no proof.
pub fn read(text: &str) -> Result<Criteria, Vec<CriterionProblem>> {
    let start = text.len() - text.trim_start().len();
    let first = text[..start].matches('\n').count();
    let text = text.trim();
    let item = |line: &str| line.trim_start().starts_with("- ");
    if !text.lines().next().is_some_and(item) {
        return read_all(&[(first, text)]);
    }
    let mut items: Vec<(usize, String)> = Vec::new();
    for (at, line) in (first..).zip(text.lines()) {
        match (line.trim_start().strip_prefix("- "), items.last_mut()) {
            (Some(text), _) => items.push((at, text.trim().to_owned())),
            (None, Some((_, last))) => *last = format!("{last}\n{}", line.trim()),
            (None, None) => {}
        }
    }
    let items: Vec<_> = items.iter().map(|(at, text)| (*at, &**text)).collect();
    read_all(&items)
}

/// Reads criteria that stand in a list.
///
/// # Errors
/// As [`read`].
pub fn read_list<'a>(
    items: impl IntoIterator<Item = &'a str>,
) -> Result<Criteria, Vec<CriterionProblem>> {
    read_all(&items.into_iter().enumerate().collect::<Vec<_>>())
}

/// Returns the criteria as they are read: a text, or a list of lines.
pub fn write(criteria: &Criteria) -> String {
    match criteria.list() {
        [only] => write_one(only),
        list => {
            let line = |one| format!("- {}", write_one(one).replace('\n', "\n  "));
            joined(list.iter().map(line), "\n")
        }
    }
}

/// Returns a criterion as it stands in a list.
pub fn write_one(criterion: &Criterion) -> String {
    match &criterion.proof {
        None => criterion.text.clone(),
        Some(Proof::Check(name)) => format!("{} (check: {name})", criterion.text),
        Some(Proof::File(file)) => format!("{} (file: {})", criterion.text, file.stated()),
    }
}

fn read_all(items: &[(usize, &str)]) -> Result<Criteria, Vec<CriterionProblem>> {
    if let (Some((at, _)), true) = (items.first(), items.len() > MOST) {
        let count = items.len();
        let message = format!(
            "a task has at most {MOST} criteria, and these are {count}: make several tasks of it"
        );
        return Err(vec![CriterionProblem { at: *at, message }]);
    }
    let (mut criteria, mut problems) = (Vec::new(), Vec::new());
    for &(at, text) in items {
        match read_one(text) {
            Ok(criterion) => criteria.push(criterion),
            Err(message) => problems.push(CriterionProblem { at, message }),
        }
    }
    match problems.is_empty() {
        true => Ok(Criteria::new(criteria)),
        false => Err(problems),
    }
}

fn read_one(text: &str) -> Result<Criterion, String> {
    let text = text.trim();
    let proven = |text: &str, proof| {
        let text = text.to_owned();
        Ok(Criterion { text, proof })
    };
    let sentence = text.strip_suffix(['.', '。']).unwrap_or(text);
    let Some((_, [words, kind, inside])) = PROVEN.captures(sentence).map(|found| found.extract())
    else {
        let bracketed = sentence.strip_suffix([')', '）']);
        return match bracketed.and_then(|text| misspelt(text.rsplit_once(['(', '（'])?.1)) {
            Some(problem) => Err(problem),
            None => proof_within(text).map_or_else(|| proven(text, None), Err),
        };
    };
    let proof = match kind {
        "check" => Proof::Check(inside.trim().trim_matches('`').to_owned()),
        _ => Proof::File(file(inside)?),
    };
    match (words.trim(), proof_within(words)) {
        ("", _) => Err(format!(
            "`({kind}:{})` stands alone: write before it what it proves",
            one_line(inside, 60)
        )),
        (_, Some(problem)) => Err(problem),
        (words, None) => proven(words, Some(proof)),
    }
}

/// Returns what is wrong with a text that has a proof in its middle. Brackets that would be none at its end are text.
fn proof_within(text: &str) -> Option<String> {
    let inside = BRACKETS.captures_iter(text);
    let inside = inside.filter_map(|found| Some(found.get(1)?.as_str()));
    let mut proofs = inside.filter(|inside| match inside.split_once([':', '：']) {
        Some(("check", name)) => name.split_whitespace().count() == 1,
        Some(("file", property)) => file(property).is_ok(),
        _ => false,
    });
    let shown = one_line(proofs.next()?, 60);
    Some(format!(
        "`({shown})` stands in the middle of the text: put it at the end"
    ))
}

/// Returns what is wrong with a word in brackets that is nearly one of a proof, or that needs another one. Other brackets are
/// text.
fn misspelt(inside: &str) -> Option<String> {
    let word = inside.split_once([':', '：'])?.0.trim();
    let shown = one_line(word, 20);
    match nearest(word, ["check", "file", "contains", "lines"].into_iter())? {
        property @ ("contains" | "lines") => Some(format!(
            "`({shown}: …)` names no file: a proof is `(file: PATH, {property}: …)`"
        )),
        near => Some(format!(
            "`({shown}: …)` is no proof: did you mean `({near}: …)`?"
        )),
    }
}

fn file(property: &str) -> Result<FileProperty, String> {
    let found = PROPERTY.captures(property).map(|found| found.extract());
    let path = property.split(',').next().unwrap_or_default();
    let [path, key, value] = found.map_or([path, "", ""], |(_, parts)| parts);
    let path = path.trim().trim_matches('`');
    let path = within_workspace(path).map_err(|fault| format!("{} {fault}", quote(path)))?;
    let mut file = FileProperty {
        path,
        ..FileProperty::default()
    };
    match (key, value.trim()) {
        ("contains", text) if !text.is_empty() => file.contains = Some(text.to_owned()),
        ("lines", count) => match count.parse() {
            Ok(count) if count > 0 => file.lines = Some(count),
            _ => return Err(format!("`lines: {count}` is no count of 1 or more")),
        },
        _ => {
            let path = one_line(&file.path, 60);
            return Err(format!(
                "a file proves a criterion by a property: `(file: {path}, contains: TEXT)` or `lines: N`"
            ));
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_written_as_they_are_read() {
        let list = "- The tests pass (check: test)\n- It is fast\n  and small\n- A line for each (file: a.csv, lines: 3)\n- The title (file: a.svg, contains: <svg (x)>)";
        let criteria = read(list).unwrap();
        assert_eq!(criteria.list().len(), 4);
        assert_eq!(criteria.checks().collect::<Vec<_>>(), ["test"]);
        assert_eq!(criteria.files().count(), 2);
        assert_eq!(write(&criteria), list);
        for text in [
            "It works (mostly)",
            "It is fast (time: 5 s)",
            "It has a table (columns: a, b)",
            "A map (north: up) is drawn",
            "Two lines\nof one thing",
            "done (file)",
        ] {
            let one = read(text).unwrap();
            assert_eq!(one, Criteria::plain(text));
            assert_eq!(write(&one), text);
        }
        assert!(read("").unwrap().is_empty());
    }

    #[test]
    fn number_of_criteria_has_a_limit() {
        assert!(read(&"- a\n".repeat(50)).is_ok());
        let error = read(&"- a\n".repeat(51)).unwrap_err().remove(0).message;
        assert!(error.contains("at most 50 criteria"), "{error}");
    }

    #[test]
    fn proof_may_end_with_a_full_stop_and_have_backticks() {
        for (text, written) in [
            ("a (check: test).", "a (check: test)"),
            ("a (check: `test`)。", "a (check: test)"),
            ("a (file: `b`, lines: 1).", "a (file: b, lines: 1)"),
            ("通过（check：测试）。", "通过 (check: 测试)"),
            (
                "在（file：b.md，contains：甲，（乙））",
                "在 (file: b.md, contains: 甲，（乙）)",
            ),
            (
                "在 (file: 甲，乙.md, lines: 3)",
                "在 (file: 甲，乙.md, lines: 3)",
            ),
        ] {
            assert_eq!(write(&read(text).unwrap()), written);
        }
        for text in [
            "It works (mostly).",
            "See (file: b.md) and so on",
            "Look (check: that it works) twice",
            "a :( (b) c",
        ] {
            assert_eq!(read(text).unwrap(), Criteria::plain(text));
        }
    }

    #[test]
    fn every_wrong_criterion_is_reported_with_its_line() {
        let problems = read("\n- a (chek: test)\n- b\n  c\n- d (lines: 3)").unwrap_err();
        let lines: Vec<_> = problems.iter().map(|problem| problem.at).collect();
        assert_eq!(lines, [1, 4]);
    }

    #[test]
    fn proof_that_proves_nothing_is_refused() {
        for text in [
            "a (file: b)",
            "a (file: ../b, lines: 1)",
            "a (file: b, lines: 0)",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        for (text, way) in [
            ("a (chek: test)", "did you mean `(check: …)`?"),
            ("a (Check: test)", "did you mean `(check: …)`?"),
            ("a (flie: b, lines: 3)", "did you mean `(file: …)`?"),
            ("a (contans: x)", "`(file: PATH, contains: …)`"),
            ("- b\n- a (lines: 3)", "`(file: PATH, lines: …)`"),
            ("a (chek: test).", "did you mean `(check: …)`?"),
            ("通过（chek：测试）", "did you mean `(check: …)`?"),
            ("通过（check：测试）以及更多", "put it at the end"),
            ("a (check: test) and more", "put it at the end"),
            ("a (check: test), b (check: lint)", "put it at the end"),
            ("a (file: b, contains: c, lines: 3) d", "put it at the end"),
            ("(check: test)", "write before it what it proves"),
        ] {
            let said = read(text).unwrap_err().remove(0).message;
            assert!(said.ends_with(way), "{text}: {said}");
        }
    }
}
