//! Problems of a file that a person or an agent wrote, in the words and line numbers of that file.

use super::joined;
use std::cell::RefCell;
use std::fmt;

/// One problem of a text. Parsers return all problems of a file together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is, as far as that is known.
    pub place: Place,
    /// Lower-case fragment that says what is wrong.
    pub message: String,
    /// How to repair it.
    pub hint: Option<String>,
}

impl Problem {
    /// Returns several problems as one text.
    pub fn join(problems: &[Self], between: &str) -> String {
        joined(problems.iter().map(ToString::to_string), between)
    }

    /// Creates a problem of the whole text.
    pub fn new(message: impl Into<String>) -> Self {
        Place::default().problem(message)
    }

    /// Creates a problem of a line.
    pub fn on_line(line: usize, message: impl Into<String>) -> Self {
        Self::at(line, 0, message)
    }

    /// Creates a problem of a place in a line.
    pub fn at(line: usize, column: usize, message: impl Into<String>) -> Self {
        Place { line, column }.problem(message)
    }

    /// Returns the problem with its place in a file, in the form of compilers: `file:line:column: what`.
    pub fn in_file(&self, file: &str) -> String {
        let message = &self.message;
        match self.place {
            Place { line: 0, .. } => format!("{file}: {message}"),
            Place { line, column: 0 } => format!("{file}:{line}: {message}"),
            Place { line, column } => format!("{file}:{line}:{column}: {message}"),
        }
    }

    /// Adds how to repair it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns a message of a parser without the names of types, which are no words of a person who writes a file.
pub fn in_plain_words(message: &str) -> String {
    let wanted = [
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number from 0"),
        ("usize", "a whole number from 0"),
        ("i32", "a whole number"),
        ("i64", "a whole number"),
        ("f64", "a number"),
    ];
    wanted.iter().fold(message.to_owned(), |text, (of, words)| {
        text.replace(&format!("expected {of}"), &format!("expected {words}"))
    })
}

/// What was read of a text, or all problems of it.
pub type Checked<T> = Result<T, Vec<Problem>>;

/// Returns what was read if there is no problem.
pub(crate) fn checked<T>(read: T, problems: Vec<Problem>) -> Checked<T> {
    match problems.is_empty() {
        true => Ok(read),
        false => Err(problems),
    }
}

/// A place in a text that was read: line and character, counted from 1; 0 stands for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    /// Makes a problem of the place.
    pub fn problem(self, message: impl Into<String>) -> Problem {
        Problem {
            place: self,
            message: in_plain_words(&message.into()),
            hint: None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place { line: 0, .. } => {}
            Place { line, column: 0 } => write!(f, "line {line}: ")?,
            Place { line, column } => write!(f, "line {line}, column {column}: ")?,
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Collects problems while a parser continues, so that all of them are reported together. Each part of the parser can add to it.
#[derive(Debug, Default)]
pub(crate) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(crate) fn add(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    /// Returns a value that was read; a problem is collected with its line.
    pub(crate) fn take<T>(&self, line: usize, read: Result<T, Problem>) -> Option<T> {
        let on_line = |mut problem: Problem| {
            problem.place.line = line;
            self.add(problem);
        };
        read.map_err(on_line).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Returns what was read if there is no problem.
    pub(crate) fn sound<T>(self, read: T) -> Checked<T> {
        checked(read, self.in_order())
    }

    /// Returns the problems in the order of the file.
    pub(crate) fn in_order(self) -> Vec<Problem> {
        let mut problems = self.0.into_inner();
        problems.sort_by_key(|problem| problem.place);
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_shows_known_position() {
        assert_eq!(Problem::new("empty plan").to_string(), "empty plan");
        assert_eq!(Problem::on_line(3, "empty").to_string(), "line 3: empty");
        let unknown = Problem::at(3, 5, "unknown task `9`").to_string();
        assert_eq!(unknown, "line 3, column 5: unknown task `9`");
        assert_eq!(Problem::new("empty").in_file("p.md"), "p.md: empty");
        assert_eq!(Problem::on_line(3, "x").in_file("p.md"), "p.md:3: x");
        assert_eq!(Problem::at(3, 5, "x").in_file("p.md"), "p.md:3:5: x");
    }

    #[test]
    fn problems_are_sorted_by_position() {
        let problems = Problems::default();
        problems.add(Problem::at(7, 2, "b"));
        problems.add(Problem::on_line(2, "a"));
        let problems = problems.in_order();
        let lines = problems.iter().map(|problem| problem.place.line);
        assert_eq!(Vec::from_iter(lines), [2, 7]);
    }
}
