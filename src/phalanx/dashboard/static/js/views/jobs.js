// Jobs: one filter, one table. The filter is in the address, so a link says what is shown. Only visible rows are drawn, and
// rows keep their places while the pointer or the focus is in the table.

import { useEffect, useMemo, useRef, useState } from "../../vendor/hooks.mjs";
import { flipped, folded, parse, wordsOf } from "../filter.js";
import { brief, clock, count, expectedText, moment, plural, span, units, unitsWord, unitWord } from "../format.js";
import { hovered, route, shortcuts, state } from "../store.js";
import { Empty, Icon, Interval, Queue, State, html, jobHref, jobsHref, over } from "../ui.js";

const ROW = 36,
  PHONE_ROW = 62;
const SORTS = {
  job: (job) => job.id,
  queue: (job) => job.queue,
  user: (job) => job.user,
  units: (job) => -job.units,
  since: (job) => job.since,
  start: (job) =>
    job.soon
      ? -1
      : job.waits
        ? (job.expected?.[2] ?? (job.reason?.never ? 9e5 : job.expected ? 5e5 : 8e5))
        : job.runs
          ? 1e6 - job.since
          : 2e6 - job.since,
};

/** Where the job runs, or why it does not. */
function where(job, model) {
  if (job.waits)
    return html`<span class="y" title=${job.reason?.text ?? ""}><b>${job.reason?.code ?? ""}</b>${job.reason ? brief(job.reason.text) : job.soon ? "there is capacity; it starts in a moment" : ""}</span>`;
  if (job.over) return html`<span class="y">${job.message.split("\n")[0] || job.state}</span>`;
  if (job.state === "stuck") return html`<span class="y bad" title=${job.message}>${job.message}</span>`;
  const nodes = job.places.map(([node]) => model.nodes[node]?.name ?? "").filter(Boolean);
  return html`<span class="y">${nodes.slice(0, 4).join(", ")}${nodes.length > 4 ? ` and ${nodes.length - 4} more` : ""}${job.reason && job.placed < job.pods ? html` · ${job.placed} of ${job.pods} pods · <b>${job.reason.code}</b>${brief(job.reason.text)}` : ""}${job.state === "stopping" ? html`<span class="bad"> · is being preempted${job.preemptedBy ? ` by ${job.preemptedBy}` : ""}</span>` : ""}</span>`;
}

function Start({ job }) {
  if (job.over) return html`<span class="faint small">${span(-job.since)} ago</span>`;
  if (job.soon) return html`<span class="small">now</span>`;
  if (job.expected) {
    const [, , median] = job.expected;
    const words =
      median === null
        ? "later"
        : median <= 1
          ? "now"
          : median > 598
            ? moment(median).replace("tomorrow", "+1d")
            : clock(median);
    const hint = html`<b>${expectedText(job.expected)}</b><div class="dim">with 90 %: ${moment(job.expected[0] ?? 0)}–${job.expected[4] === null ? "later" : moment(job.expected[4])}</div>`;
    return html`<span class="xp" ...${over(hint)}><span class="sr">${expectedText(job.expected)}</span><span class="at" aria-hidden="true">${words}</span><${Interval} x=${job.expected} max=${1440} width=${132} ticks=${[60, 240, 720, 1440]} root /></span>`;
  }
  if (job.runs)
    return html`<span class="faint small">${job.limit !== null ? `ends by ${moment(job.start + job.limit)}` : "no time limit"}</span>`;
  if (job.reason?.never) return html`<span class="small bad">can never start</span>`;
  return html`<span class="faint small">not known</span>`;
}

function Row({ job, more, at, sel, model, height }) {
  const href = more ? jobsHref(`array:${job.array}`) : jobHref(job.id);
  return html`<div class=${`gr${sel ? " sel" : ""}`} role="row" id=${`row-${at}`} aria-rowindex=${at + 2} style=${{ transform: `translateY(${at * height}px)`, height: `${height}px` }}>
    <span role="cell"><${State} of=${job.state} word=${false} /></span>
    <span role="cell" class="jn" title=${job.id}><a href=${href}><span>${job.namespace}/</span><bdi>${job.name}</bdi></a>${more > 0 && html`<em title="of the same array; Enter shows them">+${count(more)}</em>`}</span>
    <span role="cell"><${Queue} name=${job.queue} link=${false} /></span>
    <span role="cell" class="dim"><bdi>${job.user}</bdi></span>
    <span role="cell" class="num">${job.units ? html`${count(job.units)}<span class="unit"> ${job.units === 1 ? unitWord() : unitsWord()}</span>` : html`<span class="faint">–</span>`}</span>
    <span role="cell" class="num dim">${span(-job.since)}</span>
    <span role="cell" class="small">${where(job, model)}</span>
    <span role="cell" class="xs"><${Start} job=${job} /></span>
  </div>`;
}

