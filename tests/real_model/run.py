#!/usr/bin/env python3
"""Gives the reports, tones and goals of this folder to a real model, through the real program: docs/figures.md says how.

    run.py BINARY URL reports [--part tuned|aside] [--kind KIND] [--prompts DIR] [--plain] [--log FILE]
    run.py BINARY URL tones   [the same]
    run.py BINARY URL plans   [--prompts DIR] [--log FILE]

URL is a Chat Completions server, such as http://127.0.0.1:18080/v1. `--plain` writes criteria as one sentence, for programs
that know no lists. What was asked and answered goes to the log, a JSON object a line.
"""
import argparse, collections, concurrent.futures, http.server, json, os, pathlib, shutil, subprocess, sys, tempfile, threading, time, tomllib
import urllib.request

HERE = pathlib.Path(__file__).parent
LIMIT = 600  # Seconds for one report or goal.


class Proxy(http.server.BaseHTTPRequestHandler):
    """Hands calls on to the model, and keeps what was asked and answered."""

    calls, target = collections.defaultdict(list), ""
    protocol_version = "HTTP/1.0"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        asked = json.loads(body)
        call = {"system": asked["messages"][0]["content"], "prompt": asked["messages"][-1]["content"],
                "answer": "", "in": 0, "out": 0}
        _, scene, path = self.path.split("/", 2)
        Proxy.calls[scene].append(call)
        url = f"{Proxy.target}/{path}"
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers["content-type"])
                self.end_headers()
                for line in answer:
                    self.wfile.write(line)
                    self.note(call, line.decode().removeprefix("data: ").strip())
        except urllib.error.HTTPError as error:
            self.send_response(error.code)
            self.end_headers()
            self.wfile.write(error.read())
        except OSError:
            pass  # The program is gone.

    def note(self, call, line):
        if not line.startswith("{"):
            return
        part = json.loads(line)
        for choice in part.get("choices") or []:
            said = choice.get("delta") or choice.get("message") or {}
            call["answer"] += said.get("content") or ""
        if usage := part.get("usage"):
            call["in"], call["out"] = usage["prompt_tokens"], usage["completion_tokens"]

    def log_message(self, *_):
        pass


# What the agent `claude` does where a report says what it ran: it edits, then runs these commands.
CLAUDE = """#!/usr/bin/env python3
import json, os, pathlib, sys
if "--version" in sys.argv: print("2.1.330 (Claude Code)"); sys.exit()
sys.stdin.read()
sys.path.insert(0, %r)
import run
run.act(json.load(open(%r)), run.command(pathlib.Path(os.environ["PLAN_AGENT_EXCHANGE"]) / "commands/processed"))
"""


def command(folder):
    """Returns the fields of the first command in a folder, or None."""
    for file in sorted(folder.glob("task-*.md")):
        head = file.read_text().split("\n---\n")[0]
        fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
        return {name: value.strip("\"'") for name, value in fields.items()} | {"file": file}


def act(report, command):
    """Writes the files of a report, prints what ran, and reports."""
    workspace = pathlib.Path(command["workspace"])
    files = report["files"]
    if isinstance(files, list):
        files = {name: "written\n" * 20 for name in files}
    event = lambda role, **part: print(json.dumps({"type": role, "message": {"content": [part]}}), flush=True)
    for name, text in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
        if report.get("ran"):
            event("assistant", type="tool_use", id=name, name="Edit", input={"file_path": str(workspace / name)})
            event("user", type="tool_result", tool_use_id=name, is_error=False, content="updated")
    for at, (line, code, printed) in enumerate(report.get("ran", [])):
        event("assistant", type="tool_use", id=f"ran{at}", name="Bash", input={"command": line})
        said = f"Exit code {code}\n{printed}" if code else printed
        event("user", type="tool_result", tool_use_id=f"ran{at}", is_error=bool(code), content=said)
    text = f"---\nstatus: {report.get('status', 'SUCCESS')}\n---\n\n## Core results\n\n{report['says']}\n"
    text += f"\n## Pitfalls\n\n{report.get('pitfalls', 'None.')}\n\n## Next-step suggestions\n\n{report.get('next', 'None.')}\n"
    target = pathlib.Path(command["report"])
    target.parent.mkdir(parents=True, exist_ok=True)
    written = target.with_suffix(".tmp")
    written.write_text(text)
    written.rename(target)
    if report.get("ran"):
        print(json.dumps({"type": "result", "is_error": False, "permission_denials": [], "result": "Done."}), flush=True)


