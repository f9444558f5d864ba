// Time: a day back, a day ahead. Rows are nodes, lanes are units. Drawn on a canvas; the same facts stand in a table below.

import { useEffect, useMemo, useRef, useState } from "../../vendor/hooks.mjs";
import { amount, count, moment, plural, span, unitHours, units, unitsWord, unitWord } from "../format.js";
import { AXIS, GUTTER, LANES, draw, layout, palette } from "../gantt.js";
import { DAY, series, timeOf } from "../model.js";
import { route, state, tip } from "../store.js";
import { Empty, Icon, JobLink, Queue, html, jobHref, jobTip } from "../ui.js";

/** @type {[number, string][]} how many minutes are shown */
const WIDTHS = [
  [360, "6 h"],
  [720, "12 h"],
  [1440, "24 h"],
  [2880, "48 h"],
];

/** The strip above: what is in use, by top queue, for two days. Dragging moves the part that is shown below. */
function Overview({ model, view, set, colours }) {
  const ref = useRef(null),
    lines = useMemo(() => series(model.bars), [model]);
  useEffect(() => {
    const canvas = ref.current,
      width = canvas.clientWidth,
      height = 52,
      dpr = devicePixelRatio || 1,
      ctx = canvas.getContext("2d");
    canvas.width = width * dpr;
    canvas.height = height * dpr;
    canvas.style.height = `${height}px`;
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const X = (t) => GUTTER + ((t + DAY) / (2 * DAY)) * (width - GUTTER),
      points = (2 * DAY) / 10 + 1,
      most = Math.max(model.units, 1) * 1.04;
    const Y = (n) => height - 4 - (Math.min(n, most) / most) * (height - 8);
    let below = new Float64Array(points);
    for (const top of model.tree.filter((queue) => queue.depth === 0)) {
      const above = Float64Array.from(below);
      for (const name of model.leaves(top.name))
        lines.get(name)?.forEach((n, at) => {
          above[at] += n;
        });
      for (const [from, to, alpha] of [
        [0, (points + 1) / 2, 0.85],
        [(points - 1) / 2, points, 0.4],
      ]) {
        ctx.beginPath();
        for (let at = from; at < to; at++) ctx[at === from ? "moveTo" : "lineTo"](X(timeOf(at)), Y(above[at]));
        for (let at = to - 1; at >= from; at--) ctx.lineTo(X(timeOf(at)), Y(below[at]));
        ctx.fillStyle = colours.queues[top.name] ?? colours.track;
        ctx.globalAlpha = alpha;
        ctx.fill();
      }
      ctx.globalAlpha = 1;
      below = above;
    }
    ctx.font = "400 11px Inter, sans-serif";
    ctx.fillStyle = colours["ink-3"];
    ctx.textBaseline = "middle";
    ctx.fillText(unitsWord(), 16, 16);
    ctx.fillText("in use", 16, 30);
    ctx.fillStyle = colours.bg;
    ctx.globalAlpha = 0.72;
    ctx.fillRect(GUTTER, 0, X(view.from) - GUTTER, height);
    ctx.fillRect(X(view.to), 0, width - X(view.to), height);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colours.ink;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.roundRect(X(view.from) + 0.75, 1, X(view.to) - X(view.from) - 1.5, height - 2, 4);
    ctx.stroke();
    ctx.fillStyle = colours.ink;
    ctx.fillRect(X(0) - 0.5, 0, 1, height);
  }, [view, colours, model]);
  const drag = (event) => {
    if (event.buttons !== 1 && event.type !== "pointerdown") return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const box = event.currentTarget.getBoundingClientRect(),
      t = ((event.clientX - box.left - GUTTER) / (box.width - GUTTER)) * 2 * DAY - DAY,
      half = (view.to - view.from) / 2;
    set(t - half, t + half);
  };
  return html`<div class="over"><canvas ref=${ref} aria-hidden="true" onPointerDown=${drag} onPointerMove=${drag}></canvas></div>`;
}

