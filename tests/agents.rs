//! Coding agents from outside: the real program with real agents, against fake vendors on loopback. Agents that are not
//! installed are skipped; a script in their place shows what must hold without them.

mod asking;
mod evening;
mod found;
mod real;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::agent::Exchange;
use crate::common::env::{Ran, TestEnv, has, lacks, row, skip};
use crate::common::llm::question;
use crate::common::vendor::{Heard, Say, Turn, Vendor};

/// A folder in which coding agents work, with a home of their own.
struct Scene {
    env: TestEnv,
}

/// A report from the archive.
#[derive(Debug)]
struct Filed {
    text: String,
}

impl Filed {
    /// Returns a field of the front matter.
    fn field(&self, name: &str) -> Option<&str> {
        self.text
            .lines()
            .skip(1)
            .take_while(|line| *line != "---")
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Deref for Scene {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut TestEnv {
        &mut self.env
    }
}

impl Scene {
    fn new(config: &str) -> Self {
        let mut env = TestEnv::new();
        let home = env.path("home");
        std::fs::create_dir(&home).unwrap();
        env.set("HOME", &home.to_string_lossy());
        env.write("config.toml", config);
        Self { env }
    }

    /// Makes a real agent visible that uses this vendor; returns false, and prints the reason, if it is not installed.
    fn install(&mut self, agent: &str, vendor: &Vendor) -> bool {
        let path = std::env::var_os("PATH").unwrap();
        let mut folders = std::env::split_paths(&path);
        let Some(program) = folders.find(|folder| folder.join(agent).is_file()) else {
            skip(&format!("`{agent}` is not installed"));
            return false;
        };
        self.env.be_patient();
        self.env.show(agent, &program.join(agent));
        let url = vendor.url();
        match agent {
            "claude" => {
                self.env.set("ANTHROPIC_BASE_URL", &url);
                self.env.set("ANTHROPIC_API_KEY", "sk-canary");
            }
            "codex" => {
                self.env.set("OPENAI_API_KEY", "sk-canary");
                self.env.write(
                    "home/.codex/config.toml",
                    &format!(
                        "model = 'scripted'\nmodel_provider = 'scripted'\ncheck_for_update_on_startup = false\n\
                         [analytics]\nenabled = false\n\
                         [model_providers.scripted]\nname = 'scripted'\nbase_url = '{url}/v1'\nenv_key = 'OPENAI_API_KEY'\n\
                         wire_api = 'responses'\nrequest_max_retries = 0\nstream_max_retries = 0\n"
                    ),
                );
            }
            "gemini" => {
                self.env.set("GEMINI_API_KEY", "sk-canary");
                self.env.set("GEMINI_MODEL", "gemini-2.5-pro");
                self.env.set("GOOGLE_GEMINI_BASE_URL", &url);
                self.env.write(
                    "home/.gemini/settings.json",
                    r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": false},
                        "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}}"#,
                );
            }
            "opencode" => {
                let settings = json!({
                    "model": "scripted/m", "small_model": "scripted/m",
                    "provider": {"scripted": {
                        "npm": "@ai-sdk/openai-compatible", "name": "scripted",
                        "options": {"baseURL": format!("{url}/v1"), "apiKey": "sk-canary"},
                        "models": {"m": {"name": "m", "tool_call": true}},
                    }},
                });
                self.env
                    .write("home/.config/opencode/opencode.json", &settings.to_string());
            }
            "aider" => {
                self.env.set("OPENAI_API_KEY", "sk-canary");
                self.env.set("OPENAI_API_BASE", &format!("{url}/v1"));
                self.env.set("AIDER_MODEL", "openai/scripted");
            }
            unknown => panic!("nobody knows how to install `{unknown}`"),
        }
        true
    }

    fn status(&self) -> Value {
        let ran = self.exits(0, "status --json");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// Returns the applied reports, in the order of their commands.
    fn reports(&self) -> Vec<Filed> {
        let exchange = Exchange::at(self.env.path("volumes"));
        let texts = exchange.texts("reports/processed", ".md");
        texts.into_iter().map(|text| Filed { text }).collect()
    }

    fn made(&self) -> PathBuf {
        self.env.path("volumes/workspace/hello.txt")
    }
}

/// Returns a planner's answer when all goes well and the plan is one task.
fn answer(kind: &str) -> Value {
    match kind {
        "plan" => json!({"name": "A greeting", "description": "One file.", "tasks": [{
            "reasoning": "", "name": "Write the greeting", "description": "Make `hello.txt`.", "constraints": "",
            "expected_output": "`hello.txt` is there.", "depends_on": [],
        }]}),
        "judge" => json!({
            "criteria": [{"number": 1, "pointer": "F1", "met": "yes"}], "reason": "It is there.", "can_mend": "",
            "decision": "next", "confidence": "high", "feedback": "",
            "result_summary": "`hello.txt` is written.",
        }),
        "audit" => json!({
            "parts": [{"part": "the greeting", "by": ["1.1"]}], "reason": "hello.txt is there", "met": true, "missing": [],
        }),
        "summarise" => json!({"summary": "The greeting is written, says the agent."}),
        other => panic!("nobody expects the question `{other}`"),
    }
}
