// The pure parts of the page, without a browser: `node --test tests/dashboard`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { flipped, folded, parse, wordsOf } from "../../src/phalanx/dashboard/static/js/filter.js";
import {
  brief,
  byLimits,
  clock,
  count,
  expectedText,
  moment,
  setMoment,
  setUtc,
  span,
} from "../../src/phalanx/dashboard/static/js/format.js";
import { history } from "../../src/phalanx/dashboard/static/js/history.js";
import {
  Lanes,
  changed,
  heldByGroup,
  holderOf,
  laid,
  modelOf,
  rowsOf,
  series,
} from "../../src/phalanx/dashboard/static/js/model.js";
import { blockers } from "../../src/phalanx/dashboard/static/js/words.js";

const NOW = 1_781_618_520; // 2026-06-16 14:02 UTC
setMoment(NOW);
setUtc(true);

const whole = (jobs, more = {}) => ({
  id: "a-0",
  facts: { at_s: NOW, unit: "nvidia.com/gpu", user: "ana", alive_s: NOW, ...more },
  queues: [
    { name: "all", guaranteed: 16 },
    { name: "vision", parent: "all", guaranteed: 8 },
  ],
  nodes: [
    { name: "n1", units: 8 },
    { name: "n10", units: 8 },
    { name: "n2", units: 8 },
  ],
  reasons: [{ key: "r", code: "NoRoom", text: "no", numbers: { holders: { "a/x": 4, "a/y": 8 } } }],
  jobs,
  reservations: [],
  played: [],
});
const runs = (id, places, since = NOW - 600) => ({
  id,
  state: "running",
  queue: "vision",
  units: 4,
  places,
  since_s: since,
  submitted_s: since,
});
const waits = (id, more = {}) => ({
  id,
  queue: "vision",
  reason: "r",
  submitted_s: NOW - 60,
  since_s: NOW - 60,
  units: 1,
  ...more,
});

test("spans have two units at most", () => {
  assert.deepEqual([0, 0.5, 1, 59.6, 200, 1440, 1725].map(span), ["0s", "30s", "1m", "1h", "3h 20m", "1d", "1d 4h"]);
});

test("moments say the day where it is not that of now", () => {
  assert.deepEqual([0, 600, -900, 5000].map(moment), [
    "14:02",
    "tomorrow 00:02",
    "yesterday 23:02",
    "Sat 20 Jun 01:22",
  ]);
  assert.equal(clock(1), "14:03");
});

test("an expected start is an interval, or says that it is beyond what was played", () => {
  assert.equal(expectedText([5, 10, 20, 40, 90, 200]), "14:12–14:42");
  assert.equal(expectedText([0, 1, 5, 18, 20, null]), "now–14:20");
  assert.equal(expectedText([1, null, null, null, null, null]), "later than was played forward");
  assert.equal(expectedText([1, 20, null, null, null, null]), "after 14:22");
  assert.equal(byLimits([7, 7, 7, 7, 7, 7]), true);
  assert.equal(byLimits([1, 7, 7, 7, 9, 10]), false);
});

test("large numbers have narrow spaces, and parts of a GPU stay", () => {
  assert.deepEqual([7, 1234567, 0.25, 1234.5].map(count), ["7", "1\u202f234\u202f567", "0.25", "1\u202f234.5"]);
});

test("a reason loses its bracket of details and its seconds", () => {
  assert.equal(brief("4 of 8 nvidia.com/gpu until 14:20:13 UTC (held by a, b (c))"), "4 of 8 GPUs until 14:20 UTC");
});

test("a change leads from one state to the next, and no other", () => {
  const rows = rowsOf(whole([waits("a/x")]));
  const change = { from: "a-0", to: "a-1", facts: { at_s: NOW + 1 }, jobs: { set: [waits("a/y")], gone: ["a/x"] } };
  const next = changed(rows, change);
  assert.deepEqual([...next.sections.jobs.keys()], ["a/y"]);
  assert.deepEqual([...rows.sections.jobs.keys()], ["a/x"]);
  assert.equal(changed(next, change), null);
});

