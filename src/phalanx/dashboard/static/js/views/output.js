// What a job's containers write, on demand: it may be long, and it may be private.

import { useEffect, useRef, useState } from "../../vendor/hooks.mjs";
import { outputOf } from "../store.js";
import { Icon, html } from "../ui.js";

const PAUSE_MS = 2000;
const MOST_LINES = 5000;

/** The lines, asked for again and again while the job runs. */
function useLines(job, wanted) {
  const [lines, setLines] = useState(null);
  const [error, setError] = useState("");
  const runs = useRef(job.runs);
  runs.current = job.runs;
  useEffect(() => {
    setLines(null);
    setError("");
    if (!wanted) return undefined;
    let timer = 0;
    let here = true;
    let all = [];
    const ask = async () => {
      try {
        const more = await outputOf(job.id, all.at(-1)?.[0] ?? "");
        if (!here) return;
        all = [...all, ...more].slice(-MOST_LINES);
        setLines(all);
        if (runs.current) timer = setTimeout(ask, PAUSE_MS);
      } catch (problem) {
        if (here) setError(problem.message);
      }
    };
    ask();
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [job.id, wanted]);
  return { lines, error };
}

export function Output({ job }) {
  const [wanted, setWanted] = useState(false);
  const { lines, error } = useLines(job, wanted);
  const box = useRef(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const several = new Set((lines ?? []).map(([, pod]) => pod)).size > 1;
  const look = (event) => {
    const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
    atEnd.current = scrollTop + clientHeight > scrollHeight - 8;
  };
  return html`<section class="section" aria-labelledby="h-output"><div class="section-head"><h2 id="h-output">Its output</h2>${lines?.length > 0 && html`<span class="say">${job.runs ? "followed while it runs" : "the last lines"}</span>`}</div>
    ${!wanted && html`<button class="btn" type="button" onClick=${() => setWanted(true)}><${Icon} name="jobs" />Show the output</button>`}
    ${wanted && error && html`<p class="dim" role="alert">${error}</p>`}
    ${wanted && !error && !lines && html`<p class="dim" role="status">Reading…</p>`}
    ${wanted && lines?.length === 0 && html`<p class="dim" role="status">It has written nothing yet.</p>`}
    ${lines?.length > 0 && html`<pre class="output" ref=${box} tabindex="0" role="log" aria-label="Output" onScroll=${look}>${lines.map(([stamp, pod, text], at) => html`<span key=${at} title=${stamp}>${several ? html`<i>${pod}</i>` : ""}${text}${"\n"}</span>`)}</pre>`}</section>`;
}
