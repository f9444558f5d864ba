// One job: why it waits, which jobs hold what it needs, its expected start, what would start it sooner, and its history.

import { useEffect, useState } from "../../vendor/hooks.mjs";
import {
  brief,
  byLimits,
  clock,
  count,
  expectedText,
  moment,
  ofDay,
  plural,
  span,
  unitHours,
  units,
  unitsWord,
} from "../format.js";
import { history as historyOf } from "../history.js";
import { reasonsOf, route, state, whatif } from "../store.js";
import { Copy, Empty, Icon, JobLink, Queue, State, colour, html, jobsHref, linked } from "../ui.js";
import { CODE_WORDS, adviceOf, blockers } from "../words.js";
import { Actions } from "./actions.js";
import { Output } from "./output.js";
import { Use } from "./use.js";

/** What follows from the reason. If a reservation is the cause: the limit with which the job would start at once. */
function advice(job, model) {
  const { code, numbers } = job.reason;
  if (code !== "Reserved") return adviceOf(code);
  const until = (numbers.reservation ? numbers.start_s : numbers.until_s) ?? null;
  const left = until === null ? null : (until - model.facts.at_s) / 60 - 1;
  return left !== null && left > 0
    ? html`It fits now: with a time limit of at most <b class="strong">${span(left)}</b> it would start at once.`
    : "";
}

function Blockers({ job }) {
  const model = state.value,
    [title, found] = blockers(job.reason);
  if (!found.size) return null;
  const { resource } = job.reason.numbers,
    rows = [...found].sort((a, b) => b[1] - a[1]),
    most = Math.max(...rows.map(([, n]) => n), 1);
  const inUnits = (n) =>
    resource === "cpu"
      ? plural(n / 1000, "CPU")
      : resource === "memory"
        ? `${count(n / 2 ** 30)} GiB`
        : resource === "nvidia.com/gpu"
          ? n === 1
            ? "1 GPU"
            : `${count(n)} GPUs`
          : count(n);
  const when = (other) => {
    if (!other) return "";
    if (other.state === "stopping") return html`<span class="bad">is ending</span>`;
    if (other.runs) return other.limit === null ? "no time limit" : `ends by ${moment(other.start + other.limit)}`;
    return other.expected ? `expected ${expectedText(other.expected)}` : "";
  };
  return html`<div class="holders"><h2 class="dim">${title}</h2>${rows.map(([id, n]) => {
    const other = model.jobs.get(id);
    return html`<div class="row" key=${id}>${other ? html`<${JobLink} id=${id} />` : html`<span><bdi>${id}</bdi></span>`}<span class="small">${other && html`<${Queue} name=${other.queue} />`}</span>
      <span class="amount">${resource && n > 0 && html`<span class="hb" style=${{ flex: `0 0 ${Math.max(2, (n / most) * 62)}%`, "--c": other ? colour(other.queue) : "var(--track)" }}></span>`}${resource && n > 0 ? inUnits(n) : other?.units ? units(other.units) : ""}</span>
      <span class="num dim">${when(other)}</span></div>`;
  })}</div>`;
}

/** The pods of the job as squares: those that found a node, and those that did not. */
function Pods({ job }) {
  const { placed, pods } = job.reason.numbers,
    each = Math.ceil(job.each);
  if (typeof placed !== "number" || typeof pods !== "number" || pods > 32 || each < 1 || each > 16) return null;
  const cell = (on) => html`<i class=${on ? "on" : ""} style=${{ "--c": colour(job.queue) }}></i>`;
  return html`<figure class="asked" aria-label=${`${placed} of ${pods} pods found a node`}>
    <div class="pods">${Array.from({ length: pods }, (_, i) => html`<span key=${i} class=${i < placed ? "placed" : ""} style=${{ gridTemplateColumns: `repeat(${Math.min(4, each)}, 9px)` }}>${Array.from({ length: each }, () => cell(i < placed))}</span>`)}</div>
    <figcaption class="small faint">${placed} of ${plural(pods, "pod")} found a node. Each requests ${units(job.each)}, all together ${units(job.units)}.</figcaption></figure>`;
}

