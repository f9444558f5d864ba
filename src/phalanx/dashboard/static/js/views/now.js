// Now: one sentence, why jobs wait, the queue tree as nested bars, what starts next, and every node.

import { useState } from "../../vendor/hooks.mjs";
import { clock, count, expectedText, moment, plural, span, units, unitsWord, unitWord } from "../format.js";
import { heldByGroup, holderOf } from "../model.js";
import { hovered, state } from "../store.js";
import { Empty, Icon, Interval, JobLink, Queue, colour, html, jobHref, jobTip, jobsHref, over } from "../ui.js";
import { CODE_WORDS } from "../words.js";

const MANY_NODES = 200; // more are drawn by rack, or by pool
const CODE_COLOURS = {
  NoRoom: "var(--accent)",
  Reserved: "color-mix(in srgb, var(--accent) 62%, var(--bg))",
  BehindHead: "color-mix(in srgb, var(--accent) 38%, var(--bg))",
};
const CAPACITY = Object.keys(CODE_COLOURS);

function Lede() {
  const model = state.value;
  const known = model.waiting.filter((job) => job.expected?.[2] != null).sort((a, b) => a.expected[2] - b.expected[2]);
  const next = model.waiting.some((job) => job.soon) ? 0 : known[0]?.expected[2];
  const never = model.waiting.filter((job) => job.reason?.never).length;
  const off = model.nodes.filter((node) => node.state !== "ready").length;
  return html`<h1 class="lede"><b>${count(model.used)} of ${count(model.units)} ${unitsWord()}</b> are in use.${" "}
    <a href=${jobsHref("is:running")}>${plural(model.running.length, "job runs", "jobs run")}</a>, <a href=${jobsHref("is:waiting")}>${plural(model.waiting.length, "waits", "wait")}</a>${next !== undefined ? `, and the next is expected to start ${next <= 1 ? "within a minute" : `at ${moment(next)}`}` : ""}.
    ${never > 0 && html` <a href=${jobsHref("is:stuck")}>${plural(never, "job")} can never start as ${never === 1 ? "it is" : "they are"}</a>.`}${off > 0 && html` ${plural(off, "node")} ${off === 1 ? "takes" : "take"} no new work.`}</h1>`;
}

/** The parts of the bar: `[key, jobs, filter, words, colour]`. Those that can never start are one part. */
function waitingParts(model) {
  const never = new Map();
  const codes = new Map();
  for (const job of model.waiting) {
    const code = job.reason?.code ?? (job.soon ? "Starts" : "");
    const into = job.reason?.never ? never : codes;
    into.set(code, (into.get(code) ?? 0) + 1);
  }
  const group = (code) => CAPACITY.indexOf(code) + 1 || 9;
  const sorted = [...codes].sort((a, b) => b[1] - a[1]);
  const shown = sorted.slice(0, 6).sort((a, b) => group(a[0]) - group(b[0]) || b[1] - a[1]);
  const parts = shown.map(([code, n]) => [
    code,
    n,
    `reason:${code}`,
    CODE_WORDS[code] ?? code,
    CODE_COLOURS[code] ?? "var(--line-strong)",
  ]);
  const stuck = [...never.values()].reduce((total, n) => total + n, 0);
  const other = sorted.slice(6).reduce((total, [, n]) => total + n, 0);
  if (stuck) parts.push(["never", stuck, "is:stuck", "can never start", "var(--bad)"]);
  if (other) parts.push(["other", other, "is:waiting", "for other reasons", "var(--line-strong)"]);
  return parts;
}

function Waits() {
  const parts = waitingParts(state.value);
  if (!parts.length) return null;
  return html`<section class="waits" aria-label="Why jobs wait">
    <div class="waitbar" aria-hidden="true">
      ${parts.map(([key, n, filter, words, tint]) => html`<a key=${key} href=${jobsHref(filter)} tabindex="-1" style=${{ flex: `${n} 0 0`, "--c": tint }} ...${over(html`<b>${count(n)}</b> ${words}`)}></a>`)}
    </div>
    <ul class="waitlist"><li class="faint">Jobs wait</li>
      ${parts.map(([key, n, filter, words, tint]) => html`<li key=${key}><a href=${jobsHref(filter)}><span class="dot" style=${{ "--c": tint }}></span><b>${count(n)}</b>${words}</a></li>`)}
    </ul>
  </section>`;
}

