// The view of quality: the database beside what one would otherwise take, and one sentence of advice.

import { get } from "./api.js";
import { $, announce, count, h, showError } from "./dom.js";

const FIGURES = ["p_at_1", "p_at_10", "map"];

export function setUp() {
  $("measure").addEventListener("click", measure);
}

/** What was measured is of the database as it was; a change takes it away. */
export function setInfo(info) {
  $("quality-result").hidden = true;
  $("measure").disabled = !info.n_items;
}

async function measure() {
  showError("quality-error", null);
  $("measure").disabled = true;
  $("measure").textContent = "Measuring…";
  try {
    show(await get("/v1/evaluation"));
  } catch (error) {
    showError("quality-error", error);
  }
  $("measure").disabled = false;
  $("measure").textContent = "Measure";
}

function show(found) {
  const best = Object.fromEntries(FIGURES.map((name) => [name, Math.max(...found.rows.map((row) => row[name]))]));
  $("advice").textContent = found.advice;
  $("alternatives").replaceChildren(...found.rows.map((row, k) => h("tr", { class: k ? "" : "own" },
    h("th", { scope: "row" }, row.name),
    h("td", {}, sizeText(row.bytes_per_item)),
    FIGURES.map((name) => h("td", { class: row[name] === best[name] ? "best" : "" }, row[name].toFixed(3))),
    h("td", {}, `${Number(row.ms_per_query.toPrecision(2))} ms`))));
  $("quality-skipped").replaceChildren(...found.skipped.map(({ name, reason }) => h("li", {}, `${name}: skipped, ${reason}.`)));
  const leftOut = found.n_left_out ? `, ${found.n_left_out.toLocaleString("en")} left out: nothing relevant` : "";
  $("quality-note").textContent = `Version ${found.version}: ${count(found.n_queries, "query", "queries")}${leftOut}; ${count(found.n_items, "item")}. ${found.note}`;
  $("quality-result").hidden = false;
  announce(found.advice);
}

const sizeText = (bytes) => (bytes < 1000 ? count(bytes, "byte") : `${(bytes / 1000).toFixed(1)} kB`);
