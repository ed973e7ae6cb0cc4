//! How what a person must notice looks everywhere on the screen: a glyph, a word, a style. Without colours, glyph and word say
//! the same.

use super::{Paint, Style};

/// What a person must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Proven,
    Accepted,
    Failed,
    Asks,
}

impl Mark {
    /// Returns the mark of a result that was accepted.
    pub fn accepted(proven: bool) -> Self {
        if proven { Self::Proven } else { Self::Accepted }
    }

    /// Returns what stands before the word.
    pub fn glyph(self) -> &'static str {
        self.look().0
    }

    /// Returns the word.
    pub fn word(self) -> &'static str {
        self.look().1
    }

    /// Returns the style of glyph and word.
    pub fn style(self) -> Style {
        self.look().2
    }

    /// Returns the glyph with the word.
    pub fn text(self) -> String {
        format!("{} {}", self.glyph(), self.word())
    }

    /// Returns the mark with a count, if there are any.
    pub fn count(self, count: usize, paint: Paint) -> Option<String> {
        (count > 0).then(|| self.counted(count, paint))
    }

    /// Returns the mark with a count.
    pub fn counted(self, count: usize, paint: Paint) -> String {
        let text = format!("{} {count} {}", self.glyph(), self.word());
        paint.text(self.style(), &text)
    }

    fn look(self) -> (&'static str, &'static str, Style) {
        match self {
            Self::Proven => ("✓", "proven", Style::Good),
            Self::Accepted => ("~", "accepted", Style::Unsure),
            Self::Failed => ("✗", "failed", Style::Bad),
            Self::Asks => ("?", "asks you", Style::Bold),
        }
    }
}
