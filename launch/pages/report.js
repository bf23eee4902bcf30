// SPDX-License-Identifier: Apache-2.0
"use strict";

// Round numbers in a range; of a logarithmic axis 1, 2 and 5 times powers of ten.
function ticks(low, high, log, count) {
  if (log) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
      for (const digit of [1, 2, 5]) all.push(Number(`${digit}e${power}`));
    const inside = all.filter(tick => tick >= low && tick <= high);
    const tens = inside.filter(tick => String(tick.toExponential()).startsWith("1e"));
    if (tens.length > count) return tens.filter((_, i) => i % Math.ceil(tens.length / count) === 0);
    if (inside.length > 1) return inside.length > count && tens.length > 1 ? tens : inside;
  }
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find(digit => digit * power >= raw) ?? 10);
  // A range may be so narrow that neighbouring multiples are one number.
  const first = Math.ceil(low / step), inside = new Set();
  for (let k = 0; k <= 2 * count && (first + k) * step <= high; ++k) inside.add(Number(((first + k) * step).toPrecision(12)));
  return [...inside];
}

// The range of the horizontal axis of all charts.
function wholeRange() {
  let low = Infinity, high = -Infinity;
  for (const {curves} of drawn) for (const {run, points} of curves) {
    if (!shown[run]) continue;
    for (const x of points[axis]) if (x !== null) { low = Math.min(low, x); high = Math.max(high, x); }
  }
  if (!(low <= high)) return [0, 1];
  return low < high ? [low, high] : [low - 0.5, high + 0.5];
}

// The index of the value nearest to x, or -1.
function nearest(points, x) {
  let best = -1;
  points[axis].forEach((at, i) => {
    if (at !== null && (best < 0 || Math.abs(at - x) < Math.abs(points[axis][best] - x))) best = i;
  });
  return best;
}

