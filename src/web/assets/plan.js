// One plan: its tasks as list, graph and timeline, its review, its log.
import { html, useEffect, useRef, useState } from "./preact.js";
import { get, getRows, inTurn, listen, say, useAction, useData } from "./live.js";
import { Act, Ago, Bar, Mark, Pending, Problem, Said, State, Text, Waits, ended, kept, many, money, span, words } from "./parts.js";
import { Graph, Timeline } from "./graph.js";

export const PAGE = 100;
/// Among the numbers of tasks that changed: any of them may have.
const ALL = 0;
const NOTE = [["note", "Note (may be empty)", "text"]];
export const UNSAVED = "Your changes of the whole plan are not saved: the plan begins without them.";

/// The tasks of a plan, page by page. A change reads again only the tasks that it names.
function useTasks(plan, first, all) {
  const [state, set] = useState({ rows: [], next: 0, first: 0 });
  const now = useRef(state);
  const loading = useRef(false);
  const base = `/plans/${encodeURIComponent(plan)}/tasks`;
  const put = (next) => set((now.current = next));
  const more = async () => {
    const from = now.current;
    if (loading.current || from.next === null) return;
    loading.current = true;
    const got = getRows(`${base}?limit=${PAGE}`, "tasks", from.next, from.rows.length + 1, from.rows);
    put({ ...from, ...(await got.then(({ tasks, next }) => ({ rows: tasks, next }), (error) => ({ error }))) });
    loading.current = false;
  };
  const begin = (after) => (put({ rows: [], next: after, first: after }), more());
  const again = async () => {
    const { rows, first: after } = now.current;
    const { tasks, next } = await getRows(`${base}?limit=${PAGE}`, "tasks", after, Math.max(rows.length, PAGE));
    put({ rows: tasks, next, first: after });
  };
  useEffect(() => void (first !== null && begin(first)), [plan, first === null]);
  useEffect(() => void (all && state.next !== null && state.rows.length && state.rows.length < all && more()), [all, state]);
  useEffect(() => {
    let due = new Set();
    const read = async (numbers) => {
      const { rows } = now.current;
      if (numbers.has(ALL) || numbers.size > 8) return again();
      const shown = [...numbers].filter((number) => rows.some((row) => row.id === number));
      if (shown.length < numbers.size && now.current.next === null) return again();
      const fresh = new Map();
      const readOne = async (number) => {
        const before = rows[rows.findIndex((row) => row.id === number) - 1];
        const row = (await get(`${base}?after=${before?.id ?? now.current.first}&limit=1`)).tasks[0];
        if (row?.id === number) fresh.set(number, row);
      };
      await Promise.all(shown.map(readOne));
      if (fresh.size < shown.length) return again();
      put({ ...now.current, rows: now.current.rows.map((row) => fresh.get(row.id) || row) });
    };
    const work = inTurn(() => {
      const numbers = due;
      due = new Set();
      return read(numbers).catch(() => {});
    });
    return listen((change) => {
      if (change.link || change.beat || change.output || change.head) return;
      (change.tasks || [ALL]).forEach((number) => due.add(number));
      work();
    });
  }, [plan]);
  return [state, more, begin];
}

