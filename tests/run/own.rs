//! plan-agent's own files: a user that can write into its folders can neither make it write elsewhere nor make it end processes
//! that it did not start, and learns no key from it.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;

use super::*;
use crate::common::env::lives;

const MINE: &str = "mine\n";

/// What stands in the place of one of plan-agent's own files.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Instead {
    Link,
    /// A link to a missing file.
    Dangling,
    /// A hard link.
    Second,
    Pipe,
}

/// Puts something in the place of a file; returns the file of the person that must stay unchanged.
fn lay(scene: &Scene, place: &Path, instead: Instead) -> PathBuf {
    let target = scene.env.path("precious");
    if instead != Instead::Dangling {
        fs::write(&target, MINE).unwrap();
    }
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    match instead {
        Instead::Link | Instead::Dangling => symlink(&target, place).unwrap(),
        Instead::Second => fs::hard_link(&target, place).unwrap(),
        Instead::Pipe => {
            mknodat(CWD, place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
    }
    target
}

fn assert_untouched(target: &Path, instead: Instead, of: &str) {
    let left = fs::read_to_string(target).ok();
    let expected = (instead != Instead::Dangling).then(|| MINE.to_owned());
    assert_eq!(left, expected, "{of}: {instead:?}");
}

#[test]
fn start_follows_no_links_or_pipes() {
    use Instead::{Dangling, Link, Pipe, Second};
    let run = &["run", "--plan", "one.md"][..];
    let detach = &["run", "--plan", "one.md", "--detach"][..];
    for (name, args, kinds) in [
        ("daemon.lock", run, &[Link, Dangling, Second, Pipe][..]),
        ("logs/daemon.log", run, &[Link, Dangling, Second, Pipe]),
        ("logs/daemon.log", detach, &[Link]),
        // A second name of a database is the person's own decision.
        ("plan-agent.db", run, &[Link, Dangling, Pipe]),
    ] {
        for instead in kinds.iter().copied() {
            let scene = Scene::by_rules("");
            let place = scene.path(name);
            let target = lay(&scene, &place, instead);
            let ran = scene.run(args);
            assert_eq!(ran.code, Some(1), "{name}, {instead:?}: {ran:?}");
            assert!(
                ran.stderr.contains(&place.display().to_string()) && ran.stderr.contains("Hint:"),
                "{name}, {instead:?}: {ran:?}"
            );
            assert_untouched(&target, instead, name);
            assert_eq!(scene.names("commands/pending"), [""; 0]);
        }
    }
}

#[test]
fn run_refuses_linked_folders() {
    for name in [
        "active",
        "active/.tmp",
        "commands",
        "commands/.tmp",
        "logs",
        "questions/.tmp",
        "reports/pending",
        "roles",
        "trees",
        "worktrees",
    ] {
        let scene = Scene::by_rules("");
        scene.write("theirs/note.md", MINE);
        let place = scene.path(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(scene.env.path("theirs"), &place).unwrap();
        let ran = scene.run("run --plan one.md --no-input");
        assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
        let said = format!("`{}`: it is a symbolic link", place.display());
        assert!(
            ran.stderr.contains(&said) && ran.stderr.contains("Hint:"),
            "{name}: {ran:?}"
        );
        assert_eq!(scene.read("theirs/note.md"), MINE, "{name}");
        assert_eq!(fs::read_dir(scene.env.path("theirs")).unwrap().count(), 1);
    }
}

#[test]
fn workspace_may_be_a_link() {
    let scene = Scene::by_rules("");
    fs::create_dir_all(scene.env.path("project")).unwrap();
    fs::create_dir_all(scene.path("")).unwrap();
    symlink(scene.env.path("project"), scene.path("workspace")).unwrap();
    let _agent = scene.agent(|_| Act::success("done"));
    scene.exits(0, "run --plan one.md");
}

#[test]
fn daemon_writes_through_no_link() {
    let scene = Scene::by_rules(
        "run.checks = ['fine']\nchecks.fine = { run = ['echo', 'checked'] }\nhooks.on_change = ['echo', 'heard']",
    );
    let logs = scene.path("logs/hooks.log");
    let target = lay(&scene, &logs, Instead::Link);
    let foreground = scene.start("run --plan one.md");
    let command = scene.take_any();
    let check = scene.path(format!("active/{}-workspace.check", command.id));
    symlink(&target, &check).unwrap();
    scene.succeed(&command, "done");
    wait_until("the link is seen", || {
        let err = fs::read_to_string(&foreground.err).unwrap();
        err.contains("it is a symbolic link")
    });
    fs::remove_file(check).unwrap();
    foreground.end().exits(0);
    assert_untouched(&target, Instead::Link, "a check or a hook");
    has(scene.daemon_log(), "hooks.log");
}

#[test]
fn worker_writes_through_no_link() {
    for (kind, instead) in [
        ("logs/ID.out", Instead::Link),
        ("logs/ID.err", Instead::Second),
        ("active/ID.lock", Instead::Link),
        ("active/ID.lock", Instead::Dangling),
    ] {
        let mut scene = Scene::by_rules("");
        let daemon = scene.leave("run --plan one.md");
        let command = scene.await_any();
        let place = kind.replace("ID", &command.id);
        let target = lay(&scene, &scene.path(&place), instead);
        scene.env.set("PLAN_AGENT_LOG", "debug");
        let worker = scene.start("worker --agent command -- echo written");
        wait_until("the file is seen", || {
            let err = fs::read_to_string(&worker.err).unwrap();
            let name = place.rsplit('/').next().unwrap();
            err.contains(name) && err.contains("link")
        });
        assert_untouched(&target, instead, kind);
        drop((worker, daemon));
    }
}

#[test]
fn cancel_mark_replaces_any_file() {
    let scene = Scene::by_rules("");
    let foreground = scene.start("run --plan one.md");
    let command = scene.take_any();
    let mark = scene.path(format!("active/{}.cancel", command.id));
    let target = lay(&scene, &mark, Instead::Dangling);
    scene.works(["abort", &plan_id(&scene)]);
    assert_eq!(foreground.end().code, Some(3));
    assert!(mark.symlink_metadata().unwrap().is_file());
    assert_untouched(&target, Instead::Dangling, "a mark");
}

/// A foreign process that leads a group of its own; ended when dropped.
struct Stranger(std::process::Child);

impl Stranger {
    /// Starts one that prints nothing, into a file that it may hold locked.
    fn start(log: &Path, locks: bool) -> Self {
        let log = File::options().append(true).create(true).open(log).unwrap();
        let script = match locks {
            true => "flock 1 && echo locked >&2 && exec sleep 1000",
            false => "exec sleep 1000",
        };
        let said = log.try_clone().unwrap();
        let child = std::process::Command::new("sh")
            .args(["-c", script])
            .process_group(0)
            .stdin(std::process::Stdio::null())
            .stdout(log)
            .stderr(said)
            .spawn()
            .unwrap();
        Self(child)
    }

    fn lives(&self) -> bool {
        lives(&self.0.id().to_string())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // An error only means that it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn forged_mark_kills_no_process() {
    let ours = env!("CARGO_BIN_EXE_plan-agent");
    let config = format!("mcp.docs.command = ['{ours}', 'mcp', '--dialect', 'tasks']\n");
    let scene = Scene::by_rules(&config);
    scene.write("team.yaml", WITH_SERVER);
    scene.write("plan.md", "## Code\n\n- assignee: coder\n\nCode it.\n");
    fs::create_dir_all(scene.path("active")).unwrap();
    let mut strangers = Vec::new();
    let mut locks = Vec::new();
    for kind in ["check", "hook", "question", "step", "server"] {
        // Another process holds a lock, and the name is that of a process that knows nothing of it.
        let stranger = Stranger::start(&scene.env.path(format!("{kind}.log")), false);
        let mark = format!("active/forged.{kind}.{}", stranger.0.id());
        let mark = File::create(scene.path(mark)).unwrap();
        mark.lock().unwrap();
        locks.push(mark);
        strangers.push((kind, "a lock of another", stranger));
        // The file is the output of the process, and another process locks it.
        let log = scene.env.path(format!("{kind}-moved.log"));
        let stranger = Stranger::start(&log, false);
        let mark = format!("active/moved.{kind}.{}", stranger.0.id());
        fs::rename(&log, scene.path(&mark)).unwrap();
        let mark = File::open(scene.path(mark)).unwrap();
        mark.lock().unwrap();
        locks.push(mark);
        strangers.push((kind, "its own output", stranger));
        // The process itself has locked its output, through a program that has ended.
        let log = scene.env.path(format!("{kind}-locked.log"));
        let stranger = Stranger::start(&log, true);
        wait_until("it is locked", || {
            fs::read_to_string(&log).unwrap().contains("locked")
        });
        for name in [
            format!("locked.{kind}"),
            format!("locked.{kind}.{}", stranger.0.id()),
        ] {
            let place = scene.path("active").join(name);
            fs::copy(&log, &place).unwrap();
        }
        let mark = format!("active/locked.{kind}.{}", stranger.0.id());
        fs::rename(&log, scene.path(mark)).unwrap();
        strangers.push((kind, "its own lock", stranger));
    }
    let _daemon = scene.leave("run --plan plan.md --team team.yaml");
    scene.await_any();
    for (kind, how, stranger) in &strangers {
        assert!(stranger.lives(), "{kind}: {how}");
    }
}

#[test]
fn leftover_check_group_is_ended_without_leader() {
    for (check, leader_goes) in [
        ("sleep 1000 & wait", true),
        // The environment is empty.
        ("exec env -i sleep 1000", false),
        // The process that was started prints elsewhere.
        ("sleep 1000 & exec sleep 1000 > /dev/null 2>&1", false),
    ] {
        let script = format!("[ -e ../go ] && exit; echo $$ > ../group; {check}");
        let check = format!("checks.slow = {{ run = ['sh', '-c', '{script}'] }}");
        let scene = Scene::by_rules(&format!("run.checks = ['slow']\n{check}"));
        let agent = scene.agent(|_| Act::success("done"));
        let daemon = scene.leave("run --plan one.md");
        let mut group = None;
        wait_until("the check runs", || {
            let text = fs::read_to_string(scene.path("group")).unwrap_or_default();
            group = text.trim().parse().ok().and_then(Pid::from_raw);
            let sleeps = |group| in_group(group).iter().any(|name| name == "sleep");
            let marked = |name: &String| name.contains(".check.");
            group.is_some_and(sleeps) && scene.names("active").iter().any(marked)
        });
        let group = group.unwrap();
        kill(&scene, daemon);
        if leader_goes {
            kill_process(group, Signal::KILL).unwrap();
        }
        assert!(!in_group(group).is_empty(), "something is left");
        fs::write(scene.path("go"), "").unwrap();
        scene.exits(0, "resume");
        assert_eq!(in_group(group), [""; 0]);
        drop(agent);
    }
}

/// Returns the names of the programs of a group that have not ended.
fn in_group(group: Pid) -> Vec<String> {
    let name = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let works = fields.next()? != "Z";
        let of_group = fields.nth(1)? == group.as_raw_pid().to_string();
        (works && of_group).then(|| name.split_once('(').map_or("", |(_, name)| name).to_owned())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(name).collect()
}

#[test]
fn forged_heartbeat_kills_no_process() {
    let scene = Scene::by_rules("");
    let _daemon = scene.leave("run --plan one.md");
    let command = scene.await_any();
    let words = "worker --agent command -- sh -c 'echo $$ > ../agent; exec sleep 1000'";
    let worker = scene.start(words);
    let pid = || fs::read_to_string(scene.path("agent")).unwrap_or_default();
    wait_until("the agent works", || !pid().trim().is_empty());
    drop(worker);
    let agent = pid().trim().to_owned();
    assert!(lives(&agent), "it outlives its worker");
    let stranger = Stranger::start(&scene.env.path("stranger.log"), false);
    let life = format!("active/{}.json", command.id);
    let forged = format!("{{\"pid\": {}}}", stranger.0.id());
    fs::write(scene.path(life), forged).unwrap();
    let mut worker = scene.start(words);
    scene.works(["abort", &plan_id(&scene)]);
    wait_until("the agent is ended", || !lives(&agent));
    assert!(stranger.lives());
    kill_process(Pid::from_child(&worker.running.child), Signal::TERM).unwrap();
    worker.running.wait();
    assert!(stranger.lives());
}

/// Runs a program as an unprivileged user, where this process is privileged.
const NOBODY: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--",
];

/// Returns how to start a program as an ordinary user, which is nothing if this process is one; `None`, after the reason is
/// printed, if there is no way.
fn ordinary(scene: &Scene) -> Option<&'static [&'static str]> {
    if !rustix::process::geteuid().is_root() {
        return Some(&["env"]);
    }
    let folder = scene.env.path("");
    let owner = std::process::Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(&folder)
        .status();
    let ran = std::process::Command::new(NOBODY[0])
        .args(&NOBODY[1..])
        .args([env!("CARGO_BIN_EXE_plan-agent"), "--version"])
        .current_dir(&folder)
        .output();
    match (owner, ran) {
        (Ok(owner), Ok(ran)) if owner.success() && ran.status.success() => Some(&NOBODY),
        (owner, ran) => {
            skip(&format!(
                "no ordinary user can run the program here: {owner:?}, {ran:?}"
            ));
            None
        }
    }
}

#[test]
fn agents_checks_and_hooks_cannot_read_api_key() {
    const CANARY: &str = "sk-canary-of-the-environment";
    let server = planning(&[("First", &[])]);
    let config = "run.checks = ['spy']\nchecks.spy = { run = ['sh', '../../spy.sh'] }\nhooks.on_change = ['sh', 'spy.sh']";
    let mut scene = Scene::with_model(&server, Shape::Chat, config);
    // Reads everything that it may read of any process.
    let spied = scene.env.path("spied").display().to_string();
    let spy =
        format!("cat /proc/[0-9]*/environ 2> /dev/null | tr '\\0' '\\n' >> '{spied}'\necho fine\n");
    scene.write("spy.sh", &spy);
    let Some(user) = ordinary(&scene) else {
        return;
    };
    scene.env.set("OPENAI_API_KEY", CANARY);
    // Another person has confirmed it.
    let words = "--config config.toml run 'Do it' --agent command -- sh ../../spy.sh";
    scene.env.run_under(user, words).exits(0);
    let spied = scene.read("spied");
    assert!(spied.contains("PLAN_AGENT_EXCHANGE="), "it reads its own");
    lacks(&spied, CANARY);
}

#[test]
fn process_environment_is_not_readable() {
    let scene = Scene::by_rules("");
    let Some(user) = ordinary(&scene) else {
        return;
    };
    for args in [
        "run --plan one.md",
        "worker --agent command -- true",
        "mcp",
        "mcp --http 127.0.0.1:0",
    ] {
        let (_keep, input) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
        let child = scene
            .env
            .command_under(user, args)
            .stdin(input)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let running = Running { child };
        let pid = running.child.id();
        let name = format!("/proc/{pid}/comm");
        let environ = format!("/proc/{pid}/environ");
        wait_until("nothing of it is read", || {
            let ours = fs::read_to_string(&name).is_ok_and(|name| name == "plan-agent\n");
            let cat = std::process::Command::new(user[0])
                .args(&user[1..])
                .args(["cat", &environ])
                .output();
            ours && cat.unwrap().stdout.is_empty()
        });
        assert!(lives(&pid.to_string()), "{args:?} works on");
    }
}

#[test]
fn agent_without_session_gets_the_whole_task_again() {
    for (line, whole) in [("{report}", true), ("{report} {session}", false)] {
        let mut scene = Scene::by_rules("");
        let script = r#"
n=$(ls @AT@ | grep -c prompt); cat > @AT@/prompt$n
[ $n = 0 ] && exit 1
printf -- '---\nstatus: SUCCESS\n---\n\ndone\n' > "$1.tmp"; mv "$1.tmp" "$1""#;
        let at = scene.env.path("").display().to_string();
        scene
            .env
            .show_script("my-agent", &script.replace("@AT@", &at));
        let run = format!("run --plan one.md --no-input --agent command -- my-agent {line}");
        scene.works(&*run);
        let again = scene.read("prompt1");
        assert_eq!(again.contains("Make `one.txt`."), whole, "{again}");
        assert_eq!(again.contains("command_type: new"), whole, "{again}");
    }
}

#[test]
fn task_without_a_script_for_the_shell_is_refused_before_it_begins() {
    let scene = Scene::by_rules("");
    let plan = "# Two\n\n## First\n\n```sh\necho 1\n```\n\n## Second\n\nJust words.\n";
    scene.write("words.md", plan);
    let refused = [
        "words.md: task 2: the task's description has no shell block",
        "Hint: write the commands into a block that begins with ```sh",
    ];
    scene.refuses(2, "run --plan words.md --agent shell", refused);
    has(scene.works("plans"), "no plans yet");
}
