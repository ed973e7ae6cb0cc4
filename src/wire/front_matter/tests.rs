use serde::Deserialize;

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Note {
    n: u32,
    note: String,
}

fn note(header: &str) -> Result<Note, Problem> {
    split(&format!("---\n{header}\n---\nbody\n"))?.parse()
}

#[test]
fn line_numbers_refer_to_file() {
    let text =
        "\u{feff}\r\n```md\r\n\r\n---\r\n\r\n# about\r\nN: x\r\n---\r\n\r\n\r\nbody\r\n```\r\n";
    let front = split(text).unwrap();
    assert_eq!((front.body.as_str(), front.body_line), ("body", 11));
    assert_eq!(front.line_of("n"), 7);
    let told = front.parse::<Note>().unwrap_err().to_string();
    insta::assert_snapshot!(told, @r#"line 7, column 4: n: invalid type: string "x", expected a whole number from 0 to 4294967295"#);
}

#[test]
fn text_without_front_matter_is_body() {
    let front = split_any("\n\n# Title\n---\n").unwrap();
    assert_eq!((front.body.as_str(), front.body_line), ("# Title\n---", 3));
    assert!(split("\n\n# Title\n").is_err());
    for empty in ["", "\n", "---\n---\n", "---\n\n---\nx"] {
        assert!(split(empty).is_err(), "{empty:?}");
    }
}

#[test]
fn body_keeps_delimiters() {
    let front = split("---\nn: 1\n---\n\na\n\n---\n\n| x |\n|---\nb\n").unwrap();
    assert_eq!(front.body, "a\n\n---\n\n| x |\n|---\nb");
    assert_eq!(front.body_line, 5);
}

#[test]
fn removes_only_common_indentation() {
    for (header, read) in [
        ("  n: 1\n  note: x", Some(1)),
        ("\tn: 1\n\tnote: x", Some(1)),
        ("\n  n: 1\n\n  # a comment", Some(1)),
        ("  # a comment\nn: 1", Some(1)),
        ("  x:\n    n: 1", Some(0)),
        ("  n: 1\nnote: x", None),
        ("    x: 1\ny:\n  n: 1", None),
        ("\tx: 1\n  n: 1", None),
    ] {
        assert_eq!(note(header).ok().map(|note| note.n), read, "{header}");
    }
    let told = note("\n  n: 1\nnote: x").unwrap_err().to_string();
    insta::assert_snapshot!(told, @"line 3: the front matter begins with an indented line, and not every line is");
}

#[test]
fn plain_text_values_are_not_yaml_syntax() {
    for (value, text) in [
        ("a & b", "a & b"),
        ("Done! *really*", "Done! *really*"),
        ("one, *two*, &three", "one, *two*, &three"),
        ("\"*x*, see: *y*\"", "*x*, see: *y*"),
        ("'!x'", "!x"),
        ("C# <<EOF", "C# <<EOF"),
        ("|\n  - &a\n  *b*\n  key: !x", "- &a\n*b*\nkey: !x"),
        ("x # see: *y", "x"),
    ] {
        let header = format!("n: 1\nnote: {value}");
        let read = note(&header).unwrap_or_else(|problem| panic!("{header}\n{problem}"));
        assert_eq!(read.note.trim_end(), text, "{header}");
    }
}

#[test]
fn reports_duplicate_and_invalid_fields() {
    let told = |header| note(header).unwrap_err().to_string();
    insta::assert_snapshot!(told("n: 1\nx: 2\nN: 3"), @"line 4: `n` is written twice, first on line 2");
    insta::assert_snapshot!(told("n: 1\nnote: *x"), @"line 3, column 7: a YAML alias in the front matter");
    insta::assert_snapshot!(told("n: -1"), @"line 2, column 4: n: invalid type: integer `-1`, expected a whole number from 0 to 4294967295");
    assert!(told("n: 1\nnote: a: b").starts_with("line 3, column "));
}

#[test]
fn reads_fields_without_yaml() {
    let front =
        split("---\na: b: c # d\n\n# e\n\"F\": 'g' # h\ni:\n- j\n\tk\nl: \"m\" n\n---\n").unwrap();
    let fields = front.fields().unwrap();
    let read = fields.iter().map(|field| (&*field.key, field.scalar()));
    let wanted = [
        ("a", Some("b: c")),
        ("f", Some("g")),
        ("i", None),
        ("l", None),
    ];
    assert_eq!(Vec::from_iter(read), wanted);
    assert!(split("---\na: b\nstray\n---\n").unwrap().fields().is_err());
}

#[test]
fn guard_rejects_yaml_anchors() {
    for header in [
        "a: &a x",
        "a:\t&a x",
        "a: [&a x]",
        "a:\t[x, &a y]",
        "a: {b: &a x}",
        "a: {\"b\":&a x}",
        "a:\n  - &a x",
        "a:\n-\t&a x",
        "a:\n- - ? &a x",
        "? &a x\n: y",
        "&a b: c",
        "\"a b: 'x\": &a '\n  y'",
        "{\"a: |\n  b\": &a [x]}",
        "? {\"a: |\n  b\": &a [x]}\n: y",
        "a: |\n  text\nb: &a x",
        "a: \"x\" # |\nb: &a x",
        "a: \"x\n  y\"\nb: &a x",
        "a: [*a]",
        "a:\n  - *a",
        "a: *a\nb: &a x",
        "a: !!str x",
        "a: ! x",
        "!t {a: b}",
        "<<: x",
        "'<<': x",
        "a: {<<: x}",
        "%TAG ! x",
        "a: \"\\ud83d\"",
        "a: \u{7}",
        "a: \u{202e}x",
        "a: - - - - - - - - - - x",
        "- a",
        "[a]",
    ] {
        assert!(yaml_limits::check_header(header, 2).is_err(), "{header}");
    }
    for header in ["a: *x*", "a: **x**\nb: c & d"] {
        let checked = yaml_limits::check_header(header, 2);
        assert!(matches!(checked, Ok(Some(_))), "{header}");
    }
}
