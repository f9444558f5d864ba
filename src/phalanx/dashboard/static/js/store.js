// What the page knows, as signals; and how it stays up to date. One tab of a browser has the stream of changes and passes
// each on, since a browser has only six connections to a server.

import { computed, signal } from "../vendor/signals.mjs";
import { setUtc } from "./format.js";
import { changed, modelOf, rowsOf } from "./model.js";

const LONGEST_WAIT_S = 30;
const SILENT_MS = 40_000; // a stream sends something every 15 s
const PAST_S = 86_400;
const PAST_EVERY_MS = 60_000;
const PAST_SOON_MS = 1500; // after a run is over

/** The rows as the server sent them; null before the first answer. */
const rows = signal(null);
const past = signal([]);
/** The viewer: `user`, `acts` (jobs may be changed), `leaves` (the session can be ended on the page). */
const me = signal({ user: "", acts: false, leaves: false });
export const utc = signal(read("utc") === "on");
export const failure = signal(""); // why there is no answer
/** The connection: `since` is when it was lost (of the browser's clock, in ms); `again` when it is tried again. */
export const connection = signal({ live: false, since: 0, again: 0 });
export const hovered = signal(""); // the job under the pointer, wherever
export const route = signal({ view: "now", path: [], query: new URLSearchParams() });
export const tip = signal(null); // { x, y, body }
export const shortcuts = signal(read("shortcuts") !== "off");
export const theme = signal(new URLSearchParams(location.search).get("theme") ?? read("theme") ?? "auto");

/** The whole model, or null before the first answer. */
export const state = computed(() => {
  setUtc(utc.value);
  if (!rows.value) return null;
  return modelOf({ ...rows.value, facts: { ...rows.value.facts, ...me.value } }, past.value);
});

function read(key) {
  try {
    return localStorage.getItem(`phalanx.${key}`);
  } catch {
    return null;
  }
}
/** Keep a setting. @param {string} key @param {string} value */
export function keep(key, value) {
  try {
    localStorage.setItem(`phalanx.${key}`, value);
  } catch {
    /* a private window */
  }
}

// --- the whole state ------------------------------------------------------------------------------------------------------

let asking = null;
/** Ask for the whole state, once at a time. */
export function load() {
  asking ??= ask().finally(() => {
    asking = null;
  });
  return asking;
}

async function ask() {
  try {
    const [answer, viewer] = await Promise.all(["state", "me"].map((path) => fetch(path)));
    if (answer.status === 503) {
      setTimeout(load, 500);
      return;
    }
    if (answer.status === 401) {
      if (me.value.leaves) location.reload(); // the page of the closed door asks for a token
      throw new Error("This session is over. Open the link that phalanx dashboard printed");
    }
    if (!answer.ok || !viewer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    const [whole, who] = await Promise.all([answer.json(), viewer.json()]);
    me.value = who;
    rows.value = rowsOf(whole);
    failure.value = "";
  } catch (error) {
    if (!rows.value) {
      failure.value = error.message;
      setTimeout(load, 3000);
    }
  }
}

/** Ask for the past day again. */
export async function loadPast() {
  const known = rows.value;
  if (!known?.facts.past) return;
  try {
    const answer = await fetch(`past?from=${known.facts.at_s - PAST_S}&to=${known.facts.at_s}`, { cache: "no-store" });
    if (answer.ok) past.value = await answer.json();
  } catch {
    /* what is known stays; it is asked again */
  }
}

/** The changes of the reason for which a job waited: `[seconds since the epoch, code]`. @param {string} job */
export async function reasonsOf(job) {
  try {
    const answer = await fetch(`history?job=${encodeURIComponent(job)}`, { cache: "no-store" });
    return answer.ok ? await answer.json() : [];
  } catch {
    return [];
  }
}

/** What the job's containers wrote since a time, or the last of it: `[time, pod, text]`. @param {string} job @param {string} since @returns {Promise<[string, string, string][]>} */
export async function outputOf(job, since) {
  const more = since ? `&since=${encodeURIComponent(since)}` : "";
  const answer = await fetch(`output?job=${encodeURIComponent(job)}${more}`, { cache: "no-store" });
  if (answer.status === 429) return [];
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer.json();
}

/** What the pods of a job use now: `[pod, cores, GiB]`; empty if that is not known. @param {string} job @returns {Promise<[string, number, number][]>} */
export async function useOf(job) {
  try {
    const answer = await fetch(`use?job=${encodeURIComponent(job)}`, { cache: "no-store" });
    return answer.ok ? await answer.json() : [];
  } catch {
    return [];
  }
}

/** Ask what a change would do. @param {string} job @param {string} change */
export async function whatif(job, change = "") {
  for (let tries = 0; ; tries++) {
    const answer = await fetch("whatif", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ job, change }),
    });
    if (answer.ok) return answer.json();
    if (answer.status !== 429 || tries > 20) throw new Error((await answer.text()).trim() || answer.statusText);
    await new Promise((done) => setTimeout(done, 1000));
  }
}