const height = 250, left = 62, right = 10, above = 14, below = 26;
function plot(chart) {
  const svg = chart.svg;
  svg.replaceChildren();
  const width = Math.max(260, Math.round(chart.figure.clientWidth));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  draw("title", svg, {}, `${chart.title} by ${axes[axis][0]}`);
  const [x0, x1] = range ?? wholeRange();
  const curves = chart.curves.filter(curve => shown[curve.run]);
  let low = Infinity, high = -Infinity;
  for (const points of curves.flatMap(curve => [curve.points, ...curve.band])) points.value.forEach((y, i) => {
    const x = points[axis][i];
    if (x === null || x < x0 || x > x1 || (chart.log && y <= 0)) return;
    low = Math.min(low, y); high = Math.max(high, y);
  });
  const log = chart.log && low > 0 && low < high;
  if (!(low <= high)) { low = 0; high = 1; }
  const flat = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high));
  const pad = log ? 0 : flat ? Math.abs(low) * 0.1 || 1 : 0.05 * (high - low);
  [low, high] = [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
  if (log) { low /= 1.05; high *= 1.05; }
  const X = x => left + (x - x0) / (x1 - x0) * (width - left - right);
  const scale = y => log ? Math.log(y) : y;
  const Y = y => height - below - (scale(y) - scale(low)) / (scale(high) - scale(low)) * (height - above - below);
  Object.assign(chart, {X, Y, width, x0, x1});
  const levels = ticks(low, high, log, 5);
  for (const y of levels) {
    draw("line", svg, {class: "grid", x1: left, x2: width - right, y1: Y(y), y2: Y(y)});
    draw("text", svg, {x: left - 6, y: Y(y) + 4, "text-anchor": "end"}, plain(y));
  }
  const timely = axis === "time";
  const stops = ticks(x0, x1, false, Math.max(2, Math.floor(width / (timely ? 190 : 110))));
  for (const x of stops) {
    draw("line", svg, {class: "axis", x1: X(x), x2: X(x), y1: height - below, y2: height - below + 4});
    const at = Math.max(left, Math.min(width - right, X(x)));
    const anchor = at > width - 50 ? "end" : "middle";
    draw("text", svg, {x: at, y: height - 8, "text-anchor": anchor}, axes[axis][1](x));
  }
  draw("line", svg, {class: "axis", x1: left, x2: width - right, y1: height - below, y2: height - below});
  const clip = "clip" + chart.index;
  const region = draw("clipPath", draw("defs", svg, {}), {id: clip});
  draw("rect", region, {x: left, y: 0, width: width - left - right, height});
  const inside = draw("g", svg, {"clip-path": `url(#${clip})`});
  if (byId("show-marks").checked) drawMarks(chart, inside);
  for (const {band, colour} of curves) {
    if (band.length !== 2) continue;
    const edge = points => points.value.map((y, i) => [points[axis][i], y]).filter(([x, y]) => x !== null && !(log && y <= 0));
    const corners = [...edge(band[0]), ...edge(band[1]).reverse()].map(([x, y]) => `${X(x).toFixed(1)} ${Y(y).toFixed(1)}`);
    if (corners.length) draw("path", inside, {d: `M${corners.join("L")}Z`, stroke: "none", style: `fill: ${colour}; opacity: 0.18`, class: "band"});
  }
  for (const curve of curves) {
    let path = "", pen = false;
    curve.points.value.forEach((y, i) => {
      const x = curve.points[axis][i];
      if (x === null || (log && y <= 0)) { pen = false; return; }
      path += `${pen ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
      pen = true;
    });
    draw("path", inside, {d: path, fill: "none", "stroke-width": 1.6, "stroke-linejoin": "round",
      "stroke-dasharray": curve.dash, style: `stroke: ${curve.colour}`, class: "curve"});
    const few = curve.points.value.length <= (width - left) / 6;
    if ((curve.dots && few) || curve.points.value.length === 1) curve.points.value.forEach((y, i) => {
      const x = curve.points[axis][i];
      if (x !== null && !(log && y <= 0)) draw("circle", inside, {cx: X(x), cy: Y(y), r: 2.6, style: `fill: ${curve.colour}`});
    });
  }
  chart.overlay = draw("g", svg, {});
  readOut(chart, chart.cursor);
}

// Lines at the marks of the runs; those at one pixel are drawn once.
function drawMarks(chart, parent) {
  const taken = new Set();
  data.runs.forEach((run, r) => {
    if (!shown[r] || (chart.mix && chart.curves[0].run !== r)) return;
    for (const mark of run.marks) {
      const at = mark[axis] === null ? NaN : Math.round(chart.X(mark[axis]));
      if (!(at >= left && at <= chart.width - right) || taken.has(r + ":" + at)) continue;
      taken.add(r + ":" + at);
      const group = draw("g", parent, {style: `stroke: ${data.runs.length > 1 ? colour(r) : "var(--fault)"}`});
      draw("title", group, {}, visible(`${run.name}, step ${mark.step}: ${mark.kind}: ${mark.text}`));
      draw("line", group, {class: "mark", x1: at, x2: at, y1: above - 4, y2: height - below});
      draw("path", group, {d: `M${at - 4} ${above - 10}h8l-4 7z`, fill: "currentColor", "stroke-width": 1,
        style: `color: ${data.runs.length > 1 ? colour(r) : "var(--fault)"}`});
    }
  });
}

// The interval of a step as text.
function intervalAt(band, step) {
  const edges = band.map(points => points.value[points.step.indexOf(step)]);
  return edges.length === 2 && edges.every(edge => edge !== undefined) ? `, ${edges.map(plain).join(" to ")}` : "";
}

// Fills the legend with the values at x of the axis, or with the last ones.
function readOut(chart, x) {
  chart.cursor = x;
  chart.overlay.replaceChildren();
  if (x !== null) {
    const at = chart.X(x);
    draw("line", chart.overlay, {class: "cursor", x1: at, x2: at, y1: above, y2: height - below});
  }
  for (const curve of chart.curves) {
    const {points, row} = curve;
    row.hidden = !shown[curve.run];
    const i = x === null ? points.value.length - 1 : nearest(points, x);
    row.cells[1].textContent = i < 0 ? "\u2013" : plain(points.value[i]);
    row.cells[1].dataset.value = i < 0 ? "" : points.value[i];
    row.cells[2].textContent = i < 0 ? "" : "step " + plain(points.step[i]) + (axis === "step" || points[axis][i] === null
      ? "" : ", " + axes[axis][1](points[axis][i])) + intervalAt(curve.band, points.step[i]);
    if (x !== null && i >= 0 && shown[curve.run] && points[axis][i] >= chart.x0 && points[axis][i] <= chart.x1) {
      const y = chart.Y(points.value[i]);
      if (Number.isFinite(y)) draw("circle", chart.overlay, {cx: chart.X(points[axis][i]), cy: y, r: 4, style: `fill: ${curve.colour}`});
    }
  }
}

function zoom(low, high) {
  const [first, end] = wholeRange();
  [low, high] = [Math.max(first, low), Math.min(end, high)];
  if (!(high - low >= 1e-6 * (end - first))) return;
  range = low <= first && high >= end ? null : [low, high];
  byId("reset").disabled = range === null;
  plotAll();
}
function reset() { range = null; byId("reset").disabled = true; plotAll(); }
function plotAll() { drawn.forEach(plot); }

// Moves the reader by values of the chart's longest curve.
function move(chart, how) {
  const curves = chart.curves.filter(curve => shown[curve.run]);
  if (!curves.length) return;
  const longest = curves.reduce((a, b) => b.points.value.length > a.points.value.length ? b : a).points;
  const places = longest[axis].filter(x => x !== null && x >= chart.x0 && x <= chart.x1);
  if (!places.length) return;
  let i = places.findIndex(x => x >= (chart.cursor ?? Infinity));
  if (i < 0) i = places.length - 1;
  readOut(chart, places[Math.max(0, Math.min(places.length - 1, how(i, places.length)))]);
}

function listen(chart) {
  const svg = chart.svg;
  let begin = null;
  const at = event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * chart.width;
    const part = (x - left) / (chart.width - left - right);
    return chart.x0 + Math.max(0, Math.min(1, part)) * (chart.x1 - chart.x0);
  };
  svg.onpointerdown = event => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    begin = at(event);
    svg.setPointerCapture(event.pointerId);
  };
  svg.onpointermove = event => {
    readOut(chart, at(event));
    if (begin === null) return;
    const ends = [chart.X(begin), chart.X(at(event))].sort((a, b) => a - b);
    draw("rect", chart.overlay, {class: "zoom", x: ends[0], width: ends[1] - ends[0], y: above, height: height - above - below});
  };
  svg.onpointerup = event => {
    const ends = begin === null ? null : [begin, at(event)].sort((a, b) => a - b);
    begin = null;
    if (ends && chart.X(ends[1]) - chart.X(ends[0]) > 5) zoom(...ends);
  };
  svg.onpointerleave = svg.onpointercancel = () => { if (begin === null) readOut(chart, null); };
  svg.ondblclick = reset;
  svg.onblur = () => readOut(chart, null);
  svg.onkeydown = event => {
    const around = factor => {
      const middle = chart.cursor ?? (chart.x0 + chart.x1) / 2, half = factor * (chart.x1 - chart.x0) / 2;
      zoom(middle - half, middle + half);
    };
    const actions = {ArrowLeft: () => move(chart, i => chart.cursor === null ? i : i - 1), ArrowRight: () => move(chart, i => i + 1),
      Home: () => move(chart, () => 0), End: () => move(chart, (_, size) => size - 1), "+": () => around(0.5),
      "=": () => around(0.5), "-": () => around(2), Escape: () => { chart.cursor = null; reset(); }};
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  };
}

function addChart(chart, index) {
  chart.index = index;
  chart.cursor = null;
  chart.log = chart.log ?? false;
  chart.figure = make("figure", byId("charts"));
  const caption = make("figcaption", chart.figure);
  const heading = make("h3", caption, chart.title);
  if (chart.note) make("span", heading, ", " + chart.note, {style: "font-weight: normal; color: var(--muted)"});
  const label = make("label", caption);
  const box = make("input", label, "", {type: "checkbox", "aria-label": chart.title + " on a logarithmic axis"});
  label.append(" log");
  box.checked = chart.log;
  box.onchange = () => { chart.log = box.checked; plot(chart); };
  chart.svg = draw("svg", chart.figure, {class: "plot", tabindex: 0, role: "img", "aria-label":
    `${chart.title}; arrow keys read out values below`, height});
  const legend = make("table", chart.figure, "", {class: "legend", "aria-live": "polite"});
  make("caption", legend, chart.title + ": values at the reader, otherwise the last", {hidden: ""});
  const rows = make("tbody", legend);
  for (const curve of chart.curves) {
    curve.row = make("tr", rows);
    const name = make("th", curve.row, "", {scope: "row"});
    make("span", name, "", {class: "swatch", style: `border-color: ${curve.colour}; border-top-style: ${curve.dash ? "dashed" : "solid"}`});
    make("bdi", name, chart.mix ? curve.label : visible(data.runs[curve.run].name) + (curve.label && ": " + curve.label));
    make("td", curve.row, "", {class: "number"});
    make("td", curve.row);
  }
  listen(chart);
}

function headings(table, titles, numbers) {
  const row = make("tr", make("thead", table));
  titles.forEach((title, i) => make("th", row, title, {scope: "col", ...(i >= numbers && {class: "number"})}));
  return make("tbody", table);
}

function addRuns() {
  const columns = [["training loss", "loss"], ["validation loss", "valid_loss"], ["validation perplexity", "valid_perplexity"],
    ["BLEU", "valid_bleu"], ["chrF", "valid_chrf"], ["learning rate", "learning_rate"], ["gradient norm", "gradient_norm"],
    ["tokens/s", "target_tokens_per_second"], ["skipped", "skipped_steps"]]
    .filter(([, key]) => data.runs.some(run => run.series[key]));
  const rows = headings(byId("runs"), ["run", "state", "last step", "trained", ...columns.map(([title]) => title)], 2);
  data.runs.forEach((run, r) => {
    const row = make("tr", rows);
    const label = make("label", make("th", row, "", {scope: "row"}));
    const box = make("input", label, "", {type: "checkbox"});
    box.checked = true;
    box.onchange = () => { shown[r] = box.checked; reset(); };
    label.append(" ");
    make("span", label, "", {class: "swatch", style: `border-color: ${colour(r)}`});
    make("bdi", label, visible(run.name));
    const state = make("td", row, visible(run.state), run.failed ? {class: "warning"} : {});
    state.title = visible(run.message);
    const all = Object.values(run.series);
    const end = all.length ? all.reduce((a, b) => last(b.step) > last(a.step) ? b : a) : null;
    make("td", row, end ? plain(last(end.step)) : "\u2013", {class: "number"});
    make("td", row, end ? duration(last(end.seconds)) : "\u2013", {class: "number"});
    for (const [, key] of columns) make("td", row, plain(last(run.series[key]?.value)), {class: "number"});
    const notes = [run.warning, run.torn && "the last line was not written to its end", !all.length && "has no values yet",
      run.marks_left_out && `${run.marks_left_out} further events are not on this page`, run.failed && run.message].filter(Boolean);
    for (const note of notes) make("p", byId("warnings"), visible(`${run.name}: ${note}`), {class: "warning"});
  });
}

function addMarks() {
  const marks = data.runs.flatMap(run => run.marks.map(mark => ({run, ...mark})));
  byId("marks-section").hidden = !marks.length;
  if (!marks.length) return;
  const rows = headings(byId("marks"), ["run", "event", "what", "step", "trained", "date (UTC)"], 3);
  for (const mark of marks) {
    const row = make("tr", rows);
    make("bdi", make("td", row), visible(mark.run.name));
    make("td", row, mark.kind);
    make("td", row, visible(mark.text));
    make("td", row, plain(mark.step), {class: "number"});
    make("td", row, duration(mark.seconds), {class: "number"});
    make("td", row, date(mark.time), {class: "number"});
  }
}

function addOptions() {
  const several = data.runs.length > 1;
  const differing = data.options.filter(option => option.differs).length;
  byId("only-label").hidden = !several;
  byId("only").checked = several && differing > 0;
  if (several) byId("differing").textContent = differing ? `${differing} of ${data.options.length} differ.` : "All are equal.";
  const rows = headings(byId("options"), ["option", ...data.runs.map(run => visible(run.name))], Infinity);
  const list = [...data.options].sort((a, b) => b.differs - a.differs);
  for (const {name, values, differs} of list) {
    const row = make("tr", rows, "", {class: differs ? "differs" : "same"});
    make("th", row, visible(name), {scope: "row"});
    for (const value of values) make("bdi", make("td", row), value === null ? "\u2013" : visible(value));
  }
  byId("only").onchange = () => {
    for (const row of rows.querySelectorAll(".same")) row.hidden = byId("only").checked;
  };
  byId("only").onchange();
  for (const run of data.runs.filter(({command}) => command)) {
    const details = make("details", byId("commands"));
    const summary = make("summary", details, "Command of ");
    make("bdi", summary, visible(run.name));
    make("pre", details, visible(run.command), {class: "mono"});
  }
}

byId("made").textContent = `${data.program}, made ${data.made.replace("T", " ").slice(0, 16)} UTC`;
const thinned = drawn.flatMap(chart => chart.curves).filter(({points}) => points.of > points.value.length);
if (thinned.length) {
  byId("thinned").hidden = false;
  byId("thinned").textContent = `Of long curves the page holds the lowest and the highest value of each of ${plain(data.columns)} `
    + `columns, and the first and last: of at most ${plain(Math.max(...thinned.map(({points}) => points.of)))} values.`;
}
addRuns();
addSamples();
addMarks();
addOptions();
drawn.forEach(addChart);
if (!drawn.length) make("p", byId("charts"), "There are no values to draw yet.");
plotAll();
byId("axis").onchange = () => { axis = byId("axis").value; drawn.forEach(chart => { chart.cursor = null; }); reset(); };
byId("show-marks").onchange = plotAll;
byId("reset").onclick = reset;
let frame = 0;
onresize = () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(plotAll); };
document.documentElement.dataset.charts = drawn.length;

// A page that is written again and again loads itself as often, and keeps what was chosen.
const controls = () => new Map([...document.querySelectorAll("main input, main select")].map(element =>
  [element.id || element.ariaLabel || element.parentElement.textContent, element]));
function keepChoices() {
  const values = [...controls()].filter(([name, {selectedIndex, options}]) => name !== "sample-step" || selectedIndex < options.length - 1)
    .map(([name, element]) => [name, element.type === "checkbox" ? element.checked : element.value]);
  sessionStorage.setItem("choices", JSON.stringify({range, values}));
}
function takeChoices() {
  const kept = JSON.parse(sessionStorage.getItem("choices") ?? '{"values": []}'), now = controls();
  sessionStorage.removeItem("choices");
  for (const [name, value] of kept.values) {
    const element = now.get(name);
    if (element?.type === "checkbox") element.checked = value;
    else if ([...element?.options ?? []].some(option => option.value === value)) element.value = value;
    element?.onchange?.();
  }
  if (kept.range) zoom(...kept.range);
}
if (data.every) {
  takeChoices();
  setTimeout(() => { keepChoices(); location.reload(); }, 1000 * data.every);
}
