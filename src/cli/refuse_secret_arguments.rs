//! Arguments of an agent that look like secrets. They would stand in the plan, in its log and in the list of processes.

use anyhow::anyhow;

use super::{Failure, Result};
use crate::wire::KEY_PREFIXES;

/// Names of flags and variables whose values are secrets; without `-`, `_` and `.`.
const NAMES: &str = "apikey accesskey secretkey privatekey token secret password passwd passphrase \
    authorization";

/// Names whose values are secrets only if they look so.
const PERHAPS: &str = "key auth credentials";

/// The shortest text that may be a key.
const SHORTEST: usize = 16;

/// Refuses arguments of which one looks like a secret; the error does not repeat it.
///
/// # Errors
/// Names the flag, or how the word begins.
pub fn refuse(argv: &[String]) -> Result {
    let Some(found) = find(argv) else {
        return Ok(());
    };
    let error = anyhow!("the arguments of the agent hold what looks like a secret: {found}");
    Err(Failure::usage(error).hint(
        "arguments are kept with the plan: put it into the environment, and name the variable under [worker] env in config.toml",
    ))
}

/// Returns where the secret is, without it.
fn find(argv: &[String]) -> Option<String> {
    let blank = |c: char| c.is_whitespace() || ['"', '\'', ';', ',', '&'].contains(&c);
    let words = argv.iter().flat_map(|word| word.split(blank));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.iter().enumerate().find_map(|(index, word)| {
        let mut prefixes = KEY_PREFIXES.split(' ');
        if let Some(prefix) = prefixes.find(|prefix| word.starts_with(prefix))
            && word.len() >= SHORTEST
        {
            return Some(format!("a word that begins with `{prefix}`"));
        }
        let (name, value) = match word.split_once(['=', ':']) {
            Some((name, "")) => (name, next(&words, index)),
            Some((name, value)) => (name, value),
            None if word.starts_with('-') => (*word, next(&words, index)),
            None => return None,
        };
        is_secret(name, value).then(|| format!("the value of `{name}`"))
    })
}

fn next<'a>(words: &[&'a str], index: usize) -> &'a str {
    match words.get(index + 1).copied().unwrap_or_default() {
        "Bearer" | "Basic" => words.get(index + 2).copied().unwrap_or_default(),
        flag if flag.starts_with('-') => "",
        value => value,
    }
}

fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim_start_matches("Bearer ");
    // Filled in by a shell or by this program, it is no secret here.
    if value.is_empty() || value.starts_with(['$', '{', '<']) {
        return false;
    }
    let name = name.to_lowercase().replace(['-', '_', '.'], "");
    let ends = |known: &str| known.split(' ').any(|known| name.ends_with(known));
    ends(NAMES) || (ends(PERHAPS) && is_random(value))
}

/// Returns whether a text is long and mixed, as keys are and names and paths are not.
fn is_random(value: &str) -> bool {
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let letters = value.chars().filter(char::is_ascii_alphabetic).count();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_+=".contains(c);
    value.len() >= SHORTEST && digits >= 3 && letters >= 3 && value.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_and_ordinary_arguments_are_not() {
        let key = "a1b2c3d4e5f6a7b8c9d0";
        for (line, found) in [
            ("--api-key X", Some("`--api-key`")),
            ("--api-key=X", Some("`--api-key`")),
            ("--openai-api-key X -m gpt-5", Some("`--openai-api-key`")),
            ("--token hunter2", Some("`--token`")),
            ("ANTHROPIC_API_KEY=x claude", Some("`ANTHROPIC_API_KEY`")),
            ("-c model_providers.x.api_key=abc", Some("api_key`")),
            ("--key a1b2c3d4e5f6a7b8c9d0", Some("`--key`")),
            ("curl -H Authorization: Bearer abc", Some("`Authorization`")),
            ("do sk-no-real-key-at-all", Some("begins with `sk-`")),
            ("-m opus --max-tokens 4000", None),
            ("-c model_providers.x.env_key=OPENAI_API_KEY", None),
            ("--api-key-env MY_KEY", None),
            ("--token $TOKEN", None),
            ("--api-key {key}", None),
            ("--token --verbose", None),
            ("--key src/keys/first.pem", None),
            (
                "my-agent {prompt_file} --url http://127.0.0.1:8080/v1",
                None,
            ),
            ("sk-1", None),
        ] {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let place = find(&argv);
            let whole = find(&[line.to_owned()]);
            assert_eq!(place, whole, "{line}");
            match (place, found) {
                (Some(place), Some(found)) => assert!(place.contains(found), "{line}: {place}"),
                (place, found) => assert_eq!(place.as_deref(), found, "{line}"),
            }
            let said = refuse(&argv).err().map(|failure| failure.text());
            assert!(!said.unwrap_or_default().contains(key), "{line}");
        }
    }
}
