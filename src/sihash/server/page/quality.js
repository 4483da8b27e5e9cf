// The view of quality: the database compared with other methods, and one sentence of advice.

import { get } from "./api.js";
import { $, announce, count, h, showError } from "./dom.js";

const FIGURES = ["p_at_1", "p_at_10", "map"];

export const view = { name: "quality", title: "Quality", setUp, setInfo };

function setUp() {
  $("measure").addEventListener("click", measure);
}

let isMeasuring = false;

/** A change of the database makes the measurement invalid. */
function setInfo(info) {
  $("quality-result").hidden = true;
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
  if (value) $("quality-result").hidden = true;
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
}

/** A number with a bar as long as it is large. */
function figure(value, isBest) {
  const cell = h("td", { class: isBest ? "figure best" : "figure" }, value.toFixed(3));
  cell.style.setProperty("--share", `${100 * Math.max(0, Math.min(1, value))}%`);
  return cell;
}

const timeText = (row) => `${Number(row.ms_per_query.toPrecision(2))} ms`;
const sizeText = (bytes) => (bytes < 1000 ? count(bytes, "byte") : `${(bytes / 1000).toFixed(1)} kB`);
