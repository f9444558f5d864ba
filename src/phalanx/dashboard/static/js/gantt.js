// The drawing of the Gantt: rows are nodes, lanes their units. Everything on one canvas, redrawn whole.

import { clock, date, ofDay } from "./format.js";
import { variable } from "./colours.js";

export const LANES = 28,
  NODE = LANES + 7,
  RACK = 30,
  GUTTER = 78,
  AXIS = 30;
const COLOURS = [
  "bg",
  "surface",
  "ink",
  "ink-2",
  "ink-3",
  "line",
  "line-soft",
  "line-strong",
  "accent",
  "bad",
  "warn",
  "sunk",
  "track",
];

/** Where each node and each rack stands, from the top. @param {any} model */
export function layout(model) {
  const top = [],
    racks = [];
  let y = 0,
    rack = null;
  model.nodes.forEach((node, at) => {
    if (node.units <= 0) {
      top[at] = null;
      return;
    }
    if (node.group !== rack) {
      rack = node.group;
      racks.push({ rack, y });
      y += rack || racks.length > 1 ? RACK : 8;
    }
    top[at] = y;
    y += NODE;
  });
  return { top, racks, height: y + 12 };
}

/** Colours of the stylesheet as the canvas needs them. @param {any} model */
export function palette(model) {
  const probe = document.createElement("i");
  document.body.append(probe);
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const found = { queues: {} };
  for (const name of COLOURS) found[name] = read(`--${name}`);
  for (const name of model.queues.keys()) found.queues[name] = read(variable(name));
  probe.remove();
  return found;
}
const light = (rgb) => {
  const [r, g, b] = (rgb.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 150;
};

function hatch(ctx, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 12;
  const c = tile.getContext("2d");
  c.strokeStyle = colour;
  c.lineWidth = 1.6;
  for (const o of [-12, 0, 12]) {
    c.beginPath();
    c.moveTo(o, 12);
    c.lineTo(o + 12, 0);
    c.stroke();
  }
  const pattern = ctx.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(0.5));
  return pattern;
}

