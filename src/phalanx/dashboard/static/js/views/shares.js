// Shares: which queues have more and which less than their guarantee, now, over a day, and as expected; and what users took.

import { useMemo } from "../../vendor/hooks.mjs";
import { clock, count, unitsWord, unitWord } from "../format.js";
import { DAY, series, timeOf } from "../model.js";
import { state } from "../store.js";
import { Queue, colour, html, jobsHref, over } from "../ui.js";

const HALF = DAY / 10; // points of a series until now

/** What a queue, with all below it, uses over two days. */
function lineOf(model, lines, name) {
  const found = new Float64Array(2 * HALF + 1);
  for (const one of model.leaves(name))
    lines.get(one)?.forEach((n, at) => {
      found[at] += n;
    });
  return found;
}
const mean = (line) => line.reduce((a, b) => a + b, 0) / line.length;

function Balance({ model, lines }) {
  const rows = model.tree
    .filter((queue) => queue.guaranteed !== null)
    .map((queue) => ({
      ...queue,
      more: queue.used - queue.guaranteed,
      day: mean(lineOf(model, lines, queue.name).slice(0, HALF + 1)) - queue.guaranteed,
    }));
  if (!rows.length)
    return html`<section aria-labelledby="h-balance"><div class="section-head"><h2 id="h-balance">More, or less, than its guarantee</h2></div><p class="dim">No queue is guaranteed ${unitsWord()}. <span class="mono">spec.guaranteed</span> of a Queue guarantees them.</p></section>`;
  const most = Math.max(...rows.flatMap((row) => [Math.abs(row.more), model.past ? Math.abs(row.day) : 0]), 1) * 1.08,
    W = 640,
    to = (n) => W / 2 + (n / most) * (W / 2 - 4);
  const says = (row) =>
    `${row.name}: ${row.more > 0 ? `${count(row.more)} more` : `${count(-row.more)} less`} than guaranteed${model.past ? `; on average of a day ${row.day > 0 ? `${count(Math.round(row.day))} more` : `${count(Math.round(-row.day))} less`}` : ""}`;
  return html`<section aria-labelledby="h-balance">
    <div class="section-head"><h2 id="h-balance">More, or less, than its guarantee</h2><span class="say">${unitsWord()}; the line is the guarantee of each, as it is now</span></div>
    <div role="table" aria-label="Balance">
    <div class="srow head" role="row"><span role="columnheader">queue</span><span role="columnheader" class="axis-hd"><span>less</span><span>more</span></span><span class="num" role="columnheader">in use</span><span class="num" role="columnheader">guaranteed</span><span role="columnheader">share, weight</span></div>
    ${rows.map(
      (
        row,
      ) => html`<div key=${row.name} class=${`srow d${Math.min(2, row.depth)}`} role="row"><span class="nm" role="rowheader" style=${{ paddingLeft: `${row.depth * 18}px` }}><a href=${jobsHref(`queue:${row.name}`)}>${row.name}</a></span>
      <span role="cell"><svg viewBox=${`0 0 ${W} 22`} preserveAspectRatio="none" class="balance" role="img" aria-label=${says(row)} ...${over(html`<b>${row.name}</b> uses ${count(row.used)} of ${count(row.guaranteed)}${model.past && html`<div class="dim">over the last 24 h on average ${count(Math.round(row.day + row.guaranteed))}</div>`}`)}>
        <line x1="0" x2=${W} y1="11" y2="11" stroke="var(--line-soft)" />
        <rect x=${Math.min(to(0), to(row.more))} y="5" width=${Math.max(0.5, Math.abs(to(row.more) - to(0)))} height="12" fill=${row.more > 0 ? colour(row.name) : "var(--track)"} />
        <line x1=${to(0)} x2=${to(0)} y1="0" y2="22" stroke="var(--ink)" stroke-width="1.5" vector-effect="non-scaling-stroke" />
        ${model.past && html`<line x1=${to(row.day)} x2=${to(row.day)} y1="2" y2="20" stroke="var(--ink-2)" stroke-width="2.5" vector-effect="non-scaling-stroke" />`}
      </svg></span>
      <span class="num" role="cell"><b>${count(row.used)}</b></span><span class="num dim" role="cell">${count(row.guaranteed)}</span><span class="dim" role="cell">${row.share === null ? "beyond all" : row.more > 0 ? row.share.toFixed(3) : html`<span class="faint">within</span>`}${row.weight !== 1 ? html`<span class="faint"> · weight ${row.weight}</span>` : ""}</span></div>`,
    )}
    </div>
    <div class="legend gap-s"><span><svg width="20" height="12"><rect width="20" height="12" fill="var(--accent)" /></svg>borrowed now</span><span><svg width="20" height="12"><rect width="20" height="12" fill="var(--track)" /></svg>unused now</span>${model.past && html`<span><svg width="4" height="12"><rect width="2.5" height="12" fill="var(--ink-2)" /></svg>on average over a day</span>`}</div>
  </section>`;
}

/** Steps as a path; `from`, `to`: positions in the series. */
function steps(line, from, to, X, Y) {
  let d = `M${X(from).toFixed(1)} ${Y(0)}V${Y(line[from]).toFixed(1)}`;
  for (let at = from + 1; at <= to; at++)
    if (line[at] !== line[at - 1] || at === to) d += `H${X(at).toFixed(1)}V${Y(line[at]).toFixed(1)}`;
  return `${d}V${Y(0)}Z`;
}