// --- queues -----------------------------------------------------------------------------------------------------------------

function QueueBar({ queue, max }) {
  const model = state.value,
    W = 1000;
  const to = (n) => (n / max) * W;
  const parts = [];
  let x = 0;
  for (const name of model.leaves(queue.name)) {
    const one = model.queues.get(name);
    const own = one ? Math.max(0, one.used - one.kids.reduce((total, kid) => total + kid.used, 0)) : 0;
    if (own > 0) parts.push({ name, x, w: own });
    x += own;
  }
  const edge = queue.guaranteed === null ? null : to(queue.guaranteed);
  const own = queue.guaranteed === null ? queue.used : Math.min(queue.used, queue.guaranteed);
  const says = `${queue.name} uses ${count(queue.used)}${queue.guaranteed === null ? ` ${unitsWord()}, without a guarantee` : ` of ${count(queue.guaranteed)} guaranteed ${unitsWord()}`}${queue.limit === null ? "" : `, limit ${count(queue.limit)}`}`;
  return html`<svg class="bar" viewBox=${`0 0 ${W} 20`} preserveAspectRatio="none" role="img" aria-label=${says}>
    <rect x="0" y="3" width=${edge ?? W} height="14" rx="2" fill="var(--track)" opacity=${edge === null ? 0.45 : 1} />
    ${parts.map(
      ({ name, x, w }) => html`<g key=${name} ...${over(html`<b>${name}</b> uses ${units(w)}`)}>
      <rect x=${to(x)} y="3" width=${Math.max(0, to(Math.min(x + w, own)) - to(x))} height="14" fill=${colour(name)} />
      ${x + w > own && html`<rect x=${to(Math.max(x, own))} y="6" width=${to(x + w) - to(Math.max(x, own))} height="8" fill=${colour(name)} />`}
      ${x > 0 && html`<line x1=${to(x)} x2=${to(x)} y1="3" y2="17" stroke="var(--bg)" stroke-width="2" vector-effect="non-scaling-stroke" />`}</g>`,
    )}
    ${edge !== null && html`<line x1=${edge} x2=${edge} y1="0" y2="20" stroke="var(--ink)" stroke-width="1.5" vector-effect="non-scaling-stroke" />`}
    ${queue.limit !== null && to(queue.limit) <= W && html`<path d=${`M${to(queue.limit)} 4v12`} stroke="var(--bad)" stroke-width="1.5" stroke-dasharray="2 2" vector-effect="non-scaling-stroke" />`}
  </svg>`;
}

/** How a queue stands to its guarantee, in words. */
function balance(queue) {
  if (queue.fault) return html`<span class="bad" title=${queue.fault}>misconfigured</span>`;
  if (queue.state !== "open") return html`<span class="minus">${queue.state}</span>`;
  if (queue.guaranteed === null) return "";
  const more = Math.round((queue.used - queue.guaranteed) * 100) / 100;
  return more > 0
    ? html`<span class="plus">+${count(more)} borrowed</span>`
    : more < 0
      ? html`<span class="minus">${count(-more)} unused</span>`
      : "";
}