function When({ job }) {
  const x = job.expected;
  const { forecast } = state.value;
  if (!x && (forecast === null || forecast < job.since))
    return html`<p class="dim" role="status">The cluster is being played forward…</p>`;
  if (!x) return html`<p class="dim">That is not known: neither run times nor time limits tell.</p>`;
  if (x[1] === null) return html`<p class="dim">Later than was played forward.</p>`;
  const known = x.filter((v) => v !== null),
    max = Math.max(10, Math.max(...known) * 1.14),
    part = (m) => Math.min(m ?? max, max) / max,
    to = (m) => `${part(m) * 100}%`;
  const step = [2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080].find((s) => max / s <= 7) ?? 43200,
    first = step - (ofDay(0) % step);
  const ticks = [];
  for (let t = first; t < max; t += step) ticks.push(t);
  const wide = (from, till) => `${(part(till) - part(from)) * 100}%`,
    limits = byLimits(x);
  const latest =
    x[5] !== null &&
    html` It starts at <b class="strong">${moment(x[5])}</b> at the latest, if all jobs run up to their time limits and no new job overtakes it.`;
  return html`<p class="why gap-b">${
    limits
      ? html`Expected <b>by ${moment(x[0])}</b>.<span class="dim"> Only time limits tell: no job like those that run has ended yet.</span>`
      : html`Expected <b>${expectedText(x)}</b>, with a probability of 50 %. <span class="dim">With 90 % it is ${moment(x[0])}–${x[4] === null ? "later than was played" : moment(x[4])}.${latest}</span>`
  }</p>
    <figure class="when"><svg width="100%" height="86" role="img" aria-label=${`Expected start: ${expectedText(x)}`}>
      ${ticks.map((t) => html`<line x1=${to(t)} x2=${to(t)} y1="26" y2="62" stroke="var(--line)" />${part(t) > (innerWidth < 760 ? 0.13 : 0.05) && part(t) < 0.97 && html`<text x=${to(t)} y="80" font-size="12" fill="var(--ink-3)" text-anchor="middle">${clock(t)}</text>`}`)}
      <text x="0" y="80" font-size="12" fill="var(--ink-2)">now</text><line x1="0.75" x2="0.75" y1="26" y2="62" stroke="var(--ink)" stroke-width="1.5" />
      <line x1="0" x2="100%" y1="44" y2="44" stroke="var(--line)" />
      ${!limits && html`<rect x=${to(x[0])} y="36" width=${wide(x[0], x[4])} height="16" rx="3" fill="var(--accent)" opacity=".2" /><rect x=${to(x[1])} y="36" width=${wide(x[1], x[3])} height="16" rx="3" fill="var(--accent)" opacity=".8" />`}
      ${x[2] !== null && !limits && html`<line x1=${to(x[2])} x2=${to(x[2])} y1="30" y2="58" stroke="var(--ink)" stroke-width="2" /><text x=${to(x[2])} y="20" font-size="13" font-weight="600" fill="var(--ink)" text-anchor=${part(x[2]) < 0.06 ? "start" : "middle"}>${moment(x[2])}</text>`}
      ${x[5] !== null && html`<line x1=${to(x[5])} x2=${to(x[5])} y1="30" y2="58" stroke="var(--bad)" stroke-width="1.5" stroke-dasharray="3 3" />${(limits || part(x[5]) - part(x[2]) > 0.08) && html`<text x=${to(x[5])} dx=${part(x[5]) > 0.9 ? -6 : 6} y="20" font-size="12" fill="var(--bad)" text-anchor=${part(x[5]) > 0.9 ? "end" : "start"}>latest</text>`}`}
    </svg></figure>
    ${!limits && html`<div class="legend gap-s"><span><i class="band"></i>50 %</span><span><i class="band pale"></i>90 %</span><span><i class="tick"></i>median</span></div>`}`;
}

// --- what would start it sooner -----------------------------------------------------------------------------------------------

