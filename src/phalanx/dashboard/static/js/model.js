// From the rows that the server sends to what the views look up. Pure: rows in, a model out.

import { setMoment, setUnit } from "./format.js";

export const DAY = 1440; // minutes
const STEP = 10; // minutes between two points of a series
const MOST_SQUARES = 16; // of a node
const KEYS = { jobs: "id", queues: "name", nodes: "name", reservations: "name", played: "job" };
const OUTCOMES = {
  COMPLETED: "complete",
  FAILED: "failed",
  TIMEOUT: "timeout",
  CANCELLED: "cancelled",
  PREEMPTED: "preempted",
  REQUEUED: "requeued",
  LAUNCH_FAILED: "launch failed",
};

/** @typedef {{ facts: any, id: string, sections: Record<string, Map<string, any>> }} Rows */

/** The key of a row in its section. @param {string} section @param {any} row */
const keyOf = (section, row) => row[KEYS[section] ?? "key"];

/** @param {any} whole the answer of GET /state @returns {Rows} */
export function rowsOf(whole) {
  /** @type {Record<string, Map<string, any>>} */
  const sections = {};
  for (const name of ["queues", "nodes", "reasons", "jobs", "reservations", "played"])
    sections[name] = new Map(whole[name].map((row) => [keyOf(name, row), row]));
  return { facts: whole.facts, id: whole.id, sections };
}

/** The rows with a change of the stream; null if the change does not follow on them. @param {Rows} rows @param {any} change @returns {Rows | null} */
export function changed(rows, change) {
  if (change.from !== rows.id) return null;
  const sections = { ...rows.sections };
  for (const [name, section] of Object.entries(change)) {
    if (!(name in sections)) continue;
    const map = new Map(sections[name]);
    for (const key of section.gone) map.delete(key);
    for (const row of section.set) map.set(keyOf(name, row), row);
    sections[name] = map;
  }
  return { facts: change.facts, id: change.to, sections };
}

/** Intervals of a node's units, taken from the lowest that are free. */
export class Lanes {
  /** @param {number} size */
  constructor(size) {
    this.free = [[0, size]];
  }
  /** Take an amount; what is not there is not taken. @param {number} amount @returns {[number, number][]} */
  take(amount) {
    /** @type {[number, number][]} */
    const pieces = [];
    let left = amount;
    const whole = this.free.find(([from, to]) => to - from >= amount - 1e-9); // in one piece, if there is one
    const order = whole ? [whole] : [...this.free];
    for (const gap of order) {
      if (left <= 1e-9) break;
      const part = Math.min(left, gap[1] - gap[0]);
      pieces.push([gap[0], gap[0] + part]);
      gap[0] += part;
      left -= part;
    }
    this.free = this.free.filter(([from, to]) => to - from > 1e-9);
    return pieces;
  }
  /** @param {[number, number][]} pieces */
  give(pieces) {
    const all = [...this.free, ...pieces.map((piece) => [...piece])].sort((a, b) => a[0] - b[0]);
    this.free = [];
    for (const gap of all) {
      const last = this.free.at(-1);
      if (last && gap[0] <= last[1] + 1e-9) last[1] = Math.max(last[1], gap[1]);
      else this.free.push(gap);
    }
  }
}

/** Give each bar its pieces of its node, in the order of time. @param {{ node: number, amount: number, start: number, end: number, pieces?: [number, number][] }[]} bars @param {{ units: number }[]} nodes */
export function laid(bars, nodes) {
  const lanes = nodes.map((node) => new Lanes(node.units));
  const running = nodes.map(() => []);
  for (const bar of [...bars].sort((a, b) => a.start - b.start || a.end - b.end)) {
    if (bar.node < 0) continue;
    const here = running[bar.node];
    for (let i = here.length - 1; i >= 0; i--)
      if (here[i].end <= bar.start + 1e-6) lanes[bar.node].give(here.splice(i, 1)[0].pieces);
    bar.pieces = lanes[bar.node].take(bar.amount);
    here.push(bar);
  }
  return bars;
}