function Queues() {
  const model = state.value,
    [closed, setClosed] = useState(new Set());
  const max = Math.max(
    1e-9,
    ...model.tree.map((queue) =>
      Math.max(queue.used, queue.guaranteed ?? Math.min(model.units, queue.limit ?? model.units)),
    ),
  );
  const bounded = model.tree.some((queue) => queue.guaranteed !== null || queue.limit !== null);
  const hidden = (queue) => {
    for (let at = model.queues.get(queue.parent), n = 0; at && n < 50; at = model.queues.get(at.parent), n++)
      if (closed.has(at.name)) return true;
    return false;
  };
  const flip = (name) =>
    setClosed((old) => {
      const next = new Set(old);
      if (!next.delete(name)) next.add(name);
      return next;
    });
  return html`<section aria-labelledby="h-queues">
    <div class="section-head"><h2 id="h-queues">Queues</h2><span class="say">${unitsWord()} in use${bounded ? ", against what each is guaranteed" : ""}</span></div>
    <div role="table" aria-label="Queues">
      <div class="qrow head" role="row"><span role="columnheader">queue</span><span role="columnheader"><span class="sr">bar</span></span><span role="columnheader" class="num">in use</span><span role="columnheader"><span class="sr">balance</span></span><span role="columnheader" class="num">running</span><span role="columnheader" class="num">waiting</span></div>
      ${model.tree
        .filter((queue) => !hidden(queue))
        .map(
          (queue) => html`<div class=${`qrow d${Math.min(2, queue.depth)}`} role="row" key=${queue.name}>
          <span class="nm" role="rowheader" style=${{ paddingLeft: `${queue.depth * 18}px` }}>${queue.kids.length ? html`<button class="fold" type="button" aria-expanded=${String(!closed.has(queue.name))} aria-label=${`Queues below ${queue.name}`} onClick=${() => flip(queue.name)}><${Icon} name="fold" size=${14} /></button>` : html`<span class="fold"></span>`}<a href=${jobsHref(`queue:${queue.name}`)}>${queue.name}</a></span>
          <span class="barcell" role="cell"><${QueueBar} queue=${queue} max=${max} /></span>
          <span class="num u" role="cell"><b>${count(queue.used)}</b><span class="of"> / ${queue.guaranteed === null ? "–" : count(queue.guaranteed)}</span></span>
          <span class="b" role="cell">${balance(queue)}</span>
          <span class="num rn dim" role="cell">${count(queue.running)}</span><span class="num wt dim" role="cell">${count(queue.waiting)}</span></div>`,
        )}
    </div>
    ${
      bounded &&
      html`<div class="legend gap-s">
      <span><svg width="22" height="12"><rect width="22" height="12" rx="2" fill="var(--track)" /><rect width="14" height="12" fill="var(--accent)" /><line x1="21" x2="21" y1="0" y2="12" stroke="var(--ink)" stroke-width="1.5" /></svg>in use, within its guarantee</span>
      <span><svg width="22" height="12"><line x1="3" x2="3" y1="0" y2="12" stroke="var(--ink)" stroke-width="1.5" /><rect x="4" y="2.5" width="18" height="7" fill="var(--accent)" /></svg>borrowed</span>
      <span><svg width="8" height="12"><path d="M4 0v12" stroke="var(--bad)" stroke-width="1.5" stroke-dasharray="2 2" /></svg>limit</span>
    </div>`
    }
  </section>`;
}

// --- what starts next ---------------------------------------------------------------------------------------------------------

/** The first jobs by their median start; of an array the first speaks for those behind it. */
function nextRows(model) {
  const keyOf = (job) => (job.array ? `${job.namespace}/${job.array}` : job.id);
  const all = new Map();
  for (const job of model.waiting) all.set(keyOf(job), (all.get(keyOf(job)) ?? 0) + 1);
  const first = new Map();
  const known = model.waiting.filter((job) => job.expected?.[2] != null || job.soon);
  for (const job of known.sort((a, b) => (a.expected?.[2] ?? 0) - (b.expected?.[2] ?? 0))) {
    const key = keyOf(job);
    if (!first.has(key)) first.set(key, { job, more: all.get(key) - 1 });
    if (first.size === 8) break;
  }
  return [...first.values()];
}

function Next() {
  const model = state.value,
    rows = nextRows(model),
    head = model.head && model.jobs.get(model.head.job);
  const ends = rows.map(({ job }) => job.expected?.[3] ?? 0).sort((a, b) => a - b);
  const late = ends[Math.max(0, rows.length - 3)] ?? 0;
  const max = [5, 30, 60, 180, 720, 1440].find((m) => late <= m) ?? 1440,
    ticks = [max / 3, (2 * max) / 3, max];
  const hint = (job) =>
    html`<b>${expectedText(job.expected)}</b><div class="dim">with a probability of 50 %; ${moment(job.expected[0])}–${job.expected[4] === null ? "…" : moment(job.expected[4])} with 90 %</div>`;
  const asOf = model.forecast !== null && model.forecast < -1.5 ? `, as of ${clock(model.forecast)}` : "";
  return html`<section aria-labelledby="h-next">
    <div class="section-head"><h2 id="h-next">What starts next</h2><span class="say">expected, by how long such jobs run${asOf}</span></div>
    ${!rows.length && html`<p class="dim">${model.waiting.length ? "No start can be told: neither run times nor time limits are known." : "No job waits."}</p>`}
    ${rows.length > 0 && html`<div class="nx head"><span></span><span class="num"></span><span class="axis-hd"><span>now</span><span>+${max <= 60 ? `${max} min` : `${max / 60} h`}</span></span></div>`}
    ${rows.map(
      ({ job, more }) => html`<div class="nx" key=${job.id}>
      <span class="who"><${JobLink} id=${job.id} /><span class="small"><${Queue} name=${job.queue} link=${false} /><span>${job.units ? units(job.units) : plural(job.pods, "pod")}</span><span class="opt">${job.reason?.code === "Preempting" ? "others are leaving" : job.array && more ? `+${more} of its array` : html`<bdi>${job.user}</bdi>`}</span></span></span>
      <span class="num">${job.soon || job.expected[2] <= 1 ? "now" : job.expected[2] > 720 ? moment(job.expected[2]).replace("tomorrow", "+1d") : clock(job.expected[2])}</span>
      ${job.expected ? html`<a href=${jobHref(job.id)} aria-label=${`${job.name} is expected to start ${expectedText(job.expected)}`} ...${over(hint(job))}><${Interval} x=${job.expected} max=${max} width=${132} ticks=${ticks} /></a>` : html`<span></span>`}
    </div>`,
    )}
    ${head && html`<p class="small dim gap-m">Nodes are reserved for <${JobLink} id=${head.id} />${head.units ? ` (${units(head.units)})` : ""}${model.head.at === null ? "" : `: it starts at ${moment(model.head.at)} at the latest`}. Shorter jobs go ahead beside it.</p>`}
  </section>`;
}