/** Ask for the base and then for each change, one after the other. */
function useSooner(job) {
  const [found, setFound] = useState(null),
    [error, setError] = useState("");
  useEffect(() => {
    setFound(null);
    setError("");
  }, [job]);
  const begin = async () => {
    try {
      let now = { asked: true, rows: [] };
      setFound(now);
      const whole = await whatif(job);
      now = { asked: true, base: whole, rows: whole.changes.map((one) => ({ ...one, answer: null })) };
      setFound(now);
      for (const one of whole.changes) {
        const answer = await whatif(job, one.key);
        now = { ...now, rows: now.rows.map((row) => (row.key === one.key ? { ...row, answer } : row)) };
        setFound(now);
      }
    } catch (problem) {
      setError(problem.message);
    }
  };
  return { found, error, begin };
}

function Sooner({ job }) {
  const model = state.value,
    { found, error, begin } = useSooner(job.id);
  const head = html`<div class="section-head"><h2 id="h-wi">What would start it sooner</h2><span class="say">each change is played forward on a copy of the cluster; nothing is changed</span></div>`;
  if (error)
    return html`<section class="section wi" aria-labelledby="h-wi">${head}<p class="dim" role="alert">It could not be played forward: ${error}</p></section>`;
  if (!found)
    return html`<section class="section wi" aria-labelledby="h-wi">${head}<button class="btn" type="button" onClick=${begin}><${Icon} name="ask" />Play it forward</button><span class="small faint gap-l">takes some seconds</span></section>`;
  if (!found.base)
    return html`<section class="section wi" aria-labelledby="h-wi">${head}<p class="dim" role="status">Playing the cluster forward…</p></section>`;
  const minutes = (answer) => (answer?.start_s == null ? null : Math.max(0, (answer.start_s - model.facts.at_s) / 60));
  const base = minutes(found.base),
    horizon = Math.max(10, (found.base.until_s - model.facts.at_s) / 60),
    starts = found.rows.map((row) => minutes(row.answer));
  const most = Math.max(base ?? horizon, ...starts.map((s) => s ?? 0), 1),
    to = (s) => `${Math.max(1.5, (Math.min(s ?? most, most) / most) * 100)}%`;
  const Bar = ({ s, strong }) =>
    html`<span class=${`wbar${strong ? " strong" : ""}`} style=${{ width: to(s) }}></span>`;
  const never = `not within ${span(horizon)}`;
  const rows = found.rows
    .map((row, at) => ({ ...row, start: starts[at] }))
    .sort((a, b) => (a.answer ? (a.start ?? 1e8) : 1e9) - (b.answer ? (b.start ?? 1e8) : 1e9));
  return html`<section class="section wi" aria-labelledby="h-wi">${head}
    <div class="row hd"><span>change</span><span>how long it waits</span><span class="num">starts</span><span></span></div>
    <div class="row base"><span>As it is</span><span><${Bar} s=${base} /></span><span class="delta">${base === null ? never : base <= 1 ? "now" : moment(base)}</span><span></span></div>
    ${rows.map((row) => {
      if (!row.answer)
        return html`<div class="row" key=${row.key}><span>${row.what}</span><span class="faint">…</span><span class="delta"></span><${Copy} text=${row.command} /></div>`;
      const gain = (base ?? horizon) - (row.start ?? horizon),
        kind = Math.abs(gain) < 1 ? "same" : gain > 0 ? "up" : "down",
        victims = row.answer.victims;
      return html`<div class="row" key=${row.key}><span>${row.what}${victims.length > 0 && html`<span class="cost">preempts ${victims.slice(0, 4).map((id, i) => html`${i ? ", " : ""}<${JobLink} id=${id} />`)}${victims.length > 4 ? ` and ${victims.length - 4} more` : ""}</span>`}</span><span><${Bar} s=${row.start} strong=${kind === "up"} /></span>
        <span class=${`delta ${kind}`}>${kind === "same" ? "no difference" : row.start === null ? never : row.start <= 1 ? "now" : moment(row.start)}${kind !== "same" && html`<span class="cost">${gain > 0 ? `${span(gain)} sooner` : `${span(-gain)} later`}</span>`}</span><${Copy} text=${row.command} /></div>`;
    })}
    <p class="small faint gap-s" role="status">Every job is taken to run as long as such jobs do, and nothing new is submitted. The button copies the command.</p></section>`;
}