/** Carry out an action on a job; the server's sentence about it. @param {string} job @param {string} action @param {number} value @returns {Promise<string>} */
export async function act(job, action, value) {
  const answer = await fetch("act", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ job, action, value }),
  });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return (await answer.json()).done;
}

// --- the stream -----------------------------------------------------------------------------------------------------------

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("phalanx") : null;
let stream = null,
  heard = 0,
  tries = 0,
  retry = 0,
  release = null;

/** Whether a run is over with a change: then the ledger has more to tell. */
function ended(known, { jobs }) {
  if (!jobs) return false;
  const runs = (row) => ["running", "stuck", "stopping"].includes(row?.state);
  const ran = (id) => runs(known.sections.jobs.get(id));
  return jobs.gone.some(ran) || jobs.set.some((row) => ran(row.id) && !runs(row));
}

let reading = 0;
/** Ask for the past in a moment: many runs may be over at once. */
function soon() {
  reading ||= setTimeout(() => {
    reading = 0;
    loadPast();
  }, PAST_SOON_MS);
}

/** Take in a change; if it does not follow on what is known, ask for everything. */
function take(change) {
  if (!rows.value) return;
  if (change.to === rows.value.id) return;
  const start = performance.now();
  const next = changed(rows.value, change);
  if (next && ended(rows.value, change)) soon();
  if (next) rows.value = next;
  else load();
  requestAnimationFrame(() => {
    performance.clearMeasures("update");
    performance.measure("update", { start }); // for benchmarks/dashboard.py
  });
}

function say(message) {
  channel?.postMessage(message);
  hear(message);
}
function hear(message) {
  if (message.change) take(message.change);
  if (message.reset) load();
  if (message.connection) connection.value = message.connection;
  if (message.ask && stream) channel?.postMessage({ connection: connection.value });
  if (message.retry && stream === null && release) connect();
}
if (channel) channel.onmessage = (event) => hear(event.data);

function connect() {
  clearTimeout(retry);
  stream?.close();
  if (!rows.value) {
    retry = setTimeout(connect, 200);
    return;
  }
  heard = performance.now();
  stream = new EventSource(`events?since=${encodeURIComponent(rows.value.id)}`);
  stream.onopen = () => {
    tries = 0;
    heard = performance.now();
    say({ connection: { live: true, since: 0, again: 0 } });
  };
  stream.onmessage = (event) => {
    heard = performance.now();
    say({ change: JSON.parse(event.data) });
  };
  stream.addEventListener("still", () => {
    heard = performance.now();
  });
  stream.addEventListener("reset", () => {
    stream.close();
    load().then(() => {
      channel?.postMessage({ reset: true });
      connect();
    });
  });
  stream.onerror = lost;
}

function lost() {
  stream?.close();
  stream = null;
  const wait = Math.min(LONGEST_WAIT_S, 2 ** tries++);
  const since = connection.value.live || !connection.value.since ? Date.now() : connection.value.since;
  say({ connection: { live: false, since, again: Date.now() + wait * 1000 } });
  retry = setTimeout(connect, wait * 1000);
}

/** Try now, whichever tab has the stream. */
export function retryNow() {
  channel?.postMessage({ retry: true });
  if (stream === null && release) connect();
}

/** Hold the stream, as long as this tab lives and no other has it. */
function lead() {
  if (!navigator.locks) {
    release = () => {};
    connect();
    return;
  }
  navigator.locks
    .request(
      "phalanx-stream",
      () =>
        new Promise((done) => {
          release = done;
          connect();
        }),
    )
    .catch(() => {});
}
function leave() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
  release?.();
  release = null;
}

/** Begin. */
export async function follow() {
  await load();
  loadPast();
  setInterval(loadPast, PAST_EVERY_MS);
  setInterval(() => {
    if (stream && performance.now() - heard > SILENT_MS) lost();
  }, 5000);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => {
    if (event.persisted) {
      load();
      lead();
    }
  });
  channel?.postMessage({ ask: true });
  lead();
}