// --- nodes ---------------------------------------------------------------------------------------------------------------------

function squareColour(by, job) {
  if (!job) return "var(--line-strong)";
  if (by === "queue") return colour(job.queue);
  const left = job.end ?? 1e9,
    step = left < 15 ? 100 : left < 60 ? 72 : left < 240 ? 46 : left < 720 ? 26 : 10;
  return `color-mix(in srgb, var(--accent) ${step}%, var(--track))`;
}

function Square({ node, at, by }) {
  const picked = hovered.value,
    found = holderOf(node, at),
    job = found?.job;
  if (node.state === "not ready") return html`<span class="gpu off"></span>`;
  const scale =
    node.units > node.squares ? `${count(node.units / node.squares)} ${unitsWord()} of ${node.name}` : node.name;
  if (!found)
    return html`<span class="gpu free" ...${over(html`<b>${scale}</b><div class="dim">free${node.state === "cordoned" ? ", but the node is cordoned" : ""}</div>`)}></span>`;
  if (!job)
    return html`<span class="gpu taken" ...${over(html`<b>${scale}</b><div class="dim">held by pods of another scheduler</div>`)}></span>`;
  const next = node.coming[0];
  const body = html`${jobTip(job)}<div class="dim">${scale}${job.end !== null ? `; expected to be free in ${span(job.end)}` : ""}${next ? html`<br />then for ${next.id}` : ""}</div>`;
  const lit = picked === job.id || (picked && next?.id === picked);
  return html`<a class=${`gpu${job.state === "stopping" ? " leaving" : ""}${lit ? " on" : ""}`} href=${jobHref(job.id)} tabindex="-1" style=${{ "--c": squareColour(by, job) }}
    onPointerEnter=${() => (hovered.value = job.id)} ...${over(body)} onPointerLeave=${() => {
      hovered.value = "";
      over().onPointerLeave();
    }}></a>`;
}

/** The part of a node's name that differs from those of its neighbours. */
function shortNames(nodes) {
  let prefix = nodes[0]?.name ?? "";
  for (const node of nodes) while (prefix && !node.name.startsWith(prefix)) prefix = prefix.slice(0, -1);
  const cut = prefix.lastIndexOf("-") + 1;
  return (name) => (nodes.length > 1 && cut > 0 && name.length > cut ? name.slice(cut) : name);
}

function NodeRow({ node, by, label }) {
  const used = node.held.reduce((total, one) => total + one.pieces.reduce((n, [from, to]) => n + to - from, 0), 0);
  const tipBody = html`<b>${node.name}</b> ${node.flavor}<div class="dim">${node.state}</div><div class="dim">${count(used)}/${units(node.units)} · ${count(node.cpu[0])}/${count(node.cpu[1])} CPUs · ${count(node.memory[0])}/${count(node.memory[1])} GiB</div>`;
  return html`<div class="node" role="listitem"><a class="nn" href=${jobsHref(`node:${node.name}`)} aria-label=${`${node.name}: ${node.state}, ${count(used)} of ${units(node.units)} in use`} ...${over(tipBody)}><bdi>${label}</bdi>${node.state !== "ready" && html`<${Icon} name=${node.state === "cordoned" ? "stop" : "kill"} size=${12} label=${node.state} />`}</a>
    <div class="gpus" style=${{ gridTemplateColumns: `repeat(${Math.max(1, node.squares)}, minmax(0, 1fr))` }} aria-hidden="true">${Array.from({ length: node.squares }, (_, at) => html`<${Square} key=${at} node=${node} at=${at} by=${by} />`)}</div></div>`;
}