// --- history, and what runs -----------------------------------------------------------------------------------------------------

/** One line of the history. */
function told(one, job, model) {
  const nodes = (places) => {
    const names = [...new Set((places ?? []).map(([n]) => model.nodes[n]?.name).filter(Boolean))];
    return names.length
      ? ` on ${names.slice(0, 4).join(", ")}${names.length > 4 ? ` and ${names.length - 4} more` : ""}`
      : "";
  };
  const lost = (run) => (job.units * run >= 3 ? `: ${unitHours((job.units * run) / 60)} run again` : "");
  switch (one.kind) {
    case "submitted":
      return html`${job.user ? html`<bdi>${job.user}</bdi> submitted it` : "Submitted"}${job.pods ? `: ${plural(job.pods, "pod")}${job.each ? ` of ${units(job.each)}` : ""}${job.pods > 1 ? " that start together" : ""}` : ""}${job.limit != null ? `, at most ${span(job.limit)}` : ""}`;
    case "start":
      return html`Started${nodes(one.places)}${one.backfilled ? html` <span class="faint">by backfill: before an earlier job, whose reservation it does not delay</span>` : ""}`;
    case "reserved":
      return "Nodes were reserved for it, before all other jobs";
    case "preempted":
      return html`<b>It was preempted${one.by ? html` by <${JobLink} id=${one.by} />` : ""}</b>, having run ${span(one.ran)}${lost(one.ran)}.${one.why ? html` <span class="faint">${linked(one.why, job.id)}</span>` : ""}`;
    case "end":
      return one.outcome === "complete"
        ? html`<b>Complete</b> after ${span(one.ran)}`
        : html`<b>${{ failed: "Failed", timeout: "It reached its time limit and was ended", cancelled: "Cancelled", requeued: "It was stopped and waited again", "launch failed": "It could not be started" }[one.outcome] ?? one.outcome}</b> after ${span(one.ran)}${one.why ? `: ${one.why.split("\n")[0]}` : ""}`;
    case "made":
      return html`${one.victims.length === 1 ? html`<${JobLink} id=${one.victims[0]} /> was` : html`<b>${plural(one.victims.length, "job")}</b> were`} preempted for it: ${units(one.units)}, ${unitHours(one.hours)} to run again`;
    case "reason":
      return html`Waited ${CODE_WORDS[one.code] ?? ""} <span class="faint">(${one.code})</span>`;
    case "waits":
      return html`${job.reason?.never ? html`<b>Can never start as it is:</b> ` : "Waits "}${CODE_WORDS[job.reason?.code] ?? ""} <span class="faint">(${job.reason?.code ?? "starts in a moment"})</span>${one.since === undefined ? "" : html`, since ${moment(one.since)}`}`;
    case "runs":
      return html`<b>Runs</b> for ${span(-job.start)}`;
    case "will end":
      return job.expectedEnd ? "expected to end, as such jobs do" : "expected to end";
    case "limit":
      return "its time limit ends it";
    default:
      return html`expected to start (${byLimits(job.expected) ? "by time limits" : `${expectedText(job.expected)} with a probability of 50 %`})`;
  }
}

const ICONS = {
  submitted: "flag",
  start: "run",
  preempted: "kill",
  made: "promised",
  waits: "wait",
  reason: "wait",
  reserved: "promised",
  runs: "run",
  "will end": "done",
  limit: "stop",
  "will start": "run",
};

function History({ job }) {
  const model = state.value;
  const [reasons, setReasons] = useState([]);
  const code = job.reason?.code ?? job.state;
  useEffect(() => {
    let here = true; // the page may be another one when the answer comes
    if (model.facts.past && job.namespace !== "other") reasonsOf(job.id).then((found) => here && setReasons(found));
    return () => {
      here = false;
    };
  }, [job.id, code]);
  const lines = historyOf(job, model, reasons);
  return html`<section class="section" aria-labelledby="h-story"><div class="section-head"><h2 id="h-story">Its history</h2></div>
    <ol class="story">${lines.map((one, at) => {
      const bad = one.kind === "preempted" || (one.kind === "end" && one.outcome !== "complete");
      return html`<li key=${at} class=${[bad && "kill", one.future && "will", one.at === 0 && one.now && "now"].filter(Boolean).join(" ")}><time>${one.now ? "now" : moment(one.at)}</time><${Icon} name=${one.kind === "end" ? (bad ? "kill" : "done") : ICONS[one.kind]} /><div>${told(one, job, model)}</div></li>`;
    })}</ol></section>`;
}

