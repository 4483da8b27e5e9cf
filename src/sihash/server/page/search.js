// The view that searches: a query, filters, a grid of what was found.

import { get, itemPath, post } from "./api.js";
import { strip } from "./bits.js";
import { $, announce, count, h, imageFiles, labelText, percent, showError } from "./dom.js";
import { hitCard, image, itemCard, picture } from "./items.js";

const PAGE = 48;
const RANKS = { combined: "class and likeness", label: "likely class", vector: "likeness of vectors", asymmetric: "margins of the query", hamming: "Hamming distance" };
const state = { query: null, mode: "k", k: 24, radius: 2, rank: "", classes: new Set(), shown: 0 };
let info = null;
let running = null; // AbortController of the search under way

export function setUp() {
  $("query-file").addEventListener("change", (event) => { fromFiles(event.target.files); event.target.value = ""; });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("input", readFilters);
  $("all-classes").addEventListener("click", () => { state.classes.clear(); showClasses(); changed(); });
  $("more").addEventListener("click", () => browse(state.shown));
  $("filters-box").open = matchMedia("(min-width: 721px)").matches; // on a phone, results come first
}

/** New facts about the database: other classes, another version. */
export function setInfo(value) {
  const isNewVersion = info && info.version !== value.version;
  const known = JSON.stringify(info?.classes);
  info = value;
  $("radius").max = info.n_bits;
  if ($("rank").childElementCount !== info.ranks.length) {
    $("rank").replaceChildren(...info.ranks.map((rank) => h("option", { value: rank }, RANKS[rank] ?? rank)));
    state.rank ||= info.rank;
    $("rank").value = state.rank;
  }
  if (known !== JSON.stringify(info.classes)) showClasses();
  if (isNewVersion || known !== JSON.stringify(info.classes)) run();
}

function showClasses() {
  const labels = info.classes.filter((one) => one.label !== null).map((one) => String(one.label)); // no class is none to choose
  state.classes = new Set([...state.classes].filter((label) => labels.includes(label)));
  $("class-filter").replaceChildren(...labels.map((label) =>
    h("label", {}, h("input", { type: "checkbox", name: "class", value: label, checked: state.classes.has(label) }), h("span", { title: label }, label))));
  $("all-classes").hidden = !state.classes.size;
}

let soon = 0;
function readFilters() {
  const form = new FormData($("filters"));
  state.mode = form.get("mode");
  if ($("k").validity.valid) state.k = Number(form.get("k"));
  state.radius = Number(form.get("radius"));
  state.rank = form.get("rank");
  state.classes = new Set(form.getAll("class"));
  clearTimeout(soon);
  soon = setTimeout(changed, 150);
}

function changed() {
  $("k-row").hidden = state.mode !== "k";
  $("radius-row").hidden = state.mode !== "radius";
  $("radius-value").textContent = state.radius;
  $("all-classes").hidden = !state.classes.size;
  writeAddress();
  run();
}

// The address holds the search, so that it can be kept or sent to a colleague.

export function readAddress(parameters) {
  if (!parameters.size && !state.query) return;
  state.k = Number(parameters.get("k")) || state.k;
  state.mode = parameters.has("radius") ? "radius" : "k";
  state.radius = Number(parameters.get("radius") ?? state.radius);
  state.rank = parameters.get("rank") ?? state.rank;
  state.classes = new Set(parameters.getAll("class"));
  const id = parameters.get("item");
  if (id !== null) state.query = { id };
  else if (state.query?.id !== undefined) state.query = null;
  $("k").value = state.k;
  $("radius").value = state.radius;
  $("radius-value").textContent = state.radius;
  document.querySelector(`[name=mode][value=${state.mode}]`).checked = true;
  $("k-row").hidden = state.mode !== "k";
  $("radius-row").hidden = state.mode !== "radius";
  if (!info) return;
  if (state.rank) $("rank").value = state.rank;
  showClasses();
  run();
}

function writeAddress() {
  const parameters = new URLSearchParams();
  if (state.query?.id !== undefined) parameters.set("item", state.query.id);
  if (state.mode === "radius") parameters.set("radius", state.radius);
  else parameters.set("k", state.k);
  if (state.rank !== info.rank) parameters.set("rank", state.rank);
  for (const label of state.classes) parameters.append("class", label);
  const address = `#search?${parameters}`;
  if (address !== location.hash) history.pushState(null, "", address);
}

// Queries.

export function fromFiles(files) {
  const [file] = imageFiles(files);
  if (!file) return showError("query-error", new Error("That is no image file."));
  if (state.query?.address) URL.revokeObjectURL(state.query.address);
  state.query = { file, address: URL.createObjectURL(file) };
  writeAddress();
  return run();
}

export function fromItem(item) {
  state.query = { id: item.id };
  writeAddress();
  run();
  scrollTo({ top: 0 });
}

