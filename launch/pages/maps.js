// SPDX-License-Identifier: Apache-2.0
"use strict";

// Two base-64 digits per weight: 0 to 4095 are the weights 0 to 1.
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const digitValue = Object.fromEntries([...digits].map((digit, i) => [digit, i]));
function unpack(text) {
  const weights = new Float32Array(text.length / 2);
  for (let i = 0; i < weights.length; ++i) {
    weights[i] = (64 * digitValue[text[2 * i]] + digitValue[text[2 * i + 1]]) / 4095;
  }
  return weights;
}

// The maps of a group: of each layer those of its heads, and their mean.
function mapsOf(group) {
  return Array.from({length: group.layers}, (_, layer) => {
    const heads = group.weights.slice(layer * group.heads, (layer + 1) * group.heads).map(unpack);
    const mean = heads[0].map((_, i) => heads.reduce((sum, weights) => sum + weights[i], 0) / heads.length);
    const name = `${group.title}, layer ${layer + 1}, `;
    return [...heads.map((weights, head) => ({group, layer, head, weights, name: `${name}head ${head + 1}`})),
      {group, layer, head: group.heads, weights: mean, name: name + "mean over the heads"}];
  });
}

// 256 colours from weight 0 to 1, as bytes of red, green and blue.
const scales = {light: "#f3f5f9 #c9dcef #7fb3d8 #3a7fb8 #17508a #0a2a52", dark: "#20252d #24405f #2b679b #4296cd #8ec9ea #eaf7ff"};
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
let colours;
function readColours() {
  const stops = scales[darkScheme.matches ? "dark" : "light"].split(" ")
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

// Draws all maps of the page in other colours; the page sets it.
let repaintMaps = () => {};
const recolour = () => { readColours(); document.querySelectorAll(".map-legend canvas").forEach(paintLegend); repaintMaps(); };
darkScheme.onchange = recolour;
readColours();

function paintLegend(canvas) { paint(canvas, Float32Array.from({length: 240}, (_, i) => (i / 239) ** 2)); }
function addMapLegend(parent) {
  const legend = make("div", parent, "", {class: "map-legend"});
  const scale = make("div", legend);
  paintLegend(make("canvas", scale, "", {width: 240, height: 1}));
  for (const weight of [0, 0.05, 0.25, 0.5, 1]) make("span", scale, String(weight)).style.left = 240 * Math.sqrt(weight) + "px";
  legend.append("weight, on a square-root scale");
}

// Small maps in a grid, a row for each layer. Pointing at one shows it until the pointer leaves; choosing it keeps it.
function addSmallMaps(parent, layers, {show, leave, keep}) {
  const heads = layers[0].length - 1;
  const grid = make("div", parent, "", {class: "maps"});
  grid.style.gridTemplateColumns = `repeat(${heads + 2}, max-content)`;
  make("span", grid);
  for (let head = 1; head <= heads; ++head) make("span", grid, (heads > 8 ? "" : "head ") + head);
  make("span", grid, "mean");
  return layers.flatMap((maps, layer) => {
    make("span", grid, `layer ${layer + 1}`, {class: "layer"});
    return maps.map(map => {
      const button = make("button", grid, "", {title: map.name, "aria-label": map.name, "aria-pressed": false});
      const canvas = make("canvas", button, "", {class: "map", width: map.group.keys.length, height: map.group.queries.length});
      button.onpointerenter = button.onfocus = () => show(map);
      button.onpointerleave = button.onblur = () => leave(map);
      button.onclick = () => keep(map);
      return {map, canvas, button};
    });
  });
}
const press = (small, map) => small.forEach(one => one.button.setAttribute("aria-pressed", one.map === map));
// They keep the shape of the sentence pair and use the available width.
function sizeSmallMaps(small, width) {
  for (const {map, canvas} of small) {
    const room = (width - 70) / (map.group.heads + 1) - 8;
    const scale = Math.max(44, Math.min(120, room)) / Math.max(canvas.width, canvas.height);
    canvas.style.width = canvas.width * scale + "px";
    canvas.style.height = canvas.height * scale + "px";
  }
}

// A map with its tokens in the box `plot`, below a title; `reading` says what is under the pointer, or where the arrow keys are.
class LargeMap {
  constructor(title, plot, reading) {
    Object.assign(this, {title, plot, reading, map: null, at: null, cell: 0});
    plot.classList.add("map");
    reading.classList.add("reading");
  }
  show(map) {
    this.map = map;
    const {group} = map;
    const [rows, columns] = [group.queries.length, group.keys.length];
    this.title.textContent = map.name;
    this.plot.replaceChildren();
    // As large as the page allows, and large enough to read the tokens.
    const room = Math.max(220, this.plot.parentElement.clientWidth - 150);
    const cell = this.cell = Math.max(11, Math.min(38, Math.floor(room / Math.max(columns, 0.75 * rows))));
    this.plot.style.fontSize = Math.max(1, Math.min(14, cell - 1)) + "px";
    make("span", this.plot);
    const labels = (tokens, name, size) => {
      const box = make("div", this.plot, "", {class: "labels " + name, "aria-hidden": true});
      return tokens.map(token => {
        const label = make("bdi", box, visible(token));
        label.style[size] = label.style.lineHeight = cell + "px";
        return label;
      });
    };
    this.top = labels(group.keys, "columns", "width");
    this.side = labels(group.queries, "rows", "height");
    const canvas = this.canvas = make("canvas", this.plot, "", {width: columns, height: rows, tabindex: 0, role: "img",
      "aria-label": map.name + "; arrow keys read out weights below"});
    [canvas.style.width, canvas.style.height] = [columns * cell + "px", rows * cell + "px"];
    paint(canvas, map.weights);
    const within = (place, size) => Math.max(0, Math.min(size - 1, place));
    canvas.onpointermove = event => this.mark(within(Math.floor(event.offsetY / cell), rows), within(Math.floor(event.offsetX / cell), columns));
    canvas.onpointerleave = () => this.mark();
    canvas.onkeydown = event => {
      const [row, column] = this.at ?? [0, 0];
      const [y, x] = this.at ? [1, 1] : [0, 0];
      const moves = {ArrowLeft: [row, column - x], ArrowRight: [row, column + x], ArrowUp: [row - y, column], ArrowDown: [row + y, column],
        Home: [row, 0], End: [row, columns - 1], PageUp: [0, column], PageDown: [rows - 1, column], Escape: []};
      const to = moves[event.key];
      if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      if (to.length) this.mark(within(to[0], rows), within(to[1], columns)); else this.mark();
    };
    if (this.at && this.at[0] < rows && this.at[1] < columns) this.mark(...this.at); else this.mark();
  }
  // Reads out a weight; without a row, none.
  mark(row = null, column = null) {
    const {group, weights} = this.map;
    this.at = row === null ? null : [row, column];
    this.top.forEach((label, j) => label.classList.toggle("on", j === column));
    this.side.forEach((label, i) => label.classList.toggle("on", i === row));
    this.reading.textContent = "";
    if (row === null) return;
    make("bdi", this.reading, visible(group.queries[row]));
    this.reading.append(" \u2192 ");
    make("bdi", this.reading, visible(group.keys[column]));
    this.reading.append(": " + weights[row * group.keys.length + column].toFixed(3));
  }
}