/** Draw it. `scene`: what is drawn, and which part of it. @param {HTMLCanvasElement} canvas @param {any} scene */
export function draw(canvas, scene) {
  const { size, scroll, view, plan, colours } = scene,
    { width, height } = size,
    dpr = devicePixelRatio || 1;
  if (canvas.width !== width * dpr || canvas.height !== height * dpr) {
    canvas.width = width * dpr;
    canvas.height = height * dpr;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.clearRect(0, 0, width, height);
  const X = (t) => GUTTER + ((t - view.from) / (view.to - view.from)) * (width - GUTTER);
  const Y = (node) => (plan.top[node] == null ? null : AXIS + plan.top[node] - scroll);
  const font = (px, weight = 400) => {
    ctx.font = `${weight} ${px}px Inter, sans-serif`;
  };
  const range = view.to - view.from,
    step = [10, 30, 60, 120, 180, 360].find((s) => range / s <= (width < 600 ? 6 : 13)) ?? 720;
  const first = Math.floor((view.from + ofDay(0)) / step) * step - ofDay(0);
  const all = { ...scene, ctx, X, Y, font, step, first, width, height, striped: hatch(ctx, colours["line-strong"]) };
  ctx.save();
  ctx.beginPath();
  ctx.rect(GUTTER, AXIS, width - GUTTER, height - AXIS);
  ctx.clip();
  drawGround(all);
  drawBars(all);
  drawReserved(all);
  drawPreemptions(all);
  ctx.restore();
  drawGutter(all);
  drawAxis(all);
}

function drawGround({ ctx, X, Y, model, view, colours, width, height, step, first, striped, show }) {
  ctx.fillStyle = colours.sunk;
  ctx.globalAlpha = 0.55;
  ctx.fillRect(X(0), AXIS, width - X(0), height);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colours["line-soft"];
  ctx.lineWidth = 1;
  for (let t = first; t < view.to; t += step) {
    ctx.beginPath();
    ctx.moveTo(Math.round(X(t)) + 0.5, AXIS);
    ctx.lineTo(Math.round(X(t)) + 0.5, height);
    ctx.stroke();
  }
  ctx.fillStyle = striped;
  if (show.reservations)
    for (const one of model.reservations)
      for (const at of one.nodes) {
        const y = Y(at);
        if (y === null) continue;
        ctx.globalAlpha = 0.5;
        ctx.fillRect(X(one.start), y - 2, X(one.end) - X(one.start), NODE - 2);
      }
  model.nodes.forEach((node, at) => {
    const y = Y(at);
    if (node.state === "ready" || y === null || y < -NODE || y > height) return;
    ctx.globalAlpha = 0.35;
    ctx.fillRect(X(0) - 6, y - 2, 6, NODE - 2);
  });
  ctx.globalAlpha = 1;
}

function drawBars(all) {
  const { X, Y, bars, model, view, height, pick, pinned, colours, show, ctx } = all;
  for (const bar of bars) {
    if (bar.end < view.from || bar.start > view.to || !bar.pieces) continue;
    const y0 = Y(bar.node);
    if (y0 === null || y0 > height || y0 + NODE < AXIS) continue;
    const scale = LANES / model.nodes[bar.node].units,
      x0 = X(bar.start),
      x1 = Math.max(x0 + 1.5, X(bar.end) - 0.75);
    const faded = (pick && pick !== bar.id) || (show.backfilled && !bar.backfilled);
    const solid = faded ? (pinned ? 0.14 : 0.36) : 1;
    for (const [from, to] of bar.pieces)
      drawPiece(all, bar, {
        x0,
        x1,
        y: y0 + from * scale,
        h: Math.max(1, (to - from) * scale - 0.75),
        solid,
        colour: colours.queues[bar.queue] ?? colours["line-strong"],
      });
  }
  ctx.globalAlpha = 1;
}

function drawPiece({ ctx, X, colours, font }, bar, { x0, x1, y, h, solid, colour }) {
  ctx.globalAlpha = solid;
  ctx.fillStyle = colour;
  if (bar.kind === "will") {
    ctx.globalAlpha = solid * 0.34;
    ctx.fillRect(x0, y, x1 - x0, h);
    ctx.globalAlpha = solid;
    if (h > 12) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1;
      ctx.strokeRect(x0 + 0.5, y + 0.5, Math.max(0.5, x1 - x0 - 1), h - 1);
    }
  } else if (bar.kind === "run") {
    ctx.fillRect(x0, y, X(0) - x0, h);
    ctx.globalAlpha = solid * 0.55;
    ctx.fillRect(X(0), y, Math.max(1, x1 - X(0)), h);
  } else {
    ctx.globalAlpha = solid * 0.92;
    ctx.fillRect(x0, y, x1 - x0, h);
  }
  ctx.globalAlpha = solid;
  if (bar.outcome && bar.outcome !== "complete") {
    ctx.fillStyle = colours.bad;
    ctx.fillRect(x1 - 2.5, y, 2.5, h);
  }
  const arrow = bar.backfilled && x0 >= GUTTER && x1 - x0 > 9 && h > 5;
  if (arrow) {
    const m = y + Math.min(h / 2, 7);
    ctx.fillStyle = bar.kind === "will" ? colours.ink : light(colour) ? "rgba(0,0,0,.6)" : "rgba(255,255,255,.85)";
    ctx.beginPath();
    ctx.moveTo(x0 + 3, m - 3);
    ctx.lineTo(x0 + 7, m);
    ctx.lineTo(x0 + 3, m + 3);
    ctx.fill();
  }
  // the name stands on the solid part, or if that is too short, in ink on the pale one
  const edge = bar.kind === "run" ? X(0) : x1,
    left = Math.max(x0, GUTTER),
    pale = bar.kind === "will" || edge - left < 74;
  const n0 = bar.kind === "run" && pale ? Math.max(X(0), GUTTER) : left,
    n1 = pale ? x1 : edge;
  if (h < 12 || n1 - n0 < 74 || solid < 1) return;
  font(11, 500);
  ctx.fillStyle = pale && bar.kind !== "past" ? colours.ink : light(colour) ? "rgba(0,0,0,.82)" : "#fff";
  ctx.textBaseline = "middle";
  ctx.save();
  ctx.beginPath();
  ctx.rect(n0, y, n1 - n0 - 4, h);
  ctx.clip();
  ctx.fillText(bar.id.slice(bar.id.indexOf("/") + 1).slice(0, 80), n0 + (bar.after ? 18 : arrow && n0 === x0 ? 11 : 6), y + h / 2 + 0.5);
  ctx.restore();
}

