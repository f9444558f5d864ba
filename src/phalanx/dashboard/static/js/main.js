// The shell: routes, tabs, keys, the palette, banners. Views know nothing of each other.

import { render } from "../vendor/preact.mjs";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.mjs";
import "../vendor/signals.mjs";
import "./colours.js";
import { clock, plural, span, zone } from "./format.js";
import { connection, failure, follow, keep, retryNow, route, shortcuts, state, theme, utc } from "./store.js";
import { Icon, Tip, html, jobHref, jobsHref } from "./ui.js";
import { Now } from "./views/now.js";
import { Jobs } from "./views/jobs.js";
import { Job } from "./views/job.js";
import { Time } from "./views/time.js";
import { Shares } from "./views/shares.js";

const VIEWS = { now: Now, jobs: Jobs, job: Job, time: Time, shares: Shares };
const TABS = [
  ["now", "Now"],
  ["jobs", "Jobs"],
  ["time", "Time"],
  ["shares", "Shares"],
];
const TITLES = { now: "Now", jobs: "Jobs", time: "Time", shares: "Shares" };

/** A part of the address, as text; one that is not well formed stays as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function readRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/").map(decoded);
  const known = Object.hasOwn(VIEWS, view) ? view : "now";
  if (known !== route.value.view || rest.join() !== route.value.path.join()) scrollTo(0, 0);
  route.value = { view: known, path: rest, query: new URLSearchParams(query) };
  document.title = `${known === "job" ? rest.at(-1) : TITLES[known]} · Phalanx`;
}

function showTheme() {
  document.documentElement.dataset.theme = theme.value;
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
}
function flipTheme() {
  const dark = theme.value === "dark" || (theme.value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  theme.value = dark ? "light" : "dark";
  keep("theme", theme.value);
  showTheme();
  dispatchEvent(new Event("themechange"));
}

const typing = (event) => event.target.closest?.("input, textarea, select, dialog");

function useKeys(open, openKeys) {
  useEffect(() => {
    let before = "";
    const key = (event) => {
      if ((event.metaKey || event.ctrlKey) && event.key === "k") {
        event.preventDefault();
        open();
        return;
      }
      if (!shortcuts.value || typing(event) || event.metaKey || event.ctrlKey || event.altKey) return;
      const to = before === "g" && { n: "now", j: "jobs", t: "time", s: "shares" }[event.key];
      before = event.key;
      if (to) {
        before = "";
        location.hash = `#/${to}`;
        return;
      }
      if (event.key === "?") openKeys();
      if (event.key === "t") flipTheme();
      if (event.key === "/") {
        event.preventDefault();
        const box = /** @type {HTMLInputElement | null} */ (document.querySelector(".filter input"));
        box ? box.focus() : open();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
}

/** What the palette offers: `{ kind, label, href }`, at most forty. */
function findings(model, word) {
  const found = [],
    has = (text) => text.toLowerCase().includes(word);
  const add = (kind, label, href) => {
    if (found.length < 40) found.push({ kind, label, href });
  };
  for (const [view, label] of TABS) if (has(label)) add("view", label, `#/${view}`);
  if (!word) return found;
  for (const queue of model.tree) if (has(queue.name)) add("queue", queue.name, jobsHref(`queue:${queue.name}`));
  for (const user of new Set(model.live.map((job) => job.user)))
    if (user && has(user)) add("user", user, jobsHref(`user:${user}`));
  for (const node of model.nodes) if (has(node.name)) add("node", node.name, jobsHref(`node:${node.name}`));
  for (const job of model.list)
    if (has(job.id)) add(job.runs ? "runs" : job.waits ? "waits" : job.state, job.id, jobHref(job.id));
  for (const job of model.gone.values())
    if (has(job.id) && !model.jobs.has(job.id)) add(job.state, job.id, jobHref(job.id));
  return found;
}

