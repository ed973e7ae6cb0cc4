// The token, requests, and the live stream. What the server sends is data: `marked` is the one way in.
import { useEffect, useRef, useState } from "./preact.js";

export const KEY = "plan-agent-token";
const HIDDEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

/// Shows control, bidi and zero-width characters as marks.
export const marked = (text) =>
  text.replace(HIDDEN, (c) => {
    const code = c.codePointAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });

const parse = (text) => JSON.parse(text, (_, value) => (typeof value === "string" ? marked(value) : value));

/// That of a tab, which its address brought, or that of the device, which a code brought: a new tab has it as well.
export const token = () => sessionStorage.getItem(KEY) || localStorage.getItem(KEY);

/// Takes the token out of an address: the fragment never reaches the server, and it does not stay in the history.
export function takeToken(address) {
  const given = /(?:^|[#&])token=([^&\s]+)/.exec(address);
  if (!given) return false;
  sessionStorage.setItem(KEY, decodeURIComponent(given[1]));
  history.replaceState(null, "", location.pathname + "#/");
  return true;
}

/// Gets the token for a code, which is a secret as well: it goes in a body.
export async function takeCode(code) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }) };
  const { token } = await read(await fetch("/api/v1/pair", options));
  localStorage.setItem(KEY, token);
}

/// Forgets the token. Of a tab that the server threw out this is kept, also when it is read again.
export function logOut(thrownOut) {
  localStorage.removeItem(KEY);
  thrownOut === true ? sessionStorage.setItem(KEY, "") : sessionStorage.removeItem(KEY);
  follow(null);
  emit({});
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function request(path, options = {}, key = token()) {
  const headers = { ...options.headers, authorization: `Bearer ${key}` };
  const answer = await fetch("/api/v1" + path, { ...options, headers, cache: "no-store" }).catch((error) => {
    if (error.name !== "AbortError") silent(link.silentSince ?? Date.now());
    throw new Error("The server does not answer.");
  });
  // What was asked while a person logged out says nothing of the key.
  if (answer.status === 401 && key && key === token()) logOut(true);
  return answer;
}

async function read(answer, raw) {
  const text = await answer.text();
  const body = await Promise.resolve(text).then(raw ? JSON.parse : parse).catch(() => ({}));
  if (answer.ok) return body;
  throw Object.assign(new Error(body.error || `the server answered ${answer.status}`), { status: answer.status, hint: body.hint });
}

/// Reads an answer. `raw` is only for text that goes back as it came, in the field where a person edits it.
export const get = async (path, raw) => read(await request(path), raw);

/// Reads a list page by page behind one of its rows, until there are so many rows.
export async function getRows(path, name, after, most, rows = []) {
  for (let next = after; ; ) {
    const page = await get(`${path}&after=${next}`);
    rows = [...rows, ...page[name]];
    next = page.next;
    if (next === null || rows.length >= most) return { ...page, [name]: rows };
  }
}

/// Sends an action. A cut connection is tried again with the same key, so it happens once.
export async function post(path, body) {
  const headers = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
  for (let tries = 0; ; tries++) {
    try {
      return await read(await request(path, { method: "POST", headers, body: JSON.stringify(body) }));
    } catch (error) {
      if (error.status || tries === 4) throw error;
      await sleep(250 << tries);
    }
  }
}

const listeners = new Set();
/// Calls a function for each change; a change without a plan means that everything is to be read again.
export const listen = (take) => (listeners.add(take), () => listeners.delete(take));
const emit = (change) => [...listeners].forEach((take) => take(change));

/// How live the page is: since when nothing was heard, or null; and whether the server did not know the key.
export const link = { silentSince: null, version: null, started: null };
let stream = { plan: undefined, abort: null, heard: Date.now() };

/// Follows one plan, or the heads of all (`""`), or nothing (`null`). A tab has one stream: a browser has six connections.
export function follow(plan) {
  if (stream.plan === plan) return;
  stream.abort?.abort();
  stream = { plan, abort: null, last: null, heard: Date.now() };
  if (plan !== null) run(stream);
}

async function run(mine) {
  const path = mine.plan ? `/plans/${encodeURIComponent(mine.plan)}/events` : "/events";
  for (let wait = 250; stream === mine; wait = Math.min(wait * 2, 5000)) {
    mine.abort = new AbortController();
    try {
      const answer = await request(mine.last === null ? path : `${path}?after=${mine.last}`, { signal: mine.abort.signal });
      if (!answer.ok) throw answer;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { done, value } = await reader.read();
        if (done) break;
        mine.heard = Date.now();
        if (stream === mine) silent(null);
        const blocks = (text + value).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) wait = take(mine, block) ? 250 : wait;
      }
    } catch {
      // Whatever cut the stream, the next one begins after the last number that was seen.
    }
    await sleep(wait * (0.5 + Math.random() / 2));
  }
}

