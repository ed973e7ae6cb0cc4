//! Helpers for untrusted text: making it safe to show, limiting it, checking it as a name; times and hashes as text.

use std::borrow::{Borrow, Cow};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::plan::Time;

/// Returns the text without anything that a terminal obeys or that is invisible: escape sequences, control characters except
/// newline and tab, marks that change the direction of writing, zero-width characters.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut vain = usize::MAX;
    loop {
        // Nearly all of nearly every text is plain; it is copied in one piece.
        let plain = rest.bytes().take_while(|byte| plain(*byte)).count();
        shown.push_str(&rest[..plain]);
        rest = &rest[plain..];
        let Some(c) = rest.chars().next() else {
            return shown;
        };
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\u{1b}' => after_escape(after, &mut vain),
            '\u{9b}' => after_control_sequence(after),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => after_control_string(after, &mut vain),
            _ => {
                if visible(c) {
                    shown.push(c);
                }
                after
            }
        };
    }
}

/// How keys of well-known services begin.
pub const KEY_PREFIXES: &str =
    "sk- sk-ant- sk-proj- ghp_ gho_ ghs_ github_pat_ glpat- xoxb- xoxp- AKIA AIza";

/// The shortest word that is taken for a key in what an agent says.
const KEY: usize = 20;

/// Returns the text with `[key]` in the place of each key of a well-known service: agents print what they should not.
pub fn without_keys(text: &str) -> String {
    let text = &*without_passwords(text);
    let part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let digit = |c: char| c.is_ascii_digit();
    // Something may stand before a key without a gap, as in `%3Dsk-ant-…`; a short beginning stands in words, too (`task-1`).
    let begins = |word: &str, prefix: &str| {
        let mut found = word.match_indices(prefix).map(|(at, _)| at);
        found.find(|at| prefix.len() > 3 || *at == 0 || word[..*at].ends_with(['-', '_']))
    };
    let key_in = |word: &str| {
        let prefixes = KEY_PREFIXES.split(' ');
        let first = prefixes.filter_map(|prefix| begins(word, prefix));
        let long = |at: &usize| word.len() - at >= KEY && word[*at..].contains(digit);
        first.filter(long).min()
    };
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find(part) {
        let (before, word) = rest.split_at(begin);
        let (word, after) = word.split_at(word.find(|c| !part(c)).unwrap_or(word.len()));
        shown += before;
        match key_in(word) {
            Some(at) => shown.extend([&word[..at], "[key]"]),
            None => shown += word,
        }
        rest = after;
    }
    shown + rest
}

/// Returns the text with `[key]` in the place of each password in the address of a database.
fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for scheme in ["postgres://", "postgresql://"] {
        let mut from = 0;
        while let Some(at) = text[from..].find(scheme) {
            from += at + scheme.len();
            let rest = &text[from..];
            let end = rest.find(|c: char| c.is_whitespace() || "\"'`/".contains(c));
            let place = &rest[..end.unwrap_or(rest.len())];
            if let Some((user, _)) = place.split_once(':')
                && let Some(host) = place.rfind('@').filter(|host| *host > user.len())
            {
                let password = from + user.len() + 1..from + host;
                text.to_mut().replace_range(password, "[key]");
            }
        }
    }
    text
}

/// Returns at most `max` characters of the text; the last one is `…` if something was cut.
pub fn clip(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let kept = text.chars().take(max.saturating_sub(1));
    kept.chain(std::iter::once('…').take(max)).collect()
}

/// Returns at most `max` bytes of the text; the last character is `…` if something was cut.
pub fn clip_bytes(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

/// Returns the text made printable, on one line, with at most `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    let shown = printable_start(text, max);
    clip(&joined(shown.split_whitespace(), " "), max)
}

