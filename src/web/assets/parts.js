// The parts that several pages share: words for states, spans of time, forms for actions.
import { Component, html, useRef, useState } from "./preact.js";
import { useAction } from "./live.js";

/// Makes a component that is drawn again only when it is given something else: of a thousand rows, those that changed.
export const kept = (draw) =>
  class extends Component {
    shouldComponentUpdate(next) {
      return Object.keys(next).some((name) => next[name] !== this.props[name]);
    }
    render(props) {
      return draw(props);
    }
  };

const STATES = {
  completed: ["✓", "good"], in_progress: ["▶", "busy"], checking: ["◐", "busy"], asks_you: ["?", "asks"],
  ready: ["○", "plain"], waiting: ["·", "plain"], failed: ["✗", "bad"], skipped: ["–", "plain"],
  replaced: ["↷", "plain"], aborted: ["■", "bad"], not_started: ["○", "plain"], planning: ["✎", "busy"],
  reviewing: ["?", "asks"], running: ["▶", "busy"], stopped: ["■", "plain"], paused: ["Ⅱ", "asks"],
};

/// Returns glyph, word and kind of a state; a completed task says how sure that is.
export function look(state, proven) {
  if (state === "completed" && proven === false) return ["~", "accepted", "unsure"];
  const [glyph, kind] = STATES[state] || ["·", "plain"];
  return [glyph, proven ? "proven" : words(state), kind];
}

/// A word with a shape and a colour that say the same.
export const Mark = ({ as: [glyph, word, kind] }) => html`<span class=${`state ${kind}`}><span class="glyph" aria-hidden="true">${glyph}</span>${word}</span>`;
export const State = ({ state, proven }) => html`<${Mark} as=${look(state, proven)} />`;

/// Why a plan does not go on, as its state says it.
export const Waits = ({ plan: { state, waits } }) =>
  waits && html`<p class="quiet">${{ paused: waits === "on the page" ? "paused" : "paused:" }[state] ?? "waits"} ${waits}</p>`;

export const words = (text) => String(text).toLowerCase().replaceAll("_", " ");
export const ended = (state) => ["completed", "failed", "aborted"].includes(state);

/// Returns milliseconds of a time as the server writes it, or as it is stored (microseconds).
export const ms = (time) => (time == null ? null : typeof time === "number" ? time / 1000 : Date.parse(time));

export function span(milliseconds) {
  const seconds = Math.max(0, milliseconds / 1000);
  if (seconds < 90) return `${seconds < 10 ? +seconds.toFixed(1) : Math.floor(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function Ago({ time }) {
  if (ms(time) === null) return null;
  const date = new Date(ms(time));
  return html`<time datetime=${date.toISOString()} title=${date.toLocaleString()}>${span(Date.now() - date)} ago</time>`;
}

export const clock = (time) => new Date(ms(time)).toLocaleTimeString([], { hour12: false });
export const money = (usd) => (usd && usd < 0.005 ? "<$0.01" : `$${(usd || 0).toFixed(2)}`);
export const many = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/// A measured bar; the words beside it say the same.
export function Bar({ value, max, label, budget }) {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  return html`<svg class=${budget && share >= 0.9 ? "bar full" : "bar"} viewBox="0 0 100 6" preserveAspectRatio="none" role="img"
    aria-label=${label}><rect class="rail" width="100" height="6" /><rect class="fill" width=${share * 100} height="6" /></svg>`;
}

export function Problem({ error }) {
  return error && html`<p class="problem" role="alert">${error.message}${error.hint && html`<br />Hint: ${error.hint}`}</p>`;
}

/// Text from elsewhere, with its line breaks.
export const Text = ({ text }) => (text ? html`<div class="text">${text}</div>` : null);

/// A sentence of the server, with its commands and names between backticks.
export const Said = ({ text }) => text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

/// What a page shows before its data is there, and when it cannot be had.
export function Pending({ error }) {
  if (!error) return html`<p class="quiet">Reading …</p>`;
  const title = { 404: "Not found", undefined: "No answer" }[error.status] ?? "Not available";
  return html`<h1 tabindex="-1">${title}</h1><${Problem} error=${error} />${!error.status && html`<p>The page goes on by itself when it does.</p>`}`;
}

/// Gives a new element the focus, once it is in the page: it is made before.
export const focused = (element) => element && queueMicrotask(() => element.focus());

let closeOther = () => {};
/// A button that opens a form and sends one action, with `go`. `fields` are `[name, label, kind, required]`; `confirm` must be typed.
export function Act({ label, path, fields = [], confirm, body = {}, about, kind = "", go = label, then }) {
  const [open, setOpen] = useState(false);
  const [values, setValues] = useState({});
  const [state, act, clear] = useAction();
  const button = useRef();
  if (window.readOnly) return null;
  const send = (event) => {
    event?.preventDefault();
    const read = { check: (value = false) => value, numbers: (value = "") => (value.match(/\d+/g) || []).map(Number) };
    const sent = fields.map(([name, , type]) => [name, read[type] ? read[type](values[name]) : (values[name] ?? "")]);
    act(path, { ...body, ...(confirm && { confirm: values.confirm }), ...Object.fromEntries(sent) }, (answer) => (hide(), setValues({}), then?.(answer)));
  };
  const simple = !fields.length && !confirm;
  // One form is open at a time; what was typed into another is there when it is opened again.
  const hide = () => (setOpen(false), button.current?.focus());
  const close = () => (hide(), clear());
  const press = () => (simple ? send() : (clear(), open || (closeOther(), (closeOther = () => (setOpen(false), clear()))), setOpen(!open)));
  const change = (name, value) => setValues((old) => ({ ...old, [name]: value }));
  return html`<div class=${open ? "act open" : "act"}>
    <button type="button" ref=${button} class=${kind} aria-expanded=${simple ? null : open} onClick=${press}>${label}</button>
    ${open && html`<form class="card form" onSubmit=${send} onKeyDown=${(e) => (e.key === "Escape" ? close() : e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.currentTarget.requestSubmit())}>
      ${about && html`<p>${typeof about === "function" ? about() : about}</p>`}
      ${fields.map(([name, title, type, required], at) => type === "check"
        ? html`<label class="check"><input type="checkbox" checked=${values[name]} onChange=${(e) => change(name, e.target.checked)} /> ${title}</label>`
        : html`<label>${title}${type === "line" || type === "numbers"
            ? html`<input ref=${at === 0 && focused} required=${required} value=${values[name] ?? ""} onInput=${(e) => change(name, e.target.value)} />`
            : html`<textarea ref=${at === 0 && focused} rows="3" required=${required} value=${values[name] ?? ""} onInput=${(e) => change(name, e.target.value)} />`}</label>`)}
      ${confirm && html`<label>Type <b>${confirm}</b> to confirm<input ref=${fields.length === 0 && focused} autocomplete="off" value=${values.confirm ?? ""}
        onInput=${(e) => change("confirm", e.target.value)} /></label>`}
      <p class="row"><button class=${kind || "main"} disabled=${confirm && values.confirm !== confirm}>${go}</button>
      <button type="button" onClick=${close}>Cancel</button></p>
    </form>`}
    <${Problem} error=${state.error} />
    ${state.done && !open && html`<p class="done" role="status">${state.done}</p>`}
  </div>`;
}
