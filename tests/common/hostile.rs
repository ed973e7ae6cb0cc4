//! Files that malice or an accident puts among the reports. The bench that measures the cost of each uses them, too.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// The most bytes of a report that are read.
const MOST: usize = 1024 * 1024;

/// Returns texts that must never count as a success, each with its description.
pub fn texts() -> Vec<(&'static str, Vec<u8>)> {
    let body = "\n## Core results\n\ndone\n";
    let with = |header: &str| format!("---\nstatus: SUCCESS\n{header}\n---\n{body}").into_bytes();
    let bombs: String = (1..=9)
        .map(|level| {
            let items = vec![format!("*a{}", level - 1); 9].join(", ");
            format!("a{level}: &a{level} [{items}]\n")
        })
        .collect();
    let list = vec!["x"; 3_000].join(", ");
    let nested_maps = (0..3_000).map(|depth| format!("{}k:\n", " ".repeat(depth)));
    let nested_maps: String = nested_maps.collect();
    vec![
        (
            "alias bomb of nine levels",
            with(&format!("a0: &a0 [x, x, x]\n{bombs}")),
        ),
        (
            "3,000 aliases of a list of 3,000",
            with(&format!(
                "list: &l [{list}]\nall: [{}]",
                vec!["*l"; 3_000].join(", ")
            )),
        ),
        (
            "100,000 nested `[`",
            with(&format!(
                "deep: {}{}",
                "[".repeat(100_000),
                "]".repeat(100_000)
            )),
        ),
        (
            "3,000 nested maps, cut at 1 MiB",
            with(&nested_maps[..MOST - 100]),
        ),
        (
            "200 nested maps",
            with(&nested_maps[..200 * 3 + 199 * 200 / 2]),
        ),
        ("anchor to itself", with("self: &self [*self]")),
        (
            "tag of another language",
            with("object: !!python/object/apply:os.system ['touch x']"),
        ),
        ("tag of YAML", with("status: !!str SUCCESS")),
        ("tag of nobody", with("object: !local x")),
        (
            "merge key",
            with("base: &base {status: SUCCESS}\nmore:\n  <<: *base"),
        ),
        ("merge key without an anchor", with("<<: {status: SUCCESS}")),
        (
            "header of 20,000 lines",
            with(&"filler: x\n".repeat(20_000)),
        ),
        (
            "header of 1 MiB, 260,000 keys",
            with(&"k:\n".repeat((MOST - 100) / 4)),
        ),
        (
            "header of 1 MiB, one value",
            with(&format!("note: {}", "x".repeat(MOST - 100))),
        ),
        ("header of 1 MiB, colons", with(&":".repeat(MOST - 100))),
        (
            "header without an end, 1 MiB",
            format!("---\nstatus: SUCCESS\n{}", "k:\n".repeat((MOST - 100) / 3)).into_bytes(),
        ),
        (
            "header that is a list",
            format!("---\n- status: SUCCESS\n---\n{body}").into_bytes(),
        ),
        (
            "header that is a list in brackets",
            format!("---\n[status, SUCCESS]\n---\n{body}").into_bytes(),
        ),
        (
            "key of 1 MB",
            with(&format!("{}: x", "k".repeat(1_000_000))),
        ),
        (
            "body of 8 MiB",
            format!("---\nstatus: SUCCESS\n---\n{}", "x".repeat(8 * MOST)).into_bytes(),
        ),
        (
            "empty lines, 1 MiB",
            format!("---\nstatus: SUCCESS\n---\n{}", "\n".repeat(MOST - 100)).into_bytes(),
        ),
        ("lines before it, 1 MiB", "\n".repeat(MOST).into_bytes()),
        (
            "NUL in the header",
            format!("---\nstatus: SUC\0CESS\n---\n{body}").into_bytes(),
        ),
        (
            "NUL in the body",
            format!("---\nstatus: SUCCESS\n---\n{body}\0").into_bytes(),
        ),
        (
            "not UTF-8, header",
            [&b"---\nstatus: \xff\xfe\n---\n"[..], body.as_bytes()].concat(),
        ),
        ("not UTF-8, end", [&with("")[..], b"\xc3"].concat()),
        ("UTF-16", utf_16(&String::from_utf8_lossy(&with("")))),
        (
            "lone surrogate in an escape of YAML",
            with("note: \"\\ud800\""),
        ),
        ("lone surrogate, the low half", with("\"note\\uDFFF\": x")),
        (
            "surrogates in a header of JSON",
            format!("---\n{{\"status\": \"SUCCESS\", \"note\": \"\\ud83d\\ud83d\"}}\n---\n{body}")
                .into_bytes(),
        ),
        ("OSC 52 in the title", with("title: \u{1b}]52;c;aGk=\u{7}")),
        ("bidi marks in the title", with("title: \u{202e}gnp.exe")),
    ]
}

