#include "launch/attention_page_template.h"

namespace ventris {

const char* const kAttentionPageHead = R"html(<title>Attention</title>
<style>
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --line: #d8dce3; --text: #1b1f27; --muted: #5d6675; --accent: #b4470e;
  --scale: #f3f5f9 #c9dcef #7fb3d8 #3a7fb8 #17508a #0a2a52;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --panel: #1b1f26; --line: #343b47; --text: #e6e9ee; --muted: #9aa4b2; --accent: #ffa15c;
    --scale: #20252d #24405f #2b679b #4296cd #8ec9ea #eaf7ff;
  }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 20px 24px 40px; background: var(--page); color: var(--text);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 20px; margin: 0 0 10px; }
h2 { font-size: 15px; margin: 0; }
p { margin: 2px 0 10px; color: var(--muted); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0 0 18px; }
dt { color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
main { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 28px; align-items: start; }
section { margin-bottom: 26px; }
.maps { display: grid; gap: 6px; place-items: center; justify-content: start; overflow-x: auto;
  padding: 2px; }
.maps span { color: var(--muted); font-size: 12px; text-align: center; white-space: nowrap; }
.maps span.layer { justify-self: end; padding-right: 4px; }
button { display: block; padding: 0; border: 1px solid var(--line); border-radius: 3px;
  background: var(--panel); cursor: pointer; overflow: hidden; line-height: 0; }
button:hover, button:focus-visible { outline: 2px solid var(--muted); outline-offset: 0; }
button[aria-pressed="true"] { outline: 2px solid var(--accent); outline-offset: 0; }
canvas { image-rendering: pixelated; }
aside { position: sticky; top: 12px; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; padding: 14px 16px; max-height: calc(100vh - 24px); overflow: auto; }
#plot { display: grid; width: max-content; }
#plot canvas { border: 1px solid var(--line); box-sizing: content-box; }
.labels { display: flex; color: var(--text); }
.rows { flex-direction: column; text-align: right; padding-right: 6px; }
.columns { padding-left: 1px; align-items: flex-end; padding-bottom: 6px; }
.labels bdi { white-space: pre; flex: none; }
.columns bdi { writing-mode: vertical-rl; transform: rotate(180deg); }
.labels bdi.on { color: var(--accent); font-weight: 600; }
#reading { min-height: 1.5em; margin: 8px 0 0; color: var(--text); font-variant-numeric: tabular-nums; }
#legend { display: flex; align-items: flex-end; gap: 8px; margin-top: 10px; color: var(--muted);
  font-size: 12px; }
#legend div { position: relative; width: 240px; height: 30px; }
#legend canvas { width: 240px; height: 12px; border-radius: 2px; }
#legend span { position: absolute; top: 13px; transform: translateX(-50%); }
@media (max-width: 900px) {
  main { grid-template-columns: minmax(0, 1fr); }
  aside { order: -1; position: static; max-height: none; }
}
</style>
</head>
<body>
<h1>Attention</h1>
<dl>
<dt>Source</dt><dd><bdi id="source"></bdi></dd>
<dt id="kind-of-target">Target</dt><dd><bdi id="target"></bdi></dd>
<dt>Model</dt><dd><bdi id="model"></bdi></dd>
</dl>
<noscript><p>A script in this file draws the maps; allow scripts to see them.</p></noscript>
<main>
<div id="groups"></div>
<aside aria-live="polite">
<h2 id="title"></h2>
<p>Point at a map to see it here; click it to keep it here.</p>
<div id="plot"></div>
<p id="reading"></p>
<div id="legend"><div><canvas width="240" height="1"></canvas></div>weight, on a square-root scale</div>
</aside>
</main>
<script type="application/json" id="data">)html";

const char* const kAttentionPageTail = R"html(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const make = (name, parent, text = "") => {
  const element = document.createElement(name);
  element.textContent = text;
  return parent.appendChild(element);
};

