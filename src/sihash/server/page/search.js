// The view that searches: a query, filters, a grid of what was found.

import { get, itemPath, post } from "./api.js";
import { hideBeside, showBeside } from "./beside.js";
import { strip } from "./bits.js";
import { byName, MANY, matching } from "./classes.js";
import { $, announce, breakable, count, empty, h, imageFiles, labelsText, labelText, percent, shortName, showError } from "./dom.js";
import { drawAsSeen, pieces } from "./drawing.js";
import { setUpFind, showFind } from "./find.js";
import { hitCard, image, itemCard, picture, placeholders, titleOf } from "./items.js";
import { hasSeveral } from "./labels.js";
import { markOnMap } from "./map.js";
import { look } from "./viewer.js";

const SAMPLE = 48;
const RANKS = { combined: "class and likeness", hamming: "Hamming distance", vector: "likeness of vectors" };
const state = { query: null, mode: "k", k: 24, radius: 2, rank: "", classes: new Set(), where: "", seed: 0, isAnswered: false, isBeside: false };
let info = null;
let running = null; // AbortController of the search under way
const watchers = []; // of the filters

export const view = { name: "search", title: "Search", setUp, setInfo, show: readAddress };

function setUp() {
  $("query-file").addEventListener("change", takeChosen);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("input", readFilters);
  $("class-search").addEventListener("input", (event) => { event.stopPropagation(); showClasses(); });
  $("where").addEventListener("input", (event) => event.stopPropagation()); // half a condition is none
  $("where").addEventListener("change", () => { state.where = $("where").value.trim(); changed(); });
  $("all-classes").addEventListener("click", () => { state.classes.clear(); showClasses(); changed(); });
  $("others").addEventListener("click", () => { state.seed += 1; run(); });
  $("beside").addEventListener("click", () => { state.isBeside = !state.isBeside; run(); });
  setUpFind({ text: fromText, vector: fromVector });
  $("filters-box").open = $("query-box").open = matchMedia("(min-width: 721px)").matches; // on a phone, results come first
  $("results").replaceChildren(...placeholders(SAMPLE / 2));
  takeChosen(); // a file chosen before this script was loaded
}

/** New facts about the database: other classes, another version. */
function setInfo(value) {
  const isNew = !info || info.version !== value.version || JSON.stringify(info.classes) !== JSON.stringify(value.classes);
  info = value;
  $("radius").max = info.n_bits;
  if ($("rank").childElementCount !== info.ranks.length) {
    $("rank").replaceChildren(...info.ranks.map((rank) => h("option", { value: rank }, RANKS[rank] ?? rank)));
    state.rank ||= info.rank;
    $("rank").value = state.rank;
  }
  $("query-choose").hidden = $("query-file").hidden = !info.holds_images;
  $("query-ways").textContent = info.holds_images ? "or drop or paste one, or click any item" : "or click any item";
  showColumns();
  showFind();
  if (isNew) showClasses();
  if (isNew || !state.isAnswered) run();
}

// Filters.

/** The chosen classes, then all others that have the wanted text in their names. */
function showClasses() {
  const classes = byName(info.classes.filter((one) => one.label !== null)); // no class is none to choose
  const known = new Set(classes.map((one) => String(one.label)));
  state.classes = new Set([...state.classes].filter((label) => known.has(label)));
  const isMany = classes.length > MANY;
  $("class-search").hidden = !isMany;
  $("class-search").placeholder = `Find one of ${classes.length.toLocaleString("en")} classes`;
  const found = matching(classes, isMany ? $("class-search").value : "").map((one) => String(one.label));
  const rest = isMany ? found.filter((label) => !state.classes.has(label)) : found;
  $("chosen-classes").replaceChildren(...(isMany ? [...state.classes].map(chip) : []));
  $("chosen-classes").hidden = !isMany || !state.classes.size;
  $("class-filter").scrollTop = 0;
  drawAsSeen($("class-filter"), pieces(rest, chip, 80));
  $("class-none").hidden = rest.length > 0 || !classes.length;
  $("all-classes").hidden = !state.classes.size;
}

