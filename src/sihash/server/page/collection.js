// The view of the collection: its classes, its bits, its items; adding and deleting.

import { get, itemPath, post, remove, request, token } from "./api.js";
import { balanceChart } from "./bits.js";
import { $, announce, confirmed, count, h, imageFiles, labelText, showError } from "./dom.js";
import { itemCard } from "./items.js";
import { askForToken, refresh } from "./main.js";
import { fromItem } from "./search.js";

const PAGE = 60;
const state = { files: [], label: null, shown: 0 }; // label: the class whose items are shown
let info = null;

export function setUp() {
  $("add-files").addEventListener("change", (event) => { choose(event.target.files); event.target.value = ""; });
  $("add").addEventListener("submit", (event) => { event.preventDefault(); add(); });
  $("browse-more").addEventListener("click", () => browse(state.shown));
  token.watch(() => info && setInfo(info));
}

export function setInfo(value) {
  info = value;
  const most = Math.max(...info.classes.map((one) => one.n_items), 1);
  $("classes").replaceChildren(...info.classes.map((one) => classRow(one, most)));
  $("no-classes").hidden = info.classes.length > 0;
  $("known-labels").replaceChildren(...info.classes.filter((one) => one.label !== null).map((one) => h("option", { value: one.label })));
  if (!info.classes.some((one) => labelText(one.label) === state.label)) state.label = null;
  $("balance-card").hidden = !info.n_items;
  if (info.n_items) $("balance").replaceChildren(balanceChart());
  $("add").hidden = !info.holds_images;
  browse(0).catch(() => {});
}

function classRow({ label, n_items }, most) {
  const name = labelText(label);
  return h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", title: name, "aria-pressed": String(name === state.label), onclick: () => pick(name) }, name)),
    h("td", {}, h("meter", { max: most, value: n_items, "aria-label": `${name}: ${count(n_items, "item")}` })),
    h("td", { class: "number" }, n_items.toLocaleString("en")),
    h("td", {}, label === null ? null : h("button", { type: "button", class: "quiet-danger", "aria-label": `Delete the class ${name}`, onclick: () => deleteClass(label, n_items) }, "delete")));
}

function pick(label) {
  state.label = state.label === label ? null : label;
  setInfo(info);
}

async function browse(offset) {
  const chosen = state.label;
  const page = await get("/v1/items", { offset, limit: PAGE, class: chosen ?? undefined });
  if (chosen !== state.label) return;
  const cards = page.items.map((item) => itemCard(item, fromItem, token.get() ? removeItem : null));
  state.shown = offset + cards.length;
  $("browse-title").textContent = chosen === null ? "Items" : `Items of ${chosen}`;
  if (offset) $("browse").append(...cards);
  else $("browse").replaceChildren(...(cards.length ? cards : [h("li", { class: "empty" }, h("strong", {}, "No items"), "Add some images above.")]));
  $("browse-more").hidden = cards.length < PAGE;
}

async function removeItem(item) {
  if (!(await confirmed("Remove this item?", `${item.name} will not be found any more. The image file itself is left alone.`, "Remove"))) return;
  await change(() => remove(itemPath(item.id)), "Removed.");
}

async function deleteClass(label, n) {
  if (!token.get() && !(await askForToken())) return;
  const words = `${count(n, "item")} will not be found any more, at once. The hash functions forget the class with the next update. Image files are left alone.`;
  if (!(await confirmed(`Delete the class ${label}?`, words, "Delete"))) return;
  await change(() => remove("/v1/classes", { label }), `The class ${label} is deleted.`);
}

/** Do something that writes, then look at the database anew. */
async function change(work, sentence) {
  showError("add-error", null);
  try {
    await work();
    announce(sentence);
  } catch (error) {
    showError("add-error", error);
  }
  await refresh();
}

// Adding.

export function choose(files) {
  state.files = imageFiles(files);
  $("add-chosen").hidden = !state.files.length;
  $("add-chosen").textContent = `${count(state.files.length, "image")} chosen`;
  $("add-button").disabled = !state.files.length;
  $("add-button").textContent = state.files.length ? `Add ${count(state.files.length, "image")}` : "Add";
  $("add-results").replaceChildren();
  $("add-summary").hidden = true;
}

async function add() {
  if (!token.get() && !(await askForToken())) return;
  const label = $("add-label").value.trim();
  showError("add-error", null);
  $("add-button").disabled = true;
  const tally = { added: 0, skipped: 0, rejected: 0 };
  for (const [k, file] of state.files.entries()) {
    $("add-button").textContent = `Adding ${k + 1} of ${state.files.length}…`;
    try {
      tally[await addOne(file, label)] += 1;
    } catch (error) {
      showError("add-error", error);
      break;
    }
  }
  const lines = [...$("add-results").children];
  choose([]);
  $("add-results").replaceChildren(...lines);
  $("add-summary").textContent = `${tally.added} added, ${tally.skipped} known already, ${tally.rejected} rejected.`;
  $("add-summary").hidden = false;
  await refresh();
}

async function addOne(file, label) {
  const query = { name: file.name || "pasted image", ...(label && { label }) };
  let [kind, words] = ["added", ""];
  try {
    const report = await post("/v1/items", { query, body: file });
    if (report.skipped.length) [kind, words] = ["skipped", "is there already"];
    if (report.rejected.length) [kind, words] = ["rejected", report.rejected[0].reason];
  } catch (error) {
    if (![413, 415, 422].includes(error.status)) throw error;
    [kind, words] = ["rejected", error.message];
  }
  if (kind !== "added") $("add-results").append(h("li", {}, h("span", { title: file.name }, file.name || "pasted image"), h("span", { class: kind }, words)));
  return kind;
}
