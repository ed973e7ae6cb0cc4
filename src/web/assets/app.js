// The frame of the page, and the pages over all plans: plans, questions, workers.
import { html, render, useEffect, useRef, useState } from "./preact.js";
import { KEY, follow, getRows, link, listen, logOut, say, takeCode, takeToken, token, useAction, useData } from "./live.js";
import { Act, Ago, Bar, Pending, Problem, State, Waits, clock, many, money } from "./parts.js";
import { Log, PAGE, Plan, UNSAVED, drafts } from "./plan.js";
import { Task } from "./task.js";

const id = encodeURIComponent;
/// The questions that this tab answered, with what; what else is gone was answered elsewhere.
const answeredHere = new Map();

function Plans({ plans, error, more }) {
  if (!plans) return html`<${Pending} error=${error} />`;
  return html`<header class="head"><div><h1 tabindex="-1">Plans</h1>
      <p class="quiet">${plans.total ? `${many(plans.total, "plan")}, ${plans.open} open` : "No plan yet."}${" · "}
        ${plans.daemon ? `a daemon carries them out (pid ${plans.daemon.pid})` : html`no daemon works here: <code>plan-agent daemon</code> starts one`}</p></div>
    <${Act} label="New goal" go="Start" kind="main" path="/plans" about="What is to be reached, in your words. Agent, checks and rights are those that are configured."
      fields=${[["goal", "Goal", "text", true], ["review", "Show me the plan before anything starts", "check"]]}
      then=${(answer) => (location.hash = `#/p/${id(answer.plan)}`)} /></header>
  ${plans.total === 0 && html`<p>A plan begins with a goal: press <b>New goal</b>, or type <code>plan-agent run "…"</code>.</p>`}
  <ul class="plans">${plans.plans.map((plan) => html`<li key=${plan.id} class="card plan">
    <div class="grow"><h2><a href=${`#/p/${id(plan.id)}`}>${plan.name || plan.goal}</a></h2>
      ${plan.goal !== plan.name && html`<p class="goal">${plan.goal}</p>`}
      <p class="quiet"><code>${plan.key}</code> · made <${Ago} time=${plan.created_at} />${plan.finished_at && html` · ended <${Ago} time=${plan.finished_at} />`}
      ${plan.cost_usd > 0 && ` · ${money(plan.cost_usd)}`}</p><${Waits} plan=${plan} /></div>
    <div class="side"><${State} state=${plan.state} />
      ${plan.tasks > 0 && html`<span class="count">${plan.completed} of ${plan.tasks} done</span><${Bar}
        value=${plan.completed} max=${plan.tasks} label=${`${plan.completed} of ${plan.tasks} tasks done`} />`}
      ${plan.questions > 0 && html`<a class="badge" href="#/questions">? asks you${plan.questions > 1 ? ` ×${plan.questions}` : ""}</a>`}</div></li>`)}</ul>
  ${plans.next && html`<button onClick=${more}>Show ${PAGE} more</button>`}`;
}

function Question({ question, first }) {
  const [[choice, setChoice], [note, setNote], [sure, setSure]] = [useState(null), useState(""), useState(false)];
  const [state, act] = useAction();
  const card = useRef();
  const name = `choice-${question.plan}-${question.id}`;
  const ready = choice && (choice !== "abort" || sure) && !state.busy;
  // Keys 1–9 work where the focus is, so the first question takes it, unless the person is elsewhere.
  useEffect(() => void (first && /^(BODY|H1)$/.test(document.activeElement.tagName) && card.current.focus({ preventScroll: true })), [first]);
  const keys = (event) => {
    const typing = event.target.tagName === "TEXTAREA" || event.ctrlKey || event.altKey || event.metaKey;
    const chosen = !typing && question.choices[event.key - 1];
    if (!chosen || window.readOnly) return;
    event.preventDefault();
    setChoice(chosen.word);
    card.current.querySelector("textarea, .main")?.focus();
  };
  const send = (event) => {
    event.preventDefault();
    act(`/questions/${id(question.id)}/answer`, { choice, note }, () => (answeredHere.set(question.id, choice), say("Answered.")));
  };
  return html`<li class="card question" tabindex="-1" ref=${card} onKeyDown=${keys} aria-labelledby=${name}>
    <form onSubmit=${send}><p class="quiet"><a href=${`#/p/${id(question.plan)}`}>${question.plan_name}</a>${question.task != null && html` · <a
      href=${`#/p/${id(question.plan)}/t/${question.task}`}>${question.task} · ${question.task_name}</a>`} · asked <${Ago} time=${question.asked_at} />${question.choices[0]?.word === "approve" &&
      html` · <a href=${`#/p/${id(question.plan)}/review`}>Read the whole plan</a> ${drafts.has(question.plan) && UNSAVED}`}</p>
    <h2 id=${name} class="text">${question.text}</h2>${question.output.length > 0 && html`<pre tabindex="0">${question.output.join("\n")}</pre>`}
    <fieldset disabled=${window.readOnly}><legend class="unseen">Your answer</legend>
      ${question.choices.map((each, at) => html`<label class=${choice === each.word ? "choice chosen" : "choice"}><input type="radio" name=${name}
        checked=${choice === each.word} onChange=${() => setChoice(each.word)} /><kbd>${at + 1}</kbd><span><b>${each.word}</b> ${each.meaning}</span></label>`)}
      ${question.note_allowed !== false && html`<label>Note<textarea rows="2" value=${note} onInput=${(e) => setNote(e.target.value)}
        onKeyDown=${(e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && ready && send(e)} /></label>`}
      ${choice === "abort" && html`<label class="check"><input type="checkbox" checked=${sure} onChange=${(e) => setSure(e.target.checked)} /> End the plan for good</label>`}
      <p class="row"><button class="main" disabled=${!ready}>Answer${choice ? `: ${choice}` : ""}</button>
        <span class="quiet keys">Keys: 1–${Math.min(9, question.choices.length)} choose, Ctrl+Enter answers</span></p></fieldset>
    <${Problem} error=${state.error} /></form></li>`;
}

/// What was answered while it was shown stays, with a word, until the page is left.
function Questions({ questions, error, of: [plan, task] }) {
  const before = useRef(new Map());
  if (!questions) return html`<${Pending} error=${error} />`;
  const open = new Map(questions.questions.map((each) => [`${each.plan}/${each.id}`, each]));
  const gone = [...before.current].filter(([key]) => !open.has(key));
  for (const [key, each] of open) before.current.set(key, each);
  // The question that one came for is the first.
  const named = ([, each]) => each.plan === plan && (!task || String(each.task) === task);
  const shown = [...open].sort((a, b) => named(b) - named(a));
  return html`<h1 tabindex="-1">Questions</h1>
    <p class="quiet">${open.size ? `${many(open.size, "question")} wait${open.size === 1 ? "s" : ""} for your answer.`
      : "No question is open."}</p>
    <ul class="plain">${shown.map(([key, each], at) => html`<${Question} key=${key} question=${each} first=${at === 0} />`)}
    ${gone.map(([key, each]) => html`<li class="card past" key=${`past ${key}`}><b>✓ Answered ${
      answeredHere.has(each.id) ? `here: ${answeredHere.get(each.id)}` : "elsewhere"}</b>
      ${" · "}${each.plan_name}: ${each.text}</li>`)}</ul>`;
}

function Workers() {
  const { data, error } = useData("/workers", undefined, 1000);
  useEffect(() => listen((change) => change.beat), []);
  if (!data) return html`<${Pending} error=${error} />`;
  return html`<h1 tabindex="-1">Workers</h1>
    ${data.workers.length ? html`<p class="quiet">${many(data.workers.length, "task")} at work with workers: agents, programs or people who take tasks and report.</p>
    <div class="scroll" role="region" aria-label="Workers" tabindex="0"><table><thead><tr><th>Doing</th><th>Role</th><th>Agent</th><th>Machine</th><th>Since</th>
      <th>Last heartbeat</th></tr></thead><tbody>${data.workers.map((each) => html`<tr key=${each.command}>
      <td><a href=${`#/p/${id(each.plan)}/t/${each.task}`}>${each.task} · ${each.task_name}</a>${each.doing && html`<p class="quiet">${each.doing}</p>`}
        ${each.blocked_until && html`<p class="state asks">Ⅱ parked until ${clock(each.blocked_until)}</p>`}</td>
      <td>${each.role || "any"}</td><td>${each.agent || "not said"}</td><td>${each.machine || "not said"}</td><td><${Ago} time=${each.since} /></td>
      <td>${each.last_heartbeat ? html`<${Ago} time=${each.last_heartbeat} />` : "none yet"}</td></tr>`)}</tbody></table></div>`
    : html`<p>No worker (an agent, a program or a person) has a task at the moment. <code>plan-agent worker --agent claude</code> starts one; <code>run</code> brings its own.</p>`}
    ${data.relays.length > 0 && html`<h2>Relays</h2><p class="quiet">They bring tasks to agents on other machines.</p><ul>${data.relays.map((each) => html`<li key=${each.name}>
      ${each.lost && html`<span class="state bad">✗ lost</span> `}<b>${each.name}</b> · ${each.agent} · version ${each.version} · heard of <${Ago} time=${each.last_heartbeat} /> ·
      ${each.roles.some(Boolean) ? ` for ${each.roles.join(", ")} · ` : " "}${each.holds.length ? `has ${many(each.holds.length, "command")}` : "has no command"}</li>`)}</ul>`}`;
}

function LogIn() {
  const [error, setError] = useState(null);
  const enter = (event) => {
    event.preventDefault();
    const given = event.target.elements.address.value.trim();
    if (/^[\w -]{8,9}$/.test(given)) return takeCode(given).then(() => location.reload(), setError);
    if (takeToken(given) || takeToken(`#token=${given}`)) location.reload();
  };
  return html`<main class="login"><h1 tabindex="-1">plan-agent</h1>
    <p>${sessionStorage.getItem(KEY) === "" ? "The server here does not know this tab's key: it was replaced, or another folder's page has taken this address."
      : "This tab has no key yet."} Open the address that <code>plan-agent web</code> prints, or paste it here. On a phone, type
      the code that <code>plan-agent web --pair</code> prints.</p>
    <form onSubmit=${enter}><label>Address or code<input name="address" autocomplete="off" autocapitalize="characters" spellcheck="false"
      required /></label><button class="main">Open</button></form><${Problem} error=${error} /></main>`;
}

/// Reads the address below `#/`: `p/PLAN/t/TASK` and so on.
function route() {
  if (takeToken(location.hash)) location.reload();
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return [];
  }
}

function App() {
  const [at, setAt] = useState(route());
  const [, draw] = useState(0);
  const [page, plan, part, number] = at;
  const [inPlan, known] = [page === "p", token() !== null];
  const asked = useData(known ? "/questions" : null, undefined, 500);
  const [rows, setRows] = useState(PAGE);
  const listed = useData(known ? `/plans?limit=${rows}` : null, () => !inPlan, 250, (path) => getRows(path, "plans", 0, rows));
  const plans = listed.data || listed.last;
  const count = asked.data?.questions.length ?? 0;
  window.readOnly = plans?.read_only ?? false;
  useEffect(() => {
    const moved = () => setAt(route());
    addEventListener("hashchange", moved);
    addEventListener("beforeunload", (event) => drafts.size && event.preventDefault());
    const end = listen((change) => (change.link || !Object.keys(change).length) && draw((n) => n + 1));
    // Times are told from now.
    const tick = setInterval(() => draw((n) => n + 1), 5000);
    return () => (removeEventListener("hashchange", moved), end(), clearInterval(tick));
  }, []);
  useEffect(() => {
    let later;
    const seen = () => {
      clearTimeout(later);
      // A tab in the background gives its connection back: the browser has six.
      if (document.hidden) later = setTimeout(() => follow(null), 60000);
      else if (token()) follow(inPlan ? plan : "");
    };
    seen();
    document.addEventListener("visibilitychange", seen);
    return () => (clearTimeout(later), document.removeEventListener("visibilitychange", seen));
  }, [inPlan, plan, known]);
  useEffect(() => {
    (document.querySelector(".question") || document.querySelector("h1"))?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [at.join("/")]);
  const title = { questions: "Questions", workers: "Workers", p: `Plan ${plan}${number ? ` · task ${number}` : ""}` }[page];
  document.title = `${count ? `(${count}) ` : ""}${title || "Plans"} — plan-agent`;
  useEffect(() => count && say(`${many(count, "question")} open`), [count]);
  if (!known) return html`<${LogIn} />`;
  const here = (name) => ((page || "") === name ? "page" : null);
  let body = html`<${Plans} plans=${plans} error=${listed.error} more=${() => setRows(rows + PAGE)} />`;
  if (page === "questions") body = html`<${Questions} questions=${asked.data} error=${asked.error} of=${at.slice(1)} />`;
  else if (page === "workers") body = html`<${Workers} />`;
  else if (inPlan && part === "t") body = html`<${Task} key=${`${plan}/${number}`} plan=${plan} number=${number} />`;
  else if (inPlan && part === "log") body = html`<${Log} key=${plan} plan=${plan} />`;
  else if (inPlan) body = html`<${Plan} key=${plan} plan=${plan} part=${part || "tasks"} />`;
  return html`<header class="top"><nav aria-label="Pages"><a class="brand" href="#/">plan-agent</a>
      <a href="#/" aria-current=${here("")}>Plans</a>
      <a href="#/questions" aria-current=${here("questions")}>Questions${count > 0 && html` <span class="badge">${count}</span>`}</a>
      <a href="#/workers" aria-current=${here("workers")}>Workers</a></nav>
    <p class="live">${window.readOnly && html`<span>read only</span>`}
      <span>${link.silentSince ? "○ not live" : link.started ? "● live" : "○ connecting"}</span><button class="plain" onClick=${logOut}>Log out</button></p></header>
    ${link.silentSince && html`<p class="banner" role="status">Not live since ${clock(new Date(link.silentSince))}: the server does not answer. What is
      shown may be old; the page goes on by itself when it answers.</p>`}
    <main>${body}</main>`;
}

render(html`<${App} />`, document.getElementById("app"));