function Palette({ onClose }) {
  const box = useRef(null),
    [text, setText] = useState(""),
    [at, setAt] = useState(0);
  useLayoutEffect(() => {
    box.current.showModal();
  }, []);
  const model = state.value,
    word = text.trim().toLowerCase(),
    found = findings(model, word);
  const go = (one) => {
    if (one) {
      location.hash = one.href;
      onClose();
    }
  };
  const key = (event) => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") go(found[at]);
    else return;
    event.preventDefault();
  };
  return html`<dialog class="pal" ref=${box} onClose=${onClose} onClick=${(event) => event.target === box.current && onClose()} aria-label="Find">
    <input autofocus placeholder="Find a job, queue, user or node" value=${text} onInput=${(event) => {
      setText(event.target.value);
      setAt(0);
    }} onKeyDown=${key}
      role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant=${`found-${at}`} />
    <ul id="found" role="listbox">${found.map((one, i) => html`<li id=${`found-${i}`} role="option" aria-selected=${String(i === at)} onPointerMove=${() => setAt(i)} onClick=${() => go(one)}><span>${one.label}</span><span class="faint">${one.kind}</span></li>`)}</ul>
    <p class="sr" role="status">${plural(found.length, "result")}</p>
  </dialog>`;
}

const KEYS = [
  ["g n", "Now"],
  ["g j", "Jobs"],
  ["g t", "Time"],
  ["g s", "Shares"],
  ["/", "Filter jobs"],
  ["j k", "Next and previous job; Enter opens it"],
  ["← →", "Time: earlier and later; + and − zoom"],
  ["t", "Light or dark"],
  ["Esc", "Close, or back"],
];
function Keys({ onClose }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    box.current.showModal();
  }, []);
  return html`<dialog ref=${box} onClose=${onClose} onClick=${(event) => event.target === box.current && onClose()} aria-labelledby="keys-title"><div class="keys">
    <h2 id="keys-title">Keys</h2>
    <dl><dt><kbd>Ctrl</kbd><kbd>K</kbd></dt><dd>Find anything</dd>${KEYS.map(([keys, what]) => html`<dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${what}</dd>`)}</dl>
    <label><input type="checkbox" checked=${shortcuts.value} onChange=${(event) => {
      shortcuts.value = event.target.checked;
      keep("shortcuts", shortcuts.value ? "on" : "off");
    }} /> Keys of one letter (Ctrl K works always)</label>
  </div></dialog>`;
}

const MARK = html`<svg width="18" height="18" viewBox="0 0 16 16" aria-hidden="true"><g fill="currentColor">${[
  [1, 1],
  [6, 1],
  [11, 1],
  [1, 6],
  [6, 6],
  [1, 11],
].map(([x, y]) => html`<rect x=${x} y=${y} width="4" height="4" rx="1" />`)}</g></svg>`;
const SILENT_MIN = 0.5; // a scheduler that has not renewed its lease for so long decides nothing

