use proptest::prelude::*;

use super::*;
use crate::wire::tests::told;

const NAME: &str = "report-task-7.md";

fn with(header: &str) -> String {
    format!("---\n{header}\n---\n\n## Core results\n\nIt works.\n")
}

fn read(text: &str) -> Result<ReportFile, Vec<Problem>> {
    parse(NAME, text.as_bytes())
}

fn success(text: &str) -> ReportFile {
    let report = read(text).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
    assert_eq!(report.report.status, ReportStatus::Success, "{text}");
    assert!(!report.report.results.is_empty(), "{text}");
    report
}

fn problems(text: &str) -> String {
    told(&read(text).expect_err(text))
}

#[test]
fn refused_commands_come_through_as_they_are() {
    let commands = [
        "cargo test",
        "&a *b !c %d @e `f` {g} [h] | > - ? : #i",
        "it's \"quoted\", 'twice': yes",
        "a\n---\nstatus: FAILED\n  b: [",
        "中文 \\n \\",
    ];
    let mut file = ReportFile::new(CommandId::new("task-7"), ReportStatus::PartialSuccess);
    file.report.results = "It works.".to_owned();
    for one in commands {
        file.report.refused = vec![one.to_owned(); 2];
        let read = read(&render(&file)).unwrap_or_else(|problems| panic!("{one}: {problems:?}"));
        assert_eq!(read.report.refused, file.report.refused);
        assert_eq!(read.report.status, ReportStatus::PartialSuccess);
    }
    file.report.refused = vec![format!("\"[{{{}", "\\\"".repeat(298)); 5];
    file.report.question = Some("x".repeat(1200));
    assert_eq!(read(&render(&file)).unwrap().report.refused.len(), 5);
    // What a person would not see is not asked.
    file.report.refused = vec!["ls".to_owned(), "l\u{200b}s".to_owned()];
    assert_eq!(file.into_report().refused, ["ls"]);
}

#[test]
fn refused_is_read_as_list_in_any_form() {
    let asks = "status: PARTIAL_SUCCESS\nquestion: May I?";
    for (refused, commands) in [
        ("[\"make deploy\"]", &["make deploy"][..]),
        ("\n- make deploy\n- 'a: b'", &["make deploy", "a: b"]),
        ("'[\"make deploy\"]'", &["make deploy"]),
        // Beside a field that is no YAML.
        ("[\"make deploy\"]\ntitle: a: b", &["make deploy"]),
        ("", &[]),
        ("''", &[]),
        ("[]", &[]),
    ] {
        let read = read(&with(&format!("{asks}\nrefused: {refused}"))).expect(refused);
        assert_eq!(read.report.refused, commands, "{refused}");
    }
    for other in ["make deploy", "7", "{a: b}", "[1, 2]", "[[a]]", "{1: 2}"] {
        let hint =
            "line 4: `refused` is no list of commands / write it like `refused: [\"make deploy\"]`";
        let found = problems(&with(&format!("{asks}\nrefused: {other}")));
        assert_eq!(found, hint, "{other}");
    }
}

#[test]
fn reads_full_report() {
    let text = "---\nid: task-7\nstatus: PARTIAL_SUCCESS\nsession_id: s.1\nusage: {input_tokens: 10, output_tokens: 20, cost_usd: 0.5}\n\
        blocked_until: 2026-11-21T10:00:00Z\nquestion: Which one?\nrequest_id: r-1\ncollaboration: completed\ntitle: Mine\n---\n\n\
        # Report\n\n## 核心成果\n\nA\n\n### Detail\n\nB\n\n## 填坑记录\n\nC\n\n## Odd\n\nD\n\n## Next-step suggestions / 下一步建议\n\nE\n";
    let mut expected = ReportFile::new(CommandId::new("task-7"), ReportStatus::PartialSuccess);
    expected.request_id = Some("r-1".to_owned());
    expected.other = "# Report\n\n## Odd\n\nD".to_owned();
    expected.report = Report {
        session: Some(SessionId::new("s.1")),
        input_tokens: 10,
        output_tokens: 20,
        cost_usd: 0.5,
        blocked_until: Some(Time(1_795_255_200_000_000)),
        question: Some("Which one?".to_owned()),
        collaboration: Some(Collaboration::Completed),
        results: "A\n\n### Detail\n\nB".to_owned(),
        pitfalls: "C".to_owned(),
        next_steps: "E".to_owned(),
        ..expected.report
    };
    assert_eq!(read(text), Ok(expected));
}