/// Returns the start of a text made printable: enough of it to show `max` characters, with `…` if the rest was not read. A
/// short line of a long report costs no more than the line.
pub(crate) fn printable_start(text: &str, max: usize) -> String {
    // The shown text may be a small part of the written one: escapes and white space are left out.
    let enough = max.saturating_mul(8).saturating_add(1024);
    match text.char_indices().nth(enough) {
        Some((end, _)) => printable(&text[..end]) + "…",
        None => printable(text),
    }
}

/// Returns whether the text may become part of a file name: `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`.
pub fn safe_name(text: &str) -> bool {
    safe_word(text, 64, "_-")
}

/// Returns whether the text may name an agent's session: `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`.
pub fn safe_session(text: &str) -> bool {
    safe_word(text, 128, "._:-")
}

/// Returns whether a text can be a name in a program: letters, digits and `_`, and no digit first.
pub(crate) fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn safe_word(text: &str, max: usize, others: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fits = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    begins && text.len() <= max && text.chars().all(fits)
}

/// Returns the time as RFC 3339 in UTC, with as many decimals as it needs.
pub fn time_text(time: Time) -> String {
    let nearest = match time.0 {
        ..0 => Timestamp::MIN,
        _ => Timestamp::MAX,
    };
    let moment = Timestamp::from_microsecond(time.0);
    moment.unwrap_or(nearest).to_string()
}

/// Returns the time of an RFC 3339 text with `Z` or an offset.
pub fn parse_time(text: &str) -> Option<Time> {
    let timestamp: Timestamp = text.trim().parse().ok()?;
    Some(Time(timestamp.as_microsecond()))
}

/// Returns the first ten characters of a commit's id, by which people know it.
pub(crate) fn short_commit(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// Returns the SHA-256 of a content in hexadecimal.
pub fn sha256(content: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads one of the words that a type has in files.
pub(crate) fn known_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(Value::from(word)).ok()
}

/// Returns whether a word is in a list of words, with a blank between each two.
pub(crate) fn has_word(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split(' ').any(|known| known == word)
}

/// Joins texts, with another one between each two.
pub(crate) fn joined(texts: impl IntoIterator<Item: Borrow<str>>, between: &str) -> String {
    texts.into_iter().collect::<Vec<_>>().join(between)
}

/// Returns where a field is, from the field that it is in.
pub(crate) fn field_path(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// Returns an untrusted word in backticks, short enough for a message.
pub(crate) fn quote(word: &str) -> String {
    format!("`{}`", one_line(word, 40).replace('`', "'"))
}

fn plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\t')
}

fn visible(c: char) -> bool {
    !matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' // controls but newline and tab
        | '\u{ad}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}') // tags: text that no one sees but a model reads
}

/// Returns the text after an escape sequence whose ESC has been removed.
fn after_escape<'a>(rest: &'a str, vain: &mut usize) -> &'a str {
    let mut chars = rest.chars();
    match chars.next() {
        Some('[') => after_control_sequence(chars.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => after_control_string(chars.as_str(), vain),
        Some(' '..='~') => {
            let rest = rest.trim_start_matches(|c| matches!(c, ' '..='/'));
            rest.strip_prefix(|c| matches!(c, '0'..='~'))
                .unwrap_or(rest)
        }
        _ => rest,
    }
}

/// Returns the text after the parameters and the final byte of a control sequence.
fn after_control_sequence(rest: &str) -> &str {
    let rest = rest.trim_start_matches(|c| matches!(c, ' '..='?'));
    rest.strip_prefix(|c| matches!(c, '@'..='~'))
        .unwrap_or(rest)
}

/// Returns the text after the terminator of a control string. If the line has no terminator, only the introducer is dropped:
/// the text after it is then harmless, and a stray byte must not hide the rest of a report.
///
/// `vain` stores how much text followed the place up to which no terminator was found. Each introducer before that place would
/// find the same, and searching a megabyte of them would take hours.
fn after_control_string<'a>(rest: &'a str, vain: &mut usize) -> &'a str {
    if rest.len() >= *vain {
        return rest;
    }
    let end = rest.find(['\u{7}', '\u{1b}', '\u{9c}', '\n']);
    let tail = end.map_or("", |end| &rest[end..]);
    let mut terminators = ["\u{7}", "\u{9c}", "\u{1b}\\"].into_iter();
    let behind = terminators.find_map(|terminator| tail.strip_prefix(terminator));
    if behind.is_none() {
        *vain = tail.len();
    }
    behind.unwrap_or(rest)
}

