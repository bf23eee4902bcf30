// SPDX-License-Identifier: Apache-2.0
"use strict";
const space = byId("space").namespaceURI;
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
  ["Scores of the script of validations", ofSets("script")],
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
const skips = curve => curve.key === "skipped_steps" && curve.points.value.every(value => value === 0);
const drawn = charts.filter(chart => chart.curves.length && !chart.curves.every(skips));