function Runs({ job }) {
  const model = state.value,
    part = job.limit === null ? null : Math.min(1, -job.start / job.limit),
    nodes = job.places.filter(([node]) => node >= 0);
  const stopping = job.state === "stopping";
  const lacks = !stopping && job.reason !== null && job.placed < job.pods;
  return html`<div class="section"><p class="why">${
    stopping
      ? html`It is being preempted${job.preemptedBy ? html` by <${JobLink} id=${job.preemptedBy} />` : ""}: its pods are ending, and then it waits again with its age.`
      : lacks
        ? html`It holds nodes for <b>${job.placed} of its ${plural(job.pods, "pod")}</b>, and the others wait. <b>${job.reason.code}</b>: ${linked(brief(job.reason.text), job.id)}.`
        : job.state === "stuck"
          ? html`<b>It is stuck</b>: ${job.message}. The job keeps its nodes, and starts once the cause is mended.`
          : job.state === "starting"
            ? html`It starts: its nodes are decided, and its pods are bound together when all of them exist.`
            : html`It runs for <b>${span(-job.start)}</b>${job.units ? html` with <b>${units(nodes.reduce((n, [, amount]) => n + amount, 0) || job.units)}</b>` : ""} on ${plural(nodes.length, "node")}.${job.expectedEnd && job.end !== null ? html` Such jobs end at about <b>${moment(job.end)}</b>${job.limit === null ? "." : ";"}` : ""}${job.limit !== null ? html` Its time limit ends it at <b>${moment(job.start + job.limit)}</b>.` : ""}`
  }</p>
    ${lacks && html`<${Blockers} job=${job} />`}
    ${
      part !== null &&
      html`<div class="progress" role="img" aria-label=${`${Math.round(part * 100)} % of its time limit`}><span style=${{ inset: `0 ${100 - part * 100}% 0 0`, background: colour(job.queue) }}></span>${job.expectedEnd && job.end !== null && html`<span class="mark" style=${{ left: `${Math.min(100, ((job.end - job.start) / job.limit) * 100)}%` }}></span>`}</div>
    <div class="small faint ends"><span>started ${moment(job.start)}</span><span>limit ${moment(job.start + job.limit)}</span></div>`
    }
    ${
      nodes.length > 0 &&
      job.units > 0 &&
      html`<div class="section"><div class="section-head"><h2>Where it runs</h2></div><div class="minimap">${nodes
        .slice(0, 64)
        .map(([n, amount]) => {
          const node = model.nodes[n],
            mine = Math.round((amount / node.units) * node.squares);
          return html`<div class="node" key=${node.name}><a class="nn" href=${jobsHref(`node:${node.name}`)}>${node.name}</a><div class="gpus" style=${{ gridTemplateColumns: `repeat(${Math.max(1, node.squares)}, minmax(0, 1fr))` }} role="img" aria-label=${`${count(amount)} of ${units(node.units)}`}>${Array.from({ length: node.squares }, (_, g) => html`<span key=${g} class=${`gpu${g < Math.max(1, mine) ? "" : " other"}`} style=${{ "--c": g < Math.max(1, mine) ? colour(job.queue) : "var(--track)" }}></span>`)}</div></div>`;
        })}</div>${nodes.length > 64 && html`<p class="faint">and ${nodes.length - 64} nodes more</p>`}</div>`
    }</div>`;
}

