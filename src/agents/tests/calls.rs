//! How agents are called: their sessions, what they are permitted, and their names.

use super::*;

#[test]
fn agents_recognise_their_session_ids() {
    let uuid = "11111111-2222-4333-8444-555555555555";
    let simple = uuid.replace('-', "");
    let urn = format!("urn:uuid:{uuid}");
    let knows = |kind: &'static CodingAgent| {
        [uuid, &simple, &urn, "ses_e003c359effeAB2Zs4gGNdaqZG", "3"].map(|name| (kind.knows)(name))
    };
    for kind in [&claude::AGENT, &codex::AGENT, &gemini::AGENT] {
        assert_eq!(knows(kind), [true, false, false, false, false], "{kind:?}");
    }
    assert_eq!(knows(&opencode::AGENT), [false, false, false, true, false]);
}

#[test]
fn agents_apply_or_refuse_permissions() {
    let words = ["", "edit", "edit shell", "edit shell:cargo test *", "all"];
    let mut lines = Vec::new();
    for kind in CodingAgent::ALL {
        for word in words {
            let list: Vec<String> = match word {
                "edit shell:cargo test *" => vec!["edit".into(), "shell:cargo test *".into()],
                word => word.split_whitespace().map(str::to_owned).collect(),
            };
            let allow = Permissions::parse(&list).unwrap();
            let coder = CodingAgentSetup {
                kind,
                allow,
                model: None,
                more: vec!["--more".into()],
            };
            let talk = RunSession::Resume(crate::plan::SessionId::new("S"));
            let said = match coder.call(talk, Path::new("/w"), Path::new("/h")) {
                Ok(call) => {
                    let set = call.set.iter().find(|(name, _)| name.ends_with("CONTENT"));
                    let set = set
                        .map(|(_, value)| format!(" {value}"))
                        .unwrap_or_default();
                    call.argv.join(" ") + &set
                }
                Err(unfit) => format!("refused: {unfit}"),
            };
            if kind.name != aider::AGENT.name || said.starts_with("refused") {
                lines.push(format!("[{word}] {said}"));
            }
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    [] claude -p --verbose --output-format stream-json --permission-mode default --resume S --more
    [edit] claude -p --verbose --output-format stream-json --permission-mode acceptEdits --resume S --more
    [edit shell] claude -p --verbose --output-format stream-json --permission-mode acceptEdits --allowedTools Bash --resume S --more
    [edit shell:cargo test *] claude -p --verbose --output-format stream-json --permission-mode acceptEdits --allowedTools Bash(cargo test *) --resume S --more
    [all] claude -p --verbose --output-format stream-json --dangerously-skip-permissions --resume S --more
    [] codex exec --json --skip-git-repo-check -s read-only -C /w --more resume S -
    [edit] codex exec --json --skip-git-repo-check -s workspace-write -C /w --more resume S -
    [edit shell] codex exec --json --skip-git-repo-check -s workspace-write -C /w --more resume S -
    [edit shell:cargo test *] refused: codex cannot be kept to some commands: its sandbox runs every command, without the network and with only the workspace to write to
    [all] codex exec --json --skip-git-repo-check -s danger-full-access -C /w --more resume S -
    [] gemini -o stream-json --approval-mode default --skip-trust --resume S --more
    [edit] gemini -o stream-json --approval-mode auto_edit --skip-trust --resume S --more
    [edit shell] gemini -o stream-json --approval-mode auto_edit --skip-trust --allowed-tools run_shell_command --resume S --more
    [edit shell:cargo test *] gemini -o stream-json --approval-mode auto_edit --skip-trust --allowed-tools run_shell_command(cargo test) --resume S --more
    [all] gemini -o stream-json --approval-mode yolo --skip-trust --resume S --more
    [] opencode run --format json -s S --more {"autoupdate":false,"permission":{"bash":"deny","edit":"deny","external_directory":"deny","webfetch":"deny"},"share":"disabled"}
    [edit] opencode run --format json -s S --more {"autoupdate":false,"permission":{"bash":{"*":"deny","nothing else":"deny"},"edit":"allow","external_directory":"deny","webfetch":"deny"},"share":"disabled"}
    [edit shell] opencode run --format json -s S --more {"autoupdate":false,"permission":{"bash":"allow","edit":"allow","external_directory":"deny","webfetch":"deny"},"share":"disabled"}
    [edit shell:cargo test *] opencode run --format json -s S --more {"autoupdate":false,"permission":{"bash":{"*":"deny","cargo test *":"allow"},"edit":"allow","external_directory":"deny","webfetch":"deny"},"share":"disabled"}
    [all] opencode run --format json -s S --more {"autoupdate":false,"permission":{"bash":"allow","edit":"allow","external_directory":"allow","webfetch":"allow"},"share":"disabled"}
    [] refused: aider cannot be kept from changing files
    [edit shell] refused: aider runs no commands
    [edit shell:cargo test *] refused: aider runs no commands
    "#);
}

#[test]
fn exact_commands_reach_the_command_line_whole() {
    let call = |kind: &'static CodingAgent, exact: &str| {
        let allow = Permissions {
            exact: vec!["make".into(), exact.into()],
            ..Permissions::parse(&["shell:ls *".into(), "shell:pwd".into()]).unwrap()
        };
        let coder = CodingAgentSetup {
            kind,
            allow,
            model: None,
            more: Vec::new(),
        };
        coder.call(RunSession::Alone, Path::new("/w"), Path::new("/h"))
    };
    for exact in [
        r#"git commit -m "one, two: three's""#,
        "npm run test:unit",
        "make 2>/dev/null",
    ] {
        let argv = call(&claude::AGENT, exact).unwrap().argv;
        let at = argv.iter().position(|word| word == "--allowedTools");
        let rule = format!("Bash({exact})");
        let tools = &argv[at.unwrap() + 1..][..4];
        assert_eq!(
            tools,
            ["Bash(ls *),Bash(pwd)", "Bash(make)", &*rule, "--tools"]
        );
        let set = call(&opencode::AGENT, exact).unwrap().set;
        let config = set.into_iter().find(|(name, _)| name.ends_with("CONTENT"));
        let config: serde_json::Value = serde_json::from_str(&config.unwrap().1).unwrap();
        let rules = config["permission"]["bash"].as_object().unwrap();
        // The last rule that matches decides.
        let (first, verdict) = rules.iter().next().unwrap();
        assert_eq!((first.as_str(), verdict.as_str()), ("*", Some("deny")));
        assert_eq!(rules[exact], "allow");
    }
    for (kind, exact) in [
        (&claude::AGENT, "rm *"),
        (&claude::AGENT, "a) Bash(b"),
        (&claude::AGENT, "npm test:*"),
        (&claude::AGENT, r"echo a\b"),
        (&claude::AGENT, "ls | sh"),
        (&opencode::AGENT, "rm ?"),
        (&opencode::AGENT, "make && make test"),
        (&opencode::AGENT, "\"a\" b"),
        (&opencode::AGENT, "~/run"),
        (&codex::AGENT, "make"),
    ] {
        let refused = call(kind, exact).unwrap_err();
        assert!(refused.message.contains("cannot be"), "{exact}: {refused}");
    }
}

#[test]
fn refused_commands_are_known_word_for_word() {
    let commands = |agent: &'static CodingAgent, out: &str| {
        let reading = agent.read(&RunOutput {
            out,
            err: "",
            exit: None,
            begins: true,
            now: Time(0),
        });
        match reading.outcome {
            RunOutcome::Refused { commands, .. } => commands,
            outcome => panic!("{outcome:?}"),
        }
    };
    let long = format!("make {}", "x ".repeat(200));
    for command in ["cargo test", "a\n  b", long.as_str()] {
        let denial =
            |tool: &str| serde_json::json!({"tool_name": tool, "tool_input": {"command": command}});
        let claude = serde_json::json!({
            "type": "result", "is_error": false, "result": "x",
            "permission_denials": [denial("Other"), denial("Bash")],
        });
        let found = commands(&claude::AGENT, &claude.to_string());
        assert_eq!(found, [command]);
        let opencode = serde_json::json!({"type": "tool_use", "part": {"tool": "bash", "state": {
            "status": "error", "input": {"command": command},
            "error": "The user has specified a rule which prevents you from using this specific tool call.",
        }}});
        let found = commands(&opencode::AGENT, &opencode.to_string());
        assert_eq!(found, [command]);
    }
}