/** What is under the pointer, as the tooltip says it. */
function tipOf(bar, model) {
  const job = model.jobs.get(bar.id),
    kill = model.kills.find((one) => one.victim === bar.id && Math.abs(one.at - bar.end) < 0.1);
  const kind = {
    will: ", expected",
    run: bar.stopping ? ", is being preempted" : ", expected end",
    past: `, ${bar.outcome}`,
  }[bar.kind];
  const early = bar.backfilled ? ", by backfill" : "";
  const open = bar.kind === "run" && job && job.end === null;
  return html`${bar.kind !== "past" && job ? jobTip(job) : html`<b><bdi>${bar.id}</bdi></b><div class="dim">${bar.queue} · ${units(bar.amount)} here</div>`}
    <div class="dim">${moment(bar.start)}–${open ? "no limit" : html`${moment(bar.end)} (${span(bar.end - bar.start)})${kind}`}${early}</div>${kill?.by && html`<div class="bad">was preempted by ${kill.by}</div>`}`;
}

/** Which bar is under the pointer. */
function barAt(event, { canvas, scroller, model, plan, view }) {
  const box = canvas.getBoundingClientRect(),
    x = event.clientX - box.left,
    y = event.clientY - box.top - AXIS + scroller.scrollTop;
  if (x < GUTTER || event.clientY - box.top < AXIS) return null;
  const t = view.from + ((x - GUTTER) / (box.width - GUTTER)) * (view.to - view.from);
  for (let i = model.bars.length - 1; i >= 0; i--) {
    const bar = model.bars[i],
      top = plan.top[bar.node];
    if (top == null || t < bar.start || t > bar.end || y < top || y > top + LANES) continue;
    const lane = ((y - top) / LANES) * model.nodes[bar.node].units;
    if (bar.pieces?.some(([from, to]) => lane >= from && lane < to)) return bar;
  }
  return null;
}

/** The part of time that is shown; how it moves. */
function useView(phone) {
  const [view, setView] = useState(phone ? { from: -120, to: 240 } : { from: -480, to: 960 });
  const set = (from, to) => {
    const width = Math.max(30, Math.min(2 * DAY, to - from)),
      f = Math.max(-DAY, Math.min(DAY - width, from));
    setView({ from: f, to: f + width });
  };
  const pan = (part) => set(view.from + (view.to - view.from) * part, view.to + (view.to - view.from) * part);
  const zoom = (by, t = (view.from + view.to) / 2) => set(t - (t - view.from) * by, t + (view.to - t) * by);
  return { view, set, pan, zoom };
}

/** Draw when anything changes, and when the canvas, the fonts or the theme do. */
function usePicture(refs, scene, again, model, wanted, set) {
  const live = useRef(scene);
  live.current = scene;
  const paint = () => {
    const box = refs.scroller.current;
    if (box && refs.canvas.current)
      draw(refs.canvas.current, {
        ...live.current,
        scroll: box.scrollTop,
        size: { width: box.clientWidth, height: box.clientHeight },
      });
  };
  useEffect(paint, [scene.view, scene.pick, scene.show, scene.colours, scene.model]);
  useEffect(() => {
    const box = refs.scroller.current,
      watch = new ResizeObserver(paint),
      scheme = matchMedia("(prefers-color-scheme: dark)");
    const wheel = (event) => {
      if (!event.ctrlKey && Math.abs(event.deltaX) < Math.abs(event.deltaY)) return;
      event.preventDefault();
      const { view } = live.current,
        r = box.getBoundingClientRect();
      if (event.ctrlKey) {
        const t = view.from + ((event.clientX - r.left - GUTTER) / (r.width - GUTTER)) * (view.to - view.from),
          by = event.deltaY > 0 ? 1.15 : 0.87;
        set(t - (t - view.from) * by, t + (view.to - t) * by);
      } else {
        const d = (event.deltaX / box.clientWidth) * (view.to - view.from);
        set(view.from + d, view.to + d);
      }
    };
    box.addEventListener("scroll", paint, { passive: true });
    box.addEventListener("wheel", wheel, { passive: false });
    watch.observe(box);
    addEventListener("themechange", again);
    scheme.addEventListener("change", again);
    document.fonts.ready.then(paint);
    const bar =
      wanted &&
      (model.bars.find((one) => one.id === wanted && one.kind !== "past") ??
        model.bars.findLast((one) => one.id === wanted));
    if (bar) {
      const mid = Math.max(bar.start, Math.min(bar.end, bar.start + 240));
      set(mid - 420, mid + 420);
      box.scrollTop = Math.max(0, (scene.plan.top[bar.node] ?? 0) - 90);
    }
    return () => {
      box.removeEventListener("scroll", paint);
      box.removeEventListener("wheel", wheel);
      watch.disconnect();
      removeEventListener("themechange", again);
      scheme.removeEventListener("change", again);
    };
  }, []);
}

