//! The command line from outside: help, exit codes, bad input, and every command that works on plans without a daemon.

mod home;
mod plans;
mod programs;
mod service;

use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use plan_agent::plan::{
    CommandId, Draft, HumanQuestionKind, PlanHead, PlanId, PlanPolicy, QuestionId, Report,
    ReportStatus, TaskId, TaskRef, TaskSpec,
};
use plan_agent::plan_time::Clock;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::core::{block_on, new_command, new_report, new_task, open_store};
use crate::common::env::{TestEnv, first_line, has, lacks};

#[test]
fn help_is_short_and_lists_exit_codes() {
    let env = TestEnv::new();
    let help = env.run("--help");
    assert_eq!(help.code, Some(0));
    insta::assert_snapshot!(help.stdout, @r#"
    Plan a goal, hand its tasks to coding agents as files, judge every result

    Usage: plan-agent [OPTIONS] <COMMAND>

    Commands:
      init         Write config.toml, prompts/ and volumes/; in a git project into .plan-agent/
      run          Plan a goal and carry the plan out
      plan         Only plan: show the plan and keep it for `resume`
      resume       Go on with an unfinished plan
      plans        List the plans [alias: ls]
      status       Show how far a plan is
      show         Show a plan
      why          Say why a task is as it is, and what it waits for
      diff         Show what a task changed
      merge        Take the results of a plan over into the branch that is checked out
      discard      Put the results of a plan aside
      prune        Remove worktrees whose work is committed, and merged branches
      log          Show what happened to a plan
      logs         Print what the agent of a task said and did
      outcomes     Count what came of the tasks of all plans
      questions    List what you are asked, over all plans
      workers      List who is at work on which machine, and the relays
      answer       Answer a question
      tell         Say something to the agent of a task
      retry        Have a task tried again
      skip         Leave a task out; what waits for it goes on without it
      done         Say that a task is done
      add          Add a task to a plan
      edit         Edit a plan or a task in your editor
      pause        Start nothing new in a plan; what is under way goes on
      stop         End the daemon; `resume` goes on
      abort        End a plan for good [alias: cancel]
      restore      Make a plan what it was after an earlier change
      worker       Take commands, run an agent for each, write the reports
      relay        Take commands of daemons on other machines, and hand the work back
      daemon       Carry out the plans that are queued in this folder, until it is stopped
      tools        List the tools through which agents read and change plans
      tool         Call a tool
      mcp          Serve the tools to an agent by the Model Context Protocol
      web          Show the plans as a page in your browser, and steer them there
      doctor       Check the configuration, the folders, the model and the programs that are needed
      store        Look after the database that keeps the plans
      service      Start the daemon of this folder at login: a unit of your systemd
      trust        Show what the configuration runs and allows, and confirm it
      clean        Say what is plan-agent's here, and remove it on yes
      completions  Print the completions of a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -C <DIR>             Begin in this folder instead of the current one
          --config <FILE>  Read this configuration instead of the project's
      -h, --help           Print help
      -V, --version        Print version

    Examples:
      plan-agent run --plan examples/quickstart.md --agent shell
      plan-agent run "Add a health endpoint" --agent claude
      plan-agent status --watch
      plan-agent answer retry --note "the port is 8081"

    Exit codes:
      0  done                    4  waits for a human
      1  failed                  5  another daemon holds the folder
      2  wrong usage             6  paused by a budget
      3  plan aborted          130  interrupted    143  terminated
    "#);
    insta::assert_snapshot!(env.run("run --help").stdout, @r#"
    Plan a goal and carry the plan out

    Usage: plan-agent run [OPTIONS] [GOAL] [-- <PROGRAM>...]

    Arguments:
      [GOAL]  What is to be reached, in your words

    Options:
          --plan <FILE>        Carry out this plan file instead of asking a model for a plan
          --name <NAME>        What to call the plan
          --workspace <DIR>    The folder that agents work in
          --review             Show the plan and ask before anything starts
          --queue              Leave the plan to the daemon of this folder, and return
          --after <PLAN>       Begin when this plan has ended
          --priority <NUMBER>  Begin before queued plans of a lower number
          --detach             Leave a daemon behind and return
          --web                Serve the page meanwhile, as `web` does
          --no-input           Never ask here; exit with 4 once nothing else can go on
          --quiet              Print only questions, failures, and the last lines
          --json               Print one JSON event a line
      -C <DIR>                 Begin in this folder instead of the current one
          --config <FILE>      Read this configuration instead of the project's
      -h, --help               Print help

    Team:
          --team <FILE>          The team whose roles tasks are given to [default: `team` under [run] in
                                 config.toml]
          --workflow <WORKFLOW>  Make the plan from this workflow of the team, without asking a model;
                                 the goal may then be left out
          --param <NAME=VALUE>   A parameter of the workflow; once for each

    Agent:
          --agent <claude|codex|gemini|opencode|aider|command|relay|shell|files>
              Run this agent for every command: a coding agent by its name, `command` the program after
              `--`, `shell` the `sh` blocks of the task, `files` none
          --allow-shell
              Let `--agent shell` run tasks that a model wrote
      [PROGRAM]...
              The program of `--agent command`, with its arguments; {prompt_file}, {session},
              {workspace} and {report} are filled in. For a coding agent: more flags for it, such as `-m
              MODEL`

    Examples:
      plan-agent run --plan examples/quickstart.md --agent shell
      plan-agent run "Add a health endpoint" --review --agent claude
      plan-agent run "Translate the docs" --detach
      plan-agent run --team examples/team.yaml --workflow feature --param feature="a health endpoint"

    Without --agent, the commands wait for `plan-agent worker`, another program, or a person.
    "#);
    insta::assert_snapshot!(env.run("resume --help").stdout, @r"
    Go on with an unfinished plan

    Usage: plan-agent resume [OPTIONS] [PLAN] [-- <PROGRAM>...]

    Arguments:
      [PLAN]  The plan, by its key or the beginning of its id [default: the only unfinished one of a
              daemon, else its newest that has begun]

    Options:
          --here           Take over a plan of another folder without a daemon, or of a moved project
          --detach         Leave a daemon behind and return
          --web            Serve the page meanwhile, as `web` does
          --no-input       Never ask here; exit with 4 once nothing else can go on
          --quiet          Print only questions, failures, and the last lines
          --json           Print one JSON event a line
      -C <DIR>             Begin in this folder instead of the current one
          --config <FILE>  Read this configuration instead of the project's
      -h, --help           Print help

    Agent:
          --agent <claude|codex|gemini|opencode|aider|command|relay|shell|files>
              Run this agent for every command: a coding agent by its name, `command` the program after
              `--`, `shell` the `sh` blocks of the task, `files` none
          --allow-shell
              Let `--agent shell` run tasks that a model wrote
      [PROGRAM]...
              The program of `--agent command`, with its arguments; {prompt_file}, {session},
              {workspace} and {report} are filled in. For a coding agent: more flags for it, such as `-m
              MODEL`

    Team:
          --team <FILE>  The team whose roles tasks are given to [default: `team` under [run] in
                         config.toml]

    It goes on with the agent, the team, the model and the rights that it was begun with, and says so;
    flags name others.
    ");
    insta::assert_snapshot!(env.run("show --help").stdout, @r"
    Show a plan

    Usage: plan-agent show [OPTIONS] [PLAN]

    Arguments:
      [PLAN]  The plan, by its key or the beginning of its id [default: the only unfinished one of a
              daemon, else its newest that has begun]

    Options:
          --format <md|json|dot|mermaid>  As a plan file (md), as it is stored (json), or as a graph for
                                          Graphviz (dot) or Mermaid [default: md]
          --at <N>                        As it was after change N; `log` shows the numbers
      -C <DIR>                            Begin in this folder instead of the current one
          --config <FILE>                 Read this configuration instead of the project's
      -h, --help                          Print help
    ");
}

#[test]
fn version_prints_version() {
    let env = TestEnv::new();
    let version = env.run("--version");
    let expected = format!("plan-agent {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version.stdout, expected);
}

#[test]
fn wrong_usage_exits_2_with_suggestion() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.run("status --jsn").seen(&env), @r"
    error: unexpected argument '--jsn' found

      tip: a similar argument exists: '--json'

    Usage: plan-agent status --json [PLAN]

    For more information, try '--help'.
    exit 2
    ");
    insta::assert_snapshot!(env.run("statsu").seen(&env), @r"
    error: unrecognized subcommand 'statsu'

      tip: a similar subcommand exists: 'status'

    Usage: plan-agent [OPTIONS] <COMMAND>

    For more information, try '--help'.
    exit 2
    ");
    assert_eq!(env.run([]).code, Some(2));
}

#[test]
fn bad_configuration_is_one_error() {
    let env = TestEnv::new();
    env.write("config.toml", "[run]\nmax_atempts = 2\n");
    insta::assert_snapshot!(env.run("plans").seen(&env), @r"
    error: config.toml:2:1: unknown key `run.max_atempts`
    Hint: did you mean `run.max_attempts`?
    exit 2
    ");
    env.write("config.toml", "[run]\nmax_attempts = \n");
    insta::assert_snapshot!(env.run("plans").seen(&env), @r"
    error: config.toml:2:16: string values must be quoted, expected literal string
    exit 2
    ");
    insta::assert_snapshot!(env.run("plans --config no.toml").seen(&env), @r"
    error: cannot read the configuration `no.toml`: No such file or directory (os error 2)
    Hint: `plan-agent --config no.toml init` writes a commented one there
    exit 2
    ");
    assert!(!env.path("volumes").exists(), "nothing half-made");
}

#[test]
fn init_creates_files_and_overwrites_nothing() {
    let env = TestEnv::new();
    env.write("prompts/judge.md", "mine");
    insta::assert_snapshot!(env.run("init").seen(&env), @r"
    made  config.toml
    made  prompts/plan.md
    kept  prompts/judge.md
    made  prompts/replan.md
    made  prompts/audit.md
    made  prompts/summarise.md
    made  prompts/strategy.md
    made  prompts/steps.md
    made  prompts/ask.md
    made  prompts/command.md
    made  volumes
    made  volumes/README.md

    Next: `plan-agent doctor` looks whether everything is there.
    exit 0
    ");
    assert!(env.path("volumes/commands/pending").is_dir());
    assert_eq!(env.read("prompts/judge.md"), "mine");

    env.write("config.toml", "[volumes]\nroot = 'other'\n");
    insta::assert_snapshot!(env.run("init").seen(&env), @r"
    kept  config.toml
    kept  prompts/plan.md
    kept  prompts/judge.md
    kept  prompts/replan.md
    kept  prompts/audit.md
    kept  prompts/summarise.md
    kept  prompts/strategy.md
    kept  prompts/steps.md
    kept  prompts/ask.md
    kept  prompts/command.md
    made  other
    made  other/README.md

    Next: `plan-agent doctor` looks whether everything is there.
    exit 0
    ");
    assert!(env.path("other/commands/pending").is_dir());
}

#[test]
fn doctor_reports_setup_without_secrets() {
    let mut env = TestEnv::new();
    let doctor = env.run("doctor");
    assert_eq!(doctor.code, Some(0), "{}", doctor.stderr);
    insta::assert_snapshot!(without_programs(&doctor.stdout, &env), @r"
    --  config     no config.toml: every key has its default
                   Hint: `plan-agent init` writes a commented one
    ok  volumes    [FOLDER]/volumes is made when it is needed
    ok  workspace  [FOLDER]/volumes/workspace is made when it is needed
    ok  prompts    built in
    --  model      none (neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set, no coding agent is ready): plans come from plan files, rules judge
                   Hint: to have a goal planned, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or log in with a coding agent
    --  agents     not installed: claude, codex, gemini, opencode, aider
    ");
    env.set("OPENAI_API_KEY", "sk-canary");
    env.write(
        "config.toml",
        "[llm]\nprovider = 'openai'\njudge.model = 'small'\n",
    );
    let doctor = env.run("doctor");
    insta::assert_snapshot!(without_programs(&doctor.stdout, &env), @r#"
    ok  config     config.toml
    ok  volumes    [FOLDER]/volumes is made when it is needed
    ok  workspace  [FOLDER]/volumes/workspace is made when it is needed
    ok  prompts    built in
    ok  model      openai at https://api.openai.com/v1, the address of its vendor (provider = "openai"), model gpt-5, small, key OPENAI_API_KEY is set
    --  agents     not installed: claude, codex, gemini, opencode, aider
    "#);
    let json = env.run("doctor --json").stdout;
    lacks(&json, "sk-canary");
    assert!(
        serde_json::from_str::<serde_json::Value>(&json)
            .unwrap()
            .is_array()
    );
}

#[test]
fn doctor_exits_1_on_problems() {
    let env = TestEnv::new();
    env.write(
        "config.toml",
        "[llm]\nprovider = 'anthropic'\n[volumes]\nroot = 'file/v'\n",
    );
    env.write("file", "");
    env.write("prompts/judge.md", "\n{{ nowhere");
    let doctor = env.run("doctor");
    assert_eq!(doctor.code, Some(1));
    insta::assert_snapshot!(without_programs(&doctor.stdout, &env), @r#"
    ok  config     config.toml
    !!  volumes    [FOLDER]/file/v cannot be written to: Not a directory (os error 20)
                   Hint: make it writable, or name another folder in config.toml
    !!  workspace  [FOLDER]/file/v/workspace cannot be written to: Not a directory (os error 20)
                   Hint: make it writable, or name another folder in config.toml
    !!  prompts    [FOLDER]/prompts/judge.md:2: no line `---` between the system part and the prompt part
                   Hint: mend the file, or take it away to use the built-in prompt
    !!  model      config.toml:2:12: `llm.provider` is "anthropic", but the environment variable `ANTHROPIC_API_KEY` is not set
                   Hint: set `ANTHROPIC_API_KEY`, name another variable in `llm.api_key_env`, or do without a model: provider = "none"
    --  agents     not installed: claude, codex, gemini, opencode, aider
    "#);
}

/// Removes what depends on the machine.
fn without_programs(text: &str, env: &TestEnv) -> String {
    let program = |line: &&str| ["shell ", "git "].iter().any(|name| line.contains(name));
    let lines: Vec<&str> = text.lines().filter(|line| !program(line)).collect();
    env.normal(&lines.join("\n"))
}

#[test]
fn completions_cover_every_shell() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = env.run(["completions", shell]);
        assert_eq!(completions.code, Some(0));
        completions.has_stdout("plan-agent");
    }
}

#[test]
fn closed_pipe_ends_show_quietly() {
    let env = with_a_plan(&"words ".repeat(100_000));
    let mut child = env
        .command("show --format json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The output is far larger than a pipe, so that the writer meets the closed end.
    let line = first_line(child.stdout.take().unwrap());
    assert!(!line.is_empty());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn commands_without_plans_report_it_and_create_nothing() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.run("status").seen(&env), @r"
    error: there are no plans in `[FOLDER]/volumes`
    Hint: `plan-agent run` makes one; `--config FILE` looks elsewhere
    exit 1
    ");
    for args in ["log", "show", "why 1", "pause", "answer retry"] {
        assert_eq!(env.run(args).code, Some(1), "{args:?}");
    }
    assert_eq!(env.run("plans --json").stdout, "[]\n");
    insta::assert_snapshot!(env.run("plans").seen(&env), @r"
    no plans yet: `plan-agent run` makes one
    exit 0
    ");
    insta::assert_snapshot!(env.run("stop").seen(&env), @r"
    no daemon works in `[FOLDER]/volumes`
    exit 0
    ");
    assert!(!env.path("volumes").exists());
}

/// A folder with one plan: a completed task, a task that failed three times and needs a person's answer, and a task that waits
/// for both.
fn with_a_plan(goal: &str) -> TestEnv {
    let env = TestEnv::new();
    block_on(async {
        let store = open_store(&env).await;
        let made = store.create(head(goal), "tests", "made", |draft| {
            draft.created();
            draft.make_tasks(tasks())?;
            draft.start(PlanPolicy::default(), "/w")?;
            Ok(())
        });
        made.await.unwrap();
        let plan = PlanId::new("abcdefgh");
        let done = store.change(&plan, "tests", "first", |draft| {
            attempt(draft, 1, "task-1", ReportStatus::Success);
            Ok(())
        });
        done.await.unwrap();
        let asked = store.change(&plan, "tests", "second", |draft| {
            attempt(draft, 2, "task-2", ReportStatus::Failed);
            draft.name_questions(|_| QuestionId::new("question-77"));
            draft.ask(
                HumanQuestionKind::Failures,
                Some(TaskId(2)),
                "it failed\u{1b}[2J\u{202e}",
            )
        });
        asked.await.unwrap();
    });
    env
}

fn head(goal: &str) -> PlanHead {
    PlanHead {
        name: "Word\u{1b}]0;x\u{7} counter".into(),
        ..PlanHead::new(PlanId::new("abcdefgh"), goal, Clock::start().now())
    }
}

fn tasks() -> Vec<TaskSpec> {
    let task = |name: &str, after: &[usize]| TaskSpec {
        dependencies: after.iter().map(|index| TaskRef::New(*index)).collect(),
        ..new_task(name)
    };
    vec![
        task("Count", &[]),
        task("Serve", &[]),
        task("Describe", &[0, 1]),
    ]
}

fn attempt(draft: &mut Draft<'_>, task: u32, command: &str, status: ReportStatus) {
    let id = CommandId::new(command);
    let issue = new_command(command, "");
    draft.issue(TaskId(task), issue).unwrap();
    let report = Report {
        status,
        ..new_report(command, "see the file", draft.now())
    };
    draft.report(&id, report).unwrap();
    let verdict = plan_agent::plan::rule_decisions::judge(
        draft.plan().attempt(&id).unwrap(),
        &[],
        draft.now(),
    );
    draft.judge(&id, &verdict).unwrap();
}

#[test]
fn plan_is_shown_by_all_views() {
    let env = with_a_plan("Count words");
    insta::assert_snapshot!(env.run("plans").seen(&env), @r"
    abcdefgh  stopped          1 of 3    now  Word counter · asks you · ~ 1 accepted
    exit 0
    ");
    insta::assert_snapshot!(env.run("status").seen(&env), @r"
    abcdefgh  Word counter  stopped
    Goal: Count words
    1 of 3 tasks done · 1 asks you · 1 waiting
    Used: agents 2 of 200 attempts

       1  completed    Count · ~ accepted
       2  asks you     Serve
       3  waiting      Describe · after 2

    Question about task 2
      it failed
      Answer: plan-agent answer retry|skip|abort
        retry    try again, up to 3 attempts; the note goes along to the agent
        skip     leave the task out; what waits for it goes on without it
        abort    end the plan for good; agents at work stop, their work stays

    No daemon works here: `plan-agent resume abcdefgh` goes on where it was.
    exit 0
    ");
    insta::assert_snapshot!(env.run("show").seen(&env), @r"
    ---
    name: Word counter
    goal: Count words
    order: dependencies
    ---

    ## 1. Count

    - done: true

    ## 2. Serve

    ## 3. Describe

    - after: 1, 2
    exit 0
    ");
    insta::assert_snapshot!(env.run("why 3").seen(&env), @r"
    3 · Describe: waiting
      it waits for task 2 · Serve: asks you
    exit 0
    ");
    insta::assert_snapshot!(env.run("log abc").seen(&env), @r"
        1  [TIME]  goal: Count words  (tests: made)
        1  [TIME]  planned 3 tasks
        1  [TIME]  started
        2  [TIME]  task 1: dispatched  (tests: first)
        2  [TIME]  task 1: reported SUCCESS
        2  [TIME]  task 1: next: SUCCESS, no check is set
        2  [TIME]  task 1: ~ completed, accepted
        3  [TIME]  task 2: dispatched  (tests: second)
        3  [TIME]  task 2: reported FAILED
        3  [TIME]  task 2: not accepted: see the file; the agent reports FAILED
        3  [TIME]  ? asks you about task 2: it failed
    exit 0
    ");
    insta::assert_snapshot!(env.run("show --format mermaid --at 1").seen(&env), @r#"
    graph LR
      t1["1 · Count<br/>ready"]:::pending
      t2["2 · Serve<br/>ready"]:::pending
      t3["3 · Describe<br/>waiting"]:::pending
      t1 --> t3
      t2 --> t3
      classDef pending fill:#ffffff,stroke:#555,color:#000
      classDef in_progress fill:#fff3bf,stroke:#555,color:#000
      classDef completed fill:#d3f9d8,stroke:#555,color:#000
      classDef failed fill:#ffe3e3,stroke:#555,color:#000
      classDef skipped fill:#e9ecef,stroke:#555,color:#000
    exit 0
    "#);
}

#[test]
fn json_output_is_only_json() {
    let env = with_a_plan("Count words");
    for args in ["plans --json", "status --json", "show --format json"] {
        let ran = env.run(args);
        let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert!(!value.is_null() && ran.stderr.is_empty(), "{args:?}");
    }
    let log = env.run("log --json").stdout;
    let first: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["event"], "created");
    let expected = (Some(1), Some("abcdefgh"));
    assert_eq!((first["seq"].as_i64(), first["plan"].as_str()), expected);
}

#[test]
fn no_command_prints_terminal_controls() {
    let env = with_a_plan("Count words");
    for args in [
        &["plans"][..],
        &["plans", "--json"],
        &["status"],
        &["status", "--json"],
        &["show"],
        &["show", "--format", "json"],
        &["show", "--format", "dot"],
        &["show", "--format", "mermaid"],
        &["why", "2"],
        &["log"],
        &["log", "--json"],
        &["status", "no\u{1b}[2J"],
    ] {
        let ran = env.run(args);
        for c in (ran.stdout + &ran.stderr).chars() {
            let obeyed = (c.is_control() && !"\n\t".contains(c))
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c);
            assert!(!obeyed, "{args:?} printed {c:?}");
        }
    }
}

#[test]
fn question_is_answered_once() {
    let env = with_a_plan("Count words");
    insta::assert_snapshot!(env.run("answer approve").seen(&env), @r"
    error: `approve` is not offered; choose one of: retry, skip, abort
    exit 2
    ");
    insta::assert_snapshot!(env.run("answer retry --note 'port 8081'").seen(&env), @r"
    task 2: retry, up to 3 attempts before you are asked
    No daemon works on the plan: `plan-agent resume abcdefgh` goes on where it was
    exit 0
    ");
    insta::assert_snapshot!(env.run("answer question-77 skip").seen(&env), @r"
    error: question `question-77` is answered already: retry (by command line)
    exit 1
    ");
    insta::assert_snapshot!(env.run("answer skip").seen(&env), @r"
    error: no question is open
    exit 1
    ");
}

#[test]
fn doctor_finds_what_no_command_can_open() {
    let env = with_a_plan("Count words");
    let file = env.path("volumes/plan-agent.db");
    let database = |env: &TestEnv| {
        let said = env.run("doctor").stdout;
        let mut lines = said.lines();
        lines
            .find(|line| line.contains("database"))
            .unwrap()
            .to_owned()
    };
    has(database(&env), "ok  database");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[30..130].fill(7);
    std::fs::write(&file, bytes).unwrap();
    has(database(&env), "!!  database");
}

#[test]
fn commands_that_open_an_ended_plan_again_wait_for_each_other() {
    let env = with_a_plan("Count words");
    for task in 2..=3 {
        env.exits(0, &*format!("done {task}"));
    }
    let retries = (0..6).map(|_| env.start("retry 3"));
    let running = Vec::from_iter(retries);
    for mut one in running {
        assert!(one.wait().success());
    }
}

#[test]
fn pause_and_abort_work_without_daemon() {
    let env = with_a_plan("Count words");
    insta::assert_snapshot!(env.run("pause").seen(&env), @r"
    plan abcdefgh is paused: nothing new starts
    `plan-agent resume abcdefgh` goes on where it was
    exit 0
    ");
    has(&env.run("pause").stdout, "is paused already");
    insta::assert_snapshot!(env.run("abort x").seen(&env), @r"
    error: no plan has an id that begins with `x`
    Hint: the plans here:
      abcdefgh  paused       Word counter
    exit 2
    ");
    insta::assert_snapshot!(env.run("abort abcd").seen(&env), @r"
    plan abcdefgh has ended for good; agents at work are asked to stop, their work stays
    `plan-agent status abcdefgh`, `log abcdefgh` and `diff abcdefgh` go on showing it
    exit 0
    ");
    insta::assert_snapshot!(env.run("abort abcd").seen(&env), @r"
    error: the plan is aborted
    exit 1
    ");
    has(&env.run("status --json").stdout, "\"aborted\"");
    // A plan that has ended is shown once and not watched.
    assert_eq!(env.run("status --watch").code, Some(0));
    assert_eq!(env.run("log --follow").code, Some(0));
}

#[test]
fn watch_and_follow_exit_when_plan_ends() {
    let env = with_a_plan("Count words");
    let mut watching = env.start("status --watch");
    let mut following = env.start("log --follow");
    assert_eq!(env.run("abort abcdefgh").code, Some(0));
    assert_eq!(watching.wait().code(), Some(0));
    assert_eq!(following.wait().code(), Some(0));
}

#[test]
fn hints_repeat_config_option() {
    let env = with_a_plan("Count words");
    env.write("my conf.toml", "");
    env.write("other.toml", "volumes.root = 'other'\n");
    let seen = |args: &[&str]| env.run(args).seen(&env);
    let named = ["--config", "my conf.toml"];
    let status = seen(&[&named[..], &["status"]].concat());
    let hints = status.lines().filter(|line| line.contains("plan-agent"));
    let hints: Vec<&str> = hints.collect();
    insta::assert_snapshot!(hints.join("\n"), @r"
      Answer: plan-agent --config 'my conf.toml' answer retry|skip|abort
    No daemon works here: `plan-agent --config 'my conf.toml' resume abcdefgh` goes on where it was.
    ");
    insta::assert_snapshot!(seen(&[&["pause"], &named[..]].concat()), @r"
    plan abcdefgh is paused: nothing new starts
    `plan-agent --config 'my conf.toml' resume abcdefgh` goes on where it was
    exit 0
    ");
    insta::assert_snapshot!(seen(&["plans", "--config", "other.toml"]), @r"
    no plans yet: `plan-agent --config other.toml run` makes one
    exit 0
    ");
    insta::assert_snapshot!(seen(&["status", "--config", "other.toml"]), @r"
    error: there are no plans in `[FOLDER]/other`
    Hint: `plan-agent --config other.toml run` makes one; `--config FILE` looks elsewhere
    exit 1
    ");
    insta::assert_snapshot!(seen(&["why", "9", "--config", "my conf.toml"]), @r"
    error: plan `abcdefgh` has no task `9`
    Hint: `plan-agent --config 'my conf.toml' status abcdefgh` shows the tasks
    exit 2
    ");
}

#[test]
fn long_lines_wrap_only_on_terminal() {
    let goal = "Count the words of a file, tell the ten most frequent ones, and serve both to whoever asks for them";
    let env = with_a_plan(goal);
    let seen = |args: &[&str]| env.run_on_terminal(args).seen(&env);
    insta::assert_snapshot!(seen(&["status"]), @r"
    abcdefgh  Word counter  stopped
    Goal: Count the words of a file, tell the ten most frequent ones, and serve both
          to whoever asks for them
    1 of 3 tasks done · 1 asks you · 1 waiting
    Used: agents 2 of 200 attempts

       1  completed    Count · ~ accepted
       2  asks you     Serve
       3  waiting      Describe · after 2

    Question about task 2
      it failed
      Answer: plan-agent answer retry|skip|abort
        retry    try again, up to 3 attempts; the note goes along to the agent
        skip     leave the task out; what waits for it goes on without it
        abort    end the plan for good; agents at work stop, their work stays

    No daemon works here: `plan-agent resume abcdefgh` goes on where it was.
    exit 0
    ");
    insta::assert_snapshot!(seen(&["log"]), @r"
        1  [TIME]  goal: Count the words of a file, tell the ten
                                    most frequent ones, and serve both to whoever
                                    asks for them  (tests: made)
        1  [TIME]  planned 3 tasks
        1  [TIME]  started
        2  [TIME]  task 1: dispatched  (tests: first)
        2  [TIME]  task 1: reported SUCCESS
        2  [TIME]  task 1: next: SUCCESS, no check is set
        2  [TIME]  task 1: ~ completed, accepted
        3  [TIME]  task 2: dispatched  (tests: second)
        3  [TIME]  task 2: reported FAILED
        3  [TIME]  task 2: not accepted: see the file; the agent
                                    reports FAILED
        3  [TIME]  ? asks you about task 2: it failed
    exit 0
    ");
    insta::assert_snapshot!(seen(&["--config", "no such file.toml", "why", "1"]), @r"
    error: cannot read the configuration `no such file.toml`: No such file or
           directory (os error 2)
    Hint: `plan-agent --config 'no such file.toml' init` writes a commented one
          there
    exit 2
    ");
    let log = env.run("log").stdout;
    has(&log, goal);
    // Output for programs, and output that may be saved to a file, is not changed.
    for args in ["show", "show --format json", "log --json"] {
        has(&env.run_on_terminal(args).stdout, goal);
    }
}

#[test]
fn errors_name_missing_objects() {
    let env = with_a_plan("Count words");
    insta::assert_snapshot!(env.run("show --at 99").seen(&env), @r"
    error: plan `abcdefgh` has no change `99`
    Hint: the last one is 3; `plan-agent log abcdefgh` shows all
    exit 2
    ");
    insta::assert_snapshot!(env.run("why 9").seen(&env), @r"
    error: plan `abcdefgh` has no task `9`
    Hint: `plan-agent status abcdefgh` shows the tasks
    exit 2
    ");
    insta::assert_snapshot!(env.run("status zz").seen(&env), @r"
    error: no plan has an id that begins with `zz`
    Hint: the plans here:
      abcdefgh  stopped      Word counter
    exit 2
    ");
    insta::assert_snapshot!(env.run("answer 5 skip").seen(&env), @r"
    error: no question about task 5 is open
    Hint: `plan-agent status` shows the open ones
    exit 2
    ");
}

/// Text that a person types or sets is shown without the control characters that a terminal obeys.
#[test]
fn echoed_input_has_no_terminal_controls() {
    const WORD: &str = "a\r\u{9b}31m\u{202e}b\u{1b}]0;x\u{7}\u{200f}c";
    let json = format!("{{\"taskId\": \"{WORD}\", \"{WORD}\": 1}}");
    let mut cases: Vec<(Vec<&str>, Option<&str>)> = [
        vec![WORD],
        vec!["--no\r\u{9b}31m\u{202e}such"],
        vec!["status", "--no\r\u{9b}31m\u{202e}such"],
        vec!["status", WORD],
        vec!["status", "--limit", WORD],
        vec!["show", WORD],
        vec!["show", "--format", WORD],
        vec!["show", "--at", WORD],
        vec!["why", WORD],
        vec!["why", WORD, "1"],
        vec!["diff", WORD],
        vec!["log", WORD],
        vec!["pause", WORD],
        vec!["abort", WORD],
        vec!["restore", WORD, "--at", "1"],
        vec!["resume", WORD],
        vec!["answer", WORD],
        vec!["answer", WORD, "retry"],
        vec!["run", WORD],
        vec!["run", WORD, WORD],
        vec!["run", "--plan", WORD],
        vec!["run", "--plan", "plan.md", "--workspace", WORD],
        vec!["run", "--plan", "plan.md", "--team", WORD],
        vec!["run", "--plan", "plan.md", "--agent", WORD],
        vec!["run", "--plan", "plan.md", "--agent", "command", "--", WORD],
        vec!["run", "--workflow", WORD],
        vec!["run", "--workflow", "x", "--param", WORD],
        vec!["plan", WORD],
        vec!["worker", "--agent", WORD],
        vec!["worker", "--agent", "command", "--role", WORD, "--", WORD],
        vec!["daemon", WORD],
        vec!["tools", "--dialect", WORD],
        vec!["tool", WORD],
        vec!["tool", "TaskGet", WORD],
        vec!["tool", "TaskGet", &json],
        vec!["tool", "TaskList", "--plan", WORD],
        vec!["mcp", "--http", WORD],
        vec!["mcp", "--plan", WORD],
        vec!["completions", WORD],
        vec!["--config", WORD, "status"],
        vec!["--config", WORD, "doctor"],
        vec!["--config", WORD, "init"],
    ]
    .into_iter()
    .map(|args| (args, None))
    .collect();
    for variable in [
        "PLAN_AGENT_LOG",
        "PLAN_AGENT_RUN_TASK_TIMEOUT",
        "PLAN_AGENT_LLM_PROVIDER",
        "PLAN_AGENT_LLM_BASE_URL",
        "PLAN_AGENT_LLM_AGENT",
        "PLAN_AGENT_VOLUMES_ROOT",
        "PLAN_AGENT_RUN_TEAM",
    ] {
        for args in [
            vec!["status"],
            vec!["stop"],
            vec!["doctor"],
            vec!["run", "x"],
        ] {
            cases.push((args, Some(variable)));
        }
    }
    for (args, variable) in cases {
        let mut env = TestEnv::new();
        env.write("plan.md", "# Parts\n\n- [ ] Make the part\n");
        env.set("PLAN_AGENT_LLM_PROVIDER", "none");
        env.set("PLAN_AGENT_RUN_TASK_TIMEOUT", "100ms");
        if let Some(variable) = variable {
            env.set(variable, WORD);
        }
        let ran = env.run(&args);
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        let obeyed = |c: char| {
            (c.is_control() && !matches!(c, '\n' | '\t'))
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!shown.contains(obeyed), "{args:?} {variable:?}: {ran:?}");
    }
}

/// A file that a person names is read only up to its limit, whatever kind of file it is.
#[test]
fn file_reads_stop_at_size_limit() {
    const POURED: usize = 16 << 20;
    for (pipe, args) in [
        ("pipe", ["run", "--plan", "pipe", "--no-input"].as_slice()),
        ("pipe", &["run", "--plan", "plan.md", "--team", "pipe"]),
        ("pipe", &["run", "--plan", "plan.md", "--team", "team.yaml"]),
        ("pipe", &["--config", "pipe", "status"]),
        ("prompts/judge.md", &["run", "--plan", "plan.md"]),
    ] {
        let mut env = TestEnv::new();
        // That would read the pipe, too.
        env.confirm_nothing();
        env.write("config.toml", "[llm]\nprovider = \"none\"\n");
        env.write("plan.md", "# Parts\n\n- [ ] Make the part\n");
        env.write(
            "team.yaml",
            "roles:\n- {id: coder, kind: files, prompt: pipe}\n",
        );
        env.write("prompts/README", "");
        let path = env.path(pipe);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let poured = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&poured);
        let feeder = thread::spawn(move || {
            let mut pipe = File::options().write(true).open(path).unwrap();
            let spaces = [b' '; 1 << 16];
            while count.load(Ordering::SeqCst) < POURED && pipe.write_all(&spaces).is_ok() {
                count.fetch_add(spaces.len(), Ordering::SeqCst);
            }
        });
        let ran = env.run(args);
        feeder.join().unwrap();
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("more than"), "{args:?}: {ran:?}");
        let poured = poured.load(Ordering::SeqCst);
        assert!(poured < 4 << 20, "{args:?}: {poured} bytes were read");
    }
}