/** What is reserved for the first job that finds no capacity, and the names of reservations. */
function drawReserved({ ctx, X, Y, bars, model, pick, show, colours, font }) {
  if (!show.reservations) return;
  if (model.head)
    for (const bar of bars) {
      if (bar.kind !== "will" || bar.id !== model.head.job) continue;
      const y = Y(bar.node);
      if (y === null) continue;
      ctx.strokeStyle = colours.ink;
      ctx.globalAlpha = pick && pick !== bar.id ? 0.25 : 1;
      ctx.setLineDash([4, 3]);
      ctx.lineWidth = 1.2;
      ctx.strokeRect(X(bar.start), y - 2.5, X(bar.end) - X(bar.start), NODE - 3);
      ctx.setLineDash([]);
    }
  ctx.globalAlpha = 1;
  for (const one of model.reservations) {
    const y = one.nodes.length ? Y(one.nodes[0]) : null,
      x = Math.max(X(one.start), GUTTER) + 6,
      room = X(one.end) - x;
    if (y === null || room < 60) continue;
    const text = `${one.name} · ${one.whom ? `for ${one.whom}` : "maintenance"}`;
    font(11.5, 550);
    ctx.fillStyle = colours.surface;
    ctx.fillRect(x, y + 4, Math.min(ctx.measureText(text).width + 14, room - 6), 19);
    ctx.fillStyle = colours.ink;
    ctx.textBaseline = "middle";
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y + 4, room - 8, 19);
    ctx.clip();
    ctx.fillText(text, x + 7, y + 14);
    ctx.restore();
  }
}

/** From where the victim stopped to where its preemptor started; several victims on a node have one arrow. */
function drawPreemptions({ ctx, X, Y, bars, model, view, pick, show, colours }) {
  if (!show.preemptions) return;
  const drawn = new Set(),
    middle = (bar) => {
      const [[from, to]] = bar.pieces;
      return ((from + to) / 2) * (LANES / model.nodes[bar.node].units);
    };
  const point = (x, y) => {
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x - 6, y - 3.4);
    ctx.lineTo(x - 6, y + 3.4);
    ctx.fill();
  };
  for (const kill of model.kills) {
    if (kill.at < view.from || kill.at > view.to || (pick && pick !== kill.victim && pick !== kill.by)) continue;
    const mark =
      bars.find(
        (bar) =>
          bar.id === kill.victim && bar.pieces?.length && bar.kind !== "will" && Math.abs(bar.end - kill.at) < 0.1,
      ) ?? bars.find((bar) => bar.id === kill.victim && bar.kind === "run" && bar.pieces?.length);
    const near = bars.filter(
      (bar) => bar.id === kill.by && bar.pieces?.length && bar.start >= kill.at - 1 && bar.start - kill.at < 10,
    );
    if (!mark) continue;
    const ya = Y(mark.node),
      x = X(kill.at),
      lit = pick === kill.victim || pick === kill.by;
    if (ya === null) continue;
    const a = ya + middle(mark);
    ctx.strokeStyle = ctx.fillStyle = colours.bad;
    ctx.lineWidth = lit ? 2 : 1.4;
    const nearest = near.reduce(
      (best, bar) => (!best || Math.abs(bar.node - mark.node) < Math.abs(best.node - mark.node) ? bar : best),
      null,
    );
    for (const to of lit ? near : nearest ? [nearest] : []) {
      const yb = Y(to.node),
        key = `${kill.by} ${Math.round(kill.at)} ${mark.node} ${to.node}`;
      if (yb === null || drawn.has(key)) continue;
      drawn.add(key);
      const b = to.node === mark.node ? a : yb + middle(to),
        bow = Math.min(46, 16 + Math.abs(b - a) * 0.1);
      ctx.beginPath();
      ctx.moveTo(x, a);
      if (to.node === mark.node) ctx.lineTo(x + 9, a);
      else ctx.bezierCurveTo(x - bow, a, x - bow, b, x + 6, b);
      ctx.stroke();
      point(x + 14, b);
    }
    ctx.beginPath();
    ctx.arc(x, a, 3, 0, 7);
    ctx.fillStyle = colours.surface;
    ctx.fill();
    ctx.stroke();
  }
}