function silent(since) {
  if (link.silentSince === since) return;
  link.silentSince = since;
  // What could not be read meanwhile is read now.
  emit(since === null ? {} : { link: true });
}

/// Takes one event of the stream in; returns whether it was the greeting.
function take(mine, block) {
  const fields = { event: "", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w*): ?(.*)$/s.exec(line) || [];
    if (name in fields) fields[name] += value;
  }
  if (!fields.data || stream !== mine) {
    emit({ beat: true });
    return false;
  }
  const data = parse(fields.data);
  if (fields.event === "hello") {
    if (link.version && link.version !== data.version) location.reload();
    if (link.started !== data.started || mine.last === null || data.seq < mine.last) mine.last = data.seq ?? null;
    Object.assign(link, { version: data.version, started: data.started });
    // Whatever was read before this stream began may be older than it.
    emit({});
    return true;
  }
  if (fields.event === "change") {
    const hole = mine.last !== null && data.seq > mine.last + 1;
    mine.last = data.seq;
    emit(hole ? {} : { plan: mine.plan, ...data });
  } else if (fields.event === "resync") {
    mine.last = null;
    emit({});
  } else emit({ [fields.event]: true, plan: mine.plan, ...data });
  return false;
}

setInterval(() => {
  if (stream.plan == null || Date.now() - stream.heard < 20000) return;
  silent(link.silentSince ?? stream.heard);
  // A connection that says nothing may be dead without an error.
  if (Date.now() - stream.heard > 40000) {
    stream.heard = Date.now() - 20000;
    stream.abort?.abort();
  }
}, 1000);

/// Returns a function that does its work one call after the other; of those that come meanwhile, the last.
export function inTurn(work) {
  let [busy, again] = [false, false];
  return async () => {
    again = true;
    if (busy) return;
    for (busy = true; again; ) {
      again = false;
      await work();
    }
    busy = false;
  };
}

/// Reads a path and reads it again when it changed; `wants` says which changes matter, `pause` bounds how often. Without one, the
/// server has as long to rest as it took to answer.
export function useData(path, wants = () => true, pause = 0, read = get) {
  const [state, set] = useState({});
  const wanted = useRef();
  wanted.current = wants;
  useEffect(() => {
    let gone = path === null;
    const load = inTurn(async () => {
      if (gone) return;
      const began = Date.now();
      try {
        const data = await read(path);
        if (!gone) set({ path, data });
      } catch (error) {
        if (!gone) set((old) => ({ path, data: old.path === path ? old.data : null, error }));
      }
      await sleep(Math.max(pause, Date.now() - began));
    });
    load();
    const matters = (change) => !change.link && !change.beat && !change.output && (!(change.plan || change.head) || wanted.current(change));
    const end = listen((change) => matters(change) && load());
    return () => ((gone = true), end());
  }, [path]);
  return state.path === path ? state : { last: state.data };
}

/// Sends actions, and says how the last one went; that it went well, for 20 seconds.
export function useAction() {
  const [state, set] = useState({});
  // Of two presses before the page is drawn again, the first one counts.
  const busy = useRef(false);
  const act = async (path, body, then) => {
    if (busy.current) return;
    set({ busy: (busy.current = true) });
    try {
      const answer = await post(path, body);
      const now = { done: answer.said ?? "Done." };
      set(now);
      setTimeout(() => set((last) => (last === now ? {} : last)), 20000);
      then?.(answer);
      emit({});
    } catch (error) {
      set({ error });
      if (error.status === 409 || error.status === 404) emit({});
    } finally {
      busy.current = false;
    }
  };
  return [state, act, () => set({})];
}

let toSay = null;
/// Has a screen reader say something, at most one message in two seconds: of several, the last. It does not stay in the page.
export function say(text) {
  const put = (words = "") => (document.getElementById("said").textContent = words);
  if (toSay === null) setTimeout(() => (put(toSay), (toSay = null), setTimeout(put, 10000)), 2000);
  toSay = text;
}
