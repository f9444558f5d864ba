// What a viewer can do with a job: cancel, hold, release, and change its nice value. Each asks first, and shows the command
// that does the same.

import { useLayoutEffect, useRef, useState } from "../../vendor/hooks.mjs";
import { act, state } from "../store.js";
import { Copy, html } from "../ui.js";

const ASKS = {
  cancel: {
    button: "Cancel…",
    title: "Cancel this job?",
    text: (job) =>
      job.runs
        ? "Its pods are stopped, and its objects are deleted. Its record stays in the ledger."
        : "It is taken out of the queue, and its objects are deleted. Its record stays in the ledger.",
    yes: "Cancel the job",
    no: "Keep the job",
    bad: true,
  },
  hold: {
    button: "Hold…",
    title: "Hold this job?",
    text: () => "It stays in the queue with its age, and does not start until it is released.",
    yes: "Hold the job",
    no: "Back",
  },
  release: {
    button: "Release…",
    title: "Release this job?",
    text: () => "It waits for its turn again, with the age that it has.",
    yes: "Release the job",
    no: "Back",
  },
  nice: {
    button: "Priority…",
    title: "Change its priority?",
    text: () => "The nice value is subtracted from the priority of the job: a higher value is a later place in the queue.",
    yes: "Set the nice value",
    no: "Back",
  },
};

/** What can be done with the job now. @param {any} job @param {any} model @returns {string[]} */
export function actionsOf(job, model) {
  if (!model.facts.acts || job.over || job.namespace === "other") return [];
  const found = [];
  if (job.waits) found.push(job.reason?.code === "Held" ? "release" : "hold");
  if (job.waits && model.queues.get(job.queue)?.order.startsWith("multifactor")) found.push("nice");
  if (job.state !== "stopping") found.push("cancel");
  return found;
}

/** The command that does the same. @param {string} action @param {any} job @param {number} value @param {string} terminal */
export const commandOf = (action, job, value, terminal) =>
  `phalanx ${action} ${job.id}${action === "nice" ? ` --value ${value}` : ""}${terminal}`;

function Ask({ job, action, onClose, onDone }) {
  const ask = ASKS[action],
    box = useRef(null),
    [value, setValue] = useState(String(job.nice)),
    [busy, setBusy] = useState(false),
    [fault, setFault] = useState("");
  useLayoutEffect(() => {
    box.current.showModal();
  }, []);
  const number = Number.parseInt(value, 10),
    good = action !== "nice" || (String(number) === value.trim() && Math.abs(number) <= 1e6),
    command = commandOf(action, job, good ? number : 0, state.value.facts.terminal ?? "");
  const send = async (event) => {
    event.preventDefault();
    if (!good || busy) return;
    setBusy(true);
    setFault("");
    try {
      onDone(await act(job.id, action, action === "nice" ? number : 0));
      onClose();
    } catch (problem) {
      setFault(problem.message);
      setBusy(false);
    }
  };
  return html`<dialog ref=${box} onClose=${onClose} onClick=${(event) => event.target === box.current && onClose()} aria-labelledby="ask-title"><form class="ask" onSubmit=${send}>
    <h2 id="ask-title">${ask.title}</h2>
    <p><bdi class="strong">${job.id}</bdi></p><p class="dim">${ask.text(job)}</p>
    ${action === "nice" && html`<label>Nice value <input class="num" inputmode="numeric" value=${value} aria-invalid=${String(!good)} onInput=${(event) => setValue(event.target.value)} /></label>${!good && html`<p class="bad" role="alert">Write a whole number.</p>`}`}
    <div><p class="small faint">The same in a terminal</p><div class="cmd"><code>${command}</code><${Copy} text=${command} /></div></div>
    ${fault && html`<p class="bad" role="alert">${fault}</p>`}
    <div class="buttons"><button class="btn" type="button" autofocus=${action !== "nice"} onClick=${onClose}>${ask.no}</button><button class=${ask.bad ? "btn danger" : "btn primary"} type="submit" disabled=${busy || !good}>${busy ? "Asking the cluster…" : ask.yes}</button></div>
  </form></dialog>`;
}

export function Actions({ job }) {
  const [open, setOpen] = useState(""),
    [done, setDone] = useState(""),
    found = actionsOf(job, state.value);
  if (!found.length && !done) return null;
  return html`<div class="section"><h2>Change it</h2>
    <div class="actions">${found.map((action) => html`<button key=${action} class="btn" type="button" onClick=${() => setOpen(action)}>${ASKS[action].button}</button>`)}</div>
    <p class="small dim" role="status">${done}</p>
    ${open && html`<${Ask} job=${job} action=${open} onClose=${() => setOpen("")} onDone=${setDone} />`}</div>`;
}
