//! Colours for a terminal.

/// How a piece of text looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    /// Neither good nor bad: a person may want to look.
    Unsure,
    Busy,
}

/// Colours text, or leaves it is.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    colour: bool,
}

impl Paint {
    /// Colours texts, or leaves every text as it is.
    pub fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// Leaves every text as it is.
    pub fn none() -> Self {
        Self::new(false)
    }

    /// Returns the text in a style.
    pub fn text(self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Plain => return text.to_owned(),
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Bad => "31",
            Style::Unsure => "33",
            Style::Busy => "36",
        };
        match self.colour {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_for_terminals() {
        assert_eq!(Paint::none().text(Style::Bad, "x"), "x");
        assert_eq!(
            Paint::new(true).text(Style::Bad, "x"),
            "\u{1b}[31mx\u{1b}[0m"
        );
    }
}
