// SPDX-License-Identifier: Apache-2.0
#include "launch/attention_page_template.h"

namespace ventris {

const char* const kAttentionPageHead = R"html(<title>Attention</title>
<style>
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --line: #d8dce3; --text: #1b1f27; --muted: #5d6675;
}
@media (prefers-color-scheme: dark) {
  :root { --page: #14171c; --panel: #1b1f26; --line: #343b47; --text: #e6e9ee; --muted: #9aa4b2; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --panel: #fff; --line: #999; --text: #000; --muted: #444; }
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
section { margin-bottom: 26px; break-inside: avoid; }
aside { position: sticky; top: 12px; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; padding: 14px 16px; max-height: calc(100vh - 24px); overflow: auto; }
@media (max-width: 900px) {
  main { grid-template-columns: minmax(0, 1fr); }
  aside { order: -1; position: static; max-height: none; }
}
@media print {
  body { padding: 0; font-size: 10pt; }
  main { display: block; }
  aside { position: static; max-height: none; overflow: visible; border: 0; padding: 0; break-inside: avoid; }
  .maps { overflow: visible; }
  .screen { display: none; }
}
)html";

const char* const kAttentionPageBody = R"html(</style>
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
<p class="screen">Point at a map to see it here; click it to keep it here. With the keyboard: Tab to the large map, arrow keys read
out weights.</p>
<div id="plot"></div>
<p id="reading"></p>
</aside>
</main>
<script type="application/json" id="data">)html";

const char* const kAttentionPageTail = R"html(
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
</script>
</body>
</html>
)html";

}  // namespace ventris
