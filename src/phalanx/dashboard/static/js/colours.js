// The colours of queues: a hue for each top queue, told apart inside by lightness. Three hues (blue, amber, rose) stay apart
// for every colour vision; with more top queues the name decides, and it always stands beside the colour.

import { effect } from "../vendor/signals.mjs";
import { state } from "./store.js";

// hue: its own colour (light, dark), then those of the queues below
const HUES = [
  [
    "#2f5fc4 #5f8bea",
    "#1d3f94 #3d66c9",
    "#3f74dd #6690ee",
    "#7fa9f2 #98b7f2",
    "#1f7c91 #2f889c",
    "#5d8fe0 #7ea4ee",
    "#16306f #33529f",
  ],
  [
    "#c4841a #cf9233",
    "#bf7d12 #c38524",
    "#e8bb55 #dcb768",
    "#96620a #a06a16",
    "#d79b34 #d9a54e",
    "#f0cf84 #e6c884",
    "#7a4f08 #8a5c14",
  ],
  [
    "#b0507a #c56b93",
    "#a43e6c #b4517e",
    "#e3a4c0 #dba6c0",
    "#7e2b52 #8f3f66",
    "#c9709b #cf86a8",
    "#efc3d6 #e6bccf",
    "#93456a #a5597e",
  ],
  ["#2e7d55 #4fae80", "#1f6340 #3b8f66", "#59a880 #74c19c", "#8fcbab #9fd4b7", "#3f8f68 #5cb98d"],
  ["#6a4fc0 #9a85e6", "#4f369c #7d66d0", "#8f78d8 #ab99ec", "#b9a9ea #c3b7ef", "#7c62cc #a08de8"],
  ["#1f7c91 #3d9db2", "#145d6e #2f8698", "#4c9fb2 #62b5c7", "#8fc5d2 #9fd0dc", "#2f8aa0 #4dabbf"],
  ["#7d5a43 #a98467", "#5f4230 #8c684d", "#a37f66 #bf9c82", "#c7ac98 #d1b9a6", "#8d6a52 #b48f73"],
  ["#5c6675 #8a94a3", "#454d5a #707a89", "#808a99 #a2abb8", "#abb3be #bcc3cc", "#6b7585 #97a1af"],
];
const known = new Map(); // queue -> its variable

/** The number of a name, always the same. @param {string} name */
function hash(name) {
  let found = 7;
  for (const letter of name) found = (found * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return found;
}

/** The colour of each queue: `[name, "#light #dark"]`. The top queue with the largest guarantee is blue; those that have queues below have the hue itself. @param {{ name: string, depth: number, guaranteed: number | null, kids: any[] }[]} tree */
export function assigned(tree) {
  const tops = tree.filter((queue) => queue.depth === 0).sort((a, b) => (b.guaranteed ?? 0) - (a.guaranteed ?? 0));
  const found = [];
  let hue = 0,
    shade = 0;
  for (const queue of tree) {
    if (queue.depth === 0) {
      hue = tops.length <= 3 ? tops.indexOf(queue) : hash(queue.name) % HUES.length;
      shade = 0;
    }
    if (queue.kids.length || queue.depth === 0) found.push([queue.name, HUES[hue][0]]);
    else {
      shade = (shade % (HUES[hue].length - 1)) + 1;
      found.push([queue.name, HUES[hue][shade]]);
    }
  }
  return found;
}

let before = "";
effect(() => {
  const tree = state.value?.tree;
  const names = tree?.map((queue) => `${queue.depth}${queue.name} ${queue.guaranteed}`).join("\n") ?? "";
  if (!tree || names === before) return;
  before = names;
  known.clear();
  assigned(tree).forEach(([name, pair], at) => {
    const [light, dark] = pair.split(" ");
    document.documentElement.style.setProperty(`--q-${at}`, `light-dark(${light}, ${dark})`);
    known.set(name, `--q-${at}`);
  });
});

/** The CSS variable of a queue's colour. @param {string} queue */
export const variable = (queue) => known.get(queue) ?? "--line-strong";
/** A queue's colour as CSS has it. @param {string} queue */
export const colour = (queue) => `var(${variable(queue)})`;