function Chart({ queue, at, line }) {
  const W = 300,
    H = 112,
    guaranteed = queue.guaranteed ?? 0,
    top = Math.max(...line, guaranteed) * 1.12 || 1;
  const X = (point) => ((timeOf(point) + DAY) / (2 * DAY)) * W,
    Y = (n) => H - 18 - (n / top) * (H - 22),
    now = X(HALF);
  const past = steps(line, 0, HALF, X, Y),
    ahead = steps(line, HALF, 2 * HALF, X, Y),
    id = `clip-${at}`,
    level = Y(guaranteed),
    took = line.slice(0, HALF + 1);
  const above = took.reduce((n, value) => n + Math.max(0, value - guaranteed), 0) / 6,
    below = took.reduce((n, value) => n + Math.max(0, guaranteed - value), 0) / 6,
    used = took.reduce((a, b) => a + b, 0) / 6;
  const says =
    queue.guaranteed === null
      ? `used ${count(Math.round(used))} ${unitWord()} h`
      : above > below
        ? `borrowed ${count(Math.round(above))} ${unitWord()} h`
        : `left ${count(Math.round(below))} ${unitWord()} h`;
  return html`<figure><figcaption><${Queue} name=${queue.name} /><span>${says}</span></figcaption>
    <svg viewBox=${`0 0 ${W} ${H}`} role="img" aria-label=${`${queue.name}: now ${count(queue.used)}${queue.guaranteed === null ? "" : ` of ${count(guaranteed)}`}; over a day it ${says}`}>
      <clipPath id=${id}><rect x="0" y="0" width=${W} height=${queue.guaranteed === null ? 0 : Math.max(0, level)} /></clipPath>
      <rect x=${now} y="0" width=${W / 2} height=${H - 18} fill="var(--sunk)" opacity=".6" />
      <path d=${past} fill=${colour(queue.name)} opacity=${queue.guaranteed === null ? 0.7 : 0.32} /><path d=${ahead} fill=${colour(queue.name)} opacity=${queue.guaranteed === null ? 0.35 : 0.16} />
      <g clip-path=${`url(#${id})`}><path d=${past} fill=${colour(queue.name)} /><path d=${ahead} fill=${colour(queue.name)} opacity=".45" /></g>
      ${queue.guaranteed !== null && html`<line x1="0" x2=${W} y1=${level} y2=${level} stroke="var(--ink)" stroke-width="1.2" /><text x=${W} y=${Math.max(10, level - 5)} text-anchor="end" font-size="11" fill="var(--ink-2)" paint-order="stroke" stroke="var(--bg)" stroke-width="3">${count(guaranteed)}</text>`}
      <line x1=${now} x2=${now} y1="0" y2=${H - 18} stroke="var(--ink-3)" stroke-dasharray="2 2" />
      <line x1="0" x2=${W} y1=${H - 18} y2=${H - 18} stroke="var(--line)" />
      <text x="0" y=${H - 3} font-size="11" fill="var(--ink-3)">−24 h</text><text x=${now} y=${H - 3} font-size="11" fill="var(--ink-2)" text-anchor="middle">${clock(0)}</text><text x=${W} y=${H - 3} font-size="11" fill="var(--ink-3)" text-anchor="end">+24 h</text>
    </svg></figure>`;
}

/** What each user held of the last day: `[user, its main queue, hours]`. */
function usersOf(model) {
  const found = new Map();
  for (const bar of model.bars) {
    const hours = ((Math.min(bar.end, 0) - Math.max(bar.start, -DAY)) * bar.amount) / 60;
    const user = (model.jobs.get(bar.id) ?? model.gone.get(bar.id))?.user;
    if (bar.kind === "will" || hours <= 0 || !user) continue;
    if (!found.has(user)) found.set(user, { hours: 0, queues: new Map() });
    const one = found.get(user);
    one.hours += hours;
    one.queues.set(bar.queue, (one.queues.get(bar.queue) ?? 0) + hours);
  }
  return [...found]
    .map(([user, { hours, queues }]) => [user, [...queues].sort((a, b) => b[1] - a[1])[0][0], hours])
    .sort((a, b) => b[2] - a[2]);
}

function People({ model }) {
  const rows = useMemo(() => usersOf(model), [model]).slice(0, 16),
    most = Math.max(...rows.map((row) => row[2]), 0.01);
  if (!rows.length) return null;
  return html`<section class="section" aria-labelledby="h-people"><div class="section-head"><h2 id="h-people">People</h2><span class="say">${unitWord()} hours of the last 24 h</span></div>
    <div class="ppl">${rows.map(([user, queue, hours]) => html`<div class="row" key=${user}><a href=${jobsHref(`user:${user}`)}><bdi>${user}</bdi></a><${Queue} name=${queue} /><span class="track"><span class="hb" style=${{ width: `${(hours / most) * 100}%`, "--c": colour(queue) }}></span></span><span class="num">${hours >= 10 ? count(Math.round(hours)) : count(Math.round(hours * 10) / 10)}</span></div>`)}</div></section>`;
}

export function Shares() {
  const model = state.value,
    lines = useMemo(() => series(model.bars), [model]),
    leaves = model.tree.filter((queue) => !queue.kids.length);
  return html`<div class="section-head gap-b"><h1>Shares</h1><span class="say">what is guaranteed, what is used, and for how long</span></div>
    <${Balance} model=${model} lines=${lines} />
    <section class="section" aria-labelledby="h-over"><div class="section-head"><h2 id="h-over">A day back, a day ahead</h2><span class="say">strong: beyond the guarantee. Right of ${clock(0)}: expected of the jobs that are known; new ones will come</span></div><div class="multi">${leaves.slice(0, 40).map((queue, at) => html`<${Chart} key=${queue.name} queue=${queue} at=${at} line=${lineOf(model, lines, queue.name)} />`)}</div></section>
    <${People} model=${model} />`;
}
