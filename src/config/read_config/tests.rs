use super::*;
use crate::config::TEMPLATE;

fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let found = super::parse(text);
    ConfigError::refuse(found.problems, Some(path)).map(|()| found.config)
}

fn problem(text: &str) -> String {
    let shown = |problem: &Problem| match &problem.hint {
        Some(hint) => format!("{problem}\nHint: {hint}"),
        None => problem.to_string(),
    };
    let ConfigError(all) = parse(text, Path::new("config.toml")).unwrap_err();
    all.iter().map(shown).collect::<Vec<_>>().join("\n")
}

#[test]
fn all_errors_are_reported_in_order_of_file() {
    insta::assert_snapshot!(problem("
[llm]
provider = 'gemin'
[run]
max_atempts = 2
task_timeout = 3
max_replans = -1
audit =
[checks]
t = { run = [], timeout = 'x', zzz = 1 }
u = { timeout = '1m' }
[hook]
"), @r#"
    config.toml:3:12: `llm.provider`: unknown variant `gemin`, expected one of `auto`, `anthropic`, `openai`, `agent`, `none`
    config.toml:5:1: unknown key `run.max_atempts`
    Hint: did you mean `run.max_attempts`?
    config.toml:6:16: `run.task_timeout`: invalid type: integer `3`, expected a string
    config.toml:7:15: `run.max_replans`: invalid value: integer `-1`, expected a whole number from 0 to 4294967295
    config.toml:8:8: string values must be quoted, expected literal string
    config.toml:10:13: `checks.t.run`: must name a program
    config.toml:10:27: `checks.t.timeout`: `x` is no duration, which is written "90s", "10m" or "1h 30m"
    config.toml:10:32: unknown key `checks.t.zzz`
    config.toml:11:5: `checks.u`: missing field `run`
    config.toml:12:2: unknown key `hook`
    Hint: did you mean `hooks`?
    "#);
    insta::assert_snapshot!(problem("[run
max_attempts = 0
[run]
max_replans = -1
"), @"config.toml:1:5: unclosed table, expected `]`");
    insta::assert_snapshot!(problem("[run]
checks = ['a
max_attempts = 0
[checks]
a = ]
"), @"config.toml:2:13: invalid literal string, expected `'`");
    let many: String = (0..100_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(problem(&many).lines().count(), 30);
}

#[test]
fn template_matches_defaults() {
    assert_eq!(
        parse(TEMPLATE, Path::new("config.toml")).unwrap(),
        Config::default()
    );
}

#[test]
fn template_has_every_key() {
    // With its optional keys taken in, the file must still be read, and set every key there is.
    let all = TEMPLATE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") && !rest.contains("provider = ") => rest,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n");
    parse(&all, Path::new("config.toml")).unwrap();
    let table = all.parse::<toml::Table>().unwrap();
    let mut set = BTreeMap::new();
    collect_leaves(
        serde_json::to_value(table).unwrap(),
        String::new(),
        &mut set,
    );
    for key in known_keys() {
        let within = format!("{key}.");
        let is_set = set
            .keys()
            .any(|set| *set == key || set.starts_with(&within));
        assert!(is_set, "`{key}` is not in config.toml");
    }
}

#[test]
fn unknown_key_has_position_and_suggestion() {
    insta::assert_snapshot!(problem("[run]\nmax_atempts = 2"), @r"
    config.toml:2:1: unknown key `run.max_atempts`
    Hint: did you mean `run.max_attempts`?
    ");
    insta::assert_snapshot!(problem("task_timeout = \"1m\""), @r"
    config.toml:1:1: unknown key `task_timeout`
    Hint: did you mean `run.task_timeout`?
    ");
    insta::assert_snapshot!(problem("[volume]\nroot = \"v\""), @r"
    config.toml:1:2: unknown key `volume`
    Hint: did you mean `volumes`?
    ");
    insta::assert_snapshot!(problem("[checks]\nt = { rum = [\"x\"] }"), @r"
    config.toml:2:7: unknown key `checks.t.rum`
    Hint: did you mean `run`?
    ");
    insta::assert_snapshot!(problem("[llm.plan]\nzzz = 1"), @"config.toml:2:1: unknown key `llm.plan.zzz`");
}

#[test]
fn invalid_value_has_position() {
    insta::assert_snapshot!(problem("[run]\n\nmax_attempts = 0"), @"config.toml:3:16: `run.max_attempts`: must be 1 or more");
    insta::assert_snapshot!(problem("[run]\nmax_replans = -1"), @"config.toml:2:15: `run.max_replans`: invalid value: integer `-1`, expected a whole number from 0 to 4294967295");
    insta::assert_snapshot!(problem("[run]\ntask_timeout = \"soon\""), @r#"config.toml:2:16: `run.task_timeout`: `soon` is no duration, which is written "90s", "10m" or "1h 30m""#);
    insta::assert_snapshot!(problem("[run]\ntask_timeout = \"-5m\""), @r#"config.toml:2:16: `run.task_timeout`: must be longer than 0s"#);
    insta::assert_snapshot!(problem("[run]\ntask_timeout = 600"), @"config.toml:2:16: `run.task_timeout`: invalid type: integer `600`, expected a string");
    insta::assert_snapshot!(problem("[run]\nsession = \"tsk\""), @"config.toml:2:11: `run.session`: unknown variant `tsk`, expected `task` or `plan`");
    insta::assert_snapshot!(problem("run = 3"), @"config.toml:1:7: `run`: invalid type: integer `3`, expected a section");
    insta::assert_snapshot!(problem("[llm]\nbase_url = \"http://models.example/v1\""), @"config.toml:2:12: `llm.base_url`: http would send the key unencrypted and is for this machine only; use https");
    insta::assert_snapshot!(problem("[llm]\nbase_url = \"https://me:secret@models.example\""), @"config.toml:2:12: `llm.base_url`: an address must not hold a key, which belongs into the environment");
    insta::assert_snapshot!(problem("[llm]\nbase_url = \"ftp://models.example\""), @"config.toml:2:12: `llm.base_url`: must begin with https://");
    insta::assert_snapshot!(problem("[llm]\nbase_url = \"models\""), @"config.toml:2:12: `llm.base_url`: relative URL without a base");
    insta::assert_snapshot!(problem("[llm]\napi_key_env = \"sk-secret\""), @"config.toml:2:15: `llm.api_key_env`: must be the name of an environment variable, not the key itself");
    insta::assert_snapshot!(problem("[llm]\napi_key = \"sk-secret\""), @r"
    config.toml:2:1: unknown key `llm.api_key`
    Hint: did you mean `llm.api_key_env`?
    ");
    insta::assert_snapshot!(problem("[checks]\nt = { run = [] }"), @"config.toml:2:13: `checks.t.run`: must name a program");
    insta::assert_snapshot!(problem("[checks.t]\ntimeout = \"1m\""), @"config.toml:1:1: `checks.t`: missing field `run`");
    insta::assert_snapshot!(problem("[hooks]\non_finish = []"), @"config.toml:2:13: `hooks.on_finish`: must name a program");
    insta::assert_snapshot!(problem("[hooks]\non_finish = \"mail me\""), @r#"config.toml:2:13: `hooks.on_finish`: invalid type: string "mail me", expected a list of words such as ["cargo", "test"]"#);
    insta::assert_snapshot!(problem("[hooks]\nenv = [\"A=b\"]"), @"config.toml:2:7: `hooks.env`: must be names of environment variables, without their values");
    insta::assert_snapshot!(problem("[checks]\nt = [\"cargo\", \"test\"]"), @r#"config.toml:2:5: `checks.t`: invalid type: sequence, expected a table such as { run = ["cargo", "test"] }"#);
    insta::assert_snapshot!(problem("[budget]\nllm_calls = 0"), @r#"config.toml:2:13: `budget.llm_calls`: 0 is no limit, which is a whole number from 1, or "none" for no limit"#);
    insta::assert_snapshot!(problem("[budget]\ncost_usd = nan"), @r#"config.toml:2:12: `budget.cost_usd`: nan is no limit, which is a number above 0, or "none" for no limit"#);
    insta::assert_snapshot!(problem("[budget]\nwall_time = \"soon\""), @r#"config.toml:2:13: `budget.wall_time`: "soon" is no limit, which is a duration such as "90s", "10m" or "1h 30m", or "none" for no limit"#);
    insta::assert_snapshot!(problem("[budget]\nattempts = \"many\""), @r#"config.toml:2:12: `budget.attempts`: "many" is no limit, which is a whole number from 1, or "none" for no limit"#);
    insta::assert_snapshot!(problem("[budget]\nllm_tokens = -5"), @r#"config.toml:2:14: `budget.llm_tokens`: -5 is no limit, which is a whole number from 1, or "none" for no limit"#);
    insta::assert_snapshot!(problem("[budget]\nattempts = 1.5"), @r#"config.toml:2:12: `budget.attempts`: 1.5 is no limit, which is a whole number from 1, or "none" for no limit"#);
    insta::assert_snapshot!(problem("[budget]\nwall_time = true"), @r#"config.toml:2:13: `budget.wall_time`: true is no limit, which is a duration such as "90s", "10m" or "1h 30m", or "none" for no limit"#);
    insta::assert_snapshot!(problem("[run\nsession = 1"), @"config.toml:1:5: unclosed table, expected `]`");
    insta::assert_snapshot!(problem("[run]\naudit = true\naudit = false"), @"config.toml:3:1: `audit` is there twice");
}

#[test]
fn judge_is_word_or_section() {
    let judge = |text: &str| parse(text, Path::new("c")).unwrap().llm.judge;
    let model = Some("m".to_owned());
    for (text, when, model) in [
        ("llm.judge = 'on_doubt'", JudgePolicy::OnDoubt, None),
        (
            "[llm.judge]\nmodel = 'm'",
            JudgePolicy::Always,
            model.clone(),
        ),
        (
            "llm.judge = { when = 'on_doubt', model = 'm' }",
            JudgePolicy::OnDoubt,
            model,
        ),
    ] {
        assert_eq!(judge(text), JudgeConfig { when, model }, "{text}");
    }
    insta::assert_snapshot!(problem("[llm]\njudge = 'sometimes'"), @"config.toml:2:9: `llm.judge`: unknown variant `sometimes`, expected `always` or `on_doubt`");
    insta::assert_snapshot!(problem("[llm]\njudge = 3"), @r#"config.toml:2:9: `llm.judge`: invalid type: integer `3`, expected "always", "on_doubt" or a section"#);
    let llm = overridden("PLAN_AGENT_LLM_JUDGE_WHEN", "on_doubt")
        .unwrap()
        .llm;
    assert_eq!(llm.judge.when, JudgePolicy::OnDoubt);
    insta::assert_snapshot!(problem("[checks]\nt = { run = ['x'], env = ['sk-secret'] }"), @"config.toml:2:26: `checks.t.env`: must be names of environment variables, without their values");
}

#[test]
fn config_allows_plain_http_only_locally() {
    for url in [
        "http://127.0.0.1:8080/v1",
        "http://localhost/v1/",
        "http://[::1]:1/v1",
    ] {
        let config = parse(&format!("[llm]\nbase_url = \"{url}\""), Path::new("c")).unwrap();
        assert_eq!(
            config.llm.base_url.as_deref(),
            Some(url.trim_end_matches('/'))
        );
    }
    for url in [
        "http://127.0.0.1.example/",
        "http://localhost.example",
        "http://0.0.0.0",
    ] {
        assert!(parse(&format!("[llm]\nbase_url = \"{url}\""), Path::new("c")).is_err());
    }
}

#[test]
fn reads_human_durations() {
    for (text, seconds) in [
        ("90s", 90),
        ("10m", 600),
        ("1h 30m", 5400),
        ("2 hours", 7200),
    ] {
        let config = parse(&format!("[run]\ntask_timeout = \"{text}\""), Path::new("c"));
        assert_eq!(
            config.unwrap().run.task_timeout,
            Duration::from_secs(seconds)
        );
    }
}

#[test]
fn hostile_config_is_an_error() {
    for text in [
        "\0",
        "\u{feff}[run",
        "a.b.c.d = {}",
        "[[run]]",
        "'",
        "= 3",
        "[checks.\"\"]",
    ] {
        assert!(parse(text, Path::new("c")).is_err(), "{text:?}");
    }
}

fn overridden(name: &str, value: &str) -> Result<Config, String> {
    let environment = Environment::from_iter([(name.to_owned(), value.to_owned())]);
    let mut found = FileContent::default();
    override_by(&mut found, &environment);
    let refused = ConfigError::refuse(found.problems, None);
    (refused.map(|()| found.config)).map_err(|error| error.to_string())
}

#[test]
fn environment_overrides_every_kind_of_key() {
    let config = |name, value| overridden(name, value).unwrap();
    assert_eq!(
        config("PLAN_AGENT_RUN_MAX_ATTEMPTS", "5").run.max_attempts,
        5
    );
    assert!(!config("PLAN_AGENT_RUN_AUDIT", "false").run.audit);
    assert_eq!(config("PLAN_AGENT_RUN_CHECKS", "['a']").run.checks, ["a"]);
    for (value, limit) in [("7", Some(7.0)), ("0.5", Some(0.5)), ("none", None)] {
        let budget = config("PLAN_AGENT_BUDGET_COST_USD", value).budget;
        assert_eq!(budget.cost_usd.0, limit);
    }
    let llm = config("PLAN_AGENT_LLM_PLAN_MODEL", "7").llm;
    assert_eq!(llm.plan.model.as_deref(), Some("7"));
    let run = config("PLAN_AGENT_RUN_TASK_TIMEOUT", "20m").run;
    assert_eq!(run.task_timeout, Duration::from_secs(1200));
    assert_eq!(config("PLAN_AGENT_RUN_LANGUAGE", ""), Config::default());
}

#[test]
fn environment_error_names_variable() {
    let problem = |name, value| overridden(name, value).unwrap_err();
    insta::assert_snapshot!(problem("PLAN_AGENT_RUN_MAX_ATTEMPTS", "0"), @"environment variable `PLAN_AGENT_RUN_MAX_ATTEMPTS`: must be 1 or more");
    insta::assert_snapshot!(problem("PLAN_AGENT_RUN_MAX_ATTEMPTS", "many"), @r#"environment variable `PLAN_AGENT_RUN_MAX_ATTEMPTS`: invalid type: string "many", expected a whole number from 0 to 4294967295"#);
    insta::assert_snapshot!(problem("PLAN_AGENT_RUN_TASK_TIMEOUT", "3"), @r#"environment variable `PLAN_AGENT_RUN_TASK_TIMEOUT`: `3` is no duration, which is written "90s", "10m" or "1h 30m""#);
    insta::assert_snapshot!(problem("PLAN_AGENT_RUN_MAX_ATEMPTS", "2"), @"environment variable `PLAN_AGENT_RUN_MAX_ATEMPTS`: there is no key of that name");
    for name in ["PLAN_AGENT_BUGDET_COST_USD", "PLAN_AGENT_TASK_TIMEOUT"] {
        let problem = problem(name, "2");
        assert!(
            problem.contains(&format!("`{name}`: there is no key")),
            "{problem}"
        );
    }
    // Of somebody else, or not set.
    for (name, value) in [("PLAN_AGENT_OF_MINE", "2"), ("PLAN_AGENT_RUN_NO_KEY", "")] {
        assert_eq!(overridden(name, value).unwrap(), Config::default());
    }
    insta::assert_snapshot!(problem("PLAN_AGENT_LLM_PROVIDER", "antropic"), @"environment variable `PLAN_AGENT_LLM_PROVIDER`: unknown variant `antropic`, expected one of `auto`, `anthropic`, `openai`, `agent`, `none`");
}
