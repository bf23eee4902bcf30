// SPDX-License-Identifier: Apache-2.0
#include "launch/report_page_template.h"

namespace ventris {

const char* const kReportPageHead = R"html(<title>Training report</title>
<style>
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --line: #d8dce3; --grid: #e7eaef; --text: #1b1f27; --muted: #5d6675;
  --differs: #fff3d6; --fault: #b3261e;
  --c0: #1f6fb4; --c1: #c8501e; --c2: #2a8a4a; --c3: #8a4fb0; --c4: #96730f; --c5: #0d7d86; --c6: #b8407c;
  --c7: #5d6675;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --panel: #1b1f26; --line: #343b47; --grid: #262c36; --text: #e6e9ee; --muted: #9aa4b2;
    --differs: #3a3118; --fault: #ff8a80;
    --c0: #5aa9e6; --c1: #ff9a5c; --c2: #5cc98a; --c3: #c08be6; --c4: #e0bf4f; --c5: #4fd0d8; --c6: #f083b5;
    --c7: #aab3c0;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 20px 24px 40px; max-width: 1500px; background: var(--page); color: var(--text);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; margin: 0 0 4px; }
h2 { font-size: 16px; margin: 28px 0 8px; }
h3 { font-size: 14px; margin: 0; }
p { margin: 2px 0 10px; color: var(--muted); }
.warning { color: var(--fault); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid); }
thead th { color: var(--muted); font-weight: 500; border-bottom-color: var(--line); white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
tbody th { font-weight: 500; }
bdi { overflow-wrap: anywhere; }
code, .mono { font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
tr.differs { background: var(--differs); }
.bar { display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; position: sticky; top: 0; z-index: 1;
  padding: 8px 0; background: var(--page); border-bottom: 1px solid var(--line); }
button, select { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line);
  border-radius: 5px; padding: 2px 9px; }
button:hover:enabled { border-color: var(--muted); }
button:disabled { opacity: 0.45; }
:focus-visible { outline: 2px solid var(--c0); outline-offset: 1px; }
#charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 520px), 1fr)); gap: 20px 28px;
  margin-top: 16px; }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { display: flex; justify-content: space-between; align-items: baseline; gap: 8px; }
figcaption label { color: var(--muted); font-size: 12px; }
svg.plot { display: block; width: 100%; height: auto; touch-action: pan-y; cursor: crosshair; user-select: none; }
svg text { fill: var(--muted); font-size: 11px; }
svg .grid { stroke: var(--grid); }
svg .axis { stroke: var(--line); }
svg .mark { stroke-dasharray: 2 3; opacity: 0.75; }
svg .cursor { stroke: var(--muted); }
svg .zoom { fill: var(--muted); opacity: 0.18; }
.legend { font-size: 12.5px; margin-left: 62px; }
#runs th, #runs td { white-space: nowrap; }
.legend td, .legend th { padding: 1px 10px 1px 0; border: 0; }
.swatch { display: inline-block; width: 18px; height: 0; border-top: 2.5px solid; vertical-align: middle;
  margin-right: 6px; }