#[test]
fn reads_reports_with_evident_slips() {
    let plain = with("status: SUCCESS\nsession_id: s-1");
    for text in [
        format!("\u{feff}{plain}"),
        plain.replace('\n', "\r\n"),
        format!("\n  \n{plain}"),
        format!("  {plain}"),
        plain.replace("---\n", "---  \t\n"),
        plain.replace("status: ", "Status："),
        plain.replace(": ", ":\u{3000}"),
        plain.replace(": ", ":\u{a0}"),
        format!("```markdown\n{plain}```\n"),
        format!("\n```\n\n{plain}\n```\n\n"),
        format!("````md\r\n{}````", plain.replace('\n', "\r\n")),
        with("status: success\nsession_id: s-1"),
        with("status: Success\nsession_id: s-1"),
        with("status: \"SUCCESS\"\nsession_id: 's-1'"),
        with("Status: SUCCESS\nSESSION_ID: s-1"),
        with("\"status\": SUCCESS\n'session_id': s-1"),
        with("status: SUCCESS # all fine\nsession_id: s-1"),
        with("\n# about me\nstatus:   SUCCESS  \nsession_id: s-1\n"),
        with("{status: SUCCESS, session_id: s-1}"),
        with("  status: SUCCESS\n  session_id: s-1"),
        with(
            "\n    # about me\n\n    status: SUCCESS\n    usage:\n      input_tokens: 1\n    session_id: s-1",
        ),
    ] {
        let report = success(&text);
        assert_eq!(report.report.session, Some(SessionId::new("s-1")), "{text}");
        assert_eq!(report.report.results, "It works.", "{text}");
    }
}

#[test]
fn invalid_field_keeps_other_fields() {
    for field in [
        "note: a: b",
        "note: done\n\tand more",
        "note:\n\t- tab",
        "note: **done**",
        "note: *important*",
        "note: a & b",
        "note: \"he said \"yes\"\"",
        "note: @home `x`",
        "note: 100% {unclosed",
        "note: {{template}}",
        "note: [ ] open",
    ] {
        for text in [
            with(&format!("status: SUCCESS\nsession_id: s-1\n{field}")),
            with(&(field.to_owned() + "\nStatus: \"success\" # ok\nsession_id: s-1")),
        ] {
            let report = success(&text);
            assert_eq!(report.report.session, Some(SessionId::new("s-1")), "{text}");
        }
    }
    let report = success(&with("status: SUCCESS\nusage: {input_tokens: -1}"));
    assert_eq!(report.report.input_tokens, 0);
    let report = success(&with("status: SUCCESS\nusage: {cost_usd: .nan}"));
    assert_eq!(report.report.cost_usd, 0.0);
}

#[test]
fn broken_header_needs_evident_status() {
    for header in [
        "note: a: b\nstatus: FINE",
        "note: a: b\nstatus: SUCCESS\nstatus: SUCCESS",
        "note: a: b\nstatus: SUCCESS\nStatus: FAILED",
        "note: a: b\nstatus: SUCCESS\n  maybe",
        "note: a: b\nstatus: \"SUCCESS",
        "note: a: b\n  status: SUCCESS",
        "note: a: b\nstatus: SUCCESS\nstray words",
        "note: a: b\nstatus: SUCCESS\nsession_id: a b",
        "note: a: b\nstatus: SUCCESS\nid: task-8",
        "note: a: b\nstatus: SUCCESS: no",
        "status: [SUCCESS]",
        "status: {SUCCESS: no}",
        "status: *SUCCESS*",
        "status: |\n  SUCCESS\n  FAILED",
    ] {
        let text = with(header);
        assert!(read(&text).is_err(), "{text}");
    }
}