/** The rows to show. While the reader is in the table they keep their places; what changed is counted. */
function useSteadyRows(found, key, inside) {
  const held = useRef({ key: "", rows: [] });
  const changes = useMemo(() => {
    if (held.current.key !== key || !inside.current) return 0;
    const known = new Set(held.current.rows.map(([job]) => job.id)),
      now = new Set(found.map(([job]) => job.id));
    return (
      found.filter(([job]) => !known.has(job.id)).length + held.current.rows.filter(([job]) => !now.has(job.id)).length
    );
  }, [found, key]);
  const [, again] = useState(0);
  if (held.current.key !== key || !inside.current) held.current = { key, rows: found };
  else {
    const now = new Map(found.map((row) => [row[0].id, row]));
    held.current = {
      key,
      rows: held.current.rows.map((row) => now.get(row[0].id) ?? [state.value.jobs.get(row[0].id) ?? row[0], row[1]]),
    };
  }
  const takeIn = () => {
    held.current = { key, rows: found };
    again((n) => n + 1);
  };
  return [held.current.rows, changes, takeIn];
}

/** The chips that narrow the table down: `[word, label, how many]`. */
function chips(model, query) {
  const rest = wordsOf(query)
    .filter((word) => !/^(reason:|is:)/.test(word))
    .join(" ");
  const all = model.list.filter(parse(`${rest} is:any`, model)),
    live = all.filter((job) => !job.over);
  const number = (test) => live.filter(test).length,
    codes = new Map();
  for (const job of live)
    if (job.reason && !job.reason.never && job.waits) codes.set(job.reason.code, (codes.get(job.reason.code) ?? 0) + 1);
  return {
    states: [
      ["is:waiting", "waiting", number((job) => job.waits)],
      ["is:running", "running", number((job) => job.runs)],
      ["is:mine", "mine", number((job) => job.user !== "" && job.user === model.facts.user)],
      ["is:preempted", "preempted", number((job) => job.preempted > 0)],
      ["is:stuck", "stuck, or can never start", number((job) => job.state === "stuck" || (job.waits && job.reason?.never))],
      ["is:over", "over", all.length - live.length],
    ],
    codes: [...codes].sort((a, b) => b[1] - a[1]).slice(0, 6),
  };
}

function Facets({ model, query, set, fold, setFold }) {
  const { states, codes } = useMemo(() => chips(model, query), [model, query]);
  const has = (word) => wordsOf(query).includes(word);
  const chip = (word, label, n) =>
    html`<button key=${word} type="button" class="chip" aria-pressed=${String(has(word))} onClick=${() => set(flipped(query, word))}><b>${count(n)}</b>${label}</button>`;
  return html`<div class="facets" role="group" aria-label="Narrow down">
    ${states.filter(([word, , n]) => n > 0 || has(word)).map(([word, label, n]) => chip(word, label, n))}
    ${model.list.some((job) => job.array) && html`<button type="button" class="chip" aria-pressed=${String(fold)} onClick=${() => setFold(!fold)}>arrays folded</button>`}
    ${codes.length > 0 && html`<span class="gap"></span>`}
    ${codes.map(([code, n]) => chip(`reason:${code}`, code, n))}
  </div>`;
}

const COLUMNS = [
  ["", "state"],
  ["job", "job"],
  ["queue", "queue"],
  ["user", "user"],
  ["units", "", "num"],
  ["since", "since", "num"],
  ["", "where, or why not"],
  ["start", "expected", "xh"],
];

function Head({ sort, setSort }) {
  return html`<div class="gh" role="row">${COLUMNS.map(([key, label, kind], at) => html`<span key=${at} role="columnheader" class=${kind ?? ""} aria-sort=${key && sort[0] === key ? (sort[1] > 0 ? "ascending" : "descending") : null}>${key ? html`<button type="button" onClick=${() => setSort([key, sort[0] === key ? -sort[1] : 1])}>${label || unitsWord()}${sort[0] === key ? (sort[1] > 0 ? " ↑" : " ↓") : ""}</button>` : at === 0 ? html`<span class="sr">${label}</span>` : label}${key === "start" ? html`<span class="ticks" aria-hidden="true"><i style=${{ left: "20.4%" }}>1h</i><i style=${{ left: "40.8%" }}>4h</i><i style=${{ left: "70.7%" }}>12h</i><i style=${{ left: "100%" }}>24h</i></span>` : ""}</span>`)}</div>`;
}