function Tools({ model, view, set, show, flip, wanted, clear }) {
  const width = view.to - view.from,
    leaves = model.tree.filter((queue) => !queue.kids.length).slice(0, 10);
  const chips = [
    ["preemptions", "Preemptions", model.kills.length],
    ["reservations", "Reservations", model.reservations.length + (model.head ? 1 : 0)],
    ["backfilled", "Only backfilled", new Set(model.bars.filter((bar) => bar.backfilled).map((bar) => bar.id)).size],
  ];
  return html`<div class="tools">
    <span class="seg" role="group" aria-label="How much is shown">${WIDTHS.map(([m, label]) => html`<button key=${m} type="button" aria-pressed=${String(Math.abs(width - m) < 2)} onClick=${() => set(m === 2880 ? -DAY : -m / 3, m === 2880 ? DAY : (2 * m) / 3)}>${label}</button>`)}</span>
    <span class="chips">${chips.map(([name, label, n]) => html`<button key=${name} type="button" class="chip" aria-pressed=${String(show[name])} onClick=${() => flip(name)}>${label}<b>${n}</b></button>`)}</span>
    ${wanted && html`<span class="chip">only <b><bdi>${wanted}</bdi></b><a href="#/time" aria-label="Show all jobs" onClick=${clear}><${Icon} name="kill" size=${12} /></a></span>`}
    <span class="legend right">${leaves.map((queue) => html`<${Queue} key=${queue.name} name=${queue.name} link=${false} />`)}</span>
  </div>`;
}

function Legend({ model }) {
  const undrawn = model.running.filter((job) => !job.places.some(([, n]) => n > 0)).length;
  return html`<div class="legend gap-m">
    <span><svg width="26" height="12"><rect width="26" height="12" fill="var(--accent)" /></svg>ran</span>
    <span><svg width="26" height="12"><rect width="12" height="12" fill="var(--accent)" /><rect x="12" width="14" height="12" fill="var(--accent)" opacity=".55" /></svg>runs, and its expected end</span>
    <span><svg width="26" height="12"><rect x=".5" y=".5" width="25" height="11" fill="var(--accent)" fill-opacity=".34" stroke="var(--accent)" /></svg>expected, by typical run times; its nodes may be others</span>
    <span><svg width="26" height="12"><rect width="26" height="12" fill="var(--accent)" /><rect x="23" width="3" height="12" fill="var(--bad)" /></svg>failed, or was stopped</span>
    <span><svg width="26" height="12"><rect width="26" height="12" fill="var(--accent)" /><path d="M3 3l4 3-4 3z" fill="var(--surface)" /></svg>started by backfill</span>
    <span><svg width="30" height="12"><rect width="12" height="12" fill="var(--accent)" /><rect x="12" width="18" height="12" fill="var(--track)" /><path d="M12 6h9" stroke="var(--bad)" stroke-width="1.5" /><path d="M26 6l-6-3.4v6.8z" fill="var(--bad)" /><circle cx="12" cy="6" r="3" fill="var(--surface)" stroke="var(--bad)" stroke-width="1.4" /></svg>was preempted by</span>
    <span><svg width="26" height="12"><rect x=".6" y=".6" width="24.8" height="10.8" fill="none" stroke="var(--ink)" stroke-dasharray="4 3" /></svg>reserved for the first that finds no capacity</span>
    ${undrawn > 0 && html`<span class="faint">${plural(undrawn, "running job")} without ${unitsWord()} ${undrawn === 1 ? "is" : "are"} not drawn</span>`}
    ${!model.facts.past && html`<span class="faint">without a ledger the past is not known: --ledger names one</span>`}
  </div>`;
}

function Preemptions({ model }) {
  const { kills } = model;
  if (!kills.length) return null;
  const hours = kills.reduce((n, kill) => n + (kill.units * kill.ran) / 60, 0);
  return html`<section class="section" aria-labelledby="h-kills"><div class="section-head"><h2 id="h-kills">Which job was preempted by which</h2><span class="say">${kills.length} in a day; ${unitHours(hours)} run again</span></div>
    <table class="events"><thead><tr><th>when</th><th>was preempted</th><th>by</th><th class="num">had run</th><th class="num opt">${unitWord()} hours lost</th></tr></thead><tbody>${kills.slice(0, 100).map((kill, at) => html`<tr key=${at}><td class="dim">${kill.at === 0 ? "now" : moment(kill.at)}</td><td><${JobLink} id=${kill.victim} /></td><td>${kill.by ? html`<${JobLink} id=${kill.by} />` : ""}</td><td class="num">${span(kill.ran)}</td><td class="num opt">${amount((kill.units * kill.ran) / 60)}</td></tr>`)}</tbody></table>
    ${kills.length > 100 && html`<p class="faint">and ${count(kills.length - 100)} more</p>`}</section>`;
}

