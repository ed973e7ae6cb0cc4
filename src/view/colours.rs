//! Colours for a terminal, and how what a person must notice looks everywhere on it: a glyph, a word, a style. Without colours,
//! glyph and word say the same.

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

/// What a person must notice: a word with what stands before it, and the style of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub glyph: &'static str,
    pub word: &'static str,
    pub style: Style,
}

impl Mark {
    pub const PROVEN: Self = Self::new("✓", "proven", Style::Good);
    pub const ACCEPTED: Self = Self::new("~", "accepted", Style::Unsure);
    pub const FAILED: Self = Self::new("✗", "failed", Style::Bad);
    pub const ASKS: Self = Self::new("?", "asks you", Style::Bold);

    const fn new(glyph: &'static str, word: &'static str, style: Style) -> Self {
        Self { glyph, word, style }
    }

    /// Returns the mark of a result that was accepted.
    pub fn accepted(proven: bool) -> Self {
        if proven { Self::PROVEN } else { Self::ACCEPTED }
    }

    /// Returns the glyph with the word.
    pub fn text(self) -> String {
        format!("{} {}", self.glyph, self.word)
    }

    /// Returns the mark with a count, if there are any.
    pub fn count(self, count: usize, paint: Paint) -> Option<String> {
        (count > 0).then(|| self.counted(count, paint))
    }

    /// Returns the mark with a count.
    pub fn counted(self, count: usize, paint: Paint) -> String {
        paint.text(self.style, &format!("{} {count} {}", self.glyph, self.word))
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
