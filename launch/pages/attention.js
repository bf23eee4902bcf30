// SPDX-License-Identifier: Apache-2.0
"use strict";
const {checkpoints, reference} = data;
let small = [];  // all small maps on the page
let kept = {kind: 0, layer: Infinity, head: 0};  // the map that was chosen; the next to last layer at first
const large = new LargeMap(byId("title"), byId("plot"), byId("reading"));

function showMaps(groups) {
  byId("maps").hidden = !groups;
  byId("groups").replaceChildren();
  small = [];
  if (!groups) return;
  const drawn = groups.map(group => ({group, layers: mapsOf(group)}));
  const keptMap = () => {
    const {layers} = drawn[kept.kind];
    const maps = layers[kept.layer === Infinity ? Math.max(0, layers.length - 2) : Math.min(kept.layer, layers.length - 1)];
    return maps[Math.min(kept.head, maps.length - 1)];
  };
  const keep = map => {
    kept = {kind: groups.indexOf(map.group), layer: map.layer, head: map.head};
    press(small, map);
    large.show(map);
  };
  for (const {group, layers} of drawn) {
    const section = make("section", byId("groups"));
    make("h2", section, group.title);
    make("p", section, group.note);
    small.push(...addSmallMaps(section, layers, {show: map => large.show(map),
      leave: () => large.map === keptMap() || large.show(keptMap()), keep}));
  }
  resize();
  for (const {map, canvas} of small) paint(canvas, map.weights);
  press(small, keptMap());
  large.show(keptMap());
}
const resize = () => sizeSmallMaps(small, byId("groups").clientWidth);

function showCheckpoint() {
  const at = byId("step").selectedIndex, checkpoint = checkpoints[at];
  const {translation = "", score, search} = checkpoint;
  byId("back").disabled = at === 0;
  byId("on").disabled = at === checkpoints.length - 1;
  const of_run = checkpoints.length === 1 || at !== data.model ? "" : data.is_best ? ", the best" : ", the newest";
  byId("model").textContent = visible(checkpoint.file + of_run);
  const other = {before: checkpoints[at - 1]?.translation, reference}[byId("beside").value] ?? translation;
  byId("translation").replaceChildren();
  addChanged(byId("translation"), other, translation);
  byId("score").textContent = score === undefined ? "" : `score ${number(score)}`
    + (search ? `, beam ${search.beam_size}, length penalty ${search.length_penalty}` : "");
  byId("reference-score").textContent = search?.reference ? `score ${number(search.reference.score)}` : "";
  const groups = checkpoint[byId("target").value];
  byId("problem").textContent = visible(checkpoint.problem || (groups ? "" : "The page had no room for these maps."));
  byId("problem").hidden = !byId("problem").textContent;
  showMaps(groups);
  showSearch(checkpoint);
}

byId("source").textContent = visible(data.source);
byId("reference").textContent = visible(reference);
checkpoints.forEach(({step}) => make("option", byId("step"), step ?? ""));
byId("step").selectedIndex = data.model;
if (checkpoints.length > 1) make("option", byId("beside"), "the checkpoint before", {value: "before", selected: ""});
if (reference) make("option", byId("beside"), "the reference", {value: "reference"});
byId("beside-label").hidden = byId("beside").options.length === 1;
document.querySelectorAll(".of-reference").forEach(element => { element.hidden = !reference; });
document.querySelectorAll(".of-steps").forEach(element => { element.hidden = checkpoints.length === 1; });
if (data.in_folder > checkpoints.length && checkpoints.length > 1)
  byId("step").after(` ${checkpoints.length} of ${data.in_folder} checkpoints`);
addMapLegend(document.querySelector("aside"));
const move = by => { byId("step").selectedIndex += by; showCheckpoint(); };
byId("back").onclick = () => move(-1);
byId("on").onclick = () => move(1);
for (const id of ["step", "target", "beside"]) byId(id).onchange = showCheckpoint;
repaintMaps = () => {
  for (const {map, canvas} of small) paint(canvas, map.weights);
  if (small.length) large.show(large.map);
};
onresize = () => { resize(); if (small.length) large.show(large.map); drawLines(); };
showCheckpoint();
document.documentElement.dataset.maps = small.length;