/// Returns the span that a person writes as `90s`, `10m` or `1h 30m`; it is never zero.
pub fn parse_span(text: &str) -> Option<Duration> {
    let span = text.trim().parse::<SignedDuration>().ok()?;
    Duration::try_from(span).ok().filter(|span| !span.is_zero())
}

/// Quotes a word for a shell if necessary; what a terminal obeys is removed.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%{}".contains(c);
    let word = &printable(word);
    // A shell expands braces around a list.
    if !word.is_empty() && word.chars().all(plain) && !word.contains(',') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns whether words of a server, with the code and the type of its error, say that the question or the room for its
/// answer exceeds the context of the model.
pub fn exceeds_context(words: &str) -> bool {
    let words = words.to_ascii_lowercase().replace('_', " ");
    let names = |name: &str| words.contains(name);
    let of_context = ["length", "size", "window", "limit"].map(|what| format!("context {what}"));
    // Anthropic (two), Bedrock, Gemini, xAI, vLLM, TGI, Groq, Copilot, Kimi, Cohere.
    let others = "prompt is too long|request too large|input is too long|maximum number of tokens|maximum prompt length\
        |maximum model length|max new tokens|reduce the length|prompt token count|model token limit|too many tokens";
    of_context.iter().any(|name| names(name)) || others.split('|').any(names)
}

