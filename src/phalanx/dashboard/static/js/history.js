// The history of a job, as facts in the order of time: what is known, now, and what is expected. Pure.

/** @typedef {{ at: number, kind: string, now?: boolean, future?: boolean, [more: string]: any }} Line */

/** `reasons`: the changes of its reason, as the ledger has them. @param {any} job @param {any} model @param {[number, string][]} reasons @returns {Line[]} */
export function history(job, model, reasons = []) {
  const lines = [];
  const runs = model.gone.get(job.id)?.runs ?? [];
  if (job.submitted !== undefined) lines.push({ at: job.submitted, kind: "submitted" });
  for (const run of runs) {
    lines.push({ at: run.start, kind: "start", places: run.places, backfilled: run.backfilled });
    if (run.outcome === "preempted")
      lines.push({ at: run.end, kind: "preempted", by: run.by, ran: run.end - run.start, why: run.why });
    else lines.push({ at: run.end, kind: "end", outcome: run.outcome, ran: run.end - run.start, why: run.why });
  }
  if (job.runs && !runs.some((run) => Math.abs(run.start - job.start) < 0.05))
    lines.push({ at: job.start, kind: "start", places: job.places, backfilled: job.backfilled });
  if (job.over && !runs.length)
    lines.push({
      at: job.since,
      kind: "end",
      outcome: job.state,
      ran: Math.max(0, job.since - job.submitted),
      why: job.message,
    });
  const made = model.kills.filter((kill) => kill.by === job.id);
  if (made.length) {
    const hours = made.reduce((n, kill) => n + (kill.units * kill.ran) / 60, 0);
    lines.push({
      at: made.at(-1).at,
      kind: "made",
      victims: made.map((kill) => kill.victim),
      units: made.reduce((n, kill) => n + kill.units, 0),
      hours,
    });
  }
  const all = reasons.map(([at, code]) => ({ at: (at - model.facts.at_s) / 60, kind: "reason", code }));
  lines.push(...all.filter((change) => change.code === "NodesReserved").map(({ at }) => ({ at, kind: "reserved" })));
  const changes = all.filter((change) => change.code !== "NodesReserved");
  const present = job.waits && changes.at(-1)?.code === job.reason?.code ? changes.pop() : null; // the line of now has it
  lines.push(...changes.filter((change) => change.code !== "Preempted")); // the preemption has a line of its own
  lines.sort((a, b) => a.at - b.at || (a.kind === "submitted" ? -1 : 0));
  if (job.state === "stopping")
    lines.push({ at: 0, kind: "preempted", by: job.preemptedBy, ran: -job.start, now: true });
  else if (job.runs) lines.push({ at: 0, kind: "runs", now: true });
  if (job.waits) lines.push({ at: 0, kind: "waits", now: true, since: present?.at });
  if (job.runs && job.state !== "stopping") {
    if (job.expectedEnd && job.end !== null) lines.push({ at: job.end, kind: "will end", future: true });
    if (job.limit !== null && !(job.expectedEnd && job.end !== null && Math.abs(job.start + job.limit - job.end) < 1))
      lines.push({ at: job.start + job.limit, kind: "limit", future: true });
  }
  if (job.waits && job.expected && job.expected[2] !== null && !job.reason?.never)
    lines.push({ at: job.expected[2], kind: "will start", future: true });
  return lines;
}
