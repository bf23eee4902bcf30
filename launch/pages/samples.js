// SPDX-License-Identifier: Apache-2.0
"use strict";

const allSamples = data.runs.flatMap(run => run.samples.map(samples => ({run, ...samples})));

function showSamples() {
  const samples = allSamples[byId("sample-set").selectedIndex];
  const at = byId("sample-step").selectedIndex;
  const beside = byId("sample-other").value;
  byId("sample-back").disabled = at === 0;
  byId("sample-on").disabled = at === samples.steps.length - 1;
  byId("samples").replaceChildren();
  samples.lines.forEach((line, i) => {
    const list = make("dl", byId("samples"), "", {class: "sample"});
    const row = (title, text, kind = "") => {
      make("dt", list, title);
      return make("bdi", make("dd", list, "", {class: kind}), visible(text));
    };
    if (samples.sources[i]) row(`${plain(line)}: source`, samples.sources[i], "muted");
    if (samples.references[i]) row("reference", samples.references[i], "muted");
    const text = samples.translations[at][i];
    const other = beside === "reference" ? samples.references[i] : at > 0 ? samples.translations[at - 1][i] : text;
    addChanged(row("translation", ""), other, text);
  });
}

function addSamples() {
  if (!allSamples.length) return;
  byId("samples-section").hidden = false;
  const set = byId("sample-set"), step = byId("sample-step");
  for (const {run, set: name} of allSamples)
    make("option", set, visible(data.runs.length > 1 ? `${run.name}: ${name}` : name));
  const choose = () => {
    step.replaceChildren();
    for (const at of allSamples[set.selectedIndex].steps) make("option", step, plain(at));
    step.selectedIndex = step.options.length - 1;
    showSamples();
  };
  const move = by => { step.selectedIndex += by; showSamples(); };
  set.onchange = choose;
  step.onchange = byId("sample-other").onchange = showSamples;
  byId("sample-back").onclick = () => move(-1);
  byId("sample-on").onclick = () => move(1);
  choose();
}