/// A status counts at the left edge, or where every line has the indentation that it has.
#[test]
fn nested_status_is_not_report_status() {
    for header in [
        "    session_id: s\nmeta:\n  status: SUCCESS",
        "  session_id: s\nmeta:\n  status: SUCCESS",
        "  session_id: s\nmeta:\n    status: SUCCESS",
        " session_id: s\nmeta:\n status: SUCCESS",
        "    session_id: s\n\n# so far\nmeta:\n    status: SUCCESS",
        "  note: a: b\nmeta:\n  status: SUCCESS",
        "  status: SUCCESS\nsession_id: s",
        "    status: SUCCESS\n  session_id: s",
        "  session_id: s\nstatus: SUCCESS",
        "\tsession_id: s\n    meta:\n  \tstatus: SUCCESS",
        "meta:\n  status: SUCCESS",
        "  meta:\n    status: SUCCESS\n  session_id: s",
        "  session_id: s\n  meta:\n    status: SUCCESS",
        "- status: SUCCESS\nsession_id: s",
    ] {
        for text in [with(header), with(header).replace('\n', "\r\n")] {
            assert!(read(&text).is_err(), "{text}");
            assert!(read(&format!("```\n{text}```\n")).is_err(), "{text}");
        }
        for failed in [
            with(&format!("status: FAILED\n{header}")),
            with(&format!("{header}\nstatus: FAILED")),
        ] {
            if let Ok(report) = read(&failed) {
                assert_eq!(report.report.status, ReportStatus::Failed, "{failed}");
            }
        }
    }
}

#[test]
fn numeric_ids_stay_text_and_session_is_optional() {
    let text = with("id: 123\nstatus: SUCCESS\nsession_id: 0123");
    let report = parse("report-123.md", text.as_bytes()).unwrap();
    assert_eq!(report.command.as_str(), "task-123");
    assert_eq!(report.report.session, Some(SessionId::new("0123")));
    for session in [
        "",
        "session_id:",
        "session_id: \"\"",
        "session_id: ~",
        "session_id: auto",
    ] {
        let report = success(&with(&format!("status: SUCCESS\n{session}")));
        assert_eq!(report.report.session, None, "{session}");
    }
    let report = success(&with("status: SUCCESS\nsession_id: 1e3"));
    assert_eq!(report.report.session, Some(SessionId::new("1e3")));
}