/** Which part of the table is on the screen. */
function useScroll(box, phone) {
  const [view, setView] = useState({ top: 0, height: 900 });
  useEffect(() => {
    const scroller = phone ? window : box.current;
    const look = () => {
      if (box.current)
        setView(
          phone
            ? { top: Math.max(0, scrollY - box.current.offsetTop), height: innerHeight }
            : { top: box.current.scrollTop, height: box.current.clientHeight },
        );
    };
    look();
    scroller?.addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      scroller?.removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [phone]);
  return view;
}

/** The keys of the table. `live`: what is shown and chosen now, which a key may follow faster than the page is drawn. */
function useChoice(box, live, setSel) {
  useEffect(() => {
    const key = (event) => {
      const { rows, height, sel } = live.current;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.("input, dialog") && event.key !== "Escape") return;
      if (!shortcuts.value && event.key.length === 1) return;
      if (event.key === "Escape" && event.target.closest?.(".filter")) {
        event.target.blur();
        return;
      }
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
      if (step && rows.length) {
        event.preventDefault();
        const now = Math.max(0, Math.min(rows.length - 1, sel + step));
        const area = box.current;
        if (now * height < area.scrollTop) area.scrollTop = now * height;
        if ((now + 1) * height > area.scrollTop + area.clientHeight)
          area.scrollTop = (now + 1) * height - area.clientHeight;
        hovered.value = rows[now]?.[0].id ?? "";
        live.current.sel = now;
        setSel(now);
      }
      const chosen = event.key === "Enter" && sel >= 0 ? rows[sel] : null;
      if (chosen && !event.target.closest?.("a, button"))
        location.hash = chosen[1] ? jobsHref(`array:${chosen[0].array}`) : jobHref(chosen[0].id);
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
}

export function Jobs() {
  const model = state.value,
    query = route.value.query.get("q") ?? "",
    box = useRef(null),
    inside = useRef(false);
  const [sort, setSort] = useState(/** @type {[string, number]} */ (["start", 1])),
    [fold, setFold] = useState(true),
    [sel, setSel] = useState(-1);
  const phone = matchMedia("(max-width: 760px)").matches,
    height = phone ? PHONE_ROW : ROW;
  const set = (text) => {
    history.replaceState(null, "", text ? jobsHref(text) : "#/jobs");
    route.value = { ...route.value, query: new URLSearchParams(text ? { q: text } : {}) };
    setSel(-1);
    if (box.current) box.current.scrollTop = 0;
  };
  const found = useMemo(() => {
    const key = SORTS[sort[0]],
      compare = (a, b) => {
        const x = key(a),
          y = key(b);
        return (x < y ? -1 : x > y ? 1 : a.id < b.id ? -1 : 1) * sort[1];
      };
    return model.list.filter(parse(query, model)).sort(compare);
  }, [query, sort, model]);
  const sorted = useMemo(
    () => (fold && !query.includes("array:") ? folded(found) : found.map((job) => [job, 0])),
    [found, fold],
  );
  const [rows, changes, takeIn] = useSteadyRows(sorted, `${query}|${sort}|${fold}`, inside);
  const view = useScroll(box, phone);
  const live = useRef({ rows, height, sel });
  live.current = { rows, height, sel };
  useChoice(box, live, setSel);
  const first = Math.max(0, Math.floor(view.top / height) - 8),
    last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + 8);
  const held = found.reduce((n, job) => n + (job.runs ? job.units : 0), 0),
    asked = found.reduce((n, job) => n + (job.waits ? job.units : 0), 0);
  const enter = () => {
      inside.current = true;
    },
    leave = () => {
      inside.current = false;
    };
  return html`<h1 class="sr">Jobs</h1>
    <label class="filter"><${Icon} name="find" /><span class="sr">Filter</span><input value=${query} placeholder="Filter: a name, queue:vision, user:ana, reason:NoRoom, node:gpu-1a, gpus>8" onInput=${(event) => set(event.target.value)} autocomplete="off" autocapitalize="off" spellcheck=${false} />${query ? html`<button class="icon-btn" type="button" aria-label="Clear the filter" onClick=${() => set("")}><${Icon} name="kill" size=${14} /></button>` : html`<kbd aria-hidden="true">/</kbd>`}</label>
    <${Facets} model=${model} query=${query} set=${set} fold=${fold} setFold=${setFold} />
    <div class="grid" role="table" aria-label="Jobs" aria-rowcount=${rows.length + 1} onPointerEnter=${enter} onPointerLeave=${leave} onFocusIn=${enter} onFocusOut=${leave}>
      ${changes > 0 && html`<button type="button" class="news" onClick=${takeIn}>${plural(changes, "change")}: show ${changes === 1 ? "it" : "them"}</button>`}
      <div role="rowgroup"><${Head} sort=${sort} setSort=${setSort} /></div>
      <div class="gbody" ref=${box} tabindex="0" role="rowgroup" aria-label="Jobs; j and k move, Enter opens"><div style=${{ height: `${rows.length * height}px`, position: "relative" }}>${rows.slice(first, last).map(([job, more], i) => html`<${Row} key=${job.id} job=${job} more=${more} at=${first + i} sel=${first + i === sel} model=${model} height=${height} />`)}</div>
      </div>
    </div>
    ${!found.length && (model.list.length ? html`<${Empty} title="No job matches" command=${query}>No job that runs or waits matches. Jobs that are over: <span class="mono">is:over</span>, and <span class="mono">phalanx history</span>. <button class="btn" type="button" onClick=${() => set("")}>Show all jobs</button></${Empty}>` : html`<${Empty} title="No job yet" command="phalanx submit train.yaml">Jobs appear here the moment they are submitted.</${Empty}>`)}
    <div class="foot"><span role="status">${count(found.length)} of ${plural(model.live.length, "job")}; ${units(held)} in use, ${count(asked)} requested</span><span>${sort[0] === "start" ? "in the order of their expected starts" : `by ${sort[0] === "units" ? unitsWord() : sort[0]}`}${sort[1] < 0 ? ", backwards" : ""}</span></div>`;
}