/** What conditions can be about, and how they are written. */
function showColumns() {
  const columns = Object.entries(info.columns);
  $("where-row").hidden = !columns.length && !state.where;
  const written = (name) => (/^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
  const example = { number: "< 20", text: "= '…'", "true or false": "= true" };
  const examples = Object.entries(example).map(([kind, rest]) => [columns.find((one) => one[1] === kind), rest]);
  $("where").placeholder = examples.filter(([one]) => one).slice(0, 2).map(([[name], rest]) => `${written(name)} ${rest}`).join(" and ");
  $("where-words").textContent = columns.map(([name, kind]) => `${written(name)}: ${kind}`).join(" · ");
}

const chip = (label) => h("label", {},
  h("input", { type: "checkbox", value: label, checked: state.classes.has(label), onchange: (event) => choose(label, event.target.checked) }),
  h("span", { title: label, dir: "auto" }, shortName(label)));

function choose(label, isChosen) {
  if (isChosen) state.classes.add(label);
  else state.classes.delete(label);
  if ($("class-search").hidden) $("all-classes").hidden = !state.classes.size;
  else {
    showClasses(); // it moves between the chosen and the others
    for (const input of $("filters").querySelectorAll(".chips input")) if (input.value === label) input.focus();
    if (document.activeElement === document.body) $("class-search").focus();
  }
}

/** What the filters are; other views keep to them, too. */
export const filters = () => ({ classes: [...state.classes], where: state.where });
export const watchFilters = (tell) => watchers.push(tell);

/** Choose a class or leave it out; null: all classes again. */
export function toggleClass(label) {
  if (label === null) state.classes.clear();
  else if (!state.classes.delete(label)) state.classes.add(label);
  showClasses();
  changed();
}

let soon = 0;
function readFilters() {
  const form = new FormData($("filters"));
  state.mode = form.get("mode");
  if ($("k").validity.valid) state.k = Number(form.get("k"));
  state.radius = Number(form.get("radius"));
  state.rank = form.get("rank");
  clearTimeout(soon);
  soon = setTimeout(changed, 150);
}

function showMode() {
  $("k-row").hidden = state.mode !== "k";
  $("radius-row").hidden = state.mode !== "radius";
  $("radius-value").textContent = state.radius;
}

function changed() {
  showMode();
  writeAddress(!$("view-search").hidden);
  run();
  for (const tell of watchers) tell();
}

// The address holds the search, so that it can be kept or sent to a colleague.

function readAddress(parameters) {
  if (!parameters.size && !state.query) return;
  state.k = Number(parameters.get("k")) || state.k;
  state.mode = parameters.has("radius") ? "radius" : "k";
  state.radius = Number(parameters.get("radius") ?? state.radius);
  state.rank = parameters.get("rank") ?? state.rank;
  state.classes = new Set(parameters.getAll("class"));
  $("where").value = state.where = parameters.get("where") ?? "";
  const id = parameters.get("item");
  const text = parameters.get("text");
  if (id !== null) state.query = { id };
  else if (text !== null) state.query = { text };
  else if (state.query?.id !== undefined || state.query?.text !== undefined) state.query = null;
  $("find-text").value = text ?? "";
  $("k").value = state.k;
  $("radius").value = state.radius;
  document.querySelector(`[name=mode][value=${state.mode}]`).checked = true;
  showMode();
  if (!info) return;
  if (state.rank) $("rank").value = state.rank;
  showClasses();
  run();
  for (const tell of watchers) tell();
}

function writeAddress(isGoing = true) {
  if (!info) return; // the search that follows the first facts does it
  const parameters = new URLSearchParams();
  if (state.query?.id !== undefined) parameters.set("item", state.query.id);
  if (state.query?.text !== undefined) parameters.set("text", state.query.text);
  if (state.mode === "radius") parameters.set("radius", state.radius);
  else parameters.set("k", state.k);
  if (state.rank !== info.rank) parameters.set("rank", state.rank);
  for (const label of state.classes) parameters.append("class", label);
  if (state.where) parameters.set("where", state.where);
  const address = `#search?${parameters}`;
  document.querySelector("nav [data-view=search]").href = address; // who comes back finds what was found
  if (!isGoing) return;
  if ($("view-search").hidden) location.hash = address; // shows it
  else if (address !== location.hash) history.pushState(null, "", address);
}

// Queries.

function takeChosen() {
  const files = [...$("query-file").files];
  $("query-file").value = "";
  if (files.length) fromFiles(files);
}

export function fromFiles(files) {
  const [file] = imageFiles(files);
  if (!file) return showError("query-error", new Error("This is not an image file."));
  if (state.query?.address) URL.revokeObjectURL(state.query.address);
  state.query = { file, address: URL.createObjectURL(file) };
  showQueryImage(state.query.address, file.name);
  writeAddress();
  return run();
}

export function fromItem(item) {
  state.query = { id: item.id };
  writeAddress();
  run();
  scrollTo({ top: 0 });
}

function fromText(text) {
  state.query = text ? { text } : null;
  writeAddress();
  run();
}

function fromVector(vector) {
  state.query = { vector };
  $("query-preview").replaceChildren();
  showQueryWords("Your vector", count(vector.length, "number"));
  writeAddress();
  run();
}

/** Search, or show a sample where there is nothing to search for. What was asked too early is asked again later. */
async function run() {
  state.isAnswered = false;
  if (!info) return;
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  showError("query-error", null);
  setWaiting(true);
  try {
    if (state.where !== filtered && !(await canFilter(signal))) showOnly(empty("Nothing found", "The condition on columns cannot be used; the filters say why."));
    else if (state.query?.text !== undefined) await find(signal);
    else if (state.query) await search(signal);
    else await browse(signal);
    state.isAnswered = true;
  } catch (error) {
    if (error.name === "AbortError") return;
    state.isAnswered = error.status !== 0; // no answer at all: again when the service is back
    failed(error);
  }
  if (running.signal === signal) setWaiting(false);
}

let filtered = ""; // the condition that was found to be one last, if it can be used
/** Whether the condition on columns can be used; what is wrong with it is told beside it, not with the query. */
async function canFilter(signal) {
  let problem = null;
  try {
    if (state.where) await get("/v1/items", { limit: 1, where: state.where }, signal);
    filtered = state.where;
  } catch (error) {
    if (error.status !== 422) throw error;
    problem = error;
    filtered = null;
    $("filters-box").open = true;
    $("results-title").textContent = "That did not work";
    $("results-note").textContent = "";
  }
  showError("where-error", problem);
  $("where").setAttribute("aria-invalid", Boolean(problem));
  return !problem;
}

function setWaiting(isWaiting) {
  $("results").classList.toggle("waiting", isWaiting);
  $("results").setAttribute("aria-busy", isWaiting);
}

async function search(signal) {
  const query = {
    ...(state.mode === "radius" ? { radius: state.radius, k: 200 } : { k: state.k }),
    rank: state.rank, class: [...state.classes], where: state.where || undefined,
  };
  const { id } = state.query;
  const isGiven = id === undefined; // it is no item of the collection
  $("results-title").textContent = "Searching…";
  $("others").hidden = true;
  const [answer, about] = await Promise.all([ask(query, signal), isGiven ? classify(signal).catch(() => null) : get(itemPath(id), {}, signal)]);
  if (!isGiven) showQueryItem(about);
  state.stale = answer.version !== info.version ? (state.stale ?? 0) + 1 : 0;
  if (state.stale && state.stale < 10) setTimeout(run, 300); // a new version is still being loaded
  showAnswer(answer, isGiven ? [] : about.labels);
  showQueryCode(answer, isGiven ? about : null);
  $("beside").hidden = info.version === 1;
  $("beside").setAttribute("aria-pressed", state.isBeside && info.version > 1);
  if (state.isBeside && info.version > 1) await showBeside(answer, isGiven ? [] : about.labels, () => ask({ ...query, before_update: true }, signal), fromItem);
}

/** The answer to the query, whatever it is. */
function ask(query, signal) {
  const { id, file, vector } = state.query;
  if (file) return post("/v1/search/image", { query, body: file, signal });
  if (!vector) return get(`${itemPath(id)}/search`, query, signal);
  const { class: classes, ...options } = query;
  return post("/v1/search/vector", { json: { ...options, classes, vector }, signal });
}

function classify(signal) {
  const { file, vector } = state.query;
  return file ? post("/v1/classify/image", { body: file, signal }) : post("/v1/classify/vector", { json: { vector }, signal });
}

/** Items that hold a text; the one whose id it is becomes the query. */
async function find(signal) {
  const { text } = state.query;
  const filter = { class: [...state.classes], where: state.where || undefined };
  const { items } = await get("/v1/items", { text, limit: 200, ...filter }, signal);
  if (items.length && (items.length === 1 || String(items[0].id) === text)) return fromItem(items[0]);
  $("query-preview").replaceChildren();
  showQueryWords(`“${text}”`, "in an id, a name or a column");
  $("query-details").hidden = $("others").hidden = $("beside").hidden = true;
  hideBeside();
  $("results-title").textContent = items.length ? `${items.length === 200 ? "200 items or more" : count(items.length, "item")} with this text` : "Nothing found";
  $("results-note").textContent = items.length ? "Pick one to search from it." : "";
  showHits(items);
  const actions = { open: fromItem, look: (item) => look(item, items) };
  if (items.length) drawAsSeen($("results"), pieces(items, (item) => itemCard(item, actions), SAMPLE));
  else showOnly(empty("Nothing found", "No item has this text in its id, its name or a column."));
  announce($("results-title").textContent);
}

/** Offer to ring on the map what was found. */
function showHits(hits) {
  const words = `${count(hits.length, "item")} that the search found`;
  $("on-map").hidden = !hits.length;
  $("on-map").onclick = () => markOnMap(hits.map((hit) => hit.id), words);
}

function showQueryImage(address, name) {
  $("query-preview").replaceChildren(h("div", { class: "picture" }, image(address)));
  showQueryWords("Your image", name || "pasted image");
}

function showQueryItem(item) {
  $("query-preview").replaceChildren(picture(item));
  showQueryWords(labelsText(item.labels), titleOf(item), () => look(item));
}

function showQueryWords(title, name, onLook) {
  $("query-choose").textContent = "Choose another";
  $("query-words").replaceChildren(
    h("h2", { dir: "auto", title }, title), h("p", { class: "quiet title", dir: "auto", title: name }, breakable(name)),
    h("p", {}, onLook ? [h("button", { type: "button", class: "link", onclick: onLook }, "look closer"), " "] : null,
      h("button", { type: "button", class: "link", onclick: clear }, "clear")));
}

function clear() {
  state.query = null;
  writeAddress();
  run();
}

function showQueryCode(answer, classification) {
  $("query-details").hidden = false;
  const picture = strip(answer.query_code, null, info.n_bits, { words: "Bits of the query; arrow keys explain each", focusable: true });
  picture.id = "the-query-strip";
  $("query-strip").replaceChildren(picture);
  $("query-classes").replaceChildren();
  if (!classification) return;
  const n = Math.max(3, classification.labels.length);
  const likely = [...classification.probabilities].sort((a, b) => b.probability - a.probability).slice(0, n);
  $("query-classes").replaceChildren(h("h2", {}, "Looks like"), h("div", { class: "probabilities" }, likely.map(({ label, probability }) =>
    h("div", { class: "bar-row" }, h("span", { dir: "auto", title: labelText(label) }, labelText(label)), h("meter", { value: probability, "aria-label": labelText(label) }), h("output", {}, percent(probability))))));
}

function showAnswer(answer, asked) {
  const found = answer.hits.length;
  hideBeside();
  showHits(answer.hits);
  $("results-title").textContent = found ? `${count(found, "item")} found` : "Nothing found";
  $("results-note").replaceChildren(...(answer.remark ? [h("strong", { class: "remark" }, `Your query ${answer.remark}. `)] : []), legend(asked.length && hasSeveral()));
  if (found) {
    const actions = { open: fromItem, look: (hit) => look(hit, answer.hits), asked };
    drawAsSeen($("results"), pieces(answer.hits, (hit) => hitCard(hit, answer.query_code, actions), SAMPLE));
  } else {
    showOnly(empty("Nothing found", state.mode === "radius" ? "No item is within this radius. Allow more bits to differ." : "No item matches the filter."));
  }
  announce(`${count(found, "item")} found, version ${answer.version}.${answer.remark ? ` Your query ${answer.remark}.` : ""}`);
}

const showOnly = (element) => drawAsSeen($("results"), pieces([element], (one) => one));

const legend = (showsLabels) => h("span", { class: "legend" },
  showsLabels ? h("span", {}, h("i", { class: "common" }), "label in common") : null,
  h("span", {}, h("i", { class: "one" }), "set"), h("span", {}, h("i", { class: "zero" }), "not set"), h("span", {}, h("i", { class: "off" }), "differs from the query"));

/** Without a query: items of as many classes as fit, to start from. */
async function browse(signal) {
  hideBeside();
  $("on-map").hidden = $("beside").hidden = true;
  $("query-preview").replaceChildren();
  $("query-words").replaceChildren();
  $("query-choose").textContent = "Choose an image";
  $("query-details").hidden = true;
  const { items } = await get("/v1/sample", { limit: SAMPLE, seed: state.seed, class: [...state.classes], where: state.where || undefined }, signal);
  const isFiltered = state.classes.size || state.where;
  $("results-title").textContent = items.length ? "Pick an item to start from" : isFiltered ? "Nothing found" : "Nothing here yet";
  const shown = new Set(items.flatMap((item) => (item.labels.length ? item.labels.map(String) : [labelText(null)]))).size;
  const ofAll = shown < info.classes.length ? `${shown} of ${info.classes.length.toLocaleString("en")} classes` : count(shown, "class", "classes");
  $("results-note").textContent = items.length < info.n_items ? `${count(items.length, "item")} from ${ofAll}, drawn at random` : "";
  $("others").hidden = items.length < SAMPLE;
  const actions = { open: fromItem, look: (item) => look(item, items) };
  if (items.length) drawAsSeen($("results"), pieces(items, (item) => itemCard(item, actions), SAMPLE));
  else if (isFiltered) showOnly(empty("Nothing found", "No item matches the filter."));
  else showOnly(empty("This collection is empty", "Add images in the view “Collection”."));
}

function failed(error) {
  const { file, vector } = state.query ?? {};
  if ((file || vector) && error.status >= 400) {
    showError("query-error", error);
    $("query-details").hidden = true;
    $("results-title").textContent = "That did not work";
    $("results-note").textContent = "";
    showOnly(file ? empty("This image cannot be searched for", "Choose another; JPEG, PNG, GIF, WebP and BMP can be read.") : empty("This vector cannot be searched for", "The sentence beside it says why."));
  } else if (error.status === 404) {
    state.query = null;
    browse().catch(() => {});
    showError("query-error", new Error("This item no longer exists."));
  } else if (error.status) {
    showError("query-error", error);
  }
  announce(error.message);
}