/** How much is in use from a day ago to a day ahead, by queue. @param {any[]} bars @returns {Map<string, Float64Array>} */
export function series(bars) {
  const points = (2 * DAY) / STEP + 1;
  const found = new Map();
  for (const bar of bars) {
    const first = Math.max(0, Math.ceil((bar.start + DAY) / STEP));
    const last = Math.min(points, Math.ceil((bar.end + DAY) / STEP));
    if (first >= last) continue;
    let line = found.get(bar.queue);
    if (!line) found.set(bar.queue, (line = new Float64Array(points)));
    for (let at = first; at < last; at++) line[at] += bar.amount;
  }
  return found;
}
/** The time of a point of a series. @param {number} at */
export const timeOf = (at) => at * STEP - DAY;

/** Everything that views look up. @param {Rows} rows @param {any[]} past rows of GET /past */
export function modelOf(rows, past) {
  const { facts, sections } = rows;
  const now = facts.at_s;
  const minutes = (seconds) => (seconds - now) / 60;
  setMoment(now);
  setUnit(facts.unit ?? "cpu");
  if (!ordered.has(sections.nodes)) ordered.set(sections.nodes, inOrder([...sections.nodes.values()]));
  const nodes = ordered.get(sections.nodes).map(nodeOf);
  const nodeAt = new Map(nodes.map((node, at) => [node.name, at]));
  const placed = (places) => (places ?? []).map(([name, amount]) => [nodeAt.get(name) ?? -1, amount]);
  const jobs = new Map();
  for (const row of sections.jobs.values()) jobs.set(row.id, jobOf(row, minutes, placed, sections.reasons));
  const list = [...jobs.values()];
  const gone = goneOf(past, minutes, placed, jobs);
  const played = () => [...sections.played.values()];
  const bars = once(() => laid(barsOf(list, past, played(), jobs, minutes, placed), nodes));
  const filled = once(() => hold(nodes, list));
  const { queues, tree, leaves } = treeOf([...sections.queues.values()]);
  const waiting = list.filter((job) => job.waits);
  const kills = killsOf(past, list, minutes);
  return {
    facts,
    nodes,
    jobs,
    list,
    gone,
    /** What ran, runs and is expected to run, with the lanes of each; made when a view first asks for it. */
    get bars() {
      return bars();
    },
    /** The nodes, with the jobs that hold them; made when a view first asks for it. */
    get filled() {
      return filled();
    },
    kills,
    queues,
    tree,
    leaves,
    waiting,
    live: list.filter((job) => !job.over),
    running: list.filter((job) => job.runs),
    byCode: byCode(waiting),
    units: sum(nodes, (node) => node.units),
    used:
      sum(list, (job) => (job.runs ? sum(job.places, ([, amount]) => amount) : 0)) + sum(nodes, (node) => node.foreign),
    foreign: sum(nodes, (node) => node.foreign),
    past: past.length > 0,
    reservations: [...sections.reservations.values()].map((one) => ({
      name: one.name,
      whom: one.whom ?? "",
      nodes: (one.nodes ?? []).map((name) => nodeAt.get(name) ?? -1),
      start: minutes(one.start_s),
      end: minutes(one.end_s),
    })),
    head:
      facts.head && jobs.has(facts.head)
        ? { job: facts.head, at: facts.head_s == null ? null : minutes(facts.head_s) }
        : null,
    alive: facts.alive_s == null ? null : minutes(facts.alive_s),
    forecast: facts.forecast_s == null ? null : minutes(facts.forecast_s),
  };
}

/** A value that is made when it is first asked for. @template T @param {() => T} make @returns {() => T} */
function once(make) {
  let found;
  return () => (found ??= make());
}

const sum = (items, of) => {
  let total = 0;
  for (const item of items) total += of(item);
  return Math.round(total * 1000) / 1000;
};
const byName = new Intl.Collator("en", { numeric: true }).compare;
const ordered = new WeakMap(); // a section -> its nodes in order: nodes seldom change

/** By rack, and then by name. The server sends them so, and a check is cheaper than a sort. */
function inOrder(rows) {
  const compare = (a, b) => byName(a.group ?? "", b.group ?? "") || byName(a.name, b.name);
  const sorted = rows.every((row, at) => at === 0 || compare(rows[at - 1], row) <= 0);
  return sorted ? rows : rows.sort(compare);
}

/** How much each queue holds in each rack or pool; "": pods of other schedulers. @param {any} model @returns {Map<string, Map<string, number>>} */
export function heldByGroup(model) {
  const found = new Map();
  const add = (node, queue, amount) => {
    if (!found.has(node.group)) found.set(node.group, new Map());
    const held = found.get(node.group);
    held.set(queue, (held.get(queue) ?? 0) + amount);
  };
  for (const node of model.nodes) if (node.foreign > 0) add(node, "", node.foreign);
  for (const job of model.running)
    for (const [at, amount] of job.places) if (at >= 0 && amount > 0) add(model.nodes[at], job.queue, amount);
  return found;
}

