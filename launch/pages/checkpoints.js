// SPDX-License-Identifier: Apache-2.0
"use strict";

// In the order of the groups of the data.
const attentionKinds = ["Cross-attention", "Encoder self-attention", "Decoder self-attention"];
const attentionChoice = name => byId("attention-" + name);
const panels = [];  // of the runs that have checkpoints

// The groups of maps that a panel shows now, or nothing, and why.
function mapsShown(panel) {
  const checkpoint = panel.checkpoints[panel.step.selectedIndex];
  const result = checkpoint.sentences[attentionChoice("sentence").selectedIndex];
  const problem = checkpoint.problem || result?.problem;
  if (problem) return {checkpoint, problem};
  const target = data.sentences[attentionChoice("sentence").selectedIndex].reference ? attentionChoice("target").value : "translated";
  const groups = result[target];
  const missing = (target === "given" && result.given_problem) || (!groups && "The page had no room for these maps.");
  return {checkpoint, result, groups, problem: missing || ""};
}

function showTranslation(panel, result) {
  panel.texts.replaceChildren();
  if (!result) return;
  const {source, reference} = data.sentences[attentionChoice("sentence").selectedIndex];
  const before = panel.checkpoints[panel.step.selectedIndex - 1]?.sentences[attentionChoice("sentence").selectedIndex];
  const other = reference && attentionChoice("other").value === "reference" ? reference
    : before && !before.problem ? before.translation : result.translation;
  make("dt", panel.texts, "translation");
  const shown = make("bdi", make("dd", panel.texts), "");
  for (const [kind, part] of differences(other, result.translation))
    make(kind === "gone" ? "del" : kind === "new" ? "ins" : "span", shown, visible(part));
  if (!result.translation) shown.append("\u2013");
}

function showPanel(panel) {
  panel.section.hidden = !shown[panel.r];
  if (panel.section.hidden) return;
  const at = panel.step.selectedIndex;
  panel.back.disabled = at === 0;
  panel.on.disabled = at === panel.checkpoints.length - 1;
  const {checkpoint, result, groups, problem} = mapsShown(panel);
  panel.file.textContent = visible(checkpoint.file + (at !== panel.model ? "" : panel.best ? ", the best" : ", the newest"));
  showTranslation(panel, result);
  panel.problem.textContent = visible(problem);
  panel.view.hidden = !groups;
  panel.small = [];
  if (!groups) return;
  const group = groups[attentionChoice("kind").selectedIndex];
  const layers = mapsOf(group);
  const layer = Math.min(attentionChoice("layer").selectedIndex, layers.length - 1);
  const head = attentionChoice("head").value === "mean" ? group.heads : Math.min(Number(attentionChoice("head").value), group.heads - 1);
  const map = layers[layer][head];
  panel.overview.replaceChildren();
  panel.small = addSmallMaps(panel.overview, layers, {show: one => panel.large.show(one),
    leave: () => panel.large.map === map || panel.large.show(map),
    keep: one => {
      attentionChoice("layer").selectedIndex = one.layer;
      attentionChoice("head").value = one.head === group.heads ? "mean" : one.head;
      const place = panel.small.findIndex(other => other.map === one);
      panels.forEach(showPanel);
      panel.small[place].button.focus({preventScroll: true});
    }});
  sizeSmallMaps(panel.small, panel.overview.clientWidth);
  for (const one of panel.small) paint(one.canvas, one.map.weights);
  press(panel.small, map);
  panel.large.show(map);
}

function showSentence() {
  const {source, reference} = data.sentences[attentionChoice("sentence").selectedIndex];
  const texts = byId("attention-texts");
  texts.replaceChildren();
  for (const [title, text] of [["source", source], ["reference", reference]]) {
    if (!text) continue;
    make("dt", texts, title);
    make("bdi", make("dd", texts, "", {class: "muted"}), visible(text));
  }
  attentionChoice("target-label").hidden = attentionChoice("other").parentElement.hidden = !reference;
  panels.forEach(showPanel);
}

