//! Which known word a person, a model or an agent probably meant by one that is not known.

use super::one_line;

/// Returns the word that was probably meant. It compares only a limited number of words, because a large file would take long.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&word, &known.to_lowercase());
    let known = known.take(200).filter(|known| known.len() <= 64);
    let near = known.filter_map(|known| {
        let (distance, length) = (distance(known), known.chars().count());
        (distance < length && distance <= (length / 4).max(1)).then_some((distance, known))
    });
    Some(near.min_by_key(|(distance, _)| *distance)?.1)
}

/// Returns the field that was probably meant: one that is spelt nearly so, or begins so, as `dependencies` does for `depends_on`.
pub fn field_meant<'a>(
    word: &str,
    mut known: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let begins_so = |other: &&str| word.get(..5).is_some_and(|begin| other.starts_with(begin));
    nearest(word, known.clone()).or_else(|| known.find(begins_so))
}

/// Asks whether the word that was probably meant was meant.
pub fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}

/// Says the way out where a check is named that is not defined.
pub fn check_meant<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let define = || {
        let shown = one_line(name, 60);
        format!(
            "define it in config.toml, in a project .plan-agent/config.toml: [checks] {shown} = {{ run = [\"…\"] }}"
        )
    };
    did_you_mean(name, known).unwrap_or_else(define)
}