function Facts({ job }) {
  const model = state.value,
    runs = model.gone.get(job.id)?.runs ?? [],
    queue = model.queues.get(job.queue),
    path = [];
  for (let at = queue; at && path.length < 20; at = model.queues.get(at.parent)) path.unshift(at.name);
  if (!path.length && job.queue) path.push(job.queue);
  const hours =
    runs.reduce((n, run) => n + ((run.end - run.start) * job.units) / 60, 0) +
    (job.runs ? (-job.start * job.units) / 60 : 0);
  const lost = model.kills
    .filter((kill) => kill.victim === job.id && kill.at < 0)
    .reduce((n, kill) => n + (kill.ran * kill.units) / 60, 0);
  const row = (dt, dd) => dd && html`<div><dt>${dt}</dt><dd>${dd}</dd></div>`,
    same = model.facts.terminal ?? "",
    resource = (n) => Math.round((n / (job.pods || 1)) * 10) / 10;
  const each = [
    unitsWord() === "GPUs" && job.each ? units(job.each) : "",
    job.cpu ? plural(resource(job.cpu), "CPU") : "",
    job.memory ? `${count(resource(job.memory))} GiB` : "",
  ]
    .filter(Boolean)
    .join(", ");
  const commands = [
    `phalanx explain ${job.id}${same}`,
    `kubectl describe ${job.name.startsWith("pod:") ? "pod" : "job"} -n ${job.namespace} ${job.name.replace(/^pod:/, "")}`,
  ];
  return html`<aside class="aside" aria-label="Facts"><h2>Facts</h2><dl class="facts">
    ${row("queue", path.length > 0 && path.map((name, i) => html`${i ? html`<span class="faint"> / </span>` : ""}<a href=${jobsHref(`queue:${name}`)}>${name}</a>`))}
    ${row("place", job.position > 0 && job.waits && html`${count(job.position)} of ${count(model.waiting.filter((one) => one.queue === job.queue).length)} <span class="faint">(${queue?.order ?? ""})</span>`)}
    ${row("user", job.user && html`<a href=${jobsHref(`user:${job.user}`)}><bdi>${job.user}</bdi></a>`)}
    ${row("requests", job.pods > 0 && each && html`${job.pods} × (${each})${job.pods > 1 ? html`<br /><span class="faint">start together</span>` : ""}`)}
    ${row("flavor", job.flavors?.length > 0 && job.flavors.join(", "))}
    ${row("array", job.array && html`<a href=${jobsHref(`array:${job.array}`)}>${job.array}</a>${job.arrayCap ? `, ${job.arrayCap} at a time` : ""}`)}
    ${row("time limit", job.limit != null && span(job.limit))}
    ${row("priority", job.priority !== undefined && `${job.priority}${job.nice ? `, nice ${job.nice}` : ""}`)}
    ${row("submitted", job.submitted !== undefined && html`${moment(job.submitted)} <span class="faint">${span(-job.submitted)} ago</span>`)}
    ${row("preempted", job.preempted > 0 && plural(job.preempted, "time"))}
    ${row("took", hours > 0.05 && html`${unitHours(hours)}${lost > 0.05 ? html`<br /><span class="bad">${unitHours(lost)} lost to preemption</span>` : ""}`)}
  </dl>
  <${Actions} job=${job} />
  ${job.namespace !== "other" && !model.facts.study && html`<div class="section"><h2>The same in a terminal</h2>${commands.map((text) => html`<div class="cmd" key=${text}><code>${text}</code><${Copy} text=${text} /></div>`)}</div>`}</aside>`;
}

/** How its last run ended, first of all if it did not end by itself. */
function Ended({ job }) {
  const model = state.value,
    run = model.gone.get(job.id)?.runs.at(-1),
    waits = job.waits;
  if (job.over && job.state === "failed")
    return html`<p class="ended"><${Icon} name="kill" /><span><b>It failed</b> ${span(-job.since)} ago${job.message ? `: ${job.message.split("\n")[0]}` : "."}</span></p>`;
  if (!run || run.outcome === "complete" || (job.runs && job.start >= run.end - 0.1)) return null;
  const ago = `${span(-run.end)} ago`,
    ran = span(run.end - run.start),
    why = run.why ? html`: ${linked(run.why.split("\n")[0], job.id)}.` : ".";
  const said = {
    preempted: html`<b>It was preempted${run.by ? html` by <${JobLink} id=${run.by} />` : ""}</b> ${ago}, having run ${ran}${why}`,
    failed: html`<b>It failed</b> ${ago}, after ${ran}${why}`,
    timeout: html`<b>It reached its time limit</b> (${ran}) and was ended ${ago}.`,
    cancelled: html`<b>It was cancelled</b> ${ago}, after ${ran}${why}`,
    requeued: html`<b>It was stopped</b> ${ago}, having run ${ran}${why}`,
    "launch failed": html`<b>A start failed</b> ${ago}${why}`,
  }[run.outcome];
  return said
    ? html`<p class="ended"><${Icon} name="kill" /><span>${said}${waits ? " It waits again, with the age that it had." : ""}</span></p>`
    : null;
}