function addPanel(run, r) {
  const {checkpoints, problem, model, model_is_best: best, kept} = run.attention;
  const section = make("section", byId("attention-runs"));
  const heading = make("h3", section);
  if (data.runs.length > 1) make("span", heading, "", {class: "swatch", style: `border-color: ${colour(r)}`});
  make("bdi", heading, visible(run.name));
  if (problem || !checkpoints.length)
    make("p", section, visible(problem || "Its checkpoints were removed meanwhile."), {class: "warning"});
  if (!checkpoints.length) return;
  const choices = make("div", section, "", {class: "choices"});
  const label = make("label", choices, "step ");
  const step = make("select", label, "", {class: "attention-step", "aria-label": "step of the checkpoint of " + visible(run.name)});
  for (const checkpoint of checkpoints) make("option", step, plain(checkpoint.step));
  step.selectedIndex = model;
  const back = make("button", choices, "\u2190", {"aria-label": "earlier checkpoint"});
  const on = make("button", choices, "\u2192", {"aria-label": "later checkpoint"});
  const file = make("bdi", choices, "", {style: "color: var(--muted)"});
  if (kept > checkpoints.length) make("span", choices, `${checkpoints.length} of ${kept} checkpoints`, {style: "color: var(--muted)"});
  const texts = make("dl", section, "", {class: "sample", "aria-live": "polite"});
  const fault = make("p", section, "", {class: "warning"});
  const view = make("div", section, "", {class: "attention"});
  const overview = make("div", view);
  const box = make("div", view, "", {class: "large", "aria-live": "polite"});
  const large = new LargeMap(make("h4", box), make("div", box), make("p", box));
  const panel = {r, section, checkpoints, model, best, step, back, on, file, texts, problem: fault, view, overview, large, small: []};
  const move = by => { step.selectedIndex += by; showPanel(panel); };
  step.onchange = () => showPanel(panel);
  back.onclick = () => move(-1);
  on.onclick = () => move(1);
  panels.push(panel);
}

function addAttention() {
  if (!data.sentences.length) return;
  byId("attention-section").hidden = false;
  data.sentences.forEach(({source}, i) => make("option", attentionChoice("sentence"), visible(`${i + 1}: ${Array.from(source).slice(0, 60).join("")}`)));
  attentionChoice("sentence-label").hidden = data.sentences.length === 1;
  for (const kind of attentionKinds) make("option", attentionChoice("kind"), kind);
  data.runs.forEach(addPanel);
  const all = panels.flatMap(panel => panel.checkpoints.flatMap(({sentences}) => sentences.flatMap(of => [of.translated, of.given])));
  const groups = all.filter(Boolean);
  const heads = Math.max(1, ...groups.flat().map(group => group.heads));
  make("option", attentionChoice("head"), "mean of all", {value: "mean"});
  for (let head = 0; head < heads; ++head) make("option", attentionChoice("head"), head + 1, {value: head});
  const setLayers = () => {
    const kind = attentionChoice("kind").selectedIndex, select = attentionChoice("layer");
    const before = select.selectedIndex, layers = Math.max(1, ...groups.map(of => of[kind].layers));
    select.replaceChildren();
    for (let layer = 1; layer <= layers; ++layer) make("option", select, layer);
    select.selectedIndex = before < 0 ? Math.max(0, layers - 2) : Math.min(before, layers - 1);
  };
  setLayers();
  attentionChoice("kind").onchange = () => { setLayers(); panels.forEach(showPanel); };
  attentionChoice("sentence").onchange = showSentence;
  for (const name of ["layer", "head", "target", "other"]) attentionChoice(name).onchange = () => panels.forEach(showPanel);
  if (groups.length) addMapLegend(byId("attention-section"));
  repaintMaps = () => panels.forEach(panel => {
    for (const {map, canvas} of panel.small) paint(canvas, map.weights);
    if (panel.small.length && !panel.section.hidden) panel.large.show(panel.large.map);
  });
  showSentence();
  document.documentElement.dataset.maps = panels.reduce((sum, panel) => sum + panel.small.length, 0);
}

function resizeAttention() {
  for (const panel of panels) {
    sizeSmallMaps(panel.small, panel.overview.clientWidth);
    if (panel.small.length && !panel.section.hidden) panel.large.show(panel.large.map);
  }
}
