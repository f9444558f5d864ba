// What a running job uses of what it requested, measured by the cluster (metrics.k8s.io), with the viewer's rights.

import { useEffect, useState } from "../../vendor/hooks.mjs";
import { amount, plural, units, unitsWord } from "../format.js";
import { useOf } from "../store.js";
import { html } from "../ui.js";

const PAUSE_MS = 15_000;

/** One resource: a bar, and in words. */
function Row({ name, used, asked, unit, each }) {
  const part = asked > 0 ? Math.min(1, used / asked) : 0;
  const lowest = Math.min(...each),
    highest = Math.max(...each);
  return html`<div class="use"><span>${name}</span><span class="progress" aria-hidden="true"><span style=${{ inset: `0 ${100 - part * 100}% 0 0`, background: "var(--accent)" }}></span></span>
    <span class="num">${amount(used)}${asked > 0 ? ` of ${amount(asked)}` : ""} ${unit}</span>
    <span class="faint">${each.length > 1 ? `${amount(lowest)}–${amount(highest)} a pod` : ""}</span></div>`;
}

export function Use({ job }) {
  const [found, setFound] = useState(/** @type {[string, number, number][]} */ ([]));
  useEffect(() => {
    let here = true,
      timer = 0;
    const ask = async () => {
      const pods = document.hidden ? null : await useOf(job.id);
      if (!here) return;
      if (pods) setFound(pods);
      timer = setTimeout(ask, PAUSE_MS);
    };
    setFound([]);
    ask();
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [job.id]);
  if (!found.length) return null;
  const cores = found.map(([, n]) => n),
    gib = found.map(([, , n]) => n),
    sum = (numbers) => numbers.reduce((total, n) => total + n, 0);
  return html`<section class="section" aria-labelledby="h-use"><div class="section-head"><h2 id="h-use">What it uses</h2><span class="say">now, of what it requested; ${plural(found.length, "pod")} measured</span></div>
    <${Row} name="CPU" used=${sum(cores)} asked=${job.cpu} unit="cores" each=${cores} />
    <${Row} name="memory" used=${sum(gib)} asked=${job.memory} unit="GiB" each=${gib} />
    ${unitsWord() === "GPUs" && job.units > 0 && html`<p class="small faint gap-s">It holds ${units(job.units)}. Kubernetes does not measure how busy they are.</p>`}</section>`;
}
