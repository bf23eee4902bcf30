// SPDX-License-Identifier: Apache-2.0
"use strict";
const number = (value, digits = 3) => value.toFixed(digits).replace("-", "\u2212");

const boxes = data.steps.map(() => []);
// The nodes from the first step to this one.
const wayTo = (step, node) => {
  const way = [];
  for (let at = node, s = step; s >= 0; at = data.steps[s][at].parent, --s) way.unshift(data.steps[s][at]);
  return way;
};
const textOf = way => way.filter(node => !node.ended).map(node => node.piece).join("").replaceAll("\u2581", " ").trim();

let chosen = null;
function choose(step, node) {
  chosen = [step, node];
  boxes.flat().forEach(box => box?.setAttribute("aria-pressed", "false"));
  boxes[step][node].setAttribute("aria-pressed", "true");
  const detail = byId("detail");
  detail.replaceChildren();
  const here = data.steps[step][node], way = wayTo(step, node);
  make("h2", detail, `Step ${step + 1}, rank ${here.rank}: ` + (here.ended ? "ended" : here.kept ? "kept" : "fell out"));
  make("bdi", make("p", detail), visible(textOf(way)));
  make("p", detail, `log-probability ${number(here.log_probability)}, score ${number(here.score)}`
    + (here.ended ? "" : " if it ended here"));
  const row = data.attention[Number(byId("layer").value)]?.[here.attention];
  const table = make("table", detail);
  const parts = make("tr", table);
  make("td", parts, "tokens");
  make("bdi", make("td", parts), visible(way.map((part, i) =>
    `${part.piece} ${number(part.log_probability - (i ? way[i - 1].log_probability : 0), 2)}`).join("   ")));
  if (row) row.forEach((weight, i) => {
    const line = make("tr", table);
    make("bdi", make("td", line), visible(data.source_tokens[i]));
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
  nodes.forEach((node, i) => {
    const kinds = [!node.kept && "dropped", node.ended && "ended", node.winner && "winner", node.reference && "reference"];
    const box = make("button", node.kept ? column : after, "", {class: kinds.filter(Boolean).join(" ")});
    make("bdi", box, visible(node.piece));
    make("small", box, node.ended ? `score ${number(node.score)}` : number(node.log_probability));
    box.setAttribute("aria-pressed", "false");
    box.onclick = () => choose(step, i);
    boxes[step][i] = box;
  });
  const further = data.considered[step] - nodes.length;
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
  const few = document.body.classList.contains("few");
  const on = chosen ? new Set(wayTo(...chosen)) : new Set();
  data.steps.forEach((nodes, step) => nodes.forEach((node, i) => {
    if (step === 0 || (few && !node.kept)) return;
    const from = boxes[step - 1][node.parent].getBoundingClientRect(), to = boxes[step][i].getBoundingClientRect();
    const [x0, y0, x1, y1] = [from.right - origin.left, (from.top + from.bottom) / 2 - origin.top, to.left - origin.left,
      (to.top + to.bottom) / 2 - origin.top];
    if (!node.kept && !on.has(node)) return;
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`);
    if (node.winner) path.setAttribute("class", "won");
    if (on.has(node)) path.setAttribute("class", "on");
    lines.append(path);
  }));
}

// Where the reference left the beam, and whether the search or the model is to blame.
function judge() {
  const {reference} = data;
  if (!reference) return;
  for (const id of ["reference-title", "reference-row", "verdict"]) byId(id).hidden = false;
  byId("reference").textContent = visible(reference.text);
  byId("reference-score").textContent = `score ${number(reference.score)}`;
  const left = data.steps.findIndex(nodes => !nodes.some(node => node.reference && node.kept));
  const ended = data.steps.some(nodes => nodes.some(node => node.reference && node.ended));
  const words = [];
  if (ended) words.push("The search found the reference.");
  else if (left < 0) words.push("The search ended before the reference did.");
  else {
    const rank = data.steps[left].find(node => node.reference)?.rank;
    words.push(`The reference left the beam in step ${left + 1}: its token `
      + `${reference.pieces[left]} (log-probability ${number(reference.log_probabilities[left])}) `
      + (rank ? `was number ${rank} of those considered.` : "was not among those considered."));
  }
  if (data.translation !== reference.text) words.push(reference.score > data.score
    ? "Its score is better than that of the translation: a larger beam might find it."
    : "The model gives the translation the better score: a larger beam would not change that.");
  byId("verdict").textContent = visible(words.join(" "));
}

byId("source").textContent = visible(data.source);
byId("translation").textContent = visible(data.translation);
byId("score").textContent = `score ${number(data.score)}, beam ${data.beam_size}, length penalty ${data.length_penalty}`;
byId("model").textContent = visible(data.model);
data.attention.forEach((_, layer) => {
  const option = make("option", byId("layer"), `layer ${layer + 1} of the decoder, mean over its heads`);
  option.value = layer;
});
byId("layer").selectedIndex = Math.max(0, data.attention.length - 2);
data.steps.forEach(addStep);
judge();
byId("layer").onchange = () => { if (chosen) choose(...chosen); };
byId("all").onchange = () => { document.body.classList.toggle("few", !byId("all").checked); drawLines(); };
onresize = drawLines;
let last = null;
data.steps.forEach((nodes, step) => nodes.forEach((node, i) => { if (node.winner) last = [step, i]; }));
if (last) choose(...last); else drawLines();
document.documentElement.dataset.steps = data.steps.length;