/** Many nodes: one bar for each rack or pool, by queue. */
function GroupBar({ name, nodes, byQueue }) {
  const total = nodes.reduce((n, node) => n + node.units, 0) || 1;
  const used = [...byQueue.values()].reduce((a, b) => a + b, 0),
    off = nodes.filter((node) => node.state !== "ready").length;
  return html`<div class="node" role="listitem"><span class="nn" title=${name}><bdi>${name || "other nodes"}</bdi></span>
    <div class="groupbar" role="img" aria-label=${`${name || "other nodes"}: ${plural(nodes.length, "node")}, ${count(used)} of ${units(total)} in use${off ? `, ${off} take no new work` : ""}`}>
      ${[...byQueue].map(([queue, n]) => html`<i key=${queue} style=${{ flex: `${n} 0 0`, "--c": queue ? colour(queue) : "var(--line-strong)" }} ...${over(html`<b>${queue || "pods of another scheduler"}</b> ${units(Math.round(n * 10) / 10)}`)}></i>`)}<i style=${{ flex: `${Math.max(0, total - used)} 0 0`, "--c": "var(--track)" }}></i></div></div>`;
}

function Nodes() {
  const model = state.value,
    [by, setBy] = useState("queue"),
    drawn = model.nodes.filter((node) => node.units > 0),
    without = model.nodes.length - drawn.length;
  if (!drawn.length) return null;
  const groups = new Map(),
    many = drawn.length > MANY_NODES,
    shown = many ? drawn : model.filled.filter((node) => node.units > 0),
    held = many ? heldByGroup(model) : new Map();
  for (const node of shown) groups.has(node.group) ? groups.get(node.group).push(node) : groups.set(node.group, [node]);
  const scale = shown.some((node) => node.units > node.squares),
    leaves = model.tree.filter((queue) => !queue.kids.length);
  return html`<section class="section" aria-labelledby="h-nodes">
    <div class="section-head"><h2 id="h-nodes">Nodes</h2><span class="say">${many ? `${count(shown.length)} nodes, by rack or pool` : scale ? `the squares of a node are its ${unitsWord()}` : `every square is a ${unitWord()}`}</span>
      ${!many && html`<span class="more"><span class="seg" role="group" aria-label="Colour by"><button type="button" aria-pressed=${String(by === "queue")} onClick=${() => setBy("queue")}>Queue</button><button type="button" aria-pressed=${String(by === "free")} onClick=${() => setBy("free")}>Free in</button></span></span>`}</div>
    <div class=${`racks${hovered.value ? " pick" : ""}${groups.size < 3 ? " wide" : ""}`}>
      ${
        many
          ? html`<div class="rack all"><div role="list" aria-label="Racks and pools">${[...groups].map(([name, nodes]) => html`<${GroupBar} key=${name} name=${name} nodes=${nodes} byQueue=${held.get(name) ?? new Map()} />`)}</div></div>`
          : [...groups].map(([name, nodes]) => {
              const short = shortNames(nodes);
              return html`<div class="rack" key=${name}><h3><bdi>${name || (groups.size > 1 ? "other nodes" : "")}</bdi><span>${nodes[0].flavor}</span></h3><div role="list" aria-label=${name || "Nodes"}>${nodes.map((node) => html`<${NodeRow} key=${node.name} node=${node} by=${by} label=${short(node.name)} />`)}</div></div>`;
            })
      }
    </div>
    <div class="legend gap-m">
      ${
        by === "queue" || many
          ? leaves
              .slice(0, 12)
              .map(
                (queue) =>
                  html`<span key=${queue.name}><i class="dot" style=${{ "--c": colour(queue.name) }}></i>${queue.name}</span>`,
              )
          : [
              ["15 min", 100],
              ["1 h", 72],
              ["4 h", 46],
              ["12 h", 26],
              ["later", 10],
            ].map(
              ([word, step]) =>
                html`<span key=${word}><i class="dot" style=${{ "--c": `color-mix(in srgb, var(--accent) ${step}%, var(--track))` }}></i>${word}</span>`,
            )
      }
      <span><svg width="10" height="10"><rect x=".75" y=".75" width="8.5" height="8.5" rx="2" fill="none" stroke="var(--line-strong)" stroke-width="1.5" /></svg>free</span>
      <span><svg width="10" height="10"><rect width="10" height="10" rx="2" fill="var(--track)" /><path d="M0 8l8-8M3 11l8-8" stroke="var(--ink-2)" stroke-width="1.6" /></svg>being preempted</span>
      ${without > 0 && html`<span class="faint">${plural(without, "node")} without ${unitsWord()} ${without === 1 ? "is" : "are"} not drawn</span>`}
    </div>
  </section>`;
}