function nodeOf(row) {
  const units = row.units ?? 0;
  return {
    name: row.name,
    group: row.group ?? "",
    flavor: row.flavor ?? "",
    state: row.state ?? "ready",
    units,
    foreign: row.foreign ?? 0,
    cpu: row.cpu ?? [0, 0],
    memory: row.memory ?? [0, 0],
    squares: Math.min(MOST_SQUARES, Math.ceil(units)),
    held: [],
    coming: [],
  };
}

function jobOf(row, minutes, placed, reasons) {
  const state = row.state ?? "queued";
  const since = minutes(row.since_s ?? 0);
  const limit = row.limit_s == null ? null : row.limit_s / 60;
  const runs = ["starting", "running", "stuck", "stopping"].includes(state);
  const found = reasons.get(row.reason);
  const end = row.end_s != null ? Math.max(1, minutes(row.end_s)) : limit === null ? null : Math.max(1, since + limit);
  return {
    id: row.id,
    namespace: row.id.includes("/") ? row.id.split("/")[0] : "",
    name: row.id.slice(row.id.indexOf("/") + 1),
    user: row.user ?? "",
    queue: row.queue ?? "",
    state,
    runs,
    waits: state === "queued" || state === "promised",
    over: !runs && state !== "queued" && state !== "promised",
    units: row.units ?? 0,
    each: row.each ?? 0,
    pods: row.pods ?? 0,
    placed: row.placed ?? 0,
    cpu: row.cpu ?? 0,
    memory: row.memory ?? 0,
    flavors: row.flavors ?? [],
    priority: row.priority ?? 0,
    nice: row.nice ?? 0,
    submitted: minutes(row.submitted_s ?? 0),
    since,
    start: runs ? since : null,
    limit,
    end: runs ? end : null,
    expectedEnd: row.end_s != null,
    places: placed(row.places),
    array: row.array ?? "",
    arrayCap: row.array_cap ?? null,
    reason: found
      ? { code: found.code, text: found.text, numbers: found.numbers ?? {}, never: found.never ?? false }
      : null,
    expected: row.start_s?.length ? row.start_s.map((at) => (at === null ? null : Math.max(0, minutes(at)))) : null,
    position: row.position ?? 0,
    preempted: row.preempted ?? 0,
    preemptedBy: row.preempted_by ?? "",
    message: row.message ?? "",
    soon: row.soon ?? false,
    backfilled: row.backfilled ?? false,
  };
}

function barsOf(list, past, played, jobs, minutes, placed) {
  const bars = [];
  const put = (id, queue, places, start, end, kind, more) => {
    for (const [node, amount] of places)
      if (amount > 0 && node >= 0) bars.push({ id, queue, node, amount, start, end, kind, ...more });
  };
  for (const row of past)
    put(row.job, row.queue, placed(row.places), minutes(row.start_s), minutes(row.end_s), "past", {
      outcome: OUTCOMES[row.outcome] ?? row.outcome,
      by: row.by ?? "",
      backfilled: row.backfilled ?? false,
    });
  for (const job of list)
    if (job.runs)
      put(job.id, job.queue, job.places, job.start, job.end ?? DAY, "run", {
        stopping: job.state === "stopping",
        by: job.preemptedBy,
        backfilled: job.backfilled,
      });
  for (const row of played) {
    const job = jobs.get(row.job);
    if (job?.waits)
      put(row.job, job.queue, placed(row.places), Math.max(0, minutes(row.start_s)), minutes(row.end_s), "will", {
        backfilled: row.backfilled ?? false,
      });
  }
  return bars;
}

/** Fill the squares of each node in the order in which its jobs started. */
function hold(nodes, list) {
  const lanes = nodes.map((node) => new Lanes(node.units));
  nodes.forEach((node, at) => {
    if (node.foreign > 0) node.held.push({ job: null, pieces: lanes[at].take(node.foreign) });
  });
  const held = list.filter((job) => job.runs).sort((a, b) => a.start - b.start || byName(a.id, b.id));
  for (const job of held)
    for (const [node, amount] of job.places)
      if (node >= 0 && amount > 0) nodes[node].held.push({ job, pieces: lanes[node].take(amount) });
  for (const job of list)
    if (job.state === "promised") for (const [node] of job.places) if (node >= 0) nodes[node].coming.push(job);
  return nodes;
}

