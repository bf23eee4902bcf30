// SPDX-License-Identifier: Apache-2.0
"use strict";

const small = [];  // all small maps on the page
const large = new LargeMap(byId("title"), byId("plot"), byId("reading"));
let kept = null;   // the map that was chosen
function keep(map) {
  kept = map;
  press(small, map);
  large.show(map);
}

function addGroup(group) {
  const section = make("section", byId("groups"));
  make("h2", section, group.title);
  make("p", section, group.note);
  small.push(...addSmallMaps(section, mapsOf(group), {show: map => large.show(map),
    leave: () => large.map === kept || large.show(kept), keep}));
}

byId("source").textContent = visible(data.source);
byId("target").textContent = visible(data.target);
byId("model").textContent = visible(data.model);
if (data.translated) byId("kind-of-target").textContent = "Translation";
data.groups.forEach(addGroup);
addMapLegend(document.querySelector("aside"));
const resize = () => sizeSmallMaps(small, byId("groups").clientWidth);
repaintMaps = () => {
  for (const {map, canvas} of small) paint(canvas, map.weights);
  if (large.map) large.show(large.map);
};
resize();
repaintMaps();
keep(small[Math.max(0, data.groups[0].layers - 2) * (data.groups[0].heads + 1)].map);
onresize = () => { resize(); large.show(large.map); };
document.documentElement.dataset.maps = small.length;