async function run() {
  if (!info) return;
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  showError("query-error", null);
  $("results").classList.add("waiting");
  try {
    if (state.query) await search(signal);
    else await browse(0, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    failed(error);
  }
  if (running.signal === signal) $("results").classList.remove("waiting");
}

async function search(signal) {
  const query = {
    ...(state.mode === "radius" ? { radius: state.radius, k: 200 } : { k: state.k }),
    rank: state.rank, class: [...state.classes],
  };
  const { id, file } = state.query;
  if (file) showQueryImage(state.query.address, file.name);
  const [answer, about] = await Promise.all(file
    ? [post("/v1/search/image", { query, body: file, signal }), post("/v1/classify/image", { body: file, signal }).catch(() => null)]
    : [get(`${itemPath(id)}/search`, query, signal), get(itemPath(id), {}, signal)]);
  if (!file) showQueryItem(about);
  state.stale = answer.version !== info.version ? (state.stale ?? 0) + 1 : 0;
  if (state.stale && state.stale < 10) setTimeout(run, 300); // a new version is still being loaded
  showAnswer(answer);
  showQueryCode(answer, file ? about : null);
}

function showQueryImage(address, name) {
  $("query-preview").replaceChildren(h("div", { class: "picture" }, image(address)));
  showQueryWords("Your image", name || "pasted image");
}

function showQueryItem(item) {
  $("query-preview").replaceChildren(picture(item));
  showQueryWords(labelText(item.label), item.name);
}

function showQueryWords(title, name) {
  $("query-choose").textContent = "Choose another";
  $("query-words").replaceChildren(h("h2", {}, title), h("p", { class: "quiet name", title: name }, name), clearButton());
}

const clearButton = () => h("button", { type: "button", class: "link", onclick: () => { state.query = null; writeAddress(); run(); } }, "clear");

function showQueryCode(answer, classification) {
  $("query-details").hidden = false;
  const picture = strip(answer.query_code, null, info.n_bits, { words: "Bits of the query; arrow keys explain each", focusable: true });
  picture.id = "the-query-strip";
  $("query-strip").replaceChildren(picture);
  $("query-classes").replaceChildren();
  if (!classification) return;
  const likely = [...classification.probabilities].sort((a, b) => b.probability - a.probability).slice(0, 3);
  $("query-classes").replaceChildren(h("h2", {}, "Looks like"), h("div", { class: "probabilities" }, likely.map(({ label, probability }) =>
    h("div", { class: "bar-row" }, h("span", {}, labelText(label)), h("meter", { value: probability, "aria-label": labelText(label) }), h("output", {}, percent(probability))))));
}

function showAnswer(answer) {
  $("more").hidden = true;
  const found = answer.hits.length;
  $("results-title").textContent = found ? `${count(found, "item")} found` : "Nothing found";
  $("results-note").replaceChildren(...(answer.remark ? [h("strong", { class: "remark" }, `Your query ${answer.remark}. `)] : []), legend());
  $("results").replaceChildren(...(found
    ? answer.hits.map((hit) => hitCard(hit, answer.query_code, fromItem))
    : [empty("Nothing found", state.mode === "radius" ? "No code lies within this radius. Allow more bits to differ." : "No item fits the filter.")]));
  announce(`${count(found, "item")} found, version ${answer.version}.${answer.remark ? ` Your query ${answer.remark}.` : ""}`);
}

const legend = () => h("span", { class: "legend" },
  h("span", {}, h("i", { class: "one" }), "set"), h("span", {}, h("i", { class: "zero" }), "not set"), h("span", {}, h("i", { class: "off" }), "differs from the query"));

const empty = (title, words) => h("li", { class: "empty" }, h("strong", {}, title), words);

/** Without a query: the items themselves. */
async function browse(offset, signal) {
  $("query-preview").replaceChildren();
  $("query-words").replaceChildren();
  $("query-choose").textContent = "Choose an image";
  $("query-details").hidden = true;
  const page = await get("/v1/items", { offset, limit: PAGE, class: [...state.classes] }, signal);
  const cards = page.items.map((item) => itemCard(item, fromItem));
  state.shown = offset + cards.length;
  $("results-title").textContent = info.n_items ? "Pick an image to start from" : "Nothing here yet";
  $("results-note").textContent = "";
  if (offset) $("results").append(...cards);
  else $("results").replaceChildren(...(cards.length ? cards : [empty("This collection is empty", "Add images in the view “Collection”.")]));
  $("more").hidden = cards.length < PAGE;
}

function failed(error) {
  if (state.query?.file && error.status >= 400) {
    showError("query-error", error);
    $("query-details").hidden = true;
    $("more").hidden = true;
    $("results-title").textContent = "That did not work";
    $("results-note").textContent = "";
    $("results").replaceChildren(empty("This image cannot be searched for", "Choose another; JPEG, PNG, GIF, WebP and BMP can be read."));
  } else if (error.status === 404) {
    state.query = null;
    showError("query-error", new Error("That item is not there any more."));
    browse(0).catch(() => {});
  } else if (error.status) {
    showError("query-error", error);
  }
  announce(error.message);
}