test("the squares of a node are filled in the order of the starts, and keep their places", () => {
  const model = modelOf(rowsOf(whole([runs("a/late", [["n1", 4]], NOW - 10), runs("a/early", [["n1", 4]])])), []);
  const [node] = model.filled;
  assert.deepEqual(
    [0, 3, 4, 7].map((at) => holderOf(node, at).job.id),
    ["a/early", "a/early", "a/late", "a/late"],
  );
  assert.deepEqual(
    model.nodes.map((one) => one.name),
    ["n1", "n2", "n10"],
  );
  assert.equal(model.used, 8);
});

test("lanes are given back, and a bar is cut only where it must be", () => {
  const lanes = new Lanes(8),
    a = lanes.take(2),
    b = lanes.take(4);
  lanes.give(a);
  assert.deepEqual(
    [a, b, lanes.take(4)],
    [
      [[0, 2]],
      [[2, 6]],
      [
        [0, 2],
        [6, 8],
      ],
    ],
  );
  assert.deepEqual(lanes.take(1), []);
});

test("bars that follow each other share a lane", () => {
  const bars = [
    { node: 0, amount: 8, start: 0, end: 5 },
    { node: 0, amount: 8, start: 5, end: 9 },
    { node: -1, amount: 1, start: 0, end: 1 },
  ];
  laid(bars, [{ units: 8 }]);
  assert.deepEqual(
    bars.map((bar) => bar.pieces),
    [[[0, 8]], [[0, 8]], undefined],
  );
});

test("a series counts what is in use at each of its points", () => {
  const line = series([{ queue: "q", amount: 3, start: -25, end: 5 }]).get("q");
  assert.deepEqual(
    [-40, -20, 0, 10].map((t) => line[(t + 1440) / 10]),
    [0, 3, 3, 0],
  );
});

test("all words of a filter must hold", () => {
  const model = modelOf(
    rowsOf(whole([runs("a/big", [["n2", 4]]), waits("b/Small", { user: "ana" }), { id: "a/old", state: "failed" }])),
    [],
  );
  const found = (text) => model.list.filter(parse(text, model)).map((job) => job.id);
  assert.deepEqual(found(""), ["a/big", "b/Small"]);
  assert.deepEqual(found("is:over"), ["a/old"]);
  assert.deepEqual(found("queue:all gpus>3"), ["a/big"]);
  assert.deepEqual(found("node:n2"), ["a/big"]);
  assert.deepEqual(found("small is:mine reason:NoRoom"), ["b/Small"]);
  assert.deepEqual(found("is:nonsense"), []);
  assert.deepEqual(wordsOf('a "b c" queue:"d e"'), ["a", '"b c"', 'queue:"d e"']);
});

test("a stuck job holds its nodes, and is found by is:stuck", () => {
  const stuck = { ...runs("a/lost", [["n1", 4]]), state: "stuck", message: "pod lost-0, container main: ErrImagePull" };
  const model = modelOf(rowsOf(whole([stuck, runs("a/big", [["n2", 4]])])), []);
  const found = (text) => model.list.filter(parse(text, model)).map((job) => job.id);
  assert.deepEqual(found("is:stuck"), ["a/lost"]);
  assert.deepEqual(found("is:over"), []);
  assert.equal(model.list.filter((job) => job.runs).length, 2);
});

test("a word replaces another of its kind", () => {
  assert.equal(flipped("is:waiting x", "is:running"), "x is:running");
  assert.equal(flipped("x is:running", "is:running"), "x");
  assert.equal(flipped("reason:A is:mine", "reason:B"), "is:mine reason:B");
});

test("waiting jobs of an array have one row", () => {
  const job = (id, waiting) => ({ id, namespace: "a", array: "sweep", waits: waiting });
  assert.deepEqual(
    folded([job("1", true), job("2", true), job("3", false)]).map(([one, more]) => [one.id, more]),
    [
      ["1", 1],
      ["3", 0],
    ],
  );
});