/// Returns whether words of a service say that an account has no money left, which no wait helps. That a quota is exceeded, some
/// say of a limit for a minute, too.
pub fn is_unpaid(words: &str) -> bool {
    let words = words.to_ascii_lowercase().replace('_', " ");
    // OpenAI (two), Anthropic, DeepSeek, OpenRouter.
    let known = "insufficient quota|quota exceeded. check your plan|credit balance is too low|insufficient balance|payment required";
    known.split('|').any(|known| words.contains(known))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_of_services_are_hidden() {
        let key = "sk-ant-api03-0123456789abcdef";
        for (text, shown) in [
            (format!("{key}\n"), "[key]\n"),
            (format!("KEY='{key}', ä"), "KEY='[key]', ä"),
            (format!("%3D{key} \\n{key}"), "%3D[key] \\n[key]"),
            (format!("KEY_{key}"), "KEY_[key]"),
        ] {
            assert_eq!(without_keys(&text), shown);
        }
        let keys = "ghp_0123456789abcdefghij AKIA0123456789ABCDEF";
        assert_eq!(without_keys(keys), "[key] [key]");
        let address = "PLAN=postgres://u:a:b@c@h/d postgresql://u@h:5432/d?x=y:z@";
        let shown = "PLAN=postgres://u:[key]@h/d postgresql://u@h:5432/d?x=y:z@";
        assert_eq!(without_keys(address), shown);
        for plain in [
            "sk-fading-circle-container",
            "sk-1 task-0123456789abcdefghij",
            "",
        ] {
            assert_eq!(without_keys(plain), plain);
        }
    }

    #[test]
    fn printable_drops_terminal_controls() {
        let plain = "plain text, tab\tand\nnewline";
        for (given, shown) in [
            (plain, plain),
            ("核心成果 é 🎉", "核心成果 é 🎉"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[38;2;1;2;3mcolour", "colour"),
            ("\x1b]52;c;aGk=\x07clip", "clip"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1bPq#0;2;0\x1b\\image", "image"),
            ("\x1b]0;no end\nnext line", "0;no end\nnext line"),
            ("\x1b]0;cut by another\x1b[31m!", "0;cut by another!"),
            ("\u{9b}31mc1", "c1"),
            ("\u{9d}0;title\u{9c}c1", "c1"),
            (
                "\u{9d}0;\u{90}no end\nx\u{9d}0;title\u{9c}c1",
                "0;no end\nxc1",
            ),
            ("\u{9d}one\u{9d}two\x1b]three\x07four", "onetwofour"),
            ("\x1b(Bset", "set"),
            ("\x1b7saved\x1b8", "saved"),
            ("\x1bcreset", "reset"),
            ("one\rtwo\r\n", "onetwo\n"),
            ("a\u{7}\u{8}\u{0}\u{7f}\u{85}b", "ab"),
            (
                "\u{202e}txt.exe\u{202c} \u{2066}x\u{2069}\u{200e}\u{200f}",
                "txt.exe x",
            ),
            ("\u{feff}zero\u{200b}width\u{2060}", "zerowidth"),
            ("tag\u{e0041}\u{e007f}", "tag"),
            ("ends in escape\x1b", "ends in escape"),
            ("ends in introducer\x1b[", "ends in introducer"),
        ] {
            assert_eq!(printable(given), shown, "{given:?}");
        }
    }

    #[test]
    fn clip_counts_characters_and_marks_the_cut() {
        for (given, max, clipped) in [
            ("", 0, ""),
            ("a", 0, ""),
            ("ab", 1, "…"),
            ("ab", 2, "ab"),
            ("核心成果", 3, "核心…"),
        ] {
            assert_eq!(clip(given, max), clipped, "{given:?} {max}");
        }
    }

    #[test]
    fn one_line_joins_printable_text() {
        assert_eq!(one_line(" a\n\n\tb \x1b[1mc\r\n", 80), "a b c");
        assert_eq!(one_line("a b c d", 5), "a b …");
        assert_eq!(one_line(&"\u{1b}[1m".repeat(10_000), 5), "…");
        assert_eq!(one_line(&"a ".repeat(10_000), 5), "a a …");
    }

    #[test]
    fn safe_name_accepts_only_plain_ids() {
        for name in ["a", "0", "task-019a-b_C", &"x".repeat(64)] {
            assert!(safe_name(name), "{name:?}");
        }
        let outside = ["", "-a", "_a", ".a", "a.b", "a/b", "..", "a b", "ä", "a\0"];
        for name in outside.into_iter().chain(["а", &"x".repeat(65)]) {
            assert!(!safe_name(name), "{name:?}");
        }
        assert!(safe_session("a.b:c-1") && !safe_session("a/b") && !safe_session(""));
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time_text(Time(0)), "1970-01-01T00:00:00Z");
        let fraction = time_text(Time(1_795_255_200_123_400));
        assert_eq!(fraction, "2026-11-21T10:00:00.1234Z");
        let zulu = parse_time(" 2026-11-21T10:00:00Z ");
        assert_eq!(parse_time("2026-11-21T11:00:00+01:00"), zulu);
        for text in ["", "tomorrow", "2026-11-21", "2026-11-21T10:00:00", "123"] {
            assert_eq!(parse_time(text), None, "{text:?}");
        }
        for extreme in [i64::MIN, i64::MAX] {
            assert!(parse_time(&time_text(Time(extreme))).is_some());
        }
    }

    proptest! {
        #[test]
        fn printable_output_is_safe(text in "(\\PC|[\x00-\u{a0}\u{1b}\\[\\]]){0,40}") {
            let shown = printable(&text);
            prop_assert!(shown.chars().all(visible), "{shown:?}");
            prop_assert_eq!(printable(&shown), shown);
        }

        #[test]
        fn time_round_trips(micros in -60_000_000_000_000_000_i64..200_000_000_000_000_000) {
            prop_assert_eq!(parse_time(&time_text(Time(micros))), Some(Time(micros)));
        }
    }

    #[test]
    fn quotes_words_for_shell() {
        assert_eq!(quoted("../a_b-1.toml"), "../a_b-1.toml");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted("{a,b}"), "'{a,b}'");
        assert_eq!(quoted(""), "''");
    }
}
