//! A whole evening at the terminal: from the first run in a project of one's own to the results merged into it.

use super::*;
use crate::common::git::{begin_project, git};

/// Claude Code: each run does one part of the evening, and waits for a file where the person is to see it at work.
const CLAUDE: &str = r#"if [ "$1" = --version ]; then echo "2.1.330 (Claude Code)"; exit; fi
notes=@NOTES@
run=1; while ! mkdir "$notes/$run" 2>/dev/null; do run=$((run+1)); done
echo "$*" > "$notes/$run/call"
cat > "$notes/$run/prompt"
session=$(sed 's/.*--\(session-id\|resume\) \([^ ]*\).*/\2/' "$notes/$run/call")
write() { printf '{"type":"assistant","session_id":"%s","message":{"id":"m%s","usage":{"input_tokens":1200,"output_tokens":34},"content":[{"type":"tool_use","name":"Write","input":{"file_path":"%s"}}]}}\n' "$session" "$run" "$1"; }
until_there() { until [ -e "$notes/$1" ]; do sleep 0.02; done; }
result() { printf '{"type":"result","is_error":false,"session_id":"%s","permission_denials":[%s],"usage":{"input_tokens":1200,"output_tokens":34},"total_cost_usd":0.25,"result":"---\\nstatus: SUCCESS\\n---\\n\\n## Core results\\n\\n%s"}\n' "$session" "$2" "$1"; }
case $run in
1)  write src/greeting.sh; until_there seen
    result "It greets, not linted." '{"tool_name":"Bash","tool_input":{"command":"make lint"}}' ;;
2)  echo 'echo hello' > src/greeting.sh; result "It greets." ;;
3)  write src/farewell.sh; until_there never ;;
4)  write src/louder.sh; until_there never ;;
5)  echo 'echo HELLO' > src/greeting.sh; result "It greets loudly." ;;
6)  echo 'echo bye' > src/farewell.sh; result "It says goodbye." ;;
esac
"#;

/// The tests of the project: every script must say something.
const TESTS: &str = "n=0; for script in src/*.sh; do sh $script | grep -q . || exit 1; n=$((n+1)); done; echo $n passed\n";

/// The editor of the person: one title is changed, and nothing else.
const EDITOR: &str = "sed -i 's/Part with the user/Say goodbye/' \"$1\"";

const WORDS: &str = "use port 8081";

/// A person in a subfolder of a git project, with a model and `claude` in the environment.
fn at_home(server: &LlmServer) -> TestEnv {
    let mut env = TestEnv::new();
    let project = env.path("project");
    env.write("project/Makefile", "test:\n\t@sh tests.sh\n");
    env.write("project/tests.sh", TESTS);
    env.write("project/src/hint.sh", "echo type help\n");
    begin_project(&project);
    env.write("notes/begun", "");
    let notes = env.path("notes").display().to_string();
    env.show_script("claude", &CLAUDE.replace("@NOTES@", &notes));
    env.show_script("my-editor", EDITOR);
    let home = env.path("home").display().to_string();
    let url = server.openai_url();
    for (name, value) in [
        ("HOME", home.as_str()),
        ("TERM", "xterm"),
        ("EDITOR", "my-editor"),
        ("OPENAI_API_KEY", "key-of-the-model"),
        ("OPENAI_BASE_URL", &url),
    ] {
        env.set(name, value);
    }
    env.widen(100);
    env
}

#[test]
fn evening_ends_with_merged_results_that_pass_the_tests_of_the_project() {
    let server = planning(&[("Greet", &[]), ("Part with the user", &[1])]);
    let env = at_home(&server);
    let project = env.path("project");
    let here = |words: &str| format!("-C project/src {words}");
    let of_run = |run: u32, what: &str| env.read(&format!("notes/{run}/{what}"));

    // The first run: the tests of the project become a check, and the plan appears.
    let run = "run 'Greet the user, and part with them' --agent claude --review";
    let (mut running, mut terminal) = env.start_on_terminal(here(run));
    terminal.answer("This project has `make test`.", "y");
    terminal.await_shown("`make test` is a check from now on");
    terminal.await_shown("agents work in worktrees below `");
    terminal.await_below("Part with the user", "y approve · e edit");
    terminal.type_keys("e");
    terminal.await_below("Say goodbye", "y approve · e edit");
    terminal.type_keys("y");

    // It works; it asks for a right, and gets it once.
    terminal.await_shown("Write src/greeting.sh");
    terminal.await_below("Write src/greeting.sh", "0 of 2 done");
    env.write("notes/seen", "");
    terminal.await_below("$ make lint", "· ? > ");
    terminal.type_keys("allow once\n");
    terminal.await_shown("1 · Greet: ~ completed, accepted");
    has(of_run(2, "call"), "--allowedTools Bash(make lint) --resume");

    // Another terminal: what is done is not good enough, and the next task needs a word.
    terminal.await_below("completed, accepted", "Write src/farewell.sh");
    let retry = env.exits(0, here("retry 1 --yes --note 'Louder, please'"));
    retry.has_stdout("task 2 opens again, too");
    terminal.await_shown("Write src/louder.sh");
    has(of_run(4, "prompt"), "A person says: Louder, please");
    let told = env.exits(0, here(&format!("tell 2 '{WORDS}'")));
    told.has_stdout("task 2: your words go along with its next command");

    // Ctrl-C; `resume` knows everything else.
    kill_process(Pid::from_child(&running.child), Signal::INT).unwrap();
    assert_eq!(running.wait().code(), Some(130), "{}", terminal.shown());
    terminal.await_shown("goes on where it was");
    let (mut running, terminal) = env.start_on_terminal(here("resume"));
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    terminal.await_shown("goes on with claude, model ");
    terminal.await_shown("~ 2 accepted");
    terminal.await_shown(" merge ");
    has(of_run(5, "call"), "--resume");
    has(of_run(6, "prompt"), format!("A person says: {WORDS}"));
    has(of_run(6, "prompt"), "Say goodbye");

    // The results come into the project, whose own tests pass.
    assert!(!project.join("src/greeting.sh").exists());
    let (mut running, terminal) = env.start_on_terminal(here("merge"));
    assert_eq!(running.wait().code(), Some(0), "{}", terminal.shown());
    let tested = std::process::Command::new("make")
        .arg("test")
        .current_dir(&project)
        .output()
        .unwrap();
    has(String::from_utf8(tested.stdout).unwrap(), "3 passed");
    assert_eq!(env.read("project/src/greeting.sh"), "echo HELLO\n");
    assert_eq!(git(&project, "status --porcelain"), "");
    git(&project, "fsck --strict --no-dangling");
}
