// The small parts that views share: icons, queues, states, intervals, tooltips.

import { h } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";
import { colour } from "./colours.js";
import { expectedText, span, units } from "./format.js";
import { hovered, state, tip } from "./store.js";

export { colour };

export const html = htm.bind(h);

const ICONS = {
  run: html`<circle cx="8" cy="8" r="4.5" fill="currentColor"/>`,
  wait: html`<circle cx="8" cy="8" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5"/>`,
  promised: html`<circle cx="8" cy="8" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M8 3.75a4.25 4.25 0 0 1 0 8.5z" fill="currentColor"/>`,
  stop: html`<circle cx="8" cy="8" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2.2 2"/><path d="M6.2 6.2l3.6 3.6M9.8 6.2L6.2 9.8" stroke="currentColor" stroke-width="1.4"/>`,
  done: html`<path d="M3.5 8.5l3 3 6-7" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/>`,
  kill: html`<path d="M4.5 4.5l7 7M11.5 4.5l-7 7" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/>`,
  flag: html`<path d="M4 14V2.5h7.5l-1.8 3 1.8 3H4" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/>`,
  back: html`<path d="M3 12l4-4-4-4M8 12l4-4-4-4" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>`,
  ask: html`<path d="M3 8h10M9 4l4 4-4 4" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>`,
  info: html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M8 7.2v3.6M8 5.1v.3" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/>`,
  find: html`<circle cx="7" cy="7" r="4.2" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M10.2 10.2L13.5 13.5" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>`,
  fold: html`<path d="M6 4.5L9.5 8 6 11.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>`,
  sun: html`<circle cx="8" cy="8" r="2.8" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M12.6 3.4l-1.1 1.1M4.5 11.5l-1.1 1.1" stroke="currentColor" stroke-width="1.4" stroke-linecap="round"/>`,
  moon: html`<path d="M13 9.6A5.4 5.4 0 0 1 6.4 3a5.4 5.4 0 1 0 6.6 6.6z" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/>`,
  copy: html`<rect x="5.5" y="5.5" width="7.5" height="7.5" rx="1.6" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M10.5 3.4v-.2A1.2 1.2 0 0 0 9.3 2H4.2A1.7 1.7 0 0 0 2.5 3.7v5a1.2 1.2 0 0 0 1 1.2" fill="none" stroke="currentColor" stroke-width="1.4"/>`,
  now: html`<rect x="2.5" y="2.5" width="4.4" height="4.4" rx="1" fill="none" stroke="currentColor" stroke-width="1.4"/><rect x="9.1" y="2.5" width="4.4" height="4.4" rx="1" fill="none" stroke="currentColor" stroke-width="1.4"/><rect x="2.5" y="9.1" width="4.4" height="4.4" rx="1" fill="none" stroke="currentColor" stroke-width="1.4"/><rect x="9.1" y="9.1" width="4.4" height="4.4" rx="1" fill="currentColor"/>`,
  jobs: html`<path d="M2.5 4h11M2.5 8h11M2.5 12h7" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>`,
  time: html`<path d="M2.5 4h6M6 8h7.5M4 12h5" stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/>`,
  shares: html`<path d="M3 13.5V8M8 13.5V2.5M13 13.5V6" stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/>`,
  keys: html`<rect x="1.5" y="4" width="13" height="8" rx="1.8" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M4 6.6h.01M6.6 6.6h.01M9.3 6.6h.01M12 6.6h.01M5 9.5h6" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>`,
};
export const Icon = ({ name, size = 16, label }) =>
  html`<svg width=${size} height=${size} viewBox="0 0 16 16" role=${label ? "img" : null} aria-label=${label} aria-hidden=${label ? null : "true"}>${ICONS[name]}</svg>`;

// --- states ---------------------------------------------------------------------------------------------------------

export const STATES = {
  running: ["run", "running", "var(--good)"],
  queued: ["wait", "waits", "var(--ink-2)"],
  promised: ["promised", "nominated", "var(--accent)"],
  starting: ["promised", "starting", "var(--accent)"],
  stuck: ["kill", "stuck", "var(--bad)"],
  stopping: ["stop", "stopping", "var(--bad)"],
  complete: ["done", "complete", "var(--ink-2)"],
  failed: ["kill", "failed", "var(--bad)"],
  timeout: ["kill", "reached its time limit", "var(--warn)"],
  preempted: ["kill", "preempted", "var(--bad)"],
  cancelled: ["kill", "cancelled", "var(--ink-2)"],
  requeued: ["kill", "was stopped and waits again", "var(--bad)"],
  "launch failed": ["kill", "could not be started", "var(--bad)"],
};
export function State({ of, word = true }) {
  const [icon, text, tint] = STATES[of] ?? ["info", of, "var(--ink-2)"];
  return html`<span class="state" style=${{ color: tint }}><${Icon} name=${icon} label=${word ? null : text} />${word && text}</span>`;
}

// --- queues and jobs ------------------------------------------------------------------------------------------------

/** The address of the table of jobs with a filter. */
export const jobsHref = (filter) => `#/jobs?q=${encodeURIComponent(filter)}`;
/** The address of a job's page. */
export const jobHref = (id) => `#/job/${id.split("/").map(encodeURIComponent).join("/")}`;