const Row = kept(({ plan, task }) => html`<tr><td class="num">${task.id}</td>
    <td><a href=${`#/p/${plan}/t/${task.id}`}>${task.name}</a>${task.waits_until && html` <span class="quiet">parked until ${task.waits_until}</span>`}</td>
    <td><${State} state=${task.state} proven=${task.proven} /></td><td class="wide quiet">${task.dependencies?.length > 0 && `after ${task.dependencies.join(", ")}`}</td><td class="wide">${task.assignee}</td>
    <td class="num wide">${task.attempts || ""}</td><td class="num wide">${task.usage?.cost_usd ? money(task.usage.cost_usd) : ""}</td>
    <td class="num wide">${task.usage?.seconds ? span(task.usage.seconds * 1000) : ""}</td></tr>`);

export const TaskTable = kept(({ plan, rows }) => html`<table class="tasks"><caption class="unseen">Tasks</caption><thead><tr><th class="num">No.</th><th>Task</th><th>State</th><th class="wide">Waits</th>
    <th class="wide">Role</th><th class="num wide">Tries</th><th class="num wide">Cost</th><th class="num wide">Time</th></tr></thead>
    <tbody>${rows.map((task) => html`<${Row} key=${task.id} plan=${plan} task=${task} />`)}</tbody></table>`);

function Jump({ total, begin }) {
  const go = (event) => (event.preventDefault(), begin(Math.max(0, Number(event.target.elements.task.value) - 1)));
  return html`<form class="row jump" onSubmit=${go}><label>Show from task<input name="task" inputmode="numeric" pattern="[0-9]+" size="6" required /></label>
    <button>Go</button><span class="quiet">of ${total.toLocaleString("en")}</span></form>`;
}

function Budget({ usage }) {
  const most = usage.budget || {};
  const tokens = (usage.llm_input_tokens || 0) + (usage.llm_output_tokens || 0);
  const cost = (usage.llm_cost_usd || 0) + (usage.agent_cost_usd || 0);
  const count = (n) => n.toLocaleString("en");
  const rows = [
    ["Cost", cost, most.cost_usd, money], ["Time", usage.wall_seconds * 1000, most.wall_seconds * 1000, span],
    ["Attempts", usage.attempts, most.attempts, count], ["Model calls", usage.llm_calls, most.llm_calls, count],
    ["Model tokens", tokens, most.llm_tokens, count],
  ];
  return html`<section class="card"><h2>Used of the budget</h2><ul class="plain budget">${rows.map(([name, used, limit, words]) => {
    const said = limit ? `${words(used || 0)} of ${words(limit)}` : words(used || 0);
    return html`<li><span>${name}</span><span>${said}</span>${limit > 0 && html`<${Bar} value=${used} max=${limit} budget label=${`${name}: ${said}`} />`}</li>`;
  })}</ul></section>`;
}

const LOOKS = { met: ["✓", "met", "good"], not_met: ["✗", "not met", "bad"], not_proven: ["~", "not proven", "unsure"] };

const TaskEvidence = kept(({ plan, task }) => html`<li>
  <a href=${`#/p/${plan}/t/${task.id}`}>${task.id} · ${task.name}</a><ul class="plain">${(task.criteria || []).map((each) => html`<li><${Mark} as=${LOOKS[each.state]} />
    ${" "}${each.text || "its result"} <span class="quiet">${each.why}</span></li>`)}</ul></li>`);

/// What stands behind the goal: what was expected of each task, and how that ended.
const Evidence = kept(({ plan, rows }) => {
  const shown = rows.filter((task) => task.criteria?.length || task.evidence?.length);
  if (!shown.length) return null;
  return html`<section class="card"><h2>What is proven of the goal</h2><ul class="plain evidence">${shown.map((task) => html`<${TaskEvidence}
    key=${task.id} plan=${plan} task=${task} />`)}</ul></section>`;
});

/// What was written into plans and not saved: it is there again when the person comes back.
export const drafts = new Map();

/// The whole plan as its file, to be read, changed, approved.
function Review({ plan, state }) {
  const [shown, show] = useState(drafts.get(plan) ?? null);
  const [error, setError] = useState(null);
  const [result, act, clear] = useAction();
  const path = `/plans/${encodeURIComponent(plan)}/plan`;
  const load = () => get(path, true).then((got) => (drafts.delete(plan), show(got), clear()), setError);
  const edit = (text) => (drafts.set(plan, { ...shown, text }), show(drafts.get(plan)));
  useEffect(() => void (shown || load()), [plan]);
  useEffect(() => listen((change) => change.seq > shown?.seq && !drafts.has(plan) && load()), [plan, shown]);
  if (error || !shown) return html`<${Pending} error=${error} />`;
  const fixed = window.readOnly || ended(state);
  const save = (event) => {
    event.preventDefault();
    act(path, { text: shown.text, at: shown.seq }, () => (say("The plan is changed."), load()));
  };
  return html`<form onSubmit=${save}><label>The plan, with descriptions, checks and files. ${state === "reviewing" ? "Nothing starts before you approve it." : ""}
    <textarea class="plan-text" rows="30" spellcheck="false" readonly=${fixed} value=${shown.text} onInput=${(e) => edit(e.target.value)} /></label>
    <${Problem} error=${result.error} />
    ${!fixed && html`<p class="row"><button class=${state === "reviewing" ? "" : "main"} disabled=${result.busy}>Save changes</button>
      <button type="button" onClick=${() => (!drafts.has(plan) || confirm("What you changed here is lost then.")) && load()}>Read it again</button><span class="quiet" role="status">${
      drafts.has(plan) ? "Not saved yet." : result.done}</span></p>`}</form>`;
}

function Head({ plan, view, at }) {
  const { plan: { state, name, goal }, progress, questions = [] } = view;
  const path = `/plans/${encodeURIComponent(plan)}`;
  const done = progress.completed;
  const going = ["running", "planning", "reviewing", "not_started", "stopped"].includes(state);
  const left = ["asks_you", "in_progress", "checking", "ready", "waiting", "failed", "skipped"].slice(ended(state) ? 5 : 0);
  const rest = left.filter((key) => progress.by_state[key]).map((key) => `${progress.by_state[key]} ${words(key)}`);
  return html`<p class="crumbs"><a href="#/">Plans</a> / <code>${view.plan.id}</code></p>
  <header class="head"><div class="grow"><h1 tabindex="-1">${name || goal}</h1>${goal !== name && html`<p class="goal">${goal}</p>`}
    <p class="row facts"><${State} state=${state} /><span>${done} of ${many(progress.total, "task")} done</span>
      ${rest.length > 0 && html`<span class="quiet">${rest.join(" · ")}</span>`}
      <span class="quiet">${at ? `as it was after change ${at}` : view.daemon ? `daemon ${view.daemon.pid ?? `at ${view.daemon.home}`}` : ended(state) ? "" : state === "paused" ? "" : view.queued ? "in the queue of a daemon" : html`no daemon carries it out: <code>plan-agent ${
        state === "not_started" ? "daemon" : `resume ${view.plan.id}${view.home ? " --here" : ""}`}</code> starts one`}</span></p>
    <${Waits} plan=${view.plan} />
    ${!at && view.place && html`<p class=${`sentence ${ended(state) ? "" : "quiet"}`}><${Said} text=${view.place} /></p>`}
    <${Bar} value=${done} max=${progress.total} label=${`${done} of ${progress.total} tasks done`} /></div>
    ${!at && html`<div class="actions">
      ${state === "reviewing" && html`<${Act} label="Approve" kind="main" path=${`${path}/approve`} body=${{ if_seq: view.seq }} fields=${NOTE} about=${() => drafts.has(view.plan.id) && UNSAVED} />`}
      ${state === "paused" && html`<${Act} label="Resume" kind="main" path=${`${path}/resume`} />`}
      ${going && html`<${Act} label="Pause" path=${`${path}/pause`} fields=${NOTE} about="Nothing new is started; what is under way goes on." />`}
      ${(!ended(state) || state === "completed") && html`<${Act} label="Add task" path=${`${path}/tasks`} fields=${[["name", "Name", "line", true],
        ["description", "What is to be done", "text", true], ["after", "After tasks (numbers)", "numbers"]]} />`}
      ${!ended(state) && html`<${Act} label="Abort" kind="danger" path=${`${path}/abort`} fields=${NOTE} confirm=${view.plan.id}
        about="This ends the plan for good. Agents under way are stopped; what they wrote stays." />`}</div>`}</header>
  ${ended(state) && view.outcome && html`<section class="card"><h2>Result</h2><${Text} text=${view.outcome} /></section>`}
  ${!at && questions.length > 0 && html`<p class="ask"><a href=${`#/questions/${plan}`}>? asks you</a>${" · "}${questions[0].reason}${questions.length > 1 && ` · and ${questions.length - 1} more`}</p>`}`;
}

function Tabs({ plan, part }) {
  return html`<nav class="tabs" aria-label="Views of the plan">${[["tasks", "Tasks", ""], ["graph", "Graph", "/graph"], ["timeline", "Timeline", "/timeline"],
    ["review", "Whole plan", "/review"], ["log", "Log", "/log"]].map(([key, word, path]) => html`<a href=${`#/p/${plan}${path}`} aria-current=${part === key ? "page" : null}>${word}</a>`)}</nav>`;
}

export function Plan({ plan, part }) {
  // The list has the tasks: of those beside the plan, the first says where the list of a long plan begins.
  const { data, error } = useData(`/plans/${encodeURIComponent(plan)}?limit=8`);
  const drawn = part === "graph" || part === "timeline";
  const total = data?.progress.total ?? 0;
  const [tasks, more, begin] = useTasks(plan, data ? (total > PAGE * 2 ? Math.max(0, (data.tasks[0]?.id ?? 1) - 1) : 0) : null, drawn ? 400 : 0);
  if (!data) return html`<${Pending} error=${error} />`;
  const { rows } = tasks;
  return html`<${Head} plan=${plan} view=${data} /><${Problem} error=${error || tasks.error} /><${Tabs} plan=${plan} part=${part} />
    ${drawn && total > rows.length && html`<p class="quiet">${rows.length} of ${many(total, "task")} are drawn; the list has all of them.</p>`}
    ${part === "graph" && html`<${Graph} plan=${plan} rows=${rows} />`}
    ${part === "timeline" && html`<${Timeline} plan=${plan} rows=${rows} />`}
    ${part === "review" && html`<${Review} plan=${plan} state=${data.plan.state} />`}
    ${part === "tasks" && html`${total > PAGE && html`<${Jump} total=${total} begin=${begin} />`}
      ${tasks.first > 0 && html`<button onClick=${() => begin(Math.max(0, tasks.first - PAGE))}>Show earlier tasks</button>`}
      ${total ? html`<${TaskTable} plan=${plan} rows=${rows} />` : html`<p>The plan has no task yet${data.plan.state === "planning" ? ": the model is asked for them." : "."}</p>`}
      ${tasks.next !== null && rows.length > 0 && html`<button onClick=${() => more()}>Show ${PAGE} more</button>`}`}
    ${(part === "tasks" || part === "review") && html`<div class="cards"><${Budget} usage=${data.usage} />
      <${Evidence} plan=${plan} rows=${rows} /></div>`}`;
}

function Restore({ plan, at, seq, done }) {
  const path = `/plans/${encodeURIComponent(plan)}/restore`;
  const [preview, ask, forget] = useAction();
  const [shown, setShown] = useState(null);
  const [result, act, clear] = useAction();
  useEffect(() => (forget(), clear(), setShown(null)), [at]);
  if (window.readOnly || at >= seq) return null;
  return html`<div class="card"><p class="row"><button onClick=${() => (clear(), ask(path, { at, preview: true }, setShown))} disabled=${preview.busy}>What would a restore to ${at} change?</button></p>
    <${Problem} error=${preview.error || result.error} />${result.done && html`<p class="done" role="status">${result.done}</p>`}
    ${shown && !result.done && !result.error && html`<h2>Restoring change ${at}</h2>${shown.preview.length ? html`<ul>${shown.preview.map((each) =>
      html`<li>${each.task} · ${each.name}: ${words(each.was ?? "not in the plan")} → ${words(each.is ?? "taken out")}${each.edited.length > 0 && `; another ${each.edited.join(", ")}`}</li>`)}</ul>` : html`<p>No task changes.</p>`}
      <p>The plan comes back paused; tasks that were under way then begin anew. Files stay as they are, what was merged stays on the branch, and the log keeps everything.</p>
      <button class="main" onClick=${() => act(path, { at, preview: false, if_seq: shown.seq }, () => (say("Restored."), done()))}>Restore change ${at}</button>`}</div>`;
}

/// Every change, by whom and why; the slider shows the plan as it was after one of them.
export function Log({ plan }) {
  const base = `/plans/${encodeURIComponent(plan)}`;
  const now = useData(base);
  const seq = now.data?.plan.seq ?? 0;
  const [at, setAt] = useState(null);
  const [asked, setAsked] = useState(null);
  const [from, setFrom] = useState(null);
  useEffect(() => {
    const later = setTimeout(() => setAsked(at), 120);
    return () => clearTimeout(later);
  }, [at]);
  const then = useData(asked === null || asked >= seq ? null : `${base}?at=${asked}`, () => false);
  const first = from ?? Math.max(0, (at ?? seq) - PAGE);
  const log = useData(seq ? `${base}/log?after=${first}&limit=${PAGE + 1}` : null);
  if (!now.data) return html`<${Pending} error=${now.error} />`;
  const old = at !== null && at < seq;
  const view = old ? then.data || then.last : now.data;
  // What a daemon did that says nothing is left out; the slider goes over it.
  const changes = ((log.data || log.last)?.changes || []).filter((each) => each.by !== "daemon" || each.events.length).reverse();
  const set = (n) => (setAt(n >= seq ? null : n), (n < first || n > first + PAGE) && setFrom(Math.max(0, n - PAGE / 2)));
  return html`<${Head} plan=${plan} view=${view || now.data} at=${old && at} /><${Tabs} plan=${plan} part="log" />
    <div class="card slider"><label for="at">The plan as it was after change <b>${at ?? seq}</b> of ${seq}</label>
      <input id="at" type="range" min="1" max=${seq} value=${at ?? seq} onInput=${(e) => set(Number(e.target.value))} />
      <p class="row"><button onClick=${() => set(Math.max(1, (at ?? seq) - 1))}>One back</button><button disabled=${!old} onClick=${() => set((at ?? seq) + 1)}>One on</button>
      <button disabled=${!old} onClick=${() => (setAt(null), setFrom(null))}>Now</button></p></div>
    ${old && html`<${Problem} error=${then.error} /><${Restore} plan=${plan} at=${at} seq=${seq} done=${() => (setAt(null), setFrom(null))} />
      ${view && html`<details open><summary>Tasks after change ${at}</summary><${TaskTable} plan=${plan} rows=${view.tasks} /></details>`}`}
    <h2>Changes</h2><${Problem} error=${log.error} />
    <table class="log"><thead><tr><th class="num">No.</th><th>When</th><th>By</th><th>What and why</th></tr></thead><tbody>${changes.map((each) => html`<tr
      key=${each.seq} class=${each.seq === at ? "chosen" : each.seq > (at ?? seq) ? "later" : ""}>
      <td class="num"><button class="plain" aria-label=${`Show the plan after change ${each.seq}`} onClick=${() => set(each.seq)}>${each.seq}</button></td>
      <td><${Ago} time=${each.at} /></td><td>${each.by}</td><td><ul class="plain">${(each.events || []).map((text) => html`<li>${text}</li>`)}</ul>
        <span class="quiet">${each.why}</span></td></tr>`)}</tbody></table>
    <p class="row">${first > 0 && html`<button onClick=${() => setFrom(Math.max(0, first - PAGE))}>Earlier changes</button>`}
      ${from !== null && html`<button onClick=${() => setFrom(from + PAGE >= seq ? null : from + PAGE)}>Later changes</button>`}</p>`;
}

