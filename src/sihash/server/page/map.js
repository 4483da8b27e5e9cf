// The view of the map: all items as points, those that are alike together; coloured by class, picked and circled.

import { get } from "./api.js";
import { byName, bySize, MANY, matching } from "./classes.js";
import { $, count, empty, h, labelText, shortName, showError } from "./dom.js";
import { drawAsSeen } from "./drawing.js";
import { info, itemCard, picture, titleOf } from "./items.js";
import { scatter } from "./scatter.js";
import { filters, fromItem, toggleClass, watchFilters } from "./search.js";
import { isSelected, itemsOf, select, selectedIds, toggle, watchSelection } from "./selection.js";
import { look } from "./viewer.js";

const PIECE = 24; // cards of selected items drawn at a time
const GOLDEN = 137.508; // degrees between the hues of one class and the next
const FADED = 0.16; // how much is left of the colour of what a filter leaves out
let map = null; // the answer of /v1/map, with `place` of every id
let isOld = true; // the collection has changed since
let plot = null;
let marks = { ids: [], words: "" };
let passing = null; // texts of the ids that pass the filters; null if all do
let asking = null; // AbortController of the map being asked for

export const view = { name: "map", title: "Map", setUp, setInfo, show };

function setUp(section) {
  const tool = (value, words, isOn) => h("label", {}, h("input", { type: "radio", name: "tool", value, checked: isOn }), h("span", {}, words));
  const button = (words, onclick, properties = {}) => h("button", { type: "button", onclick, ...properties }, words);
  section.append(
    h("div", { class: "card plot" },
      h("div", { class: "card-head" },
        h("fieldset", { class: "segmented" }, h("legend", { class: "visually-hidden" }, "A drag"), tool("move", "Move", true), tool("lasso", "Lasso", false)),
        h("div", { class: "plot-tools" },
          button("+", () => plot.zoom(1.6), { "aria-label": "Closer" }), button("−", () => plot.zoom(1 / 1.6), { "aria-label": "Farther" }), button("Whole", () => plot.whole()),
          button("Select what is seen", () => select(plot.seen().map((k) => map.ids[k])), { id: "map-select-seen" }))),
      h("div", { class: "canvas-box" },
        h("canvas", { id: "map-canvas", tabindex: 0, role: "img", "aria-label": "Map of the collection. Arrow keys go from point to point, space selects, Enter looks closer, plus and minus zoom.", "aria-describedby": "map-point" }),
        h("p", { id: "map-waiting", class: "quiet", hidden: true }, h("progress", { "aria-label": "Making the map" }), "Making the map of this version. Searches continue.")),
      h("p", { id: "map-point", class: "quiet", "aria-live": "polite" }, "Click a point to select it, with shift one more; twice to look closer."),
      h("p", { id: "map-error", class: "error", role: "alert", hidden: true })),
    h("div", { class: "column" },
      h("div", { class: "card" },
        h("h2", {}, "Classes"),
        h("p", { id: "map-words", class: "quiet" }),
        h("p", { id: "map-marked", class: "quiet", hidden: true }),
        h("input", { id: "map-find", type: "search", class: "find", placeholder: "Find a class", "aria-label": "Find a class on the map", autocomplete: "off", spellcheck: "false", oninput: showLegend, hidden: true }),
        h("ul", { id: "map-legend", class: "map-legend scroll-box", "aria-label": "Classes; choosing one filters the map and the search" }),
        button("all classes again", () => toggleClass(null), { id: "map-all", class: "link", hidden: true })),
      h("div", { class: "card" },
        h("h2", {}, "Selected ", h("span", { id: "map-n-selected", class: "quiet" })),
        h("ul", { id: "map-selected", class: "grid small" }))));
  plot = scatter($("map-canvas"), {
    hover, pick, focus: tellPoint,
    circle: (places, isMore) => select(places.map((k) => map.ids[k]), { more: isMore }),
    open: async (k) => { const [item] = await itemsOf([map.ids[k]]); if (item) look(item); },
  });
  for (const input of section.querySelectorAll("[name=tool]")) input.addEventListener("change", () => plot.setLasso(input.value === "lasso"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { paint(); showLegend(); });
  watchFilters(() => { isFiltered = false; if (isShown()) filter(); });
  watchSelection(() => { if (isShown()) { paint(); showSelected(); } });
}

const isShown = () => !$("view-map").hidden;

function setInfo() {
  isOld = true;
  isFiltered = false;
  $("map-find").hidden = info.classes.length <= MANY;
  if (isShown()) show();
}

async function show() {
  if (!info.n_bits) return; // nothing is known yet: `setInfo` comes
  if (isOld) await load();
  if (!map || !isShown()) return;
  await filter();
  showSelected();
}

/** The points of the collection as it is now; until they have come, those that were. */
async function load() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  $("map-waiting").hidden = false;
  showError("map-error", null);
  try {
    const answer = await get("/v1/map", {}, signal);
    answer.place = new Map(answer.ids.map((id, k) => [String(id), k]));
    map = answer;
    isOld = false;
    plot.setPoints(Float32Array.from(map.x, (value) => value / 65535), Float32Array.from(map.y, (value) => 1 - value / 65535));
    $("map-words").textContent = map.ids.length < map.n_items ? `${map.ids.length.toLocaleString("en")} of ${count(map.n_items, "item")}, drawn at random.` : `${count(map.n_items, "item")}.`;
  } catch (error) {
    if (error.name === "AbortError") return;
    map = null;
    plot.setPoints(new Float32Array(), new Float32Array());
    showError("map-error", error);
  }
  $("map-waiting").hidden = true;
}

