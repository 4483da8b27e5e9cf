// The view of quality: the database compared with other methods, and one sentence of advice.

import { get } from "./api.js";
import { matching } from "./classes.js";
import { $, announce, breakable, count, h, labelText, shortened, shortName, showError } from "./dom.js";
import { drawAsSeen, pieces } from "./drawing.js";
import { itemsOf } from "./selection.js";
import { look } from "./viewer.js";

const FIGURES = ["p_at_1", "p_at_10", "map"];

export const view = { name: "quality", title: "Quality", setUp, setInfo };

function setUp() {
  $("measure").addEventListener("click", measure);
  $("find-measured").addEventListener("input", showClasses);
}

let isMeasuring = false;
let classes = []; // what was measured of each, the worst first

/** A change of the database makes the measurement invalid. */
function setInfo(info) {
  $("quality-result").hidden = $("class-quality").hidden = true;
  $("measure").disabled = isMeasuring || !info.n_items;
}

async function measure() {
  showError("quality-error", null);
  setMeasuring(true);
  try {
    show(await get("/v1/evaluation"));
  } catch (error) {
    showError("quality-error", error);
  }
  setMeasuring(false);
}

function setMeasuring(value) {
  isMeasuring = value;
  $("measure").disabled = value;
  $("measure").textContent = value ? "Measuring…" : "Measure";
  $("measuring").hidden = !value;
  if (value) $("quality-result").hidden = $("class-quality").hidden = true;
}

function show(found) {
  const best = Object.fromEntries(FIGURES.map((name) => [name, Math.max(...found.rows.map((row) => row[name]))]));
  $("advice").textContent = found.advice;
  $("alternatives").replaceChildren(...found.rows.map((row, k) => h("tr", { class: k ? "" : "own" },
    h("th", { scope: "row" }, row.name, h("small", { class: "narrow quiet" }, `${sizeText(row.bytes_per_item)} · ${timeText(row)}`)),
    h("td", { class: "wide" }, sizeText(row.bytes_per_item)),
    FIGURES.map((name) => figure(row[name], row[name] === best[name])),
    h("td", { class: "wide" }, timeText(row)))));
  $("quality-skipped").replaceChildren(...Object.entries(found.skipped).map(([name, reason]) => h("li", {}, `${name}: skipped, ${reason}.`)));
  const leftOut = found.n_left_out ? `, ${found.n_left_out.toLocaleString("en")} left out: nothing relevant` : "";
  $("quality-note").textContent = `Version ${found.version}: ${count(found.n_queries, "query", "queries")}${leftOut}; ${count(found.n_items, "item")}. ${found.note}`;
  $("quality-result").hidden = false;
  announce(found.advice);
  classes = [...found.classes].sort((a, b) => a.p_at_1 - b.p_at_1 || a.p_at_10 - b.p_at_10);
  $("class-quality").hidden = !classes.length;
  $("n-measured").textContent = classes.length.toLocaleString("en");
  showClasses();
}

// By class, with what it is taken for; the items that were are one click away.

function showClasses() {
  drawAsSeen($("measured-classes"), pieces(matching(classes, $("find-measured").value), (one) => h("tr", {},
    h("th", { scope: "row", dir: "auto", title: labelText(one.label) }, breakable(shortened(labelText(one.label), 40)), h("small", { class: "quiet" }, ` ${count(one.n_queries, "query", "queries")}`)),
    figure(one.p_at_1), h("td", { class: "figure wide" }, one.p_at_10.toFixed(3)),
    h("td", { class: "taken" }, one.confused.length ? one.confused.map((other) => confusion(one, other)) : h("span", { class: "quiet" }, "nothing else")))));
}

const confusion = ({ label }, { label: other, n, items }) => h("button", {
  type: "button", class: "link", dir: "auto", title: `Look at items of ${labelText(label)} that found ${labelText(other)} first`, onclick: () => lookAt(items),
}, breakable(shortName(labelText(other))), ` ×${n}`);

async function lookAt(ids) {
  showError("quality-error", null);
  try {
    const items = await itemsOf(ids);
    if (items.length) look(items[0], items);
  } catch (error) {
    showError("quality-error", error);
  }
}

/** A number with a bar as long as it is large. */
function figure(value, isBest) {
  const cell = h("td", { class: isBest ? "figure best" : "figure" }, value.toFixed(3));
  cell.style.setProperty("--share", `${100 * Math.max(0, Math.min(1, value))}%`);
  return cell;
}

const timeText = (row) => `${Number(row.ms_per_query.toPrecision(2))} ms`;
const sizeText = (bytes) => (bytes < 1000 ? count(bytes, "byte") : `${(bytes / 1000).toFixed(1)} kB`);