export function Time() {
  const model = state.value,
    wanted = route.value.query.get("job") ?? "",
    phone = innerWidth < 760;
  const plan = useMemo(() => layout(model), [model]),
    [theme, setTheme] = useState(0);
  const colours = useMemo(() => palette(model), [model, theme]),
    { view, set, pan, zoom } = useView(phone);
  const [pick, setPick] = useState(wanted),
    [show, setShow] = useState({ preemptions: true, reservations: true, backfilled: false }),
    [said, setSaid] = useState("");
  const refs = { canvas: useRef(null), scroller: useRef(null) },
    drag = useRef({ at: null, from: 0, moved: false }),
    rest = useRef(0);
  useEffect(() => {
    setPick(wanted);
  }, [wanted]);
  usePicture(
    refs,
    { model, bars: model.bars, plan, view, colours, pick, pinned: wanted !== "" || show.backfilled, show },
    () => setTheme((n) => n + 1),
    model,
    wanted,
    set,
  );
  if (!model.nodes.some((node) => node.units > 0))
    return html`<h1>Time</h1><${Empty} title="No nodes">The cluster has no nodes with ${unitsWord()}.</${Empty}>`;
  const here = (event) =>
    barAt(event, { canvas: refs.canvas.current, scroller: refs.scroller.current, model, plan, view });
  const move = (event) => {
    if (event.buttons === 1 && drag.current.at !== null) {
      const d =
        ((drag.current.at - event.clientX) / (refs.canvas.current.clientWidth - GUTTER)) * (view.to - view.from);
      drag.current.moved ||= Math.abs(event.clientX - drag.current.from) > 4;
      drag.current.at = event.clientX;
      tip.value = null;
      set(view.from + d, view.to + d);
      return;
    }
    const bar = here(event);
    clearTimeout(rest.current);
    rest.current = setTimeout(() => setPick(bar?.id ?? wanted), 90); // only where the pointer rests
    tip.value = bar ? { x: event.clientX, y: event.clientY, body: tipOf(bar, model) } : null;
  };
  const key = (event) => {
    const act = {
      ArrowLeft: () => pan(-0.15),
      ArrowRight: () => pan(0.15),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1.4),
      Home: () => set(-480, 960),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
    setSaid(`${moment(view.from)} to ${moment(view.to)}`);
  };
  const flip = (name) => setShow((old) => ({ ...old, [name]: !old[name] })),
    leave = () => {
      clearTimeout(rest.current);
      setPick(wanted);
      tip.value = null;
    };
  return html`<div class="section-head flush"><h1>Time</h1><span class="say time-say">what ran, and what is expected to run: rows are nodes, lanes are ${unitsWord()}</span></div>
    <${Tools} model=${model} view=${view} set=${set} show=${show} flip=${flip} wanted=${wanted} clear=${() => setPick("")} />
    <${Overview} model=${model} view=${view} set=${set} colours=${colours} />
    <div class="gantt"><div class="gscroll" ref=${refs.scroller} tabindex="0" role="group" aria-label="Nodes over time. Arrow keys move, plus and minus zoom. The table below and Jobs have the same facts." onKeyDown=${key}>
      <div style=${{ height: `${plan.height + AXIS}px` }}><canvas ref=${refs.canvas} class="sticky" aria-hidden="true" onPointerDown=${(
        event,
      ) => {
        drag.current = { at: event.clientX, from: event.clientX, moved: false };
      }} onPointerMove=${move} onPointerUp=${() => {
        drag.current.at = null;
      }} onPointerLeave=${leave} onClick=${(event) => {
        const bar = !drag.current.moved && here(event);
        if (bar) {
          tip.value = null;
          location.hash = jobHref(bar.id);
        }
      }}></canvas></div></div></div>
    <p class="sr" role="status">${said}</p>
    <${Legend} model=${model} />
    <${Preemptions} model=${model} />`;
}
