//! What `doctor` reports about the coding agents.

use super::*;

fn told(scene: &Scene) -> String {
    let doctor = scene.exits(0, "doctor");
    let about = [
        "model", "claude", "codex", "gemini", "opencode", "aider", "agents",
    ];
    let mut shown = false;
    let lines = doctor.stdout.lines().filter(|line| {
        let name = line.split_whitespace().nth(1).unwrap_or_default();
        shown = about.contains(&name) || (shown && line.starts_with("    "));
        shown
    });
    let text: Vec<&str> = lines.collect();
    let text = scene.normal(&text.join("\n"));
    // The programs lie in a folder of their own.
    text.lines()
        .map(|line| match (line.find(" /"), line.find("/shown/")) {
            (Some(from), Some(to)) if from < to => {
                format!("{} [BIN]{}", &line[..from], &line[to + 6..])
            }
            _ => line.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn doctor_lists_usable_agents_and_missing_parts() {
    let mut scene = Scene::new("");
    insta::assert_snapshot!(told(&scene), @r"
    --  model      none (neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set, no coding agent is ready): plans come from plan files, rules judge
                   Hint: to have a goal planned, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or log in with a coding agent
    --  agents     not installed: claude, codex, gemini, opencode, aider
    ");
    scene.show_script("claude", "echo '2.1.330 (Claude Code)'");
    scene.show_script("codex", "echo 'codex-cli 0.2.0'");
    scene.show_script("gemini", "echo 'cannot find module x' >&2; exit 1");
    scene.show_script("opencode", "echo 1.18.33");
    scene.show_script("aider", "echo aider 0.86.2");
    insta::assert_snapshot!(told(&scene), @r"
    --  model      none (neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set, no coding agent is ready): plans come from plan files, rules judge
                   Hint: to have a goal planned, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or log in with a coding agent
    --  claude     2.1.330 at [BIN]/claude; no login seen: ANTHROPIC_API_KEY is not set, [FOLDER]/home/.claude/.credentials.json is not there
                   Hint: run `claude` once and log in, or set its key
    --  codex      [BIN]/codex is 0.2.0: 0.44.0 or newer is needed
                   Hint: `npm install -g @openai/codex`
    --  gemini     [BIN]/gemini tells no version: cannot find module x
                   Hint: does it run by hand? `npm install -g @google/gemini-cli` installs it anew
    ok  opencode   1.18.33 at [BIN]/opencode
    ok  aider      0.86.2 at [BIN]/aider
    ");
    scene.write("home/.claude/.credentials.json", "{}");
    insta::assert_snapshot!(told(&scene).lines().take(2).collect::<Vec<_>>().join("\n"), @r"
    ok  model      the coding agent claude is asked (neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set)
    ok  claude     2.1.330 at [BIN]/claude; [FOLDER]/home/.claude/.credentials.json is there
    ");
}

#[test]
fn doctor_reads_key_name_from_codex_config() {
    let mut scene = Scene::new("[worker]\nenv = [\"MY_KEY\"]\n");
    scene.show_script("codex", "echo 'codex-cli 0.169.0'");
    let config = "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"http://127.0.0.1:1/v1\"\nenv_key = \"MY_KEY\"\n";
    scene.write("home/.codex/config.toml", config);
    // A login does not help if the configuration chooses another provider.
    scene.write("home/.codex/auth.json", "{}");
    let codex = |scene: &Scene| {
        let told = told(scene);
        let mut lines = told.lines().skip_while(|line| !line.contains(" codex  "));
        let first = lines.next().unwrap().to_owned();
        let hint = lines.take_while(|line| line.starts_with("    "));
        hint.fold(first, |text, line| text + "\n" + line)
    };
    insta::assert_snapshot!(codex(&scene), @r"
    --  codex      0.169.0 at [BIN]/codex; no login seen: its provider `mine` of [FOLDER]/home/.codex/config.toml has its key in MY_KEY, which is not set or not named in [worker] env
                   Hint: run `codex` once and log in, or set its key
    ");
    scene.set("MY_KEY", "sk-canary");
    insta::assert_snapshot!(codex(&scene), @"ok  codex      0.169.0 at [BIN]/codex; its provider is `mine` of [FOLDER]/home/.codex/config.toml, and MY_KEY is set");
    // A variable that is not passed on does not count.
    scene.write("config.toml", "");
    insta::assert_snapshot!(codex(&scene), @r"
    --  codex      0.169.0 at [BIN]/codex; no login seen: its provider `mine` of [FOLDER]/home/.codex/config.toml has its key in MY_KEY, which is not set or not named in [worker] env
                   Hint: run `codex` once and log in, or set its key
    ");
    scene.write("home/.codex/config.toml", &config.replace("env_key", "key"));
    insta::assert_snapshot!(codex(&scene), @"ok  codex      0.169.0 at [BIN]/codex; its provider is `mine` of [FOLDER]/home/.codex/config.toml");
}

#[test]
fn doctor_finds_installed_agents() {
    for agent in crate::common::env::AGENTS {
        let mut scene = Scene::new("");
        let vendor = Vendor::making(&scene.made(), "");
        if !scene.install(agent, &vendor) {
            continue;
        }
        let doctor = scene.exits(0, "doctor --json");
        let findings: Value = serde_json::from_str(&doctor.stdout).unwrap();
        let finding = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["about"] == agent)
            .unwrap_or_else(|| panic!("{agent}: {findings}"));
        assert_eq!(finding["state"], "good", "{finding}");
        doctor.lacks_stdout("sk-canary");
    }
}
