use std::time::Duration;

use super::*;

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

fn load(text: &str) -> Result<Config, ConfigError> {
    let (_folder, file) = written(text);
    Config::load(Some(&file), &Environment::default())
}

fn hint(error: &ConfigError) -> &str {
    error.0[0].hint.as_deref().unwrap()
}

#[test]
fn relative_paths_start_at_config_folder() {
    let (folder, file) = written("[volumes]\nroot = 'v'\n[prompts]\ndir = '/p'");
    let config = Config::load(Some(&file), &Environment::default()).unwrap();
    assert_eq!(config.file(), Some(file.as_path()));
    assert_eq!(config.root(), folder.path().join("v"));
    assert_eq!(config.workspace(), folder.path().join("v/workspace"));
    assert_eq!(config.prompts_dir(), Path::new("/p"));
}

#[test]
fn named_config_file_must_exist() {
    let error = Config::load(Some(Path::new("/no/such.toml")), &Environment::default());
    let error = error.unwrap_err();
    assert!(error.to_string().contains("`/no/such.toml`"), "{error}");
    assert!(hint(&error).contains(" init` "));
}

#[test]
fn requested_check_must_be_defined() {
    let defined = "[checks]\ntests = { run = ['true'] }\n[run]\nchecks = ";
    assert_eq!(
        load(&format!("{defined}['tests']")).unwrap().checks["tests"].timeout,
        Duration::from_secs(300)
    );
    let error = load(&format!("{defined}['test']")).unwrap_err();
    let place = "my.toml:4:10: `run.checks` names `test`, which [checks] does not define";
    assert!(error.to_string().ends_with(place), "{error}");
    insta::assert_snapshot!(hint(&error), @"did you mean `tests`?");
    insta::assert_snapshot!(hint(&load("run.checks = ['x']").unwrap_err()), @r#"define it: [checks] x = { run = ["…"] }"#);
}

#[test]
fn policy_follows_config() {
    let config = load("[run]\nmax_attempts = 7\ntask_deadline = '3h'\nsession = 'plan'").unwrap();
    let rules = config
        .planner(&Environment::default(), &Candidates::default())
        .unwrap();
    assert_eq!(
        config.policy(&rules),
        PlanPolicy {
            max_attempts: 7,
            task_deadline: Duration::from_secs(3 * 3600),
            session: SessionScope::Plan,
            budget: plan::Budget {
                attempts_per_task: 5,
                ..plan::Budget::default()
            },
            ..PlanPolicy::default()
        }
    );
}

#[test]
fn environment_debug_shows_only_names() {
    let environment = Environment::from_iter([("MY_KEY".to_owned(), "canary".to_owned())]);
    assert_eq!(format!("{environment:?}"), r#"{"MY_KEY"}"#);
}