// Invisible characters, and those that change the direction of the text, are shown as code points.
const hidden = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/gu;
const visible = text => text.replace(hidden,
  c => "\u27e8U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "\u27e9");

// Two base-64 digits per weight: 0 to 4095 are the weights 0 to 1.
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const value = Object.fromEntries([...digits].map((digit, i) => [digit, i]));
function unpack(text) {
  const weights = new Float32Array(text.length / 2);
  for (let i = 0; i < weights.length; ++i) {
    weights[i] = (64 * value[text[2 * i]] + value[text[2 * i + 1]]) / 4095;
  }
  return weights;
}

// 256 colours from weight 0 to 1, as bytes of red, green and blue.
let colours;
function readColours() {
  const stops = getComputedStyle(document.documentElement).getPropertyValue("--scale").trim().split(/\s+/)
    .map(hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)));
  colours = Array.from({length: 256}, (_, i) => {
    const place = Math.sqrt(i / 255) * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    return stops[at].map((c, k) => Math.round(c + (stops[at + 1][k] - c) * (place - at)));
  });
}
function paint(canvas, weights) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let i = 0; i < weights.length; ++i) {
    image.data.set(colours[Math.round(255 * weights[i])], 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

const maps = [];  // all maps on the page: {group, layer, head, weights, canvas, button}
let kept = null;   // the map that was clicked
let shown = null;
let mark = null;   // draws the cell under the pointer

function show(map) {
  shown = map;
  const {group} = map;
  const [rows, columns] = [group.queries.length, group.keys.length];
  byId("title").textContent = `${group.title}, layer ${map.layer + 1}, head ${map.head + 1}`;
  byId("reading").textContent = "";
  const plot = byId("plot");
  plot.replaceChildren();
  // As large as the panel allows, and large enough to read the tokens.
  const room = Math.max(220, byId("title").parentElement.clientWidth - 150);
  const cell = Math.max(11, Math.min(38, Math.floor(room / Math.max(columns, 0.75 * rows))));
  plot.style.gridTemplateColumns = "max-content max-content";
  plot.style.fontSize = Math.min(14, cell - 1) + "px";
  make("span", plot);
  const labels = (tokens, name, size) => {
    const box = make("div", plot);
    box.className = "labels " + name;
    return tokens.map(token => {
      const label = make("bdi", box, visible(token));
      label.style[size] = label.style.lineHeight = cell + "px";
      return label;
    });
  };
  const top = labels(group.keys, "columns", "width");
  const side = labels(group.queries, "rows", "height");
  const canvas = make("canvas", plot);
  canvas.id = "large";
  [canvas.width, canvas.height] = [columns, rows];
  [canvas.style.width, canvas.style.height] = [columns * cell + "px", rows * cell + "px"];
  paint(canvas, map.weights);
  mark = (row, column) => {
    top.forEach((label, j) => label.classList.toggle("on", j === column));
    side.forEach((label, i) => label.classList.toggle("on", i === row));
    const reading = byId("reading");
    reading.textContent = "";
    if (row === null) return;
    make("bdi", reading, visible(group.queries[row]));
    reading.append(" \u2192 ");
    make("bdi", reading, visible(group.keys[column]));
    reading.append(": " + map.weights[row * columns + column].toFixed(3));
  };
  canvas.onpointermove = event => mark(
    Math.max(0, Math.min(rows - 1, Math.floor(event.offsetY / cell))),
    Math.max(0, Math.min(columns - 1, Math.floor(event.offsetX / cell))));
  canvas.onpointerleave = () => mark(null, null);
}

function keep(map) {
  if (kept) kept.button.setAttribute("aria-pressed", "false");
  kept = map;
  map.button.setAttribute("aria-pressed", "true");
  show(map);
}

function addGroup(group) {
  const section = make("section", byId("groups"));
  make("h2", section, group.title);
  make("p", section, group.note);
  const grid = make("div", section);
  grid.className = "maps";
  grid.style.gridTemplateColumns = `repeat(${group.heads + 1}, max-content)`;
  make("span", grid);
  const heading = group.heads > 8 ? "" : "head ";
  for (let head = 0; head < group.heads; ++head) make("span", grid, heading + (head + 1));
  for (let layer = 0; layer < group.layers; ++layer) {
    make("span", grid, `layer ${layer + 1}`).className = "layer";
    for (let head = 0; head < group.heads; ++head) {
      const button = make("button", grid);
      const canvas = make("canvas", button);
      const weights = unpack(group.weights[layer * group.heads + head]);
      const map = {group, layer, head, canvas, button, weights};
      [canvas.width, canvas.height] = [group.keys.length, group.queries.length];
      canvas.className = "map";
      button.title = `${group.title}, layer ${layer + 1}, head ${head + 1}`;
      button.setAttribute("aria-label", button.title);
      button.setAttribute("aria-pressed", "false");
      button.onpointerenter = button.onfocus = () => show(map);
      button.onpointerleave = button.onblur = () => shown === kept || show(kept);
      button.onclick = () => keep(map);
      maps.push(map);
    }
  }
}

// Small maps keep the shape of the sentence pair and use the available width.
function resize() {
  for (const {group, canvas} of maps) {
    const room = (byId("groups").clientWidth - 70) / group.heads - 8;
    const scale = Math.max(44, Math.min(120, room)) / Math.max(canvas.width, canvas.height);
    canvas.style.width = canvas.width * scale + "px";
    canvas.style.height = canvas.height * scale + "px";
  }
}

function paintAll() {
  readColours();
  for (const map of maps) paint(map.canvas, map.weights);
  paint(document.querySelector("#legend canvas"), Float32Array.from({length: 240}, (_, i) => (i / 239) ** 2));
}

byId("source").textContent = visible(data.source);
byId("target").textContent = visible(data.target);
byId("model").textContent = visible(data.model);
if (data.translated) byId("kind-of-target").textContent = "Translation";
data.groups.forEach(addGroup);
for (const weight of [0, 0.05, 0.25, 0.5, 1]) {
  const tick = make("span", document.querySelector("#legend div"), String(weight));
  tick.style.left = 240 * Math.sqrt(weight) + "px";
}
resize();
paintAll();
keep(maps[Math.max(0, data.groups[0].layers - 2) * data.groups[0].heads]);
matchMedia("(prefers-color-scheme: dark)").onchange = () => { paintAll(); show(shown); };
onresize = () => { resize(); show(shown); };
document.documentElement.dataset.maps = maps.length;
</script>
</body>
</html>
)html";

}  // namespace ventris