// Colours: of the classes; faded where a filter leaves a point out.

const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/** Red, green and blue (0 … 255) of the class at a place, as unlike those of its neighbours as hues can be. */
function colourOf(k) {
  if (k < 0) return isDark() ? [120, 130, 140] : [150, 155, 160];
  const [hue, ring] = [((k * GOLDEN) * Math.PI) / 180, Math.floor(k / 12) % 3];
  const [L, C] = [(isDark() ? 0.76 : 0.6) + [0, -0.1, 0.08][ring], [0.15, 0.11, 0.09][ring]];
  const [a, b] = [C * Math.cos(hue), C * Math.sin(hue)]; // OKLab to sRGB (Ottosson 2020)
  const [l, m, s] = [L + 0.3963 * a + 0.2158 * b, L - 0.1056 * a - 0.0639 * b, L - 0.0895 * a - 1.2915 * b].map((value) => value ** 3);
  const linear = [4.0767 * l - 3.3077 * m + 0.231 * s, -1.2684 * l + 2.6098 * m - 0.3413 * s, -0.0042 * l - 0.7034 * m + 1.7076 * s];
  return linear.map((value) => Math.round(255 * Math.max(0, Math.min(1, value <= 0.0031 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055))));
}

const packed = ([red, green, blue], alpha = 255) => ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;

function paint() {
  if (!map) return;
  const colours = [-1, ...map.labels.keys()].map(colourOf);
  const [full, faded] = [colours.map((one) => packed(one)), colours.map((one) => packed(one, Math.round(255 * FADED)))];
  const ink = getComputedStyle(document.body).color;
  plot.paint({
    colours: Uint32Array.from(map.classes, (k, at) => (passing && !passing.has(String(map.ids[at])) ? faded : full)[k + 1]),
    picked: Uint8Array.from(map.ids, (id) => isSelected(id)),
    pickedColour: packed(ink.match(/\d+/g).map(Number)),
    rings: marks.ids.map((id) => map.place.get(String(id))).filter((k) => k !== undefined),
    ringColour: ink,
  });
}

// Filters and marks, which other views set, too.

let isFiltered = false; // `passing` is what the filters let pass now
async function filter() {
  if (!map) return;
  const { classes, where } = filters();
  try {
    if (!isFiltered) passing = classes.length || where ? new Set((await get("/v1/ids", { class: classes, where: where || undefined })).ids.map(String)) : null;
    isFiltered = true;
    showError("map-error", null);
  } catch (error) {
    showError("map-error", error);
  }
  $("map-all").hidden = !classes.length;
  showLegend();
  showMarked();
  paint();
}