/** A job that is over, in a sentence. */
function Over({ job }) {
  const model = state.value,
    runs = model.gone.get(job.id)?.runs ?? [],
    last = runs.at(-1),
    before = runs.slice(0, -1);
  if (!last) return html`<p class="why gap-b">It ended ${span(-job.since)} ago.</p>`;
  const again = before.reduce((n, run) => n + ((run.end - run.start) * job.units) / 60, 0);
  return html`<p class="why gap-b">${last.outcome === "complete" ? html`It has been <b>complete</b> since ${moment(last.end)}: it ran ${span(last.end - last.start)}` : html`It ended at <b>${moment(last.end)}</b>, having run ${span(last.end - last.start)}`}${job.units ? ` with ${units(job.units)}` : ""}.${before.length ? html` <span class="dim">It was stopped ${plural(before.length, "time")} before; ${unitHours(again)} ran twice.</span>` : ""}</p>`;
}

export function Job() {
  const model = state.value,
    id = route.value.path.join("/"),
    job = model.jobs.get(id) ?? model.gone.get(id);
  if (!job)
    return html`<h1 class="sr">No such job</h1><${Empty} title="No such job" command="phalanx history --since 30d">No job <bdi>${id}</bdi> runs, waits, or ended within a day; or you may not list the jobs of its namespace. The ledger has older ones.</${Empty}>`;
  const reason = job.waits ? job.reason : null,
    ns = job.namespace;
  const age = reason ? `for ${span(-job.since)}` : "",
    size = job.units ? units(job.units) : "";
  return html`<nav class="crumbs" aria-label="Where"><a href="#/jobs">Jobs</a>${ns && html`<span>/</span>`}${ns && html`<a href=${jobsHref(`ns:${ns}`)}>${ns}</a>`}</nav>
    <div class="jobhead"><h1><bdi>${job.name}</bdi></h1><${State} of=${job.state} /><span class="sub">${[age, size].filter(Boolean).join(", ")}</span>${!reason?.never && html`<a class="btn right" href=${`#/time?job=${encodeURIComponent(id)}`}><${Icon} name="time" />Show in time</a>`}</div>
    <${Ended} job=${job} />
    <div class="jobgrid"><div>
      ${job.over && html`<${Over} job=${job} />`}
      ${job.waits && !reason && html`<p class="why">${job.soon ? "There is capacity for it: it starts in a moment." : "The scheduler has not tried it yet."}</p>`}
      ${reason && html`<section class="section" aria-label="Why it waits"><p class="why"><b>${reason.code}</b>: ${linked(brief(reason.text), id)}.${" "}<span class="dim">${advice(job, model)}</span></p><${Pods} job=${job} /><${Blockers} job=${job} /></section>`}
      ${job.runs && html`<${Runs} job=${job} />`}
      ${reason && !reason.never && html`<section class="section" aria-labelledby="h-when"><div class="section-head"><h2 id="h-when">When it is expected to start</h2></div><${When} job=${job} /></section>`}
      ${reason && job.state === "queued" && ns !== "other" && !model.facts.study && html`<${Sooner} job=${job} />`}
      ${job.runs && ns !== "other" && !model.facts.study && html`<${Use} job=${job} />`}
      ${(job.runs || job.over) && ns !== "other" && !model.facts.study && html`<${Output} job=${job} />`}
      <${History} job=${job} />
    </div><${Facts} job=${job} /></div>`;
}