/// Returns mistakes that cannot be read as any report, and so are no success either.
pub fn slips() -> Vec<Vec<u8>> {
    let body = "\n## Core results\n\ndone\n";
    let mut texts = vec![
        format!("---\nstatus: SUCCESS\n{body}").into_bytes(),
        format!("status: SUCCESS\n{body}").into_bytes(),
        b"---\nstatus: SUCCESS\n---\n".to_vec(),
    ];
    for status in [
        "status: done",
        "status: OK",
        "status: null",
        "status:",
        "status: yes",
        "state: SUCCESS",
        "status: SUCCESS\nstatus: FAILED",
        "status: SUCCESS\nstatus: SUCCESS",
        "status: [SUCCESS]",
        "id: another-one\nstatus: SUCCESS",
        // This is the status of something else.
        "    session_id: s-1\nmeta:\n  status: SUCCESS",
        "  session_id: s-1\nmeta:\n    status: SUCCESS",
        "  status: SUCCESS\nsession_id: s-1",
    ] {
        texts.push(format!("---\n{status}\n---\n{body}").into_bytes());
    }
    texts
}

/// Returns readable reports whose text is expensive to read: as long as the limit, and made of one thing only.
pub fn laborious() -> Vec<(&'static str, Vec<u8>)> {
    let with = |unit: &str| {
        let front = "---\nstatus: PARTIAL_SUCCESS\n---\n\n## Core results\n\nx\n";
        let count = (MOST - 2 * front.len()) / unit.len();
        format!("{front}{}\nx\n", unit.repeat(count)).into_bytes()
    };
    vec![
        ("1 MiB of one word", with("x")),
        ("1 MiB of short lines", with("x\n")),
        ("1 MiB of headings", with("#\n")),
        ("1 MiB of known headings", with("# Results\n")),
        ("1 MiB of fences", with("```\n~~~\n")),
        ("1 MiB of rulers", with("---\n")),
        ("1 MiB of escapes", with("\u{1b}[31m")),
        ("1 MiB of OSC 52", with("\u{1b}]52;c;aGk=\u{7}")),
        ("1 MiB of begun control strings", with("\u{1b}]")),
        ("1 MiB of begun control strings, C1", with("\u{9d}")),
        ("1 MiB of bidi marks", with("\u{202e}")),
        ("1 MiB of control characters", with("\u{1}")),
        ("1 MiB of quotes", with("\"")),
        ("1 MiB of `<script>`", with("<script>")),
    ]
}

/// Kinds of files that are not plain, and how they are made; the program must refuse each without opening it.
pub const KINDS: [(&str, Make); 9] = [
    ("directory", |path, _| fs::create_dir(path)),
    ("symlink to a secret", |path, secret| symlink(secret, path)),
    ("dangling symlink", |path, _| symlink("/nowhere", path)),
    ("symlink to /dev/zero", |path, _| symlink("/dev/zero", path)),
    ("hard link", |path, secret| fs::hard_link(secret, path)),
    ("socket", |path, _| node(path, FileType::Socket, 0)),
    ("FIFO", |path, _| node(path, FileType::Fifo, 0)),
    ("device", |path, _| {
        node(path, FileType::CharacterDevice, makedev(1, 5))
    }),
    ("sparse file of 1 GiB", |path, _| {
        // Made elsewhere and renamed, so that no process sees it while it is small.
        let aside = path.with_extension("sparse");
        File::create(&aside)?.set_len(1 << 30)?;
        fs::rename(aside, path)
    }),
];

/// Creates a file at a path, if necessary with the help of a secret file.
pub type Make = fn(path: &Path, secret: &Path) -> io::Result<()>;

fn node(path: &Path, kind: FileType, device: u64) -> io::Result<()> {
    mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device)?;
    Ok(())
}

fn utf_16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
