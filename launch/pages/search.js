// SPDX-License-Identifier: Apache-2.0
"use strict";
const number = (value, digits = 3) => value.toFixed(digits).replace("-", "\u2212");

let search = {steps: []};  // the one that is shown
let boxes = [];  // its buttons, by step
let chosen = null;  // a step and a node of it
// The nodes from the first step to this one.
const wayTo = (step, node) => {
  const way = [];
  for (let at = node, s = step; s >= 0; at = search.steps[s][at].parent, --s) way.unshift(search.steps[s][at]);
  return way;
};
const textOf = way => way.filter(node => !node.ended).map(node => node.piece).join("").replaceAll("\u2581", " ").trim();

function choose(step, node) {
  chosen = [step, node];
  boxes.flat().forEach(box => box.setAttribute("aria-pressed", "false"));
  boxes[step][node].setAttribute("aria-pressed", "true");
  const detail = byId("detail");
  detail.replaceChildren();
  const here = search.steps[step][node], way = wayTo(step, node);
  make("h2", detail, `Step ${step + 1}, rank ${here.rank}: ` + (here.ended ? "ended" : here.kept ? "kept" : "fell out"));
  make("bdi", make("p", detail), visible(textOf(way)));
  make("p", detail, `log-probability ${number(here.log_probability)}, score ${number(here.score)}`
    + (here.ended ? "" : " if it ended here"));
  const row = search.attention[byId("layer").selectedIndex]?.[here.attention];
  const table = make("table", detail);
  const parts = make("tr", table);
  make("td", parts, "tokens");
  make("bdi", make("td", parts), visible(way.map((part, i) =>
    `${part.piece} ${number(part.log_probability - (i ? way[i - 1].log_probability : 0), 2)}`).join("   ")));
  if (row) unpack(row).forEach((weight, i) => {
    const line = make("tr", table);
    make("bdi", make("td", line), visible(search.source_tokens[i]));
    const cell = make("td", line, "", {class: "weight"});
    make("span", cell).style.width = Math.round(260 * weight) + "px";
    cell.append(" " + weight.toFixed(3));
  });
  drawLines();
}

function addStep(nodes, step) {
  const column = make("div", byId("grid"), "", {class: "step"});
  make("h3", column, `step ${step + 1}`);
  const after = document.createElement("div");
  after.className = "after";
  boxes[step] = nodes.map((node, i) => {
    const kinds = [!node.kept && "dropped", node.ended && "ended", node.winner && "winner", node.reference && "reference"];
    const box = make("button", node.kept ? column : after, "", {class: kinds.filter(Boolean).join(" "), "aria-pressed": false});
    make("bdi", box, visible(node.piece));
    make("small", box, node.ended ? `score ${number(node.score)}` : number(node.log_probability));
    box.onclick = () => choose(step, i);
    return box;
  });
  const further = search.considered[step] - nodes.length;
  if (further > 0) make("small", after, `and ${further} more`);
  if (after.children.length) column.append(after);
}

const space = "http" + ":" + "//www.w3.org/2000/svg";
let lines = null;
function drawLines() {
  const grid = byId("grid");
  lines?.remove();
  lines = document.createElementNS(space, "svg");
  lines.setAttribute("width", grid.scrollWidth);
  lines.setAttribute("height", grid.scrollHeight);
  grid.prepend(lines);
  const origin = grid.getBoundingClientRect();
  const on = chosen ? new Set(wayTo(...chosen)) : new Set();
  search.steps.forEach((nodes, step) => nodes.forEach((node, i) => {
    if (step === 0 || (!node.kept && (!on.has(node) || document.body.classList.contains("few")))) return;
    const from = boxes[step - 1][node.parent].getBoundingClientRect(), to = boxes[step][i].getBoundingClientRect();
    const [x0, y0, x1, y1] = [from.right - origin.left, (from.top + from.bottom) / 2 - origin.top, to.left - origin.left,
      (to.top + to.bottom) / 2 - origin.top];
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`);
    path.setAttribute("class", on.has(node) ? "on" : node.winner ? "won" : "");
    lines.append(path);
  }));
}

// Where the reference left the beam, and whether the search or the model is to blame.
function verdict({reference: found, steps}, {translation, score}) {
  const left = steps.findIndex(nodes => !nodes.some(node => node.reference && node.kept));
  const words = [];
  if (steps.some(nodes => nodes.some(node => node.reference && node.ended))) words.push("The search found the reference.");
  else if (left < 0) words.push("The search ended before the reference did.");
  else {
    const rank = steps[left].find(node => node.reference)?.rank;
    words.push(`The reference left the beam in step ${left + 1}: its token `
      + `${found.pieces[left]} (log-probability ${number(found.log_probabilities[left])}) `
      + (rank ? `was number ${rank} of those considered.` : "was not among those considered."));
  }
  if (translation !== data.reference) words.push(found.score > score
    ? "Its score is better than that of the translation: a larger beam might find it."
    : "The model gives the translation the better score: a larger beam would not change that.");
  return words.join(" ");
}

function showSearch(checkpoint) {
  byId("search-section").hidden = !checkpoint.search;
  [search, boxes, chosen] = [checkpoint.search ?? {steps: []}, [], null];
  byId("grid").replaceChildren();
  byId("detail").replaceChildren();
  document.documentElement.dataset.steps = search.steps.length;
  if (!checkpoint.search) return;
  byId("verdict").hidden = !search.reference;
  if (search.reference) byId("verdict").textContent = visible(verdict(search, checkpoint));
  const layer = byId("layer").selectedIndex;
  byId("layer").replaceChildren();
  search.attention.forEach((_, i) => make("option", byId("layer"), `layer ${i + 1} of the decoder, mean over its heads`));
  byId("layer").selectedIndex = layer < 0 ? Math.max(0, search.attention.length - 2) : Math.min(layer, search.attention.length - 1);
  search.steps.forEach(addStep);
  const end = search.steps.findLastIndex(nodes => nodes.some(node => node.winner));
  if (end >= 0) choose(end, search.steps[end].findIndex(node => node.winner)); else drawLines();
}
byId("layer").onchange = () => { if (chosen) choose(...chosen); };
byId("all").onchange = () => { document.body.classList.toggle("few", !byId("all").checked); drawLines(); };