test("a job that has the name of an earlier one has none of its history", () => {
  const past = [
    {
      job: "a/x",
      user: "u",
      queue: "vision",
      units: 1,
      submitted_s: NOW - 9000,
      start_s: NOW - 8000,
      end_s: NOW - 7000,
      outcome: "FAILED",
    },
  ];
  const model = modelOf(rowsOf(whole([waits("a/x")])), past);
  assert.equal(model.gone.has("a/x"), false);
  assert.deepEqual(
    history(model.jobs.get("a/x"), model).map((line) => line.kind),
    ["submitted", "waits"],
  );
});

test("a history has both sides of a preemption, and the changes of the reason", () => {
  const past = [
    {
      job: "a/x",
      user: "u",
      queue: "vision",
      units: 4,
      submitted_s: NOW - 9000,
      start_s: NOW - 8000,
      end_s: NOW - 600,
      outcome: "PREEMPTED",
      by: "b/big",
      why: "",
    },
  ];
  const model = modelOf(
    rowsOf(whole([waits("a/x", { submitted_s: NOW - 9000 }), runs("b/big", [["n1", 4]], NOW - 590)])),
    past,
  );
  const told = (id, reasons) => history(model.jobs.get(id), model, reasons).map((line) => line.kind);
  assert.deepEqual(told("a/x", [[NOW - 8900, "NoRoom"]]), ["submitted", "start", "preempted", "waits"]);
  assert.deepEqual(
    told("a/x", [
      [NOW - 8900, "Reserved"],
      [NOW - 500, "Preempted"],
      [NOW - 400, "NoRoom"],
    ]),
    ["submitted", "reason", "start", "preempted", "waits"],
  );
  assert.ok(told("b/big").includes("made"));
  const reserved = told("a/x", [
    [NOW - 500, "NoRoom"],
    [NOW - 300, "NodesReserved"],
  ]);
  assert.deepEqual(reserved, ["submitted", "start", "preempted", "reserved", "waits"]);
});

test("many nodes are shown by what each queue holds in a rack", () => {
  const nodes = [
    { name: "n10", group: "r2", units: 4, foreign: 1 },
    { name: "n9", group: "r2", units: 4 },
    { name: "n1", group: "r1", units: 4 },
  ];
  const jobs = [runs("a/x", [["n9", 3], ["n1", 1]], NOW - 60), runs("a/y", [["n10", 2]], NOW - 60)]; // prettier-ignore
  const model = modelOf(rowsOf({ ...whole(jobs), nodes }), []);
  assert.deepEqual(
    model.nodes.map((node) => node.name),
    ["n1", "n9", "n10"],
  );
  const held = heldByGroup(model);
  assert.deepEqual([...held.get("r1")], [["vision", 1]]);
  assert.deepEqual([...held.get("r2")].sort(), [["", 1], ["vision", 5]]); // prettier-ignore
});

test("a start by backfill is told in the history and on the bar", () => {
  const job = runs("b/small", [["n1", 1]], NOW - 590);
  const model = modelOf(rowsOf(whole([{ ...job, backfilled: true }])), []);
  const start = history(model.jobs.get("b/small"), model).find((line) => line.kind === "start");
  assert.equal(start.backfilled, true);
  assert.deepEqual(
    model.bars.map((bar) => bar.backfilled),
    [true],
  );
});

test("the blocking jobs are found by the code of the reason", () => {
  assert.deepEqual([...blockers({ code: "NoRoom", numbers: { holders: { "a/x": 4 } } })[1]], [["a/x", 4]]);
  assert.deepEqual([...blockers({ code: "Reserved", numbers: { for: "a/head" } })[1].keys()], ["a/head"]);
  assert.deepEqual(
    [...blockers({ code: "Preempting", numbers: { waits_for: ["a/x", "a/y"] } })[1].keys()],
    ["a/x", "a/y"],
  );
  assert.deepEqual([...blockers({ code: "ArrayLimit", numbers: { array: "sweep", cap: 4 } })[1]], []);
});