#[test]
fn ambiguous_report_is_rejected_with_hint() {
    let cases = [
        "---\nstatus: SUCCESS\nsession_id: s-1\n\n## Core results\n\nIt works.\n",
        "# Report\n\nstatus: SUCCESS\n\nIt works.\n",
        &with("status: done"),
        &with("status: OK"),
        &with("status: GREAT"),
        &with("session_id: s-1\nstatus: null"),
        &with("status:"),
        &with("status: yes"),
        &with("session_id: s-1"),
        &with("status: SUCCESS\nnote: x\nstatus: SUCCESS"),
        &with("status: FAILED\nstatus: SUCCESS"),
        "---\nstatus: SUCCESS\n---\n",
        "---\nstatus: SUCCESS\n---\n\n## Core results\n\n## Pitfalls\n  \n",
        &with("status: SUCCESS\nid: task-8"),
        &with("status: SUCCESS\nblocked_until: tomorrow\ncollaboration: maybe"),
        "",
        "---\n---\ntext\n",
        "```markdown\n---\nstatus: fine\n---\ntext\n```\n",
    ];
    insta::assert_snapshot!(cases.map(problems).join("\n"), @r"
    line 3: the front matter has no closing `---` / put a line `---` after line 3
    line 1: no front matter / begin the file with a line `---`, then fields such as `key: value`, then another line `---`
    line 2: `status` is `done` / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    line 2: `status` is `OK` / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    line 2: `status` is `GREAT` / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    line 3: `status` is missing / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    line 2: `status` is missing / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    line 2: `status` is `yes` / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    line 2: `status` is missing / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    line 4: `status` is written twice, first on line 2 / keep one of them
    line 3: `status` is written twice, first on line 2 / keep one of them
    line 4: the body is empty / write what was done under `## Core results`, then `## Pitfalls` and `## Next-step suggestions`
    line 5: the body is empty / write what was done under `## Core results`, then `## Pitfalls` and `## Next-step suggestions`
    line 3: `id` is `task-8`, but the file's name says `task-7` / write the report of each command into a file of its own, or leave `id` out
    line 3: `blocked_until` is `tomorrow` / write it like `2026-01-31T18:00:00Z`
    line 4: `collaboration` is `maybe` / write completed, error or rejected
    line 1: no front matter / begin the file with a line `---`, then fields such as `key: value`, then another line `---`
    line 2: no front matter / begin the file with a line `---`, then fields such as `key: value`, then another line `---`
    line 3: `status` is `fine` / write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    ");
}

#[test]
fn rejects_hostile_headers() {
    let bomb = |levels: usize| {
        let level = |level: usize| {
            let before = vec![format!("*a{}", level - 1); 9].join(",");
            format!("\na{level}: &a{level} [{before}]")
        };
        let levels: String = (1..=levels).map(level).collect();
        format!("status: SUCCESS\na0: &a0 [x, x, x, x, x, x, x, x, x]{levels}")
    };
    let list = vec!["x"; 3000].join(",");
    let deep = |open: &str| format!("status: SUCCESS\na: {}", open.repeat(2000));
    let nested = |levels: usize| {
        let lines = (0..levels).map(|level| format!("{}a:\n", " ".repeat(level)));
        format!("status: SUCCESS\n{}", lines.collect::<String>())
    };
    for header in [
        bomb(9),
        bomb(30),
        format!(
            "status: SUCCESS\na: &a [{list}]\nb: [{}]",
            vec!["*a"; 3000].join(",")
        ),
        "status: SUCCESS\na: &a [x]\nb: [*a, *a]".to_owned(),
        "status: SUCCESS\na: &a [*a]".to_owned(),
        "status: SUCCESS\na:\n  - &a x\n  - *a".to_owned(),
        "status: SUCCESS\nb: [*a]".to_owned(),
        "status: &s SUCCESS\nb: *s".to_owned(),
        "a: &s SUCCESS\nstatus: *s".to_owned(),
        "status: SUCCESS\n? &a x\n: *a".to_owned(),
        "status: SUCCESS\n{a: &a b, c: *a}".to_owned(),
        "status: SUCCESS\na: {\"x\":&a 1}".to_owned(),
        "status: SUCCESS\na: \"x\n  y\"\nb: &a 1".to_owned(),
        "status: SUCCESS\n- &a".to_owned(),
        "status: SUCCESS\na:\t&a x".to_owned(),
        "status: SUCCESS\na:\t[&a x, *a]".to_owned(),
        "status: SUCCESS\na:\n-\t&a x".to_owned(),
        "status: SUCCESS\n\"a b: 'x\": &a '\n  y'".to_owned(),
        "{\"a: |\n  b\": &a [x], status: SUCCESS}".to_owned(),
        "? {\"a: |\n  b\": &a [x]}\n: y\nstatus: SUCCESS".to_owned(),
        "status: SUCCESS\na: |\n  text\nb: &a 1".to_owned(),
        "status: SUCCESS\na: !!python/object:os.system x".to_owned(),
        "status: !!str SUCCESS".to_owned(),
        "status: ! SUCCESS".to_owned(),
        "!x {status: SUCCESS}".to_owned(),
        "status: SUCCESS\na: !local x".to_owned(),
        "status: SUCCESS\n<<: {status: FAILED}".to_owned(),
        "status: SUCCESS\n\"<<\" : x".to_owned(),
        "a: {<<: x}\nstatus: SUCCESS".to_owned(),
        deep("["),
        deep("{a: "),
        deep("- "),
        deep("? "),
        format!("status: SUCCESS\na: {}", "[".repeat(100_000)),
        nested(3000),
        nested(100),
        format!("status: SUCCESS\n{}", "a: b\n".repeat(20_000)),
        "- status: SUCCESS".to_owned(),
        "- SUCCESS\n- task-7".to_owned(),
        "[task-7, SUCCESS]".to_owned(),
        "SUCCESS".to_owned(),
        format!("status: SUCCESS\n{}: x", "k".repeat(1 << 20)),
        format!("{}: x\nstatus: SUCCESS", "k".repeat(9000)),
        "status: SUCCESS\nnote: a\0b".to_owned(),
        "status: SUCCESS\nnote: \"\\ud800\"".to_owned(),
        "status: SUCCESS\nnote: \"\\uDFFF \\udc00\"".to_owned(),
        "status: SUCCESS\ntitle: \u{1b}]52;c;aGk=\u{7}".to_owned(),
        "status: SUCCESS\ntitle: \u{202e}red".to_owned(),
        "%YAML 1.1\nstatus: SUCCESS".to_owned(),
        "status: SUCCESS\u{202e}".to_owned(),
    ] {
        let text = with(&header);
        assert!(read(&text).is_err(), "{}", clip_for_message(&text));
    }
}

#[test]
fn rejects_hostile_report_files() {
    let plain = with("status: SUCCESS");
    for bytes in [
        vec![b'-'; 8 << 20],
        [plain.as_bytes(), &vec![b'x'; 8 << 20]].concat(),
        [plain.as_bytes(), b"\0"].concat(),
        [plain.as_bytes(), b"\xff\xfe"].concat(),
        [b"\xff\xfe", plain.as_bytes()].concat(),
        plain.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        vec![0; 4096],
        b"---".to_vec(),
        b"---\n".to_vec(),
        b"```markdown".to_vec(),
        b"```markdown\n---".to_vec(),
    ] {
        assert!(parse(NAME, &bytes).is_err());
    }
}

#[test]
fn report_body_keeps_control_characters() {
    let body = "\u{1b}[31mred\u{1b}[0m <script>alert(1)</script> \u{202e}";
    let text = format!("---\nstatus: FAILED\ntitle: <script>\n---\n{body}\n");
    assert_eq!(read(&text).unwrap().report.results, body);
}

#[test]
fn text_without_headings_is_result() {
    let report = read("---\nstatus: FAILED\n---\n# Title\nNothing worked.\n").unwrap();
    assert_eq!(report.report.results, "# Title\nNothing worked.");
    let report = read("---\nstatus: FAILED\nquestion: Which port?\n---\n").unwrap();
    assert_eq!(report.report.question.as_deref(), Some("Which port?"));
    assert!(read("---\nstatus: SUCCESS\nquestion: Which port?\n---\n").is_err());
}

#[test]
fn derives_command_from_report_name() {
    for (name, command) in [
        ("report-task-019a.md", Some("task-019a")),
        ("report-019a.md", Some("task-019a")),
        ("report-task-019a.MD", Some("task-019a")),
        ("Report-task-019a.Md", Some("task-019a")),
        ("report-.md", None),
        ("report-task-.md", None),
        ("report-task-019a.md~", None),
        ("report-task-019a.txt", None),
        (".report-task-019a.md.swp", None),
        ("report-task-../x.md", None),
        ("report-../../x.md", None),
        ("report-task-a\0.md", None),
        ("report-task-ä.md", None),
        ("reportätask.md", None),
        ("report.md", None),
        ("task-019a.md", None),
        ("", None),
    ] {
        let found = command_of(name);
        assert_eq!(found.as_ref().map(CommandId::as_str), command, "{name:?}");
    }
    assert_eq!(command_of(&format!("report-{}.md", "a".repeat(300))), None);
    assert!(parse("notes.md", with("status: SUCCESS").as_bytes()).is_err());
}

#[test]
fn rejection_shows_problems_and_example() {
    let problems = read(&with("status: done\u{1b}[31m`\nid: task-8")).unwrap_err();
    insta::assert_snapshot!(rejection(NAME, &problems), @r"
    # `report-task-7.md` was not accepted

    - line 2, column 13: a control character in the front matter
      Hint: write plain text

    The shortest report that is accepted:

    ```markdown
    ---
    status: SUCCESS
    ---

    ## Core results

    What was done.
    ```
    ");
    let problems = read(&with("status: done\nid: task-8")).unwrap_err();
    let said = rejection(NAME, &problems);
    insta::assert_snapshot!(said.split("The shortest").next().unwrap(), @r"
    # `report-task-7.md` was not accepted

    - line 2: `status` is `done`
      Hint: write `status: SUCCESS`, `status: PARTIAL_SUCCESS` or `status: FAILED`
    - line 3: `id` is `task-8`, but the file's name says `task-7`
      Hint: write the report of each command into a file of its own, or leave `id` out
    ");
    assert!(parse(NAME, EXAMPLE.as_bytes()).is_ok());
}

fn clip_for_message(text: &str) -> String {
    super::super::text::clip(text, 400)
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z .,:*&!-]{1,30}", "[\\PC&&[^#`~|/]]{1,12}"]
        .prop_map(|text| printable(&text).trim().to_owned())
}

/// Ways to damage a report a little: not enough of them to spell another status.
#[derive(Clone, Debug)]
enum Damage {
    Replace(usize, u8),
    Insert(usize, u8),
    Remove(usize),
    RepeatLine(usize),
    CutAfter(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = || {
        prop_oneof![
            any::<u8>(),
            proptest::sample::select(b"\n:-# \t\"'&*!|>[]{},\r\0%?<`~S".to_vec())
        ]
    };
    prop_oneof![
        (any::<usize>(), byte()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        (any::<usize>(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        any::<usize>().prop_map(Damage::Remove),
        any::<usize>().prop_map(Damage::RepeatLine),
        any::<usize>().prop_map(Damage::CutAfter),
    ]
}

fn damaged(mut bytes: Vec<u8>, damage: &Damage) -> Vec<u8> {
    let size = bytes.len().max(1);
    match *damage {
        _ if bytes.is_empty() => {}
        Damage::Replace(at, byte) => bytes[at % size] = byte,
        Damage::Insert(at, byte) => bytes.insert(at % size, byte),
        Damage::Remove(at) => {
            bytes.remove(at % size);
        }
        Damage::RepeatLine(at) => {
            let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let at = at % lines.len();
            bytes = [&lines[..=at], &lines[at..]].concat().concat();
        }
        Damage::CutAfter(at) => bytes.truncate(at % size),
    }
    bytes
}

/// Reports that are no success and are six damages or more away from one.
const FAILURES: [&str; 5] = [
    "---\nstatus: FAILED\nsession_id: s-1\n---\n\n## Core results\n\nNo SUCCESS here.\n",
    "---\nid: task-7\nnote: a: b\nstatus: PARTIAL_SUCCESS\nusage:\n  input_tokens: 3\n---\nstatus: SUCCESS\n\ntext\n",
    "```markdown\n---\ntitle: |\n  status: SUCCESS\nstatus: FAILED\n---\n\nThe text.\n```\n",
    "\u{feff}---\r\nstatus: \"failed\" # status: SUCCESS\r\nnote: *x*\r\n---\r\n\r\nThe text.\r\n",
    "---\nnote: 'about\n  SUCCESS'\nstatus: OK\nlist: [a, {b: c}]\n---\n核心成果\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_failure_never_reads_as_success(
        seed in proptest::sample::select(FAILURES.to_vec()),
        damages in proptest::collection::vec(damage(), 1..5),
    ) {
        let bytes = damages.iter().fold(seed.as_bytes().to_vec(), damaged);
        if let Ok(report) = parse(NAME, &bytes) {
            prop_assert_ne!(report.report.status, ReportStatus::Success, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn report_parser_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(NAME, &bytes).is_err());
    }

    #[test]
    fn report_parser_survives_any_header(header in "([a-z]{0,6}[:&*!|>\\[\\]{},'\"#?%-]{0,2}[ \n\t]?){0,20}") {
        if let Ok(report) = read(&with(&header)) {
            prop_assert_ne!(report.report.status, ReportStatus::Success);
        }
    }

    #[test]
    fn only_top_level_status_counts(
        lines in proptest::collection::vec((0_usize..6, proptest::sample::select(vec![
            "status: SUCCESS", "status: FAILED", "session_id: s", "meta:", "note: a: b", "note: |", "# status: SUCCESS", "", "- x",
        ])), 1..7),
    ) {
        let header: Vec<String> = lines.iter().map(|(indent, line)| format!("{}{line}", " ".repeat(*indent))).collect();
        if let Ok(report) = read(&with(&header.join("\n"))) {
            let fields = || lines.iter().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
            let edge = fields().map(|(indent, _)| *indent).min();
            let own: Vec<&str> = fields()
                .filter(|(indent, line)| Some(*indent) == edge && line.starts_with("status"))
                .map(|(_, line)| *line)
                .collect();
            let said = format!("status: {}", report.report.status.as_str());
            prop_assert_eq!(own, [said], "{}", header.join("\n"));
        }
    }

    #[test]
    fn what_is_written_is_read_again(
        texts in proptest::array::uniform4(proptest::collection::vec(line(), 1..4)),
        question in proptest::option::of(line()),
        tokens in any::<u64>(),
        session in proptest::option::of("[A-Za-z0-9][A-Za-z0-9._:-]{5,12}"),
    ) {
        let [results, pitfalls, next_steps, other] = texts.map(|lines| lines.join("\n").trim().to_owned());
        let mut given = ReportFile::new(CommandId::new("task-7"), ReportStatus::Failed);
        given.other = other;
        given.report = Report {
            session: session.map(SessionId::new),
            input_tokens: tokens,
            question: question.filter(|text| !text.is_empty()),
            results: format!("r{results}"),
            pitfalls,
            next_steps,
            ..given.report
        };
        prop_assert_eq!(read(&render(&given)), Ok(given));
    }
}
