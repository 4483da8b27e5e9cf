// The items that are selected, on whatever view; what can be done to all of them at once; and one step back.

import { post, token } from "./api.js";
import { $, announce, confirmed, count, h, labelsText, showError } from "./dom.js";
import { info } from "./items.js";
import { labelEditor } from "./labels.js";
import { askForToken, refresh } from "./main.js";
import { markOnMap } from "./map.js";

const MOST_ASKED = 1000; // items in one request
const selected = new Map(); // text of the id → id
const watchers = [];
let last = null; // the card that was picked last: where a range begins
let editor = null;
let done = null; // what was done last, until something else is selected: {words, canUndo}

export const isSelected = (id) => selected.has(String(id));
export const watchSelection = (tell) => watchers.push(tell);
export const selectedIds = () => [...selected.values()];

/** Select these items, beside those that are or in their place. */
export function select(ids, { more = false } = {}) {
  done = null;
  if (!more) selected.clear();
  for (const id of ids) selected.set(String(id), id);
  changed();
}

export const toggle = (id) => put([id], !isSelected(id));

function put(ids, isOn) {
  done = null;
  for (const id of ids) {
    if (isOn) selected.set(String(id), id);
    else selected.delete(String(id));
  }
  changed();
}

/** The box of a card: a click picks it, with shift all from the last one on. */
export function pickBox(item, name) {
  const box = h("input", { type: "checkbox", class: "pick", "aria-label": `Select ${name}`, title: "Select; with shift, all up to here" });
  box.checked = isSelected(item.id);
  box.item = item;
  box.addEventListener("click", (event) => {
    const cards = [...box.closest("ul, ol").querySelectorAll(".pick")];
    const [from, to] = [event.shiftKey ? cards.indexOf(last) : -1, cards.indexOf(box)];
    const range = from < 0 ? [box] : cards.slice(Math.min(from, to), Math.max(from, to) + 1);
    put(range.map((one) => one.item.id), box.checked);
    last = box;
  });
  return box;
}

function changed() {
  for (const box of document.querySelectorAll(".pick")) {
    box.checked = isSelected(box.item.id);
    box.closest(".item")?.classList.toggle("picked", box.checked);
  }
  showBar();
  for (const tell of watchers) tell();
}

// The bar at the foot of the page: how many there are, what can be done, what was done.

export function setUpSelection() {
  const button = (words, onclick, properties = {}) => h("button", { type: "button", onclick, ...properties }, words);
  document.body.append(
    h("section", { id: "selection", class: "selection", "aria-label": "Selection", hidden: true },
      h("p", { id: "selection-words", "aria-live": "polite" }),
      h("div", { id: "selection-actions", class: "buttons" },
        button("Relabel", () => $("relabel-dialog").showModal(), { class: "edits" }), button("Remove", removeAll, { class: "edits" }),
        button("Export", exportAll), button("Show on the map", () => markOnMap(selectedIds(), `${count(selected.size, "selected item")}`)), button("Clear", () => select([]))),
      h("div", { id: "selection-done", class: "buttons", hidden: true }, button("Undo", undo, { id: "selection-undo" }), button("Close", () => { done = null; showError("selection-error", null); showBar(); })),
      h("p", { id: "selection-error", class: "error", role: "alert", hidden: true })),
    h("dialog", { id: "relabel-dialog", "aria-labelledby": "relabel-title" },
      h("form", { method: "dialog", class: "stack" },
        h("h2", { id: "relabel-title" }, "Labels of all selected items"),
        h("p", { class: "quiet" }, "They take the place of the labels that these items have. None: they become unlabelled."),
        h("div", { id: "relabel-labels", class: "label-editor" }),
        h("div", { class: "buttons" }, button("Cancel", () => $("relabel-dialog").close("")), h("button", { type: "submit", class: "primary" }, "Relabel")))));
  editor = labelEditor($("relabel-labels"), { id: "relabel-label" });
  $("relabel-dialog").addEventListener("submit", (event) => { event.preventDefault(); $("relabel-dialog").close(""); relabelAll(editor.take()); });
}

function showBar() {
  $("selection").hidden = !selected.size && !done;
  $("selection-actions").hidden = !selected.size;
  $("selection-done").hidden = !done;
  $("selection-undo").hidden = !done?.canUndo;
  $("selection-words").textContent = [done?.words, selected.size ? `${count(selected.size, "item")} selected.` : ""].filter(Boolean).join(" ");
  document.body.classList.toggle("selecting", !$("selection").hidden);
}

/**
 * Change many items at once: `work` does it and gives the sentence that says what it did. The bar offers to take it
 * back. Gives whether it was done.
 */
export async function changeMany(work, canUndo = true) {
  if (!token.get() && !(await askForToken())) return false;
  showError("selection-error", null);
  try {
    done = { words: await work(), canUndo };
    announce(done.words);
  } catch (error) {
    $("selection").hidden = false;
    showError("selection-error", error);
    return false;
  }
  showBar();
  await refresh();
  return true;
}

const relabelAll = (labels) => changeMany(async () => {
  const { relabelled } = await post("/v1/items/relabel", { json: { ids: selectedIds(), label: labels } });
  select([]);
  return `${count(relabelled.length, "item")} relabelled: ${labelsText(labels)}.`;
});

async function removeAll() {
  if (!(await confirmed(`Remove ${count(selected.size, "item")}?`, "They will be removed from all searches at once. Image files are not deleted.", "Remove"))) return;
  await changeMany(async () => {
    const { removed } = await post("/v1/items/remove", { json: { ids: selectedIds() } });
    select([]);
    return `${count(removed.length, "item")} removed.`;
  });
}

const undo = () => changeMany(async () => `Undone: ${(await post("/v1/undo")).undone}.`, false); // one step, not two

// Reading many.

/** Items by their ids, those that are still there, some at a time. */
export async function itemsOf(ids, signal) {
  const found = [];
  for (let from = 0; from < ids.length; from += MOST_ASKED) {
    const { items } = await post("/v1/items/by-id", { json: { ids: ids.slice(from, from + MOST_ASKED) }, signal });
    found.push(...items);
  }
  return found;
}

/** A table of the selected items, for a spreadsheet or a script. */
async function exportAll() {
  showError("selection-error", null);
  try {
    const items = await itemsOf(selectedIds());
    const columns = Object.keys(info.columns);
    const cell = (value) => (/[",\r\n]/.test(String(value ?? "")) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
    const rows = [["id", "label", "name", ...columns], ...items.map((item) => [item.id, item.labels.join("|"), item.name, ...columns.map((name) => item.columns[name])])];
    const address = URL.createObjectURL(new Blob([rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("")], { type: "text/csv" }));
    h("a", { href: address, download: `${info.name}-${items.length}-items.csv` }).click();
    URL.revokeObjectURL(address);
    announce(`${count(items.length, "item")} exported.`);
  } catch (error) {
    showError("selection-error", error);
  }
}