class Scene:
    """A folder with a configuration and a git project."""

    def __init__(self, options, before=None, config=""):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="real-model-"))
        self.options, self.workspace = options, self.folder / "work"
        self.calls = Proxy.calls[self.folder.name]
        self.workspace.mkdir()
        for name, text in (before or {}).items():
            (self.workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / name).write_text(text)
        git = lambda *words: subprocess.run(["git", "-C", self.workspace, "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
                                            check=True, capture_output=True)
        git("init", "-q"), git("add", "-A"), git("commit", "-qm", "before", "--allow-empty")
        if options.prompts:
            shutil.copytree(options.prompts, self.folder / "prompts")
        (self.folder / "config.toml").write_text(
            f"[llm]\nprovider = 'openai'\nbase_url = '{options.proxy}/{self.folder.name}'\nmodel = 'real'\ntimeout = '{LIMIT}s'\ntries = 1\n"
            f"[run]\nworkspace = 'work'\nisolation = 'shared'\naudit = false\n{config}")

    def start(self, words):
        shown = self.folder / "bin"
        environment = {"PATH": f"{shown}:{os.environ['PATH']}", "HOME": str(self.folder), "LANG": "C.UTF-8",
                       "XDG_STATE_HOME": str(self.folder / "state")}
        return subprocess.Popen([self.options.binary, *words], cwd=self.folder, env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=open(self.folder / "errors", "w"))

    def end(self, process):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def plan_file(task, report, plain):
    expected = task["expected"]
    listed = " " + "; ".join(expected) if plain else "".join(f"\n  - {one}" for one in expected)
    more = "- checks: unit\n" if "check" in task else ""
    more += f"- produces: {', '.join(report['produces'])}\n" if "produces" in report else ""
    head = f"---\nname: {task['name']}\ngoal: {task['text']!r}\n---\n"
    head = head if "'" not in task["text"] else f"---\nname: {task['name']}\ngoal: {json.dumps(task['text'])}\n---\n"
    return f"{head}\n## {task['name']}\n\n- expected:{listed}\n{more}\n{task['text']}\n"


def outcome(report, task, options):
    """Has one report judged. Returns what came of it, why, and the calls of the model."""
    check = f"[checks]\nunit = {{ run = {json.dumps(task['check'])} }}\n" if "check" in task else ""
    scene = Scene(options, report.get("before", task.get("before")), check)
    (scene.folder / "plan.md").write_text(plan_file(task, report, options.plain))
    words = ["run", "--config", "config.toml", "--plan", "plan.md", "--no-input", "--json"]
    if report.get("ran"):
        (scene.folder / "case.json").write_text(json.dumps(report))
        (scene.folder / "bin").mkdir()
        program = scene.folder / "bin/claude"
        program.write_text(CLAUDE % (str(HERE), str(scene.folder / "case.json")))
        program.chmod(0o755)
        words += ["--agent", "claude"]
    process = scene.start(words)
    ended = threading.Event()

    def agent():
        pending = scene.folder / "volumes/commands/pending"
        while not ended.wait(0.03):
            if found := command(pending):
                claimed = scene.folder / "volumes/commands/processed" / found["file"].name
                found["file"].rename(claimed)
                return act(report, found)

    if not report.get("ran"):
        threading.Thread(target=agent, daemon=True).start()
    watch = threading.Timer(LIMIT, process.terminate)
    watch.start()
    seen, result = [], ("nothing", "")
    for line in process.stdout:
        event = json.loads(line) if line.startswith("{") else {}
        seen.append(event)
        # A person is asked in the same change, right after the verdict.
        if result[0] != "nothing" or event.get("event") == "asked":
            asks = event.get("event") == "asked" and result[0] != "abort"
            result = ("ask", str(event.get("reason", ""))) if asks else result
            break
        if event.get("event") == "judged":
            result = (event["decision"], event.get("reason", ""))
    if result[0] == "nothing":
        result = ("nothing", (scene.folder / "errors").read_text()[-300:] + str(seen[-3:]))
    if os.environ.get("EVENTS"):
        print(json.dumps(seen, indent=1), file=sys.stderr)
    ended.set(), watch.cancel()
    scene.end(process)
    return *result, scene.calls


def chosen(rows, options):
    """The rows that the options name, with their places."""
    for number, row in enumerate(rows, 1):
        part = options.part in (None, "aside" if row.get("aside") else "tuned")
        kind = not options.kind or row["kind"] in options.kind.split(",")
        if part and kind and (not options.only or str(number) in options.only.split(",")):
            yield number, row


def reports(options):
    table = tomllib.loads((HERE / "reports.toml").read_text())
    rows = collections.defaultdict(collections.Counter)
    def one(number, report):
        began = time.time()
        end, reason, calls = outcome(report, table["task"][report["task"]], options)
        right = end in report["want"]
        rows[report["kind"]].update({
            "all": 1, "right": right, "false accept": end == "next" and not right, "asked": end in ("ask", "abort"),
            "by rule": not calls, "calls": len(calls), "in": sum(call["in"] for call in calls),
            "out": sum(call["out"] for call in calls)})
        print(f"{'  ' if right else '✗ '}{number:3} {report['kind']:13} {report['task']:8} {end:7} want {'/'.join(report['want'])}"
              f"  {len(calls)} calls {time.time() - began:.0f} s  {reason[:140]!r}", flush=True)
        keep(options, {"number": number, "kind": report["kind"], "end": end, "reason": reason, "right": right, "calls": calls})

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda row: one(*row), chosen(table["report"], options)))
    names = ("all", "right", "false accept", "asked", "by rule", "calls", "in", "out")
    rows["all"] = sum(rows.values(), collections.Counter())
    print("\n| kind | " + " | ".join(names) + " |\n|---" * 1 + "|---" * len(names) + "|")
    for kind, row in rows.items():
        print(f"| {kind} | " + " | ".join(str(int(row[name])) for name in names) + " |")


