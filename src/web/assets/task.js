// One task: why it is as it is, its attempts, what it changed, what its agent says.
import { html, useEffect, useRef, useState } from "./preact.js";
import { get, inTurn, listen, useAction, useData } from "./live.js";
import { Act, Mark, Pending, Problem, State, Text, clock, focused, many, money, ms, span, words } from "./parts.js";

/// The reasons of `why`: its first line is the heading, its attempts are shown as such.
const reasons = (why) => why.split("\n\nAttempts")[0].split("\n").slice(1).map((line) => line.replace(/^ {2}/, "")).join("\n");

/// Returns whether a part of a report says more than that there is none.
const said = (text) => text && !/^none\.?$/i.test(text.trim());

function Attempt({ attempt, last, asks }) {
  const { report, checks, changes, verdict, issued, claimed, ended: end } = attempt;
  const lasted = end && span(ms(end) - ms(claimed || issued));
  const told = report ? `reported ${words(report.status)}` : attempt.state !== "open" ? words(attempt.state) : claimed ? "at work" : "not taken yet";
  return html`<details class="card" open=${last}><summary><b>Attempt ${attempt.number}</b> · ${told}${verdict && ` · ${verdict.decision === "next" ? "accepted" : `${last && asks ? "not accepted" : `then ${words(verdict.decision)}`}: ${verdict.reason.slice(0, 200)}`}`}
    <span class="quiet"> ${clock(issued)}${lasted && `, ${lasted}`}${report?.cost_usd ? `, ${money(report.cost_usd)}` : ""}</span></summary>
    ${[["Said to the agent", attempt.told], ["Report", report?.results], ["Pitfalls", report?.pitfalls], ["Next steps", report?.next_steps],
      ["Question", report?.question]].map(([name, text]) => said(text) && html`<h3>${name}</h3><${Text} text=${text} />`)}
    ${attempt.rejected && html`<h3>Unreadable report</h3><${Text} text=${attempt.rejected.reason || String(attempt.rejected)} />`}
    ${checks?.length > 0 && html`<h3>Checks</h3><ul class="plain">${checks.map((check) => html`<li>
      <${Mark} as=${check.passed ? ["✓", "passed", "good"] : ["✗", "failed", "bad"]} /> ${check.name}${check.finding && `: ${check.finding}`}
      ${check.tail && !check.passed && html`<pre tabindex="0">${check.tail.slice(-2000)}</pre>`}</li>`)}</ul>`}
    ${changes && html`<h3>Changed files</h3><p>${changes.files?.length ? changes.files.map((file) => html`<code>${file}</code> `) : "none"}${
      changes.more > 0 && ` and ${changes.more} more`}</p>`}
    ${verdict && html`<h3>Verdict</h3><p><b>${words(verdict.decision)}</b> by ${words(verdict.by)}: ${verdict.reason}</p><${Text} text=${verdict.feedback} />`}</details>`;
}

