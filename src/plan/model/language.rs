//! The language of the texts that a plan writes for agents and for its person.

use serde::{Deserialize, Serialize};

/// Of 100 letters of a Chinese text at least so many are Chinese: the rest are names of programs and files.
const CHINESE: usize = 25;

/// The language of the files that a plan writes: commands, questions, MISSION.md. Reading accepts both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    #[default]
    En,
    Zh,
}

impl Language {
    /// Returns the language of a text, by its letters.
    pub fn of(text: &str) -> Self {
        let letters = || text.chars().filter(|c| c.is_alphabetic());
        let chinese =
            letters().filter(|c| matches!(c, '㐀'..='鿿' | '豈'..='\u{faff}' | '𠀀'..='\u{3ffff}'));
        // Japanese has Chinese letters, too.
        let japanese = letters().any(|c| matches!(c, 'ぁ'..='ヿ'));
        match chinese.count() * 100 >= letters().count().max(1) * CHINESE && !japanese {
            true => Self::Zh,
            false => Self::En,
        }
    }

    /// Returns the one of two texts that is in this language.
    pub fn pick<T>(self, en: T, zh: T) -> T {
        match self {
            Self::En => en,
            Self::Zh => zh,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_follows_letters_of_goal() {
        for (text, language) in [
            ("", Language::En),
            ("… 1 2 3", Language::En),
            ("Add a health endpoint", Language::En),
            ("Translate 文档 into English", Language::En),
            ("给服务加一个 health 接口", Language::Zh),
            ("给 health endpoint 加上测试", Language::Zh),
            ("テストを追加する", Language::En),
        ] {
            assert_eq!(Language::of(text), language, "{text}");
        }
    }
}