def tones(options):
    """The same facts in three tones: the decisions have to be equal."""
    table = tomllib.loads((HERE / "reports.toml").read_text())
    words = tomllib.loads((HERE / "tones.toml").read_text())
    def one(number):
        report, ends = table["report"][number - 1], []
        for tone in words["tone"]:
            said = f"{tone['before']}\n\n{report['says']}\n\n{tone['after']}"
            end, reason, calls = outcome(report | {"says": said}, table["task"][report["task"]], options)
            ends.append(end)
            keep(options, {"number": number, "end": end, "reason": reason, "calls": calls})
        print(f"{number:3} {report['kind']:13} {report['task']:8} {' '.join(ends)}", flush=True)
        return len(set(ends)) == 1

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        numbers = [number for number in words["reports"] if not options.only or str(number) in options.only.split(",")]
        equal = list(pool.map(one, numbers))
    print(f"\n{sum(equal)} of {len(equal)} equal")


def plans(options):
    """Prints the plan of each goal; whether it is usable a person has to say."""
    goals = tomllib.loads((HERE / "goals.toml").read_text())["goal"]
    def one(number, goal):
        scene, began = Scene(options, goal.get("before"), goal.get("config", "")), time.time()
        process = scene.start(["plan", "--config", "config.toml", goal["text"]])
        watch = threading.Timer(LIMIT, process.terminate)
        watch.start()
        printed = process.stdout.read()
        code, errors, calls = process.wait(), (scene.folder / "errors").read_text(), scene.calls
        print(f"\n{'=' * 20} {number}. {goal['text']}\nexit {code}, {len(calls)} calls, {time.time() - began:.0f} s, "
              f"{sum(c['in'] for c in calls)} + {sum(c['out'] for c in calls)} tokens\n{errors[-600:]}\n{printed}", flush=True)
        keep(options, {"goal": number, "code": code, "printed": printed, "calls": calls})
        watch.cancel(), scene.end(process)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda row: one(*row), chosen(goals, options)))


def keep(options, row):
    if options.log:
        with open(options.log, "a") as log:
            log.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("url")
    parser.add_argument("what", choices=("reports", "tones", "plans"))
    parser.add_argument("--part", choices=("tuned", "aside"))
    parser.add_argument("--kind")
    parser.add_argument("--only", help="numbers of reports or goals")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--prompts")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--log")
    options = parser.parse_args()
    Proxy.target = options.url.rstrip("/")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options.proxy = f"http://127.0.0.1:{server.server_port}"
    {"reports": reports, "tones": tones, "plans": plans}[options.what](options)


if __name__ == "__main__":
    main()