// --- what happened just now -----------------------------------------------------------------------------------------------------

/** What happened in the last hours; of one preemptor's victims one line speaks. */
function happenings(model) {
  const found = [],
    made = new Map();
  for (const kill of model.kills.filter((one) => one.at > -480))
    made.set(kill.by, [...(made.get(kill.by) ?? []), kill]);
  for (const [by, kills] of made) {
    const preemptor = by ? html`<${JobLink} id=${by} />` : "another job";
    const body =
      kills.length === 1
        ? html`<${JobLink} id=${kills[0].victim} /> was preempted by ${preemptor}, having run ${span(kills[0].ran)}`
        : html`<a href=${`#/time?job=${encodeURIComponent(by)}`}>${kills.length} jobs</a>, ${units(kills.reduce((n, kill) => n + kill.units, 0))}, were preempted by ${preemptor}`;
    found.push({ key: `k${by}${kills[0].at}`, at: kills[0].at, kind: "kill", body });
  }
  for (const job of model.running)
    if (job.start > -60)
      found.push({
        key: `s${job.id}`,
        at: job.start,
        kind: "run",
        units: job.units,
        body: html`<${JobLink} id=${job.id} /> started${job.units ? ` on ${units(job.units)}` : ""}`,
      });
  for (const job of model.list)
    if (job.over && job.since > -240)
      found.push({
        key: `o${job.id}`,
        at: job.since,
        kind: job.state === "complete" ? "done" : "kill",
        units: job.units,
        body: html`<${JobLink} id=${job.id} /> ${job.state === "complete" ? "is complete" : "failed"}`,
      });
  for (const job of model.gone.values()) {
    const last = job.runs.at(-1);
    if (model.jobs.has(job.id) || last.end < -240 || last.outcome === "preempted") continue;
    const words =
      { complete: "is complete", timeout: "reached its time limit", failed: "failed", cancelled: "was cancelled" }[
        last.outcome
      ] ?? last.outcome;
    found.push({
      key: `g${job.id}${last.end}`,
      at: last.end,
      kind: last.outcome === "complete" ? "done" : "kill",
      units: job.units,
      body: html`<${JobLink} id=${job.id} /> ${words} after ${span(last.end - last.start)}`,
    });
  }
  return found.sort((a, b) => b.at - a.at);
}

function Feed() {
  const all = happenings(state.value),
    large = all.filter((one) => one.units === undefined || one.units >= 4);
  const shown = large.length >= 6 ? large : all;
  if (!shown.length) return null;
  return html`<section class="section" aria-labelledby="h-feed"><div class="section-head"><h2 id="h-feed">Just now</h2>${shown === large && all.length > large.length && html`<span class="say">jobs of four ${unitsWord()} and more</span>`}</div>
    <ul class="feed cols">${shown.slice(0, 10).map((one) => html`<li key=${one.key} class=${one.kind === "kill" ? "kill" : ""}><time>${clock(one.at)}</time><${Icon} name=${one.kind} /><span>${one.body}</span></li>`)}</ul></section>`;
}

export function Now() {
  const model = state.value;
  return html`<${Lede} /><${Waits} />
    ${!model.list.length && html`<${Empty} title="No job yet" command=${`phalanx submit --${unitWord() === "GPU" ? "gpu" : "cpu"} 1 -- python3 train.py`}>Jobs appear here the moment they are submitted, with the reason why they wait.</${Empty}>`}
    <div class="section two"><${Queues} /><${Next} /></div>
    <${Nodes} />
    <${Feed} />`;
}