.parts { display: flex; width: 320px; height: 12px; border-radius: 3px; overflow: hidden; margin-top: 4px;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.choices label, .choices select { max-width: 100%; }
.choices { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; margin-bottom: 8px; }
.sample { border-top: 1px solid var(--grid); padding: 8px 0; break-inside: avoid; display: grid; max-width: 1100px;
  grid-template-columns: 92px 1fr; gap: 2px 10px; }
.sample dt { color: var(--muted); }
.sample dd { margin: 0; overflow-wrap: anywhere; }
.sample .muted { color: var(--muted); }
.attention { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 28px; align-items: start; margin: 8px 0 22px; }
.attention .large { overflow-x: auto; padding-bottom: 4px; break-inside: avoid; }
.attention h4 { font-size: 13px; font-weight: 500; margin: 0 0 4px; }
#attention-runs h3 { margin-top: 14px; }
ins { text-decoration: underline; text-decoration-thickness: 2px; text-underline-offset: 3px; color: var(--c2); }
del { text-decoration: line-through; color: var(--c1); }
details { margin-top: 8px; }
summary { cursor: pointer; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0 10px; }
@media (max-width: 900px) { .attention { grid-template-columns: minmax(0, 1fr); } .attention .large { order: -1; } }
@media (max-width: 560px) { body { padding: 12px 12px 30px; } .bar { position: static; } }
@media print {
  :root { color-scheme: light; --page: #fff; --panel: #fff; --line: #999; --grid: #ddd; --text: #000;
    --muted: #444; --differs: #f2f2f2; --fault: #900; --c0: #1f6fb4; --c1: #c8501e; --c2: #2a8a4a; --c3: #8a4fb0;
    --c4: #96730f; --c5: #0d7d86; --c6: #b8407c; --c7: #5d6675; }
  #runs th, #runs td { white-space: normal; padding-right: 6px; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  .bar, .screen, figcaption label, .choices button { display: none; }
  #charts { grid-template-columns: 1fr 1fr; gap: 12pt; }
  h2 { break-after: avoid; }
  tr { break-inside: avoid; }
  .scroll, .maps { overflow: visible; }
  .attention { display: block; }
}
)html";

const char* const kReportPageBody = R"html(</style>
</head>
<body>
<h1>Training report</h1>
<p id="made"></p>
<noscript><p class="warning">A script in this file draws the curves; allow scripts to see them.</p></noscript>
<main>
<section aria-labelledby="runs-title">
<h2 id="runs-title">Runs</h2>
<div class="scroll"><table id="runs"><caption hidden>Runs and their last values</caption></table></div>
<div id="warnings"></div>
</section>
<section aria-labelledby="curves-title">
<h2 id="curves-title">Curves</h2>
<div class="bar">
<label>Horizontal axis <select id="axis">
<option value="step">step</option><option value="seconds">time of training</option>
<option value="time">time of day (UTC)</option><option value="tokens">target tokens</option>
</select></label>
<label><input type="checkbox" id="show-marks" checked> marks</label>
<button id="reset" disabled>Whole range</button>
</div>
<p class="screen">Point at a curve to read it out; drag to enlarge a range, double-click for the whole. With the keyboard: Tab to a
curve, arrow keys, Home and End move the reader, + and - enlarge and reduce around it, Escape shows the whole range.</p>
<p id="thinned" hidden></p>
<div id="charts"></div>
<svg id="space" width="0" height="0" aria-hidden="true"></svg>
</section>
<section aria-labelledby="phases-title" id="phases-section" hidden>
<h2 id="phases-title">Time by phase</h2>
<p>Wall time of the first rank, of all steps that count, up to the last line of the log with a loss.</p>
<div class="scroll"><table id="phases"></table></div>
</section>
<section aria-labelledby="samples-title" id="samples-section" hidden>
<h2 id="samples-title">Translations</h2>
<p>Sentences of a validation set, spread over it, as they were translated then. <del>Words</del> that are gone and <ins>words</ins>
that are new are marked.</p>
<div class="choices">
<label>Of <select id="sample-set"></select></label>
<label>step <select id="sample-step"></select></label>
<label>beside <select id="sample-other"><option value="before">the validation before</option>
<option value="reference">the reference</option></select></label>
<button id="sample-back" aria-label="earlier validation">&#8592;</button>
<button id="sample-on" aria-label="later validation">&#8594;</button>
</div>
<div id="samples" aria-live="polite"></div>
</section>
<section aria-labelledby="attention-title" id="attention-section" hidden>
<h2 id="attention-title">Attention</h2>
<p>Sentences as checkpoints of the runs translate them, and where the models looked: the darker (on a dark page, the brighter) a cell,
the more the token of its row attends to that of its column. <span class="screen">Point at a map to read it out; choose one of the small ones to see
it large. With the keyboard: Tab to the large map, arrow keys read out weights.</span></p>
<div class="choices">
<label id="attention-sentence-label">Sentence <select id="attention-sentence"></select></label>
<label>Attention <select id="attention-kind"></select></label>
<label>layer <select id="attention-layer"></select></label>
<label>head <select id="attention-head"></select></label>
<label id="attention-target-label">while it writes <select id="attention-target"><option value="translated">its translation</option>
<option value="given">the reference</option></select></label>
<label>beside <select id="attention-other"><option value="before">the checkpoint before</option>
<option value="reference">the reference</option></select></label>
</div>
<dl class="sample" id="attention-texts"></dl>
<div id="attention-runs"></div>
</section>
<section aria-labelledby="marks-title" id="marks-section">
<h2 id="marks-title">Restarts and other events</h2>
<div class="scroll"><table id="marks"></table></div>
</section>
<section aria-labelledby="options-title" id="options-section">
<h2 id="options-title">Options</h2>
<p id="differing"></p>
<label class="screen" id="only-label"><input type="checkbox" id="only"> only what differs</label>
<div class="scroll"><table id="options" class="mono"></table></div>
<div id="commands"></div>
</section>
</main>
<script type="application/json" id="data">)html";

const char* const kReportPageCharts = R"html(const space = byId("space").namespaceURI;
const draw = (name, parent, attributes, text = "") => {
  const element = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return parent.appendChild(element);
};

// Numbers and times as text.
const plain = value => {
  if (value === null || value === undefined) return "\u2013";
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7)) return value.toExponential(3);
  return Number(value.toPrecision(Number.isInteger(value) ? 15 : 5)).toLocaleString("en", {maximumSignificantDigits: 15});
};
const duration = seconds => {
  if (seconds < 60) return plain(Number(seconds.toFixed(2))) + " s";
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};
const date = seconds => seconds === null ? "\u2013" : new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 19);
const counted = value => value < 1e3 ? plain(value) : value < 1e6 ? plain(value / 1e3) + " k"
  : value < 1e9 ? plain(value / 1e6) + " M" : plain(value / 1e9) + " G";
const axes = {step: ["step", plain], seconds: ["time of training", duration], time: ["time of day", date],
  tokens: ["target tokens", counted]};