function showLegend() {
  if (!map) return;
  const chosen = new Set(filters().classes);
  const place = new Map(map.labels.map((label, k) => [String(label), k]));
  const sorted = [...bySize(byName(info.classes))].sort((a, b) => chosen.has(labelText(b.label)) - chosen.has(labelText(a.label)));
  const found = matching(sorted, $("map-find").hidden ? "" : $("map-find").value);
  drawAsSeen($("map-legend"), (from) => found.slice(from, from + 80).map((one) => {
    const name = labelText(one.label);
    const swatch = h("i", { class: "swatch" });
    swatch.style.background = `rgb(${colourOf(place.get(name) ?? -1).join(" ")})`;
    const words = [swatch, h("span", { class: "name", dir: "auto" }, shortName(name)), h("span", { class: "quiet" }, one.n_items.toLocaleString("en"))];
    return h("li", {}, one.label === null ? h("span", { class: "legend-row" }, words) : h("button", { type: "button", class: "legend-row", title: name, "aria-pressed": String(chosen.has(name)), onclick: () => toggleClass(name) }, words));
  }));
}

/** Ring some items on the map and show it. */
export function markOnMap(ids, words) {
  marks = { ids, words };
  if (isShown()) show();
  else location.hash = "#map";
}

function showMarked() {
  $("map-marked").hidden = !marks.ids.length;
  const n = marks.ids.filter((id) => map.place.has(String(id))).length;
  $("map-marked").replaceChildren(`Ringed: ${marks.words}${n < marks.ids.length ? `, ${n.toLocaleString("en")} of them on the map` : ""}. `,
    h("button", { type: "button", class: "link", onclick: () => select(marks.ids) }, "select them"), " ",
    h("button", { type: "button", class: "link", onclick: () => { marks = { ids: [], words: "" }; showMarked(); paint(); } }, "no rings"));
}

// Points.

const labelAt = (k) => (map.classes[k] < 0 ? labelText(null) : labelText(map.labels[map.classes[k]]));

function pick(k, isMore) {
  if (k === null) return isMore || select([]);
  return isMore ? toggle(map.ids[k]) : select([map.ids[k]]);
}

function tellPoint(k) {
  $("map-point").textContent = `${labelAt(k)}, item ${map.ids[k]}${isSelected(map.ids[k]) ? ", selected" : ""}.`;
}

let soon = 0;
/** What lies under the pointer: its class at once, its picture and title when they have come. */
function hover(k, x, y) {
  clearTimeout(soon);
  $("tooltip").hidden = k === null;
  if (k === null || !map) return;
  const box = $("tooltip");
  document.body.append(box);
  const words = [h("strong", { dir: "auto" }, shortName(labelAt(k))), h("br"), String(map.ids[k])];
  box.replaceChildren(...words);
  const canvas = $("map-canvas").getBoundingClientRect();
  const put = () => {
    box.style.left = `${Math.max(8, Math.min(canvas.left + x + 14, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${canvas.top + y + 20 + box.offsetHeight > innerHeight ? canvas.top + y - box.offsetHeight - 12 : canvas.top + y + 20}px`;
  };
  put();
  soon = setTimeout(async () => {
    const now = soon;
    const [item] = await itemsOf([map.ids[k]]).catch(() => []);
    if (now !== soon || !item) return;
    box.replaceChildren(...(info.thumbnails ? [picture(item)] : []), words[0], h("br"), titleOf(item));
    put();
  }, 150);
}

function showSelected() {
  const ids = selectedIds();
  $("map-n-selected").textContent = ids.length ? ids.length.toLocaleString("en") : "";
  if (!ids.length) return drawAsSeen($("map-selected"), (from) => (from ? [] : [empty("Nothing", "Click a point, or circle some with the lasso.")]));
  const shown = [];
  return drawAsSeen($("map-selected"), async (from) => {
    try {
      const items = await itemsOf(ids.slice(from, from + PIECE));
      shown.push(...items);
      return items.map((item) => itemCard(item, { open: fromItem, look: (one) => look(one, shown) }));
    } catch (error) {
      showError("map-error", error);
      return [];
    }
  });
}
