// A larger view of one item: the original, what is known of it, its neighbours.

import { get, itemPath, post, token } from "./api.js";
import { strip } from "./bits.js";
import { $, breakable, empty, fixed, h, showError } from "./dom.js";
import { fetched, image, info, itemCard, picture, placeholders, reasons, titleOf } from "./items.js";
import { labelEditor, labelTags } from "./labels.js";
import { askForToken, refresh } from "./main.js";
import { fromItem } from "./search.js";

const NEIGHBOURS = 10;
const state = { list: [], item: null, address: null };
let running = null; // AbortController of what is being asked for
let editor = null; // of the labels
let saving = Promise.resolve(); // changes of labels, one after the other

export function setUpViewer() {
  $("viewer-search").addEventListener("click", () => { $("viewer").close(); fromItem(state.item); });
  $("viewer-back").addEventListener("click", () => step(-1));
  $("viewer-next").addEventListener("click", () => step(1));
  $("viewer").addEventListener("keydown", (event) => {
    if (event.target.closest(".strip, input")) return; // there the arrows go from bit to bit, from letter to letter
    if (event.key === "ArrowLeft") step(-1);
    if (event.key === "ArrowRight") step(1);
  });
  $("viewer").addEventListener("click", (event) => event.target === $("viewer") && $("viewer").close()); // beside it
  $("viewer").addEventListener("close", () => { running?.abort(); forgetPicture(); focusCard(); });
  editor = labelEditor($("viewer-labels"), { id: "viewer-label", changed: (labels) => { saving = saving.then(save(state.item, labels)); } });
  $("viewer-edit").addEventListener("click", edit);
  token.watch(() => token.get() || showEditor(false));
}

/** The card that was looked at, if it was drawn anew meanwhile. */
function focusCard() {
  if (document.activeElement !== document.body || !state.item) return;
  const cards = [...document.querySelectorAll(`main [data-id="${CSS.escape(state.item.id)}"] .closer`)];
  cards.find((one) => one.checkVisibility())?.focus();
}

// Labels.

async function edit() {
  if (!$("viewer-labels").hidden) return showEditor(false);
  if (!token.get() && !(await askForToken())) return;
  showEditor(true);
  editor.focus();
}

function showEditor(isShown) {
  $("viewer-labels").hidden = !isShown;
  $("viewer-edit").setAttribute("aria-expanded", isShown);
}

const save = (item, labels) => async () => {
  showError("viewer-error", null);
  try {
    const answer = await post("/v1/items/relabel", { json: { ids: [item.id], label: labels } });
    Object.assign(item, { label: answer.label, labels: answer.labels });
  } catch (error) {
    showError("viewer-error", error);
    if (state.item === item) editor.set(item.labels);
  }
  if (state.item === item) showLabels(item);
  await refresh();
};

const showLabels = (item) => $("viewer-title").replaceChildren(labelTags(item.labels));

/** Show an item; `list` is what it stands in, to go back and forth in. */
export function look(item, list = [item]) {
  state.list = list;
  if (!$("viewer").open) $("viewer").showModal();
  show(item);
}

export const closeViewer = () => $("viewer").close();

function step(by) {
  const next = state.list[state.list.findIndex((one) => one.id === state.item.id) + by];
  if (next) show(next);
}

async function show(item) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  state.item = item;
  const place = state.list.findIndex((one) => one.id === item.id);
  $("viewer-back").disabled = place <= 0;
  $("viewer-next").disabled = place < 0 || place === state.list.length - 1;
  showLabels(item);
  editor.set(item.labels);
  $("viewer-labels").inert = true; // until it is known which labels it has now
  $("viewer-name").replaceChildren(...breakable(titleOf(item)));
  $("viewer-why").replaceChildren(...(item.why ? [h("h3", {}, `Score ${fixed(item.score, 2)}, because of`), reasons(item.why)] : []));
  $("viewer-near").replaceChildren(...placeholders(NEIGHBOURS));
  $("viewer").scrollTop = 0;
  showError("viewer-error", null);
  showPicture(item, signal);
  try {
    const [about, answer] = await Promise.all([get(itemPath(item.id), {}, signal), get(`${itemPath(item.id)}/search`, { k: NEIGHBOURS }, signal)]);
    if (signal.aborted) return;
    showFacts(about);
    Object.assign(item, { label: about.label, labels: about.labels });
    showLabels(item);
    editor.set(item.labels);
    $("viewer-labels").inert = false;
    const near = answer.hits;
    $("viewer-near").replaceChildren(...(near.length ? near.map((hit) => itemCard(hit, { open: () => look(hit, near), asked: item.labels })) : [empty("None", "There is no other item.")]));
  } catch (error) {
    if (error.name === "AbortError") return;
    $("viewer-near").replaceChildren();
    $("viewer-facts").replaceChildren();
    showError("viewer-error", error.status === 404 ? new Error("This item no longer exists.") : error);
  }
}

/** The small picture at once, then the original in its place. */
async function showPicture(item, signal) {
  forgetPicture();
  $("viewer-picture").replaceChildren(picture(item));
  $("viewer-note").textContent = info.holds_images ? "Fetching the original…" : "";
  if (!info.holds_images) return;
  const address = await fetched(`${itemPath(item.id)}/image`, signal);
  if (signal.aborted) return void (address && URL.revokeObjectURL(address));
  state.address = address;
  $("viewer-note").textContent = address ? "" : "The original is missing or has changed; this is the stored thumbnail.";
  if (address) $("viewer-picture").replaceChildren(h("div", { class: "picture" }, image(address)));
}

function forgetPicture() {
  if (state.address) URL.revokeObjectURL(state.address);
  state.address = null;
}

/** What is known of the item; its columns as the user gave them. */
function showFacts(item) {
  const facts = [...Object.entries(item.columns), ["Item", item.id], ["Since version", item.version], ["SHA-256", item.sha256]];
  $("viewer-facts").replaceChildren(...facts.flatMap(([name, value]) => [
    h("dt", { dir: "auto" }, name), h("dd", { dir: "auto" }, breakable(typeof value === "object" ? JSON.stringify(value) : value))]));
  $("viewer-code").replaceChildren(h("h3", {}, "Its code"), strip(item.code, null, info.n_bits, { words: `Its code, ${info.n_bits} bits` }));
}