const names = {loss: "training", nll: "training", perplexity: "training", valid_loss: "validation",
  valid_perplexity: "validation"};
// Values of further validation sets are SET/NAME; those of the set that decides, or a mean, valid_NAME.
const allKeys = [...new Set(data.runs.flatMap(run => Object.keys(run.series)))];
const ofSets = name => allKeys.filter(key => key.endsWith("/" + name));
const setOf = key => key.slice(0, key.lastIndexOf("/"));
const known = [
  ["Loss", ["loss", "valid_loss", ...ofSets("loss")], "per token: of training the whole loss, of validations that of the labels"],
  ["Perplexity", ["perplexity", "valid_perplexity", ...ofSets("perplexity")], "", true],
  ["BLEU of validations", ["valid_bleu", ...ofSets("bleu")], "with its 95% confidence interval where it was logged"],
  ["chrF of validations", ["valid_chrf", ...ofSets("chrf")]],
  ["Learning rate", ["learning_rate"]],
  ["Norm of the gradients", ["gradient_norm"], "", true],
  ["Target tokens per second", ["target_tokens_per_second"]],
  ["Source tokens per second", ["source_tokens_per_second"]],
  ["Skipped steps", ["skipped_steps"], "since the start"],
];
const shown = data.runs.map(() => true);
let axis = "step";
let range = null;  // of the horizontal axis, if a part is shown
const colour = i => `var(--c${i % 8})`;
const dashes = ["", "7 3", "2 2", "9 3 2 3"];
const last = values => values ? values[values.length - 1] : undefined;

// The edges of confidence intervals.
const bands = {valid_bleu: ["bleu_low", "bleu_high"]};
for (const key of ofSets("bleu")) bands[key] = ["bleu_low", "bleu_high"].map(edge => `${setOf(key)}/${edge}`);

const labelOf = key => names[key] ?? (key.includes("/") ? visible(setOf(key))
  : key.startsWith("valid_") && allKeys.some(other => other.endsWith(key.replace("valid_", "/"))) ? "decides" : "");

// The curves of a chart: of a run, with the name of what is drawn.
const curvesOf = keys => data.runs.flatMap((run, r) => keys.filter(key => run.series[key]).map(key => ({
  run: r, key, label: labelOf(key), points: run.series[key], colour: colour(r),
  dash: key.includes("/") ? dashes[1 + ofSets(key.slice(key.lastIndexOf("/") + 1)).indexOf(key) % 3]
    : key.startsWith("valid_") && names[key] ? "5 3" : dashes[Math.floor(r / 8) % 4],
  dots: key.startsWith("valid_") || key.includes("/"), band: bands[key]?.map(edge => run.series[edge]).filter(Boolean) ?? []})));
const charts = [];
for (const [title, keys, note, log] of known) charts.push({title, note, log, curves: curvesOf(keys)});
const others = new Set(allKeys);
for (const [, keys] of known) keys.forEach(key => others.delete(key));
Object.values(bands).flat().forEach(key => others.delete(key));
others.delete("nll");  // its exponential is the perplexity
for (const key of others) charts.push({title: key, curves: curvesOf([key])});
data.runs.forEach((run, r) => {
  const curves = Object.entries(run.shares).map(([corpus, points], i) => ({
    run: r, key: corpus, label: visible(corpus), points, colour: colour(i), dash: dashes[Math.floor(i / 8) % 4],
    dots: false, band: []}));
  const of = data.runs.length > 1 ? " of " + visible(run.name) : "";
  charts.push({title: "Mix of corpora" + of, note: "part of the pairs since the line before", curves, mix: true});
});
const phaseNames = [["start", "start"], ["data", "waiting for batches"], ["steps", "steps"], ["validation", "validation"],
  ["saving", "saving"], ["other", "other"]];
data.runs.forEach((run, r) => {
  const curves = phaseNames.map(([key, label], i) => ({
    run: r, key, label, points: run.phases[key], colour: colour(i), dash: "", dots: false, band: []})).filter(({points}) => points);
  const of = data.runs.length > 1 ? " of " + visible(run.name) : "";
  charts.push({title: "Time by phase" + of, note: "part of the time since the line before", curves, mix: true});
});
// Scores of --valid-script: a curve for each set, in the colour of the run or, of one run, in one of its own.
const scripts = data.runs.flatMap((run, r) => run.scripts.map(({set, points, failures, failed}, i) => ({
  run: r, key: set, label: visible(set), points, failures, failed, colour: colour(data.runs.length > 1 ? r : i),
  dash: data.runs.length > 1 ? dashes[i % 4] : "", dots: true, band: []})));
charts.splice(known.findIndex(([title]) => title === "Learning rate"), 0, {title: "Scores of the script of validations", note: "a cross where it has none", curves: scripts});
const skips = curve => curve.key === "skipped_steps" && curve.points.value.every(value => value === 0);
const drawn = charts.filter(chart => chart.curves.length && !chart.curves.every(skips));
)html";

}  // namespace ventris
