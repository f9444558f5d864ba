// The filter of the table of jobs, and how arrays are folded. Pure.

/** The words of a filter; a value may stand in quotes. @param {string} text @returns {string[]} */
export const wordsOf = (text) => text.match(/(?:[^\s"]+|"[^"]*")+/g) ?? [];

const TERM = /^(queue|user|is|reason|node|gpus|cpus|ns|array)(:|>|<)(.+)$/;

/** A test of a job. `queue:vision is:waiting user:ana reason:NoRoom node:gpu-1a gpus>8 words`: all must hold. @param {string} text @param {any} model @returns {(job: any) => boolean} */
export function parse(text, model) {
  const words = wordsOf(text);
  const tests = words.map((word) => testOf(word, model));
  const over = words.some((word) => word === "is:over" || word === "is:failed" || word === "is:any");
  return (job) => (over || !job.over) && tests.every((test) => test(job));
}

function testOf(word, model) {
  const [, key, op, raw] = word.match(TERM) ?? [];
  if (!key) {
    const part = word.toLowerCase();
    return (job) => job.id.toLowerCase().includes(part) || job.user.toLowerCase().includes(part);
  }
  const value = raw.replace(/^"(.*)"$/, "$1");
  switch (key) {
    case "gpus":
    case "cpus": {
      const of = key === "cpus" ? (job) => job.cpu : (job) => job.units;
      return op === ">"
        ? (job) => of(job) > +value
        : op === "<"
          ? (job) => of(job) < +value
          : (job) => of(job) === +value;
    }
    case "queue": {
      const inside = new Set(model.leaves(value));
      return (job) => inside.has(job.queue);
    }
    case "user":
      return (job) => job.user === value;
    case "array":
      return (job) => job.array === value;
    case "ns":
      return (job) => job.namespace === value;
    case "reason":
      return (job) => (job.reason?.code ?? (job.soon ? "Starts" : "")) === value && job.waits;
    case "node": {
      const at = model.nodes.findIndex((node) => node.name === value);
      return (job) => at >= 0 && job.places.some(([node]) => node === at);
    }
    default:
      return STATES[value]?.(model) ?? (() => false);
  }
}

const STATES = {
  waiting: () => (job) => job.waits,
  running: () => (job) => job.runs,
  over: () => (job) => job.over,
  failed: () => (job) => job.over && job.state !== "complete",
  any: () => () => true,
  preempted: () => (job) => job.preempted > 0,
  mine: (model) => (job) => job.user !== "" && job.user === model.facts.user,
  stuck: () => (job) => job.state === "stuck" || (job.waits && !!job.reason?.never),
};

/** Of the waiting jobs of an array the first stands for all: `[job, how many more]`. @param {any[]} jobs @returns {[any, number][]} */
export function folded(jobs) {
  const first = new Map(),
    rows = [];
  for (const job of jobs) {
    const key = job.waits && job.array ? `${job.namespace}/${job.array}` : "";
    if (key && first.has(key)) {
      first.get(key)[1]++;
      continue;
    }
    /** @type {[any, number]} */
    const row = [job, 0];
    if (key) first.set(key, row);
    rows.push(row);
  }
  return rows;
}

/** The filter with the word switched on or off. Of two states, or two reasons, the new one replaces the old. @param {string} text @param {string} word */
export function flipped(text, word) {
  const words = wordsOf(text);
  if (words.includes(word)) return words.filter((one) => one !== word).join(" ");
  const phase = /^is:(waiting|running|over)$/;
  const replaces = (one) =>
    (phase.test(one) && phase.test(word)) || (one.startsWith("reason:") && word.startsWith("reason:"));
  return [...words.filter((one) => !replaces(one)), word].join(" ");
}