/// Reads a unified diff: `[kind, path, number in the new file, of a line that is gone in the old one, text]` of each line.
function diffLines(text) {
  let [path, was, is] = ["", 0, 0];
  return text.trimEnd().split("\n").flatMap((line) => {
    if (line.startsWith("diff --git ") || /^(index|---|new file|deleted file|similarity) ?/.test(line)) return [];
    if (line.startsWith("+++ ")) return [["file", (path = line.slice(4).replace(/^b\//, "")), 0, path]];
    const hunk = /^@@ -(\d+)\S* \+(\d+)/.exec(line);
    if (hunk) return ([was, is] = [Number(hunk[1]), Number(hunk[2])]), [["hunk", path, 0, line]];
    if (line[0] === "-") return [["gone", path, was++, line]];
    return [line[0] === "+" ? ["new", path, is++, line] : ["", path, (was++, is++), line]];
  });
}

function Diff({ base, may, wants, kept, tries }) {
  const [after, choose] = useState("");
  const { data: now, error } = useData(`${base}/diff${after && `?attempt=${after}`}`, wants, 2000);
  const [at, setAt] = useState(null);
  const [state, act, clear] = useAction();
  useEffect(() => clear(), [tries]);
  // While a comment is being written, its line stays where it is.
  const shown = useRef();
  const data = (shown.current = at === null ? now : shown.current);
  const choice = kept.length > 0 && html`<p><label>Show it <select value=${after} onChange=${(e) => (setAt(null), choose(e.target.value))}><option value="">as it is now</option>
    ${kept.map((each) => html`<option value=${each}>as it was after attempt ${each}</option>`)}</select></label></p>`;
  if (!data) return html`${choice}<p class="quiet">${error ? error.message : "Reading …"}</p>`;
  if (!data.diff) return html`${choice}<p class="quiet">Nothing to show: it has changed no file, or agents share the folder, where changes are not kept line by line.</p>`;
  const send = (path, line, gone) => (event) => {
    event.preventDefault();
    act(`${base}/comments`, { path, line, gone, text: event.target.elements.text.value }, () => setAt(null));
  };
  return html`${choice}${may && html`<p class="quiet">Press a line's number to comment on it: the next attempt gets the comment as a note.</p>`}
    ${state.done && html`<p class="done" role="status">${state.done}</p>`}
    <div class="scroll diff" role="region" aria-label="Diff" tabindex="0"><table><tbody>${diffLines(data.diff).map(([kind, path, line, text], key) => html`<tr class=${kind}>
      <td class="num">${line > 0 && (may && !after ? html`<button class="plain" aria-label=${`Comment on ${path} line ${line}${kind === "gone" ? " as it was" : ""}`} onClick=${() => setAt(at === key ? null : key)}>${line}</button>`
        : line)}</td><td>${kind === "file" ? html`<h3>${text}</h3>` : text}</td></tr>
      ${at === key && html`<tr class="comment"><td></td><td><form class="form" onSubmit=${send(path, line, kind === "gone")}><label>Comment on ${path}:${line}${kind === "gone" && " as it was before"}<textarea name="text" rows="2" required
        ref=${focused} /></label><p class="row"><button class="main">Comment</button><button type="button" onClick=${() => setAt(null)}>Cancel</button></p>
        <${Problem} error=${state.error} /></form></td></tr>`}`)}</tbody></table></div>${data.cut && html`<p class="quiet">The diff is longer: <code>plan-agent diff</code> shows the rest.</p>`}`;
}

/// The end of what the agent prints, live.
function Output({ plan, number, base }) {
  const [text, setText] = useState("");
  const [error, setError] = useState(null);
  const box = useRef();
  useEffect(() => {
    let gone = false;
    let [attempt, from] = [null, 0];
    const read = inTurn(async () => {
      if (gone) return;
      try {
        const got = await get(`${base}/output?from=${from}`);
        const other = got.attempt !== attempt && from > 0;
        if (other) setText("");
        else if (got.next > from) setText((old) => (old + got.text).slice(-65536));
        from = other ? 0 : got.next;
        attempt = got.attempt;
        if (other || (got.text.length > 0 && !got.end)) read();
      } catch (wrong) {
        setError(wrong);
      }
    });
    read();
    const end = listen((change) => !change.link && !change.beat && (!change.output || String(change.task) === number) && read());
    return () => ((gone = true), end());
  }, [plan, number]);
  useEffect(() => {
    const { current: shown } = box;
    if (shown && shown.scrollHeight - shown.scrollTop - shown.clientHeight < 400) shown.scrollTop = shown.scrollHeight;
  }, [text]);
  if (!text) return html`<p class="quiet">${error ? error.message : "Nothing has been printed."}</p>`;
  return html`<pre class="tail" ref=${box} tabindex="0" role="region" aria-label="Output of the agent">${text.replace(/␛\[[0-9;]*[A-Za-z]/g, "")}</pre>`;
}

export function Task({ plan, number }) {
  const base = `/plans/${encodeURIComponent(plan)}/tasks/${encodeURIComponent(number)}`;
  const wants = (change) => !change.tasks?.length || change.tasks.includes(Number(number));
  const { data: task, error } = useData(base, wants);
  if (!task) return html`<${Pending} error=${error} />`;
  const history = [...(task.history || [])].reverse();
  const gone = ["replaced", "aborted"].includes(task.state);
  const over = gone || ["completed", "skipped"].includes(task.state);
  const kept = history.filter((each) => each.kept).map((each) => each.number);
  const link = (other) => html`<a href=${`#/p/${plan}/t/${other.id ?? other}`}>${other.id ?? other}${other.name && ` · ${other.name}`}</a> `;
  const note = (label, required) => [["note", label, "text", required]];
  return html`<p class="crumbs"><a href="#/">Plans</a> / <a href=${`#/p/${plan}`}>${plan}</a> / task ${task.id}</p>
    <header class="head"><div class="grow"><h1 tabindex="-1">${task.id} · ${task.name}</h1><p class="row facts"><${State} state=${task.state} proven=${task.proven} />
      <span>${many(task.attempts, "attempt")}</span>${task.assignee && html`<span>role ${task.assignee}</span>`}<span class="quiet">${
      [task.usage?.cost_usd > 0 && `cost ${money(task.usage.cost_usd)}`, task.usage?.seconds > 0 && `${span(task.usage.seconds * 1000)} of work`].filter(Boolean).join(", ")}</span>${task.daemon === false && !over && html`<span class="quiet">no daemon carries the plan out</span>`}</p></div>
    ${!gone && html`<div class="actions">
      <${Act} label="Note" path=${`${base}/note`} fields=${[...note("What the next attempt is to know", true), task.state === "in_progress" && ["now", "Stop the agent at work: it goes on with this at once", "check"]].filter(Boolean)} />
      <${Act} label="Retry" path=${`${base}/retry`} fields=${[...note("Note for the agent (may be empty)"), over && ["yes", "Tasks that came after it may open again", "check"]].filter(Boolean)} />
      ${!over && html`<${Act} label="Done" path=${`${base}/done`} fields=${note("Note (may be empty)")} about="You say that it is done; no check runs." />
      <${Act} label="Skip" kind="danger" path=${`${base}/skip`} fields=${note("Note (may be empty)")} about="It is left out; what waits for it goes on without it." />`}</div>`}</header>
    <${Problem} error=${error} />
    <section class="card why"><h2>Why</h2><${Text} text=${reasons(task.why || "")} />
      ${!over && said(task.told) && html`<p>The next attempt is told:</p><${Text} text=${task.told} />`}
      ${task.state === "asks_you" && html`<p><a class="badge" href=${`#/questions/${plan}/${number}`}>? Answer its question</a></p>`}
      ${task.dependencies?.length > 0 && html`<p class="quiet">Comes after ${task.dependencies.map((each, at) => [at > 0 && ", ", link(each)])}</p>`}
      ${task.dependants?.length > 0 && html`<p class="quiet">Comes before ${task.dependants.map((each, at) => [at > 0 && ", ", link(each)])}</p>`}</section>
    <section><h2>Attempts</h2>${history.length ? history.map((attempt, at) => html`<${Attempt} key=${attempt.number} attempt=${attempt} last=${at === 0} asks=${task.state === "asks_you"} />`)
      : html`<p class="quiet">None yet.</p>`}</section>
    <section><h2>What it changed</h2><${Diff} base=${base} wants=${wants} may=${!gone && !window.readOnly}
      tries=${task.attempts} kept=${kept.length > 1 || task.state !== "completed" ? kept : []} /></section>
    <section><h2>Output of the agent</h2><${Output} plan=${plan} number=${number} base=${base} /></section>
    <details class="card"><summary>What is asked of it</summary><${Text} text=${task.description} />
      ${[["Expected", task.expected], ["Constraints", task.constraints], ["Checks", task.checks], ["Files it makes", task.produces], ["Note", task.note]].map(([name, value]) =>
        value?.length > 0 && html`<h3>${name}</h3><${Text} text=${[value].flat().map((each) => each.name || each.text || String(each)).join("\n")} />`)}</details>`;
}