/** When the connection was lost, in minutes from the moment of the state; and in how many seconds it is tried again. */
function useLoss() {
  const { live, again, since } = connection.value,
    [, tick] = useState(0);
  useEffect(() => {
    if (live || !since) return undefined;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [live, since]);
  return { lost: !live && since > 0, inSeconds: Math.max(0, Math.ceil((again - Date.now()) / 1000)) };
}

/** What is wrong with the connection, the scheduler, or what may be read. */
function Banners({ model, lost, inSeconds }) {
  const silent = model.alive !== null && model.alive < -SILENT_MIN;
  return html`${lost && html`<div class="banner" role="alert"><${Icon} name="info" /><span><b>The connection was lost.</b> You see the state of ${clock(0)}. ${inSeconds ? `The next try is in ${plural(inSeconds, "second")}.` : "Trying now."}</span><button class="act" type="button" onClick=${retryNow}>Try now</button></div>`}
    ${!lost && silent && html`<div class="banner warn" role="status"><${Icon} name="info" /><span><b>The scheduler has not been at work for ${span(-model.alive)}</b> (it was last seen at ${clock(model.alive)}). Jobs that run go on; none start.</span></div>`}
    ${model.facts.study && html`<div class="banner note" role="status"><${Icon} name="info" /><span>This is a moment of the <b>${model.facts.study}</b>. No cluster runs it.</span></div>`}
    ${model.facts.namespaces && html`<div class="banner warn" role="status"><${Icon} name="info" /><span>You may list the jobs of ${model.facts.namespaces.length === 1 ? "namespace" : "the namespaces"} ${model.facts.namespaces.join(", ")} only. Other jobs are shown without names, as far as they are shown.</span></div>`}`;
}

function Header({ model, view, lost, setOpen }) {
  const current = (name) => (view === name || (view === "job" && name === "jobs") ? "page" : null);
  const flipZone = () => {
    utc.value = !utc.value;
    keep("utc", utc.value ? "on" : "off");
  };
  return html`<header class="top">
      <a class="brand" href="#/now">${MARK}<span>Phalanx <span class="where">${model.facts.cluster}</span></span></a>
      <nav class="tabs" aria-label="Views">${TABS.map(([name, label]) => html`<a key=${name} href=${`#/${name}`} aria-current=${current(name)}><${Icon} name=${name} size=${20} />${label}</a>`)}</nav>
      <div class="right">
        <button class="find" type="button" onClick=${() => setOpen("find")}><${Icon} name="find" /><span>Find anything</span><kbd aria-hidden="true">Ctrl K</kbd></button>
        <button class=${`live ${lost ? "lost" : ""}`} type="button" onClick=${flipZone} title="Times in UTC, or in the zone of this browser"><i></i><span>${lost ? `not since ${clock(0)}` : `${model.facts.study ? "at" : "live,"} ${clock(0)}`} ${zone()}</span><span class="sr">; ${lost ? "the connection is lost" : model.facts.study ? "this moment of the study" : "live"}; change the time zone</span></button>
        <button class="icon-btn" type="button" onClick=${flipTheme} aria-label="Light or dark"><${Icon} name=${theme.value === "dark" ? "sun" : "moon"} /></button>
        <button class="icon-btn keys-btn" type="button" onClick=${() => setOpen("keys")} aria-label="Keys"><${Icon} name="keys" /></button>
        ${model.facts.user && html`<span class="me" title=${`${model.facts.user}; may list the jobs of ${model.facts.namespaces?.join(", ") ?? "all namespaces"}`}>${model.facts.user.slice(0, 2).toUpperCase()}</span>`}
        ${model.facts.leaves && html`<form method="post" action="/sign-out"><button class="icon-btn" aria-label="Sign out" title="Sign out"><${Icon} name="back" /></button></form>`}
      </div>
    </header>`;
}

function Shell() {
  const [open, setOpen] = useState(""),
    model = state.value,
    { view, path } = route.value,
    { lost, inSeconds } = useLoss();
  useKeys(
    () => setOpen("find"),
    () => setOpen("keys"),
  );
  if (!model && failure.value)
    return html`<div class="empty" role="alert"><h1>The server did not answer</h1><p>${failure.value}. This page asks again by itself. Jobs go on without it: <span class="mono">phalanx jobs</span> asks the cluster itself.</p></div>`;
  if (!model) return html`<p class="boot" role="status">Asking the scheduler…</p>`;
  const View = VIEWS[view];
  return html`
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    }}>Skip to the content</a>
    <${Header} model=${model} view=${view} lost=${lost} setOpen=${setOpen} />
    <${Banners} model=${model} lost=${lost} inSeconds=${inSeconds} />
    <main id="main" tabindex="-1" class=${view === "time" ? "wide fade" : "fade"} key=${view + path.join("/")}><${View} /></main>
    ${open === "find" && html`<${Palette} onClose=${() => setOpen("")} />`}
    ${open === "keys" && html`<${Keys} onClose=${() => setOpen("")} />`}
    <${Tip} />`;
}

showTheme();
readRoute();
addEventListener("hashchange", readRoute);
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${Shell} />`, root);
follow();
