//! Real agents against a vendor on loopback.

use super::*;

/// Answers questions, and makes the file for whoever is to work.
fn both(file: &Path) -> impl Fn(&Heard) -> Say + Send + Sync + 'static {
    let file = file.to_owned();
    move |heard| {
        let asked = heard.turns.iter().rev().find_map(|turn| match turn {
            Turn::Person(text) => question(text),
            _ => None,
        });
        match asked {
            Some(kind) => Say::Text(answer(kind).to_string()),
            None => heard.make_once(&file, "hello"),
        }
    }
}

fn asks(agent: &str) {
    let mut scene = Scene::new(&format!("llm.provider = 'agent'\nllm.agent = '{agent}'"));
    let vendor = Vendor::start(both(&scene.made()));
    if !scene.install(agent, &vendor) {
        return;
    }
    let ran = scene.run(&["plan", "Make a greeting"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("Write the greeting"), "{ran:?}");
    let heard = vendor.heard();
    assert!(heard.iter().any(|heard| heard.was_told("Make a greeting")));
}

#[test]
fn claude_that_is_refused_its_key_is_not_asked_again() {
    let mut scene = Scene::new("llm.provider = 'agent'\nllm.agent = 'claude'");
    let vendor = Vendor::start(|_| Say::Fault(401));
    if !scene.install("claude", &vendor) {
        return;
    }
    let ran = scene.run(&["plan", "Make a greeting"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("refuses the key (status 401)"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("sk-canary"), "{ran:?}");
}

#[test]
fn claude_plans() {
    asks("claude");
}

#[test]
fn codex_plans() {
    asks("codex");
}

#[test]
fn gemini_plans() {
    asks("gemini");
}

#[test]
fn opencode_plans() {
    asks("opencode");
}
