// The view of the collection: its classes, its bits, its items; adding and deleting.

import { get, itemPath, post, remove, token } from "./api.js";
import { balanceChart, wantStatistics } from "./bits.js";
import { byName, bySize, MANY, matching } from "./classes.js";
import { $, announce, breakable, confirmed, count, empty, h, imageFiles, labelsText, labelText, shortName, showError } from "./dom.js";
import { drawAsSeen, pieces } from "./drawing.js";
import { itemCard, placeholders, titleOf } from "./items.js";
import { labelEditor } from "./labels.js";
import { askForToken, refresh } from "./main.js";
import { fromItem } from "./search.js";
import { look } from "./viewer.js";

const PAGE = 60;
const state = { files: [], label: null }; // label: the class whose items are shown
let info = null;
let addedLabels = null; // the editor of the labels that images are added with

export const view = { name: "collection", title: "Collection", setUp, setInfo, show };

function setUp() {
  $("add-files").addEventListener("change", (event) => { choose(event.target.files); event.target.value = ""; });
  $("add").addEventListener("submit", (event) => { event.preventDefault(); add(); });
  addedLabels = labelEditor($("add-labels"), { id: "add-label" });
  $("find-class").addEventListener("input", showClasses);
  for (const input of document.querySelectorAll("[name=class-order]")) input.addEventListener("change", showClasses);
  token.watch(() => info && browse());
}

function setInfo(value) {
  info = value;
  if (!info.classes.some((one) => labelText(one.label) === state.label)) state.label = null;
  $("n-classes").textContent = info.classes.length > MANY ? info.classes.length.toLocaleString("en") : "";
  $("no-classes").hidden = info.classes.length > 0;
  $("find-class").hidden = info.classes.length <= MANY;
  $("balance-card").hidden = !info.n_items;
  $("add").hidden = $("about-features").hidden = !info.holds_images;
  $("about-features").textContent = `Photos are described by ${info.about_features}.`;
  showClasses();
  browse();
  if (!$("view-collection").hidden) showBalance();
}

function show() {
  if (info) showBalance();
}

async function showBalance() {
  if (!info.n_items) return;
  await wantStatistics();
  $("balance").replaceChildren(...balanceChart());
}

// Classes.

function showClasses() {
  if (!info) return;
  const sorted = document.querySelector("[name=class-order]:checked").value === "size" ? bySize : byName;
  const most = Math.max(...info.classes.map((one) => one.n_items), 1);
  const found = matching(sorted(info.classes), $("find-class").hidden ? "" : $("find-class").value);
  drawAsSeen($("classes"), pieces(found, (one) => classRow(one, most)));
}

function classRow({ label, n_items, n_only }, most) {
  const name = labelText(label);
  return h("tr", {},
    h("th", { scope: "row" }, label === null ? h("span", { class: "label none" }, name) : h("button", { type: "button", class: "link", title: name, dir: "auto", "aria-pressed": String(name === state.label), onclick: () => pick(name) }, breakable(shortName(name)))),
    h("td", { class: "meter" }, h("meter", { max: most, value: n_items, "aria-label": `${name}: ${count(n_items, "item")}` })),
    h("td", { class: "number" }, n_items.toLocaleString("en")),
    h("td", {}, label === null ? null : h("button", { type: "button", class: "quiet-danger", "aria-label": `Delete the class ${name}`, onclick: () => deleteClass(label, n_only, n_items - n_only) }, "delete")));
}

function pick(label) {
  state.label = state.label === label ? null : label;
  for (const button of $("classes").querySelectorAll("th button")) button.setAttribute("aria-pressed", String(button.title === state.label));
  browse();
}

// Items, in the order in which they came.

function browse() {
  const label = state.label;
  const shown = [];
  const actions = { open: fromItem, look: (item) => look(item, shown), remove: token.get() ? removeItem : null };
  $("browse-title").textContent = label === null ? "Items" : `Items of ${label}`;
  if (!$("browse").childElementCount) $("browse").replaceChildren(...placeholders(12));
  drawAsSeen($("browse"), async (from) => {
    try {
      const { items } = await get("/v1/items", { offset: from, limit: PAGE, class: label ?? undefined });
      shown.push(...items);
      return items.length || from ? items.map((item) => itemCard(item, actions)) : [empty("No items", info.holds_images ? "Add some images above." : "Add some with sihash add, or the client.")];
    } catch {
      return []; // the top of the page says that the service is away; this is asked again when it is back
    }
  });
}

async function removeItem(item) {
  if (!(await confirmed("Remove this item?", `${titleOf(item)} will be removed from all searches. The image file is not deleted.`, "Remove"))) return;
  await change(async () => {
    await remove(itemPath(item.id));
    return "Removed.";
  });
}

/** An item loses the label, and goes if it has no other: both are counted before anything is done. */
async function deleteClass(label, nGo, nStay) {
  if (!token.get() && !(await askForToken())) return;
  const words = [
    nGo ? `${count(nGo, "item")} ${nStay ? "with no other label " : ""}will be removed from all searches at once.` : "No item goes.",
    nStay ? `${count(nStay, "item")} with other labels ${nStay === 1 ? "loses" : "lose"} this one and ${nStay === 1 ? "stays" : "stay"}.` : "",
    "The hash functions forget the class with the next update. Image files are not deleted.",
  ].filter(Boolean).join(" ");
  if (!(await confirmed(`Delete the class ${label}?`, words, "Delete"))) return;
  await change(async () => {
    const { removed, relabelled } = await remove("/v1/classes", { label });
    return `The class ${label} is deleted: ${count(removed.length, "item")} removed, ${relabelled.length} without this label now.`;
  });
}

/** Do something that writes and says what it did, then look at the database again. */
async function change(work) {
  showError("add-error", null);
  try {
    announce(await work());
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
  const labels = addedLabels.take();
  showError("add-error", null);
  $("add-button").disabled = true;
  const tally = { added: 0, skipped: 0, rejected: 0 };
  let left = [];
  for (const [k, file] of state.files.entries()) {
    $("add-button").textContent = `Adding ${k + 1} of ${state.files.length}…`;
    try {
      tally[await addOne(file, labels)] += 1;
    } catch (error) {
      showError("add-error", error);
      left = state.files.slice(k); // they stay chosen
      break;
    }
  }
  const lines = [...$("add-results").children];
  choose(left);
  $("add-results").replaceChildren(...lines);
  $("add-summary").textContent = `${tally.added} added, ${tally.skipped} known already, ${tally.rejected} rejected.`;
  $("add-summary").hidden = false;
  await refresh();
}

async function addOne(file, labels) {
  const query = { name: file.name || "pasted image", label: labels };
  let [kind, words] = ["added", ""];
  try {
    const report = await post("/v1/items", { query, body: file });
    const [conflict] = report.conflicts;
    if (report.skipped.length) [kind, words] = ["skipped", conflict ? `is there already, labelled ${labelsText(conflict.kept)}` : "is there already"];
    if (report.rejected.length) [kind, words] = ["rejected", report.rejected[0].reason];
  } catch (error) {
    if (![413, 415, 422].includes(error.status)) throw error;
    [kind, words] = ["rejected", error.message];
  }
  if (kind !== "added") $("add-results").append(h("li", {}, h("span", { title: file.name }, file.name || "pasted image"), h("span", { class: kind }, words)));
  return kind;
}