#[test]
fn finds_agents_by_name() {
    let agent = |name, argv: &[&str]| {
        Agent::new(name, argv.iter().map(ToString::to_string).collect())
            .map(|agent| agent.name())
            .map_err(|error| error.to_string())
    };
    assert_eq!(agent("shell", &[]), Ok("shell"));
    assert_eq!(agent("command", &["cat"]), Ok("command"));
    for name in names() {
        assert_eq!(
            agent(name, if name == "command" { &["cat"] } else { &[] }),
            Ok(name)
        );
    }
    for (name, argv, says) in [
        ("command", [].as_slice(), "needs a command line"),
        ("shell", &["cat"], "takes no command line"),
        ("clippy", &[], "unknown agent `clippy`"),
    ] {
        let error = agent(name, argv).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn end_of_claude_at_a_limit_is_shown() {
    for (said, shown) in [
        (r#","result":"no money""#, "no money"),
        (r#","errors":["max turns"]"#, "max turns"),
        ("", "error_max_turns"),
    ] {
        let line =
            format!(r#"{{"type":"result","subtype":"error_max_turns","is_error":true{said}}}"#);
        let acts = acts(&line).unwrap();
        assert!(
            matches!(&acts[..], [AgentAct::Gets(answer)] if answer.failed && answer.text == shown),
            "{acts:?}"
        );
    }
}
