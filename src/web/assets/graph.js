// The graph of the tasks in layers, and the timeline of their attempts. The list of tasks says the same in words.
import { html } from "./preact.js";
import { clock, look, ms, span } from "./parts.js";

const [WIDE, HIGH, ACROSS, DOWN] = [176, 40, 56, 16];

/// Puts each task one layer behind the last that it waits for, and orders each layer by the middle of its neighbours.
export function layers(rows) {
  const byId = new Map(rows.map((task) => [task.id, { task, depth: 0, at: 0, before: [], after: [] }]));
  for (const node of byId.values()) {
    for (const id of node.task.dependencies || []) {
      const before = byId.get(id);
      if (before && before !== node) before.after.push(node), node.before.push(before);
    }
  }
  const missing = new Map([...byId.values()].map((node) => [node, node.before.length]));
  const free = [...byId.values()].filter((node) => !node.before.length);
  for (let node; (node = free.shift()); ) {
    for (const next of node.after) {
      next.depth = Math.max(next.depth, node.depth + 1);
      missing.set(next, missing.get(next) - 1);
      if (!missing.get(next)) free.push(next);
    }
  }
  const found = [];
  for (const node of byId.values()) (found[node.depth] ||= []).push(node);
  const number = (layer) => layer.forEach((node, at) => (node.at = at));
  found.forEach(number);
  const sweep = (order, side) => order.forEach((layer) => {
    const middle = (node) => (node[side].length ? node[side].reduce((sum, other) => sum + other.at, 0) / node[side].length : node.at);
    const keys = new Map(layer.map((node) => [node, middle(node)]));
    layer.sort((a, b) => keys.get(a) - keys.get(b));
    number(layer);
  });
  for (let turn = 0; turn < 4; turn++) {
    sweep(found, "before");
    sweep([...found].reverse(), "after");
  }
  return found;
}

const cut = (text, most) => ([...text].length > most ? [...text].slice(0, most - 1).join("") + "…" : text);

export function Graph({ plan, rows }) {
  const found = layers(rows);
  const most = Math.max(1, ...found.map((layer) => layer.length));
  const width = found.length * (WIDE + ACROSS) - ACROSS + 4;
  const height = most * (HIGH + DOWN) + DOWN;
  const x = (node) => 2 + node.depth * (WIDE + ACROSS);
  const y = (node) => DOWN + (node.at + Math.floor((most - found[node.depth].length) / 2)) * (HIGH + DOWN);
  // A line over several layers runs between the rows, where no box is.
  const edge = (from, to) => {
    const [x1, y1, x2, y2] = [x(from) + WIDE, y(from) + HIGH / 2, x(to), y(to) + HIGH / 2];
    const lane = y(from) + (y2 > y1 ? HIGH + DOWN / 2 : -DOWN / 2);
    const turn = (x, from, to) => `C${x + ACROSS / 2} ${from} ${x + ACROSS / 2} ${to} ${x + ACROSS} ${to}`;
    return to.depth - from.depth === 1 ? `M${x1} ${y1}${turn(x1, y1, y2)}` : `M${x1} ${y1}${turn(x1, y1, lane)}H${x2 - ACROSS}${turn(x2 - ACROSS, lane, y2)}`;
  };
  const nodes = found.flat();
  return html`<p class="quiet">Left comes first; a line leads from a task to those that wait for it.</p>
    <div class="scroll" role="region" aria-label="Graph of the tasks" tabindex="0"><svg class="graph" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
    ${nodes.flatMap((node) => node.after.map((next) => html`<path key=${`${node.task.id}-${next.task.id}`} class="edge" d=${edge(node, next)} />`))}
    ${nodes.map((node) => {
      const { task } = node;
      const [glyph, word, kind] = look(task.state, task.proven);
      return html`<a key=${task.id} href=${`#/p/${plan}/t/${task.id}`} class=${`node ${kind}`}><title>${task.id} ${task.name}: ${word}</title>
        <rect x=${x(node)} y=${y(node)} width=${WIDE} height=${HIGH} rx="6" /><text x=${x(node) + 9} y=${y(node) + 17}>${cut(`${task.id} ${task.name}`, 24)}</text>
        <text class="word" x=${x(node) + 9} y=${y(node) + 32}>${glyph} ${word}</text></a>`;
    })}</svg></div>`;
}

const KINDS = [["work", "an agent works"], ["wait", "waits for an agent, a check or you"], ["bad", "failed"], ["good", "a tick: a check passed, or failed"]];

/// A bar for each attempt, hatched while no agent works on it, and a tick for each check.
export function Timeline({ plan, rows }) {
  const bars = rows.map((task) => [task, (task.timeline || []).filter((each) => each.issued)]).filter(([, tries]) => tries.length);
  if (!bars.length) return html`<p>No attempt has begun yet.</p>`;
  const tries = bars.flatMap(([, each]) => each);
  const from = Math.min(...tries.map((each) => ms(each.issued)));
  const until = (each) => each.decided ?? (each.state === "open" ? null : each.ended);
  const to = Math.max(from + 1000, ...tries.map((each) => ms(until(each)) ?? Date.now()), ...bars.map(([task]) => (task.state === "asks_you" ? Date.now() : 0)));
  const at = (time) => ((ms(time) ?? to) - from) / (to - from) * 1000;
  const bad = (each) => /fail|timed|garbled/i.test(`${each.state} ${each.report?.status ?? each.report ?? ""}`);
  const said = (each) => `attempt ${each.number}: ${clock(each.issued)}, ${span((ms(each.ended) ?? to) - ms(each.issued))}${bad(each) ? ", failed" : ""}`;
  const bar = (kind, begin, end) => end > begin && html`<rect class=${kind} x=${begin} width=${Math.max(3, end - begin)} y="3" height="12" />`;
  return html`<p class="legend">${KINDS.map(([kind, text]) => html`<span><svg class="key" viewBox="0 0 24 12"><rect class=${kind} width="24" height="12" /></svg> ${text}</span>`)}</p>
    <svg class="unseen" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="under" width="6" height="6" /><path
      d="M0 0V6" class="stripe" /></pattern></defs></svg>
    <table class="timeline"><thead><tr><th>Task</th><th><span class="ends"><span>${clock(from * 1000)}</span><span>${span(to - from)}</span><span>${clock(to * 1000)}</span></span></th></tr></thead>
    <tbody>${bars.map(([task, all]) => html`<tr key=${task.id}><td><a href=${`#/p/${plan}/t/${task.id}`}>${task.id} · ${task.name}</a></td>
      <td><svg viewBox="0 0 1000 18" preserveAspectRatio="none" role="img" aria-label=${all.map(said).join("; ")}>${all.map((each, n) => html`<g><title>${said(each)}</title>
        ${bar("wait", at(n ? until(all[n - 1]) : each.issued), at(each.claimed))}${each.claimed && bar(bad(each) ? "bad" : "work", at(each.claimed), at(each.ended))}${each.ended && bar("wait", at(each.ended), at(until(each)))}
        ${each.checked.map((check) => html`<rect class=${check.passed ? "good" : "bad"} x=${Math.min(995, at(check.at))} width="5" height="18" />`)}</g>`)}
        ${task.state === "asks_you" && bar("wait", at(until(all[all.length - 1])), 1000)}</svg></td></tr>`)}</tbody></table>`;
}