function drawGutter({ ctx, Y, model, plan, scroll, colours, width, height, font }) {
  ctx.fillStyle = colours.bg;
  ctx.fillRect(0, AXIS, GUTTER, height);
  ctx.textBaseline = "middle";
  const fit = (text, room) => {
    let cut = text.slice(0, 60);
    while (cut.length > 3 && ctx.measureText(cut).width > room) cut = cut.slice(0, -1);
    return cut.length < text.length ? `${cut.slice(0, -1)}…` : cut;
  };
  for (const { rack, y } of plan.racks) {
    const at = AXIS + y - scroll + 16;
    if (at < AXIS - 8 || at > height || (!rack && plan.racks.length < 2)) continue;
    font(12, 550);
    const name = rack || "other nodes";
    ctx.fillStyle = colours.ink;
    ctx.fillText(fit(name, 200), 16, at);
    ctx.strokeStyle = colours.line;
    ctx.globalAlpha = 0.6;
    ctx.beginPath();
    ctx.moveTo(Math.max(GUTTER, 24 + ctx.measureText(fit(name, 200)).width), at + 0.5);
    ctx.lineTo(width, at + 0.5);
    ctx.stroke();
    ctx.globalAlpha = 1;
  }
  font(11.5);
  model.nodes.forEach((node, at) => {
    const y = Y(at);
    if (y === null || y < AXIS - NODE || y > height) return;
    ctx.fillStyle = node.state === "ready" ? colours["ink-2"] : colours.bad;
    ctx.fillText(fit(node.name.length > 9 ? node.name.slice(-9) : node.name, GUTTER - 24), 16, y + 13);
  });
}

function drawAxis({ ctx, X, view, colours, width, height, step, first, font }) {
  ctx.fillStyle = colours.bg;
  ctx.fillRect(0, 0, width, AXIS);
  ctx.textBaseline = "middle";
  for (let t = first; t < view.to; t += step) {
    if (X(t) < GUTTER || X(t) > width - 22 || Math.abs(X(t) - X(0)) < 54) continue;
    const midnight = clock(t) === "00:00";
    ctx.textAlign = "center";
    font(11.5, midnight ? 600 : 400);
    ctx.fillStyle = midnight ? colours.ink : colours["ink-3"];
    ctx.fillText(midnight ? date(t) : clock(t), X(t), 15);
  }
  if (view.from < 0 && view.to > 0) {
    font(11.5, 600);
    const text = `now ${clock(0)}`,
      w = ctx.measureText(text).width + 14;
    ctx.textAlign = "center";
    ctx.fillStyle = colours.ink;
    ctx.beginPath();
    ctx.roundRect(X(0) - w / 2, 5, w, 20, 5);
    ctx.fill();
    ctx.fillStyle = colours.bg;
    ctx.fillText(text, X(0), 15.5);
    ctx.fillStyle = colours.ink;
    ctx.fillRect(X(0) - 0.75, 25, 1.5, height);
  }
  ctx.textAlign = "left";
  ctx.strokeStyle = colours.line;
  ctx.beginPath();
  ctx.moveTo(0, AXIS - 0.5);
  ctx.lineTo(width, AXIS - 0.5);
  ctx.stroke();
}