export const Queue = ({ name, link = true }) =>
  html`<span class="q" style=${{ "--c": colour(name) }}><i></i>${link ? html`<a href=${jobsHref(`queue:${name}`)}>${name}</a>` : html`<bdi>${name}</bdi>`}</span>`;

/** A link to a job; the job lights up everywhere while the pointer is on it. */
export const JobLink = ({ id, text }) =>
  html`<a
    href=${jobHref(id)}
    class="joblink"
    onPointerEnter=${() => (hovered.value = id)}
    onPointerLeave=${() => (hovered.value = "")}
    onFocus=${() => (hovered.value = id)}
    onBlur=${() => (hovered.value = "")}
    ><bdi>${text ?? id}</bdi></a
  >`;

/** Text with ids of known jobs made links. @param {string} text @param {string} self */
export function linked(text, self = "") {
  const model = state.value;
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(/[a-z0-9.-]+\/(?:pod:)?[a-z0-9.-]*[a-z0-9]/g)) {
    if (match[0] === self || !(model.jobs.has(match[0]) || model.gone.has(match[0]))) continue;
    parts.push(text.slice(last, match.index), html`<${JobLink} id=${match[0]} />`);
    last = match.index + match[0].length;
  }
  return [...parts, text.slice(last)];
}

// --- an expected start as an interval on a small axis ------------------------------------------------------------------

/** `x`: the starts that 5, 25, 50, 75, 95 % are earlier than, and the latest by limits. A band of 90 %, one of 50 %, a line. */
export function Interval({ x, max, width = 190, height = 18, ticks = [], root = false }) {
  if (!x) return null;
  const part = (min) => {
    const p = Math.min(1, Math.max(0, min) / max);
    return root ? Math.sqrt(p) : p;
  }; // `root`: near times have more room
  const to = (min) => (min === null ? width : part(min) * width);
  const [p5, p25, p50, p75, p95] = x,
    mid = height / 2;
  const beyond = p25 === null || p25 > max;
  return html`<svg class="iv" width="100%" height=${height} viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
    <line class="ax" x1="0" x2=${width} y1=${mid} y2=${mid} />
    ${ticks.map((t) => html`<line class="ax" x1=${to(t)} x2=${to(t)} y1=${mid - 3} y2=${mid + 3} />`)}
    ${
      beyond
        ? html`<path d=${`M${width - 9} ${mid - 4}l5 4-5 4`} fill="none" stroke="var(--accent)" stroke-width="1.5" />`
        : html`
      <rect class="w" x=${to(p5)} y=${mid - 4} width=${Math.max(2, to(p95) - to(p5))} height="8" rx="2" />
      <rect class="n" x=${to(p25)} y=${mid - 4} width=${Math.max(2, to(p75) - to(p25))} height="8" rx="2" />
      ${p50 !== null && html`<line class="md" x1=${to(p50)} x2=${to(p50)} y1=${mid - 6} y2=${mid + 6} />`}`
    }
  </svg>`;
}

// --- tooltips -----------------------------------------------------------------------------------------------------------

export const over = (body) => ({
  onPointerMove: (event) => {
    if (event.pointerType !== "touch") tip.value = { x: event.clientX, y: event.clientY, body };
  },
  onPointerLeave: () => {
    tip.value = null;
  },
});
export function Tip() {
  const now = tip.value;
  if (!now) return null;
  const left = Math.min(now.x + 14, innerWidth - 345),
    below = now.y + 18;
  const style =
    below > innerHeight - 130
      ? { left: `${left}px`, bottom: `${innerHeight - now.y + 12}px` }
      : { left: `${left}px`, top: `${below}px` };
  return html`<div class="tip" style=${style} aria-hidden="true">${now.body}</div>`;
}

export function jobTip(job) {
  const where =
    job.state === "running"
      ? `runs for ${span(-job.start)}${job.limit === null ? "" : ` of at most ${span(job.limit)}`}`
      : job.state === "stopping"
        ? `is being preempted${job.preemptedBy ? ` by ${job.preemptedBy}` : ""}`
        : job.state === "stuck"
          ? job.message
          : job.reason
            ? `${job.reason.code}${job.expected ? `, expected ${expectedText(job.expected)}` : ""}`
            : job.state;
  return html`<b><bdi>${job.id}</bdi></b><div class="dim"><bdi>${job.user || "–"}</bdi> · ${job.queue}${job.units ? ` · ${units(job.units)}` : ""}</div><div class="dim">${where}</div>`;
}

export function Copy({ text }) {
  const copy = (event) => {
    event.preventDefault();
    navigator.clipboard?.writeText(text);
    event.currentTarget.setAttribute("aria-label", "Copied");
  };
  return html`<button class="icon-btn" onClick=${copy} aria-label=${`Copy: ${text}`} title=${text} type="button"><${Icon} name="copy" /></button>`;
}

export const Empty = ({ title, children, command }) =>
  html`<div class="empty"><h2>${title}</h2><p>${children}</p>${command && html`<code>${command}</code>`}</div>`;