/** The holder of a square: of those that hold a part of it, the one with the largest part. @param {any} node @param {number} square */
export function holderOf(node, square) {
  const size = node.units / node.squares;
  let found = null,
    most = 1e-6;
  for (const one of node.held) {
    const part = sum(one.pieces, ([from, to]) =>
      Math.max(0, Math.min(to, (square + 1) * size) - Math.max(from, square * size)),
    );
    if (part > most) {
      most = part;
      found = one;
    }
  }
  return found;
}

/** Jobs of the ledger by name, with their runs. A name may be given again: of a job that is there, only its own runs count. */
function goneOf(past, minutes, placed, jobs) {
  const gone = new Map();
  for (const row of [...past].sort((a, b) => a.start_s - b.start_s)) {
    const there = jobs.get(row.job);
    if (there && Math.abs(there.submitted - minutes(row.submitted_s)) > 0.1) continue;
    if (!gone.has(row.job))
      gone.set(row.job, {
        id: row.job,
        namespace: row.job.includes("/") ? row.job.split("/")[0] : "",
        name: row.job.slice(row.job.indexOf("/") + 1),
        user: row.user,
        queue: row.queue,
        units: row.units,
        submitted: minutes(row.submitted_s),
        runs: [],
        over: true,
        waits: false,
      });
    const job = gone.get(row.job);
    job.runs.push({
      start: minutes(row.start_s),
      end: minutes(row.end_s),
      outcome: OUTCOMES[row.outcome] ?? row.outcome,
      why: row.why ?? "",
      by: row.by ?? "",
      places: placed(row.places),
      backfilled: row.backfilled ?? false,
    });
    job.state = OUTCOMES[row.outcome] ?? row.outcome;
  }
  return gone;
}

function killsOf(past, list, minutes) {
  const found = past
    .filter((row) => row.outcome === "PREEMPTED")
    .map((row) => ({
      at: minutes(row.end_s),
      victim: row.job,
      by: row.by ?? "",
      ran: (row.end_s - row.start_s) / 60,
      units: row.units,
      why: row.why ?? "",
    }));
  for (const job of list)
    if (job.state === "stopping")
      found.push({
        at: 0,
        victim: job.id,
        by: job.preemptedBy,
        ran: -job.start,
        units: sum(job.places, ([, amount]) => amount),
        why: "",
      });
  return found.sort((a, b) => b.at - a.at);
}

function treeOf(rows) {
  const queues = new Map(
    rows.map((row) => [
      row.name,
      {
        name: row.name,
        parent: row.parent ?? "",
        used: row.used ?? 0,
        guaranteed: row.guaranteed ?? null,
        limit: row.limit ?? null,
        running: row.running ?? 0,
        waiting: row.waiting ?? 0,
        share: row.share === undefined ? 0 : row.share,
        weight: row.weight ?? 1,
        order: row.order ?? "",
        state: row.state ?? "open",
        fault: row.fault ?? "",
        kids: [],
        depth: 0,
      },
    ]),
  );
  for (const queue of queues.values()) queues.get(queue.parent)?.kids.push(queue);
  const tree = [];
  const walk = (queue, depth) => {
    if (tree.length > rows.length) return;
    queue.depth = depth;
    tree.push(queue);
    queue.kids.sort((a, b) => byName(a.name, b.name));
    queue.kids.forEach((kid) => walk(kid, depth + 1));
  };
  const tops = [...queues.values()].filter((queue) => !queues.has(queue.parent) || queue.parent === queue.name);
  tops.sort((a, b) => byName(a.name, b.name)).forEach((queue) => walk(queue, 0));
  /** The queue itself and all below it. @param {string} name @returns {string[]} */
  const leaves = (name) => {
    const queue = queues.get(name);
    return queue ? [name, ...queue.kids.flatMap((kid) => leaves(kid.name))] : [name];
  };
  return { queues, tree, leaves };
}

function byCode(waiting) {
  const found = new Map();
  for (const job of waiting) {
    const code = job.reason?.code ?? (job.soon ? "Starts" : "Unknown");
    found.set(code, (found.get(code) ?? 0) + 1);
  }
  return [...found].sort((a, b) => b[1] - a[1]);
}
