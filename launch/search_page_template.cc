// SPDX-License-Identifier: Apache-2.0
#include "launch/search_page.h"

namespace ventris {

const char* const kSearchPageHead = R"html(<title>Beam search</title>
<style>
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --line: #d8dce3; --text: #1b1f27; --muted: #5d6675; --won: #b4470e;
  --wanted: #17508a; --ended: #2a8a4a; --bar: #7fb3d8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --panel: #1b1f26; --line: #343b47; --text: #e6e9ee; --muted: #9aa4b2; --won: #ffa15c;
    --wanted: #8ec9ea; --ended: #5cc98a; --bar: #2b679b;
  }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 20px 24px 40px; background: var(--page); color: var(--text);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; margin: 0 0 10px; }
h2 { font-size: 15px; margin: 0 0 4px; }
p { margin: 2px 0 10px; color: var(--muted); max-width: 110ch; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0 0 14px; }
dt { color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
.won { color: var(--won); } .wanted { color: var(--wanted); }
.bar { display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; margin: 0 0 8px; }
select { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: 5px; }
#search { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--panel); }
#grid { position: relative; display: flex; gap: 34px; padding: 10px 14px 14px; width: max-content; }
#grid svg { position: absolute; inset: 0; pointer-events: none; }
#grid path { fill: none; stroke: var(--line); stroke-width: 1.5; }
#grid path.won { stroke: var(--won); stroke-width: 2.5; }
#grid path.on { stroke: var(--text); stroke-width: 2.5; }
.step { display: grid; gap: 5px; align-content: start; min-width: 96px; z-index: 1; }
.step h3 { font-size: 12px; font-weight: 500; color: var(--muted); margin: 0; }
button { font: inherit; color: inherit; text-align: left; background: var(--page); border: 1px solid var(--line);
  border-radius: 6px; padding: 2px 7px; cursor: pointer; line-height: 1.25; max-width: 170px; }
button bdi { display: block; white-space: pre; overflow: hidden; text-overflow: ellipsis; }
button small { color: var(--muted); font-variant-numeric: tabular-nums; }
button.dropped { opacity: 0.62; border-style: dashed; background: transparent; }
button.ended { border-color: var(--ended); box-shadow: inset 3px 0 var(--ended); }
button.winner { border-color: var(--won); border-width: 2px; }
button.reference bdi { color: var(--wanted); font-weight: 600; text-decoration: underline; text-underline-offset: 3px; }
button[aria-pressed="true"] { outline: 2px solid var(--text); outline-offset: 1px; }
:focus-visible { outline: 2px solid var(--wanted); outline-offset: 1px; }
.after { border-top: 1px solid var(--line); margin-top: 3px; padding-top: 5px; display: grid; gap: 5px; }
#detail { margin-top: 16px; min-height: 120px; }
#detail table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
#detail td { padding: 1px 10px 1px 0; }
#detail td.weight { width: 320px; }
#detail td.weight span { display: inline-block; height: 10px; background: var(--bar); vertical-align: middle; }
body.few .after { display: none; }
@media print { #search { overflow: visible; } #grid { flex-wrap: wrap; width: auto; } #grid svg { display: none; } }
</style>
</head>
<body>
<h1>Beam search</h1>
<dl>
<dt>Source</dt><dd><bdi id="source"></bdi></dd>
<dt>Translation</dt><dd><bdi id="translation" class="won"></bdi> <span id="score"></span></dd>
<dt id="reference-title" hidden>Reference</dt><dd id="reference-row" hidden><bdi id="reference" class="wanted"></bdi>
<span id="reference-score"></span></dd>
<dt>Model</dt><dd><bdi id="model"></bdi></dd>
</dl>
<noscript><p>A script in this file draws the search; allow scripts to see it.</p></noscript>
<p id="verdict" hidden></p>
<p>A column is a step, from left to right. Its hypotheses stand best first, with the log-probability of all tokens so far; those below
the line were considered and fell out. Edged green: ended, with the score by which ended hypotheses compete. The way of the translation is
drawn thick. Choose a hypothesis to see its text, its parts and where the decoder looked for its last token.</p>
<div class="bar"><label><input type="checkbox" id="all" checked> what fell out</label>
<label>attention of <select id="layer"></select></label></div>
<div id="search"><div id="grid"></div></div>
<section id="detail" aria-live="polite"></section>
<script type="application/json" id="data">)html";

const char* const kSearchPageTail =
    R"html(const number = (value, digits = 3) => value.toFixed(digits).replace("-", "\u2212");

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
</script>
</body>
</html>
)html";

}  // namespace ventris
