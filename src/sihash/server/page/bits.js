// Codes as strips of bits, and what a bit means.

import { get } from "./api.js";
import { $, count, h, labelText, percent, svg } from "./dom.js";

const PER_ROW = 32;
const ROW = 10; // height of a row in units of a bit's width, before scaling
const NEAR_ZERO = 0.15; // a mean margin below this share of the bit's largest takes no side

// What /v1/bits says. It grows with the number of classes, so it is asked for when somebody first points at a bit.
let statistics = null;
let asked = null;
export const forgetStatistics = () => { statistics = asked = null; };

export function wantStatistics() {
  asked ??= get("/v1/bits").then((found) => { statistics = found; }, () => { asked = null; });
  return asked;
}

/** Hex of packed bytes, least significant bit first → array of booleans. */
export function bitsOf(hex, n) {
  return Array.from({ length: n }, (_, j) => (parseInt(hex.slice(2 * (j >> 3), 2 * (j >> 3) + 2), 16) >> (j & 7)) & 1);
}

/** A strip: the item's bits, and above each the query's, if there is one; those that differ stand out. */
export function strip(code, query, n, { words = "", focusable = false } = {}) {
  const bits = bitsOf(code, n);
  const against = query ? bitsOf(query, n) : null;
  const rows = Math.ceil(n / PER_ROW);
  const width = Math.min(n, PER_ROW);
  const scale = focusable ? 0.42 : 0.4; // units of height → widths of a bit
  const paths = { one: "", zero: "", off: "", "off-zero": "" };
  const add = (kind, x, y, height) => { paths[kind] += `M${x + 0.06} ${y * scale}h.88v${height * scale}h-.88z`; };
  bits.forEach((bit, j) => {
    const [x, y] = [j % PER_ROW, Math.floor(j / PER_ROW) * ROW];
    const differs = against && against[j] !== bit;
    if (against) add(differs ? (against[j] ? "off" : "off-zero") : against[j] ? "one" : "zero", x, y + (differs ? 0 : 1), differs ? 3 : 2);
    const top = against ? 3.6 : 0;
    add(differs ? (bit ? "off" : "off-zero") : bit ? "one" : "zero", x, y + top, (differs ? 5.2 : 4.2) + (against ? 0 : 4));
  });
  const pointed = svg("rect", { class: "pointed", width: 1, height: 9 * scale, rx: 0.12, hidden: true });
  pointed.style.display = "none";
  const picture = svg("svg", {
    class: "strip", viewBox: `-0.1 -0.1 ${width + 0.2} ${rows * ROW * scale - 0.1}`, role: "img", "aria-label": words,
    tabindex: focusable ? 0 : undefined,
  }, Object.entries(paths).filter(([, d]) => d).map(([kind, d]) => svg("path", { class: kind, d })), pointed);
  Object.assign(picture, { bits, against, pointed, scale });
  picture.addEventListener("pointermove", (event) => {
    const j = bitAt(picture, event, n, rows);
    point(j);
    if (j !== null) showTooltip(j, picture, event.clientX, event.clientY);
  });
  picture.addEventListener("pointerleave", () => { point(null); pointedAt = null; $("tooltip").hidden = true; });
  if (focusable) byKeyboard(picture, n);
  return picture;
}

function bitAt(picture, event, n, rows) {
  const box = picture.getBoundingClientRect();
  const x = Math.floor(((event.clientX - box.left) / box.width) * Math.min(n, PER_ROW));
  const y = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
  const j = y * PER_ROW + x;
  return x >= 0 && y >= 0 && j < n ? j : null;
}

/** Mark one bit in all strips. */
function point(j) {
  for (const picture of document.querySelectorAll(".strip")) {
    picture.pointed.style.display = j === null ? "none" : "";
    if (j === null) continue;
    picture.pointed.setAttribute("x", j % PER_ROW);
    picture.pointed.setAttribute("y", Math.floor(j / PER_ROW) * ROW * picture.scale);
  }
}

function byKeyboard(picture, n) {
  let j = 0;
  const show = () => {
    point(j);
    const shown = j;
    explained(() => shown === j && $("bit-words").replaceChildren(...explain(j)));
  };
  picture.addEventListener("focus", show);
  picture.addEventListener("blur", () => point(null));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: PER_ROW, ArrowUp: -PER_ROW }[event.key];
    if (!step) return;
    event.preventDefault();
    j = Math.max(0, Math.min(n - 1, j + step));
    show();
  });
}

/** Call now, and once more when it is known what the bits mean. */
function explained(tell) {
  tell();
  if (!statistics) wantStatistics().then(tell);
}

let pointedAt = null;
function showTooltip(j, picture, x, y) {
  pointedAt = picture;
  explained(() => pointedAt === picture && placeTooltip(j, picture, x, y));
}

function placeTooltip(j, picture, x, y) {
  const words = explain(j);
  if (picture.against) words.push(h("br"), picture.against[j] === picture.bits[j] ? "Agrees with the query." : "Differs from the query.");
  if (picture.id === "the-query-strip") $("bit-words").replaceChildren(...explain(j));
  const box = $("tooltip");
  (document.querySelector("dialog[open]") ?? document.body).append(box); // above an open dialog, not behind it
  box.replaceChildren(...words);
  box.hidden = false;
  box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${y + 20 + box.offsetHeight > innerHeight ? y - box.offsetHeight - 12 : y + 20}px`;
}

/** Which classes a bit separates, in words. */
function explain(j) {
  const words = [h("strong", {}, `Bit ${j + 1}`)];
  if (!statistics) return [...words, ": asking what it separates…"];
  if (!statistics.balance.length) return words;
  words.push(`, set in ${percent(statistics.balance[j])} of the items.`, h("br"));
  const margins = statistics.classes.map((label, k) => [labelText(label), statistics.margins[k][j]]);
  const largest = Math.max(...margins.map(([, margin]) => Math.abs(margin)), 1e-12);
  const side = (keep) => margins.filter(([, margin]) => keep(margin / largest)).map(([label]) => label);
  const [set, unset] = [side((m) => m > NEAR_ZERO), side((m) => m < -NEAR_ZERO)];
  if (!set.length || !unset.length) return [...words, "Separates no classes at present."];
  return [...words, "Separates ", h("strong", {}, some(set)), " from ", h("strong", {}, some(unset)), "."];
}

function some(names) {
  return names.length <= 6 ? names.join(", ") : `${names.slice(0, 5).join(", ")} and ${count(names.length - 5, "other")}`;
}

/** Share of items with each bit set, as bars around one half; nothing where that is not known. */
export function balanceChart() {
  if (!statistics) return [];
  const n = statistics.balance.length;
  const bars = statistics.balance.map((share, j) => svg("rect", { x: j + 0.1, y: 100 - 100 * share, width: 0.8, height: 100 * share },
    svg("title", {}, `Bit ${j + 1}: set in ${percent(share)} of the items`)));
  const mean = statistics.balance.reduce((sum, share) => sum + Math.abs(2 * share - 1), 0) / Math.max(n, 1);
  return [svg("svg", {
    class: "balance", viewBox: `0 0 ${n} 100`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Share of items with each of ${n} bits set; mean imbalance ${percent(mean)}`,
  }, bars, svg("line", { x1: 0, x2: n, y1: 50, y2: 50 }))];
}
